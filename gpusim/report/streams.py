"""What a launch's CTAs touch, in one order: the input of the pictures of reuse and of DRAM.

CTAs are executed once more and recorded (`gpusim.traffic.record`), bounded by :data:`WARP_INSTRUCTIONS` and
:data:`ENTRIES`: the first ones of the launch on all SMs, and those of single SMs, SM after SM.  Which CTA
runs on which SM is the replay's.  Variables (``__device__``, ``__constant__``) start as the binary has
them, whatever a caller had set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpusim.errors import InputError
from gpusim.events import LANES
from gpusim.functional import grid
from gpusim.functional.image import build
from gpusim.launch import materialise
from gpusim.memory.reuse import Stream, interleave
from gpusim.traffic import TrafficResult, record

if TYPE_CHECKING:
    from gpusim.functional.grid import Execution
    from gpusim.simulate import SimResult

#: Warp instructions executed for either kind of stream, about, and line accesses kept.
WARP_INSTRUCTIONS = 12_000_000
ENTRIES = 2_000_000
#: Lines that one access of a warp may touch (a stream ends where the next one does not fit).
WIDEST = 4 * LANES
#: CTAs of a single SM, in times of what it holds at once.
GENERATIONS = 4


@dataclass(frozen=True, slots=True)
class Streams:
    """Accesses of one launch, in two orders.

    each: of single SMs, one stream an SM, ``each_ctas`` CTAs in all; all: of the launch's first
    ``all_ctas`` CTAs on all SMs; ctas: of the launch.  each_cut, all_cut: only the start of what those CTAs
    do is there.
    """

    each: Sequence[Stream]
    each_ctas: int
    each_cut: bool
    all: Stream
    all_ctas: int
    all_cut: bool
    ctas: int


def needs_traffic(result: SimResult) -> TrafficResult:
    """The launch's traffic; an :class:`InputError` where it was not predicted."""
    if result.traffic is None:
        raise InputError(
            "this picture shows memory traffic, which was not predicted for the launch",
            where=result.kernel.display_name,
            hint="simulate it with memory=True",
        )
    return result.traffic


def streams(result: SimResult) -> Streams:
    """Execute and record what the streams hold."""
    moved = needs_traffic(result)
    execution = _execution(result)
    total, slots = result.launch.ctas, result.occupancy.active_blocks
    begun = _started(moved.log, slots * result.device.integer("device.sm_count"))
    by_sm = _by_sm(begun, moved.log)
    if execution.image.traits.ordered:  # some wait for others: all of them, as the replay did
        first, mine = begun, by_sm
        trace = record(execution, range(len(moved.log)))
    else:
        a_cta = max(1.0, float(result.metrics["smsp__inst_executed.sum"].value) / total)
        most = max(1, int(WARP_INSTRUCTIONS / a_cta))
        first, mine = begun[:most], _single(by_sm, GENERATIONS * slots, most)
        trace = record(execution, sorted({*first.tolist(), *(c for some in mine for c in some)}))
    room = ENTRIES // len(mine)
    each = [interleave(trace, [some], slots, room) for some in mine]
    everywhere = interleave(trace, _by_sm(first, moved.log), slots, ENTRIES)
    return Streams(
        each,
        sum(map(len, mine)),
        any(len(one.line) > room - WIDEST for one in each),
        everywhere,
        len(first),
        len(everywhere.line) > ENTRIES - WIDEST,
        total,
    )


def _by_sm(ctas: NDArray[np.int64], log: NDArray[np.int64]) -> list[list[int]]:
    """CTAs of each SM that has any."""
    return [ctas[log[ctas, 2] == sm].tolist() for sm in np.unique(log[ctas, 2])]


def _single(by_sm: list[list[int]], longest: int, most: int) -> list[list[int]]:
    """SMs from everywhere, with up to ``longest`` CTAs each and ``most`` in all; one SM at least."""
    chosen: list[list[int]] = []
    # multiples of the golden section fall evenly, however many are taken
    for k in np.argsort(np.arange(len(by_sm)) * 0.6180339887 % 1):
        some = by_sm[k][:longest]
        if chosen and sum(map(len, chosen)) + len(some) > most:
            break
        chosen.append(some)
    return chosen


def _started(log: NDArray[np.int64], at_once: int) -> NDArray[np.int64]:
    """CTAs that the replay started, in that order; rows of the others are zeros."""
    ctas = np.arange(len(log))
    started = (ctas < at_once) | (log[:, 1] > 0) | (log[:, 0] > 0)
    return ctas[started][np.argsort(log[started, 0], kind="stable")]


def _execution(result: SimResult) -> Execution:
    kernel, launch, occupancy = result.kernel, result.launch, result.occupancy
    sms = result.device.integer("device.sm_count")
    window = (
        kernel.module.elf.reserved_shared_bytes + kernel.static_shared_bytes + launch.dynamic_shared_bytes
    )
    return grid.make(
        build(kernel),
        launch,
        materialise(launch.args),
        shared_bytes=window,
        resident=occupancy.active_blocks * sms,
        sms=sms,
    )

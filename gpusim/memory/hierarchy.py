"""L1, the stage that merges requests, L2 and the way to DRAM: what a launch's records make of them.

What it models (measured on an H200: validation/measurements/h200/caches.json.xz, docs/hierarchy.md):

* **L1** of each SM: lines of four sectors, allocated on a miss, sectors filled one by one, least recently
  used line replaced, as large as the carve-out leaves it.  A sector on its way is a hit that
  waits.  Stores go through, and leave sectors that they write whole; those to one line that follow within
  some cycles leave together.  Loads past L1, atomics and loads of last use take what they touch out.  Local
  memory stays in L1 when written.
* **the merging stage** of each GPC (the profiler's LRC): reads of the same sectors by its SMs become one,
  up to a number of them, while the first is beyond the stage.
* **L2** in sides (partitions): a request goes to the side its GPC is wired to; what that side lacks it gets
  from the side the line belongs to, and keeps a copy.  A miss brings ``l2.fetch_bytes`` from DRAM.  Stores
  are kept at the line's own side and written back when replaced, or when too many ways of a set are dirty.
* **time**, only as far as it decides who comes first: SMs run side by side (`replay`), misses take the
  latency of the level that serves them, ports pass so many bytes a cycle.

Units: bytes, sectors, SM clock cycles.  Left out: constant and instruction caches, texture, TLBs,
compression, persisting lines, evict-first hints, the banks of L2.  Which set and side a line belongs to is
not published: modulo and parity stand in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim.device import DeviceSpec
from gpusim.memory.hierarchy_loop import (
    DIRTY,
    LINE_WORDS,
    MERGE_SLOTS,
    MERGE_WORDS,
    PARAMETERS,
    STATE_BITS,
    STORE_WORDS,
    TICK_BITS,
)
from gpusim.memory.replay import SLOT_WORDS, WARP_WORDS

#: Parameters taken from the device file as they stand.
_VALUES = {
    "L1_WAYS": "l1.ways", "COMBINE": "l1.store_buffer_lines", "COMBINE_CYCLES": "l1.store_buffer_cycles",
    "L1_LATENCY": "l1.latency", "QUEUE": "l1.queue", "L2_SIDES": "l2.partitions", "L2_WAYS": "l2.ways",
    "MERGE": "l2.merged_requests", "MERGE_RETURN": "l2.merge_distance",
    "L2_LATENCY": "l2.latency", "FAR_PLACE": "l2.far_place", "JITTER": "l2.latency_spread",
    "RELAUNCH_CYCLES": "launch.block_relaunch",
}  # fmt: skip
STEP = 32  # cycles that an SM runs on its own: half the time in which requests merge
TICKS = 1 << TICK_BITS  # of a cycle
NOWHERE = 1 << 48  # a line that nobody touches


def _odd(n: int) -> int:
    """The largest odd number up to n: no stride that is a power of two meets few of so many sets."""
    return max(1, n - 1 | 1) if n > 1 else 1


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes and times of a device's memories.

    values: parameters of `hierarchy_loop` by name; gpcs: SMs of each GPC; sides: the part of L2 each is
    wired to; first_sms: SMs of the first GPC that the first CTAs go to; second_first, second_interval: CTAs
    before its other SMs have their turn, and between two; dirty_at_start: sectors in L2 that wait to be
    written back; usable: the share of L1 that holds data; kept: the share of L2 that repeated reads find
    kept.
    """

    values: Mapping[str, int]
    gpcs: tuple[int, ...]
    sides: tuple[int, ...]
    first_sms: int
    second_first: int
    second_interval: int
    dirty_at_start: int
    usable: float
    kept: float

    @property
    def dirty_sectors(self) -> int:
        """Sectors that L2 holds at most before it writes them back."""
        v = self.values
        return v["L2_SIDES"] * v["L2_SETS"] * v["L2_DIRTY_HALF_WAYS"] * 2

    @property
    def l2_sectors(self) -> int:
        """Sectors that L2 has room for."""
        v = self.values
        return v["L2_SIDES"] * v["L2_SETS"] * v["L2_WAYS"] * 4

    @property
    def kept_sectors(self) -> int:
        """Sectors read by all SMs again and again that L2 keeps."""
        return int(self.kept * self.l2_sectors)

    @classmethod
    def from_device(cls, spec: DeviceSpec) -> Geometry:
        """`InputError` names what the device file lacks."""
        sms, sector = spec.integer("device.sm_count"), spec.integer("l2.sector_bytes")
        values = {name: round(spec.number(path)) for name, path in _VALUES.items()}
        sides = values["L2_SIDES"]
        lines = spec.integer("l2.bytes") // spec.integer("l2.line_bytes")
        clock = spec.number("clock.sm_boost") / 1000  # cycles a ns
        dram = spec.number("dram.sustained" if spec.has("dram.sustained") else "dram.bandwidth") / clock
        l2 = spec.number("l2.bandwidth") if spec.has("l2.bandwidth") else spec.number("l2.bandwidth_sm") * sms
        extra = spec.number("dram.latency_extra")
        if spec.has("dram.latency"):
            latency = spec.number("dram.latency") * (
                clock if spec.quantity("dram.latency").unit == "ns" else 1
            )
            extra = max(1.0, latency - values["L2_LATENCY"])
        far = spec.number("l2.latency_far") - values["L2_LATENCY"] if spec.has("l2.latency_far") else 0.0
        values |= {
            "SMS": sms, "STEP": STEP, "MERGE_EARLY": STEP // 2,
            "L2_SETS": _odd(lines // sides // values["L2_WAYS"]),
            "L2_DIRTY_HALF_WAYS": round(2 * spec.number("l2.dirty_ways")),
            "FETCH": spec.integer("l2.fetch_bytes") // sector,
            "FAR_LATENCY": round(far), "DRAM_LATENCY": round(extra),
            "LAUNCH_TICKS": round(TICKS * spec.number("launch.block_interval")),
            "FILL_TICKS": round(TICKS * sector / spec.number("l1.fill_bandwidth")),
            "L2_TICKS": max(1, round(TICKS * sector / l2)),
            "DRAM_TICKS": max(1, round(TICKS * sector / dram)),
        }  # fmt: skip
        if spec.has("gpc.sms"):
            gpcs, wired = spec.integers("gpc.sms"), spec.integers("gpc.sides")
            first = spec.integer("gpc.first_sms")
            second = spec.integer("gpc.second_first"), spec.integer("gpc.second_interval")
        else:  # not published: GPCs of 16 SMs, sides in turn
            gpcs = tuple(min(16, sms - at) for at in range(0, sms, 16))
            wired, first, second = tuple(g % sides for g in range(len(gpcs))), 0, (0, 0)
        dirty = spec.integer("l2.dirty_at_start") // sector if spec.has("l2.dirty_at_start") else 0
        usable, kept = spec.number("l1.usable") / 100, spec.number("l2.kept") / 100
        return cls(values, gpcs, wired, first, *second, dirty, usable, kept)


def state(geometry: Geometry, l1_bytes: int, slots: int, warps: int, **over: int) -> NDArray[np.int64]:
    """The array ``x`` of `hierarchy_loop` and `replay` for a launch: ``slots`` CTAs of ``warps`` warps an
    SM, caches cold.

    over: parameters that replace the device's.
    """
    ways = geometry.values["L1_WAYS"]
    values: dict[str, Any] = dict(geometry.values)
    values |= {
        "SLOTS": slots,
        "WARPS": warps,
        "L1_SETS": _odd(int(l1_bytes * geometry.usable) // 128 // ways),
    } | over
    sms, gpcs = values["SMS"], len(geometry.gpcs)
    at = len(PARAMETERS)
    for name, size in (
        ("AT_GPC", sms), ("AT_SIDE", gpcs),
        ("AT_L1", sms * values["L1_SETS"] * values["L1_WAYS"] * LINE_WORDS),
        ("AT_L2", values["L2_SIDES"] * values["L2_SETS"] * values["L2_WAYS"] * LINE_WORDS),
        ("AT_MERGE", gpcs * MERGE_SLOTS * MERGE_WORDS), ("AT_STORE", sms * values["COMBINE"] * STORE_WORDS),
        ("AT_WARP", sms * slots * warps * WARP_WORDS), ("AT_SLOT", sms * slots * SLOT_WORDS),
        ("AT_FILL", sms), ("AT_QUEUE", sms), ("AT_LIVE", sms), ("AT_WAKE", sms),
        ("AT_RING", sms * values["QUEUE"]), ("AT_TURN", sms),
    ):  # fmt: skip
        values[name] = at
        at += size
    x = np.zeros(at, np.int64)
    for i, name in enumerate(PARAMETERS):
        x[i] = values.get(name, 0)
    x[values["AT_GPC"] :][:sms] = np.repeat(np.arange(gpcs), geometry.gpcs)
    x[values["AT_SIDE"] :][:gpcs] = geometry.sides
    # what L2 holds at the start and has to write back, a line of a set each
    sets = values["L2_SIDES"] * values["L2_SETS"]
    dirty = min(geometry.dirty_at_start // 4, sets)
    chosen = np.arange(dirty) * sets // max(1, dirty)
    x[values["AT_L2"] + chosen * values["L2_WAYS"] * LINE_WORDS] = NOWHERE << STATE_BITS | DIRTY
    x[values["AT_SLOT"] :][: sms * slots * SLOT_WORDS : SLOT_WORDS] = -1
    return x


def placement(geometry: Geometry, ctas: int, slots: int) -> NDArray[np.int64]:
    """SM of each CTA that starts at once, in order of CTAs; SMs are numbered GPC after GPC.

    Neighbours go to one GPC, a CTA to each of its SMs.  The first GPC is served in two halves; as long as
    two rounds are left its second half takes its CTAs on its own, every ``second_interval`` CTAs, afterwards
    at the end of a round.  What fills no round is dealt out one by one, to the TPCs (pairs of SMs) first.
    Measured for grids of 1 to 1,056 CTAs (ctas.npz); the card begins with another GPC at times.
    """
    starts = [int(n) for n in np.cumsum((0, *geometry.gpcs))]
    first, sms = geometry.first_sms, starts[-1]
    groups = [list(range(starts[g], starts[g + 1])) for g in range(len(geometry.gpcs))]
    half: list[int] = []
    if first:
        half, groups[0] = groups[0][first:], groups[0][:first]
    room = min(ctas, sms * slots)
    out: list[int] = []
    rounds = served = 0  # served: how often the second half had its turn
    while room - len(out) >= sms - (len(half) if served > rounds else 0):
        early = ctas - len(out) >= 2 * sms
        for k, group in enumerate(groups):
            turn = len(out) >= geometry.second_first + geometry.second_interval * served
            if half and k and early and turn and served < slots:
                out += half
                served += 1
            out += group
        rounds += 1
        if served < rounds:
            out += half
            served += 1
    rest = room - len(out)
    out += groups[0][: min(rest, len(groups[0]))] if first else []
    others = [half if served == rounds else [], *groups[1:]] if first else groups
    take = [0] * len(others)
    rest = room - len(out)
    for limits in ([(len(g) + 1) // 2 for g in others], [len(g) for g in others]):
        while rest and any(n < limit for n, limit in zip(take, limits, strict=True)):
            for k, limit in enumerate(limits):
                if rest and take[k] < limit:
                    take[k] += 1
                    rest -= 1
    order = [*range(1, len(others)), 0] if first else range(len(others))
    for k in order:
        group = others[k]
        out += sorted((group[::2] + group[1::2])[: take[k]])
    return np.array(out, np.int64)


__all__ = ["Geometry", "placement", "state"]

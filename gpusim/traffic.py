"""Traffic of a launch through L1, L2 and DRAM: CTAs recorded, replayed on all SMs, scaled to the launch.

CTAs whose records differ only by steps along the grid (`memory.trace.template`: what tiles of dense arrays
do) are recorded once; the others are recorded one by one.  The replay (`memory.replay`) starts at the
launch's first cycle with cold caches, as the profiler's cache control leaves them, and follows the CTAs in
the order in which they are placed.  It ends with the launch, or when :data:`WORK` is done; the accesses
that are left are then taken to do what those of the same instruction did in the last two fifths of the
replay, when caches are warm and CTAs out of step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpusim.device import DeviceSpec
from gpusim.events import Kind
from gpusim.functional.grid import Execution
from gpusim.isa.slack import slack
from gpusim.launch import Launch
from gpusim.memory import hierarchy_loop as loop
from gpusim.memory.footprint import footprint
from gpusim.memory.hierarchy import Geometry, placement, state
from gpusim.memory.hierarchy_loop import COUNTERS, Traffic
from gpusim.memory.replay import run as replay
from gpusim.memory.trace import Column, Recorder, Trace, assemble, first_touches, template
from gpusim.occupancy import Occupancy
from gpusim.program import Kernel

#: What is replayed of a launch at most: accesses of a warp, and lines they touch, weighed by what they cost.
WORK = 28_000_000
LINE_COST = 0.5
#: Warp instructions of a launch whose CTAs must be recorded one by one; of longer ones the first CTAs are.
ONE_BY_ONE = 48_000_000
#: CTAs up to which no template is looked for.
FEW = 8
LOCAL_SECTOR = 1 << 40 >> 5  # where local memory is taken to begin: beyond every allocation


@dataclass(frozen=True, slots=True)
class TrafficResult:
    """What the memories did.

    counters: int64[instructions][Traffic]; dram_written: sectors written to DRAM; cycles: SM cycles of the
    replay, a by-product (None if it was cut); replayed: accesses that were, and share: their part of the
    launch's; template: one CTA's records stood for all; log: int64[ctas][3], start, end and SM of each CTA
    replayed.
    """

    counters: NDArray[np.int64]
    dram_written: int
    cycles: int | None
    replayed: int
    share: float
    template: bool
    log: NDArray[np.int64]

    @property
    def note(self) -> str:
        """In words, how much of the launch it rests on."""
        how = "the records of one CTA, moved along the grid" if self.template else "records of the CTAs"
        if self.share >= 1:
            return f"every access replayed ({how})"
        return f"the first {self.share:.1%} of the accesses replayed ({how}), counters scaled by instruction"


def traffic(
    make: Callable[[], Execution],
    kernel: Kernel,
    launch: Launch,
    spec: DeviceSpec,
    occ: Occupancy,
    executed: int,
) -> TrafficResult:
    """Replay a launch.  make: a fresh execution of it; executed: warp instructions of the whole launch."""
    geometry = Geometry.from_device(spec)
    found = None if launch.ctas <= FEW else _template(make(), launch)
    if found is None:
        trace, ctas = _one_by_one(make(), launch, executed)
        steps = np.zeros((0, 3), np.int64)
        place = np.zeros((ctas, 3), np.int64)
        _, first = np.unique(trace.keys >> 16, return_index=True)
        if len(first) < ctas:  # a CTA without any record: exits are records, so this is an empty kernel
            first = np.zeros(ctas, np.int64)
    else:
        trace, steps, base = found
        ctas = launch.ctas
        place = _coordinates(np.arange(ctas), launch.grid) - _coordinates(np.array([base]), launch.grid)
        first = np.zeros(ctas, np.int64)
    warps = -(-launch.threads // 32)
    x = state(geometry, occ.l1_bytes, occ.active_blocks, warps)
    log = np.zeros((ctas, 3), np.int64)
    counters = np.zeros((len(kernel.instructions), COUNTERS), np.int64)
    records = len(trace.records) * (ctas if found is not None else 1)
    limit = _limit(trace, records)
    slacks = np.array(slack(kernel.instructions), np.int64)
    order = placement(geometry, ctas, occ.active_blocks)
    scratch = np.empty(occ.active_blocks, np.int64), np.empty(8, np.int64)
    early = counters
    for part in (limit * 3 // 5, limit):
        early = counters.copy()
        done = replay(x, trace.records, trace.entries, trace.bounds, steps, first, place, slacks, order,
                      LOCAL_SECTOR, kernel.stack_bytes, log, *scratch, counters, part)  # fmt: skip
        if done:
            break
    share, written = 1.0, int(x[loop.DRAM_WRITTEN])
    replayed = int(counters[:, Traffic.RECORDS].sum())
    if not done or ctas < launch.ctas:
        whole = _accesses(trace, len(counters)) * (ctas if found is not None else 1) * (launch.ctas / ctas)
        share = float(replayed / max(1.0, whole.sum()))
        counters = _extended(trace, counters, early, whole)
        total, kept, every = int(counters[:, Traffic.L2_WRITE].sum()), False, 0
        if found is not None:
            every, shared = footprint(trace, steps, place, geometry.values["FETCH"])
            total = footprint(trace, steps, place, 1, writes=True)[0]
            kept = shared <= geometry.kept_sectors
            counters = _bounded(counters, every, kept)
        # at the end L2 holds back what was stored last, before as many sectors as it has room for were
        # fetched or stored; all that it can hold if what is read again has room beside it
        held = min(total, geometry.dirty_sectors)
        if not kept:
            moved = int(counters[:, Traffic.DRAM_READ].sum()) + total
            held = min(held, total * geometry.l2_sectors // max(1, moved))
        # half of what is read lies in both sides of L2; what waits there at the start goes once it is full
        before = geometry.dirty_at_start if total + every + every // 2 > geometry.l2_sectors else 0
        written = max(written, total - held + before)
    return TrafficResult(
        counters,
        written,
        int(x[loop.NOW]) if done and ctas == launch.ctas else None,
        replayed,
        share,
        found is not None,
        log,
    )


def _limit(trace: Trace, records: int) -> int:
    """Records to replay."""
    return int(min(records, WORK / (1 + LINE_COST * len(trace.entries) / max(1, len(trace.records)))))


def _extended(
    trace: Trace, counters: NDArray[np.int64], early: NDArray[np.int64], whole: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Counters of all ``whole`` accesses, from those at the cut and those at three fifths of it."""
    late = counters - early
    # instructions that were not met in the last part go on as before
    late = np.where(late[:, [Traffic.RECORDS]] > 0, late, counters)
    seen = late[:, Traffic.RECORDS]
    left = np.maximum(0.0, whole - counters[:, Traffic.RECORDS])
    out = counters + late * (left / np.maximum(seen, 1))[:, None]
    unseen = (seen == 0) & (whole > 0)
    if unseen.any():
        # an epilogue, most likely: each of its sectors moves once
        first = np.zeros((len(counters), 2), np.int64)
        first_touches(trace.records, trace.entries, trace.bounds, unseen, first)
        sectors = first * (whole / np.maximum(1.0, _accesses(trace, len(counters))))[:, None]
        for column in (Traffic.LOADED, Traffic.TO_L1, Traffic.L2_READ, Traffic.DRAM_READ):
            out[unseen, column] = sectors[unseen, 0]
        for column in (Traffic.FROM_L1, Traffic.L2_HIT):
            out[unseen, column] += sectors[unseen, 1]
        stores = trace.records[trace.records[:, Column.KIND] & 0xFF == Kind.STORE, Column.INDEX]
        unseen_stores = unseen & np.isin(np.arange(len(unseen)), stores)
        out[unseen_stores, Traffic.L2_WRITE] += sectors[unseen_stores, 1]
    return np.rint(out).astype(np.int64)


def _bounded(counters: NDArray[np.int64], every: int, kept: bool) -> NDArray[np.int64]:
    """DRAM reads no fewer sectors than are read at all, and no more if L2 keeps what is read again."""
    read = int(counters[:, Traffic.DRAM_READ].sum())
    factor = every / read if read and (read < every or kept) else 1.0
    if factor == 1.0:
        return counters
    out = counters.astype(np.float64)
    used = counters[:, Traffic.L2_READ] + counters[:, Traffic.L2_WRITE]
    missed = np.maximum(0, used - counters[:, Traffic.L2_HIT])  # atomics are hits, but no reads or writes
    out[:, Traffic.DRAM_READ] *= factor
    out[:, Traffic.L2_HIT] = np.maximum(0, counters[:, Traffic.L2_HIT] + missed * (1 - factor))
    return np.rint(out).astype(np.int64)


def _accesses(trace: Trace, instructions: int) -> NDArray[np.float64]:
    """Accesses of each instruction in a trace."""
    kinds = trace.records[:, 0] & 0xFF
    chosen = trace.records[kinds < 8, 1]
    return np.bincount(chosen, minlength=instructions).astype(np.float64)


def _coordinates(ctas: NDArray[np.int64], grid: tuple[int, int, int]) -> NDArray[np.int64]:
    x, y, _ = grid
    return np.stack([ctas % x, ctas // x % y, ctas // (x * y)], axis=1)


def record(execution: Execution, ctas: Sequence[int]) -> Trace:
    """Execute CTAs and keep what they touch."""
    recorders: list[Recorder] = []

    def tap() -> Recorder:
        recorders.append(Recorder())
        return recorders[-1]

    execution.run(ctas, tap)
    return assemble(recorders)


def _template(execution: Execution, launch: Launch) -> tuple[Trace, NDArray[np.int64], int] | None:
    """(records of one CTA, steps, that CTA) if they stand for all: neighbours, corners and others agree."""
    if execution.image.traits.ordered:
        return None
    x, y, _ = launch.grid
    middle = [n // 2 for n in launch.grid]

    def linear(at: Sequence[int]) -> int:
        return at[0] + x * (at[1] + y * at[2])

    base = linear(middle)
    chosen = {base, 0, launch.ctas - 1, x - 1, x * (y - 1), launch.ctas // 3, int(launch.ctas * 0.618)}
    for axis, extent in enumerate(launch.grid):
        if extent > 1:
            beside = list(middle)
            beside[axis] = (beside[axis] + 1) % extent
            chosen.add(linear(beside))
    trace = record(execution, sorted(chosen))
    steps = template(trace, launch.grid, base)
    if steps is None:
        return None
    warps = np.flatnonzero(trace.keys >> 16 == base)
    lo, hi = trace.bounds[warps[0]], trace.bounds[warps[-1] + 1]
    records = trace.records[lo:hi].copy()
    begin = int(records[0, 6])
    end = int(trace.records[hi, 6]) if hi < len(trace.records) else len(trace.entries)
    records[:, 6] -= begin
    bounds = trace.bounds[warps[0] : warps[-1] + 2] - lo
    return Trace(records, trace.entries[begin:end].copy(), bounds, trace.keys[warps]), steps, base


def _one_by_one(execution: Execution, launch: Launch, executed: int) -> tuple[Trace, int]:
    """(records of the first CTAs, how many CTAs)."""
    ctas = launch.ctas
    if executed > ONE_BY_ONE:
        ctas = max(1, int(ctas * ONE_BY_ONE / executed))
    return record(execution, range(ctas)), ctas


__all__ = ["TrafficResult", "record", "traffic"]

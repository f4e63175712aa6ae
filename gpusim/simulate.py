"""Simulating a launch: execute CTAs, count, put the profiler's names on the sums.

A launch of modest cost is executed whole.  A larger one is sampled (:func:`_classes`): CTAs are sorted by
their place in the grid (first, inner, last along each dimension), a few of each class are executed, and the
counters are scaled to the class.  Where the executed CTAs of every class count alike, the result is what a
full run gives; where they differ, the counters are estimates and marked ``modelled``.  Launches whose CTAs
depend on one another's order or results (atomics that return values, floating-point reductions, strong
loads) are always executed whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gpusim import metrics as names
from gpusim.device import DeviceSpec, load_device
from gpusim.errors import InputError, LaunchError
from gpusim.events import Flag, Kind
from gpusim.functional import grid
from gpusim.functional.image import Image, build
from gpusim.isa.instruction import Instruction
from gpusim.isa.rows_memory import event_flags, nbytes_of
from gpusim.isa.table import Mods
from gpusim.isa.waiting import waits
from gpusim.launch import Launch, dim3, materialise
from gpusim.memory import coalescer, shared
from gpusim.memory.coalescer import GlobalGeometry
from gpusim.memory.counters import Counter, count_events
from gpusim.memory.hierarchy_loop import Traffic
from gpusim.memory.shared import SharedGeometry
from gpusim.metrics import Metric
from gpusim.occupancy import Occupancy, occupancy
from gpusim.program import Kernel
from gpusim.traffic import TrafficResult, traffic

#: Warp instructions up to which a launch is executed whole.
FULL_LIMIT = 48_000_000
INSTRUCTION_BYTES = 16
#: Columns of an instruction's row that the hierarchy fills, in sectors.
TRAFFIC_ROW = {
    "sectors_l1_hit": Traffic.L1_HIT, "sectors_to_l1": Traffic.TO_L1, "sectors_from_l1": Traffic.FROM_L1,
    "sectors_l2_read": Traffic.L2_READ, "sectors_l2_write": Traffic.L2_WRITE,
    "sectors_l2_hit": Traffic.L2_HIT, "sectors_dram_read": Traffic.DRAM_READ,
}  # fmt: skip
#: CTAs executed of each class of a sampled launch (fewer if the class is smaller).
SAMPLES = 4

#: A word in the name of a launch metric -> its unit; the first that fits, else byte.
_LAUNCH_UNITS = {"pct": "%", "limit": "block", "block_size": "thread", "registers": "register/thread"}

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the launch was executed; ``alike``: the executed CTAs of every class counted the same."""

    ctas_total: int
    ctas_executed: int
    sampled: bool
    note: str
    alike: bool = True


@dataclass(frozen=True, slots=True)
class SimResult:
    """What the simulator says of one launch.

    metrics: by the profiler's names; traffic: how L1, L2 and DRAM were modelled (None: not asked for);
    instructions: one dict a SASS instruction, in address order, with the source page's counters;
    not_modelled: ``{"what", "why"}`` for what a reader might look for in vain.
    """

    kernel: Kernel
    launch: Launch
    device: DeviceSpec
    coverage: Coverage
    occupancy: Occupancy
    metrics: Mapping[str, Metric]
    traffic: TrafficResult | None
    instructions: Sequence[Mapping[str, Any]]
    not_modelled: Sequence[Mapping[str, str]]

    def hotspots(self, count: int = 10) -> list[Mapping[str, Any]]:
        """Instructions with the most shared wavefronts and global sectors beyond ideal."""

        def excess(row: Mapping[str, Any]) -> int:
            return int(
                row["memory_l1_wavefronts_shared"]
                - row["memory_l1_wavefronts_shared_ideal"]
                + row["memory_l2_theoretical_sectors_global"]
                - row["memory_l2_theoretical_sectors_global_ideal"]
            )

        return sorted((r for r in self.instructions if excess(r) > 0), key=excess, reverse=True)[:count]

    def to_json(self, id: str | None = None) -> dict[str, Any]:
        """The report as plain values, format ``gpusim.report/1``."""
        from gpusim.report.json import report_dict

        return report_dict(self, id)


@lru_cache(maxsize=64)
def _image(kernel: Kernel) -> Image:
    return build(kernel)


def _prepare(kernel: Kernel, grid_: Any, block: Any, args: Sequence[Any], dynamic_shared: int,
             device: str | DeviceSpec) -> tuple[DeviceSpec, Launch, list[Any], Occupancy]:
    spec = device if isinstance(device, DeviceSpec) else load_device(device)
    launch = Launch(dim3(grid_, "grid"), dim3(block, "block"), dynamic_shared, tuple(args))
    if not kernel.is_entry:
        raise InputError(f"{kernel.display_name} is a device function, not a kernel")
    if isinstance(dynamic_shared, bool) or not isinstance(dynamic_shared, int) or dynamic_shared < 0:
        raise InputError(f"dynamic shared memory is {dynamic_shared!r}", hint="bytes, at least 0")
    for axis, extent, most in zip("xyz", launch.block, spec.integers("launch.block_max"), strict=True):
        if extent > most:
            raise LaunchError(f"block dimension {axis} is {extent:,}, the most is {most:,}")
    for axis, extent, most in zip("xyz", launch.grid, spec.integers("launch.grid_max"), strict=True):
        if extent > most:
            raise LaunchError(f"grid dimension {axis} is {extent:,}, the most is {most:,}")
    occ = occupancy(
        spec,
        max(16, kernel.registers_per_thread),
        kernel.static_shared_bytes,
        dynamic_shared,
        launch.threads,
        barriers=kernel.barriers,
    )
    if occ.active_blocks < 1:
        raise LaunchError(f"not one block of {kernel.display_name} fits an SM of {spec.name}")
    return spec, launch, materialise(args), occ


def _execution(
    image: Image,
    launch: Launch,
    values: Sequence[Any],
    spec: DeviceSpec,
    occ: Occupancy,
    symbols: Mapping[str, np.ndarray] | None,
    jobs: int | None,
    budget: int | None,
    patched: np.ndarray | None = None,
) -> grid.Execution:
    kernel = image.kernel
    sms = spec.integer("device.sm_count")
    window = (
        kernel.module.elf.reserved_shared_bytes + kernel.static_shared_bytes + launch.dynamic_shared_bytes
    )
    return grid.make(
        image,
        launch,
        values,
        symbols,
        shared_bytes=window,
        resident=occ.active_blocks * sms,
        sms=sms,
        jobs=jobs,
        budget=budget,
        patched=patched,
    )


def run(
    kernel: Kernel,
    grid: Any,
    block: Any,
    args: Sequence[Any],
    *,
    dynamic_shared: int = 0,
    device: str | DeviceSpec = "h200",
    jobs: int | None = None,
    budget: int | None = None,
    symbols: Mapping[str, np.ndarray] | None = None,
) -> list[Any]:
    """Execute a launch for its results.

    args: numpy arrays (pointers), numpy or Python scalars, or argument descriptions, in parameter order.
    Returns every argument after the launch: arrays as new arrays of the same shape, scalars unchanged.
    symbols: values for ``__device__`` and ``__constant__`` variables by name.
    """
    spec, launch, values, occ = _prepare(kernel, grid, block, args, dynamic_shared, device)
    execution = _execution(_image(kernel), launch, values, spec, occ, symbols, jobs, budget)
    execution.run(range(launch.ctas))
    return [execution.space.output(i) if isinstance(a, np.ndarray) else a for i, a in enumerate(values)]


class _Tally:
    """Counters of the events one worker produced."""

    def __init__(self, operations: int, shared_: SharedGeometry, global_: GlobalGeometry) -> None:
        self.counters = np.zeros((operations, len(Counter)), np.int64)
        self._geometry = shared_, global_

    def __call__(self, events: np.ndarray) -> None:
        count_events(events, self.counters, *self._geometry)


def simulate(
    kernel: Kernel,
    grid: Any,
    block: Any,
    args: Sequence[Any],
    *,
    dynamic_shared: int = 0,
    device: str | DeviceSpec = "h200",
    full: bool = False,
    memory: bool = True,
    jobs: int | None = None,
    budget: int | None = None,
    symbols: Mapping[str, np.ndarray] | None = None,
    progress: Progress | None = None,
) -> SimResult:
    """Predict the profiler's counters of one launch (arguments as for :func:`run`).

    full: execute every CTA whatever the size; memory: predict the traffic of L1, L2 and DRAM too; jobs:
    threads (default: all cores; results do not depend on it); budget: warp instructions without any CTA
    ending after which the launch counts as endless; progress(done, total, what) is called now and then.
    """
    spec, launch, values, occ = _prepare(kernel, grid, block, args, dynamic_shared, device)
    image = _image(kernel)
    execution = _execution(image, launch, values, spec, occ, symbols, jobs, budget)
    geometry = SharedGeometry.from_device(spec), GlobalGeometry.from_device(spec)
    *hardware, coverage = _count(execution, geometry, full, progress)
    page, yielded = hardware, execution.yielded
    if execution.queued:
        del execution  # its memory is not needed beside the next one's
        patches = np.array([i.opcode in names.CLASSES for i in kernel.instructions])
        execution = _execution(image, launch, values, spec, occ, symbols, jobs, budget, patches)
        page = [*_count(execution, geometry, full, progress)[:2]]
    moved = None
    if memory:

        def again() -> grid.Execution:
            return _execution(image, launch, values, spec, occ, symbols, jobs, budget)

        moved = traffic(again, kernel, launch, spec, occ, int(hardware[0][:, 0].sum()))
    return _result(kernel, launch, spec, occ, hardware, page, coverage, yielded, moved)


def _count(execution: grid.Execution, geometry: tuple[SharedGeometry, GlobalGeometry], full: bool,
           progress: Progress | None) -> tuple[np.ndarray, np.ndarray, Coverage]:
    """(executions and lanes, memory counters) by instruction for the whole launch."""
    launch, image = execution.launch, execution.image
    n, total = len(image.operations), launch.ctas

    def whole(ctas: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        tallies: list[_Tally] = []
        done = 0

        def tap() -> _Tally:
            tallies.append(_Tally(n, *geometry))
            return tallies[-1]

        def step(finished: int) -> None:
            nonlocal done
            done += finished
            if progress is not None and len(ctas) > 1:
                progress(done, len(ctas), f"CTAs of {execution.image.kernel.display_name}")

        before = execution.counts.copy()
        execution.run(ctas, tap, step)
        counters = sum((t.counters for t in tallies), np.zeros((n, len(Counter)), np.int64))
        return execution.counts - before, counters

    if full or image.traits.ordered or total <= SAMPLES:
        why = "every CTA was executed"
        if image.traits.communicates and not full:
            why += " (CTAs of this kernel communicate)"
        counts, counters = whole(range(total))
        return counts, counters, Coverage(total, total, False, why)

    classes = _classes(launch.grid)
    chosen = [(members, _choose(members)) for members in classes]
    executed: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    # the first CTA of each class tells what the launch costs
    firsts = [samples[0] for _, samples in chosen]
    for i, cta in enumerate(firsts):
        executed[cta] = whole([cta])
        if progress is not None:
            progress(i + 1, len(firsts), f"first CTAs of {execution.image.kernel.display_name}")
    cost = sum(int(executed[samples[0]][0][:, 0].sum()) * len(members) for members, samples in chosen)
    if cost <= FULL_LIMIT:
        taken = set(firsts)
        rest = whole([cta for cta in range(total) if cta not in taken])
        parts = [*executed.values(), rest]
        return (sum((p[0] for p in parts), np.zeros((n, 4), np.int64)),
                sum((p[1] for p in parts), np.zeros((n, len(Counter)), np.int64)),
                Coverage(total, total, False, "every CTA was executed"))
    left = [cta for _, samples in chosen for cta in samples[1:]]
    for i, cta in enumerate(left):
        executed[cta] = whole([cta])
        if progress is not None:
            progress(i + 1, len(left), f"sampled CTAs of {execution.image.kernel.display_name}")
    counts, counters = np.zeros((n, 4), np.int64), np.zeros((n, len(Counter)), np.int64)
    alike = True
    for members, samples in chosen:
        parts = [executed[cta] for cta in samples]
        same = all(np.array_equal(a, b) for p in parts[1:] for a, b in zip(parts[0], p, strict=True))
        alike = alike and same
        for out, k in ((counts, 0), (counters, 1)):
            if same:
                out += parts[0][k] * len(members)
            else:
                summed = sum((p[k] for p in parts), np.zeros_like(out))
                out += np.rint(summed * (len(members) / len(samples))).astype(np.int64)
    note = (
        f"{len(executed)} of {total:,} CTAs executed: {SAMPLES} of each kind by place in the grid (first, "
        "inner, last along each dimension), counters scaled; "
    )
    note += ("the CTAs of each kind counted alike, so a full run gives the same" if alike else
             "CTAs of one kind differ, so the counters are estimates (--full executes all)")
    return counts, counters, Coverage(total, len(executed), True, note, alike)


def _classes(grid_: tuple[int, int, int]) -> list[np.ndarray]:
    """Linear CTA indexes by place: first, inner or last along each dimension."""
    axes = []
    for extent in grid_:
        parts = [np.array([0])]
        if extent > 2:
            parts.append(np.arange(1, extent - 1))
        if extent > 1:
            parts.append(np.array([extent - 1]))
        axes.append(parts)
    x, y, _ = grid_
    return [(zs[:, None, None] * (x * y) + ys[None, :, None] * x + xs[None, None, :]).reshape(-1)
            for zs in axes[2] for ys in axes[1] for xs in axes[0]]


def _choose(members: np.ndarray) -> list[int]:
    """SAMPLES different members: two neighbours and two at the golden section, so that no period hides."""
    n = len(members)
    places: list[int] = []
    for place in (0, 1, int(n * 0.618), int(n * 0.382), n - 1):
        place = min(place, n - 1)
        if place not in places and len(places) < SAMPLES:
            places.append(place)
    return [int(members[p]) for p in places]


YIELDED = "lanes of a warp execute YIELD while they are apart: who goes on then is not settled in all cases"
WAITING = (
    "a loop that waits or retries runs as often as timing has it: counts vary from run to run on hardware too"
)


#: LDGSTS.ZFILL: what the profiler counts depends on the source size.
ZFILL = "LDGSTS.ZFILL: the profiler's counts depend on the source size, by a rule that is not known"
#: Measured with Nsight Compute 2025.3: such a copy has no shared wavefronts and no sectors there.
GUARD = (
    "the profiler's source counters leave out an LDGSTS.BYPASS guarded by P0; counted here is what it does"
)
#: Tag-stage sectors of LDGSTS.BYPASS (measured: far fewer than it touches when copies repeat).
BYPASS = "what the tag stage counts for LDGSTS.BYPASS depends on what earlier copies left in flight"


def _unsettled(
    instruction: Instruction, counters: np.ndarray, waiting: frozenset[int]
) -> list[tuple[str, tuple[str, ...]]]:
    """(why, words of the metrics concerned) for one executed instruction; counters: its row; waiting: pcs."""
    class_ = names.CLASSES.get(instruction.opcode)
    if class_ is None:
        return []
    m = Mods(instruction.opcode, instruction.modifiers)
    kind = {
        "ldsm": Kind.LDMATRIX, "stsm": Kind.STMATRIX, "ldgsts": Kind.ASYNC_COPY, "shared_atom": Kind.ATOMIC,
        "global_atom": Kind.ATOMIC, "generic_atom": Kind.ATOMIC, "global_red": Kind.REDUCTION,
    }.get(class_) or (Kind.LOAD if class_.endswith("ld") else Kind.STORE)  # fmt: skip
    flags = Flag(event_flags(m))
    out: list[tuple[str, tuple[str, ...]]] = []
    wavefronts = ("wavefronts_shared", "wavefronts_mem_shared")
    if counters[Counter.UNSETTLED_SHARED]:
        out.append((shared.unsettled(kind, flags, nbytes_of(m)) or "not measured", wavefronts))
    if counters[Counter.UNSETTLED_GLOBAL]:
        out.append((coalescer.unsettled(kind) or "not measured", ("t_sectors",)))
    if kind is Kind.ASYNC_COPY and "ZFILL" in m:
        out.append((ZFILL, (*wavefronts, "sectors", "tag_requests")))
    if kind is Kind.ASYNC_COPY and flags & Flag.BYPASS_L1:
        out.append((BYPASS, ("t_sectors",)))
        if instruction.guard is not None and instruction.guard.index == 0:
            out.append((GUARD, (*wavefronts, "theoretical_sectors")))
    if instruction.pc in waiting:
        out.append((WAITING, ("",)))
    return out


def _doubts(
    kernel: Kernel, counts: np.ndarray, counters: np.ndarray
) -> tuple[set[str], list[dict[str, str]]]:
    """Metrics whose rule is not settled for what this launch executed, and why."""
    doubtful: set[str] = set()
    reasons: dict[str, str] = {}
    waiting = waits(kernel.instructions)
    for instruction, executed, row in zip(kernel.instructions, counts[:, 0], counters, strict=True):
        if not executed:
            continue
        class_ = names.CLASSES.get(instruction.opcode, "")
        op = {"ldgsts": "ldgsts", "stsm": "stsm", "shared_atom": "atom"}.get(class_, "")
        for why, words in _unsettled(instruction, row, waiting):
            reasons["exact counts" if why is WAITING else f"exact counters of {instruction.opcode}"] = why
            for d in names.DEFINITIONS:
                concerned = words == ("",) or not d.classes or class_ in d.classes
                concerned = concerned or bool(op and d.name.endswith(f"op_{op}.sum"))
                if concerned and any(word in d.name for word in words):
                    doubtful.add(d.name)
    return doubtful, [{"what": k, "why": v} for k, v in reasons.items()]


def _result(
    kernel: Kernel,
    launch: Launch,
    spec: DeviceSpec,
    occ: Occupancy,
    hardware: Sequence[np.ndarray],
    page: Sequence[np.ndarray],
    coverage: Coverage,
    yielded: bool,
    moved: TrafficResult | None,
) -> SimResult:
    """hardware: (executions and lanes, memory counters) by instruction; page: as patched code has them."""
    instructions = kernel.instructions
    classes = [names.CLASSES.get(i.opcode, "") for i in instructions]
    patched = names.evaluate(classes, *page)
    values = names.evaluate(classes, *hardware)
    values |= {name: patched[name] for name in values if names.is_patched(name)}
    units = {d.name: d for d in names.DEFINITIONS}
    doubtful, gaps = _doubts(kernel, *hardware)
    if page is not hardware:
        more, reasons = _doubts(kernel, *page)
        doubtful |= more
        gaps += [reason for reason in reasons if reason not in gaps]
    if yielded:
        doubtful |= set(values)
        gaps.append({"what": "exact counts", "why": YIELDED})
    metrics: dict[str, Metric] = {}
    for name, value in values.items():
        exact = coverage.alike and name not in doubtful
        metrics[name] = Metric(value, units[name].unit, units[name].tier if exact else "modelled")
    config = spec.kind("shared.carveout_rule") if occ.shared_mem_config_kind else ""
    for name, number in occ.metrics().items():
        modelled = config != "measured" and name in (
            "launch__shared_mem_config_size",
            "launch__occupancy_limit_shared_mem",
        )
        unit = next((unit for word, unit in _LAUNCH_UNITS.items() if word in name), "byte")
        metrics[name] = Metric(number, unit, "modelled" if modelled else "exact")
    if moved is not None:
        code = int(np.count_nonzero(hardware[0][:, 0])) * INSTRUCTION_BYTES
        overhead = code + spec.integer("launch.dram_bytes")
        metrics |= names.evaluate_traffic(moved.counters, moved.dram_written, overhead)
    metrics["launch__grid_size"] = Metric(launch.ctas, "", "exact")
    metrics["launch__thread_count"] = Metric(launch.ctas * launch.threads, "thread", "exact")
    metrics["launch__waves_per_multiprocessor"] = Metric(
        round(occ.waves(launch.ctas, spec.integer("device.sm_count")), 2), "", "exact")
    counts, counters = page
    rows = []
    live = kernel.live_registers
    waiting = waits(instructions)
    for k, instruction in enumerate(instructions):
        row: dict[str, Any] = {"pc": instruction.pc, "sass": instruction.text, "file": instruction.file,
                               "line": instruction.line, "inlined_at": instruction.inlined_at}
        for name, (column, which) in names.SOURCE_COLUMNS.items():
            if column == names.INST:
                row[name] = int(counts[k, 0])
            elif column == names.THREADS:
                row[name] = int(counts[k, 1])
            else:
                row[name] = int(counters[k, int(column)]) if classes[k] in which else 0
        row["requests"] = int(counters[k, Counter.REQUESTS] + counters[k, Counter.SHARED_REQUESTS])
        row["shared_distinct_words"] = int(counters[k, Counter.SHARED_WORDS])
        row["live_registers"] = live[k]
        if moved is not None:
            row |= {key: int(moved.counters[k, column]) for key, column in TRAFFIC_ROW.items()}
        row["unsettled"] = bool(counts[k, 0]) and (
            yielded
            or any(words != ("t_sectors",) for _, words in _unsettled(instruction, counters[k], waiting))
        )
        rows.append(row)
    if moved is None:
        gaps.append({"what": "L1, L2 and DRAM traffic, hit rates", "why": "not asked for (memory=False)"})
    gaps += [
        {"what": "time", "why": "cycles, duration and stall reasons come with a later version"},
    ]
    if kernel.spill_bytes is None:
        gaps.append({"what": "spill bytes", "why": kernel.spill_note or "unknown"})
    return SimResult(kernel, launch, spec, coverage, occ, metrics, moved, rows, gaps)


__all__ = ["Coverage", "SimResult", "run", "simulate"]

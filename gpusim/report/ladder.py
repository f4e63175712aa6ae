"""The GEMM ladder as tables: what each step costs, and what changed from the step before.

Works on any list of steps; the readings at the end look for the seed rows A1, A2 and A8 and are left out
where those are absent.  The traffic of L1, L2 and DRAM is predicted (`gpusim.traffic`); time is absent
until it is modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpusim.metrics import SECTOR_BYTES
from gpusim.report.json import report_dict
from gpusim.report.lines import LineAccess, by_line
from gpusim.report.text import COST, AccessLines, count, plain_table
from gpusim.report.traffic import Levels, bytes_text, rate_text

if TYPE_CHECKING:
    from gpusim.simulate import SimResult

SCHEMA = "gpusim.ladder/1"

#: Accesses below this share of a step's wavefronts or sectors are left out of the line by line lists.
SMALL = 0.01

_LOADS = "pipe_lsu_mem_global_op_ld.sum"


@dataclass(frozen=True)
class Step:
    """One rung: the catalog's names for it, and the simulated launch."""

    id: str
    seed: str
    title: str
    result: SimResult

    def metric(self, name: str) -> float:
        """A counter of the launch, 0 where it has none."""
        metric = self.result.metrics.get(name)
        return 0.0 if metric is None or metric.value is None else float(metric.value)

    @property
    def load_requests(self) -> float:
        return self.metric(f"l1tex__t_requests_{_LOADS}")

    @property
    def load_sectors(self) -> float:
        return self.metric(f"l1tex__t_sectors_{_LOADS}")

    @property
    def sectors_per_load(self) -> float:
        """32-byte sectors that one global load of a warp touches."""
        return self.load_sectors / self.load_requests if self.load_requests else 0.0

    @property
    def sectors(self) -> float:
        """Sectors of global loads, stores, atomics and reductions."""
        return self.metric("memory_l2_theoretical_sectors_global")

    @property
    def wavefronts(self) -> float:
        return self.metric("memory_l1_wavefronts_shared")

    @property
    def wavefronts_ideal(self) -> float:
        return self.metric("memory_l1_wavefronts_shared_ideal")

    @property
    def excess(self) -> float:
        """Shared wavefronts that better addresses would save: the bank conflicts."""
        return self.wavefronts - self.wavefronts_ideal

    @property
    def estimated(self) -> bool:
        """Whether the shared wavefronts rest on a rule that hardware has not settled."""
        return self.result.metrics["memory_l1_wavefronts_shared"].tier == "modelled"

    @property
    def levels(self) -> Levels | None:
        """Traffic by level, None where it was not predicted."""
        return Levels.of(self.result)

    def accesses(self) -> list[LineAccess]:
        """Memory accesses by source line."""
        return by_line(self.result.instructions, self.result.kernel.module.path)


def ladder_dict(steps: Sequence[Step], size: int, device: str) -> dict[str, Any]:
    """The ladder as JSON values: one report a step."""
    return {
        "schema": SCHEMA,
        "prediction": True,
        "device": device,
        "size": size,
        "steps": [{"seed": s.seed, "title": s.title, "report": report_dict(s.result, s.id)} for s in steps],
    }


def render(steps: Sequence[Step], size: int, device: str) -> RenderableType:
    """All tables and the readings, legible at 100 columns."""
    return Group(
        _costs(steps, size, device),
        Text(),
        *((_traffic(steps), Text()) if any(step.levels for step in steps) else ()),
        _kernels(steps),
        *(part for space in COST for part in (Text(), _by_line(steps, space))),
        Text(),
        _readings(steps),
    )


def _costs(steps: Sequence[Step], size: int, device: str) -> Table:
    table = plain_table(
        f"GEMM ladder, {size} x {size} x {size}, predicted for {device} (nothing ran on a GPU)",
        "step",
        ">warp\ninst.",
        ">shared\nwavefronts",
        ">bank\nconflicts",
        ">global\nsectors",
        ">against the\nstep before",
        ">sectors\na load",
        ">DRAM\nbytes",
        ">regs a\nthread",
        ">occu-\npancy",
    )
    before: Step | None = None
    for step in steps:
        table.add_row(
            step.id,
            count(step.metric("smsp__inst_executed.sum")),
            f"{'~' if step.estimated else ''}{count(step.wavefronts)}" if step.wavefronts else "-",
            _excess(step),
            count(step.sectors),
            _change(before, step),
            f"{step.sectors_per_load:.3g}",
            bytes_text(levels.dram_bytes) if (levels := step.levels) else "-",
            f"{step.metric('launch__registers_per_thread'):.0f}",
            f"{step.result.occupancy.theoretical_occupancy_pct:.4g} %",
        )
        before = step
    return table


def _traffic(steps: Sequence[Step]) -> Table:
    """How far the bytes come, by step."""
    table = plain_table(
        "Memory traffic, predicted (hit rates of sectors)",
        "step",
        ">L1 hit,\nloads",
        ">L2 to\nL1",
        ">L1 to\nL2",
        ">read from L2\nafter merging",
        ">L2\nhit",
        ">DRAM\nread",
        ">DRAM\nwritten",
        ">accesses\nreplayed",
    )
    for step in steps:
        levels, moved = step.levels, step.result.traffic
        if levels is None or moved is None:
            table.add_row(step.id, *("-" for _ in range(8)))
            continue
        sectors = (SECTOR_BYTES * n for n in (levels.to_l1, levels.from_l1, levels.l2_read))
        to_l1, from_l1, l2_read = map(bytes_text, sectors)
        table.add_row(
            step.id,
            rate_text(levels.l1_hit_rate),
            to_l1,
            from_l1,
            l2_read,
            rate_text(levels.l2_hit_rate),
            bytes_text(levels.dram_read_bytes),
            bytes_text(levels.dram_written_bytes),
            "all" if moved.share >= 1 else f"{100 * moved.share:.3g} %",
        )
    return table


def _kernels(steps: Sequence[Step]) -> Table:
    """What each step is, what bounds its occupancy, and how much of it was executed."""
    table = plain_table(
        "What each step is", "step", "kernel", "occupancy\nlimited by", ">CTAs\nexecuted", ">of"
    )
    for step in steps:
        coverage = step.result.coverage
        table.add_row(
            step.id,
            Text(step.title),
            Text(str(step.result.occupancy.limiter)),
            f"{coverage.ctas_executed:,}" if coverage.sampled else "all",
            f"{coverage.ctas_total:,}",
        )
    return table


def _excess(step: Step) -> Text:
    if not step.wavefronts:
        return Text("-")
    bad = step.excess > 0.005 * step.wavefronts_ideal
    return Text(count(step.excess), style="red" if bad else "green")


def _change(before: Step | None, step: Step) -> str:
    """How many times fewer (or more) sectors than the step before."""
    if before is None or not before.sectors or not step.sectors:
        return ""
    ratio = before.sectors / step.sectors
    if 0.995 < ratio < 1.005:
        return "same"
    return f"{ratio:.3g}x fewer" if ratio > 1 else f"{1 / ratio:.3g}x more"


def _by_line(steps: Sequence[Step], space: str) -> Text:
    lines = AccessLines(
        f"{space.capitalize()} memory, line by line: {COST[space]} a request of one warp "
        f"(from {SMALL:.0%} of a step's)",
        "step",
    )
    for step in steps:
        accesses = [a for a in step.accesses() if a.space == space]
        total = sum(a.cost for a in accesses)
        lines.add(
            step.id, step.result.kernel.module, [a for a in accesses if a.cost and a.cost >= SMALL * total]
        )
    return lines.text


def _readings(steps: Sequence[Step]) -> Text:
    """What the tables say about the two questions most people bring."""
    lines = ["What to read from it"]
    first = {step.seed: step for step in reversed(steps)}
    if "A1" in first and "A2" in first and first["A2"].load_sectors:
        a1, a2 = first["A1"], first["A2"]
        lines.append(
            f"  {a1.id} to {a2.id}: a global load takes {a1.sectors_per_load:.3g} sectors, then "
            f"{a2.sectors_per_load:.3g}; {a1.load_sectors / a2.load_sectors:.3g}x fewer sectors for the "
            "same work, because neighbouring threads now read neighbouring words."
        )
    for index, step in enumerate(steps):
        if step.seed != "A8":
            continue
        earlier = [s for s in reversed(steps[:index]) if s.seed != "A8" and s.wavefronts]
        reference = next((s for s in earlier if s.seed == "A6"), next(iter(earlier), None))  # A8 is A6 relaid
        if reference is not None:
            lines.append(
                f"  {step.id} against {reference.id}: shared wavefronts over the ideal "
                f"{count(reference.excess)}, then {count(step.excess)} "
                f"(of {count(reference.wavefronts)} and {count(step.wavefronts)} wavefronts): {step.title}."
            )
    lines.append(
        "  Shared reads: 'broadcast' costs nothing extra; 'n-way conflict' takes n times the wavefronts."
    )
    if any(step.estimated for step in steps):
        lines.append(
            "  ~ marks an estimate: how an asynchronous copy (LDGSTS) writes shared memory is not settled."
        )
    text = Text("\n".join(lines))
    text.stylize("bold", 0, len(lines[0]))
    return text

"""The GEMM ladder as tables: what each step costs, and what changed from the step before.

Works on any list of steps; the readings at the end look for the seed rows A1, A2 and A8 and are left out
where those are absent.  L1, L2, DRAM and time columns are absent until they are modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpusim.report.json import report_dict
from gpusim.report.lines import LineAccess, by_line
from gpusim.report.text import count, plain_table, source_text, verdict

if TYPE_CHECKING:
    from gpusim.simulate import SimResult

SCHEMA = "gpusim.ladder/1"

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

    def accesses(self) -> list[LineAccess]:
        """Memory accesses by source line."""
        return by_line(self.result.instructions)


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
    """All tables and the readings."""
    return Group(
        _overview(steps, size, device),
        Text(),
        _by_line(steps, "shared", "Shared memory, line by line: wavefronts a request of one warp"),
        Text(),
        _by_line(steps, "global", "Global memory, line by line: 32-byte sectors a request of one warp"),
        Text(),
        _readings(steps),
    )


def _overview(steps: Sequence[Step], size: int, device: str) -> Table:
    table = plain_table(
        f"GEMM ladder, {size} x {size} x {size}, predicted for {device} (nothing ran on a GPU)",
        "step",
        "kernel",
        ">warp\ninstructions",
        ">shared\nwavefronts",
        ">of them\nideal",
        ">conflicts\n(excess)",
        ">sectors per\nglobal load",
        ">global\nsectors",
        ">against step\nbefore",
        ">registers",
        ">occupancy",
        "limited by",
        "CTAs executed",
    )
    before: Step | None = None
    for step in steps:
        result = step.result
        occupancy = result.occupancy
        coverage = result.coverage
        table.add_row(
            step.id,
            Text(step.title),
            count(step.metric("smsp__inst_executed.sum")),
            count(step.wavefronts) if step.wavefronts else "-",
            count(step.wavefronts_ideal) if step.wavefronts else "-",
            _excess(step),
            f"{step.sectors_per_load:.3g}",
            count(step.sectors),
            _change(before, step),
            f"{step.metric('launch__registers_per_thread'):.0f}",
            f"{occupancy.theoretical_occupancy_pct:.4g} %",
            Text(str(occupancy.limiter)),
            f"{coverage.ctas_executed:,} of {coverage.ctas_total:,}" if coverage.sampled else "all",
        )
        before = step
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


def _by_line(steps: Sequence[Step], space: str, title: str) -> Table:
    table = plain_table(title, "step", ">line", "access", ">requests", ">each", ">ideal", "meaning", "source")
    for step in steps:
        name = step.id
        for access in step.accesses():
            if access.space != space or not access.cost:
                continue
            table.add_row(
                name,
                str(access.line) if access.line is not None else "-",
                access.opcode,
                count(access.requests),
                f"{access.cost_per_request:.3g}",
                f"{access.ideal / access.requests:.3g}" if access.requests else "-",
                verdict(access),
                Text(source_text(step.result.kernel.module, access.file, access.line)),
            )
            name = ""
    return table


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
        reference = next((s for s in reversed(steps[:index]) if s.seed != "A8" and s.wavefronts), None)
        if reference is not None:
            lines.append(
                f"  {step.id} against {reference.id}: shared wavefronts over the ideal "
                f"{count(reference.excess)}, then {count(step.excess)} "
                f"(of {count(reference.wavefronts)} and {count(step.wavefronts)} wavefronts): {step.title}."
            )
    lines.append(
        "  Shared reads: 'broadcast' costs nothing extra; 'n-way conflict' takes n times the wavefronts."
    )
    text = Text("\n".join(lines))
    text.stylize("bold", 0, len(lines[0]))
    return text

"""The report as tables for a terminal.

Every number here is a prediction; the ``tier`` column says whether it must equal the profiler's
(``exact``) or comes from a model with an error band (``modelled``).  Large counts are shortened (12.3 M);
the JSON report holds them whole.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from gpusim.report.lines import LineAccess, by_line

if TYPE_CHECKING:
    from gpusim.program import Module
    from gpusim.simulate import SimResult

#: Lines of source shown as hottest.
HOTTEST = 12

#: Longest piece of source text in a table, in characters.
SOURCE_WIDTH = 48


def count(value: float | None) -> str:
    """A count for reading: whole up to a million, then with three digits and M, G or T."""
    if value is None:
        return "-"
    if abs(value) < 1e6:
        return f"{value:,.0f}"
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= factor:
            return (
                f"{value / factor:.3g} {unit}"
                if abs(value) < 999.5 * factor
                else f"{value / factor:.0f} {unit}"
            )
    raise AssertionError("unreachable: the last factor is a million")


def number(value: float) -> str:
    """Any metric value: whole numbers with separators, others with four digits."""
    if not math.isfinite(value):
        return "-"
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.4g}"


class PlainTable(Table):
    """A table without a frame, under a heading that is never squeezed into the table's own width."""

    def __init__(self, heading: str, *columns: str) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        self.heading = heading
        for column in columns:
            right = column.startswith(">")
            header = Text(column.removeprefix(">"))
            self.add_column(header, justify="right" if right else "left", overflow="fold")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.heading, style="bold")
        yield from super().__rich_console__(console, options)


def plain_table(heading: str, *columns: str) -> PlainTable:
    """A table; a column whose name starts with ``>`` is set right."""
    return PlainTable(heading, *columns)


def render(result: SimResult, id: str | None = None) -> RenderableType:
    """The whole report of one launch."""
    parts: list[RenderableType] = [_summary(result, id), Text(), _metrics(result)]
    hottest = _hottest(result)
    if hottest is not None:
        parts += [Text(), hottest]
    parts += [Text(), Text("Not modelled in this version:", style="bold")]
    parts += [Text(f"  {gap['what']}: {gap['why']}") for gap in result.not_modelled]
    return Group(*parts)


def _summary(result: SimResult, id: str | None) -> Table:
    kernel, launch, coverage, occupancy = result.kernel, result.launch, result.coverage, result.occupancy
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    rows: list[tuple[str, str]] = []
    if id is not None:
        rows.append(("Launch", id))
    rows += [
        ("Kernel", f"{kernel.name} ({kernel.arch}), predicted for {result.device.name}"),
        ("Shape", f"grid {shape(launch.grid)}, block {shape(launch.block)}"),
        (
            "Resources",
            f"{kernel.registers_per_thread} registers a thread, {kernel.static_shared_bytes:,} B static "
            f"shared, {launch.dynamic_shared_bytes:,} B dynamic shared, {spills(kernel.spill_bytes)}",
        ),
        ("Occupancy", occupancy_text(occupancy)),
        ("Coverage", coverage_text(coverage)),
    ]
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    return table


def shape(dims: tuple[int, ...]) -> str:
    """Grid or block as ``16 x 16 x 1``."""
    return " x ".join(str(size) for size in dims)


def spills(spill_bytes: int | None) -> str:
    """Spilled bytes in words."""
    if spill_bytes is None:
        return "spills unknown"
    return f"{spill_bytes:,} B spilled" if spill_bytes else "no spills"


def occupancy_text(occupancy: Any) -> str:
    """Occupancy with what limits it."""
    return (
        f"{occupancy.theoretical_occupancy_pct:.4g} % ({occupancy.active_warps} warps in "
        f"{occupancy.active_blocks} blocks an SM), limited by {occupancy.limiter}"
    )


def coverage_text(coverage: Any) -> str:
    """How much of the grid was executed."""
    text = f"{coverage.ctas_executed:,} of {coverage.ctas_total:,} CTAs executed"
    if coverage.sampled:
        text += ", counters scaled"
    return f"{text}; {coverage.note}" if coverage.note else text


def _metrics(result: SimResult) -> Table:
    table = plain_table("Counters (predicted)", "name", ">value", "unit", "tier")
    for name, metric in result.metrics.items():
        if metric.value is not None:
            table.add_row(Text(name), number(metric.value), Text(metric.unit), metric.tier)
    return table


def _hottest(result: SimResult) -> Table | None:
    """Source lines by wavefronts and sectors, the costliest first."""
    accesses = [access for access in by_line(result.instructions) if access.cost]
    if not accesses:
        return None
    heading = f"Memory accesses by source line, the {HOTTEST} costliest"
    return lines_table(heading, result.kernel.module, accesses, limit=HOTTEST)


def lines_table(
    heading: str, module: Module, accesses: list[LineAccess], *, limit: int | None = None
) -> Table:
    """Memory accesses line by line, costliest first."""
    table = plain_table(
        heading, "line", "access", ">requests", ">cost", ">ideal", ">per request", "meaning", "source"
    )
    for access in sorted(accesses, key=lambda a: -a.cost)[:limit]:
        unit = "wavefronts" if access.space == "shared" else "sectors"
        table.add_row(
            place(access),
            access.opcode,
            count(access.requests),
            f"{count(access.cost)} {unit}",
            count(access.ideal),
            f"{access.cost_per_request:.3g}",
            verdict(access),
            Text(source_text(module, access.file, access.line)),
        )
    return table


def verdict(access: LineAccess) -> Text:
    """The verdict, red where the addresses cost more than they need to."""
    bad = access.ratio > 1.005
    return Text(access.verdict(), style="red" if bad else "green")


def place(access: LineAccess) -> str:
    """``file.cu:12``, or a dash for code without line information."""
    if access.file is None or access.line is None:
        return "-"
    return f"{Path(access.file).name}:{access.line}"


def source_text(module: Module, file: str | None, line: int | None, width: int = SOURCE_WIDTH) -> str:
    """The source line, stripped and cut; empty where the file is not on this machine."""
    if file is None or line is None:
        return ""
    lines = _source_lines(module, file)
    text = " ".join(lines[line - 1].split()) if 0 < line <= len(lines) else ""
    return text if len(text) <= width else text[: width - 3] + "..."


@lru_cache(maxsize=64)
def _source_lines(module: Module, file: str) -> tuple[str, ...]:
    return tuple((module.source_text(file) or "").splitlines())

"""The report as tables for a terminal.

Every number here is a prediction; the ``tier`` column says whether it must equal the profiler's
(``exact``) or comes from a model with an error band (``modelled``).  Large counts are shortened (12.3 M);
the JSON report holds them whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from gpusim.report.lines import LineAccess, LineTraffic, by_line
from gpusim.report.traffic import levels_table, line_table

if TYPE_CHECKING:
    from gpusim.program import Module
    from gpusim.simulate import SimResult

#: Accesses shown of each memory space, the costliest first.
HOTTEST = 12

#: What one request costs, by memory space.
COST = {"shared": "wavefronts", "global": "32-byte sectors"}

#: Width of the label before an access, where there are labels.
LABEL = 12

#: Longest piece of source text, in characters; the console cuts what does not fit it.
SOURCE_WIDTH = 120


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
    parts: list[RenderableType] = [
        _summary(result, id),
        Text(),
        _metrics(result),
        Text(),
        levels_table(result),
    ]
    module = result.kernel.module
    accesses = by_line(result.instructions, module.path)
    for space, cost in COST.items():
        costly = sorted((a for a in accesses if a.space == space and a.cost), key=lambda a: -a.cost)
        if not costly:
            continue
        which = f", the {HOTTEST} costliest" if len(costly) > HOTTEST else ""
        block = AccessLines(
            f"{space.capitalize()} memory by source line{which}: {cost} a request of one warp"
        )
        block.add("", module, costly[:HOTTEST])
        parts += [Text(), block.text]
    moved = line_table(result)
    if moved is not None:
        parts += [Text(), moved]
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


def _metrics(result: SimResult) -> RenderableType:
    table = plain_table("Counters under the profiler's names (predicted)", "name", ">value", "unit", "tier")
    zeros = 0
    for name, metric in result.metrics.items():
        if metric.value == 0:
            zeros += 1
            continue
        unit = metric.unit or ("wavefront" if "wavefronts" in name else "")
        table.add_row(Text(name), number(metric.value), Text(unit), metric.tier)
    return Group(table, Text(f"{zeros} more are 0.", style="dim")) if zeros else table


class AccessLines:
    """Memory accesses under the source line they stand on, as text that fits 100 columns.

    ``each`` and ``ideal`` are what one request of one warp costs, and would cost at the best addresses.
    """

    def __init__(self, heading: str, label: str = "") -> None:
        self._indent = LABEL if label else 0
        self.text = Text(no_wrap=True, overflow="ellipsis")
        self.text.append(heading, style="bold")
        columns = f"{'requests':>10}{'each':>7}{'ideal':>7}  meaning"
        self.text.append(f"\n{label:{self._indent}}{'access':18}{columns}", style="dim")

    def add(self, label: str, module: Module, accesses: Sequence[LineAccess]) -> None:
        """Accesses of one kernel; those on one source line share its heading."""
        order: dict[tuple[str | None, int | None], int] = {}
        for access in accesses:
            order.setdefault((access.file, access.line), len(order))
        before: tuple[str | None, int | None] | None = None
        for access in sorted(accesses, key=lambda a: order[a.file, a.line]):
            at = access.file, access.line
            if at != before:
                source = source_text(module, access.file, access.line)
                self.text.append(f"\n{label:{self._indent}}", style="bold")
                self.text.append(f"{place(access)}  {source}", style="cyan")
                before, label = at, ""
            self.text.append(
                f"\n{'':{self._indent}}  {short_name(access.opcode):16}{count(access.requests):>10}"
                f"{access.cost_per_request:>7.3g}{access.ideal / max(1, access.requests):>7.3g}  "
            )
            self.text.append(verdict(access))


def short_name(opcode: str) -> str:
    """The opcode and the width of the access: ``LDG.E.128.CONSTANT`` as ``LDG.128``."""
    name, *words = opcode.split(".")
    matrix = name in ("LDSM", "STSM")
    kept = [w for w in words if w in ("U8", "S8", "U16", "S16", "64", "128") or (matrix and w != "16")]
    return ".".join((name, *kept))


def verdict(access: LineAccess) -> Text:
    """The verdict, red where the addresses cost more than they need to."""
    bad = access.ratio > 1.005
    return Text(access.verdict(), style="red" if bad else "green")


def place(access: LineAccess | LineTraffic) -> str:
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

"""Traffic between SMs, L1, L2 and DRAM: what a launch's counters say level by level, and as tables.

Everything here is a prediction of the tier ``modelled`` (`gpusim.traffic`); bytes are decimal (1 kB = 1,000
B), as the profiler prints them.  Hit rates are shares of sectors (32 bytes), not of requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpusim.memory.hierarchy_loop import Traffic
from gpusim.metrics import SECTOR_BYTES
from gpusim.report.lines import LineTraffic, traffic_by_line

if TYPE_CHECKING:
    from gpusim.program import Module
    from gpusim.simulate import SimResult

HEADING = "Memory traffic (predicted)"

_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def bytes_text(value: float) -> str:
    """Bytes for reading: three digits and kB, MB, GB or TB."""
    for factor, unit in _SIZES:
        if abs(value) >= 0.9995 * factor:
            return (
                f"{value / factor:.3g} {unit}"
                if abs(value) < 999.5 * factor
                else f"{value / factor:.0f} {unit}"
            )
    return f"{value:.0f} B"


def rate_text(share: float | None) -> str:
    """A hit rate in percent, or a dash where there was nothing to hit."""
    return "-" if share is None else f"{100 * share:.1f} %"


def sentence(text: str) -> str:
    """With a capital letter, the rest as it is."""
    return text[:1].upper() + text[1:]


@dataclass(frozen=True, slots=True)
class Levels:
    """A launch's traffic; sectors of 32 bytes unless a name ends in ``bytes``.

    loaded, l1_hit: global loads at L1; local_loaded, local_hit: of local memory; to_l1, from_l1: between L1
    and L2; l2_read: what is left of to_l1 when requests of one GPC have merged; l2_hit: of l2_read and
    l2_write; fabric: between the halves of L2.
    """

    loaded: int
    l1_hit: int
    local_loaded: int
    local_hit: int
    to_l1: int
    from_l1: int
    l2_read: int
    l2_write: int
    l2_hit: int
    fabric: int
    dram_read_bytes: int
    dram_written_bytes: int

    @classmethod
    def of(cls, result: SimResult) -> Levels | None:
        """None where the launch's traffic was not predicted."""
        if result.traffic is None:
            return None
        sums = result.traffic.counters.sum(axis=0)

        def dram(way: str) -> int:
            return int(result.metrics[f"dram__bytes_{way}.sum"].value)

        return cls(  # type: ignore[call-arg]
            *(
                int(sums[column])
                for column in (
                    Traffic.LOADED, Traffic.L1_HIT, Traffic.LOCAL_LOADED, Traffic.LOCAL_HIT, Traffic.TO_L1,
                    Traffic.FROM_L1, Traffic.L2_READ, Traffic.L2_WRITE, Traffic.L2_HIT, Traffic.FABRIC,
                )
            ),
            dram("read"),
            dram("write"),
        )  # fmt: skip

    @property
    def l1_hit_rate(self) -> float | None:
        """Of global loads."""
        return self.l1_hit / self.loaded if self.loaded else None

    @property
    def local_hit_rate(self) -> float | None:
        return self.local_hit / self.local_loaded if self.local_loaded else None

    @property
    def l2_hit_rate(self) -> float | None:
        """Of reads after merging and of writes, which always hit."""
        asked = self.l2_read + self.l2_write
        return self.l2_hit / asked if asked else None

    @property
    def merged(self) -> float:
        """Share of the sectors between L1 and L2 that merging saves L2 from reading."""
        return max(0.0, 1 - self.l2_read / self.to_l1) if self.to_l1 else 0.0

    @property
    def dram_bytes(self) -> int:
        """Read and written."""
        return self.dram_read_bytes + self.dram_written_bytes


def why_absent(result: SimResult) -> str:
    """Why there is no traffic, in the words of the report's own list."""
    return next((gap["why"] for gap in result.not_modelled if "DRAM" in gap["what"]), "not predicted")


def levels_table(result: SimResult) -> RenderableType:
    """The section of the report: a row a level, and what it rests on."""
    from gpusim.report.text import plain_table

    levels = Levels.of(result)
    if levels is None or result.traffic is None:
        return Group(Text(HEADING, style="bold"), Text(f"  none: {why_absent(result)}"))
    table = plain_table(
        HEADING, "", ">sectors\nread", ">bytes\nread", ">sectors\nwritten", ">bytes\nwritten", ">hit\nrate"
    )
    _row(table, "L1, global loads", levels.loaded, None, levels.l1_hit_rate)
    if levels.local_loaded:
        _row(table, "L1, local loads", levels.local_loaded, None, levels.local_hit_rate)
    _row(table, "between L1 and L2", levels.to_l1, levels.from_l1, None)
    _row(table, "L2, after merging", levels.l2_read, levels.l2_write, levels.l2_hit_rate)
    table.add_row(
        "DRAM", "", bytes_text(levels.dram_read_bytes), "", bytes_text(levels.dram_written_bytes), ""
    )
    return Group(
        table, Text(f"{sentence(result.traffic.note)}. Hit rates are of sectors (32 bytes).", style="dim")
    )


def _row(table: Table, name: str, read: int, written: int | None, rate: float | None) -> None:
    from gpusim.report.text import count

    table.add_row(
        name,
        count(read),
        bytes_text(SECTOR_BYTES * read),
        "" if written is None else count(written),
        "" if written is None else bytes_text(SECTOR_BYTES * written),
        "" if rate is None else rate_text(rate),
    )


def line_table(result: SimResult) -> Text | None:
    """Where the bytes come from, by source line; None if nothing left an SM or traffic was not predicted."""
    from gpusim.report.text import HOTTEST

    module = result.kernel.module
    lines = traffic_by_line(result.instructions, module.path)
    if not lines:
        return None
    which = f", the {HOTTEST} with most of it" if len(lines) > HOTTEST else ""
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"Memory traffic by source line (predicted){which}", style="bold")
    columns = f"{'L1 hit':>10}{'L2 to L1':>11}{'L1 to L2':>11}{'L2 hit':>9}{'DRAM read':>11}"
    text.append(f"\n{'access':18}{columns}", style="dim")
    _append_lines(text, module, lines[:HOTTEST])
    return text


def _append_lines(text: Text, module: Module, lines: list[LineTraffic]) -> None:
    from gpusim.report.text import place, short_name, source_text

    order: dict[tuple[str | None, int | None], int] = {}
    for one in lines:
        order.setdefault((one.file, one.line), len(order))
    before: tuple[str | None, int | None] | None = None
    for one in sorted(lines, key=lambda t: order[t.file, t.line]):
        at = one.file, one.line
        if at != before:
            text.append(f"\n{place(one)}  {source_text(module, one.file, one.line)}", style="cyan")
            before = at
        to_l1, from_l1, dram = (_bytes(n) for n in (one.to_l1, one.from_l1, one.dram_read))
        text.append(
            f"\n  {short_name(one.opcode):16}{rate_text(one.l1_hit_rate):>10}{to_l1:>11}{from_l1:>11}"
            f"{rate_text(one.l2_hit_rate):>9}{dram:>11}"
        )


def _bytes(sectors: int) -> str:
    return bytes_text(SECTOR_BYTES * sectors) if sectors else "-"

"""Reads what Nsight Compute exports: raw, details and source pages as CSV, and ``.ncu-rep``.

| page | layout |
|---|---|
| ``--page raw --csv`` | one row a launch, a column a metric, units in the second row |
| ``--page details --csv`` | one row a (launch, metric): label, name, or ``label (name)`` |
| ``--page source --csv`` | a block a kernel: its name, a header, one row an instruction |

Any separator, number format, unit scale and encoding that Nsight Compute or a spreadsheet writes is read
(:mod:`gpusim.validation.ncu_numbers`).  What the profiler and the program printed around the table is
skipped.  A value that is missing in the file is missing in the result, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from gpusim.errors import InputError
from gpusim.validation.ncu_labels import DETAILS, SOURCE
from gpusim.validation.ncu_numbers import Convention, Value, base_unit, decide, plain, value
from gpusim.validation.ncu_tables import HINT, Block, blocks_of, decode, is_report, read_bytes

Dim3 = tuple[int, int, int]

#: Columns of the raw and details pages that identify a launch, by lower-case name.
_IDENTITY = frozenset({
    "id", "process id", "process name", "host name", "kernel name", "kernel time", "context", "stream",
    "block size", "grid size", "device", "cc", "device name", "section name", "metric name", "metric unit",
    "metric value", "rule name", "rule type", "rule description", "estimated speedup type",
    "estimated speedup", "invocations", "minimum", "maximum", "average", "function name", "demangled name",
})  # fmt: skip

#: Units of values that are whole numbers when they are not scaled.
_WHOLE = frozenset({"inst", "sector", "request", "thread", "warp", "block", "byte", "register/thread",
                    "byte/block", "wavefront"})  # fmt: skip


class SourceRow(TypedDict):
    """One instruction of a source page: function-relative pc, SASS text, counters by raw name."""

    pc: int
    sass: str
    columns: dict[str, int | float]


@dataclass(frozen=True, slots=True)
class LaunchRow:
    """One launch of a raw or details page; grid and block are None where the page does not say.

    capability: the GPU's compute capability as ``9.0``, empty where the page does not say.
    """

    id: int
    name: str
    grid: Dim3 | None
    block: Dim3 | None
    metrics: Mapping[str, Value]
    capability: str = ""


@dataclass(frozen=True, slots=True)
class SourcePage:
    """The instructions of one kernel, in address order."""

    name: str
    rows: Sequence[SourceRow]


@dataclass(frozen=True, slots=True)
class Export:
    """All that a file holds; page is ``raw``, ``details``, ``source`` or ``ncu-rep``."""

    page: str
    launches: Sequence[LaunchRow] = ()
    sources: Sequence[SourcePage] = ()
    #: Labels of a details page that no metric's name is known for.
    unknown_labels: Sequence[str] = field(default=())


def read_export(path: str | Path) -> Export:
    """Whatever ``path`` is, by looking at its content."""
    path = Path(path)
    data = read_bytes(path)
    if is_report(path, data):
        from gpusim.validation.ncu_binary import read_report

        return read_report(path)
    return read_text(decode(data, str(path)), str(path))


def read_raw(path: str | Path) -> list[LaunchRow]:
    """The launches of a raw or details page or of an ``.ncu-rep``."""
    export = read_export(path)
    if export.page == "source":
        raise InputError("is a source page; launches stand on the raw page", where=str(path), hint=HINT)
    return list(export.launches)


def read_source(path: str | Path) -> list[SourcePage]:
    """The kernels of a source page or of an ``.ncu-rep``."""
    export = read_export(path)
    if export.page not in ("source", "ncu-rep"):
        raise InputError(
            f"is a {export.page} page; instructions stand on the source page",
            where=str(path),
            hint="export it: ncu -i F.ncu-rep --page source --csv > source.csv",
        )
    return list(export.sources)


def read_text(text: str, where: str) -> Export:
    """A CSV page from its text (``where`` names it in messages)."""
    blocks = list(blocks_of(text, where))
    kinds = {block.kind for block in blocks}
    if len(kinds) != 1:
        raise InputError("holds pages of different kinds", where=where, hint="export one page a file")
    kind = kinds.pop()
    if kind == "source":
        return Export("source", sources=_sources(blocks, where))
    return _raw(blocks, where) if kind == "raw" else _details(blocks, where)


# --- The raw page ----------------------------------------------------------------------------------------

_UNIT_IN_NAME = re.compile(r"(\S+) \[(.*)\]")


def _raw(blocks: Sequence[Block], where: str) -> Export:
    tables = []
    cells: set[str] = set()
    counts: set[str] = set()
    for block in blocks:
        units = [""] * len(block.header)
        rows = block.rows
        identity = block.column("id")
        name = block.column("kernel name")
        assert name is not None  # that is what makes it a raw page
        if rows and not rows[0][1][name].strip() and (identity is None or not rows[0][1][identity].strip()):
            units, rows = [u.strip() for u in rows[0][1]], rows[1:]
        names = list(block.header)
        for k, header in enumerate(names):
            if match := _UNIT_IN_NAME.fullmatch(header):
                names[k], units[k] = match[1], units[k] or match[2]
        metrics = [k for k, header in enumerate(names) if header and header.lower() not in _IDENTITY]
        for k in metrics:
            column = {plain(text) for text in {row[k] for _, row in rows}}
            cells |= column
            if _is_count(names[k], units[k]):
                counts |= column
        tables.append((block, names, units, metrics, rows))
    convention = decide(cells, counts, where)
    launches: list[LaunchRow] = []
    known: dict[tuple[str, str], Value | None] = {}  # most numbers of a large page are alike
    for block, names, units, metrics, rows in tables:
        for number, row in rows:
            found: dict[str, Value] = {}
            for k in metrics:
                printed = row[k], units[k]
                if printed not in known:
                    known[printed] = value(*printed, convention)
                read = known[printed]
                if read is not None:
                    _add(found, names[k], read, f"{where}:{number}")
            launches.append(_launch(block, row, found, len(launches)))
    if not launches:
        raise InputError("the raw page holds no launch", where=where,
                         hint="did the profiler see a kernel? Look for ==WARNING== lines")  # fmt: skip
    return Export("raw", launches)


def _is_count(name: str, unit: str) -> bool:
    base, factor = base_unit(unit)
    return factor == 1 and base in _WHOLE and not re.search(r"\.(avg|ratio|pct|per_)|_pct$|ratio$|avg", name)


def _add(found: dict[str, Value], name: str, read: Value, where: str) -> None:
    """A metric; a second value for it must be the same."""
    before = found.get(name)
    if before is not None and before.number != read.number:
        raise InputError(f"{name} stands there twice, as {before.text} and {read.text}", where=where)
    found[name] = read


def _launch(block: Block, row: Sequence[str], metrics: dict[str, Value], index: int) -> LaunchRow:
    def cell(name: str) -> str:
        k = block.column(name)
        return row[k].strip() if k is not None else ""

    number = re.sub(r"\D", "", cell("id"))
    return LaunchRow(
        int(number[:18]) if number else index,
        cell("kernel name") or cell("function name"),
        _dim3(cell("grid size")),
        _dim3(cell("block size")),
        metrics,
        cell("cc").replace(",", "."),
    )


def _dim3(text: str) -> Dim3 | None:
    """``(16, 16, 1)`` as numbers, whatever groups its digits."""
    inner = text.strip().strip("()[]").translate({0xA0: " ", 0x202F: " "})
    for parts in (re.split(r"[,;x]\s+", inner), re.split(r"[,;x]", inner)):
        numbers = [re.sub(r"[.,' ’]", "", part) for part in parts]
        if len(numbers) == 3 and all(n.isdecimal() and len(n) < 12 for n in numbers):
            return int(numbers[0]), int(numbers[1]), int(numbers[2])
    return None


# --- The details page ------------------------------------------------------------------------------------

_RAW_NAME = re.compile(r"[a-z][a-z0-9]*__[A-Za-z0-9_.]+|(?:thread_)?inst_executed\w*|memory_l[12]_\w+")


def _details(blocks: Sequence[Block], where: str) -> Export:
    if any(block.kind == "summary" for block in blocks):
        raise InputError("is a summary over several launches, not one launch", where=where,
                         hint="export without --print-summary")  # fmt: skip
    rows = [(block, number, row) for block in blocks for number, row in block.rows]
    cells: set[str] = set()
    counts: set[str] = set()
    read = []
    unknown: dict[str, None] = {}
    for block, number, row in rows:
        columns = {name: block.column(name) for name in ("section name", "metric name", "metric unit",
                                                         "metric value")}  # fmt: skip
        section, label, unit, text = (row[k].strip() if k is not None else "" for k in columns.values())
        if not label:  # a rule's row
            continue
        name = metric_name(label, section)
        cells.add(plain(text))
        if _is_count(name or label, unit):
            counts.add(plain(text))
        if name is None:
            unknown[label] = None
            continue
        read.append((block, number, row, name, unit, text))
    convention = decide(cells, counts, where)
    launches: dict[tuple[str, ...], tuple[Block, list[str], dict[str, Value]]] = {}
    for block, _, row in rows:
        launches.setdefault(_key(block, row), (block, row, {}))
    for block, number, row, name, unit, text in read:
        number_read = value(text, unit, convention)
        if number_read is not None:
            _add(launches[_key(block, row)][2], name, number_read, f"{where}:{number}")
    found = [_launch(block, row, metrics, k) for k, (block, row, metrics) in enumerate(launches.values())]
    if not found:
        raise InputError("the details page holds no launch", where=where, hint=HINT)
    return Export("details", found, unknown_labels=tuple(unknown))


def _key(block: Block, row: Sequence[str]) -> tuple[str, ...]:
    """What tells launches apart: process, number and kernel."""
    columns = (block.column(name) for name in ("process id", "id", "kernel name"))
    return tuple(row[k] if k is not None else "" for k in columns)


def metric_name(label: str, section: str = "") -> str | None:
    """The raw name of what a details page calls ``label``; None where gpusim knows none.

    Reads names (``--print-metric-name name``), labels, and ``label (name)``.
    """
    if _RAW_NAME.fullmatch(label):
        return label
    both = re.fullmatch(r".*?[\s(]+(\S+?)\)?", label)
    if both and _RAW_NAME.fullmatch(both[1]) and "__" in both[1]:
        return both[1]
    key = " ".join(label.lower().split())
    return DETAILS.get((section.lower(), key)) or DETAILS.get(("", key))


# --- The source page -------------------------------------------------------------------------------------


def _sources(blocks: Sequence[Block], where: str) -> list[SourcePage]:
    columns = [_columns(block) for block in blocks]
    cells: set[str] = set()
    counts: set[str] = set()
    for block, named in zip(blocks, columns, strict=True):
        for k, name in named:
            column = {plain(text) for text in {row[k] for _, row in block.rows if k < len(row)}}
            cells |= column
            if not name.startswith("derived__avg") and name in SOURCE.values():
                counts |= column
    convention = decide(cells, counts, where)
    kernels: list[tuple[str, dict[int, SourceRow]]] = []
    for block, named in zip(blocks, columns, strict=True):
        rows = _instructions(block, named, convention, where)
        by_line = block.column("line no") is not None or block.column("# line") is not None
        if by_line and kernels and kernels[-1][0] == block.kernel:  # one block a source file
            kernels[-1][1].update(rows)
        else:
            kernels.append((block.kernel, rows))
    pages = [SourcePage(name, _relative(rows)) for name, rows in kernels if rows]
    if not pages:
        raise InputError(
            "the source page holds no machine instruction",
            where=where,
            hint="export it with --print-source sass (the default), not cuda",
        )
    return pages


def _columns(block: Block) -> list[tuple[int, str]]:
    """(index, raw name) of the columns that hold counters."""
    out = []
    for k, header in enumerate(block.header):
        key = " ".join(header.lower().removeprefix("#").split())
        if key in SOURCE:
            out.append((k, SOURCE[key]))
        elif _RAW_NAME.fullmatch(header):
            out.append((k, header))
    return out


def _instructions(
    block: Block, named: Sequence[tuple[int, str]], convention: Convention, where: str
) -> dict[int, SourceRow]:
    """Rows of machine instructions by printed address (or 16 bytes an instruction where none is printed)."""
    address = next((k for k, h in enumerate(block.header) if h.lower() in ("address", "# address")), None)
    source = max(k for k, h in enumerate(block.header) if h.lower() == "source")  # the last one is the SASS
    by_line = block.column("line no") is not None or block.column("# line") is not None
    if address is None and by_line:  # source lines without instructions
        return {}
    out: dict[int, SourceRow] = {}
    for number, row in block.rows:
        if row[0].strip().lower() == "file path":
            continue
        place = 16 * len(out) if address is None else _address(row[address])
        if place is None:  # a source line's sum, or a filler
            continue
        columns: dict[str, int | float] = {}
        for k, name in named:
            read = value(row[k], "", convention)
            if read is None:
                continue
            if columns.setdefault(name, read.number) != read.number:
                raise InputError(f"{name} stands there twice, as {columns[name]} and {read.number}",
                                 where=f"{where}:{number}")  # fmt: skip
        out.setdefault(place, SourceRow(pc=place, sass=" ".join(row[source].split()), columns=columns))
    return out


def _address(text: str) -> int | None:
    """``0x7f00`` or ``7f00``, as hexadecimal."""
    text = text.strip().lower().removeprefix("0x")
    return int(text, 16) if text and len(text) <= 16 and re.fullmatch(r"[0-9a-f]+", text) else None


def _relative(rows: Mapping[int, SourceRow]) -> list[SourceRow]:
    """In address order, with addresses from the start of the function, which is 128-byte aligned."""
    start = min(rows) & ~0x7F
    return [{**rows[place], "pc": place - start} for place in sorted(rows)]


__all__ = ["Export", "LaunchRow", "SourcePage", "SourceRow", "metric_name", "read_export", "read_raw",
           "read_source", "read_text"]  # fmt: skip

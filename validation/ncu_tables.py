"""The tables within a text that Nsight Compute printed: encoding, separator, headers and rows.

A text may hold several tables and, around them, what the profiler and the program said.  A row that is too
short means that the file was cut, and is refused.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusim.errors import InputError

HINT = "export one: LC_ALL=C ncu -i F.ncu-rep --page raw --csv --print-units base > raw.csv"


# --- Bytes and text --------------------------------------------------------------------------------------


def is_report(path: Path, data: bytes) -> bool:
    """Whether this is Nsight Compute's own format, by name or by its first bytes."""
    return path.suffix.lower() in (".ncu-rep", ".ncu-repz") or data[:4] == b"NVR\0"


def read_bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read: {(error.strerror or str(error)).lower()}", where=str(path)) from error
    if not data.strip():
        raise InputError("the file is empty", where=str(path), hint=HINT)
    return data


_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def decode(data: bytes, where: str) -> str:
    """UTF-8 or UTF-16 with or without a mark; else Windows' Western code page, which holds 0xA0 and ’."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    if encoding == "utf-8" and 0 in data[:2000]:
        head = data[:2000]
        if head.count(0) < len(head) // 4:  # UTF-16 without a mark: every other byte of ASCII is zero
            raise InputError("is a binary file, not a CSV page", where=where, hint=HINT)
        encoding = "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise InputError(f"is not valid {encoding} text", where=where, hint="save it as UTF-8") from error
        return data.decode("cp1252", errors="replace")


# --- Tables within the text ------------------------------------------------------------------------------


@dataclass(slots=True)
class Block:
    """A table: its kind, header, rows with line numbers, and (source pages) the kernel it belongs to."""

    kind: str
    header: list[str]
    rows: list[tuple[int, list[str]]]
    kernel: str = ""
    delimiter: str = ","

    def column(self, name: str) -> int | None:
        return next((k for k, h in enumerate(self.header) if h.lower() == name), None)


_PROFILER_LINE = re.compile(r"^==[A-Z]+==.*$", re.MULTILINE)
_KERNEL_ROW = frozenset({"kernel name", "function name"})
_DELIMITERS = ",;\t|"


def blocks_of(text: str, where: str) -> Iterator[Block]:
    """The tables of a file, between whatever else was printed to it."""
    if "ERR_NVGPUCTRPERM" in text:
        raise InputError("the profiler was not allowed to read counters (ERR_NVGPUCTRPERM)", where=where,
                         hint="profile as root, or see NVIDIA's page on that error")  # fmt: skip
    text = _PROFILER_LINE.sub("", text.replace("\r\n", "\n"))
    delimiter, start = _find_table(text, where)
    body = text[start:]
    if body.count('"') % 2:
        raise InputError("a quoted field never ends: the file is truncated", where=where, hint=HINT)
    line = text.count("\n", 0, start)
    csv.field_size_limit(max(csv.field_size_limit(), len(body) + 1))
    reader = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter)
    block: Block | None = None
    kernel = ""
    found = False
    try:
        for row in reader:
            number = line + reader.line_num
            if not any(cell.strip() for cell in row):
                continue
            first = row[0].strip().lower()
            if first in _KERNEL_ROW and len([c for c in row if c.strip()]) == 2:
                if block is not None:
                    found = True
                    yield block
                kernel, block = row[1].strip(), None
            elif kind := _kind(row):
                if block is not None:
                    found = True
                    yield block
                block = Block(kind, [cell.strip() for cell in row], [], kernel, delimiter)
            elif block is not None and len(row) >= 2:
                _check_width(block, row, number, where)
                block.rows.append((number, [sys.intern(cell) for cell in row]))
    except csv.Error as error:
        raise InputError(f"is not valid CSV: {error}", where=f"{where}:{line + reader.line_num}") from error
    if block is not None:
        found = True
        yield block
    if not found:
        raise InputError("names a kernel but holds no table: the file is truncated", where=where, hint=HINT)


def _check_width(block: Block, row: list[str], number: int, where: str) -> None:
    if block.kind == "source" and row[0].strip().lower() == "file path":
        return
    needed = len(block.header) - (block.header[-1] == "")
    if block.kind == "details":  # rules' columns may be left out
        needed = (block.column("metric value") or 0) + 1
    if len(row) < needed:
        raise InputError(
            f"the row has {len(row)} cells, its header {len(block.header)}: the file is truncated",
            where=f"{where}:{number}",
            hint=HINT,
        )


def _kind(row: Sequence[str]) -> str:
    """Which page a header row belongs to; empty for any other row."""
    names = {cell.strip().lower() for cell in row}
    if names & {"metric name"} and "metric value" in names:
        return "details"
    if {"metric name", "average"} <= names:
        return "summary"
    if "kernel name" in names and len(row) > 2 and ({"id", "process id", "grid size"} & names):
        return "raw"
    if "source" in names and ({"address", "#", "# address", "line no", "# line"} & names):
        return "source"
    return ""


def _find_table(text: str, where: str) -> tuple[str, int]:
    """Delimiter and offset of the first header (or of the kernel's name above it)."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        if ("ame" in line or "ource" in line) and len(line) < 1 << 22:
            for delimiter in _DELIMITERS:
                row = next(csv.reader([line], delimiter=delimiter), [])
                if _kind(row) or (len(row) >= 2 and row[0].strip().strip("\ufeff").lower() in _KERNEL_ROW):
                    return delimiter, start
        start = end + 1
    if text.lstrip().startswith(("{", "[")):
        raise InputError("is JSON, not an export of Nsight Compute", where=where,
                         hint="the order is gpusim compare REPORT.json EXPORT")  # fmt: skip
    raise InputError(
        "holds no table of Nsight Compute (no row with Kernel Name, Metric Name or Source)",
        where=where,
        hint=HINT,
    )


__all__ = ["HINT", "Block", "blocks_of", "decode", "is_report", "read_bytes"]

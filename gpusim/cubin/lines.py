"""Source lines of a cubin: the DWARF line table (``.debug_line``, versions 2 to 4).

ptxas writes one sequence a function; the address of its first row is a relocation against the
function's symbol.  Two NVIDIA extensions are understood: extended opcode 0x90 carries (row, name),
where ``row`` is the number (from 1, in this sequence) of the row at which the code of the following
rows was inlined, 0 for none.  Several rows may share an address: the last, innermost one counts.

A table that cannot be read costs the source lines, never the kernel: callers get an empty answer.
Source: DWARF 4, section 6.2; the extension was read off ``nvdisasm -gi`` output for the same bytes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from gpusim.cubin.elf import INSTRUCTION_BYTES, Cubin

_MAX_INLINE_DEPTH = 64


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where an instruction comes from; ``inlined_at``: call sites (file, line), innermost first."""

    file: str
    line: int
    inlined_at: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class _Row:
    address: int
    file: int
    line: int
    parent: int


class _Reader:
    """A cursor over bytes; running off the end raises IndexError."""

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data, self.at, self.end = data, at, len(data) if end is None else end

    def fixed(self, size: int) -> int:
        if self.at + size > self.end:
            raise IndexError("line table ends early")
        value = int.from_bytes(self.data[self.at : self.at + size], "little")
        self.at += size
        return value

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.fixed(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def sleb(self) -> int:
        start, value = self.at, self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def string(self) -> str:
        stop = self.data.index(b"\0", self.at, self.end)
        text = self.data[self.at : stop].decode("utf-8", "backslashreplace")
        self.at = stop + 1
        return text


def source_lines(cubin: Cubin) -> dict[str, dict[int, SourceLine]]:
    """For each function with line information: byte address -> line, for every instruction of it."""
    section = cubin.section(".debug_line")
    if section is None:
        return {}
    starts: dict[int, tuple[int, int]] = {}  # place in .debug_line -> (section of the code, address)
    by_name = {s.name: s for s in cubin.symbols if s.name}
    by_section = {s.name: s.index for s in cubin.sections}
    for relocation in cubin.relocations:
        if relocation.section != ".debug_line":
            continue
        if (symbol := by_name.get(relocation.symbol)) is not None:
            starts[relocation.offset] = (symbol.section, symbol.value + relocation.addend)
        elif relocation.symbol in by_section:
            starts[relocation.offset] = (by_section[relocation.symbol], relocation.addend)
    names = {f.section_index: f for f in cubin.functions.values()}
    out: dict[str, dict[int, SourceLine]] = {}
    at = 0
    try:
        while at + 4 <= len(section.data):
            end = at + 4 + int.from_bytes(section.data[at : at + 4], "little")
            for index, lines in _unit(_Reader(section.data, at + 4, min(end, len(section.data))), starts):
                if (function := names.get(index)) is not None:
                    known = out.setdefault(function.name, {})
                    _spread(lines, len(function.code), known)
            at = end
    except (IndexError, ValueError):
        pass  # a damaged table: keep what was read so far
    return out


def _spread(rows: list[tuple[int, SourceLine]], size: int, out: dict[int, SourceLine]) -> None:
    """Give every 16-byte slot from one row up to the next the row's line."""
    for (address, line), (stop, _) in zip(rows, [*rows[1:], (rows[-1][0], None)], strict=True):
        for pc in range(max(0, address), min(stop, size), INSTRUCTION_BYTES):
            out[pc] = line


def _unit(
    reader: _Reader, starts: Mapping[int, tuple[int, int]]
) -> list[tuple[int, list[tuple[int, SourceLine]]]]:
    """All sequences of one line-number program: (code section index, rows ending with the end row)."""
    version = reader.fixed(2)
    if not 2 <= version <= 4:
        return []
    header_bytes = reader.fixed(4)
    program = reader.at + header_bytes
    reader.fixed(1)  # least instruction length: 1, addresses are bytes
    if version >= 4:
        reader.fixed(1)  # operations an instruction: VLIW only
    reader.fixed(1)  # default is_stmt
    line_base = (reader.fixed(1) ^ 0x80) - 0x80
    line_range = reader.fixed(1)
    opcode_base = reader.fixed(1)
    lengths = [0, *(reader.fixed(1) for _ in range(opcode_base - 1))]
    directories = [""]
    while text := reader.string():
        directories.append(text)
    files = [""]
    while text := reader.string():
        directory = reader.uleb()
        reader.uleb(), reader.uleb()  # time and size
        files.append(_join(directories[directory] if directory < len(directories) else "", text))
    if line_range == 0:
        return []
    reader.at = program

    sequences = []
    rows: list[_Row] = []
    section, address, file, line, parent = -1, 0, 1, 1, 0
    while reader.at < reader.end:
        opcode = reader.fixed(1)
        if opcode >= opcode_base:
            address += (opcode - opcode_base) // line_range
            line += line_base + (opcode - opcode_base) % line_range
            rows.append(_Row(address, file, line, parent))
        elif opcode == 0:
            length = reader.uleb()
            stop = reader.at + length
            kind = reader.fixed(1)
            if kind == 1:  # end of sequence
                rows.append(_Row(address, file, line, parent))
                sequences.append((section, _resolve(rows, files)))
                rows = []
                section, address, file, line, parent = -1, 0, 1, 1, 0
            elif kind == 2:  # set address
                section, base = starts.get(reader.at, (-1, 0))
                address = base
            elif kind == 0x90:  # NVIDIA: the row this code was inlined at
                parent = reader.uleb()
            reader.at = stop
        elif opcode == 1:
            rows.append(_Row(address, file, line, parent))
        elif opcode == 2:
            address += reader.uleb()
        elif opcode == 3:
            line += reader.sleb()
        elif opcode == 4:
            file = reader.uleb()
        elif opcode == 8:
            address += (255 - opcode_base) // line_range
        elif opcode == 9:
            address += reader.fixed(2)
        else:
            for _ in range(lengths[opcode]):
                reader.uleb()
    return sequences


def _resolve(rows: list[_Row], files: list[str]) -> list[tuple[int, SourceLine]]:
    """Rows with file names and inline chains; of rows with one address only the last is kept."""

    def name(row: _Row) -> str:
        return files[row.file] if row.file < len(files) else ""

    out: list[tuple[int, SourceLine]] = []
    for row in rows:
        chain: list[tuple[str, int]] = []
        parent = row.parent
        while 0 < parent <= len(rows) and len(chain) < _MAX_INLINE_DEPTH:
            caller = rows[parent - 1]
            chain.append((name(caller), caller.line))
            parent = caller.parent
        if out and out[-1][0] == row.address:
            out.pop()
        out.append((row.address, SourceLine(name(row), row.line, tuple(chain))))
    return out


def _join(directory: str, file: str) -> str:
    path = posixpath.join(directory, file)
    return posixpath.normpath(path) if path else path

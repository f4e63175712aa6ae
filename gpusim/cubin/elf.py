"""A cubin taken apart: ELF sections, ``.nv.info`` attributes, symbols, relocations.

A cubin is an ELF64 little-endian image for machine 190 (EM_CUDA).  Each kernel ``k`` owns
``.text.k`` (128-bit instructions), ``.nv.info.k`` (attributes), ``.nv.constant0.k`` (launch
environment and parameters) and ``.nv.shared.k`` (static shared memory; no bytes in the file).
``.nv.info`` holds the attributes that name their function by symbol index (registers, frames).

Sizes are bytes.  Sources: attribute names and layouts are what ``nvdisasm`` 13.5 prints for the
same bytes; the reserved kilobyte was found by comparing ``.nv.shared.k`` with the ``smem`` figure of
``ptxas -v`` for sm_75 to sm_120 (nvcc 13.0 and NVRTC 13.5).

Left out: the ``.nv.merc.*`` twin of sm_100 and later (a second, relocatable form of the same code),
call graphs, and everything graphics.  Plain ``struct`` instead of an ELF library: the format is
small, the input is untrusted, and the GPU machines have no such library.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpusim.errors import CubinError

EM_CUDA = 190
INSTRUCTION_BYTES = 16
#: Shared memory the system keeps at the start of every block's window.  ``.nv.shared.k`` includes it
#: where the image names it: a section ``.nv.shared.reserved.0`` (ptxas) or a symbol
#: ``.nv.reservedSmem.cap`` with that value (nvlink, nvJitLink); so it is from sm_90 on.
RESERVED_SHARED_BYTES = 1024
#: EIATTR_MIN_STACK_SIZE of a kernel that recurses or calls by pointer.
UNKNOWN_STACK = 0xFFFFFFFF
#: First architecture with 128-bit instructions (Volta).
FIRST_SM = 70

_SHT_RELA, _SHT_NOBITS, _SHT_REL = 4, 8, 9
_STT_OBJECT, _STT_FUNC = 1, 2
_STO_CUDA_ENTRY = 0x10
_ABI_NEW = 8  # EI_ABIVERSION from which e_flags keeps the architecture in bits 8-15

# .nv.info attribute numbers (EIATTR_*).
_CTAIDZ_USED = 0x04
_MAX_THREADS = 0x05
_PARAM_CBANK = 0x0A
_REQNTID = 0x10
_FRAME_SIZE = 0x11
_MIN_STACK_SIZE = 0x12
_KPARAM_INFO = 0x17
_CBANK_PARAM_SIZE = 0x19
_MAXREG_COUNT = 0x1B
_REGCOUNT = 0x2F
_KPARAM_INFO_V2 = 0x45
_NUM_BARRIERS = 0x4C

#: Relocation types that code and data for sm_70 and later use, by the order in which ptxas 13.0 names
#: them.  Seen in linked cubins: 2 (an address) and 4 (a generic address).
RELOCATION_TYPES = {
    0: "R_CUDA_NONE",
    1: "R_CUDA_32",
    2: "R_CUDA_64",
    3: "R_CUDA_G32",
    4: "R_CUDA_G64",
    34: "R_CUDA_FUNC_DESC_32",
    35: "R_CUDA_FUNC_DESC_64",
    55: "R_CUDA_ABS32_32",
    56: "R_CUDA_ABS32_LO_32",
    57: "R_CUDA_ABS32_HI_32",
    58: "R_CUDA_ABS47_34",
    59: "R_CUDA_ABS16_32",
    60: "R_CUDA_ABS24_32",
    61: "R_CUDA_FUNC_DESC32_32",
    62: "R_CUDA_FUNC_DESC32_LO_32",
    63: "R_CUDA_FUNC_DESC32_HI_32",
    67: "R_CUDA_INSTRUCTION128",
}


@dataclass(frozen=True, slots=True)
class Section:
    """One ELF section; ``data`` is empty where the file holds no bytes (NOBITS)."""

    index: int
    name: str
    type: int
    flags: int
    size: int
    link: int
    info: int
    align: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol; ``value`` is an offset in ``section`` (an index; 0 undefined)."""

    name: str
    section: int
    value: int
    size: int
    type: int
    binding: int
    other: int

    @property
    def is_function(self) -> bool:
        return self.type == _STT_FUNC

    @property
    def is_object(self) -> bool:
        return self.type == _STT_OBJECT

    @property
    def is_entry(self) -> bool:
        return self.is_function and bool(self.other & _STO_CUDA_ENTRY)


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place in ``section`` that takes the address of ``symbol`` plus ``addend`` when loaded."""

    section: str
    offset: int
    type: str
    symbol: str
    addend: int


@dataclass(frozen=True, slots=True)
class Param:
    """One kernel parameter: offset in bytes from the parameter base, size in bytes."""

    ordinal: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Function:
    """What the image says about one code section (a kernel or a device function of its own).

    registers: EIATTR_REGCOUNT; frame_bytes: stack frame; local_bytes: least stack a thread needs,
    callees included; barriers: hardware barriers used; max_threads: ``__launch_bounds__`` product;
    required_block: ``.reqntid`` or None; labels: function symbols in the section by offset.
    """

    name: str
    is_entry: bool
    code: bytes
    section_index: int
    symbol_index: int
    registers: int
    static_shared_bytes: int
    params: tuple[Param, ...]
    param_base: int
    param_bytes: int
    constant0_bytes: int
    frame_bytes: int
    local_bytes: int
    barriers: int
    max_threads: int | None
    required_block: tuple[int, int, int] | None
    register_limit: int | None
    labels: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Cubin:
    """A parsed image. ``sm``: 90 for sm_90; ``functions`` in file order, by mangled name."""

    sm: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]
    functions: Mapping[str, Function]

    @property
    def reserved_shared_bytes(self) -> int:
        """Bytes the system keeps at the start of each CTA's shared window, before ``__shared__`` data."""
        return _reserved_shared(self.sections, self.symbols)

    def section(self, name: str) -> Section | None:
        return next((s for s in self.sections if s.name == name), None)


def parse_cubin(data: bytes, where: str = "cubin") -> Cubin:
    """Parse a linked cubin; :class:`CubinError` says in a sentence what is wrong with any other bytes."""
    sm, layout = _parse_header(data, where)
    try:
        sections = _parse_sections(data, layout, where)
        symbols = _parse_symbols(sections, where)
        relocations = tuple(_parse_relocations(sections, symbols, where))
        functions = _parse_functions(sections, symbols, where)
    except struct.error as err:
        raise CubinError(
            "the cubin is malformed: a table ends in the middle of an entry", where=where, hint=_REBUILD
        ) from err
    if not any(f.is_entry for f in functions.values()):
        raise CubinError(
            "the cubin holds no kernel",
            where=where,
            hint="a kernel is a __global__ function; a template needs an instantiation or a name expression",
        )
    return Cubin(sm, sections, symbols, relocations, functions)


_REBUILD = "build the cubin again, or copy it again in binary mode"
_Layout = tuple[int, int, int]  # section header offset, count, index of the section-name string table


def _parse_header(data: bytes, where: str) -> tuple[int, _Layout]:
    if not data:
        raise CubinError("the file is empty", where=where, hint="expected a cubin")
    if data[:4] != b"\x7fELF":
        kind = {b"\x50\xed\x55\xba": "a fatbin: extract the cubin with cuobjdump -xelf all"}.get(data[:4])
        hint = f"this is {kind}" if kind else "pass a cubin (nvcc -cubin), a .ptx or a .cu file"
        raise CubinError("not an ELF file, so not a cubin", where=where, hint=hint)
    if len(data) < 64:
        raise CubinError(
            f"truncated: {len(data)} bytes end inside the ELF header", where=where, hint=_REBUILD
        )
    if data[4] != 2 or data[5] != 1:
        raise CubinError("not a 64-bit little-endian ELF file, so not a cubin", where=where)
    e_type, machine, _, _, phoff, shoff, flags, _, phentsize, phnum, shentsize, shnum, shstrndx = (
        struct.unpack_from("<HHIQQQIHHHHHH", data, 16)
    )
    if machine != EM_CUDA:
        raise CubinError(
            f"an ELF file for machine {machine}, not for CUDA (machine {EM_CUDA})",
            where=where,
            hint="extract the cubin from a host object or library with cuobjdump -xelf all",
        )
    if e_type != 2:
        raise CubinError(
            "a relocatable CUDA object that was never linked (nvcc -dc), not a cubin",
            where=where,
            hint="build with nvcc -cubin, or link it with nvlink",
        )
    sm = (flags >> 8) & 0xFF if data[8] >= _ABI_NEW else flags & 0xFF
    if sm < FIRST_SM:
        raise CubinError(
            f"built for architecture sm_{sm}, which is not supported",
            where=where,
            hint=f"build for sm_{FIRST_SM} or later",
        )
    if shentsize != 64 or not shnum:
        raise CubinError("the cubin is malformed: no section table", where=where, hint=_REBUILD)
    needed = max(shoff + shnum * 64, phoff + phnum * phentsize)
    if needed > len(data):
        raise CubinError(
            f"truncated: its tables need {needed} bytes, the file has {len(data)}",
            where=where,
            hint=_REBUILD,
        )
    return sm, (shoff, shnum, shstrndx)


def _parse_sections(data: bytes, layout: _Layout, where: str) -> tuple[Section, ...]:
    shoff, shnum, shstrndx = layout
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + 64 * i) for i in range(shnum)]
    if shstrndx >= shnum:
        raise CubinError("the cubin is malformed: no section names", where=where, hint=_REBUILD)

    def content(header: tuple[int, ...]) -> bytes:
        _, kind, _, _, offset, size, *_ = header
        if kind in (0, _SHT_NOBITS):
            return b""
        if offset + size > len(data):
            raise CubinError(
                f"truncated: a section ends at byte {offset + size}, the file has {len(data)}",
                where=where,
                hint=_REBUILD,
            )
        return data[offset : offset + size]

    names = content(headers[shstrndx])
    return tuple(
        Section(i, _string(names, h[0], where), h[1], h[2], h[5], h[6], h[7], h[8], content(h))
        for i, h in enumerate(headers)
    )


def _string(table: bytes, offset: int, where: str) -> str:
    end = table.find(b"\0", offset)
    if offset >= max(1, len(table)) or (end < 0 and table):
        raise CubinError("the cubin is malformed: a name lies outside its table", where=where, hint=_REBUILD)
    return table[offset:end].decode("utf-8", "backslashreplace")


def _parse_symbols(sections: tuple[Section, ...], where: str) -> tuple[Symbol, ...]:
    table = next((s for s in sections if s.name == ".symtab"), None)
    if table is None or table.link >= len(sections):
        raise CubinError("the cubin is malformed: no symbol table", where=where, hint=_REBUILD)
    names = sections[table.link].data
    symbols = []
    for name, info, other, section, value, size in struct.iter_unpack("<IBBHQQ", table.data):
        symbols.append(Symbol(_string(names, name, where), section, value, size, info & 15, info >> 4, other))
    return tuple(symbols)


def _parse_relocations(
    sections: tuple[Section, ...], symbols: tuple[Symbol, ...], where: str
) -> Iterator[Relocation]:
    for table in sections:
        if table.type not in (_SHT_RELA, _SHT_REL):
            continue
        if table.info >= len(sections):
            raise CubinError("the cubin is malformed: relocations for no section", where=where, hint=_REBUILD)
        target = sections[table.info]
        layout = "<QQq" if table.type == _SHT_RELA else "<QQ"
        for offset, info, *rest in struct.iter_unpack(layout, table.data):
            index, kind = info >> 32, info & 0xFFFFFFFF
            if index >= len(symbols):
                raise CubinError(
                    "the cubin is malformed: a relocation names no symbol", where=where, hint=_REBUILD
                )
            symbol = symbols[index]
            name = symbol.name
            if not name and symbol.section < len(sections):
                name = sections[symbol.section].name
            if rest:
                addend = rest[0]
            else:  # REL keeps the addend in the place itself
                width = 4 if kind in (1, 3) else 8
                addend = int.from_bytes(target.data[offset : offset + width], "little", signed=True)
            type_name = RELOCATION_TYPES.get(kind, f"R_CUDA_{kind}")
            yield Relocation(target.name, offset, type_name, name, addend)


def _attributes(section: Section, where: str) -> Iterator[tuple[int, bytes]]:
    """(attribute, payload) of one ``.nv.info`` section.

    Entry: format byte, attribute byte, then by format 1: nothing (2 bytes of padding); 2: one byte
    and padding; 3: 16 bits; 4: 16-bit length and that many bytes.
    """
    data, at = section.data, 0
    while at + 4 <= len(data):
        form, attribute = data[at], data[at + 1]
        if form == 4:
            length = int.from_bytes(data[at + 2 : at + 4], "little")
            payload, step = data[at + 4 : at + 4 + length], 4 + length
            if len(payload) < length:
                break
        elif form in (1, 2, 3):
            payload, step = data[at + 2 : at + 2 + form - 1], 4
        else:
            break
        yield attribute, payload
        at += step
    if at < len(data):
        raise CubinError(
            f"the cubin is malformed: unreadable attribute at byte {at} of {section.name}",
            where=where,
            hint=_REBUILD,
        )


def _reserved_shared(sections: tuple[Section, ...], symbols: tuple[Symbol, ...]) -> int:
    cap = next((s.value for s in symbols if s.name == ".nv.reservedSmem.cap"), 0)
    named = any(s.name == ".nv.shared.reserved.0" for s in sections)
    return cap or (RESERVED_SHARED_BYTES if named else 0)


def _parse_functions(
    sections: tuple[Section, ...], symbols: tuple[Symbol, ...], where: str
) -> dict[str, Function]:
    by_name = {s.name: s for s in sections}
    per_symbol: dict[int, dict[int, int]] = {}  # attribute -> symbol index -> value
    if (info := by_name.get(".nv.info")) is not None:
        for attribute, payload in _attributes(info, where):
            if attribute in (_REGCOUNT, _FRAME_SIZE, _MIN_STACK_SIZE):
                symbol, value = struct.unpack_from("<II", payload)
                per_symbol.setdefault(attribute, {})[symbol] = value

    reserved = _reserved_shared(sections, symbols)
    labels: dict[int, dict[str, int]] = {}
    for symbol in symbols:
        if symbol.is_function and symbol.name:
            labels.setdefault(symbol.section, {})[symbol.name] = symbol.value

    functions = {}
    for section in sections:
        if not section.name.startswith(".text."):
            continue
        name = section.name[len(".text.") :]
        index = next(
            (i for i, s in enumerate(symbols) if s.name == name and s.section == section.index), None
        )
        if index is None:
            raise CubinError(
                f"the cubin is malformed: {section.name} has no symbol", where=where, hint=_REBUILD
            )
        if len(section.data) % INSTRUCTION_BYTES:
            raise CubinError(
                f"the cubin is malformed: {section.name} is no whole number of 16-byte instructions",
                where=where,
                hint=_REBUILD,
            )
        constant0 = by_name.get(f".nv.constant0.{name}")
        own = _own_attributes(by_name.get(f".nv.info.{name}"), where)
        if not own["params"] and constant0 is not None:  # no parameters: the bank ends where they would start
            own["param_base"] = constant0.size
        functions[name] = Function(
            name=name,
            is_entry=symbols[index].is_entry,
            code=section.data,
            section_index=section.index,
            symbol_index=index,
            registers=per_symbol.get(_REGCOUNT, {}).get(index, 0),
            static_shared_bytes=_static_shared(by_name.get(f".nv.shared.{name}"), reserved, where),
            frame_bytes=per_symbol.get(_FRAME_SIZE, {}).get(index, 0),
            local_bytes=per_symbol.get(_MIN_STACK_SIZE, {}).get(index, 0),
            constant0_bytes=constant0.size if constant0 is not None else 0,
            labels=labels.get(section.index, {}),
            **own,
        )
    return functions


def _static_shared(section: Section | None, reserved: int, where: str) -> int:
    if section is None:
        return 0
    if section.size < reserved:
        raise CubinError(
            f"the cubin is malformed: {section.name} has {section.size} bytes, "
            f"less than the {reserved} the system reserves",
            where=where,
            hint=_REBUILD,
        )
    return section.size - reserved


def _own_attributes(section: Section | None, where: str) -> dict[str, Any]:
    """The fields of :class:`Function` that ``.nv.info.<kernel>`` holds."""
    params: dict[int, Param] = {}
    found: dict[str, Any] = {
        "param_base": 0,
        "param_bytes": 0,
        "barriers": 0,
        "max_threads": None,
        "required_block": None,
        "register_limit": None,
    }
    for attribute, payload in _attributes(section, where) if section is not None else ():
        if attribute == _PARAM_CBANK:
            _, found["param_base"], found["param_bytes"] = struct.unpack_from("<IHH", payload)
        elif attribute == _CBANK_PARAM_SIZE:
            found["param_bytes"] = int.from_bytes(payload, "little")
        elif attribute == _KPARAM_INFO:
            _, ordinal, offset, bits = struct.unpack_from("<IHHI", payload)
            params[ordinal] = Param(ordinal, offset, bits >> 18)
        elif attribute == _KPARAM_INFO_V2:
            _, ordinal, offset, size = struct.unpack_from("<IHHH", payload)
            params[ordinal] = Param(ordinal, offset, size)
        elif attribute in (_MAX_THREADS, _REQNTID):
            x, y, z = struct.unpack_from("<III", payload)
            found["max_threads"] = x * y * z
            if attribute == _REQNTID:
                found["required_block"] = (x, y, z)
        elif attribute == _NUM_BARRIERS:
            found["barriers"] = payload[0] if payload else 0
        elif attribute == _MAXREG_COUNT:
            limit = int.from_bytes(payload, "little")
            found["register_limit"] = None if limit in (0, 0xFF, 0xFFFF) else limit
    found["params"] = tuple(params[i] for i in sorted(params))
    return found

"""Kernels ready to execute: compile or load, then look at instructions, registers, memory needs.

    module = compile("sgemm.cu", arch="sm_90")      # or .ptx, or CUDA source text
    module = load("sgemm.cubin")
    kernel = module["sgemm_tiled"]

A :class:`Module` is one cubin; its constants, device variables and relocations belong to all its
kernels.  Reading the ELF image is immediate; the instructions of a kernel are decoded (nvdisasm, then
``isa.sass``) when they are first asked for, and the disassembly is cached on disk by content.

Sizes and offsets are bytes.  Left out: fatbins, separate compilation (nvlink), textures and surfaces.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpusim.cubin import compiler, disassembler
from gpusim.cubin.elf import INSTRUCTION_BYTES, UNKNOWN_STACK, Cubin, Function, Param, Relocation, parse_cubin
from gpusim.cubin.lines import SourceLine, source_lines
from gpusim.cubin.names import demangle, spellings
from gpusim.errors import CompileError, CubinError, InputError
from gpusim.isa.instruction import Instruction
from gpusim.isa.sass import parse_instruction

__all__ = ["Global", "Kernel", "Module", "Param", "Relocation", "compile", "load"]

DEFAULT_ARCH = "sm_90"
#: Stack a thread gets when the compiler cannot bound it: the default of ``cudaLimitStackSize``.
DEFAULT_STACK_BYTES = 1024
_NO_SPILL_INFO = (
    "a cubin does not record spills, and this kernel's stack frame may hold more than spills; "
    "compile the source to have them from ptxas"
)


@dataclass(frozen=True, slots=True)
class Global:
    """A ``__device__`` variable. init: its bytes in the file, None where it starts as zeros."""

    name: str
    size: int
    align: int
    init: bytes | None
    section: str
    offset: int


@dataclass(frozen=True)
class Kernel:
    """One code section of a cubin: a kernel, or a device function that has a section of its own.

    registers_per_thread: as ptxas allocated them (the launch takes at least 16); static_shared_bytes:
    ``__shared__`` variables, without what the system reserves; param_base: offset of the first
    parameter in constant bank 0; constant0_bytes: size of that bank with the parameters; frame_bytes:
    stack frame; local_bytes: least stack a thread needs, callees included (the driver's default where
    recursion or a call by pointer leaves it open: ``stack_is_bounded``); max_threads: threads a block
    may have by ``__launch_bounds__``, None if not bounded; required_block: exact block shape demanded,
    or None; barriers: hardware barriers used; pc_of_symbol: functions inside the section (call targets
    such as ``$kernel$callee``) by byte address.
    """

    name: str
    arch: str
    registers_per_thread: int
    static_shared_bytes: int
    params: tuple[Param, ...]
    param_base: int
    param_bytes: int
    constant0_bytes: int
    frame_bytes: int
    local_bytes: int
    stack_is_bounded: bool
    max_threads: int | None
    required_block: tuple[int, int, int] | None
    barriers: int
    is_entry: bool
    cubin_sha256: str
    code: bytes = field(repr=False)
    pc_of_symbol: Mapping[str, int] = field(repr=False)
    module: Module = field(repr=False, compare=False, hash=False)
    reported_spills: int | None = field(default=None, repr=False, compare=False)

    def __hash__(self) -> int:
        return hash((self.cubin_sha256, self.name))

    @functools.cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The whole section in address order, padding included: ``instructions[pc // 16]``."""
        return self.module._decode(self)

    @functools.cached_property
    def live_registers(self) -> tuple[int, ...]:
        """Live general registers at each instruction, as ``nvdisasm -lrm count`` counts them."""
        live = self.module._live.get(self.name, {})
        return tuple(live.get(pc, 0) for pc in range(0, len(self.code), INSTRUCTION_BYTES))

    @functools.cached_property
    def stack_bytes(self) -> int:
        """Local memory a thread gets: ``local_bytes``, or the driver's default where that is 0 though code
        stores to its stack (CUDA 13.0 says so of recursion)."""
        uses = any(i.opcode in ("STL", "LDL") for i in self.instructions)
        return DEFAULT_STACK_BYTES if uses and not self.local_bytes else self.local_bytes

    @property
    def lines(self) -> Mapping[int, SourceLine]:
        """Byte address -> source line; empty without ``-lineinfo``."""
        return self.module._lines.get(self.name, {})

    @functools.cached_property
    def constant_banks(self) -> Mapping[int, bytes]:
        """Initial bytes of the constant banks this kernel sees, without bank 0 (launch and parameters).

        Its own (2: literals and jump tables) and the module's (3: ``__constant__`` variables, 4:
        addresses that the module's relocations fill in).
        """
        own = {}
        for section in self.module.elf.sections:
            match = re.fullmatch(rf"\.nv\.constant([1-9]\d*)\.{re.escape(self.name)}", section.name)
            if match:
                own[int(match[1])] = section.data
        return {**self.module.constant_banks, **own}

    @functools.cached_property
    def spill_bytes(self) -> int | None:
        """Spill stores plus spill loads in bytes (static, callees included) as ``ptxas -v`` reports them.

        Reported by the compiler if this module was compiled here.  For a loaded cubin: 0 without a
        stack; else, where the embedded PTX shows that the kernel declares no local variable and calls
        no function, every local access is a spill and they are counted (this equals what ptxas
        reports); else None, and ``spill_note`` says why.
        """
        if self.reported_spills is not None:
            return self.reported_spills
        if not self.frame_bytes and not self.local_bytes:
            return 0
        ptx = self.module.embedded_ptx(self.name)
        if ptx is None or re.search(r"^\s*(?:\.local\b|call\b|\{?\s*call\.)", ptx, re.M):
            return None
        return sum(_access_bytes(i) for i in self.instructions if i.opcode in ("STL", "LDL"))

    @property
    def spill_note(self) -> str | None:
        """Why ``spill_bytes`` is None, or None if it is known."""
        return _NO_SPILL_INFO if self.spill_bytes is None else None

    @property
    def display_name(self) -> str:
        """The name a person would write, e.g. ``tile<16>(float*)`` for a mangled one."""
        return demangle(self.name)


def _access_bytes(instruction: Instruction) -> int:
    """Bytes a thread moves in a local load or store, by its width modifier."""
    widths = {"64": 8, "128": 16, "U8": 1, "S8": 1, "U16": 2, "S16": 2}
    return next((widths[m] for m in instruction.modifiers if m in widths), 4)


class Kernels(Mapping[str, Kernel]):
    """Kernels of a module by mangled name; lookup also takes the ways people write a name."""

    def __init__(self, kernels: Sequence[Kernel], lowered: Mapping[str, str], where: str) -> None:
        self._by_name = {k.name: k for k in kernels}
        self._lowered = lowered
        self._where = where

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and len(self._matches(name)) == 1

    def __getitem__(self, name: str) -> Kernel:
        matches = self._matches(name)
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = ", ".join(k.display_name for k in matches)
            raise InputError(f"{name!r} names several kernels: {names}", where=self._where)
        known = {k.display_name: k for k in self._by_name.values()}
        # close to any way of writing a name: the whole, without parameters, bare
        forms = {form: shown for shown in known for form in (*spellings(shown), known[shown].name)}
        close = difflib.get_close_matches(spellings(name)[0], forms, n=1)
        guess = f"did you mean {forms[close[0]]}? " if close else ""
        raise InputError(
            f"no kernel named {name!r}",
            where=self._where,
            hint=f"{guess}kernels here: {', '.join(sorted(known))}",
        )

    def _matches(self, name: str) -> list[Kernel]:
        """By mangled name, name expression, demangled name, that without parameters, bare name."""
        name = name.strip()
        if (exact := self._by_name.get(self._lowered.get(name, name))) is not None:
            return [exact]
        wanted = spellings(name)[0]
        known = [(spellings(k.display_name), k) for k in self._by_name.values()]
        for form in range(3):
            if found := [k for forms, k in known if forms[form] == wanted]:
                return found
        return []


@dataclass(eq=False)
class Module:
    """One cubin. ``path``: the file it came from (source or cubin), None for source text.

    constant_banks: bytes of the module-wide banks (3: ``__constant__`` variables, 4: addresses filled
    in by relocations); constant_symbols: name -> (bank, offset, size); globals: ``__device__``
    variables; functions: device functions that have a section of their own (targets of indirect
    calls); elf: the parsed image; source: the text that was compiled, if it was; log: what the
    compiler said.
    """

    path: str | None
    arch: str
    cubin: bytes = field(repr=False)
    sha256: str
    kernels: Kernels = field(repr=False)
    functions: Mapping[str, Kernel] = field(repr=False)
    constant_banks: dict[int, bytes] = field(repr=False)
    constant_symbols: dict[str, tuple[int, int, int]] = field(repr=False)
    globals: tuple[Global, ...] = field(repr=False)
    relocations: tuple[Relocation, ...] = field(repr=False)
    elf: Cubin = field(repr=False)
    source: str | None = field(default=None, repr=False)
    log: str = field(default="", repr=False)
    include_dirs: tuple[str, ...] = field(default=(), repr=False)

    def __getitem__(self, name: str) -> Kernel:
        return self.kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def __contains__(self, name: object) -> bool:
        return name in self.kernels

    @property
    def where(self) -> str:
        return self.path or "<source text>"

    def embedded_ptx(self, kernel: str) -> str | None:
        """The PTX of one kernel as the cubin carries it (``-lineinfo`` and debug builds), or None."""
        for section in self.elf.sections:
            if section.name.startswith(".nv_debug_ptx_txt"):
                text = section.data.replace(b"\0", b"\n").decode("utf-8", "replace")
                start = re.search(rf"\.entry\s+{re.escape(kernel)}\s*\(", text)
                if start:
                    rest = text[start.end() :]
                    end = re.search(r"^(?:\.visible\s+|\.weak\s+|\.extern\s+)*\.(?:entry|func)\b", rest, re.M)
                    return rest[: end.start()] if end else rest
        return None

    def source_text(self, file: str) -> str | None:
        """The text of a file named in the line table, if it can be found on this machine."""
        path = self.find_source(file)
        if path is not None:
            try:
                return path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                return None
        return self.source if Path(file).name == _TEXT_NAME else None

    def find_source(self, file: str) -> Path | None:
        """Where a file named in the line table lies: as named, or beside the module or its headers."""
        candidates = []
        if self.path is not None:
            here = Path(self.path)
            if here.name == Path(file).name:
                candidates.append(here)
            candidates += [folder / file for folder in here.absolute().parents[:2]]
            candidates.append(here.parent / Path(file).name)
        candidates += [Path(file), *(Path(d) / Path(file).name for d in self.include_dirs)]
        return next((c for c in candidates if c.is_file()), None)

    @functools.cached_property
    def _listing(self) -> disassembler.Listing:
        return disassembler.disassemble(self.cubin, self.sha256, self.where)

    @functools.cached_property
    def _live(self) -> dict[str, dict[int, int]]:
        return disassembler.live_registers(self.cubin, self.sha256, self.where)

    @functools.cached_property
    def _lines(self) -> dict[str, dict[int, SourceLine]]:
        return source_lines(self.elf)

    def _decode(self, kernel: Kernel) -> tuple[Instruction, ...]:
        rows = self._listing.get(kernel.name)
        count = len(kernel.code) // INSTRUCTION_BYTES
        if rows is None or len(rows) != count:
            raise CubinError(
                f"nvdisasm lists {len(rows or ())} instructions of {kernel.name}, its section holds {count}",
                where=self.where,
                hint="the cubin may be damaged, or newer than this nvdisasm",
            )
        lines = kernel.lines
        out = []
        for index, (opcode, operands, predicate) in enumerate(rows):
            pc = index * INSTRUCTION_BYTES
            encoding = int.from_bytes(kernel.code[pc : pc + INSTRUCTION_BYTES], "little")
            at = lines.get(pc)
            if at is None:
                out.append(parse_instruction(pc, opcode, operands, predicate, encoding))
            else:
                out.append(
                    parse_instruction(
                        pc, opcode, operands, predicate, encoding, at.line, _shown(at.file),
                        tuple((_shown(f), n) for f, n in at.inlined_at),
                    )
                )  # fmt: skip
        return tuple(out)


_TEXT_NAME = "source.cu"


def _shown(file: str) -> str:
    """The name of a compiled file without the virtual directory it was compiled in."""
    return file.removeprefix(compiler.VIRTUAL_DIRECTORY + "/")


def compile(
    source: str | Path,
    arch: str = DEFAULT_ARCH,
    *,
    options: Sequence[str] = (),
    include_dirs: Sequence[str | Path] = (),
    name_expressions: Sequence[str] = (),
    max_registers: int | None = None,
) -> Module:
    """Compile CUDA C++ or PTX to a module; no GPU is needed.

    source: path of a .cu or .ptx file, or the source text itself (anything with a newline);
    options: passed to the compiler as they are; name_expressions: instantiations wanted of template
    kernels, e.g. ``"tile<16>"``, then found in the module under that name; max_registers: the
    compiler's ``maxrregcount``.  Headers in quotes are found beside the source.
    """
    if max_registers is not None and not 1 <= max_registers <= 255:
        raise InputError(f"max_registers {max_registers} is not between 1 and 255")
    dirs = [str(Path(d).absolute()) for d in include_dirs]
    path: Path | None = None
    if isinstance(source, str) and ("\n" in source or "{" in source):
        text, name = source.encode("utf-8", "surrogateescape"), _TEXT_NAME
    elif not str(source).strip():
        raise InputError("no source given", hint="pass a path, or source text")
    else:
        path = Path(source)
        text, name = _read(path, "a CUDA source (.cu) or PTX (.ptx) file"), path.name
        dirs.insert(0, str(path.absolute().parent))
        if text[:4] == b"\x7fELF":
            raise InputError("this is a binary, not a source", where=str(path), hint="load() takes cubins")
    where = str(path) if path is not None else "<source text>"
    if b"\0" in text.rstrip(b"\0"):
        raise InputError("binary data where source text was expected", where=where)
    if not text.strip():
        raise InputError("the source is empty", where=where)
    if _is_ptx(text, name):
        compiled = compiler.compile_ptx(
            text, name, arch, where=where, options=options, max_registers=max_registers
        )
    else:
        compiled = compiler.compile_cuda(
            text, name, arch, where=where, options=options, include_dirs=dirs,
            name_expressions=name_expressions, max_registers=max_registers,
        )  # fmt: skip
    try:
        return _module(
            compiled.cubin, str(path) if path is not None else None, compiled.lowered,
            compiler.parse_spills(compiled.log), source=text.decode("utf-8", "replace"),
            log=compiled.log, include_dirs=tuple(dirs),
        )  # fmt: skip
    except CubinError as err:
        if "no kernel" in err.what:
            raise CompileError("the source defines no kernel", where=where, hint=err.hint) from err
        raise


def load(path: str | Path) -> Module:
    """Read a .cubin file."""
    path = Path(path)
    return _module(_read(path, "a .cubin file"), str(path), {}, {})


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as err:
        raise InputError("no such file", where=str(path), hint=f"expected {what}") from err
    except IsADirectoryError as err:
        raise InputError("this is a directory", where=str(path), hint=f"expected {what}") from err
    except (OSError, ValueError) as err:
        why = err.strerror if isinstance(err, OSError) else str(err)
        raise InputError(f"the file cannot be read: {why}", where=str(path)[:200]) from err


_PTX = re.compile(rb"\A(?:\s|//[^\n]*\n|/\*.*?\*/)*\.version\b", re.S)


def _is_ptx(text: bytes, name: str) -> bool:
    return name.lower().endswith(".ptx") or _PTX.match(text) is not None


def _module(
    data: bytes,
    path: str | None,
    lowered: Mapping[str, str],
    spills: Mapping[str, int],
    *,
    source: str | None = None,
    log: str = "",
    include_dirs: tuple[str, ...] = (),
) -> Module:
    where = path or "<source text>"
    elf = parse_cubin(data, where)
    sha256 = hashlib.sha256(data).hexdigest()
    arch = f"sm_{elf.sm}"
    banks = {int(m[1]): s.data for s in elf.sections if (m := re.fullmatch(r"\.nv\.constant(\d+)", s.name))}
    constants, variables = {}, []
    for symbol in elf.symbols:
        if not symbol.is_object or not 0 < symbol.section < len(elf.sections):
            continue
        section = elf.sections[symbol.section]
        if match := re.fullmatch(r"\.nv\.constant(\d+)", section.name):
            constants[symbol.name] = (int(match[1]), symbol.value, symbol.size)
        elif section.name in (".nv.global", ".nv.global.init"):
            init = section.data[symbol.value : symbol.value + symbol.size] if section.data else None
            variables.append(
                Global(symbol.name, symbol.size, section.align, init, section.name, symbol.value)
            )
    module = Module(
        path=path, arch=arch, cubin=data, sha256=sha256, kernels=Kernels((), {}, where), functions={},
        constant_banks=banks, constant_symbols=constants, globals=tuple(variables),
        relocations=elf.relocations, elf=elf, source=source, log=log, include_dirs=include_dirs,
    )  # fmt: skip
    code = [_kernel(f, module, spills.get(f.name)) for f in elf.functions.values()]
    module.kernels = Kernels([k for k in code if k.is_entry], lowered, where)
    module.functions = {k.name: k for k in code if not k.is_entry}
    return module


def _kernel(function: Function, module: Module, reported_spills: int | None) -> Kernel:
    bounded = function.local_bytes != UNKNOWN_STACK
    return Kernel(
        name=function.name,
        arch=module.arch,
        registers_per_thread=function.registers,
        static_shared_bytes=function.static_shared_bytes,
        params=function.params,
        param_base=function.param_base,
        param_bytes=function.param_bytes,
        constant0_bytes=function.constant0_bytes,
        frame_bytes=function.frame_bytes,
        local_bytes=function.local_bytes if bounded else DEFAULT_STACK_BYTES,
        stack_is_bounded=bounded,
        reported_spills=reported_spills,
        max_threads=function.max_threads,
        required_block=function.required_block,
        barriers=function.barriers,
        is_entry=function.is_entry,
        cubin_sha256=module.sha256,
        code=function.code,
        pc_of_symbol=function.labels,
        module=module,
    )

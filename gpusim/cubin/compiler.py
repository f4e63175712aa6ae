"""CUDA C++ and PTX to cubins: NVRTC, nvJitLink and ptxas, with their answers kept on disk.

Line information and the statistics of ``ptxas -v`` are always asked for; neither changes the code.
An answer is cached under everything it depends on: the tool's build, architecture, options, source,
and every header of the user's that the source can reach.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.cubin import cache, toolchain
from gpusim.cubin.headers import HEADERS
from gpusim.cubin.toolchain import HINTS, Place
from gpusim.errors import CompileError, InputError, ToolMissing

#: Directory that a compiled file seems to lie in: the cubin (and so its hash) must not depend on
#: where the user keeps the source, yet NVRTC writes the directory into the line table.
VIRTUAL_DIRECTORY = "/gpusim"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A cubin, what the compiler said, and the mangled names of the name expressions."""

    cubin: bytes
    log: str
    lowered: dict[str, str]


def _without_times(log: str) -> str:
    """The same source must give the same bytes: ptxas also prints how long it took."""
    return "\n".join(line for line in log.splitlines() if "Compile time = " not in line)


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def parse_spills(log: str) -> dict[str, int]:
    """Spill stores plus loads in bytes by kernel (with its callees), from the text of ``ptxas -v``."""
    out: dict[str, int] = {}
    name = None
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            name = match[1]
        elif (match := _SPILL.search(line)) and name is not None:
            out[name] = out.get(name, 0) + int(match[1]) + int(match[2])
    return out


class Nvrtc:
    """The few NVRTC entry points that compiling needs, through ctypes."""

    def __init__(self, place: Place) -> None:
        self.place = place
        try:
            self.library = ctypes.CDLL(place.path)
            self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
        except (OSError, AttributeError) as err:
            raise ToolMissing(
                f"NVRTC cannot be loaded ({err})", where=place.path, hint=HINTS["nvrtc"]
            ) from err

    @staticmethod
    @functools.cache
    def load() -> Nvrtc:
        place = toolchain.find_library("nvrtc")
        if place is None:
            raise ToolMissing(
                "compiling CUDA C++ needs NVRTC, which is not on this machine", hint=HINTS["nvrtc"]
            )
        return Nvrtc(place)

    def _check(self, status: int, what: str) -> None:
        if status:
            raise CompileError(f"NVRTC failed to {what}: {self._error(status)}")

    def _error(self, status: int) -> str:
        return str(self.library.nvrtcGetErrorString(status).decode())

    @functools.cached_property
    def version(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "tell its version")
        return major.value, minor.value

    @functools.cached_property
    def architectures(self) -> tuple[int, ...]:
        """Supported architectures as numbers, e.g. 90 for sm_90."""
        count = ctypes.c_int()
        self._check(self.library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "list architectures")
        values = (ctypes.c_int * count.value)()
        self._check(self.library.nvrtcGetSupportedArchs(values), "list architectures")
        return tuple(values)

    def _bytes(self, program: ctypes.c_void_p, size: str, get: str) -> bytes:
        length = ctypes.c_size_t()
        self._check(getattr(self.library, size)(program, ctypes.byref(length)), "return its result")
        buffer = ctypes.create_string_buffer(max(1, length.value))
        self._check(getattr(self.library, get)(program, buffer), "return its result")
        return buffer.raw[: length.value]

    def compile(
        self,
        source: bytes,
        name: str,
        options: Sequence[str],
        expressions: Sequence[str],
        headers: Mapping[str, str],
    ) -> tuple[bytes | None, str, dict[str, str]]:
        """(cubin or None when the source was refused, log, lowered names)."""
        names = (ctypes.c_char_p * len(headers))(*[n.encode() for n in headers])
        texts = (ctypes.c_char_p * len(headers))(*[t.encode() for t in headers.values()])
        program = ctypes.c_void_p()
        self._check(
            self.library.nvrtcCreateProgram(
                ctypes.byref(program), source, os.fsencode(name), len(headers), texts, names
            ),
            "take the source",
        )
        try:
            for expression in expressions:
                status = self.library.nvrtcAddNameExpression(program, expression.encode())
                self._check(status, f"take the name expression {expression!r}")
            flags = (ctypes.c_char_p * len(options))(*[os.fsencode(o) for o in options])
            status = self.library.nvrtcCompileProgram(program, len(options), flags)
            log = self._bytes(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
            text = log.rstrip(b"\0").decode("utf-8", "replace").strip()
            if status:
                return None, text or self._error(status), {}
            lowered = {}
            for expression in expressions:
                mangled = ctypes.c_char_p()
                status = self.library.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(mangled))
                self._check(status, f"find {expression!r}")
                lowered[expression] = (mangled.value or b"").decode()
            return self._bytes(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN"), text, lowered
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))


_ARCH = re.compile(r"(?:sm_|compute_)?(\d{2,3})([af]?)")
_ARCH_OPTION = re.compile(r"-?-(?:arch|gpu-architecture|gpu-name)\b")


def check_architecture(arch: str, supported: Iterable[int] | None, tool: str) -> str:
    """``sm_90`` for sm_90, 90 or compute_90; :class:`InputError` with the supported list for others."""
    match = _ARCH.fullmatch(str(arch).strip().lower())
    if match is None and supported is None:
        raise InputError(f"{arch!r} is not an architecture", hint="write it like sm_90")
    if match is None or (supported is not None and int(match[1]) not in supported):
        names = ", ".join(f"sm_{n}" for n in sorted(supported or ()))
        raise InputError(f"architecture {arch!r} is not known to {tool}", hint=f"supported: {names}")
    return f"sm_{match[1]}{match[2]}"


def _check_options(options: Sequence[str]) -> None:
    for option in options:
        if _ARCH_OPTION.match(option):
            raise InputError(
                f"the option {option!r} would override the architecture", hint="give it as arch instead"
            )


def compile_cuda(
    source: bytes,
    name: str,
    arch: str,
    *,
    where: str,
    options: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
    max_registers: int | None = None,
) -> Compiled:
    """CUDA C++ to a cubin by NVRTC.

    name: file name without directory, shown in messages and in the line table; where: the path to
    name in error messages; include_dirs: searched before the toolkit's headers.
    """
    _check_options(options)
    nvrtc = Nvrtc.load()
    arch = check_architecture(arch, nvrtc.architectures, f"NVRTC {'.'.join(map(str, nvrtc.version))}")
    flags = [f"--gpu-architecture={arch}", "-lineinfo", "--ptxas-options=-v"]
    if not any(o.startswith(("--std", "-std")) for o in options):
        flags.append("--std=c++17")
    if max_registers is not None:
        flags.append(f"--maxrregcount={max_registers}")
    flags += options
    flags += [f"--include-path={d}" for d in (*include_dirs, *toolchain.system_include_dirs())]
    user_dirs = [*include_dirs, *_option_dirs(options)]
    # NVRTC prefers in-memory headers even to a quoted one beside the source: the user's go first
    headers = {n: t for n, t in HEADERS.items() if not any(Path(d, n).is_file() for d in user_dirs)}
    identity = _include_identity(source, user_dirs)
    entry = identity and cache.key(
        "nvrtc", nvrtc.place.stamp(), name, *flags, "\0", *name_expressions, "\0",
        source, identity, *headers, "\0", *headers.values(),
    )  # fmt: skip
    if entry and (known := _cached(entry)) is not None:
        return known
    virtual = f"{VIRTUAL_DIRECTORY}/{name}"
    cubin, log, lowered = nvrtc.compile(source, virtual, flags, name_expressions, headers)
    if cubin is None and _UNANNOTATED in log:
        # helpers without __device__: nvcc would compile them for the host, here they may serve both
        second = nvrtc.compile(source, virtual, [*flags, "-default-device"], name_expressions, headers)
        if second[0] is not None:
            cubin, log, lowered = second
    if cubin is None:
        raise _compile_error(log, virtual, where)
    if not cubin:
        raise CompileError("these compiler options produce no cubin", where=where, hint=" ".join(options))
    compiled = Compiled(cubin, _without_times(log), lowered)
    if entry:
        cache.put("cubin", entry, _pack(compiled))
    return compiled


def _pack(compiled: Compiled) -> bytes:
    header = json.dumps({"log": compiled.log, "lowered": compiled.lowered}).encode()
    return len(header).to_bytes(8, "little") + header + compiled.cubin


def _cached(entry: str) -> Compiled | None:
    payload = cache.get("cubin", entry)
    if payload is None:
        return None
    end = 8 + int.from_bytes(payload[:8], "little")
    header = json.loads(payload[8:end])
    return Compiled(payload[end:], header["log"], header["lowered"])


_UNANNOTATED = "function without execution space annotations"
_HOST_ONLY = re.compile(
    rf"{_UNANNOTATED}|__host__|identifier \"cuda[A-Z]|"
    r"source file \"(?:iostream|fstream|vector|string|memory|random|thread)\""
)
_TOOLKIT_HEADER = re.compile(r"(?:crt|cuda|nv|cub|thrust|cooperative_groups)/|cuda_|mma\.|cooperative_groups")


def _compile_error(log: str, virtual: str, where: str) -> CompileError:
    text = log.replace(virtual, where)
    message = "\n".join(line for line in text.splitlines() if not line.startswith("ptxas info")).strip()
    hint = None
    if match := re.search(r'Input name expression was: "\s*(.*?)\s*"', text):
        expression = match[1].replace(" ", "")
        return CompileError(
            f"the name expression {expression!r} fits no kernel template of the source:\n{message}",
            where=where,
        )
    if match := re.search(r'(?:cannot|could not) open source file "([^"]+)"', text):
        if _TOOLKIT_HEADER.match(match[1]):
            hint = HINTS["headers"]
        else:
            hint = f"give the directory of {match[1]} as an include directory"
    if _HOST_ONLY.search(text):
        hint = "only device code is compiled: put host code between #ifndef __CUDACC_RTC__ and #endif"
    return CompileError(f"the CUDA compiler refused the source:\n{message}", where=where, hint=hint)


# --- Which headers a source can reach (for the cache key) ------------------------------------------

_INCLUDE = re.compile(rb"(?m)(?:^[ \t]*(?:#|%:)[ \t]*include|__has_include)[ \t]*\(?[ \t]*(.*)$")
_TARGET = re.compile(rb'^(?:"([^"\n]+)"|<([^>\n]+)>)')


def _option_dirs(options: Sequence[str]) -> list[str]:
    """Directories given by -I, -Idir, --include-path=dir among the user's own options."""
    dirs: list[str] = []
    for index, option in enumerate(options):
        if option in ("-I", "--include-path"):
            dirs += options[index + 1 : index + 2]
        elif match := re.match(r"(?:-I|--include-path=)(.+)", option):
            dirs.append(match[1])
    return dirs


def _include_identity(source: bytes, user_dirs: Sequence[str]) -> str | None:
    """Hash over all user headers that ``source`` may include, transitively; None: cannot be told.

    Every directive is followed, whether or not a condition or comment disables it, and looked for in
    every user directory and beside the file that holds it.  Headers of the toolkit are left to the
    compiler's stamp and the include paths in the key.
    """
    pending: list[tuple[bytes, str | None]] = [(source, None)]
    seen, parts = set[str](), list[bytes]()
    while pending:
        text, folder = pending.pop()
        text = text.replace(b"\\\r\n", b"").replace(b"\\\n", b"")
        for match in _INCLUDE.finditer(text):
            target = _TARGET.match(match[1])
            if target is None:
                return None  # a computed include: do not cache
            name = os.fsdecode(target[1] or target[2])
            for directory in (*user_dirs, *((folder,) if folder else ())):
                path = os.path.normpath(os.path.join(directory, name))
                if path in seen:
                    continue
                seen.add(path)
                try:
                    content = Path(path).read_bytes()
                except OSError:
                    continue
                parts += [os.fsencode(path), content]
                pending.append((content, os.path.dirname(path)))
    return cache.key(*parts)


# --- PTX -------------------------------------------------------------------------------------------


def compile_ptx(
    source: bytes,
    name: str,
    arch: str,
    *,
    where: str,
    options: Sequence[str] = (),
    max_registers: int | None = None,
) -> Compiled:
    """PTX to a cubin, by nvJitLink if it is there, else by ptxas."""
    _check_options(options)
    arch = check_architecture(arch, None, "the PTX assembler")
    linker, ptxas = toolchain.find_library("nvJitLink"), toolchain.find_program("ptxas")
    tool = linker or ptxas
    if tool is None:
        raise ToolMissing(
            "PTX needs an assembler: neither nvJitLink nor ptxas is on this machine",
            where=where,
            hint=HINTS["ptx"],
        )
    flags = [f"-arch={arch}", "-lineinfo"]
    if max_registers is not None:
        flags.append(f"-maxrregcount={max_registers}")
    flags += options
    entry = cache.key("ptx", tool.stamp(), *flags, "\0", source)
    if (known := _cached(entry)) is not None:
        return known
    if linker is not None:
        cubin, log = _nvjitlink(linker, source, name, flags)
    else:
        cubin, log = _ptxas(tool, source, flags)
    if not cubin:
        if re.search(r"(?i)un\w+ arch|gpu-name", log):
            raise InputError(
                f"architecture {arch!r} is not known to this PTX assembler", where=where, hint=log
            )
        raise CompileError(f"the PTX assembler refused the source:\n{log}", where=where)
    compiled = Compiled(cubin, _without_times(log), {})
    cache.put("cubin", entry, _pack(compiled))
    return compiled


_NVJITLINK_INPUT_PTX = 2


def _nvjitlink(place: Place, source: bytes, name: str, flags: Sequence[str]) -> tuple[bytes, str]:
    try:
        library = ctypes.CDLL(place.path)
    except OSError as err:
        raise ToolMissing(f"nvJitLink cannot be loaded ({err})", where=place.path, hint=HINTS["ptx"]) from err
    handle = ctypes.c_void_p()
    options = [*flags, "-Xptxas=-v", "-verbose"]
    array = (ctypes.c_char_p * len(options))(*[os.fsencode(o) for o in options])

    def text(kind: str) -> str:
        length = ctypes.c_size_t()
        if _jit(library, f"nvJitLinkGet{kind}LogSize", handle, ctypes.byref(length)) or not length.value:
            return ""
        buffer = ctypes.create_string_buffer(length.value + 1)
        _jit(library, f"nvJitLinkGet{kind}Log", handle, buffer)
        return buffer.value.decode("utf-8", "replace").strip()

    status = _jit(library, "nvJitLinkCreate", ctypes.byref(handle), len(options), array)
    try:
        data = source.rstrip(b"\0") + b"\0"
        status = status or _jit(
            library, "nvJitLinkAddData", handle, _NVJITLINK_INPUT_PTX, data,
            ctypes.c_size_t(len(data)), os.fsencode(name),
        )  # fmt: skip
        status = status or _jit(library, "nvJitLinkComplete", handle)
        if status:
            return b"", text("Error") or text("Info") or f"nvJitLink error {status}"
        length = ctypes.c_size_t()
        _jit(library, "nvJitLinkGetLinkedCubinSize", handle, ctypes.byref(length))
        buffer = ctypes.create_string_buffer(max(1, length.value))
        if status := _jit(library, "nvJitLinkGetLinkedCubin", handle, buffer):
            return b"", f"nvJitLink error {status}"
        return buffer.raw[: length.value], text("Info")
    finally:
        if handle.value:
            _jit(library, "nvJitLinkDestroy", ctypes.byref(handle))


def _jit(library: ctypes.CDLL, name: str, *args: Any) -> int:
    """Call an nvJitLink entry point; its exported symbols end in a version, as in ``_13_0``."""
    for symbol in (name, *(f"__{name}_{major}_0" for major in range(13, 20)), f"__{name}_12_0"):
        if (function := getattr(library, symbol, None)) is not None:
            return int(function(*args))
    raise ToolMissing(f"nvJitLink lacks {name}", where=library._name, hint=HINTS["ptx"])


def _ptxas(place: Place, source: bytes, flags: Sequence[str]) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        ptx, out = Path(folder, "input.ptx"), Path(folder, "output.cubin")
        ptx.write_bytes(source.rstrip(b"\0"))
        result = toolchain.run([place.path, *flags, "-v", "-o", str(out), str(ptx)])
        log = (result.stderr + result.stdout).replace(f"{folder}/", "").strip()
        return (b"" if result.returncode or not out.is_file() else out.read_bytes()), log

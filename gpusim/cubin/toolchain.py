"""Where NVIDIA's compiler, assembler, disassembler and headers are on this machine.

NVRTC (CUDA C++ to cubin) and nvJitLink (PTX to cubin) are shared libraries, called through ctypes so
that the same code serves the pip wheels and an installed toolkit; ptxas and nvdisasm are programs.
Each is looked for in the wheels of this environment, then in ``CUDA_HOME``/``CUDA_PATH``, then
beside an ``nvcc`` on PATH, then in ``/usr/local/cuda*``, and last where cuda-pathfinder knows
(conda and the like).  No GPU or driver is needed for any of it.
"""

from __future__ import annotations

import ctypes.util
import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusim.errors import ToolMissing

_WINDOWS = sys.platform == "win32"
_TIMEOUT_S = 120
#: What to do when a part is missing.
HINTS = {
    "nvrtc": "pip install nvidia-cuda-nvrtc, or install the CUDA toolkit and set CUDA_HOME",
    "nvdisasm": "pip install nvidia-cuda-nvdisasm, or install the CUDA toolkit and put nvdisasm on PATH",
    "ptx": "pip install nvidia-nvjitlink, or install the CUDA toolkit and put ptxas on PATH",
    "headers": "pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl, or set CUDA_HOME",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A file that was found, and how; ``root``: the toolkit or wheel directory it belongs to."""

    path: str
    found_via: str
    root: Path | None = None

    @functools.cache  # noqa: B019 - places are few and live as long as the process
    def stamp(self) -> str:
        """Tells builds apart in cache keys: path, size, time."""
        try:
            stat = os.stat(self.path)
        except OSError:
            return self.path
        return f"{self.path}:{stat.st_size}:{stat.st_mtime_ns}"


@functools.cache
def roots() -> tuple[tuple[Path, str], ...]:
    """Directories that look like a toolkit, best first, each with the way it was found."""
    found: dict[Path, str] = {}
    for key in ("purelib", "platlib"):
        nvidia = Path(sysconfig.get_path(key)) / "nvidia"
        if nvidia.is_dir():
            for path in sorted(nvidia.iterdir(), key=_wheel_order):
                if path.is_dir():
                    found.setdefault(path, "pip wheel")
    installed = [(value, name) for name in ("CUDA_HOME", "CUDA_PATH") if (value := os.environ.get(name))]
    if nvcc := shutil.which("nvcc"):
        installed.append((str(Path(nvcc).resolve().parent.parent), "nvcc on PATH"))
    if not _WINDOWS:
        versions = sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
        installed += [(str(path), "/usr/local") for path in (Path("/usr/local/cuda"), *versions)]
    for text, how in installed:
        path = Path(text)
        # a script called nvcc may lie in a plain /usr/local/bin: its parent is no toolkit
        if any((path / mark).exists() for mark in ("nvvm", "include/cuda_runtime.h", "version.json")):
            found.setdefault(path, how)
    return tuple(found.items())


def _wheel_order(path: Path) -> tuple[int, str]:
    """nvidia/cu13 before nvidia/cu12 before the one-directory-a-component layout of CUDA 12."""
    match = re.fullmatch(r"cu(\d+)", path.name)
    return (-int(match[1]) if match else 1, path.name)


@functools.cache
def find_library(stem: str) -> Place | None:
    """``nvrtc`` or ``nvJitLink``; None if this machine has none."""
    pattern = f"{stem}64_*.dll" if _WINDOWS else f"lib{stem}.so*"
    folders = ("bin", "bin/x64", "bin/x86_64") if _WINDOWS else ("lib", "lib64", "targets/*/lib")
    for root, how in roots():
        for folder in folders:
            candidates = [p for p in root.glob(f"{folder}/{pattern}") if ".alt." not in p.name]
            if candidates:
                return Place(str(min(candidates, key=lambda p: (len(p.name), p.name))), how, root)
    if name := ctypes.util.find_library(stem):
        return Place(name, "system library path")
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        path = load_nvidia_dynamic_lib(stem).abs_path
    except Exception:
        return None
    return Place(path, "cuda-pathfinder") if path else None


@functools.cache
def find_program(name: str) -> Place | None:
    """``nvdisasm`` or ``ptxas``; None if this machine has none."""
    file = f"{name}.exe" if _WINDOWS else name
    for root, how in roots():
        path = root / "bin" / file
        if path.is_file() and os.access(path, os.X_OK):
            return Place(str(path), how, root)
    if on_path := shutil.which(name):
        return Place(on_path, "PATH")
    try:
        from cuda.pathfinder import find_nvidia_binary_utility

        found = find_nvidia_binary_utility(name)
    except Exception:
        return None
    return Place(found, "cuda-pathfinder") if found else None


@functools.cache
def system_include_dirs() -> tuple[str, ...]:
    """Toolkit headers, those of NVRTC's own toolkit first: cuda_fp16.h, crt/mma.h, cuda/std (libcu++)."""
    nvrtc = find_library("nvrtc")
    places = [root for root, _ in roots()]
    if nvrtc is not None and nvrtc.root is not None:
        places.insert(0, nvrtc.root)
    found: dict[str, None] = {}
    for root in places:
        for base in (root / "include", *sorted(root.glob("targets/*/include"))):
            for path in (base, base / "cccl"):
                if path.is_dir():
                    found.setdefault(str(path))
    return tuple(found)


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end; :class:`ToolMissing` if it does not run or does not end."""
    name = Path(command[0]).name
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as err:
        raise ToolMissing(f"{name} did not finish in {_TIMEOUT_S} s and was ended", where=command[0]) from err
    except OSError as err:
        raise ToolMissing(f"{name} does not run ({err.strerror})", where=command[0]) from err


@functools.cache
def program_version(name: str) -> str | None:
    """Version of a program, e.g. ``13.5.37``; None if it is not there or does not run."""
    place = find_program(name)
    if place is None:
        return None
    try:
        text = run([place.path, "--version"]).stdout
    except ToolMissing:
        return None
    match = re.search(r"V(\d+\.\d+\.\d+)", text)
    return match[1] if match else None


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing compiling and decoding needs. ``path`` None: missing, and ``hint`` says what to do."""

    name: str
    purpose: str
    path: str | None
    version: str | None
    found_via: str | None
    hint: str


def tools() -> tuple[Tool, ...]:
    """What was found on this machine (for ``gpusim doctor``)."""
    from gpusim.cubin.compiler import Nvrtc

    def tool(name: str, purpose: str, place: Place | None, version: str | None, hint: str) -> Tool:
        if place is None:
            return Tool(name, purpose, None, None, None, HINTS[hint])
        return Tool(name, purpose, place.path, version, place.found_via, HINTS[hint])

    nvrtc, version = find_library("nvrtc"), None
    try:
        version = ".".join(map(str, Nvrtc.load().version))
    except ToolMissing:
        nvrtc = None
    out = [tool("NVRTC", "compile CUDA C++", nvrtc, version, "nvrtc")]
    for name, purpose, hint in (("nvdisasm", "decode cubins", "nvdisasm"), ("ptxas", "assemble PTX", "ptx")):
        out.append(tool(name, purpose, find_program(name), program_version(name), hint))
    out.append(tool("nvJitLink", "assemble PTX", find_library("nvJitLink"), None, "ptx"))
    for header in ("cuda_fp16.h", "mma.h", "crt/mma.h", "cooperative_groups.h", "cuda/std/cstdint"):
        folder = next((d for d in system_include_dirs() if Path(d, header).is_file()), None)
        place = Place(folder, "include directory") if folder else None
        out.append(tool(header, "CUDA header", place, None, "headers"))
    return tuple(out)

"""What gpusim finds on this machine: Python, compilers, headers, GPU, cache, cores.

Looks and never changes anything.  ``missing`` means that simulating CUDA sources does not work here;
``optional`` is only needed for what the last column says.  Leaves out: whether a GPU works (only CuPy's
presence and the devices that it reports are looked at).
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpusim.cubin import cache, toolchain

State = Literal["ok", "missing", "optional"]

#: Distributions that gpusim imports, and what for.
PACKAGES = (
    ("numpy", "everything"),
    ("numba", "memory counters"),
    ("llvmlite", "executing SASS"),
    ("pyelftools", "reading cubins"),
    ("networkx", "control flow"),
    ("matplotlib", "figures"),
    ("rich", "tables"),
    ("typer", "the command line"),
)

#: NVIDIA's wheels, where they exist.
NVIDIA_PLATFORMS = ("Linux", "Windows")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for; ``hint`` is the next step where it is absent."""

    what: str
    state: State
    found: str
    needed_for: str
    hint: str = ""


def examine() -> list[Finding]:
    """Everything, in the order of the report."""
    return [*_python(), *_compilers(), *_gpu(), _cache(), _cores()]


def _python() -> Iterator[Finding]:
    yield Finding(
        "Python", "ok", f"{platform.python_version()} on {platform.platform(terse=True)}", "everything"
    )
    for name, purpose in PACKAGES:
        try:
            yield Finding(name, "ok", importlib.metadata.version(name), purpose)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "missing", "-", purpose, f"pip install {name}")


def _compilers() -> Iterator[Finding]:
    """NVRTC, nvdisasm, the PTX assembler and the headers, by ``cubin.toolchain``."""
    found = toolchain.tools()
    ptx = [tool.name for tool in found if tool.purpose == "assemble PTX" and tool.path]
    for tool in found:
        hint = tool.hint
        if platform.system() not in NVIDIA_PLATFORMS:
            hint = (
                f"NVIDIA publishes no {tool.name} for {platform.system()}; access, occupancy, devices and "
                "recorded reports work without it, compile and simulate on Linux or Windows"
            )
        text = " ".join(part for part in (tool.version, tool.path) if part)
        if tool.path is not None:
            yield Finding(tool.name, "ok", text, tool.purpose)
        elif tool.purpose == "assemble PTX":  # one of the two is enough, and only for .ptx input
            yield Finding(tool.name, "optional", "-", tool.purpose, "" if ptx else hint)
        else:
            yield Finding(tool.name, "missing", "-", tool.purpose, hint)


def _gpu() -> Iterator[Finding]:
    """A driver and CuPy: only measuring needs them."""
    driver = shutil.which("nvidia-smi")
    purpose = "measuring on a GPU (simulating needs none)"
    yield Finding(
        "NVIDIA driver", "ok" if driver else "optional", driver or "-", purpose,
        "" if driver else "nothing to do, unless this machine has an NVIDIA GPU to measure on",
    )  # fmt: skip
    for name in ("cupy-cuda13x", "cupy-cuda12x"):
        try:
            yield Finding("CuPy", "ok", f"{name} {importlib.metadata.version(name)}", purpose)
            return
        except importlib.metadata.PackageNotFoundError:
            continue
    yield Finding(
        "CuPy", "optional", "-", purpose, "pip install 'gpusim[gpu13]' (CUDA 13) or 'gpusim[gpu]' (CUDA 12)"
    )


def _cache() -> Finding:
    """The cache directory, and whether it can be written."""
    purpose = "fast second runs"
    place = cache.directory()
    if place is None:
        return Finding("Cache", "optional", "off", purpose, "unset GPUSIM_CACHE_DIR, or set it to a folder")
    folder = place
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if os.access(folder, os.W_OK):
        return Finding("Cache", "ok", str(place), purpose)
    return Finding(
        "Cache",
        "optional",
        f"{place} cannot be written",
        purpose,
        "set GPUSIM_CACHE_DIR to a folder of yours",
    )


def _cores() -> Finding:
    """Cores this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("Cores", "ok", str(usable), "executing CTAs side by side")

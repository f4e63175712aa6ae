"""gpusim executes a CUDA kernel's own machine code on the CPU and predicts the profiler's counters.

This module holds the public names and nothing else; each is imported when it is first used, so that
``import gpusim`` (and ``gpusim --help``) costs milliseconds and a machine without NVIDIA's compiler
can still use the parts that need none.

    >>> import gpusim as gs
    >>> kernel = gs.compile("sgemm.cu", arch="sm_90")["sgemm_tiled"]
    >>> outputs = gs.run(kernel, grid, block, args)
    >>> result = gs.simulate(kernel, grid, block, args, device="h200")
    >>> result.metrics["smsp__inst_executed.sum"].value
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pathlib import Path

    from gpusim.access import global_array as global_array
    from gpusim.access import shared_array as shared_array
    from gpusim.access import store as store
    from gpusim.access import threads as threads
    from gpusim.errors import GpusimError as GpusimError
    from gpusim.program import Kernel as Kernel
    from gpusim.program import Module as Module
    from gpusim.program import compile as compile
    from gpusim.simulate import SimResult as SimResult
    from gpusim.simulate import run as run
    from gpusim.simulate import simulate as simulate

#: Public name -> the module that defines it.
_PUBLIC = {
    "compile": "gpusim.program",
    "Kernel": "gpusim.program",
    "Module": "gpusim.program",
    "run": "gpusim.simulate",
    "simulate": "gpusim.simulate",
    "SimResult": "gpusim.simulate",
    "threads": "gpusim.access",
    "shared_array": "gpusim.access",
    "global_array": "gpusim.access",
    "store": "gpusim.access",
    "GpusimError": "gpusim.errors",
}

__all__ = [*_PUBLIC, "load", "__version__"]


def load(source: str | Path | Any) -> Any:
    """A compiled module from a ``.cubin`` path, or the cost of reading ``array[index]``.

    A path gives a :class:`gpusim.program.Module`; an element of :func:`shared_array` gives the
    access's wavefronts (``gs.load(As[t.y, t.x]).wavefronts``).
    """
    from os import PathLike

    if isinstance(source, (str, PathLike)):
        return import_module("gpusim.program").load(source)
    return import_module("gpusim.access").load(source)


class _Package(ModuleType):
    """The package object: public names on first use, and ``gpusim.simulate`` always the function.

    The import system binds a loaded submodule to its name in the package.  For ``simulate`` the
    function of that name is public and the module is not, so that one binding is refused; the module
    stays importable by ``from gpusim.simulate import ...``.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'gpusim' has no attribute {name!r}")
        value = getattr(import_module(_PUBLIC[name]), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _PUBLIC and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package

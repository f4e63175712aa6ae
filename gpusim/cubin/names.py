"""Kernel names as people write them: mangled names read back, spellings compared.

The machine's own C++ runtime reads mangled names; without one (or for a name it does not know) the
mangled name stands for itself.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import re
from typing import Any


@functools.cache
def _runtime() -> tuple[Any, Any] | None:
    """(``__cxa_demangle``, ``free``) of this machine; None without a C++ runtime."""
    for name in ("libstdc++.so.6", "libc++abi.dylib", ctypes.util.find_library("stdc++")):
        if not name:
            continue
        try:
            read, free = ctypes.CDLL(name).__cxa_demangle, ctypes.CDLL(None).free
        except (OSError, AttributeError, TypeError):
            continue
        read.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        return read, free
    return None


@functools.cache
def demangle(name: str) -> str:
    """``tile<16>(float*)`` for ``_Z4tileILi16EEvPf``; the name itself where that cannot be done."""
    if not name.startswith("_Z") or (runtime := _runtime()) is None:
        return name
    read, free = runtime
    status = ctypes.c_int()
    pointer = read(name.encode(), None, None, ctypes.byref(status))
    if not pointer:
        return name
    text = ctypes.string_at(pointer).decode("utf-8", "replace")
    free(pointer)
    return re.sub(r"^void (?=.*\()", "", text)


def spellings(name: str) -> tuple[str, str, str]:
    """The whole name, without its parameters, and bare of template arguments too; blanks dropped.

    ``(int)16`` and ``16u`` count as ``16``: demanglers differ in how they print template arguments.
    """
    whole = re.sub(r"\s+", "", re.sub(r"\b(?:unsigned )?(?:int|long|char|short|bool)\)(?=-?\w)", ")", name))
    whole = re.sub(r"\(\)(?=-?\d)", "", whole)
    whole = re.sub(r"(?<=[<,])(-?\d+)[uUlL]+(?=[,>])", r"\1", whole)
    without = re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)$", "", whole)
    return whole, without, without.split("<")[0]

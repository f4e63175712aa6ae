"""References of the opcode table: what each data row computes, written a second time from the standards.

The rows of ``rows_*`` are LLVM vector code; these are Python integers and fractions, one lane at a time,
so a mistake in one is unlikely to be in the other.  ``REFERENCE[row name]`` is a function
``(call, *sources)`` that returns one array of 32 values for each destination (None: not written; extra
ones are dropped).  Sources are raw: uint32 or uint64 bits as the register holds them, bool for
predicates, an int or str where the form says imm or word, a list of arrays for ``data``, byte addresses
for ``mem``, None for a missing operand.  The reference applies ``-``, ``~``, ``!`` and ``|x|`` itself,
from ``call.flags``.

Sources: PTX ISA 9.0 (each function names its instruction where that is not plain), IEEE 754-2019.
Left out: control rows, whose result is the path a program takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpusim.isa.table import SourceFlags

LANES = 32
M32 = 0xFFFFFFFF
M64 = 0xFFFFFFFFFFFFFFFF


@dataclass(slots=True)
class Call:
    """One executed instruction as a reference sees it.

    exec: lanes that take effect (active and guard true); active: lanes of the current group; flags: one
    entry a source; predicates, uniform_predicates: bool[7][32]; memory: bytes of "global", "shared", "const"
    and (a row a lane) "local"; windows: base and size of the spaces in generic addresses; special: rows by
    register name; state: the barrier result; written: lanes whose registers (not predicates) change, if not
    all that take effect. References of storing rows change ``memory`` in place, R2P ``predicates``.
    """

    name: str
    words: tuple[str, ...]
    flags: tuple[SourceFlags, ...]
    exec: np.ndarray
    active: np.ndarray
    predicates: np.ndarray
    uniform_predicates: np.ndarray
    memory: dict[str, np.ndarray] = field(default_factory=dict)
    windows: dict[str, tuple[int, int]] = field(default_factory=dict)
    special: dict[str, np.ndarray] = field(default_factory=dict)
    state: dict[str, int] = field(default_factory=dict)
    written: np.ndarray | None = None

    def __contains__(self, word: str) -> bool:
        return word in self.words

    def first(self, *choices: str, default: str = "") -> str:
        return next((w for w in self.words if w in choices), default)


Reference = Callable[..., Any]
REFERENCE: dict[str, Reference] = {}


def reference(names: str) -> Callable[[Reference], Reference]:
    """Register a function of whole arrays for rows (blank separated)."""

    def add(function: Reference) -> Reference:
        for name in names.split():
            if name in REFERENCE:
                raise ValueError(f"{name} has two references")
            REFERENCE[name] = function
        return function

    return add


def applied(value: int, bits: int, f: SourceFlags, kind: str) -> int:
    """An integer or floating-point source with its modifiers."""
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    if kind == "float":
        value = value & ~sign if f.abs else value
        return value ^ sign if f.neg else value
    if f.abs and value & sign:
        value = (1 << bits) - value
    if f.neg:
        value = -value
    if f.not_:
        value = mask - (value & mask)
    return value & mask


def _column(source: Any, f: SourceFlags, kind: str) -> list[Any]:
    """The source in each lane."""
    if not isinstance(source, np.ndarray):
        return [source] * LANES
    if source.dtype == bool:
        return [bool(v) != f.not_ for v in source]
    values = [int(v) for v in source]
    if kind == "raw":
        return values
    return [applied(v, 8 * source.dtype.itemsize, f, kind) for v in values]


def columns(call: Call, sources: tuple[Any, ...], kind: str) -> list[list[Any]]:
    return [_column(s, f, kind) for s, f in zip(sources, call.flags, strict=True)]


def lanewise(names: str, kind: str) -> Callable[[Reference], Reference]:
    """Register a function of one lane: ``f(call, lane values...)``.

    kind: how numeric sources take their modifiers: "int", "float", or "raw" (the function does it).
    """

    def add(function: Reference) -> Reference:
        def run(call: Call, *sources: Any) -> tuple[np.ndarray | None, ...]:
            rows = [function(call, *lane) for lane in zip(*columns(call, sources, kind), strict=True)]
            table = [r if isinstance(r, tuple) else (r,) for r in rows]
            return tuple(None if column[0] is None else np.array([int(v) & M64 for v in column], np.uint64)
                         for column in zip(*table, strict=True))

        run.__doc__ = function.__doc__
        reference(names)(run)
        return function

    return add


def signed(value: int, bits: int = 32) -> int:
    """Two's complement."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def limits(kind: str) -> tuple[int, int]:
    """Smallest and largest value of S8, U16 ..."""
    bits = int(kind[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "S" else (0, (1 << bits) - 1)


def combine(call: Call, value: bool, p: bool) -> bool:
    """The predicate operand of a comparison."""
    return (value or p) if "OR" in call else (value != p) if "XOR" in call else (value and p)


def load() -> dict[str, Reference]:
    """All references by row name (imports the modules that hold them)."""
    from gpusim.isa import (  # noqa: F401
        reference_convert,
        reference_float,
        reference_integer,
        reference_memory,
        reference_mufu,
        reference_warp,
    )

    return REFERENCE

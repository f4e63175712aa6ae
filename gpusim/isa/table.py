"""The form of the opcode table: what a row is, and how an instruction is matched to one.

A row is written once, next to its semantics::

    @row("IADD3", "i32 ?P ?P = i32 i32 i32 ?P ?P", modifiers="X", pipe="alu", source=...)
    def iadd3(x, m, a, b, c, p, q): return sum, carry1, carry2

``form`` lists destinations, ``=``, sources.  Tokens:

======= ============================================================================
i32     32-bit integer (register, uniform register, immediate, constant); ``-`` negates
b32     32-bit word; ``~`` inverts, ``-`` negates
raw     32-bit word without its modifiers, which the row finds in ``m.sources``
raw64   register pair without its modifiers
i64 f64 register pair (or 64-bit constant); a floating immediate gives the high word
f32     float; ``-`` and ``|x|`` applied
h2      two halves in a word: swizzle suffix, ``-`` and ``|x|`` applied by the row through ``m``
P       predicate; ``!`` inverts
PT      as a source: the predicate that is always true, and nothing else
imm     integer known when the handler is compiled (part of its key)
word    bare word known when the handler is compiled (``SR_TID.X``, ``PR``, ``B0`` ...)
B       convergence barrier register
mem     memory operand; the row gets an :class:`Address`
data    consecutive registers given as a list of words; the row's ``widths`` says how many
RZ      as a destination: a result that is not wanted, RZ and nothing else
any     ignored (cache hints, scoreboards)
======= ============================================================================

A name may end in ``@variant``: a row of the same opcode whose operands have another form.
``?`` marks an operand that may be missing (the row gets None).  The semantics function returns one
value a destination, in order (extra ones are dropped).  Handlers depend only on the row, the
modifiers and the operand descriptors, never on register numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpusim.errors import UnsupportedError
from gpusim.isa.instruction import Instruction, Operand
from gpusim.isa.sass import PT

#: Source tokens that accept a register, immediate or constant.
_VALUES = {"i32", "b32", "raw", "raw64", "i64", "f32", "f64", "h2", "data"}
WORDS = {"i32": 1, "b32": 1, "f32": 1, "h2": 1, "raw": 1, "raw64": 2, "P": 1, "B": 1, "i64": 2, "f64": 2}


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """What a row may ask about how source k was written."""

    neg: bool = False
    abs: bool = False
    not_: bool = False
    suffixes: tuple[str, ...] = ()


class Mods:
    """Modifiers of the instruction a handler is compiled for, and flags of each source operand."""

    __slots__ = ("words", "_set", "sources", "name")

    def __init__(self, name: str, words: tuple[str, ...], sources: tuple[SourceFlags, ...] = ()) -> None:
        self.name, self.words, self._set, self.sources = name, words, frozenset(words), sources

    def __contains__(self, word: str) -> bool:
        return word in self._set

    def first(self, *choices: str, default: str = "") -> str:
        """The one of ``choices`` that is present."""
        return next((c for c in self.words if c in choices), default)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the opcode table.

    name: opcode; forms: operand forms; modifiers: words accepted after the opcode; pipe: where it
    issues; semantics: the function; source: where the semantics comes from; control: runtime action
    instead of a handler (``functional.layout`` K_*), empty for data; bound: None if results are exact
    bit for bit, else the stated error bound; widths: words of each ``data`` operand; flags: event
    flags of a memory row.
    """

    name: str
    forms: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    modifiers: frozenset[str]
    pipe: str
    source: str
    semantics: Callable[..., Any] | None = None
    control: str = ""
    bound: str | None = None
    widths: Callable[[Mods], tuple[int, ...]] | None = None
    flags: Callable[[Mods], int] | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """An instruction matched to its row: operands by position of the form (None: missing)."""

    row: Row
    instruction: Instruction
    destinations: tuple[tuple[str, Operand | None], ...]
    sources: tuple[tuple[str, Operand | None], ...]


@dataclass(slots=True)
class Table:
    """Rows by opcode name; filled by the ``row`` decorator while the row modules import."""

    rows: dict[str, Row] = field(default_factory=dict)
    by_opcode: dict[str, list[tuple[tuple[str, ...], Row]]] = field(default_factory=dict)

    def candidates(self, instruction: Instruction) -> list[Row]:
        """Rows whose own modifiers occur, in order, among the instruction's; the most specific first."""
        out = []
        for words, entry in self.by_opcode.get(instruction.opcode, ()):
            left = iter(instruction.modifiers)
            if all(word in left for word in words):
                out.append(entry)
        return out

    def row(
        self, name: str, *forms: str, modifiers: str = "", pipe: str = "alu", source: str, control: str = "",
        bound: str | None = None, widths: Callable[[Mods], tuple[int, ...]] | None = None,
        flags: Callable[[Mods], int] | None = None,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add a row (several names separated by blanks share one semantics, e.g. IADD3 and UIADD3)."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            for one in name.split():
                if one in self.rows:
                    raise ValueError(f"opcode {one} is in the table twice")
                opcode, *words = one.partition("@")[0].split(".")
                parsed, accepted = tuple(_form(f) for f in forms), frozenset(modifiers.split()) | set(words)
                entry = Row(one, parsed, accepted, pipe, source, function, control, bound, widths, flags)
                self.rows[one] = entry
                self.by_opcode.setdefault(opcode, []).append((tuple(words), entry))
                self.by_opcode[opcode].sort(key=lambda e: (-len(e[0]), e[1].name))
            return function

        return add


TABLE = Table()
row = TABLE.row


def _form(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    left, _, right = text.partition("=")
    return tuple(left.split()), tuple(right.split())


def _accepts(token: str, o: Operand) -> bool:
    token = token.lstrip("?")
    if token in _VALUES:
        return o.kind in ("R", "UR", "imm") or (o.kind == "const" and o.base < 0 and o.ubase < 0)
    if token == "P":
        return o.kind in ("P", "UP")
    if token == "PT":
        return o.kind in ("P", "UP") and o.index == PT and not o.not_
    if token == "imm":
        return o.kind in ("imm", "label")
    if token == "word":
        return o.kind in ("name", "SR", "SB", "label", "B")
    if token == "B":
        return o.kind == "B"
    if token == "mem":
        return o.kind in ("mem", "const")
    if token == "any":
        return True
    raise ValueError(f"unknown form token {token!r}")


def _destination(token: str, o: Operand) -> bool:
    token = token.lstrip("?")
    if token == "P":
        return o.kind in ("P", "UP")
    if token == "B":
        return o.kind == "B"
    if token == "RZ":
        return o.kind == "R" and o.index == 255
    return o.kind in ("R", "UR")


def _match(
    tokens: tuple[tuple[str, bool], ...], operands: tuple[Operand, ...]
) -> list[Operand | None] | None:
    """Operands by token; a missing ``?`` token takes None; backtracks (forms are short)."""
    if not tokens:
        return [] if not operands else None
    (token, is_destination), rest = tokens[0], tokens[1:]
    if operands and (_destination if is_destination else _accepts)(token, operands[0]):
        used = 1
        if token.lstrip("?") == "h2" and [o.kind for o in operands[:2]] == ["imm", "imm"]:
            used = 2  # two printed halves, one 32-bit immediate
        tail = _match(rest, operands[used:])
        if tail is not None:
            return [operands[0], *tail]
    if token.startswith("?"):
        tail = _match(rest, operands)
        if tail is not None:
            return [None, *tail]
    return None


def where(instruction: Instruction) -> str:
    """``pc 0x0120 'IMAD.WIDE R2, R5, 0x4, R2' (gemm.cu:12)`` for messages."""
    place = f" ({instruction.file}:{instruction.line})" if instruction.line else ""
    return f"pc 0x{instruction.pc:04x} '{instruction.text}'{place}"


def bind(instruction: Instruction) -> Bound:
    """Match an instruction to its row; refuse by name what the table does not hold."""
    candidates = TABLE.candidates(instruction)
    hint = "`gpusim opcodes` lists what is supported; please report the kernel that needs this"
    if not candidates:
        name = instruction.name if instruction.opcode in TABLE.by_opcode else instruction.opcode
        raise UnsupportedError(f"opcode {name} is not supported", where=where(instruction), hint=hint)
    refused = ""
    for found in candidates:
        refused = next((w for w in instruction.modifiers if w not in found.modifiers), "")
        if refused:
            continue
        for destinations, sources in found.forms:
            tokens = tuple((t, True) for t in destinations) + tuple((t, False) for t in sources)
            matched = _match(tokens, instruction.operands)
            if matched is not None:
                n = len(destinations)
                return Bound(
                    found,
                    instruction,
                    tuple((t.lstrip("?"), o) for t, o in zip(destinations, matched[:n], strict=True)),
                    tuple((t.lstrip("?"), o) for t, o in zip(sources, matched[n:], strict=True)),
                )
    if refused:
        raise UnsupportedError(f"modifier .{refused} of {instruction.opcode} is not supported",
                               where=where(instruction), hint=hint)
    raise UnsupportedError(
        f"operand form of {instruction.name} is not supported", where=where(instruction), hint=hint
    )


@dataclass(frozen=True, slots=True)
class Address:
    """What a memory row gets for its ``mem`` operand: lane values and which parts are present.

    base: i32 or i64 lanes or None; ubase: i32/i64 lanes or None; the byte offset is added at run time.
    """

    base: Any
    ubase: Any
    offset: Any  # i64 lanes
    suffixes: tuple[str, ...]

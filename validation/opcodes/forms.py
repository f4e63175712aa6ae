"""A form: one instruction (or a few) as it is run on both sides, and what it reads.

:func:`dress` turns an encoding found by exploration into one fit to run: registers R8, R12, R16 as sources
and R24 as destination (uniform ones alike), distinct predicates, a value in the immediate or constant, a
guard
in some, and scheduling bits that wait for everything.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gpusim.errors import UnsupportedError
from gpusim.isa.instruction import Instruction, Operand
from gpusim.isa.opcodes import bind
from gpusim.isa.table import Bound
from gpusim.validation.opcodes.encode import PT, control, get, put
from gpusim.validation.opcodes.listing import decode

#: Register numbers of the template by field (bit of the field, width): sources a, b, c and destination d.
A, B, C, D = 8, 12, 16, 24
R2P = 0x004  # the operation in 9 bits
GUARD, NOT_GUARD, PAIR_AT = 5, 6 | 8, {"pd": 81, "pq": 84, "pp": 87, "pr": 77}


@dataclass(frozen=True, slots=True)
class Form:
    """row: of the opcode table; sass: text of the instruction under test; code: what stands in the slot;
    kinds: of the slots a, b, c (``inputs``); template: ``register`` or ``memory``; uniform: one thread a
    warp;
    offsets: of memory forms, see ``inputs.offsets``.
    """

    row: str
    sass: str
    code: tuple[int, ...]
    kinds: tuple[str, str, str] = ("i32", "i32", "i32")
    template: str = "register"
    uniform: bool = False
    offsets: str = ""
    note: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """Name in bundles and records: the instructions in hexadecimal."""
        return "+".join(f"{c:032x}" for c in self.code) + (f"@{self.offsets}" if self.offsets else "")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "code": [f"{c:032x}" for c in self.code]}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Form:
        names = ("row", "sass", "template", "uniform", "offsets", "note")
        return cls(
            code=tuple(int(c, 16) for c in row["code"]),
            kinds=tuple(row["kinds"]),
            **{k: row[k] for k in names if k in row},
        )


def operand_signature(o: Operand) -> tuple[Any, ...]:
    if o.kind == "imm":  # how a value is printed depends on the value
        return ("imm", False, False, False, o.suffixes)
    return (
        o.kind,
        o.neg,
        o.abs,
        o.not_,
        o.suffixes,
        o.is_float,
        o.base >= 0,
        o.ubase >= 0,
        o.base64,
        o.desc >= 0,
    )


def signature(i: Instruction) -> tuple[Any, ...]:
    """What makes two instructions the same form: all but numbers."""
    return (get(i.encoding, 0, 12), i.name, *(operand_signature(o) for o in i.operands))


def bound_of(i: Instruction | None) -> Bound | None:
    if i is None or not i.opcode or "INVALID" in i.text or "???" in i.text:
        return None
    try:
        return bind(i)
    except UnsupportedError:
        return None


def _stable(text: str, choices: int) -> int:
    """A number below ``choices`` that depends on the text alone."""
    return zlib.crc32(text.encode()) % choices


# --- what a form reads

_RAW_HALF = ("F16", "BF16", "BF16_V2")


def kind_of(b: Bound, token: str, o: Operand) -> str:
    """Kind of values for a source."""
    name, words = b.row.name, b.instruction.modifiers
    half = "bf16" if any(w.startswith("BF16") for w in words) else "f16"
    if name in ("HMMA", "IMMA", "DMMA"):
        return {"HMMA": "m" + half, "IMMA": "mi32", "DMMA": "mf64"}[name]
    if name.startswith("I2F") and o.kind in ("R", "UR"):
        return "i32"
    if token in ("f32", "f64"):
        return token
    converts = name.startswith(("F2I", "FRND", "F2F", "MUFU"))
    if token == "h2" and not converts:
        return "f32" if "F32" in o.suffixes else half
    if token in ("raw", "h2") and converts:
        if "64H" in name:
            return "hi64"
        source_half = any(w in words for w in _RAW_HALF) and "F32" not in words
        return half if source_half else "f32"
    return "i32"


def kinds_of(b: Bound) -> tuple[str, str, str]:
    kinds = ["i32", "i32", "i32"]
    for position, (token, o) in enumerate(b.sources):
        if o is not None and o.kind in ("R", "UR") and o.index in (A, B, C):
            kind = kind_of(b, token, o)
            if b.row.name == "HMMA":
                words = b.instruction.modifiers
                kind = "mtf32" if "TF32" in words else kind
                if position == 2:
                    kind = "mf32" if "F32" in words else "mf16"
            if b.row.name == "IMMA":
                kind = "mi32"
            kinds[(A, B, C).index(o.index)] = kind
    return (kinds[0], kinds[1], kinds[2])


# --- immediates and constants

IMMEDIATES = {
    "f32": (0x3FC12345, 0xBF000001, 0x00012345, 0x4B800001),
    "f64": (0x3FF12345, 0xC0100001, 0x00000001),
    "f16": (0x3C01BE66, 0x0001C500, 0x6400A801),
    "bf16": (0x3F81C0A3, 0x0001C100, 0x4380B001),
    "hi64": (0x3FF12345, 0xC0100001),
    "i32": (0x9ABCDEF1, 0x00000005, 0x7FFFFFFF, 0xFFFFFF80),
}
SMALL = (5, 0x1F, 0x25, 0x40)  # shift counts and widths
#: Values of the constants: kind -> byte offset in c[0x0] (24 words from 0x234: ``launch.CONSTANTS``).
CONSTANT_AT = {
    "f64": 0x238,
    "f32": 0x240,
    "f16": 0x244,
    "bf16": 0x248,
    "i32": 0x24C,
    "small": 0x250,
    "hi64": 0x23C,
}
_COUNTS = {"SHF": 1, "USHF": 1, "SGXT": 1, "USGXT": 1, "BMSK": 1, "UBMSK": 1}


def _value_operand(b: Bound) -> tuple[str, str] | None:
    """(imm or const, kind) of the value operand that is not in a register."""
    for k, (token, o) in enumerate(b.sources):
        if o is not None and o.kind in ("imm", "const") and token not in ("imm", "word", "mem", "any", "P"):
            kind = kind_of(b, token, o)
            if _COUNTS.get(b.row.name) == k:
                kind = "small"
            return o.kind, kind
    return None


def _with_value(e: int, b: Bound, text: str) -> int:
    found = _value_operand(b)
    if found is None or b.row.name == "SHFL":
        return e
    what, kind = found
    if what == "const":
        return put(put(e, 54, 5, 0), 40, 14, CONSTANT_AT[kind] >> 2)
    choices = SMALL if kind == "small" else IMMEDIATES[kind]
    return put(e, 32, 32, choices[_stable(text, len(choices))])


# --- dressing

#: Rows whose result is undefined where lanes are missing.
WHOLE_WARP = {"HMMA", "IMMA", "DMMA", "MOVM", "SHFL", "LDSM", "STSM", "R2P", "MATCH"}


def normal(e: int, *, guard: int = PT) -> int:
    """Registers renumbered (RZ stays), no guard, scheduling bits set."""
    for at, number in ((16, D), (24, A), (64, C)):
        if at != 24 and get(e, 0, 9) == R2P:  # no registers there
            continue
        if get(e, at, 8) != 255:
            e = put(e, at, 8, number)
    if get(e, 9, 3) in (1, 6, 7) and get(e, 32, 8) not in (255,):
        e = put(e, 32, 8, B)
    return control(put(e, 12, 4, guard))


def dress(encodings: Iterable[int]) -> list[Form]:
    """Forms of register rows from explored encodings; drops what no longer decodes to the same form."""
    first = [(e, i, b) for e, i in _decoded(encodings) if (b := bound_of(i)) is not None]
    # predicates: the variant with the most real, distinct ones that is still the same form
    variants: list[int] = []
    for e, _, _ in first:
        for choice in range(16):
            v = e
            for bit, (name, number) in enumerate((("pd", 1), ("pq", 2), ("pp", 3), ("pr", 4))):
                if choice >> bit & 1:
                    v = put(v, PAIR_AT[name], 3, number)
            variants.append(v)
    decoded = decode(variants)
    best: list[tuple[int, Instruction, Bound]] = []
    for k, (e, i, b) in enumerate(first):
        chosen = (-1, e, i, b)
        for choice in range(16):
            j = decoded[16 * k + choice]
            if j is not None and signature(j) == signature(i) and (c := bound_of(j)) is not None:
                places = [o.index for o in j.operands if o.kind in ("P", "UP")]
                real = [p for p in places if p != PT]
                written = [o.index for _, o in c.destinations if o is not None and o.kind in ("P", "UP")]
                if len({w for w in written if w != PT}) == len([w for w in written if w != PT]):
                    score = len(set(real)) * 10 - bin(choice).count("1")
                    if score > chosen[0]:
                        chosen = (score, j.encoding, j, c)
        if chosen[0] >= 0:
            best.append(chosen[1:])
    dressed: list[int] = []
    for e, i, b in best:
        v = _with_value(e, b, i.text)
        if b.row.name not in WHOLE_WARP and not b.row.control:
            guard = _stable(i.text, 6)
            v = put(v, 12, 4, GUARD if guard in (0, 1) else NOT_GUARD if guard == 2 else PT)
        dressed.append(v)
    out, seen = [], set()
    for (_, i, _), e, j in zip(best, dressed, decode(dressed), strict=True):
        b2 = bound_of(j)
        if j is None or b2 is None or signature(j) != signature(i) or e in seen:
            continue
        seen.add(e)
        kinds = {o.kind for o in (*j.operands, *([j.guard] if j.guard else []))}
        uniform = bool(kinds & {"UR", "UP"}) and not kinds & {"R", "P", "SR", "B", "mem"}
        out.append(Form(b2.row.name, j.text, (e,), kinds_of(b2), "register", uniform))
    return out


def _decoded(encodings: Iterable[int]) -> list[tuple[int, Instruction]]:
    es: Sequence[int] = list(encodings)
    return [(e, i) for e, i in zip(es, decode(es), strict=True) if i is not None]

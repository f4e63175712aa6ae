"""References of floating-point rows: exact rational arithmetic, rounded once.

A finite number is a sign and a :class:`fractions.Fraction`; every sum, product and conversion is exact and
then rounded to its format in the mode the instruction names.

Sources: IEEE 754-2019 (rounding, zeros), PTX ISA 9.0 (FTZ, SAT, canonical NaN, min, setp).
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from gpusim.isa.reference import M32, Call, applied, combine, lanewise


@dataclass(frozen=True, slots=True)
class Format:
    """Binary interchange format; nan: what the hardware writes for a NaN result."""

    exponent: int
    fraction: int
    nan: int

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)


F16 = Format(5, 10, 0x7FFF)
BF16 = Format(8, 7, 0x7FFF)
F32 = Format(8, 23, 0x7FFFFFFF)
F64 = Format(11, 52, 0xFFF8000000000000)


@dataclass(frozen=True, slots=True)
class Real:
    """kind: "nan", "inf" or "finite"; negative carries the sign of zeros and infinities."""

    kind: str
    negative: bool
    value: Fraction

    @property
    def nan(self) -> bool:
        return self.kind == "nan"

    @property
    def finite(self) -> bool:
        return self.kind == "finite"

    @property
    def zero(self) -> bool:
        return self.finite and self.value == 0


ZERO = Fraction(0)
NAN = Real("nan", False, ZERO)


def finite(value: Fraction | int, negative: bool | None = None) -> Real:
    v = Fraction(value)
    return Real("finite", v < 0 if negative is None else negative, v)


@lru_cache(maxsize=65536)
def decode(f: Format, bits: int) -> Real:
    negative = bool(bits & f.sign)
    exponent, fraction = (bits & ~f.sign) >> f.fraction, bits & ((1 << f.fraction) - 1)
    if exponent == (1 << f.exponent) - 1:
        return Real("nan" if fraction else "inf", negative, ZERO)
    if exponent:
        fraction |= 1 << f.fraction
    power = max(exponent, 1) - f.bias - f.fraction
    value = Fraction(fraction << power) if power >= 0 else Fraction(fraction, 1 << -power)
    return Real("finite", negative, -value if negative else value)


def to_integer(value: Fraction, mode: str) -> int:
    """Rounded to an integer: RN ties to even, RZ, RM down, RP up."""
    if mode == "RZ":
        return math.trunc(value)
    if mode == "RM":
        return math.floor(value)
    return math.ceil(value) if mode == "RP" else round(value)


def encode(f: Format, r: Real, mode: str = "RN") -> int:
    """Nearest (or directed) bits; overflow and underflow as IEEE 754, NaN canonical."""
    if r.nan:
        return f.nan
    sign = f.sign if r.negative else 0
    if r.kind == "inf":
        return sign | f.infinity
    if r.value == 0:
        return sign
    size = abs(r.value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, 1 - f.bias)
    quantum = Fraction(2) ** (exponent - f.fraction)
    if r.negative:  # round the magnitude: down and up change places
        mode = {"RM": "RP", "RP": "RM"}.get(mode, mode)
    count = to_integer(size / quantum, mode)
    # counting in quanta from the biased exponent makes carries into the exponent come out right
    bits = ((exponent + f.bias - 1) << f.fraction) + count
    if bits >= f.infinity:
        bits = f.infinity if mode in ("RN", "RP") else f.infinity - 1
    return sign | bits


def add(a: Real, b: Real, mode: str = "RN") -> Real:
    if a.nan or b.nan or (a.kind == b.kind == "inf" and a.negative != b.negative):
        return NAN
    if not a.finite:
        return a
    if not b.finite:
        return b
    total = a.value + b.value
    if total == 0:
        # a sum that cancels is +0, except when rounding down; zeros of one sign keep it
        same = a.zero and b.zero and a.negative == b.negative
        return finite(0, a.negative if same else mode == "RM")
    return finite(total)


def multiply(a: Real, b: Real) -> Real:
    negative = a.negative != b.negative
    if a.nan or b.nan:
        return NAN
    if not (a.finite and b.finite):
        return NAN if a.zero or b.zero else Real("inf", negative, ZERO)
    return finite(a.value * b.value, negative)


def fma(a: Real, b: Real, c: Real, mode: str = "RN") -> Real:
    return add(multiply(a, b), c, mode)


def flushed(f: Format, bits: int) -> int:
    """FTZ: denormals become zero of their sign."""
    return bits & f.sign if bits & f.infinity == 0 else bits


def mode_of(call: Call) -> str:
    return call.first("RZ", "RM", "RP", default="RN")


def ftz(call: Call) -> bool:
    return "FTZ" in call or "FMZ" in call


def read(call: Call, f: Format, *bits: int) -> list[Real]:
    return [decode(f, flushed(f, b) if f is F32 and ftz(call) else b) for b in bits]


def write(call: Call, f: Format, r: Real, mode: str = "RN") -> int:
    bits = encode(f, r, mode)
    if ftz(call):
        bits = flushed(f, bits)
    if "SAT" in call:
        v = decode(f, bits)
        if v.nan or v.negative or v.zero:
            return 0
        one = f.bias << f.fraction
        return one if v.kind == "inf" or v.value > 1 else bits
    return bits


def write_product(call: Call, r: Real, mode: str) -> int:
    """FTZ looks at the value rounded to 24 bits as if exponents had no end."""
    least, step = Fraction(1, 1 << 126), Fraction(1, 1 << 150)
    away = mode in ("RP", "RM") and (mode == "RM") == r.negative
    small = r.finite and (
        abs(r.value) <= least - step if away
        else abs(r.value) < (least if mode in ("RZ", "RP", "RM") else least - step / 2)
    )  # fmt: skip
    if ftz(call) and small:
        return 0 if "SAT" in call else F32.sign * r.negative
    return write(call, F32, r, mode)


def product(call: Call, x: Real, y: Real) -> Real:
    """x * y; with FMZ a zero times anything is +0."""
    return finite(0) if "FMZ" in call and (x.zero or y.zero) else multiply(x, y)


@lanewise("FADD FADD32I", "float")
def fadd(call: Call, a: int, b: int) -> Any:
    x, y = read(call, F32, a, b)
    return write(call, F32, add(x, y, mode_of(call)), mode_of(call))


@lanewise("FMUL FMUL32I", "float")
def fmul(call: Call, a: int, b: int) -> Any:
    x, y = read(call, F32, a, b)
    word = call.first("D2", "D4", "D8", "M2", "M4", "M8")
    factor = Fraction(1)
    if word:
        factor = Fraction(int(word[1])) if word[0] == "M" else Fraction(1, int(word[1]))
    return write_product(call, multiply(product(call, x, y), finite(factor)), mode_of(call))


@lanewise("FFMA FFMA32I", "float")
def ffma(call: Call, a: int, b: int, c: int) -> Any:
    x, y, z = read(call, F32, a, b, c)
    return write_product(call, add(product(call, x, y), z, mode_of(call)), mode_of(call))


def write64(r: Real, mode: str, *operands: int) -> int:
    """fp64 bits; the first NaN of ``operands`` (as registers hold them) goes through, made quiet."""
    for bits in operands:
        if decode(F64, bits).nan:
            return bits | 1 << 51
    return encode(F64, r, mode)


def read64(call: Call, *bits: int) -> list[Real]:
    return [decode(F64, applied(b, 64, f, "float")) for b, f in zip(bits, call.flags, strict=False)]


@lanewise("DADD", "raw")
def dadd(call: Call, a: int, b: int) -> Any:
    x, y = read64(call, a, b)
    return write64(add(x, y, mode_of(call)), mode_of(call), b, a)


@lanewise("DMUL", "raw")
def dmul(call: Call, a: int, b: int) -> Any:
    x, y = read64(call, a, b)
    return write64(multiply(x, y), mode_of(call), b, a)


@lanewise("DFMA", "raw")
def dfma(call: Call, a: int, b: int, c: int) -> Any:
    x, y, z = read64(call, a, b, c)
    return write64(fma(x, y, z, mode_of(call)), mode_of(call), b, c, a)


# --- order


def _rank(r: Real) -> tuple[int, Fraction, int]:
    """Total order of numbers with -0 below +0."""
    infinite = 0 if r.finite else (-1 if r.negative else 1)
    return infinite, r.value, 0 if r.negative else 1


def smaller(f: Format, a: Real, b: Real, p: bool, nan_wins: bool) -> Real:
    """min where p, else max (PTX: a number beats NaN unless .NaN)."""
    if a.nan or b.nan:
        return NAN if nan_wins or (a.nan and b.nan) else (b if a.nan else a)
    return min(a, b, key=_rank) if p else max(a, b, key=_rank)


@lanewise("FMNMX", "float")
def fmnmx(call: Call, a: int, b: int, p: bool) -> Any:
    x, y = read(call, F32, a, b)
    return encode(F32, smaller(F32, x, y, p, "NAN" in call))


@lanewise("DMNMX", "float")
def dmnmx(call: Call, a: int, b: int, p: bool) -> Any:
    return encode(F64, smaller(F64, decode(F64, a), decode(F64, b), p, "NAN" in call))


COMPARISONS = {"LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge, "EQ": operator.eq,
               "NE": operator.ne}


def compares(call: Call, a: Real, b: Real) -> bool:
    """setp: a plain word is false on NaN, one with U true."""
    word = call.first(*COMPARISONS, *(c + "U" for c in COMPARISONS), "NUM", "NAN", "F", "T")
    if word in ("F", "T"):
        return word == "T"
    unordered = a.nan or b.nan
    if word in ("NUM", "NAN"):
        return unordered == (word == "NAN")
    if unordered:
        return word.endswith("U")
    return bool(COMPARISONS[word[:2]](_rank(a)[:2], _rank(b)[:2]))


@lanewise("FSETP", "float")
def fsetp(call: Call, a: int, b: int, p: bool) -> Any:
    r = compares(call, *read(call, F32, a, b))
    return combine(call, r, p), combine(call, not r, p)


@lanewise("FSET", "float")
def fset(call: Call, a: int, b: int, p: bool) -> Any:
    r = combine(call, compares(call, *read(call, F32, a, b)), p)
    return (0x3F800000 if "BF" in call else M32) if r else 0


@lanewise("FSEL", "float")
def fsel(call: Call, a: int, b: int, p: bool) -> Any:
    r = a if p else b
    return flushed(F32, r) if "FTZ" in call else r


@lanewise("DSETP", "float")
def dsetp(call: Call, a: int, b: int, p: bool) -> Any:
    """MIN and MAX (the flags compiled fmin and fmax use): a is chosen; neither is a number (without p)."""
    x, y = decode(F64, a), decode(F64, b)
    if "MIN" in call or "MAX" in call:
        if x.nan or y.nan:
            wins = y.nan and not x.nan
        else:
            wins = _rank(x) <= _rank(y) if "MIN" in call else _rank(x) > _rank(y)
        return combine(call, wins, p), x.nan and y.nan
    r = compares(call, x, y)
    return combine(call, r, p), combine(call, not r, p)


@lanewise("FCHK", "float")
def fchk(call: Call, a: int, b: int) -> Any:
    """Division takes the slow path: true outside these exponents (measured on an H200, see the row)."""
    ea, eb = (v >> 23 & 255 for v in (a, b))
    return not (25 <= ea <= 254 and 2 <= eb <= 251 and -124 <= ea - eb <= 126)

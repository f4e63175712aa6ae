"""References of the multi-function unit: the sums of docs/mufu.md in Python integers, one lane at a time.

The tables are the row's (:mod:`gpusim.isa.mufu_tables`; tests/test_mufu_recorded.py compares both with
hardware).  Everything around them is written a second time: the squarer product by product, arguments and
results as integers.
"""

from __future__ import annotations

from typing import Any

from gpusim.isa.mufu_tables import EX2, LG2, RCP, RSQ, SIN, SQRT, TANH, TANH_BITS, Table
from gpusim.isa.reference import Call, lanewise
from gpusim.isa.reference_float import BF16, F16, F32, decode, encode

ONE = 1 << 23
INFINITY, NAN = 255 << 23, 0x7FFFFFFF


def square(low: int) -> int:
    """Products of bits i and j of weight 2^(i + j) from 2^18 on, summed, in units of 2^19."""
    bits = [i for i in range(17) if low >> i & 1]
    return sum(1 << (i + j) for i in bits for j in bits if i + j >= 18) >> 19


def total(table: Table, index: int, low: int, width: int = 17) -> int:
    """The sum for a segment and the ``width`` bits below it."""
    c0, c1, c2 = table.rows[index]
    squared = square(low << (17 - width))
    return (c0 << table.shift) + c1 * low + (c2 * squared << table.square) + table.bias


def single(value: int, point: int, sign: int = 0) -> int:
    """f32 bits of value / 2^point, cut to 24 bits; below the normal numbers zero, above them infinity."""
    if value == 0:
        return sign << 31
    places = value.bit_length() - 24
    exponent = places + 23 - point + 127
    fraction = value >> places if places > 0 else value << -places
    if exponent <= 0:
        return sign << 31
    return sign << 31 | (INFINITY if exponent >= 255 else exponent << 23 | fraction - ONE)


def split(table: Table, mantissa: int, width: int) -> int:
    return total(table, mantissa >> width, mantissa & (1 << width) - 1, width)


def root(mantissa: int) -> int:
    """Sum of RSQ for a mantissa of 24 bits over [1, 4), whose first value is exact."""
    return split(RSQ, mantissa, 17) if mantissa else 1 << RSQ.unit


def fixed(a: int, places: int, limit: int) -> int:
    """|a| * 2^places cut to an integer, at most ``limit``."""
    exponent, fraction = a >> 23 & 255, a & ONE - 1 | ONE
    shift = exponent - 150 + places
    return 0 if exponent == 0 else min(fraction << shift if shift >= 0 else fraction >> -shift, limit)


def ex2(a: int) -> int:
    v = fixed(a, 23, 1 << 31)
    if a >> 31:
        v = -v - 1 if v % ONE else -v
    return single(split(EX2, v % ONE, 17), EX2.unit - (v >> 23))


def lg2(a: int) -> int:
    exponent, mantissa = (a >> 23) - 127, a & ONE - 1
    if exponent == 0 == mantissa:
        return 0
    v = (split(LG2, mantissa, 17) >> 2) + (exponent << (LG2.unit - 2))
    return single(v if v >= 0 else ~v, LG2.unit - 2, int(v < 0))


def sine(a: int, cosine: bool) -> int:
    v = fixed(a, 25, 1 << 200)
    quadrant = (v >> 23) + cosine
    part = ~v % ONE if quadrant % 2 else v % ONE
    sign = (quadrant >> 1 & 1) ^ (0 if cosine else a >> 31)
    return single(split(SIN, part, 17), SIN.unit, sign)


def tanh(a: int) -> int:
    sign, exponent, mantissa = a >> 31, (a >> 23 & 255) - 127, a & ONE - 1
    if exponent < -8:
        return a
    if exponent > 2:
        return sign << 31 | 127 << 23
    bits = TANH_BITS[exponent + 8]
    index = sum(1 << b for b in TANH_BITS[: exponent + 8]) + (mantissa >> (23 - bits))
    return single(total(TANH, index, mantissa >> (6 - bits) & 0x1FFFF), TANH.unit, sign)


@lanewise("MUFU", "float")
def mufu(call: Call, a: int) -> Any:
    """Special values first; denormal inputs count as zero, except for TANH."""
    word = call.first("RCP", "RSQ", "SQRT", "EX2", "LG2", "SIN", "COS", "TANH")
    sign, magnitude, exponent, mantissa = a >> 31, a & 0x7FFFFFFF, (a >> 23 & 255) - 127, a & ONE - 1
    zero, infinite = exponent == -127, magnitude == INFINITY
    if magnitude > INFINITY or (infinite and word in ("SIN", "COS")):
        return NAN
    if word == "TANH":
        return tanh(a)
    if word == "EX2":
        return ex2(a)
    if word in ("SIN", "COS"):
        return sine(a, word == "COS")
    if word == "RCP":
        if zero or infinite:
            return sign << 31 | (INFINITY if zero else 0)
        return single(split(RCP, mantissa, 16), RCP.unit + exponent, sign)
    if zero:
        return {"RSQ": sign << 31 | INFINITY, "SQRT": sign << 31, "LG2": 1 << 31 | INFINITY}[word]
    if sign:
        return NAN
    if infinite:
        return 0 if word == "RSQ" else INFINITY
    if word == "LG2":
        return lg2(a)
    wide, half = mantissa | (exponent & 1) << 23, exponent >> 1
    return single(root(wide), RSQ.unit + half) if word == "RSQ" else single(
        split(SQRT, wide, 17), SQRT.unit - half)


@lanewise("MUFU.RCP64H MUFU.RSQ64H", "float")
def mufu64(call: Call, a: int) -> Any:
    """High words of fp64 numbers: 20 bits of mantissa in and, truncated, out."""
    sign, exponent, mantissa = a >> 31, a >> 20 & 0x7FF, (a & 0xFFFFF) << 3
    infinity = 0x7FF << 20
    if a & 0x7FFFFFFF > infinity:
        return NAN
    if exponent == 0:
        return sign << 31 | infinity
    if "RCP64H" in call:
        value, point = split(RCP, mantissa, 16), RCP.unit + exponent - 1023
    else:
        if sign:
            return NAN
        wide = mantissa | (exponent - 1023 & 1) << 23
        value, point = root(wide), RSQ.unit + (exponent - 1023 >> 1)
        sign = 0
    places = value.bit_length() - 21
    place = places + 20 - point + 1023
    if exponent == 0x7FF or place <= 0:
        return sign << 31
    return sign << 31 | place << 20 | (value >> places) - (1 << 20)


@lanewise("MUFU.F16 MUFU.BF16 MUFU.BF16_V2", "raw")
def mufu_half(call: Call, a: int) -> Any:
    """The fp32 result rounded toward zero; from 65536 on fp16 is infinite."""
    f, flags = BF16 if any(w.startswith("BF16") for w in call.words) else F16, call.flags[0]
    bits = a >> 16 if any(s.startswith("H1") for s in flags.suffixes) else a & 0xFFFF
    bits = bits & ~f.sign if flags.abs else bits
    value = decode(f, bits ^ f.sign if flags.neg else bits)
    if value.nan:
        return f.nan
    wide = encode(F32, value)
    r = decode(F32, ex2(wide) if "EX2" in call else tanh(wide))
    if r.finite and f is F16 and r.value >= 65536:
        return f.infinity
    return encode(f, r, "RZ")

"""The multi-function unit: reciprocal, square roots, exponential, logarithm, sine, cosine, tanh.

The unit picks a row of a table by the high bits of the reduced argument and adds a quadratic in the bits
below, in integers, with a squarer that drops low partial products; the sum is truncated to the result.  The
tables (:mod:`gpusim.isa.mufu_tables`) and the steps around them were recovered from an H200: docs/mufu.md.

The sum stays below 2^44 and every step on its way is an integer, so fp64 holds it exactly; fp64 multiply-adds
are what a CPU does fastest.

Sources: results of an H200 for every mantissa; special values as the recorded probes show them; the structure
is Oberman and Siu, A High-Performance Area-Efficient Multifunction Interpolator, ARITH-17, 2005.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from gpusim.isa import mufu_tables
from gpusim.isa.mufu_tables import TANH_BITS, Table
from gpusim.isa.table import row

INFINITY, NAN, SIGN = 0x7F800000, 0x7FFFFFFF, 0x80000000


def square(low: Any) -> Any:
    """low^2 / 2^19 of 17 bits, without the partial products below 2^18.

    Bits 9 to 16 keep all their products; bits 2 to 8 keep those with bits far enough above.
    """
    high = low.lshr(9)
    out = (high * high).lshr(1)
    for bit in range(2, 9):
        out = (low & 1 << bit).ne(0).where(out + low.lshr(18 - bit), out)
    return out


def lookup(x: Any, name: str, rows: Sequence[Sequence[int]], index: Any) -> list[Any]:
    """The words of row ``index``; the table becomes a constant of the handler."""
    width = len(rows[0])
    kind = ir.ArrayType(ir.IntType(32), width * len(rows))
    table = ir.GlobalVariable(x.module, kind, f"mufu_{name}")
    table.initializer = ir.Constant(kind, [word for entry in rows for word in entry])
    table.global_constant, table.linkage = True, "internal"
    at = x.splat(x.b.ptrtoint(table, ir.IntType(64)), "i64") + (index * (4 * width)).zext("i64")
    return [x.gather32(at + 4 * k, x.const(1, "i1")) for k in range(width)]


def interpolate(x: Any, name: str, index: Any, low: Any, aligned: int = 0) -> Any:
    """The sum, fp64, for the segment and the bits below it, which stand ``aligned`` places low in 17 bits.

    c1 and c2 share a word: a gathered word costs a CPU more than taking it apart.
    """
    table: Table = getattr(mufu_tables, name)
    rows = [(c0, c1 << 12 | c2 & 0xFFF) for c0, c1, c2 in table.rows]
    c0, both = lookup(x, name, rows, index)
    return quadratic(x, table, (c0, both.ashr(12), both.shl(20).ashr(20)), low, square(low.shl(aligned)))


def quadratic(x: Any, table: Table, entry: tuple[Any, Any, Any], low: Any, squared: Any) -> Any:
    """c0 * 2^shift + c1 * low + c2 * squared * 2^square + bias, exact in fp64."""
    c0, c1, last, low = (v.to_float("f64", True) for v in (*entry[:2], entry[2] * squared, low))
    last = x.fma(last, x.const(1 << table.square, "f64"), x.const(table.bias, "f64"))
    return x.fma(c0, x.const(1 << table.shift, "f64"), x.fma(c1, low, last))


def truncated(total: Any) -> Any:
    """The sum cut to the 24 bits of an f32."""
    return (total.bits() & -(1 << 29)).cast("f64").fround()


def scaled(value: Any, exponent: Any) -> Any:
    """Bits of a positive f32 times a power of two; zero below the normal numbers."""
    bits = value.bits()
    return (bits.lshr(23) + exponent).gt(0).where(bits + exponent.shl(23), 0)


def rcp(x: Any, a: Any) -> Any:
    """1 / a."""
    bits = a.bits()
    exponent, mantissa = bits.lshr(23) & 0xFF, bits & 0x7FFFFF
    total = interpolate(x, "RCP", mantissa.lshr(16), mantissa & 0xFFFF, aligned=1)
    r = scaled(truncated(total), -exponent + (127 - mufu_tables.RCP.unit))
    return exponent.eq(0).where(x.const(INFINITY, "i32"), r) | (bits & SIGN)


def by_parity(exponent: Any, mantissa: Any) -> tuple[Any, Any]:
    """A mantissa of 24 bits over [1, 4) and half the exponent, from a biased exponent and 23 bits."""
    unbiased = exponent - 127
    return mantissa | (unbiased & 1).shl(23), unbiased.ashr(1)


def rsq_total(x: Any, mantissa: Any) -> Any:
    """Powers of four are exact: the table alone would give the number below."""
    total = interpolate(x, "RSQ", mantissa.lshr(17), mantissa & 0x1FFFF)
    return mantissa.eq(0).where(x.const(1 << mufu_tables.RSQ.unit, "f64"), total)


def rsq(x: Any, a: Any) -> Any:
    """1 / sqrt(a)."""
    bits = a.bits()
    exponent = bits.lshr(23) & 0xFF
    mantissa, half = by_parity(exponent, bits & 0x7FFFFF)
    r = scaled(truncated(rsq_total(x, mantissa)), -half - mufu_tables.RSQ.unit)
    r = exponent.eq(255).where(x.const(0, "i32"), r)
    r = bits.lt(0).where(x.const(NAN, "i32"), r)
    return exponent.eq(0).where((bits & SIGN) | INFINITY, r)


def sqrt(x: Any, a: Any) -> Any:
    """sqrt(a)."""
    bits = a.bits()
    exponent = bits.lshr(23) & 0xFF
    mantissa, half = by_parity(exponent, bits & 0x7FFFFF)
    total = interpolate(x, "SQRT", mantissa.lshr(17), mantissa & 0x1FFFF)
    r = scaled(truncated(total), half - mufu_tables.SQRT.unit)
    r = exponent.eq(255).where(x.const(INFINITY, "i32"), r)
    r = bits.lt(0).where(x.const(NAN, "i32"), r)
    return exponent.eq(0).where(bits & SIGN, r)


def ex2(x: Any, a: Any) -> Any:
    """2^a: |a| is cut to 23 bits behind the point, and a negative one complemented bit by bit."""
    fixed = (x.fabs(a) * 2.0**23).to_int("i32", True)
    negative = (fixed & 0x7FFFFF).eq(0).where(-fixed, ~fixed)
    fixed = a.bits().lt(0).where(negative, fixed)
    total = interpolate(x, "EX2", fixed.lshr(17) & 0x3F, fixed & 0x1FFFF)
    whole = fixed.ashr(23)
    r = scaled(truncated(total), whole - mufu_tables.EX2.unit)
    return whole.gt(127).where(x.const(INFINITY, "i32"), r)


def lg2(x: Any, a: Any) -> Any:
    """log2(a): exponent and sum together with 36 bits behind the point, a negative one complemented."""
    bits = a.bits()
    exponent, mantissa = bits.lshr(23) & 0xFF, bits & 0x7FFFFF
    total = interpolate(x, "LG2", mantissa.lshr(17), mantissa & 0x1FFFF)
    total = x.fma((exponent - 127).to_float("f64", True), x.const(1 << mufu_tables.LG2.unit, "f64"), total)
    below = total.lt(0.0)
    total = x.unary("floor", below.where(-total - 1.0, total) * 0.25)
    r = truncated(total) * 2.0 ** (2 - mufu_tables.LG2.unit)
    r = below.where(-r, r).bits()
    r = bits.eq(0x3F800000).where(x.const(0, "i32"), r)
    r = exponent.eq(255).where(x.const(INFINITY, "i32"), r)
    r = bits.lt(0).where(x.const(NAN, "i32"), r)
    return exponent.eq(0).where(x.const(SIGN | INFINITY, "i32"), r)


def sine(x: Any, a: Any, cosine: bool) -> Any:
    """sin(2 pi a) or cos: a quadrant is cut to 23 bits, which run backwards in every second one."""
    turns = x.fabs(a)
    fixed = ((turns - x.unary("floor", turns)) * 2.0**25).to_int("i32", True)
    quadrant = fixed.lshr(23) + int(cosine)
    fixed = (fixed ^ -(quadrant & 1)) & 0x7FFFFF
    total = interpolate(x, "SIN", fixed.lshr(17), fixed & 0x1FFFF)
    r = (truncated(total) * 2.0**-mufu_tables.SIN.unit).bits()
    r = r ^ (quadrant & 2).shl(30)
    r = r if cosine else r ^ (a.bits() & SIGN)
    return turns.eq(math.inf).where(x.const(NAN, "i32"), r)


def tanh_rows() -> list[tuple[int, int, int, int]]:
    """A row for each of 16 parts of the binades from 2^-8 to 8; the last word is the shift of ``low``."""
    out, first = [], 0
    for bits in TANH_BITS:
        for part in range(16):
            out.append((*mufu_tables.TANH.rows[first + (part >> (4 - bits))], 6 - bits))
        first += 1 << bits
    return out


def tanh(x: Any, a: Any) -> Any:
    """tanh(a): a itself below 2^-8, 1 from 8 on."""
    bits = a.bits() & 0x7FFFFFFF
    part = bits.lshr(19) - (119 << 4)
    inside = part.lt(16 * len(TANH_BITS), signed=False)
    c0, c1, c2, shift = lookup(x, "TANH", tanh_rows(), inside.where(part, 0))
    low = (bits & 0x7FFFFF).lshr(shift) & 0x1FFFF
    total = quadratic(x, mufu_tables.TANH, (c0, c1, c2), low, square(low))
    r = (truncated(total) * 2.0**-mufu_tables.TANH.unit).bits()
    r = inside.where(r, part.lt(0).where(bits, x.const(0x3F800000, "i32")))
    return r | (a.bits() & SIGN)


@row("MUFU", "f32 = f32", modifiers="RCP RSQ SQRT EX2 LG2 SIN COS TANH", pipe="xu",
     source="tables and steps recovered from an H200 (docs/mufu.md)")
def mufu(x: Any, m: Any, a: Any) -> Any:
    """Denormal inputs and results are zero (not of TANH); a NaN gives the canonical one."""
    word = m.first("RCP", "RSQ", "SQRT", "EX2", "LG2", "SIN", "COS", "TANH")
    if word in ("SIN", "COS"):
        r = sine(x, x.ftz(a), word == "COS")
    else:
        r = {"RCP": rcp, "RSQ": rsq, "SQRT": sqrt, "EX2": ex2, "LG2": lg2, "TANH": tanh}[word](x, a)
    return a.isnan().where(x.const(NAN, "i32"), r).cast("f32")


@row("MUFU.RCP64H MUFU.RSQ64H", "i32 = raw", modifiers="RCP64H RSQ64H", pipe="xu",
     source="the tables of RCP and RSQ, recovered from an H200 (docs/mufu.md)")
def mufu64(x: Any, m: Any, high: Any) -> Any:
    """High word in, high word out: 20 bits of mantissa, truncated; the low word is not looked at."""
    flags = m.sources[0]
    high = high & 0x7FFFFFFF if flags.abs else high
    high = high ^ SIGN if flags.neg else high
    sign, exponent, mantissa = high & SIGN, high.lshr(20) & 0x7FF, (high & 0xFFFFF).shl(3)
    infinity = x.const(0x7FF00000, "i32")
    if "RCP64H" in m:
        total = interpolate(x, "RCP", mantissa.lshr(16), mantissa & 0xFFFF, aligned=1)
        place = -exponent + (2046 - mufu_tables.RCP.unit)
    else:
        mantissa, half = by_parity(exponent - (1023 - 127), mantissa)
        total = rsq_total(x, mantissa)
        place = -half + (1023 - mufu_tables.RSQ.unit)
    bits = total.hi()  # exponent and 20 bits of mantissa, truncated
    place = bits.lshr(20) + place - 1023
    r = place.lt(1).where(x.const(0, "i32"), bits & 0xFFFFF | place.shl(20))
    if "RSQ64H" in m:
        r = exponent.eq(0x7FF).where(x.const(0, "i32"), r)
        r = high.lt(0).where(x.const(NAN, "i32"), r)
        r = exponent.eq(0).where(sign | infinity, r)
    else:
        r = sign | exponent.eq(0).where(infinity, r)
    return (high & 0x7FFFFFFF).gt(0x7FF00000).where(x.const(NAN, "i32"), r)

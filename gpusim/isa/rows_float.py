"""fp32 and fp64 arithmetic, comparison and selection rows.

Arithmetic is IEEE 754 with round-to-nearest-even (or the directed mode named by RZ/RM/RP), fused where
the opcode is fused; FTZ flushes denormal inputs and results to zero of the same sign; NaN results of fp32 are
the hardware's one NaN, those of fp64 keep an operand's.

Sources: PTX ISA 9.0, floating-point instructions; NaN and division range measured on an H200.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gpusim.errors import UnsupportedError
from gpusim.isa.rows_integer import boolean
from gpusim.isa.table import row

PTX = "PTX ISA 9.0, floating-point arithmetic"
ROUND = "RN RZ RM RP"


def flush_inputs(x: Any, m: Any, *values: Any) -> tuple[Any, ...]:
    return tuple(x.ftz(v) for v in values) if "FTZ" in m or "FMZ" in m else values


LEAST = 2.0**-126  # the least normal f32


def tiny(x: Any, m: Any, s: Any, e: Any) -> Any:
    """s + e (fp64, |e| at most half an ulp of s), rounded to 24 bits whatever the exponent, is not normal.

    Measured on an H200 for rounding to nearest: 2^-126 (1 - 2^-46) stays, 2^-126 (1 - 2^-24) is flushed.
    """
    size, apart = x.fabs(s), (s.bits() ^ e.bits()).lt(0) & e.ne(0.0)

    def below(limit: float) -> Any:
        return size.lt(limit) | size.eq(limit) & apart

    mode = m.first("RZ", "RM", "RP")
    if not mode:
        return below(LEAST - 2.0**-151)  # the midpoint goes to the even neighbour, the least normal number
    if mode == "RZ":
        return below(LEAST)
    last = LEAST - 2.0**-150  # the largest 24-bit number below
    up = size.lt(last) | size.eq(last) & (apart | e.eq(0.0))  # these stay below, rounded away from zero
    negative = s.bits().lt(0)
    return negative.where(up, below(LEAST)) if mode == "RM" else negative.where(below(LEAST), up)


def flush_exact(x: Any, m: Any, r: Any, s: Any, e: Any) -> Any:
    """FTZ of r, which is s + e rounded: zero where the 24-bit result is below the normal numbers."""
    if "FTZ" not in m and "FMZ" not in m:
        return r
    bits = r.bits()
    return tiny(x, m, s, e).where(bits & 0x80000000, bits).cast("f32")


def flush_nearest(x: Any, m: Any, r: Any, exact: Callable[[], tuple[Any, Any]]) -> Any:
    """``flush_exact`` of a nearest result; only the least normal number needs the exact value."""
    if "FTZ" not in m and "FMZ" not in m:
        return r
    r = x.ftz(r)
    least = x.ballot((r.bits() & 0x7FFFFFFF).eq(0x00800000))
    before = x.b.block
    with x.b.if_then(x.b.icmp_unsigned("!=", least, x.int_like(least, 0)), likely=False):
        rare = flush_exact(x, m, r, *exact())
        after = x.b.block
    out = x.b.phi(r.value.type)
    out.add_incoming(r.value, before)
    out.add_incoming(rare.value, after)
    return type(r)(x, out, "f32")


def zero_wins(x: Any, m: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """FMZ: a zero times anything, infinities and NaN too, is +0."""
    if "FMZ" not in m:
        return a, b
    zero, nothing = a.eq(0.0) | b.eq(0.0), x.const(0.0, "f32")
    return zero.where(nothing, a), zero.where(nothing, b)


def finish(x: Any, m: Any, r: Any) -> Any:
    """FTZ on the result, SAT to [0, 1] (NaN to 0), canonical NaN."""
    if "FTZ" in m or "FMZ" in m:
        r = x.ftz(r)
    if "SAT" in m:
        r = r.gt(0.0).where(r, x.const(0.0, r.kind))
        return r.lt(1.0).where(r, x.const(1.0, r.kind))
    return x.canon(r)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Knuth: a + b = s + e exactly."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


def directed(x: Any, mode: str, nearest: Any, side: Any, finite: Any) -> Any:
    """Move the nearest result to the directed one; ``side`` has the sign of (exact - nearest)."""
    kind = nearest.kind
    ikind = "i32" if kind == "f32" else "i64"
    bits = nearest.bits()
    sign = 1 << (31 if kind == "f32" else 63)
    negative = bits.lt(0)
    zero = (bits & (sign - 1)).eq(0)
    above, below = side.gt(0.0), side.lt(0.0)
    up = zero.where(x.const(1, ikind), negative.where(bits - 1, bits + 1))
    down = zero.where(x.const(sign | 1, ikind), negative.where(bits + 1, bits - 1))
    if mode == "RP":
        moved = above.where(up, bits)
    elif mode == "RM":
        moved = below.where(down, bits)
    else:  # toward zero: where the nearest result is larger in magnitude than the exact one
        away = ((~negative & below) | (negative & above)) & ~zero
        moved = away.where(bits - 1, bits)
    return finite.where(moved, bits).cast(kind)


def round_f32(x: Any, mode: str, s: Any, e: Any) -> Any:
    """The exact value s + e (fp64, |e| at most half an ulp of s) to fp32 in a directed mode."""
    nearest = s.fround()
    d = s - nearest.fext()
    side = d.ne(0.0).where(d, e)
    finite = x.fabs(s).lt(math.inf)
    return directed(x, mode, nearest, side, finite)


def _exact_zero_rm(x: Any, m: Any, r: Any, exact_zero: Any, like: Any) -> Any:
    """Rounding down, a sum of opposite signs that cancels is -0."""
    return (exact_zero & like).where(x.const(0x80000000, "i32"), r.bits()).cast("f32")


def fma32(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    mode = m.first("RZ", "RM", "RP")
    if not mode:
        return flush_nearest(x, m, x.fma(a, b, c), lambda: two_sum(a.fext() * b.fext(), c.fext()))
    product = a.fext() * b.fext()  # exact
    s, e = two_sum(product, c.fext())
    e = e.isnan().where(x.const(0.0, "f64"), e)
    r = flush_exact(x, m, round_f32(x, mode, s, e), s, e)
    if mode == "RM":
        opposite = (product.bits() ^ c.fext().bits()).lt(0)
        r = _exact_zero_rm(x, m, r, s.eq(0.0) & e.eq(0.0), opposite)
    return r


@row("FADD FADD32I", "f32 = f32 f32", modifiers=f"FTZ SAT {ROUND}", pipe="fma", source=PTX)
def fadd(x: Any, m: Any, a: Any, b: Any) -> Any:
    a, b = flush_inputs(x, m, a, b)
    if m.first("RZ", "RM", "RP"):
        return finish(x, m, fma32(x, m, a, x.const(1.0, "f32"), b))
    return finish(x, m, a + b)


@row("FMUL FMUL32I", "f32 = f32 f32", modifiers=f"FTZ FMZ SAT D2 D4 D8 M2 M4 M8 {ROUND}", pipe="fma",
     source=PTX)
def fmul(x: Any, m: Any, a: Any, b: Any) -> Any:
    a, b = zero_wins(x, m, *flush_inputs(x, m, a, b))
    mode = m.first("RZ", "RM", "RP")
    scale = {"D2": 0.5, "D4": 0.25, "D8": 0.125, "M2": 2.0, "M4": 4.0, "M8": 8.0}.get(
        m.first("D2", "D4", "D8", "M2", "M4", "M8"))
    if scale is None and not mode:
        nothing = x.const(0.0, "f64")
        return finish(x, m, flush_nearest(x, m, a * b, lambda: (a.fext() * b.fext(), nothing)))
    product = a.fext() * b.fext()
    if scale is not None:
        product = product * scale
    zero = x.const(0.0, "f64")
    r = round_f32(x, mode, product, zero) if mode else product.fround()
    return finish(x, m, flush_exact(x, m, r, product, zero))


@row("FFMA FFMA32I", "f32 = f32 f32 f32", modifiers=f"FTZ FMZ SAT {ROUND}", pipe="fma", source=PTX)
def ffma(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    a, b, c = flush_inputs(x, m, a, b, c)
    return finish(x, m, fma32(x, m, *zero_wins(x, m, a, b), c))


def minmax(x: Any, a: Any, b: Any, p: Any, nan_propagates: bool) -> Any:
    """Minimum where p, else maximum; -0 is below +0; one NaN gives the other operand (NAN: NaN)."""
    equal_bits = (a.bits() | b.bits()), (a.bits() & b.bits())
    low = a.lt(b).where(a, b)
    high = a.lt(b).where(b, a)
    tie = a.eq(b)
    low = tie.where(equal_bits[0].cast(a.kind), low)
    high = tie.where(equal_bits[1].cast(a.kind), high)
    r = p.where(low, high)
    if nan_propagates:
        return (a.isnan() | b.isnan()).where(x.const(math.nan, a.kind), r)
    return a.isnan().where(b, b.isnan().where(a, r))


@row("FMNMX", "f32 = f32 f32 P", modifiers="FTZ NAN", source="PTX ISA 9.0 min, max")
def fmnmx(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    a, b = flush_inputs(x, m, a, b)
    return x.canon(minmax(x, a, b, p, "NAN" in m))


COMPARE = "LT EQ LE GT NE GE LTU EQU LEU GTU NEU GEU NUM NAN F T"


def compare(x: Any, m: Any, a: Any, b: Any) -> Any:
    """Ordered comparisons are false on NaN; those with U are true on NaN."""
    word = m.first(*COMPARE.split())
    unordered = a.isnan() | b.isnan()
    if word in ("F", "T"):
        return x.const(int(word == "T"), "i1")
    if word == "NUM":
        return ~unordered
    if word == "NAN":
        return unordered
    op = {"LT": "<", "EQ": "==", "LE": "<=", "GT": ">", "NE": "!=", "GE": ">="}[word.removesuffix("U")]
    r = a.cmp(op, b)
    return r | unordered if word.endswith("U") and word != "NUM" else r


@row("FSETP", "P P = f32 f32 P", modifiers=f"{COMPARE} FTZ AND OR XOR", source="PTX ISA 9.0 setp")
def fsetp(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    a, b = flush_inputs(x, m, a, b)
    r = compare(x, m, a, b)
    return boolean(m, r, p), boolean(m, ~r, p)


@row("FSET", "i32 = f32 f32 P", modifiers=f"{COMPARE} FTZ AND OR XOR BF", source="PTX ISA 9.0 set")
def fset(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    a, b = flush_inputs(x, m, a, b)
    r = boolean(m, compare(x, m, a, b), p)
    return r.where(x.const(0x3F800000 if "BF" in m else -1, "i32"), x.const(0, "i32"))


@row("FSEL", "f32 = f32 f32 P", modifiers="FTZ", source="PTX ISA 9.0 selp")
def fsel(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    a, b = flush_inputs(x, m, a, b)
    return p.where(a, b)


@row("FCHK", "P = f32 f32", modifiers="DIVIDE", pipe="xu",
     source="measured on an H200: validation/measurements/h200/fchk.json, all 65,536 pairs of exponents")
def fchk(x: Any, m: Any, a: Any, b: Any) -> Any:
    """True where a / b takes the slow path of division: exponents out of the range the fast path handles."""
    ea = a.bits().lshr(23) & 255
    eb = b.bits().lshr(23) & 255
    difference = ea - eb
    odd_a = ea.lt(25) | ea.eq(255)
    odd_b = eb.lt(2) | eb.gt(251)
    return odd_a | odd_b | difference.gt(126) | difference.lt(-124)


#: Two letters a lane: the sign of a and of b (0: no a).
SWIZZLED_SIGNS = {"PP": (1, 1), "PN": (1, -1), "NP": (-1, 1), "ZP": (0, 1)}


@row("FSWZADD", "f32 = f32 f32 word", modifiers="", pipe="fma",
     source="measured on an H200: every pair of signs")
def fswzadd(x: Any, m: Any, a: Any, b: Any, pattern: str) -> Any:
    """A sum or difference by the place of the lane in its quad, two letters a lane."""
    pairs = [pattern[k : k + 2] for k in range(0, len(pattern), 2)]
    if len(pairs) != 4 or not set(pairs) <= set(SWIZZLED_SIGNS):
        raise UnsupportedError(f"pattern {pattern} of FSWZADD is not supported", where="FSWZADD",
                               hint="four pairs of PP, PN, NP and ZP are; please report the kernel")
    signed = {-1: lambda v: -v, 0: lambda v: x.const(0.0, "f32"), 1: lambda v: v}
    quad, out = x.lane_index() & 3, x.const(0.0, "f32")
    for k, pair in enumerate(pairs):
        left, right = SWIZZLED_SIGNS[pair]
        out = quad.eq(k).where(signed[left](a) + signed[right](b), out)
    return x.canon(out)


# --- fp64


ROW_BYTES = 4 * 32  # a register of a warp


def as_read(x: Any, m: Any, k: int, v: Any) -> Any:
    """fp64 source k without its modifiers: - and |x| leave a NaN alone (measured on an H200)."""
    flags = m.sources[k]
    if flags.abs:
        low = x.operand_address(x.sources[k])
        high = x.b.add(low, x.i64c(ROW_BYTES))
        return x.pack64(x.load_row(low), x.load_row(high)).cast("f64")
    return -v if flags.neg else v


def nan64(x: Any, r: Any, a: Any, b: Any, c: Any = None) -> Any:
    """fp64 results keep an operand's NaN, made quiet: b's before c's before a's (measured on an H200)."""
    r = x.canon(r)
    for v in (a, c, b):
        if v is not None:
            r = v.isnan().where((v.bits() | (1 << 51)).cast("f64"), r)
    return r


SCALE = 2.0**600


def residual64(x: Any, a: Any, b: Any, c: Any, r: Any) -> Any:
    """A number with the sign of (a * b + c) - r, r = fma(a, b, c).

    Scaled up where a * b would underflow, down where it overflows (c is then as large, or r infinite).
    """
    product, factor = x.fabs(a * b), x.fabs(a)
    small = product.lt(2.0**-900) & x.fabs(c).lt(2.0**-300)
    large = product.eq(math.inf)
    one = x.const(1.0, "f64")
    unit = small.where(x.const(SCALE, "f64"), large.where(x.const(1.0 / SCALE, "f64"), one))
    left = small.where(factor.lt(1.0), factor.gt(1.0))
    some = a.ne(0.0) & b.ne(0.0)
    a, b = left.where(a * unit, a), left.where(b, b * unit)
    c, r = c * unit, r * unit
    u1 = a * b
    u2 = x.fma(a, b, -u1)
    alpha1, alpha2 = two_sum(c, u2)
    # the larger one first: no step of the sum leaves the range
    inner = x.fabs(u1).lt(x.fabs(alpha1))
    high, low = inner.where(alpha1, u1), inner.where(u1, alpha1)
    beta1 = high + low
    beta2 = low - (beta1 - high)
    e = ((beta1 - r) + beta2) + alpha2
    # a product too small to show in the sum still has a sign
    lost = e.eq(0.0) & u1.eq(0.0) & some
    return lost.where(((a.bits() ^ b.bits()) & (1 << 63) | one.bits()).cast("f64"), e)


def round64(x: Any, mode: str, a: Any, b: Any, c: Any, r: Any) -> Any:
    """fma(a, b, c) in a directed mode, from the nearest result r."""
    finite = x.fabs(a).lt(math.inf) & x.fabs(b).lt(math.inf) & x.fabs(c).lt(math.inf)
    over = finite & x.fabs(r).eq(math.inf)
    e = residual64(x, a, b, c, r)
    e = over.where(-r, e)  # a finite value that rounded to infinity lies below it
    e = e.isnan().where(x.const(0.0, "f64"), e)
    out = directed(x, mode, r, e, finite)
    if mode == "RM":  # a sum of opposite signs that cancels is -0
        opposite = (a.bits() ^ b.bits() ^ c.bits()).lt(0)
        cancels = r.eq(0.0) & e.eq(0.0) & opposite & finite
        out = cancels.where(x.const(1 << 63, "i64"), out.bits()).cast("f64")
    return out


def fma64(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    r = x.fma(a, b, c)
    mode = m.first("RZ", "RM", "RP")
    if mode:
        r = round64(x, mode, a, b, c, r)
    return nan64(x, r, *(as_read(x, m, k, v) for k, v in enumerate((a, b, c))))


@row("DADD", "f64 = f64 f64", modifiers=ROUND, pipe="fp64", source=PTX)
def dadd(x: Any, m: Any, a: Any, b: Any) -> Any:
    mode = m.first("RZ", "RM", "RP")
    r = a + b
    if mode:
        r = round64(x, mode, a, x.const(1.0, "f64"), b, r)
    return nan64(x, r, as_read(x, m, 0, a), as_read(x, m, 1, b))


@row("DMUL", "f64 = f64 f64", modifiers=ROUND, pipe="fp64", source=PTX)
def dmul(x: Any, m: Any, a: Any, b: Any) -> Any:
    mode = m.first("RZ", "RM", "RP")
    r = a * b
    if mode:
        # an exact zero keeps the sign of the product: the addend is a zero of that sign
        zero = ((a.bits() ^ b.bits()) & (1 << 63)).cast("f64")
        r = round64(x, mode, a, b, zero, r)
    return nan64(x, r, as_read(x, m, 0, a), as_read(x, m, 1, b))


@row("DFMA", "f64 = f64 f64 f64", modifiers=ROUND, pipe="fp64", source=PTX)
def dfma(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    return fma64(x, m, a, b, c)


@row("DSETP", "P P = f64 f64 P", modifiers=f"{COMPARE} MIN MAX AND OR XOR", pipe="fp64",
     source="PTX ISA 9.0 setp")
def dsetp(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    """MIN, MAX (of fmin, fmax): does a win, and, whatever p, is neither a number; of equals a wins MIN only
    (measured on an H200).
    """
    if "MIN" in m or "MAX" in m:
        wins = minmax(x, a, b, x.const(int("MIN" in m), "i1"), False).bits().eq(a.bits()) & ~a.isnan()
        wins = wins if "MIN" in m else wins & a.bits().ne(b.bits())
        return boolean(m, wins, p), a.isnan() & b.isnan()
    r = compare(x, m, a, b)
    return boolean(m, r, p), boolean(m, ~r, p)


@row("DMNMX", "f64 = f64 f64 P", modifiers="NAN", pipe="fp64", source="PTX ISA 9.0 min, max")
def dmnmx(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    return x.canon(minmax(x, a, b, p, "NAN" in m))

"""fp32 and fp64 rows, conversions and the multi-function unit.

Arithmetic is IEEE 754 with round-to-nearest-even (or the directed mode named by RZ/RM/RP), fused where
the opcode is fused; FTZ flushes denormal inputs and results to zero of the same sign; NaN results are
the hardware's one NaN.  The multi-function unit (MUFU) computes from tables NVIDIA does not publish:
here each function is evaluated in fp64 and rounded once, so results may differ from the card by the
bound in the row.

Sources: PTX ISA 9.0, floating-point instructions; CUDA programming guide, mathematical functions.
"""

from __future__ import annotations

import math
from typing import Any

from gpusim.isa.rows_integer import boolean
from gpusim.isa.table import row

PTX = "PTX ISA 9.0, floating-point arithmetic"
ROUND = "RN RZ RM RP"


def flush_inputs(x: Any, m: Any, *values: Any) -> tuple[Any, ...]:
    return tuple(x.ftz(v) for v in values) if "FTZ" in m or "FMZ" in m else values


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
        return x.fma(a, b, c)
    product = a.fext() * b.fext()  # exact
    s, e = two_sum(product, c.fext())
    e = e.isnan().where(x.const(0.0, "f64"), e)
    r = round_f32(x, mode, s, e)
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
    a, b = flush_inputs(x, m, a, b)
    mode = m.first("RZ", "RM", "RP")
    scale = {"D2": 0.5, "D4": 0.25, "D8": 0.125, "M2": 2.0, "M4": 4.0, "M8": 8.0}.get(
        m.first("D2", "D4", "D8", "M2", "M4", "M8"))
    if scale is None and not mode:
        return finish(x, m, a * b)
    product = a.fext() * b.fext()
    if scale is not None:
        product = product * scale
    r = round_f32(x, mode, product, x.const(0.0, "f64")) if mode else product.fround()
    return finish(x, m, r)


@row("FFMA FFMA32I", "f32 = f32 f32 f32", modifiers=f"FTZ FMZ SAT {ROUND}", pipe="fma", source=PTX)
def ffma(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    a, b, c = flush_inputs(x, m, a, b, c)
    return finish(x, m, fma32(x, m, a, b, c))


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


@row("FSWZADD", "f32 = f32 f32 word", modifiers="RN", pipe="fma",
     source="compiled code of derivatives")
def fswzadd(x: Any, m: Any, a: Any, b: Any, pattern: str) -> Any:
    """Add or subtract by the lane's position in its quad (P: a+b, N: b-a, Z: b ...)."""
    quad = x.lane_index() & 3
    out = x.const(0.0, "f32")
    for k, c in enumerate(pattern[:4]):
        term = {"P": a + b, "N": b - a, "Z": b}.get(c, a - b)
        out = quad.eq(k).where(term, out)
    return x.canon(out)


# --- fp64


def nan64(x: Any, r: Any, a: Any, b: Any, c: Any = None) -> Any:
    """fp64 results keep an operand's NaN, made quiet: b's before c's before a's (measured on an H200)."""
    r = x.canon(r)
    for v in (a, c, b):
        if v is not None:
            r = v.isnan().where((v.bits() | (1 << 51)).cast("f64"), r)
    return r


SCALE = 2.0**600


def residual64(x: Any, a: Any, b: Any, c: Any, r: Any) -> Any:
    """A number with the sign of (a * b + c) - r, r = fma(a, b, c); scaled where a * b would underflow."""
    small = x.fabs(a * b).lt(2.0**-900) & x.fabs(c).lt(2.0**-300)
    one = x.const(1.0, "f64")
    left, right = x.fabs(a).lt(1.0), x.const(SCALE, "f64")
    a = (small & left).where(a * right, a)
    b = (small & ~left).where(b * right, b)
    unit = small.where(right, one)
    c, r = c * unit, r * unit
    u1 = a * b
    u2 = x.fma(a, b, -u1)
    alpha1, alpha2 = two_sum(c, u2)
    beta1, beta2 = two_sum(u1, alpha1)
    e = ((beta1 - r) + beta2) + alpha2
    # a product too small to show in the sum still has a sign
    lost = e.eq(0.0) & u1.eq(0.0) & a.ne(0.0) & b.ne(0.0)
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
    return nan64(x, r, a, b, c)


@row("DADD", "f64 = f64 f64", modifiers=ROUND, pipe="fp64", source=PTX)
def dadd(x: Any, m: Any, a: Any, b: Any) -> Any:
    mode = m.first("RZ", "RM", "RP")
    r = a + b
    if mode:
        r = round64(x, mode, a, x.const(1.0, "f64"), b, r)
    return nan64(x, r, a, b)


@row("DMUL", "f64 = f64 f64", modifiers=ROUND, pipe="fp64", source=PTX)
def dmul(x: Any, m: Any, a: Any, b: Any) -> Any:
    mode = m.first("RZ", "RM", "RP")
    r = a * b
    if mode:
        # an exact zero keeps the sign of the product: the addend is a zero of that sign
        zero = ((a.bits() ^ b.bits()) & (1 << 63)).cast("f64")
        r = round64(x, mode, a, b, zero, r)
    return nan64(x, r, a, b)


@row("DFMA", "f64 = f64 f64 f64", modifiers=ROUND, pipe="fp64", source=PTX)
def dfma(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    return fma64(x, m, a, b, c)


@row("DSETP", "P P = f64 f64 P", modifiers=f"{COMPARE} MIN MAX AND OR XOR", pipe="fp64",
     source="PTX ISA 9.0 setp")
def dsetp(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    """MIN, MAX (of fmin, fmax): does a win, and is neither a number."""
    if "MIN" in m or "MAX" in m:
        wins = minmax(x, a, b, x.const(int("MIN" in m), "i1"), False).bits().eq(a.bits()) & ~a.isnan()
        return boolean(m, wins, p), boolean(m, a.isnan() & b.isnan(), p)
    r = compare(x, m, a, b)
    return boolean(m, r, p), boolean(m, ~r, p)


@row("DMNMX", "f64 = f64 f64 P", modifiers="NAN", pipe="fp64", source="PTX ISA 9.0 min, max")
def dmnmx(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    return x.canon(minmax(x, a, b, p, "NAN" in m))


# --- conversions


def integral(x: Any, m: Any, a: Any) -> Any:
    op = {"TRUNC": "trunc", "FLOOR": "floor", "CEIL": "ceil"}.get(
        m.first("TRUNC", "FLOOR", "CEIL"), "roundeven"
    )
    return x.unary(op, a)


F2I_MODIFIERS = "FTZ NTZ TRUNC FLOOR CEIL ROUND U8 S8 U16 S16 U32 S32 F16 BF16"


def _to_integer(x: Any, m: Any, a: Any, kind: str) -> Any:
    r = integral(x, m, a)
    narrow = m.first("U8", "S8", "U16", "S16")
    signed = not m.first("U8", "U16", "U32", "U64")
    out = r.to_int(kind, signed)
    if narrow:
        bits = int(narrow[1:])
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        if signed:
            out = out.lt(low).where(x.const(low, kind), out)
        out = out.gt(high, signed=signed).where(x.const(high, kind), out)
    return out


def half_source(x: Any, m: Any, k: int, raw: Any) -> Any:
    """An fp16/bf16 operand (half chosen by its suffix) or an fp32 one, as fp32."""
    flags = m.sources[k]
    if "F16" in m or "BF16" in m:
        v = x.half(raw, 1 if "H1" in flags.suffixes or "H1_H1" in flags.suffixes else 0,
                   "bf16" if "BF16" in m else "f16")
    else:
        v = raw.cast("f32")
    if flags.abs:
        v = x.fabs(v)
    return -v if flags.neg else v


@row("F2I", "i32 = raw", modifiers=F2I_MODIFIERS, pipe="xu", source="PTX ISA 9.0 cvt")
def f2i(x: Any, m: Any, raw: Any) -> Any:
    """Saturates; NaN becomes 0."""
    (a,) = flush_inputs(x, m, half_source(x, m, 0, raw))
    return _to_integer(x, m, a, "i32")


@row("F2I.S64 F2I.U64", "i64 = raw", modifiers=F2I_MODIFIERS + " S64 U64", pipe="xu",
     source="PTX ISA 9.0 cvt")
def f2i_64(x: Any, m: Any, raw: Any) -> Any:
    (a,) = flush_inputs(x, m, half_source(x, m, 0, raw))
    r = _to_integer(x, m, a, "i64")
    return a.isnan().where(x.const(1 << 63, "i64"), r)


@row("F2I.F64", "i32 = f64", modifiers=F2I_MODIFIERS + " F64", pipe="xu", source="PTX ISA 9.0 cvt")
def f2i_f64(x: Any, m: Any, a: Any) -> Any:
    """NaN becomes 0x80000000, signed or not (measured on an H200)."""
    return a.isnan().where(x.const(0x80000000, "i32"), _to_integer(x, m, a, "i32"))


@row("F2I.S64.F64 F2I.U64.F64", "i64 = f64", modifiers=F2I_MODIFIERS + " F64 S64 U64", pipe="xu",
     source="PTX ISA 9.0 cvt")
def f2i_64_f64(x: Any, m: Any, a: Any) -> Any:
    r = _to_integer(x, m, a, "i64")
    return a.isnan().where(x.const(1 << 63, "i64"), r)


def _int_source(x: Any, m: Any, k: int, raw: Any) -> Any:
    """Sub-word integer chosen by .B1, .H1 ... and sign- or zero-extended."""
    kind = m.first("U8", "S8", "U16", "S16")
    if not kind:
        return raw
    bits = int(kind[1:])
    place = next((int(s[1]) for s in m.sources[k].suffixes if s[0] in "BH" and s[1:2].isdigit()), 0)
    up = raw.shl(32 - bits * (place + 1)) if bits * (place + 1) < 32 else raw
    return up.ashr(32 - bits) if kind[0] == "S" else up.lshr(32 - bits)


def from_integer(x: Any, m: Any, a: Any, kind: str) -> Any:
    signed = not m.first("U8", "U16", "U32", "U64")
    mode = m.first("RZ", "RM", "RP")
    r = a.to_float(kind, signed)
    if not mode:
        return r
    if kind == "f32" and a.kind == "i32":
        return round_f32(x, mode, a.to_float("f64", signed), x.const(0.0, "f64"))
    if a.kind == "i32":
        return r  # exact in fp64
    # 64-bit integers: split into an exact fp64 pair
    high = (a.ashr(32) if signed else a.lshr(32)).to_float("f64", signed) * 4294967296.0
    low = (a & 0xFFFFFFFF).to_float("f64", False)
    s, e = two_sum(high, low)
    if kind == "f32":
        return round_f32(x, mode, s, e)
    return directed(x, mode, s, e, x.fabs(s).lt(math.inf))


I2F_MODIFIERS = f"U8 S8 U16 S16 U32 S32 {ROUND}"


@row("I2F", "i32 = raw", modifiers=I2F_MODIFIERS + " F16 BF16", pipe="xu", source="PTX ISA 9.0 cvt")
def i2f(x: Any, m: Any, raw: Any) -> Any:
    a = _int_source(x, m, 0, raw)
    if "F16" in m or "BF16" in m:
        signed = not m.first("U8", "U16", "U32")
        return x.to_half(a.to_float("f64", signed), "bf16" if "BF16" in m else "f16").zext("i32")
    return from_integer(x, m, a, "f32").bits()


@row("I2F.S64 I2F.U64", "f32 = i64", modifiers=I2F_MODIFIERS + " S64 U64", pipe="xu",
     source="PTX ISA 9.0 cvt")
def i2f_s64(x: Any, m: Any, a: Any) -> Any:
    return from_integer(x, m, a, "f32")


@row("I2F.F64", "f64 = raw", modifiers=I2F_MODIFIERS + " F64", pipe="xu", source="PTX ISA 9.0 cvt")
def i2f_f64(x: Any, m: Any, raw: Any) -> Any:
    return from_integer(x, m, _int_source(x, m, 0, raw), "f64")


@row("I2F.F64.S64 I2F.F64.U64", "f64 = i64", modifiers=I2F_MODIFIERS + " F64 S64 U64", pipe="xu",
     source="PTX ISA 9.0 cvt")
def i2f_f64_s64(x: Any, m: Any, a: Any) -> Any:
    return from_integer(x, m, a, "f64")


@row("I2FP", "f32 = raw", modifiers=f"F32 S32 U32 {ROUND}", pipe="fma", source="PTX ISA 9.0 cvt")
def i2fp(x: Any, m: Any, a: Any) -> Any:
    return from_integer(x, m, a, "f32")


@row("FRND", "i32 = raw", modifiers="FTZ TRUNC FLOOR CEIL ROUND F16 BF16", pipe="xu",
     source="PTX ISA 9.0 cvt")
def frnd(x: Any, m: Any, raw: Any) -> Any:
    (a,) = flush_inputs(x, m, half_source(x, m, 0, raw))
    r = integral(x, m, a)
    if "F16" in m or "BF16" in m:
        return x.to_half(r.fext(), "bf16" if "BF16" in m else "f16").zext("i32")
    return x.canon(r).bits()


@row("FRND.F64", "f64 = f64", modifiers="F64 TRUNC FLOOR CEIL", pipe="xu", source="PTX ISA 9.0 cvt")
def frnd_f64(x: Any, m: Any, a: Any) -> Any:
    return nan64(x, integral(x, m, a), a, a)


@row("F2F.F64.F32", "f64 = f32", modifiers="F64 F32 FTZ", pipe="xu", source="PTX ISA 9.0 cvt")
def f2f_f64_f32(x: Any, m: Any, a: Any) -> Any:
    (a,) = flush_inputs(x, m, a)
    return a.fext()  # a NaN keeps its payload, made quiet


@row("F2F.F32.F64", "f32 = f64", modifiers=f"F64 F32 FTZ SAT {ROUND}", pipe="xu", source="PTX ISA 9.0 cvt")
def f2f_f32_f64(x: Any, m: Any, a: Any) -> Any:
    mode = m.first("RZ", "RM", "RP")
    r = round_f32(x, mode, a, x.const(0.0, "f64")) if mode else a.fround()
    r = finish(x, m, r)
    return r if "SAT" in m else a.isnan().where(a.fround(), r)  # a NaN keeps sign and leading payload


@row("F2F.F16.F32 F2F.BF16.F32", "i32 = raw", modifiers=f"F16 BF16 F32 FTZ {ROUND}", pipe="xu",
     source="PTX ISA 9.0 cvt")
def f2f_half(x: Any, m: Any, raw: Any) -> Any:
    a = raw.cast("f32")
    flags = m.sources[0]
    a = x.fabs(a) if flags.abs else a
    a = -a if flags.neg else a
    (a,) = flush_inputs(x, m, a)
    kind = "bf16" if "BF16" in m else "f16"
    return x.to_half(a.fext(), kind, m.first("RZ", "RM", "RP")).zext("i32")


@row("F2F.F16.F64 F2F.BF16.F64", "i32 = f64", modifiers=f"F16 BF16 F64 {ROUND}", pipe="xu",
     source="PTX ISA 9.0 cvt")
def f2f_half_f64(x: Any, m: Any, a: Any) -> Any:
    kind = "bf16" if "BF16" in m else "f16"
    h = x.to_half(a, kind, m.first("RZ", "RM", "RP")).zext("i32")
    # a NaN keeps its sign and leading payload (measured on an H200)
    shift, quiet = (45, 0x7FC0) if kind == "bf16" else (42, 0x7E00)
    high = (
        (a.bits().lshr(48) & 0x8000).trunc("i32")
        | (a.bits() & ((1 << 52) - 1)).lshr(shift).trunc("i32")
        | quiet
    )
    return a.isnan().where(high, h)


@row("F2F.F64.F16", "f64 = raw", modifiers="F64 F16", pipe="xu", source="PTX ISA 9.0 cvt")
def f2f_f64_half(x: Any, m: Any, raw: Any) -> Any:
    return x.canon(half_source(x, m, 0, raw).fext())


@row("F2FP", "i32 = f32 f32 ?raw", modifiers=f"F16 BF16 F32 PACK_AB RELU {ROUND}",
     source="PTX ISA 9.0 cvt")
def f2fp(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    """Two fp32 values to packed halves: a in the high half, b in the low one."""
    kind = "bf16" if "BF16" in m else "f16"
    mode = m.first("RZ", "RM", "RP")
    out = []
    for v in (a, b):
        wide = v.fext()
        if "RELU" in m:
            wide = wide.lt(0.0).where(x.const(0.0, "f64"), wide)
            wide = wide.eq(0.0).where(x.const(0.0, "f64"), wide)
        out.append(x.to_half(wide, kind, mode).zext("i32"))
    return out[0].shl(16) | out[1]


@row("F2IP", "i32 = f32 f32 i32", modifiers="U8 S8 F32 NTZ TRUNC FLOOR CEIL", pipe="xu",
     source="PTX ISA 9.0 cvt.pack")
def f2ip(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    """Two values to saturated bytes (b lowest) under the low half of c."""
    high, low = (_to_integer(x, m, v, "i32") & 0xFF for v in (a, b))
    return c.shl(16) | high.shl(8) | low


# --- multi-function unit


def polynomial(x: Any, t: Any, coefficients: list[float]) -> Any:
    """Horner, highest power first."""
    r = x.const(coefficients[0], "f64")
    for c in coefficients[1:]:
        r = x.fma(r, t, x.const(c, "f64"))
    return r


def exp2_f64(x: Any, a: Any) -> Any:
    """2^a for |a| < 1020; relative error below 1e-15 (Taylor series of exp on half an octave)."""
    whole = x.unary("roundeven", a)
    t = (a - whole) * math.log(2.0)
    series = polynomial(x, t, [1.0 / math.factorial(k) for k in range(13, -1, -1)])
    scale = (whole.to_int("i64", True) + 1023).shl(52).cast("f64")
    return series * scale


def log2_f64(x: Any, a: Any) -> Any:
    """log2 of a positive normal fp64; absolute error below 1e-15 (atanh series around 1)."""
    bits = a.bits()
    exponent = bits.lshr(52) - 1023
    mantissa = (bits & ((1 << 52) - 1) | (1023 << 52)).cast("f64")
    big = mantissa.gt(math.sqrt(2.0))
    mantissa = big.where(mantissa * 0.5, mantissa)
    exponent = big.where(exponent + 1, exponent)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    series = polynomial(x, s * s, [1.0 / (2 * k + 1) for k in range(12, -1, -1)])
    return exponent.to_float("f64", True) + s * series * (2.0 / math.log(2.0))


def sine_turns(x: Any, a: Any, quarter: int) -> Any:
    """sin(2 pi a + quarter pi/2) in fp64."""
    turns = a - x.unary("roundeven", a)
    q = x.unary("roundeven", turns * 4.0)
    t = (turns - q * 0.25) * (2.0 * math.pi)
    index = q.to_int("i32", True) + quarter
    t2 = t * t
    sine = t * polynomial(x, t2, [(-1) ** k / math.factorial(2 * k + 1) for k in range(9, -1, -1)])
    cosine = polynomial(x, t2, [(-1) ** k / math.factorial(2 * k) for k in range(10, -1, -1)])
    r = (index & 1).ne(0).where(cosine, sine)
    return (index & 2).ne(0).where(-r, r)


#: Largest differences from an H200, validation/measurements/h200/mufu_bounds.json.
MUFU_BOUND = (
    "1 ulp (rcp, rsq, sqrt); 2 ulp (ex2; lg2 outside [0.5, 1.5], 2^-22 absolute inside); "
    "2^-21 absolute (sin, cos); 2^-16 relative (tanh)"
)


@row("MUFU", "f32 = f32", modifiers="RCP RSQ SQRT EX2 LG2 SIN COS TANH", pipe="xu",
     source="PTX ISA 9.0 rcp/rsqrt/sqrt/ex2/lg2/sin/cos/tanh.approx; rounded once from fp64",
     bound=MUFU_BOUND)
def mufu(x: Any, m: Any, a: Any) -> Any:
    """Denormal inputs and results are zero, as compiled code that scales around MUFU shows (not TANH)."""
    word = m.first("RCP", "RSQ", "SQRT", "EX2", "LG2", "SIN", "COS", "TANH")
    a = a if word == "TANH" else x.ftz(a)
    wide = a.fext()
    if word == "RCP":
        r = (x.const(1.0, "f64") / wide).fround()
    elif word in ("RSQ", "SQRT"):
        root = x.unary("sqrt", wide)
        r = (root if word == "SQRT" else x.const(1.0, "f64") / root).fround()
    elif word == "EX2":
        clamped = wide.gt(200.0).where(x.const(200.0, "f64"), wide)
        clamped = clamped.lt(-200.0).where(x.const(-200.0, "f64"), clamped)
        r = wide.isnan().where(wide, exp2_f64(x, clamped)).fround()
    elif word == "LG2":
        value = log2_f64(x, wide)
        value = wide.eq(0.0).where(x.const(-math.inf, "f64"), value)
        value = wide.eq(math.inf).where(x.const(math.inf, "f64"), value)
        value = wide.cmp(">=", 0.0).where(value, x.const(math.nan, "f64"))
        r = value.fround()
    elif word == "TANH":
        magnitude = x.fabs(wide)
        capped = magnitude.lt(40.0).where(magnitude, x.const(40.0, "f64"))
        e = exp2_f64(x, capped * (-2.0 / math.log(2.0)))
        value = (x.const(1.0, "f64") - e) / (e + 1.0)
        value = magnitude.lt(1e-3).where(magnitude - magnitude * magnitude * magnitude * (1.0 / 3.0), value)
        value = wide.isnan().where(wide, value)
        r = (value.bits() | (wide.bits() & (1 << 63))).cast("f64").fround()
    else:
        value = sine_turns(x, wide, 1 if word == "COS" else 0)
        value = x.fabs(wide).lt(math.inf).where(value, x.const(math.nan, "f64"))
        r = value.fround()
    if word == "SIN":
        r = a.eq(0.0).where(a, r)
    return x.canon(r if word == "TANH" else x.ftz(r))


@row("MUFU.RCP64H MUFU.RSQ64H", "i32 = raw", modifiers="RCP64H RSQ64H", pipe="xu",
     source="compiled code of fp64 division and square root; rounded once from fp64",
     bound="the seed of fp64 division and square root: 2^-20 relative, refined by the code around it")
def mufu64(x: Any, m: Any, high: Any) -> Any:
    """High word in, high word out; the low word of the operand is taken as zero."""
    flags = m.sources[0]
    high = high & 0x7FFFFFFF if flags.abs else high
    high = high ^ 0x80000000 if flags.neg else high
    exponent = high.lshr(20) & 0x7FF
    tiny = exponent.eq(0)
    a = x.pack64(x.const(0, "i32"), tiny.where(high & 0x80000000, high)).cast("f64")
    one = x.const(1.0, "f64")
    r = one / a if "RCP64H" in m else one / x.unary("sqrt", a)
    out = r.isnan().where(x.const(0x7FFFFFFF, "i32"), r.bits().lshr(32).trunc("i32"))
    denormal = (out.lshr(20) & 0x7FF).eq(0)
    return denormal.where(out & 0x80000000, out)

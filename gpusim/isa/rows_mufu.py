"""The multi-function unit: reciprocal, square roots, exponential, logarithm, sine, cosine, tanh.

The hardware computes from tables NVIDIA does not publish.  Here each function is evaluated in fp64 and
rounded once, so results may differ from the card by the bound in the row.

Sources: PTX ISA 9.0, approx instructions; bounds measured on an H200.
"""

from __future__ import annotations

import math
from typing import Any

from gpusim.isa.table import row


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

"""References of conversions and packed halves.

Conversions and half arithmetic are exact, then rounded once (``reference_float``).  Functions of the
multi-function unit on halves come from ``math`` in double precision, far inside the bounds their rows state.

Sources: PTX ISA 9.0 (cvt, half-precision instructions, the .approx functions), IEEE 754-2019.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from gpusim.isa.reference import M32, Call, clamp, combine, lanewise, limits, signed
from gpusim.isa.reference_float import (
    BF16,
    F16,
    F32,
    F64,
    NAN,
    ZERO,
    Format,
    Real,
    add,
    compares,
    decode,
    encode,
    finite,
    flushed,
    fma,
    ftz,
    mode_of,
    multiply,
    read,
    smaller,
    to_integer,
    write,
    write64,
)

INTEGRAL = {"TRUNC": "RZ", "FLOOR": "RM", "CEIL": "RP"}


def _half_index(call: Call, k: int) -> int:
    return 1 if any(s.startswith("H1") for s in call.flags[k].suffixes) else 0


def _narrow_source(call: Call, k: int, bits: int) -> Real:
    """fp16 or bf16 (half by suffix) or fp32, with -, || and FTZ."""
    f = BF16 if "BF16" in call else F16 if "F16" in call else F32
    if f is not F32:
        bits = bits >> 16 if _half_index(call, k) else bits & 0xFFFF
    if call.flags[k].abs:
        bits &= ~f.sign
    if call.flags[k].neg:
        bits ^= f.sign
    if f is F32 and ftz(call):
        bits = flushed(f, bits)
    return decode(f, bits)


def _integer(call: Call, r: Real, default: str, nan: int) -> int:
    """cvt to an integer: rounded, saturated; what NaN becomes is given."""
    kind = call.first("U8", "S8", "U16", "S16", "U32", "U64", "S64", "S32", default=default)
    low, high = limits(kind)
    if r.nan:
        return nan
    if not r.finite:
        return low if r.negative else high
    return clamp(to_integer(r.value, INTEGRAL.get(call.first(*INTEGRAL), "RN")), low, high)


@lanewise("F2I", "raw")
def f2i(call: Call, a: int) -> Any:
    """PTX cvt: NaN is 0 where neither type has 64 bits."""
    return _integer(call, _narrow_source(call, 0, a), "S32", 0) & M32


@lanewise("F2I.S64 F2I.U64", "raw")
def f2i_64(call: Call, a: int) -> Any:
    """PTX cvt: NaN is the integer with only its top bit where a type has 64 bits."""
    return _integer(call, _narrow_source(call, 0, a), "S64", 1 << 63)


@lanewise("F2I.F64", "float")
def f2i_f64(call: Call, a: int) -> Any:
    return _integer(call, decode(F64, a), "S32", 1 << 31) & M32


@lanewise("F2I.S64.F64 F2I.U64.F64", "float")
def f2i_64_f64(call: Call, a: int) -> Any:
    return _integer(call, decode(F64, a), "S64", 1 << 63)


def _from_integer(call: Call, k: int, a: int, bits: int) -> Real:
    kind = call.first("U8", "S8", "U16", "S16", "U32", "S32", "U64", "S64", default=f"S{bits}")
    width = int(kind[1:])
    place = next((int(s[1]) for s in call.flags[k].suffixes if s[0] in "BH" and s[1:2].isdigit()), 0)
    value = a >> (place * width) & ((1 << width) - 1)
    return finite(signed(value, width) if kind[0] == "S" else value)


@lanewise("I2F I2FP", "raw")
def i2f(call: Call, a: int) -> Any:
    f = BF16 if "BF16" in call else F16 if "F16" in call else F32
    return encode(f, _from_integer(call, 0, a, 32), mode_of(call))


@lanewise("I2F.S64 I2F.U64", "int")
def i2f_64(call: Call, a: int) -> Any:
    return encode(F32, _from_integer(call, 0, a, 64), mode_of(call))


@lanewise("I2F.F64", "raw")
def i2f_f64(call: Call, a: int) -> Any:
    return encode(F64, _from_integer(call, 0, a, 32), mode_of(call))


@lanewise("I2F.F64.S64 I2F.F64.U64", "int")
def i2f_f64_64(call: Call, a: int) -> Any:
    return encode(F64, _from_integer(call, 0, a, 64), mode_of(call))


def _integral(call: Call, r: Real) -> Real:
    if not r.finite:
        return r
    return finite(to_integer(r.value, INTEGRAL.get(call.first(*INTEGRAL), "RN")), r.negative)


@lanewise("FRND", "raw")
def frnd(call: Call, a: int) -> Any:
    f = BF16 if "BF16" in call else F16 if "F16" in call else F32
    return encode(f, _integral(call, _narrow_source(call, 0, a)))


@lanewise("FRND.F64", "float")
def frnd_f64(call: Call, a: int) -> Any:
    return write64(_integral(call, decode(F64, a)), "RN", a)


def carried_nan(source: Format, target: Format, bits: int) -> int:
    """Conversions from and to fp64 keep a NaN's sign and leading payload (measured); 0 for numbers."""
    if not decode(source, bits).nan:
        return 0
    payload = bits & ((1 << source.fraction) - 1)
    shift = target.fraction - source.fraction
    payload = payload << shift if shift >= 0 else payload >> -shift
    return (target.sign if bits & source.sign else 0) | target.infinity | 1 << (target.fraction - 1) | payload


@lanewise("F2F.F64.F32", "float")
def f2f_f64_f32(call: Call, a: int) -> Any:
    return carried_nan(F32, F64, a) or encode(F64, read(call, F32, a)[0])


@lanewise("F2F.F32.F64", "float")
def f2f_f32_f64(call: Call, a: int) -> Any:
    nan = 0 if "SAT" in call else carried_nan(F64, F32, a)
    return nan or write(call, F32, decode(F64, a), mode_of(call))


@lanewise("F2F.F16.F32 F2F.BF16.F32", "float")
def f2f_half(call: Call, a: int) -> Any:
    return encode(BF16 if "BF16" in call else F16, read(call, F32, a)[0], mode_of(call))


@lanewise("F2F.F16.F64 F2F.BF16.F64", "float")
def f2f_half_f64(call: Call, a: int) -> Any:
    f = BF16 if "BF16" in call else F16
    return carried_nan(F64, f, a) or encode(f, decode(F64, a), mode_of(call))


@lanewise("F2F.F64.F16", "raw")
def f2f_f64_half(call: Call, a: int) -> Any:
    return encode(F64, _narrow_source(call, 0, a))


@lanewise("F2FP", "float")
def f2fp(call: Call, a: int, b: int, c: int | None) -> Any:
    """cvt.rn.f16x2.f32: a to the upper half, b to the lower one."""
    out = 0
    for v in (a, b):
        r = decode(F32, v)
        if "RELU" in call and r.negative and not r.nan:
            r = finite(0)
        out = out << 16 | encode(BF16 if "BF16" in call else F16, r, mode_of(call))
    return out


@lanewise("F2IP", "float")
def f2ip(call: Call, a: int, b: int, c: int) -> Any:
    low, high = (_integer(call, decode(F32, v), "S8", 0) & 255 for v in (b, a))
    return (c & 0xFFFF) << 16 | high << 8 | low


# --- the multi-function unit on halves: the nearest value, for the test to compare within the row's bound


def _double(value: float) -> Real:
    if math.isnan(value):
        return NAN
    negative = math.copysign(1.0, value) < 0
    return Real("inf", negative, ZERO) if math.isinf(value) else finite(Fraction(value), negative)


def _float(r: Real) -> float:
    if r.nan:
        return math.nan
    if not r.finite:
        return -math.inf if r.negative else math.inf
    return -0.0 if r.zero and r.negative else float(r.value)


def special_function(word: str, r: Real) -> float:
    """EX2 and TANH as IEEE functions."""
    x = _float(r)
    if r.nan:
        return math.nan
    if word == "EX2":
        return math.inf if x > 1000 else 0.0 if x < -1000 else 2.0**x
    return math.tanh(x)


# --- packed halves


def _half_format(call: Call) -> Format:
    return BF16 if any(w.startswith("BF16") for w in call.words) else F16


def _halves(call: Call, k: int, word: int) -> list[Real]:
    """The two values source k gives, low first."""
    f, flags = _half_format(call), call.flags[k]
    swizzle = next((s for s in flags.suffixes if s[0] == "H"), "H1_H0")
    picks = [int(swizzle[-1]), int(swizzle[1])]
    if "F32" in flags.suffixes:
        f, values = F32, [word, word]
    else:
        values = [word >> (16 * p) & 0xFFFF for p in picks]
        if "FTZ" in call and f is F16:
            values = [flushed(f, v) for v in values]
    if flags.abs:
        values = [v & ~f.sign for v in values]
    return [decode(f, v ^ f.sign if flags.neg else v) for v in values]


def _half_result(call: Call, r: Real) -> int:
    f = _half_format(call)
    if "SAT" in call:
        if r.nan or r.negative or r.zero:
            r = finite(0)
        elif not r.finite or r.value > 1:
            r = finite(1)
    if "RELU" in call and not r.nan and (r.negative or r.zero):
        r = finite(0)
    bits = encode(f, r)
    return flushed(f, bits) if "FTZ" in call and f is F16 else bits


def _packed(call: Call, low: Real, high: Real) -> int:
    return _half_result(call, high) << 16 | _half_result(call, low)


@lanewise("HADD2 HADD2_32I", "raw")
def hadd2(call: Call, a: int, b: int) -> Any:
    pairs = list(zip(_halves(call, 0, a), _halves(call, 1, b), strict=True))
    if "F32" in call:
        return encode(F32, add(*pairs[0]))
    return _packed(call, add(*pairs[0]), add(*pairs[1]))


@lanewise("HMUL2", "raw")
def hmul2(call: Call, a: int, b: int) -> Any:
    low, high = (multiply(x, y) for x, y in zip(_halves(call, 0, a), _halves(call, 1, b), strict=True))
    return _packed(call, low, high)


@lanewise("HFMA2", "raw")
def hfma2(call: Call, a: int, b: int, c: int) -> Any:
    lanes = zip(_halves(call, 0, a), _halves(call, 1, b), _halves(call, 2, c), strict=True)
    return _packed(call, *(fma(x, y, z) for x, y, z in lanes))


@lanewise("HMNMX2 VHMNMX", "raw")
def hmnmx2(call: Call, a: int, b: int, p: bool) -> Any:
    f, pairs = _half_format(call), zip(_halves(call, 0, a), _halves(call, 1, b), strict=True)
    return _packed(call, *(smaller(f, x, y, p, "NAN" in call) for x, y in pairs))


@lanewise("HSETP2", "raw")
def hsetp2(call: Call, a: int, b: int, p: bool) -> Any:
    low, high = (compares(call, x, y) for x, y in zip(_halves(call, 0, a), _halves(call, 1, b), strict=True))
    if "H_AND" in call:
        low, high = low and high, not (low and high)
    return combine(call, low, p), combine(call, high, p)


@lanewise("HSET2", "raw")
def hset2(call: Call, a: int, b: int, p: bool) -> Any:
    f = _half_format(call)
    true = f.bias << f.fraction if "BF" in call else 0xFFFF
    low, high = (true if combine(call, compares(call, x, y), p) else 0
                 for x, y in zip(_halves(call, 0, a), _halves(call, 1, b), strict=True))
    return high << 16 | low


@lanewise("MUFU.F16 MUFU.BF16 MUFU.BF16_V2", "raw")
def mufu_half(call: Call, a: int) -> Any:
    f = _half_format(call)
    flags = call.flags[0]
    bits = a >> 16 if _half_index(call, 0) else a & 0xFFFF
    bits = bits & ~f.sign if flags.abs else bits
    bits = bits ^ f.sign if flags.neg else bits
    return encode(f, _double(special_function("EX2" if "EX2" in call else "TANH", decode(f, bits))))

"""References of conversions and packed halves.

Conversions and half arithmetic are exact, then rounded once (``reference_float``).  Functions of the
multi-function unit on halves come from ``math`` in double precision, far inside the bounds their rows state.

Sources: PTX ISA 9.0 (cvt, half-precision instructions, the .approx functions), IEEE 754-2019.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from gpusim.isa.reference import M32, Call, clamp, combine, lanewise, limits, signed
from gpusim.isa.reference_float import (
    BF16,
    F16,
    F32,
    F64,
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
    read64,
    smaller,
    to_integer,
    write,
    write64,
)

INTEGRAL = {"TRUNC": "RZ", "FLOOR": "RM", "CEIL": "RP"}


def _half_index(call: Call, k: int) -> int:
    return 1 if any(s.startswith("H1") for s in call.flags[k].suffixes) else 0


def _format(call: Call) -> Format:
    """Of a narrow source, or of the result of I2F."""
    return BF16 if "BF16" in call else F16 if "F16" in call else F32


def _narrow_source(call: Call, k: int, bits: int) -> Real:
    """fp16 or bf16 (half by suffix) or fp32, with -, || and FTZ."""
    f = _format(call)
    if f is not F32:
        bits = bits >> 16 if _half_index(call, k) else bits & 0xFFFF
    if call.flags[k].abs:
        bits &= ~f.sign
    if call.flags[k].neg:
        bits ^= f.sign
    if f is F32 and ftz(call):
        bits = flushed(f, bits)
    return decode(f, bits)


def _integer(call: Call, r: Real, f: Format, default: str) -> int:
    """cvt of a value of format f to an integer: FTZ, rounded, saturated; NaN is its top bit, 0 with NTZ."""
    kind = call.first("U8", "S8", "U16", "S16", "U32", "U64", "S64", "S32", default=default)
    low, high = limits(kind)
    if r.nan:
        return 0 if "NTZ" in call else 1 << (int(kind[1:]) - 1)
    if not r.finite:
        return low if r.negative else high
    if "FTZ" in call and abs(r.value) < least_normal(f):
        return 0
    return clamp(to_integer(r.value, INTEGRAL.get(call.first(*INTEGRAL), "RN")), low, high)


@lanewise("F2I", "raw")
def f2i(call: Call, a: int) -> Any:
    return _integer(call, _narrow_source(call, 0, a), _format(call), "S32") & M32


@lanewise("F2I.S64 F2I.U64", "raw")
def f2i_64(call: Call, a: int) -> Any:
    return _integer(call, _narrow_source(call, 0, a), _format(call), "S64")


@lanewise("F2I.F64", "float")
def f2i_f64(call: Call, a: int) -> Any:
    return _integer(call, decode(F64, a), F64, "S32") & M32


@lanewise("F2I.S64.F64 F2I.U64.F64", "float")
def f2i_64_f64(call: Call, a: int) -> Any:
    return _integer(call, decode(F64, a), F64, "S64")


def _from_integer(call: Call, k: int, a: int, bits: int) -> Real:
    kind = call.first("U8", "S8", "U16", "S16", "U32", "S32", "U64", "S64", default=f"S{bits}")
    width = int(kind[1:])
    place = next((int(s[1]) for s in call.flags[k].suffixes if s[0] in "BH" and s[1:2].isdigit()), 0)
    value = a >> (place * width) & ((1 << width) - 1)
    return finite(signed(value, width) if kind[0] == "S" else value)


@lanewise("I2F I2FP", "raw")
def i2f(call: Call, a: int) -> Any:
    return encode(_format(call), _from_integer(call, 0, a, 32), mode_of(call))


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


@lanewise("FRND.F64", "raw")
def frnd_f64(call: Call, a: int) -> Any:
    return write64(_integral(call, *read64(call, a)), "RN", a)


def least_normal(f: Format) -> Fraction:
    return Fraction(2) ** (1 - f.bias)


def _signs(call: Call, f: Format, bits: int) -> int:
    """Source 0 with its - and |x|."""
    bits = bits & ~f.sign if call.flags[0].abs else bits
    return bits ^ f.sign if call.flags[0].neg else bits


def carried_nan(source: Format, target: Format, bits: int) -> int:
    """From and to fp64 a NaN keeps its sign, whatever - and |x| say, and leading payload (measured, H200);
    0 for numbers.
    """
    if not decode(source, bits).nan:
        return 0
    payload = bits & ((1 << source.fraction) - 1)
    shift = target.fraction - source.fraction
    payload = payload << shift if shift >= 0 else payload >> -shift
    return (target.sign if bits & source.sign else 0) | target.infinity | 1 << (target.fraction - 1) | payload


@lanewise("F2F.F64.F32", "raw")
def f2f_f64_f32(call: Call, a: int) -> Any:
    return carried_nan(F32, F64, a) or encode(F64, read(call, F32, _signs(call, F32, a))[0])


@lanewise("F2F.F32.F64", "raw")
def f2f_f32_f64(call: Call, a: int) -> Any:
    nan = 0 if "SAT" in call else carried_nan(F64, F32, a)
    return nan or write(call, F32, decode(F64, _signs(call, F64, a)), mode_of(call))


@lanewise("F2F.F16.F32 F2F.BF16.F32", "float")
def f2f_half(call: Call, a: int) -> Any:
    """FTZ of an fp16 result goes by the exact value (measured on an H200)."""
    r, f = read(call, F32, a)[0], _format(call)
    if ftz(call) and f is F16 and r.finite and abs(r.value) < least_normal(F16):
        r = finite(0, r.negative)
    return encode(f, r, mode_of(call))


@lanewise("F2F.F16.F64 F2F.BF16.F64", "raw")
def f2f_half_f64(call: Call, a: int) -> Any:
    f = _format(call)
    return carried_nan(F64, f, a) or encode(f, decode(F64, _signs(call, F64, a)), mode_of(call))


@lanewise("F2F.F64.F16", "raw")
def f2f_f64_half(call: Call, a: int) -> Any:
    half = a >> 16 if _half_index(call, 0) else a & 0xFFFF
    return carried_nan(F16, F64, half) or encode(F64, _narrow_source(call, 0, a))


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
    """cvt.pack: under the half of c its suffix names."""
    low, high = (_integer(call, decode(F32, v), F32, "S8") & 255 for v in (b, a))
    return (c >> 16 if _half_index(call, 2) else c & 0xFFFF) << 16 | high << 8 | low


# --- packed halves


def _half_format(call: Call) -> Format:
    return BF16 if any(w.startswith("BF16") for w in call.words) else F16


def _halves(call: Call, k: int, word: int) -> list[Real]:
    """The two values source k gives, low first."""
    f, flags = _half_format(call), call.flags[k]
    swizzle = next((s for s in flags.suffixes if s[0] == "H"), "H1_H0")
    picks = [int(swizzle[-1]), int(swizzle[1])]
    values = [word >> (16 * p) & 0xFFFF for p in picks]
    if "FTZ" in call and f is F16:
        values = [flushed(f, v) for v in values]
    if flags.abs:
        values = [v & ~f.sign for v in values]
    if "N" in swizzle:  # H0_NH1: the low one is the high half negated
        values[0] ^= f.sign
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
    if "FTZ" in call and f is F16 and r.finite and abs(r.value) < least_normal(f):
        r = finite(0, r.negative)  # by the exact value, not by what it is rounded to (measured on an H200)
    return encode(f, r)


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


@lanewise("HMNMX2", "raw")
def hmnmx2(call: Call, a: int, b: int, p: bool) -> Any:
    f, pairs = _half_format(call), zip(_halves(call, 0, a), _halves(call, 1, b), strict=True)
    return _packed(call, *(smaller(f, x, y, p, "NAN" in call) for x, y in pairs))


@lanewise("VHMNMX", "raw")
def vhmnmx(call: Call, a: int, b: int, c: int, p: bool) -> Any:
    f, nan = _half_format(call), "NAN" in call
    lanes = zip(_halves(call, 0, a), _halves(call, 1, b), _halves(call, 2, c), strict=True)
    return _packed(call, *(smaller(f, x, smaller(f, y, z, p, nan), p, nan) for x, y, z in lanes))


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

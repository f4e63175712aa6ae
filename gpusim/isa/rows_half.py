"""Packed fp16 and bf16 rows.

A half2 operand is one word; its suffix (H0_H0, H1_H1, H1_H0) chooses which half each side reads.
Arithmetic is exact in fp64 (a product of two halves plus a third fits), then rounded once.

Source: PTX ISA 9.0, half-precision floating-point instructions; operand suffixes from compiled code.
"""

from __future__ import annotations

import math
from typing import Any

from gpusim.errors import UnsupportedError
from gpusim.isa.rows_float import COMPARE, compare, minmax, two_sum
from gpusim.isa.rows_integer import boolean
from gpusim.isa.rows_mufu import ex2, tanh
from gpusim.isa.table import row

PTX = "PTX ISA 9.0, half-precision arithmetic"


#: Swizzle suffix of a source -> which halves its low and high lanes read; NH1 is the high half negated.
SWIZZLE = {
    "H0_H0": (0, 0),
    "H1_H1": (1, 1),
    "H1_H0": (0, 1),
    "H0": (0, 0),
    "H1": (1, 1),
    "H0_NH1": (1, 0),
}
LEAST = 2.0**-14  # the least normal fp16


def refuse(m: Any, bf16: str) -> None:
    """UnsupportedError for what an H200 faults on: the modifiers ``bf16`` with bf16, and F32 operands."""
    hint = "an H200 faults on it"
    wrong = next((w for w in bf16.split() if w in m and kind_of(m) == "bf16"), "")
    if wrong:
        raise UnsupportedError(f"{m.name}.BF16_V2 with .{wrong} is not supported", hint=hint)
    for flags in m.sources:
        if "F32" in flags.suffixes:
            raise UnsupportedError(f"{m.name} with an operand .F32 is not supported", hint=hint)
        if "H0_NH1" in flags.suffixes and (flags.neg or flags.abs):
            raise UnsupportedError(f"{m.name} with - or |x| on an operand .H0_NH1 is not supported",
                                   hint="no one has run it")


def kind_of(m: Any) -> str:
    return "bf16" if any(w.startswith("BF16") for w in m.words) else "f16"


def halves(x: Any, m: Any, k: int, raw: Any) -> tuple[Any, Any]:
    """Low and high value of source k as fp64, swizzle and sign modifiers applied."""
    flags = m.sources[k]
    swizzle = next((s for s in flags.suffixes if s[0] == "H"), "H1_H0")
    out = []
    for lane, index in enumerate(SWIZZLE[swizzle]):
        v = x.half(raw, index, kind_of(m))
        if "FTZ" in m and kind_of(m) == "f16":
            v = x.fabs(v).lt(LEAST).where((v.bits() & 0x80000000).cast("f32"), v)
        if flags.abs:
            v = x.fabs(v)
        negative = flags.neg or (swizzle == "H0_NH1" and lane == 0)
        out.append((-v if negative else v).fext())
    return out[0], out[1]


def finish_half(x: Any, m: Any, v: Any) -> Any:
    """fp64 (exact, or rounded to odd) to a half (as i32 in 0..65535) with SAT, RELU and FTZ.

    FTZ goes by the exact value, not by what it was rounded to (measured on an H200).
    """
    if "SAT" in m:
        v = v.gt(0.0).where(v, x.const(0.0, "f64"))
        v = v.lt(1.0).where(v, x.const(1.0, "f64"))
    if "RELU" in m:
        v = (v.gt(0.0) | v.isnan()).where(v, x.const(0.0, "f64"))
    h = x.to_half(v, kind_of(m)).zext("i32")
    if "FTZ" in m and kind_of(m) == "f16":
        h = x.fabs(v).lt(LEAST).where(h & 0x8000, h)
    return h


def pack(x: Any, m: Any, low: Any, high: Any) -> Any:
    return finish_half(x, m, low) | finish_half(x, m, high).shl(16)


MODIFIERS = "BF16_V2 BF16 V2 FTZ SAT RELU MMA F16 F16_V2"


@row("HADD2 HADD2_32I", "i32 = h2 h2", modifiers="F32 " + MODIFIERS, pipe="fma", source=PTX)
def hadd2(x: Any, m: Any, a: Any, b: Any) -> Any:
    """F32: the half b names as fp32; a is -RZ in compiled code (an H200 faulted on all else that was run)."""
    refuse(m, "FTZ SAT")
    first, second = m.sources
    plain = first.neg and not first.abs and not first.suffixes and second.suffixes
    if "F32" in m and ("FTZ" in m or "SAT" in m or not plain):
        raise UnsupportedError("HADD2.F32 is supported only as HADD2.F32 R, -RZ, half",
                               hint="an H200 faults on other forms")
    (a0, a1), (b0, b1) = halves(x, m, 0, a), halves(x, m, 1, b)
    if "F32" in m:
        return x.canon((a0 + b0).fround()).bits()
    return pack(x, m, a0 + b0, a1 + b1)


@row("HMUL2", "i32 = h2 h2", modifiers=MODIFIERS, pipe="fma", source=PTX)
def hmul2(x: Any, m: Any, a: Any, b: Any) -> Any:
    refuse(m, "FTZ SAT")
    (a0, a1), (b0, b1) = halves(x, m, 0, a), halves(x, m, 1, b)
    return pack(x, m, a0 * b0, a1 * b1)


def odd_fma(x: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c of halves in fp64, rounded to odd, so that the rounding to a half is the only one.

    The product is exact; bf16 exponents are so wide that the sum need not be.
    """
    s, e = two_sum(a * b, c)
    bits = s.bits()
    inexact = e.ne(0.0) & ~e.isnan() & (bits & 1).eq(0)
    toward = (e.bits() ^ bits).lt(0)  # the exact value is smaller in magnitude
    return inexact.where(toward.where(bits - 1, bits + 1), bits).cast("f64")


@row("HFMA2", "i32 = h2 h2 h2", modifiers=MODIFIERS, pipe="fma", source=PTX)
def hfma2(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    refuse(m, "FTZ SAT")
    (a0, a1), (b0, b1), (c0, c1) = (halves(x, m, k, v) for k, v in enumerate((a, b, c)))
    return pack(x, m, odd_fma(x, a0, b0, c0), odd_fma(x, a1, b1, c1))


@row("HMNMX2", "i32 = h2 h2 P", modifiers=MODIFIERS + " NAN", source="PTX ISA 9.0 min, max")
def hmnmx2(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    refuse(m, "FTZ")
    (a0, a1), (b0, b1) = halves(x, m, 0, a), halves(x, m, 1, b)
    nan = "NAN" in m
    return pack(x, m, minmax(x, a0, b0, p, nan), minmax(x, a1, b1, p, nan))


@row("VHMNMX", "i32 = h2 h2 h2 P", modifiers="BF16_V2 NAN", source="PTX ISA 9.0 min, max, one after another")
def vhmnmx(x: Any, m: Any, a: Any, b: Any, c: Any, p: Any) -> Any:
    refuse(m, "")
    out = []
    for u, v, w in zip(halves(x, m, 0, a), halves(x, m, 1, b), halves(x, m, 2, c), strict=True):
        out.append(minmax(x, minmax(x, u, v, p, "NAN" in m), w, p, "NAN" in m))
    return pack(x, m, *out)


@row("HSETP2", "P P = h2 h2 P", modifiers=f"{COMPARE} AND OR XOR H_AND BF16_V2 V2 FTZ",
     source="PTX ISA 9.0 setp")
def hsetp2(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    """Each half has its own predicate result (H_AND: both halves together, and the inverse)."""
    (a0, a1), (b0, b1) = halves(x, m, 0, a), halves(x, m, 1, b)
    r0, r1 = compare(x, m, a0, b0), compare(x, m, a1, b1)
    if "H_AND" in m:
        both = r0 & r1
        return boolean(m, both, p), boolean(m, ~both, p)
    return boolean(m, r0, p), boolean(m, r1, p)


@row("HSET2", "i32 = h2 h2 P", modifiers=f"{COMPARE} AND OR XOR BF BM BF16_V2 V2 FTZ",
     source="PTX ISA 9.0 set")
def hset2(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    (a0, a1), (b0, b1) = halves(x, m, 0, a), halves(x, m, 1, b)
    one = 0xFFFF if "BF" not in m else (0x3F80 if kind_of(m) == "bf16" else 0x3C00)
    low, high = (boolean(m, compare(x, m, u, v), p).where(x.const(one, "i32"), x.const(0, "i32"))
                 for u, v in ((a0, b0), (a1, b1)))
    return low | high.shl(16)


@row("MUFU.F16 MUFU.BF16 MUFU.BF16_V2", "i32 = h2", modifiers="TANH EX2 F16 BF16 V2", pipe="xu",
     source="the tables of EX2 and TANH, recovered from an H200 (docs/mufu.md)")
def mufu_half(x: Any, m: Any, raw: Any) -> Any:
    """The fp32 result cut to a half."""
    kind, flags = kind_of(m), m.sources[0]
    v = x.half(raw, 1 if any(s.startswith("H1") for s in flags.suffixes) else 0, kind)
    v = x.fabs(v) if flags.abs else v
    v = -v if flags.neg else v
    r = (ex2 if "EX2" in m else tanh)(x, v).cast("f32")
    if kind == "f16":
        r = r.lt(65536.0).where(r, x.const(math.inf, "f32"))
    return x.to_half(v.isnan().where(v, r).fext(), kind, "RZ").zext("i32")

"""Conversions between integers, halves, fp32 and fp64, and rounding to integral values.

Every conversion rounds once, in the mode its modifiers name; integers saturate.  As measured on an H200: NaN
becomes the integer with only its top bit, or 0 with NTZ; between fp64 and the others a NaN keeps its sign,
whatever ``-`` and ``|x|`` say, and its leading payload; FTZ also flushes fp16 and fp64 denormals.

Source: PTX ISA 9.0, cvt.
"""

from __future__ import annotations

import math
from typing import Any

from gpusim.errors import UnsupportedError
from gpusim.isa.rows_float import (
    ROUND,
    as_read,
    directed,
    finish,
    flush_inputs,
    nan64,
    round_f32,
    two_sum,
)
from gpusim.isa.table import row

F16_LEAST, F32_LEAST, F64_LEAST = 2.0**-14, 2.0**-126, 2.0**-1022  # normal numbers start here


def integral(x: Any, m: Any, a: Any) -> Any:
    op = {"TRUNC": "trunc", "FLOOR": "floor", "CEIL": "ceil"}.get(
        m.first("TRUNC", "FLOOR", "CEIL"), "roundeven"
    )
    return x.unary(op, a)


F2I_MODIFIERS = "FTZ NTZ TRUNC FLOOR CEIL ROUND U8 S8 U16 S16 U32 S32 F16 BF16"


def _to_integer(x: Any, m: Any, a: Any, kind: str) -> Any:
    """``a`` without FTZ, as an integer (narrow ones in 32 bits): saturated; NaN as the module says."""
    if "FTZ" in m:
        least = F64_LEAST if "F64" in m else F16_LEAST if "F16" in m else F32_LEAST
        a = x.fabs(a).lt(least).where(x.const(0.0, a.kind), a)
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
    if "NTZ" not in m:
        top = 1 << (int((narrow or kind)[1:]) - 1)
        out = a.isnan().where(x.const(top, kind), out)
    return out


def half_index(m: Any, k: int) -> int:
    """The half of its word that source k names."""
    return 1 if {"H1", "H1_H1"} & set(m.sources[k].suffixes) else 0


def half_source(x: Any, m: Any, k: int, raw: Any) -> Any:
    """An fp16/bf16 operand (half chosen by its suffix) or an fp32 one, as fp32."""
    flags = m.sources[k]
    if "F16" in m or "BF16" in m:
        v = x.half(raw, half_index(m, k), "bf16" if "BF16" in m else "f16")
    else:
        v = raw.cast("f32")
    if flags.abs:
        v = x.fabs(v)
    return -v if flags.neg else v


@row("F2I", "i32 = h2", modifiers=F2I_MODIFIERS, pipe="xu", source="PTX ISA 9.0 cvt")
def f2i(x: Any, m: Any, raw: Any) -> Any:
    return _to_integer(x, m, half_source(x, m, 0, raw), "i32")


@row("F2I.S64 F2I.U64", "i64 = h2", modifiers=F2I_MODIFIERS + " S64 U64", pipe="xu",
     source="PTX ISA 9.0 cvt")
def f2i_64(x: Any, m: Any, raw: Any) -> Any:
    return _to_integer(x, m, half_source(x, m, 0, raw), "i64")


@row("F2I.F64", "i32 = f64", modifiers=F2I_MODIFIERS + " F64", pipe="xu", source="PTX ISA 9.0 cvt")
def f2i_f64(x: Any, m: Any, a: Any) -> Any:
    return _to_integer(x, m, a, "i32")


@row("F2I.S64.F64 F2I.U64.F64", "i64 = f64", modifiers=F2I_MODIFIERS + " F64 S64 U64", pipe="xu",
     source="PTX ISA 9.0 cvt")
def f2i_64_f64(x: Any, m: Any, a: Any) -> Any:
    return _to_integer(x, m, a, "i64")


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
        kind, mode = "bf16" if "BF16" in m else "f16", m.first("RZ", "RM", "RP")
        return x.to_half(a.to_float("f64", signed), kind, mode).zext("i32")
    return from_integer(x, m, a, "f32").bits()


# 64-bit integers are read as f64: an immediate is the high word here too (measured on an H200)
@row("I2F.S64 I2F.U64", "f32 = f64", modifiers=I2F_MODIFIERS + " S64 U64", pipe="xu",
     source="PTX ISA 9.0 cvt")
def i2f_s64(x: Any, m: Any, a: Any) -> Any:
    return from_integer(x, m, a.bits(), "f32")


@row("I2F.F64", "f64 = raw", modifiers=I2F_MODIFIERS + " F64", pipe="xu", source="PTX ISA 9.0 cvt")
def i2f_f64(x: Any, m: Any, raw: Any) -> Any:
    return from_integer(x, m, _int_source(x, m, 0, raw), "f64")


@row("I2F.F64.S64 I2F.F64.U64", "f64 = f64", modifiers=I2F_MODIFIERS + " F64 S64 U64", pipe="xu",
     source="PTX ISA 9.0 cvt")
def i2f_f64_s64(x: Any, m: Any, a: Any) -> Any:
    return from_integer(x, m, a.bits(), "f64")


@row("I2FP", "f32 = raw", modifiers=f"F32 S32 U32 {ROUND}", pipe="fma", source="PTX ISA 9.0 cvt")
def i2fp(x: Any, m: Any, a: Any) -> Any:
    return from_integer(x, m, a, "f32")


@row("FRND", "i32 = h2", modifiers="FTZ TRUNC FLOOR CEIL ROUND F16 BF16", pipe="xu",
     source="PTX ISA 9.0 cvt")
def frnd(x: Any, m: Any, raw: Any) -> Any:
    half = "F16" in m or "BF16" in m
    if half and "FTZ" in m:  # what it makes of a denormal half was not measured
        raise UnsupportedError("modifier .FTZ of FRND on halves is not supported", where=f"FRND {m.words}",
                               hint="please report the kernel that needs this")
    (a,) = flush_inputs(x, m, half_source(x, m, 0, raw))
    r = integral(x, m, a)
    if half:
        return x.to_half(r.fext(), "bf16" if "BF16" in m else "f16").zext("i32")
    return x.canon(r).bits()


@row("FRND.F64", "f64 = f64", modifiers="F64 TRUNC FLOOR CEIL", pipe="xu", source="PTX ISA 9.0 cvt")
def frnd_f64(x: Any, m: Any, a: Any) -> Any:
    a, r = as_read(x, m, 0, a), integral(x, m, a)
    return nan64(x, r, a, a)


@row("F2F.F64.F32", "f64 = h2", modifiers="F64 F32 FTZ", pipe="xu", source="PTX ISA 9.0 cvt")
def f2f_f64_f32(x: Any, m: Any, raw: Any) -> Any:
    read = raw.cast("f32")
    (a,) = flush_inputs(x, m, half_source(x, m, 0, raw))
    return read.isnan().where(read, a).fext()


@row("F2F.F32.F64", "f32 = f64", modifiers=f"F64 F32 FTZ SAT {ROUND}", pipe="xu", source="PTX ISA 9.0 cvt")
def f2f_f32_f64(x: Any, m: Any, a: Any) -> Any:
    mode = m.first("RZ", "RM", "RP")
    r = round_f32(x, mode, a, x.const(0.0, "f64")) if mode else a.fround()
    r = finish(x, m, r)
    return r if "SAT" in m else a.isnan().where(as_read(x, m, 0, a).fround(), r)


@row("F2F.F16.F32 F2F.BF16.F32", "i32 = f32", modifiers=f"F16 BF16 F32 FTZ {ROUND}", pipe="xu",
     source="PTX ISA 9.0 cvt")
def f2f_half(x: Any, m: Any, a: Any) -> Any:
    """FTZ of an fp16 result goes by the exact value, not by what it was rounded to (measured on an H200)."""
    (a,) = flush_inputs(x, m, a)
    kind = "bf16" if "BF16" in m else "f16"
    h = x.to_half(a.fext(), kind, m.first("RZ", "RM", "RP")).zext("i32")
    return x.fabs(a).lt(F16_LEAST).where(h & 0x8000, h) if "FTZ" in m and kind == "f16" else h


@row("F2F.F16.F64 F2F.BF16.F64", "i32 = f64", modifiers=f"F16 BF16 F64 {ROUND}", pipe="xu",
     source="PTX ISA 9.0 cvt")
def f2f_half_f64(x: Any, m: Any, a: Any) -> Any:
    kind = "bf16" if "BF16" in m else "f16"
    h = x.to_half(a, kind, m.first("RZ", "RM", "RP")).zext("i32")
    a = as_read(x, m, 0, a)
    shift, quiet = (45, 0x7FC0) if kind == "bf16" else (42, 0x7E00)
    high = (
        (a.bits().lshr(48) & 0x8000).trunc("i32")
        | (a.bits() & ((1 << 52) - 1)).lshr(shift).trunc("i32")
        | quiet
    )
    return a.isnan().where(high, h)


@row("F2F.F64.F16", "f64 = h2", modifiers="F64 F16", pipe="xu", source="PTX ISA 9.0 cvt")
def f2f_f64_half(x: Any, m: Any, raw: Any) -> Any:
    read = x.half(raw, half_index(m, 0), "f16")
    return read.isnan().where(read, half_source(x, m, 0, raw)).fext()


@row("F2FP", "i32 = f32 f32 ?raw", modifiers=f"F16 BF16 F32 PACK_AB RELU {ROUND}",
     source="PTX ISA 9.0 cvt")
def f2fp(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    """Two fp32 values to packed halves: a in the high half, b in the low one."""
    if "F32" in m and "F16" not in m and "BF16" not in m:
        raise UnsupportedError("F2FP.F32.PACK_AB without a half format is not supported",
                               hint="an H200 faults on it")
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


@row("F2IP", "i32 = f32 f32 f32", modifiers="U8 S8 F32 NTZ TRUNC FLOOR CEIL", pipe="xu",
     source="PTX ISA 9.0 cvt.pack")
def f2ip(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    """Two values to saturated bytes (b lowest) under the half of c its suffix names."""
    high, low = (_to_integer(x, m, v, "i32") & 0xFF for v in (a, b))
    word = c.bits()
    return (word & 0xFFFF0000 if half_index(m, 2) else word.shl(16)) | high.shl(8) | low

"""Rows that move data between lanes, register files and special registers.

A uniform destination is written whole, whatever lanes are active; its value comes from the active
lanes as the row says.  Shuffles read the source register of any lane of the warp, as the hardware does.

Source: PTX ISA 9.0, shfl/vote/match/redux/activemask, special registers; hardware.md 11.
"""

from __future__ import annotations

from typing import Any

from gpusim.errors import UnsupportedError
from gpusim.isa.table import row

PTX = "PTX ISA 9.0, warp-level instructions"


#: Counters and zero: what CS2R reads right; of other registers it reads 0 (measured on an H200).
COUNTERS = ("SRZ", "SR_CLOCKLO", "SR_CLOCKHI", "SR_GLOBALTIMERLO", "SR_GLOBALTIMERHI")
#: Registers with a value a lane: S2UR reads lane 0's or 0.
BY_LANE = ("SR_LANEID", "SR_TID", "SR_EQMASK", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK", "SR_GEMASK")


@row("S2R S2UR", "i32 = word", pipe="xu", source="PTX ISA 9.0, special registers")
@row("CS2R CS2UR", "i64 = word", pipe="alu", source="PTX ISA 9.0, special registers")
@row("CS2R.32", "i32 = word", pipe="alu", source="PTX ISA 9.0, special registers")
def s2r(x: Any, m: Any, name: str) -> Any:
    by_lane = name.partition(".")[0] in BY_LANE
    if (m.name.startswith("CS2") and name not in COUNTERS) or (m.name == "S2UR" and by_lane):
        raise UnsupportedError(f"{m.name} of {name} is not supported",
                               hint="S2R reads this register; please report the kernel that needs this")
    v = x.special(name)
    return v.zext("i64") if m.name in ("CS2R", "CS2UR") and v.kind != "i64" else v


@row("LDC ULDC", "i32 = i32", pipe="lsu", source="constant bank read with a fixed address")
def ldc(x: Any, m: Any, a: Any) -> Any:
    return a


@row("LDC.64 ULDC.64", "i64 = i64", pipe="lsu", source="constant bank read with a fixed address")
def ldc64(x: Any, m: Any, a: Any) -> Any:
    return a


@row("R2UR", "?P i32 = b32", modifiers="FILL", pipe="alu",
     source="compiled code: value of the first active lane; predicate measured on an H200")
def r2ur(x: Any, m: Any, a: Any) -> Any:
    """The predicate says whether this lane holds another value."""
    value = x.from_lane(a, x.first_active())
    return a.ne(value), value


@row("VOTE VOTEU", "?i32 ?P = P", modifiers="ANY ALL EQ", pipe="alu", source=PTX)
def vote(x: Any, m: Any, p: Any) -> Any:
    """Ballot of the active lanes; the predicate is any, all, or all-equal."""
    active, set_ = x.ballot(x.exec), x.ballot(p & x.exec)
    b = x.b
    some = b.icmp_unsigned("!=", set_, x.zero32)
    every = b.icmp_unsigned("==", set_, active)
    flag = some if "ANY" in m else every if "ALL" in m else b.or_(every, b.not_(some))
    return x.splat(set_, "i32"), x.i1_splat(flag)


@row("SHFL", "?P i32 = raw b32 b32", modifiers="IDX UP DOWN BFLY", pipe="lsu", source="PTX ISA 9.0 shfl.sync")
def shfl(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    """c holds the clamp (bits 0-4) and the segment mask (bits 8-12); out of range keeps the own value."""
    lane = x.lane_index()
    clamp, segment = c & 31, c.lshr(8) & 31
    lowest = lane & segment
    highest = lowest | (clamp & ~segment)
    b = b & 31
    if "UP" in m:
        j = lane - b
        ok = ~j.lt(highest)
    elif "DOWN" in m:
        j = lane + b
        ok = ~j.gt(highest)
    elif "BFLY" in m:
        j = lane ^ b
        ok = ~j.gt(highest)
    else:
        j = lowest | (b & ~segment)
        ok = ~j.gt(highest)
    return ok, x.permute(a, ok.where(j, lane) & 31)


@row("MATCH", "?P i32 = raw", "i32 = raw", modifiers="ANY ALL", pipe="alu", source="PTX ISA 9.0 match.sync")
@row("MATCH.U64 MATCH.ANY.U64 MATCH.ALL.U64", "?P i32 = raw64", modifiers="ANY ALL U64", pipe="alu",
     source="PTX ISA 9.0 match.sync")
def match(x: Any, m: Any, a: Any) -> Any:
    """ANY: mask of active lanes with this lane's value. ALL: the active mask if all agree, else 0."""
    if "ALL" in m:
        value = x.from_lane(a, x.first_active())
        differ = x.ballot(a.ne(value) & x.exec)
        same = x.b.icmp_unsigned("==", differ, x.zero32)
        mask = x.b.select(same, x.ballot(x.exec), x.zero32)
        return x.i1_splat(same), x.splat(mask, "i32")
    return None, x.match_any(a)


@row("REDUX UREDUX", "i32 = b32", modifiers="SUM OR XOR AND MIN MAX S32 U32", pipe="alu",
     source="PTX ISA 9.0 redux.sync")
def redux(x: Any, m: Any, a: Any) -> Any:
    word = m.first("SUM", "OR", "XOR", "AND", "MIN", "MAX", default="AND")
    signed = "S32" in m
    neutral = {"AND": -1, "MIN": 0x7FFFFFFF if signed else -1, "MAX": -0x80000000 if signed else 0}.get(
        word, 0
    )
    name = {"SUM": "add", "OR": "or", "XOR": "xor", "AND": "and", "MIN": "smin" if signed else "umin",
            "MAX": "smax" if signed else "umax"}[word]
    return x.splat(x.reduce(name, x.exec.where(a, x.const(neutral, "i32"))), "i32")


@row("ELECT", "P i32 = PT", pipe="alu", source="PTX ISA 9.0 elect.sync")
def elect(x: Any, m: Any, _: Any) -> Any:
    """The first active lane and its number."""
    leader = x.first_active()
    return x.lane_index().eq(x.splat(leader, "i32")), x.splat(leader, "i32")


@row("UP2UR", "i32 = word b32 ?imm", source="compiled code")
def up2ur(x: Any, m: Any, which: str, a: Any, mask: int | None) -> Any:
    mask = 0x7F if mask is None else mask & 0x7F
    out = a & ~mask
    for k in range(7):
        if mask >> k & 1:
            out = out | x.get_predicate(k, uniform=True).zext("i32").shl(k)
    return out


@row("BMOV", "i32 = B", "B = b32", modifiers="32 CLEAR", pipe="cbu",
     source="compiled code: barrier registers around calls")
def bmov(x: Any, m: Any, a: Any) -> Any:
    """A barrier register is the warp's: it takes the first active lane's value."""
    if "CLEAR" in m:
        x.clear_source(0)
    return x.from_lane(a, x.first_active())

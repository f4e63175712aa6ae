"""Control flow, barriers, and instructions that change nothing the simulator models.

A control row names the action the runtime takes (``functional.warp``); its semantics function returns the
lanes concerned.  NOP-like rows (fences, cache control, asynchronous-copy bookkeeping) count as executed.

Left out: CALL.ABS and RET.ABS, which come with addresses of code that only the loader knows (printf, malloc,
calls between separately compiled functions, ``-G``); JMX and KILL, which no compiler was seen to make; BPT
other than BPT.TRAP.

Source: PTX ISA 9.0, control flow and parallel synchronisation; hardware.md 11 (what counts).
"""

from __future__ import annotations

from typing import Any

from gpusim.isa.table import row

CFG = "compiled code; hardware.md 11"


@row("BRA", " = ?P ?P imm", modifiers="U INC DEC", pipe="cbu", control="BRA", source=CFG)
def bra(x: Any, m: Any, p: Any, q: Any, target: int) -> Any:
    lanes = x.exec
    for extra in (p, q):
        if extra is not None:
            lanes = lanes & extra
    return x.ballot(lanes)


@row("BRA.DIV BRA.CONV", " = b32 imm", modifiers="U", pipe="cbu", control="BRA",
     source="compiled code of warp collectives")
def bra_div(x: Any, m: Any, mask: Any, target: int) -> Any:
    """DIV: all active lanes branch, guarded or not, unless those that would are all the live of ``mask``."""
    taking, active = x.ballot(x.exec), x.active_mask()
    wanted = x.b.and_(x.scalar_of_first(mask), x.b.not_(x.exited()))
    differ = x.b.icmp_unsigned("!=", x.b.and_(wanted, x.b.not_(taking)), x.zero32)
    if m.name.endswith("CONV"):
        differ = x.b.not_(differ)
    some = x.b.icmp_unsigned("!=", taking, x.zero32)
    return x.b.select(x.b.and_(differ, some), active, x.zero32)


@row("EXIT", " = ?P", modifiers="KEEPREFCOUNT PREEMPTED", pipe="cbu", control="EXIT", source=CFG)
def exit_(x: Any, m: Any, p: Any) -> Any:
    return x.ballot(x.exec if p is None else x.exec & p)


@row("BSSY", " = B ?imm", "= B ?P imm", modifiers="RELIABLE RECONVERGENT", pipe="cbu", control="BSSY",
     source=CFG)
def bssy(x: Any, m: Any, *_: Any) -> Any:
    return x.ballot(x.exec)


@row("BSYNC", " = ?P B", modifiers="RELIABLE RECONVERGENT", pipe="cbu", control="BSYNC", source=CFG)
@row("BREAK", " = ?P B", modifiers="RELIABLE RECONVERGENT", pipe="cbu", control="BREAK", source=CFG)
def bsync(x: Any, m: Any, p: Any, b: Any) -> Any:
    return x.ballot(x.exec if p is None else x.exec & p)


@row("WARPSYNC", " = ?b32 ?imm", modifiers="ALL EXCLUSIVE COLLECTIVE", pipe="cbu", control="WARPSYNC",
     source=CFG)
def warpsync(x: Any, m: Any, mask: Any, target: int | None) -> Any:
    """Returns the lanes that must meet; none where the guard is false. Notes whether lanes name others."""
    if mask is None:
        wanted = x.b.not_(x.zero32)
        x.set_barrier_request(x.int64(0))
    else:
        wanted = x.scalar_of_first(mask)
        differ = x.ballot(mask.ne(x.splat(wanted, "i32")) & x.exec)
        kind = x.int64(1 << 32 if "COLLECTIVE" in m else 0)
        x.set_barrier_request(x.b.or_(x.b.zext(differ, x.i64), kind))
    any_active = x.b.icmp_unsigned("!=", x.ballot(x.exec), x.zero32)
    return x.b.select(any_active, wanted, x.zero32)


@row("CALL.REL", " = imm", " = word", modifiers="NOINC INC", pipe="cbu", control="BRA", source=CFG)
def call(x: Any, m: Any, target: Any) -> Any:
    return x.ballot(x.exec)


@row("RET.REL CALL.REL@register", " = i64 any", pipe="cbu", modifiers="NODEC DEC NOINC", control="INDIRECT",
     source=CFG)
@row("BRX BRXU", " = i64 ?any", pipe="cbu", modifiers="NODEC DEC NOINC", control="INDIRECT", source=CFG)
def indirect(x: Any, m: Any, target: Any, *_: Any) -> Any:
    return x.ballot(x.exec)


@row("BAR.SYNC BAR.ARV", " = b32 ?b32", modifiers="DEFER_BLOCKING ALIGNED", pipe="cbu", control="BAR",
     source="PTX ISA 9.0 bar")
@row("BAR.RED", " = b32 ?b32 ?P", modifiers="DEFER_BLOCKING POPC AND OR ALIGNED", pipe="cbu", control="BAR",
     source="PTX ISA 9.0 bar.red")
def bar(x: Any, m: Any, barrier: Any, threads: Any, p: Any = None) -> Any:
    """Leaves the request (see ``functional.warp.control``) and returns the arriving lanes."""
    b = x.b
    lanes = x.ballot(x.exec)
    request = b.and_(b.zext(x.scalar_of_first(barrier), x.i64), x.int64(15))
    if threads is not None:
        request = b.or_(request, b.shl(b.zext(x.scalar_of_first(threads), x.i64), x.int64(8)))
    if "ARV" in m:
        request = b.or_(request, x.int64(1 << 32))
    if m.name == "BAR.RED":
        kind = {"POPC": 0, "OR": 1, "AND": 2}[m.first("POPC", "OR", "AND")]
        votes = x.count_bits(x.ballot(x.exec & p if p is not None else x.exec))
        request = b.or_(request, x.int64(kind << 33))
        request = b.or_(request, b.shl(b.zext(votes, x.i64), x.int64(40)))
    x.set_barrier_request(request)
    return lanes


@row("B2R.RESULT", "i32 ?P = ", modifiers="RESULT", pipe="cbu", source="PTX ISA 9.0 bar.red")
def b2r(x: Any, m: Any) -> Any:
    value = x.barrier_result()
    return value, value.ne(0)


@row("YIELD", " = ?P", modifiers="", pipe="cbu", control="YIELD", source=CFG)
@row("NANOSLEEP", " = ?P ?b32", modifiers="SYNCS", pipe="cbu", control="YIELD",
     source="PTX ISA 9.0 nanosleep")
def yield_(x: Any, m: Any, *_: Any) -> Any:
    return x.ballot(x.exec)


@row("BPT.TRAP", " = any", pipe="cbu", control="TRAP", source="PTX ISA 9.0 trap, brkpt")
def trap(x: Any, m: Any, *_: Any) -> Any:
    return x.ballot(x.exec)


@row("NOP", " = ?any", modifiers="TRIG", pipe="cbu", control="NOP", source=CFG)
@row("MEMBAR", " = ?any", modifiers="SC ALL GPU SYS CTA VC ASYNC", pipe="lsu", control="NOP",
     source="PTX ISA 9.0 membar")
@row("ERRBAR", " = ?any", pipe="lsu", control="NOP", source="compiled code after MEMBAR")
@row("CCTL", " = ?any ?any",
     modifiers="IVALL E IV PF1 PF2 PF1.5 DISCARD RML2 WB WBALL U C LDC I LDCU IVALLP D", pipe="lsu",
     control="NOP", source="PTX ISA 9.0 prefetch, discard; no cache holds data here")
@row("CCTLL", " = any", modifiers="PF1 PF2", pipe="lsu", control="NOP", source="PTX ISA 9.0 prefetch.local")
@row("LDGDEPBAR", " = ", pipe="lsu", control="NOP", source="PTX ISA 9.0 cp.async.commit_group")
@row("DEPBAR", " = any ?any ?any", " = ", modifiers="LE SP BAR", pipe="cbu", control="NOP",
     source="scoreboard wait; cp.async.wait_group")
@row("ENDCOLLECTIVE CGAERRBAR", " = ", pipe="cbu", control="NOP",
     source="compiled code of collectives and fences")
@row("FENCE", " = ?any", modifiers="VIEW ASYNC S T G", pipe="lsu", control="NOP",
     source="PTX ISA 9.0 fence.proxy")
@row("PREEXIT ACQBULK", " = ", pipe="cbu", control="NOP", source="PTX ISA 9.0 griddepcontrol")
@row("PMTRIG", " = any", pipe="cbu", control="NOP", source="PTX ISA 9.0 pmevent")
def nothing(x: Any, m: Any, *_: Any) -> Any:
    return x.zero32

"""Loads, stores, atomics, matrix loads and asynchronous copies.

A row computes lane addresses, lets ``x`` write the event and check bounds and alignment, then moves
words.  Asynchronous copies complete at once: a program that is correct on hardware cannot tell.

Sources: PTX ISA 9.0, data movement and atom/red; ldmatrix and stmatrix fragment layouts ibidem;
hardware.md 11 for what executes as one instruction.
"""

from __future__ import annotations

from typing import Any

from gpusim.errors import UnsupportedError
from gpusim.events import Flag, Kind, Space
from gpusim.isa.table import Mods, row

PTX = "PTX ISA 9.0, data movement"
CACHE = ("E 32 64 128 256 U8 S8 U16 S16 U EF EL LU EU NA CONSTANT STRONG WEAK GPU SYS SM CTA VC PRIVATE MMIO "
         "LTC64B LTC128B LTC256B ZD INVALIDATE CG CI CV CS STRONG_GPU")
LOADS = CACHE
ATOMIC = (
    "E 32 64 128 ADD MIN MAX INC DEC AND OR XOR EXCH CAS S32 U32 S64 U64 F16x2 BF16x2 BF16_V2 F16 "
    "F32x2 F32x4 F16x4 F16x8 BF16x4 BF16x8 "
    "F32 F64 FTZ RN STRONG GPU SYS SM CTA WEAK POPC CAST SPIN 64 STRONG_GPU"
)


def nbytes_of(m: Mods) -> int:
    """Bytes a lane of a load or store, from its size modifier (4 if none)."""
    for word, size in (("U8", 1), ("S8", 1), ("U16", 2), ("S16", 2), ("64", 8), ("128", 16), ("256", 32)):
        if word in m:
            return size
    return 4


def _words(m: Mods) -> tuple[int, ...]:
    return (max(1, nbytes_of(m) // 4),)


def _signed(m: Mods) -> bool:
    return "S8" in m or "S16" in m


def event_flags(m: Mods) -> int:
    out = 0
    if "EF" in m:
        out |= Flag.EVICT_FIRST
    if "LU" in m:
        out |= Flag.LAST_USE
    if ("STRONG" in m and ("GPU" in m or "SYS" in m)) or "BYPASS" in m:
        out |= Flag.STRONG if "STRONG" in m else Flag.BYPASS_L1
    if "ADD" in m or "POPC" in m:
        out |= Flag.ADD
    if "CAS" in m or "CAST" in m:
        out |= Flag.CAS
    return int(out)


def address64(x: Any, a: Any) -> Any:
    """Byte address of a global or generic operand."""
    total = a.offset
    if a.base is not None:
        total = total + (a.base if a.base.kind == "i64" else a.base.zext("i64"))
    if a.ubase is not None:
        total = total + (a.ubase if a.ubase.kind == "i64" else a.ubase.zext("i64"))
    return total


def address32(x: Any, a: Any) -> Any:
    """Offset in a 32-bit window (shared, local): the sum wraps at 32 bits, the CTA bits are dropped."""
    total = a.offset.trunc("i32")
    for part in (a.base, a.ubase):
        if part is not None:
            total = total + (part.trunc("i32") if part.kind == "i64" else part)
    return total


def shared_offset(x: Any, a: Any) -> Any:
    """The window of the own CTA: bits 24 and up hold the CTA's rank in its cluster (0 here)."""
    return (address32(x, a) & 0xFFFFFF).zext("i64")


def local_offset(x: Any, a: Any) -> Any:
    return address32(x, a).zext("i64")


def _illegal(m: Any, words: str) -> UnsupportedError:
    return UnsupportedError(f"{m.name} with {words} is not supported",
                            hint="the hardware calls it an illegal instruction")


def check_cache(m: Any) -> None:
    """CONSTANT has no scope: with one it is an illegal instruction (measured on an H200)."""
    if "CONSTANT" in m and (scope := m.first("CTA", "SM", "GPU")):
        raise _illegal(m, f".CONSTANT.{scope}")


def _load(x: Any, m: Any, host: Any, mask: Any) -> list[Any]:
    return x.load_words(host, mask, nbytes_of(m), _signed(m))


@row("LDG", "?P data = mem ?any ?any", modifiers=LOADS, pipe="lsu", source=PTX, widths=_words,
     flags=event_flags)
def ldg(x: Any, m: Any, a: Any, *_: Any) -> Any:
    """The predicate of a load that succeeds is false."""
    check_cache(m)
    n, at = nbytes_of(m), address64(x, a)
    x.emit([(Space.GLOBAL, Kind.LOAD, n, at, x.exec, 0)])
    return x.const(0, "i1"), _load(x, m, x.host_global(at, x.exec, n), x.exec)


@row("STG", " = mem data ?any", modifiers=CACHE, pipe="lsu", source=PTX, widths=_words, flags=event_flags)
def stg(x: Any, m: Any, a: Any, data: Any, *_: Any) -> Any:
    check_cache(m)
    n, at = nbytes_of(m), address64(x, a)
    x.emit([(Space.GLOBAL, Kind.STORE, n, at, x.exec, 0)])
    x.store_words(x.host_global(at, x.exec, n), data, x.exec, n)
    return ()


@row("LDS", "data = mem", modifiers=LOADS, pipe="lsu", source=PTX, widths=_words, flags=event_flags)
def lds(x: Any, m: Any, a: Any) -> Any:
    n, at = nbytes_of(m), shared_offset(x, a)
    x.emit([(Space.SHARED, Kind.LOAD, n, at, x.exec, 0)])
    return (_load(x, m, x.host_shared(at, x.exec, n), x.exec),)


@row("STS", " = mem data", modifiers=CACHE, pipe="lsu", source=PTX, widths=_words, flags=event_flags)
def sts(x: Any, m: Any, a: Any, data: Any) -> Any:
    n, at = nbytes_of(m), shared_offset(x, a)
    x.emit([(Space.SHARED, Kind.STORE, n, at, x.exec, 0)])
    x.store_words(x.host_shared(at, x.exec, n), data, x.exec, n)
    return ()


@row("LDL", "data = mem", modifiers=LOADS, pipe="lsu", source=PTX, widths=_words, flags=event_flags)
def ldl(x: Any, m: Any, a: Any) -> Any:
    n, at = nbytes_of(m), local_offset(x, a)
    x.emit([(Space.LOCAL, Kind.LOAD, n, at, x.exec, 0)])
    return (_load(x, m, x.host_local(at, x.exec, n), x.exec),)


@row("STL", " = mem data", modifiers=CACHE, pipe="lsu", source=PTX, widths=_words, flags=event_flags)
def stl(x: Any, m: Any, a: Any, data: Any) -> Any:
    n, at = nbytes_of(m), local_offset(x, a)
    x.emit([(Space.LOCAL, Kind.STORE, n, at, x.exec, 0)])
    x.store_words(x.host_local(at, x.exec, n), data, x.exec, n)
    return ()


def generic(x: Any, at: Any, n: int, kind: Kind) -> Any:
    """Resolve generic addresses lane by lane, write up to three events, return host addresses."""
    shared, local = x.in_window(at, "shared"), x.in_window(at, "local")
    in_shared, in_local = shared[0] & x.exec, local[0] & x.exec
    in_global = x.exec & ~shared[0] & ~local[0]
    x.emit([(Space.GLOBAL, kind, n, at, in_global, Flag.GENERIC),
            (Space.SHARED, kind, n, shared[1], in_shared, Flag.GENERIC),
            (Space.LOCAL, kind, n, local[1], in_local, Flag.GENERIC)])
    host = x.host_global(at, in_global, n)
    host = in_shared.where(x.host_shared(shared[1], in_shared, n), host)
    return in_local.where(x.host_local(local[1], in_local, n), host)


@row("LD", "data = mem ?any ?any", modifiers=LOADS, pipe="lsu", source=PTX, widths=_words, flags=event_flags)
def ld(x: Any, m: Any, a: Any, *_: Any) -> Any:
    check_cache(m)
    n = nbytes_of(m)
    return (_load(x, m, generic(x, address64(x, a), n, Kind.LOAD), x.exec),)


@row("ST", " = mem data ?any", modifiers=CACHE, pipe="lsu", source=PTX, widths=_words, flags=event_flags)
def st(x: Any, m: Any, a: Any, data: Any, *_: Any) -> Any:
    check_cache(m)
    n = nbytes_of(m)
    x.store_words(generic(x, address64(x, a), n, Kind.STORE), data, x.exec, n)
    return ()


@row("LDC@indexed ULDC@indexed", "data = mem", modifiers=LOADS + " IL IS ISL IDX", pipe="lsu", source=PTX,
     widths=_words)
def ldc_indexed(x: Any, m: Any, a: Any) -> Any:
    """Constant bank read at a register address: no event, constants have their own cache."""
    n = nbytes_of(m)
    return (_load(x, m, x.host_constant(a, n), x.exec),)


@row("QSPC", "P RZ = mem", modifiers="E S D G L", pipe="alu", source="PTX ISA 9.0 isspacep")
def qspc(x: Any, m: Any, a: Any) -> Any:
    """D asks for the cluster's shared memory, which the own CTA's is part of."""
    at = address64(x, a)
    shared, local = x.in_window(at, "shared")[0], x.in_window(at, "local")[0]
    return {"S": shared, "D": shared, "L": local}.get(m.first("S", "D", "L", "G"), ~shared & ~local), None


# --- atomics


#: Vector atomics: words a lane; each word is updated on its own.
VECTORS = {"F32x2": 2, "F32x4": 4, "F16x4": 2, "F16x8": 4, "BF16x4": 2, "BF16x8": 4}


HALVES = ("F16x2", "BF16_V2", "BF16x2", "F16", "F16x4", "F16x8", "BF16x4", "BF16x8")
FLOATS = ("F32", "F64", "F32x2", "F32x4")


def _check_atomic(m: Any) -> None:
    """Refuse combinations that an H200 calls illegal instructions."""
    word = m.first("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS", "CAST")
    kind = m.first("S32", "S64", "64", "128", *FLOATS)
    if (
        (word in ("INC", "DEC") and kind and "POPC" not in m)
        or (kind == "S64" and word not in ("MIN", "MAX"))
        or (kind in FLOATS and word != "ADD")
        or (kind == "128" and word not in (("EXCH",) if m.name == "ATOMS" else ("EXCH", "CAS")))
        or (kind == "64" and m.name == "ATOMS" and word not in ("EXCH", "CAS", "CAST"))
    ):
        raise _illegal(m, f".{word}.{kind}")


def _atomic_words(m: Mods) -> tuple[int, ...]:
    if vector := m.first(*VECTORS):
        return (VECTORS[vector],) * 3
    if "128" in m:
        return (4, 4, 4)
    wide = 2 if any(w in m for w in ("64", "F64", "S64", "U64")) else 1
    return (wide, wide, wide)


def _kind(m: Any) -> str:
    if vector := m.first(*VECTORS):
        return "f32" if vector.startswith("F32") else "i32"
    wide = _atomic_words(m)[0] == 2
    if "F64" in m:
        return "f64"
    if "F32" in m:
        return "f32"
    return "i64" if wide else "i32"


def atomic_update(x: Any, m: Any) -> Any:
    """Scalar function (old, operands) -> new, on one lane."""
    b = x.b
    signed = any(w in m for w in ("S32", "S64"))
    if half := m.first(*HALVES):
        form, best = "bf16" if half.startswith("BF16") else "f16", m.first("MIN", "MAX")
        if best:
            return lambda old, v: x.scalar_half2_best(old, v[0], form, best == "MAX")
        return lambda old, v: x.scalar_half2_add(old, v[0], form)
    if m.first(*FLOATS):
        return lambda old, v: x.scalar_float_add(old, v[0], ftz="FTZ" in m)
    if "POPC" in m:
        return lambda old, v: b.add(old, x.int_like(old, 1))
    word = m.first("MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS", "CAST", "ADD")
    compare = b.icmp_signed if signed else b.icmp_unsigned
    return {
        "ADD": lambda old, v: b.add(old, v[0]),
        "MIN": lambda old, v: b.select(compare("<", v[0], old), v[0], old),
        "MAX": lambda old, v: b.select(compare(">", v[0], old), v[0], old),
        "AND": lambda old, v: b.and_(old, v[0]),
        "OR": lambda old, v: b.or_(old, v[0]),
        "XOR": lambda old, v: b.xor(old, v[0]),
        "EXCH": lambda old, v: v[0],
        "INC": lambda old, v: b.select(b.icmp_unsigned(">=", old, v[0]), x.int_like(old, 0),
                                       b.add(old, x.int_like(old, 1))),
        "DEC": lambda old, v: b.select(
            b.or_(b.icmp_unsigned("==", old, x.int_like(old, 0)), b.icmp_unsigned(">", old, v[0])), v[0],
            b.sub(old, x.int_like(old, 1))),
        "CAS": lambda old, v: b.select(b.icmp_unsigned("==", old, v[0]), v[1], old),
        "CAST": lambda old, v: b.select(b.icmp_unsigned("==", old, v[0]), v[1], old),
    }[word]


def _operand(x: Any, m: Any, words: list[Any]) -> Any:
    kind = _kind(m)
    if len(words) == 2:
        return x.pack64(words[0], words[1]).cast(kind)
    return words[0].cast(kind)


def _split(v: Any) -> list[Any]:
    return [v.lo(), v.hi()] if v.kind in ("i64", "f64") else [v.bits()]


def _read_modify_write(x: Any, m: Any, host: Any, operands: list[Any]) -> list[Any]:
    """Old values as words."""
    if "128" in m:
        return list(x.exchange_words(host, x.exec, operands[-1], operands[0] if "CAS" in m else None))
    kind, update = _kind(m), atomic_update(x, m)
    if not m.first(*VECTORS):
        old = x.read_modify_write(host, x.exec, kind, update, [_operand(x, m, w) for w in operands])
        return _split(old)
    return [
        x.read_modify_write(host + x.const(4 * k, "i64"), x.exec, kind, update, [word.cast(kind)]).bits()
        for k, word in enumerate(operands[0])
    ]


def atomic_bytes(m: Any) -> int:
    return 4 * _atomic_words(m)[0]


@row("ATOMG", "P data = mem data ?data", modifiers=ATOMIC, pipe="lsu", source="PTX ISA 9.0 atom",
     widths=_atomic_words, flags=event_flags)
@row("ATOM", "P data = mem data ?data", modifiers=ATOMIC, pipe="lsu", source="PTX ISA 9.0 atom",
     widths=_atomic_words, flags=event_flags)
def atom(x: Any, m: Any, a: Any, *operands: Any) -> Any:
    """Generic floating-point atomics act on global memory only: elsewhere they leave all as it is but a false
    predicate, by which programs go on to do it themselves. ATOMG's predicate is always false.
    """
    _check_atomic(m)
    n, at = atomic_bytes(m), address64(x, a)
    if m.name == "ATOM" and m.first(*FLOATS, *HALVES):
        done = x.exec & ~x.in_window(at, "shared")[0] & ~x.in_window(at, "local")[0]
        x.decline(x.exec & ~done)
        x.emit([(Space.GLOBAL, Kind.ATOMIC, n, at, done, Flag.GENERIC)])
        host = x.host_global(at, done, n)
    elif m.name == "ATOM":
        host = generic(x, at, n, Kind.ATOMIC)
    else:
        x.emit([(Space.GLOBAL, Kind.ATOMIC, n, at, x.exec, 0)])
        host = x.host_global(at, x.exec, n)
    old = _read_modify_write(x, m, host, [o for o in operands if o is not None])
    return x.const(int(m.name == "ATOM"), "i1"), old


@row("ATOMS", "data = mem ?data ?data", modifiers=ATOMIC, pipe="lsu", source="PTX ISA 9.0 atom",
     widths=_atomic_words, flags=event_flags)
def atoms(x: Any, m: Any, a: Any, *operands: Any) -> Any:
    """POPC.INC counts lanes: all on a word get what it was before the first of them."""
    _check_atomic(m)
    n, at = atomic_bytes(m), shared_offset(x, a)
    # POPC.INC adds the number of lanes on a word at once: to memory it is a reduction
    x.emit([(Space.SHARED, Kind.REDUCTION if "POPC" in m else Kind.ATOMIC, n, at, x.exec, 0)])
    host = x.host_shared(at, x.exec, n)
    words = [o for o in operands if o is not None]
    before = x.gather32(host, x.exec) if "POPC" in m else None
    old = _read_modify_write(x, m, host, words)
    if before is not None:
        return ([before],)
    if "CAST" in m:  # compare and store: the result says whether this lane's store happened
        ok = _operand(x, m, old).eq(_operand(x, m, words[0])).zext("i32")
        return ([ok, x.const(0, "i32")][: _atomic_words(m)[0]],)
    return (old,)


def order_free(m: Mods) -> bool:
    """Integer reductions commute: their result does not depend on the order of CTAs."""
    return not any(w in m for w in (*HALVES, *FLOATS, "INC", "DEC", "EXCH"))


@row("RED REDG", " = mem data ?any", modifiers=ATOMIC, pipe="lsu", source="PTX ISA 9.0 red",
     widths=_atomic_words, flags=event_flags)
def red(x: Any, m: Any, a: Any, data: Any, *_: Any) -> Any:
    _check_atomic(m)
    n, at = atomic_bytes(m), address64(x, a)
    x.emit([(Space.GLOBAL, Kind.REDUCTION, n, at, x.exec, 0)])
    host = x.host_global(at, x.exec, n)
    if order_free(m):
        signed = any(w in m for w in ("S32", "S64"))
        word = m.first("MIN", "MAX", "AND", "OR", "XOR", "ADD")
        op = {"MIN": "min" if signed else "umin", "MAX": "max" if signed else "umax"}.get(word, word.lower())
        x.reduce_integer(op, host, x.exec, _operand(x, m, data))
    else:
        _read_modify_write(x, m, host, [data])
    return ()


# --- matrix fragments and asynchronous copies


def _matrices(m: Mods) -> tuple[int, ...]:
    return (next(n for n in (4, 2, 1) if n == 1 or str(n) in m),)


@row("LDSM", "data = mem", modifiers="16 M88 MT88 2 4", pipe="lsu", source="PTX ISA 9.0 ldmatrix",
     widths=_matrices)
def ldsm(x: Any, m: Any, a: Any) -> Any:
    """Matrix k: row r at the address of lane 8k + r; lane l gets elements (l / 4, 2 (l % 4) + 0, 1)."""
    count = _matrices(m)[0]
    at = shared_offset(x, a)
    mask = x.exec & x.lane_index().lt(8 * count)
    x.emit([(Space.SHARED, Kind.LDMATRIX, 16, at, mask, 0)])
    host = x.host_shared(at, mask, 16)
    lane = x.lane_index()
    out = []
    for k in range(count):
        if "MT88" in m:
            parts = []
            for j in (0, 1):
                source = ((lane & 3).shl(1) + (8 * k + j))
                place = lane.lshr(2)  # element in the row
                word = x.gather32(x.permute64(host, source) + (place.lshr(1).shl(2)).zext("i64"), x.exec)
                parts.append(word.lshr((place & 1).shl(4)) & 0xFFFF)
            out.append(parts[0] | parts[1].shl(16))
        else:
            rows = x.permute64(host, lane.lshr(2) + 8 * k)
            out.append(x.gather32(rows + ((lane & 3).shl(2)).zext("i64"), x.exec))
    return (out,)


@row("STSM", " = mem data", modifiers="16 M88 MT88 2 4", pipe="lsu", source="PTX ISA 9.0 stmatrix",
     widths=_matrices)
def stsm(x: Any, m: Any, a: Any, data: Any) -> Any:
    count = _matrices(m)[0]
    at = shared_offset(x, a)
    mask = x.exec & x.lane_index().lt(8 * count)
    x.emit([(Space.SHARED, Kind.STMATRIX, 16, at, mask, 0)])
    host = x.host_shared(at, mask, 16)
    lane = x.lane_index()
    for k in range(count):
        if "MT88" in m:
            for j in (0, 1):
                place = lane.lshr(2)
                to = x.permute64(host, (lane & 3).shl(1) + (8 * k + j)) + place.shl(1).zext("i64")
                x.narrow_store(to, data[k].lshr(16 * j), x.exec, 16)
        else:
            rows = x.permute64(host, lane.lshr(2) + 8 * k)
            x.scatter32(rows + ((lane & 3).shl(2)).zext("i64"), data[k], x.exec)
    return ()


@row("LDGSTS", " = mem mem ?P", modifiers=LOADS + " BYPASS ACCESS ZFILL", pipe="lsu",
     source="PTX ISA 9.0 cp.async", flags=event_flags)
def ldgsts(x: Any, m: Any, to: Any, source: Any, p: Any) -> Any:
    """Copy global to shared; where the predicate is false the destination is filled with zeros.

    ZFILL: the low bits of the source address are the number of trailing bytes to fill with zeros.
    """
    check_cache(m)
    n = nbytes_of(m)
    if "BYPASS" in m and n != 16:
        raise _illegal(m, f".BYPASS and {n} bytes")
    at, put = address64(x, source), shared_offset(x, to)
    reads = x.exec if p is None else x.exec & p
    keep = None
    if "ZFILL" in m:
        keep = x.const(n, "i64") - (at & (n - 1))
        at = at & ~(n - 1)
    x.emit(
        [(Space.GLOBAL, Kind.ASYNC_COPY, n, at, reads, 0), (Space.SHARED, Kind.ASYNC_COPY, n, put, x.exec, 0)]
    )
    words = x.load_words(x.host_global(at, reads, n), reads, n)
    if keep is not None:
        for k, word in enumerate(words):
            left = keep - 4 * k  # bytes of this word to keep, 0 to 4 after clamping
            left = left.lt(0).where(x.const(0, "i64"), left.gt(4).where(x.const(4, "i64"), left))
            words[k] = word & (x.const(1, "i64").shl(left.shl(3)) - 1).trunc("i32")
    x.store_words(x.host_shared(put, x.exec, n), words, x.exec, n)
    return ()

"""Integer, logic, predicate and move rows.

Sources: PTX ISA 9.0 (the operations these opcodes implement: add/sub with carry, mad.hi/wide, shf, lop3,
prmt, bfe/bfi, dp4a, vabsdiff), NVIDIA binary utilities manual (opcode names), operand order read off
compiled code (hardware.md 11).
"""

from __future__ import annotations

from typing import Any

from gpusim.errors import UnsupportedError
from gpusim.isa.table import row

PTX = "PTX ISA 9.0, integer arithmetic; operand order from compiled code"


def boolean(m: Any, a: Any, b: Any) -> Any:
    """Combine a comparison with the predicate operand: AND, OR or XOR."""
    if "OR" in m:
        return a | b
    return a ^ b if "XOR" in m else a & b


def _negated(m: Any, k: int) -> bool:
    return bool(m.sources[k].neg or m.sources[k].not_)


def _one_negated(m: Any) -> None:
    """The adder negates one of its first two operands only: both is an illegal instruction on an H200."""
    if _negated(m, 0) and _negated(m, 1):
        raise UnsupportedError(
            f"{m.name} with its first two operands negated is not supported",
            hint="the hardware calls it an illegal instruction",
        )


def _term(x: Any, m: Any, k: int, v: Any) -> tuple[Any, Any]:
    """Operand k as an unsigned 64-bit addend and a correction: ``-v`` is ``~v + 1`` (carries need both)."""
    neg = m.sources[k].neg
    if neg or m.sources[k].not_:
        v = ~v
    return v.zext("i64"), x.const(1 if neg and "X" not in m else 0, "i64")


@row("IADD3 UIADD3", "i32 ?P ?P = raw raw raw ?P ?P", modifiers="X", source=PTX)
@row("IADD", "i32 ?P = raw raw ?P", modifiers="X", source=PTX)
@row("VIADD UVIADD", "i32 = raw raw", source=PTX)
def iadd3(x: Any, m: Any, a: Any, b: Any, *rest: Any) -> Any:
    values = [a, b]
    if m.name.endswith("IADD3"):
        _one_negated(m)
        values.append(rest[0])
        rest = rest[1:]
    total = x.const(0, "i64")
    for k, v in enumerate(values):
        addend, one = _term(x, m, k, v)
        total = total + addend + one
    if "X" in m:
        for p in rest:
            if p is not None:
                total = total + p.zext("i64")
    carry = total.lshr(32)
    return total.trunc("i32"), carry.ne(0), carry.gt(1, signed=False)


@row("IMAD UIMAD", "i32 ?P = i32 i32 i32 ?P", modifiers="MOV U32 SHL IADD X", pipe="fma", source=PTX)
def imad(x: Any, m: Any, a: Any, b: Any, c: Any, p: Any) -> Any:
    r = a * b + c
    if "X" in m and p is not None:
        r = r + p.zext("i32")
    return r, None


def _product(x: Any, m: Any, a: Any, b: Any) -> Any:
    wide = (lambda v: v.zext("i64")) if "U32" in m else (lambda v: v.sext("i64"))
    return wide(a) * wide(b)


@row("IMAD.WIDE UIMAD.WIDE", "i64 ?P = i32 i32 raw64 ?P", modifiers="U32 X", pipe="fma", source=PTX)
@row("IMAD.HI UIMAD.HI", "i32 ?P = i32 i32 raw64 ?P", modifiers="U32 X", pipe="fma", source=PTX)
def imad_wide(x: Any, m: Any, a: Any, b: Any, c: Any, p: Any) -> Any:
    """The predicate is the carry of the 64-bit sum; ``-c`` is ``~c + 1`` in it, so -0 carries."""
    product = _product(x, m, a, b)
    if m.sources[2].neg and "X" not in m:
        r, carry = product - c, ~product.lt(c, signed=False)
    else:
        r = product + (~c if _negated(m, 2) else c)
        carry = r.lt(product, signed=False)
    if "X" in m and p is not None:
        r2 = r + p.zext("i64")
        carry, r = carry | r2.lt(r, signed=False), r2
    return (r.lshr(32).trunc("i32") if "HI" in m.name else r), carry


@row("LEA ULEA", "i32 ?P = raw raw imm ?P", "i32 ?P = raw raw raw imm ?P", modifiers="HI X SX32", source=PTX)
def lea(x: Any, m: Any, a: Any, b: Any, *rest: Any) -> Any:
    """(a << n) + b; HI takes the high word of {c:a} << n (SX32: c is a's sign); ``-`` and ``~`` come last."""
    _one_negated(m)
    *third, shift, p = rest
    c = third[0] if third else x.const(0, "i32")
    if "SX32" in m:
        c = a.ashr(31)
    shifted = x.pack64(a, c).shl(shift)
    total = x.const(0, "i64")
    for k, v in enumerate(((shifted.lshr(32) if "HI" in m else shifted).trunc("i32"), b)):
        addend, one = _term(x, m, k, v)
        total = total + addend + one
    if "X" in m and p is not None:
        total = total + p.zext("i64")
    return total.trunc("i32"), total.lshr(32).ne(0)


@row("ISETP UISETP", "P P = i32 i32 P ?P", "P P = i32 i32 ?P ?P",
     modifiers="LT LE GT GE EQ NE F T U32 AND OR XOR EX", source=PTX)
def isetp(x: Any, m: Any, a: Any, b: Any, p: Any, low: Any) -> Any:
    """EX compares the high words; the last predicate is the (unsigned) comparison of the low words."""
    op = {"LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "EQ": "==", "NE": "!="}.get(
        m.first("LT", "LE", "GT", "GE", "EQ", "NE"))
    signed = "U32" not in m
    if op is None:
        r = x.const(1 if "T" in m else 0, "i1")
    elif "EX" in m and low is not None:
        if op == "!=":
            r = a.ne(b) | low
        else:
            strict = x.const(0, "i1") if op == "==" else a.cmp(op[0], b, signed)
            r = strict | (a.eq(b) & low)
    else:
        r = a.cmp(op, b, signed)
    p = x.const(1, "i1") if p is None else p
    return boolean(m, r, p), boolean(m, ~r, p)


def lut(x: Any, table: int, a: Any, b: Any, c: Any) -> Any:
    """Bitwise function of three inputs; index of the table is a<<2 | b<<1 | c."""
    kind = a.kind
    if bin(table).count("1") > 4:
        return ~lut(x, ~table & 0xFF, a, b, c)
    out = x.const(0, kind)
    for index in range(8):
        if table >> index & 1:
            out = out | ((a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c))
    return out


@row("LOP3 ULOP3", "?P i32 = b32 b32 b32 imm ?P", modifiers="LUT PAND", source="PTX ISA 9.0 lop3")
def lop3(x: Any, m: Any, a: Any, b: Any, c: Any, table: int, p: Any) -> Any:
    r = lut(x, table, a, b, c)
    p = x.const(0, "i1") if p is None else p
    return (r.ne(0) & p if "PAND" in m else r.ne(0) | p), r


@row("PLOP3 UPLOP3", "P P = P P P imm imm", modifiers="LUT",
     source="PTX ISA 9.0 lop3 on predicates; hardware.md 11")
def plop3(x: Any, m: Any, a: Any, b: Any, c: Any, first: int, second: int) -> Any:
    return lut(x, first, a, b, c), lut(x, second, a, b, c)


@row("SHF USHF", "i32 = b32 b32 b32", modifiers="L R U32 S32 U64 S64 HI W",
     source="PTX ISA 9.0 shf; compiled code")
def shf(x: Any, m: Any, a: Any, n: Any, c: Any) -> Any:
    """Funnel shift of {c:a}; W wraps the count, otherwise it is clamped to the width."""
    width = 64 if ("U64" in m or "S64" in m) else 32
    signed = "S32" in m or "S64" in m
    if "W" in m:
        n = n & (width - 1)
    else:
        n = n.gt(width, signed=False).where(x.const(width, "i32"), n)
    n64 = n.zext("i64")
    full = n64.gt(63, signed=False)
    count = n64 & 63
    wide = x.pack64(a, c)
    if "L" in m:
        shifted = full.where(x.const(0, "i64"), wide.shl(count))
        return (shifted.lshr(32) if "HI" in m else shifted).trunc("i32")
    if signed:
        shifted = full.where(wide.ashr(63), wide.ashr(count))
        if "HI" in m:
            # the high word of an arithmetic shift keeps the sign for counts up to 64
            high = c.sext("i64")
            return full.where(high.ashr(63), high.ashr(count)).trunc("i32")
    else:
        shifted = full.where(x.const(0, "i64"), wide.lshr(count))
    return (shifted.lshr(32) if "HI" in m else shifted).trunc("i32")


@row("IMNMX UIMNMX", "i32 = i32 i32 P", modifiers="U32", source="PTX ISA 9.0 min, max; hardware.md 11")
@row("VIMNMX UVIMNMX", "i32 ?P = i32 i32 P", modifiers="U32 S32 RELU",
     source="PTX ISA 9.0 min, max; hardware.md 11")
def imnmx(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    """Minimum where the predicate holds, else maximum."""
    if "U32" in m and "RELU" in m:
        raise UnsupportedError(f"{m.name} with .U32.RELU is not supported", hint="an H200 faults on it")
    less = a.lt(b, signed="U32" not in m)
    smaller = p.where(less.zext("i32"), (~less).zext("i32")).ne(0)
    r = smaller.where(a, b)
    if "RELU" in m:
        r = r.lt(0).where(x.const(0, "i32"), r)
    return r, smaller


@row("VIADDMNMX UVIADDMNMX", "i32 = i32 i32 i32 P", modifiers="U32 S32 RELU",
     source="PTX ISA 9.0 min, max, add; compiled code")
def viaddmnmx(x: Any, m: Any, a: Any, b: Any, c: Any, p: Any) -> Any:
    """Minimum (or maximum) of a + b and c."""
    return imnmx(x, m, a + b, c, p)[0]


@row("I2I", "i32 = i32", modifiers="U8 S8 U16 S16 U32 S32 SAT", pipe="xu", source="PTX ISA 9.0 cvt")
def i2i(x: Any, m: Any, a: Any) -> Any:
    """Saturate to the first type named; the operand is of the second."""
    to, source = [w for w in m.words if w != "SAT"][:2]
    bits, signed = int(to[1:]), to[0] == "S"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    from_signed = source[0] == "S"
    if from_signed:
        a = a.lt(low).where(x.const(low, "i32"), a)
        if high > 0x7FFFFFFF:
            return a  # every non-negative value fits
    return a.gt(high, signed=from_signed).where(x.const(high, "i32"), a)


@row("IABS UIABS", "i32 = i32", source="PTX ISA 9.0 abs")
def iabs(x: Any, m: Any, a: Any) -> Any:
    return a.lt(0).where(-a, a)


@row("FLO UFLO", "i32 ?P = b32", modifiers="U32 SH", pipe="xu", source="PTX ISA 9.0 bfind")
def flo(x: Any, m: Any, a: Any) -> Any:
    """Position of the leading one (SH: the shift that moves it to bit 31); signed: of a non-sign bit."""
    if "U32" not in m:
        a = a.lt(0).where(~a, a)
    zeros = x.ctlz(a)
    position = zeros if "SH" in m else x.const(31, "i32") - zeros
    return a.eq(0).where(x.const(-1, "i32"), position), a.ne(0)


@row("POPC UPOPC", "i32 = b32", pipe="xu", source="PTX ISA 9.0 popc")
def popc(x: Any, m: Any, a: Any) -> Any:
    return x.unary("ctpop", a)


@row("BREV UBREV", "i32 = b32", pipe="xu", source="PTX ISA 9.0 brev")
def brev(x: Any, m: Any, a: Any) -> Any:
    return x.unary("bitreverse", a)


@row("PRMT UPRMT", "i32 = b32 b32 b32", modifiers="F4E B4E RC8 ECL ECR RC16", source="PTX ISA 9.0 prmt")
def prmt(x: Any, m: Any, a: Any, selector: Any, c: Any) -> Any:
    """Bytes of {c:a} chosen by nibbles of the selector; bit 3 of a nibble replicates the byte's sign."""
    wide = x.pack64(a, c)
    out = x.const(0, "i32")
    mode = m.first("F4E", "B4E", "RC8", "ECL", "ECR", "RC16")
    for k in range(4):
        if not mode:
            nibble = selector.lshr(4 * k) & 15
        else:
            s = selector & 3
            if mode == "F4E":
                nibble = (s + k) & 7
            elif mode == "B4E":
                nibble = (s - k) & 7
            elif mode == "RC8":
                nibble = s
            elif mode == "ECL":
                nibble = s.gt(k, signed=False).where(s, x.const(k, "i32"))
            elif mode == "ECR":
                nibble = s.lt(k, signed=False).where(s, x.const(k, "i32"))
            else:
                nibble = (s & 1).shl(1) + (k & 1)
        byte = wide.lshr((nibble & 7).shl(3).zext("i64")).trunc("i32") & 0xFF
        sign = x.const(0, "i32") - byte.lshr(7)
        byte = (nibble & 8).ne(0).where(sign & 0xFF, byte)
        out = out | byte.shl(8 * k)
    return out


@row("SEL USEL", "i32 = i32 i32 P", source="PTX ISA 9.0 selp")
def sel(x: Any, m: Any, a: Any, b: Any, p: Any) -> Any:
    return p.where(a, b)


@row("SGXT USGXT", "i32 = b32 b32", modifiers="U32 W", source="PTX ISA 9.0 szext")
def sgxt(x: Any, m: Any, a: Any, n: Any) -> Any:
    """Sign- (U32: zero-) extend the low n bits."""
    n = (n & 31) if "W" in m else n.gt(32, signed=False).where(x.const(32, "i32"), n)
    unused = x.const(32, "i32") - n
    none = unused.gt(31, signed=False)
    up = a.shl(unused & 31)
    down = up.lshr(unused & 31) if "U32" in m else up.ashr(unused & 31)
    return none.where(x.const(0, "i32"), down)


@row("BMSK UBMSK", "i32 = b32 b32", modifiers="W C", source="PTX ISA 9.0 bmsk")
def bmsk(x: Any, m: Any, start: Any, n: Any) -> Any:
    """n ones starting at bit ``start`` (C, the default, clamps both; W wraps)."""
    if "W" in m:
        start, n = start & 31, n & 31
    else:
        start = start.gt(32, signed=False).where(x.const(32, "i32"), start)
        n = n.gt(32, signed=False).where(x.const(32, "i32"), n)
    ones = x.const(1, "i64").shl(n.zext("i64")) - 1
    return ones.shl(start.zext("i64")).trunc("i32")


@row("IDP", "i32 = b32 b32 i32", modifiers="4A 2A LO HI U8 S8 U16 S16", pipe="fma",
     source="PTX ISA 9.0 dp4a, dp2a")
def idp(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    first, second = [w for w in m.words if w in ("U8", "S8", "U16", "S16")]

    def part(v: Any, kind: str, k: int, bits: int) -> Any:
        up = v.shl(32 - bits * (k + 1))
        return up.lshr(32 - bits) if kind[0] == "U" else up.ashr(32 - bits)

    total = c
    if "4A" in m:
        for k in range(4):
            total = total + part(a, first, k, 8) * part(b, second, k, 8)
    else:
        for k in range(2):
            total = total + part(a, first, k, 16) * part(b, second, k + (2 if "HI" in m else 0), 8)
    return total


@row("VABSDIFF", "i32 = i32 i32 i32", modifiers="U32", source="PTX ISA 9.0 sad")
def vabsdiff(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    less = a.lt(b, signed="U32" not in m)
    return less.where(b - a, a - b) + c


@row("VABSDIFF4", "i32 = b32 b32 i32", modifiers="U8 ACC", source="PTX ISA 9.0 vabsdiff4")
def vabsdiff4(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    out = c if "ACC" in m else x.const(0, "i32")
    for k in range(4):
        p, q = (v.shl(24 - 8 * k) for v in (a, b))
        p, q = (v.lshr(24) if "U8" in m else v.ashr(24) for v in (p, q))
        d = p.lt(q).where(q - p, p - q)
        out = out + d if "ACC" in m else out | (d & 0xFF).shl(8 * k)
    return out


@row("I2IP", "i32 = i32 i32 i32", modifiers="U8 S8 U16 S16 S32 SAT", source="PTX ISA 9.0 cvt.pack")
def i2ip(x: Any, m: Any, a: Any, b: Any, c: Any) -> Any:
    """b (lower) and a (upper) cut, or with SAT saturated, to 16 bits, or to bytes under a half of c.

    H1 behind c takes its high half (measured on an H200).
    """
    kind = m.first("U8", "S8", "U16", "S16")
    bits, signed = int(kind[1:]), kind[0] == "S"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)

    def narrow(v: Any) -> Any:
        if "SAT" in m:
            v = v.lt(low).where(x.const(low, "i32"), v)
            v = v.gt(high).where(x.const(high, "i32"), v)
        return v & ((1 << bits) - 1)

    pair = narrow(a).shl(bits) | narrow(b)
    if bits == 16:
        return pair
    return pair | (c & 0xFFFF0000 if "H1" in m.sources[2].suffixes else c.shl(16))


@row("MOV", "i32 = b32 ?imm", source="PTX ISA 9.0 mov; mask measured on an H200")
@row("UMOV MOV32I", "i32 = b32", source="PTX ISA 9.0 mov")
def mov(x: Any, m: Any, a: Any, lanes: int | None = None) -> Any:
    """Bit k of the mask lets the lanes k, k + 4, k + 8 ... write."""
    if lanes is not None:
        x.exec = x.exec & x.const([lanes >> (lane & 3) & 1 for lane in range(32)], "i1")
    return a


@row("UMOV.64 MOV.64", "i64 = i64", source="PTX ISA 9.0 mov")
def mov64(x: Any, m: Any, a: Any) -> Any:
    return a


@row("R2P", " = word b32 ?imm", modifiers="B1 B2 B3", source="compiled code (predicate restore after calls)")
def r2p(x: Any, m: Any, which: str, a: Any, mask: int | None) -> Any:
    named = (*m.words, *m.sources[1].suffixes)  # the byte is printed after the register: R4.B1
    shift = 8 * next((k for k in (1, 2, 3) if f"B{k}" in named), 0)
    for k in range(7):
        if mask is None or mask >> k & 1:
            x.set_predicate(k, (a.lshr(shift + k) & 1).ne(0))
    return ()


@row("P2R", "i32 = word b32 ?imm", modifiers="B1 B2 B3", source="compiled code (predicate save before calls)")
def p2r(x: Any, m: Any, which: str, a: Any, mask: int | None) -> Any:
    shift = 8 * next((k for k in (1, 2, 3) if f"B{k}" in m), 0)
    mask = 0x7F if mask is None else mask & 0x7F
    out = a & ~(mask << shift)
    for k in range(7):
        if mask >> k & 1:
            out = out | x.get_predicate(k).zext("i32").shl(shift + k)
    return out

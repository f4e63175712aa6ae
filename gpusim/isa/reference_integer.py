"""References of integer, logic, move and predicate rows, on Python integers.

Sources: PTX ISA 9.0, integer and logic instructions, extended precision (add.cc, madc).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim.isa.reference import (
    LANES,
    M32,
    M64,
    Call,
    clamp,
    columns,
    combine,
    lanewise,
    limits,
    reference,
    signed,
)


def _sum(call: Call, terms: list[tuple[int, int]], carries: tuple[Any, ...]) -> tuple[int, bool, bool]:
    """32-bit sum and carries of (source, value): a negated v adds 2^32 - v, with X its complement."""
    total = 0
    for k, v in terms:
        f = call.flags[k]
        if f.not_ or (f.neg and "X" in call):
            v = M32 - v
        elif f.neg:
            v = (1 << 32) - v
        total += v
    if "X" in call:
        total += sum(1 for p in carries if p)
    return total & M32, total >> 32 >= 1, total >> 32 >= 2


@lanewise("IADD3 UIADD3", "raw")
def iadd3(call: Call, a: int, b: int, c: int, p: bool | None, q: bool | None) -> Any:
    return _sum(call, [(0, a), (1, b), (2, c)], (p, q))


@lanewise("IADD", "raw")
def iadd(call: Call, a: int, b: int, p: bool | None) -> Any:
    return _sum(call, [(0, a), (1, b)], (p,))


@lanewise("VIADD UVIADD", "raw")
def viadd(call: Call, a: int, b: int) -> Any:
    return _sum(call, [(0, a), (1, b)], ())[0]


@lanewise("IMAD UIMAD", "int")
def imad(call: Call, a: int, b: int, c: int, p: bool | None) -> Any:
    return (a * b + c + (1 if p and "X" in call else 0)) & M32, None


def _wide(call: Call, a: int, b: int, c: int, p: bool | None) -> tuple[int, bool]:
    """A negated c adds 2^64 - c, with X (or ~) its complement."""
    a, b = _factor(call, 0, a), _factor(call, 1, b)
    product = a * b if "U32" in call else signed(a) * signed(b)
    if call.flags[2].not_ or (call.flags[2].neg and "X" in call):
        c = M64 - c
    elif call.flags[2].neg:
        c = (1 << 64) - c
    total = (product & M64) + c + (1 if p and "X" in call else 0)
    return total & M64, total > M64


def _factor(call: Call, k: int, v: int) -> int:
    v = -v if call.flags[k].neg else v
    return (~v if call.flags[k].not_ else v) & M32


@lanewise("IMAD.WIDE UIMAD.WIDE", "raw")
def imad_wide(call: Call, a: int, b: int, c: int, p: bool | None) -> Any:
    return _wide(call, a, b, c, p)


@lanewise("IMAD.HI UIMAD.HI", "raw")
def imad_hi(call: Call, a: int, b: int, c: int, p: bool | None) -> Any:
    total, carry = _wide(call, a, b, c, p)
    return total >> 32, carry


@lanewise("LEA ULEA", "raw")
def lea(call: Call, a: int, b: int, *rest: Any) -> Any:
    """b + (a << n), or b + the high word of {c:a} << n."""
    c, shift, p = rest if len(rest) == 3 else (0, *rest)
    if "SX32" in call:
        c = M32 if signed(a) < 0 else 0
    moved = ((c << 32 | a) * 2**shift) % 2**64
    part = moved // 2**32 if "HI" in call else moved % 2**32
    return _sum(call, [(0, part), (1, b)], (p,))[:2]


@lanewise("ISETP UISETP", "int")
def isetp(call: Call, a: int, b: int, p: bool | None, low: bool | None) -> Any:
    """With EX the pair (high words, result of the low words) is compared in order of weight."""
    if "U32" not in call:
        a, b = signed(a), signed(b)
    word = call.first("LT", "LE", "GT", "GE", "EQ", "NE", "F", "T")
    less, more = a < b, a > b
    equal = not less and not more
    tie = bool(low) if "EX" in call and low is not None else word in ("LE", "GE", "EQ")
    if word in ("F", "T"):
        r = word == "T"
    elif word == "NE":
        r = not equal or (tie if "EX" in call and low is not None else False)
    else:
        r = (equal and tie) or (word in ("LT", "LE") and less) or (word in ("GT", "GE") and more)
    p = True if p is None else p
    return combine(call, r, p), combine(call, not r, p)


def _lookup(table: int, a: int, b: int, c: int) -> int:
    """lop3 bit by bit: the table's bit number is a*4 + b*2 + c."""
    return sum((table >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i for i in range(32))


@lanewise("LOP3 ULOP3", "int")
def lop3(call: Call, a: int, b: int, c: int, table: int, p: bool | None) -> Any:
    r = _lookup(table, a, b, c)
    return (r != 0 and bool(p)) if "PAND" in call else (r != 0 or bool(p)), r


@lanewise("PLOP3 UPLOP3", "int")
def plop3(call: Call, a: bool, b: bool, c: bool, first: int, second: int) -> Any:
    return _lookup(first, a, b, c) & 1, _lookup(second, a, b, c) & 1


@lanewise("SHF USHF", "int")
def shf(call: Call, a: int, n: int, c: int) -> Any:
    """shf and 64-bit shifts: the pair {c:a}, clamped or wrapped count, low or (HI) high word."""
    kind = call.first("U32", "S32", "U64", "S64")
    width = int(kind[1:])
    n = n % width if "W" in call else min(n, width)
    pair = c << 32 | a
    if "L" in call:
        moved = pair * 2**n
    elif kind[0] == "S":
        moved = signed(pair, 64) // 2**n
    else:
        moved = pair // 2**n
    return (moved >> 32 if "HI" in call else moved) & M32


def _pick(call: Call, a: int, b: int, p: bool) -> tuple[int, bool]:
    x, y = (a, b) if "U32" in call else (signed(a), signed(b))
    r = min(x, y) if p else max(x, y)
    if "RELU" in call:
        r = max(r, 0)
    return r & M32, (x < y) if p else (x >= y)


@lanewise("IMNMX UIMNMX VIMNMX UVIMNMX", "int")
def imnmx(call: Call, a: int, b: int, p: bool) -> Any:
    """The predicate result (first operand taken; the second on a tie of minima) is assumed."""
    return _pick(call, a, b, p)


@lanewise("VIADDMNMX UVIADDMNMX", "int")
def viaddmnmx(call: Call, a: int, b: int, c: int, p: bool) -> Any:
    return _pick(call, (a + b) & M32, c, p)[0]


@lanewise("I2I", "int")
def i2i(call: Call, a: int) -> Any:
    to, source = [w for w in call.words if w != "SAT"]
    return clamp(signed(a) if source[0] == "S" else a, *limits(to)) & M32


@lanewise("IABS UIABS", "int")
def iabs(call: Call, a: int) -> Any:
    return abs(signed(a)) & M32


@lanewise("FLO UFLO", "int")
def flo(call: Call, a: int) -> Any:
    """bfind: most significant one (signed: bit unlike the sign), -1 if none; SH: distance from bit 31."""
    if "U32" not in call and signed(a) < 0:
        a = -1 - signed(a)
    place = a.bit_length() - 1
    return (place if place < 0 or "SH" not in call else 31 - place) & M32, a != 0


@lanewise("POPC UPOPC", "int")
def popc(call: Call, a: int) -> Any:
    return bin(a).count("1")


@lanewise("BREV UBREV", "int")
def brev(call: Call, a: int) -> Any:
    return int(f"{a:032b}"[::-1], 2)


#: prmt modes: bytes taken for selector 0 to 3, most significant first (the table of PTX ISA prmt).
PRMT = {
    "F4E": ("3210", "4321", "5432", "6543"),
    "B4E": ("5670", "6701", "7012", "0123"),
    "RC8": ("0000", "1111", "2222", "3333"),
    "ECL": ("3210", "3211", "3222", "3333"),
    "ECR": ("0000", "1110", "2210", "3210"),
    "RC16": ("1010", "3232", "1010", "3232"),
}


@lanewise("PRMT UPRMT", "int")
def prmt(call: Call, a: int, selector: int, c: int) -> Any:
    data = a.to_bytes(4, "little") + c.to_bytes(4, "little")
    mode = call.first(*PRMT)
    if mode:
        return int.from_bytes(bytes(data[int(k)] for k in PRMT[mode][selector & 3]), "big")
    out = []
    for digit in reversed(f"{selector & 0xFFFF:04x}"):
        n = int(digit, 16)
        byte = data[n & 7]
        out.append((255 if byte & 128 else 0) if n & 8 else byte)
    return int.from_bytes(bytes(out), "little")


@lanewise("SEL USEL", "int")
def sel(call: Call, a: int, b: int, p: bool) -> Any:
    return a if p else b


@lanewise("SGXT USGXT", "int")
def sgxt(call: Call, a: int, n: int) -> Any:
    """szext: the low n bits (clamped to 32, or modulo 32), extended."""
    n = n % 32 if "W" in call else min(n, 32)
    low = a % 2**n
    return (low if "U32" in call or n == 0 else signed(low, n)) & M32


@lanewise("BMSK UBMSK", "int")
def bmsk(call: Call, start: int, n: int) -> Any:
    start, n = (start % 32, n % 32) if "W" in call else (min(start, 32), min(n, 32))
    return sum(1 << i for i in range(start, min(start + n, 32)))


def _parts(word: int, kind: str) -> list[int]:
    """Bytes or halves of a word, lowest first."""
    bits = int(kind[1:])
    pieces = [word >> (bits * k) & ((1 << bits) - 1) for k in range(32 // bits)]
    return [signed(v, bits) for v in pieces] if kind[0] == "S" else pieces


@lanewise("IDP", "int")
def idp(call: Call, a: int, b: int, c: int) -> Any:
    """dp4a, dp2a."""
    first, second = [w for w in call.words if w in ("U8", "S8", "U16", "S16")]
    left, right = _parts(a, first), _parts(b, second)
    if "2A" in call:
        right = right[2:] if "HI" in call else right[:2]
    return (sum(x * y for x, y in zip(left, right, strict=True)) + c) & M32


@lanewise("VABSDIFF", "int")
def vabsdiff(call: Call, a: int, b: int, c: int) -> Any:
    """sad"""
    x, y = (a, b) if "U32" in call else (signed(a), signed(b))
    return (abs(x - y) + c) & M32


@lanewise("VABSDIFF4", "int")
def vabsdiff4(call: Call, a: int, b: int, c: int) -> Any:
    kind = "U8" if "U8" in call else "S8"
    d = [abs(x - y) for x, y in zip(_parts(a, kind), _parts(b, kind), strict=True)]
    if "ACC" in call:
        return (sum(d) + c) & M32
    return int.from_bytes(bytes(v & 255 for v in d), "little")


@lanewise("I2IP", "int")
def i2ip(call: Call, a: int, b: int, c: int) -> Any:
    """cvt.pack{.sat}: {a, b} of 16 bits, or {a half of c, a, b} with a and b of 8."""
    kind = call.first("U8", "S8", "U16", "S16")
    bits = int(kind[1:])
    out = (c >> 16 if "H1" in call.flags[2].suffixes else c & 0xFFFF) if bits == 8 else 0
    for v in (a, b):
        v = clamp(signed(v), *limits(kind)) if "SAT" in call else v
        out = out << bits | v & ((1 << bits) - 1)
    return out


@lanewise("UMOV MOV32I", "int")
def umov(call: Call, a: int) -> Any:
    return a


@reference("MOV")
def mov(call: Call, a: np.ndarray, lanes: int | None) -> Any:
    """The mask names the lanes of each four that write."""
    for lane in range(LANES):
        call.exec[lane] &= lanes is None or bool(lanes & 1 << lane % 4)
    return (np.array(columns(call, (a, lanes), "int")[0], np.uint64),)


@lanewise("UMOV.64 MOV.64", "int")
def mov64(call: Call, a: int) -> Any:
    return a


def _byte(call: Call) -> int:
    named = {*call.words, *call.flags[1].suffixes}
    return next((k for k in range(4) if f"B{k}" in named), 0)


@reference("R2P")
def r2p(call: Call, which: str, a: np.ndarray, mask: int | None) -> Any:
    """Bits of a byte of the register to the predicates the mask names."""
    byte = a >> (8 * _byte(call))
    for k in range(7):
        if mask is None or mask & (1 << k):
            call.predicates[k][call.exec] = ((byte >> k) % 2 == 1)[call.exec]
    return ()


def _gather_predicates(a: np.ndarray, rows: np.ndarray, mask: int | None, byte: int) -> np.ndarray:
    out = a.astype(np.uint64)
    for k in range(7):
        if mask is None or mask & (1 << k):
            bit = 1 << (8 * byte + k)
            out = np.where(rows[k], out | np.uint64(bit), out & np.uint64(M32 - bit))
    return out


@reference("P2R")
def p2r(call: Call, which: str, a: np.ndarray, mask: int | None) -> Any:
    return (_gather_predicates(a, call.predicates, mask, _byte(call)),)


@reference("UP2UR")
def up2ur(call: Call, which: str, a: np.ndarray, mask: int | None) -> Any:
    return (_gather_predicates(a, call.uniform_predicates, mask, 0),)

"""References of loads, stores, atomics, matrix loads and copies on small byte arrays.

Addresses arrive computed.  Lanes act in ascending order, one whole access each (the order PTX leaves open).

Sources: PTX ISA 9.0, ld, st, atom, red, ldmatrix, stmatrix, cp.async, isspacep.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim.isa.reference import LANES, Call, reference, signed
from gpusim.isa.reference_float import BF16, F16, F32, F64, Format, add, decode, encode, flushed

Words = list[np.ndarray]


def access_bytes(words: tuple[str, ...]) -> int:
    sizes = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
    return next((sizes[w] for w in words if w in sizes), 4)


def _place(call: Call, space: str, lane: int, address: int) -> tuple[np.ndarray, int]:
    """Byte array and offset of an address; generic ones go by their window."""
    if space == "generic":
        space = next((s for s in ("shared", "local", "global")
                      if 0 <= address - call.windows[s][0] < call.windows[s][1]), "global")
        address -= call.windows[space][0]
    elif space == "global":
        address -= call.windows["global"][0]
    memory = call.memory[space]
    return (memory[lane] if space == "local" else memory), address


def _get(call: Call, space: str, lane: int, address: int, n: int) -> int:
    data, at = _place(call, space, lane, address)
    return int.from_bytes(data[at : at + n].tobytes(), "little")


def _put(call: Call, space: str, lane: int, address: int, n: int, value: int) -> None:
    data, at = _place(call, space, lane, address)
    data[at : at + n] = np.frombuffer((value & ((1 << 8 * n) - 1)).to_bytes(n, "little"), np.uint8)


def _lanes(call: Call) -> list[int]:
    return [i for i in range(LANES) if call.exec[i]]


def _split(values: list[int], count: int) -> Words:
    return [np.array([v >> (32 * k) & 0xFFFFFFFF for v in values], np.uint64) for k in range(count)]


def _joined(words: Words, lane: int) -> int:
    return sum(int(w[lane]) << (32 * k) for k, w in enumerate(words))


SPACE = {"LDG": "global", "LDS": "shared", "LDL": "local", "LD": "generic", "STG": "global", "STS": "shared",
         "STL": "local", "ST": "generic", "LDC@indexed": "const", "ULDC@indexed": "const", "ATOMG": "global",
         "ATOM": "generic", "RED": "global", "REDG": "global", "ATOMS": "shared"}


def _load(call: Call, at: np.ndarray) -> Words:
    n, out = access_bytes(call.words), [0] * LANES
    for lane in _lanes(call):
        value = _get(call, SPACE[call.name], lane, int(at[lane]), n)
        out[lane] = signed(value, 8 * n) if call.first("S8", "S16") else value
    return _split(out, max(1, n // 4))


@reference("LDG")
def ldg(call: Call, at: np.ndarray, *_: Any) -> Any:
    return np.zeros(LANES, bool), _load(call, at)


@reference("LD LDS LDL LDC@indexed ULDC@indexed")
def lds(call: Call, at: np.ndarray, *_: Any) -> Any:
    return (_load(call, at),)


@reference("STG STS STL ST")
def stg(call: Call, at: np.ndarray, data: Words, *_: Any) -> Any:
    for lane in _lanes(call):
        _put(call, SPACE[call.name], lane, int(at[lane]), access_bytes(call.words), _joined(data, lane))
    return ()


@reference("QSPC")
def qspc(call: Call, at: np.ndarray) -> Any:
    space = {"S": "shared", "D": "shared", "L": "local", "G": "global"}[call.first("S", "D", "L", "G")]
    base, size = call.windows[space]
    return np.array([base <= int(a) < base + size for a in at]), None


def _float_add(f: Format, old: int, value: int) -> int:
    if f is F64:  # a NaN stays as it is
        for v in (value, old):
            if v & (1 << 63) - 1 > 0x7FF << 52:
                return v
    return encode(f, add(decode(f, old), decode(f, value)))


def _float(call: Call, f: Format, old: int, value: int) -> int:
    if call.first("MIN", "MAX"):
        return _best(f, old, value, "MAX" in call)
    if "FTZ" in call and f is F32:
        return flushed(F32, _float_add(F32, flushed(F32, old), flushed(F32, value)))
    return _float_add(f, old, value)


#: Vector atomics: words a lane, and the same atomic on one word.
VECTORS = {"F32x2": 2, "F32x4": 4, "F16x4": 2, "F16x8": 4, "BF16x4": 2, "BF16x8": 4}


def _best(f: Format, old: int, value: int, largest: bool) -> int:
    """atom.min, atom.max of halves: minNum, maxNum with -0 below +0."""
    numbers = []
    for v in (old, value):
        top = v & 0x7FFF
        if top <= (0x7F80 if f is BF16 else 0x7C00):
            numbers.append((-1 - top if v & 0x8000 else top, v))
    return 0x7FFF if not numbers else (max if largest else min)(numbers)[1]


def _updated(call: Call, old: int, operand: int, other: int, n: int) -> int:
    """What one lane's atomic leaves in memory."""
    bits = 8 * n
    if vector := call.first(*VECTORS):
        total = 0
        for s in range(0, bits, 32 if vector.startswith("F32") else 16):
            f = F32 if vector.startswith("F32") else F16 if vector.startswith("F16") else BF16
            top = 0xFFFFFFFF if f is F32 else 0xFFFF
            total |= _float(call, f, old >> s & top, operand >> s & top) << s
        return total
    if call.first("F16x2", "BF16x2", "BF16_V2"):
        f = F16 if "F16x2" in call else BF16
        return sum(_float(call, f, old >> s & 0xFFFF, operand >> s & 0xFFFF) << s for s in (0, 16))
    if call.first("F32", "F64"):
        return _float(call, F64 if "F64" in call else F32, old, operand)
    word = call.first("POPC", "ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS", "CAST")
    if word in ("MIN", "MAX"):
        pick = min if word == "MIN" else max
        return pick(old, operand, key=lambda v: signed(v, bits) if call.first("S32", "S64") else v)
    return {
        "POPC": old + 1, "ADD": old + operand, "EXCH": operand,
        "AND": old & operand, "OR": old | operand, "XOR": old ^ operand,
        "INC": 0 if old >= operand else old + 1,
        "DEC": operand if old == 0 or old > operand else old - 1,
        "CAS": other if old == operand else old, "CAST": other if old == operand else old,
    }[word]


def _atomic(call: Call, at: np.ndarray, operands: list[Words]) -> tuple[Words, Words]:
    """(old values, did the lane store) by lane."""
    n = 8 if call.first("64", "F64", "S64", "U64") else 4 * VECTORS.get(call.first(*VECTORS), 1)
    n = 16 if "128" in call else n
    olds, stored = [0] * LANES, [0] * LANES
    before = [_get(call, SPACE[call.name], lane, int(at[lane]), n) if call.exec[lane] else 0
              for lane in range(LANES)]
    for lane in _lanes(call):
        if call.written is not None and not call.written[lane]:
            continue
        first, second = (_joined(operands[i], lane) if i < len(operands) else 0 for i in (0, 1))
        old = _get(call, SPACE[call.name], lane, int(at[lane]), n)
        olds[lane], stored[lane] = before[lane] if "POPC" in call else old, int(old == first)
        _put(call, SPACE[call.name], lane, int(at[lane]), n, _updated(call, old, first, second, n))
    return _split(olds, n // 4), _split(stored, n // 4)


@reference("ATOM ATOMG")
def atom(call: Call, at: np.ndarray, *operands: Any) -> Any:
    """Generic floating-point atomics leave shared and local memory alone and say so."""
    done = np.full(LANES, call.name == "ATOM")
    if call.name == "ATOM" and any(w.lstrip("B").startswith(("F16", "F32", "F64")) for w in call.words):
        inside = [any(0 <= int(a) - call.windows[s][0] < call.windows[s][1] for s in ("shared", "local"))
                  for a in at]
        call.written = done = call.exec & ~np.array(inside)
    return done, _atomic(call, at, [o for o in operands if o is not None])[0]


@reference("ATOMS")
def atoms(call: Call, at: np.ndarray, *operands: Any) -> Any:
    """CAST (compare and store) answers whether the lane stored."""
    old, stored = _atomic(call, at, [o for o in operands if o is not None])
    return (stored if "CAST" in call else old,)


@reference("RED REDG")
def red(call: Call, at: np.ndarray, data: Words, *_: Any) -> Any:
    _atomic(call, at, [data])
    return ()


def _count(call: Call) -> int:
    return 4 if "4" in call else 2 if "2" in call else 1


def _element(call: Call, lane: int, j: int) -> tuple[int, int]:
    """(row, column) of half j of a lane's register; MT88: of the transposed matrix."""
    r, c = lane // 4, 2 * (lane % 4) + j
    return (c, r) if "MT88" in call else (r, c)


@reference("LDSM")
def ldsm(call: Call, at: np.ndarray) -> Any:
    out = []
    for k in range(_count(call)):
        word = []
        for lane in range(LANES):
            value = 0
            for j in (0, 1):
                r, c = _element(call, lane, j)
                value |= _get(call, "shared", lane, int(at[8 * k + r]) + 2 * c, 2) << (16 * j)
            word.append(value)
        out.append(np.array(word, np.uint64))
    return (out,)


@reference("STSM")
def stsm(call: Call, at: np.ndarray, data: Words) -> Any:
    for k in range(_count(call)):
        for lane in range(LANES):
            for j in (0, 1):
                r, c = _element(call, lane, j)
                _put(call, "shared", lane, int(at[8 * k + r]) + 2 * c, 2, int(data[k][lane]) >> (16 * j))
    return ()


@reference("LDGSTS")
def ldgsts(call: Call, to: np.ndarray, source: np.ndarray, p: np.ndarray | None) -> Any:
    """cp.async: zeros where p is false; ZFILL: the low address bits count the zero bytes at the end."""
    n = access_bytes(call.words)
    for lane in _lanes(call):
        address = int(source[lane])
        keep = n
        if "ZFILL" in call:
            keep, address = n - address % n, address - address % n
        takes = p is None or bool(p[lane]) != call.flags[2].not_
        value = _get(call, "global", lane, address, n) if takes else 0
        _put(call, "shared", lane, int(to[lane]), n, value & ((1 << 8 * keep) - 1))
    return ()

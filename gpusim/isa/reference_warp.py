"""References of warp, special-register and tensor-core rows, on whole arrays of lanes.

Matrix fragments are put together into matrices by the formulas of PTX ISA 9.0 (mma fragments), multiplied,
and taken apart again.  Tensor-core sums in floating point are exact here and rounded once: the test
compares within a bound.

Sources: PTX ISA 9.0, shfl, vote, match, redux, activemask, elect, mma, movmatrix.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from gpusim.isa.reference import LANES, M32, Call, clamp, columns, lanewise, reference, signed
from gpusim.isa.reference_float import (
    BF16,
    F16,
    F32,
    F64,
    Format,
    decode,
    encode,
    finite,
    fma,
    multiply,
    write64,
)

Words = list[np.ndarray]


def _mask(lanes: Any) -> int:
    return sum(1 << i for i in range(LANES) if lanes[i])


def _all(value: int) -> np.ndarray:
    return np.full(LANES, value, np.uint64)


def first_lane(call: Call) -> int:
    """Lowest lane that takes effect; of the active ones if the guard is false everywhere."""
    return int(np.argmax(call.exec if call.exec.any() else call.active))


@reference("S2R S2UR CS2R CS2UR CS2R.32")
def s2r(call: Call, name: str) -> Any:
    return (call.special[name].astype(np.uint64),)


@lanewise("LDC ULDC LDC.64 ULDC.64", "int")
def ldc(call: Call, a: int) -> Any:
    return a


@reference("R2UR")
def r2ur(call: Call, a: np.ndarray) -> Any:
    (values,) = columns(call, (a,), "int")
    chosen = values[first_lane(call)]
    return np.array([v != chosen for v in values]), _all(chosen)


@reference("VOTE VOTEU")
def vote(call: Call, p: np.ndarray) -> Any:
    (values,) = columns(call, (p,), "raw")
    votes = [v for v, takes in zip(values, call.exec, strict=True) if takes]
    flag = any(votes) if "ANY" in call else all(votes) if "ALL" in call else len(set(votes)) < 2
    return _all(_mask(np.array(values) & call.exec)), _all(int(flag))


@reference("SHFL")
def shfl(call: Call, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Any:
    """The pseudocode of PTX shfl.sync."""
    _, bs, cs = columns(call, (a, b, c), "int")
    flags, out = [], []
    for lane in range(LANES):
        bval, cval, segmask = bs[lane] & 0x1F, cs[lane] & 0x1F, cs[lane] >> 8 & 0x1F
        max_lane = (lane & segmask) | (cval & ~segmask & 0x1F)
        min_lane = lane & segmask
        word = call.first("UP", "DOWN", "BFLY", "IDX")
        if word == "UP":
            j = lane - bval
            p = j >= max_lane
        else:
            j = {"DOWN": lane + bval, "BFLY": lane ^ bval, "IDX": min_lane | (bval & ~segmask & 0x1F)}[word]
            p = j <= max_lane
        flags.append(p)
        out.append(int(a[j if p else lane]))
    return np.array(flags), np.array(out, np.uint64)


@reference("MATCH MATCH.U64 MATCH.ANY.U64 MATCH.ALL.U64")
def match(call: Call, a: np.ndarray) -> Any:
    takes = [i for i in range(LANES) if call.exec[i]]
    if "ALL" in call:
        same = len({int(a[i]) for i in takes}) <= 1
        return _all(int(same)), _all(sum(1 << i for i in takes) if same else 0)
    out = [sum(1 << j for j in takes if a[j] == a[i]) for i in range(LANES)]
    return None, np.array(out, np.uint64)


@reference("REDUX UREDUX")
def redux(call: Call, a: np.ndarray) -> Any:
    (values,) = columns(call, (a,), "int")
    chosen = [signed(v) if "S32" in call else v for v, takes in zip(values, call.exec, strict=True) if takes]
    word = call.first("SUM", "OR", "XOR", "AND", "MIN", "MAX", default="AND")
    fold: dict[str, Callable[[int, int], int]] = {
        "SUM": operator.add, "OR": operator.or_, "XOR": operator.xor, "AND": operator.and_,
        "MIN": min, "MAX": max}
    return (_all(functools.reduce(fold[word], chosen) & M32 if chosen else 0),)


@reference("ELECT")
def elect(call: Call, _: Any) -> Any:
    leader = first_lane(call)
    return np.arange(LANES) == leader, _all(leader)


@reference("BMOV")
def bmov(call: Call, a: np.ndarray) -> Any:
    """A barrier register takes the first active lane's value."""
    return (_all(int(a[first_lane(call)])),)


@reference("B2R.RESULT")
def b2r(call: Call) -> Any:
    result = call.state["barrier_result"]
    return _all(result), _all(int(result != 0))


@reference("FSWZADD")
def fswzadd(call: Call, a: np.ndarray, b: np.ndarray, pattern: str) -> Any:
    """Two letters for each place in the quad, the signs of a and b; Z leaves a out."""
    left, right, _ = columns(call, (a, b, pattern), "float")
    sign = {"P": finite(1), "N": finite(-1)}
    out = []
    for lane in range(LANES):
        x, y = decode(F32, left[lane]), decode(F32, right[lane])
        p, q = pattern[lane % 4 * 2], pattern[lane % 4 * 2 + 1]
        out.append(encode(F32, fma(sign[q], y, finite(0) if p == "Z" else multiply(sign[p], x))))
    return (np.array(out, np.uint64),)


# --- tensor core: where the predicate operand is false, C counts as zero


def _accumulator(call: Call, c: Words, use: np.ndarray | None) -> Words:
    """C, or zeros where the predicate operand (true if it is missing) is false."""
    return c if use is None else [np.where(use != call.flags[3].not_, w, 0) for w in c]


def _signed(call: Call, operand: int, bits: int, sign: int) -> int:
    """The bits of an element of a source with its ``|x|`` and ``-``."""
    f = call.flags[operand]
    bits = bits & ~sign if f.abs else bits
    return bits ^ sign if f.neg else bits


def _elements(words: Words, per_word: int) -> list[list[int]]:
    """[element i][lane]: registers in order, low bits first."""
    bits = 32 // per_word
    mask = (1 << bits) - 1
    return [[int(w) >> (bits * s) & mask for w in word] for word in words for s in range(per_word)]


def _place_a(i: int, g: int, t: int, m: int, per_word: int) -> tuple[int, int]:
    """(row, depth) of element i of an A fragment: rows g, g + 8 alternate, then the next block of depth."""
    block, inside = divmod(i, per_word)
    row = g + 8 * (block % (m // 8))
    return row, (block // (m // 8)) * 4 * per_word + t * per_word + inside


def _fragments(
    m: int, k: int, per_word: int, a: Words, b: Words, read: Callable[[int, bool], Any]
) -> tuple[Any, Any]:
    """Matrices A (m x k) and B (k x 8); ``read`` turns the bits of an element (of B?) into a number."""
    left: list[list[Any]] = [[None] * k for _ in range(m)]
    right: list[list[Any]] = [[None] * 8 for _ in range(k)]
    for i, lanes in enumerate(_elements(a, per_word)):
        for lane, bits in enumerate(lanes):
            r, c = _place_a(i, lane // 4, lane % 4, m, per_word)
            left[r][c] = read(bits, False)
    for i, lanes in enumerate(_elements(b, per_word)):
        block, inside = divmod(i, per_word)
        for lane, bits in enumerate(lanes):
            right[block * 4 * per_word + (lane % 4) * per_word + inside][lane // 4] = read(bits, True)
    return left, right


def _accumulators(count: int, value: Callable[[int, int, int, int], int]) -> list[list[int]]:
    """[element i][lane] of value(i, lane, row, column)."""
    return [[value(i, lane, lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2) for lane in range(LANES)]
            for i in range(count)]


def _float(f: Format, bits: int) -> float:
    r = decode(f, bits)
    return math.nan if r.nan else float(r.value) if r.finite else -math.inf if r.negative else math.inf


def hmma_shape(words: tuple[str, ...]) -> tuple[int, int, Format]:
    """(k, elements in a word, input format)."""
    if "TF32" in words:
        return (8 if "1688" in words else 4), 1, F32
    return (16 if "16816" in words else 8), 2, (BF16 if "BF16" in words else F16)


@reference("HMMA")
def hmma(call: Call, a: Words, b: Words, c: Words, use: np.ndarray | None) -> Any:
    """The exact sum rounded once: to fp32, or to fp16 where the accumulators are packed."""
    c = _accumulator(call, c, use)
    k, per_word, f = hmma_shape(call.words)

    def read(bits: int, is_b: bool) -> float:
        return _float(f, _signed(call, int(is_b), bits & 0xFFFFE000 if f is F32 else bits, f.sign))

    left, right = _fragments(16, k, per_word, a, b, read)
    packed = len(c) == 2
    out_format = F16 if packed else F32
    start = _elements(c, 2 if packed else 1)

    def value(i: int, lane: int, row: int, column: int) -> int:
        terms = [left[row][j] * right[j][column] for j in range(k)] + [_float(out_format, start[i][lane])]
        if not all(map(math.isfinite, terms)):
            total = sum(terms)
            if math.isnan(total):
                return out_format.nan
            return out_format.infinity | (out_format.sign if total < 0 else 0)
        exact = sum(map(Fraction, terms), Fraction(0))
        return encode(out_format, finite(exact))

    d = _accumulators(4, value)
    if packed:
        d = [[lo | hi << 16 for lo, hi in zip(d[2 * h], d[2 * h + 1], strict=True)] for h in (0, 1)]
    return ([np.array(w, np.uint64) for w in d],)


@reference("IMMA")
def imma(call: Call, a: Words, b: Words, c: Words, use: np.ndarray | None) -> Any:
    c = _accumulator(call, c, use)
    kinds = [w for w in call.words if w in ("S8", "U8")]
    m = 8 if "8816" in call.words else 16
    k = 32 if "16832" in call.words else 16

    def read(bits: int, is_b: bool) -> int:
        return signed(bits, 8) if kinds[is_b] == "S8" else bits

    left, right = _fragments(m, k, 4, a, b, read)

    def value(i: int, lane: int, row: int, column: int) -> int:
        total = sum(left[row][j] * right[j][column] for j in range(k)) + signed(int(c[i][lane]))
        return (clamp(total, -(1 << 31), (1 << 31) - 1) if "SAT" in call else total) & M32

    return ([np.array(w, np.uint64) for w in _accumulators(len(c), value)],)


@reference("DMMA")
def dmma(call: Call, a: Words, b: Words, c: Words, use: np.ndarray | None) -> Any:
    """mma.m8n8k4: four fused steps, depth ascending; NaN pass without the modifiers of their operand."""
    c = _accumulator(call, c, use)

    def pair(words: Words, i: int, lane: int) -> int:
        return int(words[2 * i][lane]) | int(words[2 * i + 1][lane]) << 32

    def number(operand: int, bits: int) -> int:
        return bits if decode(F64, bits).nan else _signed(call, operand, bits, F64.sign)

    def value(i: int, lane: int, row: int, column: int) -> int:
        total = number(2, pair(c, i, lane))
        for k in range(4):
            x, y = number(0, pair(a, 0, 4 * row + k)), number(1, pair(b, 0, 4 * column + k))
            total = write64(fma(decode(F64, x), decode(F64, y), decode(F64, total)), "RN", y, total, x)
        return total

    d = _accumulators(2, value)
    return ([np.array([v >> s & M32 for v in d[j]], np.uint64) for j in (0, 1) for s in (0, 32)],)


@reference("MOVM")
def movm(call: Call, a: np.ndarray) -> Any:
    """Transpose of 8 x 8 halves; lane l holds row l / 4, columns 2 (l % 4) and the next."""
    matrix = np.array([[int(v) & 0xFFFF, int(v) >> 16] for v in a], np.uint64).reshape(8, 8).T.reshape(32, 2)
    return (matrix[:, 0] | matrix[:, 1] << np.uint64(16),)

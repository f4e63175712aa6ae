"""Inputs of an opcode form: 20 words a thread and 20 a warp, the same bytes wherever they are made.

Words 0-15 are the registers a, b, c, d (four each: R8, R12, R16, R24 and the uniform ones of the same
numbers), word 16 the predicates, word 17 a byte offset for memory forms.  Each of a, b and c has a kind
(``i32``, ``f32``, ``f64`` ...) chosen from what the form reads there.  Special values are crossed over the
slots, a part is related (equal, opposite, cancelling), a part of moderate size, the rest random bits.

Only integer and IEEE arithmetic of numpy, with a counter-based generator: no version of numpy changes them.
"""

from __future__ import annotations

import hashlib

import numpy as np

WORDS = 20
THREADS = 4096
#: Launches of forms that read and write only uniform registers: one thread a warp, so one input a warp.
UNIFORM_THREADS = 2048
SLOTS = "abcd"
P_WORD, M_WORD, M2_WORD = 16, 17, 18

INT = [
    0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF,
    0x10000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFF8000, 0xFFFFFF80, 0xAAAAAAAA,
    0x00FF00FF, 0x01000001, 0x76543210,
]  # fmt: skip
F32 = [
    0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x3F800000, 0xBF800000,
    0x3F7FFFFF, 0x3F800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345,
    0x7F800001,
    0xFFFFFFFF, 0x4F000000, 0xCF000000, 0x4EFFFFFF, 0x4F800000, 0x5F000000, 0xDF000000, 0x3F000000,
    0xC0200000,
    0x34000000, 0x33800000, 0x47800000, 0x38800000, 0x387FC000, 0x33000001, 0x477FE000, 0x477FF000,
]  # fmt: skip
F64 = [
    0, 1 << 63, 1, 1 << 63 | 1, (1 << 52) - 1, 1 << 52, 0x8010000000000000, 0x3FF0000000000000,
    0xBFF0000000000000, 0x3FEFFFFFFFFFFFFF, 0x3FF0000000000001, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF,
    0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000012345, 0x7FF0000000000001,
    0x41DFFFFFFFC00000, 0x41E0000000000000, 0xC1E0000000000000, 0x43E0000000000000, 0xC3E0000000000000,
    0x3FE0000000000000, 0xC004000000000000, 0x47EFFFFFE0000000, 0x47EFFFFFF0000000, 0x36A0000000000000,
    0x3810000000000000, 0x380FFFFFF0000000, 0x3CA0000000000000, 0x40EFFE0000000000, 0x3E60000000000001,
    0x43F0000000000000, 0x7FDFFFFFFFFFFFFF, 0x0020000000000000,
]  # fmt: skip
F16 = [
    0, 0x8000, 1, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x3BFF, 0x3C01, 0x7BFF, 0xFBFF,
    0x7C00, 0xFC00, 0x7E00, 0xFE12, 0x7C01, 0xFFFF, 0x1400, 0x1000, 0x6400, 0x6401, 0x3800, 0xC100, 0x5BFF,
    0x7800,
]  # fmt: skip
BF16 = [
    0, 0x8000, 1, 0x8001, 0x007F, 0x807F, 0x0080, 0x8080, 0x3F80, 0xBF80, 0x3F7F, 0x3F81, 0x7F7F, 0xFF7F,
    0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0xFFFF, 0x3B80, 0x3B00, 0x4300, 0x4301, 0x3F00, 0xC020, 0x1F81,
    0x5F81,
]  # fmt: skip

_U64 = np.uint64


def random_bits(seed: str, n: int) -> np.ndarray:
    """uint64[n] by splitmix64 of a counter; the seed is hashed."""
    start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little")
    with np.errstate(over="ignore"):
        z = _U64(start) + np.arange(1, n + 1, dtype=_U64) * _U64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> _U64(27))) * _U64(0x94D049BB133111EB)
    return z ^ (z >> _U64(31))


def _crossed(table: list[int], slot: int, r: np.ndarray) -> np.ndarray:
    """Half of the values from the table, the first two slots crossed completely where there is room."""
    n, count = r.size // 2, len(table)
    index = np.arange(n) // count ** min(slot, 1) if slot < 2 else (r[:n] >> _U64(40)).astype(np.int64)
    if slot < 2:  # beyond the cross product: any pairs
        beyond = np.arange(n) >= count * count
        index = np.where(beyond, (r[:n] >> _U64(40)).astype(np.int64), index)
    return np.array(table, _U64)[index % count]


def _floats(r: np.ndarray, fraction: int, bias: int, spread: int) -> np.ndarray:
    """Sign, an exponent within ``spread`` of 1, fraction bits: from random bits."""
    exponent = (r >> _U64(56)) % _U64(2 * spread + 1) + _U64(bias - spread)
    sign = (r >> _U64(55)) & _U64(1)
    bits = {10: 15, 7: 15, 23: 31, 52: 63}[fraction]
    mantissa = (r * _U64(0x2545F4914F6CDD1D)) >> _U64(64 - fraction)
    return sign << _U64(bits) | exponent << _U64(fraction) | mantissa


_LAYOUT = {
    "f32": (F32, 23, 127, 20, 32),
    "f64": (F64, 52, 1023, 40, 64),
    "f16": (F16, 10, 15, 8, 16),
    "bf16": (BF16, 7, 127, 20, 16),
}


def values(kind: str, slot: int, seed: str, n: int) -> np.ndarray:
    """uint64[n]: one value of ``kind`` for each thread (or warp)."""
    with np.errstate(over="ignore"):
        r = random_bits(f"{kind} {slot} {seed}", n)
        half = n // 2
        if kind == "i32":
            out = r & _U64(0xFFFFFFFF)
            out[:half] = _crossed(INT, slot, r)
            small = slice(half, half + n // 6)
            out[small] %= _U64(67)
            return out
        if kind == "hi64":
            return values("f64", slot, seed, n) >> _U64(32)
        table, fraction, bias, spread, bits = _LAYOUT[kind]
        out = r & _U64((1 << bits) - 1)
        out[:half] = _crossed(table, slot, r)
        moderate = slice(half, half + 3 * n // 8)
        out[moderate] = _floats(r[moderate], fraction, bias, spread)
        return out


def _matrix(kind: str, slot: int, word: int, seed: str, n: int) -> np.ndarray:
    """One 32-bit word (64-bit for f64) of a fragment: eight regimes of exponent by warp, then rare
    specials.
    """
    with np.errstate(over="ignore"):
        r = random_bits(f"matrix {kind} {slot} {word} {seed}", n)
        if kind == "mi32":
            return r & _U64(0xFFFFFFFF)
        regime = (np.arange(n) // 32) % 8
        base = {"mf16": "f16", "mbf16": "bf16", "mf32": "f32", "mtf32": "f32", "mf64": "f64"}[kind]
        table, fraction, bias, most, bits = _LAYOUT[base]

        def element(r: np.ndarray) -> np.ndarray:
            out = np.zeros(n, _U64)
            for k in range(8):
                at = regime == k
                spread = min(most, (0, 1, 2, 4, 6, 8, 12, 20)[k])
                out[at] = _floats(r[at], fraction, bias, spread)
            if kind == "mtf32":
                out &= _U64(0xFFFFE000)
            rare = (r & _U64(127) == 0) & ((np.arange(n) // 256) % 2 == 1)
            special = np.array(table, _U64)[(r >> _U64(7)).astype(np.int64) % len(table)]
            return np.where(rare, special, out)

        if bits == 16:
            second = random_bits(f"matrix {kind} {slot} {word} {seed} high", n)
            return element(r) | element(second) << _U64(16)
        return element(r)


def _slot(kind: str, slot: int, seed: str, n: int) -> np.ndarray:
    """uint32[n][4]: the four words of a slot."""
    out = np.zeros((n, 4), np.uint32)
    if kind.startswith("m"):
        if kind == "mf64":
            for k in (0, 1):
                v = _matrix(kind, slot, k, seed, n)
                out[:, 2 * k], out[:, 2 * k + 1] = v & _U64(0xFFFFFFFF), v >> _U64(32)
        else:
            for k in range(4):
                out[:, k] = _matrix(kind, slot, k, seed, n)
        return out
    if kind == "f64":
        for k in (0, 1):
            v = values(kind, slot, f"{seed} {k}" if k else seed, n)
            out[:, 2 * k], out[:, 2 * k + 1] = v & _U64(0xFFFFFFFF), v >> _U64(32)
        return out
    for k in range(4):
        v = values(kind, slot, f"{seed} {k}" if k else seed, n)
        if kind in ("f16", "bf16"):
            v = v | values(kind, slot + 1, f"{seed} high {k}", n) << _U64(16)
        out[:, k] = v
    return out


def _relate(words: np.ndarray, kinds: tuple[str, str, str]) -> None:
    """In some threads b is a or -a, and c cancels a * b: ties, exact zeros, equal comparisons."""
    a, b, c = (words[:, 4 * k : 4 * k + 4] for k in range(3))
    last = len(words) // 2
    equal, opposite = slice(last + 1, None, 16), slice(last + 3, None, 16)
    if kinds[0] == kinds[1]:
        b[equal] = a[equal]
        b[opposite] = a[opposite]
        if kinds[0] in ("f32", "f16", "bf16"):
            b[opposite] ^= np.uint32(0x80000000 if kinds[0] == "f32" else 0x80008000)
        elif kinds[0] == "f64":
            b[opposite, 1::2] ^= np.uint32(0x80000000)
    cancel = slice(last + 5, None, 8)
    with np.errstate(all="ignore"):
        if kinds == ("f32", "f32", "f32"):
            p = a[cancel].view(np.float32) * b[cancel].view(np.float32)
            c[cancel] = np.ascontiguousarray(-p).view(np.uint32)
        elif kinds == ("f64", "f64", "f64"):
            x, y = (np.ascontiguousarray(v[cancel]).view(np.float64) for v in (a, b))
            c[cancel] = (-(x * y)).view(np.uint32)
        elif kinds == ("f16", "f16", "f16"):
            h, g = (np.ascontiguousarray(v[cancel]).view(np.float16) for v in (a, b))
            c[cancel] = (-(h * g)).view(np.uint32)


def make(kinds: tuple[str, str, str], seed: str, n: int) -> np.ndarray:
    """uint32[n][WORDS]: the inputs of a launch whose slots a, b, c have these kinds (d: random words)."""
    out = np.zeros((n, WORDS), np.uint32)
    for k, kind in enumerate(kinds):
        out[:, 4 * k : 4 * k + 4] = _slot(kind, k, seed, n)
    _relate(out, kinds)
    for k in range(12, 20):
        out[:, k] = random_bits(f"{seed} word {k}", n) & _U64(0xFFFFFFFF)
    r = random_bits(f"{seed} predicates", n)
    # P5 mostly true, P6 mostly false: the guards
    p = r & _U64(0x1F) | (r >> _U64(8) & _U64(7) != 0).astype(_U64) << _U64(5)
    out[:, P_WORD] = p | (r >> _U64(16) & _U64(7) == 0).astype(_U64) << _U64(6)
    return out


def offsets(kind: str, which: int, n: int) -> np.ndarray:
    """uint32[n]: byte offsets in a warp's 2 KB, multiples of 16 between 32 and 1936.

    ``distinct``: no two lanes of a warp alike; ``any``: repeats; ``few``: eight places for 32 lanes;
    ``same``: one.
    """
    with np.errstate(over="ignore"):
        r = random_bits(f"offsets {kind} {which}", 120 * (n // 32) if kind == "distinct" else n)
    if kind == "distinct":
        units = np.argsort(r.reshape(-1, 120), axis=1, kind="stable")[:, :32].reshape(-1)
    else:
        count = {"any": 120, "few": 8, "same": 1}[kind]
        units = (r % _U64(count)).astype(np.int64) * (7 if kind == "few" else 1)
    return ((units + 2) * 16).astype(np.uint32)

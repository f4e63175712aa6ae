"""Textbook rows T20 to T22: calls, indirect branches, address spaces, access widths, matrix instructions.

Whole-number results, compared bit for bit; the matrix instructions get small whole numbers, whose sums are
exact in every format used.  Sizes in elements (matrix rows: tiles). Left out: rounding inside the matrix
units (rows D4 to D6 bound it).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpusim.kernels.numerics import wrap32
from gpusim.kernels.spec import Args, Arrays, CatalogKernel, LaunchSpec, Size, array, scalar
from gpusim.kernels.textbook import ArgsOf, flat, linear, sizes, textbook, unary

_SMALL = "randint:0:100"


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


# ------------------------------------------------------------------------------------------------ T20 calls


def _per_element(function: Callable[[int, int], int]) -> Callable[[Size, Args], Arrays]:
    """Oracle of ``out[i] = function(x[i], i)`` in wrapping 32-bit arithmetic."""

    def oracle(size: Size, args: Args) -> Arrays:
        return {1: np.array([_signed(function(v, i)) for i, v in enumerate(args[0].tolist())], np.int32)}

    return oracle


def _noinline(v: int, i: int) -> int:
    value = v
    for k in range(v & 7):
        value = _signed((value ^ k) * 1664525 + 1013904223)
    return value


def _fibonacci(k: int) -> int:
    a, b = 0, 1
    for _ in range(k):
        a, b = b, a + b
    return a


def _recursive(v: int, i: int) -> int:
    return math.gcd(v + 360, 84 + i % 36) * 1000 + _fibonacci(v & 7)


def _pointer(v: int, i: int) -> int:
    return (2 * v, v * v, ~v, (v << 5) | (v >> 27))[v & 3] + 1


def _switch(v: int, i: int) -> int:
    r = 0
    for k in range(3):
        case = (v + k) % 12
        r = _signed(
            (
                r + v * 3,
                r ^ (v + 77),
                r - (v << 2),
                r + v.bit_count(),
                r * 5 + 1,
                r | (v & 0xF0),
                r + v // 3,
                r ^ int(f"{v:032b}"[::-1], 2),
                r - (32 - v.bit_length()),
                r + v * v,
                ~r,
                r + 11,
            )[case]
        )
    return r


def _call_row(name: str, title: str, function: Callable[[int, int], int]) -> CatalogKernel:
    launch = linear(unary("int32", _SMALL), (1,), 64)
    return textbook("T20", name, title, "calls", sizes(100, 2000), launch, _per_element(function))


_CALLS = (
    _call_row("call_noinline", "a function called in a loop", _noinline),
    _call_row("call_recursive", "recursion on the local stack", _recursive),
    _call_row("call_pointer", "function pointers chosen by the data", _pointer),
    _call_row("switch_dense", "a jump table", _switch),
)

# --------------------------------------------------------------------------------------- T21 address spaces


def _local(v: int, i: int) -> int:
    count = list(range(16))
    rest = v
    while rest:
        count[rest & 15] += 100
        rest >>= 4
    best = count.index(max(count))
    return best * 10000 + count[best] + count[v & 15]


def _generic(size: Size, args: Args) -> Arrays:
    x = args[0].astype(np.int64)
    beside = x[np.arange(x.size) ^ 1]
    odd = (x & 1) == 1
    old = np.where(odd, beside * 7, -1)
    shared = x * 7 + np.where((beside & 1) == 1, 1000, 0)
    return {1: flat(np.where(odd, -1, 999).astype(np.int32), wrap32(old + shared))}


def _block_3d_launch(size: Size) -> LaunchSpec:
    return LaunchSpec((2, 2, size["n"] // 420), (7, 5, 3), unary("int32", _SMALL)(size), (1,))


def _block_3d(size: Size, args: Args) -> Arrays:
    thread = np.arange(size["n"]) % 105
    lanes = np.where(thread < 96, 32, 9)
    place = thread % 7 * 100 + thread // 7 % 5 * 10000 + thread // 35 * 1000000
    return {1: (args[0] + place + lanes).astype(np.int32)}


_TABLE = np.array([3, 1, 4, 1, 5, 9, 2, 6])


def _globals(size: Size, args: Args) -> Arrays:
    x = args[0]
    return {1: (_TABLE[x & 7] * 1000000 + (1 << (x & 15)) + 5 + 5).astype(np.int32)}


def _struct_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return array("float64", 3 * n), array("float64", 3 * n, "zeros"), scalar("int32", n)


def _struct(size: Size, args: Args) -> Arrays:
    out = args[0].reshape(-1, 3).copy()
    out[:, 0] *= 2.0
    words = out.view(np.int32)  # energy, energy, id, cell, weight, pad
    words[:, 2] ^= words[:, 3]
    return {1: out[::-1].reshape(-1)}


def _bytes_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    inputs = (("int8", -128, 128), ("uint8", 0, 256), ("int16", -32768, 32768), ("uint16", 0, 65536))
    return (
        *(array(dtype, n, f"randint:{low}:{high}") for dtype, low, high in inputs),
        *(array(dtype, n, "zeros") for dtype in ("int32", "uint8", "int16")),
        scalar("int32", n),
    )


def _bytes(size: Size, args: Args) -> Arrays:
    a, b, c, d = (array_.astype(np.int32) for array_ in args[:4])
    v = a * 3 + b - c + d
    high = (v >> 2).astype(np.int16)
    return {4: v, 5: v.astype(np.uint8)[::-1].copy(), 6: high[np.arange(v.size) ^ 1]}


def _hints(size: Size, args: Args) -> Arrays:
    at = np.arange(size["n"])
    v = sum((k + 1) * args[0][at ^ k] for k in range(6))
    return {1: flat(*(np.asarray(v + k, np.int32) for k in range(4)))}


_STRIDE = (1 << 33) + 7


def _index_args(size: Size) -> tuple[dict[str, Any], ...]:
    return (*unary("int32", _SMALL)(size), scalar("int64", _STRIDE))


def _index(size: Size, args: Args) -> Arrays:
    at = np.arange(size["n"], dtype=np.int64) * _STRIDE % size["n"]
    return {1: args[0][at] + np.int32(1)}


def _space_row(
    name: str,
    title: str,
    args: ArgsOf,
    outputs: tuple[int, ...],
    oracle: Callable[[Size, Args], Arrays],
    tiny: int = 128,
) -> CatalogKernel:
    return textbook("T21", name, title, "spaces", sizes(tiny, 2048), linear(args, outputs, 64), oracle)


_SPACES = (
    _space_row(
        "local_array",
        "an array with dynamic index in local memory",
        unary("int32", "randint:0:2000000000"),
        (1,),
        _per_element(_local),
        100,
    ),
    _space_row(
        "generic_pointer", "one pointer to shared or global memory", unary("int32", _SMALL, 2), (1,), _generic
    ),
    textbook(
        "T21",
        "block_3d",
        "blocks of 7x5x3 threads, the last warp partial",
        "spaces",
        sizes(420, 2100),
        _block_3d_launch,
        _block_3d,
    ),
    _space_row("globals", "device and constant variables", unary("int32", _SMALL), (1,), _globals, 100),
    _space_row("struct_24", "structs of 24 bytes", _struct_args, (1,), _struct, 100),
    _space_row("bytes_shorts", "8- and 16-bit accesses", _bytes_args, (4, 5, 6), _bytes, 100),
    _space_row("cache_hints", "loads and stores with cache hints", unary("int32", _SMALL, 4), (1,), _hints),
    textbook(
        "T21",
        "int64_index",
        "64-bit indices",
        "spaces",
        sizes(100, 2000),
        linear(_index_args, (1,), 64, per_block=256),
        _index,
    ),
)

# ----------------------------------------------------------------------------------------- T22 matrix units


def _mma_row(
    name: str,
    title: str,
    shape: tuple[int, int, int],
    dtypes: tuple[str, str],
    oracle: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    b_by_columns: bool = False,
    init: str = "randint:-8:9",
) -> CatalogKernel:
    """One warp a tile; ``oracle`` maps stacks of A [tiles][m][k] and B [tiles][k][n] (float64) to C."""
    m, n, k = shape

    def launch(size: Size) -> LaunchSpec:
        tiles = size["n"]
        args = (
            array(dtypes[0], tiles * m * k, init),
            array(dtypes[0], tiles * k * n, init),
            array(dtypes[1], tiles * m * n, "zeros"),
        )
        return LaunchSpec((tiles, 1, 1), (32, 1, 1), args, (2,))

    def expected(size: Size, args: Args) -> Arrays:
        a = args[0].astype(np.float64).reshape(-1, m, k)
        b = args[1].astype(np.float64)
        b = b.reshape(-1, n, k).transpose(0, 2, 1) if b_by_columns else b.reshape(-1, k, n)
        return {2: oracle(a, b).reshape(-1).astype(dtypes[1])}

    return textbook("T22", name, title, "mma", sizes(3, 64), launch, expected)


def _half_accumulate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b + a[:, :, :8] @ b[:, :8]


_MATRIX = (
    _mma_row(
        "mma_f16_f32",
        "m16n8k16, fp16 in, fp32 out, ldmatrix",
        (16, 8, 16),
        ("float16", "float32"),
        lambda a, b: a @ b + 1.0,
    ),
    _mma_row(
        "mma_f16_f16", "m16n8k16 and k8, fp16 out", (16, 8, 16), ("float16", "float16"), _half_accumulate
    ),
    _mma_row("mma_bf16", "m16n8k16, bf16 in", (16, 8, 16), ("float32", "float32"), np.matmul),
    _mma_row("mma_tf32", "m16n8k8, tf32 in", (16, 8, 8), ("float32", "float32"), np.matmul),
    _mma_row(
        "mma_s8",
        "m16n8k32, int8 in, int32 out",
        (16, 8, 32),
        ("int8", "int32"),
        np.matmul,
        b_by_columns=True,
        init="randint:-128:128",
    ),
    _mma_row("mma_f64", "m8n8k4, fp64", (8, 8, 4), ("float64", "float64"), np.matmul),
)

ROWS: tuple[CatalogKernel, ...] = (*_CALLS, *_SPACES, *_MATRIX)

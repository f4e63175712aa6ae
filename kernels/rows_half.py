"""Seed rows D0 to D6: 16-bit GEMM with fp32 accumulation, from naive to matrix instructions and a tile table.

``C[M][N] = A[M][K] B[K][N]``, row-major; bfloat16 arrays are passed as their bit patterns (uint16), because
numpy has no such dtype.  Sizes follow the text's protocol: 8x8 and 16x16 against the CPU before any large
shape. D2 to D6 load 8 elements at a time: N and K are multiples of 8.

Error bounds.  Products of two 16-bit floats are exact in fp32.  D0 to D3 accumulate with fused
multiply-adds: gamma(K+1) * |A||B| with u = 2**-24.  Matrix instructions align the terms of a k16 step to
the largest and drop what falls below, so each step may lose a few units of 2**-24 of that; gamma(K+16) with
u = 2**-22 covers it. Left out: the text's percentages of peak, which are measured, not computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpusim.kernels.numerics import U16, U32, bfloat16_values, gamma, matmul64
from gpusim.kernels.spec import (
    Args,
    Arrays,
    CatalogKernel,
    LaunchSpec,
    Size,
    Tolerance,
    array,
    ceil_div,
    scalar,
)

U_MMA = 2.0**-22
#: Positive bfloat16 bit patterns from 0.5 up to (not including) 4.
BF16_INIT = "randint:16128:16512"

_FMA_BOUND = Tolerance("bound", 1.0, "gamma(K+1) |A||B|, u = 2**-24: fused multiply-adds in any order")
_MMA_BOUND = Tolerance(
    "bound", 1.0, "gamma(K+16) |A||B|, u = 2**-22: terms of a k16 step aligned and truncated"
)
_FUSED_BOUND = Tolerance(
    "bound", 1.0, "the matrix bound through a 1.13-Lipschitz activation, one rounding to fp16"
)

Tile = tuple[int, int, int]


def _size(name: str, m: int, n: int, k: int) -> Size:
    return {"name": name, "M": m, "N": n, "K": k}


#: Any size (D0, D1); ragged shapes off every tile boundary.
_ANY_SIZES: tuple[Size, ...] = (
    _size("check8", 8, 8, 8),
    _size("check16", 16, 16, 16),
    _size("ragged", 37, 45, 51),
    _size("medium", 64, 64, 64),
    _size("square256", 256, 256, 256),
    _size("large", 1024, 1024, 1024),
)
#: N and K multiples of 8 (D2 to D6).
_VECTOR_SIZES: tuple[Size, ...] = (
    _size("check8", 8, 8, 8),
    _size("check16", 16, 16, 16),
    _size("ragged", 70, 88, 40),
    _size("medium", 64, 64, 64),
    _size("square256", 256, 256, 256),
    _size("large", 1024, 1024, 1024),
)


def _operands(size: Size, bf16: bool) -> tuple[dict[str, object], dict[str, object]]:
    m, n, k = size["M"], size["N"], size["K"]
    dtype, init = ("uint16", BF16_INIT) if bf16 else ("float16", "normal")
    return array(dtype, m * k, init), array(dtype, k * n, init)


def _dimensions(size: Size) -> tuple[dict[str, object], ...]:
    return tuple(scalar("int32", size[name]) for name in "MNK")


def _plain_launch(
    tile: tuple[int, int], block: tuple[int, int, int], bf16: bool
) -> Callable[[Size], LaunchSpec]:
    """Grid of (rows, columns) tiles over C."""

    def launch(size: Size) -> LaunchSpec:
        m, n = size["M"], size["N"]
        args = (*_operands(size, bf16), array("float32", m * n, "zeros"), *_dimensions(size))
        return LaunchSpec((ceil_div(n, tile[1]), ceil_div(m, tile[0]), 1), block, args, (2,))

    return launch


def _values(args: Args) -> tuple[np.ndarray, np.ndarray]:
    a, b = args[0], args[1]
    return (bfloat16_values(a), bfloat16_values(b)) if a.dtype == np.uint16 else (a, b)


def _product(size: Size, args: Args) -> np.ndarray:
    a, b = _values(args)
    return matmul64(a, b, size["M"], size["N"], size["K"])


def _magnitude(size: Size, args: Args) -> np.ndarray:
    a, b = _values(args)
    return matmul64(np.abs(a), np.abs(b), size["M"], size["N"], size["K"])


def _plain_oracle(size: Size, args: Args) -> Arrays:
    return {2: _product(size, args)}


def _fma_bound(size: Size, args: Args) -> Arrays:
    return {2: gamma(size["K"] + 1, U32) * _magnitude(size, args)}


def _mma_bound(size: Size, args: Args) -> Arrays:
    return {2: gamma(size["K"] + 16, U_MMA) * _magnitude(size, args)}


def _plain_row(
    id_: str,
    seed: str,
    title: str,
    file: str,
    entry: str,
    tile: tuple[int, int],
    block: tuple[int, int, int],
    *,
    bf16: bool = False,
    mma: bool = False,
    sizes: tuple[Size, ...] = _VECTOR_SIZES,
    options: tuple[str, ...] = (),
    claims: tuple[tuple[int, str], ...] = (),
) -> CatalogKernel:
    return CatalogKernel(
        id=id_,
        seed=seed,
        title=title,
        file=f"cuda/{file}.cu",
        entry=entry,
        sizes=sizes,
        launch=_plain_launch(tile, block, bf16),
        oracle=_plain_oracle,
        tolerance=_MMA_BOUND if mma else _FMA_BOUND,
        bound=_mma_bound if mma else _fma_bound,
        options=options,
        claims=claims,
    )


# --------------------------------------------------------------------------------------- D5 fused epilogues


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1.0 + np.exp(-x))


def _fused_launch(size: Size) -> LaunchSpec:
    m, n = size["M"], size["N"]
    args = (
        *_operands(size, False),
        array("float16", n),
        array("float16", m * n),
        array("float16", m * n, "zeros"),
        *_dimensions(size),
    )
    return LaunchSpec((ceil_div(n, 64), ceil_div(m, 64), 1), (128, 1, 1), args, (4,))


def _fused_row(name: str, activation: Callable[[np.ndarray], np.ndarray]) -> CatalogKernel:
    def parts(size: Size, args: Args) -> tuple[np.ndarray, np.ndarray]:
        biased = _product(size, args) + np.tile(args[2].astype(np.float64), size["M"])
        return biased, args[3].astype(np.float64)

    def oracle(size: Size, args: Args) -> Arrays:
        biased, residual = parts(size, args)
        return {4: activation(biased) + residual}

    def bound(size: Size, args: Args) -> Arrays:
        biased, residual = parts(size, args)
        result = activation(biased) + residual
        before = 1.13 * gamma(size["K"] + 16, U_MMA) * _magnitude(size, args)
        in_fp32 = before + 32 * U32 * (np.abs(biased) + np.abs(residual))
        # A result that lands on the other side of a rounding boundary costs the whole half-ulp once more.
        return {4: in_fp32 + U16 * (np.abs(result) + in_fp32) + 2.0**-25}

    return CatalogKernel(
        id=f"D5-{name}",
        seed="D5",
        title=f"matrix instructions with bias, {name} and residual in the epilogue",
        file="cuda/d4_gemm_mma.cu",
        entry=f"d5_gemm_bias_{name}",
        sizes=_VECTOR_SIZES,
        launch=_fused_launch,
        oracle=oracle,
        tolerance=_FUSED_BOUND,
        bound=bound,
    )


# -------------------------------------------------------------------------------------------- D6 tile table

#: Every tile the sources instantiate, BM, BN, BK.
D6_TILES: tuple[Tile, ...] = tuple(
    (bm, bn, bk) for bm in (32, 64, 128) for bn in (32, 64, 128) for bk in (16, 32, 64)
)

#: Shape bucket -> tile.  ``row``: one row of A: reading B is all that counts, so a low tile, a deep K step.
#: ``small``: too few tiles to fill the device, so smaller ones.  ``large``: reuse comes first.
D6_TABLE: dict[str, Tile] = {
    "row": (32, 64, 64),
    "small": (32, 32, 64),
    "middle": (64, 64, 32),
    "large": (128, 128, 32),
}


def d6_bucket(m: int, n: int, k: int, sms: int = 132) -> str:
    """Shape bucket: ``row`` for M = 1, else by the largest tile that gives every SM a block."""
    if min(m, n, k) < 1:
        raise ValueError(f"a matrix product needs positive dimensions, not {m}x{n}x{k}")
    if m == 1:
        return "row"
    for bucket in ("large", "middle"):
        bm, bn, _ = D6_TABLE[bucket]
        if ceil_div(m, bm) * ceil_div(n, bn) >= sms:
            return bucket
    return "small"


def d6_choose(m: int, n: int, k: int, sms: int = 132) -> Tile:
    """Tile (BM, BN, BK) for a shape: the bucket's, with BK cut to the K there is."""
    bm, bn, bk = D6_TABLE[d6_bucket(m, n, k, sms)]
    fitting = 1 << max(4, math.ceil(math.log2(k)))
    return bm, bn, min(bk, fitting)


_D6_SIZES: tuple[Size, ...] = (
    _size("check16", 16, 16, 16),
    _size("row", 1, 256, 128),
    _size("ragged", 150, 136, 72),
    _size("square256", 256, 256, 256),
    _size("large", 1024, 1024, 1024),
)

_D6_ROWS = tuple(
    _plain_row(
        f"D6-{bm}x{bn}x{bk}",
        "D6",
        f"matrix instructions, tile {bm}x{bn}x{bk}",
        "d4_gemm_mma",
        f"d6_gemm_{bm}x{bn}x{bk}",
        (bm, bn),
        (128, 1, 1),
        mma=True,
        sizes=_D6_SIZES,
        options=("-DD6_TILES",),
    )
    for bm, bn, bk in D6_TILES
)

ROWS: tuple[CatalogKernel, ...] = (
    *(
        _plain_row(
            f"D0{'-bf16' * bf16}",
            "D0",
            f"naive {'bf16' if bf16 else 'fp16'} GEMM, fp32 accumulate",
            "d0_gemm_naive",
            f"d0_gemm_naive{'_bf16' * bf16}",
            (8, 32),
            (32, 8, 1),
            bf16=bf16,
            sizes=_ANY_SIZES,
        )
        for bf16 in (False, True)
    ),
    *(
        _plain_row(
            f"D1{'-bf16' * bf16}",
            "D1",
            f"shared 32x32 tile, {'bf16' if bf16 else 'fp16'}",
            "d0_gemm_naive",
            f"d1_gemm_shared{'_bf16' * bf16}",
            (32, 32),
            (32, 8, 1),
            bf16=bf16,
            sizes=_ANY_SIZES,
        )
        for bf16 in (False, True)
    ),
    _plain_row(
        "D2",
        "D2",
        "64x64x32 register tile, 128-bit loads, no padding",
        "d2_gemm_register",
        "d2_gemm_register",
        (64, 64),
        (16, 16, 1),
    ),
    _plain_row(
        "D3-pad1",
        "D3",
        "D2 with rows padded by one half: staging in 2-byte stores",
        "d2_gemm_register",
        "d3_gemm_pad1",
        (64, 64),
        (16, 16, 1),
        claims=((4, "+1 removes the read conflict and breaks the 16-byte stores"),),
    ),
    _plain_row(
        "D3-pad16",
        "D3",
        "D2 with rows padded by 16 bytes: vector stores stay",
        "d2_gemm_register",
        "d3_gemm_pad16",
        (64, 64),
        (16, 16, 1),
        claims=((4, "a pad of 16 bytes removes the read conflict and keeps the alignment"),),
    ),
    _plain_row(
        "D4-wmma",
        "D4",
        "matrix instructions through mma.h, 64x64x32",
        "d4_gemm_wmma",
        "d4_gemm_wmma",
        (64, 64),
        (128, 1, 1),
        mma=True,
    ),
    *(
        _plain_row(
            f"D4-mma{'-bf16' * bf16}",
            "D4",
            f"ldmatrix and mma.sync, {'bf16' if bf16 else 'fp16'}, 64x64x32",
            "d4_gemm_mma",
            f"d4_gemm_mma{'_bf16' * bf16}",
            (64, 64),
            (128, 1, 1),
            bf16=bf16,
            mma=True,
        )
        for bf16 in (False, True)
    ),
    _fused_row("relu", _relu),
    _fused_row("gelu", _gelu),
    _fused_row("silu", _silu),
    *_D6_ROWS,
)

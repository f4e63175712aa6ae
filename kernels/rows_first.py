"""Seed rows E1 to E8: the first kernels of a course (vector add, reductions, small matrix products, a check).

Sizes in elements; block shapes as the sources' headers say.  Matrix rows carry the dimensions M, N, K.
Left out: the course's run times, which its text calls estimates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpusim.kernels.numerics import U32, gamma, matmul64, matmul_bound
from gpusim.kernels.spec import (
    EXACT,
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

_ONE_ADD = Tolerance("exact", 0.0, "one IEEE addition an element")
_ANY_ORDER = Tolerance("bound", 1.0, "running-error bound gamma(n) of a sum accumulated in any order")

_VECTOR_SIZES: tuple[Size, ...] = (
    {"name": "tiny", "n": 256},
    {"name": "ragged", "n": 1000},
    {"name": "medium", "n": 1 << 16},
    {"name": "large", "n": 1 << 24},
)


def _add_launch(grid: int | None) -> Callable[[Size], LaunchSpec]:
    def launch(size: Size) -> LaunchSpec:
        n = size["n"]
        args = (array("float32", n), array("float32", n), array("float32", n, "zeros"), scalar("int32", n))
        return LaunchSpec((grid or ceil_div(n, 256), 1, 1), (256, 1, 1), args, (2,))

    return launch


def _add_oracle(size: Size, args: Args) -> Arrays:
    return {2: args[0] + args[1]}


def _reduce_launch(size: Size) -> LaunchSpec:
    n = size["n"]
    args = (array("float32", n), array("float32", 1, "zeros"), scalar("int32", n))
    return LaunchSpec((min(ceil_div(n, 1024), 1024), 1, 1), (256, 1, 1), args, (1,))


def _reduce_oracle(size: Size, args: Args) -> Arrays:
    return {1: np.array([args[0].astype(np.float64).sum()])}


def _reduce_bound(size: Size, args: Args) -> Arrays:
    # The longest chain of additions: grid-stride terms a thread, eight tree levels, one atomic a block.
    n = size["n"]
    blocks = min(ceil_div(n, 1024), 1024)
    chain = ceil_div(n, blocks * 256) + 8 + blocks
    return {1: np.array([gamma(chain) * np.abs(args[0].astype(np.float64)).sum()])}


def _matmul_launch(tile: tuple[int, int], block: tuple[int, int]) -> Callable[[Size], LaunchSpec]:
    """Grid over C with tiles of (columns, rows)."""

    def launch(size: Size) -> LaunchSpec:
        m, n, k = size["M"], size["N"], size["K"]
        args = (
            array("float32", m * k),
            array("float32", k * n),
            array("float32", m * n, "zeros"),
            scalar("int32", m),
            scalar("int32", n),
            scalar("int32", k),
        )
        return LaunchSpec((ceil_div(n, tile[0]), ceil_div(m, tile[1]), 1), (*block, 1), args, (2,))

    return launch


def _matmul_oracle(size: Size, args: Args) -> Arrays:
    return {2: matmul64(args[0], args[1], size["M"], size["N"], size["K"])}


def _matmul_bound(size: Size, args: Args) -> Arrays:
    return {2: matmul_bound(args[0], args[1], size["M"], size["N"], size["K"], U32)}


def _square(name: str, n: int) -> Size:
    return {"name": name, "M": n, "N": n, "K": n}


_MATMUL_SIZES: tuple[Size, ...] = (
    _square("tiny", 16),
    {"name": "ragged", "M": 37, "N": 50, "K": 29},
    _square("medium", 128),
    _square("large", 1024),
)
_FLOAT4_SIZES: tuple[Size, ...] = (
    _square("tiny", 32),
    {"name": "ragged", "M": 37, "N": 52, "K": 28},
    _square("medium", 128),
    _square("large", 1024),
)


def _check_launch(size: Size) -> LaunchSpec:
    n = size["n"]
    args = (
        array("float32", n),
        array("float32", n),
        scalar("int32", n),
        scalar("float32", 0.25),
        scalar("float32", 0.5),
        array("int32", 1, "zeros"),
        array("int32", 1, "zeros"),
    )
    return LaunchSpec((ceil_div(n, 256), 1, 1), (256, 1, 1), args, (5, 6))


def _check_oracle(size: Size, args: Args) -> Arrays:
    got, want, _, atol, rtol = args[:5]
    error = np.abs(got - want)
    # The kernel's limit is one fused multiply-add: exact product and sum, one rounding.
    limit = (np.float64(rtol) * np.abs(want).astype(np.float64) + np.float64(atol)).astype(np.float32)
    count = np.count_nonzero(~(error <= limit))
    return {5: np.array([count], np.int32), 6: np.array([error.max()], np.float32).view(np.int32)}


def _matmul_row(
    id_: str,
    seed: str,
    title: str,
    file: str,
    entry: str,
    launch: Callable[[Size], LaunchSpec],
    sizes: tuple[Size, ...] = _MATMUL_SIZES,
    claims: tuple[tuple[int, str], ...] = (),
) -> CatalogKernel:
    return CatalogKernel(
        id=id_,
        seed=seed,
        title=title,
        file=f"cuda/{file}",
        entry=entry,
        sizes=sizes,
        launch=launch,
        oracle=_matmul_oracle,
        tolerance=_ANY_ORDER,
        bound=_matmul_bound,
        claims=claims,
    )


def _vector_row(id_: str, title: str, entry: str, grid: int | None) -> CatalogKernel:
    return CatalogKernel(
        id=id_,
        seed="E1",
        title=title,
        file="cuda/e1_vector_add.cu",
        entry=entry,
        sizes=_VECTOR_SIZES,
        launch=_add_launch(grid),
        oracle=_add_oracle,
        tolerance=_ONE_ADD,
    )


def _reduce_row(id_: str, title: str, entry: str) -> CatalogKernel:
    return CatalogKernel(
        id=id_,
        seed="E2",
        title=title,
        file="cuda/e2_reduction.cu",
        entry=entry,
        sizes=_VECTOR_SIZES,
        launch=_reduce_launch,
        oracle=_reduce_oracle,
        tolerance=_ANY_ORDER,
        bound=_reduce_bound,
    )


_TILES = (8, 16, 32)

ROWS: tuple[CatalogKernel, ...] = (
    _vector_row("E1", "vector add, one element a thread", "e1_vector_add", None),
    _vector_row("E1-grid-stride", "vector add, grid-stride loop", "e1_vector_add_grid_stride", 64),
    _reduce_row("E2", "sum by a shared-memory tree", "e2_reduce_tree"),
    _reduce_row("E2-shuffle", "sum by warp shuffles", "e2_reduce_shuffle"),
    _reduce_row("E2-divergent", "sum by an interleaved tree", "e2_reduce_divergent"),
    _matmul_row(
        "E3",
        "E3",
        "naive matmul, 16x16 block",
        "e3_matmul_naive.cu",
        "e3_matmul_naive",
        _matmul_launch((16, 16), (16, 16)),
        claims=((8, "2MNK element reads, the base that E4 divides by T"),),
    ),
    *(
        _matmul_row(
            f"E4-tile{t}",
            "E4",
            f"shared matmul with bounds checks, TILE {t}",
            "e4_matmul_shared.cu",
            f"e4_matmul_tile{t}",
            _matmul_launch((t, t), (t, t)),
            claims=((8, f"2MNK/{t} element reads; sectors depend on the width of a tile row"),),
        )
        for t in _TILES
    ),
    _matmul_row(
        "E5",
        "E5",
        "shared matmul, As[16][17] and Bs[16][17]",
        "e4_matmul_shared.cu",
        "e5_matmul_tile16_pad",
        _matmul_launch((16, 16), (16, 16)),
        claims=((4, "the pad beside E4-tile16: same reads, other banks for the stores"),),
    ),
    _matmul_row(
        "E6",
        "E6",
        "shared matmul, float4 loads",
        "e6_matmul_float4.cu",
        "e6_matmul_float4",
        _matmul_launch((32, 32), (8, 32)),
        sizes=_FLOAT4_SIZES,
    ),
    _matmul_row(
        "E7",
        "E7",
        "naive matmul, k loop unrolled by 4 by hand",
        "e6_matmul_float4.cu",
        "e7_matmul_unroll4",
        _matmul_launch((16, 16), (16, 16)),
    ),
    CatalogKernel(
        id="E8",
        seed="E8",
        title="mismatches beyond a tolerance, counted on the device",
        file="cuda/e8_check_tolerance.cu",
        entry="e8_count_mismatches",
        sizes=_VECTOR_SIZES,
        launch=_check_launch,
        oracle=_check_oracle,
        tolerance=EXACT,
    ),
)

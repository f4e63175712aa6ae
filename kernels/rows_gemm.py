"""Rows A, B and C of seeds.md: the fp32 GEMM ladder, row-or-column, and the matrixMul tiles.

All matrices are row-major fp32.  A rows: ``C = alpha * A @ B + beta * C``; B and C rows: ``C = A @ B``.

Error bound.  With u = 2**-24 and gamma(n) = n*u / (1 - n*u), K fused multiply-adds from zero in any order
leave ``|acc - A@B| <= gamma(K) * |A| @ |B|`` (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
ed., 3.1).  The epilogue adds one rounded product and one fused multiply-add, so
``|C - oracle| <= gamma(K+2) * (|alpha| * |A| @ |B| + |beta| * |C0|)``; one more unit covers the float64
oracle.  Subnormal products are not covered: the inputs are standard normal draws, and none occurs.

Bit-exact oracle.  Every kernel here adds ``k = 0 .. K-1`` in that order into one accumulator with fused
multiply-adds, whatever its tiling: :func:`fma_chain` repeats that.  All of them must agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpusim.kernels.numerics import gamma
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

#: Epilogue scalars of the A rows; alpha is no power of two, so that its rounding shows.
ALPHA, BETA = 1.3, -0.7

GEMM_BOUND = Tolerance(
    "bound",
    1.0,
    "gamma(K+3) * (|alpha| * |A| @ |B| + |beta| * |C|) with unit roundoff 2**-24: K fused multiply-adds, "
    "two roundings in the epilogue, one for the float64 oracle",
)


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Correctly rounded fp32 ``a * b + c`` (finite operands).

    The product of two fp32 numbers is exact in float64.  The sum is rounded to odd there: where rounding to
    nearest lost something and the last bit is even, step to the odd neighbour on the side of the lost part.
    Rounding that to fp32 is then correct, because 53 >= 24 + 2 bits (Boldo and Melquiond, 2008).
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    back = total - product  # Knuth's two-sum: lost = (product + addend) - total, exactly
    lost = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    odd = np.nextafter(total, np.where(lost > 0.0, np.inf, -np.inf))
    rounded: np.ndarray = np.where((lost != 0.0) & even, odd, total).astype(np.float32)
    return rounded


def fma_chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b`` as a chain of fp32 fused multiply-adds from zero, k ascending."""
    acc = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        acc = fma32(a[:, k : k + 1], b[k : k + 1, :], acc)
    return acc


def _matmul64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b`` in float64, by panels of rows: only ``b`` and the result are held in full."""
    wide = b.astype(np.float64)
    out = np.empty((a.shape[0], b.shape[1]))
    for row in range(0, a.shape[0], 512):
        np.matmul(a[row : row + 512].astype(np.float64), wide, out=out[row : row + 512])
    return out


# ----------------------------------------------------------------------------------------- A rows: the ladder

_A_OUT = 7


def _a_launch(
    block: tuple[int, int, int], tile_m: int, tile_n: int, *, x_is_row: bool = False
) -> Callable[[Size], LaunchSpec]:
    def launch(size: Size) -> LaunchSpec:
        m, n, k = size["M"], size["N"], size["K"]
        over_m, over_n = ceil_div(m, tile_m), ceil_div(n, tile_n)
        args = (
            scalar("int32", m),
            scalar("int32", n),
            scalar("int32", k),
            scalar("float32", ALPHA),
            array("float32", m * k),
            array("float32", k * n),
            scalar("float32", BETA),
            array("float32", m * n),
        )
        grid = (over_m, over_n, 1) if x_is_row else (over_n, over_m, 1)
        return LaunchSpec(grid, block, args, (_A_OUT,))

    return launch


def _a_matrices(size: Size, args: Args) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    m, n, k = size["M"], size["N"], size["K"]
    return args[4].reshape(m, k), args[5].reshape(k, n), args[7].reshape(m, n)


def _a_oracle(size: Size, args: Args) -> Arrays:
    a, b, c = _a_matrices(size, args)
    result = float(args[3]) * _matmul64(a, b) + float(args[6]) * c.astype(np.float64)
    return {_A_OUT: result.reshape(-1)}


def _a_bound(size: Size, args: Args) -> Arrays:
    a, b, c = _a_matrices(size, args)
    scale = abs(float(args[3])) * _matmul64(np.abs(a), np.abs(b)) + abs(float(args[6])) * np.abs(c)
    return {_A_OUT: (gamma(size["K"] + 3) * scale).reshape(-1)}


def _a_exact(size: Size, args: Args) -> Arrays:
    a, b, c = _a_matrices(size, args)
    scaled = (np.float32(args[6]) * c).astype(np.float32)
    alpha = np.full_like(scaled, args[3])
    return {_A_OUT: fma32(alpha, fma_chain(a, b), scaled).reshape(-1)}


def _cube(name: str, n: int) -> Size:
    return {"name": name, "M": n, "N": n, "K": n}


#: Not square, so that swapped dimensions show; the ragged size only where a row guards its edges.
_TINY_32: Size = {"name": "tiny", "M": 64, "N": 96, "K": 32}
_TINY_64: Size = {"name": "tiny", "M": 64, "N": 192, "K": 32}
_TINY_128: Size = {"name": "tiny", "M": 128, "N": 256, "K": 48}
_RAGGED: Size = {"name": "ragged", "M": 70, "N": 45, "K": 33}
_MIDDLE, _LARGE = _cube("middle", 512), _cube("large", 4096)


def _a_row(
    row_id: str,
    title: str,
    file: str,
    launch: Callable[[Size], LaunchSpec],
    tiny: Size,
    claims: tuple[tuple[int, str], ...] = (),
    *,
    entry: str | None = None,
    ragged: bool = False,
) -> CatalogKernel:
    sizes = (tiny, _RAGGED, _MIDDLE, _LARGE) if ragged else (tiny, _MIDDLE, _LARGE)
    return CatalogKernel(
        id=row_id,
        seed=row_id.split("-")[0],
        title=title,
        file=f"cuda/{file}.cu",
        entry=entry or file,
        sizes=sizes,
        launch=launch,
        oracle=_a_oracle,
        tolerance=GEMM_BOUND,
        bound=_a_bound,
        exact=_a_exact,
        claims=claims,
        in_ladder=True,
    )


_TILE_128 = _a_launch((256, 1, 1), 128, 128)

_LADDER: tuple[CatalogKernel, ...] = (
    _a_row(
        "A1",
        "naive, x is the row: a warp walks a column of A",
        "gemm_a1_naive_row",
        _a_launch((32, 32, 1), 32, 32, x_is_row=True),
        _TINY_32,
        ((1, "the slow end of the A1-to-A2 step"), (6, "the mapping that really reads A uncoalesced")),
        ragged=True,
    ),
    _a_row(
        "A2",
        "coalesced, 32x32 block: the warp covers a row of C",
        "gemm_a2_coalesced",
        _a_launch((32, 32, 1), 32, 32),
        _TINY_32,
        ((1, "the fast end of the A1-to-A2 step"), (6, "threadIdx.x as the column: A is a broadcast")),
        ragged=True,
    ),
    _a_row(
        "A2-1d",
        "coalesced, 1,024 threads in one dimension",
        "gemm_a2_coalesced",
        _a_launch((1024, 1, 1), 32, 32),
        _TINY_32,
        ((1, "the same warp shape from a 1-D block"),),
        entry="gemm_a2_coalesced_1d",
        ragged=True,
    ),
    _a_row(
        "A3-16",
        "shared tile 16x16",
        "gemm_a3_tile",
        _a_launch((16, 16, 1), 16, 16),
        _TINY_32,
        ((3, "As[ty][k] with a 16x16 block"), (8, "global reads against A2, T=16")),
        entry="gemm_a3_tile16",
    ),
    _a_row(
        "A3-32",
        "shared tile 32x32",
        "gemm_a3_tile",
        _a_launch((32, 32, 1), 32, 32),
        _TINY_32,
        ((2, "As[ty][k] with a 32-wide block"), (8, "global reads against A2, T=32")),
        entry="gemm_a3_tile32",
    ),
    _a_row(
        "A3-32x8",
        "shared tile 32x8, BK 32",
        "gemm_a3_tile",
        _a_launch((32, 8, 1), 8, 32),
        _TINY_32,
        ((8, "a flat tile: A and B are saved by different factors"),),
        entry="gemm_a3_tile32x8",
    ),
    _a_row(
        "A4",
        "1-D register tile, 64x64x8, 8 results a thread",
        "gemm_a4_tile1d",
        _a_launch((512, 1, 1), 64, 64),
        _TINY_64,
        ((7, "first step of register tiling"),),
    ),
    _a_row(
        "A5",
        "2-D register tile, 128x128x8, 8x8 results a thread",
        "gemm_a5_tile2d",
        _TILE_128,
        _TINY_128,
        ((7, "shared reads an FMA fall below the pipe's limit"),),
    ),
    _a_row(
        "A6",
        "vectorised: float4 loads, A transposed while staged",
        "gemm_a6_vectorised",
        _TILE_128,
        _TINY_128,
        ((4, "the conflicts that A8 removes"),),
    ),
    _a_row(
        "A7",
        "warp tile 64x32 in a block tile 128x128x16",
        "gemm_a7_warptile",
        _TILE_128,
        _TINY_128,
        ((7, "reads of a warp against its FMAs"),),
    ),
    _a_row(
        "A8-pad",
        "staging with padding by whole quads",
        "gemm_a8_staging",
        _TILE_128,
        _TINY_128,
        ((4, "a pad of 16 bytes where 4 would break the vectors"),),
        entry="gemm_a8_pad",
    ),
    _a_row(
        "A8-layout",
        "staging with rearranged quads of B",
        "gemm_a8_staging",
        _TILE_128,
        _TINY_128,
        ((4, "reads saved, stores paid"),),
        entry="gemm_a8_layout",
    ),
    _a_row(
        "A8-swizzle",
        "staging with an XOR swizzle",
        "gemm_a8_staging",
        _TILE_128,
        _TINY_128,
        ((4, "no conflict and no padding"),),
        entry="gemm_a8_swizzle",
    ),
    _a_row(
        "A9-double",
        "double buffer, next tile prefetched into registers",
        "gemm_a9_doublebuffer",
        _TILE_128,
        _TINY_128,
        ((7, "latency of the loads behind the FMAs"),),
    ),
    _a_row(
        "A9-async",
        "double buffer filled by cp.async",
        "gemm_a9_cpasync",
        _TILE_128,
        _TINY_128,
        ((7, "no staging registers"), (4, "16 bytes of padding under 16-byte copies")),
    ),
)

# -------------------------------------------------------------------------------------- B rows: row or column

_B_OUT = 2


def _leading(size: Size) -> tuple[int, int, int]:
    """Leading dimensions lda, ldb, ldc; dense when the size names none."""
    return size.get("lda", size["K"]), size.get("ldb", size["N"]), size.get("ldc", size["N"])


def _b_launch(
    block: tuple[int, int, int], tile: int, *, leading: bool = False
) -> Callable[[Size], LaunchSpec]:
    def launch(size: Size) -> LaunchSpec:
        m, n, k = size["M"], size["N"], size["K"]
        lda, ldb, ldc = _leading(size)
        args: tuple[dict[str, Any], ...] = (
            array("float32", m * lda),
            array("float32", k * ldb),
            array("float32", m * ldc),
            scalar("int32", m),
            scalar("int32", n),
            scalar("int32", k),
        )
        if leading:
            args += (scalar("int32", lda), scalar("int32", ldb), scalar("int32", ldc))
        return LaunchSpec((ceil_div(n, tile), ceil_div(m, tile), 1), block, args, (_B_OUT,))

    return launch


def _b_matrices(size: Size, args: Args) -> tuple[np.ndarray, np.ndarray]:
    m, n, k = size["M"], size["N"], size["K"]
    lda, ldb, _ = _leading(size)
    return args[0].reshape(m, lda)[:, :k], args[1].reshape(k, ldb)[:, :n]


def _b_place(size: Size, background: np.ndarray, product: np.ndarray) -> Arrays:
    """The product in its rows of ``ldc``; what lies between them stays as it was."""
    out = background.reshape(size["M"], _leading(size)[2]).astype(product.dtype)
    out[:, : size["N"]] = product
    return {_B_OUT: out.reshape(-1)}


def _b_oracle(size: Size, args: Args) -> Arrays:
    return _b_place(size, args[_B_OUT], _matmul64(*_b_matrices(size, args)))


def _b_bound(size: Size, args: Args) -> Arrays:
    a, b = _b_matrices(size, args)
    limit = gamma(size["K"] + 1) * _matmul64(np.abs(a), np.abs(b))
    return _b_place(size, np.zeros_like(args[_B_OUT]), limit)


def _b_exact(size: Size, args: Args) -> Arrays:
    return _b_place(size, args[_B_OUT], fma_chain(*_b_matrices(size, args)))


_PRODUCT_BOUND = Tolerance(
    "bound",
    1.0,
    "gamma(K+1) * |A| @ |B| with unit roundoff 2**-24: K fused multiply-adds, one for the float64 oracle; "
    "elements between N and ldc must not change",
)

_RAGGED_LD: Size = {"name": "ragged", "M": 70, "N": 90, "K": 50, "lda": 52, "ldb": 92, "ldc": 96}
_UNALIGNED: Size = {"name": "unaligned", "M": 67, "N": 61, "K": 35, "lda": 35, "ldb": 61, "ldc": 63}


def _b_row(
    row_id: str,
    title: str,
    file: str,
    launch: Callable[[Size], LaunchSpec],
    sizes: tuple[Size, ...],
    claims: tuple[tuple[int, str], ...] = (),
    *,
    entry: str | None = None,
    options: tuple[str, ...] = (),
) -> CatalogKernel:
    return CatalogKernel(
        id=row_id,
        seed=row_id.split("-")[0],
        title=title,
        file=f"cuda/{file}.cu",
        entry=entry or file,
        sizes=sizes,
        launch=launch,
        oracle=_b_oracle,
        tolerance=_PRODUCT_BOUND,
        bound=_b_bound,
        exact=_b_exact,
        options=options,
        claims=claims,
    )


_GUARDED = (_TINY_32, _RAGGED, _MIDDLE, _LARGE)
_WHOLE = (_TINY_64, _MIDDLE, _LARGE)
_FLOAT4 = (_TINY_64, _RAGGED_LD, _UNALIGNED, _MIDDLE, _LARGE)
_B_16 = (16, 16, 1)

_ROW_OR_COLUMN: tuple[CatalogKernel, ...] = (
    _b_row("B1", "inner product, naive", "gemm_b1_inner", _b_launch(_B_16, 16), _GUARDED),
    _b_row(
        "B2-16",
        "tiled inner product 16x16",
        "gemm_b2_tiled",
        _b_launch(_B_16, 16),
        _GUARDED,
        ((3, "As[ty][k] in a 16x16 block: two words, two banks"), (8, "global reads against B1")),
        entry="gemm_b2_tiled16",
    ),
    _b_row(
        "B2-32",
        "tiled inner product 32x32",
        "gemm_b2_tiled",
        _b_launch((32, 32, 1), 32),
        _GUARDED,
        ((2, "As[ty][k] in a 32x32 block: a broadcast"), (8, "global reads against B1")),
        entry="gemm_b2_tiled32",
    ),
    _b_row(
        "B2-32-ty",
        "tiled inner product 32x32, ty varies over the warp",
        "gemm_b2_tiled",
        _b_launch((32, 32, 1), 32),
        _GUARDED,
        ((2, "the mapping under which the read is a 32-way conflict"),),
        entry="gemm_b2_tiled32_ty",
    ),
    _b_row(
        "B3",
        "outer product 64x64x16, 4x4 a thread, padded by one word",
        "gemm_b3_outer",
        _b_launch(_B_16, 64),
        _WHOLE,
        ((4, "+1 padding: what reads gain, what stores and vector loads lose"),),
    ),
    _b_row(
        "B3-nopad",
        "outer product 64x64x16, 4x4 a thread, no padding",
        "gemm_b3_outer",
        _b_launch(_B_16, 64),
        _WHOLE,
        ((4, "the reference without padding"),),
        entry="gemm_b3_outer_nopad",
    ),
    _b_row(
        "B4",
        "outer product with float4, leading dimensions and ragged edges",
        "gemm_b4_float4",
        _b_launch(_B_16, 64, leading=True),
        _FLOAT4,
        ((4, "padding by 16 bytes keeps the vectors"),),
    ),
    _b_row(
        "B5-64",
        "B4 under __launch_bounds__(256, 4): 64 registers",
        "gemm_b5_bounds",
        _b_launch(_B_16, 64, leading=True),
        _FLOAT4,
        entry="gemm_b5_bounds64",
    ),
    _b_row(
        "B5-spill",
        "B4 under __launch_bounds__(256, 8): 32 registers, spills",
        "gemm_b5_bounds",
        _b_launch(_B_16, 64, leading=True),
        _FLOAT4,
        entry="gemm_b5_spill",
    ),
    _b_row(
        "B5-maxreg",
        "B4 compiled with --maxrregcount=32: spills",
        "gemm_b5_bounds",
        _b_launch(_B_16, 64, leading=True),
        _FLOAT4,
        entry="gemm_b5_maxreg",
        options=("--maxrregcount=32",),
    ),
)

# ------------------------------------------------------------------------------------------ C rows: matrixMul


def _c_launch(block: tuple[int, int, int], tile: int) -> Callable[[Size], LaunchSpec]:
    def launch(size: Size) -> LaunchSpec:
        m, n, k = size["M"], size["N"], size["K"]
        args = (
            array("float32", m * n, "zeros"),
            array("float32", m * k),
            array("float32", k * n),
            scalar("int32", k),
            scalar("int32", n),
        )
        return LaunchSpec((n // tile, m // tile, 1), block, args, (0,))

    return launch


def _c_matrices(size: Size, args: Args) -> tuple[np.ndarray, np.ndarray]:
    return args[1].reshape(size["M"], size["K"]), args[2].reshape(size["K"], size["N"])


def _c_oracle(size: Size, args: Args) -> Arrays:
    return {0: _matmul64(*_c_matrices(size, args)).reshape(-1)}


def _c_bound(size: Size, args: Args) -> Arrays:
    a, b = _c_matrices(size, args)
    return {0: (gamma(size["K"] + 1) * _matmul64(np.abs(a), np.abs(b))).reshape(-1)}


def _c_exact(size: Size, args: Args) -> Arrays:
    return {0: fma_chain(*_c_matrices(size, args)).reshape(-1)}


#: The middle size is the sample's own default: A 320x320, B 320x640.
_C_SIZES: tuple[Size, ...] = (_TINY_32, {"name": "middle", "M": 320, "N": 640, "K": 320}, _LARGE)


def _c_row(
    row_id: str,
    title: str,
    entry: str,
    block: tuple[int, int, int],
    tile: int,
    claims: tuple[tuple[int, str], ...] = (),
    *,
    file: str = "matmul_c_tiles",
) -> CatalogKernel:
    return CatalogKernel(
        id=row_id,
        seed=row_id.split("-")[0],
        title=title,
        file=f"cuda/{file}.cu",
        entry=entry,
        sizes=_C_SIZES,
        launch=_c_launch(block, tile),
        oracle=_c_oracle,
        tolerance=_PRODUCT_BOUND,
        bound=_c_bound,
        exact=_c_exact,
        claims=claims,
    )


_MATRIX_MUL: tuple[CatalogKernel, ...] = (
    _c_row(
        "C1",
        "matrixMul, 16x16 tile, k loop unrolled",
        "matmul_c1_tile16",
        _B_16,
        16,
        ((3, "As[ty][k] in a 16x16 block"), (8, "global reads by T=16")),
    ),
    _c_row(
        "C2",
        "matrixMul, 32x32 tile, k loop unrolled",
        "matmul_c2_tile32",
        (32, 32, 1),
        32,
        ((2, "As[ty][k] in a 32x32 block"), (5, "resident blocks and occupancy of 1,024 threads, 8 KB")),
    ),
    _c_row(
        "C3-16",
        "matrixMul, 16x16 tile, two buffers",
        "matmul_c3_double16",
        _B_16,
        16,
    ),
    _c_row("C3-32", "matrixMul, 32x32 tile, two buffers", "matmul_c3_double32", (32, 32, 1), 32),
    _c_row(
        "C4",
        "matrixMul, 32x32 tile read with ld.shared.v4",
        "matmul_c4_vector",
        (8, 32, 1),
        32,
        ((7, "shared loads an FMA, 5 for 16"),),
        file="matmul_c4_vector",
    ),
)

ROWS: tuple[CatalogKernel, ...] = _LADDER + _ROW_OR_COLUMN + _MATRIX_MUL

"""Textbook rows T6 to T10: divergence, transposes, sparse and dense vectors, double precision.

Every oracle is plain numpy (exact rationals for the fused multiply-add in double); whole-number results are
compared bit for bit.  Sizes in elements.  Left out: measured counters; these kernels are here to exercise
execution.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from gpusim.kernels.numerics import U64
from gpusim.kernels.spec import Args, Arrays, CatalogKernel, LaunchSpec, Size, array, ceil_div, scalar
from gpusim.kernels.textbook import (
    SUM_BOUND,
    ArgsOf,
    bounded,
    flat,
    grid_launch,
    linear,
    sizes,
    sum_bound,
    textbook,
    unary,
)

# -------------------------------------------------------------------------------------------- T6 divergence


def _mandelbrot_launch(size: Size) -> LaunchSpec:
    nx, ny = size["nx"], size["ny"]
    args = (
        array("int32", nx * ny, "zeros"),
        scalar("int32", nx),
        scalar("int32", ny),
        scalar("int32", size["limit"]),
    )
    return LaunchSpec((ceil_div(nx, 32), ceil_div(ny, 8), 1), (32, 8, 1), args, (0,))


def _mandelbrot(size: Size, args: Args) -> Arrays:
    f = np.float32
    nx, ny = size["nx"], size["ny"]
    cr = np.tile(f(-2) + f(3) * np.arange(nx, dtype=f) / f(nx), (ny, 1))
    ci = np.tile((f(-1.5) + f(3) * np.arange(ny, dtype=f) / f(ny))[:, None], (1, nx))
    zr, zi = np.zeros_like(cr), np.zeros_like(cr)
    count = np.zeros(cr.shape, np.int32)
    for _ in range(size["limit"]):
        going = zr * zr + zi * zi < f(4)
        count += going
        step_r, step_i = zr * zr - zi * zi + cr, (zr + zr) * zi + ci
        zr, zi = np.where(going, step_r, zr), np.where(going, step_i, zi)
    return {0: count.reshape(-1)}


def _search_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return (
        array("int8", n, "randint:97:99"),
        scalar("int32", n),
        array("int8", 5, "randint:97:99"),
        scalar("int32", 5),
        array("uint8", n, "zeros"),
    )


def _search(size: Size, args: Args) -> Arrays:
    text, pattern = args[0].tobytes(), args[2].tobytes()
    return {4: np.array([text.startswith(pattern, i) for i in range(len(text))], np.uint8)}


def _collatz_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return array("uint32", n, "randint:1:5000"), array("uint32", n, "zeros"), scalar("int32", n)


def collatz_steps(start: int) -> int:
    """Steps of the 3n+1 walk from ``start`` to 1."""
    steps = 0
    while start != 1:
        start = 3 * start + 1 if start & 1 else start // 2
        steps += 1
    return steps


_DIVERGENCE = (
    textbook(
        "T6",
        "mandelbrot",
        "escape iterations, trip count a lane",
        "divergent",
        (
            {"name": "tiny", "nx": 32, "ny": 10, "limit": 30},
            {"name": "medium", "nx": 160, "ny": 100, "limit": 100},
        ),
        _mandelbrot_launch,
        _mandelbrot,
    ),
    textbook(
        "T6",
        "string_search",
        "byte compares with early exit",
        "divergent",
        sizes(300, 20000),
        linear(_search_args, (4,), 256),
        _search,
    ),
    textbook(
        "T6",
        "collatz",
        "3n+1 steps, trip count a lane",
        "divergent",
        sizes(100, 2000),
        linear(_collatz_args, (1,)),
        lambda size, args: {1: np.array([collatz_steps(int(v)) for v in args[0]], np.uint32)},
    ),
)

# -------------------------------------------------------------------------------------------- T7 transposes


def _transpose(name: str, title: str, block: tuple[int, int, int]) -> CatalogKernel:
    def launch(size: Size) -> LaunchSpec:
        n = size["n"]
        args = (array("float32", n * n), array("float32", n * n, "zeros"), scalar("int32", n))
        return LaunchSpec((n // 32, n // 32, 1), block, args, (1,))

    return textbook(
        "T7",
        name,
        title,
        "transpose",
        sizes(64, 512),
        launch,
        lambda size, args: {1: args[0].reshape(size["n"], -1).T.reshape(-1)},
    )


_TRANSPOSES = (
    _transpose("transpose_naive", "transpose with column stores", (32, 8, 1)),
    _transpose("transpose_shared", "transpose through a 32x32 tile: 32-way conflicts", (32, 8, 1)),
    _transpose("transpose_padded", "transpose through a 32x33 tile", (32, 8, 1)),
    _transpose("transpose_diagonal", "padded, blocks in diagonal order", (32, 8, 1)),
    _transpose("transpose_shuffle", "transpose in registers by shuffles", (32, 1, 1)),
)

# ------------------------------------------------------------------------------------------------ T8 sparse


def _bfs_args(size: Size) -> tuple[dict[str, Any], ...]:
    v = size["n"]
    return (
        array("int32", v, f"randint:0:{4 * v}"),
        array("int32", v, "randint:0:13"),
        array("int32", 4 * v + 12, f"randint:0:{v}"),
        array("int32", v, "randint:0:4"),
        scalar("int32", v),
        scalar("int32", 3),
    )


def _bfs(size: Size, args: Args) -> Arrays:
    begin, degree, neighbour, level = args[:4]
    out = level.copy()
    for v in np.flatnonzero(level == 3):
        reached = neighbour[begin[v] : begin[v] + degree[v]]
        out[reached[level[reached] == 0]] = 4
    return {3: out}


def _spmv_args(size: Size) -> tuple[dict[str, Any], ...]:
    m = size["n"]
    entries = 8 * m + 50
    return (
        array("int32", m, f"randint:0:{8 * m}"),
        array("int32", m, "randint:0:51"),
        array("int32", entries, f"randint:0:{m}"),
        array("float32", entries),
        array("float32", m),
        array("float32", m, "zeros"),
        scalar("int32", m),
    )


def _spmv(args: Args, magnitude: bool) -> np.ndarray:
    begin, count, column, value, x = args[:5]
    terms = value.astype(np.float64) * x.astype(np.float64)[column]
    running = np.concatenate([[0.0], np.cumsum(np.abs(terms) if magnitude else terms)])
    return running[begin + count] - running[begin]


def _spmv_row(name: str, title: str, block: tuple[int, int, int]) -> CatalogKernel:
    def launch(size: Size) -> LaunchSpec:
        rows = block[0] if block[1] == 1 else block[1]
        return LaunchSpec((ceil_div(size["n"], rows), 1, 1), block, _spmv_args(size), (5,))

    return textbook(
        "T8",
        name,
        title,
        "sparse",
        sizes(90, 4000),
        launch,
        lambda size, args: {5: _spmv(args, False)},
        SUM_BOUND,
        lambda size, args: {5: sum_bound(_spmv(args, True), 52) + 1e-9},
    )


_SPARSE = (
    textbook(
        "T8",
        "bfs_level",
        "one breadth-first level",
        "sparse",
        sizes(200, 5000),
        linear(_bfs_args, (3,)),
        _bfs,
    ),
    _spmv_row("spmv_scalar", "sparse matrix times vector, one row a thread", (128, 1, 1)),
    _spmv_row("spmv_vector", "sparse matrix times vector, one row a warp", (32, 4, 1)),
)

# ----------------------------------------------------------------------------------------- T9 dense vectors


def _gemv_row(name: str, title: str, block: tuple[int, int, int], by_rows: bool) -> CatalogKernel:
    def product(size: Size, args: Args, magnitude: bool) -> np.ndarray:
        a = args[0].astype(np.float64).reshape(size["m"], size["n"])
        x = args[1].astype(np.float64)
        if magnitude:
            a, x = np.abs(a), np.abs(x)
        return a @ x if by_rows else a.T @ x

    def launch(size: Size) -> LaunchSpec:
        m, n = size["m"], size["n"]
        given, made = (n, m) if by_rows else (m, n)
        args = (
            array("float32", m * n),
            array("float32", given),
            array("float32", made, "zeros"),
            scalar("int32", m),
            scalar("int32", n),
        )
        return LaunchSpec((ceil_div(m, 4) if by_rows else ceil_div(n, 128), 1, 1), block, args, (2,))

    return textbook(
        "T9",
        name,
        title,
        "linear",
        ({"name": "tiny", "m": 10, "n": 140}, {"name": "medium", "m": 300, "n": 1024}),
        launch,
        lambda size, args: {2: product(size, args, False)},
        SUM_BOUND,
        lambda size, args: {
            2: sum_bound(product(size, args, True), (size["n"] if by_rows else size["m"]) + 1)
        },
    )


_FILTER = np.outer([1, 2, 3, 2, 1], [1, 2, 3, 2, 1]) / 10.0
_FILTER[2] = [0.3, 0.6, 1.0, 0.6, 0.3]
_FILTER[1] = _FILTER[3] = [0.2, 0.4, 0.6, 0.4, 0.2]


def _conv2d(x: np.ndarray, size: Size) -> np.ndarray:
    h, w = size["ny"], size["nx"]
    padded = np.pad(x.astype(np.float64).reshape(h, w), 2)
    weights = _FILTER.astype(np.float32).astype(np.float64)
    out = np.zeros((h, w))
    for r in range(5):
        for c in range(5):
            out += weights[r, c] * padded[r : r + h, c : c + w]
    return out.reshape(-1)


def _nbody_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return array("float32", 4 * n), array("float32", 4 * n, "zeros"), scalar("int32", n)


def _nbody(args: Args, magnitude: bool) -> np.ndarray:
    body = args[0].astype(np.float64).reshape(-1, 4)
    out = np.zeros_like(body)
    for i, me in enumerate(body):
        d = body[:, :3] - me[:3]
        f = np.abs(body[:, 3]) / ((d * d).sum(axis=1) + float(np.float32(0.01))) ** 1.5
        terms = f[:, None] * d
        out[i, :3] = (np.abs(terms) if magnitude else terms).sum(axis=0)
    return out.reshape(-1)


_DENSE = (
    _gemv_row("gemv_warp", "matrix times vector, one row a warp, float4", (32, 4, 1), True),
    _gemv_row("gemv_columns", "transposed matrix times vector, one column a thread", (128, 1, 1), False),
    textbook(
        "T9",
        "conv2d",
        "5x5 convolution, constant filter, shared halo",
        "linear",
        ({"name": "tiny", "nx": 20, "ny": 18}, {"name": "medium", "nx": 200, "ny": 130}),
        grid_launch(2, (16, 16, 1)),
        lambda size, args: {1: _conv2d(args[0], size)},
        SUM_BOUND,
        lambda size, args: {1: sum_bound(_conv2d(np.abs(args[0]), size), 26)},
    ),
    textbook(
        "T9",
        "nbody",
        "all-pairs accelerations, shared tiles",
        "linear",
        sizes(130, 1024),
        linear(_nbody_args, (1,)),
        lambda size, args: {1: _nbody(args, False)},
        bounded("rsqrtf 2 ulp cubed and a dozen roundings a term, n additions"),
        lambda size, args: {1: sum_bound(_nbody(args, True), size["n"] + 32)},
    ),
)

# ------------------------------------------------------------------------------------- T10 double precision


def _dot_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return array("float64", n), array("float64", n), array("float64", 1, "zeros"), scalar("int32", n)


def _daxpy_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return scalar("float64", 0.7), array("float64", n), array("float64", n), scalar("int32", n)


def _binary64_args(outs: int) -> ArgsOf:
    def args(size: Size) -> tuple[dict[str, Any], ...]:
        n = size["n"]
        return (
            array("float64", n),
            array("float64", n),
            array("float64", outs * n, "zeros"),
            scalar("int32", n),
        )

    return args


def _daxpy(size: Size, args: Args) -> Arrays:
    a = Fraction(float(args[0]))
    pairs = zip(args[1].tolist(), args[2].tolist(), strict=True)
    return {2: np.array([float(a * Fraction(x) + Fraction(y)) for x, y in pairs])}


def _divsqrt(size: Size, args: Args) -> Arrays:
    a, b = args[0], args[1]
    chosen = np.fmax(b, -0.25)
    chosen[a < b] = np.fmin(a, 0.25)[a < b]
    return {2: flat(a / b, np.sqrt(np.abs(a)), 1.0 / b, np.floor(a * 8) + np.trunc(b * 4), chosen, a * b - a)}


def _math64(size: Size, args: Args) -> Arrays:
    a = args[0]
    return {1: flat(np.exp(a), np.log(np.abs(a)), np.sin(a * 10.0), np.abs(a) ** 1.7, np.tanh(a))}


_DOUBLE = (
    textbook(
        "T10",
        "fp64_dot",
        "dot product, shared tree, atomicAdd of a double",
        "fp64",
        sizes(300, 8192),
        linear(_dot_args, (2,), per_block=512),
        lambda size, args: {2: np.array([np.sum(args[0].astype(np.longdouble) * args[1])], np.float64)},
        SUM_BOUND,
        lambda size, args: {2: np.array([sum_bound(np.sum(np.abs(args[0] * args[1])), size["n"], U64)])},
    ),
    textbook(
        "T10",
        "fp64_daxpy",
        "y = a x + y, one fused multiply-add",
        "fp64",
        sizes(200, 4000),
        linear(_daxpy_args, (2,)),
        _daxpy,
    ),
    textbook(
        "T10",
        "fp64_divsqrt",
        "IEEE quotient, square root, reciprocal, rounding, selects",
        "fp64",
        sizes(200, 4000),
        linear(_binary64_args(6), (2,)),
        _divsqrt,
    ),
    textbook(
        "T10",
        "fp64_math",
        "exp, log, sin, pow, tanh in double",
        "fp64",
        sizes(200, 4000),
        linear(unary("float64", "normal", 5), (1,)),
        _math64,
        bounded("CUDA's documented 1 to 2 ulp, plus 1 for the reference"),
        lambda size, args: {1: 3 * np.spacing(np.abs(_math64(size, args)[1]))},
    ),
)

ROWS: tuple[CatalogKernel, ...] = (*_DIVERGENCE, *_TRANSPOSES, *_SPARSE, *_DENSE, *_DOUBLE)

"""Textbook rows T1 to T5: scans, histograms, stencils, normalisation, sorting.

Every oracle is plain numpy; whole-number results are compared bit for bit.  Sizes in elements.
Left out: measured counters (no seed row asks for them); these kernels are here to exercise execution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim.kernels.numerics import U32
from gpusim.kernels.spec import Args, Arrays, CatalogKernel, LaunchSpec, Size, array, ceil_div, scalar
from gpusim.kernels.textbook import (
    SUM_BOUND,
    bounded,
    flat,
    grid_launch,
    linear,
    sizes,
    sum_bound,
    textbook,
    unary,
)

# ------------------------------------------------------------------------------------------------- T1 scans


def _lookback_args(size: Size) -> tuple[dict[str, Any], ...]:
    tiles = ceil_div(size["n"], 256)
    state = (array("uint32", 1, "zeros"), array("uint32", tiles, "zeros"))
    return (
        *unary("int32", "randint:-50:100")(size),
        *state,
        array("int32", tiles, "zeros"),
        array("int32", tiles, "zeros"),
    )


def _lookback_oracle(size: Size, args: Args) -> Arrays:
    n, tiles = size["n"], ceil_div(size["n"], 256)
    total = np.cumsum(args[0], dtype=np.int32)
    ends = np.minimum(np.arange(1, tiles + 1) * 256, n) - 1
    return {
        1: total,
        3: np.array([tiles], np.uint32),
        4: np.full(tiles, 2, np.uint32),
        5: np.diff(total[ends], prepend=np.int32(0)),
        6: total[ends],
    }


def _segment_scan(size: Size, args: Args) -> Arrays:
    return {
        1: flat(*(np.cumsum(part, dtype=np.int32) for part in np.split(args[0], range(256, size["n"], 256))))
    }


_SCAN = unary("int32", "randint:-50:100")
_SCANS = (
    textbook(
        "T1",
        "scan_hillis_steele",
        "inclusive scan, one block, log2(n) steps",
        "scan",
        sizes(200, 256),
        linear(_SCAN, (1,), 256),
        lambda size, args: {1: np.cumsum(args[0], dtype=np.int32)},
    ),
    textbook(
        "T1",
        "scan_blelloch",
        "exclusive scan, one block, up-sweep and down-sweep",
        "scan",
        sizes(500, 512),
        linear(_SCAN, (1,), 256, per_block=512),
        lambda size, args: {1: np.cumsum(args[0], dtype=np.int32) - args[0]},
    ),
    textbook(
        "T1",
        "scan_shuffle",
        "inclusive scan of 256-element segments by shuffles",
        "scan",
        sizes(256, 16384, 1000),
        linear(_SCAN, (1,), 256),
        _segment_scan,
    ),
    textbook(
        "T1",
        "scan_lookback",
        "single-pass scan with decoupled look-back",
        "scan",
        sizes(512, 16384, 1500),
        linear(_lookback_args, (1, 3, 4, 5, 6), 256),
        _lookback_oracle,
    ),
)

# -------------------------------------------------------------------------------- T2 histograms, T3 stencils


def _histogram(name: str, title: str, dtype: str, init: str) -> CatalogKernel:
    def args(size: Size) -> tuple[dict[str, Any], ...]:
        return array(dtype, size["n"], init), array("uint32", 256, "zeros"), scalar("int32", size["n"])

    return textbook(
        "T2",
        name,
        title,
        "histogram",
        sizes(700, 32768),
        linear(args, (1,), 256, per_block=1024),
        lambda size, args: {1: np.bincount(args[0].astype(np.int64) & 255, minlength=256).astype(np.uint32)},
    )


_HISTOGRAMS = (
    _histogram("histogram_global", "byte histogram, global atomics", "uint8", "randint:0:256"),
    _histogram("histogram_shared", "byte histogram, shared atomics", "uint8", "randint:0:256"),
    _histogram("histogram_privatised", "histogram of keys, one copy a warp", "int32", "randint:0:100000"),
)

_WEIGHTS = np.array([0.05, 0.1, 0.2, 0.3, 0.2, 0.1, 0.05], np.float32).astype(np.float64)


def _stencil_1d(x: np.ndarray) -> np.ndarray:
    return np.convolve(x.astype(np.float64), _WEIGHTS, "same")


def _stencil_2d(x: np.ndarray, size: Size, magnitude: bool = False) -> np.ndarray:
    v = x.astype(np.float64).reshape(size["ny"], size["nx"])
    out = v.copy()
    inner = v[1:-1, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] + v[:-2, 1:-1] + v[2:, 1:-1]
    out[1:-1, 1:-1] = float(np.float32(0.2)) * inner
    return out.reshape(-1)


def _stencil_3d(x: np.ndarray, size: Size, centre: float) -> np.ndarray:
    v = x.astype(np.float64).reshape(size["nz"], size["ny"], size["nx"])
    out = np.zeros_like(v)
    c = slice(1, -1)
    sides = v[c, c, :-2] + v[c, c, 2:] + v[c, :-2, c] + v[c, 2:, c] + v[:-2, c, c] + v[2:, c, c]
    out[c, c, c] = sides + centre * v[c, c, c]
    return out.reshape(-1)


_STENCILS = (
    textbook(
        "T3",
        "stencil_1d",
        "7-point stencil with a shared halo and constant weights",
        "stencil",
        sizes(300, 16384),
        linear(unary("float32", "normal"), (1,), 256),
        lambda size, args: {1: _stencil_1d(args[0])},
        SUM_BOUND,
        lambda size, args: {1: sum_bound(_stencil_1d(np.abs(args[0])), 8)},
    ),
    textbook(
        "T3",
        "stencil_2d",
        "5-point stencil, edges copied",
        "stencil",
        ({"name": "tiny", "nx": 40, "ny": 19}, {"name": "medium", "nx": 256, "ny": 100}),
        grid_launch(2, (32, 8, 1)),
        lambda size, args: {1: _stencil_2d(args[0], size)},
        SUM_BOUND,
        lambda size, args: {1: sum_bound(_stencil_2d(np.abs(args[0]), size), 6)},
    ),
    textbook(
        "T3",
        "stencil_3d",
        "7-point stencil, 3-D block",
        "stencil",
        ({"name": "tiny", "nx": 18, "ny": 9, "nz": 6}, {"name": "medium", "nx": 64, "ny": 32, "nz": 20}),
        grid_launch(3, (16, 4, 4)),
        lambda size, args: {1: _stencil_3d(args[0], size, -6.0)},
        SUM_BOUND,
        lambda size, args: {1: sum_bound(_stencil_3d(np.abs(args[0]), size, 6.0), 8)},
    ),
)

# ----------------------------------------------------------------------------------------- T4 normalisation

_ROW_SIZES: tuple[Size, ...] = (
    {"name": "tiny", "rows": 5, "cols": 50},
    {"name": "medium", "rows": 64, "cols": 1000},
)


def _softmax_launch(size: Size) -> LaunchSpec:
    rows, cols = size["rows"], size["cols"]
    n = rows * cols
    args = (array("float32", n), array("float32", n, "zeros"), scalar("int32", rows), scalar("int32", cols))
    return LaunchSpec((ceil_div(rows, 4), 1, 1), (32, 4, 1), args, (1,))


def _softmax(size: Size, args: Args) -> Arrays:
    x = args[0].astype(np.float64).reshape(size["rows"], size["cols"])
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return {1: (e / e.sum(axis=1, keepdims=True)).reshape(-1)}


def _softmax_bound(size: Size, args: Args) -> Arrays:
    # expf: 2 ulp and an argument error of 10 u (|x - max| < 10); a lane rescales once an element.
    steps = ceil_div(size["cols"], 32) + 5
    return {1: (16 * (steps + 2)) * U32 * _softmax(size, args)[1]}


def _layernorm_launch(size: Size) -> LaunchSpec:
    rows, cols = size["rows"], size["cols"]
    args = (
        array("float32", rows * cols),
        array("float32", cols),
        array("float32", cols),
        array("float32", rows * cols, "zeros"),
        scalar("int32", cols),
    )
    return LaunchSpec((rows, 1, 1), (128, 1, 1), args, (3,))


def _normalised(size: Size, args: Args) -> np.ndarray:
    x = args[0].astype(np.float64).reshape(size["rows"], size["cols"])
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


_NORMALISATION = (
    textbook(
        "T4",
        "softmax_online",
        "row softmax, one pass with a running maximum",
        "softmax_norm",
        _ROW_SIZES,
        _softmax_launch,
        _softmax,
        bounded("expf 2 ulp, arguments off by at most 10 u, one rescaling an element of a lane"),
        _softmax_bound,
    ),
    textbook(
        "T4",
        "layernorm",
        "row layer normalisation, two block reductions",
        "softmax_norm",
        _ROW_SIZES,
        _layernorm_launch,
        lambda size, args: {3: (_normalised(size, args) * args[1] + args[2]).reshape(-1)},
        bounded("mean and variance by sums of n terms: 64 u of gamma (|x| + 1) + beta"),
        lambda size, args: {
            3: 64
            * U32
            * ((np.abs(_normalised(size, args)) + 1) * np.abs(args[1]) + np.abs(args[2])).reshape(-1)
        },
    ),
)

# ----------------------------------------------------------------------------------------------- T5 sorting


def _merge_launch(size: Size) -> LaunchSpec:
    n, m = size["n"], size["m"]
    args = (
        array("int32", n, "arange"),
        scalar("int32", n),
        array("int32", m, "arange"),
        scalar("int32", m),
        scalar("int32", 3),
        scalar("int32", -20),
        array("int32", n + m, "zeros"),
    )
    return LaunchSpec((ceil_div(n + m, 512), 1, 1), (128, 1, 1), args, (6,))


def _radix_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return (
        array("uint32", n, "randint:0:65536"),
        array("uint32", n, "zeros"),
        scalar("int32", n),
        scalar("int32", 4),
    )


_SORTING = (
    textbook(
        "T5",
        "bitonic_sort",
        "bitonic sort of 512-element segments in shared memory",
        "sort",
        sizes(512, 8192),
        linear(lambda size: (array("int32", size["n"], "randint:-1000:1000"),), (0,), 256, per_block=512),
        lambda size, args: {0: np.sort(args[0].reshape(-1, 512), axis=1).reshape(-1)},
    ),
    textbook(
        "T5",
        "merge_path",
        "merge of two sorted runs, 4 outputs a thread",
        "sort",
        ({"name": "tiny", "n": 100, "m": 61}, {"name": "medium", "n": 5000, "m": 3001}),
        _merge_launch,
        lambda size, args: {6: np.sort(np.concatenate([args[0], 3 * args[2] - 20]))},
    ),
    textbook(
        "T5",
        "radix_pass",
        "one stable 4-bit radix pass by warp matches",
        "sort",
        sizes(300, 4096),
        linear(_radix_args, (1,), 128, per_block=4096),
        lambda size, args: {1: args[0][np.argsort((args[0] >> 4) & 15, kind="stable")]},
    ),
)

ROWS: tuple[CatalogKernel, ...] = (*_SCANS, *_HISTOGRAMS, *_STENCILS, *_NORMALISATION, *_SORTING)

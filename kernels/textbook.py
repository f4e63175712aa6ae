"""Builders for the textbook rows (T1 to T22): kernels outside seeds.md that exercise the executor.

A textbook row needs a tiny size that runs in a moment and one medium size.  ``n`` is the number of elements.
Left out: rows themselves (``rows_textbook*.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpusim.kernels.numerics import U32, gamma
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

ArgsOf = Callable[[Size], tuple[dict[str, Any], ...]]
LaunchOf = Callable[[Size], LaunchSpec]
OracleOf = Callable[[Size, Args], Arrays]

FULL32 = "randint:-2147483648:2147483648"
FULLU32 = "randint:0:4294967296"
FULL62 = "randint:-4611686018427387904:4611686018427387904"


def sizes(tiny: int, medium: int, ragged: int | None = None) -> tuple[Size, ...]:
    """Named sizes by the number of elements."""
    rows: list[Size] = [{"name": "tiny", "n": tiny}]
    if ragged is not None:
        rows.append({"name": "ragged", "n": ragged})
    rows.append({"name": "medium", "n": medium})
    return tuple(rows)


def linear(
    args: ArgsOf, outputs: tuple[int, ...], block: int = 128, per_block: int | None = None
) -> LaunchOf:
    """A one-dimensional launch: one block for each ``per_block`` elements (default: one a thread)."""

    def launch(size: Size) -> LaunchSpec:
        return LaunchSpec((ceil_div(size["n"], per_block or block), 1, 1), (block, 1, 1), args(size), outputs)

    return launch


def flat(*rows: np.ndarray) -> np.ndarray:
    """The rows of an output ``out[k][n]``, one after the other, in one dtype."""
    return np.concatenate([np.asarray(row).reshape(-1) for row in rows])


def bounded(reason: str) -> Tolerance:
    """An element-by-element bound with its reason."""
    return Tolerance("bound", 1.0, reason)


SUM_BOUND = bounded("gamma(n) times the sum of magnitudes: n roundings in any order")


def sum_bound(terms: np.ndarray, n: int, unit: float = U32) -> np.ndarray:
    """Allowed error where ``terms`` is the sum of the magnitudes of what n roundings add up."""
    return gamma(n, unit) * np.abs(terms) + 1e-30


def textbook(
    seed: str,
    name: str,
    title: str,
    file: str,
    size_rows: tuple[Size, ...],
    launch: LaunchOf,
    oracle: OracleOf,
    tolerance: Tolerance = EXACT,
    bound: OracleOf | None = None,
) -> CatalogKernel:
    """A row whose entry is ``tb_<name>`` in ``cuda/textbook/<file>.cu``."""
    return CatalogKernel(
        id=f"{seed}-{name.replace('_', '-')}",
        seed=seed,
        title=title,
        file=f"cuda/textbook/{file}.cu",
        entry=f"tb_{name}",
        sizes=size_rows,
        launch=launch,
        oracle=oracle,
        tolerance=tolerance,
        bound=bound,
    )


def unary(dtype: str, init: str, outs: int = 1) -> ArgsOf:
    """``const T* x [n], T* out [outs][n], int n``."""

    def args(size: Size) -> tuple[dict[str, Any], ...]:
        n = size["n"]
        return array(dtype, n, init), array(dtype, outs * n, "zeros"), scalar("int32", n)

    return args


def grid_launch(dims: int, block: tuple[int, int, int]) -> LaunchOf:
    """A launch over nx, ny (and nz) points: ``const float* x, float* y, int nx, int ny, ...``."""

    def launch(size: Size) -> LaunchSpec:
        extent = [size[key] for key in ("nx", "ny", "nz")[:dims]]
        n = int(np.prod(extent))
        blocks = [ceil_div(e, b) for e, b in zip(extent, block, strict=False)] + [1] * (3 - dims)
        args = (array("float32", n), array("float32", n, "zeros"), *(scalar("int32", e) for e in extent))
        return LaunchSpec((blocks[0], blocks[1], blocks[2]), block, args, (1,))

    return launch


def binary(
    dtype: str, outs: int, init: str, init2: str | None = None, out_dtype: str | None = None
) -> ArgsOf:
    """``const T* a [n], const T* b [n], U* out [outs][n], int n``."""

    def args(size: Size) -> tuple[dict[str, Any], ...]:
        n = size["n"]
        return (
            array(dtype, n, init),
            array(dtype, n, init2 or init),
            array(out_dtype or dtype, outs * n, "zeros"),
            scalar("int32", n),
        )

    return args

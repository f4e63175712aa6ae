"""Textbook rows T13 and T14: 16-bit and packed arithmetic, conversions between all number types.

Compared bit for bit, except half-precision functions that the hardware approximates.  Sizes in elements
(pairs for half2 and bfloat162).  Left out: subnormal inputs and NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim.kernels.numerics import (
    bfloat16_bits,
    bfloat16_values,
    round_directed,
    saturate,
    widen,
    wrap32,
)
from gpusim.kernels.spec import Args, Arrays, CatalogKernel, Size, array, scalar
from gpusim.kernels.textbook import (
    FULL32,
    FULLU32,
    ArgsOf,
    binary,
    bounded,
    flat,
    linear,
    sizes,
    textbook,
    unary,
)

# ------------------------------------------------------------------------------------ T13 16-bit arithmetic


def _pairs(dtype: str, outs: int, init: str, out_words: str | None = None) -> ArgsOf:
    """``const T2* x [n], const T2* y [n], T2* out [outs][n] (or 32-bit words), int n``."""

    def args(size: Size) -> tuple[dict[str, Any], ...]:
        n = size["n"]
        out = array(out_words, outs * n, "zeros") if out_words else array(dtype, 2 * outs * n, "zeros")
        return array(dtype, 2 * n, init), array(dtype, 2 * n, init), out, scalar("int32", n)

    return args


def _half2_map(size: Size, args: Args) -> Arrays:
    x, y = args[0], args[1]
    a, b = widen(x, y)
    fused = a * b + b
    rows = (
        a + b,
        a - b,
        a * b,
        a * b + a,
        np.where(fused > 0.0, fused, 0.0),
        np.maximum(a, b),
        np.minimum(a, b),
        -a,
    )
    swapped = np.abs(y.reshape(-1, 2)[:, ::-1])
    return {2: flat(*(row.astype(np.float16) for row in rows), swapped)}


def _half2_compare(size: Size, args: Args) -> Arrays:
    a, b = args[0].reshape(-1, 2), args[1].reshape(-1, 2)

    def mask(truth: np.ndarray) -> np.ndarray:
        return (truth * np.array([0xFFFF, 0xFFFF0000], np.uint64)).sum(axis=1).astype(np.uint32)

    both = (a > b).all(axis=1).astype(np.uint32)
    rows = (
        mask(a == b),
        mask(a < b),
        mask(a >= b) ^ both,
        np.where(a[:, 0] < b[:, 1], 7, 9).astype(np.uint32),
    )
    return {2: flat(*rows)}


def _half_math(size: Size, args: Args) -> Arrays:
    x = args[0]
    a, p = widen(x, np.abs(x) + np.float16(0.125))
    return {1: flat(np.exp2(a), np.log2(p), np.sqrt(p), 1.0 / p, np.tanh(a))}


def _half_math_bound(size: Size, args: Args) -> Arrays:
    want, n = _half_math(size, args)[1], size["n"]
    bound = 1.5 * np.spacing(np.abs(want).astype(np.float16)).astype(np.float64)
    bound[4 * n :] += 2.0**-10  # tanh.approx.f16: 2^-10.987 absolute
    bound[n : 2 * n] += 2.0**-18  # lg2.approx near 1
    return {1: bound}


def _bfloat162(size: Size, args: Args) -> Arrays:
    a, b = bfloat16_values(args[0]), bfloat16_values(args[1])
    # Operands lie in [0.5, 4) with 8-bit significands: every sum, product and fused result is exact in fp32.
    rows = (a + b, a * b, a * b - a, np.maximum(a, b), np.minimum(a, b), -a)
    return {2: flat(*(bfloat16_bits(row) for row in rows))}


def _lanes(words: np.ndarray, dtype: type) -> np.ndarray:
    """Words as rows of bytes or 16-bit parts, in int64."""
    return words.view(dtype).reshape(words.size, -1).astype(np.int64)


def _dot4(size: Size, args: Args) -> Arrays:
    a, b = args[0], args[1]
    signed = (_lanes(a, np.int8) * _lanes(b, np.int8)).sum(axis=1) + 7
    unsigned = (_lanes(a, np.uint8) * _lanes(b, np.uint8)).sum(axis=1) + 7
    low = (_lanes(a, np.int16) * _lanes(b, np.int8)[:, :2]).sum(axis=1) - 5
    high = (_lanes(a, np.uint16) * _lanes(b, np.uint8)[:, 2:]).sum(axis=1) + 5
    return {2: flat(*(wrap32(row) for row in (signed, unsigned, low, high)))}


def _simd_bytes(size: Size, args: Args) -> Arrays:
    a, b = _lanes(args[0], np.uint8), _lanes(args[1], np.uint8)
    sa, sb = _lanes(args[0], np.int8), _lanes(args[1], np.int8)
    rows = (a + b, np.minimum(a + b, 255), np.abs(a - b), np.maximum(sa, sb), (a > b) * 255, (a + b + 1) >> 1)
    return {2: flat(*((row & 255).astype(np.uint8).reshape(-1).view(np.uint32) for row in rows))}


_SIXTEEN = (
    textbook(
        "T13",
        "half2_map",
        "half2 arithmetic",
        "half",
        sizes(70, 3000),
        linear(_pairs("float16", 9, "normal"), (2,), 64),
        _half2_map,
    ),
    textbook(
        "T13",
        "half2_compare",
        "half2 comparisons as masks",
        "half",
        sizes(70, 3000),
        linear(_pairs("float16", 4, "randint:-3:4", "uint32"), (2,), 64),
        _half2_compare,
    ),
    textbook(
        "T13",
        "half_math",
        "hexp2, hlog2, hsqrt, hrcp, htanh",
        "half",
        sizes(70, 3000),
        linear(unary("float16", "normal", 5), (1,), 64),
        _half_math,
        bounded("1.5 ulp of fp16; log2 2^-18 near 1 and tanh 2^-10 absolute"),
        _half_math_bound,
    ),
    textbook(
        "T13",
        "bfloat162_map",
        "bfloat162 arithmetic",
        "half",
        sizes(70, 3000),
        linear(_pairs("uint16", 6, "randint:16128:16512"), (2,), 64),
        _bfloat162,
    ),
    textbook(
        "T13",
        "dot4",
        "dp4a and dp2a",
        "half",
        sizes(70, 3000),
        linear(binary("int32", 4, FULL32), (2,), 64),
        _dot4,
    ),
    textbook(
        "T13",
        "simd_bytes",
        "per-byte arithmetic in a word",
        "half",
        sizes(70, 3000),
        linear(binary("uint32", 6, FULLU32), (2,), 64),
        _simd_bytes,
    ),
)

# ------------------------------------------------------------------------------------------ T14 conversions

_S8, _U8, _S16, _U16 = (-128, 127), (0, 255), (-(2**15), 2**15 - 1), (0, 2**16 - 1)
_S32, _U32 = (-(2**31), 2**31 - 1), (0, 2**32 - 1)


def _scaled(dtype: str, scale: float, outs: int, out_dtype: str) -> ArgsOf:
    """``const T* x [n], T scale, U* out [outs][n], int n``."""

    def args(size: Size) -> tuple[dict[str, Any], ...]:
        n = size["n"]
        return array(dtype, n), scalar(dtype, scale), array(out_dtype, outs * n, "zeros"), scalar("int32", n)

    return args


def _convert_float(size: Size, args: Args) -> Arrays:
    v = (args[0] * args[1]).astype(np.float64)
    wide = v * 1048576.0
    rounded = (np.rint(v), np.floor(v), np.ceil(v), np.trunc(v))
    return {
        2: flat(
            *(saturate(row, *_S32) for row in rounded),
            saturate(np.rint(v), *_U32),
            np.rint(wide).astype(np.int64),
            np.trunc(np.maximum(wide, 0.0)).astype(np.int64),
        )
    }


def _convert_narrow(size: Size, args: Args) -> Arrays:
    v = (args[0] * args[1]).astype(np.float64)
    w = saturate(np.rint(v), *_S32)
    return {
        2: flat(
            saturate(np.rint(v), *_S8),
            saturate(np.rint(v), *_U8),
            saturate(np.trunc(v * 64.0), *_S16),
            saturate(np.floor(v * 64.0), *_U16),
            saturate(w, *_S8),
            saturate(w, *_U16),
            saturate(w & 0xFFFFFFFF, *_U8),
            saturate(w << 23, *_S32),
        ).astype(np.int32)
    }


def _convert_int(size: Size, args: Args) -> Arrays:
    v = args[0]
    w = v.astype(np.int64) * 1000003
    u = v.view(np.uint32).astype(np.float64)
    rows = (
        v.astype(np.int8),
        (v >> 8).astype(np.uint8),
        v.astype(np.int16),
        v.astype(np.uint16),
        v.astype(np.float32).astype(np.float64) + round_directed(u, np.float32, 0.0).astype(np.float64),
        v.astype(np.float64) - u,
        w.astype(np.float32),
        w.astype(np.float64),
        w.view(np.uint64).astype(np.float32),
    )
    return {1: flat(*(row.astype(np.float64) for row in rows))}


def _convert_double(size: Size, args: Args) -> Arrays:
    v = args[0] * args[1]
    return {
        2: flat(
            saturate(np.rint(v), *_S32).astype(np.float64),
            saturate(np.trunc(v), *_U32).astype(np.float64),
            np.floor(v * 65536.0),
            *(round_directed(v, np.float32, to).astype(np.float64) for to in (None, 0.0, np.inf)),
        )
    }


def _convert_half(size: Size, args: Args) -> Arrays:
    v = args[0] * args[1]
    wide, whole = v.astype(np.float64), np.trunc(v).astype(np.int64)
    h = v.astype(np.float16)
    with np.errstate(over="ignore"):
        times5 = (whole * 5).astype(np.float64).astype(np.float16)
    rows = (
        h,
        round_directed(wide, np.float16, 0.0),
        np.rint(h.astype(np.float64)) + 0.0,  # an integer zero has no sign
        saturate(np.trunc(h.astype(np.float64)), *_U16),
        times5,
        (wide * 1.0625).astype(np.float16),
        bfloat16_values(bfloat16_bits(v)),
        bfloat16_values(bfloat16_bits((whole * 3).astype(np.float32))),
    )
    return {2: flat(*(row.astype(np.float32) for row in rows))}


_CONVERSIONS = (
    textbook(
        "T14",
        "convert_float",
        "float to 32- and 64-bit integers, four roundings",
        "convert",
        sizes(70, 3000),
        linear(_scaled("float32", 1e9, 7, "int64"), (2,), 64),
        _convert_float,
    ),
    textbook(
        "T14",
        "convert_narrow",
        "saturating conversions to 8, 16 and 32 bits",
        "convert",
        sizes(70, 3000),
        linear(_scaled("float32", 300.0, 8, "int32"), (2,), 64),
        _convert_narrow,
    ),
    textbook(
        "T14",
        "convert_int",
        "8- to 64-bit integers to float and double",
        "convert",
        sizes(70, 3000),
        linear(
            lambda size: (
                array("int32", size["n"], FULL32),
                array("float64", 9 * size["n"], "zeros"),
                scalar("int32", size["n"]),
            ),
            (1,),
            64,
        ),
        _convert_int,
    ),
    textbook(
        "T14",
        "convert_double",
        "double to integers and to float, directed roundings",
        "convert",
        sizes(70, 3000),
        linear(_scaled("float64", 1e9, 6, "float64"), (2,), 64),
        _convert_double,
    ),
    textbook(
        "T14",
        "convert_half",
        "half and bfloat16 to and from float, double and integers",
        "convert",
        sizes(70, 3000),
        linear(_scaled("float32", 3000.0, 8, "float32"), (2,), 64),
        _convert_half,
    ),
)

ROWS: tuple[CatalogKernel, ...] = (*_SIXTEEN, *_CONVERSIONS)

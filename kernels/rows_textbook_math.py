"""Textbook rows T11 and T12: elementary functions and integer arithmetic.

Bounds of the elementary functions are those of the CUDA C++ Programming Guide (mathematical functions: ulp of
the standard functions, absolute or ulp errors of the intrinsics), plus half an ulp for the reference.
Everything else is compared bit for bit.  Sizes in elements.  Left out: subnormal inputs and NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim.kernels.numerics import (
    leading_zeros,
    popcount,
    reverse_bits,
    round_directed,
    truncated_divmod,
    widen,
    wrap32,
)
from gpusim.kernels.spec import Args, Arrays, CatalogKernel, Size, array, scalar
from gpusim.kernels.textbook import (
    FULL32,
    FULL62,
    FULLU32,
    binary,
    bounded,
    flat,
    linear,
    sizes,
    textbook,
    unary,
)

# ------------------------------------------------------------------------------------------- T11 elementary


def _erf(x: np.ndarray) -> np.ndarray:
    """erf by its Maclaurin series below 4 (cancellation costs 1e-9, well under an ulp), the sign above."""
    term, total = x.copy(), x.copy()
    for k in range(1, 120):
        term = -term * x * x / k
        total = total + term / (2 * k + 1)
    return np.where(np.abs(x) < 4.0, total * 2.0 / np.sqrt(np.pi), np.sign(x))


def _precise(size: Size, args: Args) -> Arrays:
    x, y = args[0], args[1]
    p32 = np.abs(x) + np.float32(0.01)
    a, b, p = widen(x, y, p32)
    ten = (x * np.float32(10.0)).astype(np.float64)
    return {
        2: flat(
            np.exp(a),
            np.log(p),
            p**b,
            np.tanh(a),
            _erf(a),
            1.0 / np.sqrt(p),
            np.sqrt(p),
            a / b,
            np.cbrt(a),
            np.log1p(p),
            np.fmod(ten, p),
        )
    }


def _trig(size: Size, args: Args) -> Arrays:
    a, b = widen(args[0], args[1])
    return {2: flat(np.sin(a), np.cos(a), np.tan(a), np.arctan2(a, b), np.sin(a * 1048576.0))}


def _ulps(result: np.ndarray, *ulps: float) -> np.ndarray:
    """Allowed error: ``ulps`` of each row of ``out[k][n]`` in fp32 units in the last place."""
    unit = np.spacing(np.abs(result).astype(np.float32)).astype(np.float64)
    return unit * np.repeat(np.asarray(ulps), result.size // len(ulps))


def _fast(size: Size, args: Args) -> Arrays:
    a, p = widen(args[0], np.abs(args[1]) + np.float32(0.25))
    return {2: flat(np.exp(a), np.log(p), p**a, np.sin(a), np.cos(a), a / p, 1.0 / np.sqrt(p), np.exp2(a))}


def _fast_bound(size: Size, args: Args) -> Arrays:
    want, n = _fast(size, args)[2], size["n"]
    a, p = widen(args[0], np.abs(args[1]) + np.float32(0.25))
    bound = _ulps(want, 4, 4, 4, 0, 0, 3, 3, 3)
    bound[:n] += np.abs(a) * 2.0**-22 * want[:n]  # __expf: 2 + floor(|1.173 x|) ulp
    bound[n : 2 * n] += 2.0**-20  # __logf: 2^-21.41 absolute
    # __powf is exp2(a * log2(p)): the logarithm's absolute error, scaled by a
    bound[2 * n : 3 * n] += want[2 * n : 3 * n] * (np.abs(a) * 2.0**-20 + np.abs(a * np.log2(p)) * 2.0**-22)
    bound[3 * n : 5 * n] += 2.0**-20  # __sinf, __cosf: 2^-21.41 and 2^-21.19 absolute in [-pi, pi]
    return {2: bound}


def _round_oracle(size: Size, args: Args) -> Arrays:
    f = np.float32
    a, b = args[0] * f(4.0), args[1]
    clamped = np.clip(a, f(0.0), f(1.0)) + f(0.0)
    difference = a.astype(np.float64) - b.astype(np.float64)
    return {
        2: flat(
            np.floor(a),
            np.ceil(a),
            np.trunc(a),
            np.rint(a),
            np.copysign(np.floor(np.abs(a.astype(np.float64)) + 0.5), a).astype(f),
            clamped + np.copysign(f(1.0), b),
            np.minimum(a, b) * f(0.5),
            np.where(a > b, np.maximum(a, f(0.0)), round_directed(difference, f, 0.0)),
        )
    }


def _monte_carlo_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return (
        array("uint32", n, "randint:1:4294967296"),
        array("uint32", n, "zeros"),
        scalar("int32", n),
        scalar("int32", 20),
    )


def _monte_carlo(size: Size, args: Args) -> Arrays:
    s = args[0] | np.uint32(1)
    inside = np.zeros(s.shape, np.uint32)
    for _ in range(int(args[3])):
        point = []
        for _ in range(2):
            s = s ^ (s << np.uint32(13))
            s = s ^ (s >> np.uint32(17))
            s = s ^ (s << np.uint32(5))
            point.append((s >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24))
        inside += point[0] * point[0] + point[1] * point[1] < np.float32(1.0)
    return {1: inside}


def _fft_args(size: Size) -> tuple[dict[str, Any], ...]:
    return array("float32", 2 * size["n"]), array("float32", 2 * size["n"], "zeros")


def _fft(size: Size, args: Args) -> Arrays:
    x = args[0].astype(np.float64).view(np.complex128).reshape(-1, 256)
    return {1: np.fft.fft(x, axis=1).reshape(-1).view(np.float64)}


def _fft_row(name: str, title: str, twiddle_error: float) -> CatalogKernel:
    def bound(size: Size, args: Args) -> Arrays:
        x = np.abs(args[0].astype(np.float64).view(np.complex128)).reshape(-1, 256)
        # Eight stages, each off by its twiddle and four roundings, of at most the sum of all magnitudes.
        allowed = 8 * (twiddle_error + 4 * 2.0**-24) * x.sum(axis=1)
        return {1: np.repeat(allowed, 512)}

    return textbook(
        "T11",
        name,
        title,
        "elementary",
        sizes(256, 4096),
        linear(_fft_args, (1,), 128, per_block=256),
        _fft,
        bounded("eight butterfly stages, twiddle and arithmetic error of each against the sum of magnitudes"),
        bound,
    )


_ELEMENTARY = (
    textbook(
        "T11",
        "math_precise",
        "exp, log, pow, tanh, erf, roots, quotient, cbrt, log1p, fmod",
        "elementary",
        sizes(150, 4000),
        linear(binary("float32", 11, "normal"), (2,)),
        _precise,
        bounded("documented ulp: 2, 1, 4, 2, 2, 2, 0, 0, 1, 2, 0, plus 1/2 for rounding the reference"),
        lambda size, args: {
            2: _ulps(_precise(size, args)[2], 2.5, 1.5, 8.5, 2.5, 2.5, 2.5, 0.5, 0.5, 1.5, 2.5, 0.5)
        },
    ),
    textbook(
        "T11",
        "math_trig",
        "sin, cos, tan, atan2, sin of large arguments",
        "elementary",
        sizes(150, 4000),
        linear(binary("float32", 5, "normal"), (2,)),
        _trig,
        bounded("documented ulp: 2, 2, 4, 3, 2, plus 1/2 for rounding the reference"),
        lambda size, args: {2: _ulps(_trig(size, args)[2], 2.5, 2.5, 4.5, 3.5, 2.5)},
    ),
    textbook(
        "T11",
        "math_fast",
        "intrinsics: __expf, __logf, __powf, __sinf, __cosf, __fdividef, rsqrtf, exp2f",
        "elementary",
        sizes(150, 4000),
        linear(binary("float32", 8, "normal"), (2,)),
        _fast,
        bounded("documented absolute and ulp errors of the intrinsics, doubled"),
        _fast_bound,
    ),
    textbook(
        "T11",
        "math_round",
        "floor, ceil, trunc, rint, round, saturate, min, max, directed subtraction",
        "elementary",
        sizes(150, 4000),
        linear(binary("float32", 8, "normal"), (2,)),
        _round_oracle,
    ),
    textbook(
        "T11",
        "monte_carlo",
        "xorshift points in the quarter circle",
        "elementary",
        sizes(100, 2000),
        linear(_monte_carlo_args, (1,)),
        _monte_carlo,
    ),
    _fft_row("fft256", "256-point FFT in shared memory, precise twiddles", 2.0**-22),
    _fft_row("fft256_fast", "256-point FFT in shared memory, __sinf and __cosf", 2.0**-19),
)

# ---------------------------------------------------------------------------------------------- T12 integer


def _divmod_rows(a: np.ndarray, b: np.ndarray, wide: Any, unsigned: Any) -> np.ndarray:
    quotient, remainder = truncated_divmod(a.astype(wide), b.astype(wide))
    ua, ub = a.view(unsigned), b.view(unsigned)
    return flat(
        quotient.astype(a.dtype), remainder.astype(a.dtype), (ua // ub).view(a.dtype), (ua % ub).view(a.dtype)
    )


def _divconst(size: Size, args: Args) -> Arrays:
    a, u = args[0].astype(np.int64), args[0].view(np.uint32)
    seven, sixteen = np.full_like(a, 7), np.full_like(a, 16)
    return {
        1: flat(
            wrap32(truncated_divmod(a, seven)[0]),
            wrap32(truncated_divmod(a, sixteen)[1]),
            (u // np.uint32(1000)).view(np.int32),
            (u % np.uint32(641)).view(np.int32),
        )
    }


def _bits(size: Size, args: Args) -> Arrays:
    x, y = args[0], args[1]
    shift = (y & 31).astype(np.uint64)
    word = (y.astype(np.uint64) << np.uint64(32)) | x.astype(np.uint64)  # hi:lo of the funnel shifts
    pair = (x.astype(np.uint64) << np.uint64(32)) | y.astype(np.uint64)
    lowest = x & (~x + np.uint32(1))
    pool = [(v >> np.uint32(8 * k)) & np.uint32(255) for v in (x, y) for k in range(4)]
    permuted = pool[5] | pool[1] << np.uint32(8) | pool[7] << np.uint32(16) | pool[3] << np.uint32(24)
    low_first = np.where(y != 0, 32 - leading_zeros(y & (~y + np.uint32(1))), 32 + 32 - leading_zeros(lowest))
    first = np.where((x | y) == 0, 0, low_first).astype(np.uint32)
    reversed_high = reverse_bits(y).astype(np.uint64) << np.uint64(32) | reverse_bits(x)
    clamped = np.minimum(y & 63, 32).astype(np.uint64)
    rows = (
        popcount(x),
        leading_zeros(x),
        32 - leading_zeros(lowest),
        reverse_bits(x),
        permuted,
        (word << shift) >> np.uint64(32),
        (word >> clamped) & np.uint64(0xFFFFFFFF),
        popcount(pair) + 100 * leading_zeros(pair, 64),
        first ^ ((reversed_high >> np.uint64(17)) & np.uint64(0xFFFFFFFF)).astype(np.uint32),
    )
    return {2: flat(*(row.astype(np.uint32) for row in rows))}


def _signed64(value: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def _signed32(value: int) -> int:
    value &= 2**32 - 1
    return value - 2**32 if value >= 2**31 else value


def _mul64(size: Size, args: Args) -> Arrays:
    rows: list[list[int]] = [[], [], [], [], []]
    for x, y in zip(args[0].tolist(), args[1].tolist(), strict=True):
        ux, uy, sx, sy = x % 2**64, y % 2**64, _signed32(x), _signed32(y)
        high = (sx * sy) >> 32
        uhigh = ((x % 2**32) * (y % 2**32)) >> 32
        values = (x * y, (x * y) >> 64, (ux * uy) >> 64, sx * sy + (x >> 3), (high << 32) | uhigh)
        for row, value in zip(rows, values, strict=True):
            row.append(_signed64(value))
    return {2: flat(*(np.array(row, np.int64) for row in rows))}


def _misc(size: Size, args: Args) -> Arrays:
    x, y = args[0].astype(np.int64), args[1].astype(np.int64)
    ux, uy = args[0].view(np.uint32), args[1].view(np.uint32)
    s = y & 31
    low = np.int64(1 << 23)
    x24, y24 = ((x + low) & 0xFFFFFF) - low, ((y + low) & 0xFFFFFF) - low
    rotated = (ux.astype(np.uint64) << s.astype(np.uint64)) | (
        ux.astype(np.uint64) >> ((32 - s) & 31).astype(np.uint64)
    )
    return {
        2: flat(
            np.minimum(args[0], args[1]),
            np.maximum(ux, uy).view(np.int32),
            wrap32(wrap32(np.abs(x)).astype(np.int64) + np.abs(x - y) + 3),
            wrap32(x24 * y24),
            np.clip(x + y, -(2**31), 2**31 - 1).astype(np.int32),
            wrap32((rotated & np.uint64(0xFFFFFFFF)).astype(np.int64)),
            wrap32(x >> s),
            wrap32(((x + y) >> 1) ^ ((x + y + 1) >> 1) ^ (x & ~y)),
        )
    }


_INTEGER = (
    textbook(
        "T12",
        "int_divmod32",
        "32-bit quotient and remainder by a variable",
        "integer",
        sizes(150, 4000),
        linear(binary("int32", 4, FULL32, "randint:1:100000"), (2,)),
        lambda size, args: {2: _divmod_rows(args[0], args[1], np.int64, np.uint32)},
    ),
    textbook(
        "T12",
        "int_divmod64",
        "64-bit quotient and remainder by a variable",
        "integer",
        sizes(150, 3000),
        linear(binary("int64", 4, FULL62, "randint:1:1000000007000"), (2,)),
        lambda size, args: {2: _divmod_rows(args[0], args[1], np.int64, np.uint64)},
    ),
    textbook(
        "T12",
        "int_divconst",
        "quotients and remainders by constants",
        "integer",
        sizes(150, 4000),
        linear(unary("int32", FULL32, 4), (1,)),
        _divconst,
    ),
    textbook(
        "T12",
        "int_bits",
        "popc, clz, ffs, brev, byte_perm, funnel shifts",
        "integer",
        sizes(150, 4000),
        linear(binary("uint32", 9, FULLU32), (2,)),
        _bits,
    ),
    textbook(
        "T12",
        "int_mul64",
        "64-bit products, low and high words",
        "integer",
        sizes(150, 2000),
        linear(binary("int64", 5, FULL62), (2,)),
        _mul64,
    ),
    textbook(
        "T12",
        "int_misc",
        "min, max, abs, sad, mul24, saturation, rotation, averages",
        "integer",
        sizes(150, 4000),
        linear(binary("int32", 8, FULL32), (2,)),
        _misc,
    ),
)

ROWS: tuple[CatalogKernel, ...] = (*_ELEMENTARY, *_INTEGER)

"""Numpy helpers that several oracles share: rounding bounds and the dtypes numpy lacks.

Units: none.  Sources: for the summation bounds, the standard running-error analysis (Higham, "Accuracy and
Stability of Numerical Algorithms", ch. 3 and 4): a sum of n products in any order differs from the exact one
by at most gamma(n) * sum |a_i b_i|, gamma(n) = n u / (1 - n u).
Left out: anything about a particular kernel.
"""

from __future__ import annotations

import numpy as np

#: Unit round-off: half the distance from 1 to the next number.
U32, U16, UBF16, U64 = 2.0**-24, 2.0**-11, 2.0**-8, 2.0**-53


def gamma(n: int, unit: float = U32) -> float:
    """Relative error that n successive roundings can reach."""
    return n * unit / (1.0 - n * unit)


def matmul64(a: np.ndarray, b: np.ndarray, m: int, n: int, k: int) -> np.ndarray:
    """Flat row-major product in float64."""
    return (a.astype(np.float64).reshape(m, k) @ b.astype(np.float64).reshape(k, n)).reshape(-1)


def matmul_bound(a: np.ndarray, b: np.ndarray, m: int, n: int, k: int, unit: float = U32) -> np.ndarray:
    """Element-wise error allowed for a product accumulated in any order, plus one rounding of the result."""
    return gamma(k + 1, unit) * matmul64(np.abs(a), np.abs(b), m, n, k) + 1e-30


def bfloat16_values(bits: np.ndarray) -> np.ndarray:
    """float32 values of bfloat16 bit patterns (a bfloat16 is the upper half of a float32)."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """bfloat16 bit patterns of float32 values, rounded to nearest even (no NaN among them)."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def wrap32(values: np.ndarray) -> np.ndarray:
    """int64 values reduced to int32 as the machine's registers do."""
    return (values.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def truncated_divmod(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quotient and remainder rounded toward zero, as C does (b positive, a not the smallest integer)."""
    quotient = np.sign(a) * (np.abs(a) // b)
    return quotient, a - quotient * b


def popcount(values: np.ndarray) -> np.ndarray:
    """Set bits of unsigned words."""
    return np.bitwise_count(values).astype(np.int64)


def reverse_bits(values: np.ndarray) -> np.ndarray:
    """uint32 words with bit i moved to bit 31 - i."""
    result = np.zeros_like(values)
    for bit in range(32):
        result |= ((values >> np.uint32(bit)) & np.uint32(1)) << np.uint32(31 - bit)
    return result


def leading_zeros(values: np.ndarray, bits: int = 32) -> np.ndarray:
    """Zeros above the highest set bit; ``bits`` for 0."""
    result = np.zeros(values.shape, np.int64)
    rest = values.astype(np.uint64)
    for _ in range(bits):
        result += rest != 0
        rest = rest >> np.uint64(1)
    return bits - result


def round_directed(values: np.ndarray, dtype: type, toward: float | None) -> np.ndarray:
    """float64 values rounded to ``dtype`` toward ``toward`` (0, inf or -inf), or to nearest for None."""
    with np.errstate(over="ignore"):
        nearest: np.ndarray = values.astype(dtype)
    if toward is None:
        return nearest
    back = nearest.astype(np.float64)
    if toward == 0.0:
        wrong, aim = np.abs(back) > np.abs(values), np.zeros_like(nearest)
    else:
        wrong = back < values if toward > 0 else back > values
        aim = np.full_like(nearest, toward)
    return np.where(wrong, np.nextafter(nearest, aim), nearest)


def saturate(values: np.ndarray, low: int, high: int) -> np.ndarray:
    """Whole numbers clamped to a target's range, as int64 (bounds within 2**53)."""
    return np.clip(values, low, high).astype(np.int64)


def widen(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arrays in float64."""
    return tuple(a.astype(np.float64) for a in arrays)

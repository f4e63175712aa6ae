"""Oracles of the D, E and T rows: shapes and dtypes at tiny sizes, and values against brute force or by hand.

Nothing here runs a simulator: an oracle that is wrong would otherwise blame the executor.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpusim.kernels import numerics, spec
from gpusim.kernels.rows_half import D6_TILES, d6_bucket, d6_choose

OURS = [row for row in spec.all_kernels() if row.seed[0] in "DET"]
#: Counters that end where they started.
MAY_STAY_ZERO = {"T19-last-block-sum": {3}}


def row(kernel_id: str) -> spec.CatalogKernel:
    return spec.get(kernel_id)


def tiny(kernel_id: str) -> tuple[spec.Size, list[Any], dict[int, np.ndarray]]:
    kernel = row(kernel_id)
    args = kernel.inputs(kernel.tiny)
    return kernel.tiny, args, kernel.oracle(kernel.tiny, args)


@pytest.mark.parametrize("kernel", OURS, ids=lambda kernel: kernel.id)
def test_tiny_oracle_has_the_outputs_shapes_and_dtypes(kernel: spec.CatalogKernel) -> None:
    launch, args = kernel.launch(kernel.tiny), kernel.inputs(kernel.tiny)
    before = [np.array(arg, copy=True) for arg in args]
    expected = kernel.oracle(kernel.tiny, args)
    assert set(expected) == set(launch.outputs)
    for index, want in expected.items():
        assert want.reshape(-1).shape == args[index].shape
        if kernel.tolerance.kind == "exact":
            assert want.dtype == args[index].dtype
        assert np.all(np.isfinite(want.astype(np.float64)))
        assert np.any(want) or index in MAY_STAY_ZERO.get(kernel.id, set())
    if kernel.bound is not None:
        for index, allowed in kernel.bound(kernel.tiny, args).items():
            flat = np.asarray(allowed, np.float64).reshape(-1)
            assert flat.shape == args[index].shape and np.all(flat >= 0.0) and np.all(np.isfinite(flat))
            # A bound that swallows the result checks nothing.
            assert np.median(flat) <= 0.05 * np.median(np.abs(expected[index])) + 1e-30
    for old, arg in zip(before, args, strict=True):
        assert np.array_equal(old, arg, equal_nan=True), "an oracle must not change its inputs"


@pytest.mark.parametrize("kernel", OURS, ids=lambda kernel: kernel.id)
def test_source_names_the_entry_and_the_launch_is_legal(kernel: spec.CatalogKernel) -> None:
    assert kernel.entry in kernel.path.read_text(encoding="utf-8")
    for size in kernel.sizes:
        launch = kernel.launch(size)
        assert 1 <= math.prod(launch.block) <= 1024 and min(launch.grid) >= 1
        assert launch.dynamic_shared <= 48 * 1024


@pytest.mark.parametrize(
    "kernel_id", ["D0", "D1", "D2", "D3-pad1", "D3-pad16", "D4-wmma", "D4-mma", "E3", "E7"]
)
def test_matrix_product_by_three_loops(kernel_id: str) -> None:
    size, args, expected = tiny(kernel_id)
    m, n, k = size["M"], size["N"], size["K"]
    a, b = args[0].astype(float).tolist(), args[1].astype(float).tolist()
    for i, j in ((0, 0), (m - 1, 0), (0, n - 1), (m // 2, n // 3)):
        want = math.fsum(a[i * k + p] * b[p * n + j] for p in range(k))
        assert expected[2].reshape(m, n)[i, j] == pytest.approx(want, rel=1e-12, abs=1e-12)


def test_gelu_epilogue_by_hand() -> None:
    size, args, expected = tiny("D5-gelu")
    k, n = size["K"], size["N"]
    x = sum(float(args[0][p]) * float(args[1][p * n]) for p in range(k)) + float(args[2][0])
    gelu = 0.5 * x * (1.0 + math.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    assert expected[4][0] == pytest.approx(gelu + float(args[3][0]), rel=1e-9)


def test_bfloat16_bits_round_to_nearest_even() -> None:
    # 1 + 2^-8 lies half-way between 1 and 1 + 2^-7: to even, down; 1 + 3 * 2^-8 half-way too: up to 1 + 2^-6.
    values = np.array([1.0, 1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8, -2.5, 1.0 + 2.0**-8 + 2.0**-20], np.float32)
    bits = numerics.bfloat16_bits(values)
    assert bits.tolist() == [0x3F80, 0x3F80, 0x3F82, 0xC020, 0x3F81]
    assert numerics.bfloat16_values(bits).tolist() == [1.0, 1.0, 1.015625, -2.5, 1.0078125]


def test_directed_rounding_of_a_third() -> None:
    third = np.array([1.0 / 3.0, -1.0 / 3.0])
    below, above = np.float32(0.33333331), np.float32(0.33333334)
    assert numerics.round_directed(third, np.float32, 0.0).tolist() == [below, -below]
    assert numerics.round_directed(third, np.float32, np.inf).tolist() == [above, -below]
    assert numerics.round_directed(third, np.float32, -np.inf).tolist() == [below, -above]


def test_integer_helpers_by_hand() -> None:
    words = np.array([0, 1, 0x80000000, 0x00F0], np.uint32)
    assert numerics.leading_zeros(words).tolist() == [32, 31, 0, 24]
    assert numerics.reverse_bits(words).tolist() == [0, 0x80000000, 1, 0x0F000000]
    assert numerics.popcount(words).tolist() == [0, 1, 1, 4]
    quotient, remainder = numerics.truncated_divmod(np.array([-7, 7]), np.array([2, 2]))
    assert quotient.tolist() == [-3, 3] and remainder.tolist() == [-1, 1]
    assert numerics.wrap32(np.array([2**31, -(2**31) - 1])).tolist() == [-(2**31), 2**31 - 1]


def test_lookback_state_agrees_with_the_sums() -> None:
    _, args, expected = tiny("T1-scan-lookback")
    assert expected[5].tolist() == [args[0][:256].sum(), args[0][256:].sum()]
    assert expected[6].tolist() == [args[0][:256].sum(), args[0].sum()]


def test_histogram_counts_every_element() -> None:
    size, args, expected = tiny("T2-histogram-privatised")
    assert expected[1].sum() == size["n"]
    assert expected[1][7] == sum(1 for key in args[0].tolist() if key % 256 == 7)


def test_stencil_1d_at_an_edge() -> None:
    _, args, expected = tiny("T3-stencil-1d")
    x = args[0].astype(float)
    want = 0.3 * x[0] + 0.2 * x[1] + 0.1 * x[2] + 0.05 * x[3]  # weights from the centre on; zero on the left
    assert expected[1][0] == pytest.approx(want, rel=1e-6)


def test_softmax_rows_sum_to_one() -> None:
    size, _, expected = tiny("T4-softmax-online")
    assert expected[1].reshape(size["rows"], -1).sum(axis=1) == pytest.approx(np.ones(size["rows"]))


def test_radix_pass_orders_one_digit_and_is_stable() -> None:
    _, args, expected = tiny("T5-radix-pass")
    want = sorted(args[0].tolist(), key=lambda value: value // 16 % 16)  # sorted() is stable
    assert expected[1].tolist() == want


def test_collatz_of_27_takes_111_steps() -> None:
    from gpusim.kernels.rows_textbook_vectors import collatz_steps

    assert [collatz_steps(v) for v in (1, 2, 3, 27)] == [0, 1, 7, 111]


def test_mandelbrot_corner_leaves_at_once_and_the_origin_never() -> None:
    size, _, expected = tiny("T6-mandelbrot")
    picture = expected[0].reshape(size["ny"], size["nx"])
    assert picture[0, 0] == 1  # c = -2 - 1.5i: |z1|^2 = 6.25
    assert picture[5, 21] == size["limit"]  # c = -0.03 + 0i


def test_spmv_row_by_hand() -> None:
    _, args, expected = tiny("T8-spmv-scalar")
    begin, count, column, value, x = args[:5]
    r = int(np.argmax(count))
    span = range(begin[r], begin[r] + count[r])
    assert expected[5][r] == pytest.approx(math.fsum(float(value[e]) * float(x[column[e]]) for e in span))


def test_erf_against_the_standard_library() -> None:
    size, args, expected = tiny("T11-math-precise")
    n = size["n"]
    want = [math.erf(float(v)) for v in args[0]]
    assert expected[2][4 * n : 5 * n] == pytest.approx(want, rel=1e-8)


def test_fft_bin_by_definition() -> None:
    _, args, expected = tiny("T11-fft256")
    z = args[0].astype(float).view(complex)
    want = sum(
        z[k] * complex(math.cos(2 * math.pi * 3 * k / 256), -math.sin(2 * math.pi * 3 * k / 256))
        for k in range(256)
    )
    assert expected[1].view(complex)[3] == pytest.approx(want)


def test_bit_operations_of_one_word() -> None:
    kernel = row("T12-int-bits")
    args = [
        np.array([0x12345678], np.uint32),
        np.array([0x9ABCDEF4], np.uint32),
        np.zeros(9, np.uint32),
        np.int32(1),
    ]
    got = kernel.oracle({"name": "one", "n": 1}, args)[2].tolist()
    x, y = 0x12345678, 0x9ABCDEF4  # y & 31 = 20, y & 63 = 52
    assert got[:4] == [13, 3, 4, 0x1E6A2C48]
    assert got[4] == 0x129A56DE  # bytes 3 of x, 3 of y, 1 of x, 1 of y from the top
    assert got[5] == ((y << 20) | (x >> 12)) & 0xFFFFFFFF
    assert got[6] == y  # a clamped shift of 32 leaves the high word
    assert got[7] == (x.bit_count() + y.bit_count()) + 100 * 3
    assert got[8] == 3 ^ (int(f"{x << 32 | y:064b}"[::-1], 2) >> 17 & 0xFFFFFFFF)


def test_switch_cases_by_hand() -> None:
    from gpusim.kernels.rows_textbook_machine import _switch

    # v = 9: case 9 adds 81, case 10 inverts, case 11 adds 11; v = 0: 0 * 3, 0 ^ 77, 77 - 0.
    assert _switch(9, 0) == ~81 + 11
    assert _switch(0, 0) == 77


def test_dot_products_of_bytes() -> None:
    kernel = row("T13-dot4")
    a, b = np.array([0x80FF0102], np.uint32).view(np.int32), np.array([0x7F02FF03], np.uint32).view(np.int32)
    got = kernel.oracle({"name": "one", "n": 1}, [a, b, np.zeros(4, np.int32), np.int32(1)])[2].tolist()
    assert got[0] == 2 * 3 + 1 * -1 + -1 * 2 + -128 * 127 + 7
    assert got[1] == 2 * 3 + 1 * 255 + 255 * 2 + 128 * 127 + 7
    assert got[2] == 0x0102 * 3 + -0x7F01 * -1 - 5  # 16-bit parts 0x0102 and 0x80FF = -0x7F01
    assert got[3] == 0x0102 * 2 + 0x80FF * 0x7F + 5


def test_atomic_counters_by_stepping() -> None:
    size, _, expected = tiny("T17-atomic-int32")
    up = down = 0
    for _ in range(size["n"]):
        up = 0 if up >= 36 else up + 1
        down = 40 if down == 0 or down > 40 else down - 1
    assert expected[1][7] == up and expected[1][8] == down


def test_grid_barrier_rounds_by_hand() -> None:
    _, args, expected = tiny("T19-grid-barrier")
    values = args[0].tolist()
    history = [values]
    for _ in range(5):
        values = [values[i - 1] + values[(i + 1) % len(values)] for i in range(len(values))]
        history.append(values)
    assert expected[0].tolist() == history[4] and expected[1].tolist() == history[5]


def test_tolerance_counts_by_loop() -> None:
    size, args, expected = tiny("E8")
    bad = sum(
        abs(float(g) - float(w)) > 0.25 + 0.5 * abs(float(w)) for g, w in zip(args[0], args[1], strict=True)
    )
    assert expected[5][0] == bad and 0 < bad < size["n"]


def test_tile_table_buckets() -> None:
    assert len(set(D6_TILES)) == 27
    assert d6_bucket(1, 4096, 4096) == "row"
    assert d6_bucket(8, 8, 8) == "small"
    assert d6_bucket(4096, 4096, 4096) == "large"
    # 132 SMs: 1024 x 1024 makes 64 tiles of 128x128 (too few) and 256 of 64x64.
    assert d6_bucket(1024, 1024, 1024) == "middle"
    assert d6_choose(1024, 1024, 16) == (64, 64, 16)
    assert all(d6_choose(m, 512, k) in D6_TILES for m in (1, 64, 8192) for k in (8, 24, 4096))
    with pytest.raises(ValueError, match="positive"):
        d6_bucket(0, 8, 8)

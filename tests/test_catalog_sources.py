"""The catalog: every source compiles, every row's launch fits its kernel, and every oracle holds together.

Expected register, shared-memory and spill figures are derived by hand from the sources (array sizes, launch
bounds).  What the kernels compute is tested where they are executed; here the oracles are tested against
exact rational arithmetic and against each other.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim import program
from gpusim.errors import InputError
from gpusim.kernels import CUDA_DIR, all_kernels, check_outputs, get, ladder
from gpusim.kernels.listing import README, readme_with_table
from gpusim.kernels.rows_gemm import fma32, fma_chain
from gpusim.kernels.spec import CatalogKernel, Tolerance

ARCHS = ("sm_80", "sm_90")
ROWS = all_kernels()
IDS = [row.id for row in ROWS]
#: The rows of seeds.md; the textbook rows (T) are further food for the executor.
SEED_ROWS = [row for row in ROWS if row.seed[0] in "ABCDE"]

#: Bytes of static shared memory, from the array declarations (4 bytes an element).
SHARED_BYTES = {
    "A1": 0,
    "A2": 0,
    "A3-16": 2 * 16 * 16 * 4,
    "A3-32": 2 * 32 * 32 * 4,
    "A3-32x8": (8 * 32 + 32 * 32) * 4,
    "A4": 2 * 64 * 8 * 4,
    "A5": 2 * 128 * 8 * 4,
    "A6": 2 * 128 * 8 * 4,
    "A7": 2 * 128 * 16 * 4,
    "A8-pad": (8 * 132 + 8 * 144) * 4,
    "A8-layout": 2 * 128 * 8 * 4,
    "A8-swizzle": 2 * 128 * 8 * 4,
    "A9-double": 2 * 2 * 128 * 8 * 4,
    "A9-async": 2 * (128 * 20 + 16 * 128) * 4,
    "A13": (64 * 68 + 32 * 68 + 32 * 64 + 64 * 36) * 4,
    "B1": 0,
    "B2-16": 2 * 16 * 16 * 4,
    "B2-32": 2 * 32 * 32 * 4,
    "B3": (64 * 17 + 16 * 65) * 4,
    "B3-nopad": (64 * 16 + 16 * 64) * 4,
    "B4": (64 * 20 + 16 * 68) * 4,
    "C1": 2 * 1024,
    "C2": 8 * 1024,
    "C3-16": 4 * 1024,
    "C3-32": 16 * 1024,
    "C4": 8 * 1024,
}

#: Most registers a thread that the source or its options allow: 65,536 / (threads x blocks asked for).
REGISTER_LIMIT = {"A7": 128, "A9-double": 128, "A9-async": 128, "B5-64": 64, "B5-spill": 32, "B5-maxreg": 32}

#: Rows that are meant to spill; all others must not.
SPILLS = {"B5-spill", "B5-maxreg", "T20-call-recursive"}


@cache
def compiled(file: str, options: tuple[str, ...], arch: str) -> program.Module:
    return program.compile(CUDA_DIR.parent / file, arch, options=options, include_dirs=(CUDA_DIR,))


def kernel_of(row: CatalogKernel, arch: str) -> program.Kernel:
    return compiled(row.file, row.options, arch)[row.entry]


# ------------------------------------------------------------------------------------------ the compiled code


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_compiles_without_surprises(row: CatalogKernel, arch: str) -> None:
    kernel = kernel_of(row, arch)
    assert kernel.arch == arch
    assert 1 <= kernel.registers_per_thread <= REGISTER_LIMIT.get(row.id, 255)
    if row.id in SHARED_BYTES:
        assert kernel.static_shared_bytes == SHARED_BYTES[row.id]
    assert kernel.spill_bytes is not None
    assert (kernel.spill_bytes > 0) == (row.id in SPILLS)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_launch_fits_the_kernel(row: CatalogKernel) -> None:
    kernel = kernel_of(row, "sm_90")
    for size in row.sizes:
        spec = row.launch(size)
        threads = int(np.prod(spec.block))
        assert 1 <= threads <= (kernel.max_threads or 1024)
        # A block's registers are allocated by warps, in units of 256.
        warp = -(-kernel.registers_per_thread * 32 // 256) * 256
        assert warp * -(-threads // 32) <= 65536
        assert min(spec.grid) >= 1 and spec.grid[1] <= 65535 and spec.grid[2] <= 65535
        assert [p.size for p in kernel.params] == [
            8 if arg["kind"] == "array" else np.dtype(arg["dtype"]).itemsize for arg in spec.args
        ]
        assert spec.outputs and all(spec.args[index]["kind"] == "array" for index in spec.outputs)


def test_register_budgets_of_b5_mean_what_the_text_says() -> None:
    # 256 threads x 64 registers = 16,384: four blocks in 65,536; with 32 registers eight.
    assert kernel_of(get("B5-64"), "sm_90").registers_per_thread <= 64
    assert kernel_of(get("B5-spill"), "sm_90").registers_per_thread <= 32
    assert kernel_of(get("B5-maxreg"), "sm_90").local_bytes > 0


@pytest.mark.parametrize(("row_id", "present", "absent"), [
    ("A5", "LDG.E", "LDG.E.128"),
    ("A6", "LDG.E.128", "LDGSTS"),
    ("A9-async", "LDGSTS.E.BYPASS.128", "STS"),
    ("B4", "STS.128", "LDL"),
    ("B5-spill", "LDL", "LDGSTS"),
    ("C4", "LDS.128", "LDS.64"),
    ("A13", "MUFU.EX2", "LDL"),
])  # fmt: skip
def test_the_feature_a_row_stands_for_is_in_its_machine_code(row_id: str, present: str, absent: str) -> None:
    texts = [i.text for i in kernel_of(get(row_id), "sm_90").instructions]
    opcodes = {word for text in texts for word in re.findall(r"[A-Z][A-Z0-9_.]+", text)}
    assert any(word == present or word.startswith(present + ".") for word in opcodes)
    assert not any(word == absent or word.startswith(absent + ".") for word in opcodes)


# ------------------------------------------------------------------------------------------------ the catalog


def test_every_seed_row_is_served() -> None:
    wanted = {f"A{n}" for n in (*range(1, 10), 13)}
    wanted |= {f"B{n}" for n in range(1, 6)} | {f"C{n}" for n in range(1, 5)}
    wanted |= {f"D{n}" for n in range(7)} | {f"E{n}" for n in range(1, 9)}
    assert {row.seed for row in SEED_ROWS} == wanted


def test_every_claim_to_judge_has_a_row() -> None:
    assert {number for row in ROWS for number, _ in row.claims} == set(range(1, 9))


def test_every_source_belongs_to_a_row_and_says_which() -> None:
    assert set(CUDA_DIR.rglob("*.cu")) == {row.path for row in ROWS}
    for row in SEED_ROWS:
        text = row.path.read_text(encoding="utf-8")
        comment = re.match(r"(?://.*\n)+", text)
        header = comment[0] if comment else ""
        assert re.search(rf"\b{row.seed}\b", header), f"{row.file}: header comment does not name {row.seed}"
        assert re.search(r"\b(block|tile)\b", header), f"{row.file}: header comment lacks the launch shape"


def test_ladder_runs_from_a1_to_a9_at_4096() -> None:
    seeds = [row.seed for row in ladder()]
    assert list(dict.fromkeys(seeds)) == [f"A{n}" for n in range(1, 10)]
    for row in ladder():
        size = row.size("large")
        assert (size["M"], size["N"], size["K"]) == (4096, 4096, 4096)
        spec = row.launch(size)
        results_a_thread = 4096 * 4096 / spec.threads
        assert results_a_thread == {"A4": 8}.get(row.seed, 1 if row.seed in {"A1", "A2", "A3"} else 64)


def test_rows_that_promise_ragged_sizes_have_them() -> None:
    for row in ROWS:
        if row.seed in {"A1", "A2", "B1", "B2", "B4", "B5", "E4"}:
            assert any(size["M"] % 16 and size["N"] % 16 for size in row.sizes), row.id


def test_lookup_names_what_there_is() -> None:
    assert get("a5") is get("A5")
    with pytest.raises(InputError, match=r"no kernel 'A99'[\s\S]*A8-swizzle"):
        get("A99")
    with pytest.raises(InputError, match=r"no size 'huge'[\s\S]*tiny, middle, large"):
        get("A5").size("huge")


def test_manifest_row_is_format_1() -> None:
    row = get("A2")
    manifest = row.manifest_row(row.size("ragged"))
    assert manifest["id"] == "A2:ragged" and manifest["entry"] == "gemm_a2_coalesced"
    assert manifest["grid"] == [2, 3, 1] and manifest["block"] == [32, 32, 1]  # 45 columns, 70 rows
    assert manifest["args"][4] == {"kind": "array", "dtype": "float32", "n": 70 * 33, "init": "normal"}
    assert manifest["dynamic_shared"] == 0 and manifest["heavy"] is False


def test_readme_table_is_the_catalog() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == readme_with_table(text), "renew it: python -m gpusim.kernels --write"


# ------------------------------------------------------------------------------------------------ the oracles


def test_fma32_rounds_once() -> None:
    # 24929 * 673 = 2**24 + 1, so a * b = 1 + 2**-24: halfway between 1 and 1 + 2**-23. A float64 sum loses
    # the 2**-60 that decides, and rounding twice gives 1 for both.
    a, b = np.float32([24929.0] * 3), np.float32([673.0 * 2.0**-24] * 3)
    c = np.float32([2.0**-60, -(2.0**-60), 0.0])
    assert fma32(a, b, c).tolist() == [1.0 + 2.0**-23, 1.0, 1.0]


_MAGNITUDES = st.floats(width=32, min_value=2.0**-30, max_value=2.0**30)
_NUMBERS = _MAGNITUDES | _MAGNITUDES.map(lambda x: -x)


@settings(max_examples=200, deadline=None)
@given(_NUMBERS, _NUMBERS, _NUMBERS)
def test_fma32_is_the_nearest_number(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    got = fma32(np.float32([a]), np.float32([b]), np.float32([c]))[0]
    error = abs(exact - Fraction(float(got)))
    for neighbour in (np.nextafter(got, np.float32(-np.inf)), np.nextafter(got, np.float32(np.inf))):
        other = abs(exact - Fraction(float(neighbour)))
        assert error < other or (error == other and int(got.view(np.int32)) % 2 == 0)


def test_fma_chain_adds_in_order() -> None:
    # 2**24 + 1 is no float32: added to 2**24, each 1 is lost. In the other order -2**24 + 1 + 1 is exact.
    a, b = np.float32([[2.0**24, 1.0, 1.0, -(2.0**24)]]), np.ones((4, 1), np.float32)
    assert fma_chain(a, b).tolist() == [[0.0]]
    assert fma_chain(a[:, ::-1], b).tolist() == [[2.0]]


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_oracle_answers_for_every_output(row: CatalogKernel) -> None:
    for size in row.sizes:
        if size["name"] not in {"tiny", "ragged", "unaligned"}:
            continue
        args = row.inputs(size)
        before = [arg.copy() for arg in args]
        expected = row.oracle(size, args)
        assert set(expected) == set(row.launch(size).outputs)
        for index, want in expected.items():
            assert want.size == args[index].size
            assert np.isfinite(want.astype(np.float64)).all()
        unchanged = [np.array_equal(a, b) for a, b in zip(args, before, strict=True)]
        assert all(unchanged), "the oracle changed its inputs"


@pytest.mark.parametrize("row", [r for r in ROWS if r.exact and r.seed[0] in "ABC"], ids=lambda r: r.id)
def test_exact_oracle_lies_within_the_bound_and_the_bound_is_tight_enough(row: CatalogKernel) -> None:
    assert row.exact is not None
    for size in row.sizes:
        if size["name"] not in {"tiny", "ragged", "unaligned"}:
            continue
        args = row.inputs(size)
        outputs = {i: np.asarray(v).astype(args[i].dtype) for i, v in row.exact(size, args).items()}
        assert all(verdict.ok for verdict in check_outputs(row, size, args, outputs))
        # One product left out of one sum is thousands of roundings: it must not pass.
        for index, array in outputs.items():
            wrong = array.copy()
            wrong[wrong.size // 2] += wrong.dtype.type(0.05)
            assert not check_outputs(row, size, args, {**outputs, index: wrong})[0].ok


def test_padding_between_rows_must_stay_as_it_was() -> None:
    row = get("B4")
    size = row.size("ragged")  # N = 90, ldc = 96
    args = row.inputs(size)
    assert row.exact is not None
    output = row.exact(size, args)[2].copy()
    assert check_outputs(row, size, args, {2: output})[0].ok
    output[93] += np.float32(1e-6)
    assert not check_outputs(row, size, args, {2: output})[0].ok


def test_a_tolerance_needs_a_known_kind_and_a_reason() -> None:
    with pytest.raises(ValueError, match="unknown tolerance kind"):
        Tolerance("close", 1.0, "because")
    with pytest.raises(ValueError, match="needs its reason"):
        Tolerance("ulp", 1.0, "")

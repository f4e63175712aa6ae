"""Occupancy against NVIDIA's calculator, against an H200, and against arithmetic done by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.device import DeviceSpec, compute_capabilities, load_compute_capability, load_device
from gpusim.errors import InputError, LaunchError
from gpusim.occupancy import RESOURCES, curve, occupancy, resource_limits, suggestions

KB = 1024
HERE = Path(__file__).parent
ROOT = HERE.parent
INT_MAX = 2**31 - 1

# --- The oracle: cuda_occupancy.h ------------------------------------------------------------------

# What the header asks of a device, typed here from NVIDIA's tables and not read from gpusim's files:
# threads an SM, shared KB an SM, KB a block after opting in, bytes reserved a block.
DEVICE_PROPERTIES = {
    "7.0": (2048, 96, 96, 0),
    "7.5": (1024, 64, 64, 0),
    "8.0": (2048, 164, 163, 1024),
    "8.6": (1536, 100, 99, 1024),
    "8.7": (1536, 164, 163, 1024),
    "8.9": (1536, 100, 99, 1024),
    "9.0": (2048, 228, 227, 1024),
    "10.0": (2048, 228, 227, 1024),
    "10.3": (2048, 228, 227, 1024),
    "12.0": (1536, 100, 99, 1024),
    "12.1": (1536, 100, 99, 1024),
}

# OCC_LIMIT_* bits of the header.
FACTOR_BITS = {"warps": 1, "registers": 2, "shared_mem": 4, "blocks": 8, "barriers": 16}

Case = tuple[str, int, int, int, int, int]  # cc, registers, static, dynamic, threads, barriers
Oracle = Callable[[list[Case]], list[list[int]]]


def header_directory() -> Path:
    """Where cuda_occupancy.h is: the nvidia-cuda-runtime wheel (a dependency), else a toolkit."""
    roots: list[Path] = []
    namespace = find_spec("nvidia")
    for base in (namespace.submodule_search_locations or ()) if namespace else ():
        roots += sorted(Path(base).glob("*/include"))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if name in os.environ:
            roots.append(Path(os.environ[name]) / "include")
    roots += sorted(Path("/usr/local").glob("cuda*/include"))
    found = [r for r in roots if (r / "cuda_occupancy.h").is_file()]
    assert found, f"cuda_occupancy.h is in none of {[str(r) for r in roots]}: install nvidia-cuda-runtime"
    return found[0]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang) on this machine to build the cuda_occupancy.h oracle")
    program = tmp_path_factory.mktemp("oracle") / "occupancy_oracle"
    source = HERE / "oracle" / "occupancy_oracle.c"
    subprocess.run(
        [compiler, "-O1", "-o", str(program), str(source), "-I", str(header_directory())],
        check=True, capture_output=True, text=True,
    )  # fmt: skip

    def ask(cases: list[Case]) -> list[list[int]]:
        lines = []
        for cc, registers, static, dynamic, threads, barriers in cases:
            threads_sm, shared_sm, optin, reserved = DEVICE_PROPERTIES[cc]
            device = (*cc.split("."), threads_sm, 65536, shared_sm * KB, 48 * KB, optin * KB, reserved)
            lines.append(" ".join(map(str, (*device, registers, static, dynamic, threads, barriers))))
        output = subprocess.run(
            [str(program)], input="\n".join(lines), capture_output=True, text=True, check=True
        ).stdout
        answers = [[int(field) for field in line.split()] for line in output.splitlines()]
        assert len(answers) == len(cases)
        return answers

    return ask


def random_cases(cc: str, count: int, rng: np.random.Generator) -> list[Case]:
    """Launches of every sort: small and full blocks, no shared memory to too much, boundary sizes."""

    def between(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    def one_of(*options: int) -> int:
        return options[between(0, len(options) - 1)]

    optin = DEVICE_PROPERTIES[cc][2] * KB
    cases: list[Case] = []
    for _ in range(count):
        threads = one_of(between(1, 1024), 32 * between(1, 32), 1 << between(5, 10))
        registers = one_of(between(1, 255), 8 * between(2, 31), between(16, 64))
        static = one_of(0, between(0, 48 * KB), KB * between(0, 16))
        most = optin - static
        dynamic = one_of(0, 0, between(0, most), most, most + 1, between(0, 4 * KB))
        barriers = one_of(0, 1, 1, between(0, 16))
        cases.append((cc, registers, static, dynamic, threads, barriers))
    return cases


def test_every_compute_capability_is_compared() -> None:
    assert compute_capabilities() == list(DEVICE_PROPERTIES)


@pytest.mark.parametrize("cc", DEVICE_PROPERTIES)
def test_equals_the_cuda_occupancy_calculator(cc: str, oracle: Oracle) -> None:
    spec = load_compute_capability(cc)
    rng = np.random.default_rng(int(cc.replace(".", "")))
    every_register_count = [(cc, r, 0, 0, t, 1) for r in range(1, 256) for t in (32, 96, 256, 1024)]
    every_block_size = [(cc, 40, 3000, 0, t, 1) for t in range(1, 1025)]
    cases = [*random_cases(cc, 1500, rng), *every_register_count, *every_block_size]
    refused = 0
    for case, answer in zip(cases, oracle(cases), strict=True):
        status, active, by_registers, by_shared, by_warps, by_blocks, by_barriers, factors, allocated = answer
        assert status == 0, case
        launch, barriers = case[1:5], case[5]
        ours = resource_limits(spec, *launch, barriers=barriers)
        assert ours.registers == by_registers, case
        assert ours.warps == by_warps, case
        assert ours.blocks == by_blocks, case
        # The header says INT_MAX for what a block does not use; we say all block slots.
        assert ours.shared_mem == (by_blocks if by_shared == INT_MAX else by_shared), case
        assert ours.barriers == min(by_barriers, by_blocks), case
        assert ours.least == active, case
        if active == 0:
            refused += 1
            with pytest.raises(LaunchError):
                occupancy(spec, *launch, barriers=barriers)
            continue
        occ = occupancy(spec, *launch, barriers=barriers)
        assert occ.active_blocks == active, case
        assert occ.shared_mem_per_block_bytes == allocated, case
        flagged = {r for r in RESOURCES if FACTOR_BITS[r] & factors}
        if by_barriers < min(by_registers, by_shared, by_warps, by_blocks):
            # The header raises the other flags before it looks at barriers and does not lower them again.
            assert "barriers" in flagged
            flagged = {"barriers"}
        assert flagged == set(occ.limiters), case
        assert occ.limits.shared_mem >= active, case  # the chosen carve-out never costs a block
    assert 0 < refused < len(cases) / 4


# --- The card: 97 launches of an H200 ---------------------------------------------------------------

RECORD = json.loads((HERE / "data" / "occupancy_h200.json").read_text())


@pytest.mark.parametrize("row", RECORD["launches"], ids=lambda row: row["id"])
def test_equals_the_profiler_on_an_h200(row: dict) -> None:
    spec = load_device("h200")
    launch = row["launch"]
    measured = dict(zip(RECORD["metrics"], row["measured"], strict=True))
    occ = occupancy(
        spec, launch["registers"], launch["static_shared"], launch["dynamic_shared"], launch["block"],
        barriers=launch["barriers"],
    )  # fmt: skip
    waves = measured.pop("launch__waves_per_multiprocessor")
    achieved = measured.pop("sm__warps_active.avg.pct_of_peak_sustained_active")
    predicted = occ.metrics()
    assert {name: predicted[name] for name in measured} == measured
    # Waves hold the profiler's own count of resident blocks: grid / (SMs x blocks), printed to 0.01.
    assert occ.waves(launch["grid"], spec.integer("device.sm_count")) == pytest.approx(waves, abs=0.0051)
    # What was achieved cannot exceed what is possible.
    assert achieved <= occ.theoretical_occupancy_pct + 0.5


def test_the_record_holds_every_measured_launch() -> None:
    assert len(RECORD["launches"]) == 97
    assert len({row["id"] for row in RECORD["launches"]}) == 97


# --- By hand ------------------------------------------------------------------------------------------


def test_256_threads_of_64_registers_are_four_blocks() -> None:
    # Seed row B5.  A warp takes 64 x 32 = 2,048 registers; a sub-partition has 65,536 / 4 = 16,384, so
    # 8 warps; the SM 32 warps; a block is 8 warps: 4 blocks, 32 of 64 warps.
    occ = occupancy(load_device("h200"), 64, 0, 0, 256)
    assert occ.active_blocks == 4
    assert occ.limiters == ("registers",)
    assert occ.theoretical_occupancy_pct == 50.0


def test_one_register_above_a_multiple_of_eight_costs_the_whole_step() -> None:
    # 65 x 32 = 2,080 -> 2,304 (9 x 256); 16,384 // 2,304 = 7 warps a sub-partition, 28 an SM, 3 blocks of 8.
    occ = occupancy(load_device("h200"), 65, 0, 0, 256)
    assert (occ.registers_per_thread_allocated, occ.active_blocks) == (72, 3)
    assert occ.theoretical_occupancy_pct == 37.5


@pytest.mark.parametrize(("registers", "blocks", "pct"), [(32, 2, 100.0), (33, 1, 50.0), (64, 1, 50.0)])
def test_seed_claim_c2_24_resident_blocks_and_75_percent_is_impossible(
    registers: int, blocks: int, pct: float
) -> None:
    # Claim: the 32x32 tile (8 KB of shared memory, V100 with 96 KB) has 24 resident blocks, 75 % occupancy.
    # A 32x32 block is 1,024 threads = 32 warps.  V100 has 64 warp slots: at most 2 blocks, whatever the
    # shared memory (which would hold 96 / 8 = 12 blocks, not 24 either).  One block is 50 %, two are 100 %:
    # 75 % cannot occur.  Registers decide which: 2 blocks need 64 warps, 16 a sub-partition, so
    # 16,384 / 16 = 1,024 registers a warp, 32 a thread.  From 33 on (allocated 40) one block remains.
    occ = occupancy(load_device("v100"), registers, 8 * KB, 0, 1024)
    assert occ.capacity.shared_mem == 12
    assert occ.capacity.warps == 2
    assert occ.active_blocks == blocks
    assert occ.theoretical_occupancy_pct == pct


def test_seed_c1_16x16_tile_on_v100_is_limited_by_warps() -> None:
    # 256 threads = 8 warps -> 8 blocks; 2 KB of shared memory would allow 48; 32 registers: 16 warps a
    # sub-partition, 16 x 4 / 8 = 8 blocks.
    occ = occupancy(load_device("v100"), 32, 2 * KB, 0, 256)
    assert occ.capacity.as_dict() == {
        "registers": 8, "shared_mem": 48, "warps": 8, "blocks": 32, "barriers": 32,
    }  # fmt: skip
    assert occ.limiters == ("registers", "warps")
    assert occ.limiter == "registers and warps"
    assert occ.theoretical_occupancy_pct == 100.0


def test_shared_memory_limits_with_the_reserved_kilobyte() -> None:
    # 75 KB + 1 KB reserved = 76 KB a block: 228 / 76 = 3 blocks.  One byte more rounds up by 128 B: 2 blocks.
    h200 = load_device("h200")
    assert occupancy(h200, 32, 0, 75 * KB, 128).active_blocks == 3
    more = occupancy(h200, 32, 0, 75 * KB + 1, 128)
    assert (more.active_blocks, more.limiters) == (2, ("shared_mem",))
    assert more.shared_mem_per_block_bytes == 76 * KB + 128


def test_small_blocks_run_out_of_block_slots() -> None:
    # 32 blocks of one warp: 32 of 64 warps.
    occ = occupancy(load_device("h200"), 16, 0, 0, 32)
    assert (occ.active_blocks, occ.limiters, occ.theoretical_occupancy_pct) == (32, ("blocks",), 50.0)


def test_a_partial_warp_counts_as_a_warp() -> None:
    # 33 threads are 2 warps: 64 / 2 = 32 blocks, all warp slots taken by half-empty warps.
    occ = occupancy(load_device("h200"), 16, 0, 0, 33)
    assert (occ.warps_per_block, occ.active_blocks, occ.theoretical_occupancy_pct) == (2, 32, 100.0)


def test_many_named_barriers_limit_hopper_but_not_ampere() -> None:
    # 16 barriers a block; an sm_90 SM has 64: 4 blocks.  The calculator counts them from 9.0 on.
    assert occupancy(load_device("h200"), 32, 0, 0, 64, barriers=16).active_blocks == 4
    assert occupancy(load_device("a100-80"), 32, 0, 0, 64, barriers=16).active_blocks == 32


def test_carveout_of_every_recorded_launch() -> None:
    """511 launches on an H200; cuBLAS's A10:4096 is the exception: it may state a preference."""
    h200, got, want = load_device("h200"), {}, {}
    for path in sorted((ROOT / "validation" / "measurements" / "h200" / "records").glob("*/*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        m = {k: v["value"] for k, v in record["profile"]["metrics"].items() if k.startswith("launch__")}
        static, dynamic = (m[f"launch__shared_mem_per_block_{kind}"] for kind in ("static", "dynamic"))
        occ = occupancy(
            h200,
            m["launch__registers_per_thread"],
            static,
            dynamic,
            m["launch__block_size"],
            barriers=m["launch__barrier_count"],
        )
        got[record["id"]] = occ.shared_mem_config_bytes
        want[record["id"]] = m["launch__shared_mem_config_size"]
    assert len(want) == 511
    assert {k: v for k, v in want.items() if got[k] != v} == {"A10:4096": 228 * KB}


def test_carveout_and_what_it_leaves_of_l1() -> None:
    # s01_pad0 of the record: 9,216 B a block, 2 resident blocks = 18 KB -> carve-out 32 KB; L1 keeps 224 KB.
    occ = occupancy(load_device("h200"), 18, 8 * KB, 0, 1024)
    assert occ.shared_mem_config_bytes == 32 * KB
    assert occ.l1_bytes == 224 * KB
    assert occ.shared_mem_config_kind == "measured"
    assert occupancy(load_device("v100"), 18, 8 * KB, 0, 1024).shared_mem_config_kind == "assumed"


# --- Refused launches -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("launch", "says", "advises"),
    [
        ((32, 0, 0, 0), "a block of 0 threads", "at least one thread"),
        ((32, 0, 0, -5), "a block of -5 threads", "at least one thread"),
        ((32, 0, 0, 1025), "1,025 threads exceeds the limit of 1,024", "at most 1,024 threads"),
        ((256, 0, 0, 128), "256 registers a thread", "1 to 255 registers"),
        ((0, 0, 0, 128), "0 registers a thread", "1 to 255 registers"),
        ((32, -1, 0, 128), "cannot be negative", "0 or more"),
        ((32, 48 * KB + 1, 0, 128), "49,153 B of static shared memory", "extern __shared__"),
        ((32, KB, 227 * KB, 128), "exceed the 232,448 B a block may have on h200", "use 1,024 B less"),
        # 32 warps x 65 -> 72 registers x 32 = 73,728 > 65,536; 64 x 32 x 32 is exactly 65,536.
        ((65, 0, 0, 1024), "more than the 65,536 registers", "--maxrregcount 64"),
    ],
)
def test_refused_launches_say_why_and_what_to_do(
    launch: tuple[int, int, int, int], says: str, advises: str
) -> None:
    with pytest.raises(LaunchError) as caught:
        occupancy(load_device("h200"), *launch)
    assert says in caught.value.what
    assert caught.value.hint is not None and advises in caught.value.hint


def test_the_limits_themselves_are_accepted() -> None:
    h200 = load_device("h200")
    assert occupancy(h200, 64, 0, 0, 1024).active_blocks == 1
    assert occupancy(h200, 255, 0, 227 * KB, 256).active_blocks == 1
    assert occupancy(h200, 32, 48 * KB, 0, 1).active_blocks == 4  # 228 // 49


def test_too_many_barriers_are_refused() -> None:
    with pytest.raises(LaunchError, match="17 barriers"):
        occupancy(load_device("h200"), 32, 0, 0, 64, barriers=17)


# --- Properties -------------------------------------------------------------------------------------------

specs = st.sampled_from([load_compute_capability(cc) for cc in compute_capabilities()])
threads = st.integers(1, 1024)


@given(spec=specs, block=threads, a=st.integers(1, 255), b=st.integers(1, 255), shared=st.integers(0, 60_000))
def test_more_registers_never_raise_the_block_count(
    spec: DeviceSpec, block: int, a: int, b: int, shared: int
) -> None:
    fewer, more = (resource_limits(spec, r, 0, shared, block).least for r in sorted((a, b)))
    assert fewer >= more


@given(spec=specs, block=threads, a=st.integers(0, 240_000), b=st.integers(0, 240_000))
def test_more_shared_memory_never_raises_the_block_count(
    spec: DeviceSpec, block: int, a: int, b: int
) -> None:
    fewer, more = (resource_limits(spec, 32, 0, s, block).least for s in sorted((a, b)))
    assert fewer >= more


@given(spec=specs, block=threads, registers=st.integers(1, 64), static=st.integers(0, 40_000))
def test_static_and_dynamic_shared_memory_count_alike(
    spec: DeviceSpec, block: int, registers: int, static: int
) -> None:
    as_static, as_dynamic = (occupancy(spec, registers, *s, block) for s in ((static, 0), (0, static)))
    assert as_static.active_blocks == as_dynamic.active_blocks
    assert as_static.limits == as_dynamic.limits


@given(spec=specs, block=threads, registers=st.integers(16, 64), shared=st.integers(0, 60_000))
def test_what_is_resident_fits_the_sm(spec: DeviceSpec, block: int, registers: int, shared: int) -> None:
    occ = occupancy(spec, registers, 0, shared, block)
    assert 1 <= occ.active_blocks <= spec.integer("sm.blocks")
    assert occ.active_warps <= spec.integer("sm.warps")
    assert occ.active_blocks * occ.shared_mem_per_block_bytes <= occ.shared_mem_config_bytes
    assert occ.active_warps * 32 * occ.registers_per_thread_allocated <= spec.integer("sm.registers")
    assert occ.shared_mem_config_bytes // KB in spec.integers("shared.carveouts")
    assert occ.limiters


# --- Curves and advice --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("over", "x", "blocks"),
    [
        # 256 threads, 8 KB, 48 registers: 16,384 // 1,536 = 10 warps a sub-partition, 40 / 8 = 5 blocks.
        ("registers", [32, 40, 48, 64, 128, 255], [8, 6, 5, 4, 2, 1]),
        ("shared", [0, 8 * KB, 56 * KB, 112 * KB + 128, 227 * KB], [5, 5, 4, 2, 1]),
        ("block", [32, 64, 256, 512, 1024], [25, 20, 5, 2, 1]),
    ],
)
def test_curves_go_through_points_worked_out_by_hand(over: str, x: list[int], blocks: list[int]) -> None:
    # shared 8 KB + 1 KB: 228 // 9 = 25 blocks; 56 KB: 228 // 57 = 4; block of 64: 40 warps / 2 = 20.
    c = curve(load_device("h200"), over, 48, 8 * KB, 0, 256)
    assert [int(c.active_blocks[c.x == value][0]) for value in x] == blocks
    warps = {"block": [v // 32 for v in x]}.get(over, [8] * len(x))
    assert [float(c.theoretical_occupancy_pct[c.x == v][0]) for v in x] == [
        100 * b * w / 64 for b, w in zip(blocks, warps, strict=True)
    ]


def test_a_curve_is_zero_where_the_launch_is_refused() -> None:
    c = curve(load_device("h200"), "registers", 32, 0, 0, 1024)
    assert c.active_blocks[c.x == 64].tolist() == [1]
    assert c.active_blocks[c.x == 65].tolist() == [0]


def test_an_unknown_curve_names_those_there_are() -> None:
    with pytest.raises(InputError, match="registers, shared, block"):
        curve(load_device("h200"), "grid", 32, 0, 0, 256)


def test_advice_names_the_register_budget_of_the_next_block() -> None:
    # 48 registers: 5 blocks.  6 blocks = 48 warps, 12 a sub-partition: 16,384 // 12 = 1,365, in whole units
    # 1,280 a warp, 40 a thread.
    # 8 blocks = 64 warps, 16 a sub-partition: 1,024 a warp = 32 registers.
    h200 = load_device("h200")
    first, full = suggestions(h200, occupancy(h200, 48, 0, 0, 256))[:2]
    assert (first.active_blocks, first.registers_per_thread, first.theoretical_occupancy_pct) == (6, 40, 75.0)
    assert first.text == "6 blocks an SM (75 % occupancy) need at most 40 registers a thread (now 48)"
    assert (full.active_blocks, full.registers_per_thread) == (8, 32)


def test_advice_names_the_shared_memory_budget() -> None:
    # 3 blocks of 64 KB + 1 KB.  4 blocks: 228 / 4 = 57 KB, less the reserved 1 KB: 56 KB.
    h200 = load_device("h200")
    first = suggestions(h200, occupancy(h200, 32, 0, 64 * KB, 256))[0]
    assert (first.active_blocks, first.shared_bytes, first.registers_per_thread) == (4, 56 * KB, None)


def test_advice_names_a_block_size_when_slots_are_the_limit() -> None:
    # One-warp blocks fill 32 block slots with 32 warps; blocks of 64 threads give 32 x 2 = 64 warps.
    h200 = load_device("h200")
    (advice,) = suggestions(h200, occupancy(h200, 16, 0, 0, 32))
    assert (advice.block_threads, advice.active_blocks, advice.theoretical_occupancy_pct) == (64, 32, 100.0)


def test_a_full_sm_needs_no_advice() -> None:
    h200 = load_device("h200")
    assert suggestions(h200, occupancy(h200, 32, 0, 0, 256)) == []


@given(spec=specs, block=threads, registers=st.integers(16, 64), shared=st.integers(0, 60_000))
def test_advice_keeps_its_promise_and_is_tight(
    spec: DeviceSpec, block: int, registers: int, shared: int
) -> None:
    occ = occupancy(spec, registers, 0, shared, block)
    for s in suggestions(spec, occ):
        launch = {
            "registers": s.registers_per_thread or registers,
            "shared": shared if s.shared_bytes is None else s.shared_bytes,
            "block": s.block_threads or block,
        }
        got = occupancy(spec, launch["registers"], 0, launch["shared"], launch["block"])
        assert got.active_blocks == s.active_blocks
        assert got.theoretical_occupancy_pct == s.theoretical_occupancy_pct > occ.theoretical_occupancy_pct
        if s.registers_per_thread is not None:  # one register more would not do
            above = resource_limits(spec, launch["registers"] + 1, 0, launch["shared"], launch["block"])
            assert above.least < s.active_blocks
        if s.shared_bytes is not None:
            above = resource_limits(spec, launch["registers"], 0, launch["shared"] + 1, launch["block"])
            assert above.least < s.active_blocks

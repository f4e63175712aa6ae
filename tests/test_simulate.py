"""The Python API of a simulated launch: results, coverage, sampling, progress, devices."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest

from gpusim.metrics import TRAFFIC
from gpusim.program import Module, compile
from gpusim.simulate import run, simulate

simulation = importlib.import_module("gpusim.simulate")  # gpusim.simulate itself is the function

SOURCE = """\
extern "C" {
__global__ void triad(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + 2.0f * b[i];
}
__global__ void uneven(int* x) {
    int s = 0;
    #pragma unroll 1
    for (int k = 0; k < blockIdx.x % 7; ++k) s = s * 5 + k;
    x[blockIdx.x] = s;
}
__global__ void columns(const int* x, int* y) {
    __shared__ int s[32][32];
    s[threadIdx.x][threadIdx.y] = x[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    y[threadIdx.y * 32 + threadIdx.x] = s[threadIdx.y][threadIdx.x];
}
__global__ void count(unsigned* c) { if (atomicAdd(c, 1) == 0) c[1] = blockIdx.x; }
__global__ void add(float* s, const float* x) { atomicAdd(s, x[blockIdx.x * blockDim.x + threadIdx.x]); }
}
"""


@pytest.fixture(scope="module")
def module() -> Module:
    return compile(SOURCE)


def triad(n: int) -> list[object]:
    return [np.ones(n, np.float32), np.ones(n, np.float32), np.zeros(n, np.float32), np.int32(n)]


def test_small_launch_is_executed_whole(module: Module) -> None:
    """1,000 elements by 8 blocks of 128: warps 0-30 full, warp 31 with 8 lanes at work."""
    result = simulate(module["triad"], 8, 128, triad(1000))
    coverage = result.coverage
    assert (coverage.ctas_total, coverage.ctas_executed, coverage.sampled, coverage.alike) == (
        8,
        8,
        False,
        True,
    )
    value = {name: metric.value for name, metric in result.metrics.items()}
    assert value["smsp__inst_executed_op_global_ld.sum"] == 2 * 32
    assert value["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 2 * 125  # 4,000 bytes in sectors of 32
    assert value["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 125
    assert value["memory_l1_tag_requests_global"] == 3 * 32  # lines of 128 bytes
    assert value["launch__registers_per_thread"] == max(16, module["triad"].registers_per_thread)
    moved = {d.name for d in TRAFFIC}
    assert {result.metrics[name].tier for name in moved} == {"modelled"}
    sectors = {name: m.tier for name, m in result.metrics.items() if "sectors" in name and name not in moved}
    assert set(sectors.values()) == {"exact"}


def test_bank_conflicts_are_hot(module: Module) -> None:
    """A column written, 32 words apart: 32 wavefronts where 1 is ideal, in 32 warps; rows are read in 1."""
    result = simulate(module["columns"], 1, (32, 32), [np.zeros(1024, np.int32), np.zeros(1024, np.int32)])
    rows = {row["sass"].split()[0].split(".")[0]: row for row in result.instructions}
    assert rows["STS"]["memory_l1_wavefronts_shared"] == 32 * 32
    assert rows["STS"]["memory_l1_wavefronts_shared_ideal"] == 32
    assert rows["LDS"]["memory_l1_wavefronts_shared"] == 32
    assert result.metrics["derived__memory_l1_wavefronts_shared_excessive"].value == 31 * 32
    assert [row["sass"].split()[0] for row in result.hotspots()] == ["STS"]


def test_sample_of_alike_blocks_is_exact(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last block is partly idle: it is a class of its own, so scaling changes nothing."""
    n = 128 * 99 + 50
    whole = simulate(module["triad"], 100, 128, triad(n), full=True)
    monkeypatch.setattr(simulation, "FULL_LIMIT", 0)
    sample = simulate(module["triad"], 100, 128, triad(n))
    assert sample.coverage.sampled and sample.coverage.alike and sample.coverage.ctas_executed == 6
    assert "6 of 100 CTAs" in sample.coverage.note
    assert sample.metrics == whole.metrics and sample.instructions == whole.instructions
    forced = simulate(module["triad"], 100, 128, triad(n), full=True)
    assert not forced.coverage.sampled and forced.coverage.ctas_executed == 100


def test_sample_of_different_blocks_says_so(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "FULL_LIMIT", 0)
    result = simulate(module["uneven"], 700, 32, [np.zeros(700, np.int32)])
    assert result.coverage.sampled and not result.coverage.alike
    assert "estimates" in result.coverage.note
    assert result.metrics["smsp__inst_executed.sum"].tier == "modelled"
    assert result.metrics["launch__grid_size"].tier == "exact"


def test_communicating_blocks_are_never_sampled(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "FULL_LIMIT", 0)
    result = simulate(module["count"], 50, 64, [np.zeros(2, np.uint32)])
    assert not result.coverage.sampled and result.coverage.ctas_executed == 50


def test_float_atomics_do_not_depend_on_cores(module: Module) -> None:
    """The order of additions is fixed, whatever the number of threads."""
    x = np.random.default_rng(5).standard_normal(64 * 128).astype(np.float32)
    outs = [run(module["add"], 64, 128, [np.zeros(1, np.float32), x], jobs=jobs)[0] for jobs in (1, 2, 5)]
    assert len({out.tobytes() for out in outs}) == 1
    assert outs[0][0] == pytest.approx(x.sum(dtype=np.float64), abs=1e-2)


def test_cores_do_not_change_counts(module: Module) -> None:
    results = [simulate(module["triad"], 100, 128, triad(12_700), jobs=jobs) for jobs in (1, 2, 3)]
    assert results[0].metrics == results[1].metrics == results[2].metrics
    assert results[0].instructions == results[1].instructions == results[2].instructions


def test_progress_counts_every_block(module: Module) -> None:
    seen: list[tuple[int, int]] = []
    simulate(
        module["triad"],
        64,
        128,
        triad(64 * 128),
        full=True,
        jobs=1,
        progress=lambda d, t, _: seen.append((d, t)),
    )
    assert seen[-1] == (64, 64)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_device_decides_occupancy(module: Module) -> None:
    """1,024 threads: an SM of 2,048 threads holds 2 blocks, one of 1,536 holds 1."""
    limits = {
        device: simulate(module["columns"], 1, (32, 32), [np.zeros(1024, np.int32)] * 2, device=device)
        .metrics["launch__occupancy_limit_warps"]
        .value
        for device in ("h200", "a100-80")
    }
    assert limits == {"h200": 2, "a100-80": 2}


def test_inputs_are_not_written(module: Module) -> None:
    args = triad(256)
    simulate(module["triad"], 2, 128, args)
    out = run(module["triad"], 2, 128, args)
    assert not np.asarray(args[2]).any()
    assert out[2].tolist() == [3.0] * 256 and out[3] == 256


def test_report_is_json(module: Module) -> None:
    result = simulate(module["triad"], 8, 128, triad(1000))
    report = json.loads(json.dumps(result.to_json("t")))
    assert report["schema"] == "gpusim.report/1"
    assert report["id"] == "t"
    assert {gap["what"] for gap in result.not_modelled} >= {"time"}

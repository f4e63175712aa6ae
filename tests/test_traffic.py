"""Traffic of launches: kernels whose sectors are counted by hand, and recorded probes of many warps.

The probes are those of test_memory_hierarchy.py, whose tolerances and xfails mean the same here.  Their SASS
is not executed (it asks for its SM): what their warps touch is handed to `replay.run` as records.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from test_memory_hierarchy import BASE, BYPASS, L1_BYTES, NUMBER, OVERHEAD, RECORDED, measured, misses, probes

from gpusim.device import load_device
from gpusim.events import Kind
from gpusim.memory.hierarchy import state
from gpusim.memory.hierarchy_loop import COUNTERS, DRAM_WRITTEN, Traffic
from gpusim.memory.replay import run
from gpusim.memory.trace import COLUMNS
from gpusim.metrics import TRAFFIC
from gpusim.program import Module, compile
from gpusim.simulate import SimResult, simulate

traffic = importlib.import_module("gpusim.traffic")

SOURCE = """\
extern "C" {
__global__ void copy(const float* a, float* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    b[i] = a[i];
}
__global__ void twice_ca(const float* a, float* b) {
    const float* p = a + blockIdx.x * blockDim.x + threadIdx.x;
    float x, y;
    asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(x) : "l"(p));
    __syncthreads();
    asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(y) : "l"(p + (x > 1e30f)));
    b[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}
__global__ void twice_cg(const float* a, float* b) {
    const float* p = a + blockIdx.x * blockDim.x + threadIdx.x;
    float x, y;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(p));
    __syncthreads();
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(y) : "l"(p + (x > 1e30f)));
    b[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}
__global__ void everybody(const float* a, float* b) {
    b[blockIdx.x * blockDim.x + threadIdx.x] = a[threadIdx.x];
}
__global__ void transpose(const float* a, float* b, int n) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) b[x * n + y + j] = a[(y + j) * n + x];
}
__global__ void transpose_tile(const float* a, float* b, int n) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = a[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) b[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
__global__ void gather(const int* at, const float* a, float* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    b[i] = a[at[i]];
}
__global__ void add(float* s) { atomicAdd(s + blockIdx.x % 2 * 8, 1.0f); }
__global__ void spill(const int* at, float* b) {
    float x[64];
    for (int k = 0; k < 64; k++) x[k] = k;
    b[threadIdx.x] = x[at[threadIdx.x] & 63] + x[at[threadIdx.x] >> 6];
}
__global__ void nothing() {}
}
"""
NAMES = {
    "l1_hit": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "local_hit": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum",
    "to_l1": "l1tex__m_xbar2l1tex_read_sectors.sum",
    "from_l1": "l1tex__m_l1tex2xbar_write_sectors.sum",
    "l2_read": "lts__t_sectors_srcunit_tex_op_read.sum",
    "l2_write": "lts__t_sectors_srcunit_tex_op_write.sum",
    "l2_hit": "lts__t_sectors_srcunit_tex_lookup_hit.sum",
    "dram_read": "dram__bytes_read.sum",
    "dram_written": "dram__bytes_write.sum",
}


@pytest.fixture(scope="module")
def module() -> Module:
    return compile(SOURCE)


def values(result: SimResult) -> dict[str, int]:
    """Metrics by short names; dram_read without what the launch reads beside its data."""
    out = {name: int(result.metrics[metric].value) for name, metric in NAMES.items()}
    executed = sum(row["inst_executed"] > 0 for row in result.instructions)
    out["dram_read"] -= 16 * executed + result.device.integer("launch.dram_bytes")
    return out


def floats(n: int) -> list[Any]:
    return [np.arange(n, dtype=np.float32), np.zeros(n, np.float32)]


# -- kernels, by hand -----------------------------------------------------------------------------


@pytest.mark.parametrize("ctas", [1, 7, 64, 1000])
def test_copy(module: Module, ctas: int) -> None:
    """Every sector once: to L1, from L1, from DRAM; L2 holds back what is written."""
    sectors = ctas * 256 * 4 // 32
    assert values(simulate(module["copy"], ctas, 256, floats(ctas * 256))) == {
        "l1_hit": 0, "local_hit": 0, "to_l1": sectors, "from_l1": sectors, "l2_read": sectors,
        "l2_write": sectors, "l2_hit": sectors, "dram_read": 32 * sectors, "dram_written": 0,
    }  # fmt: skip


def test_overhead_of_a_launch(module: Module) -> None:
    """Without data DRAM gives the code that is executed and what every launch was measured to read."""
    result = simulate(module["nothing"], 10, 32, [])
    assert set(values(result).values()) == {0}
    executed = sum(row["inst_executed"] > 0 for row in result.instructions)
    assert executed >= 1
    assert result.metrics["dram__bytes_read.sum"].value == 16 * executed + 2688


def test_read_twice_through_l1(module: Module) -> None:
    """256 threads of 4 bytes: 32 sectors a CTA, the second time from L1."""
    found = values(simulate(module["twice_ca"], 100, 256, floats(25_600)))
    assert (found["l1_hit"], found["to_l1"], found["l2_read"]) == (3200, 3200, 3200)
    assert found["dram_read"] == 25_600 * 4


def test_read_twice_past_l1(module: Module) -> None:
    """The second time from L2: twice the sectors, all of the second reads hit, as do the 3,200 stores."""
    found = values(simulate(module["twice_cg"], 100, 256, floats(25_600)))
    assert (found["l1_hit"], found["to_l1"], found["l2_read"]) == (0, 6400, 6400)
    assert found["l2_hit"] == 3200 + 3200
    assert found["dram_read"] == 25_600 * 4


def test_everybody_reads_the_same(module: Module) -> None:
    """132 CTAs, one an SM, read 4 KiB: each L1 gets them, DRAM gives them once; 4 reads may become one."""
    found = values(simulate(module["everybody"], 132, 1024, floats(132 * 1024)))
    assert found["to_l1"] == 132 * 128
    assert 132 * 128 // 4 <= found["l2_read"] <= 132 * 128
    assert found["dram_read"] == 4096


@pytest.mark.parametrize(("entry", "whole"), [("transpose", False), ("transpose_tile", True)])
def test_transpose(module: Module, entry: str, whole: bool) -> None:
    """Rows are read; written by columns each float is a sector of a store, of which up to eight may join."""
    n = 256
    result = simulate(module[entry], (n // 32, n // 32), (32, 8), [*floats(n * n), np.int32(n)])
    found, sectors = values(result), n * n * 4 // 32
    assert found["to_l1"] == sectors and found["l1_hit"] == 0
    assert found["dram_read"] == n * n * 4 and found["dram_written"] == 0
    assert found["l2_write"] == found["from_l1"]
    if whole:
        assert found["from_l1"] == sectors
    else:
        assert sectors <= found["from_l1"] <= n * n
    assert result.traffic is not None and result.traffic.template and result.traffic.share == 1


def test_gather(module: Module) -> None:
    """Thread i reads float 16 i: its own 64 bytes, half of which nobody asked for."""
    n = 4096
    at = np.arange(n, dtype=np.int32) * 16
    args = [at, np.zeros(16 * n, np.float32), np.zeros(n, np.float32)]
    found = values(simulate(module["gather"], n // 128, 128, args))
    assert found["to_l1"] == n // 8 + n
    assert found["dram_read"] == 4 * n + 64 * n


def test_atomics_without_result_only_go_there(module: Module) -> None:
    """Two sectors, each read from DRAM with its pair before it is changed; they stand in one line."""
    result = simulate(module["add"], 10, 1, [np.zeros(16, np.float32)])
    found = values(result)
    assert found["from_l1"] == 10 and found["l2_write"] == 0  # no writes to the profiler (policies.json)
    assert found["dram_read"] == 64 and found["to_l1"] == 0


def test_local_memory_hits_l1(module: Module) -> None:
    """64 floats of 32 threads, written, then lane i reads word i, twice: a sector of 32 lines each time."""
    kernel = module["spill"]
    assert kernel.stack_bytes >= 256
    found = values(simulate(kernel, 1, 32, [np.arange(32, dtype=np.int32) * 65, floats(32)[1]]))
    assert found["local_hit"] == 64
    assert found["to_l1"] == 4 and found["dram_read"] == 128


# -- the result -----------------------------------------------------------------------------------


def runs(module: Module, jobs: int | None, **options: Any) -> list[SimResult]:
    """A launch of tiles and one whose CTAs are recorded one by one."""
    at = np.random.default_rng(3).integers(0, 40_000, 6400).astype(np.int32)
    return [
        simulate(module["copy"], 200, 256, floats(51_200), jobs=jobs, **options),
        simulate(module["gather"], 50, 128, [at, *(floats(40_000))], jobs=jobs, **options),
    ]


def test_cores_do_not_change_traffic(module: Module) -> None:
    results = [runs(module, jobs) for jobs in (1, 2, 3)]
    assert [r.traffic is not None and r.traffic.template for r in results[0]] == [True, False]
    for one, *others in zip(*results, strict=True):
        for other in others:
            assert one.metrics == other.metrics and one.instructions == other.instructions


def test_templates_change_nothing(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of one CTA, moved, are the records of every CTA."""
    moved = runs(module, None)[0]
    monkeypatch.setattr(traffic, "FEW", 1 << 30)
    each = runs(module, None)[0]
    assert moved.traffic is not None and each.traffic is not None
    assert moved.traffic.template and not each.traffic.template
    assert moved.metrics == each.metrics


def test_a_cut_replay_is_scaled(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """CTAs alike: whatever share is replayed, each sector moves once, and DRAM gives what there is."""
    monkeypatch.setattr(traffic, "WORK", 3000)
    result = simulate(module["copy"], 1000, 256, floats(256_000))
    found = values(result)
    assert result.traffic is not None and 0 < result.traffic.share < 1 and result.traffic.cycles is None
    assert "the first" in result.traffic.note and "scaled" in result.traffic.note
    assert found["to_l1"] == found["from_l1"] == found["l2_read"] == found["l2_write"] == 32_000
    assert found["dram_read"] == 4 * 256_000


def test_whole_replays_say_so(module: Module) -> None:
    result = simulate(module["copy"], 200, 256, floats(51_200))
    moved = result.traffic
    assert moved is not None and moved.share == 1 and moved.note.startswith("every access replayed")
    assert moved.cycles is not None and moved.cycles > 500  # a DRAM latency at least
    assert moved.log[:, 2].min() == 0 and moved.log[:, 2].max() == 131
    assert (moved.log[:, 1] > moved.log[:, 0]).all()


def test_tiers_and_rows(module: Module) -> None:
    result = simulate(module["copy"], 20, 256, floats(5120))
    for metric in (*(d.name for d in TRAFFIC), "dram__bytes_write.sum"):
        assert result.metrics[metric].tier == "modelled", metric
        assert result.metrics[metric].unit == ("byte" if "bytes" in metric else "sector")
    rows = {row["sass"].split()[0].split(".")[0]: row for row in result.instructions if row["inst_executed"]}
    assert rows["LDG"]["sectors_to_l1"] == rows["LDG"]["sectors_dram_read"] == 640
    assert rows["STG"]["sectors_from_l1"] == rows["STG"]["sectors_l2_write"] == 640
    assert rows["LDG"]["sectors_from_l1"] == rows["STG"]["sectors_to_l1"] == 0


def test_memory_can_be_left_out(module: Module) -> None:
    result = simulate(module["copy"], 20, 256, floats(5120), memory=False)
    assert result.traffic is None
    assert not set(NAMES.values()) & set(result.metrics)
    assert not any("sectors_to_l1" in row for row in result.instructions)
    gap = next(gap for gap in result.not_modelled if "L1, L2 and DRAM" in gap["what"])
    assert "memory=False" in gap["why"]
    modelled = simulate(module["copy"], 20, 256, floats(5120))
    assert not any("L1, L2 and DRAM" in gap["what"] for gap in modelled.not_modelled)
    kept = {name: metric for name, metric in modelled.metrics.items() if name not in NAMES.values()}
    assert kept == dict(result.metrics)


@pytest.mark.parametrize("device", ["a100-80", "rtx4090", "v100"])
def test_other_devices(module: Module, device: str) -> None:
    """Sectors that a copy moves are the same anywhere; what they hit may differ where a miss brings more."""
    result = simulate(module["copy"], 100, 256, floats(25_600), device=device)
    found = values(result)
    assert found["to_l1"] == found["from_l1"] == found["l2_read"] == found["l2_write"] == 3200
    assert found["dram_read"] == 25_600 * 4 and found["dram_written"] == 0
    assert load_device(device).integer("l2.partitions") >= 1
    assert all(result.metrics[metric].tier == "modelled" for metric in NAMES.values())


# -- recorded probes of many warps, replayed ------------------------------------------------------


def replayed(probe: dict[str, Any], kind: int, warps: list[list[np.ndarray]], slack: list[int],
             waves: int) -> tuple[np.ndarray, int]:  # fmt: skip
    """(counters, sectors written to DRAM) of warps that do these accesses (uint64 entries), SM after SM.

    The kernels' loops are reduced to an instruction an access, and five more a round of ``slack``.
    """
    flat = [entries for warp in warps for entries in warp]
    sizes = np.array([len(entries) for entries in flat])
    records = np.zeros((len(flat), COLUMNS), np.int32)
    turn = np.concatenate([np.arange(len(warp)) % len(slack) for warp in warps])
    gap = np.where(turn == 0, 6, 1)
    columns = (kind, turn, gap, gap, 0, waves, np.cumsum(sizes) - sizes, sizes)
    for column, values in enumerate(columns):
        records[:, column] = values
    bounds = np.cumsum([0, *map(len, warps)])
    sms, each = len(probe["sms"]), probe["threads"] // 32
    x = state(RECORDED, L1_BYTES, 1, each)
    counters = np.zeros((len(slack), COUNTERS), np.int64)
    order = np.array([NUMBER[sm] for sm in probe["sms"]], np.int64)
    log, place, no_steps = (np.zeros((n, 3), np.int64) for n in (sms, sms, 0))
    first, scratch = np.arange(sms) * each, (np.empty(1, np.int64), np.empty(8, np.int64))
    assert run(x, records, np.concatenate(flat), bounds, no_steps, first, place, np.array(slack), order, 0, 0,
               log, *scratch, counters, 1 << 60)  # fmt: skip
    return counters.sum(axis=0), int(x[DRAM_WRITTEN])


def whole_lines(probe: dict[str, Any]) -> list[list[np.ndarray]]:
    """What `stream` and `store` touch with 32 lanes: whole lines, those of a pass dealt to warps in turn."""
    sms, each = len(probe["sms"]), probe["threads"] // 32
    out = []
    for rank in range(sms):
        for warp in range(each):
            mine = np.arange(warp, probe["count"], each)
            starts = [(rank + k * probe["rotate"]) % sms * probe["rank_step"] for k in range(probe["passes"])]
            lines = np.concatenate([BASE + (start + mine * probe["step"]) // 128 for start in starts])
            out.append(list((lines.astype(np.uint64) << np.uint64(4) | np.uint64(15))[:, None]))
    return out


def mib(probe: dict[str, Any]) -> int:
    return round(probe["count"] * probe["step"] * len(probe["sms"]) / 2**20)


@pytest.mark.parametrize(("size", "rotate"), misses({
    (44, 0): "hits 62%, measured 54%; DRAM 0.910 of measured: ours falls later, and more steeply",
    (44, 1): "hits 48%, measured 43%; DRAM 0.919 of measured",
    (48, 1): "hits 19%, measured 24%; DRAM 1.134 of measured",
    (48, 0): "hits 19%, measured 14%; DRAM 1.005 of measured",
    (56, 1): "hits 0.2%, measured 3.5%; DRAM 1.048 of measured",
}, [(size, rotate) for size in (8, 24, 32, 40, 44, 48, 56, 80) for rotate in (0, 1)]))  # fmt: skip
def test_l2_footprints_as_recorded(size: int, rotate: int) -> None:
    """All SMs read so many MiB four times; ``rotate``: each pass another SM's part.

    While both halves keep everything (to 26 MiB), DRAM is read once, and without rotation exactly the first
    pass misses.  Else 3% of the sectors: no launch was repeated, so this is no spread but what is asked for.
    """
    probe = next(p for p in probes("l2") if mib(p) == size and p["rotate"] == rotate and len(p["sms"]) == 132)
    counters, _ = replayed(probe, BYPASS, whole_lines(probe), [8, 7, 6, 5, 4, 3, 2, 1], 1)
    real = measured(probe)
    data = probe["count"] * 132 * 4
    if size <= 24:
        assert counters[Traffic.DRAM_READ] == data
        assert 0 < real["dram_read"] - data <= OVERHEAD
        if not rotate:
            assert counters[Traffic.L2_HIT] == real["l2_hit"] == 3 * data
    assert counters[Traffic.L2_READ] == pytest.approx(real["l2_read"], rel=0.03)
    assert counters[Traffic.L2_HIT] == pytest.approx(real["l2_hit"], abs=0.03 * real["l2_read"])
    assert counters[Traffic.DRAM_READ] == pytest.approx(real["dram_read"], rel=0.03)


@pytest.mark.xfail(reason="3.36 M reads of L2, measured 5.18 M: SMs that start together drift apart there")
def test_eight_sms_that_read_the_same_drift_apart() -> None:
    probe = next(p for p in probes("l2") if len(p["sms"]) == 8 and p["count"] == 8 * 8192)
    counters, _ = replayed(probe, BYPASS, whole_lines(probe), [8, 7, 6, 5, 4, 3, 2, 1], 1)
    assert counters[Traffic.L2_READ] == pytest.approx(measured(probe)["l2_read"], rel=0.1)


@pytest.mark.parametrize("size", [8, 32, 48, 64, 96, 128])
def test_written_data_that_l2_holds_back(size: int) -> None:
    """All SMs store so many MiB, whole lines: 8 MiB stay in L2, of more all but 25.8 to 25.9 MiB are written.

    2%: L2 holds 7 of 16 ways in the model (26.25 MiB), which cannot be finer than 1/16 of a side.
    """
    probe = next(p for p in probes("stores") if len(p["sms"]) == 132 and p["lanes"] == 32 and mib(p) == size)
    counters, written = replayed(probe, Kind.STORE, whole_lines(probe), [1 << 20], 1)
    real = measured(probe)
    assert counters[Traffic.FROM_L1] == real["from_l1"]
    assert counters[Traffic.L2_WRITE] == counters[Traffic.L2_HIT] == real["l2_write"] == real["lookup_hit"]
    assert counters[Traffic.DRAM_READ] == 0 and real["dram_read"] <= 300
    held = real["l2_write"] - real["dram_written"]
    assert counters[Traffic.L2_WRITE] - written == pytest.approx(held, rel=0.02)


@pytest.mark.xfail(reason="nothing is read, measured 824,096 sectors: records do not know the bytes")
def test_sectors_stored_in_part_are_fetched() -> None:
    """Four bytes of each sector of 32 MiB: what L2 cannot hold back it must complete from DRAM."""
    probe = next(p for p in probes("stores") if len(p["sms"]) == 132 and p["lanes"] == 4 and mib(p) == 32)
    counters, _ = replayed(probe, Kind.STORE, whole_lines(probe), [1 << 20], 1)
    assert counters[Traffic.DRAM_READ] == pytest.approx(measured(probe)["dram_read"], rel=0.1)


# -- recorded: stores that fill sectors piece by piece --------------------------------------------

#: Kernel -> stores of each place, bytes of one, bytes from one to the next.
PIECES = {"store8": (8, 4, 4), "store4": (2, 16, 16), "store24": (3, 8, 8), "store": (1, 4, 4)}


def pieces(probe: dict[str, Any]) -> list[list[np.ndarray]]:
    number, _, apart = PIECES[probe["kernel"]]
    threads, out = probe["threads"], []
    for warp in range(threads // 32):
        row = []
        starts = range(warp, probe["count"], threads // 32)
        if probe["kernel"] != "store":
            starts = range(32 * warp, probe["count"], threads)
        for i in starts:
            for k in range(number):
                masks: dict[int, int] = {}
                for lane in range(32):
                    at = i * probe["step"] + lane * probe["lane_step"] + k * apart
                    if probe["kernel"] != "store":
                        at += lane * probe["step"]
                    masks[BASE + at // 128] = masks.get(BASE + at // 128, 0) | 1 << at // 32 % 4
                row.append(np.array([line << 4 | mask for line, mask in masks.items()], np.uint64))
        out.append(row)
    return out


#: Kernel, bytes from place to place, threads of the CTA.
IDLE = [("store8", 32, 32), ("store4", 32, 32), ("store24", 24, 32), ("store8", 128, 32), ("store8", 64, 32),
        ("store", 128, 32)]  # fmt: skip
BUSY = [("store8", 32, 64), ("store8", 32, 128), ("store8", 32, 256), ("store4", 32, 64),
        ("store4", 32, 256), ("store24", 24, 128), ("store8", 64, 64), ("store8", 64, 256),
        ("store8", 128, 256), ("store", 128, 256), ("store", 128, 1024)]  # fmt: skip


@pytest.mark.parametrize(("kernel", "step", "threads"), misses({
    ("store8", 32, 64): "0.15 of the sectors leave, measured 0.125",
    ("store8", 32, 128): "0.15, measured 0.865: warps take turns there, and push one another's lines out",
    ("store8", 32, 256): "0.13, measured 0.999 (as above)",
    ("store4", 32, 64): "0.504, measured 0.500",
    ("store4", 32, 256): "0.58, measured 0.994 (as above)",
    ("store24", 24, 128): "0.40, measured 0.333",
    ("store8", 64, 64): "0.18, measured 0.871 (as above)",
    ("store8", 64, 256): "0.16, measured 1.000 (as above)",
}, IDLE + BUSY))  # fmt: skip
def test_stores_combine_as_recorded(kernel: str, step: int, threads: int) -> None:
    """One SM, one warp and more.

    Where the counts of 1, 16 and 132 SMs agree, exactly; else to within what they differ by.
    """
    same = [p for p in probes("combine") if (p["kernel"], p["step"], p["threads"]) == (kernel, step, threads)]
    parts = [measured(p)["from_l1"] / measured(p)["stored"] for p in same]
    number, width, _ = PIECES[kernel]
    counters, _ = replayed(same[0], Kind.STORE, pieces(same[0]), [1 << 20] * number, max(1, width // 4))
    ours = counters[Traffic.FROM_L1] / measured(same[0])["stored"]
    assert ours == pytest.approx(parts[0], rel=1e-12, abs=max(parts) - min(parts))

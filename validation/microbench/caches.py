"""Probes of L1, the coalescer before L2, L2 and DRAM: ``python -m gpusim.validation.microbench.caches
OUT.json [GROUPS]``.

Run under ncu with METRICS (the counters) and plain (the cycles that the kernels write).  Rows of the profiler
come in the order of the launches in OUT.json.  What a launch does is a :class:`Probe`, passed as kernel
parameters.  ``... record RECORD.json.xz PROFILER FOLDER...`` makes the record of what came back: each folder
holds caches.csv (the profiler's raw page), caches_ncu.json and caches_plain.json.
"""

from __future__ import annotations

import csv
import json
import lzma
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = "gpusim.caches/1"
SOURCE = Path(__file__).with_suffix(".cu")
RECORD = Path(__file__).parents[1] / "measurements" / "h200" / "caches.json.xz"
METRICS = (
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum", "l1tex__m_l1tex2xbar_write_sectors.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "lts__t_sectors.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum", "lts__t_sectors_srcunit_tex_lookup_hit.sum",
    "lts__t_sectors_srcunit_tex_lookup_miss.sum", "lts__t_requests_srcunit_tex.sum",
    "lts__t_sectors_srcunit_ltcfabric.sum", "lts__t_sectors_srcunit_ltcfabric_lookup_hit.sum",
    "lts__t_sectors_srcunit_ltcfabric_lookup_miss.sum", "dram__sectors_read.sum", "dram__sectors_write.sum",
    "gpu__time_duration.sum",
)  # fmt: skip
COMMAND = (
    f"ncu --clock-control none --cache-control all --metrics {','.join(METRICS)} "
    "python -m gpusim.validation.microbench.caches OUT.json; the same without ncu"
)
SMS = 132
LINE, SECTOR, MIB = 128, 32, 1 << 20
SPACE = 2 << 30
OUT_WORDS = 1 << 20


@dataclass(frozen=True, slots=True)
class Probe:
    """One launch; fields as in caches.cu; sms: those taking part, threads: of a CTA, shared: dynamic."""

    group: str
    kernel: str
    count: int
    step: int = LINE
    passes: int = 1
    turn: int = 0
    rank_step: int = 0
    lane_step: int = 0
    lanes: int = 1
    together: int = 1
    delay: int = 0
    meet: bool = False
    rotate: int = 0
    sms: tuple[int, ...] = (0,)
    threads: int = 32
    shared: int = 0
    notes: dict[str, Any] = field(default_factory=dict)

    def parameters(self) -> tuple[np.generic, ...]:
        """The scalars of caches.cu, in order."""
        masks = [sum(1 << (s - 64 * w) for s in self.sms if s // 64 == w) for w in range(3)]
        wide = (*masks, self.step, self.turn, self.rank_step)
        short = (self.count, self.passes, self.lane_step, self.lanes, self.together, self.delay,
                 len(self.sms) if self.meet else 0, self.rotate)  # fmt: skip
        return (*map(np.uint64, wide), *map(np.uint32, short))


ALL = tuple(range(SMS))


def fetch() -> Iterator[Probe]:
    """What one miss brings: sectors of a line or of neighbours, visited later."""
    for kernel in ("chase_ca", "chase_cg"):
        for step in (32, 64, 128, 256, 1024, 4096):
            yield Probe("fetch", kernel, 2048, step)
        yield Probe("fetch", kernel, 2048, LINE, lane_step=4, lanes=32)
    for turn in (32, 64, 96):
        yield Probe("fetch", "chase_cg", 2048, LINE, passes=2, turn=turn)
        yield Probe("fetch", "chase_cg", 2048, 1024, passes=2, turn=turn)
    for step in (LINE, 1024, 4096, 8192, 16384, 16384 + LINE, 65536):
        for count in (1024, 4096, 16384):
            yield Probe("fetch", "chase_cg", count, step, passes=4, turn=32)
    for step in (4096, 16384, 16384 + LINE):  # all SMs at once, each its own rows
        yield Probe("fetch", "stream_cg", 32, step, passes=32, turn=32, rank_step=32 * step, sms=ALL)
        yield Probe(
            "fetch", "stream_cg", 1024, step, passes=4, turn=32, rank_step=32 * step, sms=ALL, threads=1024
        )


def l1() -> Iterator[Probe]:
    """Cyclic reading over footprints: capacity and replacement of L1."""
    for shared in (0, 16 << 10, 64 << 10, 200 << 10):
        top = 272 - (shared >> 10)
        for kib in range(16, top + 1, 16):
            yield Probe("l1", "chase_ca", kib * 8, LINE, passes=4, lane_step=4, lanes=32, shared=shared)
    for kib in (*range(200, 260, 4),):
        yield Probe("l1", "chase_ca", kib * 8, LINE, passes=8, lane_step=4, lanes=32)
    for kib in (128, 240, 512, 1024):  # one sector of each line: lines or sectors that fill?
        yield Probe("l1", "chase_ca", kib * 8, LINE, passes=4)
    for step in (256, 1024, 4096, 16384):  # sets: lines a power of two apart
        for count in (32, 128, 256, 512, 1024, 1536):
            yield Probe("l1", "chase_ca", count, step, passes=4)


def partition() -> Iterator[Probe]:
    """SM 0 reads, SM k reads the same much later."""
    for k in range(1, SMS):
        yield Probe("partition", "chase_cg", 1024, LINE, sms=(0, k), delay=3_000_000)


def merge_pairs() -> Iterator[Probe]:
    """SM 0 and SM k read the same at the same time."""
    for k in range(1, SMS):
        yield Probe(
            "merge_pairs", "chase_cg", 2048, LINE, passes=2, sms=(0, k), meet=True, lane_step=4, lanes=32
        )


def merge() -> Iterator[Probe]:
    """Many SMs read the same, in step or some cycles after one another."""
    for n in (2, 4, 8, 16, 32, 64, 132):
        for passes in (1, 4):
            yield Probe("merge", "chase_cg", 2048, LINE, passes=passes, sms=ALL[:n], meet=True)
            yield Probe(
                "merge", "stream_cg", 2048, LINE, passes=passes, sms=ALL[:n], meet=True, lane_step=4, lanes=32
            )
    for delay in (0, 50, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400):
        for passes in (1, 4):
            yield Probe("merge", "chase_cg", 2048, LINE, passes=passes, sms=(0, 2), delay=delay, meet=True)
            yield Probe("merge", "chase_cg", 2048, LINE, passes=passes, sms=(0, 1), delay=delay, meet=True)
    for delay in (0, 5, 10, 20, 40, 80, 160):
        for passes in (1, 4):
            yield Probe("merge", "chase_cg", 2048, LINE, passes=passes, sms=ALL, delay=delay, meet=True)


def l2() -> Iterator[Probe]:
    """Reading over footprints by all SMs: capacity, replacement, copies in both partitions."""
    for mib in (8, 16, 20, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 56, 58, 60, 62, 64, 68, 72, 80, 96):
        count = mib * MIB // LINE // SMS
        for rotate in (0, 1):
            yield Probe("l2", "stream_cg", count, LINE, passes=4, rank_step=count * LINE, sms=ALL,
                        lane_step=4, lanes=32, rotate=rotate, threads=1024)  # fmt: skip
    for mib in (8, 16, 24, 32, 48, 64):
        count = mib * MIB // LINE
        yield Probe(
            "l2", "stream_cg", count, LINE, passes=3, sms=ALL[:8], lane_step=4, lanes=32, threads=1024
        )


def stores() -> Iterator[Probe]:
    """Partial stores: what is combined on the way to L2, what DRAM sees."""
    for together in (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024):
        yield Probe("stores", "store", 1024, SECTOR, passes=8, turn=4, together=together)
        yield Probe("stores", "store", 1024, LINE, passes=4, turn=32, lanes=8, lane_step=4, together=together)
        yield Probe(
            "stores", "store", 1024, LINE, passes=2, turn=64, lanes=16, lane_step=4, together=together
        )
        yield Probe("stores", "store", 512, 1024, passes=8, turn=4, lanes=32, lane_step=32, together=together)
    for lane_step in (4, 8, 16, 32, 36, 64, 128):
        yield Probe("stores", "store", 1024, 32 * lane_step, lanes=32, lane_step=lane_step)
    yield Probe("stores", "store", 1024, 4096, lanes=31, lane_step=4, turn=4)
    for mib in (8, 32, 48, 64, 96, 128, 256):
        count = mib * MIB // LINE // SMS
        yield Probe(
            "stores",
            "store",
            count,
            LINE,
            rank_step=count * LINE,
            sms=ALL,
            lane_step=4,
            lanes=32,
            threads=1024,
        )
        yield Probe(
            "stores",
            "store",
            count,
            LINE,
            rank_step=count * LINE,
            sms=ALL,
            lane_step=32,
            lanes=4,
            threads=1024,
        )


GPC0 = (0, 1, 16, 17, 32, 33, 48, 49, *range(124, 132))  # SMs that merge with SM 0 (merge_pairs)


def window() -> Iterator[Probe]:
    """Loads by the clock: how far apart two reads of one sector still become one."""
    for delay in (*range(0, 400, 25), *range(400, 1000, 50)):
        for passes in (1, 2):
            yield Probe(
                "window",
                "paced",
                256,
                4096,
                passes=passes,
                together=4000,
                delay=delay,
                meet=True,
                sms=(0, 16),
            )
    for n in (2, 3, 4, 5, 6, 8, 9, 12, 16):
        for passes in (1, 2):
            yield Probe("window", "paced", 256, 4096, passes=passes, together=4000, meet=True, sms=GPC0[:n])
            yield Probe(
                "window", "paced", 256, 4096, passes=passes, together=4000, meet=True, sms=GPC0[:n], delay=20
            )
    for rank_step in (32, 64):  # neighbouring sectors of one line
        yield Probe("window", "paced", 256, 4096, together=4000, meet=True, sms=(0, 16), rank_step=rank_step)
        yield Probe("window", "paced", 256, 4096, passes=2, together=4000, meet=True, sms=(0, 16),
                    lane_step=4, lanes=16, rank_step=rank_step)  # fmt: skip
    yield Probe(
        "window", "paced", 256, 4096, passes=2, together=4000, meet=True, sms=(0, 16), lane_step=4, lanes=32
    )
    for delay in (100, 200, 300, 500):  # one SM, two warps on one line: L1 bypassed
        yield Probe("window", "chase_cg", 512, 4096, passes=2, sms=(0,), threads=64, delay=delay)


def combine() -> Iterator[Probe]:
    """Stores that fill sectors piece by piece, from an idle to a busy machine."""
    for kernel, step in (("store8", 32), ("store4", 32), ("store24", 24), ("store8", 128), ("store8", 64)):
        for sms in ((0,), GPC0, ALL):
            for threads in (32, 64, 128, 256, 512, 1024):
                count = 64 * threads
                yield Probe("combine", kernel, count, step, rank_step=count * step, sms=sms, threads=threads)
    for sms in ((0,), ALL):
        for threads in (32, 256, 1024):
            yield Probe("combine", "store", 2048, LINE, turn=0, lane_step=4, lanes=32, sms=sms,
                        threads=threads, rank_step=2048 * LINE)  # fmt: skip


def latencies() -> Iterator[Probe]:
    """Every load by itself: near, far, DRAM; then under load."""
    for sm in (0, 4):
        yield Probe("latencies", "latency", 8192, LINE, passes=2, sms=(sm,))
        yield Probe("latencies", "latency", 8192, 4224, passes=1, sms=(sm,))
    for turn, passes in ((256 << 10, 40), (2 << 20, 5)):
        for n in (1, 4, 8, 16, 32, 64, 96, 131):
            for threads in (64, 256, 1024):
                yield Probe("latencies", "loaded", 0, passes=passes, turn=turn, rank_step=turn, lanes=400,
                            sms=(*ALL[:n], 131) if n < 131 else ALL, threads=threads)  # fmt: skip


GROUPS = {
    f.__name__: f for f in (fetch, l1, partition, merge_pairs, merge, l2, stores, window, combine, latencies)
}


def launches(only: str = "") -> list[Probe]:
    return [probe for name, make in GROUPS.items() if not only or name in only.split(",") for probe in make()]


def main(out: str, only: str = "") -> None:
    """Run every launch once; write what it was and the cycles it wrote."""
    import cupy as cp

    module = cp.RawModule(code=SOURCE.read_text())
    memory = cp.zeros(SPACE, cp.uint8)
    rows = []
    for probe in launches(only):
        meet, cycles = cp.zeros(1, cp.uint32), cp.zeros(OUT_WORDS, cp.uint32)
        memory.data.memset(0, memory.nbytes)  # chains add what they load to addresses
        function = module.get_function(probe.kernel)
        if probe.shared > 48 << 10:
            function.max_dynamic_shared_size_bytes = probe.shared
        arguments = (memory, *probe.parameters(), meet, cycles)
        function((SMS,), (probe.threads,), arguments, shared_mem=probe.shared)
        cp.cuda.Device().synchronize()
        kept = cp.asnumpy(cycles)
        last = int(np.flatnonzero(kept)[-1]) + 1 if kept.any() else 0
        rows.append({**asdict(probe), "cycles": kept[:last].tolist()})
    Path(out).write_text(json.dumps(rows))


def record(folders: list[Path], profiler: str) -> dict[str, Any]:
    """Every launch of some runs: what it was, its counters, the cycles it wrote when run plain."""
    rows: list[dict[str, Any]] = []
    for folder in folders:
        text = (line for line in (folder / "caches.csv").open(encoding="utf-8") if line.startswith('"'))
        raw = list(csv.DictReader(text))[1:]  # the row of units
        shown = json.loads((folder / "caches_ncu.json").read_text(encoding="utf-8"))
        plain = json.loads((folder / "caches_plain.json").read_text(encoding="utf-8"))
        for counters, probe, timed in zip(raw, shown, plain, strict=True):
            assert counters["Kernel Name"].split("(")[0] == probe["kernel"] == timed["kernel"]
            metrics = {name: float(counters[name].replace(",", "")) for name in METRICS}
            rows.append(
                {**probe, "cycles": timed["cycles"], "metrics": {k: int(v) for k, v in metrics.items()}}
            )
    return {"schema": SCHEMA, "profiler": profiler, "command": COMMAND, "launches": rows}


def load(path: Path = RECORD) -> list[dict[str, Any]]:
    """Launches of the record."""
    found: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    assert found["schema"] == SCHEMA
    launches_: list[dict[str, Any]] = found["launches"]
    return launches_


if __name__ == "__main__":
    if sys.argv[1] == "record":
        made = json.dumps(record([Path(f) for f in sys.argv[4:]], sys.argv[3]), separators=(",", ":"))
        Path(sys.argv[2]).write_bytes(lzma.compress(made.encode(), preset=9))
    else:
        main(*sys.argv[1:])

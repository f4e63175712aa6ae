"""Nanoseconds an event of `gpusim.memory.counters.count_events`, by access pattern.

Run: ``python benchmarks/bench_memory.py``.  Best of 25 runs over 1,000 equal events (a chunk that stays in
the cache, as the executor hands it over), one core, after compilation.  Target: 60 ns for the fp32 patterns
of ordinary kernels (rows, tiles, broadcasts).
"""

from __future__ import annotations

import time

import numpy as np

from gpusim.device import load_device
from gpusim.events import EVENT, Flag, Kind, Space
from gpusim.memory.coalescer import GlobalGeometry
from gpusim.memory.counters import N_COUNTERS, count_events
from gpusim.memory.shared import SharedGeometry

EVENTS, RUNS = 1000, 25
FULL = 0xFFFFFFFF
LANE = np.arange(32)
RANDOM = np.random.default_rng(0).integers(0, 8192, 32)
BASE = 1 << 33

S, G, L = Space.SHARED, Space.GLOBAL, Space.LOCAL
PATTERNS = [
    ("shared row", S, Kind.LOAD, 4, LANE * 4, FULL),
    ("shared broadcast", S, Kind.LOAD, 4, LANE * 0, FULL),
    ("shared half warp", S, Kind.LOAD, 4, LANE * 4, 0xFFFF),
    ("shared stride 2", S, Kind.LOAD, 4, LANE * 8, FULL),
    ("shared column, 32-way", S, Kind.LOAD, 4, LANE * 128, FULL),
    ("shared column, padded", S, Kind.LOAD, 4, LANE * 132, FULL),
    ("shared random", S, Kind.LOAD, 4, RANDOM * 4, FULL),
    ("LDS.128 row", S, Kind.LOAD, 16, LANE * 16, FULL),
    ("LDS.128 broadcast", S, Kind.LOAD, 16, LANE * 0, FULL),
    ("STS.64 row", S, Kind.STORE, 8, LANE * 8, FULL),
    ("LDSM, rows of 80 B", S, Kind.LDMATRIX, 16, LANE * 80, FULL),
    ("ATOMS.ADD row", S, Kind.ATOMIC, 4, LANE * 4, FULL),
    ("global row", G, Kind.LOAD, 4, BASE + LANE * 4, FULL),
    ("global broadcast", G, Kind.LOAD, 4, BASE + LANE * 0, FULL),
    ("global row, 31 lanes", G, Kind.LOAD, 4, BASE + LANE * 4, FULL >> 1),
    ("global float4 row", G, Kind.LOAD, 16, BASE + LANE * 16, FULL),
    ("global two rows of 16", G, Kind.LOAD, 4, BASE + LANE % 16 * 4 + LANE // 16 * 16384, FULL),
    ("global 16 floats twice", G, Kind.LOAD, 4, BASE + LANE % 16 * 4, FULL),
    ("global column", G, Kind.LOAD, 4, BASE + LANE * 16384, FULL),
    ("global random", G, Kind.LOAD, 4, BASE + RANDOM * 4, FULL),
    ("RED.ADD on one word", G, Kind.REDUCTION, 4, BASE + LANE * 0, FULL),
    ("local, one offset", L, Kind.LOAD, 4, LANE * 0 + 8, FULL),
]


def main() -> None:
    spec = load_device("h200")
    shared, global_ = SharedGeometry.from_device(spec), GlobalGeometry.from_device(spec)
    out = np.zeros((1, N_COUNTERS), np.int64)
    for name, space, kind, width, addresses, mask in PATTERNS:
        events = np.zeros(EVENTS, EVENT)
        events["space"], events["kind"], events["nbytes"], events["mask"] = space, kind, width, mask
        events["flags"], events["addresses"] = Flag.ADD, addresses.astype(np.uint64)
        times = []
        for _ in range(RUNS):
            start = time.perf_counter()
            count_events(events, out, shared, global_)
            times.append(time.perf_counter() - start)
        print(f"{name:26}{min(times) / EVENTS * 1e9:7.1f} ns an event")


if __name__ == "__main__":
    main()

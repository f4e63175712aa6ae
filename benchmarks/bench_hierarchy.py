"""How fast the memory hierarchy replays: records and lines a second, by stream.

Prints a table; asserts nothing.  Best of 5 runs, one core, after compilation, caches cold each time.  Two
synthetic streams of all 132 SMs (32 warps each, eight loads in flight) bracket what kernels ask for: lines
that stay in L1, and scattered sectors of a gigabyte, 32 lines an access, that nearly all miss to DRAM.  The
catalog kernel is the A5 product (2-D register tile), whose records `gpusim.traffic` makes and moves.

    python benchmarks/bench_hierarchy.py
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

import numpy as np

from gpusim import kernels
from gpusim.device import load_device
from gpusim.events import Kind
from gpusim.memory.hierarchy import Geometry, placement, state
from gpusim.memory.hierarchy_loop import COUNTERS, Traffic
from gpusim.memory.replay import run
from gpusim.memory.trace import COLUMNS
from gpusim.program import compile

simulate = importlib.import_module("gpusim.simulate")
traffic = importlib.import_module("gpusim.traffic")

REPEAT = 5
SPEC = load_device("h200")
GEOMETRY = Geometry.from_device(SPEC)
SMS, WARPS, IN_FLIGHT = 132, 32, 8
L1_BYTES = 224 << 10


def synthetic(entries: np.ndarray) -> Callable[[], tuple[float, int, int]]:
    """Replay of loads; entries: uint64[accesses of a warp][warps of the launch][lines of an access]."""
    accesses, warps, lines = entries.shape
    entries = np.ascontiguousarray(entries.transpose(1, 0, 2)).reshape(-1)
    records = np.zeros((accesses * warps, COLUMNS), np.int32)
    turn = np.arange(len(records)) % accesses % IN_FLIGHT
    gap = np.where(turn == 0, 8, 1)
    at = np.arange(len(records)) * lines
    for column, value in enumerate((int(Kind.LOAD), turn, gap, gap, 0, max(1, lines // 4), at, lines)):
        records[:, column] = value
    bounds = np.arange(warps + 1) * accesses
    slack = np.arange(IN_FLIGHT, 0, -1)
    first, place = np.arange(SMS) * WARPS, np.zeros((SMS, 3), np.int64)
    order = placement(GEOMETRY, SMS, 1)

    def once() -> tuple[float, int, int]:
        x = state(GEOMETRY, L1_BYTES, 1, WARPS)
        counters, log = np.zeros((IN_FLIGHT, COUNTERS), np.int64), np.zeros((SMS, 3), np.int64)
        scratch = np.empty(1, np.int64), np.empty(8, np.int64)
        start = time.perf_counter()
        run(x, records, entries, bounds, np.zeros((0, 3), np.int64), first, place, slack, order, 0, 0, log,
            *scratch, counters, 1 << 60)  # fmt: skip
        return time.perf_counter() - start, len(records), len(entries)

    return once


def near() -> Callable[[], tuple[float, int, int]]:
    """Every SM reads its own 64 KiB sixteen times, a line an access."""
    line = np.arange(512).reshape(16, WARPS)  # access, warp
    lines = np.tile(line, (16, SMS)) + 1024 * np.repeat(np.arange(SMS), WARPS)
    return synthetic((lines.astype(np.uint64) << np.uint64(4) | np.uint64(15))[:, :, None])


def scattered() -> Callable[[], tuple[float, int, int]]:
    """Every lane reads a sector of its own, somewhere in a gigabyte."""
    rng = np.random.default_rng(0)
    line = rng.integers(0, 1 << 23, (16, SMS * WARPS, 32)).astype(np.uint64)
    return synthetic(line << np.uint64(4) | np.uint64(1) << rng.integers(0, 4, line.shape).astype(np.uint64))


def catalog(name: str, n: int) -> Callable[[], tuple[float, int, int]]:
    """A matrix product of side n by `gpusim.traffic`, the recording of its CTAs included."""
    row = kernels.get(name)
    size = {**row.size("large"), "M": n, "N": n, "K": n}
    launch_spec = row.launch(size)
    module = compile(row.path, arch="sm_90", options=row.options, include_dirs=(row.path.parent,))
    kernel = module[row.entry]
    shape = launch_spec.grid, launch_spec.block
    spec, launch, values, occupancy = simulate._prepare(
        kernel, *shape, row.inputs(size), launch_spec.dynamic_shared, "h200")  # fmt: skip
    image = simulate._image(kernel)

    def once() -> tuple[float, int, int]:
        start = time.perf_counter()
        moved = traffic.traffic(
            lambda: simulate._execution(image, launch, values, spec, occupancy, None, 1, None),
            kernel, launch, spec, occupancy, 0)  # fmt: skip
        seconds = time.perf_counter() - start
        sums = moved.counters.sum(axis=0)
        # lines are not kept: sectors of loads and of stores by four
        lines = int(sums[Traffic.LOADED] + sums[Traffic.FROM_L1]) // 4
        return seconds, int(sums[Traffic.RECORDS]), lines

    return once


def main() -> None:
    for what, made in (
        ("64 KiB an SM, from L1", near()),
        ("scattered sectors, from DRAM", scattered()),
        ("A5, 1024, recording included", catalog("A5", 1024)),
    ):
        made()
        seconds, records, lines = min(made() for _ in range(REPEAT))
        print(
            f"{what:30} {records:>10,} records {records / seconds / 1e6:7.2f} M/s  "
            f"{lines:>10,} lines {lines / seconds / 1e6:7.2f} M/s  {seconds:6.2f} s"
        )


if __name__ == "__main__":
    main()

"""Requests a second of `gpusim.memory.dram`, by standard and stream.

Run: ``python benchmarks/dram.py``.  Best of 5 runs of 2,000,000 reads, one core, after compilation,
everything included (decoding addresses, sorting by channel, scheduling).  One channel as in docs/dram.md,
then an H200's 94 channels. Target: 5 million a second for streams that find rows open.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from gpusim.memory.dram import Dram, load_standard
from gpusim.report.dram_table import REFERENCE, stream

REQUESTS, RUNS = 2_000_000, 5


def rate(standard_name: str, map_name: str, addresses: npt.NDArray[np.uint64], writes: bool = False) -> float:
    """Millions of requests a second."""
    standard = load_standard(standard_name)
    flags = np.zeros(len(addresses), np.bool_)
    if writes:
        flags[1::2] = True
    times = []
    for _ in range(RUNS):
        dram = Dram(standard, standard.address_map(map_name))
        start = time.process_time()
        dram.feed(addresses, flags, np.zeros(len(addresses)))
        dram.result()
        times.append(time.process_time() - start)
    return len(addresses) / min(times) / 1e6


def main() -> None:
    for name, which in REFERENCE:
        addresses = stream(which, load_standard(name), REQUESTS)
        print(f"{name:6}one channel, {which:16}{rate(name, 'one_channel', addresses):7.1f} million/s")
    step = np.arange(REQUESTS, dtype=np.uint64)
    lines = np.random.default_rng(0).integers(0, 1 << 30, REQUESTS // 4, dtype=np.uint64)
    whole = {
        "sequential": step * np.uint64(32),
        "random lines of 128 B": (
            lines[:, None] * np.uint64(128) + np.arange(0, 128, 32, dtype=np.uint64)
        ).ravel(),
        "random sectors": np.random.default_rng(0).integers(0, 1 << 32, REQUESTS, dtype=np.uint64)
        * np.uint64(32),
    }
    for which, addresses in whole.items():
        print(f"hbm3e 94 channels, {which:22}{rate('hbm3e', 'h200', addresses):7.1f} million/s")
    copy = np.stack([step, step + np.uint64(1 << 30)], axis=1).ravel()[:REQUESTS] * np.uint64(32)
    print(f"hbm3e 94 channels, {'copy':22}{rate('hbm3e', 'h200', copy, writes=True):7.1f} million/s")


if __name__ == "__main__":
    main()

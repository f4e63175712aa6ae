"""Blocks an SM against registers a thread, for 256 threads and 16 KiB of shared memory."""

from __future__ import annotations

from gpusim.device import load_device
from gpusim.occupancy import occupancy

for name in ("h200", "rtx4090"):
    spec = load_device(name)
    print(spec.title)
    for registers in (32, 48, 64, 96, 128):
        found = occupancy(spec, registers, 16 * 1024, 0, 256)
        print(
            f"  {registers:3} registers: {found.active_blocks} blocks, "
            f"{found.theoretical_occupancy_pct:5.1f} % occupancy, limited by {found.limiter}"
        )

"""How fast kernels run: warp instructions a second, cold starts, memory.

Prints a table; asserts nothing.  Rates are of one core (``jobs=1``) on the A5 kernel (2-D register tile),
with numpy's 32-wide fp32 multiply-adds on arrays that stay in the L1 cache, measured in the same run, as the
yardstick.
Cold times are of whole processes with warm caches (compiled kernels and handlers on disk).

    python benchmarks/bench_execute.py [--cold]
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import time

import numpy as np

from gpusim import kernels
from gpusim.program import compile

simulate = importlib.import_module("gpusim.simulate")

REPEAT = 5

COLD = """
import resource, sys, time
start = time.perf_counter()
from gpusim import kernels
from gpusim.program import compile
from gpusim.simulate import simulate
row = kernels.get(sys.argv[1])
size = next(s for s in row.sizes if s["name"] == sys.argv[2])
launch = row.launch(size)
module = compile(row.path, arch="sm_90", options=row.options, include_dirs=(row.path.parent,))
result = simulate(module[row.entry], launch.grid, launch.block, launch.args,
                  dynamic_shared=launch.dynamic_shared)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
c = result.coverage
print(f"{seconds:6.2f} s  {peak:6.0f} MiB  {c.ctas_executed} of {c.ctas_total} CTAs")
"""


def numpy_rate() -> float:
    """32-wide fp32 multiply-adds a second: a * b + c on 8 KiB arrays (64 rows of 32)."""
    a, b, c = (np.ones(64 * 32, np.float32) for _ in range(3))
    out = np.empty_like(a)
    best = 0.0
    for _ in range(REPEAT):
        start = time.perf_counter()
        for _ in range(5000):
            np.multiply(a, b, out=out)
            np.add(out, c, out=out)
        best = max(best, 5000 * 64 / (time.perf_counter() - start))
    return best


def execution_rate(name: str, traced: bool) -> tuple[float, int]:
    """(warp instructions a second, instructions) of 8 CTAs of a ladder kernel at 1024^3 on one core."""
    row = kernels.get(name)
    size = {**row.size("large"), "M": 1024, "N": 1024, "K": 1024}
    spec = row.launch(size)
    module = compile(row.path, arch="sm_90", options=row.options, include_dirs=(row.path.parent,))
    device, launch, values, occupancy = simulate._prepare(
        module[row.entry], spec.grid, spec.block, row.inputs(size), spec.dynamic_shared, "h200")
    image = simulate._image(module[row.entry])
    geometry = simulate.SharedGeometry.from_device(device), simulate.GlobalGeometry.from_device(device)

    def tap() -> object:
        return simulate._Tally(len(image.operations), *geometry)

    best, count = 0.0, 0
    for _ in range(REPEAT):
        execution = simulate._execution(image, launch, values, device, occupancy, None, 1, None)
        start = time.perf_counter()
        execution.run(range(8), tap if traced else None)
        seconds = time.perf_counter() - start
        count = int(execution.counts[:, 0].sum())
        best = max(best, count / seconds)
    return best, count


def main() -> None:
    yardstick = numpy_rate()
    print(f"numpy, 32-wide fp32 multiply-adds            {yardstick / 1e6:7.1f} M/s")
    for name in ("A5", "A2", "A7"):
        for traced in (False, True):
            rate, count = execution_rate(name, traced)
            what = "events and counters" if traced else "functional only"
            print(
                f"{name}, {what:22s} {count:>12,} inst  {rate / 1e6:7.1f} M/s  "
                f"{rate / yardstick:5.2f} x numpy"
            )
    if "--cold" in sys.argv:
        for name, size in (("E1", "large"), ("A1", "large"), ("A5", "large"), ("A9-async", "large")):
            answer = subprocess.run(
                [sys.executable, "-c", COLD, name, size], capture_output=True, text=True, check=True
            )
            print(f"cold process, {name:9s} {size}: {answer.stdout.strip()}")


if __name__ == "__main__":
    main()

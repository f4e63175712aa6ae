"""How the cost of a prediction grows with the grid: time and memory of ladder kernels from 256^3 to 8192^3.

    python benchmarks/growth.py docs/img/growth.png

Each launch runs in a process of its own, everything compiled before; two panels: seconds against the records
that the whole launch has, and against those that were replayed.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from gpusim import kernels
from gpusim.program import compile
from gpusim.simulate import simulate

KERNELS = ("A2", "A3-32", "A5", "A7")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe-Ito
SIZES = (256, 512, 1024, 2048, 4096, 8192)


def one(kernel: str, side: int) -> dict[str, float]:
    """Seconds, peak MiB, records of the launch and of the replay."""
    row = next(k for k in kernels.all_kernels() if k.id == kernel)
    module = compile(row.path, arch="sm_90", options=row.options, include_dirs=(row.path.parent,))
    for n in (256, side):  # the first one compiles
        launch = row.launch({"name": "growth", "M": n, "N": n, "K": n})
        start = time.perf_counter()
        result = simulate(module[row.entry], launch.grid, launch.block, [dict(a) for a in launch.args],
                          dynamic_shared=launch.dynamic_shared)  # fmt: skip
        seconds = time.perf_counter() - start
    assert result.traffic is not None
    replayed = result.traffic.replayed
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "mib": peak, "replayed": replayed, "all": replayed / result.traffic.share}


def main(path: str) -> None:
    """Measure, print, draw."""
    from matplotlib import pyplot as plt

    found: dict[str, list[dict[str, float]]] = {}
    for kernel in KERNELS:
        for side in SIZES:
            command = [sys.executable, __file__, kernel, str(side)]
            out = subprocess.run(command, capture_output=True, text=True, check=True)
            row = json.loads(out.stdout)
            found.setdefault(kernel, []).append(row)
            print(f"{kernel:6} {side:5}^3  {row['seconds']:6.1f} s  {row['mib']:6.0f} MiB  "
                  f"{row['replayed']:12,.0f} of {row['all']:15,.0f} records", flush=True)  # fmt: skip
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for axis, key, label in (
        (axes[0], "all", "records of the launch, millions"),
        (axes[1], "replayed", "records replayed, millions"),
    ):
        for (kernel, rows), marker, colour in zip(found.items(), "osD^", COLOURS, strict=True):
            x, y = [r[key] / 1e6 for r in rows], [r["seconds"] for r in rows]
            axis.plot(x, y, marker=marker, color=colour, label=kernel)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_xscale("log")
    axes[0].set_ylabel("seconds, 2 cores")
    axes[0].set_ylim(0)
    axes[0].set_title("against the launch, 256³ to 8192³")
    axes[1].set_title("against what was replayed")
    axes[1].legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(one(sys.argv[1], int(sys.argv[2]))))
    else:
        main(str(Path(sys.argv[1])))

"""Launches at sizes that nothing was tuned on, for L1, L2 and DRAM traffic.

``python -m gpusim.validation.microbench.sizes bundle DIR`` writes a bundle for
``gpusim.validation.device_outputs``, to be run under ncu (COMMAND); ``... record RAW.csv RECORD.json
PROFILER`` makes the record of the profiler's raw page; ``... compare`` simulates every launch and prints the
errors.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpusim import kernels, program
from gpusim.metrics import DRAM_WRITE, SECTOR_BYTES, TRAFFIC
from gpusim.output import atomic_write
from gpusim.simulate import simulate
from gpusim.validation.launches import HERE, Row, code_sha256, write_bundle
from gpusim.validation.ncu_export import read_raw

SCHEMA = "gpusim.sizes/1"
MIB = 1 << 20
RECORD = HERE / "measurements" / "h200" / "sizes.json"
METRICS = (*(d.name for d in TRAFFIC), DRAM_WRITE, "launch__shared_mem_config_size", "gpu__time_duration.sum")
COMMAND = (
    f"ncu --clock-control none --cache-control all --metrics {','.join(METRICS)} --page raw --csv "
    "python -m gpusim.validation.device_outputs"
)


def _cube(*sides: int) -> list[dict[str, int]]:
    return [{"M": n, "N": n, "K": n} for n in sides]


def sizes(kernel: str) -> list[dict[str, int]]:
    """Sizes of a catalog kernel that no other record has."""
    family = kernel.split("-")[0]
    if kernel.startswith("A13"):
        return [{"heads": 8, "seq": 1024, "causal": 0}]
    if family[0] == "A":
        return _cube(1024, 2048)
    if family[0] in "BC":
        return _cube(1280)
    if family in ("E3", "E4", "E5", "E6", "E7"):
        return _cube(1024)
    if family[0] == "D":
        return _cube(1024)
    single = {"E1": 1 << 24, "E2": 1 << 24, "E8": 1 << 24, "T1": 1 << 20, "T2": 1 << 22, "T3": 1 << 22,
              "T7": 2048, "T10": 1 << 21, "T13": 1 << 21, "T14": 1 << 21, "T21": 1 << 20}  # fmt: skip
    if kernel in ("T3-stencil-2d",):
        return [{"nx": 2048, "ny": 1024}]
    if kernel in ("T3-stencil-3d",):
        return [{"nx": 256, "ny": 128, "nz": 64}]
    if family == "T4":
        return [{"rows": 2048, "cols": 2000}]
    if family == "T9" and "gemv" in kernel:
        return [{"m": 3000, "n": 2048}]
    if kernel == "T9-conv2d":
        return [{"nx": 2000, "ny": 1300}]
    if kernel.startswith("T8-spmv"):
        return [{"n": 60000}]
    if family in single and kernel not in ("T1-scan-hillis-steele", "T1-scan-blelloch", "T1-scan-lookback"):
        return [{"n": single[family]}]
    return []


def rows(arch: str = "sm_90") -> Iterator[Row]:
    """Every launch; a size that a kernel cannot take is an error here, not on the card."""
    for row in kernels.all_kernels():
        for size in sizes(row.id):
            launch = row.launch({"name": "held", **size})
            folder = row.path.parent
            module = program.compile(row.path, arch=arch, options=row.options, include_dirs=(folder,))
            name = "x".join(str(v) for v in size.values())
            yield Row(f"{row.id}@{name}", module[row.entry].name, launch.grid, launch.block,
                      launch.dynamic_shared, tuple(dict(a) for a in launch.args), module)  # fmt: skip


def record(raw: Path, profiler: str) -> dict[str, Any]:
    """The profiler's rows, in order of the launches."""
    launches = []
    for row, measured in zip(rows(), read_raw(raw), strict=True):
        assert measured.name == row.entry, (measured.name, row.id)
        metrics = {name: measured.metrics[name].number for name in METRICS if name in measured.metrics}
        launches.append({"id": row.id, "code_sha256": code_sha256(row.module, row.entry), "metrics": metrics})
    return {"schema": SCHEMA, "profiler": profiler, "command": COMMAND, "launches": launches}


def load(path: Path = RECORD) -> list[dict[str, Any]]:
    """Launches of the record: id, code_sha256, metrics."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert found["schema"] == SCHEMA
    launches: list[dict[str, Any]] = found["launches"]
    return launches


def moved(predicted: dict[str, float], measured: dict[str, float]) -> dict[str, float]:
    """Relative error of every traffic metric of which more than 1 MiB is predicted or measured."""
    out = {}
    for name in (*(d.name for d in TRAFFIC), DRAM_WRITE):
        ours, theirs = predicted[name], measured.get(name)
        least = MIB if "bytes" in name else MIB // SECTOR_BYTES
        if theirs is not None and max(ours, theirs) > least:
            out[name] = (ours - theirs) / theirs if theirs else float("inf")
    return out


def compare(chosen: str = "") -> dict[str, list[tuple[float, str]]]:
    """Errors of the launches whose id holds ``chosen``: metric -> (relative error, id)."""
    errors: dict[str, list[tuple[float, str]]] = {}
    for row, measured in zip(rows(), load(), strict=True):
        if chosen not in row.id:
            continue
        assert row.id == measured["id"]
        result = simulate(row.module[row.entry], row.grid, row.block, list(row.args),
                          dynamic_shared=row.dynamic_shared)  # fmt: skip
        predicted = {name: metric.value for name, metric in result.metrics.items()}
        found = moved(predicted, measured["metrics"])
        shown = (f"{name.split('.')[0][-28:]} {error:+.1%}" for name, error in found.items())
        print(row.id, *shown, flush=True)
        for name, error in found.items():
            errors.setdefault(name, []).append((error, row.id))
    return errors


def main(arguments: list[str]) -> int:
    """See the module's text."""
    if arguments[0] == "bundle":
        write_bundle(list(rows()), Path(arguments[1]))
    elif arguments[0] == "record":
        atomic_write(Path(arguments[2]), json.dumps(record(Path(arguments[1]), arguments[3]), indent=0))
    else:
        for name, errors in compare(*arguments[1:2]).items():
            sizes_ = np.abs([error for error, _ in errors])
            median, p90 = np.percentile(sizes_, (50, 90))
            print(f"{name:60} n {len(errors):3} median {median:.1%} p90 {p90:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

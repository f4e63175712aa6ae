"""Launches at sizes that nothing was tuned on, for L1, L2 and DRAM traffic.

``python -m gpusim.validation.microbench.sizes bundle DIR`` writes a bundle for
``gpusim.validation.device_outputs``, to be run under ncu (COMMAND); ``... record RAW.csv RECORD.json
PROFILER`` makes the record of the profiler's raw page; ``... compare`` simulates every launch, prints the
errors and writes ``sizes_compared.json``, which docs/accuracy.md shows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpusim import kernels, program
from gpusim.metrics import DRAM_WRITE, TRAFFIC
from gpusim.output import atomic_write
from gpusim.simulate import simulate
from gpusim.validation.compare import Pair, judge
from gpusim.validation.launches import HERE, Row, code_sha256, write_bundle
from gpusim.validation.ncu_export import read_raw
from gpusim.validation.ncu_numbers import Value
from gpusim.validation.results import dump, moved, spread

SCHEMA = "gpusim.sizes/1"
RECORD = HERE / "measurements" / "h200" / "sizes.json"
COMPARED, COMPARED_SCHEMA = RECORD.with_name("sizes_compared.json"), "gpusim.sizes_compared/1"
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


def compare(chosen: str = "") -> dict[str, dict[str, list[float]]]:
    """Traffic of the launches whose id holds ``chosen``: metric -> launch -> [predicted, measured]."""
    found: list[Pair] = []
    for row, measured in zip(rows(), load(), strict=True):
        if chosen not in row.id:
            continue
        assert row.id == measured["id"]
        result = simulate(row.module[row.entry], row.grid, row.block, list(row.args),
                          dynamic_shared=row.dynamic_shared)  # fmt: skip
        for name, number in measured["metrics"].items():
            if (ours := result.metrics.get(name)) is not None and ours.value is not None:
                found.append(judge(row.id, name, None, ours.value, Value(number, ours.unit), ours.unit,
                                   ours.tier, ()))  # fmt: skip
    return moved(found)


def main(arguments: list[str]) -> int:
    """See the module's text."""
    if arguments[0] == "bundle":
        write_bundle(list(rows()), Path(arguments[1]))
    elif arguments[0] == "record":
        atomic_write(Path(arguments[2]), json.dumps(record(Path(arguments[1]), arguments[3]), indent=0))
    else:
        found = compare(*arguments[1:2])
        for name, launches in found.items():
            print(f"{name:60} n {len(launches):3} median {{:.1%}} p90 {{:.1%}}".format(*spread(launches)))
        if not arguments[1:2]:
            atomic_write(COMPARED, dump({"schema": COMPARED_SCHEMA, **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

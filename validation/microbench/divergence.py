"""Order and meeting of a diverged warp's lanes: one-warp kernels, their records, and the comparison.

``divergence.cu`` sends each lane to a chosen place: sides of a branch, arrivals at a meeting point, trips of
loops, targets of a jump table or a call, depths of recursion.  A launch is one row of a table of places.

``python -m gpusim.validation.microbench.divergence bundle DIR`` writes a bundle for
``gpusim.validation.device_outputs``, to be run on the GPU plain (the logs: who came first) and under ncu;
``... record RAW.csv SOURCE.csv OUTPUTS.npz PROFILER RECORD.json.xz`` makes the record of what comes back
(PROFILER: what measured it, in words);
``... compare [RECORD.json.xz]`` simulates every launch again and prints what differs.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gpusim import program
from gpusim.output import atomic_write
from gpusim.simulate import run, simulate
from gpusim.validation.launches import HERE, Row, code_sha256, write_bundle
from gpusim.validation.metric_names import SOURCE_COLUMNS
from gpusim.validation.ncu_export import read_raw, read_source
from gpusim.validation.profiler import align

SCHEMA = "gpusim.divergence/1"
SOURCE = Path(__file__).with_suffix(".cu")
RECORD = HERE / "measurements" / "h200" / "divergence.json.xz"
#: Places a kernel knows, and the place of lanes that leave at once.
PLACES = {
    "sides": 2, "join": 3, "fall": 7, "call": 7, "leave": 7, "forks": 16, "table": 9, "pointer": 8, "pure": 8,
    "targets": 8, "sites": 6, "recurse": 7, "nested": 8, "spread": 8, "euclid": 90, "depths": 90,
}  # fmt: skip
OFF = 99
LOG_WORDS = 1024 + 32
METRICS = ("smsp__inst_executed.sum", "smsp__thread_inst_executed.sum")
COLUMNS = ("inst_executed", "thread_inst_executed")
#: All columns of the source page: which are asked for decides how the profiler patches the code.
COMMAND = (
    f"ncu --clock-control none --cache-control none --metrics {','.join([*SOURCE_COLUMNS, *METRICS])} "
    "python -m gpusim.validation.device_outputs"
)


@cache
def patterns() -> tuple[tuple[str, tuple[int, ...]], ...]:
    """(kernel, place of each lane) of each launch: split sizes and who holds the low lanes, ties, random."""
    rng = np.random.default_rng(5)
    out: list[tuple[str, tuple[int, ...]]] = []
    for n in range(1, 32):
        low = [int(lane < n) for lane in range(32)]
        out += [("sides", tuple(low)), ("sides", tuple(1 - x for x in low))]
    for kernel, places in PLACES.items():
        for i in range(12):  # groups of equal size, lanes off, in every arrangement
            groups = min(places, 2 + i % 4)
            size = (1, 2, 3, 5, 8)[i % 5] if groups < 4 else 1 + i % 6
            row = np.full(32, OFF)
            lanes = rng.permutation(32)[: groups * size]
            row[lanes] = rng.permutation(places)[np.arange(len(lanes)) % groups]
            out.append((kernel, tuple(row.tolist())))
        for i in range(28):
            share = rng.dirichlet(np.full(places, 0.3 + 0.5 * (i % 3)))
            row = rng.choice(places, 32, p=share)
            if i % 4 == 0:
                row[rng.permutation(32)[: 2 + i // 2]] = OFF
            out.append((kernel, tuple(row.tolist())))
    for i in range(48):  # few lanes
        for kernel in ("sites", "recurse"):
            row = np.full(32, OFF)
            lanes = rng.permutation(32)[: 3 + i // 8]
            row[lanes] = rng.integers(0, PLACES[kernel], len(lanes))
            out.append((kernel, tuple(row.tolist())))
    for lane in range(32):  # one lane longest in a loop
        row = np.ones(32, int)
        row[rng.permutation(32)[:9]], row[lane] = 3, 6
        out.append(("fall", tuple(row.tolist())))
    return tuple(out)


@cache
def module(arch: str = "sm_90") -> program.Module:
    return program.compile(SOURCE, arch=arch)


def table() -> np.ndarray:
    return np.array([row for _, row in patterns()], np.uint32)


def arguments(index: int, where: Any) -> list[Any]:
    """In parameter order."""
    return [
        where, {"kind": "scalar", "dtype": "uint32", "value": index},
        {"kind": "array", "dtype": "uint32", "n": 256, "init": "zeros"},
        {"kind": "array", "dtype": "uint32", "n": LOG_WORDS, "init": "zeros"},
    ]  # fmt: skip


def bundle(folder: Path) -> None:
    """Cubin, table and ``launches.json`` for the GPU machine."""
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "where.npy").resolve()
    np.save(file, table().reshape(-1))
    where = {"kind": "array", "dtype": "uint32", "n": table().size, "init": f"file:{file}"}
    rows = [
        Row(f"{index:03}", kernel, (1, 1, 1), (32, 1, 1), 0, tuple(arguments(index, where)), module())
        for index, (kernel, _) in enumerate(patterns())
    ]
    write_bundle(rows, folder)


def record(raw: Path, source: Path, outputs: Path, profiler: str) -> dict[str, Any]:
    """What was measured of each launch, in order: counters, the source page's columns, the log."""
    launches = [row for row in read_raw(raw) if row.name in PLACES]
    pages = align(launches, read_source(source))
    logs = np.load(outputs)
    versions = json.loads(outputs.with_suffix(".json").read_text(encoding="utf-8"))["versions"]
    out = []
    for index, ((kernel, where), launch, page) in enumerate(zip(patterns(), launches, pages, strict=True)):
        assert launch.name == kernel and page is not None
        log = logs[f"{index:03}|3"]
        marks = int(np.flatnonzero(log[:1024])[-1]) + 1 if log[:1024].any() else 0
        out.append({
            "kernel": kernel, "where": where,
            "metrics": {name: int(launch.metrics[name].number) for name in METRICS},
            "columns": {c: [int(row["columns"][c]) for row in page.rows] for c in COLUMNS},
            "log": log[:marks].tolist(), "results": log[1024:].tolist(),
        })  # fmt: skip
    return {
        "schema": SCHEMA, "versions": {**versions, "profiler": profiler}, "command": COMMAND,
        "code_sha256": {kernel: code_sha256(module(), kernel) for kernel in PLACES}, "launches": out,
    }  # fmt: skip


def load(path: Path = RECORD) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    assert found["schema"] == SCHEMA
    return found


def differences(index: int, launch: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """(kind, what, predicted, measured) of every pair of one launch: ``hardware`` counters, the ``page``, the
    ``log`` of who came when, and the ``results``.
    """
    kernel = module()[launch["kernel"]]
    args = arguments(index, table().reshape(-1))
    result = simulate(kernel, 1, 32, args, full=True, jobs=1)
    for name, value in launch["metrics"].items():
        yield "hardware", name, result.metrics[name].value, value
    for name, values in launch["columns"].items():
        for row, value in zip(result.instructions, values, strict=True):
            yield "page", f"{name} {row['pc']:04x} {row['sass']}", row[name], value
    log = run(kernel, 1, 32, args)[3]
    marks = launch["log"]
    yield "log", "log", log[: len(marks)].tolist(), marks
    yield "results", "results", log[1024:].tolist(), launch["results"]


def main(arguments_: list[str]) -> int:
    """See the module's text."""
    if arguments_[0] == "bundle":
        bundle(Path(arguments_[1]))
        return 0
    if arguments_[0] == "record":
        raw, source, outputs = map(Path, arguments_[1:4])
        text = json.dumps(record(raw, source, outputs, arguments_[4]), separators=(",", ":"))
        atomic_write(Path(arguments_[5]), lzma.compress(text.encode(), preset=9))
        return 0
    tally: Counter[tuple[str, str, bool]] = Counter()
    for index, launch in enumerate(load(*map(Path, arguments_[1:2]))["launches"]):
        for kind, what, ours, measured in differences(index, launch):
            tally[launch["kernel"], kind, ours == measured] += 1
            if ours != measured:
                print(f"{index:03} {launch['kernel']:8} {what}: {ours}, measured {measured}")
    wrong = 0
    for kernel in PLACES:
        counts = []
        for kind in ("hardware", "page", "log", "results"):
            equal, different = (tally[kernel, kind, state] for state in (True, False))
            counts.append(f"{kind} {equal:,} of {equal + different:,}")
            wrong += different
        print(f"{kernel:8} equal: {', '.join(counts)}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

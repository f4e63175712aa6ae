"""Records of the one-warp access kernels: launches, the record file, and its comparison with the simulator.

``python -m gpusim.validation.microbench.patterns bundle DIR`` writes a bundle for
``gpusim.validation.device_outputs`` (run it under ncu on a GPU: docs/rules.md has the commands);
``... compare [RECORD.json.xz]`` simulates every recorded launch again and prints what differs, settled and
unsettled rules apart.

A record holds, by launch id, the kernel, the patterns, the SHA-256 of the kernel's code, and either the
source page's columns of every instruction (launches of many patterns) or hardware counters (launches of one).
"""

from __future__ import annotations

import json
import lzma
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gpusim import program
from gpusim.output import atomic_write
from gpusim.simulate import SimResult, simulate
from gpusim.validation import launches
from gpusim.validation.launches import HERE, Row, write_bundle
from gpusim.validation.microbench.accesses import OPS, REPEATS, Probe, kernel, probes, tables, variants

SCHEMA = "gpusim.micro/1"
RECORD = HERE / "measurements" / "h200" / "micro.json.xz"
#: Patterns in the table of each instruction.
PATTERNS = 4 * REPEATS
COLUMNS = (
    "inst_executed", "thread_inst_executed", "memory_l1_tag_requests_global", "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal", "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
)  # fmt: skip
#: As the source page calls them when the section SourceCounters is asked for.
LABELS = {
    "Instructions Executed": "inst_executed", "Thread Instructions Executed": "thread_inst_executed",
    "L1 Tag Requests Global": "memory_l1_tag_requests_global",
    "L1 Wavefronts Shared": "memory_l1_wavefronts_shared",
    "L1 Wavefronts Shared Ideal": "memory_l1_wavefronts_shared_ideal",
    "L2 Theoretical Sectors Global": "memory_l2_theoretical_sectors_global",
    "L2 Theoretical Sectors Global Ideal": "memory_l2_theoretical_sectors_global_ideal",
}  # fmt: skip


@cache
def module(name: str, arch: str = "sm_90") -> program.Module:
    """The kernels of one instruction, compiled on their own."""
    op = OPS[name]
    source = "\n".join(kernel(op, how) for how in variants(op)) + "\n"
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.cu"
        path.write_text(source, encoding="utf-8")
        return program.compile(path, arch=arch)


def code_sha256(name: str, entry: str) -> str:
    return launches.code_sha256(module(name), entry)


def arguments(probe: Probe, offsets: str | None = None, masks: str | None = None) -> list[Any]:
    """In parameter order; tables as arrays, or as the files of a bundle."""
    table, on = tables(probe.op, PATTERNS)

    def array(data: np.ndarray, file: str | None) -> Any:
        if file is None:
            return data
        return {"kind": "array", "dtype": "uint32", "n": data.size, "init": f"file:{file}"}

    numbers = [
        {"kind": "scalar", "dtype": "uint32", "value": v} for v in (probe.first, probe.step, probe.gone)
    ]
    return [
        array(table, offsets), array(on, masks), *numbers,
        {"kind": "array", "dtype": "uint8", "n": 1 << 18, "init": "zeros"},
        {"kind": "array", "dtype": "uint32", "n": 256, "init": "randint:0:17"},
    ]  # fmt: skip


def entry(probe: Probe) -> str:
    return f"acc_{probe.op.name}_{probe.how}"


def predicted(probe: Probe) -> SimResult:
    """The launch, simulated."""
    return simulate(module(probe.op.name)[entry(probe)], 1, 32, arguments(probe), full=True, jobs=1)


def bundle(folder: Path, only: str = "") -> None:
    """Cubins, tables and ``launches.json`` for the GPU machine."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for probe in (p for p in probes() if only in p.id):
        files = [str((folder / f"{probe.op.name}_{part}.npy").resolve()) for part in ("offsets", "masks")]
        for file, data in zip(files, tables(probe.op, PATTERNS), strict=True):
            np.save(file, data)
        args = tuple(arguments(probe, *files))
        rows.append(Row(probe.id, entry(probe), (1, 1, 1), (32, 1, 1), 0, args, module(probe.op.name)))
    write_bundle(rows, folder)


def by_id() -> Mapping[str, Probe]:
    return {probe.id: probe for probe in probes()}


def load(path: Path = RECORD) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    assert record["schema"] == SCHEMA
    return record


def describe(probe: Probe) -> dict[str, Any]:
    """What a record says of a launch besides its numbers."""
    return {
        "op": probe.op.name, "how": probe.how, "first": probe.first, "step": probe.step, "gone": probe.gone,
        "code_sha256": code_sha256(probe.op.name, entry(probe)),
    }  # fmt: skip


def probe_of(launch: Mapping[str, Any]) -> Probe:
    return Probe(OPS[launch["op"]], launch["how"], launch["first"], launch["step"], launch["gone"])


def differences(launch: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, float, float]]:
    """(instruction or launch, counter, settled, predicted, measured) of every pair of one launch."""
    result = predicted(probe_of(launch))
    if "metrics" in launch:
        for name, value in launch["metrics"].items():
            ours = result.metrics.get(name)
            if ours is not None:
                yield launch["op"], name, ours.tier == "exact", ours.value, value
        return
    # Where a loop retries, how often anything runs is a matter of timing.
    whole = result.metrics["inst_executed"].tier == "exact"
    for index, row in enumerate(result.instructions):
        sass = str(row["sass"])
        opcode = next(word for word in sass.split() if not word.startswith("@"))
        for column in COLUMNS:
            if column in launch["columns"]:
                measured = launch["columns"][column][index]
                yield opcode, column, whole and not bool(row["unsettled"]), row[column], measured


def write(record: Mapping[str, Any], path: Path) -> None:
    atomic_write(path, lzma.compress(json.dumps(record, separators=(",", ":")).encode("utf-8"), preset=9))


def main(arguments_: list[str]) -> int:
    """See the module's text."""
    if arguments_[0] == "bundle":
        bundle(Path(arguments_[1]), *arguments_[2:3])
        return 0
    tally: Counter[tuple[str, str, bool, bool]] = Counter()
    record = load(Path(arguments_[1]) if len(arguments_) > 1 else RECORD)
    for launch in record["launches"].values():
        for what, name, settled, ours, measured in differences(launch):
            tally[what, name, settled, ours == measured] += 1
    for (what, name, settled, equal), count in sorted(tally.items()):
        if not equal:
            total = count + tally[what, name, settled, True]
            print(f"{what:32} {name:44} {'settled' if settled else 'unsettled':10} {count} of {total} differ")
    ruled = sum(n for key, n in tally.items() if key[2])
    wrong = sum(n for key, n in tally.items() if key[2] and not key[3])
    print(f"{ruled - wrong:,} of {ruled:,} pairs under settled rules are equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Predictions beside records, for a whole folder of measurements: ``gpusim validate --recorded``.

Every record with a binary and a profile, and the given cases below it (``cases/``), is simulated with the
very binary and arguments that were measured, and compared (:mod:`gpusim.validation.compare`).  No GPU,
compiler or network is needed.  Large launches are sampled; where the sampled CTAs differ, the launch is
executed whole so that its exact tier can be judged.

:func:`main` prints tables, writes the results (``gpusim.comparison/1``, :mod:`gpusim.validation.results`),
the figure and the page, and returns the exit code: 1 when an exact counter differs without a numbered reason,
a launch cannot be simulated, or a numbered reason has nothing left to explain.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gpusim import device
from gpusim.errors import GpusimError, InputError
from gpusim.launch import load_manifest, materialise
from gpusim.output import atomic_write, check_writable
from gpusim.program import Module, load
from gpusim.report.json import report_dict
from gpusim.simulate import SimResult, simulate
from gpusim.validation import deviations as known
from gpusim.validation.compare import LaunchMeasured, Pair, compare, counts, measured_of_record
from gpusim.validation.ncu_export import SourceRow
from gpusim.validation.ncu_numbers import Value
from gpusim.validation.records import cubin_file, load_index, load_record

#: Measured warp instructions up to which a sampled launch with unlike CTAs is executed whole after all.
WHOLE_LIMIT = 4_000_000_000

#: What is known of the given cases' measurement (cases/README.md).
CASES_ORIGIN = {
    "what": "given cases",
    "device": "NVIDIA H200",
    "profiler": "Nsight Compute 2025.3",
    "cache_control": "all",
    "clock_control": "none",
    "compiler": "nvcc 13.0",
}

#: Columns of a table that goes to a file or pipe.
FILE_WIDTH = 150

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Work:
    """One launch to compare: a record file, or a case of a folder of cases."""

    id: str
    folder: Path
    file: str | None  # of a record, relative to the folder; None for a given case


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one launch.

    pairs: of the launch, and of instructions that are not equal; columns: source column -> pairs by verdict;
    origin: where and how it was measured; problem: why there is nothing to compare, and whether that is a
    failure or only a record without counters.
    """

    id: str
    origin: dict[str, str] = field(default_factory=dict)
    pairs: Sequence[Pair] = ()
    columns: dict[str, dict[str, int]] = field(default_factory=dict)
    sampled: bool = False
    problem: str = ""
    failed: bool = False

    @property
    def metrics(self) -> list[Pair]:
        return [p for p in self.pairs if p.pc is None]


def works(folder: Path, only: Sequence[str] = ()) -> list[Work]:
    """Everything recorded in a folder whose id fits one of the patterns (all without any)."""
    found: list[Work] = []
    if (folder / "INDEX.json").is_file():
        found += [Work(e.id, folder, e.file) for e in load_index(folder)]
    cases = folder / "cases"
    if (cases / "manifest.json").is_file():
        found += [Work(item.id, cases, None) for item in load_manifest(cases / "manifest.json")]
    if not found:
        raise InputError("holds no records (neither INDEX.json nor cases/manifest.json)", where=str(folder),
                         hint="name a folder such as validation/measurements/h200")  # fmt: skip
    chosen = [w for w in found if not only or any(fnmatchcase(w.id, p) for p in only)]
    if not chosen:
        some = ", ".join(w.id for w in found[:5])
        raise InputError(f"no record fits {' '.join(only)}", where=str(folder), hint=f"ids look like {some}")
    return chosen


def compare_recorded(work: Work, jobs: int | None = None) -> Outcome:
    """Simulate and compare one recorded launch; errors a record can cause are in the outcome."""
    try:
        return _record(work, jobs) if work.file is not None else _case(work, jobs)
    except GpusimError as error:
        return Outcome(work.id, problem=error.message(), failed=True)


def _record(work: Work, jobs: int | None) -> Outcome:
    assert work.file is not None
    record = load_record(work.folder / work.file)
    kernel = record["kernel"]
    origin = _origin(record)
    if kernel.get("cubin_sha256") is None:
        return Outcome(work.id, origin, problem="a library's kernel: there is no binary to execute")
    if "profile" not in record:
        return Outcome(work.id, origin, problem=f"not profiled: {record['absent']['profile']}")
    path = cubin_file(work.folder, kernel["cubin_sha256"])
    module = _module(path)
    if module.sha256 != kernel["cubin_sha256"]:
        raise InputError("is not the binary that was measured", where=str(path))
    launch = record["launch"]
    values = materialise(launch["args"])
    for slot, digest in record["inputs_sha256"].items():
        if hashlib.sha256(np.ascontiguousarray(values[int(slot)]).tobytes()).hexdigest() != digest:
            raise InputError(f"argument {slot} is not the data that was measured", where=work.id,
                             hint="numpy's generators must give what they gave then")  # fmt: skip
    return _outcome(work, origin, module, kernel["entry"], launch["grid"], launch["block"], values,
                    launch["dynamic_shared_bytes"], measured_of_record(record), jobs)  # fmt: skip


def _origin(record: dict[str, Any]) -> dict[str, str]:
    machine, profile = record["machine"], record.get("profile", {})
    origin = {
        "what": "records",
        "device": machine.get("device"),
        "driver": machine.get("driver"),
        "profiler": profile.get("tool"),
        "cache_control": profile.get("cache_control"),
        "clock_control": profile.get("clock_control"),
        "compiler": record["kernel"].get("compiler"),
        "date": record["date"][:10],
    }
    return {key: str(value) for key, value in origin.items() if value}


def _case(work: Work, jobs: int | None) -> Outcome:
    item = next(i for i in load_manifest(work.folder / "manifest.json") if i.id == work.id)
    metrics, source = _cases(work.folder)
    if work.id not in metrics:
        return Outcome(work.id, CASES_ORIGIN, problem="not measured")
    numbers = {
        name: Value(number, "")
        for name, number in metrics[work.id].items()
        if isinstance(number, (int, float)) and ("__" in name or name.startswith(("memory_", "inst_")))
    }
    page = source.get(work.id)
    rows = None
    if page is not None:
        rows = [SourceRow(pc=r.pop("pc"), sass=r.pop("sass"), columns=r) for r in map(dict, page)]
    module = _module(work.folder / "cubins" / f"{Path(item.file).stem}.cubin")
    launch = item.launch
    return _outcome(work, dict(CASES_ORIGIN), module, item.entry, launch.grid, launch.block,
                    materialise(launch.args), launch.dynamic_shared_bytes, LaunchMeasured(numbers, rows),
                    jobs)  # fmt: skip


@lru_cache(maxsize=1)
def _cases(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """Launch-wide and per-instruction measurements of the given cases."""
    metrics = json.loads((folder / "measured_h200.json").read_text(encoding="utf-8"))
    with gzip.open(folder / "source_h200.json.gz", "rt", encoding="utf-8") as file:
        return metrics, json.load(file)


@lru_cache(maxsize=4)
def _module(path: Path) -> Module:
    return load(path)


def _outcome(
    work: Work,
    origin: dict[str, str],
    module: Module,
    entry: str,
    grid: Sequence[int],
    block: Sequence[int],
    values: list[Any],
    shared: int,
    measured: LaunchMeasured,
    jobs: int | None,
) -> Outcome:
    name = device_of(work.folder, origin["device"])

    def run(full: bool) -> SimResult:
        return simulate(module[entry], grid, block, values, dynamic_shared=shared, device=name, full=full,
                        jobs=jobs)  # fmt: skip

    result = run(False)
    executed = measured.metrics.get("smsp__inst_executed.sum")
    if not result.coverage.alike and executed is not None and executed.number <= WHOLE_LIMIT:
        result = run(True)
    comparison = compare(report_dict(result, work.id), measured, known.load())
    if any("another binary" in note for note in comparison.notes):
        raise InputError(f"the record contradicts its binary: {comparison.notes[0]}", where=work.id)
    instructions = comparison.instructions
    columns = {
        column: counts(p for p in instructions if p.metric == column)
        for column in sorted({p.metric for p in instructions})
    }
    unequal = [p for p in instructions if p.verdict != "equal"]
    return Outcome(work.id, origin, [*comparison.metrics, *unequal], columns, result.coverage.sampled)


def device_of(folder: Path, measured_on: str) -> str:
    """The device file for a folder of measurements: by the folder's name, else by the GPU's."""
    for part in reversed(folder.resolve().parts):
        if part in device.names():
            return part
    for name in device.names():
        if device.load_device(name).title.startswith(measured_on):
            return name
    raise InputError(f"no device file for {measured_on!r}", where=str(folder),
                     hint="name the folder after one of `gpusim devices`")  # fmt: skip


def outcomes(
    chosen: Sequence[Work], jobs: int | None = None, progress: Progress | None = None
) -> list[Outcome]:
    """Compare all launches on ``jobs`` processes (default: all cores), in the order given."""
    jobs = jobs or os.cpu_count() or 1
    if jobs == 1 or len(chosen) < 4:  # starting processes costs more than it brings
        done = []
        for k, work in enumerate(chosen):
            if progress is not None:
                progress(k, len(chosen), work.id)
            done.append(compare_recorded(work, jobs))
        return done
    return list(_in_processes(chosen, jobs, progress))


def _in_processes(chosen: Sequence[Work], jobs: int, progress: Progress | None) -> Iterator[Outcome]:
    """One launch a process at a time; processes start afresh, as threads do not survive a fork."""
    context = multiprocessing.get_context("spawn")
    found: dict[int, Outcome] = {}
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_leave_interrupts_to_the_parent)
    try:
        futures = {pool.submit(compare_recorded, work, 1): k for k, work in enumerate(chosen)}
        for future in as_completed(futures):
            k = futures[future]
            found[k] = future.result()
            if progress is not None:
                progress(len(found), len(chosen), chosen[k].id)
    except BaseException as error:  # an interrupt too: nobody waits for a long launch then
        for child in multiprocessing.active_children():
            child.terminate()
        if isinstance(error, BrokenProcessPool):
            raise InputError("a process that simulates was ended from outside, for memory most likely",
                             hint="try fewer with --jobs 1") from error  # fmt: skip
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return iter(found[k] for k in range(len(chosen)))


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main(
    records: Path,
    *,
    only: Sequence[str] = (),
    json_path: str | Path | None = None,
    figure: str | Path | None = None,
    page: str | Path | None = None,
    jobs: int | None = None,
    show: Callable[..., None] | None = None,
    progress: Progress | None = None,
) -> int:
    """Compare, print, write what was asked for; 0 if every exact counter is equal or known, else 1.

    records: a folder of measurements; only: patterns of ids; json_path: ``-`` prints the results on stdout
    and nothing else; show: prints rich renderables (default: a console on stdout); progress: called with
    (done, total, id).
    """
    from gpusim.validation import accuracy, plot, results

    for path in (json_path, figure, page):
        if path not in (None, "-"):
            check_writable(path)
    if figure is not None:
        plot.check_format(figure)
    if show is None:
        from rich.console import Console

        show = Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH).print
    found = outcomes(works(records, only), jobs, progress)
    collected = results.collect(found, whole=not only)
    if json_path == "-":
        sys.stdout.write(results.dump(collected))
    else:
        show(results.render(collected))
        if json_path is not None:
            atomic_write(json_path, results.dump(collected))
    if page is not None:
        atomic_write(page, accuracy.page(collected))
    if figure is not None:
        atomic_write(figure, plot.figure([p for o in found for p in o.metrics], Path(figure).suffix))
    return 0 if results.passed(collected) else 1


__all__ = ["Outcome", "Work", "compare_recorded", "main", "outcomes", "works"]

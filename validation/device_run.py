"""``gpusim validate --device-run``: every launch run, timed and profiled on this machine's GPU, as records.

Three steps: *run* (a worker process measures each launch), *profile* (``ncu`` around a worker, in batches)
and *record*.  Every finished launch is kept in the work folder, so an interrupted measurement goes on where
it stopped; a launch that failed is tried again the next time.  One bad launch costs none of the others: a
worker that dies or falls silent is replaced.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusim.errors import GpusimError, InputError, ToolMissing
from gpusim.validation import plan as planning
from gpusim.validation.metric_names import FAST_US, SLOW_MS
from gpusim.validation.plan import Plan, Planned, Progress, silent
from gpusim.validation.process import child, lines, python, tail
from gpusim.validation.profiler import NO_NCU, Profiler, Unavailable, find_ncu
from gpusim.validation.records import SCHEMA, Record, write_index, write_record
from gpusim.validation.state import State
from gpusim.validation.worker import DEFAULT_BACKEND

#: A launch that is not measured after this many seconds has hung.
LAUNCH_LIMIT_S = 240.0
#: Launches an ncu process: its start takes seconds, and what it had not finished is lost when it dies.
BATCH = 100

Say = Callable[[str], None]


@dataclass(slots=True)
class Summary:
    """What a measurement came to.  ``failed``: id -> why it could not be run."""

    launches: int = 0
    run: int = 0
    passed: int = 0
    wrong: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    profiled: int = 0
    not_profiled: dict[str, str] = field(default_factory=dict)
    records: int = 0
    folder: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether everything ran and no oracle disagreed; counters may be missing for want of permission."""
        return not self.failed and not self.wrong


def measure_device(
    work: Path,
    *,
    device_name: str = "h200",
    only: Sequence[str] = (),
    sizes: Sequence[str] = (),
    with_profile: bool = True,
    out: Path | None = None,
    command: str = "gpusim validate --device-run",
    progress: Progress = silent,
    say: Say = print,
    backend: str = DEFAULT_BACKEND,
) -> Summary:
    """Measure what ``only`` and ``sizes`` choose and write records to ``out`` (``work/records`` if None).

    Raises ToolMissing where there is no GPU or CuPy.
    """
    machine = probe(work, backend)
    plan, rows = _planned(work, device_name, only, sizes, progress)
    _check_arch(plan, machine)
    state = State(work)
    summary = Summary(launches=len(rows))
    _run(plan, rows, state, command, backend, progress, say)
    for row in rows:
        result = state.get("run", row) or {"error": "it was not reached"}
        if "error" in result:
            summary.failed[row.id] = result["error"]
    ready = [row for row in rows if row.id not in summary.failed]
    unavailable = "not asked for (--no-profile)"
    if with_profile:
        unavailable = _profile(plan, ready, state, backend, progress, say)
    _write(work, plan, ready, state, out, unavailable, summary)
    return summary


def probe(work: Path, backend: str) -> dict[str, Any]:
    """The machine, as a worker process sees it."""
    log = work / "worker.log"
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder cannot be made: {error.strerror}", where=str(work)) from error
    command = python("gpusim.validation.worker", "probe", "--backend", backend)
    try:
        with child(command, log, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None  # a pipe was asked for
            text = "".join(lines(process.stdout, LAUNCH_LIMIT_S))
            if process.wait() == 0:
                return dict(json.loads(text))
    except TimeoutError:
        raise ToolMissing(f"the GPU did not answer within {LAUNCH_LIMIT_S:.0f} s") from None
    message = log.read_text(encoding="utf-8", errors="replace").strip()
    what, _, hint = message.partition("\n  hint: ")
    raise ToolMissing(
        f"nothing can be measured here: {what[-600:] or 'the worker does not start'}", hint=hint or None
    )


def _planned(
    work: Path, device_name: str, only: Sequence[str], sizes: Sequence[str], progress: Progress
) -> tuple[Plan, list[Planned]]:
    """The plan, with what is asked for; what it lacks is compiled."""
    plan = planning.load_plan(work) if (work / planning.PLAN).exists() else None
    if plan is None or only or sizes:
        from gpusim.device import load_device

        arch = plan.arch if plan is not None else load_device(device_name).arch
        wanted = planning.choose(planning.all_ids(arch), only, sizes)
        missing = [id for id in wanted if plan is None or id not in plan.rows]
        if missing:
            plan = planning.prepare(work, plan.device_name if plan else device_name, missing, progress)
    else:
        wanted = list(plan.rows)
    assert plan is not None  # prepared above if it was missing
    if not wanted:
        raise InputError("nothing is left to measure", hint="no launch has both this name and this size")
    return plan, [plan.rows[id] for id in wanted]


def _check_arch(plan: Plan, machine: dict[str, Any]) -> None:
    found = "sm_" + str(machine.get("compute_capability", "")).replace(".", "")
    if found != plan.arch.removesuffix("a"):
        raise InputError(
            f"the folder was prepared for {plan.arch}, this machine's {machine.get('device')} is {found}",
            where=str(plan.work),
            hint="prepare another folder with the --device-name of this GPU; gpusim devices lists the names",
        )


def _run(
    plan: Plan,
    rows: Sequence[Planned],
    state: State,
    command: str,
    backend: str,
    progress: Progress,
    say: Say,
) -> None:
    """Measure what is not done yet; every pass through the loop settles at least one launch."""
    pending = [row for row in rows if not state.done("run", row)]
    ids, log, total = plan.work / "run.ids", plan.work / "worker.log", len(rows)
    settled = total - len(pending)
    while pending:
        ids.write_text("".join(f"{row.id}\n" for row in pending), encoding="utf-8")
        worker = python("gpusim.validation.worker", "run", "--work", str(plan.work), "--ids", str(ids),
                        "--command", command, "--backend", backend)  # fmt: skip
        finished: set[str] = set()
        begun = ""
        why = "the worker ended in the middle of it"
        with child(worker, log, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None  # a pipe was asked for
            try:
                for line in lines(process.stdout, LAUNCH_LIMIT_S):
                    word, _, id = line.partition(" ")
                    if word == "begin":
                        begun = id
                        progress(settled + len(finished), total, f"running {id}")
                    elif word in ("done", "failed"):
                        finished.add(id)
            except TimeoutError:
                why = f"it did not end within {LAUNCH_LIMIT_S:.0f} s"
        if begun and begun not in finished:
            row = plan.rows[begun]
            state.put("run", row, {"error": f"{why}: {tail(log)}".rstrip(": ")})
            finished.add(begun)
        if not finished:
            raise ToolMissing(f"the worker does not start: {tail(log)}")
        settled += len(finished)
        pending = [row for row in pending if row.id not in finished]
    _report_failures(rows, state, say)


def _report_failures(rows: Sequence[Planned], state: State, say: Say) -> None:
    for row in rows:
        result = state.get("run", row)
        if result is not None and "error" in result:
            say(f"{row.id} could not be measured: {result['error']}")


def _profile(
    plan: Plan, rows: Sequence[Planned], state: State, backend: str, progress: Progress, say: Say
) -> str:
    """Profile what is not done yet; returns why nothing (more) could be, or an empty text."""
    pending = [row for row in rows if not state.done("profile", row)]
    if not pending:
        return ""
    ncu = find_ncu()
    if ncu is None:
        say(f"no counters: {NO_NCU}")
        return NO_NCU
    try:
        profiler = Profiler(ncu, plan.work, say, backend)
        settled, total = len(rows) - len(pending), len(rows)
        for list_name, group in _groups(pending, state):
            while group:
                batch, group = group[:BATCH], group[BATCH:]

                def show(id: str, begun: int, base: int = settled) -> None:
                    progress(base + begun - 1, total, f"profiling {id}")

                result = profiler.profile(batch, list_name, show)
                for id, parts in result.results.items():
                    state.put("profile", plan.rows[id], parts)
                    if "error" in parts:
                        say(f"{id} was not profiled: {parts['error']}")
                settled += len(result.results)
                group = result.left + group
    except Unavailable as error:
        say(f"no counters: {error.message()}")
        return error.message()
    return ""


def _groups(rows: Sequence[Planned], state: State) -> list[tuple[str, list[Planned]]]:
    """Launches that one ncu process can take together, with the list of metrics to ask for.

    Long ones come last, references alone because a library's call may be several kernels.
    """

    def microseconds(row: Planned) -> float:
        result = state.get("run", row)
        return 0.0 if result is None else float(result["timing"]["warm"]["median_us"])

    own = [row for row in rows if row.kind != "reference"]
    fast = [row for row in own if microseconds(row) < FAST_US]
    slow = [row for row in own if microseconds(row) > 1000.0 * SLOW_MS]
    groups = [("short", fast), ("full", [row for row in own if row not in fast and row not in slow])]
    groups += [("full", [row]) for row in rows if row.kind == "reference"]
    groups.append(("short", slow))
    return [group for group in groups if group[1]]


def _write(
    work: Path, plan: Plan, rows: Sequence[Planned], state: State, out: Path | None, unavailable: str,
    summary: Summary,
) -> None:  # fmt: skip
    folder = out if out is not None else work / "records"
    try:
        (folder / "cubins").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder cannot be made: {error.strerror}", where=str(folder)) from error
    for row in rows:
        run, profile = state.get("run", row), state.get("profile", row) or {}
        assert run is not None  # rows are those that ran
        summary.run += 1
        oracle = run["outputs"]["oracle"]
        if oracle == "passed":
            summary.passed += 1
        elif oracle.startswith("failed"):
            summary.wrong[row.id] = oracle
        why = profile.get("error") or unavailable or "it was not profiled"
        if "profile" in profile:
            summary.profiled += 1
        else:
            summary.not_profiled[row.id] = why
        write_record(folder, build_record(row, run, profile, why), replace=out is None)
        if row.cubin is not None and not (folder / "cubins" / row.cubin).exists():
            shutil.copyfile(plan.cubin(row), folder / "cubins" / row.cubin)
        summary.records += 1
    write_index(folder)
    summary.folder = folder


def build_record(row: Planned, run: dict[str, Any], profile: dict[str, Any], why: str) -> Record:
    """The record of a launch from what its steps left; ``why``: the reason for a missing profile."""
    machine = dict(run["machine"])
    record: Record = {"schema": SCHEMA, "id": row.id}
    record["kernel"] = {
        "catalog": row.kernel if row.kind != "case" else None,
        "entry": profile.get("entry") or row.entry or None,
        "source": row.source,
        "source_sha256": row.source_sha256,
        "arch": row.arch or None,
        "compiler": row.compiler or f"cuBLAS {machine.get('cublas', '(version unknown)')}",
        "options": list(row.options),
        "cubin_sha256": row.cubin_sha256,
    }
    record["launch"] = {
        "grid": list(row.grid) if row.grid else profile.get("grid"),
        "block": list(row.block) if row.block else profile.get("block"),
        "dynamic_shared_bytes": row.dynamic_shared,
        "args": list(row.args),
    }
    record["inputs_sha256"] = run["inputs_sha256"]
    if "profile" in profile:
        machine["ncu"] = profile["profile"]["tool"].removeprefix("Nsight Compute ")
    record["machine"] = machine
    record["date"], record["command"] = run["date"], run["command"]
    record["outputs"], record["timing"] = run["outputs"], run["timing"]
    if row.kind == "reference":
        kernels = ", ".join(profile.get("kernels", [])) or "not known without the profiler"
        record["note"] = (
            f"cupy.matmul of float32 with TF32 off, a library's kernel that nobody predicts; counters are of "
            f"the longest of its kernels: {kernels}"
        )
    absent = dict(profile.get("absent", {}))
    for part in ("profile", "instructions"):
        if part in profile:
            record[part] = profile[part]
        else:
            absent.setdefault(part, why)
    if absent:
        record["absent"] = absent
    return record


__all__ = ["GpusimError", "Summary", "build_record", "measure_device", "probe"]

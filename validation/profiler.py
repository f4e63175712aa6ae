"""Nsight Compute: one ``ncu`` process a batch of launches, and its pages as parts of records.

The worker opens the profiler's range around each launch (``--profile-from-start off``), so that nothing else
is profiled; rows are matched to launches by order, and kernel name, grid and block must agree.  Caches are
flushed before every pass (``--cache-control all``) and clocks are left alone (``--clock-control none``).

What the profiler refuses is said, never guessed: without permission for the counters, or without ``ncu``, the
records have no profile and say why.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusim.cubin.names import demangle, spellings
from gpusim.errors import GpusimError, InputError
from gpusim.validation.metric_names import EXACT, LISTS, SOURCE_COLUMNS, is_kept
from gpusim.validation.ncu_export import LaunchRow, SourcePage, read_raw, read_source
from gpusim.validation.plan import Planned
from gpusim.validation.process import child, environment, python, tail
from gpusim.validation.worker import DEFAULT_BACKEND, launched_file

#: A launch that the profiler has not finished after this many seconds is given up.
LAUNCH_LIMIT_S = 240.0
#: Pages of a report are printed within this many seconds.
EXPORT_LIMIT_S = 300.0
#: Attempts to leave out metrics that ncu refuses by name.
METRIC_ATTEMPTS = 30

PERMISSION = (
    "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): run as root, or let the administrator "
    "load the driver with NVreg_RestrictProfilingToAdminUsers=0 (docs/validation.md)"
)
NO_NCU = (
    "ncu is not on this machine: install Nsight Compute (it comes with the CUDA toolkit), or set GPUSIM_NCU "
    "to its path"
)
_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda-*/bin/ncu")

Parts = dict[str, Any]


class Unavailable(GpusimError):
    """Nothing can be profiled on this machine; the message says why."""


@dataclass(slots=True)
class Batch:
    """What a batch gave: parts of records by id, and the ids that were not reached."""

    results: dict[str, Parts] = field(default_factory=dict)
    left: list[Planned] = field(default_factory=list)


def find_ncu() -> str | None:
    """``GPUSIM_NCU``, then PATH, then the usual folders (the newest)."""
    if configured := os.environ.get("GPUSIM_NCU"):
        return shutil.which(configured)
    if found := shutil.which("ncu"):
        return found
    places = [str(path) for glob in _PLACES for path in sorted(Path("/").glob(glob[1:]), reverse=True)]
    return next((place for place in places if os.access(place, os.X_OK)), None)


class Profiler:
    """``ncu`` on this machine.  ``say`` gets remarks: metrics it does not know, launches it lost."""

    def __init__(
        self, ncu: str, work: Path, say: Callable[[str], None], backend: str = DEFAULT_BACKEND
    ) -> None:
        self.ncu, self.work, self.say, self.backend = ncu, work, say, backend
        self.folder = work / "ncu"
        self.folder.mkdir(parents=True, exist_ok=True)
        text = self._output("--version")
        match = re.search(r"Version (\d+(?:\.\d+)+)", text)
        if match is None:
            raise Unavailable(f"ncu does not run: {text.strip()[:200] or 'it prints no version'}", where=ncu)
        self.version = ".".join(match[1].split(".")[:3])
        self.dropped: set[str] = self._unknown()
        if self.dropped:
            say(f"ncu {self.version} does not know on this GPU: {', '.join(sorted(self.dropped))}")

    def _output(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [self.ncu, *arguments], capture_output=True, text=True, errors="replace", check=False,
                timeout=EXPORT_LIMIT_S, stdin=subprocess.DEVNULL, env=environment(),
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"ncu does not run: {error}", where=self.ncu) from error
        return done.stdout + done.stderr

    def _unknown(self) -> set[str]:
        """Hardware counters of the lists that ``--query-metrics`` does not name; none if it says nothing.

        Those counted by patching the code may not be listed there: ncu itself refuses what it does not know.
        """
        known = set(re.findall(r"^\s*([a-z0-9]+__\w+)", self._output("--query-metrics"), re.MULTILINE))
        names = {name for names in LISTS.values() for name in names}
        counters = {name for name in names - set(EXACT) if "." in name and "sass" not in name}
        return {name for name in counters if name.partition(".")[0] not in known} if known else set()

    def metrics(self, list_name: str) -> list[str]:
        """The names of a list without those that are not known here."""
        return [name for name in LISTS[list_name] if name not in self.dropped]

    def options(self, metrics: str) -> list[str]:
        """What ncu is told, but for the files."""
        return [
            "--profile-from-start", "off", "--clock-control", "none", "--cache-control", "all",
            "--metrics", metrics,
        ]  # fmt: skip

    def shown(self, list_name: str) -> str:
        """The command as records tell it; METRICS is the list of that name in ``metric_names``."""
        return f"ncu {' '.join(self.options('METRICS'))} python -m gpusim.validation.worker profile"

    def profile(self, rows: Sequence[Planned], list_name: str, progress: Callable[[str, int], None]) -> Batch:
        """One ncu process over the launches, in order.  ``progress`` gets the id and how many were begun."""
        ids = self.folder / "batch.ids"
        ids.write_text("".join(f"{row.id}\n" for row in rows), encoding="utf-8")
        launched, report, log = launched_file(ids), self.folder / "batch.ncu-rep", self.folder / "ncu.log"
        worker = python("gpusim.validation.worker", "profile", "--work", str(self.work), "--ids", str(ids),
                        "--backend", self.backend)  # fmt: skip
        for _ in range(METRIC_ATTEMPTS):
            launched.unlink(missing_ok=True)
            report.unlink(missing_ok=True)
            options = self.options(",".join(self.metrics(list_name)))
            command = [self.ncu, *options, "--force-overwrite", "--export", str(report), *worker]
            why = self._watch(command, log, launched, progress)
            refused = self._refused(log)
            if not refused:
                break
            self.say(f"ncu refuses {', '.join(sorted(refused))}; going on without")
            self.dropped |= refused
        try:
            return self._batch(rows, list_name, launched, report, log, why)
        finally:
            report.unlink(missing_ok=True)

    def _watch(
        self, command: list[str], log: Path, launched: Path, progress: Callable[[str, int], None]
    ) -> str | None:
        """Run ncu to its end; why it was ended, if it was."""
        begun, since = 0, time.monotonic()
        with child(command, log) as process:
            while True:
                try:
                    process.wait(0.2)
                    return None if process.returncode == 0 else f"exit code {process.returncode}"
                except subprocess.TimeoutExpired:
                    found = _launched(launched)[0]
                if len(found) > begun:
                    begun, since = len(found), time.monotonic()
                    progress(found[-1], begun)
                elif time.monotonic() - since > LAUNCH_LIMIT_S:
                    return f"nothing for {LAUNCH_LIMIT_S:.0f} s"

    def _refused(self, log: Path) -> set[str]:
        """Metric names in ncu's complaints about metrics, which may go on for several lines."""
        words: set[str] = set()
        complaining = False
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("=="):
                complaining = line.startswith("==ERROR==") and "etric" in line
            if complaining:
                words.update(re.findall(r"\w+__[\w.]*\w", line))
        return words & {name for names in LISTS.values() for name in names} - self.dropped

    def _batch(
        self,
        rows: Sequence[Planned],
        list_name: str,
        launched: Path,
        report: Path,
        log: Path,
        why: str | None,
    ) -> Batch:
        if "ERR_NVGPUCTRPERM" in log.read_text(encoding="utf-8", errors="replace"):
            raise Unavailable(PERMISSION)
        begun, error = _launched(launched)
        batch = Batch(left=[row for row in rows if row.id not in set(begun)])
        if not begun:
            raise Unavailable(f"ncu profiled nothing ({why or 'no launch was begun'}): {tail(log)}")
        seen = [row for row in rows if row.id in set(begun)]
        complete = not batch.left and error is None and why is not None and why.startswith("exit")
        failed = f"{error or why}: {tail(log, 200)}" if (error or why) and not complete else None
        try:
            batch.results.update(self._read(report, seen, list_name, failed))
        except GpusimError as problem:
            text = " ".join(problem.message().split())
            batch.results.update({row.id: {"error": f"{failed}; {text}" if failed else text} for row in seen})
        return batch

    def _read(
        self, report: Path, rows: list[Planned], list_name: str, failed: str | None
    ) -> dict[str, Parts]:
        """The results of the launches that were begun; ``failed``: why the last one may be missing."""
        if not report.exists():
            raise InputError("ncu wrote no report", where=str(report))
        raw, source, problem = self._export(report)
        if rows[0].kind == "reference":
            return {rows[0].id: self._reference(raw, list_name)}
        results: dict[str, Parts] = {}
        if (
            failed is not None
        ):  # the last launch that was begun went wrong; the profiler may have its row or not
            whole = min(len(raw), len(rows) - 1)
            results = {row.id: {"error": failed} for row in rows[whole:]}
            rows, raw = rows[:whole], raw[:whole]
        check_order(rows, raw)
        pages = align(raw, source)
        for row, launch, page in zip(rows, raw, pages, strict=True):
            parts: Parts = {"profile": self._part(launch, list_name)}
            if page is not None:
                parts["instructions"] = instruction_columns(page)
            else:
                parts["absent"] = {"instructions": problem or "the profiler's source page has no such kernel"}
            results[row.id] = parts
        return results

    def _part(self, launch: LaunchRow, list_name: str) -> Parts:
        return {
            "tool": f"Nsight Compute {self.version}",
            "command": self.shown(list_name),
            "metric_list": list_name,
            "cache_control": "all",
            "clock_control": "none",
            "metrics": {
                name: {"value": value.number, "unit": value.unit}
                for name, value in sorted(launch.metrics.items())
                if is_kept(name)
            },
        }

    def _reference(self, raw: list[LaunchRow], list_name: str) -> Parts:
        """The library's main kernel: of those it launched, the one that took longest."""

        def duration(launch: LaunchRow) -> float:
            value = launch.metrics.get("gpu__time_duration.sum")
            return float(value.number) if value is not None else 0.0

        main = max(raw, key=duration)
        return {
            "profile": self._part(main, list_name),
            "entry": main.name,
            "grid": list(main.grid) if main.grid else None,
            "block": list(main.block) if main.block else None,
            "kernels": [launch.name for launch in raw],
            "absent": {"instructions": "the library's own kernel: its instructions are not recorded"},
        }

    def _export(self, report: Path) -> tuple[list[LaunchRow], list[SourcePage], str | None]:
        """Raw and source page of a report, printed side by side; why the source page is empty, if it is."""

        def files(page: str) -> tuple[Path, Path]:
            return self.folder / f"{page}.csv", self.folder / f"{page}.log"

        running = []
        for page in ("raw", "source"):
            command = [self.ncu, "--import", str(report), "--page", page, "--csv", "--print-units", "base"]
            with files(page)[0].open("wb") as out, files(page)[1].open("wb") as log:
                running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                                                env=environment()))  # fmt: skip
        try:
            for process in running:
                process.wait(EXPORT_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise InputError(f"ncu did not print the report within {EXPORT_LIMIT_S:.0f} s") from None
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        problem = None
        try:
            source = read_source(files("source")[0])
        except GpusimError as error:
            source, problem = [], " ".join(error.message().split())
            self.say(f"the source page was not read: {problem}")
        return read_raw(files("raw")[0]), source, problem


def _launched(path: Path) -> tuple[list[str], str | None]:
    """The ids that a worker noted, and what went wrong with the last."""
    try:
        noted = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return [], None
    errors = [line[1:] for line in noted if line.startswith("!")]
    return [line for line in noted if not line.startswith("!")], errors[-1] if errors else None


def check_order(rows: Sequence[Planned], raw: Sequence[LaunchRow]) -> None:
    """Refuse a page whose launches are not those that were made, in their order."""
    for row, launch in zip(rows, raw, strict=False):
        want, got = _bare(demangle(row.entry)), _bare(launch.name)
        if want != got:
            raise InputError(f"{row.id} launched {want}, but the profiler's row {launch.id} is {got}")
        for shape, planned, seen in (("grid", row.grid, launch.grid), ("block", row.block, launch.block)):
            if seen is not None and planned is not None and tuple(planned) != tuple(seen):
                raise InputError(
                    f"{row.id} ({want}) has {shape} {tuple(planned)}, but the profiler's row {launch.id} "
                    f"({got}) has {tuple(seen)}"
                )
    if len(rows) != len(raw):
        raise InputError(f"{len(rows)} launches were made and the profiler has {len(raw)}")


def align(raw: Sequence[LaunchRow], source: Sequence[SourcePage]) -> list[SourcePage | None]:
    """The source page of each launch, in order; None where there is none.

    A page belongs to a launch of its kernel with the same totals of all columns.  Pages in between that fit
    no launch are skipped.  Where each stands there twice (ncu 2025.3 does that), every second one counts.
    """
    pairs = list(zip(source[::2], source[1::2], strict=False))
    if len(source) == 2 * len(raw) and all(a.name == b.name and a.rows == b.rows for a, b in pairs):
        source = source[::2]
    found: list[SourcePage | None] = []
    position = 0
    for launch in raw:
        totals = {c: launch.metrics[c].number for c in SOURCE_COLUMNS if c in launch.metrics}
        name = _bare(launch.name)
        for index in range(position, len(source)):
            page = source[index]
            if page.rows and _bare(page.name) == name and _fits(page, totals):
                found.append(page)
                position = index + 1
                break
        else:
            found.append(None)
    return found


def _fits(page: SourcePage, totals: Mapping[str, int | float]) -> bool:
    """Whether every column that is complete on the page adds up to the launch's total."""
    for name, total in totals.items():
        values = [row["columns"].get(name) for row in page.rows]
        if None not in values and sum(v for v in values if v is not None) != total:
            return False
    return True


def _bare(name: str) -> str:
    return spellings(name)[2].removeprefix("void")


def instruction_columns(page: SourcePage) -> Mapping[str, list[Any]]:
    """The page as columns of equal length; a column that lacks a value anywhere is left out."""
    columns: dict[str, list[Any]] = {
        "pc": [row["pc"] for row in page.rows],
        "sass": [row["sass"] for row in page.rows],
    }
    for name in SOURCE_COLUMNS:
        values = [row["columns"].get(name) for row in page.rows]
        if all(value is not None for value in values):
            columns[name] = values
    return columns

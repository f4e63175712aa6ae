"""Reads ``.ncu-rep`` files through NVIDIA's own module ``ncu_report``, or through ``ncu`` itself.

``pip install 'gpusim[ncu]'`` installs the module; Nsight Compute also ships it in ``extras/python``.  Where
neither is there, ``ncu`` on PATH exports the pages; else the message names the command to run.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpusim.errors import InputError, ToolMissing
from gpusim.validation.ncu_export import Export, LaunchRow, SourcePage, SourceRow, read_text
from gpusim.validation.ncu_numbers import Value, base_unit

#: Per-instruction metrics of a source page.
_PER_INSTRUCTION = (
    "inst_executed", "thread_inst_executed", "memory_l1_tag_requests_global", "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal", "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
)  # fmt: skip

_EXPORT_SECONDS = 600


def read_report(path: Path) -> Export:
    """Launches and instructions of an ``.ncu-rep``."""
    if not path.is_file():
        raise InputError("no such file", where=str(path))
    module = _module()
    if module is not None:
        return _from_module(module, path)
    ncu = shutil.which("ncu")
    if ncu is not None:
        return _from_tool(ncu, path)
    raise ToolMissing(
        "reading an .ncu-rep needs NVIDIA's module ncu_report, which is not installed",
        where=str(path),
        hint="pip install ncu-report, or export a page where ncu is: "
        f"LC_ALL=C ncu -i {path.name} --page raw --csv --print-units base > raw.csv",
    )


def _module() -> Any | None:
    """``ncu_report`` as installed, or from the folder of the ``ncu`` on PATH."""
    try:
        return importlib.import_module("ncu_report")
    except ImportError:
        pass
    ncu = shutil.which("ncu")
    if ncu is None:
        return None
    for folder in Path(os.path.realpath(ncu)).parents[:4]:
        extras = folder / "extras" / "python"
        if (extras / "ncu_report.py").is_file():
            sys.path.append(str(extras))
            try:
                return importlib.import_module("ncu_report")
            except ImportError:  # built for another Python or C library
                return None
            finally:
                sys.path.remove(str(extras))
    return None


def _from_module(module: Any, path: Path) -> Export:
    try:
        context = module.load_report(str(path))
    except Exception as error:  # the module raises its own classes, and RuntimeError
        raise InputError(f"NVIDIA's ncu_report cannot read it: {error}", where=str(path)) from error
    if context is None or not context.num_ranges():
        raise InputError("NVIDIA's ncu_report finds no result in it", where=str(path),
                         hint="is it a complete .ncu-rep of Nsight Compute?")  # fmt: skip
    launches: list[LaunchRow] = []
    sources: list[SourcePage] = []
    for r in range(context.num_ranges()):
        results = context.range_by_idx(r)
        for k in range(results.num_actions()):
            action = results.action_by_idx(k)
            launches.append(_launch(module, action, len(launches)))
            page = _source(module, action)
            if page is not None:
                sources.append(page)
    if not launches:
        raise InputError("holds no launch", where=str(path))
    return Export("ncu-rep", launches, sources)


def _launch(module: Any, action: Any, index: int) -> LaunchRow:
    metrics = {}
    for name in action.metric_names():
        metric = action.metric_by_name(name)
        number = metric.value() if metric is not None and metric.has_value() else None
        if isinstance(number, (int, float)) and number == number:  # not NaN
            unit = metric.unit() or ""
            base, factor = base_unit(unit)
            metrics[name] = Value(number if factor == 1 else number * factor, base, 0.0, str(number), unit)

    def shape(what: str) -> tuple[int, int, int] | None:
        found = [metrics.get(f"launch__{what}_dim_{axis}") for axis in "xyz"]
        if any(v is None for v in found):
            return None
        x, y, z = (int(v.number) for v in found if v is not None)
        return x, y, z

    major, minor = (
        metrics.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")
    )
    capability = f"{major.number}.{minor.number}" if major and minor else ""
    return LaunchRow(index, _name(module, action), shape("grid"), shape("block"), metrics, capability)


def _name(module: Any, action: Any) -> str:
    """The mangled name, which names one kernel only; the printed one where there is none."""
    return str(action.name(module.IAction.NameBase_MANGLED) or action.name())


def _source(module: Any, action: Any) -> SourcePage | None:
    """Counters by instruction: the metrics' instances, whose correlation ids are addresses."""
    rows: dict[int, SourceRow] = {}
    for name in _PER_INSTRUCTION:
        metric = action.metric_by_name(name)
        if metric is None or not metric.has_correlation_ids():
            continue
        places = metric.correlation_ids()
        for i in range(metric.num_instances()):
            place = places.as_uint64(i)
            row = rows.setdefault(place, SourceRow(pc=place, sass="", columns={}))
            row["columns"][name] = metric.as_uint64(i)
    if not rows:
        return None
    start = min(rows) & ~0x7F  # functions are 128-byte aligned
    for place, row in rows.items():
        row["pc"], row["sass"] = place - start, " ".join(action.sass_by_pc(place).split())
    return SourcePage(_name(module, action), [rows[place] for place in sorted(rows)])


def _from_tool(ncu: str, path: Path) -> Export:
    """The raw and source pages as ``ncu`` exports them."""
    raw = read_text(_export(ncu, path, "raw", "--print-units", "base"), str(path))
    try:
        sources = read_text(_export(ncu, path, "source", "--print-source", "sass"), str(path)).sources
    except InputError:  # a report without source counters
        sources = ()
    return Export("ncu-rep", raw.launches, sources)


def _export(ncu: str, path: Path, page: str, *options: str) -> str:
    command = [ncu, "-i", str(path), "--page", page, "--csv", "--print-kernel-base", "mangled", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_EXPORT_SECONDS, check=False,
                              env={**os.environ, "LC_ALL": "C"})  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"ncu could not export it: {error}", where=str(path)) from error
    if done.returncode:
        raise InputError(f"ncu could not export it: {(done.stderr or done.stdout).strip()[-400:]}",
                         where=str(path))  # fmt: skip
    return done.stdout

"""The process that talks to the GPU: ``python -m gpusim.validation.worker probe|run|profile ...``.

It is a process of its own because a kernel that goes wrong can take the CUDA context with it or never end;
``device_run`` then starts another one for what is left.  A file names the launches to do, one id a line.

``probe`` prints a JSON object about the machine.  ``run`` measures each launch, keeps its result in the work
folder and prints ``begin ID`` and ``done ID``.  ``profile`` launches each once inside the profiler's range
and notes its id, before the launch, in ``IDS.launched``: ncu's rows come in that order.

Exit codes: 0; 2 with a message (no GPU, bad folder); 75 the context is lost, start another process.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpusim.errors import GpusimError
from gpusim.validation.backend import Backend
from gpusim.validation.measure import Inputs, Oracle, helpers_path, measure, profile
from gpusim.validation.plan import Plan, Planned, load_plan
from gpusim.validation.state import State

CONTEXT_LOST = 75
DEFAULT_BACKEND = "gpusim.validation.backend:CuPyBackend"


def run(
    plan: Plan, rows: Sequence[Planned], backend: Backend, command: str, say: Callable[[str], None]
) -> int:
    """Measure each launch; one that fails is noted and does not stop the others."""
    state, inputs, oracle = State(plan.work), Inputs(), Oracle()
    machine = {name: value for name, value in backend.machine().items() if value is not None}
    for row in rows:
        say(f"begin {row.id}")
        try:
            result = measure(plan, row, backend, inputs, oracle)
        except Exception as error:  # whatever went wrong belongs to this launch
            state.put("run", row, {"error": _text(error)})
            say(f"failed {row.id}")
            if not _alive(backend):
                return CONTEXT_LOST
        else:
            state.put("run", row, {**result, "machine": machine, "command": command})
            say(f"done {row.id}")
        if row.large:
            backend.release()
    return 0


def profile_all(plan: Plan, rows: Sequence[Planned], backend: Backend, launched: Path) -> int:
    """Launch each once for the profiler that watches this process."""
    inputs = Inputs()
    with launched.open("w", encoding="utf-8") as note:
        for row in rows:
            backend.release()  # the profiler saves all memory in use before a launch
            note.write(f"{row.id}\n")
            note.flush()
            try:
                profile(plan, row, backend, inputs)
            except Exception as error:
                print(f"{row.id}: {_text(error)}", file=sys.stderr, flush=True)
                note.write(f"!{_text(error)}\n")
                return CONTEXT_LOST  # whether the profiler saw it is unknown: the next process goes on
    return 0


def _text(error: Exception) -> str:
    text = error.message() if isinstance(error, GpusimError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def _alive(backend: Backend) -> bool:
    try:
        backend.synchronize()
    except Exception:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpusim.validation.worker")
    parser.add_argument("step", choices=("probe", "run", "profile"))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--ids", type=Path)
    parser.add_argument("--command", default="gpusim validate --device-run")
    parser.add_argument("--backend", default=DEFAULT_BACKEND, help="module:class of a Backend")
    options = parser.parse_args(arguments)
    module, _, name = options.backend.partition(":")
    factory: Callable[..., Any] = getattr(importlib.import_module(module), name)
    try:
        if options.step == "probe":
            print(json.dumps(factory().machine()))
            return 0
        plan = load_plan(options.work)
        rows = [plan.rows[id] for id in options.ids.read_text(encoding="utf-8").split()]
        backend = factory(helpers_path(plan))
        if options.step == "profile":
            return profile_all(plan, rows, backend, launched_file(options.ids))
        return run(plan, rows, backend, options.command, lambda text: print(text, flush=True))
    except GpusimError as error:
        print(error.message(), file=sys.stderr)
        return error.exit_code


def launched_file(ids: Path) -> Path:
    """Where ``profile`` notes what it launched."""
    return ids.with_suffix(".launched")


if __name__ == "__main__":
    sys.exit(main())

"""Child processes that never outlive what started them, and whose silence is noticed."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import gpusim

#: Time a child has to end after it was asked to, seconds.
GRACE_S = 10.0


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of gpusim with this Python."""
    return [sys.executable, "-m", module, *arguments]


def environment() -> dict[str, str]:
    """This process's environment, with this gpusim first on the path and numbers printed plainly."""
    root = str(Path(gpusim.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "LC_ALL": "C"}


@contextlib.contextmanager
def child(
    command: Sequence[str], log: Path, *, stdout: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A running child that has ended when the block is left, whatever happens; the log gets its output."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout or stream, stderr=stream, env=environment(),
            process_group=0 if os.name == "posix" else None,
        )  # fmt: skip
        try:
            yield process
        finally:
            end(process)


def end(process: subprocess.Popen[Any]) -> None:
    """Ask the child and its own children to end, then make them."""
    for name in ("SIGTERM", "SIGKILL"):
        if process.poll() is not None:
            return
        with contextlib.suppress(OSError):
            if os.name == "posix":
                os.killpg(process.pid, getattr(signal, name))
            else:
                process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)


def lines(stream: IO[bytes], silence_s: float) -> Iterator[str]:
    """The lines of a pipe until it closes; TimeoutError when none comes for ``silence_s`` seconds."""
    found: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in stream:
            found.put(line.decode("utf-8", "replace").rstrip("\n"))
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = found.get(timeout=silence_s)
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            return
        yield line


def tail(log: Path, limit: int = 400) -> str:
    """The end of what a child printed, on one line."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return " ".join(text.split())[-limit:]

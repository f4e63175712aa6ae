"""Where text goes: tables to stdout, errors and progress to stderr.

Machine output (``--json -``) never passes through rich: :func:`write_stdout` writes bytes as they are.
"""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import NoReturn

from rich.console import Console, RenderableType
from rich.text import Text

from gpusim.output import output_error

EXIT_BROKEN_PIPE = 141  # what a shell reports for a process ended by SIGPIPE

#: Columns when stdout is no terminal and COLUMNS is unset: a file or pager can scroll sideways, and a
#: table that was squeezed into 80 columns cannot be read there.
FILE_WIDTH = 150


class _Console(Console):
    """A rich console that ends quietly, and with the shell's own code, when its reader goes away."""

    def on_broken_pipe(self) -> NoReturn:
        _leave_broken_pipe()


def stdout_console() -> Console:
    """The console that tables are printed on."""
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else FILE_WIDTH
    return _Console(width=wide, highlight=False)


def show(*items: RenderableType) -> None:
    """Print tables or text on stdout.  Strings are plain text: brackets are not markup."""
    console = stdout_console()
    try:
        for item in items:
            console.print(Text(item) if isinstance(item, str) else item)
    except OSError as error:
        raise output_error("standard output", error) from error


def write_stdout(text: str) -> None:
    """Write machine output on stdout at once, byte for byte."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_broken_pipe()
    except OSError as error:
        _discard_stdout()
        raise output_error("standard output", error) from error


def flush_stdout() -> None:
    """Flush what is left, so that a full disk or a closed pipe is noticed here and not at exit."""
    write_stdout("")


def print_error(message: str) -> None:
    """One message on stderr, never wrapped, so that paths and compiler output stay whole."""
    text = Text("gpusim: ", style="bold")
    text.append("error: ", style="bold red").append(message, style="not bold")
    try:
        Console(stderr=True, highlight=False).print(text, soft_wrap=True)
    except OSError:  # stderr is closed or full: there is nowhere left to say it
        return


def note(message: str) -> None:
    """A remark on stderr that is no error."""
    Console(stderr=True, highlight=False).print(Text(f"gpusim: {message}"), soft_wrap=True)


class ProgressBar:
    """Progress on stderr for anything that takes over two seconds.

    Call it with ``(done, total, what)``.  A terminal gets a bar that vanishes at the end; a log file
    gets a plain line every ten seconds.
    """

    QUIET_SECONDS = 2.0
    LOG_SECONDS = 10.0

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,  # stdout may be carrying JSON
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=None)
        self._begin = time.monotonic()
        self._next_line = self._begin + self.LOG_SECONDS
        self._prefix = ""

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()

    def hide(self) -> None:
        """Take the bar away before something else is printed; the next call brings it back."""
        if self._progress.live.is_started:
            self._progress.stop()

    def stage(self, prefix: str) -> None:
        """Name the piece of work that the next calls are about."""
        self._prefix = f"{prefix}: " if prefix else ""

    def __call__(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if now - self._begin < self.QUIET_SECONDS:
            return
        text = f"{self._prefix}{what}"
        if not self._console.is_terminal:
            if now >= self._next_line:
                self._next_line = now + self.LOG_SECONDS
                note(f"{text} {done}/{total}")
            return
        if not self._progress.live.is_started:
            self._progress.start()
        self._progress.update(self._task, completed=done, total=total, description=text)


def _leave_broken_pipe() -> NoReturn:
    _discard_stdout()
    raise SystemExit(EXIT_BROKEN_PIPE)


def _discard_stdout() -> None:
    """Send what Python may still flush at exit to nowhere."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):  # stdout is no real file (a test's buffer): nothing is flushed at exit
        return

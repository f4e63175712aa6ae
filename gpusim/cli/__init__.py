"""The ``gpusim`` command: what a person types, and what the process says and returns.

Exit codes: 0 fine; 1 a check failed; 2 bad input or unsupported, with one message on stderr; 3 gpusim
itself failed; 130 interrupted; 141 the reader of the output went away.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gpusim.errors import GpusimError

EXIT_BAD_INPUT = 2
EXIT_FAILED = 3
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (``sys.argv`` when none is given) and return the exit code."""
    from gpusim.cli.app import app
    from gpusim.cli.console import flush_stdout, print_error

    try:
        try:
            app(args=None if arguments is None else list(arguments), prog_name="gpusim")
        except SystemExit as stop:  # typer ends every command with one
            flush_stdout()
            return stop.code if isinstance(stop.code, int) else EXIT_FAILED
    except SystemExit as stop:  # flush_stdout found the pipe closed
        return stop.code if isinstance(stop.code, int) else EXIT_FAILED
    except GpusimError as error:
        print_error(error.message())
        return error.exit_code
    except KeyboardInterrupt:
        print_error("interrupted; no file was written")
        return EXIT_INTERRUPTED
    except Exception as error:
        return _report_own_failure(error)
    return 0


def _report_own_failure(error: Exception) -> int:
    """Say that the fault is gpusim's own, and how to report it."""
    from gpusim.cli.console import print_error

    if os.environ.get("GPUSIM_DEBUG"):
        import traceback

        traceback.print_exception(error)
    tail = error.__traceback__
    while tail is not None and tail.tb_next is not None:
        tail = tail.tb_next
    place = f" at {tail.tb_frame.f_code.co_filename}:{tail.tb_lineno}" if tail is not None else ""
    print_error(
        f"gpusim itself failed: {type(error).__name__}: {error}{place}\n"
        "  This is a fault of gpusim, not of your input. Please report it with the command line, the output\n"
        "  of `gpusim doctor`, and the traceback that the same command prints with GPUSIM_DEBUG=1 set."
    )
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())

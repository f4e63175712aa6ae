"""Errors as sentences: what is wrong, where, and what to do.

Every error a user can cause derives from :class:`GpusimError`; the command line prints it and
exits with ``exit_code`` (2: bad input or unsupported).  Anything else that escapes is a fault of
the tool itself (exit code 3).
"""

from __future__ import annotations


class GpusimError(Exception):
    """Base of all errors a user can cause.

    ``what`` is a sentence; ``where`` a place (file:line, kernel, pc, lane); ``hint`` the next step.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what, self.where, self.hint = what, where, hint
        super().__init__(self.message())

    def message(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class InputError(GpusimError):
    """A file, argument, launch shape or option that cannot be used."""


class ToolMissing(GpusimError):
    """A tool or library (NVRTC, nvdisasm, ...) is not on this machine."""


class CompileError(GpusimError):
    """The CUDA compiler refused the source; carries its message with line numbers."""


class CubinError(GpusimError):
    """The binary is truncated, malformed or for an unsupported architecture."""


class UnsupportedError(GpusimError):
    """An opcode, modifier or operand form the table does not hold (named with pc and SASS text)."""


class LaunchError(GpusimError):
    """A launch the hardware would refuse (too many threads, too much shared memory, ...)."""


class ExecutionError(GpusimError):
    """The kernel did something wrong while it ran (base of the next ones)."""


class MemoryFault(ExecutionError):
    """Out-of-bounds or misaligned access."""


class BudgetExceeded(ExecutionError):
    """The instruction budget ended before the launch did (an endless loop, most likely)."""


class Deadlock(ExecutionError):
    """Warps wait for one another and none can go on (a barrier some warps never reach)."""

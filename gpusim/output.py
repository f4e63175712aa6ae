"""Files that appear whole or not at all.

:func:`atomic_write` writes beside the target under a temporary name, flushes to the disk and renames;
:func:`check_writable` asks beforehand, so that a typing error in a path does not cost a long
simulation.  Devices and pipes (``/dev/stdout``, ``/dev/full``) cannot be renamed over and are written
directly.  Leaves out: locking between two processes that write the same file (the last one wins).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from gpusim.errors import InputError

_HINTS = {
    errno.ENOSPC: "free some space or choose a path on another disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the system's file size limit was reached",
    errno.EACCES: "choose a folder you may write to",
    errno.EPERM: "choose a folder you may write to",
    errno.EROFS: "the file system is read-only; choose another folder",
}


def output_error(path: str | Path, error: OSError) -> InputError:
    """The message for a file that could not be written."""
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return InputError(f"cannot write: {reason}", where=str(path), hint=_HINTS.get(error.errno or 0))


def check_writable(path: str | Path) -> None:
    """Refuse a target that :func:`atomic_write` could not write, without touching it."""
    target = Path(path)
    try:
        if target.is_dir():
            raise InputError("is a folder, a file name is needed", where=str(path))
        if _is_special(target):
            return
        folder = Path(os.path.realpath(target)).parent
        if not folder.is_dir():
            raise InputError(
                f"folder {str(folder)!r} does not exist", where=str(path), hint="create it first"
            )
        if not os.access(folder, os.W_OK):
            raise output_error(path, PermissionError(errno.EACCES, ""))
    except OSError as error:
        raise output_error(path, error) from error


def atomic_write(path: str | Path, content: str | bytes) -> None:
    """Write ``content`` (text as UTF-8) so that ``path`` holds all of it or what it held before."""
    data = content.encode() if isinstance(content, str) else content
    check_writable(path)
    if _is_special(Path(path)):
        try:
            with open(path, "ab", buffering=0) as stream:  # /dev/stdout may be a file: do not truncate it
                _write_all(stream.fileno(), data)
        except OSError as error:
            raise output_error(path, error) from error
        return
    target = Path(os.path.realpath(path))  # a link stays a link: what it points to is replaced
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            _write_all(descriptor, data)
            if target.exists():
                os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
    except BaseException as error:  # KeyboardInterrupt too: nothing partial stays
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise output_error(path, error) from error
        raise


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _is_special(path: Path) -> bool:
    """A device, pipe or socket, or a descriptor's name such as ``/dev/stdout``."""
    if os.path.abspath(path).startswith(("/dev/", "/proc/")):
        return path.exists()
    return path.exists() and not path.is_file()

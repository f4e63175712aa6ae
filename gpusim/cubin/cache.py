"""A content-addressed cache on disk: what a compiler or disassembler answered to exact inputs.

A key is the SHA-256 of everything the answer depends on, so an entry never goes stale; it can only
be damaged, and then it is computed again.  Entries are ``magic + SHA-256 of the payload + payload``,
written to a temporary name and renamed, so that readers and parallel writers never see half an entry.
Nothing here fails: a directory that cannot be written means no cache.

Place: ``GPUSIM_CACHE_DIR``, else the platform's cache directory; ``GPUSIM_CACHE_DIR=`` (empty)
switches the cache off.  Deleting the directory is always safe.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

_MAGIC = b"gpusim-cache-1\n"
_DIGEST_BYTES = 32


def directory() -> Path | None:
    """Where entries live, or None when the cache is switched off or has no home."""
    configured = os.environ.get("GPUSIM_CACHE_DIR")
    if configured is not None:
        return Path(configured).expanduser() if configured else None
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "gpusim"


def key(*parts: str | bytes) -> str:
    """SHA-256 over the parts, each preceded by its length so that no two lists collide."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _place(kind: str, name: str) -> Path | None:
    root = directory()
    return root / kind / name[:2] / name[2:] if root is not None else None


def get(kind: str, name: str) -> bytes | None:
    """The stored answer, or None if there is none or it is damaged."""
    path = _place(kind, name)
    if path is None:
        return None
    try:
        entry = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST_BYTES
    payload = entry[start:]
    if entry[: len(_MAGIC)] != _MAGIC or entry[len(_MAGIC) : start] != hashlib.sha256(payload).digest():
        return None
    return payload


def put(kind: str, name: str, payload: bytes) -> None:
    """Store an answer if the directory can be written; otherwise do nothing."""
    path = _place(kind, name)
    if path is None:
        return
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            try:
                os.unlink(temporary)
            except OSError:
                pass

"""numba's ``njit`` as gpusim uses it: without the GIL, and cached on disk by content.

numba notices a change of the file a function stands in, not of the files whose functions and constants it
uses.  So the cache directory carries a hash of every source that compiled code is made of: a new version of
any of them starts a new cache, and old machine code cannot run against new tables.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numba
import numba.core.config

from gpusim.cubin.cache import directory

#: numba's settings are attributes made at run time.
_config: Any = numba.core.config

#: Where compiled functions and the constants they use stand.
_SOURCES = ("compiled.py", "events.py", "functional/*.py", "memory/*.py")


@cache
def _cache_directory() -> str | None:
    """A directory for this content of the sources, or None if nothing can be written."""
    root = directory()
    if root is None:
        return None
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(path for name in _SOURCES for path in Path(__file__).parent.glob(name)):
        digest.update(path.read_bytes())
    place = root / "numba" / digest.hexdigest()[:16]
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(place) if os.access(place, os.W_OK) else None


def compiled(
    function: Callable[..., Any] | None = None,
    *,
    inline: Literal["never", "always"] = "never",
    counted: bool = True,
) -> Any:
    """Decorator: ``@compiled`` or ``@compiled(inline="always")``.

    counted=False: arrays are not reference-counted, which costs an atomic operation a call and array; such a
    function makes no arrays and keeps none.
    """
    if function is None:
        return lambda f: compiled(f, inline=inline, counted=counted)
    place = _cache_directory()
    before = _config.CACHE_DIR
    if place is not None:
        _config.CACHE_DIR = place
    try:
        options: dict[str, Any] = {"cache": place is not None, "nogil": True, "inline": inline}
        if not counted:
            options["_nrt"] = False  # numba's own name for "without its runtime", which does the counting
        return numba.njit(**options)(function)
    finally:
        _config.CACHE_DIR = before

"""One form, launched: arguments, shapes, and the digest of what it left. Shared by both sides.

Needs only numpy: the GPU side imports it.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import numpy as np

from gpusim.validation.opcodes import inputs

OUT_WORDS = {"register": 12, "memory": 44}
REGION = 2048
CONSTANTS = (
    0x12345678, 0x9ABCDEF0, 0x3FF81234, 0x3FC54321, 0x3D01B0C5, 0x3F92BFE1, 0xDEADBEEF, 7,
    *(0x9E3779B9 * k & 0xFFFFFFFF for k in range(1, 17)),
)  # fmt: skip


def key(form: dict[str, Any]) -> str:
    """Name of a form: its instructions in hexadecimal, and the pattern of its addresses."""
    return "+".join(form["code"]) + (f"@{form['offsets']}" if form.get("offsets") else "")


def shape(form: dict[str, Any]) -> tuple[int, int, int]:
    """Grid, block (one-dimensional) and threads of a form."""
    if form["uniform"]:
        return inputs.UNIFORM_THREADS, 1, inputs.UNIFORM_THREADS
    return inputs.THREADS // 32, 32, inputs.THREADS


@functools.lru_cache(maxsize=64)
def _inputs(kinds: tuple[str, str, str], seed: str, n: int) -> np.ndarray:
    out = inputs.make(kinds, seed, n)
    out.setflags(write=False)
    return out


def arrays(form: dict[str, Any]) -> list[np.ndarray]:
    """in, uin, out, scratch."""
    _, block, n = shape(form)
    kinds = tuple(form["kinds"])
    warps = n // block
    thread = _inputs(kinds, "thread", n)
    if form.get("offsets"):
        thread = thread.copy()
        thread[:, inputs.M_WORD] = inputs.offsets(form["offsets"], 1, n)
        thread[:, inputs.M2_WORD] = inputs.offsets(form["offsets"], 2, n)
    warp = _inputs(kinds, "warp", warps)
    out = np.zeros((n, OUT_WORDS[form["template"]]), np.uint32)
    words = warps * REGION // 4 if form["template"] == "memory" else 4
    scratch = (inputs.random_bits("scratch", words) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return [thread, warp, out, scratch]


def scalars(form: dict[str, Any]) -> list[np.uint32]:
    """The shift from thread to warp, then the constants."""
    return [np.uint32(0 if form["uniform"] else 5), *(np.uint32(c) for c in CONSTANTS)]


def digest(out: np.ndarray, scratch: np.ndarray, form: dict[str, Any]) -> str:
    """SHA-256 of what the launch left: the output records, and the scratch of memory forms."""
    h = hashlib.sha256(np.ascontiguousarray(out).tobytes())
    if form["template"] == "memory":
        h.update(np.ascontiguousarray(scratch).tobytes())
    return h.hexdigest()

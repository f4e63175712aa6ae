"""A GPU that knows one kernel, the catalog's E1 (vector add), for tests of the measurement.

``FAKE_GPU`` tells it what to do wrong, by the launch's n: ``raise=1000`` the launch fails, ``die=1000`` the
process ends, ``hang=1000`` it sleeps, ``wrong=1000`` the result is off; several are joined by ``;``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.errors import ToolMissing

#: What ``time`` answers for the runs of a launch, microseconds: the extremes are 2 and 100.
TIMES = (5.0, 100.0, 4.0, 6.0, 2.0)


def told(what: str) -> int | None:
    """The n that something goes wrong for."""
    for part in os.environ.get("FAKE_GPU", "").split(";"):
        name, _, n = part.partition("=")
        if name == what:
            return int(n)
    return None


class FakeGpu:
    """See ``gpusim.validation.backend.Backend``."""

    def __init__(self, helpers: Path | None = None) -> None:
        if os.environ.get("FAKE_GPU") == "none":
            raise ToolMissing("there is no GPU on this machine", hint="install one")
        assert helpers is None or helpers.is_file()
        self.broken = False
        self.flushes = 0

    def machine(self) -> dict[str, Any]:
        capability = os.environ.get("FAKE_CC", "9.0")
        return {"device": "Fake H200", "compute_capability": capability, "driver": "1.2", "cublas": "13.1.0"}

    def clocks(self) -> tuple[int | None, int | None]:
        return 1980, 3201

    def load(self, cubin: Path, entry: str, dynamic_shared: int) -> str:
        assert cubin.read_bytes()[:4] == b"\x7fELF"
        return entry

    def upload(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def clone(self, buffer: np.ndarray) -> np.ndarray:
        return buffer.copy()

    def copy(self, target: np.ndarray, source: np.ndarray) -> None:
        target[...] = source

    def same(self, a: np.ndarray, b: np.ndarray) -> bool:
        return a.tobytes() == b.tobytes()

    def download(self, buffer: np.ndarray) -> np.ndarray:
        return buffer.copy()

    def launch(self, function: str, grid: Any, block: Any, args: Sequence[Any], shared: int) -> None:
        assert function == "e1_vector_add", function
        a, b, out, n = args
        if n == told("die"):
            os._exit(9)
        if n == told("hang"):
            time.sleep(60)
        if n == told("raise"):
            self.broken = True
            raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")
        out[...] = a + b
        if n == told("wrong"):
            out[n // 2] += 1

    def matmul(self, a: np.ndarray, b: np.ndarray, out: np.ndarray, n: int) -> None:
        out[...] = (a.reshape(n, n) @ b.reshape(n, n)).reshape(-1)

    def flush(self) -> None:
        self.flushes += 1

    def time(self, launch: Callable[[], None], before: Callable[[], None], runs: int) -> list[float]:
        for _ in range(runs):
            before()
            launch()
        return [TIMES[k % len(TIMES)] for k in range(runs)]

    def profiled(self, launch: Callable[[], None]) -> None:
        launch()

    def synchronize(self) -> None:
        if self.broken:
            raise RuntimeError("the context is lost")

    def release(self) -> None:
        return

"""Every catalog kernel executed: its outputs against the row's numpy oracle, on two architectures.

Rows run at their tiny size and at their ragged size if they have one.  Where a row states the kernel's own
arithmetic in its own order (``exact``) the outputs equal it bit for bit.  Sources are compiled once a file.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from gpusim import kernels
from gpusim.kernels.spec import CatalogKernel, Size, check_outputs
from gpusim.program import Kernel, Module, compile
from gpusim.simulate import SimResult, run, simulate

simulation = importlib.import_module("gpusim.simulate")  # gpusim.simulate itself is the function

ROWS = sorted(kernels.all_kernels(), key=lambda row: (row.file, row.options))


@lru_cache(maxsize=4)
def _module(path: str, options: tuple[str, ...], arch: str) -> Module:
    row = next(row for row in ROWS if str(row.path) == path)
    return compile(row.path, arch=arch, options=options, include_dirs=(row.path.parent,))


def _kernel(row: CatalogKernel, arch: str) -> Kernel:
    return _module(str(row.path), row.options, arch)[row.entry]


def _simulate(row: CatalogKernel, size: Size, arch: str = "sm_90", **options: Any) -> SimResult:
    launch = row.launch(size)
    return simulate(
        _kernel(row, arch),
        launch.grid,
        launch.block,
        row.inputs(size),
        dynamic_shared=launch.dynamic_shared,
        **options,
    )


def _run(row: CatalogKernel, size: Size, arch: str = "sm_90", **options: Any) -> list[Any]:
    launch = row.launch(size)
    return run(
        _kernel(row, arch),
        launch.grid,
        launch.block,
        row.inputs(size),
        dynamic_shared=launch.dynamic_shared,
        **options,
    )


def _cases() -> Iterator[Any]:
    """By file and architecture, so that one module after the other is compiled."""
    for arch in ("sm_90", "sm_80"):
        for row in ROWS:
            for size in row.sizes:
                if size is row.tiny or size["name"] == "ragged":
                    yield pytest.param(row, size, arch, id=f"{row.id}-{size['name']}-{arch}")


@pytest.mark.parametrize(("row", "size", "arch"), list(_cases()))
def test_outputs_equal_the_oracle(row: CatalogKernel, size: Size, arch: str) -> None:
    outputs = dict(enumerate(_run(row, size, arch)))
    before = row.inputs(size)
    verdicts = check_outputs(row, size, before, outputs)
    assert verdicts
    assert all(v.ok for v in verdicts), [v.message for v in verdicts if not v.ok]
    if row.exact is None or size is not row.tiny:
        return
    for index, want in row.exact(size, before).items():
        want = np.asarray(want).reshape(-1).astype(outputs[index].dtype)
        different = np.flatnonzero(outputs[index].reshape(-1).view(np.uint8) != want.view(np.uint8))
        assert different.size == 0, f"argument {index}: {different.size} bytes differ: {different[:4]}"


def test_inputs_are_left_alone() -> None:
    """What a kernel only reads comes back as it was, in its shape, and the caller's array is untouched."""
    row = kernels.get("A1")
    launch, args = row.launch(row.tiny), row.inputs(row.tiny)
    originals = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    kernel = _kernel(row, "sm_90")
    outputs = run(kernel, launch.grid, launch.block, args, dynamic_shared=launch.dynamic_shared)
    for index, (arg, original, output) in enumerate(zip(args, originals, outputs, strict=True)):
        assert np.array_equal(arg, original)
        if isinstance(arg, np.ndarray):
            assert output.shape == arg.shape and output.dtype == arg.dtype
        if index not in launch.outputs:
            assert np.array_equal(output, original)


#: Kernels whose results could depend on the order of CTAs (float atomics among them), and three that cannot.
ORDER_WORDS = ("atomic", "lookback", "look-back", "barrier", "histogram", "dot")
ORDER_ROWS = [row for row in ROWS if any(word in row.id for word in ORDER_WORDS)]
ORDER_ROWS += [kernels.get(i) for i in ("A2", "A5", "E1")]


@pytest.mark.parametrize("row", ORDER_ROWS, ids=lambda row: row.id)
def test_core_count_changes_nothing(row: CatalogKernel) -> None:
    one, two = (_run(row, row.tiny, jobs=jobs) for jobs in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    left, right = (_simulate(row, row.tiny, jobs=jobs, full=True) for jobs in (1, 2))
    assert left.metrics == right.metrics
    assert left.instructions == right.instructions
    assert left.coverage == right.coverage


@pytest.mark.parametrize("name", ["A1", "A2", "A5", "A8", "E1"])
def test_sample_equals_full_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """CTAs that do the same work: a sample gives the same counters, instruction by instruction."""
    row = next(row for row in kernels.all_kernels() if row.seed == name)
    size = next(s for s in reversed(row.sizes) if s["name"] not in ("large", "ragged"))
    full = _simulate(row, size, full=True)
    monkeypatch.setattr(simulation, "FULL_LIMIT", 0)
    sample = _simulate(row, size)
    assert not full.coverage.sampled
    assert full.coverage.ctas_executed == full.coverage.ctas_total
    if full.coverage.ctas_total <= simulation.SAMPLES:
        assert not sample.coverage.sampled
    else:
        assert sample.coverage.sampled and sample.coverage.alike
    assert sample.metrics == full.metrics
    assert sample.instructions == full.instructions


def test_catalog_is_whole() -> None:
    """A row for each of A1-A9, B1-B5, C1-C4, D0-D6, E1-E8 of the seeds."""
    spans = (("A", 1, 9), ("B", 1, 5), ("C", 1, 4), ("D", 0, 6), ("E", 1, 8))
    wanted = {f"{letter}{n}" for letter, first, last in spans for n in range(first, last + 1)}
    assert wanted <= {row.seed for row in ROWS}

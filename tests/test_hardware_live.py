"""On a machine with a GPU (``GPUSIM_HW=1``): measure a few small launches and compare every exact counter.

Needs CuPy and, for the counters, Nsight Compute with the right to read them.  ``GPUSIM_HW_DEVICE`` names the
device (h200 if not set); see docs/validation.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gpusim import program
from gpusim.simulate import simulate
from gpusim.validation.device_run import Summary, measure_device
from gpusim.validation.records import check_index, cubin_file, load_index, load_record

pytestmark = pytest.mark.skipif(
    os.environ.get("GPUSIM_HW") != "1", reason="needs a GPU: set GPUSIM_HW=1 on a machine that has one"
)

DEVICE = os.environ.get("GPUSIM_HW_DEVICE", "h200")
#: One of each kind, none with a numbered deviation: coalesced, tiled, swizzled, padded, shuffles, integer
#: atomics, lanes that part: loops, recursion, a jump table.
KERNELS = (
    "E1", "A5", "A8-swizzle", "T7-transpose-padded", "T15-warp-shuffle", "T17-atomic-int32", "T6-mandelbrot",
    "T6-string-search", "T20-call-recursive", "T20-switch-dense",
)  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Summary, dict[str, dict[str, Any]], Path]:
    """The summary, the records by id, and their folder."""
    work = tmp_path_factory.mktemp("measured")
    summary = measure_device(work, device_name=DEVICE, only=KERNELS, sizes=["tiny"])
    assert summary.folder is not None
    records = {e.id: load_record(summary.folder / e.file) for e in load_index(summary.folder)}
    return summary, records, summary.folder


def test_every_launch_runs_and_its_oracle_agrees(
    measured: tuple[Summary, dict[str, dict[str, Any]], Path],
) -> None:
    summary, records, folder = measured
    assert summary.failed == {} and summary.wrong == {}
    assert summary.passed == len(KERNELS) == len(records)
    assert check_index(folder) == []
    for record in records.values():
        assert record["timing"]["warm"]["runs"] >= 10


@pytest.mark.parametrize("kernel", KERNELS)
def test_exact_counters_equal_the_simulators(
    measured: tuple[Summary, dict[str, dict[str, Any]], Path], kernel: str
) -> None:
    _, records, folder = measured
    record = records[f"{kernel}:tiny"]
    if "profile" not in record:
        pytest.skip(record["absent"]["profile"])
    module = program.load(cubin_file(folder, record["kernel"]["cubin_sha256"]))
    launch = record["launch"]
    result = simulate(
        module[record["kernel"]["entry"]], launch["grid"], launch["block"], launch["args"],
        dynamic_shared=launch["dynamic_shared_bytes"], device=DEVICE, full=True,
    )  # fmt: skip
    found = record["profile"]["metrics"]
    pairs = {
        name: (metric.value, found[name]["value"])
        for name, metric in result.metrics.items()
        if metric.tier == "exact" and name in found
    }
    assert len(pairs) > 30
    assert {name: pair for name, pair in pairs.items() if pair[0] != pair[1]} == {}
    if "instructions" in record:
        columns = record["instructions"]
        executed = {row["pc"]: row["inst_executed"] for row in result.instructions}
        assert [executed[pc] for pc in columns["pc"]] == columns["inst_executed"]

"""Recorded hardware: opcodes that only steer threads, or do nothing, as an H200 executed them.

The record is ``validation/measurements/h200/flow.json`` (validation/opcodes/flow.py).  The tests' compiler
makes the very code that was measured.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from gpusim.validation.launches import Row
from gpusim.validation.opcodes import evidence, flow
from gpusim.validation.opcodes.forms import bound_of


@pytest.fixture(scope="module")
def launches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    return {row.id: row for row in flow.rows(tmp_path_factory.mktemp("flow"))}


def test_every_row_is_executed_by_the_launches_named_for_it(launches: dict[str, Row]) -> None:
    """By at least 2,048 threads."""
    opcodes = defaultdict(set)
    for row in launches.values():
        assert row.grid[0] * row.block[0] >= 2048
        bounds = map(bound_of, row.module[row.entry].instructions)
        opcodes[row.id.split(":")[1]] |= {b.row.name for b in bounds if b is not None}
    assert {row for row, name in evidence.BY_FLOW.items() if row not in opcodes[name]} == set()


def test_masks_are_of_every_kind() -> None:
    for m in (flow.masks("gone", 1), flow.masks("side", 8)):
        sizes = {int(v).bit_count() for v in m}
        assert {0, 1, 32} <= sizes and len(sizes) > 12
    pairs = zip(np.arange(flow.WARPS) % 8, np.arange(flow.WARPS) // 8 % 8, strict=True)
    assert len(set(pairs)) == 64  # each kind of one with each kind of the other


def test_a_bundle_holds_what_its_launches_name(tmp_path: Path) -> None:
    flow.bundle(tmp_path)
    rows = json.loads((tmp_path / "launches.json").read_text(encoding="utf-8"))
    inits = [str(a.get("init", "")) for row in rows for a in row["args"]]
    names = {row["cubin"] for row in rows} | {i[5:] for i in inits if i.startswith("file:")}
    assert all((tmp_path / name).is_file() for name in names)
    assert [row["id"] for row in rows if row["id"].startswith("stopped:")] == [rows[-1]["id"]]


def test_a_stopped_launch_and_a_wrong_result_are_told(launches: dict[str, Row]) -> None:
    row = launches["stopped:trap"]
    assert flow.difference(row, {"error": "CUDA_ERROR_LAUNCH_FAILED"}) == ""
    assert "the card goes on" in flow.difference(row, {"sha256": {}})
    row = launches["compiled:trap"]
    assert "the simulator goes on" in flow.difference(row, {"error": "CUDA_ERROR_LAUNCH_FAILED"})
    assert flow.difference(row, {"sha256": {"1": ""}}) == "argument 1"


def test_simulator_leaves_the_bits_the_card_left(launches: dict[str, Row]) -> None:
    found = flow.load()
    assert set(found["launches"]) == set(launches)
    results = dict(flow.compare(found))
    assert set(results) == set(launches), "another compiler's code"
    assert {name: text for name, text in results.items() if text} == {}


def test_the_card_stopped_one_launch() -> None:
    assert [k for k, v in flow.load()["launches"].items() if "error" in v] == ["stopped:trap"]

"""Recorded hardware: memory an H200 left after a launch, against the simulator's, bit for bit.

The record is ``validation/measurements/h200/outputs.json`` (how it was made stands in validation/README.md).
Here the arithmetic probes and the given cases are run again; catalog kernels are compared where the compiler
of this machine makes the very binary that was measured.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpusim.simulate import run
from gpusim.validation.launches import HERE, Row, case_rows, catalog_rows, probe_rows

RECORD = json.loads((HERE / "measurements" / "h200" / "outputs.json").read_text(encoding="utf-8"))["launches"]


def differing(row: Row) -> list[str]:
    """Arguments whose bytes differ from the card's."""
    values = run(row.module[row.entry], row.grid, row.block, row.args, dynamic_shared=row.dynamic_shared)
    wanted: dict[str, Any] = RECORD[row.id]["arrays_sha256"]
    return [slot for slot, digest in wanted.items()
            if hashlib.sha256(np.ascontiguousarray(values[int(slot)]).tobytes()).hexdigest() != digest]


def test_record_covers_catalog_cases_and_probes() -> None:
    kinds = {"probe": 0, "case": 0, "catalog": 0}
    for name in RECORD:
        kinds["probe" if name.startswith("probe:") else "case" if name[0].islower() else "catalog"] += 1
    assert kinds == {"probe": 117, "case": 97, "catalog": 435}


def test_every_difference_in_the_record_has_a_reason() -> None:
    assert [k for k, entry in RECORD.items() if entry["equal"] is not True and not entry.get("why")] == []


def test_probes_leave_the_bits_the_card_left(tmp_path: Path) -> None:
    """fp32, fp64, fp16, bf16, conversions, division, square roots, matrix instructions: 97 operations."""
    rows = {row.id: row for row in probe_rows("sm_90", tmp_path)}
    exact = [name for name, entry in RECORD.items() if name.startswith("probe:") and entry["equal"]]
    assert len(exact) == 97
    assert {name: bad for name in exact if (bad := differing(rows[name]))} == {}


SMALL = [
    r
    for r in case_rows()
    if RECORD[r.id]["equal"] and sum(a["n"] for a in r.args if a["kind"] == "array") <= 4_000_000
]


@pytest.mark.parametrize("row", SMALL, ids=lambda r: r.id)
def test_given_cases_leave_the_bits_the_card_left(row: Row) -> None:
    """Launches of modest size; the others are run whole when the record is made."""
    assert row.module.sha256 == RECORD[row.id]["cubin_sha256"]
    assert differing(row) == []


def test_catalog_kernels_leave_the_bits_the_card_left() -> None:
    """Tiny sizes; a different compiler makes a different binary, which the oracles judge instead."""
    bad = {}
    for row in catalog_rows("sm_90", sizes=1):
        entry = RECORD.get(row.id)
        if entry is not None and entry["equal"] and entry["cubin_sha256"] == row.module.sha256:
            differs = differing(row)
            if differs:
                bad[row.id] = differs
    assert bad == {}

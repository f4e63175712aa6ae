"""Recorded hardware: memory an H200 left after a launch, against the simulator's, bit for bit.

The record is ``validation/measurements/h200/outputs.json`` (how it was made stands in validation/README.md).
Here the arithmetic probes and the given cases are run again, and the catalog's tiny launches from the
binaries of their records.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpusim.program import load
from gpusim.simulate import run
from gpusim.validation.launches import HERE, Row, case_rows, probe_rows
from gpusim.validation.records import IndexEntry, cubin_file, load_index, load_record

FOLDER = HERE / "measurements" / "h200"
RECORD = json.loads((FOLDER / "outputs.json").read_text(encoding="utf-8"))["launches"]


def differing(row: Row) -> list[str]:
    """Arguments whose bytes differ from the card's."""
    values = run(row.module[row.entry], row.grid, row.block, row.args, dynamic_shared=row.dynamic_shared)
    wanted: dict[str, Any] = RECORD[row.id]["arrays_sha256"]
    return [slot for slot, digest in wanted.items()
            if hashlib.sha256(np.ascontiguousarray(values[int(slot)]).tobytes()).hexdigest() != digest]


def test_record_covers_cases_and_probes() -> None:
    kinds = {"probe": 0, "case": 0, "catalog": 0}
    for name in RECORD:
        kinds["probe" if name.startswith("probe:") else "case" if name[0].islower() else "catalog"] += 1
    assert kinds == {"probe": 117, "case": 97, "catalog": 0}


def test_every_difference_in_the_record_has_a_reason() -> None:
    assert [k for k, entry in RECORD.items() if entry["equal"] is not True and not entry.get("why")] == []


def test_probes_leave_the_bits_the_card_left(tmp_path: Path) -> None:
    """fp32, fp64, fp16, bf16, conversions, division, square roots, matrix instructions, MUFU."""
    rows = {row.id: row for row in probe_rows("sm_90", tmp_path)}
    exact = [name for name, entry in RECORD.items() if name.startswith("probe:") and entry["equal"]]
    assert len(exact) == 117
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


TINY = [entry for entry in load_index(FOLDER) if entry.id.endswith(":tiny")]


def test_the_records_cover_the_catalogs_tiny_launches() -> None:
    assert len(TINY) == 144


@pytest.mark.parametrize("entry", TINY, ids=lambda entry: entry.id)
def test_catalog_kernels_leave_the_bits_the_card_left(entry: IndexEntry) -> None:
    record = load_record(FOLDER / entry.file)
    assert record["outputs"]["oracle"] == "passed"
    assert entry.cubin_sha256 is not None
    kernel = load(cubin_file(FOLDER, entry.cubin_sha256))[record["kernel"]["entry"]]
    launch = record["launch"]
    values = run(kernel, launch["grid"], launch["block"], launch["args"],
                 dynamic_shared=launch["dynamic_shared_bytes"])  # fmt: skip
    differ = [
        slot
        for slot, digest in record["outputs"]["sha256"].items()
        if hashlib.sha256(np.ascontiguousarray(values[int(slot)]).tobytes()).hexdigest() != digest
    ]
    assert differ == []

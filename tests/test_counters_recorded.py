"""Recorded hardware: counters of the catalog's tiny launches on an H200, against the simulator's.

A launch is compared where the compiler of this machine makes the very binary that was measured.  Differences
must be exactly the numbered ones of validation/DEVIATIONS.md: a new one fails, and so does one that closed.
"""

from __future__ import annotations

import json

import pytest

from gpusim.simulate import simulate
from gpusim.validation.launches import HERE, Row, catalog_rows

FILE = HERE / "measurements" / "h200" / "catalog_counters.json"
RECORD = json.loads(FILE.read_text(encoding="utf-8"))["launches"]

#: Launch -> number in DEVIATIONS.md, for exact metrics that differ on the card.
KNOWN = {
    "T6-string-search:tiny": 3,
    "T9-conv2d:tiny": 2,
    "T8-bfs-level:tiny": 8,
    "T18-flag-spin:tiny": 1,
    "T20-call-recursive:tiny": 4,
    "T20-call-pointer:tiny": 2,
    "T20-switch-dense:tiny": 2,
    "T4-layernorm:tiny": 7,
    "T18-named-barriers:tiny": 7,
    "T19-last-block-sum:tiny": 7,
    "T17-atomic-shared:tiny": 7,
}

ROWS = [row for row in catalog_rows("sm_90", sizes=1) if row.id in RECORD]
SAME = [row for row in ROWS if RECORD[row.id]["cubin_sha256"] == row.module.sha256]


def different(row: Row) -> dict[str, tuple[float, float]]:
    """Exact metrics that differ: name -> (simulated, measured)."""
    kernel = row.module[row.entry]
    result = simulate(kernel, row.grid, row.block, row.args, dynamic_shared=row.dynamic_shared, full=True)
    measured = RECORD[row.id]["metrics"]
    return {
        name: (metric.value, measured[name])
        for name, metric in result.metrics.items()
        if metric.tier == "exact" and name in measured and metric.value != measured[name]
    }


def test_the_record_covers_the_catalog() -> None:
    assert len(ROWS) > 150


@pytest.mark.parametrize("row", SAME, ids=lambda row: row.id)
def test_counters_equal_the_profilers(row: Row) -> None:
    found = different(row)
    if row.id in KNOWN:
        assert found, f"deviation {KNOWN[row.id]} no longer shows here: remove it from the list"
    else:
        assert found == {}

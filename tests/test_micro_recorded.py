"""Recorded hardware: one-warp access kernels, each instruction's counters on an H200 against the simulator's.

The record is ``validation/measurements/h200/micro.json.xz`` (docs/rules.md).  A kernel is compared where this
machine's compiler makes the very code that was measured.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gpusim.validation.microbench import patterns
from gpusim.validation.microbench.accesses import OPS

LAUNCHES: dict[str, dict[str, Any]] = patterns.load()["launches"]


def same_code(launch: dict[str, Any]) -> bool:
    probe = patterns.probe_of(launch)
    return patterns.code_sha256(launch["op"], patterns.entry(probe)) == launch["code_sha256"]


def test_record_covers_every_instruction() -> None:
    assert len(LAUNCHES) == 669
    source = {launch["op"] for launch in LAUNCHES.values() if "columns" in launch}
    hardware = {launch["op"] for launch in LAUNCHES.values() if "metrics" in launch}
    assert {"copy_ca_4", "copy_ca_8", "copy_ca_16", "copy_cg_16", "stmatrix_x4", "ld_shared_16"} <= source
    assert {"red_global_v4_f32", "atom_global_cas_b32", "ld_local_16", "ld_generic_4"} <= hardware
    assert len(source) > 70 and source | hardware <= set(OPS)


@pytest.mark.parametrize("op", sorted({launch["op"] for launch in LAUNCHES.values()}))
def test_settled_rules_are_exact(op: str) -> None:
    """Every pair under a settled rule is equal; the others are marked as estimates."""
    tally: Counter[tuple[bool, bool]] = Counter()
    wrong = []
    for name, launch in LAUNCHES.items():
        if launch["op"] != op or not same_code(launch):
            continue
        for what, counter, settled, ours, measured in patterns.differences(launch):
            tally[settled, ours == measured] += 1
            if settled and ours != measured:
                wrong.append((name, what, counter, ours, measured))
    assert wrong == []
    if tally and not any(word in op for word in ("cas", "exch", "add_u64", "max_u64", "add_f16")):
        assert tally[True, True] > 0  # those may retry in a loop: their counts are estimates as a whole


def test_most_executions_are_settled() -> None:
    """A rule that marked everything as unsettled would pass the test above: copies through L1."""
    settled = unsettled = 0
    for launch in LAUNCHES.values():
        if launch["op"] in ("copy_ca_4", "copy_ca_16") and "columns" in launch and same_code(launch):
            for what, counter, is_settled, _, _ in patterns.differences(launch):
                if what == "LDGSTS" or what.startswith("LDGSTS.E"):
                    if counter == "memory_l1_wavefronts_shared":
                        settled += is_settled
                        unsettled += not is_settled
    assert (settled, unsettled) == (400, 368), (settled, unsettled)

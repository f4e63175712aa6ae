"""Recorded hardware: who goes on first in a diverged warp, and what is counted: 830 one-warp launches.

The record is ``validation/measurements/h200/divergence.json.xz`` (docs/rules.md, "Diverged warps").  The
tests' compiler makes the very code that was measured.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from gpusim.program import compile
from gpusim.simulate import run, simulate
from gpusim.validation.launches import code_sha256
from gpusim.validation.microbench import divergence

RECORD = divergence.load()
LAUNCHES: list[dict[str, Any]] = RECORD["launches"]
YIELD = "no. 2: lanes that yield inside two regions with one barrier register; 9 of 88 launches differ"
#: Known gaps (validation/DEVIATIONS.md): kernel and what is compared -> reason.
GAPS = {
    ("sites", "hardware"): YIELD,
    ("sites", "page"): YIELD,
    ("sites", "log"): YIELD,
    ("leave", "page"): "no. 2: after YIELD, patched code keeps lanes together that the code itself parts",
    ("call", "page"): "no. 2: one execution of one BSYNC in 40 launches",
}


@cache
def compared(kernel: str) -> dict[str, list[tuple[int, str, Any, Any]]]:
    """Kind of pair -> those that differ; every kind is there."""
    assert code_sha256(divergence.module(), kernel) == RECORD["code_sha256"][kernel], "another compiler"
    out: dict[str, list[tuple[int, str, Any, Any]]] = {}
    for index, launch in enumerate(LAUNCHES):
        if launch["kernel"] == kernel:
            for kind, what, ours, measured in divergence.differences(index, launch):
                out.setdefault(kind, [])
                if ours != measured:
                    out[kind].append((index, what, ours, measured))
    return out


def _cases() -> list[Any]:
    pairs = [(k, kind) for k in divergence.PLACES for kind in ("hardware", "page", "log", "results")]
    gaps = {pair: pytest.mark.xfail(reason=reason, strict=True) for pair, reason in GAPS.items()}
    return [pytest.param(*pair, marks=gaps.get(pair, ())) for pair in pairs]


def test_record_holds_every_pattern() -> None:
    assert [(r["kernel"], tuple(r["where"])) for r in LAUNCHES] == list(divergence.patterns())
    assert Counter(r["kernel"] for r in LAUNCHES)["recurse"] == 88 and len(LAUNCHES) == 830


@pytest.mark.parametrize(("kernel", "kind"), _cases())
def test_launches_are_equal(kernel: str, kind: str) -> None:
    assert compared(kernel)[kind] == []


def test_gaps_are_as_small_as_they_are_said_to_be() -> None:
    assert len({index for index, *_ in compared("sites")["hardware"]}) == 9
    page = compared("leave")["page"]
    assert len({index for index, *_ in page}) == 35
    assert all(what.startswith("inst_executed") for _, what, *_ in page)
    assert [(i, ours, measured) for i, _, ours, measured in compared("call")["page"]] == [(198, 4, 5)]


ORDER = r"""
__device__ __forceinline__ int ticket(int* counter) {
  int t;
  asm volatile("atom.shared.add.u32 %0,[%1],1;" : "=r"(t) : "r"((unsigned)__cvta_generic_to_shared(counter)));
  return t;
}
extern "C" __global__ void order(const int* side, int* first) {
  __shared__ int counter;
  if (threadIdx.x == 0) counter = 0;
  __syncwarp();
  if (side[threadIdx.x]) first[threadIdx.x] = ticket(&counter);
  else first[threadIdx.x] = ticket(&counter) + 100;
}
"""


@pytest.mark.parametrize("ones", [1, 15, 17, 31])
def test_the_smaller_side_of_a_branch_goes_first(ones: int) -> None:
    """Derived: its lanes take the first tickets, in the order of lanes."""
    side = np.array([1] * ones + [0] * (32 - ones), np.int32)
    first = run(compile(ORDER, arch="sm_90")["order"], 1, 32, [side, np.zeros(32, np.int32)])[1]
    small = ones if ones < 16 else 32 - ones
    lanes = range(ones) if ones < 16 else range(ones, 32)
    assert [int(first[k]) % 100 for k in lanes] == list(range(small))


def simulated(kernel: str) -> Any:
    """The first launch of a kernel whose lanes part."""
    index = next(i for i, r in enumerate(LAUNCHES) if r["kernel"] == kernel and len({*r["where"]}) > 3)
    args = divergence.arguments(index, divergence.table().reshape(-1))
    return simulate(divergence.module()[kernel], 1, 32, args, full=True, jobs=1)


@pytest.mark.parametrize(("kernel", "tier"), [("fall", "exact"), ("recurse", "exact"), ("leave", "modelled")])
def test_counts_after_a_yield_of_parted_lanes_are_no_exact_ones(kernel: str, tier: str) -> None:
    result = simulated(kernel)
    names = ("smsp__inst_executed.sum", "inst_executed", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum")
    assert {result.metrics[name].tier for name in names} == {tier}
    assert any("YIELD" in gap["why"] for gap in result.not_modelled) == (tier == "modelled")
    assert result.metrics["launch__block_size"].tier == "exact"

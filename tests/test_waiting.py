"""Property by hand: which loops wait for others. Each kernel's answer follows from its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusim import kernels, program
from gpusim.isa.instruction import Instruction
from gpusim.isa.waiting import waits

HEAD = 'extern "C" __global__ void k(volatile int* flag, int* out, int n) { int i = threadIdx.x; int v = 0;'
#: body -> whether a loop of it waits
BODIES = {
    "while (flag[0] == 0) {} out[i] = v;": True,  # another thread sets the flag
    "while (flag[i] < flag[n + i]) {} out[i] = v;": True,
    "long long t = clock64(); while (clock64() - t < n) {} out[i] = v;": True,
    "#pragma unroll 1\nfor (int k = 0; k < n; ++k) v += flag[k]; out[i] = v;": False,  # counts
    "while (v >= 0) v = flag[v]; out[i] = v;": False,  # follows a list
    "while (flag[i] < n) flag[i] = flag[i] + 1; out[i] = v;": False,  # counts in memory
    "out[i] = flag[i];": False,
}


def branches(code: tuple[Instruction, ...]) -> set[int]:
    """Volatile loads are STRONG.SYS and wait in any case; a branch does only in a loop that waits."""
    return {i.pc for i in code if i.opcode == "BRA"}


@pytest.mark.parametrize("body", BODIES)
def test_loops_that_wait(body: str, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(HEAD + "\n" + body + "\n}\n")
    kernel = program.compile(source, arch="sm_90")["k"]
    assert bool(branches(kernel.instructions) & waits(kernel.instructions)) is BODIES[body]


def test_catalog_kernels_with_a_loop_that_waits() -> None:
    found = set()
    for entry in kernels.all_kernels():
        module = program.compile(
            entry.path, arch="sm_90", options=entry.options, include_dirs=(entry.path.parent,)
        )
        code = module[entry.entry].instructions
        if branches(code) & waits(code):
            found.add(entry.id)
    assert found == {"T18-flag-spin", "T19-grid-barrier"}

"""Probe of the L1 tag stage's banks: ``python -m gpusim.validation.microbench.tags OUT.json`` under ncu.

One warp loads one word of each of a few lines, far apart: two lanes whose lines differ in one bit, and lanes
on random lines.  Two lines of one bank take two wavefronts
(``l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld``), so probing each line bit against a line of each
bank reads the bit's share of the bank off.  The profiler's rows come in the order of the patterns in
OUT.json; the launch's other load adds one wavefront.
"""

from __future__ import annotations

import json
import sys

import numpy as np

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(32)
tag(const char* base, const unsigned* offset, unsigned mask, unsigned* sink) {
  const unsigned lane = threadIdx.x;
  if (!((mask >> lane) & 1)) return;
  unsigned v;
  asm volatile("ld.global.b32 %0,[%1];" : "=r"(v) : "l"(base + offset[lane]));
  if (v == 12345) sink[lane] = v;
}
"""
SPAN = 1 << 31  # bytes: line bits 0 to 23
LINE = 128
#: Lines of bank 0, 1, 2, 3 by the masks that patterns.jsonl gives for the low bits.
REFERENCE = (0, 1, 16, 2)


def patterns() -> list[list[int]]:
    """Lines of each launch."""
    rng = np.random.default_rng(5)
    pairs = [[1 << bit, line] for bit in range(24) for line in REFERENCE if line != 1 << bit]
    return pairs + [[int(x) for x in rng.integers(0, 1 << 24, 32)] for _ in range(48)]


def main(out: str) -> None:
    """Run every pattern once; write them in order."""
    import cupy as cp

    function = cp.RawModule(code=SOURCE).get_function("tag")
    memory = cp.cuda.alloc(3 * SPAN)
    base = -(-memory.ptr // SPAN) * SPAN
    sink = cp.zeros(32, cp.uint32)
    for lines in patterns():
        offsets = np.zeros(32, np.uint32)
        offsets[: len(lines)] = np.array(lines, np.uint64) * LINE
        mask = np.uint32((1 << len(lines)) - 1)
        function((1,), (32,), (np.uint64(base), cp.asarray(offsets), mask, sink))
    cp.cuda.Device().synchronize()
    with open(out, "w", encoding="utf-8") as file:
        json.dump([{"lines": lines} for lines in patterns()], file)


if __name__ == "__main__":
    main(sys.argv[1])

"""Which lanes of a diverged warp go on first: ``python -m gpusim.validation.microbench.divergence OUT.json``.

One warp a launch, its lanes sent to chosen places: two sides of a branch, up to three arrivals at one join,
loops that lanes leave at chosen trips (by a taken branch, by falling through, with a call inside), a jump
table.  Each place takes a ticket from a counter, so the order is in the results; under ncu (source counters,
``smsp__inst_executed.sum``, ``smsp__thread_inst_executed.sum``) the rows come in the order of OUT.json.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

SOURCE = r"""
#define KERNEL extern "C" __global__ void __launch_bounds__(32)
__device__ __forceinline__ unsigned ticket(unsigned* counter) {
  unsigned t;  // volatile: stays in its place, and keeps a branch a branch
  asm volatile("atom.shared.add.u32 %0,[%1],1;" : "=r"(t)
               : "r"((unsigned)__cvta_generic_to_shared(counter)) : "memory");
  return t;
}
#define BEGIN \
  __shared__ unsigned counter; \
  const unsigned lane = threadIdx.x, w = where[lane]; \
  unsigned t = 0; \
  if (lane == 0) counter = 0; \
  __syncwarp(); \
  if (w == 99) return;

KERNEL sides(const unsigned* where, unsigned* out) {
  BEGIN
  if (w) { t = ticket(&counter); } else { t = ticket(&counter) + 100; }
  __syncwarp();
  out[lane] = t;
}
KERNEL join(const unsigned* where, const unsigned* in, unsigned* out) {
  BEGIN
  unsigned v = 7;
  if (w != 0) {
    v = in[lane];
    if (w + v != 1) v = in[v + lane] + ticket(&counter);
  }
  out[lane] = v;
}
KERNEL leave(const unsigned* where, const unsigned* in, unsigned* out) {
  BEGIN
  unsigned k = 0;
#pragma unroll 1
  do {
    t += in[t & 1];
    if (t + k >= w) break;
    t = in[ticket(&counter) & 1];  // 0
  } while (++k < 40);
  out[lane] = t + k;
}
KERNEL fall(const unsigned* where, const unsigned* in, unsigned* out) {
  BEGIN
  unsigned k = 0;
#pragma unroll 1
  do { t += in[t & 1]; ++k; } while (k < w);
  out[lane] = t + k;
}
__device__ __noinline__ unsigned step(unsigned v, unsigned k) { return (v ^ k) * 1664525u + 1013904223u; }
KERNEL call(const unsigned* where, const unsigned* in, unsigned* out) {
  BEGIN
#pragma unroll 1
  for (unsigned k = 0; k < w; ++k) t = step(t, k);
  out[lane] = t;
}
KERNEL table(const unsigned* where, const unsigned* in, unsigned* out) {
  BEGIN
  unsigned r = in[lane];
  switch (w) {
    case 0: r += ticket(&counter); break;
    case 1: r ^= ticket(&counter) + 77; break;
    case 2: r -= ticket(&counter) << 2; break;
    case 3: r = __popc(r) + ticket(&counter); break;
    case 4: r = r * 5 + ticket(&counter); break;
    case 5: r |= ticket(&counter) & 0xf0; break;
    case 6: r = r / 3 + ticket(&counter); break;
    case 7: r = __brev(r) + ticket(&counter); break;
    default: r = 11; break;
  }
  out[lane] = r;
}
"""
KERNELS = ("sides", "join", "leave", "fall", "call", "table")
#: Largest place a kernel knows, and the place of lanes that are off.
PLACES, OFF = {"sides": 1, "join": 2, "leave": 6, "fall": 6, "call": 6, "table": 7}, 99


def patterns() -> list[tuple[str, list[int]]]:
    """(kernel, place of each lane) of each launch: split sizes and who holds the low lanes, then random."""
    rng = np.random.default_rng(3)
    out: list[tuple[str, list[int]]] = []
    for n in range(1, 32):
        low = [int(lane < n) for lane in range(32)]
        out += [("sides", low), ("sides", [1 - x for x in low])]
    for n in (2, 4, 8, 16, 30):  # ties, with lanes off and in every arrangement
        for _ in range(6):
            on = rng.permutation(32)[:n]
            places = np.full(32, OFF)
            places[on] = np.arange(n) % 2
            out.append(("sides", places.tolist()))
    for kernel in KERNELS:
        for _ in range(24):
            weights = rng.dirichlet(np.full(PLACES[kernel] + 1, 0.6))
            out.append((kernel, rng.choice(PLACES[kernel] + 1, 32, p=weights).tolist()))
    return out


def main(out: str) -> None:
    """Run every pattern once; write patterns and results in order."""
    import cupy as cp

    module = cp.RawModule(code=SOURCE)
    words, result = cp.zeros(128, cp.uint32), cp.zeros(32, cp.uint32)
    rows: list[dict[str, Any]] = []
    for kernel, where in patterns():
        arguments = (cp.asarray(np.array(where, np.uint32)), *((words,) if kernel != "sides" else ()), result)
        module.get_function(kernel)((1,), (32,), arguments)
        rows.append({"kernel": kernel, "where": where, "out": cp.asnumpy(result).tolist()})
    with open(out, "w", encoding="utf-8") as file:
        json.dump(rows, file)


if __name__ == "__main__":
    main(sys.argv[1])

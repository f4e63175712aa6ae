"""A11, the stride experiment: ``python -m gpusim.validation.microbench.stride OUT.json``, on a GPU.

Useful bandwidth of reading (or copying) one 4-byte word every ``stride`` words: as many threads as words, up
to 2^27 words and 96 GiB, L2 overwritten before each run, device events, 12 runs, fastest and slowest
dropped, median.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

SOURCE = r"""
typedef unsigned long long u64;
extern "C" __global__ void stride_read(const float* in, float* out, u64 n, u64 stride) {
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  float a = 0;
  for (; i < n; i += (u64)gridDim.x * blockDim.x) a += in[i * stride];
  if (a == 12345.f) out[0] = a;
}
extern "C" __global__ void stride_copy(const float* in, float* out, u64 n, u64 stride) {
  const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i * stride] = in[i * stride];
}
"""
STRIDES = (*(1 << k for k in range(15)), 1 << 16, 1 << 18, 1 << 20)  # words
SPACE, WORDS, BLOCK, RUNS = 96 << 30, 1 << 27, 256, 12
PERSISTENT = 132 * 16  # blocks of a read of more words than that many full launches would be quick to start


def measure() -> list[dict[str, Any]]:
    """One row a kernel and stride; times in microseconds."""
    import cupy as cp

    module = cp.RawModule(code=SOURCE)
    memory = cp.cuda.alloc(SPACE)
    sink, flush = cp.zeros(16, cp.float32), cp.empty(256 << 20, cp.uint8)
    rows = []
    for stride in STRIDES:
        for name, space in (("read", SPACE), ("copy", SPACE // 2)):
            words = min(WORDS, space // 4 // stride) // BLOCK * BLOCK
            if words < 1024:
                continue
            blocks = words // BLOCK if name == "copy" or words < 1 << 22 else PERSISTENT
            target = sink if name == "read" else np.uint64(memory.ptr + SPACE // 2)
            arguments = (np.uint64(memory.ptr), target, np.uint64(words), np.uint64(stride))
            times = []
            for run in range(RUNS):
                flush.fill(run)
                start, end = cp.cuda.Event(), cp.cuda.Event()
                start.record()
                module.get_function(f"stride_{name}")((blocks,), (BLOCK,), arguments)
                end.record()
                end.synchronize()
                times.append(cp.cuda.get_elapsed_time(start, end) * 1e3)
            kept = sorted(times)[1:-1]
            median = float(np.median(kept))
            moved = words * 4 * (1 if name == "read" else 2)
            rows.append({
                "kernel": name, "stride_words": stride, "words": words, "median_us": median,
                "min_us": kept[0], "max_us": kept[-1], "useful_GBps": moved / median / 1e3,
            })  # fmt: skip
    return rows


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(measure(), file, indent=1)

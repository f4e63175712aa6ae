"""Where and when each CTA of a catalog kernel runs: ``python -m gpusim.validation.microbench.ctas OUT.npz``.

The kernel's source is compiled with a wrapper that notes the SM, the first and the last nanosecond of every
CTA.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

CUDA = Path(__file__).parents[2] / "kernels" / "cuda"
#: name -> file, entry, block, tile (rows, columns), rows in x
KERNELS = {
    "A1": ("gemm_a1_naive_row", "gemm_a1_naive_row", (32, 32), (32, 32), True),
    "A2": ("gemm_a2_coalesced", "gemm_a2_coalesced", (32, 32), (32, 32), False),
    "A3-16": ("gemm_a3_tile", "gemm_a3_tile16", (16, 16), (16, 16), False),
    "A3-32": ("gemm_a3_tile", "gemm_a3_tile32", (32, 32), (32, 32), False),
    "A3-32x8": ("gemm_a3_tile", "gemm_a3_tile32x8", (32, 8), (8, 32), False),
    "A4": ("gemm_a4_tile1d", "gemm_a4_tile1d", (512, 1), (64, 64), False),
    "A5": ("gemm_a5_tile2d", "gemm_a5_tile2d", (256, 1), (128, 128), False),
    "A7": ("gemm_a7_warptile", "gemm_a7_warptile", (256, 1), (128, 128), False),
    "A8-pad": ("gemm_a8_staging", "gemm_a8_pad", (256, 1), (128, 128), False),
    "A9-double": ("gemm_a9_doublebuffer", "gemm_a9_doublebuffer", (256, 1), (128, 128), False),
}


def source(file: str, entry: str) -> str:
    text = (CUDA / f"{file}.cu").read_text()
    text = text.replace(
        '#include "sgemm_common.cuh"', (CUDA / "sgemm_common.cuh").read_text().replace("#pragma once", "")
    )
    found = re.search(
        r'extern "C" __global__ void\s*(__launch_bounds__\([^)]*\))?\s*' + entry + r"\(([^)]*)\)", text
    )
    assert found is not None, entry
    bounds, parameters = found[1] or "", found[2]
    names = ", ".join(p.split()[-1].lstrip("*") for p in parameters.split(","))
    text = re.sub(
        r'extern "C" __global__ void\s*(__launch_bounds__\([^)]*\))?',
        "__device__ __forceinline__ void ",
        text,
    )
    return (
        text
        + f"""
extern "C" __global__ void {bounds} timed_{entry}({parameters}, unsigned long long* log) {{
  unsigned long long t0, t1; unsigned sm;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
  {entry}({names});
  __syncthreads();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t1));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x + threadIdx.y == 0) {{
    unsigned long long* at = log + 3ull * (blockIdx.y * gridDim.x + blockIdx.x);
    at[0] = t0; at[1] = t1; at[2] = sm;
  }}
}}
"""
    )


WHERE = r"""
extern "C" __global__ void where(unsigned* out, int cycles) {
  extern __shared__ int room[];
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0) out[blockIdx.x] = sm;
  const long long t = clock64();
  while (clock64() - t < cycles) ;
}
"""


def places() -> dict[str, np.ndarray]:
    """SM of each CTA of grids that all fit at once, by grid, threads and dynamic shared bytes."""
    import cupy as cp

    function = cp.RawModule(code=WHERE).get_function("where")
    function.max_dynamic_shared_size_bytes = 200 << 10
    kept = {}
    for threads, shared in ((32, 0), (256, 0), (1024, 0), (128, 100 << 10), (128, 200 << 10)):
        for n in (1, 2, 4, 8, 9, 12, 16, 17, 20, 24, 32, 33, 40, 48, 64, 65, 66, 67, 80, 96, 100, 120, 128,
                  131, 132, 133, 144, 160, 200, 256, 264, 300, 400, 512, 528, 600, 792, 1056):  # fmt: skip
            for run in range(3):
                out = cp.zeros(n, cp.uint32)
                function((n,), (threads,), (out, np.int32(20000)), shared_mem=shared)
                kept[f"where:{threads}:{shared}:{n}:{run}"] = cp.asnumpy(out).astype(np.uint8)
    return kept


def main(out: str) -> None:
    import cupy as cp

    kept = places()
    for n in (512, 1024, 2048, 4096):
        a, b, c = (cp.random.standard_normal((n * n,), dtype=cp.float32) for _ in range(3))
        for name, (file, entry, block, (rows, columns), x_is_row) in KERNELS.items():
            function = cp.RawModule(code=source(file, entry)).get_function(f"timed_{entry}")
            over = (n // rows, n // columns)
            grid = over if x_is_row else over[::-1]
            i, f = np.int32, np.float32
            for _ in range(2):
                log = cp.zeros(3 * grid[0] * grid[1], cp.uint64)
                function(grid, block, (i(n), i(n), i(n), f(1), a, b, f(0.5), c, log))
            cp.cuda.Device().synchronize()
            rows_ = cp.asnumpy(log).reshape(-1, 3)
            rows_[:, :2] -= rows_[:, 0].min()
            kept[f"{name}:{n}"] = rows_[:1056].astype(np.uint32)  # the first wave
            kept[f"{name}:{n}:grid"] = np.array([*grid, function.num_regs])
    np.savez_compressed(out, **kept)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1])

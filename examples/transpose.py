"""Execute two transposes, check them against numpy, and compare their shared-memory wavefronts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import gpusim as gs

N = 256
GRID, BLOCK = (N // 32, N // 32), (32, 8)

module = gs.compile(Path(__file__).parent / "transpose.cu", arch="sm_90")
matrix = np.arange(N * N, dtype=np.float32)

for name in ("transpose_plain", "transpose_padded"):
    kernel = module[name]
    args = [matrix.copy(), np.zeros(N * N, np.float32), np.int32(N)]

    outputs = gs.run(kernel, GRID, BLOCK, args)
    assert np.array_equal(outputs[1].reshape(N, N), matrix.reshape(N, N).T)

    metrics = gs.simulate(kernel, GRID, BLOCK, args, device="h200").metrics
    wavefronts = metrics["memory_l1_wavefronts_shared"].value
    ideal = metrics["memory_l1_wavefronts_shared_ideal"].value
    print(f"{name:18} {wavefronts:7,} shared wavefronts, {ideal:,} at the best addresses")

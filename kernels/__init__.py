"""The kernels the project must be able to simulate (seeds.md, rows A to E), as real CUDA files.

    from gpusim.kernels import get, ladder
    row = get("A5")
    size = row.tiny                      # or row.size("large")
    spec = row.launch(size)              # grid, block, arguments
    args = row.inputs(size)              # deterministic numpy inputs
    ...                                  # compile row.path, run it
    check_outputs(row, size, args, {index: output})

``python -m gpusim.kernels`` prints the catalog as the table in README.md.  This package knows nothing of the
simulator: it imports ``gpusim.errors`` and ``gpusim.launch`` only.
"""

from __future__ import annotations

from gpusim.kernels.spec import (
    CUDA_DIR,
    CatalogKernel,
    LaunchSpec,
    Tolerance,
    Verdict,
    all_kernels,
    check_outputs,
    get,
    ladder,
    make_inputs,
)

__all__ = [
    "CUDA_DIR",
    "CatalogKernel",
    "LaunchSpec",
    "Tolerance",
    "Verdict",
    "all_kernels",
    "check_outputs",
    "get",
    "ladder",
    "make_inputs",
]

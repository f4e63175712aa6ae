"""Run a bundle of launches on the GPU of this machine and record what each left in memory.

Needs numpy and CuPy (12x or 13x) and the CUDA driver; nothing of gpusim but its input generator.
``python -m gpusim.validation.device_outputs BUNDLE OUT`` writes ``outputs.json`` (SHA-256 of every array
after the launch, and versions) and ``outputs.npz`` (the arrays up to ``KEEP`` bytes, for finding where a
difference lies).
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.launch import make_array

KEEP = 600_000  # bytes of an array kept whole


def versions() -> dict[str, Any]:
    """What the record needs to be believed: card, driver, runtime, CuPy."""
    import cupy as cp

    properties = cp.cuda.runtime.getDeviceProperties(0)
    return {
        "device": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "driver": cp.cuda.runtime.driverGetVersion(),
        "runtime": cp.cuda.runtime.runtimeGetVersion(),
        "cupy": cp.__version__,
        "numpy": np.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def main(bundle: Path, out: Path, only: str = "") -> None:
    """Run every launch of the bundle whose id contains ``only``."""
    import cupy as cp

    modules: dict[str, Any] = {}
    result: dict[str, Any] = {"versions": versions(), "launches": {}}
    kept: dict[str, Any] = {}
    for row in json.loads((bundle / "launches.json").read_text()):
        if only not in row["id"]:
            continue
        try:
            if row["cubin"] not in modules:
                modules[row["cubin"]] = cp.RawModule(path=str(bundle / row["cubin"]))
            function = modules[row["cubin"]].get_function(row["entry"])
            if row["dynamic_shared"] > 48 * 1024:
                function.max_dynamic_shared_size_bytes = row["dynamic_shared"]
            arguments: list[Any] = []
            for slot, a in enumerate(row["args"]):
                if a["kind"] == "scalar":
                    arguments.append(np.dtype(a["dtype"]).type(a["value"]))
                else:
                    arguments.append(
                        cp.asarray(make_array(a["dtype"], a["n"], a.get("init", "zeros"), slot, bundle))
                    )
            function(
                tuple(row["grid"]), tuple(row["block"]), tuple(arguments), shared_mem=row["dynamic_shared"]
            )
            cp.cuda.Device().synchronize()
            hashes = {}
            for slot, value in enumerate(arguments):
                if isinstance(value, cp.ndarray):
                    data = cp.asnumpy(value)
                    hashes[slot] = hashlib.sha256(data.tobytes()).hexdigest()
                    if data.nbytes <= KEEP and not str(row["args"][slot].get("init", "")).startswith("file:"):
                        kept[f"{row['id']}|{slot}"] = data
            result["launches"][row["id"]] = hashes
        except Exception as error:  # one bad launch must not lose the others
            result["launches"][row["id"]] = {"error": f"{type(error).__name__}: {error}"}
            print(row["id"], error, flush=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / "outputs.json").write_text(json.dumps(result, indent=1))
    np.savez_compressed(out / "outputs.npz", **kept)
    print(len(result["launches"]), "launches", result["versions"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:4])

"""Compare what the simulator and a GPU left in memory, launch by launch, from the same cubins and inputs.

``python -m gpusim.validation.compare_outputs OUTPUTS.json BUNDLE [RECORD.json]``: OUTPUTS.json is
what ``device_outputs`` wrote on the GPU.  The record holds, for every launch, the SHA-256 of its arrays on
the card and ``equal``: bit-identical or not; a launch that is not says why (a measured bound, or an
order the hardware does not fix).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.errors import GpusimError
from gpusim.simulate import run
from gpusim.validation.launches import Row, case_rows, catalog_rows, probe_rows

#: Opcodes whose results have a stated bound instead of being exact.
BOUNDED = {"MUFU"}
#: Reductions whose result depends on the order in which the hardware serves lanes and CTAs.
UNORDERED = {"RED", "REDG", "ATOM", "ATOMG", "ATOMS"}


#: CTAs above which a launch marked heavy is not executed.
LARGE = 1000
#: Launches with known peculiarities.
PECULIAR = {"s05:s05": "the kernel reads shared memory it never wrote: the card shows what lay there"}


def why_not(row: Row) -> str:
    """The known reason for which a launch may differ, or an empty text."""
    reasons = [PECULIAR[row.id]] if row.id in PECULIAR else []
    instructions = row.module[row.entry].instructions
    if any(i.opcode in BOUNDED for i in instructions):
        reasons.append("MUFU results are within their stated bound, not exact")
    if any(i.opcode in UNORDERED and any(m.startswith(("F16", "F32", "F64", "BF16")) for m in i.modifiers)
           for i in instructions):
        reasons.append("floating-point atomics: the hardware's order of additions varies from run to run")
    if any(i.opcode in UNORDERED and ("CAS" in i.modifiers or "EXCH" in i.modifiers) for i in instructions):
        reasons.append("a compare-and-swap loop: the order in which threads succeed varies from run to run")
    return "; ".join(reasons)


def compare(rows: Iterable[Row], measured: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Simulate each measured launch and compare the hashes of its arrays."""
    out: dict[str, dict[str, Any]] = {}
    for row in rows:
        device = measured.get(row.id)
        if device is None or "error" in device:
            continue
        entry: dict[str, Any] = {"cubin_sha256": row.module.sha256, "arrays_sha256": device}
        if row.heavy and row.grid[0] * row.grid[1] * row.grid[2] > LARGE:
            entry["equal"] = None
            entry["why"] = "too large to execute whole; sampled CTAs were compared by hand (DEVIATIONS.md)"
        else:
            try:
                values = run(
                    row.module[row.entry], row.grid, row.block, row.args, dynamic_shared=row.dynamic_shared
                )
            except GpusimError as error:
                entry["equal"], entry["why"] = False, error.message()
            else:
                differ = [slot for slot, digest in device.items() if digest != _digest(values[int(slot)])]
                entry["equal"] = not differ
                if differ:
                    entry["why"] = why_not(row)
        out[row.id] = entry
    return out


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def main(outputs: Path, bundle: Path, record: Path | None = None) -> int:
    """Print a summary; write the record; 1 if a launch differs without a known reason."""
    measured = json.loads(outputs.read_text(encoding="utf-8"))
    rows = [*catalog_rows("sm_90"), *case_rows(), *probe_rows("sm_90", bundle)]
    result = compare(rows, measured["launches"])
    equal = sum(e["equal"] is True for e in result.values())
    unexplained = [k for k, e in result.items() if e["equal"] is False and not e["why"]]
    print(
        f"{equal} of {len(result)} launches left bit-identical memory; "
        f"differing without a known reason: {unexplained}"
    )
    if record is not None:
        text = json.dumps({"versions": measured["versions"], "launches": result}, indent=1)
        record.write_text(text + "\n", encoding="utf-8")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(*(Path(a) for a in sys.argv[1:4])))

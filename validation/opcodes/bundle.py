"""Write the folder the GPU machine needs: two template cubins and the forms with the simulator's digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpusim.output import atomic_write
from gpusim.validation.opcodes.forms import Form
from gpusim.validation.opcodes.simulate import Runner
from gpusim.validation.opcodes.template import ENTRY, Template, build


def templates() -> dict[str, Template]:
    return {"register": build(memory=False), "memory": build(memory=True)}


def write(folder: Path, forms: Sequence[Form]) -> dict[str, Any]:
    """Simulate all forms and write ``forms.json``, ``register.cubin``, ``memory.cubin``."""
    both = templates()
    rows, refused = [], []
    for form, _, digest, error in Runner(both).run(forms):
        row = form.to_json()
        if error:
            row["refused"] = error
            refused.append(row)
        else:
            row["expected"] = digest
        rows.append(row)
    places = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, t in both.items():
        (folder / f"{name}.cubin").write_bytes(t.cubin)
        places[name] = {
            "cubin": f"{name}.cubin",
            "slot": t.slot,
            "start": t.start,
            "end": t.end,
            "sha256": hashlib.sha256(t.cubin).hexdigest(),
        }
    text = json.dumps({"entry": ENTRY, "templates": places, "forms": rows}, indent=0)
    atomic_write(folder / "forms.json", text)
    return {"forms": len(rows), "refused": refused}

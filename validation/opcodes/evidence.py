"""What the opcode table may say it was measured on: from the record, one sentence a row."""

from __future__ import annotations

import functools
import json
from collections import Counter
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parent.parent / "measurements" / "h200" / "opcodes.json"
FLOW = RECORD.with_name("flow.json")
#: Rows whose effect is where a thread goes or waits, and a catalog kernel whose measured launches execute
#: them.
BY_LAUNCH = {
    "BRA.DIV": "T16-cg-tiles",
    "CALL.REL": "T4-layernorm",
    "CALL.REL@register": "T20-call-pointer",
    "RET.REL": "T4-layernorm",
    "BRX": "T20-switch-dense",
    "BAR.ARV": "T18-named-barriers",
    "ENDCOLLECTIVE": "T5-radix-pass",
}
#: Rows that launches made for them execute (``flow``), and what these are called.
BY_FLOW = {
    "ELECT": "elect",
    "BRXU": "brxu",
    "PREEXIT": "launch_control",
    "ACQBULK": "launch_control",
    "PMTRIG": "trigger",
    "CCTLL": "prefetch_local",
    "BPT.TRAP": "trap",
    "VHMNMX": "vhmnmx",
    "BRA.CONV": "BRA.CONV",
}
#: Opcodes of other architectures: nvdisasm prints none of the 4,096 opcodes of sm_90 so.
NOT_SM90 = set(
    "UVIADD IADD UIMAD.HI UVIMNMX UIMNMX UVIADDMNMX UIABS MOV32I UMOV.64 MOV.64 FADD32I FMUL32I FFMA32I "
    "DMNMX HADD2_32I MUFU.BF16_V2 RED CS2UR MATCH.U64 UREDUX".split()
)


@functools.cache
def _record() -> dict[str, Any]:
    if not RECORD.exists():
        return {"forms": [], "versions": {}}
    return dict(json.loads(RECORD.read_text(encoding="utf-8")))


@functools.cache
def _by_row() -> dict[str, list[dict[str, Any]]]:
    """Row -> its measured forms; a sequence counts for every row it exercises."""
    out: dict[str, list[dict[str, Any]]] = {}
    for form in _record()["forms"]:
        rows = {form["row"]}
        if form["template"] == "register" and form.get("note"):
            rows |= set(form["note"].split("; "))
        for row in rows:
            out.setdefault(row, []).append(form)
    return out


@functools.cache
def _flow() -> set[str]:
    """What the recorded flow launches are called."""
    if not FLOW.exists():
        return set()
    return {id.split(":")[1] for id in json.loads(FLOW.read_text(encoding="utf-8"))["launches"]}


def evidence(row: str) -> str:
    """How a row of the opcode table was checked on the H200, e.g. ``H200: 24 forms x 4,096 inputs, bit for
    bit``.

    A row with differing forms says how many agree and, where a bound was measured, the largest difference in
    units in the last place.
    """
    forms = [f for f in _by_row().get(row, []) if "sha256" in f]
    if not forms:
        if row in BY_LAUNCH:
            return f"H200: by catalog launches ({BY_LAUNCH[row]})"
        if BY_FLOW.get(row) in _flow():
            return f"H200: by flow launches ({BY_FLOW[row]})"
        return "not an sm_90 opcode" if row in NOT_SM90 else "not measured"
    inputs = min(f["inputs"] for f in forms)
    size = f"{len(forms)} form{'s' if len(forms) > 1 else ''} x {inputs:,} inputs"
    count = Counter(bool(f["equal"]) for f in forms)
    if not count[False]:
        return f"H200: {size}, bit for bit"
    bound = max((f["max_ulp"] for f in forms if "max_ulp" in f), default=None)
    differing = [f for f in forms if not f["equal"]]
    if bound is not None and all("max_ulp" in f for f in differing):
        return f"H200: {size}, measured bound {bound} ulp"
    return f"H200: {size}, {count[True]} bit for bit; see the record for the other {count[False]}"

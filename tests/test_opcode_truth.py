"""Recorded hardware: every opcode form as an H200 executed it, against the simulator, bit for bit.

The record (``validation/measurements/h200/opcodes.json``) holds each form's instruction words and the
SHA-256 of
what the card left in 4,096 threads (2,048 warps for the uniform datapath).  The same patched binaries run
here.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from gpusim import kernels, program
from gpusim.isa.opcodes import TABLE
from gpusim.validation.opcodes import encode, evidence, inputs, launch
from gpusim.validation.opcodes import template as T
from gpusim.validation.opcodes.device import initial
from gpusim.validation.opcodes.forms import Form, bound_of
from gpusim.validation.opcodes.listing import decode
from gpusim.validation.opcodes.simulate import Runner
from gpusim.validation.opcodes.template import Template

RECORD = evidence.RECORD
recorded = pytest.mark.skipif(not RECORD.exists(), reason="no record of opcode forms in this checkout")


def load() -> dict[str, Any]:
    return dict(json.loads(RECORD.read_text(encoding="utf-8")))


def templates(record: dict[str, Any]) -> dict[str, Template]:
    return {
        k: Template((RECORD.parent / p["cubin"]).read_bytes(), p["slot"], p["start"], p["end"])
        for k, p in record["templates"].items()
    }


# --- the means


def test_splitmix_is_the_published_generator() -> None:
    """Counter 1 of seed 0 is the first output of splitmix64(0): 0xE220A8397B1DCDAF."""
    start = int(inputs.random_bits("x", 1)[0])
    assert start == int(inputs.random_bits("x", 5)[0])
    with np.errstate(over="ignore"):
        z = np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    assert int(z ^ (z >> np.uint64(31))) == 0xE220A8397B1DCDAF


def test_inputs_cross_special_values_and_cover_kinds() -> None:
    words = inputs.make(("f32", "f32", "f32"), "t", inputs.THREADS)
    pairs = set(zip(words[:, 0].tolist(), words[:, 4].tolist(), strict=True))
    assert {(a, b) for a in inputs.F32 for b in inputs.F32} <= pairs
    guard = words[:, inputs.P_WORD]
    assert 0.8 < (guard >> 5 & 1).mean() < 0.95 and 0.05 < (guard >> 6 & 1).mean() < 0.2


def test_distinct_offsets_keep_sixteen_bytes_of_lanes_apart() -> None:
    for which in (1, 2):
        o = inputs.offsets("distinct", which, 4096).reshape(-1, 32)
        assert all(len(set(row)) == 32 for row in o.tolist())
        assert o.min() >= 32 and o.max() + 32 + 16 <= launch.REGION and not (o % 16).any()


@pytest.mark.parametrize("memory", [False, True])
def test_template_disassembles_to_what_was_meant(memory: bool) -> None:
    words, slot = T.code(memory)
    texts = [i.text if i else "?" for i in decode(words)]
    assert "?" not in texts
    assert texts[slot : slot + T.SLOT + T.SETTLE] == ["NOP"] * (T.SLOT + T.SETTLE)
    for text in (
        "S2R R0, SR_TID.X",
        "S2R R1, SR_CTAID.X",
        "IMAD R0, R1, R2, R0",
        "LDC.64 R4, c[0x0][0x210]",
        "LDG.E.128 R8, desc[UR4][R4.64]",
        "LDG.E.128 R24, desc[UR4][R4.64+0x30]",
        "R2UR UR24, R36",
        "ULOP3.LUT UP6, URZ, UR28, 0x40, URZ, 0xc0, !UPT",
        "R2P PR, R35, 0x7f",
        "P2R R40, PR, RZ, 0x7f",
        "UP2UR UR28, UPR, URZ, 0x7f",
        "MOV R36, UR24",
        "STG.E.128 desc[UR4][R4.64+0x20], R40",
    ):
        assert text in texts
    assert texts[-1] == "EXIT"
    assert all(i is not None and i.control.wait_mask == 63 for i in decode(words))


def test_a_form_that_does_nothing_leaves_its_inputs() -> None:
    """The template stores what it loaded: registers, uniform registers, predicates, shared and local
    memory.
    """
    runner = Runner({"register": T.build(memory=False), "memory": T.build(memory=True)})
    nop = encode.instruction("NOP")
    for template, uniform in (("register", False), ("register", True), ("memory", False)):
        form = Form(
            "NOP",
            "NOP",
            (nop,),
            ("f64", "i32", "f16"),
            template,
            uniform,
            "any" if template == "memory" else "",
        )
        ((_, out, _, error),) = runner.run([form])
        assert not error and np.array_equal(out, initial(form.to_json()))


def test_refused_and_undecodable_words_are_reported_not_raised() -> None:
    runner = Runner({"register": T.build(memory=False)})
    bad = Form("NOP", "?", (int.from_bytes(bytes(range(16)), "little"),))
    graphics = Form("NOP", "AL2P", (encode.control(0x920 | 7 << 12 | 16 << 16 | 8 << 24),))
    errors = [error for *_, error in runner.run([bad, graphics])]
    assert "nvdisasm" in errors[0] and "AL2P is not supported" in errors[1]


# --- the record


@pytest.mark.parametrize("row", evidence.BY_LAUNCH)
def test_the_catalog_kernel_named_for_a_row_executes_it(row: str) -> None:
    (entry,) = [k for k in kernels.all_kernels() if k.id == evidence.BY_LAUNCH[row]]
    module = program.compile(
        entry.path, arch="sm_90", options=entry.options, include_dirs=(entry.path.parent,)
    )
    assert row in {b.row.name for i in module[entry.entry].instructions if (b := bound_of(i)) is not None}


@recorded
def test_record_holds_every_row_of_sm_90() -> None:
    forms = load()["forms"]
    assert len(forms) >= 3000 and all(f["inputs"] >= 2048 for f in forms)
    assert {r for r in TABLE.rows if evidence.evidence(r) == "not measured"} == set()


@recorded
def test_simulator_leaves_the_bits_the_card_left() -> None:
    """A fixed third of the forms that were equal when the record was made (all rows among them)."""
    record = load()
    equal = [f for f in record["forms"] if f["equal"]]
    count: Counter[str] = Counter()
    sample = []
    for form in equal:
        count[form["row"]] += 1
        if count[form["row"]] % 3 == 1:
            sample.append(form)
    wanted = {launch.key(f): f["sha256"] for f in sample}
    runner = Runner(templates(record))
    bad = [
        f.sass
        for f, _, digest, _ in runner.run([Form.from_json(f) for f in sample])
        if digest != wanted[f.key]
    ]
    assert bad == []


@recorded
def test_every_form_still_decodes_to_its_row() -> None:
    forms = [f for f in load()["forms"] if len(f["code"]) == 1 and f["row"] not in ("BRA", "EXIT")]
    forms = [f for f in forms if "refused" not in f]
    for form, i in zip(forms, decode([int(f["code"][0], 16) for f in forms]), strict=True):
        b = bound_of(i)
        assert i is not None and b is not None and b.row.name == form["row"], form["sass"]


@recorded
def test_differing_forms_are_explained() -> None:
    """Either both sides refuse a form, or the record says why one does."""
    forms = [f for f in load()["forms"] if not f["equal"]]
    assert [f["sass"] for f in forms if not (f.get("why") or ("error" in f and "refused" in f))] == []

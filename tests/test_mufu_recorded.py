"""Recorded hardware: results of the multi-function unit of an H200, bit for bit.

``validation/measurements/h200/mufu.npz`` holds every 127th result of sweeps over whole binades and special
values; its entry ``about`` says how to read it.  docs/mufu.md tells how the tables were found.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from opcode_harness import Opcode, check, states

from gpusim import program
from gpusim.isa import mufu_tables, reference_mufu
from gpusim.isa.opcodes import TABLE
from gpusim.isa.reference import Call
from gpusim.simulate import run
from gpusim.validation.launches import HERE, PROBES

RECORD = np.load(HERE / "measurements" / "h200" / "mufu.npz")
SWEEPS = sorted(name for name in RECORD.files if name.count("|") == 2)
SPECIAL = sorted(name for name in RECORD.files if name.startswith("special|"))
WORDS = {
    "rcp_ftz": "RCP", "rsqrt_ftz": "RSQ", "sqrt_ftz": "SQRT", "ex2_ftz": "EX2", "lg2_ftz": "LG2",
    "sin_ftz": "SIN", "cos_ftz": "COS", "tanh": "TANH", "rcp64h": "RCP64H", "rsq64h": "RSQ64H",
}  # fmt: skip


def sweep(name: str) -> tuple[str, np.ndarray, np.ndarray]:
    """Probe, inputs and what the card gave."""
    probe, base, step = name.split("|")
    count = RECORD[name].size
    inputs = (int(base) + np.arange(count, dtype=np.int64) * int(step)).astype(np.uint32)
    return probe, inputs, np.cumsum(np.cumsum(RECORD[name].astype(np.int64))) & 0xFFFFFFFF


def argument(probe: str, inputs: np.ndarray) -> np.ndarray:
    """What MUFU gets: PTX sine and cosine multiply by 0.15915494 (FMUL.RZ) first."""
    if probe[:3] not in ("sin", "cos"):
        return inputs
    product = inputs.view(np.float32).astype(np.float64) * float(np.float32(0.15915494))  # 48 bits: exact
    return (product.view(np.int64) & -(1 << 29)).view(np.float64).astype(np.float32).view(np.uint32)


@cache
def probes() -> program.Module:
    return program.compile(PROBES, arch="sm_90")


def simulated(probe: str, inputs: np.ndarray) -> np.ndarray:
    """The probe's kernel on the inputs (its block has 256 threads)."""
    padded = np.resize(inputs, -(-inputs.size // 256) * 256)
    result = run(probes()[f"p_{probe}"], padded.size // 256, 256, [padded, np.zeros_like(padded)])
    return result[1][: inputs.size]


def fixed(probe: str, bits: np.ndarray) -> np.ndarray:
    """As the record holds results: of sine and cosine 24 bits behind the point, else all bits."""
    if probe[:3] not in ("sin", "cos"):
        return bits.astype(np.int64)
    return np.round(bits.view(np.float32).astype(np.float64) * 2.0**24).astype(np.int64) & 0xFFFFFFFF


def test_record_covers_every_function() -> None:
    assert {name.split("|")[0] for name in SWEEPS} == set(WORDS) - {"rcp64h", "rsq64h"}
    assert {name.split("|")[1] for name in SPECIAL} == set(WORDS)
    assert sum(RECORD[name].size for name in SWEEPS) == 1_184_845


@pytest.mark.parametrize("name", SWEEPS)
def test_handlers_leave_the_bits_the_card_left(name: str) -> None:
    probe, inputs, measured = sweep(name)
    assert np.flatnonzero(fixed(probe, simulated(probe, inputs)) != measured).tolist() == []


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values_are_the_cards(name: str) -> None:
    """Zeros, denormals, infinities, NaN, the ends of the range."""
    inputs, measured = RECORD[name]
    assert simulated(name.split("|")[1], inputs).tolist() == measured.tolist()


def reference(word: str, a: int) -> int:
    """One lane of the reference, without source modifiers."""
    lanes = np.ones(32, bool)
    call = Call("MUFU", (word,), (), lanes, lanes, lanes, lanes)
    return int((reference_mufu.mufu64 if word.endswith("64H") else reference_mufu.mufu)(call, a))


@pytest.mark.parametrize("name", [n for n in SPECIAL if n.split("|")[1][:3] not in ("sin", "cos")])
def test_the_reference_gives_the_special_values(name: str) -> None:
    word, (inputs, measured) = WORDS[name.split("|")[1]], RECORD[name]
    shift = 32 if word.endswith("64H") else 0
    assert [reference(word, int(a) >> shift) for a in inputs] == [int(r) >> shift for r in measured]


@pytest.mark.parametrize("name", SWEEPS)
def test_the_reference_gives_what_the_card_gave(name: str) -> None:
    """Every 199th of the recorded results."""
    probe, inputs, measured = sweep(name)
    got = np.array([reference(WORDS[probe], int(a)) for a in argument(probe, inputs)[::199]], np.uint32)
    assert np.flatnonzero(fixed(probe, got) != measured[::199]).tolist() == []


@pytest.mark.parametrize("word", sorted(WORDS.values()))
def test_handler_and_reference_agree(word: str) -> None:
    """On random bits and the special values of the harness."""
    opcode = Opcode(f"@P6 MUFU.{word} R0, -R4")

    @settings(deadline=None, max_examples=40, database=None, phases=[Phase.generate])
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        check(opcode, data.draw(states(opcode)))

    compare()


def test_results_are_claimed_exact() -> None:
    assert [TABLE.rows[name].bound for name in ("MUFU", "MUFU.RCP64H", "MUFU.RSQ64H")] == [None] * 3


# --- by hand


def test_the_squarer_drops_products_below_2_to_the_18() -> None:
    assert reference_mufu.square(1 << 16) == 1 << 13  # 2^32 / 2^19
    assert reference_mufu.square(1 << 16 | 1 << 2) == (1 << 13) + 1  # twice 2^18 more
    assert reference_mufu.square(1 << 16 | 1 << 1) == 1 << 13  # twice 2^17: dropped
    assert reference_mufu.square(1 << 9) == 0 and reference_mufu.square(3 << 9) == 4  # 9 * 2^18 / 2^19 = 4.5


def test_one_sum_by_hand() -> None:
    """1 / 1.5: segment 64, nothing below; 44739242 * 2^13 + 0x47e7 = 366503888871, in units of 2^-39."""
    assert mufu_tables.RCP.rows[64][0] == 44739242
    assert 44739242 * 2**13 + 0x47E7 == 366503888871
    assert 366503888871 >> 15 == 0xAAAAAB  # 24 bits of 2/3, rounded
    assert reference("RCP", 0x3FC00000) == 0x3F2AAAAB


def test_coefficients_have_the_widths_of_the_unit() -> None:
    """26, 16 and 10 bits, of the sine one less for c1 and one more for c2."""
    for table, c1_bits, c2_bits in (
        (mufu_tables.RCP, 16, 10), (mufu_tables.RSQ, 16, 10), (mufu_tables.EX2, 16, 10),
        (mufu_tables.LG2, 16, 10), (mufu_tables.SIN, 15, 11),
    ):  # fmt: skip
        assert all(0 <= c0 < 1 << 26 and abs(c1) < 1 << c1_bits and abs(c2) < 1 << c2_bits
                   for c0, c1, c2 in table.rows)

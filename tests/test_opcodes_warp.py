"""Warp, special-register and tensor-core rows against their references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from opcode_harness import (
    BF16_SPECIAL,
    F16_SPECIAL,
    F64_SPECIAL,
    Opcode,
    State,
    blank,
    check,
    name_of,
    opcode_of,
    states,
)

from gpusim.isa.reference_float import BF16, F16, F32, Format, decode
from gpusim.isa.reference_warp import hmma_shape

FORMS: list[str | tuple[str, int]] = [
    *(
        f"S2R R0, {name}"
        for name in (
            "SR_TID.X",
            "SR_TID.Y",
            "SR_TID.Z",
            "SR_CTAID.X",
            "SR_CTAID.Y",
            "SR_CTAID.Z",
            "SR_LANEID",
            "SR_EQMASK",
            "SR_LTMASK",
            "SR_LEMASK",
            "SR_GTMASK",
            "SR_GEMASK",
            "SR_WARPID",
        )
    ),
    "S2UR UR4, SR_CTAID.X",
    "CS2R R2, SRZ",
    "CS2R.32 R0, SRZ",
    "CS2UR UR4, SRZ",
    "LDC R0, c[0x0][0x28]",
    "LDC.64 R2, c[0x0][0x210]",
    "ULDC UR8, c[0x0][0x180]",
    "ULDC.64 UR6, c[0x0][0x118]",
    "R2UR UR9, R4",
    "R2UR P1, URZ, R4",
    "R2UR P1, UR6, R4",
    "VOTE.ALL P0, P0",
    "VOTE.ANY R4, PT, P0",
    "VOTE.ANY R0, P1, !P2",
    "VOTE.ALL R0, P1, P2",
    "VOTE.EQ P1, P2",
    "VOTEU.ANY UR4, UPT, PT",
    "VOTEU.ALL UR4, UP1, P2",
    "VOTEU.ANY UR4, UP1, !P3",
    *(
        f"SHFL.{w} {p}, R0, R4, {b}, {c}"
        for w in ("IDX", "UP", "DOWN", "BFLY")
        for p, b, c in (
            ("PT", "R5", "R6"),
            ("P1", "0x5", "0x1f"),
            ("P2", "0x1", "RZ"),
            ("P1", "R5", "0x1c03"),
        )
    ),
    "SHFL.IDX PT, R4, R4, R4, R4",
    "MATCH.ANY R0, R4",
    "MATCH.ALL P0, R4, R4",
    "MATCH.ANY.U64 R0, R4",
    "MATCH.ALL.U64 P1, R0, R4",
    "MATCH.U64.ANY R0, R4",
    "MATCH.U64.ALL P0, R0, R4",
    *(
        f"REDUX{w} UR5, R4"
        for w in ("", ".SUM", ".SUM.S32", ".OR", ".XOR", ".MIN", ".MAX", ".MIN.S32", ".MAX.S32")
    ),
    "UREDUX.MAX UR5, R4",
    "ELECT P0, UR4, PT",
    "ELECT P1, URZ, PT",
    "B2R.RESULT R0",
    "B2R.RESULT R0, P1",
    "BMOV.32 B6, R16",
    "BMOV.32.CLEAR R16, B6",
    "BMOV.32 R16, B3",
    "MOVM.16.MT88 R0, R4",
    "MOVM.16.MT88 R4, R4",
]


@pytest.mark.parametrize("index", range(len(FORMS)), ids=lambda i: name_of(FORMS[i]))
def test_form(index: int) -> None:
    opcode = opcode_of(FORMS[index], 1)

    @settings(deadline=None, max_examples=15, database=None, phases=[Phase.generate])
    @given(st.data())
    def run(data: st.DataObject) -> None:
        state = data.draw(states(opcode))
        state.result = data.draw(st.sampled_from([0, 1, 32, 1024]))
        if "MATCH" in opcode.text:  # few values, so that lanes agree
            few = data.draw(st.integers(0, 3))
            for k in (4, 5):
                state.register(k)[:] &= few
        if "MOVM" in opcode.text:  # a whole-warp instruction
            state.active[:] = True
            state.predicate(6)[:] = 0
        check(opcode, state)

    run()


def test_collectives_by_hand() -> None:
    """Ballot, shuffle, match and reduction of lanes 0 to 3, where the answers are plain."""
    state = blank()
    state.active[:] = np.arange(32) < 4
    state.predicate(0)[:] = [0xFFFFFFFF, 0, 0xFFFFFFFF, 0xFFFFFFFF, *[0xFFFFFFFF] * 28]
    state.register(4)[:] = [7, 5, 7, 9, *[1] * 28]
    assert Opcode("VOTE.ANY R0, PT, P0").run(state).register(0)[:4].tolist() == [0b1101] * 4
    assert Opcode("SHFL.BFLY PT, R0, R4, 0x1, 0x1f").run(state).register(0)[:4].tolist() == [5, 7, 9, 7]
    assert Opcode("SHFL.UP P1, R0, R4, 0x1, RZ").run(state).register(0)[:4].tolist() == [7, 7, 5, 7]
    assert Opcode("MATCH.ANY R0, R4").run(state).register(0)[:4].tolist() == [0b101, 0b10, 0b101, 0b1000]
    assert Opcode("REDUX.SUM UR5, R4").run(state).rows[48 + 5].tolist() == [28] * 32


# --- tensor core: whole-warp instructions

IMMA = [
    "IMMA.16832.S8.S8 R8, R12.ROW, R16.COL, RZ",
    "IMMA.16832.U8.S8 R8, R12.ROW, R16.COL, R8",
    "IMMA.16816.S8.U8 R8, R12.ROW, R16.COL, R20",
    "IMMA.16816.U8.U8.SAT R8, R12.ROW, R16.COL, R20",
    "IMMA.8816.S8.S8.SAT R8, R12.ROW, R16.COL, R20",
    "IMMA.16832.S8.S8.SAT R8, R12.ROW, R16.COL, R20",
]
HMMA = [
    "HMMA.16816.F16 R8, R12, R16, RZ",
    "HMMA.16816.F32 R8, R12, R16, R8",
    "HMMA.16816.F32.BF16 R8, R12, R16, R20",
    "HMMA.1688.F16 R8, R12, R16, R20",
    "HMMA.1688.F32 R8, R12, R16, R20",
    "HMMA.1688.F32.BF16 R8, R12, R16, RZ",
    "HMMA.1688.F32.TF32 R8, R12, R16, RZ",
    "HMMA.1684.F32.TF32 R8, R12, R16, R20",
]
DMMA = ["DMMA.884 R8, R2, R4, RZ", "DMMA.8x8x4 R8, R2, R4, R8"]


@pytest.mark.parametrize("form", IMMA)
def test_imma(form: str) -> None:
    opcode = Opcode(form)

    @settings(deadline=None, max_examples=10, database=None, phases=[Phase.generate])
    @given(st.integers(0, 1 << 30), st.booleans())
    def run(seed: int, extreme: bool) -> None:
        state = blank(seed)
        if extreme:  # accumulators near the limits, bytes of one sign
            for k in range(12, 20):
                state.register(k)[:] = 0x7F7F7F7F if seed & 1 else 0x80808080
            for k in (*range(8, 12), *range(20, 24)):
                state.register(k)[::2] = 0x7FFFFFF0
                state.register(k)[1::2] = 0x8000000F
        check(opcode, state)

    run()


def _encoded(values: np.ndarray, f: Format) -> np.ndarray:
    """Small integers as bits of a format (exact in all of them)."""
    single = values.astype(np.float32).view(np.uint32)
    if f is F16:
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    return single >> 16 if f is BF16 else single


def _fill(state: State, registers: range, f: Format, random: np.random.Generator, largest: int) -> None:
    """Integers up to ``largest`` in size."""
    for k in registers:
        word = _encoded(random.integers(-largest, largest + 1, 32), f)
        if f.bits == 16:
            word = word | _encoded(random.integers(-largest, largest + 1, 32), f) << np.uint32(16)
        state.register(k)[:] = word


@pytest.mark.parametrize("form", HMMA)
def test_hmma_integers_are_exact(form: str) -> None:
    opcode = Opcode(form)
    _, _, f = hmma_shape(opcode.instruction.modifiers)
    result = F16 if opcode.instruction.modifiers[1] == "F16" else F32

    @settings(deadline=None, max_examples=10, database=None, phases=[Phase.generate])
    @given(st.integers(0, 1 << 30))
    def run(seed: int) -> None:
        state, random = blank(seed), np.random.default_rng(seed)
        _fill(state, range(12, 18), f, random, 11)
        _fill(state, range(20, 24), result, random, 99)
        _fill(state, range(8, 12), result, random, 99)
        check(opcode, state)

    run()


@pytest.mark.parametrize("form", [h for h in HMMA if "F32" in h])
def test_hmma_bound(form: str) -> None:
    """Terms are cut 2^-24 below the largest, the sum is cut to fp32: 17 terms and one last place, a sum."""
    opcode = Opcode(form)
    _k, _per_word, f = hmma_shape(opcode.instruction.modifiers)

    @settings(deadline=None, max_examples=8, database=None, phases=[Phase.generate])
    @given(st.integers(0, 1 << 30), st.integers(0, 12))
    def run(seed: int, spread: int) -> None:
        state, random = blank(seed), np.random.default_rng(seed)

        def noise() -> np.ndarray:
            return (random.standard_normal(32) * 2.0 ** random.integers(-spread, spread + 1, 32)).astype(
                np.float32
            )

        largest = 0.0
        for register in range(8, 24):
            data = noise()
            largest = max(largest, float(np.abs(data).max()))
            if register < 18 and register >= 12 and f is not F32:
                pair = [
                    np.array(v, np.float16).view(np.uint16).astype(np.uint32)
                    if f is F16
                    else v.view(np.uint32) >> 16
                    for v in (data, noise())
                ]
                largest = max(largest, *(abs(float(decode(f, int(b)).value)) for v in pair for b in v))
                state.register(register)[:] = pair[0] | pair[1] << np.uint32(16)
            else:
                state.register(register)[:] = data.view(np.uint32)
        bound = 18 * 2.0**-24 * max(largest * largest, largest)

        def compare(opcode: Opcode, state: State, got: State, want: State) -> None:
            for r in range(8, 12):
                a, b = (s.register(r).view(np.float32).astype(np.float64) for s in (got, want))
                assert (np.abs(a - b) <= bound + 2.0**-23 * np.abs(b)).all(), opcode.text
                got.register(r)[:] = want.register(r)

        check(opcode, state, compare)

    run()


@pytest.mark.parametrize("form", HMMA)
def test_hmma_specials(form: str) -> None:
    """An infinity or a NaN in one input reaches the results that use it; the others stay finite."""
    opcode = Opcode(form)
    _, _per_word, f = hmma_shape(opcode.instruction.modifiers)
    result = F16 if opcode.instruction.modifiers[1] == "F16" else F32
    for value in (f.infinity, f.infinity | f.sign, f.infinity | 1 << (f.fraction - 1)):
        state, random = blank(value & 0xFFFF), np.random.default_rng(value & 0xFFFF)
        _fill(state, range(12, 18), f, random, 3)
        _fill(state, range(20, 24), result, random, 9)
        _fill(state, range(8, 12), result, random, 9)
        state.register(12)[9] = value
        check(opcode, state)


@pytest.mark.parametrize("form", DMMA)
def test_dmma(form: str) -> None:
    opcode = Opcode(form)

    @settings(deadline=None, max_examples=10, database=None, phases=[Phase.generate])
    @given(st.integers(0, 1 << 30), st.lists(st.sampled_from(F64_SPECIAL), min_size=8, max_size=8))
    def run(seed: int, special: list[int]) -> None:
        state, random = blank(seed), np.random.default_rng(seed)
        for register in (2, 4, 8, 10):
            values = random.standard_normal(32).view(np.uint64)
            values[random.integers(0, 32, 2)] = special[:2]
            state.register(register)[:], state.register(register + 1)[:] = (
                values & np.uint64(0xFFFFFFFF),
                values >> np.uint64(32),
            )
        check(opcode, state)

    run()


def test_special_tables_hold_their_formats() -> None:
    """The half specials used across these tests decode to finite, infinite and NaN values of both kinds."""
    for f, table in ((F16, F16_SPECIAL), (BF16, BF16_SPECIAL)):
        assert {decode(f, v).kind for v in table} == {"finite", "inf", "nan"}

"""The opcode table as a whole: each data row has a reference and a tested form; operands, by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import test_opcodes_float
import test_opcodes_integer
import test_opcodes_memory
import test_opcodes_warp
from opcode_harness import REFERENCE, Opcode, blank, check, name_of

from gpusim.errors import UnsupportedError
from gpusim.functional import layout as L
from gpusim.isa.opcodes import TABLE
from gpusim.isa.reference_float import BF16, F16, F32, encode, finite

TESTED = [
    *test_opcodes_integer.FORMS,
    *test_opcodes_float.FORMS,
    *test_opcodes_warp.FORMS,
    *test_opcodes_memory.FORMS,
    *test_opcodes_warp.IMMA,
    *test_opcodes_warp.HMMA,
    *test_opcodes_warp.DMMA,
    *test_opcodes_float.MUFU_FORMS,
]
DATA_ROWS = {r.name for r in TABLE.rows.values() if not r.control}


def test_every_data_row_has_a_reference() -> None:
    assert set(REFERENCE) == DATA_ROWS


def test_every_data_row_has_a_tested_form() -> None:
    rows = set()
    for form in TESTED:
        text, immediate = form if isinstance(form, tuple) else (form, 0)
        rows.add(Opcode(text, immediate).row.name)
    assert rows == DATA_ROWS


def test_forms_are_listed_once() -> None:
    names = [name_of(f) for f in TESTED]
    assert sorted(names) == sorted(set(names))


# --- the harness sees a wrong value


def test_a_wrong_reference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REFERENCE, "IABS", lambda call, a: (a.astype(np.uint64),))
    state = blank()
    state.register(4)[:] = 0xFFFFFFFF
    with pytest.raises(AssertionError, match="IABS R0, R4: row 132"):
        check(Opcode("IABS R0, R4"), state)


# --- operands, by hand


def test_inactive_lanes_and_false_guards_keep_their_values() -> None:
    state = blank()
    state.register(0)[:], state.register(4)[:] = 1, 41
    state.active[:] = np.arange(32) >= 8
    state.predicate(3)[:] = np.where(np.arange(32) % 2 == 0, 0xFFFFFFFF, 0).astype(np.uint32)
    after = Opcode("@P3 IADD3 R0, R4, 0x1, RZ").run(state).register(0)
    assert after.tolist() == [1] * 8 + [42, 1] * 12
    after = Opcode("@!P3 IADD3 R0, R4, 0x1, RZ").run(state).register(0)
    assert after.tolist() == [1] * 8 + [1, 42] * 12


def test_uniform_destinations_are_written_whole() -> None:
    state = blank()
    state.active[:] = np.arange(32) == 5
    state.rows[L.ROW_UR + 5] = 20
    state.register(4)[:] = np.arange(32)
    assert Opcode("UIADD3 UR4, UR5, 0x3, URZ").run(state).rows[L.ROW_UR + 4].tolist() == [23] * 32
    assert Opcode("R2UR UR4, R4").run(state).rows[L.ROW_UR + 4].tolist() == [5] * 32
    state.predicate(1, uniform=True)[:] = 0
    assert Opcode("@UP1 UMOV UR5, URZ").run(state).rows[L.ROW_UR + 5].tolist() == [20] * 32


@pytest.mark.parametrize("text", ["IADD3 RZ, PT, R4, R5, R6", "IMAD.WIDE RZ, R4, R5, R6", "LDS.128 RZ, [RZ]"])
def test_rz_and_pt_stay_what_they_are(text: str) -> None:
    """Writes to RZ and PT vanish: both read as before, in the same launch."""
    before = blank()
    after = Opcode(text).run(before)
    kept = [
        r for r in range(after.rows.shape[0]) if r not in (*range(L.ROW_TRASH, L.ROW_TRASH + 4), L.ROW_PTRASH)
    ]
    assert np.array_equal(after.rows[kept], before.rows[kept])
    assert not after.rows[L.ROW_ZERO : L.ROW_ZERO + 4].any() and (after.rows[L.ROW_TRUE] == 0xFFFFFFFF).all()


def test_a_destination_may_be_a_source() -> None:
    """All sources are read before anything is written: R4:R5 = R4 * R5 + R4:R5."""
    state = blank()
    state.register(4)[:], state.register(5)[:] = 3, 7
    after = Opcode("IMAD.WIDE.U32 R4, R4, R5, R4").run(state)
    assert after.register(4).tolist() == [24] * 32 and after.register(5).tolist() == [7] * 32


def test_immediates_and_constants() -> None:
    state = blank()
    state.register(4)[:] = np.float32(2.0).view(np.uint32)
    state.memory["const"][0x20:0x24] = np.array([0x40400000], "<u4").view(np.uint8)
    assert (Opcode("FADD R0, R4, 1.5", 0x3FC00000).run(state).register(0).view(np.float32) == 3.5).all()
    assert (Opcode("FMUL R0, R4, -c[0x0][0x20]").run(state).register(0).view(np.float32) == -6.0).all()
    assert (Opcode("MOV R0, 0x12345678").run(state).register(0) == 0x12345678).all()


@pytest.mark.parametrize(
    "text",
    [
        "IADD3.FOO R0, R4, R5, R6",
        "FADD R0, R4",
        "WOBBLE R0, R4",
        "HMNMX2.XORSIGN R0, R4, R5, PT",
        "FSWZADD.NDV R0, R4, R5, PNPN",
        "MOVM.16.M832 R0, R4",
        "CALL.ABS.NOINC R2",
        "CALL.ABS.NOINC f",
        "RET.ABS.NODEC R20, 0x0",
        "JMX R2",
        "KILL",
        "BPT.INT",
        "CCTLL.IVALL [R2]",
        "ELECT P0, UR4, P1",
        "ELECT P0, UR4, !PT",
        "VHMNMX.FTZ R0, R4, R5, R6, PT",
    ],
)
def test_what_no_row_holds_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError):
        Opcode(text)


# --- the references themselves, against values worked out by hand


def test_rounding_of_the_references() -> None:
    third = Fraction(1, 3)
    # 1/3 = 0x3eaaaaaa|aaa...: nearest and up go to ..ab
    assert [encode(F32, finite(third), m) for m in ("RN", "RZ", "RM", "RP")] == [
        0x3EAAAAAB, 0x3EAAAAAA, 0x3EAAAAAA, 0x3EAAAAAB]
    assert [encode(F32, finite(-third), m) for m in ("RZ", "RM", "RP")] == [
        0xBEAAAAAA,
        0xBEAAAAAB,
        0xBEAAAAAA,
    ]
    assert encode(F16, finite(2049)) == 0x6800 and encode(F16, finite(2051)) == 0x6802  # ties to even
    assert encode(F16, finite(65519)) == 0x7BFF and encode(F16, finite(65520)) == 0x7C00
    assert encode(F16, finite(65520), "RZ") == 0x7BFF and encode(F16, finite(-65520), "RP") == 0xFBFF
    assert encode(BF16, finite(257)) == 0x4380 and encode(BF16, finite(259)) == 0x4382
    tiny = Fraction(1, 2**150)  # half of the least fp32 denormal
    assert [encode(F32, finite(tiny), m) for m in ("RN", "RP", "RM")] == [0, 1, 0]
    assert encode(F32, finite(3 * tiny)) == 2 and encode(F32, finite(-tiny)) == 0x80000000

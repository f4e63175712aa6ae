"""Golden: operands as versions of nvdisasm print them (13.0 and 13.5, on the project's kernels)."""

from __future__ import annotations

import pytest

from gpusim.isa.instruction import Operand
from gpusim.isa.sass import parse_instruction


@pytest.mark.parametrize(
    ("opcode", "old", "new"),
    [
        ("LDS", "R4[R5+0x220]", "R4,[R5+0x220]"),
        ("LDS.128", "R12[UR5]", "R12,[UR5]"),
        ("ATOMS.POPC.INC.32", "RZ[R18+URZ]", "RZ,[R18+URZ]"),
        ("ATOMG.E.CAS.STRONG.GPU", "PT,R0[R2],R6,R7", "PT,R0,[R2],R6,R7"),
        ("QSPC.E.S", "P0,RZ[R2]", "P0,RZ,[R2]"),
        ("LDGSTS.E.BYPASS.128", "desc[UR6][R2.64][R7+0x600]", "[R7+0x600],desc[UR6][R2.64]"),
        ("LDGSTS.E.BYPASS.128", "[R7+0x600][R2.64]", "[R7+0x600],[R2.64]"),
    ],
)
def test_missing_commas_change_nothing(opcode: str, old: str, new: str) -> None:
    a, b = (parse_instruction(0, opcode, text, None, 0) for text in (old, new))
    assert a.operands == b.operands


def test_operands_that_have_brackets_of_their_own() -> None:
    i = parse_instruction(0x40, "FFMA", "R0,R1.reuse,-c[0x0][0x210],|R3|", "@!P2", 0)
    assert [o.kind for o in i.operands] == ["R", "R", "const", "R"]
    assert i.operands[2].bank == 0 and i.operands[2].value == 0x210 and i.operands[2].neg
    assert i.operands[1].reuse and i.operands[3].abs
    assert i.guard == Operand("P", 2, not_=True, text="!P2")


def test_floating_immediates_come_from_the_encoding() -> None:
    third = 0x3EAAAAAB  # 1/3 in fp32; printed rounded
    i = parse_instruction(0, "FMUL", "R0,R1,0.3333333", None, third << 32)
    assert i.operands[2].value == third and i.operands[2].is_float


def test_a_single_printed_carry_may_be_the_second() -> None:
    """Both encodings print ``IADD3.X R24, P3, ...``; the places of the carries are bits 81-83 and 84-86."""
    operands = "R24,P3,R8,R12,R16,P0,!P4"
    first = parse_instruction(0, "IADD3.X", operands, None, 3 << 81 | 7 << 84)
    second = parse_instruction(0, "IADD3.X", operands, None, 7 << 81 | 3 << 84)
    assert [(o.kind, o.index) for o in first.operands[1:3]] == [("P", 3), ("R", 8)]
    assert [(o.kind, o.index) for o in second.operands[1:4]] == [("P", 7), ("P", 3), ("R", 8)]
    assert first.text == second.text

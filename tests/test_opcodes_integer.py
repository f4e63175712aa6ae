"""Integer, logic, predicate and move rows against their references, over special values."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from opcode_harness import check, name_of, opcode_of, states

FORMS: list[str | tuple[str, int]] = [
    "IADD3 R0, R4, R5, R6", "IADD3 R0, R4, 0x100, RZ", "IADD3 R4, -R4, R5, -R6", "IADD3 R0, P1, R4, R5, RZ",
    "IADD3 R0, P1, P2, R4, R5, R6", "IADD3 R0, P0, R4, -R5, RZ", "IADD3 RZ, P0, R4, R5, R6", "IADD3 R5, PT, R4, R5, R5",
    "IADD3.X R0, R4, R5, RZ, P1, !PT", "IADD3.X R0, P1, R4, ~R5, R6, P0, !PT", "IADD3.X R0, R4, R5, R6, P0, P1",
    "IADD3.X R0, RZ, ~R5, c[0x0][0x20], !P2, !PT", "IADD3 R0, -UR4, R5, c[0x0][0x164]",
    "UIADD3 UR4, UR4, 0x20, URZ", "UIADD3 UR4, UP0, UR4, -UR5, UR6", "UIADD3.X UR7, URZ, UR7, URZ, UP0, !UPT",
    "IADD R0, R4, R5", "IADD.X R0, P1, R4, -R5, P0", "VIADD R4, R0, UR5", "VIADD R4, R5, -0x3", "UVIADD UR4, UR5, 0x7",
    "IMAD R0, R4, R5, R6", "IMAD R4, R4, c[0x0][0x10], -R4", "IMAD R0, R4, UR6, R5", "IMAD.MOV R0, RZ, RZ, -R7",
    "IMAD.MOV.U32 R0, RZ, RZ, c[0x0][0x28]", "IMAD.SHL.U32 R0, R4, 0x8, RZ", "IMAD.U32 R0, R4, 0x10000, RZ",
    "IMAD.IADD R0, R4, 0x1, -R5", "IMAD.IADD.U32 R0, R4, 0x1, R5", "IMAD.X R0, RZ, RZ, R5, P1",
    "IMAD.U32.X R0, R4, 0x2, R5, P0", "IMAD.X R0, R4, R5, R6, !P1", "UIMAD UR7, UR6, UR7, UR5",
    "IMAD.WIDE R2, R4, R5, R6", "IMAD.WIDE R4, R4, 0x4, R4", "IMAD.WIDE R2, R4, R5, c[0x0][0x160]",
    "IMAD.WIDE.U32 R2, R4, R5, R6", "IMAD.WIDE.U32 R2, P0, R4, R5, R6", "IMAD.WIDE.U32.X R2, R4, R5, R6, P1",
    "IMAD.WIDE.U32.X R2, P2, R4, R5, R6, P1", "IMAD.WIDE RZ, R4, R5, R6", "UIMAD.WIDE UR6, UR4, 0x4, UR6",
    "UIMAD.WIDE.U32 UR4, UR6, UR15, URZ",
    "IMAD.HI R0, R4, 0x38e38e39, RZ", "IMAD.HI.U32 R0, R4, R5, R6", "IMAD.HI R4, R4, R5, R6",
    "UIMAD.HI.U32 UR4, UR6, UR7, UR8", "IMAD.WIDE R2, R4, -R5, R6",
    "LEA R0, R4, R5, 0x6", "LEA R0, P0, R4, R5, 0x2", "LEA R0, -R4, R5, 0x3", "LEA R0, P0, R4, -R5, 0x1f",
    "LEA.HI R0, R4, R5, RZ, 0x4", "LEA.HI R0, P1, R4, R5, R6, 0x1f", "LEA.HI.SX32 R0, R4, R5, 0x1a",
    "LEA.HI.X R0, R4, c[0x0][0x164], R6, 0x2, P4", "LEA.HI.X.SX32 R0, R4, R5, 0x1, P4", "LEA.HI.X R4, R4, R4, R4, 0x0, !P0",
    "ULEA UR6, UR9, 0x10, 0x5", "ULEA.HI UR5, UR5, UR4, URZ, 0x7", "ULEA.HI.X UR6, UR8, UR7, URZ, 0x2, UP0",
    *(f"ISETP.{c}.AND P0, PT, R4, R5, PT" for c in ("LT", "LE", "GT", "GE", "EQ", "NE", "F", "T")),
    *(f"ISETP.{c}.U32.OR P0, P1, R4, c[0x0][0xc], !P2" for c in ("LT", "LE", "GT", "GE")),
    *(f"ISETP.{c}.AND.EX P0, PT, R4, R5, PT, P3" for c in ("LT", "LE", "GT", "GE", "EQ", "NE")),
    *(f"ISETP.{c}.U32.AND.EX P0, PT, R4, RZ, P1, !P3" for c in ("LE", "GT", "GE", "EQ", "NE", "LT")),
    "ISETP.GT.XOR P0, PT, R4, R5, !P0", "ISETP.GE.AND PT, P1, R4, 0x1f, P0", "ISETP.NE.AND P0, PT, RZ, UR5, PT",
    "UISETP.GE.AND UP0, UPT, UR4, UR8, UPT", "UISETP.GE.U32.AND UP0, UP1, UR5, 0x40, UP2", "UISETP.NE.AND UP0, UPT, UR4, URZ, !UP1",
    *(f"LOP3.LUT R0, R4, R5, R6, {t:#x}, !PT" for t in (0x00, 0x01, 0x1E, 0x3C, 0x6A, 0x78, 0x96, 0xC0, 0xE8, 0xEA, 0xF8, 0xFC, 0xFF)),
    "LOP3.LUT P0, R0, R4, 0x3, RZ, 0xc0, !PT", "LOP3.LUT P0, RZ, R4, R5, RZ, 0xc0, P1", "LOP3.LUT R4, ~R4, R5, R4, 0x80, !PT",
    "LOP3.LUT.PAND P0, RZ, R4, R5, R6, 0x80, P1", "ULOP3.LUT UR9, UR5, 0x1, URZ, 0x3c, !UPT", "ULOP3.LUT UP0, UR9, UR5, UR6, UR7, 0xd8, UPT",
    "PLOP3.LUT P0, PT, P0, P1, P2, 0xe0, 0x0", "PLOP3.LUT P0, P1, !P2, P3, !PT, 0x2a, 0xd5", "PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0",
    "UPLOP3.LUT UP0, UP1, UP2, UP3, !UP4, 0x96, 0x40",
    "SHF.L.U32 R0, R4, R5, RZ", "SHF.L.U32 R0, R4, 0x6, RZ", "SHF.L.U32.HI R0, R4, R5, R6", "SHF.L.U64.HI R0, R4, R5, R6",
    "SHF.L.W.U32.HI R4, R4, R5, R4", "SHF.L.W.U32 R0, R4, R5, R6", "SHF.R.S32.HI R0, RZ, R5, R6", "SHF.R.S32.HI R0, R4, 0x1f, R6",
    "SHF.R.S64 R0, R4, R5, R6", "SHF.R.U32 R0, R4, R5, R6", "SHF.R.U32.HI R0, RZ, R5, R6", "SHF.R.U64 R0, R4, R5, R6",
    "SHF.R.W.U32 R0, R4, R5, R6", "SHF.R.W.U32.HI R0, R4, R5, R6", "SHF.R.S64.HI R0, R4, R5, R6", "SHF.R.U64.HI R0, R4, R5, R6",
    "SHF.L.U64 R0, R4, R5, R6", "SHF.L.W.U64.HI R0, R4, R5, R6", "SHF.R.W.S32.HI R0, R4, R5, R6",
    "USHF.L.U32 UR5, UR5, 0x5, URZ", "USHF.L.U64.HI UR4, UR5, 0x2, UR4", "USHF.R.S32.HI UR5, URZ, 0x1f, UR4", "USHF.R.U32.HI UR5, URZ, UR6, UR4",
    "IMNMX R0, R4, R5, PT", "IMNMX R0, R4, 0x18, !PT", "IMNMX.U32 R4, R4, R5, P0", "UIMNMX UR4, UR5, UR6, UPT",
    "VIMNMX R0, R4, R5, !PT", "VIMNMX.U32 R0, R4, 0x2, PT", "VIMNMX.RELU R0, R4, R5, P1", "VIMNMX R0, P0, R4, R5, P1",
    "UVIMNMX UR4, UR5, UR6, UP0", "VIADDMNMX R0, R4, -R5, 0xb9600000, !PT", "VIADDMNMX.U32 R0, R4, R5, R6, PT",
    "VIADDMNMX.RELU R0, R4, R5, R6, P0", "UVIADDMNMX UR4, UR5, UR6, UR7, UPT",
    "I2I.S8.S32.SAT R0, R4", "I2I.U8.S32.SAT R0, R4", "I2I.U16.U32.SAT R0, R4", "I2I.S16.U32.SAT R0, R4", "I2I.U32.S32.SAT R0, R4",
    "I2I.S32.U32.SAT R0, R4",
    "IABS R0, R4", "IABS R4, R4", "UIABS UR4, UR5", "FLO.U32 R0, R4", "FLO.U32.SH R0, R4", "FLO R0, P0, R4", "FLO.SH R0, R4",
    "UFLO.U32 UR4, UR4", "UFLO.U32.SH UR4, UP0, UR5", "POPC R0, R4", "POPC R0, ~R4", "UPOPC UR5, UR4", "BREV R0, R4", "UBREV UR5, UR4",
    "PRMT R0, R4, R5, R6", "PRMT R4, R4, 0x7610, R6", "PRMT R0, RZ, 0xba98, R6", *(f"PRMT.{m} R0, R4, R5, R6" for m in (
        "F4E", "B4E", "RC8", "ECL", "ECR", "RC16")), "UPRMT UR4, UR5, 0x5410, UR6",
    "SEL R0, R4, R5, P0", "SEL R0, RZ, 0xffffffff, !P0", "SEL R0, R4, UR5, UP1", "SEL R0, -R4, R5, P0", "USEL UR7, UR4, UR15, UP0",
    "SGXT R0, R4, R5", "SGXT.U32 R0, R4, R5", "SGXT.W R0, R4, R5", "SGXT.W.U32 R0, R4, 0x8", "USGXT UR4, UR5, 0x10",
    "BMSK R0, R4, R5", "BMSK.C R0, R4, 0x8", "BMSK.W R0, R4, R5", "UBMSK UR4, UR5, UR6",
    *(f"IDP.4A.{a}.{b} R0, R4, R5, R6" for a in ("U8", "S8") for b in ("U8", "S8")),
    "IDP.2A.HI.U16.U8 R0, R4, R5, R6", "IDP.2A.LO.S16.S8 R0, R4, R5, -R6", "IDP.2A.LO.S16.U8 R0, R4, R5, R6", "IDP.2A.HI.U16.S8 R0, R4, R5, RZ",
    "VABSDIFF R0, R4, R5, R6", "VABSDIFF.U32 R0, R4, R5, 0x3", "VABSDIFF4.U8 R0, R4, R5, RZ", "VABSDIFF4.U8.ACC R0, R4, R5, R6",
    "VABSDIFF4 R0, R4, R5, RZ", "VABSDIFF4.ACC R0, R4, R5, R6",
    "I2IP.U8.S32.SAT R0, R4, R5, R6", "I2IP.S8.S32.SAT R0, R4, R5, RZ",
    "MOV R0, R4", "MOV R4, c[0x0][0x28]", "MOV R0, UR11", "MOV RZ, R4", "MOV R0, 0x7fffffff, 0xf", "MOV32I R0, 0x12345678", "UMOV UR4, 0x400",
    "UMOV UR4, URZ", "UMOV.64 UR4, UR6", "MOV.64 R2, R4",
    "R2P PR, R4, 0x3", "R2P PR, R4, 0x7f", "R2P PR, R4.B1, 0x7f", "R2P.B2 PR, R4, 0x15", "P2R R0, PR, R4, 0x7f", "P2R R4, PR, R4, 0x3",
    "P2R R0, PR, RZ, 0x1", "P2R.B1 R0, PR, R4, 0x7f", "UP2UR UR4, UPR, UR5, 0x7f", "UP2UR UR4, UPR, URZ, 0x3",
]


@pytest.mark.parametrize("index", range(len(FORMS)), ids=lambda i: name_of(FORMS[i]))
def test_form(index: int) -> None:
    opcode = opcode_of(FORMS[index], index)

    @settings(deadline=None, max_examples=15, database=None, phases=[Phase.generate])
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(opcode, data.draw(states(opcode)))

    run()

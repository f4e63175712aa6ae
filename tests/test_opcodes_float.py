"""fp32 and fp64 arithmetic, comparisons, conversions, halves and MUFU against their references."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from opcode_harness import Opcode, State, blank, check, name_of, opcode_of, row_of, states

MODES = ("RZ", "RM", "RP")
ORDER = ("LT", "EQ", "LE", "GT", "NE", "GE", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "NUM", "NAN", "F", "T")
HALF = 0x80008000  # two printed halves of -2^-17 ... stand in the encoding as one word
F64_TWO_POW_31 = 0x41E00000  # high word of 2147483648.0

FLOAT: list[str | tuple[str, int]] = [
    "FADD R0, R4, -R5", "FADD R4, -R4, |R5|", "FADD.FTZ R0, -R4, -RZ", "FADD.SAT R0, RZ, R5",
    ("FADD R0, R4, -1", 0xBF800000),
    "FADD R0, R4, UR5", "FADD R0, R4, c[0x0][0x20]", "FADD.FTZ.SAT R0, R4, R5",
    *(f"FADD.{r} R0, R4, -R5" for r in MODES),
    *(f"FADD.FTZ.{r} R0, R4, R5" for r in MODES), "FADD RZ, R4, R5", ("FADD32I R0, R4, 2", 0x40000000),
    "FMUL R0, R4, R5", "FMUL.FTZ R0, |R4|, R5", "FMUL.SAT R0, R4, R5",
    ("FMUL R0, R4, 1.4426950216293334961", 0x3FB8AA3B),
    *(f"FMUL.{r} R0, R4, -R5" for r in MODES),
    *(f"FMUL.{d} R0, R4, R5" for d in ("D2", "D4", "D8", "M2", "M4", "M8")),
    "FMUL.FMZ R0, R4, R5", "FMUL.FTZ.RZ R0, R4, R5",
    "FFMA R0, R4, R5, R6", "FFMA R4, -R4, R5, R4", "FFMA R0, R4, R5, -R6", "FFMA.FTZ R0, R4, R5, R6",
    ("FFMA.SAT R0, -R4, R5, 0.5", 0x3F000000),
    "FFMA.FTZ.SAT R0, R4, R5, R6", *(f"FFMA.{r} R0, R4, R5, R6" for r in MODES),
    *(f"FFMA.FTZ.{r} R0, R4, -R5, R6" for r in MODES),
    "FFMA.FMZ R0, R4, R5, R6", ("FFMA32I R0, R4, 2, R0", 0x40000000),
    "FMNMX R0, R4, R5, PT", "FMNMX R0, -R4, |R5|, !PT", "FMNMX.FTZ R0, R4, R5, P0",
    "FMNMX.NAN R0, R4, R5, !P0",
    *(f"FSETP.{c}.AND P0, PT, |R4|, R5, PT" for c in ORDER), "FSETP.GTU.FTZ.AND P0, PT, |R4|, R5, PT",
    "FSETP.GEU.OR P0, P1, R4, RZ, !P2",
    "FSETP.LT.XOR P0, P1, R4, -R5, P2", ("FSETP.NEU.AND P0, PT, |R4|, +INF , PT", 0x7F800000),
    "FSETP.NEU.FTZ.AND P0, P1, R4, R5, PT",
    "FSETP.EQ.OR P0, PT, R4, RZ, !P0", "FSETP.GEU.FTZ.AND P0, PT, R4, RZ, PT",
    ("FSETP.GTU.OR P0, PT, R4, +INF , P0", 0x7F800000),
    ("FMUL32I R0, R4, 2", 0x40000000), "FSET.BF.GT.AND R0, R4, R5, PT", "FSET.LEU.FTZ.OR R0, R4, R5, P0",
    "FSEL R0, R4, -R5, P1", "FSEL.FTZ R0, |R4|, R5, !P1",
    ("FSEL R0, R4, -INF , P1", 0xFF800000), "FCHK P0, R4, R5", "FCHK P0, |R4|, -R5", "FCHK.DIVIDE P0, R4, R5",
    "FSWZADD R0, R4, R5, PNPNPNPN", "FSWZADD R0, -R4, R5, PPPNNPZP",
]
DOUBLE: list[str | tuple[str, int]] = [
    "DADD R0, R4, R6", "DADD R4, -R4, |R6|", ("DADD R0, R4, 2147483648", F64_TWO_POW_31),
    "DADD R0, R4, c[0x0][0x20]",
    "DMUL R0, R4, R6", "DMUL R0, R4, -RZ", "DFMA R0, R4, R6, R8", "DFMA R4, -R4, R6, R4",
    ("DFMA R0, R4, R6, 6.7e15", 0x43380000),
    *(f"DADD.{r} R0, R4, -R6" for r in MODES), *(f"DMUL.{r} R0, R4, R6" for r in MODES),
    *(f"DFMA.{r} R0, R4, R6, R8" for r in MODES),
    "DFMA R0, R4, UR6, R8",
    *(f"DSETP.{c}.AND P0, PT, |R4|, R6, PT" for c in (*ORDER, "MIN", "MAX")),
    "DSETP.LT.XOR P0, P1, R4, R6, P2", "DSETP.GEU.OR P0, P1, R4, -R6, !P2",
    ("DSETP.MAX.AND P1, P2, R6, -0.25, PT", 0xBFD00000), "DSETP.MIN.AND P3, P4, R8, R6, P0",
    "DMNMX R0, R4, R6, PT", "DMNMX.NAN R0, -R4, R6, !P0",
]
CONVERT: list[str | tuple[str, int]] = [
    *(
        f"F2I{t}{r}.NTZ R0, R4"
        for t in ("", ".U32", ".U16", ".S16", ".U8", ".S8")
        for r in ("", ".TRUNC", ".FLOOR", ".CEIL")
    ),
    "F2I.FTZ.U32.TRUNC.NTZ R0, |R4|",
    "F2I.NTZ R0, -R4",
    *(f"F2I.{t}{r} R2, R4" for t in ("S64", "U64") for r in ("", ".TRUNC", ".FLOOR", ".CEIL")),
    "F2I.F16.NTZ R0, R4",
    "F2I.U16.F16.TRUNC.NTZ R0, -R4.H1_H1",
    "F2I.BF16.NTZ R0, R4",
    "F2I.S64.F16 R2, |R4|",
    *(f"F2I{t} R0, -R4" for t in ("", ".U32", ".U16", ".S16", ".U8", ".S8", ".U8.F16", ".S16.BF16", ".F16")),
    *(f"F2I.FTZ.{t}.CEIL R0, R4" for t in ("U16.F16", "U32.BF16", "F64", "U8.F64")),
    *(f"F2I.FTZ.{t}.FLOOR.NTZ R2, R4" for t in ("S64.F16", "S64", "S64.F64", "U64.F64", "U64.BF16")),
    ("F2I.S64.TRUNC R2, 16777218", 0x4B800001),
    ("F2I.S64.F16.TRUNC R2, -5", 0x0000C500),
    ("I2F.F64.U64 R2, 0x9abcdef1", 0x9ABCDEF1),
    *(f"F2I{t}.F64{r} R0, R4" for t in ("", ".U32") for r in ("", ".TRUNC", ".FLOOR", ".CEIL")),
    *(f"F2I.{t}.F64{r} R2, -R4" for t in ("S64", "U64") for r in ("", ".TRUNC", ".FLOOR", ".CEIL")),
    *(f"I2F{t}{r} R0, R4" for t in ("", ".U32") for r in ("", ".RZ", ".RM", ".RP")),
    "I2F.S16 R0, R4",
    "I2F.S8 R0, R4",
    "I2F.U16 R0, R4.H1",
    "I2F.U8 R0, R4.B2",
    "I2F.S8 R0, R4.B3",
    "I2F.F16 R0, R4",
    "I2F.BF16 R0, R4",
    "I2F.F16.U32 R0, R4",
    *(f"I2F.{t}.{r} R0, R4" for t in ("F16", "BF16", "F16.U32", "BF16.S16") for r in MODES),
    "I2F.U16.F16 R0, R4",
    *(f"I2F.{t}{r} R0, R4" for t in ("S64", "U64") for r in ("", ".RZ", ".RM", ".RP")),
    "I2F.F64 R2, R4",
    "I2F.F64.U32 R2, R4",
    "I2F.F64.S16 R2, R4",
    *(f"I2F.F64.{t}{r} R2, R4" for t in ("S64", "U64") for r in ("", ".RZ", ".RM", ".RP")),
    "I2F R0, UR4",
    "I2F R0, c[0x0][0x20]",
    *(f"I2FP.F32.{t}{r} R0, R4" for t in ("S32", "U32") for r in ("", ".RZ", ".RM", ".RP")),
    *(f"FRND{t}{r} R0, R4" for t in ("", ".F16", ".BF16") for r in ("", ".TRUNC", ".FLOOR", ".CEIL")),
    "FRND.FTZ.FLOOR R0, -|R4|",
    *(f"FRND.F64{r} R2, R4" for r in ("", ".TRUNC", ".FLOOR", ".CEIL")),
    "FRND.F64.FLOOR R2, -R4",
    "F2F.F64.F32 R2, |R4|",
    "F2F.F64.F32.FTZ R2, -R4",
    *(f"F2F.F32.F64{r} R0, R4" for r in ("", ".RZ", ".RM", ".RP", ".SAT", ".FTZ")),
    *(
        f"F2F.{t}.{f}{r} R0, R4"
        for t in ("F16", "BF16")
        for f in ("F32", "F64")
        for r in ("", ".RZ", ".RM", ".RP")
    ),
    "F2F.F16.F32.FTZ R0, -R4",
    *(f"F2F.FTZ.F16.F32.{r} R0, R4" for r in MODES),
    ("F2F.FTZ.F16.F32.RM R0, 16777218", 0x4B800001),
    "F2F.F64.F32 R2, -|R4|",
    *(f"F2F.{t}.F64 R0, {s}" for t in ("F32", "F16", "BF16") for s in ("-R4", "|R4|", "-|R4|")),
    "F2F.BF16.F32.FTZ R0, R4",
    "F2F.F64.F16 R2, R4",
    "F2F.F64.F16 R2, -R4.H1_H1",
    "F2F.F16.F32 R0, |R4|",
    *(f"F2FP{t}.PACK_AB{r} R0, R4, R5" for t in (".BF16", ".BF16.F32", "", ".F16.F32") for r in ("", ".RZ")),
    "F2FP.F16.F32.PACK_AB R0, RZ, -R5",
    "F2FP.RELU.F16.F32.PACK_AB R0, R4, |R5|",
    ("F2FP.BF16.F32.PACK_AB R0, R4, 1", 0x3F800000),
    "F2FP.BF16.F32.PACK_AB.RM R0, R4, R5",
    "F2FP.F16.F32.PACK_AB.RP R0, R4, R5",
    *(f"F2IP.{t}.F32{r}.NTZ R0, R4, R5, R6" for t in ("U8", "S8") for r in ("", ".TRUNC", ".FLOOR", ".CEIL")),
    *(f"F2IP.{t}.F32 R0, R4, -R5, R6.H1" for t in ("U8", "S8")),
]
#: What an H200 takes with fp16; bf16 with SAT or FTZ is an illegal instruction.
HALF_RESULTS = [("", ""), ("", ".SAT"), ("", ".RELU"), ("", ".FTZ")]
HALVES: list[str | tuple[str, int]] = [
    *(
        f"{o}{t}{r} R0, R4, R5"
        for o in ("HADD2", "HMUL2")
        for t, r in (*HALF_RESULTS, (".BF16_V2", ""), (".BF16_V2", ".RELU"))
    ),
    "HADD2 R0, R4.H0_H0, -R5.H1_H1",
    "HADD2.F32 R0, -RZ, R4.H0_H0",
    "HADD2.F32 R0, -RZ, R4.H1_H1",
    "HADD2 R0, |R4|, -|R5|",
    "HADD2 R0, R4.H1_H0, R5",
    ("HADD2_32I R0, R4, 1, 1", 0x3C003C00),
    ("HMUL2 R0, R4.H0_H0, -7.6e-06, -7.6e-06", HALF),
    "HMUL2 R4, R4, R4.H1_H1",
    *(
        f"HFMA2{t}{r} R0, R4, R5, R6"
        for t, r in (
            *HALF_RESULTS,
            *((f".MMA{t}", r) for t, r in HALF_RESULTS),
            *((t, r) for t in (".BF16_V2", ".MMA.BF16_V2") for r in ("", ".RELU")),
        )
    ),
    "HFMA2 R0, R4.H0_H0, R5.H0_NH1, R6",
    "HFMA2.BF16_V2.RELU R0, R4.H1_H1, R5, R6.H0_NH1",
    "HFMA2.FTZ.SAT R0, R4, R5.H0_NH1, R6",
    ("HFMA2 R0, R4.H0_H0, -7.6e-06, -7.6e-06, R5.H0_H0", HALF),
    ("HFMA2.BF16_V2 R0, R4, 1, 1, R5", 0x3F803F80),
    ("HFMA2.MMA R0, -RZ, RZ, 0, 1.6e-05", 0x00010110),
    "HFMA2.BF16_V2 R0, -RZ.H0_H0, RZ.H0_H0, -R4",
    "HFMA2 R0, R4.H1_H1, -R5.H0_H0, R6.H1_H0",
    *(
        f"HMNMX2{t} R0, R4, R5, {p}"
        for t in ("", ".BF16_V2", ".NAN", ".BF16_V2.NAN")
        for p in ("PT", "!PT", "P0")
    ),
    *(
        f"VHMNMX{t} R0, R4, R5, R6, {p}"
        for t in ("", ".BF16_V2", ".NAN", ".BF16_V2.NAN")
        for p in ("PT", "!PT", "P0")
    ),
    "VHMNMX R0, -R4, |R5|, R6.H0_H0, !PT",
    "VHMNMX.NAN R0, R4.H1_H1, R5, -|R6|, PT",
    "VHMNMX.BF16_V2 R0, R4.H0_H0, R5.H1_H1, RZ.H0_H0, !PT",
    ("VHMNMX R0, R4, 1, -1, R5.H1_H1, !PT", 0x3C00BC00),
    *(f"HSET2.BF.{c}.AND R0, R4, R5, PT" for c in ("EQ", "NEU", "GT", "GEU", "LT")),
    "HSET2.LT.AND R0, R4.H0_H0, R5, P0",
    "HSET2.BF.EQ.OR.BF16_V2 R0, R4, R5, P0",
    ("HSET2.BF.EQ.AND R0, R4.H0_H0, -0.0134, -0.0134, PT", 0xA2E2A2E2),
    *(f"HSET2.{c}.AND R0, R4, R5, PT" for c in ("EQ", "GE", "GT", "LT")),
    "HSET2.BM.GE.AND R0, R4, R5, PT",
    "HSET2.GE.XOR.FTZ R0, R4, R5, P0",
    "HSETP2.GEU.AND P1, PT, R4.H0_H0, R5.H1_H1, PT",
    "HSETP2.LT.AND P1, P2, R4, R5, PT",
    "HSETP2.EQ.H_AND.AND P1, P2, R4, |R5|, P0",
    "HSETP2.GT.OR.BF16_V2 P1, P2, R4, -R5, P0",
    "HSETP2.NAN.XOR.FTZ P1, P2, R4, R5, P0",
]
FORMS = FLOAT + DOUBLE + CONVERT + HALVES


@pytest.mark.parametrize("index", range(len(FORMS)), ids=lambda i: name_of(FORMS[i]))
def test_form(index: int) -> None:
    opcode = opcode_of(FORMS[index], index)

    @settings(deadline=None, max_examples=20, database=None, phases=[Phase.generate])
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(opcode, data.draw(states(opcode)))

    run()


# --- MUFU: within the bound its row states


def single(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def within(got: int, want: int, ulps: int, absolute: float = 0.0) -> bool:
    """Distance in units of the last place (or absolute); NaN, infinities and signs of zero exact."""
    a, b = single(got), single(want)
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b) or b == 0.0:
        return got == want or (absolute > 0 and abs(a - b) <= absolute)
    return abs(a - b) <= max(absolute, ulps * float(np.spacing(np.float32(abs(b)))))


MUFU = {
    "RCP": (1, 0.0),
    "RSQ": (1, 0.0),
    "SQRT": (1, 0.0),
    "EX2": (2, 0.0),
    "LG2": (2, 2.0**-22),
    "TANH": (2, 0.0),
    "SIN": (0, 2.0**-20.9),
    "COS": (0, 2.0**-20.9),
}


@pytest.mark.parametrize("word", sorted(MUFU))
def test_mufu(word: str) -> None:
    opcode = Opcode(f"@P6 MUFU.{word} R0, -R4")
    ulps, absolute = MUFU[word]

    def compare(opcode: Opcode, state: State, got: State, want: State) -> None:
        for a, b in zip(got.register(0), want.register(0), strict=True):
            assert within(int(a), int(b), ulps, absolute), f"{opcode.text}: {a:#x} {b:#x}"
        got.register(0)[:] = want.register(0)

    @settings(deadline=None, max_examples=20, database=None, phases=[Phase.generate])
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(opcode, data.draw(states(opcode)), compare)

    run()


MUFU64 = ["MUFU.RCP64H R0, R4", "MUFU.RSQ64H R0, |R4|", "MUFU.RCP64H R4, -R4"]
MUFU_HALF = ["MUFU.EX2.F16 R0, R4", "MUFU.TANH.F16 R0, -R4.H1_H1", "MUFU.TANH.BF16_V2 R0, R4",
             "MUFU.EX2.BF16 R0, |R4|"]
MUFU_FORMS = [*(f"MUFU.{word} R0, -R4" for word in sorted(MUFU)), *MUFU64, *MUFU_HALF]


@pytest.mark.parametrize("form", MUFU64)
def test_mufu64(form: str) -> None:
    """The high word within one: 2^-20 relative."""
    opcode = Opcode(f"@P6 {form}")

    def compare(opcode: Opcode, state: State, got: State, want: State) -> None:
        index = opcode.instruction.operands[0].index
        far = np.abs(got.register(index).astype(np.int64) - want.register(index).astype(np.int64)) > 1
        assert not far.any(), (
            f"{opcode.text}: {got.register(index)[far][0]:#x} {want.register(index)[far][0]:#x}"
        )
        got.register(index)[:] = want.register(index)

    @settings(deadline=None, max_examples=20, database=None, phases=[Phase.generate])
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(opcode, data.draw(states(opcode)), compare)

    run()


@pytest.mark.parametrize("form", MUFU_HALF)
def test_mufu_half(form: str) -> None:
    opcode = Opcode(f"@P6 {form}")

    @settings(deadline=None, max_examples=20, database=None, phases=[Phase.generate])
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(opcode, data.draw(states(opcode)))

    run()


def words(text: str, registers: dict[int, int], *results: int) -> None:
    """One instruction on these registers leaves these words from R0 on."""
    opcode, state = Opcode(text), blank()
    for index, value in registers.items():
        state.register(index)[:] = value
    after = opcode.run(state)
    got = [int(after.register(k)[0]) for k in range(len(results))]
    assert got == list(results), f"{text}: {[hex(v) for v in got]}"


def test_single_words_measured() -> None:
    """Words an H200 left: zero times anything under FMZ, FTZ by the exact value, NaN past signs, MUFU cut."""
    infinity, least, below = 0x7F800000, 0x00800000, 0x3F7FFFFF
    words("FMUL.FMZ R0, R4, R5", {4: infinity, 5: 0x80000000}, 0)
    words("FFMA.FMZ.RM R0, R4, R5, R6", {4: infinity, 5: 0x80000001, 6: 0x3FC54321}, 0x3FC54321)
    words("FFMA.FTZ R0, R4, R5, R6", {4: below, 5: least, 6: 0}, 0)
    words("FMUL.FTZ.RP R0, R4, R5", {4: below, 5: least}, 0)
    words("FMUL R0, R4, R5", {4: below, 5: least}, least)
    words("DADD R0, -|R4|, R6", {4: 0, 5: 0x7FF80000, 7: 0x3FF00000}, 0, 0x7FF80000)
    words("DMUL R0, |R4|, R6", {4: 0x12345, 5: 0xFFF80000, 7: 0x3FF00000}, 0x12345, 0xFFF80000)
    words("FRND.F64 R0, -R4", {4: 1, 5: 0x7FF00000}, 1, 0x7FF80000)
    words("MUFU.EX2.F16 R0, R4", {4: 0x11D7}, 0x3C00)
    words("MUFU.EX2.F16 R0, R4", {4: 0x4C00}, 0x7C00)
    words("MUFU.TANH.BF16 R0, R4", {4: 0x4068}, 0x3F7F)


def test_swizzled_add_by_place_in_the_quad() -> None:
    opcode, state = Opcode("FSWZADD R0, R4, R5, PPPNNPZP"), blank()
    state.register(4)[:], state.register(5)[:] = 0x40400000, 0x3F800000  # 3 and 1
    got = opcode.run(state).register(0).view(np.float32)
    assert got.tolist() == [4.0, 2.0, -2.0, 1.0] * 8


def test_comparison_for_minimum_and_maximum() -> None:
    """P0: a is chosen (not by MAX of equals); P1: neither is a number, whatever the third operand."""
    for text, a, b, want in (
        ("DSETP.MAX.AND P0, P1, R4, R6, PT", 0x3FF00000, 0x3FF00000, (0, 0)),
        ("DSETP.MIN.AND P0, P1, R4, R6, PT", 0x3FF00000, 0x3FF00000, (1, 0)),
        ("DSETP.MIN.AND P0, P1, R4, R6, !PT", 0x7FF80000, 0x7FF80000, (0, 1)),
        ("DSETP.MAX.OR P0, P1, R4, R6, PT", 0x40000000, 0x3FF00000, (1, 0)),
    ):
        opcode, state = Opcode(text), blank()
        for index, word in ((4, 0), (5, a), (6, 0), (7, b)):
            state.register(index)[:] = word
        after = opcode.run(state)
        got = tuple(int(row_of(after, o, 0)[0] != 0) for o in opcode.instruction.operands[:2])
        assert got == want, text


def test_directed_double_extremes() -> None:
    """Overflow, underflow and cancellation in the directed modes, values by hand."""
    big, tiny, one = 0x7FEFFFFFFFFFFFFF, 1, 0x3FF0000000000000
    cases = {
        ("DMUL.RZ R0, R4, R6", big, big, 0): big, ("DMUL.RM R0, R4, R6", big, big, 0): big,
        ("DMUL.RP R0, R4, R6", big, big, 0): 0x7FF0000000000000, ("DMUL.RP R0, R4, R6", tiny, tiny, 0): 1,
        ("DMUL.RM R0, R4, R6", tiny, tiny | 1 << 63, 0): 1 | 1 << 63,
        ("DMUL.RZ R0, R4, R6", tiny, tiny, 0): 0,
        ("DADD.RM R0, R4, R6", one, one | 1 << 63, 0): 1 << 63,
        ("DADD.RP R0, R4, R6", one, one | 1 << 63, 0): 0,
        ("DADD.RZ R0, R4, R6", big, big, 0): big, ("DFMA.RP R0, R4, R6, R8", tiny, tiny, one): one + 1,
        ("DFMA.RM R0, R4, R6, R8", tiny, tiny | 1 << 63, one): one - 1,
        ("DFMA.RM R0, R4, R6, R8", one, one, one | 1 << 63): 1 << 63,
    }
    for (text, a, b, c), want in cases.items():
        opcode, state = Opcode(text), blank()
        for index, value in ((4, a), (6, b), (8, c)):
            state.register(index)[:], state.register(index + 1)[:] = value & 0xFFFFFFFF, value >> 32
        after = opcode.run(state)
        o = opcode.instruction.operands[0]
        got = int(row_of(after, o, 0)[0]) | int(row_of(after, o, 1)[0]) << 32
        assert got == want, f"{text} {a:#x} {b:#x} {c:#x}: {got:#x}, not {want:#x}"

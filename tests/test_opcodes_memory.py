"""Loads, stores, atomics, matrix loads and asynchronous copies against their references on small memories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from opcode_harness import (
    CONST_BYTES,
    F16_SPECIAL,
    F32_SPECIAL,
    F64_SPECIAL,
    GLOBAL,
    GLOBAL_BYTES,
    I32_SPECIAL,
    I64_SPECIAL,
    LOCAL,
    LOCAL_BYTES,
    SHARED,
    SHARED_BYTES,
    Opcode,
    State,
    check,
    name_of,
    opcode_of,
    row_of,
    states,
)

from gpusim.isa.instruction import Operand
from gpusim.isa.reference_memory import SPACE, VECTORS, access_bytes

SIZES = ("", ".U8", ".S8", ".U16", ".S16", ".64", ".128")
INTEGER = ("ADD", "MIN", "MAX", "MIN.S32", "MAX.S32", "AND", "OR", "XOR", "INC", "DEC", "EXCH")
WIDE = ("ADD.64", "MIN.64", "MAX.64", "MIN.S64", "MAX.S64", "AND.64", "OR.64", "XOR.64", "EXCH.64")
FORMS: list[str] = [
    *(f"LDG.E{s} R8, [R2.64+0x10]" for s in SIZES),
    *(f"LDG.E{s}.CONSTANT R8, desc[UR4][R2.64+-0x20]" for s in ("", ".U16", ".128")),
    "LDG.E R8, [R2.64+UR6+0x4]",
    "LDG.E R8, [R2.U32+UR6+0x8]",
    "LDG.E R8, [UR6]",
    "LDG.E.64 R2, [R2.64]",
    "LDG.E.128 R0, [R2.64]",
    "LDG.E RZ, [R2.64]",
    "LDG.E.STRONG.GPU R8, desc[UR4][R2.64]",
    "LDG.E.EF R8, [R2.64]",
    "LDG.E.LU R8, [R2.64]",
    "LDG.E P0, R8, [R2.64]",
    *(f"STG.E{s} [R2.64+0x10], R8" for s in SIZES if "S" not in s),
    "STG.E.STRONG.SYS desc[UR4][R2.64+0x4], R8",
    "STG.E [R2.64], RZ",
    "STG.E.128 [R2.64], RZ",
    "LDG.E.64.CONSTANT R8, [R2.64]",
    "LDG.E.STRONG.SM R8, [R2.64]",
    "LDG.E.STRONG.SYS R8, [R2.64]",
    "STG.E.STRONG.GPU [R2.64], R8",
    "STG.E.STRONG.SM [R2.64], R8",
    "ULDC R8, c[0x3][R2]",
    "STG.E.EF desc[UR4][R2.64], R3",
    *(f"LDS{s} R8, [R2+-0x20]" for s in SIZES),
    "LDS R8, [R2.X4+0x10]",
    "LDS.U8 R8, [UR6+0x10]",
    "LDS R8, [R2+UR6]",
    "LDS.U8 R8, [0x10]",
    "LDS.128 R0, [R2]",
    *(f"STS{s} [R2+0x100], R8" for s in SIZES if "S" not in s),
    "STS.U8 [UR6+0x10], R8",
    "STS [R2.X8], R8",
    *(f"LDL{s} R8, [R2+0x10]" for s in SIZES),
    "LDL.LU R8, [R2]",
    *(f"STL{s} [R2+0x10], R8" for s in SIZES if "S" not in s),
    "LD.E R8, [R2.64]",
    "LD.E.64 R8, desc[UR4][R2.64]",
    "LD.E.U8 R8, [R2.64+0x1]",
    "ST.E [R2.64], R8",
    "ST.E.128 desc[UR4][R2.64], R8",
    "LDC R8, c[0x2][R2+0x2c]",
    "LDC.64 R8, c[0x3][R2]",
    "LDC.U8 R8, c[0x3][R2]",
    "LDC.S16 R8, c[0x3][R2]",
    "LDC.128 R8, c[0x3][R2]",
    *(f"QSPC.E.{w} P0, RZ, [R2]" for w in "SDGL"),
    *(f"ATOMG.E.{w}.STRONG.GPU PT, R8, [R2.64], R10" for w in INTEGER + WIDE),
    "ATOMG.E.ADD.STRONG.GPU P0, RZ, desc[UR4][R2.64+0x8], R10",
    "ATOMG.E.CAS.STRONG.GPU PT, R8, [R2], R10, R11",
    "ATOMG.E.CAS.64.STRONG.GPU PT, R10, [R2], R8, R10",
    *(
        f"ATOMG.E.ADD.{t}.STRONG.GPU PT, R8, [R2.64], R10"
        for t in ("F32.FTZ.RN", "F64.RN", "F16x2.RN", "BF16x2.RN", "F32x2.FTZ.RN", "F16x4.RN", "BF16x4.RN")
    ),
    *(
        f"{o}[R4.64], R12"
        for t in ("F32x4.FTZ.RN", "F16x8.RN", "BF16x8.RN")
        for o in (f"ATOMG.E.ADD.{t}.STRONG.GPU PT, R8, desc[UR4]", f"REDG.E.ADD.{t}.STRONG.GPU desc[UR4]")
    ),
    *(f"REDG.E.ADD.{t}.STRONG.GPU desc[UR4][R2.64], R10" for t in ("F32x2.FTZ.RN", "F16x4.RN", "BF16x4.RN")),
    "ATOMG.E.CAS.128.STRONG.GPU P3, R8, [R2], R12, R16",
    "ATOMG.E.EXCH.128.STRONG.GPU PT, R8, [R2.64], R12",
    *(
        f"{o}[R4.64], R12"
        for t in ("MIN.F16x2.RN", "MAX.BF16x2.RN", "MAX.F16x8.RN", "MIN.BF16x4.RN")
        for o in (f"ATOM.E.{t}.STRONG.GPU P1, R8, desc[UR4]", f"REDG.E.{t}.STRONG.GPU desc[UR4]")
    ),
    "ATOM.E.ADD.F64.RN.STRONG.GPU P0, R8, [R2.64], R10",
    "ATOM.E.ADD.F32x4.FTZ.RN.STRONG.GPU P0, R8, [R2.64], R12",
    "ATOM.E.ADD.BF16x2.RN.STRONG.GPU P0, RZ, [R2.64], R10",
    "ATOM.E.ADD.F16x2.RN.STRONG.GPU P0, RZ, [R2.64], R10",
    "ATOM.E.ADD.STRONG.GPU P0, R8, [R2.64], R10",
    "ATOM.E.CAS.64.STRONG.GPU PT, R8, [R2], R10, R12",
    *(f"ATOMS.{w} R8, [R2+0x4], R10" for w in INTEGER),
    "ATOMS.ADD RZ, [RZ], R10",
    "ATOMS.ADD RZ, [UR6], R10",
    "ATOMS.INC RZ, [0x14], R10",
    "ATOMS.EXCH.128 R8, [R2], R12",
    "ATOMS.POPC.INC.32 R8, [R2+URZ]",
    "ATOMS.CAS R8, [R2], R10, R11",
    "ATOMS.CAS.64 R8, [R2], R10, R12",
    "ATOMS.CAST.SPIN R10, [R2], R8, R10",
    "ATOMS.CAST.SPIN.64 R10, [R2], R8, R10",
    "ATOMS.POPC.INC.32 RZ, [R2+URZ]",
    "ATOMS.EXCH.64 R8, [R2], R10",
    *(
        f"{o}.E.{w}.STRONG.GPU {d}[R2.64+0x8], R10"
        for o, d in (("RED", ""), ("REDG", "desc[UR4]"))
        for w in (*INTEGER[:-1], *WIDE[:-1], "ADD.F32.FTZ.RN", "ADD.F64.RN", "ADD.F16x2.RN")
    ),
    *(f"LDSM.16.{m}{n} R8, [R2+0x20]" for m in ("M88", "MT88") for n in ("", ".2", ".4")),
    "LDSM.16.M88.4 R0, [R2]",
    "LDSM.16.MT88.2 R8, [R2+UR6]",
    *(f"STSM.16.{m}{n} [R2+0x20], R8" for m in ("M88", "MT88") for n in ("", ".2", ".4")),
    "LDGSTS.E [R4], [R2.64]",
    "LDGSTS.E [R4][R2.64]",
    "LDGSTS.E.64 [R4+0x8], desc[UR10][R2.64+0x8]",
    "LDGSTS.E.BYPASS.128 [R4], desc[UR12][R2.64]",
    "LDGSTS.E.BYPASS.128.ZFILL [R4+0x1000], desc[UR10][R2.64+0xc]",
    "LDGSTS.E.128 [R4], [R2.64], P1",
    "LDGSTS.E.BYPASS.128 [R4], [R2.64], !P1",
]
WINDOWS = {
    "global": (GLOBAL, GLOBAL_BYTES),
    "shared": (0, SHARED_BYTES),
    "local": (0, LOCAL_BYTES),
    "const": (0, CONST_BYTES),
}


def atomic(opcode: Opcode) -> bool:
    return opcode.row.name.startswith(("ATOM", "RED"))


def width(opcode: Opcode) -> int:
    if opcode.row.name in ("LDSM", "STSM"):
        return 16
    modifiers = opcode.instruction.modifiers
    if vector := VECTORS.keys() & set(modifiers):
        return 4 * VECTORS[vector.pop()]
    if atomic(opcode) and "128" in modifiers:
        return 16
    return (
        8
        if atomic(opcode) and {"S64", "F64", "64"} & set(modifiers)
        else 4
        if atomic(opcode)
        else access_bytes(modifiers)
    )


def place(state: State, opcode: Opcode, number: int, o: Operand, wanted: np.ndarray) -> np.ndarray:
    """Set the registers of a memory operand so that it gives the wanted addresses; returns what it gives."""
    base_words, ubase_words = opcode.address_words[number]
    uniform = int(wanted[0]) - o.value
    if ubase_words and o.base >= 0:
        uniform = 0x100
    for k in range(ubase_words):
        if o.ubase != 255:
            row_of(state, Operand("UR", o.ubase), k)[:] = uniform >> (32 * k) & 0xFFFFFFFF
    ubase = uniform if ubase_words and o.ubase != 255 else 0
    if not base_words or o.base == 255:
        return np.full(32, ubase + o.value)
    if "U32" in o.suffixes:  # 32-bit lane offset from a 64-bit uniform base
        ubase = GLOBAL - o.value
        for k in (0, 1):
            row_of(state, Operand("UR", o.ubase), k)[:] = ubase >> (32 * k) & 0xFFFFFFFF
    values = (wanted - o.value - ubase) // o.scale
    for k in range(base_words):
        row_of(state, Operand("R", o.base), k)[:] = (values >> (32 * k) & 0xFFFFFFFF).astype(np.uint32)
    return wanted


def addresses(opcode: Opcode, space: str, random: np.random.Generator, number: int) -> np.ndarray:
    n = width(opcode)
    if space == "generic":
        lanes = random.integers(0, 3, 32)
        slot = (
            random.permutation(LOCAL_BYTES // n)[:16].repeat(2)
            if LOCAL_BYTES // n < 32
            else random.permutation(LOCAL_BYTES // n)[:32]
        )
        if LOCAL_BYTES // n < 32:  # too few places for distinct ones: two lanes a place, in different spaces
            lanes[::2], lanes[1::2] = 0, 1
        return np.choose(lanes, [GLOBAL, SHARED, LOCAL]) + slot * n
    base, size = WINDOWS[space]
    if atomic(opcode):  # few places, so that lanes collide
        return base + 64 + n * random.integers(0, 4, 32)
    scale = max(n, 8) if ".X" in opcode.text else n
    count = size // scale
    slot = random.permutation(count)[:32] if count >= 32 and number == 0 else random.integers(0, count, 32)
    return base + scale * slot


def fill(opcode: Opcode, state: State, random: np.random.Generator) -> None:
    """Special values in the data registers, and for atomics in the places they meet."""
    modifiers = set(opcode.instruction.modifiers)
    halves = [v | u << 16 for v in F16_SPECIAL for u in F16_SPECIAL]
    table = (F64_SPECIAL if "F64" in modifiers else F32_SPECIAL if modifiers & {"F32", "F32x2", "F32x4"}
             else halves if modifiers & {"F16x2", "BF16x2", "F16x4", "F16x8", "BF16x4", "BF16x8"}
             else [0, 1, 2] if modifiers & {"CAS", "CAST"}
             else I64_SPECIAL if width(opcode) == 8 else I32_SPECIAL)
    kind = np.uint64 if width(opcode) == 8 else np.uint32

    def some(count: int) -> np.ndarray:
        noise = random.integers(0, 1 << 32, count, dtype=np.uint64)
        return np.where(
            random.random(count) < 0.8,
            np.array(table, np.uint64)[random.integers(0, len(table), count)],
            noise,
        )

    for token, o, words in opcode.sources:
        if token == "data" and o is not None and o.kind == "R" and o.index != 255:
            values = some(32)
            for k in range(words):
                row_of(state, o, k)[:] = (values >> np.uint64(32 * (k % 2)) & np.uint64(0xFFFFFFFF)).astype(
                    np.uint32
                )
    for name in ("global", "shared"):
        state.memory[name][:512] = some(512 // kind().nbytes).astype(kind).view(np.uint8)
    state.memory["local"][:] = (
        some(32 * LOCAL_BYTES // kind().nbytes).astype(kind).view(np.uint8).reshape(32, -1)
    )


@pytest.mark.parametrize("index", range(len(FORMS)), ids=lambda i: name_of(FORMS[i]))
def test_form(index: int) -> None:
    opcode = opcode_of(FORMS[index], index)
    name = opcode.row.name
    spaces = (
        ["shared", "global"]
        if name == "LDGSTS"
        else [SPACE.get(name, "generic" if name == "QSPC" else "shared")]
    )

    @settings(deadline=None, max_examples=12, database=None, phases=[Phase.generate])
    @given(st.data(), st.integers(0, 1 << 30))
    def run(data: st.DataObject, seed: int) -> None:
        state, random = data.draw(states(opcode)), np.random.default_rng(seed)
        if atomic(opcode):
            fill(opcode, state, random)
        if name in ("LDSM", "STSM"):
            state.active[:] = True
            state.predicate(6)[:] = 0 if index % 2 else 0xFFFFFFFF
        number = 0
        for token, o, _ in opcode.sources:
            if token != "mem" or o is None:
                continue
            wanted = addresses(opcode, spaces[number], random, number)
            if "ZFILL" in opcode.text and number == 1:
                wanted = wanted + random.integers(0, 16, 32)
            state.addresses.append(place(state, opcode, number, o, wanted))
            number += 1
        check(opcode, state)

    run()

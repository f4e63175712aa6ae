"""Rules of integer, warp and memory rows found on an H200, and what the card refuses.

Values are those the card left (validation/measurements/h200/opcodes.json holds the whole runs).
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from opcode_harness import GLOBAL, SHARED, Opcode, State, blank

from gpusim.errors import ExecutionError, UnsupportedError
from gpusim.functional import layout as L
from gpusim.program import compile
from gpusim.simulate import run

#: Illegal instructions, misaligned constants, and operands whose meaning nobody knows.
REFUSED = (
    "IADD3 R0, -R4, -R5, R6",
    "IADD3.X R0, ~R4, ~R5, R6, P0, P1",
    "UIADD3 UR4, -UR5, -UR6, UR7",
    "LEA R0, -R4, -R5, 0x2",
    "ULEA.HI.X UR4, ~UR5, ~UR6, UR7, 0x2, UP0",
    "IMAD.WIDE R2, R4, R5, c[0x0][0x24c]",
    "S2UR UR4, SR_TID.X",
    "S2UR UR4, SR_LTMASK",
    "CS2R R2, SR_CTAID.X",
    "CS2R.32 R2, SR_LANEID",
    "R2UR.OR P0, UR4, R4",
    "UMOV UR4, UR5, 0x3",
    "QSPC.E.S P0, R8, [R2]",
    "LDG.E.CONSTANT.CTA R8, desc[UR4][R2.64]",
    "STG.E.CONSTANT.SM desc[UR4][R2.64], R8",
    "LDGSTS.E.BYPASS.64 [R4], desc[UR4][R2.64]",
    "ATOMG.E.SAFEADD.S32.STRONG.GPU PT, R8, [R2.64], R10",
    "ATOMG.E.EXCH.S64.STRONG.GPU PT, R8, [R2.64], R10",
    "ATOMG.E.INC.64.STRONG.GPU PT, R8, [R2.64], R10",
    "ATOMS.DEC.S32 R8, [R2], R10",
    "ATOMS.XOR.64 R8, [R2], R10",
    "ATOMS.CAS.128 R8, [R2], R12, R16",
    "REDG.E.MAX.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R8",
    "ATOM.E.MIN.F32x4.FTZ.RN.STRONG.GPU P0, R8, [R2.64], R12",
)


@pytest.mark.parametrize("form", REFUSED)
def test_refused_by_name(form: str) -> None:
    with pytest.raises(UnsupportedError, match="not supported"):
        Opcode(form)


def registers(**values: int) -> State:
    state = blank()
    state.active[:] = True
    for name, value in values.items():
        state.register(int(name[1:]))[:] = value
    return state


@pytest.mark.parametrize(
    ("form", "values", "register", "carry"),
    [
        ("LEA R0, P1, -R4, 0x9abcdef1, 0x5", {"R4": 0}, 0x9ABCDEF1, True),  # -0 carries
        ("LEA.X R0, P1, ~R4, R5, 0x2, PT", {"R4": 0, "R5": 0}, 0, True),  # ~ comes after the shift
        ("LEA.X R0, P1, ~R4, R5, 0x2, PT", {"R4": 0x41, "R5": 0xFFFFFFFE}, 0xFFFFFEFA, True),
        ("LEA.HI R0, P1, -R4, R5, R6, 0x0", {"R4": 1, "R5": 0xDEADBEEF, "R6": 0xFFFF}, 0xDEACBEF0, True),
        ("IMAD.HI R0, P1, R4, R6, -R8", {"R4": 0, "R6": 5, "R8": 0, "R9": 0}, 0, True),
        ("IMAD.WIDE R0, P1, R4, R6, -R8", {"R4": 0, "R6": 5, "R8": 1, "R9": 0}, 0xFFFFFFFF, False),
    ],
)
def test_negated_addends(form: str, values: dict[str, int], register: int, carry: bool) -> None:
    after = Opcode(form).run(registers(**values))
    assert after.register(0).tolist() == [register] * 32
    assert (after.predicate(1) != 0).tolist() == [carry] * 32


def test_lane_mask_of_mov() -> None:
    state = registers(R0=1, R4=2)
    assert Opcode("MOV R0, R4, 0x5").run(state).register(0).tolist() == [2, 1, 2, 1] * 8
    assert Opcode("MOV R0, R4, 0x0").run(state).register(0).tolist() == [1] * 32


def test_uniform_destinations_are_written_whole() -> None:
    """REDUX of the lanes whose guard holds; nothing where it holds in none."""
    state = registers(R4=3)
    state.predicate(5)[:] = [0xFFFFFFFF] * 4 + [0] * 28
    state.rows[L.ROW_UR + 4] = 77
    assert Opcode("@P5 REDUX.SUM UR4, R4").run(state).rows[L.ROW_UR + 4].tolist() == [12] * 32
    state.predicate(5)[:] = 0
    assert Opcode("@P5 REDUX.SUM UR4, R4").run(state).rows[L.ROW_UR + 4].tolist() == [77] * 32


def test_r2ur_says_which_lanes_hold_another_value() -> None:
    state = registers()
    state.register(4)[:] = [9, 9, 8, 9] * 8
    after = Opcode("R2UR P1, UR4, R4").run(state)
    assert after.rows[L.ROW_UR + 4].tolist() == [9] * 32
    assert (after.predicate(1) != 0).tolist() == [False, False, True, False] * 8


def test_a_barrier_register_is_the_warps() -> None:
    state = registers(R4=0xF0)
    state.predicate(5)[:] = [0, 0xFFFFFFFF] * 16
    state.active[5] = False
    assert Opcode("@P5 BMOV.32 B5, R4").run(state).rows[L.ROW_B + 5].tolist() == [0xF0] * 32


# --- atomics


def at(state: State, base: int) -> State:
    state.register(2)[:], state.register(3)[:] = base & 0xFFFFFFFF, base >> 32
    return state


def test_lanes_that_count_together_get_one_old_value() -> None:
    state = registers(R2=0x40)
    state.memory["shared"][0x40:0x44] = [5, 0, 0, 0]
    after = Opcode("ATOMS.POPC.INC.32 R8, [R2+URZ]").run(state)
    assert after.register(8).tolist() == [5] * 32
    assert after.memory["shared"][0x40:0x44].tolist() == [37, 0, 0, 0]


@pytest.mark.parametrize(("place", "done"), [(GLOBAL, True), (SHARED, False)])
def test_generic_float_atomics_leave_shared_memory_to_the_program(place: int, done: bool) -> None:
    state = at(registers(R8=1, R10=0x3F800000), place)
    state.active[:] = np.arange(32) == 0
    for space in ("global", "shared"):
        state.memory[space][:4] = np.array([0x40000000], "<u4").view(np.uint8)
    after = Opcode("ATOM.E.ADD.F32.FTZ.RN.STRONG.GPU P0, R8, [R2.64], R10").run(state)
    assert after.register(8)[0] == (0x40000000 if done else 1)
    assert bool(after.predicate(0)[0]) is done
    assert after.memory["global"][:4].view("<u4")[0] == (0x40400000 if done else 0x40000000)
    assert after.memory["shared"][:4].view("<u4")[0] == 0x40000000


@pytest.mark.parametrize(
    ("operation", "old", "value", "left"),
    [
        ("ADD.F32.FTZ", 0x00400000, 0x00800000, 0x00800000),  # a denormal operand is zero
        ("ADD.F32.FTZ", 0x80000001, 0x00000000, 0x00000000),
        ("ADD.F32", 0x00400000, 0x00800000, 0x00C00000),
        ("MIN.F16x2", 0x00007E00, 0x80003C00, 0x80003C00),  # -0 below +0; a NaN gives way
        ("MAX.F16x2", 0x00007E00, 0x8000FE01, 0x00007FFF),
        ("MIN.BF16x2", 0xFF80C020, 0x00003F80, 0xFF80C020),
    ],
)
def test_float_atomics(operation: str, old: int, value: int, left: int) -> None:
    state = at(registers(R10=value), GLOBAL)
    state.active[:] = np.arange(32) == 0
    state.memory["global"][:4] = np.array([old], "<u4").view(np.uint8)
    after = Opcode(f"REDG.E.{operation}.RN.STRONG.GPU desc[UR4][R2.64], R10").run(state)
    assert hex(after.memory["global"][:4].view("<u4")[0]) == hex(left)


def test_fp64_atomics_keep_a_nan_as_it_is() -> None:
    state = at(registers(R10=1, R11=0x7FF00000), GLOBAL)
    state.active[:] = np.arange(32) == 0
    state.memory["global"][:8] = np.array([1.5], "<f8").view(np.uint8)
    after = Opcode("REDG.E.ADD.F64.RN.STRONG.GPU desc[UR4][R2.64], R10").run(state)
    assert after.memory["global"][:8].view("<u8")[0] == 0x7FF0000000000001


def test_predicates_of_loads_and_global_atomics_are_false() -> None:
    state = at(registers(R10=1), GLOBAL)
    state.predicate(3)[:] = 0xFFFFFFFF
    for form in ("LDG.E P3, R8, [R2.64]", "ATOMG.E.ADD.STRONG.GPU P3, R8, [R2.64], R10"):
        assert not Opcode(form).run(state).predicate(3).any()


GENERIC = r"""
extern "C" __global__ void generic(float* f, double* d, int shared) {
    __shared__ float s[1];
    __shared__ double t[1];
    if (threadIdx.x == 0) { s[0] = 1.5f; t[0] = 2.0; }
    __syncthreads();
    atomicAdd(shared ? s : f, 2.0f);
    atomicAdd(shared ? t : d, 1.0);
    __syncthreads();
    if (threadIdx.x == 0) { f[1] = s[0]; d[1] = t[0]; }
}
"""


@pytest.mark.parametrize(
    ("shared", "floats", "doubles"), [(0, [64.0, 1.5], [32.0, 2.0]), (1, [0.0, 65.5], [0.0, 34.0])]
)
def test_generic_float_atomics_of_a_program(shared: int, floats: list[float], doubles: list[float]) -> None:
    """Compiled code tries the atomic, then asks for the space and loops on shared memory."""
    kernel = compile(GENERIC, arch="sm_90")["generic"]
    f, d, _ = run(kernel, 1, 32, [np.zeros(2, np.float32), np.zeros(2), np.int32(shared)])
    assert f.tolist() == floats and d.tolist() == doubles


def test_running_past_the_last_instruction_is_an_error() -> None:
    kernel = compile('extern "C" __global__ void k(int* p) { p[threadIdx.x] = 1; }', arch="sm_90")["k"]
    exits = [k for k, i in enumerate(kernel.instructions) if i.opcode == "EXIT"]
    cut = dataclasses.replace(kernel)
    cut.__dict__["instructions"] = kernel.instructions[: exits[0]]
    with pytest.raises(ExecutionError, match="runs past the last instruction"):
        run(cut, 1, 32, [np.zeros(32, np.int32)])

"""Runs one opcode handler on a small warp block and compares everything it wrote with the numpy reference.

``Opcode("@P6 IADD3.X R0, P1, R4, -R5, R6, P0, !PT")`` is parsed, matched and compiled as in a kernel.
A :class:`State` holds all rows of a warp (registers, predicates, barriers), constants and memory.
:func:`check` runs the handler on a copy and asserts that exactly the destination lanes changed, to exactly
the values of the reference.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from hypothesis import strategies as st

from gpusim.events import EVENT
from gpusim.functional import layout as L
from gpusim.functional.image import Builder
from gpusim.functional.jit import jit, plan
from gpusim.isa.instruction import Operand
from gpusim.isa.opcodes import bind
from gpusim.isa.reference import Call, load
from gpusim.isa.sass import PT, RZ, parse_instruction
from gpusim.isa.table import SourceFlags
from gpusim.program import Kernel

REGISTERS = 64
ROWS = L.ROW_R + REGISTERS + 4
GLOBAL, SHARED, LOCAL = 0x7F00_0000_0000, 0x7E00_0000_0000, 0x7D00_0000_0000
GLOBAL_BYTES, SHARED_BYTES, LOCAL_BYTES, CONST_BYTES = 4096, 4096, 256, 1024
WINDOW = 1 << 24
SCRATCH = (*range(L.ROW_TRASH, L.ROW_TRASH + 4), L.ROW_PTRASH)
REFERENCE = load()


def aligned(count: int) -> np.ndarray:
    raw = np.zeros(count + 128, np.uint8)
    skip = -raw.ctypes.data % 128
    return raw[skip : skip + count]


@dataclass(repr=False)
class State:
    """rows: uint32[row][lane] as ``layout`` numbers them; active: lanes of the group; addresses: of mem."""

    rows: np.ndarray
    active: np.ndarray
    memory: dict[str, np.ndarray] = field(default_factory=dict)
    addresses: list[np.ndarray] = field(default_factory=list)
    result: int = 0

    def copy(self) -> State:
        return State(self.rows.copy(), self.active.copy(), {k: v.copy() for k, v in self.memory.items()},
                     [a.copy() for a in self.addresses], self.result)

    def register(self, index: int) -> np.ndarray:
        return self.rows[L.ROW_R + index]

    def predicate(self, index: int, uniform: bool = False) -> np.ndarray:
        return self.rows[(L.ROW_UP if uniform else L.ROW_P) + index]


def blank(seed: int = 1) -> State:
    """Registers and memory full of noise, all lanes active; uniform registers hold one value in all lanes."""
    random = np.random.default_rng(seed)
    rows = random.integers(0, 1 << 32, (ROWS, 32), dtype=np.uint32)
    rows[L.ROW_UR : L.ROW_R] = rows[L.ROW_UR : L.ROW_R, :1]
    for first in (L.ROW_P, L.ROW_UP):
        rows[first : first + 7] = np.where(
            random.integers(0, 2, (7, 32)), np.uint32(0xFFFFFFFF), np.uint32(0)
        )
    rows[L.ROW_UP : L.ROW_UP + 7] = rows[L.ROW_UP : L.ROW_UP + 7, :1]
    rows[L.ROW_ZERO : L.ROW_ZERO + 4] = 0
    rows[L.ROW_TRUE] = 0xFFFFFFFF
    rows[L.ROW_LANE] = np.arange(32)
    for row in (L.ROW_TID_X, L.ROW_TID_Y, L.ROW_TID_Z):
        rows[row] %= 1024
    for row in (L.ROW_WARP, L.ROW_CTAID_X, L.ROW_CTAID_Y, L.ROW_CTAID_Z):
        rows[row] = rows[row, 0]
    sizes = {"global": GLOBAL_BYTES, "shared": SHARED_BYTES, "const": CONST_BYTES}
    memory = {k: random.integers(0, 256, n, dtype=np.uint8) for k, n in sizes.items()}
    memory["local"] = random.integers(0, 256, (32, LOCAL_BYTES), dtype=np.uint8)
    return State(rows, np.ones(32, bool), memory)


class Opcode:
    """An instruction and its compiled handler. immediate: bits of a floating-point immediate."""

    def __init__(self, text: str, immediate: int = 0) -> None:
        match = re.fullmatch(r"(?:@(\S+) )?(\S+)(?: (.*))?", text)
        assert match, text
        guard, name, operands = match.groups()
        self.text = text
        self.encoding = immediate << 32
        self.instruction = parse_instruction(
            0, name, operands or "", f"@{guard}" if guard else None, self.encoding
        )
        self.bound = bind(self.instruction)
        self.row = self.bound.row
        self.plan = plan(self.bound)
        builder = Builder(cast(Kernel, None), 1)
        builder.fill(0, self.plan, jit().address(self.plan))
        self.operation, self.keys = builder.operations, builder.keys
        self.handler = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)(
            jit().address(self.plan)
        )
        slots = iter(self.plan.slots)
        self.destinations = [
            (t, o, next(slots).words if o is not None else 0) for t, o in self.bound.destinations
        ]
        self.sources: list[tuple[str, Operand | None, int]] = []
        self.address_words: list[tuple[int, int]] = []  # of ``mem``: words of base, uniform base
        for token, o in self.bound.sources:
            if token == "any":
                continue
            words = 0
            if o is not None and token == "mem":
                base, ubase = (next(slots).words if index >= 0 else 0 for index in (o.base, o.ubase))
                self.address_words.append((base, ubase))
            elif o is not None and token not in ("imm", "word"):
                words = next(slots).words
            self.sources.append((token, o, words))

    # --- running

    def run(self, state: State) -> State:
        """The state after the handler, which must succeed."""
        after = state.copy()
        block = aligned(L.ROWS + L.ROW * ROWS)
        header = block[: L.ACTIVE_ROW].view(np.int64)
        block[L.ROWS :] = after.rows.reshape(-1).view(np.uint8)
        block[L.ACTIVE_ROW : L.ROWS] = np.where(state.active, -1, 0).astype(np.int32).view(np.uint8)
        shared, local = aligned(SHARED_BYTES), aligned(32 * LOCAL_BYTES)
        arena, bank = aligned(GLOBAL_BYTES), aligned(CONST_BYTES)
        places = {"shared": shared, "local": local, "global": arena, "const": bank}
        for name, place in places.items():
            place[:] = state.memory[name].reshape(-1)
        pool = aligned(L.ROW * max(1, len(self.keys)))
        for i, key in enumerate(self.keys):
            word = key[0] if len(key) == 1 else int(bank[key[2] : key[2] + 4].view("<u4")[0])
            pool.view(np.uint32).reshape(-1, 32)[i] = word & 0xFFFFFFFF
        allocations = np.array([(GLOBAL, GLOBAL + GLOBAL_BYTES)], np.uint64)
        events = aligned(8 * EVENT.itemsize)
        banks = np.zeros((32, 2), np.int64)
        banks[:] = bank.ctypes.data, CONST_BYTES
        context = np.zeros(L.C_WORDS, np.int64)
        for where, value in (
            (L.C_DELTA, arena.ctypes.data - GLOBAL), (L.C_ALLOCS, allocations.ctypes.data), (L.C_N_ALLOCS, 1),
            (L.C_EVENTS, events.ctypes.data), (L.C_EVENT_CAP, 8), (L.C_CONST_TABLE, banks.ctypes.data),
            (L.C_SHARED_WINDOW, SHARED), (L.C_LOCAL_WINDOW, LOCAL), (L.C_SHARED_WINDOW_SIZE, WINDOW),
            (L.C_LOCAL_WINDOW_SIZE, WINDOW), (L.C_SM_COUNT, 132),
        ):
            context[where] = value
        mask = sum(1 << i for i in range(32) if state.active[i])
        for where, value in (
            (L.W_ACTIVE, mask), (L.W_POOL, pool.ctypes.data), (L.W_CONTEXT, context.ctypes.data),
            (L.W_SHARED, shared.ctypes.data), (L.W_SHARED_SIZE, SHARED_BYTES), (L.W_LOCAL, local.ctypes.data),
            (L.W_LOCAL_SIZE, LOCAL_BYTES), (L.W_RESULT, state.result),
        ):
            header[where] = value
        operation = aligned(self.operation.nbytes)
        operation[:] = self.operation.view(np.uint8).reshape(-1)
        assert self.handler(block.ctypes.data, operation.ctypes.data) == L.OK, self.text
        after.rows = block[L.ROWS :].view(np.uint32).reshape(ROWS, 32).copy()
        for name, place in places.items():
            after.memory[name] = place.reshape(state.memory[name].shape).copy()
        return after

    # --- the reference's view

    def read(self, state: State, token: str, o: Operand | None, words: int, number: int) -> Any:
        """A source as the reference gets it."""
        if o is None:
            return None
        if token == "imm":
            return o.value
        if token == "word":
            return o.text
        if token == "mem":
            return state.addresses[number]
        if token == "P":
            return row_of(state, o, 0) != 0
        parts = [self.word(state, token, o, k) for k in range(words)]
        if token == "data":
            return parts
        return (
            parts[0]
            if words == 1
            else parts[0].astype(np.uint64) | parts[1].astype(np.uint64) << np.uint64(32)
        )

    def word(self, state: State, token: str, o: Operand, k: int) -> np.ndarray:
        if o.kind == "const":
            at = o.value + 4 * k
            return np.full(32, state.memory["const"][at : at + 4].view("<u4")[0])
        if o.kind == "imm":
            value = o.value
            if token in ("f32", "h2"):
                value = self.encoding >> 32
            elif token == "f64":
                value = self.encoding
            return np.full(32, value >> (32 * k) & 0xFFFFFFFF, np.uint32)
        return row_of(state, o, k)

    def call(self, state: State) -> Call:
        guard = np.ones(32, bool)
        if self.instruction.guard is not None:
            g = self.instruction.guard
            guard = (row_of(state, g, 0) != 0) ^ g.not_
        flags = tuple(SourceFlags(o.neg, o.abs, o.not_, o.suffixes) if o is not None else SourceFlags()
                      for _, o, _ in self.sources)
        windows = {"global": (GLOBAL, GLOBAL_BYTES), "shared": (SHARED, WINDOW), "local": (LOCAL, WINDOW)}
        if "QSPC" in self.text:
            windows["global"] = (GLOBAL, 1 << 40)
        return Call(self.row.name, self.instruction.modifiers, flags, state.active & guard, state.active,
                    state.rows[L.ROW_P : L.ROW_P + 7] != 0, state.rows[L.ROW_UP : L.ROW_UP + 7] != 0,
                    state.memory, windows, special_registers(state), {"barrier_result": state.result})

    def expected(self, state: State) -> State:
        """The state after, by the reference."""
        after = state.copy()
        call = self.call(after)
        mems = 0
        arguments = []
        for token, o, words in self.sources:
            arguments.append(self.read(state, token, o, words, mems))
            mems += token == "mem"
        results = REFERENCE[self.row.name](call, *arguments)
        for k in range(7):
            changed = call.predicates[k] != (state.predicate(k) != 0)
            after.predicate(k)[changed] = np.where(call.predicates[k], 0xFFFFFFFF, 0).astype(np.uint32)[
                changed
            ]
        some = bool(call.exec.any())  # uniform and barrier registers are whole, whatever is active
        for (token, o, words), value in zip(self.destinations, results, strict=False):
            if o is None or value is None or o.index in (RZ, PT if o.kind in ("P", "UP") else RZ):
                continue
            pieces = value if isinstance(value, list) else [value.astype(np.uint64)]
            if len(pieces) < words:
                pieces = [pieces[0] >> np.uint64(32 * k) for k in range(words)]
            lanes = call.exec if token == "P" or call.written is None else call.written
            if o.kind in ("UR", "UP", "B"):
                lanes = np.full(32, some)
            for k, piece in enumerate(pieces):
                bits = (piece.astype(np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
                if token == "P":
                    bits = np.where(bits != 0, np.uint32(0xFFFFFFFF), np.uint32(0))
                row_of(after, o, k)[lanes] = bits[lanes]
        if "CLEAR" in self.instruction.modifiers:
            source = self.sources[0][1]
            assert source is not None
            row_of(after, source, 0)[np.full(32, some)] = 0
        return after


def row_of(state: State, o: Operand, k: int) -> np.ndarray:
    """Row k of an operand in registers (a view)."""
    if o.kind in ("R", "UR"):
        if o.index == RZ:
            return state.rows[L.ROW_ZERO + k]
        return state.rows[(L.ROW_R if o.kind == "R" else L.ROW_UR) + o.index + k]
    if o.kind == "B":
        return state.rows[L.ROW_B + o.index]
    if o.index == PT:
        return state.rows[L.ROW_TRUE]
    return state.predicate(o.index, o.kind == "UP")


def special_registers(state: State) -> dict[str, np.ndarray]:
    """Values by hand from their definitions in PTX ISA."""
    lane = np.arange(32, dtype=np.uint64)
    one = np.uint64(1)
    below = (one << lane) - one
    full = np.uint64(0xFFFFFFFF)
    rows = state.rows
    x, y, z = (rows[r].astype(np.uint64) for r in (L.ROW_TID_X, L.ROW_TID_Y, L.ROW_TID_Z))
    out = {"SR_LANEID": lane, "SR_EQMASK": one << lane, "SR_LTMASK": below, "SR_LEMASK": below | one << lane,
           "SR_GEMASK": full - below, "SR_GTMASK": full - below - (one << lane), "SRZ": lane * np.uint64(0),
           "SR_TID.X": x, "SR_TID.Y": y, "SR_TID.Z": z, "SR_WARPID": rows[L.ROW_WARP]}
    for axis, row in zip("XYZ", (L.ROW_CTAID_X, L.ROW_CTAID_Y, L.ROW_CTAID_Z), strict=True):
        out[f"SR_CTAID.{axis}"] = rows[row]
    return out


Compare = Callable[[Opcode, State, State, State], None]


def check(opcode: Opcode, state: State, compare: Compare | None = None) -> None:
    """Handler and reference must leave the same rows and memory (or pass ``compare``)."""
    got, want = opcode.run(state), opcode.expected(state)
    got.rows[list(SCRATCH)] = want.rows[list(SCRATCH)] = 0
    if compare is not None:
        compare(opcode, state, got, want)
    for row, lane in np.argwhere(got.rows != want.rows)[:1]:
        inputs = [f"{v[lane]:#x}" for v in (opcode.read(state, t, o, w, 0) for t, o, w in opcode.sources)
                  if isinstance(v, np.ndarray) and v.dtype != bool]
        raise AssertionError(
            f"{opcode.text}: row {row} ({row - L.ROW_R}) lane {lane}: handler {got.rows[row, lane]:#x}, "
            f"reference {want.rows[row, lane]:#x}, sources {' '.join(inputs)}"
        )
    for name, data in want.memory.items():
        assert np.array_equal(got.memory[name], data), f"{opcode.text}: {name} memory differs"


# --- values

F32_SPECIAL = [
    0, 0x80000000, 0x3F800000, 0xBF800000, 1, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00400000, 0x00800000,
    0x80800000, 0x00800001, 0x00FFFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
    0xFFC12345, 0x7FA00001, 0x3F7FFFFF, 0x3F800001, 0x33800000, 0x34000000, 0x4B000000, 0x4B000001,
    0x4AFFFFFF, 0x3F000000, 0x3FC00000, 0x40200000, 0xBF000000, 0x3EFFFFFF, 0x3F000001, 0x4F000000,
    0xCF000000, 0xCF000001, 0x4EFFFFFF, 0x4F800000, 0x4F7FFFFF, 0x5F000000, 0xDF000000, 0x5F7FFFFF,
    0x5F800000, 0x437F0000, 0x437F8000, 0x43000000, 0xC3008000, 0x477FE000, 0x477FF000, 0x477FEFFF,
    0x33000000, 0x33000001, 0x387FC000, 0x38800000, 0x42FE0000, 0xC2FC0000, 0xC3150000, 0x3F7F8000,
    0x3F808000, 0x3F818000, 0x7F7F8000, 0x7E800000,
]
F64_SPECIAL = [
    0,
    1 << 63,
    0x3FF0000000000000,
    0xBFF0000000000000,
    1,
    (1 << 63) | 1,
    0x000FFFFFFFFFFFFF,
    0x0010000000000000,
    0x8010000000000000,
    0x0010000000000001,
    0x7FEFFFFFFFFFFFFF,
    0xFFEFFFFFFFFFFFFF,
    0x7FF0000000000000,
    0xFFF0000000000000,
    0x7FF8000000000000,
    0xFFF8000000012345,
    0x7FF4000000000001,
    0x3FEFFFFFFFFFFFFF,
    0x3FF0000000000001,
    0x3CA0000000000000,
    0x3CB0000000000000,
    0x4330000000000000,
    0x4330000000000001,
    0x3FE0000000000000,
    0x3FF8000000000000,
    0x4004000000000000,
    0xBFE0000000000000,
    0x41E0000000000000,
    0xC1E0000000000000,
    0xC1E0000000200000,
    0x41DFFFFFFFC00000,
    0x41DFFFFFFFE00000,
    0x41F0000000000000,
    0x41EFFFFFFFE00000,
    0x43E0000000000000,
    0xC3E0000000000000,
    0x43EFFFFFFFFFFFFF,
    0x43F0000000000000,
    0x47EFFFFFE0000000,
    0x47EFFFFFF0000000,
    0x47EFFFFFEFFFFFFF,
    0x3810000000000000,
    0x380FFFFFF0000000,
    0x36A0000000000000,
    0x3690000000000000,
    0x3690000000000001,
    0x3FF0000010000000,
    0x3FF0000030000000,
    0x40EFFC0000000000,
    0x40EFFE0000000000,
    0x3E70000000000000,
    0x3E60000000000000,
    0x3E60000000000001,
    0x3FF0020000000000,
    0x3FF0060000000000,
    0x3FF0020000000001,
    0x3FF0100000000000,
    0x3FF0300000000000,
]
F16_SPECIAL = [
    0, 0x8000, 0x3C00, 0xBC00, 1, 0x8001, 0x3FF, 0x400, 0x401, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01,
    0x7D01, 0x3BFF, 0x3C01, 0x1400, 0x1000, 0x6400, 0x6401, 0x3800, 0x3E00, 0x4100, 0x5BFF, 0x77FF, 0x7800,
]
BF16_SPECIAL = [
    0, 0x8000, 0x3F80, 0xBF80, 1, 0x8001, 0x7F, 0x80, 0x81, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1,
    0x7FA1, 0x3F7F, 0x3F81, 0x3B80, 0x3B00, 0x4300, 0x4301, 0x3F00, 0x3FC0, 0x4020, 0x1F81, 0x5F81,
]
I32_SPECIAL = [
    0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 32767, 32768, 65535, 65536,
    0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFF8000, 0xFFFF7FFF,
    0xFFFFFF80, 0xFFFFFF7F, 0xAAAAAAAA, 0x00FF00FF, 0x01000001, 0x01000003, 0x02000002, 0x7FFFFFC0,
    0x7FFFFFBF,
]
I64_SPECIAL = [
    0, 1, 0xFFFFFFFFFFFFFFFF, 1 << 63, (1 << 63) - 1, (1 << 63) + 1, 0xFFFFFFFF, 1 << 32, (1 << 32) + 1,
    0xFFFFFFFF00000000, (1 << 24) + 1, (1 << 53) + 1, (1 << 54) + 2, (1 << 54) + 6, 0x7FFFFFBFFFFFFFFF,
    0x7FFFFFC000000000, 0x7FFFFFC000000001, 0xFFFFFF8000000000, 0xFFFFFF7FFFFFFFFF, 0x8000004000000000,
    0xFFFFFFFFFFFFFC00, 0x7FFFFFFFFFFFFE00, 0xFFFFFFFFFFFFFBFF, 5, 63,
]

FLOAT_RAW = ("F2I", "FRND", "F2F", "MUFU", "HADD2", "HMUL2", "HFMA2", "HMNMX2", "VHMNMX", "HSET")


def specials(opcode: Opcode, token: str, words: int) -> list[int]:
    """Values worth trying for a source."""
    modifiers = opcode.instruction.modifiers
    name = opcode.row.name
    if token == "f64" and not name.startswith("I2F"):
        return F64_SPECIAL
    if token in ("i64", "raw64") or words == 2:
        return I64_SPECIAL
    if "64H" in name:
        return [v >> 32 for v in F64_SPECIAL] + [0x7FD00000, 0x7FE00000, 0x00200000]
    if token == "h2" or (token == "raw" and name.startswith(FLOAT_RAW)):
        if name.startswith(("F2I", "FRND", "F2F")) and not {"F16", "BF16"} & set(modifiers):
            return F32_SPECIAL
        if any(w.startswith("BF16") for w in modifiers) and "F32" not in modifiers:
            return [v | u << 16 for v in BF16_SPECIAL for u in BF16_SPECIAL[:: 1 + v % 3]]
        if token == "h2" or (any(w.startswith("F16") for w in modifiers) and "F32" not in modifiers):
            return [v | u << 16 for v in F16_SPECIAL for u in F16_SPECIAL[:: 1 + v % 3]]
        return F32_SPECIAL
    return F32_SPECIAL if token == "f32" else I32_SPECIAL


#: One draw for the 32 values of a source: for each lane a byte (special or not) and eight bytes of number.
VALUES = st.binary(min_size=32 * 9, max_size=32 * 9)


def chosen(raw: bytes, table: np.ndarray, bits: int) -> np.ndarray:
    """Of each lane's nine bytes: three quarters an entry of the table, else the bits as they are."""
    data = np.frombuffer(raw, np.uint8).reshape(32, 9)
    number = data[:, 1:].copy().view("<u8")[:, 0]
    keep = np.uint64((1 << bits) - 1)
    return np.where(data[:, 0] < 192, table[number % np.uint64(len(table))], number & keep)


@st.composite
def states(draw: st.DrawFn, opcode: Opcode) -> State:
    """Source registers and predicates drawn, the rest noise; some lanes inactive, the guard mostly true."""
    state = blank(draw(st.integers(0, 1 << 16)))
    mask = draw(st.one_of(st.just(0xFFFFFFFF), st.integers(1, 0xFFFFFFFF)))
    state.active = np.array([bool(mask >> i & 1) for i in range(32)])
    previous: np.ndarray | None = None
    for token, o, words in opcode.sources:
        if o is None or o.kind not in ("R", "UR") or o.index == RZ or token in ("mem", "data"):
            continue
        bits = 32 * words
        uniform = o.kind == "UR"
        values = chosen(draw(VALUES), np.array(specials(opcode, token, words), np.uint64), bits)
        values = np.repeat(values[:1], 32) if uniform else values
        if previous is not None and not uniform and previous.size == values.size:
            # equal and opposite operands: ties, cancellation, equal comparisons
            values[1::8] = previous[1::8]
            if token in ("f32", "f64"):
                values[3::8] = previous[3::8] ^ np.uint64(1 << (bits - 1))
        previous = values
        for k in range(words):
            row_of(state, o, k)[:] = (values >> np.uint64(32 * k)).astype(np.uint32)
    guard = opcode.instruction.guard
    if guard is not None and draw(st.booleans()):
        row_of(state, guard, 0)[:] = 0 if guard.not_ else 0xFFFFFFFF
    return state


def opcode_of(form: str | tuple[str, int], index: int = 0) -> Opcode:
    """Of a form table's entry, text or (text, immediate bits); guarded by a predicate it does not use."""
    text, immediate = form if isinstance(form, tuple) else (form, 0)
    uniform = re.match(r"\S+ (?:U?PT?\d?, )?U[RP]", text) or text[0] == "U"
    return Opcode(f"@{'!' if index % 2 else ''}{'U' if uniform else ''}P6 {text}", immediate)


def name_of(form: str | tuple[str, int]) -> str:
    return (form if isinstance(form, str) else form[0]).replace(" ", "_")

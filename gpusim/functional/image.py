"""A kernel made ready to run: one operation block an instruction, and the pool of its constants.

Everything unknown is refused here, by name, before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpusim.errors import CubinError, UnsupportedError
from gpusim.functional import layout as L
from gpusim.functional.jit import Plan, jit, plan
from gpusim.isa import rows_memory
from gpusim.isa.instruction import Instruction, Operand
from gpusim.isa.opcodes import bind
from gpusim.isa.sass import PT, RZ
from gpusim.isa.table import Bound, Mods, where
from gpusim.program import Kernel

OPERATION = np.dtype(
    {
        "names": [
            "handler",
            "guard",
            "guard_neg",
            "operands",
            "imm0",
            "imm1",
            "pc",
            "flags",
            "kind",
            "target",
            "ticks",
        ],
        "formats": ["<i8", "<i4", "<i4", ("<i4", 12), "<i8", "<i8", "<i4", "<i4", "<i4", "<i4", "<i8"],
        "offsets": [
            L.O_HANDLER,
            L.O_GUARD,
            L.O_GUARD_NEG,
            L.O_OPERANDS,
            L.O_IMM0,
            L.O_IMM1,
            L.O_PC,
            L.O_FLAGS,
            L.O_KIND,
            L.O_TARGET,
            L.O_TICKS,
        ],
        "itemsize": L.OPERATION,
    }
)

CONTROL = {
    "": L.K_DATA,
    "BRA": L.K_BRA,
    "EXIT": L.K_EXIT,
    "BSSY": L.K_BSSY,
    "BSYNC": L.K_BSYNC,
    "BREAK": L.K_BREAK,
    "WARPSYNC": L.K_WARPSYNC,
    "BAR": L.K_BAR,
    "INDIRECT": L.K_INDIRECT,
    "NOP": L.K_NOP,
    "YIELD": L.K_YIELD,
    "TRAP": L.K_TRAP,
}

POOL = -0x80000000  # sign bit of an operand offset: relative to the constant pool

#: A pool row: an immediate word, or ("c", bank, offset) read when the launch is known.
PoolKey = tuple[int] | tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Traits:
    """What the code does that decides how CTAs may be scheduled.

    ordered: results can depend on the order of CTAs (atomics that return a value, floating-point
    reductions): CTAs run in one fixed order. communicates: it reads memory other CTAs may write meanwhile
    (strong loads, atomics that return a value): the CTAs resident together are interleaved.
    """

    ordered: bool
    communicates: bool


@dataclass(slots=True)
class Image:
    """Operation blocks and pool of a kernel."""

    kernel: Kernel
    operations: np.ndarray
    pool_keys: list[PoolKey]
    traits: Traits
    registers: int
    _index: dict[PoolKey, int] = field(default_factory=dict)

    def pool(self, banks: Mapping[int, np.ndarray]) -> np.ndarray:
        """uint32[n][32]: the constants of a launch, one row each."""
        out = np.zeros((max(1, len(self.pool_keys)), 32), np.uint32)
        for i, key in enumerate(self.pool_keys):
            if len(key) == 1:
                out[i] = key[0] & 0xFFFFFFFF
                continue
            _, bank, offset = key
            data = banks.get(bank)
            if data is None or not 0 <= offset <= data.size - 4:
                raise CubinError(
                    f"{self.kernel.display_name} reads c[0x{bank:x}][0x{offset:x}], which the binary "
                    "does not hold"
                )
            out[i] = data[offset : offset + 4].view("<u4")[0]
        return out


class Builder:
    """Fills operation blocks instruction by instruction."""

    def __init__(self, kernel: Kernel, count: int) -> None:
        self.kernel = kernel
        self.operations = np.zeros(count, OPERATION)
        self.keys: list[PoolKey] = []
        self.index: dict[tuple[PoolKey, ...], int] = {}
        self.registers = 0

    def _pooled(self, words: tuple[PoolKey, ...]) -> int:
        """Offset of consecutive pool rows holding these words."""
        at = self.index.get(words)
        if at is None:
            at = self.index[words] = len(self.keys)
            self.keys.extend(words)
        return POOL | (at * L.ROW)

    def _constant(self, o: Operand, token: str, words: int, instruction: Instruction) -> int:
        if o.kind == "const":
            if o.value % (4 * words):
                raise UnsupportedError(f"a constant of {4 * words} bytes at the misaligned offset "
                                       f"0x{o.value:x} is not supported", where=where(instruction),
                                       hint="the hardware ends the kernel with a misaligned address")
            return self._pooled(tuple(("c", o.bank, o.value + 4 * k) for k in range(words)))
        encoded = (instruction.encoding >> 32) & 0xFFFFFFFF
        if token == "f64":
            return self._pooled(((0,), (encoded,)))
        if token in ("f32", "h2"):
            return self._pooled(((encoded,),))
        return self._pooled(tuple(((o.value >> (32 * k)) & 0xFFFFFFFF,) for k in range(words)))

    def offset(self, o: Operand, token: str, words: int, destination: bool, instruction: Instruction) -> int:
        """Row offset of an operand."""
        if o.kind in ("R", "UR"):
            if o.index == RZ:
                return L.row(L.ROW_TRASH if destination else L.ROW_ZERO)
            if o.kind == "R":
                self.registers = max(self.registers, o.index + words)
            return L.row((L.ROW_R if o.kind == "R" else L.ROW_UR) + o.index)
        if o.kind in ("P", "UP"):
            if o.index == PT:
                return L.row(L.ROW_PTRASH if destination else L.ROW_TRUE)
            return L.row((L.ROW_P if o.kind == "P" else L.ROW_UP) + o.index)
        if o.kind == "B":
            return L.row(L.ROW_B + o.index)
        if destination:
            raise UnsupportedError(f"destination {o.text} is not supported", where=where(instruction))
        return self._constant(o, token, words, instruction)

    def fill(self, i: int, p: Plan, address: int) -> None:
        row, instruction = p.bound.row, p.bound.instruction
        op = self.operations[i]
        op["handler"], op["pc"] = address, instruction.pc
        guard = instruction.guard
        op["guard"] = L.row(L.ROW_TRUE) if guard is None else self.offset(guard, "P", 1, False, instruction)
        op["guard_neg"] = -1 if guard is not None and guard.not_ else 0
        for k, slot in enumerate(p.slots):
            op["operands"][k] = self.offset(
                slot.operand, slot.token, slot.words, slot.destination, instruction
            )
        op["imm0"], op["imm1"] = p.immediate, p.immediate2
        op["kind"] = CONTROL[row.control]
        op["ticks"] = 1 | max(1, instruction.control.stall) << 32
        if row.flags:
            op["flags"] = row.flags(Mods(row.name, instruction.modifiers))
        if row.control == "BRA":
            op["target"] = self._target(p.bound, instruction) // 16
        elif row.control == "INDIRECT":
            op["imm0"] = self._base(instruction)
        elif row.name == "BMOV" and instruction.operands[0].kind == "B":
            op["kind"], op["imm0"] = L.K_BMOV, instruction.operands[0].index

    def _symbol(self, name: str, instruction: Instruction) -> int:
        name = name.strip("`()")
        if name == self.kernel.name:
            return 0
        found = self.kernel.pc_of_symbol.get(name)
        if found is None:
            raise UnsupportedError(
                f"the target {name} lies outside the kernel's code", where=where(instruction)
            )
        return found

    def _target(self, bound: Bound, instruction: Instruction) -> int:
        o = instruction.operands[-1]
        target = o.value if o.kind in ("imm", "label") else self._symbol(o.text, instruction)
        if target % 16 or not 0 <= target < 16 * len(self.operations):
            raise CubinError(f"branch target 0x{target:x} lies outside the code", where=where(instruction))
        return target

    def _base(self, instruction: Instruction) -> int:
        """What is added to the register of an indirect branch."""
        if len(instruction.operands) < 2:
            return 0
        o = instruction.operands[-1]
        if o.kind == "imm":  # BRX: relative to the next instruction
            return instruction.pc + 16 + o.value
        return self._symbol(o.text, instruction)


def _traits(bounds: list[Bound]) -> Traits:
    ordered = communicates = False
    for b in bounds:
        opcode, modifiers = b.instruction.opcode, b.instruction.modifiers
        if opcode in ("ATOM", "ATOMG"):
            ordered = communicates = True
        elif opcode in ("RED", "REDG"):
            ordered |= not rows_memory.order_free(Mods(opcode, modifiers))
        elif opcode in ("LDG", "LD") and "STRONG" in modifiers and ("GPU" in modifiers or "SYS" in modifiers):
            ordered = communicates = True
    return Traits(ordered, communicates)


def build(kernel: Kernel) -> Image:
    """Match, compile and lay out every instruction of a kernel."""
    instructions = kernel.instructions
    if not instructions:
        raise CubinError(f"{kernel.display_name} has no code")
    compiler = jit()
    builder = Builder(kernel, len(instructions))
    bounds = [bind(i) for i in instructions]
    plans = [plan(b) for b in bounds]
    compiler.prepare(plans)
    for i, p in enumerate(plans):
        builder.fill(i, p, compiler.address(p))
    registers = max(builder.registers, kernel.registers_per_thread)
    return Image(kernel, builder.operations, builder.keys, _traits(bounds), registers)

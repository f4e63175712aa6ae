"""Decoded SASS: one frozen instruction type for every architecture.

An :class:`Instruction` is what ``isa.sass`` makes of one line of nvdisasm plus its 128-bit encoding.
It says nothing about what the opcode does; that is ``isa.opcodes``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

OperandKind = Literal[
    "R",  # general register, index 255 is RZ
    "UR",  # uniform register, index of URZ is 255 here whatever the architecture calls it
    "P",  # predicate, index 7 is PT
    "UP",  # uniform predicate, index 7 is UPT
    "B",  # convergence barrier register
    "SB",  # scoreboard
    "SR",  # special register, by name
    "imm",  # integer immediate (value) or float immediate (bits from the encoding)
    "const",  # c[bank][offset], optional index register
    "mem",  # [register + uniform register + offset], optional descriptor
    "label",  # branch target, byte address in the function
    "name",  # anything else that is a bare word
]


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand.

    index: register number; value: immediate (as written, sign kept), label address, or byte offset;
    neg, abs, not_: source modifiers ``-x``, ``|x|``, ``~x``/``!p``; suffixes: ``.H0_H0``, ``.64``,
    ``.X4``, ``.reuse`` excluded; is_float: the immediate was written as a floating-point number.
    For ``mem``: base/ubase register numbers (-1 absent), base64: address register is a pair,
    desc: uniform register of the memory descriptor (-1 absent), value: byte offset, scale: 1, 4, 8 or
    16. For ``const``: bank, value = byte offset, base = index register (-1 none), ubase = uniform
    register holding the bank (-1 none).
    """

    kind: OperandKind
    index: int = -1
    value: int = 0
    neg: bool = False
    abs: bool = False
    not_: bool = False
    suffixes: tuple[str, ...] = ()
    is_float: bool = False
    reuse: bool = False
    bank: int = -1
    base: int = -1
    ubase: int = -1
    base64: bool = False
    ubase64: bool = False
    desc: int = -1
    scale: int = 1
    text: str = ""


@dataclass(frozen=True, slots=True)
class ControlWord:
    """The compiler's scheduling fields of a 128-bit instruction (bits 105-124; hardware.md 2).

    stall: cycles 0-15; yield_: True asks the scheduler to prefer another warp; write_barrier,
    read_barrier: dependence counter 0-5 or None; wait_mask: 6 bits; reuse: 3 bits (operand cache).
    """

    stall: int
    yield_: bool
    write_barrier: int | None
    read_barrier: int | None
    wait_mask: int
    reuse: int

    @classmethod
    def decode(cls, encoding: int) -> ControlWord:
        """From the 128-bit encoding as one integer (low 64-bit word in the low bits)."""
        bits = encoding >> 105
        wr, rd = (bits >> 5) & 7, (bits >> 8) & 7
        return cls(
            stall=bits & 15,
            yield_=not (bits >> 4) & 1,
            write_barrier=None if wr == 7 else wr,
            read_barrier=None if rd == 7 else rd,
            wait_mask=(bits >> 11) & 63,
            reuse=(bits >> 17) & 7,
        )


@dataclass(frozen=True, slots=True)
class Instruction:
    """One SASS instruction.

    pc: byte address in its function (step 16); opcode: the word before the first dot; modifiers:
    the dotted words after it; guard: predicate operand or None for always; operands in printed
    order (destinations first; the opcode table says how many); encoding: the 128 bits; line:
    source line or None; file: source file of that line or None.
    """

    pc: int
    opcode: str
    modifiers: tuple[str, ...]
    guard: Operand | None
    operands: tuple[Operand, ...]
    encoding: int
    control: ControlWord
    text: str
    line: int | None = None
    file: str | None = None
    inlined_at: tuple[tuple[str, int], ...] = field(default=())

    @property
    def name(self) -> str:
        """Opcode with modifiers, as printed."""
        return ".".join((self.opcode, *self.modifiers))

"""The kernel that runs one instruction: loads its registers, executes it, stores what it may have written.

Per thread i (and warp i >> shift) the template

* loads R8-R11, R12-R15, R16-R19, R24-R27 and the same uniform registers from the inputs, P0-P6 and UP0-UP6
  from a word each;
* for memory forms copies the warp's 2 KB of global scratch to shared memory, 64 bytes a thread of it to local
  memory, and leaves addresses: R28:R29 global, R30 shared, R31 local, R32:R33 generic shared, R44:R45 generic
  local, UR4:UR5 the memory descriptor; bases: UR6:UR7 the warp's scratch, UR20:UR21 shared, UR22:UR23
  sixteen,
  UR29 an offset below 64; and offsets: R34 global, R46 shared, R47 = R46 / 16, R21 local;
* executes :data:`SLOT` instructions, the form under test among them;
* waits, then stores R24-R27, UR24-UR27 and the predicates; memory forms copy shared and local back.

It depends on no opcode but a dozen that compiled code uses for this, all conservatively scheduled: every
instruction waits for all dependence counters, and idle instructions stand where a latency must pass.
The template is compiled once (``base.cu`` gives the launch's frame) and its code replaced; a form is a
patch of
64 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpusim import program
from gpusim.cubin.elf import INSTRUCTION_BYTES
from gpusim.validation.opcodes.encode import PT, RZ, URZ, instruction

ENTRY = "opcode_truth"
BASE = Path(__file__).with_name("base.cu")
SLOT = 16  # instructions a form may have
OUT_WORDS = 12  # R24-R27, UR24-UR27, P, UP, two spare
MEMORY_WORDS = OUT_WORDS + 32  # then 16 words of shared and 16 of local memory
REGION = 2048  # bytes of scratch (and of shared memory) a warp
LOCAL = 64  # bytes of local memory a thread
SHARED_HIGH = 47  # SR_SWINHI
SHARED_BASE = 0x400  # the window's first kilobyte belongs to the system
PARAM = {"in": 0x210, "uin": 0x218, "out": 0x220, "scratch": 0x228, "shift": 0x230}
CONST = 0x234  # 24 words of constants
#: EIATTR_EXIT_INSTR_OFFSETS as it stands in .nv.info: format 4, attribute 0x1c, length 4.
_EXITS = bytes.fromhex("041c0400")
SETTLE = 256  # idle instructions after the form, 8 cycles each: a match takes hundreds, an atomic more


@dataclass(frozen=True, slots=True)
class Template:
    """cubin: the whole file; slot: offset in it of the instructions to patch; start, end: the code in it."""

    cubin: bytes
    slot: int
    start: int
    end: int

    def patched(self, encodings: tuple[int, ...]) -> bytes:
        """The cubin that runs these instructions."""
        words = [*encodings, *[instruction("NOP")] * (SLOT - len(encodings))]
        code = b"".join(e.to_bytes(INSTRUCTION_BYTES, "little") for e in words)
        return self.cubin[: self.slot] + code + self.cubin[self.slot + len(code) :]


class _Code:
    def __init__(self) -> None:
        self.words: list[int] = []

    def __call__(self, name: str, **fields: int) -> None:
        self.words.append(instruction(name, fields))

    def idle(self, count: int) -> None:
        for _ in range(count):
            self("NOP")


def _thread(c: _Code) -> None:
    """R0 = thread in the grid, R1 = warp (by the launch's shift)."""
    c("S2R", d=0, sr=0x21)
    c("S2R", d=1, sr=0x25)
    c("LDC", d=2, coff=0)  # threads a block
    c("IMAD", d=0, a=1, b=2, c=0)
    c("LDC", d=3, coff=PARAM["shift"] >> 2)
    c.idle(1)
    c("SHF.R.U32.HI", d=1, a=RZ, b=3, c=0)
    c.idle(1)


def _scale(c: _Code, pointer: str, index: int, size: int, to: int) -> None:
    """R[to:to+1] = parameter + R[index] * size."""
    c("LDC.64", d=to, coff=PARAM[pointer] >> 2)
    c("IMAD.WIDE.U32", d=to, a=index, imm=size, c=to)
    c.idle(1)


def _uniform_inputs(c: _Code) -> None:
    """Twenty words of the warp to UR8-UR19, UR24-UR27 and UP0-UP6."""
    _scale(c, "uin", 1, 80, 4)
    for k, first in enumerate((8, 12, 16, 24)):
        c("LDG.128", d=36, a=4, off=16 * k, b=4)
        for j in range(4):
            c("R2UR", d=first + j, a=36 + j)
    c("LDG.128", d=36, a=4, off=64, b=4)
    c("R2UR", d=28, a=36)
    c("LOP3.AND", d=37, a=37, imm=LOCAL - 16, c=RZ, lut=0xC0, pp=PT | 8)
    c.idle(4)
    c("R2UR", d=29, a=37)
    for k in range(7):
        c("ULOP3.AND", d=URZ, a=28, imm=1 << k, c=URZ, lut=0xC0, pd=k, pp=PT | 8)
    c.idle(2)


def _frame(c: _Code) -> None:
    """R22 = shared address of the lane's part, R31 = the thread's local memory; R20 = lane (R6, R7 used)."""
    c("LOP3.AND", d=20, a=0, imm=31, c=RZ, lut=0xC0, pp=PT | 8)
    c("MOV", d=6, imm=SHARED_BASE)
    c("LDC", d=7, coff=0x28 >> 2)
    c.idle(1)
    c("IMAD.WIDE.U32", d=22, a=20, imm=16, c=6)
    c("IADD3I", d=31, a=7, imm=-256 & 0xFFFFFFFF, c=RZ)
    c.idle(1)


def _memory(c: _Code) -> None:
    """Scratch to shared and local memory, then the address registers (see above); R34, R46 = offset words."""
    c("SHF.R.U32.HI", d=1, a=RZ, b=3, c=0)
    _scale(c, "scratch", 1, REGION, 2)
    c("R2UR", d=6, a=2)
    c("R2UR", d=7, a=3)
    _frame(c)
    c("IMAD.WIDE.U32", d=4, a=20, imm=16, c=2)
    c.idle(1)
    for k in range(4):
        c("LDG.128", d=36, a=4, off=512 * k, b=4)
        c("STS.128", a=22, b=36, off=512 * k)
        c("STL.128", a=31, b=36, off=16 * k)
    c("IMAD.WIDE.U32", d=28, a=34, imm=1, c=2)
    c("IADD3I", d=30, a=46, imm=SHARED_BASE, c=RZ)
    c("LOP3.AND", d=21, a=34, imm=LOCAL - 16, c=RZ, lut=0xC0, pp=PT | 8)
    c("MOV", d=39, imm=4)
    c("S2R", d=33, sr=SHARED_HIGH)
    c("LDC.64", d=44, coff=0x20 >> 2)  # the local window
    c.idle(1)
    c("SHF.R.U32.HI", d=47, a=RZ, b=39, c=46)
    c("IADD3", d=31, a=31, b=21, c=RZ, pd=PT)
    c("MOVR", d=32, b=30)
    c.idle(1)
    c("IMAD.WIDE.U32", d=44, a=31, imm=1, c=44)
    for to, value in ((20, SHARED_BASE), (22, 16)):
        c("MOV", d=36, imm=value)
        c("MOV", d=37, imm=0)
        c.idle(1)
        c("R2UR", d=to, a=36)
        c("R2UR", d=to + 1, a=37)
    c.idle(2)


def _inputs(c: _Code) -> None:
    """Twenty words of the thread; predicates last."""
    _scale(c, "in", 0, 80, 4)
    c("LDG.128", d=36, a=4, off=64, b=4)
    for k, first in enumerate((8, 12, 16, 24)):
        c("LDG.128", d=first, a=4, off=16 * k, b=4)
    c("MOVR", d=34, b=37)
    c("MOVR", d=35, b=36)
    c("MOVR", d=46, b=38)
    c.idle(1)


def _outputs(c: _Code, memory: bool) -> None:
    c("P2R", d=40, a=RZ, imm=0x7F)
    c("UP2UR", d=28, a=URZ, imm=0x7F)
    c.idle(2)
    for j in range(4):
        c("MOV.UR", d=36 + j, b=24 + j)
    c("MOV.UR", d=41, b=28)
    c("MOV", d=42, imm=0)
    c("MOV", d=43, imm=0)
    c("ULDC.64", d=4, coff=0x208 >> 2)
    c.idle(2)
    _thread(c)
    _scale(c, "out", 0, 4 * (MEMORY_WORDS if memory else OUT_WORDS), 4)
    for k, first in enumerate((24, 36, 40)):
        c("STG.128", a=4, b=first, off=16 * k, c=4)
    if not memory:
        return
    _frame(c)
    for k in range(4):
        c("LDS.128", d=36, a=22, off=512 * k)
        c("STG.128", a=4, b=36, off=48 + 16 * k, c=4)
        c("LDL.128", d=36, a=31, off=16 * k)
        c("STG.128", a=4, b=36, off=112 + 16 * k, c=4)


def code(memory: bool) -> tuple[list[int], int]:
    """The template's instructions and the index of the slot."""
    c = _Code()
    c("ULDC.64", d=4, coff=0x208 >> 2)
    _thread(c)
    _uniform_inputs(c)
    _inputs(c)
    if memory:
        _memory(c)
    c("R2P", a=35, imm=0x7F)
    c.idle(8)
    slot = len(c.words)
    c.idle(SLOT)
    c.idle(SETTLE)
    _outputs(c, memory)
    c("EXIT")
    return c.words, slot


def build(memory: bool, base: bytes | None = None) -> Template:
    """The template cubin for register forms, or for memory forms; ``base``: base.cu compiled for sm_90."""
    cubin = base if base is not None else program.compile(BASE, arch="sm_90").cubin
    module = program._module(cubin, None, {}, {})
    kernel = module[ENTRY]
    words, slot = code(memory)
    data = b"".join(w.to_bytes(INSTRUCTION_BYTES, "little") for w in words)
    nop = instruction("NOP").to_bytes(INSTRUCTION_BYTES, "little")
    start = cubin.index(kernel.code)
    exits = cubin.index(_EXITS) + len(_EXITS)
    if len(data) > len(kernel.code) or cubin.count(kernel.code) != 1 or cubin.count(_EXITS) != 1:
        raise AssertionError("base.cu no longer fits the template")
    padding = nop * ((len(kernel.code) - len(data)) // INSTRUCTION_BYTES)
    out = cubin[:start] + data + padding + cubin[start + len(kernel.code) :]
    out = out[:exits] + (len(data) - INSTRUCTION_BYTES).to_bytes(4, "little") + out[exits + 4 :]
    return Template(out, start + slot * INSTRUCTION_BYTES, start, start + len(kernel.code))

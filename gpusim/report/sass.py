"""Annotated disassembly: every instruction with its address, live registers, control word and source.

One layout, two forms: :func:`render_sass` gives plain text (for files, pipes and tests),
:func:`rich_sass` the same lines with colours for a terminal.

Columns: ``pc`` byte address, ``>`` before a branch target; ``live`` live general registers;
``stall`` cycles until this warp may issue again; ``y`` asks the scheduler to prefer another warp;
``W`` and ``R`` the counters that this instruction raises until its result is written or its
sources are read; ``wait`` the counters it waits for; ``reuse`` operands kept in the operand cache
(hardware.md 2).  A source line stands above the instructions that the compiler made from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from rich.text import Text

from gpusim.isa.instruction import ControlWord, Instruction
from gpusim.program import Kernel

_HEADER = f"{'pc':>7} {'live':>4} | {'stall':>5} y W R {'wait':<6} {'reuse':<5} | instruction"
_PADDING = "NOP"
_SOURCE_WIDTH = 56  # characters of a source line
_JUMPS = frozenset({"BRA", "BSSY", "CALL", "JMP"})


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the listing: pieces of text, each with the style of its column."""

    pieces: tuple[tuple[str, str], ...]

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self.pieces).rstrip()


def render_sass(kernel: Kernel, *, source: bool = True) -> str:
    """The listing as plain text, ending in a newline; ``source`` False leaves source lines out."""
    return "\n".join(line.plain for line in _lines(kernel, source)) + "\n"


def rich_sass(kernel: Kernel, *, source: bool = True) -> Text:
    """The same listing for a rich console."""
    listing = Text("\n").join(Text.assemble(*line.pieces) for line in _lines(kernel, source))
    listing.no_wrap, listing.overflow = True, "ignore"  # the terminal may wrap a long operand, never lose it
    return listing


def summary(kernel: Kernel) -> str:
    """One line of what the kernel needs."""
    spills = "spills unknown" if kernel.spill_bytes is None else f"{kernel.spill_bytes} B spilled"
    return (
        f"{kernel.display_name}  {kernel.arch}  {kernel.registers_per_thread} registers, "
        f"{kernel.static_shared_bytes} B shared, {kernel.frame_bytes} B frame, {spills}, "
        f"{kernel.param_bytes} B parameters at c[0x0][{kernel.param_base:#x}]"
    )


def _lines(kernel: Kernel, source: bool) -> Iterator[_Line]:
    yield _Line(((summary(kernel), "bold"),))
    yield _Line(((_HEADER, "dim"),))
    instructions = kernel.instructions
    targets = {
        o.value for i in instructions if i.opcode in _JUMPS for o in i.operands if o.kind in ("label", "imm")
    }
    functions = {pc: name for name, pc in kernel.pc_of_symbol.items() if pc}
    body = _without_padding(instructions)
    texts: dict[str, list[str]] = {}
    last: tuple[object, ...] | None = None
    for instruction, live in zip(instructions[:body], kernel.live_registers, strict=False):
        if instruction.pc in functions:
            yield _Line(((f"{functions[instruction.pc]}:", "bold"),))
        place = (instruction.file, instruction.line, instruction.inlined_at)
        if source and instruction.line is not None and place != last:
            last = place
            yield _source_line(kernel, instruction, texts)
        yield _instruction_line(instruction, live, instruction.pc in targets)
    if padding := len(instructions) - body:
        yield _Line(((f"{'':>12} | {padding} x NOP (padding)", "dim"),))


def _without_padding(instructions: tuple[Instruction, ...]) -> int:
    """Number of instructions before the NOPs that fill the section up."""
    count = len(instructions)
    while count and instructions[count - 1].opcode == _PADDING:
        count -= 1
    return count


def _source_line(kernel: Kernel, instruction: Instruction, texts: dict[str, list[str]]) -> _Line:
    file, line = instruction.file or "", instruction.line or 0
    if file not in texts:
        texts[file] = (kernel.module.source_text(file) or "").splitlines()
    text = texts[file][line - 1].strip() if 0 < line <= len(texts[file]) else ""
    text = text if len(text) <= _SOURCE_WIDTH else f"{text[: _SOURCE_WIDTH - 3]}..."
    chain = " < ".join(f"{_short(f)}:{n}" for f, n in instruction.inlined_at)
    return _Line(
        (
            (f"-- {_short(file)}:{line}", "cyan"),
            (f"  {text}" if text else "", "green"),
            (f"  (inlined at {chain})" if chain else "", "dim"),
        )
    )


def _short(file: str) -> str:
    """A header of the toolkit by its name alone; the user's own files as they are."""
    return PurePath(file).name if file.startswith("/") else file


def _instruction_line(instruction: Instruction, live: int, is_target: bool) -> _Line:
    stall, flags = _control(instruction.control)
    return _Line(
        (
            (f"{'>' if is_target else ' '}{instruction.pc:>#6x} ", "dim"),
            (f"{live or '':>4}", "magenta"),
            (" | ", "dim"),
            (f"{stall:>5} ", "yellow"),
            (flags, "yellow"),
            (" | ", "dim"),
            (instruction.text, ""),
        )
    )


def _control(word: ControlWord) -> tuple[int, str]:
    wait = "".join(str(i) if word.wait_mask >> i & 1 else "." for i in range(6))
    reuse = "".join(c if word.reuse >> i & 1 else "." for i, c in enumerate("abc"))
    write = "-" if word.write_barrier is None else str(word.write_barrier)
    read = "-" if word.read_barrier is None else str(word.read_barrier)
    return word.stall, f"{'y' if word.yield_ else '-'} {write} {read} {wait} {reuse:<5}"

"""Code that waits or retries: how often it runs depends on other threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpusim.errors import UnsupportedError
from gpusim.isa.instruction import Instruction, Operand
from gpusim.isa.opcodes import bind
from gpusim.isa.table import WORDS, Mods

LOADS = ("LD", "LDG", "LDS")
#: With these a loop has memory of its own, or goes on elsewhere: nothing is said about it.
OUT_OF_SIGHT = ("ST", "STG", "STS", "STL", "RED", "REDG", "ATOM", "ATOMG", "ATOMS", "CALL", "RET", "BRX",
                "BRXU", "R2P", "P2R", "BAR")  # fmt: skip
CLOCKS = ("SR_CLOCKLO", "SR_CLOCKHI", "SR_GLOBALTIMERLO", "SR_GLOBALTIMERHI")


def waits(instructions: Sequence[Instruction]) -> frozenset[int]:
    """pcs of the instructions that wait or retry.

    These are the atomics and strong loads that code usually retries or polls, and loops that wait for memory
    or for a clock.  Such a loop loads, stores nothing, and carries no register from one trip to the next, so
    every trip does the same until memory changes.  A loop is what lies between the target of a backward BRA
    and that BRA; one that an opcode outside the table stands in is left out.
    """
    found = {i.pc for i in instructions if _retries(i)}
    for index, last in enumerate(instructions):
        target = last.operands[-1] if last.opcode == "BRA" and last.operands else None
        if target is None or target.kind not in ("label", "imm") or target.value > last.pc:
            continue
        body = instructions[target.value // 16 : index + 1]
        if _looks(body) and not _carries(body):
            found.update(i.pc for i in body)
    return frozenset(found)


def _retries(instruction: Instruction) -> bool:
    words = instruction.modifiers
    if instruction.opcode in ("ATOM", "ATOMG", "ATOMS"):
        return any(w in words for w in ("CAS", "CAST", "EXCH"))
    return instruction.opcode in ("LD", "LDG") and "STRONG" in words and ("GPU" in words or "SYS" in words)


def _looks(body: Sequence[Instruction]) -> bool:
    """Whether a loop reads what others change, and only that."""
    if any(i.opcode in OUT_OF_SIGHT for i in body):
        return False
    return any(i.opcode in LOADS or any(o.text in CLOCKS for o in i.operands) for i in body)


def _carries(body: Sequence[Instruction]) -> bool:
    """Whether a register that the loop writes is read in the next trip."""
    early: set[tuple[str, int]] = set()  # read before any write in the trip
    written: set[tuple[str, int]] = set()
    for instruction in body:
        try:
            bound = bind(instruction)
        except UnsupportedError:
            return True
        widths, modifiers = bound.row.widths, Mods(instruction.name, instruction.modifiers)
        words = iter(widths(modifiers) if widths else ())
        results = {
            register
            for token, operand in bound.destinations
            if operand is not None
            for register in _registers(operand, next(words, 4) if token == "data" else WORDS.get(token, 1))
        }
        reads = {
            register
            for token, operand in bound.sources
            if operand is not None
            for register in _registers(operand, 4 if token == "data" else WORDS.get(token, 1))
        }
        if instruction.guard is not None:
            reads |= {(instruction.guard.kind, instruction.guard.index)} | results
        early |= reads - written
        written |= results
    fixed = {("R", 255), ("UR", 255), ("P", 7), ("UP", 7)}
    return bool((early & written) - fixed)


def _registers(operand: Operand, words: int) -> Iterator[tuple[str, int]]:
    """Registers an operand names; of an address, base and uniform base."""
    if operand.kind in ("R", "UR", "P", "UP"):
        yield from ((operand.kind, operand.index + k) for k in range(words))
    if operand.base >= 0:
        yield from (("R", operand.base + k) for k in range(2 if operand.base64 else 1))
    if operand.ubase >= 0:
        yield from (("UR", operand.ubase + k) for k in range(2 if operand.ubase64 else 1))

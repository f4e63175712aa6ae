"""How far behind a load the compiler put the first instruction that needs what it brings."""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.isa.instruction import Instruction

#: Nothing waits: the load's result is not needed, or only far behind it.
NEVER = 1 << 20
_REACH = 1024  # instructions looked ahead


def slack(instructions: Sequence[Instruction]) -> list[int]:
    """Of each instruction: instructions from it to the first that waits for the dependence counter it raises.

    Along the way that is taken if loops go on: backward branches and unguarded ones are followed.  `NEVER`
    if it raises none.  An LDGSTS is waited for by the next DEPBAR.
    """
    return [_slack(instructions, index) for index in range(len(instructions))]


def _slack(instructions: Sequence[Instruction], index: int) -> int:
    counter = instructions[index].control.write_barrier
    copies = instructions[index].opcode == "LDGSTS"
    if counter is None and not copies:
        return NEVER
    at = index
    for distance in range(1, _REACH):
        at += 1
        if at >= len(instructions):
            break
        here = instructions[at]
        if copies:
            if here.opcode == "DEPBAR":
                return distance
        elif here.control.wait_mask >> (counter or 0) & 1:
            return distance
        if here.guard is None and here.opcode in ("EXIT", "RET"):
            break
        target = here.operands[-1] if here.opcode == "BRA" and here.operands else None
        if (
            target is not None
            and target.kind in ("label", "imm")
            and (target.value <= here.pc or here.guard is None)
        ):
            if target.value == here.pc:
                break
            at = target.value // 16 - 1
    return NEVER


__all__ = ["NEVER", "slack"]

"""Forms built by hand: special registers, constants, barrier registers, branches, barriers and fences.

A form here is a short sequence whose last part shows in R24-R27 what the instruction under test did: a vote
after a branch shows which lanes are together, a move behind it which lanes came through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpusim.validation.opcodes.encode import PT, control, instruction, put
from gpusim.validation.opcodes.forms import A, D, Form, bound_of
from gpusim.validation.opcodes.listing import decode

WORD = 16  # bytes of an instruction
S2R, S2UR, CS2R = (
    0x000E2E0000002600_00000000000A7919,
    0x000E620000008800_00000000000579C3,
    0x000FCA00001FF000_0000000000047805,
)
SPECIAL = {
    "laneid": 0,
    "tid": 32,
    "tid.x": 33,
    "tid.y": 34,
    "tid.z": 35,
    "ctaid.x": 37,
    "ctaid.y": 38,
    "ctaid.z": 39,
    "swinhi": 47,
    "lwinhi": 46,
    "eqmask": 56,
    "ltmask": 57,
    "lemask": 58,
    "gtmask": 59,
    "gemask": 60,
    "cgactaid": 136,
    "srz": 255,
}
#: Read by the card from its own memory map: values differ, so they are left out.
ADDRESSES = {"swinhi", "lwinhi"}
LDC, ULDC = 0x000FE20000000800_00000A00FF017B82, 0x000FE20000000800_0000880000047AB9
VOTE = 0x000FE400000E0100_0000000000067806
BRA, BRA_P, BRA_DIV = (
    0x000FC00003800000_0000000000007947,
    0x000FEA0000800000_0000000000007947,
    0x009FD8000B800000_0000000004007947,
)
BSSY, BSYNC, BREAK = (
    0x000FE20003800000_0000000000007945,
    0x000FEA0003800000_0000000000007941,
    0x000FEA0003800000_0000000000007942,
)
WARPSYNC_ALL, WARPSYNC = 0x000FEA0003800000_0000000000007948, 0x000FEA0003800000_0000000000007348
BAR_RED = {
    "POPC": 0x000FEC0000014000_0000000000007B1D,
    "AND": 0x000FEC0000014400_0000000000007B1D,
    "OR": 0x000FEC0000014800_0000000000007B1D,
}
BAR_SYNC = 0x000FEC0000010000_0000000000007B1D
B2R, B2R_P = 0x000E2800000E4000_00000000000D731C, 0x000E640000004000_0000000000FF731C
TO_B, FROM_B = 0x011EA00000000000_0000001006007356, 0x001E2A0000100000_0000000006107355
#: Instructions without a visible effect: they must run and leave every register alone.
QUIET = {
    "YIELD": 0x000FEA0003800000_0000000000007946,
    "NANOSLEEP": 0x000FEA0003800000_000000640000795D,
    "MEMBAR": 0x000FEC0000002000_0000000000007992,
    "ERRBAR": 0x000FC00000000000_00000000000079AB,
    "CCTL": 0x000FE80002000000_00000000FF00798F,
    "DEPBAR": 0x000FC80000000000_000080000000791A,
    "LDGDEPBAR": 0x000E220000000000_00000000000079AF,
    "NOP": 0x000FC00000000000_0000000000007918,
    "FENCE": 0x000FE20000000000_00000000000073C6,
    "CGAERRBAR": 0x000FE20000000000_00000000000075AB,
}


def _guarded(e: int, guard: int) -> int:
    return put(e, 12, 4, guard)


def _mark(register: int, value: int) -> int:
    return instruction("MOV", {"d": register, "imm": value})


def _vote(register: int) -> int:
    """Lanes that execute this together, to a register."""
    e = put(put(put(VOTE, 16, 8, register), 87, 4, PT), 81, 3, PT)
    return control(e)


def _branch(e: int, over: int) -> int:
    """A branch over at most 63 instructions; BSSY holds bytes, BRA words in two fields."""
    if e & 0xFFF == BSSY & 0xFFF:
        return put(e, 32, 16, over * WORD)
    return put(put(e, 16, 8, over * WORD >> 2), 32, 16, 0)


def _read(e: int, register: int) -> int:
    """An instruction of variable latency that writes ``register``."""
    return control(put(e, 16, 8, register), write=0)


def _scheduled(codes: Sequence[int]) -> tuple[int, ...]:
    return tuple(control(c) for c in codes)


def registers() -> Iterator[tuple[int, ...]]:
    """Special registers."""
    for name, number in SPECIAL.items():
        if name in ADDRESSES:
            continue
        for base in (S2R, S2UR):
            yield _scheduled([put(put(base, 16, 8, D), 72, 8, number)])
    for name in ("laneid", "ctaid.x", "srz"):
        for wide in (0, 1):
            e = put(put(put(CS2R, 16, 8, D), 72, 8, SPECIAL[name]), 80, 1, wide)
            yield _scheduled([e])


def constants() -> Iterator[tuple[int, ...]]:
    """Constant loads of every width from a fixed address."""
    for size in range(6):
        for base in (LDC, ULDC):
            yield _scheduled([put(put(put(base, 16, 8, D), 73, 3, size), 38, 16, 0x248)])


def barrier_registers() -> Iterator[tuple[int, ...]]:
    """A uniform value to B5 and back, the last read clearing it."""
    nop = instruction("NOP")
    move = instruction("MOV.UR", {"d": 9, "b": A})
    to, back = put(put(TO_B, 24, 8, 5), 32, 8, 9), put(FROM_B, 24, 8, 5)
    keep = put(back, 84, 1, 0)
    for guard in (PT, 5, 6):
        yield (
            move,
            nop,
            nop,
            _guarded(control(to), guard),
            nop,
            nop,
            nop,
            nop,
            _read(keep, D),
            nop,
            nop,
            _guarded(_read(back, D + 1), guard),
            nop,
            nop,
            nop,
            _read(keep, D + 2),
        )


def branches() -> Iterator[tuple[int, ...]]:
    """Taken by guard, by predicate operand, by both; with and without reconvergence; BREAK; WARPSYNC."""
    nop = instruction("NOP")
    for e in (
        _guarded(BRA, 0),
        _guarded(BRA, 0 | 8),
        put(BRA_P, 87, 4, 1),
        put(BRA_P, 87, 4, 1 | 8),
        _guarded(put(BRA_P, 87, 4, 1), 0),
        BRA,
    ):
        yield (control(_branch(e, 3)), _mark(D, 0x1111), _vote(D + 1), nop, _vote(D + 2), nop)
        # inside BSSY .. BSYNC: all lanes are together again
        yield (
            control(_branch(BSSY, 5)),
            control(_branch(e, 4)),
            _mark(D, 0x2222),
            _vote(D + 1),
            nop,
            nop,
            control(BSYNC),
            _vote(D + 2),
            nop,
        )
    for guard in (0, 1 | 8):
        # lanes that break the barrier are not waited for
        yield (
            control(_branch(BSSY, 5)),
            control(_guarded(BREAK, guard)),
            control(_guarded(_branch(BRA, 5), guard)),
            _mark(D, 0x3333),
            nop,
            nop,
            control(BSYNC),
            _vote(D + 1),
            _vote(D + 2),
            nop,
        )
    yield (control(_branch(_guarded(BRA, 0), 2)), _mark(D, 0x4444), nop, control(WARPSYNC_ALL), _vote(D + 1))
    yield (
        _mark(D + 3, 0xFFFFFFFF),
        control(_branch(_guarded(BRA, 0), 2)),
        _mark(D, 0x5555),
        nop,
        control(put(WARPSYNC, 24, 8, D + 3)),
        _vote(D + 1),
    )
    yield (control(_guarded(instruction("EXIT"), 0)), _vote(D))
    yield (control(_guarded(instruction("EXIT"), 1 | 8)), _mark(D, 0x6666), _vote(D + 1))


def barriers() -> Iterator[tuple[int, ...]]:
    """CTA barriers of one warp, with reductions."""
    nop = instruction("NOP")
    for e in BAR_RED.values():
        for predicate in (0, 1 | 8, 5, 6):
            yield (
                control(put(e, 87, 4, predicate)),
                nop,
                nop,
                nop,
                _read(B2R, D),
                nop,
                nop,
                control(put(B2R_P, 81, 3, 3), write=0),
            )
    yield (control(BAR_SYNC), _vote(D))


def quiet() -> Iterator[tuple[int, ...]]:
    for e in QUIET.values():
        yield (control(e),)


#: Which instruction of a sequence is the one under test, by opcode; the first that matches.
_TESTED = (
    "BSSY",
    "BREAK",
    "WARPSYNC",
    "BRA",
    "EXIT",
    "BAR",
    "B2R",
    "BMOV",
    "S2R",
    "S2UR",
    "CS2R",
    "LDC",
    "ULDC",
    *QUIET,
)


def build() -> list[Form]:
    """All hand-made forms, one for each row that a sequence exercises."""
    sequences = [*registers(), *constants(), *barrier_registers(), *branches(), *barriers(), *quiet()]
    decoded = iter(decode([c for s in sequences for c in s]))
    out: list[Form] = []
    for sequence in sequences:
        instructions = [next(decoded) for _ in sequence]
        rows = [b.row.name for i in instructions if (b := bound_of(i)) is not None]
        texts = [i.text if i else "?" for i in instructions]
        assert "?" not in texts, texts
        chosen = next((k for k, r in enumerate(rows) if r.split(".")[0] in _TESTED and r != "NOP"), 0)
        note = "; ".join(dict.fromkeys(r for r in rows if r not in ("NOP", "MOV", "VOTE", "MOV.UR")))
        out.append(Form(rows[chosen], texts[chosen], tuple(sequence), note=note))
    return out

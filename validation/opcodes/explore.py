"""Forms of sm_90 by exploration: change bits of known encodings and read what nvdisasm prints.

1. Seeds: instructions of compiled code, and every 12-bit opcode with a few random remainders.
2. Mutants: every bit outside registers and scheduling flipped alone, and many random sets of bits.
3. Accepted: what nvdisasm knows (nothing ``INVALID`` in it) and ``bind`` takes; one for each signature.
4. Cleaned: every bit that does not change the text goes back to what compiled code has there.
5. Chosen: for each row a set of forms that holds every pair of features (modifier, operand kind, sign ...)
that
   occurs together, then more at random.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpusim.validation.opcodes.encode import control, get, put
from gpusim.validation.opcodes.forms import A, B, C, D, bound_of, normal, signature
from gpusim.validation.opcodes.listing import decode

SWEEPS = 24  # random remainders tried for each 12-bit opcode
MUTANTS = 2400  # random mutants of an opcode
PER_OPCODE = 12  # seeds kept of an opcode

Found = dict[tuple[Any, ...], int]


def _random_word(rng: random.Random, opcode: int, k: int) -> int:
    base = control(opcode | 7 << 12 | D << 16 | A << 24 | B << 32 | C << 64)
    noise = rng.getrandbits(128) & rng.getrandbits(128)
    if k % 2:
        noise &= rng.getrandbits(128)
    mask = ((1 << 9) - 1) << 72 | ((1 << 24) - 1) << 81
    if k % 3 == 0:
        mask |= ((1 << 24) - 1) << 40
    predicates = 1 << 81 | 2 << 84 | 3 << 87 if k % 4 < 3 else 7 << 81 | 7 << 84 | 15 << 87
    return base | (noise & mask ^ predicates if k % 2 else predicates | noise & mask & ~(0x3FF << 81))


def seeds(compiled: Iterable[int], rng: random.Random) -> dict[int, list[int]]:
    """12-bit opcode -> encodings to start from, those of compiled code first."""
    out: dict[int, list[int]] = defaultdict(list)
    for e in compiled:
        out[e & 0xFFF].append(e)
    sweep = [_random_word(rng, op, k) for op in range(4096) for k in range(SWEEPS)]
    for e, i in zip(sweep, decode(sweep), strict=True):
        if i and i.opcode and "INVALID" not in i.text and len(out[e & 0xFFF]) < PER_OPCODE:
            out[e & 0xFFF].append(e)
    return {k: v for k, v in out.items() if v}


def modifier_bits(opcode: int) -> list[int]:
    """Bits that are no register, guard or scheduling; in immediate and constant forms not the value
    either.
    """
    value = {2: range(0), 4: range(0), 3: range(59, 64), 5: range(59, 64)}.get(opcode >> 9, range(40, 64))
    return [*value, *range(72, 105)]


def mutants(opcode: int, starts: Sequence[int], rng: random.Random, count: int = MUTANTS) -> list[int]:
    """Each start, its single flips, and random sets of flips."""
    bits, out = modifier_bits(opcode), set()
    for start in starts:
        start = normal(start)
        out.add(start)
        out.update(start ^ 1 << b for b in bits)
        for _ in range(count // len(starts)):
            mutant = start
            for b in rng.sample(bits, rng.choice((2, 2, 3, 3, 4, 5, 6, 8))):
                mutant ^= 1 << b
            out.add(mutant)
    return sorted(out)


def accepted(encodings: Sequence[int]) -> tuple[Found, Found]:
    """One encoding for each signature: those the table takes, and those it refuses."""
    taken: Found = {}
    refused: Found = {}
    for e, i in zip(encodings, decode(encodings), strict=True):
        if i is None or not i.opcode or "INVALID" in i.text:
            continue
        (taken if bound_of(i) is not None else refused).setdefault(signature(i), e)
    return taken, refused


# --- cleaning


def references(compiled: Iterable[int]) -> dict[int, int]:
    """9-bit operation -> an encoding of compiled code."""
    out: dict[int, int] = {}
    for e in compiled:
        out.setdefault(e & 0x1FF, e)
    return out


def _cleanable(opcode: int) -> list[int]:
    return [
        *range(16, 32),
        *(range(32, 40) if opcode >> 9 in (0, 1, 6, 7) else ()),
        *range(64, 72),
        *modifier_bits(opcode),
    ]


def clean(encodings: Sequence[int], reference: Mapping[int, int]) -> list[int]:
    """Every bit without effect on the text set as compiled code sets it (else 0); unused register fields
    too.
    """
    texts = [i.text if i else "" for i in decode(encodings)]
    trials, owner = [], []
    for k, e in enumerate(encodings):
        like = reference.get(e & 0x1FF, 0)
        target = e
        for b in _cleanable(e & 0xFFF):
            # bits 40-63 mean other things in other operand forms
            target = put(target, b, 1, get(like, b, 1) if b >= 64 and b != 91 else 0)
        for b in _cleanable(e & 0xFFF):
            if get(e ^ target, b, 1):
                trials.append(e ^ 1 << b)
                owner.append((k, b))
    neutral: dict[int, list[int]] = defaultdict(list)
    for (k, b), i in zip(owner, decode(trials), strict=True):
        if i is not None and i.text == texts[k]:
            neutral[k].append(b)
    out = list(encodings)
    for k, bits in neutral.items():
        for b in bits:
            out[k] ^= 1 << b
    bad = [k for k, i in enumerate(decode(out)) if i is None or i.text != texts[k]]
    for k in bad:  # bits that are neutral alone but not together: one after the other
        e = encodings[k]
        for b in neutral[k]:
            one = decode([e ^ 1 << b])[0]
            if one is not None and one.text == texts[k]:
                e ^= 1 << b
        out[k] = e
    return out


# --- choosing


def features(sign: tuple[Any, ...]) -> list[str]:
    """Words of a signature: operand form, modifiers, and what each operand is and carries."""
    opcode, name, *operands = sign
    out = [f"form {opcode >> 9}", *(f".{w}" for w in name.split(".")[1:])]
    for k, (kind, neg, abs_, not_, suffixes, *_) in enumerate(operands):
        out.append(f"{k} {kind}")
        out += [f"{k} {c}" for c, on in (("-", neg), ("|", abs_), ("!", not_)) if on]
        out += [f"{k} .{s}" for s in suffixes]
    return out


def _pairs(words: list[str]) -> set[tuple[str, ...]]:
    ordered = sorted(set(words))
    return {(a,) for a in ordered} | {(a, b) for n, a in enumerate(ordered) for b in ordered[n + 1 :]}


def choose(found: Mapping[tuple[Any, ...], int], rng: random.Random, most: int, extra: float) -> list[int]:
    """A covering set of one row's forms: greedy over pairs of features, then ``extra`` times as many
    again.
    """
    items = list(found.items())
    rng.shuffle(items)
    sets = [_pairs(features(sign)) for sign, _ in items]
    covered: set[tuple[str, ...]] = set()
    left = set(range(len(items)))
    chosen: list[int] = []
    while left and len(chosen) < most:
        best = max(left, key=lambda k: (len(sets[k] - covered), -len(sets[k]), -k))
        if not sets[best] - covered:
            break
        covered |= sets[best]
        left.discard(best)
        chosen.append(best)
    more = sorted(left)
    rng.shuffle(more)
    chosen += more[: min(int(extra * len(chosen)) + 4, most)]
    return [items[k][1] for k in chosen]


# --- immediates that are part of the operation

#: Opcode -> (fields, values): tables of three-input logic, lane masks, patterns.
VALUES: dict[str, tuple[tuple[tuple[int, int], ...], tuple[tuple[int, ...], ...]]] = {
    "LOP3": (
        ((72, 8),),
        tuple((v,) for v in (0x01, 0x17, 0x1E, 0x2A, 0x3C, 0x78, 0x96, 0xA6, 0xCA, 0xD5, 0xE8, 0xFE)),
    ),
    "ULOP3": (((72, 8),), tuple((v,) for v in (0x02, 0x1D, 0x69, 0x96, 0xB8, 0xE8, 0xF7))),
    "PLOP3": (
        ((64, 3), (72, 5), (16, 8)),
        tuple(
            (v & 7, v >> 3, w)
            for v, w in (
                (0x01, 0xFE),
                (0x96, 0x69),
                (0xE8, 0x17),
                (0xCA, 0x3A),
                (0x80, 0x7F),
                (0xA2, 0x5D),
                (0x1E, 0xB4),
            )
        ),
    ),
    "FSWZADD": (((32, 16),), tuple((v,) for v in (0x9966, 0xA5A5, 0x0000, 0x5555, 0xAAAA, 0xFFFF, 0x1B1B))),
    "LEA": (((75, 5),), tuple((v,) for v in (0, 1, 5, 16, 27, 31))),
    "MOV": (((72, 4),), tuple((v,) for v in (0, 1, 5, 8, 15))),
}
VALUES["UPLOP3"], VALUES["ULEA"] = VALUES["PLOP3"], VALUES["LEA"]


def with_values(encodings: Sequence[int], rng: random.Random) -> list[int]:
    """More encodings: some of those of an opcode in :data:`VALUES`, with each of its values."""
    by: dict[str, list[int]] = defaultdict(list)
    for e, i in zip(encodings, decode(encodings), strict=True):
        if i is not None and i.opcode in VALUES:
            by[i.opcode].append(e)
    out = []
    for opcode, found in sorted(by.items()):
        fields, values = VALUES[opcode]
        for value in values:
            e = rng.choice(found)
            for (at, width), v in zip(fields, value, strict=True):
                e = put(e, at, width, v)
            out.append(e)
    return out

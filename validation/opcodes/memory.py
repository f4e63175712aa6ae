"""Forms of the memory rows: the same exploration with addresses that stay inside the launch's memory.

Where each operand's register stands in an encoding is found by trying: a register field is given an odd
number
and the text is read again.  Offsets and registers are then set so that every access falls into the warp's 2
KB
of scratch, its copy in shared memory, or the thread's 64 bytes of local memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpusim.isa.instruction import Instruction, Operand
from gpusim.isa.rows_memory import nbytes_of
from gpusim.isa.table import Bound, Mods
from gpusim.validation.opcodes.encode import PT, control, put
from gpusim.validation.opcodes.explore import accepted, choose, clean
from gpusim.validation.opcodes.forms import (
    GUARD,
    NOT_GUARD,
    WHOLE_WARP,
    A,
    B,
    C,
    D,
    Form,
    bound_of,
    signature,
)
from gpusim.validation.opcodes.listing import decode

GLOBAL_ROWS = {"LDG", "STG", "LD", "ST", "ATOM", "ATOMG", "REDG", "LDGSTS", "QSPC"}
SHARED_ROWS = {"LDS", "STS", "ATOMS", "LDSM", "STSM"}
LOCAL_ROWS = {"LDL", "STL"}
GENERIC_ROWS = {"LD", "ST", "ATOM", "QSPC"}
ATOMIC_ROWS = {"ATOM", "ATOMG", "ATOMS", "REDG"}
CONSTANT_ROWS = {"LDC@indexed", "ULDC@indexed"}
LOADING_ROWS = {"LDG", "LDS", "LD", "LDL", "QSPC", "LDSM"} | CONSTANT_ROWS
ROWS = GLOBAL_ROWS | SHARED_ROWS | LOCAL_ROWS | CONSTANT_ROWS
#: Modifiers no compiler writes; nothing says what they do.
EXOTIC = {"PRIVATE", "MMIO", "VC", "INVALIDATE"}
#: Template registers by role (template.py).
GLOBAL, SHARED, LOCAL, GENERIC, GENERIC_LOCAL = 28, 30, 31, 32, 44
OFFSET, SHARED_OFFSET, SHARED_UNIT, LOCAL_OFFSET = 34, 46, 47, 21
U_DESCRIPTOR, U_REGION, U_SHARED, U_SIXTEEN, U_INDEX = 4, 6, 20, 22, 29
FIELDS = (16, 24, 32, 64)
ODD = 41


def mutants(starts: Sequence[int], rng: random.Random, count: int) -> list[int]:
    """Flips of modifier bits, register fields left alone."""
    bits, out = [*range(68, 105)], set()
    for start in starts:
        start = control(put(start, 12, 4, PT))
        out.add(start)
        out.update(start ^ 1 << b for b in bits)
        for _ in range(count // len(starts)):
            mutant = start
            for b in rng.sample(bits, rng.choice((2, 2, 3, 3, 4, 5))):
                mutant ^= 1 << b
            out.add(mutant)
    return sorted(out)


def _bytes(b: Bound) -> int:
    """Alignment of an access."""
    name, words = b.row.name, b.instruction.modifiers
    if name in ("LDSM", "STSM"):
        return 16
    if name in ATOMIC_ROWS:
        if "128" in words or any(w.endswith(("x2", "x4", "x8")) for w in words):
            return 16
        return 8 if set(words) & {"64", "S64", "U64", "F64"} else 4
    return nbytes_of(Mods(name, words))


def plausible(b: Bound) -> bool:
    """Forms that can run: 64-bit global addresses, no modifiers without a meaning."""
    words = set(b.instruction.modifiers)
    if b.row.name in GLOBAL_ROWS and "E" not in words:
        return False  # a 32-bit address: nothing is mapped there
    memory = [o for o in b.instruction.operands if o.kind in ("mem", "const")]
    if any(o.text.startswith("cx[") for o in memory) or any(1 < o.scale < _bytes(b) for o in memory):
        return False  # a bank by handle; a misaligned access
    if b.row.name in ATOMIC_ROWS and "128" in words and not words & {"CAS", "EXCH"}:
        return False  # no such operation
    return not words & EXOTIC


def explore(
    compiled: Iterable[int],
    reference: Mapping[int, int],
    rng: random.Random,
    count: int = 600,
    most: int = 45,
) -> list[int]:
    """Accepted, cleaned encodings of memory rows, one a signature."""
    starts: dict[int, list[int]] = {}
    pool = list(compiled)
    for e, i in zip(pool, decode(pool), strict=True):
        b = bound_of(i)
        if b is not None and b.row.name in ROWS | {"LDC", "LDC.64", "ULDC", "ULDC.64"}:
            starts.setdefault(e & 0xFFF, []).append(e)
    for opcode in (
        0x381,
        0x386,
        0x38A,
        0x38B,
        0x38C,
        0x3A8,
        0x844,
        0x388,
        0x984,
        0x987,
        0x983,
        0x985,
        0x980,
        0xABB,
    ):
        if opcode not in starts:  # forms compiled code here does not use: register fields plain, nothing else
            starts[opcode] = [
                control(opcode | PT << 12 | D << 16 | A << 24 | B << 32 | k << 73) for k in (4, 5)
            ]
    starts[0xB82] = [put(e, 24, 8, A) for e in starts.get(0xB82, [])]  # constants at a register address
    out: list[int] = []
    for _, found in sorted(starts.items()):
        taken, _ = accepted(mutants(found[:12], rng, count))
        out += taken.values()
    bounds = [bound_of(i) for i in decode(out)]
    by: dict[str, dict[tuple[Any, ...], int]] = {}
    for e, b in zip(out, bounds, strict=True):
        if b is not None and b.row.name in ROWS and plausible(b):
            by.setdefault(b.row.name, {})[signature(b.instruction)] = e
    keep = [e for _, found in sorted(by.items()) for e in choose(found, rng, most, 0.3)]
    return clean(keep, reference)


# --- placing operands


def _parts(i: Instruction) -> dict[tuple[int, str], int]:
    """(operand, role) -> register number of everything a register field can hold."""
    out: dict[tuple[int, str], int] = {}
    for k, o in enumerate(i.operands):
        if o.kind in ("mem", "const"):
            for role, number in (("base", o.base), ("ubase", o.ubase), ("desc", o.desc)):
                if number >= 0:
                    out[k, role] = number
        elif o.kind in ("R", "UR"):
            out[k, "value"] = o.index
    return out


def places(encodings: Sequence[int]) -> list[dict[tuple[int, str], int]]:
    """For each encoding: (operand, role) -> first bit of its register field."""
    tried = decode([put(e, at, 6, ODD) for e in encodings for at in FIELDS])
    plain = decode(encodings)
    out: list[dict[tuple[int, str], int]] = []
    for n, i in enumerate(plain):
        found: dict[tuple[int, str], int] = {}
        if i is not None:
            before = _parts(i)
            for k, at in enumerate(FIELDS):
                j = tried[len(FIELDS) * n + k]
                if j is not None and j.name == i.name and len(j.operands) == len(i.operands):
                    after = _parts(j)
                    for role, number in after.items():
                        if number % 64 == ODD and before.get(role) != number:
                            found[role] = at
        out.append(found)
    return out


def _address(row: str, o: Operand, variant: str) -> dict[str, int]:
    """Registers for the parts of a memory operand."""
    if row in CONSTANT_ROWS:
        return {"base": LOCAL_OFFSET, "ubase": U_INDEX}
    if variant == "shared":
        if o.ubase >= 0:
            return {"base": SHARED_UNIT if o.scale > 1 else SHARED_OFFSET, "ubase": U_SHARED}
        return {"base": SHARED_UNIT if o.scale > 1 else SHARED, "desc": U_DESCRIPTOR}
    if variant == "local":
        return {"base": LOCAL, "ubase": U_SIXTEEN + 1, "desc": U_DESCRIPTOR}
    base = {"global": GLOBAL, "generic shared": GENERIC, "generic local": GENERIC_LOCAL}[variant]
    if o.ubase >= 0 and "U32" in o.suffixes:
        return {"base": OFFSET, "ubase": U_REGION, "desc": U_DESCRIPTOR}
    return {"base": base, "ubase": U_SIXTEEN, "desc": U_DESCRIPTOR}


def _variants(b: Bound) -> list[str]:
    name = b.row.name
    if name in SHARED_ROWS:
        return ["shared"]
    if name in LOCAL_ROWS:
        return ["local"]
    if name in CONSTANT_ROWS:
        return ["constant"]
    if name in GENERIC_ROWS and not any(
        "U32" in o.suffixes for o in b.instruction.operands if o.kind == "mem"
    ):
        return ["global", "generic shared", *(["generic local"] if name in ("LD", "ST", "QSPC") else [])]
    return ["global"]


def _offsets(b: Bound, variant: str, scale: int, based: bool) -> list[int]:
    """Byte offsets for the immediate: multiples of what the form aligns to."""
    size = _bytes(b)
    inside = [0] if size == 16 else [16 - size, 0]
    if variant in ("local", "generic local"):
        return inside
    if variant == "constant":
        return [0x240 + 8, 0x240]
    if scale > 1:
        return [0x400] if not based else [0]
    return [0x10 + inside[0], -0x10, 0]


def _wanted(i: Instruction, b: Bound, variant: str) -> list[int]:
    memory = [o for o in i.operands if o.kind in ("mem", "const")]
    scale = max((o.scale for o in memory), default=1)
    return _offsets(b, variant, scale, any(o.ubase >= 0 for o in memory))


def build(encodings: Sequence[int]) -> list[Form]:
    """Forms fit to run from explored encodings."""
    where = places(encodings)
    plain = decode(encodings)
    drafts: list[tuple[int, list[int], Instruction, Bound, str]] = []  # encoding, tries with offsets, ...
    for n, (e, i, found) in enumerate(zip(encodings, plain, where, strict=True)):
        b = bound_of(i)
        if b is None or i is None:
            continue
        variants = _variants(b)
        variant = variants[n % len(variants)]
        out = e
        for k, o in enumerate(i.operands):
            if o.kind in ("mem", "const"):
                into = "shared" if b.row.name == "LDGSTS" and k == 0 else variant
                for role, number in _address(b.row.name, o, into).items():
                    if (k, role) in found:
                        out = put(out, found[k, role], 6 if role != "base" else 8, number)
        numbers = iter((B, C))
        for k, o in enumerate(i.operands):
            if o.kind in ("R", "UR") and (k, "value") in found:
                written = any(o is d for _, d in b.destinations) or b.row.name == "QSPC"
                number = D if written else next(numbers)
                out = put(out, found[k, "value"], 6 if o.kind == "UR" else 8, number)
        guard = (PT, PT, GUARD, PT, NOT_GUARD, GUARD)[n % 6] if b.row.name not in WHOLE_WARP else PT
        if i.opcode[0] == "U":
            guard = PT
        out = put(out, 12, 4, guard)
        tries, wanted = [], _wanted(i, b, variant)
        for offset in wanted[n % 2 :] + wanted:
            tries += [
                put(out, 40, 24, offset),
                put(put(out, 32, 24, offset), 56, 8, 255 if offset < 0 else 0),
                put(out, 38, 16, offset),
            ]
        drafts.append((out, tries, i, b, variant))
    # loads and atomics count a dependence counter up until their result is there
    drafts = [
        (out, [control(t, write=0) for t in tries] + tries if _counted(b) else tries, i, b, variant)
        for out, tries, i, b, variant in drafts
    ]
    decoded = iter(decode([t for _, tries, *_ in drafts for t in tries]))
    forms: list[Form] = []
    for _, tries, i, b, variant in drafts:
        results = [(t, next(decoded)) for t in tries]
        wanted = _wanted(i, b, variant)
        for _, j in results:
            c = bound_of(j)
            if j is None or c is None or j.name != i.name or signature(j)[2:] != signature(i)[2:]:
                continue
            memory = [o for o in j.operands if o.kind in ("mem", "const")]
            if all(o.value in wanted for o in memory) and _inside(c, memory, variant):
                forms += _form(j, c, variant)
                break
    return forms


def _counted(b: Bound) -> bool:
    return b.row.name[0] != "U" and any(o is not None and o.kind == "R" for _, o in b.destinations)


def _inside(b: Bound, memory: Sequence[Operand], variant: str) -> bool:
    """Every register of every address is one the template prepared for it."""
    for k, o in enumerate(memory):
        into = "shared" if b.row.name == "LDGSTS" and k == 0 else variant
        allowed = _address(b.row.name, o, into)
        if o.base >= 0 and o.base != 255 and o.base != allowed["base"]:
            return False
        if o.ubase >= 0 and o.ubase != allowed.get("ubase"):
            return False
        if o.desc >= 0 and o.desc != U_DESCRIPTOR:
            return False
        if (
            o.base in (-1, 255)
            and variant != "constant"
            and not (variant == "shared" and o.ubase == U_SHARED)
        ):
            return False
    return True


def _form(i: Instruction, b: Bound, variant: str) -> list[Form]:
    """One form, or two where lanes may share an address."""
    name, words = b.row.name, set(i.modifiers)
    floats = [w for w in words if w[:3] in ("F64", "F32", "F16", "BF1")]
    kind = floats[0].partition("x")[0].partition("_")[0].lower() if floats and name in ATOMIC_ROWS else "i32"
    base = Form(name, i.text, (i.encoding,), (kind, kind, kind), "memory", False, "distinct", variant)
    if name in LOADING_ROWS:
        return [replace(base, offsets="any")]
    commutes = not floats and not words & {"EXCH", "CAS", "CAST", "INC", "DEC"}
    if (name == "REDG" and commutes) or "POPC" in words:
        return [base, replace(base, offsets="few")]
    if any(o.base in (-1, 255) for o in i.operands if o.kind == "mem"):
        return [replace(base, offsets="same")] if name in ("ATOMS",) and commutes else []
    return [base]

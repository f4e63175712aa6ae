"""One-warp access patterns for every memory instruction: how a warp's addresses become counters.

Each kernel is one warp that executes one memory instruction :data:`REPEATS` times, each with its own lane
addresses and lane mask, read from a table.  Run under the profiler's source page, one launch gives the
per-instruction counters of :data:`REPEATS` patterns; run with one pattern for all, it gives the hardware
counters of that pattern.  The same cubins and tables are simulated and compared (``micro:*`` records).

Kernels are written here as PTX strings, so that a new instruction is a new row of :data:`OPS`.  ``_p``
kernels guard the instruction with the lane's bit of the mask (predication), ``_b`` kernels branch around it
(divergence), ``_x`` kernels let the other lanes exit first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

#: Executions of the instruction in one launch.
REPEATS = 32
#: Bytes of the shared, global and local window that patterns address.
WINDOW = {"shared": 16384, "copy": 16384, "global": 1 << 18, "generic": 4096, "local": 512}


@dataclass(frozen=True, slots=True)
class Op:
    """One instruction: space of its addresses, width in bytes a lane, PTX text.

    In the text ``{a}`` is the address operand (``{b}`` the second one of a copy), ``{r}`` ``{d}`` ``{q}`` a
    32-bit, 64-bit and four 32-bit registers to load or store; ``aligned`` instructions need the whole warp.
    """

    name: str
    space: str
    width: int
    ptx: str
    aligned: bool = False


def _ops() -> tuple[Op, ...]:
    out: list[Op] = []

    def add(name: str, space: str, width: int, ptx: str, aligned: bool = False) -> None:
        out.append(Op(name, space, width, ptx, aligned))

    wide = {4: ("b32", "{r0}"), 8: ("b64", "{d0}"), 16: ("v4.b32", "{{{r0},{r1},{r2},{r3}}}")}
    for space, place in (("shared", ".shared"), ("global", ".global"), ("local", ".local"), ("generic", "")):
        for width, (kind, registers) in {1: ("b8", "{r0}"), 2: ("b16", "{h0}"), **wide}.items():
            if space == "shared" and width < 4:
                continue  # settled by reference/patterns_h200.jsonl
            add(f"ld_{space}_{width}", space, width, f"ld{place}.{kind} {registers},[{{a}}];")
            add(f"st_{space}_{width}", space, width, f"st{place}.{kind} [{{a}}],{registers};")
    for n, registers in ((1, "{{{r0}}}"), (2, "{{{r0},{r1}}}"), (4, "{{{r0},{r1},{r2},{r3}}}")):
        for trans in ("", ".trans"):
            tail = f"sync.aligned.m8n8.x{n}{trans}.shared.b16"
            add(
                f"ldmatrix_x{n}{trans.replace('.', '_')}",
                "shared",
                16,
                f"ldmatrix.{tail} {registers},[{{a}}];",
                True,
            )
            add(
                f"stmatrix_x{n}{trans.replace('.', '_')}",
                "shared",
                16,
                f"stmatrix.{tail} [{{a}}],{registers};",
                True,
            )
    for width in (4, 8, 16):
        add(f"copy_ca_{width}", "copy", width, f"cp.async.ca.shared.global [{{a}}],[{{b}}],{width};")
    add("copy_cg_16", "copy", 16, "cp.async.cg.shared.global [{a}],[{b}],16;")
    add("copy_cg_zfill", "copy", 16, "cp.async.cg.shared.global [{a}],[{b}],16,{r0};")
    add("copy_ca_zfill", "copy", 4, "cp.async.ca.shared.global [{a}],[{b}],4,{r0};")
    for place in ("shared", "global"):
        for op, kind in (
            ("add", "u32"), ("add", "u64"), ("min", "s32"), ("max", "u64"), ("and", "b32"), ("inc", "u32"),
            ("exch", "b32"), ("exch", "b64"), ("add", "f32"), ("add", "f64"),
        ):  # fmt: skip
            size = 8 if kind.endswith("64") else 4
            r = "{d0}" if size == 8 else "{r0}"
            v = {"f32": "{f0}", "f64": "{g0}"}.get(kind, r)
            if place == "shared" and kind.startswith("f"):
                continue  # a compare-and-swap loop, not an instruction
            add(f"atom_{place}_{op}_{kind}", place, size, f"atom.{place}.{op}.{kind} {v},[{{a}}],{v};")
            if op != "exch" and (place, op, kind) != ("global", "add", "u32"):
                add(f"red_{place}_{op}_{kind}", place, size, f"red.{place}.{op}.{kind} [{{a}}],{v};")
        for kind, r in (("b16", "{h0}"), ("b32", "{r0}"), ("b64", "{d0}")):
            other = r.replace("0", "1")
            add(
                f"atom_{place}_cas_{kind}",
                place,
                int(kind[1:]) // 8,
                f"atom.{place}.cas.{kind} {r},[{{a}}],{other},{r};",
            )
    for kind, r, size in (("f16", "{h0}", 2), ("f16x2", "{r0}", 4), ("bf16x2", "{r0}", 4)):
        add(f"red_global_add_{kind}", "global", size, f"red.global.add.noftz.{kind} [{{a}}],{r};")
        add(f"atom_global_add_{kind}", "global", size, f"atom.global.add.noftz.{kind} {r},[{{a}}],{r};")
    add("red_global_v2_f32", "global", 8, "red.global.v2.f32.add [{a}],{{{f0},{f1}}};")
    add("red_global_v4_f32", "global", 16, "red.global.v4.f32.add [{a}],{{{f0},{f1},{f2},{f3}}};")
    add("red_global_v4_f16x2", "global", 16, "red.global.v4.f16x2.add.noftz [{a}],{{{r0},{r1},{r2},{r3}}};")
    add(
        "atom_global_v4_f32",
        "global",
        16,
        "atom.global.v4.f32.add {{{f0},{f1},{f2},{f3}}},[{a}],{{{f0},{f1},{f2},{f3}}};",
    )
    add("atom_generic_add_u32", "generic", 4, "atom.add.u32 {r0},[{a}],{r0};")
    add("red_generic_add_u32", "generic", 4, "red.add.u32 [{a}],{r0};")
    return tuple(out)


OPS = {op.name: op for op in _ops()}

_CLASSES = {"r": ("+r", "unsigned"), "d": ("+l", "unsigned long long"), "f": ("+f", "float"),
            "g": ("+d", "double"),
            "h": ("+h", "unsigned short")}  # fmt: skip


def _registers(ptx: str) -> list[str]:
    return [f"{c}{k}" for c in _CLASSES for k in range(4) if f"{{{c}{k}}}" in ptx]


def _statement(op: Op, how: str) -> str:
    """One asm statement; registers first, then addresses, then the lane's bit."""
    names = _registers(op.ptx)
    slots = {name: f"%{k}" for k, name in enumerate(names)}
    n = len(names)
    text = op.ptx.format(a=f"%{n}", b=f"%{n + 1}", **slots)
    operands = ", ".join(f'"{_CLASSES[name[0]][0]}"({name})' for name in names)
    wide = "l" if op.space in ("global", "generic") else "r"
    inputs = f'"{wide}"(a)' + (', "l"(b)' if op.space == "copy" else "")
    if how == "p":
        m = n + 1 + (op.space == "copy")
        body = f'"{{.reg .pred p; setp.ne.u32 p,%{m},0; @p {text}}}"'
        return f'asm volatile({body} : {operands} : {inputs}, "r"(on) : "memory");'
    body = f'asm volatile("{text}" : {operands} : {inputs} : "memory");'
    return f"if (on) {{ {body} }}" if how == "b" else body


def _address(op: Op) -> str:
    """C expressions for the addresses of pattern ``p``."""
    lane = "(p << 6) + lane" if op.space in ("copy", "generic") else "(p << 5) + lane"
    first = f"const unsigned o = offsets[{lane}];"
    if op.space in ("shared", "local"):
        return f"{first} const unsigned a = base + o;"
    if op.space == "global":
        return f"{first} const char* a = data + o;"
    second = f"const unsigned t = offsets[{lane} + 32];"
    if op.space == "copy":
        return f"{first} {second} const unsigned a = base + o; const char* b = data + t;"
    # generic: the second word says which space the lane addresses (0 shared, 1 global, 2 local)
    where = "t == 0 ? (const char*)window : t == 1 ? (const char*)data : own"
    return f"{first} {second} const char* a = ({where}) + o;"


#: All bits of a register, folded into 32, so that no part of a load is dead.
_BITS = {
    "f": "__float_as_uint({0})",
    "g": "(unsigned)(__double_as_longlong({0}) >> 32) ^ (unsigned)__double_as_longlong({0})",
    "d": "(unsigned){0} ^ (unsigned)({0} >> 32)",
}


def kernel(op: Op, how: str) -> str:
    """CUDA source of one kernel."""
    names = _registers(op.ptx)
    declare = " ".join(f"{_CLASSES[n[0]][1]} {n} = ({_CLASSES[n[0]][1]})sink[lane + {n[1]}];" for n in names)
    keep = " ^ ".join(_BITS.get(n[0], "(unsigned){0}").format(n) for n in names) or "0u"
    local = op.space in ("local", "generic")
    lines = [
        f'extern "C" __global__ void __launch_bounds__(32) acc_{op.name}_{how}('
        "const unsigned* offsets, const unsigned* masks, "
        "unsigned first, unsigned step, unsigned gone, char* data, unsigned* sink) {",
        "  const unsigned lane = threadIdx.x;",
        "  if ((gone >> lane) & 1u) return;" if how == "x" else "",
        "  __shared__ __align__(1024) unsigned char window[16384];"
        if op.space in ("shared", "copy", "generic")
        else "",
        "  char own[512]; for (int i = 0; i < 512; i += 4) *(volatile unsigned*)(own + i) = i;"
        if local
        else "",
        "  const unsigned base = (unsigned)__cvta_generic_to_shared(window);"
        if op.space in ("shared", "copy")
        else "",
        "  const unsigned base = (unsigned)__cvta_generic_to_local(own);" if op.space == "local" else "",
        f"  {declare}",
        "  unsigned p = first, kept = 0;",
    ]
    for _ in range(REPEATS):
        on = "const unsigned on = (masks[p] >> lane) & 1u;" if how in "pb" else ""
        lines.append(
            f"  {{ {_address(op)} {on} {_statement(op, how)} kept = kept * 3 + ({keep}); p += step; }}"
        )
    if op.space == "copy":
        lines.append('  asm volatile("cp.async.wait_all;" ::: "memory");')
    lines.append("  if (kept == 0x9e3779b9u) sink[lane] = 1;")
    if local:
        lines.append("  if (sink[40] == 77) sink[lane] = own[sink[41] & 511];")
    return "\n".join(line for line in [*lines, "}"] if line)


def variants(op: Op) -> str:
    """Ways to switch lanes off that the instruction allows."""
    return "x" if op.aligned else "pbx"


def source() -> str:
    """The whole CUDA file."""
    return "\n".join(kernel(op, how) for op in OPS.values() for how in variants(op)) + "\n"


def _pattern(rng: np.random.Generator, window: int, width: int) -> np.ndarray:
    """32 offsets of one family: strides, permutations, small and large random sets, repeats, rows."""
    slots = window // width
    lanes = np.arange(32)
    family = rng.integers(0, 10)
    if family == 0:
        out = lanes * int(rng.integers(1, 41)) + int(rng.integers(0, 8))
    elif family == 1:
        out = rng.permutation(32)
    elif family == 2:
        out = rng.integers(0, slots, 32)
    elif family == 3:
        out = rng.integers(0, min(slots, int(rng.integers(1, 33))), 32)
    elif family == 4:
        out = np.repeat(rng.integers(0, slots, 16), 2)
    elif family == 5:
        out = np.resize(rng.integers(0, slots, int(2 ** rng.integers(0, 5))), 32)
    elif family == 6:
        out = lanes ^ int(rng.integers(0, 32))
    elif family == 7:
        out = (lanes // 8) * int(rng.integers(1, 64)) + (lanes % 8) * int(rng.integers(1, 9))
    elif family == 8:
        out = (lanes % 8) * int(rng.integers(1, 64)) + (lanes // 8) * int(rng.integers(0, 9))
    else:
        out = np.repeat(rng.permutation(slots)[: int(rng.integers(1, 9))], 32)[rng.permutation(32)]
    return (out % slots * width).astype(np.uint32)


def _mask(rng: np.random.Generator) -> int:
    kind = rng.integers(0, 6)
    if kind < 3:
        return 0xFFFFFFFF
    if kind == 3:
        return int(rng.integers(0, 1 << 32))
    if kind == 4:
        return (1 << int(rng.integers(1, 32))) - 1
    return int(rng.integers(0, 1 << 32)) & int(rng.integers(0, 1 << 32))


def tables(op: Op, patterns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(offsets uint32[patterns * 32 or 64], masks uint32[patterns]) of an instruction."""
    rng = np.random.default_rng([seed, *op.name.encode()])
    rows, masks = [], []
    for _ in range(patterns):
        rows.append(_pattern(rng, WINDOW[op.space], op.width))
        if op.space == "copy":
            rows.append(_pattern(rng, WINDOW["global"] if rng.integers(0, 2) else 2048, op.width))
        elif op.space == "generic":
            one = rng.integers(0, 5)
            rows.append(np.full(32, one) if one < 2 else rng.integers(0, 1 + (one > 3), 32))
        masks.append(0xFFFFFFFF if op.aligned else _mask(rng))
    table = np.concatenate(rows).astype(np.uint32)
    return table, np.array(masks, np.uint32)


@dataclass(frozen=True, slots=True)
class Probe:
    """One launch: kernel, first pattern of the table, step (0: that pattern each time), exited lanes."""

    op: Op
    how: str
    first: int
    step: int
    gone: int

    @property
    def id(self) -> str:
        kind = "mix" if self.step else "one"
        return f"micro:{self.op.name}_{self.how}:{kind}{self.first}"


def probes() -> Iterator[Probe]:
    """Launches of every kernel: of REPEATS patterns, and of one where hardware counters tell more."""
    rng = np.random.default_rng(7)
    for op in OPS.values():
        copies = op.space == "copy"
        for how in variants(op):
            for k in range(4 if copies else 2 if how == "p" or op.aligned else 1):
                gone = int(rng.integers(0, 1 << 32)) if how == "x" and not op.aligned else 0
                yield Probe(op, how, k * REPEATS, 1, gone)
        if copies or op.space in ("generic", "local") or op.name.startswith(("atom", "red", "stm")):
            for k in range(24 if copies else 8):
                yield Probe(op, "x" if op.aligned else "p", k, 0, 0)

"""Tensor-core rows: HMMA, IMMA, DMMA and MOVM.

Lane l = 4 g + t of a warp holds the fragments PTX documents: accumulator element c sits at row
g + 8 (c / 2), column 2 t + c % 2; an A register holds elements of rows g or g + 8, a B register of column
g.  Each product needs values of other lanes, all at positions known when the handler is compiled.

Floating-point accumulation (:func:`block_sum`): products are exact, every term and the accumulator are
aligned to the largest exponent and cut (toward zero) below a fixed number of bits, added exactly, and the
sum is cut to fp32 (rounded to nearest for an fp16 result).  How many terms go into one such sum and how many
bits are kept is the hardware's: with ``ACCUMULATE`` all of 393,216 results of six shapes and types measured
on an H200, the same they were fitted on,
come out bit for bit (validation/measurements/h200/outputs.json, probes ``mma_*``).  Other
architectures sum fewer terms at once; their results are stated as bounded, not exact.  An fp32 sum of 2^128
or more becomes infinity.

Signs on A and B apply to each element.  A uniform predicate, where there is one, says whether C takes part
(true) or counts as zero.  Both, and the fp64 steps, are bit for bit what an H200 leaves in the opcode forms
of validation/opcodes (4,096 threads a form, with infinities, NaN and overflow).  Not seen there: fp32 and
fp16 results that are subnormal or zero, fp64 results that are zero without C, integer sums below -2^31 (one
above 2^31 - 1 was).

Sources: PTX ISA 9.0, mma fragments; the form of the sum: Fasi et al., "Numerical behavior of NVIDIA tensor
cores", PeerJ CS 2021; its parameters: measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpusim.errors import UnsupportedError
from gpusim.isa.rows_float import nan64, round_f32
from gpusim.isa.table import Mods, row

LANES = 32
#: Terms summed at once and fraction bits kept below the largest exponent.
ACCUMULATE = {"terms": 16, "bits": 25}


@dataclass(frozen=True)
class Shape:
    """k: depth; per_word: elements of A and B in a 32-bit register; words of a, b, c and d."""

    m: int
    k: int
    per_word: int
    a: int
    b: int
    c: int


def shape(m: Mods) -> Shape:
    half_c = "F16" in m.words[1:2] or (m.words[-1] == "F16" and "F32" not in m)
    c = 2 if half_c else 4
    if "16816" in m:
        return Shape(16, 16, 2, 4, 2, c) if not m.first("S8", "U8") else Shape(16, 16, 4, 2, 1, 4)
    if "1688" in m:
        return Shape(16, 8, 1, 4, 2, c) if "TF32" in m else Shape(16, 8, 2, 2, 1, c)
    if "1684" in m:
        return Shape(16, 4, 1, 2, 1, c)
    if "16832" in m:
        return Shape(16, 32, 4, 4, 2, 4)
    return Shape(8, 16, 4, 1, 1, 2)  # 8816


def _widths(m: Mods) -> tuple[int, ...]:
    s = shape(m)
    return (s.c, s.a, s.b, s.c)


def element(x: Any, m: Any, word: Any, sub: int, operand: int) -> Any:
    """Element ``sub`` of a register of A (operand 0) or B (1) as fp64 (or i32 for integers)."""
    if "TF32" in m:
        return signed(x, m, operand, (word & 0xFFFFE000).cast("f32").fext())
    if m.name == "IMMA":
        kind = [w for w in m.words if w in ("S8", "U8")]
        up = word.shl(24 - 8 * sub)
        return up.ashr(24) if kind[operand] == "S8" else up.lshr(24)
    return signed(x, m, operand, x.half(word, sub, "bf16" if "BF16" in m else "f16").fext())


def place(s: Shape, k: int) -> tuple[int, int, int]:
    """(block of registers, lane in quad, element in word) of depth index k."""
    block, inside = divmod(k, 4 * s.per_word)
    return block, inside // s.per_word, inside % s.per_word


def refuse(m: Mods, known: bool, signs: tuple[int, ...]) -> None:
    """Raise UnsupportedError for an unknown combination, or a sign on a source that is not in ``signs``."""
    name = ".".join((m.name, *m.words))
    if not known:
        raise UnsupportedError(f"{name} is not supported", hint="an H200 faults on it, or no one has run it")
    for k, f in enumerate(m.sources):
        if (f.neg or f.abs) and k not in signs:
            raise UnsupportedError(f"- or |x| on source {k + 1} of {name} is not supported")


def accumulator(x: Any, use: Any, words: list[Any]) -> list[Any]:
    """The words of C, zero where the predicate operand is false."""
    return words if use is None else [use.where(w, x.const(0, "i32")) for w in words]


def signed(x: Any, m: Any, operand: int, v: Any) -> Any:
    """``|v|`` and ``-v`` as source ``operand`` is written; a sign change, also of NaN."""
    f = m.sources[operand]
    v = x.fabs(v) if f.abs else v
    return -v if f.neg else v


def gather_a(x: Any, m: Any, s: Shape, a: list[Any]) -> dict[tuple[int, int], Any]:
    """A[row half h][k] in every lane: (h, k) -> value for row g + 8 h."""
    out = {}
    for k in range(s.k):
        block, quad, sub = place(s, k)
        for h in range(s.m // 8):
            word = x.shuffle(a[block * (s.m // 8) + h], [(lane & ~3) | quad for lane in range(LANES)])
            out[h, k] = element(x, m, word, sub, 0)
    return out


def gather_b(x: Any, m: Any, s: Shape, b: list[Any]) -> dict[tuple[int, int], Any]:
    """B[k][column 2 t + j] in every lane: (j, k) -> value."""
    out = {}
    for k in range(s.k):
        block, quad, sub = place(s, k)
        for j in (0, 1):
            word = x.shuffle(b[block], [(2 * (lane & 3) + j) * 4 + quad for lane in range(LANES)])
            out[j, k] = element(x, m, word, sub, 1)
    return out


def exponent_of(x: Any, v: Any) -> Any:
    """Biased fp64 exponent (0 for zero)."""
    return v.bits().lshr(52) & 0x7FF


def block_sum(x: Any, terms: list[tuple[Any, Any]], c: Any, bits: int) -> Any:
    """Sum of products and accumulator: aligned, cut, exactly added (as fp64).

    The alignment uses the sum of the operands' exponents, before a product is normalised.  Infinities and NaN
    come out as ordinary addition gives them.
    """
    products = [a * b for a, b in terms]
    top = exponent_of(x, c)
    for (a, b), product in zip(terms, products, strict=True):
        e = exponent_of(x, a) + exponent_of(x, b) - 1023
        e = product.eq(0.0).where(x.const(0, "i64"), e)
        top = top.gt(e).where(top, e)
    # scale so that the kept bits are the integer part: 2^(bits - (top - 1023))
    scale = (x.const(2046 + bits, "i64") - top).shl(52).cast("f64")
    unscale = (top - bits).shl(52).cast("f64")
    total, plain = x.const(0.0, "f64"), x.const(0.0, "f64")
    for v in [*products, c]:
        total = total + x.unary("trunc", v * scale)
        plain = plain + v
    exact = top.gt(x.const(bits, "i64")).where(total * unscale, plain)
    special = plain.isnan() | ~x.fabs(plain).lt(float("inf"))
    return special.where(plain, exact)


def cut_to_f32(x: Any, v: Any) -> Any:
    """fp64 to fp32 toward zero; what is too large becomes infinity."""
    return x.fabs(v).lt(2.0**128).where(round_f32(x, "RZ", v, x.const(0.0, "f64")), v.fround())


#: Shape, accumulator and input type (fp16 if not named) an H200 runs; seven others were tried and fault.
HMMA_FORMS = {
    frozenset(form.split())
    for form in ("16816 F16", "16816 F32", "16816 F32 BF16", "1688 F16", "1688 F32", "1688 F32 BF16",
                 "1688 F32 TF32", "1684 F32 TF32")
}

BOUND = (
    "bit for bit on sm_90; on other architectures the order of additions is not settled "
    "(2^-22 of the largest term)"
)


@row("HMMA", "data = data data data ?P", modifiers="16816 1688 1684 F32 F16 BF16 TF32", pipe="tensor",
     source="PTX ISA 9.0 mma; accumulation as ACCUMULATE", widths=_widths, bound=BOUND)
def hmma(x: Any, m: Any, a: list[Any], b: list[Any], c: list[Any], use: Any) -> Any:
    refuse(m, frozenset(m.words) in HMMA_FORMS, (0, 1))
    s = shape(m)
    c = accumulator(x, use, c)
    left, right = gather_a(x, m, s, a), gather_b(x, m, s, b)
    packed = s.c == 2
    out = []
    for i in range(4):
        h, j = divmod(i, 2)
        start = x.half(c[h], j, "f16").fext() if packed else c[i].cast("f32").fext()
        for k0 in range(0, s.k, ACCUMULATE["terms"]):
            terms = [(left[h, k], right[j, k]) for k in range(k0, min(s.k, k0 + ACCUMULATE["terms"]))]
            exact = block_sum(x, terms, start, ACCUMULATE["bits"])
            start = exact if packed else x.canon(cut_to_f32(x, exact)).fext()
        out.append(x.to_half(start, "f16").zext("i32") if packed else x.canon(start.fround()).bits())
    if packed:
        return ([out[0] | out[1].shl(16), out[2] | out[3].shl(16)],)
    return (out,)


@row("IMMA", "data = data data data ?P", modifiers="16816 16832 8816 S8 U8 SAT ROW COL", pipe="tensor",
     source="PTX ISA 9.0 mma", widths=_widths)
def imma(x: Any, m: Any, a: list[Any], b: list[Any], c: list[Any], use: Any) -> Any:
    refuse(m, True, ())
    s = shape(m)
    c = accumulator(x, use, c)
    left, right = gather_a(x, m, s, a), gather_b(x, m, s, b)
    out = []
    for i in range(s.c):
        h, j = divmod(i, 2)
        total = x.const(0, "i64")
        for k in range(s.k):
            total = total + (left[h, k] * right[j, k]).sext("i64")
        total = total + c[i].sext("i64")
        if "SAT" in m:
            total = total.gt(0x7FFFFFFF).where(x.const(0x7FFFFFFF, "i64"), total)
            total = total.lt(-0x80000000).where(x.const(-0x80000000, "i64"), total)
        out.append(total.trunc("i32"))
    return (out,)


@row("DMMA", "data = data data data ?P", modifiers="884 8x8x4", pipe="tensor",
     source="PTX ISA 9.0 mma.m8n8k4.f64", widths=lambda m: (4, 2, 2, 4),
     bound="bit for bit on sm_90; on other architectures the order of the four fused steps is assumed")
def dmma(x: Any, m: Any, a: list[Any], b: list[Any], c: list[Any], use: Any) -> Any:
    """Four fused steps, depth ascending; a NaN passes without its operand's modifiers."""
    c = accumulator(x, use, c)
    left, right = x.pack64(a[0], a[1]), x.pack64(b[0], b[1])
    out = []
    for j in (0, 1):
        start = x.pack64(c[2 * j], c[2 * j + 1]).cast("f64")
        total = start.isnan().where(start, signed(x, m, 2, start))
        for k in range(4):
            p = x.shuffle(left, [(lane & ~3) | k for lane in range(LANES)]).cast("f64")
            q = x.shuffle(right, [(2 * (lane & 3) + j) * 4 + k for lane in range(LANES)]).cast("f64")
            step = x.fma(signed(x, m, 0, p), signed(x, m, 1, q), total)
            total = nan64(x, step, p, q, total)
        out += [total.lo(), total.hi()]
    return (out,)


@row("MOVM", "i32 = b32", modifiers="16 MT88", pipe="tensor", source="PTX ISA 9.0 movmatrix")
def movm(x: Any, m: Any, a: Any) -> Any:
    """Transpose an 8 x 8 matrix of halves: element (r, c) of lane 4 r + c / 2, half c % 2."""
    low = x.shuffle(a, [4 * (2 * (lane & 3)) + (lane >> 2) // 2 for lane in range(LANES)])
    high = x.shuffle(a, [4 * (2 * (lane & 3) + 1) + (lane >> 2) // 2 for lane in range(LANES)])
    odd = (x.lane_index().lshr(2) & 1).ne(0)
    low = odd.where(low.lshr(16), low & 0xFFFF)
    high = odd.where(high.lshr(16), high & 0xFFFF)
    return low | high.shl(16)

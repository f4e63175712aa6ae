"""What rows may ask of the warp: lanes of others, special registers, halves, scalars.

Extends :class:`MemoryLanes`; this is the ``x`` every semantics function of the opcode table receives.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpusim.errors import UnsupportedError
from gpusim.functional import layout as L
from gpusim.functional.lanes import F32, F64, I1, I8, I16, I32, I64, N, V, vec
from gpusim.functional.memory_lanes import PTR, MemoryLanes
from gpusim.isa.table import Address

HALF = ir.HalfType()

#: Special registers that are rows of the warp block.
SPECIAL_ROWS = {
    "SR_LANEID": L.ROW_LANE,
    "SR_TID.X": L.ROW_TID_X,
    "SR_TID.Y": L.ROW_TID_Y,
    "SR_TID.Z": L.ROW_TID_Z,
    "SR_CTAID.X": L.ROW_CTAID_X,
    "SR_CTAID.Y": L.ROW_CTAID_Y,
    "SR_CTAID.Z": L.ROW_CTAID_Z,
    "SR_WARPID": L.ROW_WARP,
}
#: Special registers that are 0 in a launch without clusters on one modelled GPU.
SPECIAL_ZERO = {
    "SRZ",
    "SR_CgaCtaId",
    "SR_CgaSize",
    "SR_VIRTCFG",
    "SR_REGALLOC",
    "SR_GRIDID",
    "SR_CLUSTERID.X",
    "SR_CLUSTERID.Y",
    "SR_CLUSTERID.Z",
    "SR_CLUSTER_CTAID.X",
    "SR_CLUSTER_CTAID.Y",
    "SR_CLUSTER_CTAID.Z",
}


class WarpLanes(MemoryLanes):
    """The builder handed to opcode semantics."""

    i64 = I64

    def __init__(self, module: ir.Module, function: ir.Function) -> None:
        super().__init__(module, function)
        self.zero32 = ir.Constant(I32, 0)
        self.sources: list[int] = []  # operand slot of each source, for rows that write one back

    # --- scalars
    def int64(self, value: int) -> ir.Constant:
        return ir.Constant(I64, value)

    def int_like(self, value: ir.Value, number: int) -> ir.Constant:
        return ir.Constant(value.type, number)

    def i1_splat(self, flag: ir.Value) -> V:
        return self.splat(flag, "i1")

    def count_bits(self, mask: ir.Value) -> ir.Value:
        return self.b.call(self.declare("llvm.ctpop.i32", I32, [I32]), [mask])

    def active_mask(self) -> ir.Value:
        return self.b.trunc(self.header(L.W_ACTIVE), I32)

    def exited(self) -> ir.Value:
        return self.b.trunc(self.header(L.W_EXITED), I32)

    def first_active(self) -> ir.Value:
        """Lowest lane that takes effect, or the lowest active one where the guard is false everywhere."""
        mask = self.ballot(self.exec)
        none = self.b.icmp_unsigned("==", mask, self.zero32)
        return self.first_lane(self.b.select(none, self.active_mask(), mask))

    def scalar_of_first(self, a: V) -> ir.Value:
        return self.b.extract_element(a.value, self.first_active())

    def from_lane(self, a: V, lane: ir.Value) -> V:
        return self.splat(self.b.extract_element(a.value, lane), a.kind)

    # --- other lanes
    def lane_index(self) -> V:
        return self.const(range(N), "i32")

    def _spilled_gather(self, a: V, lanes: V, size: int) -> tuple[ir.Value, V]:
        slot = self.b.ptrtoint(self.spill(a), I64)
        return slot, self.splat(slot, "i64") + lanes.zext("i64") * size

    def permute(self, a: V, lanes: V) -> V:
        """a[lanes[l]] in lane l; all indexes in 0..31."""
        _, addresses = self._spilled_gather(a, lanes, 4)
        return self.gather32(addresses, self.const(1, "i1"))

    def permute64(self, a: V, lanes: V) -> V:
        _, addresses = self._spilled_gather(a, lanes, 8)
        every = self.const(1, "i1")
        return self.pack64(self.gather32(addresses, every), self.gather32(addresses + 4, every))

    def shuffle(self, a: V, lanes: Sequence[int]) -> V:
        """a[lanes[l]] in lane l, lanes known now."""
        mask = ir.Constant(ir.VectorType(I32, N), [ir.Constant(I32, i) for i in lanes])
        return V(self, self.b.shuffle_vector(a.value, ir.Constant(a.value.type, ir.Undefined), mask), a.kind)

    def match_any(self, a: V) -> V:
        """Mask of the lanes that take effect and hold the same value as this one."""
        out = self.spill(self.const(0, "i32"))
        data = self.spill(a)
        scalar = I64 if a.kind == "i64" else I32

        def body(lane: ir.Value) -> None:
            mine = self.splat(self.lane_of(data, lane, scalar), a.kind)
            same = self.ballot(a.eq(mine) & self.exec)
            self.b.store(same, self.b.gep(out, [lane], source_etype=I32))

        self.loop_lanes(self.ballot(self.exec), body)
        return V(self, self.b.load(out, typ=vec("i32")), "i32")

    def reduce(self, op: str, a: V) -> ir.Value:
        f = self.declare(f"llvm.vector.reduce.{op}.v32i32", I32, [vec("i32")])
        return self.b.call(f, [a.value])

    # --- predicates and barrier registers named in the handler's key
    def _predicate_row(self, index: int, uniform: bool) -> ir.Value:
        return self.b.add(self.w, self.i64c(L.row((L.ROW_UP if uniform else L.ROW_P) + index)))

    def set_predicate(self, index: int, value: V, uniform: bool = False) -> None:
        self.store_row(self._predicate_row(index, uniform), value.sext("i32"), self.exec)

    def get_predicate(self, index: int, uniform: bool = False) -> V:
        return self.load_row(self._predicate_row(index, uniform)).ne(0)

    def clear_source(self, position: int) -> None:
        """Zero the barrier register a source was read from, if any lane takes effect."""
        some = self.i1_splat(self.b.icmp_unsigned("!=", self.ballot(self.exec), self.zero32))
        self.store_row(self.operand_address(self.sources[position]), self.const(0, "i32"), some)

    def decline(self, lanes: V) -> None:
        """These lanes write nothing but false to the first destination, a predicate."""
        self.store_row(self.operand_address(0), self.const(0, "i32"), lanes)
        self.exec = self.exec & ~lanes

    # --- CTA barriers
    def set_barrier_request(self, request: ir.Value) -> None:
        self.store_at(self.w, 8 * L.W_RESULT, request)

    def barrier_result(self) -> V:
        return self.splat(self.b.trunc(self.header(L.W_RESULT), I32), "i32")

    # --- special registers
    def special(self, name: str) -> V:
        if name in SPECIAL_ROWS:
            return self.fixed_row(SPECIAL_ROWS[name])
        lane = range(N)
        masks = {"SR_EQMASK": [1 << i for i in lane], "SR_LTMASK": [(1 << i) - 1 for i in lane],
                 "SR_LEMASK": [(2 << i) - 1 for i in lane], "SR_GTMASK": [-(2 << i) for i in lane],
                 "SR_GEMASK": [-(1 << i) for i in lane]}
        if name in masks:
            return self.const(masks[name], "i32")
        if name in SPECIAL_ZERO:
            return self.const(0, "i32")
        if name == "SR_TID":
            x, y, z = (self.fixed_row(r) for r in (L.ROW_TID_X, L.ROW_TID_Y, L.ROW_TID_Z))
            return x | y.shl(16) | z.shl(26)
        if name in ("SR_CLOCKLO", "SR_CLOCKHI", "SR_GLOBALTIMERLO", "SR_GLOBALTIMERHI"):
            clock = self.context_word(L.C_CLOCK)
            part = self.b.lshr(clock, self.i64c(32 if name.endswith("HI") else 0))
            return self.splat(self.b.trunc(part, I32), "i32")
        if name == "SR_VIRTID":  # the SM number, in bits 20 up: CTAs are dealt to SMs in order
            cta = self.b.trunc(self.header(L.W_CTA), I32)
            sms = self.b.trunc(self.context_word(L.C_SM_COUNT), I32)
            return self.splat(self.b.shl(self.b.urem(cta, sms), ir.Constant(I32, 20)), "i32")
        if name == "SR_SWINHI":
            return self.splat(
                self.b.trunc(self.b.lshr(self.context_word(L.C_SHARED_WINDOW), self.i64c(32)), I32), "i32"
            )
        if name == "SR_LWINHI":
            return self.splat(
                self.b.trunc(self.b.lshr(self.context_word(L.C_LOCAL_WINDOW), self.i64c(32)), I32), "i32"
            )
        raise UnsupportedError(f"special register {name} is not supported",
                               hint="please report the kernel that reads it")

    # --- windows of the generic address space
    def in_window(self, at: V, which: str) -> tuple[V, V]:
        """(lane is in the window, offset in it)."""
        base, size = {"shared": (L.C_SHARED_WINDOW, L.C_SHARED_WINDOW_SIZE),
                      "local": (L.C_LOCAL_WINDOW, L.C_LOCAL_WINDOW_SIZE)}[which]
        offset = at - self.splat(self.context_word(base), "i64")
        return offset.lt(self.splat(self.context_word(size), "i64"), signed=False), offset

    def host_constant(self, a: Address, nbytes: int) -> V:
        """Host address of a constant-bank read; the bank is in ``a.ubase`` or fixed in IMM1."""
        offset = a.offset.trunc("i32")
        for part in (a.base, a.ubase):
            if part is not None:
                offset = offset + part
        table = self.context_word(L.C_CONST_TABLE)
        bank = self.imm(1)
        entry = self.b.add(table, self.b.mul(bank, self.i64c(16)))
        address, size = self.load_at(entry, 0, I64), self.load_at(entry, 8, I64)
        wide = offset.zext("i64")
        last = self.splat(self.b.sub(size, self.i64c(nbytes)), "i64")
        self.fail_where(wide.gt(last) & self.exec, L.E_CONST_BOUNDS, wide, nbytes, 4)
        return wide + self.splat(address, "i64")

    # --- halves
    def half(self, word: V, index: int, kind: str) -> V:
        """Half ``index`` of a packed word as fp32 (exact)."""
        if kind == "bf16":
            return (word & 0xFFFF0000 if index else word.shl(16)).cast("f32")
        narrow = (word.lshr(16) if index else word).trunc("i16")
        value = self.b.bitcast(narrow.value, ir.VectorType(HALF, N))
        return V(self, self.b.fpext(value, vec("f32")), "f32")

    def _odd_f32(self, v: V) -> V:
        """fp64 to fp32 rounding to odd: a later rounding to fewer bits is then a single rounding."""
        nearest = v.fround()
        wide = nearest.fext()
        bits = nearest.bits()
        inexact = wide.ne(v) & (bits & 1).eq(0) & self.fabs(v).lt(float("inf"))
        larger = self.fabs(wide).gt(self.fabs(v))
        return inexact.where(larger.where(bits - 1, bits + 1), bits).cast("f32")

    def to_half(self, v: V, kind: str, mode: str = "") -> V:
        """fp64 to fp16 or bf16 (as i16), rounded once; NaN is 0x7fff."""
        f = self._odd_f32(v)
        bits = f.bits()
        if mode:
            h = self._directed_half(v, f, kind, mode)
        elif kind == "bf16":
            h = (bits + (bits.lshr(16) & 1) + 0x7FFF).lshr(16).trunc("i16")
        else:
            h = V(self, self.b.bitcast(self.b.fptrunc(f.value, ir.VectorType(HALF, N)), vec("i16")), "i16")
        return v.isnan().where(self.const(0x7FFF, "i16"), h)

    def _directed_half(self, v: V, odd: V, kind: str, mode: str) -> V:
        """Directed rounding by cutting toward zero, then one step away where the mode asks for it."""
        bits = odd.bits()
        sign = bits.lshr(16) & 0x8000
        if kind == "bf16":
            cut = bits.lshr(16) & 0x7FFF
            back = cut.shl(16).cast("f32")
        else:
            near = V(
                self, self.b.bitcast(self.b.fptrunc(odd.value, ir.VectorType(HALF, N)), vec("i16")), "i16"
            )
            near = near.zext("i32") & 0x7FFF
            value = self.half(near, 0, "f16")
            over = value.gt(self.fabs(odd))
            cut = over.where(near - 1, near)
            back = self.half(cut, 0, "f16")
        inexact = back.ne(self.fabs(odd))
        away = {"RZ": self.const(0, "i1"), "RP": sign.eq(0), "RM": sign.ne(0)}[mode]
        return ((inexact & away).where(cut + 1, cut) | sign).trunc("i16")

    # --- scalar arithmetic of atomics
    def scalar_float_add(self, old: ir.Value, value: ir.Value, ftz: bool) -> ir.Value:
        """FTZ: denormal operands count as zero too. A NaN operand is the fp64 result as it is, the value's
        before the old one's (measured on an H200 with one NaN).
        """
        b = self.b

        def flushed(v: ir.Value) -> ir.Value:
            bits = b.bitcast(v, I32)
            small = b.icmp_unsigned("==", b.and_(bits, ir.Constant(I32, 0x7F800000)), self.zero32)
            return b.bitcast(b.select(small, b.and_(bits, ir.Constant(I32, 0x80000000)), bits), F32)

        def isnan(v: ir.Value) -> ir.Value:
            return b.fcmp_unordered("uno", v, v)

        ftz = ftz and old.type == F32
        total = b.fadd(flushed(old), flushed(value)) if ftz else b.fadd(old, value)
        total = flushed(total) if ftz else total
        if old.type == F32:
            return b.bitcast(b.select(isnan(total), ir.Constant(I32, 0x7FFFFFFF), b.bitcast(total, I32)), F32)
        default = b.bitcast(ir.Constant(I64, 0xFFF8000000000000), F64)
        nan = b.select(isnan(value), value, b.select(isnan(old), old, default))
        return b.select(isnan(total), nan, total)

    def scalar_half2_best(self, old: ir.Value, value: ir.Value, kind: str, largest: bool) -> ir.Value:
        """Packed minimum or maximum on one word: -0 is below +0, a NaN gives way, two are 0x7fff."""
        b, out = self.b, self.zero32

        def c(n: int) -> ir.Constant:
            return ir.Constant(I32, n)

        for shift in (0, 16):
            x, y = (b.and_(b.lshr(v, c(shift)), c(0xFFFF)) for v in (old, value))
            keys, nans = [], []
            for v in (x, y):  # keys that are ordered as the numbers are
                negative = b.icmp_unsigned(">", v, c(0x7FFF))
                keys.append(b.xor(v, b.select(negative, c(0xFFFF), c(0x8000))))
                infinity = c(0x7F80 if kind == "bf16" else 0x7C00)
                nans.append(b.icmp_unsigned(">", b.and_(v, c(0x7FFF)), infinity))
            best = b.select(b.icmp_unsigned(">" if largest else "<", keys[0], keys[1]), x, y)
            best = b.select(nans[0], b.select(nans[1], c(0x7FFF), y), b.select(nans[1], x, best))
            out = b.or_(out, b.shl(best, c(shift)))
        return out

    def scalar_half2_add(self, old: ir.Value, value: ir.Value, kind: str) -> ir.Value:
        """Packed add on one word, through the 32-lane rounding (rare: packed half atomics)."""
        left, right = self.splat(old, "i32"), self.splat(value, "i32")
        out = self.const(0, "i32")
        for k in (0, 1):
            total = self.half(left, k, kind).fext() + self.half(right, k, kind).fext()
            out = out | self.to_half(total, kind).zext("i32").shl(16 * k)
        return self.scalar(out)


__all__ = ["I1", "I8", "I16", "PTR", "WarpLanes"]

"""The language opcode semantics are written in: values of 32 lanes over llvmlite.

A semantics function gets a :class:`Lanes` (``x``) and operand values (:class:`V`), and returns values.
Arithmetic is LLVM vector arithmetic on 32 lanes; nothing here knows opcodes.  Floating point is IEEE
round-to-nearest with fused multiply-add where asked; no fast-math.  NaN results become the hardware's
canonical NaN through :meth:`Lanes.canon`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

N = 32
I1, I8, I16, I32, I64 = (ir.IntType(b) for b in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
SCALARS = {"i1": I1, "i8": I8, "i16": I16, "i32": I32, "i64": I64, "f32": F32, "f64": F64}
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f32": 32, "f64": 64}


def vec(kind: str) -> ir.VectorType:
    return ir.VectorType(SCALARS[kind], N)


class V:
    """One value in each of 32 lanes. ``kind``: i1 i8 i16 i32 i64 f32 f64."""

    __slots__ = ("x", "value", "kind")

    def __init__(self, x: Lanes, value: ir.Value, kind: str) -> None:
        self.x, self.value, self.kind = x, value, kind

    def _co(self, other: V | int | float) -> V:
        return other if isinstance(other, V) else self.x.const(other, self.kind)

    def _bin(self, name: str, other: V | int | float) -> V:
        o = self._co(other)
        if o.kind != self.kind:
            raise TypeError(f"{name}: {self.kind} with {o.kind}")
        return V(self.x, getattr(self.x.b, name)(self.value, o.value), self.kind)

    @property
    def is_float(self) -> bool:
        return self.kind[0] == "f"

    def __add__(self, o: V | int | float) -> V:
        return self._bin("fadd" if self.is_float else "add", o)

    def __sub__(self, o: V | int | float) -> V:
        return self._bin("fsub" if self.is_float else "sub", o)

    def __mul__(self, o: V | int | float) -> V:
        return self._bin("fmul" if self.is_float else "mul", o)

    def __truediv__(self, o: V | int | float) -> V:
        return self._bin("fdiv", o)

    def __and__(self, o: V | int) -> V:
        return self._bin("and_", o)

    def __or__(self, o: V | int) -> V:
        return self._bin("or_", o)

    def __xor__(self, o: V | int) -> V:
        return self._bin("xor", o)

    def __invert__(self) -> V:
        return self ^ self.x.const(-1, self.kind)

    def __neg__(self) -> V:
        if self.is_float:
            return V(self.x, self.x.b.fneg(self.value), self.kind)
        return self.x.const(0, self.kind) - self

    def shl(self, n: V | int) -> V:
        """Left shift; the count must be below the width."""
        return self._bin("shl", n)

    def lshr(self, n: V | int) -> V:
        return self._bin("lshr", n)

    def ashr(self, n: V | int) -> V:
        return self._bin("ashr", n)

    def _cmp(self, op: str, o: V | int | float, signed: bool) -> V:
        c = self._co(o)
        b = self.x.b
        if self.is_float:
            value = b.fcmp_unordered(op, self.value, c.value) if signed is None else b.fcmp_ordered(
                op, self.value, c.value)
        else:
            value = (b.icmp_signed if signed else b.icmp_unsigned)(op, self.value, c.value)
        return V(self.x, value, "i1")

    def cmp(self, op: str, o: V | int | float, signed: bool = True) -> V:
        """``op`` one of < <= > >= == !=; floats compare ordered (false on NaN)."""
        return self._cmp(op, o, signed)

    def eq(self, o: V | int | float) -> V:
        return self._cmp("==", o, True)

    def ne(self, o: V | int | float) -> V:
        return self._cmp("!=", o, True)

    def lt(self, o: V | int | float, signed: bool = True) -> V:
        return self._cmp("<", o, signed)

    def gt(self, o: V | int | float, signed: bool = True) -> V:
        return self._cmp(">", o, signed)

    def isnan(self) -> V:
        return V(self.x, self.x.b.fcmp_unordered("uno", self.value, self.value), "i1")

    def bits(self) -> V:
        """The same bits as an integer."""
        return self.cast(f"i{BITS[self.kind]}") if self.is_float else self

    def cast(self, kind: str) -> V:
        """The same bits read as another kind of equal width."""
        if kind == self.kind:
            return self
        return V(self.x, self.x.b.bitcast(self.value, vec(kind)), kind)

    def zext(self, kind: str) -> V:
        return V(self.x, self.x.b.zext(self.value, vec(kind)), kind) if kind != self.kind else self

    def sext(self, kind: str) -> V:
        return V(self.x, self.x.b.sext(self.value, vec(kind)), kind) if kind != self.kind else self

    def trunc(self, kind: str) -> V:
        return V(self.x, self.x.b.trunc(self.value, vec(kind)), kind) if kind != self.kind else self

    def fext(self) -> V:
        """f32 to f64."""
        return V(self.x, self.x.b.fpext(self.value, vec("f64")), "f64")

    def fround(self) -> V:
        """f64 to f32, round to nearest even."""
        return V(self.x, self.x.b.fptrunc(self.value, vec("f32")), "f32")

    def to_float(self, kind: str, signed: bool) -> V:
        f = self.x.b.sitofp if signed else self.x.b.uitofp
        return V(self.x, f(self.value, vec(kind)), kind)

    def to_int(self, kind: str, signed: bool) -> V:
        """Saturating conversion toward zero; NaN gives 0."""
        name = "fptosi" if signed else "fptoui"
        return self.x.call(f"llvm.{name}.sat.v32{kind}.v32{self.kind}", kind, self)

    def where(self, yes: V, no: V | int | float) -> V:
        """Select by this i1 value."""
        other = yes._co(no)
        return V(self.x, self.x.b.select(self.value, yes.value, other.value), yes.kind)

    def lo(self) -> V:
        return self.bits().trunc("i32")

    def hi(self) -> V:
        return self.bits().lshr(32).trunc("i32")


class Lanes:
    """Builder of one handler's body; ``exec`` is the mask of lanes that take effect (i1)."""

    def __init__(self, module: ir.Module, function: ir.Function) -> None:
        self.module, self.function = module, function
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.exec: V

    def const(self, value: int | float | Sequence[int], kind: str) -> V:
        scalar = SCALARS[kind]
        values: list[Any] = list(value) if isinstance(value, Sequence) else [value] * N
        if kind[0] == "i":
            bits = BITS[kind]
            values = [int(v) & ((1 << bits) - 1) for v in values]
        return V(self, ir.Constant(ir.VectorType(scalar, N), [ir.Constant(scalar, v) for v in values]), kind)

    def declare(self, name: str, result: ir.Type, args: list[ir.Type]) -> ir.Function:
        found = self.module.globals.get(name)
        return found or ir.Function(self.module, ir.FunctionType(result, args), name)

    def call(self, name: str, kind: str, *args: V) -> V:
        f = self.declare(name, vec(kind), [a.value.type for a in args])
        return V(self, self.b.call(f, [a.value for a in args]), kind)

    def fma(self, a: V, b: V, c: V) -> V:
        return self.call(f"llvm.fma.v32{a.kind}", a.kind, a, b, c)

    def fabs(self, a: V) -> V:
        return self.call(f"llvm.fabs.v32{a.kind}", a.kind, a)

    def unary(self, op: str, a: V) -> V:
        """An LLVM intrinsic of one argument: sqrt floor ceil trunc roundeven bitreverse ctpop."""
        return self.call(f"llvm.{op}.v32{a.kind}", a.kind, a)

    def ctlz(self, a: V) -> V:
        f = self.declare(f"llvm.ctlz.v32{a.kind}", a.value.type, [a.value.type, I1])
        return V(self, self.b.call(f, [a.value, ir.Constant(I1, 0)]), a.kind)

    def fshl(self, hi: V, lo: V, n: V) -> V:
        return self.call(f"llvm.fshl.v32{hi.kind}", hi.kind, hi, lo, n)

    def pack64(self, lo: V, hi: V) -> V:
        return lo.bits().zext("i64") | hi.bits().zext("i64").shl(32)

    def canon(self, a: V) -> V:
        """NaN results become the hardware's one NaN: 0x7fffffff, or 0xfff8000000000000 for fp64."""
        if a.kind == "f32":
            return a.isnan().where(self.const(0x7FFFFFFF, "i32"), a.bits()).cast("f32")
        return a.isnan().where(self.const(0xFFF8000000000000, "i64"), a.bits()).cast("f64")

    def ftz(self, a: V) -> V:
        """Denormal f32 values become zero of the same sign."""
        bits = a.bits()
        small = (bits & 0x7F800000).eq(0)
        return small.where(bits & 0x80000000, bits).cast("f32")

    def select3(self, cases: Sequence[tuple[V, V]], default: V) -> V:
        """First condition that holds wins."""
        out = default
        for condition, value in reversed(cases):
            out = condition.where(value, out)
        return out

    def scalar(self, a: V, lane: int = 0) -> ir.Value:
        return self.b.extract_element(a.value, ir.Constant(I32, lane))

    def splat(self, value: ir.Value, kind: str) -> V:
        t = vec(kind)
        one = self.b.insert_element(ir.Constant(t, ir.Undefined), value, ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, N), [ir.Constant(I32, 0)] * N)
        return V(self, self.b.shuffle_vector(one, ir.Constant(t, ir.Undefined), zeros), kind)

    def ballot(self, a: V) -> ir.Value:
        """i32 mask of an i1 value."""
        return self.b.bitcast(a.value, I32)

    def from_ballot(self, mask: ir.Value) -> V:
        return V(self, self.b.bitcast(mask, vec("i1")), "i1")

    def first_lane(self, mask: ir.Value) -> ir.Value:
        """Index of the lowest set bit (32 if none)."""
        f = self.declare("llvm.cttz.i32", I32, [I32, I1])
        return self.b.call(f, [mask, ir.Constant(I1, 0)])

    def loop_lanes(self, mask: ir.Value, body: Callable[[ir.Value], None]) -> None:
        """Run ``body(lane index)`` for each set bit of an i32 mask, ascending."""
        b, fn = self.b, self.function
        pre = b.block
        head, work, done = (fn.append_basic_block(n) for n in ("lane_head", "lane_body", "lane_done"))
        b.branch(head)
        b.position_at_end(head)
        left = b.phi(I32)
        left.add_incoming(mask, pre)
        b.cbranch(b.icmp_unsigned("!=", left, ir.Constant(I32, 0)), work, done)
        b.position_at_end(work)
        body(self.first_lane(left))
        left.add_incoming(b.and_(left, b.sub(left, ir.Constant(I32, 1))), b.block)
        b.branch(head)
        b.position_at_end(done)

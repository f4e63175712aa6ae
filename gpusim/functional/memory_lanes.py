"""Memory accesses of 32 lanes: bounds, alignment, events, gather and scatter.

Extends :class:`Lanes` with what load, store and atomic rows of the opcode table are written in.  An
access first writes its event (if the launch is traced), then is checked, then moves data.  Global
addresses are virtual; ``host = virtual + delta`` and every lane must fall in one allocation.
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.binding as llvm
from llvmlite import ir

from gpusim.functional import layout as L
from gpusim.functional.lanes import F32, F64, I1, I8, I16, I32, I64, Lanes, N, V, vec

PTR = ir.PointerType()
_ALIGN_ARGUMENT = llvm.llvm_version_info[0] < 22


class MemoryLanes(Lanes):
    """Adds addresses and memory to :class:`Lanes`; ``w``, ``op``: i64 addresses of warp and operation."""

    def __init__(self, module: ir.Module, function: ir.Function) -> None:
        super().__init__(module, function)
        self.w, self.op = function.args
        self._context: ir.Value | None = None

    # --- scalars in memory
    def ptr(self, address: ir.Value) -> ir.Value:
        return self.b.inttoptr(address, PTR)

    def i64c(self, value: int) -> ir.Constant:
        return ir.Constant(I64, value)

    def load_at(self, base: ir.Value, offset: int, kind: ir.Type) -> ir.Value:
        return self.b.load(self.ptr(self.b.add(base, self.i64c(offset))), typ=kind)

    def store_at(self, base: ir.Value, offset: int, value: ir.Value) -> None:
        self.b.store(value, self.ptr(self.b.add(base, self.i64c(offset))))

    def header(self, word: int) -> ir.Value:
        return self.load_at(self.w, 8 * word, I64)

    @property
    def context(self) -> ir.Value:
        if self._context is None:
            self._context = self.header(L.W_CONTEXT)
        return self._context

    def context_word(self, word: int) -> ir.Value:
        return self.load_at(self.context, 8 * word, I64)

    def imm(self, which: int) -> ir.Value:
        return self.load_at(self.op, L.O_IMM0 + 8 * which, I64)

    # --- rows
    def operand_address(self, slot: int) -> ir.Value:
        """Address of an operand's row: in the warp block, or in the constant pool if negative."""
        b = self.b
        offset = self.load_at(self.op, L.O_OPERANDS + 4 * slot, I32)
        in_pool = b.icmp_signed("<", offset, ir.Constant(I32, 0))
        base = b.select(in_pool, self.header(L.W_POOL), self.w)
        return b.add(base, b.zext(b.and_(offset, ir.Constant(I32, 0x7FFFFFFF)), I64))

    def load_row(self, address: ir.Value, kind: str = "i32") -> V:
        return V(self, self.b.load(self.ptr(address), typ=vec(kind), align=64), kind)

    def store_row(self, address: ir.Value, value: V, mask: V) -> None:
        name = "llvm.masked.store.v32i32.p0"
        types = [vec("i32"), PTR] + ([I32] if _ALIGN_ARGUMENT else []) + [vec("i1")]
        f = self.declare(name, ir.VoidType(), types)
        args = [value.bits().value, self.ptr(address)]
        args += [ir.Constant(I32, 4)] if _ALIGN_ARGUMENT else []
        self.b.call(f, [*args, mask.value])

    def store_row_all(self, address: ir.Value, value: V) -> None:
        self.b.store(value.bits().value, self.ptr(address), align=64)

    def fixed_row(self, index: int) -> V:
        return self.load_row(self.b.add(self.w, self.i64c(L.row(index))))

    # --- gather and scatter
    def _pointers(self, addresses: V) -> ir.Value:
        return self.b.inttoptr(addresses.value, ir.VectorType(PTR, N))

    def gather32(self, addresses: V, mask: V) -> V:
        types = [ir.VectorType(PTR, N)] + ([I32] if _ALIGN_ARGUMENT else []) + [vec("i1"), vec("i32")]
        f = self.declare("llvm.masked.gather.v32i32.v32p0", vec("i32"), types)
        args = [self._pointers(addresses)] + ([ir.Constant(I32, 4)] if _ALIGN_ARGUMENT else [])
        return V(self, self.b.call(f, [*args, mask.value, self.const(0, "i32").value]), "i32")

    def scatter32(self, addresses: V, value: V, mask: V) -> None:
        types = [vec("i32"), ir.VectorType(PTR, N)] + ([I32] if _ALIGN_ARGUMENT else []) + [vec("i1")]
        f = self.declare("llvm.masked.scatter.v32i32.v32p0", ir.VoidType(), types)
        args = [value.bits().value, self._pointers(addresses)]
        args += [ir.Constant(I32, 4)] if _ALIGN_ARGUMENT else []
        self.b.call(f, [*args, mask.value])

    def spill(self, value: V) -> ir.Value:
        """Lanes of a value in a stack array, for indexing by a run-time lane; returns its pointer."""
        with self.b.goto_entry_block():
            slot = self.ptr(self.b.ptrtoint(self._aligned_alloca(value.value.type), I64))
        self.b.store(value.value, slot, align=64)
        return slot

    def _aligned_alloca(self, kind: ir.Type) -> ir.Value:
        slot = self.b.alloca(kind)
        slot.align = 64
        return slot

    def lane_of(self, slot: ir.Value, lane: ir.Value, kind: ir.Type) -> ir.Value:
        return self.b.load(self.b.gep(slot, [lane], source_etype=kind), typ=kind)

    def narrow_load(self, addresses: V, mask: V, bits: int, signed: bool) -> V:
        """8- and 16-bit loads, lane by lane."""
        t = I8 if bits == 8 else I16
        where, out = self.spill(addresses), self.spill(self.const(0, "i32"))

        def body(lane: ir.Value) -> None:
            value = self.b.load(self.ptr(self.lane_of(where, lane, I64)), typ=t)
            wide = self.b.sext(value, I32) if signed else self.b.zext(value, I32)
            self.b.store(wide, self.b.gep(out, [lane], source_etype=I32))

        self.loop_lanes(self.ballot(mask), body)
        return V(self, self.b.load(out, typ=vec("i32"), align=64), "i32")

    def narrow_store(self, addresses: V, value: V, mask: V, bits: int) -> None:
        t = I8 if bits == 8 else I16
        where, data = self.spill(addresses), self.spill(value.bits())

        def body(lane: ir.Value) -> None:
            word = self.b.trunc(self.lane_of(data, lane, I32), t)
            self.b.store(word, self.ptr(self.lane_of(where, lane, I64)))

        self.loop_lanes(self.ballot(mask), body)

    # --- faults
    def return_(self, code: int) -> None:
        self.b.ret(ir.Constant(I32, code))

    def fault(self, code: int, lane: ir.Value, address: ir.Value, nbytes: int, space: int) -> None:
        for word, value in ((L.C_ERROR, self.i64c(code)), (L.C_ERROR_LANE, self.b.zext(lane, I64)),
                            (L.C_ERROR_ADDRESS, address), (L.C_ERROR_BYTES, self.i64c(nbytes)),
                            (L.C_ERROR_SPACE, self.i64c(space))):
            self.store_at(self.context, 8 * word, value)
        self.return_(L.FAULT)

    def fail_where(self, bad: V, code: int, addresses: V, nbytes: int, space: int) -> None:
        """Return FAULT for the first lane in which ``bad`` holds."""
        mask = self.ballot(bad)
        with self.b.if_then(self.b.icmp_unsigned("!=", mask, ir.Constant(I32, 0)), likely=False):
            lane = self.first_lane(mask)
            self.fault(code, lane, self.lane_of(self.spill(addresses), lane, I64), nbytes, space)

    def check_aligned(self, addresses: V, mask: V, nbytes: int, space: int) -> None:
        if nbytes > 1:
            bad = (addresses & (nbytes - 1)).ne(0) & mask
            self.fail_where(bad, L.E_MISALIGNED, addresses, nbytes, space)

    # --- events
    def emit(self, events: list[tuple[int, int, int, V, V, int]]) -> None:
        """Append events (space, kind, nbytes, addresses, mask, flags); return EVENTS_FULL if no room."""
        b = self.b
        traced = b.icmp_unsigned("!=", self.context_word(L.C_TRACE), self.i64c(0))
        with b.if_then(traced):
            count = self.context_word(L.C_EVENT_COUNT)
            after = b.add(count, self.i64c(len(events)))
            full = b.icmp_unsigned(">", after, self.context_word(L.C_EVENT_CAP))
            with b.if_then(full, likely=False):
                self.return_(L.EVENTS_FULL)
            cta = b.trunc(self.header(L.W_CTA), I32)
            warp = b.trunc(self.header(L.W_WARP), I16)
            pc = self.load_at(self.op, L.O_PC, I32)
            flags = b.trunc(self.load_at(self.op, L.O_FLAGS, I32), I16)
            # an event whose mask is empty is written over by the next one
            for space, kind, nbytes, addresses, mask, extra in events:
                at = b.add(self.context_word(L.C_EVENTS), b.mul(count, self.i64c(288)))
                bits = self.ballot(mask)
                for offset, value in ((0, cta), (4, pc), (8, bits), (12, b.trunc(count, I32)), (16, warp),
                                      (18, b.or_(flags, ir.Constant(I16, extra))),
                                      (20, ir.Constant(I8, space)),
                                      (21, ir.Constant(I8, kind)), (22, ir.Constant(I8, nbytes)),
                                      (23, ir.Constant(I8, 0)), (24, self.header(L.W_TICKS))):
                    self.store_at(at, offset, value)
                b.store(addresses.value, self.ptr(b.add(at, self.i64c(32))), align=32)
                some = b.zext(b.icmp_unsigned("!=", bits, ir.Constant(I32, 0)), I64)
                count = b.add(count, some)
            self.store_at(self.context, 8 * L.C_EVENT_COUNT, count)

    # --- spaces: each checks and returns host addresses
    def host_global(self, addresses: V, mask: V, nbytes: int) -> V:
        b, space = self.b, 2
        self.check_aligned(addresses, mask, nbytes, space)
        # each instruction remembers the allocation it hit last, as an index, so threads may share it
        allocation = self.load_at(self.op, L.O_ALLOCATION, I64)
        entry = b.add(self.context_word(L.C_ALLOCS), b.shl(allocation, self.i64c(4)))
        low, high = self.load_at(entry, 0, I64), self.load_at(entry, 8, I64)
        last = self.splat(b.sub(high, self.i64c(nbytes)), "i64")
        inside = ~addresses.lt(self.splat(low, "i64"), signed=False) & ~addresses.gt(last, signed=False)
        stray = self.ballot(~inside & mask)
        with b.if_then(b.icmp_unsigned("!=", stray, ir.Constant(I32, 0)), likely=False):
            where = self.spill(addresses)
            finder = self._finder()

            def body(lane: ir.Value) -> None:
                address = self.lane_of(where, lane, I64)
                found = b.call(finder, [self.context, self.op, address, self.i64c(nbytes)])
                with b.if_then(b.icmp_unsigned("==", found, ir.Constant(I1, 0)), likely=False):
                    self.fault(L.E_OUT_OF_BOUNDS, lane, address, nbytes, space)

            self.loop_lanes(stray, body)
        return addresses + self.splat(self.context_word(L.C_DELTA), "i64")

    def _finder(self) -> ir.Function:
        """``find(context, operation, address, nbytes) -> i1``: search the allocations, remember the hit."""
        name = "find_allocation"
        found = self.module.globals.get(name)
        if found:
            return found
        fn = ir.Function(self.module, ir.FunctionType(I1, [I64, I64, I64, I64]), name)
        fn.linkage = "internal"
        context, operation, address, nbytes = fn.args
        blocks = [fn.append_basic_block(n) for n in ("entry", "head", "body", "hit", "next", "miss")]
        entry, head, body, hit, again, miss = blocks
        b = ir.IRBuilder(entry)

        def word(base: ir.Value, offset: ir.Value) -> ir.Value:
            return b.load(b.inttoptr(b.add(base, offset), PTR), typ=I64)

        table = word(context, self.i64c(8 * L.C_ALLOCS))
        count = word(context, self.i64c(8 * L.C_N_ALLOCS))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(I64)
        i.add_incoming(self.i64c(0), entry)
        b.cbranch(b.icmp_unsigned("<", i, count), body, miss)
        b.position_at_end(body)
        low = word(table, b.mul(i, self.i64c(16)))
        high = word(table, b.add(b.mul(i, self.i64c(16)), self.i64c(8)))
        ok = b.and_(b.icmp_unsigned(">=", address, low),
                    b.icmp_unsigned("<=", address, b.sub(high, nbytes)))
        ok = b.and_(ok, b.icmp_unsigned(">=", b.sub(high, low), nbytes))
        b.cbranch(ok, hit, again)
        b.position_at_end(again)
        i.add_incoming(b.add(i, self.i64c(1)), again)
        b.branch(head)
        b.position_at_end(hit)
        b.store(i, b.inttoptr(b.add(operation, self.i64c(L.O_ALLOCATION)), PTR))
        b.ret(ir.Constant(I1, 1))
        b.position_at_end(miss)
        b.ret(ir.Constant(I1, 0))
        return fn

    def host_shared(self, offsets: V, mask: V, nbytes: int) -> V:
        """``offsets``: i64 byte offsets in the CTA's shared window."""
        self.check_aligned(offsets, mask, nbytes, 1)
        last = self.splat(self.b.sub(self.header(L.W_SHARED_SIZE), self.i64c(nbytes)), "i64")
        self.fail_where(offsets.gt(last) & mask, L.E_OUT_OF_BOUNDS, offsets, nbytes, 1)
        return offsets + self.splat(self.header(L.W_SHARED), "i64")

    def host_local(self, offsets: V, mask: V, nbytes: int) -> V:
        """``offsets``: i64 byte offsets in each lane's own local memory."""
        self.check_aligned(offsets, mask, nbytes, 3)
        size = self.header(L.W_LOCAL_SIZE)
        last = self.splat(self.b.sub(size, self.i64c(nbytes)), "i64")
        self.fail_where(offsets.gt(last) & mask, L.E_OUT_OF_BOUNDS, offsets, nbytes, 3)
        base = self.splat(self.header(L.W_LOCAL), "i64")
        return offsets + base + self.const(range(N), "i64") * self.splat(size, "i64")

    # --- moving data between rows and host addresses
    def load_words(self, host: V, mask: V, nbytes: int, signed: bool = False) -> list[V]:
        if nbytes < 4:
            return [self.narrow_load(host, mask, 8 * nbytes, signed)]
        return [self.gather32(host + 4 * k, mask) for k in range(nbytes // 4)]

    def store_words(self, host: V, words: list[V], mask: V, nbytes: int) -> None:
        if nbytes < 4:
            self.narrow_store(host, words[0], mask, 8 * nbytes)
        else:
            for k, word in enumerate(words):
                self.scatter32(host + 4 * k, word, mask)

    def read_modify_write(self, host: V, mask: V, kind: str,
                          update: Callable[[ir.Value, ir.Value], ir.Value], operands: list[V]) -> V:
        """Lane by lane, ascending: old = *host; *host = update(old, lane). Returns the old values.

        ``kind`` i32, i64, f32, f64 or i16-pair rows as i32.  ``update`` gets the old scalar and a
        function-free list of the lane's operand scalars.
        """
        t = {"i32": I32, "i64": I64, "f32": F32, "f64": F64}[kind]
        where = self.spill(host)
        slots = [(self.spill(v), {"i32": I32, "i64": I64, "f32": F32, "f64": F64}[v.kind]) for v in operands]
        out = self.spill(self.const(0, kind))

        def body(lane: ir.Value) -> None:
            at = self.ptr(self.lane_of(where, lane, I64))
            old = self.b.load(at, typ=t)
            new = update(old, [self.lane_of(s, lane, k) for s, k in slots])
            self.b.store(new, at)
            self.b.store(old, self.b.gep(out, [lane], source_etype=t))

        self.loop_lanes(self.ballot(mask), body)
        return V(self, self.b.load(out, typ=vec(kind), align=64), kind)

    def exchange_words(self, host: V, mask: V, new: list[V], wanted: list[V] | None) -> list[V]:
        """Lane by lane, ascending: swap the words at ``host`` (if they equal ``wanted``). Returns the old."""
        b = self.b
        where, data = self.spill(host), [self.spill(v) for v in new]
        compared = [self.spill(v) for v in wanted or ()]
        out = [self.spill(self.const(0, "i32")) for _ in new]

        def body(lane: ir.Value) -> None:
            at = self.lane_of(where, lane, I64)
            places = [self.ptr(b.add(at, self.i64c(4 * k))) for k in range(len(new))]
            old = [b.load(p, typ=I32) for p in places]
            swap: ir.Value = ir.Constant(I1, 1)
            for was, slot in zip(old, compared, strict=False):
                swap = b.and_(swap, b.icmp_unsigned("==", was, self.lane_of(slot, lane, I32)))
            for p, was, slot, kept in zip(places, old, data, out, strict=True):
                b.store(b.select(swap, self.lane_of(slot, lane, I32), was), p)
                b.store(was, b.gep(kept, [lane], source_etype=I32))

        self.loop_lanes(self.ballot(mask), body)
        return [V(self, b.load(slot, typ=vec("i32"), align=64), "i32") for slot in out]

    def reduce_integer(self, op: str, host: V, mask: V, value: V) -> None:
        """Integer reductions in global memory: hardware atomics, so CTAs may run at once."""
        t = I64 if value.kind == "i64" else I32
        where, data = self.spill(host), self.spill(value)

        def body(lane: ir.Value) -> None:
            self.b.atomic_rmw(op, self.ptr(self.lane_of(where, lane, I64)), self.lane_of(data, lane, t),
                              "monotonic")

        self.loop_lanes(self.ballot(mask), body)

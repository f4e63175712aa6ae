"""Handlers: one small compiled function for each opcode form.

A handler is ``int32 handler(int64 warp block, int64 operation block)``.  Its key is the row, the modifiers
and how operands are written (negated, which suffix), never register numbers, so a few dozen handlers serve a
kernel.  Compiled objects are cached on disk by key, host processor, LLVM version and the source of the
modules that generate them.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import llvmlite
import llvmlite.binding as llvm
from llvmlite import ir

from gpusim.cubin import cache as disk
from gpusim.errors import UnsupportedError
from gpusim.functional import lanes, layout, memory_lanes, warp_lanes
from gpusim.functional import layout as L
from gpusim.functional.lanes import I32, I64, V
from gpusim.functional.warp_lanes import WarpLanes
from gpusim.isa import mufu_tables, opcodes, table
from gpusim.isa.instruction import Operand
from gpusim.isa.table import WORDS, Address, Bound, Mods, SourceFlags, where

ARITHMETIC = {"i32", "b32", "i64", "f32", "f64"}


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an operand's row offset stands in the operation block, and what goes there."""

    operand: Operand
    token: str
    words: int
    destination: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """How an instruction maps to a handler: its key and the operands the operation block must hold."""

    bound: Bound
    key: str
    slots: tuple[Slot, ...]
    immediate: int  # O_IMM0: byte offset of a memory operand, barrier register ...
    immediate2: int


def _flags(o: Operand) -> SourceFlags:
    return SourceFlags(o.neg, o.abs, o.not_, o.suffixes)


def _uniform(o: Operand) -> bool:
    return o.kind in ("UR", "UP")


def plan(bound: Bound) -> Plan:
    """Lay out operands and form the handler key."""
    row, instruction = bound.row, bound.instruction
    mods = Mods(row.name, instruction.modifiers)
    widths = list(row.widths(mods)) if row.widths else []
    slots: list[Slot] = []
    parts: list[str] = [row.name, ".".join(instruction.modifiers), "g" if instruction.guard else ""]
    immediates: list[int] = []

    def words(token: str) -> int:
        return widths.pop(0) if token == "data" else WORDS.get(token, 1)

    def add(o: Operand, token: str, destination: bool, count: int) -> None:
        slots.append(Slot(o, token, count, destination))

    for token, o in bound.destinations:
        count = words(token)
        if o is None:
            parts.append("-")
            continue
        parts.append(f"d{'u' if _uniform(o) else 'v'}{count}")
        add(o, token, True, count)
    for token, o in bound.sources:
        if token == "any":
            continue
        count = words(token)
        if o is None:
            parts.append("-")
        elif token == "imm":
            parts.append("t" if row.control else f"#{o.value}")
        elif token == "word":
            parts.append("w" if row.control else f"'{o.text}'")
        elif token == "mem":
            parts.append(f"m{int(o.base >= 0)}{int(o.base64)}{int(o.ubase >= 0)}{int(o.ubase64)}{o.scale}"
                         f"{'.'.join(o.suffixes)}{o.kind[0]}")
            immediates.append(o.value)
            if o.kind == "const":
                immediates.append(o.bank)
            if o.base >= 0:
                extended = "E" in mods and "U32" not in o.suffixes
                wide = o.base64 or (row.name in GLOBAL_ROWS and o.kind == "mem" and extended)
                parts[-1] += "w" if wide else ""
                add(Operand("R", o.base), "i64" if wide else "i32", False, 2 if wide else 1)
            if o.ubase >= 0:
                wide = o.ubase64 or "U32" in o.suffixes or (o.base < 0 and row.name in GLOBAL_ROWS)
                parts[-1] += "W" if wide else ""
                add(Operand("UR", o.ubase), "i64" if wide else "i32", False, 2 if wide else 1)
        else:
            f = _flags(o)
            parts.append(f"{token}{count}{int(f.neg)}{int(f.abs)}{int(f.not_)}{'.'.join(f.suffixes)}")
            if token == "B" and row.control:
                immediates.append(o.index)
            add(o, token, False, count)
    if len(slots) > 12:
        raise UnsupportedError("more operands than an operation holds", where=where(instruction))
    immediates += [0, 0]
    return Plan(bound, "|".join(parts), tuple(slots), immediates[0], immediates[1])


#: Rows whose uniform address register, when it stands alone, is a 64-bit pair.
GLOBAL_ROWS = {"LDG", "STG", "LD", "ST", "ATOMG", "ATOM", "RED", "REDG", "LDGSTS", "QSPC"}


class Handler:
    """Builds the LLVM function of one plan."""

    def __init__(self, p: Plan) -> None:
        self.plan = p
        self.module = ir.Module(name="handler")
        self.module.triple = llvm.get_process_triple()
        function = ir.Function(self.module, ir.FunctionType(I32, [I64, I64]), symbol(p.key))
        self.x = WarpLanes(self.module, function)

    def source(self, index: int, slot: Slot) -> V | list[V]:
        """Load an operand and apply the modifiers its token promises to apply."""
        x, token = self.x, slot.token
        address = x.operand_address(index)
        if token == "data":
            return [x.load_row(x.b.add(address, x.i64c(L.ROW * k))) for k in range(slot.words)]
        value = x.load_row(address)
        o = slot.operand
        if token in ("i64", "f64", "raw64"):
            value = x.pack64(value, x.load_row(x.b.add(address, x.i64c(L.ROW))))
            value = value.cast("f64") if token == "f64" else value
        elif token == "f32":
            value = value.cast("f32")
        elif token == "P":
            flag = value.ne(0)
            return ~flag if o.not_ else flag
        if token in ("f32", "f64"):
            value = x.fabs(value) if o.abs else value
            value = -value if o.neg else value
        elif token in ("i32", "b32", "i64"):
            if o.abs:
                value = value.lt(0).where(-value, value)
            value = -value if o.neg else value
            value = ~value if o.not_ else value
        return value

    def build(self) -> str:
        x, p = self.x, self.plan
        row, bound = p.bound.row, p.bound
        active = x.load_row(x.b.add(x.w, x.i64c(L.ACTIVE_ROW))).ne(0)
        if bound.instruction.guard is None:
            holds = x.const(1, "i1")
            x.exec = active
        else:
            guard_offset = x.load_at(x.op, L.O_GUARD, I32)
            guard = x.load_row(x.b.add(x.w, x.b.zext(guard_offset, I64)))
            negate = x.splat(x.load_at(x.op, L.O_GUARD_NEG, I32), "i32")
            holds = (guard ^ negate).ne(0)
            x.exec = holds & active
        arguments: list[object] = []
        flags: list[SourceFlags] = []
        n_destinations = sum(o is not None for _, o in bound.destinations)
        index = n_destinations
        memory = 0
        for token, o in bound.sources:
            if token == "any":
                continue
            flags.append(_flags(o) if o is not None else SourceFlags())
            x.sources.append(index)
            if o is None:
                arguments.append(None)
            elif token == "imm":
                arguments.append(o.value)
            elif token == "word":
                arguments.append(o.text)
            elif token == "mem":
                base = ubase = None
                if o.base >= 0:
                    loaded = self.source(index, p.slots[index])
                    assert isinstance(loaded, V)
                    base = loaded.shl(o.scale.bit_length() - 1) if o.scale > 1 else loaded
                    index += 1
                if o.ubase >= 0:
                    loaded = self.source(index, p.slots[index])
                    assert isinstance(loaded, V)
                    ubase = loaded
                    index += 1
                arguments.append(Address(base, ubase, x.splat(x.imm(memory), "i64"), o.suffixes))
                memory += 1
            else:
                arguments.append(self.source(index, p.slots[index]))
                index += 1
        mods = Mods(row.name, bound.instruction.modifiers, tuple(flags))
        assert row.semantics is not None
        result = row.semantics(x, mods, *arguments)
        if row.control:
            x.b.ret(result)
        else:
            self.store(result, active, holds)
            x.return_(L.OK)
        return str(self.module)

    def store(self, result: object, active: V, guard: V) -> None:
        x, o_guard = self.x, self.plan.bound.instruction.guard
        some = x.i1_splat(x.b.icmp_unsigned("!=", x.ballot(x.exec), x.zero32))
        values = result if isinstance(result, tuple) else (result,)
        index = 0
        for (_, o), value in zip(self.plan.bound.destinations, values, strict=False):
            if o is None:
                continue
            address = x.operand_address(index)
            index += 1
            if value is None:
                continue
            words = value if isinstance(value, list) else [value]
            flat: list[V] = []
            for v in words:
                if v.kind in ("i64", "f64"):
                    flat += [v.lo(), v.hi()]
                elif v.kind == "i1":
                    flat.append(v.sext("i32"))
                else:
                    flat.append(v.bits())
            mask = x.exec
            if _uniform(o):  # one value for the whole warp, whichever lanes are active, if any executes
                mask = guard if o_guard is None or _uniform(o_guard) else some
            elif o.kind == "B":  # likewise
                mask = some
            for k, v in enumerate(flat):
                x.store_row(x.b.add(address, x.i64c(L.ROW * k)), v, mask)


@cache
def _generator_hash() -> str:
    """Changes when any module that shapes handlers changes."""
    modules: list[ModuleType] = [
        lanes, layout, memory_lanes, warp_lanes, table, mufu_tables, *opcodes.FAMILIES.values()
    ]  # fmt: skip
    digest = hashlib.sha256(f"{llvmlite.__version__} {llvm.llvm_version_info}".encode())
    digest.update(llvm.get_host_cpu_name().encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    for module in [*(inspect.getsourcefile(m) for m in modules), __file__]:
        digest.update(Path(str(module)).read_bytes())
    return digest.hexdigest()


class Jit:
    """Compiles handlers, keeps them loaded, and hands out their addresses."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
        features = llvm.get_host_cpu_features().flatten()
        self.machine = target.create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=features, opt=2, reloc="pic", codemodel="jitdefault")
        backing = llvm.parse_assembly("")
        self.engine = llvm.create_mcjit_compiler(backing, self.machine)
        self.addresses: dict[str, int] = {}

    def _optimise(self, assembly: str) -> bytes:
        module = llvm.parse_assembly(assembly)
        builder = llvm.create_pass_builder(self.machine, llvm.create_pipeline_tuning_options(speed_level=2))
        builder.getModulePassManager().run(module, builder)
        return bytes(self.machine.emit_object(module))

    def prepare(self, plans: Sequence[Plan]) -> None:
        """Load the handlers of many plans, compiling on all cores those no cache holds."""
        wanted = {p.key: p for p in plans if p.key not in self.addresses}
        missing: list[tuple[Plan, str, str]] = []
        for p in wanted.values():
            name = hashlib.sha256(f"{_generator_hash()}|{p.key}".encode()).hexdigest()
            code = disk.get("handlers", name)
            if code is not None:
                self._load(code)
            else:
                missing.append((p, name, self._assembly(p)))
        if missing:
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # LLVM releases the GIL
                codes = pool.map(self._optimise, (assembly for _, _, assembly in missing))
                for (_, name, _), code in zip(missing, codes, strict=True):
                    disk.put("handlers", name, code)
                    self._load(code)
        self.engine.finalize_object()
        for key in wanted:
            self.addresses[key] = int(self.engine.get_function_address(symbol(key)))

    def _assembly(self, p: Plan) -> str:
        try:
            return Handler(p).build()
        except UnsupportedError as error:
            raise UnsupportedError(error.what, where=where(p.bound.instruction), hint=error.hint) from None

    def _load(self, code: bytes) -> None:
        self.engine.add_object_file(llvm.ObjectFileRef.from_data(code))

    def address(self, p: Plan) -> int:
        """Address of the handler for a plan, compiled if it is new."""
        if p.key not in self.addresses:
            self.prepare([p])
        return self.addresses[p.key]


def symbol(key: str) -> str:
    """The handler's name in object code."""
    return "h" + hashlib.sha256(key.encode()).hexdigest()[:24]


@cache
def jit() -> Jit:
    """The process's compiler."""
    return Jit()



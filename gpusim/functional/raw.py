"""Raw memory for numba code: loads and stores at addresses, calls through addresses."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _load(bits: int, result: Any) -> Any:
    @intrinsic
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            t = ir.IntType(bits)
            value = builder.load(builder.inttoptr(args[0], t.as_pointer()), align=bits // 8)
            return value if bits == 64 else builder.sext(value, ir.IntType(64))

        return result(types.int64), codegen

    return load


def _store(bits: int) -> Any:
    @intrinsic
    def store(typingctx: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            t = ir.IntType(bits)
            value = args[1] if bits == 64 else builder.trunc(args[1], t)
            builder.store(value, builder.inttoptr(args[0], t.as_pointer()), align=bits // 8)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), codegen

    return store


load64 = _load(64, types.int64)
load32 = _load(32, types.int64)  # sign-extended
store64 = _store(64)
store32 = _store(32)


@intrinsic
def call_handler(typingctx: Any, function: Any, warp: Any, operation: Any) -> Any:
    """``int32 handler(int64 warp, int64 operation)`` at an address, as a sign-extended int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i64, i32 = ir.IntType(64), ir.IntType(32)
        ft = ir.FunctionType(i32, [i64, i64])
        value = builder.call(builder.inttoptr(args[0], ft.as_pointer()), [args[1], args[2]])
        return builder.sext(value, i64)

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def popcount32(typingctx: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        f = cgutils.get_or_insert_function(builder.module, ir.FunctionType(i64, [i64]), "llvm.ctpop.i64")
        return builder.call(f, [builder.and_(args[0], ir.Constant(ir.IntType(64), 0xFFFFFFFF))])

    return types.int64(types.int64), codegen


@intrinsic
def lowest_bit(typingctx: Any, value: Any) -> Any:
    """Index of the lowest set bit; the value must not be 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        f = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(i64, [i64, ir.IntType(1)]), "llvm.cttz.i64"
        )
        return builder.call(f, [args[0], ir.Constant(ir.IntType(1), 1)])

    return types.int64(types.int64), codegen

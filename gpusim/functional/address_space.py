"""Global memory and constant banks of one launch.

Every array argument and ``__device__`` variable gets a virtual address range, 512-byte aligned as
cudaMalloc aligns it, in one host arena.  Ranges lie 32 MiB apart (memory never touched), so that an index
past the end of one array does not fall into the next.  Virtual addresses are the same in every run;
``host = virtual + delta``.

The constant bank 0 of sm_70 and later starts with the launch environment: blockDim at 0x0, gridDim at 0xc,
the local window at 0x20, the stack pointer at 0x28 (hardware.md 11); parameters start where the binary says.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.errors import CubinError, InputError, LaunchError
from gpusim.launch import Launch
from gpusim.program import Kernel

VIRTUAL_BASE = 0x7F00_0000_0000
SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
SHARED_WINDOW_SIZE = 1 << 24
LOCAL_WINDOW_SIZE = 1 << 24
ALIGN, GAP = 512, 32 << 20

ENV_BLOCK, ENV_GRID, ENV_SHARED_WINDOW, ENV_LOCAL_WINDOW, ENV_STACK = 0x0, 0xC, 0x18, 0x20, 0x28


@dataclass(frozen=True, slots=True)
class Allocation:
    """[low, high) in virtual addresses."""

    name: str
    low: int
    high: int


class AddressSpace:
    """Arrays and variables of one launch in one arena."""

    def __init__(
        self, kernel: Kernel, args: Sequence[Any], symbols: Mapping[str, np.ndarray] | None = None
    ) -> None:
        self.kernel = kernel
        self.args = args
        items: list[tuple[str, int]] = [
            (f"argument {i}", a.nbytes) for i, a in enumerate(args) if isinstance(a, np.ndarray)]
        items += [(f"__device__ variable {g.name}", g.size) for g in kernel.module.globals]
        self.allocations: list[Allocation] = []
        at = VIRTUAL_BASE
        for name, size in items:
            self.allocations.append(Allocation(name, at, at + size))
            at += -(-(size + GAP) // ALIGN) * ALIGN
        raw = np.empty(at - VIRTUAL_BASE + 4096, np.uint8)
        skip = -raw.ctypes.data % 4096
        self._raw, self.arena = raw, raw[skip:]
        self.delta = self.arena.ctypes.data - VIRTUAL_BASE
        self.table = np.array([(a.low, a.high) for a in self.allocations] or [((1 << 64) - 1, 0)], np.uint64)
        self._by_name = {a.name: a for a in self.allocations}
        for i, a in enumerate(args):
            if isinstance(a, np.ndarray):
                self._bytes(f"argument {i}")[:] = a.reshape(-1).view(np.uint8)
        for g in kernel.module.globals:
            place = self._bytes(f"__device__ variable {g.name}")
            place[:] = 0
            if g.init:
                place[: len(g.init)] = np.frombuffer(g.init, np.uint8)
        self._pointers()
        self._symbols(symbols or {})

    def _bytes(self, name: str) -> np.ndarray:
        a = self._by_name[name]
        return self.arena[a.low - VIRTUAL_BASE : a.high - VIRTUAL_BASE]

    def _pointers(self) -> None:
        """Variables that start as the address of another (``__device__ int* p = table``)."""
        for relocation in self.kernel.module.relocations:
            section = relocation.section.removeprefix(".rela").removeprefix(".rel")
            target = self.address_of(f"__device__ variable {relocation.symbol}")
            for g in self.kernel.module.globals:
                offset = relocation.offset - g.offset
                if g.section != section or not 0 <= offset < g.size:
                    continue
                known = relocation.type in ("R_CUDA_64", "R_CUDA_G64") and offset <= g.size - 8
                if target is None or not known:
                    raise CubinError(
                        f"variable {g.name} starts as the address of {relocation.symbol} ({relocation.type})",
                        hint="addresses of functions in variables are not supported",
                    )
                value = struct.pack("<Q", target + relocation.addend)
                place = self._bytes(f"__device__ variable {g.name}")
                place[offset : offset + 8] = np.frombuffer(value, np.uint8)

    def _symbols(self, symbols: Mapping[str, np.ndarray]) -> None:
        """User values of ``__device__`` and ``__constant__`` variables."""
        module = self.kernel.module
        self.constant_values: dict[tuple[int, int], bytes] = {}
        for name, value in symbols.items():
            data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            place = self._by_name.get(f"__device__ variable {name}")
            if place is not None:
                size = place.high - place.low
            elif name in module.constant_symbols:
                bank, offset, size = module.constant_symbols[name]
            else:
                known = ", ".join([*(g.name for g in module.globals), *module.constant_symbols]) or "none"
                raise InputError(f"no variable {name!r} in the module", hint=f"its variables: {known}")
            if data.size > size:
                raise InputError(f"variable {name} has {size} bytes, the value {data.size}")
            if place is not None:
                self._bytes(place.name)[: data.size] = data
            else:
                self.constant_values[bank, offset] = data.tobytes()

    def output(self, index: int) -> np.ndarray:
        """Argument ``index`` as the kernel left it, shape and type of what was passed."""
        a = self.args[index]
        data: np.ndarray = self._bytes(f"argument {index}").copy().view(a.dtype).reshape(a.shape)
        return data

    def variable(self, name: str) -> np.ndarray:
        """Bytes of a ``__device__`` variable now."""
        return self._bytes(f"__device__ variable {name}").copy()

    def address_of(self, name: str) -> int | None:
        found = self._by_name.get(name)
        return found.low if found else None

    def describe(self, address: int) -> str:
        """The nearest allocation, in words."""
        if not self.allocations:
            return "the launch has no global memory"
        best = min(self.allocations, key=lambda a: max(a.low - address, address - a.high + 1, 0))
        size = best.high - best.low
        if address < best.low:
            place = f"{best.low - address} bytes before"
        elif address >= best.high:
            place = f"{address - best.high} bytes after the end of"
        else:
            place = f"byte {address - best.low} of"
        return f"{place} {best.name} ({size:,} bytes at 0x{best.low:x})"

    # --- constant banks

    def _parameters(self, bank: bytearray) -> None:
        kernel = self.kernel
        params = sorted(kernel.params, key=lambda p: p.ordinal)
        if len(params) != len(self.args):
            raise InputError(
                f"{kernel.display_name} takes {len(params)} arguments, {len(self.args)} were given"
            )
        for i, (param, arg) in enumerate(zip(params, self.args, strict=True)):
            if isinstance(arg, np.ndarray):
                data = struct.pack("<Q", self.address_of(f"argument {i}") or 0)
                what = "an array (a pointer of 8 bytes)"
            else:
                data = np.asarray(arg).tobytes()
                what = f"a scalar {np.asarray(arg).dtype} of {len(data)} bytes"
            if len(data) != param.size:
                raise InputError(
                    f"argument {i} of {kernel.display_name} has {param.size} bytes, {what} was given",
                    hint="check the order and types of the arguments",
                )
            start = kernel.param_base + param.offset
            bank[start : start + len(data)] = data

    def constant_banks(self, launch: Launch, local_bytes: int) -> dict[int, np.ndarray]:
        """Bytes of every constant bank the launch sees."""
        kernel = self.kernel
        size = max(kernel.constant0_bytes, kernel.param_base + kernel.param_bytes, 0x300)
        zero = bytearray(-(-size // 16) * 16)
        struct.pack_into("<3I", zero, ENV_BLOCK, *launch.block)
        struct.pack_into("<3I", zero, ENV_GRID, *launch.grid)
        struct.pack_into("<Q", zero, ENV_SHARED_WINDOW, SHARED_WINDOW)
        struct.pack_into("<Q", zero, ENV_LOCAL_WINDOW, LOCAL_WINDOW)
        struct.pack_into("<I", zero, ENV_STACK, local_bytes)
        self._parameters(zero)
        banks = {0: zero}
        for number, data in kernel.constant_banks.items():
            banks[number] = bytearray(data)
        for (number, offset), value in self.constant_values.items():
            banks[number][offset : offset + len(value)] = value
        for relocation in kernel.module.relocations:
            self._relocate(relocation, banks)
        return {number: np.frombuffer(bytes(data) + bytes(16), np.uint8) for number, data in banks.items()}

    def _relocate(self, relocation: Any, banks: dict[int, bytearray]) -> None:
        prefix = ".nv.constant"
        section = relocation.section.removeprefix(".rela").removeprefix(".rel")
        if not section.startswith(prefix):
            return
        number = int(section[len(prefix) :].split(".")[0])
        if number not in banks or (
            "." in section[len(prefix) :] and not section.endswith(f".{self.kernel.name}")
        ):
            return
        address = self.address_of(f"__device__ variable {relocation.symbol}")
        if address is None:
            return  # a symbol this kernel cannot reach (another kernel's function)
        if relocation.type != "R_CUDA_64":
            raise CubinError(f"relocation {relocation.type} of {relocation.symbol} is not supported")
        struct.pack_into("<Q", banks[number], relocation.offset, address + relocation.addend)


def check_shape(kernel: Kernel, launch: Launch) -> None:
    """What the binary itself demands of the block."""
    if kernel.max_threads is not None and launch.threads > kernel.max_threads:
        raise LaunchError(
            f"{kernel.display_name} was compiled for at most {kernel.max_threads} threads a block "
            f"(__launch_bounds__), {launch.threads} were asked for"
        )
    if kernel.required_block is not None and launch.block != kernel.required_block:
        raise LaunchError(
            f"{kernel.display_name} demands a block of {kernel.required_block}, not {launch.block}"
        )

"""Running a launch: CTAs on all cores, events in chunks to a consumer, faults as sentences.

``Execution`` holds the memory of one launch and runs lists of CTAs.  Without order-dependent instructions the
CTAs of a list are dealt to as many threads as there are cores (compiled code releases the GIL); with them one
thread runs all CTAs in a fixed order, those resident together interleaved.  Either way the same CTAs give the
same counters, and the same memory, whatever the number of cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.errors import BudgetExceeded, Deadlock, ExecutionError, MemoryFault
from gpusim.events import EVENT
from gpusim.functional import cta as C
from gpusim.functional import layout as L
from gpusim.functional.address_space import (
    LOCAL_WINDOW,
    LOCAL_WINDOW_SIZE,
    SHARED_WINDOW,
    SHARED_WINDOW_SIZE,
    AddressSpace,
    check_shape,
)
from gpusim.functional.image import OPERATION, Image
from gpusim.launch import Launch
from gpusim.program import Kernel

EVENT_CHUNK = 4096
QUANTUM = 20_000
DEFAULT_BUDGET = 1 << 28
SLOT_MEMORY = 700 << 20  # bytes of warp state when CTAs are interleaved

Sink = Callable[[np.ndarray], None]
Progress = Callable[[int, int, str], None]


def _aligned(count: int, align: int = 128) -> np.ndarray:
    raw = np.zeros(count + align, np.uint8)
    skip = -raw.ctypes.data % align
    return raw[skip : skip + count]


@dataclass(slots=True)
class Worker:
    """One thread's memory: context, slots of CTAs, counters, events."""

    context: np.ndarray
    slots: np.ndarray
    counts: np.ndarray
    progress: np.ndarray
    events: np.ndarray
    keep: list[np.ndarray]


class Execution:
    """The state of one launch; ``run`` executes CTAs and adds to ``counts``.

    counts: int64[operations][4], executions, active lanes, replays and their lanes by instruction; queued:
    lanes of some warp went so many ways that the profiler's patched code may take them another way; yielded:
    lanes gave way to others of their warp.
    """

    def __init__(self, image: Image, launch: Launch, space: AddressSpace, *, shared_bytes: int, resident: int,
                 sms: int, jobs: int | None = None, budget: int | None = None,
                 patched: np.ndarray | None = None) -> None:
        """shared_bytes: static + dynamic + reserved; resident: CTAs the whole GPU holds at once; patched:
        bool[operations], execute as the code that the profiler patches there to count addresses
        (functional.warp)."""
        kernel = image.kernel
        check_shape(kernel, launch)
        self.image, self.launch, self.space = image, launch, space
        self.warps = -(-launch.threads // 32)
        self.local_bytes = -(-kernel.stack_bytes // 16) * 16
        self.banks = space.constant_banks(launch, self.local_bytes)
        self.pool = _aligned(L.ROW * max(1, len(image.pool_keys)))
        self.pool[:] = image.pool(self.banks).reshape(-1).view(np.uint8)
        self.operations = _aligned(image.operations.nbytes)
        self.operations[:] = image.operations.view(np.uint8).reshape(-1)
        if patched is not None:
            self.operations.view(OPERATION)["kind"][patched] = L.K_MEMORY
        self.queued = self.yielded = False
        self.table = np.zeros((32, 2), np.int64)
        for number, data in self.banks.items():
            self.table[number] = data.ctypes.data, data.size - 16
        self.shared_bytes = -(-shared_bytes // 16) * 16
        self.shared_limit = shared_bytes
        self.warp_bytes = -(-L.warp_bytes(image.registers) // 128) * 128
        jobs = jobs or os.cpu_count() or 1
        self.workers = 1 if image.traits.ordered else jobs
        self.resident = max(1, resident) if image.traits.communicates else 1
        self.sms = sms
        self.counts = np.zeros((len(image.operations), 4), np.int64)
        self.q = np.zeros(C.Q_WORDS, np.int64)
        last = launch.threads - 32 * (self.warps - 1)
        for place, value in (
            (C.Q_WARPS, self.warps),
            (C.Q_WARP_BYTES, self.warp_bytes),
            (C.Q_SHARED_BYTES, self.shared_bytes),
            (C.Q_REGISTERS, image.registers),
            (C.Q_OPS, self.operations.ctypes.data),
            (C.Q_N_OPS, len(image.operations)),
            (C.Q_LAST_LANES, (1 << last) - 1),
            (C.Q_GRID_X, launch.grid[0]),
            (C.Q_GRID_Y, launch.grid[1]),
            (C.Q_LOCAL_BYTES, self.local_bytes),
            (C.Q_QUANTUM, QUANTUM),
            (C.Q_BUDGET, budget or DEFAULT_BUDGET),
            (C.Q_POOL, self.pool.ctypes.data),
            (C.Q_FAIR, int(image.traits.communicates)),
            (C.Q_PATCHED, int(patched is not None)),
        ):
            self.q[place] = value

    # --- set-up

    def _template(self) -> np.ndarray:
        """The rows of each warp that no CTA changes: true, lane, thread indexes, warp."""
        x, y, _ = self.launch.block
        thread = np.arange(32 * self.warps, dtype=np.uint32)
        rows = {L.ROW_LANE: thread % 32, L.ROW_TID_X: thread % x, L.ROW_TID_Y: thread // x % y,
                L.ROW_TID_Z: thread // (x * y), L.ROW_WARP: thread // 32,
                L.ROW_TRUE: np.full(thread.size, 0xFFFFFFFF, np.uint32)}
        out = np.zeros((self.warps, self.warp_bytes), np.uint8)
        for index, values in rows.items():
            at = L.row(index)
            out[:, at : at + L.ROW] = values.astype("<u4").view(np.uint8).reshape(self.warps, L.ROW)
        return out

    def _worker(self, n_slots: int, traced: bool) -> Worker:
        context = np.zeros(L.C_WORDS, np.int64)
        events = np.zeros(EVENT_CHUNK if traced else 1, EVENT)
        raw = _aligned(events.nbytes, 64)
        events = raw.view(EVENT)
        keep = [raw, self.space.table]
        values = {
            L.C_DELTA: self.space.delta, L.C_ALLOCS: self.space.table.ctypes.data,
            L.C_N_ALLOCS: len(self.space.allocations),
            L.C_EVENTS: raw.ctypes.data, L.C_EVENT_CAP: EVENT_CHUNK, L.C_TRACE: int(traced),
            L.C_CONST_TABLE: self.table.ctypes.data, L.C_SHARED_WINDOW: SHARED_WINDOW,
            L.C_LOCAL_WINDOW: LOCAL_WINDOW, L.C_SHARED_WINDOW_SIZE: SHARED_WINDOW_SIZE,
            L.C_LOCAL_WINDOW_SIZE: LOCAL_WINDOW_SIZE, L.C_SM_COUNT: self.sms,
        }
        for place, value in values.items():
            context[place] = value
        template = self._template()
        warps = _aligned(n_slots * template.nbytes)
        warps.reshape(n_slots, -1)[:] = template.reshape(-1)
        shared = _aligned(max(16, n_slots * self.shared_bytes))
        local = _aligned(max(16, n_slots * self.warps * 32 * self.local_bytes))
        state = np.zeros((n_slots, 16), np.int64)
        keep += [warps, shared, local, state]
        slots = np.zeros((n_slots, C.SLOT_COLUMNS), np.int64)
        for s in range(n_slots):
            slots[s, C.SLOT_CTA] = -1
            slots[s, C.SLOT_SHARED] = shared.ctypes.data + s * self.shared_bytes
            slots[s, C.SLOT_WARPS] = warps.ctypes.data + s * template.nbytes
            slots[s, C.SLOT_LOCAL] = local.ctypes.data + s * self.warps * 32 * self.local_bytes
            slots[s, C.SLOT_STATE] = state.ctypes.data + s * 128
        return Worker(context, slots, np.zeros_like(self.counts), np.zeros(C.M_WORDS, np.int64), events, keep)

    # --- running

    def run(self, ctas: Sequence[int], sinks: Callable[[], Sink] | None = None,
            progress: Callable[[int], None] | None = None) -> None:
        """Run CTAs (linear indexes, x fastest) to their end.

        ``sinks()`` makes an event consumer for each worker, called there with chunks of events; None runs
        without events. ``progress`` is called with the number of CTAs that finished since the last call.
        """
        if not len(ctas):
            return
        workers = max(1, min(self.workers, len(ctas)))
        each = self.warps * (self.warp_bytes + 32 * self.local_bytes) + self.shared_bytes
        n_slots = max(1, min(self.resident, len(ctas), SLOT_MEMORY // each))
        lists = [np.asarray(ctas[i::workers], np.int64) for i in range(workers)]
        crew = [self._worker(n_slots, sinks is not None) for _ in lists]
        taps = [sinks() if sinks else None for _ in lists]
        if workers == 1:
            self._drive(crew[0], lists[0], taps[0], progress)
        else:
            with ThreadPoolExecutor(workers) as pool:
                futures = [
                    pool.submit(self._drive, w, c, t, progress)
                    for w, c, t in zip(crew, lists, taps, strict=True)
                ]
                errors = [f.exception() for f in futures]
            for error in errors:
                if error is not None:
                    raise error
        for worker in crew:
            self.counts += worker.counts
            self.queued |= bool(worker.context[L.C_QUEUED])
            self.yielded |= bool(worker.context[L.C_YIELDED])

    def _drive(
        self, worker: Worker, ctas: np.ndarray, sink: Sink | None, progress: Callable[[int], None] | None
    ) -> None:
        context, reported = worker.context, 0
        while True:
            status = C.run_ctas(worker.slots, ctas, self.q, worker.counts.ctypes.data, context.ctypes.data,
                                worker.progress)
            if sink is not None:
                sink(worker.events[: context[L.C_EVENT_COUNT]])
            context[L.C_EVENT_COUNT] = 0
            if progress is not None and worker.progress[C.M_FINISHED] > reported:
                progress(int(worker.progress[C.M_FINISHED]) - reported)
                reported = int(worker.progress[C.M_FINISHED])
            if status == L.R_DONE:
                return
            if status != L.R_EVENTS_FULL:
                raise self._error(worker, status)

    # --- faults

    def _error(self, worker: Worker, status: int) -> ExecutionError:
        context = worker.context
        slot = worker.slots[worker.progress[C.M_SLOT]]
        cta = int(slot[C.SLOT_CTA])
        x, y, _ = self.launch.grid
        place = f"CTA ({cta % x},{cta // x % y},{cta // (x * y)})"
        kernel = self.image.kernel
        if status == L.R_DEADLOCK:
            return Deadlock(
                f"the warps of {place} wait for one another for ever: {self._waiting(worker, slot)}",
                where=kernel.display_name,
                hint="every thread that has not returned must reach the same barrier",
            )
        warp_base = int(context[L.C_ERROR_WARP])
        first = int(slot[C.SLOT_WARPS])
        warp = (warp_base - first) // self.warp_bytes
        pc = self._header(worker, warp_base, L.W_PC)
        instruction = kernel.instructions[min(pc, len(kernel.instructions) - 1)]  # R_END: the last one
        line = f"{instruction.file}:{instruction.line}, " if instruction.line else ""
        sass = f"pc 0x{instruction.pc:04x} '{instruction.text}'"
        where = f"{kernel.display_name}, {line}{sass}, {place}, warp {warp}"
        if status == L.R_BUDGET:
            return BudgetExceeded(
                f"no CTA ended within {int(self.q[C.Q_BUDGET]):,} warp instructions: "
                "an endless loop, most likely",
                where=where,
                hint="if the kernel is right, raise the limit with --budget N (budget=N)",
            )
        if status == L.R_BAD_TARGET:
            return ExecutionError("an indirect branch or call leaves the code", where=where)
        if status == L.R_END:
            return ExecutionError("execution runs past the last instruction of the kernel", where=where,
                                  hint="the code must end with EXIT or a branch")
        if status == L.R_TRAP:
            return ExecutionError("the kernel stopped itself (trap or failed assert)", where=where)
        return self._fault(context, where)

    def _fault(self, context: np.ndarray, where: str) -> MemoryFault:
        lane, address, nbytes = (
            int(context[i]) for i in (L.C_ERROR_LANE, L.C_ERROR_ADDRESS, L.C_ERROR_BYTES)
        )
        space, code = int(context[L.C_ERROR_SPACE]), int(context[L.C_ERROR])
        where = f"{where}, lane {lane}"
        name = {1: "shared", 2: "global", 3: "local", 4: "constant"}[space]
        at = f"0x{address & 0xFFFFFFFFFFFFFFFF:x}"
        if code == L.E_MISALIGNED:
            return MemoryFault(f"misaligned {name} access of {nbytes} bytes at {at}", where=where,
                               hint=f"the address must be a multiple of {nbytes}")
        if space == 2:
            return MemoryFault(f"{name} access of {nbytes} bytes at {at} is out of bounds: "
                               f"{self.space.describe(address)}", where=where)
        size = {1: self.shared_limit, 3: self.local_bytes}.get(space)
        limit = f" of {size:,} bytes" if size is not None else ""
        return MemoryFault(
            f"{name} access of {nbytes} bytes at offset {at} is outside the window{limit}",
            where=where,
            hint="was the dynamic shared memory given (--dynamic-shared)?" if space == 1 else None,
        )

    def _header(self, worker: Worker, warp_base: int, word: int) -> int:
        warps = worker.keep[2]
        offset = warp_base - warps.ctypes.data + 8 * word
        return int(warps[offset : offset + 8].view("<i8")[0])

    def _waiting(self, worker: Worker, slot: np.ndarray) -> str:
        """Which warps wait where, e.g. ``warps 0-3 at barrier 0 (pc 0x0120)``."""
        groups: dict[str, list[int]] = {}
        for warp in range(self.warps):
            base = int(slot[C.SLOT_WARPS]) + warp * self.warp_bytes
            for i in range(self._header(worker, base, L.W_GROUPS)):
                at = L.W_PARKED + i * L.PARKED_WORDS
                pc, why, request = (self._header(worker, base, at + k) for k in (0, 2, 3))
                what = {L.P_BAR: f"barrier {request & 15}", L.P_WARPSYNC: "a warp synchronisation"}.get(
                    why, "reconvergence")
                instruction = self.image.kernel.instructions[max(0, pc - (why == L.P_BAR))]
                line = f", line {instruction.line}" if instruction.line else ""
                groups.setdefault(f"at {what} (pc 0x{instruction.pc:04x}{line})", []).append(warp)
        return "; ".join(
            f"warp{'s' if len(w) > 1 else ''} {_ranges(sorted(set(w)))} {k}" for k, w in groups.items()
        )


def _ranges(numbers: list[int]) -> str:
    out: list[str] = []
    start = previous = numbers[0]
    for n in [*numbers[1:], -1]:
        if n == previous + 1:
            previous = n
            continue
        out.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = n
    return ", ".join(out)


def outputs(execution: Execution, args: Sequence[Any]) -> list[Any]:
    """Every argument after the launch: arrays as the kernel left them, scalars unchanged."""
    return [execution.space.output(i) if isinstance(a, np.ndarray) else a for i, a in enumerate(args)]


def make(image: Image, launch: Launch, args: Sequence[Any], symbols: Mapping[str, np.ndarray] | None = None,
         **options: Any) -> Execution:
    """Memory and execution of a launch whose arguments are materialised."""
    return Execution(image, launch, AddressSpace(image.kernel, args, symbols), **options)


__all__ = ["DEFAULT_BUDGET", "Execution", "Kernel", "Progress", "make", "outputs"]

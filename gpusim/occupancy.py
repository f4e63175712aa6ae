"""Occupancy: how many blocks of a launch an SM holds at once, what limits them, and what would raise it.

Resources of an SM, each giving a limit in blocks (all sizes from the device file, none from code):

- *warps*: warp slots divided by the warps of a block;
- *blocks*: block slots;
- *registers*: a warp's registers are rounded up to the register unit; each sub-partition holds whole
  warps only; a block whose registers (its warps rounded up to fill the sub-partitions evenly) exceed what
  one block may have cannot be launched at all;
- *shared memory*: bytes of a block, static + dynamic + what the driver reserves, rounded up to the granule;
- *barriers*: from compute capability 9.0 on, hardware barriers divided by those the kernel names.

Source: ``cuda_occupancy.h`` of CUDA 13, which ``tests/test_occupancy.py`` compiles and compares with on
thousands of launches of every compute capability.

Two numbers go by the name of a shared-memory limit.  What the *SM can hold* (largest carve-out divided
by the block's allocation) decides the occupancy and the limiter: :attr:`Occupancy.capacity`.  What the
*profiler prints* divides the carve-out that the driver chose for this launch, which need only be large
enough: :attr:`Occupancy.limits`.  The driver's choice is undocumented; ``_fitted_carveout`` reproduces
every H200 launch measured so far, and device files mark it ``assumed`` for other architectures.

Units: bytes, registers, threads, blocks an SM, per cent.  Left out: thread block clusters, a carve-out
preference set by the program, and the program's duty to opt in above 48 KiB (taken as done).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from gpusim.device import DeviceSpec
from gpusim.errors import InputError, LaunchError

#: Resources in the order in which they are reported.
RESOURCES = ("registers", "shared_mem", "warps", "blocks", "barriers")

#: Fewest registers a thread is launched with (measured: max(16, EIATTR_REGCOUNT)); no advice goes below.
MIN_LAUNCH_REGISTERS = 16

#: Barriers a block can name in the instruction set (BAR.SYNC takes 0 to 15).
MAX_BLOCK_BARRIERS = 16


@dataclass(frozen=True, slots=True)
class Limits:
    """Blocks an SM could hold if this resource were the only one."""

    registers: int
    shared_mem: int
    warps: int
    blocks: int
    barriers: int

    @property
    def least(self) -> int:
        return min(getattr(self, name) for name in RESOURCES)

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in RESOURCES}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Residency of one launch on one SM.

    ``limits`` are the profiler's (``launch__occupancy_limit_*``), ``capacity`` what the SM could hold at its
    largest carve-out; ``limiters`` are the resources whose capacity equals ``active_blocks``.
    """

    device: str
    registers_per_thread: int
    static_shared: int
    dynamic_shared: int
    block_threads: int
    barriers: int
    warps_per_block: int
    registers_per_thread_allocated: int  # rounded up to the register unit of a warp
    shared_mem_per_block_bytes: int  # allocated: with the driver's part, rounded up to the granule
    shared_mem_reserved_bytes: int
    shared_mem_config_bytes: int  # carve-out the driver chooses
    shared_mem_config_kind: str  # "measured" or "assumed": how far that choice can be trusted
    l1_bytes: int  # what the carve-out leaves of the unified L1
    limits: Limits
    capacity: Limits
    limiters: tuple[str, ...]
    limiter: str  # the same in words: "registers and warps"
    active_blocks: int
    active_warps: int
    max_warps: int
    theoretical_occupancy_pct: float

    @property
    def user_shared(self) -> int:
        """Bytes of shared memory the kernel itself asks for."""
        return self.static_shared + self.dynamic_shared

    def waves(self, grid_blocks: int, sm_count: int) -> float:
        """Times the device must be filled to run the grid (``launch__waves_per_multiprocessor``)."""
        return grid_blocks / (sm_count * self.active_blocks)

    @property
    def _allocated_per_thread(self) -> float:
        """Registers of the warps over the threads, 2 decimals: more where the last warp is partial."""
        threads = 32 * self.warps_per_block
        return round(self.registers_per_thread_allocated * threads / self.block_threads, 2)

    def metrics(self) -> dict[str, float]:
        """Values under the profiler's names."""
        named: dict[str, float] = {
            "launch__block_size": self.block_threads,
            "launch__registers_per_thread": self.registers_per_thread,
            "launch__registers_per_thread_allocated": self._allocated_per_thread,
            "launch__shared_mem_per_block": self.shared_mem_reserved_bytes + self.user_shared,
            "launch__shared_mem_per_block_static": self.static_shared,
            "launch__shared_mem_per_block_dynamic": self.dynamic_shared,
            "launch__shared_mem_per_block_driver": self.shared_mem_reserved_bytes,
            "launch__shared_mem_per_block_allocated": self.shared_mem_per_block_bytes,
            "launch__shared_mem_config_size": self.shared_mem_config_bytes,
        }
        for name, limit in self.limits.as_dict().items():
            named[f"launch__occupancy_limit_{name}"] = limit
        named["sm__maximum_warps_per_active_cycle_pct"] = self.theoretical_occupancy_pct
        return named


# --- The SM's resources ------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class _Sm:
    """The numbers of a device file that decide residency, read once."""

    warp_threads: int
    sub_partitions: int
    warps: int
    blocks: int
    threads_per_block: int
    registers: int
    registers_per_block: int
    registers_per_thread: int
    register_unit: int
    shared_per_sm: int
    shared_per_block: int
    shared_static: int
    shared_reserved: int
    shared_granule: int
    carveouts: tuple[int, ...]  # bytes, ascending
    carveout_comfort: int  # bytes
    carveout_blocks: int
    barriers: int | None  # None: the architecture does not count them

    def warps_of(self, threads: int) -> int:
        return -(-threads // self.warp_threads)

    def registers_of_warp(self, registers_per_thread: int) -> int:
        return _round_up(registers_per_thread * self.warp_threads, self.register_unit)

    def shared_of_block(self, user_bytes: int) -> int:
        return _round_up(user_bytes + self.shared_reserved, self.shared_granule)

    def carveout_for(self, size: int) -> int:
        """Smallest carve-out that holds ``size`` bytes (the largest when none does)."""
        return next((c for c in self.carveouts if c >= size), self.carveouts[-1])

    def register_limit(self, registers_per_thread: int, warps: int) -> int:
        """Blocks by registers; 0 when not even one block may be launched."""
        per_warp = self.registers_of_warp(registers_per_thread)
        # The launch check takes the block as spread evenly over the sub-partitions.
        if per_warp * _round_up(warps, self.sub_partitions) > self.registers_per_block:
            return 0
        per_partition = self.registers // self.sub_partitions // per_warp
        return per_partition * self.sub_partitions // warps

    def shared_limit(self, user_bytes: int) -> int:
        """Blocks by shared memory at the largest carve-out; block slots where a block takes none."""
        if user_bytes > self.shared_per_block:
            return 0
        allocated = self.shared_of_block(user_bytes)
        return self.shared_per_sm // allocated if allocated else self.blocks

    def barrier_limit(self, barriers: int) -> int:
        if self.barriers is None or barriers == 0:
            return self.blocks
        return min(self.blocks, self.barriers // barriers)

    def capacity(self, registers: int, user_shared: int, threads: int, barriers: int) -> Limits:
        warps = self.warps_of(threads)
        return Limits(
            registers=self.register_limit(registers, warps),
            shared_mem=self.shared_limit(user_shared),
            warps=self.warps // warps if threads <= self.threads_per_block else 0,
            blocks=self.blocks,
            barriers=self.barrier_limit(barriers),
        )

    def registers_for(self, blocks: int, warps: int) -> int:
        """Most registers a thread may use for ``blocks`` resident blocks."""
        warps_per_partition = -(-blocks * warps // self.sub_partitions)
        room = min(
            self.registers // self.sub_partitions // warps_per_partition,
            self.registers_per_block // _round_up(warps, self.sub_partitions),
        )
        per_warp = room // self.register_unit * self.register_unit
        return min(per_warp // self.warp_threads, self.registers_per_thread)

    def shared_for(self, blocks: int) -> int:
        """Most bytes (static + dynamic) a block may use for ``blocks`` resident blocks; negative: none."""
        room = self.shared_per_sm // blocks // self.shared_granule * self.shared_granule
        return min(room - self.shared_reserved, self.shared_per_block)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@lru_cache(maxsize=64)
def _sm(spec: DeviceSpec) -> _Sm:
    n = spec.integer
    return _Sm(
        warp_threads=n("sm.warp_threads"),
        sub_partitions=n("sm.sub_partitions"),
        warps=n("sm.warps"),
        blocks=n("sm.blocks"),
        threads_per_block=n("sm.threads_per_block"),
        registers=n("sm.registers"),
        registers_per_block=n("sm.registers_per_block"),
        registers_per_thread=n("sm.registers_per_thread"),
        register_unit=n("sm.register_unit"),
        shared_per_sm=n("shared.per_sm"),
        shared_per_block=n("shared.per_block_optin"),
        shared_static=n("shared.static_per_block"),
        shared_reserved=n("shared.reserved_per_block"),
        shared_granule=n("shared.granule"),
        carveouts=tuple(1024 * c for c in spec.integers("shared.carveouts")),
        carveout_comfort=1024 * n("shared.carveout_comfort"),
        carveout_blocks=n("shared.carveout_blocks"),
        barriers=n("sm.barriers") if spec.has("sm.barriers") else None,
    )


# --- The driver's carve-out --------------------------------------------------------------------------


def _fitted_carveout(sm: _Sm, limits: Limits, user_shared: int, warps: int) -> int:
    """Carve-out in bytes that the driver gives a launch without a preference (fitted to H200 launches).

    It holds the blocks resident for other reasons; with blocks of fewer warps than the most, twice as
    many, up to 28, to what the barriers allow, and to the comfortable size.  Without shared memory of the
    kernel's own it holds the driver's part for four times the blocks.  Not pinned by the records: that
    factor (8/3 to 4; only blocks of 11 or 12 warps would tell), the 28 (26 to 28), and from which size
    between 17 and 32 warps on a block counts as a full one.
    """
    most = min(sm.blocks, sm.carveout_blocks)
    if user_shared == 0:
        return sm.carveout_for(sm.shared_reserved * min(most, 4 * limits.warps))
    allocated = sm.shared_of_block(user_shared)
    resident = limits.least
    full_block = warps * sm.warp_threads >= sm.threads_per_block
    generous = resident if full_block else max(resident, min(most, 2 * resident, limits.barriers))
    return max(
        sm.carveout_for(resident * allocated),
        min(sm.carveout_for(generous * allocated), sm.carveout_for(sm.carveout_comfort)),
    )


#: ``shared.carveout_rule`` of a device file -> the rule.
_CARVEOUT_RULES: dict[str, Callable[[_Sm, Limits, int, int], int]] = {"fitted": _fitted_carveout}


# --- Public functions --------------------------------------------------------------------------------


def occupancy(
    spec: DeviceSpec,
    registers_per_thread: int,
    static_shared: int,
    dynamic_shared: int,
    block_threads: int,
    *,
    barriers: int = 0,
) -> Occupancy:
    """Residency of a launch; a :class:`LaunchError` where the hardware would refuse it.

    ``registers_per_thread`` is the launch value, ``max(16, what ptxas reports)``.  ``barriers`` counts the
    hardware barriers the kernel names (1 for ``__syncthreads``); it matters from 9.0 on and above 2.
    """
    sm = _sm(spec)
    _refuse(spec.name, sm, registers_per_thread, static_shared, dynamic_shared, block_threads, barriers)
    user = static_shared + dynamic_shared
    warps = sm.warps_of(block_threads)
    capacity = sm.capacity(registers_per_thread, user, block_threads, barriers)
    active = capacity.least
    allocated = sm.shared_of_block(user)
    limiters = _limiters(sm, capacity, allocated, barriers)
    config = _carveout_rule(spec)(sm, capacity, user, warps)
    return Occupancy(
        device=spec.name,
        registers_per_thread=registers_per_thread,
        static_shared=static_shared,
        dynamic_shared=dynamic_shared,
        block_threads=block_threads,
        barriers=barriers,
        warps_per_block=warps,
        registers_per_thread_allocated=sm.registers_of_warp(registers_per_thread) // sm.warp_threads,
        shared_mem_per_block_bytes=allocated,
        shared_mem_reserved_bytes=sm.shared_reserved,
        shared_mem_config_bytes=config,
        shared_mem_config_kind=spec.kind("shared.carveout_rule"),
        l1_bytes=spec.integer("l1.unified_bytes") - config,
        limits=replace(capacity, shared_mem=config // allocated if allocated else sm.blocks),
        capacity=capacity,
        limiters=limiters,
        limiter=" and ".join(name.replace("shared_mem", "shared memory") for name in limiters),
        active_blocks=active,
        active_warps=active * warps,
        max_warps=sm.warps,
        theoretical_occupancy_pct=100.0 * active * warps / sm.warps,
    )


def resource_limits(
    spec: DeviceSpec,
    registers_per_thread: int,
    static_shared: int,
    dynamic_shared: int,
    block_threads: int,
    *,
    barriers: int = 0,
) -> Limits:
    """Limits at the largest carve-out, 0 for what cannot be launched; never raises on a launch's size."""
    return _sm(spec).capacity(registers_per_thread, static_shared + dynamic_shared, block_threads, barriers)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that keeps more warps resident; a field is None where it stays as it is."""

    text: str
    active_blocks: int
    theoretical_occupancy_pct: float
    registers_per_thread: int | None = None  # at most
    shared_bytes: int | None = None  # static + dynamic, at most
    block_threads: int | None = None


def suggestions(spec: DeviceSpec, occ: Occupancy) -> list[Suggestion]:
    """What would raise the occupancy: one more block, the most blocks of this size, another block size."""
    sm = _sm(spec)
    if occ.active_warps == sm.warps:
        return []
    most = min(occ.capacity.warps, occ.capacity.blocks, occ.capacity.barriers)
    targets = sorted({occ.active_blocks + 1, most}) if most > occ.active_blocks else []
    found = [*(_fewer_resources(sm, occ, blocks) for blocks in targets), _other_block_size(sm, occ)]
    return [s for s in dict.fromkeys(found) if s is not None]


@dataclass(frozen=True, eq=False)
class Curve:
    """Occupancy as one input varies and the others stay; 0 where the launch is refused."""

    over: str
    unit: str
    x: np.ndarray
    active_blocks: np.ndarray
    active_warps: np.ndarray
    theoretical_occupancy_pct: np.ndarray


def curve(
    spec: DeviceSpec,
    over: str,
    registers_per_thread: int,
    static_shared: int,
    dynamic_shared: int,
    block_threads: int,
    *,
    barriers: int = 0,
) -> Curve:
    """Occupancy over ``"registers"`` (1 to the most a thread may have), ``"shared"`` (bytes a block, static +
    dynamic, by the allocation granule) or ``"block"`` (threads, by whole warps)."""
    sm = _sm(spec)
    user = static_shared + dynamic_shared
    axes = {
        "registers": ("register", np.arange(1, sm.registers_per_thread + 1)),
        "shared": ("B", np.arange(0, sm.shared_per_block + 1, sm.shared_granule)),
        "block": ("thread", np.arange(sm.warp_threads, sm.threads_per_block + 1, sm.warp_threads)),
    }
    if over not in axes:
        raise InputError(f"there is no occupancy curve over '{over}'", hint=f"one of {', '.join(axes)}")
    unit, x = axes[over]
    blocks = np.empty(len(x), dtype=np.int64)
    warps = np.empty(len(x), dtype=np.int64)
    for i, value in enumerate(x.tolist()):
        launch = {"registers": registers_per_thread, "shared": user, "block": block_threads, over: value}
        limits = sm.capacity(launch["registers"], launch["shared"], launch["block"], barriers)
        blocks[i] = limits.least
        warps[i] = limits.least * sm.warps_of(launch["block"])
    return Curve(over, unit, x, blocks, warps, 100.0 * warps / sm.warps)


# --- Parts -------------------------------------------------------------------------------------------


def _limiters(sm: _Sm, capacity: Limits, shared_allocated: int, barriers: int) -> tuple[str, ...]:
    """Resources that hold the block count down; one of which the block takes nothing cannot."""
    unused = set()
    if shared_allocated == 0:
        unused.add("shared_mem")
    if sm.barriers is None or barriers == 0 or sm.barriers // barriers > capacity.least:
        unused.add("barriers")
    return tuple(r for r in RESOURCES if r not in unused and getattr(capacity, r) == capacity.least)


def _carveout_rule(spec: DeviceSpec) -> Callable[[_Sm, Limits, int, int], int]:
    rule = spec.text("shared.carveout_rule")
    if rule not in _CARVEOUT_RULES:
        hint = f"known rules: {', '.join(_CARVEOUT_RULES)}"
        what = f"the device '{spec.name}' names an unknown shared.carveout_rule '{rule}'"
        raise InputError(what, hint=hint)
    return _CARVEOUT_RULES[rule]


def _refuse(on: str, sm: _Sm, registers: int, static: int, dynamic: int, threads: int, barriers: int) -> None:
    """Raise for what the hardware or the compiler would not accept; ``on`` is the device's name."""
    user = static + dynamic
    if threads < 1:
        raise LaunchError(f"a block of {threads} threads cannot be launched", hint="give at least one thread")
    if threads > sm.threads_per_block:
        hint = f"use at most {sm.threads_per_block:,} threads a block and more blocks"
        what = f"a block of {threads:,} threads exceeds the limit of {sm.threads_per_block:,} on {on}"
        raise LaunchError(what, hint=hint)
    if not 1 <= registers <= sm.registers_per_thread:
        hint = f"a thread has 1 to {sm.registers_per_thread} registers; the compiler spills what does not fit"
        raise LaunchError(f"{registers} registers a thread are not possible on {on}", hint=hint)
    if static < 0 or dynamic < 0:
        raise LaunchError("shared memory sizes cannot be negative", hint="give bytes, 0 or more")
    if static > sm.shared_static:
        hint = "declare it `extern __shared__` and pass the size at launch (dynamic shared memory)"
        what = f"{static:,} B of static shared memory exceed the {sm.shared_static:,} B there may be"
        raise LaunchError(what, hint=hint)
    if user > sm.shared_per_block:
        what = f"{user:,} B of shared memory a block (static {static:,} + dynamic {dynamic:,})"
        raise LaunchError(
            f"{what} exceed the {sm.shared_per_block:,} B a block may have on {on}",
            hint=f"use {user - sm.shared_per_block:,} B less",
        )
    if not 0 <= barriers <= MAX_BLOCK_BARRIERS:
        hint = f"a block names 0 to {MAX_BLOCK_BARRIERS}"
        raise LaunchError(f"{barriers} barriers a block are not possible", hint=hint)
    warps = sm.warps_of(threads)
    if sm.register_limit(registers, warps) == 0:
        fits = sm.registers_for(1, warps)
        hint = f"compile with __launch_bounds__({threads}) or --maxrregcount {fits}, or use a smaller block"
        what = f"a block of {threads:,} threads with {registers} registers each needs more than the"
        raise LaunchError(f"{what} {sm.registers_per_block:,} registers a block may have on {on}", hint=hint)


def _fewer_resources(sm: _Sm, occ: Occupancy, blocks: int) -> Suggestion | None:
    """The budget for ``blocks`` blocks of this size, of registers and shared memory where these are short."""
    registers = sm.registers_for(blocks, occ.warps_per_block) if occ.capacity.registers < blocks else None
    shared = sm.shared_for(blocks) if occ.capacity.shared_mem < blocks else None
    if (registers is not None and registers < MIN_LAUNCH_REGISTERS) or (shared is not None and shared < 0):
        return None
    needs = []
    if registers is not None:
        needs.append(f"at most {registers} registers a thread (now {occ.registers_per_thread})")
    if shared is not None:
        needs.append(f"at most {shared:,} B of shared memory a block (now {occ.user_shared:,})")
    # Budgets come in steps, so the budget for one more block may admit several.
    blocks = sm.capacity(
        occ.registers_per_thread if registers is None else registers,
        occ.user_shared if shared is None else shared,
        occ.block_threads,
        occ.barriers,
    ).least
    pct = 100.0 * blocks * occ.warps_per_block / sm.warps
    text = f"{blocks} blocks an SM ({pct:.4g} % occupancy) need {' and '.join(needs)}"
    return Suggestion(text, blocks, pct, registers_per_thread=registers, shared_bytes=shared)


def _other_block_size(sm: _Sm, occ: Occupancy) -> Suggestion | None:
    """The block size that fills the SM best with the same registers a thread and shared bytes a block."""
    user = occ.user_shared
    best, best_warps = None, occ.active_warps
    sizes = range(sm.warp_threads, sm.threads_per_block + 1, sm.warp_threads)
    for threads in sorted(sizes, key=lambda t: abs(t - occ.block_threads)):
        limits = sm.capacity(occ.registers_per_thread, user, threads, occ.barriers)
        warps = limits.least * sm.warps_of(threads)
        if warps > best_warps:
            best, best_warps = (threads, limits.least), warps
    if best is None:
        return None
    threads, blocks = best
    pct = 100.0 * best_warps / sm.warps
    per_block = f" and the same {user:,} B of shared memory a block" if user else ""
    what = f"blocks of {threads} threads (now {occ.block_threads})"
    text = f"{what} with the same registers a thread{per_block} give {blocks} blocks, {pct:.4g} % occupancy"
    return Suggestion(text, blocks, pct, block_threads=threads)

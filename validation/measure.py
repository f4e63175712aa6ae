"""One launch measured: memory left behind, oracle, times.

The first launch runs on fresh inputs; every array it left is hashed and the outputs are compared with the
catalog's oracle.  Then it is timed, twice: *warm* (after warm-ups, what the caches can hold is in them) and
*flushed* (a buffer larger than the L2 cache is written before every run, untimed).  Before each run the small
arrays that the kernel changes are put back, because barriers and accumulators live there; large ones are
left as the last run left them, because copying them would displace the cache.

Of the runs the fastest and the slowest are dropped; median, min, max and spread are of what is left.

Units: microseconds, MHz.  Left out: counters (``gpusim.validation.profiler``).
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.errors import GpusimError
from gpusim.kernels import numerics
from gpusim.launch import make_array
from gpusim.validation.backend import Backend
from gpusim.validation.plan import Plan, Planned

#: Changed arrays up to this size are put back before each run.
RESTORE_BYTES = 4 << 20
#: (slower than so many us, warm-ups, warm runs, flushed runs).
RUNS = ((1e6, 1, 5, 5), (200e3, 1, 10, 5), (50e3, 2, 12, 5), (0.0, 3, 12, 12))
#: Host memory for inputs that several launches share.
INPUT_BYTES = 8 << 30
#: Expected values kept, as launches of one size follow each other: (function, size, arguments) -> arrays.
ORACLES_KEPT = 6


class Inputs:
    """Arrays by the INIT rules, read-only and shared between launches, with their hashes."""

    def __init__(self, limit: int = INPUT_BYTES) -> None:
        self._kept: OrderedDict[tuple[Any, ...], tuple[np.ndarray, str]] = OrderedDict()
        self._bytes, self._limit = 0, limit

    def array(self, arg: Mapping[str, Any], slot: int) -> tuple[np.ndarray, str]:
        """Data and SHA-256 of an array argument."""
        init = str(arg.get("init", "zeros"))
        key = (arg["dtype"], arg["n"], init, slot)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        data = make_array(arg["dtype"], int(arg["n"]), init, slot)
        data.setflags(write=False)
        result = self._kept[key] = data, sha256(data)
        self._bytes += data.nbytes
        while self._bytes > self._limit and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1][0].nbytes
        return result

    def values(self, row: Planned) -> tuple[list[Any], dict[int, str]]:
        """The launch's arguments (read-only arrays, scalars) and the hashes of its arrays by slot."""
        values, hashes = [], {}
        for slot, arg in enumerate(row.args):
            if arg["kind"] == "scalar":
                values.append(np.dtype(arg["dtype"]).type(arg["value"]))
            else:
                data, hashes[slot] = self.array(arg, slot)
                values.append(data)
        return values, hashes


def sha256(array: np.ndarray) -> str:
    """Hash of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


class Oracle:
    """The catalog's oracle, with the expected values of launches that share inputs computed once."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def check(self, row: Planned, args: list[Any], outputs: Mapping[int, np.ndarray]) -> str:
        """``passed``, ``failed: why`` or ``none: why``."""
        if row.kind == "case":
            return "none: a given case has no oracle; its memory is compared with the simulator's"
        try:
            return (
                self._reference(row, args, outputs)
                if row.kind == "reference"
                else self._catalog(row, args, outputs)
            )
        except (GpusimError, ValueError, ArithmeticError, MemoryError, LookupError) as error:
            return f"failed: the oracle stopped with {type(error).__name__}: {error}"

    def _catalog(self, row: Planned, args: list[Any], outputs: Mapping[int, np.ndarray]) -> str:
        from gpusim import kernels
        from gpusim.kernels.spec import check_outputs

        kernel = kernels.get(row.kernel)
        size = kernel.size(row.size["name"])
        shared = replace(
            kernel,
            oracle=self._once(kernel.oracle, row),
            bound=self._once(kernel.bound, row) if kernel.bound is not None else None,
        )
        verdicts = check_outputs(shared, size, args, outputs)
        wrong = [verdict.message for verdict in verdicts if not verdict.ok]
        return f"failed: {'; '.join(wrong)}" if wrong else "passed"

    def _reference(self, row: Planned, args: list[Any], outputs: Mapping[int, np.ndarray]) -> str:
        n = row.size["n"]
        error = np.abs(outputs[2].astype(np.float64) - numerics.matmul64(args[0], args[1], n, n, n))
        worst = float((error / numerics.matmul_bound(args[0], args[1], n, n, n)).max())
        return "passed" if worst <= 1.0 else f"failed: worst error {worst:.3g} of the allowed"

    def _once(self, function: Callable[..., Any], row: Planned) -> Callable[..., Any]:
        sizes = {name: value for name, value in row.size.items() if name != "name"}
        key = (function, repr(sorted(sizes.items())), repr(row.args))

        def call(size: Any, args: Any) -> Any:
            if key not in self._kept:
                self._kept[key] = function(size, args)
                while len(self._kept) > ORACLES_KEPT:
                    self._kept.popitem(last=False)
            return self._kept[key]

        return call


def call(plan: Plan, row: Planned, backend: Backend, values: Sequence[Any]) -> Callable[[], None]:
    """The launch as a function without arguments; values are buffers and scalars."""
    if row.kind == "reference":
        a, b, product = values
        return lambda: backend.matmul(a, b, product, row.size["n"])
    assert row.grid is not None and row.block is not None  # every row with a binary has both
    grid, block = row.grid, row.block
    function = backend.load(plan.cubin(row), row.entry, row.dynamic_shared)
    return lambda: backend.launch(function, grid, block, values, row.dynamic_shared)


def measure(plan: Plan, row: Planned, backend: Backend, inputs: Inputs, oracle: Oracle) -> dict[str, Any]:
    """Run one launch and time it; the parts of a record that come of it."""
    host, hashes = inputs.values(row)
    pristine = {slot: backend.upload(host[slot]) for slot in hashes}
    buffers = {slot: backend.clone(pristine[slot]) for slot in hashes}
    launch = call(plan, row, backend, [buffers.get(slot, value) for slot, value in enumerate(host)])
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    launch()
    backend.synchronize()
    changed = {
        slot: backend.download(buffers[slot])
        for slot in hashes
        if not backend.same(buffers[slot], pristine[slot])
    }
    after = {slot: sha256(changed[slot]) if slot in changed else digest for slot, digest in hashes.items()}
    outputs = {slot: changed.get(slot, host[slot]) for slot in hashes}
    restored = [slot for slot in changed if changed[slot].nbytes <= RESTORE_BYTES]

    def restore() -> None:
        for slot in restored:
            backend.copy(buffers[slot], pristine[slot])

    timing = _times(launch, restore, backend)
    return {
        "date": date,
        "inputs_sha256": {str(slot): digest for slot, digest in hashes.items()},
        "outputs": {
            "sha256": {str(slot): digest for slot, digest in after.items()},
            "oracle": oracle.check(row, host, outputs),
        },
        "timing": timing,
    }


def _times(launch: Callable[[], None], restore: Callable[[], None], backend: Backend) -> dict[str, Any]:
    before = backend.clocks()
    first = backend.time(launch, restore, 1)[0]
    warm_ups, warm, flushed = next(numbers for slower, *numbers in RUNS if first >= slower)
    times = backend.time(launch, restore, warm_ups + warm)[warm_ups:]

    def flush() -> None:
        restore()
        backend.flush()

    cold = backend.time(launch, flush, flushed)
    clocks = [before, backend.clocks()]
    result: dict[str, Any] = {"warm": summary(times), "flushed": summary(cold)}
    if all(value is not None for pair in clocks for value in pair):
        sm, memory = zip(*clocks, strict=True)
        result["clocks"] = {"sm_mhz": list(sm), "memory_mhz": list(memory)}
    return result


def summary(times: Sequence[float]) -> dict[str, Any]:
    """Of at least three runs, without the fastest and the slowest: median, min, max and spread in percent."""
    kept = sorted(times)[1:-1]
    median = statistics.median(kept)
    return {
        "runs": len(times),
        "dropped": len(times) - len(kept),
        "median_us": round(median, 3),
        "min_us": round(kept[0], 3),
        "max_us": round(kept[-1], 3),
        "spread_pct": round(100.0 * (kept[-1] - kept[0]) / median, 2),
    }


def profile(plan: Plan, row: Planned, backend: Backend, inputs: Inputs) -> None:
    """Launch once, on fresh inputs, with the profiler's range open around it and no other memory in use."""
    host, hashes = inputs.values(row)
    values = [backend.upload(value) if slot in hashes else value for slot, value in enumerate(host)]
    backend.profiled(call(plan, row, backend, values))


def helpers_path(plan: Plan) -> Path:
    """The binary with the delay, flush and comparison kernels."""
    return plan.work / "cubins" / plan.helpers

"""The GPU as the measurement sees it: :class:`Backend`, and the one that is CuPy.

Kept thin, so that what is decided (which runs, which copies) lies in ``measure`` and is tested without a GPU.
Works with cupy-cuda12x and cupy-cuda13x; modules are loaded from cubins, so CuPy needs no compiler.

Units: times in microseconds, clocks in MHz, sizes in bytes.

Timing: an event, the kernel, an event, queued behind a kernel that keeps the GPU busy for ``DELAY_NS``, so
that the host's own time is not in the interval.  Device events resolve about half a microsecond and the
interval holds the kernel's launch on the device, one to two microseconds: of a kernel shorter than ten it is
a good part.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gpusim.errors import ToolMissing

Dim3 = tuple[int, int, int]

DELAY_NS = 100_000
#: Dynamic shared memory above which a kernel must be told that it may use it (CUDA's limit without opt-in).
OPT_IN_BYTES = 48 * 1024
#: The flush buffer is this many times the L2 cache.
FLUSH_FACTOR = 2.5

NO_GPU_HINT = (
    "install the driver and CuPy (pip install cupy-cuda13x, or cupy-cuda12x for a CUDA 12 driver); without a "
    "GPU: gpusim validate --prepare --work DIR makes a folder to carry to one, gpusim validate --recorded "
    "compares with the committed measurements"
)


class Backend(Protocol):
    """What a measurement needs of a GPU.  Buffers and functions are the backend's own objects."""

    def machine(self) -> dict[str, Any]:
        """Device, driver and versions, as in a record."""

    def clocks(self) -> tuple[int | None, int | None]:
        """Clock of the SMs and of the memory at this moment, MHz; None where it cannot be read."""

    def load(self, cubin: Path, entry: str, dynamic_shared: int) -> Any:
        """A function of a binary."""

    def upload(self, array: np.ndarray) -> Any:
        """A new buffer with this content."""

    def clone(self, buffer: Any) -> Any:
        """A new buffer with the content of another."""

    def copy(self, target: Any, source: Any) -> None:
        """Overwrite a buffer, on the device."""

    def same(self, a: Any, b: Any) -> bool:
        """Whether two buffers hold the same bytes."""

    def download(self, buffer: Any) -> np.ndarray:
        """The content of a buffer."""

    def launch(self, function: Any, grid: Dim3, block: Dim3, args: Sequence[Any], shared: int) -> None:
        """Queue a launch; args are buffers and numpy scalars."""

    def matmul(self, a: Any, b: Any, out: Any, n: int) -> None:
        """Queue the library's fp32 product of n x n matrices, without reduced precision."""

    def flush(self) -> None:
        """Queue writes that displace everything from the L2 cache."""

    def time(self, launch: Callable[[], None], before: Callable[[], None], runs: int) -> list[float]:
        """Microseconds of each run of ``launch``, with ``before`` queued (untimed) ahead of every run."""

    def profiled(self, launch: Callable[[], None]) -> None:
        """Run ``launch`` to its end with the profiler's range open around it."""

    def synchronize(self) -> None:
        """Wait; raises what went wrong on the device."""

    def release(self) -> None:
        """Give unused memory back."""


class CuPyBackend:
    """:class:`Backend` with CuPy on the current device."""

    def __init__(self, helpers: Path | None = None) -> None:
        os.environ["CUPY_TF32"] = "0"  # read when a product is computed: the reference is plain fp32
        try:
            import cupy

            count = cupy.cuda.runtime.getDeviceCount()
        except ImportError as error:
            raise ToolMissing(f"CuPy cannot be imported ({error})", hint=NO_GPU_HINT) from error
        except Exception as error:  # CuPy's own class: no driver, no device
            raise ToolMissing(f"there is no usable GPU ({error})", hint=NO_GPU_HINT) from error
        if not count:
            raise ToolMissing("there is no GPU on this machine", hint=NO_GPU_HINT)
        self.cp = cupy
        self.properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        self._nvml = _Nvml(self._bus_id())
        self._scratch: Any = None
        self._round = 0
        if helpers is not None:
            module = cupy.RawModule(path=str(helpers))
            self._delay, self._flush, self._differs = (
                module.get_function(f"gpusim_{name}") for name in ("delay", "flush", "differs")
            )
            self._flag = cupy.zeros(1, np.int32)

    def _bus_id(self) -> str:
        return str(self.cp.cuda.runtime.deviceGetPCIBusId(self.cp.cuda.Device().id))

    def machine(self) -> dict[str, Any]:
        runtime = self.cp.cuda.runtime
        driver = self._nvml.driver() or _dotted(runtime.driverGetVersion())
        return {
            "device": self.properties["name"].decode(),
            "compute_capability": f"{self.properties['major']}.{self.properties['minor']}",
            "driver": driver,
            "cuda_driver": _dotted(runtime.driverGetVersion()),
            "cuda_runtime": _dotted(runtime.runtimeGetVersion()),
            "cupy": self.cp.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "cublas": self._cublas(),
        }

    def _cublas(self) -> str | None:
        try:
            from cupy.cuda import cublas, device

            number = cublas.getVersion(device.get_cublas_handle())
        except Exception:  # only a version to be told: the reference is measured without it
            return None
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def clocks(self) -> tuple[int | None, int | None]:
        return self._nvml.clocks()

    def load(self, cubin: Path, entry: str, dynamic_shared: int) -> Any:
        function = self.cp.RawModule(path=str(cubin)).get_function(entry)
        if dynamic_shared > OPT_IN_BYTES:
            function.max_dynamic_shared_size_bytes = dynamic_shared
        return function

    def upload(self, array: np.ndarray) -> Any:
        return self.cp.asarray(array)

    def clone(self, buffer: Any) -> Any:
        return buffer.copy()

    def copy(self, target: Any, source: Any) -> None:
        target.data.copy_from_device_async(source.data, source.nbytes, self.cp.cuda.get_current_stream())

    def same(self, a: Any, b: Any) -> bool:
        self._flag.fill(0)
        threads = 256
        blocks = min(max(1, a.nbytes // 16 // threads), 4096)
        args = (a, b, np.uint64(a.nbytes), self._flag)
        self._differs((blocks,), (threads,), args)
        return not int(self._flag.get()[0])

    def download(self, buffer: Any) -> np.ndarray:
        return np.asarray(buffer.get())

    def launch(self, function: Any, grid: Dim3, block: Dim3, args: Sequence[Any], shared: int) -> None:
        function(grid, block, tuple(args), shared_mem=shared)

    def matmul(self, a: Any, b: Any, out: Any, n: int) -> None:
        shape = (n, n)
        self.cp.matmul(a.reshape(shape), b.reshape(shape), out=out.reshape(shape))

    def flush(self) -> None:
        if self._scratch is None:
            nbytes = int(FLUSH_FACTOR * self.properties["l2CacheSize"]) or 1 << 28
            self._scratch = self.cp.empty(nbytes // 16 * 4, np.uint32)
        self._round += 1
        blocks = 8 * self.properties["multiProcessorCount"]
        args = (self._scratch, np.uint64(self._scratch.size // 4), np.uint32(self._round))
        self._flush((blocks,), (256,), args)

    def time(self, launch: Callable[[], None], before: Callable[[], None], runs: int) -> list[float]:
        pairs = [(self.cp.cuda.Event(), self.cp.cuda.Event()) for _ in range(runs)]
        for start, end in pairs:
            before()
            self._delay((1,), (1,), (np.uint64(DELAY_NS),))
            start.record()
            launch()
            end.record()
        self.synchronize()
        return [1000.0 * self.cp.cuda.get_elapsed_time(start, end) for start, end in pairs]

    def profiled(self, launch: Callable[[], None]) -> None:
        runtime = self.cp.cuda.runtime
        self.synchronize()
        runtime.profilerStart()
        try:
            launch()
            self.synchronize()
        finally:
            runtime.profilerStop()

    def synchronize(self) -> None:
        self.cp.cuda.Device().synchronize()

    def release(self) -> None:
        self.cp.get_default_memory_pool().free_all_blocks()


def _dotted(number: int) -> str:
    """CUDA's 13000 as 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"


class _Nvml:
    """Driver version and clocks through the driver's own management library; it changes nothing."""

    SM, MEMORY = 1, 2

    def __init__(self, bus_id: str) -> None:
        self._library: ctypes.CDLL | None = None
        self._device = ctypes.c_void_p()
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1" if os.name == "posix" else "nvml.dll")
            if library.nvmlInit_v2() == 0 and not library.nvmlDeviceGetHandleByPciBusId_v2(
                bus_id.encode(), ctypes.byref(self._device)
            ):
                self._library = library
        except (OSError, AttributeError):  # no such library: clocks are then absent from the record
            return

    def driver(self) -> str | None:
        if self._library is None:
            return None
        text = ctypes.create_string_buffer(81)
        failed = self._library.nvmlSystemGetDriverVersion(text, len(text))
        return None if failed else text.value.decode()

    def clocks(self) -> tuple[int | None, int | None]:
        return self._clock(self.SM), self._clock(self.MEMORY)

    def _clock(self, kind: int) -> int | None:
        value = ctypes.c_uint()
        if self._library is None or self._library.nvmlDeviceGetClockInfo(
            self._device, kind, ctypes.byref(value)
        ):
            return None
        return value.value

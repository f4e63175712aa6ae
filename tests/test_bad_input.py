"""Bad launches through the Python API: one error of the right kind that says what, where and what next.

The command line's side of the same (exit code 2, one message, no traceback, nothing left) is in test_cli.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpusim.errors import (
    BudgetExceeded,
    CompileError,
    CubinError,
    Deadlock,
    ExecutionError,
    GpusimError,
    InputError,
    LaunchError,
    MemoryFault,
    UnsupportedError,
)
from gpusim.isa.opcodes import bind
from gpusim.isa.sass import parse_instruction
from gpusim.program import Module, compile, load
from gpusim.simulate import run, simulate

SOURCE = """\
extern "C" {
__global__ void copy(const float* x, float* y, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i]; }
__global__ void stride(int* x, int step) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i * step] = i;
}
__global__ void before(int* x) { x[(int)threadIdx.x - 2] = 1; }
__global__ void vector(const float* x, float4* y, int shift) { y[0] = *(const float4*)(x + shift); }
__global__ void pair(int* x) { extern __shared__ int s[]; *(int2*)(s + 1 + 2 * *x) = int2{1, 2}; *x = s[1]; }
__global__ void shared_far(int* x, int i) { __shared__ int s[64]; s[threadIdx.x + i] = 1; x[0] = s[0]; }
__global__ void endless(volatile int* x) { while (x[0] == 0) { } }
__device__ int step(int s) { s = s * 3 + 2; if (s == 1) s = 5; return s; }
__global__ void halves(int* x) { if (threadIdx.x > 63) asm volatile("bar.sync 2, 128;"); *x = 1; }
__global__ void __launch_bounds__(64) small(int* x) { x[threadIdx.x] = 1; }
__global__ void trap(int* x) { if (threadIdx.x == 3) asm("trap;"); x[threadIdx.x] = 1; }
__global__ void null(int* x, long long p) { x[0] = *(int*)p; }
__global__ void endless_quiet(int* x) { int s = x[0]; while (s != 1) s = step(s); x[0] = s; }
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    path = tmp_path_factory.mktemp("bad") / "bad.cu"
    path.write_text(SOURCE, encoding="utf-8")
    return compile(path)


def ints(n: int) -> np.ndarray:
    return np.zeros(n, np.int32)


def floats(n: int) -> np.ndarray:
    return np.zeros(n, np.float32)


def message(error: type[GpusimError], call: Callable[[], Any], *words: str) -> str:
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert caught.value.exit_code == 2
    assert [word for word in words if word not in text] == [], text
    return text


# --- files


def test_missing_file(tmp_path: Path) -> None:
    message(InputError, lambda: compile(tmp_path / "absent.cu"), "absent.cu")
    message(InputError, lambda: load(tmp_path / "absent.cubin"), "absent.cubin")


def test_syntax_error_has_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "wrong.cu"
    path.write_text("__global__ void k(int* x) {\n    x[0] = 1 +;\n}\n", encoding="utf-8")
    message(CompileError, lambda: compile(path), "wrong.cu(2)", "expected an expression")


def test_wrong_kernel_name_lists_the_right_ones(module: Module) -> None:
    message(InputError, lambda: module["cpoy"], "cpoy", "copy", "stride", "vector")


@pytest.mark.parametrize("keep", [0, 3, 20, 64, 500, 0.5, 0.9])
def test_truncated_cubin(module: Module, tmp_path: Path, keep: float) -> None:
    size = len(module.cubin)
    path = tmp_path / "cut.cubin"
    path.write_bytes(module.cubin[: int(keep if keep > 1 or keep == 0 else keep * size)])

    def use() -> None:
        for name in load(path):
            _ = load(path)[name].instructions

    message(GpusimError, use, "cut.cubin")


def test_unsupported_architecture(module: Module, tmp_path: Path) -> None:
    path = tmp_path / "old.cubin"
    data = bytearray(module.cubin)
    data[48:52] = bytes(33 if byte == 90 else byte for byte in data[48:52])  # e_flags: sm_33
    path.write_bytes(bytes(data))
    message(CubinError, lambda: load(path)["copy"].instructions, "old.cubin", "33")
    message(GpusimError, lambda: compile("__global__ void k() {\n}\n", arch="sm_33"), "33")
    message(GpusimError, lambda: compile("__global__ void k() {\n}\n", arch="banana"), "banana")


# --- launches


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ("3 arguments", "0 were given")),
        ([floats(4), floats(4), 4, 5], ("3 arguments", "4 were given")),
        ([floats(4), floats(4), np.float64(4)], ("argument 2", "4 bytes", "float64", "8 bytes")),
        ([floats(4), floats(4), floats(4)], ("argument 2", "4 bytes", "array")),
        ([np.int32(4), floats(4), 4], ("argument 0", "8 bytes", "int32")),
        ([floats(4), floats(4), "float31[4]"], ("float31",)),
        ([floats(4), floats(4), 1 << 40], ("int32",)),
        ([floats(4), None, 4], ("argument 1", "None")),
        ([floats(0), floats(4), 4], ("argument 0", "0 elements")),
        ([np.array([object()]), floats(4), 4], ("argument 0", "object")),
    ],
)
def test_arguments(module: Module, arguments: list[Any], words: tuple[str, ...]) -> None:
    message(InputError, lambda: run(module["copy"], 1, 32, arguments), *words)
    message(InputError, lambda: simulate(module["copy"], 1, 32, arguments), *words)


@pytest.mark.parametrize(
    ("grid", "block", "error", "words"),
    [
        (1, 1025, LaunchError, ("1,025", "1,024")),
        (1, (32, 33, 1), LaunchError, ("1,056", "1,024")),
        (1, (1, 1, 65), LaunchError, ("z", "65", "64")),
        (0, 32, InputError, ("grid", "0")),
        ((4, 0, 1), 32, InputError, ("grid", "(4, 0, 1)")),
        (1, 0, InputError, ("block", "0")),
        (-1, 32, InputError, ("grid", "-1")),
        (1.5, 32, InputError, ("grid", "1.5")),
        ((1, 1, 1, 1), 32, InputError, ("grid",)),
        ((1, 65536, 1), 32, LaunchError, ("y", "65,536", "65,535")),
        (1 << 31, 32, LaunchError, ("x", "2,147,483,648", "2,147,483,647")),
    ],
)
def test_shapes(
    module: Module, grid: Any, block: Any, error: type[GpusimError], words: tuple[str, ...]
) -> None:
    message(error, lambda: run(module["copy"], grid, block, [floats(4), floats(4), 4]), *words)


def test_launch_bounds(module: Module) -> None:
    message(
        LaunchError, lambda: run(module["small"], 1, 65, [ints(65)]), "small", "64", "65", "__launch_bounds__"
    )


@pytest.mark.parametrize(("given", "error"), [(240 << 10, LaunchError), (-1, InputError), (1.5, InputError)])
def test_shared_memory(module: Module, given: Any, error: type[GpusimError]) -> None:
    call = lambda: run(module["pair"], 1, 1, [ints(1)], dynamic_shared=given)  # noqa: E731
    message(error, call, "shared memory", *(("232,448",) if error is LaunchError else (str(given),)))


def test_unknown_device(module: Module) -> None:
    message(InputError, lambda: run(module["small"], 1, 1, [ints(1)], device="voodoo2"), "voodoo2", "h200")


def test_unknown_variable(module: Module) -> None:
    call = lambda: run(module["small"], 1, 1, [ints(1)], symbols={"nothing": np.array(1)})  # noqa: E731
    message(InputError, call, "nothing")


# --- faults while running


@pytest.mark.parametrize("traced", [False, True])
def test_out_of_bounds(module: Module, traced: bool) -> None:
    """Block 2 of 32 threads, step 3: element 3 x 86 = 258 is the first of 256 out; lane 22."""
    call = (
        (lambda: simulate(module["stride"], 4, 32, [ints(256), 3], jobs=1))
        if traced
        else (lambda: run(module["stride"], 4, 32, [ints(256), 3], jobs=1))
    )
    text = message(
        MemoryFault,
        call,
        "stride",
        "bad.cu:5",
        "pc 0x",
        "STG",
        "CTA (2,0,0)",
        "warp 0",
        "lane 22",
        "4 bytes",
        "0x7f0000000408",
        "8 bytes after the end of argument 0 (1,024 bytes",
    )
    assert text.count("\n") <= 1


def test_before_the_beginning(module: Module) -> None:
    message(
        MemoryFault, lambda: run(module["before"], 1, 32, [ints(64)]), "lane 0", "8 bytes before argument 0"
    )


def test_one_array_is_not_another(module: Module) -> None:
    """An index just beyond one array never lands in the next one, in either direction."""
    for n in (33, 64, 97):
        message(
            MemoryFault,
            lambda n=n: run(module["copy"], 1, n, [floats(32), floats(256), n]),  # type: ignore[misc]
            "argument 0 (128 bytes",
            "lane 0",
            "warp 1",
        )
        message(
            MemoryFault,
            lambda n=n: run(module["copy"], 1, n, [floats(256), floats(32), n]),  # type: ignore[misc]
            "argument 1 (128 bytes",
            "lane 0",
            "warp 1",
        )


def test_null_and_wild_pointers(module: Module) -> None:
    message(
        MemoryFault, lambda: run(module["null"], 1, 1, [ints(1), np.int64(0)]), "null", "0x0", "out of bounds"
    )
    message(MemoryFault, lambda: run(module["null"], 1, 1, [ints(1), np.int64(-4)]), "0xfffffffffffffffc")
    message(MemoryFault, lambda: run(module["null"], 1, 1, [ints(1), np.int64(1 << 46)]), "0x400000000000")


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_misaligned_vector(module: Module, shift: int) -> None:
    message(
        MemoryFault,
        lambda: run(module["vector"], 1, 1, [floats(16), floats(4), shift]),
        "misaligned global",
        "16 bytes",
        f"0x7f00000000{4 * shift:02x}",
        "vector",
        "bad.cu:8",
        "lane 0",
        "multiple of 16",
    )


def test_aligned_vector_is_fine(module: Module) -> None:
    x = np.arange(16, dtype=np.float32)
    assert run(module["vector"], 1, 1, [x, floats(4), 4])[1].tolist() == [4, 5, 6, 7]


def test_shared_memory_faults(module: Module) -> None:
    message(
        MemoryFault, lambda: run(module["pair"], 1, 2, [ints(1)], dynamic_shared=64), "misaligned shared", "8"
    )
    message(
        MemoryFault,
        lambda: run(module["shared_far"], 1, 64, [ints(1), 1 << 16]),
        "shared access",
        "shared_far",
        "lane 0",
        "outside",
    )
    message(
        MemoryFault, lambda: run(module["shared_far"], 1, 64, [ints(1), 1]), "shared_far", "warp 1", "lane 31"
    )


@pytest.mark.parametrize("name", ["endless", "endless_quiet"])
@pytest.mark.parametrize("traced", [False, True])
def test_endless_loop(module: Module, name: str, traced: bool) -> None:
    start: Any = simulate if traced else run
    message(
        BudgetExceeded,
        lambda: start(module[name], 2, 64, [ints(1)], budget=200_000),
        name,
        "200,000",
        "budget",
        "pc 0x",
        "bad.cu:1",
    )


def test_barrier_some_warps_never_reach(module: Module) -> None:
    message(
        Deadlock,
        lambda: run(module["halves"], 1, 128, [ints(128)]),
        "halves",
        "CTA (0,0,0)",
        "warps 2-3 at barrier 2",
        "line 13",
    )


def test_trap(module: Module) -> None:
    message(ExecutionError, lambda: run(module["trap"], 1, 32, [ints(32)]), "trap", "bad.cu:15")


def test_a_fault_does_not_spoil_the_next_launch(module: Module) -> None:
    with pytest.raises(MemoryFault):
        run(module["stride"], 4, 32, [ints(256), 3])
    assert run(module["stride"], 2, 32, [ints(256), 3])[0][: 64 * 3 : 3].tolist() == list(range(64))


# --- instructions nobody knows


def _unknown(text: str) -> str:
    word, _, operands = text.partition(" ")
    instruction = parse_instruction(0x120, word, operands, None, 0)
    with pytest.raises(UnsupportedError) as error:
        bind(instruction)
    return str(error.value)


@pytest.mark.parametrize("text", ["FROB R1, R2, R3", "IADD3.WEIRD R1, R2, R3, RZ"])
def test_unknown_instruction_is_refused_by_name(text: str) -> None:
    """With its address and its text, before anything runs."""
    said = _unknown(text)
    assert text in said and "0x0120" in said.replace("0x120", "0x0120")
    assert text.split()[0].split(".")[0] in said

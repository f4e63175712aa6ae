"""Memory spaces, launch shapes, variables and instruction counts: values derived by hand from the source."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from gpusim.program import Module, compile
from gpusim.simulate import SimResult, run, simulate

SOURCE = r"""
__device__ int scale = 3;
__device__ int table[8] = {1, 2, 4, 8, 16, 32, 64, 128};
__device__ int untouched[4];
__device__ int* pointer = table;
__constant__ float weights[4] = {0.5f, 1.5f, 2.5f, 3.5f};
__constant__ int offset = 100;
template <typename T, int K> __global__ void affine(T* x, T a) { x[threadIdx.x] = x[threadIdx.x] * a + T(K); }
extern "C" {
__global__ void shape(int* out) {                      // everything that says where a thread is
    int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int n = blockDim.x * blockDim.y * blockDim.z;
    int* o = out + 7 * (b * n + t);
    o[0] = threadIdx.x; o[1] = threadIdx.y; o[2] = threadIdx.z;
    o[3] = blockIdx.x; o[4] = blockIdx.y; o[5] = blockIdx.z;
    int lane; asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    o[6] = lane;
}
__global__ void reverse(int* x) {                      // dynamic shared memory
    extern __shared__ int s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
__global__ void shared_is_fresh(int* out) {            // a block never sees what another block left
    __shared__ int s[32];
    out[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
    __syncthreads();
    s[threadIdx.x] = 1 + blockIdx.x;
}
__global__ void variables(int* out, float* w) {
    int t = threadIdx.x;
    out[t] = table[t & 7] * scale + offset + untouched[t & 3] + pointer[1];
    w[t] = weights[t & 3];
}
__global__ void generic(const int* x, int* out) {      // one pointer, three spaces
    __shared__ int s[32];
    int local[4];
    int t = threadIdx.x;
    s[t] = 1000 + t;
    for (int k = 0; k < 4; ++k) local[k] = 10 * k + x[t];
    __syncthreads();
    const int* p = t % 3 == 0 ? s + (31 - t) : t % 3 == 1 ? x + t : local + (x[t] & 3);
    out[t] = *p;
}
__global__ void local_array(const int* x, int* out) {  // indexed at run time: local memory
    int count[16] = {};
    int t = threadIdx.x;
    for (int k = 0; k < 40; ++k) count[x[t + k] & 15] += k;
    int best = 0;
    for (int k = 0; k < 16; ++k) best = count[k] > count[best] ? k : best;
    out[t] = best * 1000 + count[best];
}
__global__ void narrow(const signed char* a, const unsigned char* b, const short* c, unsigned short* d,
                       signed char* e) {
    int t = threadIdx.x;
    d[t] = (unsigned short)(a[t] + b[t] + c[t]);
    e[t] = (signed char)(a[t] * 3);
}
__global__ void wide(const double2* x, double2* y, const longlong2* u, longlong2* v) {
    int t = threadIdx.x;
    double2 d = x[t]; y[t] = make_double2(d.y, d.x);
    longlong2 q = u[t]; v[t] = make_longlong2(q.y + 1, q.x - 1);
}
__global__ void strong(volatile int* x, int* out) {
    int t = threadIdx.x;
    x[t] = t + 5;
    __threadfence();
    int a; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(a) : "l"(x + t) : "memory");
    asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(out + t), "r"(a * 2 + x[t]) : "memory");
}
__global__ void atomics(int* sum, unsigned* lo, unsigned long long* big, float* f, int* cas, int* old) {
    int t = threadIdx.x;
    atomicAdd(sum, t); atomicMin(lo, 1000u - t); atomicMax(lo + 1, (unsigned)t);
    atomicXor(lo + 2, 1u << (t & 31));
    atomicAdd(big, 1ull << 40); atomicAdd(f, 0.25f);
    int seen = *cas, was;
    do { was = seen; seen = atomicCAS(cas, was, was + t); } while (seen != was);
    old[t] = atomicExch(cas + 1, t) >= 0;
}
__global__ void store(int* x) { x[threadIdx.x] = 7; }
__global__ void guarded(int* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = 7; }
__global__ void __launch_bounds__(256) count_loop(int* x, int n) {
    int s = 0;
    #pragma unroll 1
    for (int k = 0; k < n; ++k) s = s * 3 + k;
    x[threadIdx.x] = s;
}
}
"""

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry triple(.param .u64 out, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<4>;
    ld.param.u64 %d0, [out]; ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p, %r1, %r0;
    @%p bra DONE;
    mul.lo.u32 %r2, %r1, 3;
    cvta.to.global.u64 %d1, %d0;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r2;
DONE:
    ret;
}
"""


@lru_cache(maxsize=2)
def module(arch: str) -> Module:
    return compile(SOURCE, arch=arch, name_expressions=("affine<float, 4>", "affine<long long, -2>"))


@pytest.fixture(params=("sm_90", "sm_80"))
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def zeros(n: int, dtype: Any = np.int32) -> np.ndarray:
    return np.zeros(n, dtype)


def launch(arch: str, name: str, grid: Any, block: Any, *args: Any, **options: Any) -> list[Any]:
    return run(module(arch)[name], grid, block, args, **options)


# --- launch shapes


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1, 1, 1), (1, 1, 1)),
        ((3, 2, 4), (5, 3, 2)),
        ((2, 1, 3), (33, 1, 1)),
        ((1, 5, 1), (8, 8, 4)),
        (2, (1, 1, 64)),
        (7, 1000),
        ((2, 3), (16, 7)),
    ],
)
def test_every_thread_knows_its_place(arch: str, grid: Any, block: Any) -> None:
    gx, gy, gz = ((grid,) if isinstance(grid, int) else grid) + (1,) * (
        2 if isinstance(grid, int) else 3 - len(grid)
    )
    bx, by, bz = ((block,) if isinstance(block, int) else block) + (1,) * (
        2 if isinstance(block, int) else 3 - len(block)
    )
    n, blocks = bx * by * bz, gx * gy * gz
    out = launch(arch, "shape", grid, block, zeros(7 * n * blocks))[0].reshape(blocks, n, 7)
    t, b = np.meshgrid(np.arange(n), np.arange(blocks))
    want = [t % bx, t // bx % by, t // (bx * by), b % gx, b // gx % gy, b // (gx * gy), t % 32]
    for column, expected in enumerate(want):
        assert np.array_equal(out[:, :, column], expected), column


# --- shared memory


@pytest.mark.parametrize("threads", [1, 31, 32, 100, 1024])
def test_dynamic_shared_memory(arch: str, threads: int) -> None:
    x = np.arange(threads, dtype=np.int32)
    assert np.array_equal(launch(arch, "reverse", 1, threads, x, dynamic_shared=4 * threads)[0], x[::-1])


def test_shared_memory_of_another_block_is_not_seen(arch: str) -> None:
    assert not launch(arch, "shared_is_fresh", 9, 32, zeros(288), jobs=1)[0].any()


# --- variables


def test_variables_have_their_initial_values(arch: str) -> None:
    out, w = launch(arch, "variables", 1, 32, zeros(32), zeros(32, np.float32))
    assert out.tolist() == [3 * 2 ** (t & 7) + 100 + 2 for t in range(32)]
    assert w.tolist() == [(t & 3) + 0.5 for t in range(32)]


def test_variables_can_be_set(arch: str) -> None:
    symbols = {
        "scale": np.int32(-5),
        "offset": np.array([7], np.int32),
        "untouched": np.arange(4, dtype=np.int32),
        "weights": np.array([9, 8], np.float32),
    }
    out, w = launch(arch, "variables", 1, 32, zeros(32), zeros(32, np.float32), symbols=symbols)
    assert out.tolist() == [-5 * 2 ** (t & 7) + 7 + (t & 3) + 2 for t in range(32)]
    assert w.tolist() == [(9.0, 8.0, 2.5, 3.5)[t & 3] for t in range(32)]
    # the next launch starts from the module's own values
    assert launch(arch, "variables", 1, 32, zeros(32), zeros(32, np.float32))[0][0] == 3 + 100 + 2


def test_templates_by_their_names(arch: str) -> None:
    x = np.arange(32, dtype=np.float32)
    assert launch(arch, "affine<float, 4>", 1, 32, x, np.float32(2))[0].tolist() == [
        2.0 * i + 4 for i in range(32)
    ]
    y = np.arange(32, dtype=np.int64) << 33
    out = launch(arch, "affine<long long, -2>", 1, 32, y, np.int64(3))[0]
    assert out.tolist() == [3 * (i << 33) - 2 for i in range(32)]


def test_ptx_source(arch: str) -> None:
    kernel = compile(PTX, arch=arch)["triple"]
    out = run(kernel, 1, 64, [zeros(64), np.uint32(50)])[0]
    assert out.tolist() == [3 * t if t < 50 else 0 for t in range(64)]


# --- spaces and widths


def test_generic_pointers(arch: str) -> None:
    x = (np.arange(32) * 3 + 1).astype(np.int32)
    want = [
        1000 + 31 - t if t % 3 == 0 else x[t] if t % 3 == 1 else 10 * (x[t] & 3) + x[t] for t in range(32)
    ]
    assert launch(arch, "generic", 1, 32, x, zeros(32))[1].tolist() == want


def test_local_arrays(arch: str) -> None:
    x = np.random.default_rng(11).integers(0, 1 << 20, 64 + 40).astype(np.int32)
    want = []
    for t in range(64):
        count = np.bincount(x[t : t + 40] & 15, weights=np.arange(40), minlength=16).astype(int)
        want.append(int(count.argmax()) * 1000 + int(count.max()))
    assert launch(arch, "local_array", 1, 64, x, zeros(64))[1].tolist() == want


def test_narrow_loads_and_stores(arch: str) -> None:
    a = np.arange(-16, 16, dtype=np.int8)
    b = np.arange(224, 256, dtype=np.uint8)
    c = (np.arange(32) * 1000 - 16000).astype(np.int16)
    out = launch(arch, "narrow", 1, 32, a, b, c, zeros(32, np.uint16), zeros(32, np.int8))
    assert out[3].tolist() == [(int(p) + int(q) + int(r)) % 65536 for p, q, r in zip(a, b, c, strict=True)]
    assert out[4].tolist() == [int(p) * 3 for p in a]  # -48 .. 45: no wrap


def test_wide_loads_and_stores(arch: str) -> None:
    x, u = np.arange(64, dtype=np.float64) / 3, np.arange(64, dtype=np.int64) << 40
    out = launch(arch, "wide", 1, 32, x, zeros(64, np.float64), u, zeros(64, np.int64))
    assert np.array_equal(out[1].reshape(32, 2), x.reshape(32, 2)[:, ::-1])
    assert np.array_equal(out[3].reshape(32, 2), u.reshape(32, 2)[:, ::-1] + np.array([1, -1]))


def test_volatile_and_strong_accesses(arch: str) -> None:
    out = launch(arch, "strong", 1, 64, zeros(64), zeros(64))
    assert out[0].tolist() == [t + 5 for t in range(64)]
    assert out[1].tolist() == [3 * (t + 5) for t in range(64)]


def test_atomics(arch: str) -> None:
    """96 threads; 0.25 adds without rounding; the exchange finds a value of 0 or more each time."""
    out = launch(
        arch,
        "atomics",
        1,
        96,
        zeros(1),
        np.array([2000, 0, 0], np.uint32),
        zeros(1, np.uint64),
        zeros(1, np.float32),
        zeros(2),
        zeros(96),
    )
    total = 96 * 95 // 2
    assert out[0][0] == total
    assert out[1].tolist() == [1000 - 95, 95, 0xFFFFFFFF]  # each bit is flipped three times
    assert out[2][0] == 96 << 40
    assert out[3][0] == 24.0
    assert out[4][0] == total
    assert out[5].tolist() == [1] * 96


# --- counts


def executed(result: SimResult, *opcodes: str) -> list[tuple[int, int]]:
    """(executions, lanes) of the instructions whose text has all the words, in address order."""
    return [
        (row["inst_executed"], row["thread_inst_executed"])
        for row in result.instructions
        if all(word in row["sass"] for word in opcodes)
    ]


def test_straight_code_counts_once_a_warp(arch: str) -> None:
    """100 threads are 4 warps, the last of 4 lanes; nothing behind EXIT runs."""
    result = simulate(module(arch)["store"], 3, 100, [zeros(100)])
    texts = [row["sass"] for row in result.instructions]
    end = next(i for i, text in enumerate(texts) if "EXIT" in text)
    for i, row in enumerate(result.instructions):
        assert (row["inst_executed"], row["thread_inst_executed"]) == ((12, 300) if i <= end else (0, 0)), (
            row["sass"]
        )
    metrics = {name: metric.value for name, metric in result.metrics.items()}
    assert metrics["smsp__inst_executed.sum"] == 12 * (end + 1)
    assert metrics["smsp__thread_inst_executed.sum"] == 300 * (end + 1)
    assert metrics["smsp__inst_executed_op_global_st.sum"] == 12
    assert metrics["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"] == 12
    # a full warp writes 128 aligned bytes, 4 sectors; 4 lanes write 16 bytes, 1 sector
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 3 * (3 * 4 + 1)
    assert metrics["launch__thread_count"] == 300 and metrics["launch__grid_size"] == 3


def test_guard_counts_lanes_that_did_not_leave(arch: str) -> None:
    """2 blocks of 64, 70 elements: `@P EXIT` is executed by all 4 warps, the store by 3, with 70 lanes."""
    result = simulate(module(arch)["guarded"], 2, 64, [zeros(70), np.int32(70)])
    assert executed(result, "EXIT")[0] == (4, 128)
    assert executed(result, "STG") == [(3, 70)]
    # warps 0 and 1 write 4 sectors each, 6 lanes of warp 2 write 24 bytes
    assert result.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"].value == 9


@pytest.mark.parametrize("n", [1, 2, 50])
def test_loop_body_counts_its_trips(arch: str, n: int) -> None:
    """The only backward branch that runs is executed once a trip by each of the 8 warps."""
    result = simulate(module(arch)["count_loop"], 1, 256, [zeros(256), np.int32(n)])
    counts = [row["inst_executed"] for row in result.instructions]
    most = max(counts)
    assert most == 8 * n
    if n > 1:
        body = [row["sass"] for row in result.instructions if row["inst_executed"] == most]
        assert sum("BRA" in text for text in body) == 1
    assert result.metrics["smsp__inst_executed.sum"].value == sum(counts)

"""Divergence, reconvergence, calls, barriers and waiting: outputs derived by hand from the source.

One CUDA source holds the kernels; it is compiled for both architectures.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpusim.errors import Deadlock, GpusimError
from gpusim.program import Module, compile, load
from gpusim.simulate import run, simulate

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" {
__global__ void trips(const int* n, int* out) {          // a different trip count for each lane
    int i = threadIdx.x, s = 0;
    #pragma unroll 1
    for (int k = 0; k < n[i]; ++k) s += k * (s & 1 ? 1 : 3);
    out[i] = s;
}
__global__ void early_exit(int* out, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    out[i] = __popc(__activemask());
    if (i & 1) return;
    out[i] += 100 * __popc(__activemask());
}
__global__ void nested(const int* x, int* out) {
    int i = threadIdx.x, v = x[i], r;
    if (v & 1) { if (v & 2) { if (v & 4) r = 7; else r = 3; } else { r = v & 4 ? 5 : 1; } r += 100; }
    else { if (v & 2) r = v & 4 ? 6 : 2; else if (v & 4) r = 4; else r = 0; r += 200; }
    out[i] = r * __popc(__ballot_sync(~0u, 1));           // every lane is back: 32
}
__global__ void loop_jumps(const int* x, int* out) {
    int i = threadIdx.x, s = 0;
    #pragma unroll 1
    for (int k = 0; k < 64; ++k) {
        int v = x[(i + k) & 63];
        if (v % 5 == 0) continue;
        if (v % 13 == 1) break;
        switch (v & 7) {
            case 0: s += 1; break;
            case 1: s += 10;
            case 2: s += 100; break;
            case 3: s ^= 0x55; break;
            case 5: s -= 7; break;
            case 6: s *= 3; break;
            default: s += 5;
        }
    }
    out[i] = s;
}
__device__ __noinline__ int collatz(unsigned v) {
    int steps = 0;
    while (v != 1) { v = v & 1 ? 3 * v + 1 : v / 2; ++steps; }
    return steps;
}
__global__ void calls(int* out) { int i = threadIdx.x; out[i] = i & 1 ? collatz(i + 1) : -collatz(i + 2); }
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__global__ void recursion(int* out) { out[threadIdx.x] = fib(threadIdx.x % 9); }
__device__ __noinline__ int twice(int v) { return 2 * v; }
__device__ __noinline__ int square(int v) { return v * v; }
__device__ __noinline__ int negate(int v) { return -v; }
__global__ void pointers(int* out) {
    int (*table[3])(int) = {twice, square, negate};
    int i = threadIdx.x;
    out[i] = table[i % 3](i + 1);
}
__global__ void lane_chain(volatile int* flag, int* out) { // lane l waits for lane l + 1 of its own warp
    int i = threadIdx.x, done = 0;
    while (!done) {
        int next = i == 31 ? 1 : flag[i + 1];
        if (next) { out[i] = next + 1; __threadfence(); flag[i] = next + 1; done = 1; }
    }
}
__global__ void lane_spin(volatile int* flag, int* out, int odd) { // one side of a branch waits for the other
    int i = threadIdx.x;
    if ((i & 1) == odd) { while (flag[i ^ 1] == 0) { } out[i] = flag[i ^ 1] * 2; }
    else { out[i] = i + 1; __threadfence(); flag[i] = i + 1; }
}
__global__ void warp_spin(volatile int* flag, int* out) { // warp w waits for warp w + 1
    int w = threadIdx.x / 32, last = blockDim.x / 32 - 1;
    if (w < last) while (flag[w + 1] == 0) { }
    if (threadIdx.x % 32 == 0) {
        int v = w == last ? 1 : 2 * flag[w + 1]; out[w] = v; __threadfence(); flag[w] = v;
    }
}
__global__ void block_spin(volatile int* flag, int* out) { // block b waits for block b + 1
    int b = blockIdx.x;
    if (threadIdx.x == 0) {
        if (b < gridDim.x - 1) while (flag[b + 1] == 0) { }
        int v = b == gridDim.x - 1 ? 1 : flag[b + 1] + 1;
        out[b] = v; __threadfence(); flag[b] = v;
    }
}
__global__ void grid_barrier(unsigned* counter, const int* x, int* y, int* out) {
    int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] * 2;
    __threadfence(); __syncthreads();
    if (threadIdx.x == 0) { atomicAdd(counter, 1); while (*(volatile unsigned*)counter < gridDim.x) { } }
    __syncthreads();
    out[i] = *(volatile int*)(y + n - 1 - i);
}
__global__ void look_back(unsigned* ticket, volatile long long* status, const int* x, int* out) {
    __shared__ int tile, base;                             // one element a thread, 32 a tile
    if (threadIdx.x == 0) tile = atomicAdd(ticket, 1);
    __syncthreads();
    int v = x[tile * 32 + threadIdx.x];
    for (int d = 1; d < 32; d *= 2) { int o = __shfl_up_sync(~0u, v, d); if (threadIdx.x >= d) v += o; }
    if (threadIdx.x == 31) {
        int sum = 0;
        if (tile > 0) { long long s; while ((s = status[tile - 1]) == 0) { } sum = (int)(s - 1); }
        status[tile] = (long long)(sum + v) + 1;
        base = sum;
    }
    __syncthreads();
    out[tile * 32 + threadIdx.x] = v + base;
}
__global__ void named_barriers(int* out) {     // two pairs of warps, each with a barrier of its own
    __shared__ int s[128];
    int t = threadIdx.x, pair = t / 64;
    s[t] = t * 3;
    if (pair == 0) asm volatile("bar.sync 1, 64;" ::: "memory");
    else asm volatile("bar.sync 2, 64;" ::: "memory");
    out[t] = s[t ^ 32];
}
__global__ void produce_consume(int* out) {                // bar.arrive by one warp, bar.sync by the other
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 32) { s[t] = 7 * t; __threadfence_block(); asm volatile("bar.arrive 3, 64;" ::: "memory"); }
    else { asm volatile("bar.sync 3, 64;" ::: "memory"); out[t - 32] = s[63 - t]; }
}
__global__ void block_votes(const int* x, int* out) {
    int t = threadIdx.x, v = x[t];
    int c = __syncthreads_count(v & 1), a = __syncthreads_and(v < 1000), o = __syncthreads_or(v == 77);
    int no = __syncthreads_or(v == 5000), not_all = __syncthreads_and(v > 3);
    out[t] = c + 10000 * a + 20000 * o + 40000 * no + 80000 * not_all;
}
__global__ void barrier_after_exit(int* out, int n) {      // threads that returned do not hold the others up
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = t;
    if (t >= n) return;
    __syncthreads();
    out[t] = s[n - 1 - t];
}
__global__ void half_reach(int* out) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;"); out[threadIdx.x] = 1;
}
__global__ void masked(const int* x, int* out) {           // shuffles and votes inside a branch, by mask
    int t = threadIdx.x, v = x[t], r;
    if (t % 3 == 0) {
        unsigned m = 0x49249249u;                          // lanes 0, 3, ..., 30
        r = __shfl_sync(m, v, (t + 3) % 33) + 1000 * __popc(__ballot_sync(m, v & 1));
        r += 100000 * __any_sync(m, v == x[30]) + 200000 * __all_sync(m, v == x[30]);
    } else {
        unsigned m = ~0x49249249u;
        r = __reduce_add_sync(m, v);
    }
    out[t] = r;
}
__global__ void shuffles(const int* x, int* out) {
    int t = threadIdx.x, v = x[t];
    out[t] = __shfl_up_sync(~0u, v, 3);
    out[32 + t] = __shfl_down_sync(~0u, v, 5, 16);
    out[64 + t] = __shfl_xor_sync(~0u, v, 9);
    out[96 + t] = __shfl_sync(~0u, v, 37 + t, 8);
}
__global__ void groups(const int* x, int* out) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int v = x[threadIdx.x];
    for (int d = tile.size() / 2; d > 0; d /= 2) v += tile.shfl_down(v, d);
    if (tile.thread_rank() == 0) out[threadIdx.x / 8] = v;
    if (threadIdx.x % 2) {
        auto active = cg::coalesced_threads(); out[64 + threadIdx.x] = active.thread_rank();
    }
}
__global__ void grid_sync(const int* x, int* y, int* out) {
    auto grid = cg::this_grid();
    int i = grid.thread_rank(), n = grid.size();
    y[i] = 5 * x[i];
    grid.sync();
    out[i] = y[n - 1 - i];
}
}
"""

ARCHES = ("sm_90", "sm_80")
LANES = np.arange(32)


@lru_cache(maxsize=2)
def module(arch: str) -> Module:
    return compile(SOURCE, arch=arch)


@pytest.fixture(params=ARCHES)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def zeros(n: int) -> np.ndarray:
    return np.zeros(n, np.int32)


def launch(arch: str, name: str, grid: Any, block: Any, *args: Any, **options: Any) -> list[Any]:
    """Outputs; the same launch traced must count without trouble and leave nothing different."""
    kernel = module(arch)[name]
    simulate(kernel, grid, block, args, budget=4_000_000, **options)
    return run(kernel, grid, block, args, budget=4_000_000, **options)


def test_trip_counts_differ(arch: str) -> None:
    n = (LANES * 7 % 19).astype(np.int32)
    want = []
    for count in n:
        s = 0
        for k in range(count):
            s += k * (1 if s & 1 else 3)
        want.append(s)
    assert launch(arch, "trips", 1, 32, n, zeros(32))[1].tolist() == want


def test_early_exit_leaves_the_others(arch: str) -> None:
    """21 of 32 lanes go on, then the 11 even ones of them."""
    out = launch(arch, "early_exit", 1, 32, zeros(32), np.int32(21))[0]
    assert out.tolist() == [0 if i >= 21 else 21 if i & 1 else 21 + 1100 for i in range(32)]


def test_nested_branches_meet_again(arch: str) -> None:
    x = (LANES * 5 % 8).astype(np.int32)
    want = [32 * ((v & 7) + (100 if v & 1 else 200)) for v in x]
    assert launch(arch, "nested", 1, 32, x, zeros(32))[1].tolist() == want


def test_break_continue_switch(arch: str) -> None:
    x = np.random.default_rng(7).integers(0, 60, 64).astype(np.int32)
    want = []
    for i in range(64):
        s = 0
        for k in range(64):
            v = int(x[(i + k) & 63])
            if v % 5 == 0:
                continue
            if v % 13 == 1:
                break
            case = v & 7
            s = (
                s + 1
                if case == 0
                else s + 110
                if case == 1
                else s + 100
                if case == 2
                else s ^ 0x55
                if case == 3
                else s - 7
                if case == 5
                else s * 3
                if case == 6
                else s + 5
            )
        want.append((s + 2**31) % 2**32 - 2**31)
    assert launch(arch, "loop_jumps", 1, 64, x, zeros(64))[1].tolist() == want


def test_calls_from_both_sides_of_a_branch(arch: str) -> None:
    def steps(v: int) -> int:
        n = 0
        while v != 1:
            v, n = (3 * v + 1 if v & 1 else v // 2), n + 1
        return n

    want = [steps(i + 1) if i & 1 else -steps(i + 2) for i in range(32)]
    assert launch(arch, "calls", 1, 32, zeros(32))[0].tolist() == want


def test_recursion_by_lanes_of_different_depth(arch: str) -> None:
    fib = [0, 1, 1, 2, 3, 5, 8, 13, 21]
    assert launch(arch, "recursion", 1, 64, zeros(64))[0].tolist() == [fib[i % 9] for i in range(64)]


def test_recursion_whose_stack_the_compiler_calls_empty(arch: str, tmp_path: Path) -> None:
    """CUDA 13.0 writes 0 for the stack that later compilers call unknown; the driver gives 1,024 bytes."""
    unknown = re.compile(rb"(\x04\x12\x08\x00....)\xff{4}", re.S)
    path = tmp_path / "recursion.cubin"
    path.write_bytes(unknown.sub(rb"\1\0\0\0\0", module(arch).cubin))
    kernel = load(path)["recursion"]
    assert kernel.local_bytes == 0 and kernel.stack_bytes == 1024
    fib = [0, 1, 1, 2, 3, 5, 8, 13, 21]
    assert run(kernel, 1, 64, [zeros(64)])[0].tolist() == [fib[i % 9] for i in range(64)]


def test_function_pointers(arch: str) -> None:
    want = [(2 * (i + 1), (i + 1) ** 2, -(i + 1))[i % 3] for i in range(32)]
    assert launch(arch, "pointers", 1, 32, zeros(32))[0].tolist() == want


def test_lanes_wait_for_lanes(arch: str) -> None:
    """Lane 31 starts with 2, each other lane has one more than its neighbour."""
    assert launch(arch, "lane_chain", 1, 32, zeros(32), zeros(32))[1].tolist() == list(range(33, 1, -1))


@pytest.mark.parametrize("odd", [0, 1])
def test_both_sides_of_a_branch_make_progress(arch: str, odd: int) -> None:
    """Independent thread scheduling: whichever side comes first, the one that spins lets the other run."""
    out = launch(arch, "lane_spin", 1, 32, zeros(32), zeros(32), np.int32(odd))[1]
    assert out.tolist() == [2 * ((i ^ 1) + 1) if (i & 1) == odd else i + 1 for i in range(32)]


def test_warps_wait_for_warps(arch: str) -> None:
    assert launch(arch, "warp_spin", 1, 256, zeros(8), zeros(8))[1].tolist() == [128, 64, 32, 16, 8, 4, 2, 1]


def test_blocks_wait_for_blocks(arch: str) -> None:
    out = launch(arch, "block_spin", 40, 64, zeros(40), zeros(40))[1]
    assert out.tolist() == list(range(40, 0, -1))


@pytest.mark.parametrize("blocks", [1, 33, 132])
def test_barrier_across_the_grid(arch: str, blocks: int) -> None:
    n = blocks * 64
    x = np.arange(n, dtype=np.int32)
    out = launch(arch, "grid_barrier", blocks, 64, np.zeros(1, np.uint32), x, zeros(n), zeros(n))
    assert out[0][0] == blocks
    assert np.array_equal(out[3], 2 * x[::-1])


def test_decoupled_look_back(arch: str) -> None:
    x = np.random.default_rng(3).integers(-50, 50, 32 * 61).astype(np.int32)
    out = launch(arch, "look_back", 61, 32, np.zeros(1, np.uint32), np.zeros(61, np.int64), x, zeros(x.size))
    assert np.array_equal(out[3], np.cumsum(x))


def test_named_barriers(arch: str) -> None:
    assert launch(arch, "named_barriers", 1, 128, zeros(128))[0].tolist() == [
        3 * (t ^ 32) for t in range(128)
    ]


def test_arrive_without_waiting(arch: str) -> None:
    out = launch(arch, "produce_consume", 1, 64, zeros(32))[0]
    assert out.tolist() == [7 * (31 - t) for t in range(32)]


@pytest.mark.parametrize("threads", [32, 96, 77])
def test_block_wide_votes(arch: str, threads: int) -> None:
    """Odd numbers counted; all below 1,000; 77 is there; 5,000 is not; not all above 3."""
    x = (np.arange(threads) * 3 % 80).astype(np.int32)
    x[5] = 77
    count = int((x & 1).sum())
    out = launch(arch, "block_votes", 1, threads, x, zeros(threads))[1]
    assert set(out.tolist()) == {count + 10_000 + 20_000}


@pytest.mark.parametrize("n", [128, 64, 50, 1])
def test_returned_threads_do_not_hold_a_barrier(arch: str, n: int) -> None:
    out = launch(arch, "barrier_after_exit", 1, 128, zeros(128), np.int32(n))[0]
    assert out.tolist() == list(range(n - 1, -1, -1)) + [0] * (128 - n)


def test_barrier_never_reached_is_a_deadlock(arch: str) -> None:
    with pytest.raises(Deadlock) as error:
        launch(arch, "half_reach", 1, 64, zeros(64))
    assert "warp 0 at barrier 1" in str(error.value) and "half_reach" in str(error.value)
    assert "CTA (0,0,0)" in str(error.value)


def test_masks_inside_a_branch(arch: str) -> None:
    """Lanes 0, 3, ..., 30 exchange among themselves (30 reads lane 0: 33 mod 33), the other 21 add up."""
    x = (LANES * LANES + 1).astype(np.int32)
    mine = LANES % 3 == 0
    odd = int((x[mine] & 1).sum())
    rest = int(x[~mine].sum())
    want = [x[(t + 3) % 33] + 1000 * odd + 100_000 if mine[t] else rest for t in range(32)]
    assert launch(arch, "masked", 1, 32, x, zeros(32))[1].tolist() == want


def test_shuffle_rules(arch: str) -> None:
    """Out of range means the lane's own value; an index is taken modulo the width, in the lane's segment."""
    x = (LANES * 10).astype(np.int32)
    out = launch(arch, "shuffles", 1, 32, x, zeros(128))[1].reshape(4, 32)
    assert out[0].tolist() == [10 * (t if t < 3 else t - 3) for t in range(32)]
    assert out[1].tolist() == [10 * (t + 5 if t % 16 + 5 < 16 else t) for t in range(32)]
    assert out[2].tolist() == [10 * (t ^ 9) for t in range(32)]
    assert out[3].tolist() == [10 * (t // 8 * 8 + (37 + t) % 8) for t in range(32)]


def test_cooperative_groups(arch: str) -> None:
    """Tiles of 8 add up; the 16 odd lanes of a warp are ranked among themselves."""
    x = np.arange(64, dtype=np.int32)
    out = launch(arch, "groups", 1, 64, x, zeros(128))[1]
    assert out[:8].tolist() == [sum(range(8 * k, 8 * k + 8)) for k in range(8)]
    assert out[64:].tolist() == [t % 32 // 2 if t % 2 else 0 for t in range(64)]


def test_grid_sync_of_cooperative_groups(arch: str) -> None:
    """It needs a cooperative launch: it works, or it ends with one sentence; it never hangs or lies."""
    x = np.arange(256, dtype=np.int32)
    try:
        out = launch(arch, "grid_sync", 4, 64, x, zeros(256), zeros(256))
    except GpusimError as error:
        assert "cooperative" in str(error)
    else:
        assert np.array_equal(out[2], 5 * x[::-1])

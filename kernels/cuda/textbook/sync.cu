// textbook: barriers, flags, asynchronous copies on int32 (exact); block (128,1,1)
// tb_named_barriers     warps 0-1 fill a two-slot ring, warps 2-3 drain it: bar.arrive / bar.sync with ids 1 to 4 and
//                       128 threads; out = 3 x + 1
// tb_flag_handoff       inside a warp: half the lanes write, __syncwarp, the others read; two masks
// tb_flag_spin          across warps: warp 0 publishes behind __threadfence_block, warps 1-3 spin on a volatile flag
// tb_early_exit         threads leave before warp-free code and whole warps before the block barrier
// tb_barrier_reduce     __syncthreads_count, _and, _or; out [3][n]
// tb_dynamic_shared     extern shared array split in two, reversal; dynamic shared 8 bytes a thread
// args of these: const int* x [n], int* out, int n; grid (n/128,1,1)
// tb_cp_async_stages    three-stage __pipeline_memcpy_async ring of 16-byte copies, one block walks n elements
// tb_cp_async_widths    4-, 8- and 16-byte copies, cp.async.cg and zero fill by a short source size
#include <cuda_pipeline.h>

__device__ __forceinline__ void bar_sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }
__device__ __forceinline__ void bar_arrive(int id) { asm volatile("bar.arrive %0, 128;" ::"r"(id) : "memory"); }

extern "C" __global__ void __launch_bounds__(128) tb_named_barriers(const int* x, int* out, int n) {
  __shared__ int ring[2][64];
  const int t = threadIdx.x & 63;
  const bool producer = threadIdx.x < 64;
  for (int i = 0; i < 4; ++i) {  // the block's 4 tiles of 64, slot i % 2; full barriers 1, 2, empty barriers 3, 4
    const int slot = i & 1, at = blockIdx.x * 256 + i * 64 + t;
    if (producer) {
      if (i >= 2) bar_sync(3 + slot);
      ring[slot][t] = at < n ? 3 * x[at] : 0;
      bar_arrive(1 + slot);
    } else {
      bar_sync(1 + slot);
      if (at < n) out[at] = ring[slot][t] + 1;
      if (i < 2) bar_arrive(3 + slot);
    }
  }
}

extern "C" __global__ void __launch_bounds__(128) tb_flag_handoff(const int* x, int* out, int n) {
  __shared__ volatile int box[128];
  const int i = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x & 31;
  if (lane < 16) box[threadIdx.x] = x[i] * 2;
  __syncwarp();
  int v = lane >= 16 ? box[threadIdx.x ^ 16] + x[i] : 0;
  if (lane >= 8 && lane < 24) {
    __syncwarp(0x00ffff00u);
    v += __shfl_xor_sync(0x00ffff00u, x[i], 7);
  }
  out[i] = v;
}

extern "C" __global__ void __launch_bounds__(128) tb_flag_spin(const int* x, int* out, int n) {
  __shared__ volatile int flag;
  __shared__ volatile int data[32];
  const int i = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x & 31;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    data[lane] = x[i] + 5;
    __threadfence_block();
    __syncwarp();
    if (lane == 0) flag = 1;
    out[i] = x[i];
  } else {
    while (flag == 0) {}
    __threadfence_block();
    out[i] = data[lane] * x[i];
  }
}

extern "C" __global__ void __launch_bounds__(128) tb_early_exit(const int* x, int* out, int n) {
  __shared__ int s[64];
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (threadIdx.x >= 64) {  // two warps never reach the barrier: it counts the threads that have not exited
    out[i] = x[i] - 1;
    return;
  }
  s[threadIdx.x] = x[i];
  __syncthreads();
  const int v = s[63 - threadIdx.x];
  if (v & 1) return;  // lanes leave one by one
  out[i] = v;
}

extern "C" __global__ void __launch_bounds__(128) tb_barrier_reduce(const int* x, int* out, int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  out[i] = __syncthreads_count(x[i] > 50);
  out[n + i] = __syncthreads_and(x[i] > 0) != 0;
  out[2 * n + i] = __syncthreads_or(x[i] == 99) != 0;
}

extern "C" __global__ void __launch_bounds__(128) tb_dynamic_shared(const int* x, int* out, int n) {
  extern __shared__ int dynamic[];
  int* first = dynamic;
  short* second = reinterpret_cast<short*>(dynamic + blockDim.x);
  const int i = blockIdx.x * blockDim.x + threadIdx.x, r = blockDim.x - 1 - threadIdx.x;
  first[threadIdx.x] = x[i];
  second[2 * threadIdx.x] = static_cast<short>(x[i] * 3);
  second[2 * threadIdx.x + 1] = static_cast<short>(-x[i]);
  __syncthreads();
  out[i] = first[r] * 1000 + second[2 * r] + second[2 * r + 1];
}

extern "C" __global__ void __launch_bounds__(128) tb_cp_async_stages(const int* x, int* out, int n) {
  constexpr int kStages = 3, kTile = 512;
  __shared__ __align__(16) int ring[kStages][kTile];
  const int t = threadIdx.x, tiles = n / kTile;
  for (int k = 0; k < kStages - 1; ++k) {
    if (k < tiles) __pipeline_memcpy_async(&ring[k][4 * t], x + k * kTile + 4 * t, 16);
    __pipeline_commit();
  }
  int sum[4] = {0, 0, 0, 0};
  for (int k = 0; k < tiles; ++k) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    const int next = k + kStages - 1;
    if (next < tiles) __pipeline_memcpy_async(&ring[next % kStages][4 * t], x + next * kTile + 4 * t, 16);
    __pipeline_commit();
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[j] += ring[k % kStages][t + 128 * j] * (k + 1);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) out[t + 128 * j] = sum[j];
}

extern "C" __global__ void __launch_bounds__(128) tb_cp_async_widths(const int* x, int* out, int n) {
  __shared__ __align__(16) int s[4][512];
  const int t = threadIdx.x;
  x += blockIdx.x * 512;
  out += blockIdx.x * 2048;
  for (int j = t; j < 512; j += 128) __pipeline_memcpy_async(&s[0][j], x + 511 - j, 4);
  for (int j = t; j < 256; j += 128) __pipeline_memcpy_async(&s[1][2 * j], x + 2 * (j ^ 1), 8);
  __pipeline_memcpy_async(&s[2][4 * t], x + 4 * t, 16, t & 3 ? 4 * (t & 3) : 0);  // the last 4*(t%4) bytes are zero
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&s[3][4 * (t ^ 2)]));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x + 4 * t) : "memory");
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  for (int j = t; j < 2048; j += 128) out[j] = s[0][j];
}

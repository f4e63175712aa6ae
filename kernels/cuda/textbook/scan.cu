// textbook: prefix sums of int32 (exact in any order)
// tb_scan_hillis_steele  inclusive, one block of 256, log2(n) steps in a double-buffered shared array
// tb_scan_blelloch       exclusive, one block of 256 threads on 512 elements, up-sweep and down-sweep: strides
//                        1, 2, 4, ... make bank conflicts that grow to 16-way
// tb_scan_shuffle        inclusive, one block a 256-element segment, __shfl_up_sync and one shared word a warp
// tb_scan_lookback       inclusive over the whole array in one pass: a ticket by atomicAdd orders the blocks, each
//                        publishes its aggregate, then its prefix, behind __threadfence and waits for its predecessors
// grid (n/256,1,1) (Hillis-Steele, Blelloch: (1,1,1)), block (256,1,1); args: const int* x [n], int* y [n], int n;
// look-back also: unsigned* ticket [1], volatile unsigned* flag [grid], volatile int* aggregate [grid],
// volatile int* prefix [grid], all zeroed
constexpr int kBlock = 256;

extern "C" __global__ void tb_scan_hillis_steele(const int* x, int* y, int n) {
  __shared__ int buf[2][kBlock];
  const int t = threadIdx.x;
  int cur = 0;
  buf[0][t] = t < n ? x[t] : 0;
  __syncthreads();
  for (int d = 1; d < kBlock; d *= 2) {
    buf[cur ^ 1][t] = t >= d ? buf[cur][t] + buf[cur][t - d] : buf[cur][t];
    cur ^= 1;
    __syncthreads();
  }
  if (t < n) y[t] = buf[cur][t];
}

extern "C" __global__ void tb_scan_blelloch(const int* x, int* y, int n) {
  __shared__ int s[2 * kBlock];
  const int t = threadIdx.x;
  for (int i = t; i < 2 * kBlock; i += kBlock) s[i] = i < n ? x[i] : 0;
  int offset = 1;
  for (int d = kBlock; d > 0; d >>= 1, offset *= 2) {
    __syncthreads();
    if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
  }
  if (t == 0) s[2 * kBlock - 1] = 0;
  for (int d = 1; d <= kBlock; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (t < d) {
      const int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
      const int left = s[a];
      s[a] = s[b];
      s[b] += left;
    }
  }
  __syncthreads();
  for (int i = t; i < n && i < 2 * kBlock; i += kBlock) y[i] = s[i];
}

__device__ __forceinline__ int block_inclusive(int v, int* warp_sums) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const int up = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += up;
  }
  if (lane == 31) warp_sums[warp] = v;
  __syncthreads();
  int before = 0;
  for (int w = 0; w < warp; ++w) before += warp_sums[w];
  return v + before;
}

extern "C" __global__ void __launch_bounds__(kBlock) tb_scan_shuffle(const int* x, int* y, int n) {
  __shared__ int warp_sums[kBlock / 32];
  const int i = blockIdx.x * kBlock + threadIdx.x;
  const int v = block_inclusive(i < n ? x[i] : 0, warp_sums);
  if (i < n) y[i] = v;
}

extern "C" __global__ void __launch_bounds__(kBlock) tb_scan_lookback(const int* x, int* y, int n, unsigned* ticket,
                                                                      volatile unsigned* flag, volatile int* aggregate,
                                                                      volatile int* prefix) {
  __shared__ int warp_sums[kBlock / 32];
  __shared__ unsigned tile_shared;
  __shared__ int before_shared;
  if (threadIdx.x == 0) tile_shared = atomicAdd(ticket, 1u);
  __syncthreads();
  const int tile = tile_shared, i = tile * kBlock + threadIdx.x;
  const int v = block_inclusive(i < n ? x[i] : 0, warp_sums);
  if (threadIdx.x == kBlock - 1) {
    aggregate[tile] = v;
    __threadfence();
    flag[tile] = 1u;
    int before = 0;
    for (int p = tile - 1; p >= 0;) {
      const unsigned state = flag[p];
      __threadfence();
      if (state == 0u) continue;
      if (state == 2u) { before += prefix[p]; break; }
      before += aggregate[p--];
    }
    prefix[tile] = before + v;
    __threadfence();
    flag[tile] = 2u;
    before_shared = before;
  }
  __syncthreads();
  if (i < n) y[i] = before_shared + v;
}

// id: E2   seed row: E2 reduction (sum)
// exercises: shared-memory tree with barriers, warp shuffles, float atomicAdd to one word as the finish
// entries: e2_reduce_tree, e2_reduce_shuffle, e2_reduce_divergent
// grid (blocks,1,1)  block (256,1,1)  dynamic shared 0 B;  args: const float* x [n], float* sum [1] (zeroed), int n
// expected access: coalesced loads (4 sectors a request); the sequential-addressing tree is conflict free (active
// lanes read consecutive words); the interleaved one (e2_reduce_divergent) strides 2, 4, 8, ... words, so its lanes
// conflict until fewer than 32/stride remain; one RED a block to one address
constexpr int kThreads = 256;

__device__ __forceinline__ float grid_stride_sum(const float* x, int n) {
  float v = 0.0f;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) v += x[i];
  return v;
}

extern "C" __global__ void __launch_bounds__(kThreads) e2_reduce_tree(const float* __restrict__ x,
                                                                      float* __restrict__ sum, int n) {
  __shared__ float part[kThreads];
  const int t = threadIdx.x;
  part[t] = grid_stride_sum(x, n);
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half >>= 1) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) atomicAdd(sum, part[0]);
}

extern "C" __global__ void __launch_bounds__(kThreads) e2_reduce_shuffle(const float* __restrict__ x,
                                                                         float* __restrict__ sum, int n) {
  __shared__ float part[kThreads / 32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float v = grid_stride_sum(x, n);
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  if (warp == 0) {
    v = lane < kThreads / 32 ? part[lane] : 0.0f;
#pragma unroll
    for (int d = kThreads / 64; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
    if (lane == 0) atomicAdd(sum, v);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) e2_reduce_divergent(const float* __restrict__ x,
                                                                           float* __restrict__ sum, int n) {
  __shared__ float part[kThreads];
  const int t = threadIdx.x;
  part[t] = grid_stride_sum(x, n);
  for (int step = 1; step < kThreads; step *= 2) {
    __syncthreads();
    const int i = 2 * step * t;
    if (i < kThreads) part[i] += part[i + step];
  }
  if (t == 0) atomicAdd(sum, part[0]);
}

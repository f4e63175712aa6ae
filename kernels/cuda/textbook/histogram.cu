// textbook: 256-bin histogram of bytes and of int32 keys (exact)
// tb_histogram_global      one atomicAdd to global memory an element
// tb_histogram_shared      shared atomics, one merge a block
// tb_histogram_privatised  one shared copy a warp, then a reduction over the copies
// grid (blocks,1,1)  block (256,1,1);  args: const unsigned char* x [n] (global, shared) or const int* keys [n]
// (privatised), unsigned* bins [256] (zeroed), int n
constexpr int kBins = 256, kWarps = 8;

extern "C" __global__ void tb_histogram_global(const unsigned char* x, unsigned* bins, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i]], 1u);
}

extern "C" __global__ void tb_histogram_shared(const unsigned char* x, unsigned* bins, int n) {
  __shared__ unsigned local[kBins];
  local[threadIdx.x] = 0u;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1u);
  __syncthreads();
  if (local[threadIdx.x]) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

extern "C" __global__ void tb_histogram_privatised(const int* keys, unsigned* bins, int n) {
  __shared__ unsigned local[kWarps][kBins];
  for (int i = threadIdx.x; i < kWarps * kBins; i += blockDim.x) local[0][i] = 0u;
  __syncthreads();
  unsigned* mine = local[threadIdx.x / 32];
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[keys[i] & (kBins - 1)], 1u);
  __syncthreads();
  unsigned total = 0u;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) total += local[w][threadIdx.x];
  atomicAdd(&bins[threadIdx.x], total);
}

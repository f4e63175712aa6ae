// textbook: communication between blocks through memory
// tb_grid_barrier    every block must be resident: `rounds` times y[i] = x[i-1] + x[i+1] (wrapping, integers) with a
//                    barrier over all blocks built on atomics between rounds; grid (n/128,1,1), block (128,1,1);
//                    args: int* a [n], int* b [n], int n, int rounds, unsigned* arrived [1] (zeroed)
// tb_last_block_sum  each block writes a partial sum, the last one to finish (atomicInc behind __threadfence) adds
//                    them up; args: const int* x [n], int* partial [grid], int* sum [1], unsigned* done [1], int n
extern "C" __global__ void __launch_bounds__(128) tb_grid_barrier(int* a, int* b, int n, int rounds,
                                                                  unsigned* arrived) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int r = 0; r < rounds; ++r) {
    const int left = __ldcg(a + (i + n - 1) % n), right = __ldcg(a + (i + 1) % n);
    b[i] = left + right;
    int* swap = a; a = b; b = swap;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicAdd(arrived, 1u);
      while (*reinterpret_cast<volatile unsigned*>(arrived) < (r + 1u) * gridDim.x) {}
      __threadfence();
    }
    __syncthreads();
  }
}

__device__ __forceinline__ int block_sum(int v, int* part) {
  v = __reduce_add_sync(0xffffffffu, v);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  return part[0] + part[1] + part[2] + part[3];
}

extern "C" __global__ void __launch_bounds__(128) tb_last_block_sum(const int* x, int* partial, int* sum,
                                                                    unsigned* done, int n) {
  __shared__ int part[4];
  __shared__ bool last;
  int v = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) v += x[i];
  const int total = block_sum(v, part);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = total;
    __threadfence();
    last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  v = 0;
  for (int i = threadIdx.x; i < gridDim.x; i += 128) v += *reinterpret_cast<volatile int*>(partial + i);
  const int all = block_sum(v, part);
  if (threadIdx.x == 0) *sum = all;
}

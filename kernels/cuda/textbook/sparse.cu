// textbook: irregular gathers.  Rows are given by begin[] and count[] (four-array CSR), so random data is a valid matrix
// tb_bfs_level     one level step: vertices at `level` reach unvisited (0) neighbours; racing stores agree;
//                  block (128,1,1); args: const int* begin [v], const int* degree [v], const int* neighbour [e],
//                  int* level [v], int vertices, int current
// tb_spmv_scalar   one row a thread: lanes walk different rows (uncoalesced, divergent trip counts)
// tb_spmv_vector   one row a warp, shuffle reduction; block (32,4,1)
// args: const int* begin [m], const int* count [m], const int* column [e], const float* value [e],
//       const float* x [n], float* y [m], int m
extern "C" __global__ void tb_bfs_level(const int* __restrict__ begin, const int* __restrict__ degree,
                                        const int* __restrict__ neighbour, int* level, int vertices, int current) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= vertices || level[v] != current) return;
  for (int e = begin[v]; e < begin[v] + degree[v]; ++e) {
    const int w = neighbour[e];
    if (level[w] == 0) level[w] = current + 1;
  }
}

extern "C" __global__ void tb_spmv_scalar(const int* __restrict__ begin, const int* __restrict__ count,
                                          const int* __restrict__ column, const float* __restrict__ value,
                                          const float* __restrict__ x, float* __restrict__ y, int m) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m) return;
  float sum = 0.0f;
  const int first = begin[row], end = first + count[row];
  for (int e = first; e < end; ++e) sum += value[e] * x[column[e]];
  y[row] = sum;
}

extern "C" __global__ void tb_spmv_vector(const int* __restrict__ begin, const int* __restrict__ count,
                                          const int* __restrict__ column, const float* __restrict__ value,
                                          const float* __restrict__ x, float* __restrict__ y, int m) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= m) return;
  float sum = 0.0f;
  const int first = begin[row], end = first + count[row];
  for (int e = first + threadIdx.x; e < end; e += 32) sum += value[e] * x[column[e]];
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (threadIdx.x == 0) y[row] = sum;
}

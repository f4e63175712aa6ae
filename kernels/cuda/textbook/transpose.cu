// textbook: transposes of an n x n fp32 matrix, 32x32 tiles, block (32,8,1), grid (n/32,n/32,1), n a multiple of 32
// tb_transpose_naive     column stores: 32 sectors a store request
// tb_transpose_shared    32x32 tile without padding: the column read conflicts 32-way
// tb_transpose_padded    pitch 33: no conflict
// tb_transpose_diagonal  padded, blocks reordered along diagonals
// tb_transpose_shuffle   32x32 tile held by one warp (a row a lane register set), five exchange steps by
//                        __shfl_xor_sync; block (32,1,1)
// args: const float* x [n*n], float* y [n*n], int n
constexpr int kTile = 32, kRows = 8;

extern "C" __global__ void tb_transpose_naive(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int c = blockIdx.x * kTile + threadIdx.x, r = blockIdx.y * kTile + threadIdx.y;
  for (int j = 0; j < kTile; j += kRows) y[c * n + r + j] = x[(r + j) * n + c];
}

template <int PITCH>
__device__ __forceinline__ void transpose_tile(const float* x, float* y, int n, int bx, int by) {
  __shared__ float tile[kTile][PITCH];
  int c = bx * kTile + threadIdx.x, r = by * kTile + threadIdx.y;
#pragma unroll
  for (int j = 0; j < kTile; j += kRows) tile[threadIdx.y + j][threadIdx.x] = x[(r + j) * n + c];
  __syncthreads();
  c = by * kTile + threadIdx.x;
  r = bx * kTile + threadIdx.y;
#pragma unroll
  for (int j = 0; j < kTile; j += kRows) y[(r + j) * n + c] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void tb_transpose_shared(const float* __restrict__ x, float* __restrict__ y, int n) {
  transpose_tile<kTile>(x, y, n, blockIdx.x, blockIdx.y);
}
extern "C" __global__ void tb_transpose_padded(const float* __restrict__ x, float* __restrict__ y, int n) {
  transpose_tile<kTile + 1>(x, y, n, blockIdx.x, blockIdx.y);
}
extern "C" __global__ void tb_transpose_diagonal(const float* __restrict__ x, float* __restrict__ y, int n) {
  transpose_tile<kTile + 1>(x, y, n, (blockIdx.x + blockIdx.y) % gridDim.x, blockIdx.x);
}

extern "C" __global__ void __launch_bounds__(32) tb_transpose_shuffle(const float* __restrict__ x,
                                                                      float* __restrict__ y, int n) {
  const int lane = threadIdx.x;
  float v[kTile];
#pragma unroll
  for (int j = 0; j < kTile; ++j) v[j] = x[(blockIdx.y * kTile + j) * n + blockIdx.x * kTile + lane];
#pragma unroll
  for (int d = 1; d < kTile; d *= 2) {
#pragma unroll
    for (int j = 0; j < kTile; ++j) {
      if (j & d) continue;  // pairs (j, j+d): swap the off-diagonal halves between lanes that differ in bit d
      const bool high = lane & d;
      const float got = __shfl_xor_sync(0xffffffffu, high ? v[j] : v[j + d], d);
      if (high) v[j] = got; else v[j + d] = got;
    }
  }
#pragma unroll
  for (int j = 0; j < kTile; ++j) y[(blockIdx.x * kTile + j) * n + blockIdx.y * kTile + lane] = v[j];
}

// id: E4   seed row: E4 shared matmul with bounds checks, TILE 8, 16, 32;  E5 As[16][17] padding
// exercises: square shared tiles, zero fill outside the matrix, two barriers a tile, ragged M, N, K
// entries: e4_matmul_tile8, e4_matmul_tile16, e4_matmul_tile32 (E4), e5_matmul_tile16_pad (E5)
// grid (ceil(N/T),ceil(M/T),1)  block (T,T,1)  dynamic shared 0 B
// args: const float* A [M*K], const float* B [K*N], float* C [M*N], int M, int N, int K
// expected access: As[ty][k] is the same word for the lanes of one ty (32/T distinct words a warp: a broadcast);
// Bs[k][tx] is consecutive words, so neither read conflicts at T = 16 or 32. The pad changes no read of this kernel:
// As[ty][k] with two ty a warp touches two words whatever the pitch
template <int T, int PITCH>
__device__ __forceinline__ void matmul_tile(const float* __restrict__ A, const float* __restrict__ B,
                                            float* __restrict__ C, int M, int N, int K) {
  __shared__ float As[T][PITCH];
  __shared__ float Bs[T][PITCH];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
  float acc = 0.0f;
  for (int k0 = 0; k0 < K; k0 += T) {
    As[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;
    Bs[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < T; ++k) acc += As[ty][k] * Bs[k][tx];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = acc;
}

#define MATMUL_ENTRY(name, T, PITCH)                                                                     \
  extern "C" __global__ void __launch_bounds__((T) * (T))                                                \
      name(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) { \
    matmul_tile<T, PITCH>(A, B, C, M, N, K);                                                             \
  }

MATMUL_ENTRY(e4_matmul_tile8, 8, 8)
MATMUL_ENTRY(e4_matmul_tile16, 16, 16)
MATMUL_ENTRY(e4_matmul_tile32, 32, 32)
MATMUL_ENTRY(e5_matmul_tile16_pad, 16, 17)

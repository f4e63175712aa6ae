// id: D0   seed row: D0 naive half-precision GEMM;  D1 shared tile
// exercises: 16-bit operands, fp32 accumulator, one output a thread; D1 stages 32x32 tiles in shared memory
// entries: d0_gemm_naive (fp16), d0_gemm_naive_bf16: grid (ceil(N/32),ceil(M/8),1)  block (32,8,1)
//          d1_gemm_shared (fp16), d1_gemm_shared_bf16: grid (ceil(N/32),ceil(M/32),1)  block (32,8,1), 4 rows a thread
// args: const T* A [M*K], const T* B [K*N], float* C [M*N], int M, int N, int K; any sizes; dynamic shared 0 B
// expected access: D0: A one broadcast word (1 sector), B 64 consecutive bytes (2 sectors) a request; D1: 64-byte rows
// into shared memory (2 sectors); As[row][k] broadcast, Bs[k][lane] 16 words (two lanes a word): no conflict
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ float widen(__half v) { return __half2float(v); }
__device__ __forceinline__ float widen(__nv_bfloat16 v) { return __bfloat162float(v); }

template <typename T>
__device__ __forceinline__ void gemm_naive(const T* __restrict__ A, const T* __restrict__ B, float* __restrict__ C, int M,
                                           int N, int K) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  float acc = 0.0f;
  for (int k = 0; k < K; ++k) acc += widen(A[row * K + k]) * widen(B[k * N + col]);
  C[row * N + col] = acc;
}

template <typename T>
__device__ __forceinline__ void gemm_shared(const T* __restrict__ A, const T* __restrict__ B, float* __restrict__ C,
                                            int M, int N, int K) {
  constexpr int kTile = 32, kRows = 8;
  __shared__ T As[kTile][kTile];
  __shared__ T Bs[kTile][kTile];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row0 = blockIdx.y * kTile, col = blockIdx.x * kTile + tx;
  const T zero = T(0.0f);
  float acc[kTile / kRows] = {};
  for (int k0 = 0; k0 < K; k0 += kTile) {
#pragma unroll
    for (int r = ty; r < kTile; r += kRows) {
      As[r][tx] = row0 + r < M && k0 + tx < K ? A[(row0 + r) * K + k0 + tx] : zero;
      Bs[r][tx] = k0 + r < K && col < N ? B[(k0 + r) * N + col] : zero;
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < kTile; ++k) {
      const float b = widen(Bs[k][tx]);
#pragma unroll
      for (int i = 0; i < kTile / kRows; ++i) acc[i] += widen(As[ty + i * kRows][k]) * b;
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kTile / kRows; ++i) {
    const int row = row0 + ty + i * kRows;
    if (row < M && col < N) C[row * N + col] = acc[i];
  }
}

#define ENTRY(name, body, T)                                                                                 \
  extern "C" __global__ void __launch_bounds__(256) name(const T* __restrict__ A, const T* __restrict__ B,   \
                                                         float* __restrict__ C, int M, int N, int K) {       \
    body<T>(A, B, C, M, N, K);                                                                               \
  }

ENTRY(d0_gemm_naive, gemm_naive, __half)
ENTRY(d0_gemm_naive_bf16, gemm_naive, __nv_bfloat16)
ENTRY(d1_gemm_shared, gemm_shared, __half)
ENTRY(d1_gemm_shared_bf16, gemm_shared, __nv_bfloat16)

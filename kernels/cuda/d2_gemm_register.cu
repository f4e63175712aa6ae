// id: D2   seed row: D2 register tile, 128-bit loads;  D3 padding: PAD=1 against a pad of 16 bytes
// exercises: 64x64x32 block tile, 4x4 results a thread, 8 halves a global load, three shared-memory pitches
// entries: d2_gemm_register  As pitch 32, Bs pitch 64, 16-byte shared stores
//          d3_gemm_pad1      pitches 33 and 65: rows are no longer 16-byte aligned, so staging falls back to 2-byte
//                            stores and Bs is read one half at a time
//          d3_gemm_pad16     pitches 40 and 72: aligned, 16-byte shared stores stay
// grid (ceil(N/64),ceil(M/64),1)  block (16,16,1)  dynamic shared 0 B
// args: const half* A [M*K], const half* B [K*N], float* C [M*N], int M, int N, int K; N and K multiples of 8
// expected access: A tile rows of 64 bytes (a warp: 8 rows, 16 sectors), B tile rows of 128 bytes (4 rows, 16 sectors);
// As[4*ty+i][k]: two words 4 rows apart, in one bank at pitch 32 (2-way), in two at 33 and at 40
#include <cuda_fp16.h>

constexpr int BM = 64, BN = 64, BK = 32, TM = 4, TN = 4;

template <int PAD>
__device__ __forceinline__ void stage(__half* to, const uint4& eight) {
  if (PAD % 8 == 0) {
    *reinterpret_cast<uint4*>(to) = eight;
  } else {
    const __half* h = reinterpret_cast<const __half*>(&eight);
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = h[i];
  }
}

template <int PAD>
__device__ __forceinline__ void gemm_register(const __half* __restrict__ A, const __half* __restrict__ B,
                                              float* __restrict__ C, int M, int N, int K) {
  __shared__ __align__(16) __half As[BM][BK + PAD];
  __shared__ __align__(16) __half Bs[BK][BN + PAD];
  const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int ar = t / (BK / 8), ac = t % (BK / 8) * 8;  // one 8-half load of A and one of B a thread
  const int br = t / (BN / 8), bc = t % (BN / 8) * 8;
  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    uint4 a = make_uint4(0u, 0u, 0u, 0u), b = a;
    if (row0 + ar < M && k0 + ac < K) a = *reinterpret_cast<const uint4*>(A + (row0 + ar) * K + k0 + ac);
    if (k0 + br < K && col0 + bc < N) b = *reinterpret_cast<const uint4*>(B + (k0 + br) * N + col0 + bc);
    stage<PAD>(&As[ar][ac], a);
    stage<PAD>(&Bs[br][bc], b);
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < BK; ++k) {
      float fa[TM], fb[TN];
#pragma unroll
      for (int i = 0; i < TM; ++i) fa[i] = __half2float(As[ty * TM + i][k]);
      if (PAD % 8 == 0) {
        const uint2 four = *reinterpret_cast<const uint2*>(&Bs[k][tx * TN]);
        const float2 lo = __half22float2(reinterpret_cast<const __half2&>(four.x));
        const float2 hi = __half22float2(reinterpret_cast<const __half2&>(four.y));
        fb[0] = lo.x; fb[1] = lo.y; fb[2] = hi.x; fb[3] = hi.y;
      } else {
#pragma unroll
        for (int j = 0; j < TN; ++j) fb[j] = __half2float(Bs[k][tx * TN + j]);
      }
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] += fa[i] * fb[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int row = row0 + ty * TM + i, col = col0 + tx * TN;
    if (row < M && col < N)
      *reinterpret_cast<float4*>(C + row * N + col) = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
  }
}

#define ENTRY(name, PAD)                                                                                          \
  extern "C" __global__ void __launch_bounds__(256) name(const __half* __restrict__ A, const __half* __restrict__ B, \
                                                         float* __restrict__ C, int M, int N, int K) {            \
    gemm_register<PAD>(A, B, C, M, N, K);                                                                         \
  }

ENTRY(d2_gemm_register, 0)
ENTRY(d3_gemm_pad1, 1)
ENTRY(d3_gemm_pad16, 8)

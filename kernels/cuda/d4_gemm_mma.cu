// id: D4   seed row: D4 matrix instructions (ldmatrix + mma.sync.m16n8k16);  D5 fused epilogue;  D6 tile table
// exercises: template <BM, BN, BK>, 4 warps of (BM/2)x(BN/2), rows padded by 16 bytes, fp32 accumulators in registers
// for the whole K loop, an epilogue functor
// entries: d4_gemm_mma (fp16), d4_gemm_mma_bf16: 64x64x32, C fp32
//          d5_gemm_bias_relu, d5_gemm_bias_gelu (tanhf), d5_gemm_bias_silu (expf): C = act(A B + bias) + residual, fp16
//          d6_gemm_BMxBNxBK, BM, BN in {32, 64, 128}, BK in {16, 32, 64} (-DD6_TILES): C fp32
// grid (ceil(N/BN),ceil(M/BM),1)  block (128,1,1)  dynamic shared 0 B
// args: const T* A [M*K], const T* B [K*N], (D5: const half* bias [N], const half* residual [M*N],) C [M*N],
//       int M, int N, int K; N and K multiples of 8
// expected access: 16-byte global loads, 2*BK bytes a row of A, 2*BN bytes a row of B; ldmatrix on pitches BK+8 and
// BN+8 halves: eight rows fall into eight different groups of four banks, no conflict
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void ldmatrix(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
}

__device__ __forceinline__ void ldmatrix_trans(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
}

template <typename T>
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);

template <>
__device__ __forceinline__ void mma<__half>(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma<__nv_bfloat16>(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Eight 16-bit elements of row r, or zeros outside the matrix.
template <typename T>
__device__ __forceinline__ uint4 load8(const T* p, int r, int c, int rows, int cols) {
  return r < rows && c < cols ? *reinterpret_cast<const uint4*>(p + static_cast<long long>(r) * cols + c)
                              : make_uint4(0u, 0u, 0u, 0u);
}

template <typename T, int BM, int BN, int BK, typename Epilogue>
__device__ __forceinline__ void gemm_tile(const T* __restrict__ A, const T* __restrict__ B, int M, int N, int K,
                                          Epilogue epilogue) {
  constexpr int kThreads = 128, PA = BK + 8, PB = BN + 8, WM = BM / 2, WN = BN / 2, kM = WM / 16, kN = WN / 8;
  __shared__ __align__(16) T As[BM * PA];
  __shared__ __align__(16) T Bs[BK * PB];
  const int t = threadIdx.x, lane = t & 31, wm = (t >> 6) * WM, wn = (t >> 5 & 1) * WN;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  float acc[kM][kN][4] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
    for (int i = 8 * t; i < BM * BK; i += 8 * kThreads)
      *reinterpret_cast<uint4*>(As + i / BK * PA + i % BK) = load8(A, row0 + i / BK, k0 + i % BK, M, K);
#pragma unroll
    for (int i = 8 * t; i < BK * BN; i += 8 * kThreads)
      *reinterpret_cast<uint4*>(Bs + i / BN * PB + i % BN) = load8(B, k0 + i / BN, col0 + i % BN, K, N);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      unsigned a[kM][4], b[kN / 2][4];
#pragma unroll
      for (int i = 0; i < kM; ++i) ldmatrix(a[i], As + (wm + 16 * i + (lane & 15)) * PA + k + 8 * (lane >> 4));
#pragma unroll
      for (int j = 0; j < kN / 2; ++j)
        ldmatrix_trans(b[j], Bs + (k + (lane & 15)) * PB + wn + 16 * j + 8 * (lane >> 4));
#pragma unroll
      for (int i = 0; i < kM; ++i)
#pragma unroll
        for (int j = 0; j < kN; ++j) mma<T>(acc[i][j], a[i], b[j / 2][2 * (j & 1)], b[j / 2][2 * (j & 1) + 1]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kM; ++i)
#pragma unroll
    for (int j = 0; j < kN; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {  // rows g and g + 8 of the fragment
        const int row = row0 + wm + 16 * i + 8 * h + (lane >> 2), col = col0 + wn + 8 * j + 2 * (lane & 3);
        if (row < M && col < N) epilogue(static_cast<long long>(row) * N + col, col, acc[i][j][2 * h], acc[i][j][2 * h + 1]);
      }
}

struct StoreFloat {
  float* C;
  __device__ __forceinline__ void operator()(long long at, int, float v0, float v1) const {
    *reinterpret_cast<float2*>(C + at) = make_float2(v0, v1);
  }
};

struct Relu { static __device__ __forceinline__ float of(float x) { return fmaxf(x, 0.0f); } };
struct Gelu {
  static __device__ __forceinline__ float of(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
  }
};
struct Silu { static __device__ __forceinline__ float of(float x) { return x / (1.0f + expf(-x)); } };

template <typename Act>
struct BiasActResidual {
  const __half *bias, *residual;
  __half* C;
  __device__ __forceinline__ void operator()(long long at, int col, float v0, float v1) const {
    const float2 b = __half22float2(*reinterpret_cast<const __half2*>(bias + col));
    const float2 r = __half22float2(*reinterpret_cast<const __half2*>(residual + at));
    *reinterpret_cast<__half2*>(C + at) = __floats2half2_rn(Act::of(v0 + b.x) + r.x, Act::of(v1 + b.y) + r.y);
  }
};

#define PLAIN_ENTRY(name, T, BM, BN, BK)                                                                      \
  extern "C" __global__ void __launch_bounds__(128) name(const T* __restrict__ A, const T* __restrict__ B,    \
                                                         float* __restrict__ C, int M, int N, int K) {        \
    gemm_tile<T, BM, BN, BK>(A, B, M, N, K, StoreFloat{C});                                                   \
  }
#define FUSED_ENTRY(name, Act)                                                                                \
  extern "C" __global__ void __launch_bounds__(128) name(                                                     \
      const __half* __restrict__ A, const __half* __restrict__ B, const __half* __restrict__ bias,            \
      const __half* __restrict__ residual, __half* __restrict__ C, int M, int N, int K) {                     \
    gemm_tile<__half, 64, 64, 32>(A, B, M, N, K, BiasActResidual<Act>{bias, residual, C});                    \
  }

#ifndef D6_TILES
PLAIN_ENTRY(d4_gemm_mma, __half, 64, 64, 32)
PLAIN_ENTRY(d4_gemm_mma_bf16, __nv_bfloat16, 64, 64, 32)
FUSED_ENTRY(d5_gemm_bias_relu, Relu)
FUSED_ENTRY(d5_gemm_bias_gelu, Gelu)
FUSED_ENTRY(d5_gemm_bias_silu, Silu)
#else
#define TILE_ENTRY(name, BM, BN, BK) PLAIN_ENTRY(name, __half, BM, BN, BK)
TILE_ENTRY(d6_gemm_32x32x16, 32, 32, 16)
TILE_ENTRY(d6_gemm_32x32x32, 32, 32, 32)
TILE_ENTRY(d6_gemm_32x32x64, 32, 32, 64)
TILE_ENTRY(d6_gemm_32x64x16, 32, 64, 16)
TILE_ENTRY(d6_gemm_32x64x32, 32, 64, 32)
TILE_ENTRY(d6_gemm_32x64x64, 32, 64, 64)
TILE_ENTRY(d6_gemm_32x128x16, 32, 128, 16)
TILE_ENTRY(d6_gemm_32x128x32, 32, 128, 32)
TILE_ENTRY(d6_gemm_32x128x64, 32, 128, 64)
TILE_ENTRY(d6_gemm_64x32x16, 64, 32, 16)
TILE_ENTRY(d6_gemm_64x32x32, 64, 32, 32)
TILE_ENTRY(d6_gemm_64x32x64, 64, 32, 64)
TILE_ENTRY(d6_gemm_64x64x16, 64, 64, 16)
TILE_ENTRY(d6_gemm_64x64x32, 64, 64, 32)
TILE_ENTRY(d6_gemm_64x64x64, 64, 64, 64)
TILE_ENTRY(d6_gemm_64x128x16, 64, 128, 16)
TILE_ENTRY(d6_gemm_64x128x32, 64, 128, 32)
TILE_ENTRY(d6_gemm_64x128x64, 64, 128, 64)
TILE_ENTRY(d6_gemm_128x32x16, 128, 32, 16)
TILE_ENTRY(d6_gemm_128x32x32, 128, 32, 32)
TILE_ENTRY(d6_gemm_128x32x64, 128, 32, 64)
TILE_ENTRY(d6_gemm_128x64x16, 128, 64, 16)
TILE_ENTRY(d6_gemm_128x64x32, 128, 64, 32)
TILE_ENTRY(d6_gemm_128x64x64, 128, 64, 64)
TILE_ENTRY(d6_gemm_128x128x16, 128, 128, 16)
TILE_ENTRY(d6_gemm_128x128x32, 128, 128, 32)
TILE_ENTRY(d6_gemm_128x128x64, 128, 128, 64)
#endif

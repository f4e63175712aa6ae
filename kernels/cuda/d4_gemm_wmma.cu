// id: D4   seed row: D4 matrix instructions, through <mma.h>
// exercises: wmma fragments 16x16x16, fp16 in, fp32 accumulate; 64x64x32 block tile, 4 warps of 32x32
// entry d4_gemm_wmma   grid (ceil(N/64),ceil(M/64),1)  block (128,1,1)  dynamic shared 0 B
// args: const half* A [M*K], const half* B [K*N], float* C [M*N], int M, int N, int K; N and K multiples of 8
// expected access: 16-byte global loads and shared stores at pitches 40 and 72 halves (a pad of 16 bytes keeps both
// the alignment and the fragment loads free of conflicts); results leave through a shared tile for the ragged edge
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void __launch_bounds__(128) d4_gemm_wmma(const __half* __restrict__ A,
                                                               const __half* __restrict__ B, float* __restrict__ C,
                                                               int M, int N, int K) {
  constexpr int BM = 64, BN = 64, BK = 32, PA = BK + 8, PB = BN + 8, PC = BN + 4;
  __shared__ __align__(32) __half As[BM * PA];
  __shared__ __align__(32) __half Bs[BK * PB];
  __shared__ __align__(32) float Cs[BM * PC];
  const int t = threadIdx.x, warp = t / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) wmma::fill_fragment(acc[i / 2][i % 2], 0.0f);
  for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
    for (int i = 8 * t; i < BM * BK; i += 8 * 128) {
      const int ar = i / BK, ac = i % BK, br = i / BN, bc = i % BN;
      uint4 a = make_uint4(0u, 0u, 0u, 0u), b = a;
      if (row0 + ar < M && k0 + ac < K) a = *reinterpret_cast<const uint4*>(A + (row0 + ar) * K + k0 + ac);
      if (k0 + br < K && col0 + bc < N) b = *reinterpret_cast<const uint4*>(B + (k0 + br) * N + col0 + bc);
      *reinterpret_cast<uint4*>(As + ar * PA + ac) = a;
      *reinterpret_cast<uint4*>(Bs + br * PB + bc) = b;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(a[i], As + (wm + 16 * i) * PA + k, PA);
        wmma::load_matrix_sync(b[i], Bs + k * PB + wn + 16 * i, PB);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) wmma::mma_sync(acc[i / 2][i % 2], a[i / 2], b[i % 2], acc[i / 2][i % 2]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    wmma::store_matrix_sync(Cs + (wm + 16 * (i / 2)) * PC + wn + 16 * (i % 2), acc[i / 2][i % 2], PC,
                            wmma::mem_row_major);
  __syncthreads();
  for (int i = 4 * t; i < BM * BN; i += 4 * 128) {
    const int r = i / BN, c = i % BN;
    if (row0 + r < M && col0 + c < N)
      *reinterpret_cast<float4*>(C + (row0 + r) * N + col0 + c) = *reinterpret_cast<const float4*>(Cs + r * PC + c);
  }
}

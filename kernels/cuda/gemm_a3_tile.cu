// A3  shared-memory tile, one output a thread, two barriers a tile.
// Seed row A3. Exercises: staging through shared memory; every element of A is read N/BN times and every
// element of B M/BM times from global memory instead of N and M times.
// Launch: gemm_a3_tile16   block 16x16, tile BM=16 BN=16 BK=16;
//         gemm_a3_tile32   block 32x32, tile BM=32 BN=32 BK=32;
//         gemm_a3_tile32x8 block 32x8,  tile BM=8  BN=32 BK=32 (a flat tile: four elements of B staged a thread).
// Grid (N/BN, M/BM). M, N, K multiples of the tile.
// Expected a warp: As[ty][k] is one word (32 wide) or two words in different banks (16 wide): a broadcast,
// never a conflict; Bs[k][tx] is a row read, 32 or 16 consecutive words; both stores conflict-free.
#include "sgemm_common.cuh"

template <int BM, int BN, int BK>
__device__ __forceinline__ void tile_gemm(int N, int K, float alpha, const float *A, const float *B, float beta,
                                          float *C)
{
    constexpr int threads = BM * BN;
    static_assert(BM * BK % threads == 0 && BK * BN % threads == 0, "every thread stages the same number");

    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const int tx = threadIdx.x, ty = threadIdx.y;
    const int tid = ty * BN + tx;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int first = 0; first < BM * BK; first += threads) {
            const int i = first + tid;
            As[i / BK][i % BK] = A[(row0 + i / BK) * K + k0 + i % BK];
        }
#pragma unroll
        for (int first = 0; first < BK * BN; first += threads) {
            const int i = first + tid;
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + col0 + i % BN];
        }
        __syncthreads(); // the tile is complete

#pragma unroll
        for (int k = 0; k < BK; ++k)
            acc += As[ty][k] * Bs[k][tx];
        __syncthreads(); // nobody reads it any more
    }

    float *c = &C[(row0 + ty) * N + col0 + tx];
    *c = epilogue(alpha, acc, beta, *c);
}

extern "C" __global__ void __launch_bounds__(256) gemm_a3_tile16(int M, int N, int K, float alpha, const float *A,
                                                                 const float *B, float beta, float *C)
{
    tile_gemm<16, 16, 16>(N, K, alpha, A, B, beta, C);
}

extern "C" __global__ void __launch_bounds__(1024) gemm_a3_tile32(int M, int N, int K, float alpha, const float *A,
                                                                  const float *B, float beta, float *C)
{
    tile_gemm<32, 32, 32>(N, K, alpha, A, B, beta, C);
}

extern "C" __global__ void __launch_bounds__(256) gemm_a3_tile32x8(int M, int N, int K, float alpha, const float *A,
                                                                   const float *B, float beta, float *C)
{
    tile_gemm<8, 32, 32>(N, K, alpha, A, B, beta, C);
}

// A5  two-dimensional register tile: a thread computes TM x TN results as outer products.
// Seed row A5. Exercises: (TM+TN) shared words feed TM*TN FMAs; registers become the first-level store.
// Launch: block 256 (1-D), tile BM=BN=128 BK=8, TM=TN=8; grid (N/128, M/128). M, N multiples of 128, K of 8.
// Expected a warp: two rows of threads (ty) and 16 columns (tx). As[ty*8+i][k]: two words 64 apart, 2-way
// if read word by word, ideal (2 wavefronts) once ptxas merges four k into one 128-bit read;
// Bs[k][tx*8+j]: stride 8 words over 16 lanes, 4-way word by word, 8 wavefronts instead of 4 as a 128-bit read
// (eight lanes touch four quads of banks twice).  C: scalar, 16 lanes with stride 8 words, 16 sectors a row.
#include "sgemm_common.cuh"

extern "C" __global__ void __launch_bounds__(256) gemm_a5_tile2d(int M, int N, int K, float alpha, const float *A,
                                                                 const float *B, float beta, float *C)
{
    constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;
    constexpr int threads = BM / TM * (BN / TN);

    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const int tid = threadIdx.x;
    const int tx = tid % (BN / TN), ty = tid / (BN / TN);

    // Staging: 1,024 elements of each operand, four a thread, a row of the tile by neighbouring threads.
    const int a_row = tid / BK, a_col = tid % BK; // rows a_row, a_row + 32, ...
    const int b_row = tid / BN, b_col = tid % BN; // rows b_row, b_row + 2, ...

    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int r = 0; r < BM; r += threads / BK)
            As[a_row + r][a_col] = A[(a_row + r) * K + k0 + a_col];
#pragma unroll
        for (int r = 0; r < BK; r += threads / BN)
            Bs[b_row + r][b_col] = B[(k0 + b_row + r) * N + b_col];
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i)
                a[i] = As[ty * TM + i][k];
#pragma unroll
            for (int j = 0; j < TN; ++j)
                b[j] = Bs[k][tx * TN + j];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j)
                    acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            float *c = &C[(ty * TM + i) * N + tx * TN + j];
            *c = epilogue(alpha, acc[i][j], beta, *c);
        }
}

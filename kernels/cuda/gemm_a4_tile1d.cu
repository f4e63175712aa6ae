// A4  one-dimensional register tile: a thread computes TM results of one column.
// Seed row A4. Exercises: one Bs word kept in a register and used TM times, so shared reads an FMA fall from
// 2 to (TM+1)/TM before ptxas merges neighbouring As words into wider loads.
// Launch: block 512 (1-D), tile BM=64 BN=64 BK=8, TM=8; grid (N/64, M/64). M, N multiples of 64, K of 8.
// Expected a warp: Bs[k][col] 32 consecutive words; As[row+i][k] one word for all lanes (broadcast);
// staging stores one word a thread, conflict-free; loads of A 4 rows x 8 words = 4 sectors.
#include "sgemm_common.cuh"

extern "C" __global__ void __launch_bounds__(512) gemm_a4_tile1d(int M, int N, int K, float alpha, const float *A,
                                                                 const float *B, float beta, float *C)
{
    constexpr int BM = 64, BN = 64, BK = 8, TM = 8;

    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const int tid = threadIdx.x;
    const int col = tid % BN;        // column of the tile; a warp covers half a row of it
    const int row = tid / BN * TM;   // first of TM rows

    // Staging: 64x8 and 8x64 elements, one of each a thread.
    const int a_row = tid / BK, a_col = tid % BK;
    const int b_row = tid / BN, b_col = tid % BN;

    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    float acc[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        As[a_row][a_col] = A[a_row * K + k0 + a_col];
        Bs[b_row][b_col] = B[(k0 + b_row) * N + b_col];
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; ++k) {
            const float b = Bs[k][col];
#pragma unroll
            for (int i = 0; i < TM; ++i)
                acc[i] += As[row + i][k] * b;
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        float *c = &C[(row + i) * N + col];
        *c = epilogue(alpha, acc[i], beta, *c);
    }
}

// A6  A5 with 128-bit loads and stores; A is transposed while it is staged.
// Seed row A6. Exercises: LDG.128/STG.128 (a quarter of the load instructions), As[k][row] so that a thread's
// eight rows are eight neighbouring words (two LDS.128 instead of eight LDS).
// Launch: block 256 (1-D), tile BM=BN=128 BK=8, TM=TN=8; grid (N/128, M/128). M, N multiples of 128, K of 8;
// 16-byte aligned arrays.
// Expected a warp: LDG.128 of A 16 rows x 32 B; the transposing stores As[k4+i][row] hit each of 16 banks twice
// (two k4, 128 words apart a row: 2-way); As reads broadcast, Bs reads 2-way in a group of eight lanes (stride 8
// words): A8 removes both.
#include "sgemm_common.cuh"

extern "C" __global__ void __launch_bounds__(256) gemm_a6_vectorised(int M, int N, int K, float alpha,
                                                                     const float *A, const float *B, float beta,
                                                                     float *C)
{
    constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;

    __shared__ __align__(16) float As[BK][BM]; // transposed
    __shared__ __align__(16) float Bs[BK][BN];

    const int tid = threadIdx.x;
    const int tx = tid % (BN / TN), ty = tid / (BN / TN);

    // Staging: one float4 of each operand a thread.
    const int a_row = tid / (BK / 4), a_k = tid % (BK / 4) * 4;
    const int b_row = tid / (BN / 4), b_col = tid % (BN / 4) * 4;

    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 a4 = load4(&A[a_row * K + k0 + a_k]);
        As[a_k + 0][a_row] = a4.x;
        As[a_k + 1][a_row] = a4.y;
        As[a_k + 2][a_row] = a4.z;
        As[a_k + 3][a_row] = a4.w;
        store4(&Bs[b_row][b_col], load4(&B[(k0 + b_row) * N + b_col]));
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4)
                unpack4(&a[i], load4(&As[k][ty * TM + i]));
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                unpack4(&b[j], load4(&Bs[k][tx * TN + j]));
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
        for (int j = 0; j < TN; j += 4) {
            float *c = &C[(ty * TM + i) * N + tx * TN + j];
            store4(c, epilogue4(alpha, &acc[i][j], beta, load4(c)));
        }
}

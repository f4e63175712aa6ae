// B4  B3 with float4, explicit leading dimensions, 16-byte alignment and ragged edges.
// Seed row B4. Exercises: LDG.128/STG.128 with a scalar path for the last quad of a row and for leading dimensions
// that are no multiple of 4; lanes that diverge on it; a padding that keeps 128-bit shared accesses legal.
// Launch: block 16x16, grid (ceil(N/64), ceil(M/64)). Any M, N, K with lda >= K, ldb >= N, ldc >= N.
// Expected a warp: Bs[k][tx*4] 16 neighbouring quads, conflict-free, both halves of the warp alike;
// As[ty*4+i][k] two words 80 apart, free; stores of As 128 bits, rows of 20 words: eight lanes cover two rows
// that overlap in one quad of banks (2-way).
#include "gemm_b_float4.cuh"

extern "C" __global__ void __launch_bounds__(256) gemm_b4_float4(const float *A, const float *B, float *C, int M,
                                                                 int N, int K, int lda, int ldb, int ldc)
{
    float4_tile(A, B, C, M, N, K, lda, ldb, ldc);
}

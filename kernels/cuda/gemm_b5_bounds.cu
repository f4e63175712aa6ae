// B5  the tile of B4 under a register budget.
// Seed row B5. Exercises: __launch_bounds__ as an occupancy contract; spilling to local memory when it is too tight;
// the result must not change by a bit.
// Launch: as B4.
//   gemm_b5_bounds64   __launch_bounds__(256, 4): 65,536 / (256 x 4) = 64 registers a thread, 4 blocks an SM;
//   gemm_b5_spill      __launch_bounds__(256, 8): 32 registers a thread, 8 blocks an SM, and local-memory traffic;
//   gemm_b5_maxreg     no bound in the source: compile with --maxrregcount=32 for the same effect.
#include "gemm_b_float4.cuh"

extern "C" __global__ void __launch_bounds__(256, 4) gemm_b5_bounds64(const float *A, const float *B, float *C, int M,
                                                                      int N, int K, int lda, int ldb, int ldc)
{
    float4_tile(A, B, C, M, N, K, lda, ldb, ldc);
}

extern "C" __global__ void __launch_bounds__(256, 8) gemm_b5_spill(const float *A, const float *B, float *C, int M,
                                                                   int N, int K, int lda, int ldb, int ldc)
{
    float4_tile(A, B, C, M, N, K, lda, ldb, ldc);
}

extern "C" __global__ void gemm_b5_maxreg(const float *A, const float *B, float *C, int M, int N, int K, int lda,
                                          int ldb, int ldc)
{
    float4_tile(A, B, C, M, N, K, lda, ldb, ldc);
}

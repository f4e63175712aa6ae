// A2  naive GEMM, coalesced: the warp covers 32 neighbouring columns of one row of C.
// Seed row A2. Exercises: the same arithmetic as A1 with the thread-to-output map turned round.
// Launch: gemm_a2_coalesced    block 32x32, grid (ceil(N/32), ceil(M/32)), x is the column;
//         gemm_a2_coalesced_1d block 1024,  grid (ceil(N/32), ceil(M/32)), row and column from one index.
// Any M, N, K.
// Expected a warp: A one word for all lanes (1 sector); B 32 consecutive words (4 sectors when N is a
// multiple of 8); C 4 sectors to load and 4 to store.
#include "sgemm_common.cuh"

__device__ __forceinline__ void one_output(int row, int col, int M, int N, int K, float alpha, const float *A,
                                           const float *B, float beta, float *C)
{
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; ++k)
            acc += A[row * K + k] * B[k * N + col];
        C[row * N + col] = epilogue(alpha, acc, beta, C[row * N + col]);
    }
}

extern "C" __global__ void gemm_a2_coalesced(int M, int N, int K, float alpha, const float *A, const float *B,
                                             float beta, float *C)
{
    const int row = blockIdx.y * 32 + threadIdx.y;
    const int col = blockIdx.x * 32 + threadIdx.x;
    one_output(row, col, M, N, K, alpha, A, B, beta, C);
}

extern "C" __global__ void gemm_a2_coalesced_1d(int M, int N, int K, float alpha, const float *A, const float *B,
                                                float beta, float *C)
{
    const int row = blockIdx.y * 32 + threadIdx.x / 32;
    const int col = blockIdx.x * 32 + threadIdx.x % 32;
    one_output(row, col, M, N, K, alpha, A, B, beta, C);
}

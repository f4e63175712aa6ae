// A1  naive GEMM, x is the ROW.
// Seed row A1. Exercises: a warp whose lanes differ in the row: lane l reads A[(r+l)*K + k], one sector a lane.
// Launch: block 32x32, grid (ceil(M/32), ceil(N/32)). Any M, N, K.
// Expected a warp: A 32 sectors in 32 lines a load; B one word for all lanes (1 sector);
// C 32 sectors to load and 32 to store.
#include "sgemm_common.cuh"

extern "C" __global__ void gemm_a1_naive_row(int M, int N, int K, float alpha, const float *A, const float *B,
                                             float beta, float *C)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x; // row of C
    const int y = blockIdx.y * blockDim.y + threadIdx.y; // column of C

    if (x < M && y < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; ++k)
            acc += A[x * K + k] * B[k * N + y];
        C[x * N + y] = epilogue(alpha, acc, beta, C[x * N + y]);
    }
}

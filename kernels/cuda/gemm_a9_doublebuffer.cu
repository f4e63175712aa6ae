// A9  software pipeline: two shared buffers, the next tile prefetched into registers while this one is used.
// Seed row A9 (first half). Exercises: the warp tile of A7 with BK=8 and the swizzle of A8; the global loads of
// tile t+1 are in flight during the FMAs of tile t, and one barrier a tile is enough.
// Launch: block 256 (1-D, 8 warps as 2x4), tile 128x128x8; grid (N/128, M/128). M, N multiples of 128, K of 8;
// 16-byte aligned arrays.
// Expected a warp: no shared-memory conflicts (As row ^ 16 in the upper k quad); LDG.128 as A6.
#include "sgemm_common.cuh"

extern "C" __global__ void __launch_bounds__(256, 2) gemm_a9_doublebuffer(int M, int N, int K, float alpha,
                                                                          const float *A, const float *B, float beta,
                                                                          float *C)
{
    constexpr int BM = 128, BN = 128, BK = 8;
    constexpr int WM = 64, WN = 32;            // warp tile
    constexpr int step_m = WM / 2, step_n = WN / 2; // between the 4x4 quarters of a thread

    __shared__ __align__(16) float As[2][BK][BM]; // transposed, swizzled
    __shared__ __align__(16) float Bs[2][BK][BN];

    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int row = warp / (BN / WN) * WM + lane / 4 * 4;
    const int col = warp % (BN / WN) * WN + lane % 4 * 4;

    const int a_row = tid / (BK / 4), a_k = tid % (BK / 4) * 4;
    const int a_slot = a_row ^ (a_k / 4 * 16);
    const int b_row = tid / (BN / 4), b_col = tid % (BN / 4) * 4;

    A += (blockIdx.y * BM + a_row) * K + a_k;
    B += b_row * N + blockIdx.x * BN + b_col;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    float4 a4 = load4(A), b4 = load4(B);
    int now = 0;
    As[now][a_k + 0][a_slot] = a4.x;
    As[now][a_k + 1][a_slot] = a4.y;
    As[now][a_k + 2][a_slot] = a4.z;
    As[now][a_k + 3][a_slot] = a4.w;
    store4(&Bs[now][b_row][b_col], b4);
    __syncthreads();

    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const bool more = k0 + BK < K;
        if (more) {
            a4 = load4(A + k0 + BK);
            b4 = load4(B + (k0 + BK) * N);
        }

#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[8], b[8];
#pragma unroll
            for (int q = 0; q < 2; ++q) {
                unpack4(&a[4 * q], load4(&As[now][k][(row + q * step_m) ^ (k / 4 * 16)]));
                unpack4(&b[4 * q], load4(&Bs[now][k][col + q * step_n]));
            }
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    acc[i][j] += a[i] * b[j];
        }

        if (more) {
            // The other buffer was last read before the barrier that ended the previous tile.
            now ^= 1;
            As[now][a_k + 0][a_slot] = a4.x;
            As[now][a_k + 1][a_slot] = a4.y;
            As[now][a_k + 2][a_slot] = a4.z;
            As[now][a_k + 3][a_slot] = a4.w;
            store4(&Bs[now][b_row][b_col], b4);
            __syncthreads();
        }
    }

#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int q = 0; q < 2; ++q) {
            float *c = &C[(row + i / 4 * step_m + i % 4) * N + col + q * step_n];
            store4(c, epilogue4(alpha, &acc[i][4 * q], beta, load4(c)));
        }
}

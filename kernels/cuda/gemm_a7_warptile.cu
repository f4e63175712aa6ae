// A7  warp tile: block tile 128x128 > warp tile 64x32 > thread tile 8x8, in four 4x4 quarters.
// Seed row A7. Exercises: locality of one warp made explicit: a warp reads 64 + 32 words of a k step for 2,048
// FMAs whatever the shape of the block; the quarters keep the 128-bit reads of neighbouring lanes contiguous.
// Launch: block 256 (1-D, 8 warps as 2x4), BK=16; grid (N/128, M/128). M, N multiples of 128, K of 16;
// 16-byte aligned arrays.
// Expected a warp: lane = (row group 0..7) * 4 + (column group 0..3). A quarter of As: 8 quads, each shared by
// 4 neighbouring lanes (broadcast); of Bs: 4 quads, picked by lane % 4. Conflict-free reads. The transposing
// stores of A are 4-way (4 k quads whose rows lie 128 words apart).
#include "sgemm_common.cuh"

extern "C" __global__ void __launch_bounds__(256, 2) gemm_a7_warptile(int M, int N, int K, float alpha,
                                                                      const float *A, const float *B, float beta,
                                                                      float *C)
{
    constexpr int BM = 128, BN = 128, BK = 16;
    constexpr int WM = 64, WN = 32;               // warp tile
    constexpr int quarters_m = 2, quarters_n = 2; // a thread owns 2x2 quarters of 4x4 results
    constexpr int step_m = WM / quarters_m;       // 32 rows between a thread's quarters
    constexpr int step_n = WN / quarters_n;       // 16 columns
    constexpr int threads = 256;

    __shared__ __align__(16) float As[BK][BM]; // transposed
    __shared__ __align__(16) float Bs[BK][BN];

    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
    const int row = warp_m + lane / 4 * 4; // first row and column of the thread's first quarter
    const int col = warp_n + lane % 4 * 4;

    const int a_row = tid / (BK / 4), a_k = tid % (BK / 4) * 4;
    const int b_row = tid / (BN / 4), b_col = tid % (BN / 4) * 4;

    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    float acc[4 * quarters_m][4 * quarters_n] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int first = 0; first < BM; first += threads / (BK / 4)) {
            const int r = first + a_row;
            const float4 a4 = load4(&A[r * K + k0 + a_k]);
            As[a_k + 0][r] = a4.x;
            As[a_k + 1][r] = a4.y;
            As[a_k + 2][r] = a4.z;
            As[a_k + 3][r] = a4.w;
        }
#pragma unroll
        for (int first = 0; first < BK; first += threads / (BN / 4)) {
            const int r = first + b_row;
            store4(&Bs[r][b_col], load4(&B[(k0 + r) * N + b_col]));
        }
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[4 * quarters_m], b[4 * quarters_n];
#pragma unroll
            for (int q = 0; q < quarters_m; ++q)
                unpack4(&a[4 * q], load4(&As[k][row + q * step_m]));
#pragma unroll
            for (int q = 0; q < quarters_n; ++q)
                unpack4(&b[4 * q], load4(&Bs[k][col + q * step_n]));
#pragma unroll
            for (int i = 0; i < 4 * quarters_m; ++i)
#pragma unroll
                for (int j = 0; j < 4 * quarters_n; ++j)
                    acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 4 * quarters_m; ++i)
#pragma unroll
        for (int q = 0; q < quarters_n; ++q) {
            float *c = &C[(row + i / 4 * step_m + i % 4) * N + col + q * step_n];
            store4(c, epilogue4(alpha, &acc[i][4 * q], beta, load4(c)));
        }
}

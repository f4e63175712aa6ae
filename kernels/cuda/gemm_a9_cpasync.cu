// A9  software pipeline with cp.async: global to shared memory without passing through registers.
// Seed row A9 (second half). Exercises: LDGSTS 16 bytes, commit groups and their waits, two stages.
// cp.async cannot transpose, so As stays [row][k], with rows padded by 16 bytes (20 words): eight rows start in
// eight different quads of banks and every 128-bit access stays aligned. A thread reads two k of a row at once.
// Launch: block 256 (1-D, 8 warps as 2x4), tile 128x128x16; grid (N/128, M/128). M, N multiples of 128, K of 16;
// 16-byte aligned arrays.
// Expected a warp: As reads, 8 rows shared by 4 neighbouring lanes each: 1 wavefront as 64-bit reads, 2 once ptxas
// merges pairs of them into 128-bit reads (both ideal); Bs reads, 4 quads picked by lane % 4: 4 wavefronts, ideal;
// shared memory 36 KB a block.
#include <cuda_pipeline.h>

#include "sgemm_common.cuh"

namespace
{
constexpr int BM = 128, BN = 128, BK = 16, stages = 2;
constexpr int WM = 64, WN = 32;      // warp tile
constexpr int a_pitch = BK + 4;      // 16 bytes of padding
constexpr int threads = BM * BK / 4 / 2; // two quads of each operand a thread
static_assert(threads == 256 && threads == BK * BN / 4 / 2, "the staging below and the warp grid rely on it");

struct Tile {
    float a[BM][a_pitch];
    float b[BK][BN];
};

// Ask for one tile of A and B; the copies land when their group is waited for.  A and B point at the thread's own
// first quad: its second one lies BM/2 rows (A) or BK/2 rows (B) further down.
__device__ __forceinline__ void fetch(Tile &tile, const float *A, const float *B, int N, int K)
{
    const int row = threadIdx.x / (BK / 4), k = threadIdx.x % (BK / 4) * 4;
    __pipeline_memcpy_async(&tile.a[row][k], A, sizeof(float4));
    __pipeline_memcpy_async(&tile.a[row + BM / 2][k], A + BM / 2 * K, sizeof(float4));

    const int b_row = threadIdx.x / (BN / 4), col = threadIdx.x % (BN / 4) * 4;
    __pipeline_memcpy_async(&tile.b[b_row][col], B, sizeof(float4));
    __pipeline_memcpy_async(&tile.b[b_row + BK / 2][col], B + BK / 2 * N, sizeof(float4));
    __pipeline_commit();
}
} // namespace

extern "C" __global__ void __launch_bounds__(threads, 2) gemm_a9_cpasync(int M, int N, int K, float alpha,
                                                                         const float *A, const float *B, float beta,
                                                                         float *C)
{
    __shared__ __align__(16) Tile tiles[stages];

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / (BN / WN) * WM + lane / 4;     // rows row, row + 8, ..., row + 56
    const int col = warp % (BN / WN) * WN + lane % 4 * 4; // columns col..col+3 and col+16..col+19

    A += (blockIdx.y * BM + threadIdx.x / (BK / 4)) * K + threadIdx.x % (BK / 4) * 4;
    B += threadIdx.x / (BN / 4) * N + blockIdx.x * BN + threadIdx.x % (BN / 4) * 4;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    fetch(tiles[0], A, B, N, K);

    float acc[8][8] = {};
    int now = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        if (k0 + BK < K) {
            A += BK;
            B += BK * N;
            fetch(tiles[now ^ 1], A, B, N, K);
            __pipeline_wait_prior(1); // all but the newest group: this tile has landed
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads(); // for the copies of every thread

        const Tile &tile = tiles[now];
#pragma unroll
        for (int k2 = 0; k2 < BK; k2 += 2) {
            float2 a[8];
#pragma unroll
            for (int i = 0; i < 8; ++i)
                a[i] = *reinterpret_cast<const float2 *>(&tile.a[row + 8 * i][k2]);
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                float b[8];
                unpack4(&b[0], load4(&tile.b[k2 + k][col]));
                unpack4(&b[4], load4(&tile.b[k2 + k][col + WN / 2]));
#pragma unroll
                for (int i = 0; i < 8; ++i)
#pragma unroll
                    for (int j = 0; j < 8; ++j)
                        acc[i][j] += (k == 0 ? a[i].x : a[i].y) * b[j];
            }
        }
        __syncthreads(); // the next fetch overwrites this buffer
        now ^= 1;
    }

#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int q = 0; q < 2; ++q) {
            float *c = &C[(row + 8 * i) * N + col + q * WN / 2];
            store4(c, epilogue4(alpha, &acc[i][4 * q], beta, load4(c)));
        }
}

// A8  bank-conflict-aware staging: A6 with three ways of laying the tiles out in shared memory.
// Seed row A8. Exercises: the same loads, FMAs and stores as A6; only the word each element lives at changes.
// A6 has two conflicts: the transposing stores of A (two k quads, 4 rows = 512 words apart: 2-way) and the
// 128-bit reads of Bs (eight lanes with stride 8 words: 2-way).
// Launch: block 256 (1-D), tile 128x128x8, 8x8 a thread; grid (N/128, M/128). M, N multiples of 128, K of 8;
// 16-byte aligned arrays.
//   gemm_a8_pad      As rows of 132 words, Bs with 4 words inserted after every 32: both conflicts go, the tiles
//                    grow by 0.6 KB, every 128-bit access stays aligned (a pad of 1 would break it).
//   gemm_a8_layout   Bs keeps the low quads of all threads together, then the high quads: reads are conflict-free,
//                    but the stores of Bs (neighbouring lanes write a low and a high quad) become 2-way; As as A6.
//   gemm_a8_swizzle  XOR of the word index: As row ^ 16 for the upper k quad, Bs quad ^ 1 in every second group of
//                    eight: both conflicts go and the tiles stay 8 KB.
#include "sgemm_common.cuh"

namespace
{
constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;

struct Padded {
    static constexpr int a_pitch = BM + 4, b_pitch = BN + BN / 32 * 4;
    static __device__ __forceinline__ int a(int k, int row)
    {
        return k * a_pitch + row;
    }
    static __device__ __forceinline__ int b(int k, int col)
    {
        return k * b_pitch + col + col / 32 * 4;
    }
};

struct Rearranged {
    static constexpr int a_pitch = BM, b_pitch = BN;
    static __device__ __forceinline__ int a(int k, int row)
    {
        return k * a_pitch + row;
    }
    static __device__ __forceinline__ int b(int k, int col)
    {
        const int thread = col / TN, quad = col / 4 % (TN / 4);
        return k * b_pitch + quad * (BN / 2) + thread * 4 + col % 4;
    }
};

struct Swizzled {
    static constexpr int a_pitch = BM, b_pitch = BN;
    static __device__ __forceinline__ int a(int k, int row)
    {
        return k * a_pitch + (row ^ (k / 4 * 16));
    }
    static __device__ __forceinline__ int b(int k, int col)
    {
        const int quad = col / 4;
        return k * b_pitch + (quad ^ (quad / 8 & 1)) * 4 + col % 4;
    }
};

template <class Layout>
__device__ __forceinline__ void staged_gemm(int N, int K, float alpha, const float *A, const float *B, float beta,
                                            float *C)
{
    __shared__ __align__(16) float As[BK * Layout::a_pitch]; // transposed
    __shared__ __align__(16) float Bs[BK * Layout::b_pitch];

    const int tid = threadIdx.x;
    const int tx = tid % (BN / TN), ty = tid / (BN / TN);
    const int a_row = tid / (BK / 4), a_k = tid % (BK / 4) * 4;
    const int b_row = tid / (BN / 4), b_col = tid % (BN / 4) * 4;

    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 a4 = load4(&A[a_row * K + k0 + a_k]);
        As[Layout::a(a_k + 0, a_row)] = a4.x;
        As[Layout::a(a_k + 1, a_row)] = a4.y;
        As[Layout::a(a_k + 2, a_row)] = a4.z;
        As[Layout::a(a_k + 3, a_row)] = a4.w;
        store4(&Bs[Layout::b(b_row, b_col)], load4(&B[(k0 + b_row) * N + b_col]));
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4)
                unpack4(&a[i], load4(&As[Layout::a(k, ty * TM + i)]));
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                unpack4(&b[j], load4(&Bs[Layout::b(k, tx * TN + j)]));
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
} // namespace

extern "C" __global__ void __launch_bounds__(256) gemm_a8_pad(int M, int N, int K, float alpha, const float *A,
                                                              const float *B, float beta, float *C)
{
    staged_gemm<Padded>(N, K, alpha, A, B, beta, C);
}

extern "C" __global__ void __launch_bounds__(256) gemm_a8_layout(int M, int N, int K, float alpha, const float *A,
                                                                 const float *B, float beta, float *C)
{
    staged_gemm<Rearranged>(N, K, alpha, A, B, beta, C);
}

extern "C" __global__ void __launch_bounds__(256) gemm_a8_swizzle(int M, int N, int K, float alpha, const float *A,
                                                                  const float *B, float beta, float *C)
{
    staged_gemm<Swizzled>(N, K, alpha, A, B, beta, C);
}

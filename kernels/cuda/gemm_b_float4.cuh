// The tile of rows B4 and B5: 64x64x16 a block, 4x4 results a thread, float4 traffic, explicit leading
// dimensions, any M, N, K.
//
// A quad (four neighbouring elements of a row) goes as one 128-bit access when it lies inside the matrix and its
// leading dimension keeps rows 16-byte aligned (a multiple of 4 elements; the arrays themselves must be 16-byte
// aligned, as every CUDA allocation is); otherwise element by element, with zeros outside.
#pragma once

namespace
{
__device__ __forceinline__ float4 load_quad(const float *row, int col, int cols, bool row_inside, bool aligned)
{
    if (row_inside && aligned && col + 4 <= cols)
        return *reinterpret_cast<const float4 *>(row + col);
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row_inside) {
        if (col + 0 < cols)
            v.x = row[col + 0];
        if (col + 1 < cols)
            v.y = row[col + 1];
        if (col + 2 < cols)
            v.z = row[col + 2];
        if (col + 3 < cols)
            v.w = row[col + 3];
    }
    return v;
}

__device__ __forceinline__ void store_quad(float *row, int col, int cols, const float *v, bool aligned)
{
    if (aligned && col + 4 <= cols) {
        *reinterpret_cast<float4 *>(row + col) = make_float4(v[0], v[1], v[2], v[3]);
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
        if (col + j < cols)
            row[col + j] = v[j];
}

__device__ __forceinline__ void float4_tile(const float *A, const float *B, float *C, int M, int N, int K, int lda,
                                            int ldb, int ldc)
{
    constexpr int BM = 64, BN = 64, BK = 16, TM = 4;

    // Padded by a whole quad: one word would break the alignment of the 128-bit stores.
    __shared__ __align__(16) float As[BM][BK + 4];
    __shared__ __align__(16) float Bs[BK][BN + 4];

    const int tx = threadIdx.x, ty = threadIdx.y;
    const int tid = ty * 16 + tx;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

    const int a_row = tid / (BK / 4), a_k = tid % (BK / 4) * 4;
    const int b_k = tid / (BN / 4), b_col = tid % (BN / 4) * 4;
    const bool a_inside = row0 + a_row < M;
    const float *a_src = A + (size_t)(row0 + a_row) * lda;

    float acc[TM][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 a4 = load_quad(a_src, k0 + a_k, K, a_inside, lda % 4 == 0);
        const float4 b4 = load_quad(B + (size_t)(k0 + b_k) * ldb, col0 + b_col, N, k0 + b_k < K, ldb % 4 == 0);
        *reinterpret_cast<float4 *>(&As[a_row][a_k]) = a4;
        *reinterpret_cast<float4 *>(&Bs[b_k][b_col]) = b4;
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; ++k) {
            const float4 b = *reinterpret_cast<const float4 *>(&Bs[k][tx * 4]);
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                const float a = As[ty * TM + i][k];
                acc[i][0] += a * b.x;
                acc[i][1] += a * b.y;
                acc[i][2] += a * b.z;
                acc[i][3] += a * b.w;
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = row0 + ty * TM + i;
        if (row < M)
            store_quad(C + (size_t)row * ldc, col0 + tx * 4, N, acc[i], ldc % 4 == 0);
    }
}
} // namespace

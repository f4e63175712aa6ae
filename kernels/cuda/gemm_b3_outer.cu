// B3  outer-product register tile: 64x64x16 a block, 4x4 results a thread.
// Seed row B3. Exercises: 8 shared words for 16 FMAs; what one word of padding does to each access.
// Launch: block 16x16, grid (N/64, M/64). M, N multiples of 64, K of 16.
//   gemm_b3_outer        As[64][16+1], Bs[16][64+1] as the text has it;
//   gemm_b3_outer_nopad  As[64][16],   Bs[16][64], to judge the padding.
// Expected a warp (two ty, 16 tx), word by word: stores of As with padding write two rows of 16 words that overlap in
// one bank (2-way; without none); reads As[ty*4+i][k] two words 68 apart (free; without padding 64 apart: 2-way);
// reads Bs[k][tx*4+j] stride 4 over 16 lanes: 2-way with or without padding.
// But ptxas reads 128 bits at a time.  Without padding that makes 32 LDS.128 a tile, all at their ideal. With it, the
// rows start at odd words, and the same data takes 29 LDS.128 that partly read the padding, 8 LDS.64 and 8 LDS.
namespace
{
template <int PAD>
__device__ __forceinline__ void outer(const float *A, const float *B, float *C, int N, int K)
{
    constexpr int BM = 64, BN = 64, BK = 16, TM = 4, TN = 4, threads = 256;

    __shared__ float As[BM][BK + PAD];
    __shared__ float Bs[BK][BN + PAD];

    const int tx = threadIdx.x, ty = threadIdx.y;
    const int tid = ty * 16 + tx;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int first = 0; first < BM * BK; first += threads) {
            const int i = first + tid;
            As[i / BK][i % BK] = A[(row0 + i / BK) * K + k0 + i % BK];
        }
#pragma unroll
        for (int first = 0; first < BK * BN; first += threads) {
            const int i = first + tid;
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + col0 + i % BN];
        }
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i)
                a[i] = As[ty * TM + i][k];
#pragma unroll
            for (int j = 0; j < TN; ++j)
                b[j] = Bs[k][tx * TN + j];
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
        for (int j = 0; j < TN; ++j)
            C[(row0 + ty * TM + i) * N + col0 + tx * TN + j] = acc[i][j];
}
} // namespace

extern "C" __global__ void __launch_bounds__(256) gemm_b3_outer(const float *A, const float *B, float *C, int M,
                                                                int N, int K)
{
    outer<1>(A, B, C, N, K);
}

extern "C" __global__ void __launch_bounds__(256) gemm_b3_outer_nopad(const float *A, const float *B, float *C, int M,
                                                                      int N, int K)
{
    outer<0>(A, B, C, N, K);
}

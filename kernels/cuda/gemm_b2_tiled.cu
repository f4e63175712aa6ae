// B2  tiled inner product: As[ty][k] is a column read, Bs[k][tx] a row read.
// Seed row B2. Exercises: the text's claim of a 2-way conflict at 16 and a 32-way conflict at 32 on As[ty][k].
// Launch: gemm_b2_tiled16 block 16x16, gemm_b2_tiled32 block 32x32, grid (ceil(N/T), ceil(M/T)). Any M, N, K:
// elements outside are staged as zero.
//         gemm_b2_tiled32_ty block 32x32 with the roles of x and y swapped: ty really varies over the warp.
// Expected a warp: T=32: As[ty][k] one word (broadcast). T=16: two words 16 apart (no conflict, two wavefronts as a
// merged 128-bit read, which is ideal). With the roles swapped As[tx][k] is the column read that the claim is about:
// 32 rows of 32 words, one bank, 32-way (as 128-bit reads too: 32 wavefronts for four k, where 4 would do); the global
// loads and the stores to C become one sector a lane.
namespace
{
template <int T>
__device__ __forceinline__ void tiled(int y, int x, const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[T][T];
    __shared__ float Bs[T][T];

    const int row = blockIdx.y * T + y;
    const int col = blockIdx.x * T + x;

    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        As[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.0f;
        Bs[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.0f;
        __syncthreads();

#pragma unroll
        for (int k = 0; k < T; ++k)
            sum += As[y][k] * Bs[k][x];
        __syncthreads();
    }

    if (row < M && col < N)
        C[row * N + col] = sum;
}
} // namespace

extern "C" __global__ void __launch_bounds__(256) gemm_b2_tiled16(const float *A, const float *B, float *C, int M,
                                                                  int N, int K)
{
    tiled<16>(threadIdx.y, threadIdx.x, A, B, C, M, N, K);
}

extern "C" __global__ void __launch_bounds__(1024) gemm_b2_tiled32(const float *A, const float *B, float *C, int M,
                                                                   int N, int K)
{
    tiled<32>(threadIdx.y, threadIdx.x, A, B, C, M, N, K);
}

extern "C" __global__ void __launch_bounds__(1024) gemm_b2_tiled32_ty(const float *A, const float *B, float *C,
                                                                      int M, int N, int K)
{
    tiled<32>(threadIdx.x, threadIdx.y, A, B, C, M, N, K);
}

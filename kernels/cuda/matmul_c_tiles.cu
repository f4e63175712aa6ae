// C1, C2, C3  tiled matrix product in the manner of the matrixMul sample: C = A * B, one output a thread.
// Seed rows C1 (16x16), C2 (32x32), C3 (double-buffered As[2], Bs[2]); the k loop is unrolled completely.
// wA is the width of A (= K), wB the width of B and C (= N); the grid gives the height.
// Launch: block TxT, grid (wB/T, M/T). M, wA, wB multiples of T.
//   matmul_c1_tile16    T=16, 2 KB of shared memory a block;
//   matmul_c2_tile32    T=32, 8 KB, 1,024 threads: the warps of an SM allow two blocks, whatever shared memory does;
//   matmul_c3_double16, matmul_c3_double32  two buffers (4 KB, 16 KB), the next tile fetched during the k loop,
//                       one barrier a tile.
// Expected a warp: As[ty][k] one word (T=32) or two words in different banks (T=16), a broadcast;
// Bs[k][tx] a row; stores conflict-free.
namespace
{
template <int T>
__device__ __forceinline__ void single_buffer(float *C, const float *A, const float *B, int wA, int wB)
{
    __shared__ float As[T][T];
    __shared__ float Bs[T][T];

    const int tx = threadIdx.x, ty = threadIdx.y;
    const float *a = A + (blockIdx.y * T + ty) * wA + tx;
    const float *b = B + ty * wB + blockIdx.x * T + tx;

    float sum = 0.0f;
    for (int tile = 0; tile < wA / T; ++tile) {
        As[ty][tx] = a[tile * T];
        Bs[ty][tx] = b[tile * T * wB];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < T; ++k)
            sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[(blockIdx.y * T + ty) * wB + blockIdx.x * T + tx] = sum;
}

template <int T>
__device__ __forceinline__ void double_buffer(float *C, const float *A, const float *B, int wA, int wB)
{
    __shared__ float As[2][T][T];
    __shared__ float Bs[2][T][T];

    const int tx = threadIdx.x, ty = threadIdx.y;
    const float *a = A + (blockIdx.y * T + ty) * wA + tx;
    const float *b = B + ty * wB + blockIdx.x * T + tx;
    const int tiles = wA / T;

    As[0][ty][tx] = a[0];
    Bs[0][ty][tx] = b[0];
    __syncthreads();

    float sum = 0.0f;
    for (int tile = 0; tile < tiles; ++tile) {
        const int now = tile & 1;
        float next_a = 0.0f, next_b = 0.0f;
        if (tile + 1 < tiles) {
            next_a = a[(tile + 1) * T];
            next_b = b[(tile + 1) * T * wB];
        }
#pragma unroll
        for (int k = 0; k < T; ++k)
            sum += As[now][ty][k] * Bs[now][k][tx];
        // The other buffer was last read before the previous barrier.
        As[now ^ 1][ty][tx] = next_a;
        Bs[now ^ 1][ty][tx] = next_b;
        __syncthreads();
    }
    C[(blockIdx.y * T + ty) * wB + blockIdx.x * T + tx] = sum;
}
} // namespace

extern "C" __global__ void __launch_bounds__(256) matmul_c1_tile16(float *C, const float *A, const float *B, int wA,
                                                                   int wB)
{
    single_buffer<16>(C, A, B, wA, wB);
}

extern "C" __global__ void __launch_bounds__(1024) matmul_c2_tile32(float *C, const float *A, const float *B, int wA,
                                                                    int wB)
{
    single_buffer<32>(C, A, B, wA, wB);
}

extern "C" __global__ void __launch_bounds__(256) matmul_c3_double16(float *C, const float *A, const float *B, int wA,
                                                                     int wB)
{
    double_buffer<16>(C, A, B, wA, wB);
}

extern "C" __global__ void __launch_bounds__(1024) matmul_c3_double32(float *C, const float *A, const float *B,
                                                                      int wA, int wB)
{
    double_buffer<32>(C, A, B, wA, wB);
}

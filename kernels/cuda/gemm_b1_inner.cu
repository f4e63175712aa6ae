// B1  inner-product GEMM: one dot product a thread, row from y, column from x.
// Seed row B1. Exercises: the baseline of the row-or-column text. C[MxN] = A[MxK] * B[KxN].
// Launch: block 16x16, grid (ceil(N/16), ceil(M/16)). Any M, N, K.
// Expected a warp (two rows of 16 threads): A two words (2 sectors, two broadcasts), B 16 consecutive words
// (2 sectors), C two half-rows of 16 words (4 sectors).
extern "C" __global__ void gemm_b1_inner(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N)
        return;

    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}

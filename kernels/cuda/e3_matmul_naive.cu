// id: E3   seed row: E3 naive matmul
// exercises: one output element a thread, every operand from global memory (2*M*N*K element reads)
// entry e3_matmul_naive   grid (ceil(N/16),ceil(M/16),1)  block (16,16,1)  dynamic shared 0 B
// args: const float* A [M*K], const float* B [K*N], float* C [M*N], int M, int N, int K
// expected access: a warp is two rows of 16 columns: A two broadcast words (2 sectors), B 64 consecutive bytes
// (2 sectors), C two 64-byte runs (4 sectors)
extern "C" __global__ void e3_matmul_naive(const float* __restrict__ A, const float* __restrict__ B,
                                           float* __restrict__ C, int M, int N, int K) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  float acc = 0.0f;
  for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
  C[row * N + col] = acc;
}

// id: E6   seed row: E6 float4 loads;  E7 manual unroll by 4
// exercises: 128-bit global loads and 128-bit shared stores into a 32x32 tile; E7 unrolls the k loop of the naive
// kernel by hand with four independent accumulators and a remainder loop
// entry e6_matmul_float4   grid (N/32,M/32,1)  block (8,32,1)   dynamic shared 0 B; N and K multiples of 4
// entry e7_matmul_unroll4  grid (ceil(N/16),ceil(M/16),1)  block (16,16,1); any M, N, K
// args: const float* A [M*K], const float* B [K*N], float* C [M*N], int M, int N, int K
// expected access: e6 loads: a warp is 4 rows of 128 bytes, 16 sectors a request; shared reads As[ty][k] broadcast
// (4 words of one column: pitch 32 puts them in one bank, a 4-way conflict), Bs row as float4 (LDS.128)
extern "C" __global__ void __launch_bounds__(256) e6_matmul_float4(const float* __restrict__ A,
                                                                   const float* __restrict__ B,
                                                                   float* __restrict__ C, int M, int N, int K) {
  constexpr int T = 32;
  __shared__ __align__(16) float As[T][T];
  __shared__ __align__(16) float Bs[T][T];
  const int q = 4 * threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * T + ty, col = blockIdx.x * T + q;
  const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float4 acc = zero;
  for (int k0 = 0; k0 < K; k0 += T) {
    const bool in_a = row < M && k0 + q < K, in_b = k0 + ty < K && col < N;
    *reinterpret_cast<float4*>(&As[ty][q]) = in_a ? *reinterpret_cast<const float4*>(A + row * K + k0 + q) : zero;
    *reinterpret_cast<float4*>(&Bs[ty][q]) = in_b ? *reinterpret_cast<const float4*>(B + (k0 + ty) * N + col) : zero;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < T; ++k) {
      const float a = As[ty][k];
      const float4 b = *reinterpret_cast<const float4*>(&Bs[k][q]);
      acc.x += a * b.x; acc.y += a * b.y; acc.z += a * b.z; acc.w += a * b.w;
    }
    __syncthreads();
  }
  if (row < M && col < N) *reinterpret_cast<float4*>(C + row * N + col) = acc;
}

extern "C" __global__ void e7_matmul_unroll4(const float* __restrict__ A, const float* __restrict__ B,
                                             float* __restrict__ C, int M, int N, int K) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  const float* a = A + row * K;
  const float* b = B + col;
  float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
  int k = 0;
#pragma unroll 1
  for (; k + 3 < K; k += 4) {
    s0 += a[k] * b[k * N];
    s1 += a[k + 1] * b[(k + 1) * N];
    s2 += a[k + 2] * b[(k + 2) * N];
    s3 += a[k + 3] * b[(k + 3) * N];
  }
#pragma unroll 1
  for (; k < K; ++k) s0 += a[k] * b[k * N];
  C[row * N + col] = (s0 + s1) + (s2 + s3);
}

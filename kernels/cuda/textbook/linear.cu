// textbook: dense vector kernels
// tb_gemv_warp      y = A x, one row a warp, float4 loads; block (32,4,1), grid (ceil(m/4),1,1), n a multiple of 4
//                   args: const float* A [m*n], const float* x [n], float* y [m], int m, int n
// tb_gemv_columns   y = A' x, one column a thread (coalesced), block (128,1,1);  args as above, y [n]
// tb_conv2d         5x5 filter in __constant__ memory, shared tile with a halo, zero outside; block (16,16,1);
//                   args: const float* x [h*w], float* y [h*w], int w, int h
// tb_nbody          accelerations from n bodies {x, y, z, m}, tiles of 128 in shared memory, softened; block (128,1,1);
//                   args: const float4* body [n], float4* acc [n], int n
extern "C" __global__ void __launch_bounds__(128) tb_gemv_warp(const float* __restrict__ A,
                                                               const float* __restrict__ x, float* __restrict__ y,
                                                               int m, int n) {
  const int row = blockIdx.x * 4 + threadIdx.y;
  if (row >= m) return;
  const float4* a = reinterpret_cast<const float4*>(A + static_cast<long long>(row) * n);
  const float4* v = reinterpret_cast<const float4*>(x);
  float sum = 0.0f;
  for (int j = threadIdx.x; j < n / 4; j += 32)
    sum += a[j].x * v[j].x + a[j].y * v[j].y + a[j].z * v[j].z + a[j].w * v[j].w;
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x == 0) y[row] = sum;
}

extern "C" __global__ void __launch_bounds__(128) tb_gemv_columns(const float* __restrict__ A,
                                                                  const float* __restrict__ x,
                                                                  float* __restrict__ y, int m, int n) {
  const int col = blockIdx.x * 128 + threadIdx.x;
  if (col >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < m; ++i) sum += A[static_cast<long long>(i) * n + col] * x[i];
  y[col] = sum;
}

constexpr int kTile = 16, kHalo = 2;
__constant__ float kFilter[5][5] = {{0.1f, 0.2f, 0.3f, 0.2f, 0.1f}, {0.2f, 0.4f, 0.6f, 0.4f, 0.2f},
                                    {0.3f, 0.6f, 1.0f, 0.6f, 0.3f}, {0.2f, 0.4f, 0.6f, 0.4f, 0.2f},
                                    {0.1f, 0.2f, 0.3f, 0.2f, 0.1f}};

extern "C" __global__ void __launch_bounds__(256) tb_conv2d(const float* __restrict__ x, float* __restrict__ y, int w,
                                                            int h) {
  constexpr int kSide = kTile + 2 * kHalo;
  __shared__ float s[kSide][kSide];
  const int x0 = blockIdx.x * kTile - kHalo, y0 = blockIdx.y * kTile - kHalo;
  for (int t = threadIdx.y * kTile + threadIdx.x; t < kSide * kSide; t += kTile * kTile) {
    const int r = t / kSide, c = t % kSide;
    const bool inside = y0 + r >= 0 && y0 + r < h && x0 + c >= 0 && x0 + c < w;
    s[r][c] = inside ? x[(y0 + r) * w + x0 + c] : 0.0f;
  }
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int r = 0; r < 5; ++r)
#pragma unroll
    for (int c = 0; c < 5; ++c) sum += kFilter[r][c] * s[threadIdx.y + r][threadIdx.x + c];
  const int col = blockIdx.x * kTile + threadIdx.x, row = blockIdx.y * kTile + threadIdx.y;
  if (row < h && col < w) y[row * w + col] = sum;
}

extern "C" __global__ void __launch_bounds__(128) tb_nbody(const float4* __restrict__ body, float4* __restrict__ acc,
                                                           int n) {
  __shared__ float4 tile[128];
  const int i = blockIdx.x * 128 + threadIdx.x;
  const float4 me = i < n ? body[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float ax = 0.0f, ay = 0.0f, az = 0.0f;
  for (int j0 = 0; j0 < n; j0 += 128) {
    tile[threadIdx.x] = j0 + threadIdx.x < n ? body[j0 + threadIdx.x] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < 128; ++j) {
      const float4 b = tile[j];
      const float dx = b.x - me.x, dy = b.y - me.y, dz = b.z - me.z;
      const float inv = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
      const float f = fabsf(b.w) * inv * inv * inv;
      ax += f * dx; ay += f * dy; az += f * dz;
    }
    __syncthreads();
  }
  if (i < n) acc[i] = make_float4(ax, ay, az, 0.0f);
}

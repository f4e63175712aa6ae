// textbook: stencils, fp32
// tb_stencil_1d  radius 3 with a halo in shared memory; block (256,1,1); args: const float* x, float* y, int n
// tb_stencil_2d  5 points, block (32,8,1), grid (ceil(nx/32),ceil(ny/8),1); boundary copied;
//                args: const float* x [ny*nx], float* y, int nx, int ny
// tb_stencil_3d  7 points, block (16,4,4), grid over x, y, z; args: const float* x [nz*ny*nx], float* y, nx, ny, nz
constexpr int kRadius = 3, kBlock = 256;
__constant__ float kWeights[2 * kRadius + 1] = {0.05f, 0.1f, 0.2f, 0.3f, 0.2f, 0.1f, 0.05f};

extern "C" __global__ void __launch_bounds__(kBlock) tb_stencil_1d(const float* x, float* y, int n) {
  __shared__ float tile[kBlock + 2 * kRadius];
  const int i = blockIdx.x * kBlock + threadIdx.x, t = threadIdx.x + kRadius;
  tile[t] = i < n ? x[i] : 0.0f;
  if (threadIdx.x < kRadius) {
    tile[t - kRadius] = i >= kRadius ? x[i - kRadius] : 0.0f;
    tile[t + kBlock] = i + kBlock < n ? x[i + kBlock] : 0.0f;
  }
  __syncthreads();
  float v = 0.0f;
#pragma unroll
  for (int d = -kRadius; d <= kRadius; ++d) v += kWeights[d + kRadius] * tile[t + d];
  if (i < n) y[i] = v;
}

extern "C" __global__ void tb_stencil_2d(const float* __restrict__ x, float* __restrict__ y, int nx, int ny) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= nx || j >= ny) return;
  const int c = j * nx + i;
  const bool edge = i == 0 || j == 0 || i == nx - 1 || j == ny - 1;
  y[c] = edge ? x[c] : 0.2f * (x[c] + x[c - 1] + x[c + 1] + x[c - nx] + x[c + nx]);
}

extern "C" __global__ void tb_stencil_3d(const float* __restrict__ x, float* __restrict__ y, int nx, int ny, int nz) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  const int k = blockIdx.z * blockDim.z + threadIdx.z;
  if (i <= 0 || j <= 0 || k <= 0 || i >= nx - 1 || j >= ny - 1 || k >= nz - 1) return;
  const int c = (k * ny + j) * nx + i, plane = nx * ny;
  y[c] = x[c - 1] + x[c + 1] + x[c - nx] + x[c + nx] + x[c - plane] + x[c + plane] - 6.0f * x[c];
}

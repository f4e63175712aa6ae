// textbook: row-wise normalisations, fp32, row-major [rows][cols]
// tb_softmax_online  one warp a row: running maximum and rescaled sum in one pass, merged over lanes by shuffles
//                    block (32,4,1), grid (ceil(rows/4),1,1); args: const float* x, float* y, int rows, int cols
// tb_layernorm       one block of 128 a row, mean and variance by two block reductions, affine
//                    grid (rows,1,1); args: const float* x, const float* gamma, const float* beta, float* y, int cols
extern "C" __global__ void tb_softmax_online(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  if (row >= rows) return;
  const float* in = x + row * cols;
  float m = -__int_as_float(0x7f800000), s = 0.0f;
  for (int j = lane; j < cols; j += 32) {
    const float v = in[j], top = fmaxf(m, v);
    s = s * expf(m - top) + expf(v - top);
    m = top;
  }
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) {
    const float mo = __shfl_xor_sync(0xffffffffu, m, d), so = __shfl_xor_sync(0xffffffffu, s, d);
    const float top = fmaxf(m, mo);
    s = (s > 0.0f ? s * expf(m - top) : 0.0f) + (so > 0.0f ? so * expf(mo - top) : 0.0f);
    m = top;
  }
  for (int j = lane; j < cols; j += 32) y[row * cols + j] = expf(in[j] - m) / s;
}

__device__ __forceinline__ float block_sum(float v, float* part) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  __syncthreads();  // the previous use of part is over
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  return part[0] + part[1] + part[2] + part[3];
}

extern "C" __global__ void __launch_bounds__(128) tb_layernorm(const float* __restrict__ x,
                                                               const float* __restrict__ gamma,
                                                               const float* __restrict__ beta,
                                                               float* __restrict__ y, int cols) {
  __shared__ float part[4];
  const float* in = x + blockIdx.x * cols;
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += 128) sum += in[j];
  const float mean = block_sum(sum, part) / cols;
  float square = 0.0f;
  for (int j = threadIdx.x; j < cols; j += 128) square += (in[j] - mean) * (in[j] - mean);
  const float scale = rsqrtf(block_sum(square, part) / cols + 1e-5f);
  for (int j = threadIdx.x; j < cols; j += 128)
    y[blockIdx.x * cols + j] = (in[j] - mean) * scale * gamma[j] + beta[j];
}

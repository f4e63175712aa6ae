// id: E1   seed row: E1 vector add
// exercises: one element a thread, bounds check, three coalesced streams
// entry e1_vector_add     grid (ceil(n/256),1,1)  block (256,1,1)  dynamic shared 0 B
// entry e1_vector_add_grid_stride: the same by a grid-stride loop, any grid (here 64 blocks)
// args: const float* x [n], const float* y [n], float* z [n], int n
// expected access: 4 sectors a warp request (128 consecutive bytes) on both loads and the store; n not a multiple
// of 32 leaves one partial request
extern "C" __global__ void e1_vector_add(const float* __restrict__ x, const float* __restrict__ y,
                                         float* __restrict__ z, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}

extern "C" __global__ void e1_vector_add_grid_stride(const float* __restrict__ x, const float* __restrict__ y,
                                                     float* __restrict__ z, int n) {
  const int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) z[i] = x[i] + y[i];
}

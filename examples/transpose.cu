// Transpose through a 32 x 32 tile, with and without one word of padding a row.
// Block 32 x 8, grid n/32 x n/32; n must be a multiple of 32.

template <int PAD>
__device__ void transpose(const float* in, float* out, int n) {
    __shared__ float tile[32][32 + PAD];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];  // a column of the tile
}

extern "C" __global__ void transpose_plain(const float* in, float* out, int n) { transpose<0>(in, out, n); }

extern "C" __global__ void transpose_padded(const float* in, float* out, int n) { transpose<1>(in, out, n); }

// The kernel whose code is replaced: it only fixes what the launch must know (parameters, registers, 4 KB of
// shared memory, 64 words of local memory, room for the code).
extern "C" __global__ void opcode_truth(const uint4* in, const uint4* uin, uint4* out, uint4* scratch,
    unsigned shift,
    unsigned c0, unsigned c1, unsigned c2, unsigned c3, unsigned c4, unsigned c5, unsigned c6, unsigned c7,
    unsigned c8, unsigned c9, unsigned c10, unsigned c11, unsigned c12, unsigned c13, unsigned c14, unsigned c15,
    unsigned c16, unsigned c17, unsigned c18, unsigned c19, unsigned c20, unsigned c21, unsigned c22, unsigned c23) {
  __shared__ uint4 tile[256];
  unsigned frame[64], live[80];
  for (int i = 0; i < 64; ++i) frame[i] = in[i].x;
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  unsigned s = c0 ^ c1 ^ c23;
#pragma unroll
  for (int i = 0; i < 80; ++i) live[i] = in[i + s].y;
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < 64; ++i) { frame[(i * s) & 63] += s; s += frame[(s + i) & 63] + tile[(s + i) & 255].y; }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 80; ++i) scratch[i + s].x = live[i];
  scratch[threadIdx.x] = uin[s & 7];
  out[threadIdx.x] = make_uint4(s, shift, c4, c5);
}

// textbook: warp-wide instructions on int32, block (64,1,1), grid (n/64,1,1), n a multiple of 64
// tb_warp_vote     any, all, ballot, and votes of a divergent group; out [4][n]
// tb_warp_match    __match_any_sync and __match_all_sync; out [3][n]
// tb_warp_reduce   __reduce_{add,min,max,and,or,xor}_sync, signed and unsigned; out [8][n]
// tb_warp_shuffle  idx, up, down, xor at widths 32, 16, 8, and a data-dependent source lane; out [6][n]
// args: const int* x [n], int* out, int n
extern "C" __global__ void tb_warp_vote(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
  out[i] = __any_sync(0xffffffffu, v > 90);
  out[n + i] = __all_sync(0xffffffffu, v >= 0);
  out[2 * n + i] = __ballot_sync(0xffffffffu, v & 1);
  const unsigned group = __ballot_sync(0xffffffffu, v & 2);
  int sub = -1;
  if (v & 2) sub = __popc(__ballot_sync(group, v & 4)) + 100 * __all_sync(group, v > 10);
  out[3 * n + i] = sub;
}

extern "C" __global__ void tb_warp_match(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
  int all = 0;
  out[i] = __match_any_sync(0xffffffffu, v & 7);
  out[n + i] = __match_all_sync(0xffffffffu, v / 64, &all);
  out[2 * n + i] = all + 2 * __popcll(__match_any_sync(0xffffffffu, static_cast<long long>(v & 3) << 40));
}

extern "C" __global__ void tb_warp_reduce(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i] - 50;
  const unsigned u = static_cast<unsigned>(v), full = 0xffffffffu;
  out[i] = __reduce_add_sync(full, v);
  out[n + i] = __reduce_min_sync(full, v);
  out[2 * n + i] = __reduce_max_sync(full, v);
  out[3 * n + i] = static_cast<int>(__reduce_min_sync(full, u));
  out[4 * n + i] = static_cast<int>(__reduce_max_sync(full, u));
  out[5 * n + i] = static_cast<int>(__reduce_and_sync(full, u | 0xfffffff0u));
  out[6 * n + i] = static_cast<int>(__reduce_or_sync(full, u & 0x55u));
  out[7 * n + i] = static_cast<int>(__reduce_xor_sync(full, u));
}

extern "C" __global__ void tb_warp_shuffle(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
  const unsigned full = 0xffffffffu;
  out[i] = __shfl_sync(full, v, 5);
  out[n + i] = __shfl_up_sync(full, v, 3, 16);
  out[2 * n + i] = __shfl_down_sync(full, v, 2, 8);
  out[3 * n + i] = __shfl_xor_sync(full, v, 9);
  out[4 * n + i] = __shfl_sync(full, v, v, 8);
  out[5 * n + i] = __shfl_xor_sync(full, v, 4, 8);
}

// textbook: cooperative groups on int32 (exact); block (128,1,1), n a multiple of 128
// tb_cg_tiles      sums over tiles of 8 by shuffles and over tiles of 16 by tile ballots; out [2][n]
// tb_cg_reduce     cg::reduce over tiles of 32 (plus, less, bit_or) and of 4; out [4][n]
// tb_cg_coalesced  compaction inside a warp by coalesced_threads() in a divergent branch; out [n], zeroed
// tb_cg_scan       cg::inclusive_scan and exclusive_scan over tiles of 32; out [2][n]
// args: const int* x [n], int* out, int n
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void tb_cg_tiles(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const auto block = cg::this_thread_block();
  const auto eight = cg::tiled_partition<8>(block);
  const auto sixteen = cg::tiled_partition<16>(block);
  int v = x[i];
  for (int d = eight.size() / 2; d > 0; d /= 2) v += eight.shfl_xor(v, d);
  out[i] = v * 10 + static_cast<int>(eight.thread_rank());
  out[n + i] = static_cast<int>(sixteen.ballot(x[i] & 1)) + (sixteen.any(x[i] > 95) << 20);
}

extern "C" __global__ void tb_cg_reduce(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const auto quad = cg::tiled_partition<4>(warp);
  out[i] = cg::reduce(warp, x[i], cg::plus<int>());
  out[n + i] = cg::reduce(warp, x[i], cg::less<int>());
  out[2 * n + i] = cg::reduce(warp, x[i], cg::bit_or<int>());
  out[3 * n + i] = cg::reduce(quad, x[i], cg::plus<int>());
}

extern "C" __global__ void tb_cg_coalesced(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int base = i & ~31;
  if (x[i] % 3 == 0) {
    const auto group = cg::coalesced_threads();
    out[base + group.thread_rank()] = x[i] + 1000 * static_cast<int>(group.size());
  }
}

extern "C" __global__ void tb_cg_scan(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  out[i] = cg::inclusive_scan(warp, x[i]);
  out[n + i] = cg::exclusive_scan(warp, x[i], cg::plus<int>());
}

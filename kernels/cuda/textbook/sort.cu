// textbook: sorting steps on integers (exact)
// tb_bitonic_sort  one block of 256 sorts each 512-element segment of int32 in shared memory
//                  grid (n/512,1,1); args: int* x [n]
// tb_merge_path    merges two sorted runs, a[n] and mul*b[m]+add: a thread finds its diagonal by binary search, then
//                  merges 4 outputs serially (ties: a first); grid (ceil((n+m)/512),1,1), block (128,1,1);
//                  args: const int* a, int n, const int* b, int m, int mul, int add, int* y [n+m]
// tb_radix_pass    one stable pass of a 4-bit radix sort by one block of 128: ranks by __match_any_sync, counts in
//                  shared memory; args: const unsigned* x [n], unsigned* y [n], int n (n <= 4096), int shift
extern "C" __global__ void __launch_bounds__(256) tb_bitonic_sort(int* x) {
  __shared__ int s[512];
  int* segment = x + blockIdx.x * 512;
  const int t = threadIdx.x;
  s[t] = segment[t];
  s[t + 256] = segment[t + 256];
  for (int size = 2; size <= 512; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      const int lo = 2 * t - (t & (stride - 1)), hi = lo + stride;
      const bool ascending = (lo & size) == 0;
      const int a = s[lo], b = s[hi];
      if ((a > b) == ascending) { s[lo] = b; s[hi] = a; }
    }
  }
  __syncthreads();
  segment[t] = s[t];
  segment[t + 256] = s[t + 256];
}

extern "C" __global__ void tb_merge_path(const int* __restrict__ a, int n, const int* __restrict__ b, int m, int mul,
                                         int add, int* __restrict__ y) {
  const int diagonal = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (diagonal >= n + m) return;
  int lo = max(0, diagonal - m), hi = min(diagonal, n);  // elements taken from a
  while (lo < hi) {
    const int mid = (lo + hi) / 2;
    if (a[mid] <= mul * b[diagonal - 1 - mid] + add) lo = mid + 1; else hi = mid;
  }
  int i = lo, j = diagonal - lo;
  for (int k = diagonal; k < min(diagonal + 4, n + m); ++k) {
    const bool from_a = j >= m || (i < n && a[i] <= mul * b[j] + add);
    y[k] = from_a ? a[i] : mul * b[j] + add;
    if (from_a) ++i; else ++j;
  }
}

extern "C" __global__ void __launch_bounds__(128) tb_radix_pass(const unsigned* x, unsigned* y, int n, int shift) {
  __shared__ int count[4][16];  // [warp][digit]: first counts, then first free position
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int per_warp = (n + 127) / 128 * 32, begin = warp * per_warp, end = min(n, begin + per_warp);
  if (threadIdx.x < 64) (&count[0][0])[threadIdx.x] = 0;
  __syncthreads();
  for (int i = begin + lane; i < end; i += 32) atomicAdd(&count[warp][(x[i] >> shift) & 15], 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int digit = 0; digit < 16; ++digit)
      for (int w = 0; w < 4; ++w) { const int c = count[w][digit]; count[w][digit] = sum; sum += c; }
  }
  __syncthreads();
  for (int i0 = begin; i0 < end; i0 += 32) {
    const int i = i0 + lane;
    const unsigned live = __ballot_sync(0xffffffffu, i < end);
    if (i < end) {
      const unsigned v = x[i];
      const int digit = (v >> shift) & 15;
      const unsigned same = __match_any_sync(live, digit);
      const int rank = __popc(same & ((1u << lane) - 1u));
      const int base = count[warp][digit];
      __syncwarp(live);
      if (rank == 0) count[warp][digit] = base + __popc(same);
      y[base + rank] = v;
    }
    __syncwarp();
  }
}

// id: E8   seed row: E8 CPU check with a tolerance
// exercises: counting mismatches against a reference the way a CPU check does: |got - want| <= atol + rtol*|want|,
// NaN counts as a mismatch; warp vote and one atomicAdd a warp; the largest error by an integer atomicMax
// entry e8_count_mismatches   grid (ceil(n/256),1,1)  block (256,1,1)  dynamic shared 0 B
// args: const float* got [n], const float* want [n], int n, float atol, float rtol, int* count [1] (zeroed),
//       int* max_error_bits [1] (zeroed; float bits of the largest |got - want|)
// expected access: two coalesced loads; at most one RED a warp to each counter
extern "C" __global__ void __launch_bounds__(256) e8_count_mismatches(const float* __restrict__ got,
                                                                      const float* __restrict__ want, int n,
                                                                      float atol, float rtol, int* __restrict__ count,
                                                                      int* __restrict__ max_error_bits) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool bad = false;
  float error = 0.0f;
  if (i < n) {
    error = fabsf(got[i] - want[i]);
    bad = !(error <= atol + rtol * fabsf(want[i]));
  }
  const unsigned votes = __ballot_sync(0xffffffffu, bad);
  for (int d = 16; d > 0; d >>= 1) error = fmaxf(error, __shfl_xor_sync(0xffffffffu, error, d));
  if ((threadIdx.x & 31) == 0) {
    if (votes) atomicAdd(count, __popc(votes));
    atomicMax(max_error_bits, __float_as_int(error));  // non-negative floats order like their bits
  }
}

// textbook: 16-bit arithmetic; block (64,1,1), grid (ceil(n/64),1,1), n pairs
// tb_half2_map      add, sub, mul, fma, fma with relu, max, min, neg, abs on half2 (one rounding each: exact);
//                   out [9][n] pairs; args: const half2* x [n], const half2* y [n], half2* out, int n
// tb_half2_compare  ==, <, >= masks, isnan, select by compare; out [4][n] uint32; args: x, y, unsigned* out, n
// tb_half_math      hexp2, hlog2, hsqrt, hrcp, htanh approximations computed for half; out [5][n] half;
//                   args: const half* x [n], half* out, int n
// tb_bfloat162_map  add, mul, fma, max, min, neg on bfloat162; out [6][n] pairs; args: x, y, out, n (bit patterns)
// tb_dot4           dp4a and dp2a, signed and unsigned; args: const int* a, const int* b, int* out [4][n], int n
// tb_simd_bytes     per-byte add, saturating add, absolute difference, maximum, compare, average; out [6][n] uint32
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void tb_half2_map(const __half2* x, const __half2* y, __half2* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const __half2 a = x[i], b = y[i];
  out[i] = __hadd2_rn(a, b);
  out[n + i] = __hsub2_rn(a, b);
  out[2 * n + i] = __hmul2_rn(a, b);
  out[3 * n + i] = __hfma2(a, b, a);
  out[4 * n + i] = __hfma2_relu(a, b, b);
  out[5 * n + i] = __hmax2(a, b);
  out[6 * n + i] = __hmin2(a, b);
  out[7 * n + i] = __hneg2(a);
  out[8 * n + i] = __habs2(__lowhigh2highlow(b));
}

extern "C" __global__ void tb_half2_compare(const __half2* x, const __half2* y, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const __half2 a = x[i], b = y[i];
  out[i] = __heq2_mask(a, b);
  out[n + i] = __hlt2_mask(a, b);
  out[2 * n + i] = __hge2_mask(a, b) ^ (__hbgt2(a, b) ? 1u : 0u);
  out[3 * n + i] = __hlt(__low2half(a), __high2half(b)) ? 7u : 9u;
}

extern "C" __global__ void tb_half_math(const __half* x, __half* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const __half a = x[i], p = __hadd(__habs(a), __float2half(0.125f));
  out[i] = hexp2(a);
  out[n + i] = hlog2(p);
  out[2 * n + i] = hsqrt(p);
  out[3 * n + i] = hrcp(p);
  out[4 * n + i] = htanh(a);
}

extern "C" __global__ void tb_bfloat162_map(const __nv_bfloat162* x, const __nv_bfloat162* y, __nv_bfloat162* out,
                                            int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const __nv_bfloat162 a = x[i], b = y[i];
  out[i] = __hadd2_rn(a, b);
  out[n + i] = __hmul2_rn(a, b);
  out[2 * n + i] = __hfma2(a, b, __hneg2(a));
  out[3 * n + i] = __hmax2(a, b);
  out[4 * n + i] = __hmin2(a, b);
  out[5 * n + i] = __hneg2(a);
}

extern "C" __global__ void tb_dot4(const int* a, const int* b, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned ua = a[i], ub = b[i];
  out[i] = __dp4a(a[i], b[i], 7);
  out[n + i] = static_cast<int>(__dp4a(ua, ub, 7u));
  out[2 * n + i] = __dp2a_lo(a[i], b[i], -5);
  out[3 * n + i] = static_cast<int>(__dp2a_hi(ua, ub, 5u));
}

extern "C" __global__ void tb_simd_bytes(const unsigned* a, const unsigned* b, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = __vadd4(a[i], b[i]);
  out[n + i] = __vaddus4(a[i], b[i]);
  out[2 * n + i] = __vabsdiffu4(a[i], b[i]);
  out[3 * n + i] = __vmaxs4(a[i], b[i]);
  out[4 * n + i] = __vcmpgtu4(a[i], b[i]);
  out[5 * n + i] = __vavgu4(a[i], b[i]);
}

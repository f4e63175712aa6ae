// textbook: elementary functions, fp32; block (128,1,1), grid (ceil(n/128),1,1)
// tb_math_precise   expf, logf, powf, tanhf, erff, rsqrtf, sqrtf, quotient, cbrtf, log1pf, fmodf; out [11][n]
// tb_math_trig      sinf, cosf, tanf, atan2f, and sinf of large arguments (slow range reduction); out [5][n]
// tb_math_fast      __expf, __logf, __powf, __sinf, __cosf, __fdividef, rsqrtf, exp2f; out [8][n]
// tb_math_round     floor, ceil, trunc, rint, round, fmod by 1, min/max/clamp/copysign (exact); out [8][n]
//                   args: const float* x [n], const float* y [n], float* out, int n
// tb_monte_carlo    xorshift32 a thread, points in the quarter circle (exact); args: const unsigned* seed [n],
//                   unsigned* hits [n], int n, int samples
// tb_fft256         256-point FFT a block of 128 in shared memory, precise twiddles; args: const float2* x, float2* y
// tb_fft256_fast    the same with __sinf and __cosf
extern "C" __global__ void tb_math_precise(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float a = x[i], b = y[i], p = fabsf(a) + 0.01f;
  out[i] = expf(a);
  out[n + i] = logf(p);
  out[2 * n + i] = powf(p, b);
  out[3 * n + i] = tanhf(a);
  out[4 * n + i] = erff(a);
  out[5 * n + i] = rsqrtf(p);
  out[6 * n + i] = sqrtf(p);
  out[7 * n + i] = a / b;
  out[8 * n + i] = cbrtf(a);
  out[9 * n + i] = log1pf(p);
  out[10 * n + i] = fmodf(a * 10.0f, p);
}

extern "C" __global__ void tb_math_trig(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = sinf(x[i]);
  out[n + i] = cosf(x[i]);
  out[2 * n + i] = tanf(x[i]);
  out[3 * n + i] = atan2f(x[i], y[i]);
  out[4 * n + i] = sinf(x[i] * 1048576.0f);
}

extern "C" __global__ void tb_math_fast(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float a = x[i], p = fabsf(y[i]) + 0.25f;
  out[i] = __expf(a);
  out[n + i] = __logf(p);
  out[2 * n + i] = __powf(p, a);
  out[3 * n + i] = __sinf(a);
  out[4 * n + i] = __cosf(a);
  out[5 * n + i] = __fdividef(a, p);
  out[6 * n + i] = rsqrtf(p);
  out[7 * n + i] = exp2f(a);
}

extern "C" __global__ void tb_math_round(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float a = x[i] * 4.0f, b = y[i];
  out[i] = floorf(a);
  out[n + i] = ceilf(a);
  out[2 * n + i] = truncf(a);
  out[3 * n + i] = rintf(a);
  out[4 * n + i] = roundf(a);
  out[5 * n + i] = __saturatef(a) + copysignf(1.0f, b);
  out[6 * n + i] = fminf(a, b) * 0.5f;
  out[7 * n + i] = a > b ? fmaxf(a, 0.0f) : __fsub_rz(a, b);
}

extern "C" __global__ void tb_monte_carlo(const unsigned* seed, unsigned* hits, int n, int samples) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned s = seed[i] | 1u, inside = 0u;
  for (int k = 0; k < samples; ++k) {
    float v[2];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      s ^= s << 13; s ^= s >> 17; s ^= s << 5;
      v[c] = static_cast<float>(s >> 8) * 5.9604644775390625e-8f;  // 2^-24: exact
    }
    inside += __fadd_rn(__fmul_rn(v[0], v[0]), __fmul_rn(v[1], v[1])) < 1.0f;
  }
  hits[i] = inside;
}

template <bool FAST>
__device__ __forceinline__ void fft256(const float2* x, float2* y) {
  __shared__ float2 s[256];
  const int t = threadIdx.x;
  const long long base = 256ll * blockIdx.x;
  s[__brev(t) >> 24] = x[base + t];
  s[__brev(t + 128) >> 24] = x[base + t + 128];
  for (int half = 1; half < 256; half *= 2) {
    __syncthreads();
    const int k = t & (half - 1), lo = 2 * t - k, hi = lo + half;
    const float angle = -3.14159265358979f * k / half;
    float sn, cs;
    if (FAST) { sn = __sinf(angle); cs = __cosf(angle); } else { sincosf(angle, &sn, &cs); }
    const float2 a = s[lo], b = s[hi];
    const float2 w = make_float2(b.x * cs - b.y * sn, b.x * sn + b.y * cs);
    s[lo] = make_float2(a.x + w.x, a.y + w.y);
    s[hi] = make_float2(a.x - w.x, a.y - w.y);
  }
  __syncthreads();
  y[base + t] = s[t];
  y[base + t + 128] = s[t + 128];
}
extern "C" __global__ void __launch_bounds__(128) tb_fft256(const float2* x, float2* y) { fft256<false>(x, y); }
extern "C" __global__ void __launch_bounds__(128) tb_fft256_fast(const float2* x, float2* y) { fft256<true>(x, y); }

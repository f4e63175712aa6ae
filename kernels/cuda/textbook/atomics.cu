// textbook: atomics whose final memory does not depend on the order; block (128,1,1), grid (ceil(n/128),1,1)
// tb_atomic_int32      add, sub, min, max, and, or, xor, inc, dec on 32-bit words; out [9] uint32, zeroed
// tb_atomic_int64      add, min, max, and, or, xor on 64-bit words; out [6]
// tb_atomic_exch_cas   a spin lock by atomicCAS (one lane a warp), exchange of tokens; out [4]
// tb_atomic_shared     the same operations on shared words, 32 and 64 bit; out [8] a block
// tb_atomic_cas_float  float max and double add by CAS loops (whole numbers: exact); args: const float* x, unsigned* fmax_bits, double* sum
// tb_atomic_fp         atomicAdd of float, double, half2, bfloat162 with small integers (exact); out arrays [8] each
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void tb_atomic_int32(const int* x, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned v = x[i];
  int* out_signed = reinterpret_cast<int*>(out);
  atomicAdd(&out[0], v);
  atomicSub(&out[1], v);
  atomicMin(&out_signed[2], x[i] - 500);
  atomicMax(&out[3], v);
  atomicAnd(&out[4], v | 0x10u);
  atomicOr(&out[5], v);
  atomicXor(&out[6], v * 2654435761u);
  atomicInc(&out[7], 36u);
  atomicDec(&out[8], 40u);
}

extern "C" __global__ void tb_atomic_int64(const long long* x, unsigned long long* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned long long v = x[i];
  atomicAdd(&out[0], v << 30);
  atomicMin(reinterpret_cast<long long*>(&out[1]), x[i] - (1ll << 40));
  atomicMax(&out[2], v << 8);
  atomicAnd(&out[3], ~v);
  atomicOr(&out[4], v << 20);
  atomicXor(&out[5], v * 0x9e3779b97f4a7c15ull);
}

extern "C" __global__ void tb_atomic_exch_cas(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int total = __reduce_add_sync(0xffffffffu, i < n ? x[i] : 0);
  if ((threadIdx.x & 31) == 0) {
    volatile int* guarded = out + 1;
    while (atomicCAS(&out[0], 0, 1) != 0) {}
    __threadfence();
    *guarded = *guarded + total;
    __threadfence();
    atomicExch(&out[0], 0);
  }
  // Every lane puts a token into the cell and counts what it took out: all tokens but the one that stays.
  atomicAdd(&out[3], atomicExch(&out[2], 1));
}

extern "C" __global__ void tb_atomic_shared(const int* x, long long* out, int n) {
  __shared__ int s[6];
  __shared__ unsigned long long w[2];
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  if (t < 6) s[t] = 0;
  if (t < 2) w[t] = 0ull;
  __syncthreads();
  if (i < n) {
    atomicAdd(&s[0], x[i]);
    atomicMin(&s[1], x[i] - 700);
    atomicMax(&s[2], x[i]);
    atomicOr(&s[3], x[i]);
    atomicXor(&s[4], x[i] * 77);
    atomicInc(reinterpret_cast<unsigned*>(&s[5]), 28u);
    atomicAdd(&w[0], static_cast<unsigned long long>(x[i]) << 33);
    atomicMax(&w[1], static_cast<unsigned long long>(x[i]) << 12);
  }
  __syncthreads();
  if (t < 6) out[blockIdx.x * 8 + t] = s[t];
  if (t < 2) out[blockIdx.x * 8 + 6 + t] = static_cast<long long>(w[t]);
}

extern "C" __global__ void tb_atomic_cas_float(const float* x, unsigned* fmax_bits, double* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = fabsf(x[i]);
  unsigned seen = *fmax_bits;
  while (__uint_as_float(seen) < v) {
    const unsigned was = atomicCAS(fmax_bits, seen, __float_as_uint(v));
    if (was == seen) break;
    seen = was;
  }
  unsigned long long* word = reinterpret_cast<unsigned long long*>(sum);
  unsigned long long old = *word, assumed;
  do {
    assumed = old;
    old = atomicCAS(word, assumed, __double_as_longlong(__longlong_as_double(assumed) + static_cast<double>(v)));
  } while (old != assumed);
}

extern "C" __global__ void tb_atomic_fp(const int* x, float* f, double* d, __half2* h, __nv_bfloat162* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int v = x[i] & 3, bin = i & 7;
  atomicAdd(&f[bin], static_cast<float>(v));
  atomicAdd(&d[bin], static_cast<double>(v) * 0.5);
  atomicAdd(&h[bin], __floats2half2_rn(static_cast<float>(v), 1.0f));
  atomicAdd(&b[bin], __floats2bfloat162_rn(1.0f, static_cast<float>(v & 1)));
}

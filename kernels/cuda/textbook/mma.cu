// textbook: matrix instructions of one warp, one tile a block; inputs are small whole numbers, so every sum is exact
// tb_mma_f16_f32   ldmatrix (x4, x2.trans) + mma m16n8k16, fp16 in, fp32 out
// tb_mma_f16_f16   the same with an fp16 accumulator, and m16n8k8
// tb_mma_bf16      mma m16n8k16, bf16 in (made from fp32), fp32 out
// tb_mma_tf32      mma m16n8k8, tf32 in (cvt.rna), fp32 out
// tb_mma_s8        mma m16n8k32, int8 in, int32 out
// tb_mma_f64       mma m8n8k4, fp64
// grid (tiles,1,1), block (32,1,1); args: const T* A [tiles][m*k] row-major, const T* B [tiles][k*n] row-major (s8: B as
// [n][k]), U* C [tiles][m*n]
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ unsigned pack_bf16(float lo, float hi) {
  const __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
  return reinterpret_cast<const unsigned&>(v);
}
__device__ __forceinline__ unsigned to_tf32(float v) {
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}

// A [16][16] and B [16][8] of the block's tile through shared memory into fragments.
__device__ __forceinline__ void load_fragments(const __half* A, const __half* B, unsigned (&a)[4], unsigned (&b)[2]) {
  __shared__ __align__(16) __half As[16][16];
  __shared__ __align__(16) __half Bs[16][8];
  const int lane = threadIdx.x;
  reinterpret_cast<uint4*>(As)[lane] = reinterpret_cast<const uint4*>(A + 256 * blockIdx.x)[lane];
  if (lane < 16) reinterpret_cast<uint4*>(Bs)[lane] = reinterpret_cast<const uint4*>(B + 128 * blockIdx.x)[lane];
  __syncwarp();
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(shared_address(&As[lane & 15][8 * (lane >> 4)])));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(b[0]), "=r"(b[1])
               : "r"(shared_address(&Bs[lane & 15][0])));
}

template <typename T>
__device__ __forceinline__ void store_c(T* C, T c0, T c1, T c2, T c3) {  // fragment layout of m16n8
  const int row = threadIdx.x >> 2, col = 2 * (threadIdx.x & 3);
  C += 128 * blockIdx.x;
  C[row * 8 + col] = c0;
  C[row * 8 + col + 1] = c1;
  C[(row + 8) * 8 + col] = c2;
  C[(row + 8) * 8 + col + 1] = c3;
}

extern "C" __global__ void __launch_bounds__(32) tb_mma_f16_f32(const __half* A, const __half* B, float* C) {
  unsigned a[4], b[2];
  load_fragments(A, B, a, b);
  float c[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  store_c(C, c[0], c[1], c[2], c[3]);
}

extern "C" __global__ void __launch_bounds__(32) tb_mma_f16_f16(const __half* A, const __half* B, __half* C) {
  unsigned a[4], b[2], c[2] = {0u, 0u};
  load_fragments(A, B, a, b);
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
               : "+r"(c[0]), "+r"(c[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  // once more with the left half of A and the upper half of B
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
               : "+r"(c[0]), "+r"(c[1])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  const __half2 lo = reinterpret_cast<const __half2&>(c[0]), hi = reinterpret_cast<const __half2&>(c[1]);
  store_c(C, __low2half(lo), __high2half(lo), __low2half(hi), __high2half(hi));
}

extern "C" __global__ void __launch_bounds__(32) tb_mma_bf16(const float* A, const float* B, float* C) {
  const int g = threadIdx.x >> 2, q = 2 * (threadIdx.x & 3);
  A += 256 * blockIdx.x;
  B += 128 * blockIdx.x;
  unsigned a[4], b[2];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float* p = A + (g + 8 * (r & 1)) * 16 + q + 8 * (r >> 1);
    a[r] = pack_bf16(p[0], p[1]);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) b[r] = pack_bf16(B[(q + 8 * r) * 8 + g], B[(q + 8 * r + 1) * 8 + g]);
  float c[4] = {};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  store_c(C, c[0], c[1], c[2], c[3]);
}

extern "C" __global__ void __launch_bounds__(32) tb_mma_tf32(const float* A, const float* B, float* C) {
  const int g = threadIdx.x >> 2, q = threadIdx.x & 3;
  A += 128 * blockIdx.x;
  B += 64 * blockIdx.x;
  unsigned a[4], b[2];
#pragma unroll
  for (int r = 0; r < 4; ++r) a[r] = to_tf32(A[(g + 8 * (r & 1)) * 8 + q + 4 * (r >> 1)]);
#pragma unroll
  for (int r = 0; r < 2; ++r) b[r] = to_tf32(B[(q + 4 * r) * 8 + g]);
  float c[4] = {};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  store_c(C, c[0], c[1], c[2], c[3]);
}

extern "C" __global__ void __launch_bounds__(32) tb_mma_s8(const signed char* A, const signed char* B, int* C) {
  const int g = threadIdx.x >> 2, q = threadIdx.x & 3;
  const unsigned* a = reinterpret_cast<const unsigned*>(A + 512 * blockIdx.x);  // [16][8] words of 4 bytes
  const unsigned* b = reinterpret_cast<const unsigned*>(B + 256 * blockIdx.x);  // [8][8] words
  int c[4] = {};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[g * 8 + q]), "r"(a[(g + 8) * 8 + q]), "r"(a[g * 8 + q + 4]), "r"(a[(g + 8) * 8 + q + 4]),
                 "r"(b[g * 8 + q]), "r"(b[g * 8 + q + 4]));
  store_c(C, c[0], c[1], c[2], c[3]);
}

extern "C" __global__ void __launch_bounds__(32) tb_mma_f64(const double* A, const double* B, double* C) {
  const int g = threadIdx.x >> 2, q = threadIdx.x & 3;
  double c0 = 0.0, c1 = 0.0;
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+d"(c0), "+d"(c1)
               : "d"(A[32 * blockIdx.x + g * 4 + q]), "d"(B[32 * blockIdx.x + q * 8 + g]));
  C[64 * blockIdx.x + g * 8 + 2 * q] = c0;
  C[64 * blockIdx.x + g * 8 + 2 * q + 1] = c1;
}

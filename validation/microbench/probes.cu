// Probes: one arithmetic operation a kernel, on special values and random bits, to compare the simulator with
// the card bit for bit.  Every kernel is out[i] = op(a[i], b[i], c[i]) over n = 65,536 elements.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#define INDEX const int i = blockIdx.x * blockDim.x + threadIdx.x
#define UNARY(name, text)                                                             \
  extern "C" __global__ void p_##name(const float* a, float* out) {                   \
    INDEX;                                                                            \
    float r;                                                                          \
    asm volatile(text " %0, %1;" : "=f"(r) : "f"(a[i]));                              \
    out[i] = r;                                                                       \
  }
UNARY(rcp, "rcp.approx.f32") UNARY(rcp_ftz, "rcp.approx.ftz.f32") UNARY(rsqrt_ftz, "rsqrt.approx.ftz.f32")
UNARY(sqrt_ftz, "sqrt.approx.ftz.f32") UNARY(ex2_ftz, "ex2.approx.ftz.f32") UNARY(lg2_ftz, "lg2.approx.ftz.f32")
UNARY(sin_ftz, "sin.approx.ftz.f32") UNARY(cos_ftz, "cos.approx.ftz.f32") UNARY(tanh, "tanh.approx.f32")
UNARY(rsqrt, "rsqrt.approx.f32") UNARY(ex2, "ex2.approx.f32") UNARY(lg2, "lg2.approx.f32")

#define UNARY64(name, text)                                                           \
  extern "C" __global__ void p_##name(const double* a, double* out) {                 \
    INDEX;                                                                            \
    double r;                                                                         \
    asm volatile(text " %0, %1;" : "=d"(r) : "d"(a[i]));                              \
    out[i] = r;                                                                       \
  }
UNARY64(rcp64h, "rcp.approx.ftz.f64") UNARY64(rsq64h, "rsqrt.approx.ftz.f64")

#define TERNARY(name, type, expression)                                               \
  extern "C" __global__ void p_##name(const type* a, const type* b, const type* c, type* out) { \
    INDEX;                                                                            \
    const type x = a[i], y = b[i], z = c[i];                                          \
    (void)y; (void)z;                                                                 \
    out[i] = expression;                                                              \
  }
TERNARY(add, float, x + y) TERNARY(mul, float, x* y) TERNARY(fma, float, fmaf(x, y, z)) TERNARY(div, float, x / y)
TERNARY(sqrt, float, sqrtf(x)) TERNARY(min, float, fminf(x, y)) TERNARY(max, float, fmaxf(x, y))
TERNARY(add_rz, float, __fadd_rz(x, y)) TERNARY(add_rd, float, __fadd_rd(x, y)) TERNARY(add_ru, float, __fadd_ru(x, y))
TERNARY(mul_rz, float, __fmul_rz(x, y)) TERNARY(mul_rd, float, __fmul_rd(x, y)) TERNARY(mul_ru, float, __fmul_ru(x, y))
TERNARY(fma_rz, float, __fmaf_rz(x, y, z)) TERNARY(fma_rd, float, __fmaf_rd(x, y, z)) TERNARY(fma_ru, float, __fmaf_ru(x, y, z))
TERNARY(sat, float, __saturatef(x)) TERNARY(div_ru, float, __fdiv_ru(x, y)) TERNARY(rcp_rn, float, __frcp_rn(x))
TERNARY(floor, float, floorf(x)) TERNARY(rint, float, rintf(x)) TERNARY(trunc, float, truncf(x)) TERNARY(ceil, float, ceilf(x))
TERNARY(exp, float, expf(x)) TERNARY(log, float, logf(x)) TERNARY(sin, float, sinf(x)) TERNARY(pow, float, powf(fabsf(x), y))
TERNARY(tanhf, float, tanhf(x)) TERNARY(erf, float, erff(x)) TERNARY(fsin, float, __sinf(x)) TERNARY(fexp, float, __expf(x))
TERNARY(dadd, double, x + y) TERNARY(dmul, double, x* y) TERNARY(dfma, double, fma(x, y, z)) TERNARY(ddiv, double, x / y)
TERNARY(dsqrt, double, sqrt(x)) TERNARY(dmin, double, fmin(x, y)) TERNARY(dmax, double, fmax(x, y))
TERNARY(dadd_rz, double, __dadd_rz(x, y)) TERNARY(dadd_rd, double, __dadd_rd(x, y)) TERNARY(dmul_ru, double, __dmul_ru(x, y))
TERNARY(dfma_rz, double, __fma_rz(x, y, z)) TERNARY(dfma_rd, double, __fma_rd(x, y, z)) TERNARY(dfma_ru, double, __fma_ru(x, y, z))
TERNARY(dexp, double, exp(x)) TERNARY(dfloor, double, floor(x)) TERNARY(drint, double, rint(x))

#define CAST(name, from, to, expression)                                              \
  extern "C" __global__ void p_##name(const from* a, to* out) {                       \
    INDEX;                                                                            \
    const from x = a[i];                                                              \
    out[i] = expression;                                                              \
  }
CAST(f2i, float, int, (int)x) CAST(f2u, float, unsigned, (unsigned)x) CAST(f2ll, float, long long, (long long)x)
CAST(f2ull, float, unsigned long long, (unsigned long long)x) CAST(f2i_rn, float, int, __float2int_rn(x))
CAST(f2i_ru, float, int, __float2int_ru(x)) CAST(d2i, double, int, (int)x) CAST(d2u, double, unsigned, (unsigned)x)
CAST(d2ll, double, long long, (long long)x) CAST(d2ull, double, unsigned long long, (unsigned long long)x)
CAST(d2f, double, float, (float)x) CAST(d2f_rz, double, float, __double2float_rz(x)) CAST(d2f_ru, double, float, __double2float_ru(x))
CAST(f2d, float, double, (double)x) CAST(i2f, int, float, (float)x) CAST(i2f_rz, int, float, __int2float_rz(x))
CAST(u2f_ru, unsigned, float, __uint2float_ru(x)) CAST(ll2f, long long, float, (float)x) CAST(ull2f, unsigned long long, float, (float)x)
CAST(ll2f_rz, long long, float, __ll2float_rz(x)) CAST(ll2d, long long, double, (double)x) CAST(ull2d_rd, unsigned long long, double, __ull2double_rd(x))
CAST(f2h, float, unsigned short, __half_as_ushort(__float2half(x))) CAST(f2h_rz, float, unsigned short, __half_as_ushort(__float2half_rz(x)))
CAST(f2h_ru, float, unsigned short, __half_as_ushort(__float2half_ru(x))) CAST(d2h, double, unsigned short, __half_as_ushort(__double2half(x)))
CAST(f2bf, float, unsigned short, __bfloat16_as_ushort(__float2bfloat16(x))) CAST(f2bf_rz, float, unsigned short, __bfloat16_as_ushort(__float2bfloat16_rz(x)))
CAST(h2f, unsigned short, float, __half2float(__ushort_as_half(x))) CAST(h2i, unsigned short, int, __half2int_rz(__ushort_as_half(x)))
CAST(i2h, int, unsigned short, __half_as_ushort(__int2half_rn(x)))

#define HALF2(name, type, expression)                                                 \
  extern "C" __global__ void p_##name(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* out) { \
    INDEX;                                                                            \
    const type x = *reinterpret_cast<const type*>(a + i), y = *reinterpret_cast<const type*>(b + i);            \
    const type z = *reinterpret_cast<const type*>(c + i);                             \
    (void)y; (void)z;                                                                 \
    const type r = expression;                                                        \
    out[i] = *reinterpret_cast<const unsigned*>(&r);                                  \
  }
HALF2(hadd, __half2, __hadd2_rn(x, y)) HALF2(hmul, __half2, __hmul2_rn(x, y)) HALF2(hfma, __half2, __hfma2(x, y, z))
HALF2(hmin, __half2, __hmin2(x, y)) HALF2(hmax, __half2, __hmax2(x, y)) HALF2(hmax_nan, __half2, __hmax2_nan(x, y))
HALF2(hfma_relu, __half2, __hfma2_relu(x, y, z)) HALF2(hfma_sat, __half2, __hfma2_sat(x, y, z)) HALF2(hlt, __half2, __hlt2(x, y))
HALF2(badd, __nv_bfloat162, __hadd2_rn(x, y)) HALF2(bmul, __nv_bfloat162, __hmul2_rn(x, y)) HALF2(bfma, __nv_bfloat162, __hfma2(x, y, z))
HALF2(bmin, __nv_bfloat162, __hmin2(x, y)) HALF2(bmax_nan, __nv_bfloat162, __hmax2_nan(x, y))
HALF2(hex2, __half2, h2exp2(x)) HALF2(hrcp, __half2, h2rcp(x))

// Matrix instructions: warp w of block b takes words (b * 8 + w) * 32 * regs ... of a, b, c
#define MMA(name, shape_types, na, nb, nc)                                            \
  extern "C" __global__ void p_mma_##name(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* out) { \
    INDEX;                                                                            \
    unsigned A[4], B[2], C[4], D[4];                                                  \
    for (int k = 0; k < na; ++k) A[k] = a[i * na + k];                                \
    for (int k = 0; k < nb; ++k) B[k] = b[i * nb + k];                                \
    for (int k = 0; k < nc; ++k) C[k] = c[i * nc + k];                                \
    shape_types;                                                                      \
    for (int k = 0; k < nc; ++k) out[i * nc + k] = D[k];                              \
  }
#define MMA_A4B2C4(t) asm volatile("mma.sync.aligned." t " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};" \
  : "=r"(D[0]), "=r"(D[1]), "=r"(D[2]), "=r"(D[3]) : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]), \
    "r"(C[0]), "r"(C[1]), "r"(C[2]), "r"(C[3]))
#define MMA_A2B1C4(t) asm volatile("mma.sync.aligned." t " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};" \
  : "=r"(D[0]), "=r"(D[1]), "=r"(D[2]), "=r"(D[3]) : "r"(A[0]), "r"(A[1]), "r"(B[0]), "r"(C[0]), "r"(C[1]), "r"(C[2]), "r"(C[3]))
#define MMA_A4B2C2(t) asm volatile("mma.sync.aligned." t " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%9};" \
  : "=r"(D[0]), "=r"(D[1]) : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]), "r"(C[0]), "r"(C[1]))
MMA(f16_16816, MMA_A4B2C4("m16n8k16.row.col.f32.f16.f16.f32"), 4, 2, 4)
MMA(bf16_16816, MMA_A4B2C4("m16n8k16.row.col.f32.bf16.bf16.f32"), 4, 2, 4)
MMA(tf32_1688, MMA_A4B2C4("m16n8k8.row.col.f32.tf32.tf32.f32"), 4, 2, 4)
MMA(f16_1688, MMA_A2B1C4("m16n8k8.row.col.f32.f16.f16.f32"), 2, 1, 4)
MMA(tf32_1684, MMA_A2B1C4("m16n8k4.row.col.f32.tf32.tf32.f32"), 2, 1, 4)
MMA(f16acc_16816, MMA_A4B2C2("m16n8k16.row.col.f16.f16.f16.f16"), 4, 2, 2)
MMA(s8_16832, MMA_A4B2C4("m16n8k32.row.col.s32.s8.s8.s32"), 4, 2, 4)
MMA(u8_16816, MMA_A2B1C4("m16n8k16.row.col.s32.u8.u8.s32"), 2, 1, 4)

extern "C" __global__ void p_dmma(const double* a, const double* b, const double* c, double* out) {
  INDEX;
  double d0, d1;
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%4,%5};"
               : "=d"(d0), "=d"(d1) : "d"(a[i]), "d"(b[i]), "d"(c[2 * i]), "d"(c[2 * i + 1]));
  out[2 * i] = d0;
  out[2 * i + 1] = d1;
}

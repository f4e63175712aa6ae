// textbook: conversions (exact); block (64,1,1), grid (ceil(n/64),1,1); inputs are multiplied by `scale` first
// tb_convert_float   float to int32 (nearest, down, up, zero), uint32, int64, uint64; out int64 [7][n]
// tb_convert_narrow  saturating float to int8, uint8, int16, uint16, int32 to int8 and uint16, uint32 to uint8,
//                    int64 to int32; out int32 [8][n]; args: const float* x, float scale, int* out, int n
// tb_convert_int     int8..int64, signed and unsigned, to float and double; out double [9][n];
//                    args: const int* x [n], double* out, int n
// tb_convert_double  double to int32, uint32, int64, float (nearest, zero, up); out double [6][n];
//                    args: const double* x, double scale, double* out, int n
// tb_convert_half    float to half (nearest, zero), half to float, int, uint16, double, int to half, float to bfloat16
//                    and back; out float [8][n]; args: const float* x, float scale, float* out, int n
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void tb_convert_float(const float* x, float scale, long long* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i] * scale;
  out[i] = __float2int_rn(v);
  out[n + i] = __float2int_rd(v);
  out[2 * n + i] = __float2int_ru(v);
  out[3 * n + i] = __float2int_rz(v);
  out[4 * n + i] = __float2uint_rn(v);
  out[5 * n + i] = __float2ll_rn(v * 1048576.0f);
  out[6 * n + i] = static_cast<long long>(__float2ull_rz(v * 1048576.0f));
}

#define SATURATE(type, from, constraint, value)                                            \
  ([](auto v) {                                                                            \
    int r;                                                                                 \
    asm("{ .reg ." type " t; cvt." from " t, %1; cvt.s32." type " %0, t; }" : "=r"(r) : constraint(v)); \
    return r;                                                                              \
  }(value))

extern "C" __global__ void tb_convert_narrow(const float* x, float scale, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i] * scale;
  const int w = __float2int_rn(v);
  out[i] = SATURATE("s16", "rni.sat.s8.f32", "f", v);
  out[n + i] = SATURATE("u16", "rni.sat.u8.f32", "f", v);
  out[2 * n + i] = SATURATE("s16", "rzi.sat.s16.f32", "f", v * 64.0f);
  out[3 * n + i] = SATURATE("u16", "rmi.sat.u16.f32", "f", v * 64.0f);
  out[4 * n + i] = SATURATE("s16", "sat.s8.s32", "r", w);
  out[5 * n + i] = SATURATE("u16", "sat.u16.s32", "r", w);
  out[6 * n + i] = SATURATE("u16", "sat.u8.u32", "r", static_cast<unsigned>(w));
  out[7 * n + i] = SATURATE("s32", "sat.s32.s64", "l", static_cast<long long>(w) << 23);
}

extern "C" __global__ void tb_convert_int(const int* x, double* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int v = x[i];
  const long long w = static_cast<long long>(v) * 1000003;
  out[i] = static_cast<float>(static_cast<signed char>(v));
  out[n + i] = static_cast<float>(static_cast<unsigned char>(v >> 8));
  out[2 * n + i] = static_cast<float>(static_cast<short>(v));
  out[3 * n + i] = static_cast<float>(static_cast<unsigned short>(v));
  out[4 * n + i] = __int2float_rn(v) + static_cast<double>(__uint2float_rz(v));
  out[5 * n + i] = static_cast<double>(v) - static_cast<double>(static_cast<unsigned>(v));
  out[6 * n + i] = static_cast<float>(w);
  out[7 * n + i] = static_cast<double>(w);
  out[8 * n + i] = static_cast<float>(static_cast<unsigned long long>(w));
}

extern "C" __global__ void tb_convert_double(const double* x, double scale, double* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double v = x[i] * scale;
  out[i] = __double2int_rn(v);
  out[n + i] = __double2uint_rz(v);
  out[2 * n + i] = static_cast<double>(__double2ll_rd(v * 65536.0));
  out[3 * n + i] = __double2float_rn(v);
  out[4 * n + i] = __double2float_rz(v);
  out[5 * n + i] = __double2float_ru(v);
}

extern "C" __global__ void tb_convert_half(const float* x, float scale, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i] * scale;
  const __half h = __float2half_rn(v);
  out[i] = __half2float(h);
  out[n + i] = __half2float(__float2half_rz(v));
  out[2 * n + i] = static_cast<float>(__half2int_rn(h));
  out[3 * n + i] = static_cast<float>(__half2ushort_rz(h));
  out[4 * n + i] = __half2float(__int2half_rn(static_cast<int>(v) * 5));
  out[5 * n + i] = __half2float(__double2half(static_cast<double>(v) * 1.0625));
  out[6 * n + i] = __bfloat162float(__float2bfloat16_rn(v));
  out[7 * n + i] = __bfloat162float(__int2bfloat16_rn(static_cast<int>(v) * 3));
}

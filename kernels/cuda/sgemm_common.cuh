// Shared by the fp32 GEMM kernels of rows A: row-major C[MxN] = alpha * A[MxK] * B[KxN] + beta * C.
#pragma once

// The roundings are spelled out, so that every compiler contracts the epilogue alike: one product rounded,
// then one fused multiply-add.  The oracle repeats exactly these two operations.
__device__ __forceinline__ float epilogue(float alpha, float acc, float beta, float c)
{
    return __fmaf_rn(alpha, acc, __fmul_rn(beta, c));
}

__device__ __forceinline__ float4 epilogue4(float alpha, const float *acc, float beta, float4 c)
{
    return make_float4(epilogue(alpha, acc[0], beta, c.x), epilogue(alpha, acc[1], beta, c.y),
                       epilogue(alpha, acc[2], beta, c.z), epilogue(alpha, acc[3], beta, c.w));
}

__device__ __forceinline__ float4 load4(const float *p)
{
    return *reinterpret_cast<const float4 *>(p);
}

__device__ __forceinline__ void store4(float *p, float4 v)
{
    *reinterpret_cast<float4 *>(p) = v;
}

// Four consecutive floats into a register fragment.
__device__ __forceinline__ void unpack4(float *dst, float4 v)
{
    dst[0] = v.x;
    dst[1] = v.y;
    dst[2] = v.z;
    dst[3] = v.w;
}

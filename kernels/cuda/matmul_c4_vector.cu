// C4  the 32x32 tile of C2 read with ld.shared.v4: a thread computes four neighbouring columns.
// Seed row C4. Exercises: 128-bit shared loads written as PTX, so that no compiler can split them: one load brings
// four k of a row of As, one brings four columns of a row of Bs: 5 loads for 16 FMAs instead of 8 for 4.
// Launch: block 8x32, grid (wB/32, M/32). M, wA, wB multiples of 32; 16-byte aligned arrays.
// Expected a warp (8 tx, 4 ty): As quads are shared by 8 neighbouring lanes, but the 4 rows of 32 words start in the
// same bank: 4 wavefronts where 2 would do; Bs: 8 neighbouring quads, the same for all four ty, 4 wavefronts (ideal).
// Stores of 128 bits, 8 lanes a row: conflict-free.
namespace
{
__device__ __forceinline__ float4 load_shared_v4(const float *p)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(p));
    float4 v;
    // volatile and "memory": the load must stay between the barriers that frame it.
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

__device__ __forceinline__ void axpy4(float (&acc)[4], float a, float4 b)
{
    acc[0] += a * b.x;
    acc[1] += a * b.y;
    acc[2] += a * b.z;
    acc[3] += a * b.w;
}
} // namespace

extern "C" __global__ void __launch_bounds__(256) matmul_c4_vector(float *C, const float *A, const float *B, int wA,
                                                                   int wB)
{
    constexpr int T = 32;
    __shared__ __align__(16) float As[T][T];
    __shared__ __align__(16) float Bs[T][T];

    const int x4 = threadIdx.x * 4, ty = threadIdx.y;
    const float *a = A + (blockIdx.y * T + ty) * wA + x4;
    const float *b = B + ty * wB + blockIdx.x * T + x4;

    float acc[4] = {};
    for (int tile = 0; tile < wA / T; ++tile) {
        *reinterpret_cast<float4 *>(&As[ty][x4]) = *reinterpret_cast<const float4 *>(&a[tile * T]);
        *reinterpret_cast<float4 *>(&Bs[ty][x4]) = *reinterpret_cast<const float4 *>(&b[tile * T * wB]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < T; k += 4) {
            const float4 a4 = load_shared_v4(&As[ty][k]);
            axpy4(acc, a4.x, load_shared_v4(&Bs[k + 0][x4]));
            axpy4(acc, a4.y, load_shared_v4(&Bs[k + 1][x4]));
            axpy4(acc, a4.z, load_shared_v4(&Bs[k + 2][x4]));
            axpy4(acc, a4.w, load_shared_v4(&Bs[k + 3][x4]));
        }
        __syncthreads();
    }
    *reinterpret_cast<float4 *>(&C[(blockIdx.y * T + ty) * wB + blockIdx.x * T + x4]) =
        make_float4(acc[0], acc[1], acc[2], acc[3]);
}

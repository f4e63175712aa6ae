// A13  fused attention: O = softmax(scale * Q K^T) V in one kernel; the score matrix never reaches global memory.
// Seed row A13 (the FlashAttention manner, forward pass, fp32, head dimension 64).
// Exercises: running maximum and sum (online softmax), half-warp shuffles, MUFU.EX2, __syncwarp, 43 KB of static
// shared memory, an optional causal mask that shortens the loop of the upper blocks.
// Layout: Q, K, V, O are [heads][seq][64], 16-byte aligned. Any seq.
// Launch: block 256, grid (ceil(seq/64), heads). A block owns 64 queries and walks the keys in tiles of 32;
// thread (tx, ty) of 16x16 owns queries ty*4..ty*4+3, keys tx and tx+16 of the tile, and dimensions tx*4..tx*4+3.
// Expected a warp (two ty): Q quads are broadcast to 16 lanes; K rows of 68 words (17 quads, odd) are read by 16
// lanes without conflict; V rows by neighbouring quads; P is written and read by the same half-warp.
namespace
{
constexpr int head_dim = 64, queries = 64, keys = 32, threads = 256;
constexpr int pitch = head_dim + 4; // one quad of padding: rows start in different banks and stay 16-byte aligned

struct Shared {
    float q[queries][pitch];
    float k[keys][pitch];
    float v[keys][head_dim];
    float p[queries][keys + 4];
};

// Rows [row0, row0 + rows) of a [seq][64] matrix; rows past the end are zero.
template <int rows, int shared_pitch>
__device__ __forceinline__ void stage(float (&tile)[rows][shared_pitch], const float *src, int row0, int seq)
{
#pragma unroll
    for (int first = 0; first < rows * head_dim / 4; first += threads) {
        const int quad = first + static_cast<int>(threadIdx.x);
        const int row = quad / (head_dim / 4), d = quad % (head_dim / 4) * 4;
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (row0 + row < seq)
            value = *reinterpret_cast<const float4 *>(&src[(row0 + row) * head_dim + d]);
        *reinterpret_cast<float4 *>(&tile[row][d]) = value;
    }
}

__device__ __forceinline__ float4 quad_at(const float *p)
{
    return *reinterpret_cast<const float4 *>(p);
}

__device__ __forceinline__ float dot4(float4 a, float4 b, float sum)
{
    sum = fmaf(a.x, b.x, sum);
    sum = fmaf(a.y, b.y, sum);
    sum = fmaf(a.z, b.z, sum);
    return fmaf(a.w, b.w, sum);
}

// Over the 16 lanes that share a query.
__device__ __forceinline__ float half_warp_max(float x)
{
#pragma unroll
    for (int lane = 8; lane > 0; lane /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
    return x;
}

__device__ __forceinline__ float half_warp_sum(float x)
{
#pragma unroll
    for (int lane = 8; lane > 0; lane /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}
} // namespace

extern "C" __global__ void __launch_bounds__(threads) attention_a13_fused(const float *Q, const float *K,
                                                                          const float *V, float *O, int seq,
                                                                          float scale, int causal)
{
    __shared__ __align__(16) Shared s;

    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int row0 = blockIdx.x * queries;
    const size_t head = static_cast<size_t>(blockIdx.y) * seq * head_dim;
    const float minus_infinity = __int_as_float(0xff800000);
    const float scale_log2 = scale * 1.4426950408889634f; // e^x = 2^(x log2 e)

    stage(s.q, Q + head, row0, seq);

    float out[4][4] = {}, row_max[4], row_sum[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i)
        row_max[i] = minus_infinity;

    const int end = causal ? min(seq, row0 + queries) : seq;
    for (int key0 = 0; key0 < end; key0 += keys) {
        __syncthreads(); // nobody reads the previous keys and values any more
        stage(s.k, K + head, key0, seq);
        stage(s.v, V + head, key0, seq);
        __syncthreads();

        float score[4][2] = {};
#pragma unroll 4
        for (int d = 0; d < head_dim; d += 4) {
            const float4 k_low = quad_at(&s.k[tx][d]), k_high = quad_at(&s.k[tx + 16][d]);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float4 q = quad_at(&s.q[ty * 4 + i][d]);
                score[i][0] = dot4(q, k_low, score[i][0]);
                score[i][1] = dot4(q, k_high, score[i][1]);
            }
        }

#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int query = row0 + ty * 4 + i;
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int key = key0 + tx + 16 * j;
                const bool visible = key < seq && (!causal || key <= query);
                score[i][j] = visible ? score[i][j] * scale_log2 : minus_infinity;
            }
            // Key 0 is visible to every query, so the maximum is finite from the first tile on.
            const float new_max = fmaxf(row_max[i], half_warp_max(fmaxf(score[i][0], score[i][1])));
            const float shrink = exp2f(row_max[i] - new_max);
            row_max[i] = new_max;

            const float p_low = exp2f(score[i][0] - new_max), p_high = exp2f(score[i][1] - new_max);
            s.p[ty * 4 + i][tx] = p_low;
            s.p[ty * 4 + i][tx + 16] = p_high;
            row_sum[i] = fmaf(row_sum[i], shrink, p_low + p_high); // of this lane's keys; summed up at the end
#pragma unroll
            for (int c = 0; c < 4; ++c)
                out[i][c] *= shrink;
        }
        __syncwarp(); // the rows of s.p that a half-warp reads are its own

#pragma unroll 2
        for (int key = 0; key < keys; key += 4) {
            float4 p[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                p[i] = quad_at(&s.p[ty * 4 + i][key]);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float4 v = quad_at(&s.v[key + j][tx * 4]);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float weight = j == 0 ? p[i].x : j == 1 ? p[i].y : j == 2 ? p[i].z : p[i].w;
                    out[i][0] = fmaf(weight, v.x, out[i][0]);
                    out[i][1] = fmaf(weight, v.y, out[i][1]);
                    out[i][2] = fmaf(weight, v.z, out[i][2]);
                    out[i][3] = fmaf(weight, v.w, out[i][3]);
                }
            }
        }
        // The next __syncthreads also keeps s.p from being overwritten too early.
    }

#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float inverse = 1.0f / half_warp_sum(row_sum[i]);
        const int query = row0 + ty * 4 + i;
        if (query < seq)
            *reinterpret_cast<float4 *>(&O[head + query * head_dim + tx * 4]) =
                make_float4(out[i][0] * inverse, out[i][1] * inverse, out[i][2] * inverse, out[i][3] * inverse);
    }
}

// textbook: calls and indirect branches on int32 (exact); block (64,1,1), args: const int* x [n], int* out [n], int n
// tb_call_noinline   a __noinline__ function called in a loop with a trip count a lane
// tb_call_recursive  gcd by recursion (depth differs a lane) plus Fibonacci by double recursion: stack in local memory
// tb_call_pointer    function pointers from a table, chosen by the data
// tb_switch_dense    a dense switch: jump table (indirect branch)
__device__ __noinline__ int step(int v, int k) { return (v ^ k) * 1664525 + 1013904223; }

extern "C" __global__ void tb_call_noinline(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i];
  const int rounds = v & 7;
  for (int k = 0; k < rounds; ++k) v = step(v, k);
  out[i] = v;
}

__device__ __noinline__ int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }
__device__ __noinline__ int fibonacci(int k) { return k < 2 ? k : fibonacci(k - 1) + fibonacci(k - 2); }

extern "C" __global__ void tb_call_recursive(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = gcd(x[i] + 360, 84 + i % 36) * 1000 + fibonacci(x[i] & 7);
}

__device__ __noinline__ int twice(int v) { return 2 * v; }
__device__ __noinline__ int square(int v) { return v * v; }
__device__ __noinline__ int negate(int v) { return ~v; }
__device__ __noinline__ int rotate(int v) { return static_cast<int>(__funnelshift_l(v, v, 5)); }
using Map = int (*)(int);
__device__ Map const kMaps[4] = {twice, square, negate, rotate};

extern "C" __global__ void tb_call_pointer(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = kMaps[x[i] & 3](x[i]) + 1;
}

extern "C" __global__ void tb_switch_dense(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int v = x[i];
  int r = 0;
#pragma unroll 1
  for (int k = 0; k < 3; ++k) {
    switch ((v + k) % 12) {
      case 0: r += v * 3; break;
      case 1: r ^= v + 77; break;
      case 2: r -= v << 2; break;
      case 3: r += __popc(v); break;
      case 4: r = r * 5 + 1; break;
      case 5: r |= v & 0xf0; break;
      case 6: r += v / 3; break;
      case 7: r ^= __brev(v); break;
      case 8: r -= __clz(v); break;
      case 9: r += v * v; break;
      case 10: r = ~r; break;
      default: r += 11; break;
    }
  }
  out[i] = r;
}

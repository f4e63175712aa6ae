// textbook: address spaces and access widths (exact)
// tb_local_array      per-thread array with dynamic index (local memory): counts of nibbles
// tb_generic_pointer  one pointer that names shared or global memory, chosen a lane
// tb_block_3d         block (7,5,3) = 105 threads: the last warp is partial; linear ids and coordinates
// tb_globals          __device__ and __constant__ variables initialised in the source, constant array indexed a lane,
//                     a device counter updated by atomics
// tb_struct_24        loads and stores of a 24-byte struct (three 64-bit accesses of stride 24)
// tb_bytes_shorts     8- and 16-bit loads and stores, signed and unsigned
// tb_cache_hints      __ldg, __ldcg, __ldca, __ldcs, __ldlu, __ldcv and __stcg, __stcs, __stwt, __stwb
// block (64,1,1) unless said; args: const int* x [n], int* out, int n
// tb_int64_index      64-bit index arithmetic with a stride parameter: args const int* x, int* out, int n, long long stride
extern "C" __global__ void tb_local_array(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int count[16];
  for (int k = 0; k < 16; ++k) count[k] = k;
  for (unsigned v = x[i]; v != 0u; v >>= 4) count[v & 15u] += 100;
  int best = 0;
  for (int k = 1; k < 16; ++k)
    if (count[k] > count[best]) best = k;
  out[i] = best * 10000 + count[best] + count[x[i] & 15];
}

extern "C" __global__ void __launch_bounds__(64) tb_generic_pointer(const int* x, int* out, int n) {
  __shared__ int s[64];
  const int i = blockIdx.x * 64 + threadIdx.x;
  s[threadIdx.x] = x[i] * 7;
  out[i] = -1;
  __syncthreads();
  int* where = x[i] & 1 ? s + (threadIdx.x ^ 1) : out + i;
  const int old = *where;
  __syncthreads();
  *where = old + 1000;
  __syncthreads();
  out[n + i] = old + s[threadIdx.x];
}

extern "C" __global__ void tb_block_3d(const int* x, int* out, int n) {
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const int i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  const unsigned full = __activemask();
  if (i < n) out[i] = x[i] + threadIdx.x * 100 + threadIdx.y * 10000 + threadIdx.z * 1000000 + __popc(full);
}

__device__ int gCounter = 5;
__device__ int gTable[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__constant__ int cTable[16] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
__constant__ float cScale = 2.5f;

extern "C" __global__ void tb_globals(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&gCounter, 0);
  out[i] = gTable[x[i] & 7] * 1000000 + cTable[x[i] & 15] + static_cast<int>(cScale * 2.0f) + gCounter;
}

struct Particle { double energy; int id, cell; float weight, pad; };

extern "C" __global__ void tb_struct_24(const Particle* x, Particle* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Particle p = x[i];
  p.energy += p.energy;
  p.id = p.id ^ p.cell;
  out[n - 1 - i] = p;
}

extern "C" __global__ void tb_bytes_shorts(const signed char* a, const unsigned char* b, const short* c,
                                           const unsigned short* d, int* sum, unsigned char* low, short* high, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int v = a[i] * 3 + b[i] - c[i] + d[i];
  sum[i] = v;
  low[n - 1 - i] = static_cast<unsigned char>(v);
  high[i ^ 1] = static_cast<short>(v >> 2);
}

extern "C" __global__ void tb_cache_hints(const int* x, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int v = __ldg(x + i) + 2 * __ldcg(x + (i ^ 1)) + 3 * __ldca(x + (i ^ 2)) + 4 * __ldcs(x + (i ^ 3)) +
                5 * __ldlu(x + (i ^ 4)) + 6 * __ldcv(x + (i ^ 5));
  __stcg(out + i, v);
  __stcs(out + n + i, v + 1);
  __stwt(out + 2 * n + i, v + 2);
  __stwb(out + 3 * n + i, v + 3);
}

extern "C" __global__ void tb_int64_index(const int* x, int* out, int n, long long stride) {
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<long long>(gridDim.x) * blockDim.x)
    out[i] = x[i * stride % n] + static_cast<int>(stride >> 33);
}

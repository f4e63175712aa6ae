// textbook: lane-divergent loops and exits
// tb_mandelbrot     escape iterations of an nx x ny picture, trip count a lane; block (32,8,1);
//                   args: int* iterations [ny*nx], int nx, int ny, int limit
// tb_string_search  first byte compare, then early exit; positions where the pattern matches, one byte each;
//                   block (256,1,1); args: const char* text [n], int n, const char* pattern [m], int m,
//                   unsigned char* hit [n]
// tb_collatz        steps to 1 of start values; block (128,1,1); args: const unsigned* start [n], unsigned* steps, int n
extern "C" __global__ void tb_mandelbrot(int* iterations, int nx, int ny, int limit) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= nx || j >= ny) return;
  const float cr = -2.0f + 3.0f * i / nx, ci = -1.5f + 3.0f * j / ny;
  float zr = 0.0f, zi = 0.0f;
  int k = 0;
  while (k < limit && __fadd_rn(__fmul_rn(zr, zr), __fmul_rn(zi, zi)) < 4.0f) {
    const float next = __fadd_rn(__fsub_rn(__fmul_rn(zr, zr), __fmul_rn(zi, zi)), cr);
    zi = __fadd_rn(__fmul_rn(__fadd_rn(zr, zr), zi), ci);
    zr = next;
    ++k;
  }
  iterations[j * nx + i] = k;
}

extern "C" __global__ void tb_string_search(const char* text, int n, const char* pattern, int m, unsigned char* hit) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  bool found = i + m <= n;
  for (int k = 0; found && k < m; ++k)
    if (text[i + k] != pattern[k]) found = false;
  hit[i] = found;
}

extern "C" __global__ void tb_collatz(const unsigned* start, unsigned* steps, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long v = start[i];
  unsigned count = 0u;
  while (v != 1ull) {
    v = v & 1ull ? 3ull * v + 1ull : v >> 1;
    ++count;
  }
  steps[i] = count;
}

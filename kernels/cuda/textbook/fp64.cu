// textbook: double precision; block (128,1,1)
// tb_fp64_dot       grid-stride dot product, shared tree, atomicAdd of a double; args: const double* x, const double* y,
//                   double* sum [1] (zeroed), int n
// tb_fp64_daxpy     y += a x (one DFMA an element: exact); args: double a, const double* x, double* y, int n
// tb_fp64_divsqrt   IEEE quotient, square root, reciprocal, floor, compare and select (exact); out [6][n];
//                   args: const double* x, const double* y, double* out, int n
// tb_fp64_math      exp, log, sin, pow, tanh in double; out [5][n]; args: const double* x, double* out, int n
extern "C" __global__ void __launch_bounds__(128) tb_fp64_dot(const double* x, const double* y, double* sum, int n) {
  __shared__ double part[128];
  double v = 0.0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) v += x[i] * y[i];
  part[threadIdx.x] = v;
  for (int half = 64; half > 0; half >>= 1) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) atomicAdd(sum, part[0]);
}

extern "C" __global__ void tb_fp64_daxpy(double a, const double* x, double* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fma(a, x[i], y[i]);
}

extern "C" __global__ void tb_fp64_divsqrt(const double* x, const double* y, double* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double a = x[i], b = y[i];
  out[i] = a / b;
  out[n + i] = sqrt(fabs(a));
  out[2 * n + i] = __drcp_rn(b);
  out[3 * n + i] = floor(__dmul_rn(a, 8.0)) + trunc(__dmul_rn(b, 4.0));
  out[4 * n + i] = a < b ? fmin(a, 0.25) : fmax(b, -0.25);
  out[5 * n + i] = __dadd_rn(__dmul_rn(a, b), -a);
}

extern "C" __global__ void tb_fp64_math(const double* x, double* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double a = x[i];
  out[i] = exp(a);
  out[n + i] = log(fabs(a));
  out[2 * n + i] = sin(a * 10.0);
  out[3 * n + i] = pow(fabs(a), 1.7);
  out[4 * n + i] = tanh(a);
}

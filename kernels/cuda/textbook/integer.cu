// textbook: integer arithmetic (exact); block (128,1,1), grid (ceil(n/128),1,1)
// tb_int_divmod32  signed and unsigned quotient and remainder by a variable; out [4][n] int32
// tb_int_divmod64  the same in 64 bit; args: const long long* a, const long long* b (positive), long long* out [4][n]
// tb_int_divconst  quotients and remainders by constants (multiply-high sequences); out [4][n] int32
// tb_int_bits      popc, clz, ffs, brev, byte_perm, funnel shifts, 64-bit popc/clz; out [9][n] uint32
// tb_int_mul64     low and high words of 32- and 64-bit products; out [5][n] int64
// tb_int_misc      min, max, abs, sad, mul24, saturating add by hand, rotations, variable shifts; out [8][n] int32
extern "C" __global__ void tb_int_divmod32(const int* a, const int* b, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned ua = a[i], ub = b[i];
  out[i] = a[i] / b[i];
  out[n + i] = a[i] % b[i];
  out[2 * n + i] = ua / ub;
  out[3 * n + i] = ua % ub;
}

extern "C" __global__ void tb_int_divmod64(const long long* a, const long long* b, long long* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned long long ua = a[i], ub = b[i];
  out[i] = a[i] / b[i];
  out[n + i] = a[i] % b[i];
  out[2 * n + i] = ua / ub;
  out[3 * n + i] = ua % ub;
}

extern "C" __global__ void tb_int_divconst(const int* a, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned u = a[i];
  out[i] = a[i] / 7;
  out[n + i] = a[i] % 16;
  out[2 * n + i] = u / 1000u;
  out[3 * n + i] = u % 641u;
}

extern "C" __global__ void tb_int_bits(const unsigned* a, const unsigned* b, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned x = a[i], y = b[i];
  const unsigned long long w = (static_cast<unsigned long long>(x) << 32) | y;
  out[i] = __popc(x);
  out[n + i] = __clz(x);
  out[2 * n + i] = __ffs(x);
  out[3 * n + i] = __brev(x);
  out[4 * n + i] = __byte_perm(x, y, 0x3715);
  out[5 * n + i] = __funnelshift_l(x, y, y);
  out[6 * n + i] = __funnelshift_rc(x, y, y & 63u);
  out[7 * n + i] = __popcll(w) + 100u * __clzll(w);
  out[8 * n + i] = __ffsll(w) ^ static_cast<unsigned>(__brevll(w) >> 17);
}

extern "C" __global__ void tb_int_mul64(const long long* a, const long long* b, long long* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const long long x = a[i], y = b[i];
  out[i] = x * y;
  out[n + i] = __mul64hi(x, y);
  out[2 * n + i] = static_cast<long long>(__umul64hi(x, y));
  out[3 * n + i] = static_cast<long long>(static_cast<int>(x)) * static_cast<int>(y) + (x >> 3);
  out[4 * n + i] = (static_cast<long long>(__mulhi(static_cast<int>(x), static_cast<int>(y))) << 32) |
                   __umulhi(static_cast<unsigned>(x), static_cast<unsigned>(y));
}

extern "C" __global__ void tb_int_misc(const int* a, const int* b, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int x = a[i], y = b[i];
  const unsigned s = y & 31;
  out[i] = min(x, y);
  out[n + i] = static_cast<int>(max(static_cast<unsigned>(x), static_cast<unsigned>(y)));
  out[2 * n + i] = abs(x) + __sad(x, y, 3u);
  out[3 * n + i] = __mul24(x, y);
  const int sum = static_cast<int>(static_cast<unsigned>(x) + static_cast<unsigned>(y));
  out[4 * n + i] = ((x ^ sum) & (y ^ sum)) < 0 ? (x < 0 ? -2147483647 - 1 : 2147483647) : sum;
  out[5 * n + i] = static_cast<int>((static_cast<unsigned>(x) << s) | (static_cast<unsigned>(x) >> ((32 - s) & 31)));
  out[6 * n + i] = x >> s;
  out[7 * n + i] = __hadd(x, y) ^ __rhadd(x, y) ^ (x & ~y);
}

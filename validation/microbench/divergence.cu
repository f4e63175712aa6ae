// One warp, whose lanes go to chosen places: which of them go on first, and where they meet again.
// A mark takes the next place in the log, so the log tells the order; it is one atomic of all lanes that come
// together.  where: 32 places a row; 99 sends a lane to EXIT at once.  zero: zeros.
#define KERNEL(name) \
  extern "C" __global__ void __launch_bounds__(32) \
  name(const unsigned* where, unsigned row, const unsigned* zero, unsigned* log)
#define BEGIN \
  __shared__ unsigned counter; \
  const unsigned lane = threadIdx.x, w = where[32 * row + lane]; \
  if (lane == 0) counter = 0; \
  __syncwarp(); \
  if (w == 99) return; \
  const Log mark{&counter, log, lane};

struct Log {
  unsigned* counter;
  unsigned* log;
  unsigned lane;
  // volatile: it stays in its place, and keeps a branch a branch
  __device__ __forceinline__ unsigned operator()(unsigned id) const {
    unsigned t;
    asm volatile("atom.shared.add.u32 %0,[%1],1;" : "=r"(t)
                 : "r"((unsigned)__cvta_generic_to_shared(counter)) : "memory");
    log[t & 1023] = lane | id << 8;
    return t;
  }
};

KERNEL(sides) {  // both sides of one branch
  BEGIN
  if (w) mark(1); else mark(2);
  __syncwarp();
  mark(3);
}

KERNEL(join) {  // up to three arrivals at one meeting point, two of them by branches straight to it
  BEGIN
  if (w != 0) {
    const unsigned v = zero[lane];
    if (w + v != 1) mark(1 + zero[v]);
  }
  mark(9);
}

KERNEL(fall) {  // lanes fall out of a loop
  BEGIN
  unsigned k = 0, t = 0;
#pragma unroll 1
  do { t += zero[t & 1]; ++k; } while (k < w);
  mark(k);
}

__device__ __noinline__ unsigned step(unsigned v, unsigned k) { return (v ^ k) * 1664525u + 1013904223u; }
KERNEL(call) {  // ... with a call inside
  BEGIN
  unsigned t = 0;
#pragma unroll 1
  for (unsigned k = 0; k < w; ++k) t = step(t, k);
  log[lane] = t;
}

KERNEL(leave) {  // lanes leave a loop by a branch
  BEGIN
  unsigned k = 0, t = 0;
#pragma unroll 1
  do {
    t += zero[t & 1];
    if (t + k >= w) break;
    t = zero[mark(k) & 1];
  } while (++k < 40);
  log[1024 + lane] = t + k;
}

KERNEL(forks) {  // both sides of a branch in every trip
  BEGIN
  unsigned t = 0;
#pragma unroll 1
  for (unsigned k = 0; k < 4; ++k) {
    t += zero[t & 1];
    if ((w >> k) & 1) t = zero[mark(2 * k) & 1]; else t = zero[mark(2 * k + 1) & 1];
    t += zero[t & 1];
  }
  mark(9 + t);
}

KERNEL(table) {  // a jump table with a tree above it
  BEGIN
  switch (w) {
    case 0: mark(0); break;
    case 1: mark(mark(1)); break;
    case 2: mark(2 + mark(9)); break;
    case 3: log[1024 + lane] = __popc(mark(3)); break;
    case 4: log[1024 + lane] = 5 * mark(4); break;
    case 5: log[1024 + lane] = mark(5) & 0xf0; break;
    case 6: log[1024 + lane] = mark(6) / 3; break;
    case 7: log[1024 + lane] = __brev(mark(7)); break;
    default: break;
  }
  mark(10);
}

__device__ __noinline__ unsigned f0(const Log& mark) { return mark(0); }
__device__ __noinline__ unsigned f1(const Log& mark) { return mark(1) * 3; }
__device__ __noinline__ unsigned f2(const Log& mark) { return mark(2) + 7; }
__device__ __noinline__ unsigned f3(const Log& mark) { return mark(3) ^ 5; }
__device__ __noinline__ unsigned f4(const Log& mark) { return mark(4) | 8; }
__device__ __noinline__ unsigned f5(const Log& mark) { return mark(5) << 1; }
__device__ __noinline__ unsigned f6(const Log& mark) { return mark(6) >> 1; }
__device__ __noinline__ unsigned f7(const Log& mark) { return ~mark(7); }
using Function = unsigned (*)(const Log&);
__device__ Function const kFunctions[8] = {f0, f1, f2, f3, f4, f5, f6, f7};
KERNEL(pointer) {  // a call with up to eight targets
  BEGIN
  log[1024 + lane] = kFunctions[w](mark);
  mark(10);
}

__device__ __noinline__ unsigned g0(unsigned v) { return v * 3; }
__device__ __noinline__ unsigned g1(unsigned v) { return v + 7; }
__device__ __noinline__ unsigned g2(unsigned v) { return v ^ 5; }
__device__ __noinline__ unsigned g3(unsigned v) { return v | 8; }
__device__ __noinline__ unsigned g4(unsigned v) { return v << 1; }
__device__ __noinline__ unsigned g5(unsigned v) { return v >> 1; }
__device__ __noinline__ unsigned g6(unsigned v) { return ~v; }
__device__ __noinline__ unsigned g7(unsigned v) { return v - 9; }
__device__ unsigned (*const kPure[8])(unsigned) = {g0, g1, g2, g3, g4, g5, g6, g7};
KERNEL(pure) {  // ... to functions that do nothing else
  BEGIN
  log[1024 + lane] = kPure[w](lane);
  mark(10);
}

KERNEL(targets) {  // one indirect branch with eight targets
  BEGIN
  unsigned t;
  asm volatile(
      "{\n"
      "  all: .branchtargets a0, a1, a2, a3, a4, a5, a6, a7;\n"
      "  brx.idx %2, all;\n"
      "  a0: atom.shared.add.u32 %0, [%1], 1; bra done;\n"
      "  a1: atom.shared.add.u32 %0, [%1], 1; xor.b32 %0, %0, 1024; bra done;\n"
      "  a2: atom.shared.add.u32 %0, [%1], 1; xor.b32 %0, %0, 2048; bra done;\n"
      "  a3: atom.shared.add.u32 %0, [%1], 1; xor.b32 %0, %0, 3072; bra done;\n"
      "  a4: atom.shared.add.u32 %0, [%1], 1; xor.b32 %0, %0, 4096; bra done;\n"
      "  a5: atom.shared.add.u32 %0, [%1], 1; xor.b32 %0, %0, 5120; bra done;\n"
      "  a6: atom.shared.add.u32 %0, [%1], 1; xor.b32 %0, %0, 6144; bra done;\n"
      "  a7: atom.shared.add.u32 %0, [%1], 1; xor.b32 %0, %0, 7168;\n"
      "  done:\n"
      "}"
      : "=&r"(t) : "r"((unsigned)__cvta_generic_to_shared(&counter)), "r"(w) : "memory");
  log[t & 1023] = lane | (t >> 10) << 8;
  mark(10);
}

__device__ __noinline__ unsigned both(const Log& mark, unsigned w) {
  unsigned t = mark(0);
  if (w & 1) t += mark(1);
  return t;
}
KERNEL(sites) {  // one function called from three places
  BEGIN
  unsigned t;
  if (w < 2) t = both(mark, w);
  else if (w < 4) t = both(mark, w) * 3;
  else t = both(mark, w) ^ 21;
  log[1024 + lane] = t;
  mark(10);
}

__device__ __noinline__ unsigned down(unsigned k, const unsigned* zero) {
  return k < 2 ? k : down(k - 1, zero) + down(k - 2 + zero[k], zero);
}
KERNEL(recurse) {  // to a depth of its own
  BEGIN
  log[1024 + lane] = down(w, zero);
  mark(10);
}

__device__ __noinline__ unsigned divisor(unsigned a, unsigned b) { return b == 0 ? a : divisor(b, a % b); }
KERNEL(euclid) {  // a loop that lanes leave after 1 to 8 trips, its end behind a call
  BEGIN
  log[1024 + lane] = divisor(w + 360, 84 + lane % 36);
  mark(10);
}
KERNEL(depths) {  // both, one after the other
  BEGIN
  log[1024 + lane] = divisor(w + 360, 84 + lane % 36) * 1000 + down(w & 7, zero);
}

template <int depth>
__device__ __forceinline__ void tree(const Log& mark, unsigned w, unsigned path) {
  if constexpr (depth > 0) {
    if ((w >> (depth - 1)) & 1) {
      mark(path);
      tree<depth - 1>(mark, w, 2 * path + 1);
    } else {
      mark(path + 64);
      tree<depth - 1>(mark, w, 2 * path);
    }
    mark(path + 128);
  }
}
KERNEL(nested) {  // branches inside branches, each with its own meeting point
  BEGIN
  tree<3>(mark, w, 1);
}
KERNEL(spread) {  // branches inside branches, one meeting point
  BEGIN
  if (w & 4) {
    if (w & 2) { if (w & 1) mark(7); else mark(6); } else { if (w & 1) mark(5); else mark(4); }
  } else {
    if (w & 2) { if (w & 1) mark(3); else mark(2); } else { if (w & 1) mark(1); else mark(0); }
  }
}

// What L1 does with stores, hints and loads past it: one warp each, launched with grid 64 x 32 threads.  Each
// lane touches x[i]; sectors of a warp: 4.  See policies.py.
#define I (blockIdx.x * 32 + threadIdx.x)
#define LD(how, to, from) asm volatile("ld.global." how ".s32 %0, [%1];" : "=r"(to) : "l"(from) : "memory")
#define ST(to, v) asm volatile("st.global.s32 [%0], %1;" ::"l"(to), "r"(v) : "memory")
#define WAIT(v) __nanosleep(2000 + (v & 1))

extern "C" __global__ void past_between(int* x, int* out) {  // plain, past L1, plain
  int a, b, c;
  LD("ca", a, x + I); WAIT(a);
  LD("cg", b, x + I); WAIT(b);
  LD("ca", c, x + I);
  out[I] = a + b + c;
}
extern "C" __global__ void past_twice(int* x, int* out) {
  int a, b;
  LD("cg", a, x + I); WAIT(a);
  LD("cg", b, x + I);
  out[I] = a + b;
}
extern "C" __global__ void past_then_plain(int* x, int* out) {
  int a, b;
  LD("cg", a, x + I); WAIT(a);
  LD("ca", b, x + I);
  out[I] = a + b;
}
extern "C" __global__ void constant_then_ca(int* x, int* out) {
  int a, b;
  LD("nc", a, x + I); WAIT(a);
  LD("ca", b, x + I);
  out[I] = a + b;
}
extern "C" __global__ void plain_then_cs(int* x, int* out) {
  int a, b, c;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(a) : "l"(x + I) : "memory"); WAIT(a);
  LD("cs", b, x + I); WAIT(b);
  LD("lu", c, x + I);
  out[I] = a + b + c;
}
extern "C" __global__ void lu_then_plain(int* x, int* out) {
  int a, b;
  LD("lu", a, x + I); WAIT(a);
  LD("ca", b, x + I);
  out[I] = a + b;
}
extern "C" __global__ void volatile_between(int* x, int* out) {
  int a, b, c;
  LD("ca", a, x + I); WAIT(a);
  asm volatile("ld.volatile.global.s32 %0, [%1];" : "=r"(b) : "l"(x + I) : "memory"); WAIT(b);
  LD("ca", c, x + I);
  out[I] = a + b + c;
}
extern "C" __global__ void store_then_load(int* x, int* out) {  // whole sectors
  int a;
  ST(x + I, 5); WAIT(I);
  LD("ca", a, x + I);
  out[I] = a;
}
extern "C" __global__ void store_part_load(int* x, int* out) {  // half of each sector, then the other half
  int a;
  if (threadIdx.x & 4) ST(x + I, 5);
  WAIT(I);
  LD("ca", a, x + (I ^ 4));
  out[I] = a;
}
extern "C" __global__ void store_part_load_same(int* x, int* out) {  // half of each sector, then the same half
  int a = 0;
  if (threadIdx.x & 4) ST(x + I, 5);
  WAIT(I);
  if (threadIdx.x & 4) LD("ca", a, x + I);
  out[I] = a;
}
extern "C" __global__ void load_store_load(int* x, int* out) {
  int a, b;
  LD("ca", a, x + I); WAIT(a);
  ST(x + I, a + 1); WAIT(a);
  LD("ca", b, x + I);
  out[I] = a + b;
}
extern "C" __global__ void load_store_part_load(int* x, int* out) {
  int a, b;
  LD("ca", a, x + I); WAIT(a);
  if (threadIdx.x & 4) ST(x + I, a + 1);
  WAIT(a);
  LD("ca", b, x + I);
  out[I] = a + b;
}
extern "C" __global__ void load_red_load(int* x, int* out) {
  int a, b;
  LD("ca", a, x + I); WAIT(a);
  atomicAdd(x + I, 1); WAIT(a);
  LD("ca", b, x + I);
  out[I] = a + b;
}
extern "C" __global__ void cg_store_load(int* x, int* out) {
  int a;
  asm volatile("st.global.cg.s32 [%0], %1;" ::"l"(x + I), "r"(5) : "memory"); WAIT(I);
  LD("ca", a, x + I);
  out[I] = a;
}

// Probes of L1, the coalescer before L2, L2 and DRAM. What is asked for comes in parameters only (the constant
// bank), so that the counters show nothing but the probe. Data is zero: a loaded value added to an address makes
// a chain that no compiler can cut.
typedef unsigned long long u64;
typedef unsigned u32;

struct Probe {
  u64 sms[3];       // bit s: SM s takes part (launch one CTA an SM)
  u64 step;         // bytes from one place to the next
  u64 turn;         // bytes that each pass is shifted by
  u64 rank_step;    // bytes that the places of each SM taking part are shifted by
  u32 count;        // places
  u32 passes;       // times that all places are visited
  u32 lane_step;    // bytes from lane to lane
  u32 lanes;        // lanes of each warp that take part
  u32 group;        // stores: places visited by every pass before the next ones
  u32 delay;        // cycles an SM waits, times its rank
  u32 meet;         // SMs that wait for one another before the first pass (0: none)
  u32 rotate;       // each pass, places go to another SM (count places an SM)
};

// Scalars, in the order of the struct.
#define PROBE                                                                                         \
  u64 sms0, u64 sms1, u64 sms2, u64 step, u64 turn, u64 rank_step, u32 count, u32 passes, u32 lane_step, \
  u32 lanes, u32 group, u32 delay, u32 meet_sms, u32 rotate
#define TAKE                                                                                          \
  const Probe p = {{sms0, sms1, sms2}, step, turn, rank_step, count, passes, lane_step, lanes, group,  \
                   delay, meet_sms, rotate};

__device__ u32 smid() { u32 s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); return s; }

// Rank of this SM among those taking part, or -1.
__device__ int rank(const Probe& p) {
  const u32 s = smid(), b = s & 63;
  const u64 mine = s < 64 ? p.sms[0] : s < 128 ? p.sms[1] : p.sms[2];
  if (!(mine >> b & 1)) return -1;
  return __popcll(mine & ((1ull << b) - 1)) + (s >= 64 ? __popcll(p.sms[0]) : 0) + (s >= 128 ? __popcll(p.sms[1]) : 0);
}

// SMs that meet start at one tick of the global timer (32 ns on an H200), then wait their delay.
__device__ void start(const Probe& p, int r, u32* meet) {
  if (p.meet) {
    if (threadIdx.x == 0) {
      atomicAdd(meet, 1);
      while (atomicAdd(meet, 0) < p.meet) __nanosleep(500);
    }
    __syncthreads();
    u64 now, at;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    at = ((now >> 14) + 2) << 14;
    while (now < at) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  }
  const long long t = clock64();
  while (clock64() - t < (long long)p.delay * r) ;
}

#define LOAD(how, v, a) asm volatile("ld.global." how ".u32 %0, [%1];" : "=r"(v) : "l"(a) : "memory")

// Each load waits for the one before it; cycles of each pass and SM go to `out`.
#define CHASE(name, how)                                                                              \
extern "C" __global__ void name(const char* base, PROBE, u32* meet, u32* out) {                     \
  TAKE                                                                                                \
  const int r = rank(p);                                                                              \
  if (r < 0 || (threadIdx.x & 31) >= p.lanes) return;                                                 \
  const u32 warps = blockDim.x >> 5, warp = threadIdx.x >> 5;                                         \
  start(p, r, meet);                                                                                  \
  const char* a0 = base + (threadIdx.x & 31) * (u64)p.lane_step + r * p.rank_step;                    \
  u64 v = 0;                                                                                          \
  for (u32 k = 0; k < p.passes; k++) {                                                                \
    const long long t = clock64();                                                                    \
    for (u32 i = warp; i < p.count; i += warps) {                                                     \
      u32 x;                                                                                          \
      LOAD(how, x, a0 + i * p.step + k * p.turn + v);                                                 \
      v += x;                                                                                         \
    }                                                                                                 \
    if (threadIdx.x == 0) out[r * p.passes + k] = (u32)(clock64() - t + v);                           \
  }                                                                                                   \
}
CHASE(chase_ca, "ca")
CHASE(chase_cg, "cg")

// Eight loads of a warp in flight. With `rotate` the SMs together read one range, another part each pass.
#define STREAM(name, how)                                                                             \
extern "C" __global__ void name(const char* base, PROBE, u32* meet, u32* out) {                     \
  TAKE                                                                                                \
  const int r = rank(p);                                                                              \
  if (r < 0 || (threadIdx.x & 31) >= p.lanes) return;                                                 \
  const u32 warps = blockDim.x >> 5, warp = threadIdx.x >> 5;                                         \
  start(p, r, meet);                                                                                  \
  u32 n = 0;                                                                                          \
  for (int w = 0; w < 3; w++) n += __popcll(p.sms[w]);                                                \
  u32 v = 0;                                                                                          \
  for (u32 k = 0; k < p.passes; k++) {                                                                \
    const u32 at = (r + k * p.rotate) % n;                                                            \
    const char* a0 = base + (threadIdx.x & 31) * (u64)p.lane_step + at * p.rank_step + k * p.turn;    \
    const long long t = clock64();                                                                    \
    for (u32 i = warp; i < p.count; i += warps * 8) {                                                 \
      u32 x[8];                                                                                       \
      _Pragma("unroll") for (int j = 0; j < 8; j++)                                                   \
        if (i + j * warps < p.count) LOAD(how, x[j], a0 + (i + j * warps) * p.step); else x[j] = 0;   \
      _Pragma("unroll") for (int j = 0; j < 8; j++) v += x[j];                                        \
    }                                                                                                 \
    if (threadIdx.x == 0) out[r * p.passes + k] = (u32)(clock64() - t + v);                           \
  }                                                                                                   \
}
STREAM(stream_ca, "ca")
STREAM(stream_cg, "cg")

// Latency of every single load of one lane, in order of places.
extern "C" __global__ void latency(const char* base, PROBE, u32* meet, u32* out) {
  TAKE
  const int r = rank(p);
  if (r < 0 || threadIdx.x >= 1) return;
  start(p, r, meet);
  u64 v = 0;
  for (u32 k = 0; k < p.passes; k++)
    for (u32 i = 0; i < p.count; i++) {
      u32 x;
      const long long t = clock64();
      LOAD("cg", x, base + i * p.step + k * p.turn + v);
      v += x;
      const u32 d = (u32)(clock64() - t + v);
      if (k + 1 == p.passes) out[(u64)r * p.count + i] = d;
    }
}

// Stores of one word a lane: for each group of places every pass.
extern "C" __global__ void store(char* base, PROBE, u32* meet, u32* out) {
  TAKE
  const int r = rank(p);
  if (r < 0 || (threadIdx.x & 31) >= p.lanes) return;
  const u32 warps = blockDim.x >> 5, warp = threadIdx.x >> 5;
  start(p, r, meet);
  char* a0 = base + (threadIdx.x & 31) * (u64)p.lane_step + r * p.rank_step;
  for (u32 i0 = warp * p.group; i0 < p.count; i0 += warps * p.group)
    for (u32 k = 0; k < p.passes; k++)
      for (u32 i = i0; i < i0 + p.group && i < p.count; i++)
        asm volatile("st.global.u32 [%0], %1;" :: "l"(a0 + i * p.step + k * p.turn), "r"(i) : "memory");
}

// A load every `group` cycles by the clock, however long it takes: SMs stay `delay` cycles apart.
extern "C" __global__ void paced(const char* base, PROBE, u32* meet, u32* out) {
  TAKE
  const int r = rank(p);
  if (r < 0 || (threadIdx.x & 31) >= p.lanes) return;
  start(p, r, meet);
  const char* a0 = base + (threadIdx.x & 31) * (u64)p.lane_step + r * p.rank_step;
  u64 v = 0;
  const long long t = clock64();
  for (u32 k = 0; k < p.passes; k++)
    for (u32 i = 0; i < p.count; i++) {
      while (clock64() - t < (long long)(k * p.count + i) * p.group) ;
      u32 x;
      LOAD("cg", x, a0 + i * p.step + k * p.turn + v);
      v += x;
    }
  if (v) out[0] = (u32)v;
}

// Eight words of a lane's own sector by eight stores in a row; `group` sectors apart from lane to lane.
extern "C" __global__ void store8(char* base, PROBE, u32* meet, u32* out) {
  TAKE
  const int r = rank(p);
  if (r < 0) return;
  start(p, r, meet);
  for (u32 i = threadIdx.x; i < p.count; i += blockDim.x) {
    char* a = base + i * p.step + r * p.rank_step;
    asm volatile("st.global.u32 [%0], %1; st.global.u32 [%0+4], %1; st.global.u32 [%0+8], %1; st.global.u32 [%0+12], %1;"
                 "st.global.u32 [%0+16], %1; st.global.u32 [%0+20], %1; st.global.u32 [%0+24], %1; st.global.u32 [%0+28], %1;"
                 :: "l"(a), "r"(i) : "memory");
  }
}
// Two halves of a sector, and 24 bytes a lane by three stores of 8.
extern "C" __global__ void store4(char* base, PROBE, u32* meet, u32* out) {
  TAKE
  const int r = rank(p);
  if (r < 0) return;
  start(p, r, meet);
  for (u32 i = threadIdx.x; i < p.count; i += blockDim.x) {
    char* a = base + i * p.step + r * p.rank_step;
    asm volatile("st.global.v4.u32 [%0], {%1,%1,%1,%1}; st.global.v4.u32 [%0+16], {%1,%1,%1,%1};" :: "l"(a), "r"(i) : "memory");
  }
}
extern "C" __global__ void store24(char* base, PROBE, u32* meet, u32* out) {
  TAKE
  const int r = rank(p);
  if (r < 0) return;
  start(p, r, meet);
  for (u32 i = threadIdx.x; i < p.count; i += blockDim.x) {
    char* a = base + i * 24 + r * p.rank_step;
    asm volatile("st.global.v2.u32 [%0], {%1,%1}; st.global.v2.u32 [%0+8], {%1,%1}; st.global.v2.u32 [%0+16], {%1,%1};"
                 :: "l"(a), "r"(i) : "memory");
  }
}

// The last SM taking part times single loads while the others stream `turn` bytes of their own again and again.
extern "C" __global__ void loaded(const char* base, PROBE, u32* meet, u32* out) {
  TAKE
  const int r = rank(p);
  if (r < 0) return;
  start(p, r, meet);
  u32 n = 0;
  for (int w = 0; w < 3; w++) n += __popcll(p.sms[w]);
  u64 v = 0;
  if (r + 1 == n) {
    if (threadIdx.x) return;
    for (u32 i = 0; i < 20000; i++) if (clock64() < 0) v++;
    for (u32 i = 0; i < p.lanes; i++) {
      u32 x;
      const long long t = clock64();
      LOAD("cg", x, base + (1ull << 30) + i * (u64)4224 + v);
      v += x;
      out[i] = (u32)(clock64() - t + v);
    }
    return;
  }
  const char* a0 = base + r * p.rank_step + threadIdx.x * 4;
  const long long t = clock64();
  u32 moved = 0;
  for (u32 k = 0; k < p.passes; k++)
    for (u64 at = 0; at + blockDim.x * 32 <= p.turn; at += blockDim.x * 32) {
      u32 x[8];
      _Pragma("unroll") for (int j = 0; j < 8; j++) LOAD("cg", x[j], a0 + at + j * blockDim.x * 4);
      _Pragma("unroll") for (int j = 0; j < 8; j++) v += x[j];
      moved++;
    }
  if (threadIdx.x == 0) { out[p.lanes + 2 * r] = (u32)(clock64() - t + v); out[p.lanes + 2 * r + 1] = moved * blockDim.x * 32; }
}

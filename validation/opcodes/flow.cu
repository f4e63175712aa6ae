// One kernel for each row of the opcode table that shows in where threads go, or in nothing at all (flow.py).
// `gone`: a word a warp, the lanes that leave before the instruction; the others are the live ones.

typedef unsigned u32;

__device__ u32 thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// ELECT: the elected lane, whether it is this one, and a mark.
__device__ u32 elected(u32 mask) {
    u32 leader, me;
    asm volatile("{ .reg .pred p; elect.sync %0|p, %2; selp.u32 %1, 1, 0, p; }"
                 : "=r"(leader), "=r"(me) : "r"(mask) : "memory");
    return leader | me << 8 | 1 << 16;
}

extern "C" __global__ void elect(const u32* gone, const u32* side, u32* out) {
    u32 i = thread(), lane = i % 32, live = ~gone[i / 32], first = side[i / 32] & live, me;
    u32* o = out + 6 * i;
    o[0] = elected(~0u);
    if (!(live >> lane & 1)) return;
    o[1] = elected(live);
    asm volatile("{ .reg .pred p; elect.sync _|p, %1; selp.u32 %0, 1, 2, p; }" : "=r"(me) : "r"(live) : "memory");
    o[2] = me;
    if (first >> lane & 1)
        o[3] = elected(first);
    else
        o[4] = elected(live & ~first);
    o[5] = elected(live);
}

// BRXU: one target for the whole warp, eight times, each at another place; then the lanes of `side` only.
__device__ u32 go(u32 v, u32 place) {
    asm volatile("{\n"
                 "places: .branchtargets A, B, C, D, E, F, G, H;\n"
                 "brx.idx.uni %1, places;\n"
                 "A: add.u32 %0, %0, 7; bra.uni J;\n"
                 "B: mul.lo.u32 %0, %0, 5; bra.uni J;\n"
                 "C: xor.b32 %0, %0, 0x5a5a; bra.uni J;\n"
                 "D: brev.b32 %0, %0; bra.uni J;\n"
                 "E: not.b32 %0, %0; bra.uni J;\n"
                 "F: mad.lo.u32 %0, %0, %0, 1; bra.uni J;\n"
                 "G: shf.l.wrap.b32 %0, %0, %0, 9; bra.uni J;\n"
                 "H: sub.u32 %0, %0, 1000;\n"
                 "J: }\n" : "+r"(v) : "r"(place));
    return v;
}

extern "C" __global__ void brxu(const u32* gone, const u32* side, const u32* in, u32* out, u32 first) {
    u32 i = thread(), lane = i % 32, v = in[i];
    if (gone[i / 32] >> lane & 1) return;
#pragma unroll 1
    for (u32 k = 0; k < 8; k++) v = go(v, (first + 3 * k) % 8);
    if (side[i / 32] >> lane & 1) v = go(v, first);
    out[i] = v;
}

// PREEXIT and ACQBULK in a launch that no other one waits for: nothing.
extern "C" __global__ void launch_control(const u32* gone, const u32* in, u32* out) {
    u32 i = thread(), v = in[i];
    if (gone[i / 32] >> i % 32 & 1) return;
    out[2 * i] = v;
    if (v & 1) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    out[2 * i + 1] = v * 3;
    if (v & 2) asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents; griddepcontrol.wait;" ::: "memory");
    out[2 * i] += out[2 * i + 1];
}

// PMTRIG without a profiler: nothing.
extern "C" __global__ void trigger(const u32* gone, const u32* in, u32* out) {
    u32 i = thread(), v = in[i];
    if (gone[i / 32] >> i % 32 & 1) return;
    asm volatile("pmevent 3;");
    if (v & 1) {
        asm volatile("pmevent.mask 0x80f1;");
        v *= 5;
    }
    out[i] = v;
}

// CCTLL: local memory is as it was.
extern "C" __global__ void prefetch_local(const u32* gone, const u32* in, u32* out) {
    u32 i = thread(), v = in[i], place[64];
    if (gone[i / 32] >> i % 32 & 1) return;
    for (u32 k = 0; k < 64; k++) place[k * 5 % 64] = v + k;
    size_t at = __cvta_generic_to_local(place + v % 63);
    asm volatile("prefetch.local.L1 [%0];" :: "l"(at) : "memory");
    place[(v >> 6) % 64] ^= 0xff00;
    if (v >> 12 & 1) asm volatile("prefetch.local.L2 [%0+4];" :: "l"(at) : "memory");
    for (u32 k = 0; k < 4; k++) out[4 * i + k] = place[(v >> 6 * k) % 64];
}

// BPT: a launch in which no thread meets it, and one in which it stops everything.
extern "C" __global__ void trap(const u32* in, u32* out, u32 stop) {
    u32 i = thread(), v = in[i];
    if (v == stop) __trap();
    out[i] = v * 3;
}

// VHMNMX as the compiler makes it of two half2 operations in a row.
#define TWICE(k, op) asm("{ .reg .b32 t; " op " t, %1, %2; " op " %0, t, %3; }" : "=r"(o[k]) : "r"(a), "r"(b), "r"(c))
#define SIGNS(k, op) asm("{ .reg .b32 t, u; neg.f16x2 t, %1; abs.f16x2 u, %3; " op " t, t, %2; " op " %0, t, u; }" \
                         : "=r"(o[k]) : "r"(a), "r"(b), "r"(c))
#define PARTS(k, op) asm("{ .reg .b16 x, y, z, w; mov.b32 {x, y}, %1; mov.b32 {z, w}, %2; " op " x, y, z; " op \
                         " x, x, w; mov.b32 %0, {x, x}; }" : "=r"(o[k]) : "r"(a), "r"(b))
#define CONST(k, op) asm("{ .reg .b32 t; mov.b32 t, 0x3c00bc00; " op " t, t, %1; " op " %0, t, %2; }" \
                         : "=r"(o[k]) : "r"(a), "r"(b))

extern "C" __global__ void vhmnmx(const u32* in, u32* out) {
    u32 i = thread(), a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
    u32* o = out + 14 * i;
    TWICE(0, "min.f16x2");
    TWICE(1, "max.f16x2");
    TWICE(2, "min.NaN.f16x2");
    TWICE(3, "max.NaN.f16x2");
    TWICE(4, "min.bf16x2");
    TWICE(5, "max.bf16x2");
    TWICE(6, "min.NaN.bf16x2");
    TWICE(7, "max.NaN.bf16x2");
    SIGNS(8, "min.f16x2");
    SIGNS(9, "max.NaN.f16x2");
    PARTS(10, "min.f16");
    PARTS(11, "max.NaN.bf16");
    CONST(12, "max.f16x2");
    CONST(13, "min.NaN.f16x2");
}

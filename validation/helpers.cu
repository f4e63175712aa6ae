// Helpers of the measurement itself; none of them is measured.

// Keeps the GPU busy so that the host can queue what is timed behind it.  Touches no memory.
extern "C" __global__ void gpusim_delay(unsigned long long nanoseconds) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < nanoseconds);
}

// Overwrites a buffer larger than the L2 cache: what was in the cache is gone.
extern "C" __global__ void gpusim_flush(uint4* buffer, unsigned long long n, unsigned value) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        buffer[i] = make_uint4(value, value, value, value);
}

// Sets *differs to 1 if two buffers differ in a byte.
extern "C" __global__ void gpusim_differs(const unsigned char* a, const unsigned char* b, unsigned long long n,
                                          int* differs) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long words = n / 16;
    for (unsigned long long i = first; i < words; i += step) {
        uint4 x = ((const uint4*)a)[i], y = ((const uint4*)b)[i];
        if (x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w) *differs = 1;
    }
    for (unsigned long long i = words * 16 + first; i < n; i += step)
        if (a[i] != b[i]) *differs = 1;
}

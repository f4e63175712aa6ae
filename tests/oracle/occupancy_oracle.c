/* Answers occupancy questions with NVIDIA's own calculator, cuda_occupancy.h, for tests/test_occupancy.py.
 *
 * One question a line on standard input, integers separated by spaces:
 *   major minor threads_sm registers_sm shared_sm shared_block shared_optin shared_reserved
 *   registers static_shared dynamic_shared block_threads barriers
 * One answer a line:
 *   status active registers shared warps blocks barriers factors shared_allocated
 * (limits in blocks; INT_MAX where a resource is not used; factors are the header's OCC_LIMIT_* bits).
 */
#include <stdio.h>

#include "cuda_occupancy.h"

int main(void)
{
    int major, minor, threads_sm, registers_sm, registers, block, barriers;
    long shared_sm, shared_block, optin, reserved, fixed, dynamic;

    while (scanf("%d %d %d %d %ld %ld %ld %ld %d %ld %ld %d %d", &major, &minor, &threads_sm, &registers_sm,
                 &shared_sm, &shared_block, &optin, &reserved, &registers, &fixed, &dynamic, &block,
                 &barriers) == 13) {
        cudaOccDeviceProp device;
        cudaOccFuncAttributes kernel;
        cudaOccDeviceState state;
        cudaOccResult r;
        memset(&device, 0, sizeof device);
        memset(&kernel, 0, sizeof kernel);
        memset(&r, 0, sizeof r);

        device.computeMajor = major;
        device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = threads_sm;
        device.regsPerBlock = registers_sm;
        device.regsPerMultiprocessor = registers_sm;
        device.warpSize = 32;
        device.sharedMemPerBlock = shared_block;
        device.sharedMemPerMultiprocessor = shared_sm;
        device.numSms = 1;
        device.sharedMemPerBlockOptin = optin;
        device.reservedSharedMemPerBlock = reserved;

        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = fixed;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
        /* The program has opted in to what this launch asks for. */
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = dynamic;
        kernel.numBlockBarriers = barriers;

        state.cacheConfig = CACHE_PREFER_NONE;
        state.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;

        int status = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &device, &kernel, &state, block, dynamic);
        printf("%d %d %d %d %d %d %d %u %ld\n", status, r.activeBlocksPerMultiprocessor, r.blockLimitRegs,
               r.blockLimitSharedMem, r.blockLimitWarps, r.blockLimitBlocks, r.blockLimitBarriers,
               r.limitingFactors, (long)r.allocatedSharedMemPerBlock);
    }
    return 0;
}

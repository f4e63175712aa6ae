"""The compiled loops of `gpusim.memory.counters`: events to per-instruction counters.

What the counters mean, their units and what they leave out is said there and in :class:`Counter`.
Compiled functions release the GIL and keep no state between calls.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from gpusim.compiled import compiled
from gpusim.events import EVENT, LANES, Flag, Kind, Space
from gpusim.memory.banks import HASH_SLOTS, distinct, log2, popcount, shared_access
from gpusim.memory.copies import past_l1, through_l1


class Counter(IntEnum):
    """Columns `gpusim.memory.counters.count_events` adds to; sums over executions with a non-empty mask.

    The profiler's name stands first where it has one.
    """

    REQUESTS = 0
    """`l1tex__t_requests_pipe_lsu_mem_global_*`: global events, any width."""
    SECTORS = 1
    """`l1tex__t_sectors_pipe_lsu_mem_global_*`: distinct sectors; for atomics and reductions the
    distinct sectors of every round of distinct addresses, summed (unsettled where lanes of both half-warps
    meet in a sector: the card sometimes visits it twice)."""
    LINES = 2
    """`memory_l1_tag_requests_global`, `l1tex__t_set_accesses`: distinct lines."""
    THEORETICAL_SECTORS = 3
    """`memory_l2_theoretical_sectors_global`: distinct sectors (repeats of a reduction count once)."""
    IDEAL_SECTORS = 4
    """`memory_l2_theoretical_sectors_global_ideal`: min(distinct sectors, ceil(lanes x width / sector))."""
    TAG_WAVEFRONTS = 5
    """`l1tex__t_output_wavefronts`: most lines in one tag bank (hash: `GlobalGeometry.tag_bank_masks`)."""
    SHARED_WAVEFRONTS = 6
    """`memory_l1_wavefronts_shared`: passes through the 32 banks as the source page counts them."""
    SHARED_IDEAL_WAVEFRONTS = 7
    """`memory_l1_wavefronts_shared_ideal`: ceil(lanes x width / bytes of a row of banks), half if merged."""
    SHARED_REQUESTS = 8
    """Shared events (the denominator of an average conflict degree)."""
    LOCAL_REQUESTS = 9
    """`l1tex__t_requests_pipe_lsu_mem_local_*`: width/4, at least 1."""
    LOCAL_SECTORS = 10
    """`l1tex__t_sectors_pipe_lsu_mem_local_*`: distinct sectors of the interleaved words."""
    SHARED_WORDS = 11
    """Distinct 32-bit words each shared event touches: fewer than its lanes where lanes share words."""
    BANK_WAVEFRONTS = 12
    """`l1tex__data_pipe_lsu_wavefronts_mem_shared` without arbitration: what the banks need.  The source page
    computes its own number, which differs for some wide loads (docs/rules.md)."""
    BANK_IDEAL_WAVEFRONTS = 13
    """`l1tex__data_bank_conflicts_*` = BANK_WAVEFRONTS - this: non-empty lane groups after merging."""
    UNSETTLED_SHARED = 14
    """Shared executions whose wavefronts no rule settles for these addresses and lanes."""
    UNSETTLED_GLOBAL = 15
    """Global executions whose sectors no rule settles."""


# Layout of one EVENT seen as 64-bit words; the compiled code indexes these.
WORDS = EVENT.itemsize // 8


def _field(name: str) -> tuple[int, int]:
    """(64-bit word, bit in it) where a field begins."""
    assert EVENT.fields is not None
    return divmod(EVENT.fields[name][1] * 8, 64)


_PC_WORD, _PC_BIT = _field("pc")
_MASK_WORD, _MASK_BIT = _field("mask")
_FLAGS_WORD, _FLAGS_BIT = _field("flags")
_SPACE_WORD, _SPACE_BIT = _field("space")
_KIND_WORD, _KIND_BIT = _field("kind")
_NBYTES_WORD, _NBYTES_BIT = _field("nbytes")
_ADDRESSES, _ADDRESSES_BIT = _field("addresses")
assert _ADDRESSES_BIT == 0

_SHARED, _GLOBAL, _LOCAL = int(Space.SHARED), int(Space.GLOBAL), int(Space.LOCAL)
_LOAD, _STORE, _ATOMIC, _REDUCTION = int(Kind.LOAD), int(Kind.STORE), int(Kind.ATOMIC), int(Kind.REDUCTION)
_ASYNC_COPY, _BYPASS = int(Kind.ASYNC_COPY), int(Flag.BYPASS_L1)
_FULL = 0xFFFFFFFF
_PC_STEP = 16  # bytes of an instruction
TAG_BITS = 12  # of the line number, in each of two tables

_C_REQUESTS, _C_SECTORS, _C_LINES = int(Counter.REQUESTS), int(Counter.SECTORS), int(Counter.LINES)
_C_THEORETICAL, _C_IDEAL = int(Counter.THEORETICAL_SECTORS), int(Counter.IDEAL_SECTORS)
_C_TAG, _C_SHARED = int(Counter.TAG_WAVEFRONTS), int(Counter.SHARED_WAVEFRONTS)
_C_SHARED_IDEAL, _C_SHARED_REQUESTS = int(Counter.SHARED_IDEAL_WAVEFRONTS), int(Counter.SHARED_REQUESTS)
_C_LOCAL_REQUESTS, _C_LOCAL_SECTORS = int(Counter.LOCAL_REQUESTS), int(Counter.LOCAL_SECTORS)
_C_SHARED_WORDS = int(Counter.SHARED_WORDS)
_C_BANKS, _C_BANKS_IDEAL = int(Counter.BANK_WAVEFRONTS), int(Counter.BANK_IDEAL_WAVEFRONTS)
_C_OPEN_SHARED, _C_OPEN_GLOBAL = int(Counter.UNSETTLED_SHARED), int(Counter.UNSETTLED_GLOBAL)


@compiled(inline="always")
def _gather(words, i, mask, out):
    """Addresses of the active lanes in lane order; their number."""
    n = 0
    for lane in range(LANES):
        out[n] = words[i, _ADDRESSES + lane]
        n += (mask >> lane) & 1
    return n


@compiled
def _sort(a, lo, hi):
    """Insertion sort: at most a few dozen keys, usually runs already in order."""
    for j in range(lo + 1, hi):
        x = a[j]
        k = j
        while k > lo and a[k - 1] > x:
            a[k] = a[k - 1]
            k -= 1
        a[k] = x


@compiled
def _rounds(a, n, sector_shift):
    """Sectors of all rounds of distinct addresses; sorts ``a``.

    Round r serves the r-th lane of every address, so a sector is visited once for every lane of its
    most wanted address.
    """
    _sort(a, 0, n)
    total = 0
    most = 0
    run = 0
    for j in range(n):
        if j > 0 and a[j] == a[j - 1]:
            run += 1
        else:
            run = 1
        if j > 0 and (a[j] >> sector_shift) != (a[j - 1] >> sector_shift):
            total += most
            most = 0
        most = max(most, run)
    return total + most


@compiled
def _tag_wavefronts(a, n, line_shift, tag_banks, count):
    """Most distinct lines in one tag bank; ``a`` holds equal lines side by side."""
    for k in range(len(count)):
        count[k] = 0
    most = 0
    low_bits = np.uint64((1 << TAG_BITS) - 1)
    previous = ~(a[0] >> line_shift)
    for j in range(n):
        line = a[j] >> line_shift
        if line != previous:
            previous = line
            low = tag_banks[0, np.int64(line & low_bits)]
            b = np.int64(low ^ tag_banks[1, np.int64((line >> np.uint64(TAG_BITS)) & low_bits)])
            c = count[b] + 1
            count[b] = c
            most = max(most, c)
    return most


@compiled
def _global(a, n, sector_shift, line_shift):
    """Distinct sectors and lines; leaves equal lines side by side in ``a``."""
    falls = 0
    sectors = 1
    lines = 1
    for j in range(n - 1):
        x = a[j]
        y = a[j + 1]
        falls += y < x
        sectors += (y >> sector_shift) != (x >> sector_shift)
        lines += (y >> line_shift) != (x >> line_shift)
    if falls == 0:
        return sectors, lines
    if lines == 1:
        used = np.uint64(0)
        first = (a[0] >> line_shift) << (line_shift - sector_shift)
        for j in range(n):
            used |= np.uint64(1) << ((a[j] >> sector_shift) - first)
        return popcount(used), 1
    _sort(a, 0, n)
    sectors = 1
    lines = 1
    for j in range(n - 1):
        x = a[j]
        y = a[j + 1]
        sectors += (y >> sector_shift) != (x >> sector_shift)
        lines += (y >> line_shift) != (x >> line_shift)
    return sectors, lines


@compiled
def _local_sectors(words, i, mask, per_lane, word_shift, sector_shift, a):
    """Word k of lane l lies at (k x 32 + l) words: a sector holds one word of 8 neighbouring lanes."""
    shift = np.uint64(word_shift)
    lanes = 1 << (np.int64(sector_shift) - word_shift)  # of one sector
    sectors = 0
    for lo in range(0, LANES, lanes):
        n = _gather(words, i, mask & (((1 << lanes) - 1) << lo), a)
        falls = 0
        rises = 0
        for j in range(n - 1):
            falls += (a[j + 1] >> shift) < (a[j] >> shift)
            rises += (a[j + 1] >> shift) > (a[j] >> shift)
        if falls + rises == 0:
            sectors += per_lane * np.int64(n > 0)
            continue
        if falls > 0:
            _sort(a, 0, n)
        end = np.int64(0)
        for j in range(n):
            word = np.int64(a[j] >> shift)
            sectors += max(0, word + per_lane - max(word, end))
            end = max(end, word + per_lane)
    return sectors


@compiled
def count(words, out, word_shift, bank_bits, sector_bits, line_bits, tag_banks):
    """Index of the first event that cannot be counted, or -1."""
    a = np.empty(LANES + 1, np.uint64)  # one spare: the gather writes before it decides to keep
    count = np.empty(64, np.int64)
    table = np.zeros(HASH_SLOTS, np.uint64)
    stamp = 1  # entries of a new table carry stamp 0
    five = np.zeros(5, np.int64)
    sector_shift = np.uint64(sector_bits)
    line_shift = np.uint64(line_bits)
    banks = np.uint64(1) << np.uint64(bank_bits)
    for i in range(words.shape[0]):
        mask = np.int64((words[i, _MASK_WORD] >> np.uint64(_MASK_BIT)) & np.uint64(0xFFFFFFFF))
        if mask == 0:
            continue
        pc = np.int64((words[i, _PC_WORD] >> np.uint64(_PC_BIT)) & np.uint64(0xFFFFFFFF))
        space = np.int64((words[i, _SPACE_WORD] >> np.uint64(_SPACE_BIT)) & np.uint64(0xFF))
        kind = np.int64((words[i, _KIND_WORD] >> np.uint64(_KIND_BIT)) & np.uint64(0xFF))
        width = np.int64((words[i, _NBYTES_WORD] >> np.uint64(_NBYTES_BIT)) & np.uint64(0xFF))
        flags = np.int64((words[i, _FLAGS_WORD] >> np.uint64(_FLAGS_BIT)) & np.uint64(0xFFFF))
        index = pc // _PC_STEP
        if index >= out.shape[0] or width == 0 or width > 16 or width & (width - 1) != 0:
            return i
        n = LANES
        if space == _LOCAL:
            per_lane = max(1, width >> word_shift)
            differ = np.uint64(0)
            for j in range(LANES):
                differ |= words[i, _ADDRESSES + j] ^ words[i, _ADDRESSES]
            out[index, _C_LOCAL_REQUESTS] += per_lane
            if differ == np.uint64(0):  # every lane at one offset of its own memory: stack and spills
                lanes = 1 << (sector_bits - word_shift)
                for first in range(0, LANES, lanes):
                    any_lane = np.int64((mask >> first) & ((1 << lanes) - 1) != 0)
                    out[index, _C_LOCAL_SECTORS] += per_lane * any_lane
                continue
            out[index, _C_LOCAL_SECTORS] += _local_sectors(
                words, i, mask, per_lane, word_shift, sector_shift, a
            )
            continue
        if mask == _FULL:
            for j in range(LANES):
                a[j] = words[i, _ADDRESSES + j]
        else:
            n = _gather(words, i, mask, a)
        if space == _GLOBAL:
            sectors, lines = _global(a, n, sector_shift, line_shift)
            tag = 1
            if lines > 1:
                tag = _tag_wavefronts(a, n, line_shift, tag_banks, count)
            real = sectors
            ideal = min(sectors, (n * width + (1 << sector_bits) - 1) >> sector_bits)
            if kind == _ATOMIC or kind == _REDUCTION:
                real = _rounds(a, n, sector_shift)
                halves = 0
                for half in (mask & 0xFFFF, mask & 0xFFFF0000):
                    if half != 0:
                        halves += _rounds(a, _gather(words, i, half, a), sector_shift)
                out[index, _C_OPEN_GLOBAL] += real != halves
            if kind == _ASYNC_COPY:
                if i + 1 == words.shape[0]:
                    return i  # the executor writes both events of a copy into one chunk
                into = i + 1
                mask = np.int64((words[into, _MASK_WORD] >> np.uint64(_MASK_BIT)) & np.uint64(0xFFFFFFFF))
                n = popcount(np.uint64(mask))
                row = 1 << (word_shift + bank_bits)
                if flags & _BYPASS:
                    wavefronts, slots, sectors, settled = past_l1(words, i, into, mask)
                    n = slots  # lanes that write the same slot count once
                    ideal = (n * width + (1 << sector_bits) - 1) >> sector_bits
                else:
                    wavefronts, settled = through_l1(words, i, into, mask, width, word_shift, bank_bits)
                out[index, _C_SHARED] += wavefronts
                out[index, _C_SHARED_IDEAL] += (n * width + row - 1) // row
                out[index, _C_OPEN_SHARED] += not settled
            out[index, _C_REQUESTS] += 1
            out[index, _C_SECTORS] += real
            out[index, _C_LINES] += lines
            out[index, _C_THEORETICAL] += sectors
            out[index, _C_IDEAL] += ideal
            out[index, _C_TAG] += tag
        elif space == _SHARED:
            out[index, _C_SHARED_REQUESTS] += 1
            fits = False
            if width <= 1 << word_shift and (kind == _LOAD or kind == _STORE):
                low = a[0]
                high = a[0]
                for j in range(n):
                    low = min(low, a[j])
                    high = max(high, a[j])
                low >>= np.uint64(word_shift)
                fits = (high >> np.uint64(word_shift)) - low < banks
            if fits:
                used = np.uint64(0)
                for j in range(n):
                    used |= np.uint64(1) << ((a[j] >> np.uint64(word_shift)) - low)
                out[index, _C_SHARED_WORDS] += popcount(used)
                out[index, _C_SHARED] += 1
                out[index, _C_SHARED_IDEAL] += 1
                out[index, _C_BANKS] += 1
                out[index, _C_BANKS_IDEAL] += 1
                continue
            unit_shift = max(word_shift, log2(width))
            if kind != _ASYNC_COPY:  # a copy's wavefronts were counted with its global event
                shared_access(
                    words, i, mask, kind, flags, width, word_shift, bank_bits, a, n, count, table, stamp, five
                )
                stamp += 48
                out[index, _C_BANKS] += five[0]
                out[index, _C_BANKS_IDEAL] += five[1]
                out[index, _C_SHARED] += five[2]
                out[index, _C_SHARED_IDEAL] += five[3]
                out[index, _C_OPEN_SHARED] += five[4]
            units = distinct(a, n, unit_shift, table, stamp)
            stamp += 1
            out[index, _C_SHARED_WORDS] += units << (unit_shift - word_shift)
        else:
            return i
    return -1

"""The compiled loops of `gpusim.memory.counters`: events to per-instruction counters.

What the counters mean, their units and what they leave out is said there and in :class:`Counter`.
Compiled functions release the GIL and keep no state between calls.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from gpusim.compiled import compiled
from gpusim.events import EVENT, LANES, Flag, Kind, Space


class Counter(IntEnum):
    """Columns `gpusim.memory.counters.count_events` adds to; sums over executions with a non-empty mask.

    The profiler's name stands first where it has one.
    """

    REQUESTS = 0
    """`l1tex__t_requests_pipe_lsu_mem_global_*`: global events, any width."""
    SECTORS = 1
    """`l1tex__t_sectors_pipe_lsu_mem_global_*`: distinct sectors; for atomics and reductions the
    distinct sectors of every round of distinct addresses, summed."""
    LINES = 2
    """`memory_l1_tag_requests_global`, `l1tex__t_set_accesses`: distinct lines."""
    THEORETICAL_SECTORS = 3
    """`memory_l2_theoretical_sectors_global`: distinct sectors (repeats of a reduction count once)."""
    IDEAL_SECTORS = 4
    """`memory_l2_theoretical_sectors_global_ideal`: ceil(distinct addresses x width / sector)."""
    TAG_WAVEFRONTS = 5
    """`l1tex__t_output_wavefronts`: most lines in one tag bank.  Modelled, not exact: the bank hash
    of sm_90 is unknown, see `GlobalGeometry.tag_bank_masks`."""
    SHARED_WAVEFRONTS = 6
    """`memory_l1_wavefronts_shared`: passes through the 32 banks."""
    SHARED_IDEAL_WAVEFRONTS = 7
    """`memory_l1_wavefronts_shared_ideal`: non-empty lane groups after merging."""
    SHARED_REQUESTS = 8
    """Shared events (the denominator of an average conflict degree)."""
    LOCAL_REQUESTS = 9
    """`l1tex__t_requests_pipe_lsu_mem_local_*`: width/4, at least 1."""
    LOCAL_SECTORS = 10
    """`l1tex__t_sectors_pipe_lsu_mem_local_*`: distinct sectors of the interleaved words."""
    SHARED_WORDS = 11
    """Distinct 32-bit words each shared event touches: fewer than its lanes where lanes share words."""


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
_HASH_SLOTS = 256  # 4 x the most units one lane group can hold
_PC_STEP = 16  # bytes of an instruction

_C_REQUESTS, _C_SECTORS, _C_LINES = int(Counter.REQUESTS), int(Counter.SECTORS), int(Counter.LINES)
_C_THEORETICAL, _C_IDEAL = int(Counter.THEORETICAL_SECTORS), int(Counter.IDEAL_SECTORS)
_C_TAG, _C_SHARED = int(Counter.TAG_WAVEFRONTS), int(Counter.SHARED_WAVEFRONTS)
_C_SHARED_IDEAL, _C_SHARED_REQUESTS = int(Counter.SHARED_IDEAL_WAVEFRONTS), int(Counter.SHARED_REQUESTS)
_C_LOCAL_REQUESTS, _C_LOCAL_SECTORS = int(Counter.LOCAL_REQUESTS), int(Counter.LOCAL_SECTORS)
_C_SHARED_WORDS = int(Counter.SHARED_WORDS)


@compiled
def _log2(n):
    """Of a width: 1, 2, 4, 8 or 16."""
    return np.int64(n > 1) + np.int64(n > 2) + np.int64(n > 4) + np.int64(n > 8)


@compiled
def _popcount(x):
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


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
def _degree(a, first, last, shift, bank_bits, count, table, stamp):
    """Most distinct units (words; pairs or quads of words for wide accesses) in one bank.

    An access of 8 or 16 aligned bytes loads 2 or 4 neighbouring banks alike, so counting its units
    over 16 or 8 wide banks gives the same maximum as counting words over 32.  Indices are unsigned:
    numba tests signed ones for wrapping, which keeps LLVM from vectorising.
    """
    s = np.uint64(shift)
    lo, hi, one = np.uint64(first), np.uint64(last), np.uint64(1)
    banks = one << np.uint64(bank_bits)
    bank_mask = banks - one
    low = a[lo]
    high = a[lo]
    used = np.uint64(0)
    for j in range(lo, hi):
        x = a[j]
        low = min(low, x)
        high = max(high, x)
        used |= one << ((x >> s) & bank_mask)
    if (high >> s) - (low >> s) < banks or _popcount(used) == last - first:
        return 1  # every unit, or every lane, has a bank of its own
    falls = 0
    changes = 0
    for j in range(lo, hi - one):
        falls += a[j + one] < a[j]
        changes += (a[j + one] >> s) != (a[j] >> s)
    if falls == 0 and changes + 1 == _popcount(used):
        return 1  # as many units as banks in use
    for k in range(banks):
        count[k] = 0
    most = 0
    if falls == 0:  # equal units are neighbours
        previous = ~(a[lo] >> s)
        for j in range(lo, hi):
            unit = a[j] >> s
            b = unit & bank_mask
            c = count[b] + np.int64(unit != previous)
            previous = unit
            count[b] = c
            most = max(most, c)
        return most
    # An open-addressing table of the units met; entries of earlier groups carry an older stamp.
    age = np.uint64(stamp)
    slot_mask = np.uint64(_HASH_SLOTS - 1)
    for j in range(lo, hi):
        unit = a[j] >> s
        entry = (age << np.uint64(32)) | (unit & np.uint64(0xFFFFFFFF))
        slot = (unit * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(56)
        while table[slot] != entry and (table[slot] >> np.uint64(32)) == age:
            slot = (slot + one) & slot_mask
        if table[slot] != entry:
            table[slot] = entry
            b = unit & bank_mask
            c = count[b] + 1
            count[b] = c
            most = max(most, c)
    return most


@compiled
def _distinct(a, n, shift, table, stamp):
    """Distinct units among the first n addresses."""
    s, one = np.uint64(shift), np.uint64(1)
    low = a[0]
    high = a[0]
    for j in range(n):
        low = min(low, a[j])
        high = max(high, a[j])
    low >>= s
    if (high >> s) - low < np.uint64(64):
        used = np.uint64(0)
        for j in range(n):
            used |= one << ((a[j] >> s) - low)
        return _popcount(used)
    falls = 0
    changes = 0
    for j in range(n - 1):
        falls += a[j + 1] < a[j]
        changes += (a[j + 1] >> s) != (a[j] >> s)
    if falls == 0:
        return changes + 1
    age = np.uint64(stamp)
    slot_mask = np.uint64(_HASH_SLOTS - 1)
    units = 0
    for j in range(n):
        unit = a[j] >> s
        entry = (age << np.uint64(32)) | (unit & np.uint64(0xFFFFFFFF))
        slot = (unit * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(56)
        while table[slot] != entry and (table[slot] >> np.uint64(32)) == age:
            slot = (slot + one) & slot_mask
        if table[slot] != entry:
            table[slot] = entry
            units += 1
    return units


@compiled
def _lanes_per_bank(a, lo, hi, shift, bank_bits, count):
    """Most lanes in one bank, same word or not: what an atomic pays."""
    banks = 1 << bank_bits
    for b in range(banks):
        count[b] = 0
    most = 0
    for j in range(lo, hi):
        b = np.int64(a[j] >> np.uint64(shift)) & (banks - 1)
        c = count[b] + 1
        count[b] = c
        most = max(most, c)
    return most


@compiled
def _merges(words, i, mask):
    """Every active lane has the address of lane^1 (or that lane is inactive), or every one of lane^2."""
    ones = True
    for lane in range(0, LANES, 2):
        if (mask >> lane) & 3 == 3 and words[i, _ADDRESSES + lane] != words[i, _ADDRESSES + lane + 1]:
            ones = False
            break
    if ones:
        return True
    for lane in range(LANES):
        if lane & 2 == 0 and (mask >> lane) & 5 == 5:
            if words[i, _ADDRESSES + lane] != words[i, _ADDRESSES + lane + 2]:
                return False
    return True


@compiled
def _shared(words, i, mask, kind, width, word_shift, bank_bits, a, n, count, table, stamp):
    """Wavefronts and ideal wavefronts of one access (hardware.md 3)."""
    shift = max(word_shift, _log2(width))
    bits = bank_bits - (shift - word_shift)
    lanes = LANES >> (shift - word_shift)  # of one group
    if shift > word_shift and kind == _LOAD and _merges(words, i, mask):
        lanes *= 2
    wavefronts = 0
    ideal = 0
    lo = 0
    for first in range(0, LANES, lanes):
        group = np.uint64(mask >> first) & ((np.uint64(1) << np.uint64(lanes)) - np.uint64(1))
        hi = lo + (lanes if mask == _FULL else _popcount(group))
        if hi == lo:
            continue
        ideal += 1
        if kind == _ATOMIC or kind == _ASYNC_COPY:
            wavefronts += _lanes_per_bank(a, lo, hi, shift, bits, count)
        else:
            wavefronts += _degree(a, lo, hi, shift, bits, count, table, stamp + ideal)
        lo = hi
    return wavefronts, ideal


@compiled
def _copy_by_group(words, i, mask, lanes, sector_shift, a):
    """Read side of LDGSTS: sectors summed over lane groups, and wavefronts its pattern adds to the write.

    Known: a coalesced copy writes like STS; g11, where no two lanes of a group share a sector though each
    needs half of one, writes lane by lane.  So a group without any shared sector adds all lanes but one.
    """
    sectors = 0
    extra = 0
    for lo in range(0, LANES, lanes):
        n = _gather(words, i, mask & (((1 << lanes) - 1) << lo), a)
        _sort(a, 0, n)
        distinct = 0
        for j in range(n):
            distinct += j == 0 or (a[j] >> sector_shift) != (a[j - 1] >> sector_shift)
        sectors += distinct
        if distinct == n and n > 1:
            extra += n - 1
    return sectors, extra


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
    low_bits = np.uint64(len(tag_banks) - 1)
    previous = ~(a[0] >> line_shift)
    for j in range(n):
        line = a[j] >> line_shift
        if line != previous:
            previous = line
            b = np.int64(tag_banks[np.int64(line & low_bits)])
            c = count[b] + 1
            count[b] = c
            most = max(most, c)
    return most


@compiled
def _global(a, n, width, sector_shift, line_shift):
    """Distinct addresses, sectors and lines; leaves equal lines side by side in ``a``."""
    falls = 0
    addresses = 1
    sectors = 1
    lines = 1
    for j in range(n - 1):
        x = a[j]
        y = a[j + 1]
        falls += y < x
        addresses += y != x
        sectors += (y >> sector_shift) != (x >> sector_shift)
        lines += (y >> line_shift) != (x >> line_shift)
    if falls == 0:
        return addresses, sectors, lines
    low = a[0]
    high = a[0]
    for j in range(n):
        low = min(low, a[j])
        high = max(high, a[j])
    unit_shift = np.uint64(_log2(width))
    if (high >> unit_shift) - (low >> unit_shift) < np.uint64(64) and lines == 1:
        units_used = np.uint64(0)
        sectors_used = np.uint64(0)
        for j in range(n):
            units_used |= np.uint64(1) << ((a[j] >> unit_shift) - (low >> unit_shift))
            sectors_used |= np.uint64(1) << ((a[j] >> sector_shift) - (low >> sector_shift))
        return _popcount(units_used), _popcount(sectors_used), 1
    _sort(a, 0, n)
    addresses = 1
    sectors = 1
    lines = 1
    for j in range(n - 1):
        x = a[j]
        y = a[j + 1]
        addresses += y != x
        sectors += (y >> sector_shift) != (x >> sector_shift)
        lines += (y >> line_shift) != (x >> line_shift)
    return addresses, sectors, lines


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
    table = np.zeros(_HASH_SLOTS, np.uint64)
    stamp = 0
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
            addresses, sectors, lines = _global(a, n, width, sector_shift, line_shift)
            tag = 1
            if lines > 1:
                tag = _tag_wavefronts(a, n, line_shift, tag_banks, count)
            real = sectors
            if (kind == _ATOMIC or kind == _REDUCTION) and addresses < n:
                real = _rounds(a, n, sector_shift)
            elif kind == _ASYNC_COPY:
                lanes = LANES >> (max(word_shift, _log2(width)) - word_shift)
                sectors, extra = _copy_by_group(words, i, mask, lanes, sector_shift, a)
                if flags & _BYPASS:
                    out[index, _C_SHARED] += extra
            out[index, _C_REQUESTS] += 1
            out[index, _C_SECTORS] += real
            out[index, _C_LINES] += lines
            out[index, _C_THEORETICAL] += sectors
            out[index, _C_IDEAL] += (addresses * width + (1 << sector_bits) - 1) >> sector_bits
            out[index, _C_TAG] += tag
        elif space == _SHARED:
            wavefronts = 1
            ideal = 1
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
                out[index, _C_SHARED_WORDS] += _popcount(used)
            else:
                wavefronts, ideal = _shared(
                    words, i, mask, kind, width, word_shift, bank_bits, a, n, count, table, stamp
                )
                stamp += ideal + 1
                unit_shift = max(word_shift, _log2(width))
                units = _distinct(a, n, unit_shift, table, stamp)
                out[index, _C_SHARED_WORDS] += units << (unit_shift - word_shift)
            out[index, _C_SHARED] += wavefronts
            out[index, _C_SHARED_IDEAL] += ideal
            out[index, _C_SHARED_REQUESTS] += 1
        else:
            return i
    return -1

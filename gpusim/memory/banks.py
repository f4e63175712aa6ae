"""The compiled rules of shared memory's banks: wavefronts of one access, and distinct units among addresses.

What the rules say stands in `gpusim.memory.shared`; where the profiler's source page computes another number
than the banks need, in docs/rules.md.  Sizes are bytes, counts are counts.
"""

from __future__ import annotations

import numpy as np

from gpusim.compiled import compiled
from gpusim.events import EVENT, LANES, Flag, Kind

assert EVENT.fields is not None
_ADDRESSES = EVENT.fields["addresses"][1] // 8  # 64-bit word of an event where the lanes' addresses begin
_LOAD, _ATOMIC, _CAS = int(Kind.LOAD), int(Kind.ATOMIC), int(Flag.CAS)
_MATRICES = (int(Kind.LDMATRIX), int(Kind.STMATRIX))
_FULL = 0xFFFFFFFF
HASH_SLOTS = 256  # 4 x the most units one lane group can hold


@compiled
def log2(n):
    """Of a width: 1, 2, 4, 8 or 16."""
    return np.int64(n > 1) + np.int64(n > 2) + np.int64(n > 4) + np.int64(n > 8)


@compiled
def popcount(x):
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


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
    if (high >> s) - (low >> s) < banks or popcount(used) == last - first:
        return 1  # every unit, or every lane, has a bank of its own
    falls = 0
    changes = 0
    for j in range(lo, hi - one):
        falls += a[j + one] < a[j]
        changes += (a[j + one] >> s) != (a[j] >> s)
    if falls == 0 and changes + 1 == popcount(used):
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
    slot_mask = np.uint64(HASH_SLOTS - 1)
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
def distinct(a, n, shift, table, stamp):
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
        return popcount(used)
    falls = 0
    changes = 0
    for j in range(n - 1):
        falls += a[j + 1] < a[j]
        changes += (a[j + 1] >> s) != (a[j] >> s)
    if falls == 0:
        return changes + 1
    age = np.uint64(stamp)
    slot_mask = np.uint64(HASH_SLOTS - 1)
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
def _agree(words, i, mask, distance):
    """Every active lane has the address of lane^distance (1 or 2), or that lane is inactive."""
    for lane in range(LANES):
        pair = (1 << lane) | (1 << (lane ^ distance))
        if lane & distance == 0 and mask & pair == pair:
            if words[i, _ADDRESSES + lane] != words[i, _ADDRESSES + lane + distance]:
                return False
    return True


@compiled
def _by_lane(a, mask, size, kind, shift, bits, count, table, stamp):
    """(wavefronts, groups with a lane) of the active lanes in groups of ``size`` neighbouring lanes."""
    wavefronts = 0
    groups = 0
    lo = 0
    for first in range(0, LANES, size):
        group = np.uint64(mask >> first) & ((np.uint64(1) << np.uint64(size)) - np.uint64(1))
        hi = lo + (size if mask == _FULL else popcount(group))
        if hi == lo:
            continue
        groups += 1
        if kind == _ATOMIC:
            wavefronts += _lanes_per_bank(a, lo, hi, shift, bits, count)
        else:
            wavefronts += _degree(a, lo, hi, shift, bits, count, table, stamp + groups)
        lo = hi
    return wavefronts, groups


@compiled
def shared_access(words, i, mask, kind, flags, width, word_shift, bank_bits, a, n, count, table, stamp, out):
    """Wavefronts and ideal wavefronts of one access, of the banks and of the source page (docs/rules.md).

    out: int64[5], bank wavefronts and ideal, page wavefronts and ideal, 1 if the page's are not settled.
    Uses up to 48 stamps.
    """
    shift = max(word_shift, log2(width))
    bits = bank_bits - (shift - word_shift)
    size = LANES >> (shift - word_shift)  # of one lane group
    row = 1 << (word_shift + bank_bits)  # bytes of one wavefront
    ideal = (n * width + row - 1) // row
    wavefronts, groups = _by_lane(a, mask, size, kind, shift, bits, count, table, stamp)
    if kind == _ATOMIC and flags & _CAS:  # compare and swap reads, then writes
        wavefronts *= 2
        ideal *= 2
    if kind in _MATRICES:
        ideal = groups
    out[0], out[1], out[2], out[3], out[4] = wavefronts, groups, wavefronts, ideal, 0
    if shift == word_shift or kind != _LOAD:
        return
    if _agree(words, i, mask, 1) or _agree(words, i, mask, 2):
        out[0], out[1] = _by_lane(a, mask, 2 * size, kind, shift, bits, count, table, stamp + 4)
        if mask == _FULL and out[0] == out[1]:  # all groups merge and none conflicts: the usual broadcast
            out[2], out[3] = out[0], (ideal + 1) // 2
            return
    _source_page(words, i, mask, size, ideal, shift, bits, a, n, count, table, stamp + 8, out)


@compiled
def _source_page(words, i, mask, size, ideal, shift, bits, a, n, count, table, stamp, out):
    """What the profiler computes for a wide load, into out[2:5]; up to 10 stamps.

    Two neighbouring groups merge if their lane pairs (lane^1, or lane^2) agree and the merged group is free
    of conflicts.  With lanes off, what it does where groups could merge is not known.
    """
    pairs = 0
    merged = 0
    possible = False
    for first in range(0, LANES, 2 * size):
        part = mask & (((1 << (2 * size)) - 1) << first)
        if part == 0:
            continue
        pairs += 1
        agree = _agree(words, i, part, 1) or _agree(words, i, part, 2)
        if mask == _FULL and not agree:
            continue
        lo = np.int64(popcount(np.uint64(mask & ((1 << first) - 1))))
        middle = lo + popcount(np.uint64(part & (((1 << size) - 1) << first)))
        hi = lo + popcount(np.uint64(part))
        if middle == lo or middle == hi or _degree(a, lo, hi, shift, bits, count, table, stamp + first) > 1:
            continue
        possible = True
        merged += agree
    out[2] -= merged  # two groups free of conflicts become one
    if merged == pairs:
        out[3] = (ideal + 1) // 2
    if mask == _FULL:
        out[4] = merged != 0 and merged != pairs
        return
    alike = True
    for j in range(n):
        alike = alike and a[j] == a[0]
    out[4] = possible or alike

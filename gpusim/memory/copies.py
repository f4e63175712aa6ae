"""LDGSTS, the asynchronous copy from global to shared memory: what the profiler counts for one execution.

Rules found with 2,304 one-warp copies on an H200 (validation/measurements/h200/micro.json.xz; how they were
found is told in docs/rules.md).  Words below are 4 bytes, slots 16, sectors 32, rows and lines 128.

Through L1 (``.ca``, 4, 8, 16 bytes a lane)
    Lanes are served in groups of 32, 16, 8.  A wavefront takes lanes with different shared banks *and*
    different global banks (address / width modulo the bank count): a group costs the most lanes in one bank
    on the worse side.  Settled where one side of a group is free of conflicts; where both conflict,
    the card needs up to a third more than any rule tried: the estimate is the sum over rounds of
    different shared banks.
Past L1 (``.cg``, ``.BYPASS``, 16 bytes)
    Of lanes with the same shared slot one counts.  Slots copied between the same two sectors at the same
    half are one transfer (the profiler's "theoretical sectors").  Transfers between the same row and line,
    with the same halves in use, share a wavefront if they are one rotation or one exclusive-or of the four
    sector positions.  Settled but for sets that need several rotations and several exclusive-ors.

Units: wavefronts, sectors.  Left out: ``.ZFILL`` (the profiler's counts depend on the source size, which an
event does not carry).
"""

from __future__ import annotations

import numpy as np

from gpusim.compiled import compiled
from gpusim.events import EVENT, LANES

_ADDRESSES = EVENT.fields["addresses"][1] // 8 if EVENT.fields is not None else 0
_SLOT_BITS = 4


@compiled
def _bank(address, shift, banks):
    return np.int64((address >> np.uint64(shift)) & np.uint64(banks - 1))


@compiled
def through_l1(words, reads, writes, mask, width, word_shift, bank_bits):
    """(wavefronts, settled) of a copy through L1; reads, writes: rows of its global and shared event."""
    shift = word_shift
    while (1 << shift) < width:
        shift += 1
    banks = 1 << (bank_bits - (shift - word_shift))
    size = LANES >> (shift - word_shift)
    put = np.empty(64, np.int64)
    get = np.empty(64, np.int64)
    rank = np.empty(LANES, np.int64)
    wavefronts = 0
    settled = True
    for first in range(0, LANES, size):
        put[:banks] = 0
        get[:banks] = 0
        most_put = 0
        most_get = 0
        for lane in range(first, first + size):
            if (mask >> lane) & 1:
                b = _bank(words[writes, _ADDRESSES + lane], shift, banks)
                rank[lane] = put[b]
                put[b] += 1
                most_put = max(most_put, put[b])
                b = _bank(words[reads, _ADDRESSES + lane], shift, banks)
                get[b] += 1
                most_get = max(most_get, get[b])
        if most_put <= 1 or most_get <= 1:
            wavefronts += max(most_put, most_get)
            continue
        settled = False
        for turn in range(most_put):
            get[:banks] = 0
            most = 0
            for lane in range(first, first + size):
                if (mask >> lane) & 1 and rank[lane] == turn:
                    b = _bank(words[reads, _ADDRESSES + lane], shift, banks)
                    get[b] += 1
                    most = max(most, get[b])
            wavefronts += most
    return wavefronts, settled


@compiled
def past_l1(words, reads, writes, mask):
    """(wavefronts, distinct slots, transfers, settled) of a copy of 16 bytes a lane past L1."""
    put = np.empty(LANES, np.uint64)
    get = np.empty(LANES, np.uint64)
    slots = 0
    for lane in range(LANES):
        if (mask >> lane) & 1:
            p = words[writes, _ADDRESSES + lane] >> np.uint64(_SLOT_BITS)
            new = True
            for k in range(slots):
                if put[k] == p:
                    new = False
                    break
            if new:
                put[slots] = p
                get[slots] = words[reads, _ADDRESSES + lane] >> np.uint64(_SLOT_BITS)
                slots += 1
    one = np.uint64(1)
    to = np.empty(LANES, np.uint64)  # shared sector of each transfer
    of = np.empty(LANES, np.uint64)  # its global sector
    swap = np.empty(LANES, np.uint64)  # whether the halves change places
    halves = np.zeros(LANES, np.int64)
    transfers = 0
    for k in range(slots):
        p, g, s = put[k] >> one, get[k] >> one, (put[k] ^ get[k]) & one
        found = transfers
        for t in range(transfers):
            if to[t] == p and of[t] == g and swap[t] == s:
                found = t
                break
        if found == transfers:
            to[found], of[found], swap[found] = p, g, s
            transfers += 1
        halves[found] |= 1 << np.int64(put[k] & one)
    wavefronts = 0
    settled = True
    two, three = np.uint64(2), np.uint64(3)
    done = 0
    for t in range(transfers):
        if (done >> t) & 1:
            continue
        turns = 0  # rotations and exclusive-ors of sector positions in use, one bit each
        crosses = 0
        for k in range(t, transfers):
            if (
                to[k] >> two == to[t] >> two
                and of[k] >> two == of[t] >> two
                and swap[k] == swap[t]
                and halves[k] == halves[t]
            ):
                done |= 1 << k
                turns |= 1 << np.int64((to[k] - of[k]) & three)
                crosses |= 1 << np.int64((to[k] ^ of[k]) & three)
        a = (turns & 1) + (turns >> 1 & 1) + (turns >> 2 & 1) + (turns >> 3 & 1)
        b = (crosses & 1) + (crosses >> 1 & 1) + (crosses >> 2 & 1) + (crosses >> 3 & 1)
        wavefronts += min(a, b)
        settled = settled and min(a, b) == 1
    return wavefronts, slots, transfers, settled

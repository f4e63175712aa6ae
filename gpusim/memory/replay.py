"""SMs that replay the records of their CTAs, side by side in time.

Every SM runs for a few cycles on its own (``STEP``), then the next one: in that time its warps issue, oldest
CTA first, at most one instruction a cycle and sub-partition, no faster than the stall cycles of their control
words, and stop where a loaded value is needed that has not come, at barriers, and where the queue in front of
L1 is full.  What they touch goes to `hierarchy_loop.access` at once.
"""

from __future__ import annotations

import numpy as np

from gpusim.compiled import compiled
from gpusim.memory.hierarchy_loop import (
    AGE,
    AT_LIVE,
    AT_QUEUE,
    AT_RING,
    AT_SLOT,
    AT_TURN,
    AT_WAKE,
    AT_WARP,
    DONE,
    ENDED,
    LAUNCH_TICKS,
    NEXT_CTA,
    NOW,
    QUEUE,
    RELAUNCH_CYCLES,
    SLOTS,
    SMS,
    STEP,
    TICK_BITS,
    WARPS,
    Traffic,
    access,
    flush,
)  # fmt: skip

WAITS = 6  # loads of a warp whose arrival is kept; more are waited for together
RUNS, AT_BARRIER, GONE = 0, 1, 2
# words of a warp: next record, end of its records, cycle, instructions, stall cycles and wavefronts of
# shared accesses left before the record, instructions issued, status, the latest arrival it waits for, then
# (instructions issued, cycle) of what it waits for
W_AT, W_END, W_TIME, W_GAP, W_STALLS, W_SHARED, W_ISSUED, W_STATUS, W_LATEST, W_NEED = range(10)
WARP_WORDS = W_NEED + 2 * WAITS
# words of a slot: CTA or -1, age, warps that are not gone, warps at the barrier, cycle at which the last
# CTA ended
S_CTA, S_AGE, S_LEFT, S_ARRIVED, S_ENDED = range(5)
SLOT_WORDS = 5
FOREVER = 1 << 60
RECORDS = int(Traffic.RECORDS)
SHARED_AHEAD = 64  # cycles of shared accesses that may wait


@compiled(counted=False)
def _next(x, records, w, r):
    """What a warp has to do before its next record."""
    x[w + W_GAP] = records[r, 2]
    x[w + W_STALLS] = max(records[r, 3], records[r, 2])
    x[w + W_SHARED] = records[r, 4]


@compiled(counted=False)
def _begin(x, records, bounds, first, log, sm, slot, t):
    """Put the next CTA into a slot."""
    cta = x[NEXT_CTA]
    x[NEXT_CTA] += 1
    s = x[AT_SLOT] + (sm * x[SLOTS] + slot) * SLOT_WORDS
    x[s + S_CTA] = cta
    x[s + S_AGE] = x[AGE]
    x[AGE] += 1
    x[s + S_LEFT] = x[WARPS]
    x[s + S_ARRIVED] = 0
    x[x[AT_LIVE] + sm] += 1
    x[x[AT_WAKE] + sm] = 0
    log[cta, 0] = t
    log[cta, 2] = sm
    for k in range(x[WARPS]):
        w = x[AT_WARP] + ((sm * x[SLOTS] + slot) * x[WARPS] + k) * WARP_WORDS
        r = bounds[first[cta] + k]
        x[w + W_AT] = r
        x[w + W_END] = bounds[first[cta] + k + 1]
        x[w + W_TIME] = t
        x[w + W_ISSUED] = 0
        x[w + W_STATUS] = RUNS
        x[w + W_LATEST] = 0
        for j in range(WAITS):
            x[w + W_NEED + 2 * j + 1] = 0
        _next(x, records, w, r)


@compiled(counted=False)
def _release(x, s, w0, t):
    """Everybody alive in a CTA waits: go on."""
    x[s + S_ARRIVED] = 0
    for k in range(x[WARPS]):
        w = w0 + k * WARP_WORDS
        if x[w + W_STATUS] == AT_BARRIER:
            x[w + W_STATUS] = RUNS
            x[w + W_TIME] = max(x[w + W_TIME], t)


@compiled(counted=False)
def _wait_for(x, w, need, due):
    """Note that a load arrives at cycle ``due`` and is needed once ``need`` instructions are issued."""
    at = w + W_NEED
    for j in range(at, at + 2 * WAITS, 2):
        if x[j + 1] < x[at + 1]:
            at = j
    if x[at + 1] > x[w + W_TIME]:  # all in use: this one stands for the earliest too
        due = max(due, x[at + 1])
    x[at] = need
    x[at + 1] = due
    x[w + W_LATEST] = max(x[w + W_LATEST], due)


@compiled(counted=False)
def _shift(x, steps, place, cta, row, kind, w, local_base, local_sectors):
    """Sectors by which a record's entries are moved."""
    if kind & (1 << 30):
        return local_base + (w - x[AT_WARP]) // WARP_WORDS * local_sectors
    if steps.shape[0] == 0:
        return 0
    return place[cta, 0] * steps[row, 0] + place[cta, 1] * steps[row, 1] + place[cta, 2] * steps[row, 2]


@compiled(counted=False)
def _record(x, records, entries, steps, place, slack, local_base, local_sectors, log, sm, s, w0, w, counters):
    """Do the record that a warp has come to; False if the queue in front of L1 is full."""
    r = x[w + W_AT]
    t = x[w + W_TIME]
    kind = np.int64(records[r, 0])
    what = kind & 0xFF
    cta = x[s + S_CTA]
    q = x[AT_QUEUE] + sm
    if what < 8:
        turn = x[AT_TURN] + sm
        place_in_queue = x[AT_RING] + sm * x[QUEUE] + x[turn] % x[QUEUE]
        if x[place_in_queue] > t:
            x[w + W_TIME] = x[place_in_queue]
            return False
        start = max(x[q], t)
        x[q] = start + records[r, 5]
        x[place_in_queue] = start
        counters[records[r, 1], RECORDS] += 1
        x[turn] += 1
        shift = _shift(x, steps, place, cta, r, kind, w, local_base, local_sectors)
        ready = start
        index = np.int64(records[r, 1])
        for e in range(records[r, 6], records[r, 6] + records[r, 7]):
            ready = max(ready, access(x, sm, kind, entries[e], shift, start, index, counters))
        if what == 1 or what == 3 or what == 7:
            _wait_for(x, w, x[w + W_ISSUED] + slack[index], ready)
    x[DONE] += 1
    r += 1
    x[w + W_AT] = r
    if r == x[w + W_END]:
        x[w + W_STATUS] = GONE
        x[s + S_LEFT] -= 1
        if x[s + S_LEFT] == 0:
            log[cta, 1] = t
            x[ENDED] += 1
            x[s + S_CTA] = -1
            x[s + S_ENDED] = t
            x[x[AT_LIVE] + sm] -= 1
        elif x[s + S_ARRIVED] == x[s + S_LEFT]:
            _release(x, s, w0, t)
        return True
    _next(x, records, w, r)
    if what == 8 and records[r - 1, 7] == 0:
        x[w + W_STATUS] = AT_BARRIER
        x[s + S_ARRIVED] += 1
        if x[s + S_ARRIVED] == x[s + S_LEFT]:
            _release(x, s, w0, t)
    return True


@compiled(counted=False)
def _issue(x, w, q, end, budget):
    """Issue what a warp can before its next record: how many, 0 if it waits (its time says how long)."""
    t = x[w + W_TIME]
    can = x[w + W_GAP]
    if x[w + W_LATEST] > t:
        until = 0
        for j in range(w + W_NEED, w + W_NEED + 2 * WAITS, 2):
            if x[j + 1] > t:
                ahead = max(0, x[j] - x[w + W_ISSUED])
                if ahead < can or (ahead == can and ahead == 0):
                    can = ahead
                    until = max(until, x[j + 1]) if ahead == 0 else x[j + 1]
        if can == 0:
            x[w + W_TIME] = until
            return 0
    free = end - t
    if x[w + W_STALLS] == x[w + W_GAP]:
        n = min(can, min(budget, free))
        took = n
    else:
        n = min(min(can, budget), x[w + W_GAP] * free // x[w + W_STALLS])
        if n == 0:  # not one instruction's stall cycles are left in this step
            x[w + W_STALLS] = max(x[w + W_STALLS] - free, x[w + W_GAP])
            x[w + W_TIME] = end
            return 0
        took = (n * x[w + W_STALLS] + x[w + W_GAP] - 1) // x[w + W_GAP]
    if x[w + W_SHARED] != 0:  # the load-store unit passes one wavefront a cycle
        free = end + SHARED_AHEAD - max(x[q], t)
        if n * x[w + W_SHARED] > free * x[w + W_GAP]:
            n = max(0, free * x[w + W_GAP] // x[w + W_SHARED])
            took = free
        if n == 0:
            x[w + W_TIME] = end
            return 0
        passed = (n * x[w + W_SHARED] + x[w + W_GAP] - 1) // x[w + W_GAP]
        x[w + W_SHARED] -= passed
        x[q] = max(x[q], t) + passed
    x[w + W_GAP] -= n
    x[w + W_STALLS] = max(x[w + W_STALLS] - took, x[w + W_GAP])
    x[w + W_TIME] = t + took
    x[w + W_ISSUED] += n
    return n


@compiled(counted=False)
def _fill_slots(x, records, bounds, first, log, sm, end, by_age):
    """Start CTAs in free slots; the slots in use, oldest CTA first, and their number."""
    n = 0
    for slot in range(x[SLOTS]):
        s = x[AT_SLOT] + (sm * x[SLOTS] + slot) * SLOT_WORDS
        if x[s + S_CTA] < 0:
            start = x[s + S_ENDED] + x[RELAUNCH_CYCLES]
            if x[NEXT_CTA] >= first.shape[0] or start >= end:
                continue
            _begin(x, records, bounds, first, log, sm, slot, max(start, x[NOW]))
        j = n
        while j > 0 and x[x[AT_SLOT] + (sm * x[SLOTS] + by_age[j - 1]) * SLOT_WORDS + S_AGE] > x[s + S_AGE]:
            by_age[j] = by_age[j - 1]
            j -= 1
        by_age[j] = slot
        n += 1
    return n


@compiled(counted=False)
def run(
    x,
    records,
    entries,
    bounds,
    steps,
    first,
    place,
    slack,
    order,
    local_base,
    local_sectors,
    log,
    by_age,
    budget,
    counters,
    limit,
):
    """Replay until every CTA has ended or ``limit`` records are done; True if all ended.

    records, entries, bounds: of `trace.Trace`; steps: int64[records or 0][3], sectors a record moves by
    along the grid; first: int64[ctas], row of ``bounds`` of each CTA's first warp; place: int64[ctas][3],
    coordinates relative to the CTA that was recorded; slack: int64[instructions], instructions from a load
    to the one that needs it; order: SM of each of the first CTAs; local_base, local_sectors: where local
    memory begins, of a warp; log: int64[ctas][3], start, end, SM; by_age, budget: scratch, int64[SLOTS] and
    int64[8].
    """
    ctas = first.shape[0]
    if x[NEXT_CTA] == 0:
        for n in range(min(ctas, order.shape[0])):
            sm = order[n]
            _begin(x, records, bounds, first, log, sm, x[x[AT_LIVE] + sm], n * x[LAUNCH_TICKS] >> TICK_BITS)
    while x[ENDED] < ctas:
        if x[DONE] > limit:
            flush(x, counters)
            return False
        end = x[NOW] + x[STEP]
        soon = FOREVER
        for sm in range(x[SMS]):
            if x[x[AT_WAKE] + sm] >= end:
                soon = min(soon, x[x[AT_WAKE] + sm])
                continue
            n = _fill_slots(x, records, bounds, first, log, sm, end, by_age)
            wake = FOREVER
            for part in range(4):
                budget[part] = x[STEP]
                budget[4 + part] = 0
            for j in range(n):
                w = x[AT_WARP] + (sm * x[SLOTS] + by_age[j]) * x[WARPS] * WARP_WORDS
                for k in range(x[WARPS]):
                    if x[w + W_STATUS] == RUNS and x[w + W_TIME] < end:
                        budget[4 + ((k + by_age[j] * x[WARPS]) & 3)] += 1
                    w += WARP_WORDS
            # Issue slots are shared by all that are ready, what one leaves goes to the others; the queue in
            # front of L1 and the load-store unit serve the oldest CTA first, and within one every warp in
            # turn.
            turn = (x[NOW] // x[STEP]) % x[WARPS]
            for sweep in range(2):
                for j in range(n):
                    s = x[AT_SLOT] + (sm * x[SLOTS] + by_age[j]) * SLOT_WORDS
                    if x[s + S_CTA] < 0:
                        continue
                    w0 = x[AT_WARP] + (sm * x[SLOTS] + by_age[j]) * x[WARPS] * WARP_WORDS
                    for k in range(x[WARPS]):
                        k += turn
                        if k >= x[WARPS]:
                            k -= x[WARPS]
                        w = w0 + k * WARP_WORDS
                        if x[w + W_TIME] >= end or x[w + W_STATUS] != RUNS:
                            continue
                        part = (k + by_age[j] * x[WARPS]) & 3
                        share = budget[part]
                        if sweep == 0:
                            share = min(share, (x[STEP] + budget[4 + part] - 1) // max(1, budget[4 + part]))
                        while x[w + W_STATUS] == RUNS and x[w + W_TIME] < end:
                            if x[w + W_GAP] == 0:
                                _record(x, records, entries, steps, place, slack, local_base, local_sectors,
                                        log, sm, s, w0, w, counters)  # fmt: skip
                            elif share == 0:
                                if sweep == 1:
                                    x[w + W_TIME] = end
                                break
                            else:
                                issued = _issue(x, w, x[AT_QUEUE] + sm, end, share)
                                share -= issued
                                budget[part] -= issued
                        if x[s + S_CTA] < 0:
                            break
            for slot in range(x[SLOTS]):
                s = x[AT_SLOT] + (sm * x[SLOTS] + slot) * SLOT_WORDS
                if x[s + S_CTA] < 0:
                    if x[NEXT_CTA] < ctas:
                        wake = min(wake, x[s + S_ENDED] + x[RELAUNCH_CYCLES])
                    continue
                for k in range(x[WARPS]):
                    w = x[AT_WARP] + ((sm * x[SLOTS] + slot) * x[WARPS] + k) * WARP_WORDS
                    if x[w + W_STATUS] == RUNS:
                        wake = min(wake, x[w + W_TIME])
            x[x[AT_WAKE] + sm] = wake
            soon = min(soon, wake)
        if soon == FOREVER and x[ENDED] < ctas:
            return False
        x[NOW] = max(end, soon - soon % x[STEP]) if x[ENDED] < ctas else end
    flush(x, counters)
    return True

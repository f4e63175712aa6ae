"""The compiled caches of `gpusim.memory.hierarchy`: L1, store buffer, merging stage, L2, the way to DRAM.

What is modelled, in which units and after which measurements is said there.  Time is SM clock cycles.

All state is one int64 array ``x`` (numba counts references of every array it passes on, which costs more than
the caches themselves): parameters first, by the names below, then tables whose places stand among them.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from gpusim.compiled import compiled
from gpusim.events import Flag
from gpusim.memory.banks import popcount
from gpusim.memory.trace import FLAGS_AT, LOCAL, WHOLE


class Traffic(IntEnum):
    """Columns of the counters, by instruction; all are sectors of 32 bytes."""

    LOADED = 0
    """Sectors of global loads at the L1 tag stage."""
    L1_HIT = 1
    """`l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit`."""
    TO_L1 = 2
    """`l1tex__m_xbar2l1tex_read_sectors`."""
    FROM_L1 = 3
    """`l1tex__m_l1tex2xbar_write_sectors`."""
    L2_READ = 4
    """`lts__t_sectors_srcunit_tex_op_read`: what is left when requests of one GPC have been merged."""
    L2_WRITE = 5
    """`lts__t_sectors_srcunit_tex_op_write`: no atomics and reductions."""
    L2_HIT = 6
    """`lts__t_sectors_srcunit_tex_lookup_hit`, reads and writes."""
    DRAM_READ = 7
    """`dram__bytes_read` / 32, of what the instruction's misses fetch."""
    FABRIC = 8
    """Sectors that cross from one half of L2 to the other."""
    LOCAL_LOADED = 9
    """Sectors of local loads at the L1 tag stage."""
    LOCAL_HIT = 10
    """`l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit`."""
    RECORDS = 11
    """Accesses replayed (not sectors)."""


COUNTERS = len(Traffic)
_LOADED, _L1_HIT, _TO_L1, _FROM_L1 = 0, 1, 2, 3
_L2_READ, _L2_WRITE, _L2_HIT, _DRAM_READ, _FABRIC, _LOCAL_LOADED, _LOCAL_HIT = 4, 5, 6, 7, 8, 9, 10

#: Parameters, in order.  Sizes are counts, times cycles; *_TICKS are 1/4096 of a cycle a sector.
PARAMETERS = (
    "SMS",  # that take part
    "SLOTS",  # CTAs that an SM holds
    "WARPS",  # of a CTA
    "STEP",  # cycles that an SM runs on its own
    "L1_SETS", "L1_WAYS",
    "L2_SIDES", "L2_SETS", "L2_WAYS",  # sets and ways of one side
    "L2_DIRTY_HALF_WAYS",  # of a set, that may hold what DRAM does not have yet; odd: of every other set
    "MERGE",  # requests that may become one
    "COMBINE", "COMBINE_CYCLES",  # lines of a store buffer; how long one waits for more of its line
    "L1_LATENCY", "L2_LATENCY", "FAR_LATENCY", "DRAM_LATENCY",  # the last two on top of L2's
    "MERGE_RETURN",  # the part of a request's latency that lies between SM and merging stage
    "MERGE_EARLY",  # by how much SMs that run one after another in a step may be out of order
    "QUEUE",  # instructions that may wait in front of L1
    "LAUNCH_TICKS", "RELAUNCH_CYCLES",  # from CTA to CTA at the start; from one's end to the next one's start
    "FAR_PLACE",  # lines of a set in front of one that is fetched for the other side
    "FETCH",  # sectors that a miss brings from DRAM
    "JITTER",  # most cycles by which the way to a slice of L2 is longer than the shortest
    "FILL_TICKS", "L2_TICKS", "DRAM_TICKS",  # ports of an SM, of L2, of DRAM
    # places of the tables
    "AT_GPC", "AT_SIDE", "AT_L1", "AT_L2", "AT_MERGE", "AT_STORE", "AT_FILL", "AT_WARP", "AT_SLOT",
    "AT_QUEUE", "AT_LIVE", "AT_WAKE", "AT_RING", "AT_TURN",
    # registers
    "STAMP",  # of the last access
    "DRAM_WRITTEN",  # sectors
    "L2_FREE", "DRAM_FREE",  # ticks
    "NOW", "NEXT_CTA", "ENDED", "DONE", "AGE",
)  # fmt: skip
(SMS, SLOTS, WARPS, STEP, L1_SETS, L1_WAYS, L2_SIDES, L2_SETS, L2_WAYS, L2_DIRTY_HALF_WAYS, MERGE, COMBINE,
 COMBINE_CYCLES, L1_LATENCY, L2_LATENCY, FAR_LATENCY, DRAM_LATENCY, MERGE_RETURN, MERGE_EARLY, QUEUE,
 LAUNCH_TICKS, RELAUNCH_CYCLES, FAR_PLACE, FETCH, JITTER, FILL_TICKS, L2_TICKS, DRAM_TICKS, AT_GPC, AT_SIDE,
 AT_L1, AT_L2, AT_MERGE, AT_STORE, AT_FILL, AT_WARP, AT_SLOT, AT_QUEUE, AT_LIVE, AT_WAKE, AT_RING, AT_TURN,
 STAMP, DRAM_WRITTEN, L2_FREE, DRAM_FREE, NOW, NEXT_CTA, ENDED, DONE, AGE,
 ) = range(len(PARAMETERS))  # fmt: skip

_PAST_L1 = int(Flag.BYPASS_L1 | Flag.STRONG) << FLAGS_AT
_LAST_USE = int(Flag.LAST_USE) << FLAGS_AT
TICK_BITS = 12
MERGE_SLOTS = 4096  # of the table of requests on their way, a GPC
#: A line is two words: its number + 1, dirty sectors and valid sectors; the cycle of its last fill (in L2
#: twice that, plus 1 if the other side asked for it).  The lines of a set stand in the order of their last
#: use.
LINE_WORDS, STATE_BITS, DIRTY = 2, 8, 0xF0
#: Words of a request on its way (key, from, until, arrival, requests joined), and of a store buffer's line.
MERGE_WORDS, STORE_WORDS = 5, 5


@compiled(counted=False)
def mix(n):
    """Spreads the bits of a number (finaliser of splitmix64); 63 bits."""
    h = np.uint64(n)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((h ^ (h >> np.uint64(31))) >> np.uint64(1))


@compiled(counted=False)
def bits(mask):
    """Sectors of a mask."""
    return (mask & 1) + ((mask >> 1) & 1) + ((mask >> 2) & 1) + ((mask >> 3) & 1)


@compiled(counted=False)
def _l2_set(x, side, line):
    return x[AT_L2] + (side * x[L2_SETS] + (line >> 1) % x[L2_SETS]) * x[L2_WAYS] * LINE_WORDS


@compiled(counted=False)
def _find(x, base, ways, line):
    """Place of a line in a set, or -1."""
    for k in range(base, base + ways * LINE_WORDS, LINE_WORDS):
        if x[k] >> STATE_BITS == line + 1:
            return k
    return -1


@compiled(counted=False)
def _move(x, base, k):
    """Bring the line at ``k`` to the front of its set; the others keep their order."""
    first, second = x[k], x[k + 1]
    while k > base:
        x[k] = x[k - LINE_WORDS]
        x[k + 1] = x[k + 1 - LINE_WORDS]
        k -= LINE_WORDS
    x[base], x[base + 1] = first, second


@compiled(counted=False)
def _enter(x, base, at, ways, line):
    """Put a line without sectors into a set, ``at`` others in front; the state of what it replaces."""
    k = base + (ways - 1) * LINE_WORDS
    gone = x[k] & 0xFF
    x[k] = (line + 1) << STATE_BITS
    x[k + 1] = 0
    _move(x, base + at * LINE_WORDS, k)
    return gone


@compiled(counted=False)
def _l2_place(x, side, line):
    """A line's place in a side of L2, as its last use; what it replaces is written back."""
    base = _l2_set(x, side, line)
    k = _find(x, base, x[L2_WAYS], line)
    if k >= 0:
        _move(x, base, k)
    else:
        x[DRAM_WRITTEN] += bits(_enter(x, base, 0, x[L2_WAYS], line) >> 4)
    return base


@compiled(counted=False)
def home(x, line):
    """The side of L2 that a line belongs to."""
    return popcount(np.uint64(line)) % x[L2_SIDES]


@compiled(counted=False)
def _widen(x, mask):
    """Sectors that DRAM delivers when some are missing."""
    if x[FETCH] == 4:
        return 15
    if x[FETCH] == 2:
        return (3 if mask & 3 else 0) | (12 if mask & 12 else 0)
    return mask


@compiled(counted=False)
def _from_dram(x, k, missing, t, counters, index):
    """Fetch sectors into a line of L2; when they are there."""
    fetched = _widen(x, missing) & ~x[k]
    n = bits(fetched)
    counters[index, _DRAM_READ] += n
    x[DRAM_FREE] = max(x[DRAM_FREE], t << TICK_BITS) + n * x[DRAM_TICKS]
    ready = (x[DRAM_FREE] >> TICK_BITS) + x[DRAM_LATENCY]
    x[k] |= fetched
    x[k + 1] = ready << 1
    return ready


@compiled(counted=False)
def _l2_read(x, side, line, mask, t, counters, index):
    """Cycle at which L2 can send these sectors, less its own latency."""
    n = bits(mask)
    counters[index, _L2_READ] += n
    k = _l2_place(x, side, line)
    missing = mask & ~x[k]
    there = x[k + 1] >> 1
    # a line that the other side has just asked for is a miss until that request has arrived
    if x[k + 1] & 1 == 0 or t >= there - x[DRAM_LATENCY] + x[FAR_LATENCY] // 2:
        counters[index, _L2_HIT] += n - bits(missing)
    x[k + 1] = there << 1
    x[L2_FREE] = max(x[L2_FREE], t << TICK_BITS) + n * x[L2_TICKS]
    t = x[L2_FREE] >> TICK_BITS
    ready = max(t, there) if missing != mask else t
    if missing == 0:
        return ready
    owner = home(x, line)
    if owner == side:
        return max(ready, _from_dram(x, k, missing, t, counters, index))
    wanted = _widen(x, missing)
    counters[index, _FABRIC] += bits(wanted)
    base = _l2_set(x, owner, line)
    h = _find(x, base, x[L2_WAYS], line)
    if h < 0:
        h = base + x[FAR_PLACE] * LINE_WORDS
        x[DRAM_WRITTEN] += bits(_enter(x, base, x[FAR_PLACE], x[L2_WAYS], line) >> 4)
    absent = wanted & ~x[h]
    there = max(t, x[h + 1] >> 1)
    if absent != 0:
        there = max(there, _from_dram(x, h, absent, t, counters, index))
        x[h + 1] |= 1
    there += x[FAR_LATENCY]
    x[k] |= wanted
    x[k + 1] = there << 1
    return max(ready, there)


@compiled(counted=False)
def _l2_write(x, side, line, mask, t, counters, index, reads):
    """Write sectors, at the side that they belong to; ``reads``: they must be there first (atomics)."""
    n = bits(mask)
    if not reads:
        counters[index, _L2_WRITE] += n
    counters[index, _L2_HIT] += n
    owner = home(x, line)
    ways = x[L2_WAYS]
    if owner != side:
        counters[index, _FABRIC] += n
    for other in range(x[L2_SIDES]):  # copies are out of date
        if other != owner:
            k = _find(x, _l2_set(x, other, line), ways, line)
            if k >= 0:
                x[k] &= ~mask
    k = _l2_place(x, owner, line)
    ready = t
    if reads and mask & ~x[k] != 0:
        ready = _from_dram(x, k, mask & ~x[k], t, counters, index)
    if x[k] & DIRTY == 0:
        # only so many ways of a set may be dirty: the oldest of them is written back and stays
        dirty = 0
        oldest = -1
        for j in range(k, k + ways * LINE_WORDS, LINE_WORDS):
            if x[j] & DIRTY != 0:
                dirty += 1
                oldest = j
        if dirty >= (x[L2_DIRTY_HALF_WAYS] + (k - x[AT_L2]) // (ways * LINE_WORDS) % 2) >> 1:
            x[DRAM_WRITTEN] += bits(x[oldest] >> 4)
            x[oldest] &= ~DIRTY
    x[k] |= mask | mask << 4
    return ready


@compiled(counted=False)
def _request(x, sm, line, mask, t, counters, index):
    """An SM's read of sectors that L1 lacks: merging stage, L2, port.  Cycle of arrival."""
    n = bits(mask)
    counters[index, _TO_L1] += n
    gpc = x[x[AT_GPC] + sm]
    key = (line << 4) | mask
    h = mix(key)
    e = x[AT_MERGE] + (gpc * MERGE_SLOTS + (h & (MERGE_SLOTS - 1))) * MERGE_WORDS
    if x[e] == key and x[e + 4] < x[MERGE] and t >= x[e + 1] - x[MERGE_EARLY] and t <= x[e + 2]:
        x[e + 4] += 1
        ready = max(x[e + 3], t + x[L2_LATENCY])
    else:
        ready = _l2_read(x, x[x[AT_SIDE] + gpc], line, mask, t, counters, index) + x[L2_LATENCY]
        x[e] = key
        x[e + 1] = t
        x[e + 2] = ready - x[MERGE_RETURN]
        x[e + 3] = ready
        x[e + 4] = 1
    ready += (mix(h + sm) & 0xFF) * x[JITTER] >> 8
    port = x[AT_FILL] + sm
    x[port] = max(x[port], ready << TICK_BITS) + n * x[FILL_TICKS]
    return x[port] >> TICK_BITS


@compiled(counted=False)
def _l1_set(x, sm, line):
    return x[AT_L1] + (sm * x[L1_SETS] + line % x[L1_SETS]) * x[L1_WAYS] * LINE_WORDS


@compiled(counted=False)
def _l1_place(x, sm, line):
    """A line's place in the L1 of an SM, as its last use."""
    base = _l1_set(x, sm, line)
    k = _find(x, base, x[L1_WAYS], line)
    if k >= 0:
        _move(x, base, k)
    else:
        _enter(x, base, 0, x[L1_WAYS], line)
    return base


@compiled(counted=False)
def _l1_store(x, sm, line, mask):
    """Keep sectors that are written whole; a new line is the next to be replaced."""
    base = _l1_set(x, sm, line)
    k = _find(x, base, x[L1_WAYS], line)
    if k < 0:
        k = base + (x[L1_WAYS] - 1) * LINE_WORDS
        _enter(x, base, x[L1_WAYS] - 1, x[L1_WAYS], line)
    x[k] |= mask


@compiled(counted=False)
def _l1_drop(x, sm, line, mask):
    """Take sectors out of an SM's L1."""
    k = _find(x, _l1_set(x, sm, line), x[L1_WAYS], line)
    if k >= 0:
        x[k] &= ~mask


@compiled(counted=False)
def _l1_load(x, sm, line, mask, t, counters, index, hit):
    """Read sectors of one line through L1; cycle at which they are there."""
    k = _l1_place(x, sm, line)
    missing = mask & ~x[k]
    counters[index, hit] += bits(mask & ~missing)
    ready = t + x[L1_LATENCY]
    if missing != mask:
        ready = max(ready, x[k + 1])
    if missing != 0:
        there = _request(x, sm, line, missing, t, counters, index)
        x[k] |= missing
        x[k + 1] = there
        ready = max(ready, there)
    return ready


@compiled(counted=False)
def _flush_store(x, sm, e, counters):
    """Send an entry of an SM's store buffer to L2."""
    if x[e + 1] != 0:
        index = x[e + 3]
        counters[index, _FROM_L1] += bits(x[e + 1])
        _l2_write(x, x[x[AT_SIDE] + x[x[AT_GPC] + sm]], x[e], x[e + 1], x[e + 2], counters, index, False)
        x[e + 1] = 0


@compiled(counted=False)
def _store(x, sm, line, mask, t, index, counters):
    """A store's sectors of one line: joined to those that wait in the buffer, or in place of the oldest."""
    base = x[AT_STORE] + sm * x[COMBINE] * STORE_WORDS
    e = base
    x[STAMP] += 1
    for k in range(base, base + x[COMBINE] * STORE_WORDS, STORE_WORDS):
        if x[k + 1] != 0 and x[k] == line:
            if t - x[k + 2] > x[COMBINE_CYCLES]:
                e = k
                break
            x[k + 1] |= mask
            x[k + 2] = t
            x[k + 4] = x[STAMP]
            return
        if x[k + 4] < x[e + 4]:
            e = k
    _flush_store(x, sm, e, counters)
    x[e] = line
    x[e + 1] = mask
    x[e + 2] = t
    x[e + 3] = index
    x[e + 4] = x[STAMP]


@compiled(counted=False)
def access(x, sm, kind, entry, shift, t, index, counters):
    """One line entry of a record, moved by ``shift`` sectors; cycle at which its data is there."""
    mask = np.int64(entry & np.uint64(15))
    first = np.int64(entry >> np.uint64(4)) * 4 + shift
    mask <<= first & 3
    line = first >> 2
    ready = t
    what = kind & 0xFF
    while mask != 0:
        part = mask & 15
        if part != 0:
            n = bits(part)
            if what == 1 or what == 7:
                local = kind & LOCAL != 0
                counters[index, _LOCAL_LOADED if local else _LOADED] += n
                if kind & _PAST_L1 != 0 and not local:
                    _l1_drop(x, sm, line, part)
                    ready = max(ready, _request(x, sm, line, part, t, counters, index))
                else:
                    ready = max(
                        ready,
                        _l1_load(x, sm, line, part, t, counters, index, _LOCAL_HIT if local else _L1_HIT),
                    )
                    if kind & _LAST_USE != 0:
                        _l1_drop(x, sm, line, part)
            elif what == 2:
                if kind & LOCAL != 0:  # this SM's alone: L1 keeps what is written
                    x[_l1_place(x, sm, line)] |= part
                elif kind & WHOLE != 0:
                    _l1_store(x, sm, line, part)
                _store(x, sm, line, part, t, index, counters)
            else:
                counters[index, _FROM_L1] += n
                _l1_drop(x, sm, line, part)
                there = (
                    _l2_write(x, x[x[AT_SIDE] + x[x[AT_GPC] + sm]], line, part, t, counters, index, True)
                    + x[L2_LATENCY]
                )
                if what == 3:
                    counters[index, _TO_L1] += n
                    ready = max(ready, there)
        mask >>= 4
        line += 1
    return ready


@compiled(counted=False)
def flush(x, counters):
    """Empty the store buffers."""
    for sm in range(x[SMS]):
        base = x[AT_STORE] + sm * x[COMBINE] * STORE_WORDS
        for e in range(base, base + x[COMBINE] * STORE_WORDS, STORE_WORDS):
            _flush_store(x, sm, e, counters)


__all__ = ["COUNTERS", "PARAMETERS", "Traffic", "access", "flush", "home", "mix"]

"""How much different data the CTAs of a template read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpusim.compiled import compiled
from gpusim.memory.hierarchy_loop import mix
from gpusim.memory.trace import LOCAL, Trace

SAMPLE_BITS = 4  # one line in 16 is counted...
FEW_TOUCHES = 1 << 22  # ...unless there are only so many touches
TABLE_BITS = 23


@compiled
def _lines_of_cta(records, entries, steps, writes, lines, masks, moves):
    """Distinct (line, steps) that one CTA reads (or stores to), and sectors; how many (-1: no room)."""
    room = 1 << 20
    table = np.full(2 * room, -1, np.int32)
    n = 0
    for r in range(records.shape[0]):
        kind = records[r, 0] & 0xFF
        if (kind == 2) != writes or kind > 7 or records[r, 0] & LOCAL != 0:
            continue
        for e in range(records[r, 6], records[r, 6] + records[r, 7]):
            line = np.int64(entries[e] >> np.uint64(4))
            h = mix(line ^ mix(steps[r, 0] + 31 * steps[r, 1] + 961 * steps[r, 2])) % (2 * room)
            while table[h] >= 0:
                k = table[h]
                m = moves[k]
                if (
                    lines[k] == line
                    and steps[m, 0] == steps[r, 0]
                    and steps[m, 1] == steps[r, 1]
                    and steps[m, 2] == steps[r, 2]
                ):
                    break
                h = (h + 1) % (2 * room)
            k = table[h]
            if k < 0:
                if n == room:
                    return -1
                k = n
                table[h] = n
                lines[n], masks[n], moves[n] = line, 0, r
                n += 1
            masks[k] |= np.int64(entries[e] & np.uint64(15))
    return n


@compiled
def _count(lines, masks, moves, n, steps, place, fetch, sample_bits, table, found, owner):
    """Sectors that misses on a sample of the lines of all CTAs bring, each once, and those of them that two
    CTAs read; -1, 0: the table is full.
    """
    used = 0
    total = 0
    shared = 0
    mask_of_sample = (1 << sample_bits) - 1
    size = table.shape[0]
    for c in range(place.shape[0]):
        for k in range(n):
            m = moves[k]
            first = (
                lines[k] * 4
                + place[c, 0] * steps[m, 0]
                + place[c, 1] * steps[m, 1]
                + place[c, 2] * steps[m, 2]
            )
            mask = masks[k] << (first & 3)
            line = first >> 2
            while mask != 0:
                part = mask & 15
                if fetch == 2:
                    part = (3 if part & 3 else 0) | (12 if part & 12 else 0)
                elif fetch == 4 and part != 0:
                    part = 15
                h = mix(line)
                if part != 0 and h & mask_of_sample == 0:
                    h = (h >> sample_bits) % size
                    while table[h] != line + 1 and table[h] != 0:
                        h = (h + 1) % size
                    if table[h] == 0:
                        used += 1
                        if 2 * used > size:
                            return -1, 0
                        table[h] = line + 1
                        found[h] = 0
                        owner[h] = c
                    new = part & ~found[h]
                    total += (new & 1) + (new >> 1 & 1) + (new >> 2 & 1) + (new >> 3 & 1)
                    if owner[h] != c:
                        again = part & found[h] & ~(found[h] >> 4)
                        shared += (again & 1) + (again >> 1 & 1) + (again >> 2 & 1) + (again >> 3 & 1)
                        found[h] |= again << 4
                    found[h] |= part
                mask >>= 4
                line += 1
    return total << sample_bits, shared << sample_bits


def distinct_sectors(trace: Trace, steps: NDArray[np.int64], place: NDArray[np.int64], fetch: int) -> int:
    """The first of `footprint`."""
    return footprint(trace, steps, place, fetch)[0]


def footprint(
    trace: Trace, steps: NDArray[np.int64], place: NDArray[np.int64], fetch: int, writes: bool = False
) -> tuple[int, int]:
    """Sectors that must come from DRAM at least once when all CTAs read what the one in ``trace`` does,
    moved; and how many of them several CTAs read.  writes: sectors stored to instead.

    steps, place: as `replay.run` takes them; fetch: sectors that a miss brings.  Of large launches one line
    in 16 is counted: with n lines counted the error is about 1/sqrt(n).  Zeros if a CTA touches more than
    2^20 lines.
    """
    room = 1 << 20
    lines, masks, moves = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    n = _lines_of_cta(trace.records, trace.entries, steps, writes, lines, masks, moves)
    if n < 0:
        return 0, 0
    bits = 0 if n * len(place) <= FEW_TOUCHES else SAMPLE_BITS
    table, found = np.zeros(1 << TABLE_BITS, np.int64), np.zeros(1 << TABLE_BITS, np.uint8)
    owner = np.zeros(1 << TABLE_BITS, np.int32)
    every, shared = _count(lines, masks, moves, n, steps, place, fetch, bits, table, found, owner)
    return max(0, int(every)), int(shared)


__all__ = ["distinct_sectors", "footprint"]

"""Events as the records that the hierarchy replays: per warp, what it touches and what lies in between.

A record is one access of global or local memory after coalescing, a wait at a CTA barrier, or lanes that
leave.  Shared accesses become time of the load-store unit in front of the next record.  Sizes: a *line
entry* is ``line << 4 | sector mask`` with lines of 128 bytes and sectors of 32 (geometry of every GPU since
Volta; `GlobalGeometry` is checked against it).

Records of a CTA whose addresses move by whole sectors with its place in the grid serve for all such CTAs:
:func:`template` finds the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from gpusim.compiled import compiled
from gpusim.events import EVENT, LANES
from gpusim.memory.banks import HASH_SLOTS, popcount, shared_access

LINE_BITS, SECTOR_BITS = 7, 5
WORD_SHIFT, BANK_BITS = 2, 5


class Column(IntEnum):
    """Columns of the records of a :class:`Trace`."""

    KIND = 0
    """`Kind` in the low byte, `Flag` from bit 8, :data:`LOCAL` for local memory, :data:`WHOLE` for a store
    that writes every byte of its sectors."""
    INDEX = 1
    """Instruction: pc // 16."""
    GAP = 2
    """Instructions that the warp issues since the record before, this one included."""
    STALLS = 3
    """Sum of the stall cycles of their control words."""
    SHARED = 4
    """Wavefronts of shared accesses since the record before."""
    WAVES = 5
    """Wavefronts of this access in the L1 data stage if everything hits."""
    AT = 6
    """First line entry."""
    COUNT = 7
    """Line entries; of a barrier, 1 if its lanes only arrive."""


FLAGS_AT, WHOLE, LOCAL = 8, 1 << 29, 1 << 30
COLUMNS = len(Column)
_SHARED = 1 << 20  # raw kind: shared wavefronts, folded into the next record

assert EVENT.fields is not None
_WORDS = EVENT.itemsize // 8
assert EVENT.itemsize == 288 and EVENT.fields["addresses"][1] == 32


@compiled
def gather(words, first, recs, room, entries, entry_room):
    """Append raw records of the events from ``first`` on; (events taken, records, entries) so far.

    recs: int64[n][8]: key (cta << 16 | warp), index, kind, issued, stalls, waves, at, count.  Stops before an
    event for which there is no room.  room, entry_room: int64[1], how many are used.
    """
    a = np.empty(LANES + 1, np.uint64)
    count = np.empty(64, np.int64)
    table = np.zeros(HASH_SLOTS, np.uint64)
    five = np.zeros(5, np.int64)
    stamp = 1
    low32 = np.uint64(0xFFFFFFFF)
    r = room[0]
    e = entry_room[0]
    for i in range(first, words.shape[0]):
        if r >= recs.shape[0] or e + 4 * LANES > entries.shape[0]:
            room[0] = r
            entry_room[0] = e
            return i
        cta = np.int64(words[i, 0] & low32)
        index = np.int64(words[i, 0] >> np.uint64(36))
        mask = np.int64(words[i, 1] & low32)
        what = words[i, 2]
        warp = np.int64(what & np.uint64(0xFFFF))
        flags = np.int64((what >> np.uint64(16)) & np.uint64(0xFFFF))
        space = np.int64((what >> np.uint64(32)) & np.uint64(0xFF))
        kind = np.int64((what >> np.uint64(40)) & np.uint64(0xFF))
        width = np.int64((what >> np.uint64(48)) & np.uint64(0xFF))
        recs[r, 0] = cta << 16 | warp
        recs[r, 1] = index
        recs[r, 2] = kind | flags << FLAGS_AT
        recs[r, 3] = np.int64(words[i, 3] & low32)
        recs[r, 4] = np.int64(words[i, 3] >> np.uint64(32))
        recs[r, 5] = 1
        recs[r, 6] = e
        recs[r, 7] = 0
        if space == 0:
            recs[r, 7] = np.int64((words[i, 4] >> np.uint64(32)) & np.uint64(1)) if kind == 8 else 0
            r += 1
            continue
        n = 0
        for lane in range(LANES):
            a[n] = words[i, 4 + lane]
            n += (mask >> lane) & 1
        if n == 0:
            continue
        if space == 1:
            low = a[0]
            high = a[0]
            for j in range(n):
                low = min(low, a[j])
                high = max(high, a[j])
            waves = 1
            if width > 4 or kind > 2 or (high >> np.uint64(2)) - (low >> np.uint64(2)) >= np.uint64(32):
                shared_access(
                    words, i, mask, kind, flags, width, WORD_SHIFT, BANK_BITS, a, n, count, table, stamp, five
                )
                stamp += 48
                waves = five[0]
            recs[r, 2] = _SHARED
            recs[r, 5] = waves
            r += 1
            continue
        if space == 3:
            recs[r, 2] |= LOCAL
            per_lane = max(1, width >> 2)
            recs[r, 5] = per_lane
            start = e
            for lane in range(LANES):
                if (mask >> lane) & 1 == 0:
                    continue
                word = np.int64(words[i, 4 + lane] >> np.uint64(2))
                bit = np.uint64(1) << np.uint64(lane >> 3)
                for k in range(word, word + per_lane):
                    line = np.uint64(k) << np.uint64(4)
                    j = start
                    while j < e and entries[j] & ~np.uint64(15) != line:
                        j += 1
                    if j == e:
                        entries[e] = line
                        e += 1
                    entries[j] |= bit
            recs[r, 7] = e - start
            r += 1
            continue
        if kind == 1 or kind == 7:
            if width == 4:
                fits = True
                for j in range(1, n):
                    fits = fits and a[j] - a[0] < np.uint64(128)
                if not fits:
                    shared_access(
                        words, i, mask, 1, 0, width, WORD_SHIFT, BANK_BITS, a, n, count, table, stamp, five
                    )
                    stamp += 48
                    recs[r, 5] = five[0]
            elif width > 4:
                shared_access(
                    words, i, mask, 1, 0, width, WORD_SHIFT, BANK_BITS, a, n, count, table, stamp, five
                )
                stamp += 48
                recs[r, 5] = five[0]
        else:
            recs[r, 5] = max(1, (n * width + 127) >> 7)
        start = e
        for j in range(n):
            line = (a[j] >> np.uint64(LINE_BITS)) << np.uint64(4)
            bit = np.uint64(1) << ((a[j] >> np.uint64(SECTOR_BITS)) & np.uint64(3))
            k = e - 1
            while k >= start and entries[k] & ~np.uint64(15) != line:
                k -= 1
            if k < start:
                k = e
                entries[e] = line
                e += 1
            entries[k] |= bit
        recs[r, 7] = e - start
        recs[r, 5] = max(recs[r, 5], (e - start + 3) >> 2)
        if kind == 2:  # lanes that store to one place are taken to be none
            sectors = 0
            for k in range(start, e):
                sectors += popcount(entries[k] & np.uint64(15))
            if n * width == sectors << SECTOR_BITS:
                recs[r, 2] |= WHOLE
        r += 1
    room[0] = r
    entry_room[0] = e
    return words.shape[0]


@compiled
def _fold(raw, order, entries, out, into, bounds, keys):
    """Records in order of (CTA, warp): gaps instead of positions, shared accesses folded in."""
    m = 0
    w = -1
    e = 0
    previous = np.int64(-1)
    issued = np.int64(0)
    stalls = np.int64(0)
    shared = np.int64(0)
    for j in range(order.size):
        i = order[j]
        if raw[i, 0] != previous:
            previous = raw[i, 0]
            w += 1
            keys[w] = previous
            bounds[w] = m
            issued = np.int64(-1)
            stalls = np.int64(0)
            shared = np.int64(0)
        if raw[i, 2] == _SHARED:
            shared += raw[i, 5]
            continue
        out[m, 0] = raw[i, 2]
        out[m, 1] = raw[i, 1]
        out[m, 2] = raw[i, 3] - issued
        out[m, 3] = raw[i, 4] - stalls
        out[m, 4] = shared
        out[m, 5] = raw[i, 5]
        out[m, 6] = e
        out[m, 7] = raw[i, 7]
        issued = raw[i, 3]
        stalls = raw[i, 4]
        shared = 0
        if raw[i, 2] & 0xFF != 8 and raw[i, 2] & 0xFF != 9:
            for k in range(raw[i, 7]):
                into[e] = entries[raw[i, 6] + k]
                e += 1
        m += 1
    bounds[w + 1] = m
    return m, w + 1, e


@dataclass(frozen=True, slots=True)
class Trace:
    """Records of some CTAs, warp after warp.

    records: int32[n][8], columns as :class:`Column`; entries: uint64[...]; bounds: int64[warps + 1], where
    the records of each warp begin; keys: int64[warps], cta << 16 | warp, ascending.
    """

    records: NDArray[np.int32]
    entries: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    keys: NDArray[np.int64]


class Recorder:
    """Takes events of one worker (call it with chunks), keeps raw records."""

    def __init__(self, records: int = 1 << 14) -> None:
        self._raw = np.empty((records, 8), np.int64)
        self._entries = np.zeros(4 * records + 4 * LANES, np.uint64)
        self._used, self._entries_used = np.zeros(1, np.int64), np.zeros(1, np.int64)

    def __call__(self, events: NDArray[np.void]) -> None:
        words = np.ascontiguousarray(events).view(np.uint64).reshape(len(events), _WORDS)
        at = 0
        while True:
            at = gather(words, at, self._raw, self._used, self._entries, self._entries_used)
            if at == len(words):
                return
            if self._used[0] >= len(self._raw):
                self._raw = np.concatenate([self._raw, np.empty_like(self._raw)])
            else:
                self._entries = np.concatenate([self._entries, np.zeros_like(self._entries)])

    @property
    def raw(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        return self._raw[: self._used[0]], self._entries[: self._entries_used[0]]


def assemble(recorders: Sequence[Recorder]) -> Trace:
    """Records of all workers, sorted by CTA and warp."""
    parts = [r.raw for r in recorders]
    raw = np.concatenate([p[0] for p in parts])
    entries = np.concatenate([p[1] for p in parts])
    at = offset = 0
    for part, some in parts:
        raw[at : at + len(part), 6] += offset
        at, offset = at + len(part), offset + len(some)
    order = np.argsort(raw[:, 0], kind="stable")
    warps = len(np.unique(raw[:, 0]))
    out, into = np.empty((len(raw), COLUMNS), np.int32), np.empty_like(entries)
    bounds, keys = np.empty(warps + 1, np.int64), np.empty(warps, np.int64)
    m, _, e = _fold(raw, order, entries, out, into, bounds, keys)
    return Trace(out[:m].copy(), into[:e].copy(), bounds, keys)


@compiled
def _sectors(records, entries, r, out):
    """Sectors of one record, ascending; their number."""
    n = 0
    for k in range(records[r, 6], records[r, 6] + records[r, 7]):
        base = (entries[k] >> np.uint64(4)) << np.uint64(2)
        for bit in range(4):
            if (entries[k] >> np.uint64(bit)) & np.uint64(1):
                x = np.int64(base) + bit
                j = n
                while j > 0 and out[j - 1] > x:
                    out[j] = out[j - 1]
                    j -= 1
                out[j] = x
                n += 1
    return n


@compiled
def _steps(records, entries, first, other, count, steps):
    """Sectors by which the records from ``other`` on lie behind those from ``first`` on, into ``steps``.

    False if the two CTAs do not do the same, or a record's sectors do not all move alike.
    """
    a, b = np.empty(8 * LANES, np.int64), np.empty(8 * LANES, np.int64)
    for r in range(count):
        for column in (0, 1, 2, 3, 4):
            if records[first + r, column] != records[other + r, column]:
                return False
        kind = records[first + r, 0] & 0xFF
        steps[r] = 0
        if kind == 8 or kind == 9:
            continue
        n = _sectors(records, entries, first + r, a)
        if _sectors(records, entries, other + r, b) != n:
            return False
        steps[r] = b[0] - a[0]
        for j in range(n):
            if b[j] - a[j] != steps[r]:
                return False
    return True


def template(trace: Trace, grid: tuple[int, int, int], base: int) -> NDArray[np.int64] | None:
    """int64[records of a CTA][3]: sectors that each record of CTA ``base`` moves by along x, y and z.

    None unless all CTAs of ``trace`` do the same in this sense.  It must hold ``base`` and one CTA that
    differs from it in each dimension of more than one CTA alone.
    """
    ctas, first = np.unique(trace.keys >> 16, return_index=True)
    begin = trace.bounds[first]
    end = trace.bounds[np.append(first[1:], len(trace.keys))]
    count = int(end[0] - begin[0])
    place = {int(c): int(b) for c, b in zip(ctas, begin, strict=True)}
    if base not in place or np.any(end - begin != count):
        return None
    x, y, _ = grid

    def coordinates(cta: int) -> NDArray[np.int64]:
        return np.array([cta % x, cta // x % y, cta // (x * y)], np.int64)

    steps = np.zeros((count, 3), np.int64)
    scratch = np.empty(count, np.int64)
    known = np.array([extent == 1 for extent in grid])
    origin = coordinates(base)
    pending = [c for c in place if c != base]
    while pending:
        for cta in pending:
            away = coordinates(cta) - origin
            unknown = np.flatnonzero((away != 0) & ~known)
            if len(unknown) <= 1:
                break
        else:
            return None
        pending.remove(cta)
        if not _steps(trace.records, trace.entries, place[base], place[cta], count, scratch):
            return None
        rest = scratch - steps @ np.where(known, away, 0)
        if len(unknown) == 0:
            if np.any(rest):
                return None
            continue
        axis = int(unknown[0])
        if np.any(rest % away[axis]):
            return None
        steps[:, axis] = rest // away[axis]
        known[axis] = True
    return steps if known.all() else None


@compiled
def first_touches(records, entries, bounds, chosen, out):
    """Sectors that the records of chosen instructions are first of the CTA to read (column 0), and first of
    their
    warp to write (column 1: what stands in a store buffer together leaves together)."""
    size = 1 << 16
    while size < 4 * entries.shape[0]:
        size *= 2
    table = np.zeros(size, np.uint64)  # line and whether it is written
    masks = np.zeros(size, np.int64)
    warp = 0
    for r in range(records.shape[0]):
        while bounds[warp + 1] <= r:
            warp += 1
        kind = records[r, 0] & 0xFF
        if kind > 7 or not chosen[records[r, 1]]:
            continue
        column = 1 if kind == 2 or kind == 4 else 0
        who = warp + 1 if column == 1 or records[r, 0] & LOCAL != 0 else 0
        for e in range(records[r, 6], records[r, 6] + records[r, 7]):
            key = (entries[e] >> np.uint64(4) << np.uint64(12) | np.uint64(who)) + np.uint64(1)
            h = np.int64((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & (size - 1)
            while table[h] != key and table[h] != 0:
                h = (h + 1) & (size - 1)
            table[h] = key
            new = np.int64(entries[e] & np.uint64(15)) & ~masks[h]
            masks[h] |= new
            out[records[r, 1], column] += (new & 1) + (new >> 1 & 1) + (new >> 2 & 1) + (new >> 3 & 1)


__all__ = ["COLUMNS", "LOCAL", "Column", "Recorder", "Trace", "assemble", "first_touches", "template"]

"""Reuse distances of a launch's accesses: what caches of every size would catch, from one pass.

A sector hits in a fully associative cache of S lines with least-recently-used replacement if its line was not
replaced since the sector was last touched: if every access to the line since then came after accesses to
fewer than S different lines (Mattson et al., IBM Systems Journal 9(2), 1970, by sector).  The largest of
those distances is the smallest cache that catches the access.

Records (`gpusim.memory.trace`) are put into one order first: every warp on an SM does one record in turn,
SM after SM; a CTA that has ended makes room for the next one of its SM.  Units: lines of 128 bytes, sectors
of 32 bytes.  Left out: time (who waits for whom), sets, what a miss brings along beside the sector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpusim.compiled import compiled
from gpusim.events import Flag, Kind
from gpusim.memory.trace import LINE_BITS, LOCAL, Column, Trace

LINE_BYTES = 1 << LINE_BITS
#: Where the lines of local memory are put: beyond every allocation, so many lines a warp's place on an SM.
_LOCAL_LINE, _LOCAL_LINES = 1 << 48, 1 << 24
_PAST_L1 = int(Flag.BYPASS_L1 | Flag.STRONG)


@dataclass(frozen=True, slots=True)
class Stream:
    """Line accesses in order.

    line: int64[n], address / 128; mask: uint8[n], sectors of it; kind: int32[n] as in `trace.Column.KIND`.
    """

    line: NDArray[np.int64]
    mask: NDArray[np.uint8]
    kind: NDArray[np.int32]

    @property
    def loads(self) -> NDArray[np.bool_]:
        """Which entries read for a warp (loads and asynchronous copies; atomics are done in L2)."""
        return np.isin(self.kind & 0xFF, (Kind.LOAD, Kind.ASYNC_COPY))

    @property
    def through_l1(self) -> NDArray[np.bool_]:
        """Which entries L1 keeps: loads that do not pass it by, and what is written to local memory."""
        local = (self.kind & LOCAL) != 0
        plain = (self.kind >> 8 & _PAST_L1) == 0
        return (self.loads & (plain | local)) | (local & (self.kind & 0xFF == Kind.STORE))


@compiled
def _turns(records, entries, bounds, first, queue, begin, slots, local_line, local_lines, line, mask, kind):
    """Fill line, mask and kind; how many entries.

    queue[begin[sm]:begin[sm + 1]]: CTAs of each SM, as rows of ``first``.
    """
    sms = begin.shape[0] - 1
    widest = 1
    for c in range(first.shape[0] - 1):
        widest = max(widest, first[c + 1] - first[c])
    at = np.zeros((sms * slots, widest), np.int64)
    end = np.zeros((sms * slots, widest), np.int64)
    left = np.zeros(sms * slots, np.int64)
    taken = begin[:-1].copy()
    n = 0
    busy = True
    while busy:
        busy = False
        for place in range(sms * slots):
            if left[place] == 0:
                sm = place // slots
                if taken[sm] == begin[sm + 1]:
                    continue
                cta = queue[taken[sm]]
                taken[sm] += 1
                left[place] = first[cta + 1] - first[cta]
                for k in range(widest):
                    at[place, k] = 0
                    end[place, k] = 0
                for k in range(left[place]):
                    at[place, k] = bounds[first[cta] + k]
                    end[place, k] = bounds[first[cta] + k + 1]
            busy = True
            for k in range(widest):
                r = at[place, k]
                if r >= end[place, k]:
                    continue
                at[place, k] += 1
                if at[place, k] == end[place, k]:
                    left[place] -= 1
                if records[r, 0] & 0xFF >= 8:  # barriers and ends touch nothing
                    continue
                if n + records[r, 7] > line.shape[0]:
                    return n
                shift = local_line + (place * widest + k) * local_lines if records[r, 0] & (1 << 30) else 0
                for e in range(records[r, 6], records[r, 6] + records[r, 7]):
                    line[n] = np.int64(entries[e] >> np.uint64(4)) + shift
                    mask[n] = entries[e] & np.uint64(15)
                    kind[n] = records[r, 0]
                    n += 1
    return n


def interleave(trace: Trace, sms: Sequence[Sequence[int]], slots: int, limit: int) -> Stream:
    """The accesses of CTAs that share SMs.

    sms: the CTAs of each SM in the order in which they start (all recorded in ``trace``); slots: CTAs that
    an SM holds; limit: entries after which the stream is cut.
    """
    ctas, first = np.unique(trace.keys >> 16, return_index=True)
    first = np.append(first, len(trace.keys))
    queue = np.searchsorted(ctas, np.array([c for some in sms for c in some], np.int64))
    begin = np.cumsum([0, *(len(some) for some in sms)])
    rows = trace.records[:, Column.KIND] & 0xFF < Kind.BARRIER
    most = int(trace.records[rows, Column.COUNT].sum())
    room = min(limit, most)
    line, mask, kind = np.empty(room, np.int64), np.empty(room, np.uint8), np.empty(room, np.int32)
    local = _LOCAL_LINE, _LOCAL_LINES
    n = _turns(
        trace.records, trace.entries, trace.bounds, first, queue, begin, slots, *local, line, mask, kind
    )
    return Stream(line[:n], mask[:n], kind[:n])


@compiled
def _distances(line, mask, counted, lines, out):
    """Add the counted sectors to ``out``: by distance in lines, at 0 those never touched before."""
    n = line.shape[0]
    tree = np.zeros(n + 1, np.int32)  # Fenwick: 1 where an access is the last one to its line
    last = np.zeros(lines, np.int64)  # 1 + position
    widest = np.zeros(
        (lines, 4), np.int32
    )  # largest distance since the sector was touched; -1 and below: touched never
    widest[:, :] = -1
    total = 0
    for i in range(n):
        which = line[i]
        distance = 0
        if last[which] != 0:
            before = 0
            j = last[which]
            while j > 0:
                before += tree[j]
                j -= j & -j
            distance = total - before + 1
            j = last[which]
            while j <= n:
                tree[j] -= 1
                j += j & -j
        else:
            total += 1
        j = i + 1
        last[which] = j
        while j <= n:
            tree[j] += 1
            j += j & -j
        for s in range(4):
            if widest[which, s] >= 0:
                widest[which, s] = max(widest[which, s], distance)
            if (mask[i] >> s) & 1:
                if counted[i]:
                    out[max(0, widest[which, s])] += 1
                widest[which, s] = 0


def reuse_distances(stream: Stream, counted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64[lines + 1]: sectors of the ``counted`` entries by distance in lines (1: the line was used last
    of all).

    Entry 0 counts sectors that were not touched before.  Entries that are not counted use their line all
    the same.
    """
    known, line = np.unique(stream.line, return_inverse=True)
    out = np.zeros(len(known) + 1, np.int64)
    _distances(line.astype(np.int64), stream.mask, counted, len(known), out)
    return out


def hit_share(distances: NDArray[np.int64], size: float) -> float:
    """Share of the sectors that a cache of ``size`` bytes catches, 0 to 1 (0 if there are none)."""
    lines = min(int(size // LINE_BYTES), len(distances) - 1)
    total = int(distances.sum())
    return int(distances[1 : lines + 1].sum()) / total if total else 0.0


__all__ = ["LINE_BYTES", "Stream", "hit_share", "interleave", "reuse_distances"]

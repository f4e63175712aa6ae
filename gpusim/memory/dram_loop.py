# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, unreachable"
# numba infers types of compiled functions, and its intrinsics take fewer arguments than they are written with
"""The compiled scheduler of `gpusim.memory.dram`: FR-FCFS in one channel.

What is modelled and which numbers come from where is said there; the records in `gpusim.memory.dram_state`.

A channel is event driven: each of its command buses knows the earliest tick at which something may happen on
it (``next_column``, ``next_row``; lower bounds, because rules only ever push commands later), and the loop
jumps there.  A bank offers at most one request a want: its oldest.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from gpusim.compiled import compiled
from gpusim.memory.dram_state import (
    ACTIVATE,
    HIT,
    LATENCY_BINS,
    MAX_BANKS,
    NEVER,
    OPENED,
    PRECHARGE,
    RING,
    Command,
    Level,
)  # fmt: skip

_NEVER = np.int64(NEVER)
_ACT, _PRE, _RD, _WR, _PREA, _REF = (int(c) for c in Command)
_PC, _STACK, _OTHER_STACK, _GROUP, _BANK = (int(level) for level in Level)


@intrinsic
def _trailing_zeros(context, x):
    """Number of zero bits below the lowest set bit of an int64 that is not 0."""

    def generate(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], _context.get_constant(types.boolean, True))

    return types.int64(types.int64), generate


@intrinsic
def _leading_zeros(context, x):
    """Number of zero bits above the highest set bit of an int64 that is not 0."""

    def generate(_context, builder, _signature, arguments):
        return builder.ctlz(arguments[0], _context.get_constant(types.boolean, True))

    return types.int64(types.int64), generate


# ---------------------------------------------------------------------------------------------------
# What a bank offers
# ---------------------------------------------------------------------------------------------------


@compiled
def _offer(ch, k, p, b, want, slot):
    """The bank's oldest request with a want is ``slot`` (-1: none)."""
    ch.offer[want, b] = slot
    bit = np.int64(1) << (b - k.per_pseudo * p)
    if slot >= 0:
        ch.key[want, b] = ch.r_sequence[slot] * MAX_BANKS + b
        ch.offers[p, want] |= bit
    else:
        ch.offers[p, want] &= ~bit


@compiled
def _offer_column(ch, k, p, b, want, kind, slot):
    _offer(ch, k, p, b, want + kind, slot)
    if slot >= 0:
        ch.next_column = min(ch.next_column, max(ch.ready[_RD + kind, b], ch.earliest[p, _RD + kind]))


@compiled
def _offer_row(ch, k, p, b, kind, slot):
    """The oldest request that needs another row than the bank holds is ``slot`` (-1: none may have it)."""
    if ch.row[b] < 0:
        _offer(ch, k, p, b, ACTIVATE + kind, slot)
        if slot >= 0:
            ch.next_row = min(ch.next_row, max(ch.ready[_ACT, b], ch.earliest[p, _ACT]))
    else:
        _offer(ch, k, p, b, PRECHARGE + kind, slot)
        if slot >= 0:
            ch.next_row = min(ch.next_row, max(ch.ready[_PRE, b], ch.earliest[p, _PRE]))


@compiled
def _closed(ch, k, p, b):
    """The bank was precharged: the heads of its queues need an activate."""
    ch.row[b] = -1
    for kind in range(2):
        _offer(ch, k, p, b, HIT + kind, np.int64(-1))
        _offer(ch, k, p, b, PRECHARGE + kind, np.int64(-1))
        _offer_row(ch, k, p, b, kind, ch.head[kind, b])


@compiled
def _opened(ch, k, p, b, own, slot):
    """A row was opened for a request, of type ``own``; until that is served, no other may close it."""
    row = ch.r_row[slot]
    ch.row[b] = row
    ch.active[b] = slot
    _offer_column(ch, k, p, b, OPENED, own, slot)
    for kind in range(2):
        _offer(ch, k, p, b, ACTIVATE + kind, np.int64(-1))
        at = ch.head[kind, b]
        while at >= 0 and ch.r_row[at] != row:
            at = ch.r_next[at]
        _offer_column(ch, k, p, b, HIT, kind, at)


@compiled
def _released(ch, k, p, b, own):
    """The request that a row was opened for is served."""
    ch.active[b] = -1
    _offer(ch, k, p, b, OPENED + own, np.int64(-1))
    for kind in range(2):
        at = ch.head[kind, b]
        while at >= 0 and ch.r_row[at] == ch.row[b]:
            at = ch.r_next[at]
        _offer_row(ch, k, p, b, kind, at)


@compiled
def _unlink(ch, b, kind, slot):
    before = ch.r_previous[slot]
    after = ch.r_next[slot]
    if before >= 0:
        ch.r_next[before] = after
    else:
        ch.head[kind, b] = after
    if after >= 0:
        ch.r_previous[after] = before
    else:
        ch.tail[kind, b] = before


@compiled
def _admit(ch, k, arrived, now, kind, b, row):
    """A request enters its bank's queue."""
    slot = ch.free
    ch.free = ch.r_next[slot]
    p = k.pseudo_of[b]
    tail = ch.tail[kind, b]
    ch.r_row[slot] = row
    ch.r_sequence[slot] = ch.sequence
    ch.r_next[slot] = -1
    ch.r_previous[slot] = tail
    ch.r_arrived[slot] = arrived
    ch.r_entered[slot] = now
    ch.r_counted[slot] = 0
    ch.sequence += 1
    ch.queued[kind] += 1
    ch.waiting += 1
    if tail >= 0:
        ch.r_next[tail] = slot
    else:
        ch.head[kind, b] = slot
    ch.tail[kind, b] = slot
    if ch.row[b] == row:
        if ch.offer[HIT + kind, b] < 0:
            _offer_column(ch, k, p, b, HIT, kind, slot)
    elif ch.active[b] < 0 and ch.offer[(ACTIVATE if ch.row[b] < 0 else PRECHARGE) + kind, b] < 0:
        _offer_row(ch, k, p, b, kind, slot)


@compiled
def _choose_mode(ch, k):
    """Reads or writes, by the fill of the write queue; a change makes both buses look again."""
    if ch.writing == 0:
        turn = ch.queued[1] > k.high or ch.queued[0] == 0
    else:
        turn = ch.queued[1] < k.low and ch.queued[0] > 0
    if turn:
        ch.writing = 1 - ch.writing
        ch.next_column = 0
        ch.next_row = 0


# ---------------------------------------------------------------------------------------------------
# Commands
# ---------------------------------------------------------------------------------------------------


@compiled
def _push(ch, command, first, size, at):
    """No ``command`` before tick ``at`` in ``size`` banks."""
    for b in range(first, first + size):
        ch.ready[command, b] = max(ch.ready[command, b], at)


@compiled
def _apply(ch, k, command, t, p, b):
    """Pushes later what the rules after ``command`` at bank b, tick t, make wait."""
    issued = ch.issued[p, command]
    ch.ring[p, command, issued & (RING - 1)] = t
    issued += 1
    ch.issued[p, command] = issued
    for r in range(k.first_rule[command], k.first_rule[command + 1]):
        after = k.following[r]
        step = k.start[after]
        past = t
        if k.window[r] > 1:
            if issued < k.window[r]:
                continue
            past = ch.ring[p, command, (issued - k.window[r]) & (RING - 1)]
        at = (past + k.ticks[r] + step - 1) & -step
        level = k.level[r]
        if level == _PC:
            ch.earliest[p, after] = max(ch.earliest[p, after], at)
        elif level == _BANK:
            ch.ready[after, b] = max(ch.ready[after, b], at)
        elif level == _GROUP:
            _push(ch, after, k.group_of[b], k.per_group, at)
        elif level == _STACK:
            _push(ch, after, k.stack_of[b], k.per_stack, at)
        else:
            _push(ch, after, p * k.per_pseudo, k.stack_of[b] - p * k.per_pseudo, at)
            last = k.stack_of[b] + k.per_stack
            _push(ch, after, last, (p + 1) * k.per_pseudo - last, at)


@compiled
def _count(ch, slot, b):
    """Row hit, miss or conflict: what the bank held when the first command was sent for a request."""
    if ch.r_counted[slot] == 0:
        ch.r_counted[slot] = 1
        if ch.row[b] < 0:
            ch.row_misses += 1
        elif ch.row[b] == ch.r_row[slot]:
            ch.row_hits += 1
        else:
            ch.row_conflicts += 1


@compiled
def _sent(ch, command, b, row):
    """Keeps the command just sent for `_record`: passing the timeline down here would cost a lock a call."""
    ch.sent = command
    ch.sent_bank = b
    ch.sent_row = row


@compiled
def _record(ch, timeline, t):
    """Writes down the command sent at t, if there was one and while there is room."""
    at = ch.recorded
    if ch.sent >= 0 and at < timeline.shape[0]:
        timeline[at, 0] = t
        timeline[at, 1] = ch.sent
        timeline[at, 2] = ch.sent_bank
        timeline[at, 3] = ch.sent_row
        ch.recorded = at + 1
    ch.sent = -1


@compiled
def latency_bin(ticks):
    """Exact below 16 ticks, then 8 bins an octave (`gpusim.memory.dram.bin_edges` inverts it)."""
    if ticks < 16:
        return max(np.int64(0), ticks)
    shift = np.int64(60) - _leading_zeros(np.int64(ticks))
    return min(np.int64(LATENCY_BINS - 1), shift * 8 + (ticks >> shift))


@compiled
def _oldest(ch, k, command, p, want, t, best):
    """The best so far with a pseudo-channel's: (key of the oldest ready, ready ones, soonest of the rest)."""
    oldest, several, soonest = best
    if ch.offers[p, want] == 0:
        return best
    if ch.earliest[p, command] > t:
        return oldest, several, min(soonest, ch.earliest[p, command])
    banks = ch.offers[p, want]
    low = p * k.per_pseudo
    while banks != 0:
        b = low + _trailing_zeros(banks)
        banks &= banks - 1
        at = ch.ready[command, b]
        if at <= t:
            oldest = min(oldest, ch.key[want, b])
            several += 1
        else:
            soonest = min(soonest, at)
    return oldest, several, soonest


@compiled
def _column(ch, k, t):
    """The column bus at tick t: requests whose row was opened for them first, then row hits, oldest first."""
    best = (_NEVER, np.int64(0), _NEVER)
    kind = np.int64(0)
    for p in range(k.pseudo):
        best = _oldest(ch, k, _RD, p, OPENED, t, best)
    reads = best[0]
    for p in range(k.pseudo):
        best = _oldest(ch, k, _WR, p, OPENED + 1, t, best)
    opened = best[0] < _NEVER
    if opened:
        kind = np.int64(best[0] < reads)
    else:
        kind = ch.writing
        for p in range(k.pseudo):
            if ch.refreshing[p] == 0:
                best = _oldest(ch, k, _RD + kind, p, HIT + kind, t, best)
        if best[0] == _NEVER:
            ch.next_column = best[2]
            return
    b = best[0] & (MAX_BANKS - 1)
    p = k.pseudo_of[b]
    slot = ch.active[b] if opened else ch.offer[HIT + kind, b]
    command = _RD + kind
    _count(ch, slot, b)
    _apply(ch, k, command, t, p, b)
    _sent(ch, command, b, ch.row[b])
    ch.column_free = t + k.occupancy[command]
    if k.one_bus != 0:
        ch.row_free = ch.column_free
    # the others' ticks are known where all of them were looked at and none was ready
    ch.next_column = ch.column_free if opened or best[1] > 1 else max(ch.column_free, best[2])
    end = t + k.latency[kind]
    ch.last_data = max(ch.last_data, end)
    ch.served[kind] += 1
    ch.total[latency_bin(end - ch.r_arrived[slot])] += 1
    ch.service[latency_bin(end - ch.r_entered[slot])] += 1
    ch.waiting -= 1
    if opened:
        _released(ch, k, p, b, kind)
        if ch.refreshing[p] != 0:
            ch.next_row = min(ch.next_row, t)
    else:
        ch.queued[kind] -= 1
        at = ch.r_next[slot]
        while at >= 0 and ch.r_row[at] != ch.row[b]:
            at = ch.r_next[at]
        _unlink(ch, b, kind, slot)
        _offer_column(ch, k, p, b, HIT, kind, at)
    ch.r_next[slot] = ch.free
    ch.free = slot


@compiled
def _refresh(ch, k, t, p):
    """The next step of a due refresh: precharge all, then refresh.  True if a command was sent at t."""
    if ch.offers[p, OPENED] | ch.offers[p, OPENED + 1] != 0:
        return False  # the column bus calls again when they are served
    low = p * k.per_pseudo
    command = _PREA if ch.open[p] > 0 else _REF
    at = max(ch.earliest[p, command], (t + k.start[command] - 1) & -k.start[command])
    if at > t:
        ch.next_row = min(ch.next_row, at)
        return False
    _apply(ch, k, command, t, p, low)
    _sent(ch, command, low, np.int64(-1))
    ch.row_free = t + k.occupancy[command]
    if k.one_bus != 0:
        ch.column_free = ch.row_free
    ch.next_row = ch.row_free
    if command == _PREA:
        ch.open[p] = 0
        for b in range(low, low + k.per_pseudo):
            if ch.row[b] >= 0:
                _closed(ch, k, p, b)
    else:
        ch.refreshes += 1
        ch.refreshing[p] = 0
        ch.next_refresh[p] += k.refresh
    return True


@compiled
def _row(ch, k, t):
    """The row bus at tick t: a due refresh, else the oldest request whose activate or precharge is ready."""
    ch.next_row = _NEVER
    for p in range(k.pseudo):
        if ch.refreshing[p] != 0 and _refresh(ch, k, t, p):
            return
    kind = ch.writing
    best = (_NEVER, np.int64(0), _NEVER)
    activates = t & (k.start[_ACT] - 1) == 0  # precharges may start on more ticks than activates
    for p in range(k.pseudo):
        if ch.refreshing[p] == 0:
            if activates:
                best = _oldest(ch, k, _ACT, p, ACTIVATE + kind, t, best)
            elif ch.offers[p, ACTIVATE + kind] != 0:
                best = (best[0], best[1], min(best[2], t + 1))
            best = _oldest(ch, k, _PRE, p, PRECHARGE + kind, t, best)
    if best[0] == _NEVER:
        ch.next_row = min(ch.next_row, best[2])
        return
    b = best[0] & (MAX_BANKS - 1)
    p = k.pseudo_of[b]
    closed = ch.row[b] < 0
    command = _ACT if closed else _PRE
    slot = ch.offer[(ACTIVATE if closed else PRECHARGE) + kind, b]
    _count(ch, slot, b)
    _apply(ch, k, command, t, p, b)
    _sent(ch, command, b, ch.r_row[slot] if closed else ch.row[b])
    ch.row_free = t + k.occupancy[command]
    if k.one_bus != 0:
        ch.column_free = ch.row_free
    ch.next_row = min(ch.next_row, ch.row_free if best[1] > 1 else max(ch.row_free, best[2]))
    if closed:
        ch.activates += 1
        ch.open[p] += 1
        ch.queued[kind] -= 1
        _unlink(ch, b, kind, slot)
        _opened(ch, k, p, b, kind, slot)
    else:
        ch.open[p] -= 1
        _closed(ch, k, p, b)


# ---------------------------------------------------------------------------------------------------
# Channels
# ---------------------------------------------------------------------------------------------------


@compiled
def _channel(ch, k, timeline, order, banks, rows, writes, arrivals, horizon):
    """Runs one channel over new requests, up to the first event that requests not seen yet could change."""
    step = k.start[_RD]
    recording = timeline.shape[0] > 0
    position = np.int64(0)
    n = order.shape[0]
    i = np.int64(0)
    kind = np.int64(0)
    arrival = _NEVER  # of the next request, if its queue has room
    if n > 0:
        ch.first_arrival = min(ch.first_arrival, arrivals[order[0]])
    while True:
        t = min(max(ch.next_row, ch.row_free), (max(ch.next_column, ch.column_free) + step - 1) & -step)
        arrival = _NEVER
        if position < n:
            i = order[position]
            kind = np.int64(writes[i])
            if ch.queued[kind] < k.queue[kind]:
                arrival = arrivals[i]
        elif ch.waiting == 0 and horizon == _NEVER:
            return
        t = min(t, arrival)
        if k.refresh > 0:
            for p in range(k.pseudo):
                if ch.refreshing[p] == 0:
                    t = min(t, ch.next_refresh[p])
        t = max(t, ch.now + 1)
        while position < n and arrival <= t:
            _admit(ch, k, arrival, t, kind, np.int64(banks[i]), rows[i])
            position += 1
            arrival = _NEVER
            if position < n:
                i = order[position]
                kind = np.int64(writes[i])
                if ch.queued[kind] < k.queue[kind]:
                    arrival = arrivals[i]
        if position == n and t >= horizon:
            ch.now = max(ch.now, horizon - 1)
            return
        ch.now = t
        if k.refresh > 0:
            for p in range(k.pseudo):
                if ch.refreshing[p] == 0 and ch.next_refresh[p] <= t:
                    ch.refreshing[p] = 1
                    ch.next_row = min(ch.next_row, t)
        _choose_mode(ch, k)
        if ch.next_column <= t and ch.column_free <= t and t & (step - 1) == 0:
            _column(ch, k, t)
            if recording:
                _record(ch, timeline, t)
            _choose_mode(ch, k)
        if ch.next_row <= t and ch.row_free <= t:
            _row(ch, k, t)
            if recording:
                _record(ch, timeline, t)


@compiled
def run(states, config, shown, timeline, order, ends, banks, rows, writes, arrivals, horizon):
    """Runs every channel; channels share nothing.  ``shown`` is the one whose commands are recorded."""
    nothing = timeline[:0]
    for c in range(states.shape[0]):
        _channel(
            states[c], config[0], timeline if c == shown else nothing, order[ends[c] : ends[c + 1]],
            banks, rows, writes, arrivals, horizon,
        )  # fmt: skip

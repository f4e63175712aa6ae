"""One warp: issue, divergence, calls, and what is counted.

Which lanes go on together, and when, is said in :mod:`gpusim.functional.groups`.

Counters: an instruction counts once for each group that issues it, with that group's lanes, whether or not
its guard holds (hardware.md 11). The profiler's source page is measured on patched code, which counts in
front of the instruction and so leaves out lanes that execute it a second time: these replays are counted
apart. Where more than one group is put off at a time, patched code can also take another course: lanes that
wait at a BSYNC are not where the others come to it, and the branches in the patch of a memory instruction put
the next group into the queue. Such launches are executed once more that way (``patched``).
"""

from __future__ import annotations

from gpusim.compiled import compiled
from gpusim.events import EVENT, Kind, Space
from gpusim.functional import layout as L
from gpusim.functional.groups import (
    ACTIVE,
    AGAIN,
    ALL,
    EXITED,
    PC,
    alive,
    barrier,
    give_way,
    is_slow,
    lanes_parked,
    meet_at_warpsync,
    next_group,
    park,
    park_behind,
    pass_barrier,
    put_off,
    queue_next,
    set_active,
    set_barrier,
)
from gpusim.functional.raw import call_handler, load32, load64, lowest_bit, popcount32, store32, store64

REPEATED = 8 * L.W_REPEATED
HANDLER, KIND, TARGET, IMM0, FIRST_OPERAND = L.O_HANDLER, L.O_KIND, L.O_TARGET, L.O_IMM0, L.O_OPERANDS
TICKS = 8 * L.W_TICKS

# where the fields of an event that is no access lie in its 64-bit words
assert EVENT.fields is not None
EVENT_BYTES, EVENT_ADDRESS = EVENT.itemsize, EVENT.fields["addresses"][1]
_FIELDS = ("cta", "pc", "mask", "parent", "warp", "space", "kind", "issued", "stalls")
assert [EVENT.fields[name][1] for name in _FIELDS] == [0, 4, 8, 12, 16, 20, 21, 24, 28]  # see `note`
NO_SPACE, BARRIER, EXIT = int(Space.NONE), int(Kind.BARRIER), int(Kind.EXIT)


@compiled
def same_lanes(row, lanes, value):
    """Those of ``lanes`` whose word in a row equals ``value`` (0 to 2^32 - 1)."""
    out = 0
    for i in range(32):
        if (lanes >> i) & 1 and (load32(row + 4 * i) & ALL) == value:
            out |= 1 << i
    return out


@compiled
def note(w, op, kind, request):
    """Append an event that is no access; False if there is no room."""
    context = load64(w + 8 * L.W_CONTEXT)
    if load64(context + 8 * L.C_TRACE) == 0:
        return True
    count = load64(context + 8 * L.C_EVENT_COUNT)
    if count >= load64(context + 8 * L.C_EVENT_CAP):
        return False
    at = load64(context + 8 * L.C_EVENTS) + EVENT_BYTES * count
    store32(at, load64(w + 8 * L.W_CTA))
    store32(at + 4, load32(op + L.O_PC))
    store64(at + 8, count << 32)
    store64(at + 16, load64(w + 8 * L.W_WARP) | NO_SPACE << 32 | kind << 40)
    store64(at + 24, load64(w + TICKS))
    store64(at + EVENT_ADDRESS, request)
    store64(context + 8 * L.C_EVENT_COUNT, count + 1)
    return True


@compiled
def control(w, op, pc, kind, lanes):
    """A control instruction; ``lanes``: what its handler returned. Returns next pc, or -1 - state."""
    mask = load64(w + ACTIVE)
    again = load64(w + REPEATED)
    store64(w + REPEATED, 0)
    if kind == L.K_BRA:
        target = load32(op + TARGET)
        if popcount32(lanes) < popcount32(mask & ~lanes):
            put_off(w, pc + 1, mask & ~lanes, 0)
            set_active(w, lanes)
            return target
        put_off(w, target, lanes, 0)
        set_active(w, mask & ~lanes)
        return pc + 1
    if kind == L.K_EXIT:
        store64(w + EXITED, load64(w + EXITED) | lanes)
        mask &= ~lanes
        if mask != 0:
            set_active(w, mask)
            return pc + 1
    elif kind == L.K_BSSY:
        register = load64(op + IMM0)
        others = barrier(w, register) & alive(w) & ~mask
        set_barrier(w, register, others | mask, 1 if others != 0 else 0)
        return pc + 1
    elif kind == L.K_BREAK:
        register = load64(op + IMM0)
        if lanes != 0:
            set_barrier(w, register, barrier(w, register) & ~lanes, is_slow(w, register))
        return pc + 1
    elif kind == L.K_BSYNC:
        register = load64(op + IMM0)
        if lanes != mask:  # a guarded BSYNC: the other lanes go on
            if lanes == 0:
                return pc + 1
            park_behind(w, pc, lanes, L.P_BSYNC + register)
            set_active(w, mask & ~lanes)
            return pc + 1
        members = barrier(w, register) & alive(w)
        waiting = lanes_parked(w, L.P_BSYNC + register, L.P_BSYNC + register)
        missing = members & ~mask & ~waiting
        if (members & ~mask) == 0:
            # those that execute it again have met already, unless lanes outside the barrier run on
            if is_slow(w, register) == 0 or (again != 0 and (alive(w) & ~members & ~again & ~waiting) == 0):
                set_barrier(w, register, 0, 0)
                return pc + 1
        if (missing & ~lanes_parked(w, L.P_YIELDED, L.P_YIELDED)) == 0:
            waiting &= members
            pass_barrier(w, register, pc, mask | waiting, 1 if missing != 0 and waiting != 0 else 0)
            return load64(w + PC)
        if (mask & members) != 0:
            park_behind(w, pc, mask & members, L.P_BSYNC + register)
        if (mask & ~members) != 0:
            set_active(w, mask & ~members)
            return pc + 1
    elif kind == L.K_WARPSYNC:
        if lanes == 0:
            return pc + 1
        # low half: lanes whose mask differs from the first one's; bit 32: COLLECTIVE, which keeps such
        # lanes apart
        request = load64(w + 8 * L.W_RESULT)
        row = w + load32(op + FIRST_OPERAND)
        wanted = lanes
        if (request >> 32) == 0:
            if request != 0:
                for lane in range(32):
                    if (mask >> lane) & 1:
                        wanted |= load32(row + 4 * lane) & ALL
            if (wanted & alive(w) & ~mask) == 0:
                return pc + 1
        if (request & ALL) != 0:
            wanted = load32(row + 4 * lowest_bit(mask)) & ALL
            same = same_lanes(row, mask, wanted)
            put_off(w, pc, mask & ~same, mask & ~same)
            set_active(w, same)
            mask = same
        else:
            wanted = lanes
        if (wanted & alive(w) & ~mask) == 0:
            return pc + 1
        park(w, pc, mask, L.P_WARPSYNC, wanted)
        if meet_at_warpsync(w, wanted):
            return load64(w + PC)
    elif kind == L.K_BAR:
        if lanes == 0:
            return pc + 1
        # barrier id | threads << 8 | arrive-only << 32 | reduction << 33 | votes << 40
        request = load64(w + 8 * L.W_RESULT)
        if (request >> 32) & 1:
            at = load64(w + 8 * L.W_CTA_STATE) + 8 * (request & 15)
            store64(at, load64(at) + 32)
            return pc + 1
        park(w, pc + 1, lanes, L.P_BAR, request)
        if lanes != mask:
            set_active(w, mask & ~lanes)
            return pc + 1
    state = next_group(w, 0)
    if state == L.S_READY:
        return load64(w + PC)
    return -1 - state


@compiled
def indirect(w, op, pc, lanes, n_ops):
    """RET, BRX, CALL through registers: lanes with one target go on, the others execute it again."""
    mask = load64(w + ACTIVE)
    store64(w + REPEATED, 0)
    row = w + load32(op + FIRST_OPERAND)
    base = load64(op + IMM0)
    if lanes != mask:
        put_off(w, pc + 1, mask & ~lanes, 0)
    value = load32(row + 4 * lowest_bit(lanes))
    some = same_lanes(row, lanes, value & ALL)
    rest = lanes & ~some
    if popcount32(some) > popcount32(rest) and rest != 0:
        value = load32(row + 4 * lowest_bit(rest))
        some = same_lanes(row, rest, value & ALL)
        rest = lanes & ~some
    target = value + base if value < 0 else (value & ALL) + base
    if target < 0 or (target & 15) != 0 or (target >> 4) >= n_ops:
        return -100
    if rest != 0:
        put_off(w, pc, rest, rest)
    if some != mask:
        set_active(w, some)
    return target >> 4


@compiled
def repeated(w, counts):
    """Take what the current group is about to execute again out of the source page's counts."""
    again = load64(w + AGAIN)
    if again != 0:
        at = counts + 32 * load64(w + PC)
        whole = 1 if again == load64(w + ACTIVE) else 0
        lanes = popcount32(again)
        store64(at, load64(at) - whole)
        store64(at + 8, load64(at + 8) - lanes)
        store64(at + 16, load64(at + 16) + whole)
        store64(at + 24, load64(at + 24) + lanes)
        store64(w + AGAIN, 0)
        store64(w + REPEATED, again)


@compiled
def run_warp(w, ops, n_ops, counts, quantum, fair):
    """Run a warp until it blocks, ends, faults, fills the event buffer or has issued ``quantum``.

    counts: address of (executions, lanes, replays, lanes of replays) of 64-bit integers, one an operation;
    fair: give way after the quantum, for kernels whose lanes wait for one another in loops of their own.
    Returns (R_* or R_DONE with the new state in W_STATE, instructions issued).
    """
    repeated(w, counts)
    pc = load64(w + PC)
    lanes = popcount32(load64(w + ACTIVE))
    ticks = load64(w + TICKS)
    issued = 0
    status = L.R_QUANTUM
    while issued < quantum:
        if pc >= n_ops:
            status = L.R_END
            break
        op = ops + pc * L.OPERATION
        kind = load32(op + KIND)
        store64(w + TICKS, ticks)
        result = call_handler(load64(op + HANDLER), w, op)
        if (kind == L.K_DATA or kind == L.K_MEMORY) and result != L.OK:
            status = L.R_EVENTS_FULL if result == L.EVENTS_FULL else L.R_FAULT
            break
        if (kind == L.K_BAR or kind == L.K_EXIT) and (result & ALL) != 0:
            what = BARRIER if kind == L.K_BAR else EXIT
            if not note(w, op, what, load64(w + 8 * L.W_RESULT) if kind == L.K_BAR else result & ALL):
                status = L.R_EVENTS_FULL
                break
        ticks += load64(op + L.O_TICKS)
        at = counts + 32 * pc
        store64(at, load64(at) + 1)
        store64(at + 8, load64(at + 8) + lanes)
        issued += 1
        if kind == L.K_DATA or kind == L.K_NOP:
            pc += 1
            continue
        if kind == L.K_MEMORY:
            queue_next(w)
            pc += 1
            continue
        if kind == L.K_BMOV:
            register = load64(op + IMM0)
            members = barrier(w, register)
            set_barrier(w, register, members, 1 if (members & alive(w)) != 0 else 0)
            pc += 1
            continue
        result &= ALL
        if kind == L.K_BRA:
            # the two uniform outcomes need no change of groups
            if result == 0:
                pc += 1
                continue
            if result == load64(w + ACTIVE):
                pc = load32(op + TARGET)
                continue
        elif kind == L.K_EXIT and result == 0:
            pc += 1
            continue
        if kind == L.K_TRAP:
            if result != 0:
                status = L.R_TRAP
                break
            pc += 1
            continue
        if kind == L.K_YIELD:
            give_way(w, pc + 1)
            repeated(w, counts)
            pc = load64(w + PC)
            lanes = popcount32(load64(w + ACTIVE))
            continue
        if kind == L.K_INDIRECT:
            if result == 0:
                pc += 1
                continue
            following = indirect(w, op, pc, result, n_ops)
            if following == -100:
                status = L.R_BAD_TARGET
                break
        else:
            following = control(w, op, pc, kind, result)
        if following < 0:
            store64(w + 8 * L.W_STATE, -1 - following)
            return L.R_DONE, issued
        repeated(w, counts)
        pc = following
        lanes = popcount32(load64(w + ACTIVE))
    if status == L.R_QUANTUM and fair:
        give_way(w, pc)
    else:
        store64(w + PC, pc)
    return status, issued

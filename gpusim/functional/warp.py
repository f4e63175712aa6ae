"""One warp: issue, divergence and reconvergence.

The lanes of a warp form convergent groups.  One group is current; the others are parked with the
operation they continue at and what they wait for.  The hardware's own instructions keep them together:
BSSY notes in a barrier register (here one value a lane, so that diverged groups can reuse the register)
which lanes must meet, BSYNC waits for them, BREAK takes lanes out, EXIT lets others stop waiting.
WARPSYNC waits for the lanes in its mask.

Counters: an instruction counts once for each group that issues it, with that group's lanes, whether or
not its guard holds (hardware.md 11).  An instruction that sends lanes to several places is one execution to
the profiler's source page, but is issued once for each place: these replays are counted apart.
"""

from __future__ import annotations

from gpusim.compiled import compiled
from gpusim.functional import layout as L
from gpusim.functional.raw import call_handler, load32, load64, lowest_bit, popcount32, store32, store64

ACTIVE, PC, GROUPS, EXITED = 8 * L.W_ACTIVE, 8 * L.W_PC, 8 * L.W_GROUPS, 8 * L.W_EXITED
REPLAYS = 8 * L.W_REPLAYS
PARKED, PARKED_BYTES = 8 * L.W_PARKED, 8 * L.PARKED_WORDS
ROW_BYTES, OP_BYTES = L.ROW, L.OPERATION
HANDLER, KIND, TARGET, IMM0, IMM1 = L.O_HANDLER, L.O_KIND, L.O_TARGET, L.O_IMM0, L.O_IMM1
ACTIVE_ROW, B_ROW, FIRST_OPERAND = L.ACTIVE_ROW, L.row(L.ROW_B), L.O_OPERANDS
ALL = 0xFFFFFFFF


@compiled(inline="always")
def set_active(w, mask):
    """Make ``mask`` the current group's lanes, as bits and as a row of 0 / -1."""
    store64(w + ACTIVE, mask)
    for lane in range(32):
        store32(w + ACTIVE_ROW + 4 * lane, -((mask >> lane) & 1))


@compiled
def park(w, pc, mask, why, expected):
    n = load64(w + GROUPS)
    at = w + PARKED + n * PARKED_BYTES
    store64(at, pc)
    store64(at + 8, mask)
    store64(at + 16, why)
    store64(at + 24, expected)
    store64(w + GROUPS, n + 1)


@compiled
def unpark(w, index):
    """Remove parked group ``index``, keeping the order of the others."""
    n = load64(w + GROUPS) - 1
    for i in range(index, n):
        for k in range(4):
            at = w + PARKED + i * PARKED_BYTES + 8 * k
            store64(at, load64(at + PARKED_BYTES))
    store64(w + GROUPS, n)


@compiled
def barrier_mask(w, register, mask):
    """The lanes that must meet at a convergence barrier, as the lanes in ``mask`` know it."""
    lane = lowest_bit(mask)
    return load32(w + B_ROW + register * ROW_BYTES + 4 * lane) & ALL


@compiled
def expectation(w, at):
    """The lanes a parked group waits for (exited ones included)."""
    why = load64(at + 16)
    if why == L.P_WARPSYNC:
        return load64(at + 24)
    return barrier_mask(w, why - L.P_BSYNC, load64(at + 8))


@compiled
def try_release(w):
    """Turn waiting groups whose lanes have all come into ready ones (merged where they meet).

    Groups belong together if they wait for the same lanes: a barrier register that a recursive call uses
    again names another meeting.
    """
    n = load64(w + GROUPS)
    exited = load64(w + EXITED)
    for i in range(n):
        at = w + PARKED + i * PARKED_BYTES
        why = load64(at + 16)
        if why < L.P_BSYNC and why != L.P_WARPSYNC:
            continue
        wanted = expectation(w, at)
        arrived = 0
        for j in range(n):
            other = w + PARKED + j * PARKED_BYTES
            if load64(other + 16) == why and expectation(w, other) == wanted:
                arrived |= load64(other + 8)
        if (wanted & ~exited & ALL & ~arrived) != 0:
            continue
        # all of them are here: those at the same place go on as one group
        for j in range(n):
            other = w + PARKED + j * PARKED_BYTES
            met = load64(other + 16) == why and (load64(other + 8) & ~arrived) == 0
            if met and expectation(w, other) == wanted:
                store64(other + 16, L.P_READY)
        j = 0
        while j < load64(w + GROUPS):
            first = w + PARKED + j * PARKED_BYTES
            if load64(first + 16) == L.P_READY and (load64(first + 8) & ~arrived) == 0:
                k = j + 1
                while k < load64(w + GROUPS):
                    other = w + PARKED + k * PARKED_BYTES
                    if (load64(other + 16) == L.P_READY and load64(other) == load64(first)
                            and (load64(other + 8) & ~arrived) == 0):
                        store64(first + 8, load64(first + 8) | load64(other + 8))
                        unpark(w, k)
                    else:
                        k += 1
            j += 1
        return True
    return False


@compiled
def next_group(w):
    """Choose the next group to run after the current one parked or ended; returns the warp's state."""
    while True:
        n = load64(w + GROUPS)
        if n == 0:
            store64(w + ACTIVE, 0)
            return L.S_DONE
        at_barrier = False
        for i in range(n):
            at = w + PARKED + i * PARKED_BYTES
            why = load64(at + 16)
            if why == L.P_READY:
                store64(w + PC, load64(at))
                set_active(w, load64(at + 8))
                unpark(w, i)
                return L.S_READY
            if why == L.P_BAR:
                at_barrier = True
        if not try_release(w):
            store64(w + ACTIVE, 0)
            return L.S_BLOCKED if at_barrier else L.S_STUCK


@compiled
def same_lanes(row, lanes, value):
    """Those of ``lanes`` whose word in a row equals ``value`` (0 to 2^32 - 1)."""
    out = 0
    for i in range(32):
        if (lanes >> i) & 1 and (load32(row + 4 * i) & ALL) == value:
            out |= 1 << i
    return out


@compiled
def replay(w, lanes):
    """Note one more issue of the current instruction, for the lanes the earlier ones did not serve."""
    store64(w + REPLAYS, load64(w + REPLAYS) + 1 + (popcount32(lanes) << 32))


@compiled
def rotate(w, pc):
    """Give another ready group its turn, so that lanes that wait for other lanes make progress."""
    if load64(w + GROUPS) > 0:
        park(w, pc, load64(w + ACTIVE), L.P_READY, 0)
        next_group(w)
    else:
        store64(w + PC, pc)


@compiled
def control(w, op, pc, kind, lanes):
    """A control instruction; ``lanes``: what its handler returned. Returns next pc, or -1 - state."""
    mask = load64(w + ACTIVE)
    if kind == L.K_BRA:
        target = load32(op + TARGET)
        park(w, target, lanes, L.P_READY, 0)
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
        for lane in range(32):
            if (mask >> lane) & 1:
                store32(w + B_ROW + register * ROW_BYTES + 4 * lane, mask)
        return pc + 1
    elif kind == L.K_BREAK:
        register = load64(op + IMM0)
        if lanes != 0:
            members = barrier_mask(w, register, lanes)
            for lane in range(32):
                if (members >> lane) & 1:
                    at = w + B_ROW + register * ROW_BYTES + 4 * lane
                    store32(at, load32(at) & ~lanes)
        return pc + 1
    elif kind == L.K_BSYNC:
        register = load64(op + IMM0)
        if lanes != mask:  # a guarded BSYNC: the other lanes go on
            if lanes == 0:
                return pc + 1
            park(w, pc + 1, lanes, L.P_BSYNC + register, 0)
            set_active(w, mask & ~lanes)
            return pc + 1
        expected = barrier_mask(w, register, mask) & ~load64(w + EXITED) & ALL
        if (expected & ~mask) == 0:
            return pc + 1
        park(w, pc + 1, mask, L.P_BSYNC + register, 0)
        try_release(w)
    elif kind == L.K_WARPSYNC:
        if lanes == 0:
            return pc + 1
        # low half: lanes whose mask differs from the first one's; bit 32: COLLECTIVE, which keeps such
        # lanes apart
        request = load64(w + 8 * L.W_RESULT)
        row = w + load32(op + FIRST_OPERAND)
        wanted = lanes
        if request != 0 and (request >> 32) == 0:
            for lane in range(32):
                if (mask >> lane) & 1:
                    wanted |= load32(row + 4 * lane) & ALL
        if (request & ALL) == 0 or (request >> 32) == 0:
            if (wanted & ~load64(w + EXITED) & ALL & ~mask) == 0:
                return pc + 1
        if (request & ALL) == 0:
            park(w, pc + 1, mask, L.P_WARPSYNC, lanes)
        else:
            left = mask
            while left != 0:
                wanted = load32(row + 4 * lowest_bit(left)) & ALL
                same = same_lanes(row, left, wanted)
                park(w, pc + 1, same, L.P_WARPSYNC, wanted)
                left &= ~same
                if left != 0:
                    replay(w, left)
        try_release(w)
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
    state = next_group(w)
    if state == L.S_READY:
        return load64(w + PC)
    return -1 - state


@compiled
def indirect(w, op, pc, lanes, n_ops):
    """RET, BRX, CALL through registers: one issue splits the group by target; the first lane's goes first."""
    mask = load64(w + ACTIVE)
    row = w + load32(op + FIRST_OPERAND)
    base = load64(op + IMM0)
    idle = mask & ~lanes
    if idle != 0:
        park(w, pc + 1, idle, L.P_READY, 0)
    first = -1
    left = lanes
    while left != 0:
        value = load32(row + 4 * lowest_bit(left))
        same = same_lanes(row, left, value & ALL)
        left &= ~same
        target = value + base if value < 0 else (value & ALL) + base
        if target < 0 or (target & 15) != 0 or (target >> 4) >= n_ops:
            return -100
        if first < 0:
            first = target >> 4
            if same != mask:
                set_active(w, same)
        else:
            park(w, target >> 4, same, L.P_READY, 0)
        if left != 0:
            replay(w, left)
    return first


@compiled
def run_warp(w, ops, n_ops, counts, quantum, context):
    """Run a warp until it blocks, ends, faults, fills the event buffer or has issued ``quantum``.

    counts: address of (executions, lanes, replays, lanes of replays) of 64-bit integers, one an operation.
    Returns (R_* or R_DONE with the new state in W_STATE, instructions issued).
    """
    pc = load64(w + PC)
    lanes = popcount32(load64(w + ACTIVE))
    issued = 0
    status = L.R_QUANTUM
    while issued < quantum:
        if pc >= n_ops:
            status = L.R_END
            break
        op = ops + pc * OP_BYTES
        kind = load32(op + KIND)
        result = call_handler(load64(op + HANDLER), w, op)
        if kind == L.K_DATA and result != L.OK:
            status = L.R_EVENTS_FULL if result == L.EVENTS_FULL else L.R_FAULT
            break
        at = counts + 32 * pc
        store64(at, load64(at) + 1)
        store64(at + 8, load64(at + 8) + lanes)
        issued += 1
        if kind == L.K_DATA or kind == L.K_NOP:
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
            rotate(w, pc + 1)
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
        replays = load64(w + REPLAYS)
        if replays != 0:
            store64(at + 16, load64(at + 16) + (replays & ALL))
            store64(at + 24, load64(at + 24) + (replays >> 32))
            store64(w + REPLAYS, 0)
        if following < 0:
            store64(w + 8 * L.W_STATE, -1 - following)
            return L.R_DONE, issued
        pc = following
        lanes = popcount32(load64(w + ACTIVE))
    if status == L.R_QUANTUM:
        rotate(w, pc)
    else:
        store64(w + PC, pc)
    return status, issued

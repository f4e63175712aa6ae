"""One warp: issue, divergence and reconvergence.

The lanes of a warp form convergent groups.  One group is current; the others are parked with the operation they
continue at and what they wait for.  The hardware's own instructions keep them together: BSSY notes in a barrier
register of the warp which lanes must meet, BSYNC waits for them, BREAK takes lanes out, EXIT lets others stop
waiting.  WARPSYNC waits for the lanes in its mask.

Who goes on when lanes part was measured (docs/rules.md, "Diverged warps"; measurements/h200/divergence.json.xz):

* At a branch the side with fewer lanes goes on, at a tie the side that falls through; at an indirect branch the
  lanes that go where the lowest lane goes or, if those are more than half, where the lowest of the others goes.
* The rest is put off.  When the current group has to wait or ends, the group put off last goes on, alone.  Those
  put off before it stand in a queue: last in, first out.  A group taken from the queue takes all others with it
  that are at the same instruction, those that wait there at a BSYNC too: they execute it again.
* Groups that wait at a BSYNC, and groups that execute YIELD, stand at the queue's other end.  BSYNC does not wait
  for lanes that yielded.  A waiting group that is at the front before its barrier is complete passes.
* Lanes that a barrier does not name pass it.  Those that it names go on together when the last of them comes; but
  where a BMOV wrote its register, or two BSSY did, they execute BSYNC once more.

Counters: an instruction counts once for each group that issues it, with that group's lanes, whether or not its
guard holds (hardware.md 11).  The profiler's source page is measured on patched code, which counts in front of the
instruction and so leaves out lanes that execute it a second time: these replays are counted apart.  Where more
than one group is put off at a time, patched code can also take another course: lanes that wait at a BSYNC are
not where the others come to it, and the branches in the patch of a memory instruction put the next group into the
queue.  Such launches are executed once more that way (``patched``).
"""

from __future__ import annotations

from gpusim.compiled import compiled
from gpusim.functional import layout as L
from gpusim.functional.raw import call_handler, load32, load64, lowest_bit, popcount32, store32, store64

ACTIVE, PC, GROUPS, EXITED = 8 * L.W_ACTIVE, 8 * L.W_PC, 8 * L.W_GROUPS, 8 * L.W_EXITED
AGAIN, REPEATED, SLOW = 8 * L.W_AGAIN, 8 * L.W_REPEATED, 8 * L.W_SLOW
PATCHED = 8 * L.W_PATCHED
PARKED, PARKED_BYTES = 8 * L.W_PARKED, 8 * L.PARKED_WORDS
# of a parked group
P_PC, P_MASK, P_WHY, P_EXTRA = 0, 8, 16, 24
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


@compiled(inline="always")
def parked(w, index):
    return w + PARKED + index * PARKED_BYTES


@compiled
def write_group(at, pc, mask, why, extra):
    store64(at + P_PC, pc)
    store64(at + P_MASK, mask)
    store64(at + P_WHY, why)
    store64(at + P_EXTRA, extra)


@compiled
def park(w, pc, mask, why, extra):
    """At the front of the queue.

    extra: WARPSYNC: the lanes to wait for; BAR: its request; otherwise the lanes that execute ``pc`` again.
    """
    n = load64(w + GROUPS)
    write_group(parked(w, n), pc, mask, why, extra)
    store64(w + GROUPS, n + 1)


@compiled
def park_behind(w, pc, mask, why):
    """At the back of the queue."""
    n = load64(w + GROUPS)
    for i in range(n, 0, -1):
        for k in range(4):
            at = parked(w, i) + 8 * k
            store64(at, load64(at - PARKED_BYTES))
    write_group(parked(w, 0), pc, mask, why, 0)
    store64(w + GROUPS, n + 1)


@compiled
def unpark(w, index):
    """Remove parked group ``index``, keeping the order of the others."""
    n = load64(w + GROUPS) - 1
    for i in range(index, n):
        for k in range(4):
            at = parked(w, i) + 8 * k
            store64(at, load64(at + PARKED_BYTES))
    store64(w + GROUPS, n)


@compiled
def queue_next(w):
    """The group put off last joins the queue."""
    for i in range(load64(w + GROUPS)):
        if load64(parked(w, i) + P_WHY) == L.P_NEXT:
            store64(parked(w, i) + P_WHY, L.P_READY)
            store64(load64(w + 8 * L.W_CONTEXT) + 8 * L.C_QUEUED, 1)


@compiled
def put_off(w, pc, mask, again):
    """Park a group that goes on once the current one cannot; the one put off before it joins the queue."""
    queue_next(w)
    park(w, pc, mask, L.P_NEXT, again)


@compiled
def resume(w, pc, mask, again):
    store64(w + PC, pc)
    set_active(w, mask)
    store64(w + AGAIN, again)


@compiled
def alive(w):
    return ~load64(w + EXITED) & ALL


@compiled
def barrier(w, register):
    """The lanes that must meet at a convergence barrier, exited ones included."""
    return load32(w + B_ROW + register * ROW_BYTES) & ALL


@compiled
def set_barrier(w, register, members, slow):
    """slow: lanes that have met execute BSYNC once more."""
    for lane in range(32):
        store32(w + B_ROW + register * ROW_BYTES + 4 * lane, members)
    store64(w + SLOW, (load64(w + SLOW) & ~(1 << register)) | (slow << register))


@compiled
def is_slow(w, register):
    return (load64(w + SLOW) >> register) & 1


@compiled
def lanes_parked(w, first, last):
    """Lanes of the groups parked for a reason in a range."""
    mask = 0
    for i in range(load64(w + GROUPS)):
        why = load64(parked(w, i) + P_WHY)
        if first <= why <= last:
            mask |= load64(parked(w, i) + P_MASK)
    return mask


@compiled
def pass_barrier(w, register, pc, met, slow):
    """Clear a barrier; those of ``met`` at ``pc`` go on, past it or once more (slow), the others once more later.

    ``met`` holds the current group's lanes, if it is not parked, and waiting ones.
    """
    here, i = met, 0
    slow |= is_slow(w, register)
    while i < load64(w + GROUPS):
        at = parked(w, i)
        mask = load64(at + P_MASK)
        if load64(at + P_WHY) != L.P_BSYNC + register or (mask & met) == 0:
            i += 1
        elif load64(at + P_PC) == pc:
            if (mask & ~met) == 0:
                unpark(w, i)
            else:  # lanes of another meeting at the same register, after a call
                store64(at + P_MASK, mask & ~met)
                i += 1
        else:
            here &= ~mask
            slow = 1
            store64(at + P_WHY, L.P_READY)
            store64(at + P_EXTRA, mask)
            i += 1
    set_barrier(w, register, 0, 0)
    if slow:
        resume(w, pc, here, here)
    else:
        resume(w, pc + 1, here, 0)


@compiled
def gather(w, index):
    """Go on with every group that is ready where group ``index`` is; lanes that wait there execute BSYNC again.

    In the profiler's patched code, lanes that executed an instruction are behind the patch, the others in front.
    """
    pc, patched = load64(parked(w, index) + P_PC), load64(w + PATCHED)
    first = load64(parked(w, index) + P_WHY) >= L.P_BSYNC or load64(parked(w, index) + P_EXTRA) != 0
    mask, again, i = 0, 0, 0
    while i < load64(w + GROUPS):
        at = parked(w, i)
        why = load64(at + P_WHY)
        ready = why == L.P_READY or why == L.P_YIELDED
        behind = why >= L.P_BSYNC or (ready and load64(at + P_EXTRA) != 0)
        if load64(at + P_PC) == pc and (ready or why >= L.P_BSYNC) and (patched == 0 or behind == first):
            mask |= load64(at + P_MASK)
            again |= load64(at + P_MASK) if why >= L.P_BSYNC else load64(at + P_EXTRA)
            unpark(w, i)
        else:
            i += 1
    resume(w, pc, mask, again)


@compiled
def meet_at_warpsync(w, wanted):
    """Let the lanes that wait for ``wanted`` at WARPSYNC go on, if all have come."""
    met, pc = 0, -1
    for i in range(load64(w + GROUPS)):
        at = parked(w, i)
        if load64(at + P_WHY) == L.P_WARPSYNC and load64(at + P_EXTRA) == wanted:
            met |= load64(at + P_MASK)
            pc = load64(at + P_PC)
    if (wanted & alive(w) & ~met) != 0:
        return False
    here, i = 0, 0
    while i < load64(w + GROUPS):
        at = parked(w, i)
        if load64(at + P_WHY) != L.P_WARPSYNC or load64(at + P_EXTRA) != wanted:
            i += 1
        elif load64(at + P_PC) == pc:
            here |= load64(at + P_MASK)
            unpark(w, i)
        else:
            write_group(at, load64(at + P_PC) + 1, load64(at + P_MASK), L.P_READY, 0)
            i += 1
    resume(w, pc + 1, here, 0)
    return True


@compiled
def meet(w):
    """Let lanes go on that all have met because the others ended; False if there are none."""
    for i in range(load64(w + GROUPS) - 1, -1, -1):
        at = parked(w, i)
        why = load64(at + P_WHY)
        if why == L.P_WARPSYNC:
            if meet_at_warpsync(w, load64(at + P_EXTRA)):
                return True
        elif why >= L.P_BSYNC:
            members = barrier(w, why - L.P_BSYNC) & alive(w)
            waiting = lanes_parked(w, why, why)
            if (members & waiting) != 0 and (members & ~waiting) == 0:
                pass_barrier(w, why - L.P_BSYNC, load64(at + P_PC), members, 0)
                return True
    return False


@compiled
def next_group(w):
    """Choose the group that goes on after the current one parked or ended; returns the warp's state."""
    n = load64(w + GROUPS)
    if n == 0:
        store64(w + ACTIVE, 0)
        return L.S_DONE
    for i in range(n):
        at = parked(w, i)
        if load64(at + P_WHY) == L.P_NEXT:
            resume(w, load64(at + P_PC), load64(at + P_MASK), load64(at + P_EXTRA))
            unpark(w, i)
            return L.S_READY
    stopped = lanes_parked(w, L.P_WARPSYNC, L.P_BAR)
    for i in range(n - 1, -1, -1):
        at = parked(w, i)
        why = load64(at + P_WHY)
        if why == L.P_READY or why == L.P_YIELDED:
            gather(w, i)
            return L.S_READY
        if why >= L.P_BSYNC:
            if meet(w):
                return L.S_READY
            members = barrier(w, why - L.P_BSYNC) & alive(w)
            if (members & stopped) == 0:
                set_barrier(w, why - L.P_BSYNC, 0, 0)
                gather(w, i)
                return L.S_READY
    if meet(w):
        return L.S_READY
    store64(w + ACTIVE, 0)
    return L.S_BLOCKED if lanes_parked(w, L.P_BAR, L.P_BAR) != 0 else L.S_STUCK


@compiled
def give_way(w, pc):
    if load64(w + GROUPS) == 0:
        store64(w + PC, pc)
    else:
        store64(load64(w + 8 * L.W_CONTEXT) + 8 * L.C_QUEUED, 1)
        park_behind(w, pc, load64(w + ACTIVE), L.P_YIELDED)
        next_group(w)


@compiled
def same_lanes(row, lanes, value):
    """Those of ``lanes`` whose word in a row equals ``value`` (0 to 2^32 - 1)."""
    out = 0
    for i in range(32):
        if (lanes >> i) & 1 and (load32(row + 4 * i) & ALL) == value:
            out |= 1 << i
    return out


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
    state = next_group(w)
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
    issued = 0
    status = L.R_QUANTUM
    while issued < quantum:
        if pc >= n_ops:
            status = L.R_END
            break
        op = ops + pc * OP_BYTES
        kind = load32(op + KIND)
        result = call_handler(load64(op + HANDLER), w, op)
        if (kind == L.K_DATA or kind == L.K_MEMORY) and result != L.OK:
            status = L.R_EVENTS_FULL if result == L.EVENTS_FULL else L.R_FAULT
            break
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

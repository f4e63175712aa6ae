"""Convergent groups of one warp: the current one, those put off, those that wait.

The lanes of a warp form convergent groups. One group is current; the others are parked with the operation
they continue at and what they wait for. The hardware's own instructions keep them together: BSSY notes in a
barrier register of the warp which lanes must meet, BSYNC waits for them, BREAK takes lanes out, EXIT lets
others stop waiting. WARPSYNC waits for the lanes in its mask.

Who goes on when lanes part was measured (docs/rules.md, "Diverged warps";
measurements/h200/divergence.json.xz):

* At a branch the side with fewer lanes goes on, at a tie the side that falls through; at an indirect branch
  the lanes that go where the lowest lane goes or, if those are more than half, where the lowest of the others
  goes.
* The rest is put off. When the current group has to wait or ends, the group put off last goes on, alone.
  Those put off before it stand in a queue: last in, first out. A group taken from the queue takes all others
  with it that are at the same instruction, those that wait there at a BSYNC too: they execute it again.
* Groups that wait at a BSYNC, and groups that execute YIELD, stand at the queue's other end; those that
  yielded take turns by lane. BSYNC does not wait for them. A waiting group that is at the front before its
  barrier is complete passes.
* Lanes that a barrier does not name pass it. Those that it names go on together when the last of them comes;
  but where a BMOV wrote its register, or two BSSY did, they execute BSYNC once more.
"""

from __future__ import annotations

from gpusim.compiled import compiled
from gpusim.functional import layout as L
from gpusim.functional.raw import load32, load64, store32, store64

ACTIVE, PC, GROUPS, EXITED = 8 * L.W_ACTIVE, 8 * L.W_PC, 8 * L.W_GROUPS, 8 * L.W_EXITED
AGAIN, SLOW, PATCHED, TURN = 8 * L.W_AGAIN, 8 * L.W_SLOW, 8 * L.W_PATCHED, 8 * L.W_TURN
PARKED, PARKED_BYTES = 8 * L.W_PARKED, 8 * L.PARKED_WORDS
# of a parked group
P_PC, P_MASK, P_WHY, P_EXTRA = 0, 8, 16, 24
ACTIVE_ROW, B_ROW = L.ACTIVE_ROW, L.row(L.ROW_B)
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
    return load32(w + B_ROW + register * L.ROW) & ALL


@compiled
def set_barrier(w, register, members, slow):
    """slow: lanes that have met execute BSYNC once more."""
    for lane in range(32):
        store32(w + B_ROW + register * L.ROW + 4 * lane, members)
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
    """Clear a barrier: those of ``met`` at ``pc`` go on, past it or (slow) once more, others once more later.

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
            write_group(at, load64(at + P_PC), mask & met, L.P_READY, mask & met)
            i += 1
            if (mask & ~met) != 0:
                park_behind(w, load64(at + P_PC), mask & ~met, L.P_BSYNC + register)
                i += 1
    set_barrier(w, register, 0, 0)
    if slow:
        resume(w, pc, here, here)
    else:
        resume(w, pc + 1, here, 0)


@compiled
def gather(w, index):
    """Go on with all groups that are ready where group ``index`` is; lanes that wait there do BSYNC again.

    In the profiler's patched code, lanes that executed an instruction are behind the patch, others in front.
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
def whose_turn(w, just):
    """Index of one of the groups that yielded: by lanes in turn, the one that did ``just`` now excepted."""
    lanes = lanes_parked(w, L.P_YIELDED, L.P_YIELDED)
    if (lanes & ~just) != 0:
        lanes &= ~just
    lane = load64(w + TURN)
    while (lanes >> lane) & 1 == 0:
        lane = (lane + 1) & 31
    store64(w + TURN, (lane + 1) & 31)
    for i in range(load64(w + GROUPS)):
        at = parked(w, i)
        if load64(at + P_WHY) == L.P_YIELDED and (load64(at + P_MASK) >> lane) & 1:
            return i
    return -1


@compiled
def next_group(w, just):
    """Choose the group that goes on after the current one parked or ended; returns the warp's state.

    just: lanes that yielded now.
    """
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
            gather(w, i if why == L.P_READY else whose_turn(w, just))
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
        store64(load64(w + 8 * L.W_CONTEXT) + 8 * L.C_YIELDED, 1)
        mask = load64(w + ACTIVE)
        park_behind(w, pc, mask, L.P_YIELDED)
        next_group(w, mask)

"""Thread blocks: barriers between warps, and the CTAs a worker runs at once.

A worker owns slots; a slot holds the warps and shared memory of one CTA.  Ready warps run in turn until
they block or have issued a quantum; slots run in turn too, so CTAs that wait for one another (grid
barriers, look-back) make progress when there are as many slots as CTAs resident together.

A barrier opens when every lane of the CTA that has not exited waits at it, or, if the instruction names
a number of threads, when that many have arrived (a warp counts as 32).
"""

from __future__ import annotations

from gpusim.compiled import compiled
from gpusim.functional import layout as L
from gpusim.functional.groups import (
    ALL,
    EXITED,
    GROUPS,
    P_EXTRA,
    P_MASK,
    P_WHY,
    PC,
    next_group,
    parked,
    set_active,
)
from gpusim.functional.raw import load64, popcount32, store32, store64
from gpusim.functional.warp import run_warp

# columns of the slot table (int64)
SLOT_CTA, SLOT_LIVE, SLOT_SHARED, SLOT_WARPS, SLOT_LOCAL, SLOT_STATE = 0, 1, 2, 3, 4, 5
SLOT_COLUMNS = 8

# launch parameters (int64 vector)
(Q_WARPS, Q_WARP_BYTES, Q_SHARED_BYTES, Q_REGISTERS, Q_OPS, Q_N_OPS, Q_LAST_LANES, Q_GRID_X, Q_GRID_Y,
 Q_LOCAL_BYTES, Q_QUANTUM, Q_BUDGET, Q_POOL, Q_FAIR, Q_PATCHED) = range(15)
Q_WORDS = 16

# progress of a worker (int64 vector)
# M_USED: what the warp that filled the event buffer had issued of its quantum: draining changes no order
M_NEXT, M_ISSUED, M_SLOT, M_FINISHED, M_IDLE, M_WARP, M_USED = range(7)
M_WORDS = 8

STATE = 8 * L.W_STATE
CTAID_X, CTAID_Y, CTAID_Z = L.row(L.ROW_CTAID_X), L.row(L.ROW_CTAID_Y), L.row(L.ROW_CTAID_Z)
PREDICATES, PREDICATE_WORDS = L.row(L.ROW_P), 16 * (L.ROW_LANE - L.ROW_P)
REGISTERS = L.row(L.ROW_R)


@compiled
def start_cta(slots, s, cta, q, context):
    """Reset a slot for a CTA: headers, predicates, registers, shared memory (all zero)."""
    slots[s, SLOT_CTA] = cta
    slots[s, SLOT_LIVE] = q[Q_WARPS]
    shared = slots[s, SLOT_SHARED]
    for i in range(q[Q_SHARED_BYTES] // 8):
        store64(shared + 8 * i, 0)
    for i in range(16):
        store64(slots[s, SLOT_STATE] + 8 * i, 0)
    x = cta % q[Q_GRID_X]
    y = (cta // q[Q_GRID_X]) % q[Q_GRID_Y]
    z = cta // (q[Q_GRID_X] * q[Q_GRID_Y])
    for k in range(q[Q_WARPS]):
        w = slots[s, SLOT_WARPS] + k * q[Q_WARP_BYTES]
        lanes = q[Q_LAST_LANES] if k == q[Q_WARPS] - 1 else ALL
        store64(w + EXITED, ~lanes & ALL)
        store64(w + GROUPS, 0)
        store64(w + 8 * L.W_AGAIN, 0)
        store64(w + 8 * L.W_REPEATED, 0)
        store64(w + 8 * L.W_SLOW, 0)
        store64(w + 8 * L.W_TURN, 0)
        store64(w + 8 * L.W_TICKS, 0)
        store64(w + 8 * L.W_PATCHED, q[Q_PATCHED])
        store64(w + PC, 0)
        store64(w + STATE, L.S_READY)
        store64(w + 8 * L.W_POOL, q[Q_POOL])
        store64(w + 8 * L.W_CONTEXT, context)
        store64(w + 8 * L.W_SHARED, shared)
        store64(w + 8 * L.W_SHARED_SIZE, q[Q_SHARED_BYTES])
        store64(w + 8 * L.W_LOCAL, slots[s, SLOT_LOCAL] + k * 32 * q[Q_LOCAL_BYTES])
        store64(w + 8 * L.W_LOCAL_SIZE, q[Q_LOCAL_BYTES])
        store64(w + 8 * L.W_WARP, k)
        store64(w + 8 * L.W_CTA, cta)
        store64(w + 8 * L.W_CTA_STATE, slots[s, SLOT_STATE])
        set_active(w, lanes)
        for lane in range(32):
            store32(w + CTAID_X + 4 * lane, x)
            store32(w + CTAID_Y + 4 * lane, y)
            store32(w + CTAID_Z + 4 * lane, z)
        for i in range(PREDICATE_WORDS):
            store64(w + PREDICATES + 8 * i, 0)
        for i in range(16 * q[Q_REGISTERS]):
            store64(w + REGISTERS + 8 * i, 0)
        local = load64(w + 8 * L.W_LOCAL)
        for i in range(4 * q[Q_LOCAL_BYTES]):
            store64(local + 8 * i, 0)


@compiled
def waiting_at(w, barrier):
    """Lanes of a warp parked at a barrier, and the request of one of them (-1: none)."""
    mask, request = 0, -1
    for i in range(load64(w + GROUPS)):
        at = parked(w, i)
        if load64(at + P_WHY) == L.P_BAR and (load64(at + P_EXTRA) & 15) == barrier:
            mask |= load64(at + P_MASK)
            request = load64(at + P_EXTRA)
    return mask, request


@compiled
def open_barriers(slots, s, q):
    """Release every barrier of the slot's CTA that is complete; True if one was."""
    opened = False
    for barrier in range(16):
        complete, threads, arrived, votes, voters, reduction = True, 0, 0, 0, 0, 0
        for k in range(q[Q_WARPS]):
            w = slots[s, SLOT_WARPS] + k * q[Q_WARP_BYTES]
            alive = ~load64(w + EXITED) & ALL
            if alive == 0:
                continue
            mask, request = waiting_at(w, barrier)
            if request >= 0:
                threads = (request >> 8) & 0xFFFFFF
                reduction = (request >> 33) & 3
                for i in range(load64(w + GROUPS)):
                    at = parked(w, i)
                    if load64(at + P_WHY) == L.P_BAR and (load64(at + P_EXTRA) & 15) == barrier:
                        votes += load64(at + P_EXTRA) >> 40
            voters += popcount32(mask)
            if (alive & ~mask) == 0:
                arrived += 32
            else:
                complete = False
        if voters == 0:
            continue
        state = slots[s, SLOT_STATE] + 8 * barrier
        if threads != 0:
            complete = arrived + load64(state) >= threads
        if not complete:
            continue
        store64(state, 0)
        opened = True
        result = votes
        if reduction == 1:
            result = ALL if votes > 0 else 0
        elif reduction == 2:
            result = ALL if votes == voters else 0
        for k in range(q[Q_WARPS]):
            w = slots[s, SLOT_WARPS] + k * q[Q_WARP_BYTES]
            mask, request = waiting_at(w, barrier)
            if request < 0 or (threads != 0 and (~load64(w + EXITED) & ALL & ~mask) != 0):
                continue
            i = 0
            while i < load64(w + GROUPS):
                at = parked(w, i)
                if load64(at + P_WHY) == L.P_BAR and (load64(at + P_EXTRA) & 15) == barrier:
                    store64(at + P_WHY, L.P_READY)
                    store64(at + P_EXTRA, 0)
                i += 1
            store64(w + 8 * L.W_RESULT, result)
            if load64(w + STATE) != L.S_READY:
                store64(w + STATE, next_group(w, 0))
    return opened


@compiled
def run_slot(slots, s, q, counts, context, progress):
    """One turn of a CTA: each ready warp runs once. Returns R_QUANTUM, or what stopped it."""
    moved = False
    first = progress[M_WARP]
    progress[M_WARP] = 0
    for k in range(first, q[Q_WARPS]):
        w = slots[s, SLOT_WARPS] + k * q[Q_WARP_BYTES]
        if load64(w + STATE) != L.S_READY:
            continue
        status, issued = run_warp(w, q[Q_OPS], q[Q_N_OPS], counts, q[Q_QUANTUM] - progress[M_USED], q[Q_FAIR])
        progress[M_ISSUED] += issued
        progress[M_IDLE] += issued
        store64(context + 8 * L.C_CLOCK, progress[M_ISSUED])
        moved = moved or issued > 0
        if status == L.R_EVENTS_FULL:
            progress[M_WARP] = k
            progress[M_USED] += issued
            return status
        progress[M_USED] = 0
        if status != L.R_QUANTUM and status != L.R_DONE:
            store64(context + 8 * L.C_ERROR_WARP, w)
            return status
        if load64(w + STATE) == L.S_DONE:
            slots[s, SLOT_LIVE] -= 1
        if progress[M_IDLE] > q[Q_BUDGET]:
            store64(context + 8 * L.C_ERROR_WARP, w)
            return L.R_BUDGET
    if slots[s, SLOT_LIVE] == 0:
        return L.R_DONE
    if open_barriers(slots, s, q):
        moved = True
    if not moved and first == 0:
        ready = False
        for k in range(q[Q_WARPS]):
            w = slots[s, SLOT_WARPS] + k * q[Q_WARP_BYTES]
            if load64(w + STATE) == L.S_READY:
                ready = True
        if not ready:
            return L.R_DEADLOCK
    return L.R_QUANTUM


@compiled
def run_ctas(slots, ctas, q, counts, context, progress):
    """Run the CTAs of a list through the slots until done, or until something needs attention.

    Call again after draining events.  progress[M_FINISHED] counts finished CTAs, progress[M_IDLE] the
    instructions since one last finished (the budget bounds it).
    """
    n_slots = slots.shape[0]
    for s in range(n_slots):
        if slots[s, SLOT_CTA] < 0 and progress[M_NEXT] < ctas.size:
            start_cta(slots, s, ctas[progress[M_NEXT]], q, context)
            progress[M_NEXT] += 1
    while True:
        s = progress[M_SLOT]
        if slots[s, SLOT_CTA] >= 0:
            status = run_slot(slots, s, q, counts, context, progress)
            if status == L.R_DONE:
                progress[M_FINISHED] += 1
                progress[M_IDLE] = 0
                slots[s, SLOT_CTA] = -1
                if progress[M_NEXT] < ctas.size:
                    start_cta(slots, s, ctas[progress[M_NEXT]], q, context)
                    progress[M_NEXT] += 1
                elif progress[M_FINISHED] == ctas.size:
                    return L.R_DONE
            elif status != L.R_QUANTUM:
                return status
        progress[M_SLOT] = (s + 1) % n_slots

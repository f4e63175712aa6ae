"""L1, the merging stage, L2 and the way to DRAM: what a launch's records make of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpusim.memory.hierarchy_loop import L1_WORDS, L2_WORDS, MERGE_SLOTS, MERGE_WORDS, PARAMETERS, STORE_WORDS
from gpusim.memory.replay import SLOT_WORDS, WARP_WORDS

GPC_SMS = (16, 16, 16, 16, 16, 18, 16, 18)
GPC_SIDES = (0, 0, 1, 1, 1, 0, 1, 0)


def placement(ctas: int, slots: int) -> NDArray[np.int64]:
    """SM of each CTA that starts at once (SMs numbered GPC after GPC)."""
    first = np.cumsum((0, *GPC_SMS))
    groups = [list(range(0, 8))] + [list(range(first[g], first[g + 1])) for g in range(1, 8)] + [list(range(8, 16))]
    sms = first[-1]
    out = []
    while len(out) < min(ctas, sms * slots):
        rest = min(ctas - len(out), sms)
        take = [0] * len(groups)
        take[0] = min(rest, 8)
        rest -= take[0]
        while rest:
            for k in range(1, len(groups)):
                if rest and take[k] < len(groups[k]):
                    take[k] += 1
                    rest -= 1
        for n, group in zip(take, groups):
            # one SM of each TPC before the second
            pairs = -(-len(group) // 2)
            chosen = sorted((group[::2] + group[1::2])[:n])
            out += chosen
    return np.array(out, np.int64)


def machine(l1_bytes: int, slots: int, warps: int, **over: int) -> NDArray[np.int64]:
    sets = (l1_bytes // 128 * 27 // 28 // 4 - 1) | 1
    values = dict(SMS=132, SLOTS=slots, WARPS=warps, STEP=32, L1_SETS=sets, L1_WAYS=4, L2_SIDES=2, L2_SETS=15359,
                  L2_WAYS=16, L2_DIRTY_WAYS=7, MERGE=4, COMBINE=20, COMBINE_CYCLES=60, L1_LATENCY=38, L2_LATENCY=275,
                  FAR_LATENCY=165, DRAM_LATENCY=260, MERGE_RETURN=210, MERGE_EARLY=16, QUEUE=64, LAUNCH_TICKS=400,
                  RELAUNCH_CYCLES=200, FAR_AGE=80000, FETCH=2, JITTER=40, FILL_TICKS=115, L2_TICKS=round(32 * 256 / 4600),
                  DRAM_TICKS=round(32 * 256 / 2236))
    values |= over
    gpcs = len(GPC_SMS)
    sms = values["SMS"]
    at = len(PARAMETERS)
    for name, size in (("AT_GPC", sms), ("AT_SIDE", gpcs), ("AT_L1", sms * values["L1_SETS"] * values["L1_WAYS"] * L1_WORDS),
                       ("AT_L2", values["L2_SIDES"] * values["L2_SETS"] * values["L2_WAYS"] * L2_WORDS),
                       ("AT_MERGE", gpcs * MERGE_SLOTS * MERGE_WORDS), ("AT_STORE", sms * values["COMBINE"] * STORE_WORDS),
                       ("AT_FILL", sms), ("AT_WARP", sms * slots * warps * WARP_WORDS), ("AT_SLOT", sms * slots * SLOT_WORDS),
                       ("AT_QUEUE", sms), ("AT_LIVE", sms), ("AT_WAKE", sms), ("AT_RING", sms * values["QUEUE"]), ("AT_TURN", sms)):
        values[name] = at
        at += size
    x = np.zeros(at, np.int64)
    for i, name in enumerate(PARAMETERS):
        x[i] = values.get(name, 0)
    x[values["AT_GPC"]:values["AT_GPC"] + sms] = np.repeat(np.arange(gpcs), GPC_SMS)
    x[values["AT_SIDE"]:values["AT_SIDE"] + gpcs] = GPC_SIDES
    x[values["AT_SLOT"]:values["AT_SLOT"] + sms * slots * SLOT_WORDS:SLOT_WORDS] = -1
    return x

"""Per-instruction memory counters of a chunk of events.

What it models: what the profiler counts for one executed memory instruction (hardware.md 3, 4, 11):
requests, sectors and lines of global accesses, wavefronts of shared accesses, requests and sectors
of local ones.  Every event stands alone, so any chunking and any split over threads gives the same
sums.  Sizes are bytes, counts are counts; nothing here is time.  The loops are compiled, in
`gpusim.memory.counting`.

Left out: caches (hits, misses, traffic to L2), arbitration, generic addresses (the executor resolves
them).  Rules that are not settled on hardware are listed by :func:`gpusim.memory.shared.unsettled`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpusim.events import EVENT
from gpusim.memory.coalescer import GlobalGeometry
from gpusim.memory.counting import TAG_BITS, WORDS, Counter, count
from gpusim.memory.shared import SharedGeometry

N_COUNTERS = len(Counter)


def count_events(
    events: NDArray[np.void], out: NDArray[np.int64], shared: SharedGeometry, global_: GlobalGeometry
) -> None:
    """Add the counters of ``events`` (dtype EVENT) to ``out[pc // 16, Counter]`` in place.

    Thread-safe for distinct ``out`` arrays; the result does not depend on the chunking.
    """
    if events.dtype != EVENT:
        raise TypeError(f"events must have dtype EVENT, not {events.dtype}")
    if out.dtype != np.int64 or out.ndim != 2 or out.shape[1] != N_COUNTERS:
        raise TypeError(f"out must be int64[n_instructions, {N_COUNTERS}], not {out.dtype}{list(out.shape)}")
    if len(events) == 0:
        return
    words = np.ascontiguousarray(events).view(np.uint64).reshape(len(events), WORDS)
    bad = count(
        words,
        out,
        shared.word_bytes.bit_length() - 1,
        shared.banks.bit_length() - 1,
        global_.sector_bytes.bit_length() - 1,
        global_.line_bytes.bit_length() - 1,
        _tag_bank_table(global_),
    )
    if bad >= 0:
        event = events[bad]
        raise ValueError(
            f"event {bad} cannot be counted: pc {event['pc']:#x}, space {event['space']},"
            f" width {event['nbytes']}; out has {len(out)} instructions"
        )


@lru_cache(maxsize=8)
def _tag_bank_table(geometry: GlobalGeometry) -> NDArray[np.uint8]:
    """uint8[2][4096]: the hash is linear, so a line's bank is table[0][low 12 bits] ^ table[1][next 12]."""
    parts = np.arange(1 << TAG_BITS)
    return np.array(
        [[geometry.tag_bank(int(part) << shift) for part in parts] for shift in (0, TAG_BITS)], np.uint8
    )


__all__ = ["N_COUNTERS", "Counter", "count_events"]

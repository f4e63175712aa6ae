"""The one event type: where execution and memory models meet.

The executor writes one row for every memory instruction a convergent group of lanes of one warp
executes with at least one active and predicated-on lane.  Models never see instructions, the
executor never sees caches; every model is ``(events, spec, state) -> events`` and counters are
group-bys over events.

Events flow in chunks (numpy arrays of :data:`EVENT`), so memory stays bounded whatever the grid.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

import numpy as np

LANES = 32


class Space(IntEnum):
    """Memory space of an access, after generic addresses were resolved."""

    NONE = 0  # no access: a barrier, or lanes that leave
    SHARED = 1
    GLOBAL = 2
    LOCAL = 3


class Kind(IntEnum):
    """What the access does (`STORE` and `REDUCTION` return nothing to the warp)."""

    LOAD = 1
    STORE = 2
    ATOMIC = 3  # read-modify-write that returns the old value (ATOM, ATOMG, ATOMS)
    REDUCTION = 4  # read-modify-write without result (RED)
    LDMATRIX = 5  # addresses are rows of 16 bytes, lanes 0-7 the first matrix, 8-15 the second, ...
    STMATRIX = 6
    ASYNC_COPY = 7  # LDGSTS: one GLOBAL event (read side) and one SHARED event (write side)
    BARRIER = 8  # a group waits at a CTA barrier; addresses[0]: what it asks for (functional.cta)
    EXIT = 9  # lanes leave the kernel


class Flag(IntFlag):
    """Bits of the ``flags`` field."""

    BYPASS_L1 = 1  # LDGSTS.BYPASS, ld.cg
    EVICT_FIRST = 2
    STRONG = 4  # volatile / relaxed or stronger at gpu or system scope
    ADD = 8  # ATOMIC/REDUCTION: an add (lanes on one word may be combined)
    CAS = 16  # ATOMIC: compare and swap
    GENERIC = 32  # the instruction used a generic address
    LAST_USE = 64  # ld.lu: L1 keeps nothing of it


#: One memory access of one warp.
#:
#: cta: linear CTA index (x fastest); warp: warp index in the CTA; pc: function-relative byte
#: address of the instruction; mask: lanes active and predicated on; nbytes: bytes a lane (16 for a
#: matrix row); level: cache operator class (0 default); parent: index in the chunk of the event this
#: one came from (its own index for those the executor writes); issued, stalls: instructions that the warp has
#: issued before this one, and the sum of the stall cycles their control words name, both modulo 2^32;
#: addresses: byte address of each lane
#: (SHARED: offset in the CTA's shared window; GLOBAL: virtual address; LOCAL: byte offset in the
#: thread's own local memory, not interleaved), undefined in lanes outside mask.  Space NONE has mask 0.
EVENT = np.dtype(
    [
        ("cta", "<u4"),
        ("pc", "<u4"),
        ("mask", "<u4"),
        ("parent", "<u4"),
        ("warp", "<u2"),
        ("flags", "<u2"),
        ("space", "u1"),
        ("kind", "u1"),
        ("nbytes", "u1"),
        ("level", "u1"),
        ("issued", "<u4"),
        ("stalls", "<u4"),
        ("addresses", "<u8", (LANES,)),
    ]
)
assert EVENT.itemsize == 288

"""Shared-memory wavefronts: hand-derived cases, and a brute-force oracle over random accesses.

The oracle below works from sets of words, as hardware.md 3 states the rules, and shares no code with the
compiled counters.  The recorded hardware patterns are compared in test_access_batch.py.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.events import EVENT, Flag, Kind, Space
from gpusim.memory.coalescer import GlobalGeometry
from gpusim.memory.counters import N_COUNTERS, Counter, count_events
from gpusim.memory.shared import SharedGeometry, bank_map, unsettled

GEOMETRY = SharedGeometry(banks=32, word_bytes=4)
GLOBAL = GlobalGeometry(sector_bytes=32, line_bytes=128, tag_bank_masks=(1, 2), tag_bank_line_bits=2)
FULL = 0xFFFFFFFF
LANES = range(32)


def events(kind, width, rows, flags=0):
    """One event for each (mask, addresses)."""
    made = np.zeros(len(rows), EVENT)
    for event, (mask, addresses) in zip(made, rows, strict=True):
        event["space"], event["kind"], event["nbytes"], event["flags"] = Space.SHARED, kind, width, flags
        event["mask"] = mask
        event["addresses"] = np.array(addresses, np.uint64)
    return made


def count(made):
    out = np.zeros((1, N_COUNTERS), np.int64)
    count_events(made, out, GEOMETRY, GLOBAL)
    return out[0]


def cost(kind, width, addresses, mask=FULL, flags=0):
    """(wavefronts, ideal wavefronts) that the banks need, after checking that the drawing agrees."""
    event = events(kind, width, [(mask, [int(a) for a in addresses])], flags)
    counts = count(event)
    drawn = bank_map(event[0], GEOMETRY)
    found = int(counts[Counter.BANK_WAVEFRONTS]), int(counts[Counter.BANK_IDEAL_WAVEFRONTS])
    assert (len(drawn.wavefronts), drawn.ideal_wavefronts) == found
    return found


def page(kind, width, addresses, mask=FULL, flags=0):
    """(wavefronts, ideal wavefronts, settled) of the profiler's source page."""
    counts = count(events(kind, width, [(mask, [int(a) for a in addresses])], flags))
    return (
        int(counts[Counter.SHARED_WAVEFRONTS]),
        int(counts[Counter.SHARED_IDEAL_WAVEFRONTS]),
        not counts[Counter.UNSETTLED_SHARED],
    )


def oracle(kind, width, addresses, mask):
    """hardware.md 3, by sets of words."""
    active = [lane for lane in LANES if mask >> lane & 1]

    def words(lane):
        return range(addresses[lane] // 4, (addresses[lane] + width - 1) // 4 + 1)

    def degree(lanes):
        return max(len({w for lane in lanes for w in words(lane) if w % 32 == bank}) for bank in LANES)

    def crowd(lanes):
        return max(sum(1 for lane in lanes for w in words(lane) if w % 32 == bank) for bank in LANES)

    size = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[width]
    if kind == Kind.LOAD and width > 4:
        for distance in (1, 2):
            if all(
                lane ^ distance not in active or addresses[lane] == addresses[lane ^ distance]
                for lane in active
            ):
                size = {8: 32, 16: 16}[width]
    groups = [[lane for lane in active if lane // size == g] for g in range(32 // size)]
    groups = [group for group in groups if group]
    if kind == Kind.ATOMIC:
        return sum(crowd(group) for group in groups), len(groups)
    return sum(degree(group) for group in groups), len(groups)


# -- by hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "kind", "width", "addresses", "expected"),
    [
        ("a row of floats", Kind.LOAD, 4, [4 * i for i in LANES], (1, 1)),
        ("one word for all", Kind.LOAD, 4, [64] * 32, (1, 1)),
        ("a column of float[32][32]", Kind.LOAD, 4, [128 * i for i in LANES], (32, 1)),
        ("a column of float[32][33]", Kind.LOAD, 4, [132 * i for i in LANES], (1, 1)),
        ("stride 2", Kind.LOAD, 4, [8 * i for i in LANES], (2, 1)),
        ("bytes in one word", Kind.STORE, 1, [i % 4 for i in LANES], (1, 1)),
        ("halves, 32 words apart", Kind.STORE, 2, [128 * (i % 2) for i in LANES], (2, 1)),
        ("double row", Kind.LOAD, 8, [8 * i for i in LANES], (2, 2)),
        ("broadcast LDS.64: one merged group", Kind.LOAD, 8, [0] * 32, (1, 1)),
        ("broadcast STS.64: never merges", Kind.STORE, 8, [0] * 32, (2, 2)),
        ("float4 row", Kind.LOAD, 16, [16 * i for i in LANES], (4, 4)),
        ("broadcast LDS.128: two merged groups", Kind.LOAD, 16, [32] * 32, (2, 2)),
        ("broadcast STS.128", Kind.STORE, 16, [32] * 32, (4, 4)),
        ("LDS.128, word lane%4: no pair agrees", Kind.LOAD, 16, [16 * (i % 4) for i in LANES], (4, 4)),
        ("LDS.128, pairs of lanes agree", Kind.LOAD, 16, [16 * (i // 2) for i in LANES], (2, 2)),
        ("LDS.128, lanes 2 apart agree", Kind.LOAD, 16, [16 * (i & ~2) for i in LANES], (4, 2)),
        ("LDS.128, stride 32 B", Kind.LOAD, 16, [32 * i for i in LANES], (8, 4)),
        ("ldmatrix, rows of 64 B", Kind.LDMATRIX, 16, [64 * i for i in LANES], (16, 4)),
        ("ldmatrix, rows of 80 B", Kind.LDMATRIX, 16, [80 * i for i in LANES], (4, 4)),
        ("ldmatrix, one row for all: no merging", Kind.LDMATRIX, 16, [0] * 32, (4, 4)),
        ("atomics on one word", Kind.ATOMIC, 4, [0] * 32, (32, 1)),
        ("atomics on a row", Kind.ATOMIC, 4, [4 * i for i in LANES], (1, 1)),
        ("atomics, pairs on one word", Kind.ATOMIC, 4, [4 * (i // 2) for i in LANES], (2, 1)),
    ],
)
def test_known_costs(what, kind, width, addresses, expected):
    assert cost(kind, width, addresses, flags=Flag.ADD) == expected, what


@pytest.mark.parametrize(
    ("what", "kind", "width", "mask", "addresses", "expected"),
    [
        ("empty quarters cost nothing", Kind.STORE, 16, 0x0000FF00, [16 * i for i in LANES], (1, 1)),
        ("only the low half", Kind.STORE, 8, 0x0000FFFF, [8 * i for i in LANES], (1, 1)),
        ("half a column", Kind.LOAD, 4, 0xFFFF0000, [128 * i for i in LANES], (16, 1)),
        ("one lane", Kind.LOAD, 4, 1 << 31, [4096] * 32, (1, 1)),
        # Every second lane is off, so each active lane has an inactive neighbour and all groups merge.
        ("even lanes merge", Kind.LOAD, 16, 0x55555555, [16 * (i // 2) for i in LANES], (2, 2)),
        ("even lanes of a store do not", Kind.STORE, 16, 0x55555555, [16 * (i // 2) for i in LANES], (4, 4)),
        # One pair of the whole warp disagrees, at both distances: no group merges.
        ("one odd lane", Kind.LOAD, 16, FULL, [0] * 31 + [16], (4, 4)),
        ("merged and half empty", Kind.LOAD, 8, 0x00FF0000, [0] * 32, (1, 1)),
    ],
)
def test_partial_masks(what, kind, width, mask, addresses, expected):
    assert cost(kind, width, addresses, mask) == expected, what


@pytest.mark.parametrize(
    ("what", "kind", "width", "mask", "addresses", "words"),
    [
        ("one word for all", Kind.LOAD, 4, FULL, [64] * 32, 1),
        ("a row", Kind.LOAD, 4, FULL, [4 * lane for lane in LANES], 32),
        ("two rows of a tile, one word each", Kind.LOAD, 4, FULL, [lane // 16 * 128 for lane in LANES], 2),
        ("a row of the tile, for both halves", Kind.LOAD, 4, FULL, [lane % 16 * 4 for lane in LANES], 16),
        ("a column of 32 x 32", Kind.LOAD, 4, FULL, [128 * lane for lane in LANES], 32),
        ("four quads, each for 8 lanes", Kind.LOAD, 16, FULL, [lane % 4 * 512 for lane in LANES], 16),
        ("one quad for all", Kind.LOAD, 16, FULL, [32] * 32, 4),
        ("bytes of 8 words", Kind.STORE, 1, FULL, list(LANES), 8),
        ("three lanes, two of them alike", Kind.LOAD, 8, 0b10011, [8, 8, *[0] * 2, 4096, *[0] * 27], 4),
        ("matrix rows, two alike", Kind.LDMATRIX, 16, 0xFF, [80 * (lane % 7) for lane in LANES], 28),
        ("additions to one word", Kind.ATOMIC, 4, FULL, [0] * 32, 1),
    ],
)  # fmt: skip
def test_distinct_words(what, kind, width, mask, addresses, words):
    assert count(events(kind, width, [(mask, addresses)]))[Counter.SHARED_WORDS] == words, what


def test_inactive_lanes_do_not_matter():
    quiet = [4 * i if i < 16 else 0 for i in LANES]
    noisy = [4 * i if i < 16 else 2**64 - 1 - 128 * i for i in LANES]
    assert cost(Kind.LOAD, 4, quiet, 0xFFFF) == cost(Kind.LOAD, 4, noisy, 0xFFFF) == (1, 1)


def test_event_without_lanes_counts_nothing():
    assert not count(events(Kind.LOAD, 4, [(0, [0] * 32)])).any()


# -- properties -----------------------------------------------------------------------------------

KINDS = [
    (Kind.LOAD, width, 0) for width in (1, 2, 4, 8, 16)
] + [(Kind.STORE, width, 0) for width in (1, 2, 4, 8, 16)] + [
    (Kind.LDMATRIX, 16, 0),
    (Kind.STMATRIX, 16, 0),
    (Kind.ATOMIC, 4, int(Flag.ADD)),
    (Kind.ATOMIC, 8, 0),
    (Kind.REDUCTION, 4, int(Flag.ADD)),
]  # fmt: skip


@st.composite
def accesses(draw):
    """Random, strided, folded and nearly-merging addresses in 64 KB, aligned to the width."""
    kind, width, flags = draw(st.sampled_from(KINDS))
    units = 65536 // width
    shape = draw(st.integers(0, 3))
    if shape == 0:
        index = draw(st.lists(st.integers(0, units - 1), min_size=32, max_size=32))
    elif shape == 1:
        start, stride = draw(st.integers(0, 64)), draw(st.integers(0, 200))
        fold = draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
        index = [start + lane % fold * stride + lane // fold * draw(st.integers(0, 3)) for lane in LANES]
    elif shape == 2:
        few = draw(st.lists(st.integers(0, units - 1), min_size=1, max_size=4))
        index = [draw(st.sampled_from(few)) for _ in LANES]
    else:
        drop = draw(st.sampled_from([1, 2, 3]))
        index = [(lane & ~drop) * draw(st.sampled_from([1, 3, 8])) for lane in LANES]
    mask = draw(
        st.one_of(st.just(FULL), st.integers(0, FULL), st.sampled_from([0x55555555, 0xFF, 0xFFFF0000]))
    )
    return kind, width, flags, mask, [i % units * width for i in index]


@settings(max_examples=400, deadline=None)
@given(accesses())
def test_equals_the_rules(access):
    kind, width, flags, mask, addresses = access
    assert cost(kind, width, addresses, mask, flags) == oracle(kind, width, addresses, mask)
    touched = {
        b // 4 for lane in LANES if mask >> lane & 1 for b in range(addresses[lane], addresses[lane] + width)
    }
    assert count(events(kind, width, [(mask, addresses)], flags))[Counter.SHARED_WORDS] == len(touched)


@settings(max_examples=60, deadline=None)
@given(st.lists(accesses(), min_size=1, max_size=12), st.integers(1, 5))
def test_any_chunking_gives_the_same(many, size):
    made = np.concatenate([events(k, w, [(m, a)], f) for k, w, f, m, a in many])
    made["pc"] = np.arange(len(made)) % 3 * 16
    whole = np.zeros((3, N_COUNTERS), np.int64)
    count_events(made, whole, GEOMETRY, GLOBAL)
    parts = np.zeros((3, N_COUNTERS), np.int64)
    for start in range(0, len(made), size):
        count_events(made[start : start + size], parts, GEOMETRY, GLOBAL)
    assert (whole == parts).all()


def test_threads_give_the_same():
    rng = np.random.default_rng(7)
    made = events(Kind.LOAD, 4, [(FULL, rng.integers(0, 8192, 32) * 4) for _ in range(300)])
    alone = count(made)
    with ThreadPoolExecutor(4) as pool:
        assert all((counts == alone).all() for counts in pool.map(lambda _: count(made), range(16)))


# -- detail for reports ---------------------------------------------------------------------------


def test_bank_map_of_a_two_way_conflict():
    drawn = bank_map(events(Kind.LOAD, 4, [(FULL, [8 * i for i in LANES])])[0], GEOMETRY)
    assert drawn.bank_conflicts == 1
    assert drawn.conflict_degree() == {bank: 2 for bank in range(0, 32, 2)}
    assert drawn.fights()[:2] == ((0, (0, 16)), (2, (1, 17)))
    assert [len(wavefront) for wavefront in drawn.wavefronts] == [16, 16]
    assert {(t.lane, t.bank, t.word) for t in drawn.wavefronts[1]} == {
        (i, 2 * i % 32, 2 * i) for i in range(16, 32)
    }


def test_bank_map_serves_every_word_once():
    rng = np.random.default_rng(3)
    made = events(Kind.LOAD, 16, [(0x0FFFFF0F, rng.integers(0, 64, 32) * 16)])[0]
    drawn = bank_map(made, GEOMETRY)
    served = [(t.lane, t.word) for wavefront in drawn.wavefronts for t in wavefront]
    lanes = [lane for lane in LANES if 0x0FFFFF0F >> lane & 1]
    assert sorted(served) == [
        (lane, int(made["addresses"][lane]) // 4 + w) for lane in lanes for w in range(4)
    ]
    for wavefront in drawn.wavefronts:  # one word a bank and wavefront
        assert len({t.bank for t in wavefront}) == len({t.word for t in wavefront})


def test_bank_map_refuses_other_spaces():
    made = events(Kind.LOAD, 4, [(FULL, [0] * 32)])
    made["space"] = Space.GLOBAL
    with pytest.raises(ValueError, match="needs a shared event, not global"):
        bank_map(made[0], GEOMETRY)


#: Slots of a recorded execution whose lane pairs agree and whose groups conflict when merged.
RECORDED_PAIRS = [747, 713, 179, 131, 57, 863, 71, 463, 872, 467, 0, 842, 608, 182, 336, 889]

# -- the source page (docs/rules.md; every row is an execution recorded in micro.json.xz or a catalog record)


@pytest.mark.parametrize(
    ("what", "kind", "width", "mask", "addresses", "expected"),
    [
        ("STS.64, 16 scattered lanes fit one row", Kind.STORE, 8, 0xC86D3B29, [8 * i for i in LANES], (2, 1)),
        ("STS.128, 18 lanes on one slot", Kind.STORE, 16, 0xFAC94FA1, [0] * 32, (4, 3)),
        ("broadcast LDS.128 merges", Kind.LOAD, 16, FULL, [32] * 32, (2, 2)),
        ("broadcast LDS.64 merges", Kind.LOAD, 8, FULL, [32] * 32, (1, 1)),
        ("two slots in turn merge", Kind.LOAD, 16, FULL, [16 * 82 * (1 - i % 2) for i in LANES], (2, 2)),
        ("s07: pairs of neighbours merge", Kind.LOAD, 16, FULL, [16 * (i // 2) for i in LANES], (2, 2)),
        ("not with conflicts", Kind.LOAD, 16, FULL, [16 * RECORDED_PAIRS[i // 2] for i in LANES], (10, 4)),
        ("C4: merging would save nothing", Kind.LOAD, 16, FULL, [128 * (i // 8) for i in LANES], (4, 4)),
        ("D2: nor here", Kind.LOAD, 8, FULL, [256 * (i // 16) for i in LANES], (2, 2)),
        ("four slots in turn", Kind.LOAD, 16, FULL, [16 * (i % 4) for i in LANES], (4, 4)),
        ("STSM.x4", Kind.STMATRIX, 16, FULL, [64 * i for i in LANES], (16, 4)),
        ("ATOMS.CAS reads and writes", Kind.ATOMIC, 4, 0x7FFFFFFF, [0] * 32, (62, 2)),
        ("ATOMS.CAS.64 in groups of 16", Kind.ATOMIC, 8, FULL, [8 * i for i in LANES], (4, 4)),
    ],
)
def test_source_page(what, kind, width, mask, addresses, expected):
    flags = Flag.CAS if "CAS" in what else 0
    assert page(kind, width, addresses, mask, flags) == (*expected, True), what


def test_wide_loads_with_lanes_off_are_settled_only_where_merging_changes_nothing():
    assert page(Kind.LOAD, 16, [0] * 32, 0x02254822)[2] is False  # lanes of both halves on one slot: 1 or 2
    assert page(Kind.LOAD, 16, [16 * i for i in LANES], 0x0000000F) == (1, 1, True)
    assert page(Kind.LOAD, 4, [0] * 32, 0x02254822) == (1, 1, True)


def test_unsettled_names_the_rules_that_are_open():
    assert unsettled(Kind.LOAD, 0, 4) is None
    assert "wide load" in str(unsettled(Kind.LOAD, 0, 16))
    assert unsettled(Kind.LDMATRIX, 0, 16) is unsettled(Kind.ATOMIC, Flag.CAS, 4) is None
    assert "both" not in str(unsettled(Kind.ASYNC_COPY, Flag.BYPASS_L1, 16))
    assert "through L1" in str(unsettled(Kind.ASYNC_COPY, 0, 4))

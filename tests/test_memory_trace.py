"""Records of accesses: what they hold, how steps along the grid are found, how much data is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.events import EVENT, Flag, Kind, Space
from gpusim.memory.footprint import distinct_sectors
from gpusim.memory.trace import LOCAL, WHOLE, Column, Recorder, Trace, assemble, first_touches, template

FULL = 0xFFFFFFFF
LANES = np.arange(32)
BASE = 1 << 30


def event(kind: int = Kind.LOAD, addresses: Any = 4 * LANES, *, space: int = Space.GLOBAL, cta: int = 0,
          warp: int = 0, index: int = 0, issued: int = 0, stalls: int = 0, width: int = 4, mask: int = FULL,
          flags: int = 0) -> np.ndarray:  # fmt: skip
    """One event; global addresses from BASE on."""
    made = np.zeros(1, EVENT)
    made["space"], made["kind"], made["nbytes"], made["mask"] = space, kind, width, mask
    made["flags"] = flags
    made["cta"], made["warp"], made["pc"] = cta, warp, 16 * index
    made["issued"], made["stalls"] = issued, stalls
    made["addresses"] = np.asarray(addresses, np.int64) + (BASE if space == Space.GLOBAL else 0)
    return made


def trace(*events: np.ndarray, recorder: Recorder | None = None) -> Trace:
    recorder = recorder or Recorder()
    recorder(np.concatenate(events))
    return assemble([recorder])


def sectors(found: Trace, row: int) -> list[int]:
    """Sectors of a record, less those of BASE for global ones."""
    r = found.records[row]
    out = []
    for e in found.entries[r[Column.AT] : r[Column.AT] + r[Column.COUNT]]:
        out += [4 * (int(e) >> 4) + k for k in range(4) if int(e) >> k & 1]
    return sorted(s - (0 if r[Column.KIND] & LOCAL else BASE // 32) for s in out)


def equal(a: Trace, b: Trace) -> bool:
    names = ("records", "entries", "bounds", "keys")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


# -- records, by hand -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "kind", "width", "addresses", "mask", "expected", "lines", "waves"),
    [
        ("a row of floats", Kind.LOAD, 4, 4 * LANES, FULL, [0, 1, 2, 3], 1, 1),
        ("shifted by one float", Kind.LOAD, 4, 4 * LANES + 4, FULL, [0, 1, 2, 3, 4], 2, 1),
        ("one word for all", Kind.LOAD, 4, 0 * LANES, FULL, [0], 1, 1),
        ("two lanes", Kind.LOAD, 4, 4096 * LANES, 0b11, [0, 128], 2, None),
        ("float4: four wavefronts of 128 bytes", Kind.LOAD, 16, 16 * LANES, FULL, list(range(16)), 4, 4),
        ("float4 stored", Kind.STORE, 16, 16 * LANES, FULL, list(range(16)), 4, 4),
        ("a column stored", Kind.STORE, 4, 128 * LANES, FULL, list(range(0, 128, 4)), 32, 8),
        ("atomics on a row", Kind.ATOMIC, 4, 4 * LANES, FULL, [0, 1, 2, 3], 1, 1),
    ],
)
def test_a_global_record(what, kind, width, addresses, mask, expected, lines, waves) -> None:
    found = trace(event(kind, addresses, width=width, mask=mask, index=7, issued=4, stalls=9))
    record = found.records[0]
    assert sectors(found, 0) == expected, what
    assert record[Column.COUNT] == lines == len(found.entries)
    assert waves is None or record[Column.WAVES] == waves
    whole = kind == Kind.STORE and what != "a column stored"  # every byte of its sectors
    assert record[Column.KIND] == kind | (WHOLE if whole else 0) and record[Column.INDEX] == 7
    # four instructions were issued before it, and it is the fifth
    assert record[Column.GAP] == 5 and record[Column.STALLS] == 9
    assert found.bounds.tolist() == [0, 1] and found.keys.tolist() == [0]


def test_flags_are_kept() -> None:
    found = trace(event(flags=Flag.BYPASS_L1), event(flags=Flag.STRONG))
    assert [int(k) for k in found.records[:, Column.KIND]] == [
        Kind.LOAD | Flag.BYPASS_L1 << 8,
        Kind.LOAD | Flag.STRONG << 8,
    ]


def test_local_words_are_interleaved() -> None:
    """A word of all 32 lanes is one line; lanes 0 to 7 are its first sector."""
    found = trace(
        event(addresses=0 * LANES + 8, space=Space.LOCAL),
        event(addresses=0 * LANES + 16, space=Space.LOCAL, width=8, issued=1),
        event(addresses=0 * LANES, space=Space.LOCAL, mask=0xFF, issued=2),
    )
    assert all(k & LOCAL for k in found.records[:, Column.KIND])
    assert [sectors(found, row) for row in range(3)] == [list(range(8, 12)), list(range(16, 24)), [0]]
    assert found.records[:, Column.COUNT].tolist() == [1, 2, 1]


def test_shared_accesses_become_time_of_the_next_record() -> None:
    """A row is one wavefront, a column of 32 words 32; they are no records, nor are instructions lost."""
    found = trace(
        event(issued=0),
        event(addresses=4 * LANES, space=Space.SHARED, issued=3, stalls=5),
        event(addresses=128 * LANES, space=Space.SHARED, issued=5, stalls=8),
        event(issued=9, stalls=20),
        event(issued=10, stalls=22),
    )
    assert found.records[:, Column.SHARED].tolist() == [0, 33, 0]
    assert found.records[:, Column.GAP].tolist() == [1, 9, 1]
    assert found.records[:, Column.STALLS].tolist() == [0, 20, 2]


def test_barriers_and_exits_are_records_without_lines() -> None:
    arrives = event(Kind.BARRIER, 0 * LANES, space=Space.NONE, mask=0, issued=1)
    arrives["addresses"][0, 0] = 1 << 32
    found = trace(
        event(Kind.BARRIER, 0 * LANES, space=Space.NONE, mask=0),
        arrives,
        event(Kind.EXIT, 0 * LANES, space=Space.NONE, mask=0, issued=2),
    )
    assert found.records[:, Column.KIND].tolist() == [Kind.BARRIER, Kind.BARRIER, Kind.EXIT]
    assert found.records[:, Column.COUNT].tolist() == [0, 1, 0]
    assert len(found.entries) == 0


def test_an_access_without_lanes_is_no_record() -> None:
    assert len(trace(event(mask=0), event(issued=1)).records) == 1


def test_warps_are_sorted_whatever_order_they_ran_in() -> None:
    """CTA 1 by one worker, CTA 0 by another, warps in turns."""
    first, second = Recorder(), Recorder()
    first(np.concatenate([event(cta=1, warp=w, addresses=4 * LANES + 128 * w) for w in (1, 0, 1)]))
    second(np.concatenate([event(cta=0, warp=w, addresses=4 * LANES + 1280) for w in (2, 0)]))
    found = assemble([first, second])
    assert found.keys.tolist() == [0, 2, 1 << 16, 1 << 16 | 1]
    assert found.bounds.tolist() == [0, 1, 2, 3, 5]
    assert [sectors(found, row)[0] for row in range(5)] == [40, 40, 0, 4, 4]
    assert equal(found, assemble([second, first]))


# -- records, properties --------------------------------------------------------------------------


@st.composite
def streams(draw: Any) -> np.ndarray:
    """Events of some warps, each warp's in order."""
    made, issued = [], [0] * 6
    for _ in range(draw(st.integers(1, 60))):
        warp = draw(st.integers(0, 5))
        issued[warp] += draw(st.integers(1, 9))
        space = draw(st.sampled_from([Space.GLOBAL, Space.SHARED, Space.LOCAL, Space.NONE]))
        kinds = [Kind.LOAD, Kind.STORE] if space != Space.NONE else [Kind.BARRIER, Kind.EXIT]
        kind = draw(st.sampled_from(kinds))
        stride = draw(st.sampled_from([0, 4, 36, 128, 4096]))
        addresses = draw(st.integers(0, 40)) * 32 + stride * LANES
        mask = 0 if space == Space.NONE else draw(st.sampled_from([FULL, 1, 0xFF00, 0xF0F0F0F0]))
        index = draw(st.integers(0, 5))
        made.append(event(kind, addresses, space=space, cta=warp // 3, warp=warp % 3, index=index,
                          issued=issued[warp], stalls=2 * issued[warp], mask=mask))  # fmt: skip
    return np.concatenate(made)


@settings(max_examples=80)
@given(streams(), st.lists(st.integers(0, 60), max_size=8), st.sampled_from([1, 2, 16384]))
def test_chunks_do_not_matter(events: np.ndarray, cuts: list[int], room: int) -> None:
    whole, parts = Recorder(), Recorder(room)
    whole(events)
    for part in np.split(events, sorted(min(c, len(events)) for c in cuts)):
        parts(part)
    assert equal(assemble([whole]), assemble([parts]))


@settings(max_examples=60)
@given(streams())
def test_nothing_is_lost(events: np.ndarray) -> None:
    """Gaps add up to what a warp issues until its last record; global sectors are those of the lanes."""
    found = trace(events)
    for warp, key in enumerate(found.keys):
        mine = events[(events["cta"] == key >> 16) & (events["warp"] == key & 0xFFFF)]
        kept = mine[mine["space"] != Space.SHARED]
        rows = slice(found.bounds[warp], found.bounds[warp + 1])
        assert rows.stop - rows.start == len(kept)
        if len(kept):
            assert found.records[rows, Column.GAP].sum() == kept["issued"][-1] + 1
            assert found.records[rows, Column.STALLS].sum() == kept["stalls"][-1]
        for row, one in zip(range(rows.start, rows.stop), kept, strict=True):
            if one["space"] == Space.GLOBAL:
                lanes = [lane for lane in range(32) if int(one["mask"]) >> lane & 1]
                touched = {(int(one["addresses"][lane]) - BASE) // 32 for lane in lanes}
                assert sectors(found, row) == sorted(touched)


# -- templates ------------------------------------------------------------------------------------


LINES = (0, 4, 8, 64, 1000, -4)
SECTORS = (0, 1, 3, 4, 64, 1001, -2)


@st.composite
def affine(draw: Any, steps: tuple[int, ...]) -> tuple[tuple[int, int, int], int, list[int], list[Any]]:
    """(grid, base CTA, CTAs looked at, (kind, sectors, steps along x, y and z) of each access)."""
    grid = draw(st.tuples(*[st.integers(1, 7)] * 3))
    at = [draw(st.integers(0, extent - 1)) for extent in grid]
    x, y, _ = grid

    def linear(c: list[int]) -> int:
        return c[0] + x * (c[1] + y * c[2])

    chosen = {linear(at), *draw(st.lists(st.integers(0, x * y * grid[2] - 1), max_size=6))}
    for axis, extent in enumerate(grid):
        if extent > 1:
            beside = list(at)
            beside[axis] = (beside[axis] + 1) % extent
            chosen.add(linear(beside))
    accesses = draw(st.lists(st.tuples(
        st.sampled_from([Kind.LOAD, Kind.STORE]),
        st.lists(st.integers(0, 300), min_size=1, max_size=32),
        *[st.sampled_from(steps) for _ in range(3)],
    ), min_size=1, max_size=6))  # fmt: skip
    return grid, linear(at), sorted(chosen), accesses


def placed(grid: tuple[int, int, int], cta: int) -> tuple[int, int, int]:
    return cta % grid[0], cta // grid[0] % grid[1], cta // (grid[0] * grid[1])


def launched(grid: tuple[int, int, int], ctas: list[int], accesses: list[Any]) -> list[np.ndarray]:
    events = []
    for cta in ctas:
        at = placed(grid, cta)
        for i, (kind, base, *steps) in enumerate(accesses):
            moved = 100_000 + sum(a * s for a, s in zip(at, steps, strict=True))
            lanes = 32 * (moved + np.array((base * 32)[:32], np.int64))
            events.append(event(kind, lanes, cta=cta, warp=i % 2, index=i, issued=3 * i))
        events += [event(Kind.EXIT, space=Space.NONE, mask=0, cta=cta, warp=w, issued=99) for w in (0, 1)]
    return events


def reproduces(case: Any) -> bool:
    """Whether a template is found; then the base's records, moved, are each other CTA's, sector by sector."""
    grid, base, ctas, accesses = case
    found = trace(*launched(grid, ctas, accesses))
    steps = template(found, grid, base)
    if steps is None:
        return False
    rows = {cta: int(found.bounds[np.flatnonzero(found.keys >> 16 == cta)[0]]) for cta in ctas}
    assert len(steps) == len(accesses) + 2
    for cta in ctas:
        away = np.subtract(placed(grid, cta), placed(grid, base))
        for r in range(len(steps)):
            kind = found.records[rows[base] + r, Column.KIND]
            if kind != Kind.EXIT:
                moved = [s + int(steps[r] @ away) for s in sectors(found, rows[base] + r)]
                assert sectors(found, rows[cta] + r) == moved
    return True


@settings(max_examples=80)
@given(affine(LINES))
def test_template_of_ctas_whole_lines_apart(case: Any) -> None:
    assert reproduces(case)


@settings(max_examples=80)
@given(affine(SECTORS))
def test_template_of_ctas_sectors_apart_is_right_if_found(case: Any) -> None:
    reproduces(case)


def test_template_of_ctas_sectors_apart() -> None:
    """Every other CTA's 31 sectors reach into one line more; the sectors move alike."""
    assert reproduces(((4, 1, 1), 1, [1, 2], [(Kind.STORE, list(range(31)), 2, 0, 0)]))


@settings(max_examples=60)
@given(affine(LINES), st.data())
def test_template_refuses_what_does_not_move_alike(case: Any, data: Any) -> None:
    """One CTA touches another sector, is an instruction further on, or does one thing more or another."""
    grid, base, ctas, accesses = case
    if len(ctas) < 2:
        return
    events = launched(grid, ctas, accesses)
    each = len(events) // len(ctas)
    who = data.draw(st.integers(0, len(ctas) - 1))
    victim = events[who * each + data.draw(st.integers(0, len(accesses) - 1))]
    what = data.draw(st.sampled_from(["sector", "lane", "issued", "kind", "more"]))
    if what == "sector":  # further away than any step brings a CTA, and not all of it
        victim["addresses"][0, 0] += 1 << 30
        victim["addresses"][0, 1:] = victim["addresses"][0, 1]
        if len(set(accesses[0][1])) == 1:
            return
    elif what == "lane":
        victim["mask"] = 1
        victim["addresses"][0, 0] = 32 * (1 << 28)
        victim["kind"] = Kind.ATOMIC
    elif what == "issued":
        victim["issued"] += 1
    elif what == "kind":
        victim["kind"] = Kind.REDUCTION
    else:
        events.append(event(cta=ctas[who], warp=1, issued=100))
    assert template(trace(*events), grid, base) is None


def test_template_needs_a_neighbour_in_every_dimension() -> None:
    events = launched((4, 4, 1), [5, 6], [(Kind.LOAD, [0], 4, 16, 0)])
    assert template(trace(*events), (4, 4, 1), 5) is None  # nothing is known of y
    assert template(trace(*events), (4, 4, 1), 7) is None  # the base is not there
    events = launched((4, 4, 1), [5, 6, 9], [(Kind.LOAD, [0], 4, 16, 0)])
    steps = template(trace(*events), (4, 4, 1), 5)
    assert steps is not None and steps.tolist() == [[4, 16, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("bent", [0, 1, 2, 3])
def test_template_refuses_a_curve(bent: int) -> None:
    """Sectors 0, 4, 9, 16 of x = 0 to 3: a line through any two misses the others; with one CTA bent too."""
    at = [0, 4, 8, 12]
    at[bent] += 1
    events = [event(addresses=32 * at[x] + 0 * LANES, cta=x) for x in range(4)]
    assert template(trace(*events), (4, 1, 1), 1) is None


def test_template_refuses_half_sectors() -> None:
    """CTAs 16 bytes apart: the third moves on by a sector, the second does not."""
    events = [event(addresses=16 * x + 0 * LANES, cta=x) for x in range(4)]
    assert template(trace(*events), (4, 1, 1), 0) is None


# -- different data -------------------------------------------------------------------------------

KINDS = st.sampled_from([Kind.LOAD, Kind.STORE, Kind.ATOMIC, Kind.REDUCTION])
#: (warp, instruction, kind, sectors)
TOUCHES = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 4), KINDS, st.lists(st.integers(0, 60), min_size=1, max_size=32)
    ),
    min_size=1,
    max_size=12,
)


def touched(touches: list[tuple[int, int, int, list[int]]]) -> Trace:
    return trace(*[
        event(kind, 32 * np.array((base * 32)[:32]), warp=warp, index=index, issued=i)
        for i, (warp, index, kind, base) in enumerate(touches)
    ])  # fmt: skip


@settings(max_examples=120)
@given(TOUCHES, st.lists(st.booleans(), min_size=5, max_size=5))
def test_first_touches_by_sets(touches: Any, chosen: list[bool]) -> None:
    """Warp after warp: sectors that nobody of the CTA read before, or that its warp did not write before."""
    found = touched(touches)
    out = np.zeros((5, 2), np.int64)
    first_touches(found.records, found.entries, found.bounds, np.array(chosen), out)
    expected = np.zeros((5, 2), np.int64)
    read: set[int] = set()
    written: set[tuple[int, int]] = set()
    for warp, index, kind, base in sorted(touches, key=lambda touch: touch[0]):
        if not chosen[index]:
            continue
        for s in set(base):
            if kind in (Kind.STORE, Kind.REDUCTION):
                expected[index, 1] += (warp, s) not in written
                written.add((warp, s))
            else:
                expected[index, 0] += s not in read
                read.add(s)
    assert out.tolist() == expected.tolist()


@settings(max_examples=120)
@given(TOUCHES, st.lists(st.tuples(*[st.integers(-3, 9)] * 3), min_size=1, max_size=12),
       st.lists(st.tuples(*[st.sampled_from([0, 1, 2, 4, 7, 32])] * 3), min_size=12, max_size=12),
       st.sampled_from([1, 2, 4]))  # fmt: skip
def test_distinct_sectors_by_sets(touches: Any, place: Any, steps: Any, fetch: int) -> None:
    """Sectors that CTAs read or change, in groups of ``fetch``, each once; not what is only stored."""
    found = touched(touches)
    moves = np.array(steps[: len(touches)], np.int64)
    ours = distinct_sectors(found, moves, np.array(place, np.int64), fetch)
    groups = set()
    for row, record in enumerate(found.records):
        if record[Column.KIND] & 0xFF != Kind.STORE:
            for at in place:
                away = sum(a * s for a, s in zip(at, steps[row], strict=True))
                groups |= {(s + away) // fetch for s in sectors(found, row)}
    assert ours == fetch * len(groups)


def test_distinct_sectors_of_local_memory_and_exits_are_none() -> None:
    found = trace(
        event(addresses=0 * LANES, space=Space.LOCAL),
        event(Kind.STORE, 4 * LANES, issued=1),
        event(Kind.EXIT, space=Space.NONE, mask=0, issued=2),
    )
    zero = np.zeros((3, 3), np.int64)
    assert distinct_sectors(found, zero, np.zeros((4, 3), np.int64), 2) == 0


def test_large_footprints_are_sampled() -> None:
    """From 4 million touches on one line in 16 is counted: 16,384 of 262,144, so 3.5 sigma are 2.7%."""
    lines = 1 << 9
    found = trace(*[event(addresses=128 * k + 4 * LANES, issued=k, index=0) for k in range(lines)])
    steps = np.zeros((lines, 3), np.int64)
    steps[:, 0] = 4 * lines  # every CTA its own lines, but each place along y the same ones
    place = np.array([[x, y, 0] for y in range(20) for x in range(512)], np.int64)
    assert distinct_sectors(found, steps, place, 2) == pytest.approx(4 * lines * 512, rel=0.027)

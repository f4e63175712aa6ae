"""DRAM: beside Ramulator 2, beside closed forms, and every command of recorded timelines against the rules.

The checker here is plain Python and shares nothing with the compiled scheduler but the rows of the standard:
for each command it looks back over all earlier ones.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.errors import InputError
from gpusim.memory import dram_loop
from gpusim.memory.dram import (
    AddressMap,
    Dram,
    DramResult,
    DramStandard,
    bin_edges,
    load_standard,
    standards,
)  # fmt: skip
from gpusim.memory.dram_state import Command, Level
from gpusim.report import dram_table
from gpusim.validation import calibrate_dram

ROOT = Path(__file__).resolve().parent.parent
HBM2, HBM3 = load_standard("hbm2"), load_standard("hbm3")
Timeline = list[tuple[int, Command, int, int]]


def run(
    standard: DramStandard,
    addresses: object,
    writes: object = None,
    arrivals: object = None,
    *,
    address_map: str | None = None,
    refresh: bool = False,
    chunks: int = 1,
) -> DramResult:
    a = np.asarray(addresses, np.uint64)
    w = np.zeros(len(a), np.bool_) if writes is None else np.asarray(writes, np.bool_)
    t = np.zeros(len(a)) if arrivals is None else np.asarray(arrivals, np.float64)
    used = AddressMap.parse(address_map) if address_map else standard.address_map()
    dram = Dram(standard, used, refresh=refresh, record=(0, 100_000))
    for part in np.array_split(np.arange(len(a)), chunks):
        dram.feed(a[part], w[part], t[part])
    return dram.result()


def commands(result: DramResult) -> Timeline:
    return [(int(t), Command(int(c)), int(b), int(r)) for t, c, b, r in result.timeline]


def node(standard: DramStandard, level: Level, bank: int) -> int:
    """Number of the node a bank belongs to; OTHER_STACK compares stacks."""
    group = bank // standard.banks_per_group
    stack = group // standard.bank_groups
    return {
        Level.BANK: bank, Level.BANK_GROUP: group, Level.STACK_ID: stack, Level.OTHER_STACK: stack,
        Level.PSEUDO_CHANNEL: stack // standard.stack_ids,
    }[level]  # fmt: skip


def violations(standard: DramStandard, timeline: Timeline) -> list[str]:
    """Broken rules of a timeline, by name; looks back over all earlier commands."""
    found = []
    rows: dict[int, int] = {}
    per_pc = standard.banks // standard.pseudo_channels
    past: dict[Command, list[tuple[int, int]]] = defaultdict(list)
    bus_free = [0, 0]
    for t, command, bank, row in sorted(timeline, key=lambda c: c[0]):
        if t % standard.start[command]:
            found.append(f"{command.name} starts off its clock edge at {t}")
        bus = 0 if standard.one_bus or command in (Command.RD, Command.WR) else 1
        if t < bus_free[bus]:
            found.append(f"bus busy at {t}")
        bus_free[bus] = t + standard.occupancy[command]
        for rule in standard.rules:
            if rule.following != command:
                continue
            here, pc = node(standard, rule.level, bank), bank // per_pc
            times = [
                at
                for at, b in past[rule.preceding]
                if (node(standard, rule.level, b) == here) != (rule.level == Level.OTHER_STACK)
                and b // per_pc == pc
            ]
            if len(times) >= rule.window and t < times[-rule.window] + rule.ticks:
                found.append(rule.name)
        past[command].append((t, bank))
        banks = range(bank, bank + per_pc) if command in (Command.PREA, Command.REF) else (bank,)
        legal = {
            Command.ACT: bank not in rows, Command.PRE: bank in rows, Command.PREA: True,
            Command.RD: rows.get(bank) == row, Command.WR: rows.get(bank) == row,
            Command.REF: not any(b in rows for b in banks),
        }[command]  # fmt: skip
        if not legal:
            found.append(f"{command.name} at {t} does not fit the state of bank {bank}")
        if command == Command.ACT:
            rows[bank] = row
        elif command in (Command.PRE, Command.PREA):
            for b in banks:
                rows.pop(b, None)
    return found


# ---------------------------------------------------------------------------------------------------
# Ramulator 2 and closed forms
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", dram_table.rows(), ids=lambda r: f"{r.standard} {r.stream}")
def test_streams_equal_ramulator(row: dram_table.Row) -> None:
    for ours, theirs in zip(row.ours[:3], row.theirs[:3], strict=True):
        assert abs(ours - theirs) < 0.1  # percentage points; the reference is rounded to 0.1
    assert row.ours[3] == pytest.approx(row.theirs[3], rel=0.004)
    form = dram_table.closed_form(row.standard, row.stream)
    if form is not None:
        assert form[1] * 0.999 <= row.ours[3] <= form[1] * 1.05


def test_the_page_is_fresh() -> None:
    assert (ROOT / "docs" / "dram.md").read_text(encoding="utf-8") == dram_table.page(), "run `make docs`"


def per_request(result: DramResult) -> float:
    return result.elapsed_ns / result.tick_ns / result.requests


N = 4000
LINEAR = np.arange(N, dtype=np.uint64) * 32


@pytest.mark.parametrize("name", standards())
def test_row_hits_in_one_bank_group_are_tccdl_apart(name: str) -> None:
    """One pseudo-channel, one bank: the row is never left (a page worth of requests)."""
    s = load_standard(name)
    columns = s.page_bytes // s.access_bytes
    result = run(s, np.tile(LINEAR[:columns], N // columns))
    assert result.row_shares[0] > 0.99
    assert per_request(result) == pytest.approx(s.timing["nCCDL"], rel=0.02)


@pytest.mark.parametrize("standard", [HBM2, HBM3], ids=lambda s: s.name)
def test_row_hits_in_changing_bank_groups_are_tccds_apart(standard: DramStandard) -> None:
    groups = "offset 32, bank_group 4, column 32, pseudo_channel 2, bank 4, row"
    if standard.stack_ids > 1:
        groups = groups.replace("bank 4", "stack_id 2, bank 4")
    result = run(standard, np.tile(LINEAR[:128], 40), address_map=groups)
    assert per_request(result) == pytest.approx(standard.timing["nCCDS"], rel=0.02)
    both = groups.replace(", pseudo_channel 2", "").replace("offset 32", "offset 32, pseudo_channel 2")
    result = run(standard, np.tile(LINEAR[:256], 40), address_map=both)
    assert result.achieved_gbps == pytest.approx(result.peak_gbps, rel=0.02)


def test_activates_of_one_pseudo_channel_are_limited_by_tfaw() -> None:
    every_row = "offset 32, column 32, stack_id 2, bank_group 4, bank 4, pseudo_channel 2, row"
    banks = (np.arange(N, dtype=np.uint64) % 32 * 1024) + np.arange(N, dtype=np.uint64) // 32 * (64 * 1024)
    result = run(HBM3, banks, address_map=every_row)
    assert result.row_shares[0] == 0
    assert per_request(result) == pytest.approx(HBM3.timing["nFAW"] / 4, rel=0.02)


def test_refresh_costs_its_share_of_the_time() -> None:
    groups = "offset 32, pseudo_channel 2, bank_group 4, column 32, bank 4, row"
    stream = np.arange(200_000, dtype=np.uint64) * 32
    with_refresh = run(HBM2, stream, address_map=groups, refresh=True)
    without = run(HBM2, stream, address_map=groups)
    t = HBM2.timing
    lost = 1 - without.elapsed_ns / with_refresh.elapsed_ns
    assert lost == pytest.approx((t["nRFC"] + t["nRP"] + t["nRCDRD"]) / t["nREFI"], rel=0.1)
    periods = with_refresh.elapsed_ns / HBM2.tick_ns / t["nREFI"]
    assert with_refresh.refreshes[0] == pytest.approx(2 * periods, abs=2)
    assert not without.refreshes.any()


def test_one_read_takes_trcd_and_the_read_latency() -> None:
    result = run(HBM3, [0])
    assert [c[1] for c in commands(result)] == [Command.ACT, Command.RD]
    # the activate is three ticks long and the read two: tRCD holds between their ends, on a whole clock
    assert commands(result)[1][0] == HBM3.timing["nRCDRD"] + 2
    assert result.elapsed_ns == (HBM3.timing["nRCDRD"] + 2 + HBM3.timing["nCL"] + HBM3.timing["nBL"]) * 0.3125
    assert result.row_shares == (0, 1, 0)


def test_writes_are_drained_between_the_watermarks() -> None:
    reads_and_writes = np.tile([False, True], N // 2)
    result = run(HBM2, LINEAR, reads_and_writes)
    kinds = [c[1] for c in commands(result) if c[1] in (Command.RD, Command.WR)]
    turns = sum(a != b for a, b in itertools.pairwise(kinds))
    assert (result.bytes_read, result.bytes_written) == (N // 2 * 32, N // 2 * 32)
    drained = HBM2.write_high - HBM2.write_low
    assert turns < 2.5 * (N // 2) / drained  # a write burst empties at least what lies between the marks
    assert turns > 4


# ---------------------------------------------------------------------------------------------------
# Rules
# ---------------------------------------------------------------------------------------------------


def mixed(seed: int, n: int, spread: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Short runs at random places, reads and writes, with pauses."""
    rng = np.random.default_rng(seed)
    addresses = (
        rng.integers(0, spread, n).astype(np.uint64) * 256 + rng.integers(0, 8, n).astype(np.uint64) * 32
    )
    addresses = np.repeat(addresses, rng.integers(1, 4, n))[:n]
    gaps = rng.exponential(3.0, n) * (rng.random(n) < 0.3)
    return addresses, rng.random(n) < 0.35, np.cumsum(gaps)


def often_refreshed(standard: DramStandard) -> DramStandard:
    """Little time between refreshes, so that short streams meet some."""
    return dataclasses.replace(
        standard, refresh_interval=standard.timing["nRFC"] + 3 * standard.timing["nRC"]
    )


@pytest.mark.parametrize("name", standards())
def test_no_command_breaks_a_rule(name: str) -> None:
    standard = often_refreshed(load_standard(name))
    for seed, spread in ((0, 64), (1, 1 << 14)):
        result = run(standard, *mixed(seed, 600, spread), refresh=True)
        assert violations(standard, commands(result)) == []
        assert result.refreshes.sum() > 0


TIGHT = [
    (HBM2, "act_act"), (HBM2, "act_rd"), (HBM2, "act_wr"), (HBM2, "pre_act"), (HBM2, "rd_pre"),
    (HBM2, "wr_pre"),
    (HBM2, "group_rd_rd"), (HBM2, "group_wr_wr"), (HBM2, "group_wr_rd"), (HBM2, "rd_rd"), (HBM2, "rd_wr"),
    (HBM2, "wr_rd"), (HBM2, "any_act_act"), (HBM2, "ref_act"), (HBM3, "four_act"), (HBM3, "act_pre"),
    (HBM3, "other_rd_rd"), (HBM3, "group_act_act"), (HBM3, "pre_pre"), (HBM3, "pre_ref"),
]  # fmt: skip


def busy(standard: DramStandard) -> Timeline:
    out: Timeline = []
    for seed, spread in ((2, 24), (3, 300), (4, 1 << 14)):
        out.append((-1, Command.REF, 0, seed))  # marks where one run ends
        out += commands(run(often_refreshed(standard), *mixed(seed, 500, spread), refresh=seed == 3))
    for size in (2, 64):  # one bank after the other, and two rows of one bank
        out.append((-1, Command.REF, 0, size))
        out += commands(
            run(standard, np.arange(300, dtype=np.uint64) % size * (1024 * standard.banks * 2 // size))
        )
    return out


BUSY = {s.name: busy(s) for s in (HBM2, HBM3)}


@pytest.mark.parametrize(("standard", "name"), TIGHT, ids=lambda x: x if isinstance(x, str) else x.name)
def test_a_command_one_tick_early_is_refused_and_on_time_accepted(standard: DramStandard, name: str) -> None:
    """Somewhere the scheduler sends a command at the very first tick that this rule allows."""
    parts: list[Timeline] = []
    for command in BUSY[standard.name]:
        if command[0] < 0:
            parts.append([])
        else:
            parts[-1].append(command)
    rules = [r for r in standard.rules if r.name == name]
    for part in parts:
        for i, (t, command, bank, row) in enumerate(part):
            if not any(r.following == command for r in rules):
                continue
            step = standard.start[command]
            early = [*part[max(0, i - 60) : i], (t - step, command, bank, row)]
            if name in violations_of_rules(standard, early) and name not in violations_of_rules(
                standard, [*early[:-1], (t, command, bank, row)]
            ):
                return
    pytest.fail(f"{name} never decided when a command was sent")


def violations_of_rules(standard: DramStandard, timeline: Timeline) -> set[str]:
    """Rules that the last command of a timeline breaks; states are not looked at."""
    return {v for v in violations(standard, timeline) if " " not in v} - {
        v for v in violations(standard, timeline[:-1]) if " " not in v
    }


# ---------------------------------------------------------------------------------------------------
# Properties
# ---------------------------------------------------------------------------------------------------

requests = st.lists(
    st.tuples(st.integers(0, 1 << 12), st.booleans(), st.floats(0, 40)), min_size=1, max_size=120
)


@settings(max_examples=60, deadline=None)
@given(requests, st.sampled_from(["hbm2", "hbm3", "gddr6", "gddr7"]), st.booleans(), st.integers(1, 7))
def test_any_stream_is_served_once_by_the_rules_and_chunks_do_not_matter(
    stream: list[tuple[int, bool, float]], name: str, refresh: bool, chunks: int
) -> None:
    standard = often_refreshed(load_standard(name))
    addresses = [a * 96 // 32 * 32 for a, _, _ in stream]
    writes = [w for _, w, _ in stream]
    arrivals = np.cumsum([g if g > 20 else 0 for _, _, g in stream])
    whole = run(standard, addresses, writes, arrivals, refresh=refresh)
    sent = commands(whole)
    assert violations(standard, sent) == []
    assert (int(whole.reads.sum()), int(whole.writes.sum())) == (len(stream) - sum(writes), sum(writes))
    # the column commands are the requests, as a multiset of (write, bank, row)
    _, banks, rows = standard.address_map().decode(np.array(addresses, np.uint64), standard)
    wanted = sorted(zip(writes, banks.tolist(), rows.tolist(), strict=True))
    assert wanted == sorted((c == Command.WR, b, r) for _, c, b, r in sent if c in (Command.RD, Command.WR))
    assert int((whole.hits + whole.misses + whole.conflicts).sum()) == len(stream) == int(whole.latency.sum())
    assert int(whole.activates.sum()) == sum(c == Command.ACT for _, c, _, _ in sent)
    parts = run(standard, addresses, writes, arrivals, refresh=refresh, chunks=chunks)
    for field in dataclasses.fields(DramResult):
        assert np.array_equal(getattr(whole, field.name), getattr(parts, field.name)), field.name


H200 = load_standard("hbm3e", 6.402)


def test_chunks_do_not_matter_over_many_channels() -> None:
    rng = np.random.default_rng(5)
    addresses = rng.integers(0, 1 << 24, 20_000).astype(np.uint64) * 32
    arrivals = np.cumsum(rng.exponential(0.02, 20_000))
    results = []
    for chunk in (20_000, 333):
        dram = Dram(H200, H200.address_map("h200"))
        for k in range(0, 20_000, chunk):
            part = slice(k, k + chunk)
            dram.feed(addresses[part], addresses[part] % 96 == 0, arrivals[part])
        results.append(dram.result())
    assert results[0].requests == 20_000 and len(results[0].reads) == 94
    for field in dataclasses.fields(DramResult):
        assert np.array_equal(getattr(results[0], field.name), getattr(results[1], field.name)), field.name


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 36), st.sampled_from([1, 3, 47, 94, 192]), st.booleans())
def test_an_address_map_is_one_to_one(base: int, channels: int, hashed: bool) -> None:
    """No two accesses share channel, bank, row and column; what is dropped here is offset and column."""
    text = f"offset 32, column 4, channel {channels}{' hashed' * hashed}, pseudo_channel 2 hashed, column 8, "
    used = AddressMap.parse(text + "bank_group 4 hashed, bank 4 hashed, stack_id 2, row")
    used.check(HBM3)
    assert used.channels == channels
    addresses = np.uint64(base // 128 * 128) + np.arange(0, 1 << 18, 128, dtype=np.uint64)
    channel, bank, row = used.decode(addresses, HBM3)
    assert channel.min() >= 0 and channel.max() < channels and bank.max() < HBM3.banks
    places, count = np.unique(np.stack([channel, bank, row]), axis=1, return_counts=True)
    assert count.max() <= 8  # pieces of a row: the high column's values
    assert len(addresses) <= places.shape[1] * 8


def test_the_ramulator_map_is_plain_bits() -> None:
    address = (5 << 16) | (3 << 14) | (2 << 12) | (1 << 11) | (1 << 10) | (7 << 5)
    channel, bank, row = HBM3.address_map().decode(np.array([address], np.uint64), HBM3)
    assert (channel[0], row[0]) == (0, 5)
    assert bank[0] == ((1 * 2 + 1) * 4 + 2) * 4 + 3  # pseudo-channel, stack id, bank group, bank


def test_latency_bins_hold_what_they_say() -> None:
    edges = bin_edges(1.0)
    for ticks in [*range(200), 1023, 1024, 99_999, 1 << 30]:
        k = dram_loop.latency_bin(ticks)
        assert edges[k] <= ticks < edges[k + 1] <= max(edges[k] + 1, edges[k] * 1.126)
    result = run(HBM2, [0])
    assert result.percentile(0.5) == pytest.approx(result.elapsed_ns, rel=0.125)
    assert result.percentile(0.5, service=True) >= result.elapsed_ns * 0.999


def test_percentiles_grow_with_the_load() -> None:
    addresses = np.random.default_rng(0).integers(0, 1 << 20, N).astype(np.uint64) * 32
    slow = run(HBM3, addresses, arrivals=np.arange(N) * 20.0)
    fast = run(HBM3, addresses, arrivals=np.arange(N) * 2.0)
    assert slow.percentile(0.5) < slow.percentile(0.99) < fast.percentile(0.99)
    assert slow.percentile(0.01) >= HBM3.read_latency * HBM3.tick_ns


# ---------------------------------------------------------------------------------------------------
# Data and bad input
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", standards())
def test_standards_are_consistent(name: str) -> None:
    s = load_standard(name)
    assert s.access_bytes == 32
    assert s.timing["nRC"] >= s.timing["nRAS"]
    # a burst at the pins' rate takes nBL, and reads of other bank groups follow without a gap
    assert s.timing["nBL"] * s.tick_ns == pytest.approx(s.access_bytes / (s.channel_peak / s.pseudo_channels))
    assert s.timing["nCCDS"] == s.timing["nBL"] <= s.timing["nCCDL"]
    assert {r.name for r in s.rules} == {
        p.removeprefix("rules.") for p in s.quantities if p.startswith("rules.")
    }
    s.address_map().check(s)


@pytest.mark.parametrize("stride_words", [16, 64, 256, 1024])
def test_the_stride_experiment_of_an_h200_is_met(stride_words: int) -> None:
    """Calibrated on it: this guards the calibration.  From 8,192 words on the card's TLBs decide."""
    rows = json.loads(calibrate_dram.RECORD.read_text(encoding="utf-8"))["rows"]
    measured = next(
        r["useful_GBps"] for r in rows if r["kernel"] == "read" and r["stride_words"] == stride_words
    )
    ours, _ = calibrate_dram.model(H200, stride_words, words=320_000)
    assert ours == pytest.approx(measured, rel=0.06)


def test_timings_in_ns_follow_the_pin_rate() -> None:
    slow, fast = load_standard("hbm3", 5.2), load_standard("hbm3", 6.4)
    assert slow.timing["nCCDS"] == fast.timing["nCCDS"]
    assert slow.timing["nRC"] < fast.timing["nRC"]
    assert slow.timing["nRC"] * slow.tick_ns >= 45 - 0.01
    assert 94 * H200.channel_peak == pytest.approx(4814, rel=0.001)  # 6,016 bits at 6.402 Gbit/s


@pytest.mark.parametrize(
    "text",
    ["", "offset 32", "offset 32, row 4", "offset 32, color 2, row", "offset 32, row, bank 4",
     "offset -1, row", "row hashed"],
)  # fmt: skip
def test_bad_maps_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        AddressMap.parse(text)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="no DRAM standard"):
        load_standard("sdram")
    with pytest.raises(InputError, match="no address map"):
        HBM2.address_map("h200")
    with pytest.raises(InputError, match="bank_group"):
        Dram(HBM2, AddressMap.parse("offset 32, column 32, pseudo_channel 2, bank 4, row"))
    with pytest.raises(InputError, match="holds"):
        Dram(HBM2, AddressMap.parse("offset 32, column 8, pseudo_channel 2, bank_group 4, bank 4, row"))
    with pytest.raises(ValueError, match="record"):
        Dram(HBM2, HBM2.address_map(), record=(1, 10))
    dram = Dram(HBM2, HBM2.address_map())
    one = np.zeros(1, np.uint64), np.zeros(1, np.bool_)
    dram.feed(*one, np.array([5.0]))
    with pytest.raises(ValueError, match="back in time"):
        dram.feed(*one, np.array([4.0]))
    dram.result()
    with pytest.raises(ValueError, match="no more"):
        dram.feed(*one, np.array([6.0]))


def test_the_timeline_is_bounded_and_of_one_channel() -> None:
    dram = Dram(H200, H200.address_map("h200"), record=(7, 50))
    addresses = np.arange(50_000, dtype=np.uint64) * 32
    dram.feed(addresses, np.zeros(50_000, np.bool_), np.zeros(50_000))
    result = dram.result()
    assert result.timeline.shape == (50, 4)
    assert violations(H200, commands(result)) == []


def test_nothing_fed_is_no_result() -> None:
    result = Dram(HBM2, HBM2.address_map()).result()
    assert (result.requests, result.elapsed_ns, result.achieved_gbps) == (0, 0, 0)
    with pytest.raises(ValueError, match="no request"):
        result.percentile(0.5)


@pytest.mark.parametrize("refresh", [False, True])
def test_channels_without_requests_end(refresh: bool) -> None:
    """One access: 93 of 94 channels never see a request."""
    dram = Dram(H200, H200.address_map("h200"), refresh=refresh)
    dram.feed(np.zeros(1, np.uint64), np.zeros(1, np.bool_), np.zeros(1))
    assert dram.result().requests == 1

"""Shared memory: banks, wavefronts and which lanes fight over which bank.

What it models: the wavefronts one warp access needs in the 32 x 4-byte banks of sm_90, by the rules of
hardware.md 3, which reproduce 1,175 one-warp patterns measured on an H200 (validation/measurements/h200/
patterns.jsonl).  This file holds the geometry and the per-lane detail for reports, one access at a
time and in plain Python; `gpusim.memory.counters` applies the same rules, compiled, to whole chunks.

The rules, with degree(S) = over the banks, the most *distinct words* lanes S touch in one bank:

====================  ==========================================================================
LDS, STS <= 32 bit    degree(all active lanes)
STS.64, STS.128       sum of degree over groups of 16, 8 lanes
LDS.64, LDS.128       as the store; if every active lane has the address of lane^1 (or that lane is
                      inactive), or every one that of lane^2, neighbouring groups merge in pairs
LDSM, STSM            sum of degree over groups of 8 row addresses of 16 bytes
ATOMS                 most *lanes* in one bank; 64 bit in groups of 16; compare-and-swap twice that
LDGSTS                `gpusim.memory.copies`
====================  ==========================================================================

The profiler's source page computes its own number, which differs for wide loads (`docs/rules.md`).

Units: bytes, words of ``word_bytes``, wavefronts.  Left out: time, arbitration with other traffic,
TMA.  What hardware has not settled is named by :func:`unsettled`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.device import DeviceSpec
from gpusim.events import LANES, Flag, Kind, Space


@dataclass(frozen=True, slots=True)
class SharedGeometry:
    """Shape of shared memory, from the device file.

    banks: number of banks; word_bytes: width of a bank, bytes.  Both powers of two.
    """

    banks: int
    word_bytes: int

    def __post_init__(self) -> None:
        for name, value, most in (("banks", self.banks, 64), ("word_bytes", self.word_bytes, 16)):
            if not (4 <= value <= most and value & (value - 1) == 0):
                raise ValueError(f"{name} must be a power of two from 4 to {most}, not {value}")

    @classmethod
    def from_device(cls, spec: DeviceSpec) -> SharedGeometry:
        return cls(banks=spec.integer("shared.banks"), word_bytes=spec.integer("shared.bank_bytes"))


@dataclass(frozen=True, slots=True)
class Touch:
    """One lane's use of one bank: lane 0-31, bank number, word = byte address / word_bytes."""

    lane: int
    bank: int
    word: int


@dataclass(frozen=True, slots=True)
class LaneGroup:
    """Lanes the hardware serves together.

    lanes: the active ones; degree: wavefronts the group costs; words_by_bank: bank -> the distinct
    words asked of it, ascending (only banks in use).
    """

    lanes: tuple[int, ...]
    degree: int
    words_by_bank: dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class BankMap:
    """Everything a picture of one shared access needs.

    groups: non-empty lane groups in order; wavefronts: one tuple of touches for each wavefront, in
    order; ideal_wavefronts: number of non-empty groups; which wavefront of its group serves a word
    is not observable, so words of a bank are served in lane order here.
    """

    groups: tuple[LaneGroup, ...]
    wavefronts: tuple[tuple[Touch, ...], ...]
    ideal_wavefronts: int
    unsettled: str | None

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts beyond the conflict-free count, as the profiler reports them."""
        return len(self.wavefronts) - self.ideal_wavefronts

    def conflict_degree(self) -> dict[int, int]:
        """Bank -> most wavefronts any one group needs for it (1 is conflict-free)."""
        degree: dict[int, int] = {}
        for touches in self._by_group():
            for bank, count in touches.items():
                degree[bank] = max(degree.get(bank, 0), count)
        return dict(sorted(degree.items()))

    def _by_group(self) -> list[dict[int, int]]:
        result, start = [], 0
        for group in self.groups:
            counts: dict[int, int] = {}
            for wavefront in self.wavefronts[start : start + group.degree]:
                for bank in {touch.bank for touch in wavefront}:
                    counts[bank] = counts.get(bank, 0) + 1
            start += group.degree
            result.append(counts)
        return result

    def fights(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """(bank, lanes) for every bank a group needs more than once: who fights over what."""
        result, start = [], 0
        for group, counts in zip(self.groups, self._by_group(), strict=True):
            served = self.wavefronts[start : start + group.degree]
            start += group.degree
            for bank in sorted(bank for bank, count in counts.items() if count > 1):
                lanes = {touch.lane for wavefront in served for touch in wavefront if touch.bank == bank}
                result.append((bank, tuple(sorted(lanes))))
        return tuple(result)


def active_lanes(mask: int) -> tuple[int, ...]:
    """Lanes whose bit is set."""
    return tuple(lane for lane in range(LANES) if mask >> lane & 1)


def lane_groups(
    kind: Kind, width: int, mask: int, addresses: list[int], geometry: SharedGeometry
) -> list[tuple[int, ...]]:
    """Active lanes of each non-empty group, merged where the hardware merges loads."""
    size = LANES * geometry.word_bytes // max(width, geometry.word_bytes)
    if kind is Kind.LOAD and size < LANES:
        lanes = set(active_lanes(mask))
        if any(
            all(addresses[lane] == addresses[lane ^ d] for lane in lanes if lane ^ d in lanes) for d in (1, 2)
        ):
            size *= 2
    groups: dict[int, list[int]] = {}
    for lane in active_lanes(mask):
        groups.setdefault(lane // size, []).append(lane)
    return [tuple(group) for group in groups.values()]


def bank_map(event: np.void, geometry: SharedGeometry) -> BankMap:
    """Groups, wavefronts and words of one shared event (a row of dtype EVENT)."""
    kind, width, mask = Kind(int(event["kind"])), int(event["nbytes"]), int(event["mask"])
    if event["space"] != Space.SHARED:
        raise ValueError(f"bank_map needs a shared event, not {Space(int(event['space'])).name.lower()}")
    addresses = [int(a) for a in event["addresses"]]
    flags = int(event["flags"])
    groups: list[LaneGroup] = []
    wavefronts: list[tuple[Touch, ...]] = []
    for lanes in lane_groups(kind, width, mask, addresses, geometry):
        served = _serve(kind, width, lanes, addresses, geometry) * (2 if flags & Flag.CAS else 1)
        words: dict[int, set[int]] = {}
        for touch in (touch for wavefront in served for touch in wavefront):
            words.setdefault(touch.bank, set()).add(touch.word)
        groups.append(
            LaneGroup(lanes, len(served), {bank: tuple(sorted(w)) for bank, w in sorted(words.items())})
        )
        wavefronts.extend(tuple(wavefront) for wavefront in served)
    return BankMap(tuple(groups), tuple(wavefronts), len(groups), unsettled(kind, flags, width))


def _serve(
    kind: Kind, width: int, lanes: tuple[int, ...], addresses: list[int], geometry: SharedGeometry
) -> list[list[Touch]]:
    """Touches of one group, wavefront by wavefront, by the rule of the access kind."""
    touches = [
        Touch(lane, word % geometry.banks, word)
        for lane in lanes
        for word in range(
            addresses[lane] // geometry.word_bytes, (addresses[lane] + width - 1) // geometry.word_bytes + 1
        )
    ]
    merges = kind not in (Kind.ATOMIC, Kind.ASYNC_COPY)  # a REDUCTION counts lanes on one word together
    turns: dict[int, dict[tuple[int, int], int]] = {}  # bank -> what one pass can serve -> which pass
    wavefronts: list[list[Touch]] = []
    for touch in touches:
        served = turns.setdefault(touch.bank, {})
        turn = served.setdefault((touch.word, -1 if merges else touch.lane), len(served))
        if turn == len(wavefronts):
            wavefronts.append([])
        wavefronts[turn].append(touch)
    return wavefronts


def unsettled(kind: Kind, flags: int, width: int) -> str | None:
    """What is not known of some such shared accesses (`Counter.UNSETTLED_SHARED` says which), or None."""
    if kind is Kind.ASYNC_COPY and flags & Flag.BYPASS_L1:
        return (
            "LDGSTS past L1: sets of sectors that are neither one rotation nor one exclusive-or of the sector"
            " positions are estimated"
        )
    if kind is Kind.ASYNC_COPY:
        return "LDGSTS through L1 where the shared and the global side conflict: estimated, up to a third off"
    if kind is Kind.LOAD and width > 4:
        return "the profiler's count of a wide load with some lanes off, where lane groups could merge"
    return None

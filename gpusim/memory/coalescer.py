"""Global and local memory in front of L1: requests, sectors, lines.

What it models: how the load-store unit breaks one warp access into 128-byte lines and 32-byte
sectors (hardware.md 4 and 11; 933 one-warp patterns measured on an H200 are reproduced in requests,
sectors, lines and tag wavefronts).  This file holds the geometry and the per-lane detail for reports;
`gpusim.memory.counters` applies the same rules, compiled, to chunks of events.

Units: bytes, and counts of sectors and lines.  Left out: hits and misses (`cache`), the merging of partial
writes on the way to L2.

The tag bank of a line on sm_90 is linear over the bits of its number.  The low 13 bits of the masks in the
device file come from a search over every pair of masks against the recorded tag wavefronts (one solution, no
pattern left over), the bits to 23 from two-lane probes that read them off directly; both agree, and 48
patterns of random lines that neither saw are reproduced.  The hash published for older parts misses 180 of
the 848.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from gpusim.device import DeviceSpec
from gpusim.events import Kind, Space
from gpusim.memory.shared import active_lanes


@dataclass(frozen=True, slots=True)
class GlobalGeometry:
    """Shape of the L1 tag stage, from the device file.

    sector_bytes, line_bytes: powers of two; tag_bank_masks: bit k of a line's tag bank is the parity
    of (line number & mask k), so 2 masks make 4 banks; tag_bank_line_bits: low bits of the line number for
    which the masks are measured (0: the hash is carried over from another architecture).
    """

    sector_bytes: int
    line_bytes: int
    tag_bank_masks: tuple[int, ...]
    tag_bank_line_bits: int

    def __post_init__(self) -> None:
        for name, value in (("sector_bytes", self.sector_bytes), ("line_bytes", self.line_bytes)):
            if not (16 <= value <= 4096 and value & (value - 1) == 0):
                raise ValueError(f"{name} must be a power of two from 16 to 4096, not {value}")
        if self.line_bytes < self.sector_bytes:
            raise ValueError(f"a line of {self.line_bytes} bytes cannot hold a sector of {self.sector_bytes}")
        if not 1 <= len(self.tag_bank_masks) <= 6 or not all(0 < m < 1 << 24 for m in self.tag_bank_masks):
            raise ValueError(f"1 to 6 tag bank masks of at most 24 bits, not {self.tag_bank_masks}")

    @classmethod
    def from_device(cls, spec: DeviceSpec) -> GlobalGeometry:
        bits = spec.integer("l1.tag_banks").bit_length() - 1
        known = "l1.tag_bank_line_bits"
        return cls(
            sector_bytes=spec.integer("l1.sector_bytes"),
            line_bytes=spec.integer("l1.line_bytes"),
            tag_bank_masks=tuple(
                sum(1 << bit for bit in spec.integers(f"l1.tag_bank_bit{k}")) for k in range(bits)
            ),
            tag_bank_line_bits=spec.integer(known) if spec.has(known) else 0,
        )

    def tag_bank(self, line: int) -> int:
        """Tag bank of a line number (byte address / line_bytes)."""
        return sum(((line & mask).bit_count() & 1) << k for k, mask in enumerate(self.tag_bank_masks))

    def tag_wavefronts_known(self, lines: Collection[int]) -> bool:
        """Whether these lines differ only in bits that the masks were measured over."""
        return len({line >> self.tag_bank_line_bits for line in lines}) <= 1 or len(set(lines)) == 1


@dataclass(frozen=True, slots=True)
class SectorMap:
    """Which lanes use which sector.

    lanes_by_sector: sector number (byte address / sector_bytes) -> active lanes in it, ascending;
    lines: line number -> sectors of it in use; distinct_addresses: number of different lane addresses;
    rounds: passes over distinct addresses (1 for loads and stores, more for atomics on one word).
    """

    lanes_by_sector: dict[int, tuple[int, ...]]
    lines: dict[int, tuple[int, ...]]
    distinct_addresses: int
    rounds: int


def sector_map(event: np.void, geometry: GlobalGeometry) -> SectorMap:
    """Sectors, lines and rounds of one global event (a row of dtype EVENT)."""
    if event["space"] != Space.GLOBAL:
        raise ValueError(f"sector_map needs a global event, not {Space(int(event['space'])).name.lower()}")
    addresses = {lane: int(event["addresses"][lane]) for lane in active_lanes(int(event["mask"]))}
    sectors: dict[int, list[int]] = {}
    for lane, address in addresses.items():
        sectors.setdefault(address // geometry.sector_bytes, []).append(lane)
    per_line = geometry.line_bytes // geometry.sector_bytes
    lines: dict[int, list[int]] = {}
    for sector in sorted(sectors):
        lines.setdefault(sector // per_line, []).append(sector)
    values = list(addresses.values())
    serial = Kind(int(event["kind"])) in (Kind.ATOMIC, Kind.REDUCTION)
    return SectorMap(
        {sector: tuple(sectors[sector]) for sector in sorted(sectors)},
        {line: tuple(used) for line, used in lines.items()},
        len(set(values)),
        max((values.count(a) for a in set(values)), default=0) if serial else min(1, len(values)),
    )


def unsettled(kind: Kind) -> str | None:
    """What is not known of some such global accesses (`Counter.UNSETTLED_GLOBAL` says which), or None."""
    if kind in (Kind.ATOMIC, Kind.REDUCTION):
        return (
            "sectors of an atomic whose lanes of both half-warps meet in one sector: the card visits such a"
            " sector once or twice (2 of 34 patterns measured differ)"
        )
    return None

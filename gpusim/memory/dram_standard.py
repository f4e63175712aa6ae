"""DRAM standards and address maps from ``gpusim/devices/dram``: organisation, timings, timing rules as rows.

Units: ns and clocks in the files, ticks here (a tick is a clock of the standard, half a clock for HBM3).
Every number of a file has unit, kind and source.  Left out: what a controller does with them
(`gpusim.memory.dram`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpusim import device
from gpusim.errors import InputError
from gpusim.memory.dram_address import decode
from gpusim.memory.dram_state import MAX_BANKS, MAX_PSEUDO, MAX_RULES, MAX_SLOTS, RING, Command, Level

Int64 = npt.NDArray[np.int64]

#: A clock late is what a period rounded to whole ps may cost: JEDEC's rounding of ns to clocks forgives
#: 1/100.
_FORGIVEN = 0.01


@dataclass(frozen=True, slots=True)
class Rule:
    """A timing rule: after the ``window``-th last of ``preceding`` at a node, ``following`` waits ``ticks``
    there.

    ``ticks`` are counted from first tick to first tick of the two commands: a standard's latency holds
    between the ends of the commands, so commands of different lengths shift it.
    """

    level: Level
    preceding: Command
    following: Command
    ticks: int
    window: int = 1
    name: str = ""


@dataclass(frozen=True)
class DramStandard:
    """A DRAM standard at one pin rate, from a file of ``gpusim/devices/dram``.

    ``occupancy``: ticks a command keeps its bus busy; ``start``: ticks a command's first tick is a multiple
    of; ``timing``: ticks by name; latencies, from a column command to the end of its data, and the refresh
    interval in ticks; ``write_high`` and ``write_low``: entries of the write queue.
    """

    name: str
    title: str
    pin_rate: float
    tick_ns: float
    pseudo_channel_bits: int
    access_bytes: int
    page_bytes: int
    pseudo_channels: int
    stack_ids: int
    bank_groups: int
    banks_per_group: int
    one_bus: bool
    occupancy: tuple[int, ...]
    start: tuple[int, ...]
    timing: dict[str, int]
    rules: tuple[Rule, ...]
    read_latency: int
    write_latency: int
    refresh_interval: int
    read_queue: int
    write_queue: int
    write_high: int
    write_low: int
    quantities: dict[str, device.Quantity]

    @property
    def banks(self) -> int:
        """Banks of a channel, over all its pseudo-channels."""
        return self.pseudo_channels * self.stack_ids * self.bank_groups * self.banks_per_group

    @property
    def channel_peak(self) -> float:
        """GB/s of one channel's data pins."""
        return self.pseudo_channels * self.pseudo_channel_bits * self.pin_rate / 8

    @property
    def assumed(self) -> list[str]:
        """Paths of the file whose value nobody published for this standard."""
        return [path for path, q in self.quantities.items() if q.kind == "assumed"]

    def address_map(self, name: str = "one_channel") -> AddressMap:
        """A map of the file's table ``map``."""
        try:
            text = self.quantities[f"map.{name}"].value
        except KeyError:
            known = ", ".join(p.removeprefix("map.") for p in self.quantities if p.startswith("map."))
            raise InputError(f"{self.title} has no address map '{name}'", hint=f"known: {known}") from None
        return AddressMap.parse(str(text))


def standards() -> list[str]:
    """Names of the standards in ``gpusim/devices/dram``."""
    return sorted(p.stem for p in (device._root() / "dram").glob("*.toml") if p.stem != "common")


@cache
def load_standard(name: str, pin_rate: float | None = None) -> DramStandard:
    """The standard called ``name`` (``hbm3``); ``pin_rate`` in Gbit/s, the file's own without.

    Timings in ns are rounded up to clocks of that rate, those in clocks stay.
    """
    if name not in standards():
        raise InputError(f"there is no DRAM standard '{name}'", hint=f"known: {', '.join(standards())}")
    path: Path = device._root() / "dram" / f"{name}.toml"
    layers = device._layers(path)
    q = device._merge(layers)
    spec = device.DeviceSpec(name, layers[-1]["title"], "", q)
    number, integer = spec.number, spec.integer
    rate = number("organisation.pin_rate") if pin_rate is None else pin_rate
    if not rate > 0:
        raise InputError(f"a pin rate of {rate} Gbit/s", where=name)
    per_clock = integer("organisation.ticks_per_clock")
    clock_ns = integer("organisation.bits_per_clock") / rate

    def ticks(path: str) -> int:
        value = number(path)
        if spec.unit(path) == "ns":
            return math.ceil(value / clock_ns - _FORGIVEN) * per_clock
        return round(value * per_clock)

    timing = {p.removeprefix("timing."): ticks(p) for p in q if p.startswith("timing.")}
    occupancy = tuple(ticks(f"occupancy.{c.name}") for c in Command)
    rules = [
        rule
        for p in q
        if p.startswith("rules.")
        for rule in _rules(spec.text(p), p.removeprefix("rules."), timing, occupancy, per_clock)
    ]
    write_queue = integer("controller.write_queue")
    standard = DramStandard(
        name=name,
        title=spec.title,
        pin_rate=rate,
        tick_ns=clock_ns / per_clock,
        pseudo_channel_bits=integer("organisation.pseudo_channel_bits"),
        access_bytes=integer("organisation.pseudo_channel_bits") * integer("organisation.burst_bits") // 8,
        page_bytes=integer("organisation.page_bytes"),
        pseudo_channels=integer("organisation.pseudo_channels"),
        stack_ids=integer("organisation.stack_ids"),
        bank_groups=integer("organisation.bank_groups"),
        banks_per_group=integer("organisation.banks_per_group"),
        one_bus=integer("organisation.command_buses") == 1,
        occupancy=occupancy,
        start=tuple(ticks(f"start.{c.name}") for c in Command),
        timing=timing,
        rules=tuple(sorted(rules, key=lambda r: (r.preceding, r.following))),
        read_latency=timing["nCL"] + timing["nBL"],
        write_latency=timing["nCWL"] + timing["nBL"],
        refresh_interval=timing["nREFI"],
        read_queue=integer("controller.read_queue"),
        write_queue=write_queue,
        write_high=math.floor(write_queue * number("controller.write_high") / 100),
        write_low=math.ceil(write_queue * number("controller.write_low") / 100),
        quantities=q,
    )
    slots = standard.read_queue + write_queue + standard.banks
    if (
        standard.pseudo_channels > MAX_PSEUDO
        or standard.banks > min(MAX_BANKS, 64 * standard.pseudo_channels)
        or slots > MAX_SLOTS
        or len(rules) > MAX_RULES
    ):
        what = (
            f"{standard.banks} banks, {slots} requests or {len(rules)} timing rules in a channel are too many"
        )
        raise InputError(what, where=str(path), hint="the limits stand in gpusim/memory/dram_state.py")
    if any(s & (s - 1) for s in standard.start):
        raise InputError("commands start on multiples of 1, 2, 4 ... ticks", where=str(path))
    return standard


_RULE = re.compile(r"(other )?(\w+): (?:(\d+) )?([A-Z ]+?) -> ([A-Z ]+?) = (.+)")


def _rules(
    text: str, name: str, timing: dict[str, int], occupancy: Sequence[int], per_clock: int
) -> list[Rule]:
    """The rows of a rule like ``pseudo_channel: 4 ACT -> ACT = nFAW``; bare numbers are clocks."""
    match = _RULE.fullmatch(text)
    if match is None:
        hint = "bank: ACT -> RD WR = nRCD + 1"
        raise InputError(f"the timing rule '{name}' does not read {text!r}", hint=hint)
    other, level_name, window, before, after, sum_text = match.groups()
    latency, sign = 0, 1
    for word in sum_text.split():
        if word in "+-":
            sign = 1 if word == "+" else -1
            continue
        if not word.isdigit() and word not in timing:
            raise InputError(f"the timing rule '{name}' uses {word}, which [timing] does not state")
        latency += sign * (int(word) * per_clock if word.isdigit() else timing[word])
    key = "OTHER_STACK" if other and level_name == "stack_id" else level_name.upper()
    names = (*before.split(), *after.split())
    if (
        key not in Level.__members__
        or (other and key != "OTHER_STACK")
        or not set(names) <= {*Command.__members__}
    ):
        raise InputError(f"the timing rule '{name}' names an unknown level or command: {text!r}")
    level, count = Level[key], int(window or 1)
    whole = {"PREA", "REF"} & set(names)
    if ((whole or count > 1) and level != Level.PSEUDO_CHANNEL) or count > RING:
        what = f"of all banks, or that counts back (at most {RING}), holds at the level pseudo_channel"
        raise InputError(f"the timing rule '{name}' {what}: {text!r}")
    return [
        Rule(
            level,
            Command[b],
            Command[a],
            latency + occupancy[Command[b]] - occupancy[Command[a]],
            count,
            name,
        )
        for b in before.split()
        for a in after.split()
    ]


# ---------------------------------------------------------------------------------------------------
# Addresses
# ---------------------------------------------------------------------------------------------------

_TARGETS = {"channel": 1, "row": 2, "pseudo_channel": 3, "stack_id": 3, "bank_group": 3, "bank": 3}


@dataclass(frozen=True, slots=True)
class Field:
    """A digit of an address: ``size`` values of a level; ``hashed``: mixed with everything above it.

    A hashed field of 2^k values is XORed with all k-bit groups above it; one of another size is shifted by a
    hash of what is above, modulo its size.  Both keep the map one to one.  Size 0 takes all that is left.
    """

    level: str
    size: int
    hashed: bool = False


@dataclass(frozen=True, slots=True)
class AddressMap:
    """A byte address as digits, low to high; a level may have several (low and high part of the column).

    Sizes need not be powers of two: the address is written in mixed radix.
    """

    fields: tuple[Field, ...]

    @classmethod
    def parse(cls, text: str) -> AddressMap:
        """``offset 32, column 32, channel 94 hashed, bank_group 4, bank 4, row`` as in a device file."""
        fields = []
        for part in text.split(","):
            words = part.split()
            hashed = words[-1:] == ["hashed"]
            size = words[1 : len(words) - hashed]
            if not words or words[0] not in (*_TARGETS, "offset", "column") or len(size) > 1:
                raise InputError(f"an address field is a level and its size, not {part.strip()!r}")
            if size and not (size[0].replace("_", "").isdigit() and int(size[0]) > 0):
                raise InputError(f"an address field of {size[0]} values")
            fields.append(Field(words[0], int(size[0]) if size else 0, hashed))
        if (
            [f.level for f in fields if f.size == 0] != ["row"]
            or fields[-1].level != "row"
            or fields[-1].hashed
        ):
            raise InputError(f"an address map ends with a row that takes what is left: {text!r}")
        return cls(tuple(fields))

    def size(self, level: str) -> int:
        """Values of a level, over all its fields (1 if it has none)."""
        return math.prod(f.size for f in self.fields if f.level == level)

    @property
    def channels(self) -> int:
        return self.size("channel")

    def check(self, standard: DramStandard) -> None:
        """An :class:`InputError` unless the map addresses exactly the banks and pages of the standard."""
        expected = {
            "pseudo_channel": standard.pseudo_channels,
            "stack_id": standard.stack_ids,
            "bank_group": standard.bank_groups,
            "bank": standard.banks_per_group,
        }
        for level, size in expected.items():
            if self.size(level) != size:
                raise InputError(
                    f"the map has {self.size(level)} values of {level}, {standard.title} has {size}"
                )
        if self.size("offset") * self.size("column") != standard.page_bytes:
            held = self.size("offset") * self.size("column")
            raise InputError(
                f"a row of the map holds {held} bytes, a page of {standard.title} {standard.page_bytes}"
            )

    def decode(
        self, addresses: npt.NDArray[np.uint64], standard: DramStandard
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Int64]:
        """Channel, bank (flat: pseudo-channel, stack id, group, bank) and row of each byte address."""
        rows, masks, strides = self._tables(standard)
        n = len(addresses)
        channels, banks, row = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int64)
        decode(np.ascontiguousarray(addresses, np.uint64), rows, masks, strides, channels, banks, row)
        return channels, banks, row

    def _tables(self, standard: DramStandard) -> tuple[Int64, npt.NDArray[np.uint64], Int64]:
        group = standard.banks_per_group
        stack = standard.bank_groups * group
        weight = {
            "bank": 1,
            "bank_group": group,
            "stack_id": stack,
            "pseudo_channel": standard.stack_ids * stack,
        }
        rows = np.zeros((len(self.fields), 4), np.int64)
        masks = np.zeros((len(self.fields), 16), np.uint64)
        strides = np.zeros(len(self.fields), np.int64)
        for i, f in enumerate(self.fields):
            bits = f.size.bit_length() - 1 if f.size & (f.size - 1) == 0 else -1
            rows[i] = bits, f.size, f.hashed, _TARGETS.get(f.level, 0)
            strides[i] = weight.get(f.level, 1)
            weight[f.level] = int(strides[i]) * f.size
            for k in range(bits if f.hashed else 0):
                masks[i, k] = sum(1 << b for b in range(k, 64, bits))
        return rows, masks, strides

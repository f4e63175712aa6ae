"""DRAM behind the memory controllers: channels, pseudo-channels, bank groups, banks, row buffers.

What it models: every channel sends activate, precharge, read, write and refresh commands over its row and
column command buses to banks that keep their row open, under all timing rules of the standard.  Requests wait
in a read and a write queue a channel and are chosen first-ready first-come (FR-FCFS); writes are drained
between two fills of their queue.  After Ramulator 2 (Luo et al., IEEE CAL 2023), whose scheduling and whose
rules as rows it follows; docs/dram.md compares the two.

Units: bytes, ns outside and ticks inside, GB/s = bytes/ns.  Standards and address maps are data
(`gpusim.memory.dram_standard`); maps are assumed, because no vendor publishes one.

Left out: power-down, per-bank refresh, ECC, thermal throttling, reads served from queued writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gpusim.memory import dram_loop as loop
from gpusim.memory.dram_address import bucket
from gpusim.memory.dram_standard import AddressMap, DramStandard, Field, Rule, load_standard, standards
from gpusim.memory.dram_state import (
    CONFIG,
    LATENCY_BINS,
    MAX_BANKS,
    MAX_SLOTS,
    N_COMMANDS,
    NEVER,
    STATE,
    Command,
    Level,
)  # fmt: skip

__all__ = [
    "AddressMap", "Command", "Dram", "DramResult", "DramStandard", "Field", "Level", "Rule", "bin_edges",
    "load_standard", "standards",
]  # fmt: skip

Int64 = npt.NDArray[np.int64]


def bin_edges(tick_ns: float) -> npt.NDArray[np.float64]:
    """Lower edges, in ns, of the latency bins: one a tick below 16 ticks, then 8 an octave."""
    k = np.arange(LATENCY_BINS)
    shift = np.maximum(0, k // 8 - 1)
    return np.where(k < 16, k, (k - 8 * shift) * 2.0**shift) * tick_ns


@dataclass(frozen=True)
class DramResult:
    """What the DRAM did; arrays have one entry a channel.

    ``elapsed_ns``: first arrival to last data.  ``latency``: requests by `bin_edges` of the time from arrival
    to the end of data; ``service``: the same from the entry into a queue, which excludes waiting before a
    full one. ``timeline``: (tick, `Command`, flat bank, row; -1: all banks of the pseudo-channel) of the
    recorded channel.
    """

    tick_ns: float
    access_bytes: int
    peak_gbps: float
    elapsed_ns: float
    reads: Int64
    writes: Int64
    hits: Int64
    misses: Int64
    conflicts: Int64
    activates: Int64
    refreshes: Int64
    latency: Int64
    service: Int64
    timeline: Int64

    @property
    def requests(self) -> int:
        return int(self.reads.sum() + self.writes.sum())

    @property
    def bytes_read(self) -> int:
        return int(self.reads.sum()) * self.access_bytes

    @property
    def bytes_written(self) -> int:
        return int(self.writes.sum()) * self.access_bytes

    @property
    def achieved_gbps(self) -> float:
        """Bytes moved over ``elapsed_ns``, GB/s."""
        return (self.bytes_read + self.bytes_written) / self.elapsed_ns if self.elapsed_ns else 0.0

    @property
    def row_shares(self) -> tuple[float, float, float]:
        """Row hits, misses (bank closed) and conflicts (other row open) as shares of the requests."""
        total = max(1, self.requests)
        return tuple(int(x.sum()) / total for x in (self.hits, self.misses, self.conflicts))  # type: ignore[return-value]

    def percentile(self, share: float, *, service: bool = False) -> float:
        """Latency in ns below which ``share`` of the requests lie: the upper edge of its bin (1/8 wide)."""
        counts = np.cumsum(self.service if service else self.latency)
        if counts[-1] == 0:
            raise ValueError("no request, no latency")
        k = int(np.searchsorted(counts, share * counts[-1]))
        return float(bin_edges(self.tick_ns)[min(k + 1, LATENCY_BINS - 1)])


class Dram:
    """All channels of a memory; requests flow through in chunks and only queues, banks and counters are kept.

    ``refresh=False`` leaves refresh out; ``record=(channel, commands)`` keeps the first commands of one
    channel.
    """

    def __init__(
        self,
        standard: DramStandard,
        address_map: AddressMap,
        *,
        refresh: bool = True,
        record: tuple[int, int] | None = None,
    ) -> None:
        address_map.check(standard)
        self.standard, self.map = standard, address_map
        channels = address_map.channels
        self._shown, commands = record if record is not None else (-1, 0)
        if record is not None and not (0 <= self._shown < channels and commands >= 0):
            raise ValueError(f"there is no channel {self._shown} to record: {channels} channels")
        self._timeline = np.zeros((commands, 4), np.int64)
        self._config = _config(standard, refresh)
        self._states = states = np.zeros(channels, STATE)
        for name in ("row", "active", "offer", "head", "tail", "now", "sent"):
            states[name] = -1
        for name in ("next_column", "next_row", "first_arrival"):
            states[name] = NEVER
        states["next_refresh"] = standard.refresh_interval
        states["r_next"] = np.arange(1, MAX_SLOTS + 1)
        self._last = 0  # tick of the last arrival
        self._finished = False

    def feed(
        self,
        addresses: npt.NDArray[np.uint64],
        writes: npt.NDArray[np.bool_],
        arrival_ns: npt.NDArray[np.float64],
    ) -> None:
        """Requests of one access each (``access_bytes``), in the order of their arrival, which never goes
        back.

        A request that finds its queue full waits, and all later ones of its channel behind it.
        """
        if self._finished:
            raise ValueError("the result was asked for: there is no more to feed")
        if not len(addresses) == len(writes) == len(arrival_ns):
            raise ValueError("one address, one write flag and one arrival a request")
        if len(addresses) == 0:
            return
        arrivals = np.ceil(np.asarray(arrival_ns, np.float64) / self.standard.tick_ns).astype(np.int64)
        if arrivals[0] < self._last or np.any(arrivals[1:] < arrivals[:-1]):
            raise ValueError("arrivals must not go back in time")
        self._last = int(arrivals[-1])
        channels, banks, rows = self.map.decode(addresses, self.standard)
        self._run(channels, banks, rows, np.ascontiguousarray(writes, np.bool_), arrivals, self._last)

    def result(self) -> DramResult:
        """Serves what still waits and returns the counters; nothing can be fed afterwards."""
        if not self._finished:
            none = np.empty(0, np.int32)
            self._run(none, none, np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0, np.int64), NEVER)
            self._finished = True
        if self._states["waiting"].any():
            raise RuntimeError("requests were left over: the scheduler is stuck")
        return self._result

    @cached_property
    def _result(self) -> DramResult:
        s, c = self.standard, self._states
        return DramResult(
            tick_ns=s.tick_ns,
            access_bytes=s.access_bytes,
            peak_gbps=self.map.channels * s.channel_peak,
            elapsed_ns=float(max(0, c["last_data"].max() - c["first_arrival"].min())) * s.tick_ns,
            reads=c["served"][:, 0],
            writes=c["served"][:, 1],
            hits=c["row_hits"],
            misses=c["row_misses"],
            conflicts=c["row_conflicts"],
            activates=c["activates"],
            refreshes=c["refreshes"],
            latency=c["total"].sum(axis=0),
            service=c["service"].sum(axis=0),
            timeline=self._timeline[: int(c["recorded"][self._shown])],
        )

    def _run(
        self,
        channels: npt.NDArray[np.int32],
        banks: npt.NDArray[np.int32],
        rows: Int64,
        writes: npt.NDArray[np.bool_],
        arrivals: Int64,
        horizon: int,
    ) -> None:
        ends = np.zeros(self.map.channels + 1, np.int64)
        order = bucket(channels, ends)
        loop.run(
            self._states,
            self._config,
            self._shown,
            self._timeline,
            order,
            ends,
            banks,
            rows,
            writes,
            arrivals,
            horizon,
        )


def _config(standard: DramStandard, refresh: bool) -> npt.NDArray[np.void]:
    """The standard as the compiled loop reads it."""
    config = np.zeros(1, CONFIG)
    k = config[0]
    group = standard.banks_per_group
    stack = standard.bank_groups * group
    pseudo = standard.stack_ids * stack
    k["pseudo"], k["per_pseudo"], k["per_stack"], k["per_group"] = (
        standard.pseudo_channels,
        pseudo,
        stack,
        group,
    )
    k["one_bus"], k["refresh"] = standard.one_bus, standard.refresh_interval if refresh else 0
    k["latency"] = standard.read_latency, standard.write_latency
    k["queue"] = standard.read_queue, standard.write_queue
    k["high"], k["low"] = standard.write_high, standard.write_low
    k["occupancy"], k["start"] = standard.occupancy, standard.start
    bank = np.arange(MAX_BANKS)
    k["pseudo_of"], k["stack_of"], k["group_of"] = (
        bank // pseudo,
        bank // stack * stack,
        bank // group * group,
    )
    k["first_rule"] = np.searchsorted([r.preceding for r in standard.rules], np.arange(N_COMMANDS + 1))
    for i, r in enumerate(standard.rules):
        k["level"][i], k["following"][i], k["ticks"][i], k["window"][i] = (
            r.level,
            r.following,
            r.ticks,
            r.window,
        )
    return config

"""Memory instructions gathered by source line, and what each one means in words.

Input are the per-instruction rows of a result (counters named as the profiler's source page names
them).  A *verdict* compares what an access cost with what the same lanes would have cost at the best
addresses; the counters are wavefronts for shared memory and 32-byte sectors for global memory.

Verdicts leave out local memory (spills), whose layout is the compiler's and not the programmer's; the traffic
between L1, L2 and DRAM (`LineTraffic`, predictions) has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

#: Opcode -> (memory space, what it does).  LDGSTS reads global and writes shared memory.
MEMORY_OPCODES: dict[str, tuple[tuple[str, str], ...]] = {
    "LDS": (("shared", "load"),),
    "LDSM": (("shared", "load"),),
    "STS": (("shared", "store"),),
    "STSM": (("shared", "store"),),
    "ATOMS": (("shared", "atomic"),),
    "LDG": (("global", "load"),),
    "LD": (("global", "load"),),
    "STG": (("global", "store"),),
    "ST": (("global", "store"),),
    "RED": (("global", "atomic"),),
    "ATOM": (("global", "atomic"),),
    "ATOMG": (("global", "atomic"),),
    "LDGSTS": (("global", "load"), ("shared", "store")),
}

_SASS = re.compile(r"(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.[A-Za-z0-9_]+)*)")

#: A ratio this close to one is one: partial warps at ragged edges move it a little.
_SAME = 1.005


@dataclass(frozen=True, slots=True)
class LineAccess:
    """All executions of one kind of memory access on one source line.

    ``cost`` and ``ideal`` are wavefronts (shared) or sectors (global); ``requests`` executions with at
    least one lane; ``lane_bytes`` bytes moved to or from lanes; ``distinct_bytes`` bytes at distinct
    addresses, summed over executions (None where the simulator does not count them).
    """

    file: str | None
    line: int | None
    space: str
    kind: str
    opcode: str
    requests: int
    cost: int
    ideal: int
    lane_bytes: int
    distinct_bytes: int | None

    def plus(self, other: LineAccess) -> LineAccess:
        """Both together: another instruction of the same kind on the same line."""
        known = self.distinct_bytes is not None and other.distinct_bytes is not None
        return replace(
            self,
            requests=self.requests + other.requests,
            cost=self.cost + other.cost,
            ideal=self.ideal + other.ideal,
            lane_bytes=self.lane_bytes + other.lane_bytes,
            distinct_bytes=(self.distinct_bytes or 0) + (other.distinct_bytes or 0) if known else None,
        )

    def pattern(self) -> tuple[float, float, float]:
        """What tells accesses of one line apart: cost and ideal a request, lanes a word."""
        per_request = self.requests or 1
        lanes = self.lanes_per_word or 0.0
        return round(self.cost / per_request, 1), round(self.ideal / per_request, 1), round(lanes, 1)

    @property
    def excess(self) -> int:
        """Wavefronts or sectors over the ideal."""
        return max(0, self.cost - self.ideal)

    @property
    def ratio(self) -> float:
        """Cost over ideal; 1 is the best."""
        return self.cost / self.ideal if self.ideal else 1.0

    @property
    def cost_per_request(self) -> float:
        """Wavefronts or sectors of one execution by one warp."""
        return self.cost / self.requests if self.requests else 0.0

    @property
    def lanes_per_word(self) -> float | None:
        """How many lanes share one word on average (1: every lane has its own)."""
        if not self.distinct_bytes:
            return None
        return self.lane_bytes / self.distinct_bytes

    @property
    def is_broadcast(self) -> bool:
        """Lanes read the same words."""
        shared_by = self.lanes_per_word
        return self.kind == "load" and shared_by is not None and shared_by > 1.5

    def verdict(self) -> str:
        """The access in a few words."""
        if self.cost == 0:
            return "not executed"
        share = ""
        if self.is_broadcast:
            # Sectors only bound how many lanes share a word, so the number is given for shared memory alone.
            lanes = f" ({self.lanes_per_word:.3g} lanes a word)" if self.space == "shared" else ""
            share = f"broadcast{lanes}"
        if self.space == "shared":
            cost = "no conflict" if self.ratio <= _SAME else f"{self.ratio:.3g}-way conflict"
        elif self.ratio <= _SAME:
            cost = "" if share else "coalesced"
        else:
            cost = f"uncoalesced: {self.ratio:.3g}x the sectors needed"
        return ", ".join(part for part in (share, cost) if part)


def opcode_of(sass: str) -> tuple[str, str]:
    """Opcode and full dotted name of a SASS line: ``("LDS", "LDS.U.128")``."""
    match = _SASS.match(sass.strip())
    return (match[1], match[1] + match[2]) if match else ("", "")


def access_width(name: str) -> int:
    """Bytes a lane of a memory opcode, from its dotted name (4 when it names none)."""
    parts = name.split(".")[1:]
    if name.startswith(("LDSM", "STSM")):  # one word a lane for each matrix
        return next((4 * n for n in (4, 2) if str(n) in parts), 4)
    for part, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)):
        if part in parts:
            return size
    return 4


def place_of(row: Mapping[str, Any], main: str | None) -> tuple[str | None, int | None]:
    """(file, line) a reader looks for: where an access in a header's helper was called from in ``main``.

    main: the file that was compiled, or None.  Lines of ``main`` itself stay, and so do those of code that
    was never called from it.
    """
    chain = ((row["file"], row["line"]), *row.get("inlined_at", ()))
    file, line = next((at for at in chain if main is not None and at[0] == Path(main).name), chain[0])
    return file, line


def by_line(instructions: Iterable[Mapping[str, Any]], main: str | None = None) -> list[LineAccess]:
    """Memory accesses by line (see :func:`place_of`) and opcode, in the order of their first instruction.

    Instructions of one line that behave differently stay apart: in ``sum += As[ty][k] * Bs[k][tx]`` one read
    is a broadcast and the other is not.
    """
    found: dict[tuple[Any, ...], LineAccess] = {}
    for row in instructions:
        opcode, name = opcode_of(str(row["sass"]))
        file, line = place_of(row, main)
        for space, kind in MEMORY_OPCODES.get(opcode, ()):
            cost, ideal, distinct = _counters(row, space)
            one = LineAccess(
                file=file,
                line=line,
                space=space,
                kind=kind,
                opcode=name,
                requests=int(row["inst_executed"]),
                cost=cost,
                ideal=ideal,
                lane_bytes=int(row["thread_inst_executed"]) * access_width(name),
                distinct_bytes=distinct,
            )
            key = (one.file, one.line, space, name, *one.pattern())
            found[key] = found[key].plus(one) if key in found else one
    return list(found.values())


def _counters(row: Mapping[str, Any], space: str) -> tuple[int, int, int | None]:
    """(cost, ideal, distinct bytes) of one instruction in one memory space."""
    if space == "shared":
        words = row.get("shared_distinct_words")
        return (
            int(row.get("memory_l1_wavefronts_shared", 0)),
            int(row.get("memory_l1_wavefronts_shared_ideal", 0)),
            None if words is None else 4 * int(words),
        )
    ideal = int(row.get("memory_l2_theoretical_sectors_global_ideal", 0))
    # The ideal is ceil(distinct addresses x width / 32) an execution, so it bounds the distinct bytes.
    return int(row.get("memory_l2_theoretical_sectors_global", 0)), ideal, 32 * ideal


@dataclass(frozen=True, slots=True)
class LineTraffic:
    """What one kind of access on one source line moved between the memories, in sectors of 32 bytes.

    l1_hit: loaded from L1 (None for local memory, of which the rows do not say it); to_l1: that came from L2;
    from_l1: that went to L2; l2_hit: of the ``l2`` sectors that L2 was asked for or given after merging;
    dram_read: fetched from DRAM for its misses.
    """

    file: str | None
    line: int | None
    opcode: str
    l1_hit: int | None
    to_l1: int
    from_l1: int
    l2: int
    l2_hit: int
    dram_read: int

    def plus(self, other: LineTraffic) -> LineTraffic:
        """Both together: another instruction of the same opcode on the same line."""
        known = self.l1_hit is not None and other.l1_hit is not None
        return replace(
            self,
            l1_hit=(self.l1_hit or 0) + (other.l1_hit or 0) if known else None,
            to_l1=self.to_l1 + other.to_l1,
            from_l1=self.from_l1 + other.from_l1,
            l2=self.l2 + other.l2,
            l2_hit=self.l2_hit + other.l2_hit,
            dram_read=self.dram_read + other.dram_read,
        )

    @property
    def moved(self) -> int:
        """Sectors between L1 and L2, both ways."""
        return self.to_l1 + self.from_l1

    @property
    def l1_hit_rate(self) -> float | None:
        """Share of the loaded sectors that were in L1; None for what loads nothing through it."""
        if self.l1_hit is None or not self.l1_hit + self.to_l1 or self.from_l1:
            return None
        return self.l1_hit / (self.l1_hit + self.to_l1)

    @property
    def l2_hit_rate(self) -> float | None:
        """Share of the sectors that L2 had, or was given."""
        return self.l2_hit / self.l2 if self.l2 else None


def traffic_by_line(instructions: Iterable[Mapping[str, Any]], main: str | None = None) -> list[LineTraffic]:
    """Traffic by line (see :func:`place_of`) and opcode, most sectors first; empty if not predicted."""
    found: dict[tuple[Any, ...], LineTraffic] = {}
    for row in instructions:
        if "sectors_to_l1" not in row:
            continue
        opcode, name = opcode_of(str(row["sass"]))
        file, line = place_of(row, main)
        one = LineTraffic(
            file=file,
            line=line,
            opcode=name,
            l1_hit=None if opcode == "LDL" else int(row["sectors_l1_hit"]),
            to_l1=int(row["sectors_to_l1"]),
            from_l1=int(row["sectors_from_l1"]),
            l2=int(row["sectors_l2_read"]) + int(row["sectors_l2_write"]),
            l2_hit=int(row["sectors_l2_hit"]),
            dram_read=int(row["sectors_dram_read"]),
        )
        if one.moved or one.l1_hit:
            key = (file, line, name)
            found[key] = found[key].plus(one) if key in found else one
    return sorted(found.values(), key=lambda t: (-t.moved, -(t.l1_hit or 0)))


def worst(accesses: Iterable[LineAccess], space: str, kind: str) -> LineAccess | None:
    """The access with the worst ratio of that space and kind (the costlier one of two alike)."""
    found = [a for a in accesses if a.space == space and a.kind == kind and a.cost]
    return max(found, key=lambda a: (a.ratio, a.cost), default=None)

"""The numbered list of known gaps, from ``deviations.toml``; ``DEVIATIONS.md`` is made from it.

A gap names the launches and metrics it concerns by patterns (``fnmatch``), as narrow as it can.  A difference
in the exact tier that a pattern covers is *known*; any other fails a comparison.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpusim.errors import InputError

FILE = Path(__file__).resolve().parent / "deviations.toml"

INTRODUCTION = """\
# Where predictions and the H200 differ

This page is made from `validation/deviations.toml` by `make docs`; do not edit it. Every known difference
between a counter in the exact tier and the H200's is numbered here, and from no. 10 on why the traffic of the
memories, which is modelled, is more than 15 % off in some launches. Patterns name launches (by record id) and
metrics. A difference in the exact tier that is not listed fails the comparison with the records, and so does
a listed one that is gone. [docs/accuracy.md](../docs/accuracy.md) counts them.
"""


@dataclass(frozen=True, slots=True)
class Where:
    """Patterns of launch ids and of metric names (or source-page columns); both must match."""

    launches: tuple[str, ...]
    metrics: tuple[str, ...]

    def covers(self, launch: str, metric: str) -> bool:
        return any(fnmatchcase(launch, p) for p in self.launches) and any(
            fnmatchcase(metric, p) for p in self.metrics
        )


@dataclass(frozen=True, slots=True)
class Deviation:
    """A known gap: what differs, why, whether it is open, and where."""

    number: int
    title: str
    why: str
    status: str
    where: tuple[Where, ...]

    def covers(self, launch: str, metric: str) -> bool:
        return any(place.covers(launch, metric) for place in self.where)


def deviation_for(launch: str, metric: str, deviations: Sequence[Deviation] | None = None) -> int | None:
    """The number of the first gap that covers a metric of a launch, if any."""
    for deviation in load() if deviations is None else deviations:
        if deviation.covers(launch, metric):
            return deviation.number
    return None


@lru_cache
def load(path: Path = FILE) -> tuple[Deviation, ...]:
    """The gaps by number; InputError names what is wrong with the file."""
    found: list[Deviation] = []
    for entry in _read(path).get("deviation", []):
        place = f"{path}: deviation {entry.get('number', len(found) + 1)}"
        number = entry.get("number")
        if not isinstance(number, int) or number < 1 or any(d.number == number for d in found):
            raise InputError("number is missing, not positive, or used twice", where=place)
        if missing := [k for k in ("title", "why", "status") if not str(entry.get(k, "")).strip()]:
            raise InputError(f"{missing[0]} is missing", where=place)
        where = tuple(_where(w, place) for w in entry.get("where", []))
        found.append(Deviation(number, entry["title"], entry["why"], entry["status"], where))
    return tuple(sorted(found, key=lambda d: d.number))


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path)) from error


def _where(entry: Any, place: str) -> Where:
    try:
        launches, metrics = tuple(entry["launches"]), tuple(entry["metrics"])
    except (KeyError, TypeError):
        raise InputError("where needs launches and metrics, both lists", where=place) from None
    if not launches or not metrics or not all(isinstance(p, str) for p in launches + metrics):
        raise InputError("launches and metrics are lists of patterns, not empty", where=place)
    return Where(launches, metrics)


def page(path: Path = FILE) -> str:
    """``DEVIATIONS.md``."""
    lines = [INTRODUCTION, "| no. | what | why | where | status |", "|---|---|---|---|---|"]
    for d in load(path):
        places = "<br>".join(f"{_quoted(w.launches)}: {_quoted(w.metrics)}" for w in d.where)
        cells = (" ".join(cell.split()) for cell in (str(d.number), d.title, d.why, places, d.status))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    notes = str(_read(path).get("notes", "")).strip()
    return "\n".join([*lines, *(["", notes] if notes else [])]) + "\n"


def _quoted(patterns: Sequence[str]) -> str:
    return ", ".join(f"`{p}`" for p in patterns)


if __name__ == "__main__":
    sys.stdout.write(page())

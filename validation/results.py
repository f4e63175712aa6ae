"""The results of a comparison with records: collected, as JSON (``gpusim.comparison/1``), and as tables.

Same records and same predictions give the same bytes.  ``metrics`` and ``columns`` hold, by name, what became
of the (launch, metric) pairs and of the (instruction, column) pairs; ``by_launch`` the same by launch;
``differences`` every launch-wide pair that is not equal, and every instruction's in the exact tier;
``moved`` the memories' traffic of launches with more than 1 MiB of it, equal or not.

Format history: 1, the first one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from gpusim import __version__
from gpusim.errors import InputError
from gpusim.metrics import DRAM_WRITE, SECTOR_BYTES, TRAFFIC
from gpusim.report.text import number, plain_table
from gpusim.validation import deviations as known
from gpusim.validation.compare import Pair, counts

if TYPE_CHECKING:
    from gpusim.validation.recorded import Outcome

SCHEMA = "gpusim.comparison/1"
EXACT = ("equal", "known", "differs")
COMPARED = (*EXACT, "close")
MIB = 1 << 20
ERRORS = ("median_pct", "p90_pct", "worst_pct")

#: Differences shown on the terminal; the JSON holds all.
SHOWN = 40


def collect(outcomes: Sequence[Outcome], *, whole: bool) -> dict[str, Any]:
    """The results as plain values; ``whole``: everything recorded was compared, so that gaps can be stale."""
    pairs = [p for o in outcomes for p in o.metrics if p.verdict in COMPARED]
    names = sorted({p.metric for p in pairs})
    unequal = [p for o in outcomes for p in o.pairs if p.verdict in ("known", "differs", "close")
               and (p.pc is None or p.verdict != "close")]  # fmt: skip
    return {
        "schema": SCHEMA,
        "gpusim": __version__,
        "whole": whole,
        "origins": _origins(outcomes),
        "launches": {
            "compared": sum(bool(o.pairs) for o in outcomes),
            "with_instructions": sum(bool(o.columns) for o in outcomes),
            "sampled": [o.id for o in outcomes if o.sampled],
            "failed": {o.id: o.problem for o in outcomes if o.failed},
            "left_out": {o.id: o.problem for o in outcomes if o.problem and not o.failed},
        },
        "metrics": {name: _metric([p for p in pairs if p.metric == name]) for name in names},
        "moved": moved(pairs),
        "columns": _columns(outcomes),
        "by_launch": {o.id: _launch(o) for o in outcomes if o.pairs},
        "differences": [_difference(p) for p in unequal],
        "stale": _stale(outcomes, unequal) if whole else [],
    }


def moved(pairs: Iterable[Pair]) -> dict[str, dict[str, list[float]]]:
    """metric -> launch -> [predicted, measured], of the memories' traffic where it is more than 1 MiB."""
    out: dict[str, dict[str, list[float]]] = {name: {} for name in (*(d.name for d in TRAFFIC), DRAM_WRITE)}
    for p in pairs:
        if p.metric in out and p.predicted is not None and p.measured is not None:
            least = MIB if "bytes" in p.metric else MIB // SECTOR_BYTES
            if max(p.predicted, p.measured) > least:
                out[p.metric][p.launch] = [p.predicted, p.measured]
    return {name: rows for name, rows in out.items() if rows}


def spread(launches: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """Median and 90th percentile of the relative error, of launch -> [predicted, measured]: each that of a
    launch, the worse of two; one measured as 0 is infinitely wrong."""
    errors = [abs(p - m) / m if m else math.inf for p, m in launches.values()]
    median, p90 = np.percentile(errors, (50, 90), method="higher")
    return float(median), float(p90)


def _origins(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Where and how the launches were measured, one entry for each combination."""
    found: dict[tuple[tuple[str, str], ...], int] = {}
    for o in outcomes:
        if o.origin:
            key = tuple(sorted(o.origin.items()))
            found[key] = found.get(key, 0) + 1
    return [{**dict(key), "launches": n} for key, n in sorted(found.items())]


def _metric(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Verdicts of one metric by tier; errors in percent of the measured value."""
    out: dict[str, Any] = {}
    exact = [p for p in pairs if p.tier == "exact"]
    modelled = [p for p in pairs if p.tier != "exact"]
    if exact:
        found = counts(exact)
        out["exact"] = {verdict: found[verdict] for verdict in EXACT}
    if modelled:
        errors = [abs(e) * 100 for p in modelled if (e := p.relative_error) is not None]
        out["modelled"] = {
            "equal": sum(p.verdict == "equal" for p in modelled),
            "close": sum(p.verdict == "close" for p in modelled),
            "without_ratio": len(modelled) - len(errors),  # measured as 0
        }
        if errors:
            median, p90 = np.percentile(errors, [50, 90])
            out["modelled"] |= {"median_pct": _digits(median), "p90_pct": _digits(p90),
                                "worst_pct": _digits(max(errors))}  # fmt: skip
    return out


def _digits(value: float) -> float:
    """Four digits: more would say more than is known."""
    return float(f"{value:.4g}")


def _columns(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    total: dict[str, dict[str, int]] = {}
    for o in outcomes:
        for column, found in o.columns.items():
            sums = total.setdefault(column, dict.fromkeys(COMPARED, 0))
            for verdict in COMPARED:
                sums[verdict] += found[verdict]
    return dict(sorted(total.items()))


def _launch(outcome: Outcome) -> dict[str, Any]:
    found = counts(outcome.metrics)
    row: dict[str, Any] = {verdict: found[verdict] for verdict in COMPARED}
    if outcome.columns:
        row["instructions"] = {v: sum(c[v] for c in outcome.columns.values()) for v in COMPARED}
    return row


def _difference(pair: Pair) -> dict[str, Any]:
    entry: dict[str, Any] = {"launch": pair.launch, "metric": pair.metric}
    if pair.pc is not None:
        entry["pc"] = pair.pc
    entry |= {"predicted": pair.predicted, "measured": pair.measured, "tier": pair.tier,
              "verdict": pair.verdict}  # fmt: skip
    if pair.deviation is not None:
        entry["deviation"] = pair.deviation
    return entry


def _stale(outcomes: Sequence[Outcome], unequal: Sequence[Pair]) -> list[str]:
    """Patterns of numbered gaps that fit compared launches, of which none differs any more."""
    compared = [o.id for o in outcomes if o.pairs]
    seen = {(p.launch, p.metric) for p in unequal if p.verdict == "known"}
    return [
        f"no. {d.number}: {pattern}: {', '.join(w.metrics)}"
        for d in known.load()
        for w in d.where
        for pattern in w.launches
        if any(fnmatchcase(id, pattern) for id in compared)
        and not any(known.Where((pattern,), w.metrics).covers(*place) for place in seen)
    ]


def passed(results: Mapping[str, Any]) -> bool:
    """No exact counter differs without a numbered reason, nothing failed, and no reason is stale."""
    bad = any(d["verdict"] == "differs" for d in results["differences"])
    return not (bad or results["launches"]["failed"] or results["stale"])


def totals(results: Mapping[str, Any]) -> dict[str, int]:
    """(launch, metric) pairs of the exact tier by verdict, and ``compared``."""
    found = {v: sum(m.get("exact", {}).get(v, 0) for m in results["metrics"].values()) for v in EXACT}
    return {**found, "compared": sum(found.values())}


def dump(results: Mapping[str, Any]) -> str:
    """One line an entry, so that a change can be read in a diff."""
    parts = []
    for key, value in results.items():
        if isinstance(value, list) and value:
            inner = ",\n".join("  " + json.dumps(v) for v in value)
            parts.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        elif isinstance(value, dict) and value:
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def read(path: str | Path) -> dict[str, Any]:
    """Results from a file."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path)) from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise InputError(f"is not {SCHEMA}", where=str(path), hint="gpusim validate --recorded --json F")
    return data


# --- Terminal ----------------------------------------------------------------------------------------------


def render(results: Mapping[str, Any]) -> RenderableType:
    """Tables by metric and column, the differences, and one sentence."""
    parts: list[RenderableType] = []
    exact = plain_table("Exact tier: (launch, metric) pairs", "metric", ">compared", ">equal", ">known",
                        ">differ")  # fmt: skip
    modelled = plain_table("Modelled: error in % of the measured value", "metric", ">compared", ">equal",
                           ">median", ">90th percentile", ">worst")  # fmt: skip
    for name, by_tier in results["metrics"].items():
        if found := by_tier.get("exact"):
            exact.add_row(name, *_verdict_cells(found))
        if found := by_tier.get("modelled"):
            modelled.add_row(name, f"{found['equal'] + found['close']:,}", f"{found['equal']:,}",
                             *(_pct(found.get(key)) for key in ERRORS))  # fmt: skip
    parts.append(exact)
    if results["columns"]:
        columns = plain_table("By instruction: (launch, instruction) pairs of a source-page column", "column",
                              ">compared", ">equal", ">known", ">differ", ">modelled, not equal")  # fmt: skip
        for name, found in results["columns"].items():
            columns.add_row(name, *_verdict_cells(found), f"{found['close']:,}")
        parts += [Text(), columns]
    if modelled.row_count:
        parts += [Text(), modelled]
    parts += _difference_table(results)
    parts += [Text(), Text(sentence(results), style="bold")]
    return Group(*parts)


def _verdict_cells(found: Mapping[str, int]) -> tuple[RenderableType, ...]:
    compared = sum(found.get(v, 0) for v in COMPARED)
    bad = Text(f"{found['differs']:,}", style="bold red" if found["differs"] else "")
    return f"{compared:,}", f"{found['equal']:,}", f"{found['known']:,}", bad


def _pct(value: float | None) -> str:
    return "-" if value is None else digits(value)


def digits(value: float, sign: str = "") -> str:
    """Three digits without an exponent: 0.0012, 1.68, 31,000."""
    rounded = float(f"{value:.3g}")
    decimals = 0 if rounded == 0 else max(0, 2 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:{sign},.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _difference_table(results: Mapping[str, Any]) -> list[RenderableType]:
    parts: list[RenderableType] = []
    rows = [d for d in results["differences"] if d["verdict"] == "differs"]
    if rows:
        table = plain_table("Exact counters that differ without a numbered reason", "launch", "metric", "pc",
                            ">predicted", ">measured")  # fmt: skip
        for d in rows[:SHOWN]:
            pc = f"{d['pc']:#06x}" if "pc" in d else ""
            table.add_row(Text(d["launch"]), d["metric"], pc, number(d["predicted"]), number(d["measured"]))
        parts += [Text(), table]
        if len(rows) > SHOWN:
            parts.append(Text(f"... and {len(rows) - SHOWN:,} more (--json FILE holds all)"))
    for what, heading in (("failed", "Launches that could not be compared"), ("left_out", "Left out")):
        entries = results["launches"][what]
        if entries:
            parts += [Text(), Text(f"{heading}: {len(entries)}", style="bold")]
            parts += [Text(f"  {id}: {why}") for id, why in list(entries.items())[:SHOWN]]
    if results["stale"]:
        parts += [Text(), Text("Numbered, but gone; shrink deviations.toml:", style="bold red")]
        parts += [Text(f"  {line}") for line in results["stale"]]
    return parts


def sentence(results: Mapping[str, Any]) -> str:
    """What came out, in one sentence."""
    total, launches = totals(results), results["launches"]
    compared = launches["compared"]
    text = (
        f"{compared:,} launch{'' if compared == 1 else 'es'}: {total['equal']:,} of {total['compared']:,} "
        f"(launch, metric) pairs of the exact tier are equal, {total['known']:,} differ for numbered "
        f"reasons, {total['differs']:,} without"
    )
    columns = results["columns"].values()
    compared, equal = (sum(c[v] for c in columns for v in verdicts) for verdicts in (COMPARED, ("equal",)))
    if compared:
        text += f"; {equal:,} of {compared:,} per-instruction values are equal"
    if launches["failed"]:
        text += f"; {len(launches['failed'])} launches failed"
    return text + "."

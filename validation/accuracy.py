"""``docs/accuracy.md``: how predictions and records compare, from the results of a comparison.

``python -m gpusim.validation.accuracy RESULTS.json`` prints the page; ``gpusim validate --recorded --page F``
writes it together with the comparison.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpusim.errors import GpusimError
from gpusim.validation import deviations as known
from gpusim.validation import results as kept

INTRODUCTION = """\
# How accurate

This page is made from the records by a command (last section); do not edit it. The binaries that a GPU ran
are simulated with the same arguments, and every number is laid beside the profiler's. The exact tier must be
equal, number by number: counts of instructions, requests, sectors and wavefronts, registers, occupancy. Each
exception is numbered in [validation/DEVIATIONS.md](../validation/DEVIATIONS.md). The modelled tier shows its
error.
"""

FIGURE = "![Predicted against measured](accuracy.png)\n"


#: Errors above this are listed one by one.
LISTED = 0.15
HELD = Path(__file__).parent / "measurements" / "h200" / "sizes_compared.json"


def page(results: Mapping[str, Any]) -> str:
    """The page of one comparison, beside the sizes that nothing was tuned on if it is of all records."""
    held = json.loads(HELD.read_text(encoding="utf-8")) if results["whole"] and HELD.is_file() else {}
    return "\n".join(
        part
        for part in (
            INTRODUCTION,
            f"**{kept.sentence(results)}**\n",
            FIGURE,
            _exact(results),
            _instructions(results),
            _exceptions(results),
            _modelled(results),
            _moved(results, held),
            _made(results),
        )
        if part
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a column whose name starts with > is set right."""
    lines = [
        f"| {' | '.join(h.removeprefix('>') for h in header)} |",
        f"|{'|'.join('---:' if h.startswith('>') else '---' for h in header)}|",
    ]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _exact(results: Mapping[str, Any]) -> str:
    rows = [
        (f"`{name}`", f"{sum(found.values()):,}", *(f"{found[v]:,}" for v in kept.EXACT))
        for name, by_tier in results["metrics"].items()
        if (found := by_tier.get("exact"))
    ]
    total = kept.totals(results)
    rows.append(("**all**", f"{total['compared']:,}", *(f"{total[v]:,}" for v in kept.EXACT)))
    header = ("metric", ">compared", ">equal", ">numbered exception", ">unexplained")
    return (
        "## Exact tier, launch by launch\n\n(launch, metric) pairs. A metric that a launch's report calls "
        f"modelled is counted further below.\n\n{_table(header, rows)}"
    )


def _instructions(results: Mapping[str, Any]) -> str:
    if not results["columns"]:
        return ""
    rows = [
        (f"`{name}`", *(f"{n:,}" for n in (sum(found.values()), *(found[v] for v in kept.COMPARED))))
        for name, found in results["columns"].items()
    ]
    header = ("column", ">compared", ">equal", ">numbered exception", ">unexplained", ">modelled, not equal")
    return (
        "## Instruction by instruction\n\nValues of the profiler's source page, one a SASS instruction, of "
        f"{results['launches']['with_instructions']:,} launches.\n\n{_table(header, rows)}"
    )


def _exceptions(results: Mapping[str, Any]) -> str:
    """Launch-wide exceptions one by one; those of single instructions counted."""
    exact = [d for d in results["differences"] if d["verdict"] in ("known", "differs")]
    if not exact:
        return "## Exceptions\n\nNone.\n"
    titles = {d.number: d.title for d in known.load()}
    rows = [
        (
            d["launch"],
            f"`{d['metric']}`",
            _number(d["predicted"]),
            _number(d["measured"]),
            _error(d),
            f"no. {d['deviation']}" if "deviation" in d else "**unexplained**",
        )
        for d in exact
        if "pc" not in d
    ]
    header = ("launch", "metric", ">predicted", ">measured", ">error", "reason")
    text = "## Exceptions\n\n"
    used = sorted({d["deviation"] for d in exact if "deviation" in d})
    text += "".join(f"- no. {n}: {titles.get(n, 'not in deviations.toml any more')}\n" for n in used)
    if used:
        text += "\n"
    if rows:
        text += _table(header, rows)
    single = [d for d in exact if "pc" in d]
    if single:
        launches = {d["launch"] for d in single}
        text += f"\nOf single instructions: {len(single):,} values in {len(launches):,} launches.\n"
    return text


def _modelled(results: Mapping[str, Any]) -> str:
    rows = [
        (
            f"`{name}`",
            f"{found['equal'] + found['close']:,}",
            f"{found['equal']:,}",
            *(f"{kept.digits(found[key])} %" if key in found else "-" for key in kept.ERRORS),
        )
        for name, by_tier in results["metrics"].items()
        if (found := by_tier.get("modelled"))
    ]
    if not rows:
        return ""
    header = ("metric", ">compared", ">equal", ">median error", ">90th percentile", ">worst")
    return (
        "## Modelled tier\n\nError of the prediction in percent of the measured value, over the launches "
        f"whose report calls the metric modelled.\n\n{_table(header, rows)}"
    )


def _moved(results: Mapping[str, Any], held: Mapping[str, Any]) -> str:
    """Traffic of launches that move more than 1 MiB: what the parameters were chosen with, and what not."""
    if not results["moved"]:
        return ""
    parts = [("recorded", results["moved"]), ("held out", held)]
    rows, missed = [], []
    for name in results["moved"]:
        row = [f"`{name}`"]
        for what, found in parts:
            launches = found.get(name, {})
            row += [f"{len(launches):,}", *(f"{kept.digits(100 * e)} %" for e in kept.spread(launches))] if (
                launches) else ["-"] * 3  # fmt: skip
            wrong = [(abs(p - m) / m if m else math.inf, launch, p, m) for launch, (p, m) in launches.items()]
            missed += [
                (f"`{name}`", what, launch, _number(p), _number(m),
                 _error({"predicted": p, "measured": m}))
                for error, launch, p, m in sorted(wrong, reverse=True) if error > LISTED
            ]  # fmt: skip
        rows.append(row)
    header = ["metric"] + [f">{what}: {x}" for what, _ in parts for x in ("launches", "median", "90 %")]
    columns = ("metric", "half", "launch", ">predicted", ">measured", ">error")
    return (
        "## Traffic of launches that move more than 1 MiB\n\nBy metric, the launches of which it is more "
        "than 1 MiB, predicted or measured. *Recorded*: sizes that were looked at while the model of the "
        "memories was made. *Held out*: the catalog at sizes that nothing was tuned on "
        "(measurements/h200/sizes.json), but for one rule, where in its set a line stands that a store "
        f"brings to L1 (T4).\n\n{_table(header, rows)}\nErrors above 15 %, for reasons that "
        f"[validation/DEVIATIONS.md](../validation/DEVIATIONS.md) numbers:\n\n{_table(columns, missed)}"
    )


def _made(results: Mapping[str, Any]) -> str:
    launches = results["launches"]
    lines = list(_origins(results["origins"]))
    lines.append(
        f"- {launches['compared']:,} launches compared, {len(launches['sampled'])} of them from a sample of "
        "CTAs that counted alike ([model.md](model.md), sampling of CTAs); the others executed whole."
    )
    for what, text in (("left_out", "left out"), ("failed", "failed")):
        if launches[what]:
            reasons: dict[str, int] = {}
            for why in launches[what].values():
                reasons[why] = reasons.get(why, 0) + 1
            lines.append(f"- {text}: {'; '.join(f'{n} ({why})' for why, n in sorted(reasons.items()))}")
    return (
        "## How this was made\n\n" + "\n".join(lines) + f"\n- gpusim {results['gpusim']}\n\n"
        "```\ngpusim validate --recorded --json validation/measurements/h200/comparison.json \\\n"
        "  --page docs/accuracy.md --figure docs/accuracy.png\n```\n"
    )


def _origins(origins: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each kind of measurement, dates and counts taken together."""
    groups: dict[tuple[tuple[str, str], ...], list[Mapping[str, Any]]] = {}
    for origin in origins:
        key = tuple((k, v) for k, v in origin.items() if k not in ("date", "launches"))
        groups.setdefault(key, []).append(origin)
    for key, members in groups.items():
        about = dict(key)
        dates = sorted({m["date"] for m in members if "date" in m})
        words = [f"measured on an {about.get('device', 'unknown GPU')}"]
        words += [f"driver {about['driver']}"] if "driver" in about else []
        if "profiler" in about:
            words.append(
                f"{about['profiler']} (cache control {about.get('cache_control', '?')}, clock control "
                f"{about.get('clock_control', '?')})"
            )
        words += [f"binaries of {about['compiler']}"] if "compiler" in about else []
        words += [f"{dates[0]}{f' to {dates[-1]}' if len(dates) > 1 else ''}"] if dates else []
        yield f"- {sum(m['launches'] for m in members):,} {about['what']}: {', '.join(words)}"


def _number(value: float) -> str:
    return f"{value:,}"


def _error(difference: Mapping[str, Any]) -> str:
    measured, predicted = difference["measured"], difference["predicted"]
    return f"{kept.digits(100 * (predicted - measured) / abs(measured), '+')} %" if measured else "-"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m gpusim.validation.accuracy RESULTS.json")
    try:
        sys.stdout.write(page(kept.read(sys.argv[1])))
    except GpusimError as error:
        sys.exit(error.message())

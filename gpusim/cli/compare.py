"""``gpusim compare``: a report beside a user's own export of Nsight Compute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusim.cli.arguments import KernelOption, add_command
from gpusim.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from gpusim.validation.compare import Comparison, Pair
    from gpusim.validation.ncu_export import LaunchRow, SourcePage

#: Instructions shown that differ; --all shows every one, the JSON too.
SHOWN = 20

SCHEMA = "gpusim.compare/1"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        "compare",
        compare,
        "gpusim compare report.json raw.csv",
        "gpusim compare report.json raw.csv source.csv --kernel sgemm --launch 2",
        "gpusim compare ladder.json profile.ncu-rep --json comparison.json",
    )


def compare(
    report: Annotated[
        Path,
        typer.Argument(metavar="REPORT", help="What gpusim simulate or ladder wrote with --json."),
    ],
    export: Annotated[
        list[Path],
        typer.Argument(
            metavar="EXPORT",
            help="Raw, details or source page of Nsight Compute as CSV, or an .ncu-rep. Several add up.",
        ),
    ],
    kernel: KernelOption = None,
    launch: Annotated[
        int | None,
        typer.Option("--launch", metavar="N", help="The launch with this ID, not the first that fits."),
    ] = None,
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write every pair to FILE; - for stdout.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show what is 0 on both sides, or on one side only, too.")
    ] = False,
) -> None:
    """Compare a prediction with what Nsight Compute measured, by metric and by SASS instruction.

    Launches are found by kernel name, grid and block. Counters of the exact tier must be equal; modelled ones
    show their error. The exit code is 1 if an exact counter differs.

    To export: LC_ALL=C ncu -i F.ncu-rep --page raw --csv --print-units base > raw.csv, and --page source for
    single instructions. Other number formats, scaled units and label names are read too.
    """
    import json

    from gpusim.cli.console import show, write_stdout
    from gpusim.output import atomic_write, check_writable
    from gpusim.validation import ncu_export

    if json_path not in (None, "-"):
        check_writable(json_path)
    reports = read_reports(report, kernel)
    exports = [ncu_export.read_export(path) for path in export]
    launches = _together([e.launches for e in exports])
    sources = [page for e in exports for page in e.sources]
    where = ", ".join(map(str, export))
    found = [one for r in reports if (one := _compare_one(r, launches, sources, launch)) is not None]
    if not found:
        raise InputError(f"holds no launch of {_names(reports)}", where=where, hint=_seen(launches, sources))
    if not any(p.verdict not in ("not measured", "not predicted") for c in found for p in c.pairs):
        unknown = ", ".join(sorted({label for e in exports for label in e.unknown_labels})[:8])
        raise InputError(
            "holds no number that gpusim predicts" + (f", but {unknown}" if unknown else ""),
            where=where,
            hint="export the raw page of a profile that has the counters, as of ncu --set full",
        )
    if json_path is not None:
        text = json.dumps(_as_json(found), allow_nan=False, indent=1) + "\n"
        if json_path == "-":
            write_stdout(text)
        else:
            atomic_write(json_path, text)
    if json_path != "-":
        lines = {str(r.get("id") or r["kernel"]["name"]): r for r in reports}
        for comparison in found:
            show(*_render(comparison, lines[comparison.launch], everything), "")
        if len(reports) > len(found):
            show(f"{len(reports) - len(found)} of {len(reports)} reports have no launch in the export.")
    if any(comparison.failed for comparison in found):
        raise typer.Exit(1)


# --- Reading reports ---------------------------------------------------------------------------------------


def read_reports(path: Path, kernel: str | None = None) -> list[dict[str, Any]]:
    """Reports of a JSON file, a JSON-lines file or a ladder; only those of ``kernel`` if one is named."""
    import json

    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else "no text"
        raise InputError(f"cannot read: {reason}", where=str(path)) from error
    try:
        try:
            documents = [json.loads(text)]
        except json.JSONDecodeError:
            documents = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}", where=str(path),
                         hint="the order is gpusim compare REPORT.json EXPORT") from error  # fmt: skip
    reports = [r for d in documents for r in _reports_of(d, str(path))]
    if not reports:
        raise InputError("holds no report", where=str(path))
    if kernel is None:
        return reports
    from gpusim.validation.compare import same_kernel

    chosen = [r for r in reports if same_kernel(r["kernel"]["name"], kernel)]
    if not chosen:
        raise InputError(f"holds no report of {kernel!r}", where=str(path), hint=f"it has {_names(reports)}")
    return chosen


def _reports_of(document: Any, where: str) -> list[dict[str, Any]]:
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema == "gpusim.ladder/1":
        return [r for step in document.get("steps", []) for r in _reports_of(step.get("report"), where)]
    if schema != "gpusim.report/1":
        raise InputError(
            f"is no report of gpusim (schema {schema!r})",
            where=where,
            hint="gpusim simulate ... --json F writes one",
        )
    problem = _malformed(document)
    if problem:
        raise InputError(f"the report is malformed: {problem}", where=where)
    return [document]


def _malformed(report: dict[str, Any]) -> str | None:
    """What this command needs and a report lacks."""
    if not isinstance(report.get("kernel"), dict) or not isinstance(report["kernel"].get("name"), str):
        return "kernel.name is missing"
    shape = report.get("launch")
    if not isinstance(shape, dict) or not all(isinstance(shape.get(k), list) for k in ("grid", "block")):
        return "launch.grid or launch.block is missing"
    metrics, rows = report.get("metrics"), report.get("instructions")
    if not isinstance(metrics, dict) or not isinstance(rows, list):
        return "metrics or instructions are missing"
    for name, metric in metrics.items():
        if not isinstance(metric, dict) or not {"value", "unit", "tier"} <= metric.keys():
            return f"metric {name} has no value, unit and tier"
        if not isinstance(metric["value"], (int, float, type(None))):
            return f"metric {name} is no number"
    for row in rows:
        if not isinstance(row, dict) or (type(row.get("pc")), type(row.get("sass"))) != (int, str):
            return "an instruction has no pc and sass"
    return None


def _names(reports: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(dict.fromkeys(_launch_name(r) for r in reports))


def _launch_name(report: Mapping[str, Any]) -> str:
    grid, block = (",".join(map(str, report["launch"][k])) for k in ("grid", "block"))
    return f"{report['kernel']['name']} (grid {grid}, block {block})"


def _seen(launches: Sequence[LaunchRow], sources: Sequence[SourcePage]) -> str:
    """What the export holds instead."""
    rows = [f"{r.name} (grid {_dim(r.grid)}, block {_dim(r.block)}, ID {r.id})" for r in launches]
    names = list(dict.fromkeys([*rows, *(page.name for page in sources)]))
    more = f", and {len(names) - 8} more" if len(names) > 8 else ""
    return f"it holds: {', '.join(names[:8])}{more}"


def _dim(shape: Any) -> str:
    return "?" if shape is None else ",".join(map(str, shape))


# --- Comparing ---------------------------------------------------------------------------------------------


def _together(exports: Sequence[Sequence[LaunchRow]]) -> list[LaunchRow]:
    """Launches of all exports; pages of one profile (same ID, kernel and shape) complete one another."""
    from dataclasses import replace

    merged: dict[tuple[Any, ...], LaunchRow] = {}
    for rows in exports:
        seen: dict[tuple[Any, ...], int] = {}
        for row in rows:
            about = (row.id, row.name, row.grid, row.block)
            seen[about] = seen.get(about, 0) + 1
            key = (*about, seen[about])  # an export of several processes may use an ID twice
            before = merged.get(key)
            merged[key] = (
                row if before is None else replace(before, metrics={**row.metrics, **before.metrics})
            )
    return list(merged.values())


def _compare_one(
    report: dict[str, Any], launches: Sequence[LaunchRow], sources: Sequence[SourcePage], wanted: int | None
) -> Comparison | None:
    """One report beside its launch and its instructions; None where the export has neither."""
    from dataclasses import replace

    from gpusim.validation import compare as engine
    from gpusim.validation import deviations

    rows = engine.matching_launches(report, launches)
    pages = engine.matching_sources(report, sources)
    notes = []
    place = 0
    if wanted is not None and rows:
        ids = [row.id for row in rows]
        if wanted not in ids:
            raise InputError(
                f"launch {wanted} is not one of {_launch_name(report)}",
                where="--launch",
                hint=f"those are ID {', '.join(map(str, ids[:20]))}",
            )
        place = ids.index(wanted)
    elif len(rows) > 1:
        ids_text = ", ".join(str(row.id) for row in rows[:8]) + (", ..." if len(rows) > 8 else "")
        notes.append(f"{len(rows)} launches fit (ID {ids_text}); the first is compared, --launch N chooses")
    page = None
    if pages and (rows or not launches):
        which = min(place, len(pages) - 1)
        page = pages[which]
        if len(pages) > 1 and len(pages) != len(rows):
            notes.append(f"{len(pages)} source pages fit; number {which + 1} is compared")
    if not rows and page is None:
        return None
    arch = f"sm_{rows[place].capability.replace('.', '')}" if rows and rows[place].capability else ""
    predicted = str(report["kernel"].get("arch", ""))
    if arch and predicted and arch != predicted.rstrip("af"):
        notes.append(f"measured on a GPU of {arch}, predicted for {predicted}")
    measured = engine.LaunchMeasured(rows[place].metrics if rows else {}, page.rows if page else None)
    result = engine.compare(report, measured, deviations.load())
    return replace(result, notes=[*notes, *result.notes])


def _as_json(found: Sequence[Comparison]) -> dict[str, Any]:
    from gpusim.validation.compare import counts

    def pair(p: Pair) -> dict[str, Any]:
        entry = {
            "metric": p.metric, "pc": p.pc, "predicted": p.predicted, "measured": p.measured,
            "unit": p.unit, "tier": p.tier, "verdict": p.verdict, "deviation": p.deviation,
            "relative_error": p.relative_error, "note": p.note,
        }  # fmt: skip
        return {k: v for k, v in entry.items() if v is not None and v != ""}

    return {
        "schema": SCHEMA,
        "verdicts": counts(p for c in found for p in c.pairs),
        "launches": [
            {"launch": c.launch, "notes": list(c.notes), "pairs": [pair(p) for p in c.pairs]} for c in found
        ],
    }


# --- Tables ------------------------------------------------------------------------------------------------

_STYLE = {"equal": "green", "known": "yellow", "differs": "bold red", "close": "cyan"}


def _render(comparison: Comparison, report: Mapping[str, Any], everything: bool) -> list[RenderableType]:
    from rich.text import Text

    from gpusim.report.text import plain_table

    parts: list[RenderableType] = []
    table = plain_table(f"{comparison.launch}: {_launch_name(report)}", "metric", ">predicted", ">measured",
                        ">difference", "unit", "verdict")  # fmt: skip
    zeros = one_sided = 0
    for pair in comparison.metrics:
        if pair.verdict in ("not measured", "not predicted") and not everything:
            one_sided += 1
            continue
        if pair.predicted == pair.measured == 0 and not everything:
            zeros += 1
            continue
        table.add_row(Text(pair.metric), _number(pair.predicted), _number(pair.measured), _difference(pair),
                      Text(pair.unit), _verdict(pair))  # fmt: skip
    if table.row_count:
        parts.append(table)
    if zeros:
        parts.append(Text(f"{zeros} metrics are 0 on both sides and not shown (--all shows them)."))
    parts += _instructions(comparison, report, everything)
    parts += [Text(f"Note: {note}", style="yellow") for note in comparison.notes]
    parts.append(Text(_sentence(comparison, one_sided), style="bold"))
    return parts


def _instructions(
    comparison: Comparison, report: Mapping[str, Any], everything: bool
) -> list[RenderableType]:
    """The instructions that differ, the furthest off first."""
    from rich.text import Text

    from gpusim.report.text import plain_table

    wrong = [p for p in comparison.instructions if p.verdict != "equal"]
    if not wrong:
        return []
    wrong.sort(key=lambda p: (p.verdict != "differs", -abs((p.predicted or 0) - (p.measured or 0)), p.pc))
    shown = wrong if everything else wrong[:SHOWN]
    rows = {row["pc"]: row for row in report["instructions"]}
    table = plain_table("Instructions that differ", "pc", "SASS", "line", "column", ">predicted", ">measured",
                        "verdict")  # fmt: skip
    for pair in shown:
        row = rows[pair.pc]
        place = f"{Path(row['file']).name}:{row['line']}" if row.get("file") else ""
        table.add_row(f"{pair.pc:#06x}", Text(row["sass"]), Text(place), pair.metric, _number(pair.predicted),
                      _number(pair.measured), _verdict(pair))  # fmt: skip
    parts: list[RenderableType] = [Text(), table]
    if len(wrong) > len(shown):
        parts.append(Text(f"... and {len(wrong) - len(shown):,} more (--all shows them)"))
    return parts


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.6g}"


def _difference(pair: Pair) -> str:
    if pair.predicted is None or pair.measured is None or pair.predicted == pair.measured:
        return ""
    error = pair.relative_error
    sign = "+" if pair.predicted > pair.measured else ""
    return f"{sign}{_number(pair.predicted - pair.measured)}" + (f" ({error:+.2%})" if error else "")


def _verdict(pair: Pair) -> RenderableType:
    from rich.text import Text

    words = {"known": f"known, DEVIATIONS no. {pair.deviation}", "close": "modelled"}
    return Text(pair.note or words.get(pair.verdict, pair.verdict), style=_STYLE.get(pair.verdict, ""))


def _sentence(comparison: Comparison, hidden: int) -> str:
    from gpusim.validation.compare import counts

    launch = counts(comparison.metrics)
    exact = launch["equal"] + launch["known"] + launch["differs"]
    equal_modelled = sum(p.verdict == "equal" and p.tier != "exact" for p in comparison.metrics)
    text = f"{launch['equal'] - equal_modelled} of {exact - equal_modelled} exact metrics are equal"
    text += f", {launch['known']} differ for a numbered reason" if launch["known"] else ""
    text += f", {launch['differs']} differ" if launch["differs"] else ""
    modelled = launch["close"] + equal_modelled
    if modelled:
        text += f"; {modelled} modelled"
        errors = [p.relative_error for p in comparison.metrics if p.verdict == "close"]
        worst = max((abs(e) for e in errors if e is not None), default=0.0)
        text += f", at most {worst:.2%} off"
    if single := comparison.instructions:
        text += f"; {counts(single)['equal']:,} of {len(single):,} values of single instructions are equal"
    text += f"; {hidden} on one side only (--all shows them)" if hidden else ""
    return text + "."

"""``gpusim devices``, ``gpusim opcodes``: what gpusim knows, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpusim.cli.arguments import add_command
from gpusim.errors import InputError

if TYPE_CHECKING:
    from gpusim.device_check import Outcome
    from gpusim.report.text import PlainTable


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    add_command(
        app,
        "devices",
        devices,
        "gpusim devices",
        "gpusim devices h200",
        "gpusim devices h200 --only dram",
        "gpusim devices --check",
        "gpusim devices --check b200 my.toml",
    )
    add_command(app, "opcodes", opcodes, "gpusim opcodes", "gpusim opcodes LDS", "gpusim opcodes --pipe fma")


def devices(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Show every value of this device (or of a .toml file)."),
    ] = None,
    only: Annotated[
        str,
        typer.Option("--only", metavar="TABLE", help="With NAME: only values whose path starts so, as dram."),
    ] = "",
    check: Annotated[
        bool,
        typer.Option("--check", help="Verify that the numbers of each NAME agree; of all devices if none."),
    ] = False,
    json_path: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="With --check: write every check to FILE; - for stdout."),
    ] = None,
) -> None:
    """List the GPUs there are, or all values of one with unit, kind and source.

    A kind is datasheet, paper, measured or assumed. --check verifies that the numbers of a device do not
    contradict each other (exit code 1 if they do); it takes any number of names.
    """
    if not check and json_path is not None:
        raise InputError("there is nothing to write", where="--json", hint="it goes with --check")
    if check and only:
        raise InputError("--check looks at all values", where="--only", hint="leave one of the two out")
    if check:
        _check(names or [], json_path)
        return
    if not names:
        _list_devices()
        return
    if len(names) > 1:
        hint = "only --check takes several"
        raise InputError(f"{len(names)} devices at once", where=" ".join(names), hint=hint)
    _show_device(names[0], only)


def _list_devices() -> None:
    from rich.text import Text

    from gpusim import device
    from gpusim.cli.console import show
    from gpusim.report.text import plain_table

    table = plain_table(
        "Devices", "name", "title", "compute capability", ">SMs", ">shared KiB/SM", ">assumed values"
    )
    for key in device.names():
        spec = device.load_device(key)
        table.add_row(
            key,
            Text(spec.title),
            spec.compute_capability,
            f"{spec.integer('device.sm_count')}",
            f"{spec.integer('shared.per_sm') // 1024}",
            f"{len(spec.assumed())} of {len(spec.quantities)}",
        )
    show(table)


def _show_device(name: str, only: str) -> None:
    from rich.text import Text

    from gpusim import device
    from gpusim.cli.console import show
    from gpusim.report.text import plain_table

    spec = device.load_device(name)
    rows = spec.rows(only)
    if not rows:
        groups = ", ".join(dict.fromkeys(path.split(".")[0] for path in spec.quantities))
        raise InputError(f"{name} has no values under {only!r}", where="--only", hint=f"there are: {groups}")
    table = plain_table(f"{spec.name}: {spec.title}", "value", ">", "unit", "kind", "source")
    for path, value, unit, kind, source in rows:
        table.add_row(
            path, value, unit, Text(kind, style="yellow" if kind == "assumed" else ""), Text(source)
        )
    show(table)


def _check(names: list[str], json_path: str | None) -> None:
    """One device with all its numbers, or a column for each of several; the failures below, as sentences."""
    import json

    from gpusim import device
    from gpusim.cli.console import show, write_stdout
    from gpusim.device_check import FAILED, count, run_checks
    from gpusim.output import atomic_write, check_writable

    if json_path not in (None, "-"):
        check_writable(json_path)
    specs = {name: device.load_device(name) for name in names or device.names()}
    found = {name: run_checks(spec) for name, spec in specs.items()}
    outcomes = [outcome for rows in found.values() for outcome in rows]
    failed = count(outcomes, FAILED)
    if json_path is not None:
        text = json.dumps([outcome.as_dict() for outcome in outcomes], indent=1) + "\n"
        if json_path == "-":
            write_stdout(text)
        else:
            atomic_write(json_path, text)
    if json_path != "-":
        show(_check_table(found), "")
        show(*(outcome.sentence for outcome in outcomes if outcome.status == FAILED))
        show(f"{len(outcomes) - failed} of {len(outcomes)} checks passed or do not apply, {failed} failed")
    if failed:
        raise typer.Exit(1)


def _check_table(found: dict[str, list[Outcome]]) -> PlainTable:
    from rich.text import Text

    from gpusim.device_check import FAILED, PASSED, SKIPPED
    from gpusim.report.text import plain_table

    marks = {
        PASSED: Text("passed"),
        FAILED: Text("FAILED", style="bold red"),
        SKIPPED: Text("-", style="dim"),
    }
    if len(found) == 1:
        ((name, rows),) = found.items()
        table = plain_table(f"{name}: do its numbers agree?", "check", "rule", ">", ">", "")
        for row in rows:
            note = row.sentence if row.status == SKIPPED else ""
            table.add_row(Text(row.check), Text(row.rule), row.left, row.right or note, marks[row.status])
        return table
    table = plain_table("Do the numbers of each device agree? - has no such values", "check", *found)
    for number, row in enumerate(next(iter(found.values()))):
        table.add_row(Text(row.check), *(marks[rows[number].status] for rows in found.values()))
    return table


def opcodes(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show this opcode alone, with its forms.")
    ] = None,
    pipe: Annotated[
        str | None, typer.Option("--pipe", metavar="PIPE", help="Only opcodes of this pipe.")
    ] = None,
) -> None:
    """List the SASS opcodes that gpusim executes.

    Whatever is not in the list is refused by name, never guessed. "checked" says how the row was compared
    with an H200: forms run there and here over special and random inputs, compared bit for bit.
    """
    from rich.text import Text

    import gpusim.isa.opcodes  # noqa: F401  (filling the table is what importing it does)
    from gpusim.cli.console import show
    from gpusim.isa.table import TABLE
    from gpusim.report.text import plain_table
    from gpusim.validation.opcodes.evidence import evidence

    rows = sorted(TABLE.rows.values(), key=lambda row: row.name)
    if name is not None:
        rows = [row for row in rows if row.name == name.upper()]
        if not rows:
            import difflib

            near = difflib.get_close_matches(name.upper(), TABLE.rows, n=3)
            raise InputError(
                f"opcode {name.upper()} is not supported",
                hint=f"close to it: {', '.join(near)}" if near else "`gpusim opcodes` lists what is",
            )
    if pipe is not None:
        pipes = sorted({row.pipe for row in rows})
        rows = [row for row in rows if row.pipe == pipe]
        if not rows:
            raise InputError(
                f"no opcode issues to {pipe!r}", where="--pipe", hint=f"the pipes are: {', '.join(pipes)}"
            )
    last = ["source"] if name is not None else []
    table = plain_table(
        f"{len(rows)} opcodes", "name", "pipe", "operands", "modifiers", "result", "checked", *last
    )
    for row in rows:
        forms = "\n".join(" ".join((*left, "=", *right)) for left, right in row.forms)
        table.add_row(
            row.name,
            row.pipe,
            Text(forms),
            Text(" ".join(sorted(row.modifiers))),
            Text(row.bound or "bit for bit"),
            Text(evidence(row.name)),
            *([Text(row.source)] if last else []),
        )
    show(table)

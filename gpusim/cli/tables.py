"""``gpusim devices``, ``gpusim opcodes``: what gpusim knows, as tables."""

from __future__ import annotations

from typing import Annotated

import typer

from gpusim.cli.arguments import add_command
from gpusim.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    add_command(
        app, "devices", devices, "gpusim devices", "gpusim devices h200", "gpusim devices h200 --only dram"
    )
    add_command(app, "opcodes", opcodes, "gpusim opcodes", "gpusim opcodes LDS", "gpusim opcodes --pipe fma")


def devices(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Show every value of this device (or of a .toml file)."),
    ] = None,
    only: Annotated[
        str,
        typer.Option("--only", metavar="TABLE", help="With NAME: only values whose path starts so, as dram."),
    ] = "",
) -> None:
    """List the GPUs there are, or all values of one with unit, kind and source.

    A kind is datasheet, paper, measured or assumed.
    """
    from rich.text import Text

    from gpusim import device
    from gpusim.cli.console import show
    from gpusim.report.text import plain_table

    if name is None:
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
        return
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

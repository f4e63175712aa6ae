"""Pages of ``docs/`` that are made from the program itself: the commands, and the opcode table.

``python -m gpusim.cli.reference [cli|opcodes]`` prints one; ``make docs`` writes both.  Tests compare the
pages in the repository with what this module says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import typer

from gpusim.isa.table import Row

INTRODUCTION = """\
# Command line

This page is made by `make docs` from the commands' own help; do not edit it.

Every command has `--help`. Tables and JSON go to stdout, errors and progress to stderr. Exit codes: 0 fine;
1 a check failed; 2 bad input or unsupported, with one message and nothing partial left behind; 3 gpusim
itself failed; 130 interrupted; 141 the reader of the output went away. `GPUSIM_DEBUG=1` shows the traceback
of a failure of gpusim itself. `GPUSIM_CACHE_DIR` moves the cache (compiled kernels, disassemblies); empty
switches it off.
"""


OPCODES_INTRODUCTION = """\
# Opcodes

This page is made by `make docs` from the table in `gpusim/isa/`; do not edit it. `gpusim opcodes NAME` shows
one row.

What is not listed, an opcode, a modifier or an operand form, is refused by name with pc and SASS text. A name
ending in `@variant` is a second row of the same opcode with other operands. *Result* says how exact it is;
*checked* how the row was compared with an H200, from `validation/measurements/h200/opcodes.json`: forms
(modifiers and operands), each over 4,096 lanes of special and random inputs (2,048 warps in the uniform
datapath).

Operands are `destinations = sources`; `?` may be missing. `i32` `b32` `i64` `f32` `f64`: a register,
immediate or constant read with its sign or inversion; `raw` `raw64` `h2`: read as bits, the row applies the
modifiers; `data`: consecutive registers; `mem`: an address; `P`: a predicate; `B`: a convergence barrier;
`imm` `word`: part of the encoding; `any`: no influence on the result (cache hints, scoreboards).
"""


def page() -> str:
    """The whole page of commands."""
    from gpusim.cli.app import app

    group: Any = typer.main.get_command(app)
    parts = [INTRODUCTION]
    for name, command in group.commands.items():
        parts.append("\n".join(_command(name, command)))
    return "\n".join(parts)


def opcodes_page() -> str:
    """The opcode table, by family."""
    from gpusim.isa.opcodes import FAMILIES, TABLE
    from gpusim.validation.opcodes.evidence import evidence

    parts = [OPCODES_INTRODUCTION]
    for title, module in FAMILIES.items():
        rows = [row for row in TABLE.rows.values() if _home(row) == module.__name__]
        parts.append(f"## {title[0].upper()}{title[1:]}\n")
        titles = ("name", "operands", "modifiers", "pipe", "result", "source", "checked")
        parts.append(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
        for row in sorted(rows, key=lambda row: row.name):
            forms = "<br>".join(f"`{' '.join((*left, '=', *right)).strip()}`" for left, right in row.forms)
            cells = (
                row.name,
                forms,
                " ".join(sorted(row.modifiers)),
                row.pipe,
                row.bound or "bit for bit",
                row.source,
                evidence(row.name),
            )
            parts.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        parts[-1] += "\n"
    return "\n".join(parts)


def _home(row: Row) -> str:
    """The module a row is written in."""
    assert row.semantics is not None
    return row.semantics.__module__


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and "--help" not in p.opts]
    usage = " ".join(
        ["gpusim", name, *(_argument(p) for p in arguments), *(["[OPTIONS]"] if options else [])]
    )
    yield f"## gpusim {name}\n"
    yield _plain(command.help or "") + "\n"
    yield f"```\n{usage}\n```\n"
    if arguments or options:
        yield "| | |\n|---|---|"
        for parameter in arguments:
            yield f"| `{_argument(parameter)}` | {_cell(parameter)} |"
        for parameter in options:
            names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
            value = "" if parameter.is_flag else f" `{parameter.metavar or parameter.type.name.upper()}`"
            yield f"| {names}{value} | {_cell(parameter)} |"
        yield ""
    if command.epilog:
        examples = [line.strip() for line in _plain(command.epilog).splitlines()[1:] if line.strip()]
        yield "```\n" + "\n".join(examples) + "\n```\n"


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return name if parameter.required else f"[{name}]"


def _cell(parameter: Any) -> str:
    """Help and default of a parameter, as one cell."""
    text = _plain(parameter.help or "").replace("|", "\\|")
    default = parameter.default
    if default in (None, "", False, ()) or callable(default) or parameter.required:
        return text
    return f"{text} Default: `{default}`."


def _plain(text: str) -> str:
    """Without rich's tags and the parser's own marks."""
    return re.sub(r"\[/?(?:bold|red|green|yellow|/)*\]", "", text).replace("\\[", "[").strip()


if __name__ == "__main__":
    sys.stdout.write({"cli": page, "opcodes": opcodes_page}[sys.argv[1]]())

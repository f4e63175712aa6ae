"""``docs/cli.md``, made from the commands themselves: ``python -m gpusim.cli.reference > docs/cli.md``.

``make docs`` runs it; a test compares the page in the repository with what this module says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import typer

INTRODUCTION = """\
# Command line

This page is made by `make docs` from the commands' own help; do not edit it.

Every command has `--help`. Tables and JSON go to stdout, errors and progress to stderr. Exit codes: 0 fine;
1 a check failed; 2 bad input or unsupported, with one message and nothing partial left behind; 3 gpusim
itself failed; 130 interrupted; 141 the reader of the output went away. `GPUSIM_DEBUG=1` shows the traceback
of a failure of gpusim itself. `GPUSIM_CACHE_DIR` moves the cache (compiled kernels, disassemblies); empty
switches it off.
"""


def page() -> str:
    """The whole page."""
    from gpusim.cli.app import app

    group: Any = typer.main.get_command(app)
    parts = [INTRODUCTION]
    for name, command in group.commands.items():
        parts.append("\n".join(_command(name, command)))
    return "\n".join(parts)


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
    sys.stdout.write(page())

"""Pages of ``docs/`` that are made from the program itself: the commands, the opcodes, the devices.

``python -m gpusim.cli.reference [cli|opcodes|devices]`` prints one; ``make docs`` writes all.  Tests compare
the pages in the repository with what this module says.
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

DEVICES_INTRODUCTION = """\
# Devices

This page is made by `make docs` from `gpusim/devices/`; do not edit it. `gpusim devices NAME` shows every
value with its source, `gpusim devices --check` whether the numbers of a device agree with each other.

After each number its kind: **d** the vendor's documents and headers, **p** published by others (device
listings included), **m** measured by this project on that architecture, **a** assumed: carried over from
another card, derived, or without a source that could be opened. Empty: no source, so no value.
"""

#: Rows of the page of devices; ``l1`` and ``sm`` come from the compute capability.
DEVICE_ROWS = (
    "device.sm_count", "clock.sm_boost", "clock.memory", "device.fp32_tflops",
    "sm.warps", "sm.blocks", "core.fp32_lanes", "core.fp64_lanes", "core.int32_lanes", "shared.per_sm",
    "l1.unified_bytes", "l1.latency", "l1.bandwidth",
    "l2.bytes", "l2.partitions", "l2.slices", "l2.latency", "l2.latency_far", "l2.bandwidth",
    "l2.bandwidth_peak", "l2.fetch_bytes",
    "dram.type", "dram.capacity", "dram.bus_bits", "dram.pin_rate", "dram.bandwidth", "dram.channels",
    "dram.latency",
)  # fmt: skip


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


def devices_page() -> str:
    """The devices side by side: the numbers that the models read most, each with its kind."""
    from gpusim.device import format_value, load_device, names

    specs = [load_device(name) for name in names()]
    lines = [
        DEVICES_INTRODUCTION,
        f"| | | {' | '.join(spec.name for spec in specs)} |",
        "|---" * (len(specs) + 2) + "|",
        f"| compute capability | | {' | '.join(spec.compute_capability for spec in specs)} |",
    ]
    for path in DEVICE_ROWS:
        stated = [spec.quantity(path) if spec.has(path) else None for spec in specs]
        units = {q.unit for q in stated if q}
        shared = units.pop() if len(units) == 1 else ""
        cells = [
            "" if q is None else f"{format_value(q.value)} {'' if shared else q.unit + ' '}**{q.kind[0]}**"
            for q in stated
        ]
        lines.append(f"| `{path}` | {shared} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


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
    sys.stdout.write({"cli": page, "opcodes": opcodes_page, "devices": devices_page}[sys.argv[1]]())

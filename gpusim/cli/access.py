"""``gpusim access``: what one access costs, before the kernel exists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusim.cli.arguments import DeviceOption, add_command, parse_dim3
from gpusim.errors import InputError

if TYPE_CHECKING:
    from gpusim.expression import ExpressionAccess

#: Counters of the worst warp in the JSON answer, by memory space.
_WORST = {
    "shared": ("wavefronts", "ideal_wavefronts", "bank_conflicts"),
    "global": ("sectors", "lines"),
}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        "access",
        access,
        "gpusim access 'As[ty][k]' --block 32,8 --shared 'float As[32][33]' --let k=3",
        "gpusim access 'a[(blockIdx.x * 256 + tx) * 3]' --block 256 --global 'float a[]'",
        "gpusim access --batch patterns.jsonl --json answers.jsonl",
    )


def access(
    expression: Annotated[
        str | None,
        typer.Argument(metavar="EXPR", help="An array element in C, evaluated in every thread of the block."),
    ] = None,
    block: Annotated[
        str, typer.Option("--block", "-b", metavar="X[,Y[,Z]]", help="Threads of the block.")
    ] = "32",
    shared: Annotated[
        list[str] | None,
        typer.Option("--shared", metavar="DECL", help="A shared array as CUDA declares it. Repeatable."),
    ] = None,
    global_: Annotated[
        list[str] | None, typer.Option("--global", metavar="DECL", help="A global array. Repeatable.")
    ] = None,
    let: Annotated[
        list[str] | None,
        typer.Option("--let", metavar="NAME=VALUE", help="Value of a name in EXPR. Repeatable."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="COND", help="Only threads for which this is not zero take part."),
    ] = None,
    op: Annotated[
        str, typer.Option("--op", metavar="OP", help="load, store, atomic.add, reduction.add.")
    ] = "load",
    batch: Annotated[
        Path | None,
        typer.Option("--batch", metavar="FILE", help="Answer a JSON-lines file of accesses instead of EXPR."),
    ] = None,
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the answer to FILE; - for stdout.")
    ] = None,
    device: DeviceOption = "h200",
) -> None:
    """Wavefronts, conflicts and sectors of one access, with a picture of lanes over banks.

    Names in EXPR: threadIdx.x (or tx), blockIdx.x, blockDim.x, lane, warp, and those set by --let. A row of
    a batch is {"id","space","op","width","mask","offsets"} with 32 byte offsets.
    """
    if (expression is None) == (batch is None):
        raise InputError("give either an expression or --batch FILE", hint="see gpusim access --help")
    from gpusim.cli.console import show, write_stdout
    from gpusim.output import atomic_write, check_writable

    if json_path not in (None, "-"):
        check_writable(json_path)
    if batch is not None:
        from gpusim.access import answer_file

        # All of it before the first byte goes out: a bad row must not leave half an answer.
        text = "".join(answer_file(batch, device=device))
    else:
        assert expression is not None
        from gpusim.access_picture import picture
        from gpusim.expression import answer_expression

        found = answer_expression(
            expression,
            block=parse_dim3(block, "--block"),
            shared=shared or (),
            global_=global_ or (),
            lets=let or (),
            op=op,
            where=where,
            device=device,
        )
        text = json.dumps(_answer(found), indent=1) + "\n"
        if json_path != "-":
            show(picture(found))
    if json_path == "-" or (batch is not None and json_path is None):
        write_stdout(text)
    elif json_path is not None:
        atomic_write(json_path, text)


def _answer(found: ExpressionAccess) -> dict[str, Any]:
    """The worst warp's counters, then every warp's."""
    result = found.result
    return {
        "expression": found.text,
        "space": found.array.space,
        "op": found.op,
        "width": found.array.width,
        "block": list(found.block),
        **{name: getattr(result, name) for name in _WORST[found.array.space]},
        "warps": [{"warp": n, "mask": warp.mask, **warp.answer()} for n, warp in enumerate(result.warps)],
    }

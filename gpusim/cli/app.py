"""The list of commands.

Each command is a module of this package whose function imports what it needs when it runs: that keeps
``gpusim --help`` at the cost of the option parser alone.
"""

from __future__ import annotations

from typing import Annotated

import typer

from gpusim.cli import access, compare, doctor, kernel_tables, ladder, simulate, tables, validate

app = typer.Typer(
    name="gpusim",
    help="Executes CUDA machine code on the CPU and predicts what the GPU's profiler would count.\n\n"
    "Start with [bold]gpusim ladder[/bold]. No GPU is needed.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        from gpusim import __version__

        typer.echo(f"gpusim {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the program itself."""


for _module in (ladder, simulate, access, validate, compare, kernel_tables, tables, doctor):
    _module.register(app)

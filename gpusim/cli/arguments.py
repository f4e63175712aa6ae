"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from gpusim.errors import InputError

if TYPE_CHECKING:
    from gpusim.program import Kernel, Module

Dim3 = tuple[int, int, int]

DeviceOption = Annotated[
    str, typer.Option("--device", "-d", metavar="NAME", help="The GPU to predict for; see `gpusim devices`.")
]
ArchOption = Annotated[
    str | None,
    typer.Option(
        "--arch", metavar="SM", help="Architecture to compile for, as sm_90; the device's own if not given."
    ),
]
KernelOption = Annotated[
    str | None,
    typer.Option(
        "--kernel", "-k", metavar="NAME", help="The kernel; not needed when the file holds one only."
    ),
]
CompilerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-O", metavar="FLAG", help="A flag for the CUDA compiler, as -O=-DTILE=16. Repeatable."
    ),
]
IncludeOption = Annotated[
    list[Path] | None,
    typer.Option("--include-dir", "-I", metavar="DIR", help="Folder of headers. Repeatable."),
]
RegistersOption = Annotated[
    int | None,
    typer.Option("--max-registers", metavar="N", help="Registers a thread that the compiler may use."),
]


def add_command(app: typer.Typer, name: str, function: Callable[..., None], *examples: str) -> None:
    """Add a command whose help is the function's docstring, with one example a line below it."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    epilog = "[bold]Examples[/bold]\n\n" + "\n\n".join(escape(example) for example in examples)
    app.command(name, help=escape(text), epilog=epilog)(function)


def parse_dim3(text: str, option: str) -> Dim3:
    """``128``, ``16,16`` or ``4,4,2`` (``x`` works as the comma) as three numbers."""
    parts = text.replace("x", ",").split(",")
    try:
        numbers = [int(part) for part in parts]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3:
        raise InputError(
            f"{text!r} is not a size of one to three whole numbers",
            where=option,
            hint="write 128 or 16,16 or 4,4,2",
        )
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def parse_bytes(text: str, option: str) -> int:
    """``48K``, ``96KB`` or ``49152`` as bytes (K is 1024)."""
    number, factor = text.strip().upper().removesuffix("B").removesuffix("I"), 1
    if number.endswith("K"):
        number, factor = number[:-1], 1024
    try:
        value = int(number) * factor
    except ValueError:
        value = -1
    if value < 0:
        raise InputError(f"{text!r} is not a number of bytes", where=option, hint="write 49152 or 48K")
    return value


def open_module(
    source: Path,
    arch: str,
    *,
    options: list[str] | None = None,
    include_dirs: list[Path] | None = None,
    max_registers: int | None = None,
    kernel: str | None = None,
) -> Module:
    """Compile a ``.cu`` or ``.ptx`` file, or read a ``.cubin``; a ``.cubin`` keeps its own architecture."""
    from gpusim import program

    if source.suffix.lower() == ".cubin":
        return program.load(source)
    if source.is_file() and source.suffix.lower() not in {".cu", ".cuh", ".ptx"}:
        raise InputError(
            f"the ending {source.suffix!r} is not known",
            where=str(source),
            hint="give a .cu, .ptx or .cubin file",
        )
    return program.compile(
        source,
        arch=arch,
        options=tuple(options or ()),
        include_dirs=tuple(include_dirs or ()),
        name_expressions=(kernel,) if kernel and "<" in kernel else (),
        max_registers=max_registers,
    )


def choose_kernel(module: Module, name: str | None, where: str) -> Kernel:
    """The kernel of that name, or the only one there is."""
    if name is not None:
        return module[name]
    if len(module) == 1:
        return module[next(iter(module))]
    names = ", ".join(sorted(kernel.display_name for kernel in module.kernels.values()))
    raise InputError("holds several kernels", where=where, hint=f"choose one with --kernel: {names}")

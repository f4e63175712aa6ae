"""``gpusim sass``, ``gpusim occupancy``: what a binary says before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusim.cli.arguments import (
    ArchOption,
    CompilerOption,
    DeviceOption,
    IncludeOption,
    KernelOption,
    RegistersOption,
    add_command,
    choose_kernel,
    open_module,
    parse_bytes,
    parse_dim3,
)
from gpusim.errors import InputError

if TYPE_CHECKING:
    from gpusim.device import DeviceSpec


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    add_command(
        app,
        "sass",
        sass,
        "gpusim sass sgemm.cu",
        "gpusim sass sgemm.cu --kernel sgemm_tiled --arch sm_80",
        "gpusim sass build/sgemm.cubin --kernel sgemm_tiled",
    )
    add_command(
        app,
        "occupancy",
        occupancy,
        "gpusim occupancy --registers 64 --shared 48K --block 256",
        "gpusim occupancy --registers 40 --block 32,8 --device a100-80",
        "gpusim occupancy sgemm.cu --kernel sgemm_tiled --block 16,16",
    )


def sass(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A .cu, .ptx or .cubin file.")],
    kernel: KernelOption = None,
    arch: ArchOption = None,
    option: CompilerOption = None,
    include_dir: IncludeOption = None,
    max_registers: RegistersOption = None,
) -> None:
    """Show a kernel's machine code: address, live registers, control word, source line.

    Control word, left to right: the stall in cycles, y when another warp goes first, the counter it raises
    until its result is there (W) and until its sources are read (R), the counters it waits for, the operands
    kept in the operand cache. > marks the target of a branch.
    """
    from gpusim.cli.console import show
    from gpusim.report.sass import rich_sass

    module = open_module(
        source,
        arch or "sm_90",
        options=option,
        include_dirs=include_dir,
        max_registers=max_registers,
        kernel=kernel,
    )
    chosen = choose_kernel(module, kernel, str(source))
    show(rich_sass(chosen))


def occupancy(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="SRC", help="Take registers and static shared memory from this file."),
    ] = None,
    registers: Annotated[
        int | None, typer.Option("--registers", "-r", metavar="N", help="Registers a thread.")
    ] = None,
    shared: Annotated[
        str, typer.Option("--shared", "-s", metavar="BYTES", help="Static shared memory a block, as 48K.")
    ] = "0",
    dynamic_shared: Annotated[
        str, typer.Option("--dynamic-shared", metavar="BYTES", help="Dynamic shared memory a block.")
    ] = "0",
    block: Annotated[
        str, typer.Option("--block", "-b", metavar="X[,Y[,Z]]", help="Threads of a block.")
    ] = "256",
    device: DeviceOption = "h200",
    kernel: KernelOption = None,
    arch: ArchOption = None,
    option: CompilerOption = None,
    include_dir: IncludeOption = None,
    max_registers: RegistersOption = None,
) -> None:
    """How many blocks fit an SM, what limits them, and what would fit one more."""
    from gpusim.cli.console import show
    from gpusim.device import load_device

    spec = load_device(device)
    x, y, z = parse_dim3(block, "--block")
    static = parse_bytes(shared, "--shared")
    dynamic = parse_bytes(dynamic_shared, "--dynamic-shared")
    title = f"{x * y * z} threads a block on {spec.name}"
    if source is not None:
        module = open_module(
            source,
            arch or spec.arch,
            options=option,
            include_dirs=include_dir,
            max_registers=max_registers,
            kernel=kernel,
        )
        chosen = choose_kernel(module, kernel, str(source))
        registers = registers or max(16, chosen.registers_per_thread)
        static = static or chosen.static_shared_bytes
        title = f"{chosen.name}, {title}"
    if registers is None:
        raise InputError("the number of registers is not known", hint="give --registers N, or a source file")
    show(_occupancy_table(spec, title, registers, static, dynamic, x * y * z))


def _occupancy_table(
    spec: DeviceSpec, title: str, registers: int, static: int, dynamic: int, threads: int
) -> Any:
    from rich.console import Group
    from rich.text import Text

    from gpusim.occupancy import occupancy as compute
    from gpusim.occupancy import suggestions
    from gpusim.report.text import occupancy_text, plain_table

    found = compute(spec, registers, static, dynamic, threads)
    table = plain_table(
        f"{title}: {registers} registers a thread, {static + dynamic:,} B shared",
        "resource",
        ">blocks an SM",
        "",
    )
    for name, limit in found.limits.as_dict().items():
        table.add_row(
            name.replace("shared_mem", "shared memory"),
            str(limit),
            Text("limits" if name in found.limiters else "", style="bold yellow"),
        )
    carveout = (
        f"Shared memory an SM: {found.shared_mem_config_bytes // 1024} KiB ({found.shared_mem_config_kind}), "
        f"{found.shared_mem_per_block_bytes:,} B of it allocated a block; "
        f"{found.l1_bytes // 1024} KiB left for L1"
    )
    parts: list[Any] = [table, Text(f"Occupancy {occupancy_text(found)}", style="bold"), Text(carveout)]
    parts += [Text(f"  {suggestion.text}") for suggestion in suggestions(spec, found)]
    return Group(*parts)

"""``gpusim ladder``: the GEMM ladder, every step simulated."""

from __future__ import annotations

from typing import Annotated

import typer

from gpusim.cli.arguments import DeviceOption, add_command
from gpusim.errors import InputError

#: Every step's tile divides this; below it there is not one whole tile.
TILE = 128
LARGEST = 16384


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        "ladder",
        ladder,
        "gpusim ladder",
        "gpusim ladder --size 1024 --device a100-80",
        "gpusim ladder --json ladder.json",
    )


def ladder(
    size: Annotated[int, typer.Option("--size", "-n", metavar="N", help="M = N = K of the product.")] = 4096,
    device: DeviceOption = "h200",
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write all reports to FILE; - for stdout.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Execute every CTA instead of a sample. Slow.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1, metavar="N", help="Threads that execute; all cores if not given."
        ),
    ] = None,
) -> None:
    """Simulate every kernel of the GEMM ladder and show what each step costs.

    Conflicts, sectors, DRAM bytes, registers and occupancy of A1 (naive) to A9 (pipelined), with the change
    from step to step, the traffic of L1 and L2, and every shared and global access in words.
    """
    if size % TILE or not TILE <= size <= LARGEST:
        raise InputError(
            f"{size} is no multiple of {TILE} from {TILE} to {LARGEST:,}",
            where="--size",
            hint=f"the ladder's kernels work on whole tiles, the largest of which is {TILE} wide",
        )
    import json

    from gpusim import kernels
    from gpusim.cli.console import ProgressBar, show, write_stdout
    from gpusim.device import load_device
    from gpusim.output import atomic_write, check_writable
    from gpusim.program import compile
    from gpusim.report.ladder import Step, ladder_dict, render
    from gpusim.simulate import simulate

    spec = load_device(device)
    if json_path not in (None, "-"):
        check_writable(json_path)
    steps = []
    with ProgressBar() as progress:
        for row in kernels.ladder():
            progress.stage(row.id)
            problem = {**row.size("large"), "name": f"{size}", "M": size, "N": size, "K": size}
            launch = row.launch(problem)
            module = compile(row.path, arch=spec.arch, options=row.options, include_dirs=(row.path.parent,))
            result = simulate(
                module[row.entry],
                launch.grid,
                launch.block,
                row.inputs(problem),
                dynamic_shared=launch.dynamic_shared,
                device=device,
                full=full,
                jobs=jobs,
                progress=progress,
            )
            steps.append(Step(row.id, row.seed, row.title, result))
    if json_path is not None:
        text = json.dumps(ladder_dict(steps, size, device), allow_nan=False, indent=1) + "\n"
        if json_path == "-":
            write_stdout(text)
            return
        atomic_write(json_path, text)
    show(render(steps, size, device))

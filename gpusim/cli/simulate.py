"""``gpusim simulate``: one launch, or the launches of a manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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
from gpusim.errors import GpusimError, InputError

if TYPE_CHECKING:
    from gpusim.cli.console import ProgressBar
    from gpusim.device import DeviceSpec
    from gpusim.launch import ManifestLaunch
    from gpusim.program import Module
    from gpusim.simulate import SimResult


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        "simulate",
        simulate,
        "gpusim simulate examples/transpose.cu -k transpose_plain -g 8,8 -b 32,8 "
        "--arg 'float32[65536]:normal' --arg 'float32[65536]:zeros' --arg int32=256",
        "gpusim simulate sgemm.cubin -k sgemm -g 32,32 -b 256 --arg @a.npy --arg @b.npy --arg int32=4096",
        "gpusim simulate --manifest examples/transpose.json --id padded --json -",
        "gpusim simulate --manifest examples/transpose.json --id padded --figure traffic.svg "
        "--reuse-figure reuse.svg",
    )


@dataclass(frozen=True, slots=True)
class _Figures:
    """Pictures asked for: file names, None where not."""

    traffic: str | None
    reuse: str | None
    dram: str | None
    channel: int | None

    @property
    def paths(self) -> list[str]:
        return [path for path in (self.traffic, self.reuse, self.dram) if path is not None]

    def check(self, json_path: str | None) -> None:
        """Refuse what could not be written, before anything is simulated."""
        if self.channel is not None and self.dram is None:
            raise InputError("--dram-channel chooses what --dram-figure shows", hint="add --dram-figure FILE")
        if not self.paths:
            return
        from gpusim.output import check_writable
        from gpusim.report.figures import check_format

        for path in self.paths:
            check_format(path)
            check_writable(path)
            if [json_path, *self.paths].count(path) > 1:
                raise InputError("two outputs cannot go to one file", where=path)

    def draw(self, result: SimResult) -> list[tuple[str, bytes]]:
        """(path, content) of each picture."""
        out = []
        if self.traffic is not None:
            from gpusim.report.figures import traffic_figure

            out.append((self.traffic, traffic_figure(result, Path(self.traffic).suffix)))
        if self.reuse is not None or self.dram is not None:
            from gpusim.report.figures_stream import dram_figure, reuse_figure
            from gpusim.report.streams import streams

            known = streams(result)
            if self.reuse is not None:
                out.append((self.reuse, reuse_figure(result, Path(self.reuse).suffix, known)))
            if self.dram is not None:
                out.append((self.dram, dram_figure(result, Path(self.dram).suffix, self.channel, known)))
        return out


@dataclass(slots=True)
class _Settings:
    """What holds for every launch of one command."""

    device: str
    spec: DeviceSpec
    arch: str
    compile_options: dict[str, Any]
    run_options: dict[str, Any]
    figures: _Figures
    modules: dict[tuple[Path, str | None], Module] = field(default_factory=dict)

    def module(self, source: Path, kernel: str | None) -> Module:
        """A file is compiled once, whatever the number of its launches; a template once an instance."""
        key = (source, kernel if kernel and "<" in kernel else None)
        if key not in self.modules:
            self.modules[key] = open_module(source, self.arch, kernel=kernel, **self.compile_options)
        return self.modules[key]


def simulate(
    source: Annotated[Path | None, typer.Argument(metavar="SRC", help="A .cu, .ptx or .cubin file.")] = None,
    kernel: KernelOption = None,
    grid: Annotated[
        str | None, typer.Option("--grid", "-g", metavar="X[,Y[,Z]]", help="Blocks of the launch.")
    ] = None,
    block: Annotated[
        str | None, typer.Option("--block", "-b", metavar="X[,Y[,Z]]", help="Threads of a block.")
    ] = None,
    dynamic_shared: Annotated[
        str | None,
        typer.Option("--dynamic-shared", metavar="BYTES", help="Dynamic shared memory a block, as 48K."),
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            "-a",
            metavar="SPEC",
            help="An argument, in the kernel's order: float32\\[4096]:normal (array: type, length, and "
            "zeros, arange, normal or randint:LO:HI), int32=4096 (scalar), @file.npy (array from a file). "
            "Repeatable.",
        ),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", "-m", metavar="FILE", help="Run the launches of a manifest (format 1)."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="Only this launch of the manifest. Repeatable."),
    ] = None,
    device: DeviceOption = "h200",
    arch: ArchOption = None,
    json_path: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the report to FILE; - prints one line a launch on stdout."
        ),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(
            "--figure", metavar="FILE", help="Draw the memory traffic between the levels (.svg, .png, .pdf)."
        ),
    ] = None,
    reuse_figure: Annotated[
        str | None,
        typer.Option("--reuse-figure", metavar="FILE", help="Draw hits over cache size (reuse distances)."),
    ] = None,
    dram_figure: Annotated[
        str | None,
        typer.Option("--dram-figure", metavar="FILE", help="Draw the banks of one DRAM channel over time."),
    ] = None,
    dram_channel: Annotated[
        int | None,
        typer.Option(
            "--dram-channel", min=0, metavar="N", help="That channel; the one with most reads if not given."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Execute every CTA, even of a large launch.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1, metavar="N", help="Threads that execute; all cores if not given."
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget", min=1, metavar="N", help="Warp instructions after which a launch counts as endless."
        ),
    ] = None,
    option: CompilerOption = None,
    include_dir: IncludeOption = None,
    max_registers: RegistersOption = None,
) -> None:
    """Execute a launch and predict what the profiler would count.

    Counters, occupancy, memory traffic and the costliest source lines; large launches are sampled, and the
    report says so. With a manifest, a launch that cannot run is reported on stderr, the others go on, and
    the exit code is 2. Pictures show one launch.
    """
    if (source is None) == (manifest is None):
        raise InputError("give either a source file or --manifest FILE", hint="see gpusim simulate --help")
    from gpusim.cli.console import ProgressBar
    from gpusim.device import load_device
    from gpusim.output import check_writable

    if json_path not in (None, "-"):
        check_writable(json_path)
    figures = _Figures(figure, reuse_figure, dram_figure, dram_channel)
    figures.check(json_path)
    spec = load_device(device)
    settings = _Settings(
        device=device,
        spec=spec,
        arch=arch or spec.arch,
        compile_options={"options": option, "include_dirs": include_dir, "max_registers": max_registers},
        run_options={"device": device, "full": full, "jobs": jobs, "budget": budget},
        figures=figures,
    )
    with ProgressBar() as progress:
        if manifest is not None:
            single = {"--kernel": kernel, "--grid": grid, "--block": block, "--arg": arg}
            given = [name for name, value in single.items() if value]
            if given:
                raise InputError(
                    f"{given[0]} describes a single launch", hint="a manifest states its own; use --id"
                )
            _run_manifest(manifest, only or [], settings, json_path, progress)
            return
        if only:
            raise InputError("--id chooses from a manifest", hint="add --manifest FILE")
        assert source is not None
        if grid is None or block is None:
            missing = "--grid" if grid is None else "--block"
            raise InputError(
                f"{missing} is missing", hint="a launch needs --grid and --block, as --grid 32,32 --block 256"
            )
        from gpusim.launch import parse_arg_spec
        from gpusim.simulate import simulate as run

        shape = parse_dim3(grid, "--grid"), parse_dim3(block, "--block")
        arguments = [parse_arg_spec(text) for text in arg or []]
        shared = parse_bytes(dynamic_shared or "0", "--dynamic-shared")
        chosen = choose_kernel(settings.module(source, kernel), kernel, str(source))
        result = run(
            chosen, *shape, arguments, dynamic_shared=shared, progress=progress, **settings.run_options
        )
        pictures = figures.draw(result)
        _write(json_path, _deliver([(None, result)], json_path, progress, lines=False), pictures)


def _run_manifest(
    manifest: Path, only: list[str], settings: _Settings, json_path: str | None, progress: ProgressBar
) -> None:
    """Every chosen launch; raises at the end if any failed."""
    from gpusim.cli.console import print_error
    from gpusim.launch import load_manifest

    launches = _choose(load_manifest(manifest), only, manifest)
    if settings.figures.paths and len(launches) != 1:
        raise InputError(
            f"a picture shows one launch, and {len(launches)} are chosen",
            where=str(manifest),
            hint="use --id",
        )
    failed: list[str] = []
    pictures: list[tuple[str, bytes]] = []

    def results() -> Iterator[tuple[str | None, SimResult]]:
        for number, item in enumerate(launches, 1):
            progress.stage(f"{number}/{len(launches)} {item.id}")
            try:
                result = _run_one(item, settings, progress)
                pictures.extend(settings.figures.draw(result))
            except GpusimError as error:
                failed.append(item.id)
                progress.hide()
                print_error(f"{item.id}: {error.message()}")
                continue
            yield item.id, result

    text = _deliver(results(), json_path, progress, lines=True)
    if failed:
        hint = (
            None
            if json_path in (None, "-")
            else f"{json_path} was not written; --json - prints what there is"
        )
        raise InputError(f"{len(failed)} of {len(launches)} launches failed", where=str(manifest), hint=hint)
    _write(json_path, text, pictures)


def _run_one(item: ManifestLaunch, settings: _Settings, progress: ProgressBar) -> SimResult:
    from gpusim.simulate import simulate as run

    kernel = settings.module(Path(item.file), item.entry)[item.entry]
    launch = item.launch
    return run(
        kernel,
        launch.grid,
        launch.block,
        launch.args,
        dynamic_shared=launch.dynamic_shared_bytes,
        progress=progress,
        **settings.run_options,
    )


def _choose(launches: list[ManifestLaunch], only: list[str], manifest: Path) -> list[ManifestLaunch]:
    """The launches asked for, in the manifest's order."""
    known = [item.id for item in launches]
    for name in only:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=3) or known[:10]
            raise InputError(
                f"there is no launch {name!r}", where=str(manifest), hint=f"there are: {', '.join(near)}"
            )
    return [item for item in launches if not only or item.id in only]


def _deliver(
    results: Iterable[tuple[str | None, SimResult]],
    json_path: str | None,
    progress: ProgressBar,
    *,
    lines: bool,
) -> str:
    """Print each report when it is there; what belongs into a file is returned, and written when all is."""
    from gpusim.cli.console import show, write_stdout
    from gpusim.report.json import report_line, report_text
    from gpusim.report.text import render

    kept: list[str] = []
    for id, result in results:
        progress.hide()
        if json_path == "-":
            write_stdout(report_line(result, id))
        elif json_path is None:
            show(render(result, id), "")
        else:
            kept.append(report_line(result, id) if lines else report_text(result, id))
    return "".join(kept)


def _write(json_path: str | None, text: str, pictures: Iterable[tuple[str, bytes]]) -> None:
    from gpusim.output import atomic_write

    for path, content in pictures:
        atomic_write(path, content)
    if json_path not in (None, "-"):
        atomic_write(json_path, text)

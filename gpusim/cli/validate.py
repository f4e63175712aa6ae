"""``gpusim validate``: measure on a GPU, or compare with what was measured."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpusim.cli.arguments import add_command
from gpusim.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gpusim.cli.console import ProgressBar
    from gpusim.validation.device_run import Summary

#: Failures that are shown one by one.
SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        "validate",
        validate,
        "gpusim validate --recorded",
        "gpusim validate --recorded --only 'A*' --figure points.svg",
        "gpusim validate --prepare --work measured",
        "gpusim validate --device-run --work measured --only A1 --sizes tiny,middle",
    )


def validate(
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Compare predictions with the committed measurements.")
    ] = False,
    device_run: Annotated[
        bool, typer.Option("--device-run", help="Measure on this machine's GPU: run, check, time, profile.")
    ] = False,
    prepare: Annotated[
        bool,
        typer.Option("--prepare", help="Write the folder that --device-run measures; needs no GPU."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="GLOB", help="Launches or kernels, as A1:tiny, A1 or 'T6-*'. Repeatable."
        ),
    ] = None,
    work: Annotated[
        Path | None, typer.Option("--work", metavar="DIR", help="The folder of a measurement.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option("--sizes", metavar="NAMES", help="Measure these sizes only, as tiny,middle.")
    ] = None,
    all_sizes: Annotated[
        bool, typer.Option("--all-sizes", help="Measure every size, large ones too; this is the default.")
    ] = False,
    no_profile: Annotated[
        bool, typer.Option("--no-profile", help="Measure without the profiler: results and times only.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Write records to FOLDER instead of DIR/records."),
    ] = None,
    device_name: Annotated[
        str, typer.Option("--device-name", metavar="NAME", help="The GPU to measure; see `gpusim devices`.")
    ] = "h200",
    records: Annotated[
        Path | None,
        typer.Option(
            "--records", metavar="FOLDER", help="Compare with these records instead of the packaged."
        ),
    ] = None,
    json_path: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Write every comparison to FILE; - for stdout."),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option("--figure", metavar="FILE", help="Draw predicted against measured (.svg, .png, .pdf)."),
    ] = None,
    page: Annotated[
        str | None,
        typer.Option("--page", metavar="FILE", help="Write the table of errors as a Markdown page."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1, metavar="N", help="Processes that simulate; all cores if not given."
        ),
    ] = None,
) -> None:
    """Measure kernels on a real GPU, or compare predictions with measurements.

    --recorded works anywhere: it simulates the measured binaries and compares every counter. --device-run
    needs a GPU with CuPy, and Nsight Compute for counters: it runs every kernel of the catalog, checks the
    results, times them and profiles them, and can be interrupted and run again. Exit code 1: an exact
    counter or a result differs.
    """
    _one_job(recorded, device_run, prepare)
    if recorded:
        from gpusim.cli.console import ProgressBar, show
        from gpusim.validation import recorded as comparison
        from gpusim.validation.plan import HERE

        folder = records if records is not None else HERE / "measurements" / device_name
        with ProgressBar() as progress:

            def shown(*items: RenderableType) -> None:
                progress.hide()
                show(*items)

            code = comparison.main(
                folder, only=only or [], json_path=json_path, figure=figure, page=page, jobs=jobs,
                show=shown, progress=progress,
            )  # fmt: skip
        raise typer.Exit(code)
    if work is None:
        raise InputError("a folder is needed", where="--work", hint="as --work measured")
    names = _sizes(sizes, all_sizes)
    from gpusim.cli.console import ProgressBar, note, show

    with ProgressBar() as progress:
        if prepare:
            _prepare(work, device_name, only or [], names, progress)
            return
        from gpusim.validation.device_run import measure_device

        def say(text: str) -> None:
            progress.hide()
            note(text)

        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout` is to end it as Ctrl-C
        try:
            summary = measure_device(
                work, device_name=device_name, only=only or [], sizes=names, with_profile=not no_profile,
                out=out, command=_command(only, names, no_profile, device_name), progress=progress, say=say,
            )  # fmt: skip
        except KeyboardInterrupt:
            progress.hide()
            note(f"interrupted; what is finished is kept in {work}: run the same command again to go on")
            raise typer.Exit(130) from None
        finally:
            signal.signal(signal.SIGTERM, before)
    show(*_tables(summary))
    if not summary.ok:
        raise typer.Exit(1)


def _one_job(recorded: bool, device_run: bool, prepare: bool) -> None:
    if recorded + device_run + prepare != 1:
        raise InputError(
            "give one of --recorded, --device-run and --prepare",
            hint="--recorded compares with the committed measurements, anywhere; --device-run measures on "
            "this machine's GPU; --prepare only writes the folder that --device-run needs",
        )


def _sizes(sizes: str | None, all_sizes: bool) -> list[str]:
    if sizes is not None and all_sizes:
        raise InputError("--sizes and --all-sizes exclude each other", where="--sizes")
    names = [name.strip() for name in (sizes or "").split(",") if name.strip()]
    if sizes is not None and not names:
        raise InputError("names no size", where="--sizes", hint="as tiny,middle,large")
    return names


def _command(only: list[str] | None, sizes: list[str], no_profile: bool, device_name: str) -> str:
    """The command line as a record tells it: what was asked for, without folders."""
    words = ["gpusim", "validate", "--device-run", "--device-name", device_name]
    for glob in only or []:
        words += ["--only", glob]
    if sizes:
        words += ["--sizes", ",".join(sizes)]
    return " ".join(words + ["--no-profile"] * no_profile)


def _prepare(work: Path, device_name: str, only: list[str], sizes: list[str], progress: ProgressBar) -> None:
    from gpusim.cli.console import show
    from gpusim.device import load_device
    from gpusim.validation import plan

    ids = plan.choose(plan.all_ids(load_device(device_name).arch), only, sizes)
    made = plan.prepare(work, device_name, ids, progress)
    progress.hide()
    size = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
    show(
        f"{len(made.rows)} launches for {made.arch} are ready in {work} ({size / 1e6:.1f} MB).",
        f"On a machine with such a GPU: gpusim validate --device-run --work {work}",
    )


def _tables(summary: Summary) -> list[RenderableType]:
    """What was measured, and each launch that went wrong."""
    from gpusim.report.text import plain_table

    table = plain_table("Measured", "what", "launches")
    for what, count in (
        ("asked for", summary.launches),
        ("run and timed", summary.run),
        ("result equal to the oracle's", summary.passed),
        ("result differs from the oracle's", len(summary.wrong)),
        ("profiled", summary.profiled),
        ("could not be run", len(summary.failed)),
    ):
        table.add_row(what, f"{count:,}")
    lines: list[RenderableType] = [table, ""]
    for title, entries in (
        ("result differs", summary.wrong),
        ("could not be run", summary.failed),
        ("not profiled", summary.not_profiled),
    ):
        reasons = sorted(set(entries.values()))
        if len(entries) > SHOWN and len(reasons) == 1:
            lines.append(f"{len(entries)} launches: {title}: {reasons[0]}")
            continue
        lines += [f"{id}: {title}: {why}" for id, why in list(entries.items())[:SHOWN]]
        if len(entries) > SHOWN:
            lines.append(f"... and {len(entries) - SHOWN} more: {title}")
    if summary.folder is not None:
        lines.append(f"{summary.records:,} records are in {summary.folder}.")
    return lines

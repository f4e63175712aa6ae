"""The picture of a launch's memory traffic: boxes for the levels, arrows as wide as the bytes are many.

Every number is a prediction.  Bytes are decimal; hit rates are shares of sectors.  What a level moves at
most comes from the device file; what it moved on average rests on the cycles of the replay
(`gpusim.traffic`), which are a by-product.  Colours are those of the Okabe-Ito palette, and directions have
a side of their own.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.errors import InputError
from gpusim.metrics import SECTOR_BYTES
from gpusim.report.streams import needs_traffic
from gpusim.report.text import shape
from gpusim.report.traffic import Levels, bytes_text, rate_text, sentence

if TYPE_CHECKING:
    from gpusim.device import DeviceSpec
    from gpusim.simulate import SimResult

FORMATS = (".png", ".svg", ".pdf")
DPI = 100
READ, WRITE, THIRD, GREY = "#0072B2", "#D55E00", "#009E73", "0.45"
#: Longest kernel name in a title, in characters.
NAME_WIDTH = 60

#: The drawing's own units: 0 to 100 both ways.  Where arrows up and down stand, and how wide the widest is.
_UP, _DOWN, _WIDEST = 16.0, 48.0, 7.0
_LEFT, _WIDTH = 2.0, 74.0  # of the boxes; what is said about rates stands right of them


def check_format(path: str | Path) -> None:
    """Refuse an ending that no picture can be written in."""
    if Path(path).suffix.lower() not in FORMATS:
        raise InputError(
            f"the ending {Path(path).suffix!r} is no picture format",
            where=str(path),
            hint=f"use {', '.join(FORMATS)}",
        )


def plain_name(name: str, width: int = NAME_WIDTH) -> str:
    """A kernel's name for a picture: one line of printable characters, cut in the middle."""
    text = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    if len(text) <= width:
        return text
    tail = width // 3
    return f"{text[: width - tail - 3]}...{text[-tail:]}"


def heading(result: SimResult, what: str) -> str:
    """Two lines: what is shown, then kernel, launch and device."""
    launch = result.launch
    return (
        f"{what}: {plain_name(result.kernel.display_name)}\n"
        f"grid {shape(launch.grid)}, block {shape(launch.block)}, predicted for {result.device.name}"
    )


@contextmanager
def house_style() -> Iterator[None]:
    """Text stays text in SVG, the same picture gives the same bytes, and odd characters warn nobody."""
    import matplotlib

    with warnings.catch_warnings(), matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gpusim"}):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def new_figure(width: float, height: float) -> Any:
    """An empty figure of that many inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(picture)
    return picture


def saved(picture: Any, suffix: str) -> bytes:
    """The picture's bytes in the format of a file ending."""
    check_format(f"figure{suffix}")
    format = suffix.lower().removeprefix(".")
    dated = {"svg": "Date", "pdf": "CreationDate"}  # without a date, the same numbers give the same bytes
    metadata: dict[str, Any] = {dated[format]: None} if format in dated else {}
    out = io.BytesIO()
    picture.savefig(out, format=format, dpi=DPI, metadata=metadata)
    return _small_png(out) if format == "png" else out.getvalue()


def _small_png(picture: io.BytesIO) -> bytes:
    """With a palette, which few colours and their mixtures at edges fit: a quarter of the bytes."""
    from PIL import Image

    picture.seek(0)
    out = io.BytesIO()
    Image.open(picture).convert("RGB").quantize(96).save(out, format="png", optimize=True, dpi=(DPI, DPI))
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class _Link:
    """What moves between two boxes: bytes up and down, and the most that can, in B/s (None: not stated)."""

    up: int
    down: int
    peak: float | None
    stated: str  # the peak as the device file has it


def traffic_figure(result: SimResult, suffix: str) -> bytes:
    """Boxes and arrows with bytes, hit rates, average and peak bandwidths; bytes of the picture."""
    moved = needs_traffic(result)
    levels = Levels.of(result)
    assert levels is not None
    spec = result.device
    clock = spec.number("clock.sm_boost") * 1e6
    seconds = None if moved.cycles is None else moved.cycles / clock
    with house_style():
        picture = new_figure(10, 10)
        picture.set_layout_engine("none")
        axes = picture.add_axes((0.0, 0.075, 1.0, 0.835))
        axes.set_axis_off()
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 100)
        picture.text(
            0.5,
            0.985,
            heading(result, "Memory traffic"),
            ha="center",
            va="top",
            fontsize=17,
            linespacing=1.4,
            parse_math=False,
        )
        links = _links(result, levels, clock)
        widest = max((n for link in links for n in (link.up, link.down)), default=0) or 1
        tops = (99.5, 79.5, 59.5, 39.5, 11.5)
        heights = (8.5, 8.5, 8.5, 16.5, 6.5)
        for k, link in enumerate(links):
            _draw_link(axes, link, tops[k] - heights[k], tops[k + 1], widest, seconds)
        launch = result.launch
        _box(
            axes,
            tops[0],
            heights[0],
            f"Warps on {spec.integer('device.sm_count')} SMs",
            f"{launch.ctas:,} CTAs of {launch.threads:,} threads",
        )
        local = f", local {rate_text(levels.local_hit_rate)}" if levels.local_loaded else ""
        _box(
            axes,
            tops[1],
            heights[1],
            f"L1, {_binary(result.occupancy.l1_bytes)} in each SM",
            f"hit rate of global loads {rate_text(levels.l1_hit_rate)}{local}",
        )
        merged = (
            f"saves {100 * levels.merged:.3g} % of the sectors read" if levels.merged else "nothing to merge"
        )
        _box(axes, tops[2], heights[2], "Merging of reads in each GPC", merged)
        _l2(axes, tops[3], heights[3], spec, levels)
        kind = spec.text("dram.type") if spec.has("dram.type") else ""
        size = (
            f"{spec.number('dram.capacity'):g} {spec.unit('dram.capacity')}"
            if spec.has("dram.capacity")
            else ""
        )
        _box(axes, tops[4], heights[4], " ".join(filter(None, ("DRAM", kind, size))), "")
        note = f"{textwrap.fill(sentence(moved.note), 88)}."
        if seconds is None:
            note += "\nArrow widths by bytes, down to a thin line. No average rates: the replay was cut."
        else:
            note += (
                "\nArrow widths by bytes, down to a thin line. Average rates: both ways, over\n"
                f"the {moved.cycles:,} cycles of the replay, which are no prediction of time."
            )
        picture.text(
            0.5,
            0.012,
            note,
            ha="center",
            va="bottom",
            fontsize=12.5,
            color="0.25",
            linespacing=1.35,
            parse_math=False,
        )
        return saved(picture, suffix)


def _links(result: SimResult, levels: Levels, clock: float) -> list[_Link]:
    spec = result.device
    sms = spec.integer("device.sm_count")
    stored = sum(
        int(result.metrics[name].value)
        for name in (
            f"l1tex__t_sectors_pipe_lsu_mem_{op}.sum"
            for op in ("global_op_st", "global_op_red", "global_op_atom", "local_op_st")
        )
        if name in result.metrics
    )

    def cycles(path: str, times: int) -> tuple[float | None, str]:
        if not spec.has(path):
            return None, ""
        value = spec.number(path)
        each = f"{times} x " if times > 1 else ""
        return value * times * clock, f"{each}{value:,g} {spec.unit(path)}"

    l2 = cycles("l2.bandwidth", 1) if spec.has("l2.bandwidth") else cycles("l2.bandwidth_sm", sms)
    dram: tuple[float | None, str] = (None, "")
    if spec.has("dram.bandwidth"):
        dram = spec.number("dram.bandwidth") * 1e9, ""
    loaded = levels.loaded + levels.local_loaded
    return [
        _Link(SECTOR_BYTES * loaded, SECTOR_BYTES * stored, *cycles("l1.bandwidth", sms)),
        _Link(SECTOR_BYTES * levels.to_l1, SECTOR_BYTES * levels.from_l1, *cycles("l1.fill_bandwidth", sms)),
        _Link(SECTOR_BYTES * levels.l2_read, SECTOR_BYTES * levels.l2_write, *l2),
        _Link(levels.dram_read_bytes, levels.dram_written_bytes, *dram),
    ]


def _binary(size: int) -> str:
    return f"{size / (1 << 20):g} MiB" if size >= 1 << 20 else f"{size / 1024:g} KiB"


def _rate(value: float) -> str:
    return f"{bytes_text(value)}/s"


def _rectangle(axes: Any, left: float, top: float, width: float, height: float, face: str = "0.94") -> None:
    from matplotlib.patches import FancyBboxPatch

    axes.add_patch(
        FancyBboxPatch(
            (left, top - height),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=1.2",
            facecolor=face,
            edgecolor="0.3",
            linewidth=1.6,
            zorder=3,
        )
    )


def _box(axes: Any, top: float, height: float, name: str, below: str) -> None:
    """A level: its name, and a second line."""
    _rectangle(axes, _LEFT, top, _WIDTH, height)
    middle, y = _LEFT + _WIDTH / 2, top - height / 2
    axes.text(
        middle,
        y + (1.6 if below else 0),
        name,
        ha="center",
        va="center",
        fontsize=16,
        zorder=4,
        weight="bold",
        parse_math=False,
    )
    if below:
        axes.text(middle, y - 2.1, below, ha="center", va="center", fontsize=14.5, zorder=4, parse_math=False)


def _l2(axes: Any, top: float, height: float, spec: DeviceSpec, levels: Levels) -> None:
    """L2: one box, or one for each partition with what crosses between them."""
    size = _binary(spec.integer("l2.bytes"))
    sides = spec.integer("l2.partitions") if spec.has("l2.partitions") else 1
    rate = f"hit rate {rate_text(levels.l2_hit_rate)}"
    if sides != 2:
        _box(axes, top, height, f"L2, {size}", rate)
        return
    _rectangle(axes, _LEFT, top, _WIDTH, height)
    middle = _LEFT + _WIDTH / 2
    axes.text(
        middle,
        top - 2.8,
        f"L2, {size} in two partitions",
        ha="center",
        va="center",
        fontsize=16,
        zorder=4,
        weight="bold",
        parse_math=False,
    )
    axes.text(middle, top - 6.3, rate, ha="center", va="center", fontsize=14.5, zorder=4, parse_math=False)
    part, low = 0.3 * _WIDTH, top - height + 1.2
    for left, name in ((_LEFT + 1.2, "one half"), (_LEFT + _WIDTH - part - 1.2, "other half")):
        _rectangle(axes, left, low + 6, part, 6, face="white")
        axes.text(left + part / 2, low + 3, name, ha="center", va="center", fontsize=14.5, zorder=4)
    reach = middle - (_LEFT + part + 1.8)
    axes.annotate(
        "",
        (middle + reach, low + 1.6),
        (middle - reach, low + 1.6),
        zorder=5,
        arrowprops={
            "arrowstyle": "<->",
            "color": THIRD,
            "linewidth": 3,
            "mutation_scale": 20,
            "shrinkA": 0,
            "shrinkB": 0,
        },
    )
    axes.text(
        middle,
        low + 4.4,
        f"{bytes_text(SECTOR_BYTES * levels.fabric)} cross over",
        ha="center",
        va="center",
        fontsize=14.5,
        zorder=4,
        parse_math=False,
    )


def _draw_link(axes: Any, link: _Link, top: float, bottom: float, widest: int, seconds: float | None) -> None:
    """Both arrows between two boxes, with their bytes, and the rates at the side."""
    for x, number, colour, up in ((_UP, link.up, READ, True), (_DOWN, link.down, WRITE, False)):
        _arrow(axes, x, top, bottom, number / widest, colour, up)
        word = "read" if up else "written"
        axes.text(
            x + _WIDEST,
            (top + bottom) / 2,
            f"{bytes_text(number)}\n{word}",
            ha="left",
            va="center",
            fontsize=15,
            color=colour,
            linespacing=1.15,
            parse_math=False,
        )
    lines = []
    if seconds:
        lines.append(f"average {_rate((link.up + link.down) / seconds)}")
    if link.peak is not None:
        lines.append(f"peak {_rate(link.peak)}")
        if link.stated:
            lines.append(f"({link.stated})")
    axes.text(
        99,
        (top + bottom) / 2,
        "\n".join(lines),
        ha="right",
        va="center",
        fontsize=13.5,
        color="0.2",
        linespacing=1.25,
        parse_math=False,
    )


def _arrow(axes: Any, x: float, top: float, bottom: float, share: float, colour: str, up: bool) -> None:
    """A filled arrow; a dotted line where nothing moves."""
    from matplotlib.patches import Polygon

    gap = 0.5
    start, end = (bottom + gap, top - gap) if up else (top - gap, bottom + gap)
    if share <= 0:
        axes.plot([x, x], [start, end], color=GREY, linewidth=1.5, linestyle=":", zorder=2)
        return
    half = max(_WIDEST * share, 0.45) / 2
    head = max(half * 1.6, 1.3)
    neck = end + (-1 if up else 1) * min(abs(end - start) * 0.42, 1.1 * head + 1)
    axes.add_patch(
        Polygon(
            [
                (x - half, start),
                (x + half, start),
                (x + half, neck),
                (x + head, neck),
                (x, end),
                (x - head, neck),
                (x - half, neck),
            ],
            facecolor=colour,
            edgecolor="none",
            zorder=2,
        )
    )

"""Pictures of the order in which a launch touches memory: reuse by cache size, and one DRAM channel's banks
over time.

Both rest on `gpusim.report.streams`: some CTAs, their warps taking turns record by record, without time.  The
pictures say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpusim.errors import InputError
from gpusim.events import Kind
from gpusim.memory.dram import AddressMap, Command, Dram, DramResult, DramStandard, load_standard
from gpusim.memory.reuse import LINE_BYTES, Stream, hit_share, reuse_distances
from gpusim.memory.trace import LOCAL
from gpusim.report.figures import GREY, READ, THIRD, WRITE, heading, house_style, new_figure, saved
from gpusim.report.streams import Streams, needs_traffic, streams
from gpusim.report.traffic import Levels

if TYPE_CHECKING:
    from gpusim.device import DeviceSpec
    from gpusim.simulate import SimResult

#: Points of a curve, at most.
POINTS = 600
#: Commands recorded and time drawn of a channel's timeline, in ns.
COMMANDS, WINDOW = 20_000, 400.0
_SECTORS = 4  # of a line


# --- Reuse --------------------------------------------------------------------------------------------


def reuse_figure(result: SimResult, suffix: str, known: Streams | None = None) -> bytes:
    """Share of the loaded sectors that a cache of each size would catch; bytes of the picture.

    known: the launch's streams, if they are there already.
    """
    needs_traffic(result)
    found = known or streams(result)
    mine = np.zeros(1, np.int64)
    for stream in found.each:
        kept = stream.through_l1
        own = Stream(stream.line[kept], stream.mask[kept], stream.kind[kept])
        mine = _sum(mine, reuse_distances(own, own.loads))
    everybody = reuse_distances(found.all, found.all.loads)
    l1 = result.occupancy.l1_bytes
    l2 = result.device.integer("l2.bytes")
    with house_style():
        picture = new_figure(10, 7.8)
        axes = picture.add_subplot()
        axes.set_xscale("log", base=2)
        top = 4.0 * max(l2, LINE_BYTES * max(len(mine), len(everybody)))
        axes.set_xlim(LINE_BYTES, top)
        axes.set_ylim(-2, 104)
        sms = "1 SM" if len(found.each) == 1 else f"{len(found.each)} SMs, a cache each"
        _curve(axes, mine, top, READ, "-", f"{sms}: {_ctas(found.each_ctas, found.ctas, found.each_cut)}")
        _curve(
            axes,
            everybody,
            top,
            WRITE,
            (0, (5, 2)),
            f"one cache for all SMs: {_ctas(found.all_ctas, found.ctas, found.all_cut)}",
        )
        for size, name, colour in ((l1, "L1", READ), (l2, "L2", WRITE)):
            axes.axvline(size, color=colour, linewidth=1.8, linestyle=":", zorder=1)
            axes.annotate(
                f"{name}, {_size(size)}",
                (size, 8),
                (-6, 0),
                textcoords="offset points",
                rotation=90,
                ha="right",
                va="bottom",
                fontsize=14,
                color=colour,
            )
        levels = Levels.of(result)
        if levels is not None and levels.l1_hit_rate is not None:
            axes.plot(
                [l1],
                [100 * levels.l1_hit_rate],
                marker="o",
                markersize=13,
                markerfacecolor="white",
                markeredgecolor=READ,
                markeredgewidth=3,
                linestyle="none",
                zorder=5,
                clip_on=False,
                label=f"predicted L1 hit rate, all SMs: {100 * levels.l1_hit_rate:.1f} %",
            )
        axes.set_title(heading(result, "Reuse of memory"), fontsize=17, parse_math=False, linespacing=1.4)
        axes.set_xlabel(
            "size of a fully associative cache that replaces the least recently used line\n"
            "(lines of 128 bytes, filled by sectors; warps take turns, without time)",
            fontsize=14,
        )
        axes.set_ylabel("loaded sectors that hit, %", fontsize=15)
        ticks = [float(1 << k) for k in range(7, 44, 3) if 1 << k < top]
        axes.set_xticks(ticks, [_size(int(tick)) for tick in ticks])
        axes.minorticks_off()
        axes.tick_params(labelsize=13)
        axes.grid(True, color="0.9", linewidth=0.8)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), fontsize=14, frameon=False)
        return saved(picture, suffix)


def _sum(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Two histograms together."""
    out = np.zeros(max(len(one), len(other)), np.int64)
    out[: len(one)] += one
    out[: len(other)] += other
    return out


def _ctas(some: int, total: int, cut: bool) -> str:
    """How much of a launch a stream holds, in words."""
    begin = "the start of " if cut else ""
    if total == 1:
        return f"{begin}the only CTA"
    return begin + (f"all {total:,} CTAs" if some == total else f"{some:,} of {total:,} CTAs")


def _curve(axes: Any, distances: NDArray[np.int64], top: float, colour: str, style: Any, label: str) -> None:
    """A staircase from nothing to what no cache misses."""
    total = int(distances.sum())
    if total == 0:
        axes.plot([], [], color=colour, linestyle=style, linewidth=3, label=f"{label}: no loads")
        return
    used = np.flatnonzero(distances[1:]) + 1
    if len(used) > POINTS:
        used = np.unique(np.geomspace(used[0], used[-1], POINTS).astype(np.int64))
    hit = [100 * hit_share(distances, LINE_BYTES * int(lines)) for lines in used]
    x = np.array([1, *used, top / LINE_BYTES]) * LINE_BYTES
    axes.plot(
        x,
        [0.0 if not len(used) or used[0] > 1 else hit[0], *hit, hit[-1] if hit else 0.0],
        drawstyle="steps-post",
        color=colour,
        linestyle=style,
        linewidth=3,
        zorder=3,
        label=label,
    )


def _size(size: int) -> str:
    for factor, unit in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


# --- DRAM ---------------------------------------------------------------------------------------------

_COLOURS = {Command.ACT: THIRD, Command.PRE: "#000000", Command.RD: READ, Command.WR: WRITE}
_NAMES = {Command.ACT: "ACT, opens a row", Command.PRE: "PRE, closes it", Command.RD: "RD", Command.WR: "WR"}


def dram_figure(
    result: SimResult, suffix: str, channel: int | None = None, known: Streams | None = None
) -> bytes:
    """Banks of one channel over time, with rows open and commands; bytes of the picture.

    channel: which (default: the one with most reads); known: the launch's streams, if they are there already.
    """
    needs_traffic(result)
    found = known or streams(result)
    standard, map_ = dram_of(result.device)
    addresses = first_reads(found.all, _fetch(result.device, standard), standard.access_bytes)
    if channel is None:
        channels = map_.decode(addresses, standard)[0]
        channel = int(np.argmax(np.bincount(channels, minlength=map_.channels)))
    if not 0 <= channel < map_.channels:
        raise InputError(
            f"there is no DRAM channel {channel}",
            where=result.device.name,
            hint=f"channels of its address map: 0 to {map_.channels - 1}",
        )
    dram = Dram(standard, map_, refresh=False, record=(channel, COMMANDS))
    dram.feed(addresses, np.zeros(len(addresses), np.bool_), np.zeros(len(addresses)))
    served = dram.result()
    with house_style():
        picture = new_figure(10, 8.4)
        axes = picture.add_subplot()
        _timeline(axes, served, standard)
        hit, miss, conflict = (100 * share for share in served.row_shares)
        channels_text = f"{map_.channels} channels" if map_.channels > 1 else "one channel"
        axes.set_title(
            f"{heading(result, f'DRAM channel {channel}')}\n"
            f"{channels_text}: {served.achieved_gbps:,.0f} of {served.peak_gbps:,.0f} GB/s; "
            f"row hits {hit:.0f} %, misses {miss:.0f} %, conflicts {conflict:.0f} %",
            fontsize=16,
            parse_math=False,
            linespacing=1.35,
        )
        map_text = (
            "address map and timings are"
            if map_.channels > 1
            else ("no address map is known, so everything meets in one channel; timings are")
        )
        whose = _ctas(found.all_ctas, found.ctas, found.all_cut)
        axes.set_xlabel(
            f"ns from the channel's first command ({standard.title})\n"
            f"Reads of {whose}, each {_fetch(result.device, standard)} bytes once, "
            "in the order in which\nwarps taking turns touch them, as fast as DRAM serves them "
            "(no time of the kernel);\n"
            f"{map_text} in part assumed; no refresh.",
            fontsize=13,
            linespacing=1.4,
        )
        return saved(picture, suffix)


def dram_of(spec: DeviceSpec) -> tuple[DramStandard, AddressMap]:
    """A device's DRAM standard at its pin rate, and its address map (one channel where none is known)."""
    if not spec.has("dram.standard"):
        raise InputError("the device file states no DRAM standard", where=spec.name)
    rate = spec.number("dram.pin_rate") if spec.has("dram.pin_rate") else None
    standard = load_standard(spec.text("dram.standard"), rate)
    named = f"map.{spec.name}" in standard.quantities
    return standard, standard.address_map(spec.name) if named else standard.address_map()


def _fetch(spec: DeviceSpec, standard: DramStandard) -> int:
    """Bytes that a miss of L2 brings, as this module cuts lines."""
    fetch = spec.integer("l2.fetch_bytes") if spec.has("l2.fetch_bytes") else spec.integer("l2.sector_bytes")
    return min(LINE_BYTES, max(fetch, standard.access_bytes))


def first_reads(stream: Stream, fetch_bytes: int, access_bytes: int) -> NDArray[np.uint64]:
    """Byte addresses of DRAM accesses: each fetch of global memory once, when it is first read.

    As if L2 started empty and kept everything; stores fetch nothing.
    """
    reads = (stream.kind & 0xFF != Kind.STORE) & (stream.kind & LOCAL == 0)
    line, mask = stream.line[reads], stream.mask[reads]
    parts = LINE_BYTES // fetch_bytes
    sectors = _SECTORS // parts
    wanted = np.stack([(mask >> (sectors * k)) & ((1 << sectors) - 1) for k in range(parts)], axis=1) != 0
    fetch = (line[:, None] * parts + np.arange(parts))[wanted]
    _, first = np.unique(fetch, return_index=True)
    once = fetch[np.sort(first)].astype(np.uint64)
    pieces = np.arange(0, fetch_bytes, access_bytes, dtype=np.uint64)
    return (once[:, None] * np.uint64(fetch_bytes) + pieces).reshape(-1)


def _timeline(axes: Any, served: DramResult, standard: DramStandard) -> None:
    """A lane a bank: a bar while a row is open, marks for commands."""
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    line = served.timeline
    if len(line) == 0:
        axes.text(
            0.5, 0.5, "nothing is read from this channel", transform=axes.transAxes, ha="center", fontsize=16
        )
        axes.set_yticks([])
        return
    begin = int(line[0, 0])
    end = min((int(line[-1, 0]) - begin) * standard.tick_ns + 10, WINDOW)
    open_at: dict[int, float] = {}
    bars: list[tuple[float, float, int]] = []
    marks: dict[Command, list[tuple[float, float, int]]] = {c: [] for c in _COLOURS}
    for tick, command, bank, _ in line.tolist():
        time = (tick - begin) * standard.tick_ns
        if time > end:
            break
        what = Command(command)
        if what in marks:
            least = end / (300 if what in (Command.ACT, Command.PRE) else 600)  # wide enough to be seen
            marks[what].append((time, max(standard.occupancy[command] * standard.tick_ns, least), bank))
        if what is Command.ACT:
            open_at[bank] = time
        elif what is Command.PRE and bank in open_at:
            bars.append((open_at[bank], time - open_at.pop(bank), bank))
    bars += [(start, end - start, bank) for bank, start in open_at.items()]

    def draw(boxes: list[tuple[float, float, int]], half: float, colour: str, order: int) -> None:
        corners = [[(t, b - half), (t + w, b - half), (t + w, b + half), (t, b + half)] for t, w, b in boxes]
        axes.add_collection(PolyCollection(corners, facecolors=colour, edgecolors="none", zorder=order))

    draw(bars, 0.4, "0.87", 1)
    for order, what in enumerate((Command.RD, Command.WR, Command.ACT, Command.PRE), 2):
        draw(marks[what], 0.4, _COLOURS[what], order)
    banks = standard.banks
    axes.set_xlim(0, end)
    axes.set_ylim(1.1 * banks, -0.5)  # room for the legend
    per = banks // standard.pseudo_channels
    for k in range(1, standard.pseudo_channels):
        axes.axhline(k * per - 0.5, color=GREY, linewidth=1.5)
    axes.set_yticks(
        range(0, banks, standard.banks_per_group * max(1, banks // (16 * standard.banks_per_group)))
    )
    axes.set_ylabel(
        "bank" + (f" ({standard.pseudo_channels} pseudo-channels)" if standard.pseudo_channels > 1 else ""),
        fontsize=15,
    )
    axes.tick_params(labelsize=13)
    handles = [Patch(color="0.87", label="row open")]
    handles += [Patch(color=_COLOURS[c], label=_NAMES[c]) for c in _COLOURS if marks[c]]
    axes.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, -0.01),
        ncols=len(handles),
        fontsize=13,
        frameon=False,
        handlelength=1.2,
        columnspacing=1.2,
    )

"""The figure of a comparison: predicted against measured, one point a (launch, metric).

Axes are logarithmic from 1 up and linear from 0 to 1, so that zeros have their place.  Points of the exact
tier lie on the diagonal or have a numbered reason; the ones furthest off are labelled.  Colours are those of
the Okabe-Ito palette, and every kind has a marker of its own.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpusim.errors import InputError
from gpusim.validation.compare import Pair

FORMATS = (".png", ".svg", ".pdf")
LABELS = 12
FONT = 11  # of the labels, points
DPI = 110

#: Verdict and tier -> (label, colour, marker, size in points, order).
_KINDS = {
    "exact": ("exact tier, equal", "#0072B2", "o", 14, 3),
    "modelled": ("modelled tier", "#E69F00", "^", 26, 2),
    "known": ("exact tier, numbered exception", "#009E73", "s", 40, 4),
    "differs": ("exact tier, differs", "#D55E00", "X", 80, 5),
}


def check_format(path: str | Path) -> None:
    """Refuse an ending that no figure can be written in."""
    if Path(path).suffix.lower() not in FORMATS:
        raise InputError(f"the ending {Path(path).suffix!r} is no picture format", where=str(path),
                         hint=f"use {', '.join(FORMATS)}")  # fmt: skip


def figure(pairs: Sequence[Pair], suffix: str) -> bytes:
    """The picture's bytes in the format of a file ending (``.png``, ``.svg``, ``.pdf``)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = [p for p in pairs if p.verdict in ("equal", "close", "known", "differs")]
    picture = Figure(figsize=(10, 9), dpi=DPI, layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.add_subplot()
    top = max((abs(float(v)) for p in drawn for v in (p.predicted or 0, p.measured or 0)), default=1.0)
    limits = (-0.25, 4 * max(top, 1.0))
    for set_scale, set_limits in ((axes.set_xscale, axes.set_xlim), (axes.set_yscale, axes.set_ylim)):
        set_scale("symlog", linthresh=1, linscale=0.6)
        set_limits(*limits)
    ends = (0.0, limits[1])
    axes.plot(ends, ends, color="0.45", linewidth=1.2, zorder=1, label="predicted = measured")
    for kind, (label, colour, marker, size, order) in _KINDS.items():
        members = sorted({_place(p) for p in drawn if _kind(p) == kind})  # many lie on the same place
        total = sum(_kind(p) == kind for p in drawn)
        if total:
            axes.scatter([x for x, _ in members], [y for _, y in members], s=size, c=colour, marker=marker,
                         zorder=order, alpha=0.75, linewidths=0.4, edgecolors="white", rasterized=True,
                         label=f"{label} ({total:,})")  # fmt: skip
    axes.set_title(
        f"Predicted against measured: {len(drawn):,} (launch, metric) pairs\nof "
        f"{len({p.launch for p in drawn}):,} launches", fontsize=16)  # fmt: skip
    axes.set_xlabel("measured by the profiler (counts, bytes, %; linear below 1)", fontsize=15)
    axes.set_ylabel("predicted by gpusim", fontsize=15)
    axes.tick_params(labelsize=13)
    axes.grid(True, color="0.9", linewidth=0.7)
    axes.legend(loc="upper left", fontsize=13, framealpha=0.95)
    picture.draw_without_rendering()  # settles the layout, which labels are placed in
    _label_worst(axes, drawn)
    out = io.BytesIO()
    # without a date, the same points give the same bytes
    dated = {"svg": "Date", "pdf": "CreationDate"}
    format = suffix.lower().removeprefix(".")
    metadata: dict[str, Any] = {dated[format]: None} if format in dated else {}
    picture.savefig(out, format=format, dpi=DPI, metadata=metadata)
    return out.getvalue()


def _kind(pair: Pair) -> str:
    if pair.verdict in ("known", "differs"):
        return pair.verdict
    return "exact" if pair.tier == "exact" else "modelled"


def _place(pair: Pair) -> tuple[float, float]:
    return float(pair.measured or 0), float(pair.predicted or 0)


def _label_worst(axes: Any, drawn: Sequence[Pair]) -> None:
    """Names beside the points furthest off, one a kernel, first those of the exact tier without a reason."""
    unequal = [p for p in drawn if p.verdict != "equal"]
    worst: dict[str, Pair] = {}
    for pair in sorted(unequal, key=lambda p: (p.verdict != "differs", -_off(p))):
        worst.setdefault(pair.launch.partition(":")[0], pair)
    legend = axes.get_legend()
    taken: list[tuple[float, float, float, float]] = [legend.get_window_extent().extents] if legend else []
    for pair in list(worst.values())[:LABELS]:
        x, y = axes.transData.transform(_place(pair))
        dx, dy = _free_place(x, y, len(pair.launch), axes.bbox, taken)
        axes.annotate(pair.launch, _place(pair), (dx, dy), textcoords="offset pixels", fontsize=FONT,
                      ha="right" if dx < 0 else "left", va="center", color="0.1", zorder=6,
                      arrowprops={"arrowstyle": "-", "color": "0.4", "linewidth": 0.7})  # fmt: skip


def _off(pair: Pair) -> float:
    """Distance from the diagonal in powers of e, zeros taken as below one."""
    measured, predicted = (abs(v) for v in _place(pair))
    return abs(math.log1p(predicted) - math.log1p(measured))


def _free_place(
    x: float, y: float, characters: int, room: Any, taken: list[tuple[float, float, float, float]]
) -> tuple[float, float]:
    """Offset of a label in pixels, right of the point if positive: inside ``room``, away from the diagonal
    if it can, clear of other labels."""
    width, height = 0.62 * FONT * DPI / 72 * characters, 1.5 * FONT * DPI / 72
    away = -1 if y - room.y0 > x - room.x0 else 1  # above the diagonal: to the left and up
    corners = ((away, -away), (away, away), (-away, away))
    box = (x, y, x, y)
    dx = dy = 0.0
    for step in range(240):
        side, up = corners[step % 3]
        dx, dy = side * (25 + 12 * (step // 3 % 4)), up * height * (0.8 + 0.5 * (step // 12))
        left = x + dx - (width if side < 0 else 0)
        box = (left, y + dy - height / 2, left + width, y + dy + height / 2)
        inside = room.x0 < box[0] and box[2] < room.x1 and room.y0 < box[1] and box[3] < room.y1
        if inside and all(box[2] < o[0] or o[2] < box[0] or box[3] < o[1] or o[3] < box[1] for o in taken):
            break
    taken.append(box)
    return dx, dy

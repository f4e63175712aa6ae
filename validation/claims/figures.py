"""The two pictures of ``docs/claims.md``: the ladder as bars, useful bandwidth against stride.

Colours are those of the Okabe-Ito palette; hatches and markers tell the series apart without colour.
"""

from __future__ import annotations

import io
from typing import Any

from gpusim.validation.claims.book import CUBLAS, LADDER, Book
from gpusim.validation.claims.claim import Text
from gpusim.validation.claims.page import SHORT_US, step

DPI = 110
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "0.35"
H100_LABEL = "H100, stated by the text\n(25 to 26 from A6 on)"
TITLE, LABEL, TICK = 18, 16, 14  # points


def _axes(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(picture)
    return picture, picture.add_subplot()


def _png(picture: Any) -> bytes:
    out = io.BytesIO()
    picture.savefig(out, format="png", dpi=DPI)
    return out.getvalue()


def ladder(book: Book) -> bytes:
    """Bars in TFLOP/s: the H200 measured, the text's H100 figures under them."""
    picture, axes = _axes(11, 10)
    ids = (*LADDER, CUBLAS)
    for y, id in enumerate(ids):
        measured, figure = book.tflops(id), Text.H100.get(step(id))
        axes.barh(y - 0.12 if figure else y, measured, 0.5, color=BLUE, edgecolor="black", linewidth=0.6,
                  label="H200, measured" if y == 0 else None)  # fmt: skip
        axes.text(measured + 0.6, y - 0.12 if figure else y, f"{measured:.1f}", va="center", fontsize=TICK,
                  fontweight="bold")  # fmt: skip
        if figure:
            axes.barh(y + 0.27, sum(figure) / 2, 0.26, color=ORANGE, edgecolor="black", linewidth=0.6,
                      hatch="////", label=H100_LABEL if y == 0 else None)  # fmt: skip
    axes.set_yticks(range(len(ids)), [*(id.partition(":")[0] for id in LADDER), "A10 cuBLAS"], fontsize=LABEL)
    axes.set_ylim(len(ids) - 0.4, -0.6)
    axes.tick_params(axis="x", labelsize=TICK)
    axes.set_xlabel("TFLOP/s (more is better)", fontsize=LABEL)
    axes.set_xlim(0, 58)
    axes.set_title("GEMM ladder, 4096 × 4096 × 4096 in fp32, warm", fontsize=TITLE)
    axes.grid(True, axis="x", color="0.88", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(loc="upper right", fontsize=LABEL)
    return _png(picture)


def stride(book: Book) -> bytes:
    """Useful GB/s against stride in words, both axes logarithmic."""
    picture, axes = _axes(11, 7)
    rows = book.stride["rows"]
    for kernel, colour, marker in (("read", BLUE, "o"), ("copy", ORANGE, "s")):
        mine = [r for r in rows if r["kernel"] == kernel]
        own = sorted((r["stride_words"], r["useful_GBps"], r["median_us"]) for r in mine)
        axes.plot([s for s, _, _ in own], [gb for _, gb, _ in own], color=colour, linewidth=2.2, zorder=2)
        for short in (False, True):
            some = [(s, gb) for s, gb, us in own if (us < SHORT_US) == short]
            axes.scatter([s for s, _ in some], [gb for _, gb in some], s=75, marker=marker, edgecolors=colour,
                         facecolors="white" if short else colour, linewidths=1.8, zorder=3,
                         label=None if short else f"H200, {kernel}")  # fmt: skip
    axes.scatter([], [], s=75, marker="o", edgecolors=GREY, facecolors="white", linewidths=1.8,
                 label=f"under {SHORT_US:g} µs: launch time counts")  # fmt: skip
    axes.scatter([1, Text.PAGE_WORDS], Text.STRIDE, s=170, marker="X", color=GREEN, edgecolors="black",
                 linewidths=0.8, zorder=4, label="H100, stated by the text")  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for words, name in ((8, "32 B\nsector"), (32, "128 B\nline"), (256, "1 KiB\npage")):
        axes.axvline(words, color=GREY, linestyle="--", linewidth=1.4, zorder=1)
        axes.text(words * 1.1, 4600, name, fontsize=TICK, color=GREY, va="top")
    ticks = [4**k for k in range(11)]
    axes.set_xticks(ticks, [f"{t:,}" for t in ticks], rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks([10, 30, 100, 300, 1000, 3000], ["10", "30", "100", "300", "1,000", "3,000"])
    axes.minorticks_off()
    axes.set_ylim(10, 5000)
    axes.tick_params(labelsize=TICK)
    axes.set_xlabel("stride in 4-byte words", fontsize=LABEL)
    axes.set_ylabel("useful bandwidth, GB/s (more is better)", fontsize=LABEL)
    axes.set_title("Reading or copying one word every so many words, L2 flushed", fontsize=TITLE)
    axes.grid(True, color="0.9", linewidth=0.8)
    axes.legend(loc="lower left", fontsize=LABEL - 1)
    return _png(picture)

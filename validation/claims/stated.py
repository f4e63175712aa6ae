"""Other figures the source texts state, beside what arithmetic, a device file or a record gives.

A figure holds if it is within 10 % of what was found (``near``), or satisfies its own words ("over 200 ms").
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.device import load_device
from gpusim.validation.claims.book import LADDER_N, Book
from gpusim.validation.claims.claim import Text, near, number, percent


@dataclass(frozen=True, slots=True)
class Stated:
    """One figure: row of seeds.md, what is stated, what was found, from where, and whether it holds."""

    row: str
    stated: str
    found: str
    source: str
    holds: bool


def not_judged(book: Book) -> tuple[str, ...]:
    """What no record bears on, and why."""
    ids = ("C1:middle", "C2:middle")
    issue = [percent(book.value(id, "issued") / book.value(id, "smsp_cycles")) for id in ids]
    return (
        "D0 at 10 % of peak, D4 at 20 points more: the half-precision rows were measured up to 256^3, which "
        "does not fill the GPU.",
        "C's V100 figures other than occupancy: there is no V100 here. Its issue efficiency of about 85 % is "
        f"far from the H200's: C1 and C2 issue in {' and '.join(issue)} of the cycles.",
        "E's RTX 4090 times, which the text itself calls estimates.",
    )


def roofline_ms() -> tuple[float, float]:
    """A12 on the text's GPU: milliseconds for the bytes and for the arithmetic at its device file's peaks."""
    h100 = load_device("h100-sxm")
    moved = 4 * LADDER_N**2 * 4  # A, B and C read, C written; float32
    lanes = h100.integer("device.sm_count") * h100.integer("core.fp32_lanes")
    flops_a_second = 2 * lanes * h100.number("clock.sm_boost") * 1e6
    return moved / h100.number("dram.bandwidth") / 1e6, 1e3 * 2 * LADDER_N**3 / flops_a_second


def stated(book: Book) -> tuple[Stated, ...]:
    """All of them."""
    n = LADDER_N
    flop, read, written = 2 * n**3 / 1e9, 3 * n * n * 4 / 1e6, n * n * 4 / 1e6
    intensity = 1e3 * flop / (read + written)
    bytes_ms, math_ms = roofline_ms()
    hand, sheet = "by hand", "by the H100's device file"
    a1_ms = book.us("A1:large") / 1e3
    shared = {row: book.value(f"{row}:middle", "static_shared") / 1024 for row in ("C1", "C2")}
    loss = book.useful("read", 1) / book.useful("read", Text.PAGE_WORDS)
    text_loss = Text.STRIDE[0] / Text.STRIDE[1]
    b5, spill = "B5-64:middle", "B5-spill:middle"
    limits = book.predicted(b5)["limit_registers"], book.value(b5, "limit_registers")
    spills = book.value(spill, "local_loads")
    e3 = book.predicted("E3:medium")["requests"] * 32
    return (
        Stated("A1", "over 200 ms", f"{a1_ms:.0f} ms", "A1:large", a1_ms > 200),
        Stated("A11", f"stride loss {text_loss:.1f} (1418 to 111 GB/s)", f"{loss:.1f} (H200, reading)",
               "stride", near(loss, text_loss)),
        Stated("A12", "137 GFLOP", f"{flop:.1f}", hand, near(flop, 137)),
        Stated("A12", "201 MB read", f"{read:.1f}", hand, near(read, 201)),
        Stated("A12", "67 MB written", f"{written:.1f}", hand, near(written, 67)),
        Stated("A12", "512 FLOP/B", f"{intensity:.1f}", hand, near(intensity, 512)),
        Stated("A12", "0.07 ms for the bytes", f"{bytes_ms:.3f} ms", sheet, near(bytes_ms, 0.07)),
        Stated("A12", "2.3 ms for the arithmetic", f"{math_ms:.2f} ms", sheet, near(math_ms, 2.3)),
        Stated("B5", "256 threads x 64 registers: 4 blocks an SM",
               f"{limits[0]:.0f} predicted, {limits[1]:.0f} measured", b5, limits == (4, 4)),
        Stated("B5", "spills when forced lower",
               f"at {book.value(spill, 'registers'):.0f} registers {number(spills)} local loads, "
               f"{book.us(spill) / book.us(b5):.1f} times the time", spill, spills > 0),
        Stated("C1", "2 KB of shared memory", f"{shared['C1']:g} KB", "C1:middle", shared["C1"] == 2),
        Stated("C2", "8 KB of shared memory", f"{shared['C2']:g} KB", "C2:middle", shared["C2"] == 8),
        Stated("E3", "naive: 2MNK element reads", f"{number(e3)} for 128^3", "E3:medium", e3 == 2 * 128**3),
    )  # fmt: skip

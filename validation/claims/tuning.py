"""Claims about tuning steps: padding (4), occupancy (5) and register tiles (7 of seeds.md)."""

from __future__ import annotations

import math

from gpusim.device import load_device
from gpusim.occupancy import occupancy
from gpusim.validation.claims.book import CUBLAS, Book
from gpusim.validation.claims.claim import (
    NONE,
    WAVEFRONTS,
    Claim,
    Evidence,
    Part,
    Text,
    both,
    executions,
    percent,
    time_of,
    wavefronts,
)

STORES = "of them stores, `smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum`"
LIMITS = "`launch__occupancy_limit_warps` / `…_registers` / `…_shared_mem` (of the driver's carve-out)"

#: Claim 4: row -> (padded by one element, the same without).
PADDED = {
    "B3": ("B3:middle", "B3-nopad:middle"),
    "D3": ("D3-pad1:square256", "D2:square256"),
    "E5": ("E5:medium", "E4-tile16:medium"),
}
#: Padding by whole 16 bytes -> the same without.
PADDED_16 = {"D3-pad16:square256": "D2:square256", "A8-pad:large": "A6:large"}


def faster(book: Book, id: str, other: str) -> bool:
    """Whether the slowest kept run of a launch beats the fastest of another."""
    return book.warm(id)["max_us"] < book.warm(other)["min_us"]


def claim_4(book: Book) -> Claim:
    parts, evidence = [], []
    for row, (padded, plain) in PADDED.items():
        less = book.measured(padded)["wavefronts"] < book.measured(plain)["wavefronts"]
        share = book.measured(padded)["wavefronts"] / book.measured(plain)["wavefronts"] - 1
        time = book.us(padded) / book.us(plain) - 1
        parts.append(Part(
            f"it helps in {row}",
            f"wavefronts {100 * share:+.0f} %, time {100 * time:+.1f} %; helping means fewer wavefronts, or "
            "a time range below the other's",
            less or faster(book, padded, plain),
        ))  # fmt: skip
        for id in (padded, plain):
            evidence += [
                both(book, WAVEFRONTS, id, "wavefronts", "ideal"),
                both(book, STORES, id, "store_wavefronts"),
                both(book, "load instructions, `smsp__inst_executed_op_shared_ld.sum`", id, "shared_loads"),
                time_of(book, id),
            ]
    for id in (*PADDED_16, "A6:large"):
        evidence += [both(book, WAVEFRONTS, id, "wavefronts", "ideal"), time_of(book, id)]
    d2, d3 = PADDED["D3"][1], "D3-pad16:square256"
    evidence += [executions(book, "reads, wavefronts/ideal each", d2, "LDS.64 2/2"),
                 executions(book, "reads, wavefronts/ideal each", d3, "LDS.64 2/2"),
                 executions(book, "reads, wavefronts/ideal each", d3, "LDS.64 1/1")]  # fmt: skip
    a8 = 1 - book.us("A8-pad:large") / book.us("A6:large")
    saved = {
        padded: 1 - book.measured(padded)["wavefronts"] / book.measured(plain)["wavefronts"]
        for padded, plain in PADDED_16.items()
    }
    store = wavefronts("As[ty][tx]", (16, 16), "float As[16][17]", "store")
    return Claim(
        4,
        "+1 padding helps in B3, D3 and E5",
        tuple(parts),
        tuple(evidence),
        "It costs in all three. In B3 and E5 the reads it is meant for had no conflict without it. What the "
        f"odd pitch does there: a warp's store of two rows of 16 words meets in one bank ({store} "
        "wavefronts, not 1), and rows no longer start at 16 bytes, so ptxas replaces 128-bit reads by "
        "narrower ones. In D3 half of the unpadded 64-bit reads do take 2 wavefronts where padding by 16 "
        "bytes makes it 1 (the profiler calls both ideal); +1 loses more on 2-byte stores and narrow reads "
        f"than that. So the text's advice to pad by 16 bytes instead is right: {percent(saved[d3])} fewer "
        f"wavefronts in D3 (no difference in time at 256^3), {percent(saved['A8-pad:large'])} fewer and "
        f"{percent(a8)} less time from A6 to A8-pad. Times under 10 µs (E5, E4) say nothing by themselves.",
    )


def claim_5(book: Book) -> Claim:
    v100 = load_device("v100")
    threads = 1024
    registers = int(book.predicted("C2:middle")["registers"])
    got = occupancy(v100, registers, Text.C2_SHARED, 0, threads)
    most = v100.integer("sm.registers") // threads
    possible = {occupancy(v100, r, Text.C2_SHARED, 0, threads).theoretical_occupancy_pct
                for r in range(16, most + 1)}  # fmt: skip
    shown = " or ".join(f"{pct:g} %" for pct in sorted(possible))
    here = "C2:middle"
    measured = min(book.value(here, f"limit_{name}") for name in ("registers", "shared", "warps"))
    blocks = math.prod(book.record(here)["launch"]["grid"])
    places = measured * book.value(here, "sm_count")
    return Claim(
        5,
        "C2 (32x32 tiles, 8 KB shared) allows 24 resident blocks and reaches 75 % occupancy",
        (
            Part("a V100 SM holds 24 blocks",
                 f"{got.active_blocks} (shared memory alone would allow {got.capacity.shared_mem})",
                 got.active_blocks == Text.C2_BLOCKS),
            Part("shared memory alone would allow 24 blocks at 96 KB",
                 f"96 KB / 8 KB = {got.capacity.shared_mem}", got.capacity.shared_mem == Text.C2_BLOCKS),
            Part("the occupancy is 75 %", f"{got.theoretical_occupancy_pct:g} % with {registers} registers; "
                 f"{shown} with any number", Text.C2_OCCUPANCY in possible),
        ),
        (
            Evidence("V100: blocks by shared memory, warps, registers", f"{registers} registers a thread",
                     f"{got.capacity.shared_mem}, {got.capacity.warps}, {got.capacity.registers}",
                     "no V100 here"),
            Evidence("V100: occupancy", f"{registers} registers a thread",
                     f"{got.theoretical_occupancy_pct:g} %", "no V100 here"),
            both(book, "`launch__shared_mem_per_block_static`", here, "static_shared"),
            both(book, LIMITS, here, "limit_warps", "limit_registers", "limit_shared"),
            both(book, "`sm__maximum_warps_per_active_cycle_pct`", here, "occupancy"),
            Evidence("`sm__warps_active.avg.pct_of_peak_sustained_active`", here, NONE,
                     f"{book.value(here, 'active_pct'):g} %"),
            Evidence("`sm__warps_active.avg.pct_of_peak_sustained_active`", "A3-32:large", NONE,
                     f"{book.value('A3-32:large', 'active_pct'):g} %"),
        ),
        f"A block of 1,024 threads is 32 of the 64 warps of an SM, so {measured:.0f} blocks are the most, on "
        f"V100 and H200 alike, and the occupancy can only be {shown}. The H200 confirms {measured:.0f} "
        f"blocks and {book.value(here, 'occupancy'):g} %. What C2's launch of {blocks} blocks for "
        f"{places:.0f} places keeps active is less, because the places are not filled; A3 with the same tile "
        "at 4096^3 fills them.",
    )  # fmt: skip


SHARED_STALLS = ("mio_throttle", "short_scoreboard")


def ffma_a_cycle(book: Book) -> float:
    """FFMA warp instructions an SM can issue a cycle."""
    return book.device.integer("core.fp32_lanes") / book.device.integer("sm.warp_threads")


def pipe_use(book: Book, id: str) -> tuple[float, float]:
    """Shares of the cycles in which shared memory and the FP32 lanes are busy, measured.

    The FP32 pipe's counter holds integer multiply-adds too, which run on the same lanes.
    """
    fma = book.value(id, "sm__inst_executed_pipe_fma.sum")
    return book.per_cycle(id, book.value(id, "wavefronts")), book.per_cycle(id, fma) / ffma_a_cycle(book)


def shared_stalls(book: Book, id: str) -> float:
    """Warps an issue that wait for shared memory: its queue or its data."""
    return sum(book.stalls(id)[reason] for reason in SHARED_STALLS)


def claim_7(book: Book) -> Claim:
    limit = 1 / ffma_a_cycle(book)
    steps = ("A3-32:large", "A4:large", "A5:large", "A6:large", "A7:large", "A8-pad:large", "A9-double:large")
    ratio = {id: book.predicted(id)["wavefronts"] / book.predicted(id).ffma for id in steps}
    before = steps[0]
    others = {k: v for k, v in book.stalls(before).items() if k not in SHARED_STALLS}
    evidence = []
    for id in steps:
        real = book.measured(id)
        evidence.append(Evidence("shared wavefronts an FFMA", id, f"{ratio[id]:.3f}",
                                 f"{real['wavefronts'] / real.ffma:.3f}"))  # fmt: skip
    for id in (*steps, CUBLAS):
        stalls = book.stalls(id)
        waits = ", ".join(f"{k} {v:g}" for k, v in list(stalls.items())[:3])
        shared, arithmetic = pipe_use(book, id)
        busy = f"shared {percent(shared)}, FP32 {percent(arithmetic)}"
        evidence.append(Evidence("busy; commonest stalls in warps an issue", id, NONE, f"{busy}; {waits}"))
    parts = [
        Part("before it, at A3, shared memory is the bottleneck",
             f"{ratio[before]:.2f} wavefronts an FFMA against {limit:g}; {shared_stalls(book, before):.1f} "
             f"warps an issue wait for shared memory, {max(others.values()):.1f} for the next reason",
             ratio[before] > limit and shared_stalls(book, before) > max(others.values()))]  # fmt: skip
    for id, name in (("A4:large", "1-D register tiles (A4) make arithmetic the busier pipe"),
                     ("A5:large", "2-D register tiles (A5) make arithmetic the busier pipe"),
                     ("A7:large", "warp tiles (A7) make arithmetic the busier pipe")):  # fmt: skip
        parts.append(Part(name, f"{ratio[id]:.3f} wavefronts an FFMA; the condition is under {limit:g}",
                          ratio[id] < limit))  # fmt: skip
    _, fp32 = pipe_use(book, "A9-double:large")
    return Claim(
        7,
        "register tiling moves the bottleneck from shared memory to arithmetic",
        tuple(parts),
        tuple(evidence),
        f"An SM serves one shared wavefront and {1 / limit:g} FFMA warp instructions a cycle, so arithmetic "
        f"is the busier pipe below {limit:g} wavefronts an FFMA. Each tiling step goes that way, and waiting "
        f"for shared memory falls from {shared_stalls(book, before):.1f} to "
        f"{shared_stalls(book, 'A5:large'):.2f} warps an issue between A3 and A5, where the commonest stall "
        "is `not_selected`: ready, but another warp issued. Still, A4, A5 and A6 ask more of shared memory "
        "than of the FP32 lanes; A7 and the steps after it do not. Even at A9 the FP32 lanes are busy "
        f"{percent(fp32)} of the time, at cuBLAS {percent(pipe_use(book, CUBLAS)[1])}.",
    )

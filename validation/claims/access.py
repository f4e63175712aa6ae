"""Claims about single accesses and traffic: 1, 2, 3, 6 and 8 of seeds.md."""

from __future__ import annotations

from gpusim.validation.claims.book import LADDER_N, Book
from gpusim.validation.claims.claim import (
    NONE,
    SECTORS,
    WAVEFRONTS,
    Claim,
    Evidence,
    Part,
    Text,
    access_wavefronts,
    both,
    executions,
    near,
    number,
    percent,
    sectors,
    time_of,
    wavefronts,
)


def claim_1(book: Book) -> Claim:
    a1, a2 = "A1:large", "A2:large"
    gain = book.us(a1) / book.us(a2)
    loss, copy_loss = (book.useful(k, 1) / book.useful(k, Text.PAGE_WORDS) for k in ("read", "copy"))
    sector = book.device.integer("l2.sector_bytes")
    page_traffic = book.useful("read", Text.PAGE_WORDS) * sector / 4
    dram = book.value(a1, "dram_read") / book.value(a1, "profiled_ns")
    hits = 100 * book.value(a1, "l1_hits") / book.value(a1, "sectors")
    tags = book.predicted(a1)["tags"]
    clock = book.record(a1)["timing"]["clocks"]["sm_mhz"][0]
    tag_ms = tags / (book.value(a1, "sm_count") * clock * 1e3)
    a_cycle = {id: book.per_cycle(id, book.value(id, "tags")) for id in (a1, a2)}
    low, high = Text.GAIN
    peak = book.device.number("dram.bandwidth")
    text_loss = Text.STRIDE[0] / Text.STRIDE[1]
    throttled = book.stalls("A1:middle")["lg_throttle"] / sum(book.stalls("A1:middle").values())
    return Claim(
        1,
        "A1 to A2 gains 12 to 13 times, and that equals the stride experiment's loss",
        (
            Part(f"A2 is {low:g} to {high:g} times as fast as A1", f"measured {gain:.2f}",
                 low <= gain <= high),
            Part(
                "the gain equals what a read loses at one word a 1 KiB page",
                f"gain {gain:.2f}, loss {loss:.1f} (copy: {copy_loss:.1f}); equal means within 10 %",
                near(gain, loss),
            ),
            Part(
                "the reason is the same: A1 waits for DRAM pages",
                f"A1 reads DRAM at {dram:.0f} GB/s; the experiment at one word a page moves "
                f"{page_traffic:,.0f} GB/s of sectors; the condition is at least half of that",
                dram >= page_traffic / 2,
            ),
        ),
        (
            time_of(book, a1),
            time_of(book, a2),
            Evidence("useful read bandwidth, stride 1 and 256 words", "stride", NONE,
                     f"{number(book.useful('read', 1))} and {number(book.useful('read', 256), 1)} GB/s"),
            both(book, SECTORS, a1, "sectors"),
            both(book, SECTORS, a2, "sectors"),
            both(book, "`memory_l1_tag_requests_global` (128 B lines looked up)", a1, "tags"),
            both(book, "`memory_l1_tag_requests_global` (128 B lines looked up)", a2, "tags"),
            Evidence("lines looked up a cycle and SM", a1, NONE, f"{a_cycle[a1]:.3f}"),
            Evidence("lines looked up a cycle and SM", a2, NONE, f"{a_cycle[a2]:.3f}"),
            Evidence("sectors of loads that hit in L1", a1, NONE, f"{hits:.1f} %"),
            Evidence("`dram__bytes_read.sum` over time", a1, NONE, f"{dram:.1f} GB/s"),
            Evidence("share of `lg_throttle` among the stalls", "A1:middle", NONE, percent(throttled)),
        ),
        "The gain is right and the explanation is not. A1 looks up 32 lines for each load of A, and the L1 "
        f"does {a_cycle[a1]:.2f} a cycle: one a cycle would take {tag_ms:.0f} ms at the clock seen, and the "
        f"kernel takes {book.us(a1) / 1e3:.0f} ms. Neighbouring k lie in the same line, so {hits:.0f} % of "
        f"the sectors hit in L1, and DRAM is at {percent(dram / peak, 1)} of its bandwidth. That the text's "
        f"own loss ({text_loss:.1f}) is near the gain is then a coincidence: on the H200 the loss is "
        f"{loss:.1f} and the gain still {gain:.1f}.",
    )  # fmt: skip


def _pattern(book: Book, id: str) -> str:
    """The measured wavefronts of a one-warp pattern of the same addresses (patterns.jsonl)."""
    return f"{book.pattern(id)['wavefronts']} (pattern `{id}`)"


def claim_2(book: Book) -> Claim:
    as_written = wavefronts("As[ty][k]", (32, 32), "float As[32][32]")
    varied = wavefronts("As[tx][k]", (32, 32), "float As[32][32]")
    plain, turned = "B2-32:middle", "B2-32-ty:middle"
    conflicts = book.measured(plain).conflicts
    loads = book.measured(turned).accesses.get("LDS.128 32/4", 0)
    slower = book.us(turned) / book.us(plain)
    return Claim(
        2,
        "`As[ty][k]` with a 32-wide block conflicts 32-way",
        (
            Part("in the kernel as written, where a warp has one `ty`",
                 f"`As[ty][k]` takes {as_written} wavefront; {conflicts:,.0f} wavefronts beyond ideal "
                 "measured",
                 as_written == 32 or conflicts > 0),
            Part("if `ty` varies over the warp (the roles of x and y swapped)",
                 f"`As[tx][k]` takes {varied} wavefronts; {loads:,} loads of 32 wavefronts measured",
                 varied == 32 and loads > 0),
        ),
        (
            access_wavefronts("As[ty][k]", 32, _pattern(book, "shared_ld32_stride0")),
            access_wavefronts("As[tx][k]", 32, _pattern(book, "shared_ld32_stride32")),
            both(book, WAVEFRONTS, plain, "wavefronts", "ideal"),
            both(book, WAVEFRONTS, turned, "wavefronts", "ideal"),
            executions(book, "reads of As, wavefronts/ideal each", plain, "LDS.128 2/2"),
            executions(book, "reads of As, wavefronts/ideal each", turned, "LDS.128 32/4"),
            executions(book, "stores to As and Bs, wavefronts/ideal each", turned, "STS 32/1"),
            time_of(book, plain),
            time_of(book, turned),
        ),
        "In a 32-wide block all lanes of a warp have the same `ty`: the read is a broadcast. The 32-way "
        f"conflict is real only for the swapped mapping, which makes the kernel {slower:.1f} times as slow "
        "(its stores and global loads suffer too). ptxas reads four k at once, so the conflict appears as "
        "LDS.128 of 32 wavefronts where 4 would do.",
    )  # fmt: skip


def claim_3(book: Book) -> Claim:
    as_written = wavefronts("As[ty][k]", (16, 16), "float As[16][16]")
    varied = wavefronts("As[tx][k]", (16, 16), "float As[16][16]")
    ids = ("B2-16:middle", "A3-16:large", "C1:middle", "E4-tile16:medium")
    conflicts = {id: book.measured(id).conflicts for id in ids}
    return Claim(
        3,
        "a 16x16 block conflicts 2-way on the same read",
        (
            Part("in the kernel as written, where a warp has two `ty`",
                 f"`As[ty][k]` takes {as_written} wavefront; beyond ideal measured in four kernels: "
                 f"{sum(conflicts.values()):,.0f}",
                 as_written == 2 or any(conflicts.values())),
            Part("if `ty` varies over the warp (the roles of x and y swapped)",
                 f"`As[tx][k]` takes {varied} wavefronts", varied == 2),
        ),
        (
            access_wavefronts("As[ty][k]", 16, "not measured alone"),
            access_wavefronts("As[tx][k]", 16, "not measured"),
            *(both(book, WAVEFRONTS, id, "wavefronts", "ideal") for id in ids),
            executions(book, "reads of As, wavefronts/ideal each", ids[0], "LDS.128 2/2"),
        ),
        "The two rows of a warp are 16 words apart, in different halves of the 32 banks: two words, two "
        "banks, one wavefront. Read as LDS.128 it takes 2 wavefronts for four k; that is the least for the "
        f"width, not a conflict. Swapped, 16 rows would share two banks: {varied}-way, not 2-way.",
    )  # fmt: skip


def claim_6(book: Book) -> Claim:
    column = sectors(f"A[(blockIdx.y * 32 + ty) * {LADDER_N} + k]", (32, 32))
    row = sectors(f"A[(blockIdx.x * 32 + tx) * {LADDER_N} + k]", (32, 32))
    n = LADDER_N**3 // 32
    measured = book.measured("A2:large").accesses.get("LDG.E 1", 0)
    return Claim(
        6,
        "in A, the mapping with `threadIdx.x` as the column reads A uncoalesced",
        (Part("a warp's load of A touches more sectors than its data needs",
              f"{column} sector a request for one word; {measured:,} such loads measured of {n:,}",
              column > 1 or measured != n),),
        (
            Evidence("`gpusim access`, x the column: sectors of a load of A", "any warp", f"{column}", NONE),
            Evidence("`gpusim access`, x the row: sectors of a load of A", "any warp", f"{row}", NONE),
            executions(book, "loads of A, sectors each", "A2:large", "LDG.E 1"),
            executions(book, "loads of B and C, sectors each", "A2:large", "LDG.E 4"),
            executions(book, "loads of A and C, sectors each", "A1:large", "LDG.E 32"),
            executions(book, "loads of B, sectors each", "A1:large", "LDG.E 1"),
            *(both(book, SECTORS, id, "sectors") for id in ("A2:large", "A1:large")),
        ),
        f"With x as the column the whole warp reads one word of A: a broadcast, {column} sector, the least "
        f"possible. The mapping that reads A uncoalesced is the other one, x as the row: {row} sectors in "
        f"{row} lines.",
    )  # fmt: skip


#: Claim 8: tiled launch -> (naive launch, T).
TILED = {
    "E4-tile8:medium": ("E3:medium", 8),
    "E4-tile16:medium": ("E3:medium", 16),
    "E4-tile32:medium": ("E3:medium", 32),
    "E4-tile16:ragged": ("E3:ragged", 16),
    "A3-16:large": ("A2:large", 16),
    "A3-32:large": ("A2:large", 32),
}


def loaded_elements(book: Book, id: str) -> int:
    """Elements that lanes really load, guards respected (measured)."""
    columns = book.record(id)["instructions"]
    pairs = zip(columns["sass"], columns["thread_inst_executed_true"], strict=True)
    return sum(lanes for sass, lanes in pairs if "LDG" in sass)


def claim_8(book: Book) -> Claim:
    def product_only(id: str) -> tuple[int, float]:
        """Elements and sectors without the epilogue's reading of C (A rows): one element of C each."""
        c = LADDER_N**2 if id.startswith("A") else 0
        return loaded_elements(book, id) - c, book.measured(id)["sectors"] - c * 4 / 32

    ratios = {}
    for tiled, (naive, t) in TILED.items():
        (e0, s0), (e1, s1) = product_only(naive), product_only(tiled)
        # the ragged launches are too short for the full list of metrics
        from_l2 = None if ":ragged" in tiled else [book.value(id, "l2_sectors") for id in (naive, tiled)]
        ratios[tiled] = (t, e0 / e1, s0 / s1, from_l2[0] / from_l2[1] if from_l2 else 0.0)
    whole = {k: v for k, v in ratios.items() if ":ragged" not in k}
    ragged = ratios["E4-tile16:ragged"][1]
    evidence = []
    for id in dict.fromkeys(("E3:medium", "A2:large", "E3:ragged", *TILED)):
        evidence.append(both(book, "`l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum` / `…_sectors_…`", id,
                             "requests", "sectors"))  # fmt: skip
    for id, (t, elements, sector_ratio, moved) in ratios.items():
        text = f"elements {elements:.4g}, sectors {sector_ratio:.4g}"
        text += f", sectors from L2 {moved:.2f}" if moved else ""
        evidence.append(Evidence(f"divided by, T = {t}", id, NONE, text))
    hits = [book.value(id, "l1_hits") / book.value(id, "sectors") for id in ("E3:medium", "A2:large")]
    shown = ", ".join(f"{s:g} at T = {t} ({k.partition(':')[0]})" for k, (t, _, s, _) in whole.items())
    moved_by = ", ".join(f"{m:.2f}" for _, _, _, m in whole.values())
    return Claim(
        8,
        "tiling cuts global reads by exactly T",
        (
            Part("elements read, sizes a multiple of T", "measured: " + ", ".join(
                 f"{e:g}" for _, e, _, _ in whole.values()), all(e == t for t, e, _, _ in whole.values())),
            Part("elements read, any size", f"37x50x29 with T = 16: {ragged:.2f}", ragged == 16),
            Part("sectors requested", f"measured: {shown}", all(s == t for t, _, s, _ in whole.values())),
            Part("sectors that come from L2", f"divided by {moved_by}",
                 all(near(m, t) for t, _, _, m in whole.values())),
        ),
        tuple(evidence),
        "Elements fall by exactly T where T divides the sizes (C's epilogue, one element each, left out for "
        "the A rows). The memory system moves sectors, and in the naive kernels a warp's read of A is one or "
        "two sectors for 32 lanes, so sectors fall by less than T. What comes from L2 is halved at best and "
        f"doubled at worst: the L1 already catches the naive kernel's reuse ({percent(hits[0])} of the "
        f"sectors hit in E3, {percent(hits[1])} in A2), and the tiled kernels read every tile once a block.",
    )  # fmt: skip

"""``docs/claims.md`` as text: how to read it, the verdicts, each claim, the ladder, the stride experiment."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from gpusim import kernels
from gpusim.access import access
from gpusim.device import load_device
from gpusim.validation.claims.access import claim_1, claim_2, claim_3, claim_6, claim_8
from gpusim.validation.claims.book import CUBLAS, LADDER, LADDER_N, Book
from gpusim.validation.claims.claim import NONE, Claim, Text, near, number, percent
from gpusim.validation.claims.stated import not_judged, stated
from gpusim.validation.claims.tuning import claim_4, claim_5, claim_7

CLAIMS = (claim_1, claim_2, claim_3, claim_4, claim_5, claim_6, claim_7, claim_8)
RECORDS = "../validation/measurements/h200"

#: Read launches shorter than this are mostly the launch itself (microseconds).
SHORT_US = 100.0


def judge(book: Book) -> tuple[Claim, ...]:
    """All claims with their evidence and verdicts."""
    return tuple(claim(book) for claim in CLAIMS)


def prose(*paragraphs: str) -> str:
    """Paragraphs as Markdown, wrapped."""
    lines = (textwrap.fill(" ".join(p.split()), 118, break_long_words=False, break_on_hyphens=False)
             for p in paragraphs)  # fmt: skip
    return "\n\n".join(lines) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a column whose name starts with > is set right."""
    lines = [
        f"| {' | '.join(name.removeprefix('>') for name in header)} |",
        f"|{'|'.join('---:' if name.startswith('>') else '---' for name in header)}|",
        *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _link(book: Book, where: str) -> str:
    """A record id as a link to its file; other words as they are."""
    if where == "stride":
        return f"[stride]({RECORDS}/stride.json)"
    if ":" not in where:
        return where
    return f"[{where}]({RECORDS}/{book.file(where)})"


def page(book: Book) -> str:
    """The whole page."""
    claims = judge(book)
    parts = [_introduction(book), _summary(claims), *(_claim(book, claim) for claim in claims), _stated(book),
             _ladder(book), _stride(book)]  # fmt: skip
    return "\n".join(parts)


def _introduction(book: Book) -> str:
    machine = book.record("A1:large")["machine"]
    dates = sorted({book.record(id)["date"][:10] for id in (*LADDER, CUBLAS)})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    heading = "# The texts' claims, judged\n\n"
    return heading + prose(
        "Five source texts make claims about these kernels. Each claim is split into statements; each "
        "statement has a condition over numbers, and the program decides it. All statements hold: **true**. "
        "None: **false**. Else **partly**. The column gpusim is a prediction without a GPU, from the binary "
        "that was measured or from the access alone; the column H200 is the record that the link names. A "
        "dash means that this side has no such number: gpusim does not predict time or cache hits yet. "
        "Metric names are Nsight Compute's.",
        "This page is made by `python -m gpusim.validation.claims`; do not edit it. `--simulate` makes the "
        "predictions anew (about a minute on two cores), `--figures docs/img` the pictures.",
        f"Measured on one {machine['device']}, driver {machine['driver']}, Nsight Compute {machine['ncu']}, "
        f"{when}. Times are medians between device events, warm; how: [validation.md](validation.md). The "
        "spread is (slowest - fastest) / median of the runs that were kept.",
    )


def _summary(claims: Sequence[Claim]) -> str:
    rows = [
        (f"[{c.number}](#claim-{c.number})", c.title, f"**{c.verdict}**",
         "; ".join(f"{'yes' if p.holds else 'no'}: {p.statement}" for p in c.parts))
        for c in claims
    ]  # fmt: skip
    return "## Verdicts\n\n" + table(("no.", "claim", "verdict", "statement by statement"), rows)


def _claim(book: Book, claim: Claim) -> str:
    parts = [(p.statement, p.condition, "yes" if p.holds else "no") for p in claim.parts]
    evidence = [(e.what, _link(book, e.where), e.predicted, e.measured) for e in claim.evidence]
    return (
        f'<a id="claim-{claim.number}"></a>\n## {claim.number}. {claim.title[0].upper()}{claim.title[1:]}: '
        f"{claim.verdict}\n\n{prose(claim.conclusion)}\n"
        f"{table(('statement', 'numbers', 'holds'), parts)}\n"
        f"{table(('quantity', 'launch', '>gpusim', '>H200'), evidence)}"
    )


def _stated(book: Book) -> str:
    rows = [
        (s.row, s.stated, s.found, _link(book, s.source), "yes" if s.holds else "no") for s in stated(book)
    ]
    missing = "".join(f"- {line}\n" for line in not_judged(book))
    return (
        "## Other stated figures\n\nA figure holds if what was found is within 10 % of it.\n\n"
        f"{table(('row', 'stated', 'found', 'source', 'holds'), rows)}\nNot judged:\n\n{missing}"
    )


# -- the ladder -----------------------------------------------------------------------------------


def step(id: str) -> str:
    """``A3-32:large`` -> ``A3``."""
    return id.partition(":")[0].partition("-")[0]


def gains(book: Book) -> dict[str, float | None]:
    """Each launch of the ladder against the fastest variant of the step before it; None for the first."""
    out: dict[str, float | None] = {}
    best: dict[str, float] = {}
    for id in (*LADDER, CUBLAS):
        before = [s for s in best if s != step(id)]
        out[id] = best[before[-1]] / book.us(id) if before else None
        best[step(id)] = min(best.get(step(id), float("inf")), book.us(id))
    return out


def stated_h100(name: str) -> str:
    """The text's TFLOP/s of a step as it words it."""
    if name not in Text.H100:
        return NONE
    low, high = Text.H100[name]
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _ladder(book: Book) -> str:
    gain = gains(book)
    rows = []
    for id in (*LADDER, CUBLAS):
        warm = book.warm(id)
        if id == CUBLAS:
            title = f"cuBLAS sgemm ({book.record(id)['machine']['cublas']}), measured only"
            conflicts = (NONE, number(book.value(id, "wavefronts") - book.value(id, "ideal")))
            sectors = (NONE, f"{book.value(id, 'sectors') / book.value(id, 'requests'):.2f}")
        else:
            title = kernels.get(id.partition(":")[0]).title
            sides = book.predicted(id), book.measured(id)
            conflicts = number(sides[0].conflicts), number(sides[1].conflicts)
            sectors = f"{sides[0].sectors_a_request:.2f}", f"{sides[1].sectors_a_request:.2f}"
        ratio = gain[id]
        rows.append((
            _link(book, id), title, f"{warm['median_us'] / 1e3:.3f}", f"{warm['spread_pct']:.2f}",
            f"{book.tflops(id):.2f}", f"{ratio:.2f}" if ratio else NONE,
            percent(book.us(CUBLAS) / book.us(id), 1), stated_h100(step(id)), *conflicts, *sectors,
        ))  # fmt: skip
    header = ("step", "kernel", ">ms", ">spread %", ">TFLOP/s", ">gain", ">of cuBLAS", ">text, H100",
              ">bank conflicts, gpusim", ">H200", ">sectors a request, gpusim", ">H200")  # fmt: skip
    return (
        f"## The ladder at {LADDER_N}^3, fp32\n\n{_ladder_words(book)}\n![The "
        f"ladder](img/claims-ladder.png)\n\n{table(header, rows)}"
    )


def _ladder_words(book: Book) -> str:
    ids = (*LADDER, CUBLAS)
    clocks = {mhz for id in ids for mhz in book.record(id)["timing"]["clocks"]["sm_mhz"]}
    memory = {mhz for id in ids for mhz in book.record(id)["timing"]["clocks"]["memory_mhz"]}
    hz = [book.value(id, "sm_hz") / 1e6 for id in ids]
    h200, h100 = book.device, load_device("h100-sxm")
    sms, boost = h200.integer("device.sm_count"), h200.number("clock.sm_boost")
    peak = 2 * sms * h200.integer("core.fp32_lanes") * boost / 1e6
    best = min(LADDER, key=book.us)
    reached = {name: max(book.tflops(id) for id in LADDER if step(id) == name) for name in Text.H100}
    close = [name for name, t in reached.items() if any(near(t, stated) for stated in Text.H100[name])]
    under = [name for name, t in reached.items() if name not in close and t < Text.H100[name][0]]
    over = [name for name in reached if name not in (*close, *under)]
    other_sectors = [id for id in LADDER if book.predicted(id)["sectors"] != book.measured(id)["sectors"]]
    other_conflicts = [id for id in LADDER if book.predicted(id).conflicts != book.measured(id).conflicts]
    bandwidths = [f"{device.number('dram.bandwidth'):,.0f}" for device in (h100, h200)]
    compared = ("device.sm_count", "clock.sm_boost", "core.fp32_lanes")
    same = all(h100.value(path) == h200.value(path) for path in compared)
    share = percent(book.us(CUBLAS) / book.us(best))
    return prose(
        f"TFLOP/s is 2 x {LADDER_N}^3 over the warm time. The gain is over the fastest variant of the step "
        "before. The text's figures are an H100's, of unknown clock and compiler. What the records say "
        f"of the clocks: the SMs ran at {_range(clocks)} MHz before and after each launch and at "
        f"{min(hz):,.0f} to {max(hz):,.0f} MHz under the profiler; the memory at {_range(memory)} MHz.",
        f"The device files give H100 SXM and H200 {'the same' if same else 'different'} SMs ({sms} here), "
        f"boost clock ({boost:,.0f} MHz here) and fp32 lanes, so a peak of {peak:.1f} TFLOP/s here; DRAM "
        f"gives {' and '.join(bandwidths)} GB/s.",
        f"Fastest step: {_names([best])} with {book.tflops(best):.1f} TFLOP/s, {share} of cuBLAS, which "
        f"reaches {book.tflops(CUBLAS):.1f} or {percent(book.tflops(CUBLAS) / peak)} of the peak. Against "
        f"the text's figures, the best variants of {', '.join(close) or 'no step'} are within 10 %, of "
        f"{', '.join(under) or 'no step'} below, of {', '.join(over) or 'no step'} above. The text has a "
        f"plateau from A5 on; here A5 to {_names([best])} gains {book.us('A5:large') / book.us(best):.2f} "
        "times. The kernels are this project's own: a difference may be the kernel's and not the card's.",
        "Bank conflicts are shared wavefronts beyond ideal (`memory_l1_wavefronts_shared` minus `…_ideal`). "
        f"Predictions that are not the profiler's number: conflicts of {_names(other_conflicts)}; sectors a "
        f"request of {_names(other_sectors)} (asynchronous copies: modelled tier).",
    )


def _names(ids: Iterable[str]) -> str:
    return ", ".join(id.partition(":")[0] for id in ids) or "no step"


def _range(values: set[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


# -- the stride experiment ------------------------------------------------------------------------


def sectors_of_stride(stride: int) -> int:
    """Sectors of a warp that reads one word every ``stride`` words, predicted."""
    found = access("global", "load", 4, [4 * stride * lane for lane in range(32)]).sectors
    assert found is not None
    return found


def _stride(book: Book) -> str:
    data = book.stride
    rows = []
    strides = sorted({row["stride_words"] for row in data["rows"]})
    times = {(row["kernel"], row["stride_words"]): row["median_us"] for row in data["rows"]}
    for s in strides:
        read, copy = book.useful("read", s), book.useful("copy", s)
        short = [kernel for kernel in ("read", "copy") if times[kernel, s] < SHORT_US]
        rows.append((
            f"{s:,}", f"{4 * s:,}", str(sectors_of_stride(s)), number(read, 1),
            f"{book.useful('read', 1) / read:.1f}", number(copy, 1), f"{book.useful('copy', 1) / copy:.1f}",
            f"{' and '.join(short)} under {SHORT_US:g} µs" if short else "",
        ))  # fmt: skip
    header = (">stride, words", ">bytes", ">sectors a request, gpusim", ">read, GB/s", ">loss",
              ">copy, GB/s", ">loss", "")  # fmt: skip
    return (
        f"## The stride experiment (A11)\n\n{_stride_words(book)}\n"
        f"![Useful bandwidth against stride](img/claims-stride.png)\n\n{table(header, rows)}"
    )


def _stride_words(book: Book) -> str:
    data, peak = book.stride, book.device.number("dram.bandwidth")
    sector = book.device.integer("l2.sector_bytes")
    at_1, at_8, at_16, at_64, at_256 = (book.useful("read", s) for s in (1, 8, 16, 64, 256))
    machine = data["machine"]["device"]
    return prose(
        "One 4-byte word is read every so many words, or read and written; useful bandwidth counts these "
        f"words alone. L2 is flushed before each run; {data['timing']}. Measured on one {machine}, "
        f"{data['date']}, by `{data['command']}`; numbers: [stride.json]({RECORDS}/stride.json).",
        f"Up to 8 words the loss is sectors: at 8 words each word costs one sector of {sector} bytes, and "
        f"sectors move at {at_8 * sector / 4:,.0f} GB/s, {percent(at_8 * sector / 4 / peak)} of the "
        f"datasheet's {peak:,.0f}. At 16 words the useful bandwidth halves again ({at_16:.0f} GB/s), as if "
        "64 bytes moved for each word. From 64 to 256 words, that is from four words a 1 KiB page to one, "
        f"it hardly falls: {at_64:.1f} to {at_256:.1f} GB/s. So the H200's loss is there before a read has a "
        "DRAM page to itself. How addresses map to pages is not published, so this says nothing of a single "
        "bank.",
        f"The losses are over stride 1, where reading one word a thread reaches {at_1:,.0f} GB/s, "
        f"{percent(at_1 / peak)} of the datasheet's: against a faster reader they would be larger.",
        f"The text, on an H100: {Text.STRIDE[0]:,.0f} GB/s at a small stride, {Text.STRIDE[1]:g} GB/s at one "
        "word a page.",
    )

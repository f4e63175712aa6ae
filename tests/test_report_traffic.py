"""Memory traffic in reports: tables, pictures, and the reuse distances behind one of them.

The copy kernel's numbers follow from its addresses: 16 CTAs of 256 threads read and write 4 bytes each, a
warp one line of four sectors, everything once, with cold caches.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from gpusim import program
from gpusim.cli import main
from gpusim.device import load_device
from gpusim.errors import InputError
from gpusim.events import Flag, Kind
from gpusim.memory.reuse import LINE_BYTES, Stream, hit_share, interleave, reuse_distances
from gpusim.memory.trace import LOCAL, Trace
from gpusim.report import ladder as ladder_report
from gpusim.report.figures import check_format, plain_name, traffic_figure
from gpusim.report.figures_stream import dram_figure, dram_of, first_reads, reuse_figure
from gpusim.report.lines import traffic_by_line
from gpusim.report.streams import Streams, streams
from gpusim.report.text import render
from gpusim.report.traffic import Levels, bytes_text, rate_text
from gpusim.simulate import SimResult, simulate

ROOT = Path(__file__).resolve().parent.parent
COPY = """\
extern "C" __global__ void copy(const float* a, float* b) {
    int i = blockIdx.x * 256 + threadIdx.x;
    b[i] = a[i];
}
"""
CTAS, BYTES = 16, 16 * 256 * 4
SECTORS, LINES = BYTES // 32, BYTES // 128


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> SimResult:
    path = tmp_path_factory.mktemp("traffic") / "copy.cu"
    path.write_text(COPY, encoding="utf-8")
    a = np.arange(BYTES // 4, dtype=np.float32)
    return simulate(program.compile(path, arch="sm_90")["copy"], CTAS, 256, [a, np.zeros_like(a)], jobs=1)


@pytest.fixture(scope="module")
def known(result: SimResult) -> Streams:
    return streams(result)


def text_of(renderable: Any, width: int = 100) -> str:
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def absent(result: SimResult) -> SimResult:
    """The same launch as if nobody had asked for traffic."""
    rows = [{k: v for k, v in row.items() if not k.startswith("sectors_")} for row in result.instructions]
    gap = {"what": "L1, L2 and DRAM traffic, hit rates", "why": "not asked for (memory=False)"}
    return replace(result, traffic=None, instructions=rows, not_modelled=[gap, *result.not_modelled])


# --- Tables -------------------------------------------------------------------------------------------


def test_levels_of_a_copy(result: SimResult) -> None:
    levels = Levels.of(result)
    assert levels is not None
    assert (levels.loaded, levels.l1_hit, levels.to_l1, levels.from_l1) == (SECTORS, 0, SECTORS, SECTORS)
    assert (levels.l2_read, levels.l2_write, levels.l2_hit) == (SECTORS, SECTORS, SECTORS)  # the writes hit
    assert levels.l1_hit_rate == 0 and levels.l2_hit_rate == 0.5 and levels.merged == 0
    assert levels.dram_read_bytes >= BYTES
    assert levels.dram_written_bytes == 0  # L2 still holds what was written
    assert levels.local_hit_rate is None


def test_report_has_the_levels_and_lines(result: SimResult) -> None:
    text = text_of(render(result))
    section = text[text.index("Memory traffic (predicted)") :]
    rows = [line.split() for line in section.splitlines()]
    assert ["L1,", "global", "loads", "512", "16.4", "kB", "0.0", "%"] in rows
    assert ["between", "L1", "and", "L2", "512", "16.4", "kB", "512", "16.4", "kB"] in rows
    assert ["L2,", "after", "merging", "512", "16.4", "kB", "512", "16.4", "kB", "50.0", "%"] in rows
    assert "Every access replayed" in section
    lines = section[section.index("Memory traffic by source line (predicted)") :]
    assert "copy.cu:3  b[i] = a[i];" in lines
    rows = [line.split() for line in lines.splitlines()]
    assert ["LDG", "0.0", "%", "16.4", "kB", "-", "0.0", "%", "16.4", "kB"] in rows
    assert ["STG", "-", "-", "16.4", "kB", "100.0", "%", "-"] in rows
    assert max(map(len, lines.splitlines()[:5])) <= 100


def test_report_without_traffic_says_why(result: SimResult) -> None:
    text = text_of(render(absent(result)))
    section = text[text.index("Memory traffic (predicted)") :].splitlines()
    assert section[1] == "  none: not asked for (memory=False)"
    assert "Memory traffic by source line" not in text


def test_lines_add_up_and_leave_out_what_moves_nothing() -> None:
    def row(sass: str, line: int, *sectors: int) -> dict[str, Any]:
        names = ("l1_hit", "to_l1", "from_l1", "l2_read", "l2_write", "l2_hit", "dram_read")
        counters = {f"sectors_{n}": s for n, s in zip(names, sectors, strict=True)}
        return {"pc": 0, "sass": sass, "file": "k.cu", "line": line} | counters

    rows = [
        row("LDG.E R1, [R2.64]", 3, 30, 10, 0, 8, 0, 6, 2),
        row("LDG.E R1, [R2.64]", 3, 0, 40, 0, 40, 0, 0, 40),
        row("LDL R1, [R2]", 4, 0, 5, 0, 5, 0, 5, 0),
        row("STG.E [R2.64], R1", 3, 0, 0, 100, 0, 100, 100, 0),
        row("FADD R1, R2, R3", 3, 0, 0, 0, 0, 0, 0, 0),
    ]
    store, load, local = traffic_by_line(rows)
    assert (store.opcode, store.moved, store.l1_hit_rate, store.l2_hit_rate) == ("STG.E", 100, None, 1.0)
    assert (load.l1_hit_rate, load.l2_hit_rate, load.dram_read) == (30 / 80, 6 / 48, 42)
    assert local.l1_hit_rate is None  # the rows do not say what local memory found in L1


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (16_384, "16.4 kB"), (999_600, "1 MB"),
     (33_622_912, "33.6 MB"), (999_400_000, "999 MB"), (4.8e12, "4.8 TB"), (2e15, "2000 TB")],
)  # fmt: skip
def test_bytes_for_reading(value: float, text: str) -> None:
    assert bytes_text(value) == text


def test_rates_for_reading() -> None:
    assert [rate_text(x) for x in (None, 0.0, 0.0283, 1.0)] == ["-", "0.0 %", "2.8 %", "100.0 %"]


def test_ladder_has_dram_bytes(result: SimResult) -> None:
    steps = [
        ladder_report.Step("X1", "X1", "copy", result),
        ladder_report.Step("X2", "X2", "none", absent(result)),
    ]
    text = text_of(ladder_report.render(steps, 256, "h200"))
    dram = bytes_text(Levels.of(result).dram_bytes)  # type: ignore[union-attr]
    with_, without = (next(li for li in text.splitlines() if li.startswith(n)) for n in ("X1 ", "X2 "))
    assert dram in with_ and dram not in without
    moved = text[text.index("Memory traffic, predicted") :].splitlines()
    assert moved[3].split()[:3] == ["X1", "0.0", "%"] and moved[3].split()[-1] == "all"
    assert set(moved[4].split()) == {"X2", "-"}


# --- Pictures -----------------------------------------------------------------------------------------


def drawings(result: SimResult, known: Streams, suffix: str) -> list[bytes]:
    return [traffic_figure(result, suffix), reuse_figure(result, suffix, known),
            dram_figure(result, suffix, known=known)]  # fmt: skip


def texts(svg: bytes) -> str:
    """All text of a well-formed SVG, a line each."""
    return "\n".join("".join(e.itertext()) for e in ET.fromstring(svg).iter() if e.tag.endswith("}text"))


def test_pictures_say_what_they_show(result: SimResult, known: Streams) -> None:
    traffic, reuse, dram = map(texts, drawings(result, known, ".svg"))
    for page in (traffic, reuse, dram):
        assert "copy" in page and "grid 16 x 1 x 1, block 256 x 1 x 1, predicted for h200" in page
    for part in ("16.4 kB", "hit rate of global loads 0.0 %", "hit rate 50.0 %", "in two partitions",
                 "peak 4.8 TB/s", "no prediction of time", "Every access replayed", "nothing to merge",
                 "HBM3e"):  # fmt: skip
        assert part in traffic, part
    for part in ("L2, 60 MiB", "all 16 CTAs", "predicted L1 hit rate, all SMs: 0.0 %"):
        assert part in reuse, part
    for part in ("94 channels", "row hits", "conflicts", "GB/s", "each 64 bytes once", "in part assumed"):
        assert part in dram, part


def test_pictures_are_whole_and_always_the_same(result: SimResult, known: Streams) -> None:
    from PIL import Image

    once, again = (drawings(result, known, ".png") for _ in range(2))
    assert once == again
    for picture in once:
        assert 10_000 < len(picture) < 150_000
        assert min(Image.open(BytesIO(picture)).size) >= 700
    assert drawings(result, known, ".svg") == drawings(result, known, ".svg")
    assert drawings(result, known, ".pdf")[0].startswith(b"%PDF")


@pytest.mark.parametrize(
    "name", ['<script>&"x"', "a$b$c_{2}^", "line\nbreak\x01\x1b[31m", "核" * 10, "n" * 900, ""]
)
def test_hostile_names(result: SimResult, known: Streams, name: str) -> None:
    fields = ("launch", "device", "traffic", "metrics", "occupancy", "not_modelled")
    hostile: Any = SimpleNamespace(
        **{f: getattr(result, f) for f in fields}, kernel=SimpleNamespace(display_name=name)
    )
    for svg in drawings(hostile, known, ".svg"):
        assert plain_name(name) in texts(svg)
        assert b"<script" not in svg
    for png in drawings(hostile, known, ".png"):
        assert png.startswith(b"\x89PNG")
    assert len(plain_name(name)) <= 60


def test_a_device_without_partitions_or_address_map(result: SimResult, known: Streams) -> None:
    other = replace(result, device=load_device("rtx4090"))
    assert "in two partitions" not in texts(traffic_figure(other, ".svg"))
    assert "no address map is known" in texts(dram_figure(other, ".svg", known=known))


@pytest.mark.parametrize(
    "device", ["h200", "h100-sxm", "a100-80", "b200", "v100", "t4", "l40s", "rtx3090", "rtx5090"]
)
def test_every_device_can_be_drawn(result: SimResult, known: Streams, device: str) -> None:
    other = replace(result, device=load_device(device))
    for svg in drawings(other, known, ".svg"):
        assert f"predicted for {other.device.name}" in texts(svg)


def test_pictures_need_traffic_and_a_known_channel(result: SimResult, known: Streams) -> None:
    for draw in (traffic_figure, reuse_figure, dram_figure):
        with pytest.raises(InputError, match="not predicted"):
            draw(absent(result), ".svg")
    with pytest.raises(InputError, match="no DRAM channel 94"):
        dram_figure(result, ".svg", 94, known)
    with pytest.raises(InputError, match="no picture format"):
        check_format("x.bmp")


def test_streams_hold_the_whole_copy(result: SimResult, known: Streams) -> None:
    assert (known.each_ctas, known.all_ctas, known.ctas) == (CTAS, CTAS, CTAS)
    assert len(known.each) == CTAS  # every CTA has an SM of its own
    assert sum(len(one.line) for one in known.each) == len(known.all.line) == 2 * LINES
    assert len(np.unique(known.all.line)) == 2 * LINES and set(known.all.mask) == {15}
    standard, _ = dram_of(result.device)
    addresses = first_reads(known.all, 64, standard.access_bytes)
    assert len(np.unique(addresses)) == len(addresses) == BYTES // standard.access_bytes


# --- Command line ---------------------------------------------------------------------------------------


def command(*more: str) -> int:
    return main(["simulate", "--manifest", str(ROOT / "examples" / "transpose.json"), *more])


def test_command_writes_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(tmp_path / name) for name in ("t.svg", "r.png", "d.svg", "report.json")]
    code = command("--id", "plain", "--figure", names[0], "--reuse-figure", names[1], "--dram-figure",
                   names[2], "--dram-channel", "5", "--json", names[3])  # fmt: skip
    assert code == 0, capsys.readouterr().err
    assert "transpose_plain" in texts(Path(names[0]).read_bytes())
    assert Path(names[1]).read_bytes().startswith(b"\x89PNG")
    assert "DRAM channel 5" in texts(Path(names[2]).read_bytes())
    assert sorted(tmp_path.iterdir()) == sorted(map(Path, names))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--figure", "x.bmp"), "no picture format"),
        (("--reuse-figure", "x"), "no picture format"),
        (("--dram-figure", "missing/x.svg"), "does not exist"),
        (("--dram-channel", "3"), "--dram-figure"),
        (("--figure", "x.svg"), "one launch"),  # the manifest has two
        (("--id", "plain", "--figure", "x.svg", "--reuse-figure", "x.svg"), "one file"),
        (("--id", "plain", "--dram-figure", "x.svg", "--dram-channel", "94"), "no DRAM channel 94"),
    ],
)
def test_command_refuses(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert command(*words) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_the_page_shows_pictures_that_exist() -> None:
    page = (ROOT / "docs" / "hierarchy.md").read_text(encoding="utf-8")
    for name in ("traffic", "reuse", "dram"):
        assert f"(img/{name}.png)" in page
        assert 0 < (ROOT / "docs" / "img" / f"{name}.png").stat().st_size < 150_000
    words = page[page.index("gpusim simulate --manifest") :].split("```")[0].replace("\\\n", " ").split()
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    assert " ".join(words) in " ".join(recipe.split())


# --- Reuse distances --------------------------------------------------------------------------------------


def sectors_hit(stream: Stream, counted: np.ndarray, lines: int) -> int:
    """A fully associative sectored LRU cache, written down as it is."""
    cache: list[list[int]] = []  # most recent first: line, sectors
    hits = 0
    for line, mask, counts in zip(stream.line.tolist(), stream.mask.tolist(), counted, strict=True):
        held = next((entry for entry in cache if entry[0] == line), None)
        if held is None:
            held = [line, 0]
        else:
            cache.remove(held)
        if counts:
            hits += (held[1] & mask).bit_count()
        held[1] |= mask
        cache.insert(0, held)
        del cache[lines:]
    return hits


@pytest.mark.parametrize("seed", range(12))
def test_reuse_distances_are_those_of_lru_caches(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, different = 250, int(rng.integers(1, 40))
    stream = Stream(
        rng.integers(0, different, n) * 1_000_003,
        rng.integers(1, 16, n).astype(np.uint8),
        np.full(n, Kind.LOAD, np.int32),
    )
    counted = rng.random(n) < 0.7
    distances = reuse_distances(stream, counted)
    total = sum(int(m).bit_count() for m in stream.mask[counted])
    assert distances.sum() == total
    for lines in range(1, different + 3):
        assert hit_share(distances, LINE_BYTES * lines) == pytest.approx(
            sectors_hit(stream, counted, lines) / total
        )


def test_reuse_by_hand() -> None:
    """Lines a b a b c a: a and b come back after 2 lines, the last a after 3; first uses never hit."""
    line = np.array([1, 2, 1, 2, 3, 1])
    stream = Stream(line, np.full(6, 0b0101, np.uint8), np.full(6, Kind.LOAD, np.int32))
    assert reuse_distances(stream, np.ones(6, np.bool_)).tolist() == [6, 0, 4, 2]
    # another sector of a line that is there is no hit
    apart = replace(stream, mask=np.array([1, 1, 2, 2, 1, 1], np.uint8))
    assert reuse_distances(apart, np.ones(6, np.bool_)).tolist() == [5, 0, 0, 1]
    nothing = Stream(line[:0], stream.mask[:0], stream.kind[:0])
    assert hit_share(reuse_distances(nothing, nothing.loads), 1e9) == 0


def test_warps_take_turns_and_ctas_make_room() -> None:
    """Three CTAs of one warp on one SM that holds two: each record touches line 10 x CTA + step."""
    records, entries = [], []
    for cta, steps in ((0, 2), (4, 3), (7, 2)):
        for step in range(steps):
            records.append([Kind.LOAD, 0, 1, 1, 0, 1, len(entries), 1])
            entries.append((10 * cta + step) << 4 | 15)
        records.append([Kind.EXIT, 0, 1, 1, 0, 1, 0, 1])
    trace = Trace(
        np.array(records, np.int32),
        np.array(entries, np.uint64),
        np.array([0, 3, 7, 10]),
        np.array([0, 4, 7]) << 16,
    )
    assert interleave(trace, [[0, 4, 7]], 2, 99).line.tolist() == [0, 40, 1, 41, 42, 70, 71]
    assert interleave(trace, [[0], [7]], 2, 99).line.tolist() == [0, 70, 1, 71]  # two SMs
    assert interleave(trace, [[4]], 2, 2).line.tolist() == [40, 41]  # cut


def test_what_l1_keeps() -> None:
    kinds = [Kind.LOAD, Kind.STORE, Kind.ATOMIC, Kind.ASYNC_COPY, Kind.LOAD | Flag.BYPASS_L1 << 8,
             Kind.LOAD | Flag.STRONG << 8, Kind.LOAD | LOCAL, Kind.STORE | LOCAL]  # fmt: skip
    stream = Stream(np.arange(8), np.full(8, 15, np.uint8), np.array(kinds, np.int32))
    assert stream.loads.tolist() == [True, False, False, True, True, True, True, False]
    assert stream.through_l1.tolist() == [True, False, False, True, False, False, True, True]

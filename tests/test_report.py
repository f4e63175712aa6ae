"""Reports: key order and bytes of the JSON, and counters put into words.

Results are made by hand here, with counters that follow from the addresses named beside them, so that the
words can be checked without executing anything.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from gpusim.device import load_device
from gpusim.occupancy import occupancy
from gpusim.report import ladder as ladder_report
from gpusim.report.json import report_dict, report_line, report_text
from gpusim.report.lines import access_width, by_line, opcode_of, worst
from gpusim.report.text import count, render, short_name

SOURCE = "line one\nx = As[ty][k];\ny = As[tx][ty];\nz = in[i];\nw = in[i * n];\n"


def row(pc: int, sass: str, line: int, executed: int, **counters: int) -> dict[str, Any]:
    zero = dict.fromkeys(
        (
            "memory_l1_wavefronts_shared",
            "memory_l1_wavefronts_shared_ideal",
            "memory_l1_tag_requests_global",
            "memory_l2_theoretical_sectors_global",
            "memory_l2_theoretical_sectors_global_ideal",
        ),
        0,
    )
    head = {"pc": pc, "sass": sass, "file": "k.cu", "line": line}
    return head | {"inst_executed": executed, "thread_inst_executed": 32 * executed} | zero | counters


def shared(wavefronts: int, ideal: int, words: int | None = None) -> dict[str, int]:
    counters = {"memory_l1_wavefronts_shared": wavefronts, "memory_l1_wavefronts_shared_ideal": ideal}
    return counters if words is None else counters | {"shared_distinct_words": words}


def sectors(real: int, ideal: int) -> dict[str, int]:
    return {
        "memory_l2_theoretical_sectors_global": real,
        "memory_l2_theoretical_sectors_global_ideal": ideal,
    }


#: Ten executions each.
ROWS = [
    row(0x00, "LDS R2, [R4]", 2, 10, **shared(10, 10, 10)),  # all lanes one word: 1 word, 1 wavefront
    row(0x10, "@!P0 LDS R3, [R5+0x80]", 3, 10, **shared(320, 10, 320)),  # a column of 32 x 32: 32 wavefronts
    row(0x20, "LDG.E R6, desc[UR4][R8.64]", 4, 10, **sectors(40, 40)),  # 32 x 4 B in a row: 4 sectors
    row(0x30, "LDG.E R7, desc[UR4][R8.64]", 5, 10, **sectors(320, 40)),  # a column: 32 sectors
    row(0x40, "LDG.E R9, desc[UR4][R8.64]", 5, 10, **sectors(10, 10)),  # one word for all: 1 sector
    row(0x50, "FFMA R1, R2, R3, R4", 5, 10),
]


@pytest.fixture
def result() -> SimpleNamespace:
    spec = load_device("h200")
    metric = {
        "smsp__inst_executed.sum": (np.int64(60), "inst", "exact"),
        "memory_l1_wavefronts_shared": (330, "", "exact"),
        "memory_l1_wavefronts_shared_ideal": (20, "", "exact"),
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": (30, "request", "exact"),
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": (370, "sector", "exact"),
        "memory_l2_theoretical_sectors_global": (370, "sector", "exact"),
        "launch__registers_per_thread": (32, "register/thread", "exact"),
        "no_such_ratio": (float("nan"), "%", "modelled"),
    }
    module = SimpleNamespace(source_text=lambda file: SOURCE if file == "k.cu" else None)
    return SimpleNamespace(
        kernel=SimpleNamespace(
            name="k",
            arch="sm_90",
            cubin_sha256="00ff",
            registers_per_thread=32,
            static_shared_bytes=4096,
            frame_bytes=0,
            spill_bytes=None,
            module=_Hashable(module),
        ),
        launch=SimpleNamespace(
            grid=(10, 1, 1),
            block=(32, 1, 1),
            dynamic_shared_bytes=0,
            args=(np.zeros(5, np.float32), np.int32(7)),
        ),
        device=spec,
        coverage=SimpleNamespace(ctas_total=10, ctas_executed=4, sampled=True, note="every third CTA"),
        occupancy=occupancy(spec, 32, 4096, 0, 32),
        metrics={n: SimpleNamespace(value=v, unit=u, tier=t) for n, (v, u, t) in metric.items()},
        traffic=None,
        instructions=ROWS,
        not_modelled=[{"what": "time", "why": "a later version predicts it"}],
    )


class _Hashable:
    """Stands in for a module: hashable, with a path and source text."""

    path = "folder/k.cu"

    def __init__(self, module: SimpleNamespace) -> None:
        self.source_text = module.source_text


def text_of(renderable: Any) -> str:
    console = Console(width=200, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_json_keys_in_contract_order(result: SimpleNamespace) -> None:
    report = report_dict(result, "id1")
    assert list(report) == [
        "schema", "prediction", "id", "kernel", "launch", "device", "coverage", "occupancy", "metrics",
        "instructions", "not_modelled",
    ]  # fmt: skip
    assert report["schema"] == "gpusim.report/1" and report["prediction"] is True and report["id"] == "id1"
    assert list(report["kernel"]) == [
        "name", "arch", "cubin_sha256", "registers_per_thread", "static_shared_bytes", "frame_bytes",
        "spill_bytes",
    ]  # fmt: skip
    assert list(report["instructions"][0])[:6] == [
        "pc", "sass", "file", "line", "inst_executed", "thread_inst_executed",
    ]  # fmt: skip
    assert report["launch"]["args"] == [
        {"kind": "array", "dtype": "float32", "n": 5},
        {"kind": "scalar", "dtype": "int32", "value": 7},
    ]
    assert list(report["metrics"]) == sorted(report["metrics"])
    assert report["metrics"]["smsp__inst_executed.sum"] == {"value": 60, "unit": "inst", "tier": "exact"}
    assert report["metrics"]["no_such_ratio"]["value"] is None  # JSON has no NaN
    assert "dram.pseudo_channels" in report["device"]["assumed"]


def test_json_lines_are_lines_and_the_file_is_the_same_object(result: SimpleNamespace) -> None:
    line = report_line(result, "id1")
    assert line.endswith("}\n") and line.count("\n") == 1
    assert json.loads(line) == json.loads(report_text(result, "id1"))


def test_json_bytes_do_not_depend_on_the_order_metrics_came_in(result: SimpleNamespace) -> None:
    before = report_line(result)
    result.metrics = dict(reversed(result.metrics.items()))
    assert report_line(result) == before


def test_opcodes_and_widths_of_sass_text() -> None:
    assert opcode_of("@!P0 LDS.U.128 R4, [R2]") == ("LDS", "LDS.U.128")
    assert opcode_of("@UP1 LDG.E.64.CONSTANT R4, desc[UR4][R2.64]") == ("LDG", "LDG.E.64.CONSTANT")
    assert [access_width(n) for n in ("LDS", "LDS.64", "STS.128", "LDG.E.U8", "LDS.S16")] == [4, 8, 16, 1, 2]
    assert [access_width(n) for n in ("LDSM.16.M88.4", "LDSM.16.MT88.2", "LDSM.16.M88")] == [16, 8, 4]
    names = ("LDG.E.128.CONSTANT", "LDS", "LDGSTS.E.BYPASS.128", "LDSM.16.M88.4", "LDG.E.U16")
    assert [short_name(n) for n in names] == ["LDG.128", "LDS", "LDGSTS.128", "LDSM.M88.4", "LDG.U16"]


def test_each_line_in_words() -> None:
    """By the addresses beside ROWS; the two loads of line 5 stay apart."""
    words = [(access.line, access.verdict()) for access in by_line(ROWS)]
    assert words == [
        (2, "broadcast (32 lanes a word), no conflict"),
        (3, "32-way conflict"),
        (4, "coalesced"),
        (5, "uncoalesced: 8x the sectors needed"),
        (5, "broadcast"),
    ]
    found = worst(by_line(ROWS), "shared", "load")
    assert found is not None and found.line == 3 and found.cost_per_request == 32 and found.excess == 310


def test_helpers_of_headers_are_shown_where_they_are_called() -> None:
    helper = row(0, "LDS.128 R4, [R2]", 19, 1, **shared(2, 2, 8)) | {"file": "h.cuh"}
    called = helper | {"inlined_at": (("other.cuh", 7), ("k.cu", 3), ("k.cu", 90))}
    assert [a.line for a in by_line([called], "folder/k.cu")] == [3]
    assert [a.line for a in by_line([called])] == [19]
    assert [a.line for a in by_line([helper], "folder/k.cu")] == [19]


def test_broadcast_needs_the_number_of_words() -> None:
    """Wavefronts alone cannot tell a broadcast from 32 words in 32 banks: nothing is claimed then."""
    (access,) = by_line([row(0, "LDS R2, [R4]", 2, 10, **shared(10, 10))])
    assert access.verdict() == "no conflict"


def test_copy_to_shared_memory_counts_on_both_sides() -> None:
    async_copy = row(0, "LDGSTS.E.BYPASS.128 [R2], [R4.64]", 7, 1, **shared(4, 4), **sectors(16, 16))
    assert [(a.space, a.kind, a.cost) for a in by_line([async_copy])] == [
        ("global", "load", 16),
        ("shared", "store", 4),
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999_999, "999,999"),
        (1_234_567, "1.23 M"),
        (999_999_999, "1e+03 M"),
        (2.5e12, "2.5 T"),
        (None, "-"),
    ],
)
def test_counts_for_reading(value: float | None, text: str) -> None:
    assert count(value) == ("1000 M" if text == "1e+03 M" else text)


def test_text_report_says_what_a_reader_needs(result: SimpleNamespace) -> None:
    text = text_of(render(result, "id1"))
    for part in (
        "grid 10 x 1 x 1, block 32 x 1 x 1",
        "4 of 10 CTAs executed, counters scaled; every third CTA",
        "spills unknown",
        "32-way conflict",
        "broadcast (32 lanes a word), no conflict",
        "k.cu:3",
        "y = As[tx][ty];",
        "exact",
        "time: a later version predicts it",
    ):
        assert part in text, part
    assert "nan" not in text


def test_ladder_shows_ratio_broadcast_and_padding(result: SimpleNamespace) -> None:
    def counter(value: int) -> SimpleNamespace:
        return SimpleNamespace(value=value, unit="", tier="exact")

    def step(name: str, seed: str, sectors: int, wavefronts: int) -> ladder_report.Step:
        changed = dict(result.metrics)
        changed["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] = counter(sectors)
        changed["memory_l2_theoretical_sectors_global"] = counter(sectors)
        changed["memory_l1_wavefronts_shared"] = counter(wavefronts)
        return ladder_report.Step(
            name, seed, f"title of {name}", SimpleNamespace(**(vars(result) | {"metrics": changed}))
        )

    steps = [
        step("A1", "A1", 990, 0),
        step("A2", "A2", 150, 0),
        step("A7", "A7", 50, 330),
        step("A8", "A8", 50, 20),
    ]
    text = text_of(ladder_report.render(steps, 4096, "h200"))
    assert "A1 to A2: a global load takes 33 sectors, then 5; 6.6x fewer sectors" in text
    assert "A8 against A7: shared wavefronts over the ideal 310, then 0" in text
    assert "6.6x fewer" in text and "same" in text
    assert "broadcast (32 lanes a word), no conflict" in text and "32-way conflict" in text
    data = ladder_report.ladder_dict(steps, 4096, "h200")
    assert [s["report"]["id"] for s in data["steps"]] == ["A1", "A2", "A7", "A8"]

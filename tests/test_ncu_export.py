"""Nsight Compute's exports: every page, number format, unit scale and encoding, and what must be refused.

Files are written here from known numbers the way Nsight Compute lays them out, and read back.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ncu_pages import IDENTITY, IDS, LOCALES, Locale, details_page, identity, raw_page, text_of

from gpusim.errors import InputError, ToolMissing
from gpusim.validation import ncu_binary
from gpusim.validation.ncu_export import metric_name, read_export, read_raw, read_source, read_text
from gpusim.validation.ncu_numbers import CONVENTIONS, Convention, base_unit, decide, value

SOURCE_HEADER = (
    "Address", "Source", "Warp Stall Sampling (All Samples)", "# Samples", "Instructions Executed",
    "Instructions Executed", "Thread Instructions Executed", "Predicated-On Thread Instructions Executed",
    "Address Space", "L1 Tag Requests Global", "L1 Wavefronts Shared Excessive", "L1 Wavefronts Shared",
    "L1 Wavefronts Shared Ideal", "L2 Theoretical Sectors Global", "L2 Theoretical Sectors Global Ideal",
    "stall_barrier",
)  # fmt: skip


def source_page(locale: Locale, name: str = "sgemm(const float *, int)", scale: int = 1) -> str:
    def row(k: int, sass: str, executed: int, wavefronts: int, ideal: int, sectors: int) -> list[str]:
        f = locale.format
        n = executed * scale
        return [hex(0x7F0012345600 + 16 * k), f"      {sass} ", "12", "12", f(n), f(n), f(32 * n), f(32 * n),
                "-", f(0), f(wavefronts * scale - ideal * scale), f(wavefronts * scale), f(ideal * scale),
                f(sectors * scale), f(sectors * scale), "0"]  # fmt: skip

    rows = [["Kernel Name", name], list(SOURCE_HEADER), row(0, "LDC R1, c[0x0][0x28]", 2048, 0, 0, 0),
            row(1, "LDS R4, [R2]", 2048, 65536, 2048, 0), row(2, "@P0 LDG.E R5, [R6.64]", 1024, 0, 0, 8192),
            row(3, "EXIT", 2048, 0, 0, 0)]  # fmt: skip
    return text_of(rows, locale.delimiter)


# --- Numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("locale", LOCALES, ids=IDS)
@given(numbers=st.lists(st.integers(0, 10**13), min_size=1, max_size=12),
       cents=st.lists(st.integers(0, 10**9), max_size=6))  # fmt: skip
def test_a_raw_page_reads_back_in_any_locale(locale: Locale, numbers: list[int], cents: list[int]) -> None:
    metrics = {f"m__count{k}.sum": (locale.format(n), "inst") for k, n in enumerate(numbers)}
    metrics |= {f"m__ratio{k}.avg": (locale.format(c / 100, 2), "cycle") for k, c in enumerate(cents)}
    (launch,) = read_text(raw_page([metrics], locale.delimiter), "f").launches
    assert [launch.metrics[f"m__count{k}.sum"].number for k in range(len(numbers))] == numbers
    for k, c in enumerate(cents):
        read = launch.metrics[f"m__ratio{k}.avg"]
        assert (read.number, read.half_step) == (pytest.approx(c / 100, abs=1e-9), 0.005)


@given(st.integers(1000, 999_999))
def test_a_count_alone_decides_its_own_format(n: int) -> None:
    """``38.208 inst`` cannot be a fraction of an instruction."""
    assume(n % 1000)
    for locale in LOCALES:
        page = raw_page([{"smsp__inst_executed.sum": (locale.format(n), "inst")}])
        assert read_text(page, "f").launches[0].metrics["smsp__inst_executed.sum"].number == n


@pytest.mark.parametrize(
    ("texts", "counts", "decimal", "group"),
    [
        (["1,234.5"], [], ".", ","),
        (["1.234,5"], [], ",", "."),
        (["1,234", "0.5"], [], ".", ","),  # 0.5: the point is the decimal mark
        (["1.234", "0,25"], [], ",", "."),
        (["1.234.567", "1.234"], [], None, "."),  # two marks of a kind group
        (["12,34,567"], [], None, ","),  # lakh and crore
        (["1'234", "2.5"], [], ".", "'"),
        (["1 234", "2,5"], [], ",", " "),
        (["1.234", "123456"], [], ".", ""),  # a file that groups would print 123.456
        (["1,234", "1234567"], [], ",", ""),
        (["1.234"], ["1.234"], None, "."),
        (["1.5", "2.25"], [], ".", ""),
    ],
)
def test_the_convention_is_decided_from_the_whole_file(
    texts: list[str], counts: list[str], decimal: str | None, group: str
) -> None:
    found = decide(texts, counts)
    if decimal is not None:
        assert found.decimal == decimal
    marks = {c for text in texts for c in text if not c.isdigit()}
    assert found.group == group or (not group and found.group not in marks)


@pytest.mark.parametrize("texts", [["1.234"], ["1,234", "5"], ["12.345", "999.000"]])
def test_an_ambiguous_file_is_refused_with_a_way_out(texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"can be read as .* or .*") as caught:
        decide(texts, where="raw.csv")
    assert "LC_ALL=C" in caught.value.message() and "--print-units base" in caught.value.message()


def test_contradicting_numbers_are_named() -> None:
    with pytest.raises(InputError, match=r"'1,5' and '2\.5' follow different number formats"):
        decide(["2.5", "1,5"])


def test_version_numbers_and_names_do_not_count_as_numbers() -> None:
    assert decide(["580.159.04", "CachePreferNone", "2,5", "9.0.1"]).decimal == ","


@pytest.mark.parametrize(
    "text", ["", "-", "n/a", "N/A", "nan", "NaN", "inf", "no data", "CachePreferNone", "0x10"]
)
def test_what_is_no_number_is_absent(text: str) -> None:
    assert value(text, "inst", CONVENTIONS[0]) is None


def test_percent_signs_exponents_and_instances() -> None:
    c = Convention(".", ",")
    assert value("89.1 %", "", c).number == 89.1  # type: ignore[union-attr]
    assert value("89.1%", "", c).unit == "%"  # type: ignore[union-attr]
    assert value("1.5e+06", "byte", c).number == 1.5e6  # type: ignore[union-attr]
    assert value("1.5e+06", "byte", c).half_step == 0.05e6  # type: ignore[union-attr]
    assert value("1,234 (1,000; 234)", "inst", c).number == 1234  # type: ignore[union-attr]
    assert value("-3", "", c).number == -3  # type: ignore[union-attr]
    assert value("1e99999", "", c) is None


# --- Units -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "unit", "number", "base", "half"),
    [
        ("1.23", "Mbyte", 1_230_000, "byte", 5_000),
        ("65.54", "Kbyte", 65_540, "byte", 5),
        ("1", "Kbyte/block", 1_000, "byte/block", 5),  # whole: stands for 1.00
        ("3.2", "us", 3_200, "ns", 50),
        ("3.20", "usecond", 3_200, "ns", 5),
        ("1.5", "msecond", 1_500_000, "ns", 50_000),
        ("2.5", "s", 2_500_000_000, "ns", 5e7),
        ("113,920", "ns", 113_920, "ns", 0),
        ("1.98", "Ghz", 1_980_000_000, "hz", 5e6),
        ("1.98", "cycle/nsecond", 1_980_000_000, "hz", 5e6),
        ("2.5", "Tbyte/s", 2_500_000_000_000, "byte/s", 5e10),
        ("2.5", "Gbyte/second", 2_500_000_000, "byte/s", 5e7),
        ("1.2", "Kinst", 1_200, "inst", 50),
        ("4.19", "Msector", 4_190_000, "sector", 5_000),
        ("32", "register/thread", 32, "register/thread", 0),
        ("0.98", "inst/cycle", 0.98, "inst/cycle", 0.005),
        ("89.1", "%", 89.1, "%", 0.05),
        ("7", "furlong", 7, "furlong", 0),
    ],
)
def test_units_are_brought_to_their_base(text: str, unit: str, number: float, base: str, half: float) -> None:
    read = value(text, unit, Convention(".", ","))
    assert read is not None
    assert (read.number, read.unit, read.printed_unit) == (number, base, unit)
    assert read.half_step == pytest.approx(half)


@given(st.integers(0, 10**14), st.sampled_from(["", "K", "M", "G"]), st.integers(1, 3))
def test_a_scaled_value_lies_within_its_half_step(exact: int, prefix: str, decimals: int) -> None:
    factor = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}[prefix]
    text = f"{exact / factor:.{decimals}f}"
    read = value(text, f"{prefix}byte", Convention(".", ""))
    assert read is not None and base_unit(f"{prefix}byte") == ("byte", factor)
    assert abs(read.number - exact) <= read.half_step * (1 + 1e-9) + 1e-3


# --- Raw pages ---------------------------------------------------------------------------------------------

METRICS = {
    "launch__registers_per_thread": ("32", "register/thread"),
    "smsp__inst_executed.sum": ("38,208", "inst"),
    "dram__bytes_read.sum": ("1.23", "Mbyte"),
    "launch__func_cache_config": ("CachePreferNone", ""),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("89.10", "%"),
}


def test_launches_of_a_raw_page(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_text(raw_page([METRICS, METRICS]), encoding="utf-8")
    first, second = read_raw(path)
    assert (first.id, first.name, first.grid, first.block) == (
        0, "sgemm(const float *, int)", (4, 8, 1), (16, 16, 1))  # fmt: skip
    assert second.id == 1
    assert {n: v.number for n, v in first.metrics.items()} == {
        "launch__registers_per_thread": 32,
        "smsp__inst_executed.sum": 38_208,
        "dram__bytes_read.sum": 1_230_000,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 89.1,
    }  # the cache preference is no number: absent


def test_what_the_profiler_prints_around_the_table_is_skipped() -> None:
    noisy = (
        "==PROF== Connected to process 77 (/home/u/app)\nresult: 1,5 ok, name\n"
        '==PROF== Profiling "sgemm" - 0: 0%....50%....100% - 38 passes\n'
        + raw_page([METRICS]).replace("\n", "\n==WARNING== clocks were not locked\n", 1)
        + "==PROF== Disconnected from process 77\ndone\n"
    )
    assert read_text(noisy, "f").launches == read_text(raw_page([METRICS]), "f").launches


def test_two_tables_one_after_another() -> None:
    """The output of two profiler runs in one file."""
    other = {"smsp__inst_executed.sum": ("1,000", "inst")}
    launches = read_text(raw_page([METRICS]) + raw_page([other]), "f").launches
    assert [len(launch.metrics) for launch in launches] == [4, 1]


@pytest.mark.parametrize(
    ("text", "shape"),
    [("(1024, 1, 1)", (1024, 1, 1)), ("(256,1,1)", (256, 1, 1)), ("(1.024, 4, 1)", (1024, 4, 1)),
     ("(1,024, 4, 1)", (1024, 4, 1)), ("(1\u202f024, 4, 1)", (1024, 4, 1)), ("", None),
     ("12 x 4 x 1", (12, 4, 1)), ("(a, 1, 1)", None)],
)  # fmt: skip
def test_shapes(text: str, shape: tuple[int, int, int] | None) -> None:
    page = text_of([(*IDENTITY, "m__a.sum"), ("",) * 11 + ("inst",), (*identity(0, grid=text), "5")])
    assert read_text(page, "f").launches[0].grid == shape


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    locale = Locale("fr", ",", "\u202f")
    metrics = {"smsp__inst_executed.sum": (locale.format(1_234_567), "inst"), "a__b.avg": ("2,50", "")}
    page = raw_page([metrics])
    (tmp_path / "raw.csv").write_bytes(page.encode(encoding))
    (launch,) = read_raw(tmp_path / "raw.csv")
    assert launch.metrics["smsp__inst_executed.sum"].number == 1_234_567


def test_a_western_code_page(tmp_path: Path) -> None:
    page = raw_page([{"smsp__inst_executed.sum": ("1\u00a0234", "inst"), "a__b.avg": ("2,50", "")}])
    (tmp_path / "raw.csv").write_bytes(page.encode("cp1252"))
    assert read_raw(tmp_path / "raw.csv")[0].metrics["smsp__inst_executed.sum"].number == 1234


def test_a_metric_may_stand_twice_if_it_says_the_same() -> None:
    header = (*IDENTITY, "m__a.sum", "m__a.sum")
    units = ("",) * 11 + ("inst", "inst")
    (launch,) = read_text(text_of([header, units, (*identity(0), "5", "5")]), "f").launches
    assert launch.metrics["m__a.sum"].number == 5
    with pytest.raises(InputError, match=r"m__a\.sum stands there twice, as 5 and 6"):
        read_text(text_of([header, units, (*identity(0), "5", "6")]), "f")


def test_units_in_the_column_names_of_the_window() -> None:
    page = text_of(
        [("ID", "Kernel Name", "Grid Size", "gpu__time_duration.sum [us]"), ("0", "k", "(1, 1, 1)", "2.5")]
    )
    assert read_text(page, "f").launches[0].metrics["gpu__time_duration.sum"].number == 2500


# --- Details pages -----------------------------------------------------------------------------------------

DETAILS = [
    (0, "GPU Speed Of Light Throughput", "Memory Throughput", "%", "14.26"),
    (0, "GPU Speed Of Light Throughput", "Duration", "us", "3.20"),
    (0, "Launch Statistics", "Registers Per Thread", "register/thread", "32"),
    (0, "Launch Statistics", "Static Shared Memory Per Block", "Kbyte/block", "8.19"),
    (0, "Occupancy", "Theoretical Occupancy", "%", "100"),
    (0, "Occupancy", "Block Limit Shared Mem", "block", "8"),
    (0, "Memory Workload Analysis", "Memory Throughput", "Gbyte/s", "12.94"),
    (0, "Instruction Statistics", "Executed Instructions", "inst", "38,208"),
    (0, "Something New", "Flux Capacity", "%", "3"),
    (1, "Launch Statistics", "Registers Per Thread", "register/thread", "40"),
]


def test_labels_of_a_details_page() -> None:
    export = read_text(details_page(DETAILS), "f")
    first, second = export.launches
    assert {n: v.number for n, v in first.metrics.items()} == {
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 14.26,
        "gpu__time_duration.sum": 3200,
        "launch__registers_per_thread": 32,
        "launch__shared_mem_per_block_static": 8190,
        "sm__maximum_warps_per_active_cycle_pct": 100,
        "launch__occupancy_limit_shared_mem": 8,
        "dram__bytes.sum.per_second": 12.94e9,
        "smsp__inst_executed.sum": 38_208,
    }
    assert second.metrics["launch__registers_per_thread"].number == 40
    assert export.unknown_labels == ("Flux Capacity",)
    assert (first.id, first.grid, second.id) == (0, (4, 8, 1), 1)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("smsp__inst_executed.sum", "smsp__inst_executed.sum"),
        ("memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared"),
        ("Registers Per Thread (launch__registers_per_thread)", "launch__registers_per_thread"),
        ("Executed Instructions smsp__inst_executed.sum", "smsp__inst_executed.sum"),
        ("registers  per thread", "launch__registers_per_thread"),
        ("Flux Capacity", None),
        ("Memory Throughput", None),  # means two things; the section is needed
    ],
)
def test_names_labels_and_both(label: str, name: str | None) -> None:
    assert metric_name(label) == name


@pytest.mark.parametrize("locale", LOCALES, ids=IDS)
def test_details_in_any_locale(locale: Locale) -> None:
    f = locale.format
    rows = [(0, "Command line profiler metrics", "smsp__inst_executed.sum", "inst", f(38_208)),
            (0, "Command line profiler metrics", "dram__bytes_read.sum", "Mbyte", f(1.23, 2)),
            (0, "Occupancy", "Achieved Occupancy", "%", f(50, 2))]  # fmt: skip
    (launch,) = read_text(details_page(rows, locale.delimiter), "f").launches
    assert [v.number for v in launch.metrics.values()] == [38_208, 1_230_000, 50]


def test_rules_are_skipped_and_may_hold_line_breaks() -> None:
    page = details_page(DETAILS)
    rule = (
        *identity(0),
        "Occupancy",
        "",
        "",
        "",
        "Bottleneck",
        "OPT",
        'says "1,5",\nand more',
        "global",
        "12.5",
    )
    assert read_text(page + text_of([rule]), "f").launches == read_text(page, "f").launches


def test_a_summary_is_refused() -> None:
    header = "Process ID,Kernel Name,Invocations,Section Name,Metric Name,Metric Unit,Minimum,Maximum,Average"
    page = f"{header}\n1,k,2,s,m__a.sum,inst,1,3,2\n"
    with pytest.raises(InputError, match=r"summary over several launches.*\n.*without --print-summary"):
        read_text(page, "f")


# --- Source pages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("locale", LOCALES, ids=IDS)
@pytest.mark.parametrize("scale", [1, 1000, 123_457])
def test_instructions_in_any_locale(tmp_path: Path, locale: Locale, scale: int) -> None:
    path = tmp_path / "source.csv"
    path.write_text(source_page(locale, scale=scale), encoding="utf-8")
    (page,) = read_source(path)
    assert page.name == "sgemm(const float *, int)"
    assert [(r["pc"], r["sass"]) for r in page.rows] == [
        (0, "LDC R1, c[0x0][0x28]"),
        (16, "LDS R4, [R2]"),
        (32, "@P0 LDG.E R5, [R6.64]"),
        (48, "EXIT"),
    ]
    assert page.rows[1]["columns"] == {
        "inst_executed": 2048 * scale,
        "thread_inst_executed": 65536 * scale,
        "thread_inst_executed_true": 65536 * scale,
        "memory_l1_tag_requests_global": 0,
        "derived__memory_l1_wavefronts_shared_excessive": 63488 * scale,
        "memory_l1_wavefronts_shared": 65536 * scale,
        "memory_l1_wavefronts_shared_ideal": 2048 * scale,
        "memory_l2_theoretical_sectors_global": 0,
        "memory_l2_theoretical_sectors_global_ideal": 0,
    }
    assert page.rows[2]["columns"]["memory_l2_theoretical_sectors_global"] == 8192 * scale


def test_kernels_that_appear_twice_stay_two_pages() -> None:
    c = LOCALES[0]
    pages = read_text(source_page(c) + "\n" + source_page(c, scale=2) + source_page(c, "other"), "f").sources
    assert [p.name for p in pages] == ["sgemm(const float *, int)"] * 2 + ["other"]
    assert [p.rows[0]["columns"]["inst_executed"] for p in pages] == [2048, 4096, 2048]


def test_relative_addresses_raw_names_and_a_number_column() -> None:
    rows = [["Kernel Name", "k"], ["#", "Address", "Source", "inst_executed", "smsp__pcsamp_sample_count"],
            ["0", "00000000", "LDC R1, c[0x0][0x28]", "8", "3"],
            ["1", "00000010", "EXIT", "8", "-"]]  # fmt: skip
    (page,) = read_text(text_of(rows), "f").sources
    assert page.rows[0] == {"pc": 0, "sass": "LDC R1, c[0x0][0x28]",
                            "columns": {"inst_executed": 8, "smsp__pcsamp_sample_count": 3}}  # fmt: skip
    assert page.rows[1]["pc"] == 16 and "smsp__pcsamp_sample_count" not in page.rows[1]["columns"]


def test_source_lines_with_their_instructions() -> None:
    """``--print-source cuda,sass``: a block a file; an inlined instruction stands under several lines."""
    header = ["Line No", "Source", "Address", "Source", "inst_executed"]
    rows = [["Kernel Name", "k"],
            ["File Path", "/a.cu"], header,
            ["5", "x = a[i];", "", "", "16"], ["", "", "0x7f0100", "LDG.E R0, [R2]", "8"],
            ["", "", "0x7f0110", "EXIT", "8"], ["...", "...", "-", "", ""],
            ["File Path", "/b.h"], header,
            ["9", "f(x)", "", "", "8"], ["", "", "0x7f0100", "LDG.E R0, [R2]", "8"],
            ["Kernel Name", "other"], ["File Path", "/a.cu"], header,
            ["5", "y", "", "", "1"], ["", "", "0x7f0200", "EXIT", "1"]]  # fmt: skip
    pages = read_text(text_of(rows), "f").sources
    assert [(p.name, [(r["pc"], r["sass"]) for r in p.rows]) for p in pages] == [
        ("k", [(0, "LDG.E R0, [R2]"), (16, "EXIT")]), ("other", [(0, "EXIT")])]  # fmt: skip


def test_source_lines_alone_are_refused() -> None:
    rows = [
        ["Kernel Name", "k"],
        ["File Path", "/a.cu"],
        ["Line No", "Source", "inst_executed"],
        ["5", "x", "8"],
    ]
    with pytest.raises(InputError, match=r"no machine instruction.*\n.*--print-source sass"):
        read_text(text_of(rows), "f")


def test_duplicated_columns_that_disagree_are_refused() -> None:
    rows = [["Kernel Name", "k"], ["Address", "Source", "Instructions Executed", "# Instructions Executed"],
            ["0x0", "EXIT", "8", "9"]]  # fmt: skip
    with pytest.raises(InputError, match="inst_executed stands there twice, as 8 and 9"):
        read_text(text_of(rows), "f")


# --- What must be refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"  \n\n", "the file is empty"),
        (b"a,b,c\n1,2,3\n", "holds no table of Nsight Compute"),
        (b'"Time (%)","Total Time (ns)","Instances","Name"\n"95.0","3481709","1","k"\n', "holds no table"),
        (b'{"schema": "gpusim.report/1"}', "is JSON, not an export"),
        (b"\x7fELF\x02\x01\x01\x00\x03\x00" * 20, "is a binary file"),
        (b"==PROF== Connected\n", "holds no table"),
        (b"==ERROR== ERR_NVGPUCTRPERM - no permission\n", "not allowed to read counters"),
        (b'"Kernel Name","k"\n', "names a kernel but holds no table"),
        (b'\xff\xfe"\x00I\x00D', "is not valid utf-16 text"),
    ],
)
def test_hostile_files_are_refused_with_a_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_export(path)
    assert str(path) in caught.value.message()


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "no.csv", tmp_path):
        with pytest.raises(InputError, match="cannot read"):
            read_export(path)


@given(st.floats(0.02, 0.999))
def test_a_truncated_page_is_refused_or_a_shorter_one(share: float) -> None:
    """Cut anywhere: an error, or only whole launches that were there."""
    whole = raw_page([METRICS] * 5)
    full = read_text(whole, "f").launches
    try:
        cut = read_text(whole[: int(len(whole) * share)], "f").launches
    except InputError:
        return
    assert list(cut[:-1]) == list(full[: len(cut) - 1])
    # the last cell may have been cut within its digits only where no quote was left open
    assert cut[-1] == full[len(cut) - 1]


def test_a_row_cut_short_names_its_line(tmp_path: Path) -> None:
    lines = raw_page([METRICS] * 2).splitlines()
    lines[3] = '"1","77","app"'
    with pytest.raises(InputError, match=r"f:4: the row has 3 cells, its header 16: the file is truncated"):
        read_text("\n".join(lines), "f")


def test_pages_of_different_kinds_in_one_file() -> None:
    with pytest.raises(InputError, match="pages of different kinds"):
        read_text(raw_page([METRICS]) + details_page(DETAILS), "f")


def test_a_page_of_the_other_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(source_page(LOCALES[0]), encoding="utf-8")
    (tmp_path / "r.csv").write_text(raw_page([METRICS]), encoding="utf-8")
    with pytest.raises(InputError, match="is a source page"):
        read_raw(tmp_path / "s.csv")
    with pytest.raises(InputError, match="is a raw page"):
        read_source(tmp_path / "r.csv")


@given(st.text(max_size=400))
def test_no_text_breaks_the_reader(text: str) -> None:
    for page in (text, raw_page([METRICS]) + text, '"Kernel Name","k"\n"Address","Source"\n' + text):
        try:
            read_text(page, "f")
        except InputError:
            continue


def test_a_large_page_takes_time_in_proportion() -> None:
    """20,000 launches of 40 metrics (about 9 MB): seconds, not minutes."""
    metrics = {f"m__{k}.sum": (f"{k * 1_234_567:,}", "inst") for k in range(40)}
    times = []
    for launches in (5_000, 20_000):
        page = raw_page([metrics] * launches)
        begin = time.perf_counter()
        assert len(read_text(page, "f").launches) == launches
        times.append(time.perf_counter() - begin)
    assert times[1] < 12 * times[0] + 1  # four times the text; quadratic would be 16 times


# --- .ncu-rep ----------------------------------------------------------------------------------------------


class Metric:
    """NVIDIA's IMetric as far as it is used."""

    def __init__(self, value: Any, unit: str = "", instances: Mapping[int, int] | None = None) -> None:
        self._value, self._unit, self._instances = value, unit, dict(instances or {})

    def value(self) -> Any:
        return self._value

    def has_value(self) -> bool:
        return self._value is not None

    def unit(self) -> str:
        return self._unit

    def has_correlation_ids(self) -> bool:
        return bool(self._instances)

    def correlation_ids(self) -> Any:
        places = list(self._instances)
        return SimpleNamespace(as_uint64=places.__getitem__)

    def num_instances(self) -> int:
        return len(self._instances)

    def as_uint64(self, i: int) -> int:
        return list(self._instances.values())[i]


class Action:
    metrics: Mapping[str, Metric] = {
        "launch__grid_dim_x": Metric(4), "launch__grid_dim_y": Metric(8), "launch__grid_dim_z": Metric(1),
        "launch__block_dim_x": Metric(256), "launch__block_dim_y": Metric(1),
        "launch__block_dim_z": Metric(1),
        "gpu__time_duration.sum": Metric(3200, "ns"),
        "launch__func_cache_config": Metric("CachePreferNone"),
        "smsp__ratio.ratio": Metric(float("nan")),
        "inst_executed": Metric(24, "inst", {0x7F0110: 8, 0x7F0100: 16}),
    }  # fmt: skip

    def name(self, base: int = 0) -> str:
        return "_Z5sgemmPKfi" if base else "sgemm"

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self.metrics)

    def metric_by_name(self, name: str) -> Metric | None:
        return self.metrics.get(name)

    def sass_by_pc(self, pc: int) -> str:
        return {0x7F0100: "LDC R1,  c[0x0][0x28] ", 0x7F0110: "EXIT"}[pc]


def test_a_report_through_nvidias_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = SimpleNamespace(num_actions=lambda: 1, action_by_idx=lambda k: Action())
    context = SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda k: results)
    module = SimpleNamespace(load_report=lambda path: context, IAction=SimpleNamespace(NameBase_MANGLED=2))
    monkeypatch.setattr(ncu_binary, "_module", lambda: module)
    (tmp_path / "p.ncu-rep").write_bytes(b"NVR\0")
    (launch,), (page,) = (f(tmp_path / "p.ncu-rep") for f in (read_raw, read_source))
    assert (launch.name, launch.grid, launch.block) == ("_Z5sgemmPKfi", (4, 8, 1), (256, 1, 1))
    assert launch.metrics["gpu__time_duration.sum"].number == 3200
    assert not {"launch__func_cache_config", "smsp__ratio.ratio"} & set(launch.metrics)
    assert page.rows == [{"pc": 0, "sass": "LDC R1, c[0x0][0x28]", "columns": {"inst_executed": 16}},
                         {"pc": 16, "sass": "EXIT", "columns": {"inst_executed": 8}}]  # fmt: skip


def test_a_report_through_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for ``ncu`` that prints pages as it would."""
    (tmp_path / "raw").write_text(raw_page([METRICS]), encoding="utf-8")
    (tmp_path / "source").write_text(source_page(LOCALES[0]), encoding="utf-8")
    tool = tmp_path / "ncu"
    tool.write_text(f'#!/bin/sh\n[ "$LC_ALL" = C ] || exit 3\nexec cat "{tmp_path}/$4"\n', encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(ncu_binary, "_module", lambda: None)
    report = tmp_path / "p.ncu-rep"
    report.write_bytes(b"NVR\0")
    export = read_export(report)
    assert (len(export.launches), len(export.sources[0].rows)) == (1, 4)


def test_a_report_without_module_or_tool_says_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ncu_binary, "_module", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    report = tmp_path / "p.ncu-rep"
    report.write_bytes(b"NVR\0")
    with pytest.raises(ToolMissing, match=r"ncu -i p\.ncu-rep --page raw --csv --print-units base"):
        read_export(report)
    with pytest.raises(InputError, match=r"no such file|cannot read"):
        read_export(tmp_path / "none.ncu-rep")


def test_a_broken_report_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> Any:
        raise RuntimeError("bad magic")

    monkeypatch.setattr(ncu_binary, "_module", lambda: SimpleNamespace(load_report=fail))
    (tmp_path / "p.ncu-rep").write_bytes(b"garbage")
    with pytest.raises(InputError, match="ncu_report cannot read it: bad magic"):
        read_export(tmp_path / "p.ncu-rep")

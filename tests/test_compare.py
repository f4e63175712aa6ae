"""Predictions beside measurements: verdicts, matching of launches, known gaps, and ``gpusim compare``."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ncu_pages import IDS, LOCALES, Locale, details_page, identity, raw_page, text_of

from gpusim.cli import main
from gpusim.errors import InputError
from gpusim.launch import load_manifest
from gpusim.program import load
from gpusim.report.json import report_text
from gpusim.simulate import simulate
from gpusim.validation import deviations
from gpusim.validation.compare import (
    LaunchMeasured,
    compare,
    counts,
    different_binary,
    equal,
    matching_launches,
    measured_of_record,
    same_kernel,
)
from gpusim.validation.deviations import Deviation, Where, deviation_for
from gpusim.validation.ncu_export import LaunchRow, SourceRow
from gpusim.validation.ncu_numbers import Value

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "validation" / "measurements" / "h200" / "cases"
GAP = Deviation(7, "a gap", "known", "open", (Where(("k:*",), ("a__*",)),))


def report(metrics: Mapping[str, tuple[Any, str, str]] | None = None, **changes: Any) -> dict[str, Any]:
    """A small report: two instructions, three metrics."""
    metrics = metrics or {"a__x.sum": (100, "inst", "exact"), "inst_executed": (16, "inst", "exact")}
    base = {
        "schema": "gpusim.report/1",
        "id": "k:tiny",
        "kernel": {"name": "k"},
        "launch": {"grid": [4, 8, 1], "block": [16, 16, 1]},
        "metrics": {n: {"value": v, "unit": u, "tier": t} for n, (v, u, t) in metrics.items()},
        "instructions": [
            {"pc": 0, "sass": "LDS R4, [R2]", "file": "/src/k.cu", "line": 7, "inst_executed": 8},
            {"pc": 16, "sass": "EXIT", "file": None, "line": None, "inst_executed": 8},
        ],
    }
    return base | changes


def rows(*executed: int, sass: Sequence[str] = ("LDS R4, [R2]", "EXIT")) -> list[SourceRow]:
    return [
        SourceRow(pc=16 * k, sass=s, columns={"inst_executed": n})
        for k, (n, s) in enumerate(zip(executed, sass, strict=True))
    ]


# --- Verdicts --------------------------------------------------------------------------------------------


def test_one_verdict_for_each_situation() -> None:
    made = report(
        {
            "a__same.sum": (5, "inst", "exact"),
            "a__known.sum": (5, "inst", "exact"),
            "b__wrong.sum": (5, "inst", "exact"),
            "b__model.sum": (110, "sector", "modelled"),
            "b__model_same.sum": (7, "sector", "modelled"),
            "b__alone.sum": (1, "inst", "exact"),
            "b__empty.sum": (None, "inst", "exact"),
        }
    )
    measured = {"a__same.sum": 5, "a__known.sum": 6, "b__wrong.sum": 6, "b__model.sum": 100,
                "b__model_same.sum": 7, "b__empty.sum": 3, "c__theirs.sum": 9}  # fmt: skip
    found = compare(made, LaunchMeasured({n: Value(v, "inst") for n, v in measured.items()}), [GAP])
    assert {p.metric: p.verdict for p in found.pairs} == {
        "a__same.sum": "equal",
        "a__known.sum": "known",
        "b__wrong.sum": "differs",
        "b__model.sum": "close",
        "b__model_same.sum": "equal",
        "b__alone.sum": "not measured",
        "b__empty.sum": "not predicted",
        "c__theirs.sum": "not predicted",
    }
    by_name = {p.metric: p for p in found.pairs}
    assert by_name["a__known.sum"].deviation == 7
    assert by_name["b__model.sum"].relative_error == pytest.approx(0.1)
    assert found.failed and counts(found.pairs)["differs"] == 1


@pytest.mark.parametrize(
    ("predicted", "measured", "same"),
    [
        (1_230_400, Value(1_230_000, "byte", 5_000, "1.23", "Mbyte"), True),
        (1_235_000, Value(1_230_000, "byte", 5_000, "1.23", "Mbyte"), True),  # half a step: rounds either way
        (1_235_001, Value(1_230_000, "byte", 5_000, "1.23", "Mbyte"), False),
        (1_224_999, Value(1_230_000, "byte", 5_000, "1.23", "Mbyte"), False),
        (1024, Value(1020, "byte/block", 5, "1.02", "Kbyte/block"), True),
        (38_208, Value(38_208, "inst"), True),
        (38_209, Value(38_208, "inst"), False),  # counts have no tolerance
        (10**15 + 1, Value(10**15, "inst"), False),
        (89.0625, Value(89.06, "%", 0.005), True),
        (89.0625, Value(89.06, ""), True),  # a record keeps the number, not its digits
        (89.07, Value(89.06, ""), True),  # within both roundings
        (89.08, Value(89.06, ""), False),
        (62.06, Value(62.0606060606, ""), True),  # the prediction is the coarser one
        (0.0, Value(0.02, ""), False),
        (0, Value(0, ""), True),
    ],
)
def test_what_counts_as_equal(predicted: float, measured: Value, same: bool) -> None:
    assert equal(predicted, measured) is same


@given(st.integers(0, 10**13), st.sampled_from([1, 10**3, 10**6, 10**9]), st.integers(0, 3))
def test_a_true_count_equals_what_the_profiler_prints_of_it(count: int, factor: int, decimals: int) -> None:
    from gpusim.validation.ncu_numbers import Convention, value

    prefix = {1: "", 10**3: "K", 10**6: "M", 10**9: "G"}[factor]
    text = f"{count / factor:.{decimals}f}" if factor > 1 and decimals else f"{count}"
    unit = f"{prefix}byte" if factor > 1 and decimals else "byte"
    read = value(text, unit, Convention(".", ""))
    assert read is not None and equal(count, read)


def test_equal_as_printed_is_said() -> None:
    made = report({"a__x.sum": (1_230_400, "byte", "exact")})
    (pair,) = compare(
        made, LaunchMeasured({"a__x.sum": Value(1_230_000, "byte", 5_000, "1.23", "Mbyte")})
    ).pairs
    assert (pair.verdict, pair.note) == ("equal", "equal as printed (1.23 Mbyte)")


def test_errors_where_nothing_was_measured_have_no_ratio() -> None:
    made = report({"a__x.sum": (3, "", "modelled"), "a__y.sum": (0, "", "modelled")})
    pairs = compare(made, LaunchMeasured({"a__x.sum": Value(0, ""), "a__y.sum": Value(0, "")})).pairs
    assert [p.relative_error for p in pairs] == [None, 0.0]


# --- Instructions ----------------------------------------------------------------------------------------


def test_instructions_are_compared_by_pc_and_column() -> None:
    found = compare(report(), LaunchMeasured({}, rows(8, 9)))
    assert [(p.pc, p.metric, p.predicted, p.measured, p.verdict) for p in found.instructions] == [
        (0, "inst_executed", 8, 8, "equal"), (16, "inst_executed", 8, 9, "differs")]  # fmt: skip
    total = next(p for p in found.metrics if p.metric == "inst_executed")
    assert (total.predicted, total.measured, total.verdict) == (16, 17, "differs")  # the column's sum
    assert found.notes == []


def test_a_column_is_as_exact_as_its_total() -> None:
    made = report({"inst_executed": (16, "inst", "modelled")})
    assert [p.verdict for p in compare(made, LaunchMeasured({}, rows(8, 9))).instructions] == [
        "equal",
        "close",
    ]


@pytest.mark.parametrize(
    ("sass", "reason"),
    [
        (["LDS.U R4, [R2+0x10]", "EXIT"], None),  # modifiers and operands are printed differently
        (["@!P0 LDS R4, [R2]", "EXIT"], None),
        (["", ""], None),  # no text, as from some reports
        (["LDG.E R4, [R2]", "EXIT"], "at 0x0 it has LDG, the predicted one LDS"),
        (["LDS R4, [R2]"], "it has 1 instructions, the predicted one 2"),
        (["LDS R4, [R2]", "EXIT", "BRA 0x20"], "it has 3 instructions, the predicted one 2"),
        (["LDS R4, [R2]", "EXIT", "NOP"], None),  # padding
    ],
)
def test_another_binary_is_recognised(sass: list[str], reason: str | None) -> None:
    theirs = [SourceRow(pc=16 * k, sass=text, columns={}) for k, text in enumerate(sass)]
    assert different_binary(report()["instructions"], theirs) == reason


def test_shifted_addresses_are_another_binary() -> None:
    theirs = [SourceRow(pc=pc, sass=text, columns={}) for pc, text in ((0, "LDS R4, [R2]"), (32, "EXIT"))]
    assert different_binary(report()["instructions"], theirs) == "it has no instruction at 0x10"


def test_of_another_binary_only_the_launch_is_compared() -> None:
    found = compare(
        report(), LaunchMeasured({}, rows(8, 8, 1, sass=("LDS R4, [R2]", "IADD3 R1, R1", "EXIT")))
    )
    assert found.instructions == [] and "another binary was measured" in found.notes[0]


def test_registers_that_differ_are_pointed_out() -> None:
    made = report({"launch__registers_per_thread": (32, "register/thread", "exact")})
    found = compare(made, LaunchMeasured({"launch__registers_per_thread": Value(40, "register/thread")}))
    assert found.failed and "registers differ" in found.notes[0]


# --- Which launch ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "printed", "score"),
    [
        ("sgemm", "sgemm", 2),
        ("sgemm", "sgemm(const float *, int)", 2),
        ("_Z5sgemmPKfi", "sgemm(const float *, int)", 2),
        ("_Z5sgemmPKfi", "_Z5sgemmPKfi", 2),
        ("_Z5sgemmPKfi", "sgemm", 2),
        ("_Z4tileILi16EEvPf", "void tile<16>(float *)", 2),
        ("_Z4tileILi16EEvPf", "void tile<(int)16>(float *)", 2),
        ("_Z4tileILi16EEvPf", "tile", 1),  # the profiler's function base name
        ("_Z4tileILi16EEvPf", "void tile<(int)32>(float *)", 0),
        ("_Z4tileILb1EEvPf", "void tile<(bool)1>(float *)", 1),
        ("sgemm", "dgemm(const float *, int)", 0),
        ("sgemm", "sgemm_tiled", 0),
        ("sgemm", "", 0),
    ],
)
def test_kernel_names(name: str, printed: str, score: int) -> None:
    assert same_kernel(name, printed) == score


def test_launches_are_found_by_name_and_shape() -> None:
    launches = [
        LaunchRow(0, "other", (4, 8, 1), (16, 16, 1), {}),
        LaunchRow(1, "k", (4, 8, 1), (256, 1, 1), {}),
        LaunchRow(2, "k(float *)", (4, 8, 1), (16, 16, 1), {}),
        LaunchRow(3, "k", None, None, {}),
    ]
    assert [row.id for row in matching_launches(report(), launches)] == [2, 3]


def test_the_surest_name_wins() -> None:
    made = report(kernel={"name": "_Z4tileILi16EEvPf"})
    launches = [
        LaunchRow(k, n, None, None, {}) for k, n in enumerate(("tile", "void tile<(int)16>(float *)"))
    ]
    assert [row.id for row in matching_launches(made, launches)] == [1]


# --- Known gaps ------------------------------------------------------------------------------------------


def test_the_page_of_gaps_is_fresh() -> None:
    page = (ROOT / "validation" / "DEVIATIONS.md").read_text(encoding="utf-8")
    assert page == deviations.page(), "run `make docs`"


def test_the_gaps_are_numbered_and_explained() -> None:
    gaps = deviations.load()
    numbers = [gap.number for gap in gaps]
    assert numbers == sorted(set(numbers))
    assert all(gap.title and gap.why and gap.status for gap in gaps)


def test_gaps_cover_by_launch_and_metric() -> None:
    assert deviation_for("k:tiny", "a__x.sum", [GAP]) == 7
    assert deviation_for("kk:tiny", "a__x.sum", [GAP]) is None
    assert deviation_for("k:tiny", "b__x.sum", [GAP]) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[deviation]]\nnumber = 0", "number is missing, not positive, or used twice"),
        ('[[deviation]]\nnumber = 1\ntitle = "a"\nwhy = " "\nstatus = "open"', "deviation 1: why is missing"),
        ('[[deviation]]\nnumber=1\ntitle="a"\nwhy="b"\nstatus="c"\n[[deviation]]\nnumber=1', "used twice"),
        (
            '[[deviation]]\nnumber=1\ntitle="a"\nwhy="b"\nstatus="c"\nwhere=[{launches=["x"]}]',
            "launches and metrics",
        ),
        (
            '[[deviation]]\nnumber=1\ntitle="a"\nwhy="b"\nstatus="c"\nwhere=[{launches=[],metrics=["m"]}]',
            "not empty",
        ),
        ("[[deviation", "cannot be read"),
    ],
)
def test_a_malformed_list_of_gaps_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "d.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        deviations.load(tmp_path / "d.toml")


# --- Records ---------------------------------------------------------------------------------------------


def test_a_records_columns_become_rows() -> None:
    record = {
        "id": "k:tiny",
        "profile": {"metrics": {"a__x.sum": {"value": 100, "unit": "inst"}}},
        "instructions": {"pc": [0, 16], "sass": ["LDS R4, [R2]", "EXIT"], "inst_executed": [8, 8]},
    }
    found = compare(report(), measured_of_record(record))
    assert counts(found.pairs) | {"equal": 4} == counts(found.pairs)
    assert not found.failed
    with pytest.raises(InputError, match="not equally long"):
        measured_of_record({**record, "instructions": {"pc": [0, 16], "sass": ["EXIT"]}})


# --- The command, on a launch that an H200 measured ------------------------------------------------------

ID = "s10:s10"  # 73 warp instructions; 64 shared wavefronts where 36 would do
MEASURED = json.loads((CASES / "measured_h200.json").read_text(encoding="utf-8"))[ID]
with gzip.open(CASES / "source_h200.json.gz", "rt", encoding="utf-8") as _file:
    SOURCE = json.load(_file)[ID]
LABELS = {
    "inst_executed": "Instructions Executed",
    "thread_inst_executed": "Thread Instructions Executed",
    "memory_l1_tag_requests_global": "L1 Tag Requests Global",
    "memory_l1_wavefronts_shared": "L1 Wavefronts Shared",
    "memory_l1_wavefronts_shared_ideal": "L1 Wavefronts Shared Ideal",
    "memory_l2_theoretical_sectors_global": "L2 Theoretical Sectors Global",
    "memory_l2_theoretical_sectors_global_ideal": "L2 Theoretical Sectors Global Ideal",
}


@pytest.fixture(scope="module")
def prediction(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of that launch, as ``gpusim simulate --json`` writes it."""
    item = next(i for i in load_manifest(CASES / "manifest.json") if i.id == ID)
    kernel = load(CASES / "cubins" / f"{Path(item.file).stem}.cubin")[item.entry]
    result = simulate(kernel, item.launch.grid, item.launch.block, item.launch.args)
    path = tmp_path_factory.mktemp("report") / "report.json"
    path.write_text(report_text(result, ID), encoding="utf-8")
    return path


def who(id: int = 0, name: str = "s10(const float *, float *)") -> tuple[str, ...]:
    item = next(i for i in load_manifest(CASES / "manifest.json") if i.id == ID)
    grid, block = (f"({', '.join(map(str, s))})" for s in (item.launch.grid, item.launch.block))
    return identity(id, name, grid, block)


def measured_page(
    locale: Locale = LOCALES[0], launches: int = 1, name: str = "s10(const float *)", **changes: str
) -> str:
    """What the card measured, as a raw page."""
    metrics = {
        n: (locale.format(v) if not isinstance(v, str) else v, "") for n, v in MEASURED.items() if "__" in n
    }
    metrics |= {n: (text, "") for n, text in changes.items()}
    return raw_page([metrics] * launches, locale.delimiter, [who(k, name) for k in range(launches)])


def measured_source(locale: Locale = LOCALES[0], labels: bool = True, shift: int = 0) -> str:
    """The card's source page; shift: added to every count."""
    names = list(LABELS)
    head = ["Address", "Source", *(LABELS[n] if labels else n for n in names)]
    body = [
        [hex(0x7FAA00 + row["pc"]), row["sass"], *(locale.format(row[n] + shift) for n in names)]
        for row in SOURCE
    ]
    return text_of([["Kernel Name", "s10(const float *)"], head, *body], locale.delimiter)


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    code = main(["compare", *map(str, words)])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize("locale", LOCALES, ids=IDS)
def test_measured_counters_are_equal_in_any_locale(
    locale: Locale, prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw.csv").write_text(measured_page(locale), encoding="utf-8")
    (tmp_path / "source.csv").write_text(measured_source(locale), encoding="utf-8")
    code, out, err = run(
        capsys, prediction, tmp_path / "raw.csv", tmp_path / "source.csv", "--json", tmp_path / "c"
    )
    assert (code, err) == (0, ""), out
    found = json.loads((tmp_path / "c").read_text(encoding="utf-8"))
    assert found["schema"] == "gpusim.compare/1"
    assert found["verdicts"]["differs"] == found["verdicts"]["known"] == 0
    assert found["verdicts"]["close"] <= 1  # DRAM bytes, which are modelled
    assert found["verdicts"]["equal"] >= 40 + len(SOURCE) * len(LABELS)
    assert (
        f"{len(SOURCE) * len(LABELS):,} of {len(SOURCE) * len(LABELS):,} values of single instructions" in out
    )
    assert "memory_l1_wavefronts_shared" in out


def test_a_counter_that_differs_is_shown_and_fails(
    prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw.csv").write_text(measured_page(**{"smsp__inst_executed.sum": "74"}), encoding="utf-8")
    code, out, _ = run(capsys, prediction, tmp_path / "raw.csv")
    assert code == 1
    (line,) = [line.split() for line in out.splitlines() if line.startswith("smsp__inst_executed.sum")]
    assert line == ["smsp__inst_executed.sum", "73", "74", "-1", "(-1.35%)", "inst", "differs"]


def test_instructions_that_differ_are_shown_with_line_and_text(
    prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.csv").write_text(measured_source(shift=1), encoding="utf-8")
    code, out, _ = run(capsys, prediction, tmp_path / "s.csv")
    assert code == 1 and "Instructions that differ" in out and "--all shows them" in out
    assert "s10.cu:" in out and "0 of" in out
    code, everything, _ = run(capsys, prediction, tmp_path / "s.csv", "--all")
    assert everything.count("0x0000") >= len(LABELS)


def test_raw_names_and_a_source_page_alone(
    prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.csv").write_text(measured_source(labels=False), encoding="utf-8")
    code, out, _ = run(capsys, prediction, tmp_path / "s.csv")
    assert code == 0 and "7 of 7 exact metrics are equal" in out  # the columns' sums


def test_scaled_units_are_equal_as_printed(
    prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = MEASURED["launch__shared_mem_config_size"]
    rows = [
        (0, "Launch Statistics", "Shared Memory Configuration Size", "Kbyte", f"{config / 1000:.2f}"),
        (0, "Launch Statistics", "Registers Per Thread", "register/thread", "16"),
        (0, "Instruction Statistics", "Executed Instructions", "inst", "73"),
    ]
    page = details_page(rows).replace("sgemm(const float *, int)", "s10").replace("(4, 8, 1)", "(1, 1, 1)")
    (tmp_path / "d.csv").write_text(page.replace("(16, 16, 1)", who()[7]), encoding="utf-8")
    code, out, err = run(capsys, prediction, tmp_path / "d.csv")
    assert code in (0, 1), err
    assert f"equal as printed ({config / 1000:.2f} Kbyte)" in out
    assert "smsp__inst_executed.sum" in out


def test_several_launches_that_fit(
    prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw.csv").write_text(measured_page(launches=3), encoding="utf-8")
    code, out, _ = run(capsys, prediction, tmp_path / "raw.csv")
    assert code == 0 and "3 launches fit (ID 0, 1, 2); the first is compared, --launch N chooses" in out
    assert run(capsys, prediction, tmp_path / "raw.csv", "--launch", "2")[0] == 0
    code, _, err = run(capsys, prediction, tmp_path / "raw.csv", "--launch", "7")
    assert code == 2 and "those are ID 0, 1, 2" in err


def test_pages_of_one_profile_complete_one_another(
    prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = raw_page([{"smsp__inst_executed.sum": ("73", "inst")}], ",", [who(3, "s10")])
    more = raw_page([{"launch__registers_per_thread": ("30", "register/thread")}], ",", [who(3, "s10")])
    (tmp_path / "a.csv").write_text(few, encoding="utf-8")
    (tmp_path / "b.csv").write_text(more, encoding="utf-8")
    code, out, _ = run(capsys, prediction, tmp_path / "a.csv", tmp_path / "b.csv")
    assert code == 0 and "2 of 2 exact metrics are equal" in out and "launches fit" not in out


def test_another_gpu_is_pointed_out(
    prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw.csv").write_text(measured_page().replace('"9.0"', '"8,0"'), encoding="utf-8")
    _, out, _ = run(capsys, prediction, tmp_path / "raw.csv")
    assert "measured on a GPU of sm_80, predicted for sm_90" in out


def test_zeros_are_counted_and_shown_on_request(
    prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw.csv").write_text(measured_page(), encoding="utf-8")
    _, out, _ = run(capsys, prediction, tmp_path / "raw.csv")
    name = "smsp__inst_executed_op_local_ld.sum"
    assert "metrics are 0 on both sides" in out and name not in out
    assert name in run(capsys, prediction, tmp_path / "raw.csv", "--all")[1]


def test_nothing_to_compare_says_what_is_there(
    prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw.csv").write_text(measured_page(name="dgemm(double *)"), encoding="utf-8")
    code, out, err = run(capsys, prediction, tmp_path / "raw.csv")
    assert (code, out) == (2, "") and "holds no launch of s10" in err and "dgemm(double *)" in err
    rows = [(0, "Something New", "Flux Capacity", "%", "3")]
    page = details_page(rows).replace("sgemm(const float *, int)", "s10").replace("(4, 8, 1)", "(1, 1, 1)")
    (tmp_path / "d.csv").write_text(page.replace("(16, 16, 1)", who()[7]), encoding="utf-8")
    code, _, err = run(capsys, prediction, tmp_path / "d.csv")
    assert code == 2 and "holds no number that gpusim predicts, but Flux Capacity" in err


def test_json_lines_and_ladders_hold_several_reports(
    prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = json.loads(prediction.read_text(encoding="utf-8"))
    other = one | {"id": "other", "kernel": one["kernel"] | {"name": "other"}}
    (tmp_path / "raw.csv").write_text(measured_page(), encoding="utf-8")
    (tmp_path / "r.jsonl").write_text(f"{json.dumps(other)}\n{json.dumps(one)}\n", encoding="utf-8")
    ladder = {"schema": "gpusim.ladder/1", "steps": [{"seed": "A1", "report": r} for r in (one, other)]}
    (tmp_path / "l.json").write_text(json.dumps(ladder), encoding="utf-8")
    for name in ("r.jsonl", "l.json"):
        code, out, _ = run(capsys, tmp_path / name, tmp_path / "raw.csv")
        assert code == 0 and "1 of 2 reports have no launch in the export" in out
        code, _, err = run(capsys, tmp_path / name, tmp_path / "raw.csv", "--kernel", "third")
        assert code == 2 and "holds no report of 'third'" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no report"),
        ("{", "is not JSON"),
        ('{"schema": "gpusim.report/2"}', "is no report of gpusim"),
        ("[1, 2]", "is no report of gpusim"),
        ('{"schema": "gpusim.report/1"}', "malformed: kernel.name is missing"),
        ('{"schema": "gpusim.report/1", "kernel": {"name": "k"}}', "launch.grid or launch.block is missing"),
        ('{"schema": "gpusim.report/1", "kernel": {"name": "k"}, "launch": {"grid": [1], "block": [1]},'
         ' "metrics": {"a": 3}, "instructions": []}', "metric a has no value, unit and tier"),
        ('{"schema": "gpusim.report/1", "kernel": {"name": "k"}, "launch": {"grid": [1], "block": [1]},'
         ' "metrics": {}, "instructions": [{"pc": "x"}]}', "an instruction has no pc and sass"),
        ("[" * 100_000, "is not JSON"),
    ],
)  # fmt: skip
def test_bad_reports_are_refused(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.json").write_text(content, encoding="utf-8")
    (tmp_path / "raw.csv").write_text(measured_page(), encoding="utf-8")
    code, out, err = run(capsys, tmp_path / "r.json", tmp_path / "raw.csv")
    assert (code, out) == (2, "") and message in err and "Traceback" not in err


def test_swapped_arguments_are_understood(
    prediction: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw.csv").write_text(measured_page(), encoding="utf-8")
    code, _, err = run(capsys, tmp_path / "raw.csv", prediction)
    assert code == 2 and "the order is gpusim compare REPORT.json EXPORT" in err


def test_json_on_stdout_is_alone_there(prediction: Path, tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(measured_page(), encoding="utf-8")
    words = ["-m", "gpusim", "compare", str(prediction), str(tmp_path / "raw.csv"), "--json", "-"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and json.loads(done.stdout)["launches"][0]["launch"] == ID

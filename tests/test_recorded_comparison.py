"""Every record against the simulator: ``gpusim validate --recorded`` and the committed results.

``validation/measurements/h200/comparison.json`` is the committed comparison of all records; here its tiny
launches are compared again.  A launch that is known to differ (a numbered entry of DEVIATIONS.md) is a strict
xfail: a difference without a number fails, and so does a known one that is gone.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from gpusim.errors import InputError
from gpusim.launch import load_manifest
from gpusim.metrics import DRAM_WRITE, TRAFFIC
from gpusim.validation import accuracy, plot, recorded, results
from gpusim.validation import deviations as known
from gpusim.validation.compare import Pair
from gpusim.validation.deviations import Deviation, Where
from gpusim.validation.recorded import Work, compare_recorded, device_of, main, outcomes, works
from gpusim.validation.records import cubin_file, write_index, write_record

ROOT = Path(__file__).resolve().parent.parent
H200 = ROOT / "validation" / "measurements" / "h200"
CASES = H200 / "cases"
RESULTS = H200 / "comparison.json"

#: What is never called exact.
MODELLED = {d.name for d in TRAFFIC} | {DRAM_WRITE}


# --- The records of the repository ---------------------------------------------------------------------


class KnownDifference(AssertionError):
    """An exact counter differs for a numbered reason."""


def tiny_records() -> Iterator[Any]:
    """One parameter a tiny launch with a binary; those known to differ are strict xfails."""
    if not RESULTS.exists():
        return
    numbers: dict[str, set[int]] = {}
    found = results.read(RESULTS)
    for difference in found["differences"]:
        if difference["verdict"] == "known":
            numbers.setdefault(difference["launch"], set()).add(difference["deviation"])
    for work in works(H200, ["*:tiny"]):
        if work.file is None or work.id in found["launches"]["left_out"]:
            continue
        reason = f"DEVIATIONS.md no. {', '.join(map(str, sorted(numbers.get(work.id, ()))))}"
        xfail = pytest.mark.xfail(strict=True, raises=KnownDifference, reason=reason)
        yield pytest.param(work, id=work.id, marks=[xfail] if work.id in numbers else [])


@pytest.mark.parametrize("work", list(tiny_records()))
def test_exact_counters_of_tiny_launches_are_the_cards(work: Work) -> None:
    outcome = compare_recorded(work)
    assert not outcome.problem
    assert [p for p in outcome.pairs if p.verdict == "differs"] == []
    if excused := [p for p in outcome.pairs if p.verdict == "known"]:
        raise KnownDifference(excused)


@pytest.mark.skipif(not RESULTS.exists(), reason="the records have not been compared yet")
class TestCommittedResults:
    """What the repository says about itself."""

    def test_everything_recorded_is_in_them(self) -> None:
        found = results.read(RESULTS)
        there = set(found["by_launch"]) | set(found["launches"]["left_out"])
        assert there == {work.id for work in works(H200)}
        assert found["whole"] and found["launches"]["failed"] == {}

    def test_no_exact_counter_differs_without_a_number(self) -> None:
        assert results.passed(results.read(RESULTS))

    def test_every_numbered_gap_names_launches_that_exist(self) -> None:
        ids = results.read(RESULTS)["by_launch"]
        patterns = [p for d in known.load() for w in d.where for p in w.launches]
        assert [p for p in patterns if not any(fnmatchcase(id, p) for id in ids)] == []

    def test_the_page_is_made_from_them(self) -> None:
        page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
        assert page == accuracy.page(results.read(RESULTS)), "run `make docs`"


# --- Given cases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("id", "columns"), [("s10:s10", 7), ("l04:l04_local", 5), ("s16:s16_ldm", 7)])
def test_given_cases_are_equal_in_every_exact_counter(id: str, columns: int) -> None:
    """The profiler leaves out shared-memory columns where a kernel has none."""
    (work,) = works(H200, [id])
    outcome = compare_recorded(work, 1)
    assert not outcome.problem
    compared = [p for p in outcome.metrics if p.verdict in results.COMPARED]
    exact = [p for p in compared if p.tier == "exact"]
    assert len(exact) >= 40 and {p.verdict for p in exact} == {"equal"}
    assert {p.metric for p in compared} - {p.metric for p in exact} <= MODELLED
    assert len(outcome.columns) == columns
    assert all(set(k for k, n in c.items() if n) == {"equal"} for c in outcome.columns.values())


def test_what_is_modelled_is_not_called_exact() -> None:
    """LDGSTS: its wavefronts are modelled, so a difference would be an error band and no failure."""
    (work,) = works(H200, ["g11:g11_async"])
    outcome = compare_recorded(work, 1)
    tiers = {p.metric: p.tier for p in outcome.metrics if p.verdict in results.COMPARED}
    assert tiers["smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"] == "modelled"
    assert tiers["smsp__inst_executed.sum"] == "exact"


def test_patterns_choose_and_typing_errors_are_told() -> None:
    assert {w.id for w in works(H200, ["s10:*", "s27:s27_h"])} == {"s10:s10", "s27:s27_h"}
    with pytest.raises(InputError, match="no record fits nothing"):
        works(H200, ["nothing*"])
    with pytest.raises(InputError, match="holds no records"):
        works(ROOT / "docs")


# --- A folder of records, made from what the card measured ---------------------------------------------


def entry(case: str, **changes: Any) -> dict[str, Any]:
    """The record of a given case, as a measurement would write it; changes: metric -> value."""
    item = next(i for i in load_manifest(CASES / "manifest.json") if i.id == case)
    cubin = (CASES / "cubins" / f"{Path(item.file).stem}.cubin").read_bytes()
    measured = json.loads((CASES / "measured_h200.json").read_text(encoding="utf-8"))[case] | changes
    with gzip.open(CASES / "source_h200.json.gz", "rt", encoding="utf-8") as file:
        page = json.load(file)[case]
    return {
        "schema": "gpusim.record/1",
        "id": case,
        "kernel": {"catalog": None, "entry": item.entry, "source": "s.cu", "source_sha256": None,
                   "arch": "sm_90", "compiler": "nvcc 13.0", "options": [],
                   "cubin_sha256": hashlib.sha256(cubin).hexdigest()},
        "launch": {"grid": list(item.launch.grid), "block": list(item.launch.block),
                   "dynamic_shared_bytes": item.launch.dynamic_shared_bytes, "args": list(item.launch.args)},
        "inputs_sha256": {},
        "machine": {"device": "NVIDIA H200", "driver": "580.159.04"},
        "date": "2026-11-30T12:00:00Z",
        "command": "test",
        "outputs": {"sha256": {}, "oracle": "none: test"},
        "profile": {"tool": "Nsight Compute 2025.3.1", "command": "ncu", "cache_control": "all",
                    "clock_control": "none",
                    "metrics": {n: {"value": v, "unit": ""} for n, v in measured.items()
                                if isinstance(v, (int, float)) and "__" in n}},
        "instructions": {name: [row[name] for row in page] for name in page[0]},
        "absent": {"timing": "test"},
    }  # fmt: skip


def folder(path: Path, *records: dict[str, Any]) -> Path:
    """A folder ``h200`` with records, their binaries and the index."""
    out = path / "h200"
    (out / "cubins").mkdir(parents=True)
    for record in records:
        write_record(out, record)
        if digest := record["kernel"]["cubin_sha256"]:
            shutil.copy(CASES / "cubins" / f"{record['id'].split(':')[0]}.cubin", cubin_file(out, digest))
    write_index(out)
    return out


@pytest.fixture
def no_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "load", lambda: ())


@pytest.mark.usefixtures("no_gaps")
def test_records_that_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = folder(tmp_path, entry("s10:s10"), entry("s27:s27_h"))
    out = tmp_path / "c.json", tmp_path / "a.md", tmp_path / "f.svg"
    assert main(records, json_path=out[0], page=out[1], figure=out[2], jobs=1) == 0
    said = capsys.readouterr().out
    assert "2 launches: " in said and "0 without" in said
    found = results.read(out[0])
    assert found["launches"]["compared"] == 2 and found["whole"]
    assert {d["metric"] for d in found["differences"]} <= MODELLED
    assert found["metrics"]["smsp__inst_executed.sum"] == {"exact": {"equal": 2, "known": 0, "differs": 0}}
    # 152 and 32 instructions
    column = found["columns"]["memory_l1_wavefronts_shared"]
    assert column == {"equal": 184, "known": 0, "differs": 0, "close": 0}
    assert out[1].read_text(encoding="utf-8") == accuracy.page(found)
    assert (
        "2 records: measured on an NVIDIA H200, driver 580.159.04, Nsight Compute 2025.3.1"
        in out[1].read_text()
    )
    assert out[2].read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.usefixtures("no_gaps")
def test_a_counter_that_differs_fails_and_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = entry("s10:s10", **{"smsp__inst_executed.sum": 74})
    wrong["instructions"]["inst_executed"][3] += 1
    pc = wrong["instructions"]["pc"][3]
    assert main(folder(tmp_path, wrong), json_path=tmp_path / "c.json", page=tmp_path / "a.md", jobs=1) == 1
    said = capsys.readouterr().out
    assert "Exact counters that differ without a numbered reason" in said
    differences = results.read(tmp_path / "c.json")["differences"]
    # the launch's own sum of the column is taken from the instructions
    exact = [d for d in differences if d["metric"] not in MODELLED]
    assert [(d["metric"], d.get("pc"), d["predicted"], d["measured"]) for d in exact] == [
        ("inst_executed", None, 73, 74),
        ("smsp__inst_executed.sum", None, 73, 74),
        ("inst_executed", pc, 1, 2),
    ]
    page = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert "| s10:s10 | `smsp__inst_executed.sum` | 73 | 74 | -1.35 % | **unexplained** |" in page


def test_a_numbered_gap_excuses_it_until_it_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gap = Deviation(3, "a gap", "why", "open", (Where(("s10:*", "s27:*"), ("smsp__inst_executed.sum",)),))
    monkeypatch.setattr(known, "load", lambda: (gap,))
    one, other = entry("s10:s10", **{"smsp__inst_executed.sum": 74}), entry("s27:s27_h")
    assert main(folder(tmp_path / "a", one, other), json_path=tmp_path / "c.json", jobs=1) == 1
    found = results.read(tmp_path / "c.json")
    assert results.totals(found) | {"known": 1, "differs": 0} == results.totals(found)
    assert found["stale"] == ["no. 3: s27:*: smsp__inst_executed.sum"]  # nothing differs there
    assert "Numbered, but gone" in capsys.readouterr().out
    gap = Deviation(3, "a gap", "why", "open", (Where(("s10:*",), ("smsp__inst_executed.sum",)),))
    monkeypatch.setattr(known, "load", lambda: (gap,))
    assert main(folder(tmp_path / "b", one, other), page=tmp_path / "a.md", jobs=1) == 0
    page = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert "- no. 3: a gap" in page and "| -1.35 % | no. 3 |" in page


@pytest.mark.usefixtures("no_gaps")
def test_what_cannot_be_compared_is_left_out_or_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = entry("s27:s27_h")
    library["kernel"]["cubin_sha256"] = None
    unprofiled = entry("s10:s10")
    del unprofiled["profile"]
    unprofiled["absent"]["profile"] = "no permission for counters"
    assert main(folder(tmp_path / "a", library, unprofiled), json_path=tmp_path / "c.json", jobs=1) == 0
    assert results.read(tmp_path / "c.json")["launches"]["left_out"] == {
        "s10:s10": "not profiled: no permission for counters",
        "s27:s27_h": "a library's kernel: there is no binary to execute",
    }
    changed = entry("s10:s10")
    changed["inputs_sha256"] = {"0": "0" * 64}
    records = folder(tmp_path / "b", changed, entry("s27:s27_h"))
    broken = cubin_file(records, entry("s27:s27_h")["kernel"]["cubin_sha256"])
    broken.write_bytes(b"\x7fELF" + bytes(200))
    assert main(records, json_path=tmp_path / "c.json", jobs=1) == 1
    failed = results.read(tmp_path / "c.json")["launches"]["failed"]
    assert set(failed) == {"s10:s10", "s27:s27_h"}
    assert "argument 0 is not the data that was measured" in failed["s10:s10"]
    assert "Traceback" not in capsys.readouterr().out


@pytest.mark.usefixtures("no_gaps")
def test_processes_give_the_same_bytes_as_one(tmp_path: Path) -> None:
    ids = ["s10:s10", "s27:s27_h", "s27:s27_b", "l04:l04_local", "l04:l04_val"]
    chosen = works(H200, ids)
    steps: list[tuple[int, int, str]] = []
    alone = outcomes(chosen, 1, lambda *step: steps.append(step))
    together = outcomes(chosen, 2, lambda *step: steps.append(step))
    assert results.dump(results.collect(alone, whole=False)) == results.dump(
        results.collect(together, whole=False)
    )
    assert (5, 5) in {step[:2] for step in steps}


def test_paths_that_cannot_be_written_are_refused_before_the_work(tmp_path: Path) -> None:
    for options in ({"json_path": tmp_path / "no" / "c.json"}, {"figure": tmp_path / "f.bmp"}):
        with pytest.raises(InputError, match=r"does not exist|no picture format"):
            main(H200, **options)  # type: ignore[arg-type]


def test_results_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(H200, only=["s10:s10"], json_path="-", jobs=1) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "gpusim.comparison/1"


def test_the_device_is_the_folders_or_the_cards(tmp_path: Path) -> None:
    assert device_of(tmp_path / "a100-80" / "cases", "NVIDIA H200") == "a100-80"
    assert device_of(tmp_path, "NVIDIA H200") == "h200"
    with pytest.raises(InputError, match="no device file for 'NVIDIA X1'"):
        device_of(tmp_path, "NVIDIA X1")


@pytest.mark.parametrize(
    ("content", "message"), [("", "cannot be read"), ("{}", "is not gpusim.comparison/1")]
)
def test_results_of_another_kind_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "c.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        results.read(tmp_path / "c.json")


# --- Numbers and the figure ------------------------------------------------------------------------------


def pair(
    metric: str, predicted: float, measured: float, tier: str, verdict: str, launch: str = "k:tiny"
) -> Pair:
    return Pair(launch, metric, None, predicted, measured, "", tier, verdict)


def test_errors_by_metric() -> None:
    """|error|: 0, 10, 20, 30 %; one measured as 0 has no ratio. Percentiles as numpy interpolates them."""
    pairs = [pair("m", 100 + e, 100, "modelled", "close" if e else "equal") for e in (0, 10, -20, 30)]
    pairs += [pair("m", 5, 0, "modelled", "close"), pair("m", 7, 7, "exact", "equal")]
    found = results.collect([recorded.Outcome("k:tiny", {}, pairs)], whole=False)["metrics"]["m"]
    assert found == {
        "exact": {"equal": 1, "known": 0, "differs": 0},
        "modelled": {"equal": 1, "close": 4, "without_ratio": 1, "median_pct": 15.0, "p90_pct": 27.0,
                     "worst_pct": 30.0},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.00108, "0.00108"),
        (1.678, "1.68"),
        (15, "15"),
        (99.96, "100"),
        (31_049, "31,000"),
        (-35.5, "-35.5"),
    ],
)
def test_three_digits(value: float, text: str) -> None:
    assert results.digits(value) == text


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_figure_is_drawn_and_repeats(suffix: str) -> None:
    pairs = [pair("m", k * 10.0**k, k * 10.0**k, "exact", "equal") for k in range(9)]
    pairs += [pair("m", 0, 50, "modelled", "close"), pair("m", 300, 100, "exact", "differs", "bad:tiny")]
    first, second = plot.figure(pairs, suffix), plot.figure(pairs, suffix)
    assert first[:4] == {".png": b"\x89PNG", ".svg": b"<?xm", ".pdf": b"%PDF"}[suffix]
    if suffix == ".png":
        assert first == second


def test_what_differs_is_labelled_first_and_at_most_twelve() -> None:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    pairs = [pair("m", 10**9, 1, "modelled", "close", f"far{k}:tiny") for k in range(20)]
    pairs += [
        pair("m", 101, 100, "exact", "differs", "bad:tiny"),
        pair("m", 5, 5, "exact", "equal", "good:tiny"),
    ]
    plot._label_worst(axes, pairs)
    names = [text.get_text() for text in axes.texts]
    assert len(names) == plot.LABELS and names[0] == "bad:tiny" and "good:tiny" not in names


def test_an_empty_figure_is_still_a_figure() -> None:
    assert plot.figure([], ".png")[:4] == b"\x89PNG"

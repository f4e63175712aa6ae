"""The measurement without a GPU: a fake backend that adds vectors, and a fake ncu that prints its CSV."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_gpu import FakeGpu
from typer.testing import CliRunner

from gpusim.cli.app import app
from gpusim.errors import InputError, ToolMissing
from gpusim.launch import make_array
from gpusim.validation import device_run, measure, plan, process, profiler
from gpusim.validation.device_run import measure_device
from gpusim.validation.ncu_export import LaunchRow, SourcePage
from gpusim.validation.ncu_numbers import Value
from gpusim.validation.records import check_index, load_index, load_record
from gpusim.validation.state import State

TESTS = Path(__file__).resolve().parent
BACKEND = "fake_gpu:FakeGpu"
IDS = ["E1:tiny", "E1:ragged", "E1:medium"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of E1's three smaller sizes, compiled once."""
    work = tmp_path_factory.mktemp("prepared")
    plan.prepare(work, "h200", IDS)
    return work


@pytest.fixture
def work(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy of the plan, with the fakes in place."""
    import shutil

    folder = tmp_path / "work"
    shutil.copytree(prepared, folder)
    ncu = tmp_path / "ncu"
    ncu.write_text(f'#!/bin/sh\nexec {sys.executable} {TESTS / "fake_ncu.py"} "$@"\n')
    ncu.chmod(0o755)
    monkeypatch.setenv("GPUSIM_NCU", str(ncu))
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setenv("FAKE_GPU", "")
    monkeypatch.setenv("FAKE_NCU", "")
    return folder


def measured(work: Path, **options: Any) -> tuple[device_run.Summary, list[str]]:
    said: list[str] = []
    summary = measure_device(work, backend=BACKEND, say=said.append, **options)
    return summary, said


def record(work: Path, id: str) -> dict[str, Any]:
    kernel, size = id.split(":")
    return load_record(work / "records" / "records" / kernel / f"{size}.json")


def test_a_measurement_becomes_records(work: Path) -> None:
    summary, said = measured(work, command="gpusim validate --device-run --only E1")
    assert summary.ok
    assert (summary.launches, summary.run, summary.passed, summary.profiled, summary.records) == (
        3,
        3,
        3,
        3,
        3,
    )
    assert check_index(work / "records") == []
    assert [e.id for e in load_index(work / "records")] == ["E1:medium", "E1:ragged", "E1:tiny"]
    assert any("sm__inst_executed_pipe_fmalite.sum" in text for text in said)  # not in --query-metrics

    found = record(work, "E1:ragged")
    n = 1000
    a, b = (make_array("float32", n, "normal", slot) for slot in (0, 1))
    zeros = np.zeros(n, np.float32)
    assert found["inputs_sha256"] == {
        "0": hashlib.sha256(a.tobytes()).hexdigest(),
        "1": hashlib.sha256(b.tobytes()).hexdigest(),
        "2": hashlib.sha256(zeros.tobytes()).hexdigest(),
    }
    assert found["outputs"]["sha256"]["2"] == hashlib.sha256((a + b).tobytes()).hexdigest()
    assert found["outputs"]["sha256"]["0"] == found["inputs_sha256"]["0"]
    assert found["outputs"]["oracle"] == "passed"
    assert found["launch"]["grid"] == [4, 1, 1] and found["launch"]["block"] == [256, 1, 1]
    assert found["machine"]["device"] == "Fake H200" and found["machine"]["ncu"] == "2025.3.1"
    assert found["command"] == "gpusim validate --device-run --only E1"
    # 3 warm-ups, then 12 runs: 6 2 5 100 4 6 2 5 100 4 6 2; without one 2 and one 100 the median of
    # 2 2 4 4 5 5 6 6 6 100 is 5
    assert found["timing"]["warm"] == {
        "runs": 12, "dropped": 2, "median_us": 5.0, "min_us": 2.0, "max_us": 100.0, "spread_pct": 1960.0,
    }  # fmt: skip
    assert found["timing"]["flushed"]["runs"] == 12
    assert found["timing"]["clocks"] == {"sm_mhz": [1980, 1980], "memory_mhz": [3201, 3201]}
    # second launch of the batch: the fake counts 9 executions of each of its two instructions
    assert found["profile"]["metrics"]["inst_executed"] == {"value": 18, "unit": "inst"}
    assert found["profile"]["metrics"]["gpu__time_duration.sum"] == {"value": 12345, "unit": "ns"}
    assert "launch__func_cache_config" not in found["profile"]["metrics"]  # text is no counter
    assert "launch__cluster_size" in found["profile"]["metrics"]
    assert not any(name.startswith(("device__", "smsp__pcsamp")) for name in found["profile"]["metrics"])
    assert found["instructions"] == {
        "pc": [0, 16],
        "sass": ["LDC R1, c[0x0][0x28]", "EXIT"],
        "inst_executed": [9, 9],
        "thread_inst_executed": [288, 288],
        "memory_l1_wavefronts_shared": [0, 0],
    }


def test_the_binary_in_the_record_is_the_measured_one(work: Path) -> None:
    measured(work)
    digest = record(work, "E1:tiny")["kernel"]["cubin_sha256"]
    cubin = (work / "records" / "cubins" / f"{digest[:16]}.cubin").read_bytes()
    assert hashlib.sha256(cubin).hexdigest() == digest


def test_finished_launches_are_skipped_and_new_ones_added(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(work, only=["E1:tiny"])
    first = (work / "state" / "run" / "E1.tiny.json").stat().st_mtime_ns
    monkeypatch.setenv("FAKE_GPU", "die=256")  # tiny would end the worker if it ran again
    summary, _ = measured(work)
    assert summary.ok and summary.profiled == 3
    assert (work / "state" / "run" / "E1.tiny.json").stat().st_mtime_ns == first


@pytest.mark.parametrize(
    "what, text", [("raise=1000", "illegal memory access"), ("die=1000", "in the middle")]
)
def test_one_bad_launch_costs_no_other(
    work: Path, monkeypatch: pytest.MonkeyPatch, what: str, text: str
) -> None:
    monkeypatch.setenv("FAKE_GPU", what)
    summary, said = measured(work)
    assert not summary.ok
    assert list(summary.failed) == ["E1:ragged"] and text in summary.failed["E1:ragged"]
    assert (summary.run, summary.passed, summary.profiled) == (2, 2, 2)
    assert any("E1:ragged" in line for line in said)
    assert check_index(work / "records") == []
    monkeypatch.setenv("FAKE_GPU", "")
    assert measured(work)[0].run == 3  # the failed one is tried again


def test_a_launch_that_hangs_is_given_up(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GPU", "hang=1000")
    monkeypatch.setattr(device_run, "LAUNCH_LIMIT_S", 3.0)
    summary, _ = measured(work, with_profile=False)
    assert "did not end within 3 s" in summary.failed["E1:ragged"]
    assert summary.run == 2


def test_a_wrong_result_is_recorded_as_such(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GPU", "wrong=1000")
    summary, _ = measured(work, with_profile=False)
    assert not summary.ok and list(summary.wrong) == ["E1:ragged"]
    assert record(work, "E1:ragged")["outputs"]["oracle"].startswith("failed: E1, argument 2: bit-exact")


def test_without_permission_it_says_so_and_still_times(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NCU", "permission")
    summary, said = measured(work)
    assert summary.ok and summary.run == 3 and summary.profiled == 0
    assert sum("ERR_NVGPUCTRPERM" in text for text in said) == 1
    found = record(work, "E1:tiny")
    assert "profile" not in found and "instructions" not in found
    assert "ERR_NVGPUCTRPERM" in found["absent"]["profile"]
    assert found["timing"]["warm"]["runs"] == 12
    monkeypatch.setenv("FAKE_NCU", "")
    assert measured(work)[0].profiled == 3  # with the permission, later


def test_without_ncu_it_says_so_and_still_times(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSIM_NCU", "/nowhere/ncu")
    summary, said = measured(work)
    assert summary.ok and summary.run == 3 and summary.profiled == 0
    assert any("Nsight Compute" in text for text in said)


def test_no_profile_is_recorded_as_the_reason(work: Path) -> None:
    measured(work, with_profile=False)
    assert record(work, "E1:tiny")["absent"]["profile"] == "not asked for (--no-profile)"


def test_rows_in_another_order_are_refused_with_both_names(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NCU", "order")
    summary, _ = measured(work)
    assert summary.profiled == 0
    assert (
        "grid (1, 1, 1)" in summary.not_profiled["E1:tiny"] and "(4, 1, 1)" in summary.not_profiled["E1:tiny"]
    )


def test_a_metric_that_ncu_refuses_is_dropped(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NCU", "metric=launch__stack_size")
    summary, said = measured(work)
    assert summary.profiled == 3
    assert any("refuses launch__stack_size" in text for text in said)
    assert "launch__stack_size" not in record(work, "E1:tiny")["profile"]["metrics"]


def test_a_source_page_that_stands_there_twice_is_counted_once(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NCU", "twice")
    measured(work)
    assert [record(work, id)["instructions"]["inst_executed"] for id in IDS] == [[8, 8], [9, 9], [10, 10]]


def test_a_worker_that_fails_under_the_profiler_costs_one_launch(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(work, with_profile=False)
    monkeypatch.setenv("FAKE_GPU", "raise=1000")
    summary, _ = measured(work, with_profile=True)
    assert summary.profiled == 2 and list(summary.not_profiled) == ["E1:ragged"]
    assert "illegal memory access" in summary.not_profiled["E1:ragged"]
    assert record(work, "E1:medium")["instructions"]["inst_executed"] == [8, 8]  # first of a new batch


def test_an_interrupt_leaves_what_is_finished(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_run, "BATCH", 2)
    measured(work, only=["E1:tiny"])
    monkeypatch.setenv("FAKE_NCU", "interrupt=1")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background jobs
    try:
        with pytest.raises(KeyboardInterrupt):
            measured(work)
    finally:
        signal.signal(signal.SIGINT, before)
    state, rows = State(work), plan.load_plan(work).rows
    assert [state.done("run", rows[id]) for id in IDS] == [True, True, True]
    assert [state.done("profile", rows[id]) for id in IDS] == [True, False, False]
    monkeypatch.setenv("FAKE_NCU", "")
    assert measured(work)[0].profiled == 3


def test_no_gpu_is_a_sentence(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GPU", "none")
    with pytest.raises(ToolMissing, match="no GPU on this machine") as caught:
        measured(work)
    assert caught.value.hint == "install one"


def test_another_architecture_is_refused(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CC", "8.0")
    with pytest.raises(InputError, match=r"prepared for sm_90.*is sm_80"):
        measured(work)


def test_records_in_a_given_folder_are_written_once(work: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    measured(work, out=out, with_profile=False)
    measured(work, out=out, with_profile=False)  # the same measurement: nothing to write
    for path in (work / "state" / "run").iterdir():
        path.unlink()
    data = json.loads((out / "records" / "E1" / "tiny.json").read_text())
    with pytest.raises(InputError, match="written once"):
        measured(work, out=out, command="another")
    assert json.loads((out / "records" / "E1" / "tiny.json").read_text()) == data


def test_the_reference_is_measured_with_its_kernels_name(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "REFERENCE_SIZES", (64,))
    summary, _ = measured(work, only=["A10"])
    assert summary.ok and summary.passed == 1 and summary.profiled == 1
    found = record(work, "A10:64")
    assert found["kernel"]["catalog"] == "A10" and found["kernel"]["source"] is None
    assert found["kernel"]["compiler"] == "cuBLAS 13.1.0"
    assert found["kernel"]["entry"].startswith("sm90_xmma_gemm")
    assert "library" in found["absent"]["instructions"]


def test_globs_and_sizes_choose() -> None:
    ids = ["A1:tiny", "A1:large", "T6-collatz:tiny", "s22:s22:same"]
    assert plan.choose(ids) == ids
    assert plan.choose(ids, ["A1"]) == ["A1:tiny", "A1:large"]
    assert plan.choose(ids, ["T6-*"], ["tiny"]) == ["T6-collatz:tiny"]
    assert plan.choose(ids, [], ["tiny"]) == ["A1:tiny", "T6-collatz:tiny"]
    with pytest.raises(InputError, match="no launch matches 'Z9'"):
        plan.choose(ids, ["A1", "Z9"])
    with pytest.raises(InputError, match="no launch has the size 'huge'"):
        plan.choose(ids, [], ["huge"])


def test_everything_can_be_planned() -> None:
    ids = plan.all_ids("sm_90")
    assert len(ids) == len(set(ids)) == 577 + 97 + 2
    assert {"A1:large", "s22:s22:same", "A10:4096"} <= set(ids)
    assert not any(id.startswith("s22") for id in plan.all_ids("sm_80"))


def test_an_edited_plan_is_refused(work: Path) -> None:
    (work / "plan.json").write_text('{"schema": "gpusim.plan/1", "rows": [{}]}')
    with pytest.raises(InputError, match="the plan cannot be read"):
        plan.load_plan(work)


def test_extremes_are_dropped_once() -> None:
    assert measure.summary([3.0, 9.0, 1.0, 2.0, 4.0]) == {
        "runs": 5, "dropped": 2, "median_us": 3.0, "min_us": 2.0, "max_us": 4.0, "spread_pct": 66.67,
    }  # fmt: skip


def test_small_outputs_are_put_back_before_each_run(prepared: Path) -> None:
    """An accumulating kernel must not see what the run before it left."""

    class Accumulate(FakeGpu):
        seen: list[float] = []  # noqa: RUF012 - one test

        def launch(self, function: str, grid: Any, block: Any, args: Any, shared: int) -> None:
            self.seen.append(float(args[2][0]))
            args[2][...] += args[0] + args[1]

    work = plan.load_plan(prepared)
    gpu = Accumulate()
    result = measure.measure(work, work.rows["E1:tiny"], gpu, measure.Inputs(), measure.Oracle())
    assert result["outputs"]["oracle"] == "passed"  # of the first launch
    assert set(gpu.seen) == {0.0} and len(gpu.seen) == 1 + 1 + 15 + 12
    assert gpu.flushes == 12


def test_long_kernels_are_run_less_often(prepared: Path) -> None:
    class Slow(FakeGpu):
        def time(self, launch: Any, before: Any, runs: int) -> list[float]:
            return [300e3] * runs

    work = plan.load_plan(prepared)
    result = measure.measure(work, work.rows["E1:tiny"], Slow(), measure.Inputs(), measure.Oracle())
    assert (result["timing"]["warm"]["runs"], result["timing"]["flushed"]["runs"]) == (10, 5)


def test_shared_inputs_and_oracles_are_computed_once(prepared: Path) -> None:
    row = plan.load_plan(prepared).rows["E1:tiny"]
    inputs = measure.Inputs()
    assert inputs.values(row)[0][0] is inputs.values(row)[0][0]
    small = measure.Inputs(limit=1)
    assert small.values(row)[1] == inputs.values(row)[1]
    calls = []
    oracle = measure.Oracle()
    once = oracle._once(lambda size, args: calls.append(1) or {0: 1}, row)
    assert once({}, []) == once({}, []) == {0: 1} and calls == [1]


def launch_row(name: str, total: int | None) -> LaunchRow:
    metrics = {"inst_executed": Value(total, "inst")} if total is not None else {}
    return LaunchRow(0, name, (1, 1, 1), (32, 1, 1), metrics)


def page(name: str, *counts: int) -> SourcePage:
    rows = [{"pc": 16 * k, "sass": "NOP", "columns": {"inst_executed": c}} for k, c in enumerate(counts)]
    return SourcePage(name, rows)  # type: ignore[arg-type]


def test_pages_are_aligned_by_name_and_total() -> None:
    launches = [launch_row("k(float *)", 3), launch_row("k(float *)", 5), launch_row("m", None)]
    pages = [page("k", 1, 2), page("k", 1, 2), page("k", 5), page("m", 9)]
    assert profiler.align(launches, pages) == [pages[0], pages[2], pages[3]]
    assert profiler.align(launches, pages[2:]) == [None, pages[2], pages[3]]


def test_pages_that_all_stand_twice_are_told_apart_though_their_totals_agree() -> None:
    launches = [launch_row("k", 3), launch_row("k", 3)]
    first, second = page("k", 1, 2), page("k", 2, 1)
    assert profiler.align(launches, [first, first, second, second]) == [first, second]


def test_a_column_with_a_gap_is_left_out() -> None:
    rows = [{"pc": 0, "sass": "A", "columns": {"inst_executed": 1, "thread_inst_executed": 32}},
            {"pc": 16, "sass": "B", "columns": {"inst_executed": 1}}]  # fmt: skip
    columns = profiler.instruction_columns(SourcePage("k", rows))  # type: ignore[arg-type]
    assert set(columns) == {"pc", "sass", "inst_executed"}


def test_a_silent_child_is_noticed_and_ended(tmp_path: Path) -> None:
    import subprocess

    command = [sys.executable, "-c", "import time; print('x', flush=True); time.sleep(60)"]
    with process.child(command, tmp_path / "log", stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        found = process.lines(running.stdout, 1.0)
        assert next(found) == "x"
        with pytest.raises(TimeoutError):
            next(found)
    assert running.returncode is not None and running.returncode < 0


def test_the_command_needs_one_job() -> None:
    for arguments in ([], ["--recorded", "--device-run"]):
        result = CliRunner().invoke(app, ["validate", *arguments])
        assert isinstance(result.exception, InputError)
        assert "one of --recorded, --device-run and --prepare" in result.exception.what


def test_the_command_needs_a_folder() -> None:
    result = CliRunner().invoke(app, ["validate", "--prepare"])
    assert isinstance(result.exception, InputError) and result.exception.where == "--work"


def test_an_interrupted_command_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(device_run, "measure_device", interrupted)
    result = CliRunner().invoke(app, ["validate", "--device-run", "--work", str(tmp_path)])
    assert result.exit_code == 130
    assert "run the same command again to go on" in result.output


def test_the_command_shows_what_went_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def measured_so(work: Path, **options: Any) -> device_run.Summary:
        asked.update(options, work=work)
        lost = {f"A{k}:tiny": profiler.PERMISSION for k in range(30)}
        return device_run.Summary(
            31, 30, 29, {"A1:tiny": "failed: off"}, {"A2:tiny": "it hung"}, 0, lost, 30, work
        )

    monkeypatch.setattr(device_run, "measure_device", measured_so)
    command = ["validate", "--device-run", "--work", str(tmp_path), "--sizes", "tiny", "--only", "A*"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert asked["sizes"] == ["tiny"] and asked["only"] == ["A*"] and asked["work"] == tmp_path
    assert asked["command"] == "gpusim validate --device-run --device-name h200 --only A* --sizes tiny"
    assert "A1:tiny: result differs: failed: off" in result.output
    assert "A2:tiny: could not be run: it hung" in result.output
    assert result.output.count("ERR_NVGPUCTRPERM") == 1


def test_prepare_from_the_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    result = CliRunner().invoke(
        app, ["validate", "--prepare", "--work", str(folder), "--only", "E1", "--sizes", "tiny,ragged"]
    )
    assert result.exit_code == 0, result.output
    assert "2 launches for sm_90" in result.output
    assert list(plan.load_plan(folder).rows) == ["E1:tiny", "E1:ragged"]
    assert sorted(os.listdir(folder)) == ["cubins", "plan.json"]


def test_metric_lists_hold_what_the_simulator_and_the_given_cases_name(h200: Path) -> None:
    from gpusim.metrics import DEFINITIONS
    from gpusim.validation.metric_names import FULL, SHORT

    assert len(FULL) == len(set(FULL)) and set(SHORT) < set(FULL)
    cases = json.loads((h200 / "cases" / "measured_h200.json").read_text())
    counters = {name for metrics in cases.values() for name in metrics if "." in name}
    assert counters <= set(FULL)
    assert {d.name for d in DEFINITIONS if "." in d.name} <= set(SHORT)

"""Records: what is well formed, written once, and listed in an index."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from gpusim.errors import InputError
from gpusim.validation import records

CUBIN = b"\x7fELF and more"
SHA = hashlib.sha256(CUBIN).hexdigest()
OTHER = hashlib.sha256(b"another").hexdigest()
TIMES = {"runs": 12, "dropped": 2, "median_us": 5.0, "min_us": 4.0, "max_us": 6.0, "spread_pct": 40.0}

RECORD: dict[str, Any] = {
    "schema": "gpusim.record/1",
    "id": "A1:tiny",
    "kernel": {
        "catalog": "A1", "entry": "gemm", "source": "gemm.cu", "source_sha256": OTHER, "arch": "sm_90",
        "compiler": "NVRTC 13.5.37", "options": [], "cubin_sha256": SHA,
    },
    "launch": {"grid": [2, 3, 1], "block": [32, 32, 1], "dynamic_shared_bytes": 0, "args": []},
    "inputs_sha256": {"4": OTHER},
    "machine": {"device": "NVIDIA H200"},
    "date": "2026-11-30T12:00:00Z",
    "command": "gpusim validate --device-run",
    "outputs": {"sha256": {"4": OTHER}, "oracle": "passed"},
    "timing": {"warm": dict(TIMES), "flushed": dict(TIMES), "clocks": {"sm_mhz": [1980, 1980]}},
    "profile": {
        "tool": "Nsight Compute 2025.3.1", "command": "ncu ...", "cache_control": "all",
        "clock_control": "none",
        "metrics": {"smsp__inst_executed.sum": {"value": 38208, "unit": "inst"}},
    },
    "instructions": {"pc": [0, 16], "sass": ["LDC R1, c[0x0][0x28]", "EXIT"], "inst_executed": [6, 6]},
}  # fmt: skip


def changed(path: str, value: Any) -> dict[str, Any]:
    """The record with one value replaced, or removed if it is ``...``."""
    record = copy.deepcopy(RECORD)
    *parents, last = path.split("/")
    place: Any = record
    for name in parents:
        place = place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return record


def test_a_whole_record_has_no_problems() -> None:
    assert records.validate_record(RECORD) == []


@pytest.mark.parametrize(
    "path, value, problem",
    [
        ("schema", "gpusim.record/0", "schema is 'gpusim.record/0'"),
        ("machine", ..., "machine is missing"),
        ("date", "30.11.2026", "date '30.11.2026'"),
        ("kernel/cubin_sha256", "36ca", "kernel.cubin_sha256 is no SHA-256"),
        ("launch/grid", [2, 3], "launch.grid is not three"),
        ("launch/block", [32, 0, 1], "launch.block is not three"),
        ("launch/args", None, "launch.args is no list"),
        ("inputs_sha256", {"first": OTHER}, "inputs_sha256 is not a table"),
        ("outputs/oracle", "ok", "outputs.oracle"),
        ("outputs/oracle", "failed: ", "outputs.oracle"),
        ("timing", ..., "absent.timing does not say why"),
        ("timing/warm", ..., "timing.warm is missing"),
        ("timing/warm/median_us", 7.0, "not in order"),
        ("timing/flushed/runs", 12.5, "timing.flushed.runs"),
        ("profile/cache_control", ..., "profile.cache_control"),
        ("profile/metrics", {}, "profile.metrics is missing or empty"),
        ("profile/metrics/x", {"value": None, "unit": ""}, "profile.metrics.x"),
        ("profile/metrics/x", {"value": "1,024", "unit": ""}, "profile.metrics.x"),
        ("instructions/inst_executed", [6], "does not have 2 values"),
        ("instructions/inst_executed", [6, None], "no number"),
        ("instructions/pc", [16, 0], "does not rise"),
        ("instructions/pc", ..., "instructions.pc is missing"),
    ],
)
def test_a_problem_is_named(path: str, value: Any, problem: str) -> None:
    found = records.validate_record(changed(path, value))
    assert any(problem in text for text in found), found


def test_what_is_absent_says_why() -> None:
    record = changed("profile", ...)
    del record["instructions"]
    record["absent"] = {"profile": "no permission", "instructions": "no permission"}
    assert records.validate_record(record) == []
    assert records.validate_record([]) == ["it is no JSON object"]


def test_the_file_is_named_by_the_launch() -> None:
    assert records.record_file("A1:tiny") == "records/A1/tiny.json"
    assert records.record_file("s22:s22:same") == "records/s22/s22.same.json"
    assert records.record_file("A1:tiny", SHA) == f"records/A1/tiny.{SHA[:8]}.json"
    with pytest.raises(InputError, match="cannot be a file name"):
        records.record_file("../x:tiny")


def test_a_record_is_written_once(tmp_path: Path) -> None:
    path = records.write_record(tmp_path, RECORD)
    assert path == tmp_path / "records" / "A1" / "tiny.json"
    assert records.load_record(path) == RECORD
    text = path.read_text()
    assert records.write_record(tmp_path, RECORD) == path  # the same again
    again = changed("date", "2026-12-01T12:00:00Z")
    with pytest.raises(InputError, match="written once") as caught:
        records.write_record(tmp_path, again)
    assert caught.value.hint == "give another --out folder"
    assert path.read_text() == text
    assert records.write_record(tmp_path, again, replace=True) == path
    assert records.load_record(path) == again


def test_another_binary_gets_a_name_with_its_hash(tmp_path: Path) -> None:
    records.write_record(tmp_path, RECORD)
    second = records.write_record(tmp_path, changed("kernel/cubin_sha256", OTHER))
    assert second.name == f"tiny.{OTHER[:8]}.json"
    assert [e.cubin_sha256 for e in records.build_index(tmp_path)] == [OTHER, SHA]  # by file name
    with pytest.raises(InputError, match="written once"):
        later = changed("kernel/cubin_sha256", OTHER)
        later["command"] = "another"
        records.write_record(tmp_path, later)


def test_a_malformed_record_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"malformed: launch\.grid"):
        records.write_record(tmp_path, changed("launch/grid", [1]))
    assert list(tmp_path.iterdir()) == []


def folder_of_records(folder: Path) -> Path:
    records.write_record(folder, RECORD)
    (folder / "cubins").mkdir()
    records.cubin_file(folder, SHA).write_bytes(CUBIN)
    records.write_index(folder)
    return folder


def test_the_index_matches_the_files(tmp_path: Path) -> None:
    folder = folder_of_records(tmp_path)
    path = folder / "records" / "A1" / "tiny.json"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert records.load_index(folder) == [records.IndexEntry("A1:tiny", "records/A1/tiny.json", digest, SHA)]
    assert records.check_index(folder) == []


def test_the_index_notices_a_changed_file(tmp_path: Path) -> None:
    folder = folder_of_records(tmp_path)
    path = folder / "records" / "A1" / "tiny.json"
    path.write_text(path.read_text().replace("38208", "38209"))
    assert records.check_index(folder) == ["records/A1/tiny.json was changed after it was written"]


def test_the_index_notices_missing_and_unlisted_files(tmp_path: Path) -> None:
    folder = folder_of_records(tmp_path)
    path = folder / "records" / "A1" / "tiny.json"
    path.rename(path.with_name("other.json"))
    assert records.check_index(folder) == [
        "records/A1/tiny.json is in the index and missing",
        "records/A1/other.json is not in the index",
    ]


def test_the_index_notices_a_missing_and_a_changed_binary(tmp_path: Path) -> None:
    folder = folder_of_records(tmp_path)
    cubin = records.cubin_file(folder, SHA)
    cubin.write_bytes(b"\x7fELF changed")
    assert records.check_index(folder) == [f"records/A1/tiny.json: its binary {cubin.name} is another one"]
    cubin.unlink()
    assert records.check_index(folder) == [f"records/A1/tiny.json: its binary {cubin.name} is missing"]


@pytest.mark.parametrize(
    "text, message", [("{", "is not JSON"), ("{}", "is not a record"), (None, "not exist")]
)
def test_a_bad_file_is_a_sentence(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=message):
        records.load_record(path)


def test_a_bad_index_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "INDEX.json").write_text(json.dumps({"schema": "other"}))
    with pytest.raises(InputError, match="is not an index"):
        records.load_index(tmp_path)


def test_committed_records_match_their_index(root: Path) -> None:
    """Every folder of measurements that has records."""
    for folder in sorted((root / "validation" / "measurements").iterdir()):
        if (folder / "records").is_dir():
            assert records.check_index(folder) == [], folder

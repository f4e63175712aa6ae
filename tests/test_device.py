"""Device files: what they hold, how they are found, and what happens with a bad one."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gpusim.device import (
    KINDS,
    UNITS,
    DeviceSpec,
    compute_capabilities,
    load_compute_capability,
    load_device,
    names,
)
from gpusim.errors import InputError

DEVICES = Path(__file__).parent.parent / "gpusim" / "devices"
EVERY_SPEC = [load_device(n) for n in names()] + [load_compute_capability(c) for c in compute_capabilities()]


def test_the_devices_there_are() -> None:
    assert names() == [
        "a100-80", "b200", "h100-sxm", "h200", "l40s", "rtx3090", "rtx4090", "rtx5090", "t4", "v100",
    ]  # fmt: skip
    assert compute_capabilities() == [
        "7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1",
    ]  # fmt: skip


# --- Values --------------------------------------------------------------------------------------------

# warps/SM, blocks/SM, shared KB an SM, KB a block, granule B, reserved B
OCCUPANCY_TABLE = {
    "7.0": (64, 32, 96, 96, 256, 0),
    "7.5": (32, 16, 64, 64, 256, 0),
    "8.0": (64, 32, 164, 163, 128, 1024),
    "8.6": (48, 16, 100, 99, 128, 1024),
    "8.7": (48, 16, 164, 163, 128, 1024),
    "8.9": (48, 24, 100, 99, 128, 1024),
    "9.0": (64, 32, 228, 227, 128, 1024),
    "10.0": (64, 32, 228, 227, 128, 1024),
    "10.3": (64, 32, 228, 227, 128, 1024),
    "12.0": (48, 24, 100, 99, 128, 1024),
    "12.1": (48, 24, 100, 99, 128, 1024),
}


@pytest.mark.parametrize("cc", OCCUPANCY_TABLE)
def test_limits_of_every_compute_capability(cc: str) -> None:
    spec = load_compute_capability(cc)
    warps, blocks, shared, per_block, granule, reserved = OCCUPANCY_TABLE[cc]
    assert spec.integer("sm.warps") == warps
    assert spec.integer("sm.blocks") == blocks
    assert spec.integer("shared.per_sm") == shared * 1024
    assert spec.integer("shared.per_block_optin") == per_block * 1024
    assert spec.integer("shared.granule") == granule
    assert spec.integer("shared.reserved_per_block") == reserved
    assert spec.integer("sm.registers") == 65536
    assert spec.integer("sm.registers_per_thread") == 255
    assert spec.arch == "sm_" + cc.replace(".", "")


def test_h200_as_measured() -> None:
    h200 = load_device("h200")
    measured = {
        "device.sm_count": 132,
        "clock.sm_boost": 1980,
        "clock.memory": 3201,
        "l2.bytes": 62_914_560,
        "dram.bus_bits": 6016,
        "shared.per_sm": 233_472,
        "shared.per_block_optin": 232_448,
        "shared.reserved_per_block": 1024,
    }
    assert {path: h200.value(path) for path in measured} == measured
    assert {h200.kind(path) for path in measured} == {"measured"}
    assert h200.number("dram.bandwidth") == 4800.0
    assert h200.kind("dram.bandwidth") == "datasheet"
    assert h200.integers("shared.carveouts") == (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)
    assert h200.unit("shared.carveouts") == "KiB"


def test_geometry_that_the_memory_models_read() -> None:
    for spec in EVERY_SPEC:
        geometry = ("shared.banks", "shared.bank_bytes", "l1.line_bytes", "l1.sector_bytes", "l1.tag_banks")
        assert [spec.integer(path) for path in geometry] == [32, 4, 128, 32, 4]


@pytest.mark.parametrize(
    ("name", "cc", "sms", "l2_mib"),
    [
        ("h200", "9.0", 132, 60),
        ("h100-sxm", "9.0", 132, 50),
        ("a100-80", "8.0", 108, 40),
        ("v100", "7.0", 80, 6),
        ("t4", "7.5", 40, 4),
        ("rtx3090", "8.6", 82, 6),
        ("rtx4090", "8.9", 128, 72),
        ("l40s", "8.9", 142, 96),
        ("b200", "10.0", 148, 126.5),
        ("rtx5090", "12.0", 170, 96),
    ],
)
def test_sm_count_and_l2_of_each_device(name: str, cc: str, sms: int, l2_mib: float) -> None:
    spec = load_device(name)
    assert spec.compute_capability == cc
    assert spec.integer("device.sm_count") == sms
    assert spec.integer("l2.bytes") == l2_mib * 2**20


# --- Every number has a unit, a kind and a source ----------------------------------------------------


@pytest.mark.parametrize("spec", EVERY_SPEC, ids=lambda s: s.name)
def test_every_value_says_where_it_comes_from(spec: DeviceSpec) -> None:
    for q in spec:
        assert q.kind in KINDS
        assert q.unit in UNITS
        assert len(q.source) > 20, q  # a citation, not a key
    for path, _value, unit, kind, source in spec.rows():
        assert (unit, kind, source) == (spec.unit(path), spec.kind(path), spec.source(path))
    assert spec.assumed() == [q.path for q in spec if q.kind == "assumed"]


@pytest.mark.parametrize("file", sorted(DEVICES.rglob("*.toml")), ids=lambda f: f.stem)
def test_no_citation_is_unused(file: Path) -> None:
    content = tomllib.loads(file.read_text())
    used = {row["source"] for table in content.values() if isinstance(table, dict)
            for row in table.values() if isinstance(row, dict)}  # fmt: skip
    assert set(content["sources"]) == used


def test_rows_are_ready_for_a_table() -> None:
    rows = {row[0]: row for row in load_device("h200").rows()}
    assert rows["l2.bytes"][:4] == ("l2.bytes", "62,914,560", "B", "measured")
    assert rows["dram.type"][1] == "HBM3e"
    assert rows["launch.block_max"][1] == "1,024, 1,024, 64"
    assert [row[0] for row in load_device("h200").rows("clock.")] == ["clock.sm_boost", "clock.memory"]


def test_a_device_overrides_its_compute_capability_and_that_the_common_file() -> None:
    # common.toml marks the carve-out rule as assumed; 9.0 measured it; h200 takes it from there.
    assert load_device("v100").kind("shared.carveout_rule") == "assumed"
    assert load_device("h200").kind("shared.carveout_rule") == "measured"
    assert "shared.carveout_rule" in load_device("v100").assumed()
    assert load_device("h200").quantity("shared.carveout_rule").file.endswith("9.0.toml")


# --- Names --------------------------------------------------------------------------------------------


def test_names_are_forgiving_and_loading_is_cached() -> None:
    assert load_device("H100_SXM") is load_device("h100-sxm") is load_device("h100")
    assert load_device(" RTX4090 ").name == "rtx4090"


def test_unknown_device_suggests_and_lists() -> None:
    with pytest.raises(InputError) as caught:
        load_device("h20o")
    assert "no device 'h20o'" in caught.value.what
    assert "did you mean 'h200'?" in (caught.value.hint or "")
    assert all(name in (caught.value.hint or "") for name in names())


def test_unknown_compute_capability_lists_those_known() -> None:
    with pytest.raises(InputError, match=r"'6\.1'.*\n.*7\.0, 7\.5"):
        load_compute_capability("6.1")


def test_missing_value_says_so_and_names_a_near_one() -> None:
    with pytest.raises(InputError) as caught:
        load_device("b200").integer("clock.sm_bost")
    assert "'b200' states no 'clock.sm_bost'" in caught.value.what
    with pytest.raises(InputError, match=r"close to it: .*sm\.registers"):
        load_device("h200").value("sm.register")
    assert not load_device("t4").has("l2.latency_far")


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("integer", "dram.type", "whole number"),
        ("integer", "dram.pin_rate", "whole number"),
        ("number", "shared.carveouts", "a number"),
        ("text", "sm.warps", "a name"),
        ("integers", "sm.warps", "list"),
    ],
)
def test_asking_for_the_wrong_type_names_the_file(method: str, path: str, expected: str) -> None:
    with pytest.raises(InputError, match=f"of the device 'h200' is not .*{expected}"):
        getattr(load_device("h200"), method)(path)


# --- A file of one's own ------------------------------------------------------------------------------

GOOD = """
title = "Half an H200"
compute_capability = "9.0"
[sources]
me = "measured on my desk, 2026"
[device]
sm_count = { value = 66, unit = "SM", kind = "measured", source = "me" }
"""


def test_a_file_of_ones_own_needs_only_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "half.toml"
    path.write_text(GOOD)
    spec = load_device(path)
    assert (spec.name, spec.title, spec.arch) == ("half", "Half an H200", "sm_90")
    assert spec.integer("device.sm_count") == 66
    assert spec.integer("sm.warps") == 64
    path.write_text(GOOD.replace("66", "65"))  # edited in the same session
    assert load_device(str(path)).integer("device.sm_count") == 65


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('compute_capability = "9.0"', "", "does not say its compute capability"),
        ('"9.0"', '"9.9"', "no limits for compute capability '9.9'"),
        ('"9.0"', "9.0", "no limits for compute capability 9.0"),
        ("[sources]", "[sources", "no valid TOML"),
        ('me = "measured on my desk, 2026"', "", "cites 'me', which [sources] does not hold"),
        ('[sources]\nme = "measured on my desk, 2026"', 'sources = "me"', "not a table of citations"),
        ('kind = "measured"', 'kind = "guessed"', "kind 'guessed'"),
        ('unit = "SM"', 'unit = "SMs"', "unit 'SMs'"),
        ('unit = "SM"', 'unit = ["SM"]', "unit"),
        ('source = "me"', 'source = ["me"]', "which [sources] does not hold"),
        ('me = "measured on my desk, 2026"', "me = 7", "cites 'me', which [sources] does not hold"),
        (', unit = "SM"', "", "needs exactly value, unit, kind, source"),
        ("{ value = 66", "{ value = true", "has the value True"),
        ("{ value = 66", "{ value = [1, 2.5]", "has the value [1, 2.5]"),
        ("title", "cores = 7\ntitle", "'cores' is neither a header key nor a table"),
    ],
)
def test_bad_files_are_refused_with_a_sentence(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError) as caught:
        load_device(path)
    assert says in caught.value.what
    assert caught.value.where == str(path)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_device("/nowhere/gpu.toml")

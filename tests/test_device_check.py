"""The consistency of device files: every shipped device passes, and every check finds the fault it is for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpusim import device_check
from gpusim.cli import main
from gpusim.device import (
    REQUIRED,
    DeviceSpec,
    Quantity,
    Value,
    compute_capabilities,
    dram_file,
    load_compute_capability,
    load_device,
    load_quantities,
    names,
)
from gpusim.device_check import CHECKS, FAILED, PASSED, SKIPPED, STRUCTURE, Outcome, failures, run_checks

EVERY_SPEC = [load_device(n) for n in names()] + [load_compute_capability(c) for c in compute_capabilities()]

#: A device that states everything, so that no check is skipped: the A100 and what it lacks.
COMPLETE: dict[str, tuple[Value, str]] = {
    "sm.barriers": (64, "barrier"),
    "l2.persisting_bytes": (31_457_280, "B"),
    "device.dies": (2, "die"),
    "dram.interface_bits": (6144, "bit"),
    "dram.pseudo_channels": (96, "channel"),
    "dram.pseudo_channel_bits": (64, "bit"),
}


def complete() -> DeviceSpec:
    a100 = load_device("a100-80")
    more = {
        path: Quantity(path, value, unit, "assumed", "made up for this test", a100.quantity("l2.bytes").file)
        for path, (value, unit) in COMPLETE.items()
    }
    return DeviceSpec("x", "x", "8.0", {**a100.quantities, **more})


def broken(path: str, value: Value) -> DeviceSpec:
    whole = complete()
    return DeviceSpec("x", "x", "8.0", {**whole.quantities, path: replace(whole.quantity(path), value=value)})


def outcome(spec: DeviceSpec, name: str) -> Outcome:
    (found,) = [o for o in run_checks(spec) if o.check == name]
    return found


@pytest.mark.parametrize("spec", EVERY_SPEC, ids=lambda s: s.name)
def test_no_shipped_device_contradicts_itself(spec: DeviceSpec) -> None:
    assert failures(spec) == []


def test_the_complete_device_skips_nothing_and_passes() -> None:
    assert {o.status for o in run_checks(complete())} == {PASSED}


# check -> (the value to break, its broken value, both numbers of the sentence)
FAULTS: dict[str, tuple[str, Value, str, str]] = {
    "threads of an SM": ("sm.threads", 1056, "1,056", "2,048"),
    "threads of a block": ("sm.threads_per_block", 4096, "4,096", "2,048"),
    "block size in x": ("launch.block_max", (512, 512, 64), "512", "1,024"),
    "warps of a sub-partition": ("sm.sub_partitions", 5, "64", "5"),
    "blocks of an SM": ("sm.blocks", 65, "65", "64"),
    "barriers of an SM": ("sm.barriers", 16, "16", "32"),
    "registers of a sub-partition": ("sm.registers", 65_535, "65,535", "1,024"),
    "register unit": ("sm.register_unit", 40, "40", "32"),
    "registers of a block": ("sm.registers_per_block", 131_072, "131,072", "65,536"),
    "registers of a thread": ("sm.registers_per_thread", 256, "256", "255"),
    "registers of a warp": ("sm.registers_per_block", 4096, "8,160", "4,096"),
    "opt-in shared memory": ("shared.per_block_optin", 167_936, "167,936", "166,912"),
    "static shared memory": ("shared.static_per_block", 200_000, "200,000", "166,912"),
    "order of carve-outs": ("shared.carveouts", (0, 164, 8), "0, 164, 8", "0, 8, 164"),
    "largest carve-out": ("shared.carveouts", (0, 8, 132), "135,168", "167,936"),
    "unified L1": ("l1.unified_bytes", 131_072, "131,072", "167,936"),
    "shared granule": ("shared.granule", 100, "167,936", "100"),
    "row of shared banks": ("shared.banks", 16, "64", "128"),
    "L1 sectors": ("l1.sector_bytes", 48, "128", "48"),
    "L2 sectors": ("l2.sector_bytes", 48, "128", "48"),
    "bit field of sm.warp_threads": ("sm.warp_threads", 33, "33", "32"),
    "bit field of shared.banks": ("shared.banks", 31, "31", "32"),
    "bit field of shared.bank_bytes": ("shared.bank_bytes", 5, "5", "4"),
    "bit field of shared.granule": ("shared.granule", 96, "96", "64"),
    "bit field of l1.line_bytes": ("l1.line_bytes", 120, "120", "128"),
    "bit field of l1.sector_bytes": ("l1.sector_bytes", 36, "36", "32"),
    "bit field of l1.tag_banks": ("l1.tag_banks", 0, "0", "1"),
    "bit field of l2.line_bytes": ("l2.line_bytes", 96, "96", "64"),
    "bit field of l2.sector_bytes": ("l2.sector_bytes", 33, "33", "32"),
    "bit field of l2.fetch_bytes": ("l2.fetch_bytes", 96, "96", "64"),
    "L2 lines": ("l2.bytes", 41_943_000, "41,943,000", "128"),
    "L2 partitions": ("l2.partitions", 3, "41,943,040", "384"),
    "L2 slices": ("l2.slices", 96, "41,943,040", "12,288"),
    "slices of a partition": ("l2.slices", 81, "81", "2"),
    "persisting L2": ("l2.persisting_bytes", 50_000_000, "50,000,000", "41,943,040"),
    "L2 fetch": ("l2.fetch_bytes", 16, "16", "32"),
    "SMs of a die": ("device.sm_count", 107, "107", "2"),
    "L1 before L2": ("l1.latency", 300, "300", "211"),
    "near before far L2": ("l2.latency_far", 200, "211", "200"),
    "L2 before DRAM": ("dram.latency", 150, "211", "150"),
    "far L2 before DRAM": ("dram.latency", 400, "424", "400"),
    "L2 bandwidth": ("l2.bandwidth", 6000, "6,000", "5,120"),
    "L2 feeds L1": ("l1.bandwidth", 32, "3,844", "3,456"),
    "DRAM feeds L2": ("l2.bandwidth", 1000, "1,446.1", "1,000"),
    "FP32 rate": ("core.fp32_lanes", 128, "38.9837", "19.5"),
    "DRAM bandwidth": ("dram.bandwidth", 1555, "2,039.04", "1,555"),
    "pin rate and clock": ("clock.memory", 1215, "2.62222", "2"),
    "DRAM standard": ("dram.standard", "hbm3", "hbm3", "hbm2e"),
    "DRAM channels": ("dram.channels", 80, "10,240", "5,120"),
    "pseudo-channels": ("dram.pseudo_channels", 80, "5,120", "6,144"),
    "DRAM bus": ("dram.interface_bits", 4096, "5,120", "4,096"),
}


def test_every_check_has_a_fault() -> None:
    assert list(FAULTS) == [check.name for check in CHECKS]
    assert len({check.name for check in CHECKS} | set(STRUCTURE)) == len(CHECKS) + len(STRUCTURE)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_fails_its_check_with_both_numbers(name: str) -> None:
    path, value, left, right = FAULTS[name]
    spec = broken(path, value)
    found = outcome(spec, name)
    assert (found.status, found.left, found.right) == (FAILED, left, right)
    assert found.sentence.startswith("x: ") and found.sentence in failures(spec)
    assert all(part in found.sentence for part in (path, left, right))
    # whatever else fails reads the same value, or the file that the standard's name leads to
    named = "standard." if path == "dram.standard" else path
    others = [o.rule for o in run_checks(spec) if o.status == FAILED and o.check not in {name, *STRUCTURE}]
    assert all(named in rule for rule in others)


def test_a_sentence_reads_as_one() -> None:
    assert failures(broken("sm.warps", 48)) == [
        "x: sm.threads is 2,048, but sm.warps * sm.warp_threads is 1,536"
    ]
    found = outcome(broken("dram.bandwidth", 1555), "DRAM bandwidth").sentence
    assert found == (
        "x: dram.bus_bits * dram.pin_rate / 8 is 2,039.04, but dram.bandwidth is 1,555 (tolerance 2 %)"
    )


def test_tolerances_are_tolerated_and_no_more() -> None:
    for bandwidth, status in ((2079, PASSED), (2082, FAILED), (2000, PASSED), (1998, FAILED)):
        assert outcome(broken("dram.bandwidth", bandwidth), "DRAM bandwidth").status == status


def test_data_rates_of_gddr_and_hbm() -> None:
    t4 = load_device("t4")
    card_database = {**t4.quantities, "clock.memory": replace(t4.quantity("clock.memory"), value=1250)}
    assert outcome(DeviceSpec("t4", "", "7.5", card_database), "pin rate and clock").status == PASSED
    assert outcome(broken("clock.memory", 796.5), "pin rate and clock").status == FAILED  # HBM moves two bits


def test_a_latency_in_ns_is_compared_in_cycles() -> None:
    whole = complete()
    short = replace(whole.quantity("dram.latency"), value=100, unit="ns")  # 141 cycles of 1,410 MHz
    spec = DeviceSpec("x", "x", "8.0", {**whole.quantities, "dram.latency": short})
    assert (outcome(spec, "L2 before DRAM").status, outcome(spec, "L2 before DRAM").right) == (FAILED, "141")
    timeless = {path: q for path, q in spec.quantities.items() if path != "clock.sm_boost"}
    assert outcome(DeviceSpec("x", "x", "8.0", timeless), "L2 before DRAM").status == SKIPPED


# --- Structure ----------------------------------------------------------------------------------------


def test_a_missing_required_value_is_named_and_its_checks_are_skipped() -> None:
    lacking = {path: q for path, q in complete().quantities.items() if path != "sm.warps"}
    spec = DeviceSpec("x", "x", "8.0", lacking)
    count = len(REQUIRED)
    assert failures(spec) == [f"x: 'sm.warps' is missing ({count - 1} of {count})"]
    assert outcome(spec, "threads of an SM").sentence == "no sm.warps"


def test_a_value_in_another_unit_is_named() -> None:
    whole = complete()
    spec = DeviceSpec(
        "x", "x", "8.0", {**whole.quantities, "l2.bytes": replace(whole.quantity("l2.bytes"), unit="KiB")}
    )
    (sentence,) = failures(spec)
    assert "x: l2.bytes is in 'KiB', but the models read B" in sentence


def test_a_value_of_another_kind_is_named() -> None:
    whole = complete()
    spec = DeviceSpec(
        "x", "x", "8.0", {**whole.quantities, "l2.bytes": replace(whole.quantity("l2.bytes"), kind="guess")}
    )
    assert "x: l2.bytes is of kind 'guess'" in failures(spec)[0]


def test_an_unknown_standard_is_named_with_those_there_are() -> None:
    sentences = failures(broken("dram.standard", "hbm9"))
    assert "x: dram.standard is 'hbm9', but there are: gddr6" in sentences[0]
    assert outcome(broken("dram.standard", "hbm9"), "DRAM channels").status == SKIPPED


def test_standards_are_optional(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(device_check, "dram_file", lambda standard: tmp_path / "none" / f"{standard}.toml")
    assert outcome(complete(), "file of the standard").status == SKIPPED
    assert failures(complete()) == []


def test_channel_widths_come_from_the_standard() -> None:
    for name in names():
        spec = load_device(name)
        if not spec.has("dram.channels"):
            continue
        rows = load_quantities(dram_file(spec.text("dram.standard")))
        width = rows["organisation.pseudo_channels"].value * rows["organisation.pseudo_channel_bits"].value  # type: ignore[operator]
        assert spec.integer("dram.channels") * width == spec.integer("dram.bus_bits")


@pytest.mark.parametrize(
    ("path", "value"),
    [("sm.warps", "many"), ("sm.sub_partitions", 0), ("launch.block_max", 1024), ("shared.banks", 32.5)],
)
def test_a_value_that_cannot_be_computed_with_is_a_failure(path: str, value: Value) -> None:
    sentences = failures(broken(path, value))
    assert sentences and all(sentence.startswith("x: ") for sentence in sentences)
    assert any(path in sentence for sentence in sentences)


# --- The command --------------------------------------------------------------------------------------

ODD = """
title = "An odd one"
compute_capability = "9.0"
[sources]
me = "measured on my desk, 2026"
[sm]
threads = { value = 1000, unit = "thread", kind = "measured", source = "me" }
"""


@pytest.fixture
def odd(tmp_path: Path) -> str:
    path = tmp_path / "odd.toml"
    path.write_text(ODD)
    return str(path)


def test_the_command_checks_all_devices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("devices", "--check")) == 0
    out, err = capsys.readouterr()
    assert err == "" and all(name in out for name in names())
    assert " 0 failed" in out and "DRAM bandwidth" in out


def test_the_command_shows_the_numbers_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("devices", "--check", "a100")) == 0
    out = capsys.readouterr().out
    assert "2,039.04" in out and "2,039" in out and "passed" in out


def test_the_command_fails_with_a_sentence(odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("devices", "--check", "h200", odd)) == 1
    out, err = capsys.readouterr()
    assert "odd: sm.threads is 1,000, but sm.warps * sm.warp_threads is 2,048" in out
    assert "FAILED" in out and err == ""


def test_the_command_writes_json(odd: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("devices", "--check", odd, "--json", "-")) == 1
    rows = json.loads(capsys.readouterr().out)
    (bad,) = [row for row in rows if row["status"] == FAILED and row["check"] == "threads of an SM"]
    assert (bad["device"], bad["left"], bad["right"]) == ("odd", "1,000", "2,048")
    assert len(rows) == len(CHECKS) + len(STRUCTURE)
    file = tmp_path / "checks.json"
    assert main(("devices", "--check", "h200", "--json", str(file))) == 0
    assert {row["device"] for row in json.loads(file.read_text())} == {"h200"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--check", "h20o"), "there is no device 'h20o'"),
        (("--check", "h200", "/nowhere/gpu.toml"), "cannot be read"),
        (("h200", "a100"), "2 devices at once"),
        (("h200", "--json", "-"), "--json: there is nothing to write"),
        (("--check", "--only", "dram"), "--only: --check looks at all values"),
        (("--check", "--json", "/nowhere/checks.json"), "/nowhere/checks.json"),
    ],
)
def test_bad_input_is_one_message(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("devices", *arguments)) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("gpusim: error: ") == 1
    assert says in err and "Traceback" not in err

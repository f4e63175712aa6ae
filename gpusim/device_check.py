"""Whether a device's numbers agree with each other: the rows behind ``gpusim devices --check``.

A row of :data:`CHECKS` compares two expressions over the device's values, ``sm.threads`` with ``sm.warps *
sm.warp_threads``: what it prints is what it computes.  A row is skipped when the device lacks a value that it
names (values without a source are left out).  Rows of :data:`STRUCTURE` look at the file instead: required
values, units, citations.  ``standard.key`` is ``[organisation]`` of the device's DRAM standard, a file of
``devices/dram``.

Every outcome has both numbers; a failure is one sentence that names the device, the value and both of them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gpusim.device import (
    KINDS,
    REQUIRED,
    UNITS,
    DeviceSpec,
    Quantity,
    Value,
    dram_file,
    format_value,
    load_quantities,
)

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """``left`` stands in ``relation`` to ``right``; ``tolerance`` is a fraction of ``right``."""

    name: str
    left: str
    relation: str
    right: str
    tolerance: float = 0.0

    @property
    def rule(self) -> str:
        within = f" within {self.tolerance * 100:g} %" if self.tolerance else ""
        return f"{self.left} {self.relation} {self.right}{within}"

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(re.findall(r"[a-z]\w*\.\w+", f"{self.left} {self.right}")))


@dataclass(frozen=True, slots=True)
class Outcome:
    """One check of one device; ``sentence`` says what is wrong, or which value is absent."""

    device: str
    check: str
    rule: str
    status: str
    left: str = ""
    right: str = ""
    sentence: str = ""

    def as_dict(self) -> dict[str, str]:
        return {field: getattr(self, field) for field in self.__slots__}


# ---------------------------------------------------------------------------------------------------
# The table
# ---------------------------------------------------------------------------------------------------

#: Datasheets round ("3.35 TB/s", "67 TFLOP/s") and drivers count whole MHz.
ROUNDED = 0.02

CHECKS: tuple[Check, ...] = (
    Check("threads of an SM", "sm.threads", "=", "sm.warps * sm.warp_threads"),
    Check("threads of a block", "sm.threads_per_block", "<=", "sm.threads"),
    Check("block size in x", "first(launch.block_max)", "=", "sm.threads_per_block"),
    Check("warps of a sub-partition", "sm.warps", "is a multiple of", "sm.sub_partitions"),
    Check("blocks of an SM", "sm.blocks", "<=", "sm.warps"),
    Check("barriers of an SM", "sm.barriers", ">=", "sm.blocks"),
    Check("registers of a sub-partition", "sm.registers", "is a multiple of",
          "sm.sub_partitions * sm.register_unit"),
    Check("register unit", "sm.register_unit", "is a multiple of", "sm.warp_threads"),
    Check("registers of a block", "sm.registers_per_block", "<=", "sm.registers"),
    # an operand has eight bits, and the last number is RZ
    Check("registers of a thread", "sm.registers_per_thread", "<=", "255"),
    Check("registers of a warp", "sm.registers_per_thread * sm.warp_threads", "<=", "sm.registers_per_block"),
    Check("opt-in shared memory", "shared.per_block_optin", "=", "shared.per_sm - shared.reserved_per_block"),
    Check("static shared memory", "shared.static_per_block", "<=", "shared.per_block_optin"),
    Check("order of carve-outs", "shared.carveouts", "=", "ascending(shared.carveouts)"),
    Check("largest carve-out", "max(shared.carveouts) * 1024", "=", "shared.per_sm"),
    Check("unified L1", "l1.unified_bytes", ">=", "max(shared.carveouts) * 1024"),
    Check("shared granule", "shared.per_sm", "is a multiple of", "shared.granule"),
    Check("row of shared banks", "shared.banks * shared.bank_bytes", "=", "l1.line_bytes"),
    Check("L1 sectors", "l1.line_bytes", "is a multiple of", "l1.sector_bytes"),
    Check("L2 sectors", "l2.line_bytes", "is a multiple of", "l2.sector_bytes"),
    # the models take these as bit fields of an address
    *(Check(f"bit field of {path}", path, "=", f"power_of_two({path})")
      for path in ("sm.warp_threads", "shared.banks", "shared.bank_bytes", "shared.granule", "l1.line_bytes",
                   "l1.sector_bytes", "l1.tag_banks", "l2.line_bytes", "l2.sector_bytes", "l2.fetch_bytes")),
    Check("L2 lines", "l2.bytes", "is a multiple of", "l2.line_bytes"),
    Check("L2 partitions", "l2.bytes", "is a multiple of", "l2.partitions * l2.line_bytes"),
    Check("L2 slices", "l2.bytes", "is a multiple of", "l2.slices * l2.line_bytes"),
    Check("slices of a partition", "l2.slices", "is a multiple of", "l2.partitions"),
    Check("persisting L2", "l2.persisting_bytes", "<=", "l2.bytes"),
    Check("L2 fetch", "l2.fetch_bytes", "is a multiple of", "l2.sector_bytes"),
    Check("SMs of a die", "device.sm_count", "is a multiple of", "device.dies"),
    # latencies in ns are compared in cycles of clock.sm_boost
    Check("L1 before L2", "l1.latency", "<", "l2.latency"),
    Check("near before far L2", "l2.latency", "<=", "l2.latency_far"),
    Check("L2 before DRAM", "l2.latency", "<", "dram.latency"),
    Check("far L2 before DRAM", "l2.latency_far", "<", "dram.latency"),
    Check("L2 bandwidth", "l2.bandwidth", "<=", "l2.bandwidth_peak"),
    Check("L2 feeds L1", "l2.bandwidth", "<=", "l1.bandwidth * device.sm_count"),
    Check("DRAM feeds L2", "dram.bandwidth * 1000 / clock.sm_boost", "<=", "l2.bandwidth"),
    Check("FP32 rate", "device.sm_count * core.fp32_lanes * 2 * clock.sm_boost / 1e6", "=",
          "device.fp32_tflops", ROUNDED),
    Check("DRAM bandwidth", "dram.bus_bits * dram.pin_rate / 8", "=", "dram.bandwidth", ROUNDED),
    # drivers count half the data rate; card databases the clock of the DRAM, 1/8 or 1/16 of it with GDDR
    Check("pin rate and clock", "dram.pin_rate * 1000 / clock.memory", "is one of", "data_rates(dram.type)",
          0.005),
    Check("DRAM standard", "dram.standard", "=", "lower(dram.type)"),
    Check("DRAM channels", "dram.channels * standard.pseudo_channels * standard.pseudo_channel_bits", "=",
          "dram.bus_bits"),
    Check("pseudo-channels", "dram.pseudo_channels * dram.pseudo_channel_bits", "=", "dram.interface_bits"),
    Check("DRAM bus", "dram.bus_bits", "<=", "dram.interface_bits"),
)  # fmt: skip

#: What relates the two numbers: (left, right, tolerance) to whether it holds, and how a failure reads.
RELATIONS: dict[str, tuple[Callable[[Any, Any, float], bool], str]] = {
    "=": (lambda left, right, slack: _close(left, right, slack), "but {right_text} is {right}"),
    "<=": (lambda left, right, _: left <= right, "more than {right_text}, {right}"),
    ">=": (lambda left, right, _: left >= right, "less than {right_text}, {right}"),
    "<": (lambda left, right, _: left < right, "not below {right_text}, {right}"),
    "is a multiple of": (lambda left, right, _: left % right == 0, "no multiple of {right_text}, {right}"),
    "is one of": (lambda left, right, slack: any(_close(left, one, slack) for one in right),
                  "none of {right_text}, {right}"),
}  # fmt: skip


def _close(left: Any, right: Any, slack: float) -> bool:
    return left == right if not slack else abs(left - right) <= slack * abs(right)


def _power_of_two(value: int) -> int:
    """The nearest power of two, the value itself if it is one."""
    if value < 1:
        return 1
    below = 1 << (value.bit_length() - 1)
    return below if value - below <= 2 * below - value else 2 * below


def _data_rates(dram: str) -> tuple[int, ...]:
    """Bits that a pin may move in one cycle of the memory clock as listings count it."""
    return (2,) if dram.upper().startswith("HBM") else (2, 4, 8, 16)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": max,
    "first": lambda values: values[0],
    "ascending": lambda values: tuple(sorted(set(values))),
    "lower": str.lower,
    "power_of_two": _power_of_two,
    "data_rates": _data_rates,
}

#: Units that the models expect, where a value could sensibly be written in another one.
EXPECTED_UNITS: dict[str, tuple[str, ...]] = {
    "device.sm_count": ("SM",), "device.fp32_tflops": ("TFLOP/s",),
    "clock.sm_boost": ("MHz",), "clock.memory": ("MHz",),
    "shared.per_sm": ("B",), "shared.per_block_optin": ("B",), "shared.carveouts": ("KiB",),
    "l1.unified_bytes": ("B",), "l1.latency": ("cycle",), "l1.bandwidth": ("B/cycle",),
    "l2.bytes": ("B",), "l2.latency": ("cycle",), "l2.latency_far": ("cycle",),
    "l2.bandwidth": ("B/cycle",), "l2.bandwidth_peak": ("B/cycle",), "l2.fetch_bytes": ("B",),
    "l2.partitions": ("partition",), "l2.slices": ("slice",),
    "dram.capacity": ("GB",), "dram.bus_bits": ("bit",), "dram.bandwidth": ("GB/s",),
    "dram.pin_rate": ("Gbit/s",), "dram.channels": ("channel",), "dram.latency": ("cycle", "ns"),
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------
# What is checked about the files
# ---------------------------------------------------------------------------------------------------

#: (what there is, what there should be, what is wrong); None when it does not apply.
Finding = tuple[str, str, list[str]] | None


def _required(spec: DeviceSpec) -> Finding:
    missing = [f"'{path}' is missing" for path in REQUIRED if not spec.has(path)]
    return str(len(REQUIRED) - len(missing)), str(len(REQUIRED)), missing


def _units(spec: DeviceSpec) -> Finding:
    wrong = []
    for q in spec:
        allowed = EXPECTED_UNITS.get(q.path, tuple(UNITS))
        if q.unit not in allowed:
            wrong.append(f"{q.path} is in {q.unit!r}, but the models read {' or '.join(sorted(allowed))}")
        if q.kind not in KINDS:
            wrong.append(f"{q.path} is of kind {q.kind!r}, but the kinds are {', '.join(KINDS)}")
    return str(len(spec.quantities) - len(wrong)), str(len(spec.quantities)), wrong


def _citations(spec: DeviceSpec) -> Finding:
    """Every key of ``[sources]`` is cited in its file; that every cited key exists is a matter of loading."""
    unused, defined = [], 0
    for file in sorted({q.file for q in spec}):
        if not Path(file).is_file():
            return None
        content = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        rows = [row for table in content.values() if isinstance(table, dict) for row in table.values()]
        used = {row["source"] for row in rows if isinstance(row, dict)}
        defined += len(content.get("sources", ()))
        unused += [f"'{key}' of [sources] in {Path(file).name} is cited by 0 values, but must be by 1 or more"
                   for key in content.get("sources", ()) if key not in used]  # fmt: skip
    return str(defined - len(unused)), str(defined), unused


def _standard(spec: DeviceSpec) -> Finding:
    if not spec.has("dram.standard"):
        return None
    stated, folder = str(spec.value("dram.standard")), dram_file("").parent
    if not folder.is_dir():
        return None
    known = sorted(p.stem for p in folder.glob("*.toml") if p.stem != "common")
    wrong = [] if stated in known else [f"dram.standard is {stated!r}, but there are: {', '.join(known)}"]
    return stated, "a file of devices/dram", wrong


STRUCTURE: dict[str, tuple[str, Callable[[DeviceSpec], Finding]]] = {
    "required values": ("every path that the models need is there", _required),
    "units and kinds": ("every value has a unit and kind that the models read", _units),
    "citations": ("every entry of [sources] is cited by a value of its file", _citations),
    "file of the standard": ("dram.standard names a file of devices/dram", _standard),
}


# ---------------------------------------------------------------------------------------------------
# Running it
# ---------------------------------------------------------------------------------------------------


def run_checks(spec: DeviceSpec) -> list[Outcome]:
    """Every row of :data:`STRUCTURE` and :data:`CHECKS` for one device, in that order."""
    structure = [_look(spec, name, rule, look) for name, (rule, look) in STRUCTURE.items()]
    standard = _standard_values(spec)
    return [*structure, *(_compare(spec, check, standard) for check in CHECKS)]


def failures(spec: DeviceSpec) -> list[str]:
    """One sentence a contradiction; empty when there are none."""
    return [outcome.sentence for outcome in run_checks(spec) if outcome.status == FAILED]


def count(outcomes: Iterable[Outcome], status: str) -> int:
    return sum(outcome.status == status for outcome in outcomes)


def _look(spec: DeviceSpec, name: str, rule: str, look: Callable[[DeviceSpec], Finding]) -> Outcome:
    found = look(spec)
    if found is None:
        return Outcome(spec.name, name, rule, SKIPPED, sentence="does not apply")
    left, right, wrong = found
    sentence = f"{spec.name}: {'; '.join(wrong)}" if wrong else ""
    if wrong and left.isdigit():
        sentence += f" ({left} of {right})"
    return Outcome(spec.name, name, rule, FAILED if wrong else PASSED, left, right, sentence)


def _compare(spec: DeviceSpec, check: Check, standard: dict[str, Quantity]) -> Outcome:
    absent = [path for path in check.paths if not _has(spec, path, standard)]
    if absent:
        return Outcome(spec.name, check.name, check.rule, SKIPPED, sentence=f"no {', '.join(absent)}")
    holds, failing = RELATIONS[check.relation]
    names = _namespace(spec, check.paths, standard)
    try:
        left, right = (_evaluate(text, names) for text in (check.left, check.right))
        passed = holds(left, right, check.tolerance)
    except (TypeError, ValueError, ZeroDivisionError, AttributeError) as error:
        values = ", ".join(f"{path} is {_value(spec, path, standard)!r}" for path in check.paths)
        sentence = f"{spec.name}: {check.rule} cannot be computed ({error}): {values}"
        return Outcome(spec.name, check.name, check.rule, FAILED, sentence=sentence)
    sides = {"right_text": check.right, "right": _show(right)}
    within = f" (tolerance {check.tolerance * 100:g} %)" if check.tolerance else ""
    sentence = f"{spec.name}: {check.left} is {_show(left)}, {failing.format(**sides)}{within}"
    if passed:
        return Outcome(spec.name, check.name, check.rule, PASSED, _show(left), sides["right"])
    return Outcome(spec.name, check.name, check.rule, FAILED, _show(left), sides["right"], sentence)


def _standard_values(spec: DeviceSpec) -> dict[str, Quantity]:
    """``[organisation]`` of the device's DRAM standard as ``standard.key``; empty when it has no file."""
    if not spec.has("dram.standard"):
        return {}
    path = dram_file(str(spec.value("dram.standard")))
    if not path.is_file():
        return {}
    rows, table = load_quantities(path), "organisation."
    return {f"standard.{key.removeprefix(table)}": q for key, q in rows.items() if key.startswith(table)}


def _has(spec: DeviceSpec, path: str, standard: dict[str, Quantity]) -> bool:
    if path.startswith("standard."):
        return path in standard
    return spec.has(path) and (spec.unit(path) != "ns" or spec.has("clock.sm_boost"))


def _value(spec: DeviceSpec, path: str, standard: dict[str, Quantity]) -> Value:
    """The value; a latency in ns as cycles of ``clock.sm_boost``."""
    q = standard[path] if path.startswith("standard.") else spec.quantity(path)
    if q.unit == "ns" and path.endswith("latency"):
        return spec.number(path) * spec.number("clock.sm_boost") / 1000
    return q.value


def _namespace(spec: DeviceSpec, paths: Sequence[str], standard: dict[str, Quantity]) -> dict[str, Any]:
    names: dict[str, Any] = dict(FUNCTIONS)
    for path in paths:
        table, key = path.split(".")
        setattr(names.setdefault(table, SimpleNamespace()), key, _value(spec, path, standard))
    return names


def _evaluate(text: str, names: dict[str, Any]) -> Any:
    # The text is a row of CHECKS, written above; nothing of a user's file is evaluated.
    return eval(text, {"__builtins__": {}}, names)


def _show(value: Any) -> str:
    """A number for a table or sentence: what is no whole number with six digits."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:,.6g}"
    return format_value(value)

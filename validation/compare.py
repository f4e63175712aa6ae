"""A report beside a measurement: verdict by metric and by SASS instruction.

| verdict | means |
|---|---|
| ``equal`` | the same number (or the same to the digits the profiler printed) |
| ``known`` | exact tier, differs, and a numbered entry of ``deviations.toml`` covers it |
| ``differs`` | exact tier, differs, no excuse: a bug of gpusim, or another binary or launch was measured |
| ``close`` | modelled tier, differs; ``relative_error`` says by how much |
| ``not measured`` ``not predicted`` | the other side has no such number |

Counts are whole numbers and are compared as such.  Numbers that are not whole were rounded by both sides,
and are compared to the coarser one's last digit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusim.cubin.names import demangle, spellings
from gpusim.errors import InputError
from gpusim.validation.deviations import Deviation, deviation_for
from gpusim.validation.ncu_export import Dim3, LaunchRow, SourcePage, SourceRow
from gpusim.validation.ncu_numbers import Value

VERDICTS = ("equal", "known", "differs", "close", "not measured", "not predicted")


@dataclass(frozen=True, slots=True)
class Pair:
    """One number predicted and measured; ``pc`` is set for a value of one instruction.

    relative_error: (predicted - measured) / measured, absent where the measured value is 0.
    """

    launch: str
    metric: str
    pc: int | None
    predicted: int | float | None
    measured: int | float | None
    unit: str
    tier: str
    verdict: str
    deviation: int | None = None
    note: str = ""

    @property
    def relative_error(self) -> float | None:
        if self.predicted is None or not self.measured:
            return 0.0 if self.predicted == self.measured else None
        return (self.predicted - self.measured) / abs(self.measured)


@dataclass(frozen=True, slots=True)
class LaunchMeasured:
    """What was measured of one launch; instructions is None where there is no source page."""

    metrics: Mapping[str, Value]
    instructions: Sequence[SourceRow] | None = None

    def with_totals(self) -> LaunchMeasured:
        """Sums of source columns stand for the launch's metrics of the same name."""
        if not self.instructions:
            return self
        names = set.intersection(*(set(row["columns"]) for row in self.instructions))
        totals = {n: Value(sum(row["columns"][n] for row in self.instructions), "") for n in sorted(names)}
        return LaunchMeasured({**totals, **self.metrics}, self.instructions)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All pairs of one launch, and what the reader must know (``notes``)."""

    launch: str
    pairs: Sequence[Pair]
    notes: Sequence[str] = field(default=())

    @property
    def metrics(self) -> list[Pair]:
        """Pairs of the whole launch."""
        return [p for p in self.pairs if p.pc is None]

    @property
    def instructions(self) -> list[Pair]:
        """Pairs of single instructions."""
        return [p for p in self.pairs if p.pc is not None]

    @property
    def failed(self) -> bool:
        return any(p.verdict == "differs" for p in self.pairs)


def counts(pairs: Iterable[Pair]) -> dict[str, int]:
    """Pairs by verdict, in the order of VERDICTS."""
    found = Counter(p.verdict for p in pairs)
    return {verdict: found[verdict] for verdict in VERDICTS}


def compare(
    report: Mapping[str, Any], measured: LaunchMeasured, deviations: Sequence[Deviation] = ()
) -> Comparison:
    """A report (``gpusim.report/1``) beside what was measured of the same launch."""
    launch = str(report.get("id") or report["kernel"]["name"])
    measured = measured.with_totals()
    pairs = list(_launch_pairs(launch, report["metrics"], measured.metrics, deviations))
    notes = []
    registers = next((p for p in pairs if p.metric == "launch__registers_per_thread"), None)
    if registers is not None and registers.verdict == "differs":
        notes.append("registers differ: another binary was measured (compiler, options, architecture)")
    if measured.instructions is not None:
        reason = different_binary(report["instructions"], measured.instructions)
        if reason is None:
            pairs += _instruction_pairs(launch, report, measured.instructions, deviations)
        else:
            notes.append(f"another binary was measured: {reason}; instructions are not compared")
    return Comparison(launch, pairs, notes)


def _launch_pairs(
    launch: str,
    predicted: Mapping[str, Mapping[str, Any]],
    measured: Mapping[str, Value],
    deviations: Sequence[Deviation],
) -> Iterable[Pair]:
    for name in sorted(set(predicted) | set(measured)):
        ours, theirs = predicted.get(name), measured.get(name)
        if ours is None or ours.get("value") is None:
            if theirs is not None:
                yield Pair(launch, name, None, None, theirs.number, theirs.unit, "", "not predicted")
        elif theirs is None:
            yield Pair(launch, name, None, ours["value"], None, ours["unit"], ours["tier"], "not measured")
        else:
            unit = ours["unit"] or theirs.unit
            yield judge(launch, name, None, ours["value"], theirs, unit, ours["tier"], deviations)


def judge(
    launch: str,
    metric: str,
    pc: int | None,
    predicted: int | float,
    measured: Value,
    unit: str,
    tier: str,
    deviations: Sequence[Deviation],
) -> Pair:
    """One pair with its verdict."""
    number, note, deviation = measured.number, "", None
    if equal(predicted, measured):
        verdict = "equal"
        if measured.rounded and predicted != number:
            note = f"equal as printed ({measured.text} {measured.printed_unit})"
    elif tier != "exact":
        verdict = "close"
    else:
        deviation = deviation_for(launch, metric, deviations)
        verdict = "differs" if deviation is None else "known"
    return Pair(launch, metric, pc, predicted, number, unit, tier, verdict, deviation, note)


def equal(predicted: int | float, measured: Value) -> bool:
    """Whether a prediction is what was measured, as far as the printed digits tell."""
    if predicted == measured.number:
        return True
    room = measured.half_step
    if not float(measured.number).is_integer():
        room = max(room, _half_step(measured.number))
    if not float(predicted).is_integer():
        room += _half_step(predicted)
    # a rounded number may lie exactly half a step away, give or take its last binary digit
    return abs(predicted - measured.number) <= room * (1 + 1e-9)


def _half_step(number: int | float) -> float:
    """Half of the last digit that a number shows."""
    mantissa, _, exponent = repr(float(number)).partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(0.5 * 10.0 ** (int(exponent or 0) - decimals))


def different_binary(ours: Sequence[Mapping[str, Any]], theirs: Sequence[SourceRow]) -> str | None:
    """Why two listings cannot be of one binary; None if they can.

    Addresses and opcodes must agree.  Padding NOPs at the end may be left out by either side, and what never
    runs by the measured one (a report file holds no values for it).
    """
    mine = {row["pc"]: _opcode(row["sass"]) for row in ours}
    other = {row["pc"]: _opcode(row["sass"]) for row in theirs}
    idle = {row["pc"] for row in ours if row.get("inst_executed") == 0}
    surplus = {**{pc: op for pc, op in mine.items() if pc not in other and pc not in idle},
               **{pc: op for pc, op in other.items() if pc not in mine}}  # fmt: skip
    if any(op != "NOP" for op in surplus.values()):
        if len(mine) != len(other):
            return f"it has {len(other):,} instructions, the predicted one {len(mine):,}"
        return (
            f"it has no instruction at {min(surplus):#x}"
            if min(surplus) in mine
            else (f"its addresses are not those of the predicted one ({min(surplus):#x})")
        )
    for pc in sorted(mine.keys() & other.keys()):
        if other[pc] and mine[pc] != other[pc]:
            return f"at {pc:#x} it has {other[pc]}, the predicted one {mine[pc]}"
    return None


def _opcode(sass: str) -> str:
    """``LDS`` of ``@!P0 LDS.U.128 R4, [R2]``; empty where the text is missing."""
    words = sass.split()
    if words and words[0].startswith("@"):
        words = words[1:]
    return words[0].split(".")[0].rstrip(";") if words else ""


def _instruction_pairs(
    launch: str, report: Mapping[str, Any], measured: Sequence[SourceRow], deviations: Sequence[Deviation]
) -> Iterable[Pair]:
    """A column is exact where the launch's total of it is, and for instructions that no doubt concerns."""
    ours = {row["pc"]: row for row in report["instructions"]}
    metrics = report["metrics"]
    for row in measured:
        mine = ours.get(row["pc"])
        if mine is None:
            continue
        for name, number in row["columns"].items():
            if name not in metrics or mine.get(name) is None:
                continue
            about = metrics[name]
            # Counts are modelled as a whole where loops wait or CTAs were sampled that differ.
            whole = metrics.get("inst_executed", about)["tier"]
            tier = whole if whole != "exact" or not mine.get("unsettled", True) else about["tier"]
            value = Value(number, "")
            yield judge(launch, name, row["pc"], mine[name], value, about["unit"], tier, deviations)


# --- Which launch of an export a report is about ----------------------------------------------------------


def same_kernel(name: str, printed: str) -> int:
    """How surely two names mean one kernel: 2 with template arguments, 1 by bare name, 0 not at all.

    name: mangled or plain; printed: as the profiler prints it, mangled, demangled or bare.
    """
    first, second = (spellings(_plain(demangle(n.strip()))) for n in (name, printed))
    if first[1] == second[1]:
        return 2
    bare = "<" not in first[1] or "<" not in second[1] or _arguments(first[1]) == _arguments(second[1])
    return int(first[2] == second[2] and bare)


def _plain(name: str) -> str:
    return name.removeprefix("void ")


def _arguments(name: str) -> str:
    """Template arguments without casts and type words, which demanglers print differently."""
    text = name.partition("<")[2]
    for word in ("unsigned", "int", "long", "bool", "const", "(", ")"):
        text = text.replace(word, "")
    return text.replace("true", "1").replace("false", "0")


def matching_launches(report: Mapping[str, Any], launches: Sequence[LaunchRow]) -> list[LaunchRow]:
    """Launches of the report's kernel with its grid and block, the surest names only, in file order."""
    shape = report["launch"]
    fitting = [
        (same_kernel(report["kernel"]["name"], row.name), row)
        for row in launches
        if _same_shape(shape["grid"], row.grid) and _same_shape(shape["block"], row.block)
    ]
    best = max((score for score, _ in fitting), default=0)
    return [row for score, row in fitting if score == best and score > 0]


def matching_sources(report: Mapping[str, Any], pages: Sequence[SourcePage]) -> list[SourcePage]:
    """Source pages of the report's kernel, the surest names only, in file order."""
    scored = [(same_kernel(report["kernel"]["name"], page.name), page) for page in pages]
    best = max((score for score, _ in scored), default=0)
    return [page for score, page in scored if score == best and score > 0]


def _same_shape(ours: Sequence[int], theirs: Dim3 | None) -> bool:
    return theirs is None or tuple(ours) == tuple(theirs)


# --- Records -----------------------------------------------------------------------------------------------


def measured_of_record(record: Mapping[str, Any]) -> LaunchMeasured:
    """The profiler's part of a record (``gpusim.record/1``)."""
    metrics = {
        name: Value(entry["value"], entry.get("unit", ""))
        for name, entry in record.get("profile", {}).get("metrics", {}).items()
    }
    columns = record.get("instructions")
    if columns is None:
        return LaunchMeasured(metrics)
    names = [name for name in columns if name not in ("pc", "sass")]
    if any(len(columns[name]) != len(columns["pc"]) for name in (*names, "sass")):
        raise InputError("the columns of instructions are not equally long", where=str(record.get("id")))
    rows = [
        SourceRow(pc=pc, sass=columns["sass"][k], columns={name: columns[name][k] for name in names})
        for k, pc in enumerate(columns["pc"])
    ]
    return LaunchMeasured(metrics, rows)


__all__ = ["Comparison", "LaunchMeasured", "Pair", "compare", "counts", "matching_launches",
           "matching_sources", "measured_of_record", "same_kernel"]  # fmt: skip

"""The numbers that ``docs/claims.md`` judges with: records of one GPU, and predictions of the same launches.

A prediction executes the very binary that was measured (``gpusim.simulate``; large launches are sampled).
All of them take about a minute on two cores, so they are kept in ``claims.json`` beside the records, each
with the hash of its binary: a prediction of another binary is refused.  ``tests/test_claims.py`` repeats the
quick ones.

Units: those of the profiler's metrics; times in microseconds, rates in TFLOP/s and GB/s (powers of ten).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from gpusim.device import DeviceSpec, load_device
from gpusim.errors import InputError
from gpusim.output import atomic_write
from gpusim.program import load
from gpusim.simulate import simulate
from gpusim.validation.records import Record, cubin_file, load_index, load_record

SCHEMA = "gpusim.claims/1"
FOLDER = Path(__file__).resolve().parents[1] / "measurements" / "h200"
PREDICTIONS = "claims.json"

#: The steps of the ladder at 4096^3, in order; A10 (cuBLAS) is measured only.
LADDER = (
    "A1:large", "A2:large", "A2-1d:large", "A3-16:large", "A3-32:large", "A3-32x8:large", "A4:large",
    "A5:large", "A6:large", "A7:large", "A8-pad:large", "A8-layout:large", "A8-swizzle:large",
    "A9-double:large", "A9-async:large",
)  # fmt: skip
CUBLAS = "A10:4096"
LADDER_N = 4096

#: Every launch whose prediction the page uses.
PREDICTED = (
    *LADDER, "B2-16:middle", "B2-32:middle", "B2-32-ty:middle", "B3:middle", "B3-nopad:middle",
    "B5-64:middle", "B5-spill:middle", "C1:middle", "C2:middle", "D2:square256", "D3-pad1:square256",
    "D3-pad16:square256", "E3:medium", "E3:ragged", "E4-tile8:medium", "E4-tile16:medium",
    "E4-tile16:ragged", "E4-tile32:medium", "E5:medium",
)  # fmt: skip

#: Short names of this page -> the profiler's.
METRICS = {
    "requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "tags": "memory_l1_tag_requests_global",
    "wavefronts": "memory_l1_wavefronts_shared",
    "ideal": "memory_l1_wavefronts_shared_ideal",
    "store_wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_loads": "smsp__inst_executed_op_shared_ld.sum",
    "local_loads": "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum",
    "registers": "launch__registers_per_thread",
    "static_shared": "launch__shared_mem_per_block_static",
    "limit_registers": "launch__occupancy_limit_registers",
    "limit_shared": "launch__occupancy_limit_shared_mem",
    "limit_warps": "launch__occupancy_limit_warps",
    "occupancy": "sm__maximum_warps_per_active_cycle_pct",
}
#: Metrics that only the GPU gives.
MEASURED_ONLY = {
    "active_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm_cycles": "sm__cycles_active.avg",
    "sm_count": "launch__sm_count",
    "l1_hits": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l2_sectors": "l1tex__m_xbar2l1tex_read_sectors.sum",
    "dram_read": "dram__bytes_read.sum",
    "profiled_ns": "gpu__time_duration.sum",
    "issued": "smsp__issue_active.sum",
    "smsp_cycles": "smsp__cycles_active.sum",
    "sm_hz": "sm__cycles_elapsed.avg.per_second",
}
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters of one launch.

    metrics: short name -> value; accesses: ``LDS.128 32/4`` (opcode, shared wavefronts an execution and their
    ideal), ``LDG.E 32`` (opcode, sectors an execution) or ``FFMA`` -> executions.
    """

    metrics: Mapping[str, float]
    accesses: Mapping[str, int]

    def __getitem__(self, name: str) -> float:
        return self.metrics[name]

    @property
    def conflicts(self) -> float:
        """Shared wavefronts beyond ideal."""
        return self["wavefronts"] - self["ideal"]

    @property
    def sectors_a_request(self) -> float:
        return self["sectors"] / self["requests"]

    @property
    def ffma(self) -> int:
        """Executed FFMA warp instructions."""
        return self.accesses["FFMA"]


def _accesses(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Executions by opcode and cost, from the rows of a source page."""
    found: Counter[str] = Counter()
    for row in rows:
        words = row["sass"].split()
        opcode = words[1] if words[0].startswith("@") else words[0]
        n = row["inst_executed"]
        if not n:
            continue
        kind = opcode.partition(".")[0]
        if kind == "FFMA":
            found["FFMA"] += n
        elif kind in ("LDS", "STS"):
            cost, ideal = (row[f"memory_l1_wavefronts_shared{end}"] / n for end in ("", "_ideal"))
            if ideal:  # without active lanes nothing is read
                found[f"{opcode} {cost:g}/{ideal:g}"] += n
        elif kind in ("LDG", "STG"):
            found[f"{opcode} {row['memory_l2_theoretical_sectors_global'] / n:g}"] += n
    return dict(sorted(found.items()))


class Book:
    """Records and predictions by launch id."""

    def __init__(self, folder: Path = FOLDER, predictions: Mapping[str, Any] | None = None) -> None:
        """predictions: as :func:`predict` makes them; default: the kept ones."""
        self.folder = folder
        self._files = {entry.id: entry.file for entry in load_index(folder)}
        self._predictions = load_predictions(folder) if predictions is None else predictions
        self._records: dict[str, Record] = {}

    @cached_property
    def stride(self) -> dict[str, Any]:
        """The stride experiment (A11)."""
        found: dict[str, Any] = json.loads((self.folder / "stride.json").read_text(encoding="utf-8"))
        return found

    @cached_property
    def device(self) -> DeviceSpec:
        return load_device("h200")

    def file(self, id: str) -> str:
        """File of a record, relative to the folder."""
        if id not in self._files:
            raise InputError(f"there is no record of {id}", where=str(self.folder))
        return self._files[id]

    def record(self, id: str) -> Record:
        if id not in self._records:
            self._records[id] = load_record(self.folder / self.file(id))
        return self._records[id]

    def value(self, id: str, metric: str) -> float:
        """A measured metric by its short or full name."""
        name = METRICS.get(metric) or MEASURED_ONLY.get(metric) or metric
        metrics = self.record(id).get("profile", {}).get("metrics", {})
        if name not in metrics:
            raise InputError(f"the record of {id} has no {name}", where=str(self.folder / self.file(id)))
        value: float = metrics[name]["value"]
        return value

    def measured(self, id: str) -> Counts:
        record = self.record(id)
        columns = record["instructions"]
        rows = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
        return Counts({name: self.value(id, name) for name in METRICS}, _accesses(rows))

    def predicted(self, id: str) -> Counts:
        kept = self._predictions.get(id)
        if kept is None or kept["cubin_sha256"] != self.record(id)["kernel"]["cubin_sha256"]:
            raise InputError(f"there is no prediction of the binary that was measured for {id}",
                             hint="run python -m gpusim.validation.claims --simulate")  # fmt: skip
        return Counts(kept["metrics"], kept["accesses"])

    def warm(self, id: str) -> dict[str, float]:
        """Warm times of a launch in microseconds: ``median_us``, ``spread_pct`` and so on."""
        times: dict[str, float] = self.record(id)["timing"]["warm"]
        return times

    def us(self, id: str) -> float:
        return self.warm(id)["median_us"]

    def tflops(self, id: str) -> float:
        """2 MNK of the ladder's size over the median warm time."""
        return 2 * LADDER_N**3 / self.us(id) / 1e6

    def stalls(self, id: str) -> dict[str, float]:
        """Stalled warps an issue by reason, largest first; the issuing warp itself left out."""
        before, after = _STALL.split("{}")
        metrics = self.record(id)["profile"]["metrics"]
        found = {
            name.removeprefix(before).removesuffix(after): entry["value"]
            for name, entry in metrics.items()
            if name.startswith(before)
        }
        found.pop("selected", None)
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def per_cycle(self, id: str, count: float) -> float:
        """A count of the launch for each cycle of each SM."""
        return count / (self.value(id, "sm_cycles") * self.value(id, "sm_count"))

    def pattern(self, id: str) -> dict[str, int]:
        """What was measured of a one-warp access pattern."""
        with open(self.folder / "patterns.jsonl", encoding="utf-8") as lines:
            for line in lines:
                if f'"{id}"' in line and (row := json.loads(line))["id"] == id:
                    found: dict[str, int] = row["measured"]
                    return found
        raise InputError(f"there is no pattern {id}", where=str(self.folder / "patterns.jsonl"))

    def useful(self, kernel: str, stride: int) -> float:
        """Useful GB/s of the stride experiment."""
        for row in self.stride["rows"]:
            if (row["kernel"], row["stride_words"]) == (kernel, stride):
                return float(row["useful_GBps"])
        raise InputError(f"the stride experiment has no {kernel} at {stride}", where=str(self.folder))


# -- predictions ----------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _module(path: Path) -> Any:
    return load(path)


def predict(book: Book, ids: Iterable[str], jobs: int | None = None) -> dict[str, Any]:
    """Simulate recorded launches on the H200's device file; plain values by launch id."""
    out = {}
    for id in ids:
        record = book.record(id)
        kernel, launch = record["kernel"], record["launch"]
        result = simulate(
            _module(cubin_file(book.folder, kernel["cubin_sha256"]))[kernel["entry"]],
            launch["grid"],
            launch["block"],
            launch["args"],
            dynamic_shared=launch["dynamic_shared_bytes"],
            device=book.device,
            jobs=jobs,
        )
        out[id] = {
            "cubin_sha256": kernel["cubin_sha256"],
            "metrics": {short: result.metrics[name].value for short, name in METRICS.items()},
            "accesses": _accesses(result.instructions),
        }
    return out


def load_predictions(folder: Path = FOLDER) -> dict[str, Any]:
    path = folder / PREDICTIONS
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path),
                         hint="run python -m gpusim.validation.claims --simulate") from None  # fmt: skip
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise InputError(f"is not {SCHEMA}", where=str(path))
    kept: dict[str, Any] = data["predictions"]
    return kept


def write_predictions(predictions: Mapping[str, Any], folder: Path = FOLDER) -> None:
    rows = ",\n".join(f"  {json.dumps(id)}: {json.dumps(row)}" for id, row in predictions.items())
    what = "gpusim's predictions used by docs/claims.md; python -m gpusim.validation.claims --simulate"
    atomic_write(
        folder / PREDICTIONS,
        f'{{"schema": "{SCHEMA}", "what": {json.dumps(what)}, "predictions": {{\n{rows}\n}}}}\n',
    )

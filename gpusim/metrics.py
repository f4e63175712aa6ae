"""Metric names, units and definitions: how the profiler's counters are sums over instructions.

Each :class:`Definition` sums columns of the per-instruction table over the instructions of some classes
(hardware.md 11).  ``exact`` metrics must equal the profiler's; ``modelled`` ones carry an error band.
Names are Nsight Compute's, verbatim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpusim.memory.counters import Counter
from gpusim.memory.hierarchy_loop import Traffic


@dataclass(frozen=True, slots=True)
class Metric:
    """A predicted value: number, unit as the profiler prints it, and tier (exact or modelled)."""

    value: int | float
    unit: str
    tier: str


#: Opcode -> class of instruction, for the profiler's per-class counts.
CLASSES: Mapping[str, str] = {
    "LDS": "shared_ld", "STS": "shared_st", "ATOMS": "shared_atom", "LDSM": "ldsm", "STSM": "stsm",
    "LDG": "global_ld", "STG": "global_st", "RED": "global_red", "REDG": "global_red", "ATOMG": "global_atom",
    "LDL": "local_ld", "STL": "local_st", "LDGSTS": "ldgsts", "LD": "generic_ld", "ST": "generic_st",
    "ATOM": "generic_atom",
}

INST, THREADS = "inst_executed", "thread_inst_executed"


@dataclass(frozen=True, slots=True)
class Definition:
    """Sum of ``column`` over instructions whose class is in ``classes`` (all if empty)."""

    name: str
    unit: str
    column: str | Counter
    classes: tuple[str, ...] = ()
    tier: str = "exact"


GLOBAL = (
    "global_ld", "global_st", "global_red", "global_atom", "ldgsts", "generic_ld", "generic_st",
    "generic_atom",
)  # fmt: skip
SHARED = (
    "shared_ld", "shared_st", "shared_atom", "ldsm", "stsm", "ldgsts", "generic_ld", "generic_st",
    "generic_atom",
)  # fmt: skip

#: The profiler's op in a metric name -> classes it counts.
_GLOBAL_OPS: Mapping[str, tuple[str, ...]] = {
    "ld": ("global_ld", "ldgsts", "generic_ld"),
    "st": ("global_st", "generic_st"),
    "red": ("global_red",),
    "atom": ("global_atom", "generic_atom"),
}
_LOCAL_OPS: Mapping[str, tuple[str, ...]] = {
    "ld": ("local_ld", "generic_ld"),
    "st": ("local_st", "generic_st"),
}
_SHARED_OPS: Mapping[str, tuple[str, ...]] = {
    "ld": ("shared_ld", "generic_ld"),
    "st": ("shared_st", "generic_st"),
    "atom": ("shared_atom",),
    "ldsm": ("ldsm",),
    "stsm": ("stsm",),
    "ldgsts": ("ldgsts",),
}
_SOURCE_UNITS: Mapping[str, str] = {"inst_executed": "inst", "thread_inst_executed": "thread"}

#: Columns of the source page (per instruction and as launch totals), in report order.
SOURCE_COLUMNS: Mapping[str, tuple[str | Counter, tuple[str, ...]]] = {
    "inst_executed": (INST, ()),
    "thread_inst_executed": (THREADS, ()),
    "memory_l1_wavefronts_shared": (Counter.SHARED_WAVEFRONTS, SHARED),
    "memory_l1_wavefronts_shared_ideal": (Counter.SHARED_IDEAL_WAVEFRONTS, SHARED),
    "memory_l1_tag_requests_global": (Counter.LINES, GLOBAL),
    "memory_l2_theoretical_sectors_global": (Counter.THEORETICAL_SECTORS, GLOBAL),
    "memory_l2_theoretical_sectors_global_ideal": (Counter.IDEAL_SECTORS, GLOBAL),
}


def is_patched(name: str) -> bool:
    """Whether the profiler measures it on patched code: the source page's columns, and what says so."""
    return name in SOURCE_COLUMNS or "sass" in name or name.startswith("derived__")


def _definitions() -> tuple[Definition, ...]:
    out = [
        Definition("smsp__inst_executed.sum", "inst", INST),
        Definition("smsp__thread_inst_executed.sum", "thread", THREADS),
    ]

    def add(name: str, unit: str, column: str | Counter, *classes: str) -> None:
        out.append(Definition(name, unit, column, classes))

    for name in (
        "shared_ld", "shared_st", "shared_atom", "ldsm", "global_ld", "global_st", "global_red", "local_ld",
        "local_st", "ldgsts",
    ):  # fmt: skip
        add(f"smsp__inst_executed_op_{name}.sum", "inst", INST, name)
    for op, classes in _GLOBAL_OPS.items():
        place = f"pipe_lsu_mem_global_op_{op}.sum"
        add(f"l1tex__t_requests_{place}", "request", Counter.REQUESTS, *classes)
        add(f"l1tex__t_sectors_{place}", "sector", Counter.SECTORS, *classes)
    for op, classes in _LOCAL_OPS.items():
        place = f"pipe_lsu_mem_local_op_{op}.sum"
        add(f"l1tex__t_requests_{place}", "request", Counter.LOCAL_REQUESTS, *classes)
        add(f"l1tex__t_sectors_{place}", "sector", Counter.LOCAL_SECTORS, *classes)
    for op, classes in _SHARED_OPS.items():
        place = f"pipe_lsu_wavefronts_mem_shared_op_{op}.sum"
        add(f"smsp__sass_l1tex_data_{place}", "", Counter.SHARED_WAVEFRONTS, *classes)
    for name, (column, classes) in SOURCE_COLUMNS.items():
        unit = "sector" if "sectors" in name else _SOURCE_UNITS.get(name, "")
        add(name, unit, column, *classes)
    add("derived__memory_l1_wavefronts_shared_excessive", "", "excessive")
    return tuple(out)


DEFINITIONS = _definitions()


@dataclass(frozen=True, slots=True)
class TrafficDefinition:
    """``factor`` times the sum of a column of the hierarchy's counters over all instructions."""

    name: str
    unit: str
    column: Traffic
    factor: int = 1


SECTOR_BYTES = 32
#: What the hierarchy predicts of a launch (`gpusim.traffic`); all modelled.  `dram__bytes_write.sum` is not
#: kept by instruction.
TRAFFIC = (
    TrafficDefinition("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", "sector", Traffic.L1_HIT),
    TrafficDefinition(
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum", "sector", Traffic.LOCAL_HIT
    ),
    TrafficDefinition("l1tex__m_xbar2l1tex_read_sectors.sum", "sector", Traffic.TO_L1),
    TrafficDefinition("l1tex__m_l1tex2xbar_write_sectors.sum", "sector", Traffic.FROM_L1),
    TrafficDefinition("lts__t_sectors_srcunit_tex_op_read.sum", "sector", Traffic.L2_READ),
    TrafficDefinition("lts__t_sectors_srcunit_tex_op_write.sum", "sector", Traffic.L2_WRITE),
    TrafficDefinition("lts__t_sectors_srcunit_tex_lookup_hit.sum", "sector", Traffic.L2_HIT),
    TrafficDefinition("dram__bytes_read.sum", "byte", Traffic.DRAM_READ, SECTOR_BYTES),
)
DRAM_WRITE = "dram__bytes_write.sum"


def evaluate_traffic(counters: np.ndarray, dram_written: int, overhead_bytes: int) -> dict[str, Metric]:
    """Metrics of int64[n][Traffic].  dram_written: sectors; overhead_bytes: read beside the launch's data."""
    sums = counters.sum(axis=0)
    out = {d.name: Metric(int(sums[int(d.column)]) * d.factor, d.unit, "modelled") for d in TRAFFIC}
    read = out["dram__bytes_read.sum"]
    out["dram__bytes_read.sum"] = Metric(read.value + overhead_bytes, read.unit, read.tier)
    out[DRAM_WRITE] = Metric(dram_written * SECTOR_BYTES, "byte", "modelled")
    return out


def evaluate(classes: list[str], counts: np.ndarray, counters: np.ndarray) -> dict[str, int]:
    """Every definition over a launch.

    classes: of each instruction; counts: int64[n][4] (executions, lanes, and the same of replays);
    counters: int64[n][len(Counter)].
    """
    names = np.array(classes)
    out: dict[str, int] = {}
    for d in DEFINITIONS:
        if d.column == "excessive":
            out[d.name] = out["memory_l1_wavefronts_shared"] - out["memory_l1_wavefronts_shared_ideal"]
            continue
        if d.column in (INST, THREADS):
            k = (INST, THREADS).index(str(d.column))
            # smsp__ counters see every issue, the source page only the first of an instruction
            column = counts[:, k] + (counts[:, 2 + k] if d.name.startswith("smsp__") else 0)
        else:
            column = counters[:, int(d.column)]
        chosen = column if not d.classes else column[np.isin(names, d.classes)]
        out[d.name] = int(chosen.sum())
    return out

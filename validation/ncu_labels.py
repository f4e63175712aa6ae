"""Nsight Compute's labels and the raw names of the metrics behind them.

Taken from the section files that come with Nsight Compute 2022 to 2026.  A label that means different
metrics in different sections is listed with its section; what is not listed is not compared.
"""

from __future__ import annotations

from collections.abc import Mapping

_ANYWHERE = {
    "Registers Per Thread": "launch__registers_per_thread",
    "Block Size": "launch__block_size",
    "Grid Size": "launch__grid_size",
    "Threads": "launch__thread_count",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "Shared Memory Configuration Size": "launch__shared_mem_config_size",
    "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Shared Memory Per Block": "launch__shared_mem_per_block",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Block Limit Barriers": "launch__occupancy_limit_barriers",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
    "Executed Instructions": "smsp__inst_executed.sum",
    "Issued Instructions": "smsp__inst_issued.sum",
    "Avg. Executed Instructions Per Scheduler": "smsp__inst_executed.avg",
    "Avg. Issued Instructions Per Scheduler": "smsp__inst_issued.avg",
    "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
    "Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
    "Issued Ipc Active": "sm__inst_issued.avg.per_cycle_active",
    "Duration": "gpu__time_duration.sum",
    "SM Active Cycles": "sm__cycles_active.avg",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
}
_BY_SECTION = {
    ("GPU Speed Of Light Throughput", "Memory Throughput"):
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    ("GPU Speed Of Light Throughput", "DRAM Throughput"):
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    ("Memory Workload Analysis", "Memory Throughput"): "dram__bytes.sum.per_second",
}  # fmt: skip

#: (section or empty, label), both in lower case -> raw name, for the details page.
DETAILS: Mapping[tuple[str, str], str] = {
    **{("", label.lower()): name for label, name in _ANYWHERE.items()},
    **{(section.lower(), label.lower()): name for (section, label), name in _BY_SECTION.items()},
}

#: Label of a source-page column, in lower case and without a leading # -> raw name.
SOURCE: Mapping[str, str] = {
    "instructions executed": "inst_executed",
    "inst executed": "inst_executed",
    "thread instructions executed": "thread_inst_executed",
    "predicated-on thread instructions executed": "thread_inst_executed_true",
    "l1 tag requests global": "memory_l1_tag_requests_global",
    "l1 wavefronts shared": "memory_l1_wavefronts_shared",
    "l1 wavefronts shared ideal": "memory_l1_wavefronts_shared_ideal",
    "l1 wavefronts shared excessive": "derived__memory_l1_wavefronts_shared_excessive",
    "l2 theoretical sectors global": "memory_l2_theoretical_sectors_global",
    "l2 theoretical sectors global ideal": "memory_l2_theoretical_sectors_global_ideal",
    "l2 theoretical sectors global excessive": "derived__memory_l2_theoretical_sectors_global_excessive",
    "l2 theoretical sectors local": "memory_l2_theoretical_sectors_local",
}

"""What the profiler is asked for: a table of metric names by topic, verbatim as Nsight Compute spells them.

``FULL`` is asked of most launches; ``SHORT`` of those over ``SLOW_MS``, whose every pass costs its whole run
time, and of those under ``FAST_US``, whose stalls and pipes tell little.  Names that the installed profiler
does not know for the GPU at hand are dropped with a note.  The source page's columns are asked for by name:
the section SourceCounters brings them too, but samples the program counter in passes of its own.
"""

from __future__ import annotations

from gpusim.metrics import DEFINITIONS

#: Kernels slower than this (warm, milliseconds) are profiled with the short list.
SLOW_MS = 50.0
#: And so are kernels faster than this (warm, microseconds).
FAST_US = 5.0

#: The exact tier: what the simulator counts by execution.  Names without a unit are source-page columns.
EXACT = tuple(d.name for d in DEFINITIONS if "__" in d.name and not d.name.startswith("derived__"))

TIME = (
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.max",
    "sm__cycles_active.avg",
    "smsp__cycles_active.avg",
    "smsp__cycles_active.sum",
    "sm__cycles_elapsed.avg.per_second",
    "lts__cycles_elapsed.avg.per_second",
    "dram__cycles_elapsed.avg.per_second",
)

DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum", "dram__sectors_read.sum", "dram__sectors_write.sum")

L1_HITS = tuple(
    f"l1tex__t_sectors_pipe_lsu_mem_{space}_op_{op}_lookup_hit.sum"
    for space, ops in (("global", ("ld", "st", "red", "atom")), ("local", ("ld", "st")))
    for op in ops
)

L1 = (
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__m_l1tex2xbar_write_sectors.sum",
    "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
)

L2_SHORT = (
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum",
    "lts__t_sectors_srcunit_tex_lookup_hit.sum",
)

L2 = (
    "lts__t_sectors.sum",
    "lts__t_sectors_op_red.sum",
    "lts__t_sectors_op_atom.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "lts__t_sectors_srcunit_tex_op_red.sum",
    "lts__t_sectors_srcunit_tex_op_atom.sum",
    "lts__t_sectors_srcunit_tex_lookup_miss.sum",
    "lts__t_requests_srcunit_tex.sum",
)

#: Instructions by execution pipe, of the whole SM.
_PIPES = (
    "adu", "alu", "cbu", "fma", "fma_type_fp16", "fmaheavy", "fmalite", "fp16", "fp64", "lsu", "tensor",
    "tensor_op_dmma", "tensor_op_gmma", "tensor_op_hmma", "tensor_op_imma", "tex", "uniform", "xu",
)  # fmt: skip
PIPES = tuple(f"sm__inst_executed_pipe_{pipe}.sum" for pipe in _PIPES)

#: Warps and what they wait for.
ISSUE = (
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__issue_active.sum",
    "smsp__inst_issued.sum",
    "smsp__warps_eligible.sum",
)

_STALLS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected",
    "short_scoreboard", "sleeping", "tex_throttle", "wait",
)  # fmt: skip
STALLS = tuple(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in _STALLS)

#: What the driver chose for the launch: asked for by name, because not every section brings all of them.
LAUNCH = (
    "launch__barrier_count",
    "launch__block_size",
    "launch__grid_size",
    "launch__occupancy_limit_barriers",
    "launch__occupancy_limit_blocks",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
    "launch__registers_per_thread",
    "launch__registers_per_thread_allocated",
    "launch__shared_mem_config_size",
    "launch__shared_mem_per_block",
    "launch__shared_mem_per_block_allocated",
    "launch__shared_mem_per_block_driver",
    "launch__shared_mem_per_block_dynamic",
    "launch__shared_mem_per_block_static",
    "launch__sm_count",
    "launch__stack_size",
    "launch__thread_count",
    "launch__waves_per_multiprocessor",
    "sm__maximum_warps_per_active_cycle_pct",
)


def _once(*topics: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for topic in topics for name in topic))


#: Columns of the source page that a record keeps; what the page lacks stays absent.
SOURCE_COLUMNS = (
    "inst_executed",
    "thread_inst_executed",
    "thread_inst_executed_true",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "memory_l1_tag_requests_global",
    "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
    "memory_l2_theoretical_sectors_local",
)


FULL = _once(EXACT, SOURCE_COLUMNS, LAUNCH, TIME, DRAM, L1_HITS, L1, L2_SHORT, L2, PIPES, ISSUE, STALLS)
SHORT = _once(EXACT, SOURCE_COLUMNS, LAUNCH, TIME, DRAM, L1_HITS, L1[:2], L2_SHORT)
LISTS = {"full": FULL, "short": SHORT}


def is_kept(name: str) -> bool:
    """Whether a record keeps a metric of the raw page: asked for, ``launch__*``, or a source-page total.

    Left out: the device's attributes, the same for every launch, and samples of the program counter.
    """
    return name in FULL or name.startswith(("launch__", "derived__memory")) or "__" not in name

"""What L1 does with stores, cache hints and loads past it: ``policies.cu`` under the profiler.

``COMMAND`` launches every kernel (64 CTAs of one warp); ``python -m gpusim.validation.microbench.policies
RAW.csv PROFILER`` makes the record of the profiler's raw page.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_suffix(".cu")
METRICS = (
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__m_l1tex2xbar_write_sectors.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum",
    "lts__t_sectors_srcunit_tex_op_atom.sum",
    "lts__t_sectors_srcunit_tex_op_red.sum",
    "lts__t_sectors_srcunit_tex_lookup_hit.sum",
)
COMMAND = (
    f"ncu --clock-control none --cache-control all --metrics {','.join(METRICS)} --page raw --csv "
    "python -m validation.microbench.policies"
)
RECORD = Path(__file__).parents[1] / "measurements" / "h200" / "policies.json"


def names() -> list[str]:
    """Kernels of the source."""
    return re.findall(r"__global__ void (\w+)\(", SOURCE.read_text(encoding="utf-8"))


def launch() -> None:
    """Launch every kernel once, on fresh data."""
    import cupy as cp

    module = cp.RawModule(code=SOURCE.read_text(encoding="utf-8"))
    for name in names():
        x, out = cp.ones(64 * 32, cp.int32), cp.zeros(64 * 32, cp.int32)
        module.get_function(name)((64,), (32,), (x, out))
    cp.cuda.Device().synchronize()


def record(raw: Path, profiler: str) -> dict[str, Any]:
    """The profiler's rows by kernel."""
    from gpusim.validation.ncu_export import read_raw  # not where the kernels run

    rows = {row.name.partition("(")[0]: row for row in read_raw(raw)}
    launches = {n: {m: rows[n].metrics[m].number for m in METRICS} for n in names()}
    return {"schema": "gpusim.policies/1", "profiler": profiler, "command": COMMAND, "launches": launches}


if __name__ == "__main__":
    if len(sys.argv) == 3:
        text = json.dumps(record(Path(sys.argv[1]), sys.argv[2]), indent=1)
        RECORD.write_text(text + "\n", encoding="utf-8")
    else:
        launch()

"""What L1 does with stores, cache hints and loads past it: ``policies.cu`` under the profiler.

``ncu COMMAND python -m validation.microbench.policies`` launches every kernel (64 CTAs of one warp); the
record is measurements/h200/policies.json.
"""

from __future__ import annotations

import re
from pathlib import Path

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
COMMAND = f"--clock-control none --cache-control all --metrics {','.join(METRICS)} --page raw --csv"


def main() -> None:
    """Launch every kernel once, on fresh data."""
    import cupy as cp

    text = SOURCE.read_text()
    module = cp.RawModule(code=text)
    for name in re.findall(r"__global__ void (\w+)\(", text):
        x, out = cp.ones(64 * 32, cp.int32), cp.zeros(64 * 32, cp.int32)
        module.get_function(name)((64,), (32,), (x, out))
    cp.cuda.Device().synchronize()


if __name__ == "__main__":
    main()

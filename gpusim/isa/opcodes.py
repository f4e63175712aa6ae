"""THE opcode table: importing this module fills it from the row modules.

``TABLE.rows`` maps opcode names to rows; :func:`gpusim.isa.table.bind` matches an instruction to its row.
Adding an opcode is adding one decorated function to the ``rows_*`` module of its family, and its numpy
reference to ``reference``.
"""

from __future__ import annotations

from gpusim.isa import (
    rows_control,
    rows_convert,
    rows_float,
    rows_half,
    rows_integer,
    rows_memory,
    rows_mufu,
    rows_tensor,
    rows_warp,
)
from gpusim.isa.table import TABLE, Bound, Row, bind

__all__ = ["FAMILIES", "TABLE", "Bound", "Row", "bind"]

FAMILIES = {
    "integer, logic, moves": rows_integer,
    "fp32, fp64": rows_float,
    "conversions": rows_convert,
    "multi-function unit": rows_mufu,
    "packed halves": rows_half,
    "warp and special registers": rows_warp,
    "memory": rows_memory,
    "tensor core": rows_tensor,
    "control": rows_control,
}

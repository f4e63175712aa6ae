"""The report as JSON, format ``gpusim.report/1``.

One object a launch, keys in a fixed order, so that the same input gives the same bytes whatever the
number of cores.  Integers stay integers; a number that does not exist (no access, no bound) is ``null``,
never NaN.  ``time`` is absent until gpusim predicts it, and ``not_modelled`` says so.

Format history: 1, the first one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gpusim.simulate import SimResult

SCHEMA = "gpusim.report/1"

#: First keys of every row of ``instructions``; counters follow in the order the simulator gives them.
ROW_KEYS = ("pc", "sass", "file", "line")


def report_dict(result: SimResult, id: str | None = None) -> dict[str, Any]:
    """The report of one launch as plain Python values, ready for :func:`json.dumps`."""
    kernel, launch, coverage = result.kernel, result.launch, result.coverage
    report = {
        "schema": SCHEMA,
        "prediction": True,
        "id": id,
        "kernel": {
            "name": kernel.name,
            "arch": kernel.arch,
            "cubin_sha256": kernel.cubin_sha256,
            "registers_per_thread": kernel.registers_per_thread,
            "static_shared_bytes": kernel.static_shared_bytes,
            "frame_bytes": kernel.frame_bytes,
            "spill_bytes": kernel.spill_bytes,
        },
        "launch": {
            "grid": list(launch.grid),
            "block": list(launch.block),
            "dynamic_shared_bytes": launch.dynamic_shared_bytes,
            "args": [_argument(argument) for argument in launch.args],
        },
        "device": {"name": result.device.name, "assumed": sorted(result.device.assumed())},
        "coverage": {
            "ctas_total": coverage.ctas_total,
            "ctas_executed": coverage.ctas_executed,
            "sampled": coverage.sampled,
            "note": coverage.note,
        },
        "occupancy": result.occupancy,
        "metrics": {
            name: {"value": metric.value, "unit": metric.unit, "tier": metric.tier}
            for name, metric in sorted(result.metrics.items())
        },
        "instructions": [_row(row) for row in result.instructions],
        "not_modelled": [{"what": gap["what"], "why": gap["why"]} for gap in result.not_modelled],
    }
    plain: dict[str, Any] = _plain(report)
    return plain


def report_line(result: SimResult, id: str | None = None) -> str:
    """The report as one line of JSON lines, newline included."""
    return json.dumps(report_dict(result, id), allow_nan=False, separators=(",", ":")) + "\n"


def report_text(result: SimResult, id: str | None = None) -> str:
    """The report as an indented JSON file."""
    return json.dumps(report_dict(result, id), allow_nan=False, indent=1) + "\n"


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    first = {key: row.get(key) for key in ROW_KEYS}
    return first | {key: value for key, value in row.items() if key not in first}


def _argument(argument: Any) -> dict[str, Any]:
    """An argument by kind and size; the data of an array is not part of a report."""
    if isinstance(argument, Mapping):
        return dict(argument)
    if isinstance(argument, np.ndarray):
        return {"kind": "array", "dtype": str(argument.dtype), "n": argument.size}
    value = np.asarray(argument)
    return {"kind": "scalar", "dtype": str(value.dtype), "value": value.item()}


def _plain(value: Any) -> Any:
    """Only dict, list, str, int, float, bool and None, with numpy scalars unwrapped."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

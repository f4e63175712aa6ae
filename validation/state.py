"""What a measurement has finished: a JSON file a launch and step in the work folder, written atomically.

A step's file belongs to a launch's key (binary, shape, arguments): after a change it does not count.  So a
measurement that was interrupted goes on where it stopped, also after the folder was carried elsewhere.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpusim.output import atomic_write
from gpusim.validation.plan import Planned


class State:
    """The results of the steps ``run`` and ``profile``, in ``WORK/state``."""

    def __init__(self, work: Path) -> None:
        self.folder = work / "state"

    def _path(self, step: str, row: Planned) -> Path:
        return self.folder / step / f"{row.id.replace(':', '.')}.json"

    def get(self, step: str, row: Planned) -> dict[str, Any] | None:
        """The result of a step, or None if it was not done for this launch as it is now."""
        try:
            data = json.loads(self._path(step, row).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) and data.get("key") == row.key else None

    def done(self, step: str, row: Planned) -> bool:
        """Whether a step ended well; one that failed is tried again by the next measurement."""
        data = self.get(step, row)
        return data is not None and "error" not in data

    def put(self, step: str, row: Planned, data: dict[str, Any]) -> None:
        """Keep the result of a step; ``{"error": text}`` for one that failed."""
        path = self._path(step, row)
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, json.dumps({"key": row.key, **data}, separators=(",", ":")))

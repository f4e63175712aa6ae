"""What all tests share: the hypothesis profile and the folder of measured records."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# The same examples in every run, so that CI answers the same twice; hypothesis's own time limit would
# fail whichever test happens to compile a handler first.
settings.register_profile(
    "gpusim", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("gpusim")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def h200() -> Path:
    """Folder of the H200's records, the measured cases among them."""
    return ROOT / "validation" / "measurements" / "h200"

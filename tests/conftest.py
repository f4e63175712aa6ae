"""What all tests share: the hypothesis profile, and the measured data beside a project checkout.

``shared`` data (measurements, cases) lies beside the checkout on the project's own machines; tests that
need files the repository does not carry ask for :func:`shared_dir` and are skipped elsewhere.
"""

from __future__ import annotations

import os
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
def shared_dir() -> Path:
    """Folder of measured data beside the checkout (or $GPUSIM_SHARED)."""
    found = Path(os.environ.get("GPUSIM_SHARED", ROOT.parent / "shared"))
    if not (found / "cases" / "manifest.json").exists():
        pytest.skip(f"the measured cases are not on this machine ({found})")
    return found

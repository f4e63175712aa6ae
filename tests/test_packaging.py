"""What gets installed: both links, all sources and data, and nothing at the top level but ``gpusim``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from setuptools import find_packages

import gpusim

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["kernels", "validation"])
def test_links_are_links(name: str) -> None:
    link = ROOT / "gpusim" / name
    assert link.is_symlink() and os.readlink(link) == f"../{name}"


def test_every_folder_with_modules_is_a_package() -> None:
    for top in ("gpusim", "kernels", "validation"):
        for folder, _, files in os.walk(ROOT / top):
            if any(f.endswith(".py") for f in files):
                assert "__init__.py" in files, f"{folder} would not be installed: it has no __init__.py"


def test_find_packages_follows_the_links(project: dict) -> None:
    include = project["tool"]["setuptools"]["packages"]["find"]["include"]
    found = set(find_packages(str(ROOT), include=include))
    assert {"gpusim", "gpusim.kernels", "gpusim.validation", "gpusim.cli", "gpusim.memory"} <= found
    assert all(name == "gpusim" or name.startswith("gpusim.") for name in found)


def test_wheel_holds_everything(tmp_path: Path) -> None:
    """Build a wheel with the tools at hand and look inside."""
    build = (
        "import sys, os; from setuptools import build_meta; os.chdir(sys.argv[1]);"
        "print(build_meta.build_wheel(sys.argv[2]))"
    )
    source = tmp_path / "source"
    _copy_checkout(source)
    done = subprocess.run(
        [sys.executable, "-c", build, str(source), str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in inside}
    assert tops == {"gpusim", f"gpusim-{gpusim.__version__}.dist-info"}
    for top in ("gpusim", "kernels", "validation"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in {".py", ".toml", ".cu", ".cuh"} and path.is_file():
                name = str(path.relative_to(ROOT / top))
                wanted = f"gpusim/{name}" if top == "gpusim" else f"gpusim/{top}/{name}"
                assert wanted in inside, f"{wanted} is not in the wheel"
    assert "gpusim/py.typed" in inside


def _copy_checkout(target: Path) -> None:
    """The files a build needs, links kept: building in the checkout would leave build/ behind."""
    import shutil

    target.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target)
    for name in ("gpusim", "kernels", "validation"):
        shutil.copytree(
            ROOT / name, target / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )


def test_nvidia_wheels_are_asked_for_on_linux_and_windows_only(project: dict) -> None:
    for requirement in project["project"]["dependencies"]:
        if requirement.startswith(("cuda-", "nvidia-")):
            assert "sys_platform == 'linux' or sys_platform == 'win32'" in requirement, requirement


def test_imports_are_declared(project: dict) -> None:
    """Every third-party package that gpusim imports stands in the dependencies."""
    declared = {re.split(r"[<>=;\[ ]", item)[0].lower() for item in project["project"]["dependencies"]}
    distribution = {"elftools": "pyelftools", "cuda": "cuda-bindings", "PIL": "pillow"}
    optional = {"cupy"}  # measuring on a GPU: extras gpu and gpu13
    imported: set[str] = set()
    for top in ("gpusim", "kernels", "validation"):
        for path in (ROOT / top).rglob("*.py"):
            found = re.findall(r"^\s*(?:import|from) +([a-zA-Z_]\w*)", path.read_text(encoding="utf-8"), re.M)
            imported.update(found)
    third_party = imported - set(sys.stdlib_module_names) - {"gpusim"} - optional
    # Words of docstrings that happen to begin a line ("from the ...") are no modules.
    import importlib.util

    real = {name for name in third_party if importlib.util.find_spec(name) is not None}
    real -= {"kernels", "validation"}
    missing = {name for name in real if distribution.get(name, name).lower() not in declared}
    assert not missing, f"imported and not declared: {sorted(missing)}"


def test_changelog_knows_this_version() -> None:
    assert f"## {gpusim.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

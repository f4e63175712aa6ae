"""The documents are true: names exist, commands print what is shown, examples run.

README.md: every ``$ gpusim ...`` line of a ``console`` block is run, and the lines shown under it must
appear in the output, in order (``...`` stands for lines left out); every ``python`` block is executed, and
prints what its ``# prints`` comments say.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gpusim.cli.reference import devices_page, opcodes_page

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILE_ENDINGS = (".py", ".md", ".cu", ".toml", ".json", ".jsonl", ".h")


def blocks(name: str, language: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def commands(block: str) -> list[tuple[str, list[str]]]:
    """(command, lines shown) of a console block."""
    parts = re.split(r"^\$ ", block, flags=re.M)[1:]
    return [(part.splitlines()[0], part.splitlines()[1:]) for part in parts]


def run(*words: str) -> str:
    environment = os.environ | {"COLUMNS": "100"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def dotted_names() -> list[str]:
    """Names like ``isa.table.bind`` in backticks: they are meant below ``gpusim``."""
    found = re.findall(r"`([a-z_]+(?:\.\w+)+)`", ARCHITECTURE)
    return sorted({name.removeprefix("gpusim.") for name in found if not name.endswith(FILE_ENDINGS)})


def test_the_journey_is_told() -> None:
    assert {"isa.table.bind", "isa.rows_memory.lds", "memory.counters.count_events"} <= set(dotted_names())


@pytest.mark.parametrize("name", dotted_names())
def test_names_in_the_architecture_exist(name: str) -> None:
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(("gpusim", *parts[:split])))
        except ModuleNotFoundError:
            continue
        for attribute in parts[split:]:
            found = getattr(found, attribute)
        return
    pytest.fail(f"no module gpusim.{parts[0]}")


@pytest.mark.parametrize("page", ["architecture.md", "model.md"])
def test_files_named_in_the_documents_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for path in re.findall(r"`((?:gpusim|kernels|tests|examples|docs|validation)/[\w/.]*)`", text):
        assert (ROOT / path).exists(), path


def test_every_module_has_a_place_on_the_map() -> None:
    shown = ARCHITECTURE[ARCHITECTURE.index("## Map") :].split("```")[1]
    for path in (ROOT / "gpusim").glob("[!_]*"):
        if path.name != "py.typed" and not path.name.endswith(".egg-info"):
            assert re.search(rf"\b{path.stem}\b", shown), f"{path.name} is not on the map"


def test_opcode_page_is_fresh() -> None:
    assert (ROOT / "docs" / "opcodes.md").read_text(encoding="utf-8") == opcodes_page(), "run `make docs`"


def test_devices_page_is_fresh() -> None:
    assert (ROOT / "docs" / "devices.md").read_text(encoding="utf-8") == devices_page(), "run `make docs`"


README_COMMANDS = [c for block in blocks("README.md", "console") for c in commands(block)]


def test_readme_has_a_tour() -> None:
    assert len(README_COMMANDS) >= 4 and blocks("README.md", "python")


@pytest.mark.parametrize(("command", "shown"), README_COMMANDS, ids=[c for c, _ in README_COMMANDS])
def test_readme_shows_what_the_command_prints(command: str, shown: list[str]) -> None:
    program, *words = shlex.split(command)
    assert program == "gpusim"
    # words, not columns: a longer name elsewhere in a table moves them
    left = (line.split() for line in run(sys.executable, "-m", "gpusim", *words).splitlines())
    for line in shown:
        if line.strip() not in ("", "..."):
            assert line.split() in left, f"not printed, or not in this order: {line!r}"


@pytest.mark.parametrize("code", blocks("README.md", "python"))
def test_readme_code_runs(code: str) -> None:
    assert run(sys.executable, "-c", code).split() == re.findall(r"# prints (.*)", code)

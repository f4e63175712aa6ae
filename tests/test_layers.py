"""The layers of docs/architecture.md, enforced: a module imports its own layer or lower ones.

Imports are read from the syntax tree, those inside functions too: a late import is still a
dependency.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

from gpusim import compiled

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gpusim"

#: Lowest first. A name stands for the module or for everything in the package of that name.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "events", "output", "launch", "device", "device_check"),
    ("cubin", "compiled", "isa", "memory", "metrics", "occupancy"),
    ("program",),
    ("functional",),
    ("traffic", "simulate"),
    ("report", "access", "access_picture", "expression"),
    ("kernels",),
    ("validation",),
    ("doctor", "cli", "__main__"),
)
LAYER = {name: level for level, names in enumerate(LAYERS) for name in names}

#: Upward imports that are meant: (from, to) -> why.
MEANT = {
    ("simulate", "report"): "SimResult.to_json() and the like are conveniences that import when called",
}

#: The package's own module holds public names only and imports them when they are used.
PUBLIC_NAMES = "__init__"


def modules() -> list[Path]:
    """Every module of the package; Path.rglob does not follow the links to kernels and validation."""
    own = [
        p for p in PACKAGE.rglob("*.py") if not {"kernels", "validation"} & set(p.relative_to(PACKAGE).parts)
    ]
    linked = [PACKAGE / name / p.relative_to(ROOT / name) for name in ("kernels", "validation")
              for p in (ROOT / name).rglob("*.py")]  # fmt: skip
    return sorted(own + linked)


def dotted(path: Path) -> str:
    """``gpusim/memory/shared.py`` as ``memory.shared``; a package's ``__init__`` as the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imports(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line, dotted name below gpusim, inside a function or for types alone) of every import of gpusim."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    blocks = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.If))]
    late = {id(child) for block in blocks for child in ast.walk(block)}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:  # `from .spec import x` in gpusim.kernels.rows_first is gpusim.kernels.spec
                package = path.relative_to(PACKAGE).parts[: -node.level]
                module = ".".join(("gpusim", *package, *filter(None, [module])))
            names = [f"gpusim.{alias.name}" for alias in node.names] if module == "gpusim" else [module]
        for name in names:
            if name.startswith("gpusim."):
                yield node.lineno, name.removeprefix("gpusim."), id(node) in late


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_module_imports_only_its_layer_or_lower(path: Path) -> None:
    name = dotted(path)
    if name == PUBLIC_NAMES:
        return
    top = name.split(".")[0]
    assert top in LAYER, f"{name} has no layer: add it to LAYERS and to docs/architecture.md"
    for line, target, _ in imports(path):
        other = target.split(".")[0]
        if other.startswith("__version") or (top, other) in MEANT:
            continue
        assert other in LAYER, (
            f"{path}:{line} imports gpusim.{target}, a public name: import it from its module"
        )
        assert LAYER[other] <= LAYER[top], (
            f"{path}:{line}: {name} is below gpusim.{target} and must not import it"
        )


def test_meant_upward_imports_are_late() -> None:
    for path in modules():
        top = dotted(path).split(".")[0]
        for line, target, late in imports(path):
            if (top, target.split(".")[0]) in MEANT:
                assert late, f"{path}:{line}: import gpusim.{target} where it is used"


def test_no_import_cycles() -> None:
    known = {dotted(path) for path in modules()}
    graph = nx.DiGraph()
    for path in modules():
        for _, target, late in imports(path):
            if late:
                continue
            while target and target not in known:  # `from gpusim.isa import opcodes` names a package
                target = target.rpartition(".")[0]
            if target and target != dotted(path):
                graph.add_edge(dotted(path), target)
    cycles = list(nx.simple_cycles(graph))
    assert not cycles, f"modules import each other: {cycles}"


def test_no_module_is_longer_than_a_reader() -> None:
    """500 lines, unless the module is a table: rows of opcodes or kernels, or one that says so up front."""
    long = []
    for path in modules():
        text = path.read_text(encoding="utf-8")
        summary = (ast.get_docstring(ast.parse(text)) or "").split("\n")[0].lower()
        is_table = "table" in summary or path.name.startswith("rows_")
        if text.count("\n") > 500 and not is_table:
            long.append(f"{dotted(path)}: {text.count(chr(10))} lines")
    assert not long, f"split these: {long}"


def test_every_module_says_what_it_is() -> None:
    silent = [dotted(p) for p in modules() if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))]
    assert not silent, f"modules without a docstring: {silent}"


def test_the_cache_of_compiled_code_knows_every_source() -> None:
    """Modules with compiled functions, and those they import: old machine code must not outlive an edit."""
    known = {path for pattern in compiled._SOURCES for path in PACKAGE.glob(pattern)}
    users = {path for path in modules() if "\n@compiled" in path.read_text(encoding="utf-8")}
    used = {PACKAGE / f"{name.replace('.', '/')}.py" for path in users for _, name, _ in imports(path)}
    assert len(users) >= 6
    assert {path for path in users | used if path.is_file()} <= known

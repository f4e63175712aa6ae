"""The catalog as a Markdown table, and its place in README.md.

The table is generated, never written by hand: one row a kernel, from the fields of the row itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpusim.errors import InputError
from gpusim.kernels.spec import CATALOG_DIR, CatalogKernel, Dim3, Size, all_kernels

README = CATALOG_DIR / "README.md"
BEGIN, END = "<!-- catalog: begin (python -m gpusim.kernels --write) -->", "<!-- catalog: end -->"

_HEADINGS = ("id", "kernel", "source, entry", "block", "sizes", "compared with the oracle", "claims")


def _dim3(dims: Dim3) -> str:
    used = dims if dims[2] > 1 else dims[:2] if dims[1] > 1 else dims[:1]
    return "x".join(str(d) for d in used)


def _size(size: Size) -> str:
    shape = " ".join(f"{key}={value}" for key, value in size.items() if key != "name")
    if {"M", "N", "K"} <= size.keys():
        rest = "".join(f" {key}={value}" for key, value in size.items() if key not in {"name", "M", "N", "K"})
        shape = f"{size['M']}x{size['N']}x{size['K']}{rest}"
    return f"{size['name']} {shape}"


def _cells(kernel: CatalogKernel) -> tuple[str, ...]:
    options = f" `{' '.join(kernel.options)}`" if kernel.options else ""
    also_exact = kernel.exact is not None and kernel.tolerance.kind != "exact"
    return (
        kernel.id,
        kernel.title,
        f"[{kernel.file.removeprefix('cuda/')}]({kernel.file}) `{kernel.entry}`{options}",
        _dim3(kernel.launch(kernel.tiny).block),
        "; ".join(_size(size) for size in kernel.sizes),
        f"{kernel.tolerance}{'; tiny sizes bit for bit' if also_exact else ''}",
        "; ".join(f"{number}: {text}" for number, text in kernel.claims),
    )


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def markdown_table() -> str:
    """One line a kernel, in catalog order."""
    lines = [_line(_HEADINGS), _line("---" for _ in _HEADINGS)]
    lines.extend(_line(_cells(kernel)) for kernel in all_kernels())
    return "\n".join(lines)


def readme_with_table(readme: str) -> str:
    """``readme`` with the table between its markers renewed."""
    head, begin, rest = readme.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise InputError(
            "the markers of the catalog table are missing", where=str(README), hint=f"{BEGIN} … {END}"
        )
    return f"{head}{BEGIN}\n{markdown_table()}\n{END}{tail}"

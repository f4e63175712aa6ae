"""The launches that are run both here and on a real GPU, as manifest rows with the cubin they use.

``bundle`` writes a folder a GPU machine can run with nothing but numpy and CuPy: cubins, inputs and
``launches.json``.  The same rows are simulated here, so both sides see the same binary and the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpusim import kernels, program
from gpusim.launch import load_manifest

HERE = Path(__file__).resolve().parent
CASES = HERE / "measurements" / "h200" / "cases"
PROBES = HERE / "microbench" / "probes.cu"
PROBE_N = 65_536

SPECIAL32 = [
    0,
    0x80000000,
    1,
    0x80000001,
    0x007FFFFF,
    0x807FFFFF,
    0x00800000,
    0x80800000,
    0x3F800000,
    0xBF800000,
    0x3F7FFFFF,
    0x3F800001,
    0x7F7FFFFF,
    0xFF7FFFFF,
    0x7F800000,
    0xFF800000,
    0x7FC00000,
    0xFFC00000,
    0x7F800001,
    0xFFFFFFFF,
    0x4F000000,
    0xCF000000,
    0x4EFFFFFF,
    0x4F800000,
    0x5F000000,
    0xDF000000,
    0x3F000000,
    0x40000000,
    0x34000000,
    0x33800000,
    0x47800000,
    0x38800000,
    0x387FC000,
    0x33000000,
    0x477FE000,
    0x477FF000,
]
SPECIAL64 = [
    0,
    1 << 63,
    1,
    (1 << 52) - 1,
    1 << 52,
    0x3FF0000000000000,
    0xBFF0000000000000,
    0x7FEFFFFFFFFFFFFF,
    0x7FF0000000000000,
    0xFFF0000000000000,
    0x7FF8000000000000,
    0xFFF8000000000001,
    0x7FF0000000000001,
    0x41DFFFFFFFC00000,
    0x41E0000000000000,
    0xC1E0000000000000,
    0x43E0000000000000,
    0x3FE0000000000000,
    0x47EFFFFFE0000000,
    0x47EFFFFFF0000000,
    0x36A0000000000000,
    0x3810000000000000,
]


@dataclass(frozen=True, slots=True)
class Row:
    """One launch: manifest fields, the cubin, and how it was compiled (for rebuilding it)."""

    id: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int
    args: tuple[dict[str, Any], ...]
    module: program.Module
    heavy: bool = False


def catalog_rows(arch: str, sizes: int = 3) -> Iterator[Row]:
    """Every catalog kernel at its sizes but the large one."""
    for row in kernels.all_kernels():
        module = program.compile(row.path, arch=arch, options=row.options, include_dirs=(row.path.parent,))
        for size in row.sizes[:sizes]:
            spec = row.launch(size)
            if size["name"] == "large":
                continue
            yield Row(
                f"{row.id}:{size['name']}",
                module[row.entry].name,
                spec.grid,
                spec.block,
                spec.dynamic_shared,
                tuple(dict(a) for a in spec.args),
                module,
            )


def case_rows(folder: Path = CASES) -> Iterator[Row]:
    """The given cases, with the binaries that were measured."""
    for item in load_manifest(folder / "manifest.json"):
        module = program.load(folder / "cubins" / f"{Path(item.file).stem}.cubin")
        launch = item.launch
        yield Row(
            item.id,
            item.entry,
            launch.grid,
            launch.block,
            launch.dynamic_shared_bytes,
            tuple(launch.args),
            module,
            item.heavy,
        )


def bits32(slot: int, n: int = PROBE_N) -> np.ndarray:
    """uint32: special values crossed over the slots, values of moderate exponent, random bits."""
    rng = np.random.default_rng(1000 + slot)
    out = rng.integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32)
    count = len(SPECIAL32)
    index = np.arange(n // 2)
    out[: index.size] = np.array(SPECIAL32, np.uint32)[(index // count**slot) % count]
    moderate = slice(n // 2, n)
    values = rng.standard_normal(n - n // 2, np.float32) * np.exp2(rng.integers(-20, 21, n - n // 2)).astype(
        np.float32
    )
    out[moderate] = values.astype(np.float32).view(np.uint32)
    return out


def bits64(slot: int, n: int = PROBE_N) -> np.ndarray:
    """As :func:`bits32`, for fp64."""
    rng = np.random.default_rng(2000 + slot)
    out = rng.integers(0, 1 << 64, n, dtype=np.uint64)
    count = len(SPECIAL64)
    index = np.arange(n // 2)
    out[: index.size] = np.array(SPECIAL64, np.uint64)[(index // count**slot) % count]
    values = rng.standard_normal(n - n // 2) * np.exp2(rng.integers(-40, 41, n - n // 2).astype(np.float64))
    out[n // 2 :] = values.view(np.uint64)
    return out


def bits_half(slot: int, bf16: bool, n: int) -> np.ndarray:
    """Packed pairs: random bits in the first half, values around 1 in the second."""
    rng = np.random.default_rng(3000 + slot + 10 * bf16)
    out = rng.integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32)
    values = rng.standard_normal(2 * (n - n // 2)).astype(np.float32)
    if bf16:
        halves = (values.view(np.uint32) >> 16).astype(np.uint16)
    else:
        halves = values.astype(np.float16).view(np.uint16)
    out[n // 2 :] = halves.view(np.uint32)
    return out


def _matrix_inputs(name: str, slot: int, words: int) -> np.ndarray:
    """Fragments: eight regimes in turn, from well-scaled values to random bits."""
    rng = np.random.default_rng(4000 + slot)
    if name.startswith(("s8", "u8")):
        return rng.integers(0, 1 << 32, words, dtype=np.uint64).astype(np.uint32)
    n = words * (1 if (slot == 2 and "acc" not in name) or name.startswith("tf32") else 2)
    values = rng.standard_normal(n).astype(np.float32)
    spread = np.repeat(np.array([0, 0, 2, 4, 6, 8, 10, 12]), -(-n // 8))[:n]
    values = values * np.exp2(rng.integers(-1 * spread, spread + 1)).astype(np.float32)
    if slot == 2 and "acc" not in name:
        return values.view(np.uint32)
    if name.startswith("tf32"):
        return values.view(np.uint32) & np.uint32(0xFFFFE000)
    if name.startswith("bf16"):
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)
    scaled = values if "acc" not in name else values * np.float32(0.25)
    return np.clip(scaled, -60000, 60000).astype(np.float16).view(np.uint16).view(np.uint32)


def probe_rows(arch: str, folder: Path) -> Iterator[Row]:
    """One launch a probe kernel; inputs are written to ``folder``."""
    module = program.compile(PROBES, arch=arch)
    grid, block = (PROBE_N // 256, 1, 1), (256, 1, 1)

    def file(name: str, data: np.ndarray) -> dict[str, Any]:
        path = folder / f"{name}.npy"
        if not path.exists():
            np.save(path, data)
        return {"kind": "array", "dtype": str(data.dtype), "n": int(data.size), "init": f"file:{path}"}

    def blank(dtype: str, n: int) -> dict[str, Any]:
        return {"kind": "array", "dtype": dtype, "n": n, "init": "zeros"}

    for name in sorted(module):
        kernel, short = module[name], name.removeprefix("p_")
        pointers = len(kernel.params)
        if short.startswith("mma_"):
            na, nb, nc = {"16816": (4, 2, 4), "1688": (4, 2, 4), "1684": (2, 1, 4), "16832": (4, 2, 4)}[
                short.split("_")[-1]
            ]
            if "u8" in short or short == "mma_f16_1688":
                na, nb = 2, 1
            if "acc" in short:
                nc = 2
            kind = short.removeprefix("mma_")
            n = PROBE_N
            args = [file(f"{short}_{k}", _matrix_inputs(kind, k, n * w)) for k, w in enumerate((na, nb, nc))]
            args.append(blank("uint32", n * nc))
        elif short == "dmma":
            args = [file(f"f64_{k}", bits64(k)) for k in (0, 1)] + [
                file("f64_wide", np.resize(bits64(2), 2 * PROBE_N))
            ]
            args.append(blank("uint64", 2 * PROBE_N))
        else:
            args = [_probe_arg(module, name, k, file) for k in range(pointers - 1)]
            args.append(blank("uint64", PROBE_N))
        yield Row(f"probe:{short}", name, grid, block, 0, tuple(args), module)


def _probe_arg(module: program.Module, name: str, slot: int, file: Any) -> dict[str, Any]:
    """Inputs by the width of the kernel's loads."""
    loads = [i for i in module[name].instructions if i.opcode == "LDG"]
    modifiers = set(loads[0].modifiers)
    if name.startswith(("p_h", "p_b")) and len(module[name].params) == 4:
        bf16 = name.startswith("p_b")
        return dict(file(f"{'bf16' if bf16 else 'f16'}_{slot}", bits_half(slot, bf16, PROBE_N)))
    if "64" in modifiers or name.endswith("64h"):
        return dict(file(f"f64_{slot}", bits64(slot)))
    if "U16" in modifiers:
        return dict(file("u16", np.arange(PROBE_N, dtype=np.uint32).astype(np.uint16)))
    return dict(file(f"f32_{slot}", bits32(slot)))


def code_sha256(module: program.Module, entry: str) -> str:
    """Of the kernel's machine code, which line tables and paths do not change."""
    section = module.elf.section(f".text.{entry}")
    assert section is not None
    return hashlib.sha256(section.data).hexdigest()


def write_bundle(rows: list[Row], folder: Path) -> None:
    """cubins and ``launches.json`` for the GPU machine (paths relative to the folder)."""
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for row in rows:
        digest = hashlib.sha256(row.module.cubin).hexdigest()[:16]
        path = folder / f"{digest}.cubin"
        if not path.exists():
            path.write_bytes(row.module.cubin)
        args = [
            {**a, "init": f"file:{Path(a['init'][5:]).name}"}
            if str(a.get("init", "")).startswith("file:")
            else a
            for a in row.args
        ]
        out.append(
            {
                "id": row.id,
                "cubin": path.name,
                "entry": row.entry,
                "grid": row.grid,
                "block": row.block,
                "dynamic_shared": row.dynamic_shared,
                "args": args,
                "heavy": row.heavy,
            }
        )
    (folder / "launches.json").write_text(json.dumps(out), encoding="utf-8")

"""What is measured: every launch with its binary, written to a folder that a GPU machine can run.

``DIR/plan.json`` holds a row a launch (:class:`Planned`), ``DIR/cubins/`` the binaries.  Inputs are not in
it: the manifest's INIT rules generate them where they are needed.  Three kinds of rows: ``catalog`` (compiled
here), ``case`` (the given cases with the binaries that were measured before) and ``reference`` (a library's
kernel that nobody predicts: A10, cuBLAS sgemm).

Units: ``dynamic_shared`` in bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gpusim.errors import InputError
from gpusim.output import atomic_write

HERE = Path(__file__).resolve().parent
CASES = HERE / "measurements" / "h200" / "cases"
HELPERS = HERE / "helpers.cu"
PLAN, SCHEMA = "plan.json", "gpusim.plan/1"

#: How the cases' binaries were made (README.md beside them).
CASES_COMPILER, CASES_OPTIONS = "nvcc 13.0", ("-O3", "-arch=sm_90", "-lineinfo")
CASES_ARCH = "sm_90"
#: What gpusim.cubin.compiler passes to every compilation, beside the folders of headers.
COMPILER_OPTIONS = ("-lineinfo", "--std=c++17")
#: A10: sizes M = N = K of the library's product.
REFERENCE_SIZES = (1024, 4096)

Progress = Callable[[int, int, str], None]


def silent(done: int, total: int, what: str) -> None:
    """No progress."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One launch to measure.

    size: the catalog's size (name and dimensions) or the reference's; cubin: file in ``cubins/``; source:
    its file name; options: of the compiler; large: takes minutes to simulate and up to seconds to run.
    """

    id: str
    kind: str
    kernel: str
    entry: str
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    dynamic_shared: int
    args: tuple[dict[str, Any], ...]
    size: dict[str, Any] = field(default_factory=dict)
    large: bool = False
    arch: str = ""
    compiler: str = ""
    options: tuple[str, ...] = ()
    source: str | None = None
    source_sha256: str | None = None
    cubin: str | None = None
    cubin_sha256: str | None = None

    @property
    def key(self) -> str:
        """Changes when anything changes that a measurement depends on."""
        parts = [self.cubin_sha256, self.entry, self.grid, self.block, self.dynamic_shared, self.args]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Plan:
    """A work folder's plan: rows by id, the architecture they are for, and the helpers' binary."""

    work: Path
    device_name: str
    arch: str
    helpers: str
    rows: Mapping[str, Planned]

    def cubin(self, row: Planned) -> Path:
        """The binary of a row."""
        assert row.cubin is not None  # references have no binary and are not asked
        return self.work / "cubins" / row.cubin


def all_ids(arch: str) -> list[str]:
    """Ids of everything that can be measured for an architecture, without compiling."""
    from gpusim import kernels
    from gpusim.launch import load_manifest

    ids = [f"{row.id}:{size['name']}" for row in kernels.all_kernels() for size in row.sizes]
    if arch == CASES_ARCH:
        ids += [item.id for item in load_manifest(CASES / "manifest.json")]
    return ids + [f"A10:{n}" for n in REFERENCE_SIZES]


def choose(ids: Iterable[str], only: Sequence[str] = (), sizes: Sequence[str] = ()) -> list[str]:
    """The ids that a glob of ``only`` matches (the id or its kernel) and whose size is in ``sizes``."""
    ids = list(ids)
    for glob in only:
        if not any(_matches(id, glob) for id in ids):
            raise InputError(f"no launch matches {glob!r}", where="--only", hint=f"ids are like {ids[0]}")
    known = {id.partition(":")[2] for id in ids}
    for size in sizes:
        if size not in known:
            raise InputError(f"no launch has the size {size!r}", where="--sizes", hint="as tiny,middle,large")
    return [
        id
        for id in ids
        if (not only or any(_matches(id, glob) for glob in only))
        and (not sizes or id.partition(":")[2] in sizes)
    ]


def _matches(id: str, glob: str) -> bool:
    return fnmatchcase(id, glob) or fnmatchcase(id.partition(":")[0], glob)


def prepare(
    work: Path, device_name: str, ids: Sequence[str] | None = None, progress: Progress = silent
) -> Plan:
    """Compile what ``ids`` name (everything if None); write ``plan.json`` and ``cubins/``.  Needs no GPU.

    Rows of an earlier plan in the folder that are not named stay.
    """
    from gpusim import program
    from gpusim.device import load_device

    arch = load_device(device_name).arch
    rows: dict[str, Planned] = {}
    if (work / PLAN).exists():
        old = load_plan(work)
        if old.arch != arch:
            raise InputError(
                f"the folder holds a plan for {old.arch}, not for {arch}",
                where=str(work),
                hint="give another --work folder, or the --device-name it was prepared with",
            )
        rows.update(old.rows)
    try:
        (work / "cubins").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder cannot be made: {error.strerror}", where=str(work)) from error
    compiler = _compiler_version()
    helpers = _write_cubin(work, program.compile(HELPERS, arch=arch).cubin)
    wanted = all_ids(arch) if ids is None else list(ids)
    for done, id in enumerate(wanted):
        progress(done, len(wanted), f"compiling {id}")
        rows[id] = _row(id, arch, work, compiler)
    plan = Plan(work, device_name, arch, helpers, rows)
    _write(plan)
    return plan


def _write(plan: Plan) -> None:
    head = {"schema": SCHEMA, "device_name": plan.device_name, "arch": plan.arch, "helpers": plan.helpers}
    rows = ",\n".join(json.dumps(asdict(row)) for row in plan.rows.values())
    atomic_write(plan.work / PLAN, f'{json.dumps(head)[:-1]}, "rows": [\n{rows}\n]}}\n')


def load_plan(work: Path) -> Plan:
    """The plan of a work folder."""
    path = work / PLAN
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("schema") != SCHEMA:
            raise InputError(
                f"is not a plan of this version ({SCHEMA})", where=str(path), hint="prepare it again"
            )
        rows = {}
        for item in data["rows"]:
            for name in ("grid", "block", "args", "options"):
                item[name] = tuple(item[name]) if item[name] is not None else None
            rows[item["id"]] = Planned(**item)
        return Plan(work, data["device_name"], data["arch"], data["helpers"], rows)
    except FileNotFoundError:
        raise InputError(
            "there is no plan in the folder", where=str(path), hint="gpusim validate --prepare --work DIR"
        ) from None
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"the plan cannot be read: {error}", where=str(path), hint="prepare it again"
        ) from None


def _row(id: str, arch: str, work: Path, compiler: str) -> Planned:
    kernel, _, size = id.partition(":")
    if kernel == "A10":
        return reference_row(int(size))
    from gpusim import kernels

    if any(row.id == kernel for row in kernels.all_kernels()):
        return _catalog_row(kernel, size, arch, work, compiler)
    return _case_row(id, work)


def _catalog_row(kernel: str, size_name: str, arch: str, work: Path, compiler: str) -> Planned:
    from gpusim import kernels, program

    row = kernels.get(kernel)
    size = row.size(size_name)
    spec = row.launch(size)
    module = program.compile(row.path, arch=arch, options=row.options, include_dirs=(row.path.parent,))
    return Planned(
        id=f"{kernel}:{size_name}",
        kind="catalog",
        kernel=kernel,
        entry=module[row.entry].name,
        grid=spec.grid,
        block=spec.block,
        dynamic_shared=spec.dynamic_shared,
        args=tuple(dict(arg) for arg in spec.args),
        size=dict(size),
        large=size_name == "large",
        arch=arch,
        compiler=compiler,
        options=(f"--gpu-architecture={arch}", *COMPILER_OPTIONS, *row.options),
        source=row.path.name,
        source_sha256=hashlib.sha256(row.path.read_bytes()).hexdigest(),
        cubin=_write_cubin(work, module.cubin),
        cubin_sha256=module.sha256,
    )


def _case_row(id: str, work: Path) -> Planned:
    from gpusim.launch import load_manifest

    item = next((item for item in load_manifest(CASES / "manifest.json") if item.id == id), None)
    if item is None:
        raise InputError(f"there is no launch {id!r}", hint="gpusim kernels lists the catalog")
    source = Path(item.file)
    cubin = (CASES / "cubins" / f"{source.stem}.cubin").read_bytes()
    launch = item.launch
    return Planned(
        id=id,
        kind="case",
        kernel=id.partition(":")[0],
        entry=item.entry,  # extern "C" in every case
        grid=launch.grid,
        block=launch.block,
        dynamic_shared=launch.dynamic_shared_bytes,
        args=tuple(dict(arg) for arg in launch.args),
        large=item.heavy,
        arch=CASES_ARCH,
        compiler=CASES_COMPILER,
        options=CASES_OPTIONS,
        source=source.name,
        source_sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
        cubin=_write_cubin(work, cubin),
        cubin_sha256=hashlib.sha256(cubin).hexdigest(),
    )


def reference_row(n: int) -> Planned:
    """A10: the library's fp32 product of n x n matrices (A, B, C by the INIT rules)."""

    def matrix(init: str) -> dict[str, Any]:
        return {"kind": "array", "dtype": "float32", "n": n * n, "init": init}

    args = (matrix("normal"), matrix("normal"), matrix("zeros"))
    return Planned(
        id=f"A10:{n}", kind="reference", kernel="A10", entry="", grid=None, block=None, dynamic_shared=0,
        args=args, size={"name": str(n), "n": n}, large=n > 2048,
    )  # fmt: skip


def _write_cubin(work: Path, cubin: bytes) -> str:
    name = f"{hashlib.sha256(cubin).hexdigest()[:16]}.cubin"
    path = work / "cubins" / name
    if not path.exists():
        atomic_write(path, cubin)
    return name


def _compiler_version() -> str:
    """``NVRTC 13.5.37``: the wheel's full version where NVRTC is a wheel, else what the library says."""
    import importlib.metadata

    from gpusim.cubin import toolchain
    from gpusim.cubin.compiler import Nvrtc

    nvrtc = Nvrtc.load()
    version = ".".join(map(str, nvrtc.version))
    place = toolchain.find_library("nvrtc")
    if place is not None and place.found_via == "pip wheel":
        for name in ("nvidia-cuda-nvrtc", f"nvidia-cuda-nvrtc-cu{nvrtc.version[0]}"):
            try:
                found = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
            if found.startswith(version):
                return f"NVRTC {found}"
    return f"NVRTC {version}"

"""GPU specifications as data: every number with its unit, its kind and its source.

A device is the sum of three TOML files under ``gpusim/devices``, later ones winning:
``cc/common.toml`` (true of every compute capability from 7.0), ``cc/<major>.<minor>.toml`` (limits of
one SM), ``<device>.toml`` (SM count, clocks, L2, DRAM).  A file has a ``title``, what it inherits
(``compute_capability`` or ``inherits``), optional ``aliases``, a ``[sources]`` table of citations and
tables of quantities, each ``{ value, unit, kind, source }`` with ``source`` a key of ``[sources]``.  The
path of a quantity is ``table.key``: ``spec.integer("sm.registers")``.

Kinds: ``datasheet`` (the vendor's documents and headers), ``paper`` (published by others, device
listings included), ``measured`` (by this project on that architecture), ``assumed`` (neither).
Units are spelled out in :data:`UNITS`; sizes of on-chip memories are bytes (``B``), carve-outs KiB,
DRAM capacity and bandwidth decimal (``GB``, ``GB/s``) as on datasheets.

Left out: a value without a source is absent, and asking for it is an :class:`InputError` that says so.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from gpusim.errors import InputError

KINDS = ("datasheet", "paper", "measured", "assumed")

#: Units a device file may use; a count carries the name of what it counts.
UNITS = frozenset({
    "B", "KiB", "GB", "GB/s", "B/cycle", "Gbit/s", "TFLOP/s", "MHz", "bit", "cycle", "ns",
    "SM", "sub-partition", "warp", "thread", "block", "register", "barrier", "lane",
    "bank", "bank group", "partition", "slice", "channel", "die", "name", "rule", "tick", "entry", "%", "way",
    "line", "request",
})  # fmt: skip

Value = int | float | str | tuple[int, ...]

#: Paths without which no model can run; :mod:`gpusim.device_check` reports a device that lacks one.
REQUIRED = (
    "sm.warp_threads", "sm.sub_partitions", "sm.warps", "sm.threads", "sm.blocks", "sm.registers",
    "sm.registers_per_block", "sm.registers_per_thread", "sm.register_unit", "sm.threads_per_block",
    "launch.block_max", "launch.grid_max",
    "shared.banks", "shared.bank_bytes", "shared.per_sm", "shared.per_block_optin",
    "shared.static_per_block", "shared.reserved_per_block", "shared.granule", "shared.carveouts",
    "l1.unified_bytes", "l1.line_bytes", "l1.sector_bytes", "l1.tag_banks",
    "l2.line_bytes", "l2.sector_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number (or name) of a device file; ``file`` is the file that states it."""

    path: str
    value: Value
    unit: str
    kind: str
    source: str
    file: str


@dataclass(frozen=True, eq=False)
class DeviceSpec:
    """A device, or one SM of a compute capability (``name`` is then ``sm_90`` and the like).

    Compared by identity: :func:`load_device` returns the same object for the same name.
    """

    name: str
    title: str
    compute_capability: str
    quantities: Mapping[str, Quantity]

    @property
    def arch(self) -> str:
        """Architecture name as the compiler takes it: ``sm_90`` for compute capability 9.0."""
        return "sm_" + self.compute_capability.replace(".", "")

    def has(self, path: str) -> bool:
        return path in self.quantities

    def quantity(self, path: str) -> Quantity:
        """The quantity at ``path``; an :class:`InputError` names what the device has instead."""
        try:
            return self.quantities[path]
        except KeyError:
            near = difflib.get_close_matches(path, self.quantities, n=3, cutoff=0.5)
            hint = f"close to it: {', '.join(near)}" if near else "`gpusim devices` lists what it has"
            what = f"the device '{self.name}' states no '{path}' (a value without a source is left out)"
            raise InputError(what, hint=hint) from None

    def value(self, path: str) -> Value:
        return self.quantity(path).value

    def integer(self, path: str) -> int:
        value = self.value(path)
        if not isinstance(value, int):
            raise self._type_error(path, "a whole number")
        return value

    def number(self, path: str) -> float:
        value = self.value(path)
        if not isinstance(value, (int, float)):
            raise self._type_error(path, "a number")
        return float(value)

    def text(self, path: str) -> str:
        value = self.value(path)
        if not isinstance(value, str):
            raise self._type_error(path, "a name")
        return value

    def integers(self, path: str) -> tuple[int, ...]:
        value = self.value(path)
        if not isinstance(value, tuple):
            raise self._type_error(path, "a list of whole numbers")
        return value

    def unit(self, path: str) -> str:
        return self.quantity(path).unit

    def kind(self, path: str) -> str:
        return self.quantity(path).kind

    def source(self, path: str) -> str:
        return self.quantity(path).source

    def rows(self, prefix: str = "") -> list[tuple[str, str, str, str, str]]:
        """``(path, value, unit, kind, source)`` as text, in the order of the files, for tables."""
        return [
            (q.path, format_value(q.value), q.unit, q.kind, q.source)
            for q in self
            if q.path.startswith(prefix)
        ]

    def assumed(self) -> list[str]:
        """Paths whose value nobody published or measured; reports repeat them."""
        return [q.path for q in self if q.kind == "assumed"]

    def _type_error(self, path: str, expected: str) -> InputError:
        q = self.quantities[path]
        what = f"'{path}' of the device '{self.name}' is not {expected}: {q.value!r}"
        return InputError(what, where=q.file)

    def __iter__(self) -> Iterator[Quantity]:
        return iter(self.quantities.values())

    def __repr__(self) -> str:
        return f"DeviceSpec({self.name!r}, compute_capability={self.compute_capability!r})"


def format_value(value: Value) -> str:
    """A value for a table: thousands separated, lists by commas."""
    if isinstance(value, tuple):
        return ", ".join(f"{v:,}" for v in value)
    return value if isinstance(value, str) else f"{value:,}"


# ---------------------------------------------------------------------------------------------------
# Finding devices
# ---------------------------------------------------------------------------------------------------


def _root() -> Path:
    return Path(str(files("gpusim"))) / "devices"


def names() -> list[str]:
    """Devices that :func:`load_device` knows, sorted."""
    return sorted(p.stem for p in _root().glob("*.toml"))


def compute_capabilities() -> list[str]:
    """Compute capabilities with a limits file, oldest first."""
    found = (p.stem for p in (_root() / "cc").glob("*.toml") if p.stem != "common")
    return sorted(found, key=lambda cc: tuple(map(int, cc.split("."))))


def load_device(name: str | Path) -> DeviceSpec:
    """The device called ``name`` (``h200``), or described by the user's own file (``path/my.toml``)."""
    text = str(name)
    if text.lower().endswith(".toml"):
        return _assemble(Path(text), Path(text).stem)  # not cached: the user may be editing it
    key = text.strip().lower().replace("_", "-").replace(" ", "-")
    known = names()
    if key not in known:
        key = _aliases().get(key, key)
    if key not in known:
        near = difflib.get_close_matches(key, [*known, *_aliases()], n=1, cutoff=0.4)
        guess = f"did you mean '{near[0]}'?  " if near else ""
        hint = f"{guess}known: {', '.join(known)}; or the path of a .toml file of your own"
        raise InputError(f"there is no device '{text}'", hint=hint)
    return _packaged(key)


@cache
def _packaged(name: str) -> DeviceSpec:
    return _assemble(_root() / f"{name}.toml", name)


@cache
def load_compute_capability(cc: str) -> DeviceSpec:
    """One SM of compute capability ``cc`` (``"9.0"``): occupancy and geometry, no SM count or clocks."""
    if cc not in compute_capabilities():
        hint = f"known: {', '.join(compute_capabilities())}"
        raise InputError(f"there are no limits for compute capability '{cc}'", hint=hint)
    path = _root() / "cc" / f"{cc}.toml"
    layers = _layers(path)
    return DeviceSpec("sm_" + cc.replace(".", ""), layers[-1]["title"], cc, _merge(layers))


@cache
def _aliases() -> dict[str, str]:
    return {alias: p.stem for p in _root().glob("*.toml") for alias in _parse(p).get("aliases", ())}


def _assemble(path: Path, name: str) -> DeviceSpec:
    layers = _layers(path)
    cc = layers[-1].get("compute_capability")
    if cc is None:
        hint = f'add a line like compute_capability = "9.0"; known: {", ".join(compute_capabilities())}'
        raise InputError("the device file does not say its compute capability", where=str(path), hint=hint)
    return DeviceSpec(name, layers[-1]["title"], cc, _merge(layers))


# ---------------------------------------------------------------------------------------------------
# Reading files
# ---------------------------------------------------------------------------------------------------

#: Keys of a device file that are not tables of quantities.
_HEADER = ("title", "compute_capability", "inherits", "aliases", "sources")

#: Where `_parse` keeps the file's own path; no key of a TOML file that anyone writes.
_FILE = "<file>"


def load_quantities(path: Path) -> dict[str, Quantity]:
    """The quantities of one file, such as a DRAM standard under ``devices/dram``, and all it inherits."""
    return _merge(_layers(path))


def dram_file(standard: str) -> Path:
    """Where the numbers of a DRAM standard (``hbm3e``) are; the file need not exist."""
    return _root() / "dram" / f"{standard}.toml"


def _layers(path: Path) -> list[dict[str, Any]]:
    """The parsed file and all it inherits, the most general first."""
    parsed = _parse(path)
    if "compute_capability" in parsed:
        cc = parsed["compute_capability"]
        if cc not in compute_capabilities():
            hint = f"known: {', '.join(compute_capabilities())}"
            raise InputError(f"there are no limits for compute capability {cc!r}", where=str(path), hint=hint)
        parent = f"cc/{cc}"
    else:
        parent = parsed.get("inherits", "")
    return [*(_layers(_root() / f"{parent}.toml") if parent else ()), parsed]


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            parsed = tomllib.load(stream)
    except OSError as error:
        what = f"the device file cannot be read: {error.strerror}"
        hint = "give a device name or the path of a .toml file"
        raise InputError(what, where=str(path), hint=hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the device file is no valid TOML: {error}", where=str(path)) from None
    if not isinstance(parsed.setdefault("sources", {}), dict):
        hint = "start it with a line [sources]"
        raise InputError("'sources' is not a table of citations", where=str(path), hint=hint)
    parsed["title"] = str(parsed.get("title", path.stem))
    parsed[_FILE] = str(path)
    return parsed


def _merge(layers: list[dict[str, Any]]) -> dict[str, Quantity]:
    merged: dict[str, Quantity] = {}
    for layer in layers:
        for q in _quantities(layer):
            merged[q.path] = q
    # Order by table (first seen first), so that a listing shows a table's rows together.
    tables = list(dict.fromkeys(path.split(".")[0] for path in merged))
    return dict(sorted(merged.items(), key=lambda item: tables.index(item[0].split(".")[0])))


def _quantities(layer: dict[str, Any]) -> Iterator[Quantity]:
    where, sources = layer[_FILE], layer["sources"]
    for table, rows in layer.items():
        if table in (*_HEADER, _FILE):
            continue
        if not isinstance(rows, dict):
            raise InputError(f"'{table}' is neither a header key nor a table of quantities", where=where)
        for key, row in rows.items():
            yield _quantity(f"{table}.{key}", row, sources, where)


def _quantity(path: str, row: Any, sources: Mapping[str, str], where: str) -> Quantity:
    fields = ("value", "unit", "kind", "source")
    if not isinstance(row, dict) or set(row) != set(fields):
        hint = f'{path.split(".")[1]} = {{ value = 1, unit = "warp", kind = "measured", source = "key" }}'
        raise InputError(f"'{path}' needs exactly {', '.join(fields)}", where=where, hint=hint)
    value, unit, kind, source = row["value"], str(row["unit"]), str(row["kind"]), str(row["source"])
    if kind not in KINDS:
        raise InputError(f"'{path}' has kind {kind!r}", where=where, hint=f"kinds: {', '.join(KINDS)}")
    if unit not in UNITS:
        hint = f"units: {', '.join(sorted(UNITS))}"
        raise InputError(f"'{path}' has unit {unit!r}", where=where, hint=hint)
    if not isinstance(sources.get(source), str) or not sources[source].strip():
        hint = f'add {source} = "author, title, place" to [sources]'
        raise InputError(f"'{path}' cites '{source}', which [sources] does not hold", where=where, hint=hint)
    if isinstance(value, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        value = tuple(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, str, tuple)):
        hint = "a number, a name in quotes or a list of whole numbers"
        raise InputError(f"'{path}' has the value {value!r}", where=where, hint=hint)
    return Quantity(path, value, unit, kind, sources[source], where)

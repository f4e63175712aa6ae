"""Launches: grid, block, arguments, and the manifest that lists them.

An argument is described by a small dictionary (launch-manifest format 1): ``{"kind": "scalar", "dtype",
"value"}`` or ``{"kind": "array", "dtype", "n", "init"}``.  ``materialise`` turns it into a numpy scalar or
array; random data is deterministic: a block of m draws, m = 65,536 if n <= 65,536 else 4,194,304, from
``default_rng(crc32("dtype|init|slot"))``, cut or repeated to n.

Units: ``dynamic_shared_bytes`` in bytes, ``n`` in elements.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.errors import InputError

Dim3 = tuple[int, int, int]
Arg = Mapping[str, Any]

SMALL_BLOCK, LARGE_BLOCK = 65_536, 4_194_304
_DTYPES = {
    f"{kind}{bits}"
    for kind, widths in (("int", (8, 16, 32, 64)), ("uint", (8, 16, 32, 64)), ("float", (16, 32, 64)))
    for bits in widths
} | {"bool", "complex64", "complex128"}
_SPEC = re.compile(r"^\s*(?P<dtype>\w+)\s*(?:\[\s*(?P<n>[^\]]*)\])?\s*(?P<sep>[:=])?(?P<rest>.*)$", re.S)
_INITS = "zeros, arange, normal, randint:LO:HI, halfwarp:A:B, file:NAME.npy"


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: shape and arguments (dictionaries of format 1, or numpy arrays and scalars)."""

    grid: Dim3
    block: Dim3
    dynamic_shared_bytes: int = 0
    args: tuple[Any, ...] = ()

    @property
    def ctas(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(frozen=True, slots=True)
class ManifestLaunch:
    """An entry of a manifest; ``file`` is absolute, ``heavy`` marks long launches."""

    id: str
    file: str
    entry: str
    launch: Launch
    heavy: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


def dim3(value: Any, what: str) -> Dim3:
    """A positive shape from a number or up to three numbers."""
    parts: list[Any] = []
    if isinstance(value, (int, np.integer)):
        parts = [value]
    elif isinstance(value, Sequence):
        parts = list(value)
    if not 1 <= len(parts) <= 3 or any(
        isinstance(p, bool) or not isinstance(p, (int, np.integer)) for p in parts
    ):
        raise InputError(f"{what} must be one to three whole numbers, not {value!r}")
    out = [int(p) for p in parts] + [1] * (3 - len(parts))
    if min(out) < 1:
        raise InputError(
            f"{what} {tuple(out)} has a dimension below 1", hint="every dimension must be at least 1"
        )
    return out[0], out[1], out[2]


def _dtype(name: Any, where: str) -> np.dtype[Any]:
    if name not in _DTYPES:
        raise InputError(f"unknown type {name!r}", where=where, hint=f"known: {', '.join(sorted(_DTYPES))}")
    return np.dtype(str(name))


def parse_arg_spec(text: str) -> dict[str, Any]:
    """``float32[4096]:normal`` (array), ``int32=4096`` (scalar), ``@file.npy`` (array from a file)."""
    where = f"argument {text!r}"
    if text.startswith("@"):
        path = Path(text[1:])
        data = _load_npy(path, where)
        return {
            "kind": "array",
            "dtype": str(data.dtype),
            "n": int(data.size),
            "init": f"file:{path.resolve()}",
        }
    match = _SPEC.match(text)
    if not match or not match["dtype"]:
        raise InputError(
            "not an argument", where=where, hint="as float32[4096]:normal, int32=4096 or @file.npy"
        )
    dtype = _dtype(match["dtype"], where)
    rest = match["rest"].strip()
    if match["n"] is not None:
        try:
            n = int(match["n"], 0)
        except ValueError:
            raise InputError(f"the length {match['n']!r} is no whole number", where=where) from None
        if match["sep"] != ":" and rest:
            raise InputError("an array takes its data after ':'", where=where, hint=f"one of {_INITS}")
        arg = {"kind": "array", "dtype": str(dtype), "n": n, "init": rest or "zeros"}
    elif match["sep"] == "=":
        arg = {"kind": "scalar", "dtype": str(dtype), "value": _scalar_value(rest, dtype, where)}
    else:
        raise InputError(
            "neither an array nor a scalar", where=where, hint="as float32[4096]:normal or int32=4096"
        )
    check_arg(arg, where)
    return arg


def _scalar_value(text: str, dtype: np.dtype[Any], where: str) -> Any:
    try:
        return complex(text) if dtype.kind == "c" else float(text) if dtype.kind == "f" else int(text, 0)
    except ValueError:
        raise InputError(f"{text!r} is no {dtype}", where=where) from None


def check_arg(arg: Any, where: str) -> None:
    """Refuse a malformed description with a sentence."""
    if not isinstance(arg, Mapping) or arg.get("kind") not in ("scalar", "array"):
        raise InputError("an argument is an object with kind scalar or array", where=where)
    dtype = _dtype(arg.get("dtype"), where)
    if arg["kind"] == "scalar":
        value = arg.get("value")
        if isinstance(value, bool) or not isinstance(value, (int, float, complex)):
            raise InputError(f"the scalar's value is {value!r}", where=where, hint="it must be a number")
        if dtype.kind in "iu" and (not isinstance(value, int) or not _fits(value, dtype)):
            raise InputError(f"{value!r} does not fit {dtype}", where=where)
        return
    n = arg.get("n")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InputError(
            f"the length n is {n!r}", where=where, hint="it must be a whole number of at least 1"
        )
    if n * dtype.itemsize > 1 << 36:
        raise InputError(f"an array of {n * dtype.itemsize:,} bytes is over the limit of 64 GiB", where=where)
    _init_kind(arg.get("init", "zeros"), where)


def _fits(value: int, dtype: np.dtype[Any]) -> bool:
    info = np.iinfo(dtype)
    return int(info.min) <= value <= int(info.max)


def _init_kind(init: Any, where: str) -> tuple[str, list[str]]:
    word, *parameters = str(init).split(":", 1 if str(init).startswith("file:") else -1)
    counts = {"zeros": 0, "arange": 0, "normal": 0, "randint": 2, "halfwarp": 2, "file": 1}
    if counts.get(word) != len(parameters):
        raise InputError(f"unknown data {init!r}", where=where, hint=f"one of {_INITS}")
    if word in ("randint", "halfwarp"):
        try:
            numbers = [float(p) if word == "halfwarp" else int(p) for p in parameters]
        except ValueError:
            raise InputError(f"{init!r} needs two numbers", where=where) from None
        if word == "randint" and numbers[0] >= numbers[1]:
            raise InputError(f"{init!r} is an empty range (HI is exclusive)", where=where)
    return word, parameters


def _load_npy(path: Path, where: str) -> np.ndarray:
    try:
        data = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"file {path} does not exist", where=where) from None
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} is not a readable .npy file: {error}", where=where) from None
    if not isinstance(data, np.ndarray) or str(data.dtype) not in _DTYPES:
        raise InputError(
            f"{path} holds {getattr(data, 'dtype', 'no array')}", where=where, hint="numbers are needed"
        )
    return np.ascontiguousarray(data).reshape(-1)


def make_array(dtype: str, n: int, init: str, slot: int, base: Path | None = None) -> np.ndarray:
    """The data of an array argument: shape (n,); ``slot`` is the argument's position (seeds random data)."""
    where = f"argument {slot}"
    kind = _dtype(dtype, where)
    word, parameters = _init_kind(init, where)
    if word == "zeros":
        return np.zeros(n, kind)
    if word == "arange":
        return np.arange(n).astype(kind)
    if word == "halfwarp":
        first, second = (np.array([float(p) for p in parameters])).astype(kind)
        return np.where(np.arange(n) % 32 < 16, first, second).astype(kind)
    if word == "file":
        path = Path(parameters[0])
        data = _load_npy(path if path.is_absolute() or base is None else base / path, where)
        if data.size < n:
            raise InputError(f"{path} holds {data.size} elements, the argument needs {n}", where=where)
        return data[:n].astype(kind, copy=True)
    m = SMALL_BLOCK if n <= SMALL_BLOCK else LARGE_BLOCK
    generator = np.random.default_rng(zlib.crc32(f"{dtype}|{init}|{slot}".encode()))
    if word == "normal":
        wide = np.float64 if kind == np.float64 else np.float32
        block = generator.standard_normal(m, wide).astype(kind)
    else:
        low, high = (int(p) for p in parameters)
        block = generator.integers(low, high, m).astype(kind)
    return block[:n].copy() if n <= m else np.resize(block, n)


def materialise(args: Sequence[Any], base: Path | None = None) -> list[Any]:
    """Numpy values of arguments given as descriptions, arrays or scalars (arrays are copied, flat)."""
    out: list[Any] = []
    for slot, arg in enumerate(args):
        where = f"argument {slot}"
        if isinstance(arg, str):
            arg = parse_arg_spec(arg)
        if isinstance(arg, Mapping):
            check_arg(arg, where)
            if arg["kind"] == "scalar":
                out.append(np.dtype(arg["dtype"]).type(arg["value"]))
            else:
                out.append(make_array(arg["dtype"], int(arg["n"]), str(arg.get("init", "zeros")), slot, base))
        elif isinstance(arg, np.ndarray):
            if arg.dtype.hasobject or arg.size == 0:
                raise InputError(
                    f"an array of {arg.dtype} with {arg.size} elements cannot be passed", where=where
                )
            out.append(np.ascontiguousarray(arg).copy())
        elif isinstance(arg, np.generic):
            out.append(arg)
        elif isinstance(arg, bool) or not isinstance(arg, (int, float)):
            raise InputError(
                f"{arg!r} cannot be passed to a kernel",
                where=where,
                hint="pass numpy arrays, numpy scalars, or Python int (int32) and float (float32)",
            )
        elif isinstance(arg, int):
            if not _fits(arg, np.dtype(np.int32)):
                raise InputError(f"{arg} does not fit int32", where=where, hint="pass np.int64 or np.uint32")
            out.append(np.int32(arg))
        else:
            out.append(np.float32(arg))
    return out


def load_manifest(path: str | Path) -> list[ManifestLaunch]:
    """Launches of a manifest (format 1); files are relative to it."""
    path = Path(path)
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("the manifest does not exist", where=str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the manifest cannot be read: {error}", where=str(path)) from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"the manifest is not JSON: {error}", where=str(path)) from None
    if not isinstance(entries, list):
        raise InputError("a manifest is a JSON list of launches", where=str(path))
    out: list[ManifestLaunch] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        where = f"{path}, launch {index}"
        if not isinstance(entry, dict):
            raise InputError("a launch is a JSON object", where=where)
        missing = [key for key in ("id", "file", "entry", "grid", "block", "args") if key not in entry]
        if missing:
            raise InputError(f"the launch lacks {', '.join(missing)}", where=where)
        if not all(isinstance(entry[key], str) for key in ("id", "file", "entry")):
            raise InputError("id, file and entry must be texts", where=where)
        where = f"{path}, launch {entry['id']!r}"
        if entry["id"] in seen:
            raise InputError("the id is used twice", where=where)
        seen.add(entry["id"])
        if not isinstance(entry["args"], list):
            raise InputError("args must be a list", where=where)
        args = []
        for slot, arg in enumerate(entry["args"]):
            check_arg(arg, f"{where}, argument {slot}")
            init = str(arg.get("init", ""))
            if init.startswith("file:") and not Path(init[5:]).is_absolute():
                arg = {**arg, "init": f"file:{(path.parent / init[5:]).resolve()}"}
            args.append(arg)
        shared = entry.get("dynamic_shared", 0)
        if isinstance(shared, bool) or not isinstance(shared, int) or shared < 0:
            raise InputError(f"dynamic_shared is {shared!r}", where=where, hint="bytes, at least 0")
        try:
            launch = Launch(dim3(entry["grid"], "grid"), dim3(entry["block"], "block"), shared, tuple(args))
        except InputError as error:
            raise InputError(error.what, where=where, hint=error.hint) from None
        out.append(
            ManifestLaunch(
                entry["id"],
                str((path.parent / entry["file"]).resolve()),
                entry["entry"],
                launch,
                bool(entry.get("heavy", False)),
            )
        )
    return out

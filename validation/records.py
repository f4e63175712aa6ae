"""Records: one JSON file a measured launch, written once, with an index over them.

A folder of measurements holds ``records/<kernel>/<size>.json`` (schema ``gpusim.record/1``),
``cubins/<first 16 digits of the SHA-256>.cubin`` and ``INDEX.json``.  A record says what was measured
(source, options, compiler, binary, inputs: all by SHA-256), on what (device, driver, versions), how (command,
cache and clock control) and the result: hashes of the memory left behind, times in microseconds, the
profiler's metrics verbatim with their unit, and its per-instruction columns.  The columns lie beside it,
packed (``<size>.instructions.json.xz``, named with its SHA-256 in the record): they are most of the data.
What could not be measured is absent, and ``absent`` says why.

Left out: what a record is compared with (``gpusim.validation.compare``).
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.errors import InputError
from gpusim.output import atomic_write

SCHEMA, INDEX_SCHEMA = "gpusim.record/1", "gpusim.record-index/1"
INDEX = "INDEX.json"

Record = dict[str, Any]

_SHA = re.compile(r"[0-9a-f]{64}")
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_TIMING: Mapping[str, type | tuple[type, ...]] = {
    "runs": int, "dropped": int, "median_us": (int, float), "min_us": (int, float), "max_us": (int, float),
    "spread_pct": (int, float),
}  # fmt: skip
_OPTIONAL = ("timing", "profile", "instructions")


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One record of an index; ``file`` is relative to the folder, ``cubin_sha256`` None without a binary."""

    id: str
    file: str
    sha256: str
    cubin_sha256: str | None


def record_file(id: str, cubin_sha256: str | None = None) -> str:
    """Where the record of a launch lies, relative to the folder: ``A1:tiny`` -> ``records/A1/tiny.json``.

    With a hash: the name used when another binary of the same launch has the first one.
    """
    kernel, _, size = id.partition(":")
    name = size.replace(":", ".") or "launch"
    if not re.fullmatch(r"[\w.-]+", kernel + name):
        raise InputError(f"the launch id {id!r} cannot be a file name")
    middle = f".{cubin_sha256[:8]}" if cubin_sha256 else ""
    return f"records/{kernel}/{name}{middle}.json"


def load_record(path: str | Path) -> Record:
    """A record that is well formed; an :class:`InputError` lists what is wrong with it."""
    record = _load(Path(path))
    packed = record.get("instructions") if isinstance(record, dict) else None
    if isinstance(packed, dict) and "file" in packed:
        record["instructions"] = _unpack(Path(path).parent / str(packed["file"]), packed.get("sha256"))
    if problems := validate_record(record):
        raise InputError(f"is not a record: {'; '.join(problems[:5])}", where=str(path))
    return dict(record)


def _unpack(path: Path, sha256: Any) -> Any:
    """The columns of the source page that lie beside a record."""
    try:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise InputError("was changed after its record was written", where=str(path))
        return json.loads(lzma.decompress(data))
    except FileNotFoundError:
        raise InputError("belongs to a record and does not exist", where=str(path)) from None
    except (OSError, lzma.LZMAError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path)) from None


def write_record(folder: Path, record: Record, *, replace: bool = False) -> Path:
    """Write a record once and return its path.

    The same record again changes nothing.  Another measurement of the same binary is refused (``replace``:
    overwrites it, for folders that are derived from a work folder); another binary gets a name with its hash.
    """
    if problems := validate_record(record):
        raise InputError(f"the record of {record.get('id')!r} is malformed: {'; '.join(problems)}")
    cubin = record["kernel"].get("cubin_sha256")
    path = folder / record_file(record["id"])
    if path.exists() and _cubin(_load(path)) != cubin and cubin:
        path = folder / record_file(record["id"], cubin)
    packed = b""
    if columns := record.get("instructions"):
        packed = lzma.compress(json.dumps(columns, separators=(",", ":")).encode("utf-8"))
        digest = hashlib.sha256(packed).hexdigest()
        record = {**record, "instructions": {"file": f"{path.stem}.instructions.json.xz", "sha256": digest}}
    text = dump_record(record)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return path
    if path.exists() and not replace:
        raise InputError(
            f"a measurement of {record['id']} with this binary exists, and records are written once",
            where=str(path),
            hint="give another --out folder",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    if packed:
        atomic_write(path.with_name(f"{path.stem}.instructions.json.xz"), packed)
    atomic_write(path, text)
    return path


def dump_record(record: Record) -> str:
    """The text of a record: a line a part, so that a difference can be read, and no blanks within."""

    def compact(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    lines = []
    for key, value in record.items():
        if key in ("instructions", "profile") and isinstance(value, dict):
            inner = ",\n".join(f"  {compact(k)}:{compact(v)}" for k, v in value.items())
            lines.append(f" {compact(key)}:{{\n{inner}\n }}")
        else:
            lines.append(f" {compact(key)}:{compact(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def validate_record(record: Any) -> list[str]:
    """What is wrong with a record; empty if nothing is."""
    if not isinstance(record, Mapping):
        return ["it is no JSON object"]
    return list(_problems(record))


def _problems(record: Mapping[str, Any]) -> Iterator[str]:
    if record.get("schema") != SCHEMA:
        yield f"schema is {record.get('schema')!r}, not {SCHEMA!r}"
    for key, kind in (("id", str), ("kernel", dict), ("launch", dict), ("inputs_sha256", dict),
                      ("machine", dict), ("date", str), ("command", str), ("outputs", dict)):  # fmt: skip
        if not isinstance(record.get(key), kind):
            yield f"{key} is missing or no {kind.__name__}"
            return
    kernel, launch, outputs = record["kernel"], record["launch"], record["outputs"]
    if not _DATE.fullmatch(record["date"]):
        yield f"date {record['date']!r} is not like 2026-11-30T12:00:00Z"
    for key in ("source_sha256", "cubin_sha256"):
        if kernel.get(key) is not None and not _SHA.fullmatch(str(kernel[key])):
            yield f"kernel.{key} is no SHA-256"
    for shape in ("grid", "block"):
        value = launch.get(shape)
        if value is None and kernel.get("cubin_sha256") is None:
            continue  # a library chose it, and no profiler told
        if not isinstance(value, list) or len(value) != 3 or not all(_count(n) and n > 0 for n in value):
            yield f"launch.{shape} is not three positive whole numbers"
    if not isinstance(launch.get("args"), list):
        yield "launch.args is no list"
    for name, table in (
        ("inputs_sha256", record["inputs_sha256"]),
        ("outputs.sha256", outputs.get("sha256")),
    ):
        if not isinstance(table, dict) or not all(
            str(k).isdecimal() and _SHA.fullmatch(str(v)) for k, v in table.items()
        ):
            yield f"{name} is not a table of argument number to SHA-256"
    if not re.match(r"passed$|failed: .|none: .", str(outputs.get("oracle"))):
        yield "outputs.oracle is not passed, failed: why, or none: why"
    if not isinstance(record["machine"].get("device"), str):
        yield "machine.device is missing"
    absent = record.get("absent", {})
    for key in _OPTIONAL:
        if key not in record:
            if not (isinstance(absent, dict) and isinstance(absent.get(key), str) and absent[key]):
                yield f"{key} is absent and absent.{key} does not say why"
        elif not isinstance(record[key], dict):
            yield f"{key} is no object"
        else:
            yield from {"timing": _timing, "profile": _profile, "instructions": _instructions}[key](
                record[key]
            )


def _timing(timing: Mapping[str, Any]) -> Iterator[str]:
    for variant in ("warm", "flushed"):
        numbers = timing.get(variant)
        if not isinstance(numbers, dict):
            yield f"timing.{variant} is missing"
            continue
        for key, kind in _TIMING.items():
            if isinstance(numbers.get(key), bool) or not isinstance(numbers.get(key), kind):
                yield f"timing.{variant}.{key} is missing or no number"
                return
        if not 0 < numbers["min_us"] <= numbers["median_us"] <= numbers["max_us"]:
            yield f"timing.{variant}: min, median and max are not in order"


def _profile(profile: Mapping[str, Any]) -> Iterator[str]:
    for key in ("tool", "command", "cache_control", "clock_control"):
        if not isinstance(profile.get(key), str):
            yield f"profile.{key} is missing"
    metrics = profile.get("metrics")
    if not isinstance(metrics, dict) or not metrics:
        yield "profile.metrics is missing or empty"
        return
    for name, entry in metrics.items():
        if (
            not isinstance(entry, dict)
            or not _number(entry.get("value"))
            or not isinstance(entry.get("unit"), str)
        ):
            yield f"profile.metrics.{name} is not a number with a unit"


def _instructions(columns: Mapping[str, Any]) -> Iterator[str]:
    for key in ("pc", "sass"):
        if not isinstance(columns.get(key), list) or not columns[key]:
            yield f"instructions.{key} is missing or empty"
            return
    length = len(columns["pc"])
    for name, values in columns.items():
        if not isinstance(values, list) or len(values) != length:
            yield f"instructions.{name} does not have {length} values"
        elif name != "sass" and not all(_number(v) for v in values):
            yield f"instructions.{name} holds something that is no number"
    if columns["pc"] != sorted(set(columns["pc"])):
        yield "instructions.pc does not rise"


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _cubin(record: Any) -> str | None:
    kernel = record.get("kernel") if isinstance(record, dict) else None
    return kernel.get("cubin_sha256") if isinstance(kernel, dict) else None


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("the file does not exist", where=str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path)) from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}", where=str(path)) from None


def build_index(folder: Path) -> list[IndexEntry]:
    """The index of the record files that are there, by file name."""
    entries = []
    for path in sorted((folder / "records").glob("*/*.json")):
        record = load_record(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        file = path.relative_to(folder).as_posix()
        entries.append(IndexEntry(record["id"], file, digest, _cubin(record)))
    return entries


def write_index(folder: Path) -> list[IndexEntry]:
    """Write ``INDEX.json`` for the records in the folder."""
    entries = build_index(folder)
    rows = ",\n".join(
        "  " + json.dumps({"id": e.id, "file": e.file, "sha256": e.sha256, "cubin_sha256": e.cubin_sha256})
        for e in entries
    )
    atomic_write(folder / INDEX, f'{{"schema": "{INDEX_SCHEMA}", "records": [\n{rows}\n]}}\n')
    return entries


def load_index(folder: str | Path) -> list[IndexEntry]:
    """The entries of a folder's ``INDEX.json``."""
    path = Path(folder) / INDEX
    data = _load(path)
    if not isinstance(data, dict) or data.get("schema") != INDEX_SCHEMA:
        raise InputError(f"is not an index of records ({INDEX_SCHEMA})", where=str(path))
    try:
        return [IndexEntry(r["id"], r["file"], r["sha256"], r["cubin_sha256"]) for r in data["records"]]
    except (KeyError, TypeError) as error:
        raise InputError(f"an entry of the index is malformed ({error})", where=str(path)) from None


def check_index(folder: str | Path) -> list[str]:
    """Where index, record files and binaries disagree; empty if nowhere."""
    folder = Path(folder)
    entries = load_index(folder)
    problems = []
    for entry in entries:
        path = folder / entry.file
        if not path.is_file():
            problems.append(f"{entry.file} is in the index and missing")
            continue
        if hashlib.sha256(path.read_bytes()).hexdigest() != entry.sha256:
            problems.append(f"{entry.file} was changed after it was written")
        if entry.cubin_sha256:
            cubin = cubin_file(folder, entry.cubin_sha256)
            if not cubin.is_file():
                problems.append(f"{entry.file}: its binary {cubin.name} is missing")
            elif hashlib.sha256(cubin.read_bytes()).hexdigest() != entry.cubin_sha256:
                problems.append(f"{entry.file}: its binary {cubin.name} is another one")
    listed = {entry.file for entry in entries}
    if len(listed) != len(entries):
        problems.append("the index lists a file twice")
    for path in sorted((folder / "records").glob("*/*.json")):
        if (file := path.relative_to(folder).as_posix()) not in listed:
            problems.append(f"{file} is not in the index")
    return problems


def cubin_file(folder: Path, sha256: str) -> Path:
    """Where the binary of that hash lies."""
    return folder / "cubins" / f"{sha256[:16]}.cubin"

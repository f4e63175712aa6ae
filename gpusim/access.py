"""One warp access before the kernel exists: addresses in, wavefronts or sectors out.

Three ways in, one set of rules (`gpusim.memory`):

* :func:`access`: 32 byte offsets and a mask, as numbers;
* :func:`answer_batch`, :func:`answer_file`: the same from JSON lines (``gpusim access --batch``);
* :func:`threads`, :func:`shared_array`, :func:`global_array`, :func:`load`, :func:`store`: index
  arithmetic over a block in Python.  `gpusim.expression` reads the same from a C expression.

Offsets are bytes from a base aligned to 1 KB (shared) or 2 MB (global).  A quantity that no measurement
backs is absent (``None``, or no key in a batch answer), and ``unsettled`` says why a count may differ
from hardware.  Left out: caches and time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim.device import load_device
from gpusim.errors import InputError
from gpusim.events import EVENT, LANES, Flag, Kind, Space
from gpusim.memory import coalescer
from gpusim.memory.coalescer import GlobalGeometry, SectorMap, sector_map
from gpusim.memory.counters import N_COUNTERS, Counter, count_events
from gpusim.memory.shared import BankMap, SharedGeometry, bank_map

#: Device whose geometry answers when none is named: the one all rules were measured on.
DEFAULT_DEVICE = "h200"
FULL_MASK = (1 << LANES) - 1
_WIDTHS = (1, 2, 4, 8, 16)
_BATCH = 1024  # rows counted together
_GLOBAL_LIMIT = 1 << 48  # bytes; virtual addresses are below it


@dataclass(frozen=True, slots=True)
class _Op:
    """What an ``op`` word means: widths a lane, and the lanes whose addresses the hardware reads."""

    space: Space
    kind: Kind
    widths: tuple[int, ...] = _WIDTHS
    flags: int = 0
    lanes: int = FULL_MASK


_OPS: dict[tuple[str, str], _Op] = {
    ("shared", "load"): _Op(Space.SHARED, Kind.LOAD),
    ("shared", "store"): _Op(Space.SHARED, Kind.STORE),
    ("shared", "ldmatrix.x1"): _Op(Space.SHARED, Kind.LDMATRIX, (16,), lanes=0xFF),
    ("shared", "ldmatrix.x2"): _Op(Space.SHARED, Kind.LDMATRIX, (16,), lanes=0xFFFF),
    ("shared", "ldmatrix.x4"): _Op(Space.SHARED, Kind.LDMATRIX, (16,)),
    ("shared", "atomic.add"): _Op(Space.SHARED, Kind.ATOMIC, (4,), Flag.ADD),
    ("global", "load"): _Op(Space.GLOBAL, Kind.LOAD),
    ("global", "store"): _Op(Space.GLOBAL, Kind.STORE),
    ("global", "reduction.add"): _Op(Space.GLOBAL, Kind.REDUCTION, (4,), Flag.ADD),
}
_SPACES = tuple(dict.fromkeys(space for space, _ in _OPS))


@dataclass(frozen=True, slots=True)
class AccessResult:
    """Counters of one warp access; those of the other space are None.

    Shared: wavefronts, ideal_wavefronts, bank_conflicts (their difference).  Global: requests, sectors
    (32 B), ideal_sectors, lines (128 B), tag_wavefronts (None where the tag hash is not known to hold).
    """

    space: str
    op: str
    width: int
    mask: int
    offsets: tuple[int, ...]
    wavefronts: int | None = None
    ideal_wavefronts: int | None = None
    bank_conflicts: int | None = None
    requests: int | None = None
    sectors: int | None = None
    ideal_sectors: int | None = None
    lines: int | None = None
    tag_wavefronts: int | None = None
    unsettled: str | None = None
    device: str = DEFAULT_DEVICE

    def bank_map(self) -> BankMap:
        """Which lane meets which bank in which wavefront (shared accesses)."""
        return bank_map(self._event(), _geometry(self.device)[0])

    def sector_map(self) -> SectorMap:
        """Which lanes use which sector and line (global accesses)."""
        return sector_map(self._event(), _geometry(self.device)[1])

    def _event(self) -> np.void:
        event: np.void = _events([self])[0]
        return event

    def answer(self) -> dict[str, int]:
        """The keys of a batch answer, known ones only."""
        keys = (
            ("wavefronts", "ideal_wavefronts", "bank_conflicts")
            if self.space == "shared"
            else ("requests", "sectors", "lines", "tag_wavefronts")
        )
        return {key: value for key in keys if (value := getattr(self, key)) is not None}


@lru_cache(maxsize=32)
def _geometry(device: str) -> tuple[SharedGeometry, GlobalGeometry, int]:
    """Shared and global geometry and the most shared bytes of a block."""
    spec = load_device(device)
    return (
        SharedGeometry.from_device(spec),
        GlobalGeometry.from_device(spec),
        spec.integer("shared.per_block_optin"),
    )


# -- checking -------------------------------------------------------------------------------------


def _check(row: Mapping[str, Any], where: str, device: str) -> AccessResult:
    """The access a row describes, or an :class:`InputError` naming the key at fault."""

    def fail(key: str, what: str, hint: str | None = None) -> InputError:
        return InputError(f"key '{key}': {what}", where=where, hint=hint)

    for key in ("space", "op", "width", "mask", "offsets"):
        if key not in row:
            raise fail(key, "is missing", "a row needs id, space, op, width, mask and offsets")
    space, op, width, mask, offsets = (row[key] for key in ("space", "op", "width", "mask", "offsets"))
    for key, text in (("space", space), ("op", op)):
        if not isinstance(text, str):
            raise fail(key, f"must be a string, not {_show(text)}")
    for key, number in (("width", width), ("mask", mask)):
        if not _is_int(number):
            raise fail(key, f"must be a whole number, not {_show(number)}")
    if space not in _SPACES:
        raise fail("space", f"{_show(space)} is unknown", f"use {' or '.join(_SPACES)}")
    rule = _OPS.get((space, op))
    if rule is None:
        known = ", ".join(name for at, name in _OPS if at == space)
        raise fail("op", f"{_show(op)} is unknown for {space} memory", f"use one of {known}")
    if width not in rule.widths:
        raise fail("width", f"{width} bytes a lane is not possible for {op}", f"use {_or(rule.widths)}")
    if not 0 <= mask <= FULL_MASK:
        raise fail("mask", f"must be from 0 to {FULL_MASK} (one bit a lane), not {_show(mask)}")
    if not isinstance(offsets, (list, tuple)):
        raise fail("offsets", f"must be a list of {LANES} byte offsets, not {_show(offsets)}")
    if len(offsets) != LANES:
        raise fail("offsets", f"holds {len(offsets)} numbers, a warp has {LANES} lanes")
    limit = _geometry(device)[2] if rule.space is Space.SHARED else _GLOBAL_LIMIT
    for lane, offset in enumerate(offsets):
        if not _is_int(offset):
            raise fail("offsets", f"lane {lane}: must be a whole number, not {_show(offset)}")
        if offset < 0:
            raise fail("offsets", f"lane {lane}: offset {_show(offset)} is negative")
        if offset >= 1 << 64:
            raise fail("offsets", f"lane {lane}: offset {_show(offset)} does not fit in 64 bits")
        if mask & rule.lanes & 1 << lane:
            if offset % width:
                raise fail("offsets", f"lane {lane}: offset {offset} is not a multiple of the width {width}")
            if offset + width > limit:
                what = f"lane {lane}: offset {offset} is beyond the {limit} bytes of {space} memory"
                raise fail("offsets", what)
    return AccessResult(space, op, width, mask, tuple(offsets), device=device)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _show(value: object) -> str:
    """A value in a message, shortened."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of {value.bit_length()} bits"
    plain = value is None or isinstance(value, (str, int, float, list, dict))
    text = json.dumps(value, default=repr) if plain else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _or(values: Sequence[int]) -> str:
    words = [str(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# -- counting -------------------------------------------------------------------------------------


def _events(asked: Sequence[AccessResult]) -> NDArray[np.void]:
    """One event each, with pc 16 x its index."""
    events = np.zeros(len(asked), EVENT)
    for index, one in enumerate(asked):
        rule = _OPS[one.space, one.op]
        event = events[index]
        event["pc"], event["mask"], event["parent"] = 16 * index, one.mask & rule.lanes, index
        event["space"], event["kind"], event["flags"], event["nbytes"] = (
            rule.space, rule.kind, rule.flags, one.width,
        )  # fmt: skip
        event["addresses"] = np.array(one.offsets, np.uint64)
    return events


def _answer(asked: Sequence[AccessResult], device: str) -> list[AccessResult]:
    shared_geometry, global_geometry, _ = _geometry(device)
    out = np.zeros((len(asked), N_COUNTERS), np.int64)
    count_events(_events(asked), out, shared_geometry, global_geometry)
    return [
        _shared_result(one, counts) if one.space == "shared" else _global_result(one, counts, global_geometry)
        for one, counts in zip(asked, out.tolist(), strict=True)
    ]


def _shared_result(one: AccessResult, counts: list[int]) -> AccessResult:
    wavefronts, ideal = counts[Counter.BANK_WAVEFRONTS], counts[Counter.BANK_IDEAL_WAVEFRONTS]
    return AccessResult(
        one.space, one.op, one.width, one.mask, one.offsets, device=one.device,
        wavefronts=wavefronts, ideal_wavefronts=ideal, bank_conflicts=wavefronts - ideal,
    )  # fmt: skip


def _global_result(one: AccessResult, counts: list[int], geometry: GlobalGeometry) -> AccessResult:
    rule = _OPS[one.space, one.op]
    lines = {offset // geometry.line_bytes for lane, offset in enumerate(one.offsets) if one.mask >> lane & 1}
    # The tag stage was measured for loads and stores only.
    known = rule.kind in (Kind.LOAD, Kind.STORE) and geometry.tag_wavefronts_known(lines)
    return AccessResult(
        one.space, one.op, one.width, one.mask, one.offsets, device=one.device,
        requests=counts[Counter.REQUESTS], sectors=counts[Counter.SECTORS],
        ideal_sectors=counts[Counter.IDEAL_SECTORS], lines=counts[Counter.LINES],
        tag_wavefronts=counts[Counter.TAG_WAVEFRONTS] if known else None,
        unsettled=coalescer.unsettled(rule.kind) if counts[Counter.UNSETTLED_GLOBAL] else None,
    )  # fmt: skip


def access(
    space: str,
    op: str,
    width: int,
    offsets: Sequence[int] | NDArray[np.integer[Any]],
    mask: int = FULL_MASK,
    *,
    device: str = DEFAULT_DEVICE,
) -> AccessResult:
    """Counters of one warp access.

    space: ``shared`` or ``global``; op: ``load``, ``store``, ``ldmatrix.x1/x2/x4``, ``atomic.add``
    (shared), ``reduction.add`` (global); width: bytes a lane; offsets: 32 byte offsets.
    """
    values = offsets.tolist() if isinstance(offsets, np.ndarray) else list(offsets)
    row = {"space": space, "op": op, "width": width, "mask": mask, "offsets": values}
    return _answer([_check(row, "access", device)], device)[0]


# -- batches --------------------------------------------------------------------------------------


def answer_batch(
    rows: Iterable[str | bytes], *, where: str = "batch", device: str = DEFAULT_DEVICE
) -> Iterator[dict[str, Any]]:
    """Answers to rows ``{id,space,op,width,mask,offsets[32]}``, one JSON object a line, in order.

    Blank lines are skipped and other keys ignored.  ``where`` names the source in messages, which add
    the line number and, once it is known, the row's id.
    """
    pending: list[tuple[str | int, AccessResult]] = []
    for number, line in enumerate(rows, 1):
        row = _parse_line(line, f"{where}:{number}", first=number == 1)
        if row is None:
            continue
        identity = row.get("id")
        if "id" not in row:
            raise InputError("key 'id': is missing", where=f"{where}:{number}")
        if not isinstance(identity, (str, int)) or isinstance(identity, bool):
            what = f"key 'id': must be a string or a whole number, not {_show(identity)}"
            raise InputError(what, where=f"{where}:{number}")
        pending.append((identity, _check(row, f"{where}:{number} (id {_show(identity)})", device)))
        if len(pending) == _BATCH:
            yield from _flush(pending, device)
            pending = []
    yield from _flush(pending, device)


def _flush(pending: list[tuple[str | int, AccessResult]], device: str) -> Iterator[dict[str, Any]]:
    for (identity, _), result in zip(pending, _answer([one for _, one in pending], device), strict=True):
        yield {"id": identity, **result.answer()}


def _parse_line(line: str | bytes, where: str, *, first: bool) -> dict[str, Any] | None:
    """The object of a line, None for a blank one."""
    try:
        text = line if isinstance(line, str) else line.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text: {error.reason} at byte {error.start}", where=where) from None
    if not text.strip():
        return None
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        what = f"is not valid JSON: {error.msg} at column {error.colno}"
        raise InputError(what, where=where, hint="one JSON object a line") from None
    except (ValueError, RecursionError):
        raise InputError("is not usable JSON: a number too long or nesting too deep", where=where) from None
    if not isinstance(row, dict):
        raise InputError(f"must be a JSON object, not {_show(row)}", where=where)
    return row


def answer_file(path: str | Path, *, device: str = DEFAULT_DEVICE) -> Iterator[str]:
    """JSON lines answering the file ``path`` (see :func:`answer_batch`), each with its newline."""
    try:
        with open(path, "rb") as stream:
            for answer in answer_batch(stream, where=str(path), device=device):
                yield json.dumps(answer, separators=(",", ":")) + "\n"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "give a file of JSON lines"
        raise InputError(f"cannot be read: {reason}", where=str(path), hint=hint) from None


# -- a whole block --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlockAccess:
    """One access instruction executed by every warp of a block.

    warps: one result a warp, in warp order.  ``wavefronts`` and the like are those of the worst warp,
    because that is what one reads off an instruction: 1 is conflict-free.
    """

    warps: tuple[AccessResult, ...]

    def _worst(self, name: str) -> int | None:
        values = [value for warp in self.warps if (value := getattr(warp, name)) is not None]
        return max(values, default=None)

    @property
    def wavefronts(self) -> int | None:
        return self._worst("wavefronts")

    @property
    def ideal_wavefronts(self) -> int | None:
        return self._worst("ideal_wavefronts")

    @property
    def bank_conflicts(self) -> int | None:
        return self._worst("bank_conflicts")

    @property
    def sectors(self) -> int | None:
        return self._worst("sectors")

    @property
    def lines(self) -> int | None:
        return self._worst("lines")


@dataclass(frozen=True, eq=False)
class Threads:
    """Indices of all threads of a block, linear order (x fastest); int64 arrays."""

    x: NDArray[np.int64]
    y: NDArray[np.int64]
    z: NDArray[np.int64]

    @property
    def lane(self) -> NDArray[np.int64]:
        return np.arange(len(self.x)) % LANES

    @property
    def warp(self) -> NDArray[np.int64]:
        return np.arange(len(self.x)) // LANES


def check_block(block: Sequence[int]) -> tuple[int, int, int]:
    """``block`` as (x, y, z), if one block may have that shape."""
    sizes = (*block, 1, 1, 1)[:3] if 1 <= len(block) <= 3 else ()
    if len(sizes) != 3 or not all(_is_int(n) and n >= 1 for n in sizes):
        raise InputError(f"a block is one to three positive whole numbers, not {_show(list(block))}")
    if sizes[0] * sizes[1] * sizes[2] > 1024 or sizes[2] > 64:
        what = f"a block of {'x'.join(map(str, sizes))} threads is too large"
        raise InputError(what, hint="at most 1024 threads, 64 in z")
    return sizes[0], sizes[1], sizes[2]


def threads(block: Sequence[int] = (LANES,)) -> Threads:
    """The threads of one block of shape (x, y, z)."""
    nx, ny, nz = check_block(block)
    linear = np.arange(nx * ny * nz)
    return Threads(linear % nx, linear // nx % ny, linear // (nx * ny))


@dataclass(frozen=True, eq=False)
class Element:
    """``array[index]`` in every thread: where it lies (byte offsets) and how wide it is."""

    space: str
    width: int
    offsets: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Array:
    """A shared or global array: ``array[i, j]`` with index arrays gives an :class:`Element`."""

    space: str
    shape: tuple[int, ...]
    width: int

    def __getitem__(self, index: Any) -> Element:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != len(self.shape):
            raise InputError(f"{len(indices)} indices for an array of {len(self.shape)} dimensions")
        linear: NDArray[np.int64] = np.zeros(1, np.int64)
        for axis, (size, values) in enumerate(zip(self.shape, indices, strict=True)):
            values = np.asarray(values)
            if not np.issubdtype(values.dtype, np.integer):
                raise InputError(f"index {axis} must be whole numbers, not {values.dtype}")
            if values.size and not (0 <= values.min() and values.max() < size):
                runs = f"index {axis} runs from {values.min()} to {values.max()}"
                raise InputError(f"{runs}, the array from 0 to {size - 1}")
            linear = linear * size + values
        return Element(self.space, self.width, linear * self.width)


def _array(space: str, shape: int | Sequence[int], dtype: Any) -> Array:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not sizes or not all(_is_int(n) and n >= 1 for n in sizes):
        raise InputError(f"a shape is positive whole numbers, not {_show(list(sizes))}")
    try:
        width = np.dtype(dtype).itemsize
    except TypeError:
        hint = "a numpy dtype such as 'float32' or '4f4'"
        raise InputError(f"{_show(dtype)} is no element type", hint=hint) from None
    if width not in _WIDTHS:
        raise InputError(f"an element of {width} bytes is not one access", hint=f"use {_or(_WIDTHS)} bytes")
    return Array(space, sizes, width)


def shared_array(shape: int | Sequence[int], dtype: Any = "float32") -> Array:
    """An array at the start of shared memory; dtype as numpy spells it (``'4f4'`` for float4)."""
    return _array("shared", shape, dtype)


def global_array(shape: int | Sequence[int], dtype: Any = "float32") -> Array:
    """An array in global memory, aligned to 2 MB."""
    return _array("global", shape, dtype)


def load(element: Element, *, device: str = DEFAULT_DEVICE) -> BlockAccess:
    """Every thread reads its element."""
    return block_access(element.space, "load", element.width, element.offsets, device=device)


def store(element: Element, *, device: str = DEFAULT_DEVICE) -> BlockAccess:
    """Every thread writes its element."""
    return block_access(element.space, "store", element.width, element.offsets, device=device)


def block_access(
    space: str,
    op: str,
    width: int,
    offsets: NDArray[np.int64],
    active: NDArray[np.bool_] | None = None,
    *,
    device: str = DEFAULT_DEVICE,
) -> BlockAccess:
    """``offsets[t]`` for every thread t of a block, cut into warps; threads beyond the last are inactive."""
    flat = np.asarray(offsets, np.int64).reshape(-1)
    on = np.ones(len(flat), bool) if active is None else active
    asked = []
    for start in range(0, len(flat), LANES):
        values = [int(o) for o in flat[start : start + LANES]]
        mask = sum(1 << lane for lane, is_on in enumerate(on[start : start + LANES]) if is_on)
        values = [o if mask >> lane & 1 else 0 for lane, o in enumerate(values)]
        values += [0] * (LANES - len(values))
        row = {"space": space, "op": op, "width": width, "mask": mask, "offsets": values}
        asked.append(_check(row, f"warp {start // LANES}", device))
    return BlockAccess(tuple(_answer(asked, device)))

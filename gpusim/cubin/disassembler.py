"""Cubin to SASS text: nvdisasm, with its answers kept on disk by content.

Two questions are asked separately, because the second is only for reports: the instructions
(``-json``) and the number of live registers at each (``-lrm count``).
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpusim.cubin import cache, toolchain
from gpusim.cubin.toolchain import Place
from gpusim.errors import CubinError, ToolMissing

#: Function (section) name -> (opcode, operands, predicate) of every instruction in address order.
Listing = dict[str, list[tuple[str, str, str | None]]]


def disassemble(cubin: bytes, sha256: str, where: str) -> Listing:
    """What ``nvdisasm -json`` prints, without its frame."""
    place, entry = _nvdisasm("json 4", sha256)
    if (payload := cache.get("sass", entry)) is not None:
        return dict(json.loads(payload))
    text = _run(place, ["-json", "-c"], cubin, where)
    listing: Listing = {}
    try:
        section: list[tuple[str, str, str | None]] = []
        for function in json.loads(text, strict=False, object_pairs_hook=_first_wins)[1]:
            # nvdisasm 13.0 lists functions inside a section apart, after it, by their start in the section
            if not function["start"] or function["start"] != 16 * len(section):
                section = listing.setdefault(function["function-name"], [])
            section += [_fields(row) for row in function["sass-instructions"]]
    except (ValueError, LookupError, TypeError) as err:
        raise CubinError("nvdisasm printed a listing that cannot be read", where=where) from err
    cache.put("sass", entry, json.dumps(listing, separators=(",", ":")).encode())
    return listing


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def _fields(row: dict[str, Any]) -> tuple[str, str, str | None]:
    """Opcode, operands, guard of one row of nvdisasm -json.

    nvdisasm 13.5 takes the operand PR of ``P2R R26, PR, RZ, 0x1`` for the predicate: it prints
    ``"predicate":"PR", "operands":"R26,RZ,0x1"``, and for ``@P0 P2R R26, PR, RZ, 0x1`` two predicates,
    ``@P0`` and ``PR``, and ``"operands":"R26,@P0,RZ,0x1"``.  Behind any P2R it also leaves out the PR of
    ``R2P PR, R8, 0x3``.  All are put right here.
    """
    opcode, operands, guard = row["opcode"], row.get("operands", ""), row.get("predicate")
    if opcode.split(".")[0] == "R2P" and not operands.startswith("PR"):
        operands = f"PR,{operands}"
    if opcode.split(".")[0] == "P2R" and ",PR" not in operands:
        first, *rest = operands.split(",")
        operands = ",".join([first, "PR", *(o for o in rest if not o.startswith("@"))])
        guard = None if guard == "PR" else guard
    return opcode, operands, guard


_SECTION = re.compile(r"^\s*\.section\s+\"?\.text\.([^\",]+)")
_LIVE = re.compile(r"/\*([0-9a-f]{4,})\*/.*//\s*\|\s*(\d*)\s*\|")


def live_registers(cubin: bytes, sha256: str, where: str) -> dict[str, dict[int, int]]:
    """Function name -> byte address -> live general registers; trailing padding is not listed."""
    place, entry = _nvdisasm("live", sha256)
    if (payload := cache.get("sass", entry)) is not None:
        return {name: dict(pairs) for name, pairs in json.loads(payload).items()}
    out: dict[str, dict[int, int]] = {}
    current: dict[int, int] = {}
    for line in _run(place, ["-lrm", "count", "-c"], cubin, where).splitlines():
        if match := _SECTION.match(line):
            current = out.setdefault(match[1], {})
        elif match := _LIVE.search(line):
            current[int(match[1], 16)] = int(match[2] or 0)
    rows = {name: list(pairs.items()) for name, pairs in out.items()}
    cache.put("sass", entry, json.dumps(rows, separators=(",", ":")).encode())
    return out


def _nvdisasm(question: str, sha256: str) -> tuple[Place, str]:
    place = toolchain.find_program("nvdisasm")
    if place is None:
        raise ToolMissing(
            "decoding a cubin needs nvdisasm, which is not on this machine",
            hint=toolchain.HINTS["nvdisasm"],
        )
    return place, cache.key("nvdisasm", question, place.stamp(), sha256)


def _run(place: Place, options: Sequence[str], cubin: bytes, where: str) -> str:
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = Path(folder, "input.cubin")
        path.write_bytes(cubin)
        result = toolchain.run([place.path, *options, str(path)])
    if result.returncode:
        said = (result.stderr or result.stdout).replace(str(path), where).strip()
        raise CubinError(
            f"nvdisasm cannot decode the cubin: {said[:500] or f'it ended with {result.returncode}'}",
            where=where,
        )
    return result.stdout

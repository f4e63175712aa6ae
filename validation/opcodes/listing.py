"""Many loose encodings to text: nvdisasm on raw instruction words, surviving those it rejects.

nvdisasm names the address of every word it cannot decode before it gives up, so two calls answer a batch of
any size: one that collects the bad addresses, one without them.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpusim.cubin import disassembler, toolchain
from gpusim.cubin.elf import INSTRUCTION_BYTES
from gpusim.errors import CubinError, ToolMissing, UnsupportedError
from gpusim.isa.instruction import Instruction
from gpusim.isa.sass import parse_instruction

_BAD = re.compile(r"at address 0x([0-9a-f]+)")
BATCH = 40_000


def decode(encodings: Sequence[int], arch: str = "SM90") -> list[Instruction | None]:
    """What each 128-bit word is on ``arch``; None where nvdisasm, or the parser, does not know it."""
    out: list[Instruction | None] = []
    for start in range(0, len(encodings), BATCH):
        out += _decode(encodings[start : start + BATCH], arch)
    return out


def _decode(encodings: Sequence[int], arch: str) -> list[Instruction | None]:
    good = list(range(len(encodings)))
    while good:
        status, text, errors = _nvdisasm([encodings[i] for i in good], arch)
        if status == 0:
            break
        bad = {int(a, 16) // INSTRUCTION_BYTES for a in _BAD.findall(errors)}
        if not bad:
            raise CubinError(f"nvdisasm cannot decode raw words: {errors[:300]}")
        good = [i for k, i in enumerate(good) if k not in bad]
    out: list[Instruction | None] = [None] * len(encodings)
    if not good:
        return out
    functions = json.loads(text, strict=False, object_pairs_hook=disassembler._first_wins)[1]
    rows = [row for function in functions for row in function["sass-instructions"]]
    if len(rows) != len(good):
        raise CubinError(f"nvdisasm lists {len(rows)} of {len(good)} raw words")
    for i, row in zip(good, rows, strict=True):
        try:
            opcode, operands, guard = disassembler._fields(row)
            out[i] = parse_instruction(0, opcode, operands, guard, encodings[i])
        except (UnsupportedError, ValueError):
            out[i] = None
    return out


def _nvdisasm(encodings: Sequence[int], arch: str) -> tuple[int, str, str]:
    place = toolchain.find_program("nvdisasm")
    if place is None:
        raise ToolMissing("decoding needs nvdisasm", hint=toolchain.HINTS["nvdisasm"])
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = Path(folder, "raw.bin")
        path.write_bytes(b"".join(e.to_bytes(INSTRUCTION_BYTES, "little") for e in encodings))
        result = toolchain.run([place.path, "-b", arch, "-ndf", "-json", str(path)])
    return result.returncode, result.stdout, result.stderr

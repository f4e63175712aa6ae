"""Operands of matrix instructions beside the fragments: signs, and the uniform predicate that adds C.

Found on an H200 (validation/measurements/h200/opcodes.json); the checks are those of test_opcodes_warp.
"""

from __future__ import annotations

import pytest
import test_opcodes_warp as warp
from opcode_harness import Opcode

from gpusim.errors import UnsupportedError

IMMA = (
    "IMMA.16832.S8.U8 R8, R12.ROW, R16.COL, R20, UP1",
    "IMMA.8816.U8.S8 R8, R12.ROW, R16.COL, R20, !UP1",
)
HMMA = (
    "HMMA.16816.F16 R8, -R12, R16, R20, UP1",
    "HMMA.16816.F32.BF16 R8, R12, -R16, R20, !UP1",
    "HMMA.1684.F32.TF32 R8, -R12, R16, R20, UP1",
    "HMMA.1688.F32.TF32 R8, -R12, -R16, R20",
    "HMMA.1688.F32 R8, -R12, R16, R20, !UP1",
)
DMMA = (
    "DMMA.8x8x4 R8, |R2|, -|R4|, -R8, UP1",
    "DMMA.8x8x4 R8, -R2, R4, |R8|, !UP1",
    "DMMA.8x8x4 R8, R2, -R4, -|R8|",
)
#: Illegal instructions on the card, and operands that no encoding is known to have.
REFUSED = (
    "HMMA.1684.F32 R8, R12, R16, R20",
    "HMMA.16816.F16.TF32 R8, R12, R16, R20",
    "HMMA.16816.F32 R8, R12, R16, -R20",
    "IMMA.8816.U8.S8 R8, -R12.ROW, R16.COL, R20",
)


@pytest.mark.parametrize("form", IMMA)
def test_imma(form: str) -> None:
    warp.test_imma(form)


@pytest.mark.parametrize("form", HMMA)
def test_hmma(form: str) -> None:
    warp.test_hmma_integers_are_exact(form)
    warp.test_hmma_specials(form)


@pytest.mark.parametrize("form", DMMA)
def test_dmma(form: str) -> None:
    warp.test_dmma(form)


@pytest.mark.parametrize("form", REFUSED)
def test_refused_by_name(form: str) -> None:
    with pytest.raises(UnsupportedError, match="not supported"):
        Opcode(form)

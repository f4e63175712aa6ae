"""Why some forms differ from the card: one entry a cause, matched by row and text.

``compare`` writes the reason of the first entry that fits into the record; a differing form without one fails
the test of the record.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch

#: (row glob, regular expression found in the text, reason).
REASONS: list[tuple[str, str, str]] = [
    ("LD*", r" \[R28(?!\.64)", "sm_90 has no global address in half a register pair; sm_75 writes all so"),
    ("ST*", r" \[R28(?!\.64)", "sm_90 has no global address in half a register pair; sm_75 writes all so"),
    ("REDG", r" \[R28(?!\.64)", "sm_90 has no global address in half a register pair; sm_75 writes all so"),
    ("ATOMS", r"CAS\.(S32|64)", "sm_90 has CAST.SPIN in its place; earlier architectures execute it"),
    ("S2UR", "SR_", "refused: no compiled code reads these registers so, and S2R reads them"),
    ("CS2R*", "SR_", "refused: no compiled code reads these registers so, and S2R reads them"),
    ("R2UR", "OR", "refused: no compiled code has it, and its meaning was not looked for"),
    ("QSPC", "QSPC", "refused: with a destination register, whose content was not looked for"),
    ("FRND", "FTZ.F16", "refused: what it makes of a denormal half was not measured"),
]


def why(row: str, sass: str) -> str:
    """The reason a form of ``row`` differs, or an empty text."""
    return next((r for glob, text, r in REASONS if fnmatch(row, glob) and re.search(text, sass)), "")

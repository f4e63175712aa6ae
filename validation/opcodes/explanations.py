"""Why some forms differ from the card: one entry a cause, matched by row and text.

``compare`` writes the reason of the first entry that fits into the record; a differing form without one fails
the test of the record.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch

#: (row glob, regular expression found in the text, reason).
REASONS: list[tuple[str, str, str]] = []


def why(row: str, sass: str) -> str:
    """The reason a form of ``row`` differs, or an empty text."""
    return next((r for glob, text, r in REASONS if fnmatch(row, glob) and re.search(text, sass)), "")

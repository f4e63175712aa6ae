"""What a claim is: parts with conditions over the numbers, evidence from both sides, and a verdict.

All parts hold: true; none: false; else partly.  The texts' own figures (:class:`Text`) are what is judged,
not facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gpusim.expression import answer_expression
from gpusim.validation.claims.book import Book


class Text:
    """What the source texts state."""

    GAIN = (12.0, 13.0)  # A1 to A2
    STRIDE = (1418.0, 111.0)  # GB/s: small stride, one word a DRAM page
    PAGE_WORDS = 256  # 1 KiB
    C2_BLOCKS, C2_OCCUPANCY, C2_SHARED = 24, 75.0, 8 * 1024
    #: TFLOP/s on an H100, lowest and highest, by step.
    H100: ClassVar[dict[str, tuple[float, float]]] = {
        "A1": (0.5, 0.5), "A2": (6.3, 6.3), "A3": (9.0, 9.0), "A4": (20.0, 20.0), "A5": (25.8, 25.8),
        "A6": (25.0, 26.0), "A7": (25.0, 26.0), "A8": (25.0, 26.0),
    }  # fmt: skip


#: "Equals": within this share of the larger number.
EQUAL = 0.1


@dataclass(frozen=True, slots=True)
class Part:
    """One statement of a claim; condition: what ``holds`` was computed from, in words and numbers."""

    statement: str
    condition: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quantity, the launch (record id, or words) and both sides as shown."""

    what: str
    where: str
    predicted: str
    measured: str


@dataclass(frozen=True, slots=True)
class Claim:
    number: int
    title: str
    parts: tuple[Part, ...]
    evidence: tuple[Evidence, ...]
    conclusion: str

    @property
    def verdict(self) -> str:
        held = [part.holds for part in self.parts]
        return "true" if all(held) else "partly" if any(held) else "false"


NONE = "–"
SECTORS = "`l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum`"
WAVEFRONTS = "`memory_l1_wavefronts_shared` / `…_ideal`"


def number(value: float, digits: int = 0) -> str:
    return f"{value:,.{digits}f}"


def near(a: float, b: float) -> bool:
    return abs(a - b) <= EQUAL * max(abs(a), abs(b))


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def both(book: Book, what: str, id: str, *names: str) -> Evidence:
    """Exact counters on both sides, separated by slashes."""
    sides = (book.predicted(id), book.measured(id))
    predicted, measured = (" / ".join(number(side[name]) for name in names) for side in sides)
    return Evidence(what, id, predicted, measured)


def executions(book: Book, what: str, id: str, access: str) -> Evidence:
    sides = (book.predicted(id), book.measured(id))
    predicted, measured = (number(side.accesses.get(access, 0)) for side in sides)
    return Evidence(f"{what} (`{access}`)", id, predicted, measured)


def time_of(book: Book, id: str) -> Evidence:
    warm = book.warm(id)
    shown = f"{number(warm['median_us'], 2)} µs (spread {warm['spread_pct']:.1f} %)"
    return Evidence("warm time", id, NONE, shown)


def wavefronts(expression: str, block: Sequence[int], array: str, op: str = "load") -> int:
    """Shared wavefronts of one warp access with k = 3, from the C expression alone."""
    result = answer_expression(expression, block=block, shared=[array], lets=["k=3"], op=op).result
    assert result.wavefronts is not None  # shared memory always has them
    return result.wavefronts


def sectors(expression: str, block: Sequence[int]) -> int:
    """Global sectors of one warp load with k = 3, from the C expression alone."""
    result = answer_expression(expression, block=block, global_=["float A[]"], lets=["k=3"]).result
    assert result.sectors is not None  # global memory always has them
    return result.sectors


def access_wavefronts(expression: str, edge: int, measured: str) -> Evidence:
    """A read of a square tile as a row of evidence, with the command that repeats it."""
    array = f"float As[{edge}][{edge}]"
    command = f"gpusim access '{expression}' --block {edge},{edge} --shared '{array}' --let k=3"
    return Evidence(f"wavefronts of `{command}`", "any warp",
                    str(wavefronts(expression, (edge, edge), array)), measured)  # fmt: skip

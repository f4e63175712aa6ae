"""Numbers and units as Nsight Compute prints them, in any locale and at any scale.

Nsight Compute formats numbers by the locale of the process (``1,234.5`` ``1.234,5`` ``1 234,5``
``1'234.5``) and, unless told ``--print-units base``, scales units (``1.23 Mbyte``).  A convention is decided
from all numbers of a file together, because ``1.234`` alone says nothing; what stays ambiguous is refused.
Every value becomes a :class:`Value` in base units (byte, ns, hz, counts) that remembers how coarsely it was
printed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from gpusim.errors import InputError

HINT = "export again with LC_ALL=C and --print-units base: LC_ALL=C ncu -i F.ncu-rep --csv --print-units base"

#: Spaces that locales group digits with, apostrophes and the typographic minus, as plain characters.
_PLAIN = str.maketrans("\u00a0\u202f\u2009\u2007\u2019\u02bc\u2212", "    ''-")

#: Words that stand where a number is missing.
MISSING = frozenset({"", "-", "n/a", "na", "nan", "-nan", "inf", "-inf", "no data", "none", "null"})

#: Decimals that Nsight Compute prints of a scaled value; a whole number then stands for ``x.00``.
SCALED_DECIMALS = 2


@dataclass(frozen=True, slots=True)
class Value:
    """A measured number in base units, and what was printed.

    half_step: half of the last printed digit, in base units; 0 for a number printed in full.
    text, printed_unit: verbatim, as ``1.23`` and ``Mbyte``.
    """

    number: int | float
    unit: str
    half_step: float = 0.0
    text: str = ""
    printed_unit: str = ""

    @property
    def rounded(self) -> bool:
        """Whether the profiler rounded a scaled value, so that only its printed digits can be compared."""
        return self.half_step > 0 and self.unit != self.printed_unit


@dataclass(frozen=True, slots=True)
class Convention:
    """How a file writes numbers: decimal mark and group mark (empty where none was seen)."""

    decimal: str
    group: str

    def read(self, text: str) -> tuple[int | float, int] | None:
        """(number, decimals printed) of a plain text, or None where this convention cannot read it."""
        match = _pattern(self).fullmatch(text)
        if match is None:
            return None
        sign, whole, fraction, exponent = match.groups()
        if exponent and len(exponent) > 4:  # no counter has that many digits
            return None
        digits = whole.replace(self.group, "") if self.group else whole
        decimals = len(fraction or "") - int(exponent or 0)
        if fraction is None and exponent is None:
            return (-1 if sign == "-" else 1) * int(digits), 0
        return float(f"{sign}{digits}.{fraction or 0}e{exponent or 0}"), decimals


@lru_cache
def _pattern(convention: Convention) -> re.Pattern[str]:
    """Whole numbers may stand without groups; Indian groups of two are read too."""
    mark, whole = re.escape(convention.group), r"\d+"
    if mark:
        whole = rf"[1-9]\d{{0,2}}(?:{mark}\d{{3}})+|[1-9]\d?(?:{mark}\d\d)+{mark}\d{{3}}|\d+"
    return re.compile(rf"([-+]?)({whole})(?:{re.escape(convention.decimal)}(\d+))?(?:[eE]([-+]?\d+))?", re.A)


CONVENTIONS = tuple(
    Convention(decimal, group)
    for decimal, groups in ((".", ("", ",", " ", "'")), (",", ("", ".", " ", "'")))
    for group in groups
)
_NUMBER_LIKE = re.compile(r"[-+]?\d[\d., ']*(?:[eE][-+]?\d+)?")


def plain(text: str) -> str:
    """A cell without its percent sign and instance values (``12 (1; 2)``), with plain spaces."""
    text = text.translate(_PLAIN).strip()
    return re.split(r"\s*[({]", text, maxsplit=1)[0].removesuffix("%").strip() if text else text


def decide(texts: Iterable[str], counts: Collection[str] = (), where: str = "") -> Convention:
    """The one convention that reads every number of a file.

    texts: plain cells (:func:`plain`); counts: those of them that must be whole numbers.
    Raises InputError where none fits, or where several do and give different numbers.
    """
    numbers = sorted({t for t in texts if not t.isdigit() and _NUMBER_LIKE.fullmatch(t)})
    numbers = [t for t in numbers if any(c.read(t) is not None for c in CONVENTIONS)]
    fits = [c for c in CONVENTIONS if all(c.read(t) is not None for t in numbers)]
    if not fits:
        raise InputError(_contradiction(numbers), where=where, hint=HINT)

    def agree(conventions: list[Convention]) -> bool:
        return all(len({c.read(t) for c in conventions}) == 1 for t in numbers)

    if agree(fits):
        return fits[0]
    marked = set(numbers)
    whole = [t for t in counts if t in marked]
    ungrouped = any(t.isdigit() and len(t) >= 5 for t in texts)
    for keep in (
        lambda c: all(_is_count(*c.read(t)) for t in whole),
        lambda c: not (c.group and ungrouped),  # a file that groups digits groups them everywhere
    ):
        fits = [c for c in fits if keep(c)] or fits
        if agree(fits):
            return fits[0]
    example = next(t for t in numbers if len({c.read(t) for c in fits}) > 1)
    readings = sorted({f"{c.read(example)[0]:g}" for c in fits})  # type: ignore[index]
    raise InputError(
        f"{example!r} can be read as {' or '.join(readings)}, and nothing else in the file decides it",
        where=where,
        hint=HINT,
    )


def _is_count(number: float, decimals: int) -> bool:
    """No fractions of an instruction, and 25 is not printed as ``25.000`` (``--print-fp``: six decimals)."""
    return float(number).is_integer() and decimals != 3


def _contradiction(numbers: list[str]) -> str:
    """Two numbers that no one convention reads."""
    for first in numbers:
        for second in numbers[:1000]:
            if not any(c.read(first) is not None and c.read(second) is not None for c in CONVENTIONS):
                return f"{first!r} and {second!r} follow different number formats"
    return f"the numbers follow different formats ({', '.join(map(repr, numbers[:4]))}, ...)"


_TIME = {"s": 1e9, "second": 1e9, "ms": 1e6, "msecond": 1e6, "us": 1e3, "usecond": 1e3, "µs": 1e3, "μs": 1e3,
         "ns": 1, "nsecond": 1}  # fmt: skip
_PREFIX = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_SCALABLE = re.compile(
    r"([kmgtp]?)(byte|hz|cycle|inst|instruction|sector|request|thread|warp|block|wavefront)s?"
)


def base_unit(unit: str) -> tuple[str, int | float]:
    """(base unit, factor to it): ``Kbyte/block`` is (``byte/block``, 1000), ``usecond`` (``ns``, 1000).

    Nsight Compute's prefixes are decimal.  A unit this does not know stays as it is, with factor 1.
    """
    text = unit.strip()
    above, _, below = text.partition("/")
    if text.lower() in _TIME:
        return "ns", _TIME[text.lower()]
    match = _SCALABLE.fullmatch(above.lower())
    if match is None:
        return text, 1
    factor: int | float = _PREFIX.get(match[1], 1)
    name = match[2]
    if below.lower() in _TIME:  # a rate: a second is the base
        factor = factor * 1e9 / _TIME[below.lower()]
        return ("hz" if name == "cycle" else f"{name}/s"), int(factor) if factor >= 1 else factor
    return (f"{name}/{below}" if below else name), factor


def value(text: str, unit: str, convention: Convention) -> Value | None:
    """A cell as a :class:`Value`; None where it holds no number."""
    cleaned = plain(text)
    if cleaned.lower() in MISSING:
        return None
    read = convention.read(cleaned)
    if read is None:
        return None
    number, decimals = read
    unit = unit.strip() or ("%" if text.rstrip().endswith("%") else "")
    base, factor = base_unit(unit)
    half = 0.0
    if decimals:
        half = 0.5 * 10.0**-decimals * factor
    elif factor != 1:
        half = 0.5 * 10.0**-SCALED_DECIMALS * factor
    if factor != 1:
        number = number * factor if decimals == 0 else _scaled(number, factor)
    return Value(number, base, half, text.strip(), unit)


def _scaled(number: float, factor: int | float) -> int | float:
    """A product without the last binary digits' noise: 1.1 Kbyte is 1100, not 1100.0000000000002."""
    product = float(f"{number * factor:.15g}")
    return int(product) if product.is_integer() and abs(product) < 2**53 else product


__all__ = ["Convention", "Value", "base_unit", "decide", "plain", "value"]

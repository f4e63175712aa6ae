"""Pages as Nsight Compute lays them out, written from known numbers in any locale, without the parser."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

IDENTITY = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
            "Grid Size", "Device", "CC")  # fmt: skip


@dataclass(frozen=True)
class Locale:
    """How a locale prints numbers, written independently of the parser."""

    name: str
    decimal: str
    group: str
    delimiter: str = ","

    def format(self, number: float, decimals: int | None = None) -> str:
        """Groups of three; whole numbers without decimals unless some are asked for."""
        if decimals is None:
            decimals = 0 if float(number).is_integer() else 2
        text = f"{number:,.{decimals}f}"
        return text.replace(",", "\0").replace(".", self.decimal).replace("\0", self.group)


LOCALES = [
    Locale("C", ".", ""),
    Locale("en_US", ".", ","),
    Locale("de_DE", ",", "."),
    Locale("de_DE spreadsheet", ",", ".", ";"),
    Locale("fr_FR", ",", "\u202f"),
    Locale("fr_FR old", ",", "\u00a0", "\t"),
    Locale("pl_PL", ",", " "),
    Locale("de_CH", ".", "’"),
    Locale("de_CH old", ".", "'"),
    Locale("si", ".", "\u202f"),
]
IDS = [locale.name for locale in LOCALES]


def text_of(rows: Iterable[Sequence[str]], delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


def identity(
    id: int, name: str = "sgemm(const float *, int)", grid: str = "(4, 8, 1)", block: str = "(16, 16, 1)"
) -> tuple[str, ...]:
    return (str(id), "77", "app", "127.0.0.1", name, "1", "7", block, grid, "0", "9.0")


def raw_page(
    launches: Sequence[Mapping[str, tuple[str, str]]],
    delimiter: str = ",",
    identities: Sequence[tuple[str, ...]] | None = None,
) -> str:
    """A raw page: metrics as name -> (text, unit); identities: the first columns of each launch."""
    identities = identities or [identity(k) for k in range(len(launches))]
    names = list(launches[0])
    rows: list[Sequence[str]] = [(*IDENTITY, *names)]
    rows.append(("",) * len(IDENTITY) + tuple(launches[0][n][1] for n in names))
    rows += [(*who, *(m[n][0] for n in names)) for who, m in zip(identities, launches, strict=True)]
    return text_of(rows, delimiter)


def details_page(rows: Iterable[tuple[int, str, str, str, str]], delimiter: str = ",") -> str:
    """A details page: (id, section, metric, unit, value), with the rules' columns of today's versions."""
    rules = ("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup")
    header = (*IDENTITY, "Section Name", "Metric Name", "Metric Unit", "Metric Value", *rules)
    return text_of([header, *((*identity(r[0]), *r[1:], "", "", "", "", "") for r in rows)], delimiter)

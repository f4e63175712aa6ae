"""The command behind ``docs/claims.md``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gpusim.errors import GpusimError
from gpusim.output import atomic_write
from gpusim.validation.claims import figures, page
from gpusim.validation.claims.book import PREDICTED, Book, predict, write_predictions


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page; 0, or 2 with a message for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m gpusim.validation.claims",
        description="Print docs/claims.md from the H200's records and the kept predictions.",
    )
    parser.add_argument("--figures", metavar="DIR", type=Path, help="write the two pictures into a folder")
    parser.add_argument("--simulate", action="store_true", help="make the predictions anew and keep them")
    parser.add_argument("--jobs", type=int, help="threads of the simulation (default: all cores)")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.simulate:
            write_predictions(predict(Book(predictions={}), PREDICTED, chosen.jobs))
        book = Book()
        text = page.page(book)
        if chosen.figures is not None:
            atomic_write(chosen.figures / "claims-ladder.png", figures.ladder(book))
            atomic_write(chosen.figures / "claims-stride.png", figures.stride(book))
    except GpusimError as error:
        print(error.message(), file=sys.stderr)
        return 2
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

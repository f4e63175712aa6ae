"""``python -m gpusim.kernels``: print the catalog table; ``--write``: renew it in README.md."""

from __future__ import annotations

import argparse
import sys

from gpusim.errors import GpusimError
from gpusim.kernels.listing import README, markdown_table, readme_with_table


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gpusim.kernels", description="The kernel catalog as a Markdown table."
    )
    parser.add_argument("--write", action="store_true", help=f"renew the table in {README.name}")
    if not parser.parse_args(argv).write:
        sys.stdout.write(markdown_table() + "\n")
        return 0
    try:
        README.write_text(readme_with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
    except (GpusimError, OSError) as error:  # an installed package carries no README.md
        sys.stderr.write(f"{error}\n")
        return GpusimError.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

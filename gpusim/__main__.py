"""``python -m gpusim`` is the ``gpusim`` command."""

from __future__ import annotations

import sys

from gpusim.cli import main

if __name__ == "__main__":
    sys.exit(main())

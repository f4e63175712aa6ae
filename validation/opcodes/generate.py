"""Find all forms and write the bundle for the GPU machine.

``python -m gpusim.validation.opcodes.generate BUNDLE [CACHE]``: about fifteen minutes on one core; CACHE
keeps
what the exploration found (the slow part) for the next time.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpusim import kernels, program
from gpusim.errors import GpusimError
from gpusim.isa.opcodes import TABLE
from gpusim.validation.launches import CASES, PROBES
from gpusim.validation.opcodes import bundle, explore, memory, special
from gpusim.validation.opcodes.encode import get
from gpusim.validation.opcodes.forms import Form, bound_of, dress, normal, signature
from gpusim.validation.opcodes.listing import decode

#: Rows with forms of their own kind, or none: explored by ``memory``, built by ``special``.
APART = memory.ROWS | {
    "S2R",
    "S2UR",
    "CS2R",
    "CS2R.32",
    "LDC",
    "LDC.64",
    "ULDC",
    "ULDC.64",
    "BMOV",
    "B2R.RESULT",
}
MOST, EXTRA = 90, 1.0  # forms of a row: at most so many by coverage, and so many times as many again


def compiled() -> list[int]:
    """One encoding of every opcode, modifier set and operand form in compiled code."""
    seen: dict[tuple[Any, ...], int] = {}

    def add(module: program.Module) -> None:
        for kernel in [*module.kernels.values(), *module.functions.values()]:
            for i in kernel.instructions:
                key = (get(i.encoding, 0, 12), i.name, tuple(o.kind for o in i.operands))
                seen.setdefault(key, i.encoding)

    for path in sorted((CASES / "cubins").glob("*.cubin")):
        add(program.load(path))
    add(program.compile(PROBES, arch="sm_90"))
    for row in kernels.all_kernels():
        try:
            add(program.compile(row.path, arch="sm_90", options=row.options, include_dirs=(row.path.parent,)))
        except GpusimError as error:
            print(f"{row.id}: {error.message()}", file=sys.stderr)
    return list(seen.values())


def found_forms(known: list[int], rng: random.Random) -> Iterator[int]:
    """Accepted encodings of all opcodes, one a signature."""
    for opcode, starts in sorted(explore.seeds(known, rng).items()):
        taken, _ = explore.accepted(explore.mutants(opcode, starts, rng))
        yield from taken.values()


def register_forms(found: list[int], known: list[int], rng: random.Random) -> list[Form]:
    """Chosen and dressed forms of the rows that compute in registers."""
    taken, _ = explore.accepted([*found, *(normal(e) for e in known)])
    by: dict[str, dict[tuple[Any, ...], int]] = defaultdict(dict)
    for i in decode(list(taken.values())):
        b = bound_of(i)
        if i is not None and b is not None and not b.row.control and b.row.name not in APART:
            by[b.row.name][signature(i)] = i.encoding
    chosen = [e for _, forms in sorted(by.items()) for e in explore.choose(forms, rng, MOST, EXTRA)]
    cleaned = explore.clean(chosen, explore.references(known))
    return dress([*cleaned, *explore.with_values(cleaned, rng)])


def all_forms(cache: Path | None = None) -> list[Form]:
    """Register, memory and special forms."""
    if cache is not None and cache.exists():
        stored = json.loads(cache.read_text(encoding="utf-8"))
        known, found = ([int(e, 16) for e in stored[k]] for k in ("compiled", "found"))
    else:
        known = compiled()
        found = list(found_forms(known, random.Random(5)))
        if cache is not None:
            cache.write_text(
                json.dumps({"compiled": [f"{e:x}" for e in known], "found": [f"{e:x}" for e in found]})
            )
    forms = register_forms(found, known, random.Random(1))
    forms += memory.build(memory.explore(known, explore.references(known), random.Random(3)))
    return list({f.key: f for f in [*forms, *special.build()]}.values())


def main(folder: Path, cache: Path | None = None) -> int:
    forms = all_forms(cache)
    report = bundle.write(folder, forms)
    rows = {f.row for f in forms}
    print(f"{report['forms']} forms of {len(rows)} rows; the simulator refuses {len(report['refused'])}")
    for row in report["refused"]:
        print("refused", row["sass"], "|", row["refused"].splitlines()[0][:150])
    print("rows without a form:", " ".join(r for r in TABLE.rows if r not in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(*(Path(a) for a in sys.argv[1:3])))

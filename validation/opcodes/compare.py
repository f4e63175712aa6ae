"""Compare what a GPU left with the simulator, form by form, and write the record.

``python -m gpusim.validation.opcodes.compare BUNDLE OUT [RECORD.json]``: BUNDLE as it was run, OUT as
``device`` wrote it.  Prints a line for every form that is not bit for bit equal, with the first threads that
differ, and a summary by row.  The record holds every form with the SHA-256 of what the card left.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.isa.opcodes import TABLE
from gpusim.output import atomic_write
from gpusim.validation.opcodes import launch
from gpusim.validation.opcodes.device import initial
from gpusim.validation.opcodes.explanations import why
from gpusim.validation.opcodes.forms import Form
from gpusim.validation.opcodes.simulate import Runner
from gpusim.validation.opcodes.template import Template

SHOWN = 4
NAMES = [
    "R24",
    "R25",
    "R26",
    "R27",
    "UR24",
    "UR25",
    "UR26",
    "UR27",
    "P",
    "UP",
    "-",
    "-",
    *(f"shared{k}" for k in range(16)),
    *(f"local{k}" for k in range(16)),
]


def read_templates(bundle: Path, places: dict[str, Any]) -> dict[str, Template]:
    return {
        k: Template((bundle / p["cubin"]).read_bytes(), p["slot"], p["start"], p["end"])
        for k, p in places.items()
    }


class Kept:
    """Output words the device kept: only those that changed, of forms that differed from the simulator
    then.
    """

    def __init__(self, folder: Path) -> None:
        self.data: dict[int, dict[str, np.ndarray]] = defaultdict(dict)
        for path in sorted(folder.glob("outputs*.npz")):
            with np.load(path) as content:
                for name in content.files:
                    index, _, column = name.partition(":")
                    self.data[int(index)][column] = content[name]

    def out(self, index: int, form: dict[str, Any]) -> np.ndarray | None:
        """Output records (maybe only the first ones) or None if they were not kept."""
        if index not in self.data:
            return None
        out, columns = initial(form), self.data[index]
        few = min([len(v) for k, v in columns.items() if k.isdigit()], default=len(out))
        out = out[:few]
        for k, v in columns.items():
            if k.isdigit():
                out[:, int(k)] = v[:few]
        return out

    def scratch(self, index: int, form: dict[str, Any]) -> np.ndarray:
        """Global scratch of a memory form, as the card left it (places kept may be only the first ones)."""
        after = launch.arrays(form)[3]
        columns = self.data[index]
        if "scratch_at" in columns:
            after[columns["scratch_at"]] = columns["scratch"]
        return after


def distance(want: np.ndarray, got: np.ndarray, bits: int = 32) -> np.ndarray:
    """Units in the last place between two floats given as words; NaN equals NaN."""
    sign, fraction = 1 << (bits - 1), {32: 23, 16: 10}[bits]
    inf = sign - (1 << fraction)

    def ordered(v: np.ndarray) -> np.ndarray:
        v = v.astype(np.int64)
        return np.where(v & sign, -(v & (sign - 1)), v)

    nan = [(v.astype(np.int64) & (sign - 1)) > inf for v in (want, got)]
    d = np.abs(ordered(want) - ordered(got))
    d[nan[0] & nan[1]] = 0
    d[nan[0] ^ nan[1]] = 1 << 40
    return d


def describe(form: dict[str, Any], want: np.ndarray, got: np.ndarray) -> Iterator[str]:
    """Lines about the threads that differ."""
    thread, warp, _, _ = launch.arrays(form)
    _, block, _ = launch.shape(form)
    want = want[: len(got)]
    lanes = np.flatnonzero((want != got).any(axis=1))
    words = Counter(int(c) for c in np.nonzero(want != got)[1])
    yield (
        f"   {len(lanes)} of {len(got)} threads differ, in "
        + ", ".join(f"{NAMES[c]} ({n})" for c, n in sorted(words.items())[:8])
    )
    step = max(1, len(lanes) // SHOWN)
    for lane in lanes[::step][:SHOWN]:
        c = int(np.flatnonzero(want[lane] != got[lane])[0])
        source = thread[lane]
        regs = " ".join(f"{n}={source[4 * k]:08x}:{source[4 * k + 1]:08x}" for k, n in enumerate("abc"))
        u = warp[lane // block]
        uregs = " ".join(f"u{n}={u[4 * k]:08x}" for k, n in enumerate("abc"))
        yield (
            f"   thread {lane}: {regs} {uregs} P={source[16] & 127:02x} UP={u[16] & 127:02x}: "
            f"{NAMES[c]} simulator {want[lane, c]:08x} card {got[lane, c]:08x}"
        )


def compare(bundle: Path, folder: Path, show: Any = print) -> dict[str, Any]:
    """The record; ``show`` is called with every line of the report."""
    index = json.loads((bundle / "forms.json").read_text(encoding="utf-8"))
    device = json.loads((folder / "opcodes_device.json").read_text(encoding="utf-8"))
    results, kept = device["results"], Kept(folder)
    forms = [Form.from_json(f) for f in index["forms"]]
    runner = Runner(read_templates(bundle, index["templates"]))
    rows: list[dict[str, Any]] = []
    for k, (form, out, digest, error) in enumerate(runner.run(forms)):
        raw = index["forms"][k]
        found = results.get(launch.key(raw))
        if found is None:
            continue
        row = {name: raw[name] for name in ("row", "sass", "code", "kinds", "template", "uniform")}
        row |= {name: raw[name] for name in ("offsets", "note") if raw.get(name)}
        row["inputs"] = launch.shape(raw)[2]
        row |= {name: found[name] for name in ("sha256", "error", "varies") if name in found}
        row["equal"] = digest == found.get("sha256")
        if error:
            row["refused"] = error
        rows.append(row)
        if row["equal"]:
            continue
        if reason := why(form.row, form.sass):
            row["why"] = reason
        state = (
            "error on the card: " + row["error"]
            if "error" in row
            else "refused here: " + error
            if error
            else ""
        )
        show(f"{form.row}: {form.sass}{' VARIES' if row.get('varies') else ''} {state}")
        got = kept.out(k, raw)
        if out is None or got is None:
            continue
        for line in describe(raw, out, got):
            show(line)
        if form.template == "memory":
            card = kept.scratch(k, raw)
            words = np.flatnonzero(card != runner.scratch)
            show(
                f"   scratch: {len(words)} words differ "
                + ", ".join(
                    f"word {p}: simulator {runner.scratch[p]:08x} card {card[p]:08x}" for p in words[:SHOWN]
                )
            )
        if TABLE.rows[form.row].bound and form.row.startswith("MUFU"):
            bits = 32 if "F16" not in form.sass else 16
            mask = (1 << bits) - 1
            row["max_ulp"] = int(distance(out[: len(got), 0] & mask, got[:, 0] & mask, bits).max())
            show(f"   largest difference {row['max_ulp']} ulp")
    places = {k: {**p, "cubin": f"opcodes/{k}.cubin"} for k, p in index["templates"].items()}
    return {"schema": "gpusim.opcodes/1", "versions": device["versions"], "templates": places, "forms": rows}


def summary(record: dict[str, Any]) -> Iterator[str]:
    """A line a row that has differences, then the total."""
    by: dict[str, Counter[str]] = defaultdict(Counter)
    for row in record["forms"]:
        state = (
            "equal"
            if row["equal"]
            else "error"
            if "error" in row
            else "refused"
            if "refused" in row
            else f"max_ulp {row['max_ulp']}"
            if "max_ulp" in row
            else "differs"
        )
        by[row["row"]][state] += 1
    for name, states in sorted(by.items()):
        if set(states) != {"equal"}:
            yield f"{name:24}" + ", ".join(f"{n} {s}" for s, n in states.most_common())
    total: Counter[str] = sum(by.values(), Counter())
    yield f"{len(record['forms'])} forms of {len(by)} rows: " + ", ".join(
        f"{n} {s}" for s, n in total.most_common()
    )


def main(bundle: Path, folder: Path, target: Path | None = None) -> int:
    record = compare(bundle, folder)
    for line in summary(record):
        print(line)
    if target is not None:
        index = json.loads((bundle / "forms.json").read_text(encoding="utf-8"))
        for name, place in record["templates"].items():
            path = target.parent / place["cubin"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((bundle / index["templates"][name]["cubin"]).read_bytes())
        lines = ",\n".join(json.dumps(row) for row in record.pop("forms"))  # a form a line
        atomic_write(target, json.dumps(record)[:-1] + ', "forms": [\n' + lines + "\n]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*(Path(a) for a in sys.argv[1:4])))

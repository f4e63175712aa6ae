"""Launches for the opcodes whose effect is where threads go, or nothing: on the card and in the simulator.

``compiled:`` and ``stopped:`` launches are kernels of ``flow.cu``, ``patched:`` ones are the template of the
opcode forms with a few instructions in its slot: BRA.CONV, which the compiler makes for sm_80 to sm_89 only
(and BRA.DIV, its opposite), and VHMNMX with a predicate.  Every launch has 4,096 threads in 128 warps.

``python -m gpusim.validation.opcodes.flow bundle DIR`` writes a bundle for
``gpusim.validation.device_outputs``; run there once for each of the three kinds, for a launch that is stopped
takes the CUDA context with it.  ``... record OUTPUTS.json ... RECORD.json`` makes the record of what comes
back; ``... compare [RECORD.json]`` runs every launch again in the simulator and prints what differs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gpusim import program
from gpusim.errors import ExecutionError, GpusimError
from gpusim.output import atomic_write
from gpusim.simulate import run
from gpusim.validation.launches import Row, code_sha256, write_bundle
from gpusim.validation.opcodes import evidence, inputs, launch, special
from gpusim.validation.opcodes.encode import PT, control, instruction, put
from gpusim.validation.opcodes.forms import A, B, C, D, Form
from gpusim.validation.opcodes.template import ENTRY, Template

SCHEMA = "gpusim.flow/1"
SOURCE = Path(__file__).with_suffix(".cu")
THREADS, WARPS = inputs.THREADS, inputs.THREADS // 32
ALL = 0xFFFFFFFF
#: The kind of a BRA with a mask of lanes, in bits 32-33.
DIV, CONV = 2, 3
EXIT = instruction("EXIT")
VHMNMX = {
    "": 0x000FE40003800008_0000000704007247,
    ".NAN": 0x000FE40003820008_0000000704007247,
    ".BF16_V2": 0x000FE40003A00008_0000000704007247,
    ".BF16_V2.NAN": 0x000FE40003A20008_0000000704007247,
}


@cache
def module(arch: str = "sm_90") -> program.Module:
    return program.compile(SOURCE, arch=arch)


@cache
def template() -> Template:
    """As it was measured."""
    place = json.loads(evidence.RECORD.read_text(encoding="utf-8"))["templates"]["register"]
    cubin = (evidence.RECORD.parent / place["cubin"]).read_bytes()
    return Template(cubin, place["slot"], place["start"], place["end"])


def masks(seed: str, stride: int) -> np.ndarray:
    """uint32[WARPS]: no lane, all, one, few, all but few, any; another kind every ``stride`` warps."""
    r = (inputs.random_bits(seed, 3 * WARPS) & np.uint64(ALL)).astype(np.uint32).reshape(3, WARPS)
    few = r[0] & r[1] & r[2]
    kinds = np.stack([0 * few, ~(0 * few), np.uint32(1) << (r[0] % 32), few, ~few, r[0], r[1], r[2]])
    return np.asarray(kinds[np.arange(WARPS) // stride % len(kinds), np.arange(WARPS)])


def words(seed: str, n: int = THREADS) -> np.ndarray:
    return (inputs.random_bits(seed, n) & np.uint64(ALL)).astype(np.uint32)


def branch(kind: int, over: int, guard: int = PT) -> int:
    """A BRA.DIV or BRA.CONV with the mask in UR8, over some instructions."""
    e = put(put(special.BRA_DIV, 24, 8, A), 32, 2, kind)
    return control(put(put(e, 16, 8, over * special.WORD >> 2), 12, 4, guard))


def branches(kind: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Without and with a guard: in a whole warp, after lanes left (P1), while lanes are away (P1)."""
    nop, mark, vote = instruction("NOP"), special._mark, special._vote
    for name, guard in (("", PT), ("P0", 0), ("!P0", 8)):
        through = (branch(kind, 3, guard), mark(D, 0x1111), vote(D + 1), nop, vote(D + 2), nop)
        yield f"whole:{name}", through
        yield f"left:{name}", (put(EXIT, 12, 4, 1), *through)
        yield f"away:{name}", (
            control(special._branch(special.BSSY, 5)),
            control(put(special._branch(special.BRA, 4), 12, 4, 1)),
            *through[:4],
            control(special.BSYNC),
            vote(D + 2),
            nop,
        )


def minima() -> Iterator[tuple[str, tuple[int, ...], str]]:
    """VHMNMX of R8, R12, R16 to R24: minimum or maximum by a predicate, and under a guard."""
    for name, e in VHMNMX.items():
        e = put(put(put(put(e, 16, 8, D), 24, 8, A), 32, 8, B), 64, 8, C)
        kind = "bf16" if "BF16" in name else "f16"
        for label, p, guard in (("PT", PT, PT), ("!PT", PT | 8, 5), ("P1", 1, PT), ("!P1", 1 | 8, 6)):
            yield f"VHMNMX{name}:{label}", (control(put(put(e, 87, 4, p), 12, 4, guard)),), kind


def steered(thread: np.ndarray, warp: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of the branches: P0 and P1 by warp as :func:`masks` says, UR8 often a set that meets."""
    p0, p1 = masks("P0", 1), masks("P1", 8)
    lanes = np.arange(THREADS)
    bits = [p[lanes // 32] >> (lanes % 32).astype(np.uint32) & 1 for p in (p0, p1)]
    thread, warp = thread.copy(), warp.copy()
    thread[:, inputs.P_WORD] = thread[:, inputs.P_WORD] & ~np.uint32(3) | bits[0] | bits[1] << 1
    sets = np.stack([~(0 * p0), p0, ~p0, p0 | p1, p0 & ~p1, ~p0 & ~p1, ~p1, words("UR8", WARPS)])
    warp[:, 0] = sets[words("set", WARPS) % len(sets), np.arange(WARPS)]
    return thread, warp


def patched(id: str, codes: tuple[int, ...], kind: str, file: Any) -> Row:
    """A launch of the template with ``codes`` in its slot."""
    form = Form("", "", codes, (kind,) * 3).to_json()
    thread, warp, out, scratch = launch.arrays(form)
    if kind == "i32":
        thread, warp = steered(thread, warp)
    args = [file(f"thread-{kind}", thread), file(f"warp-{kind}", warp), blank(out.size), blank(scratch.size)]
    args += [scalar(int(v)) for v in launch.scalars(form)]
    grid, block, _ = launch.shape(form)
    made = program._module(template().patched(codes), None, {}, {})
    return Row(f"patched:{id}", ENTRY, (grid, 1, 1), (block, 1, 1), 0, tuple(args), made)


def blank(n: int) -> dict[str, Any]:
    return {"kind": "array", "dtype": "uint32", "n": n, "init": "zeros"}


def scalar(value: int) -> dict[str, Any]:
    return {"kind": "scalar", "dtype": "uint32", "value": value}


def rows(folder: Path) -> Iterator[Row]:
    """All launches, the one that is stopped last; inputs are written to ``folder``."""

    def file(name: str, data: np.ndarray) -> dict[str, Any]:
        path = folder.resolve() / f"{name}.npy"
        np.save(path, data.reshape(-1))
        return {"kind": "array", "dtype": "uint32", "n": data.size, "init": f"file:{path}"}

    def row(id: str, *args: dict[str, Any]) -> Row:
        shape = (THREADS // 128, 1, 1), (128, 1, 1)
        return Row(id, id.split(":")[1], *shape, 0, args, module())

    gone, side, data = file("gone", masks("gone", 1)), file("side", masks("side", 8)), file("in", words("in"))
    yield row("compiled:elect", gone, side, blank(6 * THREADS))
    for first in range(8):
        yield row(f"compiled:brxu:{first}", gone, side, data, blank(THREADS), scalar(first))
    yield row("compiled:launch_control", gone, data, blank(2 * THREADS))
    yield row("compiled:trigger", gone, data, blank(THREADS))
    yield row("compiled:prefetch_local", gone, data, blank(4 * THREADS))
    for kind in ("f16", "bf16"):
        halves = inputs.make((kind, kind, kind), "flow", THREADS)[:, [0, 4, 8]]
        yield row(f"compiled:vhmnmx:{kind}", file(f"halves-{kind}", halves), blank(14 * THREADS))
    values = words("in")
    missing = next(v for v in range(THREADS) if v not in values)
    yield row("compiled:trap", data, blank(THREADS), scalar(missing))
    for name, codes, kind in minima():
        yield patched(name, codes, kind, file)
    for opcode, how in (("BRA.DIV", DIV), ("BRA.CONV", CONV)):
        for name, codes in branches(how):
            yield patched(f"{opcode}:{name}", codes, "i32", file)
    yield row("stopped:trap", data, blank(THREADS), scalar(int(values[THREADS // 2 + 5])))


def bundle(folder: Path) -> None:
    """Cubins, inputs and ``launches.json`` for the GPU machine."""
    folder.mkdir(parents=True, exist_ok=True)
    write_bundle(list(rows(folder)), folder)


def record(outputs: list[Path]) -> dict[str, Any]:
    """What each launch left on the card: the digest of every array, or the error; and the code it ran."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in outputs]
    left = {id: arrays for part in found for id, arrays in part["launches"].items()}
    with TemporaryDirectory() as folder:
        launches = {
            row.id: {
                "kernel": row.entry, "threads": row.grid[0] * row.block[0],
                "code_sha256": code_sha256(row.module, row.entry),
                **(left[row.id] if "error" in left[row.id] else {"sha256": left[row.id]}),
            }
            for row in rows(Path(folder))
        }  # fmt: skip
    return {"schema": SCHEMA, "versions": found[0]["versions"], "launches": launches}


def load(path: Path = evidence.FLOW) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert found["schema"] == SCHEMA
    return found


def difference(row: Row, measured: Mapping[str, Any]) -> str:
    """How the simulator's run of a launch differs from the card's; empty if it does not."""
    try:
        values = run(row.module[row.entry], row.grid, row.block, row.args)
    except GpusimError as error:
        if type(error) is ExecutionError:
            return "" if "error" in measured else f"the card goes on, the simulator does not: {error.what}"
        return error.message()
    if "error" in measured:
        return f"the simulator goes on, the card does not: {measured['error']}"
    digests = {
        slot: hashlib.sha256(np.ascontiguousarray(values[int(slot)]).tobytes()).hexdigest()
        for slot in measured["sha256"]
    }
    return ", ".join(f"argument {k}" for k, digest in digests.items() if digest != measured["sha256"][k])


def compare(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(launch, difference) of every recorded launch for which this machine's compiler makes the same code."""
    with TemporaryDirectory() as folder:
        for row in rows(Path(folder)):
            measured = found["launches"][row.id]
            if measured["code_sha256"] == code_sha256(row.module, row.entry):
                yield row.id, difference(row, measured)


def main(arguments: list[str]) -> int:
    """See the module's text."""
    if arguments[0] == "bundle":
        bundle(Path(arguments[1]))
        return 0
    if arguments[0] == "record":
        *outputs, path = map(Path, arguments[1:])
        atomic_write(path, json.dumps(record(outputs), indent=1) + "\n")
        return 0
    results = dict(compare(load(*map(Path, arguments[1:2]))))
    for id, text in results.items():
        if text:
            print(f"{id}: {text}")
    print(f"{sum(not text for text in results.values())} of {len(results)} launches equal")
    return int(any(results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Run a bundle of opcode forms on the GPU of this machine and record what each left.

``python -m gpusim.validation.opcodes.device BUNDLE OUT``; needs numpy, CuPy and the CUDA driver only.
Every form runs twice (a result that varies is said so).  An illegal instruction or a hang ends the process it
happened in: forms run in child processes, several at a time, and a parent starts the next child behind the
bad
form and records its error.  Writes ``OUT/opcodes_device.json`` (SHA-256 or error of every form) and
``OUT/outputs<k>.npz``: the words that changed, for the forms whose digest is not the simulator's.
"""

from __future__ import annotations

import hashlib
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.validation.opcodes import launch

WORKERS = 8
SILENCE_S = 15.0  # without a line from a child: its current form hangs
START_S = 120.0
FILE_BYTES, FILES = 15 << 20, 4
FEW = 1024  # records kept of a form once space runs short


def initial(form: dict[str, Any]) -> np.ndarray:
    """The output records of a form that writes nothing."""
    thread, warp, out, scratch = launch.arrays(form)
    grid, block, n = launch.shape(form)
    warps = np.arange(n) // block
    out[:, :4] = thread[:, 12:16]
    out[:, 4:8] = warp[warps, 12:16]
    out[:, 8], out[:, 9] = thread[:, 16] & 127, warp[warps, 16] & 127
    if form["template"] == "memory":
        parts = scratch.reshape(grid, 4, 32, 4).transpose(0, 2, 1, 3).reshape(n, 16)
        out[:, 12:28] = out[:, 28:44] = parts
    return out


class Child:
    """Runs forms in this process; the first CUDA error ends it."""

    def __init__(self, bundle: Path) -> None:
        import cupy as cp

        self.cp = cp
        self.index = json.loads((bundle / "forms.json").read_text(encoding="utf-8"))
        self.cubins = {k: (bundle / t["cubin"]).read_bytes() for k, t in self.index["templates"].items()}
        self.on_card: dict[int, Any] = {}

    def _card(self, array: np.ndarray) -> Any:
        if array.flags.writeable:
            return self.cp.asarray(array)
        if id(array) not in self.on_card:
            self.on_card[id(array)] = (array, self.cp.asarray(array))
        return self.on_card[id(array)][1]

    def _function(self, form: dict[str, Any]) -> Any:
        template = self.index["templates"][form["template"]]
        cubin = bytearray(self.cubins[form["template"]])
        at = template["slot"]
        for word in form["code"]:
            cubin[at : at + 16] = int(word, 16).to_bytes(16, "little")
            at += 16
        module = self.cp.cuda.function.Module()
        module.load(bytes(cubin))
        return module, module.get_function(self.index["entry"])

    def run(self, form: dict[str, Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        cp = self.cp
        grid, block, _ = launch.shape(form)
        thread, warp, out, scratch = launch.arrays(form)
        module, function = self._function(form)
        results = []
        for _ in range(2):
            card = [self._card(thread), self._card(warp), cp.zeros(out.shape, cp.uint32), cp.asarray(scratch)]
            function((grid, 1, 1), (block, 1, 1), (*card, *launch.scalars(form)))
            cp.cuda.Device().synchronize()
            left, memory = cp.asnumpy(card[2]), cp.asnumpy(card[3])
            results.append((launch.digest(left, memory, form), left, memory))
        del module
        return results


def child(bundle: Path, indexes: list[int], keep: Path) -> None:
    """Print one JSON line a form; keep what differs from the simulator in ``keep``."""
    runner = Child(bundle)
    for i in indexes:
        form = runner.index["forms"][i]
        print(json.dumps({"i": i}), flush=True)
        try:
            (digest, out, scratch), (again, _, _) = runner.run(form)
        except Exception as error:
            print(json.dumps({"i": i, "error": f"{type(error).__name__}: {error}"[:300]}), flush=True)
            if "CUDA" in str(error) or "cuda" in str(error):
                return
            continue
        line: dict[str, Any] = {"i": i, "sha256": digest}
        if again != digest:
            line["varies"] = True
        print(json.dumps(line), flush=True)
        if digest != form.get("expected"):
            start = initial(form)
            columns = [c for c in range(out.shape[1]) if not np.array_equal(out[:, c], start[:, c])]
            data = {f"{c}": out[:, c] for c in columns}
            before = launch.arrays(form)[3]
            if form["template"] == "memory" and not np.array_equal(scratch, before):
                places = np.flatnonzero(scratch != before).astype(np.uint32)
                data["scratch_at"], data["scratch"] = places, scratch[places]
            np.savez(keep / f"{i}.npz", **data)  # type: ignore[arg-type]


class Crew:
    """Children on interleaved shares of the forms, restarted behind every form that kills one."""

    def __init__(self, bundle: Path, keep: Path, count: int) -> None:
        self.bundle, self.keep, self.count = bundle, keep, count
        self.results: dict[int, dict[str, Any]] = {}
        self.stopped = threading.Event()

    def work(self, share: list[int]) -> None:
        while share and not self.stopped.is_set():
            done, bad, why = self._child(share)
            if bad is not None and bad not in self.results:
                self.results[bad] = {"error": why}
            share = [i for i in share[done:] if i not in self.results]

    def _child(self, share: list[int]) -> tuple[int, int | None, str]:
        """One child on ``share``: forms finished, and the form it died on with the reason."""
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "gpusim.validation.opcodes.device",
                    "--child",
                    str(self.bundle),
                    str(self.keep),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            lines: queue.Queue[str | None] = queue.Queue()
            assert process.stdin and process.stdout
            output = process.stdout

            def pump() -> None:
                for text in output:
                    lines.put(text)
                lines.put(None)

            threading.Thread(target=pump, daemon=True).start()
            process.stdin.write(json.dumps(share))
            process.stdin.close()
            done, current, why, patience = 0, None, "", START_S
            try:
                while True:
                    try:
                        text = lines.get(timeout=patience)
                    except queue.Empty:
                        why = f"no answer in {patience:.0f} s"
                        break
                    if text is None:
                        break
                    row = json.loads(text)
                    i = row.pop("i")
                    if not row:
                        current, patience = i, SILENCE_S
                        continue
                    self.results[i] = row
                    current, done = None, done + 1
            finally:
                process.kill()
                process.wait()
            errors.seek(0)
            tail = errors.read()[-300:]
        if current is None and done == 0 and not why:
            current, why = share[0], f"the child did not start: {tail}"
        return done, current, why or f"the process ended: {tail}"


def collect(keep: Path, out: Path) -> list[int]:
    """Pack kept outputs into at most :data:`FILES` files; returns the forms that found room."""
    files: list[dict[str, np.ndarray]] = [{}]
    size, packed = 0, []
    paths = sorted(keep.glob("*.npz"), key=lambda p: int(p.stem))
    total = sum(p.stat().st_size for p in paths)
    few = total > FILE_BYTES * FILES * 0.9
    for path in paths:
        with np.load(path) as data:
            arrays = {k: (v[:FEW] if few else v) for k, v in data.items()}
        need = sum(v.nbytes + 200 for v in arrays.values())
        if size + need > FILE_BYTES:
            if len(files) == FILES:
                break
            files.append({})
            size = 0
        files[-1].update({f"{path.stem}:{k}": v for k, v in arrays.items()})
        size += need
        packed.append(int(path.stem))
    for k, content in enumerate(files):
        np.savez_compressed(out / f"outputs{k}.npz", **content)  # type: ignore[arg-type]
    return packed


def versions() -> dict[str, Any]:
    """Card and software, asked in a child: the parent never opens the card."""
    code = "import json; from gpusim.validation.device_outputs import versions; print(json.dumps(versions()))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return dict(json.loads(result.stdout)) if result.returncode == 0 else {"error": result.stderr[-300:]}


def main(bundle: Path, out: Path, only: str = "") -> int:
    """Run every form whose row contains ``only``; 0 if the runs ended, whatever they showed."""
    raw = (bundle / "forms.json").read_bytes()
    forms = json.loads(raw)["forms"]
    wanted = [i for i, f in enumerate(forms) if only in f["row"]]
    out.mkdir(parents=True, exist_ok=True)
    started = time.time()
    with tempfile.TemporaryDirectory(prefix="opcodes-") as folder:
        crew = Crew(bundle, Path(folder), len(wanted))
        threads = [threading.Thread(target=crew.work, args=(wanted[w::WORKERS],)) for w in range(WORKERS)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            time.sleep(5)
            print(f"{len(crew.results)} of {len(wanted)} forms, {time.time() - started:.0f} s", flush=True)
        packed = collect(Path(folder), out)
    results = {launch.key(forms[i]): r for i, r in sorted(crew.results.items())}
    report = {
        "versions": versions(),
        "bundle_sha256": hashlib.sha256(raw).hexdigest(),
        "seconds": round(time.time() - started, 1),
        "kept": packed,
        "results": results,
    }
    (out / "opcodes_device.json").write_text(json.dumps(report, indent=0), encoding="utf-8")
    equal = sum(r.get("sha256") == forms[i].get("expected") for i, r in crew.results.items())
    errors = [(forms[i]["sass"], r["error"]) for i, r in crew.results.items() if "error" in r]
    varies = [forms[i]["sass"] for i, r in crew.results.items() if r.get("varies")]
    print(
        f"{len(crew.results)} forms: {equal} as the simulator says, {len(errors)} errors, {len(varies)} vary"
    )
    for sass, error in errors[:60]:
        print("error", sass, "|", error[:120])
    for sass in varies[:60]:
        print("varies", sass)
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(Path(sys.argv[2]), json.loads(sys.stdin.read()), Path(sys.argv[3]))
    else:
        sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:4]))

"""The stride experiment of an H200 beside the DRAM model: ``python -m gpusim.validation.calibrate_dram
[record]``.

The record (A11, ``measurements/h200/stride.json``) reads one 4-byte word every ``stride`` words.  From 16
words on each word costs one fetch of 64 bytes (two accesses of the standard): 283 GB/s of words at stride 16
are 4.53 TB/s of fetches, 94 % of what 6,016 pins at 6.402 Gbit/s carry.  The model gets that stream, warp by
warp in random order within the threads of one launch wave, as fast as it takes it; it prints useful GB/s,
words x 4 / time.

What is calibrated, all in ``gpusim/devices/dram/hbm3e.toml``: the map ``h200`` (256 bytes side by side in a
pseudo-channel, everything above hashed), tFAW (18.75 ns; the plateau from stride 64 words on is one activate
a fetch) and the queues (128 reads a channel).  Refresh is left out: at 94 % of the pins' rate there is no
room for all-bank refresh, which takes 9 %.

Not in the model: the TLBs.  From 8,192 words (32 KiB) on, where a 2 MiB page holds 64 words and fewer and the
launch is shorter than 0.1 ms, the card falls below the model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpusim.memory.dram import Dram, DramResult, DramStandard, load_standard

RECORD = Path(__file__).parent / "measurements" / "h200" / "stride.json"
PIN_RATE = 6.402  # Gbit/s, gpusim/devices/h200.toml
WARP, WAVE = 32, 132 * 16 * 256  # lanes; threads in flight (microbench/stride.py)
FETCH_BYTES = 64  # measured, see above
WORDS = 1_000_000 // WARP * WARP  # simulated


def stream(stride_words: int, words: int, fetch_bytes: int, access_bytes: int) -> npt.NDArray[np.uint64]:
    """Accesses of reading ``words`` words, each fetch once, as warps that overtake each other want them."""
    rng = np.random.default_rng(0)
    warps = np.arange(words, dtype=np.uint64).reshape(-1, WARP)
    wave = WAVE // WARP
    warps = np.concatenate([rng.permutation(warps[k : k + wave]) for k in range(0, len(warps), wave)])
    fetch = warps.ravel() * np.uint64(4 * stride_words) // np.uint64(fetch_bytes)
    keep = np.ones(len(fetch), np.bool_)
    keep[1:] = fetch[1:] != fetch[:-1]
    parts = np.arange(0, fetch_bytes, access_bytes, dtype=np.uint64)
    return (fetch[keep][:, None] * np.uint64(fetch_bytes) + parts).ravel()


def model(
    standard: DramStandard,
    stride_words: int,
    *,
    map_name: str = "h200",
    fetch_bytes: int = FETCH_BYTES,
    words: int = WORDS,
    refresh: bool = False,
) -> tuple[float, DramResult]:
    """Useful GB/s, and what the DRAM did."""
    addresses = stream(stride_words, words, fetch_bytes, standard.access_bytes)
    dram = Dram(standard, standard.address_map(map_name), refresh=refresh)
    dram.feed(addresses, np.zeros(len(addresses), np.bool_), np.zeros(len(addresses)))
    result = dram.result()
    return words * 4 / result.elapsed_ns, result


def main(arguments: Sequence[str]) -> None:
    record = Path(arguments[0]) if arguments else RECORD
    measured = {
        row["stride_words"]: (row["useful_GBps"], min(WORDS, row["words"]))
        for row in json.loads(record.read_text(encoding="utf-8"))["rows"]
        if row["kernel"] == "read" and 4 * row["stride_words"] >= FETCH_BYTES
    }
    standard = load_standard("hbm3e", PIN_RATE)
    print(f"{standard.title} at {PIN_RATE} Gbit/s, fetches of {FETCH_BYTES} bytes; useful GB/s")
    print(f"{'stride, words':>14}{'measured':>10}{'model':>8}{'off':>7}   row hits, row conflicts")
    for stride_words, (gbps, words) in measured.items():
        ours, result = model(standard, stride_words, words=words)
        hits, _, conflicts = result.row_shares
        print(
            f"{stride_words:14,}{gbps:10.1f}{ours:8.1f}{ours / gbps - 1:+7.0%}   {hits:.1%}, {conflicts:.1%}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])

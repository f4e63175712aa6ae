"""docs/dram.md: the DRAM model beside Ramulator 2 and beside what can be computed by hand.

``python -m gpusim.report.dram_table`` prints the page; ``make docs`` writes it.  Ticks are the standards';
GB/s are bytes over ns.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpusim.memory.dram import Dram, DramResult, DramStandard, load_standard, standards

REQUESTS = 100_000

#: Ramulator 2.1, run for this project: one channel, open page, FR-FCFS, queues of 32, 100,000 loads of 32
#: bytes as fast as they are taken, no refresh.  (standard, stream): row hits, misses, conflicts in %, ticks a
#: request.
REFERENCE: dict[tuple[str, str], tuple[float, float, float, float]] = {
    ("hbm2", "sequential"): (96.9, 0.03, 3.1, 1.90),
    ("hbm2", "stride 64 B"): (93.7, 0.03, 6.2, 1.46),
    ("hbm2", "row after row"): (0, 0.03, 99.97, 3.00),
    ("hbm2", "same bank"): (0, 0, 100, 47.98),
    ("hbm2", "random"): (0, 0.03, 99.97, 3.01),
    ("hbm3", "sequential"): (96.9, 0.06, 3.1, 5.04),
    ("hbm3", "stride 64 B"): (93.7, 0.06, 6.2, 4.37),
    ("hbm3", "row after row"): (0, 0.06, 99.9, 6.00),
    ("hbm3", "same bank"): (0, 0, 100, 143.95),
    ("hbm3", "random"): (0, 0.06, 99.9, 6.22),
}

INTRODUCTION = """\
# The DRAM model

This page is made by `make docs` from `gpusim/report/dram_table.py`; do not edit it.

`gpusim/memory/dram.py` models channels, pseudo-channels, stack ids, bank groups, banks and their open rows.
Each channel has a row and a column command bus (GDDR6: one for both) that its pseudo-channels share, a queue
of reads and one of writes. Per bus the oldest request whose next command is allowed goes first (FR-FCFS);
rows stay open until another row of the bank is wanted; a row just opened for a request stays open until that
request is served. Writes are drained from 80 % of their queue down to 20 %, or while no read waits. Every
tREFI a pseudo-channel precharges and refreshes all banks. A request counts as row hit, miss (bank closed) or
conflict (another row open) by what its bank held when its first command was sent.

Standards are files in `gpusim/devices/dram/`: organisation, timings and the timing rules themselves
(`pseudo_channel: 4 ACT -> ACT = nFAW`), each with kind and source. Timings in ns are rounded up to clocks of
the pin rate. An address map is data as well: fields low to high, any size, optionally hashed with the bits
above.
"""

MECHANISMS = """\
Why the rates are what they are:

- **sequential.** The map puts the 32 columns of a row below everything else, so 32 requests in a row go to
  one bank, and within a bank group reads are tCCDL apart (HBM2 4 ticks, HBM3 8). A queue of 32 sees one row
  of each pseudo-channel: 4 / 2 = 2 ticks on HBM2, a little less because the next row opens before the first
  is read to its end. On HBM3 8 / 2 = 4 ticks, and what is missing to 5 is the precharge and activate of the
  next row, which cannot start before its first request enters the queue. Longer queues see
  more rows: QUEUES.
- **stride 64 B.** 16 requests a row: the queue sees twice as many rows, in other bank groups.
- **row after row, random.** Every request needs a precharge and an activate. HBM2: the row bus carries both
  in 3 ticks (2 + 1). HBM3: a pseudo-channel may activate four rows in tFAW = 48 ticks, two pseudo-channels:
  48 / 4 / 2 = 6; random streams meet a busy bank now and then.
- **same bank.** One row after the other: tRC.

Where we differ from Ramulator: not in these ten streams. Left out are reads served from queued writes,
per-bank refresh, refresh management and Ramulator's one refresh queue for both pseudo-channels (ours are
refreshed one by one). The share of hits is exact by construction in the first two streams (31 of 32, 15 of
16).
"""

LIMITS = """\
## Limits

- No vendor publishes an address map. Those of the files are `assumed`; the one called `h200` was chosen with
  `validation/calibrate_dram.py`, which prints the stride experiment of an H200 beside the model.
- Timings of HBM2e, HBM3e, GDDR6X and GDDR7 are carried over from the nearest published standard and say so
  (`kind = "assumed"`).
- All-bank refresh costs tRFC / tREFI of the time (9 % for HBM3). An H200 reads at 94 % of its pins' rate, so
  it refreshes in another way (bank by bank, most likely); `refresh=False` is the nearer model of it.
- ECC, power states and thermal limits are not modelled.
"""


def stream(name: str, standard: DramStandard, requests: int = REQUESTS) -> npt.NDArray[np.uint64]:
    """Byte addresses of one of the reference's streams, for the map ``one_channel``."""
    index = np.arange(requests, dtype=np.uint64)
    page, access = standard.page_bytes, standard.access_bytes
    steps = {
        "sequential": access, "stride 64 B": 64, "row after row": page, "same bank": page * standard.banks,
    }  # fmt: skip
    if name == "random":
        lines = np.random.default_rng(0).integers(0, 1 << 28, requests, dtype=np.uint64)
        return lines * np.uint64(access)
    return index * np.uint64(steps[name])


def simulate(
    standard: DramStandard, addresses: npt.NDArray[np.uint64], map_name: str = "one_channel"
) -> DramResult:
    """Reads as fast as they are taken, without refresh."""
    dram = Dram(standard, standard.address_map(map_name), refresh=False)
    dram.feed(addresses, np.zeros(len(addresses), np.bool_), np.zeros(len(addresses)))
    return dram.result()


@dataclass(frozen=True)
class Row:
    """One stream: ours and Ramulator's shares of hits, misses and conflicts in % and ticks a request."""

    standard: str
    stream: str
    ours: tuple[float, float, float, float]
    theirs: tuple[float, float, float, float]
    gbps: float


def rows() -> list[Row]:
    """Every stream of the reference, simulated."""
    made = []
    for (name, which), theirs in REFERENCE.items():
        standard = load_standard(name)
        result = simulate(standard, stream(which, standard))
        hit, miss, conflict = (100 * share for share in result.row_shares)
        ticks = result.elapsed_ns / result.tick_ns / result.requests
        made.append(Row(name, which, (hit, miss, conflict, ticks), theirs, result.achieved_gbps))
    return made


def closed_form(name: str, which: str) -> tuple[str, float] | None:
    """(formula, ticks a request) where a stream's rate can be computed by hand."""
    s = load_standard(name)
    t = s.timing
    bus = s.occupancy[0] + s.occupancy[1]
    four = t["nFAW"] / 4 / s.pseudo_channels
    if which == "same bank":
        return "tRC", float(t["nRC"])
    if which in ("row after row", "random"):
        return (
            ("ACT + PRE on the row bus", float(bus)) if bus > four else ("tFAW / 4 / pseudo-channels", four)
        )
    return None


def _longer_queues(name: str, sizes: tuple[int, ...]) -> str:
    """What the sequential stream takes with queues of these sizes."""
    ticks = []
    for size in sizes:
        standard = dataclasses.replace(load_standard(name), read_queue=size)
        result = simulate(standard, stream("sequential", standard))
        ticks.append(f"{result.elapsed_ns / result.tick_ns / result.requests:.2f} ticks with {size}")
    return f"{load_standard(name).title} takes {' and '.join(ticks)}, and its pins 1"


def page() -> str:
    """The whole page."""
    out = [INTRODUCTION, "## Beside Ramulator 2\n"]
    out.append(
        f"One channel, {REQUESTS:,} loads of 32 bytes as fast as they are taken, no refresh; Ramulator 2.1\n"
        "in the same configuration (HBM2 at 2.0, HBM3 at 6.4 Gbit/s a pin). Rows: hit / miss / conflict %\n"
    )
    out.append(
        "| standard | stream | rows, ours | rows, Ramulator | ticks, ours | Ramulator | by hand | GB/s |"
    )
    out.append("|---|---|---|---|---|---|---|---|")
    for r in rows():
        form = closed_form(r.standard, r.stream)
        hand = f"{form[1]:g} = {form[0]}" if form else ""
        ours = " / ".join(f"{x:.2f}" for x in r.ours[:3])
        theirs = " / ".join(f"{x:g}" for x in r.theirs[:3])
        title = load_standard(r.standard).title
        ticks = f"{r.ours[3]:.2f} | {r.theirs[3]:.2f}"
        out.append(f"| {title} | {r.stream} | {ours} | {theirs} | {ticks} | {hand} | {r.gbps:.2f} |")
    out.append("\n" + MECHANISMS.replace("QUEUES", _longer_queues("hbm2", (64, 96))))
    out.append("## Standards\n")
    out.append(
        "| file | pin rate, Gbit/s | tick, ns | access, B | page, B | banks a channel |"
        " tRC, ns | tRCD, ns | tRP, ns | tFAW, ns | assumed |"
    )
    out.append("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in standards():
        s = load_standard(name)
        ns = " | ".join(f"{s.timing[k] * s.tick_ns:.1f}" for k in ("nRC", "nRCDRD", "nRP", "nFAW"))
        share = f"{sum(p.startswith('timing.') for p in s.assumed)} of {len(s.timing)} timings"
        shape = f"{s.access_bytes} | {s.page_bytes:,} | {s.banks}"
        out.append(f"| `{name}` | {s.pin_rate:g} | {s.tick_ns:.4f} | {shape} | {ns} | {share} |")
    out.append("\n" + LIMITS)
    return "\n".join(out)


if __name__ == "__main__":
    sys.stdout.write(page())

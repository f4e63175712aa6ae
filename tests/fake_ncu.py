"""An ``ncu`` for tests: runs the worker it is given and prints pages in Nsight Compute's CSV format.

``FAKE_NCU`` tells it what to do: ``permission`` (as without the right to read counters), ``order`` (the rows
of two launches change places), ``metric=NAME`` (refuses NAME), ``twice`` (a source page stands there twice),
``interrupt=N`` (sends its parent, gpusim, a SIGINT when the Nth launch was begun).
"""

# ruff: noqa: T201 - printing is what it is for

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TELL = os.environ.get("FAKE_NCU", "")
ADDRESS = 0x7F0000000000
#: Executions of the two instructions of each kernel, by position in the batch.
EXECUTIONS = 8
#: What the raw page holds beside the metrics asked for.
UNASKED = ("launch__func_cache_config", "launch__cluster_size", "device__attribute_warp_size",
           "smsp__pcsamp_sample_buffer_full")  # fmt: skip
UNKNOWN = "sm__inst_executed_pipe_fmalite"


def value_of(metric: str, position: int) -> tuple[str, str]:
    """Value and unit that the raw page prints of a metric."""
    if metric == "inst_executed":
        return str(2 * (EXECUTIONS + position)), "inst"
    if metric == "thread_inst_executed":
        return str(2 * 32 * (EXECUTIONS + position)), "thread inst"
    if metric == "memory_l1_wavefronts_shared":
        return "0", ""
    if metric.endswith(".ratio"):
        return "1.5", ""
    if metric == "gpu__time_duration.sum":
        return "12,345", "ns"
    return str(1000 + position), "inst" if "inst_executed" in metric else ""


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880)")
        return 0
    if arguments == ["--query-metrics"]:
        from gpusim.validation.metric_names import FULL

        print("Device Fake (GH100)\n----\nMetric Name   Metric Type   Metric Unit\n----")
        for base in sorted({name.partition(".")[0] for name in FULL if "." in name} - {UNKNOWN}):
            print(f"{base}     Counter     inst     # of things")
        return 0
    if "--import" in arguments:
        return show(Path(option(arguments, "--import")), option(arguments, "--page"))
    return profile(arguments)


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def profile(arguments: list[str]) -> int:
    assert option(arguments, "--profile-from-start") == "off"
    assert option(arguments, "--clock-control") == "none"
    assert option(arguments, "--cache-control") == "all"
    metrics = option(arguments, "--metrics").split(",")
    if TELL.startswith("metric=") and TELL[7:] in metrics:
        print(f"==ERROR== Failed to find metric {TELL[7:]}")
        return 1
    if TELL == "permission":
        print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
              "Performance Counters on the target device 0.")  # fmt: skip
        return 1
    worker = arguments[arguments.index("--export") + 2 :]
    ids = Path(option(worker, "--ids"))
    launched = ids.with_suffix(".launched")
    print("==PROF== Connected to process 1234", flush=True)
    with subprocess.Popen(worker) as process:
        if TELL.startswith("interrupt="):
            while len(done(launched)) < int(TELL[10:]):
                time.sleep(0.02)
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(30)
        code = process.wait()
    plan = json.loads((Path(option(worker, "--work")) / "plan.json").read_text())
    rows = {row["id"]: row for row in plan["rows"]}
    launches = [rows[id] for id in done(launched)]
    if code:  # as when the kernel never ended well: no row for it
        launches.pop()
    if TELL == "order":
        launches[0], launches[1] = launches[1], launches[0]
    Path(option(arguments, "--export")).write_text(json.dumps({"metrics": metrics, "launches": launches}))
    return code


def done(launched: Path) -> list[str]:
    try:
        return [line for line in launched.read_text().splitlines() if not line.startswith("!")]
    except OSError:
        return []


def shape(row: dict[str, Any], name: str) -> str:
    return "({}, {}, {})".format(*(row[name] or (8, 8, 1)))


def show(report: Path, page: str) -> int:
    data = json.loads(report.read_text())
    out = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n")
    metrics = sorted({*data["metrics"], "inst_executed", *UNASKED})
    if page == "raw":
        head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
                "Block Size", "Grid Size", "Device", "CC"]  # fmt: skip
        out.writerow(head + metrics)
        out.writerow([""] * len(head) + [value_of(m, 0)[1] for m in metrics])
        for position, row in enumerate(data["launches"]):
            name = row["entry"] or "sm90_xmma_gemm_f32f32_tn_n"
            out.writerow([position, 1234, "python3", "127.0.0.1", f"{name}(const float *, int)", 1, 7,
                          shape(row, "block"), shape(row, "grid"), 0, "9.0",
                          *("CachePreferNone" if "config" in m and "func" in m else value_of(m, position)[0]
                            for m in metrics)])  # fmt: skip
        return 0
    for position, row in enumerate(data["launches"]):
        for _ in range(2 if TELL == "twice" and position == 0 else 1):
            out.writerow(["Kernel Name", f"{row['entry']}(const float *, int)"])
            out.writerow(["#", "Address", "Source", "inst_executed", "thread_inst_executed",
                          "memory_l1_wavefronts_shared", "Live Registers"])  # fmt: skip
            for k, sass in enumerate(("LDC R1, c[0x0][0x28]", "EXIT")):
                count = EXECUTIONS + position
                out.writerow([k, hex(ADDRESS + 16 * k), sass, count, 32 * count, 0, 3])
    return 0


if __name__ == "__main__":
    sys.exit(main())

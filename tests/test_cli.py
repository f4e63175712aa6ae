"""The command line: help, exit codes, machine output, and what every kind of bad input is answered with.

Commands run in this process through ``gpusim.cli.main`` (exit code and captured streams); what concerns
the process itself (start-up, pipes, interrupts, a full disk) runs a real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpusim import __version__
from gpusim.cli import main
from gpusim.cli.reference import page

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("ladder", "simulate", "access", "sass", "occupancy", "devices", "opcodes", "doctor")

SOURCE = """\
extern "C" __global__ void scale(float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
}
extern "C" __global__ void walk(float* x, int step) { x[threadIdx.x * step] = 1.0f; }
extern "C" __global__ void forever(volatile int* x) { while (x[0] == 0) { } }
extern "C" __global__ void half_barrier(int* x) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
    x[threadIdx.x] = 1;
}
extern "C" __global__ void wide(float4* x, char* y, int shift) { x[0] = *(float4*)(y + shift); }
extern "C" __global__ void big_tile(float* x) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[threadIdx.x ^ 1];
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("cli") / "kernels.cu"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of one command line."""
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The message of a command line that must end with exit code 2, one message and nothing on stdout."""
    code, out, err = run(capsys, *arguments)
    assert code == 2, (code, out, err)
    assert out == ""
    assert err.startswith("gpusim: error: "), err
    assert err.count("gpusim: error: ") == 1
    assert "Traceback" not in err
    return err


def process(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """A real gpusim process."""
    return subprocess.run(
        [sys.executable, "-m", "gpusim", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        **options,
    )  # type: ignore[call-overload]


# --- Help and the page made from it -----------------------------------------------------------------


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert all(f" {command} " in out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_has_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert "Examples" in out
    assert out.count(f" gpusim {command}") >= (2 if command == "doctor" else 3)  # the usage line is one


def test_command_page_is_fresh() -> None:
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == page(), "run `make docs`"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"gpusim {__version__}\n", "")


def test_start_is_fast_and_imports_nothing_heavy() -> None:
    begin = time.perf_counter()
    done = process("--help")
    seconds = time.perf_counter() - begin
    assert done.returncode == 0
    assert seconds < 1.5  # 0.2 s on an idle machine; CI shares its cores
    code = "import sys; from gpusim.cli import main; main(['--help']); "
    code += "print([m for m in ('numpy', 'numba', 'llvmlite', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stdout.endswith("[]\n"), done.stdout[-200:]


@pytest.mark.parametrize(
    "arguments",
    [("nonsense",), ("devices", "--nonsense"), ("sass",), ("ladder", "--size", "many"), ("sass", "a", "b")],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 2 and out == "" and "Usage:" in err and "Traceback" not in err


# --- Commands that look things up ---------------------------------------------------------------------


def test_devices_lists_and_shows(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "devices")
    assert code == 0 and "h200" in out and "a100-80" in out
    code, out, _ = run(capsys, "devices", "h200", "--only", "l2")
    assert code == 0
    assert "62,914,560" in out and "measured" in out  # 60 MiB of L2, read from the card


def test_devices_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert "h200" in refused(capsys, "devices", "h2000")
    assert "dram" in refused(capsys, "devices", "h200", "--only", "nonsense")


def test_occupancy_by_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """64 registers x 32 lanes = 2,048 a warp; 16,384 / 2,048 = 8 warps a sub-core: 4 blocks of 8 warps."""
    code, out, _ = run(capsys, "occupancy", "--registers", "64", "--block", "256")
    assert code == 0
    assert "50 %" in out and "32 warps in 4 blocks" in out and "limited by registers" in out


def test_occupancy_of_a_file(capsys: pytest.CaptureFixture[str], source: str) -> None:
    """A small kernel keeps all 64 warps of an SM: 8 blocks of 8 warps."""
    code, out, _ = run(capsys, "occupancy", source, "--kernel", "scale", "--block", "256")
    assert code == 0 and "100 %" in out and "64 warps in 8 blocks" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--registers", "32", "--block", "2048"), "1,024"),
        (("--registers", "32", "--block", "0"), "0 threads"),
        (("--registers", "32", "--block", "a,b"), "--block"),
        (("--registers", "32", "--block", "1,2,3,4"), "--block"),
        (("--registers", "300"), "300 registers"),
        (("--registers", "32", "--shared", "many"), "--shared"),
        (("--registers", "32", "--dynamic-shared", "400K"), "shared memory"),
        (("--registers", "32", "--device", "voodoo2"), "voodoo2"),
        ((), "--registers"),
    ],
)
def test_occupancy_refuses(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str) -> None:
    assert says in refused(capsys, "occupancy", *arguments)


def test_opcodes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "opcodes", "ffma")
    assert code == 0 and "FFMA" in out and "f32" in out
    assert "not supported" in refused(capsys, "opcodes", "FROB")


def test_doctor_names_the_tools(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "doctor")
    assert all(word in out for word in ("Python", "NVRTC", "nvdisasm", "CuPy", "Cache", "Cores"))
    assert code == (1 if "missing " in out else 0)


def test_doctor_says_how_to_get_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpusim import doctor
    from gpusim.cubin.toolchain import Tool

    lost = Tool("nvdisasm", "decode cubins", None, None, None, "pip install nvidia-cuda-nvdisasm")
    monkeypatch.setattr(doctor.toolchain, "tools", lambda: (lost,))
    code, out, _ = run(capsys, "doctor")
    assert code == 1 and "missing" in out and "pip install nvidia-cuda-nvdisasm" in out


# --- sass ---------------------------------------------------------------------------------------------


def test_sass_shows_code_and_source_lines(capsys: pytest.CaptureFixture[str], source: str) -> None:
    code, out, _ = run(capsys, "sass", source, "--kernel", "scale")
    assert code == 0
    assert "FMUL" in out and "EXIT" in out
    assert "kernels.cu:3  if (i < n) x[i] *= a;" in out


def test_sass_for_another_architecture(capsys: pytest.CaptureFixture[str], source: str) -> None:
    code, out, _ = run(capsys, "sass", source, "--kernel", "scale", "--arch", "sm_80")
    assert code == 0 and out.startswith("scale  sm_80  ")


def test_source_errors(capsys: pytest.CaptureFixture[str], source: str, tmp_path: Path) -> None:
    assert "no such file" in refused(capsys, "sass", str(tmp_path / "absent.cu"))
    assert "several kernels" in refused(capsys, "sass", source)
    names = refused(capsys, "sass", source, "--kernel", "scael")
    assert "scale" in names and "walk" in names

    broken = tmp_path / "broken.cu"
    broken.write_text('extern "C" __global__ void k(float* x) {\n    x[0] = 1.0f\n}\n', encoding="utf-8")
    message = refused(capsys, "sass", str(broken))
    assert "broken.cu(3)" in message and "expected a" in message  # the compiler's own words and place

    empty = tmp_path / "empty.cu"
    empty.write_text("", encoding="utf-8")
    assert "empty" in refused(capsys, "sass", str(empty))
    assert "folder" in (text := refused(capsys, "sass", str(tmp_path))) or "directory" in text
    (tmp_path / "x.txt").write_text("text", encoding="utf-8")
    assert ".cu" in refused(capsys, "sass", str(tmp_path / "x.txt"))
    assert "sm_" in refused(capsys, "sass", source, "--kernel", "scale", "--arch", "sm_13")


def test_damaged_cubins(capsys: pytest.CaptureFixture[str], source: str, tmp_path: Path) -> None:
    from gpusim.program import compile

    whole = compile(source, arch="sm_90").cubin
    for length in (0, 3, 40, 64, len(whole) // 2, len(whole) - 100):
        cut = tmp_path / f"cut{length}.cubin"
        cut.write_bytes(whole[:length])
        assert f"cut{length}.cubin" in refused(capsys, "sass", str(cut), "--kernel", "scale")
    text = tmp_path / "text.cubin"
    text.write_text("not a cubin", encoding="utf-8")
    assert "text.cubin" in refused(capsys, "sass", str(text))


# --- access -------------------------------------------------------------------------------------------


def pattern(**changes: object) -> str:
    row = {"id": "a", "space": "shared", "op": "load", "width": 4, "mask": 0xFFFFFFFF,
           "offsets": [128 * lane for lane in range(32)]}  # fmt: skip
    return json.dumps(row | changes)


def test_access_batch(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A column of a 32-wide tile: 32 words of one bank, 32 wavefronts where 1 would do."""
    (tmp_path / "in.jsonl").write_text(
        pattern() + "\n" + pattern(id="b", space="global", offsets=[4 * lane for lane in range(32)]) + "\n",
        encoding="utf-8",
    )
    out = tmp_path / "out.jsonl"
    assert run(capsys, "access", "--batch", str(tmp_path / "in.jsonl"), "--json", str(out))[0] == 0
    shared, coalesced = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    assert shared == {"id": "a", "wavefronts": 32, "ideal_wavefronts": 1, "bank_conflicts": 31}
    assert coalesced["requests"] == 1 and coalesced["sectors"] == 4 and coalesced["lines"] == 1
    code, text, err = run(capsys, "access", "--batch", str(tmp_path / "in.jsonl"), "--json", "-")
    assert (code, text, err) == (0, out.read_text(encoding="utf-8"), "")


def test_access_batch_leaves_nothing_behind(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(pattern() + "\n" + pattern(width=3) + "\n", encoding="utf-8")
    out = tmp_path / "out.jsonl"
    message = refused(capsys, "access", "--batch", str(tmp_path / "in.jsonl"), "--json", str(out))
    assert "in.jsonl:2" in message and "width" in message
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.jsonl"]


def test_access_expression(capsys: pytest.CaptureFixture[str]) -> None:
    """Threads of a warp differ in threadIdx.x: a row read is one wavefront, a column 32, padded 1."""
    for declaration, index, wavefronts in (
        ("float As[32][32]", "As[threadIdx.y][threadIdx.x]", 1),
        ("float As[32][32]", "As[threadIdx.x][threadIdx.y]", 32),
        ("float As[32][33]", "As[threadIdx.x][threadIdx.y]", 1),
    ):
        code, out, err = run(
            capsys, "access", index, "--block", "32,8", "--shared", declaration, "--json", "-"
        )
        assert code == 0, err
        assert json.loads(out)["wavefronts"] == wavefronts
        code, out, _ = run(capsys, "access", index, "--block", "32,8", "--shared", declaration)
        assert code == 0 and "wavefront" in out


# --- Files appear whole or not at all --------------------------------------------------------------------


def test_atomic_write_replaces_and_keeps_links_and_modes(tmp_path: Path) -> None:
    from gpusim.output import atomic_write

    target = tmp_path / "real.json"
    target.write_text("old", encoding="utf-8")
    target.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to("real.json")
    atomic_write(link, "new")
    assert link.is_symlink() and target.read_text(encoding="utf-8") == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.json", "real.json"]


def test_disk_full_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """A file size limit stands in for a full disk: the write itself fails half-way, as on a full one."""
    target = tmp_path / "report.json"
    target.write_text("old", encoding="utf-8")
    code = (
        "import resource, sys; from gpusim.output import atomic_write; from gpusim.errors import InputError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: atomic_write(sys.argv[1], 'x' * 100_000)\n"
        "except InputError as error: print(error.message())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(target)], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert "report.json: cannot write" in done.stdout, done
    assert target.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full is a Linux thing")
def test_full_device_is_bad_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(pattern() + "\n", encoding="utf-8")
    message = refused(capsys, "access", "--batch", str(tmp_path / "in.jsonl"), "--json", "/dev/full")
    assert "no space left" in message
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gpusim", "devices"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            timeout=60,
        )
    assert done.returncode == 2 and "no space left" in done.stderr and "Traceback" not in done.stderr


def test_output_path_is_checked_before_the_work(
    capsys: pytest.CaptureFixture[str], source: str, tmp_path: Path
) -> None:
    launch = ("simulate", source, "--kernel", "scale", "--grid", "1", "--block", "32", *SCALE_ARGS)
    assert "does not exist" in refused(capsys, *launch, "--json", str(tmp_path / "no" / "x.json"))
    assert "folder" in refused(capsys, *launch, "--json", str(tmp_path))


# --- The process: pipes, interrupts, its own faults -----------------------------------------------------


def test_closed_pipe_is_quiet() -> None:
    code = "import sys, gpusim.cli; sys.exit(gpusim.cli.main(['devices', 'h200']))"
    reader, writer = os.pipe()
    os.close(reader)  # nobody reads: the first write fails
    with os.fdopen(writer, "w") as stream:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            timeout=60,
        )
    assert done.stderr == "" and done.returncode == 141


def test_own_failure_is_exit_3(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import gpusim.device

    def broken() -> list[str]:
        raise ZeroDivisionError("made for this test")

    monkeypatch.setattr(gpusim.device, "names", broken)
    code, out, err = run(capsys, "devices")
    assert code == 3 and out == ""
    assert "gpusim itself failed" in err and "made for this test" in err and "GPUSIM_DEBUG=1" in err
    assert "Traceback" not in err
    monkeypatch.setenv("GPUSIM_DEBUG", "1")
    assert "Traceback" in run(capsys, "devices")[2]


def test_interrupt_is_exit_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import gpusim.device

    def interrupted() -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(gpusim.device, "names", interrupted)
    code, out, err = run(capsys, "devices")
    assert code == 130 and out == "" and "Traceback" not in err


SCALE_ARGS = ("--arg", "float32[64]:normal", "--arg", "float32=2.0", "--arg", "int32=64")


# --- Launches: what is right ----------------------------------------------------------------------------


def scale(source: str, *more: str) -> tuple[str, ...]:
    """A good launch: 64 floats times two."""
    return ("simulate", source, "--kernel", "scale", "--grid", "2", "--block", "32", *SCALE_ARGS, *more)


def test_simulate_json_is_one_line_and_nothing_else(capsys: pytest.CaptureFixture[str], source: str) -> None:
    """Two warps, each one coalesced load and store of 32 floats: 4 sectors each."""
    code, out, err = run(capsys, *scale(source, "--json", "-"))
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    report = json.loads(out)
    assert report["schema"] == "gpusim.report/1" and report["prediction"] is True
    metrics = {name: metric["value"] for name, metric in report["metrics"].items()}
    assert metrics["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 2
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 8
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 8
    assert "time" not in report
    assert any(gap["what"] == "time" for gap in report["not_modelled"])


def test_same_bytes_whatever_the_number_of_threads(capsys: pytest.CaptureFixture[str], source: str) -> None:
    code, one, err = run(capsys, *scale(source, "--json", "-", "--jobs", "1"))
    assert code == 0, err
    assert run(capsys, *scale(source, "--json", "-", "--jobs", "2"))[1] == one


def test_simulate_writes_a_file_and_shows_a_table(
    capsys: pytest.CaptureFixture[str], source: str, tmp_path: Path
) -> None:
    code, out, _ = run(capsys, *scale(source, "--json", str(tmp_path / "r.json")))
    assert code == 0
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["kernel"]["name"] == "scale"
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]
    code, out, _ = run(capsys, *scale(source))
    assert code == 0 and "coalesced" in out and "kernels.cu:3" in out and "Occupancy" in out


def manifest_row(**changes: object) -> dict[str, object]:
    return {
        "id": "good", "file": "kernels.cu", "entry": "scale", "grid": [2, 1, 1], "block": [32, 1, 1],
        "dynamic_shared": 0, "heavy": False,
        "args": [{"kind": "array", "dtype": "float32", "n": 64, "init": "normal"},
                 {"kind": "scalar", "dtype": "float32", "value": 2.0},
                 {"kind": "scalar", "dtype": "int32", "value": 64}],
    } | changes  # fmt: skip


@pytest.fixture
def manifest(source: str) -> str:
    """Two good launches around one whose kernel does not exist."""
    path = Path(source).parent / "manifest.json"
    rows = [manifest_row(), manifest_row(id="bad", entry="nothing"), manifest_row(id="last")]
    path.write_text(json.dumps(rows), encoding="utf-8")
    return str(path)


def test_manifest_goes_on_after_a_failing_launch(capsys: pytest.CaptureFixture[str], manifest: str) -> None:
    code, out, err = run(capsys, "simulate", "--manifest", manifest, "--json", "-")
    assert code == 2
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["good", "last"]
    assert "bad: " in err and "nothing" in err and "1 of 3 launches failed" in err
    assert "Traceback" not in err


def test_manifest_file_is_whole_or_absent(
    capsys: pytest.CaptureFixture[str], manifest: str, tmp_path: Path
) -> None:
    out = tmp_path / "all.jsonl"
    assert run(capsys, "simulate", "--manifest", manifest, "--json", str(out))[0] == 2
    assert list(tmp_path.iterdir()) == []
    ids = ("--id", "last", "--id", "good")
    assert run(capsys, "simulate", "--manifest", manifest, *ids, "--json", str(out))[0] == 0
    assert [json.loads(line)["id"] for line in out.read_text(encoding="utf-8").splitlines()] == [
        "good",
        "last",
    ]


def test_manifest_errors(
    capsys: pytest.CaptureFixture[str], source: str, manifest: str, tmp_path: Path
) -> None:
    message = refused(capsys, "simulate", "--manifest", manifest, "--id", "goood")
    assert "goood" in message and "good" in message.replace("goood", "")
    assert "absent.json" in refused(capsys, "simulate", "--manifest", str(tmp_path / "absent.json"))
    (tmp_path / "cut.json").write_text('[{"id": "a", ', encoding="utf-8")
    assert "cut.json" in refused(capsys, "simulate", "--manifest", str(tmp_path / "cut.json"))
    assert "either" in refused(capsys, "simulate", source, "--manifest", manifest)
    assert "either" in refused(capsys, "simulate")
    assert "--grid" in refused(capsys, "simulate", "--manifest", manifest, "--grid", "1")
    assert "--manifest" in refused(capsys, "simulate", source, "--id", "x", "--grid", "1", "--block", "1")


# --- Launches: bad input (item 8 of the issue) -------------------------------------------------------------


def launch(
    source: str, kernel: str, block: str, *arguments: str, more: tuple[str, ...] = ()
) -> tuple[str, ...]:
    args = [word for spec in arguments for word in ("--arg", spec)]
    return ("simulate", source, "--kernel", kernel, "--grid", "1", "--block", block, *args, *more)


FLOATS = "float32[64]:zeros"


@pytest.mark.parametrize(
    ("kernel", "block", "arguments", "says"),
    [
        ("scale", "32", (FLOATS,), ("3", "1")),  # wants three arguments, got one
        ("scale", "32", (FLOATS, "float32=2", "int32=64", "int32=1"), ("3", "4")),
        ("scale", "32", (FLOATS, "float64=2", "int32=64"), ("8", "4")),  # a double where a float belongs
        ("scale", "32", (FLOATS, "float32=two", "int32=64"), ("two",)),
        ("scale", "32", (FLOATS, "float31=2", "int32=64"), ("float31",)),
        ("scale", "32", ("float32[-1]:zeros", "float32=2", "int32=64"), ("-1",)),
        ("scale", "32", ("float32[64]:primes", "float32=2", "int32=64"), ("primes",)),
        ("scale", "32", ("@absent.npy", "float32=2", "int32=64"), ("absent.npy",)),
        ("scale", "1025", (FLOATS, "float32=2", "int32=64"), ("1,024",)),
        ("scale", "0", (FLOATS, "float32=2", "int32=64"), ("0",)),
        ("nothing", "32", (FLOATS,), ("nothing", "scale")),
    ],
)
def test_launches_that_cannot_be(
    capsys: pytest.CaptureFixture[str],
    source: str,
    kernel: str,
    block: str,
    arguments: tuple[str, ...],
    says: tuple[str, ...],
) -> None:
    message = refused(capsys, *launch(source, kernel, block, *arguments))
    assert all(word in message for word in says), message


def test_grid_of_zero_and_too_much_shared_memory(capsys: pytest.CaptureFixture[str], source: str) -> None:
    good = launch(source, "big_tile", "32", FLOATS)
    assert "grid" in refused(capsys, *(word if word != "1" else "0" for word in good)).lower()
    message = refused(capsys, *good, "--dynamic-shared", "240K")  # 227 KiB is what an H200 block may have
    assert "232,448" in message and "shared memory" in message
    assert "voodoo2" in refused(capsys, *good, "--device", "voodoo2")


def test_out_of_bounds_says_where(capsys: pytest.CaptureFixture[str], source: str) -> None:
    """Lane 1 writes word 64 of 64: byte 256, the first beyond the array."""
    message = refused(capsys, *launch(source, "walk", "32", FLOATS, "int32=64"))
    for word in ("walk", "kernels.cu:5", "pc", "CTA", "warp", "lane 1", "0x", "256"):
        assert word in message, (word, message)


def test_misaligned_vector_access(capsys: pytest.CaptureFixture[str], source: str) -> None:
    message = refused(capsys, *launch(source, "wide", "1", FLOATS, "int8[64]:zeros", "int32=4"))
    assert "align" in message and "16" in message and "kernels.cu:11" in message


def test_endless_loop_ends(capsys: pytest.CaptureFixture[str], source: str) -> None:
    message = refused(capsys, *launch(source, "forever", "32", "int32[1]:zeros", more=("--budget", "100000")))
    assert "100,000" in message or "100000" in message
    assert "--budget" in message or "budget" in message


def test_barrier_some_warps_never_reach(capsys: pytest.CaptureFixture[str], source: str) -> None:
    """One warp waits at a barrier for 64 threads; the other has gone by."""
    message = refused(capsys, *launch(source, "half_barrier", "64", "int32[64]:zeros"))
    assert "barrier" in message and "half_barrier" in message


def test_cubin_for_an_unsupported_architecture(
    capsys: pytest.CaptureFixture[str], source: str, tmp_path: Path
) -> None:
    """A Turing binary: its instructions are decoded or the architecture is named, never half executed."""
    from gpusim.program import compile

    old = bytearray(compile(source, arch="sm_90").cubin)
    flags = int.from_bytes(old[48:52], "little")  # e_flags of the ELF header holds the architecture
    changed = bytes(33 if byte == 90 else byte for byte in flags.to_bytes(4, "little"))
    old[48:52] = changed
    (tmp_path / "old.cubin").write_bytes(bytes(old))
    message = refused(capsys, *launch(str(tmp_path / "old.cubin"), "scale", "32", *SCALE_ARGS[1::2]))
    assert "old.cubin" in message and "33" in message


def test_nothing_is_left_when_a_launch_fails(
    capsys: pytest.CaptureFixture[str], source: str, tmp_path: Path
) -> None:
    out = ("--json", str(tmp_path / "r.json"))
    refused(capsys, *launch(source, "walk", "32", FLOATS, "int32=64", more=out))
    assert list(tmp_path.iterdir()) == []


def test_ladder_refuses_odd_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    for size in ("0", "100", "-128", "1000000"):
        assert "multiple of 128" in refused(capsys, "ladder", "--size", size)


def test_small_ladder(capsys: pytest.CaptureFixture[str]) -> None:
    """Every A row is there, with the sector ratio of A1 to A2 in words."""
    code, out, err = run(capsys, "ladder", "--size", "128")
    assert code == 0, err
    for name in ("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9"):
        assert f"\n{name}" in out
    assert "A1 to A2: a global load takes" in out

"""Finding tools, remembering answers, telling what is missing.

Fake toolkits in temporary directories stand for machines we do not have: one with a toolkit and no
wheels, one with nothing at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusim import program
from gpusim.cubin import cache, compiler, disassembler, headers, toolchain
from gpusim.errors import CompileError, GpusimError, InputError, ToolMissing

DATA = Path(__file__).parent / "data" / "cubins"
KERNEL = 'extern "C" __global__ void k(int* p) { p[0] = VALUE; }\n'


def forget() -> None:
    for function in (
        toolchain.roots, toolchain.find_library, toolchain.find_program, toolchain.system_include_dirs,
        toolchain.program_version, compiler.Nvrtc.load,
    ):  # fmt: skip
        function.cache_clear()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """Nothing found before counts, and nothing found here counts later."""
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path / "cache"))
    forget()
    yield monkeypatch
    monkeypatch.undo()
    forget()


def program_file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def bare_machine(patch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No wheels, no CUDA_HOME, nothing on PATH, nothing in /usr/local, no cuda-pathfinder."""
    patch.setattr(toolchain.sysconfig, "get_path", lambda key: str(tmp_path / "no-site"))
    patch.setattr(toolchain.ctypes.util, "find_library", lambda stem: None)
    patch.setitem(__import__("sys").modules, "cuda.pathfinder", None)
    patch.setenv("PATH", str(tmp_path / "empty"))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        patch.delenv(name, raising=False)
    patch.setattr(Path, "glob", lambda self, pattern: iter(()))
    real = Path.exists
    patch.setattr(Path, "exists", lambda self, **k: not str(self).startswith("/usr/local/") and real(self))


# --- Finding -------------------------------------------------------------------------------------


def test_this_machine_can_compile_and_decode() -> None:
    found = {t.name: t for t in toolchain.tools()}
    for name in ("NVRTC", "nvdisasm", "cuda_fp16.h", "crt/mma.h", "cooperative_groups.h", "cuda/std/cstdint"):
        assert found[name].path is not None and found[name].found_via, name
    assert found["nvJitLink"].path or found["ptxas"].path
    assert found["NVRTC"].version.count(".") == 1 and found["nvdisasm"].version.count(".") == 2


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_a_toolkit_without_wheels_serves(fresh: pytest.MonkeyPatch, tmp_path: Path, variable: str) -> None:
    toolkit = tmp_path / "cuda-99"
    program_file(toolkit / "bin" / "nvdisasm", "echo 'Cuda compilation tools, release 99.1, V99.1.7'\n")
    for name in ("lib64/libnvrtc.so.99", "lib64/libnvrtc.so.99.1.7", "lib64/libnvrtc.alt.so.99"):
        (toolkit / name).parent.mkdir(exist_ok=True)
        (toolkit / name).touch()
    (toolkit / "include" / "cccl").mkdir(parents=True)
    (toolkit / "include" / "cuda_runtime.h").touch()
    fresh.setattr(toolchain.sysconfig, "get_path", lambda key: str(tmp_path / "no-site"))
    fresh.delenv("CUDA_HOME", raising=False)
    fresh.setenv(variable, str(toolkit))
    place = toolchain.find_program("nvdisasm")
    assert (place.path, place.found_via) == (str(toolkit / "bin" / "nvdisasm"), variable)
    assert toolchain.program_version("nvdisasm") == "99.1.7"
    assert toolchain.find_library("nvrtc").path == str(toolkit / "lib64" / "libnvrtc.so.99")
    assert toolchain.system_include_dirs()[:2] == (
        str(toolkit / "include"), str(toolkit / "include" / "cccl")
    )  # fmt: skip


def test_a_toolkit_beside_nvcc_on_path(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toolkit = tmp_path / "opt" / "cuda"
    program_file(toolkit / "bin" / "nvcc", "")
    program_file(toolkit / "bin" / "ptxas", "")
    (toolkit / "nvvm").mkdir()
    fresh.setattr(toolchain.sysconfig, "get_path", lambda key: str(tmp_path / "no-site"))
    fresh.setenv("PATH", str(toolkit / "bin"))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        fresh.delenv(name, raising=False)
    assert toolchain.roots()[0] == (toolkit, "nvcc on PATH")
    assert toolchain.find_program("ptxas").path == str(toolkit / "bin" / "ptxas")


def test_a_script_called_nvcc_makes_no_toolkit(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program_file(tmp_path / "bin" / "nvcc", "exec /elsewhere/nvcc\n")
    (tmp_path / "include").mkdir()
    fresh.setenv("PATH", str(tmp_path / "bin"))
    assert tmp_path not in [root for root, _ in toolchain.roots()]


def test_wheels_of_the_newest_cuda_come_first() -> None:
    order = sorted(map(Path, ("cuda_nvrtc", "cu12", "cu13", "cublas")), key=toolchain._wheel_order)
    assert [p.name for p in order] == ["cu13", "cu12", "cublas", "cuda_nvrtc"]


def test_a_bare_machine_says_what_is_missing(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare_machine(fresh, tmp_path)
    with pytest.raises(ToolMissing, match=r"NVRTC[\s\S]*pip install nvidia-cuda-nvrtc"):
        program.compile(KERNEL.replace("VALUE", "1"))
    with pytest.raises(ToolMissing, match=r"neither nvJitLink nor ptxas[\s\S]*nvidia-nvjitlink"):
        program.compile(".version 8.0\n.target sm_80\n")
    module = program.load(DATA / "g06.cubin")  # the ELF image needs no tool
    assert module["g06"].registers_per_thread == 18
    with pytest.raises(ToolMissing, match=r"nvdisasm[\s\S]*pip install nvidia-cuda-nvdisasm"):
        module["g06"].instructions  # noqa: B018
    assert all(t.path is None and t.hint for t in toolchain.tools())


def test_broken_tools_are_reported(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libnvrtc.so").write_text("no library")
    with pytest.raises(ToolMissing, match="cannot be loaded"):
        compiler.Nvrtc(toolchain.Place(str(tmp_path / "libnvrtc.so"), "test"))
    broken = program_file(tmp_path / "nvdisasm", "echo nonsense\n")
    fresh.setattr(toolchain, "find_program", lambda name: toolchain.Place(str(broken), "test"))
    with pytest.raises(GpusimError, match="cannot be read"):
        program.load(DATA / "g06.cubin")["g06"].instructions  # noqa: B018
    program_file(broken, "echo 'bad cubin' >&2; exit 3\n")
    with pytest.raises(GpusimError, match="cannot decode the cubin: bad cubin"):
        program.load(DATA / "g06.cubin")["g06"].instructions  # noqa: B018
    with pytest.raises(ToolMissing, match="does not run"):
        toolchain.run([str(tmp_path / "nowhere")])


# --- Architectures -------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["sm_90", "90", "compute_90", "SM_90", " sm_90 "])
def test_ways_to_write_an_architecture(arch: str) -> None:
    assert compiler.check_architecture(arch, (80, 90), "x") == "sm_90"


@pytest.mark.parametrize("arch", ["sm_9", "9.0", "sm_91", "hopper", "", "sm_90b"])
def test_unknown_architectures_list_the_known(arch: str) -> None:
    with pytest.raises(InputError, match="supported: sm_80, sm_90"):
        compiler.check_architecture(arch, (90, 80), "x")


def test_every_architecture_of_the_compiler(tmp_path: Path) -> None:
    for number in compiler.Nvrtc.load().architectures:
        module = program.compile(KERNEL.replace("VALUE", "7"), str(number))
        assert module.arch == f"sm_{number}"
        stores = [i for i in module["k"].instructions if i.opcode in ("STG", "ST")]
        assert len(stores) == 1


# --- Headers -------------------------------------------------------------------------------------

CUDA_HEADERS = (
    "cuda_fp16.h", "cuda_bf16.h", "mma.h", "cuda_pipeline.h", "cooperative_groups.h",
    "cooperative_groups/reduce.h", "cuda_runtime.h", "cuda/std/cstdint", "cuda/std/type_traits",
    "cuda/atomic", "cuda/barrier",
)  # fmt: skip


@pytest.mark.parametrize("header", CUDA_HEADERS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cuda_headers(header: str, arch: str) -> None:
    program.compile(f"#include <{header}>\n" + KERNEL.replace("VALUE", "1"), arch)


def test_all_standard_headers_together() -> None:
    includes = "".join(f"#include <{name}>\n" for name in headers.HEADERS)
    body = """
    static_assert(sizeof(std::uint64_t) == 8 && UINT32_MAX == 4294967295u && INT_MIN < 0, "");
    static_assert(std::is_same<int32_t, int>::value && FLT_MANT_DIG == 24, "");
    extern "C" __global__ void k(float* p, uint32_t* q, std::size_t n) {
      p[n] = std::max(std::sqrt(p[0]), FLT_MAX) + std::numeric_limits<float>::epsilon();
      std::memcpy(q, p, 16);
      assert(p[1] > 0);
      std::printf("%d", q[0]);
    }
    """
    program.compile(includes + body, "sm_80")


@pytest.mark.parametrize("name", ["cstdint", "stdint.h", "climits", "cfloat", "cstddef"])
def test_standard_headers_without_libcupp(fresh: pytest.MonkeyPatch, name: str) -> None:
    fresh.setattr(toolchain, "system_include_dirs", lambda: ())
    use = {"climits": "INT_MAX", "cfloat": "(int)FLT_MAX", "cstddef": "sizeof(std::size_t)"}
    value = use.get(name, "sizeof(uint64_t) + sizeof(std::int8_t) + UINT16_MAX")
    program.compile(f"#include <{name}>\n" + KERNEL.replace("VALUE", value))


def test_missing_toolkit_headers_say_what_to_install(fresh: pytest.MonkeyPatch) -> None:
    fresh.setattr(toolchain, "system_include_dirs", lambda: ())
    with pytest.raises(CompileError, match="pip install nvidia-cuda-runtime"):
        program.compile("#include <cuda_fp16.h>\n")
    with pytest.raises(CompileError, match="nvidia-cuda-cccl"):
        program.compile("#include <algorithm>\n")


def test_a_header_of_the_user_beats_ours(tmp_path: Path) -> None:
    (tmp_path / "float.h").write_text("#define VALUE 77\n")
    (tmp_path / "k.cu").write_text('#include "float.h"\n' + KERNEL)
    program.compile(tmp_path / "k.cu")  # VALUE is defined nowhere else


def test_helpers_without_annotations_serve_both_sides() -> None:
    program.compile("int half(int n) { return n / 2; }\n" + KERNEL.replace("VALUE", "half(p[1])"))


# --- The cache -----------------------------------------------------------------------------------


def counted(patch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with every run of the compiler."""
    runs: list[int] = []
    real = compiler.Nvrtc.compile
    patch.setattr(compiler.Nvrtc, "compile", lambda self, *a: (runs.append(1), real(self, *a))[1])
    return runs


def test_what_compiles_again_and_what_does_not(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = counted(fresh)
    (tmp_path / "inner.h").write_text("#define VALUE 1\n")
    (tmp_path / "outer.h").write_text('#if 1\n#  include "inner.h"\n#endif\n')
    source = tmp_path / "k.cu"
    source.write_text('#include "outer.h"\n' + KERNEL)

    def hashed(**options: object) -> str:
        return program.compile(source, **{"arch": "sm_80", **options}).sha256

    first = hashed()
    assert hashed() == first and len(runs) == 1
    (tmp_path / "inner.h").write_text("#define VALUE 2\n")  # two levels down
    second = hashed()
    assert second != first and len(runs) == 2
    hashed(options=["-DUNUSED"])
    hashed(arch="sm_90")
    hashed(max_registers=32)
    assert len(runs) == 5
    (tmp_path / "inner.h").write_text("#define VALUE 1\n")
    assert hashed() == first and len(runs) == 5
    source.write_text('#define NAME "outer.h"\n#include NAME\n' + KERNEL)  # computed: never cached
    hashed(), hashed()
    assert len(runs) == 7


def test_an_include_that_only_an_option_finds(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "v.h").write_text("#define VALUE 1\n")
    text = "#include <v.h>\n" + KERNEL
    first = program.compile(text, options=[f"-I{tmp_path}"]).sha256
    (tmp_path / "v.h").write_text("#define VALUE 2\n")
    assert program.compile(text, options=[f"-I{tmp_path}"]).sha256 != first


def test_a_damaged_entry_is_computed_again(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = counted(fresh)
    text = KERNEL.replace("VALUE", "3")
    first = program.compile(text)
    (entry,) = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    whole = entry.read_bytes()
    for damaged in (b"", whole[:40], whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), b"x" * len(whole)):
        entry.write_bytes(damaged)
        assert program.compile(text).sha256 == first.sha256
        assert entry.read_bytes() == whole
    assert len(runs) == 6
    again = program.compile(text)
    assert len(runs) == 6 and again.log == first.log


@pytest.mark.parametrize("place", ["file", "switched off"])
def test_without_a_cache_directory_everything_works(
    fresh: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").touch()  # a file where the directory should be: nothing can be written there
    fresh.setenv("GPUSIM_CACHE_DIR", str(tmp_path / "file") if place == "file" else "")
    runs = counted(fresh)
    for _ in range(2):
        assert program.compile(KERNEL.replace("VALUE", "4"))["k"].instructions
    assert len(runs) == 2


def test_the_cache_is_where_the_platform_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUSIM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    monkeypatch.setenv("LOCALAPPDATA", "C:\\local")
    monkeypatch.setattr(cache.sys, "platform", "linux")
    assert cache.directory() == Path("/x/cache/gpusim")
    monkeypatch.setattr(cache.sys, "platform", "darwin")
    assert cache.directory() == Path.home() / "Library" / "Caches" / "gpusim"
    monkeypatch.setattr(cache.sys, "platform", "win32")
    assert cache.directory() == Path("C:\\local") / "gpusim"


def test_entries_are_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    key = cache.key("a", b"b")
    cache.put("kind", key, b"payload")
    assert cache.get("kind", key) == b"payload" and cache.get("kind", cache.key("other")) is None

    def full(*a: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache.put("kind", key, b"new")
    assert cache.get("kind", key) == b"payload"
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [key[2:]]  # no leftover


def test_live_registers_of_a_listing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (
        '\t.section\t.text._Z1kPf,"ax",@progbits\n'
        "        /*0000*/      LDC R1, c[0x0][0x28] ;      // |   2   |        |\n"
        "        /*0010*/      ULDC UR4, c[0x0][0x208] ;   // |       |   2    |\n"
        ".L_x_1:                                           // +.......+........+\n"
        "        /*0020*/      EXIT ;                      // |  11   |   3    |\n"
    )
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(disassembler, "_run", lambda *a: text)
    assert disassembler.live_registers(b"", "0" * 64, "x") == {"_Z1kPf": {0: 2, 16: 0, 32: 11}}

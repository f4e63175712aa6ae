"""Compile and load: what a module says about kernels compiled here, against ptxas and the source.

ptxas prints registers, shared memory and spills while it compiles (``Module.log``); the module reads
them from the cubin.  Two independent ways to one number.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gpusim.program as program
from gpusim.cubin import cache, compiler, disassembler, toolchain
from gpusim.errors import CompileError, InputError, ToolMissing
from gpusim.report.sass import render_sass, rich_sass

DATA = Path(__file__).parent / "data" / "cubins"
#: One before Hopper, Hopper, and two after: shared memory, parameters and e_flags differ among them.
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")

SOURCE = r"""
__constant__ float table[17];
__device__ int counter = 5;
__device__ double zeros[100];
struct Wide { char bytes[5000]; };
extern "C" __global__ void shared_user(const float* p, int n, double q, char c) {
  __shared__ float tile[32][33];
  tile[threadIdx.x][n] = p[threadIdx.x] * table[n];
  __syncthreads();
  zeros[n] = tile[n][threadIdx.x] * q + c;
  atomicAdd(&counter, 1);
}
extern "C" __global__ void __launch_bounds__(128) dynamic_user(float* p, int n) {
  extern __shared__ float pool[];
  pool[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[0] = pool[n];
}
extern "C" __global__ void spiller(const float4* a, float4* b, int n) {
  float4 r[24];
  for (int i = 0; i < 24; i++) r[i] = a[threadIdx.x + i * 256];
  for (int j = 0; j < n; j++) {
    for (int i = 0; i < 24; i++) {
      r[i].x += r[(i + 1) % 24].y * r[(i + 5) % 24].z; r[i].y *= r[(i + 7) % 24].w; r[i].w += r[i].x;
    }
    __syncthreads();
  }
  for (int i = 0; i < 24; i++) b[threadIdx.x + i * 256] = r[i];
}
extern "C" __global__ void local_array(const float* a, float* b, int n) {
  float r[40];
  for (int i = 0; i < 40; i++) r[i] = a[threadIdx.x + i * 256];
  for (int j = 0; j < n; j++) r[j % 40] += r[(j * 7) % 40];
  b[threadIdx.x] = r[n % 40];
}
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursive(int* p) { p[0] = fibonacci(p[1]); }
extern "C" __global__ void wide(int x, Wide w, float* p) { p[0] = w.bytes[threadIdx.x] + x; }
extern "C" __global__ void nothing() {}
"""


@pytest.fixture(scope="module")
def modules() -> dict[str, program.Module]:
    return {arch: program.compile(SOURCE, arch, max_registers=40) for arch in ARCHITECTURES}


def ptxas_says(log: str) -> dict[str, dict[str, int]]:
    """kernel -> registers, smem, spills and stack of the entry itself, from ptxas -v."""
    out = {}
    for block in log.split("Compiling entry function ")[1:]:
        name = block.split("'")[1]
        shared = re.search(r"(\d+) bytes smem", block)
        spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", block)
        out[name] = {
            "registers": int(re.search(r"Used (\d+) registers", block)[1]),
            "barriers": int(re.search(r"used (\d+) barriers", block)[1]),
            "shared": int(shared[1]) if shared else 0,
            "spills": sum(int(a) + int(b) for a, b in spills),
            "frame": int(re.search(r"(\d+) bytes stack frame", block)[1]),
        }
    return out


# --- Against ptxas -------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_needs_equal_what_ptxas_printed(modules: dict[str, program.Module], arch: str) -> None:
    module = modules[arch]
    said = ptxas_says(module.log)
    assert set(said) == set(module.kernels) and len(said) == 7
    for name, kernel in module.kernels.items():
        got = (
            kernel.registers_per_thread, kernel.barriers, kernel.static_shared_bytes,
            kernel.spill_bytes, kernel.frame_bytes,
        )  # fmt: skip
        row = said[name]
        expected = (row["registers"], row["barriers"], row["shared"], row["spills"], row["frame"])
        assert got == expected, name
    assert module["shared_user"].static_shared_bytes == 32 * 33 * 4
    assert module["dynamic_user"].static_shared_bytes == 0
    assert module["dynamic_user"].max_threads == 128
    assert module["spiller"].registers_per_thread <= 40 and module["spiller"].spill_bytes > 500


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_spills_of_a_loaded_cubin(modules: dict[str, program.Module], arch: str, tmp_path: Path) -> None:
    path = tmp_path / "x.cubin"
    path.write_bytes(modules[arch].cubin)
    loaded = program.load(path)
    assert loaded["spiller"].reported_spills is None
    assert loaded["spiller"].spill_bytes == modules[arch]["spiller"].spill_bytes
    assert loaded["shared_user"].spill_bytes == 0
    assert loaded["local_array"].spill_bytes is None  # its frame may hold the array or spills
    assert "ptxas" in loaded["local_array"].spill_note
    assert loaded["spiller"].spill_note is None


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_parameters_follow_the_rules_of_c(modules: dict[str, program.Module], arch: str) -> None:
    module = modules[arch]
    # const float*, int, double, char: natural alignment
    assert [(p.offset, p.size) for p in module["shared_user"].params] == [(0, 8), (8, 4), (16, 8), (24, 1)]
    # int, 5000 bytes, pointer
    assert [(p.offset, p.size) for p in module["wide"].params] == [(0, 4), (4, 5000), (5008, 8)]
    assert module["nothing"].params == () and module["nothing"].param_bytes == 0
    # constant bank 0, read off the code: parameters start at 0x160 up to Ampere, but at 0x1a80 for a
    # kernel with more than 4 KB of them; at 0x210 on Hopper and 0x380 on Blackwell whatever their size
    usual, large = {"sm_75": (0x160, 0x1A80), "sm_80": (0x160, 0x1A80), "sm_90": (0x210, 0x210)}.get(
        arch, (0x380, 0x380)
    )
    for name, kernel in module.kernels.items():
        assert kernel.param_base == (large if name == "wide" else usual)
        assert kernel.constant0_bytes == kernel.param_base + kernel.param_bytes
    first = f"c[0x0][{large:#x}]"  # x is the first parameter
    assert any(first in i.text for i in module["wide"].instructions)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_constants_globals_and_their_addresses(modules: dict[str, program.Module], arch: str) -> None:
    module = modules[arch]
    assert module.constant_symbols == {"table": (3, 0, 17 * 4)}
    assert module.constant_banks[3] == bytes(17 * 4)
    variables = {g.name: g for g in module.globals}
    assert variables["counter"].init == (5).to_bytes(4, "little")
    assert (variables["zeros"].size, variables["zeros"].init) == (800, None)
    bank = {r.symbol: r for r in module.relocations if r.section == ".nv.constant4"}
    assert set(bank) == {"counter", "zeros"}
    assert {r.type for r in bank.values()} == {"R_CUDA_64"} and {r.addend for r in bank.values()} == {0}
    assert sorted(r.offset for r in bank.values()) == [0, 8]
    assert set(module["shared_user"].constant_banks) >= {3, 4}


def test_recursion_has_no_stack_bound(modules: dict[str, program.Module]) -> None:
    kernel = modules["sm_90"]["recursive"]
    assert not kernel.stack_is_bounded and kernel.local_bytes == 1024
    assert any("fibonacci" in name for name in kernel.pc_of_symbol)


# --- Instructions --------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_instructions_are_the_section_in_address_order(modules: dict[str, program.Module], arch: str) -> None:
    for kernel in modules[arch].kernels.values():
        instructions = kernel.instructions
        assert [i.pc for i in instructions] == list(range(0, len(kernel.code), 16))
        assert b"".join(i.encoding.to_bytes(16, "little") for i in instructions) == kernel.code
        assert any(i.opcode == "EXIT" for i in instructions)
        assert len(kernel.live_registers) == len(instructions)
        # the live count at an instruction includes its destinations, and alignment holes do not count
        assert 0 < max(kernel.live_registers) <= kernel.registers_per_thread + 2


def test_lines_are_those_of_the_source(modules: dict[str, program.Module]) -> None:
    module = modules["sm_90"]
    rows = SOURCE.splitlines()
    barriers = [i for i in module["shared_user"].instructions if i.opcode == "BAR"]
    assert [rows[i.line - 1].strip() for i in barriers] == ["__syncthreads();"]
    assert barriers[0].file == "source.cu"
    assert module.source_text("source.cu") == SOURCE


def test_the_cubin_does_not_depend_on_where_the_source_lies(tmp_path: Path) -> None:
    hashes = set()
    for folder in ("one", "two/three"):
        path = tmp_path / folder / "k.cu"
        path.parent.mkdir(parents=True)
        path.write_text(SOURCE)
        module = program.compile(path, "sm_80")
        hashes.add(module.sha256)
        assert module["nothing"].instructions[0].file == "k.cu"
        assert module.find_source("k.cu") == path
    assert len(hashes) == 1


def test_decoding_uses_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    first = program.load(DATA / "l04.cubin")["l04_val"].instructions
    monkeypatch.setattr(disassembler, "_run", lambda *a: pytest.fail("nvdisasm was run again"))
    assert program.load(DATA / "l04.cubin")["l04_val"].instructions == first
    entries = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(entries) == 1
    entries[0].write_bytes(entries[0].read_bytes()[:-1])  # damaged: decoded again, not believed
    monkeypatch.undo()
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    assert program.load(DATA / "l04.cubin")["l04_val"].instructions == first


def test_saving_predicates_in_a_register(modules: dict[str, program.Module]) -> None:
    # nvdisasm -json takes the operand PR of P2R for the guard; `nvdisasm -c` prints P2R R26, PR, RZ, 0x1
    saves = [i for i in modules["sm_100"]["recursive"].instructions if i.opcode == "P2R"]
    assert saves and all(i.guard is None for i in saves)
    assert all(re.fullmatch(r"P2R R\d+, PR, RZ, 0x1", i.text) for i in saves)
    guarded = {"predicate": "@!P1", "opcode": "P2R", "operands": "R26,@!P1,RZ,0x1"}
    assert disassembler._fields(guarded) == ("P2R", "R26,PR,RZ,0x1", "@!P1")
    # and it leaves the PR of an R2P behind that out
    restored = {"predicate": "@P1", "opcode": "R2P", "operands": "R26,0x1"}
    assert disassembler._fields(restored) == ("R2P", "PR,R26,0x1", "@P1")


# --- Names ---------------------------------------------------------------------------------------

TEMPLATES = """
template <int N, class T> __global__ void tile(T* p) { p[N] = p[0]; }
namespace inner { template <bool B> __global__ void flag(int* p) { p[0] = B; } }
__global__ void plain(float* p, unsigned int n) { p[n] = 1.f; }
"""


@pytest.fixture(scope="module")
def templates() -> program.Module:
    return program.compile(
        TEMPLATES, "sm_80", name_expressions=["tile<16,float>", "tile<8, int>", "inner::flag<true>"]
    )


@pytest.mark.parametrize(
    ("name", "mangled"),
    [
        ("tile<16,float>", "_Z4tileILi16EfEvPT0_"),  # as asked for
        ("tile<16, float>", "_Z4tileILi16EfEvPT0_"),  # blanks do not matter
        ("tile<8,int>", "_Z4tileILi8EiEvPT0_"),
        ("_Z4tileILi8EiEvPT0_", "_Z4tileILi8EiEvPT0_"),
        ("plain", "_Z5plainPfj"),
        ("plain(float*, unsigned int)", "_Z5plainPfj"),
        ("inner::flag", "_ZN5inner4flagILb1EEEvPi"),
        ("inner::flag<true>", "_ZN5inner4flagILb1EEEvPi"),
    ],
)
def test_names_as_people_write_them(templates: program.Module, name: str, mangled: str) -> None:
    assert templates[name].name == mangled and name in templates


def test_unknown_and_ambiguous_names(templates: program.Module) -> None:
    with pytest.raises(InputError, match=r"no kernel named 'plian'[\s\S]*did you mean plain\(float"):
        templates["plian"]
    with pytest.raises(InputError, match="several kernels") as caught:
        templates["tile"]
    assert "tile<16, float>" in str(caught.value) and "tile<8, int>" in str(caught.value)
    assert "tile" not in templates and len(templates) == 4


# --- PTX -----------------------------------------------------------------------------------------

PTX = """
// a comment first
.version 7.8
.target sm_75
.address_size 64
.visible .entry doubler(.param .u64 p, .param .f32 x)
{
  .reg .b64 %rd<3>; .reg .f32 %f<3>; .reg .b32 %r<2>; .shared .align 16 .b8 buffer[512];
  ld.param.u64 %rd1, [p]; ld.param.f32 %f1, [x]; cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, buffer; st.shared.f32 [%r1], %f1; bar.sync 0; ld.shared.f32 %f2, [%r1+4];
  add.f32 %f1, %f1, %f2; st.global.f32 [%rd2], %f1;
  ret;
}
"""


@pytest.mark.parametrize("assembler", ["nvJitLink", "ptxas"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_ptx_by_either_assembler(
    arch: str, assembler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    if assembler == "ptxas":
        # the wheels bring nvJitLink only; a machine without any ptxas must then say what is missing
        monkeypatch.setattr(toolchain, "find_library", lambda stem: None)
        if toolchain.find_program("ptxas") is None:
            with pytest.raises(ToolMissing, match="neither nvJitLink nor ptxas"):
                program.compile(PTX, arch)
            return
    kernel = program.compile(PTX, arch)["doubler"]
    assert kernel.static_shared_bytes == 512
    assert [(p.offset, p.size) for p in kernel.params] == [(0, 8), (8, 4)]
    assert kernel.spill_bytes == 0 and kernel.reported_spills == 0
    assert {"STS", "LDS", "STG", "FADD", "BAR"} <= {i.opcode for i in kernel.instructions}


def test_wrong_ptx(tmp_path: Path) -> None:
    path = tmp_path / "bad.ptx"
    path.write_text(PTX.replace("add.f32", "bogus.f32"))
    with pytest.raises(CompileError, match=r"bad\.ptx[\s\S]*line 11[\s\S]*bogus"):
        program.compile(path, "sm_80")
    with pytest.raises(InputError, match="not known to this PTX assembler"):
        program.compile(PTX, "sm_33")


# --- Wrong input ---------------------------------------------------------------------------------


def test_syntax_error_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.cu"
    path.write_text('extern "C" __global__ void k(int* p) {\n  p[0] = undefined_thing;\n}\n')
    with pytest.raises(CompileError) as caught:
        program.compile(path)
    assert f"{path}(2): error" in str(caught.value) and "undefined_thing" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "options", "error", "words"),
    [
        ("", {}, InputError, "no source"),
        ("no/such.cu", {}, InputError, "no such file"),
        (".", {}, InputError, "directory"),
        ("a" * 5000, {}, InputError, "cannot be read"),
        (" \n \n", {}, InputError, "empty"),
        ("int\0x;\n", {}, InputError, "binary"),
        (str(DATA / "g06.cubin"), {}, InputError, "load()"),
        ("__device__ int f() { return 1; }\n", {}, CompileError, "no kernel"),
        ('#include "nowhere.h"\n', {}, CompileError, "include directory"),
        ("#include <vector>\n", {}, CompileError, "only device code"),
        ("int main() { cudaFree(0); }\n", {}, CompileError, "__CUDACC_RTC__"),
        (SOURCE, {"arch": "sm_33"}, InputError, "supported: sm_"),
        (SOURCE, {"arch": "hopper"}, InputError, "supported: sm_"),
        (SOURCE, {"options": ["-arch=sm_80"]}, InputError, "override the architecture"),
        (SOURCE, {"options": ["--no-such-option"]}, CompileError, "no-such-option"),
        (SOURCE, {"options": ["-dlto"]}, CompileError, "no cubin"),
        (SOURCE, {"max_registers": 400}, InputError, "between 1 and 255"),
        (TEMPLATES, {"name_expressions": ["tile<3"]}, CompileError, "tile<3"),
        (TEMPLATES, {"name_expressions": ["nothing<3>"]}, CompileError, "fits no kernel template"),
    ],
)
def test_wrong_input_is_one_clear_sentence(
    source: str, options: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)):
        program.compile(source, **options)


# --- The annotated listing -------------------------------------------------------------------------


def test_listing_by_hand() -> None:
    kernel = program.load(DATA / "l04.cubin")["l04_ptr"]
    text = render_sass(kernel)
    assert "14 registers, 0 B shared, 16 B frame" in text
    # words 0x50 and 0x90 of the file, control fields worked out by hand from bits 105-124
    assert "   0x50    5 |     6 y - - .1.... ...   | IMAD.WIDE.U32 R4, R9, 0x10, R4\n" in text
    assert "   0x60    6 |     1 - 2 - ...... ...   | LDG.E.128 R4, desc[UR4][R4.64]\n" in text
    assert "-- kernels/l04.cu:26\n   0x90    3 |" in text
    assert "$l04_ptr$_Z5dbl_pP6float4:\n" in text
    assert "> 0x210    1 |" in text  # BRA to itself
    assert text.endswith("14 x NOP (padding)\n")
    assert "-- kernels" not in render_sass(kernel, source=False)
    assert rich_sass(kernel).plain.splitlines()[3].split() == text.splitlines()[3].split()


def test_listing_shows_the_source_between_its_instructions(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text('extern "C" __global__ void k(float* p) {\n  p[threadIdx.x] *= 2.0f;  // here\n}\n')
    rows = render_sass(program.compile(path)["k"]).splitlines()
    assert "-- k.cu:2  p[threadIdx.x] *= 2.0f;  // here" in rows


def test_control_words_by_hand() -> None:
    # l04_ptr+0x60: LDG.E.128 R4 -- second word of the file ends in ...c1e0000: write counter 2
    module = program.load(DATA / "l04.cubin")
    by_pc = {i.pc: i.control for i in module["l04_ptr"].instructions}
    assert (by_pc[0x60].write_barrier, by_pc[0x60].read_barrier, by_pc[0x60].wait_mask) == (2, None, 0)
    # STL.128 at 0x80 waits for that counter (bit 2) and signals its read on counter 0
    assert (by_pc[0x80].wait_mask, by_pc[0x80].read_barrier) == (1 << 2, 0)


def test_spills_are_read_per_entry_with_callees() -> None:
    log = (
        "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
        "ptxas info    : Function properties for k\n"
        "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Function properties for _Z1fPfi\n"
        "    0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Compiling entry function 'm' for 'sm_90'\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    )
    assert compiler.parse_spills(log) == {"k": 28, "m": 0}


def test_cache_key_separates_lists() -> None:
    assert cache.key("ab", "c") != cache.key("a", "bc") != cache.key("abc")

"""Cubin files taken apart: against pyelftools, nvdisasm, measured launches and hand-written values.

``data/cubins/`` holds two of the measured binaries (nvcc 13.0, sm_90): l04 (calls, a stack frame,
inlined code) and g06 (static shared memory).  Their kernels' figures are those Nsight Compute reported
on the H200 (``launch__registers_per_thread``, ``launch__shared_mem_per_block_static``,
``launch__barrier_count``).
"""

from __future__ import annotations

import io
import json
import posixpath
import re
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from gpusim import program
from gpusim.cubin import elf, lines, toolchain
from gpusim.errors import CubinError, GpusimError, InputError

DATA = Path(__file__).parent / "data" / "cubins"
FILES = ("l04.cubin", "g06.cubin")
#: kernel -> registers a launch takes, static shared bytes, barriers: measured.
MEASURED = {
    "l04.cubin": {"l04_local": (16, 0, 0), "l04_ptr": (16, 0, 0), "l04_val": (16, 0, 0)},
    "g06.cubin": {"g06": (18, 5120, 1)},
}


def image(name: str) -> bytes:
    return (DATA / name).read_bytes()


# --- Against an independent reader and the card ----------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_sections_and_symbols_equal_pyelftools(name: str) -> None:
    cubin = elf.parse_cubin(image(name))
    other = ELFFile(io.BytesIO(image(name)))
    theirs = [(s.name, s["sh_size"], s["sh_info"], s["sh_addralign"]) for s in other.iter_sections()]
    assert [(s.name, s.size, s.info, s.align) for s in cubin.sections] == theirs
    for section in other.iter_sections():
        if section["sh_type"] not in ("SHT_NOBITS", "SHT_NULL"):
            assert cubin.section(section.name).data == section.data()
    symbols = other.get_section_by_name(".symtab")
    assert [(s.name, s.value, s.size) for s in cubin.symbols] == [
        (s.name, s["st_value"], s["st_size"]) for s in symbols.iter_symbols()
    ]


@pytest.mark.parametrize("name", FILES)
def test_kernel_needs_equal_what_the_card_reported(name: str) -> None:
    module = program.load(DATA / name)
    assert set(module.kernels) == set(MEASURED[name])
    for entry, (registers, shared, barriers) in MEASURED[name].items():
        kernel = module[entry]
        assert max(16, kernel.registers_per_thread) == registers
        assert kernel.static_shared_bytes == shared
        assert kernel.barriers == barriers


def test_every_measured_launch(h200: Path) -> None:
    cases = h200 / "cases"
    measured = json.loads((cases / "measured_h200.json").read_text())
    launches = json.loads((cases / "manifest.json").read_text())
    for launch in launches:
        kernel = program.load(cases / "cubins" / f"{Path(launch['file']).stem}.cubin")[launch["entry"]]
        counters = measured[launch["id"]]
        assert max(16, kernel.registers_per_thread) == counters["launch__registers_per_thread"]
        assert kernel.static_shared_bytes == counters["launch__shared_mem_per_block_static"]
        assert kernel.barriers == counters["launch__barrier_count"]
        assert len(kernel.params) == len(launch["args"])
    assert len(launches) == 97


def test_parameters_frame_and_call_targets() -> None:
    kernel = program.load(DATA / "l04.cubin")["l04_ptr"]
    assert [(p.ordinal, p.offset, p.size) for p in kernel.params] == [(0, 0, 8), (1, 8, 8)]
    assert (kernel.param_base, kernel.param_bytes, kernel.constant0_bytes) == (0x210, 16, 0x220)
    assert (kernel.frame_bytes, kernel.local_bytes, kernel.stack_is_bounded) == (16, 16, True)
    assert kernel.pc_of_symbol == {"l04_ptr": 0, "$l04_ptr$_Z5dbl_pP6float4": 0x100}
    assert (kernel.arch, kernel.max_threads, kernel.is_entry) == ("sm_90", None, True)


def test_relocations_of_the_line_table_name_the_kernels() -> None:
    cubin = elf.parse_cubin(image("l04.cubin"))
    # three kernels; l04_local comes last in the file; offsets read off readelf -r
    found = [(r.offset, r.type, r.symbol) for r in cubin.relocations if r.section == ".debug_line"]
    assert found == [
        (0xB4, "R_CUDA_64", "l04_val"),
        (0xEC, "R_CUDA_64", "l04_ptr"),
        (0x18A, "R_CUDA_64", "l04_local"),
    ]


# --- Lines ---------------------------------------------------------------------------------------


def nvdisasm_lines(path: Path) -> dict[tuple[str, int], tuple[str, int, str]]:
    """(kernel, pc) -> innermost file and line, and the outermost file, as nvdisasm -gi prints them.

    It repeats the rows of an address from the outermost to the innermost group; the last group counts.
    """
    place = toolchain.find_program("nvdisasm")
    assert place is not None
    text = subprocess.run([place.path, "-gi", "-c", str(path)], capture_output=True, text=True).stdout
    mark = re.compile(r'\s*//## File "(.*?)", line (\d+)(?: inlined at "(.*?)", line (\d+))?')
    out, section, group, complete = {}, "", [], True
    for row in text.splitlines():
        if found := re.match(r"\s*\.section\s+\.text\.([^,]+)", row):
            section = found[1]
        elif found := mark.match(row):
            if complete:
                group = []
            group.append((posixpath.normpath(found[1]), int(found[2])))
            complete = found[3] is None
        elif (found := re.match(r"\s*/\*([0-9a-f]{4,})\*/", row)) and group:
            out[section, int(found[1], 16)] = (*group[0], group[-1][0])
    return out


@pytest.mark.parametrize("name", FILES)
def test_lines_equal_nvdisasm(name: str) -> None:
    module = program.load(DATA / name)
    expected = nvdisasm_lines(DATA / name)
    assert len(expected) > 60
    for (kernel, pc), (file, line, outermost) in expected.items():
        got = module[kernel].lines[pc]
        assert (got.file, got.line) == (file, line), (kernel, hex(pc))
        assert (got.inlined_at[-1][0] if got.inlined_at else got.file) == outermost


def test_inline_chain_by_hand() -> None:
    # l04.cu line 15 calls __hadd2 (cuda_fp16.hpp:2504) in the by-value helper at 0xc0 of l04_val;
    # line 16 returns
    at = program.load(DATA / "l04.cubin")["l04_val"].lines
    assert (at[0x00].file, at[0x00].line, at[0x00].inlined_at) == ("kernels/l04.cu", 29, ())
    assert Path(at[0xD0].file).name == "cuda_fp16.hpp" and at[0xD0].line == 2504
    assert at[0xD0].inlined_at == (("kernels/l04.cu", 15),)
    assert (at[0x110].file, at[0x110].line) == ("kernels/l04.cu", 16)


# --- Damaged and foreign files -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"hello, world", "not an ELF file"),
        (b"\x50\xed\x55\xba" + bytes(64), "not an ELF file"),
        (b"\x7fELF\x02\x01", "truncated"),
        (b"\x7fELF\x01\x01" + bytes(60), "not a 64-bit"),
        (image("g06.cubin")[:18] + struct.pack("<H", 62) + image("g06.cubin")[20:], "machine 62"),
        (image("g06.cubin")[:16] + struct.pack("<H", 1) + image("g06.cubin")[18:], "never linked"),
        (image("g06.cubin")[:48] + struct.pack("<I", 0x3500 << 8 >> 8) + image("g06.cubin")[52:], "sm_53"),
        (image("g06.cubin")[:60] + struct.pack("<H", 0) + image("g06.cubin")[62:], "no section table"),
        (image("g06.cubin")[:-1000], "truncated"),
    ],
)
def test_foreign_files_are_refused_in_a_sentence(data: bytes, words: str) -> None:
    with pytest.raises(CubinError, match=re.escape(words)) as caught:
        elf.parse_cubin(data, "x.cubin")
    assert str(caught.value).startswith("x.cubin: ")


def test_a_cubin_without_kernels() -> None:
    data = bytearray(image("g06.cubin"))
    table = elf.parse_cubin(bytes(data)).section(".symtab")
    start = bytes(data).index(table.data)
    for at in range(start, start + table.size, 24):
        data[at + 5] = 0  # st_other: no symbol is an entry any more
    with pytest.raises(CubinError, match="no kernel"):
        elf.parse_cubin(bytes(data))


@pytest.mark.parametrize("name", FILES)
def test_truncation_anywhere_is_a_cubin_error(name: str) -> None:
    data = image(name)
    for size in range(0, len(data), 64):
        with pytest.raises(CubinError):
            elf.parse_cubin(data[:size], name)


def examine(data: bytes) -> None:
    """Everything that reads the image without nvdisasm."""
    module = program._module(data, "x.cubin", {}, {})
    for kernel in module.kernels.values():
        kernel.lines, kernel.constant_banks, kernel.display_name, module.embedded_ptx(kernel.name)
        program.Kernels((kernel,), {}, "x")[kernel.name]


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_byte_never_escapes_as_anything_but_a_gpusim_error(name: str) -> None:
    data = image(name)
    for at in range(0, len(data), 37):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        try:
            examine(bytes(damaged))
        except GpusimError:
            pass


@given(st.binary(max_size=200), st.integers(0, 0x2B00), st.integers(0, 400))
def test_overwritten_and_removed_bytes(patch: bytes, at: int, removed: int) -> None:
    data = image("l04.cubin")
    try:
        examine(data[:at] + patch + data[at + removed :])
    except GpusimError:
        pass


@given(st.binary(min_size=4, max_size=300))
def test_any_bytes_as_line_table(table: bytes) -> None:
    cubin = elf.parse_cubin(image("l04.cubin"))
    sections = tuple(
        elf.Section(s.index, s.name, s.type, s.flags, len(table), s.link, s.info, s.align, table)
        if s.name == ".debug_line"
        else s
        for s in cubin.sections
    )
    damaged = elf.Cubin(cubin.sm, sections, cubin.symbols, cubin.relocations, cubin.functions)
    for found in lines.source_lines(damaged).values():
        assert all(pc % 16 == 0 for pc in found)


def test_damaged_code_is_reported_by_name() -> None:
    data = bytearray(image("g06.cubin"))
    code = elf.parse_cubin(bytes(data)).functions["g06"].code
    at = bytes(data).index(code)
    data[at : at + 64] = b"\xff" * 64
    with pytest.raises(GpusimError, match=r"x\.cubin"):
        program._module(bytes(data), "x.cubin", {}, {})["g06"].instructions  # noqa: B018


@pytest.mark.parametrize("path", ["no/such.cubin", ".", "a\0b"])
def test_paths_that_cannot_be_read(path: str) -> None:
    with pytest.raises(InputError):
        program.load(path)

"""Launch descriptions: shapes, argument texts, deterministic data, manifests."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpusim.errors import InputError
from gpusim.launch import Launch, dim3, load_manifest, make_array, materialise, parse_arg_spec


def test_shapes() -> None:
    assert dim3(7, "grid") == (7, 1, 1)
    assert dim3([2, 3], "grid") == (2, 3, 1)
    assert dim3((np.int32(2), 3, 4), "grid") == (2, 3, 4)
    launch = Launch((2, 3, 4), (5, 6, 7))
    assert (launch.ctas, launch.threads) == (24, 210)
    for bad in (0, -1, (1, 0), (1, 2, 3, 4), (), True, "8", 2.0, None):
        with pytest.raises(InputError, match="block"):
            dim3(bad, "block")


def test_argument_texts(tmp_path: Path) -> None:
    array = {"kind": "array", "dtype": "float32", "n": 4096, "init": "normal"}
    assert parse_arg_spec("float32[4096]:normal") == array
    assert parse_arg_spec(" float32 [ 0x1000 ] : normal ") == array
    assert parse_arg_spec("int8[3]")["init"] == "zeros"
    assert parse_arg_spec("int32=-5") == {"kind": "scalar", "dtype": "int32", "value": -5}
    assert parse_arg_spec("float64=1e-3")["value"] == 0.001
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.int16).reshape(2, 3))
    spec = parse_arg_spec(f"@{tmp_path / 'a.npy'}")
    assert (spec["dtype"], spec["n"]) == ("int16", 6)
    assert materialise([spec])[0].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "float32",
        "float32[",
        "float32[4]=1",
        "float99[4]",
        "float32[4]:primes",
        "float32[0]",
        "float32[-3]",
        "int8=200",
        "int32=1.5",
        "int32=",
        "uint32=-1",
        "@",
        "float32[4]:randint:5",
        "float32[4]:randint:5:5",
        "float32[4]:randint:a:b",
        "float32[4]:halfwarp:1",
        "float32[99999999999]:zeros",
    ],
)
def test_texts_that_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_arg_spec(text)


def test_fixed_data() -> None:
    assert not make_array("float32", 5, "zeros", 0).any()
    assert make_array("int16", 4, "arange", 0).tolist() == [0, 1, 2, 3]
    half = make_array("float32", 64, "halfwarp:2:-3", 1)
    assert half.tolist() == ([2.0] * 16 + [-3.0] * 16) * 2


def test_random_data_follows_the_rule() -> None:
    """Seed: CRC-32 of dtype, init and slot; a block of 65,536 or 4,194,304 draws, cut or repeated."""
    generator = np.random.default_rng(zlib.crc32(b"float32|normal|2"))
    block = generator.standard_normal(65_536, np.float32)
    assert np.array_equal(make_array("float32", 1000, "normal", 2), block[:1000])
    generator = np.random.default_rng(zlib.crc32(b"int32|randint:-4:9|0"))
    block = generator.integers(-4, 9, 4_194_304).astype(np.int32)
    assert np.array_equal(make_array("int32", 65_537, "randint:-4:9", 0), block[:65_537])
    longer = make_array("int32", 4_194_304 + 10, "randint:-4:9", 0)
    assert np.array_equal(longer[-10:], block[:10])
    wide = np.random.default_rng(zlib.crc32(b"float64|normal|0")).standard_normal(65_536)
    assert np.array_equal(make_array("float64", 8, "normal", 0), wide[:8])
    assert not np.array_equal(make_array("float32", 8, "normal", 0), make_array("float32", 8, "normal", 1))


def test_python_numbers_become_int_and_float() -> None:
    values = materialise(
        [3, 2.5, np.uint64(9), np.arange(3), "int8=4", {"kind": "scalar", "dtype": "float16", "value": 1}]
    )
    assert [type(v) for v in values] == [np.int32, np.float32, np.uint64, np.ndarray, np.int8, np.float16]


def test_arrays_are_copied() -> None:
    given = np.zeros(4)
    values = materialise([given, given[::2]])
    values[0][0] = 1
    assert given[0] == 0 and values[1].flags.c_contiguous


ENTRY: dict[str, Any] = {
    "id": "a",
    "file": "k.cu",
    "entry": "k",
    "grid": [1, 2, 3],
    "block": [32, 1, 1],
    "dynamic_shared": 64,
    "args": [
        {"kind": "array", "dtype": "float32", "n": 8, "init": "file:data.npy"},
        {"kind": "scalar", "dtype": "int32", "value": 8},
    ],
    "heavy": True,
}


def write(path: Path, entries: Any) -> Path:
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


def test_manifest(tmp_path: Path) -> None:
    """Paths, also those of data, are relative to the manifest."""
    np.save(tmp_path / "data.npy", np.arange(8, dtype=np.float32))
    (case,) = load_manifest(write(tmp_path / "m.json", [ENTRY]))
    assert (case.id, case.entry, case.heavy) == ("a", "k", True)
    assert case.file == str(tmp_path / "k.cu")
    assert (case.launch.grid, case.launch.block, case.launch.dynamic_shared_bytes) == (
        (1, 2, 3),
        (32, 1, 1),
        64,
    )
    assert materialise(case.launch.args)[0].tolist() == list(range(8))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"grid": [0, 1, 1]}, ("'a'", "grid")),
        ({"block": "32"}, ("'a'", "block")),
        ({"args": {}}, ("'a'", "args")),
        ({"args": [5]}, ("'a'", "argument 0")),
        ({"args": [{"kind": "array", "dtype": "float32"}]}, ("'a'", "argument 0", "n")),
        ({"args": [{"kind": "scalar", "dtype": "int32", "value": "x"}]}, ("'a'", "argument 0", "'x'")),
        ({"dynamic_shared": -1}, ("'a'", "dynamic_shared")),
        ({"file": 3}, ("file",)),
        ({"entry": None}, ("entry",)),
    ],
)
def test_manifest_entries_that_are_refused(
    tmp_path: Path, change: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as error:
        load_manifest(write(tmp_path / "m.json", [{**ENTRY, **change}]))
    assert all(word in str(error.value) for word in ("m.json", *words)), str(error.value)


def test_manifests_that_are_refused(tmp_path: Path) -> None:
    for name, content, word in (
        ("a", "{", "JSON"),
        ("b", "{}", "list"),
        ("c", "[1]", "object"),
        ("d", "[{}]", "lacks id"),
        ("e", "[" * 100_000, "JSON"),
    ):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=word):
            load_manifest(path)
    with pytest.raises(InputError, match="does not exist"):
        load_manifest(tmp_path / "absent.json")
    with pytest.raises(InputError, match="cannot be read"):
        load_manifest(tmp_path)
    with pytest.raises(InputError, match="twice"):
        load_manifest(write(tmp_path / "twice.json", [ENTRY, ENTRY]))
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        load_manifest(tmp_path / "bytes.json")

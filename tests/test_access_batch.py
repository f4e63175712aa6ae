"""`gpusim.access` against every recorded hardware pattern, and what it says about bad rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpusim.access import access, answer_batch, answer_file, global_array, load, shared_array, store, threads
from gpusim.errors import InputError

PATTERNS = Path(__file__).parent.parent / "validation" / "measurements" / "h200" / "patterns.jsonl"
GOOD = {"id": "r", "space": "shared", "op": "load", "width": 4, "mask": 15, "offsets": [0] * 32}


def line(**changed):
    row = {**GOOD, **changed}
    return json.dumps({key: value for key, value in row.items() if value is not ...})


def refusal(*lines):
    with pytest.raises(InputError) as caught:
        list(answer_batch(lines, where="in.jsonl"))
    return str(caught.value)


# -- recorded on an H200 --------------------------------------------------------------------------


def test_every_recorded_pattern_is_equal():
    rows = [json.loads(text) for text in PATTERNS.read_text().splitlines()]
    answers = [json.loads(text) for text in answer_file(PATTERNS)]
    assert len(rows) == len(answers) == 2108
    wrong = [
        (row["id"], key, value, answer.get(key))
        for row, answer in zip(rows, answers, strict=True)
        for key, value in row["measured"].items()
        if answer.get(key) != value
    ]
    assert not wrong
    assert [row["id"] for row in rows] == [answer["id"] for answer in answers]
    tagged = [row for row in rows if "tag_wavefronts" in row["measured"]]
    assert len(tagged) == 848  # the patterns that fixed the tag-bank hash


def test_keys_of_an_answer():
    (shared,) = answer_batch([line(offsets=[128 * i for i in range(32)])])
    assert shared == {"id": "r", "wavefronts": 4, "ideal_wavefronts": 1, "bank_conflicts": 3}
    (global_,) = answer_batch([line(id=7, space="global", op="store", offsets=[128 * i for i in range(32)])])
    assert global_ == {"id": 7, "requests": 1, "sectors": 4, "lines": 4, "tag_wavefronts": 1}


def test_tag_wavefronts_only_where_the_hash_is_known():
    far = [0, 1 << 31] + [0] * 30
    (answer,) = answer_batch([line(space="global", offsets=far)])
    assert answer == {"id": "r", "requests": 1, "sectors": 2, "lines": 2}
    (answer,) = answer_batch([line(space="global", op="reduction.add")])
    assert answer == {"id": "r", "requests": 1, "sectors": 4, "lines": 1}


def test_order_and_other_keys_are_kept_over_many_rows():
    lines = [line(id=n, note="ignored", mask=1 << n % 32) for n in range(2500)]
    answers = list(answer_batch(["", *lines, "  \n"]))
    assert [answer["id"] for answer in answers] == list(range(2500))
    assert {answer["wavefronts"] for answer in answers} == {1}


def test_no_lane_costs_nothing():
    assert access("shared", "load", 4, [0] * 32, 0).wavefronts == 0
    assert access("global", "load", 4, [0] * 32, 0).requests == 0


def test_inactive_and_unread_lanes_may_hold_anything():
    odd = [0, 4, 8, 12] + [2**63 + 1] * 28
    assert [a["wavefronts"] for a in answer_batch([line(offsets=odd)])] == [1]
    rows = [16 * i for i in range(8)] + [3] * 24
    assert access("shared", "ldmatrix.x1", 16, rows).wavefronts == 1


# -- bad rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["space", "op", "width", "mask", "offsets"])
def test_missing_key(key):
    message = refusal(line(), line(**{key: ...}))
    assert message.startswith(f"in.jsonl:2 (id \"r\"): key '{key}': is missing")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"space": "texture"}, "key 'space': \"texture\" is unknown"),
        ({"space": 3}, "key 'space': must be a string, not 3"),
        ({"op": "swap"}, "key 'op': \"swap\" is unknown for shared memory"),
        ({"op": "reduction.add"}, "key 'op': \"reduction.add\" is unknown for shared memory"),
        ({"op": None}, "key 'op': must be a string, not null"),
        ({"width": 3}, "key 'width': 3 bytes a lane is not possible for load"),
        ({"width": "4"}, "key 'width': must be a whole number, not \"4\""),
        ({"width": 4.0}, "key 'width': must be a whole number, not 4.0"),
        ({"width": True}, "key 'width': must be a whole number, not true"),
        ({"op": "ldmatrix.x4", "width": 8}, "key 'width': 8 bytes a lane is not possible for ldmatrix.x4"),
        ({"mask": -1}, "key 'mask': must be from 0 to 4294967295"),
        ({"mask": 1 << 32}, "key 'mask': must be from 0 to 4294967295"),
        ({"offsets": 5}, "key 'offsets': must be a list of 32 byte offsets, not 5"),
        ({"offsets": [0] * 31}, "key 'offsets': holds 31 numbers, a warp has 32 lanes"),
        ({"offsets": [0] * 33}, "key 'offsets': holds 33 numbers"),
        ({"offsets": [0, -4] + [0] * 30}, "key 'offsets': lane 1: offset -4 is negative"),
        (
            {"offsets": [0, 0, 6] + [0] * 29},
            "key 'offsets': lane 2: offset 6 is not a multiple of the width 4",
        ),
        ({"offsets": [0, 4.5] + [0] * 30}, "key 'offsets': lane 1: must be a whole number, not 4.5"),
        ({"offsets": [None] * 32}, "key 'offsets': lane 0: must be a whole number, not null"),
        ({"offsets": [1 << 64] * 32}, "does not fit in 64 bits"),
        ({"offsets": [232448] * 32}, "lane 0: offset 232448 is beyond the 232448 bytes of shared memory"),
    ],
)
def test_bad_value(changed, expected):
    message = refusal(line(), line(), line(**changed))
    assert message.startswith('in.jsonl:3 (id "r"): ')
    assert expected in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id": "a",', "in.jsonl:1: is not valid JSON"),
        ("[1, 2]", "in.jsonl:1: must be a JSON object, not [1, 2]"),
        ("nonsense", "in.jsonl:1: is not valid JSON"),
        (b"\xff\xfe{}", "in.jsonl:1: is not UTF-8 text"),
        ("[" * 100_000, "in.jsonl:1: is not usable JSON"),
        ('{"id": ' + "9" * 5000 + "}", "in.jsonl:1: is not usable JSON"),
        (line(id=...), "in.jsonl:1: key 'id': is missing"),
        (line(id=[1]), "in.jsonl:1: key 'id': must be a string or a whole number, not [1]"),
        (line(id=True), "in.jsonl:1: key 'id': must be a string or a whole number, not true"),
    ],
)
def test_bad_line(text, expected):
    assert refusal(text).startswith(expected)


def test_not_a_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read: is a directory"):
        list(answer_file(tmp_path))
    with pytest.raises(InputError, match="cannot be read: no such file"):
        list(answer_file(tmp_path / "absent.jsonl"))


def test_a_byte_order_mark_is_accepted(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line().encode() + b"\r\n")
    assert [json.loads(text)["id"] for text in answer_file(path)] == ["r"]


# -- Python ---------------------------------------------------------------------------------------


def test_access_from_python():
    found = access("shared", "load", 4, [128 * i for i in range(32)])
    assert (found.wavefronts, found.ideal_wavefronts, found.bank_conflicts) == (32, 1, 31)
    assert found.requests is None and found.unsettled is None
    assert found.bank_map().fights() == ((0, tuple(range(32))),)
    found = access("global", "store", 16, [16 * i for i in range(32)])
    assert (found.requests, found.sectors, found.ideal_sectors, found.lines) == (1, 16, 16, 4)
    assert list(found.sector_map().lines) == [0, 1, 2, 3]
    with pytest.raises(InputError, match=r"access: key 'offsets': holds 3 numbers"):
        access("global", "load", 4, [0, 4, 8])


def test_a_block_of_index_arithmetic():
    t = threads(block=(32, 8))
    square, padded = shared_array((32, 32)), shared_array((32, 33), "float32")
    assert load(square[t.y, t.x]).wavefronts == 1
    assert load(square[t.x, t.y]).wavefronts == 32
    assert load(padded[t.x, t.y]).wavefronts == 1
    assert len(load(square[t.y, 3]).warps) == 8
    vectors = shared_array(64, "4f4")
    assert load(vectors[t.y]).wavefronts == 2  # one float4 for the warp: two merged groups
    assert store(vectors[t.y]).wavefronts == 4
    matrix = global_array((64, 64))
    assert (load(matrix[t.x, t.y]).sectors, load(matrix[t.y, t.x]).lines) == (32, 1)


def test_last_warp_of_a_ragged_block():
    t = threads(block=(20, 2))
    result = load(shared_array(64)[t.x + 20 * t.y])
    assert [warp.mask for warp in result.warps] == [0xFFFFFFFF, 0xFF]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: threads(block=(32, 64)), "a block of 32x64x1 threads is too large"),
        (lambda: threads(block=(0,)), "one to three positive whole numbers"),
        (lambda: threads(block=()), "one to three positive whole numbers"),
        (lambda: shared_array((4, 0)), "a shape is positive whole numbers"),
        (lambda: shared_array(4, "3f4"), "an element of 12 bytes is not one access"),
        (lambda: shared_array(4, "floaty"), "is no element type"),
        (lambda: shared_array((4, 4))[threads().x], "1 indices for an array of 2 dimensions"),
        (lambda: shared_array(31)[threads().x], "index 0 runs from 0 to 31, the array from 0 to 30"),
        (lambda: shared_array(64)[threads().x / 2], "must be whole numbers, not float64"),
    ],
)
def test_python_misuse(call, expected):
    with pytest.raises(InputError, match=expected):
        call()

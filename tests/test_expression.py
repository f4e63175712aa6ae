"""C index expressions: values as C gives them, costs of known tiles, and where the caret points."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.access_picture import picture
from gpusim.errors import InputError
from gpusim.expression import answer_expression, evaluate, parse, parse_declaration, parse_let


def value(text, **names):
    return evaluate(parse(text), names, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("2 << 1 + 1", 8),  # + binds tighter than <<
        ("1 | 6 & 3 ^ 1", 3),  # 6&3=2, 2^1=3, 1|3
        ("5 & 4 == 4", 1),  # C's trap: == binds tighter than &
        ("-7 / 2", -3),  # towards zero
        ("-7 % 3", -1),  # sign of the dividend
        ("7 / -2", -3),
        ("~0 & 0xFF", 255),
        ("!3 + !0", 1),
        ("- - 5", 5),
        ("010 + 0b11 + 0x1F", 42),
        ("32u + 1UL + 2ll + 0", 35),
        ("1 ? 2 : 3 ? 4 : 5", 2),
        ("0 ? 2 : 0 ? 4 : 5", 5),
        ("0 && 1 / 0", 0),
        ("1 || 1 / 0", 1),
        ("1 ? 3 : 1 / 0", 3),
        ("3 < 4 == 1", 1),
        ("k * 2 + threadIdx.x", 11),
        ("1 << 40", 1 << 40),
    ],
)
def test_values_are_those_of_c(text, expected):
    assert value(text, k=4, **{"threadIdx.x": 3}) == expected


@st.composite
def c_text(draw, depth=3):
    """An expression that Python reads alike (no / % and no comparisons inside bit operators)."""
    if depth == 0 or draw(st.booleans()):
        return str(draw(st.integers(0, 99)))
    op = draw(st.sampled_from(["+", "-", "*", "|", "^", "&", "<<", ">>"]))
    left, right = draw(c_text(depth=depth - 1)), draw(c_text(depth=depth - 1))
    if op in ("<<", ">>"):
        return f"({left}) {op} {draw(st.integers(0, 4))}"
    return f"({left} {op} {right})" if draw(st.booleans()) else f"~({left}) {op} -({right})"


@settings(max_examples=150, deadline=None)
@given(c_text())
def test_agrees_with_python_where_the_languages_agree(text):
    assert value(text) == eval(text)  # the test's own generated text, never a user's


def cost(text, block=(32, 8), shared=("float As[32][33]",), **options):
    found = answer_expression(text, block=block, shared=shared, **options)
    return [warp.wavefronts for warp in found.result.warps]


def test_known_tiles():
    assert cost("As[ty][k]", lets=["k=3"]) == [1] * 8
    assert cost("As[tx][ty]") == [1] * 8
    assert cost("As[tx][ty]", shared=["float As[32][32]"]) == [32] * 8
    assert cost("As[threadIdx.x][threadIdx.y]", (16, 16), ["float As[16][16]"]) == [8] * 8
    assert cost("Bs[k][tx]", (16, 16), ["float As[16][16]", "float Bs[16][16]"], lets=["k=5"]) == [1] * 8
    assert cost("V[lane]", (64,), ["float4 V[32]"]) == [4, 4]
    assert cost("V[0]", (32,), ["float4 V[32]"]) == [2]
    assert cost("V[0]", (32,), ["float4 V[32]"], op="store") == [4]
    assert cost("H[tx]", (32,), ["__shared__ half2 H[64];"]) == [1]
    assert cost("tx*32", (32,), ["float As[32][32]"]) == [32]  # an index into the only array
    assert cost("As[ty*(BK+1)+warp*0]", (16, 2), ["float As[BK*(BK+1)]"], lets=["BK=16"]) == [1]


def test_global_arrays():
    found = answer_expression(
        "A[blockIdx.y*16+ty][tx]", block=(16, 16), global_=["float A[4096][4096]"], lets=["blockIdx.y=2"]
    )
    assert {(w.sectors, w.lines, w.requests) for w in found.result.warps} == {(4, 2, 1)}
    open_ended = answer_expression("A[tx*4096]", block=(32,), global_=["const float A[]"])
    assert open_ended.result.sectors == 32


def test_threads_that_take_part():
    found = answer_expression("As[tx]", block=(64,), shared=["float As[40]"], where="tx < 40")
    assert [warp.mask for warp in found.result.warps] == [0xFFFFFFFF, 0xFF]


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("unsigned char a[4]", 1),
        ("unsigned short int a[4]", 2),
        ("__nv_bfloat16 a[4]", 2),
        ("unsigned a[4]", 4),
        ("signed int a[4]", 4),
        ("unsigned long long a[4]", 8),
        ("long long int a[4]", 8),
        ("uint4 a[4]", 16),
        ("double2 a[4]", 16),
    ],
)
def test_types(text, width):
    assert parse_declaration(text, "shared", {}).width == width


def refusal(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def pointed_at(message):
    """The text from the caret on, to check where it points."""
    shown, caret = message.split("\n")[1:3]
    assert caret.strip() == "^"
    return shown[caret.index("^") :]


@pytest.mark.parametrize(
    ("text", "expected", "at"),
    [
        ("As[ty][k", "expected ']' before the end (column 9)", ""),
        ("As[ty][)]", "unexpected ')' (column 8)", ")]"),
        ("As[ty][foo]", "'foo' is unknown", "foo]"),
        ("As[ty]", "As has 2 dimensions, the access 1 indices", "As[ty]"),
        ("Bs[ty][tx]", "array 'Bs' is not declared", "Bs[ty][tx]"),
        ("As[ty][1/(tx-tx)]", "division by zero", "/(tx-tx)]"),
        ("As[ty][tx%0]", "division by zero", "%0]"),
        ("As[1<<tx-1][0]", "shift by -1 is not possible", "<<tx-1][0]"),
        ("As[tx*2][0]", "index 0 of As is 32 in thread (16,0,0), not 0 to 31", "*2][0]"),
        ("As[ty-1][0]", "index 0 of As is -1 in thread (0,0,0)", "-1][0]"),
        ("As[As[0][0]][0]", "the value of As[...] is not known", "As[0][0]][0]"),
        ("As[ty][1.5]", "unexpected character '.'", ".5]"),
        ("As[ty][08]", "'08' is not a whole number of C", "08]"),
        ("As[ty][k] 3", "unexpected '3' after the expression", "3"),
        ("As[ty][tx @ 2]", "unexpected character '@'", "@ 2]"),
        ("1 ? 2", "expected ':' before the end", ""),
        ("(1", "expected ')' before the end", ""),
        ("", "the expression ends too early", ""),
        ("As[0][1<<62<<1]", "the value does not fit in 63 bits", "<<1]"),
        (
            "As[0][99999999999999999999]",
            "99999999999999999999 does not fit in 63 bits",
            "99999999999999999999]",
        ),
    ],
)
def test_errors_point_at_the_column(text, expected, at):
    call = lambda: answer_expression(text, block=(32, 8), shared=["float As[32][33]"], lets=["k=3"])  # noqa: E731
    message = refusal(call)
    assert message.startswith(expected)
    assert pointed_at(message) == at


@pytest.mark.parametrize(
    "text", ["(" * 5000 + "1", "-" * 5000 + "1", "+".join("1" * 5000), "a[" * 5000, "1?" * 5000]
)
def test_huge_expressions_are_refused(text):
    message = refusal(lambda: parse(text))
    assert "nested more than" in message or "too long" in message
    assert len(message) < 400


def test_largest_allowed_expressions_evaluate():
    assert value("+".join("1" * 199)) == 199
    assert value("-" * 398 + "1") == 1
    assert value("(" * 59 + "1" + ")" * 59) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float3 As[4]", "type 'float3' is unknown"),
        ("unsigned float As[4]", "type 'unsigned float' is unknown"),
        ("As[4]", "an array is declared as TYPE NAME[SIZE]..."),
        ("float As", "the array needs a size"),
        ("float As[0]", "a size of 0 is not possible"),
        ("float As[n]", "'n' is unknown"),
        ("float As[4][]", "unexpected ']'"),
        ("float As[4] x", "unexpected 'x' after the expression"),
    ],
)
def test_bad_declarations(text, expected):
    message = refusal(lambda: parse_declaration(text, "shared", {}))
    assert message.startswith(expected)
    assert message.count("^") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3=4", "a variable is set as NAME=VALUE"),
        ("k", "expected '='"),
        ("tx=3", "'tx' is built in"),
        ("k=", "the ex"),
    ],
)
def test_bad_lets(text, expected):
    assert refusal(lambda: parse_let(text, {})).startswith(expected)


def test_names_are_declared_once():
    message = refusal(lambda: answer_expression("k", block=(32,), shared=["float k[4]"], lets=["k=1"]))
    assert message == "float k[4]: the name 'k' is declared twice"
    assert refusal(lambda: answer_expression("tx", block=(32,))).startswith("the expression names no array")


def test_too_much_shared_memory_is_refused():
    message = refusal(lambda: answer_expression("A[tx*4096]", block=(32,), shared=["float A[131072]"]))
    assert "lane 15: offset 245760 is beyond the 232448 bytes of shared memory" in message


# -- pictures -------------------------------------------------------------------------------------


def test_picture_of_a_conflict():
    text = picture(answer_expression("As[tx][ty]", block=(16, 2), shared=["float As[16][32]"]))
    assert text.startswith("shared load of As[tx][ty]: 4 bytes a lane from float As[16][32], block 16,2,1\n")
    rows = text.splitlines()
    assert "16-way in 2 banks (0-1)" in rows[3]
    assert rows[3].split()[2:6] == ["32", "16", "1", "15"]
    assert rows[7].split()[:4] == ["1", "0", "16", "."]
    assert "  bank 1: lanes 16-31 want different words" in rows
    assert max(map(len, rows)) <= 100


def test_picture_draws_warps_that_are_alike_once():
    text = picture(answer_expression("As[ty][3]", block=(32, 8), shared=["float As[32][33]"]))
    assert text.count("\n   1  ") == 1
    assert "warps 0-7 (drawn: warp 0; the others alike, shifted):" in text
    assert "none: conflict-free" in text


def test_picture_of_sectors():
    text = picture(answer_expression("A[ty][tx*2]", block=(8, 4), global_=["float A[64][64]"]))
    assert "[ 4][ 4][ .][ .]" in text
    assert text.splitlines()[3].split()[2:7] == ["32", "1", "8", "4", "4"]


def test_picture_names_what_is_not_known():
    far = picture(answer_expression("A[tx*1073741824]", block=(2,), global_=["float A[]"]))
    assert "unknown" in far


def test_picture_of_idle_warps():
    text = picture(answer_expression("A[tx]", block=(64,), shared=["float A[64]"], where="tx >= 32"))
    assert [row.split()[2] for row in text.splitlines()[3:5]] == ["0", "32"]

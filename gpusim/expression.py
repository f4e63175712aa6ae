"""C index expressions: ``As[ty][k*2 + 1]`` evaluated for every thread of a block.

What it reads: integer constants (decimal, hexadecimal, octal, binary, with u/l suffixes), the operators
of C on integers (``?: || && | ^ & == != < <= > >= << >> + - * / %`` and unary ``- + ~ !``, with C's
precedence, truncating division and short circuits), parentheses, and names: ``threadIdx.x/y/z`` or
``tx ty tz``, ``blockIdx.x/y/z`` (0 unless set), ``blockDim.x/y/z``, ``lane``, ``warp``, ``warpSize``
and the user's own.
Arrays are declared as in CUDA: ``float As[32][33]``, ``half2 Bs[64][BK+8]``, ``float4 V[]``.

Values are whole numbers without a size: nothing wraps at 32 bits, and a value beyond 63 bits is an error.
Left out: pointers, casts, floating point, reading memory inside an index.  Nothing is passed to Python's
``eval``.  Every error shows the text with a caret under the column at fault.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.access import DEFAULT_DEVICE, BlockAccess, block_access, check_block, threads
from gpusim.errors import InputError
from gpusim.events import LANES

_LIMIT = 1 << 63
_MAX_DEPTH = 60  # nesting of parentheses and brackets; with the next, what keeps recursion shallow
_MAX_TOKENS = 400
_SHIFT_LIMIT = 63


def _divide(a: int, b: int) -> int:
    """C: towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    """C: the sign of the dividend."""
    return a - b * _divide(a, b)


def _truth(compare: Callable[[int, int], bool]) -> Callable[[int, int], int]:
    return lambda a, b: int(compare(a, b))


#: Binary operators: C's precedence (higher binds tighter) and meaning.  && and || have no function:
#: they do not always evaluate their right side.
_BINARY: dict[str, tuple[int, Callable[[int, int], int] | None]] = {
    "||": (1, None),
    "&&": (2, None),
    "|": (3, operator.or_),
    "^": (4, operator.xor),
    "&": (5, operator.and_),
    "==": (6, _truth(operator.eq)),
    "!=": (6, _truth(operator.ne)),
    "<": (7, _truth(operator.lt)),
    "<=": (7, _truth(operator.le)),
    ">": (7, _truth(operator.gt)),
    ">=": (7, _truth(operator.ge)),
    "<<": (8, operator.lshift),
    ">>": (8, operator.rshift),
    "+": (9, operator.add),
    "-": (9, operator.sub),
    "*": (10, operator.mul),
    "/": (10, _divide),
    "%": (10, _remainder),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "!": lambda a: int(a == 0),
}

#: Bytes of the CUDA types one access can move (1, 2, 4, 8 or 16).
_SCALARS = {
    1: "char uchar int8_t uint8_t bool __nv_fp8_e4m3 __nv_fp8_e5m2",
    2: "short ushort half __half bf16 __nv_bfloat16 int16_t uint16_t",
    4: "int uint unsigned float int32_t uint32_t half2 __half2 bf162 __nv_bfloat162",
    8: "double longlong ulonglong int64_t uint64_t size_t",
}
_VECTORS = {
    "char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4,
    "double": 8, "longlong": 8, "ulonglong": 8,
}  # fmt: skip
TYPES: dict[str, int] = {name: size for size, names in _SCALARS.items() for name in names.split()} | {
    f"{name}{n}": size * n for name, size in _VECTORS.items() for n in (2, 4) if size * n <= 16
}
_QUALIFIERS = frozenset("const volatile static extern __shared__ __restrict__ __device__".split())
_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d\w*)|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<op>\|\||&&|==|!=|<=|>=|<<|>>|[-+*/%~!&|^<>?:()\[\];=,])"
)
_NUMBER = re.compile(
    r"(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)([uU]?(?:ll|LL|[lL])?|(?:ll|LL|[lL])[uU])", re.ASCII
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # number, name, op, end
    text: str
    column: int  # from 0


@dataclass(frozen=True, slots=True)
class Number:
    value: int
    column: int


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    column: int


@dataclass(frozen=True, slots=True)
class Unary:
    op: str
    value: Node
    column: int


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Node
    right: Node
    column: int


@dataclass(frozen=True, slots=True)
class Choice:
    """condition ? yes : no"""

    condition: Node
    yes: Node
    no: Node
    column: int


@dataclass(frozen=True, slots=True)
class Element:
    """array[index][index]..."""

    array: str
    indices: tuple[Node, ...]
    column: int


Node = Number | Name | Unary | Binary | Choice | Element


def _error(text: str, column: int, what: str, hint: str | None = None) -> InputError:
    start = max(0, column - 60)  # a long text is shown around the place only
    shown = "".join(c if c.isprintable() else " " for c in text[start : start + 100])
    return InputError(f"{what} (column {column + 1})\n  {shown}\n  {' ' * (column - start)}^", hint=hint)


class _Parser:
    """Precedence climbing over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[_Token] = []
        for token in self._tokens():
            if len(self.tokens) == _MAX_TOKENS:
                hint = f"at most {_MAX_TOKENS} numbers, names and signs"
                raise _error(text, token.column, "the expression is too long", hint)
            self.tokens.append(token)
        self.at = 0
        self.depth = 0

    def _tokens(self) -> Iterator[_Token]:
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                hint = "whole numbers only" if self.text[at] == "." else None
                raise _error(self.text, at, f"unexpected character {self.text[at]!r}", hint)
            if match.lastgroup != "space":
                yield _Token(str(match.lastgroup), match.group(), at)
            at = match.end()
        yield _Token("end", "", len(self.text))

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.token
        self.at += token.kind != "end"
        return token

    def accept(self, op: str) -> bool:
        if self.token.kind == "op" and self.token.text == op:
            self.at += 1
            return True
        return False

    def expect(self, op: str, opened: int) -> None:
        if not self.accept(op):
            found = repr(self.token.text) if self.token.text else "the end"
            raise self.fail(f"expected {op!r} before {found}", f"opened at column {opened + 1}")

    def fail(self, what: str, hint: str | None = None) -> InputError:
        return _error(self.text, self.token.column, what, hint)

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.fail(f"nested more than {_MAX_DEPTH} deep")
        condition = self._binary(1)
        column = self.token.column
        if self.accept("?"):
            yes = self.expression()
            self.expect(":", column)
            condition = Choice(condition, yes, self.expression(), column)
        self.depth -= 1
        return condition

    def _binary(self, weakest: int) -> Node:
        left = self._unary()
        while self._strength() >= weakest:
            op = self.take()
            left = Binary(op.text, left, self._binary(_BINARY[op.text][0] + 1), op.column)
        return left

    def _strength(self) -> int:
        """Precedence of the next token, 0 if it is no binary operator."""
        return _BINARY[self.token.text][0] if self.token.text in _BINARY else 0

    def _unary(self) -> Node:
        signs = []
        while self.token.kind == "op" and self.token.text in _UNARY:
            signs.append(self.take())
        node = self._primary()
        for sign in reversed(signs):
            node = Unary(sign.text, node, sign.column)
        return node

    def _primary(self) -> Node:
        token = self.take()
        if token.kind == "number":
            return Number(self._number(token), token.column)
        if token.kind == "name":
            indices = []
            while self.token.text == "[":
                opened = self.take().column
                indices.append(self.expression())
                self.expect("]", opened)
            if indices:
                return Element(token.text, tuple(indices), token.column)
            return Name(token.text, token.column)
        if token.text == "(":
            node = self.expression()
            self.expect(")", token.column)
            return node
        what = f"unexpected {token.text!r}" if token.text else "the expression ends too early"
        raise _error(self.text, token.column, what, "a number, a name or '(' belongs here")

    def _number(self, token: _Token) -> int:
        match = _NUMBER.fullmatch(token.text)
        if match is None:
            raise _error(self.text, token.column, f"{token.text!r} is not a whole number of C")
        digits = match.group(1)
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        value = int(digits, 8) if octal else int(digits, 0)
        if value >= _LIMIT:
            raise _error(self.text, token.column, f"{token.text} does not fit in 63 bits")
        return value

    def end(self) -> None:
        if self.token.kind != "end":
            raise self.fail(f"unexpected {self.token.text!r} after the expression")


def parse(text: str) -> Node:
    """The tree of one expression."""
    parser = _Parser(text)
    node = parser.expression()
    parser.end()
    return node


def evaluate(node: Node, names: Mapping[str, int], text: str) -> int:
    """Value in one thread; ``text`` is what the tree was parsed from, for messages."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Name):
        if node.name not in names:
            hint = f"set it with --let {node.name}=VALUE"
            raise _error(text, node.column, f"'{node.name}' is unknown", hint)
        return names[node.name]
    if isinstance(node, Unary):
        return _UNARY[node.op](evaluate(node.value, names, text))
    if isinstance(node, Choice):
        chosen = node.yes if evaluate(node.condition, names, text) else node.no
        return evaluate(chosen, names, text)
    if isinstance(node, Element):
        what = f"the value of {node.array}[...] is not known"
        raise _error(text, node.column, what, "an index may not read memory")
    left = evaluate(node.left, names, text)
    if node.op == "&&":
        return int(left != 0 and evaluate(node.right, names, text) != 0)
    if node.op == "||":
        return int(left != 0 or evaluate(node.right, names, text) != 0)
    right = evaluate(node.right, names, text)
    if node.op in "/%" and right == 0:
        raise _error(text, node.column, "division by zero")
    if node.op in ("<<", ">>") and not 0 <= right <= _SHIFT_LIMIT:
        raise _error(text, node.column, f"shift by {right} is not possible", f"0 to {_SHIFT_LIMIT}")
    function = _BINARY[node.op][1]
    assert function is not None
    value = function(left, right)
    if not -_LIMIT <= value < _LIMIT:
        raise _error(text, node.column, "the value does not fit in 63 bits")
    return value


# -- declarations ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declaration:
    """``float As[32][33]``: shape[0] is None for ``[]``; width is bytes an element."""

    space: str
    type: str
    name: str
    shape: tuple[int | None, ...]
    width: int


def parse_let(text: str, names: Mapping[str, int]) -> tuple[str, int]:
    """``k=3`` or ``BK=2*BM``: a name and a constant that may use names already set."""
    parser = _Parser(text)
    name = parser.take()
    if name.kind != "name":
        raise _error(text, name.column, "a variable is set as NAME=VALUE")
    if name.text in _thread_names() or (("." in name.text) and not name.text.startswith("blockIdx.")):
        raise _error(text, name.column, f"'{name.text}' is built in and cannot be set")
    if not parser.accept("="):
        raise parser.fail("expected '=' after the name", "as in k=3")
    node = parser.expression()
    parser.end()
    return name.text, evaluate(node, names, text)


def parse_declaration(text: str, space: str, names: Mapping[str, int]) -> Declaration:
    """An array declaration; sizes are constants that may use ``names``."""
    parser = _Parser(text)
    words: list[_Token] = []
    while parser.token.kind == "name":
        words.append(parser.take())
    words = [word for word in words if word.text not in _QUALIFIERS]
    if len(words) < 2:
        raise parser.fail("an array is declared as TYPE NAME[SIZE]...", "as in 'float As[32][33]'")
    *spelled, name = words
    type_name = _type_name(tuple(word.text for word in spelled))
    if type_name not in TYPES:
        hint = "a 12-byte type takes several accesses; " if type_name.endswith("3") else ""
        raise _error(
            text, spelled[0].column, f"type '{' '.join(word.text for word in spelled)}' is unknown",
            f"{hint}known: {', '.join(TYPES)}",
        )  # fmt: skip
    if "." in name.text:
        raise _error(text, name.column, f"'{name.text}' is no array name")
    shape: list[int | None] = []
    while parser.token.text == "[":
        opened = parser.take().column
        if not shape and parser.accept("]"):
            shape.append(None)
            continue
        node = parser.expression()
        parser.expect("]", opened)
        size = evaluate(node, names, text)
        if size < 1:
            raise _error(text, opened + 1, f"a size of {size} is not possible")
        shape.append(size)
    if not shape:
        raise parser.fail("the array needs a size", "as in 'float As[32][33]'")
    parser.accept(";")
    parser.end()
    return Declaration(space, type_name, name.text, tuple(shape), TYPES[type_name])


def _type_name(words: tuple[str, ...]) -> str:
    """C's spellings of several words as one."""
    short = [word for word in words if word not in ("signed",)] or ["int"]
    unsigned = "unsigned" in short
    rest = [word for word in short if word != "unsigned"]
    if len(rest) > 1 and rest[-1] == "int":
        rest = rest[:-1]  # long long int, short int
    base = {(): "int", ("long", "long"): "longlong", ("long",): "longlong"}.get(tuple(rest), " ".join(rest))
    if not unsigned:
        return base
    return f"u{base}" if base in ("int", "char", "short", "longlong") else f"unsigned {base}"


# -- one access of a block ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExpressionAccess:
    """What an expression costs: the declared array, the operation, and one result a warp."""

    text: str
    array: Declaration
    op: str
    block: tuple[int, int, int]
    result: BlockAccess


def _thread_names() -> frozenset[str]:
    axes = [f"{base}.{axis}" for base in ("threadIdx", "blockDim") for axis in "xyz"]
    return frozenset([*axes, "tx", "ty", "tz", "lane", "warp", "warpSize"])


def answer_expression(
    text: str,
    *,
    block: Sequence[int],
    shared: Sequence[str] = (),
    global_: Sequence[str] = (),
    lets: Sequence[str] = (),
    op: str = "load",
    where: str | None = None,
    device: str = DEFAULT_DEVICE,
) -> ExpressionAccess:
    """Evaluate ``text`` (``As[ty][k]``, or an index into the only array) in every thread of a block.

    shared, global_: array declarations; lets: ``k=3``; where: threads for which this is nonzero take part.
    Every array begins at an aligned base (1 KB shared, 2 MB global).
    """
    shape = check_block(block)
    names: dict[str, int] = {f"blockIdx.{axis}": 0 for axis in "xyz"}
    names |= {f"blockDim.{axis}": size for axis, size in zip("xyz", shape, strict=True)} | {"warpSize": LANES}
    for let in lets:
        name, value = parse_let(let, names)
        names[name] = value
    arrays: dict[str, Declaration] = {}
    for space, declared in (("shared", shared), ("global", global_)):
        for declaration in declared:
            array = parse_declaration(declaration, space, names)
            if array.name in arrays or array.name in names or array.name in _thread_names():
                raise InputError(f"the name '{array.name}' is declared twice", where=declaration)
            arrays[array.name] = array
    array, indices = _target(text, parse(text), arrays)
    guard = parse(where) if where is not None else None
    t = threads(shape)
    offsets = np.zeros(len(t.x), np.int64)
    active = np.ones(len(t.x), np.bool_)
    for thread in range(len(t.x)):
        x, y, z = int(t.x[thread]), int(t.y[thread]), int(t.z[thread])
        own = {"threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z, "tx": x, "ty": y, "tz": z}
        own |= names | {"lane": thread % LANES, "warp": thread // LANES}
        if guard is not None and where is not None and not evaluate(guard, own, where):
            active[thread] = False
            continue
        linear = 0
        for axis, (size, node) in enumerate(zip(array.shape, indices, strict=True)):
            index = evaluate(node, own, text)
            if index < 0 or (size is not None and index >= size):
                bounds = f"0 to {size - 1}" if size is not None else "0 upwards"
                raise _error(
                    text, node.column,
                    f"index {axis} of {array.name} is {index} in thread ({x},{y},{z}), not {bounds}",
                )  # fmt: skip
            linear = linear * (size or 1) + index
        offsets[thread] = min(linear * array.width, _LIMIT - 1)
    result = block_access(array.space, op, array.width, offsets, active, device=device)
    return ExpressionAccess(text, array, op, shape, result)


def _target(text: str, node: Node, arrays: Mapping[str, Declaration]) -> tuple[Declaration, tuple[Node, ...]]:
    """The array an expression addresses, and its indices."""
    if isinstance(node, Element):
        if node.array not in arrays:
            hint = f"declared: {', '.join(arrays)}" if arrays else "use --shared 'float As[32][33]'"
            raise _error(text, node.column, f"array '{node.array}' is not declared", hint)
        array = arrays[node.array]
        if len(node.indices) != len(array.shape):
            raise _error(
                text, node.column,
                f"{array.name} has {len(array.shape)} dimensions, the access {len(node.indices)} indices",
            )  # fmt: skip
        return array, node.indices
    if len(arrays) != 1:
        hint = f"write {next(iter(arrays))}[...]" if arrays else "declare the array with --shared or --global"
        raise _error(text, node.column, "the expression names no array", hint)
    (array,) = arrays.values()
    total: int | None = 1
    for size in array.shape:
        total = None if size is None or total is None else total * size
    return Declaration(array.space, array.type, array.name, (total,), array.width), (node,)

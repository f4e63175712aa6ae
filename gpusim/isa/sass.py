"""From nvdisasm's words to :class:`Instruction`.

nvdisasm prints an opcode word (``IMAD.WIDE.U32``), a predicate (``@!P0``) and operands separated by
commas.  This module only parses; it knows no opcode.  Floating-point immediates are read from the
encoding (bits 32-63 of every Volta-and-later format), because their printed form is rounded.

Source: nvdisasm 13.0 and 13.5 output for sm_75 to sm_120.
"""

from __future__ import annotations

import re
from typing import Any

from gpusim.errors import UnsupportedError
from gpusim.isa.instruction import ControlWord, Instruction, Operand

RZ = 255
PT = 7

_HEX = r"-?(?:0x[0-9a-fA-F]+|\d+)"
_REG = re.compile(r"^(UR|R|UP|P|B|SB)(Z|T|\d+)((?:\.[A-Za-z0-9_]+)*)$")
_INT = re.compile(rf"^{_HEX}((?:\.[A-Za-z0-9_]+)*)$")
_FLOAT = re.compile(r"^[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|INF|QNAN|SNAN|NAN|IND)(?:\.[A-Za-z]+)?$")
_CONST = re.compile(r"^(c|cx)\[([^\]]*)\]\[([^\]]*)\]((?:\.[A-Za-z0-9_]+)*)$")
_DESC = re.compile(r"^(?:g?desc)\[UR(Z|\d+)(?:\.64)?\](.*)$")
_MEM = re.compile(r"^\[([^\]]*)\]((?:\.[A-Za-z0-9_]+)*)$")
_GLUED = re.compile(r"(?<=[0-9Z])\[")
_TWO_ADDRESSES = re.compile(r"^((?:g?desc\[[^\]]*\])?\[[^\]]*\])((?:g?desc\[[^\]]*\])?\[[^\]]*\])")
_SPLIT = re.compile(r",(?![^\[{]*[\]}])")


def _number(text: str) -> int:
    return int(text, 16) if "x" in text.lower() else int(text)


def _suffixes(text: str) -> tuple[tuple[str, ...], bool]:
    words = [w for w in text.split(".") if w]
    return tuple(w for w in words if w != "reuse"), "reuse" in words


def _register(text: str) -> dict[str, Any] | None:
    m = _REG.match(text)
    if not m:
        return None
    kind, number, rest = m.groups()
    suffixes, reuse = _suffixes(rest)
    index = {"Z": RZ, "T": PT}.get(number)
    if index is None:
        index = int(number)
    return {"kind": kind, "index": index, "suffixes": suffixes, "reuse": reuse}


_SCALE = {"X4": 4, "X8": 8, "X16": 16}


def _address(inner: str, out: dict[str, Any]) -> bool:
    """Fill base, ubase, value, scale of ``R2.64+UR4+0x10``; False if it is something else."""
    for term in re.split(r"\+(?=[RU0-9-])", inner):
        term = term.strip()
        if not term:
            continue
        neg = term.startswith("-") and not re.match(r"^-(0x|\d)", term)
        reg = _register(term.lstrip("-") if neg else term)
        if reg and not neg and reg["kind"] == "R":
            out["base"] = reg["index"]
            out["base64"] = "64" in reg["suffixes"]
            for s in reg["suffixes"]:
                out["scale"] = _SCALE.get(s, out.get("scale", 1))
            out["suffixes"] = tuple(s for s in reg["suffixes"] if s != "64" and s not in _SCALE)
        elif reg and not neg and reg["kind"] == "UR":
            out["ubase"] = reg["index"]
            if "64" in reg["suffixes"]:
                out["ubase64"] = True
        elif re.fullmatch(_HEX, term):
            out["value"] = out.get("value", 0) + _number(term)
        else:
            return False
    return True


def parse_operand(text: str, encoding: int) -> Operand:
    """One printed operand; ``encoding`` gives the bits of a floating-point immediate."""
    t = text.strip()
    flags: dict[str, Any] = {"text": t}
    core = t
    while core and core[0] in "-~!|":
        if core[0] == "-" and (re.fullmatch(_INT, core) or _FLOAT.match(core)):
            break
        if core[0] == "-":
            flags["neg"] = True
            core = core[1:]
        elif core[0] in "~!":
            flags["not_"] = True
            core = core[1:]
        else:
            end = core.rindex("|")
            flags["abs"] = True
            core = core[1:end] + core[end + 1 :]
    reg = _register(core)
    if reg:
        return Operand(**{**flags, **reg})
    if re.match(_INT, core):
        number = re.match(_HEX, core)
        assert number
        suffixes, reuse = _suffixes(core[number.end() :])
        # `1.5` also matches an integer with suffix `.5`: a digit suffix means a float
        if not any(s[0].isdigit() for s in suffixes) and not core.endswith("."):
            if suffixes or "x" in core.lower() or re.fullmatch(_HEX, core):
                plain = "x" not in core.lower()
                return Operand(kind="imm", value=_number(number.group()), suffixes=suffixes, reuse=reuse,
                               is_float=False, index=1 if plain else 0, **flags)
    if _FLOAT.match(core):
        return Operand(kind="imm", value=(encoding >> 32) & 0xFFFFFFFF, is_float=True, **flags)
    m = _CONST.match(core)
    if m:
        suffixes, reuse = _suffixes(m.group(4))
        out: dict[str, Any] = {**flags, "kind": "const", "reuse": reuse}
        if m.group(1) == "cx" or m.group(2).startswith("UR"):
            bank = _register(m.group(2).split(".")[0])
            if bank:
                out["ubase"] = bank["index"]
        else:
            out["bank"] = _number(m.group(2))
        mem: dict[str, Any] = {}
        if _address(m.group(3), mem):
            mem.pop("suffixes", None)
            if "ubase" in mem and "ubase" in out:
                return Operand(kind="name", text=t)
            if mem.get("base") == RZ:
                mem["base"] = -1
            out.update(mem)
            return Operand(**{**out, "suffixes": suffixes})
    m = _DESC.match(core)
    if m:
        desc = RZ if m.group(1) == "Z" else int(m.group(1))
        inner = _MEM.match(m.group(2))
        out = {**flags, "kind": "mem", "desc": desc}
        if inner and _address(inner.group(1), out):
            return Operand(**out)
    m = _MEM.match(core)
    if m:
        out = {**flags, "kind": "mem"}
        if _address(m.group(1), out):
            pass
            out["suffixes"] = out.get("suffixes", ()) + tuple(s for s in m.group(2).split(".") if s)
            return Operand(**out)
    if core.startswith("SR_") or core.startswith("SR"):
        return Operand(kind="SR", **flags)
    return Operand(kind="name", **flags)


def _separated(text: str) -> str:
    """Operands with the commas some versions of nvdisasm leave out.

    13.0 prints ``R4[R5+0x220]``, and the two addresses of LDGSTS as ``desc[UR6][R2.64][R7]``, the global one
    first; 13.5 prints ``[R7][R2.64]`` for sm_80. The global address, the one of 64 bits, goes second.
    """
    text = _GLUED.sub(",[", text)
    two = _TWO_ADDRESSES.match(text)
    if two is None:
        return text
    first, second = two.groups()
    if ".64" in first and ".64" not in second.split("]")[-2]:
        first, second = second, first
    return f"{first},{second}{text[two.end() :]}"


def parse_instruction(
    pc: int,
    opcode_text: str,
    operands_text: str,
    predicate_text: str | None,
    encoding: int,
    line: int | None = None,
    file: str | None = None,
    inlined_at: tuple[tuple[str, int], ...] = (),
) -> Instruction:
    """An instruction from the three fields nvdisasm prints and its 128-bit encoding."""
    opcode, *modifiers = opcode_text.strip().split(".")
    words = _SPLIT.split(_separated(operands_text)) if operands_text.strip() else []
    operands = tuple(parse_operand(o, encoding) for o in words)
    if opcode in ("IADD3", "UIADD3") and len(operands) > 2:
        # one printed carry may be the second one: the encoding has PT in the first one's place then
        first, second = operands[1:3]
        if first.kind in ("P", "UP") and second.kind not in ("P", "UP") and (
            encoding >> 81 & 7 == PT and encoding >> 84 & 7 == first.index != PT
        ):
            operands = (operands[0], Operand(kind=first.kind, index=PT), *operands[1:])
    guard = None
    if predicate_text and not predicate_text.strip().startswith("@"):
        # nvdisasm -json puts P2R's operand `PR` in the predicate field; the guard is in the encoding
        operands = (*operands[:1], parse_operand(predicate_text, encoding), *operands[1:])
        bits = (encoding >> 12) & 15
        predicate_text = (
            f"@{'!' if bits & 8 else ''}P{'T' if bits & 7 == 7 else bits & 7}" if bits != 7 else None
        )
    if predicate_text:
        word = predicate_text.strip().lstrip("@")
        guard = parse_operand(word, encoding)
        if guard.kind not in ("P", "UP"):
            raise UnsupportedError(
                f"guard {predicate_text!r} is no predicate", where=f"pc 0x{pc:04x} {opcode_text}"
            )
    parts = [p for p in (predicate_text, opcode_text, ", ".join(o.text for o in operands if o.text)) if p]
    return Instruction(pc=pc, opcode=opcode, modifiers=tuple(modifiers), guard=guard, operands=operands,
                       encoding=encoding, control=ControlWord.decode(encoding), text=" ".join(parts),
                       line=line, file=file, inlined_at=inlined_at)

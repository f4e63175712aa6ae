"""Text pictures of one access: lanes over banks, or lanes over sectors.

Input is an :class:`gpusim.expression.ExpressionAccess`; output is plain text at most 100 columns wide.
Warps that look alike are drawn once: the same lanes at the same distances, shifted by any number of banks
(shared) or by whole lines (global).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpusim.access import AccessResult
from gpusim.expression import ExpressionAccess
from gpusim.memory.shared import BankMap

_LINE = 128  # bytes: global addresses shifted by a whole line meet the same sectors
_MAX_PICTURES = 4
_MAX_ROWS = 34
_MAX_FIGHTS = 8


def picture(found: ExpressionAccess) -> str:
    """The table of warps and a picture of each kind of warp."""
    array = found.array
    sizes = "".join(f"[{size or ''}]" for size in array.shape)
    block = ",".join(map(str, found.block))
    lines = [
        f"{array.space} {found.op} of {found.text}: {array.width} bytes a lane from"
        f" {array.type} {array.name}{sizes}, block {block}",
        "",
    ]
    kinds = _kinds(found.result.warps)
    lines += _shared_table(kinds) if array.space == "shared" else _global_table(kinds)
    for warps, one in kinds[:_MAX_PICTURES]:
        if not one.mask:
            continue
        alike = f" (drawn: warp {warps[0]}; the others alike, shifted)" if len(warps) > 1 else ""
        lines += ["", f"{_ranges(warps)}{alike}:"]
        lines += _banks(one) if array.space == "shared" else _sectors(one)
    if len(kinds) > _MAX_PICTURES:
        lines += ["", f"({len(kinds) - _MAX_PICTURES} more kinds of warps are not drawn)"]
    if kinds[0][1].unsettled:
        lines += ["", f"not settled on hardware: {kinds[0][1].unsettled}"]
    return "\n".join(lines) + "\n"


def _kinds(warps: Sequence[AccessResult]) -> list[tuple[list[int], AccessResult]]:
    """Warps that look alike, in order of first appearance."""
    kinds: dict[tuple[object, ...], tuple[list[int], AccessResult]] = {}
    for index, one in enumerate(warps):
        active = [offset for lane, offset in enumerate(one.offsets) if one.mask >> lane & 1]
        base = min(active, default=0)
        base -= base % (one.width if one.space == "shared" else _LINE)
        key = (one.mask, one.tag_wavefronts, *(offset - base for offset in active))
        kinds.setdefault(key, ([], one))[0].append(index)
    return list(kinds.values())


def _ranges(warps: Sequence[int]) -> str:
    return f"warp{'s' if len(warps) > 1 else ''} {_spans(warps)}"


def _spans(numbers: Sequence[int]) -> str:
    """Ascending numbers, runs shortened: ``0-3, 8``."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _shared_table(kinds: Sequence[tuple[list[int], AccessResult]]) -> Iterator[str]:
    yield f"{'':24}{'lanes':>6}{'wavefronts':>12}{'ideal':>7}{'conflicts':>11}  worst bank"
    for warps, one in kinds:
        bank_map = one.bank_map()
        degree = bank_map.conflict_degree()
        worst = max(degree.values(), default=0)
        banks = [bank for bank, count in degree.items() if count == worst]
        where = "none: conflict-free" if worst <= 1 else f"{worst}-way in {_count(banks)}"
        yield (
            f"{_ranges(warps):24}{one.mask.bit_count():>6}{one.wavefronts:>12}{one.ideal_wavefronts:>7}"
            f"{one.bank_conflicts:>11}  {where}"
        )


def _count(banks: Sequence[int]) -> str:
    return f"bank {banks[0]}" if len(banks) == 1 else f"{len(banks)} banks ({_spans(banks)})"


def _global_table(kinds: Sequence[tuple[list[int], AccessResult]]) -> Iterator[str]:
    yield f"{'':24}{'lanes':>6}{'requests':>10}{'sectors':>9}{'ideal':>7}{'lines':>7}{'tag wavefronts':>16}"
    for warps, one in kinds:
        tag = "unknown" if one.tag_wavefronts is None else str(one.tag_wavefronts)
        yield (
            f"{_ranges(warps):24}{one.mask.bit_count():>6}{one.requests:>10}{one.sectors:>9}{one.ideal_sectors:>7}"
            f"{one.lines:>7}{tag:>16}"
        )


def _banks(one: AccessResult) -> Iterator[str]:
    """A row a wavefront, a column a bank; the lane served, ``*`` for several lanes on one word.

    Four characters of heading and 32 banks of three make 100 columns.
    """
    bank_map = one.bank_map()
    columns = 1 + max(touch.bank for wavefront in bank_map.wavefronts for touch in wavefront)
    yield "bank" + "".join(f"{bank:3}" for bank in range(max(columns, 32)))
    for number, wavefront in enumerate(bank_map.wavefronts[:_MAX_ROWS], 1):
        cells: dict[int, set[int]] = {}
        for touch in wavefront:
            cells.setdefault(touch.bank, set()).add(touch.lane)
        row = "".join(_cell(cells.get(bank, set())) for bank in range(max(columns, 32)))
        yield f"{number:>4}{row}".rstrip()
    yield "  a row: one wavefront; number: the lane served; *: several lanes read the same word; .: bank idle"
    yield from _fights(bank_map)


def _cell(lanes: set[int]) -> str:
    if not lanes:
        return "  ."
    return f"{min(lanes):3}" if len(lanes) == 1 else "  *"


def _fights(bank_map: BankMap) -> Iterator[str]:
    banks_of: dict[tuple[int, ...], list[int]] = {}
    for bank, lanes in bank_map.fights():
        banks_of.setdefault(lanes, []).append(bank)
    for lanes, banks in list(banks_of.items())[:_MAX_FIGHTS]:
        one = len(banks) == 1
        yield f"  bank{'' if one else 's'} {_spans(banks)}: lanes {_spans(lanes)} want different words"
    if len(banks_of) > _MAX_FIGHTS:
        yield f"  ... and {len(banks_of) - _MAX_FIGHTS} more groups of lanes"


def _sectors(one: AccessResult) -> Iterator[str]:
    """A row a line, a cell a sector: how many lanes use it."""
    sector_map = one.sector_map()
    yield "  line offset   lanes in each of its 4 sectors"
    for line, sectors in list(sector_map.lines.items())[:_MAX_ROWS]:
        cells = ""
        for sector in range(line * 4, line * 4 + 4):
            lanes = sector_map.lanes_by_sector.get(sector, ())
            cells += f"[{len(lanes) or '.':>2}]" if sector in sectors else "[ .]"
        yield f"  {line * _LINE:>11}   {cells}"
    if len(sector_map.lines) > _MAX_ROWS:
        yield f"  ... and {len(sector_map.lines) - _MAX_ROWS} more lines"

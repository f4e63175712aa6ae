"""A tiny assembler for the template: fields set in encodings that ptxas made for sm_90.

Every entry of :data:`BASE` is an instruction of compiled code with its registers cleared; the test
disassembles the template and compares the text.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Field name -> (first bit, width). ``b`` doubles as the immediate's place (32 bits) in immediate forms.
FIELDS = {
    "guard": (12, 4),
    "d": (16, 8),
    "a": (24, 8),
    "b": (32, 8),
    "imm": (32, 32),
    "off": (40, 24),
    "coff": (40, 14),
    "c": (64, 8),
    "sr": (72, 8),
    "lut": (72, 8),
    "pd": (81, 3),
    "pp": (87, 4),
}
RZ, URZ, PT = 255, 63, 7
STALL = 105  # first of 20 bits of scheduling; the last bit, 125, is none of them


def put(encoding: int, at: int, width: int, value: int) -> int:
    """``encoding`` with ``width`` bits from ``at`` replaced."""
    mask = (1 << width) - 1
    return encoding & ~(mask << at) | (value & mask) << at


def get(encoding: int, at: int, width: int) -> int:
    return encoding >> at & (1 << width) - 1


def control(encoding: int, *, write: int = 7, read: int = 7) -> int:
    """Scheduling bits: stall 8, wait for all dependence counters, no reuse; counters to set (7: none)."""
    return put(encoding, STALL, 20, 8 | 1 << 4 | write << 5 | read << 8 | 63 << 11)


BASE = {
    "S2R": 0x000E2E0000002600_00000000000A7919,
    "LDC": 0x000FE20000000800_00000A00FF017B82,
    "LDC.64": 0x000E620000000A00_00008400FF027B82,
    "ULDC.64": 0x000FE20000000A00_0000820000067AB9,
    "IMAD": 0x004FC600078E020C_0000000F0E187224,
    "IMAD.WIDE.U32": 0x002FCA00078E0002_0000000405027825,
    "SHF.R.U32.HI": 0x000FE4000001160F_00000004FF067219,
    "LOP3.AND": 0x000FE400078EC0FF_FFFFFFF006087812,
    "LDG.128": 0x000A2000C1E1D00_0000000602047981,
    "STG.128": 0x002FE2000C101D06_0000000402007986,
    "LDS.128": 0x000E680000000C00_0000000400087984,
    "STS.128": 0x0041E40000000C00_000000040A007388,
    "LDL.128": 0x000EA20000100C00_0000000001047983,
    "STL.128": 0x001E20000100C00_0000001001007387,
    "R2P": 0x000FE20000000000_0000000300007804,
    "P2R": 0x000FD20000000000_00000001FF0A7803,
    "R2UR": 0x000FE400000E0000_00000000020972CA,
    "ULOP3.AND": 0x000FE4000F8E3C3F_0000100006067892,
    "MOV.UR": 0x000FE20008000F00_0000000B00057C02,
    "UP2UR": 0x000FE20008000000_0000007F3F1C7883,
    "MOVR": 0x000FE40000000F00_000000FF00027202,
    "IADD3I": 0x001FE20007FFE0FF_FFFFFF6401017810,
    "MOV": 0x000FE40000000F00_0000040000047802,
    "IADD3": 0x000FE20007F1E0FF_0000000900027210,
    "IADD3.X": 0x001FE40000FFE4FF_00000003FF037210,
    "NOP": 0x000FC00000000000_0000000000007918,
    "EXIT": 0x000FEA0003800000_000000000000794D,
}
#: Instructions whose latency varies: they count up a dependence counter until their result, or until their
#: operands have been read.
LOADS = {"S2R", "LDC", "LDC.64", "LDG.128", "LDS.128", "LDL.128"}
STORES = {"STG.128", "STS.128", "STL.128"}


def instruction(name: str, fields: Mapping[str, int] | None = None) -> int:
    """One template instruction, conservatively scheduled."""
    encoding = BASE[name]
    for field, value in (fields or {}).items():
        encoding = put(encoding, *FIELDS[field], value)
    return control(encoding, write=0 if name in LOADS else 7, read=0 if name in STORES else 7)

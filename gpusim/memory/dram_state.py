"""The state of a DRAM channel, its words and their meaning: what `gpusim.memory.dram_loop` works on.

Times are ticks of the standard.  One record a channel holds everything that outlives a chunk of requests.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Command(IntEnum):
    """Commands of a channel; PREA and REF act on all banks of a pseudo-channel."""

    ACT = 0
    PRE = 1
    RD = 2
    WR = 3
    PREA = 4
    REF = 5


class Level(IntEnum):
    """Where a timing rule holds: at one node of a level, or (``OTHER_STACK``) at its siblings."""

    PSEUDO_CHANNEL = 0
    STACK_ID = 1
    OTHER_STACK = 2
    BANK_GROUP = 3
    BANK = 4


N_COMMANDS = len(Command)

MAX_PSEUDO = 2  # pseudo-channels that share a channel's command buses
MAX_BANKS = 128  # of a channel; 64 a pseudo-channel, whose sets of banks are the bits of a word
MAX_SLOTS = 256  # requests a channel holds: both queues, and one a bank whose row was opened for it
MAX_RULES = 64
RING = 8  # last issue times a command keeps in a pseudo-channel: the most a rule may count back
LATENCY_BINS = 320
NEVER = 1 << 62

#: A standard as the loop reads it; times in ticks, tables by flat bank number.
CONFIG = np.dtype([
    ("pseudo", "i8"), ("per_pseudo", "i8"), ("per_stack", "i8"), ("per_group", "i8"), ("one_bus", "i8"),
    ("latency", "i8", 2), ("queue", "i8", 2), ("refresh", "i8"), ("high", "i8"), ("low", "i8"),
    ("occupancy", "i8", N_COMMANDS), ("start", "i8", N_COMMANDS),
    # of a bank: its pseudo-channel, and the first bank of its stack id and of its group
    ("pseudo_of", "i8", MAX_BANKS), ("stack_of", "i8", MAX_BANKS), ("group_of", "i8", MAX_BANKS),
    ("first_rule", "i8", N_COMMANDS + 1),
    ("level", "i8", MAX_RULES), ("following", "i8", MAX_RULES),
    ("ticks", "i8", MAX_RULES), ("window", "i8", MAX_RULES),
])  # fmt: skip

#: What a request that a bank offers wants, one row of ``offer`` and ``key`` each (+ 0 for reads, + 1 for
#: writes): data from the row that was opened for it, data from a row it finds open, an activate, a precharge.
OPENED, HIT, ACTIVATE, PRECHARGE = 0, 2, 4, 6
WANTS = 8

#: One channel.  Pairs are (read, write).
STATE = np.dtype([
    ("now", "i8"), ("next_column", "i8"), ("next_row", "i8"), ("column_free", "i8"), ("row_free", "i8"),
    ("sequence", "i8"), ("writing", "i8"), ("queued", "i8", 2), ("waiting", "i8"), ("free", "i8"),
    ("last_data", "i8"), ("first_arrival", "i8"),
    # of a bank: open row (-1: closed), request it was opened for and ends of its queues (-1: none), the
    # oldest request for each want (-1: none) and its age: sequence x MAX_BANKS + bank
    ("row", "i8", MAX_BANKS), ("active", "i8", MAX_BANKS),
    ("head", "i8", (2, MAX_BANKS)), ("tail", "i8", (2, MAX_BANKS)),
    ("offer", "i8", (WANTS, MAX_BANKS)), ("key", "i8", (WANTS, MAX_BANKS)),
    # of a bank: earliest tick of ACT, PRE, RD, WR by the rules below the pseudo-channel
    ("ready", "i8", (4, MAX_BANKS)),
    # of a pseudo-channel: earliest tick of each command, issue times, refresh, how many banks are
    # open, and for each want the set of banks that offer it, as bits
    ("earliest", "i8", (MAX_PSEUDO, N_COMMANDS)), ("ring", "i8", (MAX_PSEUDO, N_COMMANDS, RING)),
    ("issued", "i8", (MAX_PSEUDO, N_COMMANDS)), ("next_refresh", "i8", MAX_PSEUDO),
    ("refreshing", "i8", MAX_PSEUDO), ("open", "i8", MAX_PSEUDO), ("offers", "i8", (MAX_PSEUDO, WANTS)),
    # of a request
    ("r_row", "i8", MAX_SLOTS), ("r_sequence", "i8", MAX_SLOTS), ("r_next", "i8", MAX_SLOTS),
    ("r_previous", "i8", MAX_SLOTS), ("r_arrived", "i8", MAX_SLOTS), ("r_entered", "i8", MAX_SLOTS),
    ("r_counted", "i8", MAX_SLOTS),
    # results; a command for the timeline
    ("served", "i8", 2), ("row_hits", "i8"), ("row_misses", "i8"), ("row_conflicts", "i8"),
    ("activates", "i8"), ("refreshes", "i8"),
    ("total", "i8", LATENCY_BINS), ("service", "i8", LATENCY_BINS),
    ("recorded", "i8"), ("sent", "i8"), ("sent_bank", "i8"), ("sent_row", "i8"),
])  # fmt: skip

"""Where things lie in the executor's memory: the one agreement between handlers and runtime.

Three blocks of raw memory, addressed by byte offset:

* the **warp block**: a header of 64-bit words, the active-lane row, then rows of 32 x 32-bit
  lanes (predicates, uniform registers, general registers).  A row is 128 bytes.  Booleans are
  rows of 0 / -1.
* the **context block** (one per worker thread): pointers to global memory, event buffer, the error
  record.
* the **operation block**: 128 bytes an instruction: handler address, operand offsets, immediates.

An operand offset >= 0 is relative to the warp block; a negative one has its sign bit set and is
relative to the launch's constant pool (rows holding one value in every lane).
"""

from __future__ import annotations

ROW = 128  # bytes of one register of one warp

# --- warp block header, index of the 64-bit word
W_ACTIVE = 0  # active lanes of the current group, bit mask
W_POOL = 1  # address of the constant pool
W_CONTEXT = 2  # address of the worker's context block
W_SHARED = 3  # address of the CTA's shared memory
W_SHARED_SIZE = 4
W_LOCAL = 5  # address of the warp's local memory: 32 lanes x local size, lane after lane
W_LOCAL_SIZE = 6  # bytes a lane
W_WARP = 7  # warp index in the CTA
W_CTA = 8  # linear CTA index
W_EXITED = 9  # lanes that executed EXIT, or never existed
W_GROUPS = 10  # number of parked groups
W_STATE = 11  # S_*
W_PC = 12  # operation index the current group continues at
W_RESULT = 13  # BAR: request (see functional.cta), later the result of its reduction
W_CTA_STATE = 14  # address of the CTA's 16 words: threads that arrived by BAR.ARV, one a barrier
W_AGAIN = 15  # lanes of the current group that are about to execute its instruction a second time
W_REPEATED = 16  # those of the instruction just issued
W_SLOW = 17  # barrier registers that no BSSY alone wrote, one bit each
W_PATCHED = 18  # 1: in the profiler's patched code
W_TURN = 19  # lane from which on the next of those that yielded is sought
W_TICKS = 20  # instructions issued (low half) and the stall cycles of their control words (high half)
W_PARKED = 32  # up to 32 parked groups x (pc, mask, why, extra), from the back of the queue to its front
PARKED_WORDS = 4
W_HEADER_WORDS = 160

ACTIVE_ROW = W_HEADER_WORDS * 8  # bytes; the rows follow
ROWS = ACTIVE_ROW + ROW

# --- why a group is parked
P_READY = 0
P_WARPSYNC = 1
P_BAR = 2
P_NEXT = 3  # ready, and put off last
P_YIELDED = 4  # ready, after a YIELD
P_BSYNC = 16  # + barrier register index

# --- rows, in order after ACTIVE_ROW
ROW_TRASH = 0  # 4 rows that absorb writes to RZ
ROW_ZERO = 4  # 4 rows of zeros: RZ as a source of up to 128 bits
ROW_TRUE = 8  # PT / UPT as a source
ROW_PTRASH = 9  # PT as a destination
ROW_P = 10  # P0-P6
ROW_UP = 17  # UP0-UP6
ROW_B = 24  # B0-B15: a mask of lanes each, the same in every lane
ROW_LANE = 40  # lane index
ROW_TID_X, ROW_TID_Y, ROW_TID_Z = 41, 42, 43
ROW_CTAID_X, ROW_CTAID_Y, ROW_CTAID_Z = 44, 45, 46
ROW_WARP = 47
ROW_UR = 48  # UR0-UR79 (63 on sm_80/90, 80 on later ones), then 4 spare
ROW_R = 132  # R0...

UNIFORM_REGISTERS = 80

# --- context block, index of the 64-bit word
C_DELTA = 0  # host address = virtual address + delta
C_ALLOCS = 1  # address of the sorted table of (low, high) virtual addresses
C_N_ALLOCS = 2
C_EVENTS, C_EVENT_CAP, C_EVENT_COUNT, C_TRACE = 5, 6, 7, 8
C_ERROR, C_ERROR_LANE, C_ERROR_ADDRESS, C_ERROR_BYTES = 9, 10, 11, 12
C_CONST_TABLE = 13  # address of 32 x (address, size) of constant banks
C_SHARED_WINDOW, C_LOCAL_WINDOW = 14, 15  # generic address bases
C_SHARED_WINDOW_SIZE, C_LOCAL_WINDOW_SIZE = 16, 17
C_CLOCK = 18  # instructions issued so far by this worker: stands in for a clock
C_ERROR_SPACE = 19
C_ERROR_WARP = 20  # address of the warp block that faulted
C_SM_COUNT = 21
C_QUEUED = 22  # 1: two groups of some warp were put off at a time
C_YIELDED = 23  # 1: a group gave way to other lanes of its warp
C_WORDS = 32

# --- operation block, byte offsets
O_HANDLER = 0
O_GUARD = 8  # i32 offset of the guard's row
O_GUARD_NEG = 12  # i32 0 or -1, exclusive-ored to the guard
O_OPERANDS = 16  # 12 x i32
O_IMM0 = 64  # i64: memory offset, ...
O_IMM1 = 72
O_PC = 80  # i32 byte address
O_FLAGS = 84  # i32 event flags
O_KIND = 88  # i32 Control
O_TARGET = 92  # i32 operation index of a branch target
O_ALLOCATION = 96  # i64 index of the allocation this instruction hit last
O_TICKS = 104  # i64: 1 | stall cycles << 32, added to W_TICKS
OPERATION = 128

# --- what a handler returns
OK = 0
EVENTS_FULL = 1  # nothing was done: drain the event buffer and call again
FAULT = 2  # the context's error record says what

# --- C_ERROR
E_OUT_OF_BOUNDS = 1
E_MISALIGNED = 2
E_CONST_BOUNDS = 3

# --- W_STATE
S_READY = 0
S_BLOCKED = 1  # every group waits at a CTA barrier
S_DONE = 2
S_STUCK = 3  # groups wait for lanes that never come

# --- O_KIND: what the runtime does after the handler; a control handler returns a lane mask
K_DATA = 0
K_BRA = 1
K_EXIT = 2
K_BSSY = 3
K_BSYNC = 4
K_BREAK = 5
K_WARPSYNC = 6
K_BAR = 7
K_INDIRECT = 8  # RET, BRX, CALL through a register: each lane's target is in row O_IMM0
K_NOP = 9
K_YIELD = 10
K_TRAP = 11
K_BMOV = 12  # writes a barrier register
K_MEMORY = 13  # as K_DATA; one that the profiler patches to count its addresses

# --- what running a launch comes back with
R_DONE = 0
R_EVENTS_FULL = 1
R_FAULT = 2
R_BUDGET = 3
R_DEADLOCK = 4
R_BAD_TARGET = 5
R_TRAP = 6
R_QUANTUM = 7
R_END = 8


def row(index: int) -> int:
    """Byte offset of a row in the warp block."""
    return ROWS + ROW * index


def warp_bytes(registers: int) -> int:
    """Size of a warp block with that many general registers (4 spare rows for wide accesses)."""
    return ROWS + ROW * (ROW_R + registers + 4)

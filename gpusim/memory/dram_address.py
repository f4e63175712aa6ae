# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, unreachable"
# numba infers types of compiled functions, and its intrinsics take fewer arguments than they are written with
"""The compiled loops of `gpusim.memory.dram_standard.AddressMap`: byte addresses to channel, bank and row."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from gpusim.compiled import compiled


@intrinsic
def _parity(context, x):
    """1 if an odd number of bits of a uint64 is set."""

    def generate(_context, builder, _signature, arguments):
        bits = builder.ctpop(arguments[0])
        return builder.and_(bits, _context.get_constant(types.uint64, 1))

    return types.uint64(types.uint64), generate


@compiled
def decode(addresses, fields, masks, strides, channels, banks, rows):
    """Channel, bank (flat within its channel) and row of each address; a field: (bits or 0, size, hash,
    target).

    ``target`` indexes ``strides`` (of the digit in the flat bank number); 0 is dropped, 1 the channel, 2 the
    row.
    """
    n_fields = fields.shape[0]
    for i in range(addresses.shape[0]):
        rest = addresses[i]
        channel = np.int64(0)
        bank = np.int64(0)
        row = np.int64(0)
        for f in range(n_fields):
            target = fields[f, 3]
            if fields[f, 1] == 0:  # the last field takes what is left
                digit = np.int64(rest)
            elif fields[f, 0] >= 0:
                bits = np.uint64(fields[f, 0])
                low = rest & ((np.uint64(1) << bits) - np.uint64(1))
                rest = rest >> bits
                if fields[f, 2] != 0:
                    for k in range(fields[f, 0]):
                        low ^= _parity(rest & masks[f, k]) << np.uint64(k)
                digit = np.int64(low)
            else:
                size = np.uint64(fields[f, 1])
                above = rest // size
                low = rest - above * size
                rest = above
                if fields[f, 2] != 0:  # Fibonacci hashing: spreads what lies above over all remainders
                    low = (low + ((above * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40))) % size
                digit = np.int64(low)
            if target == 1:
                channel += digit * strides[f]
            elif target == 2:
                row += digit * strides[f]
            elif target == 3:
                bank += digit * strides[f]
        channels[i] = channel
        banks[i] = bank
        rows[i] = row


@compiled
def bucket(channels, count):
    """Order of the requests by channel, each channel's in the order given; ``count`` gets the ends."""
    count[:] = 0
    for i in range(channels.shape[0]):
        count[channels[i] + 1] += 1
    for c in range(1, count.shape[0]):
        count[c] += count[c - 1]
    order = np.empty(channels.shape[0], np.int64)
    at = count.copy()
    for i in range(channels.shape[0]):
        order[at[channels[i]]] = i
        at[channels[i]] += 1
    return order

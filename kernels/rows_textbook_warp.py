"""Textbook rows T15 to T19: warp-wide instructions, cooperative groups, atomics, barriers, blocks.

All results are whole numbers (or sums of whole numbers held in floats) that do not depend on the order of
execution, so every row is compared bit for bit.  Sizes in elements.
Left out: results that hardware leaves open, such as which lane wins a race.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpusim.kernels.numerics import bfloat16_bits, wrap32
from gpusim.kernels.spec import Args, Arrays, CatalogKernel, LaunchSpec, Size, array, ceil_div, scalar
from gpusim.kernels.textbook import ArgsOf, flat, linear, sizes, textbook, unary

_SMALL = "randint:0:100"


def _i32(*rows: np.ndarray) -> np.ndarray:
    """Rows of ``out[k][n]`` as int32, wrapped."""
    return flat(*(wrap32(np.asarray(row).astype(np.int64)) for row in rows))


def _groups(values: np.ndarray, width: int) -> np.ndarray:
    return values.reshape(-1, width).astype(np.int64)


def _spread(per_group: Any, width: int) -> np.ndarray:
    """One value a group, repeated for each of its lanes."""
    return np.repeat(per_group, width)


def _ballot(truth: np.ndarray) -> np.ndarray:
    """Bit i of a group's word is lane i's truth value."""
    return (truth.astype(np.int64) << np.arange(truth.shape[1])).sum(axis=1)


# -------------------------------------------------------------------------------------------- T15 warp-wide


def _vote(size: Size, args: Args) -> Arrays:
    v = _groups(args[0], 32)
    group = (v & 2) != 0
    inner = (group & ((v & 4) != 0)).sum(axis=1) + 100 * ((v > 10) | ~group).all(axis=1)
    return {
        1: _i32(
            _spread((v > 90).any(axis=1), 32),
            _spread((v >= 0).all(axis=1), 32),
            _spread(_ballot((v & 1) != 0), 32),
            np.where(group, inner[:, None], -1).reshape(-1),
        )
    }


def _match(size: Size, args: Args) -> Arrays:
    v = _groups(args[0], 32)
    masks: list[int] = []
    counts: list[int] = []
    for warp in v:
        masks.extend(_ballot((warp[:, None] & 7) == (warp[None, :] & 7)))
        counts.extend(((warp[:, None] & 3) == (warp[None, :] & 3)).sum(axis=1))
    same = (v // 64 == v[:, :1] // 64).all(axis=1)
    return {
        1: _i32(
            np.array(masks),
            _spread(np.where(same, 0xFFFFFFFF, 0), 32),
            _spread(same, 32) + 2 * np.array(counts),
        )
    }


def _reduce(size: Size, args: Args) -> Arrays:
    v = _groups(args[0], 32) - 50
    u = v & 0xFFFFFFFF
    rows = (
        v.sum(axis=1),
        v.min(axis=1),
        v.max(axis=1),
        u.min(axis=1),
        u.max(axis=1),
        np.bitwise_and.reduce(u | 0xFFFFFFF0, axis=1),
        np.bitwise_or.reduce(u & 0x55, axis=1),
        np.bitwise_xor.reduce(u, axis=1),
    )
    return {1: _i32(*(_spread(row, 32) for row in rows))}


def _shuffle(size: Size, args: Args) -> Arrays:
    x = args[0]
    lane = np.arange(x.size) & 31
    base = np.arange(x.size) - lane

    def pick(source: np.ndarray) -> np.ndarray:
        return x[base + source]

    return {
        1: _i32(
            pick(np.full_like(lane, 5)),
            pick(np.where((lane & 15) >= 3, lane - 3, lane)),
            pick(np.where((lane & 7) + 2 < 8, lane + 2, lane)),
            pick(lane ^ 9),
            pick((lane & 24) | (x & 7)),
            pick(lane ^ 4),
        )
    }


def _row64(name: str, title: str, outs: int, oracle: Callable[[Size, Args], Arrays]) -> CatalogKernel:
    return textbook(
        "T15", name, title, "warp", sizes(128, 2048), linear(unary("int32", _SMALL, outs), (1,), 64), oracle
    )


_WARP = (
    _row64("warp_vote", "any, all, ballot, votes of a divergent group", 4, _vote),
    _row64("warp_match", "match_any and match_all", 3, _match),
    _row64("warp_reduce", "warp reductions in one instruction", 8, _reduce),
    _row64("warp_shuffle", "shuffles at several widths", 6, _shuffle),
)

# ----------------------------------------------------------------------------------- T16 cooperative groups


def _tiles(size: Size, args: Args) -> Arrays:
    x = args[0]
    eight, sixteen = _groups(x, 8), _groups(x, 16)
    return {
        1: _i32(
            _spread(eight.sum(axis=1), 8) * 10 + (np.arange(x.size) & 7),
            _spread(_ballot(sixteen & 1) + ((sixteen > 95).any(axis=1).astype(np.int64) << 20), 16),
        )
    }


def _cg_reduce(size: Size, args: Args) -> Arrays:
    v, quads = _groups(args[0], 32), _groups(args[0], 4)
    rows = (v.sum(axis=1), v.min(axis=1), np.bitwise_or.reduce(v, axis=1))
    return {1: _i32(*(_spread(row, 32) for row in rows), _spread(quads.sum(axis=1), 4))}


def _coalesced(size: Size, args: Args) -> Arrays:
    out = np.zeros_like(args[0]).reshape(-1, 32)
    for row, warp in zip(out, args[0].reshape(-1, 32), strict=True):
        kept = warp[warp % 3 == 0]
        row[: kept.size] = kept + 1000 * kept.size
    return {1: out.reshape(-1)}


def _cg_scan(size: Size, args: Args) -> Arrays:
    v = _groups(args[0], 32)
    running = np.cumsum(v, axis=1)
    return {1: _i32(running.reshape(-1), (running - v).reshape(-1))}


def _cooperative_row(
    name: str, title: str, outs: int, oracle: Callable[[Size, Args], Arrays]
) -> CatalogKernel:
    launch = linear(unary("int32", _SMALL, outs), (1,))
    return textbook("T16", name, title, "cooperative", sizes(128, 2048), launch, oracle)


_COOPERATIVE = (
    _cooperative_row("cg_tiles", "tiles of 8 and 16", 2, _tiles),
    _cooperative_row("cg_reduce", "cg::reduce over tiles", 4, _cg_reduce),
    _cooperative_row("cg_coalesced", "compaction by coalesced_threads in a branch", 1, _coalesced),
    _cooperative_row("cg_scan", "cg scans over tiles of 32", 2, _cg_scan),
)

# ---------------------------------------------------------------------------------------------- T17 atomics


def _xor_of(values: np.ndarray) -> int:
    return int(np.bitwise_xor.reduce(values))


def _atomic32(size: Size, args: Args) -> Arrays:
    x, n = args[0].astype(np.int64), size["n"]
    values = (
        x.sum(),
        -x.sum(),
        min(0, int(x.min()) - 500),
        x.max(),
        0,
        np.bitwise_or.reduce(x),
        _xor_of((x * 2654435761) & 0xFFFFFFFF),
        n % 37,  # 0, 1, ..., 36, 0
        -n % 41,  # 0, 40, 39, ..., 1, 0
    )
    return {1: np.array([int(v) & 0xFFFFFFFF for v in values], np.uint32)}


def _atomic64(size: Size, args: Args) -> Arrays:
    x = args[0].astype(np.uint64)
    low = min(0, int(args[0].min()) - (1 << 40))
    values = (
        int(x.sum()) << 30,
        low,
        int(x.max()) << 8,
        0,
        int(np.bitwise_or.reduce(x)) << 20,
        _xor_of(x * np.uint64(0x9E3779B97F4A7C15)),
    )
    return {1: np.array([v & (2**64 - 1) for v in values], np.uint64)}


def _exchange(size: Size, args: Args) -> Arrays:
    threads = ceil_div(size["n"], 128) * 128
    return {1: np.array([0, args[0].sum(), 1, threads - 1], np.int32)}


def _shared_atomics(size: Size, args: Args) -> Arrays:
    rows: list[int] = []
    for at in range(0, size["n"], 128):
        x = args[0][at : at + 128].astype(np.int64)
        rows += [
            int(x.sum()),
            min(0, int(x.min()) - 700),
            int(x.max()),
            int(np.bitwise_or.reduce(x)),
            int(wrap32(np.array([_xor_of(x * 77)]))[0]),
            x.size % 29,
            int(x.sum()) << 33,
            int(x.max()) << 12,
        ]
    return {1: np.array(rows, np.int64)}


def _cas_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return (
        array("float32", n, "randint:-500:500"),
        array("uint32", 1, "zeros"),
        array("float64", 1, "zeros"),
        scalar("int32", n),
    )


def _cas(size: Size, args: Args) -> Arrays:
    x = np.abs(args[0])
    return {1: x.max(keepdims=True).view(np.uint32), 2: np.array([x.astype(np.float64).sum()])}


def _atomic_fp_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    bins = (("float32", 8), ("float64", 8), ("float16", 16), ("uint16", 16))
    return (
        array("int32", n, _SMALL),
        *(array(dtype, count, "zeros") for dtype, count in bins),
        scalar("int32", n),
    )


def _atomic_fp(size: Size, args: Args) -> Arrays:
    v, which = args[0] & 3, np.arange(size["n"]) & 7
    total = np.bincount(which, v, 8)
    odd = np.bincount(which, v & 1, 8)
    count = np.bincount(which, minlength=8).astype(np.float64)
    return {
        1: total.astype(np.float32),
        2: total * 0.5,
        3: np.stack([total, count], axis=1).reshape(-1).astype(np.float16),
        4: bfloat16_bits(np.stack([count, odd], axis=1).reshape(-1).astype(np.float32)),
    }


def _fixed(dtype: str, init: str, out_dtype: str, outs: int) -> ArgsOf:
    """``const T* x [n], U* out [outs], int n``."""

    def args(size: Size) -> tuple[dict[str, Any], ...]:
        return array(dtype, size["n"], init), array(out_dtype, outs, "zeros"), scalar("int32", size["n"])

    return args


def _shared_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return array("int32", n, _SMALL), array("int64", 8 * ceil_div(n, 128), "zeros"), scalar("int32", n)


def _atomic_row(
    name: str,
    title: str,
    args: ArgsOf,
    outputs: tuple[int, ...],
    oracle: Callable[[Size, Args], Arrays],
) -> CatalogKernel:
    return textbook("T17", name, title, "atomics", sizes(200, 2048), linear(args, outputs), oracle)


_ATOMICS = (
    _atomic_row(
        "atomic_int32", "nine 32-bit operations", _fixed("int32", _SMALL, "uint32", 9), (1,), _atomic32
    ),
    _atomic_row(
        "atomic_int64", "six 64-bit operations", _fixed("int64", _SMALL, "uint64", 6), (1,), _atomic64
    ),
    _atomic_row(
        "atomic_exch_cas", "spin lock and exchange", _fixed("int32", _SMALL, "int32", 4), (1,), _exchange
    ),
    _atomic_row("atomic_shared", "shared-memory operations", _shared_args, (1,), _shared_atomics),
    _atomic_row("atomic_cas_float", "float maximum and double sum by CAS loops", _cas_args, (1, 2), _cas),
    _atomic_row(
        "atomic_fp", "float, double, half2, bfloat162 sums", _atomic_fp_args, (1, 2, 3, 4), _atomic_fp
    ),
)

# ------------------------------------------------------------------------------------- T18 barriers, copies


def _handoff(size: Size, args: Args) -> Arrays:
    x = args[0].astype(np.int64)
    at = np.arange(x.size)
    lane = at & 31
    received = np.where(lane >= 16, x[at ^ 16] * 2 + x, 0)
    return {1: _i32(received + np.where((lane >= 8) & (lane < 24), x[at ^ 7], 0))}


def _spin(size: Size, args: Args) -> Arrays:
    x = args[0].reshape(-1, 128).astype(np.int64)
    published = np.tile(x[:, :32] + 5, (1, 4))
    first = np.arange(128) < 32
    return {1: _i32(np.where(first, x, published * x).reshape(-1))}


def _early_exit(size: Size, args: Args) -> Arrays:
    x = args[0].reshape(-1, 128)
    out = x - 1
    mirrored = x[:, 63::-1]
    out[:, :64] = np.where(mirrored & 1, 0, mirrored)
    return {1: out.reshape(-1)}


def _barrier_reduce(size: Size, args: Args) -> Arrays:
    x = _groups(args[0], 128)
    rows = ((x > 50).sum(axis=1), (x > 0).all(axis=1), (x == 99).any(axis=1))
    return {1: _i32(*(_spread(row, 128) for row in rows))}


def _dynamic_launch(size: Size) -> LaunchSpec:
    n = size["n"]
    return LaunchSpec((n // 128, 1, 1), (128, 1, 1), unary("int32", _SMALL)(size), (1,), dynamic_shared=1024)


def _stages_launch(size: Size) -> LaunchSpec:
    n = size["n"]
    args = (array("int32", n, _SMALL), array("int32", 512, "zeros"), scalar("int32", n))
    return LaunchSpec((1, 1, 1), (128, 1, 1), args, (1,))


def _stages(size: Size, args: Args) -> Arrays:
    tiles = _groups(args[0], 512)
    return {1: wrap32((tiles * np.arange(1, len(tiles) + 1)[:, None]).sum(axis=0))}


def _widths_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return array("int32", n, _SMALL), array("int32", 4 * n, "zeros"), scalar("int32", n)


def _widths(size: Size, args: Args) -> Arrays:
    x = args[0].reshape(-1, 512)
    quads = x.reshape(len(x), 128, 4)
    thread, word = np.arange(128)[:, None], np.arange(4)[None, :]
    kept = np.where(word < 4 - (thread & 3), quads, 0)
    parts = (
        x[:, ::-1],
        x.reshape(len(x), 128, 2, 2)[:, :, ::-1].reshape(len(x), 512),
        kept.reshape(len(x), 512),
        quads[:, np.arange(128) ^ 2].reshape(len(x), 512),
    )
    return {1: np.concatenate(parts, axis=1).reshape(-1)}


def _sync_row(
    name: str, title: str, outs: int, oracle: Callable[[Size, Args], Arrays], per_block: int = 128
) -> CatalogKernel:
    launch = linear(unary("int32", _SMALL, outs), (1,), per_block=per_block)
    return textbook("T18", name, title, "sync", sizes(256, 2048), launch, oracle)


_SYNC = (
    _sync_row(
        "named_barriers",
        "two-slot ring between warps by bar.arrive and bar.sync",
        1,
        lambda size, args: {1: 3 * args[0] + 1},
        256,
    ),
    _sync_row("flag_handoff", "shared words handed over inside a warp", 1, _handoff),
    _sync_row("flag_spin", "warps that spin on a shared flag", 1, _spin),
    _sync_row("early_exit", "warps that leave before a barrier", 1, _early_exit),
    _sync_row("barrier_reduce", "barriers that count and vote", 3, _barrier_reduce),
    textbook(
        "T18",
        "dynamic_shared",
        "dynamic shared memory split in two arrays",
        "sync",
        sizes(128, 2048),
        _dynamic_launch,
        lambda size, args: {1: 1002 * args[0].reshape(-1, 128)[:, ::-1].reshape(-1)},
    ),
    textbook(
        "T18",
        "cp_async_stages",
        "three-stage ring of asynchronous copies",
        "sync",
        sizes(1024, 8192),
        _stages_launch,
        _stages,
    ),
    textbook(
        "T18",
        "cp_async_widths",
        "asynchronous copies of 4, 8, 16 bytes with zero fill",
        "sync",
        sizes(512, 4096),
        linear(_widths_args, (1,), per_block=512),
        _widths,
    ),
)

# ----------------------------------------------------------------------------------------------- T19 blocks


def _barrier_args(size: Size) -> tuple[dict[str, Any], ...]:
    n = size["n"]
    return (
        array("int32", n, _SMALL),
        array("int32", n, "zeros"),
        scalar("int32", n),
        scalar("int32", 5),
        array("uint32", 1, "zeros"),
    )


def _grid_barrier(size: Size, args: Args) -> Arrays:
    source, target = args[0].astype(np.int64), args[1].astype(np.int64)
    for _ in range(int(args[3])):
        target = np.roll(source, 1) + np.roll(source, -1)
        source, target = target, source
    even, odd = (target, source) if args[3] % 2 else (source, target)
    return {0: wrap32(even), 1: wrap32(odd), 4: np.array([args[3] * (size["n"] // 128)], np.uint32)}


def _last_launch(size: Size) -> LaunchSpec:
    n = size["n"]
    blocks = ceil_div(n, 512)
    args = (
        array("int32", n, _SMALL),
        array("int32", blocks, "zeros"),
        array("int32", 1, "zeros"),
        array("uint32", 1, "zeros"),
        scalar("int32", n),
    )
    return LaunchSpec((blocks, 1, 1), (128, 1, 1), args, (1, 2, 3))


def _last(size: Size, args: Args) -> Arrays:
    n, blocks = size["n"], ceil_div(size["n"], 512)
    owner = np.arange(n) // 128 % blocks
    partial = np.bincount(owner, args[0], blocks).astype(np.int32)
    return {1: partial, 2: np.array([args[0].sum()], np.int32), 3: np.zeros(1, np.uint32)}


_BLOCKS = (
    textbook(
        "T19",
        "grid_barrier",
        "barrier over all blocks built on atomics",
        "grid_sync",
        sizes(512, 8192),
        linear(_barrier_args, (0, 1, 4)),
        _grid_barrier,
    ),
    textbook(
        "T19",
        "last_block_sum",
        "the last block to finish adds the partial sums",
        "grid_sync",
        sizes(2000, 20000),
        _last_launch,
        _last,
    ),
)

ROWS: tuple[CatalogKernel, ...] = (*_WARP, *_COOPERATIVE, *_ATOMICS, *_SYNC, *_BLOCKS)

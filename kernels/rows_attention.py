"""Seed row A13: fused attention, the case the ladder's text names next.

``O = softmax(scale * Q @ K.T) @ V`` a head, fp32, head dimension 64, optionally causal.

Error bound (first order, doubled for what is left out).  With u = 2**-24 and S = scale * |Q| @ |K|.T, a
score is off by ``delta = gamma(67) * max S``: 64 fused multiply-adds, the scale and its constant, the maximum
subtracted.  A weight carries that as a relative error, plus 2 ulp = 4u for each ``exp2f`` it has gone
through: one of its own and one for every later tile of 32 keys that rescaled it, with a rounded product
each.  A weight enters once in the numerator and once in the denominator; both sums add ``gamma(seq)``; the
division and the last product are 4u.  All of it is relative to ``sum(p * |V|)``.
"""

from __future__ import annotations

import numpy as np

from gpusim.kernels.numerics import U32, gamma
from gpusim.kernels.spec import (
    Args,
    Arrays,
    CatalogKernel,
    LaunchSpec,
    Size,
    Tolerance,
    array,
    ceil_div,
    scalar,
)

HEAD_DIM, QUERIES, KEYS = 64, 64, 32


def _launch(size: Size) -> LaunchSpec:
    n = size["heads"] * size["seq"] * HEAD_DIM
    args = (
        array("float32", n),
        array("float32", n),
        array("float32", n),
        array("float32", n, "zeros"),
        scalar("int32", size["seq"]),
        scalar("float32", HEAD_DIM**-0.5),
        scalar("int32", size["causal"]),
    )
    return LaunchSpec((ceil_div(size["seq"], QUERIES), size["heads"], 1), (256, 1, 1), args, (3,))


def _attend(size: Size, args: Args) -> tuple[np.ndarray, np.ndarray]:
    """Output and allowed error, flat, in float64."""
    shape = (size["heads"], size["seq"], HEAD_DIM)
    q, k, v = (args[slot].reshape(shape).astype(np.float64) for slot in range(3))
    scale, seq = float(args[5]), size["seq"]
    hidden = np.triu(np.ones((seq, seq), bool), 1) if size["causal"] else np.zeros((seq, seq), bool)
    rescales = ceil_div(seq, KEYS)
    out, limit = np.empty(shape), np.empty(shape)
    for head in range(shape[0]):
        scores = np.where(hidden, -np.inf, scale * (q[head] @ k[head].T))
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        reach = scale * (np.abs(q[head]) @ np.abs(k[head]).T).max(axis=1, keepdims=True)
        weight_error = gamma(67) * reach + (rescales + 1) * 5 * U32
        out[head] = weights @ v[head]
        limit[head] = 2 * (2 * weight_error + 2 * gamma(seq) + 4 * U32) * (weights @ np.abs(v[head]))
    return out.reshape(-1), limit.reshape(-1)


def _oracle(size: Size, args: Args) -> Arrays:
    return {3: _attend(size, args)[0]}


def _bound(size: Size, args: Args) -> Arrays:
    return {3: _attend(size, args)[1]}


ROWS: tuple[CatalogKernel, ...] = (
    CatalogKernel(
        id="A13",
        seed="A13",
        title="fused attention, online softmax, head dimension 64",
        file="cuda/attention_a13_fused.cu",
        entry="attention_a13_fused",
        sizes=(
            {"name": "tiny", "heads": 2, "seq": 64, "causal": 0},
            {"name": "causal", "heads": 1, "seq": 128, "causal": 1},
            {"name": "ragged", "heads": 1, "seq": 100, "causal": 1},
            {"name": "middle", "heads": 4, "seq": 512, "causal": 0},
            {"name": "large", "heads": 16, "seq": 4096, "causal": 0},
        ),
        launch=_launch,
        oracle=_oracle,
        tolerance=Tolerance(
            "bound", 1.0, "scores, exponentials (2 ulp each), rescaling, sums; derived in rows_attention.py"
        ),
        bound=_bound,
    ),
)

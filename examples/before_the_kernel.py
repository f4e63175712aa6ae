"""What a shared-memory access costs, from its index arithmetic alone."""

from __future__ import annotations

import gpusim as gs

t = gs.threads(block=(32, 8))

for width in (32, 33):
    tile = gs.shared_array((32, width), "float32")
    row = gs.load(tile[t.y, t.x])
    column = gs.load(tile[t.x, t.y])
    print(f"tile[32][{width}]: a row {row.wavefronts} wavefront(s), a column {column.wavefronts}")

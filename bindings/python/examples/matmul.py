#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Out-of-core matrix multiplication: C = A x B in tiles, on a device that holds a quarter of the three matrices.

Each step leases a tile of A, of B and of C, enqueues their product, and has prefetched the tiles of the step after. All
sums are exact in float32, so every element of C can be compared with integers. Exits with 1 if one is wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import weir


def steps(n: int) -> Iterator[tuple[int, int, int]]:
    """(i, j, k), row by row of C's tiles, every second row backwards: the last column's tiles of B are still there."""
    for i in range(n):
        for j in range(n) if i % 2 == 0 else reversed(range(n)):
            for k in range(n):
                yield i, j, k


def multiply(views: tuple[weir.View, ...], tile: int, first: bool) -> None:
    """The kernel: it runs in the order of the stream."""
    a, b, c = (view.numpy(np.float32, (tile, tile)) for view in views)
    if first:
        np.matmul(a, b, out=c)
    else:
        c += a @ b


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=768, help="rows and columns of the matrices (768)")
    parser.add_argument("--tile", type=int, default=128, help="rows and columns of a tile (128); divides the size")
    size, tile = (arguments := parser.parse_args()).size, arguments.tile
    if size <= 0 or tile <= 0 or size % tile:
        parser.error(f"--size {size} is no multiple of --tile {tile}")
    n, matrices = size // tile, 3 * size * size * 4

    row, column = np.arange(size)[:, None], np.arange(size)[None, :]
    a_values = (7 * row + 3 * column) % 11 - 5
    b_values = (5 * row + 2 * column) % 13 - 6

    # Small granules: a tile is 64 KiB, and the budget a quarter of the matrices to the page.
    with (
        weir.Context({"host.memory": "256M", "host.granule": "64K", "host.granule_large": 0}, search=False) as context,
        context.pool(matrices // 4, host_budget=matrices + matrices // 4, name="matmul") as pool,
        context.stream(0) as stream,
    ):

        def tiles(values: np.ndarray[Any, Any]) -> list[list[weir.Buffer]]:
            cut = values.reshape(n, tile, n, tile).swapaxes(1, 2).astype(np.float32)
            return [[pool.buffer_from(np.ascontiguousarray(each)) for each in line] for line in cut]

        a, b = tiles(a_values), tiles(b_values)
        c = [[pool.buffer(tile * tile * 4) for _ in range(n)] for _ in range(n)]

        def uses(i: int, j: int, k: int) -> tuple[weir.Use, ...]:
            result = weir.overwrite(c[i][j]) if k == 0 else weir.write(c[i][j])
            return weir.read(a[i][k]), weir.read(b[k][j]), result

        order = list(steps(n))
        for step, following in zip(order, [*order[1:], None]):
            if following is not None:
                pool.prefetch(stream, *uses(*following))
            with pool.acquire(stream, *uses(*step)) as lease:
                lease.host_call(multiply, tile, step[2] == 0)
        stream.synchronize()

        result = np.block([[np.frombuffer(each.read(), np.float32).reshape(tile, tile) for each in line] for line in c])
        wrong = int(np.count_nonzero(result != a_values @ b_values))
        moved = (pool.stats.promoted_bytes + (1 << 19)) >> 20
        print(
            f"matmul N={size} tile={tile}: device holds 25 % of the matrices, "
            f"moved {moved} MiB to the device, {wrong} wrong elements"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

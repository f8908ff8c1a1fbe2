# SPDX-License-Identifier: Apache-2.0
"""What the tests of weir.torch share: a program's gradients with its activations in a pool and without. Imported where PyTorch
is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import weir
import weir.torch as weir_torch

#: Gives leaves that require gradients, and what runs the program and returns its loss.
Program = Callable[[], "tuple[list[Any], Callable[[], Any]]"]


def gradients(make: Program, pool: weir.Pool | None, least: int = 1) -> Any:
    """What the backward pass of a program gives for its leaves, with and without a pool; and the block."""
    torch.manual_seed(8)
    leaves, run = make()
    block = None
    if pool is None:
        loss = run()
    else:
        with weir_torch.offload(pool, min_bytes=least) as block:
            loss = run()
    loss.backward()
    if loss.is_cuda:
        torch.cuda.synchronize()
    return [leaf.grad for leaf in leaves], block


def same(make: Program, pool: weir.Pool, least: int = 1) -> weir_torch.OffloadStats:
    """Gradients and their strides are the same with the pool, to the bit."""
    expected, _ = gradients(make, None)
    found, block = gradients(make, pool, least)
    for mine, theirs in zip(found, expected):
        assert torch.equal(mine, theirs)
        assert mine.stride() == theirs.stride()
    assert expected
    stats: weir_torch.OffloadStats = block.stats
    return stats

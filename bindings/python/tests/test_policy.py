# SPDX-License-Identifier: Apache-2.0
"""What a policy has learned, saved and loaded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import weir
from tests_support import PAGE


@pytest.fixture
def learning() -> Iterator[tuple[weir.Context, weir.Pool]]:
    """A pool that learns: with the least memory in which that is done, of which next to nothing is taken."""
    with (
        weir.Context({"host.memory": "80M"}, search=False) as context,
        weir.Pool(context, {0: "64M"}, host_budget=32 * PAGE, policy="auto") as pool,
    ):
        yield context, pool


def test_what_was_learned_is_saved_and_loaded(learning: tuple[weir.Context, weir.Pool]) -> None:
    context, pool = learning
    saved = pool.save_policy()
    pool.load_policy(saved)
    assert pool.save_policy() == saved
    pool.load_policy(memoryview(bytearray(saved)))
    damaged = bytearray(saved)
    damaged[40] ^= 1
    for other in (b"", saved[:-1], damaged):
        with pytest.raises(weir.Corrupt):
            pool.load_policy(other)
    damaged[12] ^= 2  # the version
    with pytest.raises(weir.NotSupported, match="version"):
        pool.load_policy(damaged)
    with pytest.raises(TypeError, match="data"):
        pool.load_policy("words")
    with context.stream(0) as stream, pool.buffer(PAGE) as buffer:
        pool.acquire(stream, weir.overwrite(buffer), operation="layer").release()
        with pytest.raises(weir.InvalidArgument, match="acquire"):
            pool.load_policy(saved)


def test_a_policy_that_learns_nothing_is_not_saved(context: weir.Context) -> None:
    with weir.Pool(context, {0: 4 * PAGE}, host_budget=32 * PAGE, policy="lru-window") as pool:
        with pytest.raises(weir.NotSupported, match="auto"):
            pool.save_policy()
        with pytest.raises(weir.NotSupported, match="auto"):
            pool.load_policy(b"bytes")

# SPDX-License-Identifier: Apache-2.0
"""Closing while others are at it, and what is kept or told when an object has gone."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import weir
from tests_support import PAGE
from weir import _core


def closing(thing: weir.Pool, body: Any) -> None:
    """Runs a function while another thread is in the midst of closing the thing, which will say Busy."""
    inside, go_on = threading.Event(), threading.Event()

    def destroy() -> int:
        inside.set()
        go_on.wait(60)
        return int(weir.Result.BUSY)

    thing._destroy = destroy  # type: ignore[method-assign]
    seen: list[BaseException] = []

    def close() -> None:
        try:
            thing.close()
        except weir.Busy as error:
            seen.append(error)

    thread = threading.Thread(target=close)
    thread.start()
    assert inside.wait(60)
    waker = threading.Timer(0.05, go_on.set)
    waker.start()
    try:
        body()
    finally:
        go_on.set()
        thread.join(60)
        waker.join(60)
        del thing._destroy  # the class has its own
    assert len(seen) == 1


def test_nobody_is_told_of_a_pool_that_goes_on(pool: weir.Pool, stream: weir.Stream) -> None:
    """A call that comes while the pool tries to close waits for the outcome."""
    buffer, client, other = pool.buffer(PAGE), pool.client("c"), pool.buffer(PAGE)
    hold, lease = buffer.hold(), pool.acquire(stream, weir.read(other))
    buffers = pool.stats.buffers
    closing(pool, hold.release)
    assert buffer.query().held == 0
    closing(pool, lambda: pool.stats)
    closing(pool, lease.release)
    assert other.query().leases == 0
    closing(pool, client.close)
    closing(pool, buffer.close)
    assert (pool.stats.buffers, pool.closed) == (buffers - 1, False)


def test_what_fails_later_is_not_anothers_error(pool: weir.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        def _drop(self) -> None:
            raise KeyError("mine")

    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    _core._put_off.append(Wrong())
    _core._abandoned.add(Wrong())
    assert pool.stats.buffers == 0
    pool.buffer(PAGE).close()
    assert [each.exc_type for each in told] == [KeyError, KeyError]
    assert not _core._abandoned


def test_a_callback_of_a_borrowed_pool_is_kept(pool: weir.Pool) -> None:
    def told(loss: weir.DeviceLoss) -> None:
        pass

    alive = weakref.ref(told)
    borrowed = weir.Pool.from_handle(pool.context, pool.handle)
    borrowed.set_loss_callback(told)
    borrowed.close()
    del borrowed, told
    gc.collect()
    assert alive() is not None  # the pool may still call it
    weir.Pool.from_handle(pool.context, pool.handle).set_loss_callback(None)
    gc.collect()
    assert alive() is None


def test_placing_for_a_client_that_is_closed(pool: weir.Pool) -> None:
    client = pool.client("c")
    options = [weir.BufferOptions(PAGE), weir.BufferOptions(PAGE, client=client)]
    assert len(pool.place(options)) == 2
    client.close()
    with pytest.raises(weir.Closed, match="client"):
        pool.place(options)


def collected_while_closing(thing: weir.Client | weir.Buffer, make: Callable[[], object]) -> None:
    """The collector takes what `make` made in the midst of the closing of another thing, where no finalizer may call Weir."""
    knot: list[Any] = [make()]
    knot.append(knot)
    gc.collect()
    gc.disable()  # the knot is to live until the closing
    original = thing._destroy

    def destroy() -> int:
        gc.collect()
        return original()

    thing._destroy = destroy  # type: ignore[method-assign]
    try:
        del knot
        thing.close()
    finally:
        del thing._destroy  # the class has its own
        gc.enable()


def test_what_is_dropped_while_a_client_is_closed(pool: weir.Pool) -> None:
    """All that keeps the client busy is what the collector has taken meanwhile."""
    client = pool.client("tenant")
    collected_while_closing(client, lambda: pool.buffer(PAGE, client=client))
    assert (client.closed, pool.stats.buffers) == (True, 0)
    assert not _core._put_off


def test_what_is_dropped_while_a_buffer_is_closed(pool: weir.Pool, stream: weir.Stream) -> None:
    """A lease that was put off ends before its bytes stand in the way of the next acquire."""
    other = pool.buffer(4 * PAGE)
    with pytest.warns(ResourceWarning, match="dropped"):
        collected_while_closing(pool.buffer(PAGE), lambda: pool.acquire(stream, weir.overwrite(pool.buffer(4 * PAGE))))
    assert len(_core._put_off) > 0
    with pool.acquire(stream, weir.overwrite(other), operation=0) as lease:  # a name would be a call before it
        assert lease[0].nbytes == 4 * PAGE
    assert not _core._put_off

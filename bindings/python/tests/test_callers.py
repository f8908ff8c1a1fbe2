# SPDX-License-Identifier: Apache-2.0
"""Acquires without a name have that of the place that they are called at."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest

import weir
from tests_support import PAGE
from weir import _callers


def names(pool: weir.Pool) -> dict[str, int]:
    return dict(pool._operations)


def function(name: str) -> str:
    """What a name begins with that was given in this module: qualified where Python tells."""
    return f"{__name__}.{name if sys.version_info >= (3, 11) else name.rpartition('.')[2]}+"


class Step:
    def __init__(self, pool: weir.Pool, stream: weir.Stream) -> None:
        self.pool, self.stream, self.buffer = pool, stream, pool.buffer(PAGE)

    def forward(self) -> None:
        self.pool.acquire(self.stream, weir.overwrite(self.buffer)).release()

    def backward(self) -> None:
        with self.pool.acquire(self.stream, weir.read(self.buffer)):
            pass
        with self.pool.acquire(self.stream, weir.read(self.buffer), timeout=1.0):
            pass


def test_a_place_has_one_name_however_often_it_is_passed(pool: weir.Pool, stream: weir.Stream) -> None:
    step = Step(pool, stream)
    for _ in range(5):
        step.forward()
        step.backward()
    assert names(pool) == {
        function("Step.forward") + "1": 1,
        function("Step.backward") + "1": 2,
        function("Step.backward") + "3": 3,
    }
    Step(pool, stream).forward()  # another object, the same place
    assert len(names(pool)) == 3


def test_each_way_to_acquire_is_named_by_its_caller(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)
    prepared = pool.prepare(stream, weir.overwrite(buffer))
    for _ in range(3):
        prepared.acquire().release()
    pool.acquire_async(stream, weir.read(buffer)).result().release()
    name = function("test_each_way_to_acquire_is_named_by_its_caller")
    assert names(pool) == {name + "2": 1, name + "5": 2}


def test_what_is_named_is_left_as_it_is(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)
    for operation in ("mine", 1, 0):
        pool.acquire(stream, weir.overwrite(buffer), operation=operation).release()
    assert names(pool) == {"mine": 1}


def test_names_can_be_turned_off(context: weir.Context, stream: weir.Stream) -> None:
    def names_of(**options: object) -> int:
        with context.pool({0: 4 * PAGE}, host_budget=32 * PAGE, **options) as pool:
            pool.acquire(stream, weir.overwrite(pool.buffer(PAGE))).release()
            return len(names(pool))

    assert names_of() == 1
    assert names_of(policy="auto") == 1
    assert names_of(policy="lru-window") == 0
    assert names_of(policy="lru-window", name_operations=True) == 1
    assert names_of(policy="auto", name_operations=False) == 0
    with context.pool({0: 4 * PAGE}, host_budget=32 * PAGE) as pool:
        pool.name_operations = False
        pool.acquire(stream, weir.overwrite(pool.buffer(PAGE))).release()
        assert names(pool) == {}


def test_places_have_an_end(pool: weir.Pool, stream: weir.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_callers, "MOST_PLACES", 8)
    buffer = pool.buffer(PAGE)
    for number in range(20):
        source = f"def made{number}(): pool.acquire(stream, weir.overwrite(buffer)).release()\nmade{number}()"
        exec(source, {**globals(), **locals()})
    assert len(names(pool)) == 8
    assert list(names(pool))[7] == f"{__name__}.made7+0"


def test_names_fit() -> None:
    scope: dict[str, object] = {"__name__": "é" * 600, "sys": sys}
    exec("def long(): return sys._getframe()", scope)
    name = _callers.place_name(scope["long"]())  # type: ignore[operator]
    assert name.endswith("é.long+0")
    assert 1000 < len(name.encode()) <= 1023


def test_a_pool_is_not_kept_alive_by_its_names(context: weir.Context, stream: weir.Stream) -> None:
    pool = context.pool({0: 4 * PAGE}, host_budget=32 * PAGE)
    pool.acquire(stream, weir.overwrite(pool.buffer(PAGE))).release()
    seen = weakref.ref(pool)
    pool.close()
    gc.disable()
    try:
        del pool
        assert seen() is None
    finally:
        gc.enable()


def test_code_stays_as_long_as_its_number(context: weir.Context, stream: weir.Stream) -> None:
    """Other code in its place would have its name."""
    with context.pool({0: 4 * PAGE}, host_budget=32 * PAGE) as pool:
        scope: dict[str, object] = {"pool": pool, "stream": stream, "weir": weir, "buffer": pool.buffer(PAGE)}
        exec("def made(): pool.acquire(stream, weir.overwrite(buffer)).release()\nmade()", scope)
        code = weakref.ref(scope["made"].__code__)  # type: ignore[attr-defined]
        scope.clear()
        gc.collect()
        assert code() is not None
    del pool
    gc.collect()
    assert code() is None


def test_an_acquire_goes_on_without_a_name(
    pool: weir.Pool, stream: weir.Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: weir.Pool, name: str) -> int:
        raise weir.OutOfHostMemory(name)

    monkeypatch.setattr(weir.Pool, "operation_id", refuse)
    pool.acquire(stream, weir.overwrite(pool.buffer(PAGE))).release()


def test_a_closed_pool_says_so(context: weir.Context, stream: weir.Stream) -> None:
    pool = context.pool({0: 4 * PAGE}, host_budget=32 * PAGE)
    buffer = pool.buffer(PAGE)
    pool.close()
    with pytest.raises(weir.Closed, match=r"pool|buffer"):
        pool.acquire(stream, weir.read(buffer))

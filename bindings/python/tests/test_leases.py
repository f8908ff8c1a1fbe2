# SPDX-License-Identifier: Apache-2.0
"""Leases, prepared and asynchronous ones, host calls, prefetch and announcements, and threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import math
import threading
import traceback
from typing import Any

import numpy as np
import pytest

import weir
from tests_support import PAGE
from weir import errors


def test_a_lease_ends_with_its_block(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)
    with pool.acquire(stream, weir.overwrite(buffer), operation="fill") as lease:
        assert (lease.released, len(lease), lease.stream) == (False, 1, stream)
        assert lease.uses[0].buffer is buffer
        assert lease.address() == lease.address(-1) == lease[0].address
        assert buffer.query().leases == 1
        with pytest.raises(IndexError):
            lease.address(1)
    assert lease.released
    assert buffer.query().leases == 0
    lease.release()  # twice is allowed
    with pytest.raises(weir.Closed, match="released"):
        lease.address()
    with pytest.raises(weir.Closed, match="released"):
        _ = lease[0]


def test_operations_have_numbers(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)
    pool.name_operations = False
    assert [pool.operation_id(name) for name in ("layer", "head", "layer")] == [1, 2, 1]
    for operation in (2, "third", None, 0):
        with pool.acquire(stream, weir.overwrite(buffer), operation=operation):
            pass
    assert pool.operation_id("fourth") == 4
    with pool.prepare(stream, weir.read(buffer), operation="fifth").acquire():
        pass
    pool.acquire_async(stream, weir.read(buffer), operation="sixth").result().release()
    pool.announce(stream, [weir.Operation([weir.read(buffer)], 6), weir.Operation([weir.read(buffer)], "seventh")])
    assert pool.operation_id("eighth") == 8
    for unknown in (9, 1 << 31):
        with pytest.raises(weir.InvalidArgument, match=f"operation_id is {unknown}"):
            pool.acquire(stream, weir.read(buffer), operation=unknown)
        with pytest.raises(weir.InvalidArgument, match=f"operation_id is {unknown}"):
            pool.announce(stream, [weir.Operation([weir.read(buffer)], unknown)])
    for name, words in (("", "empty"), ("n" * 1024, "1024")):
        with pytest.raises(weir.InvalidArgument, match=words):
            pool.operation_id(name)
    with pytest.raises(ValueError, match="zero bytes"):
        pool.operation_id("a\0b")
    for wrong in (True, -1, 1 << 32, 1.5, b"name"):
        with pytest.raises(TypeError, match="operation_id gave"):
            pool.acquire(stream, weir.read(buffer), operation=wrong)  # type: ignore[arg-type]
    assert pool.stats.shared_operation_ids == 0


def test_an_exception_in_the_block_is_the_one_that_is_told(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)

    def fail() -> None:
        with pool.acquire(stream, weir.overwrite(buffer)) as lease:
            array = lease[0].numpy()  # it lives in the frame that the traceback keeps
            array[0] = 1
            raise KeyError("mine")

    with pytest.warns(ResourceWarning, match="lease dropped"):
        try:
            fail()
        except KeyError as error:
            assert buffer.query().leases == 1
            traceback.clear_frames(error.__traceback__)
        gc.collect()
    assert buffer.query().leases == 0


def test_ranges_and_modes(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer_from(bytes(range(256)) * 16)
    with pool.acquire(stream, weir.read(buffer, 16, 4), weir.read(buffer, 4090)) as lease:
        assert lease[0].tobytes() == bytes([16, 17, 18, 19])
        assert lease[1].nbytes == 6
    with (
        pool.acquire(stream, weir.write(buffer, 0, 16)) as first,
        pool.acquire(stream, weir.write(buffer, 16, 16)) as second,
    ):
        assert second.address() - first.address() == 16
    with pytest.raises(weir.InvalidArgument):
        pool.acquire(stream, weir.read(buffer, 4096, 1))


def test_releasing_on_another_stream(pool: weir.Pool, context: weir.Context, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)
    with context.stream(0) as other, context.stream(1) as foreign:
        lease = pool.acquire(stream, weir.overwrite(buffer))
        with pytest.raises(weir.InvalidArgument):
            lease.release(foreign)  # of another device: nothing has changed
        assert not lease.released
        lease[0].numpy()[:] = 1
        lease.release(other)
        assert lease.released
        assert buffer.query().leases == 0


def test_prepared_sets_overlap(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer_from(b"prepared")
    prepared = pool.prepare(stream, weir.read(buffer))
    with prepared.acquire() as first, prepared.acquire() as second:
        assert first.handle != second.handle
        assert first[0].tobytes() == second[0].tobytes() == b"prepared"
    for _ in range(1000):
        with prepared.acquire():
            pass
    assert len(prepared._idle) == 2
    with pool.acquire(stream, weir.write(buffer)), pytest.raises(weir.LeaseConflict):
        prepared.acquire()
    assert len(prepared._idle) == 2
    buffer.close()
    with pytest.raises(weir.Closed, match="the buffer is closed"):
        prepared.acquire()


def test_streams_on_the_host(pool: weir.Pool, context: weir.Context) -> None:
    buffer = pool.buffer_from(b"host")
    with context.stream(weir.HOST) as host:
        assert host.device == weir.HOST
        with pool.acquire(host, weir.read(buffer)) as lease:
            assert lease[0].tobytes() == b"host"
            assert lease[0].__dlpack_device__() == (1, 0)
        with pytest.raises(weir.NotSupported):
            _ = host.native
        with pytest.raises(weir.NotSupported):
            context.wrap_stream(0, weir.HOST)


def test_native_streams_are_wrapped(pool: weir.Pool, context: weir.Context, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)
    with context.wrap_stream(stream.native, 0) as wrapped:
        with pool.acquire(wrapped, weir.overwrite(buffer)):
            pass
        assert wrapped.native == stream.native
        wrapped.synchronize()
        assert wrapped.query()


# ---- host calls ----


def test_host_calls_run_in_order_and_answer(stream: weir.Stream) -> None:
    gate = threading.Event()
    seen: list[int] = []

    def add(a: int, b: int) -> int:
        seen.append(a)
        return a + b

    first = stream.host_call(gate.wait)
    second = stream.host_call(add, 2, 3)
    assert not stream.query()
    assert not second.done()
    gate.set()
    assert (first.result(60), second.result(60), seen) == (True, 5, [2])
    stream.synchronize()
    assert stream.query()
    failed = stream.host_call(lambda: 1 / 0)
    assert isinstance(failed.exception(60), ZeroDivisionError)


def test_a_host_call_must_not_call_weir(stream: weir.Stream, pool: weir.Pool) -> None:
    buffer = pool.buffer(PAGE)
    for call in (lambda: pool.stats, stream.synchronize, buffer.close, lambda: pool.acquire(stream, weir.read(buffer))):
        with pytest.raises(RuntimeError, match="must not call Weir"):
            stream.host_call(call).result(60)


def test_what_dies_in_a_host_call_is_closed_later(stream: weir.Stream, pool: weir.Pool) -> None:
    kept = [pool.buffer(PAGE)]
    before = pool.stats.buffers
    stream.host_call(kept.clear).result(60)
    stream.synchronize()
    assert pool.stats.buffers <= before  # the call before it may have closed the buffer
    assert pool.stats.buffers == before - 1


def test_kernels_get_views(stream: weir.Stream, pool: weir.Pool) -> None:
    source, target = pool.buffer_from(np.arange(1024, dtype=np.float32)), pool.buffer(4096)

    def double(views: tuple[weir.View, ...], factor: float) -> float:
        x, y = (view.numpy(np.float32) for view in views)
        np.multiply(x, factor, out=y)
        return float(y[-1])

    with pool.acquire(stream, weir.read(source), weir.overwrite(target)) as lease:
        future = lease.host_call(double, 2.0)
    assert future.result(0) == 2046.0  # release has waited for it
    assert np.frombuffer(target.read(), np.float32).tolist() == list(range(0, 2048, 2))


def test_a_kernel_that_keeps_a_view_is_found_out(stream: weir.Stream, pool: weir.Pool) -> None:
    buffer = pool.buffer(PAGE)
    kept: list[Any] = []
    lease = pool.acquire(stream, weir.overwrite(buffer))
    lease.host_call(lambda views: kept.append(views[0].numpy()))
    with pytest.raises(BufferError, match="1 arrays"):
        lease.release()
    assert not lease.released
    kept[0][:] = 1  # and that is safe
    kept.clear()
    lease.release()


def test_a_kernel_that_fails_is_told_by_the_release(stream: weir.Stream, pool: weir.Pool) -> None:
    buffer = pool.buffer(PAGE)

    def fail(views: tuple[weir.View, ...]) -> None:
        array = views[0].numpy()
        raise KeyError(int(array.size))

    lease = pool.acquire(stream, weir.overwrite(buffer))
    lease.host_call(fail)
    with pytest.raises(KeyError, match=str(PAGE)):
        lease.release()
    assert lease.released
    assert buffer.query().leases == 0


def test_a_stream_that_is_lost_ends_the_lease(
    stream: weir.Stream, pool: weir.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = pool.buffer(PAGE)
    lease = pool.acquire(stream, weir.overwrite(buffer))
    lease.host_call(lambda views: None).result(60)

    def lost(self: weir.Stream) -> None:
        raise weir.DeviceLost("gone")

    with monkeypatch.context() as patch:
        patch.setattr(weir.Stream, "synchronize", lost)
        with pytest.raises(weir.DeviceLost, match="gone"):
            lease.release()
    assert lease.released
    assert buffer.query().leases == 0


def test_a_release_within_a_release(stream: weir.Stream, pool: weir.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another thread does it while the first is in the C call: only one of them ends the lease and gives the set back."""
    from weir import lease as module

    buffer = pool.buffer(PAGE)
    prepared = pool.prepare(stream, weir.overwrite(buffer))
    lease = prepared.acquire()
    view, real = lease[0], module._release

    def release(native: Any) -> int:
        lease.release()
        with pytest.raises(ValueError, match="released"):
            memoryview(view)
        with pytest.raises(weir.Closed):
            lease.address()
        return int(real(native))

    monkeypatch.setattr(module, "_release", release)
    lease.release()
    assert lease.released
    assert len(prepared._idle) == 1
    assert buffer.query().leases == 0


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_lease_in_a_cycle_with_its_memory(stream: weir.Stream, pool: weir.Pool) -> None:
    class Knot:
        pass

    buffer = pool.buffer(PAGE)
    for _ in range(3):
        knot: Any = Knot()
        knot.lease = pool.acquire(stream, weir.overwrite(buffer))
        knot.memory, knot.knot = memoryview(knot.lease[0]), knot
        del knot
        gc.collect()
        with pool.acquire(stream, weir.overwrite(buffer)):  # what was dropped is out of the way by now
            pass
    assert buffer.query().leases == 0


# ---- asynchronous acquires ----


def test_asynchronous_acquires(pool: weir.Pool, stream: weir.Stream) -> None:
    first, second = pool.buffer(3 * PAGE), pool.buffer(3 * PAGE)
    lease = pool.acquire_async(stream, weir.overwrite(first)).result(60)
    waiting = pool.acquire_async(stream, weir.overwrite(second), timeout=60)
    done = threading.Event()
    waiting.add_done_callback(lambda _: done.set())
    assert not done.is_set()
    lease.release()
    assert done.wait(60)
    with waiting.result() as lease:
        lease[0].numpy()[:] = 2
    second.close()
    with pytest.raises(weir.Closed, match="buffer"):
        pool.acquire_async(stream, weir.read(second))


def test_the_reason_of_an_asynchronous_acquire_arrives(pool: weir.Pool, stream: weir.Stream) -> None:
    big, small = pool.buffer(6 * PAGE), pool.buffer(PAGE)
    failed = pool.acquire_async(stream, weir.overwrite(big))
    with pytest.raises(weir.OverBudget) as told:
        pool.acquire(stream, weir.overwrite(big))
    with pytest.raises(weir.OverBudget) as caught:
        failed.result(60)
    for error in (told.value, caught.value):
        assert (error.asked, error.available, error.short_by) == (6 * PAGE, 4 * PAGE, 2 * PAGE)
        assert (error.tier, error.device) == (weir.Tier.DEVICE, 0)
    assert str(caught.value) == str(told.value) != str(errors.make(weir.Result.OVER_BUDGET, ""))
    with pool.acquire(stream, weir.write(small)), pytest.raises(weir.LeaseConflict) as conflict:
        pool.acquire_async(stream, weir.read(pool.buffer(PAGE)), weir.read(small)).result(60)
    assert conflict.value.use_index == 1


def test_cancelling(pool: weir.Pool, stream: weir.Stream) -> None:
    first, second = pool.buffer(3 * PAGE), pool.buffer(3 * PAGE)
    with pool.acquire(stream, weir.overwrite(first)):
        waiting = pool.acquire_async(stream, weir.overwrite(second), timeout=60)
        assert waiting.cancel()
        assert waiting.cancelled()
        with pytest.raises(concurrent.futures.CancelledError):
            waiting.result(60)
    granted = pool.acquire_async(stream, weir.overwrite(second))
    with granted.result(60):
        assert not granted.cancel()


def test_awaiting(pool: weir.Pool, stream: weir.Stream) -> None:
    first, second = pool.buffer(3 * PAGE), pool.buffer(3 * PAGE)

    async def main() -> None:
        with await pool.acquire_async(stream, weir.overwrite(first)) as lease:
            lease[0].numpy()[:] = 1
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(pool.acquire_async(stream, weir.overwrite(second), timeout=60), 0.05)
        (await pool.acquire_async(stream, weir.overwrite(second))).release()

    asyncio.run(main())
    assert second.query().leases == 0


def test_a_lease_that_nobody_awaits_any_more_is_released(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)

    async def main() -> None:
        pending = pool.acquire_async(stream, weir.overwrite(buffer))
        task = asyncio.ensure_future(_await(pending))
        await asyncio.sleep(0)
        while not pending.done():  # granted, and the loop has not been told
            pass
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def _await(pending: weir.PendingLease) -> weir.Lease:
        return await pending

    asyncio.run(main())
    assert buffer.query().leases == 0


def test_a_pool_ends_with_acquires_waiting(context: weir.Context, stream: weir.Stream) -> None:
    pool = context.pool(4 * PAGE)
    first, second = pool.buffer(3 * PAGE), pool.buffer(3 * PAGE)
    lease = pool.acquire(stream, weir.overwrite(first))
    waiting = pool.acquire_async(stream, weir.overwrite(second), timeout=60)
    with pytest.raises(weir.Busy):
        pool.close()
    waiting.cancel()
    lease.release()
    pool.close()
    assert waiting.done()


# ---- before the need ----


def test_prefetch_and_announcements(pool: weir.Pool, stream: weir.Stream) -> None:
    buffers = [pool.buffer(PAGE) for _ in range(12)]
    for buffer in buffers:
        with pool.acquire(stream, weir.overwrite(buffer)) as lease:
            lease[0].numpy()[:] = 1
    pool.announce(stream, [weir.Operation([weir.read(each)], "layer") for each in buffers], replace=True)
    for i, buffer in enumerate(buffers):
        if i + 1 < len(buffers):
            pool.prefetch(stream, weir.read(buffers[i + 1]))
        with pool.acquire(stream, weir.read(buffer)) as lease:
            assert lease[0].tobytes() == b"\1" * PAGE
    pool.announce(stream, [], replace=True)
    assert pool.stats.prefetched_bytes > 0
    buffers[0].close()
    with pytest.raises(weir.Closed, match="buffer"):
        pool.prefetch(stream, weir.read(buffers[0]))


def matmul_moves(prefetch: bool) -> int:
    """Bytes that the matmul example brings to a device of a quarter of the three matrices, each of 6 x 6 tiles of a page."""
    n, page = 6, 64 << 10
    with (
        weir.Context({"host.memory": "64M", "host.granule": "64K", "host.granule_large": 0}, search=False) as context,
        context.pool(3 * n * n // 4 * page, host_budget=4 * n * n * page, background=False) as pool,
        context.stream(0) as stream,
    ):
        a, b = ([[pool.buffer_from(bytes(page)) for _ in range(n)] for _ in range(n)] for _ in "ab")
        c = [[pool.buffer(page) for _ in range(n)] for _ in range(n)]
        steps = [
            (weir.read(a[i][k]), weir.read(b[k][j]), weir.write(c[i][j]) if k else weir.overwrite(c[i][j]))
            for i in range(n)
            for j in (range(n) if i % 2 == 0 else reversed(range(n)))
            for k in range(n)
        ]
        for step, following in zip(steps, [*steps[1:], None]):
            if prefetch and following is not None:
                pool.prefetch(stream, *following)
            pool.acquire(stream, *step).release()
        return pool.stats.promoted_bytes


def test_prefetch_moves_no_more_than_is_moved_without() -> None:
    assert matmul_moves(True) <= matmul_moves(False)


# ---- threads ----


def test_many_threads_share_a_pool(context: weir.Context) -> None:
    rounds, threads = 60, 4
    with context.pool(8 * PAGE, host_budget=64 * PAGE) as pool:
        buffers = [pool.buffer(PAGE) for _ in range(16)]
        locks = [threading.Lock() for _ in buffers]
        expected = [0] * len(buffers)

        def work(seed: int) -> None:
            random = np.random.default_rng(seed)
            with context.stream(0) as stream:
                for _ in range(rounds):
                    index = int(random.integers(len(buffers)))
                    with locks[index], pool.acquire(stream, weir.write(buffers[index]), timeout=60) as lease:
                        array = lease[0].numpy(np.uint32)
                        assert (array[0], array[-1]) == (expected[index], expected[index])
                        array += 1
                        expected[index] += 1
                        del array

        with concurrent.futures.ThreadPoolExecutor(threads) as executor:
            for done in [executor.submit(work, seed) for seed in range(threads)]:
                done.result(120)
        assert sum(expected) == rounds * threads


def test_threads_that_only_acquire_share_a_prepared_set(pool: weir.Pool, stream: weir.Stream) -> None:
    prepared = pool.prepare(stream, weir.read(pool.buffer_from(b"x")))

    def work() -> None:
        for _ in range(2000):
            with prepared.acquire():
                pass

    with concurrent.futures.ThreadPoolExecutor(4) as executor:
        for done in [executor.submit(work) for _ in range(4)]:
            done.result(120)
    assert pool.stats.hits + pool.stats.misses >= 8000
    assert len(prepared._idle) <= 4


def test_waiting_without_a_deadline(pool: weir.Pool, context: weir.Context, stream: weir.Stream) -> None:
    first, second = pool.buffer(3 * PAGE), pool.buffer(3 * PAGE)
    lease = pool.acquire(stream, weir.overwrite(first))
    got: list[Any] = []

    def wait() -> None:
        with pool.acquire(stream, weir.overwrite(second), timeout=math.inf, sole_holder=True):
            got.append(1)

    thread = threading.Thread(target=wait)
    thread.start()
    lease.release()
    thread.join(60)
    assert got == [1]

# SPDX-License-Identifier: Apache-2.0
"""Contexts, pools, clients, buffers and what they tell; closing in every order, with and without close()."""

from __future__ import annotations

import dataclasses
import gc
import math
import mmap
import os
import pathlib
import threading
import weakref
from typing import Any

import pytest

import weir
from tests_support import PAGE
from weir._capi import ffi


def fill(pool: weir.Pool, stream: weir.Stream, buffer: weir.Buffer, value: int) -> None:
    with pool.acquire(stream, weir.overwrite(buffer)) as lease:
        lease[0].numpy()[:] = value


def test_the_variable_is_the_default_device(context: weir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_DEVICE", "host:1")
    assert context.device().index == 1
    assert context.device("host:0").index == 0
    monkeypatch.delenv("WEIR_DEVICE")
    with pytest.raises(weir.InvalidArgument, match='"gpu"'):
        context.device()


def test_devices_links_and_topology(context: weir.Context) -> None:
    assert context.device_count == len(context.devices) == 2
    assert context.devices[1].index == 1
    assert weir.Capability.VMM in context.device(0).capabilities
    assert context.device("host:1").index == 1
    assert context.device("gpu,host:1").index == 1
    assert context.device(1).name == context.device("host:1").name
    second = context.device("host:1")
    with context.stream(second) as stream, context.pool({second: "2M"}, host_budget="16M") as pool:
        assert stream.device == 1
        assert pool.device_stats(1).budget == 2 << 20
    with pytest.raises(TypeError, match=r"context.device\('gpu'\) finds one"):
        context.stream("gpu")  # type: ignore[arg-type]
    with pytest.raises(weir.InvalidArgument, match="host:0, host:1"):
        context.device("gpu")
    with pytest.raises(weir.InvalidArgument, match="4242"):
        context.device(4242)
    assert [backend.name for backend in context.backends] == ["host"]
    assert context.backends[0].available is True
    assert context.link(0, 0).kind == weir.LinkKind.SAME
    assert context.link(0, weir.HOST).direct is True
    assert context.topology_document()["places"]
    assert "<svg" in context.topology("svg")
    assert context.topology("text")
    with pytest.raises(ValueError, match="'png'"):
        context.topology("png")
    with pytest.raises(weir.InvalidArgument, match="7"):
        context.device(7)


def test_calibration() -> None:
    with weir.Context({"host.devices": 2, "host.memory": "64M", "topology.cache": 0}, search=False) as context:
        report = context.calibrate(max_time=0.05, max_bytes=1 << 20, cache=False)
        assert report.measured + report.skipped > 0
        assert report.failed == 0
        if report.measured:
            assert context.link(0, weir.HOST).source == weir.LinkFigure.MEASURED


def test_options_that_are_wrong_are_named() -> None:
    with pytest.raises(weir.InvalidArgument, match="colour"):
        weir.Context("host.colour=red")


def test_the_log_reaches_python(tmp_path: pathlib.Path) -> None:
    lines: list[tuple[weir.LogLevel, str]] = []
    with weir.Context(
        {"host.memory": "64M"}, search=False, log=lambda level, text: lines.append((level, text))
    ) as context, context.pool(128 << 20) as pool, context.stream(0) as stream:
        buffer = pool.buffer(96 << 20)  # more than the device has: its refusal lowers the budget
        with pytest.raises(weir.DeviceOutOfMemory):
            pool.acquire(stream, weir.overwrite(buffer))
    assert all(isinstance(level, weir.LogLevel) and text for level, text in lines)
    assert lines


def test_contents_survive_demotion(pool: weir.Pool, stream: weir.Stream) -> None:
    buffers = [pool.buffer(PAGE, tag=i) for i in range(12)]
    for i, buffer in enumerate(buffers):
        fill(pool, stream, buffer, i + 1)
    assert pool.stats.demoted_bytes >= 8 * PAGE
    for i, buffer in enumerate(buffers):
        with pool.acquire(stream, weir.read(buffer)) as lease:
            assert set(lease[0].tobytes()) == {i + 1}
    assert {piece.tag for piece in pool.map() if piece.buffer is not None} == set(range(12))
    assert {each["tag"] for each in pool.snapshot()["buffers"]} == set(range(12))
    assert dataclasses.asdict(pool.stats)["buffers"] == 12


def test_lower_tiers_and_the_codec(context: weir.Context, stream: weir.Stream, tmp_path: pathlib.Path) -> None:
    with context.pool(
        2 * PAGE,
        host_budget=4 * PAGE,
        compressed_budget=2 * PAGE,
        storage_budget=16 * PAGE,
        storage_paths=[tmp_path],
        codec="lz4",
        name="tiers",
        idle_grace=math.inf,
        recompress_idle=math.inf,
    ) as pool:
        buffers = [pool.buffer(PAGE, element=weir.Element.F32) for _ in range(12)]
        for i, buffer in enumerate(buffers):
            fill(pool, stream, buffer, i + 1)
        for i, buffer in enumerate(buffers):
            assert buffer.read(PAGE - 1) == bytes([i + 1])
        stats = pool.codec_stats
        assert sum(share.raw_bytes for share in stats.methods.values()) > 0
        assert set(stats.elements) == set(weir.Element)
        assert "tiers" in str(pool.snapshot())


def test_buffers_read_and_write(pool: weir.Pool) -> None:
    buffer = pool.buffer(PAGE)
    assert len(buffer) == buffer.size == PAGE
    assert buffer.read(0, 4) == bytes(4)
    buffer.write(b"weir", 100)
    assert buffer.read(98, 8) == b"\0\0weir\0\0"
    target = bytearray(4)
    buffer.read_into(target, 100)
    assert target == b"weir"
    with pytest.raises(BufferError):
        buffer.read_into(b"read-only")
    with pytest.raises(weir.InvalidArgument):
        buffer.read(PAGE, 1)
    assert buffer.query(0, 1).host_bytes + buffer.query(0, 1).device_bytes > 0
    buffer.advise(weir.Advice.COLD)
    buffer.set_priority(weir.Priority.HIGH)
    assert buffer.query().priority == weir.Priority.HIGH
    buffer.discard()
    assert buffer.query().unwritten_bytes == PAGE
    copy = pool.buffer_from(b"abc", tag=7)
    assert (copy.read(), copy.query().tag) == (bytearray(b"abc"), 7)


def test_buffers_have_names(pool: weir.Pool, context: weir.Context) -> None:
    buffer = pool.buffer(PAGE, name="größe")
    assert buffer.name == "größe"
    assert [each["name"] for each in pool.snapshot()["buffers"]] == ["größe"]
    buffer.name = "weights"
    assert buffer.name == "weights"
    with pytest.raises(ValueError, match="zero bytes"):
        buffer.name = "wei\0ghts"
    with pytest.raises(ValueError, match="zero bytes"):
        pool.buffer(PAGE, name="\0")
    assert buffer.name == "weights"
    buffer.name = "n" * 254 + "ö" + "n" * 500  # 255 bytes are kept, and no half of a character
    assert buffer.name == "n" * 254
    buffer.name = os.fsdecode(b"a\xffb")  # as it is to C
    assert buffer.name == "a\N{REPLACEMENT CHARACTER}b"
    buffer.name = ""
    assert buffer.name == ""
    assert (pool.buffer(PAGE).name, pool.buffer_from(b"abc", name="copy").name) == ("", "copy")
    assert pool.place([weir.BufferOptions(PAGE, name="placed")]) == [0]
    other = weir.Buffer.from_handle(pool, buffer.handle)
    other.name = "there"
    assert buffer.name == "there"
    other.close()
    buffer.close()
    with pytest.raises(weir.Closed):
        _ = buffer.name
    with pytest.raises(weir.Closed):
        buffer.name = "gone"


def test_options_of_buffers(pool: weir.Pool, context: weir.Context) -> None:
    buffer = pool.buffer(weir.BufferOptions(PAGE, stable_address=True, scrub=True, users=[0, 0, weir.HOST]))
    assert buffer.query().home == 0
    pool.buffer(PAGE, element=weir.Element.F32, lossy="bf16")
    with pytest.raises(ValueError, match="'f8'"):
        pool.buffer(PAGE, lossy="f8")
    with context.pool({0: 4 * PAGE, 1: 4 * PAGE}) as two:
        options = [weir.BufferOptions(PAGE, home=weir.ANY, users=[device]) for device in (1, 0)]
        assert two.place(options) == [1, 0]


def test_clients_are_charged(pool: weir.Pool, stream: weir.Stream) -> None:
    client = pool.client("tenant", device_quota=2 * PAGE)
    buffer = pool.buffer(PAGE, client=client)
    fill(pool, stream, buffer, 1)
    assert (client.stats.buffers, client.stats.device_bytes, client.name) == (1, PAGE, "tenant")
    with pytest.raises(weir.OverBudget):
        pool.acquire(stream, weir.overwrite(pool.buffer(3 * PAGE, client=client)))
    with pytest.raises(weir.Busy):
        client.close()
    buffer.close()
    gc.collect()
    client.close()


def test_a_quota_of_nothing(pool: weir.Pool, stream: weir.Stream) -> None:
    with pool.client("nothing", device_quota=weir.NONE) as client:
        with pool.buffer(PAGE, client=client) as buffer:
            with pytest.raises(weir.OverBudget, match="nothing") as caught:
                pool.acquire(stream, weir.overwrite(buffer))
            assert caught.value.short_by > 0
            assert client.stats.device_bytes == 0
        gc.collect()
    with pool.client("all of it", device_quota=0) as client, pool.buffer(4 * PAGE, client=client) as buffer:
        fill(pool, stream, buffer, 1)
        assert client.stats.device_bytes == 4 * PAGE


def test_registered_memory(pool: weir.Pool, stream: weir.Stream) -> None:
    memory = mmap.mmap(-1, PAGE)
    memory[:4] = b"weir"
    buffer = pool.buffer(PAGE)
    with pytest.raises(ValueError, match="4096"):
        buffer.register_host(mmap.mmap(-1, 4096))
    buffer.register_host(memory, load=True)
    with pytest.raises(BufferError):
        memory.close()  # the buffer has it
    with pool.acquire(stream, weir.write(buffer)) as lease:
        array = lease[0].numpy()
        assert bytes(array[:4]) == b"weir"
        array[0] = ord("W")
        del array
    buffer.unregister_host()
    assert memory[:4] == b"Weir"
    memory.close()


def test_memory_goes_back(pool: weir.Pool, stream: weir.Stream) -> None:
    for _ in range(3):
        with pool.buffer(PAGE) as buffer:
            fill(pool, stream, buffer, 1)
    stream.synchronize()
    assert pool.device_stats().peak_bytes >= PAGE
    pool.trim(level=weir.Trim.EMERGENCY)
    pool.reset_peak()
    assert pool.device_stats(0).bytes == pool.device_stats().peak_bytes
    assert pool.trim(device=weir.HOST, level=weir.Trim.EMERGENCY) >= 0


def test_defragmentation(pool: weir.Pool, stream: weir.Stream) -> None:
    buffers = [pool.buffer(64 << 10) for _ in range(64)]
    for buffer in buffers:
        fill(pool, stream, buffer, 1)
    for buffer in buffers[::2]:
        buffer.close()
    asked: list[int] = []

    def ask() -> bool:
        asked.append(1)
        return False

    report = pool.defragment(wait=True, should_stop=ask)
    assert report.finished
    assert report.fragmentation_after_permille <= report.fragmentation_before_permille
    assert report.elapsed_ns > 0

    def refuse() -> bool:
        raise KeyError("stop")

    for buffer in buffers[1::4]:
        buffer.close()
    if asked:
        with pytest.raises(KeyError, match="stop"):
            pool.defragment(wait=True, should_stop=refuse)
    pool.set_defragmentation(500, bytes_per_second=1 << 20, max_cost_permille=400)
    pool.set_defragmentation(0)


def test_devices_come_and_go(context: weir.Context, stream: weir.Stream) -> None:
    with context.pool(4 * PAGE, host_budget=32 * PAGE) as pool:
        generation = pool.stats.generation
        pool.add_device(1, 4 * PAGE)
        assert pool.device_stats(1).state == weir.DeviceState.PRESENT
        buffers = [pool.buffer(PAGE) for _ in range(6)]
        for buffer in buffers:
            fill(pool, stream, buffer, 3)
        assert pool.rebalance(4 * PAGE) >= 0
        pool.remove_device(1, timeout=30)
        assert pool.stats.generation > generation
        assert all(buffer.read(0, 1) == b"\3" for buffer in buffers)
        with pytest.raises(weir.InvalidArgument):
            pool.cancel_remove(1)
        assert pool.lost_ranges() == []
        pool.set_loss_callback(print)
        pool.set_loss_callback(None)


def test_malloc(pool: weir.Pool, stream: weir.Stream) -> None:
    memory = pool.malloc(PAGE, stream=stream)
    assert memory.address > 0
    assert pool.stats.device_held_bytes == PAGE
    with pytest.raises(weir.Busy):
        pool.close()
    memory.free(stream)
    memory.free()
    with pytest.raises(ValueError, match="freed"):
        _ = memory.address
    with pool.malloc(PAGE, device=0) as other:
        assert other.size == PAGE


def test_holds_nest(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)
    fill(pool, stream, buffer, 5)
    with buffer.hold() as hold, buffer.hold(0) as again:
        assert hold.address == again.address == buffer.query().address
        assert buffer.query().held == 2
        with pytest.raises(weir.Busy):
            buffer.close()
    assert buffer.query().held == 0
    with pytest.raises(ValueError, match="released"):
        _ = hold.address


def test_holds_in_modes(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)
    fill(pool, stream, buffer, 5)
    shared, alone = weir.HoldMode.SHARED, weir.HoldMode.ALONE
    for mode in weir.HoldMode:
        with buffer.hold(0, mode):
            assert buffer.query().held == 1
            if mode is shared:
                pool.acquire(stream, weir.write(buffer)).release()
            else:
                with pytest.raises(weir.LeaseConflict):
                    pool.acquire(stream, weir.write(buffer))
            if mode is alone:
                with pytest.raises(weir.LeaseConflict):
                    pool.acquire(stream, weir.read(buffer))
            else:
                pool.acquire(stream, weir.read(buffer)).release()
            for other in weir.HoldMode:
                if other is mode and mode is not alone:
                    buffer.hold(0, other).release()
                else:
                    with pytest.raises(weir.LeaseConflict):
                        buffer.hold(0, other)
    with pytest.raises(ValueError, match="HoldMode"):
        buffer.hold(0, 3)  # type: ignore[arg-type]


# ---- other languages' handles ----


def test_handles_cross(pool: weir.Pool, context: weir.Context, stream: weir.Stream) -> None:
    buffer = pool.buffer_from(b"shared")
    again = weir.Context.from_handle(context.handle)
    other = weir.Pool.from_handle(again, pool.handle)
    there = weir.Buffer.from_handle(other, buffer.handle)
    queue = weir.Stream.from_handle(again, stream.handle, 0)
    with other.acquire(queue, weir.read(there)) as lease:
        assert lease[0].tobytes() == b"shared"
        assert lease.handle != 0
    assert there.size == 6
    for each in (queue, there, other, again):
        each.close()  # borrowed: nothing ends
    assert buffer.read() == b"shared"


# ---- the arena and the codec alone ----


def test_the_arena() -> None:
    with weir.Arena(1024, quantum=16) as arena:
        first = arena.allocate(100)
        second = arena.allocate(64, alignment=64)
        assert arena.info(first).size == 112
        assert second.offset % 64 == 0
        assert arena.stats.allocations == 2
        ranges = arena.ranges()
        assert [each for each in ranges if each.allocation != 0] == [arena.info(first), arena.info(second)]
        assert sum(each.size for each in ranges) == 1024
        seen: list[weir.ArenaRange] = []

        def visit(found: weir.ArenaRange) -> bool:
            seen.append(found)
            with pytest.raises(weir.Busy):
                arena.free(first)
            assert arena.stats.allocations == 2
            return False

        arena.walk(visit)
        assert len(seen) == 1
        with pytest.raises(ZeroDivisionError):
            arena.walk(lambda found: 1 / 0)
        arena.free(first)
        arena.free(second.allocation)
        arena.resize(2048)
        arena.validate()
        report = arena.report()
        assert (report.size, report.free, report.live_ranges, len(report.classes)) == (2048, 2048, 0, 64)
        with pytest.raises(weir.OverBudget):
            arena.allocate(4096)
    with pytest.raises(weir.Closed):
        arena.allocate(1)


@pytest.mark.parametrize("data", [b"", b"x", bytes(1 << 20), bytes(range(256)) * 5000])
def test_the_codec(data: bytes) -> None:
    for level in weir.Compress:
        blob = weir.compress(data, level=level, element=weir.Element.F32)
        assert weir.decompress(blob) == data
        assert len(blob) <= weir.compress_bound(len(data))
        info = weir.compressed_info(blob)
        assert (info.raw_bytes, info.checksums) == (len(data), bool(info.checksums))
    assert weir.decompress(weir.compress(data, codec="lz4", checksum=False)) == data
    with pytest.raises(weir.InvalidArgument, match="quux"):
        weir.compress(data, codec="quux")


# ---- closing ----


def test_closing_the_pool_ends_its_buffers(context: weir.Context) -> None:
    pool = context.pool(4 * PAGE)
    buffer, client = pool.buffer(PAGE), pool.client("c")
    pool.close()
    assert buffer.closed
    assert client.closed
    for each in (buffer, client, pool):
        each.close()
    with pytest.raises(weir.Closed, match="pool"):
        buffer.read()


def test_children_keep_parents_alive() -> None:
    context: weir.Context | None = weir.Context("host.memory=64M", search=False)
    assert context is not None
    pool: weir.Pool | None = context.pool(4 * PAGE)
    assert pool is not None
    buffer = pool.buffer_from(b"alive")
    alive = weakref.ref(context)
    parents = [pool, context]
    del pool, context
    assert buffer.read() == b"alive"
    assert alive() is not None
    buffer.close()
    for parent in parents:
        parent.close()


def test_leaks_are_told() -> None:
    context = weir.Context("host.memory=64M", search=False)
    stream = context.stream(0)
    pool = context.pool(4 * PAGE)
    buffer = pool.buffer(PAGE)
    with pytest.warns(ResourceWarning, match="lease dropped"):
        pool.acquire(stream, weir.overwrite(buffer))
        gc.collect()
    with pytest.warns(ResourceWarning, match="hold dropped"):
        buffer.hold()
    with pytest.warns(ResourceWarning, match="allocation dropped"):
        pool.malloc(PAGE)
    assert pool.stats.device_held_bytes == 0
    assert buffer.query().leases == 0
    with pytest.warns(ResourceWarning, match="unclosed <weir.Stream"):
        del stream
    with pytest.warns(ResourceWarning, match="unclosed <weir.Pool"):
        del pool, buffer
    with pytest.warns(ResourceWarning, match="unclosed <weir.Context"):
        del context


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_cyclic_garbage_is_closed_in_any_order() -> None:
    class Knot:
        pass

    kept: list[weakref.ref[Any]] = []
    for turn in range(6):
        context = weir.Context("host.memory=64M", search=False)
        stream, pool = context.stream(0), context.pool(4 * PAGE)
        buffer = pool.buffer(PAGE)
        lease, hold, memory = pool.acquire(stream, weir.read(buffer)), buffer.hold(), pool.malloc(PAGE)
        things: list[Any] = [context, stream, pool, buffer, lease, hold, memory]
        knots = [Knot() for _ in things]
        for i, knot in enumerate(knots):
            knot.thing = things[(i + turn) % len(things)]  # type: ignore[attr-defined]
            knot.next = knots[i - 1]  # type: ignore[attr-defined]
        pool.set_loss_callback(lambda loss, pool=pool: None)  # type: ignore[misc]
        kept += [weakref.ref(context), weakref.ref(pool)]
        del context, stream, pool, buffer, lease, hold, memory, things, knots, knot
        gc.collect()
    gc.collect()
    from weir import _core

    assert not _core._abandoned
    assert [each() for each in kept] == [None] * len(kept)


def test_closing_while_another_thread_is_inside(pool: weir.Pool, stream: weir.Stream) -> None:
    first, second = pool.buffer(3 * PAGE), pool.buffer(3 * PAGE)
    lease = pool.acquire(stream, weir.overwrite(first))
    waiting = threading.Event()
    granted: list[weir.Lease] = []

    def wait() -> None:
        waiting.set()
        # Without a name: to be given its number it would be inside for a moment before.
        granted.append(pool.acquire(stream, weir.overwrite(second), timeout=60, operation=0))

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    while pool.stats.would_block == 0 and pool._gate.inside == 0:
        pass
    for each in (second, stream, pool):
        with pytest.raises(weir.Busy):
            each.close()
    lease.release()
    thread.join()
    granted[0].release()


def test_natives_reach_the_backend_that_they_are_for(context: weir.Context) -> None:
    handles = ffi.new("uint32_t[4]", [16, 1, 0, 0])
    with pytest.raises(weir.NotSupported, match="backend host"):
        weir.Context({"host.memory": "64M"}, search=False, natives={"host": handles})
    with pytest.raises(weir.InvalidArgument, match=r'natives\[1\] is for backend "nobody"|natives\[1\].handles'):
        weir.Context({"host.memory": "64M"}, search=False, natives={"host": handles, "nobody": 0})
    with pytest.raises(weir.NotSupported):
        context.native_memory(0, 4096, 1, handles)
    with pytest.raises(weir.InvalidArgument, match="device is 9"):
        context.native_memory(9, 4096, 1, int(ffi.cast("uintptr_t", handles)))

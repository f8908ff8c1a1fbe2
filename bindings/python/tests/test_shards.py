# SPDX-License-Identifier: Apache-2.0
"""Sharded buffers: layouts as they are asked for, the same bytes at the same address from every device, and devices that leave."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import pytest
from conftest import lend

import weir

SMALL = 16 << 10  # a page here: layouts of many pages take little memory
NEAR = "0-1:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G"
OPTIONS = {"host.devices": 2, "host.memory": "16M", "host.granule": "16K", "host.granule_large": 0}


def two_devices(**options: str) -> weir.Context:
    return weir.Context({**OPTIONS, **options}, search=False)


def pool_of_two(context: weir.Context, pages: int) -> weir.Pool:
    return context.pool(
        {0: pages * SMALL, 1: pages * SMALL}, host_budget=64 * SMALL, page_size=SMALL, large_page_size=SMALL, background=False
    )


@pytest.fixture
def near() -> Iterator[weir.Context]:
    yield from lend(two_devices(**{"host.links": NEAR}))


@pytest.fixture
def both(near: weir.Context) -> Iterator[weir.Pool]:
    yield from lend(pool_of_two(near, 8))


def layout(buffer: weir.Buffer) -> str:
    """The device of each page, as digits."""
    at, digits = 0, ""
    for offset, length, device in buffer.shards():
        assert offset == at
        at += length
        digits += str(device) * -(-length // SMALL)
    assert at == buffer.size
    return digits


@pytest.mark.parametrize(
    ("shards", "pages"),
    [
        (weir.Shards([0, 1]), "01010101"),
        (weir.Shards([1, 0], stripe=2 * SMALL), "11001100"),
        (weir.Shards(devices=(0, 1), policy="striped", weights=[3, 1]), "00100010"),
        (weir.Shards(range(2), "blocked"), "00001111"),
        (weir.Shards([1, 0], "blocked", weights=(3, 1)), "11111100"),
        (weir.Shards([1]), "11111111"),
    ],
)
def test_layouts(both: weir.Pool, shards: weir.Shards, pages: str) -> None:
    assert layout(both.buffer(8 * SMALL - 100, shards=shards)) == pages


def test_a_layout_of_many_runs(near: weir.Context, both: weir.Pool) -> None:
    assert weir.Capability.SHARED_RANGE in near.device(0).capabilities
    buffer = both.buffer(weir.BufferOptions(701 * SMALL, shards=weir.Shards([0, 1])))
    runs = buffer.shards()
    assert runs == [weir.Shard(i * SMALL, SMALL, i % 2) for i in range(701)]
    assert buffer.shards(699 * SMALL + 5) == runs[699:]
    assert buffer.shards(buffer.size - 1) == runs[-1:]
    assert both.buffer(3 * SMALL, home=1).shards(SMALL) == [weir.Shard(offset=0, length=3 * SMALL, device=1)]
    with pytest.raises(weir.InvalidArgument):
        buffer.shards(buffer.size + 1)
    buffer.close()
    with pytest.raises(weir.Closed):
        buffer.shards()


def test_one_address_and_the_same_bytes_on_both(near: weir.Context, both: weir.Pool) -> None:
    buffer = both.buffer(12 * SMALL, shards=weir.Shards([0, 1]))  # more than one of them holds
    data = bytes(range(256)) * (12 * SMALL // 256)
    with near.stream(0) as first, near.stream(1) as second:
        with both.acquire(first, weir.overwrite(buffer)) as lease:
            lease[0].numpy()[:] = memoryview(data)
            address = lease.address(0)
        assert (buffer.query().device_bytes, buffer.query().host_bytes) == (12 * SMALL, 0)
        with both.acquire(second, weir.read(buffer)) as lease:
            assert lease[0].tobytes() == data
            assert lease.address(0) == address
        with both.acquire(second, weir.write(buffer, 5 * SMALL, 2 * SMALL)) as lease:
            assert lease.address(0) == address + 5 * SMALL
            lease[0].numpy()[:] = 9
    assert buffer.read() == data[: 5 * SMALL] + bytes([9]) * (2 * SMALL) + data[7 * SMALL :]
    assert [both.device_stats(i).bytes - both.device_stats(i).free_bytes for i in (0, 1)] == [6 * SMALL] * 2


def test_a_full_device_is_named(near: weir.Context, both: weir.Pool) -> None:
    buffer = both.buffer(12 * SMALL, shards=weir.Shards([0, 1], "blocked", weights=[1, 3]))
    with near.stream(0) as stream, pytest.raises(weir.OverBudget) as caught:
        both.acquire(stream, weir.overwrite(buffer))
    assert caught.value.device == 1


def test_the_layout_when_a_device_leaves(near: weir.Context, both: weir.Pool) -> None:
    buffer = both.buffer(6 * SMALL, shards=weir.Shards([0, 1]))
    buffer.write(b"stays" * 1000)
    both.remove_device(1, timeout=30)
    assert buffer.shards() == [weir.Shard(0, 6 * SMALL, 0)]
    assert buffer.read(0, 5000) == b"stays" * 1000


@pytest.mark.parametrize(
    ("devices", "others", "what"),
    [
        ([], {}, "device_count"),
        ([0, 0], {}, "0"),
        ([0, 7], {}, "7"),
        ([0, 1], {"weights": [1, 0]}, "0"),
        ([0, 1], {"weights": [1, 65536]}, "65536"),
        ([0, 1], {"stripe": SMALL + 1}, str(SMALL + 1)),
        ([0, 1], {"policy": "blocked", "stripe": SMALL}, str(SMALL)),
    ],
)
def test_what_is_refused(both: weir.Pool, devices: Sequence[int], others: dict[str, object], what: str) -> None:
    shards = dataclasses.replace(weir.Shards(devices), **others)  # type: ignore[arg-type]
    with pytest.raises(weir.InvalidArgument, match=what):
        both.buffer(8 * SMALL, shards=shards)
    assert both.stats.buffers == 0


def test_what_python_refuses(both: weir.Pool) -> None:
    with pytest.raises(ValueError, match="'striping'"):
        both.buffer(SMALL, shards=weir.Shards([0, 1], "striping"))
    for weights in ([1], [1, 2, 3]):
        with pytest.raises(ValueError, match=f"{len(weights)} weights for 2 devices"):
            both.buffer(SMALL, shards=weir.Shards([0, 1], weights=weights))
    with pytest.raises(OverflowError):
        both.buffer(SMALL, shards=weir.Shards([0, 1], weights=[1, -1]))


@pytest.mark.parametrize(
    "lacks",
    [{"host.links": "0-1:none:0,h-0:pcie:16G,h-1:pcie:16G"}, {"host.links": NEAR, "host.shared_range": "0"}],
)
def test_devices_that_cannot_share(lacks: dict[str, str]) -> None:
    with two_devices(**lacks) as context, pool_of_two(context, 8) as pool:
        with pytest.raises(weir.NotSupported, match="device 0"):
            pool.buffer(8 * SMALL, shards=weir.Shards([0, 1]))
        assert layout(pool.buffer(2 * SMALL, shards=weir.Shards([1]))) == "11"

# SPDX-License-Identifier: Apache-2.0
"""Sizes as texts: what is read, what is refused with which words, and what a share is of."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weir
from tests_support import PAGE
from weir._sizes import MACHINE, Whole, bytes_text, machine_memory, size_in_bytes

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0), ("4096", 4096), ("4096B", 4096), ("1K", 1 << 10), ("1k", 1 << 10), ("512KiB", 512 << 10), ("64M", 64 << 20),
        ("64 MiB", 64 << 20), (" 16G ", 16 * GIB), ("16GiB", 16 * GIB), ("16gib", 16 * GIB), ("1.5G", GIB + GIB // 2),
        ("2T", 2 << 40), ("0.3K", 307), ("16777215T", 16777215 << 40),
    ],
)  # fmt: skip
def test_units_are_powers_of_1024(text: str, count: int) -> None:
    assert size_in_bytes(text, "size") == count


@pytest.mark.parametrize(
    "text", ["", "lots", "G", "1e9", "16 gigs", "1.5", "1.5B", "1,5G", "0x10", "1_000", "1iB", "1P", "²K", "%", "1 2", "inf", "nan"]
)
def test_what_is_no_size_is_named_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        size_in_bytes(text, "host_budget")
    words = str(caught.value)
    assert words.startswith(f"host_budget={text!r} is no ")
    assert '"512K", "64MiB", "1.5G" or "2T"' in words
    assert "powers of 1024" in words
    assert "80%" not in words  # a share would not do here either


def test_units_of_1000_are_not_guessed() -> None:
    with pytest.raises(ValueError, match="size='16GB' could be powers of 1000 or of 1024; write \"16G\" or \"16GiB\""):
        size_in_bytes("16GB", "size")


@pytest.mark.parametrize(
    ("value", "words"),
    [(-1, "size=-1 is negative"), ("-1G", "size='-1G' is negative"), (2**64, "more than 2"), ("16777216T", "more than 2")],
)
def test_what_is_out_of_range(value: int | str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        size_in_bytes(value, "size")


def test_whole_numbers_of_any_kind_are_bytes() -> None:
    assert size_in_bytes(np.int64(4096), "size") == 4096
    assert size_in_bytes(weir.UNLIMITED, "size") == weir.UNLIMITED
    assert size_in_bytes(weir.NONE, "size") == weir.NONE


def test_a_float_is_not_rounded_in_silence() -> None:
    with pytest.raises(TypeError, match=r"size=1000000\.0 is a float; .*; did you mean 1000000\?"):
        size_in_bytes(1e6, "size")
    with pytest.raises(TypeError, match=r"size=1\.5 is a float; a size is whole bytes .* powers of 1024$"):
        size_in_bytes(1.5, "size")
    with pytest.raises(TypeError, match=r"devices=0\.8 is a float; .*; did you mean '80%' of all of it\?"):
        size_in_bytes(0.8, "devices", Whole("all of it", lambda: 100))
    for value in (True, None, [4096], b"4096", np.float32(4)):
        with pytest.raises(TypeError, match=r"size.* is (a|of type) .*; a size is whole bytes"):
            size_in_bytes(value, "size")


def test_a_share_is_of_what_is_meant() -> None:
    whole = Whole("the device's memory", lambda: 1000)
    assert [size_in_bytes(text, "devices", whole) for text in ("80%", "12.5 %", "100%", "0.1%")] == [800, 125, 1000, 1]
    for text in ("0%", "101%", "100.1%"):
        with pytest.raises(ValueError, match=f"devices='{text}' is not above \"0%\" and up to \"100%\" of the device's memory"):
            size_in_bytes(text, "devices", whole)
    with pytest.raises(ValueError, match="size='80%': there is nothing that this could be a share of"):
        size_in_bytes("80%", "size")
    with pytest.raises(ValueError, match="it is not known how large the device's memory is"):
        size_in_bytes("80%", "devices", Whole("the device's memory", lambda: 0))
    with pytest.raises(ValueError, match='or a share such as "80%" of the device\'s memory'):
        size_in_bytes("much", "devices", whole)


# ---- everywhere ----


def test_a_pool_of_texts(context: weir.Context) -> None:
    with context.pool("32M") as pool:
        assert pool.stats.device_budget == 32 << 20
    with context.pool({0: "8M", 1: "25%"}, host_budget="48M", compressed_budget="8MiB", page_size="2M", name="texts") as pool:
        assert pool.device_stats(0).budget == 8 << 20
        assert pool.device_stats(1).budget == 16 << 20  # of 64 MiB
        assert pool.stats.host_budget == 48 << 20
        assert pool.stats.compressed_budget == 8 << 20
        pool.remove_device(1)
        pool.add_device(1, "50%")
        assert pool.device_stats(1).budget == 32 << 20


def test_storage_of_texts(context: weir.Context, tmp_path: pathlib.Path) -> None:
    # One folder is no list of letters.
    with context.pool("8M", host_budget="16M", storage_budget="16M", storage_paths=str(tmp_path)) as pool:
        assert pool.stats.storage_budget == 16 << 20
    with pytest.raises(ValueError, match="storage_budget='50%': there is nothing that this could be a share of"):
        context.pool("8M", storage_budget="50%", storage_paths=tmp_path)


def test_a_share_of_the_machine(context: weir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": (64 << 20) // 4096}.__getitem__)
    with context.pool("8M", host_budget="50%", compressed_budget="25%") as pool:
        assert pool.stats.host_budget == 32 << 20
        assert pool.stats.compressed_budget == 16 << 20


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/a/b\n", {"sys/fs/cgroup/a/memory.max": "3000\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 3000),
        ("0::/a/b\n", {"sys/fs/cgroup/a/memory.max": "3000\n", "sys/fs/cgroup/a/b/memory.high": "2000\n"}, 2000),
        ("0::/\n", {"sys/fs/cgroup/memory.max": "1000\n"}, 1000),
        ("0::/../x\n", {"sys/fs/cgroup/memory.max": "max\n"}, None),
        ("4:cpu,memory:/a\n", {"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "5000\n"}, 5000),
        ("4:cpu:/a\n", {"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "5000\n"}, None),
        (None, {}, None),
    ],
)
def test_the_machine_is_as_large_as_the_cgroup(
    tmp_path: pathlib.Path, cgroup: str | None, files: dict[str, str], expected: int | None
) -> None:
    if cgroup is not None:
        files = {**files, "proc/self/cgroup": cgroup}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    whole = machine_memory(str(tmp_path / "nowhere"))
    assert machine_memory(str(tmp_path)) == (whole if expected is None else expected)
    assert MACHINE.bytes() <= whole


def test_buffers_ranges_and_memory_of_texts(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer("2M")
    assert (buffer.size, len(buffer)) == (PAGE, PAGE)
    with pool.acquire(stream, weir.overwrite(buffer)) as lease:
        lease[0].numpy()[:] = 7
    with pool.acquire(stream, weir.read(buffer, "1M", "4K")) as lease:
        assert lease[0].nbytes == 4096
        assert lease.uses[0][2:4] == (1 << 20, 4096)
    assert buffer.read("1M", "1K") == bytes([7]) * 1024
    buffer.write(b"text", "1M")
    assert buffer.query("1M", "4K").size == PAGE
    with pool.malloc("1M") as memory:
        assert memory.size == 1 << 20
    with pool.malloc("3.125%") as memory:
        assert memory.size == 2 << 20  # of 64 MiB
    client = pool.client("one", device_quota="3.125%", host_quota="8M")
    large = pool.buffer("4M", client=client)
    with pytest.raises(weir.OverBudget) as caught:
        pool.acquire(stream, weir.overwrite(large))
    assert (caught.value.asked, caught.value.available) == (2 * PAGE, PAGE)
    assert pool.trim("64M") >= 0
    with pytest.raises(ValueError, match="size='50%': there is nothing"):
        pool.buffer("50%")


def test_a_device_is_named_by_its_number(context: Any) -> None:
    with pytest.raises(ValueError, match="the budget of device 0"):
        context.pool({context.device("host"): "32MB"})


SIZED: list[tuple[str, Callable[[Any, Any, Any], object]]] = [
    ("devices", lambda context, pool, size: context.pool(size)),
    ("the budget of device 1", lambda context, pool, size: context.pool({0: "8M", 1: size})),
    *(
        (name, lambda context, pool, size, name=name: context.pool("8M", **{name: size}))
        for name in ("host_budget", "compressed_budget", "storage_budget", "page_size", "large_page_size", "segment_size",
                     "rebalance_rate", "record_budget")
    ),
    *(
        (name, lambda context, pool, size, name=name: pool.client("c", **{name: size}))
        for name in ("device_quota", "host_quota", "compressed_quota", "storage_quota")
    ),
    ("size", lambda context, pool, size: pool.buffer(size)),
    ("alignment", lambda context, pool, size: pool.buffer(4096, alignment=size)),
    ("stripe", lambda context, pool, size: pool.buffer(4096, shards=weir.Shards([0], stripe=size))),
    ("size", lambda context, pool, size: pool.malloc(size)),
    ("size", lambda context, pool, size: pool.trim(size)),
    ("size", lambda context, pool, size: pool.rebalance(size)),
    ("budget", lambda context, pool, size: pool.add_device(1, size)),
    ("max_bytes", lambda context, pool, size: pool.defragment(max_bytes=size)),
    ("bytes_per_second", lambda context, pool, size: pool.set_defragmentation(0, bytes_per_second=size)),
    ("max_bytes", lambda context, pool, size: context.calibrate(max_bytes=size)),
    ("size", lambda context, pool, size: weir.compress_bound(size)),
    ("size", lambda context, pool, size: weir.Arena(size)),
    ("quantum", lambda context, pool, size: weir.Arena(64, quantum=size)),
    ("size", lambda context, pool, size: weir.Arena(64).allocate(size)),
    ("alignment", lambda context, pool, size: weir.Arena(64).allocate(1, size)),
    ("size", lambda context, pool, size: weir.Arena(64).resize(size)),
    ("offset", lambda context, pool, size: weir.read(pool.buffer(4096), size)),
    ("length", lambda context, pool, size: weir.write(pool.buffer(4096), 0, size)),
    ("length", lambda context, pool, size: pool.buffer(4096).read(0, size)),
    ("offset", lambda context, pool, size: pool.buffer(4096).write(b"", size)),
    ("offset", lambda context, pool, size: pool.buffer(4096).read_into(bytearray(4), size)),
    ("offset", lambda context, pool, size: pool.buffer(4096).shards(size)),
    ("length", lambda context, pool, size: pool.buffer(4096).query(0, size)),
    ("length", lambda context, pool, size: pool.buffer(4096).discard(0, size)),
    ("length", lambda context, pool, size: pool.buffer(4096).advise(weir.Advice.COLD, 0, size)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "take"), SIZED)
def test_every_size_has_the_same_words(
    context: weir.Context, pool: weir.Pool, name: str, take: Callable[[Any, Any, Any], object]
) -> None:
    for value, kind, words in (("much", ValueError, "is no size"), (-1, ValueError, "is negative"), (0.1, TypeError, "is a float")):
        with pytest.raises(kind) as caught:
            take(context, pool, value)
        assert str(caught.value).startswith(f"{name}={value!r} {words}")


def test_sizes_for_people() -> None:
    counts = (0, 1023, 1024, 1536, 10 << 20, 100 << 20, 1023 << 20, 5 << 40, 1 << 60, weir.UNLIMITED, weir.NONE)
    assert [bytes_text(each) for each in counts] == [
        "0 B", "1023 B", "1.00 KiB", "1.50 KiB", "10.0 MiB", "100 MiB", "1023 MiB", "5.00 TiB", "1.00 EiB", "unlimited", "none",
    ]  # fmt: skip

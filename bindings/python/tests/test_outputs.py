# SPDX-License-Identifier: Apache-2.0
"""Answers of the C API that are cut where there is no room: they arrive whole, also while they grow."""

from __future__ import annotations

from typing import Any

import pytest

import weir
from tests_support import PAGE
from weir import context as context_module
from weir import enums, records
from weir._capi import ffi, lib
from weir._outputs import exported, listed


class Growing:
    """A call of the C API whose answer has grown by the next time it is asked."""

    def __init__(self, *lengths: int) -> None:
        self.lengths = list(lengths)
        self.capacities: list[int] = []

    def __call__(self, out: Any, capacity: int, count: Any) -> int:
        self.capacities.append(capacity)
        length = self.lengths.pop(0)
        for i in range(min(length, capacity)):
            out[i].length = i
        count[0] = length
        return int(lib.WEIR_INCOMPLETE if length > capacity else lib.WEIR_SUCCESS)


@pytest.mark.parametrize("lengths", [(0,), (4,), (5, 5), (5, 100, 1000, 3), (40, 40)])
def test_a_list_that_grows_is_one_whole_answer(lengths: tuple[int, ...]) -> None:
    call = Growing(*lengths)
    assert listed("weir_shard[]", call, lambda each: int(each.length), 4) == list(range(lengths[-1]))
    assert call.lengths == []  # as often as it was cut, and once more
    assert call.capacities[0] == 4
    assert call.capacities == sorted(set(call.capacities))


def test_a_text_that_grows_is_one_whole_answer() -> None:
    texts = [b"short", b"longer" * 5, b"and longer again, so that it has no room where the one before had some to spare" * 2]
    asked: list[int] = []

    def call(out: Any, capacity: int, needed: Any) -> int:
        text = texts[min(len(asked), 2)] + b"\0"
        asked.append(capacity)
        ffi.memmove(out, text[: capacity - 1] + b"\0" if capacity < len(text) else text, min(capacity, len(text)))
        needed[0] = len(text)
        return int(lib.WEIR_INCOMPLETE if capacity < len(text) else lib.WEIR_SUCCESS)

    assert exported(call, 4) == texts[2].decode()
    assert (asked[0], len(asked)) == (4, 4)


def test_an_error_is_raised_whatever_the_count_says() -> None:
    def call(out: Any, capacity: int, count: Any) -> int:
        count[0] = capacity + 1
        return int(lib.WEIR_ERROR_FORKED)

    with pytest.raises(weir.Forked):
        listed("weir_piece[]", call, int)
    with pytest.raises(weir.Forked):
        exported(call)


def test_the_library_says_what_it_has_cut(pool: weir.Pool, stream: weir.Stream) -> None:
    with pool.acquire(stream, weir.overwrite(pool.buffer(2 * PAGE))):
        count, pieces = ffi.new("size_t *"), ffi.new("weir_piece[]", 2)
        assert lib.weir_pool_map(pool._raw, ffi.NULL, 0, count) == lib.WEIR_SUCCESS
        assert count[0] > 1
        assert lib.weir_pool_map(pool._raw, pieces, 1, count) == lib.WEIR_INCOMPLETE
        assert (pieces[0].bytes > 0, pieces[1].bytes) == (True, 0)
        text = ffi.new("char[]", 16)
        assert lib.weir_pool_snapshot(pool._raw, text, 16, count) == lib.WEIR_INCOMPLETE
        assert len(ffi.string(text)) == 15 < count[0]
        assert lib.weir_topology_export(pool.context._raw, lib.WEIR_TOPOLOGY_JSON, text, 16, count) == lib.WEIR_INCOMPLETE


def test_a_map_and_a_snapshot_of_many_buffers(pool: weir.Pool, stream: weir.Stream) -> None:
    buffers = [pool.buffer(64 << 10, tag=1000 + i) for i in range(120)]
    for buffer in buffers:
        buffer.write(b"weir")
    pieces = [piece for piece in pool.map() if piece.buffer is not None]
    assert {piece.tag for piece in pieces} == {buffer.query().tag for buffer in buffers}
    assert all(piece.buffer.query().tag == piece.tag for piece in pieces)
    assert {piece.tier for piece in pieces} <= set(weir.Tier)
    assert len(pool.map()) > 64  # more than the first call has room for
    assert {each["tag"] for each in pool.snapshot()["buffers"]} == {piece.tag for piece in pieces}
    assert pool.lost_ranges() == []


def test_stacks_where_they_are_asked_for() -> None:
    for asked in (False, True):
        with (
            weir.Context("host.memory=64M", search=False, stacks=asked) as context,
            weir.Pool(context, {0: 4 * PAGE}) as pool,
        ):
            buffer = pool.buffer(PAGE)
            snapshot = pool.snapshot()
            assert ("stacks" in snapshot) == asked
            if asked:
                assert len(snapshot["stacks"][str(snapshot["buffers"][0]["stack"])]) > 1
            buffer.close()


# ---- what a newer library may answer ----


def test_slots_of_a_newer_library() -> None:
    stats = records.sized("weir_codec_stats")
    assert len(stats.methods) == lib.WEIR_CODEC_SLOTS == 32
    assert len(stats.elements) == lib.WEIR_ELEMENT_SLOTS == 32
    stats.methods[enums.Method.LZ4].raw_bytes = 7
    stats.methods[31].coded_bytes = 3
    found = records.shares(stats.methods, enums.Method)
    assert set(found) == {*enums.Method, 31}
    assert (found[enums.Method.LZ4], found[enums.Method.RAW], found[31]) == ((7, 0), (0, 0), (0, 3))
    assert set(records.shares(stats.elements, enums.Element)) == set(enums.Element)


def test_kinds_of_a_newer_library_stay_numbers() -> None:
    piece = ffi.new("weir_piece *", {"tier": 77, "state": lib.WEIR_PIECE_KEPT})
    found = records.record(records.Piece, piece, buffer=None)
    assert (found.tier, found.state) == (77, weir.PieceState.KEPT)
    lines: list[tuple[int, str]] = []
    user = ffi.new_handle(lambda level, text: lines.append((level, text)))
    context_module.weirpy_on_log(user, 9, ffi.new("char[]", b"words"))
    context_module.weirpy_on_log(user, lib.WEIR_LOG_INFO, ffi.new("char[]", b"more"))
    assert lines == [(9, "words"), (weir.LogLevel.INFO, "more")]

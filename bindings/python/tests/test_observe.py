# SPDX-License-Identifier: Apache-2.0
"""Traces and metrics of a context."""

from __future__ import annotations

import json
import pathlib

import pytest

import weir
from tests_support import PAGE
from weir import trace
from weir._capi import lib


def use(pool: weir.Pool, stream: weir.Stream) -> None:
    with pool.buffer(PAGE) as buffer:
        pool.acquire(stream, weir.overwrite(buffer)).release()


def test_a_trace_stops_with_its_block(
    context: weir.Context, pool: weir.Pool, stream: weir.Stream, tmp_path: pathlib.Path
) -> None:
    first = tmp_path / "first.json"
    with context.trace(first) as running:
        use(pool, stream)
        with pytest.raises(weir.Busy):
            context.trace(tmp_path / "second.json")
    running.stop()
    assert json.loads(first.read_text())
    with pytest.raises(weir.IoError):
        context.trace(first)
    with pytest.raises(RuntimeError), context.trace(tmp_path / "second.json", max_bytes="1M"):
        raise RuntimeError
    context.trace(tmp_path / "third.json").stop()


def test_a_recording_begins_before_the_first_pool(context: weir.Context, tmp_path: pathlib.Path) -> None:
    recording = context.trace(tmp_path / "calls.vmt", kind="recording")
    with weir.Pool(context, {0: 4 * PAGE}, host_budget=32 * PAGE):
        recording.stop()
        assert (tmp_path / "calls.vmt").read_text().startswith("#vmt 2")
        with pytest.raises(weir.Busy):
            context.trace(tmp_path / "late.vmt", kind="recording")


def test_a_trace_ends_with_its_context(tmp_path: pathlib.Path) -> None:
    context = weir.Context({"host.memory": "64M"}, search=False)
    running = context.trace(tmp_path / "trace.json")
    context.close()
    running.stop()
    assert isinstance(json.loads((tmp_path / "trace.json").read_text()), (list, dict))


def test_what_can_not_be_traced_is_refused(context: weir.Context, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="'film'; there are timeline, recording"):
        context.trace(tmp_path / "trace.json", kind="film")
    with pytest.raises(weir.InvalidArgument, match="1"):
        context.trace(tmp_path / "trace.json", max_bytes=1)
    with pytest.raises(weir.InvalidArgument, match="path"):
        context.trace("")


def test_kinds_are_whole() -> None:
    there = {name for name in dir(lib) if name.startswith("WEIR_TRACE_")}
    assert {f"WEIR_TRACE_{name.upper()}": value for name, value in trace._KINDS.items()} == {
        name: getattr(lib, name) for name in there
    }


def test_metrics_are_of_all_pools(context: weir.Context, pool: weir.Pool, stream: weir.Stream) -> None:
    use(pool, stream)
    with weir.Pool(context, {1: 4 * PAGE}, host_budget=8 * PAGE, name='sec"ond'):
        text = context.metrics_text()
    assert 'weir_buffers{pool="pool",pool_number="0"} 0\n' in text
    assert 'weir_buffers{pool="sec\\"ond",pool_number="0"} 0\n' in text
    assert text.endswith("\n")

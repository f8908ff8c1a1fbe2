# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments, as beginners give them: what is said, and that nothing has happened."""

from __future__ import annotations

import datetime
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weir
from tests_support import PAGE


class Given:
    """What the slips are made of."""

    def __init__(self, context: weir.Context, pool: weir.Pool, stream: weir.Stream) -> None:
        self.context, self.pool, self.stream = context, pool, stream
        self.buffer = pool.buffer(PAGE)
        self.use = weir.read(self.buffer)


#: What a type checker would have refused.
UNTYPED: Any = weir

Slip = Callable[[Any], object]

SETS: list[tuple[str, Slip]] = [
    ("argument 1 after the stream is a buffer; did you mean weir.read(buffer)?", lambda g: g.pool.acquire(g.stream, g.buffer)),
    ("argument 2 after the stream is a buffer; did you mean", lambda g: g.pool.acquire(g.stream, g.use, g.buffer)),
    ("argument 1 after the stream is a buffer", lambda g: g.pool.acquire(g.stream, g.buffer, "read")),
    ("Pool.prefetch: argument 1 after the stream is a buffer", lambda g: g.pool.prefetch(g.stream, g.buffer)),
    ("Pool.prepare: argument 1 after the stream is a buffer", lambda g: g.pool.prepare(g.stream, g.buffer)),
    ("Pool.acquire_async: argument 1 after the stream", lambda g: g.pool.acquire_async(g.stream, g.buffer)),
    ("the stream comes first, then the uses", lambda g: g.pool.acquire(g.use, g.stream)),
    ("the stream comes first, then the uses", lambda g: g.pool.acquire(g.buffer, g.stream)),
    ("Pool.prefetch: the stream comes first", lambda g: g.pool.prefetch(g.use, g.stream)),
    ("not a weir.Use; did you mean Pool.acquire(stream, weir.read(buffer))?", lambda g: g.pool.acquire(g.use)),
    # A handle that the library would have read as a stream's.
    ("must be a weir.Stream, not a weir.Buffer; did you mean", lambda g: g.pool.acquire(g.buffer, g.use)),
    ("not a weir.Context; `stream = context.stream(device)`", lambda g: g.pool.acquire(g.context, g.use)),
    ("not 1; `stream = context.stream(1)` makes one", lambda g: g.pool.acquire(1, g.use)),
    ("not None; `stream = context.stream(device)`", lambda g: g.pool.acquire(None, g.use)),
    ("there is one stream, and it comes first", lambda g: g.pool.acquire(g.stream, g.stream)),
    ("one by one, not as a list; did you mean Pool.acquire(stream, *uses)?", lambda g: g.pool.acquire(g.stream, [g.use])),
    ("is the function weir.overwrite; did you mean weir.overwrite(buffer)?", lambda g: g.pool.acquire(g.stream, weir.overwrite)),
    ("must be a use, such as weir.read(buffer)", lambda g: g.pool.acquire(g.stream, None)),
    ("must be a use, such as weir.read(buffer)", lambda g: g.pool.acquire(g.stream, (g.buffer, 1, 0, None, False))),
    ("not 'weights'; a buffer is not found by its name", lambda g: UNTYPED.read("weights")),
    ("weir.write takes a weir.Buffer, not a weir.Use; it is a use already", lambda g: weir.write(g.use)),
    ("a weir.Stream; the stream goes to Pool.acquire(stream, weir.overwrite(buffer))", lambda g: weir.overwrite(g.stream)),
    ("not a numpy.ndarray; Pool.buffer_from(data)", lambda g: weir.read(np.zeros(4))),
    ("one use is of one buffer", lambda g: UNTYPED.read([g.buffer, g.buffer])),
    ("Pool.buffer(size) makes one", lambda g: UNTYPED.read(4096)),
]  # fmt: skip


OTHERS: list[tuple[str, Slip]] = [
    ("operations[0] must be a weir.Operation", lambda g: g.pool.announce(g.stream, [g.use])),
    ("did you mean [weir.Operation(", lambda g: g.pool.announce(g.stream, weir.Operation([g.use]))),
    ("takes a list of operations, each with its uses", lambda g: g.pool.announce(g.stream, g.use)),
    ("are one use, not a list", lambda g: g.pool.announce(g.stream, [weir.Operation(g.use)])),
    ("has a weir.Buffer among its uses", lambda g: g.pool.announce(g.stream, [weir.Operation([g.buffer])])),
    ("takes a list of operations", lambda g: g.pool.announce(g.stream, 4)),
    ("Pool.announce: the first argument must be a weir.Stream", lambda g: g.pool.announce([weir.Operation([g.use])], g.use)),
    ("did you mean Pool.buffer_from(data)", lambda g: g.pool.buffer(np.zeros(4))),
    ("did you mean Pool.buffer_from(data)", lambda g: g.pool.buffer(b"bytes")),
    ("a size makes a buffer with Pool.buffer(size)", lambda g: g.pool.buffer_from(4096)),
    ("data is a str, which has no bytes of its own; did you mean data.encode()?", lambda g: g.pool.buffer_from("text")),
    ("source is a str", lambda g: g.buffer.write("text")),
    ("a list does not", lambda g: g.buffer.write([1, 2])),
    ("target is a str", lambda g: g.buffer.read_into("text")),
    ("data is a str", lambda g: weir.compress("text")),
    ("shards must be a weir.Shards, not a list, such as", lambda g: g.pool.buffer(PAGE, shards=[0, 1])),
    ("the name of a buffer is a str, not 7", lambda g: g.pool.buffer(PAGE, name=7)),
    ("the name of a buffer is a str, not None", lambda g: setattr(g.buffer, "name", None)),
    ("client must be a weir.Client, not 'me'; `pool.client(name)` makes one", lambda g: g.pool.buffer(PAGE, client="me")),
    ("'prio'; did you mean 'priority'?", lambda g: g.pool.buffer(PAGE, prio=1)),
    ("'bytes'; there are priority, ", lambda g: g.pool.buffer(PAGE, bytes=1)),
    ("Context.pool() got an unexpected keyword argument 'host_bugdet'; did you mean 'host_budget'?",
     lambda g: g.context.pool("8M", host_bugdet="8M")),
    ("'device_qouta'; did you mean 'device_quota'?", lambda g: g.pool.client("c", device_qouta=1)),
    ("home must be a device's number, not 'cuda:0'", lambda g: g.pool.buffer(PAGE, home="cuda:0")),
    ("must be a device's number, not 'cuda:0'; context.device('cuda:0') finds one", lambda g: g.context.stream("cuda:0")),
    ("must be a device's number, not 'cuda:0'", lambda g: g.context.pool({"cuda:0": "8M"})),
    ('are a mapping, such as {0: "8G", 1: "8G"}, not a list', lambda g: g.context.pool(["8M", "8M"])),
    ("a time is a number of seconds, such as 0.5, not '1'", lambda g: g.pool.acquire(g.stream, g.use, timeout="1")),
    ("did you mean .total_seconds()?", lambda g: g.pool.acquire(g.stream, g.use, timeout=datetime.timedelta(seconds=1))),
    ("context must be a weir.Context, not a weir.Stream; `context.pool(size)`", lambda g: weir.Pool(g.stream, "8M")),
    ("context must be a weir.Context, not a weir.Pool", lambda g: weir.Stream(g.pool)),
    ("`pool.buffer(size, ...)` makes a buffer", lambda g: UNTYPED.Buffer(g.pool, PAGE)),
    ("pool must be a weir.Pool, not a weir.Context", lambda g: weir.Buffer(g.context, weir.BufferOptions(PAGE))),
    ("pool must be a weir.Pool, not a weir.Context", lambda g: weir.Client(g.context)),
    ("stream must be a weir.Stream, not a weir.Buffer", lambda g: g.pool.malloc(PAGE, stream=g.buffer)),
    ("or a mapping, not 5", lambda g: UNTYPED.Context(5)),
    ("as a number, not as a Native; did you mean stream.cuda_stream?", lambda g: g.context.wrap_stream(Native())),
]  # fmt: skip


class Native:
    """A stream as PyTorch has them."""

    cuda_stream = 0


@pytest.mark.parametrize(("words", "slip"), SETS + OTHERS)
def test_slips_are_answered_with_what_was_meant(
    context: weir.Context, pool: weir.Pool, stream: weir.Stream, words: str, slip: Slip
) -> None:
    given = Given(context, pool, stream)
    with pytest.raises(TypeError, match=re.escape(words)):
        slip(given)
    assert given.buffer.query().leases == 0
    with pool.acquire(stream, weir.write(given.buffer)):  # all of it is as it was
        pass


def test_numbers_that_are_no_devices(context: weir.Context, pool: weir.Pool) -> None:
    for slip in (lambda: context.stream(-1), lambda: pool.buffer(PAGE, home=-2), lambda: context.pool({2**32: "8M"})):
        with pytest.raises(ValueError, match=r"is no device; devices are numbered from 0"):
            slip()
    UNTYPED.Stream(context, np.int64(1)).close()


def test_times_are_numbers(pool: weir.Pool, stream: weir.Stream) -> None:
    use = weir.read(pool.buffer(PAGE))
    UNTYPED.Pool.acquire(pool, stream, use, timeout=np.float32(0.5)).release()
    with pytest.raises(ValueError, match=r"a time of -1 seconds; times are 0 or more"):
        pool.acquire(stream, use, timeout=-1)


def test_a_lease_after_its_end(pool: weir.Pool, stream: weir.Stream) -> None:
    with pool.acquire(stream, weir.read(pool.buffer(PAGE))) as lease:
        view = lease[0]
    for late in (lambda: lease[0], lease.address, lambda: lease.host_call(print), lambda: lease.numpy(np.uint8)):
        with pytest.raises(weir.Closed, match=r"the lease has been released: .* \(its `with` block has ended\?\)"):
            late()
    with pytest.raises(ValueError, match="the lease has been released"):
        view.numpy()


def test_a_lease_that_was_forgotten(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)
    lease = pool.acquire(stream, weir.write(buffer))
    with pytest.raises(weir.LeaseConflict, match=r"; a lease ends with its `with` block, or by lease.release\(\)$") as caught:
        pool.acquire(stream, weir.read(buffer))
    assert caught.value.message == str(caught.value)
    with pytest.warns(ResourceWarning, match=r"lease dropped without being released; `with pool.acquire\(...\) as lease` releases"):
        del lease


def test_with_of_what_is_no_lease(pool: weir.Pool, stream: weir.Stream) -> None:
    use = weir.read(pool.buffer(PAGE))
    no_lease: Any = pool.prepare(stream, use)
    meant = r"a Prepared is no lease yet; did you mean `with prepared.acquire\(\) as lease`\?"
    with pytest.raises(TypeError, match=meant), no_lease:
        pass
    pending: Any = pool.acquire_async(stream, use)
    meant = r"a PendingLease is no lease yet; did you mean `with pending.result\(\) as lease`"
    with pytest.raises(TypeError, match=meant), pending:
        pass
    pending.result(60).release()


def test_items_of_what_is_no_array(pool: weir.Pool, stream: weir.Stream) -> None:
    lease: Any
    with pool.acquire(stream, weir.overwrite(pool.buffer(PAGE))) as lease:
        with pytest.raises(TypeError, match=r"a Lease is no array; did you mean `lease\[0\].numpy\(dtype\)\[...\] = value`\?"):
            lease[:] = 1
        with pytest.raises(TypeError, match=r"a View is no array; did you mean `view.numpy\(dtype\)\[...\] = value`\?"):
            lease[0][:] = 1
        lease[0].numpy(np.float32)[...] = 1


def test_the_stream_to_release_on(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer: Any = pool.buffer(PAGE)
    with pool.acquire(stream, weir.read(buffer)) as lease:
        with pytest.raises(TypeError, match=r"the stream to release on must be a weir\.Stream, not a weir\.Buffer"):
            lease.release(buffer)
        assert not lease.released


def test_one_path_is_no_list_of_letters(tmp_path: pathlib.Path) -> None:
    with pytest.raises(weir.BackendError, match="absent"):
        weir.Context(backend_paths=str(tmp_path / "absent.so"))


def test_the_other_languages_names() -> None:
    assert weir.discard_write is weir.overwrite
    assert weir.read_write is weir.write

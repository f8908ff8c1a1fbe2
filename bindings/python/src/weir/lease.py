# SPDX-License-Identifier: Apache-2.0
"""Leases: the right to use bytes on a stream. Acquire a set, enqueue work, release.

A `Prepared` set is laid out for the C call once; what `Pool.acquire` does is to prepare one for a single lease. A set is
used by one lease at a time, so a Prepared has an idle one, and makes more where its leases overlap."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from . import _core, enums
from ._arguments import NoBlock, NoItems, instance, not_a_buffer, not_a_set
from ._capi import ffi, lib
from ._core import _abandoned, entered, nanoseconds, unraisable, watch
from ._sizes import Size, size_in_bytes
from ._views import Pin
from .buffer import Buffer
from .errors import Cancelled, Closed, WeirError, check, error_of, make
from .stream import Stream
from .views import DLPACK_DEVICES, View, make_view

if TYPE_CHECKING:
    from .pool import Pool

T = TypeVar("T")
_acquire = lib.weirpy_acquire
_release = lib.weirpy_release
_within = lib.weirpy_within
_USES = ffi.typeof("weir_use[]")
_BLOCK = ffi.typeof("uint64_t[]")  # aligned as any of it needs
_WHOLE: int = lib.WEIR_WHOLE
_REMOTE: int = lib.WEIR_USE_ALLOW_REMOTE
_SOLE_HOLDER: int = lib.WEIR_ACQUIRE_SOLE_HOLDER
_NO_LEASE = ffi.NULL
_OPTIONS_SIZE = ffi.sizeof("weir_acquire_options")


class Use(NamedTuple):
    """What a lease is to have: a range of a buffer, and how it is used. Made by `read`, `write` and `overwrite`, which check what
    they are given. `mode` is a `weir.Mode`; `length` None is to the buffer's end."""

    buffer: Buffer
    mode: int
    offset: int = 0
    length: int | None = None
    remote: bool = False


def _use(function: str, buffer: Buffer, mode: int, offset: Size, length: Size | None, remote: bool) -> Use:
    if not isinstance(buffer, Buffer):
        raise not_a_buffer(function, buffer)
    start = size_in_bytes(offset, "offset")
    return Use(buffer, mode, start, None if length is None else size_in_bytes(length, "length"), remote)


def read(buffer: Buffer, offset: Size = 0, length: Size | None = None, *, remote: bool = False) -> Use:
    """The bytes are read; many leases may read them at a time. (`WEIR_READ`)

    The range is `length` bytes from `offset` on, `None`: to the buffer's end. With `remote` the bytes may stay in a neighbour's
    memory, and are reached over the link instead of being brought here, where that pays."""
    return _use("read", buffer, lib.WEIR_READ, offset, length, remote)


def write(buffer: Buffer, offset: Size = 0, length: Size | None = None, *, remote: bool = False) -> Use:
    """The latest bytes are there, and may be read and changed; no other lease has them meanwhile. (`WEIR_READ_WRITE`)

    `weir.read_write` is the same function. The arguments are those of `read`."""
    return _use("write", buffer, lib.WEIR_READ_WRITE, offset, length, remote)


def overwrite(buffer: Buffer, offset: Size = 0, length: Size | None = None, *, remote: bool = False) -> Use:
    """All bytes of the range will be written, so the old ones are not brought; they are undefined until then. No other lease has
    them meanwhile. (`WEIR_DISCARD_WRITE`)

    `weir.discard_write` is the same function. The arguments are those of `read`."""
    return _use("overwrite", buffer, lib.WEIR_DISCARD_WRITE, offset, length, remote)


#: The names that C, Rust and Go have for `write` and `overwrite`.
read_write = write
discard_write = overwrite


class Operation(NamedTuple):
    """One operation to come, for `Pool.announce`: what it will use, and for the policy to learn from its name, or the number of
    that (`Pool.operation_id`)."""

    uses: Sequence[Use]
    name: str | int | None = None


def check_set(function: str, stream: Stream, uses: Sequence[Use]) -> None:
    """What reaches the library is a stream and uses: it would read another object's handle as what it is not."""
    right = isinstance(stream, Stream)
    for use in uses:
        right = right and isinstance(use, Use)
    if not right:
        raise not_a_set(function, stream, uses)


# One block of memory holds a weirpy_set, its uses and its gates, put together of bytes, which costs a fraction of what setting
# fields one by one does; weirpy_lay_out makes it whole. Tests compare it with the C structs.
_SET_REST = struct.Struct("@PQIIQQPPIIP")  # a weirpy_set behind its pool and stream
_USE_REST = struct.Struct("@QQIIQQQQ")  # a weir_use behind its buffer
_rests: dict[tuple[int, int], bytes] = {}  # of a number of uses and an operation
_MOST_RESTS = 4096
_whole_uses: dict[tuple[int, bool], bytes] = {}


def _rest(count: int, timeout: int = 0, flags: int = 0, operation_id: int = 0) -> bytes:
    return _SET_REST.pack(0, count, _OPTIONS_SIZE, operation_id, flags, timeout, 0, 0, count + 2, 0, 0)


def _uses_words(uses: Sequence[Use]) -> list[bytes]:
    """The bytes of an array of weir_use, in pieces."""
    words: list[bytes] = []
    for buffer, mode, offset, length, remote in uses:
        words.append(buffer._word)
        if offset == 0 and length is None:
            rest = _whole_uses.get((mode, remote))
            if rest is None:
                rest = _whole_uses[mode, remote] = _USE_REST.pack(0, _WHOLE, mode, _REMOTE if remote else 0, 0, 0, 0, 0)
        else:
            rest = _USE_REST.pack(offset, _WHOLE if length is None else length, mode, _REMOTE if remote else 0, 0, 0, 0, 0)
        words.append(rest)
    return words


def fill_uses(uses: Sequence[Use]) -> Any:
    """The C API's array of uses."""
    native = ffi.new(_USES, len(uses))
    ffi.buffer(native)[:] = b"".join(_uses_words(uses))
    return native


class Prepared(NoBlock):
    """A set of uses on a stream, laid out once and acquired often: the fastest way to a lease. Any thread; what it names is
    kept alive. Made by `Pool.prepare`."""

    _meant = "with prepared.acquire() as lease"

    __slots__ = ("__weakref__", "_idle", "_keep", "_rest", "pool", "stream", "uses")

    def __init__(
        self,
        pool: Pool,
        stream: Stream,
        uses: Sequence[Use],
        timeout: float | None,
        sole_holder: bool,
        operation: str | int | None,
        function: str = "prepare",
    ) -> None:
        check_set(function, stream, uses)
        self.pool = pool
        self.stream = stream
        self.uses = tuple(uses)
        self._keep: list[Any] = []
        count = len(self.uses)
        number = pool._number_of(operation)
        if timeout is None and not sole_holder:
            key = (count, number)
            rest = _rests.get(key)
            if rest is None:
                rest = _rest(count, operation_id=number)
                if len(_rests) < _MOST_RESTS:
                    _rests[key] = rest
            self._rest = rest
        else:
            self._rest = _rest(count, nanoseconds(timeout), _SOLE_HOLDER if sole_holder else 0, number)
        self._idle: list[Any] = [self._make()]

    def _make(self) -> Any:
        uses = self.uses
        words = [self.pool._word, self.stream._word, self._rest, *_uses_words(uses), self.pool._gate_word, self.stream._gate_word]
        words += [use[0]._gate_word for use in uses]
        whole = b"".join(words)
        block = ffi.new(_BLOCK, len(whole) >> 3)
        ffi.buffer(block)[:] = whole
        self._keep.append(block)
        return lib.weirpy_lay_out(block)

    def acquire(self) -> Lease:
        """A lease on the set; see `Pool.acquire` for the errors."""
        try:
            native = self._idle.pop()
        except IndexError:
            native = self._make()
        result = _acquire(native)
        if result and _core.end_dropped():  # a dropped lease may be in the way, and may go by now
            result = _acquire(native)
        if result:
            self._refuse(native, result)
        return Lease(self, native)

    def _refuse(self, native: Any, result: int) -> None:
        error = error_of(result) if result < 0 else None
        if error is None:
            things = (self.pool, self.stream, *(use.buffer for use in self.uses))
            error = _core.refuse(result, things[native.which]._kind)  # type: ignore[assignment]
        self._idle.append(native)
        raise error  # type: ignore[misc]


class Lease(NoItems):
    """The right to use the set's bytes on its stream, until it is released. A context manager: the end of the block
    releases it. `lease[i]` is a view of use i."""

    _array = "lease[0].numpy(dtype)"
    __slots__ = ("__weakref__", "_calls", "_native", "_pin", "_prepared")

    def __init__(self, prepared: Prepared, native: Any) -> None:
        self._prepared = prepared
        self._native = native
        self._pin = Pin()  # closing it releases the lease
        self._calls: list[concurrent.futures.Future[Any]] | None = None

    # ---- the end ----

    def release(self, stream: Stream | None = None) -> None:
        """Ends the lease: what was enqueued on its stream so far is the work it protects. `stream` is another of the same device
        that has been made to wait for it. Releasing twice is allowed. Waits for the lease's own host calls, and raises what
        they raised. BufferError, with nothing changed, while arrays or views of its memory are alive."""
        if stream is not None:
            instance(stream, Stream, "the stream to release on")
        failed = None if self._calls is None else self._wait_for_calls()
        if not self._pin.close():  # released, or another thread is about to
            return
        native, self._native = self._native, None
        try:
            result = _release(native) if stream is None else self._release_on(native, stream)
            if result:
                raise _core.refuse(result, "lease")
        finally:
            if native.lease == _NO_LEASE:  # the lease is over whatever the result, but for what the header says changes nothing
                self._prepared._idle.append(native)
            else:
                self._native = native
                self._pin.reopen()
        if _abandoned:
            _core.retry_abandoned()
        if self._calls is not None:
            self._answer(failed)

    def _wait_for_calls(self) -> WeirError | None:
        """Waits for the lease's host calls; what went wrong is told when the lease is over."""
        if _within() != lib.WEIRPY_MAY_NOT_CALL:
            try:
                self._prepared.stream.synchronize()
            except WeirError as error:
                return error
        return None

    def _answer(self, failed: WeirError | None) -> None:
        """Raises what went wrong with the lease's host calls."""
        calls, self._calls = self._calls, None
        if failed is not None:
            raise failed
        for call in calls or ():
            call.result()

    def _release_on(self, native: Any, stream: Stream) -> int:
        pool = self._prepared.pool
        with entered(stream) if pool.closed else entered(pool, stream):
            result = int(lib.weir_release(native.lease, stream._raw))
        if result not in (lib.WEIR_ERROR_INVALID_ARGUMENT, lib.WEIR_ERROR_INVALID_HANDLE):
            native.lease = ffi.NULL
        return result

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.release()
            return
        try:
            self.release()
        except Exception:  # arrays may live in the exception's frames: then the lease ends with the last of them
            return

    def __del__(self) -> None:
        if self._native is None or sys is None or sys.is_finalizing() or _core._end.running:
            return
        warnings.warn(
            "lease dropped without being released; `with pool.acquire(...) as lease` releases it, and so does lease.release()",
            ResourceWarning, source=self, stacklevel=2,
        )  # fmt: skip
        _core.put_off_or_run(self)

    def _drop(self) -> None:
        try:
            self.release()
        except BufferError:  # garbage that is collected together ends in any order: what uses the memory may go after the lease
            _abandoned.add(self)
        except WeirError:
            return

    # ---- what it has ----

    @property
    def released(self) -> bool:
        return self._native is None

    @property
    def stream(self) -> Stream:
        return self._prepared.stream

    @property
    def uses(self) -> tuple[Use, ...]:
        return self._prepared.uses

    @property
    def handle(self) -> int:
        """The C API's handle."""
        return int(ffi.cast("uintptr_t", self._live().lease))

    def _live(self) -> Any:
        native = self._native
        if native is None:
            error = Closed("the lease has been released: its memory is not there any more (its `with` block has ended?)")
            error.message = str(error)
            raise error
        return native

    def __len__(self) -> int:
        return len(self._prepared.uses)

    def address(self, index: int = 0) -> int:
        """Where byte `offset` of a use is, for work on the stream. The CPU must synchronise first."""
        native = self._live()
        address = int(native.uses[range(len(self))[index]].address)
        self._live()  # the set is another lease's once this one is over
        return address

    def __getitem__(self, index: int) -> View:
        index = range(len(self))[index]
        use = self._prepared.uses[index]
        length = use.buffer.size - use.offset if use.length is None else use.length
        return make_view(self, self.address(index), length, "uint8", (length,), use.mode == lib.WEIR_READ)

    def numpy(self, dtype: Any, *shapes: Sequence[int] | None) -> tuple[Any, ...]:
        """An array for each use, of one type; shapes are given for the first ones, or none."""
        return tuple(
            self[index].numpy(dtype, shape) for index, shape in itertools.zip_longest(range(len(self)), shapes[: len(self)])
        )

    def host_call(self, function: Callable[..., T], *arguments: object) -> concurrent.futures.Future[T]:
        """Enqueues function(views, *arguments) on the stream, where `views` are those of the uses. It must not call Weir, and keep
        nothing of the views: `release` waits for it, and finds out."""
        self._live()
        views = tuple(self[index] for index in range(len(self)))
        future = self.stream.host_call(_without_frames, function, views, *arguments)
        if self._calls is None:
            self._calls = []
        self._calls.append(future)
        return future

    # ---- for views ----

    def _pinned(self) -> Pin:
        self._live()
        return self._pin

    def _ready(self) -> None:
        """Waits for the bytes; work of the stream that is running this has them."""
        if _within() != lib.WEIRPY_MAY_NOT_CALL:
            self.stream.synchronize()

    def _cpu(self) -> bool:
        return self._prepared.pool._cpu_reaches(self.stream.device)

    def _dlpack_device(self) -> tuple[int, int]:
        name, number = self._prepared.pool._backend_of(self.stream.device)
        if name not in DLPACK_DEVICES:
            raise BufferError(f"DLPack has no number for devices of the backend {name!r}")
        return DLPACK_DEVICES[name], 0 if name == "host" else number  # the CPU is one device to DLPack

    def _is_stream(self, stream: Any) -> bool:
        """Whether a consumer's stream, as DLPack writes it, is the lease's own."""
        return stream is not None and (0 if stream == 1 else stream) == self.stream.native


def _without_frames(function: Callable[..., T], *arguments: object) -> T:
    """Calls it; an exception keeps no arrays alive in the frames it has left."""
    try:
        return function(*arguments)
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        raise


# ---- asynchronous acquires ----


class PendingLease(NoBlock, concurrent.futures.Future["Lease"]):
    """An acquire on a thread of the pool: a Future of a Lease, and awaitable. Cancelling asks the pool to give it up."""

    _meant = "with pending.result() as lease` or `with await pending as lease"

    def __init__(self, prepared: Prepared) -> None:
        super().__init__()
        self._prepared = prepared
        self._native = prepared._make()
        self._request: Any = ffi.NULL
        self._number = next(_numbers)
        out = ffi.new("weir_request *")
        _pending[self._number] = self
        watch(0, self)
        native = self._native
        try:
            with entered(prepared.pool, prepared.stream, *(use.buffer for use in prepared.uses)):
                check(
                    lib.weir_acquire_async(
                        native.pool, native.stream, native.uses, native.count, ffi.addressof(native, "options"),
                        lib.weirpy_acquired, ffi.cast("void *", self._number), out,
                    )
                )  # fmt: skip
        except BaseException:
            del _pending[self._number]
            raise
        self._request = ffi.gc(out[0], lib.weir_request_close)

    def cancel(self) -> bool:
        """Asks the acquire to end, and waits until it has; False if it was granted, or had failed, before."""
        if self._request != ffi.NULL and not self.done():
            lib.weir_request_cancel(self._request)
            if _within() == lib.WEIRPY_OUTSIDE:  # a callback on the pool's thread would wait for itself
                lib.weir_request_wait(self._request, ffi.NULL)
        return self.cancelled()

    def _granted(self, result: int, lease: Any) -> None:
        """On a thread of the pool."""
        if result == 0:
            self._native.lease = lease
            self.set_result(Lease(self._prepared, self._native))
        elif result == lib.WEIR_ERROR_CANCELLED:
            super().cancel()
            self.set_running_or_notify_cancel()
        else:
            self.set_exception(error_of(result))

    def _at_exit(self, rank: int) -> None:
        self.cancel()

    def __await__(self) -> Generator[Any, None, Lease]:
        return self._wait().__await__()

    async def _wait(self) -> Lease:
        try:
            return await asyncio.wrap_future(self)
        except asyncio.CancelledError:
            if not self.cancel() and self.done() and self.exception() is None:
                self.result().release()  # it was granted, and no caller is there to take it
            raise


_numbers = itertools.count(1)
_pending: dict[int, PendingLease] = {}


@ffi.def_extern()  # type: ignore[untyped-decorator]
def weirpy_on_acquired(user: Any, result: int, lease: Any) -> None:
    try:
        _pending.pop(int(ffi.cast("uintptr_t", user)))._granted(result, lease)
    except BaseException:
        unraisable("the end of an asynchronous acquire")


__all__ = [
    "Cancelled", "Lease", "Operation", "PendingLease", "Prepared", "Use", "check_set", "discard_write", "enums", "make",
    "overwrite", "read", "read_write", "write",
]  # fmt: skip

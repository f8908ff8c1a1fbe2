# SPDX-License-Identifier: Apache-2.0
"""Streams: in-order queues of a runtime, and host calls that run a Python function in their order.

A function that was enqueued is kept, with its arguments, until it has run; a stream with such work is not closed
before that."""

from __future__ import annotations

import concurrent.futures
import itertools
from collections.abc import Callable
from typing import Any, SupportsIndex, TypeVar

from . import enums
from ._arguments import device_number, instance
from ._capi import ffi, lib
from ._core import Closable, entered, unraisable, watch
from .context import Context
from .errors import check

T = TypeVar("T")
#: Host calls that have not run yet, by the number that the C side is given.
_numbers = itertools.count(1)
_calls: dict[int, tuple[concurrent.futures.Future[Any], Callable[..., Any], tuple[Any, ...]]] = {}


class Stream(Closable):
    """`Stream(context, device)` makes a native stream and owns it; `Context.wrap_stream` wraps one that is not Weir's.
    Closing does not wait for the work of the stream, but for its host calls."""

    _kind = "stream"
    _waits = True

    def __init__(self, context: Context, device: SupportsIndex = enums.DEFAULT) -> None:
        number = device_number(device)
        instance(context, Context, "context", "; `context.stream(device)` makes a stream")
        out = ffi.new("weir_stream *")
        with entered(context):
            check(lib.weir_stream_create(context._raw, number, 0, out))
        self._take(context, out[0], 0 if number == enums.DEFAULT else number)

    @classmethod
    def _wrap(cls, context: Context, native: int, device: SupportsIndex) -> Stream:
        number = device_number(device)
        out = ffi.new("weir_stream *")
        with entered(context):
            check(lib.weir_stream_wrap(context._raw, number, ffi.cast("void *", _native(native)), 0, out))
        self = cls.__new__(cls)
        self._take(context, out[0], number)
        return self

    @classmethod
    def from_handle(cls, context: Context, handle: int, device: int, *, owned: bool = False) -> Stream:
        """A stream that another language in this process has made, and its device."""
        self = cls.__new__(cls)
        self._take(context, ffi.cast("weir_stream", handle), device, owned)
        return self

    def _take(self, context: Context, raw: Any, device: int, owned: bool = True) -> None:
        self._context = context
        self._device = device
        self._called = False
        self._begin(raw, owned)
        watch(0, self)
        watch(3, self)

    @property
    def context(self) -> Context:
        return self._context

    @property
    def device(self) -> int:
        """The device it is on, or weir.HOST."""
        return self._device

    @property
    def native(self) -> int:
        """The runtime's own handle."""
        out = ffi.new("void **")
        with entered(self):
            check(lib.weir_stream_native(self._raw, out))
        return int(ffi.cast("uintptr_t", out[0]))

    def synchronize(self) -> None:
        """Waits until everything enqueued so far has finished."""
        with entered(self):
            check(lib.weir_stream_synchronize(self._raw))

    def query(self) -> bool:
        """Whether everything enqueued so far has finished; never waits."""
        with entered(self):
            result = lib.weir_stream_query(self._raw)
            check(result)
            return bool(result == lib.WEIR_SUCCESS)

    def host_call(self, function: Callable[..., T], *arguments: object) -> concurrent.futures.Future[T]:
        """Enqueues function(*arguments), to run on a thread of the runtime in the order of the stream. It must not call Weir.
        The future has what it returned or raised."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        number = next(_numbers)
        _calls[number] = (future, function, arguments)
        try:
            with entered(self):
                self._called = True
                check(lib.weir_stream_host_call(self._raw, lib.weirpy_host_call, ffi.cast("void *", number)))
        except BaseException:
            del _calls[number]
            raise
        return future

    def _destroy(self) -> int:
        if self._called:
            lib.weir_stream_synchronize(self._raw)
        return int(lib.weir_stream_close(self._raw))

    def _close_kept(self) -> None:
        """Closes a stream that its context keeps, while that is being closed; what is busy makes the context busy."""
        if lib.weirpy_shut(self._gate):
            if self._destroy() == 0:
                lib.weirpy_gone(self._gate)
                self._ended()
            else:
                lib.weirpy_reopen(self._gate)

    def _at_exit(self, rank: int) -> None:
        if rank == 0 and self._called:
            self.synchronize()
        elif rank > 0 and self._owned:
            self.close()


def _native(stream: Any) -> int:
    """The runtime's handle of a stream, as a number."""
    if isinstance(stream, int):
        return stream
    hint = ""
    for name in ("cuda_stream", "ptr", "handle"):  # PyTorch's, CuPy's and Numba's streams
        if hasattr(stream, name):
            hint = f"; did you mean stream.{name}?"
            break
    raise TypeError(f"the runtime's stream is given as a number, not as a {type(stream).__name__}{hint}")


@ffi.def_extern()  # type: ignore[untyped-decorator]
def weirpy_on_host_call(user: Any) -> None:
    future, function, arguments = _calls.pop(int(ffi.cast("uintptr_t", user)))
    try:
        value = function(*arguments)
    except BaseException as error:
        outcome: BaseException | None = error
    else:
        outcome = None
    del function, arguments  # what they keep alive ends with the call, not with the exception's traceback
    try:
        if outcome is None:
            future.set_result(value)
        else:
            future.set_exception(outcome)
    except BaseException:
        unraisable("a host call")
    finally:
        del future, outcome

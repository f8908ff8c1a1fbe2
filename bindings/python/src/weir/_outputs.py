# SPDX-License-Identifier: Apache-2.0
"""What the C API writes into the caller's array or text: it is cut where there is no room (WEIR_INCOMPLETE), and the call says
how much there is.

The pool goes on between two calls, so an answer may have grown when there is room for what there was: what is
returned is always one call's whole answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ._capi import ffi, lib
from ._core import refuse
from .errors import check

T = TypeVar("T")

_INCOMPLETE: int = lib.WEIR_INCOMPLETE


def _whole(kind: str, capacity: int, call: Callable[[Any, int, Any], int]) -> tuple[Any, int]:
    """An array of C with the whole answer of one call, and how much of it is filled."""
    count = ffi.new("size_t *")
    while True:
        array = ffi.new(kind, capacity)
        result = call(array, capacity, count)
        if result != _INCOMPLETE:
            check(result)
            return array, count[0]
        capacity = max(count[0], capacity) + count[0] // 8 + 16  # with some room to grow


def listed(kind: str, call: Callable[[Any, int, Any], int], make: Callable[[Any], T], capacity: int = 64) -> list[T]:
    """A list of what `make` gives for each element of an array of `kind`, such as "weir_piece[]".

    `call` is given the array, its length, and where to say how much there is. `make` must keep nothing of the element: its
    memory is the array's, and that ends here."""
    array, count = _whole(kind, capacity, call)
    return [make(array[i]) for i in range(count)]


def saved(call: Callable[[Any, int, Any], int]) -> bytes:
    """Bytes. `call` is given its memory, how much that is, and where to say how much it takes; what has no room is refused."""
    count = ffi.new("uint64_t *")
    check(call(ffi.NULL, 0, count))
    while True:
        capacity = int(count[0]) + int(count[0]) // 8
        array = ffi.new("unsigned char[]", capacity)
        result = call(array, capacity, count)
        if result != lib.WEIR_ERROR_INVALID_ARGUMENT or count[0] <= capacity:
            check(result)
            return bytes(ffi.buffer(array, count[0]))


def exported(call: Callable[[Any, int, Any], int], capacity: int = 4096) -> str:
    """A text. `call` is given its memory, how much that is, and where to say how much it takes."""
    text, _ = _whole("char[]", capacity, call)
    return str(ffi.string(text).decode(errors="replace"))


def last_error_report() -> str:
    """The rest of the calling thread's last error of the library, for people, in lines. Of an OverBudget, DeviceOutOfMemory,
    WouldBlock, Timeout, LeaseConflict or DataLost of a pool it tells what the tier that was short has now, the five buffers with
    most of it, by name, and what to do. Of other errors it is their sentence, and "" if there was none.

        try:
            lease = pool.acquire(stream, weir.read(weights))
        except weir.OverBudget:
            print(weir.last_error_report())
            raise

    Call it where the error is caught, on the thread that it was raised on, before that thread's next call of Weir: it is about
    the last one that failed. It looks at all buffers of the pool each time. An error of `Pool.acquire_async` is of a thread of the
    pool's, and has no report here."""
    if lib.weirpy_within() == lib.WEIRPY_MAY_NOT_CALL:
        raise refuse(lib.WEIRPY_FORBIDDEN, "error")
    return exported(lib.weir_last_error_report)

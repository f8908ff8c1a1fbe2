# SPDX-License-Identifier: Apache-2.0
"""One class for each error of the C API, with the numbers of weir_last_error_info.

`error_of` must run on the thread whose call failed, before its next call."""

from __future__ import annotations

from typing import Any, ClassVar

from ._capi import ffi, lib
from .enums import HOST, Result, Tier

_NO_USE = 2**64 - 1


class WeirError(Exception):
    """What every error of Weir is. Fields that do not apply are 0, but for `device`, which is weir.HOST where none is concerned,
    and `use_index`, which is None where no use is to blame."""

    result: Result = Result.INTERNAL
    message: str = ""
    tier: Tier = Tier.NONE
    device: int = HOST
    asked: int = 0
    available: int = 0
    short_by: int = 0
    use_index: int | None = None
    native_code: int = 0
    advice: ClassVar[str] = ""  #: what Python adds to the library's words


class InvalidArgument(WeirError, ValueError):
    """An argument is out of range; the message names it and its value."""

    result = Result.INVALID_ARGUMENT


class InvalidHandle(WeirError, ValueError):
    """A handle is dead, or belongs to another pool or context."""

    result = Result.INVALID_HANDLE


class Closed(InvalidHandle):
    """The object was closed on the Python side."""


class NotSupported(WeirError):
    """Not possible here; the message says why."""

    result = Result.NOT_SUPPORTED


class OutOfMemory(WeirError, MemoryError):
    """There is no memory for it: what OutOfHostMemory, OverBudget and DeviceOutOfMemory have in common."""


class OutOfHostMemory(OutOfMemory):
    """The host allocator refused; nothing was changed."""

    result = Result.OUT_OF_HOST_MEMORY


class OverBudget(OutOfMemory):
    """The request can never fit the budget as it stands; `short_by` tells what is missing."""

    result = Result.OVER_BUDGET


class WouldBlock(WeirError):
    """It fits, but not while other leases are held: release, or give a timeout."""

    result = Result.WOULD_BLOCK


class Timeout(WeirError, TimeoutError):
    """The deadline passed while waiting."""

    result = Result.TIMEOUT


class LeaseConflict(WeirError):
    """An unreleased lease forbids this one; `use_index` tells which use."""

    advice = "; a lease ends with its `with` block, or by lease.release()"

    result = Result.LEASE_CONFLICT


class Busy(WeirError):
    """The object is still in use."""

    result = Result.BUSY


class DeviceOutOfMemory(OutOfMemory):
    """The runtime refused memory inside the budget; the budget was lowered."""

    result = Result.DEVICE_OOM


class DeviceLost(WeirError):
    """The device no longer answers."""

    result = Result.DEVICE_LOST


class DataLost(WeirError):
    """The only copy of these bytes was on a lost device."""

    result = Result.DATA_LOST


class Corrupt(WeirError):
    """Stored bytes failed their checksum and no other copy exists."""

    result = Result.CORRUPT


class BackendError(WeirError):
    """A runtime call failed; `native_code` is its code."""

    result = Result.BACKEND


class StreamCapturing(WeirError):
    """The stream records a graph; residency can't be promised (see `Buffer.hold`)."""

    result = Result.STREAM_CAPTURING


class Forked(WeirError):
    """Called in a child of fork(); GPU state does not survive a fork."""

    result = Result.FORKED


class IoError(WeirError, OSError):
    """A file operation failed; `errno` and `native_code` are the system's code."""

    result = Result.IO


class Cancelled(WeirError):
    """The request was cancelled, or its pool is being destroyed."""

    result = Result.CANCELLED


class DeviceRemoved(WeirError):
    """The device is leaving the pool, or has left it."""

    result = Result.DEVICE_REMOVED


class InternalError(WeirError):
    """An invariant of Weir's own did not hold; please report it."""

    result = Result.INTERNAL


#: Result -> the class that is raised for it.
CLASSES: dict[Result, type[WeirError]] = {
    cls.result: cls
    for cls in (
        InvalidArgument, InvalidHandle, NotSupported, OutOfHostMemory, OverBudget, WouldBlock, Timeout, LeaseConflict,
        Busy, DeviceOutOfMemory, DeviceLost, DataLost, Corrupt, BackendError, StreamCapturing, Forked, IoError,
        Cancelled, DeviceRemoved, InternalError,
    )
}  # fmt: skip


def error_of(result: int) -> WeirError:
    """The exception for a result, with the thread's last error if that is what it belongs to."""
    info = ffi.new("weir_error_info *")
    info.struct_size = ffi.sizeof("weir_error_info")
    text = ffi.string(lib.weir_last_error()).decode(errors="replace")
    belongs = lib.weir_last_error_info(info) == 0 and info.result == result
    return make(result, text if belongs else "", info if belongs else None)


def make(result: int, text: str, info: Any = None) -> WeirError:
    """An exception of the class for `result`; `info` is a weir_error_info, or None."""
    cls = CLASSES.get(Result(result), WeirError) if result in Result._value2member_map_ else WeirError
    message = (text or ffi.string(lib.weir_result_string(result)).decode()) + cls.advice
    error = cls(message)
    error.message = message
    if info is not None:
        error.tier = Tier(info.tier) if info.tier in Tier._value2member_map_ else Tier.NONE
        error.device, error.asked, error.available = info.device, info.asked, info.available
        error.short_by, error.native_code = info.short_by, info.native_code
        error.use_index = None if info.use_index == _NO_USE else info.use_index
        if isinstance(error, OSError) and not isinstance(error, TimeoutError):
            error.errno = info.native_code
    return error


def check(result: int) -> None:
    """Raises for an error; answers that are none pass."""
    if result < 0:
        raise error_of(result)

# SPDX-License-Identifier: Apache-2.0
"""What the library calls for a pool: `should_stop` of a defragmentation, and the callback for lost devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._capi import ffi
from ._core import unraisable
from .records import DeviceLoss, record

#: What the callbacks for lost devices of pools that are another language's lead to, by the pool's handle.
losses: dict[int, Any] = {}


class Asking:
    """`should_stop` of a defragmentation, and what it raised."""

    def __init__(self, function: Callable[[], bool]) -> None:
        self.function = function
        self.error: BaseException | None = None


@ffi.def_extern()  # type: ignore[untyped-decorator]
def weirpy_on_should_stop(user: Any) -> int:
    asking = ffi.from_handle(user)
    try:
        return 1 if asking.function() else 0
    except BaseException as error:
        asking.error = error
        return 1


@ffi.def_extern()  # type: ignore[untyped-decorator]
def weirpy_on_lost(user: Any, loss: Any) -> None:
    try:
        ffi.from_handle(user)(record(DeviceLoss, loss))
    except BaseException:
        unraisable("a callback for lost devices")

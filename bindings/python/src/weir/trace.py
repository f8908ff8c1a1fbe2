# SPDX-License-Identifier: Apache-2.0
"""Traces: what a context's pools do, written to a file while they do it. A trace belongs to its context and ends with it."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from ._capi import lib
from ._core import entered, text_or_null
from ._sizes import Size, size_in_bytes
from .errors import Closed, check
from .records import sized

if TYPE_CHECKING:
    from .context import Context

_KINDS = {"timeline": lib.WEIR_TRACE_TIMELINE, "recording": lib.WEIR_TRACE_RECORDING}


class Trace:
    """A trace that runs, made by `weir.Context.trace`. `stop()`, or the end of its `with` block, stops it; one that is not stopped
    ends with its context."""

    def __init__(self, context: Context, path: str | os.PathLike[str], kind: str, max_bytes: Size) -> None:
        if kind not in _KINDS:
            raise ValueError(f"a trace of the kind {kind!r}; there are {', '.join(_KINDS)}")
        desc = sized("weir_trace_desc")
        text = text_or_null(path)
        desc.kind, desc.path, desc.max_bytes = _KINDS[kind], text, size_in_bytes(max_bytes, "max_bytes")
        self._context = context
        self._kind = _KINDS[kind]
        self._lock = threading.Lock()
        self._stopped = False
        with entered(context):
            check(lib.weir_trace_start(context._raw, desc))

    def stop(self) -> None:
        """Stops it: its file is whole then. Stopping again does nothing, nor does it once the context was closed. IoError: it had
        ended before, and the message says why."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            try:
                with entered(self._context):
                    check(lib.weir_trace_stop(self._context._raw, self._kind))
            except Closed:
                pass

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

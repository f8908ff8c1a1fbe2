# SPDX-License-Identifier: Apache-2.0
"""What every wrapper is built on: gates, closing in any order, finalizers, and the end of the interpreter.

Invariants:
- An object's handle is used only by a call that has entered its gate, and destroyed only by the one that has shut it
  (native/helpers.h).
- A child keeps its parents alive. Cyclic garbage is finalized in any order all the same: what can't go yet because the
  library says BUSY is kept in `_abandoned` and tried again whenever something else has gone.
- What goes wrong for such an object is not the error of the call that happens to try it: it goes to sys.unraisablehook.
- No finalizer calls Weir within a callback that may not, or while its thread closes something else, or closes a pool on a
  thread of the pool; it is put off to the next ordinary call. A call that is refused while something dropped is put off or
  abandoned ends that first, and tries once more: the collector runs when it likes, so no outcome may depend on when it did.
- Once the interpreter is about to end no callback enters Python any more."""

from __future__ import annotations

import atexit
import collections
import math
import os
import struct
import sys
import types
import warnings
import weakref
from types import TracebackType
from typing import Any, TypeVar

from ._capi import ffi, lib
from .errors import Busy, Closed, WeirError, error_of, make

Self = TypeVar("Self", bound="Closable")

_GATE = ffi.typeof("weirpy_gate *")
_GATES = ffi.typeof("weirpy_gate *[]")
_put_off: collections.deque[Any] = collections.deque()
_abandoned: set[Any] = set()
_MAY_NOT_CALL: int = lib.WEIRPY_MAY_NOT_CALL


def refuse(answer: int, what: str) -> Exception:
    """The exception for what the helpers answer beside a weir_result."""
    if answer == lib.WEIRPY_SHUT:
        closed = Closed(f"the {what} is closed")
        closed.message = str(closed)
        return closed
    if answer == lib.WEIRPY_FORBIDDEN:
        return RuntimeError("a host call or log callback must not call Weir")
    return error_of(answer)


class entered:  # reads as a verb in `with entered(pool, buffer):`
    """Keeps objects from being closed while a call uses their handles."""

    __slots__ = ("_count", "_gates", "_objects")

    def __init__(self, *objects: Closable) -> None:
        self._objects = objects
        self._gates = ffi.new(_GATES, [each._gate for each in objects])
        self._count = len(objects)

    def __enter__(self) -> None:
        if _put_off:
            run_put_off()
        which = ffi.new("uint32_t *")
        answer = lib.weirpy_enter(self._gates, self._count, which)
        if answer:
            raise refuse(answer, self._objects[which[0]]._kind)

    def __exit__(self, *unused: object) -> None:
        lib.weirpy_leave(self._gates, self._count)


class Closable:
    """An object with a handle that is closed once: by close(), by `with`, when it is collected, or at the end."""

    _kind = "object"
    _warns = True  # whether dropping it without close() is worth a ResourceWarning
    _waits = False  # whether closing it may wait for threads of the pool, and so must not happen on one
    _raw: Any
    _gate: Any
    _holder: str | None = None  # what keeps its gate entered, where that is no call
    _owned: bool
    _number: int  # the handle as a number
    _word: bytes  # the handle and the gate as they lie in memory, for sets of uses
    _gate_word: bytes

    def _begin(self, raw: Any, owned: bool = True) -> None:
        self._raw = raw
        self._owned = owned
        self._gate = ffi.new(_GATE)
        self._number = int(ffi.cast("uintptr_t", raw))
        self._word = struct.pack("@P", self._number)
        self._gate_word = struct.pack("@P", int(ffi.cast("uintptr_t", self._gate)))

    def _destroy(self) -> int:
        """Ends the handle; a weir_result. The gate is shut."""
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        return bool(lib.weirpy_is_shut(self._gate))

    @property
    def handle(self) -> int:
        """The C API's handle, for other languages in the process; it stays this object's."""
        with entered(self):
            return self._number

    def close(self) -> None:
        """Closes it; closing twice is allowed. Busy, with nothing changed, while it is in use."""
        if lib.weirpy_within() == _MAY_NOT_CALL:
            raise refuse(lib.WEIRPY_FORBIDDEN, self._kind)
        try:
            self._close()
        except Busy:
            if not end_dropped():  # what was dropped may be all that keeps it busy, and may go by now
                raise
            self._close()

    def _close(self) -> None:
        if not lib.weirpy_shut(self._gate):
            if self.closed:
                return
            by = self._holder or "a call of another thread"
            raise make(Busy.result, f"this {self._kind} is in use by {by}")
        result = int(Busy.result)
        try:
            result = self._destroy() if self._owned else 0
            error = error_of(result) if result != 0 else None
        finally:
            if result == 0:
                lib.weirpy_gone(self._gate)
            else:
                lib.weirpy_reopen(self._gate)
        if error is not None:
            raise error
        self._raw = ffi.NULL
        self._ended()

    def _ended(self) -> None:
        """Called once, when it has gone."""
        _abandoned.discard(self)
        retry_abandoned()

    def _drop(self) -> None:
        """Closes it, or sees to it that it is closed as soon as it can be."""
        try:
            if lib.weirpy_within() == _MAY_NOT_CALL:
                _put_off.append(self)
            else:
                self._close()
        except Busy:
            _abandoned.add(self)
        except WeirError:
            _abandoned.discard(self)  # a lost device, a fork: there is nothing left to do for it

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._drop()  # what the block was doing is the error to tell of

    def __del__(self) -> None:
        gate = getattr(self, "_gate", None)
        if gate is None or sys is None or sys.is_finalizing() or lib.weirpy_is_shut(gate):
            return
        if self._warns and self._owned and not _end.running:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
        put_off_or_run(self)

    def __repr__(self) -> str:
        state = "closed" if self.closed else hex(self._number)
        return f"<weir.{type(self).__name__} {state}>"


def put_off_or_run(which: Any) -> None:
    """Runs a finalizer, unless this thread is within a callback that may not call Weir, or not do what it does."""
    within = lib.weirpy_within()
    if within == _MAY_NOT_CALL or lib.weirpy_closing() or (within != lib.WEIRPY_OUTSIDE and getattr(which, "_waits", False)):
        _put_off.append(which)
    else:
        run_put_off()
        which._drop()


def run_put_off() -> None:
    if lib.weirpy_within() != lib.WEIRPY_OUTSIDE or lib.weirpy_closing():
        return
    while _put_off:
        try:
            which = _put_off.popleft()
        except IndexError:  # another thread took it
            return
        _drop_quietly(which)


def end_dropped() -> bool:
    """Ends what can go of all that was dropped and is still there; whether anything went."""
    before = len(_put_off) + len(_abandoned)
    if before == 0:
        return False
    run_put_off()
    retry_abandoned()
    return len(_put_off) + len(_abandoned) < before


def retry_abandoned() -> None:
    """Something has gone: perhaps what it kept busy can go now."""
    for each in list(_abandoned):
        if each in _abandoned:
            _abandoned.discard(each)
            _drop_quietly(each)


def _drop_quietly(which: Any) -> None:
    """Ends it within a call that has nothing to do with it."""
    try:
        which._drop()
    except Exception:
        unraisable(f"the end of {which!r}")


def unraisable(where: str) -> None:
    """Tells of the exception that is being handled, which no caller can be given."""
    kind, value, trace = sys.exc_info()
    told = types.SimpleNamespace(
        exc_type=kind, exc_value=value, exc_traceback=trace, err_msg=f"Exception ignored in {where}", object=None
    )
    hook = sys.unraisablehook
    if hook is not None:  # a program's end may have cleared it
        hook(told)


def nanoseconds(seconds: float | None, none: int = 0, infinite: int = lib.WEIR_INFINITE) -> int:
    """Seconds as the C API's nanoseconds."""
    if seconds is None:
        return none
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        seconds = _seconds(seconds)
    if seconds < 0 or math.isnan(seconds):
        raise ValueError(f"a time of {seconds} seconds; times are 0 or more, math.inf is without an end, None is the default")
    return infinite if math.isinf(seconds) else min(int(seconds * 1e9), infinite - 2)


def _seconds(time: Any) -> float:
    """What is no int or float, and is a number all the same (NumPy's)."""
    if not isinstance(time, (bool, str, bytes)) and hasattr(time, "__float__"):
        return float(time)
    seconds = ".total_seconds()" if hasattr(time, "total_seconds") else ""
    hint = f"; did you mean {seconds}?" if seconds else ""
    raise TypeError(f"a time is a number of seconds, such as 0.5, not {time!r}{hint}")


def text_or_null(text: str | os.PathLike[str] | None) -> Any:
    """A C string that lives as long as what is returned."""
    return ffi.NULL if text is None else ffi.new("char[]", os.fsencode(os.fspath(text)))


class _End:
    """Closes what is left before the interpreter ends, in the order in which it can go."""

    def __init__(self) -> None:
        self.running = False
        self._kinds: tuple[weakref.WeakSet[Any], ...] = tuple(weakref.WeakSet() for _ in range(5))

    def watch(self, rank: int, which: Any) -> None:
        """rank 0: requests and streams' host calls, 1: what keeps pools busy, 2: pools, 3: streams, 4: contexts."""
        self._kinds[rank].add(which)

    def run(self) -> None:
        self.running = True
        run_put_off()
        for rank, kind in enumerate(self._kinds):
            for each in list(kind):
                try:
                    each._at_exit(rank)
                except Exception:  # it is the end: what can't be closed stays with the process
                    continue
        run_put_off()
        retry_abandoned()
        lib.weirpy_end_callbacks()


_end = _End()
watch = _end.watch
atexit.register(_end.run)
os.register_at_fork(after_in_child=lib.weirpy_after_fork)

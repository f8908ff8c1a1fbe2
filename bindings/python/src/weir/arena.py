# SPDX-License-Identifier: Apache-2.0
"""The offset allocator alone: it hands out ranges of a number line and touches no memory.

The C arena is the caller's to serialise; here a lock does it. A visitor may ask the arena, on its own thread, and the
library answers Busy to what would change it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from ._capi import ffi, lib
from ._core import Closable, entered
from ._sizes import Size, size_in_bytes
from .errors import check
from .records import ArenaClass, ArenaRange, ArenaReport, ArenaStats, record, sized


class ArenaAllocation(NamedTuple):
    """A range that was handed out: its name, for `free` and `info`, and where it begins."""

    allocation: int
    offset: int


class _Visit:
    """A visitor, and what it raised."""

    def __init__(self, function: Callable[[ArenaRange], object]) -> None:
        self.function = function
        self.error: BaseException | None = None


class Arena(Closable):
    """`size` units, handed out in multiples of `quantum` (a power of two; 0 is 1). Any thread. Units may be bytes, and so sizes may
    be texts such as "1G", which is 2**30 units."""

    _kind = "arena"
    _warns = False

    def __init__(self, size: Size, *, quantum: Size = 0) -> None:
        desc = sized("weir_arena_desc")
        desc.size, desc.quantum = size_in_bytes(size, "size"), size_in_bytes(quantum, "quantum")
        out = ffi.new("weir_arena *")
        check(lib.weir_arena_create(desc, out))
        self._lock = threading.RLock()
        self._begin(out[0])

    def _destroy(self) -> int:
        lib.weir_arena_destroy(self._raw)
        return 0

    def allocate(self, size: Size, alignment: Size = 0) -> ArenaAllocation:
        """A free range whose offset is a multiple of `alignment`; OverBudget if there is none."""
        allocation, offset = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        count, multiple = size_in_bytes(size, "size"), size_in_bytes(alignment, "alignment")
        with self._lock, entered(self):
            check(lib.weir_arena_allocate(self._raw, count, multiple, allocation, offset))
        return ArenaAllocation(allocation[0], offset[0])

    def free(self, allocation: int | ArenaAllocation) -> None:
        """Gives a range back; InvalidHandle if it is not a live one."""
        with self._lock, entered(self):
            check(lib.weir_arena_free(self._raw, _number(allocation)))

    def info(self, allocation: int | ArenaAllocation) -> ArenaRange:
        """Where a live range is, and how long."""
        offset, size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        with self._lock, entered(self):
            check(lib.weir_arena_info(self._raw, _number(allocation), offset, size))
        return ArenaRange(_number(allocation), offset[0], size[0])

    def resize(self, size: Size) -> None:
        """Adds units at the end, or takes free ones away from there; Busy if they are in use."""
        count = size_in_bytes(size, "size")
        with self._lock, entered(self):
            check(lib.weir_arena_resize(self._raw, count))

    @property
    def stats(self) -> ArenaStats:
        stats = sized("weir_arena_stats")
        with self._lock, entered(self):
            check(lib.weir_arena_stats_get(self._raw, stats))
        return record(ArenaStats, stats)

    def report(self) -> ArenaReport:
        """Its fragmentation, with a histogram. O(n)."""
        report = sized("weir_arena_report")
        with self._lock, entered(self):
            check(lib.weir_arena_report_get(self._raw, report))
        classes = tuple(
            ArenaClass(each.free_ranges, each.free_units, each.live_ranges, each.live_units) for each in report.classes
        )
        return record(ArenaReport, report, classes=classes)

    def walk(self, visitor: Callable[[ArenaRange], object]) -> None:
        """Shows every range in the order of offsets, live and free. A visitor that returns False ends it, and so does an
        exception, which is raised."""
        visit = _Visit(visitor)
        user = ffi.new_handle(visit)
        with self._lock, entered(self):
            result = lib.weir_arena_walk(self._raw, lib.weirpy_visit, user)
        if visit.error is not None:
            raise visit.error
        if result != lib.WEIR_NOT_READY:
            check(result)

    def ranges(self) -> list[ArenaRange]:
        """All ranges, in the order of their offsets."""
        ranges: list[ArenaRange] = []
        self.walk(ranges.append)
        return ranges

    def validate(self) -> None:
        """Checks every invariant; InternalError names the first that does not hold. O(n)."""
        with self._lock, entered(self):
            check(lib.weir_arena_validate(self._raw))


def _number(allocation: int | ArenaAllocation) -> int:
    return allocation.allocation if isinstance(allocation, ArenaAllocation) else allocation


@ffi.def_extern()  # type: ignore[untyped-decorator]
def weirpy_on_visit(user: Any, shown: Any) -> int:
    visit = ffi.from_handle(user)
    try:
        go_on = visit.function(ArenaRange(shown.allocation, shown.offset, shown.size))
    except BaseException as error:
        visit.error = error
        go_on = False
    return int(lib.WEIR_NOT_READY if go_on is False else lib.WEIR_SUCCESS)

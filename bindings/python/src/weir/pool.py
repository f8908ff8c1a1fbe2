# SPDX-License-Identifier: Apache-2.0
"""Pools (budgets over devices and tiers) and clients (who bytes are charged to)."""

from __future__ import annotations

import json
import math
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import enums
from ._capi import ffi, lib
from ._core import Closable, entered, nanoseconds, text_or_null, unraisable, watch
from ._outputs import exported, listed
from .buffer import Allocation, Buffer, BufferOptions
from .context import Context
from .errors import Busy, Closed, check, make
from .lease import Lease, Operation, PendingLease, Prepared, Use, fill_uses
from .records import (
    ClientStats,
    CodecStats,
    DefragmentReport,
    DeviceLoss,
    LostRange,
    Piece,
    PoolDeviceStats,
    PoolStats,
    record,
    shares,
    sized,
)  # fmt: skip
from .stream import Stream

_NEVER: int = lib.WEIR_NONE
#: What the callbacks for lost devices of pools that are another language's lead to, by the pool's handle.
_losses: dict[int, Any] = {}
_POOL_DEVICE = "weir_pool_device *"


class Pool(Closable):
    """A pool over devices of one backend. `devices` are the bytes it may hold on each, or one number for device 0.

    Budgets are bytes. For `host_budget` None or 0 leaves the choice to Weir, and `weir.NONE` is nothing but for staging; 0 of
    the tiers below is no such tier. `page_size` is a power of two times the largest of the devices' granules, `large_page_size` a
    power of two times that. Times are seconds; `math.inf` is never. See weir_pool_desc for each option. Closing it ends
    its buffers and clients; Busy while leases or memory of `malloc` are out."""

    _kind = "pool"
    _waits = True

    def __init__(
        self,
        context: Context,
        devices: int | Mapping[int, int],
        *,
        host_budget: int | None = None,
        compressed_budget: int = 0,
        storage_budget: int = 0,
        storage_paths: Sequence[str | os.PathLike[str]] = (),
        name: str | None = None,
        policy: str | None = None,
        codec: str | None = None,
        page_size: int = 0,
        large_page_size: int = 0,
        segment_size: int = 0,
        watermark_low_permille: int = 0,
        watermark_high_permille: int = 0,
        compress_threads: int = 0,
        compress_share_percent: int = 0,
        evict_wait: float | None = None,
        idle_grace: float | None = None,
        recompress_idle: float | None = None,
        rebalance_rate: int = 0,
        record_budget: int = 0,
        background: bool = True,
        peer: bool = True,
        checksum_host: bool = False,
        encrypt_storage: bool = False,
        buffered_storage: bool = False,
        io_uring: bool = True,
    ) -> None:
        budgets = {0: devices} if isinstance(devices, int) else dict(devices)
        desc = sized("weir_pool_desc")
        array = ffi.new("weir_pool_device[]", max(1, len(budgets)))
        for entry, (device, budget) in zip(array, budgets.items()):
            entry.device, entry.budget = device, budget
        desc.devices, desc.device_count = array, len(budgets)
        desc.flags = (
            (0 if background else lib.WEIR_POOL_NO_BACKGROUND)
            | (0 if peer else lib.WEIR_POOL_NO_PEER)
            | (lib.WEIR_POOL_CHECKSUM_HOST if checksum_host else 0)
            | (lib.WEIR_POOL_ENCRYPT_STORAGE if encrypt_storage else 0)
            | (lib.WEIR_POOL_BUFFERED_STORAGE if buffered_storage else 0)
            | (0 if io_uring else lib.WEIR_POOL_NO_IO_URING)
        )
        desc.host_budget = host_budget or 0
        desc.compressed_budget, desc.storage_budget = compressed_budget, storage_budget
        paths = [text_or_null(path) for path in storage_paths]
        path_list = ffi.new("char *[]", [*paths, ffi.NULL])
        desc.storage_paths, desc.storage_path_count = (path_list if paths else ffi.NULL), len(paths)
        texts = [text_or_null(name), text_or_null(policy), text_or_null(codec)]
        desc.name, desc.policy, desc.codec = texts
        desc.page_size, desc.large_page_size, desc.segment_size = page_size, large_page_size, segment_size
        desc.watermark_low_permille, desc.watermark_high_permille = watermark_low_permille, watermark_high_permille
        desc.compress_threads, desc.compress_share_percent = compress_threads, compress_share_percent
        desc.evict_wait_ns = nanoseconds(evict_wait)
        desc.idle_grace_ns = nanoseconds(idle_grace, infinite=_NEVER)
        desc.recompress_idle_ns = nanoseconds(recompress_idle, infinite=_NEVER)
        desc.rebalance_bytes_per_second = rebalance_rate
        desc.record_budget = record_budget
        out = ffi.new("weir_pool *")
        with entered(context):
            check(lib.weir_pool_create(context._raw, desc, out))
        self._take(context, out[0], True)
        watch(2, self)

    @classmethod
    def from_handle(cls, context: Context, handle: int, *, owned: bool = False) -> Pool:
        """A pool that another language in this process has made on `context`; with `owned`, closing this closes it."""
        self = cls.__new__(cls)
        self._take(context, ffi.cast("weir_pool", handle), owned)
        if owned:
            watch(2, self)
        return self

    def _take(self, context: Context, raw: Any, owned: bool) -> None:
        self._context = context
        self._buffers: weakref.WeakValueDictionary[int, Buffer] = weakref.WeakValueDictionary()
        self._loss: Any = None
        self._backends: dict[int, tuple[str, int]] = {}
        self._reach: dict[int, bool] = {}
        self._begin(raw, owned)

    def _destroy(self) -> int:
        return int(lib.weir_pool_destroy(self._raw))

    def _at_exit(self, rank: int) -> None:
        self.close()

    @property
    def context(self) -> Context:
        return self._context

    # ---- leases ----

    def acquire(
        self,
        stream: Stream,
        *uses: Use,
        timeout: float | None = None,
        sole_holder: bool = False,
        operation: str | None = None,
    ) -> Lease:
        """Acquires a set of uses on a stream, all or nothing. `timeout` in seconds is how long to wait for others (None: not);
        `math.inf` needs `sole_holder`, the word that this thread holds no other lease. Use it as a context manager:

            with pool.acquire(stream, weir.read(a), weir.overwrite(b)) as lease:
                enqueue(stream, lease.address(0), lease.address(1))

        Errors: LeaseConflict, OverBudget, WouldBlock, Timeout, ..."""
        return Prepared(self, stream, uses, timeout, sole_holder, operation).acquire()

    def prepare(
        self,
        stream: Stream,
        *uses: Use,
        timeout: float | None = None,
        sole_holder: bool = False,
        operation: str | None = None,
    ) -> Prepared:
        """A set that is going to be acquired often: `with prepared.acquire() as lease`."""
        return Prepared(self, stream, uses, timeout, sole_holder, operation)

    def acquire_async(
        self,
        stream: Stream,
        *uses: Use,
        timeout: float | None = None,
        sole_holder: bool = False,
        operation: str | None = None,
    ) -> PendingLease:
        """As acquire, on a thread of the pool: a Future of the lease, and awaitable. Requests of a pool run in order."""
        return PendingLease(Prepared(self, stream, uses, timeout, sole_holder, operation))

    def prefetch(self, stream: Stream, *uses: Use) -> None:
        """Starts bringing the uses' bytes to the stream's device; a hint that returns at once."""
        with entered(self, stream, *(use.buffer for use in uses)):
            check(lib.weir_prefetch(self._raw, stream._raw, fill_uses(uses), len(uses)))

    def announce(self, stream: Stream, operations: Sequence[Operation], *, replace: bool = False) -> None:
        """Tells what the next acquires on the stream will use, in order. No operations with `replace` clears."""
        native = ffi.new("weir_operation[]", max(1, len(operations)))
        with entered(self, stream, *(use.buffer for each in operations for use in each.uses)):
            keep = []
            for target, each in zip(native, operations):
                uses, name = fill_uses(each.uses), text_or_null(each.name)
                target.uses, target.use_count, target.name = uses, len(each.uses), name
                keep.append((uses, name))
            flags = lib.WEIR_ANNOUNCE_REPLACE if replace else 0
            check(lib.weir_announce(self._raw, stream._raw, native, len(operations), flags))

    # ---- buffers, clients, memory ----

    def buffer(self, size: int | BufferOptions, **options: Any) -> Buffer:
        """A new buffer; the options are those of `BufferOptions`. It reads as zero and occupies nothing."""
        return Buffer(self, size if isinstance(size, BufferOptions) else BufferOptions(size, **options))

    def buffer_from(self, data: Any, **options: Any) -> Buffer:
        """A new buffer with the bytes of an object of the buffer protocol, such as a contiguous NumPy array."""
        with memoryview(data) as memory:
            buffer = self.buffer(memory.nbytes, **options)
        try:
            buffer.write(data)
        except BaseException:
            buffer.close()
            raise
        return buffer

    def place(self, options: Sequence[BufferOptions]) -> list[int]:
        """Homes for several buffers that are going to be made, chosen together (weir_buffer_place)."""
        with entered(self, *(each.client for each in options if each.client is not None)):
            natives = [each._native() for each in options]
            array = ffi.new("weir_buffer_desc *[]", [native for native, _ in natives])
            homes = ffi.new("weir_device[]", max(1, len(options)))
            check(lib.weir_buffer_place(self._raw, array, len(options), homes))
            return [int(home) for home in homes][: len(options)]

    def client(self, name: str = "", **options: int) -> Client:
        """Somebody whom bytes are charged to: priority, device_quota, host_quota, compressed_quota, storage_quota."""
        return Client(self, name, **options)

    def malloc(self, size: int, *, device: int = enums.DEFAULT, stream: Stream | None = None) -> Allocation:
        """Stream-ordered memory that is always resident; `stream` None: ready for any stream."""
        return Allocation(self, size, device, stream)

    # ---- what it holds ----

    @property
    def stats(self) -> PoolStats:
        """The counters. O(1)."""
        stats = sized("weir_pool_stats")
        with entered(self):
            check(lib.weir_pool_stats_get(self._raw, stats))
        return record(PoolStats, stats)

    @property
    def codec_stats(self) -> CodecStats:
        """What the pool's codec did so far."""
        stats = sized("weir_codec_stats")
        with entered(self):
            check(lib.weir_pool_codec_stats_get(self._raw, stats))
        return CodecStats(shares(stats.methods, enums.Method), shares(stats.elements, enums.Element))

    def device_stats(self, device: int = enums.DEFAULT) -> PoolDeviceStats:
        """The numbers of one device."""
        stats = sized("weir_pool_device_stats")
        with entered(self):
            check(lib.weir_pool_device_stats_get(self._raw, device, stats))
        return record(PoolDeviceStats, stats)

    def reset_peak(self, device: int = enums.DEFAULT) -> None:
        """Counts the device's peak_bytes anew."""
        with entered(self):
            check(lib.weir_pool_reset_peak(self._raw, device))

    def snapshot(self) -> dict[str, Any]:
        """The pool, its devices, clients and buffers, as a document."""
        with entered(self):
            text = exported(lambda *out: lib.weir_pool_snapshot(self._raw, *out))
        document: dict[str, Any] = json.loads(text)
        return document

    def map(self) -> list[Piece]:
        """Where everything lies; for tools."""
        with entered(self):
            return listed(
                "weir_piece[]",
                lambda *out: lib.weir_pool_map(self._raw, *out),
                lambda each: record(Piece, each, buffer=self._known(each.buffer)),
            )

    def lost_ranges(self) -> list[LostRange]:
        """What is lost with devices now."""
        with entered(self):
            return listed(
                "weir_lost_range[]",
                lambda *out: lib.weir_pool_lost_ranges(self._raw, *out),
                lambda each: record(LostRange, each, buffer=self._known(each.buffer)),
            )

    def _known(self, raw: Any) -> Buffer | None:
        return self._buffers.get(int(ffi.cast("uintptr_t", raw)))

    # ---- giving back, moving together ----

    def trim(self, size: int = lib.WEIR_UNLIMITED, *, device: int = enums.DEFAULT, level: int = enums.Trim.GRADUAL) -> int:
        """Gives memory back to the system, until `size` bytes are freed or nothing more can go; how many were."""
        freed = ffi.new("uint64_t *")
        with entered(self):
            check(lib.weir_pool_trim(self._raw, device, level, size, freed))
        return int(freed[0])

    def defragment(
        self,
        device: int = enums.ALL,
        *,
        wait: bool = False,
        evict: bool = False,
        max_bytes: int = 0,
        max_moves: int = 0,
        max_time: float | None = None,
        max_cost_permille: int = 0,
        should_stop: Callable[[], bool] | None = None,
    ) -> DefragmentReport:
        """Moves small buffers together; `should_stop` is asked between two steps. What it raises ends the call and is raised."""
        desc = sized("weir_defragment_desc")
        desc.device = device
        desc.flags = (lib.WEIR_DEFRAGMENT_WAIT if wait else 0) | (lib.WEIR_DEFRAGMENT_EVICT if evict else 0)
        desc.max_bytes, desc.max_moves, desc.max_ns = max_bytes, max_moves, nanoseconds(max_time)
        desc.max_cost_permille = max_cost_permille
        asking = None if should_stop is None else _Asking(should_stop)
        if asking is not None:
            user = ffi.new_handle(asking)
            desc.should_stop, desc.user = lib.weirpy_should_stop, user
        report = sized("weir_defragment_report")
        with entered(self):
            check(lib.weir_pool_defragment(self._raw, desc, report))
        if asking is not None and asking.error is not None:
            raise asking.error
        return record(DefragmentReport, report)

    def set_defragmentation(
        self, threshold_permille: int, *, bytes_per_second: int = 0, max_cost_permille: int = 0
    ) -> None:
        """Defragmentation in the background, above so many thousandths of fragmentation; 0 ends it."""
        desc = sized("weir_defragmentation_desc")
        desc.threshold_permille, desc.bytes_per_second = threshold_permille, bytes_per_second
        desc.max_cost_permille = max_cost_permille
        with entered(self):
            check(lib.weir_pool_set_defragmentation(self._raw, desc))

    # ---- devices that come and go ----

    def add_device(self, device: int, budget: int) -> None:
        """Adds a device of the context, while the pool is used."""
        entry = ffi.new(_POOL_DEVICE)
        entry.device, entry.budget = device, budget
        with entered(self):
            check(lib.weir_pool_add_device(self._raw, entry))

    def remove_device(self, device: int, *, timeout: float = math.inf) -> None:
        """Takes a device out, with nothing lost; waits at most `timeout` seconds."""
        with entered(self):
            check(lib.weir_pool_remove_device(self._raw, device, nanoseconds(timeout)))

    def cancel_remove(self, device: int) -> None:
        """Ends a remove_device that another thread is in."""
        with entered(self):
            check(lib.weir_pool_cancel_remove(self._raw, device))

    def rebalance(self, size: int) -> int:
        """Copies up to `size` bytes of spilled pages to neighbours that have memory to spare; how many it were."""
        moved = ffi.new("uint64_t *")
        with entered(self):
            check(lib.weir_pool_rebalance(self._raw, size, moved))
        return int(moved[0])

    def set_loss_callback(self, callback: Callable[[DeviceLoss], object] | None) -> None:
        """Called on a thread of the pool for each device that is lost. It may use the pool, but not close it.
        On a pool of `from_handle` that is not owned the callable is kept until another replaces it, even when this
        object has gone."""
        user = None if callback is None else ffi.new_handle(callback)
        with entered(self):
            function = ffi.NULL if callback is None else lib.weirpy_lost
            check(lib.weir_pool_set_loss_callback(self._raw, function, ffi.NULL if user is None else user))
        if self._owned:
            self._loss = user  # the former one is not called any more
        elif user is None:
            _losses.pop(self._number, None)
        else:
            _losses[self._number] = user

    # ---- for views ----

    def _backend_of(self, device: int) -> tuple[str, int]:
        """The backend's name, and the device's number within it."""
        if device == enums.HOST:
            return "host", 0
        found = self._backends.get(device)
        if found is None:
            backend = self._context.backends[self._context.device(device).backend]
            found = self._backends[device] = (backend.name, device - backend.first_device)
        return found

    def _cpu_reaches(self, device: int) -> bool:
        found = self._reach.get(device)
        if found is None:
            found = self._reach[device] = device == enums.HOST or bool(
                self._context.device(device).capabilities & enums.Capability.HOST_ACCESS
            )
        return found


class Client(Closable):
    """Whom bytes are charged to: a tenant, a model, a part of the program. Quotas are bytes, 0 the
    pool's budget, `weir.NONE` nothing at all."""

    _kind = "client"
    _warns = False

    def __init__(
        self,
        pool: Pool,
        name: str = "",
        *,
        priority: int = enums.Priority.NORMAL,
        device_quota: int = 0,
        host_quota: int = 0,
        compressed_quota: int = 0,
        storage_quota: int = 0,
    ) -> None:
        desc = sized("weir_client_desc")
        text = text_or_null(name)
        desc.name, desc.priority = text, priority
        desc.device_quota, desc.host_quota = device_quota, host_quota
        desc.compressed_quota, desc.storage_quota = compressed_quota, storage_quota
        out = ffi.new("weir_client *")
        with entered(pool):
            check(lib.weir_client_create(pool._raw, desc, out))
        self._pool = pool
        self.name = name
        self._begin(out[0])

    def _destroy(self) -> int:
        try:
            with entered(self._pool):
                return int(lib.weir_client_destroy(self._raw))
        except Closed:  # it died with its pool, unless that is only trying to close
            if self._pool.closed:
                return 0
            raise make(Busy.result, "the pool is being closed") from None

    @property
    def closed(self) -> bool:
        return super().closed or self._pool.closed

    @property
    def pool(self) -> Pool:
        return self._pool

    @property
    def stats(self) -> ClientStats:
        """What it holds."""
        stats = sized("weir_client_stats")
        with entered(self._pool, self):
            check(lib.weir_client_stats_get(self._raw, stats))
        return record(ClientStats, stats)


class _Asking:
    """should_stop, and what it raised."""

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

# SPDX-License-Identifier: Apache-2.0
"""Pools: budgets over devices and tiers, and everything that is made of them and asked of them."""

from __future__ import annotations

import json
import math
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import enums
from ._arguments import Paths, bytes_like, device_number, instance, known_options, not_an_operation, not_operations, paths
from ._budgets import budgets_of, device_whole, whole_of
from ._callers import Callers
from ._capi import ffi, lib
from ._core import Closable, entered, nanoseconds, text_or_null, watch
from ._outputs import exported, listed, saved
from ._pool_calls import Asking, losses
from ._sizes import MACHINE, Size, size_in_bytes
from .buffer import Allocation, Buffer, BufferOptions
from .client import Client
from .context import Context
from .errors import check
from .lease import Lease, Operation, PendingLease, Prepared, Use, check_set, fill_uses
from .records import (
    CodecStats,
    DefragmentReport,
    DeviceInfo,
    DeviceLoss,
    LostRange,
    Piece,
    PoolDeviceStats,
    PoolStats,
    record,
    shares,
    sized,
)
from .stream import Stream

_NEVER: int = lib.WEIR_NONE
_POOL_DEVICE = "weir_pool_device *"
_OWN_NUMBERS = 65536  # of names of operations


class Pool(Closable):
    """A pool over devices of one backend. Made by `Context.pool`. Closing it ends its buffers and clients; Busy while leases or
    memory of `malloc` are out.

    Sizes are bytes or texts such as "16G". Times are seconds, and `math.inf` is never. 0 and None are the defaults that are told
    here.

    Budgets, tier by tier:
      devices: what it may hold of each device's memory, as {device: size}, or one size for device 0. A share such as "80%" is of
        the memory that the device has at that moment, used or not.
      host_budget: pinned host memory. None or 0 follows what the machine and the cgroup have to spare; `weir.NONE` is nothing but
        for staging. A share is of the machine's memory.
      compressed_budget: pageable host memory for compressed pages; 0 is no such tier. A share is of the machine's memory.
      storage_budget: spill files in all, which are preallocated; 0 is no such tier.
      storage_paths: the folder for them, or several to stripe over. They must exist.
      record_budget: host memory that the pool's own records may take (0: 1/64 of the machine's memory; `weir.UNLIMITED`: no limit).
        A share is of the machine's memory.

    How memory is cut:
      page_size: 0 is the largest of the devices' granules (4 MiB where that is 2 MiB and every budget has 64 of them); else a power
        of two times that granule, at most 1 GiB.
      large_page_size: of the pages of large buffers. 0 is chosen by the budget; equal to page_size is one class of pages only.
      segment_size: what device memory is taken in where a device has no virtual memory management (0: an eighth of what is held,
        from 32 MiB on).

    What leaves, and when:
      policy: what decides which page goes ("auto": by what it has learned of the program; "lru-window": what was used longest ago;
        None: "auto" in pools that are large enough, see docs/policies.md, else "lru-window").
      policy_memory: host memory for what "auto" learns, at least "2M" (0: "32M", or a quarter of record_budget).
      policy_cpu_percent: how much of one CPU "auto" may use to learn and plan (0: 10).
      name_operations: an acquire without `operation` is named by the function that asks for it (None: unless the policy is said to
        be "lru-window", which looks at no names). May be set later: `pool.name_operations = False`.
      watermark_low_permille: when less than so many thousandths of a device's budget are free, pages are moved down in the
        background (0: 10),
      watermark_high_permille: until so many are (0: 30).
      evict_wait: how long one eviction may wait for work of leases that have been released (None: 10 s).
      idle_grace: device memory that was not needed for this long goes back to the system (None: 10 s).
      rebalance_rate: bytes a second that move from HOST and below to neighbours with memory to spare (0: "1G"; `weir.NONE`:
        only by `rebalance`).
      background: False has no work done ahead of demand by threads of the pool.
      peer: False has no page go to a neighbour's idle memory: HOST is the first place then.

    The tiers below:
      codec: what compressed pages are coded with: "auto" (None) or one method, such as "lz4".
      compress_threads: threads that compress (0: a quarter of the CPUs).
      compress_share_percent: how much of a CPU each of them may use in the background (0: 100).
      recompress_idle: compressed pages that were not used for this long are compressed again, harder (None: 10 s).
      checksum_host: True checks pages of HOST too when they come back; those below always are.
      encrypt_storage: True encrypts what is spilled, with a key that only this process has.
      buffered_storage: True spills through the page cache, not past it.
      io_uring: False reads and writes by threads.

    name: for logs and snapshots (None: "pool")."""

    _kind = "pool"
    _waits = True

    def __init__(
        self,
        context: Context,
        devices: Size | Mapping[int, Size] | Mapping[DeviceInfo, Size],
        *,
        host_budget: Size | None = None,
        compressed_budget: Size = 0,
        storage_budget: Size = 0,
        storage_paths: Paths = (),
        name: str | None = None,
        policy: str | None = None,
        name_operations: bool | None = None,
        codec: str | None = None,
        page_size: Size = 0,
        large_page_size: Size = 0,
        segment_size: Size = 0,
        watermark_low_permille: int = 0,
        watermark_high_permille: int = 0,
        compress_threads: int = 0,
        compress_share_percent: int = 0,
        evict_wait: float | None = None,
        idle_grace: float | None = None,
        recompress_idle: float | None = None,
        rebalance_rate: Size = 0,
        record_budget: Size = 0,
        policy_memory: Size = 0,
        policy_cpu_percent: int = 0,
        background: bool = True,
        peer: bool = True,
        checksum_host: bool = False,
        encrypt_storage: bool = False,
        buffered_storage: bool = False,
        io_uring: bool = True,
    ) -> None:
        budgets = budgets_of(instance(context, Context, "context", "; `context.pool(size)` makes a pool"), devices)
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
        desc.host_budget = size_in_bytes(host_budget or 0, "host_budget", MACHINE)
        desc.compressed_budget = size_in_bytes(compressed_budget, "compressed_budget", MACHINE)
        desc.storage_budget = size_in_bytes(storage_budget, "storage_budget")
        folders = [text_or_null(path) for path in paths(storage_paths)]
        path_list = ffi.new("char *[]", [*folders, ffi.NULL])
        desc.storage_paths, desc.storage_path_count = (path_list if folders else ffi.NULL), len(folders)
        texts = [text_or_null(name), text_or_null(policy), text_or_null(codec)]
        desc.name, desc.policy, desc.codec = texts
        desc.page_size = size_in_bytes(page_size, "page_size")
        desc.large_page_size = size_in_bytes(large_page_size, "large_page_size")
        desc.segment_size = size_in_bytes(segment_size, "segment_size")
        desc.watermark_low_permille, desc.watermark_high_permille = watermark_low_permille, watermark_high_permille
        desc.compress_threads, desc.compress_share_percent = compress_threads, compress_share_percent
        desc.evict_wait_ns = nanoseconds(evict_wait)
        desc.idle_grace_ns = nanoseconds(idle_grace, infinite=_NEVER)
        desc.recompress_idle_ns = nanoseconds(recompress_idle, infinite=_NEVER)
        desc.rebalance_bytes_per_second = size_in_bytes(rebalance_rate, "rebalance_rate")
        desc.record_budget = size_in_bytes(record_budget, "record_budget", MACHINE)
        desc.policy_memory = size_in_bytes(policy_memory, "policy_memory", MACHINE)
        desc.policy_cpu_percent = policy_cpu_percent
        out = ffi.new("weir_pool *")
        with entered(context):
            check(lib.weir_pool_create(context._raw, desc, out))
        self._take(context, out[0], True)
        self.name_operations = policy != "lru-window" if name_operations is None else bool(name_operations)
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
        self._operations: dict[str, int] = {}  # the numbers of names that were asked for
        self._callers = Callers()
        self.name_operations = True
        self._begin(raw, owned)

    def _destroy(self) -> int:
        return int(lib.weir_pool_destroy(self._raw))

    def _at_exit(self, rank: int) -> None:
        self.close()

    @property
    def context(self) -> Context:
        return self._context

    # ---- leases ----

    def operation_id(self, name: str) -> int:
        """The number of an operation's name in this pool: 1 and up, the same for the same name as long as the pool lives.
        `acquire`, `prepare`, `acquire_async` and `Operation` take it in the name's place, and ask for it where they are given a
        name. A name has 1 to 1023 bytes. 65,536 names of a pool have numbers of their own, and all further ones share one
        (`PoolStats.shared_operation_ids`)."""
        if not isinstance(name, str):
            raise not_an_operation(name)
        number = self._operations.get(name)
        if number is not None:
            return number
        if "\0" in name:
            raise ValueError("the name of an operation has no zero bytes")
        out = ffi.new("uint32_t *")
        with entered(self):
            check(lib.weir_operation_id(self._raw, name.encode("utf-8", "surrogateescape"), out))
        number = int(out[0])
        if number <= _OWN_NUMBERS:  # the shared one is counted each time it is given
            self._operations[name] = number
        return number

    def _number_of(self, operation: str | int | None) -> int:
        """What C takes: 0 is no operation."""
        if operation is None:
            return 0
        if isinstance(operation, str):
            return self.operation_id(operation)
        if type(operation) is int and 0 <= operation < 1 << 32:
            return operation
        raise not_an_operation(operation)

    def acquire(
        self,
        stream: Stream,
        *uses: Use,
        timeout: float | None = None,
        sole_holder: bool = False,
        operation: str | int | None = None,
    ) -> Lease:
        """Acquires a set of uses on a stream, all or nothing. `timeout` in seconds is how long to wait for others (None: not);
        `math.inf` needs `sole_holder`, the word that this thread holds no other lease. `operation` is the name of what is going to
        be done, for the policy to learn from, or the number of that name (`operation_id`), or 0 for none; without it the place of
        the call is the name (`name_operations`). Use it as a context manager:

            with pool.acquire(stream, weir.read(a), weir.overwrite(b)) as lease:
                enqueue(stream, lease.address(0), lease.address(1))

        Errors: LeaseConflict, OverBudget, WouldBlock, Timeout, ..."""
        if operation is None and self.name_operations:
            operation = self._callers.number_of(sys._getframe(1), self)
        return Prepared(self, stream, uses, timeout, sole_holder, operation, "acquire").acquire()

    def prepare(
        self,
        stream: Stream,
        *uses: Use,
        timeout: float | None = None,
        sole_holder: bool = False,
        operation: str | int | None = None,
    ) -> Prepared:
        """A set that is going to be acquired often: `with prepared.acquire() as lease`."""
        if operation is None and self.name_operations:
            operation = self._callers.number_of(sys._getframe(1), self)
        return Prepared(self, stream, uses, timeout, sole_holder, operation)

    def acquire_async(
        self,
        stream: Stream,
        *uses: Use,
        timeout: float | None = None,
        sole_holder: bool = False,
        operation: str | int | None = None,
    ) -> PendingLease:
        """As acquire, on a thread of the pool: a Future of the lease, and awaitable. Requests of a pool run in order."""
        if operation is None and self.name_operations:
            operation = self._callers.number_of(sys._getframe(1), self)
        return PendingLease(Prepared(self, stream, uses, timeout, sole_holder, operation, "acquire_async"))

    def prefetch(self, stream: Stream, *uses: Use) -> None:
        """Starts bringing the uses' bytes to the stream's device; a hint that returns at once."""
        check_set("prefetch", stream, uses)
        with entered(self, stream, *(use.buffer for use in uses)):
            check(lib.weir_prefetch(self._raw, stream._raw, fill_uses(uses), len(uses)))

    def announce(self, stream: Stream, operations: Sequence[Operation], *, replace: bool = False) -> None:
        """Tells what the next acquires on the stream will use, in order. No operations with `replace` clears."""
        check_set("announce", stream, ())
        if not isinstance(operations, Sequence) or not all(map(_is_operation, operations)):
            raise not_operations(operations)
        native = ffi.new("weir_operation[]", max(1, len(operations)))
        with entered(self, stream, *(use.buffer for each in operations for use in each.uses)):
            keep = []
            for target, each in zip(native, operations):
                uses = fill_uses(each.uses)
                target.uses, target.use_count = uses, len(each.uses)
                target.operation_id = self._number_of(each.name)
                keep.append(uses)
            flags = lib.WEIR_ANNOUNCE_REPLACE if replace else 0
            check(lib.weir_announce(self._raw, stream._raw, native, len(operations), flags))

    # ---- buffers, clients, memory ----

    def buffer(self, size: Size | BufferOptions, **options: Any) -> Buffer:
        """A new buffer, of bytes or of a text such as "2G"; the options are those of `BufferOptions`. It reads as zero and
        occupies nothing until it is used: many times the device's memory may be made."""
        known_options("Pool.buffer", BufferOptions, options, 1)
        return Buffer(self, size if isinstance(size, BufferOptions) else BufferOptions(size, **options))

    def buffer_from(self, data: Any, **options: Any) -> Buffer:
        """A new buffer with the bytes of an object of the buffer protocol, such as a contiguous NumPy array."""
        bytes_like(data, "data")
        with memoryview(data) as memory:
            buffer = self.buffer(memory.nbytes, **options)
        try:
            buffer.write(data)
        except BaseException:
            buffer.close()
            raise
        return buffer

    def place(self, options: Sequence[BufferOptions]) -> list[int]:
        """Homes for several buffers that are going to be made, chosen together by links, users and what devices have promised.
        Give each as `home` to the buffer."""
        with entered(self, *(each.client for each in options if each.client is not None)):
            natives = [each._native() for each in options]
            array = ffi.new("weir_buffer_desc *[]", [native for native, _ in natives])
            homes = ffi.new("weir_device[]", max(1, len(options)))
            check(lib.weir_buffer_place(self._raw, array, len(options), homes))
            return [int(home) for home in homes][: len(options)]

    def client(self, name: str = "", **options: Any) -> Client:
        """A client, which bytes are charged to; the options are those of `Client`: priority, device_quota, host_quota,
        compressed_quota and storage_quota."""
        known_options("Pool.client", Client.__init__, options, 3)
        return Client(self, name, **options)

    def malloc(self, size: Size, *, device: int = enums.DEFAULT, stream: Stream | None = None) -> Allocation:
        """Stream-ordered memory that is always resident; `stream` None: ready for any stream. A share such as "10%" is of the
        device's memory."""
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

    def save_policy(self) -> bytes:
        """What the pool's policy has learned of the program, for `load_policy` of a later pool, also in another process. At most
        64 MiB: names of operations, sizes and orders, and nothing of any content. What was acquired before is in it. It is a
        cache: another release of the library may refuse it. `NotSupported`: the pool's policy learns nothing."""
        with entered(self):
            return saved(lambda *out: lib.weir_pool_policy_save(self._raw, *out))

    def load_policy(self, data: Any) -> None:
        """Has the pool's policy know what another has learned (`save_policy`: bytes, or what has them), so that the first round of
        the program is planned as a later one would be. Before the pool's first acquire. `Corrupt`: they are damaged;
        `NotSupported`: of another version, policy or page size. The pool is as it was then."""
        bytes_like(data, "data")
        with entered(self):
            view = ffi.from_buffer(data)
            check(lib.weir_pool_policy_load(self._raw, view, len(view)))

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

    def trim(self, size: Size = lib.WEIR_UNLIMITED, *, device: int = enums.DEFAULT, level: int = enums.Trim.GRADUAL) -> int:
        """Gives memory back to the system, until `size` bytes are freed or nothing more can go; how many were. `level` is how hard
        it tries, a `weir.Trim`; `device` may be weir.HOST. A share such as "50%" is of the device's memory."""
        freed = ffi.new("uint64_t *")
        wanted = size_in_bytes(size, "size", whole_of(self, device))
        with entered(self):
            check(lib.weir_pool_trim(self._raw, device_number(device), level, wanted, freed))
        return int(freed[0])

    def defragment(
        self,
        device: int = enums.ALL,
        *,
        wait: bool = False,
        evict: bool = False,
        max_bytes: Size = 0,
        max_moves: int = 0,
        max_time: float | None = None,
        max_cost_permille: int = 0,
        should_stop: Callable[[], bool] | None = None,
    ) -> DefragmentReport:
        """Moves small buffers together, so that larger ranges are free.

        device: one of the pool's, or `weir.ALL`.
        wait: until the copies have ended, so that what is won is free when this returns; else a later call frees the rest.
        evict: without virtual memory management, what is in the way of a longer range and fits nowhere else is evicted.
        max_bytes, max_moves, max_time: at most so much is moved, so many moves, so many seconds; 0 and None are no bound.
        max_cost_permille: bytes that may be moved for a thousand bytes won; what costs more is left alone (0: 1000).
        should_stop: asked between two steps; True ends the call. What it raises ends the call too, and is raised."""
        desc = sized("weir_defragment_desc")
        desc.device = device
        desc.flags = (lib.WEIR_DEFRAGMENT_WAIT if wait else 0) | (lib.WEIR_DEFRAGMENT_EVICT if evict else 0)
        desc.max_bytes, desc.max_moves, desc.max_ns = size_in_bytes(max_bytes, "max_bytes"), max_moves, nanoseconds(max_time)
        desc.max_cost_permille = max_cost_permille
        asking = None if should_stop is None else Asking(should_stop)
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
        self, threshold_permille: int, *, bytes_per_second: Size = 0, max_cost_permille: int = 0
    ) -> None:
        """Defragmentation in the background, above so many thousandths of fragmentation; 0 ends it. It moves at most
        `bytes_per_second` (0: "256M"); `max_cost_permille` is as in `defragment` (0: 500)."""
        desc = sized("weir_defragmentation_desc")
        desc.threshold_permille, desc.bytes_per_second = threshold_permille, size_in_bytes(bytes_per_second, "bytes_per_second")
        desc.max_cost_permille = max_cost_permille
        with entered(self):
            check(lib.weir_pool_set_defragmentation(self._raw, desc))

    # ---- devices that come and go ----

    def add_device(self, device: int, budget: Size) -> None:
        """Adds a device of the context, while the pool is used. A budget such as "80%" is of the device's memory."""
        entry = ffi.new(_POOL_DEVICE)
        entry.device = device_number(device)
        entry.budget = size_in_bytes(budget, "budget", device_whole(self._context, device))
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

    def rebalance(self, size: Size) -> int:
        """Copies up to `size` bytes of spilled pages to neighbours that have memory to spare; how many it were."""
        moved = ffi.new("uint64_t *")
        wanted = size_in_bytes(size, "size")
        with entered(self):
            check(lib.weir_pool_rebalance(self._raw, wanted, moved))
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
            losses.pop(self._number, None)
        else:
            losses[self._number] = user

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


def _is_operation(each: Any) -> bool:
    """What `announce` takes; an Operation is a tuple, and so is a Use."""
    return isinstance(each, Operation) and not isinstance(each.uses, Use) and all(isinstance(use, Use) for use in each.uses)

# SPDX-License-Identifier: Apache-2.0
"""Buffers: virtual allocations whose bytes live wherever the pool has room; holds, and memory of `Pool.malloc`."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import enums
from ._arguments import bytes_like, device_number, instance, name_of_buffer
from ._budgets import whole_of
from ._capi import ffi, lib
from ._core import Closable, _end, entered, put_off_or_run, retry_abandoned, watch
from ._outputs import exported, listed
from ._sizes import Size, size_in_bytes
from .errors import Busy, Closed, InvalidHandle, check, make
from .records import BufferInfo, Shard, record, sized

if TYPE_CHECKING:
    from .client import Client
    from .pool import Pool
    from .stream import Stream

_POLICIES = {"striped": lib.WEIR_SHARD_STRIPED, "blocked": lib.WEIR_SHARD_BLOCKED}
_LOSSY = {None: 0, "bf16": lib.WEIR_BUFFER_LOSSY_BF16, "f16": lib.WEIR_BUFFER_LOSSY_F16}


def _range(offset: Size, length: Size | None) -> tuple[int, int]:
    """A range of the C API; None is to the buffer's end."""
    start = size_in_bytes(offset, "offset")
    return start, int(lib.WEIR_WHOLE) if length is None else size_in_bytes(length, "length")


@dataclasses.dataclass
class Shards:
    """How one buffer is dealt out to several devices of the pool, at one address on all of them.

    devices: their numbers, in the order in which they get their parts.
    policy: "striped" (stripes in turn) or "blocked" (one run of bytes for each device, in their order).
    weights: how much each device gets, as small whole numbers such as (3, 1); empty: all alike.
    stripe: the size of a stripe, a multiple of the pool's page size; 0 is a page. Blocks have none."""

    devices: Sequence[int]
    policy: str = "striped"
    weights: Sequence[int] = ()
    stripe: Size = 0

    def _native(self) -> tuple[Any, Any]:
        """The descriptor, and what must live as long as it is used."""
        if self.policy not in _POLICIES:
            raise ValueError(f"policy={self.policy!r}; there are 'striped' and 'blocked'")
        devices, weights = list(self.devices), list(self.weights)
        if weights and len(weights) != len(devices):  # the library would read past their end, or ignore some
            raise ValueError(f"{len(weights)} weights for {len(devices)} devices")
        desc = sized("weir_shard_desc")
        keep = ffi.new("weir_device[]", devices), ffi.new("uint32_t[]", weights)
        desc.policy, desc.stripe = _POLICIES[self.policy], size_in_bytes(self.stripe, "stripe")
        desc.devices, desc.device_count = keep[0], len(devices)
        desc.weights = keep[1] if weights else ffi.NULL
        return desc, keep


@dataclasses.dataclass
class BufferOptions:
    """What a buffer is to be.

    size: bytes, or a text such as "2G".
    priority: its eviction class, a `weir.Priority` or any number between: lower ones leave a device first.
    alignment: of its address, a power of two up to the page size; 0 is 256.
    client: what its bytes are charged to; None is the pool alone.
    home: the device where it is expected to be used: a number, `weir.DEFAULT` (the pool's first) or `weir.ANY` (Weir chooses).
    element: what its bytes are, a `weir.Element`; it helps compression and never changes them.
    tag: a number of the program's own, which snapshots and maps repeat.
    users: the devices that will use it, for the choice of a home with `weir.ANY`.
    shards: deals it out to several devices.
    stable_address: it keeps one address for life. NotSupported without virtual memory management.
    scrub: every copy of its bytes is overwritten with zeros when it stops being one.
    lossy: "bf16" or "f16": 32-bit floats may be rounded to that on their way into COMPRESSED. None loses nothing.
    name: what errors, reports and snapshots call it; see `Buffer.name`."""

    size: Size
    priority: int = enums.Priority.NORMAL
    alignment: Size = 0
    client: Client | None = None
    home: int = enums.DEFAULT
    element: int = enums.Element.ANY
    tag: int = 0
    users: Sequence[int] = ()
    shards: Shards | None = None
    stable_address: bool = False
    scrub: bool = False
    lossy: str | None = None
    name: str = ""

    def _native(self) -> tuple[Any, Any]:
        """The descriptor, and what must live as long as it is used."""
        if self.lossy not in _LOSSY:
            raise ValueError(f"lossy={self.lossy!r}; there are 'bf16' and 'f16'")
        desc = sized("weir_buffer_desc")
        desc.size, desc.priority = _buffer_size(self.size), self.priority
        desc.alignment = size_in_bytes(self.alignment, "alignment")
        desc.client = ffi.NULL if self.client is None else self.client._raw
        desc.home, desc.element, desc.tag = device_number(self.home, "home"), self.element, self.tag
        users = ffi.new("weir_device[]", list(self.users))
        desc.users, desc.user_count = (users if self.users else ffi.NULL), len(self.users)
        shards, of_shards = (ffi.NULL, None) if self.shards is None else self.shards._native()
        desc.shards = shards
        name = ffi.new("char[]", name_of_buffer(self.name))
        desc.name = name
        desc.flags = (
            (lib.WEIR_BUFFER_STABLE_ADDRESS if self.stable_address else 0)
            | (lib.WEIR_BUFFER_SCRUB if self.scrub else 0)
            | _LOSSY[self.lossy]
        )
        return desc, (users, shards, of_shards, name)


def _buffer_size(size: Any) -> int:
    """A buffer's size; what has bytes of its own was meant for `Pool.buffer_from`."""
    if isinstance(size, (bytes, bytearray, memoryview)) or (hasattr(size, "nbytes") and getattr(size, "ndim", 0) > 0):
        raise TypeError(f"size is a {type(size).__name__}; did you mean Pool.buffer_from(data), a buffer with its bytes?")
    return size_in_bytes(size, "size")


def _check_stream(stream: Any) -> None:
    from .stream import Stream

    if stream is not None:
        instance(stream, Stream, "stream")


class Buffer(Closable):
    """Made by `Pool.buffer`. It ends when it is closed or no longer referred to: like memory, dropping it is no leak."""

    _kind = "buffer"
    _warns = False

    def __init__(self, pool: Pool, options: BufferOptions) -> None:
        from .client import Client
        from .pool import Pool

        instance(pool, Pool, "pool", "; `pool.buffer(size)` makes a buffer")
        instance(options, BufferOptions, "options", "; `pool.buffer(size, ...)` makes a buffer")
        if options.client is not None:
            instance(options.client, Client, "client", "; `pool.client(name)` makes one")
        if options.shards is not None:
            instance(options.shards, Shards, "shards", ", such as weir.Shards(devices=[0, 1])")
        out = ffi.new("weir_buffer *")
        with entered(pool) if options.client is None else entered(pool, options.client):
            desc, keep = options._native()
            check(lib.weir_buffer_create(pool._raw, desc, out))
            size = int(desc.size)
            del keep
        self._take(pool, out[0], size, True)
        self._client = options.client  # a client may not go before its buffers

    @classmethod
    def from_handle(cls, pool: Pool, handle: int, *, owned: bool = False) -> Buffer:
        """A buffer that another language in this process has made."""
        self = cls.__new__(cls)
        self._client = None
        info = sized("weir_buffer_info")
        raw = ffi.cast("weir_buffer", handle)
        with entered(pool):
            check(lib.weir_buffer_info_get(pool._raw, raw, 0, lib.WEIR_WHOLE, info))
        self._take(pool, raw, info.size, owned)
        return self

    def _take(self, pool: Pool, raw: Any, size: int, owned: bool) -> None:
        self._pool = pool
        self._size = size
        self._registered: Any = None
        self._begin(raw, owned)
        pool._buffers[self._number] = self

    def _destroy(self) -> int:
        try:
            with entered(self._pool):
                result = int(lib.weir_buffer_destroy(self._pool._raw, self._raw))
        except Closed:  # it died with its pool, unless that is only trying to close
            if not self._pool.closed:
                raise make(Busy.result, "the pool is being closed") from None
            result = 0
        if result == 0:
            self._registered = None
            self._pool._buffers.pop(self._number, None)
        return result

    @property
    def pool(self) -> Pool:
        return self._pool

    @property
    def closed(self) -> bool:
        return super().closed or self._pool.closed

    @property
    def size(self) -> int:
        """Bytes, as asked for."""
        return self._size

    @property
    def name(self) -> str:
        """What errors, reports and snapshots call it; "" if it has none. It may be set: the first 255 bytes of the text in UTF-8
        are kept, up to the end of a character, and "" takes the name away. Names need not differ, and mean nothing to Weir."""
        with self._within():
            return exported(lambda *out: lib.weir_buffer_name(self._pool._raw, self._raw, *out), 256)

    @name.setter
    def name(self, name: str) -> None:
        text = name_of_buffer(name)
        with self._within():
            check(lib.weir_buffer_set_name(self._pool._raw, self._raw, text))

    def __len__(self) -> int:
        return self._size

    def _within(self) -> entered:
        return entered(self._pool, self)

    def query(self, offset: Size = 0, length: Size | None = None) -> BufferInfo:
        """Where the bytes of a range are."""
        info = sized("weir_buffer_info")
        start, count = _range(offset, length)
        with self._within():
            check(lib.weir_buffer_info_get(self._pool._raw, self._raw, start, count, info))
        return record(BufferInfo, info)

    def shards(self, offset: Size = 0) -> list[Shard]:
        """The layout, from the run on that byte `offset` is in; a buffer without shards is one run on its home. It changes only
        when a device leaves the pool. Where the bytes are at present is `query`'s to tell."""
        start = size_in_bytes(offset, "offset")
        with self._within():
            return listed(
                "weir_shard[]",
                lambda *out: lib.weir_buffer_shards(self._pool._raw, self._raw, start, *out),
                lambda run: Shard(run.offset, run.length, run.device),
            )

    def read(self, offset: Size = 0, length: Size | None = None) -> bytearray:
        """A copy of the bytes, from whatever tier they are on."""
        start, count = _range(offset, length)
        out = bytearray(max(0, self._size - start) if length is None else count)
        self.read_into(out, start)
        return out

    def read_into(self, target: Any, offset: Size = 0) -> None:
        """Copies bytes out into a writable object of the buffer protocol, as many as it has."""
        bytes_like(target, "target")
        start = size_in_bytes(offset, "offset")
        with ffi.from_buffer("char[]", target, require_writable=True) as memory, self._within():
            check(lib.weir_buffer_read(self._pool._raw, self._raw, start, len(memory), memory))

    def write(self, source: Any, offset: Size = 0) -> None:
        """Copies the bytes of an object of the buffer protocol (bytes, a contiguous NumPy array) in."""
        bytes_like(source, "source")
        start = size_in_bytes(offset, "offset")
        with ffi.from_buffer("char[]", source) as memory, self._within():
            check(lib.weir_buffer_write(self._pool._raw, self._raw, start, len(memory), memory))

    def advise(self, advice: enums.Advice, offset: Size = 0, length: Size | None = None) -> None:
        """A hint; it may be ignored and never changes contents."""
        start, count = _range(offset, length)
        with self._within():
            check(lib.weir_advise(self._pool._raw, self._raw, start, count, advice))

    def discard(self, offset: Size = 0, length: Size | None = None) -> None:
        """The contents of the range are no longer needed: whole pages inside it read as zero from then on."""
        start, count = _range(offset, length)
        with self._within():
            check(lib.weir_discard(self._pool._raw, self._raw, start, count))

    def set_priority(self, priority: int) -> None:
        """Changes the eviction class."""
        with self._within():
            check(lib.weir_buffer_set_priority(self._pool._raw, self._raw, priority))

    def hold(self, device: int = enums.DEFAULT, mode: enums.HoldMode = enums.HoldMode.SHARED) -> Hold:
        """Makes the whole buffer resident on a device until the hold is released, without a lease. What is written there, by
        any code, is the latest version. Holds of one mode nest, but for ALONE."""
        return Hold(self, device, mode)

    def register_host(self, memory: Any, *, load: bool = False) -> None:
        """Gives the buffer a page-aligned object of the buffer protocol as the home of its HOST copies. The object is kept, and
        must not be touched, until `unregister_host` or the buffer's end. With `load` its contents become the buffer's."""
        taken = ffi.from_buffer("char[]", memory, require_writable=True)
        if len(taken) < self._size:
            raise ValueError(f"memory of {len(taken)} bytes for a buffer of {self._size}")
        with self._within():
            flags = lib.WEIR_HOST_LOAD if load else 0
            check(lib.weir_host_register(self._pool._raw, self._raw, taken, flags))
        self._registered = taken

    def unregister_host(self) -> None:
        """Writes the latest contents to the registered memory, and parts from it."""
        with self._within():
            check(lib.weir_host_unregister(self._pool._raw, self._raw))
        self._registered = None


class Hold:
    """A buffer that stays on a device; a context manager. Nothing enqueued under it may run when it is released."""

    def __init__(self, buffer: Buffer, device: int, mode: enums.HoldMode = enums.HoldMode.SHARED) -> None:
        self._buffer: Buffer | None = None
        use, flags = enums.HoldMode(mode).value
        out = ffi.new("uint64_t *")
        with buffer._within():
            check(lib.weir_hold_as(buffer._pool._raw, buffer._raw, device_number(device), use, flags, out))
        self._buffer = buffer
        self._address = int(out[0])
        watch(1, self)

    @property
    def address(self) -> int:
        """Where the buffer is on the device."""
        if self._buffer is None:
            raise ValueError("the hold has been released")
        return self._address

    @property
    def buffer(self) -> Buffer | None:
        """The buffer; None once released."""
        return self._buffer

    def release(self) -> None:
        """Undoes the hold; doing it twice is allowed."""
        buffer, self._buffer = self._buffer, None
        if buffer is None:
            return
        try:
            with buffer._within():
                check(lib.weir_unhold(buffer._pool._raw, buffer._raw))
        except Closed:
            if not buffer.closed:  # it, or its pool, is only trying to close
                self._buffer = buffer
                raise make(Busy.result, "the buffer of this hold is being closed") from None
            return
        except InvalidHandle:  # it ended with its pool
            return
        except BaseException:
            self._buffer = buffer
            raise
        retry_abandoned()

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *unused: object) -> None:
        self.release()

    def _at_exit(self, rank: int) -> None:
        self.release()

    def _drop(self) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_buffer", None) is not None:
            drop_with_warning(self)


class Allocation:
    """Memory of `Pool.malloc`: always resident, never moved. A context manager."""

    def __init__(self, pool: Pool, size: Size, device: int, stream: Stream | None) -> None:
        self._pool: Pool | None = None
        count = size_in_bytes(size, "size", whole_of(pool, device_number(device)))
        _check_stream(stream)
        out = ffi.new("uint64_t *")
        raw = ffi.NULL if stream is None else stream._raw
        with entered(pool) if stream is None else entered(pool, stream):
            check(lib.weir_malloc(pool._raw, device, raw, count, out))
        self._pool = pool
        self._address = int(out[0])
        self._stream = stream  # dropped without free(), it is freed in the order of this stream
        self.size = count
        watch(1, self)

    @property
    def address(self) -> int:
        """Where it is, for work enqueued on the stream from now on."""
        if self._pool is None:
            raise ValueError("the memory has been freed")
        return self._address

    def free(self, stream: Stream | None = None) -> None:
        """Frees it after the work enqueued so far on `stream` (None: now). Freeing twice is allowed."""
        _check_stream(stream)
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            with entered(pool) if stream is None else entered(pool, stream):
                check(lib.weir_free(pool._raw, ffi.NULL if stream is None else stream._raw, self._address))
        except BaseException:
            self._pool = pool
            raise
        retry_abandoned()

    def __enter__(self) -> Allocation:
        return self

    def __exit__(self, *unused: object) -> None:
        self._drop()

    def _drop(self) -> None:
        stream = self._stream
        self.free(None if stream is None or stream.closed else stream)

    def _at_exit(self, rank: int) -> None:
        self._drop()

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            drop_with_warning(self)


def drop_with_warning(which: Any) -> None:
    """The finalizer of what should have been ended: tells of it, and ends it as soon as it may."""
    if sys is None or sys.is_finalizing() or _end.running:
        return
    kind = type(which).__name__.lower()
    warnings.warn(f"{kind} dropped without being released; `with` releases it", ResourceWarning, source=which, stacklevel=3)
    put_off_or_run(which)

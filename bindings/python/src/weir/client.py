# SPDX-License-Identifier: Apache-2.0
"""Clients: what the bytes of a pool are charged to, with quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import enums
from ._arguments import instance
from ._budgets import smallest_of
from ._capi import ffi, lib
from ._core import Closable, entered, text_or_null
from ._sizes import MACHINE, Size, size_in_bytes
from .errors import Busy, Closed, check, make
from .records import ClientStats, record, sized

if TYPE_CHECKING:
    from .pool import Pool


def _pool_class() -> type[Pool]:
    from .pool import Pool

    return Pool


class Client(Closable):
    """What bytes are charged to: a tenant, a model, a part of the program. Made by `Pool.client`.

    name: for logs and snapshots.
    priority: of its buffers where the pool has to choose; a `weir.Priority` or any number between.
    device_quota: bytes that it may hold on each device. A share is of the memory of the pool's smallest device.
    host_quota: bytes that it may hold in HOST. A share is of the machine's memory.
    compressed_quota: bytes that it may hold in COMPRESSED, as compressed. A share is of the machine's memory.
    storage_quota: bytes that it may hold in STORAGE, as stored.

    A quota of 0 is the pool's budget, and `weir.NONE` is nothing at all."""

    _kind = "client"
    _warns = False

    def __init__(
        self,
        pool: Pool,
        name: str = "",
        *,
        priority: int = enums.Priority.NORMAL,
        device_quota: Size = 0,
        host_quota: Size = 0,
        compressed_quota: Size = 0,
        storage_quota: Size = 0,
    ) -> None:
        instance(pool, _pool_class(), "pool", "; `pool.client(name)` makes a client")
        desc = sized("weir_client_desc")
        text = text_or_null(name)
        desc.name, desc.priority = text, priority
        desc.device_quota = size_in_bytes(device_quota, "device_quota", smallest_of(pool))
        desc.host_quota = size_in_bytes(host_quota, "host_quota", MACHINE)
        desc.compressed_quota = size_in_bytes(compressed_quota, "compressed_quota", MACHINE)
        desc.storage_quota = size_in_bytes(storage_quota, "storage_quota")
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

# SPDX-License-Identifier: Apache-2.0
"""The C API's output structs as frozen dataclasses, and how they are made. Sizes are bytes, times named `_ns` nanoseconds.

Fields have the names of the headers; a test compares the two. A library that is newer than the headers never adds any; its
new kinds and methods stay numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from . import _tables, enums
from ._capi import ffi

T = TypeVar("T")


def _string(value: Any) -> str:
    return "" if value == ffi.NULL else ffi.string(value).decode(errors="replace")


def known_or_number(kind: type[Any]) -> Callable[[Any], Any]:
    """Makes members of an enumeration; a number that a newer library has and these headers do not stays a number."""
    return lambda value: kind(value) if value in kind._value2member_map_ else value


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "bool": bool,
    "str": _string,
    "bytes": lambda value: bytes(ffi.buffer(value)),
    "enums.Capability": enums.Capability,
    "enums.LinkKind": known_or_number(enums.LinkKind),
    "enums.LinkFigure": known_or_number(enums.LinkFigure),
    "enums.DeviceState": known_or_number(enums.DeviceState),
    "enums.PieceState": known_or_number(enums.PieceState),
    "enums.Tier": known_or_number(enums.Tier),
}
_plans: dict[type[Any], list[tuple[str, Callable[[Any], Any]]]] = {}


def record(cls: type[T], struct: Any, **others: Any) -> T:
    """An instance of a dataclass from a struct; `others` are fields that the struct can't give."""
    plan = _plans.get(cls)
    if plan is None:
        plan = _plans[cls] = [
            (field.name, _CONVERT[str(field.type)])
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]
            if str(field.type) in _CONVERT
        ]
    values = {name: convert(getattr(struct, name)) for name, convert in plan if name not in others}
    return cls(**values, **others)


def sized(name: str) -> Any:
    """A zeroed struct with its struct_size set."""
    struct = ffi.new(name + " *")
    struct.struct_size = ffi.sizeof(name)
    return struct


@dataclasses.dataclass(frozen=True)
class BackendInfo:
    """What became of one backend."""

    available: bool
    device_count: int
    first_device: int
    name: str
    version: str
    reason: str  #: why it is not available, "" if it is
    path: str


@dataclasses.dataclass(frozen=True)
class DeviceInfo:
    """A device of a context. Calls that take a device's number take this in its place."""

    index: int  #: the number that names it
    backend: int
    capabilities: enums.Capability
    memory_total: int
    memory_free: int
    granule: int
    numa_node: int
    name: str
    pci_address: str
    uuid: bytes
    parent: int
    partition: int
    partition_count: int

    def __index__(self) -> int:
        return self.index


@dataclasses.dataclass(frozen=True)
class LinkInfo:
    """The path between two places."""

    kind: enums.LinkKind
    bandwidth: int  #: bytes a second one way, 0 = unknown
    latency_ns: int
    hops: int
    direct: bool
    source: enums.LinkFigure
    reported_source: enums.LinkFigure
    reported_bandwidth: int
    shared_with: int


@dataclasses.dataclass(frozen=True)
class CalibrateReport:
    """What became of the links that were measured."""

    measured: int
    failed: int
    skipped: int
    saved: int
    elapsed_ns: int
    folder: str


class _Shown:
    """A record that `print` and notebooks show as a table. `repr` has every field, exactly."""

    def _table(self) -> _tables.Table:
        raise NotImplementedError

    def __str__(self) -> str:
        return _tables.text_of(self._table())

    def _repr_html_(self) -> str:
        return _tables.html_of(self._table())


@dataclasses.dataclass(frozen=True)
class PoolStats(_Shown):
    """The pool's counters. `print` shows those that matter most as a table; each is an attribute, an int of bytes, nanoseconds
    or occurrences since the pool was made."""

    def _table(self) -> _tables.Table:
        return _tables.pool_table(self)

    device_budget: int  #: bytes all devices may hold, after any reduction by DEVICE_OOM
    device_bytes: int  #: bytes of device memory held from the system
    device_free_bytes: int  #: of those, not in use: in free lists, or free in segments
    device_held_bytes: int  #: of those, held (weir_hold, weir_malloc)
    host_budget: int  #: bytes HOST may hold
    host_bytes: int  #: bytes of pinned memory held from the system
    host_used_bytes: int  #: of those, occupied by pages
    buffers: int  #: live buffers
    pages: int  #: pages of live buffers and slabs, and of dead ones not yet given up
    slabs: int  #: slabs
    buffer_bytes: int  #: bytes of live buffers as asked for
    bookkeeping_bytes: int  #: host memory the pool's own records take
    hits: int  #: uses granted with everything resident
    misses: int  #: uses that had to bring in at least one page
    promoted_bytes: int  #: bytes copied up to a device
    demoted_bytes: int  #: bytes copied down from a device
    dropped_clean_bytes: int  #: bytes evicted without a copy, because another latest copy existed
    discarded_bytes: int  #: bytes evicted without a copy, because they were discarded or never written
    zero_filled_bytes: int  #: bytes of never-written pages zeroed on a device
    prefetched_bytes: int  #: of promoted_bytes and peer_bytes, those brought in ahead of demand
    background_demoted_bytes: int  #: of demoted_bytes, those copied down ahead of demand
    peer_bytes: int  #: bytes copied between devices
    evictions: int  #: pages evicted
    eviction_failures: int  #: evictions given up: no room below, a failed copy, a slow fence
    over_budget: int  #: acquires refused with OVER_BUDGET
    would_block: int  #: acquires refused with WOULD_BLOCK or TIMEOUT
    lease_conflicts: int  #: acquires refused with LEASE_CONFLICT
    device_oom: int  #: times the runtime refused memory inside the budget
    refaulted_bytes: int  #: promoted bytes that had been evicted within the last device_budget bytes of evictions
    wait_ns: int  #: time acquires spent waiting for other leases
    checksum_failures: int  #: pages found in a lower tier with other bytes than were demoted
    staging_bytes: int  #: of host_bytes, those that lower tiers are reached through
    compressed_budget: int  #: bytes COMPRESSED may hold
    compressed_bytes: int  #: bytes of memory compressed pages take
    compressed_raw_bytes: int  #: bytes of those pages uncompressed
    storage_budget: int  #: bytes of the spill files
    storage_bytes: int  #: of those, occupied by pages
    storage_raw_bytes: int  #: bytes of those pages uncompressed
    storage_written_bytes: int  #: bytes written to the spill files
    storage_read_bytes: int  #: bytes read back from them
    compressed_in_bytes: int  #: bytes of pages compressed, before
    compressed_out_bytes: int  #: ... and after
    decompressed_bytes: int  #: bytes of pages decompressed
    incompressible_bytes: int  #: bytes of pages that were not compressed because it would not pay
    sunk_bytes: int  #: bytes of pages moved out of HOST to a lower tier, or past it
    lifted_bytes: int  #: bytes of pages brought up from a lower tier than HOST
    io_errors: int  #: reads and writes of the spill files that failed
    cached_bytes: int  #: of dropped_clean_bytes, those copied to HOST all the same, to be nearer than below it
    device_peak_bytes: int  #: the most device memory ever held from the system, each device's added up
    device_segments: int  #: segments held on devices without VMM
    device_returned_bytes: int  #: bytes of idle device memory given back to the system after idle_grace_ns
    defragment_moves: int  #: tenants moved by defragmentation
    defragment_moved_bytes: int  #: bytes of those, copied
    defragment_evicted_bytes: int  #: bytes that left a device because they lay in the way
    defragment_won_bytes: int  #: bytes of device memory that defragmentation has freed
    recompressed_bytes: int  #: bytes of pages compressed again, harder, while they lay idle in COMPRESSED
    recompressed_won_bytes: int  #: bytes of COMPRESSED that were freed by it
    lent_bytes: int  #: of demoted_bytes, those copied to a neighbour's idle memory
    borrowed_bytes: int  #: device memory that such pages take now
    relayed_bytes: int  #: of peer_bytes, those copied through a third device
    host_relayed_bytes: int  #: of peer_bytes, those copied through the host
    split_bytes: int  #: of peer_bytes, those of copies that went several ways at once
    rebalanced_bytes: int  #: bytes copied from HOST and below to neighbours that had memory to spare
    generation: int  #: changes of the pool's devices so far: one added, one removed, one lost
    remote_uses: int  #: uses granted on another device's memory (WEIR_USE_ALLOW_REMOTE)
    #: times a name got the number that all names beyond the first 65,536 share (weir_operation_id)
    shared_operation_ids: int
    learned_operations: int  #: operations that the policy has learned from
    #: uses, births and deaths of buffers that it has not learned from: its log was full, or its share of the CPU used up. A use of
    #: a part of a buffer counts twice
    lost_uses: int
    planned_operations: int  #: operations that a plan foresaw, and that came while it was carried out
    plans_made: int  #: plans made, each from what was there then
    plan_fetched_bytes: int  #: of prefetched_bytes, those that a plan wanted by a date
    plan_cleaned_bytes: int  #: of background_demoted_bytes, those that stayed on the device: a plan has done with them
    #: times that the policy stopped carrying out plans, or took it up again, because they did not pay or do
    policy_switches: int
    policy_carries_plans: int  #: 1: it carries out plans now; 0: it does not
    plans_ended_untrusted: int  #: of plans_made, those that ended because what they foresaw did not come true
    plans_ended_moved: int  #: ... because the program went on elsewhere, or with other sizes
    plans_ended_missed: int  #: ... because too much had to be fetched that they did not have
    plans_ended_old: int  #: ... because they had lasted for 4096 operations
    plans_ended_budget: int  #: ... because the device's budget had changed
    plans_ended_device: int  #: ... because a device left, was lost, or came
    plans_ended_share: int  #: ... because the share of the CPU (policy_cpu_percent) was used up
    plans_ended_announced: int  #: ... because what was announced was used up or taken back, or took their place
    plans_ended_memory: int  #: ... because there was no memory


@dataclasses.dataclass(frozen=True)
class PoolDeviceStats(_Shown):
    """Per-device numbers of a pool. `print` shows them as a table."""

    def _table(self) -> _tables.Table:
        return _tables.device_table(self)

    device: int
    budget: int  #: bytes it may hold, after any reduction by DEVICE_OOM
    bytes: int  #: bytes held from the system
    free_bytes: int  #: of those, not in use
    held_bytes: int  #: of those, held (weir_hold, weir_malloc)
    page_size: int
    large_page_size: int
    peak_bytes: int  #: the most ever held, or since `Pool.reset_peak`
    segments: int  #: segments held, on devices without VMM
    returned_bytes: int  #: bytes of idle memory given back to the system after idle_grace_ns
    state: enums.DeviceState
    memory_total: int  #: bytes the device has, whatever the budget; 0: not known


@dataclasses.dataclass(frozen=True)
class ClientStats(_Shown):
    """What a client is charged for. `print` shows it as a table."""

    def _table(self) -> _tables.Table:
        return _tables.client_table(self)

    buffers: int
    device_bytes: int
    host_bytes: int
    compressed_bytes: int
    storage_bytes: int


@dataclasses.dataclass(frozen=True)
class BufferInfo:
    """Where the bytes of a range are, in whole pages clipped to it."""

    home: int
    size: int
    tag: int
    address: int
    device_bytes: int
    peer_bytes: int
    host_bytes: int
    both_bytes: int
    unwritten_bytes: int
    lost_bytes: int
    leases: int
    priority: int
    held: int
    pages: int
    compressed_bytes: int
    storage_bytes: int


@dataclasses.dataclass(frozen=True)
class DefragmentReport:
    """What a defragmentation did, and what it left."""

    finished: bool
    moved_bytes: int
    copy_moves: int
    remap_moves: int
    evict_moves: int
    evicted_bytes: int
    won_bytes: int
    largest_free_before: int
    largest_free_after: int
    elapsed_ns: int
    leased_bytes: int
    held_bytes: int
    pinned_bytes: int
    stable_bytes: int
    busy_bytes: int
    no_room_bytes: int
    fragmentation_before_permille: int
    fragmentation_after_permille: int


@dataclasses.dataclass(frozen=True)
class DeviceLoss:
    """A device that was lost, and what went with it."""

    device: int
    generation: int
    lost_bytes: int


@dataclasses.dataclass(frozen=True)
class LostRange:
    """Bytes of a buffer that were lost with a device. `buffer` is None if this process has no object for it."""

    buffer: Any
    tag: int
    offset: int
    length: int


@dataclasses.dataclass(frozen=True)
class Piece:
    """A run of memory and what lies in it. `buffer` is None if it is no buffer's, or that of several small buffers."""

    tier: enums.Tier
    device: int
    state: enums.PieceState
    container: int
    offset: int
    bytes: int
    buffer_offset: int
    tag: int
    buffer: Any


class Shard(NamedTuple):
    """A run of bytes of a buffer that one device is home to."""

    offset: int
    length: int
    device: int


class Share(NamedTuple):
    """Of the blocks of one method, or of elements of one kind."""

    raw_bytes: int
    coded_bytes: int


def shares(array: Any, kind: type[Any]) -> dict[Any, Share]:
    """An array of weir_codec_share by what its indices mean. Slots that nothing has yet are left out, unless a newer library has
    filled them."""
    found, name = {each: Share(0, 0) for each in kind}, known_or_number(kind)
    for index, each in enumerate(array):
        share = Share(each.raw_bytes, each.coded_bytes)
        if any(share):
            found[name(index)] = share
    return found


@dataclasses.dataclass(frozen=True)
class CodecStats:
    """What a pool's codec did so far. A method or element that only a newer library knows is a number."""

    methods: dict[enums.Method | int, Share]
    elements: dict[enums.Element | int, Share]


@dataclasses.dataclass(frozen=True)
class CompressedInfo:
    """What a blob's header and table tell."""

    version: int
    raw_bytes: int
    block_bytes: int
    blocks: int
    checksums: bool
    methods: dict[enums.Method | int, Share]  #: one that only a newer library knows is a number


@dataclasses.dataclass(frozen=True)
class ArenaStats:
    """An arena in numbers."""

    allocations: int
    size: int
    used: int
    free: int
    largest_free: int
    free_ranges: int
    node_bytes: int


class ArenaClass(NamedTuple):
    """The ranges of 2^k to 2^(k+1) - 1 units."""

    free_ranges: int
    free_units: int
    live_ranges: int
    live_units: int


@dataclasses.dataclass(frozen=True)
class ArenaReport:
    """An arena's fragmentation, with a histogram by size."""

    fragmentation_ppm: int
    size: int
    used: int
    free: int
    free_ranges: int
    live_ranges: int
    largest_free: int
    largest_live: int
    tail: int
    classes: tuple[ArenaClass, ...]


class ArenaRange(NamedTuple):
    """A range as a walk shows it; allocation 0 is a free one."""

    allocation: int
    offset: int
    size: int

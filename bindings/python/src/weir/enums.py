# SPDX-License-Identifier: Apache-2.0
"""The numbers of the C API under Python names. They are taken from the compiled headers, never written down again."""

from __future__ import annotations

import enum
import math

from ._capi import lib

#: The CPU's own memory as a place.
HOST: int = lib.WEIR_DEVICE_HOST
#: Where a device is optional: the first of the pool or of the context.
DEFAULT: int = lib.WEIR_DEVICE_DEFAULT
#: As a buffer's home: Weir chooses.
ANY: int = lib.WEIR_DEVICE_ANY
#: Where several are meant: every device of the pool.
ALL: int = lib.WEIR_DEVICE_ALL
#: As a budget: no limit of Weir's own.
UNLIMITED: int = lib.WEIR_UNLIMITED
#: As a budget or quota, where 0 means that Weir chooses or that there is none: nothing at all.
NONE: int = lib.WEIR_NONE
#: As a timeout: wait without a deadline.
INFINITE: float = math.inf


class Result(enum.IntEnum):
    """What a call answered."""

    SUCCESS = lib.WEIR_SUCCESS
    NOT_READY = lib.WEIR_NOT_READY
    INCOMPLETE = lib.WEIR_INCOMPLETE
    INVALID_ARGUMENT = lib.WEIR_ERROR_INVALID_ARGUMENT
    INVALID_HANDLE = lib.WEIR_ERROR_INVALID_HANDLE
    NOT_SUPPORTED = lib.WEIR_ERROR_NOT_SUPPORTED
    OUT_OF_HOST_MEMORY = lib.WEIR_ERROR_OUT_OF_HOST_MEMORY
    OVER_BUDGET = lib.WEIR_ERROR_OVER_BUDGET
    WOULD_BLOCK = lib.WEIR_ERROR_WOULD_BLOCK
    TIMEOUT = lib.WEIR_ERROR_TIMEOUT
    LEASE_CONFLICT = lib.WEIR_ERROR_LEASE_CONFLICT
    BUSY = lib.WEIR_ERROR_BUSY
    DEVICE_OOM = lib.WEIR_ERROR_DEVICE_OOM
    DEVICE_LOST = lib.WEIR_ERROR_DEVICE_LOST
    DATA_LOST = lib.WEIR_ERROR_DATA_LOST
    CORRUPT = lib.WEIR_ERROR_CORRUPT
    BACKEND = lib.WEIR_ERROR_BACKEND
    STREAM_CAPTURING = lib.WEIR_ERROR_STREAM_CAPTURING
    FORKED = lib.WEIR_ERROR_FORKED
    IO = lib.WEIR_ERROR_IO
    CANCELLED = lib.WEIR_ERROR_CANCELLED
    DEVICE_REMOVED = lib.WEIR_ERROR_DEVICE_REMOVED
    INTERNAL = lib.WEIR_ERROR_INTERNAL


class Tier(enum.IntEnum):
    """Rungs of the ladder. The numbers are no order: a later version may put one in between."""

    NONE = lib.WEIR_TIER_NONE
    DEVICE = lib.WEIR_TIER_DEVICE
    PEER = lib.WEIR_TIER_PEER
    HOST = lib.WEIR_TIER_HOST
    COMPRESSED = lib.WEIR_TIER_COMPRESSED
    STORAGE = lib.WEIR_TIER_STORAGE


class Element(enum.IntEnum):
    """What a buffer's bytes are; it helps compression and never changes them."""

    ANY = lib.WEIR_ELEMENT_ANY
    F16 = lib.WEIR_ELEMENT_F16
    BF16 = lib.WEIR_ELEMENT_BF16
    F32 = lib.WEIR_ELEMENT_F32
    F64 = lib.WEIR_ELEMENT_F64


class Mode(enum.IntEnum):
    """How a use of a lease uses its bytes."""

    READ = lib.WEIR_READ
    READ_WRITE = lib.WEIR_READ_WRITE
    DISCARD_WRITE = lib.WEIR_DISCARD_WRITE


class LogLevel(enum.IntEnum):
    """How bad a line of the log is."""

    ERROR = lib.WEIR_LOG_ERROR
    WARNING = lib.WEIR_LOG_WARNING
    INFO = lib.WEIR_LOG_INFO
    DEBUG = lib.WEIR_LOG_DEBUG


class Capability(enum.IntFlag):
    """What a device can do; docs/backend-abi.md has the meaning of each."""

    VMM = lib.WEIR_CAP_VMM
    MULTI_MAP = lib.WEIR_CAP_MULTI_MAP
    MAP_MAY_BLOCK_DEVICE = lib.WEIR_CAP_MAP_MAY_BLOCK_DEVICE
    STREAM_ANY_THREAD = lib.WEIR_CAP_STREAM_ANY_THREAD
    PEER = lib.WEIR_CAP_PEER
    EXPORT_FD = lib.WEIR_CAP_EXPORT_FD
    BATCH_COPY = lib.WEIR_CAP_BATCH_COPY
    KERNELS = lib.WEIR_CAP_KERNELS
    HOST_CALL = lib.WEIR_CAP_HOST_CALL
    HOST_ACCESS = lib.WEIR_CAP_HOST_ACCESS
    MAP_ANY_THREAD = lib.WEIR_CAP_MAP_ANY_THREAD
    HOST_REGISTER = lib.WEIR_CAP_HOST_REGISTER
    EXPORT_FABRIC = lib.WEIR_CAP_EXPORT_FABRIC
    MAP_PART = lib.WEIR_CAP_MAP_PART
    INTEGRATED = lib.WEIR_CAP_INTEGRATED
    SHARED_RANGE = lib.WEIR_CAP_SHARED_RANGE
    MAP_RUN = lib.WEIR_CAP_MAP_RUN
    ACCESS_LATER = lib.WEIR_CAP_ACCESS_LATER
    TRANSFER_STREAM = lib.WEIR_CAP_TRANSFER_STREAM
    NATIVE_MEMORY = lib.WEIR_CAP_NATIVE_MEMORY


class LinkKind(enum.IntEnum):
    """What a link between two places is."""

    NONE = lib.WEIR_LINK_NONE
    SAME = lib.WEIR_LINK_SAME
    PCIE = lib.WEIR_LINK_PCIE
    NVLINK = lib.WEIR_LINK_NVLINK
    INFINITY_FABRIC = lib.WEIR_LINK_INFINITY_FABRIC
    XE = lib.WEIR_LINK_XE
    MEMORY = lib.WEIR_LINK_MEMORY
    C2C = lib.WEIR_LINK_C2C
    NETWORK = lib.WEIR_LINK_NETWORK

    def __str__(self) -> str:
        return _text(lib.weir_link_kind_string(int(self)))


class LinkFigure(enum.IntEnum):
    """Where a link's bandwidth is from. The numbers are no order."""

    NONE = lib.WEIR_LINK_FIGURE_NONE
    PCIE = lib.WEIR_LINK_FIGURE_PCIE
    TOPOLOGY = lib.WEIR_LINK_FIGURE_TOPOLOGY
    BACKEND = lib.WEIR_LINK_FIGURE_BACKEND
    MEASURED = lib.WEIR_LINK_FIGURE_MEASURED

    def __str__(self) -> str:
        return _text(lib.weir_link_figure_string(int(self)))


class Priority(enum.IntEnum):
    """Eviction order between buffers: lower classes go first."""

    LOWEST = lib.WEIR_PRIORITY_LOWEST
    LOW = lib.WEIR_PRIORITY_LOW
    NORMAL = lib.WEIR_PRIORITY_NORMAL
    HIGH = lib.WEIR_PRIORITY_HIGH
    HIGHEST = lib.WEIR_PRIORITY_HIGHEST


class Trim(enum.IntEnum):
    """How hard a trim tries."""

    GRADUAL = lib.WEIR_TRIM_GRADUAL
    SELECTIVE = lib.WEIR_TRIM_SELECTIVE
    EMERGENCY = lib.WEIR_TRIM_EMERGENCY


class Advice(enum.IntEnum):
    """Hints about a range of a buffer."""

    NORMAL = lib.WEIR_ADVISE_NORMAL
    COLD = lib.WEIR_ADVISE_COLD
    WILL_NEED = lib.WEIR_ADVISE_WILL_NEED
    STREAMING = lib.WEIR_ADVISE_STREAMING


class HoldMode(enum.Enum):
    """What a hold lets others do with the buffer meanwhile. The values are a mode and flags."""

    SHARED = (lib.WEIR_READ_WRITE, 0)  #: leases on the device, and `write`, go to the held memory; elsewhere it can be read
    READ = (lib.WEIR_READ, 0)  #: no writes, the holder's neither
    ALONE = (lib.WEIR_READ_WRITE, lib.WEIR_HOLD_ALONE)  #: no leases, reads, writes or discards besides


class DeviceState(enum.IntEnum):
    """Of a device in a pool."""

    PRESENT = lib.WEIR_POOL_DEVICE_PRESENT
    LEAVING = lib.WEIR_POOL_DEVICE_LEAVING
    LOST = lib.WEIR_POOL_DEVICE_LOST


class PieceState(enum.IntEnum):
    """What a `Piece` tells of the bytes in it."""

    RESERVED = lib.WEIR_PIECE_RESERVED
    ONLY = lib.WEIR_PIECE_ONLY
    COPY = lib.WEIR_PIECE_COPY
    STALE = lib.WEIR_PIECE_STALE
    UNWRITTEN = lib.WEIR_PIECE_UNWRITTEN
    MOVING = lib.WEIR_PIECE_MOVING
    KEPT = lib.WEIR_PIECE_KEPT


class Compress(enum.IntEnum):
    """How much time a blob is worth."""

    FAST = lib.WEIR_COMPRESS_LEVEL_FAST
    DENSE = lib.WEIR_COMPRESS_LEVEL_DENSE


class Method(enum.IntEnum):
    """The methods a block of a blob can be coded by."""

    SAME = lib.WEIR_CODEC_SAME
    RAW = lib.WEIR_CODEC_RAW
    LZ4 = lib.WEIR_CODEC_LZ4
    ZSTD = lib.WEIR_CODEC_ZSTD
    FX = lib.WEIR_CODEC_FX
    SPARSE = lib.WEIR_CODEC_SPARSE
    MASK = lib.WEIR_CODEC_MASK
    PLANES = lib.WEIR_CODEC_PLANES
    NARROW = lib.WEIR_CODEC_NARROW


def _text(pointer: object) -> str:
    from ._capi import ffi

    text: bytes = ffi.string(pointer)
    return text.decode()

# SPDX-License-Identifier: Apache-2.0
"""Weir: one logical pool of memory over GPUs, their neighbours, host memory and storage.

    import numpy, weir

    with weir.Context("host.memory=64M") as context, context.pool("8M", host_budget="32M") as pool:
        stream, buffer = context.stream(0), pool.buffer("1M")
        with pool.acquire(stream, weir.overwrite(buffer)) as lease:
            lease[0].numpy(numpy.float32)[:] = 1.0
        stream.close()

docs/python.md is the guide; the C headers say what each call promises."""

from ._capi import ffi as _ffi
from ._capi import lib as _lib
from ._outputs import last_error_report
from ._sizes import Size
from .arena import Arena, ArenaAllocation
from .buffer import Allocation, Buffer, BufferOptions, Hold, Shards
from .client import Client
from .codec import compress, compress_bound, compressed_info, decompress
from .context import Context
from .enums import (
    ALL,
    ANY,
    DEFAULT,
    HOST,
    INFINITE,
    NONE,
    UNLIMITED,
    Advice,
    Capability,
    Compress,
    DeviceState,
    Element,
    HoldMode,
    LinkFigure,
    LinkKind,
    LogLevel,
    Method,
    Mode,
    PieceState,
    Priority,
    Result,
    Tier,
    Trim,
)  # fmt: skip
from .errors import (
    BackendError,
    Busy,
    Cancelled,
    Closed,
    Corrupt,
    DataLost,
    DeviceLost,
    DeviceOutOfMemory,
    DeviceRemoved,
    Forked,
    InternalError,
    InvalidArgument,
    InvalidHandle,
    IoError,
    LeaseConflict,
    NotSupported,
    OutOfHostMemory,
    OutOfMemory,
    OverBudget,
    StreamCapturing,
    Timeout,
    WeirError,
    WouldBlock,
)  # fmt: skip
from .lease import Lease, Operation, PendingLease, Prepared, Use, discard_write, overwrite, read, read_write, write
from .pool import Pool
from .records import (
    ArenaClass,
    ArenaRange,
    ArenaReport,
    ArenaStats,
    BackendInfo,
    BufferInfo,
    CalibrateReport,
    ClientStats,
    CodecStats,
    CompressedInfo,
    DefragmentReport,
    DeviceInfo,
    DeviceLoss,
    LinkInfo,
    LostRange,
    Piece,
    PoolDeviceStats,
    PoolStats,
    Shard,
    Share,
)  # fmt: skip
from .stream import Stream
from .trace import Trace
from .views import View

__version__ = "1.0.0"
#: The distribution that this package is of: weir-memory. The project `weir` of PyPI is somebody else's.
__distribution__ = "weir-memory"
#: The version of the libweir in use.
library_version: str = _ffi.string(_lib.weir_version_string()).decode()
#: The same as one number, to be compared: major * 1000000 + minor * 1000 + patch.
library_version_number: int = _lib.weir_version_number()

# Another major version has another soname; of the same one, an older library may lack what the headers of the build have.
if library_version_number < _lib.WEIR_VERSION_NUMBER - _lib.WEIR_VERSION_PATCH:
    raise ImportError(
        f"the package weir was built with the headers of libweir {_lib.WEIR_VERSION_MAJOR}.{_lib.WEIR_VERSION_MINOR}."
        f"{_lib.WEIR_VERSION_PATCH}, and the library that was found is {library_version}: it must not be older"
    )

__all__ = [
    "ALL", "ANY", "DEFAULT", "HOST", "INFINITE", "NONE", "UNLIMITED",
    "Advice", "Allocation", "Arena", "ArenaAllocation", "ArenaClass", "ArenaRange", "ArenaReport", "ArenaStats",
    "BackendError", "BackendInfo", "Buffer", "BufferInfo", "BufferOptions", "Busy", "CalibrateReport", "Cancelled",
    "Capability", "Client", "ClientStats", "Closed", "CodecStats", "Compress", "CompressedInfo", "Context", "Corrupt",
    "DataLost", "DefragmentReport", "DeviceInfo", "DeviceLoss", "DeviceLost", "DeviceOutOfMemory", "DeviceRemoved",
    "DeviceState", "Element", "Forked", "Hold", "HoldMode", "InternalError", "InvalidArgument", "InvalidHandle", "IoError", "Lease",
    "LeaseConflict", "LinkFigure", "LinkInfo", "LinkKind", "LogLevel", "LostRange", "Method", "Mode", "NotSupported",
    "Operation", "OutOfHostMemory", "OutOfMemory", "OverBudget", "PendingLease", "Piece", "PieceState", "Pool",
    "PoolDeviceStats", "PoolStats", "Prepared", "Priority", "Result", "Shard", "Shards", "Share", "Size", "Stream",
    "StreamCapturing", "Tier", "Timeout", "Trace", "Trim", "Use", "View", "WeirError", "WouldBlock",
    "compress", "compress_bound", "compressed_info", "decompress", "discard_write", "last_error_report", "library_version",
    "library_version_number", "overwrite", "read", "read_write", "write",
]  # fmt: skip

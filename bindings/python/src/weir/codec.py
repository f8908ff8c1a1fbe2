# SPDX-License-Identifier: Apache-2.0
"""The codec alone: lossless compression of device memory. No context is needed; any thread, without the GIL."""

from __future__ import annotations

from typing import Any

from . import enums
from ._arguments import bytes_like
from ._capi import ffi, lib
from ._core import text_or_null
from ._sizes import Size, size_in_bytes
from .errors import check
from .records import CompressedInfo, record, shares, sized


def compress_bound(size: Size) -> int:
    """The most bytes a blob of so many raw bytes can have; 0 if there can be none."""
    return int(lib.weir_compress_bound(size_in_bytes(size, "size")))


def compress(
    data: Any,
    *,
    level: int = enums.Compress.FAST,
    element: int = enums.Element.ANY,
    codec: str | None = None,
    checksum: bool = True,
) -> bytes:
    """A blob of the bytes of an object of the buffer protocol, such as a contiguous NumPy array.

    level: how much time it is worth, a `weir.Compress`.
    element: what the bytes are, a `weir.Element`; ANY has it found out by looking.
    codec: "auto" (None) or one method's name, such as "zstd".
    checksum: False leaves out what `decompress` finds damage by."""
    bytes_like(data, "data")
    desc = sized("weir_compress_desc")
    text = text_or_null(codec)
    desc.level, desc.element, desc.codec = level, element, text
    desc.flags = 0 if checksum else lib.WEIR_COMPRESS_NO_CHECKSUM
    with ffi.from_buffer("char[]", data) as source:
        capacity = compress_bound(len(source))
        out, length = ffi.new("char[]", capacity), ffi.new("uint64_t *")
        check(lib.weir_compress(desc, source, len(source), out, capacity, length))
    return bytes(ffi.buffer(out, length[0]))


def decompress(blob: Any) -> bytearray:
    """The bytes that were compressed, or Corrupt."""
    out = bytearray(compressed_info(blob).raw_bytes)
    with ffi.from_buffer("char[]", blob) as source, ffi.from_buffer("char[]", out, require_writable=True) as target:
        check(lib.weir_decompress(source, len(source), target, len(target), ffi.NULL))
    return out


def compressed_info(blob: Any) -> CompressedInfo:
    """What a blob's header and table tell."""
    info = sized("weir_compressed_info")
    with ffi.from_buffer("char[]", blob) as source:
        check(lib.weir_compressed_info_get(source, len(source), info))
    return record(CompressedInfo, info, methods=shares(info.methods, enums.Method))

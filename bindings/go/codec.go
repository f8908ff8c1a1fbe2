// SPDX-License-Identifier: Apache-2.0

package weir

// The codec alone, as the COMPRESSED tier uses it. No context is needed.

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// CodecMethod is what a block of a blob is coded by.
type CodecMethod uint32

const (
	CodecSame   CodecMethod = C.WEIR_CODEC_SAME
	CodecRaw    CodecMethod = C.WEIR_CODEC_RAW
	CodecLZ4    CodecMethod = C.WEIR_CODEC_LZ4
	CodecZstd   CodecMethod = C.WEIR_CODEC_ZSTD
	CodecFX     CodecMethod = C.WEIR_CODEC_FX
	CodecSparse CodecMethod = C.WEIR_CODEC_SPARSE
	CodecMask   CodecMethod = C.WEIR_CODEC_MASK
	CodecPlanes CodecMethod = C.WEIR_CODEC_PLANES
	CodecNarrow CodecMethod = C.WEIR_CODEC_NARROW
)

// CodecShare is of the blocks of one method, or of elements of one kind.
type CodecShare struct{ RawBytes, CodedBytes uint64 }

func shareOf(s C.weir_codec_share) CodecShare {
	return CodecShare{uint64(s.raw_bytes), uint64(s.coded_bytes)}
}

// CompressOptions are all optional.
type CompressOptions struct {
	Dense      bool // entropy coded too: several times slower
	Element    Element
	Codec      string // "auto" (""), or the one method to use where it pays
	NoChecksum bool
}

// CompressBound is the most bytes a blob of so many raw bytes can have; 0 if there can be none.
func CompressBound(bytes uint64) uint64 { return uint64(C.weir_compress_bound(C.uint64_t(bytes))) }

// address is where bytes begin; any address that is not nil for none.
func address(bytes []byte) unsafe.Pointer {
	if len(bytes) == 0 {
		return unsafe.Pointer(&[1]byte{})
	}
	return unsafe.Pointer(&bytes[0])
}

// Compress appends a blob of raw to blob, as append does.
func Compress(blob, raw []byte, options CompressOptions) ([]byte, error) {
	const op = "compress"
	bound := CompressBound(uint64(len(raw)))
	if bound == 0 {
		return blob, refused(op, ErrInvalidArgument, "%d bytes are more than a blob can have", len(raw))
	}
	var texts cStrings
	defer texts.free()
	var level C.uint32_t = C.WEIR_COMPRESS_LEVEL_FAST
	if options.Dense {
		level = C.WEIR_COMPRESS_LEVEL_DENSE
	}
	blob = grow(blob, bound)
	room := blob[len(blob):cap(blob)]
	var length C.uint64_t
	err := failed(op, C.weirgo_compress(level, C.uint32_t(options.Element), flag(options.NoChecksum, C.WEIR_COMPRESS_NO_CHECKSUM),
		texts.add(options.Codec), address(raw), C.uint64_t(len(raw)), address(room), C.uint64_t(len(room)), &length))
	return blob[:len(blob)+int(length)], err
}

// grow is the slice with room for n bytes more.
func grow(bytes []byte, n uint64) []byte {
	if uint64(cap(bytes)-len(bytes)) >= n {
		return bytes
	}
	return append(make([]byte, 0, uint64(len(bytes))+n), bytes...)
}

// CompressedInfo is what a blob's header and table tell.
type CompressedInfo struct {
	Version    int // of the format
	RawBytes   uint64
	BlockBytes uint64
	Blocks     uint64
	Checksums  bool
	Methods    [C.WEIR_CODEC_SLOTS]CodecShare // by CodecMethod; those that there are none of are 0
}

// CompressedInfoOf reads a blob's header and table; the blocks are not looked at. ErrCorrupt.
func CompressedInfoOf(blob []byte) (CompressedInfo, error) {
	var from C.weir_compressed_info
	err := failed("compressed info", C.weirgo_compressed_info(address(blob), C.uint64_t(len(blob)), &from))
	info := CompressedInfo{Version: int(from.version), RawBytes: uint64(from.raw_bytes), BlockBytes: uint64(from.block_bytes),
		Blocks: uint64(from.blocks), Checksums: from.checksums != 0}
	for i := range info.Methods {
		info.Methods[i] = shareOf(from.methods[i])
	}
	return info, err
}

// Decompress appends what a blob holds to raw, as append does. ErrCorrupt for a malformed blob. limit bounds what a blob may
// make it allocate: ErrInvalidArgument beyond; 0 is 1 GiB.
func Decompress(raw, blob []byte, limit uint64) ([]byte, error) {
	const op = "decompress"
	info, err := CompressedInfoOf(blob)
	if err != nil {
		return raw, err
	}
	if limit == 0 {
		limit = 1 << 30
	}
	if info.RawBytes > limit {
		return raw, refused(op, ErrInvalidArgument, "the blob holds %d bytes, the limit is %d", info.RawBytes, limit)
	}
	raw = grow(raw, info.RawBytes)
	room := raw[len(raw) : len(raw)+int(info.RawBytes)]
	var length C.uint64_t
	err = failed(op, C.weirgo_decompress(address(blob), C.uint64_t(len(blob)), address(room), C.uint64_t(len(room)), &length))
	if err != nil {
		return raw, err
	}
	return raw[:len(raw)+int(length)], nil
}

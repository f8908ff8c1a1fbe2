/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/codec.h - the codec alone, as the COMPRESSED tier uses it: lossless, for the memory of devices. Floats are taken
 * apart, since neither LZ4 nor zstd finds anything in them (docs/compression.md has ratios and speeds by kind of data).
 *
 * What comes out is a blob: a header, and blocks of 256 KiB of raw bytes, each coded by the method that paid for it and
 * checksummed (XXH3-64 of the raw bytes). docs/block-format.md describes it to the byte. A blob is never more than 0.1 %
 * and 40 bytes longer than what is in it. The same bytes and descriptor give the same blob on every machine with the
 * same versions of Weir, liblz4 and libzstd. The version that made it reads it, and so does every later one.
 *
 * No context, pool or device is needed. Any thread; calls share nothing. A call works on its thread alone: to use
 * several, compress several pieces. No pointer is kept, and nothing is allocated that outlives the call.
 */
#ifndef WEIR_CODEC_H
#define WEIR_CODEC_H

#include <weir/types.h>

WEIR_BEGIN_DECLS

/** How much time a blob is worth. */
enum {
  WEIR_COMPRESS_LEVEL_FAST = 0, /**< near the speed of memory: what a pool does when a page leaves HOST */
  WEIR_COMPRESS_LEVEL_DENSE = 1 /**< entropy coded too: several times slower, for what stays where it goes */
};

/** Flags of weir_compress. */
enum {
  WEIR_COMPRESS_NO_CHECKSUM = 1 /**< no checksums in the blob: for callers that have one of their own */
};

/** The methods a block can be coded by; the numbers stand in blobs. */
enum {
  WEIR_CODEC_SAME = 1,   /**< one pattern of 8 bytes */
  WEIR_CODEC_RAW = 2,    /**< as it is */
  WEIR_CODEC_LZ4 = 3,
  WEIR_CODEC_ZSTD = 4,
  WEIR_CODEC_FX = 5,     /**< floats: exponents as places in a window */
  WEIR_CODEC_SPARSE = 6, /**< a bitmap of zeros, and the rest */
  WEIR_CODEC_MASK = 7,   /**< two values of bytes, a bit each */
  WEIR_CODEC_PLANES = 8, /**< byte planes, each entropy coded */
  WEIR_CODEC_NARROW = 9  /**< floats of four bytes that fit into two */
};
/** Entries of arrays by WEIR_CODEC_*, for good; those that no method has are 0. */
#define WEIR_CODEC_SLOTS 32

/** How to compress. NULL in its place means all defaults. */
typedef struct weir_compress_desc {
  uint32_t struct_size;
  uint32_t level;     /**< WEIR_COMPRESS_LEVEL_FAST or _DENSE */
  uint32_t element;   /**< WEIR_ELEMENT_*: what the bytes are, if it is known; a wrong one costs nothing but ratio */
  uint32_t reserved;
  const char *codec;  /**< "auto" (NULL): what pays; else the one method to use where it pays: "lz4", "zstd", "fx", "sparse",
                           "mask", "planes", "narrow"; "raw" */
  uint64_t flags;     /**< WEIR_COMPRESS_NO_CHECKSUM */
} weir_compress_desc;
#define WEIR_COMPRESS_DESC_INIT {sizeof(weir_compress_desc), 0, 0, 0, NULL, 0}

/** The most bytes a blob of so many raw bytes can have; 0 if there can be none (more than 2^50). */
WEIR_API uint64_t weir_compress_bound(uint64_t bytes);

/** Compresses `bytes` bytes at `in` (0 .. 2^50; may be any alignment, elements start with the first byte) into a blob at
 *  `out`, which has room for `capacity` >= weir_compress_bound(bytes) and does not overlap; *blob_bytes is its length. `desc` may be
 *  NULL: all defaults. If it fails, what is at `out` is undefined and *blob_bytes is 0.
 *  Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_compress(const weir_compress_desc *desc, const void *in, uint64_t bytes, void *out,
                                   uint64_t capacity, uint64_t *blob_bytes);

/** The reverse: exactly the bytes that were compressed, *bytes of them (may be NULL), or an error and undefined bytes in `out`, of
 *  which nothing beyond `capacity` is written whatever the blob holds. weir_compressed_info_get says how many there are.
 *  Errors: CORRUPT (the blob is malformed or its checksums do not fit), INVALID_ARGUMENT (`capacity` is less than its raw
 *  bytes), OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_decompress(const void *blob, uint64_t blob_bytes, void *out, uint64_t capacity, uint64_t *bytes);

/** Of the blocks of one method, or of elements of one kind. */
typedef struct weir_codec_share {
  uint64_t raw_bytes;   /**< before */
  uint64_t coded_bytes; /**< after */
} weir_codec_share;

/** What a blob is. */
typedef struct weir_compressed_info {
  uint32_t struct_size;
  uint32_t version;     /**< of the format */
  uint64_t raw_bytes;                         /**< what comes out */
  uint64_t block_bytes; /**< raw bytes of every block but the last */
  uint64_t blocks;                            /**< how many */
  uint64_t checksums;   /**< 1: it has them */
  weir_codec_share methods[WEIR_CODEC_SLOTS]; /**< by WEIR_CODEC_*; what they do not add up to is header and table */
} weir_compressed_info;
#define WEIR_COMPRESSED_INFO_INIT {sizeof(weir_compressed_info), 0, 0, 0, 0, 0, {{0, 0}}}

/** What a blob's header and table tell; the blocks are not looked at. Errors: CORRUPT, INVALID_ARGUMENT. */
WEIR_API weir_result weir_compressed_info_get(const void *blob, uint64_t blob_bytes, weir_compressed_info *info);

WEIR_END_DECLS
#endif /* WEIR_CODEC_H */

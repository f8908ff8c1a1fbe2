// SPDX-License-Identifier: Apache-2.0
//
// Codec: pages to blobs and back. A blob is a header and independently coded blocks of 256 KiB of raw bytes, each by
// the method that paid for it (SAME, RAW, LZ4, zstd), and is never more than bound() bytes. What pays is measured and
// remembered per region in a CodecPlan, so that incompressible data costs next to nothing. Malformed input is answered
// with CORRUPT, never with a read or write out of bounds. Takes no lock of the pool's; any thread.
//
// A blob, all numbers little-endian whatever the machine:
//    0  u8   magic, 0xB7
//    1  u8   version, 1
//    2  u8   log2 of the raw bytes of a block, 18 (the last block has what is left)
//    3  u8   0
//    4  u32  number of blocks
//    8  u64  raw bytes
//   16  u64  per block: method (MethodId) << 56 | end of the coded block, counted from the blob's start
//       the coded blocks in order, each starting where the one before ends; the last ends with the blob
// A blob has no checksum: whoever keeps it has one of the raw bytes. The same bytes and plan give the same blob,
// however many threads make it.
#pragma once

#include "core/base/status.hpp"
#include "core/base/workers.hpp"
#include "core/tier/block_methods.hpp"

#include <atomic>
#include <cstdint>

namespace weir::tier {

/// What has been learnt of one region's bytes. Starts as all zero; changed by encode(). One thread at a time.
struct CodecPlan {
  uint8_t method = 0;   ///< what paid last; 0: not known
  uint8_t skip = 0;     ///< pages still to be passed over as incompressible ...
  uint8_t backoff = 0;  ///< ... and how many, as a power of two, the next time
  uint8_t age = 0;      ///< pages since the last trial
  uint32_t ratio =
      0;  ///< of the page that was tried last, raw / coded in 1/256, blocks of one pattern left out
};

enum class CodecChoice : uint8_t { automatic, lz4, zstd, raw };

struct CodecStats {
  uint64_t in_bytes = 0, out_bytes = 0;  ///< of pages encoded
  uint64_t decoded_bytes = 0;            ///< raw
  uint64_t incompressible_bytes = 0;     ///< of pages passed over
};

class Codec {
 public:
  static constexpr uint64_t block_bytes = uint64_t{256} << 10U;
  /// The smallest gain that pays: 1/16 of the raw bytes.
  static constexpr uint64_t worth = 16;
  /// A plan's method is tried against the others again after so many pages ...
  static constexpr uint8_t trial_period = 24;
  /// ... or when a page's ratio is 10 percent off the last trial's, but not sooner than after so many.
  static constexpr uint8_t trial_rest = 4;
  /// Incompressible regions are passed over for 1, 2, 4 .. 2^max_backoff pages between trials.
  static constexpr uint8_t max_backoff = 6;

  Codec(Workers &workers, CodecChoice choice) noexcept;

  /// "auto", "lz4", "zstd", "raw" or nullptr (auto). False: none of these.
  static bool parse(const char *name, CodecChoice *choice) noexcept;

  /// The most bytes a blob of `raw` bytes can have.
  static uint64_t bound(uint64_t raw) noexcept;

  /// Encodes raw bytes at `in` to a blob at `out` (room for bound(raw)) and returns its length. 0: it would not pay
  /// (gain below 1/16 of the bytes, or the plan says to pass over this page; blocks of one pattern count even then);
  /// with `must`, and always with the choice `raw`, a blob is made all the same. 0 for no bytes. Whatever is
  /// returned, `out` may have been written up to bound(raw).
  uint64_t encode(const void *in, uint64_t raw, void *out, bool must, CodecPlan *plan,
                  Workers::Urgency urgency) noexcept;

  /// The reverse. CORRUPT if the blob is not one of `raw` bytes; `out` may then be partly written. OUT_OF_HOST_MEMORY
  /// only if not even one decoding context could ever be had.
  Status decode(const void *blob, uint64_t bytes, void *out, uint64_t raw,
                Workers::Urgency urgency) noexcept;

  CodecStats stats() const noexcept;

 private:
  struct Page;
  struct Trial;
  struct Reading;

  BlockMethod *pick(Page &page, CodecPlan *plan, Workers::Urgency urgency) noexcept;
  BlockMethod *try_methods(Page &page, bool known, Workers::Urgency urgency) noexcept;
  void learn(const Page &page, CodecPlan *plan) const noexcept;

  Workers &workers_;
  const CodecChoice choice_;
  BlockMethods methods_;
  std::atomic<uint64_t> in_bytes_{0}, out_bytes_{0}, decoded_bytes_{0}, incompressible_bytes_{0};
};

}  // namespace weir::tier

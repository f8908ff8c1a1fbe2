// SPDX-License-Identifier: Apache-2.0
//
// Codec: pages to blobs and back. A blob is a header and independently coded blocks of 256 KiB of raw bytes, each by
// the method that paid for it (SAME, RAW, LZ4, zstd), and is never more than bound() bytes. What pays is measured and
// remembered per region in a CodecPlan, so that incompressible data costs next to nothing. Malformed input is answered
// with CORRUPT, never with a read or write out of bounds. Takes no lock of the pool's; any thread.
#pragma once

#include "core/base/status.hpp"
#include "core/base/workers.hpp"

#include <cstdint>

namespace weir::tier {

/// What has been learnt of one region's bytes. Starts as all zero; changed by encode(). One thread at a time.
struct CodecPlan {
  uint8_t method = 0;   ///< what paid last; 0: not known
  uint8_t skip = 0;     ///< pages still to be passed over as incompressible ...
  uint8_t backoff = 0;  ///< ... and how many, as a power of two, the next time
  uint8_t age = 0;      ///< pages since the last full trial
  uint32_t ratio = 0;   ///< of the last trial, raw / coded in 1/256
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

  Codec(Workers &workers, CodecChoice choice) noexcept;

  /// "auto", "lz4", "zstd", "raw" or nullptr (auto). False: none of these.
  static bool parse(const char *name, CodecChoice *choice) noexcept;

  /// The most bytes a blob of `raw` bytes can have.
  static uint64_t bound(uint64_t raw) noexcept;

  /// Encodes raw bytes at `in` to a blob at `out` (room for bound(raw)) and returns its length. 0: it would not pay
  /// (gain below 1/16 of the bytes, or the plan says to pass over this page); with `must` a blob is made all the same.
  uint64_t encode(const void *in, uint64_t raw, void *out, bool must, CodecPlan *plan,
                  Workers::Urgency urgency) noexcept;

  /// The reverse. CORRUPT if the blob is not one of `raw` bytes; `out` may then be partly written.
  Status decode(const void *blob, uint64_t bytes, void *out, uint64_t raw,
                Workers::Urgency urgency) noexcept;

  CodecStats stats() const noexcept;
};

}  // namespace weir::tier

// SPDX-License-Identifier: Apache-2.0
//
// Codec: pages to blobs (core/codec/blob.hpp) and back: blocks of 256 KiB, coded independently of each other by the method
// that paid for it. What pays, and what elements the bytes are of, is measured and remembered per region in a CodecPlan,
// so that incompressible data costs next to nothing. Malformed input is answered with CORRUPT, never with a read or write
// out of bounds. Takes no lock of the pool's; any thread.
//
// The same bytes and plan give the same blob, however many threads make it and whatever instructions they have.
#pragma once

#include "core/base/status.hpp"
#include "core/base/workers.hpp"
#include "core/codec/blob.hpp"
#include "core/codec/block_methods.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace weir::codec {

/// What has been learnt of one region's bytes. Starts as all zero; changed by encode(). One thread at a time.
struct CodecPlan {
  uint8_t method = 0;   ///< what paid last; 0: not known
  Form form{};          ///< of what elements the bytes are, as far as the method is concerned
  Form hint{};          ///< what the owner says they are; `bytes`: nothing
  uint8_t skip = 0;     ///< pages still to be passed over as incompressible ...
  uint8_t backoff = 0;  ///< ... and how many, as a power of two, the next time
  uint8_t age = 0;      ///< pages since the last trial
  uint32_t ratio = 0;   ///< raw / coded of the page tried last, in 1/256, without SAME blocks
};

/// What a page may be coded with: whatever pays, or one method alone (besides SAME and RAW).
enum class CodecChoice : uint8_t { automatic, lz4, zstd, raw, fx, sparse, mask, planes, narrow };

struct CodecStats {
  /// Of blocks in pages that were encoded.
  struct Share {
    uint64_t in_bytes = 0, out_bytes = 0;
  };
  uint64_t in_bytes = 0, out_bytes = 0;       ///< of pages encoded, with their tables
  uint64_t decoded_bytes = 0;                 ///< raw
  uint64_t incompressible_bytes = 0;          ///< of pages passed over
  std::array<Share, method_count> methods{};  ///< by MethodId
  std::array<Share, form_count> forms{};      ///< by the Form their page was taken for
};

class Codec {
 public:
  static constexpr uint64_t block_bytes = BlobShape::block_bytes;
  /// The smallest gain that pays: 1/16 of the raw bytes.
  static constexpr uint64_t worth = 16;
  /// A plan's method is tried against the others again after so many pages ...
  static constexpr uint8_t trial_period = 24;
  /// ... or when a page's ratio is 10 percent off the last trial's, but not sooner than after so many.
  static constexpr uint8_t trial_rest = 4;
  /// Incompressible regions are passed over for 1, 2, 4 .. 2^max_backoff pages between trials.
  static constexpr uint8_t max_backoff = 6;

  struct Options {
    bool sums = false;  ///< blobs have a checksum of each block
    bool ready = true;  ///< what decoding needs is had now, so that it cannot lack memory
  };
  Codec(Workers &workers, CodecChoice choice, Options options) noexcept;
  Codec(Workers &workers, CodecChoice choice) noexcept : Codec(workers, choice, Options()) {}

  /// A method's name, "auto" or nullptr (auto). False: none of these.
  static bool parse(const char *name, CodecChoice *choice) noexcept;

  /// The most bytes a blob of `raw` bytes can have.
  static uint64_t bound(uint64_t raw, bool sums = false) noexcept {
    return BlobShape{raw, sums}.bound();
  }

  /// Encodes raw bytes at `in` to a blob at `out` (room for bound(raw)) and returns its length. 0: it would not pay
  /// (gain below 1/16 of the bytes, or the plan says to pass over this page; blocks of one pattern count even then);
  /// with `must`, and always with the choice `raw`, a blob is made all the same. 0 for no bytes. Whatever is
  /// returned, `out` may have been written up to bound(raw). A plan is of one effort. `secret`, here and in decode(): nothing of
  /// the bytes stays in memory of the codec's own, nor on stacks.
  uint64_t encode(const void *in, uint64_t raw, void *out, bool must, CodecPlan *plan,
                  Workers::Urgency urgency, Effort effort = Effort::quick,
                  bool secret = false) noexcept;

  /// The reverse. CORRUPT if the blob is not one of `raw` bytes; `out` may then be partly written. OUT_OF_HOST_MEMORY
  /// only if not even one decoding context could ever be had.
  Status decode(const void *blob, uint64_t bytes, void *out, uint64_t raw, Workers::Urgency urgency,
                bool secret = false) noexcept;

  CodecStats stats() const noexcept;

 private:
  struct Page;
  struct Trial;
  struct Reading;

  void pick(Page &page, CodecPlan *plan) noexcept;
  void try_methods(Page &page, const CodecPlan &plan) noexcept;
  void learn(const Page &page, CodecPlan *plan) const noexcept;
  void count(const Page &page) noexcept;

  Workers &workers_;
  const CodecChoice choice_;
  const bool sums_;
  BlockMethods methods_;
  struct Tally {
    std::atomic<uint64_t> in_bytes{0}, out_bytes{0};

    void add(CodecStats::Share more) noexcept {
      in_bytes.fetch_add(more.in_bytes, std::memory_order_relaxed);
      out_bytes.fetch_add(more.out_bytes, std::memory_order_relaxed);
    }
    CodecStats::Share read() const noexcept {
      return {in_bytes.load(std::memory_order_relaxed), out_bytes.load(std::memory_order_relaxed)};
    }
  };
  Tally all_;
  std::atomic<uint64_t> decoded_bytes_{0}, incompressible_bytes_{0};
  std::array<Tally, method_count> by_method_;
  std::array<Tally, form_count> by_form_;
};

}  // namespace weir::codec

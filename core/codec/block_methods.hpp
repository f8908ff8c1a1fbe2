// SPDX-License-Identifier: Apache-2.0
//
// BlockMethods: the ways one block can be coded, each a name, a number that stands in blobs, and two functions or three.
// A further codec is a line of the table in block_methods.cpp; the Codec chooses among them by what they measure. What a
// block's elements are taken for (its Form) is a hint to encode() and nothing else: every method gives back any bytes.
//
// A method never reads or writes outside the ranges it is given, whatever is in them, and keeps no trace of one block
// in the next. Contexts are as many as there were threads in need of one at once, and are freed with the BlockMethods.
#pragma once

#include "core/base/mutex.hpp"
#include "core/base/status.hpp"
#include "core/codec/form.hpp"

#include <atomic>
#include <array>
#include <cstdint>
#include <span>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace weir::codec {

/// Numbers in blobs: never reused, never 0.
enum class MethodId : uint8_t {
  none = 0,
  same = 1,  ///< one pattern of 8 bytes
  raw = 2,   ///< as it is
  lz4 = 3,
  zstd = 4,
  fx = 5,      ///< floats by a window of exponents (codec/fx.hpp)
  sparse = 6,  ///< a bitmap of zeros, and the rest (codec/sparse.hpp)
  mask = 7,    ///< bytes of two values (codec/mask.hpp)
  planes = 8,  ///< byte planes, each entropy coded (codec/plane_methods.hpp)
  narrow = 9,  ///< floats of four bytes that fit into two (codec/narrow.hpp)
};
constexpr uint32_t method_count = 10;

/// How much time a page's bytes are worth. quick: near the speed of memory, and never less than half of LZ4's on the same bytes,
/// either way. dense: as few bytes as can be had, at a tenth of the speed where it has to be tried. plain is no effort of a page,
/// but what quick asks of PLANES: no entropy coding.
enum class Effort : uint8_t { quick, dense, plain };

enum class Decoded : uint8_t { ok, malformed, no_memory };

/// Whether the bytes repeat every 8, which is how zeros and any other same-filled memory look. Stops at the first
/// that does not, so that it costs next to nothing on anything else.
bool is_same(const unsigned char *bytes, uint64_t count) noexcept;

/// Contexts of a library, made when none is free. Borrowing one cannot fail once there is one.
template <class Context>
class ContextPool {
 public:
  using Make = Context *(*)() noexcept;
  using Free = void (*)(Context *) noexcept;
  ContextPool(Make make, Free release) noexcept : make_(make), release_(release) {}
  ~ContextPool();

  struct Node {
    Context *context;
    Node *next;
    uint32_t age;  ///< what was the pool's as it was made
  };
  /// Replaces all contexts, which keep parts of what they have coded: those that are on loan as they come back. One for which the
  /// system has no memory stays as it is until the next time.
  void forget() noexcept;
  /// A context for as long as this lives; none if the system has no memory for the very first.
  class Loan {
   public:
    explicit Loan(ContextPool &pool) noexcept : pool_(pool), node_(pool.take()) {}
    ~Loan() {
      if (node_ != nullptr) (void)pool_.give(node_);
    }
    Loan(const Loan &) = delete;
    Loan &operator=(const Loan &) = delete;
    Context *get() const noexcept { return node_ != nullptr ? node_->context : nullptr; }

   private:
    ContextPool &pool_;
    Node *node_;
  };

 private:
  Node *take() noexcept;
  Node *create() noexcept;
  /// False: it is too old, and there was no memory for another.
  bool give(Node *node) noexcept;

  const Make make_;
  const Free release_;
  RankedMutex<Rank::leaf> mutex_;
  Signal given_;
  Node *free_ WEIR_GUARDED_BY(mutex_) = nullptr;
  uint32_t made_ WEIR_GUARDED_BY(mutex_) = 0;  ///< and those being made
  std::atomic<uint32_t> age_{0};
};

class PlaneEncoder;
class PlaneDecoder;
extern template class ContextPool<ZSTD_CCtx_s>;
extern template class ContextPool<ZSTD_DCtx_s>;
extern template class ContextPool<PlaneEncoder>;
extern template class ContextPool<PlaneDecoder>;

struct MethodContexts {
  /// `decoders_ready`: makes the first ones for decoding now, so that decoding cannot fail for want of them.
  explicit MethodContexts(bool decoders_ready) noexcept;

  ContextPool<ZSTD_CCtx_s> zstd_encoders;
  ContextPool<ZSTD_DCtx_s> zstd_decoders;
  ContextPool<PlaneEncoder> plane_encoders;
  ContextPool<PlaneDecoder> plane_decoders;
};

class DecodedSum;

/// A block on its way: `bytes` at `in` to at most `room` at `out` when it is coded, to exactly `room` when it is decoded.
struct BlockTask {
  MethodContexts &contexts;
  const unsigned char *in;
  uint64_t bytes;
  Form form;
  unsigned char *out;
  uint64_t room;
  /// What is decoded is added to it, all of it or nothing; nullptr: its sum is not wanted.
  DecodedSum *sum = nullptr;
};

class BlockMethod {
 public:
  /// What it is, and its functions for the calls below. Without `weigh`, it is weighed by encoding.
  struct Way {
    MethodId id;
    const char *name;
    uint64_t (*encode)(const BlockTask &block) noexcept;
    Decoded (*decode)(const BlockTask &block) noexcept;
    uint64_t (*weigh)(const BlockTask &block, uint64_t best) noexcept = nullptr;
  };
  BlockMethod() = default;
  BlockMethod(const Way &way, MethodContexts &contexts) noexcept
      : way_(&way), contexts_(&contexts) {}

  MethodId id() const noexcept { return way_->id; }
  const char *name() const noexcept { return way_->name; }

  /// Codes `raw` bytes into at most `room`; 0: they do not fit, or there is no memory for a context.
  uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                  uint64_t room) const noexcept {
    return way_->encode({*contexts_, in, raw, form, out, room});
  }
  /// Writes exactly `raw` bytes, or is not `ok`. Methods that write in order add what they wrote to *sum as they go; the
  /// others, and a call that fails, may leave it to DecodedSum::of().
  Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                 DecodedSum *sum = nullptr) const noexcept {
    return way_->decode({*contexts_, in, bytes, Form::bytes, out, raw, sum});
  }
  /// About what encode() would return, without the work where a look tells it, and with what the time is worth that
  /// some bytes take and others do not. 0: it would be no shorter, or not as short as `best`, which another method comes
  /// to. `scratch` has room for the raw bytes.
  uint64_t weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t best,
                 unsigned char *scratch) const noexcept {
    const BlockTask block{*contexts_, in, raw, form, scratch, raw - 1};
    return way_->weigh != nullptr ? way_->weigh(block, best) : way_->encode(block);
  }

 private:
  const Way *way_ = nullptr;
  MethodContexts *contexts_ = nullptr;
};

class BlockMethods {
 public:
  explicit BlockMethods(bool decoders_ready) noexcept;

  /// nullptr: there is no such method. What encodes with less time also reads what has been made with more.
  BlockMethod *find(MethodId id, Effort effort = Effort::dense) noexcept;
  /// Those that a trial compares; the others need none. Quick ones are none that may take more than twice LZ4's time on the same
  /// bytes, either way: no entropy coding. What a method is called for by name is not bound by that.
  static std::span<const MethodId> candidates(Effort effort) noexcept;
  static constexpr uint32_t most_tried = 7;
  /// The way a trial's candidate codes; nullptr: it is none.
  BlockMethod *candidate(MethodId id, Effort effort) noexcept;
  /// Nothing of what was coded so far is kept in the contexts to code with.
  void forget() noexcept;

 private:
  MethodContexts contexts_;
  /// By their numbers: `none` has none, and the last two are further ways to code PLANES.
  std::array<BlockMethod, method_count + 1> methods_;
};

}  // namespace weir::codec

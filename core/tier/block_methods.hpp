// SPDX-License-Identifier: Apache-2.0
//
// BlockMethods: the ways one block can be coded, each a name, a number that stands in blobs, and two functions. A
// further codec is a class here and a line in BlockMethods; the Codec chooses among them by what they measure. What a
// block's elements are taken for (its Form) is a hint to encode() and nothing else: every method gives back any bytes.
//
// A method never reads or writes outside the ranges it is given, whatever is in them, and keeps no trace of one block
// in the next. Its contexts are its own: as many as there were threads in it at once, freed with it.
#pragma once

#include "core/base/mutex.hpp"
#include "core/base/status.hpp"
#include "core/tier/codec/effort.hpp"
#include "core/tier/codec/form.hpp"

#include <atomic>
#include <array>
#include <cstdint>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace weir::tier {

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

enum class Decoded : uint8_t { ok, malformed, no_memory };

class BlockMethod {
 public:
  BlockMethod(MethodId id, const char *name, uint32_t price) noexcept
      : id_(id), name_(name), price_(price) {}
  BlockMethod(const BlockMethod &) = delete;
  BlockMethod &operator=(const BlockMethod &) = delete;

  MethodId id() const noexcept { return id_; }
  const char *name() const noexcept { return name_; }
  /// What its time is worth: 1/64 of the raw bytes it has to save before it is preferred to a method that costs none.
  uint32_t price() const noexcept { return price_; }

  /// Codes `raw` bytes into at most `room`; 0: they do not fit, or there is no memory for a context.
  virtual uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                          uint64_t room) noexcept = 0;
  /// Writes exactly `raw` bytes, or is not `ok`.
  virtual Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                         uint64_t raw) noexcept = 0;
  /// About what encode() would return, without the work where a look tells it, and with what the time is worth that
  /// some bytes take and others do not. 0: it would be no shorter, or not as short as `best`, which another method comes
  /// to. `scratch` has room for the raw bytes.
  virtual uint64_t weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t /*best*/,
                         unsigned char *scratch) noexcept {
    return encode(in, raw, form, scratch, raw - 1);
  }

 protected:
  ~BlockMethod() = default;

 private:
  const MethodId id_;
  const char *const name_;
  const uint32_t price_;
};

/// Whether the bytes repeat every 8, which is how zeros and any other same-filled memory look. Stops at the first
/// that does not, so that it costs next to nothing on anything else.
bool is_same(const unsigned char *bytes, uint64_t count) noexcept;

/// One pattern of 8 bytes.
class SameMethod final : public BlockMethod {
 public:
  SameMethod() noexcept : BlockMethod(MethodId::same, "same", 0) {}
  uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                  uint64_t room) noexcept override;
  Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                 uint64_t raw) noexcept override;
};

class RawMethod final : public BlockMethod {
 public:
  RawMethod() noexcept : BlockMethod(MethodId::raw, "raw", 0) {}
  uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                  uint64_t room) noexcept override;
  Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                 uint64_t raw) noexcept override;
};

class Lz4Method final : public BlockMethod {
 public:
  Lz4Method() noexcept : BlockMethod(MethodId::lz4, "lz4", 0) {}
  uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                  uint64_t room) noexcept override;
  Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                 uint64_t raw) noexcept override;
  uint64_t weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t best,
                 unsigned char *scratch) noexcept override;
};

/// Contexts of a library, made when none is free. Borrowing one cannot fail once there is one.
template <class Context>
class ContextPool {
 public:
  using Make = Context *(*)() noexcept;
  using Free = void (*)(Context *) noexcept;
  ContextPool(Make make, Free release) noexcept : make_(make), release_(release) {}
  ~ContextPool();
  ContextPool(const ContextPool &) = delete;
  ContextPool &operator=(const ContextPool &) = delete;

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
      if (node_ != nullptr) pool_.give(node_);
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
  void give(Node *node) noexcept;
  void renew(Node *node) noexcept;

  const Make make_;
  const Free release_;
  RankedMutex<Rank::leaf> mutex_;
  Signal given_;
  Node *free_ WEIR_GUARDED_BY(mutex_) = nullptr;
  uint32_t made_ WEIR_GUARDED_BY(mutex_) = 0;  ///< and those being made
  std::atomic<uint32_t> age_{0};
};

extern template class ContextPool<ZSTD_CCtx_s>;
extern template class ContextPool<ZSTD_DCtx_s>;

/// Level 1: the higher ones are not worth their time on what device memory holds.
class ZstdMethod final : public BlockMethod {
 public:
  /// `decoder_ready`: makes the first context for decoding now, so that decoding cannot fail for want of it.
  explicit ZstdMethod(bool decoder_ready) noexcept;
  uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                  uint64_t room) noexcept override;
  Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                 uint64_t raw) noexcept override;
  uint64_t weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t best,
                 unsigned char *scratch) noexcept override;

  void forget() noexcept {
    encoders_.forget();
    decoders_.forget();
  }

 private:
  ContextPool<ZSTD_CCtx_s> encoders_;
  ContextPool<ZSTD_DCtx_s> decoders_;
};

class FxMethod final : public BlockMethod {
 public:
  FxMethod() noexcept : BlockMethod(MethodId::fx, "fx", 0) {}
  uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                  uint64_t room) noexcept override;
  Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                 uint64_t raw) noexcept override;
  uint64_t weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t best,
                 unsigned char *scratch) noexcept override;
};

class SparseMethod final : public BlockMethod {
 public:
  SparseMethod() noexcept : BlockMethod(MethodId::sparse, "sparse", 0) {}
  uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                  uint64_t room) noexcept override;
  Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                 uint64_t raw) noexcept override;
  uint64_t weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t best,
                 unsigned char *scratch) noexcept override;
};

class MaskMethod final : public BlockMethod {
 public:
  MaskMethod() noexcept : BlockMethod(MethodId::mask, "mask", 0) {}
  uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                  uint64_t room) noexcept override;
  Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                 uint64_t raw) noexcept override;
};

class NarrowMethod final : public BlockMethod {
 public:
  NarrowMethod() noexcept : BlockMethod(MethodId::narrow, "narrow", 0) {}
  uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                  uint64_t room) noexcept override;
  Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                 uint64_t raw) noexcept override;
  uint64_t weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t best,
                 unsigned char *scratch) noexcept override;
};

class PlaneEncoder;
class PlaneDecoder;
extern template class ContextPool<PlaneEncoder>;
extern template class ContextPool<PlaneDecoder>;

/// Each block is planned by a look at it: whether zeros are taken out, or differences taken. Whatever is smallest.
class PlanesMethod final : public BlockMethod {
 public:
  /// `decoder_ready`: as ZstdMethod's.
  explicit PlanesMethod(bool decoder_ready) noexcept;
  uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                  uint64_t room) noexcept override;
  Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                 uint64_t raw) noexcept override;

  void forget() noexcept {
    encoders_.forget();
    decoders_.forget();
  }

 private:
  friend class QuickPlanesMethod;
  ContextPool<PlaneEncoder> encoders_;
  ContextPool<PlaneDecoder> decoders_;
};

/// The same blocks, made with less time: a shorter look, and Huffman codes or nothing.
class QuickPlanesMethod final : public BlockMethod {
 public:
  explicit QuickPlanesMethod(PlanesMethod &dense) noexcept
      : BlockMethod(MethodId::planes, dense.name(), 0), dense_(dense) {}
  uint64_t encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                  uint64_t room) noexcept override;
  Decoded decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                 uint64_t raw) noexcept override;
  uint64_t weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t best,
                 unsigned char *scratch) noexcept override;

 private:
  PlanesMethod &dense_;
};

class BlockMethods {
 public:
  explicit BlockMethods(bool decoders_ready) noexcept
      : zstd_(decoders_ready), planes_(decoders_ready) {}

  /// nullptr: there is no such method. What encodes with less time also reads what has been made with more.
  BlockMethod *find(MethodId id, Effort effort = Effort::dense) noexcept;
  /// Those that a trial compares. The others need none.
  static constexpr uint32_t tried = 7;
  const std::array<BlockMethod *, tried> &candidates(Effort effort) const noexcept {
    return effort == Effort::dense ? dense_candidates_ : quick_candidates_;
  }
  /// Nothing of what was coded so far is kept in the contexts to code with.
  void forget() noexcept {
    zstd_.forget();
    planes_.forget();
  }
  /// What codes floats of a form that somebody names.
  BlockMethod *of_floats(Effort effort) noexcept {
    return effort == Effort::dense ? static_cast<BlockMethod *>(&planes_) : &fx_;
  }

 private:
  SameMethod same_;
  RawMethod raw_;
  Lz4Method lz4_;
  ZstdMethod zstd_;
  FxMethod fx_;
  SparseMethod sparse_;
  MaskMethod mask_;
  NarrowMethod narrow_;
  PlanesMethod planes_;
  QuickPlanesMethod quick_planes_{planes_};
  /// The cheapest first. Where time counts that is what a look tells all of; then the others need not always be tried.
  const std::array<BlockMethod *, tried> quick_candidates_{
      &fx_, &sparse_, &mask_, &narrow_, &quick_planes_, &lz4_, &zstd_};
  const std::array<BlockMethod *, tried> dense_candidates_{&lz4_,  &fx_,   &sparse_, &narrow_,
                                                           &mask_, &zstd_, &planes_};
};

}  // namespace weir::tier

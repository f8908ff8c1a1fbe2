// SPDX-License-Identifier: Apache-2.0
//
// A block of FX written or read a few groups at a time, so that what makes or takes the elements can keep them in the
// nearest cache. All bounds are kept here: a kernel is let loose on a block's own memory only where as much lies
// behind the escapes as it may touch, else on a copy.
//
// Escapes are not spread evenly either: where there are enough of them, and not too many, they become a block of FX in their turn,
// of bytes. They stay beside the block until it is known.
#pragma once

#include "core/codec/fx_kernels.hpp"
#include "core/codec/fx_window.hpp"

#include <type_traits>

namespace weir::codec {

constexpr uint64_t fx_header_bytes = 8;
/// Flags of a header's byte 3.
constexpr uint8_t fx_as_it_is = 1, fx_escapes_coded = 2;
/// How many escapes are coded: below, there is nothing to gain; above, they are no longer few.
constexpr uint64_t fx_least_coded = 64, fx_most_coded = uint64_t{16} << 10U;

/// How many groups are in so many raw bytes, and what is behind them.
struct FxShape {
  FxShape(Form of, uint64_t raw) noexcept
      : form(of),
        groups(raw / (fx_group * element_bytes(of))),
        tail(raw % (fx_group * element_bytes(of))) {}
  /// Where the planes of a coded block begin.
  template <class Byte>
  FxPlanes<Byte> planes(Byte *block, uint32_t k) const noexcept {
    Byte *const low = block + fx_header_bytes, *const middle = low + groups * fx_low_bytes(form);
    Byte *const bitmaps = middle + groups * fx_middle_bytes(form);
    return {low, middle, bitmaps, bitmaps + groups * 8 * k};
  }
  /// All but the escapes.
  uint64_t fixed(uint32_t k) const noexcept {
    return fx_header_bytes + groups * (fx_low_bytes(form) + fx_middle_bytes(form) + 8 * k) + tail;
  }
  Form form;
  uint64_t groups, tail;
};

/// `nests`: its escapes may be coded.
template <bool nests>
class FxWriterOf {
 public:
  /// A block of `raw` bytes into at most `room`. FX must support the form, or it is bytes.
  FxWriterOf(Form form, const FxWindow &window, uint64_t raw, unsigned char *out, uint64_t room,
             CpuLevel level) noexcept;
  /// Whether all but the escapes has room; nothing may be put if not.
  bool fits() const noexcept { return fits_; }
  const FxShape &shape() const noexcept { return shape_; }
  /// The next groups, which must be no more than the block has. False: no room, and the block is lost.
  bool put(const unsigned char *in, uint64_t groups) noexcept;
  /// What is behind the last group. Gives the coded bytes; 0: no room.
  uint64_t finish(const unsigned char *tail) noexcept;

 private:
  /// As many escapes to where they stand in the block. False: no room.
  bool place(const unsigned char *escapes, uint64_t count) noexcept;
  uint64_t code_escapes(uint64_t count) noexcept;

  const FxShape shape_;
  const FxWindow window_;
  const CpuLevel level_;
  unsigned char *const out_;
  const bool fits_;
  const FxEncode encode_;
  FxTarget to_{};  ///< its escapes: the end of those that are held
  unsigned char *escapes_ = nullptr,
                *escapes_end_ = nullptr;  ///< in the block: the next one's place
  uint64_t placed_ = 0;
  static constexpr uint64_t hold = nests ? fx_most_coded : 0;  ///< as many wait beside the block
  unsigned char held_[hold + fx_escape_reach];
};
extern template class FxWriterOf<true>;
extern template class FxWriterOf<false>;
using FxWriter = FxWriterOf<true>;

/// `nests`: as above.
template <bool nests>
class FxReaderOf {
 public:
  /// False: this is no block of so many bytes, and nothing may be asked of it. It may be one of bytes.
  bool open(const unsigned char *in, uint64_t bytes, uint64_t raw, CpuLevel level) noexcept;
  const FxShape &shape() const noexcept { return shape_; }
  /// The next groups, no more than there are. False: the block is malformed.
  bool get(unsigned char *out, uint64_t groups, Stores stores = Stores::cached) noexcept;
  /// What is behind the last group. False: the block is malformed.
  bool finish(unsigned char *tail) noexcept;

 private:
  struct Nothing {};
  bool open_escapes(const unsigned char *in, uint64_t bytes, CpuLevel level) noexcept;
  bool ready_escapes() noexcept;

  FxShape shape_{Form::bf16, 0};
  uint8_t base_ = 0;
  FxDecode decode_ = nullptr;
  void (*fence_)() noexcept = nullptr;
  FxSource from_{};
  uint64_t escapes_left_ = 0;  ///< not taken yet ...
  uint64_t escapes_here_ = 0;  ///< ... of which so many stand at from_.escapes
  const unsigned char *tail_ = nullptr;
  bool coded_ = false, moved_ = false;
  [[no_unique_address]] std::conditional_t<nests, FxReaderOf<false>, Nothing> nested_;
  unsigned char beside_[2 * fx_escape_reach + (nests ? (fx_call_groups + 1) * fx_group : 0)];
};
extern template class FxReaderOf<true>;
extern template class FxReaderOf<false>;
using FxReader = FxReaderOf<true>;

}  // namespace weir::codec

// SPDX-License-Identifier: Apache-2.0
//
// A block of FX written or read a few groups at a time, so that what makes or takes the elements can keep them in the
// nearest cache. All bounds are kept here: a kernel is let loose on a block's own memory only where as much lies
// behind the escapes as it may touch, else on a copy.
#pragma once

#include "core/codec/fx_kernels.hpp"
#include "core/codec/fx_window.hpp"

namespace weir::codec {

constexpr uint64_t fx_header_bytes = 8;

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

class FxWriter {
 public:
  /// A block of `raw` bytes into at most `room`. FX must support the form.
  FxWriter(Form form, const FxWindow &window, uint64_t raw, unsigned char *out, uint64_t room,
           CpuLevel level) noexcept;
  /// Whether all but the escapes has room; nothing may be put if not.
  bool fits() const noexcept { return fits_; }
  const FxShape &shape() const noexcept { return shape_; }
  /// The next groups, which must be no more than the block has. False: no room, and the block is lost.
  bool put(const unsigned char *in, uint64_t groups) noexcept;
  /// What is behind the last group. Gives the coded bytes.
  uint64_t finish(const unsigned char *tail) noexcept;

 private:
  const FxShape shape_;
  const FxWindow window_;
  unsigned char *const out_;
  const bool fits_;
  const FxEncode encode_;
  FxTarget to_{};
  unsigned char *escapes_begin_ = nullptr, *escapes_end_ = nullptr;
};

class FxReader {
 public:
  /// False: this is no block of so many bytes, and nothing may be asked of it.
  bool open(const unsigned char *in, uint64_t bytes, uint64_t raw, CpuLevel level) noexcept;
  const FxShape &shape() const noexcept { return shape_; }
  /// The next groups, no more than there are. False: the block is malformed.
  bool get(unsigned char *out, uint64_t groups, Stores stores = Stores::cached) noexcept;
  /// What is behind the last group. False: the block is malformed.
  bool finish(unsigned char *tail) noexcept;

 private:
  FxShape shape_{Form::bf16, 0};
  uint8_t base_ = 0;
  FxDecode decode_ = nullptr;
  void (*fence_)() noexcept = nullptr;
  FxSource from_{};
  uint64_t escapes_left_ = 0;
  const unsigned char *tail_ = nullptr;
  bool moved_ = false;
  unsigned char last_escapes_[2 * fx_escape_reach];
};

}  // namespace weir::codec

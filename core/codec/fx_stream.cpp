// SPDX-License-Identifier: Apache-2.0
//
// Writing and reading a block of FX.

#include "core/codec/fx_stream.hpp"

#include "core/codec/little_endian.hpp"

#include <algorithm>
#include <cstring>

namespace weir::codec {

// ---- writing ----

template <bool nests>
FxWriterOf<nests>::FxWriterOf(Form form, const FxWindow &window, uint64_t raw, unsigned char *out,
                              uint64_t room, CpuLevel level) noexcept
    : shape_(form, raw),
      window_(window),
      level_(level),
      out_(out),
      fits_(raw <= UINT32_MAX && shape_.fixed(window.k) <= room),
      encode_(fx_kernels(level).coder(form, window.rotated, window.k).encode) {
  if (!fits_) return;
  to_ = shape_.planes(out, window.k);
  escapes_ = to_.escapes;
  escapes_end_ = out + room - shape_.tail;
  to_.escapes = held_;
}

template <bool nests>
bool FxWriterOf<nests>::place(const unsigned char *escapes, uint64_t count) noexcept {
  if (count > static_cast<uint64_t>(escapes_end_ - escapes_)) return false;
  std::memcpy(escapes_, escapes, count);
  escapes_ += count;
  placed_ += count;
  return true;
}

template <bool nests>
bool FxWriterOf<nests>::put(const unsigned char *in, uint64_t groups) noexcept {
  while (groups > 0) {
    const uint64_t now = std::min(groups, fx_call_groups);
    const auto left = static_cast<uint64_t>(escapes_end_ - escapes_);
    if (placed_ > 0 && left >= fx_escape_reach) {  // all go to their places
      to_.escapes = escapes_;
      encode_(in, now, window_.base, to_);
      placed_ += static_cast<uint64_t>(to_.escapes - escapes_);
      escapes_ = to_.escapes;
      to_.escapes = held_;
    } else {
      encode_(in, now, window_.base, to_);
      const auto held = static_cast<uint64_t>(to_.escapes - held_);
      if (held > hold || placed_ > 0) {
        if (!place(held_, held)) return false;
        to_.escapes = held_;
      }
    }
    in += now * fx_group * element_bytes(shape_.form);
    groups -= now;
  }
  return true;
}

/// What is held as a block of bytes, where it saves a sixteenth of them. Gives its length; 0: it does not, or there is no room,
/// and then there is none for the escapes as they are either.
template <bool nests>
uint64_t FxWriterOf<nests>::code_escapes(uint64_t count) noexcept {
  FxCensus census;
  for_sample(held_, count, 1, [&](uint64_t first, uint64_t length) {
    census.add(Form::bytes, held_ + first, length);
  });
  const auto left = static_cast<uint64_t>(escapes_end_ - escapes_);
  FxWriterOf<false> writer(Form::bytes, census.best(Form::bytes), count, escapes_,
                           std::min(left, count - count / 16), level_);
  const FxShape &shape = writer.shape();
  if (!writer.fits() || !writer.put(held_, shape.groups)) return 0;
  return writer.finish(held_ + count - shape.tail);
}

template <bool nests>
uint64_t FxWriterOf<nests>::finish(const unsigned char *tail) noexcept {
  const auto held = static_cast<uint64_t>(to_.escapes - held_);
  uint64_t coded = 0;
  if constexpr (nests) {
    if (placed_ == 0 && held >= fx_least_coded && held <= hold) coded = code_escapes(held);
  }
  if (coded == 0 && !place(held_, held)) return 0;
  const uint64_t escapes = coded > 0 ? held : placed_;
  escapes_ += coded;
  if (shape_.tail > 0) std::memcpy(escapes_, tail, shape_.tail);
  out_[0] = static_cast<unsigned char>(shape_.form);
  out_[1] = window_.k;
  out_[2] = window_.base;
  out_[3] = static_cast<unsigned char>((window_.rotated ? 0 : fx_as_it_is) |
                                       (coded > 0 ? fx_escapes_coded : 0));
  store_little(out_ + 4, static_cast<uint32_t>(escapes));
  return static_cast<uint64_t>(escapes_ - out_) + shape_.tail;
}

template class FxWriterOf<true>;
template class FxWriterOf<false>;

// ---- reading ----

template <bool nests>
bool FxReaderOf<nests>::open(const unsigned char *in, uint64_t bytes, uint64_t raw,
                             CpuLevel level) noexcept {
  if (bytes < fx_header_bytes) return false;
  const auto form = static_cast<Form>(in[0]);
  const uint32_t k = in[1];
  constexpr uint8_t flags = fx_as_it_is | (nests ? fx_escapes_coded : 0);
  if ((!fx_supports(form) && form != Form::bytes) || k < 1 || k > fx_most_bits ||
      (in[3] & ~flags) != 0)
    return false;
  if (in[2] + fx_window(k) > fx_largest_exponent(form) + 1) return false;
  base_ = in[2];
  escapes_left_ = load_little<uint32_t>(in + 4);
  shape_ = FxShape(form, raw);
  if (raw > UINT32_MAX || bytes < shape_.fixed(k)) return false;
  from_ = shape_.planes(in, k);
  tail_ = in + bytes - shape_.tail;
  const bool rotated = (in[3] & fx_as_it_is) == 0;
  decode_ = fx_kernels(level).coder(form, rotated, k).decode;
  fence_ = fx_kernels(level).fence;
  moved_ = false;
  coded_ = (in[3] & fx_escapes_coded) != 0;
  const uint64_t left = bytes - shape_.fixed(k);
  if (coded_) return open_escapes(from_.escapes, left, level);
  if (left != escapes_left_) return false;
  escapes_here_ = left;
  const uint32_t largest = fx_largest_exponent(form);
  return largest == 255 || std::all_of(from_.escapes, tail_, [largest](unsigned char exponent) {
           return exponent <= largest;
         });
}

/// Those of a coded block, which are checked as they come.
template <bool nests>
bool FxReaderOf<nests>::open_escapes(const unsigned char *in, uint64_t bytes,
                                     CpuLevel level) noexcept {
  if constexpr (nests) {
    if (escapes_left_ < fx_least_coded || escapes_left_ > fx_most_coded) return false;
    if (!nested_.open(in, bytes, escapes_left_, level)) return false;
    if (nested_.shape().form != Form::bytes) return false;
    escapes_here_ = 0;
    from_.escapes = beside_;
    return true;
  }
  return false;
}

/// Sees to it that a call's escapes stand at from_.escapes, as far as there are so many, with memory behind them that a kernel may
/// read. False: they are malformed.
template <bool nests>
bool FxReaderOf<nests>::ready_escapes() noexcept {
  if (escapes_here_ >= fx_escape_reach || (moved_ && escapes_here_ == escapes_left_)) return true;
  // To where a kernel may read on behind the last of them.
  std::memmove(beside_, from_.escapes, escapes_here_);
  from_.escapes = beside_;
  if constexpr (nests) {
    const uint64_t known = coded_ ? escapes_left_ - escapes_here_ : 0;
    const uint64_t tail = nested_.shape().tail;
    if (known > 0) {
      const uint64_t groups = std::min((known - tail) / fx_group, fx_call_groups);
      unsigned char *const to = beside_ + escapes_here_;
      if (groups > 0 && !nested_.get(to, groups)) return false;
      uint64_t more = groups * fx_group;
      if (known - more == tail) {
        if (!nested_.finish(to + more)) return false;
        more += tail;
      }
      const uint32_t largest = fx_largest_exponent(shape_.form);
      if (largest != 255 && std::any_of(to, to + more, [largest](unsigned char exponent) {
            return exponent > largest;
          }))
        return false;
      escapes_here_ += more;
    }
  }
  moved_ = escapes_here_ == escapes_left_;
  if (moved_) std::memset(beside_ + escapes_here_, 0, fx_escape_reach);
  return true;
}

template <bool nests>
bool FxReaderOf<nests>::get(unsigned char *out, uint64_t groups, Stores stores) noexcept {
  const bool streaming = streams_to(out, stores);
  bool fine = true;
  while (fine && groups > 0) {
    const uint64_t now = std::min(groups, fx_call_groups);
    fine = ready_escapes();
    if (!fine) break;
    const unsigned char *const before = from_.escapes;
    decode_(from_, now, base_, out, streaming);
    const auto taken = static_cast<uint64_t>(from_.escapes - before);
    fine = taken <= escapes_here_;
    if (!fine) break;
    escapes_left_ -= taken;
    escapes_here_ -= taken;
    out += now * fx_group * element_bytes(shape_.form);
    groups -= now;
  }
  if (streaming) fence_();
  return fine;
}

template <bool nests>
bool FxReaderOf<nests>::finish(unsigned char *tail) noexcept {
  if (escapes_left_ != 0) return false;
  if (shape_.tail > 0) std::memcpy(tail, tail_, shape_.tail);
  return true;
}

template class FxReaderOf<true>;
template class FxReaderOf<false>;

}  // namespace weir::codec

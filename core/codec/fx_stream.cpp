// SPDX-License-Identifier: Apache-2.0
//
// Writing and reading a block of FX.

#include "core/codec/fx_stream.hpp"

#include "core/codec/little_endian.hpp"

#include <algorithm>
#include <cstring>

namespace weir::codec {

// ---- writing ----

FxWriter::FxWriter(Form form, const FxWindow &window, uint64_t raw, unsigned char *out,
                   uint64_t room, CpuLevel level) noexcept
    : shape_(form, raw),
      window_(window),
      out_(out),
      fits_(raw <= UINT32_MAX && shape_.fixed(window.k) <= room),
      encode_(fx_kernels(level).coder(form, window.rotated, window.k).encode) {
  if (!fits_) return;
  to_ = shape_.planes(out, window.k);
  escapes_begin_ = to_.escapes;
  escapes_end_ = out + room - shape_.tail;
}

bool FxWriter::put(const unsigned char *in, uint64_t groups) noexcept {
  while (groups > 0) {
    const uint64_t now = std::min(groups, fx_call_groups);
    const auto left = static_cast<uint64_t>(escapes_end_ - to_.escapes);
    if (left >= fx_escape_reach) {
      encode_(in, now, window_.base, to_);
    } else {
      unsigned char beside[fx_escape_reach];
      unsigned char *const place = to_.escapes;
      to_.escapes = beside;
      encode_(in, now, window_.base, to_);
      const auto count = static_cast<uint64_t>(to_.escapes - beside);
      if (count > left) return false;
      std::memcpy(place, beside, count);
      to_.escapes = place + count;
    }
    in += now * fx_group * element_bytes(shape_.form);
    groups -= now;
  }
  return true;
}

uint64_t FxWriter::finish(const unsigned char *tail) noexcept {
  if (shape_.tail > 0) std::memcpy(to_.escapes, tail, shape_.tail);
  out_[0] = static_cast<unsigned char>(shape_.form);
  out_[1] = window_.k;
  out_[2] = window_.base;
  out_[3] = window_.rotated ? 0 : 1;
  store_little(out_ + 4, static_cast<uint32_t>(to_.escapes - escapes_begin_));
  return static_cast<uint64_t>(to_.escapes - out_) + shape_.tail;
}

// ---- reading ----

bool FxReader::open(const unsigned char *in, uint64_t bytes, uint64_t raw,
                    CpuLevel level) noexcept {
  if (bytes < fx_header_bytes) return false;
  const auto form = static_cast<Form>(in[0]);
  const uint32_t k = in[1];
  if (!fx_supports(form) || k < 1 || k > fx_most_bits || in[3] > 1) return false;
  if (in[2] + fx_window(k) > fx_largest_exponent(form) + 1) return false;
  base_ = in[2];
  escapes_left_ = load_little<uint32_t>(in + 4);
  shape_ = FxShape(form, raw);
  if (raw > UINT32_MAX || bytes != shape_.fixed(k) + escapes_left_) return false;
  from_ = shape_.planes(in, k);
  tail_ = from_.escapes + escapes_left_;
  decode_ = fx_kernels(level).coder(form, in[3] == 0, k).decode;
  fence_ = fx_kernels(level).fence;
  moved_ = false;
  const uint32_t largest = fx_largest_exponent(form);
  return largest == 255 || std::all_of(from_.escapes, tail_, [largest](unsigned char exponent) {
           return exponent <= largest;
         });
}

bool FxReader::get(unsigned char *out, uint64_t groups, Stores stores) noexcept {
  const bool streaming = streams_to(out, stores);
  bool fine = true;
  while (fine && groups > 0) {
    const uint64_t now = std::min(groups, fx_call_groups);
    if (!moved_ && escapes_left_ < fx_escape_reach) {
      // To where a kernel may read on behind the last of them.
      std::memcpy(last_escapes_, from_.escapes, escapes_left_);
      std::memset(last_escapes_ + escapes_left_, 0, sizeof last_escapes_ - escapes_left_);
      from_.escapes = last_escapes_;
      moved_ = true;
    }
    const unsigned char *const before = from_.escapes;
    decode_(from_, now, base_, out, streaming);
    const auto taken = static_cast<uint64_t>(from_.escapes - before);
    fine = taken <= escapes_left_;
    escapes_left_ -= taken;
    out += now * fx_group * element_bytes(shape_.form);
    groups -= now;
  }
  if (streaming) fence_();
  return fine;
}

bool FxReader::finish(unsigned char *tail) noexcept {
  if (escapes_left_ != 0) return false;
  if (shape_.tail > 0) std::memcpy(tail, tail_, shape_.tail);
  return true;
}

}  // namespace weir::codec

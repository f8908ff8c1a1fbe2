// SPDX-License-Identifier: Apache-2.0
//
// NARROW block by block; the loops over elements are in narrow_kernels.hpp.

#include "core/codec/narrow.hpp"

#include "core/codec/fx.hpp"
#include "core/codec/little_endian.hpp"
#include "core/codec/narrow_kernels.hpp"
#include "core/codec/sparse.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace weir::codec {
namespace {

constexpr uint64_t header = 4;
constexpr uint64_t chunk_raw = uint64_t{64} << 10U;
constexpr uint64_t chunk_halves = chunk_raw / 2;
enum Inner : uint32_t { as_is = 0, by_fx = 1, by_sparse = 2 };
constexpr uint32_t length_mask = 0x3fffffffU;

using Halves = std::array<unsigned char, chunk_halves>;
/// The last elements of a range, filled up to a whole step.
using Step = std::array<unsigned char, 4 * narrow_step>;

/// A loop over `count` elements of `from` bytes each that become `to` bytes each: in whole steps where they lie, and what is
/// left in a step of its own.
bool in_steps(NarrowLoop loop, const unsigned char *in, uint64_t from, unsigned char *out,
              uint64_t to, uint64_t count) noexcept {
  const uint64_t whole = count / narrow_step * narrow_step;
  if (!loop(in, out, whole)) return false;
  if (whole == count) return true;
  Step rest{};
  Step made;
  std::memcpy(rest.data(), in + from * whole, from * (count - whole));
  if (!loop(rest.data(), made.data(), narrow_step)) return false;
  std::memcpy(out + to * whole, made.data(), to * (count - whole));
  return true;
}

/// Halves in the shortest way there is. 0: they do not fit into `room`.
uint64_t put_halves(Form form, const unsigned char *halves, uint64_t bytes, unsigned char *out,
                    uint64_t room, CpuLevel level) noexcept {
  if (room < 4) return 0;
  const uint64_t most = std::min(room - 4, bytes);
  const uint64_t fx = fx_estimate(form, halves, bytes);
  const uint64_t sparse = sparse_estimate(form, halves, bytes);
  Inner inner = as_is;
  uint64_t length = 0;
  if (sparse < std::min(fx != 0 ? fx : bytes, bytes)) {
    length = sparse_encode(form, halves, bytes, out + 4, most, level);
    inner = by_sparse;
  } else if (fx != 0 && fx < bytes) {
    length = fx_encode(form, halves, bytes, out + 4, most, level);
    inner = by_fx;
  }
  if (length == 0) {
    if (most < bytes) return 0;
    std::memcpy(out + 4, halves, bytes);
    length = bytes;
    inner = as_is;
  }
  store_little<uint32_t>(out, inner << 30U | static_cast<uint32_t>(length));
  return 4 + length;
}

/// The reverse; how many bytes it took, 0: they are none.
uint64_t take_halves(const unsigned char *in, uint64_t bytes, unsigned char *halves, uint64_t count,
                     CpuLevel level) noexcept {
  if (bytes < 4) return 0;
  const auto word = load_little<uint32_t>(in);
  const uint64_t length = word & length_mask;
  if (length > bytes - 4) return 0;
  const uint32_t inner = word >> 30U;
  bool good = inner == as_is && length == count;
  if (good) std::memcpy(halves, in + 4, count);
  if (inner == by_fx) good = fx_decode(in + 4, length, halves, count, level);
  if (inner == by_sparse) good = sparse_decode(in + 4, length, halves, count, level);
  return good ? 4 + length : 0;
}

bool all_fit(Form form, const unsigned char *in, uint64_t raw) noexcept {
  const NarrowLoop loop = narrow_kernels(CpuLevel::scalar).of(form).to;
  constexpr uint64_t looks = 16;
  const uint64_t count = raw / 4;
  Step out;
  if (count < narrow_step) return in_steps(loop, in, 4, out.data(), 2, count);
  for (uint64_t look = 0; look < looks; ++look) {
    const uint64_t at = (count - narrow_step) * look / (looks - 1);
    if (!loop(in + 4 * at, out.data(), narrow_step)) return false;
  }
  return true;
}

}  // namespace

Form narrow_form(const unsigned char *in, uint64_t raw) noexcept {
  if (raw < 4) return Form::bytes;
  if (all_fit(Form::bf16, in, raw)) return Form::bf16;
  return all_fit(Form::f16, in, raw) ? Form::f16 : Form::bytes;
}

uint64_t narrow_encode(const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
                       CpuLevel level) noexcept {
  const Form form = narrow_form(in, raw);
  if (form == Form::bytes || room < header) return 0;
  const NarrowLoop loop = narrow_kernels(level).of(form).to;
  store_little<uint32_t>(out, static_cast<uint32_t>(form));
  uint64_t made = header;
  Halves halves;
  const uint64_t elements = raw / 4 * 4;
  for (uint64_t at = 0; at < elements; at += chunk_raw) {
    const uint64_t count = std::min(chunk_raw, elements - at) / 4;
    if (!in_steps(loop, in + at, 4, halves.data(), 2, count)) return 0;
    const uint64_t put = put_halves(form, halves.data(), 2 * count, out + made, room - made, level);
    if (put == 0) return 0;
    made += put;
  }
  const uint64_t rest = raw - elements;
  if (room - made < rest) return 0;
  if (rest != 0) std::memcpy(out + made, in + elements, rest);
  return made + rest;
}

bool narrow_decode(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                   CpuLevel level) noexcept {
  if (bytes < header) return false;
  const auto word = load_little<uint32_t>(in);
  const auto form = static_cast<Form>(word & 0xffU);
  if (word > 0xffU || (form != Form::bf16 && form != Form::f16)) return false;
  const NarrowLoop loop = narrow_kernels(level).of(form).from;
  uint64_t from = header;
  Halves halves;
  const uint64_t elements = raw / 4 * 4;
  for (uint64_t at = 0; at < elements; at += chunk_raw) {
    const uint64_t count = std::min(chunk_raw, elements - at) / 4;
    const uint64_t took = take_halves(in + from, bytes - from, halves.data(), 2 * count, level);
    if (took == 0) return false;
    (void)in_steps(loop, halves.data(), 2, out + at, 4, count);
    from += took;
  }
  const uint64_t rest = raw - elements;
  if (bytes - from != rest) return false;
  if (rest != 0) std::memcpy(out + elements, in + from, rest);
  return true;
}

void round_floats(Form to, const unsigned char *in, unsigned char *out, uint64_t bytes,
                  CpuLevel level) noexcept {
  (void)in_steps(narrow_kernels(level).of(to).round, in, 4, out, 4, bytes / 4);
  const uint64_t behind = bytes / 4 * 4;
  if (behind != bytes) std::memmove(out + behind, in + behind, bytes - behind);
}

}  // namespace weir::codec

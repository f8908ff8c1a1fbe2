// SPDX-License-Identifier: Apache-2.0
//
// SPARSE over one block. First the bitmaps of the whole of it, which tell the size; then the nonzeros a call's groups
// at a time, through memory beside the block where a kernel could touch more than the block has.

#include "core/codec/sparse.hpp"

#include "core/codec/checksum.hpp"
#include "core/codec/elements.hpp"
#include "core/codec/fx_stream.hpp"
#include "core/codec/little_endian.hpp"
#include "core/codec/sparse_kernels.hpp"

#include <algorithm>
#include <cstring>

namespace weir::codec {
namespace {

constexpr uint64_t header_bytes = 8;
constexpr uint64_t call_elements = sparse_call_groups * sparse_group;
/// FX must save so much of the nonzeros: what is saved is paid for with a pass more.
constexpr uint64_t fx_worth = 16;

/// What all steps have at hand.
struct Block {
  Block(Form form_, uint64_t raw, CpuLevel level_) noexcept
      : form(form_),
        level(level_),
        width(element_bytes(form)),
        kernels(sparse_kernels(width, level)),
        groups(raw / (sparse_group * width)),
        tail(raw % (sparse_group * width)) {}
  uint64_t bitmaps() const noexcept { return 8 * groups; }
  /// All but the nonzeros.
  uint64_t fixed() const noexcept { return header_bytes + bitmaps() + tail; }

  const Form form;
  const CpuLevel level;
  const uint32_t width;
  const SparseKernels &kernels;
  const uint64_t groups, tail;
};

struct Sample {
  uint64_t elements = 0, zeros = 0;
  FxWindow window;
};

Sample sample_of(Form form, const unsigned char *in, uint64_t raw) noexcept {
  Sample sample;
  FxCensus census;
  const uint32_t width = element_bytes(form);
  for_sample(in, raw / width, width, [&](uint64_t first, uint64_t count) {
    const unsigned char *const run = in + first * width;
    census.add(form, run, count);
    sample.elements += count;
    sample.zeros += zeros_in(run, count, width);
  });
  if (!fx_supports(form)) return sample;
  census.forget_zeros(sample.zeros);
  sample.window = census.best(form);
  return sample;
}

bool fx_pays(Form form, const FxWindow &window, uint64_t nonzeros) noexcept {
  if (!fx_supports(form)) return false;
  const uint64_t plain = nonzeros * element_bytes(form);
  return fx_header_bytes + window.expected(form, nonzeros) + plain / fx_worth < plain;
}

// ---- encoding ----

/// As they are, to `out`, where there is room for all of them and `spare` bytes more.
void write_plain(const Block &block, const unsigned char *in, const unsigned char *bitmaps,
                 unsigned char *out, uint64_t nonzeros, uint64_t spare) noexcept {
  const uint32_t width = block.width;
  const unsigned char *const end = out + nonzeros * width + spare;
  for (uint64_t left = block.groups; left > 0;) {
    const uint64_t now = std::min(left, sparse_call_groups);
    if (static_cast<uint64_t>(end - out) >= now * sparse_group * width + sparse_reach) {
      out = block.kernels.pack(in, now, bitmaps, out);
    } else {
      unsigned char beside[call_elements * 8 + sparse_reach];
      const auto length =
          static_cast<uint64_t>(block.kernels.pack(in, now, bitmaps, beside) - beside);
      std::memcpy(out, beside, length);
      out += length;
    }
    in += now * sparse_group * width;
    bitmaps += 8 * now;
    left -= now;
  }
}

/// Coded by FX; 0 if there is no room. What is no whole group of nonzeros yet waits for the next call's.
uint64_t write_fx(const Block &block, const FxWindow &window, const unsigned char *in,
                  const unsigned char *bitmaps, unsigned char *out, uint64_t nonzeros,
                  uint64_t room) noexcept {
  const uint32_t width = block.width;
  FxWriter writer(block.form, window, nonzeros * width, out, room, block.level);
  if (!writer.fits()) return 0;
  unsigned char packed[(call_elements + fx_group) * 4 + sparse_reach];
  unsigned char *end = packed;
  for (uint64_t left = block.groups; left > 0;) {
    const uint64_t now = std::min(left, sparse_call_groups);
    end = block.kernels.pack(in, now, bitmaps, end);
    const uint64_t whole = static_cast<uint64_t>(end - packed) / (fx_group * width);
    if (!writer.put(packed, whole)) return 0;
    const uint64_t used = whole * fx_group * width,
                   rest = static_cast<uint64_t>(end - packed) - used;
    if (used > 0) std::memmove(packed, packed + used, rest);
    end = packed + rest;
    in += now * sparse_group * width;
    bitmaps += 8 * now;
    left -= now;
  }
  return writer.finish(packed);
}

// ---- decoding ----

/// The nonzeros as they are, `bytes` of them at `in`.
class PlainNonzeros {
 public:
  PlainNonzeros(const unsigned char *in, uint64_t bytes, uint32_t width) noexcept
      : in_(in), left_(bytes), width_(width) {}

  /// So many, and as much behind them as a kernel may touch. nullptr: there are not as many.
  const unsigned char *take(uint64_t count) noexcept {
    const uint64_t bytes = count * width_;
    if (bytes > left_) return nullptr;
    const unsigned char *from = in_;
    if (left_ - bytes < sparse_reach) {
      std::memcpy(beside_, in_, bytes);
      std::memset(beside_ + bytes, 0, sparse_reach);
      from = beside_;
    }
    in_ += bytes;
    left_ -= bytes;
    return from;
  }
  bool all_taken() const noexcept { return left_ == 0; }

 private:
  const unsigned char *in_;
  uint64_t left_;
  const uint32_t width_;
  unsigned char beside_[call_elements * 8 + sparse_reach];
};

class FxNonzeros {
 public:
  explicit FxNonzeros(const Block &block) noexcept : width_(block.width) {}

  bool open(const unsigned char *in, uint64_t bytes, const Block &block,
            uint64_t nonzeros) noexcept {
    if (!reader_.open(in, bytes, nonzeros * width_, block.level)) return false;
    groups_left_ = reader_.shape().groups;
    return fx_supports(block.form) && reader_.shape().form == block.form;
  }

  const unsigned char *take(uint64_t count) noexcept {
    // What was taken before is gone; the rest is less than a group.
    if (taken_ > 0) std::memmove(ready_, ready_ + taken_ * width_, (have_ - taken_) * width_);
    have_ -= taken_;
    taken_ = 0;
    if (have_ < count && !read(count - have_)) return nullptr;
    taken_ = count;
    return ready_;
  }
  bool all_taken() noexcept {
    if (have_ != taken_ || groups_left_ != 0) return false;
    return finished_ || (reader_.shape().tail == 0 && reader_.finish(ready_));
  }

 private:
  bool read(uint64_t more) noexcept {
    const uint64_t groups = std::min((more + fx_group - 1) / fx_group, groups_left_);
    if (!reader_.get(ready_ + have_ * width_, groups)) return false;
    have_ += groups * fx_group;
    groups_left_ -= groups;
    if (groups * fx_group >= more) return true;
    // The last of them, which are no whole group.
    if (finished_ || !reader_.finish(ready_ + have_ * width_)) return false;
    finished_ = true;
    have_ += reader_.shape().tail / width_;
    return groups * fx_group + reader_.shape().tail / width_ >= more;
  }

  FxReader reader_;
  const uint32_t width_;
  uint64_t groups_left_ = 0, have_ = 0, taken_ = 0;
  bool finished_ = false;
  unsigned char ready_[(call_elements + 2 * fx_group) * 4 + sparse_reach];
};

template <class Nonzeros>
bool unpack_all(const Block &block, Nonzeros &nonzeros, const unsigned char *bitmaps,
                unsigned char *out, Stores stores, DecodedSum *sum) noexcept {
  const bool streaming = streams_to(out, stores);
  bool fine = true;
  for (uint64_t left = block.groups; left > 0;) {
    const uint64_t now = std::min(left, sparse_call_groups);
    const unsigned char *const from = nonzeros.take(block.kernels.count(bitmaps, now));
    fine = from != nullptr;
    if (!fine) break;
    block.kernels.unpack(from, now, bitmaps, out, streaming);
    const uint64_t length = now * sparse_group * block.width;
    if (sum != nullptr) sum->add(out, length);
    bitmaps += 8 * now;
    out += length;
    left -= now;
  }
  if (streaming) block.kernels.fence();
  return fine && nonzeros.all_taken();
}

bool decode(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
            CpuLevel level, Stores stores, DecodedSum *sum) noexcept {
  if (bytes < header_bytes || in[0] > static_cast<uint8_t>(Form::f64) || in[1] > 1 || in[2] != 0 ||
      in[3] != 0) {
    return false;
  }
  const auto form = static_cast<Form>(in[0]);
  const Block block(form, raw, level);
  if (bytes < block.fixed()) return false;
  const uint64_t nonzeros = load_little<uint32_t>(in + 4), length = bytes - block.fixed();
  const unsigned char *const bitmaps = in + header_bytes, *const coded = bitmaps + block.bitmaps();
  if (in[1] != 0) {
    FxNonzeros values(block);
    if (!values.open(coded, length, block, nonzeros)) return false;
    if (!unpack_all(block, values, bitmaps, out, stores, sum)) return false;
  } else {
    if (length != nonzeros * block.width) return false;
    PlainNonzeros values(coded, length, block.width);
    if (!unpack_all(block, values, bitmaps, out, stores, sum)) return false;
  }
  if (block.tail > 0) std::memcpy(out + raw - block.tail, coded + length, block.tail);
  if (sum != nullptr) sum->add(out + raw - block.tail, block.tail);
  return true;
}

}  // namespace

uint64_t sparse_encode(Form form, const unsigned char *in, uint64_t raw, unsigned char *out,
                       uint64_t room, CpuLevel level) noexcept {
  const Block block(form, raw, level);
  if (raw > UINT32_MAX || block.fixed() > room) return 0;
  const Sample sample = sample_of(form, in, raw);
  unsigned char *const bitmaps = out + header_bytes, *const coded = bitmaps + block.bitmaps();
  const uint64_t nonzeros = block.kernels.mark(in, block.groups, bitmaps);
  const uint64_t left = room - block.fixed();
  const bool fx = fx_pays(form, sample.window, nonzeros);
  uint64_t length = nonzeros * block.width;
  if (fx) {
    length = write_fx(block, sample.window, in, bitmaps, coded, nonzeros, left);
    if (length == 0) return 0;
  } else {
    if (length > left) return 0;
    write_plain(block, in, bitmaps, coded, nonzeros, left - length);
  }
  if (block.tail > 0) std::memcpy(coded + length, in + raw - block.tail, block.tail);
  out[0] = static_cast<unsigned char>(form);
  out[1] = fx ? 1 : 0;
  out[2] = out[3] = 0;
  store_little(out + 4, static_cast<uint32_t>(nonzeros));
  return block.fixed() + length;
}

bool sparse_decode(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                   CpuLevel level, Stores stores) noexcept {
  return decode(in, bytes, out, raw, level, stores, nullptr);
}

bool sparse_decode_summed(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                          CpuLevel level, DecodedSum *sum) noexcept {
  return decode(in, bytes, out, raw, level, Stores::cached, sum);
}

uint64_t sparse_estimate(Form form, const unsigned char *in, uint64_t raw) noexcept {
  const Block block(form, raw, cpu_level());
  const Sample sample = sample_of(form, in, raw);
  if (sample.elements == 0) return block.fixed();
  const uint64_t nonzeros =
      block.groups * sparse_group * (sample.elements - sample.zeros) / sample.elements;
  if (!fx_pays(form, sample.window, nonzeros)) return block.fixed() + nonzeros * block.width;
  return block.fixed() + fx_header_bytes + sample.window.expected(form, nonzeros);
}

}  // namespace weir::codec

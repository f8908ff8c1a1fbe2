// SPDX-License-Identifier: Apache-2.0
//
// The coders over liblz4 and libzstd. What of libzstd is not in its stable interface is how contexts are made
// (zstd_memory.hpp) and one parameter, whose failure leaves planes as they are, and makes nothing unreadable: frames are
// ordinary ones.

#include "core/codec/plane_coders.hpp"

#include "core/codec/far_matches.hpp"
#include "core/codec/plane_look.hpp"
#include "core/codec/zstd_memory.hpp"

#include <lz4.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <new>

namespace weir::codec {
namespace {

/// What a way to code has to save before it is taken, in parts of the plane: its time has a price too.
constexpr uint64_t price_of_coding = 64;  ///< of anything instead of raw bytes
constexpr uint64_t price_of_zstd = 128;  ///< instead of Huffman codes, which are read twice as fast
/// Of anything instead of LZ4, which is read as fast as memory.
constexpr uint64_t price_of_slowness = 64;

constexpr int huffman_part_log = std::bit_width(plane_part_bytes) - 1;
constexpr int dense_level = 3;

/// Planes so short are cheaper tried than looked at.
constexpr uint64_t short_plane = uint64_t{16} << 10U;
/// In so many parts, spread over a plane, matches are looked for, to tell whether to look for them in all.
constexpr uint64_t probes = 4, probe_bytes = 4096;

bool set(ZSTD_CCtx *context, ZSTD_cParameter parameter, int value) noexcept {
  return ZSTD_isError(ZSTD_CCtx_setParameter(context, parameter, value)) == 0;
}

}  // namespace

// ---- what blocks and planes share ----

Decoded lz4_decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                   uint64_t count) noexcept {
  const int length =
      LZ4_decompress_safe(reinterpret_cast<const char *>(in), reinterpret_cast<char *>(out),
                          static_cast<int>(bytes), static_cast<int>(count));
  return length >= 0 && static_cast<uint64_t>(length) == count ? Decoded::ok : Decoded::malformed;
}

Decoded zstd_decode(ZSTD_DCtx *context, const unsigned char *in, uint64_t bytes, unsigned char *out,
                    uint64_t count) noexcept {
  const size_t length = ZSTD_decompressDCtx(context, out, count, in, bytes);
  return ZSTD_isError(length) == 0 && length == count ? Decoded::ok : Decoded::malformed;
}

// ---- encoder ----

/// Matches on their way to libzstd, and to the block's next plane.
struct PlaneEncoder::Far {
  uint64_t length = 0;  ///< of the plane whose they are
  FarMatches all;
  FarMatch found[most_far_matches];
  ZSTD_Sequence sequences[most_far_matches];

  ~Far() { explicit_bzero(this, sizeof *this); }
};

PlaneEncoder::PlaneEncoder() = default;

void PlaneEncoder::begin_block() noexcept { far_room_->all = {}; }

PlaneEncoder *PlaneEncoder::create() noexcept {
  std::unique_ptr<PlaneEncoder> encoder(new (std::nothrow) PlaneEncoder);
  if (encoder == nullptr) return nullptr;
  encoder->scratch_.reset(new (std::nothrow) unsigned char[3 * max_block_bytes]);
  encoder->lz4_state_.reset(
      new (std::nothrow) unsigned char[static_cast<size_t>(LZ4_sizeofState())]);
  encoder->huffman_ = make_encoder();
  encoder->dense_ = make_encoder();
  encoder->far_ = make_encoder();
  encoder->far_room_.reset(new (std::nothrow) Far);
  if (encoder->scratch_ == nullptr || encoder->lz4_state_ == nullptr ||
      encoder->huffman_ == nullptr || encoder->dense_ == nullptr || encoder->far_ == nullptr ||
      encoder->far_room_ == nullptr) {
    return nullptr;
  }
  // Steps so wide that no match is looked for, and so no table to clear; literals are coded all the same.
  const bool huffman = set(encoder->huffman_, ZSTD_c_compressionLevel, ZSTD_minCLevel()) &&
                       set(encoder->huffman_, ZSTD_c_literalCompressionMode, ZSTD_ps_enable) &&
                       set(encoder->huffman_, ZSTD_c_windowLog, huffman_part_log) &&
                       set(encoder->huffman_, ZSTD_c_hashLog, ZSTD_HASHLOG_MIN) &&
                       set(encoder->huffman_, ZSTD_c_contentSizeFlag, 0);
  const bool dense = set(encoder->dense_, ZSTD_c_compressionLevel, dense_level) &&
                     set(encoder->dense_, ZSTD_c_contentSizeFlag, 0);
  // A block that is a plane, whose matches come from outside.
  const bool far = set(encoder->far_, ZSTD_c_compressionLevel, 1) &&
                   set(encoder->far_, ZSTD_c_literalCompressionMode, ZSTD_ps_enable) &&
                   set(encoder->far_, ZSTD_c_windowLog, std::bit_width(max_block_bytes) - 1) &&
                   set(encoder->far_, ZSTD_c_hashLog, ZSTD_HASHLOG_MIN) &&
                   set(encoder->far_, ZSTD_c_contentSizeFlag, 0);
  return huffman && dense && far ? encoder.release() : nullptr;
}

PlaneEncoder::~PlaneEncoder() {
  if (scratch_ != nullptr) explicit_bzero(scratch_.get(), 3 * max_block_bytes);
  ZSTD_freeCCtx(huffman_);
  ZSTD_freeCCtx(dense_);
  ZSTD_freeCCtx(far_);
}

uint64_t PlaneEncoder::zstd(ZSTD_CCtx *context, const unsigned char *in, uint64_t count,
                            unsigned char *out, uint64_t room) noexcept {
  const size_t length = ZSTD_compress2(context, out, room, in, count);
  return ZSTD_isError(length) != 0 ? 0 : length;
}

uint64_t PlaneEncoder::lz4(const unsigned char *in, uint64_t count, unsigned char *out,
                           uint64_t room) noexcept {
  const int length = LZ4_compress_fast_extState(
      lz4_state_.get(), reinterpret_cast<const char *>(in), reinterpret_cast<char *>(out),
      static_cast<int>(count), static_cast<int>(std::min<uint64_t>(room, LZ4_MAX_INPUT_SIZE)), 1);
  return length > 0 ? static_cast<uint64_t>(length) : 0;
}

/// The smallest so far stands in `out`; others are tried beside it.
struct PlaneEncoder::Best {
  unsigned char *out;
  uint64_t room;
  PlaneMethod method;
  uint64_t bytes;

  /// What another way must not be longer than, to be so many parts of the plane better.
  uint64_t below(uint64_t count, uint64_t price) const noexcept {
    const uint64_t least = count / price;
    return std::min(room, bytes > least + 1 ? bytes - least - 1 : 0);
  }
  void take(PlaneMethod other, const unsigned char *from, uint64_t length) noexcept {
    method = other;
    bytes = length;
    if (from != out) std::memcpy(out, from, length);
  }
};

/// What is in matches, beside what is in the values. LZ4 tells where these cost much: it passes over what has no matches. Where they
/// cost little, LZ4 would find many by chance that are dearer than the values; there a look at what comes back tells, and of
/// that some parts. Codes of at least a bit leave too much where there is less than that.
auto PlaneEncoder::matches(const unsigned char *in, uint64_t count, const PlaneLook &look,
                           bool values_pay) noexcept -> Matches {
  if (count <= short_plane || look.bits * 2 < count * 3) return Matches::perhaps;
  const bool noise = look.is_noise(count);
  if (!noise && (!values_pay || look.bits > count * 6)) {
    const uint64_t price = values_pay ? price_of_zstd : price_of_coding;
    return lz4(in, count, trial(), count - count / price) > 0 ? Matches::perhaps : Matches::none;
  }
  const Repeats again = repeats_of(in, count, look);
  const bool repeats = again == Repeats::many, runs = has_runs(in, count);
  if (noise && repeats) return Matches::far;
  if (noise && (runs || again == Repeats::few))
    return lz4(in, count, trial(), count - count / price_of_coding) > 0 ? Matches::perhaps
                                                                        : Matches::none;
  if (!repeats && !runs) return Matches::none;
  if (count <= 2 * probes * probe_bytes) return Matches::perhaps;
  uint64_t matched = 0, coded = 0;
  for (uint64_t i = 0; i < probes; ++i) {
    const unsigned char *from = in + (2 * i + 1) * count / (2 * probes) - probe_bytes / 2;
    const uint64_t by_matches = zstd(dense_, from, probe_bytes, trial(), probe_bytes - 1);
    const uint64_t by_values = zstd(huffman_, from, probe_bytes, trial(), probe_bytes - 1);
    matched += by_matches > 0 ? by_matches : probe_bytes;
    coded += by_values > 0 ? by_values : probe_bytes;
  }
  if (matched < coded - coded / 8) return Matches::many;
  // More comes to light in all of it than in parts.
  if (matched >= coded + coded / 32) return Matches::none;
  return repeats && matched > coded - coded / 64 ? Matches::far_perhaps : Matches::perhaps;
}

/// What may be LZ4's instead, if it is not much longer. Of a quarter it tells whether it can be.
bool PlaneEncoder::lz4_may_do(const unsigned char *in, uint64_t count, uint64_t room) noexcept {
  const uint64_t part = count / 4;
  return count <= short_plane ||
         lz4(in + (count - part) / 2, part, trial(), room / 4 + room / 16) > 0;
}

/// Whether the plane before had matches far apart, and this one has most of them too, and no sign of others.
bool PlaneEncoder::far_as_before(const unsigned char *in, uint64_t count,
                                 const PlaneLook &look) noexcept {
  const FarMatches before = far_room_->all;
  if (before.count == 0 || far_room_->length != count) return false;
  if (look.bits * 2 < count * 3 || has_runs(in, count)) return false;
  far_room_->all = keep_far_matches(in, before, far_room_->found);
  return far_room_->all.covered > before.covered / 4 * 3;
}

/// Whether in noise, where LZ4 is quick, it comes to less than what was far apart: then more of it comes back in short pieces.
bool PlaneEncoder::has_short(const unsigned char *in, uint64_t count, const Best &best) noexcept {
  return lz4(in, count, trial(), best.below(count, price_of_coding)) > 0;
}

/// Codes what far_room_ has, and the values between them if they pay, before anything else is tried. False: it does not save
/// a 64th.
bool PlaneEncoder::try_far(const unsigned char *in, uint64_t count, Best *best) noexcept {
  static_assert(most_far_bytes <= ZSTD_BLOCKSIZE_MAX);
  const FarMatches &all = far_room_->all;
  if (all.covered * 64 < count) return false;
  for (uint32_t i = 0; i < all.count; ++i) {
    const FarMatch &match = far_room_->found[i];
    far_room_->sequences[i] = {match.distance, match.literals, match.length, 0};
  }
  const size_t length = ZSTD_compressSequences(far_, best->out, best->below(count, price_of_coding),
                                               far_room_->sequences, all.count, in, count);
  if (ZSTD_isError(length) != 0 || length == 0) return false;
  best->take(PlaneMethod::zstd, best->out, length);
  return true;
}

void PlaneEncoder::try_matches(const unsigned char *in, uint64_t count, Best *best) noexcept {
  const uint64_t price = best->method == PlaneMethod::raw ? price_of_coding : price_of_zstd;
  if (const uint64_t room = best->below(count, price); room > 0) {
    const uint64_t length = zstd(dense_, in, count, trial(), room);
    if (length > 0) best->take(PlaneMethod::zstd, trial(), length);
  }
  if (best->method == PlaneMethod::raw) return;
  const uint64_t room = std::min(
      {best->room, best->bytes + count / price_of_slowness, count - count / price_of_coding});
  if (!lz4_may_do(in, count, room)) return;
  const uint64_t length = lz4(in, count, trial(), room);
  if (length > 0) best->take(PlaneMethod::lz4, trial(), length);
}

bool PlaneEncoder::encode(const unsigned char *in, uint64_t count, Effort effort,
                          unsigned char *out, uint64_t room, CodedPlane *coded) noexcept {
  assert(count > 0 && count <= max_block_bytes);
  if (count > 1 && room > 0 && std::memcmp(in, in + 1, count - 1) == 0) {
    out[0] = in[0];
    *coded = {PlaneMethod::same, 1};
    return true;
  }
  Best best{out, room, PlaneMethod::raw, count};
  const PlaneLook look = effort != Effort::plain ? look_at_plane(in, count) : PlaneLook{};
  const bool values_pay = entropy_pays(look.bits, count, effort);
  const bool as_before = effort == Effort::dense && far_as_before(in, count, look);
  const Matches found = as_before                 ? Matches::far
                        : effort == Effort::dense ? matches(in, count, look, values_pay)
                                                  : Matches::none;
  const bool search = found == Matches::far || found == Matches::far_perhaps;
  if (!as_before) {
    far_room_->all = search ? find_far_matches(in, count, look, far_room_->found) : FarMatches{};
    far_room_->length = count;
  }
  const bool far = search && try_far(in, count, &best);
  if (found == Matches::many) try_matches(in, count, &best);
  // What is far apart may be what would cost little by its values.
  const bool doubtful =
      best.method == PlaneMethod::raw || (far && best.bytes * 8 > look.bits - look.bits / 32);
  if (values_pay && doubtful) {
    const bool first = best.method == PlaneMethod::raw;
    const uint64_t most = first ? best.below(count, price_of_coding) : best.bytes;
    const uint64_t length = zstd(huffman_, in, count, first ? out : trial(), most);
    if (length > 0) best.take(PlaneMethod::huf, first ? out : trial(), length);
  }
  const bool perhaps =
      found == Matches::perhaps || (found == Matches::far_perhaps && !far) ||
      (found == Matches::far && look.is_noise(count) && has_short(in, count, best));
  if (perhaps) try_matches(in, count, &best);
  if (best.method == PlaneMethod::raw) {
    if (room < count) return false;
    std::memcpy(out, in, count);
  }
  *coded = {best.method, static_cast<uint32_t>(best.bytes)};
  return true;
}

// ---- decoder ----

PlaneDecoder *PlaneDecoder::create() noexcept {
  std::unique_ptr<PlaneDecoder> decoder(new (std::nothrow) PlaneDecoder);
  if (decoder == nullptr) return nullptr;
  decoder->scratch_.reset(
      new (std::nothrow) unsigned char[2 * max_block_bytes + max_block_bytes / 8]);
  decoder->context_ = make_decoder();
  if (decoder->scratch_ == nullptr || decoder->context_ == nullptr) return nullptr;
  return decoder.release();
}

PlaneDecoder::~PlaneDecoder() {
  if (scratch_ != nullptr)
    explicit_bzero(scratch_.get(), 2 * max_block_bytes + max_block_bytes / 8);
  ZSTD_freeDCtx(context_);
}

Decoded PlaneDecoder::decode(CodedPlane coded, const unsigned char *in, unsigned char *out,
                             uint64_t count) noexcept {
  switch (coded.method) {
    case PlaneMethod::raw:
      if (coded.bytes != count) return Decoded::malformed;
      std::memcpy(out, in, count);
      return Decoded::ok;
    case PlaneMethod::same:
      if (coded.bytes != 1) return Decoded::malformed;
      std::memset(out, in[0], count);
      return Decoded::ok;
    case PlaneMethod::lz4:
      return lz4_decode(in, coded.bytes, out, count);
    case PlaneMethod::huf:
    case PlaneMethod::zstd:
      return zstd_decode(context_, in, coded.bytes, out, count);
  }
  return Decoded::malformed;
}

}  // namespace weir::codec

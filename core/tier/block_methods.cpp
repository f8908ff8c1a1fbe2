// SPDX-License-Identifier: Apache-2.0
//
// The methods over liblz4 and libzstd, and the two that need no library. Sizes are a block's, so they fit in an int.

#include "core/tier/block_methods.hpp"

#include "core/tier/codec/fx.hpp"
#include "core/tier/codec/mask.hpp"
#include "core/tier/codec/matches.hpp"
#include "core/tier/codec/plane_methods.hpp"
#include "core/tier/codec/narrow.hpp"
#include "core/tier/codec/sparse.hpp"
#include "core/tier/codec/zstd_memory.hpp"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace weir::tier {
namespace {

constexpr uint64_t pattern_bytes = 8;
constexpr int zstd_level = 1;

}  // namespace

// ---- same ----

bool is_same(const unsigned char *bytes, uint64_t count) noexcept {
  if (count <= pattern_bytes) return false;  // the pattern would be no shorter
  // The ends first: what starts with zeros as a rule does not end with them too.
  const uint64_t shifted = count - pattern_bytes;
  const uint64_t near = std::min<uint64_t>(shifted, 64);
  if (std::memcmp(bytes, bytes + pattern_bytes, near) != 0) return false;
  if (std::memcmp(bytes + shifted - near, bytes + count - near, near) != 0) return false;
  return std::memcmp(bytes, bytes + pattern_bytes, shifted) == 0;
}

uint64_t SameMethod::encode(const unsigned char *in, uint64_t raw, Form, unsigned char *out,
                            uint64_t room) noexcept {
  if (room < pattern_bytes || !is_same(in, raw)) return 0;
  std::memcpy(out, in, pattern_bytes);
  return pattern_bytes;
}

Decoded SameMethod::decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                           uint64_t raw) noexcept {
  if (bytes != pattern_bytes || raw <= pattern_bytes) return Decoded::malformed;
  if (std::all_of(in, in + pattern_bytes, [in](unsigned char byte) { return byte == in[0]; })) {
    std::memset(out, in[0], raw);
    return Decoded::ok;
  }
  // What has been written is repeated, up to a length that stays in the nearest cache.
  std::memcpy(out, in, pattern_bytes);
  for (uint64_t done = pattern_bytes; done < raw;) {
    const uint64_t step = std::min({done, raw - done, uint64_t{4096}});
    std::memcpy(out + done, out, step);
    done += step;
  }
  return Decoded::ok;
}

// ---- raw ----

uint64_t RawMethod::encode(const unsigned char *in, uint64_t raw, Form, unsigned char *out,
                           uint64_t room) noexcept {
  if (room < raw) return 0;
  std::memcpy(out, in, raw);
  return raw;
}

Decoded RawMethod::decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                          uint64_t raw) noexcept {
  if (bytes != raw) return Decoded::malformed;
  std::memcpy(out, in, raw);
  return Decoded::ok;
}

// ---- LZ4 ----

uint64_t Lz4Method::encode(const unsigned char *in, uint64_t raw, Form, unsigned char *out,
                           uint64_t room) noexcept {
  const int length = LZ4_compress_fast(
      reinterpret_cast<const char *>(in), reinterpret_cast<char *>(out), static_cast<int>(raw),
      static_cast<int>(std::min<uint64_t>(room, LZ4_MAX_INPUT_SIZE)), 1);
  return length > 0 ? static_cast<uint64_t>(length) : 0;
}

/// Most that LZ4 takes its time for it does not gain from: where others do well, a part tells whether it comes near.
uint64_t Lz4Method::weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t best,
                          unsigned char *scratch) noexcept {
  const bool hopeless = best < raw - raw / 16 && lz4_estimate(in, raw, scratch) > best + best / 4;
  if (hopeless && !repeats(in, raw)) return 0;
  return encode(in, raw, form, scratch, raw - 1);
}

Decoded Lz4Method::decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                          uint64_t raw) noexcept {
  const int length =
      LZ4_decompress_safe(reinterpret_cast<const char *>(in), reinterpret_cast<char *>(out),
                          static_cast<int>(bytes), static_cast<int>(raw));
  return length >= 0 && static_cast<uint64_t>(length) == raw ? Decoded::ok : Decoded::malformed;
}

// ---- contexts ----

template <class Context>
ContextPool<Context>::~ContextPool() {
  while (free_ != nullptr) {
    Node *node = free_;
    free_ = node->next;
    release_(node->context);
    delete node;
  }
}

/// Whoever holds a context is running one block and waits for nothing, so waiting for it ends. So does waiting for one
/// that is being made: either it is given back some time, or the last who tried tells that there is none to wait for.
template <class Context>
auto ContextPool<Context>::take() noexcept -> Node * {
  Guard lock(mutex_);
  if (free_ == nullptr) {
    ++made_;
    if (Node *node = lock.unlocked([this] { return create(); }); node != nullptr) return node;
    if (--made_ == 0) given_.notify_all();
    while (free_ == nullptr && made_ != 0) given_.wait(lock);
  }
  Node *node = free_;
  if (node != nullptr) free_ = node->next;
  return node;
}

template <class Context>
auto ContextPool<Context>::create() noexcept -> Node * {
  Context *context = make_();
  if (context == nullptr) return nullptr;
  Node *node = new (std::nothrow) Node{context, nullptr, age_.load()};
  if (node == nullptr) release_(context);
  return node;
}

template <class Context>
void ContextPool<Context>::give(Node *node) noexcept {
  if (node->age != age_.load(std::memory_order_relaxed)) renew(node);
  {
    const Guard lock(mutex_);
    node->next = free_;
    free_ = node;
  }
  given_.notify_one();
}

/// The holder's, who uses it no more.
template <class Context>
void ContextPool<Context>::renew(Node *node) noexcept {
  const uint32_t age = age_.load();
  Context *fresh = make_();
  if (fresh == nullptr) return;
  release_(node->context);
  node->context = fresh;
  node->age = age;
}

template <class Context>
void ContextPool<Context>::forget() noexcept {
  age_.fetch_add(1);
  // Each is taken out for it, so that nobody waits for all of them.
  for (uint32_t left = UINT32_MAX; left != 0; --left) {
    Node *node = nullptr;
    {
      const Guard lock(mutex_);
      Node **old = &free_;
      while (*old != nullptr && (*old)->age == age_.load()) old = &(*old)->next;
      node = *old;
      if (node == nullptr) return;
      *old = node->next;
    }
    const uint32_t before = node->age;
    give(node);
    if (node->age == before) return;  // no memory
  }
}

template class ContextPool<ZSTD_CCtx>;
template class ContextPool<ZSTD_DCtx>;

// ---- zstd ----

ZstdMethod::ZstdMethod(bool decoder_ready) noexcept
    : BlockMethod(MethodId::zstd, "zstd", 8),
      encoders_([]() noexcept { return make_encoder(); },
                [](ZSTD_CCtx *context) noexcept { ZSTD_freeCCtx(context); }),
      decoders_([]() noexcept { return make_decoder(); },
                [](ZSTD_DCtx *context) noexcept { ZSTD_freeDCtx(context); }) {
  if (decoder_ready) const ContextPool<ZSTD_DCtx>::Loan first(decoders_);
}

uint64_t ZstdMethod::encode(const unsigned char *in, uint64_t raw, Form, unsigned char *out,
                            uint64_t room) noexcept {
  const ContextPool<ZSTD_CCtx>::Loan loan(encoders_);
  if (loan.get() == nullptr) return 0;
  // Too little room and too little memory are the same to the caller: this block is stored as it is.
  const size_t length = ZSTD_compressCCtx(loan.get(), out, room, in, raw, zstd_level);
  return ZSTD_isError(length) != 0 ? 0 : length;
}

/// What LZ4 leaves, coded by how often bytes stand there, is less than zstd comes to as a rule.
uint64_t ZstdMethod::weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t best,
                           unsigned char *scratch) noexcept {
  const uint64_t matched = lz4_estimate(in, raw, scratch);
  const uint64_t least = matched * entropy_estimate(in, raw) / raw;
  if (least + raw * price() / 64 >= best && !repeats(in, raw)) return 0;
  return encode(in, raw, form, scratch, raw - 1);
}

Decoded ZstdMethod::decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                           uint64_t raw) noexcept {
  const ContextPool<ZSTD_DCtx>::Loan loan(decoders_);
  if (loan.get() == nullptr) return Decoded::no_memory;
  const size_t length = ZSTD_decompressDCtx(loan.get(), out, raw, in, bytes);
  return ZSTD_isError(length) == 0 && length == raw ? Decoded::ok : Decoded::malformed;
}

// ---- those of the codec's own ----

uint64_t FxMethod::encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                          uint64_t room) noexcept {
  return fx_encode(form, in, raw, out, room);
}

uint64_t FxMethod::weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t /*best*/,
                         unsigned char * /*scratch*/) noexcept {
  return fx_estimate(form, in, raw);
}

Decoded FxMethod::decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                         uint64_t raw) noexcept {
  return fx_decode(in, bytes, out, raw) ? Decoded::ok : Decoded::malformed;
}

uint64_t SparseMethod::encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                              uint64_t room) noexcept {
  return sparse_encode(form, in, raw, out, room);
}

uint64_t SparseMethod::weigh(const unsigned char *in, uint64_t raw, Form form, uint64_t /*best*/,
                             unsigned char * /*scratch*/) noexcept {
  return sparse_estimate(form, in, raw);
}

Decoded SparseMethod::decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                             uint64_t raw) noexcept {
  return sparse_decode(in, bytes, out, raw) ? Decoded::ok : Decoded::malformed;
}

uint64_t MaskMethod::encode(const unsigned char *in, uint64_t raw, Form, unsigned char *out,
                            uint64_t room) noexcept {
  return mask_encode(in, raw, out, room);
}

Decoded MaskMethod::decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                           uint64_t raw) noexcept {
  return mask_decode(in, bytes, out, raw) ? Decoded::ok : Decoded::malformed;
}

uint64_t NarrowMethod::encode(const unsigned char *in, uint64_t raw, Form, unsigned char *out,
                              uint64_t room) noexcept {
  return narrow_encode(in, raw, out, room);
}

/// Hardly ever does anything fit, which a look at 256 elements tells.
uint64_t NarrowMethod::weigh(const unsigned char *in, uint64_t raw, Form, uint64_t best,
                             unsigned char *scratch) noexcept {
  return narrow_form(in, raw) != Form::bytes ? narrow_encode(in, raw, scratch, best) : raw;
}

Decoded NarrowMethod::decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                             uint64_t raw) noexcept {
  return narrow_decode(in, bytes, out, raw) ? Decoded::ok : Decoded::malformed;
}

template class ContextPool<PlaneEncoder>;
template class ContextPool<PlaneDecoder>;

PlanesMethod::PlanesMethod(bool decoder_ready) noexcept
    : BlockMethod(MethodId::planes, "planes", 16),
      encoders_([]() noexcept { return PlaneEncoder::create(); },
                [](PlaneEncoder *encoder) noexcept { delete encoder; }),
      decoders_([]() noexcept { return PlaneDecoder::create(); },
                [](PlaneDecoder *decoder) noexcept { delete decoder; }) {
  if (decoder_ready) const ContextPool<PlaneDecoder>::Loan first(decoders_);
}

uint64_t PlanesMethod::encode(const unsigned char *in, uint64_t raw, Form form, unsigned char *out,
                              uint64_t room) noexcept {
  const ContextPool<PlaneEncoder>::Loan loan(encoders_);
  if (loan.get() == nullptr) return 0;
  Detection found = detect(in, raw);
  if (form != Form::bytes) {
    found.integers = found.integers && found.form == form;
    found.form = form;
  }
  const PlanesPlan plan = dense_plan(*loan.get(), found, in, raw);
  return planes_encode(*loan.get(), plan, Effort::dense, in, raw, out, room);
}

Decoded PlanesMethod::decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                             uint64_t raw) noexcept {
  const ContextPool<PlaneDecoder>::Loan loan(decoders_);
  if (loan.get() == nullptr) return Decoded::no_memory;
  return planes_decode(*loan.get(), in, bytes, out, raw);
}

uint64_t QuickPlanesMethod::encode(const unsigned char *in, uint64_t raw, Form form,
                                   unsigned char *out, uint64_t room) noexcept {
  const ContextPool<PlaneEncoder>::Loan loan(dense_.encoders_);
  if (loan.get() == nullptr) return 0;
  const PlanesPlan plan = quick_plan(form, in, raw).plan;
  return planes_encode(*loan.get(), plan, Effort::quick, in, raw, out, room);
}

Decoded QuickPlanesMethod::decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                                  uint64_t raw) noexcept {
  return dense_.decode(in, bytes, out, raw);
}

uint64_t QuickPlanesMethod::weigh(const unsigned char *in, uint64_t raw, Form form,
                                  uint64_t /*best*/, unsigned char * /*scratch*/) noexcept {
  const QuickPlan look = quick_plan(form, in, raw);
  return look.bytes + quick_price(look, raw);
}

// ---- all of them ----

BlockMethod *BlockMethods::find(MethodId id, Effort effort) noexcept {
  switch (id) {
    case MethodId::same:
      return &same_;
    case MethodId::raw:
      return &raw_;
    case MethodId::lz4:
      return &lz4_;
    case MethodId::zstd:
      return &zstd_;
    case MethodId::fx:
      return &fx_;
    case MethodId::sparse:
      return &sparse_;
    case MethodId::mask:
      return &mask_;
    case MethodId::planes:
      return effort == Effort::dense ? static_cast<BlockMethod *>(&planes_) : &quick_planes_;
    case MethodId::narrow:
      return &narrow_;
    case MethodId::none:
      break;
  }
  return nullptr;
}

}  // namespace weir::tier

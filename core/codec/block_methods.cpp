// SPDX-License-Identifier: Apache-2.0
//
// The methods over liblz4 and libzstd, and the two that need no library. Sizes are a block's, so they fit in an int.

#include "core/codec/block_methods.hpp"

#include "core/codec/checksum.hpp"
#include "core/codec/elements.hpp"
#include "core/codec/fx.hpp"
#include "core/codec/mask.hpp"
#include "core/codec/narrow.hpp"
#include "core/codec/plane_methods.hpp"
#include "core/codec/sparse.hpp"
#include "core/codec/zstd_memory.hpp"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace weir::codec {
namespace {

constexpr uint64_t pattern_bytes = 8;
/// The higher ones are not worth their time on what device memory holds.
constexpr int zstd_level = 1;

// ---- same ----

/// One pattern of 8 bytes.
uint64_t encode_same(const BlockTask &block) noexcept {
  if (block.room < pattern_bytes || !is_same(block.in, block.bytes)) return 0;
  std::memcpy(block.out, block.in, pattern_bytes);
  return pattern_bytes;
}

Decoded decode_same(const BlockTask &block) noexcept {
  const unsigned char *const in = block.in;
  unsigned char *const out = block.out;
  const uint64_t raw = block.room;
  if (block.bytes != pattern_bytes || raw <= pattern_bytes) return Decoded::malformed;
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

uint64_t encode_raw(const BlockTask &block) noexcept {
  if (block.room < block.bytes) return 0;
  std::memcpy(block.out, block.in, block.bytes);
  return block.bytes;
}

Decoded decode_raw(const BlockTask &block) noexcept {
  if (block.bytes != block.room) return Decoded::malformed;
  if (block.sum == nullptr) {
    std::memcpy(block.out, block.in, block.bytes);
    return Decoded::ok;
  }
  for (uint64_t at = 0; at < block.bytes; at += DecodedSum::piece) {
    const uint64_t length = std::min(DecodedSum::piece, block.bytes - at);
    std::memcpy(block.out + at, block.in + at, length);
    block.sum->add(block.out + at, length);
  }
  return Decoded::ok;
}

// ---- whether looking for what repeats can pay ----

// Before LZ4 takes its time for it. Floats do not repeat, and where another method does well it takes a lot of
// repeating to do better.

constexpr uint64_t probe_bytes = 8192;
constexpr uint64_t spread = 0x9E3779B97F4A7C15U;
/// Bytes from such a word on that have to be the same.
constexpr uint64_t run = 32;
/// Of the words remembered, one in so many has to have been seen before.
constexpr uint64_t telling = 16;

uint64_t lz4(const unsigned char *in, uint64_t count, unsigned char *out, uint64_t room) noexcept {
  const auto most = static_cast<int>(std::min<uint64_t>(room, LZ4_MAX_INPUT_SIZE));
  const int length =
      LZ4_compress_default(reinterpret_cast<const char *>(in), reinterpret_cast<char *>(out),
                           static_cast<int>(count), most);
  return length > 0 ? static_cast<uint64_t>(length) : 0;
}

/// About what LZ4 leaves of `count` bytes, by a part of them.
uint64_t lz4_estimate(const unsigned char *in, uint64_t count, unsigned char *scratch) noexcept {
  const uint64_t part = std::min(count, probe_bytes);
  const uint64_t length = lz4(in + (count - part) / 2, part, scratch, part);
  return length > 0 ? count * length / part : count;
}

/// Whether runs of bytes come back, at a multiple of 8 bytes, that may lie too far apart for lz4_estimate to see them. Goes
/// through all words, and remembers one of 64, always the same ones wherever they stand, with what follows.
bool repeats(const unsigned char *in, uint64_t count) noexcept {
  constexpr uint32_t slot_bits = 11;
  uint64_t slots[1U << slot_bits] = {};
  uint64_t kept = 0, again = 0;
  const auto word = [in](uint64_t at) { return load_element<uint64_t>(in + at); };
  for (uint64_t at = 0; at + run <= count; at += 8) {
    if (word(at) * spread >> 58U != 0) continue;
    // Words of few bits come back by chance, and what is behind them does not.
    uint64_t hash = 0;
    for (uint64_t i = 0; i < run; i += 8) hash = (hash ^ word(at + i)) * spread;
    if (hash == 0) continue;  // nothing but zeros, which others see
    uint64_t &slot = slots[hash >> (64 - slot_bits)];
    again += slot == hash ? 1 : 0;
    slot = hash;
    ++kept;
  }
  return kept >= telling && again >= kept / telling;
}

// ---- LZ4 ----

uint64_t encode_lz4(const BlockTask &block) noexcept {
  return lz4(block.in, block.bytes, block.out, block.room);
}

/// Most that LZ4 takes its time for it does not gain from: where others do well, a part tells whether it comes near.
uint64_t weigh_lz4(const BlockTask &block, uint64_t best) noexcept {
  const uint64_t raw = block.bytes;
  const bool hopeless =
      best < raw - raw / 16 && lz4_estimate(block.in, raw, block.out) > best + best / 4;
  return hopeless && !repeats(block.in, raw) ? 0 : encode_lz4(block);
}

Decoded decode_lz4(const BlockTask &block) noexcept {
  return lz4_decode(block.in, block.bytes, block.out, block.room);
}

// ---- zstd ----

uint64_t encode_zstd(const BlockTask &block) noexcept {
  const ContextPool<ZSTD_CCtx>::Loan loan(block.contexts.zstd_encoders);
  if (loan.get() == nullptr) return 0;
  // Too little room and too little memory are the same to the caller: this block is stored as it is.
  const size_t length =
      ZSTD_compressCCtx(loan.get(), block.out, block.room, block.in, block.bytes, zstd_level);
  return ZSTD_isError(length) != 0 ? 0 : length;
}

/// As LZ4, by a part; on floats zstd is far behind, and takes longer than all others together.
uint64_t weigh_zstd(const BlockTask &block, uint64_t best) noexcept {
  const uint64_t raw = block.bytes, part = std::min(raw, probe_bytes);
  BlockTask middle = block;
  middle.in += (raw - part) / 2;
  middle.bytes = part;
  middle.room = part - 1;
  const uint64_t length = encode_zstd(middle);
  const uint64_t about = length > 0 ? raw * length / part : raw;
  const bool hopeless = best < raw - raw / 16 && about > best + best / 16;
  return hopeless && !repeats(block.in, raw) ? 0 : encode_zstd(block);
}

Decoded decode_zstd(const BlockTask &block) noexcept {
  const ContextPool<ZSTD_DCtx>::Loan loan(block.contexts.zstd_decoders);
  if (loan.get() == nullptr) return Decoded::no_memory;
  return zstd_decode(loan.get(), block.in, block.bytes, block.out, block.room);
}

// ---- those of the codec's own ----

/// By a function that is told the form.
template <auto encoder>
uint64_t encode_floats(const BlockTask &block) noexcept {
  return encoder(block.form, block.in, block.bytes, block.out, block.room, cpu_level());
}
template <auto estimate>
uint64_t weigh_floats(const BlockTask &block, uint64_t /*best*/) noexcept {
  return estimate(block.form, block.in, block.bytes);
}
/// By one that is not.
template <auto encoder>
uint64_t encode_any(const BlockTask &block) noexcept {
  return encoder(block.in, block.bytes, block.out, block.room, cpu_level());
}
template <auto decoder>
Decoded decode_by(const BlockTask &block) noexcept {
  const bool good = decoder(block.in, block.bytes, block.out, block.room, cpu_level());
  return good ? Decoded::ok : Decoded::malformed;
}
template <auto decoder>
Decoded decode_summed_by(const BlockTask &block) noexcept {
  const bool good = decoder(block.in, block.bytes, block.out, block.room, cpu_level(), block.sum);
  return good ? Decoded::ok : Decoded::malformed;
}

/// Hardly ever does anything fit, which a look at 256 elements tells.
uint64_t weigh_narrow(const BlockTask &block, uint64_t best) noexcept {
  if (narrow_form(block.in, block.bytes) == Form::bytes) return block.bytes;
  return narrow_encode(block.in, block.bytes, block.out, best);
}

// ---- planes ----

/// By a plan of the block's own.
template <class Plan>
uint64_t encode_planned(const BlockTask &block, Effort effort, Plan &&plan) noexcept {
  const ContextPool<PlaneEncoder>::Loan loan(block.contexts.plane_encoders);
  if (loan.get() == nullptr) return 0;
  return planes_encode(*loan.get(), plan(*loan.get()), effort, block.in, block.bytes, block.out,
                       block.room);
}

/// Planned by a look at it: whether zeros are taken out, or differences taken. Whatever is smallest.
uint64_t encode_planes(const BlockTask &block) noexcept {
  return encode_planned(block, Effort::dense, [&block](PlaneEncoder &encoder) {
    return dense_plan(encoder, detect_in(block.form, block.in, block.bytes), block.in, block.bytes);
  });
}

/// The same blocks, made with less time: a shorter look, and Huffman codes or nothing.
uint64_t encode_planes_quickly(const BlockTask &block) noexcept {
  return encode_planned(block, Effort::quick, [&block](PlaneEncoder &) {
    return quick_plan(block.form, block.in, block.bytes).plan;
  });
}

/// Without entropy coding, which is what takes the time: packed differences, or planes that are left away or as they are.
uint64_t encode_planes_plainly(const BlockTask &block) noexcept {
  return encode_planned(block, Effort::plain, [&block](PlaneEncoder &) {
    return quick_plan(block.form, block.in, block.bytes, Effort::plain).plan;
  });
}

uint64_t weigh_planes_plainly(const BlockTask &block, uint64_t /*best*/) noexcept {
  const QuickPlan look = quick_plan(block.form, block.in, block.bytes, Effort::plain);
  return look.bytes + quick_price(look, block.bytes);
}

Decoded decode_planes(const BlockTask &block) noexcept {
  const ContextPool<PlaneDecoder>::Loan loan(block.contexts.plane_decoders);
  if (loan.get() == nullptr) return Decoded::no_memory;
  return planes_decode(*loan.get(), block.in, block.bytes, block.out, block.room, cpu_level(),
                       block.sum);
}

// ---- all of them ----

/// By their numbers, and last the quicker ways to code one of them: the one by name, and the one that a trial may choose.
constexpr std::array<BlockMethod::Way, method_count + 1> all_ways = {{
    {MethodId::same, "same", encode_same, decode_same},
    {MethodId::raw, "raw", encode_raw, decode_raw},
    {MethodId::lz4, "lz4", encode_lz4, decode_lz4, weigh_lz4},
    {MethodId::zstd, "zstd", encode_zstd, decode_zstd, weigh_zstd},
    {MethodId::fx, "fx", encode_floats<fx_encode>, decode_summed_by<fx_decode_summed>,
     weigh_floats<fx_estimate>},
    {MethodId::sparse, "sparse", encode_floats<sparse_encode>,
     decode_summed_by<sparse_decode_summed>, weigh_floats<sparse_estimate>},
    {MethodId::mask, "mask", encode_any<mask_encode>, decode_by<mask_decode>},
    {MethodId::planes, "planes", encode_planes, decode_planes},
    {MethodId::narrow, "narrow", encode_any<narrow_encode>, decode_by<narrow_decode>, weigh_narrow},
    {MethodId::planes, "planes", encode_planes_quickly, decode_planes},
    {MethodId::planes, "planes", encode_planes_plainly, decode_planes, weigh_planes_plainly},
}};

/// The cheapest first. Where time counts that is what a look tells all of; then LZ4 need not always be tried. Where bytes count
/// what searches comes last, for it is not tried in full where others are far ahead.
constexpr MethodId quick_candidates[] = {MethodId::fx,     MethodId::sparse, MethodId::mask,
                                         MethodId::narrow, MethodId::planes, MethodId::lz4};
constexpr MethodId dense_candidates[BlockMethods::most_tried] = {
    MethodId::fx,     MethodId::sparse, MethodId::mask, MethodId::narrow,
    MethodId::planes, MethodId::lz4,    MethodId::zstd};

}  // namespace

bool is_same(const unsigned char *bytes, uint64_t count) noexcept {
  if (count <= pattern_bytes) return false;  // the pattern would be no shorter
  // The ends first: what starts with zeros as a rule does not end with them too.
  const uint64_t shifted = count - pattern_bytes;
  const uint64_t near = std::min<uint64_t>(shifted, 64);
  if (std::memcmp(bytes, bytes + pattern_bytes, near) != 0) return false;
  if (std::memcmp(bytes + shifted - near, bytes + count - near, near) != 0) return false;
  return std::memcmp(bytes, bytes + pattern_bytes, shifted) == 0;
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

/// A thread that holds a context runs one block and waits for nothing, so a wait for a context ends. So does a wait for one that is
/// being made: either it is given back some time, or the last thread that failed to make one wakes the waiters, which get none.
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

/// The holder gives it back; a context that is too old is made anew.
template <class Context>
bool ContextPool<Context>::give(Node *node) noexcept {
  const uint32_t age = age_.load();
  const bool old = node->age != age;
  Context *fresh = old ? make_() : nullptr;
  if (fresh != nullptr) {
    release_(node->context);
    node->context = fresh;
    node->age = age;
  }
  {
    const Guard lock(mutex_);
    node->next = free_;
    free_ = node;  // another's from now on
  }
  given_.notify_one();
  return !old || fresh != nullptr;
}

template <class Context>
void ContextPool<Context>::forget() noexcept {
  age_.fetch_add(1);
  // Each is taken out of the list to be made anew, so that no thread waits for all of them.
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
    if (!give(node)) return;
  }
}

template class ContextPool<ZSTD_CCtx>;
template class ContextPool<ZSTD_DCtx>;
template class ContextPool<PlaneEncoder>;
template class ContextPool<PlaneDecoder>;

MethodContexts::MethodContexts(bool decoders_ready) noexcept
    : zstd_encoders(make_encoder, [](ZSTD_CCtx *context) noexcept { ZSTD_freeCCtx(context); }),
      zstd_decoders(make_decoder, [](ZSTD_DCtx *context) noexcept { ZSTD_freeDCtx(context); }),
      plane_encoders(PlaneEncoder::create, [](PlaneEncoder *one) noexcept { delete one; }),
      plane_decoders(PlaneDecoder::create, [](PlaneDecoder *one) noexcept { delete one; }) {
  if (!decoders_ready) return;
  const ContextPool<ZSTD_DCtx>::Loan zstd(zstd_decoders);
  const ContextPool<PlaneDecoder>::Loan planes(plane_decoders);
}

BlockMethods::BlockMethods(bool decoders_ready) noexcept : contexts_(decoders_ready) {
  for (size_t i = 0; i < methods_.size(); ++i) methods_[i] = BlockMethod(all_ways[i], contexts_);
}

BlockMethod *BlockMethods::find(MethodId id, Effort effort) noexcept {
  if (id == MethodId::planes && effort == Effort::quick) return &methods_[method_count - 1];
  for (BlockMethod &method : methods_) {
    if (method.id() == id) return &method;
  }
  return nullptr;
}

std::span<const MethodId> BlockMethods::candidates(Effort effort) noexcept {
  if (effort == Effort::dense) return dense_candidates;
  return quick_candidates;
}

BlockMethod *BlockMethods::candidate(MethodId id, Effort effort) noexcept {
  const std::span<const MethodId> all = candidates(effort);
  if (std::find(all.begin(), all.end(), id) == all.end()) return nullptr;
  return id == MethodId::planes && effort == Effort::quick ? &methods_.back() : find(id, effort);
}

void BlockMethods::forget() noexcept {
  contexts_.zstd_encoders.forget();
  contexts_.zstd_decoders.forget();
  contexts_.plane_encoders.forget();
  contexts_.plane_decoders.forget();
}

}  // namespace weir::codec

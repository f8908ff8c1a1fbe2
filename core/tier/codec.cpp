// SPDX-License-Identifier: Apache-2.0
//
// How a page becomes a blob: each block is coded, by any thread, into its own place in `out`, and blocks move together
// in order as they end. Blocks stored as they are get copied last, when it is known that the blob pays; so a page that
// does not pay is never copied. The header's table holds a block's method and length until it is moved, its end after.
//
// What a plan decides, and from what, stands with pick(), try_methods() and learn(). Nothing here depends on time.

#include "core/tier/codec.hpp"

#include "core/base/spin_lock.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <mutex>

namespace weir::tier {
namespace {

constexpr unsigned char magic = 0xB7;
constexpr unsigned char version = 1;
constexpr unsigned char block_shift = 18;
static_assert(uint64_t{1} << block_shift == Codec::block_bytes);

constexpr uint64_t header_bytes = 16;
constexpr uint64_t entry_bytes = 8;
constexpr uint32_t method_shift = 56;
constexpr uint64_t end_mask = (uint64_t{1} << method_shift) - 1;

template <class Number>
void store(unsigned char *at, Number value) noexcept {
  for (size_t i = 0; i < sizeof(Number); ++i) at[i] = static_cast<unsigned char>(value >> (8 * i));
}
template <class Number>
Number load(const unsigned char *at) noexcept {
  Number value = 0;
  for (size_t i = 0; i < sizeof(Number); ++i) {
    value = static_cast<Number>(value | static_cast<Number>(Number{at[i]} << (8 * i)));
  }
  return value;
}

constexpr uint64_t blocks_of(uint64_t raw) noexcept {
  return raw / Codec::block_bytes + (raw % Codec::block_bytes != 0 ? 1 : 0);
}
constexpr uint64_t payload_at(uint64_t raw) noexcept {
  return header_bytes + blocks_of(raw) * entry_bytes;
}
constexpr uint64_t block_start(uint64_t index) noexcept { return index * Codec::block_bytes; }
constexpr uint64_t block_length(uint64_t raw, uint64_t index) noexcept {
  return std::min(Codec::block_bytes, raw - block_start(index));
}

/// The most that coded bytes may be if they are to pay; always fewer than the raw ones.
constexpr uint64_t paying(uint64_t raw) noexcept {
  return raw - std::max<uint64_t>(raw / Codec::worth, 1);
}

}  // namespace

// ---- a page on its way into a blob ----

struct Codec::Page {
  const unsigned char *in;
  uint64_t raw;
  unsigned char *out;
  uint32_t count;
  BlockMethod *same, *as_is;
  BlockMethod *method = nullptr;  ///< besides SAME and RAW; nullptr: only those
  bool tried = false;             ///< method is what a trial found
  bool skipped = false;           ///< the plan says that nothing but SAME is worth a look

  SpinLock lock{};  ///< of the table and what follows
  bool placing = false;
  uint32_t placed =
      0;  ///< blocks before this one have their end in the table, and coded ones are there
  uint64_t end = 0;
  uint64_t tried_bytes = 0;  ///< raw bytes of the placed blocks that are not SAME ...
  uint64_t coded_bytes = 0;  ///< ... and what became of them
  uint32_t as_is_count = 0;

  unsigned char *entry(uint32_t index) const noexcept {
    return out + header_bytes + index * entry_bytes;
  }
  unsigned char *place(uint32_t index) const noexcept {
    return out + payload_at(raw) + block_start(index);
  }
  uint64_t from(uint32_t index) const noexcept {
    return index == 0 ? payload_at(raw) : load<uint64_t>(entry(index - 1)) & end_mask;
  }

  void begin() noexcept {
    out[0] = magic;
    out[1] = version;
    out[2] = block_shift;
    out[3] = 0;
    store(out + 4, count);
    store(out + 8, raw);
    std::memset(out + header_bytes, 0, count * entry_bytes);
    end = payload_at(raw);
  }

  /// Codes one block into its own place, unless it stays as it is.
  void code(uint32_t index) noexcept {
    const unsigned char *from = in + block_start(index);
    const uint64_t length = block_length(raw, index);
    const BlockMethod *by = same;
    uint64_t coded = same->encode(from, length, place(index), length);
    if (coded == 0 && method != nullptr) {
      by = method;
      coded = method->encode(from, length, place(index), paying(length));
    }
    if (coded == 0) {
      by = as_is;
      coded = length;
    }
    note(index, by->id(), coded);
  }

  /// Tells that a block is coded, and moves together what can be. One thread moves at a time and goes on with what the
  /// others end meanwhile; a block's place is not needed by any block before it once those have been moved.
  void note(uint32_t index, MethodId id, uint64_t length) noexcept {
    std::unique_lock guard(lock);
    store(entry(index), uint64_t{static_cast<uint8_t>(id)} << method_shift | length);
    if (placing) return;
    placing = true;
    while (placed < count) {
      const uint64_t found = load<uint64_t>(entry(placed));
      if (found == 0) break;
      const uint64_t bytes = found & end_mask;
      const auto method_id = static_cast<MethodId>(found >> method_shift);
      if (method_id != MethodId::raw && out + end != place(placed)) {
        guard.unlock();
        std::memmove(out + end, place(placed), bytes);
        guard.lock();
      }
      if (method_id != MethodId::same) {
        tried_bytes += block_length(raw, placed);
        coded_bytes += bytes;
      }
      if (method_id == MethodId::raw) ++as_is_count;
      end += bytes;
      store(entry(placed), (found & ~end_mask) | end);
      ++placed;
    }
    placing = false;
  }

  /// Copies a block that stays as it is. Every block's end is known and every coded one is where it belongs.
  void copy(uint32_t index) const noexcept {
    if (static_cast<MethodId>(load<uint64_t>(entry(index)) >> method_shift) != MethodId::raw)
      return;
    const uint64_t length = block_length(raw, index);
    (void)as_is->encode(in + block_start(index), length, out + from(index), length);
  }

  /// Whether it can have as many SAME blocks as it takes to pay: a look at both ends of each.
  bool perhaps_same() const noexcept {
    uint64_t bytes = 0;
    for (uint32_t index = 0; index < count; ++index) {
      const unsigned char *block = in + block_start(index);
      const uint64_t length = block_length(raw, index);
      const uint64_t look = std::min<uint64_t>(length, 16);
      const bool ends = is_same(block, look) && is_same(block + length - look, look);
      bytes += ends ? length : 0;
    }
    return bytes >= raw / worth;
  }
};

// ---- what to code with ----

/// The methods side by side on parts of a page, each as long as a block (what repeats over half a block is not seen in a
/// quarter of one), spread evenly from its first byte to its last. A part of one pattern tells nothing about them and
/// is left out. `out` is where they are coded to; nothing of it is kept.
struct Codec::Trial {
  static constexpr uint64_t first_parts = 4;  ///< of a region of which nothing is known
  static constexpr uint64_t later_parts = 2;

  const Page &page;
  std::array<BlockMethod *, BlockMethods::tried> methods;
  uint32_t parts;
  std::atomic<uint64_t> raw{0};
  std::array<std::atomic<uint64_t>, BlockMethods::tried> coded{};

  void part(uint32_t index) noexcept {
    const uint64_t length = std::min(page.raw, block_bytes);
    // Elements of a power of two bytes are not cut, as long as the page starts with one.
    const uint64_t step = parts > 1 ? (page.raw - length) / (parts - 1) & ~uint64_t{63} : 0;
    const unsigned char *in = page.in + index * step;
    if (is_same(in, length)) return;
    raw.fetch_add(length, std::memory_order_relaxed);
    unsigned char *scratch = page.place(index);
    for (size_t i = 0; i < methods.size(); ++i) {
      const uint64_t bytes = methods[i]->encode(in, length, scratch, paying(length));
      coded[i].fetch_add(bytes != 0 ? bytes : length, std::memory_order_relaxed);
    }
  }
};

/// Of the methods that save at least 1/16 of the parts, the one that saves most beyond its price; nullptr: none does.
/// LZ4 codes and decodes several times as fast as zstd, which therefore has to save 1/8 of the raw bytes more.
BlockMethod *Codec::try_methods(Page &page, bool known, Workers::Urgency urgency) noexcept {
  const uint64_t most_parts = known ? Trial::later_parts : Trial::first_parts;
  const auto parts =
      static_cast<uint32_t>(std::clamp<uint64_t>(page.raw / block_bytes, 1, most_parts));
  Trial trial{page, methods_.candidates(), parts};
  workers_.run(
      trial.parts,
      [](void *context, uint32_t index) noexcept { static_cast<Trial *>(context)->part(index); },
      &trial, urgency);
  const uint64_t raw = trial.raw.load(std::memory_order_relaxed);
  // Nothing to go by: the cheapest, and whoever comes next tries again.
  if (raw == 0) return trial.methods.front();
  page.tried = true;
  BlockMethod *best = nullptr;
  uint64_t most = 0;
  for (size_t i = 0; i < trial.methods.size(); ++i) {
    const uint64_t coded = trial.coded[i].load(std::memory_order_relaxed);
    const uint64_t saved = raw - coded;
    const uint64_t price = raw * trial.methods[i]->price() / 64;
    if (coded > paying(raw) || saved <= price || saved - price <= most) continue;
    most = saved - price;
    best = trial.methods[i];
  }
  return best;
}

/// The plan's method; a trial's, if the plan has none or is due; none, while the region is passed over.
BlockMethod *Codec::pick(Page &page, CodecPlan *plan, Workers::Urgency urgency) noexcept {
  if (choice_ == CodecChoice::raw) return nullptr;
  if (plan->skip > 0) {
    --plan->skip;
    page.skipped = true;
    return nullptr;
  }
  if (choice_ == CodecChoice::automatic) {
    BlockMethod *known = methods_.find(plan->method);
    if (known != nullptr && plan->age < trial_period) return known;
    return try_methods(page, known != nullptr || plan->backoff > 0, urgency);
  }
  // Only one comes into question, so the page itself is the trial.
  page.tried = true;
  const MethodId only = choice_ == CodecChoice::lz4 ? MethodId::lz4 : MethodId::zstd;
  return methods_.find(static_cast<uint8_t>(only));
}

void Codec::learn(const Page &page, CodecPlan *plan) const noexcept {
  if (choice_ == CodecChoice::raw || page.skipped || page.tried_bytes == 0) return;
  if (page.coded_bytes > paying(page.tried_bytes)) {
    // Also when a trial saw more in the parts than there was in the whole.
    plan->method = 0;
    plan->skip = static_cast<uint8_t>(1U << plan->backoff);
    plan->backoff = std::min<uint8_t>(static_cast<uint8_t>(plan->backoff + 1), max_backoff);
    return;
  }
  plan->backoff = 0;
  const uint64_t exact = page.tried_bytes * 256 / page.coded_bytes;
  const auto ratio = static_cast<uint32_t>(std::min<uint64_t>(exact, UINT32_MAX));
  if (page.tried) {
    plan->method = static_cast<uint8_t>(page.method->id());
    plan->age = 0;
    plan->ratio = ratio;
    return;
  }
  if (plan->method == 0) return;
  if (plan->age < trial_period) ++plan->age;
  const uint32_t drift = ratio > plan->ratio ? ratio - plan->ratio : plan->ratio - ratio;
  if (plan->age >= trial_rest && drift > plan->ratio / 10) plan->age = trial_period;
}

// ---- the Codec ----

Codec::Codec(Workers &workers, CodecChoice choice) noexcept
    : workers_(workers),
      choice_(choice),
      methods_(choice == CodecChoice::automatic || choice == CodecChoice::zstd) {}

bool Codec::parse(const char *name, CodecChoice *choice) noexcept {
  constexpr const char *names[] = {"auto", "lz4", "zstd", "raw"};  // in the order of CodecChoice
  if (name == nullptr) name = names[0];
  for (size_t i = 0; i < std::size(names); ++i) {
    if (std::strcmp(name, names[i]) != 0) continue;
    *choice = static_cast<CodecChoice>(i);
    return true;
  }
  return false;
}

uint64_t Codec::bound(uint64_t raw) noexcept { return payload_at(raw) + raw; }

uint64_t Codec::encode(const void *in, uint64_t raw, void *out, bool must, CodecPlan *plan,
                       Workers::Urgency urgency) noexcept {
  assert(blocks_of(raw) <= UINT32_MAX);
  if (raw == 0) return 0;
  if (choice_ == CodecChoice::raw) must = true;
  Page page{static_cast<const unsigned char *>(in),
            raw,
            static_cast<unsigned char *>(out),
            static_cast<uint32_t>(blocks_of(raw)),
            methods_.find(static_cast<uint8_t>(MethodId::same)),
            methods_.find(static_cast<uint8_t>(MethodId::raw))};
  page.method = pick(page, plan, urgency);
  if (page.skipped && !must && !page.perhaps_same()) {
    incompressible_bytes_.fetch_add(raw, std::memory_order_relaxed);
    return 0;
  }
  page.begin();
  workers_.run(
      page.count,
      [](void *context, uint32_t index) noexcept { static_cast<Page *>(context)->code(index); },
      &page, urgency);
  assert(page.placed == page.count && page.end <= bound(raw));
  learn(page, plan);
  if (!must && page.end > paying(raw)) {
    incompressible_bytes_.fetch_add(raw, std::memory_order_relaxed);
    return 0;
  }
  if (page.as_is_count > 0) {
    workers_.run(
        page.count,
        [](void *context, uint32_t index) noexcept { static_cast<Page *>(context)->copy(index); },
        &page, urgency);
  }
  in_bytes_.fetch_add(raw, std::memory_order_relaxed);
  out_bytes_.fetch_add(page.end, std::memory_order_relaxed);
  return page.end;
}

// ---- and back ----

struct Codec::Reading {
  const unsigned char *blob;
  unsigned char *out;
  uint64_t raw;
  BlockMethods &methods;
  std::atomic<uint8_t> worst{static_cast<uint8_t>(Decoded::ok)};
  std::atomic<uint32_t> where{UINT32_MAX};

  uint64_t entry(uint64_t index) const noexcept {
    return load<uint64_t>(blob + header_bytes + index * entry_bytes);
  }
  uint64_t from(uint64_t index) const noexcept {
    return index == 0 ? payload_at(raw) : entry(index - 1) & end_mask;
  }
  uint8_t method_id(uint64_t index) const noexcept {
    return static_cast<uint8_t>(entry(index) >> method_shift);
  }

  /// What is wrong with the header, or nullptr: then every block lies in the blob and in `out`.
  const char *check(uint64_t bytes) const noexcept {
    if (bytes < header_bytes) return "it is shorter than its header";
    if (blob[0] != magic || blob[1] != version) return "it does not start as one of version 1 does";
    if (blob[2] != block_shift || blob[3] != 0) return "its blocks have another size";
    if (load<uint64_t>(blob + 8) != raw) return "it is of another number of bytes";
    if (load<uint32_t>(blob + 4) != blocks_of(raw)) return "it has another number of blocks";
    if (bytes < payload_at(raw)) return "it is shorter than its table of blocks";
    uint64_t end = payload_at(raw);
    for (uint64_t i = 0; i < blocks_of(raw); ++i) {
      const uint64_t next = entry(i) & end_mask;
      if (next <= end || next > bytes) return "a block of it has no length or lies outside of it";
      if (next - end > block_length(raw, i)) return "a block of it is longer than its raw bytes";
      if (methods.find(method_id(i)) == nullptr) return "a block of it is coded in no known way";
      end = next;
    }
    return end == bytes ? nullptr : "it goes on behind its last block";
  }

  void block(uint32_t index) noexcept {
    if (worst.load(std::memory_order_relaxed) != static_cast<uint8_t>(Decoded::ok)) return;
    const uint64_t start = from(index);
    BlockMethod *method = methods.find(method_id(index));
    const Decoded result = method->decode(blob + start, (entry(index) & end_mask) - start,
                                          out + block_start(index), block_length(raw, index));
    if (result == Decoded::ok) return;
    worst.store(static_cast<uint8_t>(result), std::memory_order_relaxed);
    where.store(index, std::memory_order_relaxed);
  }
};

Status Codec::decode(const void *blob, uint64_t bytes, void *out, uint64_t raw,
                     Workers::Urgency urgency) noexcept {
  Reading reading{static_cast<const unsigned char *>(blob), static_cast<unsigned char *>(out), raw,
                  methods_};
  if (raw == 0 || blocks_of(raw) > UINT32_MAX) {
    return fail(WEIR_ERROR_CORRUPT, "no compressed page has %llu bytes",
                static_cast<unsigned long long>(raw));
  }
  if (const char *wrong = reading.check(bytes); wrong != nullptr) {
    return fail(WEIR_ERROR_CORRUPT, "a compressed page of %llu bytes, %llu raw, is malformed: %s",
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(raw),
                wrong);
  }
  const auto count = static_cast<uint32_t>(blocks_of(raw));
  workers_.run(
      count,
      [](void *context, uint32_t index) noexcept { static_cast<Reading *>(context)->block(index); },
      &reading, urgency);
  const auto worst = static_cast<Decoded>(reading.worst.load(std::memory_order_relaxed));
  const uint32_t where = reading.where.load(std::memory_order_relaxed);
  if (worst == Decoded::no_memory) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY,
                "no memory for a context to decode a compressed page with");
  }
  if (worst == Decoded::malformed) {
    return fail(WEIR_ERROR_CORRUPT, "block %u of %u of a compressed page is malformed (%s)",
                where + 1, count, methods_.find(reading.method_id(where))->name());
  }
  decoded_bytes_.fetch_add(raw, std::memory_order_relaxed);
  return {};
}

CodecStats Codec::stats() const noexcept {
  CodecStats stats;
  stats.in_bytes = in_bytes_.load(std::memory_order_relaxed);
  stats.out_bytes = out_bytes_.load(std::memory_order_relaxed);
  stats.decoded_bytes = decoded_bytes_.load(std::memory_order_relaxed);
  stats.incompressible_bytes = incompressible_bytes_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace weir::tier

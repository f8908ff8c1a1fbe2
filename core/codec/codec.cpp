// SPDX-License-Identifier: Apache-2.0
//
// How a page becomes a blob: a block before which all are done is coded where it belongs, as every block is where one
// thread codes them all. Others are coded, by any thread, into their own place in `out`, and move together in order as
// they end. Blocks stored as they are get copied last, when it is known that the blob pays, unless there must be one; so
// a page that does not pay is never copied. The header's table holds a block's method and length until it is where it
// belongs, its end after.
//
// What a plan decides, and from what, stands with pick(), try_methods() and learn(). Nothing here depends on time.

#include "core/codec/codec.hpp"

#include "core/base/mutex.hpp"
#include "core/base/spin_lock.hpp"
#include "core/codec/checksum.hpp"
#include "core/codec/detect.hpp"
#include "core/codec/elements.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace weir::codec {
namespace {

/// The most that coded bytes may be if they are to pay; always fewer than the raw ones.
constexpr uint64_t paying(uint64_t raw) noexcept {
  return raw - std::max<uint64_t>(raw / Codec::worth, 1);
}

/// Whether at least 15 percent of the 2-byte words are zero, by a look at 1/128 of the bytes: what makes SPARSE pay.
bool many_zeros(const unsigned char *bytes, uint64_t length) noexcept {
  constexpr uint64_t looks = 32;
  constexpr uint64_t look_bytes = 64;
  if (length < looks * look_bytes) return false;
  const uint64_t step = (length - look_bytes) / (looks - 1) & ~uint64_t{1};
  uint64_t zeros = 0;
  for (uint64_t look = 0; look < looks; ++look)
    zeros += zeros_in(bytes + look * step, look_bytes / 2, 2);
  return zeros * 100 >= looks * look_bytes / 2 * 15;
}

/// As in CodecChoice: its name, and the one method that comes into question besides SAME and RAW, if there is but one.
struct Choice {
  const char *name;
  MethodId only;
};
constexpr Choice choices[] = {
    {"auto", MethodId::none}, {"lz4", MethodId::lz4},       {"zstd", MethodId::zstd},
    {"raw", MethodId::none},  {"fx", MethodId::fx},         {"sparse", MethodId::sparse},
    {"mask", MethodId::mask}, {"planes", MethodId::planes}, {"narrow", MethodId::narrow},
};

/// Runs work.*step for each of so many pieces.
template <auto step, class Work>
void run_pieces(Workers &workers, uint32_t count, Work &work, Workers::Urgency urgency) noexcept {
  const auto piece = [](void *context, uint32_t index) noexcept {
    (static_cast<Work *>(context)->*step)(index);
  };
  workers.run(count, piece, &work, urgency);
}

/// Of what the caller's calls so far have left on the stack of this thread: as deep as coders go.
[[gnu::noinline]] void clear_stack() noexcept {
  unsigned char deep[uint64_t{96} << 10U];
  explicit_bzero(deep, sizeof deep);
}

}  // namespace

// ---- a page on its way into a blob ----

struct Codec::Page {
  const unsigned char *in;
  unsigned char *out;
  BlobShape shape;
  Effort effort;
  Workers::Urgency urgency;
  struct {
    BlockMethod *same, *as_is, *sparse = nullptr, *fx = nullptr;
  } coders;
  const bool secret;  ///< nothing of it may stay on a stack
  const bool must;    ///< there is a blob in any case: blocks that stay as they are need not wait
  BlockMethod *method = nullptr;  ///< besides SAME, RAW and what takes its place; none: only those
  Form form = Form::bytes;        ///< what the method is told of the bytes
  bool tried = false;             ///< method is what a trial found
  bool skipped = false;           ///< the plan says that nothing but SAME is worth a look

  /// Guards the table and what follows, while blocks are coded. The thread that codes the block `placed` reads `end` without it.
  SpinLock lock{};
  bool placing = false;
  uint32_t placed = 0;  ///< blocks before it have their end in the table, and coded ones are there
  uint64_t end = 0;
  uint64_t tried_bytes = 0;  ///< raw bytes of the placed blocks that are not SAME ...
  uint64_t coded_bytes = 0;  ///< ... and what became of them
  uint32_t as_is_count = 0;
  std::array<CodecStats::Share, method_count> methods{};

  uint32_t count() const noexcept { return static_cast<uint32_t>(shape.blocks()); }
  unsigned char *entry(uint32_t index) const noexcept { return out + shape.entry_at(index); }
  unsigned char *place(uint32_t index) const noexcept {
    return out + shape.payload_at() + BlobShape::start(index);
  }
  /// What codes a block of floats many of which are zero: that is seen block by block, as one layer's outputs are and
  /// another's are not.
  BlockMethod *stand_in(const BlockMethod *planned, const unsigned char *block,
                        uint64_t length) const noexcept {
    const bool floats = planned == nullptr || planned->id() == MethodId::fx;
    return floats && coders.sparse != nullptr && many_zeros(block, length) ? coders.sparse
                                                                           : nullptr;
  }

  /// What codes a block of which some value does not fit into two bytes, where the others' do.
  BlockMethod *unless_narrow() const noexcept {
    return method != nullptr && method->id() == MethodId::narrow ? coders.fx : nullptr;
  }

  /// Whether all blocks before this one, which is not done itself, are where they belong: then so can this one be at
  /// once. No other thread writes there until it is noted.
  bool is_next(uint32_t index) noexcept {
    const Guard guard(lock);
    assert(index != placed || !placing);
    return index == placed;
  }

  /// Codes one block. The checksum comes first, and what is coded then is in a near cache.
  void code(uint32_t index) noexcept {
    const unsigned char *block = in + BlobShape::start(index);
    const uint64_t length = shape.length(index);
    const bool next = is_next(index);
    unsigned char *const to = next ? out + end : place(index);
    if (shape.sums) store_little(out + shape.sum_at(index), checksum_of(block, length));
    const BlockMethod *by = coders.same;
    uint64_t coded = coders.same->encode(block, length, form, to, length);
    for (BlockMethod *with :
         {skipped ? nullptr : stand_in(method, block, length), method, unless_narrow()}) {
      if (coded != 0 || with == nullptr) continue;
      by = with;
      coded = with->encode(block, length, form, to, paying(length));
    }
    if (coded == 0) {
      by = coders.as_is;
      coded = must ? coders.as_is->encode(block, length, form, to, length) : length;
    }
    if (secret) clear_stack();
    note(index, by->id(), coded, next);
  }

  /// Tells that a block is coded, and moves together what can be. One thread moves at a time and goes on with what the
  /// others end meanwhile; a block's place is not needed by any block before it once those have been moved.
  void note(uint32_t index, MethodId id, uint64_t length, bool in_its_place) noexcept {
    Guard guard(lock);
    store_little(entry(index),
                 uint64_t{static_cast<uint8_t>(id)} << BlobShape::method_shift | length);
    if (placing) return;
    placing = true;
    while (placed < count()) {
      const uint64_t found = shape.entry(out, placed);
      if (found == 0) break;
      const uint64_t bytes = found & BlobShape::end_mask;
      const auto method_id = static_cast<MethodId>(found >> BlobShape::method_shift);
      const bool coded = must || method_id != MethodId::raw;
      const bool there = (in_its_place && placed == index) || out + end == place(placed);
      if (coded && !there) {
        guard.unlocked([&] { std::memmove(out + end, place(placed), bytes); });
      }
      const uint64_t length_raw = shape.length(placed);
      if (method_id != MethodId::same) {
        tried_bytes += length_raw;
        coded_bytes += bytes;
      }
      CodecStats::Share &share = methods[static_cast<size_t>(method_id)];
      share.in_bytes += length_raw;
      share.out_bytes += bytes;
      if (!coded) ++as_is_count;
      end += bytes;
      store_little(entry(placed), (found & ~BlobShape::end_mask) | end);
      ++placed;
    }
    placing = false;
  }

  /// Copies a block that stays as it is, if it is not there yet. Every block's end is known.
  void copy(uint32_t index) const noexcept {
    const uint64_t method_of = shape.entry(out, index) >> BlobShape::method_shift;
    if (static_cast<MethodId>(method_of) != MethodId::raw) return;
    const uint64_t length = shape.length(index);
    unsigned char *const to = out + shape.from(out, index);
    (void)coders.as_is->encode(in + BlobShape::start(index), length, form, to, length);
  }

  /// Whether it can have as many SAME blocks as it takes to pay: a look at both ends of each.
  bool perhaps_same() const noexcept {
    uint64_t bytes = 0;
    for (uint32_t index = 0; index < count(); ++index) {
      const unsigned char *block = in + BlobShape::start(index);
      const uint64_t length = shape.length(index);
      const uint64_t look = std::min<uint64_t>(length, 16);
      const bool ends = is_same(block, look) && is_same(block + length - look, look);
      bytes += ends ? length : 0;
    }
    return bytes >= shape.raw / worth;
  }
};

// ---- what to code with ----

/// The methods side by side on parts of a page, each as long as a block (what repeats over half a block is not seen in a
/// quarter of one), spread evenly from its first byte to its last. A part of one pattern tells nothing about them and
/// is left out. `out` is where they are coded to; nothing of it is kept.
struct Codec::Trial {
  static constexpr uint64_t first_parts = 4;  ///< of a region of which nothing is known ...
  static constexpr uint64_t apart = 2;        ///< ... but where time counts, one of so many blocks
  static constexpr uint64_t later_parts = 2;
  static constexpr size_t most_entrants = BlockMethods::most_tried + 1;

  struct Entrant {
    BlockMethod *method;
    Form form;
    std::atomic<uint64_t> coded{0};
  };

  const Page &page;
  uint32_t parts;
  std::array<Entrant, most_entrants> entrants{};
  uint32_t count = 0;
  std::atomic<uint64_t> raw{0};

  void enter(BlockMethod *method, Form form) noexcept {
    entrants[count].method = method;
    entrants[count++].form = form;
  }

  void part(uint32_t index) noexcept {
    const uint64_t length = std::min(page.shape.raw, block_bytes);
    // Elements of a power of two bytes are not cut, as long as the page starts with one.
    const uint64_t step = parts > 1 ? (page.shape.raw - length) / (parts - 1) & ~uint64_t{63} : 0;
    const unsigned char *in = page.in + index * step;
    if (is_same(in, length)) return;
    raw.fetch_add(length, std::memory_order_relaxed);
    unsigned char *scratch = page.place(index);
    uint64_t best = length;
    for (uint32_t i = 0; i < count; ++i) {
      Entrant &entrant = entrants[i];
      BlockMethod *other = page.stand_in(entrant.method, in, length);
      BlockMethod *by = other != nullptr ? other : entrant.method;
      const bool searches = by->id() == MethodId::lz4 || by->id() == MethodId::zstd;
      const bool in_full = page.effort == Effort::dense && !searches;  // those look first
      const uint64_t bytes = in_full ? by->encode(in, length, entrant.form, scratch, paying(length))
                                     : by->weigh(in, length, entrant.form, best, scratch);
      if (bytes != 0) best = std::min(best, bytes);
      const bool pays = bytes != 0 && bytes <= paying(length);
      entrant.coded.fetch_add(pays ? bytes : length, std::memory_order_relaxed);
    }
    if (page.secret) clear_stack();
  }
};

/// Of the candidates that save at least 1/16 of the parts, the one that saves most, or none. Which those are depends on the
/// effort and on nothing that is measured: the same bytes are coded alike on every machine.
void Codec::try_methods(Page &page, const CodecPlan &plan) noexcept {
  const bool known = plan.method != 0 || plan.backoff > 0;
  const uint64_t most_parts = known ? Trial::later_parts : Trial::first_parts;
  const uint64_t apart = page.effort == Effort::dense ? 1 : Trial::apart;
  const uint64_t parts = std::clamp<uint64_t>(page.shape.raw / block_bytes / apart, 1, most_parts);
  Trial trial{page, static_cast<uint32_t>(parts)};
  const Form seen = detect(page.in, page.shape.raw).form;
  for (const MethodId id : BlockMethods::candidates(page.effort))
    trial.enter(methods_.candidate(id, page.effort), seen);
  // What the owner says is tried beside what is seen: it helps where it is right, and costs nothing where it is wrong.
  if (plan.hint != Form::bytes && plan.hint != seen)
    trial.enter(methods_.find(page.effort == Effort::dense ? MethodId::planes : MethodId::fx),
                plan.hint);
  run_pieces<&Trial::part>(workers_, trial.parts, trial, page.urgency);
  const uint64_t raw = trial.raw.load(std::memory_order_relaxed);
  page.form = seen;
  if (raw == 0) {  // nothing to go by: the cheapest method, and the next page tries again
    page.method = methods_.find(MethodId::lz4);
    return;
  }
  page.tried = true;
  page.method = nullptr;
  uint64_t most = 0;
  for (uint32_t i = 0; i < trial.count; ++i) {
    const Trial::Entrant &entrant = trial.entrants[i];
    const uint64_t coded = entrant.coded.load(std::memory_order_relaxed);
    if (coded > paying(raw) || raw - coded <= most) continue;
    most = raw - coded;
    page.method = entrant.method;
    page.form = entrant.form;
  }
}

/// The plan's method; a trial's, if the plan has none or is due; none, while the region is passed over.
void Codec::pick(Page &page, CodecPlan *plan) noexcept {
  if (choice_ == CodecChoice::raw) return;
  page.form = plan->form;
  if (plan->skip > 0) {
    --plan->skip;
    page.skipped = true;
    return;
  }
  if (choice_ == CodecChoice::automatic) {
    page.coders.sparse = methods_.find(MethodId::sparse);
    page.coders.fx = methods_.find(MethodId::fx);
    BlockMethod *known = methods_.candidate(static_cast<MethodId>(plan->method), page.effort);
    if (known == nullptr || plan->age >= trial_period) return try_methods(page, *plan);
    page.method = known;
    return;
  }
  // Only one comes into question, so the page itself is the trial.
  page.tried = true;
  page.method = methods_.find(choices[static_cast<size_t>(choice_)].only, page.effort);
  page.form = plan->hint != Form::bytes ? plan->hint : detect(page.in, page.shape.raw).form;
}

void Codec::learn(const Page &page, CodecPlan *plan) const noexcept {
  if (choice_ == CodecChoice::raw || page.skipped || page.tried_bytes == 0) return;
  if (page.coded_bytes > paying(page.tried_bytes)) {
    if (!page.tried && plan->method != 0) {  // it is other data now, of which nothing is known
      plan->age = trial_period;
      return;
    }
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
    // A trial may find none, and what takes the place of RAW pays all the same.
    plan->method = page.method != nullptr ? static_cast<uint8_t>(page.method->id()) : 0;
    plan->form = page.form;
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

Codec::Codec(Workers &workers, CodecChoice choice, Options options) noexcept
    : workers_(workers),
      choice_(choice),
      sums_(options.sums),
      methods_(options.ready && (choice == CodecChoice::automatic || choice == CodecChoice::zstd ||
                                 choice == CodecChoice::planes)) {}

bool Codec::parse(const char *name, CodecChoice *choice) noexcept {
  if (name == nullptr) name = choices[0].name;
  for (size_t i = 0; i < std::size(choices); ++i) {
    if (std::strcmp(name, choices[i].name) != 0) continue;
    *choice = static_cast<CodecChoice>(i);
    return true;
  }
  return false;
}

uint64_t Codec::encode(const void *in, uint64_t raw, void *out, bool must, CodecPlan *plan,
                       Workers::Urgency urgency, Effort effort, bool secret) noexcept {
  const BlobShape shape{raw, sums_};
  assert(shape.blocks() <= UINT32_MAX);
  if (raw == 0) return 0;
  if (choice_ == CodecChoice::raw) must = true;
  Page page{.in = static_cast<const unsigned char *>(in),
            .out = static_cast<unsigned char *>(out),
            .shape = shape,
            .effort = effort,
            .urgency = urgency,
            .coders = {methods_.find(MethodId::same), methods_.find(MethodId::raw)},
            .secret = secret,
            .must = must};
  struct Forget {  // however it ends
    Codec &codec;
    const bool secret;
    ~Forget() {
      if (secret) codec.methods_.forget();
    }
  } const forget{*this, secret};
  pick(page, plan);
  if (page.skipped && !must && !page.perhaps_same()) {
    incompressible_bytes_.fetch_add(raw, std::memory_order_relaxed);
    return 0;
  }
  shape.begin(page.out);
  page.end = shape.payload_at();
  run_pieces<&Page::code>(workers_, page.count(), page, urgency);
  assert(page.placed == page.count() && page.end <= shape.bound());
  learn(page, plan);
  if (!must && page.end > paying(raw)) {
    incompressible_bytes_.fetch_add(raw, std::memory_order_relaxed);
    return 0;
  }
  if (page.as_is_count > 0) run_pieces<&Page::copy>(workers_, page.count(), page, urgency);
  count(page);
  return page.end;
}

void Codec::count(const Page &page) noexcept {
  all_.add({page.shape.raw, page.end});
  by_form_[static_cast<size_t>(page.form)].add({page.shape.raw, page.end});
  for (size_t i = 0; i < method_count; ++i)
    if (page.methods[i].in_bytes != 0) by_method_[i].add(page.methods[i]);
}

// ---- and back ----

struct Codec::Reading {
  const unsigned char *blob;
  unsigned char *out;
  BlockMethods &methods;
  bool secret;
  BlobShape shape{0, false};
  std::atomic<uint8_t> worst{static_cast<uint8_t>(Decoded::ok)};
  std::atomic<uint32_t> where{UINT32_MAX};

  MethodId method_id(uint64_t index) const noexcept {
    return static_cast<MethodId>(shape.entry(blob, index) >> BlobShape::method_shift);
  }

  /// What is wrong with the header, or nullptr: then every block lies in the blob and in `out`.
  const char *check(uint64_t bytes, uint64_t raw) noexcept {
    if (const char *wrong = BlobShape::read(blob, bytes, &shape); wrong != nullptr) return wrong;
    if (shape.raw != raw) return "it is of another number of bytes";
    uint64_t end = shape.payload_at();
    for (uint64_t i = 0; i < shape.blocks(); ++i) {
      const uint64_t next = shape.from(blob, i + 1);
      if (next <= end || next > bytes) return "a block of it has no length or lies outside of it";
      if (next - end > shape.length(i)) return "a block of it is longer than its raw bytes";
      if (methods.find(method_id(i)) == nullptr) return "a block of it is coded in no known way";
      end = next;
    }
    return end == bytes ? nullptr : "it goes on behind its last block";
  }

  void block(uint32_t index) noexcept {
    if (worst.load(std::memory_order_relaxed) != static_cast<uint8_t>(Decoded::ok)) return;
    const uint64_t start = shape.from(blob, index);
    const uint64_t length = shape.length(index);
    unsigned char *to = out + BlobShape::start(index);
    BlockMethod *method = methods.find(method_id(index));
    const uint64_t coded = shape.from(blob, index + 1) - start;
    DecodedSum sum;
    Decoded result = method->decode(blob + start, coded, to, length, shape.sums ? &sum : nullptr);
    if (secret) clear_stack();
    if (result == Decoded::ok && shape.sums &&
        sum.of(to, length) != load_little<uint64_t>(blob + shape.sum_at(index)))
      result = Decoded::malformed;
    if (result == Decoded::ok) return;
    worst.store(static_cast<uint8_t>(result), std::memory_order_relaxed);
    where.store(index, std::memory_order_relaxed);
  }
};

Status Codec::decode(const void *blob, uint64_t bytes, void *out, uint64_t raw,
                     Workers::Urgency urgency, bool secret) noexcept {
  Reading reading{static_cast<const unsigned char *>(blob), static_cast<unsigned char *>(out),
                  methods_, secret};
  const char *wrong = raw == 0 ? "no page has no bytes" : reading.check(bytes, raw);
  if (wrong != nullptr)
    return fail(WEIR_ERROR_CORRUPT, "a compressed page of %llu bytes, %llu raw, is malformed: %s",
                llu(bytes), llu(raw), wrong);
  const auto count = static_cast<uint32_t>(reading.shape.blocks());
  run_pieces<&Reading::block>(workers_, count, reading, urgency);
  if (secret) methods_.forget();
  const auto worst = static_cast<Decoded>(reading.worst.load(std::memory_order_relaxed));
  const uint32_t where = reading.where.load(std::memory_order_relaxed);
  if (worst == Decoded::no_memory)
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY,
                "no memory for a context to decode a compressed page with");
  if (worst == Decoded::malformed)
    return fail(WEIR_ERROR_CORRUPT, "block %u of %u of a compressed page is malformed (%s)",
                where + 1, count, methods_.find(reading.method_id(where))->name());
  decoded_bytes_.fetch_add(raw, std::memory_order_relaxed);
  return {};
}

CodecStats Codec::stats() const noexcept {
  CodecStats stats;
  const CodecStats::Share all = all_.read();
  stats.in_bytes = all.in_bytes;
  stats.out_bytes = all.out_bytes;
  stats.decoded_bytes = decoded_bytes_.load(std::memory_order_relaxed);
  stats.incompressible_bytes = incompressible_bytes_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < method_count; ++i) stats.methods[i] = by_method_[i].read();
  for (size_t i = 0; i < form_count; ++i) stats.forms[i] = by_form_[i].read();
  return stats;
}

}  // namespace weir::codec

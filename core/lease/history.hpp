// SPDX-License-Identifier: Apache-2.0
//
// History: after what bytes may be used. It has the past uses of buffers for which the one stamp that the hit path keeps
// (page::Hot::stamp) is not enough: of parts, and of several streams. And it reads and writes the tombstones of regions: what may
// still run where a buffer was that is dead. All under the pool's lock.
//
// What must hold: no stamp is dropped that has not passed, unless a lease of everything it covers comes after it. What there
// is no memory to remember is waited for. While a buffer has past uses here, its word says so (page::Word::history).
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/spare_nodes.hpp"
#include "core/lease/range.hpp"

#include <algorithm>
#include <memory_resource>
#include <span>
#include <unordered_map>
#include <vector>

namespace weir::lease {

using backend::Stamp;

/// Bytes of a buffer, or of a place in a region, and work on them; the stamp's write bit tells the mode.
using PastUse = page::Tombstone;

/// One stands for both, of one stream: that only makes others wait for more.
inline void widen(PastUse &use, const PastUse &other) noexcept {
  use.begin = std::min(use.begin, other.begin);
  use.end = std::max(use.end, other.end);
  const uint64_t write = (use.stamp.bits | other.stamp.bits) & Stamp::write_bit;
  if (other.stamp.point() > use.stamp.point()) use.stamp = other.stamp;
  use.stamp.bits |= write;
}

/// Of one buffer. Entries of one stream that a later one covers are dropped, and so is what has passed.
class PastUses {
 public:
  explicit PastUses(std::pmr::memory_resource *memory) : uses_(memory) {}

  /// Throws std::bad_alloc with nothing changed.
  void add(const PastUse &use, backend::StreamTable &streams) {
    std::erase_if(uses_, [&use](const PastUse &old) {
      // Not every use added is the latest: the hit path's stamp moves here when another stream comes.
      return old.stamp.slot() == use.stamp.slot() && old.stamp.point() <= use.stamp.point() &&
             use.begin <= old.begin && old.end <= use.end &&
             (use.stamp.write() || !old.stamp.write());
    });
    // Asking each time whether they have passed would cost more than keeping them where there is room.
    if (uses_.size() == uses_.capacity() || uses_.size() >= merge_above) forget_passed(streams);
    if (uses_.size() >= merge_above) return merge(use);
    uses_.push_back(use);
  }
  void forget_passed(backend::StreamTable &streams) noexcept {
    std::erase_if(uses_, [&streams](const PastUse &use) { return streams.passed(use.stamp); });
  }
  bool empty() const noexcept { return uses_.empty(); }
  void clear() noexcept { uses_.clear(); }
  std::span<const PastUse> uses() const noexcept { return uses_; }

 private:
  static constexpr size_t merge_above = 32;

  /// Of many small ranges one entry a stream stands for all that come.
  void merge(const PastUse &use) {
    const auto same = std::find_if(uses_.begin(), uses_.end(), [&use](const PastUse &old) {
      return old.stamp.slot() == use.stamp.slot();
    });
    if (same == uses_.end()) return uses_.push_back(use);
    widen(*same, use);
  }

  std::pmr::vector<PastUse> uses_;
};

class History {
 public:
  History(std::pmr::memory_resource *memory, backend::StreamTable &streams,
          page::BufferDirectory &buffers)
      : memory_(memory), streams_(streams), buffers_(buffers), uses_(memory) {}

  // ---- of buffers ----
  void note(uint32_t buffer, uint64_t begin, uint64_t end, Stamp stamp) noexcept WEIR_HELD;
  /// A lease of the whole buffer is granted to a stream that waits for what came before. To write: its release will leave the only
  /// stamp. To read: the stamp of another stream comes here, so that this stream's can follow on the hit path.
  void grant_whole(uint32_t buffer, bool write, const backend::Stream *stream) noexcept WEIR_HELD;
  /// Whether any of it is still to be waited for.
  bool pending(uint32_t buffer) noexcept WEIR_HELD;
  bool knows(uint32_t buffer) const noexcept WEIR_HELD { return uses_.contains(buffer); }
  void forget(uint32_t buffer) noexcept WEIR_HELD {
    const auto entry = uses_.find(buffer);
    if (entry != uses_.end()) forget(entry);
  }
  /// What a use of the range has to come after: with `write` every use before it, else what was written.
  void gather(const Range &range, bool write, std::pmr::vector<Stamp> *stamps) WEIR_HELD;
  /// Whether all of that is the stream's own past, or has ended. Not of a tenant before its first use.
  bool follows(const Range &range, bool write, uint32_t slot) noexcept WEIR_HELD;
  /// Where all that may still run on a buffer with a span is one stream's: the stamp stands for it from then on, and there is nothing of it
  /// here. The caller sets the word right. False: it is not so, or can't be done now, and nothing has changed.
  bool fold(uint32_t buffer, uint32_t slot) noexcept WEIR_HELD;

  /// One wait a stream: its latest point stands for the earlier ones.
  static void keep_latest(std::pmr::vector<Stamp> *stamps) noexcept;

  // ---- of places in regions ----
  /// Work that may still run on a dead tenant's place is remembered by the place.
  void bury(page::Region &region, uint64_t begin, uint64_t end, Stamp stamp) noexcept WEIR_HELD;
  /// The buffer, which is all of the range, leaves its place: all that may still run on it is the place's past.
  void bury_all(const Range &range) noexcept WEIR_HELD;
  /// A new buffer of so many bytes has a kept region. Throws std::bad_alloc with nothing changed.
  void inherit(uint32_t buffer, uint64_t size, page::Region &region) WEIR_HELD;
  /// The buffer, which is all of the range, has come to this place without a copy that would be ordered after its past.
  void take_over(const Range &range) noexcept WEIR_HELD;
  static void gather_place(const page::Region &region, uint64_t begin, uint64_t end,
                           std::pmr::vector<Stamp> *stamps);
  /// Whether all work of dead tenants on the range has ended, or is of the stream's own past.
  bool past_ended(const page::Region &region, uint64_t begin, uint64_t end,
                  const backend::Stream *stream) const noexcept WEIR_HELD;
  /// What of dead tenants may still run on the range, if it is one stream's. False: it is of several.
  bool past_of(const page::Region &region, uint64_t begin, uint64_t end,
               Stamp *past) const noexcept WEIR_HELD;
  void await_places(const page::Region &region, uint64_t most_ns) noexcept WEIR_HELD;

  // ---- of pages ----
  /// What may still run on the page, on any device. `copies`: of copies alone, where no stream has leased it on this device since it
  /// came there.
  void collect(page::Region &region, uint32_t page, std::pmr::vector<Stamp> *fences,
               bool copies = false) WEIR_HELD;
  /// Whether nothing of the dead, and no copy, runs on the page any more.
  bool at_rest(const page::Region &region, uint32_t page) const noexcept WEIR_HELD;

 private:
  using Uses = std::pmr::unordered_map<uint32_t, PastUses>;

  /// The other way round, if no release may be publishing: what the stamp stands for comes here, range by range.
  void unfold(uint32_t buffer) noexcept WEIR_HELD;
  void forget(Uses::iterator entry) noexcept WEIR_HELD {
    entry->second.clear();
    spare_.retire(uses_, entry);
  }
  std::span<const PastUse> past_uses(uint32_t buffer) const noexcept WEIR_HELD {
    if (uses_.empty()) return {};  // as it is most of the time
    const auto entry = uses_.find(buffer);
    return entry != uses_.end() ? entry->second.uses() : std::span<const PastUse>{};
  }

  std::pmr::memory_resource *memory_;
  backend::StreamTable &streams_;
  page::BufferDirectory &buffers_;
  Uses uses_ WEIR_GUARDED;
  SpareNodes<Uses> spare_ WEIR_GUARDED;
};

}  // namespace weir::lease

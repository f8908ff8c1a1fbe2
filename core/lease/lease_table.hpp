// SPDX-License-Identifier: Apache-2.0
//
// LeaseTable: who may use which bytes now. A lease of a whole buffer is counted in the buffer's word, by the hit path too; one of
// a part is listed here and counted in the pages under it. It alone decides what conflicts, but for what holds forbid. All under
// the pool's lock; the words change by compare-and-swap all the same.
//
// What must hold: a buffer's word says that it has leases on parts (page::Word::partial) exactly while there are some here. A
// page with a lease on any of its bytes is neither taken out nor moved, nor does a buffer that is leased change its place.
#pragma once

#include "core/base/spare_nodes.hpp"
#include "core/lease/range.hpp"

#include <memory_resource>
#include <optional>
#include <span>
#include <unordered_map>

namespace weir::lease {

using page::ClaimScope;

class LeaseTable {
 public:
  LeaseTable(std::pmr::memory_resource *memory, page::BufferDirectory &buffers)
      : buffers_(buffers), partials_(memory) {}

  /// Whether an unreleased lease forbids to read, or write, the range in a scope.
  bool conflicts(const Range &range, bool write, ClaimScope scope) const noexcept WEIR_HELD {
    return conflict(range, write, scope).end != 0;
  }
  /// One such lease; an empty one: there is none.
  struct Conflict {
    uint64_t begin = 0, end = 0;  ///< bytes of the buffer
    bool writes = false;
  };
  Conflict conflict(const Range &range, bool write, ClaimScope scope) const noexcept WEIR_HELD;
  /// Counts a lease in. The hit path may have granted a conflicting one since the check: false, and nothing is counted. Throws
  /// std::bad_alloc with nothing changed.
  bool take(const Range &range, uint8_t mode, ClaimScope scope, const void *lease) WEIR_HELD;
  void drop(const Range &range, uint8_t mode, const void *lease) noexcept WEIR_HELD;
  /// For one that has the buffer to itself, or is about to: false if there is any lease; else it is leased to write, and closed to
  /// hits.
  bool take_alone(uint32_t buffer) noexcept WEIR_HELD;
  /// Without a lease of its own, a copy must not run beside a writer on another device: sends new ones the slow way, where
  /// they find the page busy. False: one is there already.
  bool close_for_copy(uint32_t buffer) noexcept WEIR_HELD;

  bool on_parts(uint32_t buffer) const noexcept WEIR_HELD { return partials_.contains(buffer); }
  uint32_t count(uint32_t buffer) const noexcept WEIR_HELD;

  /// Whether a lease, a hold or an operation needs the page in place on a device. A hold on one is no reason to keep what lies
  /// on another, or below.
  bool in_use(page::Region &region, uint32_t page,
              std::optional<uint8_t> place = {}) const noexcept WEIR_HELD;
  /// What of that is seen without looking at the buffers that lie there.
  static bool kept(const page::Region &region, uint32_t page,
                   std::optional<uint8_t> place = {}) noexcept WEIR_HELD;
  /// Closes the hit path of every buffer on the page. False if one is leased: then some may be closed without need, which only
  /// sends their next acquire the slow way.
  bool close(page::Region &region, uint32_t page, uint8_t place) noexcept WEIR_HELD;
  /// Bytes of the region are to stay where they are, once more or once less: what a claim of a whole buffer does not say.
  static void count_pages(page::Region &region, uint64_t begin, uint64_t end, int delta) noexcept;

 private:
  struct Partial {
    uint64_t begin, end;
    uint8_t mode;
    ClaimScope scope;
    const void *lease;
  };

  bool whole(const Range &range) const noexcept {
    return range.begin == 0 && range.end == buffers_.hot(range.buffer).size();
  }
  bool take_whole(uint32_t buffer, bool write) noexcept WEIR_HELD;

  std::span<const Partial> partials(uint32_t buffer) const noexcept WEIR_HELD {
    const auto found = partials_.find(buffer);
    return found != partials_.end() ? found->second : std::span<const Partial>{};
  }

  page::BufferDirectory &buffers_;
  using Partials = std::pmr::unordered_map<uint32_t, std::pmr::vector<Partial>>;
  Partials partials_ WEIR_GUARDED;  ///< by buffer, none empty
  SpareNodes<Partials> spare_ WEIR_GUARDED;
};

}  // namespace weir::lease

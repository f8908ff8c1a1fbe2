// SPDX-License-Identifier: Apache-2.0
//
// BufferDirectory: the buffers of a pool: by handle, by index and by weir_malloc's address; where each lies (Target), and what its
// caller has said of it: tag, name, users, holds. A live word names a buffer whose region lives; a handle of a dead buffer is not taken
// for another's, until 2^20 have had its index. What the hit path reads is read without a lock and changed by its rules
// (page/hot.hpp); all else is guarded by the pool's lock.
#pragma once

#include "core/base/name.hpp"
#include "core/base/status.hpp"
#include "core/page/address_map.hpp"
#include "core/page/buffer_table.hpp"
#include "core/page/claim_scope.hpp"
#include "core/page/region_store.hpp"
#include "core/page/users.hpp"

#include <string>

namespace weir::page {

class Spans;

/// What a hold lets others do (docs/leases.md): nobody writes; leases and calls write into the held memory; nobody else.
enum class HoldKind : uint8_t { read, shared, alone };

/// The holds on a buffer, which are all of one kind and in one scope.
struct Hold {
  uint32_t count = 0;
  uint32_t coming = 0;  ///< calls that are bringing it in: the record is theirs too
  ClaimScope scope = ClaimScope::any();
  HoldKind kind = HoldKind::shared;
};

/// Where a buffer lies.
struct Target {
  Region *region = nullptr;
  uint64_t base = 0;  ///< of the buffer within the region
  uint64_t size = 0;
};

class BufferDirectory {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  BufferDirectory(RegionStore &regions, std::pmr::memory_resource *memory, uint32_t pool_id);
  ~BufferDirectory();

  // ---- without the lock ----
  Hot &hot(uint32_t index) noexcept { return table_.hot(index); }
  /// Of those that are leased by ranges.
  Spans &spans() noexcept { return *spans_; }
  /// As BufferTable::decode().
  bool decode(weir_buffer buffer, uint32_t *index, uint64_t *generation) const noexcept {
    return table_.decode(buffer, index, generation);
  }
  /// No index is as large.
  uint32_t end() const noexcept { return table_.end(); }

  // ---- handles ----
  Status find(weir_buffer buffer, uint32_t *index);
  weir_buffer handle(uint32_t index) noexcept {
    return table_.handle(index, hot(index).word.load(std::memory_order_relaxed));
  }
  /// Resolves WEIR_WHOLE, and says whether the range lies within the buffer.
  Status range_of(uint32_t index, uint64_t offset, uint64_t *length);
  /// DATA_LOST, of a page of the buffer's region.
  Status fail_lost(uint32_t index, uint32_t page, uint64_t use = UINT64_MAX) noexcept WEIR_HELD;
  uint32_t live() const noexcept WEIR_HELD { return table_.live(); }
  uint64_t bytes() const noexcept WEIR_HELD { return bytes_; }
  /// What the next buffer adds to the records.
  uint64_t bytes_of_next() const noexcept { return table_.bytes_of_next(); }

  // ---- life ----
  /// An index for a new buffer, not alive yet. Throws std::bad_alloc with nothing changed.
  uint32_t take(const Users *users, std::string_view name = {}, uint32_t stack = 0) WEIR_HELD;
  /// A buffer that has its place gets its size and home.
  void describe(uint32_t index, uint64_t size, uint32_t home) noexcept WEIR_HELD;
  /// It is alive, with these flags of its word.
  void publish(uint32_t index, uint64_t flags) noexcept WEIR_HELD;
  /// It is dead, its tag and holds are gone. Its index, place, name and users stay until it is given.
  void kill(uint32_t index) noexcept WEIR_HELD;
  void give(uint32_t index) noexcept WEIR_HELD {
    if (!users_.empty()) users_.erase(index);
    if (!names_.empty()) names_.erase(index);
    if (!stacks_.empty()) stacks_.erase(index);
    table_.give(index);
  }

  // ---- places ----
  Target target(uint32_t index) noexcept WEIR_HELD {
    const Cold &cold = table_.cold(index);
    Region &region = regions_.at(cold.region);
    return {&region, tenant(index) ? region.tenants->offset(cold.node) : 0, hot(index).size()};
  }
  bool tenant(uint32_t index) noexcept WEIR_HELD {
    return table_.cold(index).node != physical::SmallArena::none;
  }
  uint32_t node(uint32_t index) noexcept WEIR_HELD { return table_.cold(index).node; }
  /// Its records will be looked at soon. Changes nothing.
  void prefetch(uint32_t index) noexcept WEIR_HELD {
    __builtin_prefetch(&table_.hot(index));
    __builtin_prefetch(&table_.cold(index));
  }
  bool lies_at(uint32_t index, const Region &slab, uint32_t node) noexcept WEIR_HELD {
    return table_.cold(index).region == slab.id && table_.cold(index).node == node;
  }
  /// It has a place in the slab; without a node all of the region.
  void settle(uint32_t index, const Region &region,
              uint32_t node = physical::SmallArena::none) noexcept WEIR_HELD {
    table_.cold(index) = Cold{region.id, node};
  }

  // ---- ranges on the hit path (page/spans.hpp) ----
  /// They may be leased there from now on, if the buffer can have a span.
  void attach_span(uint32_t index) WEIR_HELD;
  /// Not any more, unless one is leased.
  void detach_span(uint32_t index) noexcept WEIR_HELD;

  // ---- what callers have said of it ----
  /// A tenant's: other buffers have theirs in their regions. Throws std::bad_alloc with nothing changed.
  void set_tag(uint32_t index, uint64_t tag) WEIR_HELD {
    if (tag != 0) tags_.emplace(index, tag);
  }
  uint64_t tenant_tag(uint32_t index) const noexcept WEIR_HELD {
    const auto tag = tags_.find(index);
    return tag != tags_.end() ? tag->second : 0;
  }
  uint64_t tag_of(uint32_t index) noexcept WEIR_HELD {
    const auto tag = tags_.find(index);
    return tag != tags_.end() ? tag->second : target(index).region->tag;
  }
  /// A tenant's, for when it has pages of its own. Throws std::bad_alloc with nothing changed.
  void wish_priority(uint32_t index, int8_t priority) WEIR_HELD {
    wishes_.insert_or_assign(index, priority);
  }
  /// With which pages of its own are evicted, or would be.
  int8_t priority_of(uint32_t index) noexcept WEIR_HELD {
    const auto wish = wishes_.empty() ? wishes_.end() : wishes_.find(index);
    return wish != wishes_.end() ? wish->second : target(index).region->priority;
  }
  /// "" takes its name away. Throws std::bad_alloc with nothing changed.
  void set_name(uint32_t index, std::string_view name) WEIR_HELD;
  /// "": it has none.
  std::string_view name_of(uint32_t index) const noexcept WEIR_HELD {
    const auto found = names_.empty() ? names_.end() : names_.find(index);
    return found != names_.end() ? std::string_view(found->second) : std::string_view{};
  }
  QuotedName quoted(uint32_t index) const noexcept WEIR_HELD { return QuotedName(name_of(index)); }
  /// By which calls it was made (Stacks); 0: that is not kept.
  uint32_t stack_of(uint32_t index) const noexcept WEIR_HELD {
    const auto found = stacks_.empty() ? stacks_.end() : stacks_.find(index);
    return found != stacks_.end() ? found->second : 0;
  }
  /// nullptr: nothing is known.
  const Users *users_of(uint32_t index) const noexcept WEIR_HELD {
    const auto found = users_.empty() ? users_.end() : users_.find(index);
    return found != users_.end() ? &found->second : nullptr;
  }
  /// Of weir_malloc. Throws std::bad_alloc with nothing changed.
  void set_address(uint32_t index, uint64_t address) WEIR_HELD {
    addresses_.reserve_one();
    addresses_.insert(address, index);
  }
  /// Forgets it; none: no buffer has it.
  uint32_t take_address(uint64_t address) noexcept WEIR_HELD;
  /// Whether it is weir_malloc's, at that address.
  bool allocated_at(uint32_t index, uint64_t address) const noexcept WEIR_HELD {
    return addresses_.find(address) == index;
  }
  size_t addresses() const noexcept WEIR_HELD { return addresses_.size(); }

  // ---- holds ----
  /// nullptr: it is not held, though somebody may be about to.
  const Hold *hold_of(uint32_t index) const noexcept WEIR_HELD {
    const auto found = holds_.empty() ? holds_.end() : holds_.find(index);
    return found != holds_.end() && found->second.count != 0 ? &found->second : nullptr;
  }
  /// Held, or about to be.
  bool held(uint32_t index) const noexcept WEIR_HELD { return holds_.contains(index); }
  /// Whether a hold keeps a lease or call that uses the buffer in the scope from being granted.
  bool hold_forbids(uint32_t index, bool write, ClaimScope scope) const noexcept WEIR_HELD;
  /// Whether a hold of the kind may join those that are there.
  Status check_hold(uint32_t index, HoldKind kind, ClaimScope scope) WEIR_HELD;
  /// A call is about to hold it, so that nothing can fail once the pages are held. Throws std::bad_alloc with nothing changed.
  void begin_hold(uint32_t index) WEIR_HELD { ++holds_.try_emplace(index).first->second.coming; }
  void end_hold(uint32_t index) noexcept WEIR_HELD;
  /// Between the two: it is held once more, the first time in this way.
  void count_hold(uint32_t index) noexcept WEIR_HELD { ++holds_.find(index)->second.count; }
  void count_hold(uint32_t index, HoldKind kind, ClaimScope scope) noexcept WEIR_HELD;
  /// One hold less. True: it was the last.
  bool drop_hold(uint32_t index) noexcept WEIR_HELD;

 private:
  void erase_unheld(uint32_t index) noexcept WEIR_HELD;

  RegionStore &regions_;
  BufferTable table_;
  std::unique_ptr<Spans, MemoryDelete<Spans, false>> spans_;
  std::pmr::unordered_map<uint32_t, Hold> holds_ WEIR_GUARDED;
  std::pmr::unordered_map<uint32_t, uint64_t> tags_ WEIR_GUARDED;
  std::pmr::unordered_map<uint32_t, int8_t> wishes_ WEIR_GUARDED;  ///< tenants' priorities
  std::pmr::unordered_map<uint32_t, Users> users_ WEIR_GUARDED;  ///< of the buffers that have some
  std::pmr::unordered_map<uint32_t, std::pmr::string> names_ WEIR_GUARDED;  ///< the same
  std::pmr::unordered_map<uint32_t, uint32_t> stacks_ WEIR_GUARDED;         ///< the same
  AddressMap addresses_ WEIR_GUARDED;
  uint64_t bytes_ WEIR_GUARDED = 0;
};

}  // namespace weir::page

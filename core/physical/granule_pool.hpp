// SPDX-License-Identifier: Apache-2.0
//
// GranulePool: the physical memory of one device of one pool, under a hard budget.
//
// With VMM it keeps granules of two size classes; without, it carves extents of any size out of segments (segments.hpp).
// It answers "none" when there is no room and never evicts: making room is for the layers above. The budget counts
// what is held from the system, what is idle or on its way there and back included, so it can never be passed.
//
// Two steps, because runtime calls may take hundreds of microseconds: claim() and release() are bookkeeping
// under the pool's lock; materialize(), destroy() and the like call the backend, outside of it, on granules the caller owns.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/budget.hpp"
#include "core/base/memory.hpp"
#include "core/physical/segments.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

namespace weir::physical {

using GranuleId = uint32_t;
inline constexpr GranuleId no_granule = UINT32_MAX;

enum class PageClass : uint8_t { small = 0, large = 1 };

/// Whose bytes a granule still holds. Memory goes from one client to another only zeroed.
inline constexpr uint32_t client_unknown = UINT32_MAX >> 1U;

/// In place of the client, in a record that is no granule.
inline constexpr uint32_t client_unused = client_unknown - 1;

/// Sixteen bytes: there is one for every page of a device, however many there are.
struct Granule {
  /// With VMM the runtime's handle, without the address; 0 before there is one. In an unused record: the unused record before it.
  uint64_t place = 0;
  uint32_t node = no_node;  ///< the next of its list; of a claimed one without VMM, its extent

  uint32_t client() const noexcept { return client_class_ >> 1U; }
  PageClass page_class() const noexcept { return static_cast<PageClass>(client_class_ & 1U); }
  void set_client(uint32_t client) noexcept {
    client_class_ = (client << 1U) | (client_class_ & 1U);
  }
  void set_class(PageClass c) noexcept {
    client_class_ = (client_class_ & ~1U) | static_cast<uint32_t>(c);
  }
  static constexpr uint32_t no_node = UINT32_MAX;

 private:
  uint32_t client_class_ = client_unknown << 1U;
};
static_assert(sizeof(Granule) == 16);

/// A granule or segment that is to go back to the system: destroy() it outside of the lock, then forget() it under the lock.
struct Doomed {
  GranuleId id = no_granule;
  Granule *granule = nullptr;
  Segment *segment = nullptr;  ///< without VMM, instead of a granule
  bool charged = true;         ///< until it is forgotten
};
using DoomedList = std::pmr::vector<Doomed>;

class GranulePool {
 public:
  /// `segment_size`: the size of segments, without VMM; 0: chosen by the budget and what is held.
  GranulePool(const backend::Device &device, uint64_t page_size, uint64_t large_page_size,
              uint64_t budget, uint64_t segment_size, std::pmr::memory_resource *memory);
  ~GranulePool();
  GranulePool(const GranulePool &) = delete;
  GranulePool &operator=(const GranulePool &) = delete;

  bool vmm() const noexcept { return segments_ == nullptr; }
  uint64_t page_size(PageClass c) const noexcept {
    return c == PageClass::large ? large_size_ : page_size_;
  }
  uint64_t budget() const { return vmm() ? budget_.limit() : segments_->limit(); }
  /// Bytes that are charged: held from the system, or about to be.
  uint64_t held() const { return vmm() ? budget_.used() : segments_->charged(); }
  /// Of these, the bytes that are idle: claimed by no page or extent.
  uint64_t idle() const;
  /// Bytes that could be claimed now, were they all of one class (an upper bound for extents).
  uint64_t room() const { return vmm() ? budget_.room() + idle() : segments_->room(); }
  /// Whether some of idle() could go back to the system and leave the reserve: what take_unneeded() has or will have.
  bool returnable(uint64_t reserve) const;
  /// The most ever held from the system.
  uint64_t peak() const noexcept { return system_.peak(); }
  void reset_peak() noexcept { system_.reset_peak(); }
  uint32_t segments() const { return vmm() ? 0 : segments_->count(); }
  /// "" or the first invariant that does not hold.
  std::string validate() const;

  // ---- under the pool's lock ----
  /// A granule of the class (VMM) or an extent of `bytes` (without): no_granule if there is no room. What
  /// *doomed names must be destroy()ed before the claim is materialized (idle granules of the other class).
  /// Throws std::bad_alloc with nothing changed.
  GranuleId claim(PageClass c, uint64_t bytes, DoomedList *doomed);
  /// Without VMM: claims the extent exactly there, or gives no_granule: Segments::claim_at().
  GranuleId claim_at(uint32_t segment, uint64_t offset, uint64_t bytes, uint32_t before);
  /// Without VMM: where each extent lies. A piece's extent is the `node` of its granule.
  void survey(std::pmr::vector<Segments::Piece> *pieces) const { segments_->survey(pieces); }
  uint64_t largest_free() const { return vmm() ? 0 : segments_->largest_free(); }
  /// Without VMM: what of an extent that was claimed may be another client's bytes, before anything is written there.
  Segments::Foreign foreign(const Granule &granule, uint32_t client) const noexcept {
    return segments_->foreign(granule.node, client);
  }
  /// Puts the granule back into the free list; it still holds the bytes of the client that it names.
  void release(GranuleId id) noexcept;
  /// Takes idle granules or empty segments out until `bytes` are covered.
  uint64_t take_idle(uint64_t bytes, DoomedList *doomed);
  /// One more look at what is idle, to be called `looks_a_grace` times a grace period.
  void look_at_idle() noexcept;
  /// As take_idle(), but only what no claim needed for a grace period, and only while `reserve` bytes stay idle. At most
  /// `most` bytes, but one granule or segment at least.
  uint64_t take_unneeded(uint64_t reserve, uint64_t most, DoomedList *doomed);
  /// A granule that was never materialized: its bytes leave the budget.
  void forget(GranuleId id) noexcept;
  /// Drops the record of what has been destroyed.
  void forget(const Doomed &gone) noexcept;
  /// What is held beyond the new budget stays; nothing more is claimed then.
  void set_budget(uint64_t bytes) noexcept;
  /// The runtime refused `bytes` inside the budget: the budget is lowered by so much.
  void lower_budget(uint64_t bytes) noexcept;
  Granule &at(GranuleId id) noexcept { return granules_[id]; }
  const Granule &at(GranuleId id) const noexcept { return granules_[id]; }
  /// visit(id, bytes): with VMM, the granules that are not claimed.
  template <class Visit>
  void for_each_idle(Visit visit) const {
    for (const PageClass c : {PageClass::small, PageClass::large}) {
      const IdleList &list = idle_[static_cast<size_t>(c)];
      GranuleId id = list.head;
      for (size_t i = 0; i < list.size; ++i, id = granules_[id].node) visit(id, page_size(c));
    }
  }
  /// visit(address, bytes): without VMM, the segments that have memory.
  template <class Visit>
  void for_each_segment(Visit visit) const {
    if (!vmm()) segments_->for_each(visit);
  }

  // ---- outside the lock ----
  // By reference, got under it: looking a granule up is not safe while another thread adds some.
  Status materialize(Granule &granule);
  Status destroy(const Doomed &doomed);

 private:
  /// Granules that are not claimed, last in, first out; linked through themselves, so that nothing here allocates.
  struct FreeList {
    GranuleId head = no_granule;
    size_t size = 0;
  };
  /// The fewest there were since the last look, and between earlier looks: so many of them were never needed.
  struct IdleList : FreeList {
    size_t fewest = 0;
    std::array<size_t, looks_a_grace> fewest_before{};
    size_t unneeded() const noexcept {
      return std::min(fewest, *std::min_element(fewest_before.begin(), fewest_before.end()));
    }
  };
  GranuleId pop(FreeList *list) noexcept;
  void push(FreeList *list, GranuleId id) noexcept;
  GranuleId need(IdleList *list) noexcept;
  IdleList &idle_of(PageClass c) noexcept { return idle_[static_cast<size_t>(c)]; }
  std::string validate_unused() const;
  GranuleId new_slot();
  void give_slot(GranuleId id) noexcept;
  void unlink_slot(GranuleId id) noexcept;
  template <class Claim>
  GranuleId claim_extent(Claim claim);
  uint64_t doom(PageClass c, DoomedList *doomed) noexcept;
  template <class Take>
  uint64_t doom_segments(DoomedList *doomed, Take take);
  Status destroy_granule(Granule &granule);

  const backend::Device &device_;
  const uint64_t page_size_, large_size_;
  Budget budget_;
  HeldBytes system_;
  std::pmr::memory_resource *memory_;
  std::pmr::deque<Granule> granules_;  // references stay good while others grow it
  FreeList unused_;                    ///< linked both ways, by records that say `client_unused`
  IdleList idle_[2];
  Owned<Segments> segments_;  ///< without VMM
};

}  // namespace weir::physical

// SPDX-License-Identifier: Apache-2.0
//
// Where everything lies: memory held from the system, and what is in it, tier by tier. For tools: it walks all pages
// under the pool's lock. It reads nothing that a thread may be writing outside of that lock, so without VMM a page that
// is being brought in, whose place may not be known yet, is left out. Changes nothing.

#include "core/pool/inspector.hpp"

#include <algorithm>

namespace weir::pool {
namespace {

/// Whose bytes a part of a region's pages are: a buffer's, or (no buffer) nobody's.
struct Owner {
  uint64_t begin = 0, end = 0;  ///< in the region
  weir_buffer buffer = nullptr;
  uint64_t tag = 0;
  bool virgin = false;
};

uint32_t state_of(const Page &copies, uint32_t bit, bool virgin) {
  if (copies.latest() == 0 || virgin) return WEIR_PIECE_UNWRITTEN;
  if ((copies.latest() & bit) == 0) return WEIR_PIECE_STALE;
  return copies.latest() == bit ? WEIR_PIECE_ONLY : WEIR_PIECE_COPY;
}

/// The segment that an address of the device lies in.
uint64_t segment_of(const PoolDevice &device, uint64_t address) {
  uint64_t found = 0;
  device.memory.granules().for_each_segment([&](uint64_t begin, uint64_t bytes) {
    if (address - begin < bytes) found = begin;
  });
  return found;
}

/// One walk.
class Map {
 public:
  Map(const Inspector::Tables &pool, const Inspector::Visit<weir_piece> &visit)
      : pool_(pool), visit_(visit) {}

  void tell_reserved(uint32_t tier, uint32_t device, uint64_t container, uint64_t bytes) {
    weir_piece piece{};
    piece.tier = tier;
    piece.device = device;
    piece.state = WEIR_PIECE_RESERVED;
    piece.container = container;
    piece.bytes = bytes;
    visit_(piece);
  }

  /// What is not a page's: idle granules, segments, chunks, files.
  void tell_reserved() {
    for (const auto &device : pool_.page.devices) {
      const auto tell = [&](uint64_t container, uint64_t bytes) {
        tell_reserved(WEIR_TIER_DEVICE, device->device.id, container, bytes);
      };
      device->memory.granules().for_each_segment(tell);
      device->memory.granules().for_each_idle(tell);
    }
    if (pool_.page.tiers.is_open())
      pool_.page.tiers.host().for_each_chunk([&](uint32_t chunk, uint64_t bytes) {
        tell_reserved(WEIR_TIER_HOST, WEIR_DEVICE_HOST, chunk, bytes);
      });
    if (pool_.page.cold.storage() != nullptr)
      tell_reserved(WEIR_TIER_STORAGE, WEIR_DEVICE_HOST, 0, pool_.page.cold.storage()->budget());
  }

  void tell_region(const Region &region) WEIR_HELD {
    list_owners(region);
    for (uint32_t page = 0; page < region.shape.pages(); ++page) {
      for (const auto &here : region.residences) {
        PoolDevice &device = *pool_.page.devices[here->place];
        if (!device.vmm() || here->pages[page].granule == physical::no_granule) continue;
        const uint64_t bytes = device.memory.count_granule(region, page);
        if (bytes == 0) continue;  // shared, and told already
        tell_reserved(WEIR_TIER_DEVICE, device.device.id, here->pages[page].granule, bytes);
      }
      const uint64_t from = region.shape.offset(page);
      const uint64_t to = from + region.shape.page_bytes(page);
      for (const Owner &owner : owners_)
        if (owner.begin < to && owner.end > from) tell_owned(region, page, owner);
      if (region.is.slab && region.idle(page))
        tell_owned(region, page, Owner{from, to, nullptr, 0, false});
      tell_below(region, page);
    }
  }

 private:
  void list_owners(const Region &region) WEIR_HELD {
    owners_.clear();
    const auto own = [&](uint32_t index, uint64_t begin, uint64_t end, uint64_t tag) {
      const uint64_t word = pool_.page.buffers.hot(index).word.load(std::memory_order_relaxed);
      owners_.push_back(
          {begin, end, pool_.page.buffers.handle(index), tag, (word & Word::virgin) != 0});
    };
    if (region.is.slab && region.tenants != nullptr) {
      const page::Slab &tenants = *region.tenants;
      for (auto node = tenants.first_tenant(); node != physical::SmallArena::none;
           node = tenants.next_tenant(node)) {
        const uint32_t index = tenants.owner(node);
        own(index, tenants.offset(node), tenants.offset(node) + tenants.size(node),
            pool_.page.buffers.tenant_tag(index));
      }
    } else if (region.owner.buffer != UINT32_MAX) {
      own(region.owner.buffer, 0, region.shape.size, region.tag);
    } else {
      owners_.push_back({0, region.shape.size, nullptr, 0, false});
    }
  }

  /// One owner's part of a page, on devices and in HOST.
  void tell_owned(const Region &region, uint32_t page, const Owner &owner) {
    const Page &copies = region.pages[page];
    const uint64_t from = region.shape.offset(page);
    const uint64_t begin = std::max(owner.begin, from);
    const uint64_t end = std::min(owner.end, from + region.shape.page_bytes(page));
    weir_piece piece{};
    piece.bytes = end - begin;
    piece.buffer_offset = begin - owner.begin;
    piece.buffer = owner.buffer;
    piece.tag = owner.tag;
    const auto tell = [&](uint32_t bit, bool moving) {
      piece.state = state_of(copies, bit, owner.virgin);
      if (moving) piece.state = WEIR_PIECE_MOVING;
      if (region.idle(page)) piece.state = WEIR_PIECE_KEPT;
      visit_(piece);
    };
    for (const auto &here : region.residences) {
      PoolDevice &device = *pool_.page.devices[here->place];
      const DevicePage &state = here->pages[page];
      if (state.granule == physical::no_granule) continue;
      if (!device.vmm() && state.state() == PageState::filling) continue;
      piece.tier = WEIR_TIER_DEVICE;
      piece.device = device.device.id;
      piece.container = state.granule;
      piece.offset = begin - from + region.shape.before(page);
      if (!device.vmm()) {
        const uint64_t address = device.memory.at(state.granule).place;
        piece.container = segment_of(device, address);
        piece.offset += address - piece.container;
      }
      tell(device.bit(), state.state() != PageState::resident);
    }
    if (!copies.host() || copies.host().node == UINT32_MAX) return;
    piece.tier = WEIR_TIER_HOST;
    piece.device = WEIR_DEVICE_HOST;
    piece.container = copies.host().chunk;
    piece.offset = pool_.page.tiers.host().offset(copies.host()) + (begin - from);
    tell(page::host_bit, false);
  }

  /// A page's copies below HOST, of all its owners together.
  void tell_below(const Region &region, uint32_t page) WEIR_HELD {
    const Page &copies = region.pages[page];
    // Without a tier below HOST a page's one record tells of its checksum alone.
    if (!pool_.page.cold.any()) return;
    weir_piece piece{};
    piece.device = WEIR_DEVICE_HOST;
    piece.buffer_offset = region.shape.offset(page);
    if (owners_.size() == 1 && !region.is.slab) {
      piece.buffer = owners_[0].buffer;
      piece.tag = owners_[0].tag;
    }
    for (uint32_t record = copies.lower; record != tier::ColdTiers::none;
         record = pool_.page.cold.next(record),
                  piece.buffer_offset += pool_.page.cold.part_bytes()) {
      for (const uint32_t bit : {page::compressed_bit, page::storage_bit}) {
        const tier::ColdStore *store = pool_.page.cold.store(bit);
        if (store == nullptr) continue;
        const tier::UnitName name = pool_.page.cold.record(record).in(store->place);
        if (!name) continue;
        piece.tier = bit == page::compressed_bit ? WEIR_TIER_COMPRESSED : WEIR_TIER_STORAGE;
        piece.offset = tier::UnitArena::offset(store->slot(name));
        piece.bytes = store->bytes(name);
        piece.state = state_of(copies, bit, false);
        if (region.is.kept) piece.state = WEIR_PIECE_KEPT;
        visit_(piece);
      }
    }
  }

  const Inspector::Tables &pool_;
  const Inspector::Visit<weir_piece> &visit_;
  std::vector<Owner> owners_{};  ///< of the region at hand
};

}  // namespace

void Inspector::for_each_piece(const Visit<weir_piece> &visit) const {
  const Locked lock(pool_.env.sync.lock);
  Map map(pool_, visit);
  map.tell_reserved();
  for (const auto &device : pool_.page.devices) device->memory.begin_count();
  for (const Region &region : pool_.page.regions) map.tell_region(region);
}

}  // namespace weir::pool

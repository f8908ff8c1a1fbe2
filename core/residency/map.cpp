// SPDX-License-Identifier: Apache-2.0
//
// Where everything lies: memory held from the system, and what is in it, tier by tier. For tools: it walks all pages
// under the pool's lock. It reads nothing that a thread may be writing outside of that lock, so without VMM a page that
// is being brought in, whose place may not be known yet, is left out. Changes nothing.

#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {

/// Whose bytes a part of a region's pages are: a buffer's, or (no buffer) nobody's.
struct Owner {
  uint64_t begin = 0, end = 0;  ///< in the region
  weir_buffer buffer = nullptr;
  uint64_t tag = 0;
  bool virgin = false;
};

struct Engine::Mapping {
  explicit Mapping(const std::function<void(const weir_piece &)> &visit_) : visit(visit_) {}

  struct Segment {
    uint64_t address, bytes;
  };
  /// The segment an address of the device lies in.
  uint64_t segment_of(uint8_t place, uint64_t address) const {
    for (const Segment &segment : segments[place])
      if (address - segment.address < segment.bytes) return segment.address;
    return 0;
  }

  const std::function<void(const weir_piece &)> &visit;
  std::array<std::vector<Segment>, vm::max_devices> segments;
  std::vector<Owner> owners;
};

namespace {

uint32_t state_of(const Page &copies, uint32_t bit, bool virgin) {
  if (copies.latest() == 0 || virgin) return WEIR_PIECE_UNWRITTEN;
  if ((copies.latest() & bit) == 0) return WEIR_PIECE_STALE;
  return copies.latest() == bit ? WEIR_PIECE_ONLY : WEIR_PIECE_COPY;
}

weir_piece reserved_piece(uint32_t tier, uint32_t device, uint64_t container, uint64_t bytes) {
  weir_piece piece{};
  piece.tier = tier;
  piece.device = device;
  piece.state = WEIR_PIECE_RESERVED;
  piece.container = container;
  piece.bytes = bytes;
  return piece;
}

}  // namespace

/// What is not a page's: idle granules, segments, chunks, files.
void Engine::map_reserved(Mapping &map) {
  for (const auto &device : devices_) {
    const uint32_t id = device->device.id;
    device->granules->for_each_segment([&](uint64_t address, uint64_t bytes) {
      map.segments[device->place].push_back({address, bytes});
    });
    for (const Mapping::Segment &segment : map.segments[device->place])
      map.visit(reserved_piece(WEIR_TIER_DEVICE, id, segment.address, segment.bytes));
    device->granules->for_each_idle([&](GranuleId granule, uint64_t bytes) {
      map.visit(reserved_piece(WEIR_TIER_DEVICE, id, granule, bytes));
    });
  }
  if (tiers_.is_open())
    tiers_.host().for_each_chunk([&](uint32_t chunk, uint64_t bytes) {
      map.visit(reserved_piece(WEIR_TIER_HOST, WEIR_DEVICE_HOST, chunk, bytes));
    });
  if (cold_.storage() != nullptr)
    map.visit(reserved_piece(WEIR_TIER_STORAGE, WEIR_DEVICE_HOST, 0, cold_.storage()->budget()));
}

void Engine::map_region(Region &region, Mapping &map) {
  map.owners.clear();
  const auto own = [&](uint32_t index, uint64_t begin, uint64_t end, uint64_t tag) {
    const uint64_t word = buffers_.hot(index).word.load(std::memory_order_relaxed);
    map.owners.push_back({begin, end, buffers_.handle(index), tag, (word & Word::virgin) != 0});
  };
  if (region.slab && region.tenants != nullptr) {
    const vm::Slab &tenants = *region.tenants;
    for (auto node = tenants.first_tenant(); node != physical::SmallArena::none;
         node = tenants.next_tenant(node)) {
      const uint32_t index = tenants.owner(node);
      own(index, tenants.offset(node), tenants.offset(node) + tenants.size(node),
          buffers_.tenant_tag(index));
    }
  } else if (region.buffer != UINT32_MAX) {
    own(region.buffer, 0, region.shape.size, region.tag);
  } else {
    map.owners.push_back({0, region.shape.size, nullptr, 0, false});
  }
  for (uint32_t page = 0; page < region.shape.pages(); ++page) {
    for (const auto &here : region.residences) {
      PoolDevice &device = *devices_[here->place];
      if (!device.vmm() || here->pages[page].granule == physical::no_granule) continue;
      const uint64_t bytes = count_granule(region, page, device);
      if (bytes == 0) continue;  // shared, and told already
      map.visit(
          reserved_piece(WEIR_TIER_DEVICE, device.device.id, here->pages[page].granule, bytes));
    }
    const uint64_t from = region.shape.offset(page);
    const uint64_t to = from + region.shape.page_bytes(page);
    for (const Owner &owner : map.owners)
      if (owner.begin < to && owner.end > from) map_owned(region, page, owner, map);
    if (region.slab && region.idle(page))
      map_owned(region, page, Owner{from, to, nullptr, 0, false}, map);
    weir_piece below{};
    below.state = region.kept ? WEIR_PIECE_KEPT : WEIR_PIECE_ONLY;
    below.buffer_offset = from;
    if (map.owners.size() == 1 && !region.slab) {
      below.buffer = map.owners[0].buffer;
      below.tag = map.owners[0].tag;
    }
    map_below(region, page, below, map);
  }
}

/// One owner's part of a page, on devices and in HOST.
void Engine::map_owned(Region &region, uint32_t page, const Owner &owner, Mapping &map) {
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
    map.visit(piece);
  };
  for (const auto &here : region.residences) {
    PoolDevice &device = *devices_[here->place];
    const DevicePage &state = here->pages[page];
    if (state.granule == physical::no_granule) continue;
    if (!device.vmm() && state.state() == PageState::filling) continue;
    piece.tier = WEIR_TIER_DEVICE;
    piece.device = device.device.id;
    piece.container = state.granule;
    piece.offset = begin - from + region.shape.before(page);
    if (!device.vmm()) {
      const uint64_t address = device.granules->at(state.granule).place;
      piece.container = map.segment_of(device.place, address);
      piece.offset += address - piece.container;
    }
    tell(device.bit(), state.state() != PageState::resident);
  }
  if (!copies.host() || copies.host().node == UINT32_MAX) return;
  piece.tier = WEIR_TIER_HOST;
  piece.device = WEIR_DEVICE_HOST;
  piece.container = copies.host().chunk;
  piece.offset = tiers_.host().offset(copies.host()) + (begin - from);
  tell(vm::host_bit, false);
}

/// A page's copies below HOST; `piece` says whose it is.
void Engine::map_below(Region &region, uint32_t page, const weir_piece &piece, Mapping &map) {
  const Page &copies = region.pages[page];
  // Without a tier below HOST a page's one record tells of its checksum alone.
  if (!cold_.any()) return;
  uint64_t at = piece.buffer_offset;
  for (uint32_t record = copies.lower; record != tier::ColdTiers::none;
       record = cold_.next(record), at += cold_.part_bytes()) {
    const tier::PartRecord &part = cold_.record(record);
    weir_piece told = piece;
    told.device = WEIR_DEVICE_HOST;
    told.buffer_offset = at;
    for (const uint32_t bit : {vm::compressed_bit, vm::storage_bit}) {
      const tier::ColdStore *store = cold_.store(bit);
      if (store == nullptr || !part.in(store->place)) continue;
      const tier::UnitName name = part.in(store->place);
      told.tier = bit == vm::compressed_bit ? WEIR_TIER_COMPRESSED : WEIR_TIER_STORAGE;
      told.offset = tier::UnitArena::offset(store->slot(name));
      told.bytes = store->bytes(name);
      if (piece.state != WEIR_PIECE_KEPT) told.state = state_of(copies, bit, false);
      map.visit(told);
    }
  }
}

void Engine::for_each_piece(const std::function<void(const weir_piece &)> &visit) {
  Locked lock(lock_);
  Mapping map(visit);
  map_reserved(map);
  for (const auto &device : devices_) begin_count(*device);
  for (Region &region : regions_) map_region(region, map);
}

}  // namespace weir::residency

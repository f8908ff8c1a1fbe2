// SPDX-License-Identifier: Apache-2.0
//
// See device_memory.hpp.

#include "core/page/device_memory.hpp"

#include "core/page/granule_sharing.hpp"
#include "core/page/line_sharing.hpp"
#include "core/page/region_store.hpp"

namespace weir::page {

DeviceMemory::DeviceMemory(uint8_t place, const backend::Device &device, const Terms &terms,
                           std::pmr::memory_resource *memory)
    : place_(place),
      device_(device),
      terms_(terms),
      granules_(device, terms.page_size, terms.large_page_size, terms.budget, terms.segment_size,
                memory),
      addresses_(device, terms.page_size, terms.addresses, memory),
      mapper_(device) {
  const uint64_t page = terms.page_size, large = terms.large_page_size;
  if (!vmm() || !Sharing::possible(page)) return;
  // By mapping granules at several addresses, or by lying beside each other.
  if (device.has(WEIR_CAP_MULTI_MAP)) {
    sharing_ =
        adopt_as<Sharing>(make_owned<GranuleSharing>(memory, page, large, terms.budget, memory));
  } else {
    sharing_ = adopt_as<Sharing>(
        make_owned<LineSharing>(memory, addresses_, page, large, terms.budget, memory));
  }
}

/// Above a page that saves what rounding to pages would cost, where no others can have the rest of the last one.
bool DeviceMemory::belongs_in_line(uint64_t size) const {
  if (size < page_size()) return true;
  const bool anywhere = sharing_ != nullptr && sharing_->movable() != nullptr;
  if (!vmm() || anywhere || size % page_size() == 0) return false;
  const bool large = large_page_size() > page_size() && size >= large_page_size();
  return size <= line_pages() * page_size() / 4 && !large;
}

Status DeviceMemory::reserve(const Region &region, AddressRange *range) {
  const uint64_t address =
      region.layout.lot_place == place_ ? sharing_->address(region.owner.client, region.lot) : 0;
  if (address != 0) {
    range->address = address - region.shape.lead;
  } else if (vmm()) {
    return addresses_.allocate(region.shape.address_bytes(), region.shape.address_alignment(),
                               range);
  }
  return {};
}

Status DeviceMemory::claim(const Region &region, uint32_t page, const void *maker,
                           physical::DoomedList *doomed, GranuleId *granule, bool *joined) {
  Bundle *bundle = bundle_of(region, page);
  if (bundle != nullptr && bundle->granule != physical::no_granule) {
    if (bundle->maker != nullptr && bundle->maker != maker) return Status(WEIR_NOT_READY);
    ++bundle->users;
    *granule = bundle->granule;
    *joined = true;
    return {};
  }
  const Geometry &shape = region.shape;
  *granule = granules_.claim(shape.page_class(page), shape.granule_bytes(page), doomed);
  if (bundle == nullptr || *granule == physical::no_granule) return {};
  bundle->granule = *granule;
  bundle->users = 1;
  bundle->maker = maker;
  return {};
}

void DeviceMemory::unclaim(const Region &region, uint32_t page, GranuleId granule) noexcept {
  if (!leave(region, page)) return;
  // It may have been taken for wiped, and was not.
  if (region.shape.fragment(page)) granules_.at(granule).set_client(physical::client_unknown);
  if (vmm() && granules_.at(granule).place == 0) {
    granules_.forget(granule);
  } else {
    granules_.release(granule);
  }
}

void DeviceMemory::count_held(const Region &region, uint32_t page, bool more) noexcept {
  const uint64_t bytes = region.shape.granule_bytes(page);
  if (Bundle *bundle = bundle_of(region, page); bundle != nullptr) {
    if (more ? bundle->held++ != 0 : --bundle->held != 0) return;
  }
  held_bytes_ += more ? bytes : uint64_t{0} - bytes;
}

void DeviceMemory::set_borrowed(Region &region, uint32_t page, bool borrowed) noexcept {
  DevicePage &state = region.on(place_)->pages.edit(page);
  if (state.borrowed == borrowed) return;
  state.borrowed = borrowed;
  state.visited = false;
  if (region.held_on(place_) && state.granule != physical::no_granule)
    count_held(region, page, !borrowed);
  const uint64_t bytes = region.shape.granule_bytes(page);
  borrowed_bytes_ += borrowed ? bytes : uint64_t{0} - bytes;
}

std::string DeviceMemory::validate(RegionStore &regions, bool lost) {
  std::string wrong = sharing_ != nullptr ? sharing_->validate() : std::string();
  if (!wrong.empty()) return wrong;
  uint64_t held = 0, occupied = 0, borrowed = 0;
  // Twice: a shared granule is held if any of those who share it is.
  for (const bool all : {false, true}) {
    begin_count();
    for (Region &region : regions) {
      const Residence *here = region.on(place_);
      for (uint32_t p = 0; here != nullptr && p < here->pages.size(); ++p) {
        const DevicePage &page = here->pages[p];
        if (all && page.borrowed) borrowed += region.shape.granule_bytes(p);
        const bool is_held = region.held_on(place_) ? !page.borrowed : region.pins(p);
        if (page.granule != physical::no_granule && (all || is_held))
          (all ? occupied : held) += count_granule(region, p);
      }
    }
  }
  const auto counted = [](uint64_t there, const char *how, uint64_t known) {
    return std::to_string(there) + " bytes are " + how + ", " + std::to_string(known) + " counted";
  };
  if (held != held_bytes_) {
    wrong = counted(held, "held", held_bytes_);
  } else if (borrowed != borrowed_bytes_) {
    wrong = counted(borrowed, "borrowed", borrowed_bytes_);
  } else if (occupied + granules_.idle() > granules_.held()) {
    wrong = "pages and what is idle exceed what is held";
  } else if (granules_.held() > granules_.budget() && !lost) {
    wrong = "more is held than the budget";
  } else {
    wrong = granules_.validate();
  }
  return wrong.empty() ? wrong : "device " + std::to_string(device_.id) + ": " + wrong;
}

}  // namespace weir::page

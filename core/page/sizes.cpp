// SPDX-License-Identifier: Apache-2.0
//
// Sizes of pages, budgets and records.

#include "core/page/sizes.hpp"

#include <algorithm>
#include <bit>

namespace weir::page {
namespace {

/// Pages are places in HOST too, and address ranges are aligned to them.
constexpr uint64_t least_page = tier::HostStore::unit;
constexpr uint64_t largest_page = physical::Arena::max_alignment;

/// With VMM: a power of two from `least`, one itself, up. Says which would do, and fit a budget of `budget`.
Status check_page_size(const char *field, uint64_t size, uint64_t least, uint64_t budget) {
  if (std::has_single_bit(size) && size >= least && size <= largest_page) return {};
  if (least > largest_page)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "%s: a granule of %llu bytes is more than a page can have, %llu", field, llu(least),
                llu(largest_page));
  const uint64_t most = std::bit_floor(std::clamp(budget, least, largest_page));
  const uint64_t below = std::bit_floor(std::clamp(size, least, most));
  const uint64_t above = std::bit_ceil(std::clamp(size, least, most));
  if (below == above)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "%s is %llu: not a power of two from %llu to %llu; the nearest that works is %llu",
                field, llu(size), llu(least), llu(most), llu(below));
  return fail(WEIR_ERROR_INVALID_ARGUMENT,
              "%s is %llu: not a power of two times %llu; the nearest that work are %llu and %llu",
              field, llu(size), llu(least), llu(below), llu(above));
}

/// Of a buffer's records those that do not depend on its pages: table entries, region, its home's addresses. Rounded up.
constexpr uint64_t region_records = 512;
/// A page's number has 32 bits, some of which are others'.
constexpr uint64_t most_pages = uint64_t{1} << 31U;

/// Of fewer pages the rounding costs more than mapping.
constexpr uint64_t enough_pages = 64;

/// The largest page that leaves a fixed budget of HOST room for its staging (Engine::start_cold_tiers).
uint64_t most_for_staging(const EngineConfig &config) noexcept {
  const bool lower = config.below.compressed != 0 || config.below.storage.budget != 0;
  const bool fixed = config.host.budget != 0 && !config.host.follows;
  return lower && fixed ? config.host.budget / 3 : UINT64_MAX;
}

/// Mapping costs CUDA's driver less for 4 MiB than for 2, where it takes as long as copying them (docs/cuda.md). Not where
/// another size that the caller has given would not go with it.
uint64_t usual_page(const EngineConfig &config, uint64_t granule, uint64_t budget) noexcept {
  constexpr uint64_t small = uint64_t{2} << 20U, larger = 2 * small;
  const auto goes = [](uint64_t given) { return given == 0 || given >= larger; };
  return granule == small && budget / larger >= enough_pages &&
                 most_for_staging(config) >= larger && goes(config.memory.large_page_size) &&
                 goes(config.memory.segment_size)
             ? larger
             : granule;
}

/// What the devices offer, or as much of it as every budget has enough of; `page` where that is hardly more.
uint64_t usual_large_page(const EngineConfig &config, uint64_t page, uint64_t offered,
                          uint64_t budget) noexcept {
  constexpr uint64_t least = uint64_t{8} << 20U;
  if (offered > largest_page || !std::has_single_bit(offered)) return page;
  const uint64_t most = std::min(budget / enough_pages, most_for_staging(config));
  const uint64_t fits = std::min(offered, std::bit_floor(most));
  const bool whole = fits == offered;  // of a device that offers little, all of it
  return fits > page && (whole || fits >= least) ? fits : page;
}

}  // namespace

Status Sizes::choose_pages() {
  bool vmm = true, plain = true;
  uint64_t granule = 0;
  uint64_t offered = UINT64_MAX, budget = UINT64_MAX;  // the least of all
  for (const EngineConfig::DeviceBudget &entry : config_.devices) {
    const weir_be_device &told = entry.device->description;
    (entry.device->has(WEIR_CAP_VMM) ? plain : vmm) = false;
    granule =
        std::max(granule, entry.device->has(WEIR_CAP_VMM) ? told.granule : uint64_t{2} << 20U);
    offered = std::min<uint64_t>(offered, told.granule_large);
    budget = std::min(budget, entry.budget);
  }
  if (!vmm && !plain)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "a pool over devices with virtual-memory management and without is not supported");
  const uint64_t usual = vmm ? usual_page(config_, granule, budget) : granule;
  const uint64_t page = config_.memory.page_size != 0 ? config_.memory.page_size : usual;
  if (vmm) WEIR_TRY(check_page_size("page_size", page, std::max(granule, least_page), budget));
  config_.memory.page_size = page;
  for (const EngineConfig::DeviceBudget &entry : config_.devices)
    WEIR_TRY(check_device_budget(*entry.device, entry.budget));
  uint64_t large = config_.memory.large_page_size;
  if (large == 0) {
    large = usual_large_page(config_, page, offered, budget);
  } else if (vmm) {
    WEIR_TRY(check_page_size("large_page_size", large, page, budget));
  } else if (large < page || large % page != 0) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "large_page_size %llu is not a multiple of the page size %llu", llu(large),
                llu(page));
  }
  for (const EngineConfig::DeviceBudget &entry : config_.devices) {
    if (!vmm || entry.budget >= large) continue;
    log_(WEIR_LOG_WARNING,
         "large_page_size %llu is more than the budget of device %u, %llu bytes: all pages have "
         "%llu bytes",
         llu(large), entry.device->id, llu(entry.budget), llu(page));
    large = page;
  }
  if (config_.memory.segment_size != 0 && config_.memory.segment_size < page)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "segment_size %llu is less than a page of %llu",
                llu(config_.memory.segment_size), llu(page));
  config_.memory.large_page_size = large;
  return {};
}

Status Sizes::check_device_budget(const backend::Device &device, uint64_t budget) const {
  const uint64_t page = config_.memory.page_size;
  const bool vmm = device.has(WEIR_CAP_VMM);
  const uint64_t granule = vmm ? device.description.granule : 256;
  if (page % granule != 0 || page < least_page)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "page_size %llu is not a multiple of device %u's granule %llu", llu(page),
                device.id, llu(granule));
  if (!devices_.empty() && devices_.front()->vmm() != vmm)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "device %u has %s virtual-memory management, unlike the pool's others", device.id,
                vmm ? "a" : "no");
  if (budget >= page) return {};
  return fail(WEIR_ERROR_INVALID_ARGUMENT,
              "the budget of device %u, %llu bytes, is less than a page of %llu", device.id,
              llu(budget), llu(page));
}

void Sizes::warn_of_budget(const backend::Device &device, uint64_t budget) const {
  const uint64_t total = device.description.memory_total;
  if (total == 0 || budget <= total || budget == WEIR_UNLIMITED) return;
  log_(WEIR_LOG_WARNING,
       "the budget of device %u, %llu bytes, is more than the memory it has, %llu bytes", device.id,
       llu(budget), llu(total));
}

Status Sizes::check_size(uint64_t size) {
  if (size != 0 && size <= BufferTable::max_size / 2) return {};
  return fail(WEIR_ERROR_INVALID_ARGUMENT, "size is %llu, and a buffer has 1 to %llu bytes",
              llu(size), llu(BufferTable::max_size / 2));
}

Status Sizes::room_for_records(const char *what, uint64_t size, uint64_t pages,
                               uint64_t copies) const {
  if (pages > most_pages)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "%s of %llu bytes has %llu pages, more than %llu",
                what, llu(size), llu(pages), llu(most_pages));
  const uint64_t need = region_records + pages * (sizeof(Page) + copies * sizeof(DevicePage));
  const uint64_t taken = records_.bytes() + buffers_.bytes_of_next();
  if (taken <= config_.record_budget && need <= config_.record_budget - taken) return {};
  return fail(
      WEIR_ERROR_OUT_OF_HOST_MEMORY,
      {.asked = need, .available = config_.record_budget - std::min(taken, config_.record_budget)},
      "%s of %llu bytes needs up to %llu bytes of records, and the pool's records take "
      "%llu of at most "
      "%llu (record_budget)",
      what, llu(size), llu(need), llu(taken), llu(config_.record_budget));
}

Status Sizes::room_for_buffer(const weir_buffer_desc &desc, const ShardWish &wish,
                              bool tenant) const {
  const DeviceMemory &home = devices_[wish.home]->memory;
  if (tenant || !home.vmm()) return room_for_records("a buffer", desc.size, 1, 1);
  // Counted in 64 bits: what is too large has more pages than a shape can count.
  const uint64_t page = home.page_size();
  if (wish.shards == nullptr)
    return room_for_records("a buffer", desc.size,
                            Geometry::most_pages(desc.size, page, home.large_page_size()), 1);
  const uint32_t count = wish.shards->count();
  const uint64_t largest =
      Shards::shape_of(desc.size, page, home.large_page_size(), wish.stripe, count).large_bytes;
  return room_for_records("a sharded buffer", desc.size,
                          Geometry::most_pages(desc.size, page, largest), count);
}

}  // namespace weir::page

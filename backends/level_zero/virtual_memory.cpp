// SPDX-License-Identifier: Apache-2.0
//
// Granules, reservations and mappings over zePhysicalMem* and zeVirtualMem*. What exists is in a table a device, which
// checks; here the driver is called in between.

#include "backends/level_zero/virtual_memory.hpp"

#include "backends/common/undo.hpp"
#include "backends/level_zero/errors.hpp"
#include "backends/level_zero/retry.hpp"

#include <utility>

namespace weir::level_zero {
namespace {

/// Where a reservation may begin if the driver must be told: far from what a program maps.
constexpr uint64_t place_hint = uint64_t{1} << 40U;

void *pointer(uint64_t address) noexcept {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}
abi::PhysicalMemory memory_of(uint64_t native) noexcept {
  return static_cast<abi::PhysicalMemory>(pointer(native));
}

}  // namespace

VirtualMemory::VirtualMemory(const Platform &platform, Usage &usage)
    : platform_(platform), usage_(usage) {
  for (uint32_t i = 0; i < platform.devices().size(); ++i) {
    // Drivers have mapped an object twice, told of success, and faulted at its use. And Intel's takes an offset into an
    // object, tells of success, and maps the object from its beginning and whole, over what lies behind.
    constexpr bool multi_map = false, map_part = false;
    common::MappingTable &table = tables_.emplace_back(ranges_);
    table.configure(i, platform.devices()[i].granule, multi_map, map_part);
    table.share_ranges((platform.capabilities(i) & WEIR_CAP_SHARED_RANGE) != 0);
  }
}

VirtualMemory::~VirtualMemory() {
  const auto unmap = [&](uint64_t address, uint64_t bytes) {
    twice([&] {
      return platform_.api().virtual_unmap(platform_.context(), pointer(address), bytes);
    });
  };
  const auto destroy = [&](uint64_t native) { destroy_memory(native); };
  for (auto &table : tables_) table.clear(unmap, destroy);
  for (const auto &[address, span] : spans_) {
    twice([&, each = span] { return release(each); });
  }
}

abi::Result VirtualMemory::release(const Span &span) const noexcept {
  return platform_.api().virtual_free(platform_.context(), pointer(span.start), span.bytes);
}

void VirtualMemory::destroy_memory(uint64_t native) const noexcept {
  twice([&] { return platform_.api().physical_destroy(platform_.context(), memory_of(native)); });
}

weir_result VirtualMemory::check(uint32_t device) const noexcept {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  if (platform_.devices()[device].granule != 0) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u has no virtual-memory management%s", device,
                platform_.options().vmm ? "" : " (vmm=0)");
}

weir_result VirtualMemory::create(uint32_t device, uint64_t bytes, uint64_t flags,
                                  weir_be_granule *granule) {
  WEIR_BACKEND_TRY(check(device));
  if (flags != 0) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "granule flags %#llx: nothing can be exported",
                  static_cast<Number>(flags));
  }
  WEIR_BACKEND_TRY(tables_[device].check_size(bytes));
  Charge charge(usage_, device, bytes);
  WEIR_BACKEND_TRY(charge.result());
  abi::PhysicalMemDesc description;
  description.size = bytes;
  abi::PhysicalMemory memory = nullptr;
  const abi::Result result = platform_.api().physical_create(
      platform_.context(), platform_.devices()[device].handle, &description, &memory);
  if (result != abi::success) {
    return runtime_refusal(result, "zePhysicalMemCreate, device %u, %llu bytes", device,
                           static_cast<Number>(bytes));
  }
  const uint64_t native = reinterpret_cast<uintptr_t>(memory);
  common::Undo undo([&] { destroy_memory(native); });
  *granule = tables_[device].add_granule(native, bytes, flags);
  undo.dismiss();
  charge.keep();
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::destroy(uint32_t device, weir_be_granule granule) {
  WEIR_BACKEND_TRY(check(device));
  common::MappingTable::Granule found;
  uint64_t native = 0;
  WEIR_BACKEND_TRY(tables_[device].find_granule(granule, &found));
  WEIR_BACKEND_TRY(tables_[device].begin_destroy(granule, &native));
  const abi::Result result =
      platform_.api().physical_destroy(platform_.context(), memory_of(native));
  tables_[device].end_destroy(granule, result == abi::success);
  if (result != abi::success) {
    return runtime_refusal(result, "zePhysicalMemDestroy, device %u, granule %#llx", device,
                           static_cast<Number>(granule));
  }
  usage_.give_back(device, found.bytes);
  return WEIR_SUCCESS;
}

// Level Zero has no alignment to ask for. Most reservations come out aligned; the others get room to be.
abi::Result VirtualMemory::reserve_aligned(uint64_t bytes, uint64_t alignment,
                                           Span *span) const noexcept {
  const auto &reserve = platform_.api().virtual_reserve;
  void *start = nullptr;
  for (const uint64_t total : {bytes, bytes + alignment}) {
    abi::Result result = reserve(platform_.context(), nullptr, total, &start);
    // With ZE_ENABLE_PARAMETER_VALIDATION loaders up to 1.8 refuse to leave the choice to the driver. A place
    // that is taken is only a hint.
    if (result == abi::error_invalid_null_pointer) {
      result = reserve(platform_.context(), pointer(place_hint), total, &start);
    }
    if (result != abi::success) return result;
    *span = {reinterpret_cast<uintptr_t>(start), total};
    if (span->start % alignment == 0 || total != bytes) return abi::success;
    twice([&] { return release(*span); });
  }
  return abi::success;
}

weir_result VirtualMemory::reserve(uint32_t device, uint64_t bytes, uint64_t alignment,
                                   uint64_t *address) {
  WEIR_BACKEND_TRY(check(device));
  WEIR_BACKEND_TRY(tables_[device].check_range(bytes, alignment));
  if (bytes > UINT64_MAX - alignment) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "bytes=%llu with alignment=%#llx",
                  static_cast<Number>(bytes), static_cast<Number>(alignment));
  }
  Spans record;  // allocated first, so that only the table can fail after the driver has agreed
  Span &span = record[0];
  const abi::Result result = reserve_aligned(bytes, alignment, &span);
  if (result != abi::success) {
    return runtime_refusal(result, "zeVirtualMemReserve, %llu bytes", static_cast<Number>(bytes));
  }
  const uint64_t given = (span.start + alignment - 1) / alignment * alignment;
  common::Undo undo([&, made = span] { twice([&] { return release(made); }); });
  tables_[device].add_range(given, bytes);
  undo.dismiss();
  auto node = record.extract(record.begin());
  node.key() = given;
  const std::lock_guard lock(mutex_);
  spans_.insert(std::move(node));
  *address = given;
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::free(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check(device));
  common::MappingTable::TakenRange taken;
  WEIR_BACKEND_TRY(tables_[device].begin_free(address, bytes, &taken));
  Spans::node_type span;
  {
    const std::lock_guard lock(mutex_);
    span = spans_.extract(address);
  }
  const abi::Result result = release(span.mapped());
  if (result == abi::success) return WEIR_SUCCESS;
  {
    const std::lock_guard lock(mutex_);
    spans_.insert(std::move(span));
  }
  const weir_result refusal =
      runtime_refusal(result, "zeVirtualMemFree of %llu bytes at %#llx", static_cast<Number>(bytes),
                      static_cast<Number>(address));
  return tables_[device].end_refused(std::move(taken), refusal);
}

weir_result VirtualMemory::check_peers(uint32_t device, const uint32_t *peers,
                                       uint32_t count) const noexcept {
  if (count != 0 && peers == nullptr) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "peers is NULL with peer_count=%u", count);
  }
  for (uint32_t i = 0; i < count; ++i) {
    WEIR_BACKEND_TRY(platform_.check_device(peers[i]));
    // The specification has no switch for access by peers: within a context it follows from what the hardware can.
    if (!platform_.reaches(peers[i], device)) {
      return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u cannot reach memory of device %u%s",
                    peers[i], device, platform_.options().peer ? "" : " (peer=0)");
    }
  }
  return WEIR_SUCCESS;
}

// A granule is mapped whole, so that there is no offset.
abi::Result VirtualMemory::map_native(uint64_t address, uint64_t bytes,
                                      uint64_t native) const noexcept {
  return platform_.api().virtual_map(platform_.context(), pointer(address), bytes,
                                     memory_of(native), 0, abi::memory_access_readwrite);
}

abi::Result VirtualMemory::unmap_native(uint64_t address, uint64_t bytes) const noexcept {
  return platform_.api().virtual_unmap(platform_.context(), pointer(address), bytes);
}

weir_result VirtualMemory::map(uint32_t device, uint64_t address, uint64_t bytes,
                               weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                               uint32_t peer_count) {
  const weir_be_piece piece{granule, offset, bytes};
  return map_run(device, address, &piece, 1, peers, peer_count);
}

weir_result VirtualMemory::map_run(uint32_t device, uint64_t address, const weir_be_piece *pieces,
                                   uint32_t count, const uint32_t *peers, uint32_t peer_count) {
  WEIR_BACKEND_TRY(check(device));
  WEIR_BACKEND_TRY(check_peers(device, peers, peer_count));
  common::MappingTable &table = tables_[device];
  std::vector<uint64_t> natives;
  WEIR_BACKEND_TRY(table.begin_map_run(address, pieces, count, &natives));
  abi::Result result = abi::success;
  uint64_t at = address;
  uint32_t mapped = 0;
  for (; mapped < count; ++mapped) {
    result = map_native(at, pieces[mapped].bytes, natives[mapped]);
    if (result != abi::success) break;
    at += pieces[mapped].bytes;
  }
  const uint64_t refused_at = at;
  const uint64_t refused_bytes = mapped < count ? pieces[mapped].bytes : 0;
  while (result != abi::success && mapped-- > 0) {
    at -= pieces[mapped].bytes;
    twice([&] { return unmap_native(at, pieces[mapped].bytes); });
  }
  table.end_map_run(address, pieces, count, result == abi::success);
  if (result == abi::success) return WEIR_SUCCESS;
  return runtime_refusal(result, "zeVirtualMemMap of %llu bytes at %#llx",
                         static_cast<Number>(refused_bytes), static_cast<Number>(refused_at));
}

weir_result VirtualMemory::unmap(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check(device));
  WEIR_BACKEND_TRY(tables_[device].begin_unmap(address, bytes));
  const abi::Result result = unmap_native(address, bytes);
  if (result == abi::success) return tables_[device].end_unmap(address, WEIR_SUCCESS);
  const weir_result refusal =
      runtime_refusal(result, "zeVirtualMemUnmap of %llu bytes at %#llx",
                      static_cast<Number>(bytes), static_cast<Number>(address));
  return tables_[device].end_unmap(address, refusal);
}

weir_result VirtualMemory::unmap_run(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check(device));
  common::MappingTable &table = tables_[device];
  std::vector<common::MappedPiece> pieces;
  WEIR_BACKEND_TRY(table.begin_unmap_run(address, bytes, &pieces));
  size_t removed = 0;
  abi::Result result = abi::success;
  for (; removed < pieces.size(); ++removed) {
    result = unmap_native(pieces[removed].address, pieces[removed].bytes);
    if (result != abi::success) break;
  }
  if (result == abi::success) return table.end_unmap_run(pieces, WEIR_SUCCESS);
  const weir_result refusal = runtime_refusal(result, "zeVirtualMemUnmap of %llu bytes at %#llx",
                                              static_cast<Number>(pieces[removed].bytes),
                                              static_cast<Number>(pieces[removed].address));
  // All or none: what is gone already is mapped again. If that fails too, it is not known what is mapped there, and the run is
  // given up as on a lost device.
  if (refusal != WEIR_ERROR_DEVICE_LOST && !put_back(device, pieces.data(), removed)) {
    (void)table.end_unmap_run(pieces, WEIR_ERROR_DEVICE_LOST);
    return WEIR_ERROR_DEVICE_LOST;
  }
  return table.end_unmap_run(pieces, refusal);
}

bool VirtualMemory::put_back(uint32_t device, const common::MappedPiece *pieces,
                             size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    common::MappingTable::Granule granule;
    if (tables_[device].find_granule(pieces[i].granule, &granule) != WEIR_SUCCESS) return false;
    if (map_native(pieces[i].address, pieces[i].bytes, granule.native) != abi::success)
      return false;
  }
  return true;
}

weir_result VirtualMemory::add_access(uint32_t device, uint64_t address, uint64_t bytes,
                                      const uint32_t *peers, uint32_t peer_count) {
  WEIR_BACKEND_TRY(check(device));
  if ((platform_.capabilities(device) & WEIR_CAP_ACCESS_LATER) == 0) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "no device reaches memory of device %u", device);
  }
  if (peer_count == 0) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "peer_count=0");
  WEIR_BACKEND_TRY(check_peers(device, peers, peer_count));
  std::vector<common::MappedPiece> pieces;
  return tables_[device].check_run(address, bytes, &pieces);
}

bool VirtualMemory::contains(uint64_t address, uint64_t bytes, uint32_t *device) const noexcept {
  return ranges_.maps(address, bytes, device);
}

}  // namespace weir::level_zero

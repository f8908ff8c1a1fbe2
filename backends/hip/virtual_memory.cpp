// SPDX-License-Identifier: Apache-2.0
//
// Each entry asks the table, calls the runtime under the process's lock, and tells the table the outcome.

#include "backends/hip/virtual_memory.hpp"

#include "backends/common/undo.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

namespace weir::hip {
namespace {

using Number = unsigned long long;

/// Runtimes race with themselves where threads create, import, map and give access at once, whichever devices and
/// whichever of our states they do it for.
std::mutex &runtime_lock() noexcept {
  static std::mutex lock;
  return lock;
}

/// Since when hipMemImportFromShareableHandle takes a descriptor by its value.
constexpr int descriptors_by_value_since = 70'100'000;

/// How long to wait before each try to give access to a new mapping.
constexpr std::array<uint64_t, 4> access_pauses_us{0, 50, 500, 2000};

void *pointer(uint64_t address) noexcept {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

uint64_t number(const void *memory) noexcept { return reinterpret_cast<uintptr_t>(memory); }

abi::Memory memory_of(uint64_t native) noexcept {
  return reinterpret_cast<abi::Memory>(pointer(native));
}

/// The device is short of memory only where physical memory is asked for; the core lowers its budget for that.
weir_result not_for_budget(weir_result result) noexcept {
  return result == WEIR_ERROR_DEVICE_OOM ? WEIR_ERROR_BACKEND : result;
}

void sleep_us(uint64_t microseconds) noexcept {
  if (microseconds == 0) return;
  const timespec time{static_cast<time_t>(microseconds / 1'000'000),
                      static_cast<long>(microseconds % 1'000'000 * 1000)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

}  // namespace

VirtualMemory::VirtualMemory(const Runtime &runtime, const Options &options, const Devices &devices)
    : runtime_(runtime), options_(options), devices_(devices) {
  for (uint32_t device = 0; device < devices.count(); ++device) {
    tables_.emplace_back(ranges_).configure(device, devices.granule(device), options.multi_map,
                                            false);
  }
}

void VirtualMemory::share_ranges() noexcept {
  for (uint32_t device = 0; device < devices_.count(); ++device)
    tables_[device].share_ranges(devices_.can(device, WEIR_CAP_SHARED_RANGE));
}

// ---- granules

weir_result VirtualMemory::create(uint32_t device, uint64_t bytes, uint64_t flags,
                                  weir_be_granule *granule) {
  WEIR_BACKEND_TRY(devices_.check_vmm(device));
  const uint64_t known = devices_.can(device, WEIR_CAP_EXPORT_FD) ? WEIR_BE_GRANULE_EXPORT_FD : 0;
  if ((flags & ~known) != 0) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "granule flags %#llx, of which %#llx are known",
                  static_cast<Number>(flags), static_cast<Number>(known));
  }
  common::MappingTable &table = tables_[device];
  WEIR_BACKEND_TRY(table.check_size(bytes));
  const abi::AllocationProperties properties = granule_properties(device, flags != 0);
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  const std::lock_guard one(runtime_lock());
  abi::Memory memory = nullptr;
  WEIR_HIP_TRY(runtime_.call().hipMemCreate(&memory, bytes, &properties, 0), "hipMemCreate");
  common::Undo undo([&] { end_quietly([&] { return runtime_.call().hipMemRelease(memory); }); });
  *granule = table.add_granule(number(memory), bytes, flags);
  undo.dismiss();
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::destroy(uint32_t device, weir_be_granule granule) {
  WEIR_BACKEND_TRY(devices_.check_vmm(device));
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  common::MappingTable &table = tables_[device];
  uint64_t native = 0;
  WEIR_BACKEND_TRY(table.begin_destroy(granule, &native));
  const std::lock_guard one(runtime_lock());
  const weir_result result =
      checked(runtime_.call().hipMemRelease(memory_of(native)), "hipMemRelease");
  table.end_destroy(granule, result == WEIR_SUCCESS);
  return result;
}

weir_result VirtualMemory::check_exports(uint32_t device) const noexcept {
  WEIR_BACKEND_TRY(devices_.check_vmm(device));
  if (devices_.can(device, WEIR_CAP_EXPORT_FD)) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "export is off on device %u", device);
}

weir_result VirtualMemory::export_fd(uint32_t device, weir_be_granule granule, int32_t *fd) {
  WEIR_BACKEND_TRY(check_exports(device));
  common::MappingTable::Granule found;
  WEIR_BACKEND_TRY(tables_[device].find_granule(granule, &found));
  if ((found.flags & WEIR_BE_GRANULE_EXPORT_FD) == 0) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "granule %#llx was not made to be exported as a descriptor",
                  static_cast<Number>(granule));
  }
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  const std::lock_guard one(runtime_lock());
  int made = -1;
  WEIR_HIP_TRY(runtime_.call().hipMemExportToShareableHandle(&made, memory_of(found.native),
                                                             abi::handle_posix_fd, 0),
               "hipMemExportToShareableHandle");
  (void)fcntl(made, F_SETFD, FD_CLOEXEC);
  *fd = made;
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::import_fd(uint32_t device, int32_t fd, uint64_t bytes,
                                     weir_be_granule *granule) {
  WEIR_BACKEND_TRY(check_exports(device));
  common::MappingTable &table = tables_[device];
  WEIR_BACKEND_TRY(table.check_size(bytes));
  struct stat info {};
  if (fd < 0 || fstat(fd, &info) != 0) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "fd %d is no open descriptor", fd);
  }
  if (info.st_size > 0 && static_cast<uint64_t>(info.st_size) < bytes) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "fd %d has %lld bytes, not %llu", fd,
                  static_cast<long long>(info.st_size), static_cast<Number>(bytes));
  }
  // The runtime takes the descriptor as a pointer's value, and 0 for none; releases before 7.1 follow the pointer.
  int passed = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (passed < 0) return system_failure(errno, "a copy of fd %d", fd);
  const common::Undo closing([&] { close(passed); });
  void *const handle = runtime_.version() >= descriptors_by_value_since
                           ? pointer(static_cast<uint64_t>(passed))
                           : &passed;
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  const std::lock_guard one(runtime_lock());
  abi::Memory memory = nullptr;
  WEIR_BACKEND_TRY(checked_argument(
      runtime_.call().hipMemImportFromShareableHandle(&memory, handle, abi::handle_posix_fd),
      "hipMemImportFromShareableHandle"));
  common::Undo undo([&] { end_quietly([&] { return runtime_.call().hipMemRelease(memory); }); });
  *granule = table.add_granule(number(memory), bytes, 0);
  undo.dismiss();
  return WEIR_SUCCESS;
}

// ---- reservations

weir_result VirtualMemory::reserve_native(uint64_t bytes, uint64_t alignment, uint64_t *address,
                                          Padded *whole) {
  const Functions &call = runtime_.call();
  void *found = nullptr;
  WEIR_BACKEND_TRY(not_for_budget(checked(
      call.hipMemAddressReserve(&found, bytes, alignment, nullptr, 0), "hipMemAddressReserve")));
  *address = number(found);
  if (*address % alignment == 0) return WEIR_SUCCESS;
  // Not every release keeps to the alignment. A longer range has an aligned one inside.
  if (const abi::Error error = call.hipMemAddressFree(found, bytes); error != abi::success) {
    call.hipMemAddressFree(found, bytes);
    return checked(error, "hipMemAddressFree");
  }
  if (bytes > UINT64_MAX - alignment) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "%llu bytes at a multiple of %#llx are more than there can be",
                  static_cast<Number>(bytes), static_cast<Number>(alignment));
  }
  WEIR_BACKEND_TRY(not_for_budget(
      checked(call.hipMemAddressReserve(&found, bytes + alignment, alignment, nullptr, 0),
              "hipMemAddressReserve")));
  *whole = Padded{number(found), bytes + alignment};
  *address = (whole->base + alignment - 1) / alignment * alignment;
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::free_native(uint64_t address, uint64_t bytes) noexcept {
  const auto padded = padded_.find(address);
  const Padded whole = padded != padded_.end() ? padded->second : Padded{address, bytes};
  WEIR_HIP_TRY(runtime_.call().hipMemAddressFree(pointer(whole.base), whole.bytes),
               "hipMemAddressFree");
  if (padded != padded_.end()) padded_.erase(padded);
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::reserve(uint32_t device, uint64_t bytes, uint64_t alignment,
                                   uint64_t *address) {
  WEIR_BACKEND_TRY(devices_.check_vmm(device));
  common::MappingTable &table = tables_[device];
  WEIR_BACKEND_TRY(table.check_range(bytes, alignment));
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  const std::lock_guard one(runtime_lock());
  uint64_t found = 0;
  Padded whole;
  WEIR_BACKEND_TRY(reserve_native(bytes, alignment, &found, &whole));
  if (whole.bytes == 0) whole = Padded{found, bytes};
  common::Undo undo([&] {
    end_quietly(
        [&] { return runtime_.call().hipMemAddressFree(pointer(whole.base), whole.bytes); });
  });
  const bool longer = whole.bytes != bytes;
  if (longer) padded_.insert_or_assign(found, whole);
  common::Undo forget([&] { padded_.erase(found); });
  table.add_range(found, bytes);
  forget.dismiss();
  undo.dismiss();
  *address = found;
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::free(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(devices_.check_vmm(device));
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  common::MappingTable &table = tables_[device];
  common::MappingTable::TakenRange taken;
  WEIR_BACKEND_TRY(table.begin_free(address, bytes, &taken));
  const std::lock_guard one(runtime_lock());
  const weir_result result = free_native(address, bytes);
  if (result == WEIR_SUCCESS) return WEIR_SUCCESS;
  return table.end_refused(std::move(taken), result);
}

// ---- mappings

weir_result VirtualMemory::describe_access(uint32_t device, const uint32_t *peers,
                                           uint32_t peer_count, Access *access) const {
  if (peer_count != 0 && peers == nullptr) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "peers is NULL and peer_count %u", peer_count);
  }
  for (uint32_t i = 0; i < peer_count; ++i) {
    const uint32_t peer = peers[i];
    WEIR_BACKEND_TRY(devices_.check(peer));
    if (peer == device) continue;
    if (!devices_.reaches(peer, device)) {
      return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u can't reach the memory of device %u", peer,
                    device);
    }
    const bool named =
        std::any_of(access->begin(), access->end(), [&](const abi::AccessDescription &each) {
          return each.location.id == static_cast<int>(peer);
        });
    if (!named)
      access->push_back({{abi::location_device, static_cast<int>(peer)}, abi::access_read_write});
  }
  access->push_back({{abi::location_device, static_cast<int>(device)}, abi::access_read_write});
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::map_native(uint64_t address, uint64_t bytes, abi::Memory memory,
                                      const Access &access) noexcept {
  const Functions &call = runtime_.call();
  WEIR_BACKEND_TRY(
      not_for_budget(checked(call.hipMemMap(pointer(address), bytes, 0, memory, 0), "hipMemMap")));
  // On some devices the mapping is reported to be known only a little after hipMemMap: access is refused meanwhile.
  abi::Error error = abi::success;
  for (uint64_t pause_us : access_pauses_us) {
    sleep_us(pause_us);
    error = call.hipMemSetAccess(pointer(address), bytes, access.data(), access.size());
    if (error != abi::invalid_value) break;
  }
  const weir_result result = not_for_budget(checked(error, "hipMemSetAccess"));
  if (result != WEIR_SUCCESS) {
    end_quietly([&] { return call.hipMemUnmap(pointer(address), bytes); });
  }
  return result;
}

/// The devices that may use a mapping, a bit each; where there is no bit for each there are no runs (Devices::describe).
uint64_t VirtualMemory::mask_of(const Access &access) noexcept {
  uint64_t mask = 0;
  for (const abi::AccessDescription &each : access) {
    if (each.location.id < most_in_runs)
      mask |= uint64_t{1} << static_cast<unsigned>(each.location.id);
  }
  return mask;
}

weir_result VirtualMemory::map(uint32_t device, uint64_t address, uint64_t bytes,
                               weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                               uint32_t peer_count) {
  const weir_be_piece piece{granule, offset, bytes};
  return map_pieces(device, address, &piece, 1, peers, peer_count);
}

weir_result VirtualMemory::map_run(uint32_t device, uint64_t address, const weir_be_piece *pieces,
                                   uint32_t count, const uint32_t *peers, uint32_t peer_count) {
  WEIR_BACKEND_TRY(check_runs(device));
  return map_pieces(device, address, pieces, count, peers, peer_count);
}

weir_result VirtualMemory::map_pieces(uint32_t device, uint64_t address,
                                      const weir_be_piece *pieces, uint32_t count,
                                      const uint32_t *peers, uint32_t peer_count) {
  WEIR_BACKEND_TRY(devices_.check_vmm(device));
  Access access;
  WEIR_BACKEND_TRY(describe_access(device, peers, peer_count, &access));
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  common::MappingTable &table = tables_[device];
  std::vector<uint64_t> natives;
  WEIR_BACKEND_TRY(table.begin_map_run(address, pieces, count, &natives, mask_of(access)));
  weir_result result = WEIR_SUCCESS;
  {
    const std::lock_guard one(runtime_lock());
    uint64_t at = address;
    uint32_t mapped = 0;
    for (; mapped < count; ++mapped) {
      result = map_native(at, pieces[mapped].bytes, memory_of(natives[mapped]), access);
      if (result != WEIR_SUCCESS) break;
      at += pieces[mapped].bytes;
    }
    while (result != WEIR_SUCCESS && mapped-- > 0) {
      at -= pieces[mapped].bytes;
      end_quietly([&] { return runtime_.call().hipMemUnmap(pointer(at), pieces[mapped].bytes); });
    }
  }
  table.end_map_run(address, pieces, count, result == WEIR_SUCCESS);
  if (result == WEIR_SUCCESS) sleep_us(options_.map_settle_us);
  return result;
}

weir_result VirtualMemory::unmap_native(uint64_t address, uint64_t bytes) noexcept {
  return checked(runtime_.call().hipMemUnmap(pointer(address), bytes), "hipMemUnmap");
}

weir_result VirtualMemory::unmap(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(devices_.check_vmm(device));
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  common::MappingTable &table = tables_[device];
  WEIR_BACKEND_TRY(table.begin_unmap(address, bytes));
  const std::lock_guard one(runtime_lock());
  return table.end_unmap(address, unmap_native(address, bytes));
}

weir_result VirtualMemory::check_runs(uint32_t device) const noexcept {
  WEIR_BACKEND_TRY(devices_.check_vmm(device));
  if (devices_.can(device, WEIR_CAP_MAP_RUN)) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u maps no runs (map_run=0)", device);
}

weir_result VirtualMemory::unmap_run(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check_runs(device));
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  common::MappingTable &table = tables_[device];
  std::vector<common::MappedPiece> pieces;
  Access access;  // room for all, as nothing may fail once the first is unmapped
  access.reserve(most_in_runs);
  WEIR_BACKEND_TRY(table.begin_unmap_run(address, bytes, &pieces));
  const std::lock_guard one(runtime_lock());
  weir_result result = WEIR_SUCCESS;
  size_t removed = 0;
  for (; removed < pieces.size(); ++removed) {
    result = unmap_native(pieces[removed].address, pieces[removed].bytes);
    if (result != WEIR_SUCCESS) break;
  }
  // All or none: what is gone already is mapped again. If that fails too, it is not known what is mapped there, and the run is
  // given up as on a lost device.
  if (result != WEIR_SUCCESS && result != WEIR_ERROR_DEVICE_LOST &&
      put_back(device, pieces.data(), removed, &access) != WEIR_SUCCESS) {
    (void)table.end_unmap_run(pieces, WEIR_ERROR_DEVICE_LOST);
    return WEIR_ERROR_DEVICE_LOST;
  }
  return table.end_unmap_run(pieces, result);
}

weir_result VirtualMemory::put_back(uint32_t device, const common::MappedPiece *pieces,
                                    size_t count, Access *access) {
  for (size_t i = 0; i < count; ++i) {
    common::MappingTable::Granule granule;
    WEIR_BACKEND_TRY(tables_[device].find_granule(pieces[i].granule, &granule));
    access->clear();
    for (int each = 0; each < most_in_runs; ++each) {
      const bool may = (pieces[i].access >> static_cast<unsigned>(each) & 1U) != 0;
      if (!may || each == static_cast<int>(device)) continue;
      access->push_back({{abi::location_device, each}, abi::access_read_write});
    }
    // The owner comes last.
    access->push_back({{abi::location_device, static_cast<int>(device)}, abi::access_read_write});
    WEIR_BACKEND_TRY(
        map_native(pieces[i].address, pieces[i].bytes, memory_of(granule.native), *access));
  }
  return WEIR_SUCCESS;
}

void VirtualMemory::clear() noexcept {
  const std::lock_guard one(runtime_lock());
  const Functions &call = runtime_.call();
  for (uint32_t device = 0; device < devices_.count(); ++device) {
    const OnDevice current(runtime_, device);
    tables_[device].clear(
        [&](uint64_t address, uint64_t bytes) {
          end_quietly([&] { return call.hipMemUnmap(pointer(address), bytes); });
        },
        [&](uint64_t native) {
          end_quietly([&] { return call.hipMemRelease(memory_of(native)); });
        });
  }
  for (uint32_t device = 0; device < devices_.count(); ++device) {
    const OnDevice current(runtime_, device);
    tables_[device].clear_ranges([&](uint64_t address, uint64_t bytes) {
      if (free_native(address, bytes) != WEIR_SUCCESS) (void)free_native(address, bytes);
    });
  }
}

}  // namespace weir::hip

// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory as AMD's runtime has it, with what is documented or reported of it made strict:
//  - hipMemMap takes a whole allocation, from offset 0 on, and waits for the device's blocking streams;
//  - hipMemSetAccess is called once for a mapping, over exactly its range, and the owning device comes last;
//  - hipMemUnmap takes exactly one mapping.
// Read from the environment at every call:
//   WEIR_HIP_LOOKALIKE_GRANULARITY   bytes that hipMemGetAllocationGranularity tells, whatever the driver says
//   WEIR_HIP_LOOKALIKE_MAP_WAITS     0: mapping does not wait for streams
//   WEIR_HIP_LOOKALIKE_UNMAP_WAITS   1: as from 7.14 on unmapping waits for all streams of all devices with access, and mapping for
//                                    none; without it the runtime's version says which
//   WEIR_HIP_LOOKALIKE_ALIGNS        0: reservations do not keep to the alignment that was asked for
//   WEIR_HIP_LOOKALIKE_KEEPS         1: released memory comes back only when the addresses are freed
//   WEIR_HIP_LOOKALIKE_FIRST_ONLY    1: access is given to a mapping at the beginning of its reservation only
//   WEIR_HIP_LOOKALIKE_ONE_SIZE      1: access is given to a mapping only if some of the reservation's, from its first on, have
//                                    that size together, as in ROCm 7.0 to 7.2

#include "tests/drivers/hip/hip.hpp"
#include "tests/drivers/hip/ranges.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>

namespace {

namespace abi = weir::hip::abi;
namespace cu = weir::cuda::abi;
using namespace weir::hip_over_cuda;

constexpr size_t map_granule = 4096;
constexpr size_t spare = size_t{2} << 20U;

uintptr_t number(const void *address) { return reinterpret_cast<uintptr_t>(address); }

/// AMD's runtime maps on the null stream: whatever runs in the device's blocking streams comes first.
abi::Error wait_for_streams() {
  if (!flag("WEIR_HIP_LOOKALIKE_MAP_WAITS", true)) return abi::success;
  return call(cuda().cuStreamSynchronize, cu::Stream{nullptr});
}

/// From 7.14 on it is the unmap that waits, for every stream of everybody who may use the mapping.
bool unmap_waits() {
  const int version = std::atoi(setting("WEIR_HIP_LOOKALIKE_VERSION", "60300000"));
  return flag("WEIR_HIP_LOOKALIKE_UNMAP_WAITS", version >= 71'400'000);
}

abi::Error wait_for_users(const std::vector<int> &users) {
  for (const int user : users) {
    const InContext context(user);
    if (context.error() != abi::success) return context.error();
    const abi::Error error = call(cuda().cuCtxSynchronize);
    if (error != abi::success) return error;
  }
  return abi::success;
}

/// Drops one reference; the last one frees, into `kept` where the runtime is one that frees nothing.
abi::Error drop(Ranges &all, Allocation *allocation, uintptr_t reservation) {
  if (allocation->references > 1) {
    --allocation->references;
    return abi::success;
  }
  if (reservation != 0 && flag("WEIR_HIP_LOOKALIKE_KEEPS", false)) {
    all.kept.emplace(reservation, allocation->granule);
  } else {
    const abi::Error error = call(cuda().cuMemRelease, allocation->granule);
    if (error != abi::success) return error;
  }
  all.allocations.erase(allocation);
  return abi::success;
}

cu::AllocationProperties properties_of(const abi::AllocationProperties &given) {
  cu::AllocationProperties out{};
  out.type = given.type;
  out.handle_types = given.handle_type;
  out.location = {given.location.type, given.location.id};
  return out;
}

bool usable(const abi::AllocationProperties *properties) {
  return properties != nullptr && properties->type == abi::allocation_pinned &&
         properties->location.type == abi::location_device;
}

}  // namespace

namespace weir::hip_over_cuda {

Ranges &ranges() {
  static Ranges one;
  return one;
}

uintptr_t Ranges::reservation(uintptr_t address, size_t bytes) const {
  const auto after = reservations.upper_bound(address);
  if (after == reservations.begin()) return 0;
  const auto &[first, range] = *std::prev(after);
  const bool inside = address - first < range.bytes && bytes <= range.bytes - (address - first);
  return inside ? first : 0;
}

bool Ranges::sums_up(uintptr_t address, size_t bytes) const {
  const uintptr_t first = reservation(address, bytes);
  size_t sum = 0;
  for (auto each = mappings.lower_bound(first); each != mappings.end() && sum < bytes; ++each) {
    sum += each->second.bytes;
  }
  return sum == bytes;
}

bool Ranges::copyable(uintptr_t address, size_t bytes) const {
  const auto next = reservations.lower_bound(address);
  if (next != reservations.end() && next->first - address < bytes && next->first != address)
    return false;
  if (reservation(address, 1) == 0) return true;
  auto after = mappings.upper_bound(address);
  if (after == mappings.begin()) return false;
  const auto &[base, mapping] = *std::prev(after);
  return mapping.accessible && address - base < mapping.bytes &&
         bytes <= mapping.bytes - (address - base);
}

}  // namespace weir::hip_over_cuda

abi::Error hipMemGetAllocationGranularity(size_t *bytes,
                                          const abi::AllocationProperties *properties,
                                          abi::Granularity which) {
  if (bytes == nullptr || !usable(properties)) return abi::invalid_value;
  const InContext context(properties->location.id);
  if (context.error() != abi::success) return context.error();
  const cu::AllocationProperties translated = properties_of(*properties);
  const abi::Error error = call(cuda().cuMemGetAllocationGranularity, bytes, &translated, which);
  if (error != abi::success) return error;
  const char *pretended = setting("WEIR_HIP_LOOKALIKE_GRANULARITY", "");
  if (*pretended != '\0') *bytes = std::strtoull(pretended, nullptr, 10);
  return abi::success;
}

abi::Error hipMemAddressReserve(void **address, size_t bytes, size_t alignment, void *wanted,
                                unsigned long long flags) {
  if (address == nullptr || flags != 0) return abi::invalid_value;
  // AMD's runtime answers a bad size and a bad alignment so.
  if (bytes == 0 || bytes % map_granule != 0 || (alignment & (alignment - 1)) != 0)
    return abi::out_of_memory;
  const InContext context(current_device());
  if (context.error() != abi::success) return context.error();
  Ranges &all = ranges();
  const std::lock_guard lock(all.mutex);
  // Not every release keeps to the alignment.
  const size_t off = flag("WEIR_HIP_LOOKALIKE_ALIGNS", true) ? 0 : map_granule;
  const size_t whole = off == 0 ? bytes : bytes + spare;
  cu::DevicePointer found = 0;
  const abi::Error error = call(cuda().cuMemAddressReserve, &found, whole, alignment,
                                cu::DevicePointer{number(wanted)}, 0ULL);
  if (error != abi::success) return error;
  all.reservations.insert_or_assign(found + off, Reservation{bytes, found, whole});
  *address = reinterpret_cast<void *>(found + off);
  return abi::success;
}

abi::Error hipMemAddressFree(void *address, size_t bytes) {
  Ranges &all = ranges();
  const InContext context(current_device());
  if (context.error() != abi::success) return context.error();
  const std::lock_guard lock(all.mutex);
  const auto found = all.reservations.find(number(address));
  if (found == all.reservations.end() || found->second.bytes != bytes) return abi::invalid_value;
  const auto inside = all.mappings.lower_bound(found->first);
  if (inside != all.mappings.end() && inside->first - found->first < bytes)
    return abi::invalid_value;
  const abi::Error error = call(cuda().cuMemAddressFree, found->second.base, found->second.whole);
  if (error != abi::success) return error;
  const auto [first, last] = all.kept.equal_range(found->first);
  for (auto each = first; each != last; ++each) call(cuda().cuMemRelease, each->second);
  all.kept.erase(first, last);
  all.reservations.erase(found);
  return abi::success;
}

abi::Error hipMemCreate(abi::Memory *memory, size_t bytes,
                        const abi::AllocationProperties *properties, unsigned long long flags) {
  if (memory == nullptr || bytes == 0 || flags != 0 || !usable(properties))
    return abi::invalid_value;
  if (properties->handle_type != abi::handle_none &&
      properties->handle_type != abi::handle_posix_fd) {
    return abi::not_supported;
  }
  const InContext context(properties->location.id);
  if (context.error() != abi::success) return context.error();
  auto made = std::make_unique<Allocation>();
  const cu::AllocationProperties translated = properties_of(*properties);
  Ranges &all = ranges();
  const std::lock_guard lock(all.mutex);
  const abi::Error error = call(cuda().cuMemCreate, &made->granule, bytes, &translated, 0ULL);
  if (error != abi::success) return error;
  made->bytes = bytes;
  made->device = properties->location.id;
  *memory = all.add(std::move(made));
  return abi::success;
}

abi::Error hipMemRelease(abi::Memory memory) {
  Ranges &all = ranges();
  const std::lock_guard lock(all.mutex);
  auto *allocation = reinterpret_cast<Allocation *>(memory);
  if (!all.allocations.contains(allocation)) return abi::invalid_value;
  const InContext context(allocation->device);
  if (context.error() != abi::success) return context.error();
  // A runtime that keeps memory ties it to some reservation; the first one will do.
  const uintptr_t reservation = all.reservations.empty() ? 0 : all.reservations.begin()->first;
  return drop(all, allocation, reservation);
}

abi::Error hipMemMap(void *address, size_t bytes, size_t offset, abi::Memory memory,
                     unsigned long long flags) {
  if (address == nullptr || bytes == 0 || offset != 0 || flags != 0) return abi::invalid_value;
  Ranges &all = ranges();
  auto *allocation = reinterpret_cast<Allocation *>(memory);
  int device = 0;
  {
    const std::lock_guard lock(all.mutex);
    if (!all.allocations.contains(allocation)) return abi::invalid_value;
    if (allocation->bytes != 0 && allocation->bytes != bytes) return abi::invalid_value;
    if (all.reservation(number(address), bytes) == 0) return abi::invalid_value;
    device = allocation->device;
  }
  const InContext context(device);
  if (context.error() != abi::success) return context.error();
  // Not under the lock: what the streams wait for may need it.
  if (!unmap_waits()) {
    if (const abi::Error error = wait_for_streams(); error != abi::success) return error;
  }
  const std::lock_guard lock(all.mutex);
  const abi::Error error = call(cuda().cuMemMap, cu::DevicePointer{number(address)}, bytes,
                                size_t{0}, allocation->granule, 0ULL);
  if (error != abi::success) return error;
  ++allocation->references;
  // What is on record there is of a device that was lost, and the driver has let go of it since.
  all.mappings.insert_or_assign(number(address), Mapping{bytes, allocation, false, {}});
  return abi::success;
}

abi::Error hipMemUnmap(void *address, size_t bytes) {
  Ranges &all = ranges();
  int device = 0;
  std::vector<int> users;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.mappings.find(number(address));
    if (found == all.mappings.end() || found->second.bytes != bytes) return abi::invalid_value;
    device = found->second.allocation->device;
    users = found->second.users;
  }
  const InContext context(device);
  if (context.error() != abi::success) return context.error();
  const abi::Error waited = unmap_waits() ? wait_for_users(users) : wait_for_streams();
  if (waited != abi::success) return waited;
  const std::lock_guard lock(all.mutex);
  const auto found = all.mappings.find(number(address));
  if (found == all.mappings.end()) return abi::invalid_value;
  const abi::Error error = call(cuda().cuMemUnmap, cu::DevicePointer{number(address)}, bytes);
  if (error != abi::success) return error;
  Allocation *allocation = found->second.allocation;
  all.mappings.erase(found);
  return drop(all, allocation, all.reservation(number(address), bytes));
}

abi::Error hipMemSetAccess(void *address, size_t bytes, const abi::AccessDescription *who,
                           size_t count) {
  if (address == nullptr || bytes == 0 || who == nullptr || count == 0) return abi::invalid_value;
  Ranges &all = ranges();
  const InContext context(current_device());
  if (context.error() != abi::success) return context.error();
  const std::lock_guard lock(all.mutex);
  const auto found = all.mappings.find(number(address));
  // Split, merged and repeated ranges are what runtimes are reported to get wrong.
  if (found == all.mappings.end() || found->second.bytes != bytes || found->second.accessible) {
    return abi::invalid_value;
  }
  if (flag("WEIR_HIP_LOOKALIKE_FIRST_ONLY", false) && !all.reservations.contains(number(address))) {
    return abi::invalid_value;
  }
  if (flag("WEIR_HIP_LOOKALIKE_ONE_SIZE", false) && !all.sums_up(number(address), bytes)) {
    return abi::invalid_value;
  }
  std::vector<cu::AccessDescription> translated;
  for (size_t i = 0; i < count; ++i) {
    if (who[i].location.type != abi::location_device) return abi::invalid_value;
    const bool owner = who[i].location.id == found->second.allocation->device;
    if (owner != (i + 1 == count)) return abi::invalid_value;
    translated.push_back({{who[i].location.type, who[i].location.id}, who[i].flags});
  }
  const abi::Error error = call(cuda().cuMemSetAccess, cu::DevicePointer{number(address)}, bytes,
                                translated.data(), count);
  if (error != abi::success) return error;
  found->second.accessible = true;
  for (size_t i = 0; i < count; ++i) found->second.users.push_back(who[i].location.id);
  return error;
}

abi::Error hipMemExportToShareableHandle(void *handle, abi::Memory memory, abi::HandleType type,
                                         unsigned long long flags) {
  if (handle == nullptr || flags != 0 || type != abi::handle_posix_fd) return abi::invalid_value;
  Ranges &all = ranges();
  const std::lock_guard lock(all.mutex);
  auto *allocation = reinterpret_cast<Allocation *>(memory);
  if (!all.allocations.contains(allocation)) return abi::invalid_value;
  const InContext context(allocation->device);
  if (context.error() != abi::success) return context.error();
  return call(cuda().cuMemExportToShareableHandle, handle, allocation->granule,
              cu::handle_file_descriptor, 0ULL);
}

abi::Error hipMemImportFromShareableHandle(abi::Memory *memory, void *handle,
                                           abi::HandleType type) {
  // Descriptor 0 looks like none.
  if (memory == nullptr || handle == nullptr || type != abi::handle_posix_fd)
    return abi::invalid_value;
  // Releases before 7.1 follow the pointer, and end the process where it is a descriptor's value.
  int version = 0;
  if (hipRuntimeGetVersion(&version) == abi::success && version < 70'100'000) {
    if (number(handle) < map_granule) return abi::invalid_value;
    int descriptor = -1;
    std::memcpy(&descriptor, handle, sizeof descriptor);
    handle = reinterpret_cast<void *>(static_cast<uintptr_t>(descriptor));
  }
  const InContext context(current_device());
  if (context.error() != abi::success) return context.error();
  auto made = std::make_unique<Allocation>();
  Ranges &all = ranges();
  const std::lock_guard lock(all.mutex);
  const abi::Error error = call(cuda().cuMemImportFromShareableHandle, &made->granule, handle,
                                cu::handle_file_descriptor);
  if (error != abi::success) return error;
  made->device = current_device();
  *memory = all.add(std::move(made));
  return abi::success;
}

// SPDX-License-Identifier: Apache-2.0
//
// Reserving, mapping and translating. A mapping is entered in the table before its system call, not
// ready, so that no other call can take its place meanwhile, and taken out again if the system
// refuses.

#include "backends/host/address_space.hpp"

#include "backends/host/fault.hpp"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <iterator>
#include <mutex>

namespace weir::host {
namespace {

using Number = unsigned long long;

void *pointer(uint64_t address) {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

/// What a failure of the system's comes to: without memory, or a mapping, for it that is the host's.
weir_result result_of(int error, weir_result otherwise) {
  return error == ENOMEM ? weir_result{WEIR_ERROR_OUT_OF_HOST_MEMORY} : otherwise;
}

/// Whether [inner, inner + bytes) lies inside [outer, outer + size).
bool inside(uint64_t inner, uint64_t bytes, uint64_t outer, uint64_t size) {
  return inner >= outer && inner - outer <= size && bytes <= size - (inner - outer);
}

weir_result reserve_aligned(uint64_t bytes, uint64_t alignment, uint64_t *address) {
  if (bytes > UINT64_MAX - alignment) return result_of(ENOMEM, system_failure(ENOMEM));
  const uint64_t asked = bytes + alignment;
  void *base = mmap(nullptr, asked, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    return result_of(error,
                     system_failure(error, "reserving %llu bytes", static_cast<Number>(bytes)));
  }
  const uint64_t start = reinterpret_cast<uintptr_t>(base);
  const uint64_t aligned = (start + alignment - 1) / alignment * alignment;
  if (aligned != start) munmap(base, aligned - start);
  munmap(pointer(aligned + bytes), start + asked - (aligned + bytes));
  *address = aligned;
  return WEIR_SUCCESS;
}

}  // namespace

int AddressSpace::map_fixed(uint64_t address, uint64_t bytes, int fd, uint64_t offset,
                            bool populate) const {
  if (!contents_) return 0;
  const int flags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE | (populate ? MAP_POPULATE : 0);
  void *mapped =
      mmap(pointer(address), bytes, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
  return mapped == MAP_FAILED ? errno : 0;
}

int AddressSpace::map_nothing(uint64_t address, uint64_t bytes) const {
  if (!contents_) return 0;
  void *mapped = mmap(pointer(address), bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? errno : 0;
}

AddressSpace::~AddressSpace() {
  for (const auto &[address, reservation] : reservations_) {
    munmap(pointer(address), reservation.bytes);
  }
}

weir_result AddressSpace::check_unit(const char *what, uint64_t value, bool size) const noexcept {
  if (value % granule_ == 0 && (value != 0 || !size)) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s=%#llx is no %smultiple of the granule %#llx", what,
                static_cast<Number>(value), size ? "positive " : "", static_cast<Number>(granule_));
}

weir_result AddressSpace::reserve(uint32_t device, uint64_t bytes, uint64_t alignment, bool shared,
                                  uint64_t *address) {
  WEIR_BACKEND_TRY(check_unit("bytes", bytes, true));
  WEIR_BACKEND_TRY(check_unit("alignment", alignment, true));
  if (!std::has_single_bit(alignment)) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "alignment=%llu is no power of two",
                  static_cast<Number>(alignment));
  }
  return make(device, bytes, alignment, false, shared, address);
}

weir_result AddressSpace::free(uint32_t device, uint64_t address, uint64_t bytes) {
  return remove(device, address, bytes, false);
}

weir_result AddressSpace::make(uint32_t device, uint64_t bytes, uint64_t alignment, bool plain,
                               bool shared, uint64_t *address) {
  // The table's record is allocated first: nothing may fail after the system has agreed.
  Reservations record;
  record.emplace(0, Reservation{bytes, device, plain, shared, {}});
  uint64_t start = 0;
  WEIR_BACKEND_TRY(reserve_aligned(bytes, alignment, &start));
  auto node = record.extract(0);
  node.key() = start;
  std::lock_guard hold(mutex_);
  reservations_.insert(std::move(node));
  *address = start;
  return WEIR_SUCCESS;
}

weir_result AddressSpace::remove(uint32_t device, uint64_t address, uint64_t bytes, bool plain) {
  Reservations::node_type node;
  {
    std::lock_guard hold(mutex_);
    const auto it = reservations_.find(address);
    if (it == reservations_.end() || it->second.device != device || it->second.bytes != bytes ||
        it->second.plain != plain) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                    "device %u has no reservation of %llu bytes at %#llx", device,
                    static_cast<Number>(bytes), static_cast<Number>(address));
    }
    if (!it->second.mappings.empty()) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "the reservation at %#llx has %zu mappings",
                    static_cast<Number>(address), it->second.mappings.size());
    }
    // The record goes first: once unmapped, the system may give the addresses to anyone.
    node = reservations_.extract(it);
  }
  if (munmap(pointer(address), bytes) == 0) return WEIR_SUCCESS;
  const int error = errno;
  std::lock_guard hold(mutex_);
  reservations_.insert(std::move(node));
  return system_failure(error);
}

AddressSpace::Reservations::iterator AddressSpace::around(uint64_t address, uint64_t bytes,
                                                          bool plain) {
  auto it = reservations_.upper_bound(address);
  if (it == reservations_.begin()) return reservations_.end();
  --it;
  const Reservation &r = it->second;
  const bool fits = r.plain == plain && inside(address, bytes, it->first, r.bytes);
  return fits ? it : reservations_.end();
}

weir_result AddressSpace::map(Mapper mapper, uint64_t address, uint64_t bytes,
                              std::shared_ptr<Extent> extent, uint64_t offset, Prefault prefault,
                              uint64_t tag) {
  WEIR_BACKEND_TRY(check_unit("address", address, false));
  WEIR_BACKEND_TRY(check_unit("bytes", bytes, true));
  WEIR_BACKEND_TRY(check_unit("offset", offset, false));
  if (offset > extent->bytes() || bytes > extent->bytes() - offset) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "[%llu, +%llu) is not inside a granule of %llu bytes",
                  static_cast<Number>(offset), static_cast<Number>(bytes),
                  static_cast<Number>(extent->bytes()));
  }
  return connect(address, Mapping{mapper.device, bytes, offset, std::move(extent), tag, false},
                 mapper.shares, false, prefault);
}

weir_result AddressSpace::connect(uint64_t address, Mapping mapping, bool shares, bool plain,
                                  Prefault prefault) {
  const uint32_t device = mapping.device;
  Extent &extent = *mapping.extent;
  const uint64_t bytes = mapping.bytes;
  const uint64_t offset = extent.offset() + mapping.offset;
  Reservations::iterator home;
  std::map<uint64_t, Mapping>::iterator entry;
  {
    std::lock_guard hold(mutex_);
    home = around(address, bytes, plain);
    const bool own = home != reservations_.end() && home->second.device == device;
    if (!own && (home == reservations_.end() || !shares || !home->second.shared)) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                    "[%#llx, +%llu) is not inside one reservation of device %u%s",
                    static_cast<Number>(address), static_cast<Number>(bytes), device,
                    shares ? " or one that it shares" : "");
    }
    auto &mappings = home->second.mappings;
    const auto next = mappings.lower_bound(address);
    const bool hits_next = next != mappings.end() && next->first - address < bytes;
    const auto before = next != mappings.begin() ? std::prev(next) : mappings.end();
    const bool hits_before =
        before != mappings.end() && address - before->first < before->second.bytes;
    if (hits_next || hits_before) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "something is mapped in [%#llx, +%llu) already",
                    static_cast<Number>(address), static_cast<Number>(bytes));
    }
    entry = mappings.emplace_hint(next, address, std::move(mapping));
  }
  // From its second mapping on its memory exists, as a rule, and filling the page tables in one call is several
  // times cheaper than a fault per page, if the pages are used.
  const bool again = extent.mapped_before();
  const bool populate =
      prefault == Prefault::always || (prefault == Prefault::from_second && again);
  const int error = map_fixed(address, bytes, extent.fd(), offset, populate);
  // A mapping that failed half way may have torn out the reservation below it.
  if (error != 0) (void)map_nothing(address, bytes);
  std::shared_ptr<Extent> dropped;
  {
    std::lock_guard hold(mutex_);
    if (error == 0) {
      entry->second.ready = true;
    } else {
      dropped = std::move(entry->second.extent);
      home->second.mappings.erase(entry);
    }
  }
  if (error == 0) return WEIR_SUCCESS;
  return result_of(error, system_failure(error, "mapping [%#llx, +%llu)",
                                         static_cast<Number>(address), static_cast<Number>(bytes)));
}

weir_result AddressSpace::unmap(uint32_t device, uint64_t address, uint64_t bytes, uint64_t *tag) {
  return disconnect(device, address, bytes, false, tag);
}

weir_result AddressSpace::disconnect(uint32_t device, uint64_t address, uint64_t bytes, bool plain,
                                     uint64_t *tag) {
  Reservations::iterator home;
  std::map<uint64_t, Mapping>::iterator entry;
  {
    std::lock_guard hold(mutex_);
    home = around(address, bytes, plain);
    const bool found = home != reservations_.end() &&
                       (entry = home->second.mappings.find(address)) != home->second.mappings.end();
    if (!found || entry->second.device != device || entry->second.bytes != bytes ||
        !entry->second.ready) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "no one map call of device %u made [%#llx, +%llu)",
                    device, static_cast<Number>(address), static_cast<Number>(bytes));
    }
    entry->second.ready = false;
  }
  const int error = map_nothing(address, bytes);
  std::shared_ptr<Extent> dropped;  // outlives the lock: giving memory back is a system call
  {
    std::lock_guard hold(mutex_);
    if (error == 0) {
      dropped = std::move(entry->second.extent);
      *tag = entry->second.tag;
      home->second.mappings.erase(entry);
    } else {
      entry->second.ready = true;
    }
  }
  if (error == 0) return WEIR_SUCCESS;
  return system_failure(error, "unmapping [%#llx, +%llu)", static_cast<Number>(address),
                        static_cast<Number>(bytes));
}

const AddressSpace::Mappings *AddressSpace::mappings_around(uint64_t address,
                                                            uint64_t bytes) const {
  auto it = reservations_.upper_bound(address);
  if (it == reservations_.begin()) return nullptr;
  --it;
  const bool fits = !it->second.plain && inside(address, bytes, it->first, it->second.bytes);
  return fits ? &it->second.mappings : nullptr;
}

weir_result AddressSpace::find_run(uint32_t device, uint64_t address, uint64_t bytes,
                                   const Mappings &mappings, Mappings::const_iterator *first,
                                   Mappings::const_iterator *last) {
  uint64_t covered = 0;
  *first = *last = mappings.find(address);
  for (; *last != mappings.end() && covered < bytes; ++*last) {
    const Mapping &each = (*last)->second;
    const bool fits = (*last)->first - address == covered && each.bytes <= bytes - covered;
    if (!fits || each.device != device || !each.ready) break;
    covered += each.bytes;
  }
  if (bytes != 0 && covered == bytes) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                "whole maps of device %u cover %llu bytes from %#llx on, not %llu", device,
                static_cast<Number>(covered), static_cast<Number>(address),
                static_cast<Number>(bytes));
}

weir_result AddressSpace::check_run(uint32_t device, uint64_t address, uint64_t bytes) const {
  std::shared_lock hold(mutex_);
  const Mappings *mappings = mappings_around(address, bytes);
  Mappings::const_iterator first, last;
  const Mappings none;
  return find_run(device, address, bytes, mappings != nullptr ? *mappings : none, &first, &last);
}

weir_result AddressSpace::unmap_run(uint32_t device, uint64_t address, uint64_t bytes,
                                    std::vector<uint64_t> *tags) {
  std::vector<std::shared_ptr<Extent>> dropped;  // outlives the lock: giving memory back is slow
  Mappings *mappings = nullptr;
  // Where the run ends is told by the address: what lies behind it may go while the lock is not held.
  const uint64_t end = address + bytes;
  {
    std::lock_guard hold(mutex_);
    const Mappings none;
    Mappings::const_iterator from, to;
    mappings = const_cast<Mappings *>(mappings_around(address, bytes));
    WEIR_BACKEND_TRY(
        find_run(device, address, bytes, mappings != nullptr ? *mappings : none, &from, &to));
    const auto count = static_cast<size_t>(std::distance(from, to));
    tags->reserve(count);
    dropped.reserve(count);
    for (auto each = mappings->find(address); each != mappings->end() && each->first < end; ++each)
      each->second.ready = false;
  }
  const int error = map_nothing(address, bytes);
  {
    std::lock_guard hold(mutex_);
    for (auto each = mappings->find(address); each != mappings->end() && each->first < end;) {
      each->second.ready = error != 0;
      if (error != 0) {
        ++each;
        continue;
      }
      tags->push_back(each->second.tag);
      dropped.push_back(std::move(each->second.extent));
      each = mappings->erase(each);
    }
  }
  if (error == 0) return WEIR_SUCCESS;
  return system_failure(error, "unmapping [%#llx, +%llu)", static_cast<Number>(address),
                        static_cast<Number>(bytes));
}

weir_result AddressSpace::place(uint32_t device, std::shared_ptr<Extent> extent, uint64_t alignment,
                                uint64_t *address) {
  const uint64_t bytes = extent->bytes();
  uint64_t start = 0;
  WEIR_BACKEND_TRY(make(device, bytes, alignment, true, false, &start));
  weir_result result = WEIR_ERROR_OUT_OF_HOST_MEMORY;
  try {
    result = connect(start, Mapping{device, bytes, 0, std::move(extent), 0, false}, false, true,
                     Prefault::never);
  } catch (...) {
    (void)remove(device, start, bytes, true);
    throw;
  }
  if (result != WEIR_SUCCESS) {
    (void)remove(device, start, bytes, true);
    return result;
  }
  *address = start;
  return WEIR_SUCCESS;
}

weir_result AddressSpace::drop(uint32_t device, uint64_t address, uint64_t bytes) {
  uint64_t tag = 0;
  WEIR_BACKEND_TRY(disconnect(device, address, bytes, true, &tag));
  return remove(device, address, bytes, true);
}

weir_result AddressSpace::translate(uint64_t address, uint64_t bytes, Physical *physical) const {
  if (address == 0 || bytes == 0 || bytes > UINT64_MAX - address) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "[%#llx, +%llu) is no range of memory",
                  static_cast<Number>(address), static_cast<Number>(bytes));
  }
  std::shared_lock hold(mutex_);
  const auto next = reservations_.upper_bound(address);
  const bool hits_next = next != reservations_.end() && next->first - address < bytes;
  const auto home = next != reservations_.begin() ? std::prev(next) : reservations_.end();
  const bool hits_home = home != reservations_.end() && address - home->first < home->second.bytes;
  if (!hits_home && !hits_next) {
    *physical = Physical{WEIR_DEVICE_HOST, static_cast<std::byte *>(pointer(address))};
    return WEIR_SUCCESS;
  }
  if (hits_home) {
    const auto &mappings = home->second.mappings;
    auto entry = mappings.upper_bound(address);
    if (entry != mappings.begin()) {
      --entry;
      const Mapping &m = entry->second;
      if (m.ready && inside(address, bytes, entry->first, m.bytes)) {
        std::byte *base = m.extent->physical() + m.offset;
        *physical = Physical{m.device, base + (address - entry->first)};
        return WEIR_SUCCESS;
      }
    }
  }
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "[%#llx, +%llu) is not inside one mapping",
                static_cast<Number>(address), static_cast<Number>(bytes));
}

}  // namespace weir::host

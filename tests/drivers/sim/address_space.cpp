// SPDX-License-Identifier: Apache-2.0
//
// Reserving, mapping, access and lookup. System calls are made under the lock: a table and the CPU's view that
// disagree for a moment would be a race of the simulator's own.

#include "tests/drivers/sim/address_space.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <mutex>

namespace weir::sim {
namespace {

using Hex = unsigned long long;

/// Large enough for every test, small enough for what sanitizers leave of the address space.
constexpr uint64_t usual_window = uint64_t{128} << 30;

void *pointer(uint64_t address) {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

uint64_t whole_pages(uint64_t bytes) {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

void tell(std::string *why, uint64_t address, uint64_t bytes, const char *what) {
  char text[160];
  std::snprintf(text, sizeof text, "[%#llx, +%llu): %s", static_cast<Hex>(address),
                static_cast<Hex>(bytes), what);
  *why = text;
}

}  // namespace

AddressSpace::~AddressSpace() = default;

bool AddressSpace::open_window(uint64_t bytes) {
  Window window;
  for (uint64_t size = std::max(usual_window, bytes); size >= bytes && size != 0; size /= 2) {
    if (!window.open(size)) continue;
    windows_.push_back(std::move(window));
    return true;
  }
  return false;
}

Answer AddressSpace::make_room(uint64_t bytes, uint64_t alignment, uint64_t *address) {
  for (Window &window : windows_) {
    if (window.take(bytes, alignment, address)) return Answer::ok;
  }
  if (bytes > uint64_t{1} << 46 || alignment > uint64_t{1} << 46) return Answer::no_addresses;
  if (!open_window(bytes + alignment)) return Answer::no_addresses;
  return windows_.back().take(bytes, alignment, address) ? Answer::ok : Answer::no_addresses;
}

void AddressSpace::give_room(uint64_t address, uint64_t bytes) {
  for (Window &window : windows_) {
    if (window.touches(address, bytes)) return window.give(address, bytes);
  }
}

bool AddressSpace::touches_window(uint64_t address, uint64_t bytes) const noexcept {
  return std::any_of(windows_.begin(), windows_.end(),
                     [&](const Window &window) { return window.touches(address, bytes); });
}

bool AddressSpace::is_device(uint64_t address, uint64_t bytes) const noexcept {
  const std::shared_lock hold(mutex_);
  return touches_window(address, bytes);
}

AddressSpace::Mappings::const_iterator AddressSpace::around(uint64_t address) const {
  auto it = mappings_.upper_bound(address);
  if (it == mappings_.begin()) return mappings_.end();
  --it;
  return address - it->first < it->second.bytes ? it : mappings_.end();
}

AddressSpace::Reservations::const_iterator AddressSpace::home(uint64_t address,
                                                              uint64_t bytes) const {
  auto it = reservations_.upper_bound(address);
  if (it == reservations_.begin()) return reservations_.end();
  --it;
  const uint64_t offset = address - it->first;
  const uint64_t size = it->second.bytes;
  return offset < size && bytes <= size - offset ? it : reservations_.end();
}

bool AddressSpace::occupied(uint64_t address, uint64_t bytes) const {
  const auto next = mappings_.lower_bound(address);
  return around(address) != mappings_.end() ||
         (next != mappings_.end() && next->first - address < bytes);
}

bool AddressSpace::whole(uint64_t address, uint64_t bytes, Mappings::iterator *first) {
  *first = mappings_.find(address);
  uint64_t covered = 0;
  for (auto it = *first; covered < bytes; ++it) {
    if (it == mappings_.end() || it->first != address + covered || it->second.plain) return false;
    covered += it->second.bytes;
  }
  return covered == bytes && bytes != 0;
}

Answer AddressSpace::reserve(uint64_t bytes, uint64_t alignment, uint64_t *address) {
  if (bytes == 0 || bytes % granule_ != 0) {
    return census_.misuse("reserving %llu bytes, no multiple of %llu", static_cast<Hex>(bytes),
                          static_cast<Hex>(granule_));
  }
  if (alignment != 0 && !std::has_single_bit(alignment)) {
    return census_.misuse("reserving with alignment %llu, no power of two",
                          static_cast<Hex>(alignment));
  }
  const std::lock_guard hold(mutex_);
  uint64_t start = 0;
  const Answer answer = make_room(bytes, std::max(alignment, granule_), &start);
  if (answer != Answer::ok) return answer;
  reservations_.emplace(start, Reservation{bytes, false});
  census_.add(Kind::reservation);
  *address = start;
  return Answer::ok;
}

Answer AddressSpace::free(uint64_t address, uint64_t bytes) {
  const std::lock_guard hold(mutex_);
  const auto it = reservations_.find(address);
  if (it == reservations_.end() || it->second.plain || it->second.bytes != bytes) {
    return census_.misuse("freeing [%#llx, +%llu), which was not reserved so",
                          static_cast<Hex>(address), static_cast<Hex>(bytes));
  }
  if (occupied(address, bytes)) {
    return census_.misuse("freeing the reservation at %#llx, in which something is mapped",
                          static_cast<Hex>(address));
  }
  give_room(address, bytes);
  reservations_.erase(it);
  census_.remove(Kind::reservation);
  return Answer::ok;
}

int AddressSpace::show(uint64_t address, const Mapping &mapping) const noexcept {
  if (strict_) return 0;
  if ((mapping.readers | mapping.writers) == 0) return hide(address, mapping.bytes);
  const host::Extent &extent = mapping.physical->extent();
  const int protection = mapping.writers != 0 ? PROT_READ | PROT_WRITE : PROT_READ;
  void *shown =
      mmap(pointer(address), mapping.bytes, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
           extent.fd(), static_cast<off_t>(extent.offset() + mapping.offset));
  return shown == MAP_FAILED ? errno : 0;
}

int AddressSpace::hide(uint64_t address, uint64_t bytes) const noexcept {
  if (strict_) return 0;
  void *hidden = mmap(pointer(address), whole_pages(bytes), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return hidden == MAP_FAILED ? errno : 0;
}

Answer AddressSpace::map(uint64_t address, uint64_t bytes, std::shared_ptr<Physical> physical,
                         uint64_t offset) {
  if (bytes == 0 || (address | bytes | offset) % granule_ != 0) {
    return census_.misuse("mapping [%#llx, +%llu) at offset %llu, no multiples of %llu",
                          static_cast<Hex>(address), static_cast<Hex>(bytes),
                          static_cast<Hex>(offset), static_cast<Hex>(granule_));
  }
  if (offset > physical->bytes() || bytes > physical->bytes() - offset) {
    return census_.misuse("mapping bytes [%llu, +%llu) of physical memory of %llu",
                          static_cast<Hex>(offset), static_cast<Hex>(bytes),
                          static_cast<Hex>(physical->bytes()));
  }
  const std::lock_guard hold(mutex_);
  const auto reservation = home(address, bytes);
  if (reservation == reservations_.end() || reservation->second.plain) {
    return census_.misuse("mapping [%#llx, +%llu), which is not inside one reservation",
                          static_cast<Hex>(address), static_cast<Hex>(bytes));
  }
  if (occupied(address, bytes)) {
    return census_.misuse("mapping [%#llx, +%llu), where something is mapped already",
                          static_cast<Hex>(address), static_cast<Hex>(bytes));
  }
  mappings_.emplace(address,
                    Mapping{bytes, offset, std::move(physical), 0, 0, ++last_name_, false});
  census_.add(Kind::mapping);
  return Answer::ok;
}

Answer AddressSpace::set_access(uint64_t address, uint64_t bytes, DeviceSet devices,
                                Access access) {
  const std::lock_guard hold(mutex_);
  Mappings::iterator first;
  if (!whole(address, bytes, &first)) {
    return census_.misuse("setting access of [%#llx, +%llu), which is not made of whole mappings",
                          static_cast<Hex>(address), static_cast<Hex>(bytes));
  }
  const auto end = mappings_.lower_bound(address + bytes);
  std::vector<std::pair<DeviceSet, DeviceSet>> before;
  for (auto it = first; it != end; ++it)
    before.emplace_back(it->second.readers, it->second.writers);
  for (auto it = first; it != end; ++it) {
    Mapping &mapping = it->second;
    mapping.readers =
        access != Access::none ? mapping.readers | devices : mapping.readers & ~devices;
    mapping.writers =
        access == Access::read_write ? mapping.writers | devices : mapping.writers & ~devices;
    if (show(it->first, mapping) == 0) continue;
    // Everything as it was, as far as the system lets us.
    size_t index = 0;
    for (auto back = first; back != std::next(it); ++back, ++index) {
      back->second.readers = before[index].first;
      back->second.writers = before[index].second;
      (void)show(back->first, back->second);
    }
    return Answer::system;
  }
  return Answer::ok;
}

Answer AddressSpace::get_access(uint64_t address, uint32_t device, Access *access) const {
  const std::shared_lock hold(mutex_);
  const auto it = around(address);
  if (it == mappings_.end() || it->second.plain) {
    return census_.misuse("asking for the access of %#llx, where nothing is mapped",
                          static_cast<Hex>(address));
  }
  const DeviceSet bit = device_bit(device);
  *access = (it->second.writers & bit) != 0   ? Access::read_write
            : (it->second.readers & bit) != 0 ? Access::read
                                              : Access::none;
  return Answer::ok;
}

Answer AddressSpace::unmap(uint64_t address, uint64_t bytes) {
  std::vector<std::shared_ptr<Physical>> dropped;  // outlives the lock: giving memory back is slow
  const std::lock_guard hold(mutex_);
  Mappings::iterator first;
  if (!whole(address, bytes, &first)) {
    return census_.misuse("unmapping [%#llx, +%llu), which is not made of whole mappings",
                          static_cast<Hex>(address), static_cast<Hex>(bytes));
  }
  const auto end = mappings_.lower_bound(address + bytes);
  for (auto it = first; it != end; ++it) dropped.push_back(it->second.physical);
  if (hide(address, bytes) != 0) return Answer::system;
  for (auto it = first; it != end; it = mappings_.erase(it)) census_.remove(Kind::mapping);
  return Answer::ok;
}

Answer AddressSpace::place(std::shared_ptr<Physical> physical, uint64_t bytes, uint64_t alignment,
                           uint64_t *address) {
  const uint64_t room = whole_pages(bytes);
  const std::lock_guard hold(mutex_);
  uint64_t start = 0;
  const Answer answer = make_room(room, std::max(alignment, whole_pages(1)), &start);
  if (answer != Answer::ok) return answer;
  const DeviceSet owner = device_bit(physical->device());
  const auto mapping =
      mappings_
          .emplace(start, Mapping{bytes, 0, std::move(physical), owner, owner, ++last_name_, true})
          .first;
  if (show(start, mapping->second) != 0) {
    (void)hide(start, bytes);
    mappings_.erase(mapping);
    give_room(start, room);
    return Answer::system;
  }
  reservations_.emplace(start, Reservation{room, true});
  census_.add(Kind::plain);
  *address = start;
  return Answer::ok;
}

Answer AddressSpace::drop(uint64_t address) {
  std::shared_ptr<Physical> dropped;
  const std::lock_guard hold(mutex_);
  const auto reservation = reservations_.find(address);
  if (reservation == reservations_.end() || !reservation->second.plain) {
    return census_.misuse("freeing %#llx, which is no allocation", static_cast<Hex>(address));
  }
  if (hide(address, reservation->second.bytes) != 0) return Answer::system;
  give_room(address, reservation->second.bytes);
  reservations_.erase(reservation);
  const auto mapping = mappings_.find(address);
  dropped = std::move(mapping->second.physical);
  mappings_.erase(mapping);
  census_.remove(Kind::plain);
  return Answer::ok;
}

Found AddressSpace::find(uint64_t address) const {
  const std::shared_lock hold(mutex_);
  Found found;
  if (const auto it = around(address); it != mappings_.end()) {
    const Mapping &mapping = it->second;
    return {mapping.plain ? Found::What::plain : Found::What::mapped, it->first, mapping.bytes,
            mapping.physical->device(), mapping.physical};
  }
  if (const auto it = home(address, 1); it != reservations_.end()) {
    return {Found::What::reserved, it->first, it->second.bytes, UINT32_MAX, nullptr};
  }
  if (touches_window(address, 1)) found.what = Found::What::stale;
  return found;
}

Answer AddressSpace::resolve(uint64_t address, uint64_t bytes, uint32_t device, bool write,
                             DeviceSet plain_of, std::vector<Piece> *pieces,
                             std::string *why) const {
  pieces->clear();
  if (address == 0 || bytes > UINT64_MAX - address) {
    tell(why, address, bytes, "no range of memory");
    return Answer::illegal_address;
  }
  const std::shared_lock hold(mutex_);
  if (!touches_window(address, bytes)) {
    Piece host;
    host.memory = static_cast<std::byte *>(pointer(address));
    host.bytes = bytes;
    pieces->push_back(std::move(host));
    return Answer::ok;
  }
  for (uint64_t done = 0; done < bytes;) {
    const auto it = around(address + done);
    if (it == mappings_.end()) {
      tell(why, address + done, bytes - done, "nothing is mapped there");
      return Answer::illegal_address;
    }
    const Mapping &mapping = it->second;
    const DeviceSet allowed =
        mapping.plain ? device_bit(mapping.physical->device()) & plain_of
                      : (write ? mapping.writers : mapping.readers) & device_bit(device);
    if (allowed == 0) {
      tell(why, address + done, bytes - done, "the stream's device has no access to it");
      return Answer::illegal_address;
    }
    const uint64_t offset = address + done - it->first;
    Piece piece;
    piece.memory = mapping.physical->content() + mapping.offset + offset;
    piece.bytes = std::min(bytes - done, mapping.bytes - offset);
    piece.device = mapping.physical->device();
    piece.plain = mapping.plain;
    piece.mapping = mapping.name;
    piece.keep = mapping.physical;
    done += piece.bytes;
    pieces->push_back(std::move(piece));
  }
  return Answer::ok;
}

bool AddressSpace::still(uint64_t address, const std::vector<Piece> &pieces) const {
  const std::shared_lock hold(mutex_);
  for (const Piece &piece : pieces) {
    if (piece.mapping != 0) {
      const auto it = around(address);
      if (it == mappings_.end() || it->second.name != piece.mapping) return false;
    }
    address += piece.bytes;
  }
  return true;
}

}  // namespace weir::sim

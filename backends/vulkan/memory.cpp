// SPDX-License-Identifier: Apache-2.0
//
// Buffers, and the table of their addresses. With one device pinned memory is the driver's own; with several it is pages of the
// system that each of them imports, since each is a VkDevice of its own.

#include "backends/vulkan/memory.hpp"

#include "backends/common/undo.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <iterator>
#include <mutex>

namespace weir::vulkan {
namespace {

constexpr uint64_t largest_alignment = uint64_t{2} << 20U;

/// So many times a driver is asked for addresses that belong to nothing else.
constexpr size_t most_alignments = 64;

weir_result no_place(uint32_t device) noexcept {
  return refuse(WEIR_ERROR_BACKEND,
                "device %u: its driver gives addresses that are another device's or the host's",
                device);
}

uint64_t page_size() noexcept { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }
uint64_t round_up(uint64_t value, uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}
uint64_t place_of(const void *memory) noexcept { return reinterpret_cast<uintptr_t>(memory); }
void *pointer_to(uint64_t address) noexcept {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

}  // namespace

Memory::~Memory() {
  for (uint32_t i = 0; i < plain_.size(); ++i)
    for (auto &[address, range] : plain_[i]) end(&platform_.device(i), address, &range);
  for (auto &[address, range] : host_) end(nullptr, address, &range);
}

void Memory::end(Device *device, uint64_t address, Range *range) noexcept {
  if (device != nullptr) {
    device->end(&range->blocks[0]);
    device->give_back(range->bytes);
    return;
  }
  for (size_t i = 0; i < range->blocks.size(); ++i) platform_.devices()[i]->end(&range->blocks[i]);
  if (range->kind == Kind::pages)
    (void)munmap(pointer_to(address), round_up(range->bytes, page_size()));
}

bool Memory::overlaps(const Ranges &ranges, uint64_t address, uint64_t bytes) noexcept {
  const auto next = ranges.lower_bound(address);
  if (next != ranges.end() && next->first - address < bytes) return true;
  if (next == ranges.begin()) return false;
  const auto before = std::prev(next);
  return address - before->first < before->second.bytes;
}

bool Memory::taken_by_others(uint32_t device, uint64_t address, uint64_t bytes) const noexcept {
  for (uint32_t i = 0; i < plain_.size(); ++i)
    if (i != device && overlaps(plain_[i], address, bytes)) return true;
  return overlaps(host_, address, bytes);
}

bool Memory::look(const Ranges &ranges, uint64_t address, uint64_t bytes, const Range **range,
                  uint64_t *offset) noexcept {
  auto it = ranges.upper_bound(address);
  if (it == ranges.begin()) return false;
  --it;
  *offset = address - it->first;
  *range = &it->second;
  return *offset < it->second.bytes && bytes <= it->second.bytes - *offset;
}

bool Memory::find(uint32_t device, uint64_t address, uint64_t bytes, Spot *spot) const noexcept {
  const std::shared_lock hold(mutex_);
  const Range *range = nullptr;
  uint64_t offset = 0;
  const bool own = look(plain_[device], address, bytes, &range, &offset);
  if (!own && !look(host_, address, bytes, &range, &offset)) return false;
  if (range->blocks.empty()) return false;  // it is being registered
  *spot = {range->blocks[own ? 0 : device].buffer, range->offset + offset, !own,
           range->kind == Kind::range, range->bytes - offset};
  return true;
}

// ---- of devices

/// Vulkan has no alignment to ask for. Where the driver's own does not do, there is room to find one.
weir_result Memory::make_plain(Device &device, uint64_t bytes, uint64_t alignment, Range *range,
                               uint64_t *address) {
  for (const uint64_t total : {bytes, bytes + alignment}) {
    WEIR_BACKEND_TRY(device.make_plain(total, &range->blocks[0]));
    const uint64_t start = range->blocks[0].address;
    *address = round_up(start, alignment);
    range->offset = *address - start;
    if (range->offset == 0 || total != bytes) break;
    device.end(&range->blocks[0]);
  }
  return WEIR_SUCCESS;
}

weir_result Memory::add_plain(Device &device, uint64_t bytes, uint64_t alignment,
                              Ranges::node_type *node, uint64_t *address) {
  Ranges record;  // allocated first, so that nothing can fail after the driver has agreed
  Range &range = record[0];
  range.bytes = bytes;
  range.blocks.resize(1);
  uint64_t made = 0;
  WEIR_BACKEND_TRY(make_plain(device, bytes, alignment, &range, &made));
  *node = record.extract(record.begin());
  node->key() = made;
  const std::lock_guard hold(mutex_);
  if (taken_by_others(device.index(), made, bytes)) return WEIR_NOT_READY;
  plain_[device.index()].insert(std::move(*node));
  *node = {};
  *address = made;
  return WEIR_SUCCESS;
}

weir_result Memory::allocate_plain(uint32_t device, uint64_t bytes, uint64_t alignment,
                                   uint64_t *address) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  if (bytes == 0 || !std::has_single_bit(alignment) || alignment > largest_alignment) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "bytes=%llu, alignment=%llu", number(bytes),
                  number(alignment));
  }
  Device &home = platform_.device(device);
  Charge charge(home, bytes);
  WEIR_BACKEND_TRY(charge.result());
  std::vector<Ranges::node_type> aside;
  aside.reserve(most_alignments);
  weir_result result = WEIR_NOT_READY;
  while (result == WEIR_NOT_READY && aside.size() < most_alignments) {
    Ranges::node_type node;
    result = add_plain(home, bytes, alignment, &node, address);
    if (result == WEIR_NOT_READY) aside.push_back(std::move(node));
  }
  for (Ranges::node_type &node : aside) home.end(&node.mapped().blocks[0]);
  if (result == WEIR_SUCCESS) charge.keep();
  return result != WEIR_NOT_READY ? result : no_place(device);
}

weir_result Memory::free_plain(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  Ranges::node_type node;
  {
    const std::lock_guard hold(mutex_);
    const auto it = plain_[device].find(address);
    if (it == plain_[device].end() || it->second.kind != Kind::plain || it->second.bytes != bytes) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "[%#llx, +%llu) is no plain memory of device %u",
                    number(address), number(bytes), device);
    }
    // Out of the table first: once it is freed the driver may give the same address to another thread.
    node = plain_[device].extract(it);
  }
  end(&platform_.device(device), address, &node.mapped());
  return WEIR_SUCCESS;
}

// ---- of reservations

weir_result Memory::add_range(uint32_t device, uint64_t address, uint64_t bytes, VkBuffer buffer,
                              uint64_t offset, uint64_t whole) {
  Ranges record;
  Range &range = record[address];
  range.bytes = bytes;
  range.kind = Kind::range;
  range.blocks.resize(1);
  range.blocks[0].buffer = buffer;
  range.offset = offset;
  range.whole = whole;
  const std::lock_guard hold(mutex_);
  if (taken_by_others(device, address, bytes)) return WEIR_NOT_READY;
  plain_[device].insert(record.extract(record.begin()));
  return WEIR_SUCCESS;
}

Memory::RangeBuffer Memory::take_range(uint32_t device, uint64_t address) noexcept {
  const std::lock_guard hold(mutex_);
  const auto node = plain_[device].extract(address);
  return {node.mapped().blocks[0].buffer, node.mapped().whole};
}

void Memory::end_ranges(uint32_t device) noexcept {
  const Device &home = platform_.device(device);
  for (auto each = plain_[device].begin(); each != plain_[device].end();) {
    const bool range = each->second.kind == Kind::range;
    if (range) home.api().DestroyBuffer(home.handle(), each->second.blocks[0].buffer, nullptr);
    each = range ? plain_[device].erase(each) : std::next(each);
  }
}

// ---- of the host

/// A block over the pages on every device; none on failure.
weir_result Memory::import(void *memory, uint64_t bytes, Range *range) {
  for (size_t i = 0; i < range->blocks.size(); ++i) {
    Device &device = *platform_.devices()[i];
    const weir_result result = device.import_host(
        memory, round_up(bytes, device.facts().import_alignment), &range->blocks[i]);
    if (result == WEIR_SUCCESS) continue;
    while (i-- > 0) platform_.devices()[i]->end(&range->blocks[i]);
    return result;
  }
  return WEIR_SUCCESS;
}

weir_result Memory::make_pages(uint64_t bytes, Range *range, void **memory) {
  const uint64_t whole = round_up(bytes, page_size());
  void *pages = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    return common::runtime_failure(WEIR_ERROR_OUT_OF_HOST_MEMORY, errno, "mmap of %llu bytes: %s",
                                   number(whole), common::system_words(errno));
  }
  const weir_result result = import(pages, whole, range);
  if (result != WEIR_SUCCESS) (void)munmap(pages, whole);
  *memory = pages;
  return result;
}

weir_result Memory::allocate_host(uint64_t bytes, void **memory) {
  const uint64_t page = page_size();
  if (bytes == 0) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "host_allocate: 0 bytes");
  if (bytes > UINT64_MAX - page)
    return refuse(WEIR_ERROR_OUT_OF_HOST_MEMORY, "host_allocate: %llu bytes", number(bytes));
  const bool alone = platform_.devices().size() == 1;
  Ranges record;
  Range &range = record[0];
  range.bytes = bytes;
  range.kind = alone ? Kind::pinned : Kind::pages;
  range.blocks.resize(platform_.devices().size());
  void *made = nullptr;
  if (alone) {
    // Drivers promise 64 bytes of alignment.
    WEIR_BACKEND_TRY(platform_.device(0).make_host(bytes + page, &range.blocks[0]));
    const uint64_t start = place_of(range.blocks[0].mapped);
    made = pointer_to(round_up(start, page));
    range.offset = place_of(made) - start;
  } else {
    WEIR_BACKEND_TRY(make_pages(bytes, &range, &made));
  }
  auto node = record.extract(record.begin());
  node.key() = place_of(made);
  {
    const std::lock_guard hold(mutex_);
    bool meets = false;
    for (const Ranges &ranges : plain_) meets = meets || overlaps(ranges, place_of(made), bytes);
    if (!meets) {
      host_.insert(std::move(node));
      *memory = made;
      return WEIR_SUCCESS;
    }
  }
  end(nullptr, place_of(made), &node.mapped());
  return refuse(WEIR_ERROR_BACKEND, "host memory was given at %p, an address of a device", made);
}

weir_result Memory::take_host(const char *call, void *memory, uint64_t bytes, bool registered,
                              Ranges::node_type *node) {
  const std::lock_guard hold(mutex_);
  const auto it = host_.find(place_of(memory));
  if (it == host_.end() || it->second.bytes != bytes ||
      (it->second.kind == Kind::registered) != registered || it->second.blocks.empty()) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s: [%p, +%llu) is none of it", call, memory,
                  number(bytes));
  }
  *node = host_.extract(it);
  return WEIR_SUCCESS;
}

weir_result Memory::free_host(void *memory, uint64_t bytes) {
  Ranges::node_type node;
  WEIR_BACKEND_TRY(take_host("host_free", memory, bytes, false, &node));
  end(nullptr, node.key(), &node.mapped());
  return WEIR_SUCCESS;
}

weir_result Memory::enroll(void *memory, uint64_t bytes) {
  for (const auto &device : platform_.devices()) {
    if (device->has(WEIR_CAP_HOST_REGISTER)) continue;
    return refuse(
        WEIR_ERROR_NOT_SUPPORTED, "%s",
        platform_.options().host_register
            ? "not every device has VK_EXT_external_memory_host for pages of the system's size"
            : "registering host memory is off (register=0)");
  }
  const uint64_t address = place_of(memory);
  if (memory == nullptr || bytes == 0 || address % page_size() != 0 ||
      bytes > UINT64_MAX - address - page_size()) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "host_register: [%p, +%llu) is no page-aligned range", memory, number(bytes));
  }
  Range made;
  made.bytes = bytes;
  made.kind = Kind::registered;
  made.blocks.resize(platform_.devices().size());
  // Entered before the driver is asked, so that two calls for the same memory cannot both go on.
  {
    const std::lock_guard hold(mutex_);
    bool meets = overlaps(host_, address, bytes);
    for (const Ranges &ranges : plain_) meets = meets || overlaps(ranges, address, bytes);
    if (meets) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "host_register: [%p, +%llu) is known already",
                    memory, number(bytes));
    }
    Range &place = host_[address];
    place.bytes = bytes;
    place.kind = Kind::registered;
  }
  const weir_result result = import(memory, bytes, &made);
  const std::lock_guard hold(mutex_);
  if (result == WEIR_SUCCESS) {
    host_.find(address)->second = std::move(made);
  } else {
    host_.erase(address);
  }
  return result;
}

weir_result Memory::dismiss(void *memory, uint64_t bytes) {
  for (const auto &device : platform_.devices()) {
    if (!device->has(WEIR_CAP_HOST_REGISTER))
      return refuse(WEIR_ERROR_NOT_SUPPORTED, "host memory cannot be registered here");
  }
  Ranges::node_type node;
  WEIR_BACKEND_TRY(take_host("host_unregister", memory, bytes, true, &node));
  end(nullptr, node.key(), &node.mapped());
  return WEIR_SUCCESS;
}

}  // namespace weir::vulkan

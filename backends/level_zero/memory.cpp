// SPDX-License-Identifier: Apache-2.0
//
// zeMemAlloc*, and Intel's import of the program's own memory.

#include "backends/level_zero/memory.hpp"

#include "backends/level_zero/errors.hpp"
#include "backends/level_zero/retry.hpp"

#include <bit>
#include <iterator>
#include <mutex>

namespace weir::level_zero {
namespace {

constexpr uint64_t page = 4096;
constexpr uint64_t largest_alignment = uint64_t{2} << 20U;

void *pointer(uint64_t address) noexcept {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

uint64_t number(const void *memory) noexcept { return reinterpret_cast<uintptr_t>(memory); }

/// Drivers refuse sizes beyond maxMemAllocSize, often 4 GiB, unless told that they are meant.
struct Limits {
  abi::RelaxedAllocationLimitsDesc relaxed;
  const void *chain(uint64_t bytes, uint64_t limit) const noexcept {
    return bytes > limit ? &relaxed : nullptr;
  }
};

}  // namespace

Memory::~Memory() {
  for (const auto &[address, range] : ranges_) {
    twice([&, start = address, kind = range.kind] { return end(start, kind); });
  }
}

abi::Result Memory::end(uint64_t address, Kind kind) const noexcept {
  if (kind == Kind::registered) {
    return platform_.release_pointer()(platform_.native_driver(), pointer(address));
  }
  return platform_.api().mem_free(platform_.context(), pointer(address));
}

template <class Make>
weir_result Memory::add(const Range &range, const char *call, Make make) {
  Ranges record;
  record.emplace(0, range);
  uint64_t address = 0;
  const abi::Result result = make(&address);
  if (result != abi::success) {
    return runtime_refusal(result, "%s of %llu bytes", call, static_cast<Number>(range.bytes));
  }
  auto node = record.extract(record.begin());
  node.key() = address;
  std::lock_guard hold(mutex_);
  ranges_.insert(std::move(node));
  return WEIR_SUCCESS;
}

template <class End>
weir_result Memory::remove(uint64_t address, const Range &range, const char *call, End end) {
  Ranges::node_type node;
  {
    std::lock_guard hold(mutex_);
    const auto it = ranges_.find(address);
    if (it == ranges_.end() || it->second.bytes != range.bytes ||
        it->second.device != range.device || it->second.kind != range.kind) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s: nothing of %llu bytes was made at %#llx",
                    call, static_cast<Number>(range.bytes), static_cast<Number>(address));
    }
    node = ranges_.extract(it);
  }
  const abi::Result result = end();
  if (result == abi::success) return WEIR_SUCCESS;
  std::lock_guard hold(mutex_);
  ranges_.insert(std::move(node));
  return runtime_refusal(result, "%s of %llu bytes at %#llx", call,
                         static_cast<Number>(range.bytes), static_cast<Number>(address));
}

weir_result Memory::allocate_plain(uint32_t device, uint64_t bytes, uint64_t alignment,
                                   uint64_t *address) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  if (bytes == 0 || !std::has_single_bit(alignment) || alignment > largest_alignment) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "bytes=%llu, alignment=%llu",
                  static_cast<Number>(bytes), static_cast<Number>(alignment));
  }
  Charge charge(usage_, device, bytes);
  WEIR_BACKEND_TRY(charge.result());
  const Device &home = platform_.devices()[device];
  uint64_t made = 0;
  WEIR_BACKEND_TRY(add({bytes, device, Kind::plain}, "zeMemAllocDevice", [&](uint64_t *start) {
    const Limits limits;
    abi::DeviceMemAllocDesc description;
    description.next = limits.chain(bytes, home.properties.max_mem_alloc_size);
    void *memory = nullptr;
    const abi::Result result = platform_.api().mem_alloc_device(
        platform_.context(), &description, bytes, alignment, home.handle, &memory);
    made = *start = number(memory);
    return result;
  }));
  charge.keep();
  *address = made;
  return WEIR_SUCCESS;
}

weir_result Memory::free_plain(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  WEIR_BACKEND_TRY(remove(address, {bytes, device, Kind::plain}, "plain_free",
                          [&] { return end(address, Kind::plain); }));
  usage_.give_back(device, bytes);
  return WEIR_SUCCESS;
}

weir_result Memory::allocate_host(uint64_t bytes, void **memory) {
  if (bytes == 0) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "host_allocate: 0 bytes");
  uint64_t limit = UINT64_MAX;
  for (const Device &device : platform_.devices()) {
    limit = std::min(limit, device.properties.max_mem_alloc_size);
  }
  void *made = nullptr;
  const weir_result result =
      add({bytes, WEIR_DEVICE_HOST, Kind::pinned}, "zeMemAllocHost", [&](uint64_t *start) {
        const Limits limits;
        abi::HostMemAllocDesc description;
        description.next = limits.chain(bytes, limit);
        const abi::Result code =
            platform_.api().mem_alloc_host(platform_.context(), &description, bytes, page, &made);
        *start = number(made);
        return code;
      });
  if (result == WEIR_SUCCESS) *memory = made;
  return result;
}

weir_result Memory::free_host(void *memory, uint64_t bytes) {
  return remove(number(memory), {bytes, WEIR_DEVICE_HOST, Kind::pinned}, "host_free",
                [&] { return end(number(memory), Kind::pinned); });
}

weir_result Memory::enroll(void *memory, uint64_t bytes) {
  if (platform_.import_pointer() == nullptr) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "%s",
                  platform_.options().host_register
                      ? "the driver has no zexDriverImportExternalPointer"
                      : "registering host memory is off (register=0)");
  }
  const uint64_t address = number(memory);
  if (memory == nullptr || bytes == 0 || address % page != 0 || bytes > UINT64_MAX - address) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "host_register: [%p, +%llu) is no page-aligned range", memory,
                  static_cast<Number>(bytes));
  }
  // Entered before the driver is asked, so that two calls for the same memory cannot both go on.
  {
    std::lock_guard hold(mutex_);
    const auto next = ranges_.lower_bound(address);
    const bool hits_next = next != ranges_.end() && next->first - address < bytes;
    const auto before = next != ranges_.begin() ? std::prev(next) : ranges_.end();
    if (hits_next || (before != ranges_.end() && address - before->first < before->second.bytes)) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "host_register: [%p, +%llu) is known already",
                    memory, static_cast<Number>(bytes));
    }
    ranges_.emplace_hint(next, address, Range{bytes, WEIR_DEVICE_HOST, Kind::registered});
  }
  const abi::Result result = platform_.import_pointer()(platform_.native_driver(), memory, bytes);
  if (result == abi::success) return WEIR_SUCCESS;
  std::lock_guard hold(mutex_);
  ranges_.erase(address);
  return runtime_refusal(result, "zexDriverImportExternalPointer of %llu bytes at %p",
                         static_cast<Number>(bytes), memory);
}

weir_result Memory::dismiss(void *memory, uint64_t bytes) {
  if (platform_.release_pointer() == nullptr) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "host memory cannot be registered here");
  }
  return remove(number(memory), {bytes, WEIR_DEVICE_HOST, Kind::registered}, "host_unregister",
                [&] { return end(number(memory), Kind::registered); });
}

bool Memory::contains(uint64_t address, uint64_t bytes, uint32_t *device) const {
  std::shared_lock hold(mutex_);
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return false;
  --it;
  const uint64_t offset = address - it->first;
  if (offset > it->second.bytes || bytes > it->second.bytes - offset) return false;
  *device = it->second.device;
  return true;
}

}  // namespace weir::level_zero

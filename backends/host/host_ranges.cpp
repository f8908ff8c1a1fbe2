// SPDX-License-Identifier: Apache-2.0
//
// Bookkeeping of host memory. Allocation is anonymous and lazy: nothing is pinned, as no device here needs
// it. System calls are made without the lock.
#include "backends/host/host_ranges.hpp"

#include "backends/host/fault.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <iterator>

namespace weir::host {
namespace {

using Number = unsigned long long;
constexpr uint64_t page = 4096;

uint64_t whole_pages(uint64_t bytes) noexcept { return (bytes + page - 1) / page * page; }

}  // namespace

HostRanges::~HostRanges() {
  for (const auto &[address, entry] : ranges_) {
    if (entry.own) munmap(reinterpret_cast<void *>(address), whole_pages(entry.bytes));
  }
}

weir_result HostRanges::allocate(uint64_t bytes, void **memory) {
  if (bytes == 0 || bytes > UINT64_MAX - page) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "host_allocate: %llu bytes",
                  static_cast<Number>(bytes));
  }
  void *start = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    const int error = errno;
    const weir_result result = system_failure(error);
    return error == ENOMEM ? WEIR_ERROR_OUT_OF_HOST_MEMORY : result;
  }
  (void)madvise(start, whole_pages(bytes), MADV_DONTFORK);
  weir_result result = WEIR_ERROR_OUT_OF_HOST_MEMORY;
  try {
    result = add(start, bytes, true);
  } catch (...) {
    munmap(start, whole_pages(bytes));
    throw;
  }
  if (result != WEIR_SUCCESS) {
    munmap(start, whole_pages(bytes));
    return result;
  }
  *memory = start;
  return WEIR_SUCCESS;
}

weir_result HostRanges::release(void *memory, uint64_t bytes) {
  WEIR_BACKEND_TRY(remove(memory, bytes, true, "host_free"));
  munmap(memory, whole_pages(bytes));
  return WEIR_SUCCESS;
}

weir_result HostRanges::enroll(void *memory, uint64_t bytes) {
  const uint64_t address = reinterpret_cast<uintptr_t>(memory);
  if (memory == nullptr || bytes == 0 || address % page != 0 || bytes > UINT64_MAX - address) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "host_register: [%p, +%llu) is no page-aligned range", memory,
                  static_cast<Number>(bytes));
  }
  return add(memory, bytes, false);
}

weir_result HostRanges::dismiss(void *memory, uint64_t bytes) {
  return remove(memory, bytes, false, "host_unregister");
}

weir_result HostRanges::add(void *memory, uint64_t bytes, bool own) {
  const uint64_t address = reinterpret_cast<uintptr_t>(memory);
  const std::lock_guard lock(mutex_);
  const auto above = ranges_.upper_bound(address + bytes - 1);
  if (above != ranges_.begin()) {
    const auto &[start, entry] = *std::prev(above);
    if (start + entry.bytes > address) {
      return refuse(
          WEIR_ERROR_INVALID_ARGUMENT, "host_register: [%p, +%llu) overlaps [%#llx, +%llu)", memory,
          static_cast<Number>(bytes), static_cast<Number>(start), static_cast<Number>(entry.bytes));
    }
  }
  ranges_.emplace_hint(above, address, Entry{bytes, own});
  return WEIR_SUCCESS;
}

weir_result HostRanges::remove(void *memory, uint64_t bytes, bool own, const char *what) {
  const std::lock_guard lock(mutex_);
  const auto at = ranges_.find(reinterpret_cast<uintptr_t>(memory));
  if (at == ranges_.end() || at->second.bytes != bytes || at->second.own != own) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s: [%p, +%llu) is no such range", what, memory,
                  static_cast<Number>(bytes));
  }
  ranges_.erase(at);
  return WEIR_SUCCESS;
}

}  // namespace weir::host

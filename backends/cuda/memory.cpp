// SPDX-License-Identifier: Apache-2.0
//
// Allocation and registration. Large registrations are made in parts: the driver keeps a table of a registration's
// pages in one piece of kernel memory, and from 512 GiB on refuses whatever memory there is (drivers of release 580).

#include "backends/cuda/memory.hpp"

#include "backends/common/undo.hpp"
#include "backends/cuda/context.hpp"
#include "backends/cuda/fault.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <iterator>

namespace weir::cuda {
namespace {

using common::AllocationTable;
using common::Undo;

constexpr uint64_t most_plain_alignment = uint64_t{2} << 20U;
constexpr uint64_t part = uint64_t{64} << 30U;  // of one registration

uint64_t page_size() noexcept {
  static const uint64_t size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}

uint64_t rounded(uint64_t value, uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

void *pointer(uint64_t address) noexcept { return reinterpret_cast<void *>(address); }

uint64_t parts_of(uint64_t bytes) noexcept { return (bytes + part - 1) / part; }

/// Memory of at least `bytes` whose start is a multiple of `alignment`: as it comes if it fits, else with a margin.
/// allocate(bytes, uint64_t *base) and release(base) are the driver's.
template <class Allocate, class Release>
abi::Result allocate_aligned(uint64_t bytes, uint64_t alignment, Allocate allocate, Release release,
                             uint64_t *base) {
  abi::Result result = allocate(bytes, base);
  if (result != abi::result::success || *base % alignment == 0) return result;
  const uint64_t unfit = *base;
  result = allocate(bytes + alignment, base);
  release(unfit);
  return result;
}

}  // namespace

weir_result plain_allocate(const Api &api, Device &device, uint64_t bytes, uint64_t alignment,
                           uint64_t *address) {
  if (bytes == 0 || bytes > uint64_t{1} << 62U) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "plain memory of %llu bytes", number(bytes));
  }
  if (!std::has_single_bit(alignment) || alignment > most_plain_alignment) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "alignment %#llx is no power of two of at most 2 MiB", number(alignment));
  }
  abi::Context context = nullptr;
  WEIR_BACKEND_TRY(device.context(&context));
  const Relaxed relaxed(api);
  const Current current(api, context);
  if (current.result() != abi::result::success) {
    return failure(api, context, current.result(), "the context of device %u", device.index());
  }
  const auto release = [&](uint64_t base) { end_quietly([&] { return api.cuMemFree(base); }); };
  uint64_t base = 0;
  const abi::Result result = allocate_aligned(
      bytes, alignment,
      [&](uint64_t size, uint64_t *out) {
        abi::DevicePointer made = 0;
        const abi::Result answer = api.cuMemAlloc(&made, size);
        *out = made;
        return answer;
      },
      release, &base);
  if (result != abi::result::success) {
    return failure(api, context, result, "cuMemAlloc of %llu bytes on device %u", number(bytes),
                   device.index());
  }
  Undo undo([&] { release(base); });
  const uint64_t start = rounded(base, alignment);
  device.plain().add(start, base, bytes);
  undo.dismiss();
  *address = start;
  return WEIR_SUCCESS;
}

weir_result plain_free(const Api &api, Device &device, uint64_t address, uint64_t bytes) {
  AllocationTable::Taken taken;
  WEIR_BACKEND_TRY(device.plain().take("plain memory of the device", address, bytes, &taken));
  const Relaxed relaxed(api);
  const abi::Result result =
      in_context(api, device.known_context(), [&] { return api.cuMemFree(taken.base()); });
  if (result == abi::result::success) return WEIR_SUCCESS;
  device.plain().put_back(std::move(taken));
  return failure(api, device.known_context(), result, "cuMemFree of %#llx on device %u",
                 number(address), device.index());
}

void plain_clear(const Api &api, Device &device) noexcept {
  const Relaxed relaxed(api);
  device.plain().clear([&](uint64_t base) {
    end_quietly([&] {
      return in_context(api, device.known_context(), [&] { return api.cuMemFree(base); });
    });
  });
}

weir_result HostMemory::allocate(abi::Context context, uint64_t bytes, void **memory) {
  if (bytes == 0 || bytes > uint64_t{1} << 62U) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "host memory of %llu bytes", number(bytes));
  }
  const Relaxed relaxed(api_);
  const Current current(api_, context);
  if (current.result() != abi::result::success) {
    return failure(api_, context, current.result(), "the context for host memory");
  }
  const auto release = [&](uint64_t base) {
    end_quietly([&] { return api_.cuMemFreeHost(pointer(base)); });
  };
  uint64_t base = 0;
  const abi::Result result = allocate_aligned(
      rounded(bytes, page_size()), page_size(),
      [&](uint64_t size, uint64_t *out) {
        void *made = nullptr;
        const abi::Result answer = api_.cuMemHostAlloc(&made, size, abi::host_allocate_portable);
        *out = reinterpret_cast<uintptr_t>(made);
        return answer;
      },
      release, &base);
  if (result != abi::result::success) {
    const weir_result failed =
        failure(api_, context, result, "cuMemHostAlloc of %llu bytes", number(bytes));
    return failed == WEIR_ERROR_DEVICE_OOM ? WEIR_ERROR_OUT_OF_HOST_MEMORY : failed;
  }
  Undo undo([&] { release(base); });
  const uint64_t start = rounded(base, page_size());
  allocations_.add(start, base, bytes);
  undo.dismiss();
  *memory = pointer(start);
  return WEIR_SUCCESS;
}

weir_result HostMemory::release(abi::Context context, void *memory, uint64_t bytes) {
  AllocationTable::Taken taken;
  const uint64_t address = reinterpret_cast<uintptr_t>(memory);
  WEIR_BACKEND_TRY(allocations_.take("host memory of the backend", address, bytes, &taken));
  const Relaxed relaxed(api_);
  const abi::Result result =
      in_context(api_, context, [&] { return api_.cuMemFreeHost(pointer(taken.base())); });
  if (result == abi::result::success) return WEIR_SUCCESS;
  allocations_.put_back(std::move(taken));
  return failure(api_, context, result, "cuMemFreeHost of %p", memory);
}

weir_result HostMemory::begin_enroll(uint64_t address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto next = registrations_.lower_bound(address);
  const bool hits_next = next != registrations_.end() && next->first - address < bytes;
  const bool hits_previous = next != registrations_.begin() &&
                             address - std::prev(next)->first < std::prev(next)->second.bytes;
  if (hits_next || hits_previous) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "something is registered in [%#llx, +%llu) already",
                  number(address), number(bytes));
  }
  registrations_.emplace(address, Registration{bytes, true});
  return WEIR_SUCCESS;
}

weir_result HostMemory::enroll(abi::Context context, void *memory, uint64_t bytes) {
  const uint64_t address = reinterpret_cast<uintptr_t>(memory);
  if (memory == nullptr || bytes == 0 || address % page_size() != 0 ||
      bytes > UINT64_MAX - address) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "[%p, +%llu) is no page-aligned range", memory,
                  number(bytes));
  }
  WEIR_BACKEND_TRY(begin_enroll(address, bytes));
  Undo forget([&] {
    const std::lock_guard lock(mutex_);
    registrations_.erase(address);
  });
  const Relaxed relaxed(api_);
  const Current current(api_, context);
  if (current.result() != abi::result::success) {
    return failure(api_, context, current.result(), "the context for host memory");
  }
  uint64_t done = 0;
  Undo take_back([&] { unregister(context, address, done); });
  while (done < bytes) {
    const uint64_t size = std::min(part, bytes - done);
    const abi::Result result =
        api_.cuMemHostRegister(pointer(address + done), size, abi::host_register_portable);
    if (result == abi::result::host_memory_already_registered) {
      failure(api_, context, result, "[%p, +%llu) or a part of it is registered outside Weir",
              memory, number(bytes));
      return WEIR_ERROR_INVALID_ARGUMENT;
    }
    if (result != abi::result::success) {
      const weir_result failed =
          failure(api_, context, result, "cuMemHostRegister of [%#llx, +%llu)",
                  number(address + done), number(size));
      return failed == WEIR_ERROR_DEVICE_OOM ? WEIR_ERROR_OUT_OF_HOST_MEMORY : failed;
    }
    done += size;
  }
  take_back.dismiss();
  forget.dismiss();
  const std::lock_guard lock(mutex_);
  registrations_.find(address)->second.busy = false;
  seams_.fetch_add(parts_of(bytes) - 1, std::memory_order_release);
  return WEIR_SUCCESS;
}

/// Ends all parts, from the last to the first, each tried twice; the first failure, if any.
abi::Result HostMemory::unregister(abi::Context context, uint64_t address,
                                   uint64_t bytes) noexcept {
  abi::Result outcome = abi::result::success;
  for (uint64_t each = parts_of(bytes); each > 0; --each) {
    const auto end_part = [&] {
      return in_context(api_, context, [&] {
        return api_.cuMemHostUnregister(pointer(address + (each - 1) * part));
      });
    };
    if (end_part() == abi::result::success) continue;
    const abi::Result result = end_part();
    if (result != abi::result::success && outcome == abi::result::success) outcome = result;
  }
  return outcome;
}

weir_result HostMemory::dismiss(abi::Context context, void *memory, uint64_t bytes) {
  const uint64_t address = reinterpret_cast<uintptr_t>(memory);
  {
    const std::lock_guard lock(mutex_);
    const auto entry = registrations_.find(address);
    if (entry == registrations_.end() || entry->second.busy || entry->second.bytes != bytes) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "[%p, +%llu) is not registered", memory,
                    number(bytes));
    }
    entry->second.busy = true;
  }
  const Relaxed relaxed(api_);
  // A part that would not go leaves the range as it was to the caller, which may try again; parts that went answer "not
  // registered" then, which is what is wanted of them.
  abi::Result result = unregister(context, address, bytes);
  if (result == abi::result::host_memory_not_registered) result = abi::result::success;
  const std::lock_guard lock(mutex_);
  const auto entry = registrations_.find(address);
  if (result == abi::result::success) {
    registrations_.erase(entry);
    seams_.fetch_sub(parts_of(bytes) - 1, std::memory_order_release);
    return WEIR_SUCCESS;
  }
  entry->second.busy = false;
  return failure(api_, context, result, "cuMemHostUnregister of [%p, +%llu)", memory,
                 number(bytes));
}

void HostMemory::clear(abi::Context context) noexcept {
  const Relaxed relaxed(api_);
  for (const auto &[address, entry] : registrations_) unregister(context, address, entry.bytes);
  registrations_.clear();
  allocations_.clear([&](uint64_t base) {
    end_quietly([&] {
      return in_context(api_, context, [&] { return api_.cuMemFreeHost(pointer(base)); });
    });
  });
}

uint64_t HostMemory::run_before_seam(uint64_t address, uint64_t bytes) const noexcept {
  const std::shared_lock lock(mutex_);
  const auto next = registrations_.upper_bound(address);
  if (next == registrations_.begin()) return bytes;
  const auto &[start, entry] = *std::prev(next);
  if (address - start >= entry.bytes) return bytes;
  return std::min(bytes, part - (address - start) % part);
}

}  // namespace weir::cuda

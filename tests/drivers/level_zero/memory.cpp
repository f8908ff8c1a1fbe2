// SPDX-License-Identifier: Apache-2.0
//
// Contexts, allocations of device and host memory, and the program's own memory imported for copies. Memory belongs to
// its context; imported memory to the driver.
#include <bit>
#include <cstring>

#include "tests/drivers/level_zero/driver.hpp"
#include "tests/drivers/level_zero/extensions.hpp"
#include "tests/drivers/level_zero/tables.hpp"

namespace weir::sim::ze {
namespace {

using Number = unsigned long long;

ze_result_t create_context(Driver &driver, const char *name, ze_driver_handle_t handle,
                           const ze_context_desc_t *desc, uint32_t count,
                           ze_device_handle_t *devices, ze_context_handle_t *out) {
  if (static_cast<const void *>(handle) != &driver.handle) {
    return driver.bad_handle(name, "driver", handle);
  }
  if (desc == nullptr || out == nullptr) return driver.null_pointer(name, "desc or phContext");
  if (desc->stype != ZE_STRUCTURE_TYPE_CONTEXT_DESC || desc->flags > 0x1) {
    return driver.misuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "%s: stype %#x, flags %#x", name,
                         static_cast<unsigned>(desc->stype), desc->flags);
  }
  if (devices == nullptr && count != 0) {
    return driver.misuse(ZE_RESULT_ERROR_INVALID_SIZE, "%s: %u devices of NULL", name, count);
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (driver.device(devices[i]) == nullptr) return driver.bad_handle(name, "device", devices[i]);
  }
  auto context = std::make_shared<Context>(driver.machine.census());
  driver.contexts.add(context);
  *out = as_handle<ze_context_handle_t>(context.get());
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeContextCreate(ze_driver_handle_t handle, const ze_context_desc_t *desc,
                            ze_context_handle_t *out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) {
    return create_context(driver, name, handle, desc, 0, nullptr, out);
  });
}

ze_result_t zeContextCreateEx(ze_driver_handle_t handle, const ze_context_desc_t *desc,
                              uint32_t count, ze_device_handle_t *devices,
                              ze_context_handle_t *out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) {
    return create_context(driver, name, handle, desc, count, devices, out);
  });
}

ze_result_t zeContextDestroy(ze_context_handle_t handle) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const auto context = driver.contexts.find(handle);
    if (context == nullptr) return driver.bad_handle(name, "context", handle);
    if (context->owns != 0) {
      return driver.misuse(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE,
                           "%s: %llu objects and allocations of the context live", name,
                           static_cast<Number>(context->owns));
    }
    driver.contexts.remove(handle);
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeContextGetStatus(ze_context_handle_t handle) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    if (driver.contexts.find(handle) == nullptr) return driver.bad_handle(name, "context", handle);
    for (const auto &each : driver.devices) {
      if (driver.state_of(each->index) != ZE_RESULT_SUCCESS) return ZE_RESULT_ERROR_DEVICE_LOST;
    }
    return ZE_RESULT_SUCCESS;
  });
}

bool power_of_two_or_zero(size_t alignment) noexcept {
  return alignment == 0 || std::has_single_bit(alignment);
}

ze_result_t zeMemAllocDevice(ze_context_handle_t handle, const ze_device_mem_alloc_desc_t *desc,
                             size_t size, size_t alignment, ze_device_handle_t on, void **out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const auto context = driver.contexts.find(handle);
    if (context == nullptr) return driver.bad_handle(name, "context", handle);
    const Device *device = driver.device(on);
    if (device == nullptr) return driver.bad_handle(name, "device", on);
    if (const ze_result_t lost = driver.state_of(device->index); lost != ZE_RESULT_SUCCESS) {
      return lost;
    }
    if (desc == nullptr || out == nullptr) return driver.null_pointer(name, "device_desc or pptr");
    if (desc->stype != ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC || desc->flags > 0x7 ||
        desc->ordinal != 0) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ENUMERATION,
                           "%s: stype %#x, flags %#x, ordinal %u", name,
                           static_cast<unsigned>(desc->stype), desc->flags, desc->ordinal);
    }
    if (size == 0) return driver.misuse(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "%s: size 0", name);
    if (!power_of_two_or_zero(alignment) || alignment > (size_t{2} << 20)) {
      return driver.misuse(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT, "%s: alignment %zu", name,
                           alignment);
    }
    const auto *relaxed = chained<ze_relaxed_allocation_limits_exp_desc_t>(
        desc->pNext, ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC);
    const bool limited = relaxed == nullptr ||
                         (relaxed->flags & ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE) == 0;
    if (limited && size > driver.max_alloc()) return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    uint64_t address = 0;
    const Answer answer = driver.machine.plain_allocate(device->index, size,
                                                        alignment == 0 ? 64 : alignment, &address);
    if (answer != Answer::ok) return Driver::result_of(answer);
    Range range;
    range.what = Range::What::device;
    range.bytes = size;
    range.device = device->index;
    range.context.emplace(context);
    try {
      driver.ranges.add(address, std::move(range));
    } catch (...) {
      driver.machine.plain_free(address);
      throw;
    }
    *out = reinterpret_cast<void *>(address);
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeMemAllocHost(ze_context_handle_t handle, const ze_host_mem_alloc_desc_t *desc,
                           size_t size, size_t alignment, void **out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const auto context = driver.contexts.find(handle);
    if (context == nullptr) return driver.bad_handle(name, "context", handle);
    if (desc == nullptr || out == nullptr) return driver.null_pointer(name, "host_desc or pptr");
    if (desc->stype != ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC || desc->flags > 0xf) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "%s: stype %#x, flags %#x", name,
                           static_cast<unsigned>(desc->stype), desc->flags);
    }
    if (size == 0) return driver.misuse(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "%s: size 0", name);
    if (!power_of_two_or_zero(alignment) || alignment > 4096) {
      return driver.misuse(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT, "%s: alignment %zu", name,
                           alignment);
    }
    void *memory = nullptr;
    const Answer answer = driver.machine.host().allocate(size, &memory);
    if (answer != Answer::ok) return Driver::result_of(answer);
    Range range;
    range.what = Range::What::host;
    range.bytes = size;
    range.context.emplace(context);
    try {
      driver.ranges.add(reinterpret_cast<uintptr_t>(memory), std::move(range));
    } catch (...) {
      driver.machine.host().release(memory);
      throw;
    }
    *out = memory;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeMemFree(ze_context_handle_t handle, void *memory) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const auto context = driver.contexts.find(handle);
    if (context == nullptr) return driver.bad_handle(name, "context", handle);
    if (memory == nullptr) return driver.null_pointer(name, "ptr");
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const Range *range = driver.ranges.at(address);
    const bool allocated = range != nullptr &&
                           (range->what == Range::What::device || range->what == Range::What::host);
    if (!allocated || range->context->get() != context.get()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "%s: %p is no allocation of the context", name, memory);
    }
    if (driver.in_use(address, range->bytes) && !driver.find_stuck()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "%s: a pending command uses the memory at %p", name, memory);
    }
    const bool on_device = range->what == Range::What::device;
    driver.ranges.remove(address);
    return Driver::result_of(on_device ? driver.machine.plain_free(address)
                                       : driver.machine.host().release(memory));
  });
}

/// The range around an address, or nullptr.
const std::pair<const uint64_t, Range> *around(const Driver &driver, const void *memory) {
  const auto found = driver.ranges.touching(reinterpret_cast<uintptr_t>(memory), 1);
  return found != driver.ranges.end() ? &*found : nullptr;
}

ze_result_t zeMemGetAllocProperties(ze_context_handle_t handle, const void *memory,
                                    ze_memory_allocation_properties_t *properties,
                                    ze_device_handle_t *on) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const auto context = driver.contexts.find(handle);
    if (context == nullptr) return driver.bad_handle(name, "context", handle);
    if (memory == nullptr || properties == nullptr) {
      return driver.null_pointer(name, "ptr or pMemAllocProperties");
    }
    properties->type = ZE_MEMORY_TYPE_UNKNOWN;
    properties->id = 0;
    properties->pageSize = 0;
    if (on != nullptr) *on = nullptr;
    const auto *found = around(driver, memory);
    // Memory of another context and imported memory are as unknown as any.
    if (found == nullptr || !found->second.context.has_value() ||
        found->second.context->get() != context.get()) {
      return ZE_RESULT_SUCCESS;
    }
    const Range &range = found->second;
    uint32_t device = range.device;
    if (range.what == Range::What::reservation) {
      const Found what = driver.machine.addresses().find(reinterpret_cast<uintptr_t>(memory));
      if (what.what != Found::What::mapped) return ZE_RESULT_SUCCESS;
      device = what.device;
    }
    const bool on_host = range.what == Range::What::host;
    properties->type = on_host ? ZE_MEMORY_TYPE_HOST : ZE_MEMORY_TYPE_DEVICE;
    properties->id = range.id;
    properties->pageSize = on_host ? 4096 : driver.page_size(range.bytes);
    if (on != nullptr && !on_host) {
      *on = as_handle<ze_device_handle_t>(driver.devices[device].get());
    }
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeMemGetAddressRange(ze_context_handle_t handle, const void *memory, void **base,
                                 size_t *size) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const auto context = driver.contexts.find(handle);
    if (context == nullptr) return driver.bad_handle(name, "context", handle);
    if (memory == nullptr) return driver.null_pointer(name, "ptr");
    const auto *found = around(driver, memory);
    if (found == nullptr || !found->second.context.has_value() ||
        found->second.context->get() != context.get()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: %p is no memory of the context",
                           name, memory);
    }
    if (base != nullptr) *base = reinterpret_cast<void *>(found->first);
    if (size != nullptr) *size = found->second.bytes;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zexDriverImportExternalPointer(ze_driver_handle_t handle, void *memory, size_t size) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    if (static_cast<const void *>(handle) != &driver.handle) {
      return driver.bad_handle(name, "driver", handle);
    }
    if (memory == nullptr) return driver.null_pointer(name, "ptr");
    const auto address = reinterpret_cast<uintptr_t>(memory);
    if (size == 0 || driver.ranges.touching(address, size) != driver.ranges.end()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "%s: %p, %zu bytes: nothing, or memory that is known", name, memory,
                           size);
    }
    const Answer answer = driver.machine.host().enroll(memory, size);
    if (answer != Answer::ok) return Driver::result_of(answer);
    Range range;
    range.what = Range::What::imported;
    range.bytes = size;
    try {
      driver.ranges.add(address, std::move(range));
    } catch (...) {
      driver.machine.host().dismiss(memory);
      throw;
    }
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zexDriverReleaseImportedPointer(ze_driver_handle_t handle, void *memory) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    if (static_cast<const void *>(handle) != &driver.handle) {
      return driver.bad_handle(name, "driver", handle);
    }
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const Range *range = driver.ranges.at(address);
    if (range == nullptr || range->what != Range::What::imported) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: %p is no imported pointer", name,
                           memory);
    }
    if (driver.in_use(address, range->bytes) && !driver.find_stuck()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "%s: a pending command uses the memory at %p", name, memory);
    }
    driver.ranges.remove(address);
    return Driver::result_of(driver.machine.host().dismiss(memory));
  });
}

ze_result_t zexDriverGetHostPointerBaseAddress(ze_driver_handle_t handle, void *memory,
                                               void **base) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    if (static_cast<const void *>(handle) != &driver.handle) {
      return driver.bad_handle(name, "driver", handle);
    }
    const auto *found = around(driver, memory);
    if (found == nullptr || found->second.what != Range::What::imported) {
      return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    if (base != nullptr) *base = reinterpret_cast<void *>(found->first);
    return ZE_RESULT_SUCCESS;
  });
}

template <class Function>
void *address_of(Function *function) noexcept {
  void *address = nullptr;
  static_assert(sizeof address == sizeof function);
  std::memcpy(&address, &function, sizeof address);
  return address;
}

}  // namespace

void *extension_function(const char *name) noexcept {
  if (std::strcmp(name, "zexDriverImportExternalPointer") == 0) {
    return address_of(&zexDriverImportExternalPointer);
  }
  if (std::strcmp(name, "zexDriverReleaseImportedPointer") == 0) {
    return address_of(&zexDriverReleaseImportedPointer);
  }
  if (std::strcmp(name, "zexDriverGetHostPointerBaseAddress") == 0) {
    return address_of(&zexDriverGetHostPointerBaseAddress);
  }
  return nullptr;
}

void fill(ze_context_dditable_t &table) noexcept {
  table.pfnCreate = zeContextCreate;
  table.pfnCreateEx = zeContextCreateEx;
  table.pfnDestroy = zeContextDestroy;
  table.pfnGetStatus = zeContextGetStatus;
}

void fill(ze_mem_dditable_t &table) noexcept {
  table.pfnAllocDevice = zeMemAllocDevice;
  table.pfnAllocHost = zeMemAllocHost;
  table.pfnFree = zeMemFree;
  table.pfnGetAllocProperties = zeMemGetAllocProperties;
  table.pfnGetAddressRange = zeMemGetAddressRange;
}

}  // namespace weir::sim::ze

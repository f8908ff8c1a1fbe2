// SPDX-License-Identifier: Apache-2.0
//
// Reservations of addresses, physical memory objects and mappings. A page is larger for larger sizes, and every size is
// held to its own. Reservations and physical memory belong to a context and meet only there. A physical memory
// object has one address at a time, unless the driver's option says otherwise. Nothing here waits for commands.
#include <algorithm>

#include "tests/drivers/level_zero/driver.hpp"
#include "tests/drivers/level_zero/tables.hpp"

namespace weir::sim::ze {
namespace {

using Number = unsigned long long;

/// What all of these ask first. *context may be NULL afterwards only with a failure.
ze_result_t begin(Driver &driver, const char *name, ze_context_handle_t handle,
                  std::shared_ptr<Context> *context) {
  *context = driver.contexts.find(handle);
  if (*context == nullptr) return driver.bad_handle(name, "context", handle);
  return driver.machine.options().vmm ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

/// The reservation of the context that holds the whole range, or a refusal.
ze_result_t find_reservation(Driver &driver, const char *name, const Context *context,
                             const void *memory, size_t size) {
  if (memory == nullptr) return driver.null_pointer(name, "ptr");
  if (size == 0) return driver.misuse(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "%s: size 0", name);
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const uint64_t page = driver.page_size(1);
  if (address % page != 0) {
    return driver.misuse(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
                         "%s: %p is no multiple of the page, %llu bytes", name, memory,
                         static_cast<Number>(page));
  }
  if (size % page != 0) {
    return driver.misuse(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                         "%s: %zu bytes are no multiple of the page, %llu bytes", name, size,
                         static_cast<Number>(page));
  }
  const auto found = driver.ranges.touching(address, size);
  if (found == driver.ranges.end() || found->second.what != Range::What::reservation ||
      address < found->first || size > found->second.bytes - (address - found->first)) {
    return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                         "%s: %p, %zu bytes are not inside one reservation", name, memory, size);
  }
  if (found->second.context->get() == context) return ZE_RESULT_SUCCESS;
  return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "%s: the reservation at %p belongs to another context", name, memory);
}

ze_result_t device_of_mapping(Driver &driver, uint64_t address) {
  const auto it = driver.ranges.mappings().find(address);
  return it != driver.ranges.mappings().end()
             ? driver.state_of(it->second.physical->memory->device())
             : ZE_RESULT_SUCCESS;
}

/// Removes the mappings of a range that is made of whole ones.
Answer remove_mappings(Driver &driver, uint64_t address, uint64_t bytes) {
  const Answer answer = driver.machine.addresses().unmap(address, bytes);
  if (answer != Answer::ok) return answer;
  auto &mappings = driver.ranges.mappings();
  for (auto it = mappings.lower_bound(address); it != mappings.end() && it->first < address + bytes;
       it = mappings.erase(it)) {
    --it->second.physical->mappings;
  }
  return Answer::ok;
}

Access access_of(ze_memory_access_attribute_t access) noexcept {
  switch (access) {
    case ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE:
      return Access::read_write;
    case ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY:
      return Access::read;
    default:
      return Access::none;
  }
}

bool is_access(ze_memory_access_attribute_t access) noexcept {
  return static_cast<uint32_t>(access) <= ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY;
}

ze_result_t zeVirtualMemQueryPageSize(ze_context_handle_t handle, ze_device_handle_t on,
                                      size_t size, size_t *page) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Context> context;
    const ze_result_t bad = begin(driver, name, handle, &context);
    if (bad != ZE_RESULT_SUCCESS) return bad;
    const Device *device = driver.device(on);
    if (device == nullptr) return driver.bad_handle(name, "device", on);
    if (page == nullptr) return driver.null_pointer(name, "pagesize");
    if (size == 0) return driver.misuse(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "%s: size 0", name);
    const ze_result_t lost = driver.state_of(device->index);
    if (lost == ZE_RESULT_SUCCESS) *page = driver.page_size(size);
    return lost;
  });
}

ze_result_t zeVirtualMemReserve(ze_context_handle_t handle, const void *, size_t size, void **out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Context> context;
    const ze_result_t bad = begin(driver, name, handle, &context);
    if (bad != ZE_RESULT_SUCCESS) return bad;
    if (out == nullptr) return driver.null_pointer(name, "pptr");
    const uint64_t page = driver.page_size(size);
    if (size == 0 || size % page != 0) {
      return driver.misuse(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                           "%s: %zu bytes are no multiple of their page, %llu bytes", name, size,
                           static_cast<Number>(page));
    }
    // Where the program wishes to begin is a wish.
    uint64_t address = 0;
    const Answer answer = driver.machine.addresses().reserve(size, page, &address);
    if (answer != Answer::ok) return Driver::result_of(answer);
    Range range;
    range.what = Range::What::reservation;
    range.bytes = size;
    range.context.emplace(context);
    try {
      driver.ranges.add(address, std::move(range));
    } catch (...) {
      driver.machine.addresses().free(address, size);
      throw;
    }
    *out = reinterpret_cast<void *>(address);
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeVirtualMemFree(ze_context_handle_t handle, const void *memory, size_t size) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Context> context;
    ze_result_t bad = begin(driver, name, handle, &context);
    if (bad == ZE_RESULT_SUCCESS) {
      bad = find_reservation(driver, name, context.get(), memory, size);
    }
    if (bad != ZE_RESULT_SUCCESS) return bad;
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const Range *range = driver.ranges.at(address);
    if (range == nullptr || range->bytes != size) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "%s: %p, %zu bytes are not what was reserved", name, memory, size);
    }
    if (driver.in_use(address, size) && !driver.find_stuck()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: a pending command uses %p", name,
                           memory);
    }
    // The API says that mappings go with the reservation.
    auto &mappings = driver.ranges.mappings();
    for (auto it = mappings.lower_bound(address);
         it != mappings.end() && it->first < address + size; it = mappings.lower_bound(address)) {
      const Answer answer = remove_mappings(driver, it->first, it->second.bytes);
      if (answer != Answer::ok) return Driver::result_of(answer);
    }
    const Answer answer = driver.machine.addresses().free(address, size);
    if (answer == Answer::ok) {
      driver.ranges.remove(address);
      driver.imports.forget(address, size);
    }
    return Driver::result_of(answer);
  });
}

ze_result_t zeVirtualMemMap(ze_context_handle_t handle, const void *memory, size_t size,
                            ze_physical_mem_handle_t of, size_t offset,
                            ze_memory_access_attribute_t access) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Context> context;
    ze_result_t bad = begin(driver, name, handle, &context);
    if (bad != ZE_RESULT_SUCCESS) return bad;
    const auto physical = driver.physicals.find(of);
    if (physical == nullptr) return driver.bad_handle(name, "physical memory", of);
    const uint32_t device = physical->memory->device();
    if (const ze_result_t lost = driver.state_of(device); lost != ZE_RESULT_SUCCESS) return lost;
    if (!is_access(access)) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "%s: access %u", name,
                           static_cast<unsigned>(access));
    }
    bad = find_reservation(driver, name, context.get(), memory, size);
    if (bad != ZE_RESULT_SUCCESS) return bad;
    if (physical->context.get() != context.get()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "%s: the physical memory belongs to another context", name);
    }
    const uint64_t page = driver.page_size(physical->memory->bytes());
    if (offset % driver.page_size(1) != 0 || size % driver.page_size(size) != 0) {
      return driver.misuse(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
                           "%s: %zu bytes at offset %zu are no multiple of the page, %llu bytes",
                           name, size, offset, static_cast<Number>(page));
    }
    if (physical->mappings != 0 && !driver.options.multi_map) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "%s: the physical memory has an address already", name);
    }
    const auto address = reinterpret_cast<uintptr_t>(memory);
    auto [place, fresh] = driver.ranges.mappings().try_emplace(address, Mapping{size, physical});
    if (!fresh) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: %p is mapped already", name,
                           memory);
    }
    Answer answer = Answer::out_of_host_memory;
    try {
      answer = driver.machine.addresses().map(address, size, physical->memory, offset);
      if (answer == Answer::ok) {
        answer = driver.machine.addresses().set_access(address, size, driver.accessors(device),
                                                       access_of(access));
        if (answer != Answer::ok) driver.machine.addresses().unmap(address, size);
      }
    } catch (...) {
      driver.ranges.mappings().erase(place);
      throw;
    }
    if (answer != Answer::ok) {
      driver.ranges.mappings().erase(place);
      return Driver::result_of(answer);
    }
    ++physical->mappings;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeVirtualMemUnmap(ze_context_handle_t handle, const void *memory, size_t size) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Context> context;
    ze_result_t bad = begin(driver, name, handle, &context);
    if (bad == ZE_RESULT_SUCCESS) {
      bad = find_reservation(driver, name, context.get(), memory, size);
    }
    if (bad != ZE_RESULT_SUCCESS) return bad;
    const auto address = reinterpret_cast<uintptr_t>(memory);
    if (driver.in_use(address, size) && !driver.find_stuck()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "%s: a pending command uses %p, and unmapping does not wait", name,
                           memory);
    }
    return Driver::result_of(remove_mappings(driver, address, size));
  });
}

ze_result_t zeVirtualMemSetAccessAttribute(ze_context_handle_t handle, const void *memory,
                                           size_t size, ze_memory_access_attribute_t access) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Context> context;
    ze_result_t bad = begin(driver, name, handle, &context);
    if (bad != ZE_RESULT_SUCCESS) return bad;
    if (!is_access(access)) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "%s: access %u", name,
                           static_cast<unsigned>(access));
    }
    bad = find_reservation(driver, name, context.get(), memory, size);
    if (bad != ZE_RESULT_SUCCESS) return bad;
    const auto address = reinterpret_cast<uintptr_t>(memory);
    if (const ze_result_t lost = device_of_mapping(driver, address); lost != ZE_RESULT_SUCCESS) {
      return lost;
    }
    // Mapping by mapping: each has its own device, whose peers may follow.
    auto &mappings = driver.ranges.mappings();
    uint64_t at = address;
    for (auto it = mappings.find(address); at < address + size; it = mappings.find(at)) {
      if (it == mappings.end() || it->second.bytes > address + size - at) {
        return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                             "%s: %p, %zu bytes are not made of whole mappings", name, memory,
                             size);
      }
      at += it->second.bytes;
    }
    for (auto it = mappings.find(address); it != mappings.end() && it->first < at; ++it) {
      const uint32_t device = it->second.physical->memory->device();
      const Answer answer = driver.machine.addresses().set_access(
          it->first, it->second.bytes, driver.accessors(device), access_of(access));
      if (answer != Answer::ok) return Driver::result_of(answer);
    }
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeVirtualMemGetAccessAttribute(ze_context_handle_t handle, const void *memory,
                                           size_t size, ze_memory_access_attribute_t *access,
                                           size_t *reach) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Context> context;
    ze_result_t bad = begin(driver, name, handle, &context);
    if (bad == ZE_RESULT_SUCCESS) {
      bad = find_reservation(driver, name, context.get(), memory, size);
    }
    if (bad != ZE_RESULT_SUCCESS) return bad;
    if (access == nullptr || reach == nullptr) {
      return driver.null_pointer(name, "access or outSize");
    }
    *access = ZE_MEMORY_ACCESS_ATTRIBUTE_NONE;
    *reach = size;
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const Found found = driver.machine.addresses().find(address);
    if (found.what != Found::What::mapped) return ZE_RESULT_SUCCESS;
    *reach = std::min<uint64_t>(size, found.address + found.bytes - address);
    Access held = Access::none;
    const Answer answer = driver.machine.addresses().get_access(address, found.device, &held);
    if (answer != Answer::ok) return Driver::result_of(answer);
    if (held == Access::read) *access = ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY;
    if (held == Access::read_write) *access = ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zePhysicalMemCreate(ze_context_handle_t handle, ze_device_handle_t on,
                                ze_physical_mem_desc_t *desc, ze_physical_mem_handle_t *out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Context> context;
    const ze_result_t bad = begin(driver, name, handle, &context);
    if (bad != ZE_RESULT_SUCCESS) return bad;
    const Device *device = driver.device(on);
    if (device == nullptr) return driver.bad_handle(name, "device", on);
    if (const ze_result_t lost = driver.state_of(device->index); lost != ZE_RESULT_SUCCESS) {
      return lost;
    }
    if (desc == nullptr || out == nullptr) {
      return driver.null_pointer(name, "desc or phPhysicalMemory");
    }
    if (desc->stype != ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC || desc->flags > 0x1) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "%s: stype %#x, flags %#x", name,
                           static_cast<unsigned>(desc->stype), desc->flags);
    }
    const uint64_t page = driver.page_size(desc->size);
    if (desc->size == 0 || desc->size % page != 0) {
      return driver.misuse(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                           "%s: %zu bytes are no multiple of their page, %llu bytes", name,
                           desc->size, static_cast<Number>(page));
    }
    std::shared_ptr<Physical> memory;
    const Answer answer =
        driver.machine.make_physical(device->index, desc->size, share_none, &memory);
    if (answer != Answer::ok) return Driver::result_of(answer);
    auto physical = std::make_shared<PhysicalMemory>(driver.machine.census(), context, memory);
    driver.physicals.add(physical);
    *out = as_handle<ze_physical_mem_handle_t>(physical.get());
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zePhysicalMemDestroy(ze_context_handle_t handle, ze_physical_mem_handle_t of) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Context> context;
    const ze_result_t bad = begin(driver, name, handle, &context);
    if (bad != ZE_RESULT_SUCCESS) return bad;
    const auto physical = driver.physicals.find(of);
    if (physical == nullptr) return driver.bad_handle(name, "physical memory", of);
    if (physical->context.get() != context.get()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "%s: the physical memory belongs to another context", name);
    }
    if (physical->mappings != 0) {
      return driver.misuse(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE,
                           "%s: the physical memory is mapped", name);
    }
    driver.physicals.remove(of);
    return ZE_RESULT_SUCCESS;
  });
}

}  // namespace

void fill(ze_virtual_mem_dditable_t &table) noexcept {
  table.pfnQueryPageSize = zeVirtualMemQueryPageSize;
  table.pfnReserve = zeVirtualMemReserve;
  table.pfnFree = zeVirtualMemFree;
  table.pfnMap = zeVirtualMemMap;
  table.pfnUnmap = zeVirtualMemUnmap;
  table.pfnSetAccessAttribute = zeVirtualMemSetAccessAttribute;
  table.pfnGetAccessAttribute = zeVirtualMemGetAccessAttribute;
}

void fill(ze_physical_mem_dditable_t &table) noexcept {
  table.pfnCreate = zePhysicalMemCreate;
  table.pfnDestroy = zePhysicalMemDestroy;
}

}  // namespace weir::sim::ze

// SPDX-License-Identifier: Apache-2.0
//
// Memory with an address at once, the host's memory, and questions about pointers. Freeing waits for the
// devices' work, as the vendor's driver does; nothing should rely on it, and unmapping (vmm.cpp) does not.

#include "tests/drivers/cuda/driver.hpp"

using namespace weir::sim_cuda;
namespace sim = weir::sim;
namespace pointer = weir::cuda::abi::pointer_attribute;

namespace {

/// What allocations are aligned to, as the vendor promises for any use of them.
constexpr uint64_t allocation_alignment = 512;

uint64_t number_of(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }

/// With a current context, even one in trouble: to end something. The answer is the trouble, if the body has none.
template <class Body>
Result ending(const char *name, Body body) noexcept {
  return initialized(name, [&](Driver &driver) -> Result {
    ContextObject *context = nullptr;
    WEIR_SIM_TRY(driver.current(&context));
    WEIR_SIM_TRY(driver.unsafe());
    driver.drain_all();
    WEIR_SIM_TRY(body(driver, *context));
    return driver.health(*context);
  });
}

/// What an address is, in the vendor's terms.
struct Pointer {
  unsigned memory_type = 0;  ///< 0: nothing that the driver knows
  abi::Context context = nullptr;
  int device = -1;
  uint64_t start = 0, bytes = 0;
  bool mapped = false;
};

Pointer describe(Driver &driver, uint64_t address) {
  Pointer about;
  const sim::Found found = driver.machine.addresses().find(address);
  if (found.what == sim::Found::What::host) {
    sim::HostKind kind = sim::HostKind::pageable;
    if (!driver.machine.host().find(address, &about.start, &about.bytes, &kind)) return about;
    about.memory_type = abi::memory_host;
    about.device = 0;
    about.mapped = true;
    return about;
  }
  if (found.what == sim::Found::What::stale) return about;
  about.memory_type = abi::memory_device;
  about.start = found.address;
  about.bytes = found.bytes;
  about.mapped = found.what != sim::Found::What::reserved;
  if (!about.mapped) return about;
  about.device = static_cast<int>(found.device);
  // Mapped memory belongs to no context.
  if (found.what == sim::Found::What::plain) about.context = &driver.primary(about.device);
  return about;
}

Result give(const Pointer &about, int which, uint64_t address, void *value) {
  switch (which) {
    case pointer::context:
      *static_cast<abi::Context *>(value) = about.context;
      break;
    case pointer::memory_type:
      *static_cast<unsigned *>(value) = about.memory_type;
      break;
    case pointer::device_pointer:
      *static_cast<abi::DevicePointer *>(value) = address;
      break;
    case pointer::host_pointer:
      if (about.memory_type != abi::memory_host) return result::invalid_value;
      *static_cast<void **>(value) = reinterpret_cast<void *>(static_cast<uintptr_t>(address));
      break;
    case pointer::device_ordinal:
      *static_cast<int *>(value) = about.device;
      break;
    case pointer::range_start:
      *static_cast<abi::DevicePointer *>(value) = about.start;
      break;
    case pointer::range_size:
      *static_cast<size_t *>(value) = about.bytes;
      break;
    case pointer::mapped:
      *static_cast<unsigned char *>(value) = about.mapped;
      break;
    default:
      return result::invalid_value;
  }
  return result::success;
}

}  // namespace

Result cuMemAlloc_v2(abi::DevicePointer *address, size_t bytes) {
  return in_context("cuMemAlloc", [&](Driver &driver, ContextObject &context) -> Result {
    WEIR_SIM_TRY(driver.unsafe());
    if (address == nullptr || bytes == 0) {
      return WEIR_SIM_MISUSE(driver, result::invalid_value, "cuMemAlloc of %zu bytes", bytes);
    }
    uint64_t made = 0;
    WEIR_SIM_TRY(code_of(driver.machine.plain_allocate(static_cast<uint32_t>(context.device), bytes,
                                                       allocation_alignment, &made)));
    const std::lock_guard hold(context.mutex);
    context.plain.insert(made);
    *address = made;
    return result::success;
  });
}

Result cuMemFree_v2(abi::DevicePointer address) {
  return ending("cuMemFree", [&](Driver &driver, ContextObject &) -> Result {
    if (address == 0) return result::success;
    // First, because once it is free the address may be another's.
    driver.forget_allocation(address);
    return code_of(driver.machine.plain_free(address));
  });
}

Result cuMemGetAddressRange_v2(abi::DevicePointer *start, size_t *bytes,
                               abi::DevicePointer address) {
  return in_context("cuMemGetAddressRange", [&](Driver &driver, ContextObject &) -> Result {
    const Pointer about = describe(driver, address);
    if (about.memory_type != abi::memory_device || !about.mapped) return result::not_found;
    if (start != nullptr) *start = about.start;
    if (bytes != nullptr) *bytes = about.bytes;
    return result::success;
  });
}

Result cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  return in_context("cuMemHostAlloc", [&](Driver &driver, ContextObject &) -> Result {
    WEIR_SIM_TRY(driver.unsafe());
    constexpr unsigned known = 7;  // portable, device map, write combined
    if (memory == nullptr || (flags & ~known) != 0) {
      return WEIR_SIM_MISUSE(driver, result::invalid_value, "cuMemHostAlloc with flags %#x", flags);
    }
    // Few bytes share a page with others, 512 bytes apart.
    constexpr uint64_t page = 4096, apart = 512;
    return code_of(driver.machine.host().allocate(bytes, memory, bytes < page ? apart : 0));
  });
}

Result cuMemFreeHost(void *memory) {
  return ending("cuMemFreeHost", [&](Driver &driver, ContextObject &) -> Result {
    return code_of(driver.machine.host().release(memory));
  });
}

Result cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
  return in_context("cuMemHostRegister", [&](Driver &driver, ContextObject &) -> Result {
    WEIR_SIM_TRY(driver.unsafe());
    constexpr unsigned known = 15;  // portable, device map, I/O memory, read only
    if ((flags & ~known) != 0 || driver.machine.addresses().is_device(number_of(memory), bytes)) {
      return WEIR_SIM_MISUSE(driver, result::invalid_value,
                             "cuMemHostRegister of %zu bytes at %p with flags %#x", bytes, memory,
                             flags);
    }
    if (!driver.machine.options().memfd && sim::lies_in_memfd(memory)) return result::not_supported;
    return code_of(driver.machine.host().enroll(memory, bytes));
  });
}

Result cuMemHostUnregister(void *memory) {
  return ending("cuMemHostUnregister", [&](Driver &driver, ContextObject &) -> Result {
    return code_of(driver.machine.host().dismiss(memory));
  });
}

Result cuMemHostGetDevicePointer_v2(abi::DevicePointer *address, void *memory, unsigned flags) {
  return in_context("cuMemHostGetDevicePointer", [&](Driver &driver, ContextObject &) -> Result {
    if (address == nullptr || flags != 0 ||
        driver.machine.host().kind(number_of(memory), 1) == sim::HostKind::pageable) {
      return WEIR_SIM_MISUSE(driver, result::invalid_value,
                             "cuMemHostGetDevicePointer of %p, which is not pinned", memory);
    }
    *address = number_of(memory);  // one address for all, as everywhere with unified addressing
    return result::success;
  });
}

Result cuPointerGetAttribute(void *value, int which, abi::DevicePointer address) {
  return in_context("cuPointerGetAttribute", [&](Driver &driver, ContextObject &) -> Result {
    const Pointer about = describe(driver, address);
    if (value == nullptr || about.memory_type == 0) return result::invalid_value;
    return give(about, which, address, value);
  });
}

/// Unlike the single form it has no error for a pointer that the driver does not know: it gives zeros.
Result cuPointerGetAttributes(unsigned count, int *which, void **values,
                              abi::DevicePointer address) {
  return in_context("cuPointerGetAttributes", [&](Driver &driver, ContextObject &) -> Result {
    if (which == nullptr || values == nullptr) return result::invalid_value;
    const Pointer about = describe(driver, address);
    for (unsigned i = 0; i < count; ++i) {
      if (which[i] == pointer::host_pointer && about.memory_type != abi::memory_host) {
        *static_cast<void **>(values[i]) = nullptr;
        continue;
      }
      WEIR_SIM_TRY(give(about, which[i], about.memory_type != 0 ? address : 0, values[i]));
    }
    return result::success;
  });
}

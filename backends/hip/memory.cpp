// SPDX-License-Identifier: Apache-2.0
//
// Allocation with what the runtime leaves out: alignments above its own, and refusals with values.

#include "backends/hip/memory.hpp"

#include "backends/common/undo.hpp"

#include <bit>

namespace weir::hip {
namespace {

using Number = unsigned long long;
constexpr uint64_t page = 4096;
constexpr uint64_t most_alignment = uint64_t{2} << 20U;

void *pointer(uint64_t address) noexcept {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

uint64_t number(const void *memory) noexcept { return reinterpret_cast<uintptr_t>(memory); }

/// Host memory that runs out is the host's, not the device's.
weir_result on_host(weir_result result) noexcept {
  return result == WEIR_ERROR_DEVICE_OOM ? WEIR_ERROR_OUT_OF_HOST_MEMORY : result;
}

}  // namespace

weir_result Memory::allocate(uint32_t device, uint64_t bytes, uint64_t alignment,
                             uint64_t *address) {
  WEIR_BACKEND_TRY(devices_.check(device));
  if (bytes == 0 || bytes > UINT64_MAX - most_alignment) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "plain memory of %llu bytes",
                  static_cast<Number>(bytes));
  }
  if (!std::has_single_bit(alignment) || alignment > most_alignment) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "alignment %#llx is no power of two of at most 2 MiB",
                  static_cast<Number>(alignment));
  }
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  const Functions &call = runtime_.call();
  void *base = nullptr;
  WEIR_HIP_TRY(call.hipMalloc(&base, bytes), "hipMalloc");
  common::Undo undo([&] {
    if (base != nullptr) end_quietly([&] { return call.hipFree(base); });
  });
  if (number(base) % alignment != 0) {
    WEIR_HIP_TRY(call.hipFree(base), "hipFree");
    base = nullptr;
    WEIR_HIP_TRY(call.hipMalloc(&base, bytes + alignment), "hipMalloc");
  }
  const uint64_t aligned = (number(base) + alignment - 1) / alignment * alignment;
  plain_[device].add(aligned, number(base), bytes);
  undo.dismiss();
  *address = aligned;
  return WEIR_SUCCESS;
}

weir_result Memory::free(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(devices_.check(device));
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  common::AllocationTable::Taken taken;
  WEIR_BACKEND_TRY(plain_[device].take("plain memory of this device", address, bytes, &taken));
  const weir_result result = checked(runtime_.call().hipFree(pointer(taken.base())), "hipFree");
  if (result != WEIR_SUCCESS) plain_[device].put_back(std::move(taken));
  return result;
}

weir_result Memory::host_allocate(uint64_t bytes, void **memory) {
  if (bytes == 0 || bytes > uint64_t{1} << 62U) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "host memory of %llu bytes",
                  static_cast<Number>(bytes));
  }
  const Functions &call = runtime_.call();
  const Relaxed relaxed(runtime_);
  // Whole pages, as few bytes may share one with others.
  const uint64_t whole = (bytes + page - 1) / page * page;
  void *made = nullptr;
  WEIR_BACKEND_TRY(on_host(checked(
      call.hipHostMalloc(&made, whole, abi::host_malloc_portable | abi::host_malloc_coherent),
      "hipHostMalloc")));
  common::Undo undo([&] { end_quietly([&] { return call.hipHostFree(made); }); });
  host_.add(number(made), number(made), bytes);
  undo.dismiss();
  *memory = made;
  return WEIR_SUCCESS;
}

weir_result Memory::host_free(void *memory, uint64_t bytes) {
  common::AllocationTable::Taken taken;
  WEIR_BACKEND_TRY(host_.take("pinned host memory", number(memory), bytes, &taken));
  const Relaxed relaxed(runtime_);
  const weir_result result = checked(runtime_.call().hipHostFree(memory), "hipHostFree");
  if (result != WEIR_SUCCESS) host_.put_back(std::move(taken));
  return result;
}

weir_result Memory::check_registers() const noexcept {
  for (uint32_t device = 0; device < devices_.count(); ++device) {
    if (devices_.can(device, WEIR_CAP_HOST_REGISTER)) return WEIR_SUCCESS;
  }
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "registering host memory is off");
}

weir_result Memory::host_register(void *memory, uint64_t bytes) {
  WEIR_BACKEND_TRY(check_registers());
  const uint64_t address = number(memory);
  if (address == 0 || bytes == 0 || address % page != 0 || bytes > UINT64_MAX - address) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "host_register: [%p, +%llu) is no page-aligned range", memory,
                  static_cast<Number>(bytes));
  }
  const Functions &call = runtime_.call();
  const Relaxed relaxed(runtime_);
  WEIR_BACKEND_TRY(on_host(checked_argument(
      call.hipHostRegister(memory, bytes, abi::host_register_portable), "hipHostRegister")));
  common::Undo undo([&] { end_quietly([&] { return call.hipHostUnregister(memory); }); });
  registered_.add(address, address, bytes);
  undo.dismiss();
  return WEIR_SUCCESS;
}

weir_result Memory::host_unregister(void *memory, uint64_t bytes) {
  WEIR_BACKEND_TRY(check_registers());
  common::AllocationTable::Taken taken;
  WEIR_BACKEND_TRY(registered_.take("registered host memory", number(memory), bytes, &taken));
  const Relaxed relaxed(runtime_);
  const weir_result result =
      checked(runtime_.call().hipHostUnregister(memory), "hipHostUnregister");
  if (result != WEIR_SUCCESS) registered_.put_back(std::move(taken));
  return result;
}

void Memory::clear() noexcept {
  const Relaxed relaxed(runtime_);
  const Functions &call = runtime_.call();
  for (uint32_t device = 0; device < devices_.count(); ++device) {
    const OnDevice current(runtime_, device);
    plain_[device].clear(
        [&](uint64_t base) { end_quietly([&] { return call.hipFree(pointer(base)); }); });
  }
  host_.clear([&](uint64_t base) { end_quietly([&] { return call.hipHostFree(pointer(base)); }); });
  registered_.clear(
      [&](uint64_t base) { end_quietly([&] { return call.hipHostUnregister(pointer(base)); }); });
}

}  // namespace weir::hip

// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills. Addresses must be somebody's when a copy is enqueued (INVALID_VALUE) and when it runs (a sticky
// ILLEGAL_ADDRESS). Host memory that is not pinned behaves as documented: to the device it is staged before the call
// returns, from the device the call returns when the copy has ended, and host to host it is synchronous.
//
// The vendor lets ordinary copies reach another device's cuMemAlloc memory without peer access; they go through host
// memory then. Mapped memory they reach only where access was set for the stream's device.

#include "tests/drivers/cuda/driver.hpp"

#include <cstring>

using namespace weir::sim_cuda;
namespace sim = weir::sim;

namespace {

/// Which sides a call says are device memory.
enum class Sides : uint8_t { any, to_device, from_device, device };

uint64_t number(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }
const void *pointer(uint64_t address) {
  return reinterpret_cast<const void *>(static_cast<uintptr_t>(address));
}

/// A copy whose source the driver has taken already.
class StagedCopy final : public sim::Task {
 public:
  StagedCopy(uint64_t destination, uint64_t source, uint64_t bytes)
      : destination_(destination), content_(new unsigned char[bytes]), bytes_(bytes) {
    std::memcpy(content_.get(), pointer(source), bytes);
  }
  void run(sim::Stream &stream, bool healthy) noexcept override {
    if (healthy) (void)stream.run_copy({destination_, number(content_.get()), bytes_, true});
  }

 private:
  uint64_t destination_;
  std::unique_ptr<unsigned char[]> content_;
  uint64_t bytes_;
};

/// The copies of a batch, last first: nobody may rely on their order.
class Batch final : public sim::Task {
 public:
  explicit Batch(std::vector<sim::Copy> copies) noexcept : copies_(std::move(copies)) {}
  void run(sim::Stream &stream, bool healthy) noexcept override {
    for (auto copy = copies_.rbegin(); healthy && copy != copies_.rend(); ++copy) {
      healthy = stream.run_copy(*copy) == sim::Answer::ok;
    }
  }

 private:
  std::vector<sim::Copy> copies_;
};

/// Whether all of a range in device addresses is memory, whoever may reach it.
bool is_memory(const sim::AddressSpace &addresses, uint64_t address, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const sim::Found found = addresses.find(address + done);
    if (found.what != sim::Found::What::mapped && found.what != sim::Found::What::plain) {
      return false;
    }
    done = found.address + found.bytes - address;
  }
  return true;
}

/// Host memory to a copy's eyes.
bool is_pageable(Driver &driver, uint64_t address, uint64_t bytes) {
  return !driver.machine.addresses().is_device(address, bytes) &&
         driver.machine.host().kind(address, bytes) == sim::HostKind::pageable;
}

Result check_side(Driver &driver, uint64_t address, uint64_t bytes, bool must_be_device) {
  const sim::AddressSpace &addresses = driver.machine.addresses();
  const bool device = address != 0 && addresses.is_device(address, bytes);
  const bool right =
      device ? is_memory(addresses, address, bytes)
             : address != 0 && (!must_be_device || driver.machine.host().kind(address, bytes) !=
                                                       sim::HostKind::pageable);
  if (right) return result::success;
  return WEIR_SIM_MISUSE(driver, result::invalid_value,
                         "a copy or fill of %llu bytes at %#llx, which is no such memory",
                         static_cast<unsigned long long>(bytes),
                         static_cast<unsigned long long>(address));
}

Result check_copy(Driver &driver, const sim::Copy &copy, Sides sides) {
  WEIR_SIM_TRY(check_side(driver, copy.destination, copy.bytes,
                          sides == Sides::to_device || sides == Sides::device));
  return check_side(driver, copy.source, copy.bytes,
                    sides == Sides::from_device || sides == Sides::device);
}

Result copy_on(Driver &driver, StreamObject &stream, const sim::Copy &copy, Sides sides) {
  bool captured = false;
  WEIR_SIM_TRY(driver.capturing(stream, &captured));
  if (copy.bytes == 0) return result::success;
  WEIR_SIM_TRY(check_copy(driver, copy, sides));
  if (captured) return result::success;
  driver.order(stream);
  sim::AddressSpace &addresses = driver.machine.addresses();
  const bool from_device = addresses.is_device(copy.source, copy.bytes);
  const bool to_device = addresses.is_device(copy.destination, copy.bytes);
  if (to_device && is_pageable(driver, copy.source, copy.bytes)) {
    stream.queue->task(std::make_unique<StagedCopy>(copy.destination, copy.source, copy.bytes));
    return result::success;
  }
  stream.queue->copy(&copy, 1);
  const bool synchronous =
      !to_device && (!from_device || is_pageable(driver, copy.destination, copy.bytes));
  return synchronous ? driver.code_on(stream.context->device,
                                      driver.machine.wait(stream.queue->record(), UINT64_MAX))
                     : result::success;
}

Result enqueue(const char *name, const sim::Copy &copy, Sides sides, abi::Stream handle) noexcept {
  return initialized(name, [&](Driver &driver) -> Result {
    StreamPointer stream;
    WEIR_SIM_TRY(driver.stream_of(handle, &stream));
    return copy_on(driver, *stream, copy, sides);
  });
}

/// On the legacy stream; copies within a device do not hold up the host.
Result at_once(const char *name, const sim::Copy &copy, Sides sides) noexcept {
  return initialized(name, [&](Driver &driver) -> Result {
    WEIR_SIM_TRY(driver.unsafe());
    StreamPointer stream;
    WEIR_SIM_TRY(driver.stream_of(nullptr, &stream));
    WEIR_SIM_TRY(copy_on(driver, *stream, copy, sides));
    const sim::AddressSpace &addresses = driver.machine.addresses();
    if (addresses.is_device(copy.source, 1) && addresses.is_device(copy.destination, 1)) {
      return result::success;
    }
    return driver.code_on(stream->context->device,
                          driver.machine.wait(stream->queue->record(), UINT64_MAX));
  });
}

Result fill_on(Driver &driver, StreamObject &stream, uint64_t address, unsigned char value,
               uint64_t bytes) {
  bool captured = false;
  WEIR_SIM_TRY(driver.capturing(stream, &captured));
  if (bytes == 0) return result::success;
  WEIR_SIM_TRY(check_side(driver, address, bytes, true));
  if (captured) return result::success;
  driver.order(stream);
  stream.queue->fill(address, value, 1, bytes);
  return result::success;
}

struct BatchCall {
  abi::DevicePointer *destinations, *sources;
  size_t *bytes;
  size_t count;
  abi::CopyAttributes *attributes;
  size_t *starts;
  size_t attribute_count;
};

bool attributes_fit(const BatchCall &call) {
  if (call.attributes == nullptr || call.starts == nullptr || call.attribute_count == 0 ||
      call.attribute_count > call.count || call.starts[0] != 0) {
    return false;
  }
  for (size_t i = 0; i < call.attribute_count; ++i) {
    const int order = call.attributes[i].source_order;
    if (order < abi::source_order_stream || order > abi::source_order_any) return false;
    if ((call.attributes[i].flags & ~abi::copy_overlaps_compute) != 0) return false;
    if (i != 0 && call.starts[i] <= call.starts[i - 1]) return false;
    if (call.starts[i] >= call.count) return false;
  }
  return true;
}

/// *failed: the copy that was wrong; SIZE_MAX: none in particular.
Result batch(const BatchCall &call, abi::Stream handle, size_t *failed) noexcept {
  return initialized("cuMemcpyBatchAsync", [&](Driver &driver) -> Result {
    *failed = SIZE_MAX;
    if (!driver.machine.options().batch_copy) return result::not_supported;
    if (handle == nullptr || handle == abi::stream_legacy() || call.destinations == nullptr ||
        call.sources == nullptr || call.bytes == nullptr || !attributes_fit(call)) {
      return WEIR_SIM_MISUSE(driver, result::invalid_value,
                             "a batch of copies in the legacy stream, or with bad attributes");
    }
    static sim::Call &overlapping = sim::call("cuMemcpyBatchAsync, overlapping");
    if (call.attributes[0].flags == abi::copy_overlaps_compute) ++overlapping.count;
    StreamPointer stream;
    WEIR_SIM_TRY(driver.stream_of(handle, &stream));
    bool captured = false;
    WEIR_SIM_TRY(driver.capturing(*stream, &captured));
    std::vector<sim::Copy> copies;
    bool pageable = false;
    for (size_t i = 0; i < call.count; ++i) {
      copies.push_back({call.destinations[i], call.sources[i], call.bytes[i], true});
      *failed = i;
      WEIR_SIM_TRY(check_copy(driver, copies.back(), Sides::any));
      *failed = SIZE_MAX;
      pageable = pageable || is_pageable(driver, call.sources[i], call.bytes[i]) ||
                 is_pageable(driver, call.destinations[i], call.bytes[i]);
    }
    if (captured) return result::success;
    driver.order(*stream);
    stream->queue->task(std::make_unique<Batch>(std::move(copies)));
    return pageable ? driver.code_on(stream->context->device,
                                     driver.machine.wait(stream->queue->record(), UINT64_MAX))
                    : result::success;
  });
}

}  // namespace

Result cuMemcpy(abi::DevicePointer destination, abi::DevicePointer source, size_t bytes) {
  return at_once("cuMemcpy", {destination, source, bytes, true}, Sides::any);
}

Result cuMemcpyHtoD_v2(abi::DevicePointer destination, const void *source, size_t bytes) {
  return at_once("cuMemcpyHtoD", {destination, number(source), bytes, true}, Sides::to_device);
}

Result cuMemcpyDtoH_v2(void *destination, abi::DevicePointer source, size_t bytes) {
  return at_once("cuMemcpyDtoH", {number(destination), source, bytes, true}, Sides::from_device);
}

Result cuMemcpyDtoD_v2(abi::DevicePointer destination, abi::DevicePointer source, size_t bytes) {
  return at_once("cuMemcpyDtoD", {destination, source, bytes, true}, Sides::device);
}

Result cuMemcpyAsync(abi::DevicePointer destination, abi::DevicePointer source, size_t bytes,
                     abi::Stream stream) {
  return enqueue("cuMemcpyAsync", {destination, source, bytes, true}, Sides::any, stream);
}

Result cuMemcpyHtoDAsync_v2(abi::DevicePointer destination, const void *source, size_t bytes,
                            abi::Stream stream) {
  return enqueue("cuMemcpyHtoDAsync", {destination, number(source), bytes, true}, Sides::to_device,
                 stream);
}

Result cuMemcpyDtoHAsync_v2(void *destination, abi::DevicePointer source, size_t bytes,
                            abi::Stream stream) {
  return enqueue("cuMemcpyDtoHAsync", {number(destination), source, bytes, true},
                 Sides::from_device, stream);
}

Result cuMemcpyDtoDAsync_v2(abi::DevicePointer destination, abi::DevicePointer source, size_t bytes,
                            abi::Stream stream) {
  return enqueue("cuMemcpyDtoDAsync", {destination, source, bytes, true}, Sides::device, stream);
}

Result cuMemcpyPeerAsync(abi::DevicePointer destination, abi::Context, abi::DevicePointer source,
                         abi::Context, size_t bytes, abi::Stream stream) {
  return enqueue("cuMemcpyPeerAsync", {destination, source, bytes, true}, Sides::device, stream);
}

Result cuMemcpyBatchAsync(abi::DevicePointer *destinations, abi::DevicePointer *sources,
                          size_t *bytes, size_t count, abi::CopyAttributes *attributes,
                          size_t *starts, size_t attribute_count, size_t *failed,
                          abi::Stream stream) {
  size_t which = SIZE_MAX;
  const Result code = batch(
      {destinations, sources, bytes, count, attributes, starts, attribute_count}, stream, &which);
  if (failed != nullptr && code != result::success) *failed = which;
  return code;
}

Result cuMemcpyBatchAsync_v2(abi::DevicePointer *destinations, abi::DevicePointer *sources,
                             size_t *bytes, size_t count, abi::CopyAttributes *attributes,
                             size_t *starts, size_t attribute_count, abi::Stream stream) {
  size_t which = SIZE_MAX;
  return batch({destinations, sources, bytes, count, attributes, starts, attribute_count}, stream,
               &which);
}

Result cuMemsetD8_v2(abi::DevicePointer address, unsigned char value, size_t bytes) {
  return initialized("cuMemsetD8", [&](Driver &driver) -> Result {
    WEIR_SIM_TRY(driver.unsafe());
    StreamPointer stream;
    WEIR_SIM_TRY(driver.stream_of(nullptr, &stream));
    return fill_on(driver, *stream, address, value, bytes);
  });
}

Result cuMemsetD8Async(abi::DevicePointer address, unsigned char value, size_t bytes,
                       abi::Stream handle) {
  return initialized("cuMemsetD8Async", [&](Driver &driver) -> Result {
    StreamPointer stream;
    WEIR_SIM_TRY(driver.stream_of(handle, &stream));
    return fill_on(driver, *stream, address, value, bytes);
  });
}

// SPDX-License-Identifier: Apache-2.0
//
// The driver's batch call does not say what it has enqueued when it fails. "All or none" is kept so: a batch that fails
// is done again copy by copy. That is harmless whatever the batch had begun, as copies of a batch touch nothing of each
// other's, bring the same bytes twice, and the stream orders the second time after the first. When that fails too, the
// stream is waited for, so that no copy is under way when the failure is told.

#include "backends/cuda/copies.hpp"

#include "backends/cuda/fault.hpp"

#include <algorithm>
#include <array>

namespace weir::cuda {
namespace {

// What a call costs is spread thin by then; batches of tens of thousands are reported to bring drivers down.
constexpr uint32_t batch_at_once = 128;

weir_result check_range(uint64_t address, uint64_t bytes) noexcept {
  if (address != 0 && bytes != 0 && bytes <= UINT64_MAX - address) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "[%#llx, +%llu) is no range of memory",
                number(address), number(bytes));
}

weir_result check_copy(const weir_be_copy &copy) noexcept {
  WEIR_BACKEND_TRY(check_range(copy.destination, copy.bytes));
  return check_range(copy.source, copy.bytes);
}

}  // namespace

bool Copies::crosses_seam(const weir_be_copy &copy) const noexcept {
  return host_.run_at(copy.source, copy.bytes) < copy.bytes ||
         host_.run_at(copy.destination, copy.bytes) < copy.bytes;
}

/// One copy, in parts where host memory is registered in parts. The context is current.
abi::Result Copies::enqueue(const Stream &stream, const weir_be_copy &copy) const noexcept {
  uint64_t done = 0;
  while (done < copy.bytes) {
    const uint64_t left = copy.bytes - done;
    const uint64_t bytes = std::min(host_.run_at(copy.source + done, left),
                                    host_.run_at(copy.destination + done, left));
    const abi::Result result =
        api_.cuMemcpyAsync(copy.destination + done, copy.source + done, bytes, stream.handle);
    if (result != abi::result::success) return result;
    done += bytes;
  }
  return abi::result::success;
}

weir_result Copies::copy(const Stream &stream, const weir_be_copy &copy) const noexcept {
  WEIR_BACKEND_TRY(check_copy(copy));
  if (crosses_seam(copy)) return one_by_one(stream, &copy, 1);
  return streams_.enqueue(stream, "cuMemcpyAsync", [&] {
    return api_.cuMemcpyAsync(copy.destination, copy.source, copy.bytes, stream.handle);
  });
}

weir_result Copies::one_by_one(const Stream &stream, const weir_be_copy *copies,
                               uint32_t count) const noexcept {
  const weir_result result = streams_.enqueue(stream, "cuMemcpyAsync", [&] {
    for (uint32_t i = 0; i < count; ++i) {
      const abi::Result each = enqueue(stream, copies[i]);
      if (each == abi::result::success) continue;
      // None may be under way. If the wait fails too, then the device is lost and nothing moves any more.
      const Relaxed relaxed(api_);
      (void)api_.cuStreamSynchronize(stream.handle);
      return each;
    }
    return abi::result::success;
  });
  return result;
}

/// Up to batch_at_once copies, none of which crosses a seam. The context is current.
abi::Result Copies::enqueue_batch(const Stream &stream, const weir_be_copy *copies,
                                  uint32_t count) const noexcept {
  std::array<abi::DevicePointer, batch_at_once> destinations;
  std::array<abi::DevicePointer, batch_at_once> sources;
  std::array<size_t, batch_at_once> bytes;
  for (uint32_t i = 0; i < count; ++i) {
    destinations[i] = copies[i].destination;
    sources[i] = copies[i].source;
    bytes[i] = copies[i].bytes;
  }
  // One set of attributes for all, from the first on: sources are read in the stream's order.
  abi::CopyAttributes attributes{};
  attributes.source_order = abi::source_order_stream;
  attributes.flags = abi::copy_overlaps_compute;
  size_t first = 0;
  if (api_.cuMemcpyBatchAsync_13000 != nullptr) {
    return api_.cuMemcpyBatchAsync_13000(destinations.data(), sources.data(), bytes.data(), count,
                                         &attributes, &first, 1, stream.handle);
  }
  size_t failed = 0;
  return api_.cuMemcpyBatchAsync_12080(destinations.data(), sources.data(), bytes.data(), count,
                                       &attributes, &first, 1, &failed, stream.handle);
}

weir_result Copies::batch(const Stream &stream, const weir_be_copy *copies,
                          uint32_t count) const noexcept {
  if (!stream.device->has(WEIR_CAP_BATCH_COPY)) {
    return refuse(
        WEIR_ERROR_NOT_SUPPORTED,
        "the driver has no batches of copies or is not trusted with them (batch_copy=1), or "
        "they are off (batch_copy=0)");
  }
  if (copies == nullptr && count != 0) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "copies is NULL and count %u", count);
  }
  bool whole = true;
  for (uint32_t i = 0; i < count; ++i) {
    WEIR_BACKEND_TRY(check_copy(copies[i]));
    whole = whole && !crosses_seam(copies[i]);
  }
  // The driver refuses batches on the legacy default stream.
  if (stream.legacy || !whole || count < 2) return one_by_one(stream, copies, count);
  const weir_result result = streams_.enqueue(stream, "cuMemcpyBatchAsync", [&] {
    for (uint32_t i = 0; i < count; i += batch_at_once) {
      const abi::Result each =
          enqueue_batch(stream, copies + i, std::min(batch_at_once, count - i));
      if (each != abi::result::success) return each;
    }
    return abi::result::success;
  });
  if (result == WEIR_SUCCESS || result == WEIR_ERROR_DEVICE_LOST ||
      result == WEIR_ERROR_STREAM_CAPTURING) {
    return result;
  }
  return one_by_one(stream, copies, count);
}

weir_result Copies::fill(const Stream &stream, uint64_t address, uint8_t value,
                         uint64_t bytes) const noexcept {
  WEIR_BACKEND_TRY(check_range(address, bytes));
  return streams_.enqueue(stream, "cuMemsetD8Async", [&] {
    return api_.cuMemsetD8Async(address, value, bytes, stream.handle);
  });
}

}  // namespace weir::cuda

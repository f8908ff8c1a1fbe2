// SPDX-License-Identifier: Apache-2.0
//
// The checks of copies and fills.

#include "backends/opencl/copies.hpp"

#include "backends/opencl/errors.hpp"

namespace weir::opencl {

weir_result Copies::check(const Stream &stream, const char *side, uint64_t address, uint64_t bytes,
                          uint32_t *device) const {
  const bool known = address != 0 && bytes != 0 && bytes <= UINT64_MAX - address &&
                     memory_.contains(address, bytes, device);
  if (!known) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "the %s [%#llx, +%llu) is not inside one range of memory made here", side,
                  number(address), number(bytes));
  }
  if (*device == WEIR_DEVICE_HOST || *device == stream.device()) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u cannot reach the %s, memory of device %u",
                stream.device(), side, *device);
}

weir_result Copies::copy(Stream &stream, const weir_be_copy &copy) const {
  uint32_t from = 0, to = 0;
  WEIR_BACKEND_TRY(check(stream, "source", copy.source, copy.bytes, &from));
  WEIR_BACKEND_TRY(check(stream, "destination", copy.destination, copy.bytes, &to));
  return stream.copy(copy.destination, copy.source, copy.bytes);
}

weir_result Copies::fill(Stream &stream, uint64_t address, uint8_t value, uint64_t bytes) const {
  uint32_t device = 0;
  WEIR_BACKEND_TRY(check(stream, "filled range", address, bytes, &device));
  if (device == WEIR_DEVICE_HOST) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%#llx is host memory; fills are of device memory",
                  number(address));
  }
  return stream.fill(address, value, bytes);
}

}  // namespace weir::opencl

// SPDX-License-Identifier: Apache-2.0
//
// Devices by what callers name them by.

#include "core/page/pool_device.hpp"

namespace weir::page {

namespace {

Status find(const Devices &devices, uint32_t device_id, bool parting, uint8_t *place) {
  for (const auto &device : devices) {
    const bool meant = device_id == WEIR_DEVICE_DEFAULT || device->device.id == device_id;
    if (!meant || device->gone() || (device->parting() && !parting)) continue;
    *place = device->place;
    return {};
  }
  if (device_id == WEIR_DEVICE_ANY)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "device is WEIR_DEVICE_ANY, which only the home of a buffer can be");
  return fail(WEIR_ERROR_INVALID_ARGUMENT, "device %u is not of this pool", device_id);
}

}  // namespace

Status find_place(const Devices &devices, uint32_t device_id, uint8_t *place) {
  return find(devices, device_id, false, place);
}

Status find_member(const Devices &devices, uint32_t device_id, uint8_t *place) {
  return find(devices, device_id, true, place);
}

Status find_place(const Devices &devices, const Stream &stream, uint8_t *place) {
  for (const auto &device : devices) {
    if (&device->device == stream.device && (device->gone() || device->parting()))
      return fail(WEIR_ERROR_DEVICE_REMOVED, "device %u has left the pool", device->device.id);
  }
  return find_place(devices, stream.device->id, place);
}

}  // namespace weir::page

// SPDX-License-Identifier: Apache-2.0
//
// Trying virtual memory before it is offered. There are reports of releases and devices in which it fails with correct
// arguments from the second mapping of a range on, of some in which all mappings of a range must have one size, and of
// some in which released memory does not come back while its addresses are reserved: an eviction would free nothing.

#include "backends/hip/virtual_memory.hpp"

namespace weir::hip {
namespace {

constexpr int looks = 3;

std::string last_sentence() {
  const char *sentence = common::sentence_of(common::last_native());
  return sentence != nullptr ? sentence : "it failed when it was tried";
}

}  // namespace

/// A granule that is mapped for as long as the trial takes, or until the trial lets it go.
struct VirtualMemory::Trial {
  VirtualMemory &memory;
  uint32_t device;
  uint64_t bytes;
  uint64_t address;
  weir_be_granule granule = 0;
  bool mapped = false;

  weir_result begin() {
    WEIR_BACKEND_TRY(memory.create(device, bytes, 0, &granule));
    WEIR_BACKEND_TRY(memory.map(device, address, bytes, granule, 0, nullptr, 0));
    mapped = true;
    return WEIR_SUCCESS;
  }
  weir_result end() {
    if (mapped) WEIR_BACKEND_TRY(memory.unmap(device, address, bytes));
    mapped = false;
    if (granule != 0) WEIR_BACKEND_TRY(memory.destroy(device, granule));
    granule = 0;
    return WEIR_SUCCESS;
  }
  ~Trial() {
    if (end() != WEIR_SUCCESS) (void)end();
  }
};

/// Whether a granule's memory is free again after its life, while the range at `address` stays reserved. Other processes
/// take and give memory meanwhile, so that only several looks of the same outcome say that nothing comes back.
weir_result VirtualMemory::look(uint32_t device, uint64_t address, bool *gives_back) {
  Trial trial{*this, device, devices_.granule(device), address};
  uint64_t before = 0, with = 0, after = 0, total = 0;
  WEIR_BACKEND_TRY(devices_.memory(device, &before, &total));
  WEIR_BACKEND_TRY(trial.begin());
  WEIR_BACKEND_TRY(devices_.memory(device, &with, &total));
  WEIR_BACKEND_TRY(trial.end());
  WEIR_BACKEND_TRY(devices_.memory(device, &after, &total));
  const bool taken = before >= with + trial.bytes / 2;
  const bool given = after >= with + trial.bytes / 2;
  *gives_back = !taken || given;
  return WEIR_SUCCESS;
}

/// Whether a mapping of another size can follow the one at the beginning of the range that holds `address`. Not having the memory to
/// try with says nothing.
bool VirtualMemory::mixes_sizes(uint32_t device, uint64_t address) {
  Trial trial{*this, device, 2 * devices_.granule(device), address};
  weir_result result = trial.begin();
  if (result == WEIR_SUCCESS) result = trial.end();
  return result == WEIR_SUCCESS || result == WEIR_ERROR_DEVICE_OOM;
}

weir_result VirtualMemory::probe(uint32_t device, bool *one_size, std::string *reason) {
  const uint64_t unit = devices_.granule(device), reserved = 4 * unit;
  uint64_t range = 0;
  weir_result result = reserve(device, reserved, unit, &range);
  bool gives_back = false;
  *one_size = false;
  if (result == WEIR_SUCCESS) {
    Trial first{*this, device, unit, range};
    result = first.begin();
    for (int i = 0; i < looks && result == WEIR_SUCCESS && !gives_back; ++i) {
      result = look(device, range + unit, &gives_back);
    }
    *one_size = result == WEIR_SUCCESS && !mixes_sizes(device, range + 2 * unit);
  }
  if (result != WEIR_SUCCESS) {
    *reason = last_sentence();
  } else if (!gives_back) {
    *reason = "released memory does not come back while its addresses are reserved";
    result = WEIR_ERROR_NOT_SUPPORTED;
  }
  if (range != 0 && free(device, range, reserved) != WEIR_SUCCESS)
    (void)free(device, range, reserved);
  return result;
}

}  // namespace weir::hip

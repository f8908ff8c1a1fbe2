// SPDX-License-Identifier: Apache-2.0
//
// What the devices are and can, asked once when the runtime starts, and what lies between them. Nothing here changes
// afterwards, but for peers that are enabled.
#pragma once

#include "backends/hip/options.hpp"
#include "backends/hip/runtime.hpp"

#include <vector>

namespace weir::hip {

/// The smallest granule in use unless the program names one: smaller ones that runtimes report are unsafe (docs/hip.md).
/// A mapping's record names the devices that may use it in as many bits; with more devices there are no runs.
inline constexpr int most_in_runs = 64;
inline constexpr uint64_t least_granule = uint64_t{2} << 20U;

class Devices {
 public:
  Devices(const Runtime &runtime, const Options &options) noexcept
      : runtime_(runtime), options_(options) {}

  /// Asks for every device. A device that can't be described fails the start.
  weir_result open();

  uint32_t count() const noexcept { return static_cast<uint32_t>(devices_.size()); }
  weir_result check(uint32_t device) const noexcept;
  /// SUCCESS where the device exists and has virtual memory; else why not.
  weir_result check_vmm(uint32_t device) const noexcept;
  const weir_be_device &description(uint32_t device) const noexcept { return devices_[device]; }
  uint64_t granule(uint32_t device) const noexcept { return devices_[device].granule; }
  bool can(uint32_t device, uint64_t capability) const noexcept {
    return (devices_[device].capabilities & capability) != 0;
  }
  /// Takes virtual memory, and what needs it, from a device; before the state is given out.
  void turn_off_vmm(uint32_t device) noexcept;
  /// The same of the large granule only.
  void turn_off_large_granules(uint32_t device) noexcept { devices_[device].granule_large = 0; }
  /// The same of ranges in which several devices map, of all devices.
  void turn_off_shared_ranges() noexcept;
  /// Whether the granules of all devices that share ranges have one and the same size.
  bool shares_one_size() const noexcept;

  /// Whether `device` reaches `peer`'s memory. False for itself.
  bool reaches(uint32_t device, uint32_t peer) const noexcept {
    return reach_[size_t{device} * devices_.size() + peer];
  }
  weir_result memory(uint32_t device, uint64_t *free_bytes, uint64_t *total_bytes) const;
  weir_result link(uint32_t from, uint32_t to, weir_be_link *link) const;
  weir_result enable_peer(uint32_t device, uint32_t peer) const;

 private:
  weir_result describe(uint32_t device, weir_be_device *out) const;
  weir_result identify(uint32_t device, weir_be_device *out) const;
  /// Leaves them 0 where the device's granularity is of no use.
  weir_result size_granules(uint32_t device, weir_be_device *out) const;
  int attribute(uint32_t device, abi::Attribute which, int otherwise) const noexcept;

  const Runtime &runtime_;
  const Options &options_;
  std::vector<weir_be_device> devices_;
  std::vector<bool> reach_;
};

/// Memory properties of a device's granules.
abi::AllocationProperties granule_properties(uint32_t device, bool exportable) noexcept;

}  // namespace weir::hip

// SPDX-License-Identifier: Apache-2.0
//
// What lies between devices, and between a device and the host: kind and bandwidth, from NVML where it is there. The
// driver's own calls say only what works. Nothing here is an error: what is not known is told as unknown.
#pragma once

#include "backends/common/library.hpp"
#include "backends/cuda/device.hpp"

#include <mutex>

namespace weir::cuda {

/// The system's management library, opened at the first question.
class Nvml {
 public:
  Nvml() = default;
  ~Nvml();
  Nvml(const Nvml &) = delete;
  Nvml &operator=(const Nvml &) = delete;

  struct Nvlinks {
    uint64_t to_peer = 0;    ///< bytes a second over links that end at the device asked about
    uint64_t to_switch = 0;  ///< over links that end at a switch
    uint64_t to_host = 0;    ///< over links that end at a processor
    bool peer = false, through_switch = false, host = false;
  };
  /// The device's active NVLinks; `peer_address` may be NULL. All zero if nothing is known.
  Nvlinks nvlinks(const char *pci_address, const char *peer_address);
  /// NVLink-C2C to the processor: whether there is one, and its bytes a second.
  bool chip_to_chip(const char *pci_address, uint64_t *bandwidth);
  /// Bytes a second of the device's PCIe link; 0 if unknown.
  uint64_t pcie(const char *pci_address);

 private:
  bool open();
  nvml::Device device_at(const char *pci_address);
  bool field(nvml::Device device, unsigned field, unsigned scope, uint64_t *value) const noexcept;
  uint64_t bandwidth_of(nvml::Device device, unsigned link) const noexcept;

  std::once_flag opened_;
  bool usable_ = false;
  common::Library library_;
#define WEIR_NVML_MEMBER(name) nvml::fn::name *name = nullptr;
  WEIR_NVML_ENTRIES(WEIR_NVML_MEMBER)
#undef WEIR_NVML_MEMBER
};

class Links {
 public:
  explicit Links(const Api &api) noexcept : api_(api) {}
  /// Between two devices; they may be the same.
  weir_be_link between(const Device &from, const Device &to);
  weir_be_link to_host(const Device &device);

 private:
  const Api &api_;
  Nvml nvml_;
};

}  // namespace weir::cuda

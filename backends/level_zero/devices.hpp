// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of one driver and the context they share: found when a state is started, unchanged afterwards.
//
// All devices of a state are one driver's. Level Zero's memory and events belong to a context, and a context to
// a driver: pinned memory that every device of the backend can use, and a fence that every stream can wait
// for, exist only within one.
#pragma once

#include "backends/level_zero/abi.hpp"
#include "backends/level_zero/api.hpp"
#include "backends/level_zero/options.hpp"

#include <weir/backend.h>

#include <string>
#include <vector>

namespace weir::level_zero {

struct Device {
  abi::Device handle = nullptr;
  abi::DeviceProperties properties;
  abi::PciProperties pci;
  bool pci_known = false;
  uint64_t memory = 0;         ///< bytes of all its memories
  uint64_t granule = 0;        ///< 0: no virtual-memory management
  uint64_t granule_large = 0;  ///< 0: none
  /// Queues of one kind: a group's index, and how many it has.
  struct QueueGroup {
    uint32_t ordinal = 0;
    uint32_t queues = 0;  ///< 0: there is no such group
  };
  QueueGroup queues;   ///< what streams are made on
  QueueGroup copiers;  ///< what streams for copies alone are made on

  bool integrated() const noexcept {
    return (properties.flags & abi::device_property_flag_integrated) != 0;
  }
};

/// Started drivers, one of them chosen, its devices and their context. Ends a context of its own.
class Platform {
 public:
  Platform() = default;
  ~Platform();
  Platform(const Platform &) = delete;
  Platform &operator=(const Platform &) = delete;

  /// Called once, before anything else. On failure *reason says in words why there is no device.
  weir_result start(const Options &options, std::string *reason);

  const Api &api() const noexcept { return api_; }
  const Options &options() const noexcept { return options_; }
  abi::Driver driver() const noexcept { return driver_; }
  abi::ApiVersion version() const noexcept { return version_; }
  /// "1.4, driver 1.3.26032" as far as known.
  const std::string &version_text() const noexcept { return version_text_; }
  /// What the program should hear of though it is no failure: devices left out, abilities not found.
  const std::vector<std::string> &remarks() const noexcept { return remarks_; }
  abi::Context context() const noexcept { return context_; }
  const std::vector<Device> &devices() const noexcept { return devices_; }

  weir_result check_device(uint32_t device) const noexcept;
  /// Whether `device` can reach memory of `peer`.
  bool reaches(uint32_t device, uint32_t peer) const noexcept {
    return device == peer || reach_[device * devices_.size() + peer];
  }
  uint64_t capabilities(uint32_t device) const noexcept;

  // Intel's extension for the program's own memory; NULL where the driver has none, or it is switched off.
  abi::ImportExternalPointerFn *import_pointer() const noexcept { return import_; }
  abi::ReleaseImportedPointerFn *release_pointer() const noexcept { return release_; }
  /// The driver's own handle, which the extension's functions want.
  abi::Driver native_driver() const noexcept { return native_driver_; }

 private:
  weir_result choose_driver(const std::vector<abi::Driver> &drivers, std::string *reason);
  weir_result make_context(std::string *reason);
  std::vector<Device> gpus_of(abi::Driver driver);
  abi::Result measure(Device *device) const;
  abi::Result find_pages(Device *device) const;
  void remark(const char *call, abi::Result result, const char *consequence);
  bool same_card(size_t a, size_t b) const noexcept;
  bool trusts_reach(size_t from, size_t to) const noexcept;
  void find_reach();
  void find_extension();

  Api api_;
  Options options_;
  abi::Driver driver_ = nullptr, native_driver_ = nullptr;
  abi::ApiVersion version_ = 0;
  std::string version_text_;
  std::vector<std::string> remarks_;
  abi::Context context_ = nullptr;
  bool own_context_ = false;
  std::vector<Device> devices_;
  std::vector<bool> reach_;
  abi::ImportExternalPointerFn *import_ = nullptr;
  abi::ReleaseImportedPointerFn *release_ = nullptr;
};

/// Fills in what the ABI tells of a device.
void describe(const Platform &platform, uint32_t device, weir_be_device *full);

}  // namespace weir::level_zero

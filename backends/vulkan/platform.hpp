// SPDX-License-Identifier: Apache-2.0
//
// The loader, an instance, and the devices of a state: found when it starts, unchanged afterwards.
#pragma once

#include "backends/vulkan/device.hpp"

#include <memory>
#include <string>
#include <vector>

namespace weir::vulkan {

class Platform {
 public:
  Platform() = default;
  ~Platform();
  Platform(const Platform &) = delete;
  Platform &operator=(const Platform &) = delete;

  /// Called once, before anything else. On failure *why says in words why there is no device.
  weir_result start(const Options &options, std::string *why);

  /// Instead of start(): the program's own device, told by a struct of weir/vulkan.h.
  weir_result adopt(const Options &options, const void *native, std::string *why);

  const Options &options() const noexcept { return options_; }
  const std::vector<std::unique_ptr<Device>> &devices() const noexcept { return devices_; }
  Device &device(uint32_t index) const noexcept { return *devices_[index]; }
  weir_result check_device(uint32_t device) const noexcept;
  /// "Vulkan 1.3.239; llvmpipe, Mesa 22.3.6".
  const std::string &version_text() const noexcept { return version_text_; }
  /// Devices left out, and why.
  const std::vector<std::string> &remarks() const noexcept { return remarks_; }

 private:
  weir_result make_instance(std::string *why);
  weir_result find_devices(std::string *why);
  std::vector<Facts> usable(std::string *why);
  void remark(const std::string &device, const std::string &why);

  Loader loader_;
  Options options_;
  VkInstance instance_ = VK_NULL_HANDLE;
  InstanceApi api_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::string version_text_;
  std::vector<std::string> remarks_;
};

/// Fills in what the ABI tells of a device, and of the path between two places.
void describe(const Device &device, weir_be_device *full);
void describe_link(const Platform &platform, uint32_t from, uint32_t to, weir_be_link *link);

}  // namespace weir::vulkan

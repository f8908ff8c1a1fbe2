// SPDX-License-Identifier: Apache-2.0
//
// Physical memory and addresses: the driver's virtual-memory calls behind the checks of the device's table. Access is
// the owner's and the named peers', for all of a mapping at once; a range is never split or merged between the calls.
#pragma once

#include "backends/cuda/device.hpp"

#include <memory>
#include <vector>

namespace weir::cuda {

class Granules {
 public:
  using Devices = std::vector<std::unique_ptr<Device>>;

  Granules(const Api &api, Device &device) noexcept : api_(api), device_(device) {}

  weir_result create(uint64_t bytes, uint64_t flags, weir_be_granule *granule);
  weir_result destroy(weir_be_granule granule);
  weir_result reserve(uint64_t bytes, uint64_t alignment, uint64_t *address);
  weir_result free(uint64_t address, uint64_t bytes);
  /// `devices` are all of the backend's, by index.
  weir_result map(uint64_t address, uint64_t bytes, weir_be_granule granule, uint64_t offset,
                  const uint32_t *peers, uint32_t peer_count, const Devices &devices);
  weir_result unmap(uint64_t address, uint64_t bytes);
  /// One call of the driver gives access to all pieces, and one removes them: dear calls, whatever they span.
  weir_result map_run(uint64_t address, const weir_be_piece *pieces, uint32_t count,
                      const uint32_t *peers, uint32_t peer_count, const Devices &devices);
  weir_result unmap_run(uint64_t address, uint64_t bytes);
  weir_result add_access(uint64_t address, uint64_t bytes, const uint32_t *peers,
                         uint32_t peer_count, const Devices &devices);

  weir_result export_fd(weir_be_granule granule, int32_t *fd);
  weir_result import_fd(int32_t fd, uint64_t bytes, weir_be_granule *granule);
  weir_result export_fabric(weir_be_granule granule, weir_be_fabric_handle *handle);
  weir_result import_fabric(const weir_be_fabric_handle &handle, uint64_t bytes,
                            weir_be_granule *granule);

  /// Ends all that is left but the ranges, in which other devices may have something. Nothing of the device runs.
  void clear() noexcept;
  void clear_ranges() noexcept;

 private:
  /// Makes a driver call of this group, in which the capture rules of the thread are relaxed. The group needs no current
  /// context, but a device that has one.
  template <class Call>
  weir_result drive(const char *what, uint64_t value, Call call);
  template <class Call>
  void undo(Call call) noexcept;
  using Access = std::vector<abi::AccessDescription>;
  weir_result reserve_native(uint64_t bytes, uint64_t alignment, uint64_t *address);
  weir_result check_vmm() const noexcept;
  /// Adds the peers to *access, each of which must reach this device.
  weir_result name_peers(const uint32_t *peers, uint32_t peer_count, const Devices &devices,
                         Access *access) const;
  weir_result set_access(uint64_t address, uint64_t bytes, const Access &access);
  weir_result check_flags(uint64_t flags) const noexcept;
  weir_result export_to(void *handle, int type, uint64_t flag, weir_be_granule granule);
  weir_result import_from(void *handle, int type, uint64_t flag, uint64_t bytes,
                          weir_be_granule *granule);

  const Api &api_;
  Device &device_;
};

}  // namespace weir::cuda

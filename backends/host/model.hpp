// SPDX-License-Identifier: Apache-2.0
//
// The device model of the host backend: devices with memory, address ranges, streams and links, as one
// object. It knows no backend table and no option strings, so that simulated vendor drivers can stand on it.
// Arguments are checked here or below; a refused call has changed nothing. Functions throw std::bad_alloc or
// std::system_error (no thread can be made) and nothing else. Thread-safe.
#pragma once

#include "backends/host/address_space.hpp"
#include "backends/host/granules.hpp"
#include "backends/host/host_ranges.hpp"
#include "backends/host/link.hpp"
#include "backends/host/memory.hpp"
#include "backends/host/options.hpp"
#include "backends/host/stream.hpp"

#include <memory>
#include <vector>

namespace weir::host {

class Model {
 public:
  explicit Model(const Options &options);
  Model(const Model &) = delete;
  Model &operator=(const Model &) = delete;

  /// Makes the devices' memory; called once, before anything else.
  weir_result open();

  const Options &options() const noexcept { return options_; }
  weir_result check_device(uint32_t device) const noexcept;
  uint64_t available(uint32_t device) const { return memory_[device]->available(); }
  const Links &links() const noexcept { return links_; }
  /// Those of the options, less what needs a peer where all others are said to be reached through the host only.
  uint64_t capabilities(uint32_t device) const noexcept;
  StreamTable &streams() noexcept { return streams_; }
  HostRanges &host() noexcept { return host_; }

  weir_result granule_create(uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule);
  weir_result granule_destroy(uint32_t device, weir_be_granule granule);
  weir_result granule_export(uint32_t device, weir_be_granule granule, int32_t *fd);
  weir_result granule_import(uint32_t device, int32_t fd, uint64_t bytes, weir_be_granule *granule);
  weir_result range_reserve(uint32_t device, uint64_t bytes, uint64_t alignment, uint64_t *address);
  weir_result range_free(uint32_t device, uint64_t address, uint64_t bytes);
  weir_result map(uint32_t device, uint64_t address, uint64_t bytes, weir_be_granule granule,
                  uint64_t offset, const uint32_t *peers, uint32_t peer_count);
  weir_result unmap(uint32_t device, uint64_t address, uint64_t bytes);
  weir_result map_run(uint32_t device, uint64_t address, const weir_be_piece *pieces,
                      uint32_t count, const uint32_t *peers, uint32_t peer_count);
  weir_result unmap_run(uint32_t device, uint64_t address, uint64_t bytes);
  /// Every device reaches all memory here, so that it is only checked.
  weir_result access_add(uint32_t device, uint64_t address, uint64_t bytes, const uint32_t *peers,
                         uint32_t peer_count) const;
  weir_result plain_allocate(uint32_t device, uint64_t bytes, uint64_t alignment,
                             uint64_t *address);
  weir_result plain_free(uint32_t device, uint64_t address, uint64_t bytes);

  weir_result copy(Stream &stream, const weir_be_copy *copies, uint32_t count);
  weir_result fill(Stream &stream, uint64_t address, uint8_t value, uint64_t bytes);
  weir_result call(Stream &stream, weir_host_function function, void *user);
  weir_result wait(Stream &stream, weir_be_fence fence);

 private:
  bool reaches_another(uint32_t device) const noexcept;
  bool shares_ranges(uint32_t device) const noexcept;
  weir_result check_vmm(uint32_t device) const noexcept;
  weir_result check_granule_size(uint64_t bytes) const noexcept;
  weir_result check_peers(uint32_t device, const uint32_t *peers,
                          uint32_t peer_count) const noexcept;
  weir_result resolve(const weir_be_copy &copy, Operation *operation);
  weir_result map_piece(uint32_t device, uint64_t address, const weir_be_piece &piece);
  weir_result check_capability(uint32_t device, uint64_t capability,
                               const char *off) const noexcept;
  void wait_as_asked(uint32_t device) noexcept;
  bool exports() const noexcept { return options_.export_fd && options_.contents; }

  Options options_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  GranuleTable granules_;
  AddressSpace space_;
  HostRanges host_;
  Links links_;
  StreamTable streams_;  // last: its workers use what stands above until they have ended
};

}  // namespace weir::host

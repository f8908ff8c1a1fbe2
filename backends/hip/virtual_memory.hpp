// SPDX-License-Identifier: Apache-2.0
//
// Granules, reservations and mappings over HIP's virtual memory, used only in ways that no release is reported to get
// wrong (docs/hip.md has the reports):
//  - a granule is one physical allocation and is mapped whole, from offset 0 on;
//  - to every hipMemMap belong one hipMemSetAccess and one hipMemUnmap over exactly its range;
//  - access is given to the peers first and to the owning device last, in that one call;
//  - no two of these calls of the process run at the same time.
#pragma once

#include "backends/common/mapping_table.hpp"
#include "backends/hip/devices.hpp"

#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace weir::hip {

class VirtualMemory {
 public:
  VirtualMemory(const Runtime &runtime, const Options &options, const Devices &devices);

  /// Takes granules through their lives. Where the result is not SUCCESS, *reason says why virtual memory is of no use on
  /// the device; but for DEVICE_OOM, which says that there is no memory left to try with. *one_size: it is of use only with
  /// mappings that all have the granule's size.
  weir_result probe(uint32_t device, bool *one_size, std::string *reason);

  /// Lets the devices map in each other's ranges, as their capabilities have it; before the state is given out.
  void share_ranges() noexcept;

  weir_result create(uint32_t device, uint64_t bytes, uint64_t flags, weir_be_granule *granule);
  weir_result destroy(uint32_t device, weir_be_granule granule);
  weir_result reserve(uint32_t device, uint64_t bytes, uint64_t alignment, uint64_t *address);
  weir_result free(uint32_t device, uint64_t address, uint64_t bytes);
  weir_result map(uint32_t device, uint64_t address, uint64_t bytes, weir_be_granule granule,
                  uint64_t offset, const uint32_t *peers, uint32_t peer_count);
  weir_result unmap(uint32_t device, uint64_t address, uint64_t bytes);
  /// The runtime takes mappings one by one; it is its lock, and what its first unmap waits for, that a run pays once.
  weir_result map_run(uint32_t device, uint64_t address, const weir_be_piece *pieces,
                      uint32_t count, const uint32_t *peers, uint32_t peer_count);
  weir_result unmap_run(uint32_t device, uint64_t address, uint64_t bytes);
  weir_result export_fd(uint32_t device, weir_be_granule granule, int32_t *fd);
  weir_result import_fd(uint32_t device, int32_t fd, uint64_t bytes, weir_be_granule *granule);

  /// Ends everything that is left. No work that uses it is pending.
  void clear() noexcept;

 private:
  /// A reservation that was made larger, because the runtime did not keep to the alignment.
  struct Padded {
    uint64_t base = 0;
    uint64_t bytes = 0;
  };
  using Access = std::vector<abi::AccessDescription>;
  struct Trial;

  weir_result describe_access(uint32_t device, const uint32_t *peers, uint32_t peer_count,
                              Access *access) const;
  weir_result check_exports(uint32_t device) const noexcept;
  weir_result reserve_native(uint64_t bytes, uint64_t alignment, uint64_t *address, Padded *whole);
  weir_result map_native(uint64_t address, uint64_t bytes, abi::Memory memory,
                         const Access &access) noexcept;
  weir_result map_pieces(uint32_t device, uint64_t address, const weir_be_piece *pieces,
                         uint32_t count, const uint32_t *peers, uint32_t peer_count);
  weir_result check_runs(uint32_t device) const noexcept;
  static uint64_t mask_of(const Access &access) noexcept;
  weir_result unmap_native(uint64_t address, uint64_t bytes) noexcept;
  /// Maps again what a run's unmap had removed when it failed; `access` has room for every device.
  weir_result put_back(uint32_t device, const common::MappedPiece *pieces, size_t count,
                       Access *access);
  weir_result free_native(uint64_t address, uint64_t bytes) noexcept;
  weir_result look(uint32_t device, uint64_t address, bool *gives_back);
  bool mixes_sizes(uint32_t device, uint64_t address);

  const Runtime &runtime_;
  const Options &options_;
  const Devices &devices_;
  common::RangeTable ranges_;  ///< of all devices: a reservation is one for all of them
  std::deque<common::MappingTable> tables_;  ///< one a device
  std::map<uint64_t, Padded> padded_;        ///< guarded by the process's lock for these calls
};

}  // namespace weir::hip

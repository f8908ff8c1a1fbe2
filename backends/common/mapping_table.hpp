// SPDX-License-Identifier: Apache-2.0
//
// What a device's virtual memory is made of at the moment: its physical granules, and through the table of ranges that
// all devices of a state have in common its reserved ranges and its mappings. For runtimes that do not check what
// they are told, or tell it in numbers. Every wrong argument is refused with its value before the runtime is asked.
// The table calls nothing; a backend asks it, calls the runtime, and tells it the outcome. What is between the two is
// `busy`, and refused to other calls.
//
// Native handles are carried as numbers. Thread-safe; the lock is never held across a call of the runtime, and before
// the ranges' where both are.
#pragma once

#include "backends/common/fault.hpp"
#include "backends/common/range_table.hpp"

#include <mutex>
#include <unordered_map>
#include <vector>

namespace weir::common {

class MappingTable {
 public:
  using TakenRange = RangeTable::TakenRange;
  struct Granule {
    uint64_t native = 0;
    uint64_t bytes = 0;
    uint64_t flags = 0;  ///< WEIR_BE_GRANULE_*
    uint32_t mappings = 0;
    bool busy = false;
  };

  explicit MappingTable(RangeTable &ranges) noexcept : ranges_(ranges) {}
  MappingTable(const MappingTable &) = delete;
  MappingTable &operator=(const MappingTable &) = delete;

  /// `granule` is the unit; 0 means that the device has no virtual memory. Set once, before any use.
  void configure(uint32_t device, uint64_t granule, bool multi_map, bool map_part) noexcept;
  /// The device has WEIR_CAP_SHARED_RANGE. Set before any use too.
  void share_ranges(bool shares) noexcept { shares_ = shares; }

  // ---- granules ----
  /// bytes is a multiple of the granule, and not 0.
  weir_result check_size(uint64_t bytes) const noexcept;
  /// Throws bad_alloc; then nothing was added.
  weir_be_granule add_granule(uint64_t native, uint64_t bytes, uint64_t flags);
  weir_result find_granule(weir_be_granule granule, Granule *found) const;
  weir_result begin_destroy(weir_be_granule granule, uint64_t *native);
  void end_destroy(weir_be_granule granule, bool gone) noexcept;

  // ---- reserved ranges ----
  weir_result check_range(uint64_t bytes, uint64_t alignment) const noexcept;
  /// Throws bad_alloc; then nothing was added.
  void add_range(uint64_t address, uint64_t bytes);
  /// Takes the record out: once the runtime has freed the range, it may give the same address to another thread.
  weir_result begin_free(uint64_t address, uint64_t bytes, TakenRange *taken);
  /// The runtime refused to free it, with `result`; the answer is what to tell.
  weir_result end_refused(TakenRange taken, weir_result result) noexcept;

  // ---- mappings ----
  /// May throw bad_alloc; then nothing was begun. *native is the granule's. `access` is the backend's own record of the devices that may
  /// use the mapping, which comes back with the pieces of a run.
  weir_result begin_map(uint64_t address, uint64_t bytes, weir_be_granule granule, uint64_t offset,
                        uint64_t *native, uint64_t access = 0);
  weir_result begin_unmap(uint64_t address, uint64_t bytes);
  /// The outcome of either: whether the mapping exists now.
  void end_map(uint64_t address, bool mapped) noexcept;
  /// The runtime's answer to unmapping; what comes back is what to tell. On a lost device the mapping is given up.
  weir_result end_unmap(uint64_t address, weir_result result) noexcept;

  // ---- runs of mappings ----
  /// As begin_map of each piece, one behind the other; all or none. *natives are their granules'.
  weir_result begin_map_run(uint64_t address, const weir_be_piece *pieces, uint32_t count,
                            std::vector<uint64_t> *natives, uint64_t access = 0);
  void end_map_run(uint64_t address, const weir_be_piece *pieces, uint32_t count,
                   bool mapped) noexcept;
  /// As begin_unmap of each mapping in [address, +bytes), which they cover without a gap; all or none.
  weir_result begin_unmap_run(uint64_t address, uint64_t bytes, std::vector<MappedPiece> *pieces);
  weir_result end_unmap_run(const std::vector<MappedPiece> &pieces, weir_result result) noexcept;
  /// Mappings of the device cover [address, +bytes) without a gap, and none of them in part; *pieces are these.
  weir_result check_run(uint64_t address, uint64_t bytes, std::vector<MappedPiece> *pieces);

  /// What is left, in the order in which it must end: every device's mappings and granules, then every device's ranges.
  /// No other thread uses it meanwhile.
  template <class Unmap, class Destroy>
  void clear(Unmap unmap, Destroy destroy) {
    ranges_.clear_mappings(device_, unmap);
    for (const auto &[id, granule] : granules_) destroy(granule.native);
    granules_.clear();
  }
  template <class Free>
  void clear_ranges(Free free_range) {
    ranges_.clear_ranges(device_, free_range);
  }

 private:
  weir_result check_unit(const char *what, uint64_t value) const noexcept;
  RangeTable::User user() const noexcept { return {device_, shares_}; }
  void uncount(weir_be_granule granule) noexcept;
  weir_result no_granule(weir_be_granule granule) const noexcept;

  RangeTable &ranges_;
  uint32_t device_ = 0;
  uint64_t unit_ = 0;
  bool multi_map_ = false;
  bool map_part_ = false;
  bool shares_ = false;
  mutable std::mutex mutex_;
  uint64_t next_id_ = 0;
  std::unordered_map<weir_be_granule, Granule> granules_;
};

}  // namespace weir::common

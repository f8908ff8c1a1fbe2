// SPDX-License-Identifier: Apache-2.0
//
// What a device's virtual memory is made of at the moment: physical granules, reserved ranges, mappings. For
// runtimes that do not check what they are told, or tell it in numbers. Every wrong argument is refused with
// its value before the runtime is asked. The table calls nothing; a backend asks it, calls the runtime, and
// tells it the outcome. What is between the two is `busy`, and refused to everybody else.
//
// Native handles are carried as numbers. Thread-safe; the lock is never held across a call of the runtime.
#pragma once

#include "backends/common/fault.hpp"

#include <map>
#include <mutex>
#include <unordered_map>

namespace weir::common {

class MappingTable {
  struct Range {
    uint64_t bytes = 0;
  };

 public:
  using TakenRange = std::map<uint64_t, Range>::node_type;
  struct Granule {
    uint64_t native = 0;
    uint64_t bytes = 0;
    uint64_t flags = 0;  ///< WEIR_BE_GRANULE_*
    uint32_t mappings = 0;
    bool busy = false;
  };

  /// `granule` is the unit; 0 means that the device has no virtual memory. Set once, before any use.
  void configure(uint32_t device, uint64_t granule, bool multi_map, bool map_part) noexcept;

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
  /// The runtime refused to free it.
  void put_back(TakenRange taken) noexcept;

  // ---- mappings ----
  /// May throw bad_alloc; then nothing was begun. *native is the granule's.
  weir_result begin_map(uint64_t address, uint64_t bytes, weir_be_granule granule, uint64_t offset,
                        uint64_t *native);
  weir_result begin_unmap(uint64_t address, uint64_t bytes);
  /// The outcome of either: whether the mapping exists now.
  void end_map(uint64_t address, bool mapped) noexcept;
  /// Whether [address, +bytes) lies inside one mapping.
  bool maps(uint64_t address, uint64_t bytes) const noexcept;

  /// Everything that is left, in the order in which it must end; the table is empty then. Nobody else uses it.
  template <class Unmap, class Destroy, class Free>
  void clear(Unmap unmap, Destroy destroy, Free free_range) {
    for (const auto &[address, mapping] : mappings_) unmap(address, mapping.bytes);
    for (const auto &[id, granule] : granules_) destroy(granule.native);
    for (const auto &[address, range] : ranges_) free_range(address, range.bytes);
    mappings_.clear();
    granules_.clear();
    ranges_.clear();
  }

 private:
  struct Mapping {
    uint64_t bytes = 0;
    weir_be_granule granule = 0;
    bool busy = false;
  };

  weir_result check_unit(const char *what, uint64_t value) const noexcept;
  weir_result check_place(uint64_t address, uint64_t bytes) const;
  weir_result no_granule(weir_be_granule granule) const noexcept;

  uint32_t device_ = 0;
  uint64_t unit_ = 0;
  bool multi_map_ = false;
  bool map_part_ = false;
  mutable std::mutex mutex_;
  uint64_t next_id_ = 0;
  std::unordered_map<weir_be_granule, Granule> granules_;
  std::map<uint64_t, Range> ranges_;
  std::map<uint64_t, Mapping> mappings_;
};

}  // namespace weir::common

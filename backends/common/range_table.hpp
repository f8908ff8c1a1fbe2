// SPDX-License-Identifier: Apache-2.0
//
// The address ranges that the devices of one state reserved, and what is mapped where in them, whichever device's the
// granule is. One table for all devices: with WEIR_CAP_SHARED_RANGE they meet in one range. A device maps in its own
// ranges, and in those of another only where both share. Between begin and end an entry is busy, and refused to other
// calls.
//
// When a device is lost, a runtime may not unmap any more what it had mapped. Such a mapping is given up: it leaves the
// table, and its range may be forgotten though the runtime still holds the addresses.
//
// Thread-safe; the lock is never held across a call of the runtime.
#pragma once

#include "backends/common/fault.hpp"

#include <map>
#include <mutex>
#include <vector>

namespace weir::common {

/// A mapping, as one map call or one piece of a run made it.
struct MappedPiece {
  uint64_t address = 0;
  uint64_t bytes = 0;
  weir_be_granule granule = 0;
  uint64_t access = 0;  ///< what begin_map was told, for a runtime that must map it again
};

class RangeTable {
  struct Range {
    uint32_t device = 0;
    uint64_t bytes = 0;
    bool shared = false;
    bool given_up = false;  ///< something that was mapped in it may still be
  };
  struct Mapping {
    uint32_t device = 0;
    uint64_t bytes = 0;
    weir_be_granule granule = 0;
    uint64_t access = 0;
    bool busy = false;
  };

 public:
  using TakenRange = std::map<uint64_t, Range>::node_type;
  /// The device that asks, which is the granule's or the range's, and whether it shares ranges.
  struct User {
    uint32_t device = 0;
    bool shares = false;
  };

  // ---- ranges ----
  /// Throws bad_alloc; then nothing was added.
  void add(User owner, uint64_t address, uint64_t bytes);
  /// Takes the record out: once the runtime has freed the range, it may give the same address to another thread.
  weir_result begin_free(uint32_t device, uint64_t address, uint64_t bytes, TakenRange *taken);
  /// The runtime refused to free it, with `result`. SUCCESS where that is no wonder: the addresses are given up.
  weir_result refused(TakenRange taken, weir_result result) noexcept;

  // ---- mappings ----
  /// May throw bad_alloc; then nothing was begun.
  weir_result begin_map(User owner, const MappedPiece &piece);
  weir_result begin_unmap(uint32_t device, uint64_t address, uint64_t bytes);
  /// The device's mappings that make up [address, +bytes) without a gap, in order; refused where they do not. May throw
  /// bad_alloc. With `begin` all of them are busy afterwards; each ends alone.
  weir_result find_run(uint32_t device, uint64_t address, uint64_t bytes, bool begin,
                       std::vector<MappedPiece> *pieces);
  /// The outcome of either: the mapping exists.
  void keep(uint64_t address) noexcept;
  /// The outcome of either: it is no more, and was of this granule. 0 if there was none.
  weir_be_granule drop(uint64_t address) noexcept;
  /// The runtime does not unmap it, as its device is lost: it is dropped, and its range not the runtime's to free. *shared: other
  /// devices map in that range too.
  weir_be_granule give_up(uint64_t address, bool *shared) noexcept;
  /// Whether [address, +bytes) lies inside one mapping; *device is whose memory it is then.
  bool maps(uint64_t address, uint64_t bytes, uint32_t *device) const noexcept;

  /// Takes out what a device has mapped, anywhere. No other thread uses the table meanwhile.
  template <class Unmap>
  void clear_mappings(uint32_t device, Unmap unmap) {
    for (auto each = mappings_.begin(); each != mappings_.end();) {
      const bool mine = each->second.device == device;
      if (mine) unmap(each->first, each->second.bytes);
      each = mine ? mappings_.erase(each) : std::next(each);
    }
  }
  /// Takes out what a device has reserved, after the mappings of all devices. No other thread uses the table meanwhile.
  template <class Free>
  void clear_ranges(uint32_t device, Free free_range) {
    for (auto each = ranges_.begin(); each != ranges_.end();) {
      const bool mine = each->second.device == device;
      if (mine) free_range(each->first, each->second.bytes);
      each = mine ? ranges_.erase(each) : std::next(each);
    }
  }

 private:
  using Ranges = std::map<uint64_t, Range>;
  /// The range that holds the address, or end().
  Ranges::iterator around(uint64_t address);
  weir_result check_range(User owner, uint64_t address, uint64_t bytes);
  weir_result check_free(uint64_t address, uint64_t bytes) const;

  mutable std::mutex mutex_;
  Ranges ranges_;
  std::map<uint64_t, Mapping> mappings_;  ///< of all ranges
};

}  // namespace weir::common

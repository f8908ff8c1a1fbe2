// SPDX-License-Identifier: Apache-2.0
//
// The granules given out: a handle for each, what it stands for, and how often it is mapped. A handle names
// a place in the table and its generation, so a dead one is recognised. A granule dies only unmapped.
#pragma once

#include "backends/host/memory.hpp"

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace weir::host {

class GranuleTable {
 public:
  weir_be_granule add(uint32_t device, std::shared_ptr<Extent> extent, bool exportable);
  weir_result remove(uint32_t device, weir_be_granule granule);
  /// Gives the memory of a granule that was made to be exported; no mapping is counted.
  weir_result find_exportable(uint32_t device, weir_be_granule granule,
                              std::shared_ptr<Extent> *extent) const;
  /// Counts a mapping; refused if there is one already and `several` is false.
  weir_result pin(uint32_t device, weir_be_granule granule, bool several,
                  std::shared_ptr<Extent> *extent);
  void unpin(weir_be_granule granule) noexcept;

 private:
  struct Entry {
    std::shared_ptr<Extent> extent;  // NULL = free
    uint32_t device = 0, mapped = 0, generation = 0;
    bool exportable = false;
  };
  const Entry *locate(uint32_t device, weir_be_granule granule) const noexcept;
  Entry *locate(uint32_t device, weir_be_granule granule) noexcept;

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  std::vector<uint32_t> free_;  // room for every entry is kept, so that removing never allocates
};

}  // namespace weir::host

// SPDX-License-Identifier: Apache-2.0
//
// Which plain allocations a backend has made and not yet ended: the address that the caller knows, and the one
// that the runtime gave, which may lie below it where the caller wanted more alignment. What was never
// allocated is refused with its values. Thread-safe; calls nothing.
#pragma once

#include "backends/common/fault.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace weir::common {

class AllocationTable {
  struct Allocation {
    uint64_t base = 0;  ///< as the runtime gave it
    uint64_t bytes = 0;
  };

 public:
  /// An allocation that is being freed. It is out of the table: once the runtime has freed it, another thread may be given
  /// the same address.
  class Taken {
   public:
    uint64_t base() const noexcept { return node_.mapped().base; }

   private:
    friend class AllocationTable;
    std::map<uint64_t, Allocation>::node_type node_;
  };

  /// Throws bad_alloc; then nothing was added.
  void add(uint64_t address, uint64_t base, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    table_.insert_or_assign(address, Allocation{base, bytes});
  }

  /// `what` names the kind of memory in the refusal.
  weir_result take(const char *what, uint64_t address, uint64_t bytes, Taken *taken) {
    const std::lock_guard lock(mutex_);
    const auto entry = table_.find(address);
    if (entry == table_.end() || entry->second.bytes != bytes) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "[%#llx, +%llu) is no %s",
                    static_cast<unsigned long long>(address),
                    static_cast<unsigned long long>(bytes), what);
    }
    taken->node_ = table_.extract(entry);
    return WEIR_SUCCESS;
  }
  /// The runtime refused to free it.
  void put_back(Taken taken) noexcept {
    const std::lock_guard lock(mutex_);
    table_.insert(std::move(taken.node_));
  }

  /// Everything that is left; the table is empty then. No other thread uses it meanwhile.
  template <class Visit>
  void clear(Visit visit) {
    for (const auto &[address, allocation] : table_) visit(allocation.base);
    table_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, Allocation> table_;
};

}  // namespace weir::common

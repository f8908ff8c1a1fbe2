// SPDX-License-Identifier: Apache-2.0
//
// StreamStates: what a pool keeps for each stream that has used it, by the stream's slot. The hit path finds it without a lock. A
// state is made once and lives as long as the pool; the next stream with the slot takes it over.
#pragma once

#include "core/base/grow.hpp"
#include "core/base/pool_lock.hpp"
#include "core/lease/lease.hpp"

namespace weir::lease {

class StreamStates {
 public:
  explicit StreamStates(std::pmr::memory_resource *memory)
      : memory_(memory), states_(backend::StreamTable::max_slots + 1, memory), owned_(memory) {}

  /// nullptr: no stream with the slot has used the pool. Needs no lock.
  StreamState *find(uint32_t slot) const noexcept {
    return states_[slot].load(std::memory_order_acquire);
  }
  /// Makes the state of the stream's slot, if there is none. Throws std::bad_alloc with nothing changed.
  StreamState &have(backend::Stream &stream) WEIR_HELD {
    if (StreamState *found = find(stream.slot)) return *found;
    grow_by(owned_);
    owned_.push_back(make_owned<StreamState>(memory_, memory_));
    StreamState &fresh = *owned_.back();
    fresh.stream = &stream;
    states_[stream.slot].store(&fresh, std::memory_order_release);
    return fresh;
  }
  const std::pmr::vector<Owned<StreamState>> &all() const noexcept WEIR_HELD { return owned_; }

 private:
  std::pmr::memory_resource *memory_;
  std::pmr::vector<std::atomic<StreamState *>> states_;
  std::pmr::vector<Owned<StreamState>> owned_ WEIR_GUARDED;
};

}  // namespace weir::lease

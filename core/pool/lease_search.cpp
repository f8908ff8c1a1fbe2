// SPDX-License-Identifier: Apache-2.0
//
// Whose leases are out on a buffer. The hit path writes down nothing for this: the records of leases are all looked through, when
// somebody asks.

#include "core/pool/inspector.hpp"

#include <algorithm>

namespace weir::pool {
namespace {

/// So many records are looked at in one taking of the locks.
constexpr size_t most_records = 4096;

bool alike(const lease::LeaseItem &one, const lease::LeaseItem &other) noexcept {
  return one.writes() == other.writes() && one.whole() == other.whole() &&
         one.begin == other.begin && one.end == other.end;
}

LeasesOf::One lease_on(const lease::StreamState &state, const lease::LeaseItem &item) noexcept {
  LeasesOf::One one;
  one.item = item;
  one.stream = state.stream;
  one.slot = state.stream->slot;
  if (state.device != nullptr) one.device = state.device->id;
  std::ranges::transform(state.own, one.threads.begin(), [](const lease::OwnLeases &own) {
    return std::pair(own.thread.load(std::memory_order_relaxed),
                     own.system_thread.load(std::memory_order_relaxed));
  });
  return one;
}

}  // namespace

void Inspector::find_leases(std::span<LeasesOf> of) const {
  std::vector<uint32_t> indices(of.size(), UINT32_MAX);
  const KeepError keep;
  {
    const Locked lock(pool_.env.sync.lock);
    for (size_t i = 0; i < of.size(); ++i)
      (void)pool_.page.buffers.find(of[i].buffer, &indices[i]);  // a dead one has no leases
  }
  size_t stream = 0, from = 0;
  for (bool more = true; more;) {
    const Locked lock(pool_.env.sync.lock);
    const auto &states = pool_.lease.states.all();
    more = stream < states.size();
    if (!more) break;
    lease::StreamState &state = *states[stream];
    const auto note = [&](const lease::LeaseItem &item) {
      const auto at = std::ranges::find(indices, item.buffer);
      if (at == indices.end()) return;
      LeasesOf &found = of[static_cast<size_t>(at - indices.begin())];
      ++found.count;
      const auto free = std::ranges::find_if(found.first, [&](const LeasesOf::One &one) {
        return one.times == 0 || (one.stream == state.stream && alike(one.item, item));
      });
      if (free == found.first.end()) {
        ++found.hidden;
        return;
      }
      if (free->times == 0) *free = lease_on(state, item);
      ++free->times;
    };
    if (state.each_item(from, most_records, note)) {
      from += most_records;
    } else {
      from = 0;
      ++stream;
    }
  }
}

}  // namespace weir::pool

// SPDX-License-Identifier: Apache-2.0
//
// The mapping thread, for runtimes that want one.

#include "core/physical/mapper.hpp"

#include "core/base/signals.hpp"

namespace weir::physical {

Mapper::~Mapper() {
  if (!thread_.joinable()) return;
  {
    const Guard hold(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status Mapper::start() {
  if (!device_.has(WEIR_CAP_VMM) || device_.has(WEIR_CAP_MAP_ANY_THREAD)) return {};
  return start_thread(&thread_, "the mapping thread", [this] { serve(); });
}

Status Mapper::map(uint64_t address, uint64_t bytes, weir_be_granule granule,
                   uint16_t *generation) {
  Peers peers;
  {
    const Guard hold(peers_mutex_);
    peers = peers_;
  }
  if (generation != nullptr) *generation = peers.generation;
  return run(Call{true, address, bytes, granule, &peers});
}

Status Mapper::unmap(uint64_t address, uint64_t bytes) {
  return run(Call{false, address, bytes, 0, nullptr});
}

Status Mapper::perform(const Call &call) {
  const weir_backend_table &table = device_.table();
  if (!call.map)
    return device_.check(table.unmap(device_.state(), device_.index, call.address, call.bytes),
                         "unmap");
  return device_.check(table.map(device_.state(), device_.index, call.address, call.bytes,
                                 call.granule, 0, call.peers->devices.data(), call.peers->count),
                       "map");
}

Status Mapper::run(const Call &call) {
  if (!thread_.joinable()) return perform(call);
  const Guard one(turn_);
  Guard hold(mutex_);
  pending_ = &call;
  done_ = false;
  changed_.notify_all();
  while (!done_) changed_.wait(hold);
  return result_.take();
}

void Mapper::serve() {
  if (nodes_ != nullptr) (void)numa::stay_on(*nodes_, node_);
  Guard hold(mutex_);
  for (;;) {
    while (!stop_ && pending_ == nullptr) changed_.wait(hold);
    if (pending_ == nullptr) return;
    const Call call = *pending_;
    pending_ = nullptr;
    result_.put(hold.unlocked([&] { return perform(call); }));
    done_ = true;
    changed_.notify_all();
  }
}

}  // namespace weir::physical

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
  const weir_be_piece piece{granule, 0, bytes};
  return map_run(address, {&piece, 1}, generation);
}

Status Mapper::map_run(uint64_t address, std::span<const weir_be_piece> pieces,
                       uint16_t *generation) {
  Peers peers;
  {
    const Guard hold(peers_mutex_);
    peers = peers_;
  }
  if (generation != nullptr) *generation = peers.generation;
  return run(Call{address, 0, static_cast<uint32_t>(pieces.size()), pieces.data(), &peers});
}

Status Mapper::unmap(uint64_t address, uint64_t bytes) { return unmap_run(address, bytes, 1); }

Status Mapper::unmap_run(uint64_t address, uint64_t bytes, uint32_t count) {
  return run(Call{address, bytes, count, nullptr, nullptr});
}

Status Mapper::perform(const Call &call) {
  const weir_backend_table &table = device_.table();
  weir_be_state *const state = device_.state();
  if (call.pieces == nullptr) {
    const auto unmap = call.count == 1 ? table.unmap : table.unmap_run;
    return device_.check(unmap(state, device_.index, call.address, call.bytes), "unmap");
  }
  const uint32_t *const peers = call.peers->devices.data();
  const weir_be_piece &piece = *call.pieces;
  const weir_result result = call.count == 1
                                 ? table.map(state, device_.index, call.address, piece.bytes,
                                             piece.granule, 0, peers, call.peers->count)
                                 : table.map_run(state, device_.index, call.address, call.pieces,
                                                 call.count, peers, call.peers->count);
  return device_.check(result, "map");
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

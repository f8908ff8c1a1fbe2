// SPDX-License-Identifier: Apache-2.0
//
// Rings of threads are made here, and filled with what the hit path has not granted.

#include "core/lease/use_writer.hpp"

namespace weir::lease {

UseRing *UseWriter::ring(backend::Stream &stream, StreamState &state) noexcept {
  if (state.of_this_thread() == nullptr) {
    const Guard hold(stream.timeline.lock);
    state.adopt_this_thread();
  }
  UseRing *ring = state.ring_of_this_thread().load(std::memory_order_acquire);
  return ring != nullptr ? ring : make_ring(stream, state);
}

UseRing *UseWriter::make_ring(backend::Stream &stream, StreamState &state) noexcept {
  UseRing *ring = log_.add_ring({stream.slot, stream.generation});
  if (ring == nullptr) {
    state.set_way(StreamState::learned, false);
    return nullptr;
  }
  // Of two that make the one for all others the second's stays empty.
  UseRing *first = nullptr;
  return state.ring_of_this_thread().compare_exchange_strong(first, ring, std::memory_order_acq_rel)
             ? ring
             : first;
}

void UseWriter::add(backend::Stream &stream, StreamState &state, std::span<const weir_use> uses,
                    uint32_t operation) noexcept {
  if (state.take_turn()) log_.next_moment();
  const uint64_t when = log_.when(operation);
  if (const OwnLeases *own = state.of_this_thread())
    return write(*own->ring.load(std::memory_order_relaxed), uses, when);
  const Guard hold(stream.timeline.lock);
  write(*state.shared_ring.load(std::memory_order_acquire), uses, when);
}

void UseWriter::write(UseRing &ring, std::span<const weir_use> uses, uint64_t when) noexcept {
  for (const weir_use &use : uses) {
    uint32_t index = 0;
    uint64_t generation = 0;
    (void)buffers_.decode(use.buffer, &index, &generation);
    const uint64_t size = buffers_.hot(index).size();
    const bool part = use.offset != 0 || (use.length != WEIR_WHOLE && use.length != size);
    const uint64_t first = &use == &uses.front() ? UseRecord::first : 0;
    const uint64_t last = &use == &uses.back() ? UseRecord::last : 0;
    ring.add(UseRecord::what(use.buffer, use.mode) | first | (part ? UseRecord::ranged : last),
             when);
    if (part)
      ring.add(UseRecord::range | use.offset | last,
               use.length == WEIR_WHOLE ? size : use.offset + use.length);
  }
}

}  // namespace weir::lease

// SPDX-License-Identifier: Apache-2.0
//
// Contexts: the sum up to an operation is the sum before it times the base plus the operation, so that the hash of the last n is the
// difference of two sums.

#include "core/policy/contexts.hpp"

#include <algorithm>

namespace weir::policy {
namespace {

constexpr uint64_t context_base = 0x9E3779B97F4A7C15;

uint64_t spread(uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

}  // namespace

Contexts::Contexts(uint32_t entries, uint32_t streams, std::pmr::memory_resource *memory)
    : entries_(size_t{entries} * lengths.size(), memory), streams_(streams, memory) {
  for (size_t length = 0; length < lengths.size(); ++length) {
    powers_[length] = 1;
    for (uint32_t count = 0; count < lengths[length]; ++count) powers_[length] *= context_base;
  }
}

void Contexts::push(uint32_t stream, uint32_t shape) noexcept {
  Stream &its = streams_[stream];
  const uint64_t before = its.sums[its.operations % its.sums.size()];
  const uint64_t sum = before * context_base + shape + 1;
  its.sums[++its.operations % its.sums.size()] = sum;
  for (size_t length = 0; length < lengths.size(); ++length) {
    Place &place = places_[length];
    place.there = its.operations >= lengths[length];
    if (!place.there) continue;
    const uint64_t old = its.sums[(its.operations - lengths[length]) % its.sums.size()];
    place.sum = sum - old * powers_[length];
    locate(stream, &place);
  }
}

void Contexts::locate(uint32_t stream, Place *place) const noexcept {
  const size_t mask = entries_.size() / lengths.size() - 1;
  const uint64_t hash = spread(place->sum + stream * uint64_t{0xD6E8FEB86659FD93});
  place->slot = static_cast<uint32_t>(hash & mask);
  place->tag = static_cast<uint32_t>(hash >> 32) | 1;
}

uint32_t Contexts::find_on(uint32_t stream, size_t length) const noexcept {
  Place place = places_[length];
  if (!place.there) return none;
  locate(stream, &place);
  const Entry &entry = table(length)[place.slot];
  return entry.tag == place.tag ? entry.operation : none;
}

void Contexts::put(uint32_t operation) noexcept {
  for (size_t length = 0; length < lengths.size(); ++length)
    if (places_[length].there)
      table(length)[places_[length].slot] = {places_[length].tag, operation};
}

void Contexts::clear() noexcept {
  std::fill(entries_.begin(), entries_.end(), Entry{});
  std::fill(streams_.begin(), streams_.end(), Stream{});
  places_ = {};
}

}  // namespace weir::policy

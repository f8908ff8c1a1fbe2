// SPDX-License-Identifier: Apache-2.0
//
// Parts of a plan: given, taken over, ended.

#include "core/policy/cast.hpp"

namespace weir::policy {

/// A part that nobody has. Throws std::bad_alloc with nothing changed.
uint32_t Cast::make() {
  if (free_.empty()) {
    grow_to(free_, parts_.size() + 1);
    grow_by(parts_);
    parts_.emplace_back();
    free_.push_back(static_cast<uint32_t>(parts_.size() - 1));
  }
  return free_.back();
}

uint32_t Cast::born(uint32_t buffer, uint64_t generation, uint64_t bytes, uint32_t part) {
  const bool expected = part != none && parts_[part].live && parts_[part].buffer == none;
  const uint32_t taken = expected ? part : make();
  of_[buffer] = taken;
  Part &its = parts_[taken];
  if (!expected) {
    free_.pop_back();
    ++its.life;
  }
  its.buffer = buffer;
  its.generation = generation;
  its.bytes = bytes;
  its.priority = priorities_ != nullptr ? priorities_->priority(buffer, generation) : int8_t{0};
  its.live = true;
  return taken;
}

uint32_t Cast::expect(uint64_t bytes) {
  const uint32_t part = make();
  free_.pop_back();
  Part &its = parts_[part];
  its.buffer = none;
  its.generation = 0;
  its.bytes = bytes;
  its.priority = 0;
  its.live = true;
  ++its.life;
  return part;
}

void Cast::end(uint32_t part) noexcept {
  if (part >= parts_.size() || !parts_[part].live) return;
  Part &its = parts_[part];
  its.live = false;
  if (its.buffer != none) {
    const auto found = of_.find(its.buffer);
    if (found != of_.end() && found->second == part) of_.erase(found);
  }
  free_.push_back(part);
}

void Cast::forget_expected() noexcept {
  for (uint32_t part = 0; part < parts_.size(); ++part)
    if (parts_[part].live && parts_[part].buffer == none) end(part);
}

}  // namespace weir::policy

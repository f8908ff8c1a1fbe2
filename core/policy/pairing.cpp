// SPDX-License-Identifier: Apache-2.0
//
// Pairing: roles are taken, expected parts become buffers or are given up.

#include "core/policy/pairing.hpp"

namespace weir::policy {

uint32_t Pairing::player_of(const Life &life) const noexcept {
  if (lives(life.played)) return life.played.part;
  return life.alive && lives(life.own) ? life.own.part : Cast::none;
}

void Pairing::give_part(Life &life, const Life *role) {
  const uint32_t known = cast_.of(life.buffer);
  uint32_t part = known;
  if (known == Cast::none || cast_[known].generation != life.generation) {
    const bool foreseen = role != nullptr && is_expected(role->played);
    part = cast_.born(life.buffer, life.generation, life.bytes,
                      foreseen ? role->played.part : Cast::none);
  }
  life.own = {part, cast_[part].life};
}

void Pairing::rewind() noexcept {
  while (expected_.size() != 0) {
    const PartRef ref = expected_[expected_.first()].ref;
    if (is_expected(ref)) cast_.end(ref.part);
    expected_.pop();
  }
  expected_.clear();
}

uint32_t Pairing::expect(Life &role, uint64_t bytes, uint64_t due) {
  role.played = {};
  if (expected_.full()) return Cast::none;
  const uint32_t part = cast_.expect(bytes);
  role.played = {part, cast_[part].life};
  expected_.push({role.played, due});
  return part;
}

void Pairing::give_up(uint64_t now) noexcept {
  while (expected_.size() != 0 && expected_[expected_.first()].due + patience < now) {
    const PartRef ref = expected_[expected_.first()].ref;
    if (is_expected(ref)) cast_.end(ref.part);
    expected_.pop();
  }
  // Its numbers are nobody's business: they start again before they run out.
  if (expected_.size() == 0) expected_.clear();
}

}  // namespace weir::policy

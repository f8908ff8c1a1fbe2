// SPDX-License-Identifier: Apache-2.0
//
// Scrubbing in a call of the engine's (policy/scrub_turns.hpp, scrub.cpp).
#pragma once

#include "core/residency/engine.hpp"

namespace weir::residency {

class Engine::Scrubbing : public policy::Scrubbing {
 public:
  explicit Scrubbing(Engine &engine, bool wait = false) noexcept
      : policy::Scrubbing(engine.scrub_turns_, wait) {}
};

}  // namespace weir::residency

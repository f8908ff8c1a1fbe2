// SPDX-License-Identifier: Apache-2.0
//
// Scrubbing: stands before the lock in each call by which a copy that is to be scrubbed can stop being one, and does before the
// call returns what could not be done on the spot (scrub.cpp). Where no buffer is to be scrubbed it costs two loads.
#pragma once

#include "core/residency/engine.hpp"

namespace weir::residency {

class Engine::Scrubbing {
 public:
  /// `wait`: for copies under way too.
  explicit Scrubbing(Engine &engine, bool wait = false) noexcept
      : engine_(engine), before_(engine.scrub_turns_.noted()), wait_(wait) {}
  ~Scrubbing() { engine_.scrub_turns_.finish(wait_, engine_.scrub_turns_.noted() != before_); }
  void wait() noexcept { wait_ = true; }
  Scrubbing(const Scrubbing &) = delete;
  Scrubbing &operator=(const Scrubbing &) = delete;

 private:
  Engine &engine_;
  const uint64_t before_;
  bool wait_;
};

}  // namespace weir::residency

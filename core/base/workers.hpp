// SPDX-License-Identifier: Apache-2.0
//
// Workers: a few threads that help with work that splits into pieces (compression, checksums). The caller of run()
// works too and returns when every piece is done, so it makes progress even with no threads at all. Work that a
// caller of the program waits for (demand) is taken before background work, and the background's share of each
// CPU is bounded. Nothing here throws once started; a piece must not throw.
#pragma once

#include "core/base/clock.hpp"
#include "core/base/status.hpp"

#include <cstdint>

namespace weir {

class Workers {
 public:
  enum class Urgency : uint8_t { demand, background };
  /// One piece of a job: `context` is run()'s, `index` counts from 0.
  using Piece = void (*)(void *context, uint32_t index) noexcept;

  /// `share`: percent of a CPU that a thread (and a background caller of run()) spends on background pieces.
  Workers(uint32_t threads, uint32_t share, const Clock &clock) noexcept;
  ~Workers();
  Workers(const Workers &) = delete;
  Workers &operator=(const Workers &) = delete;

  Status start();
  /// Runs pieces 0 .. count-1, on this thread and on idle workers; returns when all have run.
  void run(uint32_t count, Piece piece, void *context, Urgency urgency) noexcept;
  uint32_t threads() const noexcept;

 private:
  struct State;
  State *state_;
};

}  // namespace weir

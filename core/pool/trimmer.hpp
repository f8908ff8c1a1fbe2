// SPDX-License-Identifier: Apache-2.0
//
// Trimmer: gives memory of a device, or HOST's, back to the system at once because a caller asks for it; how much has to move for that
// the level says. What goes by itself is Upkeep's.
#pragma once

#include "core/move/evictor.hpp"
#include "core/move/host_room.hpp"
#include "core/move/relocator.hpp"
#include "core/page/env.hpp"

namespace weir::pool {

class Trimmer {
 public:
  struct Others {
    transfer::Carrier &carrier;
    move::Demoter &demoter;
    move::HostRoom &host_room;
    page::IdleMemory &idle;
    move::Relocator &relocator;
  };
  Trimmer(const Env &env, const PageLayer &page, const Others &others,
          move::Evictor &evictor) noexcept
      : env_(env), page_(page), others_(others), evictor_(evictor) {}

  Status trim(uint32_t device_id, uint32_t level, uint64_t bytes, uint64_t *freed) WEIR_NOT_HELD;

 private:
  const Env &env_;
  const PageLayer &page_;
  const Others others_;
  move::Evictor &evictor_;
};

}  // namespace weir::pool

// SPDX-License-Identifier: Apache-2.0
//
// One started backend. The members end in reverse order: streams finish their work first, then events go, then
// memory, and the context last.
#pragma once

#include "backends/level_zero/copies.hpp"
#include "backends/level_zero/devices.hpp"
#include "backends/level_zero/events.hpp"
#include "backends/level_zero/fences.hpp"
#include "backends/level_zero/memory.hpp"
#include "backends/level_zero/streams.hpp"
#include "backends/level_zero/usage.hpp"
#include "backends/level_zero/virtual_memory.hpp"

#include <memory>

namespace weir::level_zero {

struct Running {
  explicit Running(const Platform &platform)
      : usage(platform),
        space(platform, usage),
        memory(platform, usage),
        events(platform),
        streams(platform, events),
        fences(events),
        copies(platform, space, memory) {}

  Usage usage;
  VirtualMemory space;
  Memory memory;
  Events events;
  Streams streams;
  Fences fences;
  Copies copies;
};

}  // namespace weir::level_zero

struct weir_be_state {
  weir::level_zero::Platform platform;
  std::unique_ptr<weir::level_zero::Running> running;  // made once the platform has started
  weir_log_callback log = nullptr;
  void *log_user = nullptr;
};

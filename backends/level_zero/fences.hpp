// SPDX-License-Identifier: Apache-2.0
//
// Fences: an event each, recorded as a barrier that signals it. A fence's number is the event's place and a
// generation, so that a dead one is refused. Thread-safe.
#pragma once

#include "backends/level_zero/events.hpp"
#include "backends/level_zero/streams.hpp"

namespace weir::level_zero {

class Fences {
 public:
  explicit Fences(Events &events) noexcept : events_(events) {}

  weir_result record(Stream &stream, weir_be_fence *fence);
  weir_result wait(Stream &stream, weir_be_fence fence);
  weir_result poll(weir_be_fence fence) noexcept;
  weir_result finish(weir_be_fence fence, uint64_t timeout_ns) noexcept;
  weir_result destroy(weir_be_fence fence) noexcept;

 private:
  weir_result find(weir_be_fence fence, EventSlot **slot) noexcept;

  Events &events_;
};

}  // namespace weir::level_zero

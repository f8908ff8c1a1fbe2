// SPDX-License-Identifier: Apache-2.0
//
// The depth of a stream's channel. A device takes so many entries of a stream at a time; the call that comes with one
// more blocks its thread until one has passed, and so does a record of an event, on a stream that is full.
// Nothing is held meanwhile: whoever lets the stream go on may need the driver for it.

#pragma GCC visibility push(default)
#include "tests/drivers/sim/control.h"
#pragma GCC visibility pop

#include "tests/drivers/cuda/driver.hpp"

#include <atomic>

namespace weir::sim_cuda {
namespace {

std::atomic<uint64_t> blocked{0};

}  // namespace

void Driver::wait_for_room(StreamObject &stream) {
  const uint64_t depth = machine.options().channel_depth;
  if (depth == 0) return;
  const sim::Point room = stream.queue->room_for(depth);
  if (machine.passed(room)) return;
  blocked.fetch_add(1);
  (void)machine.wait(room, UINT64_MAX);
  blocked.fetch_sub(1);
}

}  // namespace weir::sim_cuda

uint64_t weir_sim_blocked(void) { return weir::sim_cuda::blocked.load(); }

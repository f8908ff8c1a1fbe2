// SPDX-License-Identifier: Apache-2.0
//
// Faults memory in, on several threads where there is much of it: the kernel zeroes page by page, and one thread takes longer
// for a fresh GiB than a device's link takes to fill it twenty times.
#pragma once

#include "core/base/numa.hpp"

#include <cstdint>

namespace weir {

/// All of [memory, memory+bytes), which is writable and begins and ends with a page, preferably on `node`; the calling thread, whose own
/// policy is its caller's affair, does a part and waits for the others. `threads`, with it: 0 is up to four, but half of the
/// processors at most. What the system does not give stays as it is: the thread that touches it finds out. False: this system can't be asked.
bool prefault(void *memory, uint64_t bytes, const numa::Nodes &nodes, uint32_t node,
              uint32_t threads = 0) noexcept;

}  // namespace weir

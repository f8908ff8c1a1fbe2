// SPDX-License-Identifier: Apache-2.0
//
// XXH3 for one instruction set: xxHash's own code, compiled for it, once for each file that includes this. Before, but for the
// build's own: XXH_VECTOR, the target, and all that xxHash includes, so that nothing else is compiled for it. All of it is static
// there, so that none of it can stand in for the build's own.

#include <xxhash.h>

namespace weir::codec {
namespace {

uint64_t sum(const void *bytes, uint64_t count) noexcept { return XXH3_64bits(bytes, count); }

void add(void *state, const void *bytes, uint64_t count) noexcept {
  (void)XXH3_64bits_update(static_cast<XXH3_state_t *>(state), bytes, count);
}

}  // namespace
}  // namespace weir::codec

// SPDX-License-Identifier: Apache-2.0
//
// Room at the end of a vector, made before a step that must not fail, without copying the vector again each time.
#pragma once

#include <cstddef>

namespace weir::common {

/// So that `count` elements fit. Throws std::bad_alloc with nothing changed.
template <class Vector>
void grow_to(Vector &vector, size_t count) {
  if (count > vector.capacity()) vector.reserve(count * 2 + 16);
}

}  // namespace weir::common

// SPDX-License-Identifier: Apache-2.0
//
// Room at the end of a vector, made before a step that must not fail. reserve(size() + 1) would allocate exactly that, and
// so copy the whole vector again at each step; this grows by a quarter at least, so that n steps copy O(n) elements in all
// and a long table has little slack.
#pragma once

#include <algorithm>
#include <cstddef>

namespace weir {

/// Makes room so that the next `more` elements can be added without allocating. Throws std::bad_alloc with nothing changed.
template <class Vector>
void grow_by(Vector &vector, size_t more = 1) {
  const size_t size = vector.size();
  if (vector.capacity() - size < more) vector.reserve(size + std::max({more, size / 4, size_t{4}}));
}

/// As grow_by(), for a list that is to have a place for each of `count` things that come one by one.
template <class Vector>
void grow_to(Vector &vector, size_t count) {
  if (count > vector.capacity()) vector.reserve(std::max(count, count + count / 4));
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
//
// Going through elements of a width that is known at run time, and looking at a part of many.
#pragma once

#include <cstdint>
#include <cstring>

namespace weir::codec {

/// use(a zero of the unsigned type of so many bytes), which are 1, 2, 4 or 8.
template <class Use>
decltype(auto) with_element(uint32_t width, Use &&use) {
  switch (width) {
    case 1:
      return use(uint8_t{});
    case 2:
      return use(uint16_t{});
    case 4:
      return use(uint32_t{});
    default:
      return use(uint64_t{});
  }
}

/// In the machine's byte order.
template <class Element>
Element load_element(const unsigned char *at) noexcept {
  Element value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Elements of so many that are zero.
inline uint64_t zeros_in(const unsigned char *in, uint64_t count, uint32_t width) noexcept {
  return with_element(width, [in, count]<class Element>(Element zero) {
    uint64_t zeros = 0;
    for (uint64_t i = 0; i < count; ++i)
      zeros += load_element<Element>(in + i * sizeof zero) == zero ? 1 : 0;
    return zeros;
  });
}

/// look(first, length) for windows of a range, spread evenly from its first element to its last; once for all of it if
/// the windows would have as many. Gives how many were looked at.
template <class Look>
uint64_t for_windows(uint64_t count, uint64_t windows, uint64_t window, Look &&look) {
  if (count <= windows * window) {
    look(uint64_t{0}, count);
    return count;
  }
  const uint64_t apart = (count - window) / (windows - 1);
  for (uint64_t i = 0; i < windows; ++i) look(i * apart, window);
  return windows * window;
}

}  // namespace weir::codec

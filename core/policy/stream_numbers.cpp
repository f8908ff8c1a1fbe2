// SPDX-License-Identifier: Apache-2.0
//
// The stream of a loaded log that does what a new one does.

#include "core/policy/stream_numbers.hpp"

#include <bit>

namespace weir::policy {

bool StreamNumbers::look(uint32_t stream, const Contexts &contexts, const ProgramLog &log,
                         uint32_t shape) noexcept {
  const auto did = [&](uint32_t number, size_t length) {
    const uint32_t found = contexts.find_on(number, length);
    return found != Contexts::none && log.holds(found) && log.operation(found).stream == number &&
           log.operation(found).shape == shape;
  };
  uint32_t known = 0, number = 0;
  for (uint64_t left = offered_; left != 0; left &= left - 1) {
    const auto each = static_cast<uint32_t>(std::countr_zero(left));
    if (did(each, eight)) {
      known = 1;
      number = each;
      break;
    }
    if (!did(each, one)) continue;
    ++known;
    number = each;
  }
  if (known != 1) return false;
  settled_ |= uint64_t{1} << (stream % count_);
  taken_[stream % count_] = static_cast<uint8_t>(number);
  offered_ &= ~(uint64_t{1} << number);
  return true;
}

}  // namespace weir::policy

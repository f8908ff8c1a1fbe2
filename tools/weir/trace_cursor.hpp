// SPDX-License-Identifier: Apache-2.0
//
// TraceCursor: walks along one line of a .vmt trace; every step says whether it found what it wanted. It knows what numbers and words
// look like in both versions of the format, and nothing of what lines mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace weir::tool {

class TraceCursor {
 public:
  explicit TraceCursor(std::string_view line) noexcept
      : at_(line.data()), end_(line.data() + line.size()) {}

  bool at_end() const noexcept { return at_ == end_; }
  /// 0 at the end.
  char peek() const noexcept { return at_ == end_ ? '\0' : *at_; }
  bool eat(char c) noexcept {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool take(char &out) noexcept {
    if (at_ == end_) return false;
    out = *at_++;
    return true;
  }
  /// Up to 9 * 10^18, as version 1 has them.
  bool number(uint64_t &out) noexcept { return digits(9'000'000'000'000'000'000u, out); }
  bool whole_number(uint64_t &out) noexcept {
    return digits(std::numeric_limits<uint64_t>::max(), out);
  }
  bool word(std::string_view &out) noexcept {
    const char *start = at_;
    while (at_ != end_ && *at_ > ' ' && *at_ < 127) ++at_;
    out = std::string_view(start, static_cast<size_t>(at_ - start));
    return at_ != start;
  }

 private:
  bool digits(uint64_t most, uint64_t &out) noexcept {
    const char *start = at_;
    uint64_t value = 0;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') {
      const auto digit = static_cast<uint64_t>(*at_++ - '0');
      if (value > most / 10 || (value == most / 10 && digit > most % 10)) return false;
      value = value * 10 + digit;
    }
    out = value;
    return at_ != start;
  }

  const char *at_;
  const char *end_;
};

}  // namespace weir::tool

// SPDX-License-Identifier: Apache-2.0
//
// Line: a line of text in the making, in place. A text that does not fit makes the whole line `cut`: it is not to be written.
#pragma once

#include "core/base/name.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace weir::trace {

class Line {
 public:
  /// The most bytes of a line. Two names at their longest, and what stands around them, always fit.
  static constexpr size_t capacity = 4000;
  static constexpr size_t longest_name = 600;  ///< as it is shown; before what JSON adds

  void clear() noexcept {
    length_ = 0;
    cut_ = false;
  }
  std::string_view view() const noexcept { return {text_.data(), length_}; }
  bool cut() const noexcept { return cut_; }
  size_t room() const noexcept { return text_.size() - length_; }

  Line &operator<<(std::string_view text) noexcept {
    if (text.size() > text_.size() - length_) {
      cut_ = true;
    } else {
      std::memcpy(text_.data() + length_, text.data(), text.size());
      length_ += text.size();
    }
    return *this;
  }
  Line &operator<<(uint64_t number) noexcept { return put(number); }
  Line &operator<<(uint32_t number) noexcept { return put(number); }
  Line &operator<<(int number) noexcept { return put(number); }
  /// Nanoseconds as microseconds.
  Line &micros(uint64_t ns) noexcept {
    char rest[] = ".000";
    const uint64_t part = ns % 1000;
    rest[1] = static_cast<char>('0' + part / 100);
    rest[2] = static_cast<char>('0' + part / 10 % 10);
    rest[3] = static_cast<char>('0' + part % 10);
    return put(ns / 1000) << std::string_view(rest, 4);
  }
  /// As a string of JSON, in quotes, shown as everywhere (base/name.hpp).
  Line &quoted(std::string_view name) noexcept {
    std::array<char, longest_name + 1> shown;
    const size_t length = show_name(name, shown.data(), shown.size());
    *this << "\"";
    for (const char each : std::string_view(shown.data(), length)) {
      if (each == '"' || each == '\\') *this << "\\";
      *this << std::string_view(&each, 1);
    }
    return *this << "\"";
  }

 private:
  template <class Number>
  Line &put(Number number) noexcept {
    const auto end = std::to_chars(text_.data() + length_, text_.data() + text_.size(), number);
    if (end.ec != std::errc{}) {
      cut_ = true;
    } else {
      length_ = static_cast<size_t>(end.ptr - text_.data());
    }
    return *this;
  }

  std::array<char, capacity> text_;
  size_t length_ = 0;
  bool cut_ = false;
};

}  // namespace weir::trace

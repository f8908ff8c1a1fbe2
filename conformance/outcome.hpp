// SPDX-License-Identifier: Apache-2.0
//
// What a check comes to: nothing, or a sentence with the place in the suite and the values. Checks return
// early; nothing is thrown.
#pragma once

#include <weir/backend.h>

#include <cstdint>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

namespace weir::conformance {

using Site = std::source_location;

class [[nodiscard]] Outcome {
 public:
  Outcome() = default;
  static Outcome failure(std::string text) {
    Outcome outcome;
    outcome.failed_ = true;
    outcome.text_ = std::move(text);
    return outcome;
  }
  bool passed() const noexcept { return !failed_; }
  const std::string &text() const noexcept { return text_; }

 private:
  bool failed_ = false;
  std::string text_;
};

/// "INVALID_ARGUMENT", or the number where it has no name.
std::string result_name(weir_result result);
/// "group_copies.cpp:12".
std::string place(const Site &site);
/// Decimal where short, else hexadecimal.
std::string number(uint64_t value);

inline std::string word(const std::string &value) { return value; }
inline std::string word(const char *value) { return value != nullptr ? value : "NULL"; }
template <class Value>
std::string word(Value value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<Value, std::nullptr_t>) {
    return "NULL";
  } else if constexpr (std::is_pointer_v<Value>) {
    return value != nullptr ? number(reinterpret_cast<uintptr_t>(value)) : "NULL";
  } else if constexpr (std::is_signed_v<Value>) {
    return std::to_string(value);
  } else {
    return number(value);
  }
}

/// The values one after the other, as words.
template <class... Values>
std::string words(const Values &...values) {
  std::string text;
  ((text += word(values)), ...);
  return text;
}
/// The same with commas between them.
template <class... Values>
std::string list(const Values &...values) {
  std::string text;
  ((text += (text.empty() ? "" : ", ") + word(values)), ...);
  return text;
}

}  // namespace weir::conformance

#define WEIR_JOIN2(a, b) a##b
#define WEIR_JOIN(a, b) WEIR_JOIN2(a, b)
#define WEIR_TRY_AS(name, ...)                       \
  do {                                               \
    if (auto name = (__VA_ARGS__); !name.passed()) { \
      return name;                                   \
    }                                                \
  } while (false)

/// Returns from the function with the outcome if it is a failure. May be used within itself, in a function object.
#define TRY(...) WEIR_TRY_AS(WEIR_JOIN(outcome_, __COUNTER__), __VA_ARGS__)

/// Returns a failure made of the words if the condition does not hold.
#define CHECK(condition, ...)                                                       \
  do {                                                                              \
    if (!(condition)) {                                                             \
      return ::weir::conformance::Outcome::failure(                                 \
          ::weir::conformance::place(::weir::conformance::Site::current()) + ": " + \
          ::weir::conformance::words(__VA_ARGS__));                                 \
    }                                                                               \
  } while (false)

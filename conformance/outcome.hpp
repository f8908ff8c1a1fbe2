// SPDX-License-Identifier: Apache-2.0
//
// What a check comes to: nothing, or a sentence with the place in the suite and the values. Checks return
// early; nothing is thrown. An outcome may also say that there was nothing to look at: it has passed, and what it is
// returned from as the last word is neither a pass nor a failure.
#pragma once

#include <weir/backend.h>

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

namespace weir::conformance {

using Site = std::source_location;

/// The runner knows of the failure at once and as long as what this gives is held, so that it is told even if the process
/// crashes while things are taken down (calls.hpp).
std::shared_ptr<void> hold_failure(const std::string &text);
/// Not 0 while a failure is held: another number each time that there was none before.
uint64_t failing_episode() noexcept;

class [[nodiscard]] Outcome {
 public:
  Outcome() = default;
  static Outcome failure(std::string text) {
    Outcome outcome = pending(std::move(text));
    outcome.told_ = hold_failure(outcome.text_);
    return outcome;
  }
  /// What is a failure unless something else comes: the runner is not told of it.
  static Outcome pending(std::string text) {
    Outcome outcome;
    outcome.failed_ = true;
    outcome.text_ = std::move(text);
    return outcome;
  }
  /// There was nothing to look at, and why. It counts as what a requirement's body returns; TRY() goes on after it.
  static Outcome nothing(std::string why) {
    Outcome outcome;
    outcome.empty_ = true;
    outcome.text_ = std::move(why);
    return outcome;
  }
  bool passed() const noexcept { return !failed_; }
  bool empty() const noexcept { return empty_; }
  const std::string &text() const noexcept { return text_; }

 private:
  bool failed_ = false, empty_ = false;
  std::string text_;
  std::shared_ptr<void> told_;  ///< held by all copies
};

/// Gives the failure back when the streams that fixtures made have come to rest: what the caller's work uses, such as the
/// objects of host functions, lives until then, since this is called before the caller's objects go (rest.hpp).
Outcome rested(Outcome failure);

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
      return ::weir::conformance::rested(name);      \
    }                                                \
  } while (false)

/// Returns from the function with the outcome if it is a failure. May be used within itself, in a function object.
#define TRY(...) WEIR_TRY_AS(WEIR_JOIN(outcome_, __COUNTER__), __VA_ARGS__)

#define WEIR_FIND_AS(name, ...)                                      \
  do {                                                               \
    if (auto name = (__VA_ARGS__); !name.passed() || name.empty()) { \
      return name;                                                   \
    }                                                                \
  } while (false)
/// The same, and returns as well if there was nothing to look at: without what is looked for here, nothing else is.
#define FIND(...) WEIR_FIND_AS(WEIR_JOIN(outcome_, __COUNTER__), __VA_ARGS__)

/// Returns a failure made of the words if the condition does not hold.
#define CHECK(condition, ...)                                                       \
  do {                                                                              \
    if (!(condition)) {                                                             \
      return ::weir::conformance::rested(::weir::conformance::Outcome::failure(     \
          ::weir::conformance::place(::weir::conformance::Site::current()) + ": " + \
          ::weir::conformance::words(__VA_ARGS__)));                                \
    }                                                                               \
  } while (false)

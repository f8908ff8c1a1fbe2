// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/error.hpp - how a call fails: weir::error, weir::result<T>, and returned<T>, which is T or result<T> by the choice
// in config.hpp; and the handler that is told what a destructor could not end.
//
// An error is a copy: it stays right when the thread's next call of Weir replaces weir_last_error().
#ifndef WEIR_CPP_ERROR_HPP
#define WEIR_CPP_ERROR_HPP

#include <weir/cpp/config.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>

namespace weir {
/// Shared by all choices of config.hpp and by all versions of these headers, so that a program has one variable. What stands
/// here never changes.
namespace cpp_common {
/// Is told what could not be ended ("pool", "buffer", ...), the library's answer and its message. It runs in a destructor.
using leak_handler = void (*)(const char *what, weir_result code, const char *message) noexcept;

inline void print_leak(const char *what, weir_result code, const char *message) noexcept {
  std::fprintf(stderr, "weir: a %s is left behind (%s): %s\n", what, weir_result_string(code),
               message);
}

inline std::atomic<leak_handler> on_leak{&print_leak};
}  // namespace cpp_common
}  // namespace weir

WEIR_CPP_BEGIN

using cpp_common::leak_handler;

/// Takes the place of the handler that prints one line to stderr; NULL brings that one back. Returns the former one. There is
/// one handler in a program, whatever its translation units chose. Any thread.
inline leak_handler set_leak_handler(leak_handler handler) noexcept {
  return cpp_common::on_leak.exchange(handler != nullptr ? handler : &cpp_common::print_leak);
}

/// Why a call failed: the result, the library's sentence (what) and its numbers. Copying it does not throw.
class WEIR_API error : public std::runtime_error {
 public:
  /// An answer of this header's own.
  error(weir_result code, const char *message) : std::runtime_error(message), code_(code) {
    info_.result = code;
    info_.device = WEIR_DEVICE_HOST;
    info_.use_index = UINT64_MAX;
  }
  /// The thread's last error, which a call just answered with `code`.
  static error last(weir_result code) {
    error made(code, weir_last_error());
    weir_last_error_info(&made.info_);
    return made;
  }

  weir_result code() const noexcept { return code_; }
  /// The numbers; docs/errors.md names the fields.
  const weir_error_info &info() const noexcept { return info_; }

 private:
  weir_error_info info_ = WEIR_ERROR_INFO_INIT;
  weir_result code_;
};

/// weir_last_error_report, in lines: what the thread's last error is about, what holds the bytes that were short, and what to do. Asked
/// for before the thread's next call; "" if there is no memory for it.
inline std::string last_error_report() {
  std::string text;
  size_t needed = 0;
  weir_result code = weir_last_error_report(nullptr, 0, &needed);
  while (code >= 0 && needed > text.size() + 1) {  // it grows while others make buffers
    text.resize(needed - 1);
    code = weir_last_error_report(text.data(), text.size() + 1, &needed);
  }
  text.resize(code >= 0 ? needed - 1 : 0);
  return text;
}

namespace detail {

/// The program is wrong in a way that has no answer.
[[noreturn]] inline void misuse(const char *what) noexcept {
  std::fprintf(stderr, "weir: %s\n", what);
  std::abort();
}

/// A value was asked of a result that has an error.
[[noreturn]] inline void no_value(const error &why) {
#if WEIR_CPP_EXCEPTIONS
  throw why;
#else
  misuse(why.what());
#endif
}

inline void tell_leak(const char *what, weir_result code) noexcept {
  cpp_common::on_leak.load()(what, code, weir_last_error());
}

}  // namespace detail

/// A value, or why there is none: as std::expected<T, weir::error> of C++23, as far as it goes. Asked for a value that it
/// has not, it throws its error; where calls return results it prints that and aborts.
template <class T>
class [[nodiscard]] result {
 public:
  using value_type = T;
  using error_type = weir::error;

  result(const T &value) : state_(std::in_place_index<0>, value) {}
  result(T &&value) : state_(std::in_place_index<0>, std::move(value)) {}
  result(weir::error why) : state_(std::in_place_index<1>, std::move(why)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T &value() & { return *checked(); }
  const T &value() const & { return *checked(); }
  T &&value() && { return std::move(*checked()); }
  T &operator*() & { return *checked(); }
  const T &operator*() const & { return *checked(); }
  T &&operator*() && { return std::move(*checked()); }
  T *operator->() { return checked(); }
  const T *operator->() const { return checked(); }
  template <class U>
  T value_or(U &&otherwise) && {
    return has_value() ? std::move(*checked()) : static_cast<T>(std::forward<U>(otherwise));
  }

  const weir::error &error() const {
    const weir::error *why = std::get_if<1>(&state_);
    if (why == nullptr) detail::misuse("a result was asked for its error, and has a value");
    return *why;
  }
  weir_result code() const noexcept {
    const weir::error *why = std::get_if<1>(&state_);
    return why != nullptr ? why->code() : WEIR_SUCCESS;
  }

 private:
  T *checked() { return const_cast<T *>(std::as_const(*this).checked()); }
  const T *checked() const {
    if (const T *value = std::get_if<0>(&state_)) return value;
    detail::no_value(error());
  }

  std::variant<T, weir::error> state_;
};

/// Success, or why not.
template <>
class [[nodiscard]] result<void> {
 public:
  using value_type = void;
  using error_type = weir::error;

  result() = default;
  result(weir::error why) : why_(std::move(why)) {}

  bool has_value() const noexcept { return !why_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const {
    if (why_) detail::no_value(*why_);
  }
  void operator*() const { value(); }
  const weir::error &error() const {
    if (!why_) detail::misuse("a result was asked for its error, and is a success");
    return *why_;
  }
  weir_result code() const noexcept { return why_ ? why_->code() : WEIR_SUCCESS; }

 private:
  std::optional<weir::error> why_;
};

/// What calls return: T where they throw, result<T> where they do not.
#if WEIR_CPP_EXCEPTIONS
template <class T>
using returned = T;
#else
template <class T>
using returned = result<T>;
#endif

namespace detail {

template <class T>
returned<T> fail(weir::error why) {
#if WEIR_CPP_EXCEPTIONS
  throw why;
#else
  return result<T>(std::move(why));
#endif
}

/// Of what a call answered with a negative `code`.
template <class T>
returned<T> fail_last(weir_result code) {
  return fail<T>(weir::error::last(code));
}

/// The answer to ending what is empty: moved from, or ended already.
template <class T>
returned<T> fail_empty() {
  return fail<T>({WEIR_ERROR_INVALID_HANDLE, "the handle is empty: moved from, or ended already"});
}

/// The answer where a C++ handle could not be made of a C handle.
template <class T>
returned<T> fail_made(const void *handle) {
  if (handle == nullptr) return fail<T>({WEIR_ERROR_INVALID_HANDLE, "the C handle is NULL"});
  return fail<T>({WEIR_ERROR_OUT_OF_HOST_MEMORY, "no memory for a handle"});
}

/// What a call answered that gives nothing else back.
inline returned<void> done(weir_result code) {
  if (code < 0) return fail_last<void>(code);
  return returned<void>();
}

/// `value`, if the call that filled it in succeeded.
template <class T>
returned<T> done(weir_result code, T &&value) {
  if (code < 0) return fail_last<T>(code);
  return returned<T>(std::forward<T>(value));
}

}  // namespace detail
WEIR_CPP_END

#endif  // WEIR_CPP_ERROR_HPP

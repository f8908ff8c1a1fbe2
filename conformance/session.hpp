// SPDX-License-Identifier: Apache-2.0
//
// A backend's library, and a state started in it. Every call that a requirement makes goes through
// Session::expect, which says what was called with what when the answer is another one than wanted.
#pragma once

#include "conformance/calls.hpp"
#include "conformance/outcome.hpp"

#include <weir/backend.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <type_traits>

namespace weir::conformance {

/// What went wrong while fixtures were taken down; the first is kept. Thread-safe.
class Complaints {
 public:
  void add(std::string text);
  std::string first() const;

 private:
  mutable std::mutex mutex_;
  Outcome first_;
};

/// A shared library with the entry point of a backend. It is never unloaded: the table must live.
class Library {
 public:
  Outcome open(const std::string &path);
  /// The symbol's answer; nullptr where it has none.
  const weir_backend_table *query(uint32_t abi_major) const;
  /// The table of our version, zero beyond what the backend has.
  Outcome table(weir_backend_table *table) const;

 private:
  weir_backend_query_fn query_ = nullptr;
};

/// What an entry is wanted to answer.
class Want {
 public:
  static Want exactly(weir_result result) { return {Kind::exact, result, result}; }
  static Want either(weir_result a, weir_result b) { return {Kind::exact, a, b}; }
  static Want one_of(weir_result a, weir_result b, weir_result c) { return {Kind::exact, a, b, c}; }
  static Want any_error() { return {Kind::error, 0, 0}; }
  bool holds(weir_result result) const noexcept {
    return kind_ == Kind::error ? result < 0
                                : result == first_ || result == second_ || result == third_;
  }
  std::string text() const;

 private:
  enum class Kind : uint8_t { exact, error };
  Want(Kind kind, weir_result first, weir_result second) noexcept
      : Want(kind, first, second, second) {}
  Want(Kind kind, weir_result first, weir_result second, weir_result third) noexcept
      : kind_(kind), first_(first), second_(second), third_(third) {}
  Kind kind_;
  weir_result first_, second_, third_;
};

/// The results of refusals. What the backend can see and the header does not allow:
inline Want invalid() { return Want::exactly(WEIR_ERROR_INVALID_ARGUMENT); }
/// What would need a capability that the device may be without:
inline Want invalid_or_unsupported() {
  return Want::either(WEIR_ERROR_INVALID_ARGUMENT, WEIR_ERROR_NOT_SUPPORTED);
}
/// More memory than any device could ever have:
inline Want invalid_or_out_of_memory() {
  return Want::either(WEIR_ERROR_INVALID_ARGUMENT, WEIR_ERROR_DEVICE_OOM);
}
/// More host memory than there is:
inline Want no_host_memory() {
  return Want::one_of(WEIR_ERROR_OUT_OF_HOST_MEMORY, WEIR_ERROR_INVALID_ARGUMENT,
                      WEIR_ERROR_DEVICE_OOM);
}

/// Looks at something of the calling thread's after each call that the thread makes through a Session.
class Watch {
 public:
  /// The thread is watched from now on.
  Watch() noexcept { current() = this; }
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;
  static Outcome after(const char *entry) {
    return current() != nullptr ? current()->same(entry) : Outcome{};
  }

 protected:
  ~Watch() { current() = nullptr; }
  virtual Outcome same(const char *entry) = 0;

 private:
  static Watch *&current() noexcept;
};

/// start and stop, which are calls under way like any other.
inline weir_result start_called(const weir_backend_table &table, const weir_be_start *desc,
                                weir_be_state **state, const char **reason,
                                Site site = Site::current()) {
  Call call(site, "start", desc);
  return call.ends(table.start(desc, state, reason));
}
inline void stop_called(const weir_backend_table &table, weir_be_state *state,
                        Site site = Site::current()) {
  const Call call(site, "stop", state);
  table.stop(state);
}

class Session {
 public:
  explicit Session(Complaints &complaints) noexcept : complaints_(&complaints) {}
  /// Another one that complains to the same place; nothing is started.
  explicit Session(const Session &other, uint32_t on_device) noexcept
      : table(other.table), device(on_device), complaints_(other.complaints_) {}
  ~Session() { stop(); }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  Outcome start(const Library &library, const std::string &options, weir_log_callback log = nullptr,
                void *log_user = nullptr, Site site = Site::current());
  /// What was not ended ends now. Allowed when nothing is started.
  void stop();

  /// Calls the entry and judges its answer.
  template <class... Parameters>
  Outcome expect(Site site, const Want &want, const char *name,
                 weir_result (*entry)(weir_be_state *, Parameters...),
                 std::type_identity_t<Parameters>... arguments) {
    if (entry == nullptr) return missing(site, name);
    const weir_result result = called(site, name, entry, state, arguments...);
    if (want.holds(result)) return Watch::after(name);
    return unexpected(site, want, name, list(arguments...), result);
  }
  Outcome missing(const Site &site, const char *name) const;
  Outcome unexpected(const Site &site, const Want &want, const char *name,
                     const std::string &arguments, weir_result result) const;
  /// For destructors, which have no caller to return a failure to.
  void keep(const Outcome &outcome) const {
    if (!outcome.passed()) complaints_->add("when taken down: " + outcome.text());
  }

  weir_backend_table table{};
  weir_be_state *state = nullptr;
  uint32_t device = 0;  ///< where fixtures are made unless they are told otherwise

 private:
  Complaints *complaints_;
};

}  // namespace weir::conformance

/// Calls `entry` of the session and returns a failure unless the answer is the wanted one.
#define EXPECT_IN(session, want, entry, ...)                               \
  TRY((session).expect(::weir::conformance::Site::current(), want, #entry, \
                       (session).table.entry __VA_OPT__(, ) __VA_ARGS__))
#define MUST_IN(session, entry, ...) \
  EXPECT_IN(session, ::weir::conformance::Want::exactly(WEIR_SUCCESS), entry, __VA_ARGS__)
/// The same for the test's own session, which is called t everywhere.
#define MUST(entry, ...) MUST_IN(t, entry, __VA_ARGS__)
/// It must answer INVALID_ARGUMENT.
#define REFUSED(entry, ...) EXPECT_IN(t, ::weir::conformance::invalid(), entry, __VA_ARGS__)
/// It must answer what the Want allows.
#define REFUSED_AS(want, entry, ...) EXPECT_IN(t, (want), entry, __VA_ARGS__)
/// It must fail, the header does not say how.
#define REFUSED_SOMEHOW(entry, ...) \
  EXPECT_IN(t, ::weir::conformance::Want::any_error(), entry, __VA_ARGS__)
#define ANSWERS(result, entry, ...) \
  EXPECT_IN(t, ::weir::conformance::Want::exactly(result), entry, __VA_ARGS__)
#define ANSWERS_EITHER(one, other, entry, ...) \
  EXPECT_IN(t, ::weir::conformance::Want::either(one, other), entry, __VA_ARGS__)

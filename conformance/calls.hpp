// SPDX-License-Identifier: Apache-2.0
//
// The calls under way, and what has failed so far, in a page that the runner shares: it says what a test's process was doing
// when it crashed or hung. Each thread writes its own slot and nothing else; a call costs a few stores and a look at the clock.
// The page is the same for the process that a test starts beside itself. Without a runner it is the process's own.
#pragma once

#include "conformance/outcome.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace weir::conformance {

/// The descriptor on which a process made by spawn() finds the page.
inline constexpr int calls_descriptor = 4;

/// A text of the program, by how far it lies from the program's beginning: the runner is the same program, in another place.
class ProgramText {
 public:
  void set(const char *text) noexcept;
  /// "?" for what is none of the program's.
  std::string get() const;

 private:
  uint64_t offset_;
};

/// One call of an entry.
struct CallRecord {
  static constexpr size_t most_arguments = 8;
  enum class Sort : uint8_t { number, negative_too, pointer };

  ProgramText entry, file;
  uint32_t line;
  uint32_t count;  ///< of arguments
  std::array<Sort, most_arguments> sorts;
  std::array<uint64_t, most_arguments> values;
  uint64_t began_ns;  ///< to a few milliseconds
  int32_t result;
  enum class State : uint32_t { none, under_way, answered, returned };
  std::atomic<State> state;  ///< `returned`: the entry has no result
};

/// The last of some calls.
struct CallRing {
  static constexpr size_t kept = 16;
  uint64_t calls;  ///< made so far
  std::array<CallRecord, kept> records;
};

/// A thread's calls. Claimed when `thread` is set, free to be taken by another one when it is 0 again. What is called while a
/// failure is held, such as what takes things down, does not push out what was called before.
struct CallSlot {
  std::atomic<uint32_t> thread;
  uint32_t process, owner;  ///< whose calls these are, also when the thread has ended
  CallRing before, failing;
};

struct CallPage {
  static constexpr uint64_t right = 0x77656972'63616c6c;
  static constexpr size_t most_threads = 64;
  enum class Phase : uint32_t { starting, body, ending, told };

  uint64_t magic;
  uint32_t process;  ///< the test's
  std::atomic<Phase> phase;
  std::atomic<uint32_t> failing_thread;  ///< the thread that made the failure
  std::atomic<uint32_t> failure_bytes;
  char failure[4096];  ///< the first of the failures that are still held
  std::array<CallSlot, most_threads> slots;
};

/// Uses the page on calls_descriptor, if there is one. `mine`: this process is the one that the page is about.
void share_calls(bool mine);
/// The descriptor of the page, to be handed on; -1 if it is this process's own.
int shared_calls() noexcept;
CallPage &call_page() noexcept;
void set_phase(CallPage::Phase phase) noexcept;
uint32_t thread_number() noexcept;

/// A call under way while it lives.
class Call {
 public:
  template <class... Arguments>
  Call(const Site &site, const char *entry, const Arguments &...arguments) noexcept {
    static_assert(sizeof...(arguments) <= CallRecord::most_arguments);
    constexpr size_t count = sizeof...(arguments);
    static constexpr CallRecord::Sort sorts[count + 1] = {sort_of<Arguments>()...};
    const uint64_t values[count + 1] = {value_of(arguments)...};
    begin(site, entry, count, sorts, values);
  }
  ~Call() { end(CallRecord::State::returned, 0); }
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;
  weir_result ends(weir_result result) noexcept {
    end(CallRecord::State::answered, result);
    return result;
  }
  /// Whether the calling thread has made calls, and is in none: the functions that a backend calls are not such threads.
  static bool may_be_made() noexcept;

 private:
  void begin(const Site &site, const char *entry, size_t count, const CallRecord::Sort *sorts,
             const uint64_t *values) noexcept;
  void end(CallRecord::State how, weir_result result) noexcept;
  template <class Value>
  static constexpr CallRecord::Sort sort_of() noexcept {
    if (std::is_pointer_v<Value> || std::is_same_v<Value, std::nullptr_t>)
      return CallRecord::Sort::pointer;
    return std::is_signed_v<Value> ? CallRecord::Sort::negative_too : CallRecord::Sort::number;
  }
  template <class Value>
  static uint64_t value_of(const Value &value) noexcept {
    if constexpr (std::is_same_v<Value, std::nullptr_t>) {
      return 0;
    } else if constexpr (std::is_pointer_v<Value>) {
      return reinterpret_cast<uintptr_t>(value);
    } else {
      return static_cast<uint64_t>(value);
    }
  }

  CallRecord *record_ = nullptr;
};

/// The same for an entry and its arguments; gives its answer.
template <class Result, class... Parameters>
Result called(const Site &site, const char *name, Result (*entry)(weir_be_state *, Parameters...),
              weir_be_state *state, std::type_identity_t<Parameters>... arguments) {
  Call call(site, name, arguments...);
  if constexpr (std::is_same_v<Result, weir_result>) {
    return call.ends(entry(state, arguments...));
  } else {
    return entry(state, arguments...);
  }
}

// ---- read by the runner, from a page whose writers may have been killed at any point

/// "fence_wait(0x7f.., 20000000000), called at group_fences.cpp:97, for 58 s; another thread in map(..), called at ..", or
/// "outside of any call". `now_ns`: when that was.
std::string calls_under_way(const CallPage &page, uint64_t now_ns);
/// The last calls of each thread before something failed, and those since then, a line each, the newest last.
std::string last_calls(const CallPage &page);
/// The failure that was told; "" if there was none.
std::string failure_told(const CallPage &page);
/// True if what came after was the taking down of what the test had made.
bool taking_down(const CallPage &page);
/// A crash or timeout as it is told: with the failure before it, and with the calls under way.
std::string told_end(const CallPage &page, const std::string &end, const std::string &under_way);

}  // namespace weir::conformance

/// The answer of a session's entry, which is not judged; a call that may block or crash is told by it.
#define CALL_IN(session, entry, ...)                                                               \
  ::weir::conformance::called(::weir::conformance::Site::current(), #entry, (session).table.entry, \
                              (session).state __VA_OPT__(, ) __VA_ARGS__)
#define CALL(entry, ...) CALL_IN(t, entry, __VA_ARGS__)

// SPDX-License-Identifier: Apache-2.0
//
// Ranges: what a thread is at, told to profilers as it begins and as it ends: a slow acquire, what that waits for, evictions, moves. A
// RangeScope is one. Without a listener it costs a load, and no name is made; the hit path has none.
//
// What must hold: a range begins and ends on one thread, and ends before the one that it began in, however the function is left. The
// listeners are chosen before the first pool, and outlive all pools. Profilers may be called with the pool's lock held: they call nothing of Weir.
#pragma once

#include "core/base/name.hpp"

#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace weir {

enum class RangeKind : uint8_t { acquire, wait, eviction, move, count };

constexpr const char *range_kind_name(RangeKind kind) noexcept {
  constexpr std::array<const char *, static_cast<size_t>(RangeKind::count)> names{
      "acquire", "wait", "eviction", "move"};
  return names[static_cast<size_t>(kind)];
}

/// A profiler's two functions.
class RangeSink {
 public:
  /// The text lives until this returns.
  virtual void push(RangeKind kind, const char *text) noexcept = 0;
  /// Ends the calling thread's innermost.
  virtual void pop() noexcept = 0;

 protected:
  ~RangeSink() = default;
};

/// The listeners, which are told of each range.
class Ranges {
 public:
  static constexpr size_t most = 2;

  void add(RangeSink *sink) noexcept { sinks_[count_++] = sink; }
  bool any() const noexcept { return count_ != 0; }

  void push(RangeKind kind, const char *text) const noexcept {
    for (size_t i = 0; i < count_; ++i) sinks_[i]->push(kind, text);
  }
  void pop() const noexcept {
    for (size_t i = count_; i-- > 0;) sinks_[i]->pop();
  }

 private:
  std::array<RangeSink *, most> sinks_{};
  size_t count_ = 0;
};

/// A pool's. What it names lives as long as the pool.
struct PoolRanges {
  const Ranges *to = nullptr;  ///< nullptr: there is no listener
  const char *pool = "";       ///< its name
};

/// The name of a range. A name that does not fit is cut.
class RangeText {
 public:
  void add(const char *format, ...) noexcept __attribute__((format(printf, 2, 3))) {
    va_list args;
    va_start(args, format);
    const int length = std::vsnprintf(&text_[length_], text_.size() - length_, format, args);
    va_end(args);
    if (length <= 0) return;
    const size_t room = text_.size() - 1 - length_, wanted = static_cast<size_t>(length);
    length_ += wanted < room ? wanted : room;
  }
  const char *c_str() const noexcept { return text_.data(); }

 private:
  std::array<char, 256> text_{};
  size_t length_ = 0;
};

namespace detail {
/// Where this thread's innermost range was told; nullptr: it is in none. Initial-exec, as thread_id.hpp has it.
extern thread_local const Ranges *thread_ranges __attribute__((tls_model("initial-exec")));
}  // namespace detail

class RangeScope {
 public:
  /// `name` is called with a RangeText only if there is a listener.
  template <class Name>
  RangeScope(const PoolRanges &of, RangeKind kind, Name &&name) noexcept {
    if (of.to == nullptr) return;
    RangeText text;
    name(text);
    text.add(", pool%s", QuotedName(of.pool).c_str());
    begin(*of.to, kind, text.c_str());
  }
  /// Within another range of this thread, told to the same; otherwise none.
  RangeScope(RangeKind kind, const char *text) noexcept {
    if (const Ranges *const here = detail::thread_ranges; here != nullptr) begin(*here, kind, text);
  }
  ~RangeScope() {
    if (to_ != nullptr) end();
  }
  RangeScope(const RangeScope &) = delete;
  RangeScope &operator=(const RangeScope &) = delete;

 private:
  void begin(const Ranges &to, RangeKind kind, const char *text) noexcept;
  void end() noexcept;

  const Ranges *to_ = nullptr;  ///< nullptr: no listener is told
  const Ranges *outer_ = nullptr;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
//
// What the program made and has not ended, and what it did wrong. A Token in an object counts it while it lives.
// Thread-safe.
#pragma once

#include "tests/drivers/sim/answer.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace weir::sim {

enum class Kind : uint8_t {
  granule,  ///< handles of physical memory; mappings keep the memory after the handle
  reservation,
  mapping,
  plain,
  pinned,
  registration,
  stream,  ///< Level Zero: queues and command lists
  event,   ///< Level Zero: events and their pools, fences
  context,
};

class Census {
 public:
  /// Notes a misuse (printf's format) and returns Answer::invalid.
  Answer misuse(const char *format, ...) noexcept __attribute__((format(printf, 2, 3)));
  /// How many misuses. *text (may be NULL): the first, "" if none; lives as long as the census.
  uint64_t misuses(const char **text) const noexcept;
  /// How many objects live. *text (may be NULL) names them, "" if none; valid until the next call.
  uint64_t alive(const char **text);
  uint64_t alive(Kind kind) const noexcept { return at(kind).load(std::memory_order_relaxed); }

  void add(Kind kind) noexcept { at(kind).fetch_add(1, std::memory_order_relaxed); }
  void remove(Kind kind) noexcept { at(kind).fetch_sub(1, std::memory_order_relaxed); }

 private:
  static constexpr size_t kinds = 9;
  std::atomic<uint64_t> &at(Kind kind) noexcept { return counts_[static_cast<size_t>(kind)]; }
  const std::atomic<uint64_t> &at(Kind kind) const noexcept {
    return counts_[static_cast<size_t>(kind)];
  }

  std::array<std::atomic<uint64_t>, kinds> counts_{};
  std::atomic<uint64_t> misuses_{0};
  char first_[256] = "";  ///< written once, before misuses_ leaves 0
  mutable std::mutex mutex_;
  std::string text_;  ///< alive()'s, guarded by mutex_
};

/// Counts its owner while it lives. The census must live longer.
class Token {
 public:
  Token(Census &census, Kind kind) noexcept : census_(census), kind_(kind) { census.add(kind); }
  ~Token() { census_.remove(kind_); }
  Token(const Token &) = delete;
  Token &operator=(const Token &) = delete;

 private:
  Census &census_;
  Kind kind_;
};

}  // namespace weir::sim

// SPDX-License-Identifier: Apache-2.0
//
// Stacks: where allocations were made, if a program asks for it (WEIR_CONTEXT_STACKS, WEIR_STACKS=1): the calls that led to an allocation, each
// distinct stack once, under a number. Taking one needs no lock but its own; a stack that has no room is counted and gets no number.
//
// What must hold: it never fails a call. Frames are return addresses, so what is printed is the address before. A trace's writer is told
// each stack once: tell_again() begins anew, and a stack that is told twice does no harm.
#pragma once

#include "core/base/mutex.hpp"

#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weir {

class Stacks {
 public:
  static constexpr size_t most_frames = 32;
  static constexpr uint64_t most_bytes = uint64_t{64} << 20U;

  explicit Stacks(std::pmr::memory_resource *memory, uint64_t most = most_bytes);

  /// The number of the calling thread's stack, from the call on that returns to `caller` (or all of it, if that is not found); 0: there
  /// is no room for it. Any thread.
  uint32_t take(const void *caller) noexcept;
  /// The same of these return addresses, the innermost first.
  uint32_t keep(std::span<void *const> frames) noexcept;
  /// None for 0. The innermost first.
  std::vector<void *> frames(uint32_t number) const;
  uint64_t count() const noexcept;
  /// Stacks that had no room.
  uint64_t dropped() const noexcept;

  /// A trace begins, which has been told of no stack.
  void tell_again() noexcept { telling_.fetch_add(1, std::memory_order_relaxed); }
  uint32_t telling() const noexcept { return telling_.load(std::memory_order_relaxed); }
  /// Whether set_told() has been called with both.
  bool told(uint32_t number, uint32_t telling) const noexcept;
  void set_told(uint32_t number, uint32_t telling) noexcept;

 private:
  struct Stack {
    uint32_t first;  ///< of frames_
    uint32_t count;
    uint32_t told = 0;  ///< in which telling last
  };
  /// Bytes that one more stack takes, in all tables.
  static uint64_t bytes_of(size_t frames) noexcept {
    return frames * sizeof(void *) + sizeof(Stack) + 64;
  }
  std::span<void *const> frames_of(uint32_t number) const noexcept WEIR_REQUIRES(mutex_) {
    const Stack &stack = stacks_[number - 1];
    return {frames_.data() + stack.first, stack.count};
  }

  const uint64_t most_;
  mutable RankedMutex<Rank::leaf> mutex_;
  std::pmr::vector<void *> frames_ WEIR_GUARDED_BY(mutex_);
  std::pmr::vector<Stack> stacks_ WEIR_GUARDED_BY(mutex_);  ///< by number, from 1
  std::pmr::unordered_multimap<uint64_t, uint32_t> numbers_ WEIR_GUARDED_BY(mutex_);  ///< by hash
  uint64_t bytes_ WEIR_GUARDED_BY(mutex_) = 0;
  uint64_t dropped_ WEIR_GUARDED_BY(mutex_) = 0;
  std::atomic<uint32_t> telling_{1};
};

/// Where a return address leads. Asks the loader, so with no lock held.
struct FrameSight {
  std::string file;      ///< its path; "": of no file
  std::string build_id;  ///< of the file, in hexadecimal digits; "": it has none
  uint64_t offset = 0;   ///< as addr2line wants it; the address itself where there is no file
  std::string function;  ///< that the file exports; "": not known
  std::string line;      ///< as describe_frame() has it
};
FrameSight look_up_frame(void *frame);

/// A return address as people and addr2line read it; asks the loader, so with no lock held: "libm.so.6(function+0x12) [+0x1a2b]", the last being the offset in the file.
std::string describe_frame(void *frame);

/// A text with stacks in it. They are described when it is whole, and no lock is held.
class StackedText {
 public:
  StackedText &operator+=(std::string_view text) {
    text_ += text;
    return *this;
  }
  /// The innermost calls, each in a line of its own.
  void add(std::vector<void *> frames) {
    if (!frames.empty()) stacks_.emplace_back(text_.size(), std::move(frames));
  }
  bool empty() const noexcept { return text_.empty(); }
  std::string whole() const;

 private:
  std::string text_;
  std::vector<std::pair<size_t, std::vector<void *>>> stacks_;  ///< where they belong
};

}  // namespace weir

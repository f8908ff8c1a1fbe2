// SPDX-License-Identifier: Apache-2.0
//
// StreamNumbers: under which number the log knows a stream. It is the pool's own, until a log has been loaded: the streams in it are those
// of another process, of which nothing is left but what they did. So each has a number from the upper end, and the stream that does the
// same takes it: at its first operation, if only one of them ever did that, else when eight operations in a row are the same.
//
// Guarded by whoever owns it.
#pragma once

#include "core/policy/contexts.hpp"
#include "core/policy/program_log.hpp"
#include "core/policy/stream_speeds.hpp"

#include <array>

namespace weir::policy {

class StreamNumbers {
 public:
  /// `count`: numbers are below this; 1 to StreamSpeeds::most_streams.
  explicit StreamNumbers(uint32_t count) : count_(count) {
    for (uint32_t own = 0; own < taken_.size(); ++own) taken_[own] = static_cast<uint8_t>(own);
  }

  uint32_t of(uint32_t stream) const noexcept { return taken_[stream % count_]; }
  /// The number of a stream of a log that is loaded.
  uint32_t loaded(uint32_t stream) const noexcept { return count_ - 1 - stream % count_; }
  /// That one may be taken.
  void offer(uint32_t number) noexcept { offered_ |= uint64_t{1} << number; }
  /// None may be taken any more.
  void withdraw() noexcept { offered_ = 0; }
  /// It has taken none, and there are some for it to take.
  bool looks(uint32_t stream) const noexcept {
    return offered_ != 0 && (settled_ >> (stream % count_) & 1) == 0;
  }
  /// The stream's newest operation has been pushed to the contexts under its own number. True: it has another one from now on.
  bool look(uint32_t stream, const Contexts &contexts, const ProgramLog &log,
            uint32_t shape) noexcept;

 private:
  static constexpr size_t eight = 2, one = 3;  ///< in Contexts::lengths
  static_assert(Contexts::lengths[eight] == 8 && Contexts::lengths[one] == 1);

  uint32_t count_;
  uint64_t offered_ = 0;  ///< by number
  uint64_t settled_ = 0;  ///< by the stream's own number: it has taken one
  std::array<uint8_t, StreamSpeeds::most_streams> taken_{};
};

}  // namespace weir::policy

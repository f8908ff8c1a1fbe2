// SPDX-License-Identifier: Apache-2.0
//
// Forecast: the operations that are to come, one after the other, as far as they are known: those that streams have announced, or those
// that a program has been learned to do. Whoever plans (policy/residency_plan.hpp) reads them and does not ask where they come from.
//
// Times are counts of operations: no durations are needed.
#pragma once

#include "core/policy/cast.hpp"

#include <span>

namespace weir::policy {

/// What becomes of a buffer after a use of it.
enum class Fate : uint8_t {
  unknown,
  needed,       ///< it is used again, with its content
  overwritten,  ///< it is used again, and all of it is written before any is read
  dies          ///< it is destroyed
};

/// When a buffer's fate comes.
struct Outlook {
  Fate fate = Fate::unknown;
  uint64_t distance = 0;  ///< operations from the use that it is the outlook after; unknown: 0
};

/// What comes so many operations later than at this distance, at which it was foreseen, is not waited for.
constexpr uint64_t patience(uint64_t distance) noexcept { return 8 + distance / 4; }

struct ForecastUse {
  uint32_t part = Cast::none;
  bool needs = false;  ///< the content that it has
  bool writes = false;
  uint64_t begin = 0, end = 0;  ///< bytes of the buffer
  Outlook after;
};

/// Valid until the forecast is asked again.
struct ForecastOperation {
  std::span<const uint32_t> births;  ///< parts of buffers that are created before it
  std::span<const ForecastUse> uses;
  std::span<const uint32_t> deaths;  ///< of buffers that are destroyed after it
};

class Forecast {
 public:
  /// Next comes the operation after the last that has happened.
  virtual void rewind() = 0;
  /// The next operation; nullptr: no more is known at present. Throws std::bad_alloc: ask again.
  virtual const ForecastOperation *next() = 0;
  /// Of a part after its last use that has happened.
  virtual Outlook outlook(uint32_t part) const noexcept = 0;

 protected:
  ~Forecast() = default;
};

}  // namespace weir::policy

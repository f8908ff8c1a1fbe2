// SPDX-License-Identifier: Apache-2.0
//
// LearnedForecast: what a program is going to do, from what it has done before. It is fed with operations, births and deaths in the
// order in which they happen, finds the earlier place of the program that it is in now, and reads on from there. One for a pool; each
// stream has its own place, and the streams are merged by the number of operations that each has begun lately.
//
// It gives parts (cast.hpp) to the buffers that it follows: to those that are born when the next operation of their stream is observed
// (an expected part, if it is that buffer that was expected), and ends them when they die. Guarded by whoever owns it.
#pragma once

#include "core/policy/alignment.hpp"
#include "core/policy/forecast.hpp"
#include "core/policy/next_use.hpp"
#include "core/policy/pairing.hpp"
#include "core/policy/program_walk.hpp"
#include "core/policy/size_scaling.hpp"
#include "core/policy/stream_numbers.hpp"
#include "core/policy/stream_speeds.hpp"
#include "core/policy/trust.hpp"

namespace weir::policy {

struct SavedLog;

class LearnedForecast final : public Forecast {
 public:
  static constexpr uint32_t no_stream = UINT32_MAX;
  static constexpr size_t least_budget = size_t{64} << 10;

  struct Terms {
    size_t budget =
        size_t{32}
        << 20;  ///< for everything, the Cast not counted; less than least_budget is taken for that
    uint64_t smallest = 0;                         ///< smaller buffers are not followed
    uint32_t most_entries = ProgramLog::none - 1;  ///< the log starts anew after so many
  };

  /// Throws std::bad_alloc. All that is needed later is allocated here, but for the parts.
  LearnedForecast(Cast &cast, const Terms &terms, std::pmr::memory_resource *memory);
  ~LearnedForecast() = default;
  LearnedForecast(const LearnedForecast &) = delete;
  LearnedForecast &operator=(const LearnedForecast &) = delete;

  /// An operation begins. Buffers that get their part now are in born_parts() until the next is observed. A buffer for whose part
  /// there is no memory gets it with a later operation that uses it.
  void observe(const ObservedOperation &operation) noexcept;
  /// A buffer has been created. `stream`: whose next operation it comes before, or no_stream.
  void born(uint32_t buffer, uint64_t generation, uint64_t bytes, uint32_t stream) noexcept;
  /// A buffer has been destroyed. Its part is ended: take it from the Cast before, if it is of interest.
  void died(uint32_t buffer) noexcept;
  /// One that lives was not told of when it was created.
  void found(uint32_t buffer, uint64_t generation, uint64_t bytes) noexcept;
  /// One has been destroyed, and nobody told when: nothing is to be learned of that.
  void left(uint32_t buffer) noexcept;
  std::span<const uint32_t> born_parts() const noexcept { return born_parts_; }

  /// Learns what a program did once: as if it had been observed, and nothing were left of it. `names`: the numbers of the program's
  /// names here. Before anything has been told. What finds no room is forgotten, the oldest first.
  void load(const SavedLog &log, std::span<const uint32_t> names) noexcept;

  /// Operations observed.
  uint64_t now() const noexcept { return now_; }
  /// The stream of the newest operation knows its place.
  bool aligned() const noexcept { return matched_; }
  /// aligned(), and what was forecast has come true lately.
  bool trusted() const noexcept { return matched_ && trust_.holds(); }
  const Trust &trust() const noexcept { return trust_; }
  /// A stream goes on from another place than the one from which it has been walked since rewind(), or from one at last, and seems to
  /// stay: it is time to rewind.
  bool moved() const noexcept;
  /// As moved(): sizes differ from those that were expected when rewind() was called.
  bool resized() const noexcept;

  void rewind() override;
  const ForecastOperation *next() override;
  Outlook outlook(uint32_t part) const noexcept override;

  /// What it holds.
  size_t bytes() const noexcept;
  const ProgramLog &log() const noexcept { return log_; }

  /// For tests and tools.
  struct Counts {
    uint64_t operations = 0, aligned = 0;  ///< observed; of those, with a place
    uint64_t births = 0, foreseen = 0;     ///< with a part; of those, expected before
    uint64_t unfollowed = 0;               ///< births for which the log had no room
  };
  const Counts &counts() const noexcept { return counts_; }

 private:
  /// How the budget is shared out.
  struct Shares {
    uint32_t streams, context_entries, expected, most_uses;
    ProgramLog::Sizes log;
  };
  static Shares share_out(const Terms &terms) noexcept;
  LearnedForecast(Cast &cast, const Terms &terms, const Shares &shares,
                  std::pmr::memory_resource *memory);

  void start_anew() noexcept;
  std::span<const ObservedUse> within_limit(const ObservedOperation &operation) const noexcept;
  uint32_t name_of(const ObservedOperation &operation) const noexcept;
  uint32_t number_of(uint32_t stream, uint32_t shape) noexcept;
  /// It has been logged as the newest, and has been pushed to the contexts.
  void place(uint32_t stream) noexcept;
  void pair_births(uint32_t operation, const Alignment &alignment) noexcept;
  void pair_uses(uint32_t operation, const Alignment &alignment) noexcept;
  void judge(const LoggedUse &use, uint32_t due) noexcept;
  void set_due(uint32_t life, uint32_t number) noexcept;
  bool give_part(Life &life, const Life *role) noexcept;
  // learned_forecast_load.cpp
  class Loading;
  void leave_loaded(uint32_t streams) noexcept;
  void foresee(const ProgramWalk::Step &step);
  void foresee_births(const LoggedOperation &operation, bool resized);
  void foresee_use(uint32_t number);
  ProgramWalk::View view() const noexcept { return {log_, alignments_, speeds_}; }

  ProgramLog log_;
  Contexts contexts_;
  std::pmr::vector<Alignment> alignments_;  ///< by stream
  StreamNumbers numbers_;
  StreamSpeeds speeds_;
  SizeScaling scaling_;
  Trust trust_;
  Pairing pairing_;
  ProgramWalk walk_;
  uint64_t smallest_;
  uint64_t now_ = 0;
  uint64_t walked_ = 0;  ///< the operation, counted as now_ is, that next() gives next
  double walked_ratio_ = 1;
  bool matched_ = false;
  std::pmr::vector<uint32_t> born_parts_;
  // Of the operation that next() has given. They have room for the most uses that an operation may have.
  std::pmr::vector<uint32_t> births_, deaths_;
  std::pmr::vector<ForecastUse> uses_;
  ForecastOperation operation_;
  Counts counts_;
};

}  // namespace weir::policy

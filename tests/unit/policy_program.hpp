// SPDX-License-Identifier: Apache-2.0
//
// A program as the tests of the policy see it: operations one after the other with their durations, uses, births and deaths; and
// Future, the forecast that knows all of it. Nothing here is changed once it has been built.
#pragma once

#include "core/policy/forecast.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::test {

/// What one operation does with one buffer. What it needs to be in memory is [begin, end): in the machine of these tests the resident
/// bytes of a buffer are its last ones, so that is all from the first byte that it touches on.
struct ProgramUse {
  static constexpr uint32_t none = UINT32_MAX;

  uint32_t buffer = 0;
  bool needs = false, writes = false;
  bool whole = false;       ///< all of it is overwritten
  uint64_t begin = 0;       ///< bytes
  uint64_t end = 0;         ///< of the content behind it
  uint64_t write_from = 0;  ///< what is before it stays as it is
  uint32_t next = none;     ///< the next use of the buffer
  uint32_t operation = 0;
};

struct ProgramOperation {
  double ns = 0;
  uint32_t uses = 0, births = 0,
           deaths = 0;  ///< where the operation's begin in those of the program
};

class Program {
 public:
  Program() : operations_(1) {}

  /// A buffer that is born before the next operation that is added.
  uint32_t birth(uint64_t bytes) {
    sizes_.push_back(bytes);
    last_use_.push_back(ProgramUse::none);
    death_.push_back(ProgramUse::none);
    births_.push_back(static_cast<uint32_t>(sizes_.size() - 1));
    return births_.back();
  }
  /// Of one use a buffer; `begin`, `end` and `write_from` as the operation touches it.
  void operation(double ns, std::vector<ProgramUse> uses, const std::vector<uint32_t> &deaths) {
    const uint32_t index = count();
    uint64_t set = 0;
    for (ProgramUse use : uses) {
      const uint32_t last = last_use_[use.buffer];
      const auto number = static_cast<uint32_t>(uses_.size());
      if (last != ProgramUse::none) {
        uses_[last].next = number;
        use.end = std::max(use.end, uses_[last].end);
      }
      use.operation = index;
      uses_.push_back(use);
      last_use_[use.buffer] = number;
      set += sizes_[use.buffer];
    }
    largest_set_ = std::max(largest_set_, set);
    for (uint32_t i = operations_.back().births; i < births_.size(); ++i)
      live_ += sizes_[births_[i]];
    peak_ = std::max(peak_, live_);
    for (const uint32_t buffer : deaths) {
      deaths_.push_back(buffer);
      death_[buffer] = index;
      live_ -= sizes_[buffer];
    }
    operations_.back().ns = ns;
    operations_.push_back({0, static_cast<uint32_t>(uses_.size()),
                           static_cast<uint32_t>(births_.size()),
                           static_cast<uint32_t>(deaths_.size())});
  }

  uint32_t count() const { return static_cast<uint32_t>(operations_.size() - 1); }
  uint32_t buffers() const { return static_cast<uint32_t>(sizes_.size()); }
  uint64_t size(uint32_t buffer) const { return sizes_[buffer]; }
  uint64_t peak() const { return peak_; }  ///< bytes that live at once
  uint64_t largest_set() const {
    return largest_set_;
  }  ///< bytes of buffers that one operation uses
  uint32_t death(uint32_t buffer) const { return death_[buffer]; }  ///< after this operation
  double ns(uint32_t operation) const { return operations_[operation].ns; }
  std::span<const ProgramUse> uses(uint32_t operation) const {
    return part(uses_, operations_[operation].uses, operations_[operation + 1].uses);
  }
  std::span<const uint32_t> births(uint32_t operation) const {
    return part(births_, operations_[operation].births, operations_[operation + 1].births);
  }
  std::span<const uint32_t> deaths(uint32_t operation) const {
    return part(deaths_, operations_[operation].deaths, operations_[operation + 1].deaths);
  }
  const ProgramUse &use(uint32_t number) const { return uses_[number]; }

 private:
  template <class T>
  static std::span<const T> part(const std::vector<T> &all, uint32_t from, uint32_t to) {
    return std::span<const T>(all).subspan(from, to - from);
  }

  std::vector<ProgramOperation> operations_;  ///< and one behind the last
  std::vector<ProgramUse> uses_;
  std::vector<uint32_t> births_, deaths_;
  std::vector<uint64_t> sizes_;             ///< by buffer
  std::vector<uint32_t> last_use_, death_;  ///< by buffer
  uint64_t live_ = 0, peak_ = 0, largest_set_ = 0;
};

/// A forecast that is told what happens.
class Foresight : public policy::Forecast {
 public:
  virtual ~Foresight() = default;
  /// A buffer is created: as which part it was expected, or none.
  virtual uint32_t expected(uint32_t buffer) = 0;
  /// An operation begins. What is born before it has its part.
  virtual void begins(uint32_t operation) = 0;
  /// It has been handed over. What dies after it still has its part.
  virtual void handed_over(uint32_t operation) = 0;
  /// Whether operations are not those that were foreseen.
  virtual bool moved() const = 0;
};

/// It knows everything.
class Future final : public Foresight {
 public:
  /// Leaves out buffers of fewer bytes than `least`.
  Future(const Program &program, policy::Cast &cast, uint64_t least)
      : program_(program),
        cast_(cast),
        least_(least),
        expected_(program.buffers(), policy::Cast::none),
        last_use_(program.buffers(), ProgramUse::none) {}

  uint32_t expected(uint32_t buffer) override { return expected_[buffer]; }
  void begins(uint32_t operation) override {
    now_ = operation;
    for (const ProgramUse &use : program_.uses(operation))
      last_use_[use.buffer] = static_cast<uint32_t>(&use - &program_.use(0));
  }
  void handed_over(uint32_t) override {}
  bool moved() const override { return false; }

  void rewind() override {
    cast_.forget_expected();
    std::fill(expected_.begin(), expected_.end(), policy::Cast::none);
    next_ = now_ + 1;
  }
  const policy::ForecastOperation *next() override {
    if (next_ >= program_.count()) return nullptr;
    births_.clear();
    uses_.clear();
    deaths_.clear();
    for (const uint32_t buffer : program_.births(next_)) {
      if (program_.size(buffer) < least_) continue;
      if (part(buffer) == policy::Cast::none)
        expected_[buffer] = cast_.expect(program_.size(buffer));
      births_.push_back(part(buffer));
    }
    for (const ProgramUse &use : program_.uses(next_))
      if (part(use.buffer) != policy::Cast::none && program_.size(use.buffer) >= least_)
        uses_.push_back({part(use.buffer), use.needs, use.writes, use.begin, use.end, after(use)});
    for (const uint32_t buffer : program_.deaths(next_))
      if (part(buffer) != policy::Cast::none && program_.size(buffer) >= least_)
        deaths_.push_back(part(buffer));
    ++next_;
    operation_ = {births_, uses_, deaths_};
    return &operation_;
  }
  policy::Outlook outlook(uint32_t part) const noexcept override {
    const uint32_t buffer = cast_[part].buffer;
    if (buffer == policy::Cast::none || last_use_[buffer] == ProgramUse::none) return {};
    return after(program_.use(last_use_[buffer]));
  }

 private:
  static constexpr uint64_t never = 1'000'000'000;

  uint32_t part(uint32_t buffer) const {
    const uint32_t real = cast_.of(buffer);
    return real != policy::Cast::none ? real : expected_[buffer];
  }
  policy::Outlook after(const ProgramUse &use) const {
    if (use.next != ProgramUse::none) {
      const ProgramUse &next = program_.use(use.next);
      const bool overwritten = next.whole && !next.needs;
      return {overwritten ? policy::Fate::overwritten : policy::Fate::needed,
              next.operation - use.operation};
    }
    const uint32_t death = program_.death(use.buffer);
    const uint64_t distance = death == ProgramUse::none ? never : death - use.operation;
    return {policy::Fate::dies, std::max<uint64_t>(distance, 1)};
  }

  const Program &program_;
  policy::Cast &cast_;
  uint64_t least_;
  std::vector<uint32_t> expected_, last_use_;  ///< by buffer
  uint32_t now_ = 0, next_ = 0;                ///< operations
  std::vector<uint32_t> births_, deaths_;
  std::vector<policy::ForecastUse> uses_;
  policy::ForecastOperation operation_;
};

}  // namespace weir::test

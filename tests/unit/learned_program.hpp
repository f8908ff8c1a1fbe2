// SPDX-License-Identifier: Apache-2.0
//
// Programs for the tests of the learned forecast: steps with buffers by made-up ids, done through a LearnedForecast as a pool would,
// with buffer numbers that are used again. A training loop in small is among them.
#pragma once

#include "core/base/memory.hpp"
#include "core/policy/learned_forecast.hpp"

#include <map>
#include <set>
#include <vector>

namespace weir::test {

struct StepUse {
  uint32_t id;
  uint8_t mode;
  uint64_t begin, end;
};
struct StepBirth {
  uint32_t id;
  uint64_t bytes;
};
struct Step {
  uint32_t name = 0;
  std::vector<StepBirth> births;
  std::vector<StepUse> uses;
  std::vector<uint32_t> deaths;
};

/// A stream's program and the buffers that it has.
class Doer {
 public:
  explicit Doer(policy::LearnedForecast &forecast, std::set<uint32_t> &free, uint32_t stream = 0)
      : forecast_(forecast), free_(free), stream_(stream) {}

  void begin(const Step &step) {
    for (const StepBirth &birth : step.births) {
      const uint32_t number = *free_.begin();
      free_.erase(free_.begin());
      numbers_[birth.id] = number;
      forecast_.born(number, ++generation_, birth.bytes, stream_);
    }
    uses_.clear();
    for (const StepUse &use : step.uses)
      uses_.push_back({numbers_[use.id], use.mode, use.begin, use.end});
    forecast_.observe({step.name, stream_, uses_});
  }
  void end(const Step &step) {
    for (const uint32_t id : step.deaths) {
      forecast_.died(numbers_[id]);
      free_.insert(numbers_[id]);
      numbers_.erase(id);
    }
  }
  void run(const Step &step) {
    begin(step);
    end(step);
  }
  void run(const std::vector<Step> &steps) {
    for (const Step &step : steps) run(step);
  }
  uint32_t number(uint32_t id) const { return numbers_.at(id); }

 private:
  policy::LearnedForecast &forecast_;
  std::set<uint32_t> &free_;
  uint32_t stream_;
  std::map<uint32_t, uint32_t> numbers_;  ///< by id
  std::vector<policy::ObservedUse> uses_;
  uint64_t generation_ = 0;
};

inline std::set<uint32_t> first_numbers(uint32_t count) {
  std::set<uint32_t> numbers;
  for (uint32_t number = 0; number < count; ++number) numbers.insert(number);
  return numbers;
}

/// What next() has given, kept.
struct Foreseen {
  std::vector<uint32_t> births, deaths;
  std::vector<uint64_t> bytes;  ///< of the births
  std::vector<policy::ForecastUse> uses;
};

struct Site {
  explicit Site(size_t budget = size_t{4} << 20)
      : Site(policy::LearnedForecast::Terms{budget, 1}) {}
  explicit Site(const policy::LearnedForecast::Terms &terms)
      : memory(std::pmr::new_delete_resource()),
        cast(std::pmr::new_delete_resource()),
        forecast(cast, terms, &memory),
        free(first_numbers(100000)) {}

  std::vector<Foreseen> foresee(size_t most) {
    std::vector<Foreseen> all;
    while (all.size() < most) {
      const policy::ForecastOperation *next = forecast.next();
      if (next == nullptr) break;
      Foreseen its;
      its.births.assign(next->births.begin(), next->births.end());
      for (const uint32_t part : its.births) its.bytes.push_back(cast[part].bytes);
      its.uses.assign(next->uses.begin(), next->uses.end());
      its.deaths.assign(next->deaths.begin(), next->deaths.end());
      all.push_back(its);
    }
    return all;
  }

  CountingMemory memory;
  policy::Cast cast;
  policy::LearnedForecast forecast;
  std::set<uint32_t> free;
};

/// Weights that stay, activations made forward and freed backward, gradients freed by the optimizer. Names are those of kinds of
/// operations: the layers are told apart by what came before only.
class Training {
 public:
  static constexpr uint64_t unit = uint64_t{1} << 20;
  enum Name : uint32_t { load = 1, forward, backward, update };

  explicit Training(uint32_t layers) : layers_(layers) {}

  std::vector<Step> setup() const {
    Step step;
    step.name = load;
    for (uint32_t layer = 0; layer < layers_; ++layer) {
      step.births.push_back({weight(layer), weight_bytes(layer)});
      step.uses.push_back({weight(layer), whole, 0, weight_bytes(layer)});
    }
    return {step};
  }
  /// `batch`: activations have so many units, their products its square.
  std::vector<Step> iteration(uint64_t batch) const {
    using namespace policy;
    std::vector<Step> steps;
    for (uint32_t layer = 0; layer < layers_; ++layer) {
      Step step;
      step.name = forward;
      const uint64_t bytes = activation_bytes(layer, batch);
      step.births = {{activation(layer), bytes}};
      step.uses = {{weight(layer), use_needs, 0, weight_bytes(layer)}};
      if (layer != 0)  // half of what the layer before made
        step.uses.push_back(
            {activation(layer - 1), use_needs, 0, activation_bytes(layer - 1, batch) / 2});
      step.uses.push_back({activation(layer), whole, 0, bytes});
      steps.push_back(step);
    }
    for (uint32_t layer = layers_; layer-- != 0;) {
      Step step;
      step.name = backward;
      step.births = {{gradient(layer), weight_bytes(layer)}};
      step.uses = {{weight(layer), use_needs, 0, weight_bytes(layer)},
                   {activation(layer), use_needs, 0, activation_bytes(layer, batch)},
                   {gradient(layer), whole, 0, weight_bytes(layer)}};
      step.deaths = {activation(layer)};
      steps.push_back(step);
    }
    for (uint32_t layer = 0; layer < layers_; ++layer) {
      Step step;
      step.name = update;
      step.uses = {{weight(layer), use_needs | use_writes, 0, weight_bytes(layer)},
                   {gradient(layer), use_needs, 0, weight_bytes(layer)}};
      step.deaths = {gradient(layer)};
      steps.push_back(step);
    }
    return steps;
  }

  static constexpr uint8_t whole = policy::use_writes | policy::use_whole;
  uint32_t weight(uint32_t layer) const { return layer; }
  uint32_t activation(uint32_t layer) const { return 1000 + layer; }
  uint32_t gradient(uint32_t layer) const { return 2000 + layer; }
  uint64_t weight_bytes(uint32_t layer) const { return (7 + layer) * unit + 256; }
  /// Each fourth grows with the square of the batch.
  uint64_t activation_bytes(uint32_t layer, uint64_t batch) const {
    const uint64_t bytes = (1 + layer % 5) * unit * batch;
    return layer % 4 == 2 ? bytes * batch : bytes;
  }

 private:
  uint32_t layers_;
};

}  // namespace weir::test

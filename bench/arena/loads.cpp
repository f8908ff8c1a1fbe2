// SPDX-License-Identifier: Apache-2.0
//
// The three loads. Each writes a script of operations over slots and keeps track of which slots are taken.

#include "bench/arena/loads.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace weir::bench {

namespace {

constexpr uint64_t kib = 1024;
constexpr size_t wear = 200000;  ///< operations before the clock runs

/// Writes operations and gives out slots.
class Script {
 public:
  uint32_t take(uint64_t size) {
    uint32_t slot = static_cast<uint32_t>(slots_);
    if (idle_.empty()) {
      ++slots_;
    } else {
      slot = idle_.back();
      idle_.pop_back();
    }
    operations_.push_back({slot, static_cast<uint32_t>(std::max<uint64_t>(size, 1))});
    return slot;
  }
  void give(uint32_t slot) {
    operations_.push_back({slot, 0});
    idle_.push_back(slot);
  }
  size_t size() const { return operations_.size(); }
  size_t live() const { return slots_ - idle_.size(); }
  /// The last `count` operations are the timed ones.
  void finish(size_t count, Load *load) {
    const auto cut = operations_.end() - static_cast<std::ptrdiff_t>(count);
    load->fill.assign(operations_.begin(), cut);
    load->operations.assign(cut, operations_.end());
    load->slots = slots_;
  }

 private:
  std::vector<Operation> operations_;
  std::vector<uint32_t> idle_;
  size_t slots_ = 0;
};

uint64_t log_normal(Sizes &sizes, double median, double sigma, uint64_t longest) {
  std::normal_distribution<double> normal(std::log(median), sigma);
  return std::min(static_cast<uint64_t>(std::exp(normal(sizes.engine()))), longest);
}

// ---- training ----

constexpr size_t parameters = 2500;
constexpr size_t activations = 5000;
constexpr size_t disorder = 8;  ///< one of the last so many activations is freed next

class Training {
 public:
  explicit Training(Script *script) : script_(*script) {
    for (uint64_t &size : parameter_) script_.take(size = sizes_());
    for (uint64_t &size : activation_) size = sizes_();
  }

  void iterate() {
    if (iteration_ % 4 == 0) share_ = 16 + sizes_.below(49);  // of 64: how long the sequences are
    forward();
    backward();
    // The optimiser keeps two moments of each parameter from its first step on; then the gradients go.
    for (size_t i = 0; i < parameters; ++i) {
      if (iteration_ == 0) script_.take(parameter_[i]);
      if (iteration_ == 0) script_.take(parameter_[i]);
      script_.give(script_.take(parameter_[i]));
      script_.give(gradient_[i]);
    }
    ++iteration_;
  }

 private:
  uint64_t size(size_t activation) const { return activation_[activation] * share_ / 64; }
  void workspace(size_t activation) {
    if (activation % 4 == 0) script_.give(script_.take(size(activation) / 2));
  }
  void forward() {
    for (size_t i = 0; i < activations; ++i) {
      slot_[i] = script_.take(size(i));
      workspace(i);
    }
  }
  /// The gradient that flows back lives for a step, a parameter's until the optimiser has used it.
  void backward() {
    std::vector<size_t> kept(activations);
    std::iota(kept.begin(), kept.end(), size_t{0});
    uint32_t flowing = script_.take(size(activations - 1));
    while (!kept.empty()) {
      const size_t back = 1 + sizes_.below(std::min(disorder, kept.size()));
      const auto gone = kept.end() - static_cast<std::ptrdiff_t>(back);
      const uint32_t next = script_.take(size(*gone));
      workspace(*gone);
      if (*gone % 2 == 0) gradient_[*gone / 2] = script_.take(parameter_[*gone / 2]);
      script_.give(flowing);
      script_.give(slot_[*gone]);
      flowing = next;
      kept.erase(gone);
    }
    script_.give(flowing);
  }

  Script &script_;
  Sizes sizes_{11};
  std::array<uint64_t, parameters> parameter_{};
  std::array<uint64_t, activations> activation_{};
  std::array<uint32_t, activations> slot_{};
  std::array<uint32_t, parameters> gradient_{};
  uint64_t share_ = 0;
  uint64_t iteration_ = 0;
};

// ---- serving ----

constexpr size_t weights = 500;
constexpr size_t concurrent = 480;  ///< requests

class Serving {
 public:
  explicit Serving(Script *script) : script_(*script) {
    constexpr std::array<uint64_t, 4> shapes{16, 8192, 22016, 32768};
    for (size_t i = 0; i < weights; ++i) script_.take(shapes[i % shapes.size()] * kib);
    while (requests_.size() < concurrent) admit();
  }

  /// One step of the batch: eight requests grow, and those that are done go.
  void step() {
    const uint32_t workspace = script_.take(log_normal(sizes_, 2048.0 * kib, 1.0, longest));
    for (int i = 0; i < 8; ++i) {
      Request &request = requests_[sizes_.below(requests_.size())];
      if (request.left-- > 0) {
        grow(request);
        continue;
      }
      for (const uint32_t slot : request.ranges) script_.give(slot);
      std::swap(request, requests_.back());
      requests_.pop_back();
      admit();
    }
    script_.give(workspace);
  }

 private:
  static constexpr uint64_t longest = 65536 * kib;
  struct Request {
    std::vector<uint32_t> ranges;
    uint64_t block;  ///< bytes of 16 tokens
    uint64_t length;
    uint64_t left;
    bool paged;
  };
  void admit() {
    constexpr std::array<uint64_t, 3> blocks{256, 512, 2048};  // three models
    Request request;
    request.block = blocks[sizes_.below(blocks.size())] * kib;
    request.length = std::max<uint64_t>(1, log_normal(sizes_, 16, 1.0, longest / request.block));
    request.left = log_normal(sizes_, 24, 0.8, 400);
    request.paged = sizes_.below(4) != 0;
    if (request.paged) {
      for (uint64_t i = 0; i < request.length; ++i)
        request.ranges.push_back(script_.take(request.block));
    } else {
      request.ranges.push_back(script_.take(request.block * request.length));
    }
    requests_.push_back(std::move(request));
  }
  /// A block more, or all of it anew one block longer.
  void grow(Request &request) {
    if (request.paged) {
      request.ranges.push_back(script_.take(request.block));
      return;
    }
    const uint64_t length = std::min(++request.length * request.block, longest);
    const uint32_t longer = script_.take(length + log_normal(sizes_, 16.0 * kib, 1.0, 64 * kib));
    script_.give(request.ranges.back());
    request.ranges.back() = longer;
  }

  Script &script_;
  Sizes sizes_{12};
  std::vector<Request> requests_;
};

constexpr size_t timed = 400000;  ///< operations

Load random_load() {
  Load load{
      "random", "a range at random replaced by another, sizes log-uniform", 0.12, 0.60, {}, {}, 0};
  Script script;
  Sizes sizes(1);
  while (script.live() < live_count) script.take(sizes());
  while (script.size() < live_count + wear + timed) {
    // give() leaves the slot as the next to be taken.
    script.give(static_cast<uint32_t>(sizes.below(live_count)));
    script.take(sizes());
  }
  script.finish(timed, &load);
  return load;
}

Load training_load() {
  Load load{
      "training",
      "activations forward and back, gradients to the iteration's end, four iterations a shape",
      0.15,
      0.65,
      {},
      {},
      0};
  Script script;
  Training training(&script);
  while (script.size() < wear + timed) training.iterate();
  script.finish(timed, &load);
  return load;
}

Load serving_load() {
  Load load{
      "serving", "requests of log-normal length grow by blocks or by longer copies, then all goes",
      0.15,      0.60,
      {},        {},
      0};
  Script script;
  Serving serving(&script);
  while (script.size() < wear + timed) serving.step();
  script.finish(timed, &load);
  return load;
}

}  // namespace

std::vector<Load> all_loads() { return {random_load(), training_load(), serving_load()}; }

}  // namespace weir::bench

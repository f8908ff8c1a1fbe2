// SPDX-License-Identifier: Apache-2.0
//
// What is allocated and freed, drawn before any clock runs: every allocator replays the same operations. About
// 10,000 ranges are live in each load; the same seed always gives the same operations.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace weir::bench {

constexpr size_t live_count = 10000;

/// Sizes log-uniform from 256 bytes to 64 MiB.
class Sizes {
 public:
  explicit Sizes(uint64_t seed) : engine_(seed) {}
  uint64_t operator()() { return static_cast<uint64_t>(std::exp2(exponent_(engine_))); }
  size_t below(size_t limit) { return static_cast<size_t>(engine_() % limit); }
  std::mt19937_64 &engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
  std::uniform_real_distribution<double> exponent_{8.0, 26.0};
};

/// Into `slot` goes a range of `size` bytes; size 0 frees what is in it.
struct Operation {
  uint32_t slot;
  uint32_t size;
};

struct Load {
  const char *name;
  const char *what;
  double goal;  ///< of the ratio to the map
  double goal_to_vma;
  std::vector<Operation> fill;        ///< until all that is live at first is there, and then some
  std::vector<Operation> operations;  ///< timed
  size_t slots;
};

/// The three:
///  - random: a range at random is replaced by one of another size.
///  - training: parameters and, from the first step on, optimiser state stay. Every iteration allocates activations
///    going forward and frees them going back, last in nearly first out, while gradients come that stay to its end;
///    short-lived workspaces lie between. Every fourth iteration the batch has another shape.
///  - serving: requests come and go, their lengths log-normal, and grow while they live: three of four by a block of
///    their model's size, the fourth by a longer copy of all it has. A workspace of log-normal size in every step.
///    Weights stay.
std::vector<Load> all_loads();

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
//
// Any order of everything: the random model (model.hpp) for a fixed number of steps. What the process and the devices hold is
// compared after each round with what they held before. The number of steps is a note of the verdict, which --soak adds up.
#include "conformance/model.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

namespace weir::conformance {
namespace {

using model::Actor;
using model::Common;

/// Threads, rounds, and steps of each thread in a round.
struct ModelPhase {
  uint32_t threads, rounds;
  uint64_t steps;
};
// Under a sanitizer a step takes ten times as long, and what one finds it finds in the first rounds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr ModelPhase model_phases[] = {{1, 2, 1000}, {2, 2, 500}, {4, 2, 400}};
#else
constexpr ModelPhase model_phases[] = {{1, 4, 3000}, {2, 4, 1500}, {4, 4, 1000}};
#endif
/// By how much a process's addresses may grow in a phase: stacks, and what the C library keeps for threads.
constexpr uint64_t model_address_slack = 192 * mib;

/// What a process's addresses have grown by from round to round. A runtime may take a large piece once, for its own pools (CUDA's
/// takes half a GiB); what is lost in every round is lost by the backend.
class Growth {
 public:
  /// What has been given back counts once it is exceeded.
  void note(uint64_t addresses) {
    if (most_ != 0 && addresses > most_) {
      sum_ += addresses - most_;
      largest_ = std::max(largest_, addresses - most_);
    }
    most_ = std::max(most_, addresses);
  }
  uint64_t without_the_largest() const { return sum_ - largest_; }

 private:
  uint64_t most_ = 0, sum_ = 0, largest_ = 0;
};

uint64_t addresses_held() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// The first actor is on this thread: where mapping is one thread's it is this one's.
Outcome act(Common &common, uint64_t seed, uint64_t steps) {
  if (common.threads > 1) TRY(common.make_shared());
  // With some seeds this thread ends what others have made.
  const bool hands_over = common.hands_over && Random(seed).below(2) == 0;
  std::vector<Outcome> outcomes(common.threads);
  std::vector<std::unique_ptr<Actor>> actors(common.threads);
  for (uint32_t i = 0; i < common.threads; ++i)
    actors[i] = std::make_unique<Actor>(common, i, Random(seed + i).next());
  const auto body = [&](uint32_t index) {
    outcomes[index] = actors[index]->run(steps);
    if (!hands_over && outcomes[index].passed()) outcomes[index] = actors[index]->end();
    if (!hands_over) actors[index].reset();
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < common.threads; ++i) threads.emplace_back(body, i);
  body(0);
  for (std::thread &thread : threads) thread.join();
  for (const Outcome &outcome : outcomes) TRY(outcome);
  for (auto &actor : actors) {
    if (actor != nullptr) TRY(actor->end());
    actor.reset();
  }
  return common.end_shared();
}

Outcome memory_is_back(Test &t, const Common &common, const std::vector<uint64_t> &before) {
  for (const DeviceFacts &device : common.devices) {
    const uint64_t was = before[device.index], wanted = was - std::min(was, device.slack);
    const uint64_t end = now_ns() + patience_ns / 4;
    uint64_t now = 0;
    // Runtimes may take back memory of ended things a moment later.
    do {
      TRY(free_bytes_of(t, device.index, &now));
      if (now < wanted) std::this_thread::yield();
    } while (now < wanted && now_ns() < end);
    CHECK(now >= wanted, "device ", device.index, ": ", was - now, " bytes of ", was,
          " are not back");
  }
  return {};
}

REQUIRE("FA-007", alone(),
        "Any order of everything that the interface allows, on streams of all kinds and in several "
        "threads, leaves every byte as the calls say, and what is given back is back.") {
  // The C library's arenas, 64 MiB of addresses each, would look like leaks.
  mallopt(M_ARENA_MAX, 1);
  Common common(t);
  TRY(common.prepare());
  std::vector<uint64_t> before(common.devices.size());
  for (const DeviceFacts &device : common.devices)
    TRY(free_bytes_of(t, device.index, &before[device.index]));
  uint64_t seed = t.seed;
  for (const ModelPhase &phase : model_phases) {
    common.threads = phase.threads;
    Holdings held;
    Growth growth;
    for (uint32_t round = 0; round < phase.rounds; ++round) {
      const std::string where = words(phase.threads, " threads, round ", round);
      seed = Random(seed).next();
      TRY(in_shape(where, act(common, seed, phase.steps)));
      TRY(in_shape(where, memory_is_back(t, common, before)));
      if (round == 0) {
        held = holdings();
        growth.note(addresses_held());
        continue;
      }
      // Threads of streams that have just ended may end with a later call.
      Holdings most = held;
      most.threads += model::most_lanes * phase.threads;
      TRY(in_shape(where, holdings_back(most, 4)));
      growth.note(addresses_held());
      CHECK(growth.without_the_largest() < model_address_slack, where,
            ": the process's addresses grew by ", growth.without_the_largest(),
            " bytes beside the largest piece");
    }
  }
  t.note(words(common.steps.load(), " steps"));
  return {};
}

}  // namespace
}  // namespace weir::conformance

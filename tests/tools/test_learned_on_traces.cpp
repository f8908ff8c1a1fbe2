// SPDX-License-Identifier: Apache-2.0
//
// What is learned of real programs: each trace is done twice with fresh buffers, and in the second round the learned forecast is held
// against what then happens: the place that it finds, when buffers are used again, which are born and of what size.

#include "core/base/memory.hpp"
#include "core/policy/learned_forecast.hpp"
#include "tests/support/cmocka.hpp"
#include "tests/tools/trace_program.hpp"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>

namespace {

using namespace weir;
using namespace weir::policy;
using weir::test::TraceProgram;

constexpr int rounds = 2;
constexpr uint32_t ahead_most = 2048;

/// What is counted in the last round.
struct Score {
  uint64_t operations = 0, aligned = 0;
  uint64_t uses = 0,
           right = 0;  ///< uses with a future in the trace; of those, foreseen within 10 %
  uint64_t births = 0, foreseen = 0;  ///< of buffers that are followed
  uint64_t sized = 0;                 ///< foreseen within 5 % of their size
  uint64_t rewinds = 0;
  double nanoseconds = 0;  ///< a use of observe()
  double share(uint64_t part, uint64_t all) const {
    return all != 0 ? double(part) / double(all) : 1;
  }
};

/// What a block does after each of its uses, in the order of the trace.
struct Future {
  uint64_t distance = 0;
  bool dies = false, known = false;
};
using Futures = std::vector<std::vector<Future>>;  ///< by operation, by use

Futures futures_of(const TraceProgram &program) {
  Futures futures(program.operations.size());
  struct Next {
    uint64_t at = 0;
    bool dies = false, known = false;
  };
  std::vector<Next> next(program.bytes.size());
  for (size_t index = program.operations.size(); index-- != 0;) {
    const auto &operation = program.operations[index];
    for (const uint32_t block : operation.deaths) next[block] = {index, true, true};
    for (const ObservedUse &use : operation.uses) {
      const Next &its = next[use.buffer];
      futures[index].push_back({std::max<uint64_t>(1, its.at - index), its.dies, its.known});
    }
    for (const ObservedUse &use : operation.uses) next[use.buffer] = {index, false, true};
  }
  return futures;
}

bool about(uint64_t foreseen, uint64_t real, double share) {
  return std::abs(double(foreseen) - double(real)) <= share * double(real);
}

class Rehearsal {
 public:
  Rehearsal(const TraceProgram &program, LearnedForecast::Terms terms)
      : program_(program),
        memory_(std::pmr::new_delete_resource()),
        cast_(std::pmr::new_delete_resource()),
        forecast_(cast_, terms, &memory_),
        futures_(futures_of(program)),
        numbers_(program.bytes.size()) {
    assert_true(memory_.bytes() <= terms.budget);
    assert_int_equal(memory_.bytes(), forecast_.bytes());
  }

  Score run() {
    for (int round = 0; round < rounds; ++round) {
      scored_ = round == rounds - 1;
      for (size_t index = 0; index < program_.operations.size(); ++index) operation(index);
      // What is left ends with the program.
      std::vector<uint32_t> left;
      std::swap(left, live_);
      for (const uint32_t number : left) end_number(number);
    }
    const double uses = double(all_uses_);
    score_.nanoseconds = double(observing_.count()) / uses;
    assert_true(memory_.bytes() <= 32u << 20);
    return score_;
  }

 private:
  void operation(size_t index) {
    const auto &operation = program_.operations[index];
    for (const uint32_t block : operation.births) {
      numbers_[block] = free_.take();
      live_.push_back(numbers_[block]);
      forecast_.born(numbers_[block], ++generation_, program_.bytes[block], 0);
    }
    uses_.clear();
    for (ObservedUse use : operation.uses) {
      use.buffer = numbers_[use.buffer];
      uses_.push_back(use);
    }
    expected_.clear();
    for (uint32_t part = 0; part < cast_.size(); ++part)
      expected_.push_back(cast_[part].live && cast_[part].buffer == Cast::none ? cast_[part].bytes
                                                                               : 0);
    const auto before = std::chrono::steady_clock::now();
    forecast_.observe({operation.name, 0, uses_});
    observing_ += std::chrono::steady_clock::now() - before;
    all_uses_ += uses_.size();
    if (scored_) score(index);
    walk();
    for (const uint32_t block : operation.deaths) {
      live_.erase(std::find(live_.begin(), live_.end(), numbers_[block]));
      end_number(numbers_[block]);
    }
  }

  void end_number(uint32_t number) {
    forecast_.died(number);
    free_.give(number);
  }

  void score(size_t index) {
    ++score_.operations;
    score_.aligned += forecast_.aligned();
    for (size_t use = 0; use < uses_.size(); ++use) {
      const Future &real = futures_[index][use];
      const uint32_t part = cast_.of(uses_[use].buffer);
      if (!real.known || part == Cast::none) continue;
      ++score_.uses;
      const Outlook outlook = forecast_.outlook(part);
      score_.right += outlook.fate != Fate::unknown && (outlook.fate == Fate::dies) == real.dies &&
                      about(outlook.distance, real.distance, 0.1);
    }
    for (const uint32_t part : forecast_.born_parts()) {
      ++score_.births;
      if (part >= expected_.size() || expected_[part] == 0) continue;
      ++score_.foreseen;
      score_.sized += about(expected_[part], cast_[part].bytes, 0.05);
    }
  }

  /// As a planner does: a few operations each time, and anew where the program is elsewhere.
  void walk() {
    ahead_ -= ahead_ != 0;
    ++since_;
    if (since_ >= 16 && (forecast_.moved() || forecast_.resized() || since_ == 4096)) {
      forecast_.rewind();
      score_.rewinds += scored_;
      ahead_ = since_ = 0;
    }
    for (int steps = ahead_ < ahead_most / 2 ? 48 : 4; steps != 0 && ahead_ < ahead_most;
         --steps, ++ahead_)
      if (forecast_.next() == nullptr) break;
  }

  const TraceProgram &program_;
  CountingMemory memory_;
  Cast cast_;
  LearnedForecast forecast_;
  Futures futures_;
  std::vector<uint32_t> numbers_;  ///< by block
  std::vector<uint32_t> live_;
  test::BufferNumbers free_;
  std::vector<ObservedUse> uses_;
  std::vector<uint64_t> expected_;  ///< by part, before the operation
  uint64_t generation_ = 0, all_uses_ = 0;
  uint32_t ahead_ = 0, since_ = 0;
  bool scored_ = false;
  std::chrono::nanoseconds observing_{0};
  Score score_;
};

struct Bounds {
  double aligned, right, foreseen, sized;
};

void rehearse(const char *name, size_t budget, const Bounds &least) {
  // What skips or fails leaves by a jump, and nothing that owns memory must live then.
  bool there = false;
  Score score;
  {
    const char *shared = std::getenv("WEIR_SHARED_DIR");
    const std::string path =
        std::string(shared != nullptr ? shared : "") + "/traces/" + name + ".vmt.zst";
    there = shared != nullptr && access(path.c_str(), R_OK) == 0;
    if (there) {
      const TraceProgram program = test::read_program(path);
      LearnedForecast::Terms terms;
      terms.budget = budget;
      terms.smallest = 16384;
      score = Rehearsal(program, terms).run();
    }
  }
  if (!there) {
    print_message("skipped: no %s among the traces of WEIR_SHARED_DIR\n", name);
    skip();
  }
  const double aligned = score.share(score.aligned, score.operations),
               right = score.share(score.right, score.uses);
  const double foreseen = score.share(score.foreseen, score.births),
               sized = score.share(score.sized, score.foreseen);
  print_message(
      "%s, %zu KiB: aligned %.4f, next uses %.4f of %llu, births foreseen %.4f of %llu, sizes "
      "%.4f, rewinds %llu, %.0f ns a use\n",
      name, budget >> 10, aligned, right, static_cast<unsigned long long>(score.uses), foreseen,
      static_cast<unsigned long long>(score.births), sized,
      static_cast<unsigned long long>(score.rewinds), score.nanoseconds);
  assert_true(aligned >= least.aligned);
  assert_true(right >= least.right);
  assert_true(foreseen >= least.foreseen);
  assert_true(sized >= least.sized);
}

constexpr size_t usual = size_t{32} << 20;

void a_transformer_with_changing_lengths_is_learned(void **) {
  rehearse("gpt2s_train_varlen", usual, {0.999, 0.985, 0.98, 0.96});
}
void a_graph_network_is_learned(void **) {
  rehearse("graphsage_train", usual, {0.999, 0.985, 0.98, 0.89});
}
void a_convolutional_network_is_learned(void **) {
  rehearse("resnet50_train_b16", usual, {0.999, 0.975, 0.975, 0.99});
}
void a_decoding_loop_is_learned(void **) {
  rehearse("gpt2s_decode_cat", usual, {0.999, 0.995, 0.99, 0.96});
}
void a_decoding_loop_is_learned_in_a_small_memory(void **) {
  rehearse("gpt2s_decode_cat", size_t{512} << 10, {0.999, 0.965, 0.965, 0.96});
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_transformer_with_changing_lengths_is_learned),
      cmocka_unit_test(a_graph_network_is_learned),
      cmocka_unit_test(a_convolutional_network_is_learned),
      cmocka_unit_test(a_decoding_loop_is_learned),
      cmocka_unit_test(a_decoding_loop_is_learned_in_a_small_memory),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

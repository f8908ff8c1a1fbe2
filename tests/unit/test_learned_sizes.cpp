// SPDX-License-Identifier: Apache-2.0
//
// The sizes that the learned forecast expects: those that follow the batch, those that grow with its square, those that stay, and those
// that follow nothing.

#include "core/policy/learned_forecast.hpp"

#include "tests/support/cmocka.hpp"
#include "tests/unit/learned_program.hpp"

#include <random>

namespace {

using namespace weir::policy;
using weir::test::Doer;
using weir::test::Foreseen;
using weir::test::Site;
using weir::test::Step;
using weir::test::Training;

/// Batches change between rounds; from the sizes of some births those of all are known, of those that grow with its square, and of
/// those that stay.
void foresee_sizes(const std::vector<uint64_t> &batches, uint64_t batch) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Training training(60);
  doer.run(training.setup());
  for (const uint64_t each : batches) doer.run(training.iteration(each));
  site.forecast.rewind();
  const std::vector<Step> round = training.iteration(batch);
  const size_t known = 40;  // steps until the ratio shows
  const uint32_t first = site.forecast.log().end();
  doer.run({round.begin(), round.begin() + known});
  uint32_t marks = 0;
  for (uint32_t number = first; number < site.forecast.log().end(); ++number)
    marks += site.forecast.log().operation(number).resized;
  assert_true(marks >= 1 && marks <= 4);
  assert_true(site.forecast.resized());
  site.forecast.rewind();
  assert_false(site.forecast.resized());
  const std::vector<Foreseen> foreseen = site.foresee(round.size() - known);
  size_t births = 0;
  for (size_t index = 0; index < foreseen.size(); ++index) {
    const Step &step = round[known + index];
    assert_int_equal(foreseen[index].births.size(), step.births.size());
    for (size_t birth = 0; birth < step.births.size(); ++birth, ++births)
      assert_int_equal(foreseen[index].bytes[birth], step.births[birth].bytes);
  }
  assert_true(births >= 60);
}

void sizes_follow_the_batch(void **) {
  foresee_sizes({4, 4, 4, 8, 4}, 6);
  foresee_sizes({4, 4, 4, 8, 4}, 3);
}

void how_sizes_grow_is_not_forgotten_while_they_stay(void **) {
  foresee_sizes({4, 4, 4, 8, 8, 8, 8}, 6);
  foresee_sizes({4, 4, 4, 8, 4, 4, 4}, 6);
}

/// An epoch of four rounds with names of their own, in the middle of which the batch changed. When all is twice as large as in it, that
/// holds up to this change only: what comes then is the next batch, whose size is not known.
void sizes_beyond_another_change_are_those_seen_last(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Training training(120);
  doer.run(training.setup());
  const auto epoch = [&](const std::vector<uint64_t> &batches) {
    for (uint32_t each = 0; each < batches.size(); ++each) {
      std::vector<Step> round = training.iteration(batches[each]);
      for (Step &step : round) step.name += 10 * each;
      doer.run(round);
    }
  };
  epoch({4, 4, 4, 4});
  epoch({4, 4, 8, 8});
  epoch({8});
  site.forecast.rewind();
  const std::vector<Foreseen> foreseen = site.foresee(3 * 360 - 1);
  for (const auto &[round, batch] : {std::pair<size_t, uint64_t>{0, 8}, {2, 8}}) {
    const std::vector<Step> steps = training.iteration(batch);
    for (size_t index = 0; index < 120; ++index) {
      if (index % 4 == 2)
        continue;  // in these places nothing has been seen to grow yet, so it is not known how they do
      assert_int_equal(foreseen[360 * round + index].bytes[0], steps[index].births[0].bytes);
    }
  }
}

/// Sizes that follow nothing are expected as they were.
void random_sizes_are_not_scaled(void **) {
  auto random = [engine = std::mt19937(9)]() mutable { return static_cast<uint32_t>(engine()); };
  Site site;
  Doer doer(site.forecast, site.free);
  std::vector<Step> round(200);
  for (int lap = 0; lap < 5; ++lap) {
    for (uint32_t index = 0; index < 200; ++index) {
      const uint64_t bytes = 1000000 + random() % 1000000;
      round[index].name = 10 + index;
      round[index].births = {{index, bytes}};
      round[index].uses = {{index, Training::whole, 0, bytes}};
      round[index].deaths = {index};
    }
    doer.run(round);
  }
  site.forecast.rewind();
  const std::vector<Foreseen> foreseen = site.foresee(199);
  for (size_t index = 0; index < 199; ++index)
    assert_int_equal(foreseen[index].bytes[0], round[index].births[0].bytes);
}

void ranges_of_a_part_that_is_resized_are_in_proportion(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Training training(60);
  doer.run(training.setup());
  for (const uint64_t batch : std::vector<uint64_t>{4, 4, 4, 8, 4})
    doer.run(training.iteration(batch));
  const std::vector<Step> round = training.iteration(6);
  doer.run({round.begin(), round.begin() + 40});
  site.forecast.rewind();
  const std::vector<Foreseen> foreseen = site.foresee(20);
  for (size_t index = 1; index < 20; ++index) {
    const ForecastUse &half = foreseen[index].uses[1];  // of what the layer before has made
    assert_int_equal(half.begin, 0);
    assert_true(half.end >= site.cast[half.part].bytes / 2);
    assert_true(half.end <= site.cast[half.part].bytes / 2 + 1024);
  }
}

/// Back to a smaller batch: until the new ratio shows, the old one says nothing about how a place grows.
void a_ratio_that_turns_round_leaves_the_growth_of_places(void **) {
  SizeScaling scaling;
  Life before, born;
  before.bytes = 1 << 20;
  born.bytes = 2 << 20;
  for (int birth = 0; birth < 20; ++birth) (void)scaling.note(born, before, 100, 1000);
  assert_int_equal(born.growth, growth_linear);
  assert_int_equal(scaling.scaled(born), 4 << 20);
  Life smaller;
  smaller.bytes = 1 << 20;
  (void)scaling.note(smaller, born, 100, 1000);
  assert_int_equal(smaller.growth, growth_linear);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(sizes_follow_the_batch),
      cmocka_unit_test(how_sizes_grow_is_not_forgotten_while_they_stay),
      cmocka_unit_test(sizes_beyond_another_change_are_those_seen_last),
      cmocka_unit_test(random_sizes_are_not_scaled),
      cmocka_unit_test(ranges_of_a_part_that_is_resized_are_in_proportion),
      cmocka_unit_test(a_ratio_that_turns_round_leaves_the_growth_of_places),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

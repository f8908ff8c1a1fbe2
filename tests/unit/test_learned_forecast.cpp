// SPDX-License-Identifier: Apache-2.0
//
// The learned forecast before programs made for it: a training loop is foreseen to the last use, birth and death, and streams in the
// order of their speeds.

#include "core/policy/learned_forecast.hpp"

#include "core/base/memory.hpp"
#include "tests/support/cmocka.hpp"
#include "tests/unit/learned_program.hpp"

#include <algorithm>

namespace {

using namespace weir;
using namespace weir::policy;
using test::Doer;
using test::Foreseen;
using test::Site;
using test::Step;
using test::Training;

/// What really follows a step's use: the next that uses the buffer, or its death.
Outlook real_outlook(const std::vector<Step> &steps, size_t at, uint32_t id) {
  const auto dies = [id](const Step &step) {
    return std::find(step.deaths.begin(), step.deaths.end(), id) != step.deaths.end();
  };
  for (size_t step = at; step < steps.size(); ++step) {
    if (step != at)
      for (const test::StepUse &use : steps[step].uses)
        if (use.id == id)
          return {(use.mode & use_whole) != 0 ? Fate::overwritten : Fate::needed, step - at};
    if (dies(steps[step])) return {Fate::dies, std::max<uint64_t>(1, step - at)};
  }
  return {};
}

/// The steps are done, and each is what had been foreseen of it.
void do_as_foreseen(Site &site, Doer &doer, const std::vector<Step> &steps,
                    const std::vector<Foreseen> &foreseen, size_t checked) {
  for (size_t index = 0; index < checked; ++index) {
    const Step &step = steps[index];
    const Foreseen &its = foreseen[index];
    doer.begin(step);
    const auto born = site.forecast.born_parts();
    assert_true(std::equal(born.begin(), born.end(), its.births.begin(), its.births.end()));
    for (size_t birth = 0; birth < its.births.size(); ++birth)
      assert_int_equal(its.bytes[birth], step.births[birth].bytes);
    assert_int_equal(its.uses.size(), step.uses.size());
    for (size_t use = 0; use < step.uses.size(); ++use) {
      const test::StepUse &real = step.uses[use];
      const ForecastUse &told = its.uses[use];
      assert_int_equal(told.part, site.cast.of(doer.number(real.id)));
      assert_int_equal(told.needs, (real.mode & use_needs) != 0);
      assert_int_equal(told.writes, (real.mode & use_writes) != 0);
      assert_int_equal(told.begin, real.begin);
      assert_true(told.end >= real.end && told.end < real.end + 512);
      const Outlook then = real_outlook(steps, index, real.id);
      assert_int_equal(static_cast<int>(told.after.fate), static_cast<int>(then.fate));
      assert_int_equal(told.after.distance, then.distance);
      const Outlook now = site.forecast.outlook(told.part);
      assert_int_equal(static_cast<int>(now.fate), static_cast<int>(then.fate));
      assert_int_equal(now.distance, then.distance);
    }
    std::vector<uint32_t> deaths;
    for (const uint32_t id : step.deaths) deaths.push_back(site.cast.of(doer.number(id)));
    assert_true(deaths == its.deaths);
    doer.end(step);
  }
}

void a_training_loop_is_foreseen_from_the_third_round_on(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Training training(12);
  doer.run(training.setup());
  const std::vector<Step> round = training.iteration(4);
  doer.run(round);
  doer.run(round);
  std::vector<Step> rounds = round;
  rounds.insert(rounds.end(), round.begin(), round.end());
  for (int lap = 0; lap < 4; ++lap) {
    assert_true(site.forecast.moved() || lap != 0);
    site.forecast.rewind();
    assert_false(site.forecast.moved());
    const std::vector<Foreseen> foreseen = site.foresee(1000);
    // Not the newest: what died after it was not known when it was observed.
    assert_int_equal(foreseen.size(), round.size() - 1);
    do_as_foreseen(site, doer, rounds, foreseen, foreseen.size());
    doer.run(round.back());
  }
  assert_int_equal(site.cast.of(doer.number(training.weight(3))) != Cast::none, true);
}

/// What has been walked stays as it is while the program comes after it, and the walk goes on behind it.
void a_walk_that_goes_on_is_what_a_new_one_would_be(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Training training(12);
  doer.run(training.setup());
  const std::vector<Step> round = training.iteration(4);
  for (int lap = 0; lap < 3; ++lap) doer.run(round);
  std::vector<Step> rounds;
  for (int lap = 0; lap < 4; ++lap) rounds.insert(rounds.end(), round.begin(), round.end());
  site.forecast.rewind();
  std::vector<Foreseen> foreseen = site.foresee(20);
  for (size_t step = 0; step < 2 * round.size(); ++step) {
    do_as_foreseen(site, doer, {rounds.begin() + static_cast<ptrdiff_t>(step), rounds.end()},
                   {foreseen[step]}, 1);
    const std::vector<Foreseen> more = site.foresee(1);
    assert_int_equal(more.size(), 1);
    foreseen.push_back(more[0]);
  }
  assert_false(site.forecast.moved());
}

void a_birth_that_does_not_come_is_given_up(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Training training(12);
  doer.run(training.setup());
  for (int lap = 0; lap < 3; ++lap) doer.run(training.iteration(4));
  site.forecast.rewind();
  const std::vector<Foreseen> foreseen = site.foresee(1000);
  std::vector<uint32_t> expected;
  for (const Foreseen &its : foreseen)
    expected.insert(expected.end(), its.births.begin(), its.births.end());
  assert_true(expected.size() >= 24);
  for (const uint32_t part : expected) assert_true(site.cast[part].live);
  Step other;
  other.name = 77;
  for (int step = 0; step < 400; ++step) doer.run(other);
  for (const uint32_t part : expected) assert_false(site.cast[part].live);
}

void a_rewind_expects_nobody_twice(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Training training(12);
  doer.run(training.setup());
  for (int lap = 0; lap < 3; ++lap) doer.run(training.iteration(4));
  size_t live = 0;
  for (int times = 0; times < 3; ++times) {
    site.forecast.rewind();
    (void)site.foresee(1000);
    size_t now = 0;
    for (uint32_t part = 0; part < site.cast.size(); ++part) now += site.cast[part].live;
    assert_true(times == 0 || now == live);
    live = now;
  }
}

/// Each buffer is made, used once and destroyed, and its number goes to the next.
void foresee_rebirths(bool named) {
  Site site;
  Doer doer(site.forecast, site.free);
  std::vector<Step> round;
  for (uint32_t index = 0; index < 20; ++index) {
    Step step;
    if (named) step.name = 10 + index;
    const uint64_t bytes = uint64_t{4096} << index;
    step.births = {{index, bytes}};
    step.uses = {{index, Training::whole, 0, bytes}};
    step.deaths = {index};
    round.push_back(step);
  }
  for (int lap = 0; lap < 3; ++lap) doer.run(round);
  assert_int_equal(*site.free.begin(), 0);
  site.forecast.rewind();
  do_as_foreseen(site, doer, round, site.foresee(19), 19);
}

void deaths_and_rebirths_are_foreseen(void **) { foresee_rebirths(true); }
void operations_without_names_are_told_apart_by_sizes(void **) { foresee_rebirths(false); }

void operations_without_names_are_known_by_what_they_do(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Training training(12);
  doer.run(training.setup());
  std::vector<Step> round = training.iteration(4);
  for (Step &step : round) step.name = 0;
  doer.run(round);
  doer.run(round);
  site.forecast.rewind();
  do_as_foreseen(site, doer, round, site.foresee(round.size() - 13), round.size() - 13);
}

void buffers_below_the_threshold_are_not_followed(void **) {
  Site site(LearnedForecast::Terms{size_t{4} << 20, 65536});
  Doer doer(site.forecast, site.free);
  std::vector<Step> round;
  for (uint32_t index = 0; index < 20; ++index) {
    Step step;
    step.name = 10 + index;
    step.births = {{100 + index, 4096}, {index, 65536}};
    step.uses = {{100 + index, Training::whole, 0, 4096}, {index, Training::whole, 0, 65536}};
    step.deaths = {index, 100 + index};
    round.push_back(step);
  }
  for (int lap = 0; lap < 3; ++lap) doer.run(round);
  site.forecast.rewind();
  for (const Foreseen &its : site.foresee(19)) {
    assert_int_equal(its.births.size(), 1);
    assert_int_equal(its.uses.size(), 1);
    assert_int_equal(site.cast[its.uses[0].part].bytes, 65536);
  }
}

/// A buffer that stays is written anew in each round, read, and left.
void a_buffer_that_is_written_anew_is_foreseen_so(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  Step made;
  made.name = 1;
  made.births = {{1, 65536}};
  doer.run(made);
  std::vector<Step> round(20);
  for (uint32_t index = 0; index < 20; ++index) round[index].name = 10 + index;
  round[3].uses = {{1, Training::whole, 0, 65536}};
  round[7].uses = {{1, use_needs, 0, 65536}};
  for (int lap = 0; lap < 3; ++lap) doer.run(round);
  std::vector<Step> rounds = round;
  rounds.insert(rounds.end(), round.begin(), round.end());
  site.forecast.rewind();
  do_as_foreseen(site, doer, rounds, site.foresee(19), 19);
  const Outlook outlook = site.forecast.outlook(site.cast.of(doer.number(1)));
  assert_int_equal(static_cast<int>(outlook.fate), static_cast<int>(Fate::overwritten));
  assert_int_equal(outlook.distance, 16);
}

/// Each buffer is used again three rounds later: of the last three, nothing is known yet but by the ones before.
void a_distance_of_several_rounds_is_found(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  for (uint32_t lap = 0; lap < 9; ++lap) {
    for (uint32_t index = 0; index < 10; ++index) {
      Step step;
      step.name = 10 + index;
      if (index == 4) step.births = {{lap, 65536}};
      if (index == 4) step.uses = {{lap, Training::whole, 0, 65536}};
      if (index == 5) step.uses = {{lap < 3 ? lap : lap - 3, use_needs, 0, 65536}};
      if (index == 5 && lap >= 3) step.deaths = {lap - 3};
      doer.run(step);
      if (lap < 7 || index != 4) continue;
      const Outlook outlook = site.forecast.outlook(site.cast.of(doer.number(lap)));
      assert_int_equal(static_cast<int>(outlook.fate), static_cast<int>(Fate::needed));
      assert_int_equal(outlook.distance, 31);
    }
  }
}

void a_buffer_is_known_before_its_first_use(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  std::vector<Step> round(20);
  for (uint32_t index = 0; index < 20; ++index) round[index].name = 10 + index;
  round[3].births = {{1, 65536}};
  round[9].uses = {{1, Training::whole, 0, 65536}};
  round[12].deaths = {1};
  doer.run(round);
  doer.run(round);
  doer.run({round.begin(), round.begin() + 6});  // it is there, and has not been expected
  site.forecast.rewind();
  const std::vector<Foreseen> foreseen = site.foresee(5);
  assert_int_equal(foreseen[3].uses.size(), 1);
  assert_int_equal(foreseen[3].uses[0].part, site.cast.of(doer.number(1)));
}

/// A part that the Cast has of an earlier buffer with the same number is not this one's.
void a_part_is_of_one_generation(void **) {
  Site site;
  const uint32_t old = site.cast.born(0, 99, 4096);
  Doer doer(site.forecast, site.free);
  Step step;
  step.name = 1;
  step.births = {{1, 65536}};
  doer.run(step);
  assert_int_equal(doer.number(1), 0);
  assert_true(site.cast.of(0) != old);
  assert_int_equal(site.cast[site.cast.of(0)].bytes, 65536);
}

/// Nothing comes in the same order twice, but a buffer is used by the same operation at regular times.
void a_buffer_has_a_distance_of_its_own(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  Step made;
  made.name = 1;
  made.births = {{1, 65536}, {2, 65536}, {3, 65536}};
  doer.run(made);
  uint32_t name = 100;
  for (int lap = 0; lap < 4; ++lap) {
    Step step;
    step.name = 5;
    step.uses = {{1, use_needs, 0, 65536}};
    for (int more = 0; more < lap; ++more) step.uses.push_back({2, use_needs, 0, 4096});
    doer.run(step);
    const Outlook outlook = site.forecast.outlook(site.cast.of(doer.number(1)));
    assert_int_equal(outlook.distance, lap == 0 ? 0 : 12);
    for (int other = 0; other < 11; ++other) {
      Step unique;
      unique.name = name++;
      doer.run(unique);
    }
  }
}

/// A buffer beside it that is followed in this round only does not shift the others' places.
void a_birth_has_its_rank_among_all(void **) {
  Site site(LearnedForecast::Terms{size_t{4} << 20, 65536});
  Doer doer(site.forecast, site.free);
  const auto round = [](uint64_t beside) {
    std::vector<Step> steps;
    for (uint32_t index = 0; index < 20; ++index) {
      Step step;
      step.name = 10 + index;
      step.births = {{100 + index, beside}, {index, 1 << 20}};
      step.uses = {{100 + index, Training::whole, 0, beside}, {index, Training::whole, 0, 1 << 20}};
      step.deaths = {index, 100 + index};
      steps.push_back(step);
    }
    return steps;
  };
  for (int lap = 0; lap < 3; ++lap) doer.run(round(60000));
  site.forecast.rewind();
  const std::vector<Foreseen> foreseen = site.foresee(19);
  const std::vector<Step> larger = round(70000);
  for (size_t index = 0; index < 19; ++index) {
    assert_int_equal(foreseen[index].births.size(), 1);
    doer.begin(larger[index]);
    assert_int_equal(site.forecast.born_parts().size(), 2);
    const uint32_t beside = site.cast.of(doer.number(100 + static_cast<uint32_t>(index)));
    assert_true(site.forecast.outlook(beside).fate == Fate::unknown);
    assert_int_equal(site.cast.of(doer.number(static_cast<uint32_t>(index))),
                     foreseen[index].births[0]);
    doer.end(larger[index]);
  }
}

/// One stream does three operations while the other does one; a walk mixes them likewise, and finds what each does.
void streams_are_walked_at_their_speeds(void **) {
  Site site;
  Doer fast(site.forecast, site.free, 0), slow(site.forecast, site.free, 1);
  const auto steps = [](uint32_t first, uint64_t bytes) {
    std::vector<Step> round;
    for (uint32_t index = 0; index < 20; ++index) {
      Step step;
      step.name = first + index;
      step.births = {{index, bytes}};
      step.uses = {{index, Training::whole, 0, bytes}};
      step.deaths = {index};
      round.push_back(step);
    }
    return round;
  };
  const std::vector<Step> one = steps(10, 65536), other = steps(20, 131072);
  for (size_t step = 0; step < 1200; ++step) {
    if (step % 4 == 3)
      slow.run(other[step / 4 % 20]);
    else
      fast.run(one[(step - step / 4) % 20]);
  }
  site.forecast.rewind();
  const std::vector<Foreseen> foreseen = site.foresee(24);
  assert_int_equal(foreseen.size(), 24);
  size_t of_slow = 0;
  for (size_t index = 0; index < 24; ++index) {
    of_slow += foreseen[index].bytes[0] == 131072;
    assert_true(of_slow >= index / 4 && of_slow <= index / 4 + 1);
  }
  assert_int_equal(of_slow, 6);
}

void a_stream_that_has_ended_is_not_walked(void **) {
  Site site;
  Doer first(site.forecast, site.free, 0), second(site.forecast, site.free, 1);
  const Training training(12);
  first.run(training.setup());
  second.run(training.setup());
  for (int lap = 0; lap < 3; ++lap) first.run(training.iteration(4));
  for (int lap = 0; lap < 12; ++lap) second.run(training.iteration(4));
  site.forecast.rewind();
  const std::vector<Foreseen> foreseen = site.foresee(1000);
  assert_int_equal(foreseen.size(), training.iteration(4).size() - 1);
}

void a_use_that_is_long_overdue_is_unknown(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  Step made, used;
  made.name = 1;
  made.births = {{1, 65536}};
  made.uses = {{1, use_needs, 0, 65536}};
  used.name = 1;
  used.uses = made.uses;
  Step idle;
  idle.name = 2;
  doer.run(made);
  for (int lap = 0; lap < 5; ++lap) {
    for (int step = 0; step < 39; ++step) doer.run(idle);
    doer.run(used);
  }
  const uint32_t part = site.cast.of(doer.number(1));
  Outlook outlook = site.forecast.outlook(part);
  assert_int_equal(static_cast<int>(outlook.fate), static_cast<int>(Fate::needed));
  assert_int_equal(outlook.distance, 40);
  for (int step = 0; step < 45; ++step) doer.run(idle);
  outlook = site.forecast.outlook(part);
  assert_int_equal(static_cast<int>(outlook.fate), static_cast<int>(Fate::needed));
  assert_int_equal(outlook.distance, 46);  // still to come
  for (int step = 0; step < 20; ++step) doer.run(idle);
  assert_int_equal(static_cast<int>(site.forecast.outlook(part).fate),
                   static_cast<int>(Fate::unknown));
}

void a_log_that_starts_anew_learns_again(void **) {
  Site site(LearnedForecast::Terms{size_t{1} << 20, 1, 70000});
  Doer doer(site.forecast, site.free);
  const Training training(12);
  doer.run(training.setup());
  const std::vector<Step> round = training.iteration(4);
  uint32_t anew = 0, before = 0;
  for (int lap = 0; lap < 400; ++lap) {
    doer.run(round);
    anew += site.forecast.log().end() < before;
    before = site.forecast.log().end();
  }
  assert_true(anew >= 5);
  for (int lap = 0; lap < 2; ++lap) doer.run(round);
  site.forecast.rewind();
  do_as_foreseen(site, doer, round, site.foresee(24), 24);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_training_loop_is_foreseen_from_the_third_round_on),
      cmocka_unit_test(a_walk_that_goes_on_is_what_a_new_one_would_be),
      cmocka_unit_test(a_birth_that_does_not_come_is_given_up),
      cmocka_unit_test(a_rewind_expects_nobody_twice),
      cmocka_unit_test(deaths_and_rebirths_are_foreseen),
      cmocka_unit_test(operations_without_names_are_known_by_what_they_do),
      cmocka_unit_test(buffers_below_the_threshold_are_not_followed),
      cmocka_unit_test(a_birth_has_its_rank_among_all),
      cmocka_unit_test(a_buffer_has_a_distance_of_its_own),
      cmocka_unit_test(a_distance_of_several_rounds_is_found),
      cmocka_unit_test(a_buffer_that_is_written_anew_is_foreseen_so),
      cmocka_unit_test(a_buffer_is_known_before_its_first_use),
      cmocka_unit_test(a_part_is_of_one_generation),
      cmocka_unit_test(operations_without_names_are_told_apart_by_sizes),
      cmocka_unit_test(streams_are_walked_at_their_speeds),
      cmocka_unit_test(a_stream_that_has_ended_is_not_walked),
      cmocka_unit_test(a_use_that_is_long_overdue_is_unknown),
      cmocka_unit_test(a_log_that_starts_anew_learns_again),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

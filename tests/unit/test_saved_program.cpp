// SPDX-License-Identifier: Apache-2.0
//
// What was learned in one place, learned from in another: the first round of a program is foreseen as its second would have been. Its
// buffers, streams and names have other numbers there.

#include "core/policy/learned_forecast.hpp"

#include "tests/support/cmocka.hpp"
#include "tests/unit/saved_programs.hpp"

#include <algorithm>

namespace {

using namespace weir;
using namespace weir::policy;
using test::Doer;
using test::Foreseen;
using test::Site;
using test::Step;
using test::Training;

SavedProgram program_of(const LearnedForecast &forecast, uint64_t most_bytes = UINT64_MAX) {
  SavedProgram program(std::pmr::new_delete_resource());
  program.logs.emplace_back(std::pmr::new_delete_resource());
  test::save_log(forecast, &program.logs[0], 7, most_bytes);
  return program;
}

/// Numbers of names are as they were.
void load(Site &site, const SavedProgram &program) {
  std::vector<uint32_t> names;
  for (uint32_t number = 1; number <= 200; ++number) names.push_back(number);
  site.forecast.load(program.logs[0], names);
}

/// A training of so many rounds.
SavedProgram learned(const Training &training, int rounds, uint32_t stream = 0) {
  Site site;
  Doer doer(site.forecast, site.free, stream);
  doer.run(training.setup());
  for (int lap = 0; lap < rounds; ++lap) doer.run(training.iteration(4));
  return program_of(site.forecast);
}

/// The uses, births and deaths that were foreseen are those of the steps.
void check_foreseen(Site &site, Doer &doer, const std::vector<Step> &steps,
                    const std::vector<Foreseen> &foreseen) {
  for (size_t index = 0; index < foreseen.size(); ++index) {
    const Step &step = steps[index];
    const Foreseen &its = foreseen[index];
    doer.begin(step);
    const auto born = site.forecast.born_parts();
    assert_true(std::equal(born.begin(), born.end(), its.births.begin(), its.births.end()));
    assert_int_equal(its.uses.size(), step.uses.size());
    for (size_t use = 0; use < step.uses.size(); ++use)
      assert_int_equal(its.uses[use].part, site.cast.of(doer.number(step.uses[use].id)));
    std::vector<uint32_t> deaths;
    for (const uint32_t id : step.deaths) deaths.push_back(site.cast.of(doer.number(id)));
    assert_true(deaths == its.deaths);
    doer.end(step);
  }
}

void the_first_round_is_foreseen_after_a_load(void **) {
  const Training training(12);
  const SavedProgram program = learned(training, 3);
  Site site;
  load(site, program);
  assert_false(site.forecast.aligned());
  assert_false(site.forecast.moved());
  assert_int_equal(site.forecast.now(), 0);
  assert_int_equal(site.forecast.log().held(), program.logs[0].operations.size());
  Doer doer(site.forecast, site.free, 5);
  doer.run(training.setup());
  assert_true(site.forecast.aligned());
  site.forecast.rewind();
  const std::vector<Step> round = training.iteration(4);
  const std::vector<Foreseen> foreseen = site.foresee(round.size());
  assert_int_equal(foreseen.size(), round.size());
  check_foreseen(site, doer, round, foreseen);
}

/// Of the buffers that lived when it was saved it is not known what became of them: what came after their uses the round before counts.
void what_lived_at_the_end_is_needed_in_the_next_round(void **) {
  const Training training(12);
  Site site;
  load(site, learned(training, 3));
  Doer doer(site.forecast, site.free);
  Step other = training.setup()[0];
  other.name = 100;  // so that the last round is found
  doer.run(other);
  const std::vector<Step> round = training.iteration(4);
  for (size_t step = 0; step < 20; ++step) doer.run(round[step]);
  site.forecast.rewind();
  const std::vector<Foreseen> foreseen = site.foresee(1000);
  assert_true(foreseen.size() > round.size() - 20);
  for (size_t step = 24; step < round.size(); ++step) {
    const ForecastUse &weight = foreseen[step - 20].uses[0];
    assert_int_equal(static_cast<int>(weight.after.fate), static_cast<int>(Fate::needed));
    assert_int_equal(weight.after.distance, 12);
    const ForecastUse &gradient = foreseen[step - 20].uses[1];
    assert_int_equal(static_cast<int>(gradient.after.fate), static_cast<int>(Fate::dies));
  }
}

void nothing_is_left_of_the_buffers_that_were(void **) {
  Site site;
  load(site, learned(Training(12), 3));
  for (uint32_t part = 0; part < site.cast.size(); ++part) assert_false(site.cast[part].live);
  assert_int_equal(site.forecast.log().lives().alive(), 0);
  assert_int_equal(site.memory.bytes(), site.forecast.bytes());
}

bool operator==(const SavedOperation &one, const SavedOperation &other) {
  return one.name == other.name && one.deaths == other.deaths && one.stream == other.stream &&
         one.given == other.given && one.uses == other.uses && one.all_births == other.all_births &&
         one.births == other.births;
}
bool operator==(const SavedBirth &one, const SavedBirth &other) {
  return one.life == other.life && one.rank == other.rank;
}
bool operator==(const SavedUse &one, const SavedUse &other) {
  return one.life == other.life && one.begin == other.begin && one.end == other.end &&
         one.slot == other.slot && one.mode == other.mode;
}
void assert_same(const SavedLog &one, const SavedLog &other) {
  const auto same = [](const auto &records, const auto &others) {
    assert_true(std::equal(records.begin(), records.end(), others.begin(), others.end(),
                           [](const auto &a, const auto &b) { return a == b; }));
  };
  assert_int_equal(one.streams, other.streams);
  same(one.lives, other.lives);
  same(one.operations, other.operations);
  same(one.births, other.births);
  same(one.deaths, other.deaths);
  same(one.uses, other.uses);
}

/// Small buffers, buffers used twice by an operation, operations without a name, births without a use, two streams.
void run_everything(Site &site) {
  Doer first(site.forecast, site.free, 3), second(site.forecast, site.free, 9);
  for (uint32_t lap = 0; lap < 5; ++lap) {
    for (uint32_t index = 0; index < 20; ++index) {
      Step step;
      step.name = index % 3 == 0 ? 0 : 10 + index;
      step.births = {
          {200 + index, 100}, {100 + index, 4096}, {300 + index, 100}, {index, 65536 + lap * 256}};
      step.uses = {{100 + index, Training::whole, 0, 4096},
                   {index, use_needs, 0, 300},
                   {200 + index, use_needs, 0, 100},
                   {index, use_writes, 700, 65536}};
      step.deaths = {index, 100 + index, 200 + index, 300 + index};
      Doer &doer = index % 4 == 1 ? second : first;
      doer.run(step);
    }
  }
}

void what_is_saved_again_is_the_same(void **) {
  const LearnedForecast::Terms terms{size_t{4} << 20, 1000};
  Site site(terms), again(terms);
  run_everything(site);
  const SavedProgram program = program_of(site.forecast);
  assert_int_equal(program.logs[0].streams, 2);
  assert_int_equal(program.logs[0].operations.size(), 100);
  assert_int_equal(program.logs[0].operations[0].given, 4);
  assert_int_equal(program.logs[0].operations[0].uses, 2);
  assert_int_equal(program.logs[0].operations[0].all_births, 4);
  assert_int_equal(program.logs[0].operations[0].births, 2);
  load(again, program);
  assert_same(program_of(again.forecast).logs[0], program.logs[0]);
}

/// One stream does what the first stream did and the other what the second did: under other numbers, and the second comes first.
void streams_are_found_by_what_they_do(void **) {
  const LearnedForecast::Terms terms{size_t{4} << 20, 1000};
  Site site(terms);
  const auto steps = [](uint32_t first_name) {
    std::vector<Step> round(20);
    for (uint32_t index = 0; index < 20; ++index) {
      round[index].name = index % 5 == 0 ? 1 : first_name + index;  // one name is of both
      round[index].births = {{index, 65536}};
      round[index].uses = {{index, Training::whole, 0, 65536}};
      round[index].deaths = {index};
    }
    return round;
  };
  const std::vector<Step> one = steps(50), two = steps(100);
  Doer first(site.forecast, site.free, 0), second(site.forecast, site.free, 1);
  for (int lap = 0; lap < 3; ++lap) {
    first.run(one);
    second.run(two);
  }
  const SavedProgram program = program_of(site.forecast);
  Site later(terms);
  load(later, program);
  Doer other(later.forecast, later.free, 7), another(later.forecast, later.free, 8);
  other.run(two[0]);  // both streams did that
  assert_false(later.forecast.aligned());
  other.run(two[1]);
  assert_true(later.forecast.aligned());
  another.run(one[0]);  // only one is left
  assert_true(later.forecast.aligned());
  later.forecast.rewind();
  const std::vector<Foreseen> foreseen = later.foresee(30);
  assert_int_equal(foreseen.size(), 30);
}

/// Two streams did the same: each is taken once, when eight operations in a row have told that it is one of them.
void streams_that_do_the_same_are_taken_one_by_one(void **) {
  Site site;
  std::vector<Step> round(20);
  for (uint32_t index = 0; index < 20; ++index) round[index].name = 10 + index;
  Doer first(site.forecast, site.free, 0), second(site.forecast, site.free, 1);
  for (int lap = 0; lap < 3; ++lap) {
    first.run(round);
    second.run(round);
  }
  Site later;
  load(later, program_of(site.forecast));
  Doer other(later.forecast, later.free, 4), another(later.forecast, later.free, 5);
  for (size_t step = 0; step < 8; ++step) {
    assert_false(later.forecast.aligned());
    other.run(round[step]);
  }
  assert_true(later.forecast.aligned());
  another.run(round[0]);
  assert_true(later.forecast.aligned());
}

void a_program_that_is_another_learns_anew(void **) {
  Site site;
  load(site, learned(Training(12), 3));
  Doer doer(site.forecast, site.free);
  std::vector<Step> round(30);
  for (uint32_t index = 0; index < 30; ++index) {
    round[index].name = 100 + index;
    round[index].births = {{index, 65536}};
    round[index].uses = {{index, Training::whole, 0, 65536}};
    round[index].deaths = {index};
  }
  for (const Step &step : round) {
    doer.run(step);
    assert_false(site.forecast.aligned());
  }
  doer.run(round);
  site.forecast.rewind();
  const std::vector<Foreseen> foreseen = site.foresee(29);
  assert_int_equal(foreseen.size(), 29);
  check_foreseen(site, doer, round, foreseen);
}

/// The log where it is loaded is smaller: it has the newest operations.
void what_finds_no_room_is_forgotten_from_its_beginning(void **) {
  const Training training(12);
  const SavedProgram program = learned(training, 60);
  Site site(LearnedForecast::least_budget);
  load(site, program);
  assert_true(site.forecast.log().held() < program.logs[0].operations.size());
  assert_true(site.forecast.log().held() > 0);
  const std::pmr::vector<SavedOperation> saved = program_of(site.forecast).logs[0].operations;
  assert_int_equal(saved.back().name, program.logs[0].operations.back().name);
  assert_int_equal(site.memory.bytes(), site.forecast.bytes());
}

/// An operation of more uses than are followed where it is loaded has as many as one that is observed there.
void an_operation_that_is_too_large_is_cut(void **) {
  Step crowd;
  crowd.name = 7;
  for (uint32_t id = 0; id < 3000; ++id) {
    crowd.births.push_back({id, 65536});
    crowd.uses.push_back({id, use_needs, 0, 65536});
    crowd.deaths.push_back(id);
  }
  Step quiet;
  quiet.name = 8;
  Site site;
  Doer doer(site.forecast, site.free);
  doer.run({quiet, crowd, quiet});
  const SavedProgram program = program_of(site.forecast);
  assert_int_equal(program.logs[0].operations[1].uses, 3000);
  Site later(LearnedForecast::least_budget), there(LearnedForecast::least_budget);
  load(later, program);
  Doer other(later.forecast, later.free), one(there.forecast, there.free);
  one.run({quiet, crowd, quiet});
  assert_int_equal(program_of(later.forecast).logs[0].operations.size(),
                   program_of(there.forecast).logs[0].operations.size());
  assert_int_equal(program_of(later.forecast).logs[0].uses.size(),
                   program_of(there.forecast).logs[0].uses.size());
  other.run(quiet);
  later.forecast.rewind();
  (void)later.foresee(10);
  assert_int_equal(later.memory.bytes(), later.forecast.bytes());
}

/// A record of a buffer whose number was another's, and larger, names a range that this one does not have. Its blob is one that a load takes.
void a_use_that_ends_before_it_begins_is_saved_as_nothing(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Step steps[] = {{1, {{0, 65536}}, {{0, use_needs, 0, 65536}}, {}},
                        {2, {}, {{0, use_needs, 131072, 65536}}, {}}};
  for (const Step &step : steps) doer.run(step);
  SavedProgram program = program_of(site.forecast);
  const SavedUse &wrong = program.logs[0].uses[1];
  assert_int_equal(wrong.begin, 131072 / ProgramLog::unit);
  assert_int_equal(wrong.end, wrong.begin);
  const test::Names names(2);
  name_operations(&program, names.all(), UINT64_MAX);
  const test::Bytes bytes = test::blob_of(program);
  assert_int_equal(check_blob(bytes, test::usual_terms).code(), WEIR_SUCCESS);
  SavedProgram read(std::pmr::new_delete_resource());
  read_blob(bytes, &read);
  Site later;
  load(later, read);
  assert_int_equal(later.forecast.log().held(), 2);
}

/// Counts what is allocated, and apart what is allocated while a log is looked at.
class Watched final : public std::pmr::memory_resource {
 public:
  bool looking = false;
  int allocations = 0, meanwhile = 0;

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    ++(looking ? meanwhile : allocations);
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *at, size_t bytes, size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(at, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

/// The thread that guards the log waits for no memory: while it is looked at none is allocated, however many uses an operation has.
void a_log_that_is_looked_at_waits_for_no_memory(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Training training(12);
  doer.run(training.setup());
  for (int lap = 0; lap < 30; ++lap) doer.run(training.iteration(4));
  Step crowd;
  crowd.name = 7;
  for (uint32_t id = 5000; id < 8000; ++id) {
    crowd.births.push_back({id, 65536});
    crowd.uses.push_back({id, use_needs, 0, 65536});
    crowd.deaths.push_back(id);
  }
  doer.run({crowd});
  Watched memory;
  SavedLog saved(&memory);
  LogSaver saver(saved, &memory);
  int looks = 0;
  for (bool more = true; more; ++looks) {
    saver.make_room();
    memory.looking = true;
    if (looks == 0) saver.begin(site.forecast.log(), UINT64_MAX);
    more = saver.copy(site.forecast.log(), 128);
    memory.looking = false;
  }
  assert_int_equal(memory.meanwhile, 0);
  assert_true(memory.allocations > 5);
  assert_int_equal(saved.operations.size(), site.forecast.log().held());
  assert_int_equal(saved.operations.back().uses, 3000);
  assert_in_range(looks, saved.operations.size() / 128, saved.operations.size() / 64);
}

void a_copy_of_few_bytes_has_the_newest_operations(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Training training(12);
  doer.run(training.setup());
  for (int lap = 0; lap < 10; ++lap) doer.run(training.iteration(4));
  const SavedProgram all = program_of(site.forecast), some = program_of(site.forecast, 10000);
  const size_t operations = some.logs[0].operations.size();
  assert_in_range(operations, 10, all.logs[0].operations.size() - 10);
  assert_true(some.logs[0].operations.back() == all.logs[0].operations.back());
  assert_true(blob_bytes(some) <= 10000 + 200);
}

/// The log goes on, and forgets, while it is copied: what is copied is of operations that were, in their order, and can be loaded.
void a_log_that_goes_on_is_copied_as_far_as_it_is_held(void **) {
  Site site(size_t{128} << 10);
  Doer doer(site.forecast, site.free);
  const Training training(12);
  doer.run(training.setup());
  for (int lap = 0; lap < 30; ++lap) doer.run(training.iteration(4));
  SavedProgram program(std::pmr::new_delete_resource());
  program.logs.emplace_back(std::pmr::new_delete_resource());
  LogSaver saver(program.logs[0], std::pmr::new_delete_resource());
  saver.begin(site.forecast.log(), UINT64_MAX);
  const uint32_t held = site.forecast.log().held();
  while (saver.copy(site.forecast.log(), 10)) {
    saver.make_room();
    doer.run(training.iteration(4));
  }
  const SavedLog &log = program.logs[0];
  assert_in_range(log.operations.size(), 10, held - 1);
  // Each use is of the buffer that it was of: all of it, but for half of what the layer before made.
  size_t at = 0;
  for (const SavedOperation &operation : log.operations) {
    for (uint32_t count = 0; count < operation.uses; ++count, ++at) {
      const SavedUse &use = log.uses[at];
      const bool half = operation.name == Training::forward && use.slot == 1 && operation.uses == 3;
      const uint64_t bytes = log.lives[use.life] / (half ? 2 : 1);
      assert_int_equal(use.end, (bytes + ProgramLog::unit - 1) / ProgramLog::unit);
    }
  }
  const test::Names names(Training::update);
  name_operations(&program, names.all(), UINT64_MAX);
  const test::Bytes blob = test::blob_of(program);
  assert_int_equal(check_blob(blob, test::usual_terms).code(), WEIR_SUCCESS);
  Site later;
  load(later, program);
  assert_int_equal(later.forecast.log().lives().alive(), 0);
}

void names_are_given_by_their_text(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  const Training training(12);
  doer.run(training.setup());
  for (int lap = 0; lap < 3; ++lap) doer.run(training.iteration(4));
  SavedProgram program = program_of(site.forecast);
  const test::Names names(Training::update);
  name_operations(&program, names.all(), UINT64_MAX);
  assert_int_equal(program.names.size(), 4);
  assert_true(program.names[0] == "operation 1");
  // There, the same names have other numbers.
  const std::vector<uint32_t> there = {40, 30, 20, 10};
  Site later;
  later.forecast.load(program.logs[0], there);
  std::vector<Step> steps = training.setup();
  for (const Step &step : training.iteration(4)) steps.push_back(step);
  for (Step &step : steps) step.name = there[step.name - 1];
  Doer other(later.forecast, later.free);
  other.run(steps[0]);
  assert_true(later.forecast.aligned());
  later.forecast.rewind();
  check_foreseen(later, other, {steps.begin() + 1, steps.end()}, later.foresee(36));
}

void names_beyond_what_there_is_room_for_are_shared(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  Step step;
  for (const uint32_t name : {1U, 2U, 3U, 2U, shared_name, 0U, 4U}) {
    step.name = name;
    doer.run(step);
  }
  SavedProgram program = program_of(site.forecast);
  const test::Names names(3);
  name_operations(&program, names.all(), 2 * std::string_view("operation 1").size());
  assert_int_equal(program.names.size(), 2);
  const auto &operations = program.logs[0].operations;
  const uint32_t wanted[] = {1, 2, shared_name, 2, shared_name, 0, shared_name};
  for (size_t index = 0; index < 7; ++index) {
    if (wanted[index] != 0)
      assert_int_equal(operations[index].name, wanted[index]);
    else
      assert_true(operations[index].name >= unnamed);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_first_round_is_foreseen_after_a_load),
      cmocka_unit_test(what_lived_at_the_end_is_needed_in_the_next_round),
      cmocka_unit_test(nothing_is_left_of_the_buffers_that_were),
      cmocka_unit_test(what_is_saved_again_is_the_same),
      cmocka_unit_test(streams_are_found_by_what_they_do),
      cmocka_unit_test(streams_that_do_the_same_are_taken_one_by_one),
      cmocka_unit_test(a_program_that_is_another_learns_anew),
      cmocka_unit_test(what_finds_no_room_is_forgotten_from_its_beginning),
      cmocka_unit_test(an_operation_that_is_too_large_is_cut),
      cmocka_unit_test(a_use_that_ends_before_it_begins_is_saved_as_nothing),
      cmocka_unit_test(a_log_that_is_looked_at_waits_for_no_memory),
      cmocka_unit_test(a_copy_of_few_bytes_has_the_newest_operations),
      cmocka_unit_test(a_log_that_goes_on_is_copied_as_far_as_it_is_held),
      cmocka_unit_test(names_are_given_by_their_text),
      cmocka_unit_test(names_beyond_what_there_is_room_for_are_shared),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
//
// The log of a program: what is added is linked as it happened, what is forgotten leaves no trace, and at every moment the log tells of
// the operations that it holds what a plain record of everything tells.

#include "core/policy/program_log.hpp"

#include "tests/support/cmocka.hpp"

#include <map>
#include <random>
#include <vector>

namespace {

using namespace weir::policy;

constexpr uint32_t none = ProgramLog::none;

ProgramLog::Sizes sizes(uint32_t operations, uint32_t uses, uint32_t lives) {
  ProgramLog::Sizes its;
  its.operations = operations;
  its.uses = uses;
  its.lives = lives;
  its.streams = 2;
  return its;
}

/// An operation that reads these buffers, of those that live.
uint32_t operate(ProgramLog &log, uint32_t name, const std::vector<uint32_t> &buffers,
                 uint32_t stream = 0) {
  const uint32_t number =
      log.begin_operation(name, name, stream, static_cast<uint32_t>(buffers.size()));
  uint32_t slot = 0;
  for (const uint32_t buffer : buffers) {
    const uint32_t life = log.lives().of(buffer);
    if (life != none) log.add_use(life, {buffer, use_needs, 0, 256}, slot);
    ++slot;
  }
  return number;
}

std::vector<uint32_t> births_of(const ProgramLog &log, uint32_t operation) {
  std::vector<uint32_t> buffers;
  for (uint32_t life = log.operation(operation).first_born; life != none;
       life = log.lives()[life].next_born)
    buffers.push_back(log.lives()[life].buffer);
  return buffers;
}

std::vector<uint32_t> deaths_of(const ProgramLog &log, uint32_t operation) {
  std::vector<uint32_t> buffers;
  for (uint32_t life = log.operation(operation).first_died; life != none;
       life = log.lives()[life].next_died)
    buffers.push_back(log.lives()[life].buffer);
  return buffers;
}

void births_come_before_an_operation_and_deaths_after_it(void **) {
  ProgramLog log(sizes(8, 32, 8), std::pmr::get_default_resource());
  log.born(5, 1, 100, 0);
  log.born(3, 1, 200, 0);
  log.born(9, 1, 300, 1);                      // another stream's
  log.born(4, 1, 400, ProgramLog::no_stream);  // of the stream that comes first
  const uint32_t first = operate(log, 1, {5, 3});
  log.died(3);
  log.died(5);
  const uint32_t second = operate(log, 2, {9}, 1);
  assert_true((births_of(log, first) == std::vector<uint32_t>{5, 3, 4}));
  assert_true((deaths_of(log, first) == std::vector<uint32_t>{3, 5}));
  assert_true((births_of(log, second) == std::vector<uint32_t>{9}));
  assert_true(deaths_of(log, second).empty());
}

void a_buffer_dies_after_the_newest_operation_of_the_stream_that_used_it(void **) {
  ProgramLog log(sizes(8, 32, 8), std::pmr::get_default_resource());
  log.born(1, 1, 100, 0);
  operate(log, 1, {1}, 0);
  const uint32_t own = operate(log, 2, {}, 0);
  const uint32_t other = operate(log, 3, {}, 1);
  log.died(1);
  assert_true((deaths_of(log, own) == std::vector<uint32_t>{1}));
  assert_true(deaths_of(log, other).empty());
}

void uses_of_a_buffer_are_linked_across_streams(void **) {
  ProgramLog log(sizes(8, 32, 8), std::pmr::get_default_resource());
  log.born(1, 1, 100, 0);
  const uint32_t first = log.operation(operate(log, 1, {1}, 0)).first_use;
  const uint32_t second = log.operation(operate(log, 2, {1}, 1)).first_use;
  assert_int_equal(log.use(first).next, second);
  assert_int_equal(log.use(second).previous, first);
  assert_int_equal(log.use(second).next, none);
  assert_int_equal(log.lives()[log.lives().of(1)].last_use, second);
}

void several_uses_of_a_buffer_by_one_operation_are_one(void **) {
  ProgramLog log(sizes(8, 32, 8), std::pmr::get_default_resource());
  const uint32_t life = log.born(1, 1, 8192, 0);
  const uint32_t number = log.begin_operation(1, 1, 0, 3);
  log.add_use(life, {1, use_writes, 1000, 2000}, 0);
  log.add_use(life, {1, use_needs, 4000, 4100}, 1);
  log.add_use(life, {1, use_writes | use_whole, 0, 300}, 2);
  assert_int_equal(log.operation(number).uses, 1);
  const LoggedUse &use = log.use(log.operation(number).first_use);
  assert_int_equal(use.mode, use_needs | use_writes);  // what is needed comes before all is written
  assert_int_equal(use.begin, 0);
  assert_int_equal(use.end, 17);  // 4100 is in the 17th 256 bytes
}

void content_that_an_operation_wrote_itself_is_not_needed(void **) {
  ProgramLog log(sizes(8, 32, 8), std::pmr::get_default_resource());
  const uint32_t life = log.born(1, 1, 8192, 0);
  const uint32_t number = log.begin_operation(1, 1, 0, 2);
  log.add_use(life, {1, use_writes | use_whole, 0, 8192}, 0);
  log.add_use(life, {1, use_needs, 0, 8192}, 1);
  assert_int_equal(log.use(log.operation(number).first_use).mode, use_writes | use_whole);
}

/// Nothing was done with it, so no operation tells of it; that there was a birth keeps its rank.
void a_buffer_that_no_operation_saw_is_not_told_of(void **) {
  ProgramLog log(sizes(8, 32, 4), std::pmr::get_default_resource());
  log.born(1, 1, 100, 0);
  log.born(2, 1, 100, 0);
  log.born(3, 1, 100, 0);
  log.died(2);
  log.died(3);
  log.born(4, 1, 100, 0);
  const uint32_t number = operate(log, 1, {});
  assert_true((births_of(log, number) == std::vector<uint32_t>{1, 4}));
  assert_int_equal(log.operation(number).births, 4);
  assert_int_equal(log.lives()[log.lives().of(4)].rank, 3);
  for (uint32_t buffer = 10; buffer < 1000; ++buffer) {  // and it leaves no trace
    assert_true(log.born(buffer, 1, 100, 0) != none);
    log.died(buffer);
  }
}

void births_of_buffers_that_are_not_followed_count(void **) {
  ProgramLog log(sizes(8, 32, 4), std::pmr::get_default_resource());
  log.born_unfollowed(0);
  log.born(1, 1, 100, 0);
  log.born_unfollowed(0);
  log.born(2, 1, 100, ProgramLog::no_stream);
  const uint32_t number = operate(log, 1, {});
  assert_int_equal(log.operation(number).births, 4);
  assert_int_equal(log.lives()[log.lives().of(1)].rank, 1);
  assert_int_equal(log.lives()[log.lives().of(2)].rank, 3);
}

void a_number_that_is_given_again_is_another_life(void **) {
  ProgramLog log(sizes(8, 32, 8), std::pmr::get_default_resource());
  const uint32_t old = log.born(1, 1, 100, 0);
  operate(log, 1, {1});
  const uint32_t fresh = log.born(1, 2, 200, 0);  // the old one's death was not told
  assert_true(old != fresh);
  assert_int_equal(log.lives().of(1), fresh);
  assert_false(log.lives()[old].alive);
  assert_int_equal(log.lives()[old].bytes, 100);
  operate(log, 2, {1});
  assert_int_equal(log.lives()[fresh].bytes, 200);
  assert_int_equal(log.use(log.lives()[fresh].last_use).previous, none);
}

void buffers_that_live_do_not_crowd_out_the_log(void **) {
  ProgramLog log(sizes(8, 32, 8), std::pmr::get_default_resource());
  for (uint32_t buffer = 0; buffer < 8; ++buffer) assert_true(log.born(buffer, 1, 100, 0) != none);
  operate(log, 1, {0, 1, 2});
  assert_int_equal(log.born(8, 1, 100, 0), none);
  assert_int_equal(log.held(), 1);
  log.died(0);
  log.died(1);
  log.died(2);  // three are dead and told of: room can be made, and the operation goes
  assert_true(log.born(8, 1, 100, 0) != none);
  assert_int_equal(log.held(), 0);
}

void a_log_that_is_cleared_knows_the_buffers_that_live(void **) {
  ProgramLog::Sizes its = sizes(16, 64, 8);
  its.most_entries = 70000;
  ProgramLog log(its, std::pmr::get_default_resource());
  log.born(1, 1, 100, 0);
  log.born(2, 1, 100, 0);
  uint32_t operations = 0;
  for (; !log.used_up(); ++operations) operate(log, 1, {1, 2});
  assert_true(operations > 1000 && operations < 35000);
  log.died(2);
  log.clear();
  assert_false(log.used_up());
  assert_int_equal(log.held(), 0);
  assert_int_equal(log.lives().of(2), none);
  const uint32_t number = operate(log, 1, {1});
  assert_int_equal(number, 0);
  assert_int_equal(log.use(0).previous, none);
  assert_int_equal(log.operation(0).previous, none);
}

/// A record of everything, and what of it the log must tell.
struct Record {
  struct Operation {
    uint32_t stream = 0;
    std::vector<uint32_t> births, uses, deaths;  ///< by generation
  };
  std::vector<Operation> operations;
  std::map<uint32_t, uint32_t>
      generations;                    ///< of buffers that live, as far as the log follows them
  std::map<uint32_t, uint32_t> user;  ///< by generation: the stream that used it last, or bore it
  std::vector<uint32_t> waiting[3];

  bool waits(uint32_t generation) const {
    for (const auto &some : waiting)
      for (const uint32_t each : some)
        if (each == generation) return true;
    return false;
  }
  void died(uint32_t buffer) {
    const auto found = generations.find(buffer);
    if (found == generations.end()) return;
    const uint32_t generation = found->second;
    generations.erase(found);
    const bool waited = waits(generation);
    for (auto &some : waiting) std::erase(some, generation);
    if (waited) return;
    for (size_t number = operations.size(); number-- != 0;)
      if (operations[number].stream == user[generation]) {
        operations[number].deaths.push_back(generation);
        return;
      }
  }
};

/// A dead buffer that no held operation tells of is forgotten, so its death may be missing where all its uses are.
void check(const ProgramLog &log, const Record &record) {
  for (uint32_t number = log.end() - log.held(); number < log.end(); ++number) {
    const auto &real = record.operations[number];
    const LoggedOperation &told = log.operation(number);
    assert_int_equal(told.stream, real.stream);
    std::vector<uint32_t> births, deaths;
    for (uint32_t life = told.first_born; life != none; life = log.lives()[life].next_born)
      births.push_back(static_cast<uint32_t>(log.lives()[life].generation));
    assert_true(births == real.births);
    assert_int_equal(told.uses, real.uses.size());
    for (uint32_t use = 0; use < told.uses; ++use) {
      const LoggedUse &its = log.use(told.first_use + use);
      assert_int_equal(log.lives()[its.life].generation, real.uses[use]);
      assert_int_equal(its.operation, number);
      if (its.next != none) assert_int_equal(log.use(its.next).previous, told.first_use + use);
    }
    size_t at = 0;
    for (uint32_t life = told.first_died; life != none; life = log.lives()[life].next_died) {
      const auto generation = static_cast<uint32_t>(log.lives()[life].generation);
      while (at < real.deaths.size() && real.deaths[at] != generation) ++at;
      assert_true(at < real.deaths.size());
      assert_int_equal(log.lives()[life].died, number);
    }
  }
}

void a_log_that_forgets_tells_the_rest_as_it_was(void **) {
  auto random = [engine = std::mt19937(7)]() mutable { return static_cast<uint32_t>(engine()); };
  for (int round = 0; round < 20; ++round) {
    ProgramLog log(sizes(1 + random() % 12, 8 + random() % 30, 4 + random() % 24),
                   std::pmr::get_default_resource());
    Record record;
    uint32_t generation = 0;
    for (int step = 0; step < 3000; ++step) {
      const uint32_t buffer = random() % 16;
      const uint32_t stream = random() % 2;
      switch (random() % 4) {
        case 0: {
          const uint32_t slot = random() % 3;
          record.died(buffer);
          const uint32_t life =
              log.born(buffer, ++generation, 100, slot == 2 ? ProgramLog::no_stream : slot);
          if (life == none) break;
          record.generations[buffer] = generation;
          record.waiting[slot].push_back(generation);
          break;
        }
        case 1:
          record.died(buffer);
          log.died(buffer);
          break;
        default: {
          Record::Operation operation;
          operation.stream = stream;
          for (const uint32_t slot : {stream, uint32_t{2}}) {
            for (const uint32_t each : record.waiting[slot]) {
              operation.births.push_back(each);
              record.user[each] = stream;
            }
            record.waiting[slot].clear();
          }
          std::vector<uint32_t> buffers;
          for (uint32_t each = random() % 16; each < 16 && buffers.size() < 6;
               each += 1 + random() % 5)
            buffers.push_back(each);
          operate(log, 1, buffers, stream);
          for (const uint32_t each : buffers) {
            const auto found = record.generations.find(each);
            if (found == record.generations.end()) continue;
            // Used by another stream than the one it waits for: it is born before this operation.
            if (record.waits(found->second)) {
              for (auto &some : record.waiting) std::erase(some, found->second);
              operation.births.push_back(found->second);
            }
            operation.uses.push_back(found->second);
            record.user[found->second] = stream;
          }
          record.operations.push_back(std::move(operation));
        }
      }
      check(log, record);
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(births_come_before_an_operation_and_deaths_after_it),
      cmocka_unit_test(a_buffer_dies_after_the_newest_operation_of_the_stream_that_used_it),
      cmocka_unit_test(uses_of_a_buffer_are_linked_across_streams),
      cmocka_unit_test(several_uses_of_a_buffer_by_one_operation_are_one),
      cmocka_unit_test(content_that_an_operation_wrote_itself_is_not_needed),
      cmocka_unit_test(a_buffer_that_no_operation_saw_is_not_told_of),
      cmocka_unit_test(births_of_buffers_that_are_not_followed_count),
      cmocka_unit_test(a_number_that_is_given_again_is_another_life),
      cmocka_unit_test(buffers_that_live_do_not_crowd_out_the_log),
      cmocka_unit_test(a_log_that_is_cleared_knows_the_buffers_that_live),
      cmocka_unit_test(a_log_that_forgets_tells_the_rest_as_it_was),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

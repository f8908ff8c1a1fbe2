// SPDX-License-Identifier: Apache-2.0
//
// The replay loop, on a machine made for the test: plain memory with a worker thread, which checks the order of calls
// the loop promises and can lose, mix up or damage bytes on purpose: each such fault must be seen.
#include "tests/tools/trace_files.hpp"

#include "tools/weir/replayer.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using namespace weir::tool;
using weir::test::TemporaryFile;

enum class Fault { none, flip_a_bit, keep_old_bytes, swap_blocks, not_zeroed };

struct Setup {
  Fault fault = Fault::none;
  bool announcing = true;
  bool zeroed = true;
  uint64_t fail_at = UINT64_MAX;  ///< the operation that is refused
};

struct Seen {
  uint64_t created = 0;
  uint64_t destroyed = 0;
  uint64_t begun = 0;
  uint64_t broken_rules = 0;
  size_t furthest = 0;            ///< most operations announced and not begun
  uint64_t created_at_first = 0;  ///< blocks created when the first operation began
  size_t longest_queue = 0;
  uint64_t abandoned = 0;
};

class FakeMachine final : public Machine {
 public:
  FakeMachine(size_t blocks, const Setup &setup)
      : setup_(setup), blocks_(blocks), worker_([this] { work(); }) {}
  ~FakeMachine() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  void create(uint32_t block, uint64_t bytes) override {
    rule(!open_ && !blocks_[block]);
    blocks_[block] = std::make_unique<std::vector<std::byte>>(bytes);
    if (setup_.fault == Fault::not_zeroed || !setup_.zeroed)
      blocks_[block]->assign(bytes, std::byte{0xee});
    ++seen_.created;
  }
  void destroy(uint32_t block) override {
    rule(!open_ && blocks_[block] != nullptr);
    finish();
    blocks_[block].reset();
    ++seen_.destroyed;
  }
  void announce(const std::string &name, std::span<const BlockUse> uses) override {
    rule(!open_ && !uses.empty());
    announced_.emplace_back(name, std::vector<BlockUse>(uses.begin(), uses.end()));
    seen_.furthest = std::max(seen_.furthest, announced_.size());
  }
  void begin(const std::string &name, std::span<const BlockUse> uses,
             std::span<std::byte *> addresses) override {
    rule(!open_ && uses.size() == addresses.size());
    open_ = true;
    if (seen_.begun++ == 0) seen_.created_at_first = seen_.created;
    if (setup_.announcing) {
      rule(!announced_.empty() && announced_.front().first == name &&
           std::equal(uses.begin(), uses.end(), announced_.front().second.begin(),
                      announced_.front().second.end()));
      announced_.pop_front();
    }
    for (size_t i = 0; i < uses.size(); ++i) {
      rule(blocks_[uses[i].block] != nullptr &&
           uses[i].offset + uses[i].length <= blocks_[uses[i].block]->size());
      addresses[i] = blocks_[uses[i].block]->data() + uses[i].offset;
    }
    plant(uses);
  }
  void submit(Job &job) override {
    const std::lock_guard lock(mutex_);
    queue_.push_back(&job);
    seen_.longest_queue = std::max(seen_.longest_queue, queue_.size());
    changed_.notify_all();
  }
  void end() override {
    rule(open_);
    open_ = false;
    if (saved_.empty()) return;
    finish();  // lose what the operation wrote
    *blocks_[saved_block_] = saved_;
    saved_.clear();
  }
  void finish() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty(); });
  }
  void abandon() noexcept override {
    open_ = false;
    ++seen_.abandoned;
    finish();
  }
  bool starts_zeroed() const override { return setup_.zeroed; }

  Seen seen() {
    finish();
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  void rule(bool holds) { seen_.broken_rules += holds ? 0 : 1; }

  /// Does its fault at the third operation.
  void plant(std::span<const BlockUse> uses) {
    if (seen_.begun - 1 == setup_.fail_at) throw ToolError("refused on purpose");
    if (seen_.begun != 3) return;
    std::vector<std::byte> &first = *blocks_[uses[0].block];
    if (setup_.fault == Fault::flip_a_bit) {
      finish();
      first[first.size() / 2] ^= std::byte{4};
    } else if (setup_.fault == Fault::keep_old_bytes) {
      finish();
      saved_block_ = uses[1].block;
      saved_ = *blocks_[saved_block_];
    } else if (setup_.fault == Fault::swap_blocks) {
      finish();
      std::swap_ranges(first.begin(), first.begin() + 8, blocks_[uses[1].block]->begin());
    }
  }

  void work() {
    for (;;) {
      Job *job = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (queue_.empty()) return;
        job = queue_.front();
      }
      JobRing::run(job);
      const std::lock_guard lock(mutex_);
      queue_.pop_front();
      changed_.notify_all();
    }
  }

  const Setup setup_;
  Seen seen_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> blocks_;
  std::deque<std::pair<std::string, std::vector<BlockUse>>> announced_;
  std::vector<std::byte> saved_;
  uint32_t saved_block_ = 0;
  bool open_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job *> queue_;
  bool stop_ = false;
  std::thread worker_;
};

Plan plan_of(const std::string &body) {
  const TemporaryFile file("#vmt 1\n" + body);
  return read_plan(file.path(), {});
}

/// Two blocks that live on, and 50 rounds of a scratch block and one passed on. In operation 2 block 0 is read and
/// then block 1 updated; every block is read again later.
Plan busy_plan() {
  std::string body =
      "a 0 5000 param\na 1 3001 state\no 0 5 init\nu 0 w\no 1 5 init\nu 1 r 0 100\nu 1 w 1000 "
      "2001\ne\n";
  int id = 2;
  for (int round = 0; round < 50; ++round) {
    const std::string scratch = std::to_string(id++);
    const std::string passed = std::to_string(id++);
    const std::string op = std::to_string(2 + 2 * round);
    const std::string next = std::to_string(3 + 2 * round);
    body += "o " + op + " 1 step\na " + scratch + " 700 work\nu " + scratch +
            " x\nu 0 r\nu 1 x 500 600\nf " + scratch + "\ne\na " + passed + " 64 act\no " + next +
            " 1 use\nu " + passed + " r\nu 1 r\nu 0 r\nu 0 w 8 16\ne\nf " + passed + "\n";
  }
  return plan_of(body);
}

struct Outcome {
  RunResult result;
  Seen seen;
  std::string error;
};

/// The machine and its thread are gone when this returns: a failed assertion jumps over destructors.
Outcome run(const Plan &plan, Setup setup, const RunOptions &options = {}) {
  const Pattern pattern(DataMode::pattern, 1);
  setup.announcing = options.announce != 0;
  FakeMachine machine(plan.block_bytes.size(), setup);
  Outcome outcome;
  outcome.error =
      weir::test::error_of([&] { outcome.result = replay(plan, machine, pattern, options); });
  outcome.seen = machine.seen();
  return outcome;
}

Setup with(Fault fault) {
  Setup setup;
  setup.fault = fault;
  return setup;
}

void keeps_the_order_of_calls(void **) {
  const Plan plan = busy_plan();
  const uint64_t windows[] = {0, 1, 7, 500};
  for (const uint64_t announce : windows) {
    RunOptions options;
    options.announce = announce;
    const Outcome outcome = run(plan, {}, options);
    assert_string_equal(outcome.error.c_str(), "");
    assert_int_equal(outcome.result.verify_errors, 0);
    assert_int_equal(outcome.seen.broken_rules, 0);
    assert_int_equal(outcome.seen.begun, plan.operations.size());
    assert_int_equal(outcome.seen.created, plan.block_bytes.size());
    assert_int_equal(outcome.seen.destroyed, outcome.seen.created);
    const uint64_t furthest =
        announce == 0 ? 0 : std::min<uint64_t>(announce + 1, plan.operations.size());
    assert_int_equal(outcome.seen.furthest, furthest);
  }
}

/// Births too, where they are operations.
void announces_a_whole_plan_before_its_first_operation(void **) {
  const Plan plan = busy_plan();
  for (const bool touch : {false, true}) {
    RunOptions options;
    options.announce = announce_all;
    options.touch = touch;
    const Outcome outcome = run(plan, {}, options);
    const uint64_t operations =
        plan.operations.size() + (touch ? plan.block_bytes.size() : uint64_t{0});
    assert_string_equal(outcome.error.c_str(), "");
    assert_int_equal(outcome.result.verify_errors, 0);
    assert_int_equal(outcome.seen.broken_rules, 0);
    assert_int_equal(outcome.seen.begun, operations);
    assert_int_equal(outcome.seen.furthest, operations);
    assert_int_equal(outcome.seen.created_at_first, plan.block_bytes.size());
    assert_int_equal(outcome.seen.created, plan.block_bytes.size());
    assert_int_equal(outcome.seen.destroyed, outcome.seen.created);
  }
}

void sees_every_planted_fault(void **) {
  const Plan plan = busy_plan();
  const Fault faults[] = {Fault::flip_a_bit, Fault::keep_old_bytes, Fault::swap_blocks,
                          Fault::not_zeroed};
  for (const Fault fault : faults) {
    const Outcome outcome = run(plan, with(fault));
    if (outcome.result.verify_errors == 0)
      fail_msg("fault %d was not seen", static_cast<int>(fault));
    assert_false(outcome.result.first_errors.empty());
    assert_true(outcome.result.first_errors.size() <= VerifyLog::kept);
  }
}

void says_where_the_first_error_is(void **) {
  const Plan plan =
      plan_of("a 0 4096 x\na 1 8 x\no 0 0 n\nu 0 w\no 1 0 n\nu 1 w\no 2 0 n\nu 0 r\nu 1 r\n");
  const RunResult result = run(plan, with(Fault::flip_a_bit)).result;
  assert_int_equal(result.verify_errors, 1);
  assert_int_equal(result.first_errors[0].operation, 2);
  assert_int_equal(result.first_errors[0].block, 0);
  assert_int_equal(result.first_errors[0].offset, 2048);
  assert_int_equal(result.first_errors[0].expected ^ result.first_errors[0].got, 4);
}

void makes_zeros_where_the_machine_does_not(void **) {
  Setup setup;
  setup.zeroed = false;
  assert_int_equal(run(busy_plan(), setup).result.verify_errors, 0);
}

void runs_ahead_no_further_than_told(void **) {
  RunOptions options;
  options.ahead = 3;
  options.pace =
      Pace{2e4, 1e12, 0, 1};  // 50 us and more an operation: the loop is faster than the stream
  std::string body = "a 0 64 x\n";  // nothing is freed: the machine would wait for its jobs
  for (int i = 0; i < 100; ++i) body += "o " + std::to_string(i) + " 1 n\nu 0 x\n";
  const Outcome outcome = run(plan_of(body), {}, options);
  assert_int_equal(outcome.result.verify_errors, 0);
  assert_true(outcome.seen.longest_queue <=
              3 + 1);  // a job leaves the queue just after it has ended
}

void neither_fills_nor_checks_unless_asked(void **) {
  const Plan plan = busy_plan();
  RunOptions options;
  options.verify = false;
  const Outcome outcome = run(plan, with(Fault::not_zeroed), options);
  assert_int_equal(outcome.result.verify_errors, 0);
  assert_int_equal(outcome.seen.begun, plan.operations.size());
  assert_int_equal(outcome.seen.longest_queue, 0);
}

void leaves_no_job_behind_a_failure(void **) {
  Setup setup;
  setup.fail_at = 20;
  const Outcome outcome = run(busy_plan(), setup);
  assert_true(weir::test::contains(outcome.error, "refused on purpose"));
  assert_int_equal(outcome.seen.begun, 21);
  assert_true(outcome.seen.abandoned > 0);
}

/// Durations add up in the stream: 20 operations of 2 ms can't take less than 40 ms, whatever the load.
void holds_the_stream_for_the_pace(void **) {
  std::string body = "a 0 1000 x\n";
  for (int i = 0; i < 20; ++i)
    body += "o " + std::to_string(i) + " 2000 n\n" + (i % 2 == 0 ? "u 0 x\n" : "");
  const Plan plan = plan_of(body);
  RunOptions options;
  Pace pace;
  pace.flops = 2e6;  // 1 ms an operation
  pace.bytes = 1e12;
  pace.link = 1e9;
  pace.slow = 2;
  options.pace = pace;
  const double expected = compute_seconds(plan, pace);
  assert_true(expected > 0.0399 && expected < 0.0401);
  assert_true(pace.link_bandwidth() == 5e8);
  assert_true(run(plan, {}, options).result.seconds >= expected - 1e-6);
}

/// Operations of a nanosecond, which write a mebibyte each: how much longer that takes is told.
void tells_what_checking_takes_longer(void **) {
  std::string body = "a 0 1048576 x\n";
  for (int i = 0; i < 10; ++i) body += "o " + std::to_string(i) + " 1 n\nu 0 x\n";
  const Plan plan = plan_of(body);
  RunOptions options;
  options.pace = Pace{1e9, 1e18, 1e9, 1};
  const RunResult result = run(plan, {}, options).result;
  assert_true(result.overrun_seconds > 0);
  assert_true(result.overrun_seconds <= result.seconds);
  assert_true(static_cast<double>(result.end_ns - result.begin_ns) * 1e-9 == result.seconds);
  options.pace.reset();  // then an operation takes as long as it takes
  assert_true(run(plan, {}, options).result.overrun_seconds == 0);
}

void pace_is_the_longer_of_two(void **) {
  Plan plan;
  PlanOperation operation;
  operation.flops = 100;
  operation.touched = 300;
  Pace pace;
  pace.flops = 10;
  pace.bytes = 10;
  assert_true(pace.seconds(plan, operation) == 30);
  pace.flops = 1;
  assert_true(pace.seconds(plan, operation) == 100);
  plan.scale = 4;  // a scaled trace keeps the ratio of compute to transfers
  assert_true(pace.seconds(plan, operation) == 25);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(keeps_the_order_of_calls),
      cmocka_unit_test(announces_a_whole_plan_before_its_first_operation),
      cmocka_unit_test(sees_every_planted_fault),
      cmocka_unit_test(says_where_the_first_error_is),
      cmocka_unit_test(makes_zeros_where_the_machine_does_not),
      cmocka_unit_test(runs_ahead_no_further_than_told),
      cmocka_unit_test(neither_fills_nor_checks_unless_asked),
      cmocka_unit_test(leaves_no_job_behind_a_failure),
      cmocka_unit_test(holds_the_stream_for_the_pace),
      cmocka_unit_test(tells_what_checking_takes_longer),
      cmocka_unit_test(pace_is_the_longer_of_two),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
//
// Recorded programs: what is replayed is what was done. A program records itself, its trace is replayed, and the pool's counters are
// the same to the byte; every byte that is read is what was written last; what a trace can't mean is refused with its line before
// anything runs; and a replay can't be had in ways that mean nothing for it.
#include "tests/tools/recording.hpp"
#include "tests/tools/trace_files.hpp"

#include "tools/weir/plan.hpp"
#include "tools/weir/recorded/program.hpp"
#include "tools/weir/recorded/replay.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <random>

namespace {

using namespace weir::tool;
using weir::record::VmtBytes;
using weir::test::contains;
using weir::test::error_of;
using weir::test::Recording;
using weir::test::TemporaryFile;
using Json = nlohmann::json;

ReplayFlags flags_for(const std::string &path) {
  ReplayFlags flags;
  flags.trace = path;
  flags.json = true;
  return flags;
}

recorded::ReplayReport replay(const std::string &path, const ReplayFlags &flags) {
  TraceFile file(path);
  return recorded::replay_recorded(file, check_replay_flags(flags));
}

uint64_t then(const Json &pool, const char *name) {
  assert_true(pool["recorded"].is_object());
  return pool["recorded"].value(name, uint64_t{0});
}
uint64_t now(const Json &pool, const char *name) { return pool["stats"][name].get<uint64_t>(); }

/// What the pool did then and does now.
void expect_equal(const Json &pool, const std::vector<const char *> &names) {
  for (const char *name : names)
    if (then(pool, name) != now(pool, name))
      fail_msg("%s: recorded %llu, replayed %llu", name,
               static_cast<unsigned long long>(then(pool, name)),
               static_cast<unsigned long long>(now(pool, name)));
}

Json replayed(const std::string &trace) {
  const TemporaryFile file(trace);
  const recorded::ReplayReport report = replay(file.path(), flags_for(file.path()));
  if (report.verify_errors != 0) fail_msg("%s", report.json.c_str());
  return Json::parse(report.json);
}

/// Random calls of every kind on a pool that holds a third of the buffers, one or two leases at a time.
class Doer {
 public:
  Doer(Recording &program, uint64_t seed, uint32_t devices)
      : program_(program), random_(seed), devices_(devices) {
    for (uint32_t device = 0; device < devices; ++device) {
      streams_.push_back(program.stream(device));
      streams_.push_back(program.stream(device));
    }
    cpu_ = program.stream(WEIR_DEVICE_HOST);
    for (int i = 0; i < 24; ++i) make();
  }

  void step() {
    switch (below(12)) {
      case 0:
        return make();
      case 1:
        if (buffers_.size() > 12) end(below(buffers_.size()));
        return;
      case 2:
        return bytes(VmtBytes::read);
      case 3:
        return bytes(VmtBytes::write);
      case 4:
        return bytes(VmtBytes::discard);
      case 5:
        return program_.announce(stream(), {any(), any()}, "announced");
      case 6:
        return program_.prefetch(stream(), any());
      case 7: {
        const size_t on = stream();
        const size_t memory = program_.allocate(streams_[0], 1 + below(100000));
        lease(on);
        return program_.free(memory, streams_[0]);
      }
      case 8: {
        const size_t held = any();
        program_.hold(held);
        lease(stream());
        return program_.unhold(held);
      }
      case 9:
        return lease(cpu_);
      default:
        return lease(stream());
    }
  }

 private:
  uint64_t below(uint64_t end) { return random_() % end; }
  size_t stream() { return streams_[below(streams_.size())]; }
  size_t any() { return buffers_[below(buffers_.size())].number; }

  struct Buffer {
    size_t number;
    uint64_t size;
  };

  void make() {
    const uint64_t size = below(3) == 0 ? 1 + below(5000) : Recording::page * (1 + below(6));
    buffers_.push_back({program_.buffer(size, static_cast<weir_device>(below(devices_))), size});
  }
  void end(size_t place) {
    program_.destroy(buffers_[place].number);
    buffers_.erase(buffers_.begin() + static_cast<long>(place));
  }

  void bytes(VmtBytes what) {
    const Buffer &buffer = buffers_[below(buffers_.size())];
    const uint64_t offset = below(buffer.size);
    program_.bytes(what, buffer.number, offset, 1 + below(buffer.size - offset));
  }

  std::vector<Recording::Use> set() {
    static constexpr uint32_t modes[] = {WEIR_READ, WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE};
    std::vector<Recording::Use> uses;
    for (uint64_t i = 0; i < 1 + below(3); ++i) {
      const Buffer &buffer = buffers_[below(buffers_.size())];
      const bool twice = std::any_of(uses.begin(), uses.end(), [&](const Recording::Use &use) {
        return use.buffer == buffer.number;
      });
      if (twice) continue;
      Recording::Use use{buffer.number, modes[below(4)], 0, WEIR_WHOLE, 0};
      if (below(3) == 0) {
        use.offset = below(buffer.size);
        use.length = 1 + below(buffer.size - use.offset);
      }
      if (devices_ > 1 && below(4) == 0) use.flags = WEIR_USE_ALLOW_REMOTE;
      uses.push_back(use);
    }
    return uses;
  }

  /// Sometimes another begins before it ends, on its stream or another. What is refused then is in the trace, too.
  void lease(size_t on) {
    const size_t outer = program_.acquire(on, set(), "outer");
    if (outer == SIZE_MAX) return;
    const size_t inner =
        below(2) == 0 ? program_.acquire(below(2) == 0 ? on : stream(), set(), "inner") : SIZE_MAX;
    if (inner != SIZE_MAX && below(2) == 0) {
      program_.release(inner);
      return program_.release(outer);
    }
    program_.release(outer);
    if (inner != SIZE_MAX) program_.release(inner);
  }

  Recording &program_;
  std::mt19937_64 random_;
  uint32_t devices_;
  std::vector<size_t> streams_;
  size_t cpu_ = 0;
  std::vector<Buffer> buffers_;
};

std::string random_program(uint64_t seed, uint32_t devices) {
  Recording program(WEIR_POOL_NO_BACKGROUND, 24 * Recording::page, "lru-window", devices);
  Doer doer(program, seed, devices);
  for (int i = 0; i < 400; ++i) {
    doer.step();
    for (size_t stream = 0; stream < 2 * devices; ++stream) program.synchronize(stream);
  }
  return program.finish();
}

/// Which page goes when depends a little on which copy has ended by then: another run of the same program moves a page more or less, too.
/// What moves in all is the same.
void expect_alike(uint32_t devices) {
  uint64_t recorded[4] = {}, replays[4] = {};
  const char *const moved[4] = {"promoted_bytes", "demoted_bytes", "zero_filled_bytes",
                                "peer_bytes"};
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Json report = replayed(random_program(seed, devices));
    const Json &pool = report["pools"][0];
    expect_equal(pool, {"buffers", "device_budget", "host_budget"});
    assert_int_equal(then(pool, "hits") + then(pool, "misses"),
                     now(pool, "hits") + now(pool, "misses"));
    for (size_t i = 0; i < 4; ++i) {
      recorded[i] += then(pool, moved[i]);
      replays[i] += now(pool, moved[i]);
    }
  }
  for (size_t i = 0; i < 4; ++i) {
    if (i < 3 || devices > 1) assert_true(recorded[i] > 0);
    const uint64_t apart =
        recorded[i] > replays[i] ? recorded[i] - replays[i] : replays[i] - recorded[i];
    if (apart > recorded[i] / 20)
      fail_msg("%s: recorded %llu, replayed %llu", moved[i],
               static_cast<unsigned long long>(recorded[i]),
               static_cast<unsigned long long>(replays[i]));
  }
}

void random_programs_are_replayed(void **) { expect_alike(1); }
void so_are_those_of_two_devices(void **) { expect_alike(2); }

/// Rounds over twice what the device holds, on two streams: each byte that moves is known.
void counters_are_those_of_the_program(void **) {
  Recording program(WEIR_POOL_NO_BACKGROUND, 16 * Recording::page);
  const size_t streams[] = {program.stream(0), program.stream(0)};
  std::vector<size_t> buffers;
  for (int i = 0; i < 16; ++i) buffers.push_back(program.buffer(2 * Recording::page));
  for (int round = 0; round < 4; ++round)
    for (size_t i = 0; i < buffers.size(); ++i) {
      const uint32_t mode = i % 3 == 0 ? WEIR_READ : WEIR_READ_WRITE;
      const size_t lease = program.acquire(streams[i % 2], {{buffers[i], mode}}, "round");
      program.release(lease);
      program.synchronize(streams[i % 2]);
    }
  const Json report = replayed(program.finish());
  const Json &pool = report["pools"][0];
  expect_equal(pool, {"promoted_bytes", "demoted_bytes", "dropped_clean_bytes", "discarded_bytes",
                      "zero_filled_bytes", "hits", "misses", "evictions", "buffers", "pages"});
  assert_true(now(pool, "promoted_bytes") > 0 && now(pool, "demoted_bytes") > 0);
}

/// A trace that is taken for version 1: buffers and allocations are blocks, acquires operations.
void a_program_is_a_trace_of_operations(void **) {
  const std::string trace = random_program(3, 1);
  const TemporaryFile file(trace);
  const Plan plan = read_plan(file.path(), {});
  TraceFile again(file.path());
  const recorded::Program program = recorded::read_program(again, {});
  assert_int_equal(plan.operations.size(), program.leases.size());
  assert_int_equal(plan.block_bytes.size(), program.buffers.size() + program.allocations.size());
  assert_int_equal(plan.uses, program.acquired_uses);
  assert_int_equal(plan.peak_live_bytes, program.peak_live_bytes);
  assert_true(!plan.notes.empty());
  assert_true(contains(plan.notes.back(), "no operations"));
}

constexpr const char *small =
    "#vmt 2\npool 0 0 flags=1 host_budget=16777216 page_size=65536 large_page_size=65536 "
    "policy=lru-window\npool_device 0 0 1048576\nstream 0 0 0\nb 0 0 131072\nb 1 0 131072\n";

std::string error_in(const std::string &lines, const ReplayFlags *flags = nullptr) {
  const TemporaryFile file(small + lines);
  return error_of([&] {
    ReplayFlags usual = flags_for(file.path());
    if (flags != nullptr) usual = *flags;
    (void)replay(file.path(), usual);
  });
}

void what_can_not_be_is_refused_with_its_line(void **) {
  const struct {
    const char *lines;
    const char *reason;
  } cases[] = {
      {"l 0 0 0 - 1\nu 2 r\n", "line 8: there is no such buffer: 2"},
      {"f 0\nf 0\n", "line 8: there is no such buffer: 0"},
      {"b 0 0 5\n", "line 7: this buffer is there already"},
      {"b 2 1 5\n", "line 7: there is no such pool"},
      {"b 2 0 0\n", "line 7: an allocation of 0 bytes"},
      {"b 2 0 99999999999999999\n", "live at once"},
      {"b 2 0 5 client=0\n", "line 7: there is no such client"},
      {"b 2 0 5 priority=3\n", "line 7: a priority is from -2 to 2"},
      {"b 2 0 5 shard_policy=1 shard_devices=0 shard_weights=1,2\n", "a weight for each"},
      {"l 0 0 1 - 1\nu 0 r\n", "line 8: there is no such stream"},
      {"l 0 0 0 - 0\n", "line 7: an acquire of nothing"},
      {"l 0 0 0 5 1\nu 0 r\n", "line 8: there is no such operation"},
      {"l 0 0 0 - 1\nu 0 r 131072 1\n", "line 8: a range outside its buffer of 131072 bytes"},
      {"l 0 0 0 - 1\nu 0 r 1 131072\n", "a range outside"},
      {"l 0 0 0 - 1\nu 0 r 0 0\n", "a range outside"},
      {"l 0 0 0 - 1\nu 0 r 1 18446744073709551614\n", "a range outside"},
      {"read 1 131072 -\n", "a range outside"},
      {"l 0 0 0 - 1\nu 0 r\nl 0 0 0 - 1\nu 1 r\n", "line 10: this lease is held already"},
      {"r 0 0\n", "line 7: release of a lease that is not held"},
      {"l 0 0 0 - 1\nu 0 r\nr 0 0\nr 0 0\n", "line 10: release of a lease that is not held"},
      {"k 0 5\n", "line 7: there was no such lease"},
      {"l 0 0 0 - 1\nu 0 r\nend_stream 0\n", "line 9: the stream has leases"},
      {"l 0 0 0 - 1\nu 0 r\nend_pool 0\n", "line 9: the pool has leases"},
      {"m 0 0 0 0 5\nend_pool 0\n", "line 8: the pool has allocations"},
      {"m 0 0 0 0 5\nm 0 0 0 0 5\n", "line 8: this allocation is there already"},
      {"x 0 0\n", "line 7: there is no such allocation"},
      {"end_pool 0\nf 0\n", "line 8: there is no such buffer"},
      {"end_pool 0\nb 5 0 5\n", "line 8: there is no such pool"},
      {"pool 0 0\n", "line 7: this pool is there already"},
      {"pool 1 0\nb 5 1 5\n", "line 8: the pool has no device"},
      {"pool 1 0\n", "has no device"},
      {"stream 0 0 0\n", "line 7: this stream is there already"},
      {"stream 1 7 0\nl 0 0 1 - 1\nu 0 r\n", "another context"},
      {"t 5\nt 4\n", "line 8: the clock goes backwards"},
  };
  for (const auto &one : cases) {
    const std::string error = error_in(one.lines);
    if (!contains(error, one.reason))
      fail_msg("'%s' was answered with '%s'", one.lines, error.c_str());
  }
}

/// What the trace says is possible, and here it is not.
void a_refused_call_is_told_with_its_line(void **) {
  assert_true(contains(error_in("b 2 0 2097152\nl 0 0 0 =big 1\nu 2 r\nend\n"),
                       "line 9 of the trace: cannot acquire the 1 uses of operation 'big': over "
                       "budget"));
  assert_true(contains(error_in("hold 0 0 x flags=1\nread 0\nend\n"), "line 8 of the trace"));
  assert_true(contains(error_in("b 2 0 5 flags=64\nend\n"), "line 7 of the trace"));
}

void numbers_are_used_again(void **) {
  const Json report =
      replayed(std::string(small) +
               "l 0 0 0 - 1\nu 0 w\nr 0 0\nk 0 5\nl 0 0 0 - 1\nu 0 r\nr 0 0\nf 0\n"
               "b 0 0 5\nwrite 0\nread 0\nm 7 0 0 - 5\nx 7 0\nm 7 0 0 0 5\nx 7 -\n"
               "end_pool 0\npool 0 0 flags=1 host_budget=16777216 page_size=65536\n"
               "pool_device 0 0 1048576\nb 0 0 7\nl 0 0 0 - 1\nu 0 x\nr 0 0\nend\n");
  assert_int_equal(report["pools"].size(), 2);
  assert_int_equal(report["acquires"].get<int>(), 3);
  assert_true(report["notes"].empty());
}

void what_is_missing_ends_the_program(void **) {
  const Json report =
      replayed(std::string(small) +
               "l 0 0 0 - 1\nu 0 w\nrefused -5 0 0 - 1\nu 99 r\nlost 12\nr 0 0\nf 77\n");
  assert_int_equal(report["acquires"].get<int>(), 1);
  assert_int_equal(report["notes"].size(), 2);
  assert_true(contains(report["notes"][0], "12 events are missing after line 10"));
  assert_true(contains(report["notes"][1], "1 acquires that had been refused (over budget)"));
}

void options_change_the_pool(void **) {
  const std::string trace =
      std::string(small) + "l 0 0 0 - 1\nu 0 w\nr 0 0\nl 0 0 0 - 1\nu 1 w\nr 0 0\nend\n";
  const TemporaryFile file(trace);
  ReplayFlags flags = flags_for(file.path());
  flags.device_memory = "50%";
  flags.host_memory = "8M";
  const Json half = Json::parse(replay(file.path(), flags).json);
  assert_int_equal(half["pools"][0]["stats"]["device_budget"].get<int>(), 524288);
  assert_int_equal(half["pools"][0]["stats"]["host_budget"].get<int>(), 8 << 20);
  flags.device_memory = "192K";
  const Json tight = Json::parse(replay(file.path(), flags).json);
  assert_true(tight["pools"][0]["stats"]["evictions"].get<int>() > 0);
  flags.limit = 1;
  assert_int_equal(Json::parse(replay(file.path(), flags).json)["acquires"].get<int>(), 1);
}

void options_that_mean_nothing_are_named(void **) {
  const std::vector<std::pair<const char *, std::function<void(ReplayFlags &)>>> cases = {
      {"--scale", [](ReplayFlags &flags) { flags.scale = 2; }},
      {"--steps", [](ReplayFlags &flags) { flags.steps = true; }},
      {"--touch", [](ReplayFlags &flags) { flags.touch = true; }},
      {"--yardstick", [](ReplayFlags &flags) { flags.yardstick = true; }},
      {"--announce", [](ReplayFlags &flags) { flags.announce = 0; }},
      {"--neighbour", [](ReplayFlags &flags) { flags.neighbour = "50%"; }},
      {"--policy-load", [](ReplayFlags &flags) { flags.policy_load = "x"; }},
      {"--policy-save", [](ReplayFlags &flags) { flags.policy_save = "x"; }},
      {"--pace", [](ReplayFlags &flags) { flags.pace = "a100"; }},
  };
  const TemporaryFile file(std::string(small) + "end\n");
  for (const auto &[name, set] : cases) {
    ReplayFlags flags = flags_for(file.path());
    set(flags);
    const std::string error = error_of([&] { (void)replay(file.path(), flags); });
    if (!contains(error, name) || !contains(error, "--as-operations"))
      fail_msg("%s was answered with '%s'", name, error.c_str());
  }
  const TemporaryFile stored("#vmt 2\npool 0 0 storage_budget=1048576\npool_device 0 0 1048576\n");
  assert_true(contains(error_of([&] { (void)replay(stored.path(), flags_for(stored.path())); }),
                       "--storage DIR"));
  const TemporaryFile none("#vmt 2\nend\n");
  assert_true(contains(error_of([&] { (void)replay(none.path(), flags_for(none.path())); }),
                       "no pool to replay"));
}

/// With a pace the stream is held from the acquire on for as long as the trace says.
void a_pace_is_as_it_was(void **) {
  const std::string trace = std::string(small) +
                            "l 0 0 0 - 1\nu 0 w\nl 1 0 0 - 1\nu 1 w\nr 1 0\nr 0 0\nk 0 30000000\n"
                            "k 1 30000000\nl 0 0 0 - 1\nu 0 r\nr 0 0\nk 0 20000000\nend\n";
  const TemporaryFile file(trace);
  ReplayFlags flags = flags_for(file.path());
  flags.pace = "recorded";
  const Json report = Json::parse(replay(file.path(), flags).json);
  assert_true(report["seconds"].get<double>() >= 0.050);
  assert_int_equal(report["verify_errors"].get<int>(), 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(counters_are_those_of_the_program),
      cmocka_unit_test(random_programs_are_replayed),
      cmocka_unit_test(so_are_those_of_two_devices),
      cmocka_unit_test(a_program_is_a_trace_of_operations),
      cmocka_unit_test(what_can_not_be_is_refused_with_its_line),
      cmocka_unit_test(a_refused_call_is_told_with_its_line),
      cmocka_unit_test(numbers_are_used_again),
      cmocka_unit_test(what_is_missing_ends_the_program),
      cmocka_unit_test(options_change_the_pool),
      cmocka_unit_test(options_that_mean_nothing_are_named),
      cmocka_unit_test(a_pace_is_as_it_was),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

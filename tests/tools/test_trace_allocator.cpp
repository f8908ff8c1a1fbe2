// SPDX-License-Identifier: Apache-2.0
//
// Replays of allocations alone: small traces whose results are known by hand, the rules of each placement's pieces on the
// recorded examples, a capacity that is just enough and one that is not, and the goals on recorded traces beside the
// checkout where there are any.
#include "tests/tools/trace_files.hpp"

#include "tools/weir/allocator_replay.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <map>

namespace {

using namespace weir::tool;
using weir::test::contains;
using weir::test::error_of;
using weir::test::TemporaryFile;

constexpr uint64_t mi = uint64_t{1} << 20;

AllocatorTrace trace_of(const std::string &body) {
  const TemporaryFile file("#vmt 1\n#name by_hand\n" + body);
  return read_allocator_trace(file.path());
}

PlacementResult run(const AllocatorTrace &trace, PlacementKind kind,
                    PlacementOptions options = {}) {
  PlacementResult result = replay_allocations(trace, kind, options);
  find_min_capacity(trace, options, &result);
  return result;
}

void reads_allocations_only(void **) {
  const AllocatorTrace trace = trace_of(
      "a 0 100 param\na 1 50 tmp\no 0 5 op\nu 0 r\nf 1\ne\np iter\na 2 70 act\nf 0\nf 2\n");
  assert_string_equal(trace.name.c_str(), "by_hand");
  assert_int_equal(trace.events.size(), 6);
  assert_int_equal(trace.peak_live_bytes, 170);
  assert_int_equal(trace.allocated_bytes, 220);
  assert_true(is_free(trace.events[2]) && block_of(trace.events[2]) == 1);
}

void refuses_what_breaks_a_rule(void **) {
  const struct {
    const char *body;
    const char *named;
  } cases[] = {
      {"a 1 8 x\n", "line 3: blocks are not numbered in order: 'a 1 8 x'"},
      {"a 0 0 x\n", "line 3: an allocation of 0 bytes: 'a 0 0 x'"},
      {"a 0 8 x\nf 0\nf 0\n", "line 5: a free of a block not live: 'f 0'"},
      {"f 7\n", "line 3: a free of a block not live"},
      {"o 0 1 n\n", "has no allocations to replay"},
      {"a 0 17592186044417 x\n", "line 3: more than 2^44 bytes (16 TiB) live at once"},
      {"a 0 8999999999999999990 x\n", "line 3: more than 2^44 bytes"},
      {"a 0 17592186044416 x\na 1 1 x\n", "line 4: more than 2^44 bytes"},
  };
  for (const auto &broken : cases) {
    const std::string error = error_of([&] { trace_of(broken.body); });
    if (!contains(error, broken.named))
      fail_msg("'%s' was answered with '%s'", broken.body, error.c_str());
  }
}

/// A few lines are no day's work: what a trace comes to in granules is bounded by its length, and told at once.
void refuses_more_granules_than_it_follows(void **) {
  const auto error_with = [](const std::string &body, const std::string &granule) {
    const TemporaryFile file("#vmt 1\n#name by_hand\n" + body);
    return error_of([&] {
      (void)run_allocator_replay(check_allocator_flags({}, file.path(), granule, false, ""));
    });
  };
  // At once: 2^44 bytes are 2^28 granules of 64 KiB.
  assert_true(contains(error_with("a 0 17592186044416 x\n", "64K"),
                       "268435456 granules of 65536 bytes at once"));
  // One after the other.
  std::string again;
  for (int i = 0; i < 100; ++i)
    again += "a " + std::to_string(i) + " 1099511627776 x\nf " + std::to_string(i) + "\n";
  assert_true(contains(error_with(again, "2M"), "52428800 granules of 2097152 bytes, more than"));
  // Within bounds nothing has changed.
  assert_string_equal(error_with("a 0 1099511627776 x\nf 0\n", "1G").c_str(), "");
}

/// Four blocks of 2.5 MiB: 10 MiB, which are five granules where they share, eight where each is rounded.
void shares_granules(void **) {
  const AllocatorTrace trace =
      trace_of("a 0 2621440 x\na 1 2621440 x\na 2 2621440 x\na 3 2621440 x\n");
  for (const PlacementKind kind : {PlacementKind::multi_map, PlacementKind::vmm}) {
    const PlacementResult result = run(trace, kind);
    assert_true(result.survived);
    assert_int_equal(result.counters.peak_reserved_bytes, 10 * mi);
    assert_int_equal(result.min_capacity_bytes, 10 * mi);
    assert_int_equal(result.counters.moved_bytes, 0);
    assert_int_equal(result.counters.opened, 5);
  }
  // One granule a block is what PyTorch's large pool does not do: all four lie in one segment of 20 MiB.
  const PlacementResult pytorch = run(trace, PlacementKind::pytorch);
  assert_int_equal(pytorch.counters.peak_reserved_bytes, 20 * mi);
  assert_int_equal(pytorch.min_capacity_bytes, 20 * mi);
}

/// The published rules: 2 MiB for small ones, 20 MiB below 10, else rounded to 2; what is cached goes only when it must.
void pytorch_by_its_rules(void **) {
  const AllocatorTrace trace = trace_of(
      "a 0 1000 x\na 1 1048576 x\na 2 11000000 x\na 3 1048577 x\na 4 10485760 x\na 5 5242880 x\n");
  const PlacementResult result = run(trace, PlacementKind::pytorch);
  // 0 and 1 in a segment of 2 MiB, 2 in one of 12 with 3 behind it, 4 in its own of 10, 5 in one of 20.
  assert_int_equal(result.counters.peak_reserved_bytes, (2 + 12 + 10 + 20) * mi);
  assert_int_equal(result.counters.opened, 4);
  const AllocatorTrace again = trace_of("a 0 31457280 x\nf 0\na 1 41943040 x\n");
  assert_int_equal(run(again, PlacementKind::pytorch).counters.peak_reserved_bytes, 70 * mi);
  assert_int_equal(run(again, PlacementKind::pytorch).min_capacity_bytes, 40 * mi);
}

/// Small blocks that keep two granules half empty are moved together when a third would have to be opened.
void moves_small_blocks_before_it_grows(void **) {
  std::string body;
  for (int i = 0; i < 64; ++i) body += "a " + std::to_string(i) + " 65536 x\n";  // two granules
  for (int i = 0; i < 64; ++i)
    if (i % 32 >= 8) body += "f " + std::to_string(i) + "\n";  // a quarter of either stays
  body += "a 64 2097152 x\n";
  const AllocatorTrace trace = trace_of(body);
  PlacementOptions options;
  options.move_share = 1;
  options.record_moves = true;
  PlacementResult result = run(trace, PlacementKind::multi_map, options);
  assert_int_equal(result.counters.peak_reserved_bytes, 4 * mi);
  assert_int_equal(result.counters.moved_bytes, 8 * 65536);
  options.move_share = 0;
  result = run(trace, PlacementKind::multi_map, options);
  assert_int_equal(result.counters.peak_reserved_bytes, 6 * mi);
  assert_int_equal(result.counters.moved_bytes, 0);
}

// ---- what must hold for every placement, on recorded traces ----

/// Every live block's pieces lie in what is reserved, hold its bytes and overlap nobody's.
void check_pieces(const Placement &placement, const std::map<uint32_t, uint64_t> &live) {
  std::map<uint64_t, uint64_t> reserved;
  uint64_t total = 0;
  for (const Container &container : placement.containers()) {
    assert_true(reserved.emplace(container.id, container.bytes).second);
    total += container.bytes;
  }
  assert_int_equal(total, placement.counters().reserved_bytes);
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> taken;
  for (const auto &[block, bytes] : live) {
    uint64_t held = 0;
    for (const Piece &piece : placement.pieces(block)) {
      assert_true(piece.bytes > 0 && piece.offset + piece.bytes <= reserved.at(piece.container));
      assert_true(taken.emplace(std::pair(piece.container, piece.offset), piece.bytes).second);
      held += piece.bytes;
    }
    assert_true(held >= bytes);
  }
  const std::pair<const std::pair<uint64_t, uint64_t>, uint64_t> *last = nullptr;
  for (const auto &piece : taken) {
    if (last != nullptr && last->first.first == piece.first.first)
      assert_true(last->first.second + last->second <= piece.first.second);
    last = &piece;
  }
}

std::string example(const std::string &name) {
  const char *source = std::getenv("WEIR_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/examples/traces/" + name;
}

void pieces_hold_what_lives(void **) {
  const AllocatorTrace trace = read_allocator_trace(example("graphsage_train.vmt.zst"));
  for (const PlacementKind kind : all_placements) {
    PlacementOptions options;
    options.record_moves = true;
    const auto placement = make_placement(kind, options);
    std::map<uint32_t, uint64_t> live;
    uint64_t done = 0, moved = 0;
    for (const uint32_t event : trace.events) {
      const uint32_t block = block_of(event);
      if (is_free(event)) {
        placement->free(block);
        live.erase(block);
      } else {
        assert_true(placement->allocate(block, trace.block_bytes[block]));
        live[block] = trace.block_bytes[block];
      }
      for (const Move &move : placement->take_moves()) {
        assert_true(live.contains(move.block));
        assert_int_equal(move.from.bytes, move.to.bytes);
        moved += move.from.bytes;
      }
      if (++done % 97 == 0) check_pieces(*placement, live);
    }
    check_pieces(*placement, live);
    assert_int_equal(moved, placement->counters().moved_bytes);
  }
}

void capacity_is_kept_and_just_enough(void **) {
  const AllocatorTrace trace = read_allocator_trace(example("graphsage_train.vmt.zst"));
  for (const PlacementKind kind : all_placements) {
    PlacementOptions options;
    const PlacementResult found = run(trace, kind);
    options.capacity = found.min_capacity_bytes;
    const PlacementResult kept = replay_allocations(trace, kind, options);
    assert_true(kept.survived);
    assert_true(kept.counters.peak_reserved_bytes <= options.capacity);
    options.capacity -= options.granule;
    const PlacementResult refused = replay_allocations(trace, kind, options);
    assert_false(refused.survived);
    assert_true(refused.refused_bytes > 0);
    assert_true(refused.counters.peak_reserved_bytes <= options.capacity);
  }
}

/// The table of docs/fragmentation.md.
void expect_goals(const std::string &name, const AllocatorTrace &trace) {
  const std::pair<PlacementKind, double> goals[] = {{PlacementKind::multi_map, 1.01},
                                                    {PlacementKind::vmm, 1.03},
                                                    {PlacementKind::segments, 1.05}};
  for (const auto &[kind, share] : goals) {
    const PlacementResult result = run(trace, kind);
    const auto most =
        static_cast<uint64_t>(share * static_cast<double>(trace.peak_live_bytes)) + 4 * mi;
    if (result.counters.peak_reserved_bytes > most || result.min_capacity_bytes > most)
      fail_msg("%s: of %zu live, %zu reserved, %zu needed", name.c_str(),
               size_t{trace.peak_live_bytes}, size_t{result.counters.peak_reserved_bytes},
               size_t{result.min_capacity_bytes});
    assert_true(result.counters.moved_bytes * 100 <= trace.allocated_bytes);
    assert_true(result.min_capacity_moved_bytes * 100 <= trace.allocated_bytes);
  }
}

void reaches_its_goals_on_the_examples(void **) {
  for (const char *name : {"graphsage_train.vmt.zst", "gpt2s_train_varlen.vmt.zst"})
    expect_goals(name, read_allocator_trace(example(name)));
}

void reaches_its_goals_on_recorded_traces(void **) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  std::ifstream lines(std::string(shared != nullptr ? shared : "") + "/traces/stats.jsonl");
  if (shared == nullptr || !lines) {
    print_message("skipped: WEIR_SHARED_DIR names no recorded traces\n");
    skip();
  }
  uint64_t checked = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto expected = nlohmann::json::parse(line, nullptr, false);
    if (expected.is_discarded() || expected["lines"].get<uint64_t>() > 60'000) continue;
    const std::string file = expected["file"].get<std::string>();
    const AllocatorTrace trace = read_allocator_trace(std::string(shared) + "/traces/" + file);
    assert_int_equal(trace.peak_live_bytes, expected["peak_live"].get<uint64_t>());
    expect_goals(file, trace);
    // The model of PyTorch's is the one the recorded figures were made with.
    const PlacementResult pytorch = run(trace, PlacementKind::pytorch);
    assert_int_equal(pytorch.counters.peak_reserved_bytes,
                     expected["caching"]["peak_reserved"].get<uint64_t>());
    assert_int_equal(pytorch.min_capacity_bytes,
                     expected["caching"]["min_capacity"].get<uint64_t>());
    ++checked;
  }
  assert_true(checked > 0);
}

// ---- flags and reports ----

void checks_its_flags(void **) {
  const auto check = [](AllocatorFlags flags, const std::string &granule = "") {
    return check_allocator_flags(flags, "t.vmt", granule, false, "");
  };
  assert_int_equal(check({}).placements.size(), 4);
  assert_int_equal(check({true, {"vmm", "vmm"}, ""}).placements.size(), 1);
  assert_true(check({true, {}, "90%"}).capacity->of(1000) == 900);
  assert_int_equal(check({}, "64K").granule, 65536);
  assert_true(contains(error_of([&] {
                         check({true, {"best"}, ""});
                       }),
                       "--placement: 'best' is not"));
  assert_true(contains(error_of([&] { check({true, {}, "0"}); }), "--capacity: '0'"));
  assert_true(contains(error_of([&] { check({true, {}, "x"}); }), "'x'"));
  assert_true(contains(error_of([&] { check({}, "3M"); }), "--granule: '3M'"));
}

void reports_in_bounds(void **) {
  std::string body;
  for (int i = 0; i < 2000; ++i)
    body += "a " + std::to_string(i) + " 5000 x\nf " + std::to_string(i) + "\n";
  const AllocatorTrace trace = trace_of(body);
  AllocatorOptions options;
  AllocatorReport report;
  report.options = &options;
  report.trace = &trace;
  report.results.push_back(run(trace, PlacementKind::multi_map));
  const auto json = nlohmann::json::parse(allocator_report_json(report));
  assert_int_equal(json["peak_live_bytes"].get<uint64_t>(), 5000);
  assert_true(json["capacity"].is_null());
  const auto &placement = json["placements"]["multi-map"];
  assert_int_equal(placement["peak_reserved_bytes"].get<uint64_t>(), 2 * mi);
  assert_true(placement["fragmentation"].size() <= 401 && placement["fragmentation"].size() > 100);
  assert_int_equal(placement["fragmentation"].back()["operation"].get<uint64_t>(), 4000);
  assert_true(contains(allocator_report_text(report), "multi-map"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(reads_allocations_only),
      cmocka_unit_test(refuses_what_breaks_a_rule),
      cmocka_unit_test(refuses_more_granules_than_it_follows),
      cmocka_unit_test(shares_granules),
      cmocka_unit_test(pytorch_by_its_rules),
      cmocka_unit_test(moves_small_blocks_before_it_grows),
      cmocka_unit_test(pieces_hold_what_lives),
      cmocka_unit_test(capacity_is_kept_and_just_enough),
      cmocka_unit_test(reaches_its_goals_on_the_examples),
      cmocka_unit_test(reaches_its_goals_on_recorded_traces),
      cmocka_unit_test(checks_its_flags),
      cmocka_unit_test(reports_in_bounds),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

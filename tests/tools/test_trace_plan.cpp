// SPDX-License-Identifier: Apache-2.0
//
// The pre-pass: what lines mean together is checked, groups are expanded, sizes are scaled, and the numbers of the
// recorded traces come out as their published statistics say. Then the footprint that budgets are derived from.
#include "tests/tools/trace_files.hpp"

#include "tools/weir/footprint.hpp"
#include "tools/weir/plan.hpp"

#include <nlohmann/json.hpp>

#include <fstream>

namespace {

using namespace weir::tool;
using weir::test::contains;
using weir::test::error_of;
using weir::test::TemporaryFile;

Plan plan_of(const std::string &body, const PlanOptions &options = {}) {
  const TemporaryFile file("#vmt 1\n#name t\n" + body);
  return read_plan(file.path(), options);
}

void packs_operations_in_order(void **) {
  const Plan plan = plan_of(
      "a 0 100 param\no 0 7 first\na 1 50 act\nu 0 r\nu 1 w\ne\nf 0\na 2 10 x\n"
      "o 1 8 second\nu 1 x 10 20 5\nf 1\no 2 9 first\nu 2 r\n");
  assert_string_equal(plan.name.c_str(), "t");
  assert_int_equal(plan.operations.size(), 3);
  assert_int_equal(plan.names.size(), 2);
  assert_int_equal(plan.uses, 4);
  assert_int_equal(plan.peak_live_bytes, 150);
  assert_int_equal(plan.largest_set_bytes, 150);
  const PlanOperation &second = plan.operations[1];
  assert_int_equal(second.body - second.prelude, 2);
  assert_int_equal(plan_kind(plan.events[second.prelude]), plan_free);
  assert_int_equal(plan_block(plan.events[second.prelude + 1]), 2);
  assert_int_equal(plan_kind(plan.events[second.body]), plan_update_span);
  assert_int_equal(plan.spans[second.spans].offset, 10);
  assert_int_equal(plan.spans[second.spans].length, 20);
  assert_int_equal(second.touched, 5);
  assert_int_equal(plan.operations[0].touched, 150);
  assert_int_equal(plan.operations[2].prelude, second.end);
}

void expands_groups_as_they_stand(void **) {
  const Plan plan = plan_of(
      "a 0 8 x\na 1 8 x\ng 5 0\no 0 0 n\nu @5 r\ne\ng 5 1\no 1 0 n\nu @5 w\ne\nd 5\nf 0\nf 1\n");
  assert_int_equal(plan.uses, 3);
  assert_int_equal(plan.use_lines, 2);
  assert_int_equal(plan.operations[0].end - plan.operations[0].body, 1);
  assert_int_equal(plan.operations[1].end - plan.operations[1].body, 2);
}

void scales_sizes_and_spans(void **) {
  PlanOptions options;
  options.scale = 10;
  const Plan plan =
      plan_of("a 0 95 x\na 1 3 x\no 0 0 n\nu 0 r 11 18\nu 0 w 91 4\nu 1 w\n", options);
  assert_int_equal(plan.block_bytes[0], 10);
  assert_int_equal(plan.block_bytes[1], 1);
  assert_int_equal(plan.peak_live_bytes, 11);
  assert_int_equal(plan.spans[0].offset, 1);  // bytes 11..28 lie in scaled bytes 1 and 2
  assert_int_equal(plan.spans[0].length, 2);
  assert_int_equal(plan.spans[1].offset, 9);
  assert_int_equal(plan.spans[1].length, 1);
}

void stops_at_the_limit(void **) {
  PlanOptions options;
  options.limit = 1;
  const Plan plan = plan_of("a 0 8 x\no 0 0 n\nu 0 w\ne\na 1 99 x\no 1 0 n\nu 1 w\n", options);
  assert_int_equal(plan.operations.size(), 1);
  assert_int_equal(plan.uses, 1);
}

/// An operation that frees its scratch and goes on is several; one that frees at its end is one.
void cuts_operations_into_steps(void **) {
  const std::string body =
      "a 0 8 x\no 0 9 n\na 1 50 w\nu 1 x\nf 1\na 2 40 w\nu 2 x\nf 2\nu 0 w 2 4\ne\n"
      "o 1 3 m\na 3 7 w\nu 0 r\nf 3\nf 0\n";
  assert_int_equal(plan_of(body).operations.size(), 2);
  assert_int_equal(plan_of(body).peak_live_bytes, 58);
  PlanOptions options;
  options.steps = true;
  const Plan plan = plan_of(body, options);
  assert_int_equal(plan.operations.size(), 4);
  assert_int_equal(plan.largest_set_bytes, 50);
  const uint64_t ends[] = {4, 7, 8, 12}, flops[] = {9, 0, 0, 3};
  for (size_t i = 0; i < 4; ++i) {
    assert_int_equal(plan.operations[i].end, ends[i]);
    assert_int_equal(plan.operations[i].flops, flops[i]);
    assert_int_equal(plan.operations[i].body, i == 0 ? 1 : ends[i - 1]);
    assert_int_equal(plan.operations[i].name, i == 3 ? 1 : 0);
  }
  assert_int_equal(plan.spans[plan.operations[2].spans].offset, 2);
  options.limit = 1;  // of the trace's operations
  assert_int_equal(plan_of(body, options).operations.size(), 3);
}

void leaves_stray_uses_out(void **) {
  const Plan plan = plan_of("a 0 8 x\nu 0 r\no 0 0 n\nu 0 w\ne\nu 0 r\no 1 0 n\n");
  assert_int_equal(plan.stray_uses, 2);
  assert_int_equal(plan.uses, 1);
}

void refuses_what_breaks_a_rule(void **) {
  struct {
    const char *body;
    const char *line;
  } const cases[] = {
      {"a 1 8 x\n", "line 3"},                       // ids in order
      {"a 0 8 x\na 0 8 x\n", "line 4"},              // never reused
      {"a 0 0 x\n", "line 3"},                       // no bytes
      {"f 0\n", "line 3"},                           // never born
      {"a 0 8 x\nf 0\nf 0\n", "line 5"},             // dead
      {"a 0 8 x\ng 1 0\nf 0\n", "line 5"},           // in a group
      {"o 0 0 n\nu 0 r\n", "line 4"},                // use of nothing
      {"a 0 8 x\nf 0\no 0 0 n\nu 0 r\n", "line 6"},  // use of the dead
      {"a 0 8 x\no 0 0 n\nu 0 r 0 9\n", "line 5"},   // past the end
      {"a 0 8 x\no 0 0 n\nu 0 r 9 0\n", "line 5"},   // empty span
      {"a 0 8 x\no 0 0 n\nu 0 r 8 1\n", "line 5"},
      {"a 0 8 x\no 0 0 n\nu 0 r 8999999999999999990 8\n", "line 5"},  // no overflow
      {"a 0 8 x\no 0 0 n\nu 0 r 0 4 5\n", "line 5"},                  // more touched than spanned
      {"o 1 0 n\n", "line 3"},                                        // indices from 0
      {"o 0 0 n\no 2 0 n\n", "line 4"},
      {"e\n", "line 3"},  // nothing to end
      {"o 0 0 n\ne\ne\n", "line 5"},
      {"t 5\nt 4\n", "line 4"},  // the clock goes backwards
      {"g 1 0\n", "line 3"},     // member not live
      {"d 1\n", "line 3"},       // unknown group
      {"o 0 0 n\nu @1 r\n", "line 4"},
      {"a 0 8 x\ng 1 0\nd 1\no 0 0 n\nu @1 r\n", "line 7"},  // dissolved
      {"a 0 17592186044417 x\n", "line 3"},                  // more than any machine has
      {"a 0 17592186044416 x\na 1 1 x\n", "line 4"},         // ... together
      {"o 0 10000000000000001 n\n", "line 3"},               // hours of computing
  };
  for (const auto &broken : cases) {
    const std::string error = error_of([&] { plan_of(broken.body); });
    if (!contains(error, std::string(broken.line) + ":"))
      fail_msg("'%s' was answered with '%s'", broken.body, error.c_str());
  }
}

/// Lines that name groups stand for more uses than lines: these are counted before they are written out.
void bounds_the_uses_of_groups(void **) {
  const char *body =
      "a 0 8 x\na 1 8 x\na 2 8 x\ng 1 0\ng 1 1\ng 1 2\no 0 0 n\nu @1 r\nu @1 r\nu 0 r\n";
  PlanOptions options;
  options.most_uses = 7;
  assert_int_equal(plan_of(body, options).uses, 7);
  options.most_uses = 6;
  assert_true(contains(error_of([&] { plan_of(body, options); }), "line 12: more than 6 uses"));
  options.most_uses = 5;
  assert_true(contains(error_of([&] { plan_of(body, options); }), "line 11: more than 5 uses"));
}

void agrees_with_published_statistics(void **) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  std::ifstream lines(std::string(shared != nullptr ? shared : "") + "/traces/stats.jsonl");
  if (shared == nullptr || !lines) {
    print_message("skipped: WEIR_SHARED_DIR names no recorded traces\n");
    skip();
  }
  uint64_t checked = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto expected = nlohmann::json::parse(line, nullptr, false);
    if (expected.is_discarded() || expected["lines"].get<uint64_t>() > 600'000) continue;
    const std::string path = std::string(shared) + "/traces/" + expected["file"].get<std::string>();
    const Plan plan = read_plan(path, {});
    assert_int_equal(plan.lines, expected["lines"].get<uint64_t>());
    assert_int_equal(plan.operations.size(), expected["ops"].get<uint64_t>());
    assert_int_equal(plan.block_bytes.size(), expected["allocs"].get<uint64_t>());
    assert_int_equal(plan.use_lines + plan.stray_uses, expected["use_lines"].get<uint64_t>());
    assert_int_equal(plan.peak_live_bytes, expected["peak_live"].get<uint64_t>());
    assert_int_equal(plan.largest_set_bytes, expected["max_op_set"].get<uint64_t>());
    ++checked;
  }
  assert_true(checked > 0);
}

void measures_the_footprint_in_pages(void **) {
  constexpr uint64_t page = 1000;
  const Plan plan = plan_of(
      "a 0 1500 x\na 1 2000 x\no 0 0 n\nu 0 r 0 10\nu 0 w 400 500\nu 1 w 999 2\ne\nf 1\na 2 2500 "
      "x\no 1 0 n\nu 2 w\n");
  FootprintOptions options;
  options.page = page;
  const Footprint footprint = measure_footprint(plan, options);
  assert_int_equal(footprint.live, 2000 + 3000);
  // Operation 0 touches one page of block 0 (twice) and both of block 1; operation 1 all three of block 2.
  assert_int_equal(footprint.largest_set, 3 * page);
  // Block 1's memory may still be in use when block 2 is made.
  assert_true(footprint.all_resident >= 2000 + 2000 + 3000);
  options.whole_blocks = true;
  assert_int_equal(measure_footprint(plan, options).largest_set, 4 * page);
}

/// The host runs ahead of the stream: memory freed in the last operations is still charged.
void counts_what_is_freed_but_in_use(void **) {
  std::string body;
  for (int i = 0; i < 40; ++i) {
    const std::string id = std::to_string(i);
    body += "a " + id + " 10000 x\no " + id + " 0 n\nu " + id + " w\ne\nf " + id + "\n";
  }
  const Plan plan = plan_of(body);
  FootprintOptions options;
  options.page = 1000;
  options.ahead = 20;
  const Footprint footprint = measure_footprint(plan, options);
  assert_int_equal(footprint.live, 10000);
  assert_true(footprint.all_resident >= 21 * 10000);
  assert_true(footprint.all_resident < 40 * 10000);
}

void counts_small_blocks_by_slab(void **) {
  std::string body = "a 0 5000 x\n";
  for (int i = 1; i <= 100; ++i) body += "a " + std::to_string(i) + " 16 x\n";
  body += "o 0 0 n\n";
  for (int i = 1; i <= 100; ++i) body += "u " + std::to_string(i) + " w\n";
  const Plan plan = plan_of(body);
  FootprintOptions options;
  options.page = 4096;
  const Footprint footprint = measure_footprint(plan, options);
  assert_true(footprint.largest_set >= 100 * 256);          // their bytes, rounded, fit
  assert_true(footprint.largest_set < 100 * options.page);  // without a page for each
}

void chooses_a_granule(void **) {
  constexpr uint64_t kib = 1024;
  assert_int_equal(default_granule(0), 16 * kib);
  assert_int_equal(default_granule(kib * kib), 16 * kib);
  assert_int_equal(default_granule(512 * kib * kib), 128 * kib);
  assert_int_equal(default_granule(700 * kib * kib), 128 * kib);
  assert_int_equal(default_granule(800 * kib * kib), 256 * kib);
  assert_int_equal(default_granule(uint64_t{1} << 40), 2048 * kib);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(packs_operations_in_order),
      cmocka_unit_test(expands_groups_as_they_stand),
      cmocka_unit_test(scales_sizes_and_spans),
      cmocka_unit_test(stops_at_the_limit),
      cmocka_unit_test(cuts_operations_into_steps),
      cmocka_unit_test(leaves_stray_uses_out),
      cmocka_unit_test(refuses_what_breaks_a_rule),
      cmocka_unit_test(bounds_the_uses_of_groups),
      cmocka_unit_test(agrees_with_published_statistics),
      cmocka_unit_test(measures_the_footprint_in_pages),
      cmocka_unit_test(counts_what_is_freed_but_in_use),
      cmocka_unit_test(counts_small_blocks_by_slab),
      cmocka_unit_test(chooses_a_granule),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
//
// The residency plan on recorded programs of which all is known, in virtual time on an A100's figures at half of the memory that they
// use: how much longer the second of two passes takes than the least that any policy needs. The figures to be reached are those of the
// simulation that the algorithm was found with.

#include "core/policy/residency_plan.hpp"

#include "tests/support/cmocka.hpp"
#include "tests/tools/plan_program.hpp"
#include "tests/unit/policy_machine.hpp"
#include "tools/weir/bound.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

using namespace weir;
using namespace weir::test;

constexpr tool::Pace a100{312e12, 1.555e12, 25e9, 1};
constexpr uint64_t page = 2 << 20;

/// What is read before anybody has written it has its content from then on, as in the machine: it is as good as written there.
tool::Plan with_first_uses_as_writes(tool::Plan trace) {
  std::vector<uint8_t> used(trace.block_bytes.size());
  for (tool::PlanEvent &event : trace.events) {
    const tool::PlanKind kind = tool::plan_kind(event);
    const uint32_t block = tool::plan_block(event);
    if (!tool::plan_is_use(kind) || used[block] != 0) continue;
    used[block] = 1;
    if (tool::plan_mode(kind) == tool::plan_read)
      event = block << 3 | (kind + (tool::plan_write - tool::plan_read));
  }
  return trace;
}

void reaches(const char *name, double expected) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  const std::string path =
      shared != nullptr ? std::string(shared) + "/traces/" + name + ".vmt.zst" : "";
  if (shared == nullptr || !std::filesystem::exists(path)) {
    print_message("skipped: no trace %s in WEIR_SHARED_DIR\n", name);
    skip();
  }
  const tool::Plan trace = tool::read_plan(path, {});
  const Program program = program_of(trace, a100, 2, page);
  MachineTerms terms;
  terms.capacity = std::max(program.peak() / 2, program.largest_set() / 10 * 11);
  terms.page = page;
  terms.least = terms.capacity / 65536;

  policy::Cast cast(std::pmr::get_default_resource());
  policy::ResidencyPlan plan(cast, {.capacity = terms.capacity}, std::pmr::get_default_resource());
  Future future(program, cast, terms.least);
  const MachineResult result = PolicyMachine(program, terms, cast, plan, future).run();
  const double first = result.ends[program.count() / 2 - 1];
  const double second = (result.ns - first) / 1e9;
  const tool::Bound bound =
      tool::least_time(with_first_uses_as_writes(trace), terms.capacity, a100);
  const double ratio = second / bound.seconds;
  print_message(
      "%s: %.4f s, then %.4f s, %.3f of the bound %.4f s; fetched %.3f of the least %.2f GB, "
      "missed %.2f GB, fallen back %.2f GB, "
      "%u plans, %.1f MB\n",
      name, first / 1e9, second, ratio, bound.seconds,
      static_cast<double>(result.fetched) / 2 / static_cast<double>(bound.fetched),
      static_cast<double>(bound.fetched) / 1e9, static_cast<double>(result.missed) / 1e9,
      static_cast<double>(result.fallen_back) / 1e9, result.plans,
      static_cast<double>(plan.bytes()) / 1e6);
  assert_true(ratio > 0.999);
  assert_true(ratio < expected * 1.05);
}

void trains_gpt2_small(void **) { reaches("gpt2s_train_varlen", 1.19); }
void trains_graphsage(void **) { reaches("graphsage_train", 1.57); }
void trains_resnet50(void **) { reaches("resnet50_train_b16", 1.11); }
void decodes_with_gpt2_small(void **) { reaches("gpt2s_decode_cat", 1.09); }

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(trains_gpt2_small),
      cmocka_unit_test(trains_graphsage),
      cmocka_unit_test(trains_resnet50),
      cmocka_unit_test(decodes_with_gpt2_small),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
//
// Recorded traces in a pool that has next to no more memory than they need: nothing can leave the device, nothing is announced, and
// no acquire may be refused. Sizes and granules are divided alike, so that it takes little time and memory; with WEIR_SOAK every
// trace is run, and those that are not large in full size. Skips where the recordings are not.

#include "tests/tools/trace_files.hpp"

#include "tools/weir/constrained.hpp"
#include "tools/weir/replayer.hpp"
#include "tools/weir/weir_machine.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace {

using namespace weir::tool;

constexpr uint64_t mib = uint64_t{1} << 20;

struct Recorded {
  const char *name;
  uint64_t scale;
  bool touch;  ///< it has no uses of its own
  bool quick;  ///< run always
};

constexpr Recorded recorded[] = {
    {"charlstm_train", 1, false, true},
    {"gpt2s_decode_cat", 1, false, true},
    {"graphsage_train", 1, false, true},
    {"resnet50_infer_varbatch", 1, false, false},
    {"resnet50_train_b16", 1, false, false},
    {"mix_resnetinfer_graphsage", 1, false, false},
    {"gpt2s_train_varlen", 1, false, false},
    {"gpu_lm_compiled", 8, true, true},
    {"gpu_lm_medium_ctx128_train", 16, true, false},
    {"gpu_lm_medium_ctx512_infer", 8, true, true},
    {"gpu_lm_medium_ctx512_train", 16, true, false},
    {"llama7b_serve_cat", 64, false, false},
    {"llama7b_train_eager", 128, false, false},
    {"llama7b_train_flash_varlen", 128, false, false},
    {"serve_azconv_contig_8b", 64, false, false},
    {"serve_azconv_paged_8b", 64, false, false},
    {"serve_mooncake_prefix_8b", 512, false, false},
};

std::string folder() {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  return shared != nullptr ? std::string(shared) + "/traces/" : "";
}

void survive(const Recorded &trace, const Plan &plan, bool multi_map) {
  ReplayFlags flags;
  flags.trace = trace.name;
  flags.scale = trace.scale;
  flags.granule = std::to_string(2 * mib / trace.scale);
  const double share = multi_map ? 1.01 : 1.03;
  flags.device_memory =
      std::to_string(static_cast<uint64_t>(share * static_cast<double>(plan.peak_live_bytes)) +
                     4 * mib / trace.scale);
  flags.host_memory = "0";
  flags.no_multi_map = !multi_map;
  flags.no_verify = true;
  flags.announce = 0;
  flags.ahead = 1;
  const ReplayOptions options = check_replay_flags(flags);
  const Settings settings = settle(options, plan);
  const Pattern pattern(options.data, options.seed);
  RunOptions run;
  run.announce = 0;
  run.ahead = 1;
  run.verify = false;
  run.touch = trace.touch;
  const std::string error = weir::test::error_of([&] {
    WeirMachine machine(constrained_machine(options, settings), plan.block_bytes.size());
    (void)replay(plan, machine, pattern, run);
  });
  if (!error.empty())
    print_error("%s, %s: %s\n", trace.name, multi_map ? "multi-map" : "one mapping", error.c_str());
  assert_true(error.empty());
}

void traces_survive(void **) {
  const bool all = std::getenv("WEIR_SOAK") != nullptr;
#ifdef NDEBUG
  constexpr uint64_t most_lines = UINT64_MAX;
#else
  constexpr uint64_t most_lines = 20'000;  // with assertions and sanitizers each takes its time
#endif
  size_t ran = 0;
  for (const Recorded &trace : recorded) {
    const std::string path = folder() + trace.name + ".vmt.zst";
    if (!(all || trace.quick) || folder().empty() || !std::filesystem::exists(path)) continue;
    PlanOptions options;
    options.scale = trace.scale;
    options.steps = true;
    const Plan plan = read_plan(path, options);
    if (!all && plan.lines > most_lines) continue;
    survive(trace, plan, true);
    survive(trace, plan, false);
    ++ran;
  }
  if (ran == 0) {
    print_message("skipped: WEIR_SHARED_DIR names no recorded traces\n");
    skip();
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(traces_survive)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

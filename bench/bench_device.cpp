// SPDX-License-Identifier: Apache-2.0
//
// What Weir costs on a device of silicon, through the C ABI, against yardsticks that go through the same backend's table
// or the driver itself in the same run: pages moved (transfer), leases of resident memory (lease), kernels beside moving
// pages (kernels), stream-ordered allocation (allocation), host memory registered against pinned (register), leases beside a
// full stream (channel) and beside pages that come up cold (beside). On the host backend and on simulated drivers it measures
// ratios only, and mostly that it works.
//
//   bench_device [--backend host|cuda|hip|level_zero] [--only PART] [--bytes 1G] [--page 32M] [--run 1] [--repetitions 7]
//                [--batch-copy 0|1] [--allocation-max 64M] [--allocation-pairs 20000] [--json FILE]
//
// It must never judge a number: it exits 1 only if a call fails, a byte is wrong or a step moved something else than it
// is about.

#include "bench/device/report.hpp"

#include <string_view>

namespace {

using namespace weir::bench;

[[noreturn]] void usage(const char *wrong) {
  std::fprintf(stderr,
               "bench_device: %s\n"
               "usage: bench_device [--backend host|cuda|hip|level_zero]\n"
               "  [--only transfer|lease|kernels|allocation|register|channel|beside] [--bytes 1G] "
               "[--page 32M]\n"
               "  [--run 1] [--batch-copy 0|1] [--repetitions 7] [--allocation-max 64M] "
               "[--allocation-pairs 20000] [--json FILE]\n",
               wrong);
  std::exit(2);
}

Settings parse(int argc, char **argv) {
  Settings settings;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) usage("an option has no value, or is unknown");
    const char *value = argv[i + 1];
    if (name == "--backend") {
      settings.backend = value;
    } else if (name == "--only") {
      settings.only = value;
    } else if (name == "--json") {
      settings.json = value;
    } else if (name == "--bytes") {
      settings.bytes = size_of(value);
    } else if (name == "--page") {
      settings.page = size_of(value);
    } else if (name == "--run") {
      settings.run = size_of(value);
    } else if (name == "--batch-copy") {
      settings.options = std::string("batch_copy=") + value;
    } else if (name == "--repetitions") {
      settings.repetitions = std::atoi(value);
    } else if (name == "--allocation-max") {
      settings.allocation_max = size_of(value);
    } else if (name == "--allocation-pairs") {
      settings.allocation_pairs = std::atoi(value);
    } else {
      usage(argv[i]);
    }
  }
  if (settings.page == 0 || settings.bytes % settings.page != 0 || settings.pages() < 8)
    usage("--bytes must be a multiple of --page, eight pages or more");
  if (settings.run == 0 || settings.pages() % settings.run != 0)
    usage("--run is a number of pages that divides them");
  if (settings.repetitions < 1 || settings.allocation_pairs < 1 || settings.allocation_max < mib)
    usage("--repetitions and --allocation-pairs from 1, --allocation-max from 1M");
  return settings;
}

}  // namespace

int main(int argc, char **argv) {
  const Settings settings = parse(argc, argv);
  constexpr struct {
    const char *name;
    void (*measure)(const Settings &, const Backend &, Report &);
  } parts[] = {{"transfer", measure_transfers},  {"lease", measure_leases},
               {"kernels", measure_kernels},     {"allocation", measure_allocation},
               {"register", measure_registered}, {"channel", measure_channel},
               {"beside", measure_beside}};
  if (!settings.only.empty() &&
      std::none_of(std::begin(parts), std::end(parts),
                   [&](const auto &part) { return settings.only == part.name; })) {
    usage("--only names no part");
  }
  const Backend backend(settings);
  Report report(settings, backend);
  for (const auto &part : parts) {
    if (settings.wants(part.name)) part.measure(settings, backend, report);
  }
  report.write();
  return 0;
}

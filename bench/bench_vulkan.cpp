// SPDX-License-Identifier: Apache-2.0
//
// What Weir costs on a Vulkan device, beside the driver itself in the same run: pages evicted and restored against its own
// vkCmdCopyBuffer of as many bytes, with the binds and submissions that takes (pages); submissions of leases of resident memory
// (hits); and what the end of a lease costs on a queue that the program submits to as well (wrapped). Calls are counted by
// libweir_watched_vulkan.so, which stands before the loader.
//
//   bench_vulkan [--only pages|hits|wrapped] [--bytes 256M] [--page SIZE] [--run PAGES] [--repetitions 9]
//                [--options KEY=VALUE;...] [--json FILE] [--optional 0|1]
//
// Without --page: pages of 32 MiB, of 2 MiB, and 16 of 2 MiB side by side in each buffer. A device whose memory is the host's is taken for
// one that has its own (integrated=0), or no page would leave it. With --optional 1 it says so where there is no Vulkan, and exits with 77.
// It must never judge a number: it exits 1 only if a call fails, a byte is wrong or a step moved something else than it is about.

#include "bench/vulkan/parts.hpp"

#include <algorithm>
#include <string_view>

namespace {

using namespace weir::bench;

[[noreturn]] void usage(const char *wrong) {
  std::fprintf(stderr,
               "bench_vulkan: %s\n"
               "usage: bench_vulkan [--only pages|hits|wrapped] [--bytes 256M] [--page SIZE] "
               "[--run PAGES]\n"
               "  [--repetitions 9] [--options KEY=VALUE;...] [--json FILE] [--optional 0|1]\n",
               wrong);
  std::exit(2);
}

/// `page` is 0 where none is named.
Settings parse(int argc, char **argv) {
  Settings settings;
  settings.backend = "vulkan";
  settings.options = "integrated=0";
  settings.bytes = 256 * mib;
  settings.page = 0;
  settings.repetitions = 9;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) usage((std::string(name) + " has no value, or is unknown").c_str());
    const char *value = argv[i + 1];
    if (name == "--only") {
      settings.only = value;
    } else if (name == "--json") {
      settings.json = value;
    } else if (name == "--bytes") {
      settings.bytes = size_of(value);
    } else if (name == "--page") {
      settings.page = size_of(value);
      if (settings.page == 0) usage("--page is a size, such as 2M");
    } else if (name == "--run") {
      settings.run = size_of(value);
    } else if (name == "--repetitions") {
      settings.repetitions = std::atoi(value);
    } else if (name == "--optional") {
      settings.optional = std::string_view(value) == "1";
    } else if (name == "--options") {
      settings.options += std::string(";") + value;
    } else {
      usage((std::string(name) + " is unknown").c_str());
    }
  }
  if (settings.repetitions < 1) usage("--repetitions from 1");
  return settings;
}

struct Shape {
  uint64_t page, run;
};

std::vector<Shape> shapes(const Settings &settings) {
  if (settings.page != 0) return {{settings.page, settings.run}};
  return {{32 * mib, 1}, {2 * mib, 1}, {2 * mib, 16}};
}

bool fits(const Settings &settings, const Shape &shape) {
  const uint64_t buffer = shape.page * shape.run;
  return buffer != 0 && settings.bytes % buffer == 0 && settings.bytes / shape.page >= 8;
}

}  // namespace

int main(int argc, char **argv) {
  Settings settings = parse(argc, argv);
  const std::vector<Shape> all = shapes(settings);
  const auto parts = {"pages", "hits", "wrapped", ""};
  if (std::none_of(parts.begin(), parts.end(),
                   [&](const char *part) { return settings.only == part; }))
    usage("--only names no part");
  if (!std::all_of(all.begin(), all.end(), [&](const Shape &each) { return fits(settings, each); }))
    usage("--bytes is a multiple of --page times --run, eight pages or more");
  settings.page = all.front().page;
  watch_calls();
  const Backend backend(settings);
  Report report(settings, backend);
  if (settings.wants("hits")) measure_hits(settings, backend, report);
  if (settings.wants("wrapped")) measure_wrapped(settings, backend, report);
  for (const Shape &each : all) {
    settings.page = each.page;
    settings.run = each.run;
    if (settings.wants("pages")) measure_pages(settings, backend, report);
  }
  report.write();
  return 0;
}

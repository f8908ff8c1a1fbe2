// SPDX-License-Identifier: Apache-2.0
//
// What the CUDA driver itself costs, without Weir: single calls of its virtual memory (micro), what remapping leaves of the
// link's speed (remap), managed memory (managed). And a process that only holds contexts: while it lives, others need not wake the devices.
//
//   bench_driver [--only micro|remap|managed] [--repetitions 9] [--kernel-ms 50] [--mib 1024]
//   bench_driver --hold 1     says "holds N devices" and ends when its input does
//
// It must never judge a number: it exits 1 only if a call fails that no case is about.

#include "bench/driver/driver.hpp"

#include <string_view>

namespace {

using namespace weir::bench;

[[noreturn]] void usage(const char *wrong) {
  std::fprintf(
      stderr,
      "bench_driver: %s\n"
      "usage: bench_driver [--only micro|remap|managed] [--repetitions 9] [--kernel-ms 50]\n"
      "  [--mib 1024] | --hold 1\n",
      wrong);
  std::exit(2);
}

int hold() {
  const Driver driver;
  std::vector<int> held;
  for (int device = 1; device < driver.devices(); ++device) {
    void *context = nullptr;
    if (driver.cuDevicePrimaryCtxRetain(&context, device) == 0) held.push_back(device);
  }
  std::printf("holds %zu devices\n", held.size() + 1);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  for (const int device : held) (void)driver.cuDevicePrimaryCtxRelease(device);
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  DriverSettings settings;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) usage("an option has no value, or is unknown");
    const char *value = argv[i + 1];
    if (name == "--hold") return hold();
    if (name == "--only") {
      settings.only = value;
    } else if (name == "--repetitions") {
      settings.repetitions = std::atoi(value);
    } else if (name == "--kernel-ms") {
      settings.kernel_ms = std::atoi(value);
    } else if (name == "--mib") {
      settings.bytes = std::strtoull(value, nullptr, 10) * mib;
    } else {
      usage(argv[i]);
    }
  }
  if (settings.repetitions < 1 || settings.kernel_ms < 1 || settings.bytes == 0)
    usage("--repetitions, --kernel-ms and --mib from 1");
  const auto wanted = [&](std::string_view part) {
    return settings.only.empty() || settings.only == part;
  };
  if (!wanted("micro") && !wanted("remap") && !wanted("managed")) usage("--only names no part");
  Driver driver(false);
  if (wanted("micro")) measure_first_calls(driver);
  driver.retain();
  driver.introduce(settings);
  if (wanted("micro")) measure_calls(settings, driver);
  if (wanted("remap")) measure_remapping(settings, driver);
  if (wanted("managed")) measure_managed(settings, driver);
  return 0;
}

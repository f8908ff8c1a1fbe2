// SPDX-License-Identifier: Apache-2.0
//
// What an event of a timeline or a recording costs the thread that tells it, and the thread that writes it down: leases of resident memory,
// and buffers made and destroyed, in a traced context and in one that is not, in turns. The yardstick of one event is a reading of the
// clock, of which it has one at least.
//
//   bench_events [--only timeline|recording] [--calls 2000] [--repetitions 9] [--folder /var/tmp]
//
// CPU time of the thread: what is told goes into a ring that has room for all calls of a repetition, so nothing is waited for, and nothing
// is lost ("lost" is what the file says of it). Must never judge: it exits 1 only if a call fails.

#include "common.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include <unistd.h>

namespace {

using namespace weir::bench;

struct Settings {
  std::string only;
  std::string folder = "/var/tmp";
  int calls = 2000;
  int repetitions = 9;
};

/// One thing that a program does over and over, and how many events of each kind of trace tell it.
struct Part {
  const char *name;
  int events[2];  ///< WEIR_TRACE_TIMELINE, WEIR_TRACE_RECORDING
  void (*once)(Rig &rig, weir_buffer resident);
};
const Part parts[] = {
    // The acquire, the release, and the fence that it made.
    {"lease", {3, 3}, [](Rig &rig, weir_buffer resident) { rig.touch(resident, WEIR_READ); }},
    // That one is there, and that it is about to go; a recording has lines of both besides.
    {"buffer",
     {2, 4},
     [](Rig &rig, weir_buffer) {
       WEIR_BENCH_TRY(weir_buffer_destroy(rig.pool(), rig.add_buffer(256)));
     }},
};
constexpr int warm_ups = 6;
const char *const kinds[] = {"timeline", "recording"};

double process_cpu_ns() {
  timespec used{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

double clock_reading_ns() {
  constexpr int readings = 100000;
  double latest = 0;
  const double before = cpu_ns();
  for (int i = 0; i < readings; ++i) latest = std::max(latest, now_ns());
  const double took = cpu_ns() - before;
  return latest > 0 ? took / readings : 0;
}

/// What the file says was lost; a recording says it by lines, of which there are none where nothing was.
uint64_t lost_by(const std::string &path, uint32_t kind) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::string_view word = kind == WEIR_TRACE_TIMELINE ? "\"lost_notes\":" : "\nlost ";
  uint64_t lost = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    lost += std::strtoull(text.c_str() + at + word.size(), nullptr, 10);
  return lost;
}

/// A context with a resident buffer and room for small ones. Its trace is started by the environment, as a recording is before the first
/// pool.
class Program {
 public:
  explicit Program(const char *variable = nullptr, const std::string &path = {}) {
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.host_budget = 16 * mib;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    if (variable != nullptr) (void)setenv(variable, path.c_str(), 1);
    rig_.emplace("host.memory=64M;host.granule=2M", desc, 32 * mib);
    if (variable != nullptr) (void)unsetenv(variable);
    resident_ = rig_->add_buffer(2 * mib);
    rig_->touch(resident_, WEIR_READ_WRITE);
  }

  /// CPU time of this thread for each call.
  double run(const Part &part, int calls) {
    const double before = cpu_ns();
    for (int i = 0; i < calls; ++i) part.once(*rig_, resident_);
    return (cpu_ns() - before) / calls;
  }

 private:
  std::optional<Rig> rig_;
  weir_buffer resident_ = nullptr;
};

void measure(const Settings &settings, const Part &part, uint32_t kind) {
  const char *const variable = kind == WEIR_TRACE_TIMELINE ? "WEIR_TRACE" : "WEIR_RECORD";
  const std::string path = settings.folder + "/bench_events-" + std::to_string(getpid()) +
                           (kind == WEIR_TRACE_TIMELINE ? ".json" : ".vmt");
  const double all_before = process_cpu_ns() - cpu_ns();
  Pair pair;
  {
    Program traced(variable, path);
    Program alone;
    const auto told_after_a_pause = [&] {
      // Until what was told before is written down, or there may be no room for this.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return traced.run(part, settings.calls);
    };
    // Until the ring has been written once: its pages are zeroed when they are touched first.
    for (int i = 0; i < warm_ups; ++i) told_after_a_pause();
    alone.run(part, settings.calls);
    pair = interleave(settings.repetitions, told_after_a_pause,
                      [&] { return alone.run(part, settings.calls); });
  }
  const double written = process_cpu_ns() - cpu_ns() - all_before;
  const int events = part.events[kind];
  const double told =
      static_cast<double>(settings.repetitions + warm_ups) * settings.calls * events;
  const double event = (pair.subject - pair.yardstick) / events;
  const double reading = clock_reading_ns();
  Json("events")
      .text("trace", kinds[kind])
      .text("part", part.name)
      .pair("traced_ns", "alone_ns", pair)
      .count("events", static_cast<uint64_t>(events))
      .number("event_ns", event)
      .number("clock_reading_ns", reading)
      .number("event_in_readings", event / reading)
      .number("written_down_ns", written / told)
      .count("lost", lost_by(path, kind))
      .print();
  std::filesystem::remove(path);
}

[[noreturn]] void usage(const char *wrong) {
  std::fprintf(stderr,
               "bench_events: %s\nusage: bench_events [--only timeline|recording] [--calls 2000] "
               "[--repetitions 9] [--folder /var/tmp]\n",
               wrong);
  std::exit(2);
}

Settings parse(int argc, char **argv) {
  Settings settings;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) usage((std::string(name) + " has no value, or is unknown").c_str());
    if (name == "--only") {
      settings.only = argv[i + 1];
    } else if (name == "--folder") {
      settings.folder = argv[i + 1];
    } else if (name == "--calls") {
      settings.calls = std::atoi(argv[i + 1]);
    } else if (name == "--repetitions") {
      settings.repetitions = std::atoi(argv[i + 1]);
    } else {
      usage((std::string(name) + " is unknown").c_str());
    }
  }
  // A thread's ring has 4 MiB, and a lease's events are less than 600 bytes.
  if (settings.calls < 1 || settings.calls > 5000) usage("--calls is a number from 1 to 5000");
  if (settings.repetitions < 1) usage("--repetitions is a number from 1 on");
  return settings;
}

}  // namespace

int main(int argc, char **argv) {
  const Settings settings = parse(argc, argv);
  for (const uint32_t kind : {WEIR_TRACE_TIMELINE, WEIR_TRACE_RECORDING}) {
    if (!settings.only.empty() && settings.only != kinds[kind]) continue;
    for (const Part &part : parts) measure(settings, part, kind);
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Evicting and restoring pages, as a share of the speed at which the driver itself copies as many bytes, and of that at which it does
// all that this asks of it; with the binds and submissions that were made for them.

#include "bench/device/movers.hpp"
#include "bench/vulkan/driver.hpp"
#include "bench/vulkan/parts.hpp"

namespace weir::bench {
namespace {

constexpr const char *speed = "GiB/s";
constexpr const char *copies_down =
    "the driver's own vkCmdCopyBuffer of as many bytes in such pages from device to host memory, "
    "one submission";
constexpr const char *copies_up =
    "the driver's own vkCmdCopyBuffer of as many bytes in such pages from host to device memory, "
    "one submission";
constexpr const char *least_mapped_down =
    "the driver's own: such pages copied down, unbound and bound, a call a buffer";
constexpr const char *least_mapped_up =
    "the driver's own: such pages unbound, bound and copied into, a call a buffer";

/// One kind of step.
struct Kind {
  explicit Kind(const char *kind_name, const char *words) : name(kind_name), what(words) {}
  std::string name;
  const char *what;
  struct Speeds {
    Series clock, cpu;
  } plain, least;
  Series bound, submitted;
};

class Pages {
 public:
  Pages(const Settings &settings, const Backend &backend, Report &report)
      : settings_(settings), backend_(backend), report_(report), driver_(settings, backend) {}

  void measure(uint64_t per_lease) {
    Kind evict("vulkan_evict", "evict pages that must be copied down");
    Kind restore("vulkan_restore", "bring pages up");
    Cycle cycle(settings_, backend_, per_lease);
    for (int i = -1; i < settings_.repetitions; ++i) {  // the first warms everything up
      cycle.make_dirty();
      note(
          i, &evict, [&] { return cycle.evict(false); }, [&] { return driver_.down(); },
          [&] { return driver_.least_down(); });
      cycle.verify();
      note(
          i, &restore, [&] { return cycle.restore(); }, [&] { return driver_.up(); },
          [&] { return driver_.least_up(); });
      cycle.verify();
    }
    const bool mapped = driver_.mapped();
    tell(evict, copies_down, mapped ? least_mapped_down : nullptr, per_lease);
    tell(restore, copies_up, mapped ? least_mapped_up : nullptr, per_lease);
  }

 private:
  template <class Step, class Driver, class Least>
  void note(int repetition, Kind *kind, Step &&step, Driver &&driver, Least &&least) {
    Speed plain, all;
    const auto ask = [&] {
      plain = driver();
      all = least();
    };
    const bool first = repetition % 2 == 0;
    if (!first) ask();
    const uint64_t binds = calls_.of("vkQueueBindSparse"), submits = calls_.of("vkQueueSubmit");
    const double used = process_ns();
    const Moved moved = step();
    const double cpu_ns = process_ns() - used;
    const auto bound = static_cast<double>(calls_.of("vkQueueBindSparse") - binds);
    const auto submitted = static_cast<double>(calls_.of("vkQueueSubmit") - submits);
    if (first) ask();
    if (repetition < 0) return;
    const auto bytes = static_cast<double>(moved.bytes);
    const Speed ours = {gib_per_s(bytes, moved.ns), gib_per_s(bytes, cpu_ns)};
    kind->plain.clock.add(ours.clock, plain.clock);
    kind->plain.cpu.add(ours.cpu, plain.cpu);
    kind->least.clock.add(ours.clock, all.clock);
    kind->least.cpu.add(ours.cpu, all.cpu);
    const double pages = bytes / static_cast<double>(settings_.page);
    kind->bound.add(bound, pages);
    kind->submitted.add(submitted, pages);
  }

  auto which(uint64_t per_lease) const {
    return [this, per_lease](Json &json) {
      json.number("page_mib", static_cast<double>(settings_.page) / static_cast<double>(mib))
          .count("pages", settings_.pages())
          .count("pages_per_buffer", settings_.run)
          .count("pages_per_lease", per_lease * settings_.run);
    };
  }

  /// A driver on the CPU takes the CPU's time for its copies, and a busy machine lengthens that little.
  void tell_speed(const Kind &kind, const std::string &name, const Kind::Speeds &speeds,
                  const char *yardstick, const char *goal, uint64_t per_lease) {
    report_.figure({name.c_str(), kind.what, yardstick, speed, goal}, speeds.clock,
                   which(per_lease));
    if (backend_.real()) return;
    report_.figure({(name + "_cpu").c_str(), kind.what, yardstick, "GiB a second of CPUs", goal},
                   speeds.cpu, which(per_lease));
  }

  void tell(const Kind &kind, const char *yardstick, const char *least, uint64_t per_lease) {
    const char *goal = settings_.page >= 32 * mib  ? "ratio >= 0.9"
                       : settings_.page == 2 * mib ? "ratio >= 0.8"
                                                   : "";
    tell_speed(kind, kind.name, kind.plain, yardstick, goal, per_lease);
    if (least != nullptr)
      tell_speed(kind, kind.name + "_all_asked", kind.least, least, "", per_lease);
    const std::string binds_name = kind.name + "_binds", submits_name = kind.name + "_submits";
    constexpr const char *moved = "pages moved";
    const Meaning binds = {binds_name.c_str(), "vkQueueBindSparse while they move", moved, "calls"};
    const Meaning submits = {submits_name.c_str(), "vkQueueSubmit while they move", moved, "calls"};
    if (!calls_.counted()) return report_.skipped(binds, nobody_counts);
    report_.figure(binds, kind.bound, which(per_lease));
    report_.figure(submits, kind.submitted, which(per_lease));
  }

  const Settings &settings_;
  const Backend &backend_;
  Report &report_;
  const Calls calls_;
  DriverCopies driver_;
};

}  // namespace

void measure_pages(const Settings &settings, const Backend &backend, Report &report) {
  Pages pages(settings, backend, report);
  pages.measure(settings.buffers());
  pages.measure(1);
}

}  // namespace weir::bench

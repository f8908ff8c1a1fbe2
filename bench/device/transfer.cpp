// SPDX-License-Identifier: Apache-2.0
//
// Evicting and restoring pages, as a share of the speed at which plain pinned copies move as many bytes the same way in
// the same run. Warm: granules come from the pool's free lists and only mappings change. Cold: granules are destroyed and
// created. Clean pages need no copy: their share tells how much is saved.

#include "bench/device/movers.hpp"
#include "bench/device/report.hpp"

namespace weir::bench {
namespace {

constexpr const char *goal = "ratio >= 0.9";
constexpr const char *copies_down =
    "copy_async of as many bytes in such pages from plain device memory to pinned memory, one "
    "stream";
constexpr const char *copies_up =
    "copy_async of as many bytes in such pages from pinned to plain device memory, one stream";
constexpr const char *copies_both =
    "copy_async of as many bytes each way at once, one stream for each";
constexpr const char *speed = "GiB/s";

double gib_per_s(double bytes, double ns) { return bytes / ns * 1e9 / (1024.0 * 1024 * 1024); }

/// One kind of step, its speeds beside the yardstick's.
struct Kind {
  Meaning meaning;
  Series series;
};

class Transfers {
 public:
  Transfers(const Settings &settings, const Backend &backend, Report &report)
      : settings_(settings), backend_(backend), report_(report), copies_(settings, backend) {}

  void warm(uint64_t per_lease) {
    Kind evict_dirty{
        {"evict_dirty_warm", "evict pages that must be copied down", copies_down, speed, goal}, {}};
    Kind restore{{"restore_warm", "bring pages up into pooled granules", copies_up, speed, goal},
                 {}};
    Kind evict_clean{{"evict_clean_warm", "evict pages that HOST has too; nothing is copied",
                      copies_down, speed},
                     {}};
    Kind exchange{{"exchange", "one set of pages goes down, dirty, while another comes up",
                   copies_both, speed, goal},
                  {}};
    Cycle cycle(settings_, backend_, per_lease);
    for (int i = -1; i < settings_.repetitions; ++i) {  // the first warms everything up
      const bool first = i % 2 == 0;
      cycle.make_dirty();
      note(
          i, first, &evict_dirty, [&] { return cycle.evict(false); }, Way::down);
      cycle.verify();
      note(
          i, first, &restore, [&] { return cycle.restore(); }, Way::up);
      cycle.verify();
      note(
          i, first, &evict_clean, [&] { return cycle.evict(true); }, Way::down);
      (void)cycle.restore();
      cycle.verify();
    }
    cycle.fill_both();
    for (int i = -2; i < settings_.repetitions; ++i)
      note(
          i, i % 2 == 0, &exchange, [&] { return cycle.exchange(); }, Way::both);
    for (const Kind *kind : {&evict_dirty, &restore, &evict_clean, &exchange})
      tell(*kind, per_lease);
  }

  void cold() {
    Kind evict_dirty{{"evict_dirty_cold", "trim dirty pages: copy them down, destroy granules",
                      copies_down, speed, goal},
                     {}};
    Kind restore{{"restore_cold", "bring pages up into granules that must be created", copies_up,
                  speed, goal},
                 {}};
    Kind evict_clean{
        {"evict_clean_cold", "trim clean pages: unmap and destroy granules", copies_down, speed},
        {}};
    const uint64_t per_lease = settings_.buffers();
    Cycle cycle(settings_, backend_, per_lease);
    for (int i = -2; i < settings_.repetitions; ++i) {  // HOST takes its memory in the first two
      const bool first = i % 2 == 0;
      cycle.make_dirty();
      note(
          i, first, &evict_dirty, [&] { return cycle.evict_for_good(false); }, Way::down);
      note(
          i, first, &restore, [&] { return cycle.restore(); }, Way::up);
      cycle.verify();
      note(
          i, first, &evict_clean, [&] { return cycle.evict_for_good(true); }, Way::down);
    }
    for (const Kind *kind : {&evict_dirty, &restore, &evict_clean}) tell(*kind, per_lease);
  }

 private:
  enum class Way { down, up, both };

  double yardstick(Way way) const {
    const double bytes = static_cast<double>(settings_.bytes);
    switch (way) {
      case Way::down:
        return gib_per_s(bytes, copies_.down_ns());
      case Way::up:
        return gib_per_s(bytes, copies_.up_ns());
      case Way::both:
        break;
    }
    return gib_per_s(2 * bytes, copies_.both_ns());
  }

  template <class Step>
  void note(int repetition, bool first, Kind *kind, Step &&step, Way way) {
    const double before = first ? 0 : yardstick(way);
    const Moved moved = step();
    const double theirs = first ? yardstick(way) : before;
    if (repetition >= 0)
      kind->series.add(gib_per_s(static_cast<double>(moved.bytes), moved.ns), theirs);
  }

  void tell(const Kind &kind, uint64_t per_lease) {
    report_.figure(kind.meaning, kind.series, [&](Json &json) {
      json.number("page_mib", static_cast<double>(settings_.page) / static_cast<double>(mib))
          .count("pages", settings_.pages())
          .count("pages_per_buffer", settings_.run)
          .count("pages_per_lease", per_lease * settings_.run);
      if (!settings_.options.empty()) json.text("options", settings_.options.c_str());
    });
  }

  const Settings &settings_;
  const Backend &backend_;
  Report &report_;
  const Copies copies_;
};

}  // namespace

void measure_transfers(const Settings &settings, const Backend &backend, Report &report) {
  Transfers transfers(settings, backend, report);
  transfers.warm(settings.buffers());
  transfers.warm(1);
  if (backend.has(WEIR_CAP_VMM)) {
    transfers.cold();
  } else {
    report.skipped({"evict_dirty_cold", "trim dirty pages", copies_down, speed},
                   "the device has no granules");
  }
}

}  // namespace weir::bench

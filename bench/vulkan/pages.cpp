// SPDX-License-Identifier: Apache-2.0
//
// Evicting and restoring pages, as a share of the speed at which the driver itself copies as many bytes in such pieces: one
// command buffer with a vkCmdCopyBuffer a page, recorded before, one submission and a wait, on a device of the program's own.

#include "bench/device/movers.hpp"
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
constexpr const char *pages_moved = "pages moved";

double gib_per_s(double bytes, double ns) { return bytes / ns * 1e9 / (1024.0 * 1024 * 1024); }

class DriverCopies {
 public:
  DriverCopies(const Settings &settings, const Backend &backend)
      : bytes_(settings.bytes),
        engine_(backend, Engine::For::copies),
        host_(engine_.make_buffer(bytes_, true)),
        device_(engine_.make_buffer(bytes_, false)),
        down_(record(device_, host_, settings.page)),
        up_(record(host_, device_, settings.page)) {
    (void)run(up_);
    (void)run(down_);
  }
  ~DriverCopies() {
    engine_.end(host_);
    engine_.end(device_);
  }
  DriverCopies(const DriverCopies &) = delete;
  DriverCopies &operator=(const DriverCopies &) = delete;

  double down() { return run(down_); }
  double up() { return run(up_); }

 private:
  VkCommandBuffer record(const OwnBuffer &from, const OwnBuffer &to, uint64_t page) {
    return engine_.record([&](const Engine::Api &api, VkCommandBuffer commands) {
      for (uint64_t at = 0; at < bytes_; at += page) {
        const VkBufferCopy region = {at, at, page};
        api.CmdCopyBuffer(commands, from.buffer, to.buffer, 1, &region);
      }
    });
  }
  double run(VkCommandBuffer commands) {
    const double start = now_ns();
    engine_.submit(commands);
    engine_.wait();
    return gib_per_s(static_cast<double>(bytes_), now_ns() - start);
  }

  const uint64_t bytes_;
  Engine engine_;
  OwnBuffer host_, device_;
  VkCommandBuffer down_, up_;
};

/// One kind of step: its speeds beside the driver's, its binds and submissions beside the pages moved.
struct Kind {
  Meaning speed;
  const char *binds;
  Series speeds, bound, submitted;
};

class Pages {
 public:
  Pages(const Settings &settings, const Backend &backend, Report &report)
      : settings_(settings), backend_(backend), report_(report), copies_(settings, backend) {}

  void measure(uint64_t per_lease) {
    const char *goal = settings_.page >= 32 * mib  ? "ratio >= 0.9"
                       : settings_.page == 2 * mib ? "ratio >= 0.8"
                                                   : "";
    Kind evict{{"vulkan_evict", "evict pages that must be copied down", copies_down, speed, goal},
               "vulkan_evict_binds",
               {},
               {},
               {}};
    Kind restore{{"vulkan_restore", "bring pages up", copies_up, speed, goal},
                 "vulkan_restore_binds",
                 {},
                 {},
                 {}};
    Cycle cycle(settings_, backend_, per_lease);
    for (int i = -1; i < settings_.repetitions; ++i) {  // the first warms everything up
      cycle.make_dirty();
      note(
          i, &evict, [&] { return cycle.evict(false); }, [&] { return copies_.down(); });
      cycle.verify();
      note(
          i, &restore, [&] { return cycle.restore(); }, [&] { return copies_.up(); });
      cycle.verify();
    }
    for (const Kind *kind : {&evict, &restore}) tell(*kind, per_lease);
  }

 private:
  template <class Step, class Driver>
  void note(int repetition, Kind *kind, Step &&step, Driver &&driver) {
    const bool first = repetition % 2 == 0;
    const double before = first ? 0 : driver();
    const uint64_t binds = calls_.of("vkQueueBindSparse"), submits = calls_.of("vkQueueSubmit");
    const Moved moved = step();
    const auto bound = static_cast<double>(calls_.of("vkQueueBindSparse") - binds);
    const auto submitted = static_cast<double>(calls_.of("vkQueueSubmit") - submits);
    const double theirs = first ? driver() : before;
    if (repetition < 0) return;
    const double pages = static_cast<double>(moved.bytes) / static_cast<double>(settings_.page);
    kind->speeds.add(gib_per_s(static_cast<double>(moved.bytes), moved.ns), theirs);
    kind->bound.add(bound, pages);
    kind->submitted.add(submitted, pages);
  }

  void tell(const Kind &kind, uint64_t per_lease) {
    const auto which = [&](Json &json) {
      json.number("page_mib", static_cast<double>(settings_.page) / static_cast<double>(mib))
          .count("pages", settings_.pages())
          .count("pages_per_buffer", settings_.run)
          .count("pages_per_lease", per_lease * settings_.run);
    };
    report_.figure(kind.speed, kind.speeds, which);
    const Meaning binds = {kind.binds, "vkQueueBindSparse while they move", pages_moved, "calls"};
    const std::string name = std::string(kind.speed.name) + "_submits";
    const Meaning submits = {name.c_str(), "vkQueueSubmit while they move", pages_moved, "calls"};
    if (!calls_.counted()) {
      report_.skipped(binds, "nobody counts calls: libweir_watched_vulkan.so is not the loader");
      return;
    }
    report_.figure(binds, kind.bound, which);
    report_.figure(submits, kind.submitted, which);
  }

  const Settings &settings_;
  const Backend &backend_;
  Report &report_;
  const Calls calls_;
  DriverCopies copies_;
};

}  // namespace

void measure_pages(const Settings &settings, const Backend &backend, Report &report) {
  Pages pages(settings, backend, report);
  pages.measure(settings.buffers());
  pages.measure(1);
}

}  // namespace weir::bench

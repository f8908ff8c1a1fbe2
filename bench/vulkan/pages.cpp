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
constexpr const char *binds_and_copies =
    "the driver's own: such pages unbound, bound and copied into from host memory, a bind a buffer";
constexpr const char *pages_moved = "pages moved";

double gib_per_s(double bytes, double ns) { return bytes / ns * 1e9 / (1024.0 * 1024 * 1024); }

/// CPU time of all threads: on a driver that copies by the CPU the copies are in it.
double process_ns() {
  timespec used{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

/// GiB a second by the clock, and a second of the CPUs.
struct Speed {
  double clock = 0, cpu = 0;
};

class DriverCopies {
 public:
  DriverCopies(const Settings &settings, const Backend &backend)
      : bytes_(settings.bytes),
        page_(settings.page),
        engine_(backend, Engine::For::copies),
        host_(engine_.make_buffer(bytes_, true)),
        device_(engine_.make_buffer(bytes_, false)),
        down_(record(device_, host_, page_)),
        up_(record(host_, device_, page_)) {
    (void)run(up_);
    (void)run(down_);
  }
  ~DriverCopies() {
    engine_.end(host_);
    engine_.end(device_);
    engine_.end(sparse_);
  }
  DriverCopies(const DriverCopies &) = delete;
  DriverCopies &operator=(const DriverCopies &) = delete;

  Speed down() { return run(down_); }
  Speed up() { return run(up_); }
  bool binds() const { return engine_.binds(); }
  /// The least that bringing pages up asks of the driver where they are mapped: other memory at the addresses, `piece` bytes a call.
  Speed rebound(uint64_t piece) {
    if (sparse_.buffer == VK_NULL_HANDLE) {
      sparse_ = engine_.make_sparse(bytes_);
      into_sparse_ = record(host_, sparse_, page_);
      (void)rebound(piece);
    }
    return timed([&] {
      for (const bool there : {false, true})
        for (uint64_t at = 0; at < bytes_; at += piece) engine_.bind(sparse_, at, piece, there);
      engine_.submit(into_sparse_);
      engine_.wait();
    });
  }

 private:
  VkCommandBuffer record(const OwnBuffer &from, const OwnBuffer &to, uint64_t page) {
    return engine_.record([&](const Engine::Api &api, VkCommandBuffer commands) {
      for (uint64_t at = 0; at < bytes_; at += page) {
        const VkBufferCopy region = {at, at, page};
        api.CmdCopyBuffer(commands, from.buffer, to.buffer, 1, &region);
      }
    });
  }
  Speed run(VkCommandBuffer commands) {
    return timed([&] {
      engine_.submit(commands);
      engine_.wait();
    });
  }
  template <class Work>
  Speed timed(Work &&work) const {
    const double start = now_ns(), used = process_ns();
    work();
    const double ns = now_ns() - start, cpu_ns = process_ns() - used;
    const auto bytes = static_cast<double>(bytes_);
    return {gib_per_s(bytes, ns), gib_per_s(bytes, cpu_ns)};
  }

  const uint64_t bytes_, page_;
  Engine engine_;
  OwnBuffer host_, device_, sparse_;
  VkCommandBuffer down_, up_, into_sparse_ = VK_NULL_HANDLE;
};

/// One kind of step: its speeds beside the driver's, its binds and submissions beside the pages moved.
struct Kind {
  Meaning speed;
  const char *binds;
  Series speeds, by_cpu, bound, submitted;
};

class Pages {
  auto which(uint64_t per_lease) const {
    return [this, per_lease](Json &json) {
      json.number("page_mib", static_cast<double>(settings_.page) / static_cast<double>(mib))
          .count("pages", settings_.pages())
          .count("pages_per_buffer", settings_.run)
          .count("pages_per_lease", per_lease * settings_.run);
    };
  }

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
               {},
               {}};
    Kind restore{{"vulkan_restore", "bring pages up", copies_up, speed, goal},
                 "vulkan_restore_binds",
                 {},
                 {},
                 {},
                 {}};
    Kind rebound{
        {"vulkan_restore_bound", "bring pages up", binds_and_copies, speed}, "", {}, {}, {}, {}};
    const bool mapped = backend_.has(WEIR_CAP_VMM) && copies_.binds();
    Cycle cycle(settings_, backend_, per_lease);
    for (int i = -1; i < settings_.repetitions; ++i) {  // the first warms everything up
      cycle.make_dirty();
      note(
          i, &evict, [&] { return cycle.evict(false); }, [&] { return copies_.down(); });
      cycle.verify();
      note(
          i, &restore, [&] { return cycle.restore(); }, [&] { return copies_.up(); });
      cycle.verify();
      if (!mapped) continue;
      cycle.make_dirty();
      (void)cycle.evict(false);
      note(
          i, &rebound, [&] { return cycle.restore(); },
          [&] { return copies_.rebound(settings_.page * settings_.run); });
    }
    for (const Kind *kind : {&evict, &restore}) tell(*kind, per_lease);
    if (mapped) tell_speed(rebound, per_lease);
  }

 private:
  template <class Step, class Driver>
  void note(int repetition, Kind *kind, Step &&step, Driver &&driver) {
    const bool first = repetition % 2 == 0;
    const Speed before = first ? Speed{} : driver();
    const uint64_t binds = calls_.of("vkQueueBindSparse"), submits = calls_.of("vkQueueSubmit");
    const double used = process_ns();
    const Moved moved = step();
    const double cpu_ns = process_ns() - used;
    const auto bound = static_cast<double>(calls_.of("vkQueueBindSparse") - binds);
    const auto submitted = static_cast<double>(calls_.of("vkQueueSubmit") - submits);
    const Speed theirs = first ? driver() : before;
    if (repetition < 0) return;
    const double pages = static_cast<double>(moved.bytes) / static_cast<double>(settings_.page);
    const auto bytes = static_cast<double>(moved.bytes);
    kind->speeds.add(gib_per_s(bytes, moved.ns), theirs.clock);
    kind->by_cpu.add(gib_per_s(bytes, cpu_ns), theirs.cpu);
    kind->bound.add(bound, pages);
    kind->submitted.add(submitted, pages);
  }

  /// A driver on the CPU takes the CPU's time for its copies, and a busy machine lengthens that little.
  void tell_speed(const Kind &kind, uint64_t per_lease) {
    report_.figure(kind.speed, kind.speeds, which(per_lease));
    if (backend_.real()) return;
    const std::string name = std::string(kind.speed.name) + "_cpu";
    const Meaning by_cpu = {name.c_str(), "the same, bytes by the CPUs' time", kind.speed.yardstick,
                            "GiB a second of the CPUs", kind.speed.goal};
    report_.figure(by_cpu, kind.by_cpu, which(per_lease));
  }

  void tell(const Kind &kind, uint64_t per_lease) {
    tell_speed(kind, per_lease);
    const Meaning binds = {kind.binds, "vkQueueBindSparse while they move", pages_moved, "calls"};
    const std::string name = std::string(kind.speed.name) + "_submits";
    const Meaning submits = {name.c_str(), "vkQueueSubmit while they move", pages_moved, "calls"};
    if (!calls_.counted()) {
      report_.skipped(binds, "nobody counts calls: libweir_watched_vulkan.so is not the loader");
      return;
    }
    report_.figure(binds, kind.bound, which(per_lease));
    report_.figure(submits, kind.submitted, which(per_lease));
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

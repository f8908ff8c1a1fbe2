// SPDX-License-Identifier: Apache-2.0
//
// How much slower kernels on one stream get while pages move on others: kernels that only compute and kernels that only
// move device memory, alone, beside a pool that exchanges pages, beside one that creates and destroys granules, and beside
// plain copies of the same bytes (what the hardware alone takes from them). Needs kernels: the CUDA driver and a real device.

#include "bench/device/cuda_driver.hpp"
#include "bench/device/movers.hpp"
#include "bench/device/ptx.hpp"
#include "bench/device/report.hpp"

#include <atomic>
#include <functional>
#include <thread>

namespace weir::bench {
namespace {

constexpr uint32_t threads = 256;
constexpr int launches = 100;
constexpr double launch_ns =
    2e6;  ///< how long one launch is made to take: far more than launching costs
constexpr const char *goal = "ratio <= 1.03";

/// A kernel with its arguments, made so long that a launch takes launch_ns alone.
class Load {
 public:
  Load(const CudaDriver &driver, const Queue &queue, CudaDriver::Function kernel,
       std::vector<uint64_t> arguments)
      : driver_(driver),
        stream_(queue.native()),
        kernel_(kernel),
        arguments_(std::move(arguments)) {
    batch_ns(1);
    for (int i = 0; i < 3; ++i) {
      const double each = batch_ns(10) / 10;
      const double wanted = std::clamp(rounds_ * launch_ns / each, 1.0, 1e8);
      rounds_ = static_cast<uint32_t>(wanted);
    }
  }
  /// Launches so many, and waits for them.
  double batch_ns(int count) {
    std::vector<void *> parameters;
    for (uint64_t &argument : arguments_) parameters.push_back(&argument);
    parameters.push_back(&rounds_);
    const double start = now_ns();
    for (int i = 0; i < count; ++i)
      driver_.launch(kernel_, driver_.multiprocessors() * 8, threads, stream_, parameters.data());
    driver_.synchronize(stream_);
    return now_ns() - start;
  }

 private:
  const CudaDriver &driver_;
  void *const stream_;
  const CudaDriver::Function kernel_;
  std::vector<uint64_t> arguments_;
  uint32_t rounds_ = 16;
};

/// Runs `step` over and over on a thread of its own, from construction to the end of stop().
class Beside {
 public:
  explicit Beside(const std::function<void()> &step)
      : thread_([this, step] {
          while (!stop_.load()) {
            step();
            steps_.fetch_add(1);
          }
        }) {
    while (steps_.load() == 0) std::this_thread::yield();
    start_ = now_ns();
    before_ = steps_.load();
  }
  ~Beside() { (void)stop(); }
  Beside(const Beside &) = delete;
  Beside &operator=(const Beside &) = delete;

  bool moved() const { return steps_.load() != before_; }
  /// Steps a second since it was made.
  double stop() {
    if (!thread_.joinable()) return 0;
    const double rate = static_cast<double>(steps_.load() - before_) * 1e9 / (now_ns() - start_);
    stop_.store(true);
    thread_.join();
    return rate;
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> steps_{0};
  double start_ = 0;
  uint64_t before_ = 0;
  std::thread thread_;  // last: it uses the others
};

struct Neighbour {
  const char *name;
  std::function<void()> step;
};

void against(const char *load_name, Load &load, const Neighbour &neighbour,
             const Settings &settings, Report &report) {
  Series slowdown;
  std::vector<double> rates;
  for (int i = -1; i < settings.repetitions; ++i) {
    const bool first = i % 2 == 0;
    const double before = first ? load.batch_ns(launches) : 0;
    double beside = 0;
    {
      Beside mover(neighbour.step);
      int batches = 0;
      do {
        beside += load.batch_ns(launches);
        ++batches;
      } while (!mover.moved() && batches < 10);  // a whole step at least, or it says little
      beside /= batches;
      rates.push_back(mover.stop());
    }
    const double alone = first ? before : load.batch_ns(launches);
    if (i >= 0) slowdown.add(beside / launches, alone / launches);
  }
  report.figure({"kernel_slowdown", "time of kernels on one stream beside traffic on others",
                 "the same kernels alone", "ns a launch", goal},
                slowdown, [&](Json &json) {
                  json.text("kernel", load_name)
                      .text("beside", neighbour.name)
                      .number("steps_per_s", median(rates))
                      .count("bytes_per_step", 2 * settings.bytes);
                });
}

constexpr Meaning none = {"kernel_slowdown",
                          "time of kernels on one stream beside traffic on others",
                          "the same kernels alone", "ns a launch", goal};

}  // namespace

void measure_kernels(const Settings &settings, const Backend &backend, Report &report) {
  if (settings.backend != "cuda")
    return report.skipped(none, "kernels are launched on the CUDA backend only");
  std::string reason;
  const std::unique_ptr<CudaDriver> driver = CudaDriver::open(&reason);
  if (driver == nullptr) return report.skipped(none, reason.c_str());
  driver->load(kernels_ptx);
  const Queue queue(backend);
  // Several times what caches hold.
  constexpr uint64_t moved = 512 * mib;
  const Plain from(backend, moved), to(backend, moved);
  Load compute(*driver, queue, driver->kernel("weir_bench_compute"), {to.address()});
  Load memory(*driver, queue, driver->kernel("weir_bench_copy"),
              {to.address(), from.address(), moved / 16});
  Cycle warm(settings, backend, settings.buffers());
  Cycle cold(settings, backend, settings.buffers());
  const Copies copies(settings, backend);
  warm.fill_both();
  cold.make_dirty();
  const Neighbour neighbours[] = {
      {"pages exchanged by a pool", [&] { (void)warm.exchange(); }},
      {"pages trimmed and restored by a pool, granules destroyed and created",
       [&] {
         cold.make_dirty();
         (void)cold.evict_for_good(false);
       }},
      {"plain copies both ways at once", [&] { (void)copies.both_ns(); }},
  };
  for (const Neighbour &neighbour : neighbours) {
    against("compute-bound", compute, neighbour, settings, report);
    against("memory-bound", memory, neighbour, settings, report);
  }
}

}  // namespace weir::bench

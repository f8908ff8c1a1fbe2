// SPDX-License-Identifier: Apache-2.0
//
// Leases while the device or the pool is busy. channel: a stream on which thousands of tiny kernels (or copies, where none
// run) are enqueued behind one long piece of work, so that its channel is full and launching waits for the device; leases are
// timed on that stream and, from another thread, on a second one. beside: leases of a resident buffer while another thread
// brings up pages for which granules must be created.

#include "bench/device/cuda_driver.hpp"
#include "bench/device/ptx.hpp"
#include "bench/device/report.hpp"

#include <atomic>
#include <functional>
#include <thread>

namespace weir::bench {
namespace {

constexpr const char *unit = "ns";
constexpr int pending = 3000;
constexpr int64_t held_ms = 200;

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(values.size())))];
}

/// Keeps a stream from going on until it is let go, or held_ms are over: nothing hangs for good by it.
class Gate {
 public:
  void close_on(weir_stream stream) {
    open_.store(false);
    WEIR_BENCH_TRY(weir_stream_host_call(
        stream,
        [](void *self) {
          const double until = now_ns() + held_ms * 1e6;
          while (!static_cast<Gate *>(self)->open_.load() && now_ns() < until)
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        },
        this));
  }
  void open() { open_.store(true); }

 private:
  std::atomic<bool> open_{true};
};

/// Tiny pieces of work on a stream.
class Tiny {
 public:
  Tiny(const Backend &backend, weir_stream stream, uint64_t address)
      : backend_(backend), address_(address) {
    WEIR_BENCH_TRY(weir_stream_native(stream, &native_));
    std::string reason;
    if (std::string(backend.table().name) == "cuda") driver_ = CudaDriver::open(&reason);
    if (driver_ != nullptr) {
      driver_->load(kernels_ptx);
      kernel_ = driver_->kernel("weir_bench_compute");
    } else {
      backend_.must(backend_.table().stream_wrap(backend_.state(), 0, native_, &wrapped_),
                    "stream_wrap");
    }
  }
  ~Tiny() {
    if (wrapped_ != nullptr)
      backend_.must(backend_.table().stream_destroy(backend_.state(), wrapped_), "stream_destroy");
  }
  Tiny(const Tiny &) = delete;
  Tiny &operator=(const Tiny &) = delete;
  const char *name() const { return driver_ != nullptr ? "kernels" : "fills"; }

  void enqueue() {
    if (driver_ == nullptr)
      return backend_.must(backend_.table().fill_async(backend_.state(), wrapped_, address_, 0, 16),
                           "fill_async");
    uint32_t rounds = 1;
    void *parameters[] = {&address_, &rounds};
    driver_->launch(kernel_, 1, 32, native_, parameters);
  }

 private:
  const Backend &backend_;
  uint64_t address_;
  void *native_ = nullptr;
  weir_be_stream wrapped_ = nullptr;
  std::unique_ptr<CudaDriver> driver_;
  CudaDriver::Function kernel_ = nullptr;
};

/// A pool with resident buffers of 2 MiB.
class Resident {
 public:
  Resident(const Backend &backend, uint64_t count, uint64_t budget)
      : rig_(backend.context(), pool(), budget) {
    for (uint64_t i = 0; i < count; ++i) {
      buffers_.push_back(rig_.add_buffer(2 * mib));
      rig_.touch(buffers_.back(), WEIR_DISCARD_WRITE);
      rig_.touch(buffers_.back(), WEIR_READ);
    }
    rig_.synchronize();
  }
  Rig &rig() { return rig_; }
  /// One acquire and release of a buffer that is there.
  double lease_ns(size_t which, weir_stream stream) {
    const double start = now_ns();
    rig_.touch(stream, buffers_[which], WEIR_READ);
    return now_ns() - start;
  }

 private:
  static weir_pool_desc pool() {
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.host_budget = 64 * mib;
    desc.page_size = desc.large_page_size = 2 * mib;
    return desc;
  }
  Rig rig_;
  std::vector<weir_buffer> buffers_;
};

void tell(Report &report, const Meaning &meaning, const std::vector<double> &busy,
          const std::vector<double> &idle, const std::function<void(Json &)> &extra) {
  Series series;
  for (const double each : busy) series.add(each, median(idle));
  report.figure(meaning, series, [&](Json &json) {
    json.number("p50_ratio", percentile(busy, 0.5) / percentile(idle, 0.5))
        .number("p99_ratio", percentile(busy, 0.99) / percentile(idle, 0.99));
    extra(json);
  });
}

/// Leases on `a` while it is full, and on `b` from another thread, until the gate is open.
class Channel {
 public:
  Channel(const Backend &backend, Resident &resident, Report &report)
      : resident_(resident),
        report_(report),
        a_(resident.rig().add_stream()),
        b_(resident.rig().add_stream()),
        plain_(backend, 4096),
        tiny_(backend, a_, plain_.address()) {}

  void measure(int repetitions) {
    for (int i = 0; i < 200; ++i) {
      idle_a_.push_back(resident_.lease_ns(0, a_));
      idle_b_.push_back(resident_.lease_ns(1, b_));
    }
    settle();
    for (int i = 0; i < repetitions; ++i) once();
    const auto say = [&](const char *stream, const std::vector<double> &busy,
                         const std::vector<double> &idle) {
      tell(report_,
           {"lease_full_channel",
            "acquire and release of a resident buffer while a stream has thousands of launches "
            "pending",
            "the same with idle streams", unit},
           busy, idle, [&](Json &json) {
             json.text("stream", stream)
                 .text("pending", tiny_.name())
                 .count("launches", pending)
                 .number("longest_launch_ms", longest_launch_ / 1e6)
                 .number("held_ms", held_ms);
           });
    };
    say("the full one", on_a_, idle_a_);
    say("another one, from another thread", on_b_, idle_b_);
  }

 private:
  void once() {
    gate_.close_on(a_);
    std::atomic<bool> stop{false};
    std::atomic<int> leases{0};
    std::thread other([&] {
      while (!stop.load()) {
        on_b_.push_back(resident_.lease_ns(1, b_));
        leases.fetch_add(1);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    for (int i = 0; i < pending; ++i) {
      const double start = now_ns();
      tiny_.enqueue();
      longest_launch_ = std::max(longest_launch_, now_ns() - start);
    }
    for (int i = 0; i < 3; ++i) on_a_.push_back(resident_.lease_ns(0, a_));
    while (leases.load() < 3) std::this_thread::yield();
    stop.store(true);
    gate_.open();
    other.join();
    settle();
  }
  void settle() {
    WEIR_BENCH_TRY(weir_stream_synchronize(a_));
    WEIR_BENCH_TRY(weir_stream_synchronize(b_));
  }

  Resident &resident_;
  Report &report_;
  const weir_stream a_, b_;
  const Plain plain_;
  Tiny tiny_;
  Gate gate_;
  std::vector<double> idle_a_, idle_b_, on_a_, on_b_;
  double longest_launch_ = 0;
};

}  // namespace

void measure_channel(const Settings &settings, const Backend &backend, Report &report) {
  constexpr Meaning none = {"lease_full_channel", "leases while a stream is full", "", unit};
  if (!backend.has(WEIR_CAP_HOST_CALL))
    return report.skipped(none, "the device runs no host functions, which hold the stream");
  // The tiny work goes into Weir's stream through a state of the backend of its own.
  if (settings.backend == "level_zero")
    return report.skipped(none, "a stream is of one context alone there");
  Resident resident(backend, 2, 16 * mib);
  Channel(backend, resident, report).measure(std::min(settings.repetitions, 5));
}

void measure_beside(const Settings &settings, const Backend &backend, Report &report) {
  constexpr int leases = 2000;
  constexpr double longest_ms = 10000;
  const uint64_t cold = std::max<uint64_t>(8, settings.bytes / 4 / (2 * mib));
  Resident resident(backend, 1, (cold + 8) * 2 * mib);
  Rig &rig = resident.rig();
  const weir_stream stream = rig.add_stream();
  std::vector<double> idle, busy;
  for (int i = 0; i < leases; ++i) {
    idle.push_back(resident.lease_ns(0, stream));
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  std::atomic<bool> stop{false};
  std::atomic<int> rounds{0};
  std::thread filler([&] {
    const weir_stream own = rig.stream();
    while (!stop.load()) {
      std::vector<weir_buffer> buffers;
      for (uint64_t i = 0; i < cold; ++i) {
        buffers.push_back(rig.add_buffer(2 * mib));
        rig.touch(own, buffers.back(), WEIR_DISCARD_WRITE);
      }
      rig.synchronize();
      for (weir_buffer buffer : buffers) WEIR_BENCH_TRY(weir_buffer_destroy(rig.pool(), buffer));
      uint64_t freed = 0;
      WEIR_BENCH_TRY(weir_pool_trim(rig.pool(), 0, WEIR_TRIM_GRADUAL, WEIR_WHOLE, &freed));
      rounds.fetch_add(1);
    }
  });
  while (rounds.load() == 0) std::this_thread::yield();
  // At the pace of a program that has work between its leases, or the device would have nothing to do but fences.
  const double until = now_ns() + longest_ms * 1e6;
  for (int i = 0; (i < leases || rounds.load() < 3) && now_ns() < until; ++i) {
    busy.push_back(resident.lease_ns(0, stream));
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  stop.store(true);
  filler.join();
  tell(report,
       {"lease_beside_fill",
        "acquire and release of a resident buffer while another thread brings up new ones cold",
        "the same in a pool at rest", unit},
       busy, idle, [&](Json &json) {
         json.count("pages_a_round", cold).count("rounds", static_cast<uint64_t>(rounds.load()));
       });
}

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered allocation: weir_malloc and weir_free on one stream against the CUDA driver's own pool on a stream of
// its own, and against the backend's plain memory, on one random sequence. bench/allocation_torch.py runs the same
// sequence through PyTorch's allocator: the generator below and the one there must stay the same.

#include "bench/device/cuda_driver.hpp"
#include "bench/device/report.hpp"

#include <cmath>
#include <functional>
#include <utility>

namespace weir::bench {
namespace {

constexpr size_t live = 200;
constexpr uint64_t smallest = 4 * kib;
constexpr int plain_pairs = 200;  ///< some runtimes wait for the device in each
constexpr const char *unit = "ns a pair";

/// Sizes, log-uniform, for slots: first every slot in turn, then pairs of a free and an allocation in a random slot.
class Sequence {
 public:
  Sequence(uint64_t largest, int pairs) {
    const double octaves = std::log2(static_cast<double>(largest) / smallest);
    const size_t count = live + static_cast<size_t>(pairs);
    for (size_t i = 0; i < count; ++i) {
      const size_t slot = i < live ? i : static_cast<size_t>(fraction() * live);
      const double size = static_cast<double>(smallest) * std::pow(2.0, octaves * fraction());
      steps_.emplace_back(slot, static_cast<uint64_t>(size));
    }
  }

  /// Nanoseconds of a pair. allocate(size) -> address, release(address), finish() waits for the device.
  template <class Allocate, class Release, class Finish>
  double run(Allocate &&allocate, Release &&release, Finish &&finish, size_t pairs) const {
    std::vector<uint64_t> slots(live);
    for (size_t i = 0; i < live; ++i) slots[i] = allocate(steps_[i].second);
    finish();
    const size_t end = live + std::min(pairs, steps_.size() - live);
    const double start = now_ns();
    for (size_t i = live; i < end; ++i) {
      uint64_t &slot = slots[steps_[i].first];
      release(slot);
      slot = allocate(steps_[i].second);
    }
    finish();
    const double each = (now_ns() - start) / static_cast<double>(end - live);
    for (const uint64_t address : slots) release(address);
    finish();
    return each;
  }
  size_t pairs() const { return steps_.size() - live; }

 private:
  /// In [0, 1): a linear congruential generator, so that Python can have the same.
  double fraction() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state_ >> 11U) * 0x1.0p-53;
  }

  uint64_t state_ = 1;
  std::vector<std::pair<size_t, uint64_t>> steps_;
};

class Allocation {
 public:
  Allocation(const Settings &settings, const Backend &backend, Report &report)
      : settings_(settings),
        backend_(backend),
        report_(report),
        sequence_(settings.allocation_max, settings.allocation_pairs),
        rig_(backend.context(), pool(), 64 * settings.allocation_max + 64 * mib),
        queue_(backend) {
    first_ = weir_ns(sequence_.pairs());
  }

  double weir_ns(size_t pairs) {
    return sequence_.run(
        [&](uint64_t size) {
          uint64_t address = 0;
          check(weir_malloc(rig_.pool(), 0, rig_.stream(), size, &address), "weir_malloc");
          return address;
        },
        [&](uint64_t address) {
          check(weir_free(rig_.pool(), rig_.stream(), address), "weir_free");
        },
        [&] { rig_.synchronize(); }, pairs);
  }

  void against_driver() {
    Meaning meaning = {"malloc_vs_driver", "weir_malloc and weir_free in stream order",
                       "cuMemAllocAsync and cuMemFreeAsync, the default pool keeping freed memory",
                       unit};
    if (settings_.backend != "cuda")
      return report_.skipped(meaning, "the driver's stream-ordered pool is CUDA's");
    std::string reason;
    const std::unique_ptr<CudaDriver> driver = CudaDriver::open(&reason);
    if (driver == nullptr) return report_.skipped(meaning, reason.c_str());
    void *stream = queue_.native();
    against(meaning, sequence_.pairs(), [&] {
      return sequence_.run([&](uint64_t size) { return driver->allocate(size, stream); },
                           [&](uint64_t address) { driver->free(address, stream); },
                           [&] { queue_.wait(); }, sequence_.pairs());
    });
  }

  void against_plain() {
    const weir_backend_table &table = backend_.table();
    // plain_free wants the size again: the address alone is what the sequence keeps.
    std::vector<std::pair<uint64_t, uint64_t>> sizes;
    against({"malloc_vs_plain", "weir_malloc and weir_free in stream order",
             "plain_allocate and plain_free of the backend, the stream idle", unit},
            plain_pairs, [&] {
              return sequence_.run(
                  [&](uint64_t size) {
                    uint64_t address = 0;
                    backend_.must(table.plain_allocate(backend_.state(), 0, size, 256, &address),
                                  "plain_allocate");
                    sizes.emplace_back(address, size);
                    return address;
                  },
                  [&](uint64_t address) {
                    const auto found =
                        std::find_if(sizes.begin(), sizes.end(),
                                     [address](const auto &one) { return one.first == address; });
                    backend_.must(table.plain_free(backend_.state(), 0, address, found->second),
                                  "plain_free");
                    *found = sizes.back();
                    sizes.pop_back();
                  },
                  [] {}, plain_pairs);
            });
  }

 private:
  static weir_pool_desc pool() {
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.host_budget = 64 * mib;
    return desc;
  }

  void against(const Meaning &meaning, size_t pairs, const std::function<double()> &yardstick) {
    Series series;
    for (int i = -1; i < settings_.repetitions; ++i) {
      const bool first = i % 2 == 0;
      const double before = first ? weir_ns(pairs) : 0;
      const double theirs = yardstick();
      const double ours = first ? before : weir_ns(pairs);
      if (i >= 0) series.add(ours, theirs);
    }
    report_.figure(meaning, series, [&](Json &json) {
      json.count("pairs", pairs)
          .count("live", live)
          .count("smallest_bytes", smallest)
          .count("largest_bytes", settings_.allocation_max)
          .number("first_pass_ratio", first_ / series.pair().subject);
    });
  }

  const Settings &settings_;
  const Backend &backend_;
  Report &report_;
  const Sequence sequence_;
  Rig rig_;
  const Queue queue_;
  double first_ = 0;  ///< of the pool's first pass, in which it takes its memory
};

}  // namespace

void measure_allocation(const Settings &settings, const Backend &backend, Report &report) {
  Allocation allocation(settings, backend, report);
  allocation.against_driver();
  allocation.against_plain();
}

}  // namespace weir::bench

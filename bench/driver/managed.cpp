// SPDX-License-Identifier: Apache-2.0
//
// Managed memory as the way that the vendor offers: prefetched to the device and back, and brought down by faults of the CPU.
// Never more than a quarter of what is free: more managed memory than the card has can hang it.

#include "bench/driver/driver.hpp"

namespace weir::bench {
namespace {

constexpr int of_cpu = -1;
constexpr double gib = 1024.0 * 1024 * 1024;

Json begin(const Driver &driver, const char *way, const char *how) {
  Json json = driver.begin("managed", "managed memory moved, in bytes a second",
                           "cuMemcpyAsync of as many bytes between pinned and plain device memory");
  json.text("way", way).text("memory", how);
  return json;
}

class Managed {
 public:
  Managed(const DriverSettings &settings, const Driver &driver, uint64_t bytes)
      : settings_(settings), driver_(driver), bytes_(bytes), copy_(driver, bytes) {
    constexpr unsigned global = 1;
    driver_.must(driver_.cuMemAllocManaged(&address_, bytes_, global), "cuMemAllocManaged");
    driver_.must(driver_.cuStreamCreate(&stream_, 1), "cuStreamCreate");
    touch();
  }
  ~Managed() {
    driver_.must(driver_.cuStreamDestroy(stream_), "cuStreamDestroy");
    driver_.must(driver_.cuMemFree(address_), "cuMemFree");
  }
  Managed(const Managed &) = delete;
  Managed &operator=(const Managed &) = delete;

  void measure() {
    std::vector<double> up, down, by_cpu, copy_up, copy_down;
    for (int i = -1; i < settings_.repetitions; ++i) {
      const double times[] = {prefetch(driver_.device()), prefetch(of_cpu)};
      (void)prefetch(driver_.device());
      const double touched = touch();
      const double copies[] = {copy_.up_ns(bytes_), copy_.down_ns(bytes_)};
      if (i < 0) continue;
      up.push_back(times[0]);
      down.push_back(times[1]);
      by_cpu.push_back(touched);
      copy_up.push_back(copies[0]);
      copy_down.push_back(copies[1]);
    }
    say("up", "prefetched", up, copy_up);
    say("down", "prefetched", down, copy_down);
    say("down", "faults of the CPU", by_cpu, copy_down);
  }

 private:
  double prefetch(int where) const {
    const double start = now_ns();
    driver_.must(driver_.cuMemPrefetchAsync(address_, bytes_, where, stream_),
                 "cuMemPrefetchAsync");
    driver_.must(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
    return now_ns() - start;
  }
  double touch() const {
    const double start = now_ns();
    volatile char *bytes = reinterpret_cast<volatile char *>(address_);
    for (uint64_t at = 0; at < bytes_; at += 4096) bytes[at] = 1;
    return now_ns() - start;
  }
  void say(const char *way, const char *how, const std::vector<double> &ours,
           const std::vector<double> &copies) const {
    std::vector<double> ratios, speeds, theirs;
    for (size_t i = 0; i < ours.size(); ++i) {
      ratios.push_back(copies[i] / ours[i]);
      speeds.push_back(static_cast<double>(bytes_) / ours[i] * 1e9 / gib);
      theirs.push_back(static_cast<double>(bytes_) / copies[i] * 1e9 / gib);
    }
    const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
    Json json = begin(driver_, way, how);
    json.count("mib", bytes_ / mib);
    driver_.say(json, {median(speeds), median(theirs), median(ratios), *low, *high}, ours.size(),
                "GiB/s");
  }

  const DriverSettings &settings_;
  const Driver &driver_;
  const uint64_t bytes_;
  const PlainCopy copy_;
  uint64_t address_ = 0;
  void *stream_ = nullptr;
};

}  // namespace

void measure_managed(const DriverSettings &settings, const Driver &driver) {
  constexpr int concurrent_managed_access = 89;
  const Json nothing = begin(driver, "both", "prefetched");
  if (driver.cuMemAllocManaged == nullptr || driver.cuMemPrefetchAsync == nullptr)
    return Driver::skip(nothing, "the driver has no managed memory");
  if (driver.attribute(concurrent_managed_access) == 0)
    return Driver::skip(nothing, "the device can't share managed memory with the CPU");
  size_t free_bytes = 0, total = 0;
  driver.must(driver.cuMemGetInfo(&free_bytes, &total), "cuMemGetInfo");
  // As much plain memory is held beside it, for the yardstick: a quarter each.
  const uint64_t bytes = std::min<uint64_t>(settings.bytes, free_bytes / 4) / (2 * mib) * (2 * mib);
  if (bytes == 0) return Driver::skip(nothing, "the device has no memory free");
  Managed(settings, driver, bytes).measure();
}

}  // namespace weir::bench

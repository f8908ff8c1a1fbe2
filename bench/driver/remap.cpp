// SPDX-License-Identifier: Apache-2.0
//
// What remapping leaves of the link's speed: granules leave one range of addresses and come into another, and each is copied to
// as soon as it is there, as a pool does that brings pages up into the memory of others. The yardstick is the same copies into
// memory that stays mapped. Beside it: the calls alone, and the same on two threads.

#include "bench/driver/driver.hpp"

#include <mutex>
#include <thread>

namespace weir::bench {
namespace {

constexpr const char *yardstick =
    "cuMemcpyAsync of as many bytes in pieces of one granule, into memory that stays mapped";
constexpr double gib = 1024.0 * 1024 * 1024;

enum class Way {
  copies,
  remap,
  remap_and_copy,
  remap_beside_copies_down,
  remap_on_two_threads,
  remap_in_turn
};

const char *words(Way way) {
  switch (way) {
    case Way::remap:
      return "unmap, map and give access, nothing copied";
    case Way::remap_on_two_threads:
      return "unmap, map and give access on two threads, nothing copied";
    case Way::remap_beside_copies_down:
      return "unmap, map and give access beside copies down of as many bytes of other memory";
    case Way::remap_in_turn:
      return "unmap, map and give access on two threads that take turns, nothing copied";
    case Way::remap_and_copy:
      return "unmap, map, give access and copy up, granule by granule";
    case Way::copies:
      break;
  }
  return "copy up";
}

/// Granules that are mapped in one of two ranges.
class Remapped {
 public:
  Remapped(const Driver &driver, uint64_t granule, uint64_t run, uint64_t bytes)
      : driver_(driver),
        granule_(granule),
        run_(run),
        count_(bytes / granule),
        copy_(driver, bytes) {
    const GranuleProperties wanted = driver.properties();
    for (uint64_t &base : ranges_)
      driver.must(driver.cuMemAddressReserve(&base, bytes, 0, 0, 0), "cuMemAddressReserve");
    granules_.resize(count_);
    for (uint64_t &each : granules_)
      driver.must(driver.cuMemCreate(&each, granule_, &wanted, 0), "cuMemCreate");
    for (uint64_t i = 0; i < count_; i += run_) map(i);
    driver.must(driver.cuStreamCreate(&stream_, 1), "cuStreamCreate");
  }
  ~Remapped() {
    for (uint64_t i = 0; i < count_; i += run_) unmap(i);
    for (const uint64_t each : granules_) driver_.must(driver_.cuMemRelease(each), "cuMemRelease");
    for (const uint64_t base : ranges_)
      driver_.must(driver_.cuMemAddressFree(base, granule_ * count_), "cuMemAddressFree");
    driver_.must(driver_.cuStreamDestroy(stream_), "cuStreamDestroy");
  }
  Remapped(const Remapped &) = delete;
  Remapped &operator=(const Remapped &) = delete;

  /// GiB/s.
  double once(Way way) {
    const double start = now_ns();
    if (way == Way::remap_beside_copies_down) {
      for (uint64_t i = 0; i < count_; ++i)
        driver_.must(
            driver_.cuMemcpyAsync(copy_.host_address() + i * granule_,
                                  copy_.device_address() + i * granule_, granule_, stream_),
            "cuMemcpyAsync");
    }
    if (way == Way::remap_on_two_threads || way == Way::remap_in_turn) {
      std::thread other([&] { part(way, 0, count_ / 2); });
      part(way, count_ / 2, count_);
      other.join();
    } else {
      part(way, 0, count_);
    }
    if (way != Way::copies) std::swap(ranges_[0], ranges_[1]);
    driver_.must(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
    return static_cast<double>(granule_ * count_) / (now_ns() - start) * 1e9 / gib;
  }

 private:
  uint64_t at(uint64_t i, int range) const { return ranges_[range] + i * granule_; }

  void unmap(uint64_t i) const {
    driver_.must(driver_.cuMemUnmap(at(i, 0), run_ * granule_), "cuMemUnmap");
  }
  void map(uint64_t i, int range = 0) const {
    for (uint64_t k = i; k < i + run_; ++k)
      driver_.must(driver_.cuMemMap(at(k, range), granule_, 0, granules_[k], 0), "cuMemMap");
    const Access who = {driver_.properties().place, read_write};
    driver_.must(driver_.cuMemSetAccess(at(i, range), run_ * granule_, &who, 1), "cuMemSetAccess");
  }
  void part(Way way, uint64_t from, uint64_t to) const {
    for (uint64_t i = from; i < to; i += run_) {
      if (way != Way::copies) {
        std::unique_lock turn(turn_, std::defer_lock);
        if (way == Way::remap_in_turn) turn.lock();
        unmap(i);
        map(i, 1);
      }
      for (uint64_t k = i; k < i + run_ && (way == Way::copies || way == Way::remap_and_copy); ++k)
        driver_.must(driver_.cuMemcpyAsync(at(k, way != Way::copies),
                                           copy_.host_address() + k * granule_, granule_, stream_),
                     "cuMemcpyAsync");
    }
  }

  const Driver &driver_;
  const uint64_t granule_, run_, count_;
  const PlainCopy copy_;  ///< its pinned memory is what is copied
  uint64_t ranges_[2] = {};
  std::vector<uint64_t> granules_;
  void *stream_ = nullptr;
  mutable std::mutex turn_;
};

}  // namespace

void measure_remapping(const DriverSettings &settings, const Driver &driver) {
  constexpr int vmm = 102;
  const auto begin = [&](Way way) { return driver.begin("driver_remap", words(way), yardstick); };
  if (driver.attribute(vmm) == 0)
    return Driver::skip(begin(Way::remap_and_copy), "the device has no virtual memory");
  struct Case {
    uint64_t granule, run;
  };
  for (const Case &of : {Case{2 * mib, 1}, Case{2 * mib, 16}, Case{4 * mib, 1}, Case{8 * mib, 1},
                         Case{32 * mib, 1}}) {
    const uint64_t unit = 2 * of.granule * of.run;  // for two threads
    Remapped subject(driver, of.granule, of.run,
                     std::max(settings.bytes / 2 / unit, uint64_t{1}) * unit);
    for (const Way way : {Way::remap, Way::remap_beside_copies_down, Way::remap_on_two_threads,
                          Way::remap_in_turn, Way::remap_and_copy}) {
      (void)subject.once(way);
      (void)subject.once(Way::copies);
      const Pair pair = interleave(
          settings.repetitions, [&] { return subject.once(way); },
          [&] { return subject.once(Way::copies); });
      Json json = begin(way);
      json.count("mib", of.granule / mib).count("granules_a_call", of.run);
      driver.say(json, pair, static_cast<size_t>(settings.repetitions), "GiB/s");
    }
  }
}

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
//
// The time that is left is shared evenly among the links that are left, so that what one does not need the others have.

#include "core/topology/calibrate.hpp"

#include "core/topology/link_bench.hpp"

#include <algorithm>
#include <bit>

namespace weir::topology {
namespace {

class Calibration {
 public:
  Calibration(const std::pmr::vector<Pair> &pairs, const CalibrateBounds &bounds,
              const Clock &clock, const CalibrateResult &each)
      : pairs_(pairs), bounds_(bounds), clock_(clock), each_(each), begin_(clock.now_ns()) {}

  CalibrateCounts run() {
    links_left_ = 2 * pairs_.size();
    for (const Pair &pair : pairs_) {
      if (time_left() == 0)
        counts_.skipped += 2;
      else
        measure(pair);
      links_left_ -= 2;
    }
    counts_.time_ns = clock_.now_ns() - begin_;
    return counts_;
  }

 private:
  uint64_t time_left() const noexcept {
    const uint64_t spent = clock_.now_ns() - begin_;
    return bounds_.time_ns - std::min(bounds_.time_ns, spent);
  }

  void measure(const Pair &pair) {
    LinkBench bench(*pair.a, pair.b, clock_);
    const Status opened = bench.open(std::bit_floor(bounds_.bytes / 2));
    for (uint32_t from = 0; from < 2; ++from) {
      const uint32_t a = pair.a->id, b = pair.b != nullptr ? pair.b->id : WEIR_DEVICE_HOST;
      Figure figure{from == 0 ? a : b, from == 0 ? b : a, 0, 0};
      Reading reading;
      const Status status =
          opened ? bench.measure(from, time_left() / (links_left_ - from), &reading) : opened;
      figure.bandwidth = reading.bandwidth;
      figure.latency_ns = reading.latency_ns;
      ++(status ? counts_.measured : counts_.failed);
      each_(status, figure);
    }
  }

  const std::pmr::vector<Pair> &pairs_;
  const CalibrateBounds bounds_;
  const Clock &clock_;
  const CalibrateResult &each_;
  const uint64_t begin_;
  uint64_t links_left_ = 0;
  CalibrateCounts counts_;
};

}  // namespace

CalibrateCounts calibrate(const std::pmr::vector<Pair> &pairs, const CalibrateBounds &bounds,
                          const Clock &clock, const CalibrateResult &each) {
  return Calibration(pairs, bounds, clock, each).run();
}

}  // namespace weir::topology

// SPDX-License-Identifier: Apache-2.0
//
// Figures: what was measured of links, by the numbers of the two devices. A value, ordered by its ends, so that the same
// figures are always written the same way.
#pragma once

#include <weir/types.h>

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::topology {

struct Figure {
  uint32_t from = 0, to = 0;  ///< a device's number, or WEIR_DEVICE_HOST
  uint64_t bandwidth = 0;     ///< bytes a second one way; never 0 of a link that was measured
  uint64_t latency_ns = 0;

  uint64_t key() const noexcept { return uint64_t{from} << 32U | to; }
  bool operator==(const Figure &) const noexcept = default;
};

class Figures {
 public:
  explicit Figures(std::pmr::memory_resource *memory) : all_(memory) {}

  /// A link's figure takes the place of an older one.
  void set(const Figure &figure) {
    const auto at = place(figure.key());
    if (at != all_.end() && at->key() == figure.key())
      *at = figure;
    else
      all_.insert(at, figure);
  }
  const Figure *find(uint32_t from, uint32_t to) const noexcept {
    const uint64_t key = Figure{from, to, 0, 0}.key();
    const auto at = std::lower_bound(all_.begin(), all_.end(), key, before);
    return at != all_.end() && at->key() == key ? &*at : nullptr;
  }
  size_t size() const noexcept { return all_.size(); }
  auto begin() const noexcept { return all_.begin(); }
  auto end() const noexcept { return all_.end(); }

 private:
  static bool before(const Figure &figure, uint64_t key) noexcept { return figure.key() < key; }
  std::pmr::vector<Figure>::iterator place(uint64_t key) noexcept {
    return std::lower_bound(all_.begin(), all_.end(), key, before);
  }
  std::pmr::vector<Figure> all_;
};

}  // namespace weir::topology

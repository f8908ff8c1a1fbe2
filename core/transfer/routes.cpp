// SPDX-License-Identifier: Apache-2.0
//
// Links, as the pool weighs them.

#include "core/transfer/routes.hpp"

#include <algorithm>

namespace weir::transfer {

int rank_of(uint32_t kind) noexcept {
  switch (kind) {
    case WEIR_LINK_NVLINK:
    case WEIR_LINK_INFINITY_FABRIC:
    case WEIR_LINK_XE:
    case WEIR_LINK_C2C:
      return 2;
    case WEIR_LINK_PCIE:
    case WEIR_LINK_NETWORK:
      return 1;
    default:
      return 0;
  }
}

void Routes::find(topology::Places &places, const std::pmr::vector<uint32_t> &ids) {
  count_ = ids.size();
  ways_.assign((count_ + 1) * (count_ + 1), Way{});
  if (count_ < 2) return;  // no route is asked for, and looking at a machine takes time
  for (size_t a = 0; a <= count_; ++a) {
    for (size_t b = 0; b <= count_; ++b) {
      if (a == b) continue;
      weir_link_info info = WEIR_LINK_INFO_INIT;
      const uint32_t from = a < count_ ? ids[a] : WEIR_DEVICE_HOST;
      const uint32_t to = b < count_ ? ids[b] : WEIR_DEVICE_HOST;
      if (!places.link(from, to, &info)) continue;
      const bool reach = a == count_ || b == count_ || places.find(ids[a])->has(WEIR_CAP_PEER);
      ways_[a * (count_ + 1) + b] = {info.bandwidth, info.latency_ns, info.kind,
                                     info.direct != 0 && reach};
    }
  }
}

Routes::Pace Routes::one_link(uint8_t a, uint8_t b) const noexcept {
  const size_t from = a != host ? a : count_, to = b != host ? b : count_;
  constexpr double assumed[] = {6e9, 12e9, 48e9};  // bytes a second: a middling link of the rank
  Pace slower;
  for (const Way &each : {way(from, to), way(to, from)}) {
    const double speed =
        each.bandwidth != 0 ? static_cast<double>(each.bandwidth) : assumed[rank_of(each.kind)];
    slower.byte = std::max(slower.byte, 1 / speed);
    slower.copy = std::max(slower.copy, static_cast<double>(each.latency_ns) * 1e-9);
  }
  return slower;
}

Routes::Pace Routes::pace(uint8_t a, uint8_t b) const noexcept {
  if (a == b) return {};
  if (a == host || b == host || direct(a, b)) return one_link(a, b);
  const Pace up = one_link(a, host), down = one_link(host, b);
  return {up.byte + down.byte, up.copy + down.copy};
}

bool Routes::better(const Way &a, const Way &b) noexcept {
  if (a.bandwidth != 0 && b.bandwidth != 0) return a.bandwidth > b.bandwidth;
  return rank_of(a.kind) > rank_of(b.kind);
}

int Routes::compare(uint8_t from, uint8_t a, uint8_t b) const noexcept {
  const uint64_t to_a = bandwidth(from, a), to_b = bandwidth(from, b);
  if (to_a > to_b && to_a - to_b > to_b / 50) return 1;
  if (to_b > to_a && to_b - to_a > to_a / 50) return -1;
  return 0;
}

bool Routes::beats_host(uint8_t from, uint8_t to) const noexcept {
  return direct(from, to) && better(way(from, to), way(from, count_)) &&
         better(way(to, from), way(count_, from));
}

}  // namespace weir::transfer

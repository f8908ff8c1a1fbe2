// SPDX-License-Identifier: Apache-2.0
//
// Links, as the pool weighs them.

#include "core/transfer/routes.hpp"

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
  if (count_ < 2) return;  // nobody asks, and looking at a machine takes its time
  for (size_t a = 0; a <= count_; ++a) {
    for (size_t b = 0; b <= count_; ++b) {
      if (a == b) continue;
      weir_link_info info = WEIR_LINK_INFO_INIT;
      const uint32_t from = a < count_ ? ids[a] : WEIR_DEVICE_HOST;
      const uint32_t to = b < count_ ? ids[b] : WEIR_DEVICE_HOST;
      if (!places.link(from, to, &info)) continue;
      Way &way = at(a, b);
      way.bandwidth = info.bandwidth;
      way.latency_ns = info.latency_ns;
      way.kind = info.kind;
      const bool reach = a == count_ || b == count_ || places.find(ids[a])->has(WEIR_CAP_PEER);
      way.direct = info.direct != 0 && reach;
    }
  }
}

bool Routes::better(const Way &a, const Way &b) noexcept {
  if (a.bandwidth != 0 && b.bandwidth != 0) return a.bandwidth > b.bandwidth;
  return rank_of(a.kind) > rank_of(b.kind);
}

bool Routes::beats_host(uint8_t from, uint8_t to) const noexcept {
  return direct(from, to) && better(at(from, to), at(from, count_)) &&
         better(at(to, from), at(count_, from));
}

}  // namespace weir::transfer

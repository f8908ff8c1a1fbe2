// SPDX-License-Identifier: Apache-2.0
//
// HostLeases: leases on CPU memory: streams of WEIR_DEVICE_HOST. The pages get their latest version in HOST, and the buffer
// one contiguous view of its slots, an alias of the same memory the devices copy from and to. The CPU has no
// queue to order things on, so acquire waits for the bytes, and release's fence has passed at once.
#pragma once

#include "core/acquire/cpu_copies.hpp"
#include "core/lease/layer.hpp"
#include "core/page/env.hpp"

namespace weir::acquire {

class HostLeases {
 public:
  HostLeases(const Env &env, const PageLayer &page, const LeaseLayer &lease, page::PageTable &pages,
             CpuCopies &cpu, Claims &claims, move::HostRoom &host_room) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        pages_(pages),
        cpu_(cpu),
        claims_(claims),
        host_room_(host_room) {}

  /// Claims the plan's items and brings their latest bytes to HOST, where they can be seen. On failure nothing is claimed.
  Status bring_to_host(Releasable &lock, move::Plan &plan) WEIR_HELD;

 private:
  Status page_to_host(Releasable &lock, const move::PlanItem &item, uint32_t page,
                      bool discard) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  page::PageTable &pages_;
  CpuCopies &cpu_;
  Claims &claims_;
  move::HostRoom &host_room_;
};

}  // namespace weir::acquire

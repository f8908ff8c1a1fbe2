// SPDX-License-Identifier: Apache-2.0
//
// DeviceMaker: devices with all that the pool keeps for them, from before the pool knows of one until all of it has been let go of. What
// a device's policy sees of the pages there is its own.
#pragma once

#include "core/lease/layer.hpp"
#include "core/move/prefetcher.hpp"
#include "core/move/relocator.hpp"
#include "core/page/env.hpp"
#include "core/page/sizes.hpp"

namespace weir::pool {

class DeviceMaker {
 public:
  struct Others {
    const page::Sizes &sizes;
    page::PageTable &pages;
    move::Relocator &relocator;
    move::Prefetcher &prefetcher;
  };
  DeviceMaker(const Env &env, const PageLayer &page, const LeaseLayer &lease,
              const Others &others) noexcept
      : env_(env), page_(page), lease_(lease), others_(others) {}

  /// With all it needs, and known to nobody yet. It may outlive the maker: a policy asks its view
  /// nothing as it ends.
  Status make(const page::EngineConfig::DeviceBudget &budget, uint8_t place,
              Owned<PoolDevice> *device);
  /// Takes every page off a device that is being let go of, whatever fails: fences, unmap, granules.
  void release(Releasable &lock, PoolDevice &device) noexcept WEIR_HELD;

 private:
  class DeviceView;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
};

}  // namespace weir::pool

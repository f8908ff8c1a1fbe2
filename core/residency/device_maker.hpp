// SPDX-License-Identifier: Apache-2.0
//
// DeviceMaker: devices with all that the pool keeps for them, from before the pool knows of one until all of it has been let go of. What
// a device's policy sees of the pages there is its own.
#pragma once

#include "core/residency/env.hpp"
#include "core/residency/prefetcher.hpp"
#include "core/residency/relocator.hpp"
#include "core/residency/sizes.hpp"

namespace weir::residency {

class DeviceMaker {
 public:
  struct Others {
    const Sizes &sizes;
    Relocator &relocator;
    Prefetcher &prefetcher;
  };
  DeviceMaker(const Env &env, const PageLayer &page, const LeaseLayer &lease,
              const Others &others) noexcept
      : env_(env), page_(page), lease_(lease), others_(others) {}

  /// With all it needs, and known to nobody yet. It may outlive the maker: a policy asks its view
  /// nothing as it ends.
  Status make(const EngineConfig::DeviceBudget &budget, uint8_t place, Owned<PoolDevice> *device);
  /// Takes every page off a device that is being let go of, whatever fails: fences, unmap, granules.
  void release(Releasable &lock, PoolDevice &device) noexcept WEIR_HELD;

 private:
  class DeviceView;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
};

}  // namespace weir::residency

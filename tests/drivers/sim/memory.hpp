// SPDX-License-Identifier: Apache-2.0
//
// Physical memory of the simulated devices. It is a piece of the device's memory file; memory that may leave the
// process is a file of its own, so that a descriptor of it keeps it, in whichever process, as vendors' do. It
// lives as long as anybody names it: a handle, a mapping, a copy at work.
#pragma once

#include "backends/host/memory.hpp"
#include "tests/drivers/sim/answer.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weir::sim {

/// How physical memory may leave the process; said when it is made. Any of share_*.
using Sharing = uint8_t;
inline constexpr Sharing share_none = 0, share_fd = 1, share_fabric = 2;

class Physical {
 public:
  Physical(uint32_t device, Sharing sharing, std::shared_ptr<host::Extent> room,
           std::shared_ptr<host::Extent> content) noexcept
      : device_(device), sharing_(sharing), room_(std::move(room)), content_(std::move(content)) {}

  uint32_t device() const noexcept { return device_; }
  uint64_t bytes() const noexcept { return content_->bytes(); }
  Sharing sharing() const noexcept { return sharing_; }
  /// The bytes, through a view of our own; never an address of the program.
  std::byte *content() const noexcept { return content_->physical(); }
  const host::Extent &extent() const noexcept { return *content_; }

 private:
  uint32_t device_;
  Sharing sharing_;
  std::shared_ptr<host::Extent> room_;  ///< what it takes of the device's memory; NULL if imported
  std::shared_ptr<host::Extent> content_;  ///< the same, or a file of its own
};

}  // namespace weir::sim

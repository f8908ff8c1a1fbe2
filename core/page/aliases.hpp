// SPDX-License-Identifier: Apache-2.0
//
// Aliases: contiguous CPU views of a region's slots in HOST, for leases on CPU memory. A view maps the same memory that devices
// copy from and to, so it shows a slot only while the page has it. Guarded by the pool's lock.
#pragma once

#include "core/base/status.hpp"
#include "core/page/buffer_directory.hpp"
#include "core/tier/host_store.hpp"

namespace weir::page {

class Aliases {
 public:
  explicit Aliases(BufferDirectory &buffers) noexcept : buffers_(buffers) {}

  /// Shows the slots that pages [first, last] have; pages without one are not accessible. Others may have leases on what it shows
  /// already: that stays mapped as it is, whatever happens here. OUT_OF_HOST_MEMORY, NOT_SUPPORTED.
  static Status show(const tier::HostStore &host, Region &region, uint32_t first,
                     uint32_t last) WEIR_HELD;
  /// A lease on CPU memory may be looking at the region's slots.
  bool in_use(const Region &region) noexcept WEIR_HELD;
  /// The page's slot must not be seen any more. A lease on other pages may be looking at the rest.
  void hide(Region &region, uint32_t page) noexcept WEIR_HELD;
  static void drop(Region &region) noexcept;

 private:
  BufferDirectory &buffers_;
};

}  // namespace weir::page

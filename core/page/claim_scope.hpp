// SPDX-License-Identifier: Apache-2.0
//
// ClaimScope: what a lease or a hold counts for where others conflict with it. Within one scope bytes conflict, between two scopes
// whole pages do, of which each has one latest version. It is no Place: the shards of a buffer are one memory on several devices, and
// a call that is to go before all of them counts everywhere.
#pragma once

#include "core/base/place.hpp"

namespace weir::page {

class ClaimScope {
 public:
  static constexpr ClaimScope on(Place device) noexcept { return ClaimScope(device.device()); }
  /// A sharded buffer's memory, on whichever of its devices.
  static constexpr ClaimScope shards() noexcept { return ClaimScope(Place::devices); }
  static constexpr ClaimScope host() noexcept { return ClaimScope(Place::devices + 1); }
  static constexpr ClaimScope any() noexcept { return ClaimScope(Place::devices + 2); }

  /// Whether the two conflict by bytes.
  constexpr bool meets(ClaimScope other) const noexcept {
    return *this == other || *this == any() || other == any();
  }
  constexpr bool operator==(const ClaimScope &) const noexcept = default;

 private:
  constexpr explicit ClaimScope(uint8_t scope) noexcept : scope_(scope) {}
  uint8_t scope_;
};

}  // namespace weir::page

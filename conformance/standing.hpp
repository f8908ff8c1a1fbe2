// SPDX-License-Identifier: Apache-2.0
//
// One good thing of each kind on a device, for calls that are made on them: those that must be refused, and those that must
// leave something of the caller's as it is. All of it is made, and ended, on one thread, as mapping asks.
#pragma once

#include "conformance/fixtures.hpp"
#include "conformance/process.hpp"
#include "conformance/registered.hpp"

#include <atomic>

namespace weir::conformance {

/// In the range of 8 units: [0, 2) is `two`, 3 is `one`, the rest is free.
class Standing {
 public:
  static constexpr uint64_t bytes = 256 * kib;  ///< of plain, pinned and registered memory

  Standing(Test &test, uint32_t on);
  Outcome make();
  /// All bytes and maps are as they were made, and what is free can be mapped.
  Outcome whole();
  /// A good call of every entry but start and stop.
  Outcome everything();

  bool has(uint64_t capabilities) const noexcept {
    return (about.capabilities & capabilities) == capabilities;
  }
  bool has_other(uint64_t capabilities) const noexcept {
    return other != UINT32_MAX && (about_other.capabilities & capabilities) == capabilities;
  }
  uint64_t at(uint64_t place) const noexcept { return range.address() + place * unit; }

  Test &t;
  const uint32_t device;
  const uint32_t other;        ///< another device; UINT32_MAX if there is none
  uint32_t peer = UINT32_MAX;  ///< one that reaches this one's memory, and the reverse
  weir_be_device about{}, about_other{};
  uint64_t unit = 0;

  Plain plain;
  Pinned pinned;
  Pages pages;
  Registered registered;
  Stream stream;
  void *native = nullptr;  ///< the stream's
  Fence fence;
  Granule two, one, idle, leaving, leaving_fabric;  ///< idle: of 2 units, mapped nowhere
  Range range, empty;                               ///< empty: 4 units
  Map map_of_two, map_of_one;
  Descriptor fd;  ///< of `leaving`
  weir_be_fabric_handle handle{};

 private:
  Outcome find_peer();
  Outcome make_granules();
  Outcome devices();
  Outcome memory();
  Outcome streams();
  Outcome granules();
  Outcome exports();
  Outcome runs();

  Mover mover_;
  std::atomic<uint32_t> called_{0};
};

}  // namespace weir::conformance

// SPDX-License-Identifier: Apache-2.0
//
// What requirements about memory walk: devices with what they say of themselves, and pairs of devices that reach
// each other. A failure names the device or the shape; a walk that finds nothing to look at returns that.
#pragma once

#include "conformance/fixtures.hpp"

#include <functional>
#include <string>
#include <vector>

namespace weir::conformance {

/// A device and how much of it a test may hold.
struct DeviceFacts {
  uint32_t index = 0;
  weir_be_device about{};
  uint64_t unit = 0;    ///< the granule; 0 without VMM
  uint64_t budget = 0;  ///< bytes
  uint64_t slack = 0;   ///< by how much its free memory may differ for the runtime's own reasons
  bool has(uint64_t capability) const noexcept {
    return (about.capabilities & capability) == capability;
  }
  /// Whether that many addresses can be reserved, as far as the device tells.
  bool has_addresses(uint64_t bytes) const noexcept {
    return about.address_space == 0 || bytes <= about.address_space / 2;
  }
};

/// All devices with the capabilities, the one under test first; Outcome::nothing if there is none.
Outcome devices_with(Test &t, uint64_t capabilities, std::vector<DeviceFacts> *devices);
/// Runs the body for each of them. Outcome::nothing if each body, if any, returned that.
Outcome each_device(Test &t, uint64_t capabilities,
                    const std::function<Outcome(const DeviceFacts &)> &body);
/// The outcome, with the shape in front of a failure's text.
Outcome in_shape(const std::string &shape, const Outcome &outcome);

/// Two devices that reach each other's memory.
struct DevicePair {
  DeviceFacts from, to;
};
/// All ordered pairs with PEER and the capabilities and a direct link both ways, each enabled both ways;
/// Outcome::nothing if there is none.
Outcome direct_pairs(Test &t, uint64_t capabilities, std::vector<DevicePair> *pairs);

/// After a refused call the thread has a code.
Outcome told_a_code(const Test &t, Site site = Site::current());
/// Free bytes of a device.
Outcome free_bytes_of(Test &t, uint32_t device, uint64_t *bytes, Site site = Site::current());

/// Puts the seed's pattern into the first and the last bytes of [address, address + bytes).
Outcome write_ends(Mover &mover, uint64_t address, uint64_t bytes, uint64_t seed,
                   Site site = Site::current());
/// And looks for it there.
Outcome check_ends(Mover &mover, uint64_t address, uint64_t bytes, uint64_t seed,
                   Site site = Site::current());
/// How many bytes of each end that is.
inline constexpr uint64_t end_bytes = 256;

}  // namespace weir::conformance

/// The call is refused because of a fault, or because the device can't do it: where more than one sentence forbids it.
#define REFUSED_ONE_WAY_OR_OTHER(entry, ...) \
  ANSWERS_EITHER(WEIR_ERROR_INVALID_ARGUMENT, WEIR_ERROR_NOT_SUPPORTED, entry, __VA_ARGS__)

// SPDX-License-Identifier: Apache-2.0
//
// The options of the host backend: how many devices, how large, and which capabilities they have.
// Parsing changes nothing on failure and says which key or value was wrong. It must never guess at
// a bad value.
#pragma once

#include <weir/backend.h>

#include <cstdint>
#include <string>

namespace weir::host {

/// When a mapping call fills the page tables, which makes memory that has no pages yet; else first use does, page by page.
enum class Prefault : uint64_t { never = 0, from_second = 1, always = 2 };

struct Options {
  uint32_t devices = 1;
  uint64_t memory = 0;  ///< bytes per device; after parsing a multiple of the granule, never 0
  uint64_t granule = uint64_t{2} << 20U;
  uint64_t granule_large = uint64_t{32} << 20U;  ///< 0 = none
  bool vmm = true;
  bool multi_map = true;
  bool map_part = true;
  bool peer = true;
  bool batch_copy = true;
  bool export_fd = true;
  bool host_call = true;
  bool any_thread = true;
  bool map_any_thread = true;
  bool host_register = true;
  bool map_may_block = false;  ///< mapping waits for the device's running work, as some runtimes do
  bool punch_hole = true;      ///< freed device memory goes back to the system
  Prefault prefault = Prefault::from_second;
  uint64_t link_bandwidth =
      0;  ///< bytes a second, device <-> host, each direction; 0 = as fast as memcpy
  uint64_t peer_bandwidth = 0;  ///< the same between two devices
  uint64_t link_latency_ns = 0;

  /// WEIR_CAP_* of every device.
  uint64_t capabilities() const noexcept;
};

/// Reads "key=value;key=value" over the defaults. On INVALID_ARGUMENT *reason tells the key and its
/// value.
weir_result parse_options(const char *text, Options *options, std::string *reason);

}  // namespace weir::host

// SPDX-License-Identifier: Apache-2.0
//
// The options of the host backend: how many devices, how large, and which capabilities they have.
// Parsing changes nothing on failure and says which key or value was wrong. It must never guess at
// a bad value.
#pragma once

#include <weir/backend.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::host {

/// When a mapping call fills the page tables, which makes memory that has no pages yet; else first use does, page by page.
enum class Prefault : uint64_t { never = 0, from_second = 1, always = 2 };

/// What the link between two ends is said to be, both ways; copies are held up by it only with link_slowdown.
struct LinkOption {
  uint32_t a = 0, b = 0;  ///< devices, or WEIR_DEVICE_HOST
  uint32_t kind = WEIR_LINK_NONE;
  uint32_t hops = 1;
  uint64_t bandwidth = 0;  ///< bytes a second one way; 0 = unknown
  uint64_t latency_ns = 0;
  bool direct =
      true;  ///< told, and what peer_enable answers; copies work either way, as far as peer= lets them
};

struct Options {
  uint32_t devices = 1;
  uint64_t memory = 0;  ///< bytes per device; after parsing a multiple of the granule, never 0
  uint64_t granule = uint64_t{2} << 20U;
  uint64_t granule_large = uint64_t{32} << 20U;  ///< 0 = none
  bool vmm = true;
  bool multi_map = true;
  bool map_part = true;
  bool peer = true;
  bool shared_range = true;  ///< a device's granule may be mapped in another's range
  bool map_run = true;
  bool access_later = true;     ///< peers can be given access to what is mapped
  bool transfer_stream = true;  ///< streams for copies alone can be made: they are like others
  bool batch_copy = true;
  bool export_fd = true;
  bool host_call = true;
  bool any_thread = true;
  bool map_any_thread = true;
  bool host_register = true;
  bool map_may_block = false;  ///< mapping waits for the device's running work, as some runtimes do
  bool punch_hole = true;      ///< freed device memory goes back to the system
  /// Else copies and fills take their links' time and move nothing, nothing is mapped, and no memory is used.
  bool contents = true;
  Prefault prefault = Prefault::from_second;
  uint64_t link_bandwidth =
      0;  ///< bytes a second, device <-> host, each direction; 0 = as fast as memcpy
  uint64_t peer_bandwidth = 0;  ///< the same between two devices
  uint64_t link_latency_ns = 0;
  // What a machine that is rehearsed looks like; each list is empty or has one entry a device.
  std::vector<std::string> names;     ///< "" = the usual name
  std::vector<std::string> pci;       ///< "" = none
  std::vector<uint32_t> numa;         ///< UINT32_MAX = unknown
  std::vector<uint32_t> memory_with;  ///< the first device whose memory it has; of most itself
  std::vector<uint32_t> integrated;   ///< devices that say that their memory is the host's
  std::vector<LinkOption> links;      ///< those that are not as link_bandwidth and the like say
  uint64_t link_slowdown =
      0;  ///< how many times slower than told copies on `links` are; 0 = as memcpy
  std::optional<int> link_log;  ///< descriptor of the file to which links tell when they were busy

  /// WEIR_CAP_* of every device.
  uint64_t capabilities() const noexcept;
};

/// Reads "key=value;key=value" over the defaults. On INVALID_ARGUMENT *reason tells the key and its
/// value.
weir_result parse_options(const char *text, Options *options, std::string *reason);

}  // namespace weir::host

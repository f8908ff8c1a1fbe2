// SPDX-License-Identifier: Apache-2.0
//
// The options of the simulated machine, as control.h describes them. A bad one is refused with a sentence;
// nothing is guessed.
#pragma once

#include <cstdint>
#include <string>

namespace weir::sim {

/// The most devices a machine may have: sets of devices are one word.
inline constexpr uint32_t max_devices = 64;

enum class Topology : uint8_t { none, pcie, nvlink, ring };

struct Options {
  uint32_t devices = 1;
  uint64_t memory = uint64_t{256} << 20;
  uint64_t granule = uint64_t{2} << 20;
  bool strict = false;
  uint32_t version = 0;  ///< 0: the newest that the driver knows
  bool vmm = true, peer = true, batch_copy = true, export_fd = true, export_fabric = false;
  bool host_call = true, integrated = false, memfd = true;
  bool rdma = true, vmm_context = false, serial_host_calls = true;
  uint32_t compute = 9;            ///< major number of what CUDA calls the compute capability
  uint64_t reserve_alignment = 0;  ///< the most that reservations keep to; 0: any
  Topology links = Topology::pcie;
  uint64_t link_bandwidth = 0, peer_bandwidth = 0, link_latency_ns = 0;
  uint64_t call_latency_ns = 0, map_latency_ns = 0;
  uint64_t channel_depth = 0;  ///< entries of a stream that may be pending; 0 = any number
  std::string hang;            ///< the call that never returns; "" = none
};

/// Reads "key=value;key=value" (NULL = none) over the defaults. "" or what was wrong.
std::string parse_options(const char *text, Options *options);

/// Whether two devices are joined by NVLink (or what the vendor has in its place).
bool linked(const Options &options, uint32_t a, uint32_t b) noexcept;

}  // namespace weir::sim

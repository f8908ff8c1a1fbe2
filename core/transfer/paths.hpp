// SPDX-License-Identifier: Apache-2.0
//
// Paths: which ways a copy between two devices of a pool could go, how long each would take, and which to take. A pure
// model over the Routes it was made from: it copies nothing, holds nothing of the engine's, and may be made anew from
// other Routes at any time under its caller's lock. Devices are named by their position in the pool.
//
// A path is direct (A to B), through one device that both reach (A to R to B), or through pinned memory of the host. Its
// time for n bytes in chunks of c is Hockney's latency plus bytes by bandwidth, for hops that work at once on different chunks:
//
//   direct    latency + n / b
//   two hops  latency1 + latency2 + c / b_fast + n / b_slow + (n / c) step
//
// c / b_fast is the pipeline's filling (the first chunk must pass the faster hop alone), and `step` what a chunk costs
// beside its bytes: two copies, two fences and two waits have to be enqueued. The chunk is the c that makes it least,
// sqrt(n step b_fast), in steps of 64 KiB from 64 KiB to 1 MiB. Shares of several paths are such that all end at once.
//
// Paths are only taken together if they share no link. Of links between two devices that is plain; but all PCIe links of a
// device are one slot's, and a device all of whose links of a vendor's fabric are equally fast (three or more devices) may well
// stand at a switch: then its figures are each the whole port's. Both count as one port each way.
//
// Sources: R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20 (1994) 389-398
// (alpha-beta); A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman, "LogGP", SPAA 1995 (a cost per message beside that per
// byte); A. Sojoodi, Y. H. Temucin, A. Afsahi and others, arXiv:2604.22228 (several paths between GPUs of a node,
// through other GPUs and the host, at once).
#pragma once

#include "core/transfer/routes.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace weir::transfer {

/// One path's part of a copy.
struct Share {
  static constexpr uint8_t direct = 255, host = 254;
  uint8_t via = direct;  ///< or the device in between
  uint64_t bytes = 0;
  uint64_t chunk = 0;  ///< what a piece should have; as large as the share where there is one hop
  bool device() const noexcept { return via < host; }
};

/// How a copy goes: the shares in the order of the bytes, the first with what the steps leave over.
struct Ways {
  static constexpr size_t most = 4;
  std::array<Share, most> shares{};
  uint8_t count = 0;
  double ns = 0;  ///< how long it takes, by the model

  bool plain() const noexcept { return count == 1 && shares[0].via == Share::direct; }
  bool split() const noexcept { return count > 1; }
  /// Whether all of it passes from device to device.
  bool past_host() const noexcept {
    for (size_t i = 0; i < count; ++i)
      if (shares[i].via == Share::host) return false;
    return true;
  }
};

/// From how many bytes on a copy may be split, and the least of a path's share. Other than these only in tests, which then
/// need not move as much.
struct SplitSizes {
  uint64_t whole = uint64_t{8} << 20U, share = uint64_t{2} << 20U;
};

class Paths {
 public:
  static constexpr uint64_t unit = uint64_t{64} << 10U;
  static constexpr uint64_t largest_chunk = uint64_t{1} << 20U;
  static constexpr uint64_t least_split = SplitSizes{}.whole, least_share = SplitSizes{}.share;
  /// What a split, or a path that is not the direct one, must gain to be taken.
  static constexpr double worth = 1.15;
  static constexpr double step_ns = 4000;
  /// Taken for the latency of a hop where that is unknown.
  static constexpr double usual_latency_ns = 10'000;
  static constexpr size_t most_devices = 32;

  void find(const Routes &routes, const SplitSizes &sizes = {});

  /// The ways to take for so many bytes (at least 1). `relays`: a bit for each device that may stand in between; `direct`: whether
  /// the direct link may be used, if there is one (memory that was mapped before a device joined is not open to it).
  Ways choose(uint8_t from, uint8_t to, uint64_t bytes, uint32_t relays,
              bool direct = true) const noexcept;
  /// How long a copy of HOST's to the device takes.
  double from_host_ns(uint8_t to, uint64_t bytes) const noexcept;

 private:
  /// Which port of a device a path leaves or enters by; paths by the same port are not taken together.
  enum class Port : uint8_t { own, slot, fabric };
  struct Hop {
    double bytes_per_ns = 0, latency_ns = 0;
    Port port = Port::own;
    bool known = false;
  };
  struct Path {
    uint8_t via = Share::direct;
    Hop first, second;  ///< the same one if direct
    bool direct() const noexcept { return via == Share::direct; }
    bool known() const noexcept { return first.known && second.known; }
    double fast() const noexcept { return std::max(first.bytes_per_ns, second.bytes_per_ns); }
    double slow() const noexcept { return std::min(first.bytes_per_ns, second.bytes_per_ns); }
    Port leaves() const noexcept { return first.port; }
    Port enters() const noexcept { return second.port; }
    uint64_t chunk(uint64_t bytes) const noexcept;
    /// What does not grow with the bytes, and what does, at a chunk's size.
    double fixed_ns(uint64_t chunk) const noexcept;
    double byte_ns(uint64_t chunk) const noexcept;
    double ns(uint64_t bytes) const noexcept;
  };
  struct List {
    std::array<Path, most_devices + 2> paths;
    size_t count = 0;
  };
  struct Search;

  Hop hop(size_t from, size_t to) const noexcept;
  List list(uint8_t from, uint8_t to, uint32_t relays, bool direct) const noexcept;
  bool at_switch(size_t device) const noexcept;
  static bool together(const Path &a, const Path &b) noexcept;
  bool divide(const Path *const *paths, size_t count, uint64_t bytes, Ways *ways) const noexcept;
  void search(Search &search, size_t from, size_t taken) const noexcept;

  Routes routes_;
  SplitSizes sizes_;
  std::array<bool, most_devices> switched_{};
  std::array<double, 3> usual_{};  ///< bytes per ns of a link of a rank whose bandwidth is unknown
  double slowest_ = 0;             ///< the same of one to the host
};

}  // namespace weir::transfer

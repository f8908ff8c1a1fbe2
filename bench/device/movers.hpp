// SPDX-License-Identifier: Apache-2.0
//
// Two ways to move the same bytes between a device and pinned host memory: pages of a Weir pool, and plain copies through
// the backend's table. Both are told in pages of one size. Bytes are checked: a page that comes back wrong ends the program.
#pragma once

#include "bench/device/device.hpp"

#include <vector>

namespace weir::bench {

/// Plain copies between one piece of device memory and one of pinned host memory, each way on a stream of its own.
class Copies {
 public:
  Copies(const Settings &settings, const Backend &backend);
  double down_ns() const { return run(true, false); }
  double up_ns() const { return run(false, true); }
  /// All bytes down and, at the same time, as many others up.
  double both_ns() const { return run(true, true); }

 private:
  double run(bool down, bool up) const;

  const uint64_t bytes_;
  const uint64_t page_;
  Pinned host_down_, host_up_;
  Plain device_down_, device_up_;
  Queue down_, up_;
};

/// What a step moved, and how long it took.
struct Moved {
  uint64_t bytes = 0;
  double ns = 0;
  /// Scaled to as many bytes: a page may have moved ahead of the step or may follow it.
  double ns_for(uint64_t other_bytes) const {
    return ns * static_cast<double>(other_bytes) / static_cast<double>(bytes);
  }
};

/// Two sets of pages, `data` and `other`, in a pool with device memory for one and a little more; HOST has room for both.
/// `per_lease` buffers are acquired at once, each of as many pages as the settings say.
class Cycle {
 public:
  Cycle(const Settings &settings, const Backend &backend, uint64_t per_lease);

  /// All data resident, newer than any copy in HOST, and marked.
  void make_dirty();
  /// The other pages take the room, and nothing of theirs is needed: only data moves. Pages that are clean need no copy.
  Moved evict(bool clean);
  /// The other pages are dropped first, so that nothing but data moves.
  Moved restore();
  /// Data leaves by a trim, and its granules are destroyed.
  Moved evict_for_good(bool clean);
  /// Device memory that is idle goes back to the runtime, so that the next restore has to create granules.
  void give_back_idle();
  /// One set goes down, dirty, while the other comes up and is written. Counts both ways.
  Moved exchange();
  /// Both sets have contents, and data is resident.
  void fill_both();
  void verify();

 private:
  using Set = std::vector<weir_buffer>;
  static weir_pool_desc pool(const Settings &settings);
  void lease(const Set &set, uint32_t mode);
  void forget(const Set &set);
  uint64_t trim(uint32_t level);

  const uint64_t bytes_;
  const uint64_t page_;
  const uint64_t buffer_;  ///< bytes of one: settings.run pages
  const uint64_t per_lease_;
  Rig rig_;
  Set data_, other_;
  uint64_t mark_ = 1;
};

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
//
// Places: the devices that the started backends offer, numbered across backends, and the machine they are in. What a
// backend says of its devices is asked for each time; what the machine adds is found out once: when the context is made if
// a file is named, else when it is first needed, because looking takes its time. What was measured counts more than both,
// here and now or in an earlier run; its files are read at the first question about a link. Devices never change after the
// context has been made.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/base/memory.hpp"
#include "core/base/mutex.hpp"
#include "core/topology/machine.hpp"
#include "core/topology/measured.hpp"
#include "core/topology/settings.hpp"

#include <atomic>
#include <functional>
#include <vector>

namespace weir::topology {

/// Whether both are of one card, which one backend offers.
bool of_one_card(const backend::Device &a, const backend::Device &b) noexcept;

/// What a device is of the card that it is on.
struct Card {
  uint32_t parent;      ///< the first device of its backend on that card
  uint32_t partition;   ///< how many come before it there
  uint32_t partitions;  ///< how many there are
};

struct CalibrateBounds {
  uint64_t time_ns = 0;  ///< a pair of ends that is not begun within it is left out
  uint64_t bytes = 0;    ///< that may be held at once, both ends together
};

/// How many links were measured, failed and so on; each way of a link counts by itself.
struct CalibrateCounts {
  uint32_t measured = 0, failed = 0, skipped = 0;
  uint64_t time_ns = 0;
};

class Places {
 public:
  Places(std::pmr::memory_resource *memory, const Log &log)
      : memory_(memory), log_(log), devices_(memory), ends_(memory), measured_(memory) {}

  /// Adds the devices of a started runtime, which was given these options. On failure none of them is added.
  Status add(backend::Runtime &runtime, uint32_t backend, std::string_view options);
  uint32_t count() const noexcept { return static_cast<uint32_t>(devices_.size()); }
  const backend::Device *find(uint32_t id) const noexcept {
    return id < devices_.size() ? devices_[id].get() : nullptr;
  }

  /// Before backends are started: reads the file, if one is named, and writes the host backend's options if the machine
  /// is rehearsed. INVALID_ARGUMENT names the file and what is wrong.
  Status prepare(const Settings &settings, std::pmr::string *host_options);
  /// Called when all backends have been added.
  Status complete();

  /// Either side may be WEIR_DEVICE_HOST; both have been checked to exist.
  Status link(uint32_t from, uint32_t to, weir_link_info *info);
  Card card(const backend::Device &device) const noexcept;
  /// The system's number of the device's node, or UINT32_MAX.
  uint32_t numa_node(const backend::Device &device);
  /// The machine with all devices in it, for as long as the call lasts.
  void with_machine(const std::function<void(Machine &)> &use);

  /// Measures every link between a device and the host, and between two devices that reach each other. `save`: and writes
  /// what is known to the cache, as far as the context has one; that this fails is the only failure but BUSY, which is
  /// the answer while another thread calibrates.
  Status calibrate(const CalibrateBounds &bounds, bool save, const Clock &clock,
                   CalibrateCounts *counts, uint32_t *files);
  /// Where measured figures are saved, "" if nowhere. It stays until the context ends.
  const char *cache_folder();

 private:
  /// Two ends whose links, both ways, are to be measured.
  struct Pair {
    const backend::Device *a;
    const backend::Device *b;  ///< nullptr: the host; else of the same backend as `a`
  };
  bool wants_machine(const backend::Device *device) const noexcept;
  Machine &machine() WEIR_REQUIRES(mutex_);
  void merge(Owned<Machine> machine) WEIR_REQUIRES(mutex_);
  void merge_device(const backend::Device &device, Machine *machine) WEIR_REQUIRES(mutex_);
  uint32_t place_of(const backend::Device &device, Machine *machine) const WEIR_REQUIRES(mutex_);
  bool each_is_listed(const backend::Device &device, const Machine &machine) const;
  bool taken(uint32_t place, uint32_t backend) const noexcept WEIR_REQUIRES(mutex_);
  uint32_t sharing(const backend::Device *a, const backend::Device *b) const noexcept;
  void merge_links(Machine *machine) const WEIR_REQUIRES(mutex_);
  uint32_t end(uint32_t id) const noexcept WEIR_REQUIRES(mutex_) {
    return id < ends_.size() ? ends_[id] : host_end;
  }
  Status reported(uint32_t from, uint32_t to, Link *link) const;
  void load_cache();
  void record(const Figures::value_type &figure, Machine *machine) const WEIR_REQUIRES(mutex_);
  void links_to_measure(std::pmr::vector<Pair> *pairs, CalibrateCounts *counts) const;

  std::pmr::memory_resource *memory_;
  const Log &log_;
  std::pmr::vector<Owned<backend::Device>> devices_;
  RankedMutex<Rank::leaf> mutex_;
  Owned<Machine> machine_ WEIR_GUARDED_BY(mutex_);
  /// For each device its index in the machine.
  std::pmr::vector<uint32_t> ends_ WEIR_GUARDED_BY(mutex_);
  std::atomic<bool> merged_{false};
  /// Its figures change with the mutex held, and only by the thread that calibrates, which saves them without it; the folder is known once
  /// `loaded_` is set.
  Measured measured_;
  std::atomic<bool> loaded_{false};  ///< the cache was looked at, or is not to be
  std::atomic<bool> calibrating_{false};
  bool rehearse_ = false;
  bool cache_ = true;
};

}  // namespace weir::topology

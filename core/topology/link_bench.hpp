// SPDX-License-Identifier: Apache-2.0
//
// LinkBench: the two ends of one link with memory and streams of its own, on which copies are timed. It takes what it needs
// from the backend's table when it is opened and gives all of it back when it ends, whatever failed in between; copies that
// it enqueued have ended by then.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/clock.hpp"
#include "core/topology/machine.hpp"

#include <array>

namespace weir::topology {

class LinkBench {
 public:
  /// The least memory that an end can do with.
  static constexpr uint64_t least_bytes = uint64_t{64} << 10U;

  /// `b` may be nullptr: the host; else it is of the same backend as `a`.
  LinkBench(const backend::Device &a, const backend::Device *b, const Clock &clock) noexcept
      : backend_(a), ends_{End{&a}, End{b}}, clock_(clock) {}
  ~LinkBench();
  LinkBench(const LinkBench &) = delete;
  LinkBench &operator=(const LinkBench &) = delete;

  /// Takes up to `bytes`, a power of two and at least least_bytes, at each end; less where there is no room.
  Status open(uint64_t bytes);
  /// Measures the way from ends_[from] to the other. It takes about budget_ns at most, but no less than a few small copies need.
  Status measure(uint32_t from, uint64_t budget_ns, Reading *reading);

 private:
  struct End {
    const backend::Device *device = nullptr;  ///< nullptr: the host
    weir_be_stream stream = nullptr;
    uint64_t address = 0;
    void *pinned = nullptr;
  };

  /// An entry of the table that both ends have.
  template <class Entry, class... Values>
  Status call(const char *name, Entry weir_backend_table::*entry, Values... values) const noexcept {
    return backend_.check((backend_.table().*entry)(backend_.state(), values...), name);
  }
  Status take(uint64_t bytes);
  void give_back() noexcept;
  Status fill(const End &end) const;
  Status time(uint32_t from, uint64_t total, uint64_t *ns) const;
  Status find_latency(uint32_t from, uint64_t budget_ns, uint64_t *latency_ns) const;
  Status find_bandwidth(uint32_t from, uint64_t budget_ns, uint64_t *bandwidth) const;

  const backend::Device &backend_;  ///< by which both ends are reached
  std::array<End, 2> ends_;
  const Clock &clock_;
  uint64_t bytes_ = 0;  ///< at each end
};

}  // namespace weir::topology

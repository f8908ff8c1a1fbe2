// SPDX-License-Identifier: Apache-2.0
//
// Simulated links: how long a copy of so many bytes would take over a path of given bandwidth and latency.
// A meter hands out stretches of the link's time in the order asked, so that all its users together never
// exceed the bandwidth. It computes times and does not wait; waiting is wait_until's.
#pragma once

#include "backends/host/link_log.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace weir::host {

/// Monotonic time in nanoseconds.
uint64_t now_ns() noexcept;
/// Sleeps until shortly before `deadline_ns`, then spins up to it: for `spin_ns`, which is what a sleep commonly overshoots by.
void wait_until(uint64_t deadline_ns, uint64_t spin_ns = 20'000) noexcept;

class LinkMeter {
 public:
  LinkMeter() = default;
  LinkMeter(const LinkMeter &) = delete;
  LinkMeter &operator=(const LinkMeter &) = delete;
  /// Both are one link from now on: their copies take turns, each with its own meter's bandwidth. Before anything is booked.
  void share(LinkMeter &other) noexcept { line_ = other.line_; }
  void configure(uint64_t bandwidth, uint64_t latency_ns) noexcept {
    bandwidth_ = bandwidth;
    latency_ns_ = latency_ns;
  }
  /// What is booked from now on is noted there.
  void note_in(LinkLog *log) noexcept { log_ = log; }
  bool active() const noexcept { return bandwidth_ != 0 || latency_ns_ != 0; }
  uint64_t bandwidth() const noexcept { return bandwidth_; }
  uint64_t latency_ns() const noexcept { return latency_ns_; }

  /// Books `bytes` not before `ready_ns`; returns when the last byte has arrived.
  uint64_t book(uint64_t bytes, uint64_t ready_ns, bool with_latency) noexcept;

 private:
  uint64_t bandwidth_ = 0, latency_ns_ = 0;
  LinkLog *log_ = nullptr;  // not owned
  std::atomic<uint64_t> free_at_{0};
  std::atomic<uint64_t> *line_ = &free_at_;  // of the link; another meter's where they share one
};

/// What a path is said to be where that was given; `given` is false elsewhere.
struct PathFacts {
  bool given = false, direct = true;
  uint32_t kind = 0, hops = 1;
  uint64_t bandwidth = 0, latency_ns = 0;
};

/// The meters of all paths: one per device and direction to the host, one per ordered pair of devices.
class Links {
 public:
  Links(uint32_t devices, uint64_t host_bandwidth, uint64_t peer_bandwidth, uint64_t latency_ns);
  Links(const Links &) = delete;
  Links &operator=(const Links &) = delete;
  /// Writes what log_to() asked for.
  ~Links();
  /// What copies take of the paths' time goes to this file in the end: a line for each stretch of it, and "end" after the last. False:
  /// it is not open. Before anything is booked.
  bool log_to(int file);
  /// The path, or NULL where copies are not held up. Either end may be WEIR_DEVICE_HOST.
  LinkMeter *path(uint32_t from, uint32_t to) noexcept;
  /// What the path is said to have; zeros within a device.
  void describe(uint32_t from, uint32_t to, uint64_t *bandwidth,
                uint64_t *latency_ns) const noexcept;

  /// `cards` has of each device the first that is on the same card. What joins two cards, or one to the host, is one link;
  /// what joins two devices of a card is their own.
  void share(const std::vector<uint32_t> &cards);

  /// Gives a path, both ways, what it is said to be; copies on it take `slowdown` times as long as that, or with 0 as long
  /// as a memcpy. Before anything is copied.
  void set(uint32_t a, uint32_t b, const PathFacts &facts, uint64_t slowdown);
  const PathFacts &facts(uint32_t from, uint32_t to) const noexcept {
    return facts_[index(from, to)];
  }

 private:
  size_t index(uint32_t from, uint32_t to) const noexcept;
  void write_log() const;
  LinkMeter *meter(uint32_t from, uint32_t to) const noexcept;
  uint32_t devices_;
  std::unique_ptr<LinkMeter[]> meters_;  // (devices + 1) squared, the host last
  std::vector<PathFacts> facts_;         // the same
  std::unique_ptr<LinkLog[]> logs_;      // the same; none without log_to()
  int log_file_ = -1;                    // its own
};

}  // namespace weir::host

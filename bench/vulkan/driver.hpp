// SPDX-License-Identifier: Apache-2.0
//
// The yardsticks of moved pages: what the driver itself takes for as many bytes in such pieces. Either the copies alone, in one
// command buffer that was recorded before, one submission and a wait; or the least that moving pages asks of it where they are
// mapped: memory bound at other addresses besides. On plain memory it asks for nothing else.
#pragma once

#include "bench/vulkan/engine.hpp"

namespace weir::bench {

inline double gib_per_s(double bytes, double ns) {
  return bytes / ns * 1e9 / (1024.0 * 1024 * 1024);
}

/// CPU time of all threads: on a driver that copies by the CPU the copies are in it.
inline double process_ns() {
  timespec used{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

/// GiB a second by the clock, and a second of the CPUs.
struct Speed {
  double clock = 0, cpu = 0;
};

class DriverCopies {
 public:
  DriverCopies(const Settings &settings, const Backend &backend);
  ~DriverCopies();
  DriverCopies(const DriverCopies &) = delete;
  DriverCopies &operator=(const DriverCopies &) = delete;

  Speed down() { return run(down_); }
  Speed up() { return run(up_); }
  /// Whether pages are mapped, here and in the backend.
  bool mapped() const { return mapped_; }
  Speed least_down();
  Speed least_up();

 private:
  VkCommandBuffer record(const OwnBuffer &from, const OwnBuffer &to);
  Speed run(VkCommandBuffer commands) {
    return timed([&] { work(commands); });
  }
  void work(VkCommandBuffer commands);
  /// All of the sparse buffer, a buffer of Weir's at a time.
  void bind(bool there);
  template <class Work>
  Speed timed(Work &&work) const {
    const double start = now_ns(), used = process_ns();
    work();
    const double ns = now_ns() - start, cpu_ns = process_ns() - used;
    const auto bytes = static_cast<double>(bytes_);
    return {gib_per_s(bytes, ns), gib_per_s(bytes, cpu_ns)};
  }

  const uint64_t bytes_, page_, piece_;
  Engine engine_;
  const bool mapped_;
  OwnBuffer host_, device_, sparse_;
  VkCommandBuffer down_, up_, least_down_, least_up_;
};

}  // namespace weir::bench

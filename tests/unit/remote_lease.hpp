// SPDX-License-Identifier: Apache-2.0
//
// What the tests of leases on another device's memory share: two devices that reach each other, uses with the flag, and a
// barrier that holds a stream's work.
#pragma once

#include "tests/unit/interleaving.hpp"

#include <condition_variable>
#include <mutex>
#include <string>

namespace weir::test {

inline constexpr const char *near_devices =
    "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=2;"
    "host.links=0-1:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G";
inline const uint64_t lease_bytes = 4 * page_bytes;

inline Setup two(const char *options = near_devices, uint64_t device_pages = 16,
                 uint64_t flags = WEIR_POOL_NO_BACKGROUND | WEIR_POOL_NO_PEER) {
  Setup setup;
  setup.options = options;
  setup.device_pages = device_pages;
  setup.devices = 2;
  setup.flags = flags;
  return setup;
}

inline weir_use remote_use(weir_buffer buffer, uint32_t mode) {
  weir_use use = WEIR_USE(buffer, mode);
  use.flags = WEIR_USE_ALLOW_REMOTE;
  return use;
}

inline weir_result acquire_remote(World &world, weir_buffer buffer, uint32_t mode,
                                  weir_lease *lease, uint64_t *address = nullptr,
                                  uint32_t device = 0) {
  weir_use use = remote_use(buffer, mode);
  const weir_result result =
      weir_acquire(world.pool, world.streams[device], &use, 1, nullptr, lease);
  if (address != nullptr) *address = use.address;
  return result;
}

/// One kernel of device 0's stream on the buffer, with the flag. Returns the address it had.
inline uint64_t use_remote(World &world, weir_buffer buffer, uint64_t bytes, uint32_t mode,
                           uint32_t seed) {
  weir_lease lease = nullptr;
  Kernel kernel{0, bytes, seed, 0};
  uint64_t address = 0;
  ok(acquire_remote(world, buffer, mode, &lease, &address));
  kernel.address = address;
  ok(kernel.launch(world.streams[0], mode == WEIR_READ ? Kernel::compare : Kernel::write));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(kernel.wrong, 0);
  validate(world);
  return address;
}

inline uint64_t address_on(World &world, weir_buffer buffer, uint32_t device) {
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(buffer, WEIR_READ, &lease, &address, device));
  ok(weir_release(lease, world.streams[device]));
  return address;
}

inline uint64_t device_bytes(World &world, uint32_t device) {
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(world.pool, device, &stats));
  return stats.bytes - stats.free_bytes;
}

inline void finish(World &world) {
  validate(world);
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// Holds a stream's work until it is opened.
class Barrier {
 public:
  ~Barrier() { open(); }
  void hold(weir_stream stream) { ok(weir_stream_host_call(stream, wait, this)); }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  static void wait(void *user) {
    auto *self = static_cast<Barrier *>(user);
    std::unique_lock lock(self->mutex_);
    self->changed_.wait(lock, [self] { return self->open_; });
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

inline weir_use part(weir_buffer buffer, uint32_t mode, uint64_t offset, uint32_t flags = 0) {
  weir_use use = WEIR_USE(buffer, mode);
  use.offset = offset;
  use.length = 100;
  use.flags = flags;
  return use;
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
//
// What the tests of placement share: a pool over some devices of a machine, asked for homes and looked at for where pages have
// gone. What was chosen is what weir_buffer_info_get says. Nothing here decides what is right.
#pragma once

#include "tests/unit/interleaving.hpp"

#include "core/base/numa.hpp"

#include <sched.h>

#include <numeric>
#include <set>

namespace weir::test {

inline constexpr const char *small = "host.memory=16M;host.granule=16K;host.granule_large=0;";
inline constexpr weir_device cpu = WEIR_DEVICE_HOST;
inline const uint64_t budget_pages = 40;
inline const uint64_t size = 8 * page_bytes;

inline std::vector<weir_device> first(uint32_t count) {
  std::vector<weir_device> all(count);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

/// A pool over some devices of a machine.
struct Site {
  weir_context context = nullptr;
  weir_pool pool = nullptr;

  Site(const std::string &options, const std::vector<weir_device> &devices,
       uint64_t pages = budget_pages) {
    context = make_context((small + options).c_str());
    std::vector<weir_pool_device> entries(devices.size());
    for (size_t i = 0; i < devices.size(); ++i) {
      entries[i].device = devices[i];
      entries[i].budget = pages * page_bytes;
    }
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = static_cast<uint32_t>(entries.size());
    desc.devices = entries.data();
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = 2 * pages * devices.size() * page_bytes;
    ok(weir_pool_create(context, &desc, &pool));
  }
  void close() {
    validate();
    ok(weir_pool_destroy(pool));
    ok(weir_context_destroy(context));
  }
  weir::pool::Engine &engine() const {
    return reinterpret_cast<weir::pool::Pool *>(pool)->engine();
  }
  void validate() const { assert_string_equal(engine().validate().c_str(), ""); }

  weir_buffer make(uint64_t bytes, const std::vector<weir_device> &users,
                   weir_device home = WEIR_DEVICE_ANY) const {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = bytes;
    desc.home = home;
    desc.users = users.data();
    desc.user_count = static_cast<uint32_t>(users.size());
    weir_buffer buffer = nullptr;
    ok(weir_buffer_create(pool, &desc, &buffer));
    return buffer;
  }
  weir_device home_of(weir_buffer buffer) const {
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
    ok(weir_buffer_info_get(pool, buffer, 0, WEIR_WHOLE, &info));
    return info.home;
  }
  /// Of a buffer that stays.
  weir_device add(const std::vector<weir_device> &users, uint64_t bytes = size) const {
    return home_of(make(bytes, users));
  }
  /// Of one that is gone again at once: nothing is promised for it.
  weir_device ask(const std::vector<weir_device> &users, uint64_t bytes = size) const {
    weir_buffer buffer = make(bytes, users);
    const weir_device home = home_of(buffer);
    ok(weir_buffer_destroy(pool, buffer));
    return home;
  }
  uint32_t node_of(weir_device device) const {
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    ok(weir_device_info_get(context, device, &info));
    return info.numa_node;
  }
  uint64_t used(weir_device device) const {
    weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    ok(weir_pool_device_stats_get(pool, device, &stats));
    return stats.bytes - stats.free_bytes;
  }
  uint64_t host_used() const {
    weir_pool_stats stats{};
    stats.struct_size = sizeof stats;
    ok(weir_pool_stats_get(pool, &stats));
    return stats.host_used_bytes;
  }
  /// Writes a buffer on a device and leaves it there.
  void write(weir_buffer buffer, weir_device device) const {
    weir_stream stream = nullptr;
    ok(weir_stream_create(context, device, 0, &stream));
    weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
    weir_lease lease = nullptr;
    ok(weir_acquire(pool, stream, &use, 1, nullptr, &lease));
    ok(weir_release(lease, stream));
    ok(weir_stream_synchronize(stream));
    ok(weir_stream_close(stream));
  }
  /// Everything that is on a device leaves it.
  void empty(weir_device device) const {
    ok(weir_pool_trim(pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  }
};

/// The one of these that is nearest to the test's own thread: the first of its node, or the first.
inline weir_device nearest(const Site &site, const std::vector<weir_device> &devices) {
  for (const weir_device each : devices)
    if (site.node_of(each) == weir::numa::current_node()) return each;
  return devices.front();
}

/// So that the thread's NUMA node stays what it is.
inline void stay_on_one_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(std::max(sched_getcpu(), 0)), &one);
  (void)sched_setaffinity(0, sizeof one, &one);
}

}  // namespace weir::test

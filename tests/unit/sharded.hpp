// SPDX-License-Identifier: Apache-2.0
//
// What the tests of sharded buffers share: three devices that reach each other, a pool over them with a stream on each, and
// buffers dealt out to them.
#pragma once

#include "tests/unit/remote_lease.hpp"

#include <initializer_list>
#include <numeric>

namespace weir::test {

inline constexpr const char *three_near =
    "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=3;"
    "host.links=0-1:nvlink:150G,0-2:nvlink:150G,1-2:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G,"
    "h-2:pcie:16G";

/// `close_sharded` is the last line.
struct Trio : World {
  weir_stream all[3] = {nullptr, nullptr, nullptr};

  explicit Trio(uint64_t device_pages, const char *options = three_near, uint64_t host_pages = 64,
                uint32_t pool_devices = 3, uint64_t flags = WEIR_POOL_NO_BACKGROUND,
                weir_backend_query_fn backend = nullptr)
      : World(make_context(options, backend), nullptr) {
    weir_pool_device devices[3] = {};
    for (uint32_t i = 0; i < 3; ++i) {
      devices[i].device = i;
      devices[i].budget = device_pages * page_bytes;
      ok(weir_stream_create(context, i, 0, &all[i]));
    }
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = pool_devices;
    desc.devices = devices;
    desc.flags = flags;
    desc.host_budget = host_pages != 0 ? host_pages * page_bytes : WEIR_NONE;
    desc.page_size = desc.large_page_size = page_bytes;
    ok(weir_pool_create(context, &desc, &pool));
    streams[0] = all[0];
    streams[1] = all[1];
  }

  weir_result try_sharded(uint64_t bytes, const weir_shard_desc &shards, weir_buffer *made) {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = bytes;
    desc.shards = &shards;
    return weir_buffer_create(pool, &desc, made);
  }
  weir_buffer sharded(uint64_t bytes, std::initializer_list<weir_device> devices = {0, 1, 2},
                      uint32_t policy = WEIR_SHARD_STRIPED,
                      std::initializer_list<uint32_t> weights = {}, uint64_t stripe = 0) {
    weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
    shards.policy = policy;
    shards.devices = devices.begin();
    shards.device_count = static_cast<uint32_t>(devices.size());
    shards.weights = weights.size() != 0 ? weights.begin() : nullptr;
    shards.stripe = stripe;
    weir_buffer made = nullptr;
    ok(try_sharded(bytes, shards, &made));
    return made;
  }

  /// A kernel on a part of the buffer, which has seed `kernel->seed` from its own begin on. Waits for it.
  weir_result use(weir_buffer of, uint32_t mode, uint32_t device, Kernel *kernel,
                  uint64_t offset = 0) {
    weir_use use = WEIR_USE(of, mode);
    use.offset = offset;
    use.length = kernel->bytes;
    weir_lease lease = nullptr;
    const weir_result result = weir_acquire(pool, all[device], &use, 1, nullptr, &lease);
    if (result != WEIR_SUCCESS) return result;
    kernel->address = use.address;
    ok(kernel->launch(all[device], mode == WEIR_READ ? Kernel::compare : Kernel::write));
    ok(weir_release(lease, all[device]));
    ok(weir_stream_synchronize(all[device]));
    return result;
  }
  /// Returns the address it had.
  uint64_t put(weir_buffer of, uint64_t bytes, uint32_t seed, uint32_t device) {
    Kernel kernel{0, bytes, seed, 0};
    ok(use(of, WEIR_DISCARD_WRITE, device, &kernel));
    validate(*this);
    return kernel.address;
  }
  uint64_t see(weir_buffer of, uint64_t bytes, uint32_t seed, uint32_t device) {
    Kernel kernel{0, bytes, seed, 0};
    ok(use(of, WEIR_READ, device, &kernel));
    assert_int_equal(kernel.wrong, 0);
    validate(*this);
    return kernel.address;
  }
  uint64_t pages_on(uint32_t device) {
    weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    ok(weir_pool_device_stats_get(pool, device, &stats));
    return (stats.bytes - stats.free_bytes) / page_bytes;
  }
  /// The device of each page by weir_buffer_shards, as digits.
  std::string layout(weir_buffer of) {
    std::string digits;
    const uint64_t size = query(*this, of).size;
    for (uint64_t at = 0; at < size;) {
      weir_shard shard[2] = {};
      size_t count = 0;
      const weir_result told = weir_buffer_shards(pool, of, at, shard, 2, &count);
      assert_int_equal(told, count > 2 ? WEIR_INCOMPLETE : WEIR_SUCCESS);
      assert_int_equal(shard[0].offset, at);
      for (size_t i = 0; i < std::min<size_t>(count, 2); ++i) {
        assert_int_equal(shard[i].offset, at);
        digits.append((shard[i].length + page_bytes - 1) / page_bytes,
                      static_cast<char>('0' + shard[i].device));
        at += shard[i].length;
      }
    }
    return digits;
  }
  void trim_devices() {
    for (uint32_t i = 0; i < 3; ++i)
      (void)weir_pool_trim(pool, i, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr);
  }
  /// Nothing of the buffers may be left, which are all gone.
  void close_sharded() {
    validate(*this);
    trim_devices();
    engine_of(*this).wait_idle();  // what the pool's own thread was taking out meanwhile
    const weir_pool_stats left = stats();
    assert_int_equal(left.buffers, 0);
    assert_int_equal(left.pages, 0);
    assert_int_equal(left.host_used_bytes, 0);
    assert_int_equal(left.device_held_bytes, 0);
    assert_int_equal(left.device_bytes, left.device_free_bytes);
    ok(weir_pool_destroy(pool));
    for (weir_stream stream : all) ok(weir_stream_close(stream));
    ok(weir_context_destroy(context));
  }
};

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
//
// What the tests of damage share: a hook that flips bits on their way from a spill file, small worlds with tiers below
// HOST, pages sent down there, and everything that can want a page's bytes, each of which checks what it gets.
#pragma once

#include <cstring>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "tests/unit/gate.hpp"

#include "tests/unit/interleaving.hpp"

namespace weir::test {

/// Bytes on their way from a spill file.
class Damage final : public weir::tier::IoHook {
 public:
  std::atomic<int> reads{0};  ///< so many of the next ones are damaged
  std::atomic<uint64_t> at{0};
  std::atomic<int> mask{1};

  int64_t before(weir::tier::IoCall, uint64_t) noexcept override { return 0; }
  void after_read(void *bytes, uint64_t count) noexcept override {
    // Several threads may read at once; each damaged read is counted once.
    int left = reads.load();
    do {
      if (left <= 0) return;
    } while (!reads.compare_exchange_weak(left, left - 1));
    static_cast<unsigned char *>(bytes)[at.load() % count] ^=
        static_cast<unsigned char>(mask.load());
  }
};
inline Damage damage;

inline void hook(weir_context context) {
  damage.reads.store(0);
  damage.at.store(0);
  damage.mask.store(1);
  reinterpret_cast<weir::pool::Context *>(context)->io_hook = &damage;
}

struct Below {
  uint64_t compressed = 0, storage = 64;
  uint64_t flags = 0;
  uint64_t host = 32;
};

inline World world_with(const Below &below) {
  return World({.device_pages = 4,
                .host_pages = below.host,
                .flags = below.flags | WEIR_POOL_NO_BACKGROUND,
                .compressed_pages = below.compressed,
                .storage_pages = below.storage,
                .before_pool = hook});
}

inline void sink(World &world) {
  ok(trim_all(world));
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
}

inline void expect_corrupt(World &world, weir_result result, uint32_t tier, uint64_t failures) {
  const weir_error_info info = last_error();
  if (result != WEIR_ERROR_CORRUPT) print_error("%d: %s\n", result, weir_last_error());
  assert_int_equal(result, WEIR_ERROR_CORRUPT);
  assert_int_equal(info.tier, tier);
  assert_int_equal(info.use_index, 0);
  assert_true(weir_last_error()[0] != '\0');
  assert_int_equal(world.stats().checksum_failures, failures);
  const std::string wrong = reinterpret_cast<weir::pool::Pool *>(world.pool)->engine().validate();
  assert_string_equal(wrong.c_str(), "");
}

// ---- everything that can want a page's bytes; each checks them if it gets them ----

using Wants = weir_result (*)(World &, weir_buffer, uint64_t size);

inline weir_result acquires(World &world, weir_buffer buffer, uint64_t size) {
  Kernel kernel{0, size, 1, 0};
  const weir_result result = run(world, buffer, WEIR_READ, &kernel);
  assert_int_equal(kernel.wrong, 0);
  return result;
}
inline weir_result acquires_to_write(World &world, weir_buffer buffer, uint64_t size) {
  weir_lease lease = nullptr;
  Kernel kernel{0, size, 1, 0};
  const weir_result result = world.acquire(buffer, WEIR_READ_WRITE, &lease, &kernel.address);
  if (result != WEIR_SUCCESS) return result;
  ok(kernel.launch(world.streams[0], Kernel::compare));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(kernel.wrong, 0);
  return result;
}
inline weir_result reads(World &world, weir_buffer buffer, uint64_t size) {
  std::vector<uint8_t> bytes(size);
  const weir_result result = weir_buffer_read(world.pool, buffer, 0, size, bytes.data());
  if (result != WEIR_SUCCESS) return result;
  for (uint64_t i = 0; i < size; ++i) assert_int_equal(bytes[i], pattern(1, i));
  return result;
}
/// A byte that is there already: all others must come up to stay.
inline weir_result writes_a_part(World &world, weir_buffer buffer, uint64_t) {
  const uint8_t byte = pattern(1, 7);
  return weir_buffer_write(world.pool, buffer, 7, 1, &byte);
}
inline weir_result leases_on_the_cpu(World &world, weir_buffer buffer, uint64_t size) {
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  const weir_result result = weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease);
  if (result == WEIR_SUCCESS) {
    Kernel kernel{use.address, size, 1, 0};
    Kernel::compare(&kernel);
    ok(weir_release(lease, cpu));
    assert_int_equal(kernel.wrong, 0);
  }
  ok(weir_stream_close(cpu));
  return result;
}
inline weir_result holds(World &world, weir_buffer buffer, uint64_t size) {
  Kernel kernel{0, size, 1, 0};
  const weir_result result = weir_hold(world.pool, buffer, 0, &kernel.address);
  if (result != WEIR_SUCCESS) return result;
  Kernel::compare(&kernel);
  ok(weir_unhold(world.pool, buffer));
  assert_int_equal(kernel.wrong, 0);
  return result;
}
/// Leaves the memory with the contents and the buffer without it.
inline weir_result registers(World &world, weir_buffer buffer, uint64_t size) {
  static void *memory = aligned_alloc(page_bytes, 16 * page_bytes);
  weir_result result = weir_host_register(world.pool, buffer, memory, 0);
  if (result != WEIR_SUCCESS && result != WEIR_ERROR_BUSY) return result;
  result = weir_host_unregister(world.pool, buffer);
  if (result != WEIR_SUCCESS) {
    const weir_error_info info = last_error();
    weir_buffer_info about = query(world, buffer);
    assert_int_equal(about.unwritten_bytes, 0);
    // Parted from without its contents it must not be: the second try finds them.
    damage.reads.store(0);
    ok(weir_host_unregister(world.pool, buffer));
    (void)info;
  }
  Kernel kernel{reinterpret_cast<uint64_t>(memory), size, 1, 0};
  Kernel::compare(&kernel);
  assert_int_equal(kernel.wrong, 0);
  return result;
}

struct Way {
  const char *name;
  Wants wants;
};
inline constexpr Way ways[] = {
    {"acquire", acquires},
    {"acquire for writing", acquires_to_write},
    {"read", reads},
    {"write of a part", writes_a_part},
    {"CPU lease", leases_on_the_cpu},
    {"hold", holds},
};

/// A buffer of several pages, and a tenant of a slab.
inline const uint64_t whole_sizes[] = {3 * page_bytes - 100, 600};

inline uint64_t below_host(const weir_buffer_info &info) {
  return info.compressed_bytes + info.storage_bytes;
}

}  // namespace weir::test

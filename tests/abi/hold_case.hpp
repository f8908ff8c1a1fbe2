// SPDX-License-Identifier: Apache-2.0
//
// What the tests of holds share: a buffer on a pool of two devices whose bytes are known, looked at from everywhere, calls on it, and
// what puts pages out of their place.
#pragma once

#include "tests/abi/pool_fixture.hpp"

namespace weir::test {

inline constexpr weir_result granted = WEIR_SUCCESS;
inline constexpr weir_result refused = WEIR_ERROR_LEASE_CONFLICT;

inline const uint64_t size = 3 * page_bytes - 700;

enum Mode : uint32_t { none, reading, shared, alone, modes };
inline constexpr const char *mode_names[modes] = {"none", "READ", "shared", "alone"};

/// One buffer on a pool of two devices, with bytes the test knows.
struct Case {
  World world;
  weir_stream cpu = nullptr;
  weir_buffer buffer = nullptr;
  uint64_t bytes;
  uint32_t at, other;  ///< the device that holds, and the one that does not
  uint64_t address = 0;
  uint64_t begin = 0, length;  ///< of what the calls name
  uint32_t seed = 0;
  std::vector<uint8_t> contents;

  explicit Case(uint32_t at_, uint64_t bytes_ = size, const char *more = "")
      : world({.options = std::string(small_host) + ";host.devices=2" + more,
               .device_pages = 8,
               .devices = 2,
               .compressed_pages = 16}),
        bytes(bytes_),
        at(at_),
        other(1 - at_),
        length(bytes_),
        contents(bytes_) {
    ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
    buffer = world.buffer(bytes, 0);
  }
  void close() {
    ok(weir_buffer_destroy(world.pool, buffer));
    ok(weir_stream_close(cpu));
    world.close();
  }

  void note(uint64_t from, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) contents[from + i] = pattern(seed, i);
  }
  weir_result hold(Mode mode, uint32_t device, uint64_t *where) {
    if (mode == none) return WEIR_SUCCESS;
    return weir_hold_as(world.pool, buffer, device, mode == reading ? WEIR_READ : WEIR_READ_WRITE,
                        mode == alone ? WEIR_HOLD_ALONE : 0, where);
  }
  /// Copies of the bytes wherever there can be any, all of them good.
  void spread() {
    ++seed;
    note(0, bytes);
    ok(weir_buffer_write(world.pool, buffer, 0, bytes, contents.data()));
    if (bytes < page_bytes) {
      see_on(0);
      return;
    }
    see_on(other);
    see_on(at);
    see_on_cpu();
  }
  /// A kernel that no lease covers.
  void graph() {
    ++seed;
    Kernel kernel{address, bytes, seed, 0};
    ok(kernel.launch(world.streams[at], Kernel::write));
    ok(weir_stream_synchronize(world.streams[at]));
    note(0, bytes);
  }
  void see_on(uint32_t device) {
    weir_lease lease = nullptr;
    uint64_t there = 0;
    ok(world.acquire(buffer, WEIR_READ, &lease, &there, device));
    assert_true(world.device_bytes(there, bytes, device) == contents);
    ok(weir_release(lease, world.streams[device]));
  }
  void see_on_cpu() {
    weir_use use = WEIR_USE(buffer, WEIR_READ);
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
    assert_memory_equal(reinterpret_cast<void *>(use.address), contents.data(), bytes);
    ok(weir_release(lease, cpu));
  }
  void see_by_call() {
    std::vector<uint8_t> copy(bytes);
    ok(weir_buffer_read(world.pool, buffer, 0, bytes, copy.data()));
    assert_true(copy == contents);
  }
  void see_held() { assert_true(world.device_bytes(address, bytes, at) == contents); }

  /// A lease on the part that the calls name, and if it writes, a kernel under it.
  weir_result lease(uint32_t mode, uint32_t device) {
    weir_stream stream = device == WEIR_DEVICE_HOST ? cpu : world.streams[device];
    weir_use use{buffer, begin, length, mode, 0, 0, {0, 0, 0}};
    weir_lease taken = nullptr;
    const weir_result result = weir_acquire(world.pool, stream, &use, 1, nullptr, &taken);
    if (result != WEIR_SUCCESS) return result;
    Kernel kernel{use.address, length, ++seed, 0};
    if (device == WEIR_DEVICE_HOST) {
      if (mode != WEIR_READ) Kernel::write(&kernel);
      if (mode == WEIR_READ) assert_memory_equal(kernel.range(), contents.data() + begin, length);
    } else if (mode != WEIR_READ) {
      ok(kernel.launch(stream, Kernel::write));
    } else {
      const std::vector<uint8_t> seen = world.device_bytes(use.address, length, device);
      assert_memory_equal(seen.data(), contents.data() + begin, length);
    }
    if (mode != WEIR_READ) note(begin, length);
    ok(weir_release(taken, stream));
    ok(weir_stream_synchronize(stream));
    return result;
  }
};

inline weir_result read_call(Case &c) {
  std::vector<uint8_t> copy(c.length);
  const weir_result result =
      weir_buffer_read(c.world.pool, c.buffer, c.begin, c.length, copy.data());
  if (result == WEIR_SUCCESS)
    assert_memory_equal(copy.data(), c.contents.data() + c.begin, c.length);
  return result;
}
inline weir_result write_call(Case &c) {
  ++c.seed;
  std::vector<uint8_t> fresh(c.length);
  for (uint64_t i = 0; i < c.length; ++i) fresh[i] = pattern(c.seed, i);
  const weir_result result =
      weir_buffer_write(c.world.pool, c.buffer, c.begin, c.length, fresh.data());
  if (result == WEIR_SUCCESS) c.note(c.begin, c.length);
  return result;
}
inline weir_result trim(Case &c) {
  for (const weir_device device : {0U, 1U, uint32_t{WEIR_DEVICE_HOST}})
    ok(weir_pool_trim(c.world.pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  return WEIR_SUCCESS;
}
inline weir_result defragment(Case &c) {
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  return weir_pool_defragment(c.world.pool, &desc, &report);
}
/// Another buffer wants all the memory that is not held, on both devices.
inline weir_result evict(Case &c) {
  for (uint32_t device = 0; device < 2; ++device) {
    weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    ok(weir_pool_device_stats_get(c.world.pool, device, &stats));
    const uint64_t rest = 8 * page_bytes - stats.held_bytes;
    weir_buffer greedy = c.world.buffer(rest, device);
    c.world.fill(greedy, rest, 77, device);
    ok(weir_buffer_destroy(c.world.pool, greedy));
  }
  return WEIR_SUCCESS;
}

/// What the mode lets one see while it lasts, and what everybody sees after it.
inline void look_at_all(Case &c, Mode mode, bool held) {
  if (held && mode != none) c.see_held();
  if (held && mode == alone) return;
  c.see_by_call();
  c.see_on(c.at);
  c.see_on(c.other);
  c.see_on_cpu();
  c.see_by_call();
}

}  // namespace weir::test

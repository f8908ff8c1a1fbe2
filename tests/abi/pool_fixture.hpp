// SPDX-License-Identifier: Apache-2.0
//
// What most tests of the C ABI stand on: a context on the backend under test (tests/support/target.hpp) with small
// granules, one pool with small budgets and its streams. Options are the host backend's; sizes that they give are for its
// pages of 16 KiB and grow with the backend's. Everything is undone in reverse order, and a refusal to be undone (a lease
// or a buffer left behind) fails the test. It must never hide a result: each call is checked with `ok`.
#pragma once

#include <weir/weir.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/blocks.hpp"
#include "tests/support/cmocka.hpp"
#include "tests/support/target.hpp"

namespace weir::test {

inline const uint64_t page_bytes = Target::get().page();
inline constexpr const char *small_host = "host.memory=16M;host.granule=16K;host.granule_large=0";

/// The expected result, or a message with what the library says about the other one.
#define expect_result(wanted, call)                                     \
  do {                                                                  \
    const weir_result got_ = (call);                                    \
    if (got_ != (wanted)) {                                             \
      print_error("%s: got %d (%s)\n", #call, got_, weir_last_error()); \
    }                                                                   \
    assert_int_equal(got_, (wanted));                                   \
  } while (false)
#define ok(call) expect_result(WEIR_SUCCESS, call)

inline weir_error_info last_error() {
  weir_error_info info = WEIR_ERROR_INFO_INIT;
  ok(weir_last_error_info(&info));
  return info;
}

/// `backend`: one linked into the program, instead of the one under test.
inline weir_context make_context(const char *options, weir_backend_query_fn backend = nullptr) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  if (backend == nullptr) backend = Target::get().query();
  if (backend != nullptr) desc.flags |= WEIR_CONTEXT_NO_HOST_BACKEND;
  desc.backend_count = backend != nullptr ? 1 : 0;
  desc.backends = &backend;
  const std::string own = Target::get().options(options);
  desc.options = own.c_str();
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  return context;
}

struct Setup {
  std::string options = small_host;
  uint64_t device_pages = 8;
  uint64_t host_pages = 64;
  uint64_t flags = WEIR_POOL_NO_BACKGROUND;
  uint32_t devices = 1;
  uint32_t pool_devices = 0;  ///< of those, the pool's; 0: all
  weir_backend_query_fn backend = nullptr;
  uint64_t compressed_pages = 0;
  uint64_t storage_pages = 0;
  const char *codec = nullptr;
  uint64_t segment_pages = 0;  ///< without VMM; 0: as the pool likes
  uint64_t recompress_idle_ns = 0;
  uint64_t rebalance_bytes_per_second = 0;
  uint64_t page_granules = 1;  ///< of which a page of the pool is
  const char *policy = nullptr;
  uint64_t policy_memory = 0;
  /// 0: no limit, so that what is learned depends on no machine's speed.
  uint32_t policy_cpu_percent = 0;
  void (*before_pool)(weir_context context) = nullptr;
};

/// Where spill files go in tests.
inline const char *spill_folder() {
  const char *folder = std::getenv("TMPDIR");
  return folder != nullptr ? folder : "/tmp";
}

/// A context, a pool and one stream a device. Not a RAII class on purpose: a failed assertion leaves the
/// test by longjmp, so destructors would not run; `close` is the last line of each test.
struct World {
  weir_context context = nullptr;
  weir_pool pool = nullptr;
  weir_stream streams[2] = {nullptr, nullptr};

  /// Over what the test has made, and ends, itself.
  World(weir_context context_, weir_pool pool_) : context(context_), pool(pool_) {}
  explicit World(const Setup &setup = {}) {
    context = make_context(setup.options.c_str(), setup.backend);
    skip_without(setup.devices);
    weir_pool_device devices[2] = {};
    for (uint32_t i = 0; i < setup.devices; ++i) {
      devices[i].device = i;
      devices[i].budget = setup.device_pages * page_bytes;
      ok(weir_stream_create(context, i, 0, &streams[i]));
    }
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = setup.pool_devices != 0 ? setup.pool_devices : setup.devices;
    desc.devices = devices;
    desc.flags = setup.flags;
    desc.host_budget = setup.host_pages != 0 ? setup.host_pages * page_bytes : WEIR_NONE;
    desc.page_size = setup.page_granules * page_bytes;
    desc.large_page_size = desc.page_size;
    desc.compressed_budget = setup.compressed_pages * page_bytes;
    desc.storage_budget = setup.storage_pages * page_bytes;
    const char *folder = spill_folder();
    desc.storage_paths = &folder;
    desc.storage_path_count = setup.storage_pages != 0 ? 1 : 0;
    desc.codec = setup.codec;
    desc.segment_size = setup.segment_pages * page_bytes;
    desc.recompress_idle_ns = setup.recompress_idle_ns;
    desc.rebalance_bytes_per_second = setup.rebalance_bytes_per_second;
    desc.policy = setup.policy;
    desc.policy_memory = setup.policy_memory;
    desc.policy_cpu_percent = setup.policy_cpu_percent != 0 ? setup.policy_cpu_percent : 100;
    if (setup.before_pool != nullptr) setup.before_pool(context);
    ok(weir_pool_create(context, &desc, &pool));
  }

  void close() {
    ok(weir_pool_destroy(pool));
    for (weir_stream stream : streams) ok(weir_stream_close(stream));
    ok(weir_context_destroy(context));
  }

  /// A machine of silicon has the devices it has.
  void skip_without(uint32_t devices) const {
    uint32_t count = 0;
    ok(weir_device_count(context, &count));
    if (count >= devices || !Target::get().real()) return;
    ok(weir_context_destroy(context));
    skip();
  }

  weir_buffer buffer(uint64_t bytes, weir_device home = WEIR_DEVICE_DEFAULT,
                     weir_client client = nullptr) {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = bytes;
    desc.home = home;
    desc.client = client;
    weir_buffer made = nullptr;
    ok(weir_buffer_create(pool, &desc, &made));
    return made;
  }

  weir_result acquire(weir_buffer of, uint32_t mode, weir_lease *lease, uint64_t *address = nullptr,
                      uint32_t device = 0) {
    weir_use use = WEIR_USE(of, mode);
    const weir_result result = weir_acquire(pool, streams[device], &use, 1, nullptr, lease);
    if (address != nullptr) *address = use.address;
    return result;
  }

  /// Writes the pattern through a lease, by a "kernel": a host call on the stream.
  void fill(weir_buffer of, uint64_t bytes, uint32_t seed, uint32_t device = 0);
  /// Reads the whole buffer through a lease and a kernel and compares it with the pattern.
  void check(weir_buffer of, uint64_t bytes, uint32_t seed, uint32_t device = 0);
  /// The same through weir_buffer_read: nothing is promoted.
  void check_read(weir_buffer of, uint64_t bytes, uint32_t seed);

  /// What is on the device at the address, when the stream's work so far is done.
  std::vector<uint8_t> device_bytes(uint64_t address, uint64_t bytes, uint32_t device = 0) {
    std::vector<uint8_t> copy(bytes);
    read_device(streams[device], address, copy.data(), bytes);
    return copy;
  }

  weir_pool_stats stats() {
    weir_pool_stats out = WEIR_POOL_STATS_INIT;
    ok(weir_pool_stats_get(pool, &out));
    return out;
  }
};

/// Host memory of a test's own, aligned to the backend's pages; kept until the program ends.
inline uint8_t *aligned_memory(uint64_t bytes) {
  auto *memory = static_cast<uint8_t *>(std::aligned_alloc(page_bytes, bytes));
  assert_non_null(memory);
  std::fill_n(memory, bytes, uint8_t{0});
  return memory;
}

inline bool all_zero(const std::vector<uint8_t> &bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
}

WEIR_UNSEEN inline uint8_t pattern(uint32_t seed, uint64_t at) {
  return static_cast<uint8_t>((at * 131U + (at >> 9U) * 7U + seed * 29U + 1U) & 0xffU);
}

/// i * 131, three times around.
inline constexpr auto pattern_steps = [] {
  std::array<uint8_t, 768> steps{};
  for (uint32_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<uint8_t>(i * 131U);
  return steps;
}();

/// The pattern as a rule (tests/support/blocks.hpp). It is made 512 bytes at a time, of which only at * 131 tells one from the
/// next: what is added to that is so many more steps of 131, since 43 of them are 1 modulo 256.
struct PatternOf {
  uint32_t seed;
  WEIR_UNSEEN uint8_t operator()(uint64_t at) const { return pattern(seed, at); }
  WEIR_UNSEEN void make(uint8_t *block, uint64_t from, uint64_t count) const {
    for (uint64_t done = 0; done < count;) {
      const uint64_t at = from + done, run = std::min(count - done, 512U - at % 512U);
      const uint64_t added = (at >> 9U) * 7U + seed * 29U + 1U;
      std::memcpy(block + done, pattern_steps.data() + ((at + added * 43U) & 0xffU), run);
      done += run;
    }
  }
};

/// Looks again and again for two milliseconds whether something stays as it must. A right answer does not depend on
/// the time; only how surely a wrong one is seen does.
template <typename Look>
bool stays(Look look) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  do {
    if (!look()) return false;
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return true;
}
/// Work on the stream is unfinished, and must be.
inline bool never_ready(weir_stream stream) {
  return stays([stream] { return weir_stream_query(stream) == WEIR_NOT_READY; });
}

struct Kernel {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t seed = 0;
  uint64_t wrong = 0;   ///< bytes that differed
  uint64_t staged = 0;  ///< where the CPU finds the range, if not at its address

  uint8_t *range() const { return reinterpret_cast<uint8_t *>(staged != 0 ? staged : address); }
  weir_result launch(weir_stream stream, weir_host_function function) {
    const Access access = function == write ? Access::write : Access::read;
    if (staged != address) staged = address;  // an earlier launch of it may be running
    return test::launch(stream, access, &staged, bytes, function, this);
  }
  static void write(void *user) {
    auto *self = static_cast<Kernel *>(user);
    uint8_t *to = self->range();
    write_bytes(to, self->bytes, PatternOf{self->seed});
  }
  static void compare(void *user) {
    auto *self = static_cast<Kernel *>(user);
    const uint8_t *from = self->range();
    self->wrong += wrong_bytes(from, self->bytes, PatternOf{self->seed});
  }
};

inline void World::fill(weir_buffer of, uint64_t bytes, uint32_t seed, uint32_t device) {
  weir_lease lease = nullptr;
  Kernel kernel{0, bytes, seed, 0};
  ok(acquire(of, WEIR_DISCARD_WRITE, &lease, &kernel.address, device));
  ok(kernel.launch(streams[device], Kernel::write));
  ok(weir_release(lease, streams[device]));
  ok(weir_stream_synchronize(streams[device]));
}

inline void World::check(weir_buffer of, uint64_t bytes, uint32_t seed, uint32_t device) {
  weir_lease lease = nullptr;
  Kernel kernel{0, bytes, seed, 0};
  ok(acquire(of, WEIR_READ, &lease, &kernel.address, device));
  ok(kernel.launch(streams[device], Kernel::compare));
  ok(weir_release(lease, streams[device]));
  ok(weir_stream_synchronize(streams[device]));
  assert_int_equal(kernel.wrong, 0);
}

inline void World::check_read(weir_buffer of, uint64_t bytes, uint32_t seed) {
  std::vector<uint8_t> copy(bytes);
  ok(weir_buffer_read(pool, of, 0, bytes, copy.data()));
  assert_int_equal(wrong_bytes(copy.data(), bytes, PatternOf{seed}), 0);
}

}  // namespace weir::test

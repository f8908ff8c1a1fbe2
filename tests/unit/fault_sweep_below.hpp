// SPDX-License-Identifier: Apache-2.0
//
// The scenario of the fault sweeps over tiers below HOST (test_faults_below*.cpp): pages sink and come back in every way there is
// (for an acquire, a read, a write of a part, a lease on the CPU, registered memory, a trim), and each fallible call of
// the backend, the allocator and the spill files fails once, at every position. Nothing is lost, nothing leaks (memory,
// files), the second try succeeds, and in the end no client is charged for anything. A transfer that comes up short is no
// error at all.

#pragma once

#include "tests/unit/fault_sweep.hpp"

#include <cstring>
#include <sys/mman.h>

namespace weir::test {

inline constexpr uint32_t buffer_count = 6;
inline constexpr uint32_t scrubbed = 3;
inline constexpr uint32_t small = 2;
inline constexpr uint32_t noisy = 4;  ///< its bytes do not compress
inline const uint64_t sizes[buffer_count] = {
    3 * page_bytes, 2 * page_bytes + 100, 600,
    3 * page_bytes, 4 * page_bytes,       5 * page_bytes - 4000};

struct Tiers {
  const char *options = "host.memory=4M;host.granule=16K;host.granule_large=0";
  uint64_t host = 6 * page_bytes;  ///< of which two pages are staging
  uint64_t compressed = 0;
  uint64_t storage = 0;
  uint64_t flags = WEIR_POOL_CHECKSUM_HOST;
  bool vmm = true;
  uint64_t device = 6 * page_bytes;
};

struct Scenario : Subject {
  const Tiers &tiers;
  IoFaults hook;
  weir_client client = nullptr;
  weir_stream cpu = nullptr;
  uint64_t most_sunk = 0;

  explicit Scenario(const Tiers &tiers_) : tiers(tiers_) {}

  void open(Balance *balance) {
    open_context(balance, tiers.options);
    reinterpret_cast<weir::pool::Context *>(context)->io_hook = &hook;
    const weir_pool_device device{0, 0, tiers.device, {0, 0}};
    const char *folder = spill_folder();
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 1;
    desc.devices = &device;
    desc.flags = WEIR_POOL_NO_BACKGROUND | tiers.flags;
    desc.host_budget = tiers.host;
    desc.page_size = desc.large_page_size = page_bytes;
    desc.compressed_budget = tiers.compressed;
    desc.storage_budget = tiers.storage;
    desc.storage_paths = &folder;
    desc.storage_path_count = tiers.storage != 0 ? 1 : 0;
    desc.recompress_idle_ns = 1;
    open_pool(desc);
    const weir_client_desc tenant = WEIR_CLIENT_DESC_INIT;
    twice("weir_client_create", [&] { return weir_client_create(pool, &tenant, &client); });
    for (uint32_t i = 0; i < buffer_count; ++i)
      add(sizes[i], i == scrubbed ? WEIR_BUFFER_SCRUB : 0, i % 2 == 0 ? client : nullptr);
    twice("weir_stream_create",
          [&] { return weir_stream_create(context, WEIR_DEVICE_HOST, 0, &cpu); });
  }

  bool has_host() const { return tiers.host != WEIR_NONE; }

  /// Half of a buffer's bytes, where they are: the rest must come up for that.
  void write_half(uint32_t i) {
    std::vector<uint8_t> bytes(sizes[i]);
    for (uint64_t b = 0; b < bytes.size(); ++b) bytes[b] = pattern(contents[i].seed, b);
    const uint64_t from = sizes[i] / 3;
    const uint64_t count = sizes[i] / 2;
    twice("weir_buffer_write", [&] {
      return weir_buffer_write(pool, contents[i].buffer, from, count, bytes.data() + from);
    });
  }

  void rewrite_on_cpu(uint32_t i, uint32_t seed) {
    weir_use use = WEIR_USE(contents[i].buffer, WEIR_READ_WRITE);
    weir_lease lease = nullptr;
    // Where registering HOST's file failed, HOST goes on with memory that no lease on the CPU can have.
    bool refused = false;
    const auto acquire = [&] {
      const weir_result result = weir_acquire(pool, cpu, &use, 1, nullptr, &lease);
      refused = result == WEIR_ERROR_NOT_SUPPORTED &&
                std::strcmp(faults.what(), "host_register") == 0 &&
                std::strstr(weir_last_error(), "in a file") != nullptr;
      return refused ? weir_result{WEIR_SUCCESS} : result;
    };
    if (!twice("weir_acquire on the CPU", acquire) || refused) return;
    compare(i, "on the CPU", reinterpret_cast<const void *>(use.address));
    Kernel kernel{use.address, sizes[i], seed, 0};
    Kernel::write(&kernel);
    contents[i].seed = seed;
    sensible(weir_release(lease, cpu), "weir_release");
  }

  /// The buffer's home is the caller's memory for a while.
  void register_memory(uint32_t i) {
    const uint64_t bytes = (sizes[i] + 4095) / 4096 * 4096;
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    twice("weir_host_register",
          [&] { return weir_host_register(pool, contents[i].buffer, memory, 0); });
    check(i, "registered");
    twice("weir_host_unregister", [&] { return weir_host_unregister(pool, contents[i].buffer); });
    compare(i, "in memory that was registered", memory);
    munmap(memory, bytes);
  }

  void trim(weir_device device, uint32_t level) {
    uint64_t freed = 0;
    twice("weir_pool_trim",
          [&] { return weir_pool_trim(pool, device, level, WEIR_WHOLE, &freed); });
  }

  /// What lies idle in COMPRESSED is coded again. That it can't be is no call's failure.
  void recompress() {
    reinterpret_cast<weir::pool::Pool *>(pool)->engine().upkeep().look_at_compressed();
  }

  void work() {
    for (uint32_t i = 0; i < buffer_count; ++i) i == noisy ? fill_noisy(i) : fill(i, i + 1);
    for (uint32_t i = 0; i < buffer_count; ++i) check_any(i, "first look");
    trim(0, WEIR_TRIM_EMERGENCY);
    recompress();
    check_read(0);
    if (has_host()) {
      write_half(1);
      rewrite_on_cpu(1, 9);
      trim(WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE);
      write_half(5);
      register_memory(0);
    }
    ok(weir_advise(pool, contents[1].buffer, 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
    for (uint32_t i = 0; i < buffer_count; ++i) check_any(i, "second look");
    trim(0, WEIR_TRIM_EMERGENCY);
    recompress();
    weir_use use = WEIR_USE(contents[5].buffer, WEIR_READ);
    twice("weir_prefetch", [&] { return weir_prefetch(pool, stream, &use, 1); });
    uint64_t address = 0;
    if (twice("weir_hold", [&] { return weir_hold(pool, contents[0].buffer, 0, &address); }))
      ok(weir_unhold(pool, contents[0].buffer));
    twice("weir_discard", [&] { return weir_discard(pool, contents[0].buffer, 0, WEIR_WHOLE); });
    contents[0].seed = 0;
    for (uint32_t i = 0; i < buffer_count; ++i)
      if (i != noisy) check_read(i);
    check_any(noisy, "at the end");
    most_sunk = stats().sunk_bytes;
  }

  // ---- bytes that do not compress ----

  WEIR_UNSEEN static uint8_t noise(uint64_t at) {
    uint64_t x = (at + 1) * 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    return static_cast<uint8_t>(x >> 56);
  }
  static void write_noise(void *user) {
    auto *kernel = static_cast<Kernel *>(user);
    write_bytes(kernel->range(), kernel->bytes, noise);
  }
  static void compare_noise(void *user) {
    auto *kernel = static_cast<Kernel *>(user);
    kernel->wrong += wrong_bytes(kernel->range(), kernel->bytes, noise);
  }
  void fill_noisy(uint32_t i) {
    Kernel kernel{0, sizes[i], 0, 0};
    if (run(i, WEIR_DISCARD_WRITE, write_noise, &kernel)) contents[i].seed = 1;
  }
  void check_any(uint32_t i, const char *when) {
    if (i != noisy || contents[i].seed == 0) return check(i, when);
    Kernel kernel{0, sizes[i], 0, 0};
    if (run(i, WEIR_READ, compare_noise, &kernel) && kernel.wrong != 0) lost(i, when, kernel.wrong);
  }

  // ----

  weir_pool_stats stats() {
    weir_pool_stats out{};
    out.struct_size = sizeof(out);
    ok(weir_pool_stats_get(pool, &out));
    return out;
  }

  void end() {
    const std::string wrong = reinterpret_cast<weir::pool::Pool *>(pool)->engine().validate();
    if (!wrong.empty())
      fail_msg("n=%lld: %s", static_cast<long long>(faults.position), wrong.c_str());
    destroy_buffers();
    faults.armed.store(false);
    ok(weir_pool_trim(pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    ok(weir_pool_trim(pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    const weir_pool_stats left = stats();
    assert_int_equal(left.buffers, 0);
    assert_int_equal(left.slabs, 0);
    assert_int_equal(left.device_held_bytes, 0);
    if (tiers.vmm) {
      assert_int_equal(left.pages, 0);
      assert_int_equal(left.device_bytes, 0);
    }
    assert_int_equal(left.host_used_bytes, 0);
    assert_int_equal(left.host_bytes, left.staging_bytes);
    assert_int_equal(left.compressed_bytes, 0);
    assert_int_equal(left.compressed_raw_bytes, 0);
    assert_int_equal(left.storage_bytes, 0);
    assert_int_equal(left.storage_raw_bytes, 0);
    assert_int_equal(left.checksum_failures, 0);
    const bool io_failed = faults.kind == Kind::io && faults.io_error != 0 && faults.struck();
    assert_true(left.io_errors <= (io_failed ? 1 : 0));
    weir_client_stats charged = WEIR_CLIENT_STATS_INIT;
    ok(weir_client_stats_get(client, &charged));
    assert_int_equal(charged.buffers, 0);
    assert_int_equal(charged.host_bytes, 0);
    assert_int_equal(charged.compressed_bytes, 0);
    assert_int_equal(charged.storage_bytes, 0);
    if (tiers.vmm) assert_int_equal(charged.device_bytes, 0);
    ok(weir_stream_close(cpu));
    ok(weir_client_destroy(client));
    close();
  }
};

inline const uint64_t plenty = 64 * page_bytes;
inline const Tiers storage_only{.storage = plenty};
/// On a device so large that its buffers may share granules; what leaves it is trimmed. Their parts are of many sizes, so HOST
/// needs some room between them.
inline const Tiers compressed_only{
    .host = 10 * page_bytes, .compressed = plenty, .device = 24 * page_bytes};
/// COMPRESSED has room for three pages that compress well: what comes after them pushes them on.
inline const Tiers spilling{.compressed = 3 * 4096, .storage = plenty};
inline const Tiers no_host{.host = WEIR_NONE, .compressed = 3 * 4096, .storage = plenty};
inline const Tiers threads{.storage = plenty, .flags = WEIR_POOL_NO_IO_URING};
inline const Tiers page_cache{.compressed = 3 * 4096,
                              .storage = plenty,
                              .flags = WEIR_POOL_BUFFERED_STORAGE | WEIR_POOL_CHECKSUM_HOST};
/// Staging takes two buffers of the largest size there is here.
inline const Tiers without_vmm{
    .options = "host.memory=4M;host.granule=16K;host.granule_large=0;host.vmm=0;host.batch_copy=0",
    .host = (2 * 6 + 10) * page_bytes,
    .compressed = 3 * 4096,
    .storage = plenty,
    .vmm = false};

inline void sweep_with(Kind kind, int io_error, int64_t least, const Tiers &tiers) {
  sweep(kind, io_error, least, [&tiers](Balance *balance) {
    Scenario scenario(tiers);
    scenario.open(balance);
    scenario.work();
    assert_true(scenario.most_sunk > 4 * page_bytes);
    scenario.end();
  });
}

/// One test: which call fails, how, and at how many positions at least.
#define SWEEP(name, kind, error, least, tiers) \
  void name(void **) { sweep_with(kind, error, least, tiers); }

}  // namespace weir::test

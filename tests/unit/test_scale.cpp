// SPDX-License-Identifier: Apache-2.0
//
// Many buffers: what they may cost beside their bytes. The kernel's mappings of the process, and the pool's own records for a
// buffer, a page and a tenant in every state that they can be in. No times: bench/bench_scale.cpp has those.

#include "tests/abi/pool_fixture.hpp"

#include <fstream>

namespace {

using namespace weir::test;

constexpr uint64_t mib = uint64_t{1} << 20;

size_t kernel_mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  assert_true(lines != 0);
  return lines;
}

// A sanitizer's allocator has mappings of its own, as many as it likes.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool countable = false;
#else
constexpr bool countable = true;
#endif

struct Many {
  World world;
  std::vector<weir_buffer> buffers = {};

  void add(size_t count, uint64_t bytes) {
    for (size_t i = 0; i < count; ++i) buffers.push_back(world.buffer(bytes));
  }
  void touch(size_t every) {
    for (size_t i = 0; i < buffers.size(); i += every) {
      weir_lease lease = nullptr;
      ok(world.acquire(buffers[i], WEIR_DISCARD_WRITE, &lease));
      ok(weir_release(lease, world.streams[0]));
    }
    ok(weir_stream_synchronize(world.streams[0]));
  }
  void close() {
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
};

/// Address ranges are shared by many buffers: 240 GiB of them, on a device of 64 MiB.
void mappings_do_not_grow_with_buffers(void **) {
  for (const uint64_t bytes : {2 * mib, 16 * mib}) {
    Many many{World({.options = "host.memory=64M;host.granule=2M;host.granule_large=0",
                     .device_pages = 32 * 128,
                     .page_granules = 128})};
    many.add(200, bytes);
    many.touch(50);
    const size_t before = kernel_mappings();
    many.add(14800, bytes);
    // A reservation is as large as all before it together: of 2^47 bytes there are seventeen.
    const size_t after = kernel_mappings();
    if (after > before + 20) print_error("%zu mappings, then %zu\n", before, after);
    assert_true(!countable || after <= before + 20);
    many.close();
  }
}

/// What has been freed is used again: the mappings stay as few when buffers come and go.
void mappings_do_not_grow_with_time(void **) {
  Many many{World({.options = small_host, .device_pages = 16, .host_pages = 256})};
  const auto turn = [&] {
    many.add(400, 3 * page_bytes);
    many.touch(7);
    for (weir_buffer buffer : many.buffers) ok(weir_buffer_destroy(many.world.pool, buffer));
    many.buffers.clear();
  };
  turn();
  const size_t before = kernel_mappings();
  for (int i = 0; i < 10; ++i) turn();
  assert_true(!countable || kernel_mappings() <= before + 20);
  many.close();
}

// ---- records ----

double records(World &world) { return static_cast<double>(world.stats().bookkeeping_bytes); }

void at_most(const char *what, double bytes, double bound) {
  print_message("%s: %.1f bytes\n", what, bytes);
  if (bytes > bound) fail_msg("%s: %.1f bytes of records, more than %.0f", what, bytes, bound);
}

/// Never used, on a device, and in HOST, where the tables of the device have their room still.
void records_in_each_state(size_t count, uint64_t pages, double bound, double each,
                           const char *what) {
  Many many{World({.options = "host.memory=128M;host.granule=16K;host.granule_large=0",
                   .device_pages = count * pages + 8,
                   .host_pages = count * pages + 64})};
  many.add(1, page_bytes);  // tables begin
  many.touch(1);
  World &world = many.world;
  const double before = records(world);
  const auto say = [&](const char *state) {
    at_most((std::string(what) + ", " + state).c_str(), (records(world) - before) / each, bound);
  };
  many.add(count, pages * page_bytes);
  say("created");
  many.touch(1);
  say("on a device");
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
  say("in HOST");
  many.close();
}

void records_of_one_page_buffers(void **) {
  const size_t count = 2000;
  records_in_each_state(count, 1, 512, static_cast<double>(count), "a buffer of one page");
}

void records_of_pages(void **) {
  // The buffer's own are in it.
  const size_t count = 40;
  const uint64_t pages = 64;
  const double all = static_cast<double>(count) * static_cast<double>(pages);
  records_in_each_state(count, pages, 128 + 512.0 / static_cast<double>(pages), all,
                        "a page of a buffer of 64");
}

/// In COMPRESSED, where it is remembered too what is to be coded again, and in STORAGE. Where most pages are below the device, as
/// in a pool that promises more than it has, and where all have been on a device and in HOST, which have room for them.
void records_below(size_t count, uint64_t pages, double bound, const std::string &what) {
  const uint64_t all = count * pages;
  for (const bool roomy : {false, true}) {
    for (const bool stored : {false, true}) {
      Many many{World({.options = "host.memory=128M;host.granule=16K;host.granule_large=0",
                       .device_pages = roomy ? all + 8 : 64,
                       .host_pages = roomy ? all + 64 : 64,
                       .compressed_pages = stored ? 0 : all + 64,
                       .storage_pages = stored ? all + 64 : 0,
                       .recompress_idle_ns = uint64_t{60} * 1'000'000'000})};
      World &world = many.world;
      many.add(1, page_bytes);
      many.touch(1);
      const double before = records(world);
      many.add(count, pages * page_bytes);
      many.touch(1);
      if (roomy) {
        ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
        ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
      }
      const weir_pool_stats stats = world.stats();
      assert_true((stored ? stats.storage_raw_bytes : stats.compressed_raw_bytes) >=
                  (all - 128) * page_bytes);
      const std::string state = stored ? ", in STORAGE" : ", in COMPRESSED";
      at_most((what + state + (roomy ? ", by way of all above" : "")).c_str(),
              (records(world) - before) / static_cast<double>(all), bound);
      many.close();
    }
  }
}

void records_of_pages_below(void **) { records_below(40, 64, 128, "a page of a buffer of 64"); }
void records_of_one_page_buffers_below(void **) {
  records_below(2000, 1, 512, "a buffer of one page");
}

/// Buffers come and go, of lengths that few had before, so that few take another's place: the pool remembers nothing of them.
void records_do_not_grow_with_time(void **) {
  Many many{World({.options = small_host,
                   .device_pages = 48,
                   .host_pages = 64,
                   .compressed_pages = 256,
                   .recompress_idle_ns = uint64_t{60} * 1'000'000'000})};
  uint64_t length = 0;
  const auto turn = [&](size_t turns) {
    for (size_t i = 0; i < turns; ++i) {
      for (uint64_t each = 0; each < 4; ++each)
        many.add(1, (8 + each) * page_bytes + ++length % 1024 * 16);
      many.touch(1);
      for (weir_buffer buffer : many.buffers) ok(weir_buffer_destroy(many.world.pool, buffer));
      many.buffers.clear();
    }
    return records(many.world);
  };
  const double before = turn(100);
  const double after = turn(400);
  if (after > before + 4096) fail_msg("%.0f bytes of records, then %.0f", before, after);
  many.close();
}

void records_of_tenants(void **) {
  Many many{World({.options = "host.memory=64M;host.granule=2M;host.granule_large=0",
                   .device_pages = 32 * 128,
                   .host_pages = 128,
                   .page_granules = 128})};
  const size_t count = 65536;
  const double before = records(many.world);
  many.add(count, 256);
  at_most("a tenant", (records(many.world) - before) / static_cast<double>(count), 72);
  many.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(mappings_do_not_grow_with_buffers),
      cmocka_unit_test(mappings_do_not_grow_with_time),
      cmocka_unit_test(records_of_one_page_buffers),
      cmocka_unit_test(records_of_pages),
      cmocka_unit_test(records_of_pages_below),
      cmocka_unit_test(records_of_one_page_buffers_below),
      cmocka_unit_test(records_do_not_grow_with_time),
      cmocka_unit_test(records_of_tenants),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
//
// The tiers below HOST through the C ABI: bytes survive on every rung of every ladder, pages go where they should,
// what is clean is not written again, budgets and quotas hold, and a refusal is exact and loses nothing.

#include <cstring>
#include <cerrno>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

const uint64_t two_pages = 2 * page_bytes;

/// Bytes that nothing compresses.
std::vector<uint8_t> noise(uint64_t bytes, uint64_t seed) {
  std::vector<uint8_t> out(bytes);
  uint64_t x = seed * 0x9e3779b97f4a7c15U + 1;
  for (uint8_t &byte : out) {
    x ^= x << 13U;
    x ^= x >> 7U;
    x ^= x << 17U;
    byte = static_cast<uint8_t>(x >> 32U);
  }
  return out;
}

weir_buffer_info query(World &world, weir_buffer buffer) {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  ok(weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info));
  assert_int_equal(info.size, info.device_bytes + info.peer_bytes + info.host_bytes +
                                  info.compressed_bytes + info.storage_bytes +
                                  info.unwritten_bytes + info.lost_bytes);
  return info;
}

void within_budgets(const weir_pool_stats &s) {
  assert_true(s.device_bytes <= s.device_budget);
  assert_true(s.host_bytes <= s.host_budget);
  assert_true(s.host_used_bytes + s.staging_bytes <= s.host_bytes);
  assert_true(s.compressed_bytes <= s.compressed_budget);
  assert_true(s.storage_bytes <= s.storage_budget);
}

void nothing_left(World &world) {
  const weir_pool_stats s = world.stats();
  assert_int_equal(s.host_used_bytes, 0);
  assert_int_equal(s.compressed_bytes, 0);
  assert_int_equal(s.compressed_raw_bytes, 0);
  assert_int_equal(s.storage_bytes, 0);
  assert_int_equal(s.storage_raw_bytes, 0);
}

/// Many more buffers than device and HOST hold together, written, read back on the device and by the CPU.
void survives(const Setup &setup) {
  World world(setup);
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 24; ++i) {
    buffers.push_back(world.buffer(two_pages - 100 * (i % 3)));
    world.fill(buffers[i], two_pages - 100 * (i % 3), i);
    within_budgets(world.stats());
  }
  for (uint32_t round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < 24; ++i) {
      world.check(buffers[i], two_pages - 100 * (i % 3), i);
      world.check_read(buffers[(i * 7) % 24], two_pages - 100 * ((i * 7) % 24 % 3), (i * 7) % 24);
      (void)query(world, buffers[i]);
    }
  }
  const weir_pool_stats s = world.stats();
  within_budgets(s);
  assert_true(s.sunk_bytes > 0);
  assert_true(s.lifted_bytes > 0);
  assert_int_equal(s.checksum_failures, 0);
  assert_int_equal(s.io_errors, 0);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  nothing_left(world);
  world.close();
}

void bytes_survive_in_compressed(void **) {
  survives({.device_pages = 4, .host_pages = 8, .compressed_pages = 64});
}
void bytes_survive_in_storage(void **) {
  survives({.device_pages = 4, .host_pages = 8, .storage_pages = 64});
}
void bytes_survive_in_both(void **) {
  survives({.device_pages = 4, .host_pages = 8, .compressed_pages = 2, .storage_pages = 64});
}
void bytes_survive_without_host(void **) {
  survives({.device_pages = 4, .host_pages = 0, .compressed_pages = 64});
  survives({.device_pages = 4, .host_pages = 0, .storage_pages = 64});
  survives({.device_pages = 4, .host_pages = 0, .compressed_pages = 2, .storage_pages = 64});
}
void bytes_survive_by_every_way(void **) {
  for (const uint64_t flag : {WEIR_POOL_NO_IO_URING, WEIR_POOL_BUFFERED_STORAGE,
                              WEIR_POOL_ENCRYPT_STORAGE, WEIR_POOL_CHECKSUM_HOST}) {
    survives({.device_pages = 4,
              .host_pages = 8,
              .flags = WEIR_POOL_NO_BACKGROUND | flag,
              .compressed_pages = 1,
              .storage_pages = 64});
  }
}
void bytes_survive_with_every_codec(void **) {
  for (const char *codec :
       {"auto", "lz4", "zstd", "raw", "fx", "sparse", "mask", "planes", "narrow"}) {
    survives({.device_pages = 4, .host_pages = 8, .compressed_pages = 64, .codec = codec});
  }
}
void bytes_survive_in_the_background(void **) {
  survives({.device_pages = 4,
            .host_pages = 8,
            .flags = WEIR_POOL_CHECKSUM_HOST,
            .compressed_pages = 2,
            .storage_pages = 64});
}
void bytes_survive_without_vmm(void **) {
  survives({.options = std::string(small_host) + ";host.vmm=0",
            .device_pages = 4,
            .host_pages = 16,
            .compressed_pages = 1,
            .storage_pages = 64});
}

/// Without VMM a buffer is one page, which goes down and comes up in parts.
void a_large_page_goes_in_parts(void **) {
  if (page_bytes > 256 * 1024) skip();          // gigabytes on disk, and nothing more to see
  const uint64_t bytes = 600 * page_bytes + 5;  // three parts
  for (const uint64_t compressed : {uint64_t{0}, uint64_t{40}, uint64_t{3000}}) {
    World world({.options = "host.memory=32M;host.granule=16K;host.granule_large=0;host.vmm=0",
                 .device_pages = 700,
                 .host_pages = 1300,
                 .compressed_pages = compressed,
                 .storage_pages = compressed == 3000 ? 0U : 2400U});
    weir_buffer buffers[4];
    for (uint32_t i = 0; i < 4; ++i) {
      buffers[i] = world.buffer(bytes);
      world.fill(buffers[i], bytes, i);
    }
    for (uint32_t i = 0; i < 4; ++i) world.check_read(buffers[i], bytes, i);
    for (uint32_t i = 0; i < 4; ++i) world.check(buffers[i], bytes, i);
    assert_true(world.stats().sunk_bytes >= bytes);
    assert_true(world.stats().lifted_bytes >= bytes);
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    nothing_left(world);
    world.close();
  }
}

/// Puts everything as far down as it goes.
void push_down(World &world) {
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
}

void what_compresses_goes_to_compressed_and_what_does_not_past_it(void **) {
  World world({.device_pages = 4, .host_pages = 16, .compressed_pages = 16, .storage_pages = 16});
  weir_buffer soft = world.buffer(two_pages);
  weir_buffer hard = world.buffer(two_pages);
  const auto bytes = noise(two_pages, 3);
  world.fill(soft, two_pages, 3);
  ok(weir_buffer_write(world.pool, hard, 0, two_pages, bytes.data()));
  push_down(world);
  assert_int_equal(query(world, soft).compressed_bytes, two_pages);
  assert_int_equal(query(world, hard).storage_bytes, two_pages);
  const weir_pool_stats s = world.stats();
  assert_int_equal(s.compressed_raw_bytes, two_pages);
  assert_true(s.compressed_bytes < two_pages);
  assert_int_equal(s.storage_raw_bytes, two_pages);
  assert_int_equal(s.storage_written_bytes, two_pages);
  assert_int_equal(s.incompressible_bytes, two_pages);
  assert_int_equal(s.host_used_bytes, 0);
  std::vector<uint8_t> back(two_pages);
  ok(weir_buffer_read(world.pool, hard, 0, two_pages, back.data()));
  assert_memory_equal(back.data(), bytes.data(), two_pages);
  world.check(soft, two_pages, 3);
  world.close();
}

/// Weights go by their exponents, whatever the owner says they are, and what coded them is told.
void the_codec_tells_what_paid(void **) {
  for (const uint32_t element : {WEIR_ELEMENT_ANY, WEIR_ELEMENT_BF16, WEIR_ELEMENT_F32}) {
    World world({.device_pages = 4, .host_pages = 16, .compressed_pages = 16});
    weir_codec_stats stats = WEIR_CODEC_STATS_INIT;
    ok(weir_pool_codec_stats_get(world.pool, &stats));
    for (const weir_codec_share &share : stats.methods) assert_int_equal(share.raw_bytes, 0);
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = two_pages;
    desc.alignment = page_bytes;
    desc.element = element;
    weir_buffer weights = nullptr;
    ok(weir_buffer_create(world.pool, &desc, &weights));
    auto bytes = noise(two_pages, 3);
    for (uint64_t i = 1; i < two_pages;
         i += 2)  // exponents of three neighbouring powers of two, both signs
      bytes[i] = static_cast<uint8_t>((bytes[i] & 0x80U) | (0x3dU + bytes[i] % 3));
    ok(weir_buffer_write(world.pool, weights, 0, two_pages, bytes.data()));
    push_down(world);
    assert_int_equal(query(world, weights).compressed_bytes, two_pages);
    ok(weir_pool_codec_stats_get(world.pool, &stats));
    const weir_codec_share &fx = stats.methods[WEIR_CODEC_FX];
    assert_int_equal(fx.raw_bytes, two_pages);
    assert_true(fx.coded_bytes != 0 && fx.coded_bytes < two_pages * 4 / 5);
    assert_int_equal(stats.elements[WEIR_ELEMENT_BF16].raw_bytes, two_pages);
    assert_int_equal(stats.elements[WEIR_ELEMENT_BF16].coded_bytes,
                     world.stats().compressed_out_bytes);
    std::vector<uint8_t> back(two_pages);
    ok(weir_buffer_read(world.pool, weights, 0, two_pages, back.data()));
    assert_memory_equal(back.data(), bytes.data(), two_pages);
    stats.struct_size = 0;
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_codec_stats_get(world.pool, &stats));
    world.close();
  }
}

/// Once its bytes are below HOST, a page that is only read is never written again.
void a_clean_page_is_not_written_twice(void **) {
  World world({.device_pages = 4, .host_pages = 6, .storage_pages = 64});
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 12; ++i) {
    buffers.push_back(world.buffer(two_pages));
    world.fill(buffers[i], two_pages, i);
  }
  push_down(world);
  for (uint32_t i = 0; i < 12; ++i) world.check(buffers[i], two_pages, i);
  const weir_pool_stats before = world.stats();
  assert_int_equal(before.storage_written_bytes, 12 * two_pages);
  for (uint32_t i = 0; i < 36; ++i) world.check(buffers[(i * 5) % 12], two_pages, (i * 5) % 12);
  const weir_pool_stats after = world.stats();
  assert_int_equal(after.storage_written_bytes, before.storage_written_bytes);
  assert_int_equal(after.demoted_bytes, before.demoted_bytes);
  assert_true(after.dropped_clean_bytes > before.dropped_clean_bytes);
  // Written once, its bytes in STORAGE are void.
  world.fill(buffers[0], two_pages, 99);
  push_down(world);
  assert_int_equal(world.stats().storage_written_bytes, before.storage_written_bytes + two_pages);
  world.check(buffers[0], two_pages, 99);
  world.close();
}

void what_is_not_expected_back_passes_host(void **) {
  World world({.device_pages = 4, .host_pages = 32, .storage_pages = 32});
  weir_buffer once = world.buffer(two_pages);
  weir_buffer other = world.buffer(4 * page_bytes);
  ok(weir_advise(world.pool, once, 0, WEIR_WHOLE, WEIR_ADVISE_STREAMING));
  world.fill(once, two_pages, 7);
  world.fill(other, 4 * page_bytes, 8);
  assert_int_equal(query(world, once).storage_bytes, two_pages);
  assert_int_equal(world.stats().host_used_bytes, 0);
  world.check(once, two_pages, 7);
  assert_int_equal(query(world, other).host_bytes, two_pages);
  world.close();
}

void a_refusal_is_exact_and_loses_nothing(void **) {
  World world({.device_pages = 2, .host_pages = 4, .storage_pages = 4});
  const weir_pool_stats empty = world.stats();
  const uint64_t host = (empty.host_budget - empty.staging_bytes) / page_bytes;
  const uint64_t total = 2 + host + 4;
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < total; ++i) {
    buffers.push_back(world.buffer(page_bytes));
    world.fill(buffers[i], page_bytes, i);
  }
  weir_buffer more = world.buffer(page_bytes);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(more, WEIR_DISCARD_WRITE, &lease));
  const weir_error_info error = last_error();
  assert_int_equal(error.tier, WEIR_TIER_STORAGE);
  assert_int_equal(error.asked, page_bytes);
  assert_int_equal(error.available, 0);
  assert_int_equal(error.short_by, page_bytes);
  assert_non_null(std::strstr(weir_last_error(), "no room below HOST"));
  for (uint32_t i = 0; i < total; ++i) world.check_read(buffers[i], page_bytes, i);
  ok(weir_buffer_destroy(world.pool, buffers[1]));
  world.fill(more, page_bytes, 77);
  for (uint32_t i = 0; i < total; ++i) {
    if (i != 1) world.check_read(buffers[i], page_bytes, i);
  }
  world.close();
}

/// Reading a page below HOST can push others down but must not need room for itself.
void everything_full_can_still_be_read_on_the_device(void **) {
  World world({.device_pages = 2, .host_pages = 4, .storage_pages = 4});
  const weir_pool_stats empty = world.stats();
  const uint64_t host = (empty.host_budget - empty.staging_bytes) / page_bytes;
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 1 + host + 4; ++i) {
    buffers.push_back(world.buffer(page_bytes));
    world.fill(buffers[i], page_bytes, i);
  }
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < buffers.size(); ++i) world.check(buffers[i], page_bytes, i);
  }
  world.close();
}

void every_access_reaches_pages_below_host(void **) {
  World world({.device_pages = 4, .host_pages = 16, .compressed_pages = 8, .storage_pages = 16});
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  for (const bool compressible : {true, false}) {
    weir_buffer buffer = world.buffer(two_pages);
    std::vector<uint8_t> model = noise(two_pages, 5);
    if (compressible) std::fill(model.begin(), model.end(), uint8_t{42});
    const auto equal = [&] {
      std::vector<uint8_t> back(two_pages);
      ok(weir_buffer_read(world.pool, buffer, 0, two_pages, back.data()));
      assert_memory_equal(back.data(), model.data(), two_pages);
    };
    ok(weir_buffer_write(world.pool, buffer, 0, two_pages, model.data()));
    push_down(world);
    assert_int_equal(query(world, buffer).compressed_bytes + query(world, buffer).storage_bytes,
                     two_pages);
    // A part of a page is written: the rest comes up from below.
    ok(weir_buffer_write(world.pool, buffer, 100, 5, "hello"));
    std::memcpy(&model[100], "hello", 5);
    equal();
    push_down(world);
    weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
    use.offset = page_bytes - 3;
    use.length = 6;
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
    assert_memory_equal(reinterpret_cast<void *>(use.address), &model[page_bytes - 3], 6);
    std::memcpy(reinterpret_cast<void *>(use.address), "leased", 6);
    std::memcpy(&model[page_bytes - 3], "leased", 6);
    ok(weir_release(lease, cpu));
    equal();
    push_down(world);
    uint64_t address = 0;
    ok(weir_hold(world.pool, buffer, 0, &address));
    assert_memory_equal(world.device_bytes(address, two_pages).data(), model.data(), two_pages);
    ok(weir_unhold(world.pool, buffer));
    push_down(world);
    ok(weir_discard(world.pool, buffer, 0, page_bytes));
    std::fill(model.begin(), model.begin() + page_bytes, uint8_t{0});
    equal();
    push_down(world);
    void *memory = std::aligned_alloc(4096, two_pages);
    ok(weir_host_register(world.pool, buffer, memory, 0));
    equal();
    ok(weir_host_unregister(world.pool, buffer));
    assert_memory_equal(memory, model.data(), two_pages);
    std::free(memory);
    equal();
    ok(weir_buffer_destroy(world.pool, buffer));
    nothing_left(world);
  }
  ok(weir_stream_close(cpu));
  world.close();
}

void tenants_of_a_slab_go_down_together(void **) {
  World world({.device_pages = 2, .host_pages = 8, .compressed_pages = 4, .storage_pages = 32});
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 60; ++i) {
    buffers.push_back(world.buffer(3000));
    world.fill(buffers[i], 3000, i);
  }
  push_down(world);
  assert_int_equal(world.stats().host_used_bytes, 0);
  for (uint32_t i = 0; i < 60; i += 2) world.check(buffers[i], 3000, i);
  for (uint32_t i = 1; i < 60; i += 2) world.check_read(buffers[i], 3000, i);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  nothing_left(world);
  world.close();
}

void quotas_of_clients_hold_below_host(void **) {
  World world({.device_pages = 4, .host_pages = 8, .storage_pages = 64});
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.storage_quota = 3 * page_bytes;
  desc.host_quota = 2 * page_bytes;
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  std::vector<weir_buffer> buffers;
  weir_result result = WEIR_SUCCESS;
  for (uint32_t i = 0; i < 16 && result == WEIR_SUCCESS; ++i) {
    buffers.push_back(world.buffer(page_bytes, WEIR_DEVICE_DEFAULT, client));
    const std::vector<uint8_t> bytes(page_bytes, static_cast<uint8_t>(i));
    result = weir_buffer_write(world.pool, buffers[i], 0, page_bytes, bytes.data());
    weir_client_stats held = WEIR_CLIENT_STATS_INIT;
    ok(weir_client_stats_get(client, &held));
    assert_true(held.storage_bytes <= 3 * page_bytes);
    assert_true(held.host_bytes <= 2 * page_bytes);
  }
  assert_int_equal(result, WEIR_ERROR_OVER_BUDGET);
  assert_int_equal(buffers.size(), 6);  // two in HOST, three below it, and the one that was refused
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_client_destroy(client));
  world.close();
}

/// What a client keeps below HOST besides its copy on the device goes before its quota refuses anything.
void a_quota_counts_no_copy_that_can_go(void **) {
  World world({.device_pages = 4, .host_pages = 0, .storage_pages = 64});
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.storage_quota = two_pages;
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  weir_buffer first = world.buffer(two_pages, WEIR_DEVICE_DEFAULT, client);
  weir_buffer second = world.buffer(two_pages, WEIR_DEVICE_DEFAULT, client);
  weir_buffer other = world.buffer(two_pages);
  world.fill(first, two_pages, 1);
  world.fill(second, two_pages, 2);
  world.fill(other, two_pages, 3);
  ok(weir_discard(world.pool, other, 0, two_pages));
  uint64_t address = 0;
  ok(weir_hold(world.pool, first, 0, &address));  // on the device and in STORAGE
  world.fill(other, two_pages, 3);
  world.check(first, two_pages, 1);
  assert_int_equal(query(world, second).storage_bytes, two_pages);
  world.check(second, two_pages, 2);
  ok(weir_unhold(world.pool, first));
  world.close();
}

/// Room for the pages that lie in registered memory alone is made at the cost of another page's other copy.
void parting_from_registered_memory_keeps_every_page(void **) {
  World world({.device_pages = 4, .host_pages = 8, .storage_pages = 6});
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_buffer mine = world.buffer(two_pages);
  const auto bytes = noise(two_pages, 3);
  ok(weir_buffer_write(world.pool, mine, 0, two_pages, bytes.data()));
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
  weir_use use = WEIR_USE(mine, WEIR_READ);  // the first page in HOST and STORAGE ...
  use.length = page_bytes;
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  ok(weir_release(lease, cpu));
  // ... and the second in HOST alone
  ok(weir_buffer_write(world.pool, mine, page_bytes, page_bytes, bytes.data() + page_bytes));
  void *memory = aligned_alloc(4096, two_pages);
  ok(weir_host_register(world.pool, mine, memory, 0));
  weir_buffer others = world.buffer(6 * page_bytes);
  const auto more = noise(6 * page_bytes, 4);
  ok(weir_buffer_write(world.pool, others, 0, 6 * page_bytes, more.data()));
  const weir_pool_stats s = world.stats();
  assert_int_equal(s.host_used_bytes, 6 * page_bytes);
  assert_int_equal(s.storage_bytes, page_bytes);
  ok(weir_host_unregister(world.pool, mine));
  free(memory);
  std::vector<uint8_t> back(6 * page_bytes);
  ok(weir_buffer_read(world.pool, mine, 0, two_pages, back.data()));
  assert_memory_equal(back.data(), bytes.data(), two_pages);
  ok(weir_buffer_read(world.pool, others, 0, 6 * page_bytes, back.data()));
  assert_memory_equal(back.data(), more.data(), 6 * page_bytes);
  ok(weir_stream_close(cpu));
  world.close();
}

void trim_of_host_moves_pages_down_and_gives_memory_back(void **) {
  World world({.device_pages = 4, .host_pages = 64, .storage_pages = 64});
  weir_buffer buffer = world.buffer(20 * page_bytes);
  const auto bytes = noise(20 * page_bytes, 9);
  ok(weir_buffer_write(world.pool, buffer, 0, 20 * page_bytes, bytes.data()));
  const uint64_t held = world.stats().host_bytes;
  uint64_t freed = 0;
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_GRADUAL, WEIR_WHOLE, &freed));
  assert_int_equal(freed, 0);
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, &freed));
  const weir_pool_stats s = world.stats();
  assert_int_equal(freed, held - s.host_bytes);
  assert_int_equal(s.host_bytes, s.staging_bytes);
  assert_int_equal(query(world, buffer).storage_bytes, 20 * page_bytes);
  std::vector<uint8_t> back(20 * page_bytes);
  ok(weir_buffer_read(world.pool, buffer, 0, 20 * page_bytes, back.data()));
  assert_memory_equal(back.data(), bytes.data(), bytes.size());
  world.close();
}

/// Each wrong descriptor is refused by name and value, and leaves nothing behind.
void wrong_descriptors_are_refused_by_name(void **) {
  weir_context context = make_context(small_host);
  const char *folder = spill_folder();
  const char *missing = "/no/such/folder";
  const weir_pool_device device{0, 0, 4 * page_bytes, {0, 0}};
  const auto refused = [&](weir_result result, const char *says, auto change) {
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 1;
    desc.devices = &device;
    desc.page_size = desc.large_page_size = page_bytes;
    desc.host_budget = 16 * page_bytes;
    desc.storage_budget = 16 * page_bytes;
    desc.storage_paths = &folder;
    desc.storage_path_count = 1;
    change(desc);
    weir_pool pool = nullptr;
    expect_result(result, weir_pool_create(context, &desc, &pool));
    if (std::strstr(weir_last_error(), says) == nullptr)
      fail_msg("\"%s\" does not say \"%s\"", weir_last_error(), says);
    assert_null(pool);
  };
  constexpr weir_result invalid = WEIR_ERROR_INVALID_ARGUMENT;
  refused(invalid, "storage_path_count is 0", [](auto &d) { d.storage_path_count = 0; });
  refused(invalid, "storage_path_count is 17", [](auto &d) { d.storage_path_count = 17; });
  refused(invalid, "storage_budget is 0", [](auto &d) { d.storage_budget = 0; });
  refused(invalid, "storage_path_count", [](auto &d) { d.storage_paths = nullptr; });
  refused(invalid, "no codec \"gzip\"", [](auto &d) { d.codec = "gzip"; });
  refused(invalid, "compress_share_percent is 101",
          [](auto &d) { d.compress_share_percent = 101; });
  refused(invalid, "reserved is 1", [](auto &d) { d.reserved = 1; });
  refused(invalid, "compressed_budget is 100", [](auto &d) { d.compressed_budget = 100; });
  const std::string small = "host_budget is " + std::to_string(two_pages);
  refused(invalid, small.c_str(), [](auto &d) { d.host_budget = two_pages; });
  refused(invalid, "flags 0x40000000", [](auto &d) { d.flags = 1U << 30U; });
  refused(WEIR_ERROR_IO, missing, [&](auto &d) { d.storage_paths = &missing; });
  assert_int_equal(last_error().native_code, ENOENT);
  refused(WEIR_ERROR_OVER_BUDGET, folder, [](auto &d) { d.storage_budget = uint64_t{1} << 42U; });
  ok(weir_context_destroy(context));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(bytes_survive_in_compressed),
      cmocka_unit_test(bytes_survive_in_storage),
      cmocka_unit_test(bytes_survive_in_both),
      cmocka_unit_test(bytes_survive_without_host),
      cmocka_unit_test(bytes_survive_by_every_way),
      cmocka_unit_test(bytes_survive_with_every_codec),
      cmocka_unit_test(bytes_survive_in_the_background),
      cmocka_unit_test(bytes_survive_without_vmm),
      cmocka_unit_test(a_large_page_goes_in_parts),
      cmocka_unit_test(what_compresses_goes_to_compressed_and_what_does_not_past_it),
      cmocka_unit_test(the_codec_tells_what_paid),
      cmocka_unit_test(a_clean_page_is_not_written_twice),
      cmocka_unit_test(what_is_not_expected_back_passes_host),
      cmocka_unit_test(a_refusal_is_exact_and_loses_nothing),
      cmocka_unit_test(everything_full_can_still_be_read_on_the_device),
      cmocka_unit_test(every_access_reaches_pages_below_host),
      cmocka_unit_test(tenants_of_a_slab_go_down_together),
      cmocka_unit_test(quotas_of_clients_hold_below_host),
      cmocka_unit_test(a_quota_counts_no_copy_that_can_go),
      cmocka_unit_test(parting_from_registered_memory_keeps_every_page),
      cmocka_unit_test(trim_of_host_moves_pages_down_and_gives_memory_back),
      cmocka_unit_test(wrong_descriptors_are_refused_by_name),
  };
  return cmocka_run_group_tests_name("tiers", tests, nullptr, nullptr);
}

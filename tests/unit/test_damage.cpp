// SPDX-License-Identifier: Apache-2.0
//
// Damage below HOST: bytes that come back from a spill file or from compressed memory other than they were put there.
// A call that wants them is told, by tier and use, and never given wrong ones; where another copy is left its bytes come
// instead; the pool goes on, and damage that was on the way only is gone at the next try.

#include "tests/unit/damage.hpp"

namespace {

using namespace weir::test;

// ---- STORAGE ----

void a_flipped_bit_from_storage(void **) {
  for (const uint64_t flags : {uint64_t{0}, uint64_t{WEIR_POOL_ENCRYPT_STORAGE},
                               uint64_t{WEIR_POOL_NO_IO_URING | WEIR_POOL_CHECKSUM_HOST}}) {
    for (const Way &way : ways) {
      for (const uint64_t size : whole_sizes) {
        print_message("%s, %llu bytes, flags %llu\n", way.name,
                      static_cast<unsigned long long>(size),
                      static_cast<unsigned long long>(flags));
        World world = world_with({.flags = flags});
        weir_buffer buffer = world.buffer(size);
        weir_buffer other = world.buffer(size);
        world.fill(buffer, size, 1);
        world.fill(other, size, 5);
        sink(world);
        assert_int_equal(query(world, buffer).storage_bytes, size);
        damage.reads.store(1);
        damage.at.store(size / 7);
        expect_corrupt(world, way.wants(world, buffer, size), WEIR_TIER_STORAGE, 1);
        assert_int_equal(damage.reads.load(), 0);
        assert_int_equal(query(world, buffer).leases, 0);
        // It was on its way only: the file has the right bytes, and so have all the others.
        ok(way.wants(world, buffer, size));
        world.check_read(buffer, size, 1);
        world.check(buffer, size, 1);
        world.check(other, size, 5);
        assert_int_equal(world.stats().checksum_failures, 1);
        for (weir_buffer b : {buffer, other}) ok(weir_buffer_destroy(world.pool, b));
        close_clean(world);
      }
    }
  }
}

void a_prefetch_of_damage_brings_nothing(void **) {
  const uint64_t size = 2 * page_bytes;
  World world = world_with({});
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  sink(world);
  damage.reads.store(1);
  want(world, buffer);
  assert_int_equal(damage.reads.load(), 0);
  assert_int_equal(query(world, buffer).storage_bytes, size);
  assert_int_equal(world.stats().prefetched_bytes, 0);
  assert_int_equal(world.stats().checksum_failures, 1);
  want(world, buffer);
  assert_int_equal(query(world, buffer).device_bytes, size);
  world.check(buffer, size, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Memory that is registered while the bytes lie in STORAGE is parted from with them, or not at all.
void registered_memory_over_damage(void **) {
  const uint64_t size = 3 * page_bytes - 100;
  World world = world_with({});
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  sink(world);
  damage.reads.store(1);
  expect_corrupt(world, registers(world, buffer, size), WEIR_TIER_STORAGE, 1);
  world.check(buffer, size, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// What is damaged for good is refused for good; overwriting it makes the buffer good again.
void damage_that_stays(void **) {
  const uint64_t size = 2 * page_bytes;
  World world = world_with({});
  weir_buffer buffer = world.buffer(size);
  weir_buffer other = world.buffer(size);
  world.fill(buffer, size, 1);
  world.fill(other, size, 5);
  sink(world);
  damage.reads.store(INT32_MAX);
  uint64_t failures = 0;
  for (uint32_t turn = 0; turn < 3; ++turn) {
    for (const Way &way : ways)
      expect_corrupt(world, way.wants(world, buffer, size), WEIR_TIER_STORAGE, ++failures);
    sink(world);
  }
  assert_int_equal(query(world, buffer).storage_bytes, size);
  world.fill(buffer, size, 2);
  world.check(buffer, size, 2);
  sink(world);
  damage.reads.store(0);
  world.check(buffer, size, 2);
  world.check(other, size, 5);
  ok(weir_discard(world.pool, other, 0, WEIR_WHOLE));
  for (weir_buffer b : {buffer, other}) ok(weir_buffer_destroy(world.pool, b));
  close_clean(world);
}

/// One bad page among many: the acquire of all of them brings none, and the others are as good as before.
void one_bad_page_among_many(void **) {
  const uint64_t size = 2 * page_bytes;
  for (int which = 0; which < 4; ++which) {
    World world = world_with({});
    weir_buffer buffers[2] = {world.buffer(size), world.buffer(size)};
    for (uint32_t i = 0; i < 2; ++i) world.fill(buffers[i], size, i + 1);
    sink(world);
    weir_use uses[2] = {WEIR_USE(buffers[0], WEIR_READ), WEIR_USE(buffers[1], WEIR_READ_WRITE)};
    weir_lease lease = nullptr;
    damage.reads.store(1);
    damage.at.store(static_cast<uint64_t>(which) * 4000);
    expect_result(WEIR_ERROR_CORRUPT,
                  weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease));
    assert_true(last_error().use_index < 2);
    assert_int_equal(world.stats().checksum_failures, 1);
    for (uint32_t i = 0; i < 2; ++i) {
      assert_int_equal(query(world, buffers[i]).leases, 0);
      assert_int_equal(query(world, buffers[i]).storage_bytes, size);
    }
    for (uint32_t i = 0; i < 2; ++i) world.check(buffers[i], size, i + 1);
    for (weir_buffer b : buffers) ok(weir_buffer_destroy(world.pool, b));
    close_clean(world);
  }
}

// ---- COMPRESSED ----

unsigned char *blob_of(World &world, weir_buffer buffer, uint32_t page, uint64_t *bytes) {
  return reinterpret_cast<weir::pool::Pool *>(world.pool)
      ->engine()
      .inspector()
      .compressed_blob(buffer, page, bytes);
}

void a_flipped_bit_in_compressed_memory(void **) {
  for (const Way &way : ways) {
    for (const uint64_t size : whole_sizes) {
      print_message("%s, %llu bytes\n", way.name, static_cast<unsigned long long>(size));
      World world = world_with({.compressed = 16, .storage = 0});
      weir_buffer buffer = world.buffer(size);
      world.fill(buffer, size, 1);
      sink(world);
      assert_int_equal(query(world, buffer).compressed_bytes, size);
      uint64_t bytes = 0;
      if (size >= page_bytes) {
        unsigned char *blob = blob_of(world, buffer, 0, &bytes);
        assert_non_null(blob);
        blob[bytes / 2] ^= 4U;
        expect_corrupt(world, way.wants(world, buffer, size), WEIR_TIER_COMPRESSED, 1);
        expect_corrupt(world, way.wants(world, buffer, size), WEIR_TIER_COMPRESSED, 2);
        assert_int_equal(query(world, buffer).compressed_bytes, size);
        blob = blob_of(world, buffer, 0, &bytes);
        blob[bytes / 2] ^= 4U;
      }
      ok(way.wants(world, buffer, size));
      world.check(buffer, size, 1);
      ok(weir_buffer_destroy(world.pool, buffer));
      close_clean(world);
    }
  }
}

/// Every byte of a blob, its headers too: right bytes, or CORRUPT.
void any_byte_of_a_blob(void **) {
  for (const bool noisy : {false, true}) {
    World world = world_with({.compressed = 16, .storage = 0});
    weir_buffer buffer = world.buffer(page_bytes);
    std::vector<uint8_t> content(page_bytes), got(page_bytes);
    for (uint64_t i = 0; i < page_bytes; ++i)
      content[i] = noisy ? static_cast<uint8_t>((i * i * 2654435761U) >> 13U) : pattern(1, i);
    ok(weir_buffer_write(world.pool, buffer, 0, page_bytes, content.data()));
    sink(world);
    uint64_t bytes = 0;
    unsigned char *blob = blob_of(world, buffer, 0, &bytes);
    assert_non_null(blob);
    uint64_t refused = 0;
    const uint64_t step = std::max<uint64_t>(1, bytes / 400);
    for (uint64_t at = 0; at < bytes; at += at < 64 ? 1 : step) {
      const auto flip = static_cast<unsigned char>(1U << (at % 8));
      blob[at] ^= flip;
      const weir_result result = weir_buffer_read(world.pool, buffer, 0, page_bytes, got.data());
      blob[at] ^= flip;
      assert_true(result == WEIR_SUCCESS || result == WEIR_ERROR_CORRUPT);
      if (result == WEIR_SUCCESS) assert_memory_equal(got.data(), content.data(), page_bytes);
      refused += result == WEIR_ERROR_CORRUPT ? 1 : 0;
    }
    assert_true(refused > 0);
    assert_int_equal(world.stats().checksum_failures, refused);
    ok(weir_buffer_read(world.pool, buffer, 0, page_bytes, got.data()));
    assert_memory_equal(got.data(), content.data(), page_bytes);
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// Two pages come to lie in COMPRESSED and in STORAGE: they are being read while they move on. `filler` is what pushes
/// them; it is destroyed.
void into_both(World &world, weir_buffer buffer) {
  const uint64_t size = 2 * page_bytes;
  world.fill(buffer, size, 1);
  sink(world);
  assert_int_equal(query(world, buffer).compressed_bytes, size);
  weir_buffer filler = world.buffer(4 * page_bytes);
  world.fill(filler, 4 * page_bytes, 6);
  ok(trim_all(world));
  {
    // The first to sink are the filler's pages; for their places the others are to move on.
    Gate gate(world.pool, "sink");
    Task pusher([&] {
      return weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr);
    });
    gate.await();
    gate.next("sink");
    gate.await();
    Stops stops(world, {"fill"});
    Kernel kernel{0, size, 1, 0};
    Task reader([&] { return run(world, buffer, WEIR_READ, &kernel); });
    stops.await("fill");
    gate.open();
    ok(pusher.join());
    stops.let_go("fill");
    ok(reader.join());
    assert_int_equal(kernel.wrong, 0);
  }
  ok(weir_buffer_destroy(world.pool, filler));
  ok(trim_all(world));
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
}

void the_stored_copy_stands_in_for_the_compressed_one(void **) {
  const uint64_t size = 2 * page_bytes;
  for (const Way &way : ways) {
    print_message("%s\n", way.name);
    World world = world_with({.compressed = 1, .storage = 64});
    weir_buffer buffer = world.buffer(size);
    into_both(world, buffer);
    // A page at least is in both tiers; whichever is, its damage is made good.
    uint64_t damaged = 0;
    for (uint32_t page = 0; page < 2; ++page) {
      uint64_t bytes = 0;
      unsigned char *blob = blob_of(world, buffer, page, &bytes);
      if (blob == nullptr) continue;
      blob[bytes / 2] ^= 4U;
      ++damaged;
    }
    assert_true(damaged > 0);
    assert_true(world.stats().storage_raw_bytes >= damaged * page_bytes);
    ok(way.wants(world, buffer, size));
    world.check_read(buffer, size, 1);
    world.check(buffer, size, 1);
    assert_true(world.stats().checksum_failures >= 1);
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// Pages that were compressed first lie in STORAGE as they were: what comes back must be a blob.
void a_malformed_blob_from_storage(void **) {
  const uint64_t size = 3 * page_bytes;
  for (const Way &way : ways) {
    World world = world_with({.compressed = 1, .storage = 64});
    weir_buffer buffer = world.buffer(size);
    weir_buffer pushers[2] = {world.buffer(4 * page_bytes), world.buffer(4 * page_bytes)};
    world.fill(buffer, size, 1);
    sink(world);
    for (uint32_t i = 0; i < 2; ++i) {
      world.fill(pushers[i], 4 * page_bytes, i + 5);
      sink(world);
    }
    assert_int_equal(query(world, buffer).storage_bytes, size);
    // Stored as blobs: the pages take less than they are.
    assert_true(world.stats().storage_bytes < world.stats().storage_raw_bytes);
    uint64_t failures = 0;
    for (const int mask : {1, 0x80, 0xff}) {
      for (const uint64_t at : {0U, 1U, 2U, 4U, 8U, 17U}) {
        if (at == 4 && mask == 1) continue;  // the version, which would be 2: that is read as well
        damage.mask.store(mask);
        damage.at.store(at);
        damage.reads.store(1);
        expect_corrupt(world, way.wants(world, buffer, size), WEIR_TIER_STORAGE, ++failures);
      }
    }
    ok(way.wants(world, buffer, size));
    world.check(buffer, size, 1);
    for (uint32_t i = 0; i < 2; ++i) world.check(pushers[i], 4 * page_bytes, i + 5);
    for (weir_buffer b : {buffer, pushers[0], pushers[1]}) ok(weir_buffer_destroy(world.pool, b));
    close_clean(world);
  }
}

}  // namespace

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_flipped_bit_from_storage),
      cmocka_unit_test(a_prefetch_of_damage_brings_nothing),
      cmocka_unit_test(registered_memory_over_damage),
      cmocka_unit_test(damage_that_stays),
      cmocka_unit_test(one_bad_page_among_many),
      cmocka_unit_test(a_flipped_bit_in_compressed_memory),
      cmocka_unit_test(any_byte_of_a_blob),
      cmocka_unit_test(the_stored_copy_stands_in_for_the_compressed_one),
      cmocka_unit_test(a_malformed_blob_from_storage),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

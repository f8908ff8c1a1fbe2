// SPDX-License-Identifier: Apache-2.0
//
// WEIR_POOL_CHECKSUM_HOST: bytes that changed in HOST behind the pool's back are told, wherever they would be used,
// and never silently. The stray write comes through the pointer of a READ lease on the CPU's memory.

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

const uint64_t size = 2 * page_bytes;

World checked_world(uint64_t flags) {
  return World({.options = small_host,
                .device_pages = 4,
                .host_pages = 16,
                .flags = flags | WEIR_POOL_NO_BACKGROUND});
}

void demote(World &world) {
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
}

/// Flips a bit of the copy in HOST; doing it twice undoes it.
void damage(World &world, weir_buffer buffer, uint64_t at) {
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  reinterpret_cast<unsigned char *>(use.address)[at] ^= 1U;
  ok(weir_release(lease, cpu));
  ok(weir_stream_close(cpu));
}

uint64_t failures(World &world) { return world.stats().checksum_failures; }

void a_damaged_page_is_refused_everywhere(void **) {
  World world = checked_world(WEIR_POOL_CHECKSUM_HOST);
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  demote(world);
  damage(world, buffer, page_bytes + 7);
  assert_int_equal(failures(world), 0);

  weir_lease lease = nullptr;
  for (const uint32_t device : {0U, WEIR_DEVICE_HOST}) {
    weir_stream stream = world.streams[0];
    if (device == WEIR_DEVICE_HOST) ok(weir_stream_create(world.context, device, 0, &stream));
    weir_use use = WEIR_USE(buffer, WEIR_READ);
    expect_result(WEIR_ERROR_CORRUPT, weir_acquire(world.pool, stream, &use, 1, nullptr, &lease));
    weir_error_info info = WEIR_ERROR_INFO_INIT;
    ok(weir_last_error_info(&info));
    assert_int_equal(info.tier, WEIR_TIER_HOST);
    assert_int_equal(info.use_index, 0);
    if (device == WEIR_DEVICE_HOST) ok(weir_stream_close(stream));
  }
  unsigned char byte = 0;
  expect_result(WEIR_ERROR_CORRUPT, weir_buffer_read(world.pool, buffer, page_bytes, 1, &byte));
  assert_int_equal(failures(world), 3);
  // The other page is as good as it was, and the buffer is not leased by the calls that failed.
  ok(weir_buffer_read(world.pool, buffer, 0, 1, &byte));
  assert_int_equal(byte, pattern(1, 0));
  // Written anew as a whole it is good again.
  world.fill(buffer, size, 2);
  world.check(buffer, size, 2);
  demote(world);
  world.check(buffer, size, 2);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void an_undone_change_is_no_damage(void **) {
  World world = checked_world(WEIR_POOL_CHECKSUM_HOST);
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 3);
  demote(world);
  damage(world, buffer, 5);
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_CORRUPT,
                weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &lease));
  // The lease on the other page reaches the damaged one through the same view.
  use.offset = page_bytes;
  use.length = 1;
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  reinterpret_cast<unsigned char *>(use.address - page_bytes)[5] ^= 1U;
  ok(weir_release(lease, cpu));
  ok(weir_stream_close(cpu));
  world.check_read(buffer, size, 3);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void a_good_copy_on_the_device_stands_in(void **) {
  World world = checked_world(WEIR_POOL_CHECKSUM_HOST);
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 4);
  demote(world);
  world.check(buffer, size, 4);  // both copies are the latest now
  damage(world, buffer, 9);
  world.check_read(buffer, size, 4);  // from the device
  assert_int_equal(failures(world), 1);
  demote(world);
  world.check(buffer, size, 4);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void what_the_host_writes_itself_is_no_damage(void **) {
  World world = checked_world(WEIR_POOL_CHECKSUM_HOST);
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 5);
  demote(world);
  std::vector<unsigned char> bytes(size);
  for (uint64_t i = 0; i < size; ++i) bytes[i] = pattern(6, i);
  ok(weir_buffer_write(world.pool, buffer, 0, size / 2, bytes.data()));
  weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
  use.offset = size / 2;
  use.length = size / 2;
  weir_stream cpu = nullptr;
  weir_lease lease = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  std::copy(bytes.begin() + size / 2, bytes.end(), reinterpret_cast<unsigned char *>(use.address));
  ok(weir_release(lease, cpu));
  ok(weir_stream_close(cpu));
  world.check_read(buffer, size, 6);
  assert_int_equal(failures(world), 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void nothing_is_checked_unasked(void **) {
  World world = checked_world(0);
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 7);
  demote(world);
  damage(world, buffer, 1);
  unsigned char byte = 0;
  ok(weir_buffer_read(world.pool, buffer, 1, 1, &byte));
  assert_int_equal(byte, pattern(7, 1) ^ 1U);
  assert_int_equal(failures(world), 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_damaged_page_is_refused_everywhere),
      cmocka_unit_test(an_undone_change_is_no_damage),
      cmocka_unit_test(a_good_copy_on_the_device_stands_in),
      cmocka_unit_test(what_the_host_writes_itself_is_no_damage),
      cmocka_unit_test(nothing_is_checked_unasked),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

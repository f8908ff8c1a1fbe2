// SPDX-License-Identifier: Apache-2.0
//
// A set that is refused is refused as a whole: no address of it is written, whichever way it was refused, and the error names
// the use that was in the way.

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t untouched = 0x1234567;

/// Whatever way a set is refused, by the hit path or behind it, on a device or the CPU, now or later: no address is written,
/// no lease either, and the use that is in the way is named.
void addresses_are_all_or_nothing(void **) {
  World world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_buffer free_ones[5];
  for (weir_buffer &each : free_ones) {
    each = world.buffer(page_bytes, 0);
    world.fill(each, page_bytes, 1);
  }
  const weir_buffer taken = world.buffer(page_bytes, 0);
  world.fill(taken, page_bytes, 2);
  weir_lease writer = nullptr;
  ok(world.acquire(taken, WEIR_READ_WRITE, &writer));
  for (const weir_stream stream : {world.streams[0], world.streams[1], cpu}) {
    for (const uint32_t flags : {uint32_t{0}, uint32_t{WEIR_USE_ALLOW_REMOTE}}) {
      if (stream == cpu && flags != 0) continue;
      for (size_t count = 1; count <= 6; ++count) {
        for (const bool later : {false, true}) {
          weir_use uses[6];
          for (size_t i = 0; i < count; ++i) {
            uses[i] = WEIR_USE(i + 1 < count ? free_ones[i] : taken, WEIR_READ);
            uses[i].address = untouched;
            uses[i].flags = flags;
          }
          weir_lease lease = nullptr;
          weir_result result = WEIR_SUCCESS;
          if (later) {
            weir_request request = nullptr;
            ok(weir_acquire_async(
                world.pool, stream, uses, count, nullptr,
                [](void *user, weir_result, weir_lease given) {
                  *static_cast<weir_lease *>(user) = given;
                },
                &lease, &request));
            ok(weir_request_wait(request, &result));
            weir_request_close(request);
          } else {
            result = weir_acquire(world.pool, stream, uses, count, nullptr, &lease);
          }
          assert_int_equal(result, WEIR_ERROR_LEASE_CONFLICT);
          assert_null(lease);
          assert_int_equal(last_error().use_index, count - 1);
          for (size_t i = 0; i < count; ++i) assert_int_equal(uses[i].address, untouched);
        }
      }
    }
  }
  ok(weir_release(writer, world.streams[0]));
  assert_int_equal(world.stats().device_held_bytes, 0);
  ok(weir_stream_close(cpu));
  world.close();
}

/// A small buffer that is leased at home can't be had elsewhere, and the set that wants it is told which it was.
void a_slabs_tenant_is_named(void **) {
  World world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
  weir_buffer small[3];
  for (weir_buffer &each : small) {
    each = world.buffer(page_bytes / 8, 0);
    world.fill(each, page_bytes / 8, 1);
  }
  const weir_buffer large = world.buffer(page_bytes, 1);
  weir_lease reader = nullptr;
  ok(world.acquire(small[1], WEIR_READ, &reader));
  for (const bool later : {false, true}) {
    weir_use uses[4] = {WEIR_USE(large, WEIR_READ), WEIR_USE(small[0], WEIR_READ),
                        WEIR_USE(small[1], WEIR_READ), WEIR_USE(small[2], WEIR_READ)};
    for (weir_use &use : uses) use.address = untouched;
    weir_lease lease = nullptr;
    weir_result result = WEIR_SUCCESS;
    if (later) {
      weir_request request = nullptr;
      ok(weir_acquire_async(
          world.pool, world.streams[1], uses, 4, nullptr, [](void *, weir_result, weir_lease) {},
          nullptr, &request));
      ok(weir_request_wait(request, &result));
      weir_request_close(request);
    } else {
      result = weir_acquire(world.pool, world.streams[1], uses, 4, nullptr, &lease);
    }
    assert_int_equal(result, WEIR_ERROR_LEASE_CONFLICT);
    assert_int_equal(last_error().use_index, 2);
    for (const weir_use &use : uses) assert_int_equal(use.address, untouched);
  }
  ok(weir_release(reader, world.streams[0]));
  for (const weir_buffer each : small) world.check(each, page_bytes / 8, 1);
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(addresses_are_all_or_nothing),
      cmocka_unit_test(a_slabs_tenant_is_named),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
//
// Prefetches and acquires that are after the same room: nobody but a lease makes an acquire answer WOULD_BLOCK. What Weir's
// own threads have in hand (pages they have chosen as victims, granules they have taken for a prefetch) comes back by
// itself, and is waited for.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

/// One thread, one lease at a time, each the whole of the device, and the next one prefetched while it is out.
void no_lease_no_refusal(void **) {
  constexpr uint32_t count = 9;
  constexpr uint32_t turns = 1500;
  Setup setup;
  setup.device_pages = 6;
  setup.flags = 0;
  World world(setup);
  weir_buffer buffers[count];
  for (uint32_t i = 0; i < count; ++i) buffers[i] = world.buffer(2 * page_bytes);
  uint32_t refused = 0;
  for (uint32_t turn = 0; turn < turns; ++turn) {
    weir_use uses[3];
    weir_use next[3];
    for (uint32_t u = 0; u < 3; ++u) {
      uses[u] = WEIR_USE(buffers[(turn * (u + 1) + u * 3) % count], WEIR_READ_WRITE);
      next[u] = WEIR_USE(buffers[((turn + 1) * (u + 1) + u * 3) % count], WEIR_READ);
    }
    weir_lease lease = nullptr;
    const weir_result got = weir_acquire(world.pool, world.streams[0], uses, 3, nullptr, &lease);
    if (got == WEIR_ERROR_WOULD_BLOCK) {
      ++refused;
    } else {
      ok(got);
    }
    ok(weir_prefetch(world.pool, world.streams[0], next, 3));
    if (lease != nullptr) ok(weir_release(lease, world.streams[0]));
  }
  print_message("%u of %u acquires were refused\n", refused, turns);
  assert_int_equal(refused, 0);
  engine_of(world).wait_idle();
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_lease_no_refusal)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
//
// weir_buffer_write beside leases on other bytes of the same page: none of the two may undo the other, and a lease's
// pointer stays good.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

const uint64_t half = page_bytes / 2;

std::vector<unsigned char> pattern_of(uint32_t seed) {
  std::vector<unsigned char> bytes(half);
  Kernel kernel{reinterpret_cast<uint64_t>(bytes.data()), half, seed, 0};
  Kernel::write(&kernel);
  return bytes;
}

/// The page's halves, by a kernel on the device and by the host.
void check_halves(World &world, weir_buffer buffer, uint32_t first, uint32_t second) {
  std::vector<unsigned char> got(page_bytes);
  for (const bool promoted : {false, true}) {
    if (promoted) {
      weir_lease lease = nullptr;
      ok(world.acquire(buffer, WEIR_READ, &lease));
      ok(weir_release(lease, world.streams[0]));
    }
    ok(weir_buffer_read(world.pool, buffer, 0, page_bytes, got.data()));
    assert_memory_equal(got.data(), pattern_of(first).data(), half);
    assert_memory_equal(got.data() + half, pattern_of(second).data(), half);
    ok(trim_all(world));
  }
}

weir_buffer two_halves(World &world) {
  weir_buffer buffer = world.buffer(page_bytes);
  weir_lease lease = nullptr;
  Kernel kernel{0, half, 1, 0};
  ok(world.acquire(buffer, WEIR_DISCARD_WRITE, &lease, &kernel.address));
  ok(weir_stream_synchronize(world.streams[0]));
  Kernel::write(&kernel);
  kernel.address += half;
  Kernel::write(&kernel);
  ok(weir_release(lease, world.streams[0]));
  return buffer;
}

void a_write_beside_a_host_lease(void **state) {
  for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE}) {
    World world = world_for(state);
    weir_buffer buffer = two_halves(world);
    weir_stream cpu = nullptr;
    ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
    weir_use use = WEIR_USE(buffer, mode);
    use.length = half;
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
    ok(weir_buffer_write(world.pool, buffer, half, half, pattern_of(2).data()));
    Kernel kernel{use.address, half, 1, 0};
    Kernel::compare(&kernel);
    assert_int_equal(kernel.wrong, 0);
    kernel.seed = 3;
    if (mode == WEIR_READ_WRITE) Kernel::write(&kernel);
    ok(weir_release(lease, cpu));
    check_halves(world, buffer, mode == WEIR_READ ? 1 : 3, 2);
    ok(weir_stream_close(cpu));
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// The write is held on its way to the device's copy, while a lease asks for the page's bytes in HOST.
void a_host_lease_meets_a_write(void **state) {
  World world = world_for(state);
  weir_buffer buffer = two_halves(world);
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
  use.length = half;
  weir_lease lease = nullptr;
  {
    Gate gate(world.pool, "copy");
    Task writer(
        [&] { return weir_buffer_write(world.pool, buffer, half, half, pattern_of(2).data()); });
    gate.await();
    Task user([&] { return weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease); });
    // It has to wait; one that does not gets the time to end, and to be caught.
    (void)stays([&user] { return !user.ended(); });
    gate.open();
    ok(writer.join());
    ok(user.join());
  }
  Kernel kernel{use.address, half, 3, 0};
  Kernel::write(&kernel);
  ok(weir_release(lease, cpu));
  check_halves(world, buffer, 3, 2);
  ok(weir_stream_close(cpu));
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      BOTH(a_write_beside_a_host_lease),
      BOTH(a_host_lease_meets_a_write),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

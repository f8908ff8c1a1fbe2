// SPDX-License-Identifier: Apache-2.0
//
// While an acquire makes its stream wait for what is older it has everything claimed, and no lock (a full stream may keep it
// there). What others do meanwhile finds the lease as if it were out; what the acquire finds afterwards it looks at again.

#include <memory>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "tests/unit/interleaving.hpp"

#include "tests/unit/interposed_host.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t pages = 2;

struct Between {
  World world;
  weir_stream other = nullptr;
  weir_buffer buffer = nullptr;
  const uint64_t size = pages * page_bytes;
  weir_lease lease = nullptr;
  weir_use use{};

  explicit Between(uint32_t mode)
      : world({.device_pages = 6, .host_pages = 16}), use(WEIR_USE(nullptr, mode)) {
    ok(weir_stream_create(world.context, 0, 0, &other));
    buffer = world.buffer(size);
    world.fill(buffer, size, 1);
    world.check(buffer, size, 1);
    use.buffer = buffer;
  }
  weir::pool::Engine &engine() {
    return reinterpret_cast<weir::pool::Pool *>(world.pool)->engine();
  }
  weir_result acquire() { return weir_acquire(world.pool, other, &use, 1, nullptr, &lease); }
  void validate() { assert_string_equal(engine().validate().c_str(), ""); }
  void end() {
    validate();
    ok(weir_buffer_destroy(world.pool, buffer));
    ok(weir_stream_close(other));
    world.close();
  }
};

/// Everything leaves the device that can: what is about to be leased can't. Nor can it be written, or ended.
void it_counts_as_leased(void **) {
  for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
    Between b(mode);
    weir_buffer beside = b.world.buffer(b.size);
    b.world.fill(beside, b.size, 2);
    ok(weir_pool_trim(b.world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    auto gate = std::make_unique<Gate>(b.world.pool, "acquire.order");
    Task task([&] { return b.acquire(); });
    gate->await();
    ok(weir_pool_trim(b.world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    std::vector<uint8_t> bytes(b.size);
    expect_result(WEIR_ERROR_LEASE_CONFLICT,
                  weir_buffer_write(b.world.pool, b.buffer, 0, b.size, bytes.data()));
    expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_discard(b.world.pool, b.buffer, 0, WEIR_WHOLE));
    expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(b.world.pool, b.buffer));
    expect_result(WEIR_ERROR_BUSY, weir_pool_destroy(b.world.pool));
    b.world.check(beside, b.size, 2);  // takes all the room that is left
    if (mode == WEIR_READ) b.world.check(b.buffer, b.size, 1);
    b.validate();
    gate->open();
    ok(task.join());
    gate.reset();
    Kernel kernel{b.use.address, b.size, mode == WEIR_READ ? 1U : 3U, 0};
    ok(kernel.launch(b.other, mode == WEIR_READ ? Kernel::compare : Kernel::write));
    ok(weir_release(b.lease, b.other));
    ok(weir_stream_synchronize(b.other));
    assert_int_equal(kernel.wrong, 0);
    b.world.check(b.buffer, b.size, kernel.seed);
    ok(weir_pool_trim(b.world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    b.world.check(b.buffer, b.size, kernel.seed);
    ok(weir_buffer_destroy(b.world.pool, beside));
    b.end();
  }
}

/// The device is lost meanwhile: the acquire says so, and nothing is leased.
void the_device_is_lost_meanwhile(void **) {
  for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE}) {
    Between b(mode);
    ok(weir_pool_trim(b.world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    auto gate = std::make_unique<Gate>(b.world.pool, "acquire.order");
    Task task([&] { return b.acquire(); });
    gate->await();
    b.engine().lose_device(0);
    gate->open();
    expect_result(WEIR_ERROR_DEVICE_LOST, task.join());
    gate.reset();
    b.world.check_read(b.buffer, b.size, 1);  // the copy in HOST was not made stale
    b.end();
  }
}

/// A use of the buffer's beginning whose work has not ended before `work` opens: what comes after it has to be ordered.
void use_behind(World &world, weir_buffer buffer, uint32_t mode, uint32_t device, Blocker *work) {
  weir_use use = WEIR_USE(buffer, mode);
  use.length = page_bytes / 4;
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[device], &use, 1, nullptr, &lease));
  ok(weir_stream_host_call(world.streams[device], Blocker::stand, work));
  ok(weir_release(lease, world.streams[device]));
}

/// Two readers on two streams, both on their way, and a third that comes after both.
void readers_meet(void **) {
  Between b(WEIR_READ);
  Blocker work;
  use_behind(b.world, b.buffer, WEIR_READ_WRITE, 0, &work);
  auto gate = std::make_unique<Gate>(b.world.pool, "acquire.order");
  Task task([&] { return b.acquire(); });
  gate->await();
  weir_stream third = nullptr;
  ok(weir_stream_create(b.world.context, 0, 0, &third));
  for (int round = 0; round < 3; ++round) {
    for (weir_stream stream : {third, b.world.streams[0]}) {
      weir_use use = WEIR_USE(b.buffer, WEIR_READ);
      weir_lease lease = nullptr;
      ok(weir_acquire(b.world.pool, stream, &use, 1, nullptr, &lease));
      ok(weir_release(lease, stream));
    }
  }
  gate->open();
  ok(task.join());
  gate.reset();
  work.open();
  ok(weir_release(b.lease, b.other));
  b.world.fill(b.buffer, b.size, 4);
  b.world.check(b.buffer, b.size, 4);
  ok(weir_stream_close(third));
  b.end();
}

/// The page is on both devices. While a write of its beginning is on its way on the one, its end is written in the other's
/// copy: neither is lost.
void another_part_is_written_on_another_device(void **) {
  World world({.options = std::string(small_host) + ";host.devices=2",
               .device_pages = 6,
               .host_pages = 16,
               .devices = 2});
  weir_stream other = nullptr;
  ok(weir_stream_create(world.context, 1, 0, &other));
  weir_buffer buffer = world.buffer(page_bytes);
  world.fill(buffer, page_bytes, 1);
  world.check(buffer, page_bytes, 1, 1);
  Blocker work;
  use_behind(world, buffer, WEIR_READ, 1, &work);
  weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
  use.length = page_bytes / 4;
  weir_lease lease = nullptr;
  auto gate = std::make_unique<Gate>(world.pool, "acquire.order");
  Task task([&] { return weir_acquire(world.pool, other, &use, 1, nullptr, &lease); });
  gate->await();
  std::vector<uint8_t> bytes(page_bytes / 4, 0x77), back(page_bytes);
  ok(weir_buffer_write(world.pool, buffer, page_bytes / 2, bytes.size(), bytes.data()));
  gate->open();
  ok(task.join());
  gate.reset();
  work.open();
  ok(weir_release(lease, other));
  ok(weir_buffer_read(world.pool, buffer, 0, page_bytes, back.data()));
  for (uint64_t i = 0; i < page_bytes; ++i) {
    const bool rewritten = i >= page_bytes / 2 && i < page_bytes / 2 + bytes.size();
    if (back[i] != (rewritten ? 0x77 : pattern(1, i)))
      fail_msg("byte %llu is lost", static_cast<unsigned long long>(i));
  }
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_stream_close(other));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(it_counts_as_leased),
      cmocka_unit_test(the_device_is_lost_meanwhile),
      cmocka_unit_test(readers_meet),
      cmocka_unit_test(another_part_is_written_on_another_device),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

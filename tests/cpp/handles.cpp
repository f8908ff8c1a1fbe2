// SPDX-License-Identifier: Apache-2.0
//
// Handles of weir.hpp: what becomes of one that is moved from, ended twice, left behind or ended out of order. Each has one
// outcome (docs/cpp.md), the same for every kind. Compiled in both modes.
#include <thread>

#include "tests/cpp/cpp_fixture.hpp"

namespace weir::test {
namespace {

constexpr weir_result empty = WEIR_ERROR_INVALID_HANDLE;

/// A handle that was moved from is empty, may be ended and destroyed to no effect, and takes another.
template <class Handle>
Handle moved(Handle &from) {
  assert_true(static_cast<bool>(from));
  Handle to(std::move(from));
  assert_false(static_cast<bool>(from));
  assert_true(static_cast<bool>(to));
  from = std::move(to);
  assert_true(static_cast<bool>(from));
  assert_false(static_cast<bool>(to));
  return std::move(from);
}

void a_moved_from_handle_is_empty(void **) {
  const Leaks leaks;
  {
    World world;
    weir::buffer buffer = world.buffer();
    weir::client client = TAKE(weir::client::create(world.pool));
    weir::hold hold = TAKE(buffer.hold(0));
    weir::lease lease = TAKE(world.pool.acquire(world.stream, read(buffer)));
    device_allocator allocator(world.pool, world.stream);
    weir::allocation memory = TAKE(allocator.allocate(256));

    weir::context context2 = moved(world.context);
    weir::pool pool2 = moved(world.pool);
    weir::stream stream2 = moved(world.stream);
    weir::buffer buffer2 = moved(buffer);
    weir::client client2 = moved(client);
    weir::hold hold2 = moved(hold);
    weir::lease lease2 = moved(lease);
    weir::allocation memory2 = moved(memory);

    FAILS(empty, world.context.device_count());
    FAILS(empty, weir::pool::create(world.context, small_pool(1)));
    FAILS(empty, weir::stream::create(world.context, 0));
    FAILS(empty, world.pool.stats());
    FAILS(empty, world.pool.acquire(stream2, read(buffer2)));
    FAILS(empty, pool2.acquire(world.stream, read(buffer2)));
    FAILS(empty, pool2.acquire(stream2, read(buffer)));
    FAILS(empty, world.stream.synchronize());
    FAILS(empty, buffer.info());
    FAILS(empty, buffer.hold(0));
    FAILS(empty, client.stats());
    FAILS(empty, weir::buffer::create(pool2, client, of_size(1)));
    assert_int_equal(lease.size(), 0);
    assert_int_equal(hold.address(), 0);
    assert_int_equal(memory.address(), 0);
    FAILS(WEIR_ERROR_INVALID_ARGUMENT, lease.span<char>(0));
    assert_true(lease2.size() == 1);
    OK(lease2.release());
    // Moved to itself it stays what it is.
    weir::buffer &self = buffer2;
    buffer2 = std::move(self);
    assert_true(static_cast<bool>(buffer2));
  }
  assert_int_equal(leaks.count, 0);
}

void what_is_ended_twice_is_refused_and_nothing_changes(void **) {
  const Leaks leaks;
  {
    World world;
    weir::buffer buffer = world.buffer();
    weir::client client = TAKE(weir::client::create(world.pool));
    weir::hold hold = TAKE(buffer.hold(0));
    weir::lease lease = TAKE(world.pool.acquire(world.stream, read(buffer)));
    device_allocator allocator(world.pool, world.stream);
    weir::allocation memory = TAKE(allocator.allocate(256));
    OK(memory.free());
    FAILS(empty, memory.free());
    OK(lease.release());
    FAILS(empty, lease.release());
    FAILS(empty, lease.release(world.stream));
    OK(hold.unhold());
    FAILS(empty, hold.unhold());
    assert_int_equal(TAKE(buffer.info()).held, 0);
    OK(buffer.destroy());
    FAILS(empty, buffer.destroy());
    OK(client.destroy());
    FAILS(empty, client.destroy());
    OK(world.stream.close());
    FAILS(empty, world.stream.close());
    OK(world.pool.destroy());
    FAILS(empty, world.pool.destroy());
    OK(world.context.destroy());
    FAILS(empty, world.context.destroy());
  }
  assert_int_equal(leaks.count, 0);
}

/// A lease that C has released behind its back: recognised, and told.
void what_c_ended_is_recognised(void **) {
  const Leaks leaks;
  World world;
  weir::buffer buffer = world.buffer();
  {
    weir::lease lease = TAKE(world.pool.acquire(world.stream, read(buffer)));
    assert_int_equal(weir_release(lease.get(), world.stream.get()), WEIR_SUCCESS);
  }
  assert_int_equal(leaks.count, 1);
  assert_int_equal(leaks.last, empty);
  assert_int_equal(weir_buffer_destroy(world.pool.get(), buffer.get()), WEIR_SUCCESS);
  FAILS(empty, buffer.info());
  FAILS(empty, buffer.destroy());
  buffer = weir::buffer();
  assert_int_equal(leaks.count, 2);
}

void what_is_in_use_is_left_behind_and_told(void **) {
  const Leaks leaks;
  World world;
  weir::buffer buffer = world.buffer();
  weir_buffer raw = buffer.get();
  weir::lease lease = TAKE(world.pool.acquire(world.stream, read(buffer)));
  FAILS(WEIR_ERROR_BUSY, buffer.destroy());
  FAILS(WEIR_ERROR_BUSY, world.pool.destroy());
  FAILS(WEIR_ERROR_BUSY, world.stream.close());
  FAILS(WEIR_ERROR_BUSY, world.context.destroy());
  assert_int_equal(leaks.count, 0);
  weir_pool pool = world.pool.get();
  weir_stream stream = world.stream.get();
  buffer = weir::buffer();
  assert_int_equal(leaks.count, 1);
  world.pool = weir::pool();
  assert_int_equal(leaks.count, 2);
  world.stream = weir::stream();
  assert_int_equal(leaks.count, 3);
  assert_int_equal(leaks.last, WEIR_ERROR_BUSY);
  // All of them are still there: the lease ends as it should, and C can end the rest.
  OK(lease.release());
  assert_int_equal(weir_buffer_destroy(pool, raw), WEIR_SUCCESS);
  assert_int_equal(weir_stream_close(stream), WEIR_SUCCESS);
  assert_int_equal(weir_pool_destroy(pool), WEIR_SUCCESS);
  OK(world.context.destroy());
  assert_int_equal(leaks.count, 3);
}

/// A hold keeps its pool, but not its buffer.
void a_buffer_that_is_held_is_left_behind_and_told(void **) {
  const Leaks leaks;
  {
    World world;
    weir::buffer buffer = world.buffer();
    weir::hold hold = TAKE(buffer.hold(0));
    FAILS(WEIR_ERROR_BUSY, buffer.destroy());
    buffer = weir::buffer();
    assert_int_equal(leaks.count, 1);
    assert_int_equal(leaks.last, WEIR_ERROR_BUSY);
    world.pool = weir::pool();
    OK(hold.unhold());
  }
  assert_int_equal(leaks.count, 1);
}

/// The last of them ends the pool, the stream and the context, whichever thread it is on.
void handles_of_one_pool_go_on_any_thread(void **) {
  const Leaks leaks;
  for (int round = 0; round < 20; ++round) {
    World world;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back(
          [buffer = world.buffer(),
           memory = TAKE(device_allocator(world.pool, world.stream).allocate(256))]() mutable {
            buffer = weir::buffer();
            memory = weir::allocation();
          });
    }
    world.context = weir::context();
    world.pool = weir::pool();
    world.stream = weir::stream();
    for (std::thread &thread : threads) thread.join();
  }
  assert_int_equal(leaks.count, 0);
}

void parents_live_as_long_as_what_was_made_of_them(void **) {
  const Leaks leaks;
  {
    World world;
    weir::client client = TAKE(weir::client::create(world.pool));
    weir::buffer buffer = TAKE(weir::buffer::create(world.pool, client, of_size(page)));
    weir::allocation memory = TAKE(device_allocator(world.pool, world.stream).allocate(4096));
    FAILS(WEIR_ERROR_BUSY, client.destroy());
    client = weir::client();
    world.context = weir::context();
    world.pool = weir::pool();
    world.stream = weir::stream();
    const std::vector<uint32_t> wanted(page / 4, 7);
    std::vector<uint32_t> got(page / 4);
    OK(buffer.write(0, wanted));
    OK(buffer.read(0, got));
    assert_true(got == wanted);
  }
  assert_int_equal(leaks.count, 0);
}

void a_pool_that_is_destroyed_takes_its_buffers_along(void **) {
  const Leaks leaks;
  {
    World world;
    weir::buffer buffer = world.buffer();
    weir::client client = TAKE(weir::client::create(world.pool));
    host_resource memory(world.pool, world.stream);
    OK(world.pool.destroy());
    assert_false(static_cast<bool>(buffer));
    assert_false(static_cast<bool>(client));
    FAILS(empty, buffer.info());
    FAILS(empty, client.stats());
    FAILS(empty, buffer.destroy());
  }
  assert_int_equal(leaks.count, 0);
}

void a_stream_that_allocations_wait_for_is_closed_when_its_work_is_done(void **) {
  const Leaks leaks;
  {
    World world;
    device_allocator allocator(world.pool, world.stream);
    weir::allocation memory = TAKE(allocator.allocate(page));
    const auto bytes = memory.span<unsigned char>();
    assert_int_equal(bytes.size(), page);
    bool ran = false;
    OK(world.stream.host_call([bytes, &ran] { bytes[0] = 1, ran = true; }));
    OK(world.stream.close());
    assert_true(ran);
    OK(memory.free());
  }
  assert_int_equal(leaks.count, 0);
}

void c_handles_go_in_and_out(void **) {
  const Leaks leaks;
  {
    World world;
    weir::buffer buffer = world.buffer();
    {
      // Lent: nothing of these ends anything.
      weir::context context = TAKE(weir::context::borrow(world.context.get()));
      weir::pool pool = TAKE(weir::pool::borrow(context, world.pool.get()));
      weir::stream stream = TAKE(weir::stream::borrow(context, world.stream.get(), 0));
      weir::buffer same = TAKE(weir::buffer::borrow(pool, buffer.get()));
      assert_int_equal(same.size(), page);
      OK(pool.run(stream, read(same), [&](const lease &) {}));
    }
    const weir_buffer raw = buffer.detach();
    assert_false(static_cast<bool>(buffer));
    buffer = TAKE(weir::buffer::adopt(world.pool, raw));
    weir::lease lease = TAKE(world.pool.acquire(world.stream, read(buffer)));
    assert_int_equal(weir_release(lease.detach(), world.stream.get()), WEIR_SUCCESS);
    const weir_stream stream = world.stream.detach();
    world.stream = TAKE(weir::stream::adopt(world.context, stream, 0));
    FAILS(empty, weir::pool::adopt(world.context, nullptr));
    FAILS(empty, weir::buffer::adopt(world.pool, nullptr));
  }
  assert_int_equal(leaks.count, 0);
}

struct Object {
  uint32_t struct_size = sizeof(Object), kind = 1;
};

/// No backend here takes objects of the program, so each call says which one was asked.
void objects_of_the_program_reach_their_backend(void **) {
  const Object object;
  weir::context_desc desc = small_context();
  desc.natives = {{"host", &object}};
  FAILS(WEIR_ERROR_NOT_SUPPORTED, weir::context::create(desc));
  desc.natives = {{"nobody", &object}};
  FAILS(WEIR_ERROR_INVALID_ARGUMENT, weir::context::create(desc));
  World world;
  FAILS(WEIR_ERROR_NOT_SUPPORTED, world.context.native_memory(0, 4096, 1, Object()));
  FAILS(WEIR_ERROR_INVALID_ARGUMENT, world.context.native_memory(9, 4096, 1, Object()));
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_moved_from_handle_is_empty),
      cmocka_unit_test(what_is_ended_twice_is_refused_and_nothing_changes),
      cmocka_unit_test(what_c_ended_is_recognised),
      cmocka_unit_test(what_is_in_use_is_left_behind_and_told),
      cmocka_unit_test(a_buffer_that_is_held_is_left_behind_and_told),
      cmocka_unit_test(handles_of_one_pool_go_on_any_thread),
      cmocka_unit_test(parents_live_as_long_as_what_was_made_of_them),
      cmocka_unit_test(a_pool_that_is_destroyed_takes_its_buffers_along),
      cmocka_unit_test(a_stream_that_allocations_wait_for_is_closed_when_its_work_is_done),
      cmocka_unit_test(c_handles_go_in_and_out),
      cmocka_unit_test(objects_of_the_program_reach_their_backend),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

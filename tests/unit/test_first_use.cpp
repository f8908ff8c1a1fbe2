// SPDX-License-Identifier: Apache-2.0
//
// The first use of small buffers, when the place in their page may still hold another's bytes: it is zeroed once,
// whole, whichever thread comes and whatever happens to its pages meanwhile. One thread is held in the middle of it, or stopped at each
// of its allocations in turn.

#include "tests/unit/sharded.hpp"

#include <functional>

namespace {

using namespace weir::test;

const uint64_t three_quarters = page_bytes / 4 * 3;
const uint64_t eighth = page_bytes / 8;

/// `expected` of `bytes` from `offset`, the rest of the buffer zero.
void check_parts(World &world, weir_buffer buffer, uint64_t size,
                 std::initializer_list<std::pair<uint64_t, uint32_t>> parts) {
  std::vector<unsigned char> expected(size, 0), got(size, 1);
  for (const auto &[offset, seed] : parts) {
    Kernel kernel{reinterpret_cast<uint64_t>(&expected[offset]), eighth, seed, 0};
    Kernel::write(&kernel);
  }
  ok(weir_buffer_read(world.pool, buffer, 0, size, got.data()));
  assert_memory_equal(expected.data(), got.data(), size);
}

weir_result lease_part(World &world, weir_buffer buffer, weir_stream stream, uint64_t offset,
                       uint32_t seed) {
  weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
  use.offset = offset;
  use.length = eighth;
  weir_lease lease = nullptr;
  weir_result result = weir_acquire(world.pool, stream, &use, 1, nullptr, &lease);
  if (result != WEIR_SUCCESS) return result;
  Kernel kernel{use.address, eighth, seed, 0};
  result = kernel.launch(stream, Kernel::write);
  const weir_result released = weir_release(lease, stream);
  const weir_result ended = weir_stream_synchronize(stream);
  if (result == WEIR_SUCCESS) result = released;
  return result == WEIR_SUCCESS ? ended : result;
}

weir_result write_part(World &world, weir_buffer buffer, uint64_t offset, uint32_t seed) {
  std::vector<unsigned char> bytes(eighth);
  Kernel kernel{reinterpret_cast<uint64_t>(bytes.data()), eighth, seed, 0};
  Kernel::write(&kernel);
  return weir_buffer_write(world.pool, buffer, offset, eighth, bytes.data());
}

/// What uses a part: a lease, or the host.
weir_result use_part(World &world, bool host, weir_buffer buffer, weir_stream stream,
                     uint64_t offset, uint32_t seed) {
  return host ? write_part(world, buffer, offset, seed)
              : lease_part(world, buffer, stream, offset, seed);
}

/// The buffer lies on two pages, and only the second is named by the lease: the first must not leave meanwhile.
/// (Without virtual-memory management no small buffer lies on two pages.)
void a_trim_meets_the_first_use(void **state) {
  for (const bool host : {false, true}) {
    World world = world_for(state);
    weir_buffer neighbour = world.buffer(three_quarters);
    weir_buffer buffer = world.buffer(three_quarters);
    world.fill(neighbour, three_quarters, 1);  // the page they share is on the device
    {
      Gate gate(world.pool, host ? "copy" : "fill");
      Task user([&] { return use_part(world, host, buffer, world.streams[0], page_bytes / 2, 2); });
      gate.await();
      ok(trim_all(world));
      gate.open();
      ok(user.join());
    }
    world.check(neighbour, three_quarters, 1);
    check_parts(world, buffer, three_quarters, {{page_bytes / 2, 2}});
    ok(weir_buffer_destroy(world.pool, neighbour));
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// The set has shards on another device too, whose bytes come when the buffer's place has been zeroed. Its second page, which the
/// lease does not name, leaves meanwhile: with the zeroes, and with what a neighbour has there.
void a_trim_meets_the_first_use_beside_a_shard(void **) {
  Trio trio(16);
  weir_buffer before = trio.buffer(three_quarters);
  weir_buffer buffer = trio.buffer(three_quarters);
  weir_buffer behind = trio.buffer(three_quarters);
  weir_buffer shards = trio.sharded(4 * page_bytes, {0, 1});
  trio.fill(before, three_quarters, 1);
  trio.fill(behind, three_quarters, 2);
  trio.put(shards, 4 * page_bytes, 3, 0);
  for (uint32_t device = 0; device < 2; ++device)
    ok(weir_pool_trim(trio.pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  {
    Gate gate(trio.pool, "fill");
    Task user([&] {
      weir_use uses[] = {WEIR_USE(buffer, WEIR_READ_WRITE), WEIR_USE(shards, WEIR_READ)};
      uses[0].length = eighth;
      weir_lease lease = nullptr;
      const weir_result result = weir_acquire(trio.pool, trio.all[0], uses, 2, nullptr, &lease);
      return result == WEIR_SUCCESS ? weir_release(lease, trio.all[0]) : result;
    });
    gate.await();
    gate.next("fill");
    gate.await();  // the other device's
    ok(trim_all(trio));
    gate.open();
    ok(user.join());
  }
  validate(trio);
  check_parts(trio, buffer, three_quarters, {});
  trio.check_read(before, three_quarters, 1);
  trio.check_read(behind, three_quarters, 2);
  trio.see(shards, 4 * page_bytes, 3, 0);
  for (weir_buffer made : {before, buffer, behind, shards})
    ok(weir_buffer_destroy(trio.pool, made));
  trio.close_sharded();
}

/// Two threads use disjoint parts for the first time: what the first has written is not zeroed again.
void two_first_uses(void **state) {
  for (const int hosts : {0, 1, 2, 3}) {  // a bit for each of the two
    World world = world_for(state);
    weir_buffer neighbour = world.buffer(page_bytes / 4);
    weir_buffer buffer = world.buffer(page_bytes / 4);
    world.fill(neighbour, page_bytes / 4, 1);
    weir_stream other = nullptr;
    ok(weir_stream_create(world.context, 0, 0, &other));
    {
      Gate gate(world.pool, (hosts & 1) != 0 ? "copy" : "fill");
      Task first([&] { return use_part(world, (hosts & 1) != 0, buffer, world.streams[0], 0, 2); });
      gate.await();
      Task second([&] { return use_part(world, (hosts & 2) != 0, buffer, other, eighth, 3); });
      // It has to wait, which nothing shows; one that does not wait gets the time to end, and to be caught.
      for (int i = 0; i < 20000 && !second.ended(); ++i) std::this_thread::yield();
      gate.open();
      ok(first.join());
      ok(second.join());
    }
    check_parts(world, buffer, page_bytes / 4, {{0, 2}, {eighth, 3}});
    ok(weir_stream_close(other));
    ok(weir_buffer_destroy(world.pool, neighbour));
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// Memory for records: at the chosen allocation of the armed thread it lets another thread go, and waits until that has ended
/// or had time to.
struct RecordStops {
  std::atomic<int> left{0};  ///< allocations until then; 0: not armed
  std::atomic<bool> go{false};
  std::function<bool()> ended;
  std::thread::id armed;

  static void *allocate(void *user, size_t bytes, size_t alignment) {
    auto *self = static_cast<RecordStops *>(user);
    if (self->left.load() != 0 && std::this_thread::get_id() == self->armed &&
        self->left.fetch_sub(1) == 1)
      self->stop();
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void deallocate(void * /*user*/, void *memory, size_t /*bytes*/, size_t /*alignment*/) {
    std::free(memory);
  }
  void stop() {
    go = true;
    for (int i = 0; i < 5000 && !ended(); ++i) std::this_thread::yield();
  }
};

World world_with(RecordStops *stops, const char *without) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  const std::string options = std::string(small_host) + without;
  desc.options = options.c_str();
  desc.allocator = {RecordStops::allocate, RecordStops::deallocate, stops, {}};
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  const weir_pool_device device = {0, 0, 4 * page_bytes, {0, 0}};
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.devices = &device;
  pool_desc.device_count = 1;
  pool_desc.host_budget = 16 * page_bytes;
  pool_desc.page_size = page_bytes;
  pool_desc.flags = WEIR_POOL_NO_BACKGROUND;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &pool_desc, &pool));
  World world(context, pool);
  ok(weir_stream_create(context, 0, 0, &world.streams[0]));
  return world;
}

/// Writes all of it under a lease, as the first.
weir_result write_whole(World &world, weir_buffer buffer, weir_stream stream, uint64_t size,
                        uint32_t seed) {
  weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
  weir_lease lease = nullptr;
  weir_result result = weir_acquire(world.pool, stream, &use, 1, nullptr, &lease);
  if (result != WEIR_SUCCESS) return result;
  Kernel kernel{use.address, size, seed, 0};
  result = kernel.launch(stream, Kernel::write);
  const weir_result released = weir_release(lease, stream);
  const weir_result ended = weir_stream_synchronize(stream);
  if (result == WEIR_SUCCESS) result = released;
  return result == WEIR_SUCCESS ? ended : result;
}

/// The first lease, which needs no lock, is had in the midst of another use of the buffer: what is written under it stays.
void a_first_lease_meets_another_use(void **state) {
  const uint64_t size = page_bytes / 4;
  std::vector<unsigned char> bytes(size);
  using Use = std::function<weir_result(World &, weir_buffer)>;
  const Use uses[] = {
      [&](World &world, weir_buffer buffer) {
        weir_use use = WEIR_USE(buffer, WEIR_READ);
        weir_lease lease = nullptr;
        const weir_result result =
            weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &lease);
        return result == WEIR_SUCCESS ? weir_release(lease, world.streams[0]) : result;
      },
      [&](World &world, weir_buffer buffer) {
        return weir_buffer_read(world.pool, buffer, 0, size, bytes.data());
      },
      [&](World &world, weir_buffer buffer) {
        uint64_t address = 0;
        const weir_result result = weir_hold(world.pool, buffer, 0, &address);
        return result == WEIR_SUCCESS ? weir_unhold(world.pool, buffer) : result;
      },
  };
  bool granted = false;
  for (const Use &use : uses) {
    for (int stop = 1, left = 0; left == 0; ++stop) {
      RecordStops stops;
      World world = world_with(&stops, static_cast<const char *>(*state));
      weir_stream other = nullptr;
      ok(weir_stream_create(world.context, 0, 0, &other));
      weir_buffer neighbour = world.buffer(size);
      world.fill(neighbour, size, 1);  // the page they share is on the device
      weir_buffer buffer = world.buffer(size);
      std::atomic<bool> ready{false};
      Task writer([&] {
        // From its second lease on a thread has records of its own.
        for (int i = 0; i < 2; ++i) (void)write_whole(world, neighbour, other, size, 2);
        ready = true;
        while (!stops.go.load()) std::this_thread::yield();
        return write_whole(world, buffer, other, size, 3);
      });
      stops.ended = [&writer] { return writer.ended(); };
      stops.armed = std::this_thread::get_id();
      while (!ready.load()) std::this_thread::yield();
      stops.left = stop;
      const weir_result result = use(world, buffer);
      left = stops.left.exchange(0);
      stops.go = true;
      const weir_result written = writer.join();
      if (result != WEIR_ERROR_LEASE_CONFLICT) ok(result);
      if (written != WEIR_ERROR_LEASE_CONFLICT) ok(written);
      granted = granted || written == WEIR_SUCCESS;
      validate(world);
      if (written == WEIR_SUCCESS) world.check(buffer, size, 3);
      ok(weir_buffer_destroy(world.pool, buffer));
      ok(weir_buffer_destroy(world.pool, neighbour));
      ok(weir_stream_close(other));
      close_clean(world);
    }
  }
  assert_true(granted);
}

/// Work that does not end before it is let go, and work that sees whether it has.
struct Held {
  std::atomic<bool> open{false}, ended{false}, looked{false}, early{false};
  static void hold(void *user) {
    auto *self = static_cast<Held *>(user);
    while (!self->open.load()) std::this_thread::yield();
    self->ended = true;
  }
  static void look(void *user) {
    auto *self = static_cast<Held *>(user);
    self->early = !self->ended.load();
    self->looked = true;
  }
};

/// A place is taken again while its dead tenant's work still runs: on another stream the first lease is ordered after that.
void a_first_lease_waits_for_the_dead(void **state) {
  const uint64_t size = page_bytes / 4;
  World world = world_for(state);
  weir_stream other = nullptr;
  ok(weir_stream_create(world.context, 0, 0, &other));
  weir_buffer neighbour = world.buffer(size);
  world.fill(neighbour, size, 1);
  ok(weir_stream_synchronize(world.streams[0]));
  for (int i = 0; i < 2; ++i) ok(write_whole(world, neighbour, other, size, 2));
  Held held;
  uint64_t addresses[2] = {};
  for (const int turn : {0, 1}) {
    weir_buffer buffer = world.buffer(size);
    weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
    weir_stream stream = turn == 0 ? world.streams[0] : other;
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, stream, &use, 1, nullptr, &lease));
    ok(weir_stream_host_call(stream, turn == 0 ? Held::hold : Held::look, &held));
    ok(weir_release(lease, stream));
    ok(weir_buffer_destroy(world.pool, buffer));
    addresses[turn] = use.address;
  }
  assert_int_equal(addresses[0], addresses[1]);
  // It has to wait, which nothing shows; work that does not wait gets the time to be caught.
  for (int i = 0; i < 5000 && !held.looked.load(); ++i) std::this_thread::yield();
  held.open = true;
  ok(weir_stream_synchronize(world.streams[0]));
  ok(weir_stream_synchronize(other));
  assert_true(held.looked.load());
  assert_false(held.early.load());
  ok(weir_stream_close(other));
  ok(weir_buffer_destroy(world.pool, neighbour));
  close_clean(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_trim_meets_the_first_use_beside_a_shard),
      {"a_trim_meets_the_first_use", a_trim_meets_the_first_use, nullptr, nullptr,
       const_cast<char *>(vmm)},
      BOTH(two_first_uses),
      BOTH(a_first_lease_meets_another_use),
      BOTH(a_first_lease_waits_for_the_dead),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

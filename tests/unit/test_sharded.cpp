// SPDX-License-Identifier: Apache-2.0
//
// Buffers sharded over several devices: they lie where the layout says, at one address, and the bytes are right whichever
// device writes and reads them; they are larger than a device; leases of them conflict, wait and fail as those of other
// buffers do, and a set that can't be had leaves nothing behind on any device.

#include "tests/unit/sharded.hpp"

namespace {

using namespace weir::test;

// ---- where the bytes are ----

void pages_lie_on_their_devices(void **) {
  Trio world(8);
  const uint64_t size = 7 * page_bytes + 100;
  weir_buffer buffer = world.sharded(size);
  assert_string_equal(world.layout(buffer).c_str(), "01201201");
  const uint64_t address = world.put(buffer, size, 1, 0);
  assert_int_equal(world.pages_on(0), 3);
  assert_int_equal(world.pages_on(1), 3);
  assert_int_equal(world.pages_on(2), 2);
  // One address for all, and no copies made.
  for (uint32_t device = 0; device < 3; ++device)
    assert_int_equal(world.see(buffer, size, 1, device), address);
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.peer_bytes + stats.promoted_bytes + stats.demoted_bytes, 0);
  const weir_buffer_info info = query(world, buffer);
  assert_int_equal(info.home, 0);
  assert_int_equal(info.address, address);
  assert_int_equal(info.device_bytes, size);
  assert_int_equal(info.peer_bytes, 0);
  for (uint32_t device = 0; device < 3; ++device) {
    assert_int_equal(world.put(buffer, size, 2 + device, device), address);
    world.see(buffer, size, 2 + device, (device + 1) % 3);
    world.check_read(buffer, size, 2 + device);
  }
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

void larger_than_a_device(void **) {
  Trio world(4);
  const uint64_t size = 11 * page_bytes + 5;
  weir_buffer buffer = world.sharded(size);
  world.put(buffer, size, 1, 1);
  for (uint32_t device = 0; device < 3; ++device) {
    assert_int_equal(world.pages_on(device), 4);
    world.see(buffer, size, 1, device);
  }
  weir_buffer more = world.sharded(13 * page_bytes);
  Kernel kernel{0, 13 * page_bytes, 1, 0};
  expect_result(WEIR_ERROR_OVER_BUDGET, world.use(more, WEIR_READ, 2, &kernel));
  const weir_error_info why = last_error();
  assert_int_equal(why.device, 0);
  assert_int_equal(why.asked, 5 * page_bytes);
  assert_int_equal(why.available, 4 * page_bytes);
  world.see(buffer, size, 1, 2);
  // Of a part that fits it is another matter.
  kernel.bytes = 12 * page_bytes;
  ok(world.use(more, WEIR_DISCARD_WRITE, 2, &kernel));
  ok(weir_buffer_destroy(world.pool, more));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

void by_weight_and_in_blocks(void **) {
  Trio world(16);
  const uint64_t size = 12 * page_bytes;
  weir_buffer weighted = world.sharded(size, {2, 0}, WEIR_SHARD_STRIPED, {1, 3}, 2 * page_bytes);
  assert_string_equal(world.layout(weighted).c_str(), "002200000022");
  weir_buffer blocks = world.sharded(size, {1, 2, 0}, WEIR_SHARD_BLOCKED, {1, 1, 2});
  assert_string_equal(world.layout(blocks).c_str(), "111222000000");
  world.put(weighted, size, 1, 2);
  world.put(blocks, size, 2, 1);
  assert_int_equal(world.pages_on(0), 14);
  assert_int_equal(world.pages_on(1), 3);
  assert_int_equal(world.pages_on(2), 7);
  world.see(weighted, size, 1, 0);
  world.see(blocks, size, 2, 2);
  ok(weir_buffer_destroy(world.pool, blocks));
  ok(weir_buffer_destroy(world.pool, weighted));
  world.close_sharded();
}

/// The smallest, and one on a single device, which is an ordinary buffer with hits.
void the_smallest(void **) {
  Trio world(4);
  weir_buffer tiny = world.sharded(10);
  world.put(tiny, 10, 1, 2);
  world.see(tiny, 10, 1, 1);
  assert_int_equal(world.pages_on(0), 1);
  weir_buffer alone = world.sharded(2 * page_bytes, {1});
  assert_string_equal(world.layout(alone).c_str(), "11");
  world.put(alone, 2 * page_bytes, 1, 1);
  const uint64_t misses = world.stats().misses;
  world.see(alone, 2 * page_bytes, 1, 1);
  assert_int_equal(world.stats().misses, misses);
  assert_int_equal(world.pages_on(1), 2);
  ok(weir_buffer_destroy(world.pool, alone));
  ok(weir_buffer_destroy(world.pool, tiny));
  world.close_sharded();
}

void a_part_brings_its_shards_only(void **) {
  Trio world(8);
  weir_buffer buffer = world.sharded(9 * page_bytes);
  Kernel kernel{0, page_bytes, 1, 0};
  ok(world.use(buffer, WEIR_DISCARD_WRITE, 0, &kernel, 4 * page_bytes));
  assert_int_equal(world.pages_on(0) + world.pages_on(2), 0);
  assert_int_equal(world.pages_on(1), 1);
  ok(world.use(buffer, WEIR_READ, 2, &kernel, 4 * page_bytes));
  assert_int_equal(kernel.wrong, 0);
  assert_int_equal(world.pages_on(1), 1);
  // Beside it the buffer reads as zero, still without memory.
  std::vector<uint8_t> bytes(page_bytes);
  ok(weir_buffer_read(world.pool, buffer, 3 * page_bytes, page_bytes, bytes.data()));
  assert_true(all_zero(bytes));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

/// Two buffers, of which there is room for one: by turns they go to HOST and come back, each page to its device.
void spills_and_comes_back(void **) {
  Trio world(4);
  const uint64_t size = 12 * page_bytes;
  weir_buffer buffers[2] = {world.sharded(size),
                            world.sharded(size, {0, 1, 2}, WEIR_SHARD_BLOCKED)};
  uint64_t addresses[2];
  for (uint32_t i = 0; i < 2; ++i) addresses[i] = world.put(buffers[i], size, i + 1, i);
  for (uint32_t turn = 0; turn < 6; ++turn) {
    assert_int_equal(world.see(buffers[turn % 2], size, turn % 2 + 1, turn % 3),
                     addresses[turn % 2]);
    for (uint32_t device = 0; device < 3; ++device) assert_int_equal(world.pages_on(device), 4);
  }
  // Nothing was lent: a page of theirs belongs on one device.
  assert_int_equal(world.stats().lent_bytes, 0);
  world.check_read(buffers[0], size, 1);
  world.check_read(buffers[1], size, 2);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

void never_written_reads_as_zero(void **) {
  Trio world(4);
  const uint64_t size = 6 * page_bytes;
  // Memory that others have written, and left.
  weir_buffer dirty = world.sharded(12 * page_bytes);
  world.put(dirty, 12 * page_bytes, 1, 0);
  ok(weir_buffer_destroy(world.pool, dirty));
  weir_buffer buffer = world.sharded(size);
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.all[1], &use, 1, nullptr, &lease));
  assert_true(all_zero(world.device_bytes(use.address, size, 1)));
  ok(weir_release(lease, world.all[1]));
  ok(weir_discard(world.pool, buffer, 0, WEIR_WHOLE));
  world.put(buffer, size, 2, 1);
  ok(weir_discard(world.pool, buffer, page_bytes, page_bytes));
  std::vector<uint8_t> bytes(page_bytes);
  ok(weir_buffer_read(world.pool, buffer, page_bytes, page_bytes, bytes.data()));
  assert_true(all_zero(bytes));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

// ---- beside leases ----

void the_cpu_writes_and_reads(void **) {
  Trio world(8);
  const uint64_t size = 7 * page_bytes;
  weir_buffer buffer = world.sharded(size);
  world.put(buffer, size, 1, 0);
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  Kernel kernel{0, size, 1, 0};
  ok(rewrite_on_cpu(world, cpu, buffer, &kernel));
  assert_int_equal(kernel.wrong, 0);
  for (uint32_t device = 0; device < 3; ++device) world.see(buffer, size, 2, device);
  std::vector<uint8_t> bytes(size);
  Kernel pattern{reinterpret_cast<uint64_t>(bytes.data()), size, 3, 0};
  Kernel::write(&pattern);
  ok(weir_buffer_write(world.pool, buffer, 0, size, bytes.data()));
  world.see(buffer, size, 3, 2);
  ok(weir_stream_close(cpu));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

/// Held pages stay on all devices, whichever device asked for it, and count there.
void holds_keep_all_of_it(void **) {
  Trio world(4);
  const uint64_t size = 6 * page_bytes;
  weir_buffer buffer = world.sharded(size);
  const uint64_t at = world.put(buffer, size, 1, 0);
  world.trim_devices();
  assert_int_equal(world.pages_on(1), 0);
  uint64_t address = 0;
  ok(weir_hold(world.pool, buffer, 2, &address));
  assert_int_equal(address, at);
  validate(world);
  assert_int_equal(world.stats().device_held_bytes, size);
  world.trim_devices();
  for (uint32_t device = 0; device < 3; ++device) assert_int_equal(world.pages_on(device), 2);
  weir_buffer other = world.sharded(9 * page_bytes);
  Kernel kernel{0, 9 * page_bytes, 1, 0};
  expect_result(WEIR_ERROR_OVER_BUDGET, world.use(other, WEIR_READ, 0, &kernel));
  expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(world.pool, buffer));
  ok(weir_unhold(world.pool, buffer));
  ok(world.use(other, WEIR_DISCARD_WRITE, 0, &kernel));
  world.see(buffer, size, 1, 1);
  ok(weir_buffer_destroy(world.pool, other));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

void is_brought_ahead(void **) {
  Trio world(8);
  const uint64_t size = 6 * page_bytes;
  weir_buffer buffer = world.sharded(size);
  world.put(buffer, size, 1, 0);
  for (uint32_t way = 0; way < 3; ++way) {
    world.trim_devices();
    assert_int_equal(world.pages_on(0) + world.pages_on(1) + world.pages_on(2), 0);
    weir_use use = WEIR_USE(buffer, WEIR_READ);
    if (way == 0) {
      ok(weir_prefetch(world.pool, world.all[1], &use, 1));
    } else if (way == 1) {
      ok(weir_advise(world.pool, buffer, 0, WEIR_WHOLE, WEIR_ADVISE_WILL_NEED));
      weir_buffer spur =
          world.sharded(1);  // without threads of its own, advice is taken with the next prefetch
      weir_use other = WEIR_USE(spur, WEIR_READ);
      ok(weir_prefetch(world.pool, world.all[0], &other, 1));
      ok(weir_buffer_destroy(world.pool, spur));
    } else {
      use.offset = 2 * page_bytes;
      use.length = 2 * page_bytes;
      ok(weir_prefetch(world.pool, world.all[1], &use, 1));
      assert_int_equal(world.pages_on(2), 1);
      assert_int_equal(world.pages_on(0), 1);
      assert_int_equal(world.pages_on(1), 0);
      continue;
    }
    for (uint32_t device = 0; device < 3; ++device) assert_true(world.pages_on(device) >= 2);
    const uint64_t misses = world.stats().misses;
    world.see(buffer, size, 1, 2);
    assert_int_equal(world.stats().misses, misses);
  }
  world.see(buffer, size, 1, 2);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

// ---- leases among each other ----

/// Ranges conflict byte by byte, of whichever devices the streams are: it is one memory.
void conflicts_are_by_bytes(void **) {
  Trio world(8);
  weir_buffer buffer = world.sharded(6 * page_bytes);
  weir_use first = part(buffer, WEIR_READ_WRITE, 0);
  weir_use beside = part(buffer, WEIR_READ_WRITE, 100);
  weir_use across = part(buffer, WEIR_READ, 50);
  weir_lease leases[2] = {};
  ok(weir_acquire(world.pool, world.all[0], &first, 1, nullptr, &leases[0]));
  ok(weir_acquire(world.pool, world.all[1], &beside, 1, nullptr, &leases[1]));
  assert_int_equal(beside.address, first.address + 100);
  weir_lease none = nullptr;
  expect_result(WEIR_ERROR_LEASE_CONFLICT,
                weir_acquire(world.pool, world.all[2], &across, 1, nullptr, &none));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(buffer, WEIR_READ, &none, nullptr, 1));
  validate(world);
  ok(weir_release(leases[0], world.all[0]));
  ok(weir_release(leases[1], world.all[1]));
  ok(weir_acquire(world.pool, world.all[2], &across, 1, nullptr, &none));
  ok(weir_release(none, world.all[2]));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

/// A writer on one device and a reader on another are ordered by their leases, and by nothing else.
void work_is_ordered(void **) {
  Trio world(8);
  const uint64_t size = 6 * page_bytes;
  weir_buffer buffer = world.sharded(size);
  world.put(buffer, size, 1, 0);
  Barrier barrier;
  barrier.hold(world.all[0]);
  Kernel writer{0, size, 2, 0};
  Kernel reader{0, size, 2, 0};
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ_WRITE, &lease, &writer.address, 0));
  ok(writer.launch(world.all[0], Kernel::write));
  ok(weir_release(lease, world.all[0]));
  ok(world.acquire(buffer, WEIR_READ, &lease, &reader.address, 1));
  ok(reader.launch(world.all[1], Kernel::compare));
  ok(weir_release(lease, world.all[1]));
  assert_true(never_ready(world.all[1]));
  barrier.open();
  for (weir_stream stream : world.all) ok(weir_stream_synchronize(stream));
  assert_int_equal(reader.wrong, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

/// One device has no room while another's lease is out: the set answers so, holding nothing anywhere.
void a_set_that_would_block_leaves_nothing(void **) {
  Trio world(4);
  const uint64_t size = 9 * page_bytes;
  weir_buffer buffer = world.sharded(size);
  world.put(buffer, size, 1, 0);
  weir_buffer blocker = world.buffer(2 * page_bytes, 1);
  weir_lease held = nullptr;
  ok(world.acquire(blocker, WEIR_DISCARD_WRITE, &held, nullptr, 1));
  world.trim_devices();
  weir_lease none = nullptr;
  expect_result(WEIR_ERROR_WOULD_BLOCK, world.acquire(buffer, WEIR_READ, &none, nullptr, 0));
  const weir_error_info why = last_error();
  assert_int_equal(why.device, 1);
  assert_int_equal(query(world, buffer).leases, 0);
  validate(world);
  // What the others would have given is to be had.
  weir_buffer all = world.buffer(4 * page_bytes, 0);
  world.fill(all, 4 * page_bytes, 9, 0);
  ok(weir_release(held, world.streams[1]));
  world.see(buffer, size, 1, 2);
  ok(weir_buffer_destroy(world.pool, all));
  ok(weir_buffer_destroy(world.pool, blocker));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

/// And waits for that lease, if it is told to.
void waits_for_the_last_device(void **) {
  Trio world(4);
  const uint64_t size = 9 * page_bytes;
  weir_buffer buffer = world.sharded(size);
  world.put(buffer, size, 1, 0);
  weir_buffer blocker = world.buffer(2 * page_bytes, 2);
  weir_use use = WEIR_USE(blocker, WEIR_DISCARD_WRITE);
  weir_lease held = nullptr;
  ok(weir_acquire(world.pool, world.all[2], &use, 1, nullptr, &held));
  world.trim_devices();
  Kernel kernel{0, size, 1, 0};
  {
    Task task([&] {
      weir_use wanted = WEIR_USE(buffer, WEIR_READ);
      weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
      options.flags = WEIR_ACQUIRE_SOLE_HOLDER;
      options.timeout_ns = WEIR_INFINITE;
      weir_lease lease = nullptr;
      const weir_result result =
          weir_acquire(world.pool, world.all[0], &wanted, 1, &options, &lease);
      if (result != WEIR_SUCCESS) return result;
      kernel.address = wanted.address;
      (void)kernel.launch(world.all[0], Kernel::compare);
      return weir_release(lease, world.all[0]);
    });
    assert_true(keeps_waiting(task));
    // Waiting, it holds nothing: the buffer can be written elsewhere. (It claims all of it whenever it looks again.)
    while (query(world, buffer).leases != 0) std::this_thread::yield();
    ok(weir_release(held, world.all[2]));
    ok(task.join());
  }
  ok(weir_stream_synchronize(world.all[0]));
  assert_int_equal(kernel.wrong, 0);
  validate(world);
  ok(weir_buffer_destroy(world.pool, blocker));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

/// Sharded and ordinary buffers in one set, with uses that may be remote.
void sets_mix(void **) {
  Trio world(8);
  const uint64_t size = 6 * page_bytes;
  weir_buffer buffer = world.sharded(size);
  weir_buffer near = world.buffer(2 * page_bytes, 0);
  weir_buffer far = world.buffer(2 * page_bytes, 1);
  world.fill(far, 2 * page_bytes, 7, 1);
  weir_use uses[3] = {WEIR_USE(near, WEIR_DISCARD_WRITE), remote_use(far, WEIR_READ),
                      remote_use(buffer, WEIR_DISCARD_WRITE)};
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.all[0], uses, 3, nullptr, &lease));
  assert_int_equal(world.stats().remote_uses, 1);
  Kernel reader{uses[1].address, 2 * page_bytes, 7, 0};
  Kernel writers[2] = {{uses[0].address, 2 * page_bytes, 1, 0}, {uses[2].address, size, 2, 0}};
  ok(reader.launch(world.all[0], Kernel::compare));
  for (Kernel &writer : writers) ok(writer.launch(world.all[0], Kernel::write));
  ok(weir_release(lease, world.all[0]));
  ok(weir_stream_synchronize(world.all[0]));
  assert_int_equal(reader.wrong, 0);
  validate(world);
  world.see(buffer, size, 2, 1);
  world.check(near, 2 * page_bytes, 1, 0);
  for (weir_buffer made : {buffer, near, far}) ok(weir_buffer_destroy(world.pool, made));
  world.close_sharded();
}

/// What the set uses elsewhere lies where its shards need the room: it is not in its own way.
void a_set_gives_way_to_itself(void **) {
  for (const bool remote : {false, true}) {
    Trio world(5);
    const uint64_t size = 8 * page_bytes;
    const uint64_t beside = 2 * page_bytes;
    weir_buffer buffer = world.sharded(size, {1, 2});
    weir_buffer there = world.buffer(beside, 1);
    world.put(buffer, size, 1, 0);
    world.trim_devices();
    world.fill(there, beside, 2, 1);
    assert_int_equal(world.pages_on(1), 2);
    weir_use uses[2] = {WEIR_USE(buffer, WEIR_READ), WEIR_USE(there, WEIR_READ)};
    if (remote) uses[1] = remote_use(there, WEIR_READ);
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.all[0], uses, 2, nullptr, &lease));
    validate(world);
    assert_int_equal(world.pages_on(1), 4);
    assert_int_equal(world.pages_on(0), 2);
    Kernel kernels[2] = {{uses[0].address, size, 1, 0}, {uses[1].address, beside, 2, 0}};
    for (Kernel &kernel : kernels) ok(kernel.launch(world.all[0], Kernel::compare));
    ok(weir_release(lease, world.all[0]));
    ok(weir_stream_synchronize(world.all[0]));
    assert_int_equal(kernels[0].wrong + kernels[1].wrong, 0);
    for (weir_buffer made : {buffer, there}) ok(weir_buffer_destroy(world.pool, made));
    world.close_sharded();
  }
}

/// Many at once on all devices, with spilling: the bytes are each writer's own.
void threads_on_all_devices(void **) {
  Trio world(6, three_near, 64, 3, 0);
  constexpr uint32_t count = 4;
  const uint64_t size = 7 * page_bytes;
  weir_buffer buffers[count];
  for (weir_buffer &buffer : buffers) buffer = world.sharded(size);
  std::atomic<uint64_t> wrong{0};
  {
    std::vector<std::thread> threads;
    for (uint32_t device = 0; device < 3; ++device) {
      threads.emplace_back([&, device] {
        uint32_t seeds[count] = {};
        for (uint32_t turn = 0; turn < 60; ++turn) {
          // Each thread has one buffer of its own; the last is read by all.
          const uint32_t i = turn % 3 == 2 ? count - 1 : device;
          const bool write = i != count - 1 && turn % 2 == 0;
          weir_use use = WEIR_USE(buffers[i], write ? WEIR_DISCARD_WRITE : WEIR_READ);
          weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
          options.flags = WEIR_ACQUIRE_SOLE_HOLDER;
          options.timeout_ns = WEIR_INFINITE;
          weir_lease lease = nullptr;
          if (weir_acquire(world.pool, world.all[device], &use, 1, &options, &lease) !=
              WEIR_SUCCESS) {
            ++wrong;
            continue;
          }
          if (write) seeds[i] = device * 100 + turn + 1;
          Kernel kernel{use.address, size, seeds[i], 0};
          if (write || seeds[i] != 0) {
            if (kernel.launch(world.all[device], write ? Kernel::write : Kernel::compare) !=
                WEIR_SUCCESS)
              ++wrong;
          }
          if (weir_release(lease, world.all[device]) != WEIR_SUCCESS) ++wrong;
          if (weir_stream_synchronize(world.all[device]) != WEIR_SUCCESS) ++wrong;
          wrong += kernel.wrong;
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
  }
  assert_int_equal(wrong.load(), 0);
  engine_of(world).wait_idle();
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_lie_on_their_devices),
      cmocka_unit_test(larger_than_a_device),
      cmocka_unit_test(by_weight_and_in_blocks),
      cmocka_unit_test(the_smallest),
      cmocka_unit_test(a_part_brings_its_shards_only),
      cmocka_unit_test(spills_and_comes_back),
      cmocka_unit_test(never_written_reads_as_zero),
      cmocka_unit_test(the_cpu_writes_and_reads),
      cmocka_unit_test(holds_keep_all_of_it),
      cmocka_unit_test(is_brought_ahead),
      cmocka_unit_test(conflicts_are_by_bytes),
      cmocka_unit_test(work_is_ordered),
      cmocka_unit_test(a_set_that_would_block_leaves_nothing),
      cmocka_unit_test(waits_for_the_last_device),
      cmocka_unit_test(sets_mix),
      cmocka_unit_test(a_set_gives_way_to_itself),
      cmocka_unit_test(threads_on_all_devices),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

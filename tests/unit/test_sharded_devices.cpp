// SPDX-License-Identifier: Apache-2.0
//
// Sharded buffers and what becomes of their devices: which devices can have one at all, and what is said of those that
// can't; those that leave the pool, the one with the addresses included; those that are lost, with what was theirs alone; and a
// writer that is lost with his work half done.

#include "tests/unit/sharded.hpp"
#include "tests/unit/interposed_host.hpp"

namespace {

using namespace weir::test;

const uint64_t size = 9 * page_bytes;

weir_result remove(World &world, weir_device device) {
  return weir_pool_remove_device(world.pool, device, WEIR_INFINITE);
}

// ---- what can't be ----

struct Refused {
  weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
  weir_device devices[3] = {0, 1, 2};
  uint32_t weights[3] = {1, 1, 1};
  Refused() {
    shards.devices = devices;
    shards.device_count = 3;
  }
};

void refused(Trio &world, const weir_shard_desc &shards, weir_result why, const char *told) {
  weir_buffer none = nullptr;
  expect_result(why, world.try_sharded(size, shards, &none));
  if (std::strstr(weir_last_error(), told) == nullptr)
    fail_msg("\"%s\" does not tell \"%s\"", weir_last_error(), told);
  assert_null(none);
}

void bad_layouts_are_named(void **) {
  Trio world(8);
  const auto refuse = [&world](const char *told, auto change) {
    Refused bad;
    change(bad);
    refused(world, bad.shards, WEIR_ERROR_INVALID_ARGUMENT, told);
  };
  refuse("policy is 3", [](Refused &r) { r.shards.policy = 3; });
  refuse("device_count is 0", [](Refused &r) { r.shards.device_count = 0; });
  refuse("device_count is 29", [](Refused &r) { r.shards.device_count = 29; });
  refuse("devices is NULL", [](Refused &r) { r.shards.devices = nullptr; });
  refuse("reserved is 7", [](Refused &r) { r.shards.reserved = 7; });
  refuse("struct_size is 1", [](Refused &r) { r.shards.struct_size = 1; });
  refuse("devices[1] is device 0 once more", [](Refused &r) { r.devices[1] = 0; });
  refuse("device 9 is not of this pool", [](Refused &r) { r.devices[2] = 9; });
  refuse("WEIR_DEVICE_ANY", [](Refused &r) { r.devices[2] = WEIR_DEVICE_ANY; });
  refuse("stripe 100", [](Refused &r) { r.shards.stripe = 100; });
  refuse("blocks have none", [](Refused &r) {
    r.shards.policy = WEIR_SHARD_BLOCKED;
    r.shards.stripe = page_bytes;
  });
  refuse("weights[1] is 0", [](Refused &r) {
    r.weights[1] = 0;
    r.shards.weights = r.weights;
  });
  refuse("weights[2] is 65536", [](Refused &r) {
    r.weights[2] = 65536;
    r.shards.weights = r.weights;
  });
  world.close_sharded();
}

/// Beside the layout, what the rest of the descriptor says.
void bad_descriptors_are_named(void **) {
  Trio world(8);
  Refused good;
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = size;
  desc.shards = &good.shards;
  weir_buffer made = nullptr;
  desc.home = 1;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_create(world.pool, &desc, &made));
  desc.home = WEIR_DEVICE_DEFAULT;
  const weir_device user = 1;
  desc.users = &user;
  desc.user_count = 1;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_create(world.pool, &desc, &made));
  desc.user_count = 0;
  const weir_buffer_desc *descs[1] = {&desc};
  weir_device home = 77;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_place(world.pool, descs, 1, &home));
  assert_int_equal(home, 77);
  desc.size = 0;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_create(world.pool, &desc, &made));
  desc.size = size;
  for (const weir_device named : {WEIR_DEVICE_ANY, weir_device{0}}) {
    desc.home = named;
    ok(weir_buffer_create(world.pool, &desc, &made));
    size_t count = 7;
    expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                  weir_buffer_shards(world.pool, made, 0, nullptr, 1, &count));
    weir_shard shard{};
    expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                  weir_buffer_shards(world.pool, made, 0, &shard, 1, nullptr));
    expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                  weir_buffer_shards(world.pool, made, size, &shard, 1, &count));
    assert_int_equal(count, 7);
    ok(weir_buffer_shards(world.pool, made, 0, nullptr, 0, &count));
    assert_true(count > 0);
    ok(weir_buffer_destroy(world.pool, made));
  }
  world.close_sharded();
}

void devices_that_cannot(void **) {
  for (const char *lacks : {";host.shared_range=0", ";host.vmm=0", ";host.peer=0"}) {
    Trio world(8, (std::string(three_near) + lacks).c_str());
    refused(world, Refused().shards, WEIR_ERROR_NOT_SUPPORTED, "WEIR_CAP_SHARED_RANGE");
    // What is on one device alone asks nothing of it.
    weir_buffer alone = world.sharded(size / 2, {1});
    world.fill(alone, size / 2, 1, 1);
    world.check(alone, size / 2, 1, 1);
    ok(weir_buffer_destroy(world.pool, alone));
    world.close_sharded();
  }
  Trio world(8,
             "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=3;"
             "host.links=0-1:nvlink:150G,0-2:none:0,1-2:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G,"
             "h-2:pcie:16G");
  refused(world, Refused().shards, WEIR_ERROR_NOT_SUPPORTED, "does not reach");
  // A stream elsewhere has to reach all that it uses, too.
  weir_buffer buffer = world.sharded(size, {0, 1});
  world.put(buffer, size, 1, 1);
  Kernel kernel{0, size, 1, 0};
  expect_result(WEIR_ERROR_NOT_SUPPORTED, world.use(buffer, WEIR_READ, 2, &kernel));
  kernel.bytes = page_bytes;
  kernel.seed = 5;
  ok(world.use(buffer, WEIR_DISCARD_WRITE, 2, &kernel, page_bytes));  // it is device 1's
  ok(world.use(buffer, WEIR_READ, 0, &kernel, page_bytes));
  assert_int_equal(kernel.wrong, 0);
  validate(world);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

/// It has no pages of the buffer and uses all of them where they are.
void a_device_without_shards(void **) {
  Trio world(8);
  weir_buffer buffer = world.sharded(size, {0, 1});
  world.put(buffer, size, 1, 2);
  assert_int_equal(world.pages_on(2), 0);
  world.see(buffer, size, 1, 2);
  uint64_t address = 0;
  ok(weir_hold(world.pool, buffer, 2, &address));
  assert_int_equal(address, query(world, buffer).address);
  ok(weir_unhold(world.pool, buffer));
  assert_int_equal(world.pages_on(2), 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

void one_that_joined_later(void **) {
  Trio world(8, three_near, 64, 2);
  weir_buffer buffer = world.sharded(size, {0, 1});
  world.put(buffer, size, 1, 0);
  const weir_pool_device third = {2, 0, 8 * page_bytes, {0, 0}};
  ok(weir_pool_add_device(world.pool, &third));
  // What was mapped before is not open to it; what comes in from now on is.
  Kernel kernel{0, size, 1, 0};
  expect_result(WEIR_ERROR_NOT_SUPPORTED, world.use(buffer, WEIR_READ, 2, &kernel));
  world.trim_devices();
  world.see(buffer, size, 1, 2);
  weir_buffer over = world.sharded(size, {2, 0});
  world.put(over, size, 2, 1);
  world.see(over, size, 2, 2);
  ok(weir_buffer_destroy(world.pool, over));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

// ---- leaving ----

/// Each of them in turn, the one that reserved the addresses too: the others have its pages then.
void its_shards_go_to_the_others(void **) {
  for (weir_device leaves = 0; leaves < 3; ++leaves) {
    Trio world(12);
    weir_buffer buffer = world.sharded(size);
    const uint64_t address = world.put(buffer, size, 1, 1);
    ok(remove(world, leaves));
    validate(world);
    assert_int_equal(world.pages_on((leaves + 1) % 3), 3);
    const std::string layout = world.layout(buffer);
    assert_true(layout.find(static_cast<char>('0' + leaves)) == std::string::npos);
    world.check_read(buffer, size, 1);
    for (uint32_t device = 0; device < 3; ++device) {
      if (device == leaves) continue;
      assert_int_equal(world.see(buffer, size, 1, device), address);
      world.put(buffer, size, 2, device);
      world.see(buffer, size, 2, device);
      assert_in_range(world.pages_on(device), 4, 5);
      world.put(buffer, size, 1, device);
    }
    assert_int_not_equal(query(world, buffer).home, leaves);
    // And it may come back, for other buffers; to this one it is a stranger.
    const weir_pool_device back = {leaves, 0, 12 * page_bytes, {0, 0}};
    ok(weir_pool_add_device(world.pool, &back));
    assert_string_equal(world.layout(buffer).c_str(), layout.c_str());
    world.trim_devices();
    world.see(buffer, size, 1, leaves);
    weir_buffer fresh = world.sharded(size, {leaves, (leaves + 1) % 3});
    world.put(fresh, size, 3, leaves);
    world.see(fresh, size, 3, (leaves + 2) % 3);
    ok(weir_buffer_destroy(world.pool, fresh));
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close_sharded();
  }
}

void the_last_one_stays(void **) {
  Trio world(16);
  weir_buffer buffer = world.sharded(size, {0, 1});
  world.put(buffer, size, 1, 2);
  ok(remove(world, 0));
  world.see(buffer, size, 1, 2);
  assert_int_equal(world.pages_on(1), 9);
  expect_result(WEIR_ERROR_BUSY, remove(world, 1));
  world.see(buffer, size, 1, 1);
  // Once it is gone nothing keeps the device, though its pages may still be there.
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(remove(world, 1));
  world.close_sharded();
}

/// A removal waits for leases of other devices' streams, and refuses new ones meanwhile.
void leaving_waits_for_everybody(void **) {
  Trio world(12);
  weir_buffer buffer = world.sharded(size);
  world.put(buffer, size, 1, 0);
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ, &lease, nullptr, 0));
  {
    Task removal([&] { return remove(world, 2); });
    weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    do {
      ok(weir_pool_device_stats_get(world.pool, 2, &stats));
    } while (stats.state != WEIR_POOL_DEVICE_LEAVING);
    weir_lease none = nullptr;
    expect_result(WEIR_ERROR_DEVICE_REMOVED, world.acquire(buffer, WEIR_READ, &none, nullptr, 1));
    assert_true(keeps_waiting(removal));
    ok(weir_release(lease, world.all[0]));
    ok(removal.join());
  }
  world.see(buffer, size, 1, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

/// A prefetch makes room on one device while another of the buffer's, where it has nothing to do, leaves the pool.
void a_prefetch_meets_a_removal(void **) {
  Trio world(12);
  weir_buffer buffer = world.sharded(size, {0, 1});
  weir_buffer full = world.buffer(12 * page_bytes, 1);
  world.put(buffer, size, 1, 0);
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  world.fill(full, 12 * page_bytes, 2, 1);
  {
    Gate gate(world.pool, "evict.claimed");
    Task task([&] {
      const weir_use use = WEIR_USE(buffer, WEIR_READ);
      return weir_prefetch(world.pool, world.all[1], &use, 1);
    });
    gate.await();
    ok(remove(world, 0));
    gate.open();
    ok(task.join());
  }
  validate(world);
  world.see(buffer, size, 1, 2);
  world.check(full, 12 * page_bytes, 2, 1);
  ok(weir_buffer_destroy(world.pool, full));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
}

// ---- loss ----

/// It is lost while its part of a set is brought in, by another's call: what has been mapped for it is in no call's way.
void lost_while_it_is_filled(void **) {
  Trio world(12);
  weir_buffer buffer = world.sharded(size, {0, 1});
  const uint64_t address = world.put(buffer, size, 1, 1);
  world.trim_devices();
  {
    Gate gate(world.pool, "fill");
    Task task([&] {
      weir_use use = WEIR_USE(buffer, WEIR_READ);
      weir_lease lease = nullptr;
      return weir_acquire(world.pool, world.all[2], &use, 1, nullptr, &lease);
    });
    gate.await();
    engine_of(world).lose_device(0);
    gate.open();
    expect_result(WEIR_ERROR_DEVICE_LOST, task.join());
  }
  validate(world);
  ok(remove(world, 0));
  assert_int_equal(world.see(buffer, size, 1, 2), address);
  assert_int_equal(world.pages_on(1), 9);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_pool_destroy(world.pool));
  for (weir_stream stream : world.all) (void)weir_stream_close(stream);
  ok(weir_context_destroy(world.context));
}

/// A writer that had done his work takes nothing along when his device is lost later.
void what_was_written_before_stays(void **) {
  Trio world(12, three_near, 64, 3, WEIR_POOL_NO_BACKGROUND, InterposedHost::query);
  weir_buffer buffer = world.sharded(size, {0, 1});
  weir_buffer later = world.buffer(page_bytes, 2);
  world.put(buffer, size, 1, 2);
  world.check_read(buffer, size, 1);  // the work is seen to have ended
  Barrier barrier;
  barrier.hold(world.all[2]);
  weir_use use = WEIR_USE(later, WEIR_DISCARD_WRITE);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.all[2], &use, 1, nullptr, &lease));
  ok(weir_release(lease, world.all[2]));
  interposed.interpose.store([](const char *entry) -> weir_result {
    return std::strncmp(entry, "fence_", 6) == 0 && std::strcmp(entry, "fence_record") != 0
               ? WEIR_ERROR_DEVICE_LOST
               : WEIR_SUCCESS;
  });
  // A use that is to come after that work asks its fence, and copies nothing.
  weir_lease asking = nullptr;
  ok(world.acquire(later, WEIR_DISCARD_WRITE, &asking, nullptr, 0));
  ok(weir_release(asking, world.all[0]));
  interposed.interpose.store(nullptr);
  engine_of(world).lose_device(2);
  validate(world);
  assert_int_equal(query(world, buffer).lost_bytes, 0);
  world.see(buffer, size, 1, 1);
  barrier.open();
  ok(weir_stream_synchronize(world.all[2]));
  for (weir_buffer made : {later, buffer}) ok(weir_buffer_destroy(world.pool, made));
  ok(weir_pool_destroy(world.pool));
  for (weir_stream stream : world.all) (void)weir_stream_close(stream);
  ok(weir_context_destroy(world.context));
}

/// What a lost device alone had is lost, by ranges; the rest lives on, and so does the buffer when the device is taken out.
void a_lost_device_takes_its_own(void **) {
  for (weir_device lost = 0; lost < 3; ++lost) {
    Trio world(12);
    weir_buffer buffer = world.sharded(size);
    weir_buffer safe = world.sharded(size);
    world.put(buffer, size, 1, 1);
    world.put(safe, size, 2, 1);
    world.trim_devices();
    world.see(safe, size, 2, 0);  // in HOST too
    world.put(buffer, size, 1, 1);
    engine_of(world).lose_device(static_cast<uint8_t>(lost));
    validate(world);
    assert_int_equal(query(world, buffer).lost_bytes, 3 * page_bytes);
    assert_int_equal(query(world, safe).lost_bytes, 0);
    const uint32_t other = (lost + 1) % 3;
    Kernel kernel{0, size, 1, 0};
    expect_result(WEIR_ERROR_DATA_LOST, world.use(buffer, WEIR_READ, other, &kernel));
    kernel.seed = 2;
    expect_result(WEIR_ERROR_DEVICE_LOST, world.use(safe, WEIR_READ, other, &kernel));
    world.check_read(safe, size, 2);
    ok(remove(world, lost));
    validate(world);
    world.see(safe, size, 2, other);
    expect_result(WEIR_ERROR_DATA_LOST, world.use(buffer, WEIR_READ, other, &kernel));
    world.put(buffer, size, 3, other);
    world.see(buffer, size, 3, (lost + 2) % 3);
    ok(weir_buffer_destroy(world.pool, safe));
    ok(weir_buffer_destroy(world.pool, buffer));
    // The pages of the lost device belong to no buffer; of the others' nothing is left.
    ok(weir_pool_destroy(world.pool));
    for (weir_stream stream : world.all) (void)weir_stream_close(stream);
    ok(weir_context_destroy(world.context));
  }
}

/// It wrote on all of the devices; it is not known how far it came.
void a_lost_writer_takes_his_range(void **) {
  Trio world(12);
  weir_buffer buffer = world.sharded(size, {0, 1});
  world.put(buffer, size, 1, 0);
  Barrier barrier;
  barrier.hold(world.all[2]);
  weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
  use.offset = 3 * page_bytes;
  use.length = 2 * page_bytes;
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.all[2], &use, 1, nullptr, &lease));
  ok(weir_release(lease, world.all[2]));
  engine_of(world).lose_device(2);
  validate(world);
  assert_int_equal(query(world, buffer).lost_bytes, 2 * page_bytes);
  Kernel kernel{0, 3 * page_bytes, 1, 0};
  ok(world.use(buffer, WEIR_READ, 1, &kernel));
  assert_int_equal(kernel.wrong, 0);
  kernel.bytes = 4 * page_bytes;
  expect_result(WEIR_ERROR_DATA_LOST, world.use(buffer, WEIR_READ, 1, &kernel));
  barrier.open();
  ok(weir_stream_synchronize(world.all[2]));
  world.put(buffer, size, 2, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_pool_destroy(world.pool));
  for (weir_stream stream : world.all) (void)weir_stream_close(stream);
  ok(weir_context_destroy(world.context));
}

/// A runtime that does not even unmap what a lost device had: nothing else can come to those addresses, so the buffer is
/// used no more, and its bytes can be read all the same.
void what_stays_mapped_is_in_the_way(void **) {
  Trio world(12, three_near, 64, 3, WEIR_POOL_NO_BACKGROUND, InterposedHost::query);
  weir_buffer buffer = world.sharded(size);
  weir_buffer other = world.sharded(size, {0, 2});
  world.put(buffer, size, 1, 1);
  world.trim_devices();
  world.see(buffer, size, 1, 0);
  world.put(other, size, 2, 0);
  engine_of(world).lose_device(1);
  interposed.frees.store([](const char *) -> weir_result { return WEIR_ERROR_DEVICE_LOST; });
  ok(remove(world, 1));
  interposed.frees.store(nullptr);
  validate(world);
  Kernel kernel{0, size, 1, 0};
  expect_result(WEIR_ERROR_DEVICE_LOST, world.use(buffer, WEIR_READ, 2, &kernel));
  uint64_t address = 0;
  expect_result(WEIR_ERROR_DEVICE_LOST, weir_hold(world.pool, buffer, 0, &address));
  world.check_read(buffer, size, 1);
  assert_string_equal(world.layout(buffer).c_str(), "002022002");
  world.see(other, size, 2, 2);
  ok(weir_buffer_destroy(world.pool, buffer));
  // Its addresses are not used again: a new one has others.
  weir_buffer fresh = world.sharded(size, {0, 2});
  world.put(fresh, size, 3, 0);
  world.see(fresh, size, 3, 2);
  ok(weir_buffer_destroy(world.pool, fresh));
  ok(weir_buffer_destroy(world.pool, other));
  ok(weir_pool_destroy(world.pool));
  for (weir_stream stream : world.all) (void)weir_stream_close(stream);
  ok(weir_context_destroy(world.context));
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_layouts_are_named),
      cmocka_unit_test(bad_descriptors_are_named),
      cmocka_unit_test(devices_that_cannot),
      cmocka_unit_test(a_device_without_shards),
      cmocka_unit_test(one_that_joined_later),
      cmocka_unit_test(its_shards_go_to_the_others),
      cmocka_unit_test(the_last_one_stays),
      cmocka_unit_test(leaving_waits_for_everybody),
      cmocka_unit_test(a_prefetch_meets_a_removal),
      cmocka_unit_test(lost_while_it_is_filled),
      cmocka_unit_test(what_was_written_before_stays),
      cmocka_unit_test(a_lost_device_takes_its_own),
      cmocka_unit_test(a_lost_writer_takes_his_range),
      cmocka_unit_test(what_stays_mapped_is_in_the_way),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
//
// Copies between devices over a device in between, through the host, and several ways at once: the bytes are right, the way
// is the one that costs least, what it takes on the device in between is charged there and given back when that is short.

#include <cstring>
#include <thread>

#include "tests/unit/routed.hpp"

#include "tests/unit/interposed_host.hpp"

namespace {

using namespace weir::test;

const uint64_t size = 8 * page_bytes;
const uint64_t slots = 4 * page_bytes;  ///< what a device in between gives

/// There and back, with new bytes each time.
void to_and_fro(World &world, uint64_t bytes, uint32_t turns = 2) {
  weir_buffer buffer = world.buffer(bytes, 0);
  uint32_t seed = 1;
  world.fill(buffer, bytes, seed, 0);
  for (uint32_t turn = 0; turn < turns; ++turn) {
    for (const uint32_t device : {1U, 0U}) {
      world.check(buffer, bytes, seed, device);
      validate(world);
      world.fill(buffer, bytes, ++seed, device);
    }
  }
  world.check_read(buffer, bytes, seed);
  ok(weir_buffer_destroy(world.pool, buffer));
}

void trim(World &world) {
  for (uint32_t device = 0; device < 3; ++device)
    ok(weir_pool_trim(world.pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  validate(world);
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.device_bytes, 0);
  assert_int_equal(stats.host_bytes, 0);
}

void around_the_corner(void **) {
  World world = routed(around_a_corner);
  to_and_fro(world, size);
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.peer_bytes, 4 * size);
  assert_int_equal(stats.relayed_bytes, 4 * size);
  assert_int_equal(stats.host_relayed_bytes, 0);
  assert_int_equal(stats.split_bytes, 0);
  assert_int_equal(stats.staging_bytes, 0);
  assert_int_equal(held_on(world, 2), slots);
  trim(world);
  to_and_fro(world, size);
  trim(world);
  world.close();
}

void through_the_host(void **) {
  World world = routed(apart);
  to_and_fro(world, size);
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.peer_bytes, 4 * size);
  assert_int_equal(stats.relayed_bytes, 0);
  assert_int_equal(stats.host_relayed_bytes, 4 * size);
  assert_true(stats.staging_bytes != 0 && stats.host_bytes >= stats.staging_bytes);
  assert_int_equal(held_on(world, 2), 0);
  trim(world);
  to_and_fro(world, size);
  trim(world);
  world.close();
}

void several_ways_at_once(void **) {
  World world = routed(three_ways, large_page, 64);
  to_and_fro(world, large + 4711);
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.peer_bytes, 4 * (large + 4711));
  assert_int_equal(stats.split_bytes, stats.peer_bytes);
  assert_true(stats.relayed_bytes >= 4 * (2U << 20U));
  assert_true(stats.host_relayed_bytes >= 4 * (2U << 20U));
  assert_true(stats.relayed_bytes + stats.host_relayed_bytes < stats.peer_bytes);
  // Below 8 MiB it goes the direct way.
  to_and_fro(world, large / 2);
  const weir_pool_stats after = world.stats();
  assert_int_equal(after.peer_bytes, stats.peer_bytes + 4 * (large / 2));
  assert_int_equal(after.split_bytes, stats.split_bytes);
  assert_int_equal(after.relayed_bytes, stats.relayed_bytes);
  trim(world);
  world.close();
}

/// More than is gathered at a time: each part is divided like the whole.
void split_in_parts(void **) {
  World world = routed(three_ways, large_page, 80);
  to_and_fro(world, 3 * large, 1);
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.split_bytes, 2 * 3 * large);
  trim(world);
  world.close();
}

/// Parts of two buffers share a granule, which is zeroed once, for all of it: what is carried into it comes after that, be it
/// carried in the set of the part that had it zeroed, and is not carried itself, or in a set of its own.
void zeroed_before_it_is_shared(void **) {
  const uint64_t part = page_bytes / 4;
  const uint64_t bytes = page_bytes + part;
  for (const bool together : {true, false}) {
    World world = routed(apart, page_bytes, 40, WEIR_POOL_NO_BACKGROUND, InterposedHost::query);
    const weir_buffer buffers[2] = {world.buffer(bytes, 1), world.buffer(bytes, 1)};
    world.fill(buffers[1], bytes, 4, 0);
    Blocker zeroing;
    interposed.fills.store(&zeroing);
    weir_use uses[2] = {WEIR_USE(buffers[0], WEIR_READ), WEIR_USE(buffers[1], WEIR_READ)};
    weir_lease leases[2] = {};
    ok(weir_acquire(world.pool, world.streams[1], uses, together ? 2 : 1, nullptr, &leases[0]));
    if (!together) ok(weir_acquire(world.pool, world.streams[1], uses + 1, 1, nullptr, &leases[1]));
    // The other's first bytes lie beside the one's last ones.
    const auto *first = reinterpret_cast<const volatile uint8_t *>(uses[1].address);
    assert_true(stays([first] { return *first != pattern(4, 0); }));
    zeroing.open();
    interposed.fills.store(nullptr);
    for (const weir_lease lease : leases) {
      if (lease != nullptr) ok(weir_release(lease, world.streams[1]));
    }
    world.check(buffers[1], bytes, 4, 1);
    std::vector<uint8_t> never_written(bytes, 7);
    ok(weir_buffer_read(world.pool, buffers[0], 0, bytes, never_written.data()));
    assert_true(all_zero(never_written));
    validate(world);
    assert_int_equal(world.stats().host_relayed_bytes, bytes);
    for (const weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

/// Small buffers, parts of pages, without multiple mapping, without batches.
void all_shapes(void **) {
  for (const char *more :
       {"", ";host.multi_map=0", ";host.batch_copy=0", ";host.map_any_thread=0"}) {
    World world = routed(around_a_corner + more);
    for (const uint64_t bytes :
         {uint64_t{600}, page_bytes, 2 * page_bytes + 100, 5 * page_bytes / 2})
      to_and_fro(world, bytes);
    assert_int_equal(world.stats().relayed_bytes, world.stats().peer_bytes);
    trim(world);
    world.close();
  }
}

/// Without virtual memory no device stands in between.
void without_vmm(void **) {
  for (const std::string &options : {around_a_corner, apart}) {
    World world = routed(options + ";host.vmm=0");
    to_and_fro(world, size);
    const weir_pool_stats stats = world.stats();
    assert_int_equal(stats.host_relayed_bytes, stats.peer_bytes);
    world.close();
  }
}

/// HOST has the bytes too, but is further away than the device around the corner.
void a_relay_beats_a_copy_in_host(void **) {
  World world = routed(
      "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=3;"
      "host.links=0-1:none:0,0-2:nvlink:50G:1:1000,1-2:nvlink:50G:1:1000,"
      "h-0:pcie:10G:1:90000,h-1:pcie:10G:1:90000",
      page_bytes, 40, WEIR_POOL_NO_BACKGROUND | WEIR_POOL_NO_PEER);
  weir_buffer buffer = world.buffer(size, 0);
  world.fill(buffer, size, 1, 0);
  ok(trim_all(world));
  world.check(buffer, size, 1, 0);
  const uint64_t promoted = world.stats().promoted_bytes;
  world.check(buffer, size, 1, 1);
  assert_int_equal(world.stats().promoted_bytes, promoted);
  assert_int_equal(world.stats().relayed_bytes, size);
  ok(weir_buffer_destroy(world.pool, buffer));
  trim(world);
  world.close();
}

/// The device in between has no room to spare, then gets back what it gave, zeroed for its next owner.
void what_passes_makes_room(void **) {
  World world = routed(around_a_corner, page_bytes, 12);
  weir_stream third = nullptr;
  ok(weir_stream_create(world.context, 2, 0, &third));
  weir_buffer buffer = world.buffer(size, 0);
  weir_buffer whole = world.buffer(12 * page_bytes, 2);
  world.fill(buffer, size, 1, 0);
  world.check(buffer, size, 1, 1);
  assert_int_equal(held_on(world, 2), slots);
  weir_use use = WEIR_USE(whole, WEIR_READ_WRITE);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, third, &use, 1, nullptr, &lease));
  ok(weir_stream_synchronize(third));
  const auto *bytes = reinterpret_cast<const uint8_t *>(use.address);
  assert_true(std::all_of(bytes, bytes + 12 * page_bytes, [](uint8_t b) { return b == 0; }));
  validate(world);
  // No room: through the host.
  world.fill(buffer, size, 2, 1);
  world.check(buffer, size, 2, 0);
  assert_int_equal(world.stats().host_relayed_bytes, size);
  ok(weir_release(lease, third));
  ok(weir_stream_close(third));
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_buffer_destroy(world.pool, whole));
  trim(world);
  world.close();
}

/// What a prefetch takes from a place has been read before the next version is written there. No lease knows of the prefetch, so
/// only the thread sanitizer sees where that is missing.
void a_place_is_written_after_what_is_taken_from_it(void **) {
  for (const char *vmm : {"", ";host.vmm=0"}) {
    World world =
        routed(std::string("host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=3;"
                           "host.links=0-1:nvlink:50G,0-2:none:0,1-2:none:0") +
               vmm);
    weir_stream third = nullptr;
    ok(weir_stream_create(world.context, 2, 0, &third));
    weir_buffer buffer = world.buffer(size, 0);
    for (uint32_t seed = 1; seed < 20; seed += 2) {
      world.fill(buffer, size, seed, 0);
      const weir_use ahead = WEIR_USE(buffer, WEIR_READ);
      ok(weir_prefetch(world.pool, world.streams[1], &ahead, 1));
      engine_of(world).wait_idle();
      weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
      weir_lease lease = nullptr;
      ok(weir_acquire(world.pool, third, &use, 1, nullptr, &lease));
      Kernel kernel{use.address, size, seed + 1, 0};
      ok(kernel.launch(third, Kernel::write));
      ok(weir_release(lease, third));
      world.check(buffer, size, seed + 1, 0);
      ok(weir_stream_synchronize(third));  // the kernel's record is this loop's
    }
    ok(weir_stream_close(third));
    ok(weir_buffer_destroy(world.pool, buffer));
    trim(world);
    world.close();
  }
}

class TestClock final : public weir::Clock {
 public:
  uint64_t now_ns() const noexcept override { return now_.load(); }
  void pass(uint64_t ns) { now_.fetch_add(ns); }

 private:
  std::atomic<uint64_t> now_{1'000'000'000};
};

/// Not used for a grace period, they go back to the system; and are taken anew.
void idle_slots_go_back(void **) {
  constexpr uint64_t grace_ns = 10'000'000'000;
  TestClock clock;
  World world = routed(around_a_corner, page_bytes, 40, 0, nullptr, &clock);
  const auto pass = [&](uint32_t looks) {
    for (uint32_t i = 0; i < looks; ++i) {
      clock.pass(grace_ns / weir::physical::looks_a_grace);
      engine_of(world).upkeep().look_at_idle();
    }
  };
  for (int turn = 0; turn < 2; ++turn) {
    to_and_fro(world, size);
    assert_int_equal(held_on(world, 2), slots);
    pass(weir::physical::looks_a_grace - 1);
    assert_int_equal(held_on(world, 2), slots);
    pass(3);
    assert_int_equal(held_on(world, 2), 0);
  }
  validate(world);
  world.close();
}

/// The source is still being written: only the stream that wants the bytes waits for that.
void a_writer_on_the_source_comes_first(void **) {
  for (const std::string &options : {around_a_corner, apart, three_ways}) {
    const bool split = options == three_ways;
    const uint64_t bytes = split ? large : size;
    World world = routed(options, split ? large_page : page_bytes, 64);
    weir_buffer buffer = world.buffer(bytes, 0);
    world.fill(buffer, bytes, 1, 0);
    weir_lease lease = nullptr;
    Kernel kernel{0, bytes, 2, 0};
    Blocker blocker;
    ok(world.acquire(buffer, WEIR_READ_WRITE, &lease, &kernel.address, 0));
    ok(weir_stream_host_call(world.streams[0], Blocker::stand, &blocker));
    ok(kernel.launch(world.streams[0], Kernel::write));
    ok(weir_release(lease, world.streams[0]));
    weir_lease other = nullptr;
    Kernel compare{0, bytes, 2, 0};
    ok(world.acquire(buffer, WEIR_READ, &other, &compare.address, 1));
    const bool waited = never_ready(world.streams[1]);
    ok(compare.launch(world.streams[1], Kernel::compare));
    blocker.open();
    ok(weir_release(other, world.streams[1]));
    ok(weir_stream_synchronize(world.streams[1]));
    assert_true(waited);
    assert_int_equal(compare.wrong, 0);
    ok(weir_buffer_destroy(world.pool, buffer));
    ok(weir_stream_synchronize(world.streams[0]));
    trim(world);
    world.close();
  }
}

/// Where a copy starts, or what it passes, is lost after it was granted: what may not have come is not believed.
void lost_on_the_way(void **) {
  for (const uint32_t lost : {0U, 2U}) {
    World world =
        routed(around_a_corner, page_bytes, 40, WEIR_POOL_NO_BACKGROUND, InterposedHost::query);
    const uint64_t bytes = 3 * page_bytes;
    weir_buffer buffer = world.buffer(bytes, 0);
    world.fill(buffer, bytes, 1, 0);
    Blocker blocker;
    weir_lease lease = nullptr;
    interposed.transfers.store(&blocker);
    ok(world.acquire(buffer, WEIR_READ, &lease, nullptr, 1));
    reinterpret_cast<weir::pool::Pool *>(world.pool)
        ->engine()
        .lose_device(static_cast<uint8_t>(lost));
    blocker.open();
    interposed.transfers.store(nullptr);
    ok(weir_release(lease, world.streams[1]));
    ok(weir_stream_synchronize(world.streams[1]));
    validate(world);
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
    ok(weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info));
    assert_int_equal(info.lost_bytes, lost == 0 ? bytes : 0);
    if (lost == 0) {
      expect_result(WEIR_ERROR_DATA_LOST, world.acquire(buffer, WEIR_READ, &lease, nullptr, 1));
    } else {
      world.check(buffer, bytes, 1, 0);
      world.check(buffer, bytes, 1, 1);
    }
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

std::atomic<int> marks{0};  ///< until a fence fails

weir_result one_fence_less(const char *entry) {
  return std::strcmp(entry, "fence_record") == 0 && marks.fetch_sub(1) == 1 ? WEIR_ERROR_BACKEND
                                                                            : WEIR_SUCCESS;
}

/// Whichever mark fails: the copies enqueued so far have ended before the failure is told.
void a_failure_waits_for_what_was_enqueued(void **) {
  for (const std::string &options : {around_a_corner, apart}) {
    for (int n = 1;; ++n) {
      World world = routed(options, page_bytes, 40, WEIR_POOL_NO_BACKGROUND, InterposedHost::query);
      weir_buffer buffer = world.buffer(3 * page_bytes, 0);
      world.fill(buffer, 3 * page_bytes, 1, 0);
      Blocker blocker;
      weir_lease lease = nullptr;
      marks = n;
      interposed.transfers.store(&blocker);
      interposed.interpose.store(one_fence_less);
      bool early = false;
      weir_result result = WEIR_SUCCESS;
      {
        Task task([&] { return world.acquire(buffer, WEIR_READ, &lease, nullptr, 1); });
        early = !stays([&task] { return !task.ended(); });
        blocker.open();
        result = task.join();
      }
      interposed.interpose.store(nullptr);
      interposed.transfers.store(nullptr);
      const bool failed = marks <= 0 && result != WEIR_SUCCESS;
      if (failed) {
        assert_false(early);
        expect_result(WEIR_ERROR_BACKEND, result);
      } else {
        ok(result);
        ok(weir_release(lease, world.streams[1]));
      }
      world.check(buffer, 3 * page_bytes, 1, 1);
      ok(weir_buffer_destroy(world.pool, buffer));
      world.close();
      if (failed) continue;
      assert_true(n > 6);
      break;
    }
  }
}

/// Threads move buffers of their own between all devices while the one in between is trimmed.
void many_at_once(void **) {
  for (const std::string &options : {around_a_corner, apart}) {
    World world = routed(options, page_bytes, 64, 0);
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> wrong{0}, failed{0};
    const auto mover = [&](uint32_t number) {
      weir_stream streams[3] = {};
      for (uint32_t d = 0; d < 3; ++d)
        if (weir_stream_create(world.context, d, 0, &streams[d]) != WEIR_SUCCESS) ++failed;
      weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
      desc.size = size;
      desc.home = 0;
      weir_buffer buffer = nullptr;
      if (weir_buffer_create(world.pool, &desc, &buffer) != WEIR_SUCCESS) ++failed;
      uint32_t seed = 0;
      for (uint32_t turn = 0; turn < 40; ++turn) {
        const uint32_t d = (turn * (number + 1)) % 3;
        weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
        weir_lease lease = nullptr;
        if (weir_acquire(world.pool, streams[d], &use, 1, nullptr, &lease) != WEIR_SUCCESS) {
          ++failed;
          continue;
        }
        Kernel compare{use.address, size, seed, 0}, write{use.address, size, ++seed, 0};
        if (turn != 0) (void)weir_stream_host_call(streams[d], Kernel::compare, &compare);
        (void)weir_stream_host_call(streams[d], Kernel::write, &write);
        (void)weir_release(lease, streams[d]);
        (void)weir_stream_synchronize(streams[d]);
        wrong += compare.wrong;
      }
      if (weir_buffer_destroy(world.pool, buffer) != WEIR_SUCCESS) ++failed;
      for (weir_stream stream : streams) (void)weir_stream_close(stream);
    };
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 3; ++i) threads.emplace_back(mover, i);
    std::thread trimmer([&] {
      while (!stop) {
        for (const weir_device device : {weir_device{2}, weir_device{WEIR_DEVICE_HOST}})
          (void)weir_pool_trim(world.pool, device, WEIR_TRIM_EMERGENCY, page_bytes, nullptr);
        std::this_thread::yield();
      }
    });
    for (std::thread &thread : threads) thread.join();
    stop = true;
    trimmer.join();
    assert_int_equal(wrong.load(), 0);
    assert_int_equal(failed.load(), 0);
    validate(world);
    world.close();
  }
}

}  // namespace

int main() {
  if (!Target::get().host()) return 77;  // only the host backend is told what its links are like
  const CMUnitTest tests[] = {
      cmocka_unit_test(around_the_corner),
      cmocka_unit_test(through_the_host),
      cmocka_unit_test(several_ways_at_once),
      cmocka_unit_test(zeroed_before_it_is_shared),
      cmocka_unit_test(split_in_parts),
      cmocka_unit_test(all_shapes),
      cmocka_unit_test(without_vmm),
      cmocka_unit_test(a_relay_beats_a_copy_in_host),
      cmocka_unit_test(what_passes_makes_room),
      cmocka_unit_test(a_place_is_written_after_what_is_taken_from_it),
      cmocka_unit_test(idle_slots_go_back),
      cmocka_unit_test(a_writer_on_the_source_comes_first),
      cmocka_unit_test(lost_on_the_way),
      cmocka_unit_test(a_failure_waits_for_what_was_enqueued),
      cmocka_unit_test(many_at_once),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

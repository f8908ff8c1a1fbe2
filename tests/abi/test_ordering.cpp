// SPDX-License-Identifier: Apache-2.0
//
// Order between streams: what is enqueued under a lease runs after everything on the same bytes that it must come
// after, and only after that. A kernel at the head of one stream waits for the test, so its work is surely unfinished
// when the second use is granted. What must wait is then looked at a number of times: it must never be ready.

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

const uint64_t two_pages = 2 * page_bytes;

/// A kernel that stands at the head of a stream until the test opens it.
class Blocker {
 public:
  explicit Blocker(weir_stream stream) { ok(weir_stream_host_call(stream, &Blocker::stand, this)); }
  void open() {
    std::lock_guard hold(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool passed() const { return passed_.load(); }

 private:
  static void stand(void *user) {
    auto *self = static_cast<Blocker *>(user);
    std::unique_lock hold(self->mutex_);
    self->changed_.wait(hold, [self] { return self->open_; });
    self->passed_.store(true);
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::atomic<bool> passed_{false};
};

/// One use of one buffer.
struct Use {
  uint32_t mode;
  bool whole;
  bool writes() const { return mode != WEIR_READ; }
};
constexpr Use all_uses[] = {{WEIR_READ, true},
                            {WEIR_READ_WRITE, true},
                            {WEIR_DISCARD_WRITE, true},
                            {WEIR_READ, false},
                            {WEIR_READ_WRITE, false}};

struct Running {
  Kernel kernel;
  weir_lease lease = nullptr;
};

/// Acquires and enqueues. A use that is not whole covers everything but the last byte, so it counts by its range; that
/// byte is therefore not looked at.
weir_result begin(World &world, weir_stream stream, weir_buffer buffer, uint64_t size, Use use,
                  uint32_t seed, Running *running) {
  weir_use one{buffer, 0, use.whole ? WEIR_WHOLE : size - 1, use.mode, 0, 0, {0, 0, 0}};
  const weir_result result = weir_acquire(world.pool, stream, &one, 1, nullptr, &running->lease);
  if (result != WEIR_SUCCESS) return result;
  running->kernel = Kernel{one.address, use.writes() && use.whole ? size : size - 1, seed, 0};
  return running->kernel.launch(stream, use.writes() ? Kernel::write : Kernel::compare);
}

/// Two further streams beside the world's own.
struct Streams {
  weir_stream a = nullptr, b = nullptr, c = nullptr;
  explicit Streams(World &world) : a(world.streams[0]) {
    ok(weir_stream_create(world.context, 0, 0, &b));
    ok(weir_stream_create(world.context, 0, 0, &c));
  }
  void close() {
    ok(weir_stream_close(b));
    ok(weir_stream_close(c));
  }
};

/// What a kernel must see, or leaves behind, given that seed 1 was there before and writers write `own`.
uint32_t seed_for(Use use, uint32_t before, uint32_t own) { return use.writes() ? own : before; }

/// Every use after every other one, on buffers of pages and on tenants of slabs. `between`: the first stream has
/// read the whole buffer since, which must hide nothing of what it did before.
void pairs(bool between) {
  for (const uint64_t size : {two_pages, uint64_t{600}}) {
    for (const Use first : all_uses) {
      for (const Use second : all_uses) {
        World world;
        Streams streams(world);
        weir_buffer buffer = world.buffer(size);
        world.fill(buffer, size, 1);
        world.check(buffer, size, 1);  // everything is in place, and the hit path is open
        Blocker blocker(streams.a);
        Running one;
        Running two;
        ok(begin(world, streams.a, buffer, size, first, seed_for(first, 1, 2), &one));
        ok(weir_release(one.lease, streams.a));
        if (between) {
          weir_lease lease = nullptr;
          ok(world.acquire(buffer, WEIR_READ, &lease));
          ok(weir_release(lease, streams.a));
        }
        const uint32_t left = seed_for(first, 1, 2);
        ok(begin(world, streams.b, buffer, size, second, seed_for(second, left, 3), &two));
        ok(weir_release(two.lease, streams.b));
        const bool ordered = first.writes() || second.writes();
        const bool as_said = !ordered || never_ready(streams.b);  // readers may wait or not
        blocker.open();
        ok(weir_stream_synchronize(streams.b));
        ok(weir_stream_synchronize(streams.a));
        if (!as_said || one.kernel.wrong + two.kernel.wrong != 0) {
          fail_msg("size %llu: mode %u (whole %d), then mode %u (whole %d): %llu and %llu wrong",
                   static_cast<unsigned long long>(size), first.mode, first.whole, second.mode,
                   second.whole, static_cast<unsigned long long>(one.kernel.wrong),
                   static_cast<unsigned long long>(two.kernel.wrong));
        }
        ok(weir_buffer_destroy(world.pool, buffer));
        streams.close();
        world.close();
      }
    }
  }
}

void uses_on_two_streams_are_ordered(void **) { pairs(false); }
void a_later_read_hides_no_earlier_write(void **) { pairs(true); }

/// Readers on two streams, at a time or one after the other, the first or the second still running: a writer comes
/// after both.
void readers_then_a_writer(bool slow_first, bool together) {
  World world;
  Streams streams(world);
  weir_buffer buffer = world.buffer(two_pages);
  world.fill(buffer, two_pages, 1);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  uint64_t address = 0;
  ok(weir_hold(world.pool, buffer, 0, &address));  // in place, and used by no stream yet
  ok(weir_unhold(world.pool, buffer));
  Blocker blocker(slow_first ? streams.a : streams.b);
  Running one;
  Running two;
  Running writer;
  ok(begin(world, streams.a, buffer, two_pages, all_uses[0], 1, &one));
  if (!together) ok(weir_release(one.lease, streams.a));
  ok(begin(world, streams.b, buffer, two_pages, all_uses[0], 1, &two));
  if (together) ok(weir_release(one.lease, streams.a));
  ok(weir_release(two.lease, streams.b));
  ok(begin(world, streams.c, buffer, two_pages, all_uses[1], 2, &writer));
  ok(weir_release(writer.lease, streams.c));
  const bool waited = never_ready(streams.c);
  blocker.open();
  for (weir_stream stream : {streams.a, streams.b, streams.c}) ok(weir_stream_synchronize(stream));
  assert_true(waited);
  assert_int_equal(one.kernel.wrong + two.kernel.wrong, 0);
  world.check(buffer, two_pages, 2);
  streams.close();
  world.close();
}

void a_writer_comes_after_every_reader(void **) {
  for (const bool slow_first : {false, true}) {
    for (const bool together : {false, true}) readers_then_a_writer(slow_first, together);
  }
}

/// What a call from the host must come after: it returns only when the kernel before it has run.
template <typename Call>
void host_call_waits(Use first, uint64_t size, Call call) {
  World world;
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  world.check(buffer, size, 1);
  Blocker blocker(world.streams[0]);
  Running running;
  ok(begin(world, world.streams[0], buffer, size, first, seed_for(first, 1, 2), &running));
  ok(weir_release(running.lease, world.streams[0]));
  std::atomic<bool> ended{false};
  bool after = false;
  weir_result result = WEIR_NOT_READY;
  std::thread caller([&] {
    result = call(world, buffer);
    after = blocker.passed();
    ended.store(true);
  });
  (void)stays([&ended] { return !ended.load(); });
  blocker.open();
  caller.join();
  ok(result);
  assert_true(after);
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(running.kernel.wrong, 0);
  world.close();
}

void reads_and_writes_from_the_host_wait(void **) {
  for (const uint64_t size : {two_pages, uint64_t{600}}) {
    for (const Use first : all_uses) {
      static uint8_t *const bytes = aligned_memory(two_pages);
      if (first.writes()) {
        host_call_waits(first, size, [size](World &world, weir_buffer buffer) {
          const weir_result result = weir_buffer_read(world.pool, buffer, 0, size - 1, bytes);
          uint64_t wrong = 0;
          for (uint64_t i = 0; i < size - 1; ++i) wrong += bytes[i] != pattern(2, i);
          return wrong == 0 ? result : WEIR_ERROR_INTERNAL;
        });
        host_call_waits(first, size, [](World &world, weir_buffer buffer) {
          uint64_t address = 0;
          const weir_result result = weir_hold(world.pool, buffer, 0, &address);
          if (result == WEIR_SUCCESS) return weir_unhold(world.pool, buffer);
          return result;
        });
      }
      host_call_waits(first, size, [size](World &world, weir_buffer buffer) {
        std::memset(bytes, 9, two_pages);
        return weir_buffer_write(world.pool, buffer, 0, size, bytes);
      });
    }
  }
}

/// A tenant moves to pages of its own when the CPU leases it: not before its readers are done, for its place is
/// somebody else's then.
void a_tenant_leaves_after_its_readers(void **) {
  host_call_waits(all_uses[0], 600, [](World &world, weir_buffer buffer) {
    weir_stream cpu = nullptr;
    weir_result result = weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu);
    if (result != WEIR_SUCCESS) return result;
    weir_use use = WEIR_USE(buffer, WEIR_READ);
    weir_lease lease = nullptr;
    result = weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease);
    if (result == WEIR_SUCCESS) result = weir_release(lease, cpu);
    const weir_result closed = weir_stream_close(cpu);
    return result == WEIR_SUCCESS ? closed : result;
  });
}

/// Destruction waits for nobody, and what comes after in the same place waits for what is still running there.
void a_new_buffer_inherits_unfinished_work(void **) {
  for (const char *vmm : {"", ";host.vmm=0"}) {
    for (const uint64_t size : {two_pages, uint64_t{600}}) {
      for (const Use first : all_uses) {
        World world({.options = std::string(small_host) + vmm, .device_pages = 4});
        Streams streams(world);
        weir_buffer old = world.buffer(size);
        weir_buffer neighbour = world.buffer(600);
        world.fill(neighbour, 600, 7);
        world.fill(old, size, 1);
        Blocker blocker(streams.a);
        Running one;
        Running two;
        ok(begin(world, streams.a, old, size, first, seed_for(first, 1, 2), &one));
        ok(weir_release(one.lease, streams.a));
        ok(weir_buffer_destroy(world.pool, old));
        weir_buffer fresh = world.buffer(size);
        ok(begin(world, streams.b, fresh, size, all_uses[2], 3, &two));
        const bool same = two.kernel.address == one.kernel.address;
        ok(weir_release(two.lease, streams.b));
        const bool waited = !same || never_ready(streams.b);
        blocker.open();
        ok(weir_stream_synchronize(streams.a));
        ok(weir_stream_synchronize(streams.b));
        assert_true(same);  // taken over as it is
        assert_true(waited);
        assert_int_equal(one.kernel.wrong, 0);
        world.check(fresh, size, 3);
        world.check(neighbour, 600, 7);
        streams.close();
        world.close();
      }
    }
  }
}

/// Defragmentation waits for nobody: the copy comes after the last use of what moves and of what was in its new place, and
/// the next use after the copy.
void move_between_uses(bool of_the_dead) {
  for (const char *vmm : {"", ";host.vmm=0"}) {
    for (const Use first : all_uses) {
      World world({.options = std::string(small_host) + vmm, .device_pages = 16});
      Streams streams(world);
      const size_t in_slab = vmm[0] == '\0' ? 32 : 8;
      const uint64_t size = page_bytes / 8;
      std::vector<weir_buffer> all;
      for (uint32_t i = 0; i < 2 * in_slab; ++i) {
        all.push_back(world.buffer(size));
        world.fill(all[i], size, 100 + i);
      }
      for (size_t i = in_slab; i + 1 < all.size(); ++i) ok(weir_buffer_destroy(world.pool, all[i]));
      weir_buffer mover = all.back();  // alone in its slab, and so are the pages that it leaves
      world.fill(mover, size, 1);
      Running one;
      Running dead;
      Running two;
      const auto use_one = [&](weir_stream stream) {
        ok(begin(world, stream, mover, size, first, seed_for(first, 1, 2), &one));
        ok(weir_release(one.lease, stream));
      };
      const auto use_dead = [&](weir_stream stream) {
        ok(begin(world, stream, all[3], size, all_uses[2], 9, &dead));
        ok(weir_release(dead.lease, stream));
      };
      // One of them is done before the other is held back: a host function that waits may keep all others from running.
      of_the_dead ? use_one(streams.c) : use_dead(streams.c);
      ok(weir_stream_synchronize(streams.c));
      Blocker blocker(streams.a);
      of_the_dead ? use_dead(streams.a) : use_one(streams.a);
      ok(weir_buffer_destroy(world.pool, all[3]));
      weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
      desc.max_moves = 1;
      weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
      ok(weir_pool_defragment(world.pool, &desc, &report));
      assert_int_equal(report.copy_moves, 1);
      assert_false(blocker.passed());
      ok(begin(world, streams.b, mover, size, all_uses[0], seed_for(first, 1, 2), &two));
      if (first.writes() && !first.whole) two.kernel.bytes = size - 1;
      assert_int_not_equal(two.kernel.address, one.kernel.address);
      ok(weir_release(two.lease, streams.b));
      const bool waited = never_ready(streams.b);
      blocker.open();
      ok(weir_stream_synchronize(streams.a));
      ok(weir_stream_synchronize(streams.b));
      assert_true(waited);
      assert_int_equal(one.kernel.wrong + two.kernel.wrong, 0);
      for (uint32_t i = 0; i < in_slab; ++i) {
        if (i != 3) world.check(all[i], size, 100 + i);
      }
      streams.close();
      world.close();
    }
  }
}

void a_move_comes_between_two_uses(void **) { move_between_uses(false); }
void a_move_comes_after_the_dead(void **) { move_between_uses(true); }

/// weir_free after the work enqueued so far: the next owner of the memory comes after it.
void freed_memory_is_ordered_by_its_stream(void **) {
  World world({.device_pages = 2});
  Streams streams(world);
  uint64_t first = 0;
  uint64_t second = 0;
  ok(weir_malloc(world.pool, 0, streams.a, two_pages, &first));
  Blocker blocker(streams.a);
  Kernel one{first, two_pages, 1, 0};
  ok(one.launch(streams.a, Kernel::write));
  ok(one.launch(streams.a, Kernel::compare));
  ok(weir_free(world.pool, streams.a, first));
  ok(weir_malloc(world.pool, 0, streams.b, two_pages, &second));
  Kernel two{second, two_pages, 2, 0};
  ok(two.launch(streams.b, Kernel::write));
  const bool waited = never_ready(streams.b);
  blocker.open();
  ok(two.launch(streams.b, Kernel::compare));
  ok(weir_stream_synchronize(streams.a));
  ok(weir_stream_synchronize(streams.b));
  assert_true(waited || first != second);
  assert_int_equal(one.wrong + two.wrong, 0);
  ok(weir_free(world.pool, nullptr, second));
  streams.close();
  world.close();
}

/// More work on a stream than fences are kept for: the early points are stood for by later ones.
void many_releases_on_a_blocked_stream(void **) {
  World world;
  Streams streams(world);
  weir_buffer buffer = world.buffer(two_pages);
  weir_buffer others[3];
  for (weir_buffer &other : others) other = world.buffer(page_bytes);
  world.fill(buffer, two_pages, 1);
  Blocker blocker(streams.a);
  Running one;
  Running two;
  ok(begin(world, streams.a, buffer, two_pages, all_uses[1], 2, &one));
  ok(weir_release(one.lease, streams.a));
  for (uint32_t i = 0; i < 400; ++i) {
    weir_lease lease = nullptr;
    ok(world.acquire(others[i % 3], WEIR_READ, &lease));
    ok(weir_release(lease, streams.a));
  }
  ok(begin(world, streams.b, buffer, two_pages, all_uses[0], 2, &two));
  ok(weir_release(two.lease, streams.b));
  const bool waited = never_ready(streams.b);
  blocker.open();
  ok(weir_stream_synchronize(streams.b));
  ok(weir_stream_synchronize(streams.a));
  assert_true(waited);
  assert_int_equal(two.kernel.wrong, 0);
  streams.close();
  world.close();
}

/// "Buffers still alive die with it; it waits for work in flight on them."
void a_pools_end_waits_for_its_work(void **) {
  World world;
  weir_buffer buffer = world.buffer(two_pages);
  world.fill(buffer, two_pages, 1);
  Blocker blocker(world.streams[0]);
  Running running;
  ok(begin(world, world.streams[0], buffer, two_pages, all_uses[1], 2, &running));
  ok(weir_release(running.lease, world.streams[0]));
  std::atomic<bool> ended{false};
  bool after = false;
  weir_result result = WEIR_NOT_READY;
  std::thread destroyer([&] {
    result = weir_pool_destroy(world.pool);
    after = blocker.passed();
    ended.store(true);
  });
  (void)stays([&ended] { return !ended.load(); });
  blocker.open();
  destroyer.join();
  ok(result);
  assert_true(after);
  ok(weir_stream_close(world.streams[0]));
  ok(weir_context_destroy(world.context));
}

/// An eviction waits for the work of released leases, and gives up after the bound the pool was made with.
void an_eviction_waits_for_running_work(void **) {
  World world({.device_pages = 2, .host_pages = 8});
  Streams streams(world);
  weir_buffer busy = world.buffer(two_pages);
  weir_buffer next = world.buffer(two_pages);
  world.fill(busy, two_pages, 1);
  Blocker blocker(streams.a);
  Running running;
  ok(begin(world, streams.a, busy, two_pages, all_uses[1], 2, &running));
  ok(weir_release(running.lease, streams.a));
  std::atomic<bool> ended{false};
  bool after = false;
  weir_result result = WEIR_NOT_READY;
  std::thread other([&] {
    weir_use use = WEIR_USE(next, WEIR_DISCARD_WRITE);
    weir_lease lease = nullptr;
    result = weir_acquire(world.pool, streams.b, &use, 1, nullptr, &lease);
    after = blocker.passed();
    ended.store(true);
    if (result == WEIR_SUCCESS) result = weir_release(lease, streams.b);
  });
  (void)stays([&ended] { return !ended.load(); });
  blocker.open();
  other.join();
  ok(result);
  assert_true(after);
  ok(weir_stream_synchronize(streams.a));
  world.check_read(busy, two_pages, 2);
  streams.close();
  world.close();
}

/// A part of a buffer moves to a granule that has just been taken for another one, and is to be wiped for it as soon as a
/// kernel has ended: not before.
void a_remap_comes_after_a_wipe(void **) {
  World world({.device_pages = 48});
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  ok(weir_device_info_get(world.context, 0, &info));
  if ((info.capabilities & WEIR_CAP_VMM) == 0 || (info.capabilities & WEIR_CAP_MULTI_MAP) == 0) {
    world.close();
    skip();
  }
  const auto aligned = [&](uint64_t size) {  // begins with a page, so that its end alone is shared
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = size;
    desc.alignment = page_bytes;
    weir_buffer made = nullptr;
    ok(weir_buffer_create(world.pool, &desc, &made));
    return made;
  };
  const uint64_t half = page_bytes + page_bytes / 2;
  const uint64_t quarter = page_bytes + page_bytes / 4;
  weir_buffer first = aligned(half);
  weir_buffer second = world.buffer(half);  // begins where the first one ends
  weir_buffer alone = aligned(quarter);
  world.fill(first, half, 1);
  world.fill(second, half, 2);
  world.fill(alone, quarter, 3);
  ok(weir_buffer_destroy(world.pool, first));
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  world.check(alone, quarter, 3);  // it is back, and has its granule to itself
  weir_stream slow = nullptr;
  ok(weir_stream_create(world.context, 0, 0, &slow));
  Blocker blocker(slow);
  // A small buffer's place is zeroed for the next one only when the kernel on it has ended, and with it comes the rest.
  (void)world.buffer(600);  // so that their slab lives on
  weir_buffer small = world.buffer(600);
  Running running;
  ok(begin(world, slow, small, 600, {WEIR_DISCARD_WRITE, true}, 4, &running));
  ok(weir_release(running.lease, slow));
  ok(weir_buffer_destroy(world.pool, small));
  small = world.buffer(600);
  weir_use uses[2] = {WEIR_USE(small, WEIR_READ), WEIR_USE(second, WEIR_READ)};
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease));
  assert_int_equal(uses[0].address, running.kernel.address);
  ok(weir_release(lease, world.streams[0]));
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  ok(weir_pool_defragment(world.pool, &desc, &report));
  assert_false(blocker.passed());
  assert_int_equal(report.remap_moves, 0);
  blocker.open();
  ok(weir_stream_synchronize(slow));
  world.check(second, half, 2);
  world.check(alone, quarter, 3);
  desc.flags = WEIR_DEFRAGMENT_WAIT;
  ok(weir_pool_defragment(world.pool, &desc, &report));
  assert_int_equal(report.remap_moves, 1);
  world.check(second, half, 2);
  world.check(alone, quarter, 3);
  ok(weir_stream_close(slow));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(uses_on_two_streams_are_ordered),
      cmocka_unit_test(a_later_read_hides_no_earlier_write),
      cmocka_unit_test(a_writer_comes_after_every_reader),
      cmocka_unit_test(reads_and_writes_from_the_host_wait),
      cmocka_unit_test(a_tenant_leaves_after_its_readers),
      cmocka_unit_test(a_remap_comes_after_a_wipe),
      cmocka_unit_test(a_new_buffer_inherits_unfinished_work),
      cmocka_unit_test(a_move_comes_between_two_uses),
      cmocka_unit_test(a_move_comes_after_the_dead),
      cmocka_unit_test(freed_memory_is_ordered_by_its_stream),
      cmocka_unit_test(many_releases_on_a_blocked_stream),
      cmocka_unit_test(a_pools_end_waits_for_its_work),
      cmocka_unit_test(an_eviction_waits_for_running_work),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

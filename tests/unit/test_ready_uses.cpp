// SPDX-License-Identifier: Apache-2.0
//
// Sets that lack nothing are granted without a plan, though the hit path can't: of ranges, of buffers away from home, of sharded
// buffers, of more buffers than the hit path takes. Seen by what they allocate: once such a lease has been had, another needs nothing.
// What conflicts is refused as ever, and leaves nothing leased; what another stream works on is waited for.

#include "tests/unit/neighbours.hpp"

namespace {

using namespace weir::test;

std::atomic<uint64_t> allocations{0};

void *allocate(void *, size_t size, size_t alignment) {
  ++allocations;
  void *memory = nullptr;
  return posix_memalign(&memory, std::max(alignment, sizeof(void *)), size) == 0 ? memory : nullptr;
}
void deallocate(void *, void *memory, size_t, size_t) { std::free(memory); }

constexpr uint32_t pages = 4;
const uint64_t size = pages * page_bytes;

/// Two devices that reach each other, and an allocator that counts.
struct Scene : World {
  Scene() : World(open(), nullptr) {
    for (uint32_t i = 0; i < 2; ++i) ok(weir_stream_create(context, i, 0, &streams[i]));
    const weir_pool_device devices[] = {with_pages(0, 160), with_pages(1, 160)};
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 2;
    desc.devices = devices;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = 64 * page_bytes;
    desc.page_size = desc.large_page_size = page_bytes;
    ok(weir_pool_create(context, &desc, &pool));
  }
  static weir_context open() {
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.flags = WEIR_CONTEXT_NO_SEARCH;
    desc.options = fast_peer;
    desc.allocator = {allocate, deallocate, nullptr, {}};
    weir_context made = nullptr;
    ok(weir_context_create(&desc, &made));
    return made;
  }
  weir_buffer sharded() {
    const weir_device both[] = {0, 1};
    weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
    shards.devices = both;
    shards.device_count = 2;
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = size;
    desc.shards = &shards;
    weir_buffer made = nullptr;
    ok(weir_buffer_create(pool, &desc, &made));
    return made;
  }
  weir_buffer written(uint32_t seed, weir_device home = 0) {
    const weir_buffer made = buffer(size, home);
    fill(made, size, seed);
    return made;
  }
  weir_result lease(std::vector<weir_use> uses, weir_lease *out, uint32_t device = 0,
                    std::vector<uint64_t> *addresses = nullptr) {
    const weir_result result =
        weir_acquire(pool, streams[device], uses.data(), uses.size(), nullptr, out);
    if (addresses != nullptr) {
      addresses->clear();
      for (const weir_use &use : uses) addresses->push_back(use.address);
    }
    return result;
  }
  void once(const std::vector<weir_use> &uses) {
    weir_lease out = nullptr;
    ok(lease(uses, &out));
    ok(weir_release(out, streams[0]));
  }
};

weir_use part(weir_buffer buffer, uint32_t mode, uint32_t first, uint32_t count) {
  weir_use use = WEIR_USE(buffer, mode);
  use.offset = first * page_bytes;
  use.length = count * page_bytes;
  return use;
}

/// A lease that has been had twice needs no memory the next time, in whatever mode.
void expect_no_allocation(Scene &scene, const char *what, std::vector<weir_use> uses) {
  for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
    for (weir_use &use : uses) use.mode = mode;
    for (int i = 0; i < 2; ++i) scene.once(uses);
    const weir_pool_stats before = scene.stats();
    const uint64_t allocated = allocations;
    for (int i = 0; i < 5; ++i) scene.once(uses);
    if (allocations != allocated)
      fail_msg("%s, mode %u: %llu allocations", what, mode,
               static_cast<unsigned long long>(allocations - allocated));
    const weir_pool_stats after = scene.stats();
    assert_int_equal(after.hits - before.hits, 5 * uses.size());
    assert_int_equal(after.misses, before.misses);
  }
}

void they_need_no_memory(void **) {
  Scene scene;
  const weir_buffer at_home = scene.written(1), away = scene.written(2, 1);
  const weir_buffer small = scene.buffer(page_bytes / 4);
  scene.fill(small, page_bytes / 4, 3);
  const weir_buffer shards = scene.sharded();
  scene.fill(shards, size, 4);
  weir_use of_small = WEIR_USE(small, 0);
  of_small.offset = 64;
  of_small.length = 128;
  expect_no_allocation(scene, "a range", {part(at_home, 0, 1, 2)});
  expect_no_allocation(scene, "two ranges", {part(at_home, 0, 0, 1), part(at_home, 0, 3, 1)});
  expect_no_allocation(scene, "a range of a small buffer", {of_small});
  expect_no_allocation(scene, "a buffer away from home", {WEIR_USE(away, 0)});
  expect_no_allocation(scene, "a range away from home", {part(away, 0, 2, 2)});
  expect_no_allocation(scene, "a sharded buffer", {WEIR_USE(shards, 0)});
  expect_no_allocation(scene, "a shard", {part(shards, 0, 0, 1)});
  std::vector<weir_use> many;
  for (uint32_t i = 0; i < 100; ++i) {
    const weir_buffer one = scene.buffer(page_bytes);
    scene.fill(one, page_bytes, i);
    many.push_back(WEIR_USE(one, 0));
  }
  expect_no_allocation(scene, "a hundred buffers", many);
  validate(scene);
  for (const weir_use &use : many) ok(weir_buffer_destroy(scene.pool, use.buffer));
  for (const weir_buffer each : {at_home, away, small, shards})
    ok(weir_buffer_destroy(scene.pool, each));
  scene.close();
}

/// The addresses are those of a lease that the hit path or a plan has granted.
void addresses_are_the_same(void **) {
  Scene scene;
  const weir_buffer at_home = scene.written(1), away = scene.written(2, 1);
  const weir_buffer shards = scene.sharded();
  scene.fill(shards, size, 4);
  for (const weir_buffer buffer : {at_home, away, shards}) {
    std::vector<uint64_t> whole, parts;
    weir_lease out = nullptr;
    ok(scene.lease({WEIR_USE(buffer, WEIR_READ)}, &out, 0, &whole));
    ok(weir_release(out, scene.streams[0]));
    ok(scene.lease({part(buffer, WEIR_READ, 3, 1), part(buffer, WEIR_READ, 0, 2)}, &out, 0,
                   &parts));
    assert_int_equal(parts[0], whole[0] + 3 * page_bytes);
    assert_int_equal(parts[1], whole[0]);
    ok(weir_release(out, scene.streams[0]));
    ok(weir_buffer_destroy(scene.pool, buffer));
  }
  scene.close();
}

/// What one set names twice is leased once, for writing if any of it is.
void a_set_may_overlap_itself(void **) {
  Scene scene;
  const weir_buffer buffer = scene.written(1);
  const std::vector<weir_use> sets[] = {
      {part(buffer, WEIR_READ, 0, 2), part(buffer, WEIR_READ, 1, 2)},
      {part(buffer, WEIR_READ, 0, 2), part(buffer, WEIR_READ_WRITE, 1, 2)},
      {part(buffer, WEIR_READ_WRITE, 1, 2), part(buffer, WEIR_READ_WRITE, 1, 2)},
      {WEIR_USE(buffer, WEIR_READ), part(buffer, WEIR_READ_WRITE, 1, 1)}};
  for (const auto &set : sets) {
    for (int i = 0; i < 3; ++i) {
      weir_lease out = nullptr, other = nullptr;
      ok(scene.lease(set, &out));
      const bool writes = set.back().mode != WEIR_READ;
      expect_result(WEIR_ERROR_LEASE_CONFLICT,
                    scene.lease({part(buffer, WEIR_READ_WRITE, 1, 1)}, &other));
      if (writes)
        expect_result(WEIR_ERROR_LEASE_CONFLICT,
                      scene.lease({part(buffer, WEIR_READ, 1, 1)}, &other));
      ok(weir_release(out, scene.streams[0]));
      validate(scene);
    }
  }
  ok(weir_buffer_destroy(scene.pool, buffer));
  scene.close();
}

/// A set of which the last use conflicts leaves nothing of the others.
void a_refused_set_leaves_nothing(void **) {
  Scene scene;
  const weir_buffer first = scene.written(1), second = scene.written(2, 1);
  weir_lease held = nullptr, out = nullptr;
  ok(scene.lease({part(second, WEIR_READ_WRITE, 3, 1)}, &held));
  for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE}) {
    expect_result(
        WEIR_ERROR_LEASE_CONFLICT,
        scene.lease({part(first, mode, 0, 2), part(second, mode, 0, 1), part(second, mode, 2, 2)},
                    &out));
    validate(scene);
    ok(scene.lease({part(first, WEIR_READ_WRITE, 0, 4), part(second, WEIR_READ_WRITE, 0, 3)},
                   &out));
    ok(weir_release(out, scene.streams[0]));
  }
  ok(weir_release(held, scene.streams[0]));
  for (const weir_buffer each : {first, second}) ok(weir_buffer_destroy(scene.pool, each));
  scene.close();
}

/// The first stream's work comes after what stands there, and only after that.
void expect_to_wait(Scene &scene, Blocker *work) {
  assert_true(never_ready(scene.streams[0]));
  work->open();
  ok(weir_stream_synchronize(scene.streams[0]));
}

/// What another stream is writing is waited for, and nothing else of the buffer.
void another_streams_work_comes_first(void **) {
  Scene scene;
  const weir_buffer buffer = scene.written(1);
  weir_stream other = nullptr;
  ok(weir_stream_create(scene.context, 0, 0, &other));
  // Both streams have used both ranges.
  for (const weir_stream stream : {scene.streams[0], other}) {
    weir_use uses[] = {part(buffer, WEIR_READ, 0, 1), part(buffer, WEIR_READ, 2, 1)};
    weir_lease out = nullptr;
    ok(weir_acquire(scene.pool, stream, uses, 2, nullptr, &out));
    ok(weir_release(out, stream));
    ok(weir_stream_synchronize(stream));
  }
  Blocker work;
  weir_use use = part(buffer, WEIR_READ_WRITE, 0, 1);
  weir_lease out = nullptr;
  ok(weir_acquire(scene.pool, other, &use, 1, nullptr, &out));
  ok(weir_stream_host_call(other, Blocker::stand, &work));
  ok(weir_release(out, other));
  // Free of it: its stream ends while the other's stands.
  scene.once({part(buffer, WEIR_READ_WRITE, 2, 1)});
  ok(weir_stream_synchronize(scene.streams[0]));
  // After it.
  scene.once({part(buffer, WEIR_READ, 0, 1)});
  expect_to_wait(scene, &work);
  ok(weir_stream_synchronize(other));
  ok(weir_buffer_destroy(scene.pool, buffer));
  ok(weir_stream_close(other));
  scene.close();
}

/// Between the look and the count another stream writes on the hit path, which takes no lock: its work comes first all the same.
void a_hit_in_between_comes_first(void **) {
  for (const bool whole : {false, true}) {
    Scene scene;
    const weir_buffer buffer = scene.written(1);
    weir_stream other = nullptr;
    ok(weir_stream_create(scene.context, 0, 0, &other));
    Blocker work;
    // At home, but a set of 65 is none for the hit path.
    std::vector<weir_use> uses;
    if (whole) {
      uses.push_back(WEIR_USE(buffer, WEIR_READ_WRITE));
      for (int i = 0; i < 64; ++i) {
        const weir_buffer more = scene.buffer(page_bytes);
        scene.fill(more, page_bytes, 1);
        uses.push_back(WEIR_USE(more, WEIR_READ));
      }
    } else {
      uses.push_back(part(buffer, WEIR_READ, 0, 1));
    }
    scene.once(uses);
    scene.once({WEIR_USE(buffer, WEIR_READ_WRITE)});
    ok(weir_stream_synchronize(scene.streams[0]));
    // Its stamp is the other stream's, and has passed.
    for (int i = 0; i < 2; ++i) {
      weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
      weir_lease out = nullptr;
      ok(weir_acquire(scene.pool, other, &use, 1, nullptr, &out));
      ok(weir_release(out, other));
      ok(weir_stream_synchronize(other));
    }
    weir_lease late = nullptr;
    {
      Gate gate(scene.pool, "acquire.ready");
      Task task([&] { return scene.lease(uses, &late); });
      gate.await();
      weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
      weir_lease out = nullptr;
      ok(weir_acquire(scene.pool, other, &use, 1, nullptr,
                      &out));  // by the hit path: the lock is held
      ok(weir_stream_host_call(other, Blocker::stand, &work));
      ok(weir_release(out, other));
      gate.open();
      ok(task.join());
    }
    ok(weir_release(late, scene.streams[0]));
    expect_to_wait(scene, &work);
    ok(weir_stream_synchronize(other));
    validate(scene);
    for (const weir_use &use : uses)
      if (use.buffer != buffer) ok(weir_buffer_destroy(scene.pool, use.buffer));
    ok(weir_buffer_destroy(scene.pool, buffer));
    ok(weir_stream_close(other));
    scene.close();
  }
}

/// A set that names one buffer very often is a plan's, which makes one lease of it.
void the_same_many_times(void **) {
  Scene scene;
  const weir_buffer buffer = scene.written(1);
  for (const weir_use &use : {WEIR_USE(buffer, WEIR_READ), part(buffer, WEIR_READ, 1, 2)}) {
    const std::vector<weir_use> many(65535, use);
    weir_lease out = nullptr, beside = nullptr;
    for (int i = 0; i < 2; ++i) {
      ok(scene.lease(many, &out));
      weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
      ok(weir_buffer_info_get(scene.pool, buffer, 0, WEIR_WHOLE, &info));
      assert_int_equal(info.leases, 1);
      ok(scene.lease({use}, &beside));
      ok(weir_release(beside, scene.streams[0]));
      ok(weir_release(out, scene.streams[0]));
    }
  }
  ok(weir_buffer_destroy(scene.pool, buffer));
  scene.close();
}

}  // namespace

int main() {
  if (!Target::get().host()) return 77;  // links and the allocator are the host backend's
  const CMUnitTest tests[] = {
      cmocka_unit_test(they_need_no_memory),
      cmocka_unit_test(addresses_are_the_same),
      cmocka_unit_test(a_set_may_overlap_itself),
      cmocka_unit_test(a_refused_set_leaves_nothing),
      cmocka_unit_test(another_streams_work_comes_first),
      cmocka_unit_test(a_hit_in_between_comes_first),
      cmocka_unit_test(the_same_many_times),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

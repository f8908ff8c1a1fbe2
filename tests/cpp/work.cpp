// SPDX-License-Identifier: Apache-2.0
//
// The work of weir.hpp: options, runs, leases and their spans, errors, lists, memory. Compiled in both modes.
#include <cstddef>
#include <memory_resource>
#include <string>

#include "tests/cpp/cpp_fixture.hpp"

#include <unistd.h>

namespace weir::test {
namespace {

template <class C>
bool same(const C &a, const C &b) {
  return std::memcmp(&a, &b, sizeof(C)) == 0;
}

/// Defaults are those of C's macros, and struct_size is C's.
void options_default_to_what_c_has(void **) {
  const weir_context_desc context = WEIR_CONTEXT_DESC_INIT;
  const weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  const weir_client_desc client = WEIR_CLIENT_DESC_INIT;
  const weir_buffer_desc buffer = WEIR_BUFFER_DESC_INIT;
  const weir_acquire_options acquire = WEIR_ACQUIRE_OPTIONS_INIT;
  const weir_defragment_desc once = WEIR_DEFRAGMENT_DESC_INIT;
  const weir_defragmentation_desc always = WEIR_DEFRAGMENTATION_DESC_INIT;
  const weir_calibrate_desc calibrate = WEIR_CALIBRATE_DESC_INIT;
  const weir_trace_desc trace = WEIR_TRACE_DESC_INIT;
  const weir_pool_desc pool = WEIR_POOL_DESC_INIT;
  assert_true(same(*c_struct<context_desc>({}).get(), context));
  assert_true(same(*c_struct<pool_desc>({}).get(), pool));
  assert_true(same<weir_pool_device>(pool_device(), device));
  assert_true(same<weir_client_desc>(client_desc(), client));
  assert_true(same(*c_struct<buffer_desc>({}).get(), buffer));
  assert_true(same<weir_acquire_options>(acquire_options(), acquire));
  assert_true(same<weir_defragment_desc>(defragment_desc(), once));
  assert_true(same<weir_defragmentation_desc>(defragmentation_desc(), always));
  assert_true(same<weir_calibrate_desc>(calibrate_desc(), calibrate));
  assert_true(same<weir_trace_desc>(trace_desc(), trace));
}

/// Every field arrives, none in another's place: each is a number of its own.
void options_arrive_where_they_belong(void **) {
  pool_desc pool;
  pool.devices.resize(2);
  pool.devices[1].device = 5, pool.devices[1].budget = 6;
  pool.flags = 1, pool.host_budget = 2, pool.compressed_budget = 3, pool.storage_budget = 4;
  pool.storage_paths = {"a", "b", "c"};
  pool.page_size = 7, pool.large_page_size = 8;
  pool.watermark_low_permille = 9, pool.watermark_high_permille = 10;
  pool.evict_wait_ns = 11, pool.policy = "p", pool.name = "n", pool.codec = "c";
  pool.compress_threads = 12, pool.compress_share_percent = 13;
  pool.idle_grace_ns = 14, pool.segment_size = 15, pool.recompress_idle_ns = 16;
  pool.rebalance_bytes_per_second = 17, pool.record_budget = 18;
  pool.policy_memory = 19, pool.policy_cpu_percent = 20;
  const c_struct<pool_desc> c(pool);
  const weir_pool_desc &got = *c.get();
  assert_int_equal(got.device_count, 2);
  assert_int_equal(got.devices[1].device, 5);
  assert_int_equal(got.devices[1].budget, 6);
  assert_true(got.flags == 1 && got.host_budget == 2 && got.compressed_budget == 3);
  assert_true(got.storage_budget == 4 && got.storage_path_count == 3);
  assert_string_equal(got.storage_paths[2], "c");
  assert_true(got.page_size == 7 && got.large_page_size == 8 && got.evict_wait_ns == 11);
  assert_true(got.watermark_low_permille == 9 && got.watermark_high_permille == 10);
  assert_true(got.policy == pool.policy && got.name == pool.name && got.codec == pool.codec);
  assert_true(got.compress_threads == 12 && got.compress_share_percent == 13);
  assert_true(got.idle_grace_ns == 14 && got.segment_size == 15 && got.recompress_idle_ns == 16);
  assert_true(got.rebalance_bytes_per_second == 17 && got.record_budget == 18);
  assert_true(got.policy_memory == 19 && got.policy_cpu_percent == 20);

  buffer_desc buffer;
  buffer.size = 1, buffer.flags = 2, buffer.alignment = 4, buffer.priority = 1, buffer.home = 5;
  buffer.element = 6, buffer.tag = 7, buffer.users = {8, 9};
  buffer.name = "b";
  buffer.shards.emplace();
  buffer.shards->policy = WEIR_SHARD_BLOCKED, buffer.shards->devices = {1, 2};
  buffer.shards->stripe = 10;
  const c_struct<buffer_desc> b(buffer);
  assert_true(b.get()->size == 1 && b.get()->flags == 2 && b.get()->alignment == 4);
  assert_true(b.get()->priority == 1 && b.get()->home == 5 && b.get()->element == 6);
  assert_true(b.get()->name == buffer.name);
  assert_true(b.get()->tag == 7 && b.get()->user_count == 2 && b.get()->users[1] == 9);
  assert_true(b.get()->shards->struct_size == sizeof(weir_shard_desc));
  assert_true(b.get()->shards->device_count == 2 && b.get()->shards->devices[1] == 2);
  assert_true(b.get()->shards->policy == WEIR_SHARD_BLOCKED && b.get()->shards->stripe == 10);
  assert_null(b.get()->shards->weights);
  buffer.shards->weights = {3, 4};
  buffer.shards->weights.pop_back();  // one for two devices: nothing is read behind it
  assert_int_equal(c_struct<buffer_desc>(buffer).get()->shards->weights[1], 0);

  context_desc context = small_context();
  context.backend_paths = {"x"};
  const c_struct<context_desc> paths(context);
  assert_string_equal(paths.get()->backend_paths[0], "x");
  assert_null(paths.get()->backend_paths[1]);
}

void kernels_run_on_more_than_the_device_holds(void **) {
  World world(4);
  std::vector<weir::buffer> buffers;
  for (int i = 0; i < 16; ++i) buffers.push_back(world.buffer(page));
  for (uint32_t i = 0; i < 16; ++i) {
    OK(world.pool.prefetch(world.stream, discard_write(buffers[i])));
    OK(world.pool.run(world.stream, {discard_write(buffers[i])}, [&](const lease &held) {
      const auto numbers = TAKE(held.span<uint32_t>(0));
      OK(world.stream.host_call([numbers, i] {
        for (uint32_t &number : numbers) number = i;
      }));
    }));
  }
  size_t right = 0;
  for (uint32_t i = 0; i < 16; ++i) {
    OK(world.pool.announce(world.stream, {{"check", {read(buffers[i])}}}, WEIR_ANNOUNCE_REPLACE));
    OK(world.pool.run(world.stream, read(buffers[i]), [&](const lease &held) {
      const auto numbers = TAKE(held.span<const uint32_t>(0));
      OK(world.stream.host_call([numbers, i, &right] {
        for (const uint32_t &number : numbers) right += number == i ? 1 : 0;
      }));
    }));
  }
  OK(world.stream.synchronize());
  assert_true(TAKE(world.stream.query()));
  assert_int_equal(right, 16 * page / 4);
  assert_true(TAKE(world.pool.stats()).demoted_bytes > 0);
  for (const weir::buffer &buffer : buffers) assert_int_equal(world.leases(buffer), 0);
}

/// A name's number is taken by acquires and announcements of its pool, and another is refused.
void operations_have_numbers(void **) {
  World world;
  const weir::buffer one = world.buffer(page);
  const uint32_t id = TAKE(world.pool.operation_id("check"));
  assert_int_equal(id, 1);
  assert_int_equal(TAKE(world.pool.operation_id("check")), id);
  weir::acquire_options options;
  for (uint32_t given = id; given <= id + 1; ++given) {
    options.operation_id = given;
    const auto lease = world.pool.try_acquire(world.stream, discard_write(one), options);
    assert_int_equal(lease.code(), given == id ? WEIR_SUCCESS : WEIR_ERROR_INVALID_ARGUMENT);
  }
  OK(world.pool.announce(world.stream, {{nullptr, {read(one)}, id}}, WEIR_ANNOUNCE_REPLACE));
  OK(world.pool.announce(world.stream, {}, WEIR_ANNOUNCE_REPLACE));
}

/// A function object in a stream is destroyed once it has run, and at once where it can't be enqueued.
void a_host_call_destroys_its_function(void **) {
  World world;
  const auto counted = std::make_shared<int>(0);
  OK(world.stream.host_call([counted] { ++*counted; }));
  OK(world.stream.synchronize());
  assert_int_equal(*counted, 1);
  assert_int_equal(counted.use_count(), 1);
  weir::stream none;
  FAILS(WEIR_ERROR_INVALID_HANDLE, none.host_call([counted] { ++*counted; }));
  assert_int_equal(counted.use_count(), 1);
}

struct Wide {
  alignas(512) unsigned char bytes[512];
};

void a_span_is_checked(void **) {
  World world;
  weir::buffer buffer = world.buffer(1002);
  {
    weir::lease held = TAKE(world.pool.acquire(
        world.stream, {read(buffer, 0, 1000), read(buffer, 4, 8), read(buffer, 2)}));
    assert_int_equal(held.size(), 3);
    assert_int_equal(TAKE(held.span<const uint64_t>(0)).size(), 125);
    assert_int_equal(TAKE(held.span<const uint32_t>(1)).size(), 2);
    assert_int_equal(held.bytes(2), 1000);
    assert_true(held.address(1) == held.address(0) + 4);
    assert_true(TAKE(held.span<const char>(2)).data() ==
                reinterpret_cast<const char *>(held.address(0)) + 2);
    FAILS(WEIR_ERROR_INVALID_ARGUMENT, held.span<const char>(3));      // no such use
    FAILS(WEIR_ERROR_INVALID_ARGUMENT, held.span<char>(0));            // only reads
    FAILS(WEIR_ERROR_INVALID_ARGUMENT, held.span<const uint64_t>(1));  // at 4
    FAILS(WEIR_ERROR_INVALID_ARGUMENT, held.span<const char[7]>(0));   // 1000 is no multiple
    FAILS(WEIR_ERROR_INVALID_ARGUMENT, held.span<const Wide>(0));
  }
  OK(world.pool.run(world.stream, read_write(buffer), [](const lease &held) {
    assert_int_equal(TAKE(held.span<char>(0)).size(), 1002);
  }));
}

/// Beyond what a lease and a call have in place, memory is taken for the uses.
void a_lease_has_as_many_uses_as_one_likes(void **) {
  World world;
  weir::buffer buffer = world.buffer();
  assert_int_equal(read(buffer).allow_remote().c().flags, WEIR_USE_ALLOW_REMOTE);
  assert_int_equal(read(buffer).c().flags, 0);
  for (const size_t count : {1U, 4U, 5U, 8U, 9U, 100U}) {
    std::vector<use> uses;
    for (uint64_t i = 0; i < count; ++i) uses.push_back(read(buffer, i, 1).allow_remote());
    weir::lease held = TAKE(world.pool.acquire(world.stream, uses));
    weir::lease other = std::move(held);
    assert_int_equal(held.size(), 0);
    assert_int_equal(other.size(), count);
    for (size_t i = 0; i < count; ++i) {
      assert_true(other.address(i) == other.address(0) + i);
      assert_int_equal(other.bytes(i), 1);
    }
  }
  assert_int_equal(world.leases(buffer), 0);
}

void run_releases_and_hands_on(void **) {
  World world;
  weir::buffer buffer = world.buffer();
  const int seven = TAKE(world.pool.run(world.stream, read(buffer), [&](const lease &) {
    assert_int_equal(world.leases(buffer), 1);
    return 7;
  }));
  assert_int_equal(seven, 7);
  assert_int_equal(world.leases(buffer), 0);
  bool called = false;
  weir::buffer large = world.buffer(9 * page);
  FAILS(WEIR_ERROR_OVER_BUDGET,
        world.pool.run(world.stream, read(large), [&](const lease &) { called = true; }));
  assert_false(called);
#if WEIR_CPP_EXCEPTIONS
  // Whatever it throws comes out, after the release.
  int caught = 0;
  try {
    world.pool.run(world.stream, read(buffer), [](const lease &) -> int { throw 3; });
  } catch (int what) {
    caught = what;
  }
  assert_int_equal(caught, 3);
#else
  // A result of the function's own is the run's.
  const result<int> inner = world.pool.run(
      world.stream, read(buffer),
      [](const lease &) -> result<int> { return error(WEIR_ERROR_IO, "of the function"); });
  assert_int_equal(inner.code(), WEIR_ERROR_IO);
  assert_string_equal(inner.error().what(), "of the function");
  const result<void> nothing =
      world.pool.run(world.stream, read(buffer), [](const lease &) -> result<void> { return {}; });
  assert_true(nothing.has_value());
#endif
  assert_int_equal(world.leases(buffer), 0);
  OK(world.pool.run(world.stream, read_write(buffer), [](const lease &) {}));
}

void an_error_is_a_copy_with_its_numbers(void **) {
  World world;
  weir::buffer large = world.buffer(9 * page);
  weir::buffer buffer = world.buffer();
  const result<lease> none = world.pool.try_acquire(world.stream, {read(buffer), read(large)});
  assert_false(none.has_value());
  assert_int_equal(none.code(), WEIR_ERROR_OVER_BUDGET);
  const std::string said = none.error().what();
  assert_true(said.size() > 10);
  // The library says something else by now.
  assert_int_equal(weir_stream_query(nullptr), WEIR_ERROR_INVALID_HANDLE);
  assert_true(said == none.error().what());
  assert_int_equal(none.error().info().result, WEIR_ERROR_OVER_BUDGET);
  assert_true(none.error().info().asked >= 9 * page);
  assert_int_equal(none.error().info().struct_size, sizeof(weir_error_info));

  weir::lease writer = TAKE(world.pool.acquire(world.stream, read_write(buffer)));
  FAILS(WEIR_ERROR_LEASE_CONFLICT, world.pool.acquire(world.stream, read(buffer)));
  acquire_options wait;
  wait.timeout_ns = 1;
  weir::buffer other = world.buffer(8 * page);
  assert_int_equal(world.pool.try_acquire(world.stream, read(other)).code(),
                   WEIR_ERROR_WOULD_BLOCK);
  assert_int_equal(world.pool.try_acquire(world.stream, read(other), wait).code(),
                   WEIR_ERROR_TIMEOUT);
  OK(writer.release(world.stream));
  assert_true(world.pool.try_acquire(world.stream, read(other)).has_value());
  FAILS(WEIR_ERROR_INVALID_ARGUMENT, world.pool.acquire(world.stream, read(other, 1 << 30)));
}

/// A pool that learns has it saved and loaded; one that does not says so.
void what_was_learned_is_saved_and_loaded(void **) {
  World world;
  FAILS(WEIR_ERROR_NOT_SUPPORTED, world.pool.policy_save());
  weir::context_desc machine = small_context();
  machine.options = "host.memory=80M;host.granule=16K;host.granule_large=0";
  const weir::context context = TAKE(weir::context::create(machine));
  weir::pool_desc desc;
  desc.devices.push_back({0, uint64_t{64} << 20});
  desc.host_budget = uint64_t{1} << 20;
  desc.policy = "auto";
  const weir::pool pool = TAKE(weir::pool::create(context, desc));
  const std::vector<unsigned char> learned = TAKE(pool.policy_save());
  assert_true(learned.size() > 8 && learned[0] == 'W');
  OK(pool.policy_load(learned.data(), learned.size()));
  FAILS(WEIR_ERROR_CORRUPT, pool.policy_load(learned.data(), learned.size() - 1));
  FAILS(WEIR_ERROR_NOT_SUPPORTED, world.pool.policy_load(learned.data(), learned.size()));
}

void lists_and_texts_come_whole(void **) {
  World world;
  std::vector<weir::buffer> buffers;
  for (int i = 0; i < 50; ++i) buffers.push_back(world.buffer());
  const std::string snapshot = TAKE(world.pool.snapshot());
  assert_true(snapshot.size() > 1000);
  assert_true(snapshot.front() == '{' && snapshot.find('\0') == std::string::npos);
  assert_true(snapshot.find_last_of('}') >= snapshot.size() - 2);
  const std::vector<char> source(page, 1);
  for (const weir::buffer &buffer : buffers) OK(buffer.write(0, source));
  const std::vector<piece> map = TAKE(world.pool.map());
  assert_true(map.size() >= buffers.size());
  for (const piece &one : map) assert_true(one.tier != WEIR_TIER_NONE && one.bytes != 0);
  assert_int_equal(TAKE(world.pool.lost_ranges()).size(), 0);
  const std::vector<shard> shards = TAKE(buffers[0].shards());
  assert_int_equal(shards.size(), 1);
  assert_int_equal(shards[0].length, page);
  const std::string tree = TAKE(world.context.topology_export(WEIR_TOPOLOGY_TEXT));
  assert_true(tree.size() > 10 && tree.find('\0') == std::string::npos);
  const weir::device_info info = TAKE(world.context.device_info(0));
  assert_true(info.memory_total >= 16 << 20);
  assert_int_equal(TAKE(world.context.device_count()), 1);
  assert_int_equal(TAKE(world.context.backend_info(0)).available, 1);
  assert_int_equal(TAKE(world.context.link_info(0, 0)).kind, WEIR_LINK_SAME);
  FAILS(WEIR_ERROR_INVALID_ARGUMENT, world.context.device_info(9));
  assert_int_equal(TAKE(world.context.device("cuda:7,host")), 0);
  FAILS(WEIR_ERROR_INVALID_ARGUMENT, world.context.device("host:9"));
  assert_int_equal(TAKE(world.pool.stats()).buffers, 50);
  assert_int_equal(TAKE(world.pool.device_stats()).page_size, page);
  static_cast<void>(TAKE(world.pool.trim(0, WEIR_TRIM_EMERGENCY)));
  static_cast<void>(TAKE(world.pool.defragment()));
}

void a_trace_stops_when_it_goes(void **) {
  World world;
  const std::string folder = std::string(P_tmpdir) + "/weir-cpp-trace-" + std::to_string(getpid());
  const auto path = [&folder](const char *name) { return folder + name; };
  const std::string first = path("-1.json"), second = path("-2.json"), third = path("-3.json");
  trace_desc desc;
  desc.path = first.c_str();
  {
    const weir::trace trace = TAKE(world.context.start_trace(desc));
    assert_true(static_cast<bool>(trace));
    desc.path = second.c_str();
    FAILS(WEIR_ERROR_BUSY, world.context.start_trace(desc));
  }
  weir::trace trace = TAKE(world.context.start_trace(desc));
  weir::trace moved = std::move(trace);
  assert_true(!trace && moved);
  OK(moved.stop());
  assert_false(static_cast<bool>(moved));
  FAILS(WEIR_ERROR_INVALID_HANDLE, moved.stop());
  desc.path = third.c_str();
  moved = TAKE(world.context.start_trace(desc));
  moved = weir::trace();
  assert_int_equal(weir_trace_stop(world.context.get(), WEIR_TRACE_TIMELINE),
                   WEIR_ERROR_INVALID_ARGUMENT);
  for (const std::string &file : {first, second, third}) assert_int_equal(unlink(file.c_str()), 0);
}

void metrics_come_whole(void **) {
  World world;
  const weir::buffer buffer = world.buffer();
  const std::string text = TAKE(world.context.metrics_text());
  assert_true(text.find("# TYPE weir_buffers gauge\nweir_buffers{pool=\"") != std::string::npos);
  assert_true(text.find('\0') == std::string::npos && text.back() == '\n');
}

void a_client_is_charged(void **) {
  World world;
  client_desc desc;
  desc.name = "charged", desc.device_quota = page;
  weir::client client = TAKE(weir::client::create(world.pool, desc));
  weir::buffer buffer = TAKE(weir::buffer::create(world.pool, client, of_size(2 * page)));
  assert_int_equal(TAKE(client.stats()).buffers, 1);
  FAILS(WEIR_ERROR_OVER_BUDGET, world.pool.acquire(world.stream, read(buffer)));
}

void containers_live_in_host_leases(void **) {
  World world;
  weir::stream cpu = TAKE(weir::stream::create(world.context, WEIR_DEVICE_HOST));
  {
    host_resource memory(world.pool, cpu);
    std::pmr::vector<uint64_t> numbers(&memory);
    for (uint64_t i = 0; i < 20000; ++i) numbers.push_back(i);
    for (uint64_t i = 0; i < 20000; ++i) assert_int_equal(numbers[i], i);
    assert_true(TAKE(world.pool.stats()).host_used_bytes >= 20000 * 8);
    std::pmr::monotonic_buffer_resource chunks(4096, &memory);
    std::pmr::vector<std::pmr::string> words(&chunks);
    for (int i = 0; i < 100; ++i) words.emplace_back("a word that is longer than a few letters");
    assert_true(words.back() == words.front());
    // Beside each other, so that none begins with a page by chance; more than a page's too.
    std::vector<void *> aligned;
    const size_t alignments[] = {1, 8, 64, 256, 512, 4096, 16384, 65536};
    for (const size_t alignment : alignments) {
      aligned.push_back(memory.allocate(100, alignment));
      assert_int_equal(reinterpret_cast<uintptr_t>(aligned.back()) % alignment, 0);
      std::memset(aligned.back(), 0xaa, 100);
    }
    for (size_t i = aligned.size(); i-- > 0;) memory.deallocate(aligned[i], 100, alignments[i]);
    assert_true(memory.is_equal(memory));
    FAILS(WEIR_ERROR_BUSY, world.pool.destroy());
    // More than there is, then all that was forgotten goes with the resource.
    static_cast<void>(memory.allocate(100));
#if WEIR_CPP_EXCEPTIONS
    bool refused = false;
    try {
      static_cast<void>(memory.allocate(1 << 30));
    } catch (const std::bad_alloc &why) {
      refused = std::strlen(why.what()) > 20;
    }
    assert_true(refused);
    host_resource wrong(world.pool, world.stream);
    try {
      static_cast<void>(wrong.allocate(1));
    } catch (const bad_alloc &why) {
      refused = why.error().code() == WEIR_ERROR_INVALID_ARGUMENT;
    }
    assert_true(refused);
#endif
  }
  assert_int_equal(TAKE(world.pool.stats()).buffers, 0);
}

void device_memory_is_taken_and_freed_in_order(void **) {
  World world;
  const device_allocator allocator(world.pool, world.stream);
  assert_true(allocator == device_allocator(world.pool, world.stream, 0));
  {
    weir::allocation first = TAKE(allocator.allocate(page));
    assert_true(first.address() != 0 && first.size() == page);
    assert_int_equal(first.span<uint32_t>().size(), page / 4);
    assert_true(TAKE(world.pool.stats()).device_held_bytes >= page);
    FAILS(WEIR_ERROR_OVER_BUDGET, allocator.allocate(9 * page));
    const uint64_t raw = TAKE(allocator.allocate(256)).detach();
    assert_int_equal(weir_free(world.pool.get(), world.stream.get(), raw), WEIR_SUCCESS);
  }
  OK(world.stream.synchronize());
  OK(world.pool.destroy());
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(options_default_to_what_c_has),
      cmocka_unit_test(options_arrive_where_they_belong),
      cmocka_unit_test(kernels_run_on_more_than_the_device_holds),
      cmocka_unit_test(operations_have_numbers),
      cmocka_unit_test(a_host_call_destroys_its_function),
      cmocka_unit_test(a_span_is_checked),
      cmocka_unit_test(a_lease_has_as_many_uses_as_one_likes),
      cmocka_unit_test(run_releases_and_hands_on),
      cmocka_unit_test(an_error_is_a_copy_with_its_numbers),
      cmocka_unit_test(what_was_learned_is_saved_and_loaded),
      cmocka_unit_test(lists_and_texts_come_whole),
      cmocka_unit_test(a_trace_stops_when_it_goes),
      cmocka_unit_test(metrics_come_whole),
      cmocka_unit_test(a_client_is_charged),
      cmocka_unit_test(containers_live_in_host_leases),
      cmocka_unit_test(device_memory_is_taken_and_freed_in_order),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
//
// weir_operation_id: the same number for the same name of a pool, and what is refused; where numbers are taken (acquire, acquire_async,
// announce), and that a call with one that the pool has not given does nothing; what names beyond the last number count as; their memory,
// and having none.
#include "tests/abi/pool_fixture.hpp"

#include <atomic>

namespace {

using namespace weir::test;

uint32_t id_of(weir_pool pool, const std::string &name) {
  uint32_t id = 0;
  ok(weir_operation_id(pool, name.c_str(), &id));
  return id;
}

weir_pool_stats stats_of(weir_pool pool) {
  weir_pool_stats stats = WEIR_POOL_STATS_INIT;
  ok(weir_pool_stats_get(pool, &stats));
  return stats;
}

void expect_message(const char *words) {
  if (std::strstr(weir_last_error(), words) == nullptr)
    fail_msg("no \"%s\" in: %s", words, weir_last_error());
}

weir_pool another_pool(weir_context context) {
  const weir_pool_device device{0, 0, 4 * page_bytes, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 4 * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  return pool;
}

void a_name_has_one_number_in_a_pool(void **) {
  World world;
  const weir_pool other = another_pool(world.context);
  assert_int_equal(id_of(world.pool, "attention"), 1);
  assert_int_equal(id_of(world.pool, "feed forward"), 2);
  assert_int_equal(id_of(world.pool, "attention"), 1);
  assert_int_equal(id_of(other, "feed forward"), 1);
  assert_int_equal(stats_of(world.pool).shared_operation_ids, 0);
  ok(weir_pool_destroy(other));
  world.close();
}

void names_that_are_none_are_refused(void **) {
  World world;
  uint32_t id = 4242;
  const auto refused = [&](weir_result result, const char *words) {
    assert_int_equal(result, WEIR_ERROR_INVALID_ARGUMENT);
    expect_message(words);
    assert_int_equal(id, 4242);
  };
  refused(weir_operation_id(world.pool, nullptr, &id), "name is NULL");
  refused(weir_operation_id(world.pool, "", &id), "name is empty");
  refused(weir_operation_id(world.pool, "name", nullptr), "id is NULL");
  const std::string longest(1023, 'n');
  refused(weir_operation_id(world.pool, (longest + "n").c_str(), &id), "1024");
  assert_int_equal(id_of(world.pool, longest), 1);
  id = 4242;
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_operation_id(nullptr, "name", &id));
  assert_int_equal(id, 4242);
  world.close();
}

/// A hit, a miss and a set of two: wherever the acquire ends, the number is checked before anything is done.
void an_acquire_takes_numbers_of_its_pool_alone(void **) {
  World world;
  weir_buffer buffer = world.buffer(page_bytes);
  weir_buffer fresh = world.buffer(page_bytes);
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_DISCARD_WRITE, &lease));
  ok(weir_release(lease, world.streams[0]));
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  const auto acquire = [&](weir_use *uses, size_t count) {
    lease = nullptr;
    return weir_acquire(world.pool, world.streams[0], uses, count, &options, &lease);
  };
  weir_use uses[2] = {WEIR_USE(buffer, WEIR_READ), WEIR_USE(fresh, WEIR_READ)};
  const weir_pool_stats before = stats_of(world.pool);
  for (const uint32_t unknown : {1U, 2U, 65537U, UINT32_MAX}) {
    options.operation_id = unknown;
    options.operation = "not looked at";
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, acquire(uses, 1));
    expect_message(std::to_string(unknown).c_str());
    expect_message("operation_id");
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, acquire(uses + 1, 1));
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, acquire(uses, 2));
  }
  const weir_pool_stats after = stats_of(world.pool);
  assert_int_equal(after.hits + after.misses, before.hits + before.misses);
  assert_int_equal(after.bookkeeping_bytes, before.bookkeeping_bytes);
  options.operation_id = id_of(world.pool, "step");
  assert_int_equal(options.operation_id, 1);
  for (const size_t count : {1, 2}) {
    ok(acquire(uses, count));
    ok(weir_release(lease, world.streams[0]));
  }
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_buffer_destroy(world.pool, fresh));
  world.close();
}

/// A name in an acquire is one as good as from weir_operation_id, and one that can't be one is no reason to refuse.
void an_acquire_looks_a_name_up(void **) {
  World world;
  weir_buffer buffer = world.buffer(page_bytes);
  const auto use_as = [&](const char *name, uint32_t id) {
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    options.operation = name;
    options.operation_id = id;
    weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], &use, 1, &options, &lease));
    ok(weir_release(lease, world.streams[0]));
  };
  use_as("", 0);
  use_as(std::string(1024, 'n').c_str(), 0);
  use_as("first", 0);
  assert_int_equal(id_of(world.pool, "second"), 2);
  assert_int_equal(id_of(world.pool, "first"), 1);
  use_as("not looked at", 2);
  assert_int_equal(id_of(world.pool, "third"), 3);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void an_asynchronous_acquire_takes_a_number(void **) {
  World world;
  weir_buffer buffer = world.buffer(page_bytes);
  weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  weir_request request = nullptr;
  static weir_lease granted;
  granted = nullptr;
  const weir_acquire_callback take = [](void *, weir_result, weir_lease lease) { granted = lease; };
  const auto acquire = [&] {
    return weir_acquire_async(world.pool, world.streams[0], &use, 1, &options, take, nullptr,
                              &request);
  };
  options.operation_id = 1;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, acquire());
  expect_message("operation_id is 1");
  options.operation_id = id_of(world.pool, "later");
  ok(acquire());
  weir_result result = WEIR_NOT_READY;
  ok(weir_request_wait(request, &result));
  ok(result);
  weir_request_close(request);
  ok(weir_release(granted, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void an_announcement_takes_numbers_of_its_pool_alone(void **) {
  World world;
  weir_buffer buffer = world.buffer(page_bytes);
  const weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_operation operations[2] = {WEIR_OPERATION_INIT, WEIR_OPERATION_INIT};
  for (weir_operation &operation : operations) {
    operation.uses = &use;
    operation.use_count = 1;
  }
  const auto announce = [&] {
    return weir_announce(world.pool, world.streams[0], operations, 2, WEIR_ANNOUNCE_REPLACE);
  };
  const uint32_t known = id_of(world.pool, "step");
  const uint64_t wide = (uint64_t{1} << 32U) + known;
  for (const uint64_t unknown : {uint64_t{2}, wide, UINT64_MAX}) {
    operations[1].operation_id = unknown;
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, announce());
    expect_message(("operations[1].operation_id is " + std::to_string(unknown)).c_str());
  }
  operations[0].operation_id = operations[1].operation_id = known;
  ok(announce());
  ok(weir_announce(world.pool, world.streams[0], nullptr, 0, WEIR_ANNOUNCE_REPLACE));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void names_beyond_the_last_number_are_counted(void **) {
  World world;
  constexpr uint32_t most = 65536;
  const uint64_t before = stats_of(world.pool).bookkeeping_bytes;
  for (uint32_t i = 1; i <= most; ++i)
    assert_int_equal(id_of(world.pool, "model.layers.forward." + std::to_string(i)), i);
  const weir_pool_stats full = stats_of(world.pool);
  assert_int_equal(full.shared_operation_ids, 0);
  assert_true(full.bookkeeping_bytes - before > most * uint64_t{22});
  const uint32_t shared = id_of(world.pool, "one more");
  assert_true(shared > most);
  assert_int_equal(id_of(world.pool, "and another"), shared);
  const weir_pool_stats over = stats_of(world.pool);
  assert_int_equal(over.shared_operation_ids, 2);
  assert_int_equal(over.bookkeeping_bytes, full.bookkeeping_bytes);
  weir_buffer buffer = world.buffer(page_bytes);
  weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  options.operation_id = shared;
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], &use, 1, &options, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// The context's memory, which can be refused.
struct Memory {
  std::atomic<bool> none{false};
  std::atomic<int64_t> blocks{0};
  static void *allocate(void *user, size_t size, size_t alignment) {
    auto *self = static_cast<Memory *>(user);
    if (self->none.load()) return nullptr;
    ++self->blocks;
    const size_t unit = std::max(alignment, sizeof(void *));
    return std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
  }
  static void deallocate(void *user, void *memory, size_t, size_t) {
    --static_cast<Memory *>(user)->blocks;
    std::free(memory);
  }
};

void without_memory_a_name_gets_no_number(void **) {
  Memory memory;
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = small_host;
  desc.allocator.user = &memory;
  desc.allocator.allocate = Memory::allocate;
  desc.allocator.deallocate = Memory::deallocate;
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  const weir_pool pool = another_pool(context);
  assert_int_equal(id_of(pool, "first"), 1);
  const uint64_t before = stats_of(pool).bookkeeping_bytes;
  memory.none = true;
  uint32_t id = 4242;
  expect_result(WEIR_ERROR_OUT_OF_HOST_MEMORY, weir_operation_id(pool, "second", &id));
  assert_int_equal(id, 4242);
  assert_int_equal(stats_of(pool).bookkeeping_bytes, before);
  assert_int_equal(id_of(pool, "first"), 1);
  memory.none = false;
  assert_int_equal(id_of(pool, "second"), 2);
  ok(weir_pool_destroy(pool));
  ok(weir_context_destroy(context));
  assert_int_equal(memory.blocks.load(), 0);
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_name_has_one_number_in_a_pool),
      cmocka_unit_test(names_that_are_none_are_refused),
      cmocka_unit_test(an_acquire_takes_numbers_of_its_pool_alone),
      cmocka_unit_test(an_acquire_looks_a_name_up),
      cmocka_unit_test(an_asynchronous_acquire_takes_a_number),
      cmocka_unit_test(an_announcement_takes_numbers_of_its_pool_alone),
      cmocka_unit_test(names_beyond_the_last_number_are_counted),
      cmocka_unit_test(without_memory_a_name_gets_no_number),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

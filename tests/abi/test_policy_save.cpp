// SPDX-License-Identifier: Apache-2.0
//
// weir_pool_policy_save and weir_pool_policy_load: what is answered, what is refused, and that a refusal, a missing byte of memory included,
// leaves the pool as it was. What a program gains by it: tests/unit/test_warm_start.cpp; damage in every place: test_policy_blob.cpp.
#include "tests/abi/saved_policy.hpp"

#include <atomic>
#include <utility>

namespace {

using namespace weir::test;

constexpr uint64_t worth_learning = uint64_t{64} << 20;
constexpr uint64_t page = uint64_t{64} << 10;
constexpr uint64_t enough_records = uint64_t{128} << 20;

weir_pool pool_of(weir_context context, const char *policy = "auto", uint64_t flags = 0,
                  uint64_t budget = worth_learning, uint64_t page_size = page, uint32_t count = 1,
                  uint64_t record_budget = enough_records) {
  const weir_pool_device devices[] = {{0, 0, budget, {0, 0}}, {1, 0, budget, {0, 0}}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = count;
  desc.devices = devices;
  desc.flags = flags;
  desc.host_budget = uint64_t{4} << 20;
  desc.page_size = desc.large_page_size = page_size;
  desc.policy = policy;
  desc.record_budget = record_budget;
  desc.policy_cpu_percent = 100;  // so that all is learned, however slow the machine is
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  return pool;
}

/// A context and a stream of it.
struct Site {
  weir_context context = nullptr;
  weir_stream stream = nullptr;

  explicit Site(const weir_allocator *allocator = nullptr) {
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.flags = WEIR_CONTEXT_NO_SEARCH;
    desc.options = "host.devices=2;host.memory=80M;host.granule=16K;host.granule_large=0";
    if (allocator != nullptr) desc.allocator = *allocator;
    ok(weir_context_create(&desc, &context));
    ok(weir_stream_create(context, 0, 0, &stream));
  }
  void close() {
    ok(weir_stream_close(stream));
    ok(weir_context_destroy(context));
  }
};

weir_buffer buffer_of(weir_pool pool, uint64_t bytes, weir_device home = 0) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = bytes;
  desc.home = home;
  weir_buffer made = nullptr;
  ok(weir_buffer_create(pool, &desc, &made));
  return made;
}

weir_result use(weir_pool pool, weir_stream stream, weir_buffer buffer, uint32_t mode,
                const char *name) {
  weir_use use = WEIR_USE(buffer, mode);
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  options.flags = WEIR_ACQUIRE_SOLE_HOLDER;
  options.timeout_ns = WEIR_INFINITE;
  options.operation = name;
  weir_lease lease = nullptr;
  const weir_result result = weir_acquire(pool, stream, &use, 1, &options, &lease);
  return result == WEIR_SUCCESS ? weir_release(lease, stream) : result;
}

constexpr uint32_t round_operations = 24;

/// Buffers are made and written, then read and destroyed.
void run_round(weir_pool pool, weir_stream stream, weir_device home = 0) {
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < round_operations / 2; ++i) {
    buffers.push_back(buffer_of(pool, 2 * page, home));
    ok(use(pool, stream, buffers[i], WEIR_DISCARD_WRITE, ("up " + std::to_string(i)).c_str()));
  }
  for (uint32_t i = round_operations / 2; i-- > 0;) {
    ok(use(pool, stream, buffers[i], WEIR_READ, ("down " + std::to_string(i)).c_str()));
    ok(weir_buffer_destroy(pool, buffers[i]));
  }
  ok(weir_stream_synchronize(stream));
}

Bytes learned_blob(Site &site, int rounds = 2) {
  const weir_pool pool = pool_of(site.context);
  for (int round = 0; round < rounds; ++round) run_round(pool, site.stream);
  const Bytes bytes = saved_with(pool, static_cast<uint32_t>(rounds) * round_operations);
  ok(weir_pool_destroy(pool));
  return bytes;
}

weir_result load(weir_pool pool, const Bytes &bytes) {
  return weir_pool_policy_load(pool, bytes.data(), bytes.size());
}

void expect_message(const char *words) {
  if (std::strstr(weir_last_error(), words) == nullptr)
    fail_msg("no \"%s\" in: %s", words, weir_last_error());
}

void what_learns_nothing_says_why(void **) {
  Site site;
  const Bytes bytes = learned_blob(site);
  const struct {
    const char *policy;
    uint64_t flags, budget;
    const char *why;
    uint64_t record_budget = enough_records;
  } pools[] = {
      {"lru-window", 0, worth_learning, "\"auto\""},
      {"auto", WEIR_POOL_NO_BACKGROUND, worth_learning, "WEIR_POOL_NO_BACKGROUND"},
      {"auto", 0, worth_learning - page, "64 MiB"},
      {nullptr, 0, worth_learning - page, "\"auto\""},
      {nullptr, WEIR_POOL_NO_BACKGROUND, worth_learning, "\"auto\""},
      {nullptr, 0, worth_learning, "\"auto\"", enough_records - 1},
  };
  for (const auto &each : pools) {
    const weir_pool pool =
        pool_of(site.context, each.policy, each.flags, each.budget, page, 1, each.record_budget);
    uint64_t needed = 4242;
    expect_result(WEIR_ERROR_NOT_SUPPORTED, weir_pool_policy_save(pool, nullptr, 0, &needed));
    expect_message(each.why);
    assert_int_equal(needed, 4242);
    expect_result(WEIR_ERROR_NOT_SUPPORTED, load(pool, bytes));
    expect_message(each.why);
    ok(weir_pool_destroy(pool));
  }
  site.close();
}

/// Without a policy's name, in one large enough; the budgets of all devices count, as far as there is memory for them.
void a_pool_learns_by_itself(void **) {
  Site site;
  const struct {
    uint64_t budget;
    uint32_t count;
  } pools[] = {{worth_learning, 1}, {worth_learning / 2, 2}, {WEIR_UNLIMITED, 2}};
  for (const auto &each : pools) {
    const weir_pool pool = pool_of(site.context, nullptr, 0, each.budget, page, each.count);
    run_round(pool, site.stream);
    (void)saved_with(pool, round_operations);
    ok(weir_pool_destroy(pool));
  }
  site.close();
}

/// The name is the caller's, and is over when the pool is made; devices that come later have the same policy.
void a_policy_s_name_is_looked_at_once(void **) {
  for (const char *name : {"auto", "lru-window"}) {
    Site site;
    std::string text = name;
    const weir_pool pool = pool_of(site.context, text.c_str());
    text.assign(text.size(), '?');
    const weir_pool_device other{1, 0, worth_learning, {0, 0}};
    ok(weir_pool_add_device(pool, &other));
    ok(weir_pool_destroy(pool));
    site.close();
  }
}

void arguments_that_are_none_are_refused(void **) {
  Site site;
  const weir_pool pool = pool_of(site.context);
  unsigned char byte = 7;
  uint64_t needed = 0;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_policy_save(pool, &byte, 1, nullptr));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_policy_save(pool, nullptr, 1, &needed));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_policy_load(pool, nullptr, 0));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_pool_policy_save(nullptr, &byte, 1, &needed));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_pool_policy_load(nullptr, &byte, 1));
  expect_result(WEIR_ERROR_CORRUPT, weir_pool_policy_load(pool, &byte, 1));
  assert_int_equal(byte, 7);
  ok(weir_pool_destroy(pool));
  site.close();
}

void a_capacity_that_is_too_small_writes_nothing(void **) {
  Site site;
  const weir_pool pool = pool_of(site.context);
  run_round(pool, site.stream);
  const Bytes whole = saved_with(pool, round_operations);
  uint64_t needed = 0;
  ok(weir_pool_policy_save(pool, nullptr, 0, &needed));
  assert_int_equal(needed, whole.size());
  Bytes bytes(whole.size(), 0xC5);
  needed = 0;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_pool_policy_save(pool, bytes.data(), bytes.size() - 1, &needed));
  expect_message(std::to_string(whole.size()).c_str());
  assert_int_equal(needed, whole.size());
  assert_true(std::all_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b == 0xC5; }));
  bytes.resize(whole.size() + 10, 0xC5);
  ok(weir_pool_policy_save(pool, bytes.data(), bytes.size(), &needed));
  assert_memory_equal(bytes.data(), whole.data(), whole.size());
  assert_int_equal(bytes[whole.size()], 0xC5);
  ok(weir_pool_destroy(pool));
  site.close();
}

/// Names, sizes, order: another pool has all of it, and nothing of the contents.
void what_is_loaded_is_saved_again(void **) {
  Site site;
  const Bytes bytes = learned_blob(site);
  const std::string text(bytes.begin(), bytes.end());
  assert_true(text.find("down 11") != std::string::npos);
  const weir_pool pool = pool_of(site.context);
  uint32_t id = 0;
  ok(weir_operation_id(pool, "another", &id));  // so that the names have other numbers
  ok(load(pool, bytes));
  assert_true(saved(pool) == bytes);
  ok(load(pool, bytes));  // once more: in its place
  assert_true(saved(pool) == bytes);
  ok(weir_operation_id(pool, "up 0", &id));
  assert_in_range(id, 2, 1 + round_operations);
  ok(weir_pool_destroy(pool));
  site.close();
}

void a_pool_that_has_done_nothing_is_saved_and_loaded(void **) {
  Site site;
  const weir_pool pool = pool_of(site.context);
  const Bytes bytes = saved(pool);
  assert_int_equal(operations_in(bytes), 0);
  ok(load(pool, bytes));
  ok(weir_pool_destroy(pool));
  site.close();
}

void what_has_acquired_is_not_loaded_into(void **) {
  Site site;
  const Bytes bytes = learned_blob(site);
  const weir_pool pool = pool_of(site.context);
  weir_buffer buffer = buffer_of(pool, 2 * page);
  ok(load(pool, bytes));
  ok(use(pool, site.stream, buffer, WEIR_DISCARD_WRITE, "up 0"));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, load(pool, bytes));
  expect_message("acquire");
  assert_int_equal(operations_in(saved_with(pool, operations_in(bytes) + 1)),
                   operations_in(bytes) + 1);
  ok(weir_buffer_destroy(pool, buffer));
  ok(weir_pool_destroy(pool));
  site.close();
}

/// Each device has what the one of its place had learned, as far as there are both.
void devices_have_what_those_of_their_places_learned(void **) {
  Site site;
  weir_stream other = nullptr;
  ok(weir_stream_create(site.context, 1, 0, &other));
  const weir_pool two = pool_of(site.context, "auto", 0, worth_learning, page, 2);
  const weir_pool same = pool_of(site.context, "auto", 0, worth_learning, page, 2);
  const weir_pool one = pool_of(site.context);
  run_round(two, site.stream);
  run_round(two, other, 1);
  run_round(two, other, 1);
  (void)saved_with(two, round_operations);
  const Bytes bytes = saved_with(two, 2 * round_operations, 1);
  ok(load(same, bytes));
  assert_true(saved(same) == bytes);
  ok(load(one, bytes));
  assert_int_equal(operations_in(saved(one)), round_operations);
  assert_int_equal(operations_in(saved(one), 1), 0);
  ok(load(same, saved(one)));  // in the place of what the second had
  assert_true(saved(same) == saved(one));
  for (weir_pool pool : {two, same, one}) ok(weir_pool_destroy(pool));
  ok(weir_stream_close(other));
  site.close();
}

void pages_of_another_size_are_named(void **) {
  Site site;
  const Bytes bytes = learned_blob(site);
  const weir_pool pool = pool_of(site.context, "auto", 0, worth_learning, page / 2);
  expect_result(WEIR_ERROR_NOT_SUPPORTED, load(pool, bytes));
  expect_message("65536");
  ok(weir_pool_destroy(pool));
  site.close();
}

/// The pool is as it was, and takes what is whole.
void what_is_damaged_leaves_the_pool_as_it_was(void **) {
  Site site;
  const Bytes bytes = learned_blob(site);
  const weir_pool pool = pool_of(site.context);
  weir_buffer buffer = buffer_of(pool, 2 * page);
  const Bytes nothing = saved(pool);
  for (size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 200) {
    Bytes other = bytes;
    other[at] = static_cast<unsigned char>(other[at] ^ 0x10);
    const weir_result result = load(pool, other);
    assert_true(result == WEIR_ERROR_CORRUPT || result == WEIR_ERROR_NOT_SUPPORTED);
    expect_result(WEIR_ERROR_CORRUPT, weir_pool_policy_load(pool, bytes.data(), at));
  }
  assert_true(saved(pool) == nothing);
  uint32_t id = 0;
  ok(weir_operation_id(pool, "first", &id));
  assert_int_equal(id, 1);
  ok(load(pool, bytes));
  ok(use(pool, site.stream, buffer, WEIR_DISCARD_WRITE, "up 0"));
  ok(weir_buffer_destroy(pool, buffer));
  ok(weir_pool_destroy(pool));
  site.close();
}

/// Saves while another thread uses the pool: whatever was taken can be loaded.
void a_program_that_runs_is_saved(void **) {
  Site site;
  const weir_pool pool = pool_of(site.context), other = pool_of(site.context);
  std::atomic<bool> stop{false};
  std::thread program([&] {
    while (!stop.load()) run_round(pool, site.stream);
  });
  uint32_t most = 0;
  for (int times = 0; times < 20 || most == 0; ++times) {
    const Bytes bytes = saved(pool);
    ok(load(other, bytes));
    most = std::max(most, operations_in(bytes));
  }
  stop.store(true);
  program.join();
  ok(weir_pool_destroy(other));
  ok(weir_pool_destroy(pool));
  site.close();
}

/// Memory that refuses one thread's n-th allocation.
struct Memory {
  static inline thread_local uint64_t refused = 0;  ///< 0: none
  std::atomic<int64_t> blocks{0};
  static void *allocate(void *user, size_t size, size_t alignment) {
    if (refused != 0 && --refused == 0) return nullptr;
    ++static_cast<Memory *>(user)->blocks;
    const size_t unit = std::max(alignment, sizeof(void *));
    return std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
  }
  static void deallocate(void *user, void *memory, size_t, size_t) {
    --static_cast<Memory *>(user)->blocks;
    std::free(memory);
  }
};

/// Calls it with one allocation refused, the next one each time, until there are no more; returns how many there were.
template <class Call>
uint64_t refuse_each(Call call) {
  for (uint64_t position = 1;; ++position) {
    Memory::refused = position;
    const weir_result result = call();
    const bool refused = Memory::refused == 0;
    Memory::refused = 0;
    if (!refused) {
      assert_int_equal(result, WEIR_SUCCESS);
      return position - 1;
    }
    // A part of the plan that finds no memory is not there; nobody has to know.
    if (result != WEIR_SUCCESS) assert_int_equal(result, WEIR_ERROR_OUT_OF_HOST_MEMORY);
  }
}

void without_memory_nothing_is_changed(void **) {
  Memory memory;
  const weir_allocator allocator{Memory::allocate, Memory::deallocate, &memory, {}};
  Site site(&allocator);
  const Bytes bytes = learned_blob(site);
  const weir_pool pool = pool_of(site.context);
  weir_buffer buffer = buffer_of(pool, 2 * page);
  const Bytes nothing = saved(pool);
  const uint64_t loads = refuse_each([&] {
    const weir_result result = load(pool, bytes);
    const uint64_t left = std::exchange(Memory::refused, 0);
    if (result != WEIR_SUCCESS) assert_true(saved(pool) == nothing || saved(pool) == bytes);
    Memory::refused = left;
    return result;
  });
  assert_true(saved(pool) == bytes);
  Bytes again(bytes.size(), 0xC5);
  const uint64_t saves = refuse_each([&] {
    uint64_t needed = 0;
    const weir_result result = weir_pool_policy_save(pool, again.data(), again.size(), &needed);
    if (result != WEIR_SUCCESS) {
      assert_int_equal(again[0], 0xC5);
      assert_int_equal(needed, 0);
    }
    return result;
  });
  assert_true(again == bytes);
  print_message("%llu allocations of a load, %llu of a save\n",
                static_cast<unsigned long long>(loads), static_cast<unsigned long long>(saves));
  assert_true(loads > 20 && saves > 5);
  ok(weir_buffer_destroy(pool, buffer));
  ok(weir_pool_destroy(pool));
  site.close();
  assert_int_equal(memory.blocks.load(), 0);
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_learns_nothing_says_why),
      cmocka_unit_test(a_pool_learns_by_itself),
      cmocka_unit_test(a_policy_s_name_is_looked_at_once),
      cmocka_unit_test(arguments_that_are_none_are_refused),
      cmocka_unit_test(a_capacity_that_is_too_small_writes_nothing),
      cmocka_unit_test(what_is_loaded_is_saved_again),
      cmocka_unit_test(a_pool_that_has_done_nothing_is_saved_and_loaded),
      cmocka_unit_test(what_has_acquired_is_not_loaded_into),
      cmocka_unit_test(devices_have_what_those_of_their_places_learned),
      cmocka_unit_test(pages_of_another_size_are_named),
      cmocka_unit_test(what_is_damaged_leaves_the_pool_as_it_was),
      cmocka_unit_test(a_program_that_runs_is_saved),
      cmocka_unit_test(without_memory_nothing_is_changed),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

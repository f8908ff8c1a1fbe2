// SPDX-License-Identifier: Apache-2.0
//
// Numbers that can't be meant: sizes of pages that no pool works with, buffers whose records no machine has room for, budgets
// beyond the device's memory. Each is answered at once, with the figures, and leaves nothing behind; what can work does.

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t kib = 1024, mib = 1024 * kib, gib = 1024 * mib;

struct Lines {
  std::vector<std::string> warnings;
  static void take(void *user, int32_t level, const char *text) {
    if (level == WEIR_LOG_WARNING) static_cast<Lines *>(user)->warnings.emplace_back(text);
  }
  bool has(const std::string &text) const {
    return std::any_of(warnings.begin(), warnings.end(), [&](const std::string &line) {
      return line.find(text) != std::string::npos;
    });
  }
};

weir_context context_with(const char *options, Lines *lines) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = options;
  desc.log = Lines::take;
  desc.log_user = lines;
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  return context;
}

weir_pool_desc desc_for(const weir_pool_device *devices, uint32_t count = 1) {
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = count;
  desc.devices = devices;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 8 * mib;
  return desc;
}

bool says(const std::string &text) {
  const bool found = std::strstr(weir_last_error(), text.c_str()) != nullptr;
  if (!found) print_error("\"%s\" is not in \"%s\"\n", text.c_str(), weir_last_error());
  return found;
}

/// Buffers of all kinds keep their bytes, on the device and below it.
void use_pool(weir_context context, weir_pool pool) {
  World world(context, pool);
  ok(weir_stream_create(context, 0, 0, &world.streams[0]));
  for (const uint64_t bytes : {700 * kib, 100 * kib, 16 * kib, uint64_t{5000}, uint64_t{300}}) {
    weir_buffer buffer = world.buffer(bytes);
    world.fill(buffer, bytes, 3);
    ok(weir_pool_trim(pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    world.check(buffer, bytes, 3);
    ok(weir_buffer_destroy(pool, buffer));
  }
  ok(weir_stream_close(world.streams[0]));
}

struct BadSize {
  uint64_t size;
  std::vector<uint64_t> nearest;
};

/// What is refused names sizes, and each of those works.
void page_sizes_are_powers_of_two(void **) {
  Lines lines;
  weir_context context =
      context_with("host.memory=64M;host.granule=16K;host.granule_large=0", &lines);
  const weir_pool_device device{0, 0, 16 * mib, {0, 0}};
  const auto refused = [&](const BadSize &bad, bool large) {
    weir_pool_desc desc = desc_for(&device);
    weir_pool pool = nullptr;
    desc.page_size = large ? 16 * kib : bad.size;
    desc.large_page_size = large ? bad.size : 0;
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_create(context, &desc, &pool));
    assert_null(pool);
    assert_true(says((large ? "large_page_size is " : "page_size is ") + std::to_string(bad.size)));
    for (const uint64_t size : bad.nearest) {
      assert_true(says(std::to_string(size)));
      desc.page_size = large ? 16 * kib : size;
      desc.large_page_size = large ? size : 0;
      const std::string why = weir_last_error();
      ok(weir_pool_create(context, &desc, &pool));
      use_pool(context, pool);
      ok(weir_pool_destroy(pool));
      pool = nullptr;
      desc.page_size = large ? 16 * kib : bad.size;
      desc.large_page_size = large ? bad.size : 0;
      expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_create(context, &desc, &pool));
      assert_string_equal(weir_last_error(), why.c_str());
    }
  };
  const BadSize sizes[] = {{48 * kib, {32 * kib, 64 * kib}},
                           {80 * kib, {64 * kib, 128 * kib}},
                           {112 * kib, {64 * kib, 128 * kib}},
                           {16 * kib + 1, {16 * kib, 32 * kib}},
                           {3 * mib, {2 * mib, 4 * mib}},
                           {8 * kib, {16 * kib}},
                           {1, {16 * kib}},
                           {gib + 16 * kib, {16 * mib}},
                           {2 * gib, {16 * mib}},
                           {uint64_t{1} << 63U, {16 * mib}},
                           {UINT64_MAX, {16 * mib}}};
  for (const BadSize &bad : sizes) {
    refused(bad, false);
    refused(bad, true);
  }
  ok(weir_context_destroy(context));
}

/// A pool that chooses its large pages itself chooses none that would not work.
void odd_large_granules_are_left_alone(void **) {
  Lines lines;
  weir_context context =
      context_with("host.memory=64M;host.granule=16K;host.granule_large=48K", &lines);
  const weir_pool_device device{0, 0, 16 * mib, {0, 0}};
  const weir_pool_desc desc = desc_for(&device);
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(pool, 0, &stats));
  assert_int_equal(stats.large_page_size, 16 * kib);
  use_pool(context, pool);
  ok(weir_pool_destroy(pool));
  ok(weir_context_destroy(context));
}

/// What a pool so described has; ends the context.
void expect_pages(weir_context context, const weir_pool_desc &desc, uint64_t page, uint64_t large) {
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(pool, 0, &stats));
  assert_int_equal(stats.page_size, page);
  assert_int_equal(stats.large_page_size, large);
  ok(weir_pool_destroy(pool));
  ok(weir_context_destroy(context));
}

/// Of granules of 2 MiB pages have two, and large pages are as large as the budget has 64 of, if the description says nothing else.
void pages_of_large_devices(void **) {
  struct Case {
    const char *options;
    uint64_t budgets[2];  ///< of one device, or of two
    uint64_t asked, page, large;
  };
  const Case cases[] = {{"host.granule=2M", {256 * mib, 0}, 0, 4 * mib, 4 * mib},
                        {"host.granule=2M", {254 * mib, 0}, 0, 2 * mib, 2 * mib},
                        {"host.granule=2M", {24 * gib, 256 * mib}, 0, 4 * mib, 4 * mib},
                        {"host.granule=2M", {24 * gib, 254 * mib}, 0, 2 * mib, 2 * mib},
                        {"host.granule=2M", {512 * mib, 0}, 0, 4 * mib, 8 * mib},
                        {"host.granule=2M", {512 * mib, 0}, 2 * mib, 2 * mib, 8 * mib},
                        {"host.granule=2M", {1023 * mib + mib / 2, 0}, 0, 4 * mib, 8 * mib},
                        {"host.granule=2M", {16 * gib, 1024 * mib}, 0, 4 * mib, 16 * mib},
                        {"host.granule=2M", {16 * gib, 0}, 2 * mib, 2 * mib, 32 * mib},
                        {"host.granule=2M", {16 * gib, 0}, 64 * mib, 64 * mib, 64 * mib},
                        {"host.granule=64K", {24 * gib, 0}, 0, 64 * kib, 32 * mib},
                        {"host.granule=64K", {300 * mib, 0}, 0, 64 * kib, 64 * kib},
                        {"host.granule=4M", {24 * gib, 0}, 0, 4 * mib, 32 * mib}};
  for (const Case &each : cases) {
    Lines lines;
    const std::string options =
        std::string("host.devices=2;host.memory=24G;host.granule_large=32M;") + each.options;
    weir_context context = context_with(options.c_str(), &lines);
    const weir_pool_device devices[] = {{0, 0, each.budgets[0], {0, 0}},
                                        {1, 0, each.budgets[1], {0, 0}}};
    weir_pool_desc desc = desc_for(devices, each.budgets[1] != 0 ? 2 : 1);
    desc.page_size = each.asked;
    expect_pages(context, desc, each.page, each.large);
  }
}

/// What the caller has given besides is never refused for a size that the pool has chosen itself.
void chosen_pages_go_with_what_is_given(void **) {
  struct Case {
    uint64_t large, segment, host, storage, page, chosen_large;
  };
  const Case cases[] = {
      {0, 0, 8 * mib, 0, 4 * mib, 16 * mib},        {2 * mib, 0, 8 * mib, 0, 2 * mib, 2 * mib},
      {4 * mib, 0, 8 * mib, 0, 4 * mib, 4 * mib},   {0, 3 * mib, 8 * mib, 0, 2 * mib, 16 * mib},
      {0, 0, 6 * mib, 64 * mib, 2 * mib, 2 * mib},  {0, 0, 12 * mib, 64 * mib, 4 * mib, 4 * mib},
      {0, 0, 32 * mib, 64 * mib, 4 * mib, 8 * mib}, {0, 0, 48 * mib, 64 * mib, 4 * mib, 16 * mib}};
  const char *folder = spill_folder();
  for (const Case &each : cases) {
    Lines lines;
    weir_context context =
        context_with("host.memory=2G;host.granule=2M;host.granule_large=32M", &lines);
    const weir_pool_device device{0, 0, gib, {0, 0}};
    weir_pool_desc desc = desc_for(&device);
    desc.large_page_size = each.large;
    desc.segment_size = each.segment;
    desc.host_budget = each.host;
    desc.storage_budget = each.storage;
    desc.storage_paths = &folder;
    desc.storage_path_count = each.storage != 0 ? 1 : 0;
    expect_pages(context, desc, each.page, each.chosen_large);
  }
}

/// Pages that the budget has no room for at all would be no pages: small ones do.
void large_pages_beyond_the_budget_are_left_out(void **) {
  Lines lines;
  weir_context context =
      context_with("host.memory=64M;host.granule=16K;host.granule_large=0", &lines);
  const weir_pool_device device{0, 0, 256 * kib, {0, 0}};
  weir_pool_desc desc = desc_for(&device);
  desc.large_page_size = 512 * kib;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  assert_true(lines.has("524288") && lines.has("262144"));
  World world(context, pool);
  ok(weir_stream_create(context, 0, 0, &world.streams[0]));
  weir_buffer buffer = world.buffer(mib);
  uint8_t byte = 7;
  ok(weir_buffer_write(pool, buffer, mib - 1, 1, &byte));
  weir_use use{buffer, mib - 16 * kib, 16 * kib, WEIR_READ, 0, 0, {0, 0, 0}};
  weir_lease lease = nullptr;
  ok(weir_acquire(pool, world.streams[0], &use, 1, nullptr, &lease));
  ok(weir_release(lease, world.streams[0]));
  desc.page_size = 512 * kib;
  desc.large_page_size = 0;
  weir_pool none = nullptr;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_create(context, &desc, &none));
  assert_true(says("262144") && says("524288"));
  ok(weir_pool_destroy(pool));
  ok(weir_stream_close(world.streams[0]));
  ok(weir_context_destroy(context));
}

/// Without VMM a page is only what small buffers share.
void without_vmm_pages_are_multiples_of_256(void **) {
  Lines lines;
  weir_context context = context_with("host.memory=64M;host.vmm=0", &lines);
  const weir_pool_device device{0, 0, 16 * mib, {0, 0}};
  weir_pool_desc desc = desc_for(&device);
  desc.page_size = 12 * kib;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  use_pool(context, pool);
  ok(weir_pool_destroy(pool));
  ok(weir_context_destroy(context));
}

// ---- budgets beyond the memory ----

void a_budget_beyond_the_memory_is_told(void **) {
  Lines lines;
  weir_context context =
      context_with("host.devices=2;host.memory=64M;host.granule=16K;host.granule_large=0", &lines);
  const uint64_t tib = uint64_t{1} << 40U;
  weir_pool_device devices[2] = {{0, 0, tib, {0, 0}}, {1, 0, tib + 16 * kib, {0, 0}}};
  const weir_pool_desc desc = desc_for(devices);
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  assert_int_equal(lines.warnings.size(), 1);
  assert_true(lines.has("1099511627776") && lines.has("67108864"));
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(pool, 0, &stats));
  assert_int_equal(stats.budget, tib);
  assert_int_equal(stats.memory_total, 64 * mib);
  // So for a device that comes later; and when it comes back.
  ok(weir_pool_add_device(pool, &devices[1]));
  assert_int_equal(lines.warnings.size(), 2);
  assert_true(lines.has("1099511644160"));
  ok(weir_pool_remove_device(pool, 1, WEIR_INFINITE));
  ok(weir_pool_add_device(pool, &devices[1]));
  assert_int_equal(lines.warnings.size(), 3);
  use_pool(context, pool);
  ok(weir_pool_destroy(pool));
  // What is all there is, or said to be without a limit, is nothing to tell.
  lines.warnings.clear();
  for (const uint64_t budget : {64 * mib, WEIR_UNLIMITED}) {
    devices[0].budget = budget;
    ok(weir_pool_create(context, &desc, &pool));
    use_pool(context, pool);
    ok(weir_pool_destroy(pool));
  }
  assert_int_equal(lines.warnings.size(), 0);
  ok(weir_context_destroy(context));
}

// ---- records ----

struct Small {
  weir_context context;
  weir_pool_device devices[2] = {{0, 0, 16 * mib, {0, 0}}, {1, 0, 16 * mib, {0, 0}}};
  Lines lines;

  Small()
      : context(context_with("host.devices=2;host.memory=64M;host.granule=16K;host.granule_large=0",
                             &lines)) {}
  weir_pool pool(uint64_t record_budget, uint32_t device_count = 1) {
    weir_pool_desc desc = desc_for(devices, device_count);
    desc.record_budget = record_budget;
    weir_pool made = nullptr;
    ok(weir_pool_create(context, &desc, &made));
    return made;
  }
  /// What a pool's records take without any buffer.
  uint64_t least(uint32_t device_count = 1) {
    weir_pool made = pool(WEIR_UNLIMITED, device_count);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_stats_get(made, &stats));
    ok(weir_pool_destroy(made));
    return stats.bookkeeping_bytes;
  }
};

weir_pool_stats stats_of(weir_pool pool) {
  weir_pool_stats stats = WEIR_POOL_STATS_INIT;
  ok(weir_pool_stats_get(pool, &stats));
  return stats;
}

/// By the default limit, too: at once, with both figures, and nothing is left of it.
void sizes_are_bounded_by_their_records(void **) {
  Small small;
  for (const uint64_t budget : {uint64_t{0}, 64 * mib}) {
    weir_pool pool = small.pool(budget, 2);
    const weir_pool_stats before = stats_of(pool);
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    weir_buffer buffer = nullptr;
    uint64_t address = 0;
    desc.size = uint64_t{1} << 44U;
    const auto refused = [&](weir_result result) {
      expect_result(WEIR_ERROR_OUT_OF_HOST_MEMORY, result);
      assert_null(buffer);
      assert_true(says(std::to_string(desc.size)) && says("record_budget"));
      const weir_error_info info = last_error();
      assert_true(info.asked > info.available);
      assert_true(info.asked >= (desc.size / (16 * kib)) * 40);
      if (budget != 0) assert_true(says(std::to_string(budget)) && info.available < budget);
      const weir_pool_stats after = stats_of(pool);
      assert_int_equal(after.bookkeeping_bytes, before.bookkeeping_bytes);
      assert_int_equal(after.buffers, before.buffers);
      assert_int_equal(after.pages, before.pages);
    };
    refused(weir_buffer_create(pool, &desc, &buffer));
    refused(weir_malloc(pool, 0, nullptr, desc.size, &address));
    const weir_device both[2] = {0, 1};
    weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
    shards.devices = both;
    shards.device_count = 2;
    desc.shards = &shards;
    refused(weir_buffer_create(pool, &desc, &buffer));
    desc.shards = nullptr;
    desc.flags = WEIR_BUFFER_SCRUB | WEIR_BUFFER_STABLE_ADDRESS;
    refused(weir_buffer_create(pool, &desc, &buffer));
    desc.flags = 0;
    // Beyond what pages can be counted in, or a buffer can have, whatever the budget.
    for (const uint64_t size :
         {uint64_t{1} << 46U, uint64_t{1} << 47U, uint64_t{1} << 48U, UINT64_MAX}) {
      desc.size = size;
      expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_create(pool, &desc, &buffer));
      assert_true(says(std::to_string(size)));
    }
    desc.size = mib;
    ok(weir_buffer_create(pool, &desc, &buffer));
    ok(weir_pool_destroy(pool));
  }
  weir_pool pool = small.pool(WEIR_UNLIMITED);
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  weir_buffer buffer = nullptr;
  desc.size = uint64_t{1} << 46U;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_create(pool, &desc, &buffer));
  ok(weir_pool_destroy(pool));
  ok(weir_context_destroy(small.context));
}

/// One buffer's records count as a thousand's do, and destroying gives the room again.
void all_records_of_a_pool_count(void **) {
  Small small;
  const uint64_t budget = small.least() + 2 * mib;
  weir_pool pool = small.pool(budget);
  for (const uint64_t bytes : {16 * kib, 64 * kib, uint64_t{4096}}) {
    size_t first = 0;
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<weir_buffer> buffers;
      weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
      desc.size = bytes;
      weir_result result = WEIR_SUCCESS;
      for (weir_buffer made = nullptr; buffers.size() < 100000; buffers.push_back(made)) {
        result = weir_buffer_create(pool, &desc, &made);
        if (result != WEIR_SUCCESS) break;
      }
      expect_result(WEIR_ERROR_OUT_OF_HOST_MEMORY, result);
      assert_true(says(std::to_string(budget)));
      assert_true(buffers.size() > 1000);
      assert_true(stats_of(pool).bookkeeping_bytes <= budget + budget / 4);  // tables grow in steps
      if (turn == 1) first = buffers.size();
      if (turn == 2) assert_int_equal(buffers.size(), first);  // nothing of the first is left
      for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(pool, buffer));
    }
  }
  ok(weir_pool_destroy(pool));
  ok(weir_context_destroy(small.context));
}

/// A budget that the pool itself would pass is no budget.
void a_pool_needs_room_for_its_own_records(void **) {
  Small small;
  weir_pool_desc desc = desc_for(small.devices);
  weir_pool pool = nullptr;
  for (const uint64_t budget : {uint64_t{1}, uint64_t{4096}, small.least() / 2}) {
    desc.record_budget = budget;
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_create(small.context, &desc, &pool));
    assert_null(pool);
    assert_true(says("record_budget is " + std::to_string(budget)));
  }
  ok(weir_context_destroy(small.context));
}

/// Pages have records on each device that they are used on; they count as the first ones do.
void copies_on_other_devices_count(void **) {
  Small small;
  const uint64_t size = 64 * mib;  // 4096 pages: 160 KiB of records, and 64 KiB on another device
  World world(small.context, small.pool(small.least(2) + 800 * kib, 2));
  for (uint32_t i = 0; i < 2; ++i) ok(weir_stream_create(small.context, i, 0, &world.streams[i]));
  weir_buffer first = world.buffer(size);
  std::vector<weir_buffer> others;
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = 256 * kib;
  for (weir_buffer made = nullptr; others.size() < 10000; others.push_back(made))
    if (weir_buffer_create(world.pool, &desc, &made) != WEIR_SUCCESS) break;
  weir_use use{first, 0, 16 * kib, WEIR_READ_WRITE, 0, 0, {0, 0, 0}};
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OUT_OF_HOST_MEMORY,
                weir_acquire(world.pool, world.streams[1], &use, 1, nullptr, &lease));
  assert_true(says(std::to_string(size)));
  ok(weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &lease));  // at home all is there
  ok(weir_release(lease, world.streams[0]));
  for (weir_buffer buffer : others) ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_acquire(world.pool, world.streams[1], &use, 1, nullptr, &lease));
  ok(weir_release(lease, world.streams[1]));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(page_sizes_are_powers_of_two),
      cmocka_unit_test(odd_large_granules_are_left_alone),
      cmocka_unit_test(pages_of_large_devices),
      cmocka_unit_test(chosen_pages_go_with_what_is_given),
      cmocka_unit_test(large_pages_beyond_the_budget_are_left_out),
      cmocka_unit_test(without_vmm_pages_are_multiples_of_256),
      cmocka_unit_test(a_budget_beyond_the_memory_is_told),
      cmocka_unit_test(sizes_are_bounded_by_their_records),
      cmocka_unit_test(all_records_of_a_pool_count),
      cmocka_unit_test(a_pool_needs_room_for_its_own_records),
      cmocka_unit_test(copies_on_other_devices_count),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

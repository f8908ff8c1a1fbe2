// SPDX-License-Identifier: Apache-2.0
//
// Devices whose memory is the host's: what must leave one goes to a neighbour or to a tier below HOST, and to HOST only where
// there is nothing else, which is said once. Every byte stays right.

#include "tests/unit/interleaving.hpp"

#include <cstring>

namespace {

using namespace weir::test;

constexpr const char *integrated =
    "host.memory=16M;host.granule=16K;host.granule_large=0;host.integrated=0";
const uint64_t size = 4 * page_bytes;

struct Lines {
  int warnings = 0;
  static void take(void *user, int32_t level, const char *text) {
    if (level == WEIR_LOG_WARNING && std::strstr(text, "has the host's memory") != nullptr)
      ++static_cast<Lines *>(user)->warnings;
  }
};

/// Device memory for eight pages.
struct Options {
  std::string more = {};
  uint32_t devices = 1;
  uint64_t compressed_pages = 0, storage_pages = 0, host_pages = 64, flags = 0;
};

World world_of(const Options &options, Lines *lines) {
  const std::string all = integrated + options.more;
  weir_context_desc about = WEIR_CONTEXT_DESC_INIT;
  about.options = all.c_str();
  about.log = Lines::take;
  about.log_user = lines;
  weir_context context = nullptr;
  ok(weir_context_create(&about, &context));
  const weir_pool_device devices[2] = {{0, 0, 8 * page_bytes, {0, 0}},
                                       {1, 0, 40 * page_bytes, {0, 0}}};
  const char *folder = spill_folder();
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = options.devices;
  desc.devices = devices;
  desc.flags = WEIR_POOL_NO_BACKGROUND | options.flags;
  desc.host_budget = options.host_pages * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  desc.compressed_budget = options.compressed_pages * page_bytes;
  desc.storage_budget = options.storage_pages * page_bytes;
  desc.storage_paths = &folder;
  desc.storage_path_count = options.storage_pages != 0 ? 1 : 0;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  World world(context, pool);
  for (uint32_t i = 0; i < options.devices; ++i)
    ok(weir_stream_create(context, i, 0, &world.streams[i]));
  return world;
}

/// Four buffers of four pages, twice what the device holds; written, and read back on it, twice.
weir_pool_stats press(World &world) {
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 4; ++i) {
    buffers.push_back(world.buffer(size));
    world.fill(buffers[i], size, i + 1);
  }
  for (uint32_t turn = 0; turn < 2; ++turn)
    for (uint32_t i = 0; i < 4; ++i) world.check(buffers[i], size, i + 1);
  for (uint32_t i = 0; i < 4; ++i) world.check_read(buffers[i], size, i + 1);
  const weir_pool_stats stats = world.stats();
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  return stats;
}

void it_is_told(void **) {
  Lines lines;
  World world = world_of({.more = ";host.devices=2", .compressed_pages = 32}, &lines);
  for (const weir_device device : {0U, 1U}) {
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    ok(weir_device_info_get(world.context, device, &info));
    assert_int_equal((info.capabilities & WEIR_CAP_INTEGRATED) != 0, device == 0);
  }
  std::vector<char> text(1 << 16);
  size_t needed = 0;
  ok(weir_topology_export(world.context, WEIR_TOPOLOGY_TEXT, text.data(), text.size(), &needed));
  assert_non_null(std::strstr(text.data(), "the host's memory"));
  ok(weir_topology_export(world.context, WEIR_TOPOLOGY_JSON, text.data(), text.size(), &needed));
  assert_non_null(std::strstr(text.data(), "\"integrated\""));
  world.close();
}

void straight_to_compressed(void **) {
  Lines lines;
  World world = world_of({.compressed_pages = 40}, &lines);
  const weir_pool_stats stats = press(world);
  assert_int_equal(stats.host_used_bytes, 0);
  assert_int_equal(stats.cached_bytes, 0);
  assert_true(stats.compressed_raw_bytes >= 8 * page_bytes);
  assert_int_equal(lines.warnings, 0);
  close_clean(world);
}

void straight_to_storage(void **) {
  Lines lines;
  World world = world_of({.storage_pages = 40}, &lines);
  const weir_pool_stats stats = press(world);
  assert_int_equal(stats.host_used_bytes, 0);
  assert_int_equal(stats.cached_bytes, 0);
  assert_true(stats.storage_written_bytes >= 8 * page_bytes);
  close_clean(world);
}

/// Its link to the neighbour need not be better than the host's, which is its own memory.
void to_a_neighbour(void **) {
  Lines lines;
  World world = world_of(
      {.more = ";host.devices=2;host.links=0-1:pcie:8G,h-0:memory:50G,h-1:pcie:16G", .devices = 2},
      &lines);
  const weir_pool_stats stats = press(world);
  assert_int_equal(stats.host_used_bytes, 0);
  assert_true(stats.lent_bytes >= 8 * page_bytes);
  assert_int_equal(lines.warnings, 0);
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// Not to one whose memory is the host's too.
void not_to_its_like(void **) {
  Lines lines;
  World world = world_of({.more = ",1;host.devices=2;host.links=0-1:nvlink:100G,h-0:memory:50G,"
                                  "h-1:memory:50G",
                          .devices = 2},
                         &lines);
  const weir_pool_stats stats = press(world);
  assert_int_equal(stats.lent_bytes, 0);
  assert_true(stats.host_used_bytes != 0);
  assert_int_equal(lines.warnings, 1);
  close_clean(world);
}

/// Nothing is lost for want of another place, and it is said that nothing is won.
void host_if_there_is_nothing_else(void **) {
  Lines lines;
  World world = world_of({}, &lines);
  const weir_pool_stats stats = press(world);
  assert_true(stats.host_used_bytes >= 8 * page_bytes);
  assert_int_equal(lines.warnings, 1);
  close_clean(world);
}

/// So too where the tiers below are full.
void host_if_what_is_below_is_full(void **) {
  Lines lines;
  World world = world_of({.storage_pages = 4}, &lines);
  const weir_pool_stats stats = press(world);
  assert_true(stats.storage_written_bytes != 0);
  assert_true(stats.host_used_bytes != 0);
  close_clean(world);
}

/// A discrete device of the same pool goes by HOST as ever.
void others_use_host(void **) {
  Lines lines;
  World world = world_of({.more = ";host.devices=2", .devices = 2, .compressed_pages = 40}, &lines);
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  assert_int_equal(query(world, buffer).host_bytes, size);
  world.check(buffer, size, 1, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(it_is_told),
      cmocka_unit_test(straight_to_compressed),
      cmocka_unit_test(straight_to_storage),
      cmocka_unit_test(to_a_neighbour),
      cmocka_unit_test(not_to_its_like),
      cmocka_unit_test(host_if_there_is_nothing_else),
      cmocka_unit_test(host_if_what_is_below_is_full),
      cmocka_unit_test(others_use_host),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
//
// weir_pool_defragment and weir_pool_set_defragmentation: what moves keeps its bytes, what must not move does not, bounds
// hold, and without VMM a request fits whenever its bytes fit. With and without virtual-memory management.

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

const uint64_t tenant_bytes = page_bytes / 8;

World world_of(void **state, uint64_t pages = 32, uint64_t flags = WEIR_POOL_NO_BACKGROUND) {
  return World({.options = std::string(small_host) + static_cast<const char *>(*state),
                .device_pages = pages,
                .flags = flags});
}
bool has_vmm(void **state) { return static_cast<const char *>(*state)[0] == '\0'; }

struct Tenants {
  std::vector<weir_buffer> buffers;
  std::vector<uint64_t> sizes;

  /// Of different sizes, each filled with a pattern of its own; then only every `keep`-th lives on.
  Tenants(World &world, size_t count, size_t keep) {
    for (size_t i = 0; i < count; ++i) {
      sizes.push_back(tenant_bytes - 256 * (i % 5) - i % 3);
      buffers.push_back(world.buffer(sizes[i]));
      world.fill(buffers[i], sizes[i], static_cast<uint32_t>(i));
    }
    for (size_t i = 0; i < count; ++i) {
      if (i % keep == 0) continue;
      ok(weir_buffer_destroy(world.pool, buffers[i]));
      buffers[i] = nullptr;
    }
  }
  void check(World &world) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i] != nullptr) world.check_read(buffers[i], sizes[i], static_cast<uint32_t>(i));
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i] != nullptr) world.check(buffers[i], sizes[i], static_cast<uint32_t>(i));
    }
  }
  void destroy(World &world) {
    for (weir_buffer buffer : buffers) {
      if (buffer != nullptr) ok(weir_buffer_destroy(world.pool, buffer));
    }
  }
};

weir_defragment_report defragment(World &world, weir_defragment_desc desc) {
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  ok(weir_pool_defragment(world.pool, &desc, &report));
  return report;
}
weir_defragment_report defragment(World &world) {
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.flags = WEIR_DEFRAGMENT_WAIT;
  return defragment(world, desc);
}

uint64_t address_of(World &world, weir_buffer buffer) {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  ok(weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info));
  return info.address;
}

void slabs_become_fewer_and_bytes_stay(void **state) {
  World world = world_of(state);
  Tenants tenants(world, 128, 4);
  const weir_pool_stats before = world.stats();
  const weir_defragment_report report = defragment(world);
  const weir_pool_stats after = world.stats();
  assert_int_equal(report.finished, 1);
  assert_true(report.copy_moves > 0 && report.moved_bytes > 0);
  assert_int_equal(report.remap_moves, 0);
  assert_int_equal(report.evict_moves, 0);
  assert_true(report.fragmentation_after_permille < report.fragmentation_before_permille);
  assert_true(after.slabs < before.slabs);
  // A quarter lives on, and a quarter of the slabs is left, but for one that is not full.
  assert_true(after.slabs <= before.slabs / 4 + 2);
  assert_true(report.won_bytes >= 8 * page_bytes);
  assert_true(after.device_free_bytes >= before.device_free_bytes + report.won_bytes);
  // Without VMM slabs move as a whole, too.
  if (has_vmm(state)) assert_true(report.moved_bytes * 10 <= report.won_bytes * 4);
  assert_int_equal(after.defragment_moved_bytes, report.moved_bytes);
  assert_true(after.defragment_moves == report.copy_moves);
  assert_int_equal(after.demoted_bytes, 0);
  assert_true(after.device_bytes <= after.device_budget);
  tenants.check(world);
  // Once more: there is nothing left to do.
  const weir_defragment_report again = defragment(world);
  assert_int_equal(again.finished, 1);
  assert_int_equal(again.copy_moves, 0);
  tenants.destroy(world);
  world.close();
}

/// Nothing can leave the device, and every page has a small buffer on it: a request that the free bytes suffice for fits.
void a_request_compacts_by_itself(void **) {
  World world({.options = small_host, .device_pages = 16, .host_pages = 0});
  Tenants tenants(world, 16 * page_bytes / tenant_bytes - 4, 1);
  for (size_t i = 0; i < tenants.buffers.size(); ++i) {
    if (i % 4 == 0) continue;
    ok(weir_buffer_destroy(world.pool, tenants.buffers[i]));
    tenants.buffers[i] = nullptr;
  }
  weir_buffer large = world.buffer(8 * page_bytes);
  world.fill(large, 8 * page_bytes, 99);
  assert_true(world.stats().defragment_moves > 0);
  assert_int_equal(world.stats().demoted_bytes, 0);
  tenants.check(world);
  world.check(large, 8 * page_bytes, 99);
  ok(weir_buffer_destroy(world.pool, large));
  tenants.destroy(world);
  world.close();
}

void buffers_are_written_and_moved_in_turn(void **state) {
  World world = world_of(state);
  Tenants tenants(world, 96, 3);
  for (uint32_t round = 1; round <= 4; ++round) {
    weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
    desc.max_moves = 5;
    (void)defragment(world, desc);  // waits for nothing: the streams keep the order
    for (size_t i = 0; i < tenants.buffers.size(); ++i) {
      if (tenants.buffers[i] == nullptr) continue;
      weir_lease lease = nullptr;
      Kernel old{0, tenants.sizes[i], static_cast<uint32_t>(i + (round - 1) * 1000), 0};
      ok(world.acquire(tenants.buffers[i], WEIR_READ_WRITE, &lease, &old.address));
      Kernel fresh = old;
      fresh.seed += 1000;
      ok(old.launch(world.streams[0], Kernel::compare));
      ok(fresh.launch(world.streams[0], Kernel::write));
      ok(weir_release(lease, world.streams[0]));
      ok(weir_stream_synchronize(world.streams[0]));
      assert_int_equal(old.wrong, 0);
    }
  }
  for (size_t i = 0; i < tenants.buffers.size(); ++i) {
    if (tenants.buffers[i] != nullptr)
      world.check(tenants.buffers[i], tenants.sizes[i], static_cast<uint32_t>(i + 4000));
  }
  tenants.destroy(world);
  world.close();
}

void what_is_leased_or_held_stays(void **state) {
  World world = world_of(state);
  Tenants tenants(world, 128, 8);
  weir_lease lease = nullptr;
  uint64_t leased = 0;
  uint64_t held = 0;
  uint64_t part = 0;
  ok(world.acquire(tenants.buffers[120], WEIR_READ, &lease, &leased));
  ok(weir_hold(world.pool, tenants.buffers[64], WEIR_DEVICE_DEFAULT, &held));
  weir_use use = WEIR_USE(tenants.buffers[96], WEIR_READ);
  use.offset = 100;
  use.length = 50;
  weir_lease partial = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &partial));
  part = use.address;
  const weir_defragment_report report = defragment(world);
  assert_true(report.leased_bytes >= tenants.sizes[120] + tenants.sizes[96]);
  assert_true(report.held_bytes >= tenants.sizes[64]);
  assert_int_equal(address_of(world, tenants.buffers[120]), leased);
  assert_int_equal(address_of(world, tenants.buffers[64]), held);
  assert_int_equal(address_of(world, tenants.buffers[96]) + 100, part);
  ok(weir_release(lease, world.streams[0]));
  ok(weir_release(partial, world.streams[0]));
  ok(weir_unhold(world.pool, tenants.buffers[64]));
  tenants.check(world);
  (void)defragment(world);
  tenants.check(world);
  tenants.destroy(world);
  world.close();
}

void memory_of_malloc_is_never_moved(void **state) {
  World world = world_of(state);
  std::vector<uint64_t> addresses(96);
  std::vector<Kernel> kernels;
  for (size_t i = 0; i < addresses.size(); ++i) {
    ok(weir_malloc(world.pool, 0, world.streams[0], tenant_bytes, &addresses[i]));
    Kernel kernel{addresses[i], tenant_bytes, static_cast<uint32_t>(i), 0};
    ok(kernel.launch(world.streams[0], Kernel::write));
    ok(weir_stream_synchronize(world.streams[0]));
  }
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (i % 6 != 0) ok(weir_free(world.pool, world.streams[0], addresses[i]));
  }
  const weir_defragment_report report = defragment(world);
  assert_int_equal(report.copy_moves, 0);
  assert_true(report.pinned_bytes >= 16 * tenant_bytes);
  for (size_t i = 0; i < addresses.size(); i += 6) {
    Kernel kernel{addresses[i], tenant_bytes, static_cast<uint32_t>(i), 0};
    ok(kernel.launch(world.streams[0], Kernel::compare));
    ok(weir_stream_synchronize(world.streams[0]));
    assert_int_equal(kernel.wrong, 0);
    ok(weir_free(world.pool, world.streams[0], addresses[i]));
  }
  world.close();
}

void bounds_hold_and_calls_add_up(void **state) {
  World world = world_of(state);
  Tenants tenants(world, 128, 4);
  uint64_t moves = 0;
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.flags = WEIR_DEFRAGMENT_WAIT;
  bool finished = false;
  for (int call = 0; call < 200 && !finished; ++call) {
    desc.max_moves = call % 2 == 0 ? 2 : 0;
    desc.max_bytes = call % 2 == 0 ? 0 : 3 * tenant_bytes;
    const weir_defragment_report report = defragment(world, desc);
    if (desc.max_moves != 0) assert_true(report.copy_moves <= desc.max_moves);
    if (desc.max_bytes != 0) assert_true(report.moved_bytes <= desc.max_bytes);
    finished = report.finished != 0;
    // Without VMM slabs move as a whole, too: one may be more than the bound allows.
    const bool too_large = !has_vmm(state) && desc.max_bytes != 0 && desc.max_bytes < page_bytes;
    assert_true(finished || report.copy_moves != 0 || too_large);
    moves += report.copy_moves;
    if (call % 8 == 0) tenants.check(world);
  }
  assert_true(finished && moves > 6);
  assert_int_equal(world.stats().defragment_moves, moves);
  tenants.check(world);
  tenants.destroy(world);
  world.close();
}

struct Breaker {
  World *world;
  weir_buffer buffer;
  int asked = 0;
  int stop_at = 1;
  static int32_t ask(void *user) {
    auto *self = static_cast<Breaker *>(user);
    // Other calls of the pool are allowed here.
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
    if (weir_buffer_info_get(self->world->pool, self->buffer, 0, WEIR_WHOLE, &info) != WEIR_SUCCESS)
      return 1;
    return ++self->asked >= self->stop_at ? 1 : 0;
  }
};

void the_callback_ends_a_call(void **state) {
  World world = world_of(state);
  Tenants tenants(world, 128, 4);
  Breaker breaker{&world, tenants.buffers[0]};
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.should_stop = Breaker::ask;
  desc.user = &breaker;
  const weir_defragment_report report = defragment(world, desc);
  assert_int_equal(breaker.asked, 1);
  assert_int_equal(report.copy_moves, 0);
  assert_int_equal(report.finished, 0);
  breaker.stop_at = 1000;
  assert_int_equal(defragment(world, desc).finished, 1);
  assert_true(breaker.asked > 1);
  tenants.check(world);
  tenants.destroy(world);
  world.close();
}

void what_is_wrong_is_refused(void **state) {
  World world = world_of(state);
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_pool_defragment(nullptr, &desc, &report));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_defragment(world.pool, nullptr, &report));
  ok(weir_pool_defragment(world.pool, &desc, nullptr));
  desc.struct_size = 4;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_defragment(world.pool, &desc, &report));
  desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.flags = 64;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_defragment(world.pool, &desc, &report));
  desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.reserved = 1;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_defragment(world.pool, &desc, &report));
  desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.device = 77;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_defragment(world.pool, &desc, &report));
  desc.device = WEIR_DEVICE_HOST;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_defragment(world.pool, &desc, &report));
  desc.device = WEIR_DEVICE_DEFAULT;
  ok(weir_pool_defragment(world.pool, &desc, &report));
  report.struct_size = 0;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_defragment(world.pool, &desc, &report));
  weir_defragmentation_desc background = WEIR_DEFRAGMENTATION_DESC_INIT;
  ok(weir_pool_set_defragmentation(world.pool, &background));
  background.threshold_permille = 100;
  expect_result(WEIR_ERROR_NOT_SUPPORTED, weir_pool_set_defragmentation(world.pool, &background));
  background.threshold_permille = 1001;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_pool_set_defragmentation(world.pool, &background));
  background = WEIR_DEFRAGMENTATION_DESC_INIT;
  background.flags = 1;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_pool_set_defragmentation(world.pool, &background));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_set_defragmentation(world.pool, nullptr));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_pool_set_defragmentation(nullptr, &background));
  world.close();
}

void the_background_does_it_by_itself(void **state) {
  World world = world_of(state, 32, 0);
  Tenants tenants(world, 128, 4);
  weir_defragmentation_desc desc = WEIR_DEFRAGMENTATION_DESC_INIT;
  desc.threshold_permille = 300;
  desc.max_cost_permille = 1000;
  ok(weir_pool_set_defragmentation(world.pool, &desc));
  while (world.stats().defragment_moves == 0) std::this_thread::yield();
  desc.threshold_permille = 0;
  ok(weir_pool_set_defragmentation(world.pool, &desc));
  tenants.check(world);
  desc.threshold_permille = 300;
  ok(weir_pool_set_defragmentation(world.pool, &desc));  // the pool may end while it is on
  tenants.destroy(world);
  world.close();
}

/// Eight pages, every other one taken: four pages in one piece fit, and nothing has to leave the device for it.
void a_request_fits_when_its_bytes_fit(void **state) {
  World world = world_of(state, 8);
  std::vector<weir_buffer> small;
  for (uint32_t i = 0; i < 8; ++i) {
    small.push_back(world.buffer(page_bytes));
    world.fill(small[i], page_bytes, i);
  }
  for (uint32_t i = 0; i < 8; i += 2) ok(weir_buffer_destroy(world.pool, small[i]));
  weir_buffer large = world.buffer(4 * page_bytes);
  world.fill(large, 4 * page_bytes, 99);
  assert_int_equal(world.stats().demoted_bytes, 0);
  assert_int_equal(world.stats().would_block, 0);
  if (!has_vmm(state)) assert_true(world.stats().defragment_moves > 0);
  world.check(large, 4 * page_bytes, 99);
  for (uint32_t i = 1; i < 8; i += 2) world.check(small[i], page_bytes, i);
  assert_int_equal(world.stats().promoted_bytes, 0);
  for (uint32_t i = 1; i < 8; i += 2) ok(weir_buffer_destroy(world.pool, small[i]));
  ok(weir_buffer_destroy(world.pool, large));
  world.close();
}

/// Two buffers of three pages each, with a page between them and one behind: neither can be moved into a hole.
struct Wedged {
  World world;
  weir_buffer first, second;
  Wedged() : world({.options = std::string(small_host) + ";host.vmm=0", .device_pages = 8}) {
    first = world.buffer(3 * page_bytes);
    weir_buffer between = world.buffer(page_bytes);
    second = world.buffer(3 * page_bytes);
    weir_buffer behind = world.buffer(page_bytes);
    world.fill(first, 3 * page_bytes, 1);
    world.fill(between, page_bytes, 2);
    world.fill(second, 3 * page_bytes, 3);
    world.fill(behind, page_bytes, 4);
    ok(weir_buffer_destroy(world.pool, between));
    ok(weir_buffer_destroy(world.pool, behind));
  }
  void close() {
    world.check(first, 3 * page_bytes, 1);
    world.check(second, 3 * page_bytes, 3);
    ok(weir_buffer_destroy(world.pool, first));
    ok(weir_buffer_destroy(world.pool, second));
    world.close();
  }
};

void only_what_is_in_the_way_leaves(void **) {
  Wedged wedged;
  World &world = wedged.world;
  weir_buffer fresh = world.buffer(2 * page_bytes);
  world.fill(fresh, 2 * page_bytes, 5);
  assert_int_equal(world.stats().demoted_bytes, 3 * page_bytes);
  assert_int_equal(world.stats().defragment_evicted_bytes, 3 * page_bytes);
  world.check(fresh, 2 * page_bytes, 5);
  ok(weir_buffer_destroy(world.pool, fresh));
  wedged.close();
}

void a_call_evicts_only_if_it_may_and_it_pays(void **) {
  Wedged wedged;
  World &world = wedged.world;
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.flags = WEIR_DEFRAGMENT_WAIT;
  desc.max_cost_permille = 4000;
  assert_int_equal(defragment(world, desc).evict_moves, 0);
  desc.flags |= WEIR_DEFRAGMENT_EVICT;
  desc.max_cost_permille = 0;  // three pages out for one page more in one piece
  assert_int_equal(defragment(world, desc).evict_moves, 0);
  desc.max_cost_permille = 4000;
  const weir_defragment_report report = defragment(world, desc);
  assert_int_equal(report.evict_moves, 1);
  assert_int_equal(report.evicted_bytes, 3 * page_bytes);
  assert_int_equal(report.largest_free_before, page_bytes);
  assert_true(report.largest_free_after >= 4 * page_bytes);
  wedged.close();
}

/// The same, asked for in advance.
void free_ranges_become_long(void **state) {
  World world = world_of(state, 16);
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 16; ++i) {
    buffers.push_back(world.buffer(page_bytes - 1000 * (i % 3)));
    world.fill(buffers[i], page_bytes - 1000 * (i % 3), i);
  }
  for (uint32_t i = 0; i < 16; ++i) {
    if (i % 3 != 0) ok(weir_buffer_destroy(world.pool, buffers[i]));
  }
  const weir_defragment_report report = defragment(world);
  if (!has_vmm(state)) {
    assert_true(report.copy_moves > 0);
    assert_true(report.largest_free_after > report.largest_free_before);
    assert_true(report.largest_free_after >= 8 * page_bytes);
  } else {
    assert_int_equal(report.copy_moves, 0);  // whole pages never need it
  }
  for (uint32_t i = 0; i < 16; i += 3) {
    world.check(buffers[i], page_bytes - 1000 * (i % 3), i);
    ok(weir_buffer_destroy(world.pool, buffers[i]));
  }
  world.close();
}

constexpr char vmm[] = "";
constexpr char no_vmm[] = ";host.vmm=0";

#define BOTH(test)                                                         \
  {#test, test, nullptr, nullptr, const_cast<char *>(vmm)}, {              \
#test ", no VMM", test, nullptr, nullptr, const_cast < char *>(no_vmm) \
  }

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      BOTH(slabs_become_fewer_and_bytes_stay),
      cmocka_unit_test(a_request_compacts_by_itself),
      BOTH(buffers_are_written_and_moved_in_turn),
      BOTH(what_is_leased_or_held_stays),
      BOTH(memory_of_malloc_is_never_moved),
      BOTH(bounds_hold_and_calls_add_up),
      BOTH(the_callback_ends_a_call),
      BOTH(what_is_wrong_is_refused),
      BOTH(the_background_does_it_by_itself),
      BOTH(a_request_fits_when_its_bytes_fit),
      BOTH(free_ranges_become_long),
      cmocka_unit_test(only_what_is_in_the_way_leaves),
      cmocka_unit_test(a_call_evicts_only_if_it_may_and_it_pays),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

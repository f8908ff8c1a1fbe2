// SPDX-License-Identifier: Apache-2.0
//
// A part of a buffer on its way to a granule that others share, whose runtime's call fails, any of them, after all of the
// others have left that granule: it stays where it was, and the granule it was to go to is given back. No device memory may
// be left that is charged to no client.

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "tests/unit/interleaving.hpp"
#include "tests/unit/interposed_host.hpp"

namespace {

using namespace weir::test;

/// The n-th call of the thread that moves things fails; at the first of them it stands until it is let go.
struct Failure {
  static inline thread_local bool moving = false;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t left = 0;
  bool standing = false, open = false, struck = false;

  void arm(int64_t n) {
    const std::lock_guard hold(mutex);
    left = n;
    standing = open = struck = false;
  }
  void await() {
    std::unique_lock hold(mutex);
    changed.wait(hold, [this] { return standing; });
  }
  void let_go() {
    const std::lock_guard hold(mutex);
    open = true;
    changed.notify_all();
  }
  weir_result meet() {
    std::unique_lock hold(mutex);
    standing = true;
    changed.notify_all();
    changed.wait(hold, [this] { return open; });
    if (--left != 0) return WEIR_SUCCESS;
    struck = true;
    return WEIR_ERROR_BACKEND;
  }
  static weir_result ask(const char *entry);
};
Failure failure;

weir_result Failure::ask(const char *entry) {
  const std::string_view name = entry;
  if (!moving || name == "fence_poll" || name == "stream_query") return WEIR_SUCCESS;
  return failure.meet();
}

uint64_t in_use(World &world) {
  const weir_pool_stats stats = world.stats();
  return stats.device_bytes - stats.device_free_bytes;
}

constexpr uint32_t count = 12;
uint64_t size_of(uint32_t i) { return page_bytes + page_bytes / 8 + 300 * i; }

void what_others_left_is_given_back(void **) {
  bool struck = true;
  int failures = 0;
  for (int64_t n = 1; struck; ++n) {
    World world({.device_pages = 40, .host_pages = 64, .backend = InterposedHost::query});
    std::vector<weir_buffer> buffers(count);
    for (uint32_t i = 0; i < count; ++i) {
      buffers[i] = world.buffer(size_of(i));
      world.fill(buffers[i], size_of(i), i + 1);
    }
    for (uint32_t i = 0; i < count; ++i)
      if (i % 4 != 1) ok(weir_buffer_destroy(world.pool, buffers[i]));
    ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_GRADUAL, WEIR_WHOLE, nullptr));
    failure.arm(n);
    interposed.interpose = Failure::ask;
    interposed.frees = Failure::ask;
    weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
    Task moves([&] {
      Failure::moving = true;
      weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
      desc.flags = WEIR_DEFRAGMENT_WAIT;
      desc.max_moves = 1;
      return weir_pool_defragment(world.pool, &desc, &report);
    });
    failure.await();
    // Everything leaves the device but what is being moved.
    ok(trim_all(world));
    failure.let_go();
    const weir_result result = moves.join();
    interposed.interpose = nullptr;
    interposed.frees = nullptr;
    struck = failure.struck;
    failures += struck && result != WEIR_SUCCESS;
    validate(world);
    ok(trim_all(world));
    assert_int_equal(in_use(world), 0);
    for (uint32_t i = 1; i < count; i += 4) {
      world.check(buffers[i], size_of(i), i + 1);
      ok(weir_buffer_destroy(world.pool, buffers[i]));
    }
    ok(trim_all(world));
    assert_int_equal(in_use(world), 0);
    validate(world);
    world.close();
  }
  assert_true(failures >= 4);  // map, copy, unmap, map
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(what_others_left_is_given_back)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

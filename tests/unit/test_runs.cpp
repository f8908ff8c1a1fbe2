// SPDX-License-Identifier: Apache-2.0
//
// Pages side by side are mapped and unmapped by few calls where the backend takes runs, and one by one where it does not, or
// where a run is refused. The calls are counted in front of the backend; nothing depends on time.

#include "tests/unit/interleaving.hpp"
#include "tests/unit/interposed_host.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t pages = 64;
const uint64_t set_bytes = pages * page_bytes;

/// Calls since they were last asked for, and what answers them.
struct Calls {
  std::atomic<int> map{0}, map_run{0}, unmap{0}, unmap_run{0};
  std::atomic<const char *> refused{nullptr};  ///< the entry whose calls fail
  std::atomic<int> allowed{0};                 ///< ... after so many
  std::atomic<int> stuck{0};                   ///< the n-th call of unmap fails; 0: none

  void reset(const char *refuse = nullptr, int allow = 0) {
    map = map_run = unmap = unmap_run = 0;
    stuck = 0;
    allowed = allow;
    refused = refuse;
  }
};
Calls calls;

weir_result count(const char *entry) {
  const auto is = [entry](const char *name) { return std::strcmp(entry, name) == 0; };
  if (is("map")) ++calls.map;
  if (is("map_run")) ++calls.map_run;
  if (is("unmap")) ++calls.unmap;
  if (is("unmap_run")) ++calls.unmap_run;
  if (is("unmap") && calls.stuck > 0 && --calls.stuck == 0) return WEIR_ERROR_BACKEND;
  const char *refused = calls.refused;
  if (refused == nullptr || !is(refused) || calls.allowed-- > 0) return WEIR_SUCCESS;
  return WEIR_ERROR_BACKEND;
}

/// A pool of 64 pages without background threads, whose calls are counted.
class Counted {
 public:
  explicit Counted(const std::string &options = "")
      : world({.options = std::string(small_host) + options,
               .device_pages = pages,
               .host_pages = 4 * pages,
               .backend = InterposedHost::query}),
        set(world.buffer(set_bytes)) {
    calls.reset();
    interposed.interpose = count;
    interposed.frees = count;
  }
  /// The last line of a test.
  void close() {
    interposed.interpose = nullptr;
    interposed.frees = nullptr;
    calls.reset();
    validate(world);
    ok(weir_buffer_destroy(world.pool, set));
    ok(trim_all(world));
    close_clean(world);
  }
  /// All of the set leaves the device, clean: its bytes are in HOST already.
  void send_away_clean() {
    ok(trim_all(world));
    world.check(set, set_bytes, 1);
    ok(weir_stream_synchronize(world.streams[0]));
    calls.reset();
    ok(trim_all(world));
  }
  void skip_unless_runs(bool wanted = true) {
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    ok(weir_device_info_get(world.context, 0, &info));
    if (((info.capabilities & WEIR_CAP_MAP_RUN) != 0) == wanted) return;
    close();
    skip();
  }
  uint64_t on_device() { return query(world, set).device_bytes; }

  World world;
  weir_buffer set;
};

void a_set_is_mapped_and_unmapped_by_few_calls(void **) {
  Counted it;
  it.skip_unless_runs();
  it.world.fill(it.set, set_bytes, 1);
  // 1, 2, 4, 8, 16, 16, 16 and the last one: the first copy begins after one page is mapped.
  assert_int_equal(calls.map, 2);
  assert_int_equal(calls.map_run, 6);
  it.send_away_clean();
  assert_int_equal(calls.unmap, 0);
  assert_int_equal(calls.unmap_run, 4);
  it.world.check(it.set, set_bytes, 1);
  it.close();
}

void without_runs_each_page_is_mapped_alone(void **) {
  Counted it(";host.map_run=0");
  it.skip_unless_runs(false);  // Level Zero can't be without
  it.world.fill(it.set, set_bytes, 1);
  assert_int_equal(calls.map, pages);
  assert_int_equal(calls.map_run, 0);
  it.send_away_clean();
  assert_int_equal(calls.unmap, pages);
  assert_int_equal(calls.unmap_run, 0);
  it.world.check(it.set, set_bytes, 1);
  it.close();
}

/// What a refused run has claimed goes back, and the bytes are where they were.
void a_refused_run_brings_nothing(void **) {
  Counted it;
  it.skip_unless_runs();
  it.world.fill(it.set, set_bytes, 1);
  ok(trim_all(it.world));
  for (int allow = 0; allow < 6; ++allow) {
    calls.reset("map_run", allow);
    weir_lease lease = nullptr;
    expect_result(WEIR_ERROR_BACKEND, it.world.acquire(it.set, WEIR_READ, &lease));
    assert_non_null(std::strstr(weir_last_error(), "map"));
    assert_int_equal(calls.map_run, allow + 1);
    assert_int_equal(it.on_device(), 0);
    validate(it.world);
  }
  calls.reset();
  it.world.check(it.set, set_bytes, 1);
  it.close();
}

/// A runtime that refuses a run is asked for each page.
void a_run_that_is_not_unmapped_goes_page_by_page(void **) {
  Counted it;
  it.skip_unless_runs();
  it.world.fill(it.set, set_bytes, 1);
  ok(trim_all(it.world));
  it.world.check(it.set, set_bytes, 1);
  calls.reset("unmap_run");
  uint64_t freed = 0;
  ok(trim_all(it.world, &freed));
  assert_int_equal(freed, set_bytes);
  assert_int_equal(calls.unmap, pages);
  assert_int_equal(it.on_device(), 0);
  it.world.check(it.set, set_bytes, 1);
  it.close();
}

/// Of a run that is refused, the page that can't be unmapped alone either stays, with its bytes, and the others go.
void a_page_that_is_not_unmapped_stays(void **) {
  Counted it;
  it.skip_unless_runs();
  it.world.fill(it.set, set_bytes, 1);
  ok(trim_all(it.world));
  it.world.check(it.set, set_bytes, 1);
  ok(weir_stream_synchronize(it.world.streams[0]));
  calls.reset("unmap_run");
  calls.stuck = 6;
  (void)trim_all(it.world);
  assert_int_equal(calls.stuck, 0);
  assert_true(it.world.stats().eviction_failures > 0);
  validate(it.world);
  calls.reset();
  it.world.check(it.set, set_bytes, 1);
  it.close();
}

/// Pages on both sides of one that is leased, and then of one that is there already.
void a_page_in_the_middle_stays(void **) {
  Counted it;
  constexpr uint64_t middle = 20;
  it.world.fill(it.set, set_bytes, 1);
  ok(trim_all(it.world));
  it.world.check(it.set, set_bytes, 1);
  ok(weir_stream_synchronize(it.world.streams[0]));
  weir_use use = WEIR_USE(it.set, WEIR_READ);
  use.offset = middle * page_bytes;
  use.length = page_bytes;
  weir_lease lease = nullptr;
  ok(weir_acquire(it.world.pool, it.world.streams[0], &use, 1, nullptr, &lease));
  calls.reset();
  ok(trim_all(it.world));
  assert_int_equal(it.on_device(), page_bytes);
  assert_int_equal(calls.unmap + calls.unmap_run, 5);  // 16 and 4; 16, 16 and 11
  validate(it.world);
  ok(weir_release(lease, it.world.streams[0]));
  calls.reset();
  it.world.check(it.set, set_bytes, 1);
  assert_int_equal(it.on_device(), set_bytes);
  assert_in_range(calls.map + calls.map_run, 2, 9);
  it.close();
}

/// A page that is asked for while it leaves with its neighbours stays, and they go. The trim's next round takes it.
void a_page_that_is_wanted_stays(void **) {
  Counted it;
  constexpr uint64_t middle = 5;
  it.world.fill(it.set, set_bytes, 1);
  ok(trim_all(it.world));
  it.world.check(it.set, set_bytes, 1);
  ok(weir_stream_synchronize(it.world.streams[0]));
  calls.reset();
  {
    Gate gate(it.world.pool, "evict.claimed");
    Task away([&] { return trim_all(it.world); });
    gate.await();
    weir_use use = WEIR_USE(it.set, WEIR_READ);
    use.offset = middle * page_bytes;
    use.length = page_bytes;
    ok(weir_prefetch(it.world.pool, it.world.streams[0], &use, 1));
    gate.open();
    ok(away.join());
  }
  assert_int_equal(calls.unmap_run, 5);  // 5 and 10; 16, 16 and 16
  assert_int_equal(calls.unmap, 1);
  assert_int_equal(it.on_device(), 0);
  validate(it.world);
  it.world.check(it.set, set_bytes, 1);
  it.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_set_is_mapped_and_unmapped_by_few_calls),
      cmocka_unit_test(without_runs_each_page_is_mapped_alone),
      cmocka_unit_test(a_refused_run_brings_nothing),
      cmocka_unit_test(a_run_that_is_not_unmapped_goes_page_by_page),
      cmocka_unit_test(a_page_that_is_not_unmapped_stays),
      cmocka_unit_test(a_page_in_the_middle_stays),
      cmocka_unit_test(a_page_that_is_wanted_stays),
  };
  return cmocka_run_group_tests_name("runs", tests, nullptr, nullptr);
}

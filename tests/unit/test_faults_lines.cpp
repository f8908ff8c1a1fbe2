// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep of neighbours that share pages, as test_faults.cpp: buffers that end within a page are made, filled, evicted
// by each other, destroyed and made again beside those that stay, where a granule has one address and where it has several.

#include "tests/unit/fault_sweep_emptied.hpp"

#include <string>

namespace {

using namespace weir::test;

constexpr uint32_t buffer_count = 6;
constexpr uint64_t device_pages = 8;
uint64_t size(uint32_t i) { return page_bytes + page_bytes / 2 + 4096 * (i % 2); }

struct Scenario : Emptied {
  void open(Balance *balance, const char *options) {
    open_pages(balance, options, device_pages);
    faults.armed.store(true);
    for (uint32_t i = 0; i < buffer_count; ++i) add(size(i));
  }

  void work() {
    for (uint32_t i = 0; i < buffer_count; ++i) fill(i, i + 1);
    for (uint32_t i = 0; i < buffer_count; ++i) check(i, "first look");
    uint64_t address = 0;
    if (twice("weir_hold", [&] { return weir_hold(pool, contents[2].buffer, 0, &address); })) {
      trim();
      ok(weir_unhold(pool, contents[2].buffer));
    }
    for (uint32_t i = 1; i < buffer_count; i += 2) {
      ok(weir_buffer_destroy(pool, contents[i].buffer));
      weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
      desc.size = contents[i].size = size(i) - 4096;
      contents[i].seed = 0;
      twice("weir_buffer_create",
            [&] { return weir_buffer_create(pool, &desc, &contents[i].buffer); });
      fill(i, 10 + i);
    }
    for (uint32_t i = buffer_count; i-- > 0;) check(i, "second look");
    trim();
    for (uint32_t i = 0; i < buffer_count; ++i) check_read(i);
  }

  void trim() {
    uint64_t freed = 0;
    twice("weir_pool_trim",
          [&] { return weir_pool_trim(pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed); });
  }

  void end() {
    destroy_buffers();
    trim_to_nothing();
    close();
  }
};

constexpr char one[] = "host.memory=4M;host.granule=16K;host.granule_large=0;host.multi_map=0";

void every_backend_call_fails_once(void **state) {
  sweep_with<Scenario>(Kind::backend, static_cast<const char *>(*state));
}
void device_memory_is_refused_once(void **state) {
  sweep_with<Scenario>(Kind::device_oom, static_cast<const char *>(*state));
}
void every_allocation_fails_once(void **state) {
  sweep_with<Scenario>(Kind::allocator, static_cast<const char *>(*state));
}

weir_result no_copy(const char *entry) {
  return std::string(entry).rfind("copy", 0) == 0 ? WEIR_ERROR_BACKEND : WEIR_SUCCESS;
}
weir_result no_unmap(const char *) { return WEIR_ERROR_BACKEND; }

/// One of two neighbours comes, fails, and leaves their page mapped, which is its first. The other has that unmapped before it
/// comes.
void what_was_left_mapped_is_not_in_the_way(void **) {
  Balance balance;
  faults.arm(Kind::backend, 0, INT64_MAX);
  Scenario scenario;
  scenario.open(&balance, one);
  scenario.fill(0, 1);
  scenario.fill(1, 2);
  scenario.trim();
  interposed.interpose.store(no_copy);
  interposed.frees.store(no_unmap);
  weir_use use = WEIR_USE(scenario.contents[1].buffer, WEIR_READ);
  weir_lease lease = nullptr;
  assert_int_equal(weir_acquire(scenario.pool, scenario.stream, &use, 1, nullptr, &lease),
                   WEIR_ERROR_BACKEND);
  interposed.interpose.store(strike);
  interposed.frees.store(nullptr);
  scenario.check(0, "after the failure");
  scenario.trim();
  scenario.check(0, "and again");
  scenario.check_read(1);
  scenario.validate();
  scenario.destroy_buffers();
  scenario.close();
  assert_int_equal(balance.blocks.load(), 0);
}

}  // namespace

#define EACH(test)                                                                      \
  {#test ", one address", test, nullptr, nullptr, const_cast<char *>(one)}, {           \
#test ", several addresses", test, nullptr, nullptr, const_cast < char *>(with_vmm) \
  }

int main() {
  const CMUnitTest tests[] = {
      EACH(every_backend_call_fails_once),
      EACH(device_memory_is_refused_once),
      EACH(every_allocation_fails_once),
      cmocka_unit_test(what_was_left_mapped_is_not_in_the_way),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
//
// The C functions over the offset allocator: what they refuse and in which words, handles that outlived
// their allocation, the struct_size rules. What the allocator itself does is in test_arena.cpp.

#include "core/base/status.hpp"

#include <weir/arena.h>

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <functional>

extern "C" {
#include <cmocka.h>
}

namespace {

weir_arena create(uint64_t size, uint64_t quantum) {
  weir_arena_desc desc = WEIR_ARENA_DESC_INIT;
  desc.size = size;
  desc.quantum = quantum;
  weir_arena arena = nullptr;
  assert_int_equal(weir_arena_create(&desc, &arena), WEIR_SUCCESS);
  return arena;
}

void refuses_bad_descriptors(void **) {
  const auto refused = [](const std::function<void(weir_arena_desc &)> &spoil) {
    weir_arena_desc desc = WEIR_ARENA_DESC_INIT;
    desc.size = 4096;
    spoil(desc);
    weir_arena arena = nullptr;
    assert_int_equal(weir_arena_create(&desc, &arena), WEIR_ERROR_INVALID_ARGUMENT);
    assert_null(arena);
    assert_string_not_equal(weir::last_error().text, "");
  };
  refused([](auto &d) { d.size = 0; });
  refused([](auto &d) { d.size = (uint64_t{1} << 48) + 1; });
  refused([](auto &d) { d.quantum = 3; });
  refused([](auto &d) { d.quantum = 8192; });
  refused([](auto &d) { d.reserved = 1; });
  refused([](auto &d) { d.struct_size = 0; });
  weir_arena_desc desc = WEIR_ARENA_DESC_INIT;
  desc.size = 1;
  assert_int_equal(weir_arena_create(nullptr, nullptr), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_arena_create(&desc, nullptr), WEIR_ERROR_INVALID_ARGUMENT);
  desc.quantum = 7;  // beyond the size the caller knows: not read
  desc.struct_size = offsetof(weir_arena_desc, quantum);
  weir_arena arena = nullptr;
  assert_int_equal(weir_arena_create(&desc, &arena), WEIR_SUCCESS);
  weir_arena_destroy(arena);
  weir_arena_destroy(nullptr);
}

void knows_stale_handles(void **) {
  weir_arena arena = create(4096, 256);
  weir_arena_allocation a = 0, b = 0;
  uint64_t offset = 1, size = 1;
  assert_int_equal(weir_arena_allocate(arena, 100, 0, &a, &offset), WEIR_SUCCESS);
  assert_int_not_equal(a, 0);
  assert_int_equal(weir_arena_info(arena, a, &offset, &size), WEIR_SUCCESS);
  assert_int_equal(offset, 0);
  assert_int_equal(size, 256);
  assert_int_equal(weir_arena_free(arena, a), WEIR_SUCCESS);
  assert_int_equal(weir_arena_free(arena, a), WEIR_ERROR_INVALID_HANDLE);
  assert_int_equal(weir_arena_allocate(arena, 100, 512, &b, &offset), WEIR_SUCCESS);
  assert_int_equal(static_cast<uint32_t>(a), static_cast<uint32_t>(b));  // the node, used again
  assert_int_not_equal(a, b);
  for (const weir_arena_allocation wrong : {a, b + 1, uint64_t{0}, UINT64_MAX, uint64_t{1} << 32}) {
    assert_int_equal(weir_arena_free(arena, wrong), WEIR_ERROR_INVALID_HANDLE);
    assert_int_equal(weir_arena_info(arena, wrong, &offset, &size), WEIR_ERROR_INVALID_HANDLE);
  }
  assert_int_equal(weir_arena_free(nullptr, b), WEIR_ERROR_INVALID_HANDLE);
  assert_int_equal(weir_arena_validate(nullptr), WEIR_ERROR_INVALID_HANDLE);
  assert_int_equal(weir_arena_validate(arena), WEIR_SUCCESS);
  weir_arena_destroy(arena);
}

void refuses_with_the_numbers(void **) {
  weir_arena arena = create(4096, 256);
  weir_arena_allocation a = 77;
  uint64_t offset = 78;
  assert_int_equal(weir_arena_allocate(arena, 4097, 1, &a, &offset), WEIR_ERROR_OVER_BUDGET);
  assert_int_equal(a, 77);
  assert_int_equal(offset, 78);
  assert_int_equal(weir::last_error().result, WEIR_ERROR_OVER_BUDGET);
  assert_int_equal(weir::last_error().detail.asked, 4097);
  assert_int_equal(weir::last_error().detail.available, 4096);
  assert_string_equal(weir::last_error().text,
                      "no free range of 4097 units at alignment 1; the largest has 4096");
  for (const uint64_t alignment : {uint64_t{3}, uint64_t{1} << 31}) {
    assert_int_equal(weir_arena_allocate(arena, 1, alignment, &a, &offset),
                     WEIR_ERROR_INVALID_ARGUMENT);
  }
  assert_int_equal(weir_arena_allocate(arena, 0, 1, &a, &offset), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_arena_allocate(arena, 1, 1, nullptr, &offset), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_arena_allocate(arena, 1, 1, &a, nullptr), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_arena_allocate(arena, 4096, 1, &a, &offset), WEIR_SUCCESS);
  assert_int_equal(weir_arena_resize(arena, 2048), WEIR_ERROR_BUSY);
  assert_int_equal(weir_arena_resize(arena, 0), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_arena_resize(arena, 255), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_arena_resize(arena, 8192), WEIR_SUCCESS);
  weir_arena_stats stats = WEIR_ARENA_STATS_INIT;
  stats.node_bytes = 5;
  stats.struct_size = offsetof(weir_arena_stats, node_bytes);
  assert_int_equal(weir_arena_stats_get(arena, &stats), WEIR_SUCCESS);
  assert_int_equal(stats.allocations, 1);
  assert_int_equal(stats.size, 8192);
  assert_int_equal(stats.used, 4096);
  assert_int_equal(stats.free, 4096);
  assert_int_equal(stats.largest_free, 4096);
  assert_int_equal(stats.free_ranges, 1);
  assert_int_equal(stats.node_bytes, 5);
  assert_int_equal(weir_arena_stats_get(arena, nullptr), WEIR_ERROR_INVALID_ARGUMENT);
  weir_arena_destroy(arena);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(refuses_bad_descriptors),
      cmocka_unit_test(knows_stale_handles),
      cmocka_unit_test(refuses_with_the_numbers),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

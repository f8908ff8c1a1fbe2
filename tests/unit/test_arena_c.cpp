// SPDX-License-Identifier: Apache-2.0
//
// The C functions over the offset allocator: what they refuse and in which words, handles that outlived
// their allocation, the struct_size rules, the report, the walk, and host memory that fails at every position:
// operator new is this program's. What the allocator itself does is in test_arena.cpp.

#include "core/base/status.hpp"

#include <weir/arena.h>

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {
uint64_t news_left = UINT64_MAX;  ///< until one fails
uint64_t news_failed = 0;
}  // namespace

// Not inlined: GCC 14 would see free() of what operator new gave, and warn.
[[gnu::noinline]] void *operator new(size_t bytes) {
  if (news_left-- == 0) {
    ++news_failed;
    throw std::bad_alloc();
  }
  if (void *memory = std::malloc(bytes > 0 ? bytes : 1); memory != nullptr) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept { std::free(memory); }
// Memory resources ask with an alignment, here never of more than malloc gives.
[[gnu::noinline]] void *operator new(size_t bytes, std::align_val_t) { return operator new(bytes); }
[[gnu::noinline]] void operator delete(void *memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
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
  assert_int_equal(weir_arena_stats_get(arena, &stats), WEIR_SUCCESS);
  assert_int_equal(stats.allocations, 1);
  assert_int_equal(stats.size, 8192);
  assert_int_equal(stats.used, 4096);
  assert_int_equal(stats.free, 4096);
  assert_int_equal(stats.largest_free, 4096);
  assert_int_equal(stats.free_ranges, 1);
  assert_true(stats.node_bytes > 0);
  assert_int_equal(weir_arena_stats_get(arena, nullptr), WEIR_ERROR_INVALID_ARGUMENT);
  weir_arena_destroy(arena);
}

// ---- the report and the walk ----

struct Walked {
  weir_arena arena;
  std::vector<weir_arena_range> ranges;
  size_t stop_at = SIZE_MAX;
};

weir_result visit(void *user, const weir_arena_range *range) {
  Walked &walked = *static_cast<Walked *>(user);
  walked.ranges.push_back(*range);
  return walked.ranges.size() == walked.stop_at ? WEIR_NOT_READY : WEIR_SUCCESS;
}

void reports_every_class(void **) {
  weir_arena arena = create(uint64_t{1} << 48, 0);
  weir_arena_report report = WEIR_ARENA_REPORT_INIT;
  assert_int_equal(weir_arena_report_get(arena, &report), WEIR_SUCCESS);
  assert_int_equal(report.classes[48].free_ranges, 1);
  assert_int_equal(report.tail, uint64_t{1} << 48);
  assert_int_equal(report.fragmentation_ppm, 0);
  weir_arena_allocation a[5];
  uint64_t offset = 0;
  const uint64_t sizes[5] = {1, 3, 4, uint64_t{1} << 40, (uint64_t{1} << 41) - 1};
  for (int i = 0; i < 5; ++i) {
    assert_int_equal(weir_arena_allocate(arena, sizes[i], 1, &a[i], &offset), WEIR_SUCCESS);
  }
  assert_int_equal(weir_arena_free(arena, a[1]), WEIR_SUCCESS);
  assert_int_equal(weir_arena_free(arena, a[3]), WEIR_SUCCESS);
  assert_int_equal(weir_arena_report_get(arena, &report), WEIR_SUCCESS);
  const uint64_t used = 1 + 4 + sizes[4];
  assert_int_equal(report.size, uint64_t{1} << 48);
  assert_int_equal(report.used, used);
  assert_int_equal(report.free, report.size - used);
  assert_int_equal(report.live_ranges, 3);
  assert_int_equal(report.free_ranges, 3);
  assert_int_equal(report.largest_live, sizes[4]);
  assert_int_equal(report.largest_free, report.tail);
  assert_int_equal(report.tail, report.size - used - 3 - sizes[3]);
  assert_int_equal(report.classes[0].live_ranges, 1);
  assert_int_equal(report.classes[1].free_units, 3);
  assert_int_equal(report.classes[2].live_units, 4);
  assert_int_equal(report.classes[40].free_ranges, 1);
  assert_int_equal(report.classes[40].live_units, sizes[4]);
  assert_int_equal(report.classes[47].free_ranges, 1);
  // 2^40 + 3 of 2^48 - 2^41 - 4 free units are not the largest: 3937.0 in a million.
  assert_int_equal(report.fragmentation_ppm, 3937);
  assert_int_equal(report.classes[63].free_ranges, 0);  // longer than an arena can be
  assert_int_equal(weir_arena_report_get(arena, nullptr), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_arena_report_get(nullptr, &report), WEIR_ERROR_INVALID_HANDLE);
  weir_arena_destroy(arena);
}

void walks_without_gaps(void **) {
  weir_arena arena = create(1000, 1);
  Walked walked{arena, {}};
  weir_arena_allocation a = 0, b = 0;
  uint64_t offset = 0;
  assert_int_equal(weir_arena_allocate(arena, 100, 1, &a, &offset), WEIR_SUCCESS);
  assert_int_equal(weir_arena_allocate(arena, 10, 256, &b, &offset), WEIR_SUCCESS);
  assert_int_equal(weir_arena_walk(arena, visit, &walked), WEIR_SUCCESS);
  const weir_arena_range expected[] = {{a, 0, 100}, {0, 100, 156}, {b, 256, 10}, {0, 266, 734}};
  assert_int_equal(walked.ranges.size(), 4);
  assert_memory_equal(walked.ranges.data(), expected, sizeof(expected));
  walked.ranges.clear();
  walked.stop_at = 2;
  assert_int_equal(weir_arena_walk(arena, visit, &walked), WEIR_NOT_READY);
  assert_int_equal(walked.ranges.size(), 2);
  assert_int_equal(weir_arena_walk(arena, nullptr, nullptr), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_arena_walk(nullptr, visit, &walked), WEIR_ERROR_INVALID_HANDLE);
  weir_arena_destroy(arena);
}

/// Looks at the arena in every way, and fails to change it in any.
weir_result meddle(void *user, const weir_arena_range *range) {
  Walked &walked = *static_cast<Walked *>(user);
  weir_arena_allocation allocation = 0;
  uint64_t offset = 0, size = 0;
  assert_int_equal(weir_arena_allocate(walked.arena, 1, 1, &allocation, &offset), WEIR_ERROR_BUSY);
  assert_int_equal(weir_arena_free(walked.arena, range->allocation), WEIR_ERROR_BUSY);
  assert_int_equal(weir_arena_resize(walked.arena, 2000), WEIR_ERROR_BUSY);
  assert_int_equal(weir_arena_validate(walked.arena), WEIR_SUCCESS);
  if (range->allocation != 0) {
    assert_int_equal(weir_arena_info(walked.arena, range->allocation, &offset, &size),
                     WEIR_SUCCESS);
    assert_int_equal(offset, range->offset);
    assert_int_equal(size, range->size);
  }
  Walked inner{walked.arena, {}};
  assert_int_equal(weir_arena_walk(walked.arena, visit, &inner), WEIR_SUCCESS);
  walked.ranges.push_back(*range);
  return WEIR_SUCCESS;
}

void a_visitor_may_look_but_not_touch(void **) {
  weir_arena arena = create(1000, 1);
  weir_arena_allocation a = 0;
  uint64_t offset = 0;
  assert_int_equal(weir_arena_allocate(arena, 100, 1, &a, &offset), WEIR_SUCCESS);
  Walked walked{arena, {}};
  assert_int_equal(weir_arena_walk(arena, meddle, &walked), WEIR_SUCCESS);
  assert_int_equal(walked.ranges.size(), 2);
  assert_int_equal(weir_arena_free(arena, a), WEIR_SUCCESS);  // the walk is over
  weir_arena_destroy(arena);
}

// ---- no host memory ----

/// Runs a call until it has memory: one that fails must say so, and the arena must be as it was.
template <class Call>
void insist(weir_arena arena, Call &&call) {
  const auto shown = [&] {
    Walked walked{arena, {}};
    walked.ranges.reserve(64);
    assert_int_equal(weir_arena_walk(arena, visit, &walked), WEIR_SUCCESS);
    return walked.ranges;
  };
  const uint64_t left = news_left;
  news_left = UINT64_MAX;
  const std::vector<weir_arena_range> before = shown();
  news_left = left;
  weir_result result = call();
  if (result != WEIR_ERROR_OUT_OF_HOST_MEMORY) {
    assert_int_equal(result, WEIR_SUCCESS);
    return;
  }
  const std::vector<weir_arena_range> after = shown();
  assert_int_equal(before.size(), after.size());
  assert_memory_equal(before.data(), after.data(), before.size() * sizeof(before[0]));
  assert_int_equal(weir_arena_validate(arena), WEIR_SUCCESS);
  assert_int_equal(call(), WEIR_SUCCESS);
}

void host_memory_fails_at_every_position(void **) {
  uint64_t position = 0;
  do {
    news_failed = 0;
    news_left = position++;
    weir_arena_desc desc = WEIR_ARENA_DESC_INIT;
    desc.size = 64;
    weir_arena arena = nullptr;
    if (weir_result result = weir_arena_create(&desc, &arena); result != WEIR_SUCCESS) {
      assert_int_equal(result, WEIR_ERROR_OUT_OF_HOST_MEMORY);
      assert_null(arena);
      assert_int_equal(weir_arena_create(&desc, &arena), WEIR_SUCCESS);
    }
    for (uint64_t i = 0; i < 12; ++i) {
      weir_arena_allocation a = 0;
      uint64_t offset = 0;
      insist(arena, [&] { return weir_arena_allocate(arena, 1, 4, &a, &offset); });
      insist(arena, [&] { return weir_arena_resize(arena, uint64_t{64} << i); });
    }
    news_left = UINT64_MAX;
    weir_arena_destroy(arena);
  } while (news_failed != 0);
  assert_true(position > 8);  // the arena, its two tables and some growth
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(refuses_bad_descriptors),
      cmocka_unit_test(knows_stale_handles),
      cmocka_unit_test(refuses_with_the_numbers),
      cmocka_unit_test(reports_every_class),
      cmocka_unit_test(walks_without_gaps),
      cmocka_unit_test(a_visitor_may_look_but_not_touch),
      cmocka_unit_test(host_memory_fails_at_every_position),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
